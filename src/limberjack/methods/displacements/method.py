"""The running side of `Displacements`."""

from __future__ import annotations

import time as clock
from collections.abc import Sequence
from typing import Any

import numpy as np

from limberjack.collision.detect import Contact, Detector, grown, new_detector
from limberjack.collision.filters import with_apart
from limberjack.collision.shapes import shape_names
from limberjack.constraints.runtime import Driven, RuntimeJoint, apart_bodies
from limberjack.constraints.table import DRIVE
from limberjack.errors import Diverged, LimberjackError, StateError, Status, UnknownName, UnsupportedByMethod
from limberjack.maximal.bodies import PARTICLE, PLANAR, RIGID, SCALABLE
from limberjack.maximal.displacement_contacts import new_search
from limberjack.maximal.displacement_limits import limit_order
from limberjack.maximal.displacement_rows import (
    HAS_ROTATION,
    LEVER,
    MAX_FORCE,
    POINT,
    RECYCLED,
    ROTATION,
    SOFT,
    TARGET,
    Net,
    Reads,
    Work,
    new_net,
    new_tree,
    new_work,
)
from limberjack.maximal.measure import body_energies, spring_energies
from limberjack.maximal.rows import new_maximal
from limberjack.maximal.runtime_rows import RuntimeRows
from limberjack.maximal.scalable_bodies import rigid_model
from limberjack.maximal.solve import evaluate_state
from limberjack.methods.displacements.options import MODES, Displacements
from limberjack.methods.displacements.step import CONSERVING, DAMPED, KINEMATIC, Motion, take_displacements
from limberjack.methods.stepper import Forces, Stepper
from limberjack.model.arrays import BALL_DRIVE, SCALAR_DRIVE, Drives
from limberjack.model.model import Model
from limberjack.reduced.constraint_set import Grip
from limberjack.reduced.measure import joint_energy
from limberjack.spatial.frames import matrix_from_quaternion, quaternion_from_matrix

__all__ = ["DisplacementsStepper"]

# Velocities that are asked for are made to fit the joints this well, whatever the steps were content with.
_FIT, _FIT_ITERATIONS = 1e-13, 400
# What conjugate residuals may leave of a right side before the tree of the joints is factored, by mode.
_FACTORED = {CONSERVING: 1e-3, DAMPED: 0.1}
# How much limits and contacts count beside joints and hands in mode "kinematic".
_LIMITS = 1e4


class DisplacementsStepper(RuntimeRows, Stepper):
    """Takes the steps of `Displacements`."""

    prescribes_poses = True

    def __init__(self, model: Model, options: Displacements, ignored: frozenset[str]) -> None:
        if "bodies" in ignored:
            model = rigid_model(model)
        dynamic = options.mode != "kinematic"
        whole = new_maximal(model, ignored, springs=dynamic)
        if (whole.bodies.kind >= SCALABLE).any():
            raise UnsupportedByMethod('method "displacements" moves bodies that keep their size only')
        self._options = options
        self._mode = MODES.index(options.mode)
        self._check_weights(model, options)
        super().__init__(model, whole, strict=False)
        n = len(whole.bodies.kind)
        self._grips: list[Grip] = []
        self._new_motion()
        # drives of joints are soft rows; forces along joints are those that were applied
        self._no_drives = Drives(*(np.zeros_like(field[:0]) for field in model.arrays.drives))
        self._no_span = self._drive_span.copy()
        self._no_span[SCALAR_DRIVE : BALL_DRIVE + 2] = 0
        self._loose = np.ones(n)
        self._contact_room: tuple[int, int] = (0, 0)  # contacts of one body, and of two
        self._found: list[Contact] = []
        self._set_search(model, ignored)
        self._pace = np.zeros(2)  # seconds of a step without iterations, and of one solver iteration
        self._chosen: list[tuple[int, int]] = []
        self._last_forces: Any = None
        self._build()
        self._take_motion()

    def _new_motion(self) -> None:
        """Make the state beside the poses, at rest."""
        n, rows, terms = len(self.whole.bodies.kind), len(self.whole.table.joint), len(self._e.near)
        self._motion = Motion(
            np.zeros(6 * n), np.zeros(1), np.zeros(6 * n), np.zeros_like(self._s.pose), np.zeros(6 * n),
            np.zeros_like(self._e.near), np.zeros_like(self._s.u), np.zeros(rows), np.zeros(1, np.int64),
            np.zeros(1 + 13 * n + terms + 2 * rows),
        )  # fmt: skip
        self._reads = Reads(self._s.q, self._s.qd, self._s.tau, self._s.added)

    def _set_search(self, model: Model, ignored: frozenset[str]) -> None:
        """Make what finds contacts, and room for a few."""
        whole, colliding = self.whole, [shape for shape in model.shapes if shape.collide]
        apart = tuple(shape.name for shape in colliding) if "contacts" in ignored else ()
        self._shape_names = shape_names(model, apart)
        self._owner = {shape.name: shape.body for shape in model.shapes}
        detector = new_detector(model, whole.center, apart)
        if len(detector.shapes.kind):
            if (whole.bodies.kind != RIGID).any():
                raise UnsupportedByMethod(
                    'method "displacements" has contacts of rigid bodies only, and the model has others; to run '
                    'without: ignore="contacts"'
                )
            self._contact_room = (8, 4 if len(whole.bodies.kind) > 1 else 0)
        self._search = new_search(detector, len(whole.bodies.kind))
        self._own_filters = self._search.filters

    def _grow(self) -> None:
        """Make room for the contacts that were found."""
        s = self._search
        detector = grown(Detector(s.shapes, s.filters, s.bvh, s.broad, s.contacts))
        self._search = s._replace(broad=detector.broad, contacts=detector.contacts)
        count = int(s.contacts.count[0])
        one = int((s.contacts.link_b[:count] < 0).sum())
        self._contact_room = (max(self._contact_room[0], 2 * one), max(self._contact_room[1], 2 * (count - one)))
        self._build()

    @staticmethod
    def _check_weights(model: Model, options: Displacements) -> None:
        for name in options.weights:
            if name not in model.joint_names:
                raise UnknownName("joint", name, f'model "{model.name}"', model.joint_names)

    def _build(self) -> None:
        """Make the net anew, after a grip or a driven joint has come or gone."""
        before = self._kept_joints().copy() if hasattr(self, "_w") else None
        damping = float(self._w.damping[0]) if before is not None else 0.0
        driven = tuple(self._reader(one.joint, one.axis)[0] for one in self._driven)
        drives = None
        if self._mode != KINEMATIC:
            both = zip(self._model.arrays.drives, self._loop_drives, strict=True)
            drives = Drives(*(np.concatenate(pair) for pair in both))
        before_open = self._w.open.copy() if hasattr(self, "_w") else None
        self._net: Net = new_net(
            self._model,
            self.whole,
            driven=driven,
            drives=drives,
            trackers=len(self._grips),
            contacts=self._contact_room,
        )
        # rows that hold velocities see what a step has moved: both look at the poses it started from
        self._w: Work = new_work(self._net, len(self._e.near))._replace(start=self._motion.before)
        if self._mode != KINEMATIC:
            self._w = self._w._replace(geometric_stiffness=np.zeros((len(self._loose), 6)))
        self._w.free[:] = self._loose
        self._w.damping[0] = damping
        self._lay_walk()
        for d, one in enumerate(self._driven):
            self._w.aim[d] = one.start, one.rate
        for t, grip in enumerate(self._grips):
            self._put_grip(t, grip)
        self._weigh()
        if before is not None and before_open is not None:
            self._kept_joints()[:] = before
            rows = int(self._net.rows[1])
            self._w.open[:rows] = before_open[:rows]

    def _lay_walk(self) -> None:
        """Let limits be kept whatever pulls in mode "kinematic", from the bodies that stay on; in others, the tree."""
        if self._mode != KINEMATIC:
            tree = new_tree(self.whole, self._net, self._loose == 0.0)
            self._w.factored[0] = np.inf if tree is None else _FACTORED[self._mode]
            if tree is not None:
                self._w = self._w._replace(tree=tree)
            return
        sided = (int(self._net.rows[0]), int(self._net.rows[1]))
        limited = sided[0] < sided[1]
        if limited:
            self._w = self._w._replace(limit_order=limit_order(self._model, self.whole, sided, self._loose))
        # what is commanded may be out of reach; without, errors close the sooner the less each iteration is guarded
        guarded = not limited and (len(self._grips) > 0 or int((self._loose == 0.0).sum()) > 1)
        self._w.damping[1] = float(guarded)
        if not guarded:
            self._w.damping[0] = 0.0

    def _weigh(self) -> None:
        weight, names = self._w.krylov.weight, self.whole.names
        weight[:] = 1.0
        if self._mode == KINEMATIC:
            # hands pull without limit here: what cannot be met is left to them and the joints
            weight[self._net.ends[0] : self._net.ends[1]] = _LIMITS
            weight[self._net.ends[3] : self._net.ends[4]] = _LIMITS
        for c in range(int(self._net.ends[1])):
            weight[c] *= self._options.weights.get(names[c], 1.0)

    def _take_motion(self) -> None:
        """Take the motion of the solids from the velocities of the bodies; the next step is the first."""
        bodies, moved = self.whole.bodies, self._motion.momentum.reshape(-1, 6)
        solid, flat, point = (np.flatnonzero(bodies.kind == kind) for kind in (RIGID, PLANAR, PARTICLE))
        u, start = self._s.u, bodies.start
        moved[:] = 0.0
        moved[solid] = u[start[solid][:, None] + np.arange(6)]
        moved[flat, 3:5], moved[flat, 2] = u[start[flat][:, None] + np.arange(2)], u[start[flat] + 2]
        moved[point, 3:] = u[start[point][:, None] + np.arange(3)]
        self._motion.last[0] = 0.0
        self._motion.last_multipliers[:] = 0.0
        self._w.krylov.recycled[:] = 0.0
        if self._mode == CONSERVING:
            turned = matrix_from_quaternion(self._s.pose[solid, 3:7])
            inertia = bodies.inertia[solid][:, [0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(-1, 3, 3)
            moved[solid, :3] = np.einsum("nij,njk,nlk,nl->ni", turned, inertia, turned, moved[solid, :3])
            moved[flat, 2] *= bodies.inertia[flat, 2]
            moved[:, 3:] *= bodies.mass[:, None]

    def _tell_velocities(self) -> None:
        """Fill the velocities of the bodies at the end of the last step."""
        if self._mode == CONSERVING:
            if self._motion.last[0] > 0.0:
                # looking must not change what comes: solutions kept for the next step stay out of it
                recycled, open_errors = self._w.krylov.recycled, self._w.open
                kept = recycled.copy(), open_errors.copy()
                recycled[:] = open_errors[:] = 0.0
                self._take(1, 1.0, self._time, 1, _FIT_ITERATIONS, fit=True)
                recycled[:], open_errors[:] = kept
            return
        bodies, moved = self.whole.bodies, self._motion.momentum.reshape(-1, 6)
        solid, flat, point = (np.flatnonzero(bodies.kind == kind) for kind in (RIGID, PLANAR, PARTICLE))
        u, start = self._s.u, bodies.start
        u[start[solid][:, None] + np.arange(6)] = moved[solid]
        u[start[flat][:, None] + np.arange(2)], u[start[flat] + 2] = moved[flat, 3:5], moved[flat, 2]
        u[start[point][:, None] + np.arange(3)] = moved[point, 3:]

    def _put_state(self, *, check: bool = True) -> None:
        super()._put_state(check=check)
        if hasattr(self, "_w"):
            self._take_motion()

    def _refresh(self) -> None:
        if not self._read and self._last_forces is not None:
            self._tell_velocities()
        super()._refresh()

    # Stepping

    def advance(self, n: int, dt: float, forces: Forces, time: float = 0.0) -> tuple[int, int]:
        """Take up to n steps; see `Stepper`."""
        self._take_edits()
        self._time = time
        drives, tau = self._all_drives(forces)
        self._last_forces = (drives, tau, forces.wrenches)
        taken, status = 0, 0
        if self._options.max_ms is None or n == 0:
            taken, status = self._take(n, dt, time, self._options.iterations, self._options.solver_iterations)
        else:
            while taken < n and status == 0:
                more, status = self._take_in_time(dt, time + taken * dt)
                taken += more
        self._time = time + taken * dt
        self._read = False
        return taken, status

    def _take(self, n: int, dt: float, time: float, outer: int, inner: int, *, fit: bool = False) -> tuple[int, int]:
        drives, tau, wrenches = self._last_forces
        o, done = self._options, 0
        while True:
            taken, status = take_displacements(
                self._setup, self._net, self._model.arrays.springs, drives, self._no_drives, self._still,
                self._no_span, self._search, self._mode, bool(tau.any()), fit, n - done, dt, outer, inner, o.tolerance,
                _FIT if fit else o.solver_tolerance, o.clamp, time + done * dt, wrenches, tau, self._e, self._s.pose,
                self._s.u, self._reads, self._w, self._motion,
            )  # fmt: skip
            done += int(taken)
            if status != Status.MORE_CONTACTS:
                break
            self._grow()
        if self._contact_room[0] and not fit:
            self._note_contacts(dt)
        return done, int(status)

    def _note_contacts(self, dt: float) -> None:
        """Store the contacts of the last step: detection is repeated when velocities are read."""
        w, found, self._found = self._w, self._search.contacts, []
        for k in np.flatnonzero(w.contact_link[:, 0] >= 0):
            c = int(w.contact_link[k, 2])
            names = self._shape_names[found.shape_a[c]], self._shape_names[found.shape_b[c]]
            force = w.contact_force[k] @ w.contact_data[k, 6:15].reshape(3, 3)
            geometry = found.point[c].copy(), found.normal[c].copy(), float(found.depth[c])
            bodies = self._owner[names[0]], self._owner[names[1]]
            self._found.append(Contact(bodies, names, *geometry, dt * force, force, int(found.key[c])))

    def contacts(self) -> list[Contact]:
        """Return what touched, or was about to, at the start of the last step."""
        return list(self._found)

    def _take_in_time(self, dt: float, time: float) -> tuple[int, int]:
        """Take one step with as many iterations as the time allows, by what earlier ones took."""
        o, (base, each) = self._options, self._pace
        left = 1e-3 * float(o.max_ms or 0.0) - base
        fits = max(1, int(left / each)) if each > 0.0 else 1
        outer = max(1, min(o.iterations, fits // max(1, min(o.solver_iterations, 5))))
        inner = max(1, min(o.solver_iterations, fits // outer))
        begin = clock.perf_counter()
        result = self._take(1, dt, time, outer, inner)
        spent = clock.perf_counter() - begin
        done = max(1.0, float(self._w.report[1]))
        # a step without iterations costs about as much as two solver iterations per assembly iteration
        each_now = spent / (done + 2.0 * outer)
        self._pace[1] = each_now if each == 0.0 else 0.8 * each + 0.2 * each_now
        self._pace[0] = 2.0 * outer * self._pace[1]
        self._chosen.append((outer, inner))
        return result

    def tune(self, options: Displacements) -> None:
        """Take other options while running; the mode stays."""
        if options.mode != self._options.mode:
            raise StateError(
                f'mode "{self._options.mode}" cannot change while running; start with lj.Displacements(mode=...)'
            )
        self._check_weights(self._model, options)
        self._options = options
        self._weigh()

    # Trackers, moved bodies, driven joints

    def grab(self, grip: Grip) -> Stepper:
        """Add a grip; see `Stepper`."""
        self._take_edits()
        self._grips.append(grip)
        self._build()
        return self

    def release(self, grip: Grip) -> Stepper:
        """Remove a grip."""
        self._grips.remove(grip)
        self._build()
        return self

    def reset_grips(self) -> None:
        """Set up the rows of all grips again."""
        self._build()

    def move_grip(self, grip: Grip) -> None:
        """Take the target of a grip, which has changed."""
        self._put_grip(self._grips.index(grip), grip)
        self.invalidate()

    def held_grips(self) -> Sequence[Grip]:
        """Return the grips."""
        return self._grips

    def grip_force(self, grip: Grip) -> np.ndarray:
        """Return the force (3,) a grip pulled with in the last step, world axes."""
        return self._w.tracker_force[self._grips.index(grip), :3].copy()

    def _put_grip(self, t: int, grip: Grip) -> None:
        w, c = self._w, int(self._net.ends[4]) + t
        w.tracked[t] = grip.link
        self._net.system.incidence_body[self._net.system.incidence_start[c]] = grip.link
        row = w.track[t]
        row[POINT : POINT + 3] = grip.point - self.whole.center[grip.link]
        row[TARGET : TARGET + 3] = grip.target
        row[HAS_ROTATION] = 0.0 if grip.rotation is None else 1.0
        if grip.rotation is not None:
            row[ROTATION : ROTATION + 4] = quaternion_from_matrix(grip.rotation)
        if self._mode != KINEMATIC:
            row[SOFT : SOFT + 2] = grip.stiffness, grip.damping
        row[MAX_FORCE], row[LEVER] = grip.most, grip.lever

    def move(self, link: int, position: np.ndarray | None, rotation: Sequence[float] | np.ndarray | None) -> None:
        """Prescribe the pose of a link's frame by a null inverse mass; None frees it."""
        self._take_edits()
        free = 0.0 if position is not None else 1.0
        if self._loose[link] != free:
            self._loose[link] = self._w.free[link] = free
            self._lay_walk()
        if position is not None and rotation is not None:
            pose, lever = self._s.pose[link], self.whole.center[link]
            pose[3:7] = rotation
            pose[:3] = position + (matrix_from_quaternion(pose[3:7]) @ lever if lever.any() else 0.0)
        self._motion.momentum[6 * link : 6 * link + 6] = 0.0
        self._read = False

    def _reader(self, joint: int, axis: int) -> tuple[int, int]:
        """Return the constraint that reads a coordinate of a joint, and the index of the coordinate; -1 without any."""
        table = self.whole.table
        rows = np.flatnonzero((table.role == DRIVE) & (table.speed == 0) & (table.joint == joint))
        if not rows.size:
            return -1, -1
        row = int(rows[axis])
        return int(np.searchsorted(self.whole.system.row_start, row, side="right")) - 1, int(table.drive[row, 0])

    def drive(self, name: str, axis: int, rate: float | None, time: float) -> Stepper:
        """Prescribe the rate of a joint coordinate from its value now; None frees it."""
        self._refresh()
        index = self._model.joint_names.index(name)
        coordinate = self._reader(index, axis)[1]
        if coordinate < 0:
            raise StateError(f'joint "{name}" has no coordinate that can be driven')
        self._driven = [one for one in self._driven if (one.joint, one.axis) != (index, axis)]
        if rate is not None:
            self._driven.append(Driven(index, axis, float(self._s.q[coordinate]) - rate * time, rate))
        self._build()
        return self

    # Joints made while running

    def _driven_rows(self) -> list[Driven]:
        """Return none: driven coordinates are those that the net reads."""
        return []

    def _change(self, attached: list[RuntimeJoint]) -> None:
        """Continue with other joints; the motion of the solids goes on."""
        motion = self._motion
        momentum, last, multipliers = motion.momentum.copy(), motion.last.copy(), motion.last_multipliers
        super()._change(attached)
        rows = int(self._base.system.row_start[self._base.equality_count])
        self._motion.momentum[:], self._motion.last[:] = momentum, last
        self._motion.last_multipliers[:rows] = multipliers[:rows]

    def rows_changed(self) -> None:
        """Make the net anew, and let the bodies of joints made while running not collide."""
        apart = apart_bodies(self._attached)
        filters = with_apart(self._model, self._own_filters, self._search.shapes, apart)
        self._search = self._search._replace(filters=filters)
        self._new_motion()
        del self._w  # of other rows
        self._build()

    # State beside q and qd

    def state_arrays(self) -> dict[str, np.ndarray]:
        """Return poses, turns counted, and how the solids move."""
        own = {"moved": self._motion.momentum.copy(), "last": self._motion.last.copy(), "loose": self._loose.copy()}
        own["damping"] = self._w.damping[:1].copy()
        own["open"] = self._w.open[: self._net.rows[1]].copy()
        own["carried"] = self._motion.last_multipliers.copy()
        return {**super().state_arrays(), **own, "kept": self._w.krylov.recycled.reshape(RECYCLED, -1).copy()}

    def _kept_joints(self) -> np.ndarray:
        """Return the solutions kept by the solver, of joints and limits: those of trackers come and go with grips."""
        krylov = self._w.krylov
        return krylov.recycled.reshape(RECYCLED, -1)[:, : self._net.rows[1]]

    def set_state_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Set what `state_arrays` returned."""
        super().set_state_arrays(arrays)
        self._motion.momentum[:], self._motion.last[:] = arrays["moved"], arrays["last"]
        self._motion.last_multipliers[:] = arrays["carried"]
        self._loose[:] = self._w.free[:] = arrays["loose"]
        self._lay_walk()
        own, kept = self._w.krylov.recycled.reshape(RECYCLED, -1), arrays["kept"]
        own[:] = 0.0
        rows = own.shape[1] if own.shape == kept.shape else int(self._net.rows[1])
        own[:, :rows] = kept[:, :rows]
        self._w.open[: self._net.rows[1]] = arrays["open"]
        self._w.damping[:1] = arrays["damping"]

    def energy_and_momentum(self, forces: Forces) -> tuple[float, ...] | None:
        """Return kinetic and potential energy, linear and angular momentum of the bodies."""
        self._take_edits()
        self._refresh()
        evaluate_state(self._setup, self._time, self._e, self._s)
        kinetic, potential, *momentum = body_energies(self.whole, self._setup.gravity, self._e, self._s)
        potential += spring_energies(self._model.arrays.springs, self._position_of)
        potential += float(joint_energy(self._all_drives(forces)[0], self._s.q)) + self._model.arrays.fixed_potential
        return kinetic, potential, *momentum

    def explain(self, status: int, where: str) -> tuple[type[LimberjackError], str, str] | None:
        """Return (error, joint, message) of a failure."""
        link = Status.of(status)[1]
        body = self._model.body_names[int(np.flatnonzero(self._model.arrays.body_link == link)[0])]
        joint = next(name for name in self._model.joint_names if self._model.joint_spec(name).child == body)
        text = f'joint "{joint}" of body "{body}" is no longer finite at {where}'
        return Diverged, joint, f'{text}; try a smaller dt, more iterations or mode "damped"'

    def stats(self) -> dict[str, Any]:
        """Return bodies, rows, and what the last step did."""
        report, row = self._w.report, int(self._w.report[3])
        worst = ""
        if 0 <= row < int(self._net.rows[1]):
            worst = self._joint_name(row)
        return {
            "bodies": len(self.whole.bodies.kind),
            "rows": int(self._net.rows[0]),
            "iterations": int(report[0]),
            "solver_iterations": int(report[1]),
            "joint_error": float(report[2]),
            "worst_joint": worst,
            "residual": float(report[5]),
            "damped_steps": int(self._motion.damped_steps[0]),
            "chosen": tuple(self._chosen),
            "contacts": len(self._found),
        }
