"""The constraints of a model as displacements of solids: what stays (`Net`) and what a correction works on (`Work`).

Every body is a solid of six displacements here, (dtheta, dx) in world axes about its com; those it cannot make, as the
turn of a particle, have inverse inertia 0. Constraints stand in the order: joints and couplings, one-sided rows, driven
coordinates, trackers. A tracker is a joint to a solid of null inverse mass: it moves as told and drags what it holds.

Metrics, (n, 7) inverse inertia xx yy zz xy xz yz in body axes and inverse mass:

| metric | mass | inertia | for |
|---|---|---|---|
| unit | 1 | k^2, k 1.6 times the reach of the solid's joints from its com | assembly, dragging |
| physical | m | I | dynamics |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack.constraints.bodies import AFFINE, PARTICLE, PLANAR, POSE, RIGID
from limberjack.constraints.maximal import Maximal
from limberjack.constraints.system import System, new_system
from limberjack.constraints.table import DRIVE
from limberjack.maximal.meeting import Setup
from limberjack.model.joints import KINDS
from limberjack.model.model import Model
from limberjack.solvers.krylov import Krylov, new_krylov

__all__ = [
    "KEPT",
    "LEVER",
    "MOST",
    "PLACE",
    "SOFT",
    "TARGET",
    "TRACK",
    "TURNED",
    "TURNS",
    "Net",
    "Work",
    "new_net",
    "new_setup",
    "new_work",
]

# Columns of a tracker: point held, from the com in body axes; where it is drawn to; rotation it draws to and whether it
# does; stiffness, damping, largest force, and the lever that makes torques of forces. Stiffness 0 means rigid.
PLACE, TARGET, TURNED, TURNS, SOFT, MOST, LEVER, TRACK = 0, 3, 6, 10, 11, 13, 14, 15
# Solutions kept for the solves to come: dragged structures recover within a second at 2 x 5 iterations.
KEPT = 4
# Of the median reach of all solids, what the reach of a small one counts as.
_FLOOR = 0.25
# Solids that turn less for the same error keep the linearisation longer: 6 x 30 iterations on 758 rows end at 3e-6 m
# with 1, at 6e-7 with 1.6; more slows the recovery of structures that were pulled apart.
_REACH = 1.6


class Net(NamedTuple):
    """What stays while solids are moved; n solids, nc constraints, nr rows."""

    system: System  # of all constraints on solids with six displacements
    turning: np.ndarray  # (t, 5) first row, pair, rows (2 = swing, 3 = whole rotation), places in J on b and on a or -1
    ends: np.ndarray  # (3,) constraints up to the end of: held; one-sided; driven
    rows: np.ndarray  # (3,) their rows
    driven: np.ndarray  # (d,) constraints of the model that read the driven coordinates
    unit: np.ndarray  # (n, 7) metrics
    physical: np.ndarray  # (n, 7)
    pairs: np.ndarray  # (nc,) bool: which constraints act with opposite wrenches at one point, or on one solid


class Work(NamedTuple):
    """What a correction works on; never shared between threads."""

    source: np.ndarray  # flat rows of all constraints
    j: np.ndarray  # flat rows of those that act, 0 elsewhere
    value: np.ndarray  # (nr,) errors
    b: np.ndarray  # (nr,) right sides
    c: np.ndarray  # (nr,) compliance
    lam: np.ndarray  # (nr,) multipliers of the last solve
    total: np.ndarray  # (nr,) their sum over a step
    on: np.ndarray  # (nc,) int64: whether a constraint acts
    minv: np.ndarray  # (n, 7) world axes
    f: np.ndarray  # (6 n,)
    d: np.ndarray  # (6 n,) displacements
    free: np.ndarray  # (n,) 1 where a solid may move, 0 where its inverse mass is null
    aim: np.ndarray  # (d, 2) values of driven coordinates at time 0 and their rates
    held: np.ndarray  # (T,) int64 bodies that trackers hold, -1 = none
    track: np.ndarray  # (T, TRACK)
    first: np.ndarray  # (T, 6) errors of trackers at the start of a step
    cut: np.ndarray  # (T, 6) int64: 1 where a tracker pulls with its largest force
    pull: np.ndarray  # (T, 6) what trackers pulled with in the last step
    start: np.ndarray  # (n, POSE) poses at the start of the step, or (0, POSE) where there are no steps
    turning: np.ndarray  # (n, 6) as of `turning.set_turning`; (0, 6) where forces are not followed
    walk: np.ndarray  # (m, 4) as of `limits.limit_walk`; (0, 4) where limits are rows like others
    moves: np.ndarray  # (n, 7) how bodies go back within limits
    krylov: Krylov
    report: np.ndarray  # (6,) iterations outer and inner, worst error, its row, status of the last solve, |errors|
    solve: np.ndarray  # (3,) of the last solve


def new_setup(model: Model, whole: Maximal) -> Setup:
    """Return what the rows of a model are evaluated with."""
    reads = int((whole.table.role == DRIVE).sum())
    counts = np.array([whole.held, len(whole.names) - reads, len(whole.names)], np.int64)
    return Setup(
        whole.bodies, whole.system, whole.table, whole.touch, whole.soft, whole.center, counts,
        model.arrays.links.gravity,
    )  # fmt: skip


def new_net(model: Model, whole: Maximal, *, driven: tuple[int, ...] = (), trackers: int = 0) -> Net:
    """Return the net of a model.

    Args:
        model: the model.
        whole: the same in maximal coordinates.
        driven: its constraints that read driven coordinates.
        trackers: how many trackers there may be.
    """
    native, bodies = whole.system, whole.bodies
    reads = int((whole.table.role == DRIVE).sum())
    sided = len(whole.names) - reads
    counts, touches = [], []
    listed = (*range(sided), *driven)
    for c in listed:
        counts.append(int(native.row_start[c + 1] - native.row_start[c]))
        touches.append(native.touch_body[native.touch_start[c] : native.touch_start[c + 1]].tolist())
    n = len(bodies.kind)
    for _ in range(trackers):
        counts.append(6)
        touches.append([0])  # whichever body it holds: its block is as large
    system = new_system(np.full(n, 6), np.array(counts, np.int64), touches)
    ends = np.array([whole.held, sided, sided + len(driven)], np.int64)
    unit, physical = _metrics(whole)
    turning, rows = _turning(model, whole, system), system.row_start[ends]
    pairs = np.array([_is_pair(whole, c) for c in listed] + [True] * trackers, bool)
    return Net(system, turning, ends, rows, np.array(driven, np.int64), unit, physical, pairs)


def new_work(net: Net) -> Work:
    """Return the arrays of corrections."""
    n, nc, nr = len(net.unit), len(net.system.row_start) - 1, int(net.system.row_start[-1])
    trackers, blocks = nc - int(net.ends[2]), int(net.system.block_start[-1])
    on = np.ones(nc, np.int64)
    on[net.ends[0] :] = 0
    return Work(
        source=np.zeros(blocks), j=np.zeros(blocks), value=np.zeros(nr), b=np.zeros(nr), c=np.zeros(nr),
        lam=np.zeros(nr), total=np.zeros(nr), on=on, minv=np.zeros((n, 7)), f=np.zeros(6 * n), d=np.zeros(6 * n),
        free=np.ones(n), aim=np.zeros((len(net.driven), 2)), held=np.full(trackers, -1, np.int64),
        track=np.zeros((trackers, TRACK)), first=np.zeros((trackers, 6)), cut=np.zeros((trackers, 6), np.int64),
        pull=np.zeros((trackers, 6)), start=np.zeros((0, POSE)), walk=np.zeros((0, 4), np.int64),
        turning=np.zeros((0, 6)), moves=np.zeros((n, 7)),
        krylov=new_krylov(net.system, KEPT, net.pairs), report=np.zeros(6), solve=np.zeros(3),
    )  # fmt: skip


def _turning(model: Model, whole: Maximal, system: System) -> np.ndarray:
    """Return the joints whose rotation errors are rotation vectors: hinges and the like, and those that do not turn."""
    out, table = [], whole.table
    for c in range(whole.held):
        r = int(system.row_start[c])
        if table.joint[r] >= model.joint_count:
            continue
        mask = KINDS[model.joint_spec(model.joint_names[int(table.joint[r])]).kind].mask
        count = 2 if mask[:3] == (True, True, False) else 3 if mask[:3] == (True, True, True) else 0
        pair = int(table.row_pair[r, 0])
        links = [int(i) for i in table.pair_link[pair]]
        flat = all(i < 0 or whole.bodies.kind[i] == PLANAR for i in links)
        if count == 0 or flat or model.joint_spec(model.joint_names[int(table.joint[r])]).kind == "compound":
            continue
        place = {int(system.touch_body[t]): int(system.block_start[t]) for t in _touches(system, c)}
        out.append((r, pair, count, place.get(links[1], -1), place.get(links[0], -1)))
    return np.array(out, np.int64).reshape(-1, 5)


def _is_pair(whole: Maximal, c: int) -> bool:
    """Return whether constraint c acts on one solid, or on two rigid ones with opposite wrenches at one point."""
    native, table = whole.system, whole.table
    bodies = native.touch_body[native.touch_start[c] : native.touch_start[c + 1]]
    rows = table.row_pair[native.row_start[c] : native.row_start[c + 1]]
    links = table.pair_link[rows[:, 0]]
    one = (rows[:, 1] < 0).all() and (links == links[0]).all()
    return len(bodies) == 1 or bool(one and (whole.bodies.kind[bodies] == RIGID).all())


def _touches(system: System, c: int) -> range:
    return range(int(system.touch_start[c]), int(system.touch_start[c + 1]))


def _metrics(whole: Maximal) -> tuple[np.ndarray, np.ndarray]:
    """Return the unit and the physical metric."""
    bodies, table = whole.bodies, whole.table
    n = len(bodies.kind)
    reach = np.zeros(n)
    for end in range(2):
        link, place = table.pair_link[:, end], table.pair_frame[:, 12 * end + 9 : 12 * end + 12]
        on = link >= 0
        np.maximum.at(reach, link[on], np.linalg.norm(place[on], axis=1))
    some = reach[reach > 0.0]
    typical = float(np.median(some)) if some.size else 1.0
    k = _REACH * np.maximum(reach, _FLOOR * typical)
    unit = np.zeros((n, 7))
    unit[:, :3], unit[:, 6] = (1.0 / k**2)[:, None], 1.0
    full = bodies.inertia[:, [0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(-1, 3, 3)
    physical = np.zeros((n, 7))
    turns = (bodies.kind != PARTICLE) & (bodies.kind != PLANAR) & (bodies.kind != AFFINE)
    if turns.any():
        inverse = np.linalg.inv(full[turns])
        physical[turns, :6] = inverse.reshape(-1, 9)[:, [0, 4, 8, 1, 2, 5]]
    physical[:, 6] = 1.0 / bodies.mass
    flat = bodies.kind == PLANAR
    physical[flat, 2] = 1.0 / bodies.inertia[flat, 2]
    for metric in (unit, physical):
        metric[flat, 0:2] = 0.0
        metric[(bodies.kind == PARTICLE) | (bodies.kind == AFFINE), :6] = 0.0
    return unit, physical
