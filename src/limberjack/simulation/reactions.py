"""Forces of joints and constraints at the present state, found when they are asked for.

The step that begins now is taken and undone. What it changes of the momentum of each body, less gravity and all that
acts from outside (wrenches, springs, contacts, grips, loop joints and other constraints), is the force that its joint
and those of its children exert on it: summed from the leaves to the root, the reactions. It is the same in every
method, whether a joint is a coordinate, a row or inside a rigid cluster, and includes motors, limits, friction and
rotors of the joint. Forces of constraints that are not joints of the tree are those of the method itself
(`Stepper.row_forces`).
"""

# The files of this room are one class seen from several sides: they share its private members.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import hashlib
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from limberjack.constraints.row_forces import RowForces
from limberjack.constraints.table import EQUALITY, INEQUALITY, SPRING
from limberjack.errors import StateError
from limberjack.methods import require_verb
from limberjack.model import joints as jt
from limberjack.model.body_kinds import BODY_KINDS
from limberjack.model.compile import joint_frames
from limberjack.model.spec import WORLD
from limberjack.simulation import snapshots
from limberjack.spatial.frames import matrix_from_quaternion

if TYPE_CHECKING:
    from limberjack.model.model import Model
    from limberjack.simulation.simulation import Simulation

__all__ = ["JointForces", "Reaction", "joint_forces"]


class Reaction(NamedTuple):
    """What a joint exerts on its child, at the joint.

    Attributes:
        force: (3,) [N].
        torque: (3,) about the origin of the joint's frame in the child [N m].
    """

    force: np.ndarray
    torque: np.ndarray


class JointForces(NamedTuple):
    """Forces of all joints in one step."""

    reactions: np.ndarray  # (joint_count, 6) torque, then force on the child at the joint, world axes
    axes: np.ndarray  # (joint_count, 3, 3) the joint's frame in the child, world axes
    points: np.ndarray  # (joint_count, 3) its origin, in the middle of the step
    rows: RowForces
    limits: dict[str, np.ndarray]  # of joints with limits that act: force along each dof
    attached: dict[int, np.ndarray]  # of joints made while running, by number: torque, force on the second body


class _Motion(NamedTuple):
    """Poses and momenta of the bodies."""

    origin: np.ndarray  # (b, 3)
    quaternion: np.ndarray  # (b, 4)
    rotation: np.ndarray  # (b, 3, 3)
    com: np.ndarray  # (b, 3)
    momentum: np.ndarray  # (b, 6) angular about the com, linear
    velocity: np.ndarray  # (b, 6) angular, of the com
    time: np.ndarray  # (b,) of the momentum, from the beginning of the step [s]


def joint_forces(sim: Simulation) -> JointForces:
    """Return the forces of joints and constraints in the step that begins at the present state."""
    require_verb(sim.method, "reactions")
    for body in sim.model.spec.bodies:
        if not BODY_KINDS[body.body_kind].tree and "bodies" not in sim.ignored:
            raise StateError(
                f'body "{body.name}" is {body.body_kind}: reactions are those of bodies that keep their size'
            )
    if sim._control.coupled:
        sim._control.update(sim)
    snapshot = snapshots.snapshot_of(sim)
    key = _key(sim, snapshot)
    known = sim._measures.joint_forces
    if known is not None and known[0] == key:
        return known[1]
    before, stepper = _motion(sim, 0.0), sim._stepper
    shown = sim.contacts()
    try:
        stepper.aim_rows(sim.time, sim.dt)
        _, status = stepper.advance(1, sim.dt, sim.forces, sim.time)
        if status:
            raise sim._failure(int(status))
        sim._measures.poses = None
        out = _Balance(sim, before, _motion(sim, sim.dt)).forces()
    finally:
        arrays = snapshot.arrays
        stepper.q[:], stepper.qd[:] = arrays["q"], arrays["qd"]
        own = {k[7:]: v for k, v in arrays.items() if k.startswith("method.")}
        stepper.set_state_arrays(own | {"clock": np.array(sim.time)})
        sim._measures.poses, sim._measures.contacts = None, shown
    sim._measures.joint_forces = key, out
    return out


def _key(sim: Simulation, snapshot: snapshots.Snapshot) -> bytes:
    """Return what tells two states apart, forces and targets of grips included."""
    digest = hashlib.sha256(snapshots.state_hash(snapshot).encode())
    for grip in sim._stepper.held_grips():
        digest.update(grip.target.tobytes())
        digest.update(b"" if grip.rotation is None else grip.rotation.tobytes())
    return digest.digest()


def _motion(sim: Simulation, time: float) -> _Motion:
    a = sim.model.arrays
    rotation = np.array([matrix_from_quaternion(q) for q in sim.rotations]).reshape(-1, 3, 3)
    com = sim.positions + np.einsum("bij,bj->bi", rotation, a.body_com)
    inertia = a.body_inertia[:, [0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(-1, 3, 3)
    velocity = sim.velocities
    own = np.einsum("bij,bj->bi", np.transpose(rotation, (0, 2, 1)), velocity[:, :3])
    angular = np.einsum("bij,bjk,bk->bi", rotation, inertia, own)
    momentum = np.concatenate([angular, a.body_mass[:, None] * velocity[:, 3:]], axis=1)
    lag = sim._stepper.velocity_lag()
    ago = np.zeros(len(a.body_link)) if lag is None else np.append(lag, 0.0)[a.body_link]
    return _Motion(sim.positions.copy(), sim.rotations.copy(), rotation, com, momentum, velocity, time - ago)


class _Balance:
    """The balance of momentum of all bodies over one step.

    Lever arms are those in the middle of the step.

    Args:
        sim: the simulation, at the end of the step.
        before, after: poses and momenta at its ends.
    """

    def __init__(self, sim: Simulation, before: _Motion, after: _Motion) -> None:
        self._sim, self._model, self._ends = sim, sim.model, (before, after)
        a = sim.model.arrays
        self._com = 0.5 * (before.com + after.com)
        self._span = after.time - before.time
        # what all joints and constraints exert on each body: torque about the com, force
        self._left = (after.momentum - before.momentum) / self._span[:, None]
        self._left[:, 3:] -= a.body_mass[:, None] * sim.model.gravity
        first = np.full(len(a.links.parent), -1, np.int64)
        for b in range(len(a.body_link) - 1, -1, -1):
            if a.body_link[b] >= 0:
                first[a.body_link[b]] = b
        self._first = first

    def forces(self) -> JointForces:
        """Return the forces of all joints."""
        model = self._model
        self._take_wrenches()
        self._take_contacts()
        self._take_grips()
        self._take_springs()
        rows = self._sim._stepper.row_forces(self._on_links(), self._sim.forces)
        axes, points = self._joint_frames()
        out = np.zeros((model.joint_count, 6))
        limits: dict[str, np.ndarray] = {}
        attached: dict[int, np.ndarray] = defaultdict(lambda: np.zeros(6))
        self._take_rows(rows, points, axes, out, limits, attached)
        for b in range(model.body_count - 1, -1, -1):
            torque, force = self._left[b, :3], self._left[b, 3:]
            torque = torque + np.cross(self._com[b] - points[b], force)
            parent = model._body_parent[b]
            if parent >= 0:
                self._left[parent, :3] += torque + np.cross(points[b] - self._com[parent], force)
                self._left[parent, 3:] += force
            sign = -1.0 if model._reversed[b] else 1.0
            out[b] = np.concatenate([sign * torque, sign * force])
        return JointForces(out, axes, points, rows, limits, attached)

    # What acts on the bodies

    def _take(self, body: int, point: np.ndarray, force: np.ndarray, torque: np.ndarray | float = 0.0) -> None:
        """Take a force at a point and a torque off what joints exert on a body; -1 = the world."""
        if body >= 0:
            self._left[body, :3] -= torque + np.cross(point - self._com[body], force)
            self._left[body, 3:] -= force

    def _place(self, body: int, local: np.ndarray) -> np.ndarray:
        """Return a point of a body's frame in the world, in the middle of the step."""
        if body < 0:
            return local
        a, b = (m.origin[body] + m.rotation[body] @ local for m in self._ends)
        return 0.5 * (a + b)

    def _on_body(self, link: int, point: np.ndarray) -> tuple[int, np.ndarray]:
        """Return the body a point of a link belongs to, and the point in its frame: that whose com it is, or the first.

        Several bodies on fixed joints are one link.
        """
        if link < 0:
            return -1, point
        a = self._model.arrays
        own = np.flatnonzero(a.body_link == link)
        offset = a.body_offset[own]
        local = np.einsum("bji,bj->bi", offset[:, :9].reshape(-1, 3, 3), point - offset[:, 9:])
        at = np.flatnonzero(np.abs(local - a.body_com[own]).max(axis=1) < 1e-12)
        k = int(at[0]) if len(at) else 0
        return int(own[k]), local[k]

    def _take_wrenches(self) -> None:
        wrenches = self._sim.forces.wrenches
        for link, data in zip(wrenches.link, wrenches.data, strict=True):
            if link >= 0:
                body, local = self._on_body(int(link), data[:3])
                self._take(body, self._place(body, local), data[3:6], data[6:9])

    def _take_contacts(self) -> None:
        for contact in self._sim._stepper.contacts():
            for name, sign in zip(contact.bodies, (1.0, -1.0), strict=True):
                if name != WORLD:
                    body = self._model.body_index(name)
                    impulse, twist = sign * contact.impulse, sign * self._sim.dt * contact.torque
                    self._take(body, contact.position, impulse / self._span[body], twist / self._span[body])

    def _take_grips(self) -> None:
        for grip in self._sim._stepper.held_grips():
            found = self._sim._stepper.grip_wrench(grip)
            if found is not None:
                body, local = self._on_body(grip.link, grip.point)
                self._take(body, self._place(body, local), found[3:], found[:3])

    def _take_springs(self) -> None:
        """Take the springs between bodies, with the mean of their forces at both ends of the step."""
        model = self._model
        for spring in model.springs:
            bodies = [-1 if name == WORLD else model.body_index(name) for name in (spring.a, spring.b)]
            locals_ = [np.array(spring.at_a), np.array(spring.at_b)]
            force = np.zeros(3)
            for m in self._ends:
                (pa, va), (pb, vb) = (self._point(m, b, x) for b, x in zip(bodies, locals_, strict=True))
                gap = pb - pa
                length = float(np.linalg.norm(gap))
                along = gap / length if length > 0.0 else np.zeros(3)
                size = spring.stiffness * (length - spring.rest) + spring.damping * float(along @ (vb - va))
                force += 0.5 * size * along
            for body, local, sign in zip(bodies, locals_, (1.0, -1.0), strict=True):
                self._take(body, self._place(body, local), sign * force)

    def _point(self, m: _Motion, body: int, local: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return position and velocity of a point of a body."""
        if body < 0:
            return local, np.zeros(3)
        at = m.origin[body] + m.rotation[body] @ local
        return at, m.velocity[body, 3:] + np.cross(m.velocity[body, :3], at - m.com[body])

    # Links, frames and rows

    def _on_links(self) -> np.ndarray:
        """Return (n, 6) what joints and constraints exert on each link: torque about its com, force."""
        a = self._model.arrays
        out, moving = np.zeros((len(a.links.parent), 6)), a.body_link >= 0
        mass, moment = np.zeros(len(out)), np.zeros((len(out), 3))
        link = a.body_link[moving]
        np.add.at(mass, link, a.body_mass[moving])
        np.add.at(moment, link, a.body_mass[moving, None] * self._com[moving])
        com = np.where(mass[:, None] > 0.0, moment / np.where(mass > 0.0, mass, 1.0)[:, None], 0.0)
        for b in np.flatnonzero(moving):
            i = int(a.body_link[b])
            lever = self._com[b] - (com[i] if mass[i] > 0.0 else self._com[b])
            out[i, :3] += self._left[b, :3] + np.cross(lever, self._left[b, 3:])
            out[i, 3:] += self._left[b, 3:]
        return out

    def _joint_frames(self) -> tuple[np.ndarray, np.ndarray]:
        """Return axes (j, 3, 3) and origins (j, 3) of the joints' frames in their children, at mid-step."""
        model = self._model
        axes, points = np.zeros((model.joint_count, 3, 3)), np.zeros((model.joint_count, 3))
        first, last = (m.quaternion for m in self._ends)
        middle = first + np.where((first * last).sum(axis=1, keepdims=True) < 0.0, -last, last)
        middle /= np.linalg.norm(middle, axis=1, keepdims=True)
        for j, name in enumerate(model.joint_names):
            joint = model.joint_spec(name)
            if joint.kind == "gear":
                axes[j] = np.eye(3)
                continue
            _, _, r_c, p_c = joint_frames(joint)
            body = model.body_index(joint.child)
            axes[j], points[j] = matrix_from_quaternion(middle[body]) @ r_c, self._place(body, p_c)
        return axes, points

    def _take_rows(
        self, rows: RowForces, points: np.ndarray, axes: np.ndarray, out: np.ndarray, limits: dict[str, np.ndarray],
        attached: dict[int, np.ndarray],
    ) -> None:  # fmt: skip
        """Take the forces of loops, constraints, springs and grips off what joints exert; collect those of limits.

        So are those of joints made while running, by the number of each.
        """
        model, a = self._model, self._model.arrays
        first_loop, seen = model.joint_count - len(model.loop_names), set[int]()
        for r, (link_a, link_b), point, wrench in zip(rows.pair_row, rows.link, rows.point, rows.wrench, strict=True):
            j, role = int(rows.joint[r]), int(rows.role[r])
            if rows.multiplier[r] == 0.0 or role == SPRING:
                continue
            name = model.joint_names[j] if j < model.joint_count else ""
            if role == INEQUALITY:
                self._add_limit(model, name, wrench, axes[j], limits)
            spec = model.joint_spec(name) if name else None
            if j < first_loop or (spec is not None and spec.kind == "gear" and not spec.carrier):
                continue  # between the bodies of a joint of the tree: part of its reaction
            again = int(r) in seen
            seen.add(int(r))
            ends = [self._on_body(int(link_a), point[:3]), self._on_body(int(link_b), point[3:])]
            if spec is not None and spec.kind != "gear":
                names = (spec.parent, spec.child)
                if again:
                    names = (getattr(spec, "second_parent", WORLD), getattr(spec, "second_child", WORLD))
                ends = [self._moved(end, body) for end, body in zip(ends, names, strict=True)]
                out[j] += 0.0 if again else wrench
            if role == EQUALITY and j >= model.joint_count:
                attached[j - model.joint_count - len(model.springs)] += wrench
            torque, force, at = wrench[:3], wrench[3:], self._place(*ends[1])
            self._take(ends[1][0], at, force, torque)
            self._take(ends[0][0], at, -force, -torque)
        for k in np.flatnonzero((rows.role[rows.coordinate_row] == INEQUALITY) & (rows.force != 0.0)):
            dof = int(rows.dof[k])
            j = int(np.searchsorted(a.v_start, dof, side="right")) - 1
            own = limits.setdefault(model.joint_names[j], np.zeros(model.joint(model.joint_names[j]).nv))
            own[dof - int(a.v_start[j])] += float(rows.force[k])

    def _moved(self, end: tuple[int, np.ndarray], name: str) -> tuple[int, np.ndarray]:
        """Return a point of a body, or of the world, as one of another body of the same link, called `name`."""
        body, local = end
        if name == WORLD:
            return end
        after, other = self._ends[1], self._model.body_index(name)
        at = local if body < 0 else after.origin[body] + after.rotation[body] @ local
        return other, after.rotation[other].T @ (at - after.origin[other])

    def _add_limit(
        self, model: Model, name: str, wrench: np.ndarray, axes: np.ndarray, limits: dict[str, np.ndarray]
    ) -> None:
        """Add the force of a limit, a wrench on the child, along the dofs of its joint."""
        joint = model.joint_spec(name)
        if joint.kind in ("distance", "no_slip") or not jt.KINDS[joint.kind].nv and joint.kind != "compound":
            return
        q = np.atleast_1d(self._sim.joint(name).q)
        relative = jt.transform(jt.factors_of(joint), q)[0]
        # S is in the axes of the parent's frame
        turn = axes @ relative.T
        own = jt.motion_subspace(jt.factors_of(joint), q).T @ np.concatenate([turn.T @ wrench[:3], turn.T @ wrench[3:]])
        limits[name] = limits.get(name, np.zeros(len(own))) + own
