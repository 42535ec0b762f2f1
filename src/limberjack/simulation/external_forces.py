"""What acts on a simulation from outside: wrenches, impulses, prescribed bodies and joints.

Each function is the body of the method of `Simulation` of the same name, which documents its arguments.
"""

# The files of this room are one class seen from several sides: they share its private members.
# pyright: reportPrivateUsage=false

from __future__ import annotations

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
    from limberjack.simulation.simulation import Simulation

__all__ = ["apply_impulse", "apply_wrench", "drive", "move"]


def apply_wrench(sim: Simulation, body: str, force: Any, torque: Any, point: Any) -> None:
    """Add a lasting force and torque to a body; those at the same point add up."""
    b = sim.model.body_index(body)
    force, torque = array_of(force, (3,), "force", sim.model), array_of(torque, (3,), "torque", sim.model)
    local, link = _link_point(sim, b, point), int(sim.model.arrays.body_link[b])
    if link >= 0:
        w = sim.forces.wrenches
        same = np.flatnonzero((w.link == link) & (w.data[:, :3] == local).all(axis=1))
        if same.size:
            w.data[same[0], 3:] += np.concatenate([force, torque])
        else:
            row = np.concatenate([local, force, torque])
            sim.forces.wrenches = Wrenches(np.append(w.link, link), np.vstack([w.data, row]))
    sim.touch()


def apply_impulse(sim: Simulation, body: str, impulse: Any, angular: Any, point: Any) -> None:
    """Change velocities at once by an impulse on a body."""
    require_verb(sim.method, "impulse")
    b = sim.model.body_index(body)
    impulse = array_of(impulse, (3,), "impulse", sim.model)
    angular = array_of(angular, (3,), "angular", sim.model)
    link, local = int(sim.model.arrays.body_link[b]), _link_point(sim, b, point)
    if link >= 0:
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
    sim._stepper.drive(spec.name, max(axis, 0), rate, sim.time)
    sim.touch()


def _link_point(sim: Simulation, b: int, point: Any) -> np.ndarray:
    """Return a point of the world, or a body's com for None, in the frame of the body's link."""
    a = sim.model.arrays
    if point is None:
        local = a.body_com[b]
    else:
        r = matrix_from_quaternion(sim.rotations[b])
        local = r.T @ (array_of(point, (3,), "point", sim.model) - sim.positions[b])
    return a.body_offset[b, :9].reshape(3, 3) @ local + a.body_offset[b, 9:]
