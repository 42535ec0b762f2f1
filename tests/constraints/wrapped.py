"""Kernels that only kernels call, wrapped so that tests can."""

from __future__ import annotations

import numba
import numpy as np

from limberjack.constraints import rows
from limberjack.maximal import bodies as body_room
from limberjack.maximal import rows as maximal

_set_pair, _row, _relative = rows.set_pair, rows.row, rows.relative_rotation
_evaluate, _take_inertia = maximal.evaluate, body_room.set_inertial_forces
_move, _rates = body_room.move_bodies, body_room.pose_rates

_jit = numba.njit(_nrt=False)


@_jit
def _rows(table, time, ends, state, near, wrench, values, turned):
    for k in range(len(table.pair_link)):
        _set_pair(k, table.pair_link, table.pair_frame, ends, state)
        turned[k, 0], turned[k, 1], turned[k, 2], turned[k, 3] = _relative(state, k)
    for r in range(len(table.joint)):
        _row(table, r, time, state, near, wrench, values)


@_jit
def _all(bodies, system, table, touch, soft, count, pose, u, e, gravity, f, rates):
    _evaluate(bodies, system, table, touch, soft, 0.0, count, pose, u, e)
    _take_inertia(bodies, gravity, pose, e.ends, f)
    _rates(bodies, pose, u, rates)


@_jit
def _moved(bodies, h, u, pose):
    _move(bodies, h, u, pose)


def look(table, ends, near=None, time=0.0):
    """Return (values, wrenches, state, angles near, relative rotations) of all rows of a table at the ends given."""
    p, r = len(table.pair_link), len(table.joint)
    near = np.zeros(len(table.weights)) if near is None else near.copy()
    out = np.zeros((p, rows.PAIR)), near, np.zeros((r, 12)), np.zeros((r, 3)), np.zeros((p, 4))
    _rows(table, time, np.ascontiguousarray(ends), *out)
    state, near, wrench, values, turned = out
    return values, wrench, state, near, turned


def evaluate(whole, pose, u, gravity=(0.0, 0.0, 0.0), near=None):
    """Return (evaluation, forces of inertia and gravity, rates of the poses) of a model in maximal coordinates."""
    e, f, rates = maximal.new_evaluation(whole), np.zeros_like(u), np.zeros_like(pose)
    if near is not None:
        e.near[:] = near
    count = int(whole.system.row_start[-1])
    model = (whole.bodies, whole.system, whole.table, whole.row_block, whole.scalable_pairs)
    _all(*model, count, pose, u, e, np.array(gravity, float), f, rates)
    return e, f, rates


def moved(whole, h, u, pose):
    """Return the poses moved by h u."""
    pose = pose.copy()
    _moved(whole.bodies, h, u, pose)
    return pose
