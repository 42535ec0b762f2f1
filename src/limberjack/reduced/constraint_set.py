"""What a model's constraints need beside its tree: table, state and scratch of the rows, grips, forces of loop joints.

`ConstraintSet` is the Python side of `constrained_step.py`, shared by the methods in reduced coordinates.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from limberjack.constraints.row_forces import RowForces, forces_of_rows
from limberjack.constraints.rows import ANGLE, COORDINATES, ROWS, SLIDE, TURN
from limberjack.constraints.runtime import (
    Driven,
    RuntimeJoint,
    is_closing,
    read_driven,
    read_runtime_joints,
    row_targets,
    write_driven,
    write_runtime_joints,
)
from limberjack.constraints.table import (
    DRIVE,
    EQUALITY,
    GRIP,
    INEQUALITY,
    Pairs,
    Row,
    Table,
    collect,
    coordinate_terms,
    joint_rows,
    new_table,
    spring_rows,
)
from limberjack.errors import Diverged, LimberjackError, LoopNotClosed, StateError, Status, UnknownName
from limberjack.model.arrays import LINK, SPAN, Links, span_of
from limberjack.model.compile import drives_of, joint_frames
from limberjack.model.joints import SPIN, coordinate_counts, coordinates, motions_of
from limberjack.model.kinematic import KINEMATIC
from limberjack.model.model import Model
from limberjack.model.spec import WORLD, Joint
from limberjack.reduced.constrained_step import GAP_ALLOWED, LoopState, new_loop_state
from limberjack.reduced.rows import ConstraintState, blocks_of_rows, grown, new_constraint_state
from limberjack.spatial.frames import compose, invert

__all__ = ["ConstraintSet", "Grip", "needs_rows", "tied_blocks"]

_THREE = struct.Struct("3d")
_WELD = Joint("", "fixed", WORLD, "", (0.0,) * 3, (1.0, 0.0, 0.0, 0.0), (0.0,) * 3, (1.0, 0.0, 0.0, 0.0))


def tied_blocks(model: Model, ties: Iterable[tuple[int, int]]) -> np.ndarray:
    """Return spans (k, SPAN) of whole trees such that each tie (two links, -1 = world) lies in one; springs tie too."""
    links, drives = model.arrays.links, model.arrays.drives
    n = len(links.parent)
    if len(model.arrays.springs.link):
        return span_of(links, drives, 0, n)[None].copy()
    # one block per tree: what the rows of one figure take to settle must not show in another
    roots = np.append(np.flatnonzero(links.parent < 0), n)
    plain = np.array([span_of(links, drives, int(i), int(j)) for i, j in itertools.pairwise(roots)])
    plain = plain.reshape(-1, SPAN)
    starts = plain[:, LINK]
    joined = np.zeros(len(plain) + 1, np.int64)
    for a, b in ties:
        if a >= 0 and b >= 0:
            i, j = sorted(int(np.searchsorted(starts, x, side="right")) - 1 for x in (a, b))
            joined[i] += 1
            joined[j] -= 1
    # a block goes on into the next while any tie spans the border
    open_ties = np.cumsum(joined)[:-1]
    ends, begin = [], 0
    for k in range(len(plain)):
        if open_ties[k] == 0:
            ends.append((int(starts[begin]), int(plain[k, LINK + 1])))
            begin = k + 1
    return np.array([span_of(links, drives, i, j) for i, j in ends]).reshape(-1, plain.shape[1])


def needs_rows(model: Model, ignored: Iterable[str]) -> bool:
    """Return whether a model has loops, gears, velocity constraints or hard limits that are not ignored.

    Springs, which are rows in implicit steps beside others, need none on their own.
    """
    left = set(ignored)
    kinds = {"gear": "gears", "no_slip": "velocity"}
    if any(kinds.get(model.joint_spec(name).kind, "loops") not in left for name in model.loop_names):
        return True
    if "limits" in left:
        return False
    return bool(np.isfinite(model.arrays.limits).any()) or any(
        joint.cone is not None or joint.twist is not None for joint in model.spec.joints
    )


@dataclass(eq=False)
class Grip:
    """A point of a link drawn to a position in the world, and if asked for to a rotation, by rows that give way."""

    link: int
    point: np.ndarray  # (3,) in the link frame
    target: np.ndarray  # (3,) in the world
    rotation: np.ndarray | None  # (3, 3) the link's frame in the world, or None where it turns as it likes
    stiffness: float
    damping: float
    most: float  # largest force along each axis [N]
    lever: float = 0.1  # torques are forces at this distance [m]
    body: int = -1  # the body that was gripped, of those on the link

    def rows(self, pairs: Pairs, index: int) -> list[Row]:
        """Return the rows of the grip, to stand at `index` among the joints, springs and grips."""
        world = np.concatenate([(np.eye(3) if self.rotation is None else self.rotation).ravel(), self.target])
        pair = pairs.add((-1, world), (self.link, np.concatenate([np.eye(3).ravel(), self.point])))
        soft = (self.stiffness, self.damping, self.most)
        out = [Row(index, [(pair, (SLIDE, c, 0, 1.0))], role=GRIP, soft=soft) for c in range(3)]
        if self.rotation is not None:
            f = self.lever**2
            soft = (f * self.stiffness, f * self.damping, self.lever * self.most)
            for terms, _ in joint_rows(_WELD)[:3]:
                out.append(Row(index, [(pair, term) for term in terms], role=GRIP, soft=soft))
        return out


class ConstraintSet:
    """The rows of a model on its tree, their blocks, and the state of loop joints."""

    def __init__(self, model: Model, ignored: Iterable[str], *, implicit: bool) -> None:
        self.model, self._ignored, self._implicit = model, frozenset(ignored), implicit
        loops = [model.joint_spec(name) for name in model.loop_names]
        self._loops = [joint for joint in loops if joint.kind not in ("gear", "no_slip", "distance")]
        sizes = [coordinate_counts(joint) for joint in self._loops]
        q, v = np.cumsum([0, *(nq for nq, _ in sizes)]), np.cumsum([0, *(nv for _, nv in sizes)])
        self._drives = drives_of(self._loops, q[:-1], v[:-1], int(v[-1]))[0]
        self._start = {joint.name: (int(a), int(b)) for joint, a, b in zip(self._loops, q, v, strict=False)}
        self._sizes = (int(q[-1]), int(v[-1]))
        self.pushed: set[str] = set()  # loop joints the user applies forces to
        self.grips: list[Grip] = []
        self.attached: list[RuntimeJoint] = []  # joints made while running
        self.driven: list[Driven] = []
        self.rows: list[Row] = []
        self.build()

    def wanted(self, *features: str) -> bool:
        """Return whether any of the features is not ignored."""
        return any(feature not in self._ignored for feature in features)

    def build(self) -> None:
        """Make table, state and blocks anew, after a grip or a force on a loop joint has come or gone."""
        before = getattr(self, "own", None)
        self._grip_pairs: dict[int, int] = {}
        turns = {} if before is None else dict(zip(self._angles(), self.turns(), strict=True))
        poses = {} if before is None else self._compound_poses()
        self._row_indices: dict[int, tuple[int, int]] = {}
        rows, pairs = collect(
            self.model,
            loops="loops" not in self._ignored,
            gears="gears" not in self._ignored,
            limits="limits" not in self._ignored,
        )
        if "loops" not in self._ignored:
            rows += self._drive_rows(pairs)
        if self._implicit:
            rows += self._spring_rows(pairs)
        rows += self._runtime_rows(pairs)
        for k, grip in enumerate(self.grips):
            rows += grip.rows(pairs, self._first_grip() + k)
        links = self.model.arrays.links
        link = np.array(pairs.link, np.int64).reshape(-1, 2)
        self.spans = tied_blocks(self.model, _ties(links, rows, link))
        block = blocks_of_rows(links, rows, link, self.spans)
        later = np.array([row.role == INEQUALITY for row in rows], bool)
        order = np.lexsort((np.arange(len(rows)), later, block))
        rows, block = [rows[i] for i in order], block[order]
        pair_block = np.zeros(len(link), np.int64)
        for row, k in zip(rows, block, strict=True):
            for pair, _ in row.terms:
                pair_block[pair] = k
        rows, pairs, pair_block = _sorted_pairs(rows, pairs, pair_block)
        self.rows = rows
        self.table: Table = new_table(rows, pairs)
        self.constraint: ConstraintState = new_constraint_state(links, self.table, block, pair_block, self.spans)
        indices = [self._row_indices.get(id(row), (-1, -1)) for row in rows] if rows else []
        self.own: LoopState = new_loop_state(*self._sizes, indices, self._drives.scalar, self._drives.ball)
        if before is not None:
            self.own.tau[:] = before.tau
        # turns already made, and where the search for coordinates of compound joints begins, outlive the tables
        self.constraint.near[self.table.terms[:, 0] == ANGLE] = [turns.get(key, 0.0) for key in self._angles()]
        for pair in self.table.compound[:, 0]:
            if self._frames(pair) in poses:
                self.constraint.state[pair, COORDINATES:ROWS] = poses[self._frames(pair)]

    def turns(self) -> np.ndarray:
        """Return the angles that rows read, turns counted."""
        return self.constraint.near[self.table.terms[:, 0] == ANGLE]

    def _frames(self, pair: int) -> tuple[bytes, bytes]:
        return self.table.pair_link[pair].tobytes(), self.table.pair_frame[pair].tobytes()

    def _angles(self) -> list[tuple[bytes, bytes, int]]:
        """Return which angle each term reads that reads one."""
        terms = self.table.terms[self.table.terms[:, 0] == ANGLE]
        return [(*self._frames(int(pair)), int(axis)) for _, pair, axis, _ in terms]

    def _compound_poses(self) -> dict[tuple[bytes, bytes], np.ndarray]:
        pairs = self.table.compound[:, 0]
        return {self._frames(int(pair)): self.constraint.state[pair, COORDINATES:ROWS].copy() for pair in pairs}

    def _drive_rows(self, pairs: Pairs) -> list[Row]:
        """Return the rows that read the coordinates of loop joints with drives or forces."""
        out: list[Row] = []
        scalar = {int(v): k for k, (_, v) in enumerate(self._drives.indices)}
        ball = {int(v): k for k, (_, v) in enumerate(self._drives.ball_indices)}
        for joint in self._loops:
            q, v = self._start[joint.name]
            nv = coordinate_counts(joint)[1]
            if joint.name not in self.pushed and not any(v <= k < v + nv for k in (*scalar, *ball)):
                continue
            index = self.model.joint_names.index(joint.name)
            pair, terms = pairs.joint(joint), iter(coordinate_terms(joint))
            for kind in motions_of(joint):
                if kind == SPIN:
                    for c in range(3):
                        term = (pair, (TURN, 0, c, 1.0))
                        row = Row(index, [term], role=DRIVE, speed=True, drive=(-1, ball.get(v, -1)))
                        self._row_indices[id(row)] = (q, v)
                        out.append(row)
                    q, v = q + 4, v + 3
                else:
                    row = Row(index, [(pair, next(terms))], role=DRIVE, drive=(scalar.get(v, -1), -1))
                    self._row_indices[id(row)] = (q, v)
                    out.append(row)
                    q, v = q + 1, v + 1
        return out

    def _spring_rows(self, pairs: Pairs) -> list[Row]:
        """Return one row along each spring, which gives way over a step."""
        return [row for k in range(len(self.model.springs)) for row in spring_rows(self.model, pairs, k)]

    # Rows that come and go

    @property
    def changes(self) -> bool:
        """Whether there are rows that come and go: grips, joints made while running, driven coordinates."""
        return bool(self.grips or self.attached or self.driven)

    def _first_attached(self) -> int:
        """Return the index of the first joint made while running; those of the model and its springs come before."""
        return self.model.joint_count + len(self.model.springs)

    def _first_grip(self) -> int:
        return self._first_attached() + len(self.attached)

    def _runtime_rows(self, pairs: Pairs) -> list[Row]:
        """Return the rows of joints made while running and of driven coordinates."""
        out: list[Row] = []
        for k, one in enumerate(self.attached):
            pair = pairs.joint(one.joint)
            for terms, value in joint_rows(one.joint):
                out.append(Row(self._first_attached() + k, [(pair, term) for term in terms], target=(value, 0.0)))
        for one in self.driven:
            name = self.model.joint_names[one.joint]
            joint, info = self.model.joint_spec(name), self.model.joint(name)
            row = Row(one.joint, target=(one.start, one.rate))
            if info.is_loop:
                row.terms.append((pairs.joint(joint), coordinate_terms(joint)[one.axis]))
            else:
                row.coordinates.append((info.v_start + one.axis, info.q_start + one.axis, 1.0))
            out.append(row)
        return out

    def loop_coordinate(self, joint: Joint, axis: int, *poses: tuple[np.ndarray, np.ndarray]) -> float:
        """Return a coordinate of a loop joint with its turns counted, its bodies at these poses (rotation, origin)."""
        r_p, p_p, r_c, p_c = joint_frames(joint)
        (turn, origin), (other_turn, other) = poses
        ends = compose(turn, origin, r_p, p_p), compose(other_turn, other, r_c, p_c)
        value = float(coordinates(joint, *compose(*invert(*ends[0]), *ends[1]))[axis])
        if coordinate_terms(joint)[axis][0] != ANGLE:
            return value
        pairs = Pairs(self.model)
        pair = pairs.joint(joint)
        key = np.array(pairs.link[pair], np.int64).tobytes(), np.array(pairs.frame[pair], float).tobytes()
        turns = dict(zip(self._angles(), self.turns(), strict=True))
        near = turns.get((*key, coordinate_terms(joint)[axis][1]), value)
        return value + 2.0 * np.pi * round((near - value) / (2.0 * np.pi))

    def attached_rows(self, k: int) -> np.ndarray:
        """Return the rows of joint k made while running."""
        return np.flatnonzero(self.table.joint == self._first_attached() + k)

    def prescribed_rows(self) -> np.ndarray:
        """Return the rows of driven coordinates, of led bodies and of gaps that are being closed."""
        out = np.isin(self.table.joint, [one.joint for one in self.driven]) & (self.table.role == EQUALITY)
        for k, one in enumerate(self.attached):
            rows = self.attached_rows(k)
            out[rows] = one.joint.kind == KINEMATIC or self.table.target[rows, 1].any()
        return np.flatnonzero(out)

    def attached_named(self, name: str) -> RuntimeJoint:
        """Return the joint made while running with this name."""
        for one in self.attached:
            if one.joint.name == name:
                return one
        names = [one.joint.name for one in self.attached if one.joint.kind != KINEMATIC]
        raise UnknownName("attached joint", name, f'model "{self.model.name}"', names)

    def is_timed(self, time: float) -> bool:
        """Return whether rows have targets that move in time."""
        return bool(self.driven) or any(is_closing(one, time, 0.0) for one in self.attached)

    def aim_attached(self, time: float, dt: float) -> bool:
        """Set the targets of joints whose gaps are closed in a step from `time` on; return whether any changed."""
        changed, target = False, self.table.target
        for k, one in enumerate(self.attached):
            if len(one.gap):
                rows, new = self.attached_rows(k), row_targets(one, is_closing(one, time, dt))
                changed = changed or not np.array_equal(target[rows], new)
                target[rows] = new
        return changed

    def runtime_arrays(self) -> dict[str, np.ndarray]:
        """Return joints made while running and driven coordinates, for snapshots; nothing where there are none."""
        out: dict[str, np.ndarray] = {}
        if self.attached:
            out["list_attached"] = write_runtime_joints(self.attached, {})
        if self.driven:
            out["list_driven"] = write_driven(self.driven)
        return out

    def runtime_from(self, arrays: dict[str, np.ndarray]) -> tuple[list[RuntimeJoint], list[Driven]]:
        """Return the joints and driven coordinates of `runtime_arrays`."""
        attached, _ = read_runtime_joints(self.model, arrays.get("list_attached", np.zeros(0, np.uint8)))
        return attached, read_driven(self.model, arrays.get("list_driven", np.zeros((0, 4))))

    def move_grip(self, grip: Grip) -> None:
        """Take the position and rotation a grip now aims at."""
        self.aim(grip, self.table)

    def aim(self, grip: Grip, table: Table) -> None:
        """Write the position and rotation a grip aims at into a table of these rows."""
        frames: Any = table.pair_frame
        pair = self.grip_pair(grip)
        if grip.rotation is not None:
            frames[pair, :9] = grip.rotation.ravel()
        # targets may change at every step, and an assignment of NumPy costs more than a joint of it
        _THREE.pack_into(frames, 8 * (pair * frames.shape[1] + 9), *grip.target.tolist())

    def grip_pair(self, grip: Grip) -> int:
        """Return the pair of frames of a grip, the first in the world."""
        k = self.grips.index(grip)
        if k not in self._grip_pairs:
            row = int(np.flatnonzero(self.table.joint == self._first_grip() + k)[0])
            self._grip_pairs[k] = int(self.table.row_pair[row, 0])
        return self._grip_pairs[k]

    def grip_force(self, grip: Grip) -> np.ndarray:
        """Return the force (3,) a grip pulled with in the last step, world axes."""
        index = self._first_grip() + self.grips.index(grip)
        rows = np.flatnonzero(self.table.joint == index)[:3]
        axes = self.table.pair_frame[self.table.row_pair[rows[0], 0], :9].reshape(3, 3)
        return axes @ self.constraint.multipliers[rows]

    def grow(self) -> None:
        """Make room for more rows at once."""
        self.constraint = grown(self.constraint, len(self.rows))

    def has_dofs(self, name: str) -> bool:
        """Return whether `name` is a loop joint that forces can act along."""
        return name in self._start and "loops" not in self._ignored

    def push(self, name: str) -> tuple[np.ndarray, bool]:
        """Return the applied forces of a loop joint, to be written, and whether rows were made for them just now."""
        if not self.has_dofs(name):
            raise StateError(f'joint "{name}" has no dof for a force')
        new = name not in self.pushed
        if new:
            self.pushed.add(name)
            self.build()
        return self.forces_on(name), new

    def forces_on(self, name: str) -> np.ndarray:
        """Return the applied forces of a loop joint, to be written."""
        _, v = self._start[name]
        return self.own.tau[v : v + coordinate_counts(self.model.joint_spec(name))[1]]

    def row_forces(self) -> RowForces:
        """Return the forces of the rows in the last step; forces applied to loop joints are among them."""
        table, constraint, own = self.table, self.constraint, self.own
        multipliers = constraint.multipliers.copy()
        applied = own.indices[:, 1] >= 0
        if len(own.tau):
            # of a ball the index is that of the first of its three rows
            number = np.zeros(len(multipliers), np.int64)
            for r in np.flatnonzero(applied & (table.speed == 1)):
                number[r] = 0 if r == 0 or own.indices[r - 1, 1] != own.indices[r, 1] else number[r - 1] + 1
            multipliers[applied] += own.tau[(own.indices[:, 1] + number)[applied]]
        return forces_of_rows(table, multipliers, constraint.wrench)

    def explain(self, status: int, where: str) -> tuple[type[LimberjackError], str, str] | None:
        """Return (error, joint, message) of a status of `take_constrained_steps` that the rows caused, else None."""
        if status not in (Status.OPEN_LOOP, Status.INFEASIBLE):
            return None
        if status == Status.INFEASIBLE:
            text = f"no forces of the limits fit together at {where}"
            return Diverged, "", text
        gap, row = float(self.constraint.report[3]), int(self.constraint.report[4])
        name = self.joint_of(row) if row >= 0 else ""
        if gap > GAP_ALLOWED:
            text = f'joint "{name}": gap {gap:.3g} m > 1e-8 m at {where}'
        else:
            # the least gap of the iteration, which left it again
            text = f'joint "{name}": closed within {gap:.3g} m at {where}, and open again by the next correction'
        advice = 'in a singular pose, as of a chain pulled straight, method "multipliers" goes on'
        return LoopNotClosed, name, f"{text}; try a smaller dt, or lj.assemble before the first step; {advice}"

    def redundant(self) -> tuple[int, int]:
        """Return how many rows acted last and their rank."""
        return int(self.constraint.report[0]), int(self.constraint.report[1])

    def joint_of(self, row: int) -> str:
        """Return the name of the joint, spring or grip a row belongs to."""
        index = int(self.table.joint[row])
        names = [*self.model.joint_names, *(spring.name for spring in self.model.springs)]
        names += [one.joint.name for one in self.attached]
        return names[index] if index < len(names) else "grip"


def _ties(links: Links, rows: list[Row], pair_link: np.ndarray) -> list[tuple[int, int]]:
    """Return pairs of links that one row acts on."""
    owner = np.repeat(np.arange(len(links.parent)), links.dof)
    out = []
    for row in rows:
        on = [int(i) for pair, _ in row.terms for i in pair_link[pair] if i >= 0]
        on += [int(owner[v]) for v, _, _ in row.coordinates]
        out += [(on[0], i) for i in on[1:]]
    return out


def _sorted_pairs(rows: list[Row], pairs: Pairs, block: np.ndarray) -> tuple[list[Row], Pairs, np.ndarray]:
    """Return rows and pairs with the pairs of each block together."""
    order = np.argsort(block, kind="stable")
    new_index = pairs.sort(order)
    for row in rows:
        row.terms = [(int(new_index[pair]), term) for pair, term in row.terms]
    return rows, pairs, block[order]
