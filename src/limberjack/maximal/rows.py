"""A model in maximal coordinates: its bodies, one system of all its constraints, and kernels that evaluate the rows.

A body is a link of the model: bodies on merged fixed joints move as one. Constraints are ordered: joints of the tree,
loop joints and couplings (equalities), then inequality rows, each a constraint of its own, then rows that read the
coordinates of joints; these constrain nothing, but drive forces act along them.

`evaluate` fills values, rates, biases and Jacobian blocks at a state; `evaluate_predicted` the values at the poses that
a step predicts.
"""

from __future__ import annotations

import gc
import importlib
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.constraints.compound import new_scratch, set_compounds
from limberjack.constraints.rows import (
    GAP,
    LENGTH,
    LEVER_A,
    LEVER_B,
    PAIR,
    PLAIN,
    REGISTERED,
    SLIDE,
    TURN,
    row,
    set_pair,
)
from limberjack.constraints.system import System, new_system
from limberjack.constraints.table import (
    DRIVE,
    INEQUALITY,
    ROTOR,
    SPRING,
    Pairs,
    Row,
    Table,
    at_velocity_level,
    coordinate_terms,
    gear_rows,
    joint_rows,
    limit_rows,
    new_table,
    on_pairs,
    spring_rows,
)
from limberjack.errors import UnsupportedByMethod
from limberjack.maximal.bodies import (
    AFFINE,
    PARTICLE,
    PLANAR,
    REGISTERED_BODY,
    RIGID,
    SCALABLE,
    SCALABLE_AXES,
    Bodies,
    add_row,
    set_ends,
    set_masses,
    set_scalable_pair,
    world_inertia,
)
from limberjack.maximal.registered_bodies import REGISTERED_WIDTH
from limberjack.model.compile import drives_of, joint_frames
from limberjack.model.joints import KINDS, SPIN, coordinate_counts, motions_of
from limberjack.model.model import Model
from limberjack.model.registered import RegisteredBody
from limberjack.model.spec import Joint
from limberjack.spatial.vectors import cross, symmetric_times

__all__ = [
    "Evaluation",
    "Maximal",
    "diagonal_of",
    "evaluate",
    "evaluate_predicted",
    "free_joints_of",
    "lever_mobility",
    "new_evaluation",
    "new_maximal",
    "indices_of",
    "remove_gyroscopic",
]

_KIND = {
    "rigid": RIGID, "planar": PLANAR, "particle": PARTICLE, "scalable": SCALABLE, "scalable_axes": SCALABLE_AXES,
    "affine": AFFINE,
}  # fmt: skip
_DIMENSION = (6, 3, 3, 7, 9, 12)
# Pairs that are filled ahead of their rows: a few kilobytes, which stay in the first level of cache.
_AHEAD = 32


@dataclass(frozen=True)
class Maximal:
    """A model in maximal coordinates: all that is constant while it moves."""

    bodies: Bodies
    system: System
    table: Table
    row_block: np.ndarray  # (r, 4) index in J of a row on b and a of its first and of its second pair, -1 = none
    scalable_pairs: np.ndarray  # pairs with an end on a body that is not rigid
    equality_count: int  # number of equality constraints
    names: tuple[str, ...]  # the joint or spring of each constraint
    center: np.ndarray  # (n, 3) com of each body in its link's frame
    loops: dict[str, tuple[int, int]]  # first coordinate and velocity of loop joints, after those of the tree
    sizes: tuple[int, int]  # number of coordinates and velocities


class Evaluation(NamedTuple):
    """Rows, Jacobian and masses at a state, filled by `evaluate`."""

    ends: np.ndarray  # (n, 18)
    state: np.ndarray  # (p, PAIR)
    near: np.ndarray  # (t,) angles, unwrapped
    scratch: np.ndarray  # of compound joints
    wrench: np.ndarray  # (r, 12)
    values: np.ndarray  # (r, 3) value, rate, bias
    m: np.ndarray  # flat mass blocks
    j: np.ndarray  # flat blocks of rows


def new_evaluation(whole: Maximal) -> Evaluation:
    """Return arrays for `evaluate`."""
    n, p, r = len(whole.bodies.kind), len(whole.table.pair_link), len(whole.table.joint)
    width = PAIR if len(whole.table.compound) else PLAIN
    return Evaluation(
        np.zeros((n, 18)), np.zeros((p, width)), np.zeros(len(whole.table.weights)), new_scratch(), np.zeros((r, 12)),
        np.zeros((r, 3)), np.zeros(int(whole.bodies.block[-1])), np.zeros(int(whole.system.block_start[-1])),
    )  # fmt: skip


def _new_bodies(model: Model) -> tuple[Bodies, np.ndarray]:
    """Return the bodies, one per link, and the com of each in its link's frame."""
    a = model.arrays
    n = len(a.links.parent)
    kind = np.zeros(n, np.int64)
    scale_spring = np.zeros((n, 4))
    own: dict[int, RegisteredBody] = {}
    spec = {body.name: body for body in model.spec.bodies}
    for i, name in enumerate(model.body_names):
        body, link = spec[name], int(a.body_link[i])
        if link < 0 or body.body_kind == "rigid":
            continue
        if isinstance(body, RegisteredBody):
            if (a.body_link == link).sum() > 1:
                raise UnsupportedByMethod(f'body "{name}" is of kind "{body.body_kind}": nothing can be fixed to it')
            kind[link], own[link] = REGISTERED_BODY, body
            continue
        if body.body_kind not in _KIND:
            raise UnsupportedByMethod(f'body "{name}" of kind "{body.body_kind}" must be made by add_body_registered')
        kind[link] = _KIND[body.body_kind]
        # the unscaled body is stored as None; affine bodies have no other rest shape
        size = {SCALABLE: 1, SCALABLE_AXES: 3}.get(int(kind[link]), 0)
        scale_spring[link, 0], scale_spring[link, 1 : 1 + size] = body.scale_stiffness, body.scale_rest or (1.0,) * size
    mass = a.links.inertia[:, 9].copy()
    if (mass <= 0.0).any():
        link = int(np.flatnonzero(mass <= 0.0)[0])
        name = model.body_names[int(np.flatnonzero(a.body_link == link)[0])]
        raise UnsupportedByMethod(f'body "{name}" has no mass; methods in maximal coordinates need mass on every body')
    center = a.links.inertia[:, 6:9] / mass[:, None]
    j = a.links.inertia[:, :6]
    square = np.einsum("ni,ni->n", center, center)
    shifted = [mass * (square - center[:, k] ** 2) for k in range(3)]
    shifted += [-mass * center[:, i] * center[:, k] for i, k in ((0, 1), (0, 2), (1, 2))]
    inertia = j - np.column_stack(shifted)
    for link, body in own.items():
        center[link] = _origin(model, link, body)
    half = 0.5 * inertia[:, :3].sum(axis=1)
    moment = np.column_stack([half - inertia[:, 0], half - inertia[:, 1], half - inertia[:, 2], *(-inertia[:, 3:].T)])
    dims = np.array(
        [len(own[i].rates) if k == REGISTERED_BODY else _DIMENSION[k] for i, k in enumerate(kind)], np.int64
    )
    start = np.concatenate([[0], np.cumsum(dims)]).astype(np.int64)
    block = np.concatenate([[0], np.cumsum(dims**2)]).astype(np.int64)
    bodies = Bodies(
        kind,
        start,
        block,
        mass,
        inertia,
        np.ascontiguousarray(moment),
        scale_spring,
        np.zeros((n, 27)),
        *_registered_arrays(n, own),
    )
    _require_inertia(model, bodies)
    return bodies, center


def _origin(model: Model, link: int, body: RegisteredBody) -> np.ndarray:
    """Return the origin of a body of a registered kind in its link's frame: its points are relative to it."""
    offset = model.arrays.body_offset[model.body_index(body.name)]
    if np.abs(offset[:9] - np.eye(3).ravel()).max() > 0.0:
        joint = model.joint_names[int(np.flatnonzero(model.arrays.joint_link == link)[0])]
        raise UnsupportedByMethod(
            f'joint "{joint}": body "{body.name}" is of registered kind "{body.body_kind}" and has no axes; leave '
            "rotation_in_child out"
        )
    return offset[9:]


def _registered_arrays(n: int, own: dict[int, RegisteredBody]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return addresses, rows and numbers of the bodies of registered kinds; empty where there is none."""
    count = n if own else 0
    address, data = np.zeros(count, np.int64), np.zeros((count, max([1, *(len(one.data) for one in own.values())])))
    if own:
        # loaded by name: as an import it would invalidate the cached kernels with each change
        kinds = importlib.import_module("limberjack.maximal.registered_bodies")
        for link, one in own.items():
            address[link], data[link, : len(one.data)] = kinds.address_of_body(one.body_kind), one.data
    return address, np.zeros((count, REGISTERED_WIDTH)), data


def _require_inertia(model: Model, bodies: Bodies) -> None:
    full = bodies.inertia[:, [0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(-1, 3, 3)
    least = np.linalg.eigvalsh(full)[:, 0] if len(full) else np.zeros(0)
    turning = (bodies.kind == RIGID) | ((bodies.kind >= SCALABLE) & (bodies.kind != REGISTERED_BODY))
    for link in np.flatnonzero(turning & (least <= 0.0)):
        name = model.body_names[int(np.flatnonzero(model.arrays.body_link == link)[0])]
        raise UnsupportedByMethod(
            f'body "{name}" has no inertia about some axis; methods in maximal coordinates need it (add_particle makes '
            "a point mass that does not turn)"
        )


class _CenteredPairs(Pairs):
    """Pairs with positions from the com of each body."""

    def __init__(self, model: Model, center: np.ndarray) -> None:
        super().__init__(model)
        self._center = center

    def end(self, body: str, r: np.ndarray, p: np.ndarray) -> tuple[int, np.ndarray]:
        link, frame = super().end(body, r, p)
        if link >= 0:
            frame = frame.copy()
            frame[9:] -= self._center[link]
        return link, frame


def _flat(bodies: Bodies, links: list[int]) -> bool:
    """Return whether all these bodies are planar."""
    return all(i < 0 or bodies.kind[i] == PLANAR for i in links)


def _equality_rows(joint: Joint, pair: int, index: int, links: list[int], bodies: Bodies) -> list[Row]:
    """Return the equality rows of a joint; between planar bodies those in the plane."""
    rows = joint_rows(joint)
    kinds = [bodies.kind[i] for i in links if i >= 0]
    if PARTICLE in kinds or AFFINE in kinds or REGISTERED_BODY in kinds:
        free = (SLIDE, LENGTH, REGISTERED) if AFFINE not in kinds and REGISTERED_BODY not in kinds else (SLIDE, LENGTH)
        along = links[0] >= 0 and bodies.kind[links[0]] == REGISTERED_BODY and joint.kind not in ("ball", "distance")
        if along or any(code not in free for terms, _ in rows for code, *_ in terms):
            raise UnsupportedByMethod(
                f'joint "{joint.name}" of kind {joint.kind} ties a direction of a body that has none (a particle, an '
                "affine body or one of a registered kind); ball, distance, point_on_line and point_on_plane do not"
            )
    if _flat(bodies, links):
        rows = [(terms, value) for terms, value in rows if _in_plane(joint, terms)]
    speed = at_velocity_level(joint)
    return [Row(index, on_pairs(joint, pair, terms), target=(value, 0.0), speed=speed) for terms, value in rows]


def _in_plane(joint: Joint, terms: list) -> bool:
    """Return whether a row can act on bodies in the plane: a joint's frame there has z along the plane's normal."""
    kind = KINDS[joint.kind]
    if kind.mask[:3] == (True, True, False):
        return terms[0][0] != 1 and terms[0][1:2] != (2,)
    if kind.mask[:3] == (True, True, True):
        return terms[0][0] == 0 and terms[0][1] != 2 or terms[0][0] == 1 and {terms[0][1], terms[0][2]} == {0, 1}
    return True


def new_maximal(
    model: Model, ignored: frozenset[str], *, springs: bool = False, rotors: bool = False, drives: bool = False
) -> Maximal:
    """Return `model` in maximal coordinates, without its features in `ignored`.

    Args:
        model: the model.
        ignored: features left out.
        springs: whether springs are compliant rows, for integrators that take them implicitly.
        rotors: whether rotor inertia is a row of its joint, with compliance 1 / inertia.
        drives: whether dofs with springs, dampers, soft limits or motors have compliant rows among those of their
            joint; the method sets their compliance.
    """
    # nothing below makes cycles: collections would walk over the rows of large models again and again
    collects = gc.isenabled()
    gc.disable()
    try:
        return _new_maximal(model, ignored, springs, rotors, drives)
    finally:
        if collects:
            gc.enable()


def _new_maximal(model: Model, ignored: frozenset[str], springs: bool, rotors: bool, drives: bool) -> Maximal:
    bodies, center = _new_bodies(model)
    pairs = _CenteredPairs(model, center)
    groups: list[list[Row]] = []
    inequalities: list[list[Row]] = []
    coordinate_rows: list[list[Row]] = []
    first_loop = model.joint_count - len(model.loop_names)
    loops: dict[str, tuple[int, int]] = {}
    sizes = (model.nq, model.nv)
    for index, name in enumerate(model.joint_names):
        joint = model.joint_spec(name)
        if joint.kind == "gear":
            if "gears" not in ignored:
                groups.append(gear_rows(model, pairs, index, joint, reduced=False))
            continue
        if index >= first_loop and _feature(joint) in ignored:
            continue
        if joint.kind == "compound" and bodies.kind[model.arrays.body_link[model.body_index(joint.child)]] == PARTICLE:
            coordinate_rows += _particle_rows(model, pairs, index, joint)
            continue
        pair = pairs.joint(joint)
        links = pairs.link[pair]
        if all(a == b for a, b in pairs.link[pair:]):
            continue
        starts = (int(model.arrays.q_start[index]), int(model.arrays.v_start[index])) if index < first_loop else sizes
        nq, nv = coordinate_counts(joint)
        if index >= first_loop and nv:
            loops[name] = sizes
            sizes = (sizes[0] + nq, sizes[1] + nv)
        rows = _equality_rows(joint, pair, index, links, bodies)
        if rotors and index < first_loop:
            rows += _rotor_rows(model, joint, pair, index)
        if drives:
            rows += _drive_rows(joint, pair, index, starts)
        if rows:
            groups.append(rows)
        if "limits" not in ignored:
            ends = limit_rows(joint, scalars=True)
            inequalities += [
                [Row(index, on_pairs(joint, pair, terms), target=(v, 0.0), role=INEQUALITY)] for terms, v in ends
            ]
        coordinate_rows += [[one] for one in _coordinate_rows(joint, pair, index, starts)]
    if springs:
        groups += [spring_rows(model, pairs, k) for k in range(len(model.springs))]
    equality_count = len(groups)
    every = (*model.joint_names, *(spring.name for spring in model.springs))
    rows = [one for group in (*groups, *inequalities, *coordinate_rows) for one in group]
    incidences, counts, names = [], [], []
    for group in (*groups, *inequalities, *coordinate_rows):
        on = [i for one in group for pair, _ in one.terms for i in pairs.link[pair] if i >= 0]
        incidences.append(list(dict.fromkeys(on)))
        counts.append(len(group))
        names.append(every[group[0].joint])
    table = new_table(rows, pairs)
    system = new_system(np.diff(bodies.start), np.array(counts, np.int64), incidences)
    row_block = _row_blocks(table, system)
    scalable = np.append(bodies.kind >= SCALABLE, False)
    scalable_pairs = (
        np.flatnonzero(scalable[table.pair_link].any(axis=1)) if len(table.pair_link) else np.zeros(0, np.int64)
    )
    return Maximal(bodies, system, table, row_block, scalable_pairs, equality_count, tuple(names), center, loops, sizes)


def free_joints_of(model: Model) -> np.ndarray:
    """Return (k, 2) the link and the first velocity of each free joint: they have no rows along their coordinates."""
    a, found = model.arrays, []
    for index, name in enumerate(model.joint_names[: model.body_count]):
        if model.joint_spec(name).kind == "free":
            found.append((int(a.joint_link[index]), int(a.v_start[index])))
    return np.array(found, np.int64).reshape(-1, 2)


def lever_mobility(whole: Maximal) -> np.ndarray:
    """Return (p, 2) |[r x] I^-1| of the levers r of each pair of frames on its two bodies, 0 where they cannot turn.

    A force F at a lever of a body that turns is a spring of squared frequency |F| times this, at most.
    """
    table, bodies = whole.table, whole.bodies
    out = np.zeros((len(table.pair_link), 2))
    full = bodies.inertia[:, [0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(-1, 3, 3)
    kinds = np.append(bodies.kind, -1)  # the world has link -1
    for end, column in ((0, 9), (1, 21)):
        link, lever = table.pair_link[:, end], table.pair_frame[:, column : column + 3]
        solid = np.flatnonzero(kinds[link] == RIGID)
        inverse = np.linalg.inv(full[link[solid]])
        turned = np.cross(lever[solid][:, None, :], inverse)
        # of rank two: its largest singular value is at least this
        out[solid, end] = np.sqrt(0.5 * (turned**2).sum(axis=(1, 2)))
        flat = np.flatnonzero(kinds[link] == PLANAR)
        out[flat, end] = np.sqrt((lever[flat, :2] ** 2).sum(axis=1)) / bodies.inertia[link[flat], 2]
    return out


def _feature(joint: Joint) -> str:
    return "velocity" if joint.kind == "no_slip" else "loops"


def _particle_rows(model: Model, pairs: Pairs, index: int, joint: Joint) -> list[list[Row]]:
    """Return the rows along the coordinates of a particle, three slides from the world."""
    r_p, p_p, r_c, p_c = joint_frames(joint)
    pair = pairs.add(pairs.end(joint.parent, r_p, p_p), pairs.end(joint.child, r_c, p_c))
    q, v = int(model.arrays.q_start[index]), int(model.arrays.v_start[index])
    return [[Row(index, [(pair, (SLIDE, k, 0, 1.0))], role=DRIVE, drive=(q + k, v + k))] for k in range(3)]


def _rotor_rows(model: Model, joint: Joint, pair: int, index: int) -> list[Row]:
    """Return a row along each dof of a joint that has rotor inertia: lam = -inertia (J a + c)."""
    v, out = int(model.arrays.v_start[index]), []
    inertia = model.arrays.links.armature[v : v + coordinate_counts(joint)[1]]
    if not inertia.any():
        return out
    if joint.kind == "free":
        raise UnsupportedByMethod(
            f'joint "{joint.name}" is free and has rotor inertia, which has no axis to turn about'
        )
    terms, dof = iter(coordinate_terms(joint)), 0
    for kind in motions_of(joint):
        own = [(TURN, 0, c, 1.0) for c in range(3)] if kind == SPIN else [next(terms)]
        for term in own:
            if inertia[dof] > 0.0:
                give = (1.0 / float(inertia[dof]), 0.0, 0.0)
                out.append(Row(index, [(pair, term)], role=ROTOR, speed=True, soft=give))
            dof += 1
    return out


def _drive_rows(joint: Joint, pair: int, index: int, starts: tuple[int, int]) -> list[Row]:
    """Return compliant rows along the dofs of a joint that have a drive; they do nothing until made to."""
    nv = coordinate_counts(joint)[1]
    driven = drives_of([joint], np.zeros(1, np.int64), np.zeros(1, np.int64), nv)[0]
    dofs = {int(v) for v in driven.indices[:, 1]}
    dofs |= {int(v) + c for v in driven.ball_indices[:, 1] for c in range(3)}
    rows = _coordinate_rows(joint, pair, index, starts) if dofs else []
    return [replace(row, role=SPRING) for row in rows if row.drive[1] - starts[1] in dofs]


def _coordinate_rows(joint: Joint, pair: int, index: int, starts: tuple[int, int]) -> list[Row]:
    """Return rows along the coordinates of a joint: values are q, rates qd; three turns for a ball.

    `drive` holds the indices in q and qd; of a ball, that of its quaternion in each of the three rows.
    """
    out: list[Row] = []
    q, v = starts
    if joint.kind == "free":
        return out
    terms = iter(coordinate_terms(joint))
    for kind in motions_of(joint):
        if kind == SPIN:
            for c in range(3):
                turn = (pair, (TURN, 0, c, 1.0))
                out.append(Row(index, [turn], role=DRIVE, speed=True, drive=(q, v + c)))
            q, v = q + 4, v + 3
        else:
            out.append(Row(index, [(pair, next(terms))], role=DRIVE, drive=(q, v)))
            q, v = q + 1, v + 1
    return out


def _row_blocks(table: Table, system: System) -> np.ndarray:
    """Return (r, 4): index in J of row r on b and a of its first and of its second pair."""
    count, bodies = np.diff(system.row_start), len(system.body_start) - 1
    constraint = np.repeat(np.arange(len(count)), count)
    link = np.where(table.row_pair[:, :, None] >= 0, table.pair_link[table.row_pair][:, :, ::-1], -1)
    # constraints and bodies as one number each, among those of the incidences
    known = np.repeat(np.arange(len(count)), np.diff(system.incidence_start)) * bodies + system.incidence_body
    order = np.argsort(known)
    at = np.searchsorted(known[order], constraint[:, None, None] * bodies + np.maximum(link, 0))
    t = order[np.minimum(at, len(order) - 1)]
    row = (np.arange(len(constraint)) - system.row_start[constraint])[:, None, None]
    block = system.block_start[t] + row * np.diff(system.body_start)[np.maximum(link, 0)]
    return np.where(link >= 0, block, -1).reshape(-1, 4)


@inner
def _put_row(bodies, table, row_block, r, ends, state, wrench, j):
    """Write row r into the blocks of J, which start at 0."""
    for slot in range(2):
        k = table.row_pair[r, slot]
        if k < 0:
            continue
        o = 6 * slot
        nx, ny, nz = wrench[r, o], wrench[r, o + 1], wrench[r, o + 2]
        fx, fy, fz = wrench[r, o + 3], wrench[r, o + 4], wrench[r, o + 5]
        frame = table.pair_frame
        if row_block[r, 2 * slot] >= 0:
            cx, cy, cz = _cross(state, k, LEVER_B, fx, fy, fz)
            add_row(
                bodies, table.pair_link[k, 1], ends, frame[k, 21], frame[k, 22], frame[k, 23],
                nx + cx, ny + cy, nz + cz, fx, fy, fz, row_block[r, 2 * slot], j,
            )  # fmt: skip
        if row_block[r, 2 * slot + 1] >= 0:
            cx, cy, cz = _cross(state, k, LEVER_A, fx, fy, fz)
            dx, dy, dz = _cross(state, k, GAP, fx, fy, fz)
            add_row(
                bodies, table.pair_link[k, 0], ends, frame[k, 9], frame[k, 10], frame[k, 11],
                -(nx + cx + dx), -(ny + cy + dy), -(nz + cz + dz), -fx, -fy, -fz, row_block[r, 2 * slot + 1], j,
            )  # fmt: skip


@inner
def _cross(state, k, o, fx, fy, fz):
    x, y, z = state[k, o], state[k, o + 1], state[k, o + 2]
    return y * fz - z * fy, z * fx - x * fz, x * fy - y * fx


@outlined
def _set_pairs(first, last, link, frame, ends, state):
    """Fill the states of the pairs first .. last - 1."""
    for k in range(first, last):
        set_pair(k, link, frame, ends, state)


@outlined
def evaluate_rows(bodies, system, table, row_block, scalable_pairs, time, rows, pose, u, e):
    """Fill poses, pairs, values and blocks of the first `rows` rows; the mass blocks are left alone.

    Pairs are filled shortly before their rows: large models are bound by memory, and find them in cache.
    """
    set_ends(bodies, pose, u, e.ends)
    link, frame, ready, pairs = table.pair_link, table.pair_frame, 0, len(table.pair_link)
    if len(scalable_pairs) > 0 or len(table.compound) > 0:
        _set_pairs(0, pairs, link, frame, e.ends, e.state)
        ready = pairs
        for t in range(len(scalable_pairs)):
            set_scalable_pair(scalable_pairs[t], table.pair_link, table.pair_frame, bodies, e.ends, e.state)
        set_compounds(table.compound, table.factor_kind, table.factor_data, time, e.scratch, e.state)
    j, c = e.j, 0
    for r in range(rows):
        while system.row_start[c] <= r:
            for o in range(
                system.block_start[system.incidence_start[c]], system.block_start[system.incidence_start[c + 1]]
            ):
                j[o] = 0.0
            c += 1
        last = max(table.row_pair[r, 0], table.row_pair[r, 1])
        if ready <= last:
            last = min(last + _AHEAD, pairs)
            _set_pairs(ready, last, link, frame, e.ends, e.state)
            ready = last
        row(table, r, time, e.state, e.near, e.wrench, e.values)
        _put_row(bodies, table, row_block, r, e.ends, e.state, e.wrench, j)
    _set_pairs(ready, pairs, link, frame, e.ends, e.state)


@outlined
def evaluate(
    # model
    bodies, system, table, row_block, scalable_pairs,
    # in
    time, rows, pose, u,
    # out
    e,
):  # fmt: skip
    """Fill everything at (pose, u): ends, pairs, values and blocks of the first `rows` rows, mass blocks."""
    evaluate_rows(bodies, system, table, row_block, scalable_pairs, time, rows, pose, u, e)
    set_masses(bodies, pose, e.ends, e.m)


def indices_of(system: System, constraints: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return, of each number in the rows of `constraints`, its row counted among them, its index in J and in u."""
    out, row = [], 0
    for c in constraints.tolist():
        count = int(system.row_start[c + 1] - system.row_start[c])
        for t in range(int(system.incidence_start[c]), int(system.incidence_start[c + 1])):
            body, start = int(system.incidence_body[t]), int(system.block_start[t])
            first, last = int(system.body_start[body]), int(system.body_start[body + 1])
            for i in range(count):
                at = start + i * (last - first)
                out += [(row + i, at + k, first + k) for k in range(last - first)]
        row += count
    found = np.array(out, np.int64).reshape(-1, 3)
    return found[:, 0], found[:, 1], found[:, 2]


def diagonal_of(system: System) -> np.ndarray:
    """Return the index in flat M of the diagonal mass of each velocity."""
    dims = np.diff(system.body_start)
    own = np.arange(system.body_start[-1]) - np.repeat(system.body_start[:-1], dims)
    return np.repeat(system.mass_start[:-1], dims) + own * (np.repeat(dims, dims) + 1)


@outlined
def evaluate_predicted(setup, time, pose, u, e):
    """Fill the values of the constraint rows at predicted poses, without Jacobian blocks."""
    table = setup.table
    set_ends(setup.bodies, pose, u, e.ends)
    for k in range(len(table.pair_link)):
        set_pair(k, table.pair_link, table.pair_frame, e.ends, e.state)
    for k in range(len(setup.scalable_pairs)):
        set_scalable_pair(setup.scalable_pairs[k], table.pair_link, table.pair_frame, setup.bodies, e.ends, e.state)
    set_compounds(table.compound, table.factor_kind, table.factor_data, time, e.scratch, e.state)
    for r in range(setup.system.row_start[setup.constraints[1]]):
        row(table, r, time, e.state, e.near, e.wrench, e.values)


@outlined
def remove_gyroscopic(bodies, ends, pose, f):
    """Remove the gyroscopic torques of rigid bodies from f: momenta in world axes do not have them."""
    for i in range(len(bodies.kind)):
        if bodies.kind[i] == RIGID:
            wx, wy, wz = ends[i, 12], ends[i, 13], ends[i, 14]
            lx, ly, lz = symmetric_times(world_inertia(i, RIGID, bodies, pose, ends), wx, wy, wz)
            x, y, z = cross(wx, wy, wz, lx, ly, lz)
            o = bodies.start[i]
            f[o] += x
            f[o + 1] += y
            f[o + 2] += z
