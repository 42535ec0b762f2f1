"""`assemble`: close the joints of a model from any start; `pose`: coordinates that bring points to their targets.

`Assembler` owns the solids of one model and corrects them by displacements (`displacement_solve.py`), in the unit
metric unless told otherwise: geometry alone decides then, and light bodies do not spin away. Where the loops are few,
solves are preconditioned by a spanning tree of the joints. `pose` treats targets as trackers and ends with damped
Newton iterations on the joint coordinates. Contacts are one-sided rows without friction, found anew at every iterate:
bodies leave obstacles and each other by the shortest way while their joints close.

Reference: Faure 1998, section 3.4 (assembly) and section 4.1 (inverse kinematics).
"""

# Arguments are checked whatever their annotations say.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from limberjack.collision.detect import find_contacts, new_detector
from limberjack.constraints.rows import ANGLE, COORDINATES
from limberjack.constraints.table import DRIVE
from limberjack.errors import Diverged, StateError, UnknownName, UnsupportedByMethod
from limberjack.linear.krylov import FAILED
from limberjack.linear.tree_preconditioner import TreePreconditioner, solve_tree_preconditioned
from limberjack.maximal import displacement_contacts
from limberjack.maximal.bodies import AFFINE, POSE, RIGID, SCALABLE, SHAPE
from limberjack.maximal.displacement_rows import (
    HAS_ROTATION,
    POINT,
    ROTATION,
    TARGET,
    new_net,
    new_reads,
    new_setup,
    new_tree,
    new_work,
)
from limberjack.maximal.displacement_solve import ASSEMBLE_ONLY, SOLUTION_GIVEN, SOLVE, correct
from limberjack.maximal.pose_tasks import Tasks, checked_tasks, weighted_pose
from limberjack.maximal.rows import new_evaluation, new_maximal
from limberjack.maximal.scalable_bodies import model_with_masses
from limberjack.model.check import frame_rotation
from limberjack.model.compile import joint_frames
from limberjack.model.joints import coordinate_counts, coordinates
from limberjack.model.model import Model
from limberjack.model.registered import RegisteredBody
from limberjack.model.spec import WORLD, Joint
from limberjack.reduced.control_dynamics import center_of_mass as com_of
from limberjack.reduced.dynamics import array_of, forward_kinematics, jacobian
from limberjack.spatial.frames import (
    compose,
    invert,
    matrix_from_quaternion,
    quaternion_from_matrix,
    vector_from_matrix,
)

__all__ = [
    "Assembler",
    "Assembly",
    "CLAMP",
    "METRICS",
    "Target",
    "assemble",
    "checked_targets",
    "pose",
    "read_coordinates",
    "with_start",
]

# Section 3.4: largest rotation in one iteration [rad].
CLAMP = 0.8
# By how much the errors may grow in one iteration: from far starts they need not decrease monotonically.
_WORSE = 3.0
METRICS = ("unit", "physical")
# Further starts of an assembly that does not close, and damped iterations of one that cannot.
_STARTS, _RELAXATIONS = 8, 200
# After so many iterations a pose is clipped to the limits.
_ROUND = 12
# Overlap that counts as none [m], and damped iterations after which contacts are found anew.
_OVERLAP, _FEW = 1e-6, 4
# Errors below which Newton's method on the coordinates is used [m, rad], and its largest number of iterations.
_NEAR, _NEWTON = 0.1, 40


@dataclass(frozen=True)
class Target:
    """Target of a point of a body: the point in the body frame, its world position, and the body's rotation or None."""

    name: str
    body: int
    point: np.ndarray
    to: np.ndarray
    rotation: np.ndarray | None


def checked_targets(model: Model, targets: Any, what: str) -> tuple[list[Target], list[int]]:
    """Return targets and fixed bodies, from names or a mapping of names.

    Args:
        model: the model.
        targets: names of fixed bodies; or {body or point: None, position, or (position, rotation)}.
        what: the argument's name, for errors.
    """
    if targets is None:
        targets = {}
    if isinstance(targets, str) or not isinstance(targets, (Mapping, Iterable)):
        raise StateError(f"{what} must be names of bodies, or say for each where it is wanted, got {targets!r}")
    given: Any = targets  # pyright: ignore[reportUnknownVariableType]
    named: dict[str, Any] = dict(given) if isinstance(given, Mapping) else dict.fromkeys(given)  # pyright: ignore
    goals: list[Target] = []
    fixed: list[int] = []
    points = {point.name: point for point in model.points if point.body != WORLD}
    for name, value in named.items():
        if name in points and name not in model.body_names:
            body, point = model.body_index(points[name].body), np.array(points[name].position, float)
        elif name in model.body_names:
            body, point = model.body_index(name), np.zeros(3)
        else:
            raise UnknownName("body or point", name, f'model "{model.name}"', (*model.body_names, *points))
        if value is None:
            fixed.append(body)
            continue
        if int(model.arrays.body_link[body]) < 0:
            raise StateError(f'body "{name}" is fixed to the world and cannot be moved')
        goals.append(Target(name, body, point, *_checked_pose(model, name, value, what)))
    return goals, fixed


def _checked_pose(model: Model, name: str, value: Any, what: str) -> tuple[np.ndarray, np.ndarray | None]:
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
    """The solids of one model and the work arrays of their corrections.

    Args:
        model: the model.
        q: (nq,) coordinates the solids start at; `model.q0` when None.
        targets: targets of points.
        fixed: bodies with zero inverse mass.
        limits: whether joint limits apply.
        contacts: whether shapes must not overlap.
    """

    def __init__(
        self,
        model: Model,
        q: np.ndarray | None = None,
        targets: Iterable[Target] = (),
        fixed: Iterable[int] = (),
        *,
        limits: bool = True,
        contacts: bool = False,
    ) -> None:
        self.model = model
        self.whole = new_maximal(model_with_masses(model), frozenset() if limits else frozenset({"limits"}))
        self.targets = list(targets)
        self._detector = new_detector(model, self.whole.center) if contacts else None
        if contacts and (self.whole.bodies.kind != RIGID).any():
            raise UnsupportedByMethod("contacts are of rigid bodies only, and the model has others; use contacts=False")
        self.net = new_net(model, self.whole, trackers=len(self.targets))
        self.setup, self._e = new_setup(model, self.whole), new_evaluation(self.whole)
        self.work = new_work(self.net, len(self._e.near))
        self._u = np.zeros(int(self.whole.bodies.start[-1]))
        self._reads = new_reads(self.whole)
        self._drives = np.flatnonzero(self.whole.table.role == DRIVE)
        self.pose = np.zeros((len(self.whole.bodies.kind), POSE))
        link = model.arrays.body_link
        self.work.free[[int(link[b]) for b in fixed if link[b] >= 0]] = 0.0
        # a body of each link, from which the link's pose is read
        self._body = np.zeros(len(self.pose), np.int64)
        for b in range(model.body_count - 1, -1, -1):
            if link[b] >= 0:
                self._body[link[b]] = b
        self._room: tuple[int, int] = (0, 0)  # contacts of one body, and of two
        self._preconditioner: TreePreconditioner | None = None
        self._fixed_preconditioner: tuple[np.ndarray, TreePreconditioner | None] | None = None
        self._scale()
        self.put(model.q0 if q is None else q)
        for t, target in enumerate(self.targets):
            self._track(t, target)

    def _scale(self) -> None:
        kinds = self.whole.bodies.kind
        for body in self.model.spec.bodies:
            link = int(self.model.arrays.body_link[self.model.body_index(body.name)])
            if isinstance(body, RegisteredBody):
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
        """Place the solids at coordinates q; angles are unwrapped from there."""
        self.near = np.array(q, float)
        self.put_bodies(*forward_kinematics(self.model, self.near))
        table, e = self.whole.table, self._e
        for r in self._drives:
            index = int(table.drive[r, 0])
            if table.speed[r] or index >= self.model.nq:
                continue
            _, pair, axis, _ = table.terms[table.term_start[r]]
            frame, link = table.pair_frame[pair], table.pair_link[pair]
            same = (table.pair_frame[table.terms[:, 1]] == frame).all(1) & (
                table.pair_link[table.terms[:, 1]] == link
            ).all(1)
            e.near[same & (table.terms[:, 0] == ANGLE) & (table.terms[:, 2] == axis)] = self.near[index]
        for pair, _, count in table.compound:
            rows = [int(r) for r in self._drives if table.terms[table.term_start[r], 1] == pair]
            start = [self.near[int(table.drive[r, 0])] for r in rows if table.drive[r, 0] < self.model.nq]
            e.state[pair, COORDINATES : COORDINATES + count] = start if len(start) == count else 0.0

    def put_bodies(self, positions: np.ndarray, rotations: np.ndarray) -> None:
        """Place the solids at given body frames; of several bodies on one link the first counts."""
        if not len(self.pose):
            return
        r, p = matrix_from_quaternion(rotations[self._body]), positions[self._body]
        r, p = compose(r, p, *invert(*self._offset(self._body)))
        self.pose[:, :3] = p + np.einsum("nij,nj->ni", r, self.whole.center)
        self.pose[:, 3:7] = quaternion_from_matrix(r)

    def _track(self, t: int, target: Target) -> None:
        link = int(self.model.arrays.body_link[target.body])
        r, p = self._offset(target.body)
        w, c = self.work, int(self.net.ends[4]) + t
        w.tracked[t] = link
        self.net.system.incidence_body[self.net.system.incidence_start[c]] = link
        w.track[t, POINT : POINT + 3] = r @ target.point + p - self.whole.center[link]
        w.track[t, TARGET : TARGET + 3] = target.to
        if target.rotation is not None:
            w.track[t, ROTATION : ROTATION + 4] = quaternion_from_matrix(matrix_from_quaternion(target.rotation) @ r.T)
            w.track[t, HAS_ROTATION] = 1.0

    def _find_contacts(self) -> None:
        """Find the contacts of shapes at the poses, and write them into slots of the net."""
        if self._detector is None or not np.isfinite(self.pose).all():
            return
        self._detector = find_contacts(
            self._detector, self.pose[:, :7], np.zeros(len(self.pose)), displacement_contacts.MARGIN
        )
        found, w = self._detector.contacts, self.work
        count = int(found.count[0])
        on_two = found.link_b[:count] >= 0
        room = int((~on_two).sum()), int(on_two.sum())
        if room[0] > self._room[0] or room[1] > self._room[1]:
            self._make_room((2 * max(room[0], self._room[0]), 2 * max(room[1], self._room[1])))
            w = self.work
        displacement_contacts.write_slots(
            int(self.net.ends[3]), self._room[0], found, self.pose, self.net.system, w.contact_link, w.contact_data
        )
        w.active[self.net.ends[3] : self.net.ends[4]] = 0

    def _make_room(self, room: tuple[int, int]) -> None:
        """Make net and work anew with room for contacts of one body and of two."""
        free, damping = self.work.free.copy(), self.work.damping.copy()
        self._room = room if len(self.pose) > 1 else (room[0], 0)
        self.net = new_net(self.model, self.whole, trackers=len(self.targets), contacts=self._room)
        self.work = new_work(self.net, len(self._e.near))
        self.work.free[:], self.work.damping[:] = free, damping
        self.work.open[self.net.rows[3] : self.net.rows[4] : 3] = -_OVERLAP
        self.work.slides[:] = 1
        for t, target in enumerate(self.targets):
            self._track(t, target)

    def overlap(self) -> float:
        """Return the deepest overlap of shapes, as last found [m]."""
        return max(0.0, -float(self.work.residual[self.net.rows[3] : self.net.rows[4] : 3].min(initial=0.0)))

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
        """Move the solids; return 0, or 1 where they are no longer finite. Details are in `work.report`."""
        self._find_contacts()
        self.work.lam_total[:] = 0.0
        self.work.active[self.net.ends[0] : self.net.ends[1]] = 0
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
        """Move the solids as `correct` does, undoing iterations after which the errors are much larger.

        Where constraints contradict each other, or nearly, a converged solve asks for unbounded displacements; one with
        few iterations does not. `work.report` counts all iterations.
        """
        most = solver_iterations
        self._preconditioner = self._tree() if self._detector is None else None
        status = self.correct(0, 0)
        count = total = 0.0
        while status == 0 and count < iterations and self.work.report[2] > tolerance:
            before, near, norm = self.pose.copy(), self._e.near.copy(), float(self.work.report[5])
            status = self._step(most, tolerance, solver_tolerance, physical, clamp)
            report = self.work.report
            count, total = count + 1.0, total + float(report[1])
            if status == 0 and report[5] <= _WORSE * norm:
                most = min(2 * most, solver_iterations)
                if self._detector is not None:
                    status = self.correct(0, 0)
                continue
            self.pose[:], self._e.near[:], self.work.krylov.recycled[:] = before, near, 0.0
            status = self._correct(0, 0, tolerance, solver_tolerance, physical, clamp)
            if self._preconditioner is not None:
                self._preconditioner = None  # contradictions with the tree are solved in least squares without it
                continue
            if most <= 1:
                break
            most = max(1, most // 4)
        self.work.report[0], self.work.report[1] = count, total
        return status

    def relax(
        self, iterations: int, solver_iterations: int, *, tolerance: float, physical: bool, clamp: float
    ) -> int:  # fmt: skip
        """Move the solids by damped iterations that never increase the errors; return 0, or 1 where not finite."""
        self.work.damping[:] = 0.0, 1.0
        count = total = 0.0
        # contacts are found anew after a few iterations
        rounds = 1 if self._detector is None else -(-iterations // _FEW)
        status = 0
        for _ in range(rounds):
            status = self.correct(
                iterations if rounds == 1 else _FEW, solver_iterations, tolerance=tolerance, solver_tolerance=1e-6,
                physical=physical, clamp=clamp,
            )  # fmt: skip
            count, total = count + self.work.report[0], total + self.work.report[1]
            if status or (rounds > 1 and (self.correct(0, 0) or self.work.report[2] <= tolerance)):
                break
        self.work.damping[:] = 0.0
        self.work.report[0], self.work.report[1] = count, total
        return status

    def angles(self) -> np.ndarray:
        """Return the unwrapped angles of the rows."""
        return self._e.near.copy()

    def put_back(self, pose: np.ndarray, angles: np.ndarray) -> None:
        """Place the solids where they were, and evaluate the errors there."""
        self.pose[:], self._e.near[:] = pose, angles
        self.correct(0, 0)

    def _tree(self) -> TreePreconditioner | None:
        """Return the preconditioner by the spanning tree, or None where it would not help."""
        fixed = self.work.free == 0.0
        if self._fixed_preconditioner is not None and (self._fixed_preconditioner[0] == fixed).all():
            return self._fixed_preconditioner[1]
        preconditioner = new_tree(self.whole, self.net, fixed)
        self._fixed_preconditioner = (fixed, preconditioner)
        return preconditioner

    def _step(
        self, solver_iterations: int, tolerance: float, solver_tolerance: float, physical: bool, clamp: float
    ) -> int:
        """Take one iteration, preconditioned by the tree where there is one."""
        w, options = self.work, (tolerance, solver_tolerance, physical, clamp)
        if self._preconditioner is not None:
            self._correct(1, 0, *options, given=ASSEMBLE_ONLY)
            status = solve_tree_preconditioned(
                self.net.system, w.minv, w.j, w.c, w.b, self.pose, solver_iterations, solver_tolerance,
                self._preconditioner, w.lam, w.solve,
            )  # fmt: skip
            if status != FAILED:
                return self._correct(1, 0, *options, given=SOLUTION_GIVEN)
            self._preconditioner = None
        return self._correct(1, solver_iterations, *options)

    def _correct(
        self, iterations: int, solver_iterations: int, tolerance: float, solver_tolerance: float, physical: bool,
        clamp: float, *, given: int = SOLVE,
    ) -> int:  # fmt: skip
        return correct(
            self.setup, self.net, self.model.arrays.drives, given, physical, 0.0, 0.0, iterations, solver_iterations,
            tolerance, solver_tolerance, clamp, self._u, self._e, self.pose, self._reads, self.work,
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
        """Return the largest error of each joint, as last evaluated [m, rad]."""
        out = dict.fromkeys(self.model.joint_names, 0.0)
        sided, rows = int(self.net.rows[0]), int(self.net.rows[1])
        sizes = np.abs(self.work.residual[:rows])
        sizes[sided:] = np.maximum(-self.work.residual[sided:rows], 0.0)
        for r in range(rows):
            name = self.model.joint_names[int(self.whole.table.joint[r])]
            out[name] = max(out[name], float(sizes[r]))
        return out


def read_coordinates(model: Model, positions: np.ndarray, rotations: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Return (nq,) the coordinates of the tree's joints from body frames, angles unwrapped nearest to `near`."""
    q = np.array(near, float)
    turned = matrix_from_quaternion(rotations)
    for i, name in enumerate(model.joint_names[: model.body_count]):
        joint = model.joint_spec(name)
        nq = coordinate_counts(joint)[0]
        if nq == 0:
            continue
        r_p, p_p, r_c, p_c = joint_frames(joint)
        ends: list[tuple[np.ndarray, np.ndarray]] = []
        for body, r, p in ((joint.parent, r_p, p_p), (joint.child, r_c, p_c)):
            b = -1 if body == WORLD else model.body_index(body)
            ends.append((r, p) if b < 0 else compose(turned[b], positions[b], r, p))
        own = slice(int(model.arrays.q_start[i]), int(model.arrays.q_start[i]) + nq)
        q[own] = coordinates(joint, *compose(*invert(*ends[0]), *ends[1]), near[own])
    return q


@dataclass(frozen=True)
class Assembly:
    """Where an assembly ended.

    Attributes:
        q: (nq,) coordinates of the tree's joints, read off the poses.
        positions: (body_count, 3) of the body frames [m].
        rotations: (body_count, 4) quaternions, body to world.
        residuals: the largest error of each joint [m, rad]; of a limit, by how much it is passed.
        targets: how far each target is missed [m, rad].
        iterations: assembly iterations taken.
        solver_iterations: solver iterations in all of them.
        error: the largest of all errors.
        open: joints whose error exceeds the tolerance.
        closed: whether every joint and target holds, and with contacts no shapes overlap.
        overlap: the deepest overlap of shapes [m]; 0 without contacts.
    """

    q: np.ndarray
    positions: np.ndarray
    rotations: np.ndarray
    residuals: dict[str, float]
    targets: dict[str, float]
    iterations: int
    solver_iterations: int
    error: float
    open: tuple[str, ...]
    closed: bool
    overlap: float = 0.0

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"open at {', '.join(self.open) or 'targets'}"
        if self.overlap > 2.0 * _OVERLAP:
            state += f", shapes overlap by {self.overlap:.3g} m"
        return f"Assembly({state}, error {self.error:.3g} after {self.iterations} iterations)"


def assemble(
    model: Model,
    q: Any = None,
    pins: Any = (),
    *,
    poses: Any = None,
    iterations: int = 30,
    solver_iterations: int = 300,
    tolerance: float = 1e-9,
    metric: str = "unit",
    clamp: float = CLAMP,
    limits: bool = True,
    contacts: bool = False,
) -> Assembly:
    """Close all joints and loops of a model from any start, and say which cannot be closed.

    Every body moves by itself, under joints, limits, pins and contacts alike, as little as possible in the metric.

    Args:
        model: the model.
        q: (nq,) coordinates to start from; `model.q0` when None.
        pins: names of bodies that stay where they start; or {body or point: None (stays), position (3,), or
            (position, rotation)}.
        poses: body frames to start from instead: (positions (body_count, 3), rotations (body_count, 4)).
        iterations: most assembly iterations.
        solver_iterations: most solver iterations in each.
        tolerance: largest error of a joint that is closed [m, rad].
        metric: "unit", every body alike: geometry alone decides; or "physical", heavy bodies move less.
        clamp: largest rotation of a body in one iteration [rad].
        limits: whether joint limits apply.
        contacts: whether shapes that collide must not overlap either: assembly against a floor, walls, other bodies.
    """
    _check(iterations, solver_iterations, tolerance, clamp)
    if metric not in METRICS:
        raise UnknownName("metric", metric, "lj.assemble", METRICS)
    if metric == "physical":
        new_maximal(model, frozenset())  # raises for a body without mass
    targets, fixed = checked_targets(model, pins, "pins")
    start = model.q0 if q is None else array_of(q, (model.nq,), "q", model)
    work = Assembler(model, start, targets, fixed, limits=limits, contacts=contacts)
    if poses is not None:
        work.put_bodies(*_checked_poses(model, poses))
    search = _Search(work, tolerance, solver_iterations, physical=metric == "physical", clamp=clamp)
    search.run(start, iterations)
    positions, rotations = work.bodies()
    return _result(model, work, positions, rotations, read_coordinates(model, positions, rotations, start), tolerance)


class _Search:
    """Assembly from a start, and from others near it where that fails.

    From a start where axes of hinges point anywhere, corrections often end at a least-squares pose that is not the
    least. Further starts have the joints of the tree closed, from coordinates read off the bodies and clipped to their
    limits, then from random ones: what is left then is to close the loops.
    """

    def __init__(
        self, work: Assembler, tolerance: float, solver_iterations: int, *, physical: bool, clamp: float
    ) -> None:
        self._work, self._tolerance = work, tolerance
        self._solver_iterations, self._physical, self._clamp = solver_iterations, physical, clamp
        self._best: tuple[float, np.ndarray, np.ndarray] | None = None
        self._norm = np.inf
        self._counts = np.zeros(2)

    def run(self, start: np.ndarray, iterations: int) -> None:
        """Leave the solids where all joints are closed, or where the errors are the least that were found."""
        work, model, draw = self._work, self._work.model, np.random.default_rng(0)
        given = work.bodies()
        status = self._try(iterations)
        if status and self._best is None:
            raise Diverged(f'the assembly of model "{model.name}" is no longer finite', "", 0, 0.0)
        for attempt in range(_STARTS):
            if self._closed() or not model.nq:
                break
            near = read_coordinates(model, *given, start)
            if attempt:
                near = _random_angles(model, near, draw)
            work.put(_clipped(model, near) if self._limited() else near)
            self._try(iterations)
        if not self._closed() and self._best is not None:
            self._take_best()
            self._try(_RELAXATIONS)
        self._take_best()
        work.work.report[:2] = self._counts

    def _limited(self) -> bool:
        return bool(self._work.net.ends[1] > self._work.net.ends[0])

    def _closed(self) -> bool:
        return self._best is not None and self._best[0] <= self._tolerance

    def _try(self, iterations: int) -> int:
        """Correct by undamped iterations, then by damped ones from there, then from the start; return the status."""
        work = self._work
        start = work.pose.copy(), work.angles()
        status = work.settle(
            iterations, self._solver_iterations, tolerance=self._tolerance, physical=self._physical, clamp=self._clamp
        )
        self._counts += work.work.report[:2]
        if status == 0:
            self._keep()
            if not self._closed():
                self._relax(iterations)
        if not self._closed():
            # where constraints contradict each other, undamped iterations may have led far away
            work.put_back(*start)
            self._relax(2 * iterations)
        return status

    def _relax(self, iterations: int) -> None:
        """Take damped iterations, none of which increases the errors."""
        work = self._work
        if work.relax(
            iterations, self._solver_iterations, tolerance=self._tolerance, physical=self._physical, clamp=self._clamp
        ):
            return
        self._counts += work.work.report[:2]
        self._keep()

    def _keep(self) -> None:
        report = self._work.work.report
        if self._best is None or report[5] < self._norm:
            self._best, self._norm = (float(report[2]), self._work.pose.copy(), self._work.angles()), float(report[5])

    def _take_best(self) -> None:
        if self._best is not None:
            self._work.put_back(self._best[1], self._best[2])


def with_start(model: Model, q: np.ndarray) -> Model:
    """Return the model with coordinates q as its start."""
    bodies, given = list(model.spec.bodies), {joint.name for joint in model.spec.joints}
    joints: list[Joint] = []
    infos = {name: model.joint(name) for name in model.joint_names}
    for joint in model.spec.joints:
        info = infos[joint.name]
        own = tuple(float(x) for x in q[info.q]) if not info.is_loop else ()
        if joint.axes and own:
            axes = tuple(replace(axis, start=x) for axis, x in zip(joint.axes, own, strict=True))
            joint = replace(joint, axes=axes)
        elif own:
            joint = replace(joint, start=own)
        joints.append(joint)
    for i, body in enumerate(bodies):
        info = infos[model.body(body.name).joint]
        if info.name not in given and info.nq:
            own = tuple(float(x) for x in q[info.q])
            turned = own[3:] if len(own) == 7 else body.rotation
            bodies[i] = replace(body, position=own[:3], rotation=turned)
    return Model(replace(model.spec, joints=joints, bodies=bodies))


def pose(
    model: Model,
    targets: Any,
    q: Any = None,
    *,
    pins: Any = (),
    center_of_mass: Any = None,
    posture: Any = None,
    weights: Any = None,
    tolerance: float = 1e-7,
    iterations: int = 400,
    solver_iterations: int = 300,
    tries: int = 4,
) -> Assembly:
    """Return coordinates within the limits that bring points and bodies to their targets, or as near as found.

    Inverse kinematics: the targets are trackers, the assembly follows them. Where it gets stuck it starts anew from
    other coordinates, the same ones in every run. With a center of mass, a posture or weights, the pose is the one near
    `q` with the least sum of squared errors times weights (`maximal/pose_tasks.py`), for models without loops.

    Args:
        model: the model.
        targets: {body or point: position (3,), or (position, rotation)}.
        q: (nq,) coordinates to start from; `model.q0` when None.
        pins: bodies that stay, or further targets, as in `assemble`.
        center_of_mass: (3,) where it is wanted [m]; None along axes that do not count.
        posture: (nq,) coordinates to stay near to, of little weight unless `weights` says otherwise.
        weights: {target, "center_of_mass" or "posture": weight per m^2 and rad^2, or (of position, of rotation)}.
        tolerance: error of a target that is reached [m, rad].
        iterations: most assembly iterations.
        solver_iterations: most solver iterations in each.
        tries: starts that are tried.
    """
    _check(iterations, solver_iterations, tolerance, CLAMP)
    if not isinstance(tries, int) or tries < 1:
        raise StateError(f"tries must be a whole number >= 1, got {tries!r}")
    goals, fixed = checked_targets(model, targets, "targets")
    more_goals, more = checked_targets(model, pins, "pins")
    goals, fixed = goals + more_goals, fixed + more
    start = model.q0 if q is None else array_of(q, (model.nq,), "q", model)
    if not (center_of_mass is None and posture is None and weights is None):
        if model.loop_names or fixed:
            raise StateError("center_of_mass, posture and weights are for models without loops, and without fixed pins")
        tasks = checked_tasks(model, goals, center_of_mass, posture, weights or {})
        return _weighted(model, tasks, start, tolerance, iterations)
    draw, best = np.random.default_rng(0), None
    for attempt in range(tries):
        if attempt:
            start = _random_start(model, start, draw)
        found = _follow(model, start, goals, fixed, tolerance, iterations // tries + 1, solver_iterations)
        if best is None or found.error < best.error:
            best = found
        if best.closed:
            break
    assert best is not None
    return best


def _weighted(model: Model, tasks: Tasks, start: np.ndarray, tolerance: float, iterations: int) -> Assembly:
    q, count = weighted_pose(model, tasks, start, _bounds(model), iterations)
    positions, rotations = forward_kinematics(model, q)
    missed = {goal.name: _target_error(goal, positions, rotations) for goal in tasks.goals}
    if tasks.com is not None:
        gap = com_of(model, q).position - tasks.com
        missed["center_of_mass"] = float(np.linalg.norm(gap[~np.isnan(gap)]))
    error = max(missed.values(), default=0.0)
    return Assembly(q, positions, rotations, {}, missed, count, 0, error, (), error <= tolerance)


def _follow(
    model: Model, start: np.ndarray, goals: list[Target], fixed: list[int], tolerance: float, most: int, inner: int
) -> Assembly:
    """Follow the targets from one start; end with coordinates inside the limits."""
    work, q, best = Assembler(model, start, goals, fixed), start, None
    count = total = stalled = 0
    while count < most:
        work.put(q)
        work.settle(min(_ROUND, most - count), inner, tolerance=0.01 * tolerance, solver_tolerance=1e-6)
        count, total = count + max(1, int(work.work.report[0])), total + int(work.work.report[1])
        # joints and limits take precedence over the targets
        q = _clipped(model, read_coordinates(model, *work.bodies(), q))
        if not (model.loop_names or fixed):
            q = _newton(model, goals, q, tolerance)
        positions, rotations = forward_kinematics(model, q)
        work.put(q)
        work.correct(0, 0)
        work.work.report[:2] = count, total
        found = _result(model, work, positions, rotations, q, tolerance)
        stalled = stalled + 1 if best is not None and found.error > 0.9 * best.error else 0
        if best is None or found.error < best.error:
            best = found
        if best.closed or stalled == 3:
            break
    assert best is not None
    return best


def _newton(model: Model, goals: list[Target], q: np.ndarray, tolerance: float) -> np.ndarray:
    """Return q with its scalar coordinates moved to near targets within the limits, by damped Newton iterations."""
    low, high = _bounds(model)
    runs = [(int(v) + i, int(p) + i) for v, p, n in model.arrays.links.runs for i in range(int(n))]
    v, p_index = (
        (np.array(column, np.int64) for column in zip(*runs, strict=True)) if runs else (np.zeros(0, np.int64),) * 2
    )
    error = _target_errors(model, goals, q)
    for _ in range(_NEWTON):
        size = float(np.abs(error).max(initial=0.0))
        if size <= 1e-3 * tolerance or size > _NEAR or not v.size:
            break
        rows = np.vstack([_target_rows(model, target, q)[:, v] for target in goals])
        free, new = np.ones(len(v), bool), q
        for _ in range(4):
            own = rows[:, free]
            step = own.T @ np.linalg.solve(own @ own.T + 1e-9 * np.eye(len(own)), -error)
            new = q.copy()
            new[p_index[free]] += step
            out = (new[p_index] < low[p_index]) | (new[p_index] > high[p_index])
            if not out.any():
                break
            # coordinates at their limits are fixed, and the step is repeated with the rest
            new = np.clip(new, low, high)
            free &= ~out
        changed = _target_errors(model, goals, new)
        if not np.abs(changed).max() < size:
            break
        q, error = new, changed
    return q


def _target_errors(model: Model, goals: list[Target], q: np.ndarray) -> np.ndarray:
    """Return the errors of all targets, world axes: of positions, and rotation vectors of targets with rotations."""
    positions, rotations = forward_kinematics(model, q)
    out: list[np.ndarray] = []
    for target in goals:
        r = matrix_from_quaternion(rotations[target.body])
        out.append(positions[target.body] + r @ target.point - target.to)
        if target.rotation is not None:
            out.append(vector_from_matrix(r @ matrix_from_quaternion(target.rotation).T))
    return np.concatenate(out) if out else np.zeros(0)


def _target_rows(model: Model, target: Target, q: np.ndarray) -> np.ndarray:
    """Return the Jacobian of a target: of its point, and of its body's rotation where it has one."""
    positions, rotations = forward_kinematics(model, q)
    point = positions[target.body] + matrix_from_quaternion(rotations[target.body]) @ target.point
    rows = jacobian(model, q, model.body_names[target.body], point)
    return rows[3:] if target.rotation is None else np.vstack([rows[3:], rows[:3]])


def _result(
    model: Model, work: Assembler, positions: np.ndarray, rotations: np.ndarray, q: np.ndarray, tolerance: float
) -> Assembly:
    residuals = work.residuals()
    missed = {target.name: _target_error(target, positions, rotations) for target in work.targets}
    error = max([*residuals.values(), *missed.values()], default=0.0)
    report = work.work.report
    loose = tuple(name for name, size in residuals.items() if not size <= tolerance)
    overlap = work.overlap()
    return Assembly(
        q, positions, rotations, residuals, missed, int(report[0]), int(report[1]), error, loose,
        error <= tolerance and overlap <= 2.0 * _OVERLAP, overlap,
    )  # fmt: skip


def _target_error(target: Target, positions: np.ndarray, rotations: np.ndarray) -> float:
    r = matrix_from_quaternion(rotations[target.body])
    gap = float(np.linalg.norm(positions[target.body] + r @ target.point - target.to))
    if target.rotation is None:
        return gap
    turned = vector_from_matrix(matrix_from_quaternion(target.rotation).T @ r)
    return max(gap, float(np.linalg.norm(turned)))


def _clipped(model: Model, q: np.ndarray) -> np.ndarray:
    """Return q with scalar coordinates clipped to their limits."""
    low, high = _bounds(model)
    return np.clip(q, low, high)


def _bounds(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Return (nq,) lower and upper limits of the scalar coordinates; infinite where there is none."""
    low, high = np.full(model.nq, -np.inf), np.full(model.nq, np.inf)
    for v, q, length in model.arrays.links.runs:
        low[q : q + length], high[q : q + length] = model.arrays.limits[v : v + length].T
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


def _random_start(model: Model, q: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Return q with bounded coordinates drawn at random within their limits."""
    low, high = _bounds(model)
    bounded = np.isfinite(low) & np.isfinite(high)
    out = q.copy()
    out[bounded] = draw.uniform(low[bounded], high[bounded])
    return out


def _random_angles(model: Model, q: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Return q with scalar coordinates drawn at random: within their limits, or within half a turn either way."""
    low, high = _bounds(model)
    out = q.copy()
    for _, first, length in model.arrays.links.runs:
        own = slice(int(first), int(first + length))
        below = np.where(np.isfinite(low[own]), low[own], q[own] - np.pi)
        above = np.where(np.isfinite(high[own]), high[own], q[own] + np.pi)
        out[own] = draw.uniform(below, above)
    return out


def _checked_poses(model: Model, poses: Any) -> tuple[np.ndarray, np.ndarray]:
    try:
        positions, rotations = poses
    except (TypeError, ValueError):
        raise StateError("poses must be (positions, rotations) of all bodies") from None
    positions = array_of(positions, (model.body_count, 3), "positions", model)
    rotations = array_of(rotations, (model.body_count, 4), "rotations", model)
    lengths = np.linalg.norm(rotations, axis=1)
    if (np.abs(lengths - 1.0) > 1e-3).any():
        b = int(np.argmax(np.abs(lengths - 1.0)))
        name = model.body_names[b]
        raise StateError(f'rotation of body "{name}" must be a unit quaternion, its length is {lengths[b]:.6g}')
    return positions, rotations / lengths[:, None]


def _check(iterations: Any, solver_iterations: Any, tolerance: Any, clamp: Any) -> None:
    for word, value in (("iterations", iterations), ("solver_iterations", solver_iterations)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise StateError(f"{word} must be a whole number >= 1, got {value!r}")
    for word, value in (("tolerance", tolerance), ("clamp", clamp)):
        if not isinstance(value, (int, float)) or not 0.0 < value < np.inf:
            raise StateError(f"{word} must be a number > 0, got {value!r}")
