"""`Simulation`: one model, one method, a clock, forces and a recorder."""

# Values from users are checked whatever their annotations say.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import difflib
import time as wall
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from limberjack import _registry
from limberjack.collision.detect import Contact
from limberjack.errors import Diverged, LimberjackError, StateError, Status, UnknownName
from limberjack.methods import Forces, Stepper, method_of, require_support, require_verb
from limberjack.model.arrays import Drives
from limberjack.model.model import Model
from limberjack.model.proximity import Proximity
from limberjack.reduced.drives import aim_drives
from limberjack.reduced.dynamics import array_of
from limberjack.reduced.forces import no_wrenches
from limberjack.simulation import attachments, external_forces, sensors, snapshots
from limberjack.simulation.attachments import Attachment
from limberjack.simulation.control import ActuatorHandle, Control
from limberjack.simulation.energy_watch import ALL_FORCES, JOINT_FORCES, TARGETS, EnergyWatch
from limberjack.simulation.grips import GripHandle
from limberjack.simulation.handles import (
    BodyHandle,
    JointError,
    JointHandle,
    PointHandle,
    loops_error,
    require_closed_loops,
)
from limberjack.simulation.measures import Energy, Measures, Momentum
from limberjack.simulation.prescribed_motion import KinematicBodies
from limberjack.simulation.reactions import joint_forces
from limberjack.simulation.recorder import Bar, Frames, Uninterrupted
from limberjack.simulation.snapshots import Snapshot
from limberjack.simulation.trajectory import Trajectory

__all__ = ["Energy", "Forces", "JointError", "Momentum", "Simulation", "Snapshot", "resume"]

# One compiled call lasts about this long: short enough for Ctrl-C, long enough that the call costs nothing.
_CALL_SECONDS = 0.03


# Of no length, so that all can share it: making it anew costs as much as a few joints of a step.
_NO_WRENCHES = no_wrenches()


class _Clock:
    """Time as a whole number of steps times dt, never a sum.

    Attributes:
        dt: time step [s].
        steps: steps taken since the start.
        base_steps, base_time: those at the last change of dt.
        per_call: steps that one compiled call takes.
    """

    __slots__ = ("base_steps", "base_time", "dt", "per_call", "steps")

    def __init__(self, dt: float) -> None:
        self.dt = dt
        self.steps = self.base_steps = 0
        self.base_time = 0.0
        self.per_call = 1

    @property
    def time(self) -> float:
        """Time [s]."""
        return self.base_time + (self.steps - self.base_steps) * self.dt


class Simulation:
    """One model moved by one method.

    Args:
        model: the model.
        method: "full" or a method object such as `lj.Full(integrator="rk4")`.
        dt: time step [s]; None takes that of the model, or 1 ms where it has none.
        q: (nq,) start coordinates; `model.q0` when None.
        qd: (nv,) start velocities; `model.qd0` when None.
        ignore: features of the model to leave out although the method does not support them, e.g. ("limits",).
        energy_watch: warn, and then raise `Diverged`, where energy rises far beyond the work done.

    Attributes:
        model: the model.
        method: the method.
        ignored: the features left out.
        forces: what acts on the model; call `touch` after changing it.
        recorded: what the last `run` recorded, None before.
    """

    __slots__ = (
        "__weakref__",
        "_clock",
        "_compiled",
        "_control",
        "_kinematic",
        "_measures",
        "_start",
        "_stepper",
        "_uninterrupted",
        "_watch",
        "forces",
        "ignored",
        "method",
        "model",
        "recorded",
    )

    def __init__(
        self,
        model: Model,
        method: Any = "full",
        dt: float | None = None,
        *,
        q: Any = None,
        qd: Any = None,
        ignore: Iterable[str] = (),
        energy_watch: bool = True,
    ) -> None:
        if not isinstance(model, Model):
            raise StateError(
                f"model must be a lj.Model, got {type(model).__name__}; load one with lj.load or build one"
            )
        self.model = model
        self.method: Any = method_of(method)
        if not isinstance(ignore, Iterable):
            raise StateError(f"ignore must name features, like ('limits',), got {ignore!r}")
        self.ignored = (ignore,) if isinstance(ignore, str) else tuple(ignore)
        require_support(model, self.method, self.ignored)
        self._clock = _Clock(_checked_dt((model.timestep or 1e-3) if dt is None else dt))
        self._stepper: Stepper = self.method.stepper(model, frozenset(self.ignored))
        drives = Drives(*(array.copy() for array in model.arrays.drives))
        self._control = Control(model)
        tau = np.zeros(model.nv) if self._control.adds else self._control.applied
        self.forces = Forces(tau, drives, self._control.model_wrenches())
        self._compiled = False
        self._uninterrupted = Uninterrupted()
        self._measures = Measures()
        self._kinematic = KinematicBodies(model)
        self._watch = EnergyWatch(model, bool(energy_watch))
        self.recorded: Trajectory | None = None
        self._start: Snapshot | None = None
        if model.actuators:
            self._control.set(self, np.zeros(len(model.actuators)))
        if q is not None:
            self.q = q
        if qd is not None:
            self.qd = qd

    def __repr__(self) -> str:
        return f'Simulation("{self.model.name}", {self.method}, dt={self.dt:g}, time={self.time:.6g})'

    # What steps write stands in `_clock` and `_measures`, whose attributes cost nothing extra.
    def __setattr__(self, name: str, value: Any) -> None:
        try:
            object.__setattr__(self, name, value)
        except AttributeError:
            if hasattr(type(self), name):
                raise
            names = [word for word in dir(type(self)) if not word.startswith("_")]
            close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
            hint = f"; did you mean {' or '.join(close)}?" if close else f"; it has {', '.join(names)}"
            raise AttributeError(f'Simulation has no attribute "{name}"{hint}', name=name, obj=self) from None

    # Clock

    @property
    def steps(self) -> int:
        """Steps taken since the start."""
        return self._clock.steps

    @property
    def time(self) -> float:
        """Time [s]: a whole number of steps times dt, never a sum."""
        return self._clock.time

    @property
    def dt(self) -> float:
        """Time step [s]; may be changed while running."""
        return self._clock.dt

    @dt.setter
    def dt(self, value: float) -> None:
        value, clock = _checked_dt(value), self._clock
        clock.base_time, clock.base_steps, clock.dt = clock.time, clock.steps, value
        self._watch.touched = ALL_FORCES

    # State

    @property
    def q(self) -> np.ndarray:
        """(nq,) coordinates: a read-only copy; assign to set."""
        return _view(self._stepper.q)

    @q.setter
    def q(self, value: Any) -> None:
        new = array_of(value, (self.model.nq,), "q", self.model)
        for iq, v in self.model.arrays.links.quaternions:
            length = float(np.linalg.norm(new[iq : iq + 4]))
            if abs(length - 1.0) > 1e-3:
                name = self.model.dof_name(int(v))
                raise StateError(
                    f'q[{iq}:{iq + 4}] of joint "{name}" must be a unit quaternion, its length is {length:.6g}'
                )
            if abs(length - 1.0) > 1e-15:
                new[iq : iq + 4] /= length
        self._stepper.q[:] = new
        self._watch.forget()
        self.touch()

    @property
    def qd(self) -> np.ndarray:
        """(nv,) velocities: a read-only copy; assign to set."""
        return _view(self._stepper.qd)

    @qd.setter
    def qd(self, value: Any) -> None:
        self._stepper.qd[:] = array_of(value, (self.model.nv,), "qd", self.model)
        self._watch.forget()
        self.touch()

    @property
    def tau(self) -> np.ndarray:
        """(nv,) joint forces applied until changed: a read-only copy; assign to set."""
        return _view(self._control.applied)

    @tau.setter
    def tau(self, value: Any) -> None:
        self._control.applied[:] = array_of(value, (self.model.nv,), "tau", self.model)
        self._control.set_tau(self)
        self._watch.touched |= JOINT_FORCES
        self._stepper.joint_forces_changed(0, self.model.nv)

    def set_targets(self, q: Any, qd: Any = None) -> None:
        """Aim every motor at a state of the whole model: at its coordinates, its damper at its velocities.

        A ball's motor has no velocity of its own: its target lies ahead by kd / kp seconds of `qd`, which gives the
        same force.

        Args:
            q: (nq,) coordinates.
            qd: (nv,) velocities; None = 0.
        """
        q = array_of(q, (self.model.nq,), "q", self.model)
        qd = np.zeros(self.model.nv) if qd is None else array_of(qd, (self.model.nv,), "qd", self.model)
        aim_drives(self.forces.drives, q, qd)
        self._watch.touched |= TARGETS
        self._stepper.joint_forces_changed(0, self.model.nv)

    @property
    def control(self) -> np.ndarray:
        """(actuators,) controls by `model.actuator_names`: a read-only copy; assign all, or {name: control}, to set.

        They act until changed. Values beyond the range of a control are cut where they act, not here.
        """
        return _view(self._control.values)

    @control.setter
    def control(self, value: Any) -> None:
        self._control.set(self, value)

    def actuator(self, name: str) -> ActuatorHandle:
        """Return the handle of an actuator.

        Args:
            name: of `model.actuator_names`.
        """
        return ActuatorHandle(self, name)

    @property
    def sensors(self) -> np.ndarray:
        """Values of all sensors at the present state, one after the other by `model.sensor_names`."""
        return sensors.read_all(self)

    def sensor(self, name: str) -> Any:
        """Return the value of a sensor at the present state: a float, or an array.

        Args:
            name: of the sensor.
        """
        return sensors.read_one(self, name)

    @property
    def positions(self) -> np.ndarray:
        """(body_count, 3) origins of the body frames in the world [m]."""
        return self._measures.body_poses(self)[0]

    @property
    def rotations(self) -> np.ndarray:
        """(body_count, 4) quaternions of the body frames, body to world."""
        return self._measures.body_poses(self)[1]

    @property
    def velocities(self) -> np.ndarray:
        """(body_count, 6) angular velocity, then velocity of the com, world axes."""
        return self._measures.body_velocities(self)

    def joint(self, name: str) -> JointHandle:
        """Return the handle of a joint, or of one axis of a compound joint.

        Args:
            name: of the joint or axis.
        """
        return JointHandle(self, name)

    def body(self, name: str) -> BodyHandle:
        """Return the handle of a body.

        Args:
            name: of the body.
        """
        return BodyHandle(self, name)

    def point(self, name: str) -> PointHandle:
        """Return the handle of a named point.

        Args:
            name: of the point.
        """
        for point in self.model.points:
            if point.name == name:
                return PointHandle(self, name, point.body, point.position)
        raise UnknownName("point", name, f'model "{self.model.name}"', [point.name for point in self.model.points])

    @property
    def active_joints(self) -> list[str]:
        """Names of the joints that are simulated now."""
        link = self.model.arrays.joint_link
        moving = self.active_links & (self.model.arrays.links.dof > 0)
        return [self.model.joint_names[i] for i in np.flatnonzero((link >= 0) & np.append(moving, False)[link])]

    @property
    def active_links(self) -> np.ndarray:
        """Per link of the model, whether its joint is simulated now."""
        found = self._stepper.active_links()
        return np.ones(len(self.model.arrays.links.parent), bool) if found is None else found

    def tune(self, **options: Any) -> None:
        """Change options of the method while running, such as `budget=10`; those it cannot change are refused.

        Args:
            **options: options of the method, by name.
        """
        require_verb(self.method, "tune")
        known = [item.name for item in fields(self.method)]
        for name in options:
            if name not in known:
                raise UnknownName("option", name, f'method "{self.method.name}"', known)
        method = replace(self.method, **options)
        self._stepper.tune(method)
        self._watch.touched = ALL_FORCES
        self.method = method

    @property
    def stats(self) -> dict[str, Any]:
        """What the last step did."""
        return self._stepper.stats()

    def touch(self) -> None:
        """Tell the engine that the state or a force was changed; setters do it themselves."""
        self._measures.poses = None
        self._watch.touched = ALL_FORCES
        self._stepper.invalidate()

    @property
    def energy_watch(self) -> bool:
        """Whether energy that rises far beyond the work done gives a warning and then an error; may be changed."""
        return self._watch.on

    @energy_watch.setter
    def energy_watch(self, value: bool) -> None:
        self._watch.on = bool(value)

    # Running

    def step(self, n: int = 1) -> None:
        """Take n steps; Ctrl-C stops between steps and keeps the state.

        Args:
            n: number of steps.
        """
        clock, watch = self._clock, self._watch
        alone = type(n) is int and n == 1 and self._stepper.in_one_call and not self._kinematic
        if (
            alone
            and not self._control.coupled
            and clock.steps + 1 < watch.next
            and not watch.touched
            and self._step_alone()
        ):
            return
        if (type(n) is not int and not isinstance(n, (int, np.integer))) or n < 0:
            raise StateError(f"n must be a whole number >= 0, got {n!r}")
        left = int(n)
        kinematic = self._kinematic
        timed = bool(len(kinematic)) or self._stepper.timed
        if timed:
            self._aim()
        if not self._compiled:
            # Compiling takes long and may be interrupted; the steps themselves are counted and taken together.
            self._stepper.advance(0, clock.dt, self.forces, clock.time)
            if self._stepper.joint_error() is None and "loops" not in self.ignored:
                require_closed_loops(self)
            self._compiled = True
        if watch.touched:
            watch.note_forces(self.forces)
        if watch.pending and (clock.steps >= watch.next or (left >= watch.period and watch.on)):
            watch.start(self, clock.steps)
        while left > 0:
            count = left if left < clock.per_call else clock.per_call
            if timed:
                # one step a call: the time at which a call begins is rounded, and the clock decides how long calls are
                count = 1
                if self._stepper.prescribes_poses:
                    kinematic.place(self)
            begin = wall.perf_counter() if n > 1 else 0.0
            status = self._advance(count)
            if status:
                raise self._failed(status)
            left -= count
            if timed:
                kinematic.stop_arrived(clock.time)
                self._aim()
                timed = bool(len(kinematic)) or self._stepper.timed
            if n > 1:  # a single step teaches nothing, and loops of single steps are the most frequent
                spent = wall.perf_counter() - begin
                # Aim at _CALL_SECONDS per call; after a short one grow at most twofold.
                clock.per_call = max(1, min(2 * count, int(count * _CALL_SECONDS / max(spent, 1e-9))))
            due = clock.steps >= watch.next or (left == 0 and n >= watch.stride and watch.on)
            if not due and n > 1 and left == 0 and watch.on and not watch.pending:
                due = watch.is_alarmed(self)
            if due and not watch.look(self, clock.steps):
                error = watch.diverged(self)
                if error is not None:
                    raise error

    def _aim(self) -> None:
        """Set the targets of rows that move in time for the next step."""
        self._kinematic.apply(self)
        self._stepper.aim_rows(self._clock.time, self._clock.dt)

    def _step_alone(self) -> bool:
        """Take a single step by one compiled call, the most frequent way to step; return False where there is none."""
        clock, stepper, measures = self._clock, self._stepper, self._measures
        steps, counted = clock.steps, stepper.steps_counted()
        try:
            time = clock.base_time + (steps - clock.base_steps) * clock.dt
            found = stepper.advance_in_one_call(1, clock.dt, self.forces, time)
            if found is None:
                return False
            measures.poses = measures.contacts = None
            taken, status = found
            clock.steps = steps + taken
        except KeyboardInterrupt:  # deferring it, as `_advance` does, takes longer than a few joints of the step
            measures.poses = measures.contacts = None
            clock.steps = steps + stepper.steps_counted() - counted
            raise
        if status:
            raise self._failed(status)
        return True

    def _failed(self, status: int) -> LimberjackError:
        """Return the error of a step that failed."""
        failure, watch = self._failure(status), self._watch
        error = watch.diverged(self) if watch.on and isinstance(failure, Diverged) else None
        return failure if error is None else error

    def _advance(self, count: int) -> int:
        """Take up to `count` steps in one call of the method and count them; return its status."""
        clock = self._clock
        with self._uninterrupted:
            if not self._control.coupled:
                taken, status = self._stepper.advance(count, clock.dt, self.forces, clock.time)
                clock.steps += int(taken)
            else:
                status = self._advance_coupled(count)
            self._measures.poses = self._measures.contacts = None
        return int(status)

    def _advance_coupled(self, count: int) -> int:
        """Take up to `count` steps, each with the forces of coupled actuators and tendons at its beginning."""
        clock = self._clock
        for _ in range(count):
            self._control.update(self)
            taken, status = self._stepper.advance(1, clock.dt, self.forces, clock.time)
            clock.steps += int(taken)
            if status:
                return int(status)
            self._control.advance(clock.dt)
        return 0

    def run(
        self,
        seconds: float,
        *,
        progress: bool = False,
        rate: float = 60.0,
        callback: Callable[[Simulation], None] | None = None,
        record: str | Path | None = None,
    ) -> Trajectory:
        """Simulate for `seconds`, record, and return the trajectory.

        Ctrl-C raises as usual; what was recorded until then is kept in `sim.recorded`.

        Args:
            seconds: how long [s].
            progress: show a progress bar.
            rate: frames per second of the recording.
            callback: called with the simulation after each recorded frame.
            record: a file (.ljr) that the run is written to while it goes on: it survives the end of the process, and
                `lj.replay` repeats it. Steps are taken one by one then.
        """
        seconds = _checked(seconds, "seconds", low=0.0)
        every = max(1, round(1.0 / (_checked(rate, "rate", low=1e-9) * self.dt)))
        total = round(seconds / self.dt)
        writer = None if record is None else _registry.lookup("recording writer", record)(self, record)
        frames, ended = Frames(self), False
        try:
            with Bar(progress, total, f"{self.model.name}, {self.method.name}") as tick:
                done = 0
                while done < total:
                    n = min(every, total - done)
                    if writer is None:
                        self.step(n)
                    else:
                        writer.take(n)
                    done += n
                    frames.add()
                    tick(n)
                    if callback is not None:
                        if writer is None:
                            callback(self)
                        else:
                            writer.call(callback)
            ended = True
        except Diverged:
            frames.drop_after(self.time)  # states that led out of bounds
            if writer is not None:
                writer.diverged()
            raise
        finally:
            self.recorded = frames.trajectory()
            if writer is not None:
                writer.close(ended)
        return self.recorded

    # External forces and runtime joints

    def apply_wrench(
        self, body: str, *, force: Any = (0.0, 0.0, 0.0), torque: Any = external_forces.NO_TORQUE, point: Any = None
    ) -> None:
        """Add a lasting force and torque, world axes, to a body; wrenches add up until `clear_wrenches`.

        Args:
            body: name of the body.
            force: (3,) [N].
            torque: (3,) [N m].
            point: (3,) where the force acts, in the world now and fixed to the body from then on; None = the com.
        """
        external_forces.apply_wrench(self, body, force, torque, point)

    def clear_wrenches(self) -> None:
        """Remove all wrenches."""
        self.forces.wrenches = self._control.model_wrenches() if self._control.own else _NO_WRENCHES
        self._watch.clear_wrenches()
        self._stepper.wrenches_changed()

    def apply_impulse(
        self, body: str, *, impulse: Any = (0.0, 0.0, 0.0), angular: Any = (0.0, 0.0, 0.0), point: Any = None
    ) -> None:
        """Change velocities at once by an impulse, all constraints maintained.

        Args:
            body: name of the body.
            impulse: (3,) world axes [N s].
            angular: (3,) angular impulse, world axes [N m s].
            point: (3,) where the impulse acts, in the world; None = the com.
        """
        external_forces.apply_impulse(self, body, impulse, angular, point)
        self._watch.forget()

    def grab(self, body: str, point: Any = None, *, strength: float | None = None) -> GripHandle:
        """Grip a point of a body and pull it to where `grip.move` says; return the grip.

        Args:
            body: name of the body.
            point: (3,) the point, in the world now and fixed to the body from then on; None = the com.
            strength: largest force along each axis [N]; None = 50 times the weight of the body's figure.
        """
        return GripHandle(self, body, point, strength=strength)

    @property
    def grips(self) -> tuple[GripHandle, ...]:
        """The grips that act, oldest first; after `lj.resume` those of the saved simulation."""
        return tuple(GripHandle.of(self, grip) for grip in self._stepper.held_grips())

    def move(
        self,
        body: str,
        position: Any = None,
        rotation: Any = None,
        *,
        velocity: Any = None,
        angular_velocity: Any = None,
    ) -> None:
        """Prescribe the motion of a body, whatever forces act on it.

        It goes on at the velocities given; or it is at the pose given after the next step, moves there at the velocity
        of that way, which joints and contacts see, and stays. None frees it, unless it was added with `kinematic=True`.

        Args:
            body: name of the body.
            position: (3,) of the body's frame in the world, or None.
            rotation: (w, x, y, z) or a matrix; None keeps the one it has.
            velocity: (3,) of the body's frame, world axes [m/s].
            angular_velocity: (3,) world axes [rad/s]; it turns about the origin of its frame.
        """
        self.model.body_index(body)
        kinematic, at_speed = self._kinematic, velocity is not None or angular_velocity is not None
        if at_speed and (position is not None or rotation is not None):
            raise StateError(f'body "{body}" is moved to a pose or at a velocity, not both')
        if body not in kinematic:
            require_verb(self.method, "move")
        if at_speed:
            still = (0.0, 0.0, 0.0)
            linear, angular = (still if each is None else each for each in (velocity, angular_velocity))
            kinematic.move_at(self, body, linear, angular)
        elif position is None:
            if rotation is not None:
                raise StateError(f'body "{body}": a rotation needs a position')
            kinematic.free(self, body)
        elif self._stepper.prescribes_poses and body not in kinematic:
            self._watch.move(self, body, position, rotation)
            external_forces.move(self, body, position, rotation)
        else:
            kinematic.move_to(self, body, position, rotation)

    def drive(self, joint: str, rate: float | None) -> None:
        """Prescribe the rate of a joint's coordinate, or of a compound axis, from its value now; None frees it.

        Args:
            joint: name of a joint or axis with one coordinate.
            rate: [rad/s or m/s].
        """
        external_forces.drive(self, joint, rate)
        self._watch.drive(self, joint, rate)

    @property
    def attached(self) -> tuple[str, ...]:
        """Names of the joints made while running, in the order in which they were made."""
        return self._stepper.attached_joints

    @property
    def rules(self) -> tuple[Proximity, ...]:
        """The rules that attach and detach joints."""
        return self._stepper.rules

    def attach(
        self,
        a: str,
        b: str,
        kind: str = "fixed",
        *,
        name: str | None = None,
        point: Any = None,
        axis: Any = (0.0, 0.0, 1.0),
        at_a: Any = None,
        at_b: Any = None,
        length: float | None = None,
        pitch: float | None = None,
        over: float = 0.1,
        collide: bool = False,
    ) -> Attachment:
        """Make a joint between two bodies at their poses now, and return it; `sim.detach` removes it.

        The joint's axes are those of the world at the call. Points that do not coincide are drawn together.

        Args:
            a, b: the bodies; one may be "world".
            kind: of the joint.
            name: of the joint; None makes one up.
            point: (3,) where the joint is, in the world now; None = the com of b.
            axis: (3,) its main axis, in the world now.
            at_a, at_b: (3,) the joint's points in the frames of the bodies instead; one of them alone is enough.
            length: of a distance joint [m]; None = that of now.
            pitch: of a screw [m/rad].
            over: time in which a gap between at_a and at_b is closed [s].
            collide: whether the two bodies collide while they are attached.
        """
        return attachments.attach(
            self, a, b, kind, name, point, axis, at_a, at_b, length, pitch, over, collide
        )  # fmt: skip

    def detach(self, joint: Attachment | str) -> None:
        """Remove a joint made while running.

        Args:
            joint: what `sim.attach` returned, or the name.
        """
        attachments.detach(self, joint)
        self._watch.forget()

    def add_rule(self, rule: Proximity) -> None:
        """Attach and detach joints by a rule from now on; it is part of snapshots and saved files.

        Args:
            rule: when to attach and to detach which points.
        """
        attachments.add_rule(self, rule)
        self._watch.add_rule(self, rule)

    def remove_rule(self, rule: Proximity) -> None:
        """Drop a rule and detach the joints it made.

        Args:
            rule: one that was added.
        """
        attachments.remove_rule(self, rule)
        self._watch.remove_rule(rule)

    # Measures

    def energy(self) -> Energy:
        """Return kinetic, potential and total energy [J]; gravity counts from the world origin."""
        kinetic, potential = self._measures.energy_and_momentum(self)[:2]
        return Energy(kinetic, potential, kinetic + potential)

    def momentum(self) -> Momentum:
        """Return linear and angular momentum, the latter about the world origin."""
        out = self._measures.energy_and_momentum(self)
        return Momentum(np.array(out[2:5]), np.array(out[5:8]))

    def joint_error(self) -> JointError:
        """Return the largest gap [m] and angle [rad] of joints; in reduced coordinates those of the tree are exact."""
        found = self._stepper.joint_error()
        return loops_error(self) if found is None else JointError(*found)

    def contacts(self) -> list[Contact]:
        """Return the contacts of the last step, none in methods without: bodies, position, normal, depth, impulse."""
        known = self._measures.contacts
        return self._stepper.contacts() if known is None else known

    @property
    def reactions(self) -> np.ndarray:
        """(joint_count, 6) torque, then force that each joint exerts on its child, at the joint, world axes.

        Those of the step that begins at the present state: it is taken and undone. Forces of motors, limits and
        friction of a joint are included; gears act through the joints that they couple, and have none of their own.
        """
        return joint_forces(self).reactions.copy()

    def clusters(self, since: int = -1) -> Any:
        """Return where the rigid clusters of method adaptive are, and which links are in them.

        Args:
            since: the version of an earlier report: links are listed only if their poses have changed since then.

        Returns:
            `Clusters`, or None: in other methods, and while something that was set waits for the next step.
        """
        return self._stepper.clusters(since)

    def cluster_roots(self) -> np.ndarray | None:
        """Return the first link of each rigid cluster, or None when `clusters` is None."""
        return self._stepper.cluster_roots()

    # Snapshots

    def reset(self, keyframe: str | None = None, seed: int | None = None) -> None:
        """Go back to the start, without forces, controls, grips and contacts, and to time 0.

        Args:
            keyframe: name of a keyframe of the model, whose state and controls are taken; None is the start state.
            seed: displaces each dof, and changes its velocity, by a number from -0.01 to 0.01 [rad, m, rad/s or m/s] of
                the random sequence with this seed, within the limits of joints; None does not.
        """
        if self._start is None:
            fresh = Simulation(self.model, self.method, self.dt, ignore=self.ignored, energy_watch=False)
            self._start = fresh.snapshot()
        self.restore(replace(self._start, dt=self.dt))
        found = None
        if keyframe is not None:
            if keyframe not in self.model.keyframes:
                raise UnknownName("keyframe", keyframe, f'model "{self.model.name}"', self.model.keyframes)
            found = self.model.keyframes[keyframe]
        if found is not None or seed is not None:
            q = np.array(self.model.q0 if found is None else found.q)
            qd = np.array(self.model.qd0 if found is None else found.qd)
            if seed is not None:
                snapshots.displace(self.model, np.random.default_rng(seed), q, qd)
            self.q, self.qd = q, qd
        if found is not None:
            self._control.activation[:] = found.activation or 0.0
            if found.control or found.activation:
                self.control = found.control or np.zeros(len(self.model.actuators))

    def snapshot(self) -> Snapshot:
        """Return everything that feeds the next step."""
        return snapshots.snapshot_of(self)

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to `snapshot`; the next steps are the same bit for bit.

        Args:
            snapshot: what `snapshot` returned.
        """
        snapshots.restore(self, snapshot)
        self._watch.rewind()
        self._measures.poses = self._measures.contacts = None

    def state_hash(self) -> str:
        """Return the SHA-256 of the clock and of everything that feeds the next step."""
        return snapshots.state_hash(self.snapshot())

    def save(self, path: str | Path) -> Path:
        """Write model, method and state to a file that `lj.resume` continues from, bit for bit; return its path.

        Args:
            path: an .npz file.
        """
        path = Path(path)
        _registry.lookup("simulation writer", path)(self, path)
        return path

    def _failure(self, status: int) -> LimberjackError:
        where = f"step {self.steps + 1} (t = {self.time:.6g} s); the state before it is kept"
        explained = self._stepper.explain(status, where)
        if explained is not None:
            kind, name, text = explained
            return Diverged(text, name, self.steps, self.time) if kind is Diverged else kind(text)
        kind, index = Status.of(status)
        if kind == Status.NO_INERTIA:
            name = self.model.dof_name(index)
            body = self.model.joint_spec(name).child
            text = f'joint "{name}" of body "{body}" has no inertia to act on at {where}'
            return Diverged(text, name, self.steps, self.time)
        if kind == Status.NO_SPRING_FORCES:
            return Diverged(f"the springs' forces cannot be found at {where}", "", self.steps, self.time)
        if kind != Status.NOT_FINITE:
            return Diverged(f"the step failed ({kind.name}) at {where}", "", self.steps, self.time)
        name = self.model.dof_name(index)
        body = self.model.joint_spec(name).child
        text = f'joint "{name}" of body "{body}" is no longer finite at {where}'
        text += "; try a smaller dt, damping or another integrator"
        return Diverged(text, name, self.steps, self.time)


def resume(path: str | Path) -> Simulation:
    """Return the simulation saved in a file, ready to go on bit for bit.

    Args:
        path: an .npz file that `Simulation.save` wrote.
    """
    return _registry.lookup("simulation reader", path)(Path(path))


def _view(array: np.ndarray) -> np.ndarray:
    out = array.copy()
    out.setflags(write=False)
    return out


def _checked(value: Any, what: str, low: float) -> float:
    try:
        out = float(value)
    except (TypeError, ValueError):
        raise StateError(f"{what} must be a number, got {value!r}") from None
    if not np.isfinite(out) or out < low:
        raise StateError(f"{what} must be a finite number >= {low:g}, got {value!r}")
    return out


def _checked_dt(value: Any) -> float:
    out = _checked(value, "dt", low=0.0)
    if not 0.0 < out <= 1.0:
        raise StateError(f"dt must be > 0 and <= 1 s, got {value!r}")
    return out
