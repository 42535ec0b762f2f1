"""Displacement constraints of solids: errors and rows of a model, valid however far a joint is open.

Every body is a solid of six displacements (dtheta, dx) here, world axes about its com; those it cannot make, as the
rotation of a particle, have inverse inertia 0. Constraints are ordered: joints and couplings, inequality rows, driven
coordinates, drives, contacts, trackers. A tracker is a joint to a solid of zero inverse mass, which moves as commanded.
Drives and springs are soft rows: their forces belong to the poses at the end of a step (`displacement_drives.py`).
`Net` holds what is constant while solids are moved, `Work` the arrays of a correction.

Metrics, (n, 7) inverse inertia xx yy zz xy xz yz in body axes and inverse mass:

| metric | mass | inertia | for |
|---|---|---|---|
| unit | 1 | k^2, k 1.6 times the largest distance of the solid's joints from its com | assembly, dragging |
| physical | m | I | dynamics |

Translations, couplings and limits are the rows of `constraints.rows`. Rotations are rotation vectors, since sines have
a second zero at half a turn. With A, B the frames of a joint, z the axis it turns about, rel = A^T B:

    locked rotation:  e = log(rel),                          e' = (1 - [e]/2 + g [e]^2) w,    g = (1 - t/2 cot t/2) /
    t^2
    hinge:            e = log(swing), rel = swing twist(z),  e' = the rows of m m^T + k c c^T - t c z^T times w
    universal:        e = asin(x . y),                       e' = y x x / abs(y x x) . w,  x of A and y of B

in the axes of A, with w the angular velocity of B relative to A, t = abs(e), m = e/t, c = m x z, k = t cot t. Beyond
one radian the rows of a hinge are the axes x and y of A, as in the paper: the exact ones grow without bound. Projecting
the rotation vector itself on the locked axes, as printed, is wrong by its whole length at a twist of 2 rad. The sign is
e = child relative to parent and b = -e; the printed b_k = -delta_ij . t_k with delta_ij = P_i P_j doubles the error.

Reference: Faure 1998, section 3.1, equations (7) and (8), and section 3.2, equation (10).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.constraints.rows import AXES_A, AXES_B, relative_rotation
from limberjack.constraints.system import System, new_system
from limberjack.constraints.table import DRIVE, SPRING
from limberjack.linear.krylov import Krylov, new_krylov
from limberjack.linear.tree_preconditioner import TreePreconditioner, new_tree_preconditioner
from limberjack.maximal.bodies import AFFINE, PARTICLE, PLANAR, POSE, RIGID, SCALABLE
from limberjack.maximal.displacement_contacts import CONTACT, evaluate_contacts
from limberjack.maximal.rows import Maximal, evaluate_rows, free_joints_of
from limberjack.maximal.soft_rows import no_soft_rows
from limberjack.maximal.solve import Setup
from limberjack.model.arrays import Drives
from limberjack.model.joints import KINDS
from limberjack.model.model import Model
from limberjack.spatial.quaternions import quaternion_log, quaternion_multiply
from limberjack.spatial.trig import atan2, sincos
from limberjack.spatial.vectors import cross

__all__ = [
    "RECYCLED",
    "LEVER",
    "MAX_FORCE",
    "Net",
    "Reads",
    "POINT",
    "SOFT",
    "TARGET",
    "TRACK",
    "ROTATION",
    "HAS_ROTATION",
    "Work",
    "evaluate_errors",
    "new_net",
    "new_reads",
    "new_setup",
    "new_tree",
    "new_work",
    "weighted_error",
    "worst_error",
]

# Columns of a tracker: its point on the body, from the com in body axes; target position; target rotation and whether
# it has one; stiffness, damping, largest force, and the lever that converts forces to torques. Stiffness 0 means rigid.
POINT, TARGET, ROTATION, HAS_ROTATION, SOFT, MAX_FORCE, LEVER, TRACK = 0, 3, 6, 10, 11, 13, 14, 15
# Recycled solutions: with them dragged structures recover within a second at 2 x 5 iterations.
RECYCLED = 4
# Least reach of a solid, relative to the median of all.
_FLOOR = 0.25
# Solids that rotate less for the same error stay longer within the linearisation: 6 x 30 iterations on 758 rows end at
# 3e-6 m with 1, at 6e-7 with 1.6; more slows the recovery of structures that were pulled apart.
_REACH = 1.6
# Share of rows in loops up to which the spanning tree is used as preconditioner.
_LOOP_SHARE = 0.25
# Swing beyond which the rows of a hinge are the axes of A [rad].
_FAR = 1.0


class Net(NamedTuple):
    """Displacement constraints of a model, constant while solids are moved; n solids, nc constraints, nr rows."""

    system: System  # of all constraints on solids with six displacements
    rotation_rows: np.ndarray  # (t, 5) first row, pair, rows (1 = universal, 2 = swing, 3 = rotation), index in J on b
    # and on a or -1
    ends: np.ndarray  # (5,) constraints up to the end of equalities, inequalities, driven coordinates, drives, contacts
    rows: np.ndarray  # (5,) rows up to there
    driven: np.ndarray  # (d,) constraints of the model that read the driven coordinates, then those with drives
    springs: np.ndarray  # (s,) rows of springs
    drive_rows: np.ndarray  # (s,) row of each scalar drive, -1 = none
    ball_rows: np.ndarray  # (b,) first row of each drive of a ball joint, -1 = none
    soft: np.ndarray  # (nr,) bool: rows of springs and drives
    soft_count: np.ndarray  # (1,) how many
    unit: np.ndarray  # (n, 7) metrics
    physical: np.ndarray  # (n, 7)
    pairs: np.ndarray  # (nc,) bool: which constraints act with opposite wrenches at one point, or on one solid


class Work(NamedTuple):
    """Arrays of a correction; never shared between threads."""

    jacobian: np.ndarray  # flat rows of all constraints
    j: np.ndarray  # flat rows of the active ones, 0 elsewhere
    residual: np.ndarray  # (nr,) errors e
    b: np.ndarray  # (nr,) right sides
    c: np.ndarray  # (nr,) compliance
    lam: np.ndarray  # (nr,) multipliers of the last solve
    lam_total: np.ndarray  # (nr,) their sum over a step
    active: np.ndarray  # (nc,) int64: whether a constraint is active
    minv: np.ndarray  # (n, 7) world axes
    f: np.ndarray  # (6 n,)
    correction: np.ndarray  # (6 n,) the correction dq = M^-1 J^T lam
    free: np.ndarray  # (n,) 1 where a solid may move, 0 where its inverse mass is zero
    aim: np.ndarray  # (d, 2) values of driven coordinates at time 0 and their rates
    tracked: np.ndarray  # (T,) int64 bodies of the trackers, -1 = none
    track: np.ndarray  # (T, TRACK)
    start_residual: np.ndarray  # (T, 6) errors of trackers at the start of a step
    saturated: np.ndarray  # (T, 6) int64: 1 where a tracker is at its largest force
    tracker_force: np.ndarray  # (T, 6) forces of the trackers in the last step
    start: np.ndarray  # (n, POSE) poses at the start of the step, or (0, POSE) where there are no steps
    start_error: np.ndarray  # (nr,) errors at the start of the step
    open: np.ndarray  # (nr,) errors that the motion leaves as they are: those left by the step before
    soft_force: np.ndarray  # (nr,) forces of soft rows at the end of the step
    soft_slope: np.ndarray  # (nr,) how they fall with the displacement
    predicted: np.ndarray  # (6 n,) momenta at the start of the iterations of a step
    predicted_lam: np.ndarray  # (nr,) and their multipliers
    contact_link: np.ndarray  # (k, 3) see `displacement_contacts.find_slots`
    contact_data: np.ndarray  # (k, CONTACT)
    contact_force: np.ndarray  # (k, 3) multipliers of contacts in the last step, as forces
    friction: np.ndarray  # (k,) friction coefficients of contacts
    slides: np.ndarray  # (k,) int64: 1 where a contact slips
    damping: np.ndarray  # (2,) mu of Levenberg and Marquardt, relative to mobilities; whether iterations are guarded
    last_pose: np.ndarray  # (n, POSE) before a guarded iteration
    last_near: np.ndarray  # unwrapped angles then
    mobility: np.ndarray  # (nr,) diagonal of J M^-1 J^T, where it is needed
    geometric_stiffness: np.ndarray  # (n, 6) see `set_geometric_stiffness`; (0, 6) where it is not used
    limit_order: np.ndarray  # (m, 4) see `limit_order`; (0, 4) where limits are rows like others
    limit_moves: np.ndarray  # (n, 7) moves of bodies back within their limits
    krylov: Krylov
    tree: TreePreconditioner  # used where conjugate residuals leave more than `factored` of a right side
    factored: np.ndarray  # (1,) inf where the tree is not used
    report: np.ndarray  # (6,) iterations outer and inner, worst error, its row, status of the last solve, |errors|
    solve: np.ndarray  # (3,) of the last solve


class Reads(NamedTuple):
    """Coordinates of joints, velocities and forces along them, filled by `maximal.forces`."""

    q: np.ndarray
    qd: np.ndarray
    tau: np.ndarray
    added: np.ndarray


def new_reads(whole: Maximal) -> Reads:
    """Return arrays for the coordinates of joints."""
    nq, nv = whole.sizes
    return Reads(np.zeros(nq), np.zeros(nv), np.zeros(nv), np.zeros(nv))


def new_setup(model: Model, whole: Maximal) -> Setup:
    """Return the setup with which the rows of a model are evaluated."""
    coordinate_rows = int((whole.table.role == DRIVE).sum())
    counts = np.array([whole.equality_count, len(whole.names) - coordinate_rows, len(whole.names)], np.int64)
    return Setup(
        whole.bodies, whole.system, whole.table, whole.row_block, whole.scalable_pairs, whole.center, counts,
        model.arrays.links.gravity, free_joints_of(model), no_soft_rows(),
    )  # fmt: skip


def new_net(
    model: Model, whole: Maximal, *, driven: tuple[int, ...] = (), drives: Drives | None = None, trackers: int = 0,
    contacts: tuple[int, int] = (0, 0),
) -> Net:  # fmt: skip
    """Return the net of a model.

    Args:
        model: the model.
        whole: the same in maximal coordinates.
        driven: its constraints that read driven coordinates.
        drives: drives of its joints, which become soft rows; None for none.
        trackers: how many trackers there may be.
        contacts: how many contacts of one body there may be, and of two.
    """
    native, bodies = whole.system, whole.bodies
    coordinate_rows = int((whole.table.role == DRIVE).sum())
    inequalities = len(whole.names) - coordinate_rows
    counts, incidences = [], []
    drive_rows, ball_rows, with_drives = _drive_rows(whole, drives)
    constraints = (*range(inequalities), *driven, *with_drives)
    for c in constraints:
        counts.append(int(native.row_start[c + 1] - native.row_start[c]))
        incidences.append(native.incidence_body[native.incidence_start[c] : native.incidence_start[c + 1]].tolist())
    n = len(bodies.kind)
    # blocks are the same for whichever bodies contacts and trackers get
    counts += [3] * sum(contacts) + [6] * trackers
    incidences += [[0]] * contacts[0] + [[0, min(1, n - 1)]] * contacts[1] + [[0]] * trackers
    system = new_system(np.full(n, 6), np.array(counts, np.int64), incidences)
    sizes = (whole.equality_count, inequalities - whole.equality_count, len(driven), len(with_drives), sum(contacts))
    ends = np.cumsum(sizes).astype(np.int64)
    unit, physical = _metrics(whole)
    turning, rows = _rotation_rows(model, whole, system), system.row_start[ends]
    pairs = np.array([_is_pair(whole, c) for c in constraints] + [True] * (sum(contacts) + trackers), bool)
    soft = np.zeros(int(system.row_start[-1]), bool)
    springs = np.flatnonzero(whole.table.role[: int(rows[0])] == SPRING)
    soft[springs], soft[rows[2] : rows[3]] = True, True
    first = int(rows[2])
    drive_rows[drive_rows >= 0] += first
    ball_rows[ball_rows >= 0] += first
    return Net(
        system, turning, ends, rows, np.array((*driven, *with_drives), np.int64), springs, drive_rows, ball_rows, soft,
        np.array([soft.sum()], np.int64), unit, physical, pairs,
    )  # fmt: skip


def _drive_rows(whole: Maximal, drives: Drives | None) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Return which soft row each scalar drive has, the first of each ball's, and the constraints that read them."""
    if drives is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), []
    table, native = whole.table, whole.system
    reader = {
        int(table.drive[r, 1]): int(np.searchsorted(native.row_start, r, side="right")) - 1
        for r in np.flatnonzero(table.role == DRIVE)
    }
    out: list[int] = []
    rows: list[np.ndarray] = []
    for indices, wide in ((drives.indices, 1), (drives.ball_indices, 3)):
        own = np.full(len(indices), -1, np.int64)
        for k, v in enumerate(indices[:, 1].tolist()):
            if v in reader:
                own[k] = len(out)
                out += [reader[v + i] for i in range(wide)]
        rows.append(own)
    return rows[0], rows[1], out


def new_work(net: Net, angles: int) -> Work:
    """Return the arrays of corrections; `angles` is the number of terms of the model's rows."""
    n, nc, nr = len(net.unit), len(net.system.row_start) - 1, int(net.system.row_start[-1])
    trackers, blocks = nc - int(net.ends[4]), int(net.system.block_start[-1])
    slots = int(net.ends[4] - net.ends[3])
    on = np.ones(nc, np.int64)
    on[net.ends[0] :] = 0
    return Work(
        jacobian=np.zeros(blocks), j=np.zeros(blocks), residual=np.zeros(nr), b=np.zeros(nr), c=np.zeros(nr),
        lam=np.zeros(nr), lam_total=np.zeros(nr), active=on, minv=np.zeros((n, 7)), f=np.zeros(6 * n),
        correction=np.zeros(6 * n), free=np.ones(n), aim=np.zeros((int(net.ends[2] - net.ends[1]), 2)),
        tracked=np.full(trackers, -1, np.int64), track=np.zeros((trackers, TRACK)),
        start_residual=np.zeros((trackers, 6)), saturated=np.zeros((trackers, 6), np.int64),
        tracker_force=np.zeros((trackers, 6)), start=np.zeros((0, POSE)), limit_order=np.zeros((0, 4), np.int64),
        geometric_stiffness=np.zeros((0, 6)), limit_moves=np.zeros((n, 7)),
        start_error=np.zeros(nr), open=np.zeros(nr), soft_force=np.zeros(nr), soft_slope=np.zeros(nr),
        predicted=np.zeros(6 * n), predicted_lam=np.zeros(nr), friction=np.zeros(slots),
        contact_link=np.full((slots, 3), -1, np.int64), contact_data=np.zeros((slots, CONTACT)),
        contact_force=np.zeros((slots, 3)), slides=np.zeros(slots, np.int64),
        damping=np.zeros(2), last_pose=np.zeros((n, POSE)), last_near=np.zeros(angles), mobility=np.zeros(nr),
        krylov=new_krylov(net.system, RECYCLED, net.pairs), tree=_no_tree(), factored=np.full(1, np.inf),
        report=np.zeros(6), solve=np.zeros(3),
    )  # fmt: skip


def _no_tree() -> TreePreconditioner:
    """Return the least preconditioner there is, for work that uses none."""
    one = new_system(np.full(1, 6), np.ones(1, np.int64), [[0]])
    return new_tree_preconditioner(one, np.ones(1, bool), np.ones(1, bool), np.ones(1, bool))


def new_tree(whole: Maximal, net: Net, fixed: np.ndarray) -> TreePreconditioner | None:
    """Return a preconditioner by a spanning tree of the joints, or None where it would not help.

    Args:
        whole: the model in maximal coordinates.
        net: its constraints.
        fixed: (n,) bool, solids with zero inverse mass.
    """
    system, table = net.system, whole.table
    in_tree = np.arange(len(system.row_start) - 1) < net.ends[0]
    in_tree[: net.ends[0]] &= table.speed[whole.system.row_start[: net.ends[0]]] == 0
    in_tree[: net.ends[0]] &= ~net.soft[system.row_start[: net.ends[0]]]
    if not (whole.bodies.kind == RIGID).all() or not in_tree.any():
        return None
    tree = new_tree_preconditioner(system, ~fixed, in_tree, net.pairs)
    left = np.diff(system.row_start)[in_tree & (tree.tree.constraint_node < 0)].sum()
    return tree if left <= _LOOP_SHARE * int(net.rows[0]) else None


def _rotation_rows(model: Model, whole: Maximal, system: System) -> np.ndarray:
    """Return the joints with rotation vectors as errors: those that turn about one axis, and those that do not turn."""
    out, table = [], whole.table
    for c in range(whole.equality_count):
        r = int(system.row_start[c])
        if table.joint[r] >= model.joint_count:
            continue
        mask = KINDS[model.joint_spec(model.joint_names[int(table.joint[r])]).kind].mask
        count = 2 if mask[:3] == (True, True, False) else 3 if mask[:3] == (True, True, True) else 0
        pair, skipped = int(table.row_pair[r, 0]), 0
        if KINDS[model.joint_spec(model.joint_names[int(table.joint[r])]).kind].coupled == "x_a.y_b":
            # after the translations
            count, skipped = 1, sum(mask)
        links = [int(i) for i in table.pair_link[pair]]
        flat = all(i < 0 or whole.bodies.kind[i] == PLANAR for i in links)
        if count == 0 or flat or model.joint_spec(model.joint_names[int(table.joint[r])]).kind == "compound":
            continue
        blocks_of = {
            int(system.incidence_body[t]): int(system.block_start[t]) + 6 * skipped for t in _incidences(system, c)
        }
        out.append((r + skipped, pair, count, blocks_of.get(links[1], -1), blocks_of.get(links[0], -1)))
    return np.array(out, np.int64).reshape(-1, 5)


def _is_pair(whole: Maximal, c: int) -> bool:
    """Return whether constraint c acts on one solid, or on two rigid ones with opposite wrenches at one point."""
    native, table = whole.system, whole.table
    bodies = native.incidence_body[native.incidence_start[c] : native.incidence_start[c + 1]]
    rows = table.row_pair[native.row_start[c] : native.row_start[c + 1]]
    links = table.pair_link[rows[:, 0]]
    one = (rows[:, 1] < 0).all() and (links == links[0]).all()
    return len(bodies) == 1 or bool(one and (whole.bodies.kind[bodies] == RIGID).all())


def _incidences(system: System, c: int) -> range:
    return range(int(system.incidence_start[c]), int(system.incidence_start[c + 1]))


def _metrics(whole: Maximal) -> tuple[np.ndarray, np.ndarray]:
    """Return the unit and the physical metric."""
    bodies, table = whole.bodies, whole.table
    n = len(bodies.kind)
    reach = np.zeros(n)
    for end in range(2):
        link, position = table.pair_link[:, end], table.pair_frame[:, 12 * end + 9 : 12 * end + 12]
        on = link >= 0
        np.maximum.at(reach, link[on], np.linalg.norm(position[on], axis=1))
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


@inner
def _swing(w, x, y, z):
    """Return the swing vector (x, y) of a rotation, without its twist about z."""
    n = math.sqrt(w * w + z * z)
    if n > 1e-12:
        # rel times the conjugate of its twist
        x, y = (x * w - y * z) / n, (y * w + x * z) / n
    s = math.sqrt(x * x + y * y)
    f = 2.0 * atan2(s, n) / s if s > 1e-9 else 2.0
    return f * x, f * y


@inner
def _swing_rows(x, y):
    """Return the two rows (six numbers, axes of A) of a swing vector by the relative angular velocity."""
    square = x * x + y * y
    if square > _FAR * _FAR:
        return 1.0, 0.0, 0.0, 0.0, 1.0, 0.0
    if square < 1e-4:
        g = -1.0 / 3.0 - square * (1.0 / 45.0 + square * (2.0 / 945.0))
    else:
        t = math.sqrt(square)
        s, c = sincos(t)
        g = (t * c / s - 1.0) / square
    return 1.0 + g * y * y, -g * x * y, -y, -g * x * y, 1.0 + g * x * x, x


@inner
def _rotation_vector_rows(x, y, z):
    """Return the three rows (nine numbers) of a rotation vector by the angular velocity on its left."""
    square = x * x + y * y + z * z
    if square < 1e-4:
        g = 1.0 / 12.0 + square * (1.0 / 720.0 + square / 30240.0)
    else:
        h = 0.5 * math.sqrt(square)
        s, c = sincos(h)
        g = (1.0 - h * c / s) / square
    return (
        1.0 - g * (y * y + z * z), g * x * y + 0.5 * z, g * x * z - 0.5 * y,
        g * x * y - 0.5 * z, 1.0 - g * (x * x + z * z), g * y * z + 0.5 * x,
        g * x * z + 0.5 * y, g * y * z - 0.5 * x, 1.0 - g * (x * x + y * y),
    )  # fmt: skip


@inner
def _line(a, i):
    """Return row i of nine numbers."""
    if i == 0:
        return a[0], a[1], a[2]
    if i == 1:
        return a[3], a[4], a[5]
    return a[6], a[7], a[8]


@inner
def _put_torque(kind, sign, x, y, z, o, j):
    """Write the row of a torque on a solid at index o of J."""
    for c in range(6):
        j[o + c] = 0.0
    if kind != PLANAR:
        j[o], j[o + 1] = sign * x, sign * y
    j[o + 2] = sign * z


@inner
def _put_torques(links, kinds, turning, t, i, x, y, z, j):
    """Write row i of the joint `turning[t]`: a torque on b, the opposite on a."""
    k = turning[t, 1]
    if turning[t, 3] >= 0:
        _put_torque(kinds[links[k, 1]], 1.0, x, y, z, turning[t, 3] + 6 * i, j)
    if turning[t, 4] >= 0:
        _put_torque(kinds[links[k, 0]], -1.0, x, y, z, turning[t, 4] + 6 * i, j)


@inner
def _square_axes(state, k):
    """Return the angle by which the axes of a universal joint are from square, and its row by w."""
    a, b = AXES_A, AXES_B + 3
    sx, sy, sz = state[k, a], state[k, a + 1], state[k, a + 2]
    ux, uy, uz = state[k, b], state[k, b + 1], state[k, b + 2]
    nx, ny, nz = cross(ux, uy, uz, sx, sy, sz)
    size = math.sqrt(nx * nx + ny * ny + nz * nz)
    angle = atan2(sx * ux + sy * uy + sz * uz, size)
    if size > 1e-9:
        return angle, nx / size, ny / size, nz / size
    # parallel axes: turning about any axis square to them is right, and that of A is one
    return angle, state[k, a + 6], state[k, a + 7], state[k, a + 8]


@inner
def _copy_rows(native, kinds, system, c, i, source, j):
    """Copy the rows of the model's constraint c to constraint i, with six displacements per solid."""
    n = native.row_start[c + 1] - native.row_start[c]
    for t in range(native.incidence_start[c + 1] - native.incidence_start[c]):
        body = native.incidence_body[native.incidence_start[c] + t]
        k, o = native.block_start[native.incidence_start[c] + t], system.block_start[system.incidence_start[i] + t]
        dim, kind = native.body_start[body + 1] - native.body_start[body], kinds[body]
        for _ in range(n):
            if dim == 6 or kind == SCALABLE or kind == SCALABLE + 1:
                for d in range(6):
                    j[o + d] = source[k + d]
            else:
                j[o], j[o + 1], j[o + 2] = 0.0, 0.0, 0.0
                j[o + 3], j[o + 4], j[o + 5] = source[k], source[k + 1], source[k + 2]
                if kind == PLANAR:
                    j[o + 2], j[o + 5] = source[k + 2], 0.0
            k += dim
            o += 6


@outlined
def _set_rotation_errors(links, kinds, turning, blocks, state, residual, j):
    """Replace the rotation errors of joints by rotation vectors, and their rows if `blocks`."""
    for t in range(len(turning)):
        r, k, count = turning[t, 0], turning[t, 1], turning[t, 2]
        if count == 1:
            residual[r], nx, ny, nz = _square_axes(state, k)
            if blocks:
                _put_torques(links, kinds, turning, t, 0, nx, ny, nz, j)
            continue
        qw, qx, qy, qz = relative_rotation(state, k)
        z = 0.0
        if count == 2:
            x, y = _swing(qw, qx, qy, qz)
        else:
            x, y, z = quaternion_log(qw, qx, qy, qz)
            residual[r + 2] = z
        residual[r], residual[r + 1] = x, y
        if not blocks:
            continue
        if count == 2:
            a = _swing_rows(x, y)
            rows = (a[0], a[1], a[2], a[3], a[4], a[5], 0.0, 0.0, 0.0)
        else:
            rows = _rotation_vector_rows(x, y, z)
        for i in range(count):
            g, o = _line(rows, i), AXES_A
            nx = g[0] * state[k, o] + g[1] * state[k, o + 3] + g[2] * state[k, o + 6]
            ny = g[0] * state[k, o + 1] + g[1] * state[k, o + 4] + g[2] * state[k, o + 7]
            nz = g[0] * state[k, o + 2] + g[1] * state[k, o + 5] + g[2] * state[k, o + 8]
            _put_torques(links, kinds, turning, t, i, nx, ny, nz, j)


@outlined
def _track(row, block, kinds, maps, ends, blocks, pose, tracked, track, residual, j):
    """Fill errors and rows of the trackers, which start at `row` and at `block` of J."""
    for t in range(len(tracked)):
        i, r, o = tracked[t], row + 6 * t, block + 36 * t
        for k in range(6):
            residual[r + k] = 0.0
        if blocks:
            for k in range(36):
                j[o + k] = 0.0
        if i < 0:
            continue
        px, py, pz = track[t, POINT], track[t, POINT + 1], track[t, POINT + 2]
        m = maps if kinds[i] >= SCALABLE else ends
        lx = m[i, 0] * px + m[i, 1] * py + m[i, 2] * pz
        ly = m[i, 3] * px + m[i, 4] * py + m[i, 5] * pz
        lz = m[i, 6] * px + m[i, 7] * py + m[i, 8] * pz
        residual[r] = pose[i, 0] + lx - track[t, TARGET]
        residual[r + 1] = pose[i, 1] + ly - track[t, TARGET + 1]
        residual[r + 2] = pose[i, 2] + lz - track[t, TARGET + 2]
        x = y = z = 0.0
        turns = track[t, HAS_ROTATION] > 0.0 and kinds[i] != PARTICLE
        if turns:
            aim = (track[t, ROTATION], -track[t, ROTATION + 1], -track[t, ROTATION + 2], -track[t, ROTATION + 3])
            qw, qx, qy, qz = quaternion_multiply((pose[i, 3], pose[i, 4], pose[i, 5], pose[i, 6]), aim)
            x, y, z = quaternion_log(qw, qx, qy, qz)
            residual[r + 3], residual[r + 4], residual[r + 5] = x, y, z
        if not blocks:
            continue
        j[o + 3], j[o + 10], j[o + 17] = 1.0, 1.0, 1.0
        if kinds[i] != PARTICLE:
            # lever x axis for each of the three axes
            j[o + 1], j[o + 2] = lz, -ly
            j[o + 6], j[o + 8] = -lz, lx
            j[o + 12], j[o + 13] = ly, -lx
        if turns:
            a = _rotation_vector_rows(x, y, z)
            for k in range(3):
                b = _line(a, k)
                _put_torque(kinds[i], 1.0, b[0], b[1], b[2], o + 18 + 6 * k, j)


@outlined
def _set_velocity_errors(system, i, start, pose, j, residual):
    """Set the errors of constraint i to its rows times the displacements since `start`."""
    first = system.row_start[i]
    for r in range(first, system.row_start[i + 1]):
        residual[r] = 0.0
    for t in range(system.incidence_start[i], system.incidence_start[i + 1]):
        b, o = system.incidence_body[t], system.block_start[t]
        dx, dy, dz = pose[b, 0] - start[b, 0], pose[b, 1] - start[b, 1], pose[b, 2] - start[b, 2]
        back = (start[b, 3], -start[b, 4], -start[b, 5], -start[b, 6])
        w, x, y, z = quaternion_multiply((pose[b, 3], pose[b, 4], pose[b, 5], pose[b, 6]), back)
        x, y, z = quaternion_log(w, x, y, z)
        for r in range(first, system.row_start[i + 1]):
            residual[r] += j[o] * x + j[o + 1] * y + j[o + 2] * z + j[o + 3] * dx + j[o + 4] * dy + j[o + 5] * dz
            o += 6


@outlined
def evaluate_errors(
    # model
    setup, net,
    # in
    time, every, blocks, pose, u,
    # out
    e, w,
):  # fmt: skip
    """Fill the errors of all constraints at `pose`, and their rows if `blocks`.

    The error of a velocity row is its displacement since the start of the step; without steps the row is not active.

    Args:
        setup: the model in maximal coordinates.
        net: its constraints.
        time: of driven coordinates [s].
        every: whether to evaluate the rows that read coordinates in `e` too.
        blocks: whether to fill rows.
        pose: (n, POSE).
        u: velocities, for the ends in `e`; errors do not depend on them.
        e: evaluation of the model's own rows.
        w: work.
    """
    table, native, bodies, system = setup.table, setup.system, setup.bodies, net.system
    # Equations (7) and (8), integrated over a virtual time: J and b = -e of equation (10)
    rows = net.rows[1]
    if every or len(net.driven) > 0:
        rows = native.row_start[len(native.row_start) - 1]
    evaluate_rows(bodies, native, table, setup.row_block, setup.scalable_pairs, time, rows, pose, u, e)
    for r in range(net.rows[1]):
        w.residual[r] = e.values[r, 0] if table.speed[r] == 0 else 0.0
    for i in range(net.ends[3]):
        reads = i >= net.ends[1]
        c = net.driven[i - net.ends[1]] if reads else i
        if reads:
            w.residual[system.row_start[i]] = e.values[native.row_start[c], 0]
            w.active[i] = 1
            if i < net.ends[2]:
                d = i - net.ends[1]
                w.residual[system.row_start[i]] -= w.aim[d, 0] + w.aim[d, 1] * time
        if blocks:
            _copy_rows(native, bodies.kind, system, c, i, e.j, w.jacobian)
        if table.speed[native.row_start[c]] == 1:
            w.active[i] = 1 if len(w.start) > 0 else 0
            if len(w.start) > 0:
                _set_velocity_errors(system, i, w.start, pose, w.jacobian, w.residual)
    _set_rotation_errors(table.pair_link, bodies.kind, net.rotation_rows, blocks, e.state, w.residual, w.jacobian)
    if len(w.contact_link) > 0:
        evaluate_contacts(system, net.ends[3], blocks, w.contact_link, w.contact_data, e.ends, w.residual, w.jacobian)
    if len(w.tracked) > 0:
        first = net.ends[4]
        for t in range(len(w.tracked)):
            w.active[first + t] = 1 if w.tracked[t] >= 0 else 0
        _track(
            net.rows[4], system.block_start[system.incidence_start[first]], bodies.kind, bodies.maps, e.ends, blocks,
            pose, w.tracked, w.track, w.residual, w.jacobian,
        )  # fmt: skip


@outlined
def weighted_error(
    # model
    rows, soft,
    # in
    residual, open, mobility, weight, row_start,
):  # fmt: skip
    """Return the sum of squared errors over the mobilities of their rows, times weights: what damped steps lower."""
    total = 0.0
    for c in range(len(weight)):
        for r in range(row_start[c], row_start[c + 1]):
            e = residual[r] - open[r]
            sided = rows[0] <= r < rows[1] or rows[3] <= r < rows[4]
            if not soft[r] and mobility[r] > 0.0 and not (sided and e > 0.0):
                total += weight[c] * e * e / mobility[r]
    return total


@outlined
def worst_error(
    # model
    rows, soft,
    # in
    residual, open, track,
):  # fmt: skip
    """Return the largest error beyond `open`, its row and the root of the sum of squares.

    Inequality rows count where violated; what soft rows and compliant trackers are off by is no error.
    """
    worst, at, square = 0.0, -1, 0.0
    for r in range(len(residual)):
        if soft[r] or (r >= rows[4] and track[(r - rows[4]) // 6, SOFT] > 0.0):
            continue
        if rows[3] <= r < rows[4] and (r - rows[3]) % 3 > 0:
            continue  # a contact may slip
        v = residual[r] - open[r]
        if rows[0] <= r < rows[1] or rows[3] <= r < rows[4]:
            v = 0.0 if v >= 0.0 else -v
        v = abs(v)
        square += v * v
        if not v <= worst:
            worst, at = v, r
    return worst, at, math.sqrt(square)
