"""What acts on a simulation from outside: wrenches, impulses, prescribed bodies and joints.

Each function is the body of the method of `Simulation` of the same name, which documents its arguments.
"""

# The files of this room are one class seen from several sides: they share its private members.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from limberjack.errors import StateError
from limberjack.methods import require_verb
from limberjack.model.check import frame_rotation
from limberjack.model.joints import coordinate_counts
from limberjack.reduced.dynamics import array_of
from limberjack.reduced.forces import Wrenches
from limberjack.spatial.frames import matrix_from_quaternion, quaternion_from_matrix

if TYPE_CHECKING:
    from limberjack.model.model import Model
    from limberjack.simulation.simulation import Simulation

__all__ = ["NO_TORQUE", "apply_impulse", "apply_wrench", "drive", "move", "three_numbers"]

NO_TORQUE = (0.0, 0.0, 0.0)
_FLOAT = np.dtype(np.float64)
# Writes a row of a wrench; an assignment of NumPy takes three times as long.
_NINE = struct.Struct("9d")


def apply_wrench(sim: Simulation, body: str, force: Any, torque: Any, point: Any) -> None:
    """Add a lasting force and torque to a body; those at the same point add up."""
    model = sim.model
    b = model.body_index(body)
    fx, fy, fz = three_numbers(force, "force", model)
    tx, ty, tz = NO_TORQUE if torque is NO_TORQUE else three_numbers(torque, "torque", model)
    alone, (x, y, z) = sim._measures.coms.get(b) or _com(sim, b)
    if point is not None:
        x, y, z = _link_point(sim, b, point).tolist()
    if alone is None:
        return
    w, row = sim.forces.wrenches, (x, y, z, fx, fy, fz, tx, ty, tz)
    if len(w.link) == 0:
        # forces set at every step: NumPy calls that can be spared cost more than a step of method adaptive
        data: Any = alone.data
        _NINE.pack_into(data, 0, *row)
        sim.forces.wrenches = alone
    else:
        link = alone.link[0]
        own = sim._control.own
        for j in np.flatnonzero(w.link[own:] == link) + own:
            if w.data[j, 0] == x and w.data[j, 1] == y and w.data[j, 2] == z:
                w.data[j, 3:] += row[3:]
                break
        else:
            sim.forces.wrenches = Wrenches(np.append(w.link, link), np.vstack([w.data, row]))
    sim._watch.push(row)
    sim._stepper.wrenches_changed()


def apply_impulse(sim: Simulation, body: str, impulse: Any, angular: Any, point: Any) -> None:
    """Change velocities at once by an impulse on a body."""
    require_verb(sim.method, "impulse")
    b = sim.model.body_index(body)
    impulse = array_of(impulse, (3,), "impulse", sim.model)
    angular = array_of(angular, (3,), "angular", sim.model)
    link, local = int(sim.model.arrays.body_link[b]), _link_point(sim, b, point)
    if link >= 0:
        sim._stepper.advance(0, sim.dt, sim.forces, sim.time)  # what was set before is taken first
        sim._stepper.apply_impulse(link, local, impulse, angular)
        sim._measures.poses = None


def move(sim: Simulation, body: str, position: Any, rotation: Any) -> None:
    """Prescribe the pose of a body, or free it."""
    require_verb(sim.method, "move")
    b, a = sim.model.body_index(body), sim.model.arrays
    link = int(a.body_link[b])
    if link < 0:
        raise StateError(f'body "{body}" is fixed to the world and cannot be moved')
    if position is None:
        sim._stepper.move(link, None, None)
    else:
        origin, offset = array_of(position, (3,), "position", sim.model), a.body_offset[b]
        turned = sim.rotations[b] if rotation is None else frame_rotation(rotation, "rotation")
        if offset[0] != 1.0 or offset[4] != 1.0 or offset[8] != 1.0 or offset[9:].any():
            turned = quaternion_from_matrix(matrix_from_quaternion(np.array(turned)) @ offset[:9].reshape(3, 3).T)
            origin -= matrix_from_quaternion(turned) @ offset[9:]
        sim._stepper.move(link, origin, turned)
    sim._measures.poses = None


def drive(sim: Simulation, joint: str, rate: float | None) -> None:
    """Prescribe the rate of a joint coordinate, or free it."""
    require_verb(sim.method, "drive")
    sim.model.joint(joint)
    spec, axis = sim.model.joint_spec(joint), sim.model.axis_number(joint)
    if rate is not None:
        rate = float(array_of(rate, (), "rate", sim.model))
    if axis < 0 and coordinate_counts(spec)[1] != 1:
        raise StateError(f'joint "{joint}" is a {spec.kind}: only one coordinate can be driven at a rate')
    sim._stepper = sim._stepper.drive(spec.name, max(axis, 0), rate, sim.time)
    sim.touch()


def three_numbers(value: Any, what: str, model: Model) -> tuple[float, float, float]:
    """Return three finite numbers, or raise naming what is wrong with them."""
    kind: object = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is tuple and len(value) == 3:
        x, y, z = value
        # a sum that is finite has finite terms; three tests take three times as long
        if type(x) is float and type(y) is float and type(z) is float and math.isfinite(x + y + z):
            return x, y, z
    if kind is np.ndarray and value.dtype is _FLOAT and value.shape == (3,):
        value = x, y, z = value.tolist()
        if math.isfinite(x + y + z):
            return x, y, z
    elif kind is not tuple and kind is not list:
        value = array_of(value, (3,), what, model).tolist()
    if len(value) == 3:
        x, y, z = value
        # `array_of` says what is wrong with anything else; its NumPy calls cost more than a step of method adaptive
        if (
            isinstance(x, (float, int)) and isinstance(y, (float, int)) and isinstance(z, (float, int))
            and math.isfinite(x) and math.isfinite(y) and math.isfinite(z)
        ):  # fmt: skip
            return x, y, z
    x, y, z = array_of(value, (3,), what, model).tolist()
    return x, y, z


def _com(sim: Simulation, b: int) -> tuple[Wrenches | None, tuple[float, float, float]]:
    """Return room for a single wrench on a body, None for one fixed to the world, and the com in the link's frame."""
    link = sim.model.arrays.body_link[b : b + 1]
    alone = Wrenches(link.copy(), np.zeros((1, 9))) if link[0] >= 0 else None
    found = (alone, tuple(_link_point(sim, b, None).tolist()))
    sim._measures.coms[b] = found
    return found


def _link_point(sim: Simulation, b: int, point: Any) -> np.ndarray:
    """Return a point of the world, or a body's com for None, in the frame of the body's link."""
    a = sim.model.arrays
    if point is None:
        local = a.body_com[b]
    else:
        r = matrix_from_quaternion(sim.rotations[b])
        local = r.T @ (array_of(point, (3,), "point", sim.model) - sim.positions[b])
    return a.body_offset[b, :9].reshape(3, 3) @ local + a.body_offset[b, 9:]
