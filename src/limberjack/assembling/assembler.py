"""`Assembler`: the solids of a model, moved until its joints close; `assemble` and `pose` are its faces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from limberjack.articulated.dynamics import array_of, forward_kinematics
from limberjack.assembling.correct import ASK, OWN, TOLD, correct
from limberjack.assembling.net import PLACE, TARGET, TURNED, TURNS, new_net, new_setup, new_work
from limberjack.constraints.bodies import AFFINE, POSE, RIGID, SCALABLE, SHAPE
from limberjack.constraints.maximal import new_evaluation, new_maximal
from limberjack.constraints.rows import ANGLE, COORDINATES
from limberjack.constraints.table import DRIVE
from limberjack.errors import StateError, UnknownName, UnsupportedByMethod
from limberjack.maximal.plain import weighed_model
from limberjack.model.check import frame_rotation
from limberjack.model.compile import joint_frames
from limberjack.model.joints import coordinate_counts, coordinates
from limberjack.model.model import Model
from limberjack.model.own_bodies import OwnBody
from limberjack.model.spec import WORLD
from limberjack.solvers.krylov import FAILED
from limberjack.solvers.over_tree import OverTree, new_over_tree, solve_over_tree
from limberjack.spatial.frames import compose, invert, matrix_from_quaternion, quaternion_from_matrix

__all__ = ["CLAMP", "Assembler", "Target", "checked_targets", "read_coordinates"]

# The paper's cut of rotations in one iteration [rad].
CLAMP = 0.8
# By how much the errors may grow in one iteration: far starts go through worse places to better ones.
_WORSE = 3.0
# Of all rows, those that loops may have for the spanning tree to be worth its solves.
_LOOPS = 0.25


@dataclass(frozen=True)
class Target:
    """Where a point of a body is wanted: its place in the body frame, in the world, and the body's rotation or None."""

    name: str
    body: int
    place: np.ndarray
    to: np.ndarray
    rotation: np.ndarray | None


def checked_targets(model: Model, targets: Any, what: str) -> tuple[list[Target], list[int]]:
    """Return targets and bodies that stay where they are, from names or a mapping of names.

    Args:
        model: the model.
        targets: names of bodies that stay; or {body or point: None, position, or (position, rotation)}.
        what: the argument's name, for errors.
    """
    if targets is None:
        targets = {}
    if isinstance(targets, str) or not isinstance(targets, (Mapping, Iterable)):
        raise StateError(f"{what} must be names of bodies, or say for each where it is wanted, got {targets!r}")
    items = targets.items() if isinstance(targets, Mapping) else ((name, None) for name in targets)
    wanted, still = [], []
    points = {point.name: point for point in model.points if point.body != WORLD}
    for name, value in items:
        if name in points and name not in model.body_names:
            body, place = model.body_index(points[name].body), np.array(points[name].position, float)
        elif name in model.body_names:
            body, place = model.body_index(name), np.zeros(3)
        else:
            raise UnknownName("body or point", name, f'model "{model.name}"', (*model.body_names, *points))
        if value is None:
            still.append(body)
            continue
        if int(model.arrays.body_link[body]) < 0:
            raise StateError(f'body "{name}" is fixed to the world and cannot be moved')
        wanted.append(Target(name, body, place, *_checked_place(model, name, value, what)))
    return wanted, still


def _checked_place(model: Model, name: str, value: Any, what: str) -> tuple[np.ndarray, np.ndarray | None]:
    label = f'{what} of "{name}"'
    try:
        pair = len(value) == 2
    except TypeError:
        pair = False
    if pair:
        turn = frame_rotation(value[1], f"rotation of {label}")
        return array_of(value[0], (3,), label, model), np.array(turn, float)
    return array_of(value, (3,), label, model), None


class Assembler:
    """The solids of one model and all that a correction of them needs.

    Args:
        model: the model.
        q: (nq,) coordinates the solids start at; `model.q0` when None.
        targets: where points are wanted.
        still: bodies with null inverse mass.
        limits: whether joint limits count.
    """

    def __init__(
        self,
        model: Model,
        q: np.ndarray | None = None,
        targets: Iterable[Target] = (),
        still: Iterable[int] = (),
        *,
        limits: bool = True,
    ) -> None:
        self.model = model
        self.whole = new_maximal(weighed_model(model), frozenset() if limits else frozenset({"limits"}))
        self.targets = list(targets)
        self.net = new_net(model, self.whole, trackers=len(self.targets))
        self.work = new_work(self.net)
        self.setup, self._e = new_setup(model, self.whole), new_evaluation(self.whole)
        self._u = np.zeros(int(self.whole.bodies.start[-1]))
        self._drives = np.flatnonzero(self.whole.table.role == DRIVE)
        self.pose = np.zeros((len(self.whole.bodies.kind), POSE))
        link = model.arrays.body_link
        self.work.free[[int(link[b]) for b in still if link[b] >= 0]] = 0.0
        # a body of each link, to read the link's pose off
        self._body = np.zeros(len(self.pose), np.int64)
        for b in range(model.body_count - 1, -1, -1):
            if link[b] >= 0:
                self._body[link[b]] = b
        self._over: OverTree | None = None
        self._over_still: tuple[np.ndarray, OverTree | None] | None = None
        self._scale()
        self.put(model.q0 if q is None else q)
        for t, target in enumerate(self.targets):
            self._track(t, target)

    def _scale(self) -> None:
        kinds = self.whole.bodies.kind
        for body in self.model.spec.bodies:
            link = int(self.model.arrays.body_link[self.model.body_index(body.name)])
            if isinstance(body, OwnBody):
                raise UnsupportedByMethod(
                    f'body "{body.name}" is of registered kind "{body.body_kind}": give it coordinates that close its '
                    "joints; assembling moves bodies of other kinds"
                )
            if link >= 0 and kinds[link] >= SCALABLE:
                plain = np.eye(3).ravel() if kinds[link] == AFFINE else np.ones(3)
                scale = plain if body.scale is None else np.atleast_1d(np.array(body.scale, float))
                self.pose[link, SHAPE : SHAPE + scale.size] = scale

    def _offset(self, b: Any) -> tuple[np.ndarray, np.ndarray]:
        offset = self.model.arrays.body_offset[b]
        return offset[..., :9].reshape(*offset.shape[:-1], 3, 3), offset[..., 9:]

    def put(self, q: np.ndarray) -> None:
        """Place the solids as coordinates q say; turns count from there."""
        self.near = np.array(q, float)
        self.put_bodies(*forward_kinematics(self.model, self.near))
        table, e = self.whole.table, self._e
        for r in self._drives:
            place = int(table.drive[r, 0])
            if table.speed[r] or place >= self.model.nq:
                continue
            _, pair, axis, _ = table.terms[table.term_start[r]]
            frame, link = table.pair_frame[pair], table.pair_link[pair]
            same = (table.pair_frame[table.terms[:, 1]] == frame).all(1) & (
                table.pair_link[table.terms[:, 1]] == link
            ).all(1)
            e.near[same & (table.terms[:, 0] == ANGLE) & (table.terms[:, 2] == axis)] = self.near[place]
        for pair, _, count in table.compound:
            rows = [int(r) for r in self._drives if table.terms[table.term_start[r], 1] == pair]
            start = [self.near[int(table.drive[r, 0])] for r in rows if table.drive[r, 0] < self.model.nq]
            e.state[pair, COORDINATES : COORDINATES + count] = start if len(start) == count else 0.0

    def put_bodies(self, positions: np.ndarray, rotations: np.ndarray) -> None:
        """Place the solids where body frames are given; of several bodies on one link the first counts."""
        if not len(self.pose):
            return
        r, p = matrix_from_quaternion(rotations[self._body]), positions[self._body]
        r, p = compose(r, p, *invert(*self._offset(self._body)))
        self.pose[:, :3] = p + np.einsum("nij,nj->ni", r, self.whole.center)
        self.pose[:, 3:7] = quaternion_from_matrix(r)

    def _track(self, t: int, target: Target) -> None:
        link = int(self.model.arrays.body_link[target.body])
        r, p = self._offset(target.body)
        w, c = self.work, int(self.net.ends[2]) + t
        w.held[t] = link
        self.net.system.touch_body[self.net.system.touch_start[c]] = link
        w.track[t, PLACE : PLACE + 3] = r @ target.place + p - self.whole.center[link]
        w.track[t, TARGET : TARGET + 3] = target.to
        if target.rotation is not None:
            w.track[t, TURNED : TURNED + 4] = quaternion_from_matrix(matrix_from_quaternion(target.rotation) @ r.T)
            w.track[t, TURNS] = 1.0

    def let_go(self) -> None:
        """Forget the targets."""
        self.work.held[:] = -1

    def correct(
        self,
        iterations: int,
        solver_iterations: int,
        *,
        tolerance: float = 1e-12,
        solver_tolerance: float = 1e-12,
        physical: bool = False,
        clamp: float = CLAMP,
    ) -> int:
        """Move the solids; return 0, or 1 where they are no longer finite. `work.report` tells the rest."""
        self.work.total[:] = 0.0
        self.work.on[self.net.ends[0] : self.net.ends[1]] = 0
        return self._correct(iterations, solver_iterations, tolerance, solver_tolerance, physical, clamp)

    def settle(
        self,
        iterations: int,
        solver_iterations: int,
        *,
        tolerance: float = 1e-12,
        solver_tolerance: float = 1e-12,
        physical: bool = False,
        clamp: float = CLAMP,
    ) -> int:
        """Move the solids as `correct` does, and take no iteration that makes things much worse.

        Where constraints contradict another, or nearly, a solve to the end asks for displacements without bound; one
        that is cut short does not. `work.report` counts all iterations.
        """
        report, most = self.work.report, solver_iterations
        self._over = self._tree()
        status = self.correct(0, 0)
        count = total = 0.0
        while status == 0 and count < iterations and report[2] > tolerance:
            before, near, norm = self.pose.copy(), self._e.near.copy(), float(report[5])
            status = self._step(most, tolerance, solver_tolerance, physical, clamp)
            count, total = count + 1.0, total + float(report[1])
            if status == 0 and report[5] <= _WORSE * norm:
                most = min(2 * most, solver_iterations)
                continue
            self.pose[:], self._e.near[:], self.work.krylov.kept[:] = before, near, 0.0
            status = self._correct(0, 0, tolerance, solver_tolerance, physical, clamp)
            if self._over is not None:
                self._over = None  # what joints of the tree cannot give way to, all together may
                continue
            if most <= 1:
                break
            most = max(1, most // 4)
        report[0], report[1] = count, total
        return status

    def _tree(self) -> OverTree | None:
        """Return what solves over the spanning tree work on, or None where it would not help."""
        system, net, table = self.net.system, self.net, self.whole.table
        still = self.work.free == 0.0
        if self._over_still is not None and (self._over_still[0] == still).all():
            return self._over_still[1]
        over = None
        held = np.arange(len(system.row_start) - 1) < net.ends[0]
        held[: net.ends[0]] &= table.speed[self.whole.system.row_start[: net.ends[0]]] == 0
        if (self.whole.bodies.kind == RIGID).all() and held.any():
            over = new_over_tree(system, ~still, held, net.pairs)
            left = np.diff(system.row_start)[held & (over.tree.constraint_node < 0)].sum()
            if left > _LOOPS * int(net.rows[0]):
                over = None
        self._over_still = (still, over)
        return over

    def _step(
        self, solver_iterations: int, tolerance: float, solver_tolerance: float, physical: bool, clamp: float
    ) -> int:
        """Take one iteration, over the tree where there is one."""
        w, options = self.work, (tolerance, solver_tolerance, physical, clamp)
        if self._over is not None:
            self._correct(1, 0, *options, given=ASK)
            status = solve_over_tree(
                self.net.system, w.minv, w.j, w.c, w.b, self.pose, solver_iterations, solver_tolerance, self._over,
                w.lam, w.solve,
            )  # fmt: skip
            if status != FAILED:
                return self._correct(1, 0, *options, given=TOLD)
            self._over = None
        return self._correct(1, solver_iterations, *options)

    def _correct(
        self, iterations: int, solver_iterations: int, tolerance: float, solver_tolerance: float, physical: bool,
        clamp: float, *, given: int = OWN,
    ) -> int:  # fmt: skip
        return correct(
            self.setup, self.net, given, physical, 0.0, 0.0, iterations, solver_iterations, tolerance, solver_tolerance,
            clamp, self._u, self._e, self.pose, self.work,
        )  # fmt: skip

    def bodies(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (body_count, 3) positions and (body_count, 4) rotations of the body frames."""
        m = self.model
        link = m.arrays.body_link
        r, p = np.tile(np.eye(3), (m.body_count, 1, 1)), np.zeros((m.body_count, 3))
        on = link >= 0
        if len(self.pose):
            turned = matrix_from_quaternion(self.pose[:, 3:7])
            origin = self.pose[:, :3] - np.einsum("nij,nj->ni", turned, self.whole.center)
            r[on], p[on] = turned[link[on]], origin[link[on]]
        r, p = compose(r, p, *self._offset(np.arange(m.body_count)))
        return p, quaternion_from_matrix(r)

    def residuals(self) -> dict[str, float]:
        """Return the largest error of each joint, as last looked at [m, rad]."""
        out = dict.fromkeys(self.model.joint_names, 0.0)
        sided, rows = int(self.net.rows[0]), int(self.net.rows[1])
        sizes = np.abs(self.work.value[:rows])
        sizes[sided:] = np.maximum(-self.work.value[sided:rows], 0.0)
        for r in range(rows):
            name = self.model.joint_names[int(self.whole.table.joint[r])]
            out[name] = max(out[name], float(sizes[r]))
        return out


def read_coordinates(model: Model, positions: np.ndarray, rotations: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Return (nq,) the coordinates of the tree's joints read off body frames, turns counted nearest to `near`."""
    q = np.array(near, float)
    turned = matrix_from_quaternion(rotations)
    for i, name in enumerate(model.joint_names[: model.body_count]):
        joint = model.joint_spec(name)
        nq = coordinate_counts(joint)[0]
        if nq == 0:
            continue
        r_p, p_p, r_c, p_c = joint_frames(joint)
        ends = []
        for body, r, p in ((joint.parent, r_p, p_p), (joint.child, r_c, p_c)):
            b = -1 if body == WORLD else model.body_index(body)
            ends.append((r, p) if b < 0 else compose(turned[b], positions[b], r, p))
        place = slice(int(model.arrays.q_start[i]), int(model.arrays.q_start[i]) + nq)
        q[place] = coordinates(joint, *compose(*invert(*ends[0]), *ends[1]), near[place])
    return q
