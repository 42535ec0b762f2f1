"""The energy watch: energy that rises beyond the work done on a simulation is reported, in every method.

At a check, kinetic energy T is compared with what is explained:

    explained = max(level + work - V, 0) + scale

- V: potential energy, that of motors left out;
- level: the energy T + V when the watch began, or when the state was last set; it rises with energy that work explains,
  and never falls;
- work: a bound on what joint forces, wrenches, motors, grips, prescribed bodies and joints and joints that are pulled
  together have done since the last check;
- scale: the weight of the model times its reach, under Earth's gravity at least, and the energy in its springs. What
  integrators, contacts and joints gain and lose by their errors is small against it.

T above WARNING times the explained energy gives an `EnergyWarning`, once; above DIVERGED times it, `Diverged`. The
bounds are generous: an instability multiplies energy by ten within few steps, and a false alarm would stop a good run.
Where the work is known, T may exceed the explained energy less the scale by no more than RISE times the explained
energy: a scene that falls far explains so much that a wrong gain would stay below ten times that for good.

Most looks at a simulation are one product of its velocities with themselves: as long as they are less than twice as
fast as any that were checked, energy is not measured, but for checks at twice the steps of the last one. Velocities
alone do not tell where a light body spins fast and heavy ones gain slowly. A method that steps few of the dofs, as
`adaptive` does, is looked at and copied the less often: a copy of the state is as large as ever, the steps between two
are cheaper.
"""

# The files of this room are one class seen from several sides: they share its private members.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import math
import sys
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from limberjack.errors import Diverged, EnergyWarning
from limberjack.model.arrays import Drives
from limberjack.model.check import frame_rotation
from limberjack.model.registered import RegisteredConstraint
from limberjack.reduced.dynamics import array_of
from limberjack.simulation import snapshots
from limberjack.simulation.snapshots import Snapshot

if TYPE_CHECKING:
    from limberjack.methods import Forces
    from limberjack.model.model import Model
    from limberjack.model.proximity import Proximity
    from limberjack.simulation.simulation import Simulation

__all__ = ["ALL_FORCES", "DIVERGED", "JOINT_FORCES", "RISE", "TARGETS", "WARNING", "EnergyWatch", "without_motors"]

# Kinetic energy above these multiples of the explained energy: a warning, an error.
WARNING, DIVERGED = 10.0, 1000.0
# Kinetic energy from nowhere above this part of the explained energy: a warning.
RISE = 0.25
# Both are multiplied by this where unknown work is done: constraints of users, which may depend on time, and motors in
# loop joints.
UNKNOWN = 1000.0
# Work is estimated from speeds at both ends of an interval and multiplied by this.
SAFETY = 4.0

# Forces that may have been set since the last step, flags of `EnergyWatch.touched`.
JOINT_FORCES, TARGETS, ALL_FORCES = 1, 2, 7

_EARTH = 9.81
# A look costs a microsecond or two, a check or a snapshot fifty, the step of a link a quarter of one at least: steps
# between two snapshots, and between two looks.
_LINK_STEPS, _FEWEST, _MOST = 40_000, 256, 32_768
_FEWEST_LOOKS, _MOST_LOOKS = 32, 512
# Steps before the first look after a start, doubled at each, and simulated time between two looks at most [s].
_FIRST_LOOK, _LONGEST = 8, 1.0
# Looks between two snapshots where forces are set all the time: steps cannot be repeated then.
_EDITED = 4
# Steps between two checks, as a multiple of those between two snapshots.
_FULL = 8

# Open joints count from this part of the scale on.
_GAPS = 0.01
# The reach of models without extent, such as particles [m].
_SMALLEST = 0.1

# Length of products that OpenBLAS takes on one thread; it divides those of more than 10,000.
_BLAS_ALONE = 8192
# Squared speeds beyond this multiple of those known are looked at between two looks; sums below the second are never a
# reason.
_ALARM, _FAST = 4.0, 1.0
# Columns of `Drives`
_KP, _KD, _TARGET, _VELOCITY, _MAX = 7, 8, 9, 10, 11
_BALL_KP, _BALL_KD, _BALL_MAX = 11, 12, 17


class _Reading(NamedTuple):
    """What a check measures."""

    time: float
    kinetic: float
    potential: float
    q: np.ndarray
    qd: np.ndarray
    speed: float  # Euclidean norm of qd


class Excess(NamedTuple):
    """A state out of bounds."""

    reading: _Reading
    explained: float
    joint: str
    body: str
    fastest: str
    fastest_speed: float


class EnergyWatch:
    """What is known of the energy of one simulation.

    The simulation is an argument, not an attribute: a cycle of references would keep its arrays until the garbage
    collector runs.

    Attributes:
        next: the step from which a look is due.
        stride: steps between two looks.
        period: steps between two snapshots of states that are in order.
        touched: which forces have been set since the last step: JOINT_FORCES, TARGETS, ALL_FORCES, or 0.
        pending: whether the energy of the next state is taken as it is, since the state was set.
        warned: whether the warning was given.
    """

    __slots__ = (
        "_acting_force",
        "_acting_torque",
        "_ahead",
        "_attaching",
        "_base",
        "_begun",
        "_checked",
        "_dofs",
        "_driven",
        "_edited",
        "_force",
        "_gains",
        "_given",
        "_lever",
        "_level",
        "_limit",
        "_links",
        "_loop_tau",
        "_mark",
        "_mass",
        "_motors",
        "_moved",
        "_path",
        "_poses",
        "_reach",
        "_scale",
        "_targets",
        "_tau",
        "_torque",
        "_unknown",
        "next",
        "pending",
        "period",
        "stride",
        "touched",
        "warned",
    )

    def __init__(self, model: Model, on: bool) -> None:
        links = model.arrays.links
        self.next = 0 if on else sys.maxsize
        self._links, self._dofs = len(links.parent), model.nv
        self._set_period(self._dofs)
        self.pending, self.touched, self.warned = True, ALL_FORCES, False
        self._mark: Snapshot | None = None
        self._edited = False
        self._begun, self._checked, self._ahead = 0, 0, _FIRST_LOOK
        self._mass = float(links.inertia[:, 9].sum())
        self._reach = -1.0
        loops = set(model.loop_names)
        self._unknown = any(
            isinstance(joint, RegisteredConstraint) or (joint.name in loops and _has_motor(joint))
            for joint in model.spec.joints
        )
        self._level = self._scale = self._limit = 0.0
        self._tau = self._loop_tau = self._force = self._torque = self._lever = self._given = self._moved = 0.0
        self._acting_force = self._acting_torque = 0.0  # of the wrenches as they are
        self._driven: dict[str, float] = {}
        self._attaching: dict[int, float] = {}
        self._poses: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self._base: _Reading | None = None
        self._motors = self._ball_motors(model.arrays.drives)
        self._gains = self._targets = self._path = np.zeros(0)

    def _set_period(self, stepped: int) -> None:
        """Set the steps between looks and snapshots of a model of which `stepped` dofs are stepped."""
        steps = max(_FEWEST, _LINK_STEPS // max(1, self._links))
        self.period = min(_MOST, max(steps, steps * self._dofs // max(1, stepped)))
        self.stride = min(_MOST_LOOKS, max(_FEWEST_LOOKS, self.period // 8))

    @staticmethod
    def _ball_motors(drives: Drives) -> bool:
        return bool((drives.ball[:, _BALL_KP : _BALL_KD + 1] > 0.0).any())

    @property
    def on(self) -> bool:
        """Whether it watches."""
        return self.next < sys.maxsize

    @on.setter
    def on(self, value: bool) -> None:
        self.next = 0 if value else sys.maxsize
        self.forget()

    # What users do

    def forget(self) -> None:
        """Take the energy of the next state looked at as it is: the state or its constraints were set."""
        self.pending, self._mark = True, None

    def rewind(self) -> None:
        """Take the energy of the next state as it is: the clock was set."""
        self.on = self.on

    def push_loop(self, forces: np.ndarray) -> None:
        """Take note of forces applied to a loop joint."""
        self._loop_tau = max(self._loop_tau, float(np.abs(forces).sum()))

    def push(self, row: tuple[float, ...]) -> None:
        """Take note of a wrench that is added: its point, force and torque."""
        x, y, z, fx, fy, fz, tx, ty, tz = row
        self._edited = True
        acting = self._acting_force = self._acting_force + abs(fx) + abs(fy) + abs(fz)
        if acting > self._force:
            self._force = acting
        acting = self._acting_torque = self._acting_torque + abs(tx) + abs(ty) + abs(tz)
        if acting > self._torque:
            self._torque = acting
        lever = self._lever
        if not -lever <= x <= lever or not -lever <= y <= lever or not -lever <= z <= lever:
            self._lever = max(lever, abs(x), abs(y), abs(z))

    def clear_wrenches(self) -> None:
        """Take note that no wrench acts."""
        self._edited = True
        self._acting_force = self._acting_torque = 0.0

    def move_target(self, row: int, target: float) -> None:
        """Take note of the target of a motor of a single dof, by its row among the drives."""
        self._edited = True
        if len(self._targets):
            self._path[row] += abs(target - self._targets[row])
            self._targets[row] = target

    @property
    def motor_path(self) -> tuple[np.ndarray, np.ndarray]:
        """The targets of motors of single dofs that were noted last, and how far each has moved; empty without any."""
        return self._targets, self._path

    def note_joint_forces(self, size: float) -> None:
        """Take note of joint forces by the sum of their squares; targets are in `motor_path` already."""
        self._edited = True
        if size > self._tau * self._tau:
            self._tau = math.sqrt(size)

    def give(self, energy: float) -> None:
        """Allow for energy that a grip may add from now on [J]."""
        self._given += energy

    def move(self, sim: Simulation, body: str, position: Any, rotation: Any) -> None:
        """Take note that a body is prescribed, by the speed of the way from where it was [m/s]."""
        if not self.on or position is None:
            self._poses.pop(body, None)
            return
        self._edited = True
        b = sim.model.body_index(body)
        old = self._poses.get(body) or (sim.positions[b], sim.rotations[b])
        turned = old[1] if rotation is None else np.array(frame_rotation(rotation, "rotation"))
        self._poses[body] = array_of(position, (3,), "position", sim.model), turned
        way = float(np.linalg.norm(self._poses[body][0] - old[0]))
        way += 2.0 * math.acos(min(1.0, abs(float(turned @ old[1])))) * self._extent(sim.model)
        self._moved = max(self._moved, way / sim.dt)

    def drive(self, sim: Simulation, joint: str, rate: float | None) -> None:
        """Take note of a joint driven at a rate [rad/s or m/s]."""
        self._driven.pop(joint, None)
        if rate is not None:
            self._driven[joint] = abs(float(rate)) * max(1.0, self._extent(sim.model))
        self.forget()

    def follow(self, sim: Simulation, rates: dict[str, float]) -> None:
        """Take note of all that is led or driven, by the rates of each, and of nothing else."""
        self._driven.clear()
        for name, rate in rates.items():
            self.drive(sim, name, rate)

    def add_rule(self, sim: Simulation, rule: Proximity) -> None:
        """Take note that joints may be made and pulled together at any time."""
        self._attaching[id(rule)] = rule.distance / max(rule.over, sim.dt) if rule.snap else 0.0
        self.forget()

    def remove_rule(self, rule: Proximity) -> None:
        """Drop what a rule allowed for."""
        self._attaching.pop(id(rule), None)
        self.forget()

    def attach(self, sim: Simulation, gap: float, over: float) -> None:
        """Take note of a joint whose gap [m] is closed within `over` seconds."""
        self._moved = max(self._moved, gap / max(over, sim.dt))
        self.forget()

    # Looking

    def note_forces(self, forces: Forces) -> None:
        """Take note of the forces that act from now on."""
        touched, self.touched, self._edited = self.touched, 0, True
        if touched & JOINT_FORCES:
            self._tau = max(self._tau, math.sqrt(_square(forces.tau)))
        if touched == ALL_FORCES:
            data = forces.wrenches.data
            self._acting_force = float(np.abs(data[:, 3:6]).sum())
            self._acting_torque = float(np.abs(data[:, 6:9]).sum())
            self._force, self._torque = max(self._force, self._acting_force), max(self._torque, self._acting_torque)
            self._lever = float(np.abs(data[:, :3]).max(initial=0.0))
        if touched & TARGETS and len(self._targets):
            now = forces.drives.scalar[:, _TARGET]
            if len(now) == len(self._targets):
                self._path += np.abs(now - self._targets)
                self._targets[:] = now

    def look(self, sim: Simulation, steps: int) -> bool:
        """Look at the simulation at the present step; return whether it is within bounds.

        Args:
            sim: the simulation.
            steps: its step counter.
        """
        if self.pending:
            self.start(sim, steps)
            return True
        velocities = sim._stepper.carried_velocities()
        self._set_period(len(velocities))
        self._look_ahead(sim, steps)
        size = _square(velocities)
        if size == 0.0:
            return True  # a pile asleep: its steps cost less than a snapshot
        since = min(self._checked - self._begun, _FULL * self.period)
        if not size <= self._limit or steps - self._checked >= since:
            if not self._check(sim, steps, size):
                return False
        mark = self._mark
        # a snapshot of many links takes milliseconds
        often = self._edited and self.period > _FEWEST
        if mark is None or steps - mark.steps >= (_EDITED * self.stride if often else self.period):
            self._take_mark(sim)
        return True

    def _look_ahead(self, sim: Simulation, steps: int) -> None:
        """Set when the next look is due: soon after a start, and within a second of simulated time."""
        self.next = steps + min(self.stride, self._ahead, max(_FEWEST_LOOKS, int(_LONGEST / sim.dt)))
        self._ahead = min(2 * self._ahead, _MOST_LOOKS)

    def is_alarmed(self, sim: Simulation) -> bool:
        """Return whether speeds have doubled since the last look: asked after each call of several steps."""
        size = _square(sim._stepper.carried_velocities())
        return not size <= _ALARM * max(self._limit, _FAST)

    def _take_mark(self, sim: Simulation) -> None:
        self._mark, self._edited = snapshots.snapshot_of(sim), False

    def start(self, sim: Simulation, steps: int) -> None:
        """Take the energy of the state as it is."""
        self.pending, self._begun, self._checked, self._ahead = False, steps, steps, _FIRST_LOOK
        with np.errstate(all="ignore"):
            self._take_gains(sim.forces.drives)
            reading = self._read(sim)
            elastic = sim._measures.elastic_energy(sim, without_motors(sim.forces.drives))
        links = sim.model.arrays.links
        weight = max(_EARTH, float(np.linalg.norm(links.gravity)))
        self._scale = weight * (self._mass * self._extent(sim.model) + float(links.armature.sum())) + abs(elastic)
        self._level = reading.kinetic + reading.potential
        self._accept(sim, reading)
        # joints that are open are closed within a step
        gap, angle = (sim._stepper.joint_error() if sim.model.loop_names else None) or (0.0, 0.0)
        closing = (gap + angle * self._extent(sim.model)) / sim.dt
        if self._mass * closing * closing > _GAPS * self._scale:
            self._moved = max(self._moved, closing)
        velocities = sim._stepper.carried_velocities()
        self._limit = 4.0 * _square(velocities)
        self._set_period(self._dofs)  # a method that chooses what it steps may have chosen nothing yet
        self._look_ahead(sim, steps)
        self._take_mark(sim)

    def excess(self, sim: Simulation) -> Excess | None:
        """Return what is out of bounds now, or None; nothing is taken note of."""
        with np.errstate(all="ignore"):
            reading = self._read(sim)
            explained = self._explained(reading, self._work(sim, reading))
            if reading.kinetic <= self._bound(DIVERGED) * explained or not math.isfinite(explained):
                return None
            return self._describe(sim, reading, explained)

    def _check(self, sim: Simulation, steps: int, size: float) -> bool:
        if not self._same_gains(sim.forces.drives):
            self.start(sim, steps)
            return True
        self._checked = steps
        with np.errstate(all="ignore"):
            reading = self._read(sim)
            work = self._work(sim, reading)
            explained = self._explained(reading, work)
            if not math.isfinite(explained):
                return True
            if not reading.kinetic <= self._bound(DIVERGED) * explained:
                return False
        known = sim._stepper.inertial and not (self._unknown or self._prescribed_speed() or self._given)
        risen = reading.kinetic - (explained - self._scale) > RISE * explained
        if (known and risen) or reading.kinetic > self._bound(WARNING) * explained:
            self._warn(sim, reading, explained - self._scale if risen else explained)
        else:
            total = reading.kinetic + reading.potential
            self._level = max(self._level, min(total, self._level + work) if known else total)
        self._accept(sim, reading)
        self._limit = max(self._limit, 4.0 * size)
        return True

    def _bound(self, factor: float) -> float:
        return factor * UNKNOWN if self._unknown else factor

    def _explained(self, reading: _Reading, work: float) -> float:
        return max(self._level + work - reading.potential, 0.0) + self._scale

    def _accept(self, sim: Simulation, reading: _Reading) -> None:
        """Go on from a state that was checked: what it was pushed and moved by counts from here on."""
        self._base = reading
        self._tau = self._force = self._torque = 0.0
        # grips and joints may still be pulling
        self._given *= 0.5
        self._moved *= 0.5
        if self._moved < 1e-6:
            self._moved = 0.0
        if self._given < 1e-9:
            self._given = 0.0
        self._path[:] = 0.0
        touched, edited, self.touched = self.touched, self._edited, ALL_FORCES
        self.note_forces(sim.forces)
        self.touched, self._edited = touched, edited

    def _read(self, sim: Simulation) -> _Reading:
        kinetic, potential = sim._measures.energy_with(sim, without_motors(sim.forces.drives))
        q, qd = sim._stepper.q.copy(), sim._stepper.qd.copy()
        return _Reading(sim.time, kinetic, potential, q, qd, math.sqrt(_square(qd)))

    # Work

    def _work(self, sim: Simulation, now: _Reading) -> float:
        """Return a bound on the work done since the last check [J].

        Forces are those of the last check or the largest set since, speeds those of now at most: in an instability the
        bound grows with the speed, kinetic energy with its square.
        """
        base = self._base
        if base is None:
            return math.inf
        # while steps are repeated, the time may be before that of the last check
        span, speed = max(now.time - base.time, 0.0), max(base.speed, now.speed)
        out = span * speed * (self._tau + self._loop_tau)
        if self._force or self._torque:
            turning, moving = self._link_speeds(sim)
            out += span * (self._force * (moving + turning * self._lever) + self._torque * turning)
        if len(self._targets):
            out += self._motor_work(sim.forces.drives, base, now, span)
        if self._motors:
            ball = sim.forces.drives.ball
            most = np.minimum(ball[:, _BALL_MAX], ball[:, _BALL_KP] * math.pi)
            out += float(most.sum()) * (math.pi + span * speed)
        u = self._prescribed_speed()
        if u:
            weight = float(np.linalg.norm(sim.model.arrays.links.gravity))
            out += self._mass * u * u
            out += u * (math.sqrt(8.0 * self._mass * max(base.kinetic, now.kinetic)) + self._mass * weight * span)
        return SAFETY * out + self._given

    def _motor_work(self, drives: Drives, base: _Reading, now: _Reading, span: float) -> float:
        """Return a bound on the work of motors of single dofs.

        A motor is a spring and a damper to its target: it gives what was stored in the spring, what moving its target
        adds, and of the damper kd u^2 / 4 at a target velocity u, but no more than its largest force does.
        """
        d, indices = drives.scalar, drives.indices
        stored = np.abs(d[:, _TARGET] - base.q[indices[:, 0]]) + self._path
        off = np.maximum(stored, np.abs(d[:, _TARGET] - now.q[indices[:, 0]]) + self._path)
        given = d[:, _KP] * (0.5 * stored**2 + off * self._path) + 0.25 * span * d[:, _KD] * d[:, _VELOCITY] ** 2
        speed = np.maximum(np.abs(base.qd[indices[:, 1]]), np.abs(now.qd[indices[:, 1]]))
        return float(np.minimum(given, d[:, _MAX] * (off + span * speed)).sum())

    def _prescribed_speed(self) -> float:
        return max(self._moved, *self._driven.values(), *self._attaching.values(), 0.0)

    def _link_speeds(self, sim: Simulation) -> tuple[float, float]:
        """Return the largest angular velocity [rad/s] and velocity [m/s] of a body."""
        speeds = np.abs(sim._measures.body_velocities(sim))
        return float(speeds[:, :3].max(initial=0.0)), float(speeds[:, 3:].max(initial=0.0))

    def _take_gains(self, drives: Drives) -> None:
        d = drives.scalar
        self._gains = np.delete(d, [_TARGET, _VELOCITY], axis=1)
        moving = bool(((d[:, _KP] > 0.0) | (d[:, _KD] > 0.0)).any())
        self._targets = d[:, _TARGET].copy() if moving else np.zeros(0)
        self._path = np.zeros(len(self._targets))

    def _same_gains(self, drives: Drives) -> bool:
        """Return whether springs, dampers, limits and motors of the joints are those of the start."""
        d, gains = drives.scalar, self._gains
        return (
            len(d) == len(gains)
            and np.array_equal(gains[:, :_TARGET], d[:, :_TARGET])
            and np.array_equal(gains[:, _TARGET:], d[:, _VELOCITY + 1 :])
        )

    def _extent(self, model: Model) -> float:
        """Return the longest way from the root of a tree to the end of a link, lengths added up [m]."""
        if self._reach < 0.0:
            links = model.arrays.links
            way = np.linalg.norm(links.placement[:, 9:], axis=1).tolist()
            for i, p in enumerate(links.parent.tolist()):
                way[i] = way[i] + way[p] if p >= 0 else 0.0
            mass = np.where(links.inertia[:, 9] > 0.0, links.inertia[:, 9], np.inf)
            size = np.sqrt(np.abs(links.inertia[:, :3]).sum(axis=1) / mass)
            self._reach = float((np.array(way) + size).max(initial=_SMALLEST))
        return self._reach

    # Reporting

    def _describe(self, sim: Simulation, reading: _Reading, explained: float) -> Excess:
        model, v = sim.model, int(np.argmax(np.where(np.isfinite(reading.qd), np.abs(reading.qd), np.inf)))
        joint = model.dof_name(v)
        speeds = np.linalg.norm(sim._measures.body_velocities(sim)[:, 3:], axis=1)
        b = int(np.argmax(np.where(np.isfinite(speeds), speeds, np.inf)))
        return Excess(
            reading, explained, joint, model.joint_spec(joint).child, model.body_names[b], float(speeds[b])
        )  # fmt: skip

    def diverged(self, sim: Simulation) -> Diverged | None:
        """Return the error of a simulation out of bounds, in the last state within them; None if it is within them."""
        found = self.excess(sim)
        if found is None:
            return None
        mark, steps = self._mark, sim.steps
        where = f"step {steps} (t = {sim.time:.6g} s)"
        if mark is None:
            where += ", which is kept"
        else:
            # where forces were set between the steps they cannot be repeated
            located = None if self._edited else self._locate(sim, mark)
            if located is None:
                snapshots.restore(sim, mark)
                where += f"; the state of step {mark.steps}, the last one that was looked at, is restored"
            else:
                found, where = located, f"step {sim.steps + 1} (t = {sim.time:.6g} s); the state before it is kept"
        self.next = sim.steps + 1
        sim._measures.poses = None
        text = f"energy rises far beyond the work done at {where}: {_summary(found)}; energy_watch=False turns this off"
        return Diverged(text, found.joint, sim.steps, sim.time)

    def _warn(self, sim: Simulation, reading: _Reading, explained: float) -> None:
        if self.warned:
            return
        self.warned = True
        found = self._describe(sim, reading, explained)
        warnings.warn(
            f"energy rises beyond the work done at step {sim.steps} (t = {sim.time:.6g} s): {_summary(found)}",
            EnergyWarning,
            stacklevel=5,  # the caller of Simulation.step
        )

    def _locate(self, sim: Simulation, mark: Snapshot) -> Excess | None:
        """Go back to `mark` and forward to the step that leads out of bounds; return that state, or None.

        The simulation then stands before that step; there is none if the method does not repeat its steps.
        """
        last = sim.steps
        snapshots.restore(sim, mark)
        size = max(1, math.isqrt(last - mark.steps))
        good = mark
        while sim.steps < last:
            status = sim._advance(min(size, last - sim.steps))
            found = self.excess(sim)
            if found is None and status == 0:
                good = snapshots.snapshot_of(sim)
                continue
            if size == 1 and found is None:
                return None  # the method failed within the bounds
            snapshots.restore(sim, good)
            if size == 1:
                self._mark = good
                return found
            size = 1
        return None


def _square(values: np.ndarray) -> float:
    """Return the sum of the squares of (n,) values, without BLAS where its threads would join in.

    They keep a processor busy for some milliseconds after each call.
    """
    return float(values @ values) if len(values) < _BLAS_ALONE else float(np.einsum("i,i->", values, values))


def _summary(found: Excess) -> str:
    return (
        f"kinetic energy {found.reading.kinetic:.3g} J, of which {found.explained:.3g} J are explained; the fastest "
        f'are joint "{found.joint}" of body "{found.body}" and body "{found.fastest}", {found.fastest_speed:.3g} m/s; '
        "try a smaller dt, damping or another integrator"
    )


def without_motors(drives: Drives) -> Drives:
    """Return drives without motors, whose work is estimated: their targets jump."""
    if not (drives.scalar[:, _KP].any() or drives.ball[:, _BALL_KP].any()):
        return drives
    scalar, ball = drives.scalar.copy(), drives.ball.copy()
    scalar[:, _KP] = 0.0
    ball[:, _BALL_KP] = 0.0
    return drives._replace(scalar=scalar, ball=ball)


def _has_motor(joint: Any) -> bool:
    return any(motor is not None for motor in (*(joint.motor or ()), *(axis.motor for axis in joint.axes)))
