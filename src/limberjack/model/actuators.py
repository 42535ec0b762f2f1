"""Actuators, tendons, sensors and keyframes: how they are added to a builder, and the motors that actuators become.

An actuator with a bias is a PD motor whose target its control sets, where it alone drives one dof, or where all that
drive that dof have no force range: then the drive row of that dof is its force exactly, and steps take it implicitly.
Others, and tendons, are coupled: their forces are evaluated before each step (`simulation/control.py`), with the drive
rows of their dofs at a stiffness and damping that bounds theirs, so that the step is implicit in them, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf, isfinite, isinf
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import ArrayLike

from limberjack.errors import ModelError, UnknownName
from limberjack.model import check
from limberjack.model.joints import KINDS, SPIN, SPIN_BACK, factors_of
from limberjack.model.spec import Actuator, Joint, Keyframe, Motor, Sensor, Spec, Tendon, Transmission

__all__ = ["SENSORS", "ControlBuilder", "SensorKind", "Split", "motor_of", "motorized", "scalar_dofs", "split"]

_KINDS = ("motor", "position", "velocity", "general")
_DYNAMICS = ("", "integrator", "filter", "exact_filter")
Dof = tuple[str, int]


class SensorKind(NamedTuple):
    """What a sensor kind is measured on, and how many numbers it gives."""

    on: tuple[str, ...]
    size: int


_FRAMES = ("body", "com", "point", "shape")
SENSORS: dict[str, SensorKind] = {
    "joint_position": SensorKind(("joint",), 1),
    "joint_velocity": SensorKind(("joint",), 1),
    "joint_actuator_force": SensorKind(("joint",), 1),
    "ball_quaternion": SensorKind(("joint",), 4),
    "ball_velocity": SensorKind(("joint",), 3),
    "tendon_position": SensorKind(("tendon",), 1),
    "tendon_velocity": SensorKind(("tendon",), 1),
    "actuator_position": SensorKind(("actuator",), 1),
    "actuator_velocity": SensorKind(("actuator",), 1),
    "actuator_force": SensorKind(("actuator",), 1),
    "frame_position": SensorKind(_FRAMES, 3),
    "frame_quaternion": SensorKind(_FRAMES, 4),
    "frame_x_axis": SensorKind(_FRAMES, 3),
    "frame_y_axis": SensorKind(_FRAMES, 3),
    "frame_z_axis": SensorKind(_FRAMES, 3),
    "frame_linear_velocity": SensorKind(_FRAMES, 3),
    "frame_angular_velocity": SensorKind(_FRAMES, 3),
    "frame_linear_acceleration": SensorKind(_FRAMES, 3),
    "frame_angular_acceleration": SensorKind(_FRAMES, 3),
    "gyro": SensorKind(("point",), 3),
    "velocimeter": SensorKind(("point",), 3),
    "accelerometer": SensorKind(("point",), 3),
    "force": SensorKind(("point",), 3),
    "torque": SensorKind(("point",), 3),
    "touch": SensorKind(("point",), 1),
    "rangefinder": SensorKind(("point",), 1),
    "subtree_com": SensorKind(("body",), 3),
    "subtree_linear_velocity": SensorKind(("body",), 3),
    "subtree_angular_momentum": SensorKind(("body",), 3),
    "potential_energy": SensorKind(("model",), 1),
    "kinetic_energy": SensorKind(("model",), 1),
    "clock": SensorKind(("model",), 1),
}


class ControlBuilder:
    """The part of `Builder` that adds actuators, tendons, sensors and keyframes."""

    _spec: Spec
    _joints: dict[str, str]

    if TYPE_CHECKING:

        def _body(self, name: str) -> str: ...

    def add_actuator(
        self,
        name: str,
        joint: str | Mapping[str, float] | Iterable[tuple[str, int, float]] = (),
        *,
        kind: str = "motor",
        gear: float = 1.0,
        kp: float = 0.0,
        kd: float = 0.0,
        gain: float = 1.0,
        bias: ArrayLike = (0.0, 0.0, 0.0),
        control_range: tuple[float, float] | None = None,
        force_range: tuple[float, float] | None = None,
        joint_force_range: tuple[float, float] | None = None,
        point: str = "",
        wrench: ArrayLike = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        dynamics: str = "",
        time_constant: float = 0.0,
        activation_range: tuple[float, float] | None = None,
    ) -> str:
        """Add an actuator, whose control is an entry of `sim.control`, and return its name.

        Its force is f = gain u + bias[0] + bias[1] length + bias[2] rate, with the control u, and the length and rate
        of its joint times `gear`, or of several joints times their coefficients and `gear`.

        Args:
            name: unique name.
            joint: a joint or compound axis; or several with their coefficients; or (joint, dof of it, coefficient).
            kind: "motor": the control is the force. "position": f = kp (u - length) - kd rate. "velocity":
                f = kd (u - rate). "general": by `gain` and `bias`.
            gear: force on the joint per f.
            kp, kd: stiffness and damping of the kinds "position" and "velocity".
            gain, bias: of the kind "general".
            control_range: to which the control is cut.
            force_range: to which f is cut.
            joint_force_range: to which the force on a joint is cut.
            point: the name of a point on whose body it acts instead of joints.
            wrench: (6,) torque, then force, per f in the axes of the point.
            dynamics: of an activation w that acts in place of the control u. "integrator": dw/dt = u. "filter",
                "exact_filter": dw/dt = (u - w) / time_constant, by steps of Euler's or exactly. "": none.
            time_constant: of a filter [s].
            activation_range: to which w is cut.
        """
        what = f'of actuator "{name}"'
        if name in {actuator.name for actuator in self._spec.actuators}:
            raise ModelError(f'actuator "{name}" exists already')
        if kind not in _KINDS:
            raise UnknownName("kind", kind, f'actuator "{name}"', _KINDS)
        kp, kd = (check.number(x, f"{word} {what}", low=0.0) for word, x in (("kp", kp), ("kd", kd)))
        laws: dict[str, tuple[float, tuple[float, ...]]] = {
            "motor": (1.0, (0.0, 0.0, 0.0)),
            "position": (kp, (0.0, -kp, -kd)),
            "velocity": (kd, (0.0, 0.0, -kd)),
            "general": (check.number(gain, f"gain {what}"), check.vector(bias, 3, f"bias {what}")),
        }
        if dynamics not in _DYNAMICS:
            raise UnknownName("dynamics", dynamics, f'actuator "{name}"', _DYNAMICS)
        time_constant = check.number(time_constant, f"time_constant {what}", positive=dynamics.endswith("filter"))
        if point and point not in {known.name for known in self._spec.points}:
            raise UnknownName("point", point, f'actuator "{name}"', [known.name for known in self._spec.points])
        transmission = self._transmission(joint, check.number(gear, f"gear {what}"), what)
        if bool(transmission) == bool(point):
            raise ModelError(f'actuator "{name}" acts on joints or at a point, got {joint!r} and {point!r}')
        actuator = Actuator(
            name=check.name(name, "an actuator's name"), transmission=transmission, gain=laws[kind][0],
            bias=laws[kind][1], control_range=check.limit(control_range, f"control_range {what}"),
            force_range=check.limit(force_range, f"force_range {what}"),
            joint_force_range=check.limit(joint_force_range, f"joint_force_range {what}"), point=point,
            wrench=check.vector(wrench, 6, f"wrench {what}"), dynamics=dynamics, time_constant=time_constant,
            activation_range=check.limit(activation_range, f"activation_range {what}"),
        )  # fmt: skip
        self._spec.actuators.append(actuator)
        return name

    def add_tendon(
        self,
        name: str,
        joints: Mapping[str, float] | Iterable[tuple[str, int, float]],
        *,
        stiffness: float = 0.0,
        damping: float = 0.0,
        rest: float | tuple[float, float] = 0.0,
    ) -> str:
        """Add a tendon, the sum of coefficient times coordinate of joints, and return its name.

        Args:
            name: unique name.
            joints: joints or compound axes with their coefficients; or (joint, dof of it, coefficient).
            stiffness: of its spring [N/m].
            damping: [N s/m].
            rest: length without force of the spring, or the interval of such lengths.
        """
        what = f'of tendon "{name}"'
        if name in {tendon.name for tendon in self._spec.tendons}:
            raise ModelError(f'tendon "{name}" exists already')
        low, high = (rest, rest) if isinstance(rest, (int, float)) else check.vector(rest, 2, f"rest {what}")
        tendon = Tendon(
            name=check.name(name, "a tendon's name"), transmission=self._transmission(joints, 1.0, what),
            stiffness=check.number(stiffness, f"stiffness {what}", low=0.0),
            damping=check.number(damping, f"damping {what}", low=0.0),
            rest=(check.number(low, f"rest {what}"), check.number(high, f"rest {what}", low=low)),
        )  # fmt: skip
        self._spec.tendons.append(tendon)
        return name

    def add_sensor(
        self,
        name: str,
        kind: str,
        of: str = "",
        on: str | None = None,
        *,
        relative_to: str = "",
        relative_on: str = "body",
        cutoff: float = 0.0,
        data: ArrayLike = (),
    ) -> str:
        """Add a sensor, a part of `sim.sensors`, and return its name.

        Args:
            name: unique name.
            kind: such as "joint_position", "gyro", "accelerometer", "frame_position"; all are in
                `limberjack.model.actuators.SENSORS`.
            of: what it is measured on.
            on: which kind of thing that is; None is the first that the sensor kind has.
            relative_to: a frame from whose origin and in whose axes a frame is measured; "" is the world.
            relative_on: "body", "com", "point" or "shape".
            cutoff: values are cut to +- cutoff; 0 does not.
            data: (4,) of a "touch" sensor: 0 for an ellipsoid or 1 for a box, and its half edges, in which contacts
                count; none counts all of the body.
        """
        if kind not in SENSORS:
            raise UnknownName("sensor kind", kind, "Limberjack", SENSORS)
        if name in {sensor.name for sensor in self._spec.sensors}:
            raise ModelError(f'sensor "{name}" exists already')
        known = SENSORS[kind].on
        on = known[0] if on is None else on
        if on not in known:
            raise ModelError(f'sensor "{name}": {kind} is measured on {" or ".join(known)}, got {on!r}')
        self._named_thing(of, on, name)
        if relative_to:
            if relative_on not in _FRAMES:
                raise ModelError(f'sensor "{name}": relative_on must be {", ".join(_FRAMES)}, got {relative_on!r}')
            self._named_thing(relative_to, relative_on, name)
        sensor = Sensor(
            name=check.name(name, "a sensor's name"), kind=kind, of=of, on=on, relative_to=relative_to,
            relative_on=relative_on if relative_to else "",
            cutoff=check.number(cutoff, f'cutoff of sensor "{name}"', low=0.0),
            data=check.numbers(data, f'data of sensor "{name}"'),
        )  # fmt: skip
        self._spec.sensors.append(sensor)
        return name

    def add_keyframe(
        self, name: str, q: ArrayLike, qd: ArrayLike, control: ArrayLike = (), activation: ArrayLike = ()
    ) -> str:
        """Add a named state for `sim.reset` and return its name.

        Args:
            name: unique name.
            q, qd: coordinates and velocities; `build` checks how many.
            control: of all actuators; none are zero.
            activation: of all actuators with dynamics, in their order; none are zero.
        """
        if name in {keyframe.name for keyframe in self._spec.keyframes}:
            raise ModelError(f'keyframe "{name}" exists already')
        what = f'of keyframe "{name}"'
        keyframe = Keyframe(
            name=check.name(name, "a keyframe's name"), q=check.numbers(q, f"q {what}"),
            qd=check.numbers(qd, f"qd {what}"), control=check.numbers(control, f"control {what}"),
            activation=check.numbers(activation, f"activation {what}"),
        )  # fmt: skip
        self._spec.keyframes.append(keyframe)
        return name

    def set_timestep(self, timestep: float | None) -> None:
        """Set the time step that simulations of this model have unless another is given [s]; None for none.

        Args:
            timestep: [s], or None.
        """
        if timestep is not None:
            timestep = check.number(timestep, "timestep", positive=True)
        self._spec.timestep = timestep

    def _transmission(self, given: Any, gear: float, what: str) -> Transmission:
        """Return what was given as (joint, dof, coefficient)."""
        rows: Sequence[Any]
        if isinstance(given, str):
            rows = [(given, 0, 1.0)]
        elif isinstance(given, Mapping):
            rows = [(joint, 0, coefficient) for joint, coefficient in given.items()]
        else:
            rows = list(given)
        out: list[tuple[str, int, float]] = []
        for row in rows:
            if not isinstance(row, (tuple, list)) or len(row) != 3:
                raise ModelError(f"transmission {what} is made of (joint, dof, coefficient), got {row!r}")
            joint, dof, coefficient = row
            if joint not in self._joints:
                raise UnknownName("joint", joint, f"transmission {what}", self._joints)
            count = 1 if self._joints[joint] == "axis" else KINDS[self._joints[joint]].nv
            if self._joints[joint] == "compound":
                count = next(len(known.axes) for known in self._spec.joints if known.name == joint)
            if not isinstance(dof, int) or not 0 <= dof < count:
                raise ModelError(f'transmission {what}: joint "{joint}" has {count} dofs, there is no number {dof!r}')
            if self._joints[joint] == "compound":
                axes = next(known.axes for known in self._spec.joints if known.name == joint)
                joint, dof = axes[dof].name, 0
            out.append((joint, dof, gear * check.number(coefficient, f"coefficient {what}")))
        return tuple(out)

    def _named_thing(self, name: str, on: str, sensor: str) -> None:
        spec = self._spec
        if on in ("body", "com"):
            self._body(name)
        elif on != "model":
            lists: dict[str, Any] = {"point": spec.points, "shape": spec.shapes, "tendon": spec.tendons}
            lists["actuator"] = spec.actuators
            known = list(self._joints) if on == "joint" else [thing.name for thing in lists[on]]
            if name not in known:
                raise UnknownName(on, name, f'sensor "{sensor}"', known)


class Split(NamedTuple):
    """Actuators by how a step takes them, as indices.

    Attributes:
        plain: without bias on joints: a force that the control alone sets.
        rows: those that are the motor of one dof, by that dof.
        coupled: all others.
    """

    plain: list[int]
    rows: dict[Dof, list[int]]
    coupled: list[int]


def split(actuators: Sequence[Actuator], tendons: Sequence[Tendon], scalar: set[Dof]) -> Split:
    """Return the actuators by how a step takes them.

    Args:
        actuators, tendons: those of the model.
        scalar: the dofs that have a coordinate of their own.
    """
    plain: list[int] = []
    rows: dict[Dof, list[int]] = {}
    coupled: list[int] = []
    shared = {(joint, dof) for tendon in tendons for joint, dof, _ in tendon.transmission}
    for i, a in enumerate(actuators):
        one = len(a.transmission) == 1 and a.transmission[0][:2] in scalar
        if not a.point and not (a.bias[1] or a.bias[2]):
            plain.append(i)
        elif one and a.bias[1] <= 0.0 and a.bias[2] <= 0.0 and a.transmission[0][2]:
            rows.setdefault(a.transmission[0][:2], []).append(i)
        else:
            coupled.append(i)
            shared |= {(joint, dof) for joint, dof, _ in a.transmission}
    for dof, members in list(rows.items()):
        ranges = [bounds for i in members for bounds in (actuators[i].force_range, actuators[i].joint_force_range)]
        cut = [bounds for bounds in ranges if bounds is not None]
        one_sided = any(isinf(bounds[0]) or isinf(bounds[1]) for bounds in cut)
        limited = any(a.joint_force_range for a in map(actuators.__getitem__, plain) if dof in _dofs(a))
        if dof in shared or (cut and len(members) > 1) or one_sided or limited:
            coupled += rows.pop(dof)
    return Split(plain, rows, sorted(coupled))


def _dofs(a: Actuator) -> set[Dof]:
    return {(joint, dof) for joint, dof, _ in a.transmission}


def motor_of(members: Sequence[Actuator]) -> tuple[Motor, float, list[float]]:
    """Return the motor of a dof that only `members` drive, a force beside it, and what each control adds to its target.

    A motor is cut at +-max: with a force range of middle m it has the force less m, and m is beside it. Without
    stiffness the controls add to its velocity.
    """
    coefficients = [a.transmission[0][2] for a in members]
    kp = sum(-a.bias[1] * c * c for a, c in zip(members, coefficients, strict=True))
    kd = sum(-a.bias[2] * c * c for a, c in zip(members, coefficients, strict=True))
    low, high = -inf, inf
    for a, c in zip(members, coefficients, strict=True):
        if a.force_range is not None:
            ends = sorted(c * end for end in a.force_range)
            low, high = max(low, ends[0]), min(high, ends[1])
        if a.joint_force_range is not None:
            low, high = max(low, a.joint_force_range[0]), min(high, a.joint_force_range[1])
    middle = 0.5 * (low + high) if isfinite(low) and isfinite(high) else 0.0
    unit = kp if kp > 0.0 else kd
    constant = (sum(c * a.bias[0] for a, c in zip(members, coefficients, strict=True)) - middle) / unit
    most = 0.5 * (high - low) if isfinite(low) and isfinite(high) else inf
    weights = [c * a.gain / unit for a, c in zip(members, coefficients, strict=True)]
    if kp > 0.0:
        return Motor(kp=kp, kd=kd, target=constant, max=most), middle, weights
    return Motor(kd=kd, velocity=constant, max=most), middle, weights


def motorized(spec: Spec, joints: Sequence[Joint]) -> list[Joint]:
    """Return the joints with the motors that actuators and tendons become; those with a motor of their own are refused.

    Motors of coupled elements have the stiffness and damping that bounds that of the element: with coefficients c, its
    stiffness matrix k c c^T is at most k diag(|c_i| sum |c|).
    """
    gains: dict[Dof, list[float]] = {}
    for a in spec.actuators:
        _add_gains(gains, a.transmission, max(0.0, -a.bias[1]), max(0.0, -a.bias[2]))
    for tendon in spec.tendons:
        _add_gains(gains, tendon.transmission, tendon.stiffness, tendon.damping)
    gains = {dof: pair for dof, pair in gains.items() if any(pair)}
    if not gains:
        return list(joints)
    scalar = {dof for joint in joints for dof in _scalar_names(joint)}
    motors = {dof: Motor(kp=pair[0], kd=pair[1]) for dof, pair in gains.items() if dof in scalar}
    for dof, members in split(spec.actuators, spec.tendons, scalar).rows.items():
        motors[dof] = motor_of([spec.actuators[i] for i in members])[0]
    return [_with_motors(joint, motors) for joint in joints]


def _scalar_names(joint: Joint) -> list[Dof]:
    if joint.kind == "compound":
        return [(axis.name, 0) for axis in joint.axes]
    return [(joint.name, k) for k in scalar_dofs(joint)]


def _add_gains(gains: dict[Dof, list[float]], transmission: Transmission, kp: float, kd: float) -> None:
    total = sum(abs(c) for _, _, c in transmission)
    for joint, dof, c in transmission:
        pair = gains.setdefault((joint, dof), [0.0, 0.0])
        pair[0] += kp * abs(c) * total
        pair[1] += kd * abs(c) * total


def _with_motors(joint: Joint, motors: dict[Dof, Motor]) -> Joint:
    if joint.kind == "compound":
        axes = list(joint.axes)
        for k, axis in enumerate(axes):
            if (axis.name, 0) in motors:
                _refuse_motor(axis.name, axis.motor)
                axes[k] = replace(axis, motor=motors[axis.name, 0])
        return replace(joint, axes=tuple(axes))
    count = KINDS[joint.kind].nv
    own = list(joint.motor or (None,) * count)
    for k in range(count):
        if (joint.name, k) in motors:
            _refuse_motor(joint.name, own[k])
            own[k] = motors[joint.name, k]
    return replace(joint, motor=tuple(own)) if any(own) else joint


def _refuse_motor(name: str, motor: Motor | None) -> None:
    if motor is not None:
        raise ModelError(f'joint "{name}" has a motor and an actuator; give it one of them')


def scalar_dofs(joint: Joint) -> set[int]:
    """Return the dofs of a joint that have a coordinate of their own, none of a rotation by a quaternion."""
    return {f.v for f in factors_of(joint) if f.kind not in (SPIN, SPIN_BACK)}
