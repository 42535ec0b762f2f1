"""The public functions of a tree: forward and inverse dynamics, mass matrix, kinematics, Jacobian.

Each validates, calls one kernel of `measure.py` and raises from its status with names. Work arrays are cached per model
and thread.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from limberjack._jit import entry
from limberjack.errors import StateError, Status
from limberjack.model.arrays import Drives, blocks_of, whole_span
from limberjack.model.model import Model
from limberjack.reduced.measure import tree_accelerations, tree_forces, tree_inertia, tree_jacobian, tree_poses
from limberjack.reduced.work import Work, new_work

__all__ = [
    "array_of",
    "explain",
    "forward_dynamics",
    "forward_kinematics",
    "inverse_dynamics",
    "jacobian",
    "mass_matrix",
    "passive_drives",
    "scratch",
]


class _Scratch:
    """Work arrays of one model on one thread."""

    def __init__(self, model: Model) -> None:
        self.work: Work = new_work(model.arrays.links)
        self.span = whole_span(model.arrays.links, model.arrays.drives)
        self.blocks = blocks_of(model.arrays.links, model.arrays.drives, 0, len(model.arrays.links.parent))
        self.block = self.span.copy()
        self.passive: Drives = passive_drives(model)
        self.tau, self.added, self.rest = np.zeros(model.nv), np.zeros(model.nv), np.zeros(model.nv)
        self.no_wrenches = np.zeros((0, 6))
        self.forward: Any = tree_accelerations
        self.derivatives: Any = None


def scratch(model: Model) -> _Scratch:
    """Return the work arrays of a model on this thread."""
    key = threading.get_ident()
    found = model.workspace.get(key)
    if found is None:
        found = model.workspace[key] = _Scratch(model)
    return found


def passive_drives(model: Model) -> Drives:
    """Return the model's drives with dampers and springs only: no soft limits, no motors."""
    scalar, ball = model.arrays.drives.scalar.copy(), model.arrays.drives.ball.copy()
    scalar[:, 5:9] = 0.0
    ball[:, 9:13] = 0.0
    return model.arrays.drives._replace(scalar=scalar, ball=ball)


def array_of(value: Any, shape: tuple[int, ...], what: str, model: Model) -> np.ndarray:
    """Return `value` as a finite float64 C array of `shape`, or raise naming what is wrong with it."""
    try:
        array = np.array(value, np.float64, order="C")  # a copy: kernels take writable arrays only
    except (TypeError, ValueError):
        raise StateError(f"{what} must be numbers of shape {shape}, got {type(value).__name__}") from None
    if array.shape != shape:
        raise StateError(f'{what} must have shape {shape} for model "{model.name}", got {array.shape}')
    bad = np.flatnonzero(~np.isfinite(array.ravel()))
    if bad.size:
        where = ", ".join(map(str, np.unravel_index(int(bad[0]), shape)))
        raise StateError(f"{what}[{where}] is {array.ravel()[bad[0]]}: every number must be finite")
    return array


def _quick(value: Any, shape: tuple[int, ...], what: str, model: Model) -> np.ndarray:
    """Return `value` unchanged when it is ready for a kernel (its numbers are checked there), else `array_of` it."""
    if type(value) is np.ndarray and value.dtype == np.float64 and value.shape == shape and value.flags.carray:
        return value
    return array_of(value, shape, what, model)


def forward_dynamics(model: Model, q: Any, qd: Any, tau: Any = None, wrenches: Any = None) -> np.ndarray:
    """Return the accelerations qdd (nv,) of the tree.

    Armature, joint damping and joint stiffness act; motors, dry friction, limits, loops, gears and contacts do not.

    Args:
        model: the model.
        q: (nq,) coordinates.
        qd: (nv,) velocities.
        tau: (nv,) joint forces [N m or N]; None = 0.
        wrenches: (body_count, 6) torque about each body's com, then force, world axes; None = 0.
    """
    s, a = scratch(model), model.arrays
    q, qd = _quick(q, (model.nq,), "q", model), _quick(qd, (model.nv,), "qd", model)
    tau = s.rest if tau is None else _quick(tau, (model.nv,), "tau", model)
    wrenches = s.no_wrenches if wrenches is None else _quick(wrenches, (model.body_count, 6), "wrenches", model)
    qdd = np.empty(model.nv)
    status = s.forward(
        a.links, s.passive, a.body_link, a.body_offset, a.body_com, s.blocks, s.block, q, qd, tau, wrenches, s.work,
        s.tau, s.added, qdd,
    )  # fmt: skip
    if s.forward is tree_accelerations:
        s.forward = entry(tree_accelerations)
    if status:
        explain(model, status, (("q", q), ("qd", qd), ("tau", tau), ("wrenches", wrenches)))
    return qdd


def explain(model: Model, status: int, arrays: tuple[tuple[str, np.ndarray], ...]) -> None:
    """Raise for a result that is not a number: a bad input by name, or a joint without inertia."""
    for name, array in arrays:
        array_of(array, array.shape, name, model)
    for iq, v in model.arrays.links.quaternions:
        if not arrays[0][1][iq : iq + 4].any():
            raise StateError(f'q[{iq}:{iq + 4}] of joint "{model.dof_name(int(v))}" is a quaternion of length 0')
    kind, dof = Status.of(status)
    if kind == Status.NO_INERTIA:
        raise StateError(f'joint "{model.dof_name(dof)}" has no inertia to act on in this pose')
    raise StateError("the result overflows: some number in the state is too large")


def inverse_dynamics(model: Model, q: Any, qd: Any, qdd: Any, wrenches: Any = None) -> np.ndarray:
    """Return the joint forces tau (nv,) that give the accelerations qdd: the exact inverse of `forward_dynamics`.

    Args:
        model: the model.
        q: (nq,) coordinates.
        qd: (nv,) velocities.
        qdd: (nv,) accelerations.
        wrenches: (body_count, 6) as for `forward_dynamics`.
    """
    s, a = scratch(model), model.arrays
    q, qd = _quick(q, (model.nq,), "q", model), _quick(qd, (model.nv,), "qd", model)
    qdd = _quick(qdd, (model.nv,), "qdd", model)
    wrenches = s.no_wrenches if wrenches is None else _quick(wrenches, (model.body_count, 6), "wrenches", model)
    tau = np.empty(model.nv)
    if tree_forces(
        a.links,
        s.passive,
        a.body_link,
        a.body_offset,
        a.body_com,
        s.span,
        q,
        qd,
        qdd,
        wrenches,
        s.work,
        s.rest,
        s.tau,
        s.added,
        tau,
    ):
        explain(model, 0, (("q", q), ("qd", qd), ("qdd", qdd), ("wrenches", wrenches)))
    return tau


def mass_matrix(model: Model, q: Any) -> np.ndarray:
    """Return the joint-space inertia (nv, nv) at q, armature included.

    Args:
        model: the model.
        q: (nq,) coordinates.
    """
    s = scratch(model)
    matrix = np.zeros((model.nv, model.nv))
    q = array_of(q, (model.nq,), "q", model)
    tree_inertia(model.arrays.links, s.span, q, s.rest, s.work, matrix)
    if not np.isfinite(matrix).all():
        explain(model, 0, (("q", q),))
    return matrix


def forward_kinematics(model: Model, q: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return (positions (body_count, 3), rotations (body_count, 4)) of the body frames at q.

    Args:
        model: the model.
        q: (nq,) coordinates.
    """
    s, a = scratch(model), model.arrays
    positions, rotations = np.empty((model.body_count, 3)), np.empty((model.body_count, 4))
    q = array_of(q, (model.nq,), "q", model)
    tree_poses(a.links, a.body_link, a.body_offset, s.span, q, s.rest, s.work, positions, rotations)
    if not (np.isfinite(positions).all() and np.isfinite(rotations).all()):
        explain(model, 0, (("q", q),))
    return positions, rotations


def jacobian(model: Model, q: Any, body: str, point: Any = None) -> np.ndarray:
    """Return the Jacobian (6, nv), angular then linear, world axes, of a point moving with `body`.

    Args:
        model: the model.
        q: (nq,) coordinates.
        body: name of the body.
        point: (3,) in the world; None takes the body's com.
    """
    s, a = scratch(model), model.arrays
    b = model.body_index(body)
    local = a.body_com[b] if point is None else array_of(point, (3,), "point", model)
    matrix = np.zeros((6, model.nv))
    q = array_of(q, (model.nq,), "q", model)
    tree_jacobian(a.links, a.body_link, a.body_offset, s.span, q, s.rest, b, local, point is not None, s.work, matrix)
    if not np.isfinite(matrix).all():
        explain(model, 0, (("q", q),))
    return matrix
