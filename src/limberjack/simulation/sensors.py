"""Sensors: what `sim.sensors` reads, at the present state.

Positions and velocities are those of the state. Accelerations are those at which the next step begins: of a state
without contacts, loops and joints at their limits the exact ones, else the change of velocity over that step, which is
taken and undone. Forces of contacts are those of the last step.
"""

# The files of this room are one class seen from several sides: they share its private members.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from limberjack.errors import StateError, UnknownName
from limberjack.model.actuators import SENSORS
from limberjack.model.spec import WORLD
from limberjack.reduced import dynamics
from limberjack.reduced.measure import body_velocities
from limberjack.simulation import snapshots
from limberjack.simulation.control import transmission_matrices
from limberjack.simulation.energy_watch import without_motors
from limberjack.simulation.queries import ray_cast
from limberjack.simulation.reactions import joint_forces
from limberjack.spatial.frames import matrix_from_quaternion, matrix_from_vector, quaternion_from_matrix

if TYPE_CHECKING:
    from limberjack.model.spec import Sensor
    from limberjack.simulation.simulation import Simulation

__all__ = ["read_all", "read_one"]

# Step of the differences by which velocities of bodies change along the motion [s], over the largest speed.
_STEP = 2e-3


class _Frame(NamedTuple):
    body: int  # -1 = world
    point: np.ndarray
    axes: np.ndarray


def read_all(sim: Simulation) -> np.ndarray:
    """Return the values of all sensors, one after the other."""
    state = _State(sim)
    return np.concatenate([np.zeros(0), *(_cut(sensor, _value(state, sensor)) for sensor in sim.model.spec.sensors)])


def read_one(sim: Simulation, name: str) -> Any:
    """Return the value of the sensor called `name`: a float, or an array."""
    for sensor in sim.model.spec.sensors:
        if sensor.name == name:
            value = _cut(sensor, _value(_State(sim), sensor))
            return float(value[0]) if SENSORS[sensor.kind].size == 1 else value
    raise UnknownName("sensor", name, f'model "{sim.model.name}"', sim.model.sensor_names)


def _cut(sensor: Sensor, value: Any) -> np.ndarray:
    value = np.atleast_1d(np.asarray(value, float))
    return np.clip(value, -sensor.cutoff, sensor.cutoff) if sensor.cutoff > 0.0 else value


class _State:
    """What sensors read, computed once for all of them."""

    def __init__(self, sim: Simulation) -> None:
        self.sim, self.model, self.arrays = sim, sim.model, sim.model.arrays

    @cached_property
    def rotations(self) -> np.ndarray:
        """(b, 3, 3) axes of the bodies."""
        return np.array([matrix_from_quaternion(q) for q in self.sim.rotations]).reshape(-1, 3, 3)

    @cached_property
    def coms(self) -> np.ndarray:
        """(b, 3) centres of mass."""
        return self.sim.positions + np.einsum("bij,bj->bi", self.rotations, self.arrays.body_com)

    @cached_property
    def velocities(self) -> np.ndarray:
        """(b, 6) angular velocities, then velocities of the coms."""
        return self.sim.velocities

    @cached_property
    def accelerations(self) -> np.ndarray:
        """(b, 6) angular accelerations, then accelerations of the coms."""
        q, qd = self.sim._stepper.q.copy(), self.sim._stepper.qd.copy()
        size = max(1.0, float(np.abs(qd).max(initial=0.0)))
        h = _STEP / size
        wide, narrow = (
            (self._velocities_at(self._moved(q, qd, s), qd) - self._velocities_at(self._moved(q, qd, -s), qd)) / (2 * s)
            for s in (h, 0.5 * h)
        )
        return self._velocities_at(q, self.joint_accelerations) + (4.0 * narrow - wide) / 3.0

    def _moved(self, q: np.ndarray, qd: np.ndarray, h: float) -> np.ndarray:
        """Return coordinates moved along qd for a time h."""
        links, out = self.arrays.links, q.copy()
        for v, iq, length in links.runs:
            out[iq : iq + length] += h * qd[v : v + length]
        for iq, v in links.quaternions:
            turned = matrix_from_quaternion(q[iq : iq + 4]) @ matrix_from_vector(h * qd[v : v + 3])
            out[iq : iq + 4] = quaternion_from_matrix(turned)
        return out

    def _velocities_at(self, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        a, (work, links, span) = self.arrays, self.sim._measures.scratch(self.sim)
        out = np.empty((self.model.body_count, 6))
        body_velocities(a.links, a.body_link, a.body_offset, a.body_com, span, q, qd, work, links, out)
        return out

    @cached_property
    def joint_accelerations(self) -> np.ndarray:
        """(nv,) accelerations qdd."""
        sim, model = self.sim, self.model
        if sim._control.coupled:
            sim._control.update(sim)
        if self._is_smooth():
            return dynamics.forward_dynamics(model, sim._stepper.q, sim._stepper.qd, self._tau(), self._wrenches())
        snapshot, contacts = snapshots.snapshot_of(sim), sim.contacts()
        before = sim._stepper.qd.copy()
        try:
            _, status = sim._stepper.advance(1, sim.dt, sim.forces, sim.time)
            if status:
                raise sim._failure(int(status))
            return (sim._stepper.qd - before) / sim.dt
        finally:
            snapshots.restore(sim, snapshot)
            sim._measures.poses, sim._measures.contacts = None, contacts

    def _is_smooth(self) -> bool:
        """Return whether nothing but smooth forces acts on the tree."""
        model, q = self.model, self.sim._stepper.q
        known = {"motors", "armature", "limits", "contacts"}
        if model.features().keys() - known or self.sim.contacts() or self.sim._stepper.held_grips():
            return False
        low, high = model.arrays.limits.T
        for v, iq, length in model.arrays.links.runs:
            part = slice(v, v + length)
            if ((q[iq : iq + length] < low[part]) | (q[iq : iq + length] > high[part])).any():
                return False
        return True

    def _tau(self) -> np.ndarray:
        """Return joint forces with those of motors."""
        sim = self.sim
        out, d = sim.forces.tau.copy(), sim.forces.drives
        q, qd = sim._stepper.q[d.indices[:, 0]], sim._stepper.qd[d.indices[:, 1]]
        push = d.scalar[:, 7] * (d.scalar[:, 9] - q) + d.scalar[:, 8] * (d.scalar[:, 10] - qd)
        out[d.indices[:, 1]] += np.clip(push, -d.scalar[:, 11], d.scalar[:, 11])
        if (d.ball[:, 11:13] > 0.0).any():
            raise StateError("accelerations cannot be read of models with motors in ball joints")
        return out

    def _wrenches(self, first: int = 0) -> np.ndarray:
        """Return the wrenches from number `first` on, as (b, 6) torques about the coms and forces."""
        a, wrenches = self.arrays, self.sim.forces.wrenches
        out = np.zeros((self.model.body_count, 6))
        for link, row in list(zip(wrenches.link, wrenches.data, strict=True))[first:]:
            b = int(np.flatnonzero(a.body_link == link)[0])
            turn, place = a.body_offset[b, :9].reshape(3, 3), a.body_offset[b, 9:]
            point = self.sim.positions[b] + self.rotations[b] @ (turn.T @ (row[:3] - place))
            out[b, :3] += row[6:] + np.cross(point - self.coms[b], row[3:6])
            out[b, 3:] += row[3:6]
        return out

    def frame(self, name: str, on: str) -> _Frame:
        """Return a frame by name."""
        model = self.model
        if on in ("body", "com"):
            if name == WORLD:
                return _Frame(-1, np.zeros(3), np.eye(3))
            b = model.body_index(name)
            return _Frame(b, self.coms[b] if on == "com" else self.sim.positions[b], self.rotations[b])
        things: Any = model.points if on == "point" else model.shapes
        thing = next(thing for thing in things if thing.name == name)
        axes, point = matrix_from_quaternion(np.array(thing.rotation)), np.array(thing.position)
        if thing.body == WORLD:
            return _Frame(-1, point, axes)
        b = model.body_index(thing.body)
        return _Frame(b, self.sim.positions[b] + self.rotations[b] @ point, self.rotations[b] @ axes)

    def velocity(self, frame: _Frame) -> tuple[np.ndarray, np.ndarray]:
        """Return angular velocity and velocity of a frame's origin, world axes."""
        if frame.body < 0:
            return np.zeros(3), np.zeros(3)
        w, v = self.velocities[frame.body, :3], self.velocities[frame.body, 3:]
        return w, v + np.cross(w, frame.point - self.coms[frame.body])

    def acceleration(self, frame: _Frame) -> tuple[np.ndarray, np.ndarray]:
        """Return angular acceleration and acceleration of a frame's origin less gravity, world axes."""
        if frame.body < 0:
            return np.zeros(3), -np.array(self.model.gravity)
        w = self.velocities[frame.body, :3]
        turning, moving = self.accelerations[frame.body, :3], self.accelerations[frame.body, 3:]
        arm = frame.point - self.coms[frame.body]
        full = moving + np.cross(turning, arm) + np.cross(w, np.cross(w, arm))
        return turning, full - self.model.gravity

    def subtree(self, name: str) -> np.ndarray:
        """Return the indices of a body and all below it."""
        b, parents = self.model.body_index(name), self.model._body_parent
        own = [b]
        for i in range(b + 1, self.model.body_count):
            if parents[i] in own:
                own.append(i)
        return np.array(own)

    @property
    def inertias(self) -> np.ndarray:
        """(b, 3, 3) inertias about the coms, world axes."""
        full = self.arrays.body_inertia[:, [0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(-1, 3, 3)
        return np.einsum("bij,bjk,blk->bil", self.rotations, full, self.rotations)


def _value(state: _State, sensor: Sensor) -> Any:
    """Return the value of a sensor."""
    kind = sensor.kind
    if kind.startswith("frame_"):
        return _frame_value(state, sensor)
    if kind.startswith("subtree_"):
        return _subtree_value(state, sensor)
    if kind in ("gyro", "velocimeter", "accelerometer", "force", "torque", "touch", "rangefinder"):
        return _point_value(state, sensor)
    if kind.startswith(("actuator_", "joint_actuator")):
        return _actuator_value(state, sensor)
    if kind.startswith("tendon_"):
        tendon = next(tendon for tendon in state.model.tendons if tendon.name == sensor.of)
        q_matrix, v_matrix = transmission_matrices(state.model, [tendon.transmission])
        stepper = state.sim._stepper
        return q_matrix @ stepper.q if kind == "tendon_position" else v_matrix @ stepper.qd
    if kind == "clock":
        return state.sim.time
    if kind in ("potential_energy", "kinetic_energy"):
        energy = state.sim._measures.energy_with(state.sim, without_motors(state.sim.forces.drives))
        return energy[0] if kind == "kinetic_energy" else energy[1]
    info = state.model.joint(sensor.of)
    return state.sim._stepper.q[info.q] if kind.endswith(("position", "quaternion")) else state.sim._stepper.qd[info.v]


def _frame_value(state: _State, sensor: Sensor) -> Any:
    """Return the value of a sensor of a frame, relative to another where it has one."""
    frame = state.frame(sensor.of, sensor.on)
    origin = _Frame(-1, np.zeros(3), np.eye(3))
    if sensor.relative_to:
        origin = state.frame(sensor.relative_to, sensor.relative_on)
    back, what = origin.axes.T, sensor.kind[6:]
    if what == "position":
        return back @ (frame.point - origin.point)
    if what == "quaternion":
        return quaternion_from_matrix(back @ frame.axes)
    if what.endswith("_axis"):
        return back @ frame.axes[:, "xyz".index(what[0])]
    if what.endswith("acceleration"):
        return state.acceleration(frame)[what.startswith("linear")]
    (w, v), (w0, v0) = state.velocity(frame), state.velocity(origin)
    if what == "angular_velocity":
        return back @ (w - w0)
    return back @ (v - v0 - np.cross(w0, frame.point - origin.point))


def _subtree_value(state: _State, sensor: Sensor) -> Any:
    own = state.subtree(sensor.of)
    mass = state.arrays.body_mass[own]
    total = max(float(mass.sum()), 1e-300)
    com = mass @ state.coms[own] / total
    if sensor.kind == "subtree_com":
        return com
    velocity = state.velocities[own]
    mean = mass @ velocity[:, 3:] / total
    if sensor.kind == "subtree_linear_velocity":
        return mean
    spin = np.einsum("bij,bj->i", state.inertias[own], velocity[:, :3])
    return spin + (mass[:, None] * np.cross(state.coms[own] - com, velocity[:, 3:] - mean)).sum(axis=0)


def _point_value(state: _State, sensor: Sensor) -> Any:
    """Return the value of a sensor at a point, in the axes of the point."""
    frame, kind = state.frame(sensor.of, "point"), sensor.kind
    if kind == "gyro":
        return frame.axes.T @ state.velocity(frame)[0]
    if kind == "velocimeter":
        return frame.axes.T @ state.velocity(frame)[1]
    if kind == "accelerometer":
        return frame.axes.T @ state.acceleration(frame)[1]
    if kind == "touch":
        return _touch(state, sensor, frame)
    if kind == "rangefinder":
        own = state.model.body_names[frame.body] if frame.body >= 0 else WORLD
        hit = ray_cast(state.model, state.sim._stepper.q, frame.point, frame.axes[:, 2], ignore=own, visual=True)
        return -1.0 if hit is None else hit.distance
    force, torque = _transmitted(state, frame)
    return frame.axes.T @ (force if kind == "force" else torque)


def _transmitted(state: _State, frame: _Frame) -> tuple[np.ndarray, np.ndarray]:
    """Return what the joint above a frame's body exerts on it: force, and torque about the frame's origin."""
    sim, model = state.sim, state.model
    if frame.body < 0:
        return np.zeros(3), np.zeros(3)
    if not state._is_smooth():
        forces = joint_forces(sim)
        torque, force = forces.reactions[frame.body, :3], forces.reactions[frame.body, 3:]
        return force, torque + np.cross(forces.points[frame.body] - frame.point, force)
    own = state.subtree(model.body_names[frame.body])
    mass, inertia = state.arrays.body_mass[own], state.inertias[own]
    w, a = state.velocities[own, :3], state.accelerations[own]
    pushed = state._wrenches(sim._control.own)[own]
    force = mass[:, None] * (a[:, 3:] - model.gravity) - pushed[:, 3:]
    spin = np.einsum("bij,bj->bi", inertia, w)
    torque = np.einsum("bij,bj->bi", inertia, a[:, :3]) + np.cross(w, spin) - pushed[:, :3]
    torque = torque + np.cross(state.coms[own] - frame.point, force)
    return force.sum(axis=0), torque.sum(axis=0)


def _touch(state: _State, sensor: Sensor, frame: _Frame) -> float:
    """Return the sum of normal forces of contacts of the point's body, within its volume where it has one."""
    body = WORLD if frame.body < 0 else state.model.body_names[frame.body]
    total = 0.0
    for contact in state.sim.contacts():
        if body not in contact.bodies:
            continue
        if sensor.data:
            place = np.abs(frame.axes.T @ (contact.position - frame.point)) / np.array(sensor.data[1:])
            if (place.max() if sensor.data[0] else np.linalg.norm(place)) > 1.0:
                continue
        total += max(0.0, float(contact.force @ contact.normal))
    return total


def _actuator_value(state: _State, sensor: Sensor) -> Any:
    force, length, rate = state.sim._control.forces(state.sim)
    if sensor.kind == "joint_actuator_force":
        info, total = state.model.joint(sensor.of), 0.0
        bounds = (-np.inf, np.inf)
        for f, actuator in zip(force, state.model.actuators, strict=True):
            for joint, dof, c in actuator.transmission:
                if state.model.joint(joint).v_start + dof == info.v_start:
                    total += c * f
                    bounds = actuator.joint_force_range or bounds
        return np.clip(total, *bounds)
    i = state.model.actuator_names.index(sensor.of)
    return {"actuator_position": length, "actuator_velocity": rate, "actuator_force": force}[sensor.kind][i]
