"""Controls of a simulation: from `sim.control` to joint forces and to the targets of motors.

An actuator without bias is a joint force; one that is the motor of a dof sets its target. Both are written when the
control is, by one compiled call. Forces of the others, which couple dofs or act at a point, and of tendons are
evaluated before each step at the state it begins with (`Control.update`). The drive rows of their dofs have a stiffness
and damping that bounds theirs and a target that makes the forces equal at that state: the step is implicit in them.

Where an actuator has dynamics, its activation acts in place of its control: those are written before each step, and
advanced after it.
"""

# The files of this room are one class seen from several sides: they share its private members.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from limberjack._bound import Bound
from limberjack._jit import entry
from limberjack.errors import StateError, UnknownName
from limberjack.model.actuators import motor_of, scalar_dofs, split
from limberjack.model.spec import WORLD, Actuator, Tendon
from limberjack.reduced import actuation
from limberjack.reduced.actuation import Actuation, Transmissions, apply_coupled, set_control
from limberjack.reduced.dynamics import array_of
from limberjack.reduced.forces import Wrenches, no_wrenches
from limberjack.simulation.energy_watch import JOINT_FORCES, TARGETS
from limberjack.spatial.frames import matrix_from_quaternion

if TYPE_CHECKING:
    from limberjack.model.model import Model
    from limberjack.model.spec import Transmission
    from limberjack.simulation.simulation import Simulation

__all__ = ["ActuatorHandle", "Control", "transmission_matrices"]

_FLOAT = np.dtype(np.float64)


class Control:
    """The controls of one simulation.

    The simulation is an argument, not an attribute: a cycle of references would keep its arrays until the garbage
    collector runs.

    Attributes:
        values: (actuators,) the controls as set.
        activation: (a,) of the actuators with dynamics, in their order.
        applied: (nv,) joint forces that the user set.
        beside: (nv,) those and the constant forces beside motors.
        actuated: (nv,) joint forces of actuators without bias.
        adds: whether anything adds to the joint forces that the user set; if not, they are those of the simulation.
        coupled: whether forces must be evaluated before each step.
        wrenches: those of the model itself: gravity compensation, then actuators at points.
        own: how many these are.
    """

    __slots__ = (
        "_acting", "_actuators", "_apply", "_arrays", "_bound", "_call", "_drive_row", "_dynamic", "_inputs", "_limits",
        "_middle", "_points", "_shape", "_sites", "_transmissions", "activation", "actuated", "adds", "applied",
        "beside", "coupled", "own", "values", "wrenches",
    )  # fmt: skip

    def __init__(self, model: Model) -> None:
        actuators = model.actuators
        self._actuators = {actuator.name: i for i, actuator in enumerate(actuators)}
        self.values, self.applied = np.zeros(len(actuators)), np.zeros(model.nv)
        self.actuated, self._shape = np.zeros(model.nv), self.values.shape
        self._limits = np.array(
            [
                [*(a.control_range or (-np.inf, np.inf)), a.gain, a.bias[0], *(a.force_range or (-np.inf, np.inf))]
                for a in actuators
            ]
        ).reshape(-1, 6)
        self._take_dynamics(model)
        scalar = set[tuple[str, int]]()
        for name in model.joint_names[: model.joint_count - len(model.loop_names)]:
            joint = model.joint_spec(name)
            scalar |= {(axis.name, 0) for axis in joint.axes} or {(name, k) for k in scalar_dofs(joint)}
        parts = split(actuators, model.tendons, scalar)
        self._drive_row = {int(v): row for row, (_, v) in enumerate(model.arrays.drives.indices)}
        self._middle = np.zeros(model.nv)
        self._arrays = self._tables(model, parts.plain, parts.rows)
        self._transmissions = self._coupled_elements(model, parts.coupled)
        self._sites = [i for i in parts.coupled if actuators[i].point]
        self._take_wrenches(model)
        self.coupled = bool(self._transmissions or self._points or len(self._dynamic))
        self.adds = bool(actuators or self._transmissions)
        self.beside = self.applied + self._middle
        self._bound: Bound | None = None  # arguments of `set_control`, with the forces of the simulation
        self._call: Any = set_control
        self._apply: Any = apply_coupled

    def _take_dynamics(self, model: Model) -> None:
        """Set up the activations: they are cut to their own ranges, and what drives them to those of the controls."""
        dynamic = [a for a in model.actuators if a.dynamics]
        self._dynamic = np.array([i for i, a in enumerate(model.actuators) if a.dynamics], np.int64)
        self.activation = np.zeros(len(dynamic))
        # range of the control, time constant of an exact filter, of another, range of the activation
        self._inputs = np.array(
            [
                [
                    *(a.control_range or (-np.inf, np.inf)), a.time_constant if a.dynamics == "exact_filter" else 0.0,
                    a.time_constant if a.dynamics == "filter" else 0.0, *(a.activation_range or (-np.inf, np.inf)),
                ]
                for a in dynamic
            ]
        ).reshape(-1, 6).T.copy()  # fmt: skip
        self._limits[self._dynamic, actuation.LOW : actuation.HIGH + 1] = -np.inf, np.inf
        # what acts, an array of its own where that is not what was set
        self._acting = self.values.copy() if dynamic else self.values

    def _activate(self, sim: Simulation) -> None:
        """Let the activations act in place of their controls."""
        given = self.values.copy()
        given[self._dynamic] = self.activation
        self._write(sim, given)

    def advance(self, dt: float) -> None:
        """Advance the activations by a step, in which they were constant."""
        if not len(self._dynamic):
            return
        low, high, exact, euler, least, most = self._inputs
        u = np.minimum(np.maximum(self.values[self._dynamic], low), high)
        # an integrator is neither kind of filter
        with np.errstate(divide="ignore"):
            part = np.where(exact > 0.0, -np.expm1(-dt / exact), dt / euler)
        change = np.where(exact + euler > 0.0, np.where(np.isinf(part), 0.0, part) * (u - self.activation), dt * u)
        self.activation[:] = np.minimum(np.maximum(self.activation + change, least), most)

    def _tables(self, model: Model, plain: list[int], rows: dict[tuple[str, int], list[int]]) -> tuple[Any, ...]:
        """Return the part of `Actuation` that the model sets."""
        pairs: list[tuple[int, int]] = []
        coefficients: list[float] = []
        joint_limits = np.tile([-np.inf, np.inf], (model.nv, 1))
        for i in plain:
            actuator = model.actuators[i]
            for joint, dof, c in actuator.transmission:
                v = model.joint(joint).v_start + dof
                pairs.append((i, v))
                coefficients.append(c)
                if actuator.joint_force_range:
                    joint_limits[v] = actuator.joint_force_range
        targets: list[tuple[int, int]] = []
        entries: list[tuple[int, int]] = []
        bases: list[Any] = []
        weights: list[float] = []
        for (joint, dof), members in rows.items():
            motor, middle, each = motor_of([model.actuators[i] for i in members])
            v = model.joint(joint).v_start + dof
            self._middle[v] += middle
            entries += [(len(targets), i) for i in members]
            weights += each
            targets.append((self._drive_row[v], actuation.TARGET if motor.kp > 0.0 else actuation.VELOCITY))
            bases.append(motor.target if motor.kp > 0.0 else motor.velocity)
        return (
            self._limits, np.array(pairs, np.int64).reshape(-1, 2), np.array(coefficients, float), joint_limits,
            np.array(targets, np.int64).reshape(-1, 2), np.array(bases, float),
            np.array(entries, np.int64).reshape(-1, 2), np.array(weights, float),
        )  # fmt: skip

    def _coupled_elements(self, model: Model, coupled: list[int]) -> Bound | None:
        """Return the actuators and tendons whose forces are evaluated before each step, None for none."""
        elements = [i for i in coupled if not model.actuators[i].point]
        actuators = [model.actuators[i] for i in elements]
        stiff = [tendon for tendon in model.tendons if tendon.stiffness or tendon.damping]
        every: list[Actuator | Tendon] = [*actuators, *stiff]
        if not every:
            return None
        limits = np.tile([-np.inf, np.inf], (model.nv, 1))
        for a in actuators:
            for joint, dof, _ in a.transmission:
                if a.joint_force_range:
                    limits[model.joint(joint).v_start + dof] = a.joint_force_range
        terms = [_terms(model, element.transmission) for element in every]
        flat = [term for row in terms for term in row]
        driven = sorted({v for _, v, _ in flat})
        return Bound(
            Transmissions(
                np.array(elements, np.int64), np.array([a.bias for a in actuators], float).reshape(-1, 3),
                np.array([(t.stiffness, t.damping, *t.rest) for t in stiff], float).reshape(-1, 4),
                np.cumsum([0, *map(len, terms)]), np.array([term[:2] for term in flat], np.int64).reshape(-1, 2),
                np.array([c for _, _, c in flat], float), limits,
                np.array([(v, self._drive_row.get(v, -1)) for v in driven], np.int64).reshape(-1, 2),
                np.zeros(model.nv),
            )
        )  # fmt: skip

    def _take_wrenches(self, model: Model) -> None:
        """Fill the wrenches of the model itself."""
        a = model.arrays
        links: list[int] = []
        rows: list[list[float]] = []
        parts = {body.name: body.gravity_compensation for body in model.spec.bodies if body.gravity_compensation}
        for name, part in parts.items():
            b = model.body_index(name)
            if a.body_link[b] >= 0:
                offset = a.body_offset[b]
                point = offset[:9].reshape(3, 3) @ a.body_com[b] + offset[9:]
                links.append(int(a.body_link[b]))
                rows.append([*point, *(-part * a.body_mass[b] * model.gravity), 0.0, 0.0, 0.0])
        self._points: list[tuple[int, int, np.ndarray, int]] = []
        for i in self._sites:
            actuator = model.actuators[i]
            point = next(point for point in model.points if point.name == actuator.point)
            if point.body == WORLD or a.body_link[model.body_index(point.body)] < 0:
                continue
            b = model.body_index(point.body)
            offset = a.body_offset[b]
            place = offset[:9].reshape(3, 3) @ np.array(point.position) + offset[9:]
            self._points.append((i, b, matrix_from_quaternion(np.array(point.rotation)), len(rows)))
            links.append(int(a.body_link[b]))
            rows.append([*place, *(0.0,) * 6])
        self.own = len(rows)
        self.wrenches = no_wrenches()
        if rows:
            self.wrenches = Wrenches(np.array(links, np.int64), np.array(rows, float))

    def model_wrenches(self) -> Wrenches:
        """Return the wrenches of the model itself, as they are without any others."""
        return Wrenches(self.wrenches.link.copy(), self.wrenches.data.copy()) if self.own else no_wrenches()

    def index(self, name: str, model: Model) -> int:
        """Return the index of the actuator called `name`."""
        try:
            return self._actuators[name]
        except KeyError:
            raise UnknownName("actuator", name, f'model "{model.name}"', self._actuators) from None

    def _named(self, model: Model, given: Mapping[str, Any]) -> np.ndarray:
        """Return the controls with those changed that are given by name."""
        out = self.values.copy()
        for name, x in given.items():
            out[self.index(name, model)] = array_of(x, (), f'control of actuator "{name}"', model)
        return out

    def set(self, sim: Simulation, value: Any) -> None:
        """Set all controls, or by a mapping those that it names."""
        if (
            type(value) is not np.ndarray
            or value.dtype is not _FLOAT
            or value.shape != self._shape
            or not value.flags.carray
        ):
            if isinstance(value, Mapping):
                value = self._named(sim.model, cast("Mapping[str, Any]", value))
            else:
                value = array_of(value, self._shape, "control", sim.model)
        if len(self._dynamic):
            _require_finite(sim, value)
            self.values[:] = value
            self._activate(sim)
        else:
            self._write(sim, value)

    def _write(self, sim: Simulation, value: np.ndarray) -> None:
        """Set what acts."""
        watch = sim._watch
        size = self._call(self._bound or self._bind(sim), value, sim.forces.drives.scalar, *watch.motor_path)
        if size < 0.0:
            _require_finite(sim, value)
        if self._call is set_control:
            self._call = entry(set_control)
        watch.note_joint_forces(size)
        sim._stepper.joint_forces_changed(0, len(self.applied))

    def _bind(self, sim: Simulation) -> Bound:
        """Return the arguments of `set_control`; joint forces and drives of a simulation are the same arrays always."""
        forces = sim.forces
        own = (self._acting, self.beside, self.actuated, forces.tau, forces.drives)
        self._bound = Bound(Actuation._make((*self._arrays, *own)))
        return self._bound

    def set_tau(self, sim: Simulation) -> None:
        """Write the joint forces of user and actuators, after those of the user were set in `applied`."""
        if self.adds:
            np.add(self.applied, self._middle, out=self.beside)
            np.add(self.beside, self.actuated, out=sim.forces.tau)

    def set_dof(self, sim: Simulation, first: int, count: int) -> None:
        """Write the joint forces of `count` dofs, after those of the user were set in `applied`."""
        if not self.adds:
            return
        tau, applied = sim.forces.tau, self.applied
        for v in range(first, first + count):
            self.beside[v] = applied[v] + self._middle[v]
            tau[v] = self.beside[v] + self.actuated[v]

    def restore(
        self, sim: Simulation, values: np.ndarray | None, applied: np.ndarray, activation: np.ndarray | None
    ) -> None:
        """Take the controls and joint forces of a snapshot, whose drives are set already."""
        self.applied[:] = applied
        if values is not None and activation is not None:
            self.values[:], self.activation[:] = values, activation
            values = values.copy()
            values[self._dynamic] = activation
        if values is not None:
            np.add(self.applied, self._middle, out=self.beside)
            scalar = sim.forces.drives.scalar.copy()  # targets of motors may have been set by hand
            none = np.zeros(0)
            set_control(self._bound or self._bind(sim), values, scalar, none, none)

    def forces(self, sim: Simulation) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return force, length and rate of each actuator at the present state; ones at points have no length."""
        model = sim.model
        q_matrix, v_matrix = transmission_matrices(model, [a.transmission for a in model.actuators])
        length, rate = q_matrix @ sim._stepper.q, v_matrix @ sim._stepper.qd
        bias = np.array([a.bias for a in model.actuators]).reshape(-1, 3)
        acting = self.values.copy()
        acting[self._dynamic] = self.activation
        u = np.clip(acting, self._limits[:, actuation.LOW], self._limits[:, actuation.HIGH])
        f = self._limits[:, actuation.GAIN] * u + bias[:, 0] + bias[:, 1] * length + bias[:, 2] * rate
        return np.clip(f, self._limits[:, actuation.LEAST], self._limits[:, actuation.MOST]), length, rate

    def update(self, sim: Simulation) -> None:
        """Evaluate the forces of coupled actuators and tendons at the present state, and set them."""
        if len(self._dynamic):
            self._activate(sim)
        if self._transmissions is not None:
            stepper = sim._stepper
            self._apply(self._bound or self._bind(sim), self._transmissions, stepper.q, stepper.qd)
            if self._apply is apply_coupled:
                self._apply = entry(apply_coupled)
            sim._watch.touched |= TARGETS | JOINT_FORCES
            stepper.joint_forces_changed(0, sim.model.nv)
        if self._points:
            self._push_points(sim)

    def _push_points(self, sim: Simulation) -> None:
        sim._measures.poses = None
        rotations, data = sim.rotations, sim.forces.wrenches.data
        for i, b, axes, row in self._points:
            low, high, gain, bias, least, most = self._limits[i].tolist()
            f = min(max(gain * min(max(self._acting[i], low), high) + bias, least), most)
            wrench = f * np.array(sim.model.actuators[i].wrench).reshape(2, 3)
            turned = wrench @ (matrix_from_quaternion(rotations[b]) @ axes).T
            data[row, 3:6], data[row, 6:9] = turned[1], turned[0]
        sim._watch.touched = 7
        sim._stepper.wrenches_changed()


def _require_finite(sim: Simulation, value: np.ndarray) -> None:
    bad = np.flatnonzero(~np.isfinite(value))
    if len(bad):
        name = sim.model.actuator_names[int(bad[0])]
        raise StateError(f'control[{bad[0]}] of actuator "{name}" must be finite')


def transmission_matrices(model: Model, transmissions: list[Transmission]) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrices from q to lengths and from qd to rates; dofs of rotations by quaternions have no length."""
    q_matrix, v_matrix = np.zeros((len(transmissions), model.nq)), np.zeros((len(transmissions), model.nv))
    for k, transmission in enumerate(transmissions):
        for iq, iv, c in _terms(model, transmission):
            v_matrix[k, iv] += c
            if iq >= 0:
                q_matrix[k, iq] += c
    return q_matrix, v_matrix


def _terms(model: Model, transmission: Transmission) -> list[tuple[int, int, float]]:
    """Return coordinate, dof and coefficient of each joint of a transmission; rotations by quaternions have -1."""
    out: list[tuple[int, int, float]] = []
    for joint, dof, c in transmission:
        info = model.joint(joint)
        scalar = info.nq == info.nv or dof in scalar_dofs(model.joint_spec(joint))
        out.append((info.q_start + dof if scalar else -1, info.v_start + dof, c))
    return out


class ActuatorHandle:
    """One actuator of a running simulation: its control, and its force, length and rate."""

    def __init__(self, sim: Simulation, name: str) -> None:
        self._sim, self.name = sim, name
        self._index = sim._control.index(name, sim.model)

    def __repr__(self) -> str:
        return f'ActuatorHandle("{self.name}", control={self.control:g})'

    @property
    def control(self) -> float:
        """Its control; assign to set."""
        return float(self._sim._control.values[self._index])

    @control.setter
    def control(self, value: float) -> None:
        self._sim.control = {self.name: value}

    @property
    def activation(self) -> float | None:
        """What acts in place of its control, None for one without dynamics."""
        control = self._sim._control
        at = np.flatnonzero(control._dynamic == self._index)
        return float(control.activation[at[0]]) if len(at) else None

    @property
    def force(self) -> float:
        """Its force at the present state, before coefficients."""
        return float(self._sim._control.forces(self._sim)[0][self._index])

    @property
    def length(self) -> float:
        """Sum of coefficient times coordinate."""
        return float(self._sim._control.forces(self._sim)[1][self._index])

    @property
    def rate(self) -> float:
        """Rate of its length."""
        return float(self._sim._control.forces(self._sim)[2][self._index])
