"""Handles: one joint, body or point of a running simulation, by name."""

# The files of this room are one class seen from several sides: they share its private members.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from limberjack.constraints.table import INEQUALITY
from limberjack.errors import LoopNotClosed, ModelError, StateError
from limberjack.model import joints as jt
from limberjack.model.compile import joint_frames
from limberjack.model.spec import WORLD
from limberjack.reduced.dynamics import array_of
from limberjack.simulation.energy_watch import JOINT_FORCES, TARGETS
from limberjack.simulation.reactions import Reaction, joint_forces
from limberjack.spatial.frames import compose, invert, matrix_from_quaternion

if TYPE_CHECKING:
    from limberjack.model.arrays import Drives
    from limberjack.model.model import Model
    from limberjack.simulation.simulation import Simulation

__all__ = [
    "BodyHandle",
    "JointError",
    "JointHandle",
    "PointHandle",
    "loop_errors",
    "loop_pose",
    "loops_error",
    "require_closed_loops",
]

# Loops that are open by more than this at the start are refused in reduced coordinates [m].
_FARTHEST = 1e-2


class JointError(NamedTuple):
    """The largest error of any joint's locked directions."""

    metres: float
    radians: float


def loop_pose(model: Model, positions: np.ndarray, rotations: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return (R, p): the child's joint frame in the parent's, read off the poses of bodies."""
    joint = model.joint_spec(name)
    r_p, p_p, r_c, p_c = joint_frames(joint)
    ends: list[tuple[np.ndarray, np.ndarray]] = []
    for body, r, p in ((joint.parent, r_p, p_p), (joint.child, r_c, p_c)):
        if body == WORLD:
            ends.append((r, p))
        else:
            i = model.body_index(body)
            ends.append(compose(matrix_from_quaternion(rotations[i]), positions[i], r, p))
    return compose(*invert(*ends[0]), *ends[1])


def loop_errors(model: Model, positions: np.ndarray, rotations: np.ndarray) -> dict[str, tuple[float, float]]:
    """Return the gap [m] and the angle [rad] by which each joint that closes a loop is open; gears have none."""
    out: dict[str, tuple[float, float]] = {}
    for name in model.loop_names:
        joint = model.joint_spec(name)
        if joint.kind == "gear":
            continue
        rows, errors = jt.locked(joint, *loop_pose(model, positions, rotations, name))
        turning = np.abs(rows[:, :3]).max(axis=1, initial=0.0) > np.abs(rows[:, 3:]).max(axis=1, initial=0.0)
        angle = float(np.linalg.norm(errors[turning]))
        if joint.rope:  # slack is no error
            errors = np.maximum(errors, 0.0)
        out[name] = float(np.linalg.norm(errors[~turning])), angle
    return out


def loops_error(sim: Simulation) -> JointError:
    """Return the largest gap and angle of all joints that close loops."""
    errors = [(0.0, 0.0), *loop_errors(sim.model, sim.positions, sim.rotations).values()]
    return JointError(*(max(each) for each in zip(*errors, strict=True)))


def require_closed_loops(sim: Simulation) -> None:
    """Raise where a loop is so far open at the start that closing it within a step would throw its bodies."""
    for name, (gap, _) in loop_errors(sim.model, sim.positions, sim.rotations).items():
        if gap > _FARTHEST:
            raise LoopNotClosed(f'joint "{name}": gap {gap:.3g} m > {_FARTHEST:g} m; close it with lj.assemble')


def loop_velocity(sim: Simulation, name: str) -> np.ndarray:
    """Return the velocity of a loop joint's coordinates, from the motion of its two bodies."""
    joint = sim.model.joint_spec(name)
    if joint.kind in ("gear", "no_slip", "distance"):
        return np.zeros(0)
    r_p, p_p, _, p_c = joint_frames(joint)
    turns: list[np.ndarray] = []
    moves: list[np.ndarray] = []
    origins: list[np.ndarray] = []
    for body, p in ((joint.parent, p_p), (joint.child, p_c)):
        if body == WORLD:
            turns.append(np.zeros(3))
            moves.append(np.zeros(3))
            origins.append(p)
            continue
        i = sim.model.body_index(body)
        turn, com = matrix_from_quaternion(sim.rotations[i]), sim.model.arrays.body_com[i]
        velocity = sim.velocities[i]
        origins.append(sim.positions[i] + turn @ p)
        turns.append(velocity[:3])
        moves.append(velocity[3:] + np.cross(velocity[:3], turn @ (p - com)))
    axes = r_p
    if joint.parent != WORLD:
        axes = matrix_from_quaternion(sim.rotations[sim.model.body_index(joint.parent)]) @ r_p
    gap = origins[1] - origins[0]
    twist = np.concatenate([axes.T @ (turns[1] - turns[0]), axes.T @ (moves[1] - moves[0] - np.cross(turns[0], gap))])
    q = jt.coordinates(joint, *loop_pose(sim.model, sim.positions, sim.rotations, name))
    return np.linalg.lstsq(jt.motion_subspace(jt.factors_of(joint), q), twist, rcond=None)[0]


class JointHandle:
    """One joint, or one axis of a compound joint: its coordinates, velocity, force and motor.

    Args:
        sim: the simulation.
        name: of the joint or axis.
    """

    def __init__(self, sim: Simulation, name: str) -> None:
        self._sim, self.info = sim, sim.model.joint(name)
        self.name = name

    def __repr__(self) -> str:
        return f'JointHandle("{self.name}", {self.info.kind}, q={self.q})'

    def _out(self, values: np.ndarray) -> Any:
        return float(values[0]) if values.size == 1 else values

    def _set(self, what: str, indices: slice, value: Any) -> None:
        if self.info.is_loop:
            raise StateError(f'joint "{self.name}" closes a loop: its {what} follows from the tree and cannot be set')
        whole = np.array(getattr(self._sim, what))
        size = indices.stop - indices.start
        whole[indices] = array_of(np.atleast_1d(value), (size,), f'{what} of joint "{self.name}"', self._sim.model)
        setattr(self._sim, what, whole)

    @property
    def q(self) -> Any:
        """The joint's coordinates: a float, or an array; of a loop joint, read off the body poses."""
        if self.info.kind == "gear":
            return np.zeros(0)
        if self.info.is_loop:
            return self._out(
                jt.coordinates(
                    self._sim.model.joint_spec(self.name),
                    *loop_pose(self._sim.model, self._sim.positions, self._sim.rotations, self.name),
                )
            )
        return self._out(self._sim.q[self.info.q])

    @q.setter
    def q(self, value: Any) -> None:
        self._set("q", self.info.q, value)

    @property
    def qd(self) -> Any:
        """The joint's velocity."""
        if self.info.is_loop:
            return self._out(loop_velocity(self._sim, self.name))
        return self._out(self._sim.qd[self.info.v])

    @qd.setter
    def qd(self, value: Any) -> None:
        self._set("qd", self.info.v, value)

    @property
    def tau(self) -> Any:
        """The force applied by the user [N m or N]."""
        if self.info.is_loop:
            return self._out(self._sim._stepper.loop_forces(self.name).copy())
        return self._out(self._sim.tau[self.info.v])

    @tau.setter
    def tau(self, value: Any) -> None:
        if self.info.is_loop:
            forces = self._sim._stepper.loop_forces(self.name)
            what = f'tau of joint "{self.name}"'
            forces[:] = array_of(np.atleast_1d(value), forces.shape, what, self._sim.model)
            self._sim._watch.push_loop(forces)
            self._sim.touch()
        else:
            if self.info.nv == 1 and isinstance(value, float) and math.isfinite(value):
                self._sim._control.applied[self.info.v_start] = value
            else:
                self._sim._control.applied[self.info.v] = array_of(
                    np.atleast_1d(value), (self.info.nv,), f'tau of joint "{self.name}"', self._sim.model
                )
            self._sim._control.set_dof(self._sim, self.info.v_start, self.info.nv)
            self._sim._watch.touched |= JOINT_FORCES
            self._sim._stepper.joint_forces_changed(self.info.v_start, self.info.v_start + self.info.nv)

    @property
    def reaction(self) -> Reaction:
        """Force and torque of the joint on its child, at the joint, world axes; see `Simulation.reactions`."""
        found = joint_forces(self._sim).reactions[self.info.index]
        return Reaction(found[3:].copy(), found[:3].copy())

    @property
    def reaction_in_joint(self) -> Reaction:
        """`reaction` in the axes of the joint's frame in the child; z is the axis of a hinge or slide."""
        forces = joint_forces(self._sim)
        axes, found = forces.axes[self.info.index], forces.reactions[self.info.index]
        return Reaction(axes.T @ found[3:], axes.T @ found[:3])

    @property
    def limit_force(self) -> Any:
        """Force of the joint's hard limits along its dofs: a float, or an array; 0 where none is reached."""
        spec, axis = self._sim.model.joint_spec(self.name), self._sim.model.axis_number(self.name)
        found = joint_forces(self._sim).limits.get(spec.name, np.zeros(jt.coordinate_counts(spec)[1]))
        return float(found[axis]) if axis >= 0 else self._out(found.copy())

    @property
    def multipliers(self) -> np.ndarray:
        """(rows,) multipliers of a loop joint, gear or constraint: J^T lam is its generalized force; >= 0 of ropes."""
        rows = joint_forces(self._sim).rows
        own = (rows.joint == self.info.index) & (rows.role <= INEQUALITY)
        return rows.multiplier[own].copy()

    @property
    def active(self) -> bool:
        """Whether the joint is simulated now."""
        link = int(self._sim.model.arrays.joint_link[self.info.index])
        return self.info.nv > 0 and link >= 0 and bool(self._sim.active_links[link])

    @property
    def target(self) -> Any:
        """The target of its motors: a float, a quaternion for a ball, or one number per motor."""
        return self._out(np.concatenate([table[row, first:last] for table, row, first, last in self._motors()]))

    @target.setter
    def target(self, value: Any) -> None:
        motors = self._motors()
        size = sum(last - first for _, _, first, last in motors)
        if size == 1 and isinstance(value, float) and math.isfinite(value):
            table, row, first, _ = motors[0]
            table[row, first] = value
            self._sim._watch.move_target(row, value)
            self._sim._stepper.joint_forces_changed(self.info.v_start, self.info.v_start + self.info.nv)
            return
        new = array_of(np.atleast_1d(value), (size,), f'target of joint "{self.name}"', self._sim.model)
        used = 0
        for table, row, first, last in motors:
            part = new[used : used + last - first]
            used += last - first
            if last - first == 4:
                length = float(np.linalg.norm(part))
                if abs(length - 1.0) > 1e-3:
                    what = f'target of joint "{self.name}"'
                    raise StateError(f"{what} must be a unit quaternion, its length is {length:.6g}")
                part = part / length
            table[row, first:last] = part
        self._sim._watch.touched |= TARGETS
        self._sim._stepper.joint_forces_changed(self.info.v_start, self.info.v_start + self.info.nv)

    def _motors(self) -> list[tuple[np.ndarray, int, int, int]]:
        """Return (table, row, first column, last column + 1) of the target of each of the joint's motors."""
        drives, known = self._sim.forces.drives, self._sim._measures.motors
        found = known.get(self.name)
        if found is None or found[0] is not drives:  # a snapshot brings other ones
            found = known[self.name] = (drives, self._find_motors(drives))
        return found[1]

    def _find_motors(self, drives: Drives) -> list[tuple[np.ndarray, int, int, int]]:
        """Return what `_motors` does."""
        found: list[tuple[int, tuple[np.ndarray, int, int, int]]] = []
        for indices, table, gains, first, last in (
            (drives.indices, drives.scalar, 7, 9, 10),
            (drives.ball_indices, drives.ball, 11, 13, 17),
        ):
            own = (indices[:, 1] >= self.info.v_start) & (indices[:, 1] < self.info.v_start + self.info.nv)
            for row in np.flatnonzero(own & table[:, gains : gains + 2].any(axis=1)):
                found.append((int(indices[row, 1]), (table, int(row), first, last)))
        if not found:
            raise ModelError(f'joint "{self.name}" has no motor; give one with motor=lj.Motor(kp=..., kd=...)')
        return [motor for _, motor in sorted(found, key=lambda entry: entry[0])]


class BodyHandle:
    """One body: where it is and how it moves.

    Args:
        sim: the simulation.
        name: of the body.
    """

    def __init__(self, sim: Simulation, name: str) -> None:
        self._sim, self.info = sim, sim.model.body(name)
        self.name = name

    def __repr__(self) -> str:
        return f'BodyHandle("{self.name}", position={self.position})'

    @property
    def position(self) -> np.ndarray:
        """(3,) origin of the body frame in the world [m]."""
        return self._sim.positions[self.info.index]

    @property
    def rotation(self) -> np.ndarray:
        """(4,) quaternion (w, x, y, z), body to world."""
        return self._sim.rotations[self.info.index]

    @property
    def velocity(self) -> np.ndarray:
        """(6,) angular velocity, then velocity of the com, world axes."""
        return self._sim.velocities[self.info.index]

    @property
    def coordinates(self) -> np.ndarray:
        """Coordinates beyond those of a solid: scales, the map of an affine body, those of a registered kind."""
        return self._own_coordinates()[0]

    @coordinates.setter
    def coordinates(self, value: Any) -> None:
        self._set_own(value, None)

    @property
    def coordinate_rates(self) -> np.ndarray:
        """Rates of `coordinates` [1/s]."""
        return self._own_coordinates()[1]

    @coordinate_rates.setter
    def coordinate_rates(self, value: Any) -> None:
        self._set_own(None, value)

    def _link(self) -> int:
        return int(self._sim.model.arrays.body_link[self.info.index])

    def _own_coordinates(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the coordinates the body has beyond its pose, and their rates."""
        found = None if self._link() < 0 else self._sim._stepper.body_coordinates(self._link())
        if found is None:
            raise StateError(f'body "{self.name}" keeps its size and has no coordinates of its own')
        return found

    def _set_own(self, coordinates: Any, rates: Any) -> None:
        """Set the coordinates the body has beyond its pose, or their rates."""
        size = (len(self._own_coordinates()[0]),)
        given = (
            None if x is None else array_of(x, size, f'{word} of body "{self.name}"', self._sim.model)
            for x, word in ((coordinates, "coordinates"), (rates, "coordinate_rates"))
        )
        self._sim._stepper.set_body_coordinates(self._link(), *given)
        self._sim._watch.forget()
        self._sim.touch()


class PointHandle:
    """One named point: where it is.

    Args:
        sim: the simulation.
        name: of the point.
        body: the body that it is fixed to.
        local: (3,) where it is in the body's frame [m].
    """

    def __init__(self, sim: Simulation, name: str, body: str, local: tuple[float, ...]) -> None:
        self._sim, self.name, self._body, self._local = sim, name, body, np.array(local)

    @property
    def position(self) -> np.ndarray:
        """(3,) in the world [m]."""
        if self._body == WORLD:
            return self._local.copy()
        i = self._sim.model.body_index(self._body)
        a, link = self._sim.model.arrays, int(self._sim.model.arrays.body_link[i])
        if link >= 0:
            local = a.body_offset[i, :9].reshape(3, 3) @ self._local + a.body_offset[i, 9:]
            moved = self._sim._stepper.point_position(link, local)
            if moved is not None:
                return moved
        return self._sim.positions[i] + matrix_from_quaternion(self._sim.rotations[i]) @ self._local
