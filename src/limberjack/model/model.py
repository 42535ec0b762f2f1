"""`Model`: names and arrays, frozen. Built from a spec by `Builder.build()` or a loader."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from limberjack.errors import ModelError, UnknownName
from limberjack.model.body_kinds import BODY_KINDS, check_planes
from limberjack.model.check import has_degenerate_inertia, singular_link
from limberjack.model.compile import Compiled, compile_model
from limberjack.model.joints import KINDS
from limberjack.model.spanning_tree import Tree, span
from limberjack.model.spec import WORLD, Actuator, Joint, Keyframe, Point, Shape, Spec, Spring, Tendon

if TYPE_CHECKING:
    from limberjack.simulation.trajectory import Trajectory

__all__ = ["BodyInfo", "JointInfo", "Model"]

# Squares of numbers below this are finite, with room for the sums of them.
_HUGE = 1e140

# Which feature a joint without coordinates is, where it does not close a loop.
_FEATURES = {"gear": "gears", "no_slip": "velocity"}


@dataclass(frozen=True)
class JointInfo:
    """A joint (or one axis of a compound joint): its kind, its bodies and its indices in q and qd."""

    name: str
    kind: str
    parent: str
    child: str
    q_start: int
    v_start: int
    nq: int
    nv: int
    is_loop: bool
    axis_names: tuple[str, ...]
    index: int

    @property
    def q(self) -> slice:
        """The joint's slice of q."""
        return slice(self.q_start, self.q_start + self.nq)

    @property
    def v(self) -> slice:
        """The joint's slice of qd, qdd and tau."""
        return slice(self.v_start, self.v_start + self.nv)


@dataclass(frozen=True)
class BodyInfo:
    """A body's mass [kg], com [m, body frame], inertia (3, 3) about the com in body axes, and the joint above it."""

    name: str
    index: int
    mass: float
    com: np.ndarray
    inertia: np.ndarray
    parent: str
    joint: str


class Model:
    """An articulated body, or many: everything that does not change while it moves.

    Attributes:
        name: the model's name.
        body_names: bodies, depth first.
        joint_names: tree joints in the order of their child bodies, then loop joints and couplings.
        nq: number of coordinates.
        nv: number of dofs.
        gravity: (3,) world axes [m/s^2].
        q0: (nq,) start coordinates.
        qd0: (nv,) start velocities.
        shapes: collision and display shapes.
        springs: springs between bodies.
        points: named points.
        actuators: what controls set, in the order of `sim.control`.
        tendons: lengths over several joints.
        keyframes: named states, by name.
        timestep: time step that simulations have unless another is given [s]; None for none.
        spec: the declarative record the model was built from.
        arrays: the arrays kernels read; not to be changed.
        motion: what a file of motion capture recorded of it, a `Trajectory`; None for other models.
    """

    name: str
    body_names: tuple[str, ...]
    joint_names: tuple[str, ...]
    nq: int
    nv: int
    gravity: np.ndarray
    q0: np.ndarray
    qd0: np.ndarray
    shapes: tuple[Shape, ...]
    springs: tuple[Spring, ...]
    points: tuple[Point, ...]
    actuators: tuple[Actuator, ...]
    tendons: tuple[Tendon, ...]
    keyframes: dict[str, Keyframe]
    timestep: float | None
    spec: Spec
    arrays: Compiled
    motion: Trajectory | None
    workspace: dict[Any, Any]  # scratch of the functions that evaluate the model, by thread
    _joints: tuple[Joint, ...]
    _tree_count: int
    _body_parent: tuple[int, ...]
    _reversed: tuple[bool, ...]
    _body_index: dict[str, int]
    _joint_index: dict[str, tuple[int, int]]

    def __init__(self, spec: Spec) -> None:
        check_planes(spec)
        tree = span(spec)
        with np.errstate(over="ignore", invalid="ignore"):
            arrays = compile_model(spec, tree)
        _require_finite(spec, tree, arrays)
        joints = (*tree.joints, *tree.loops)
        put: Any = self.__dict__.update
        put(
            name=spec.name,
            spec=spec,
            arrays=arrays,
            shapes=tuple(spec.shapes),
            springs=tuple(spec.springs),
            points=tuple(spec.points),
            actuators=tuple(spec.actuators),
            tendons=tuple(spec.tendons),
            keyframes={keyframe.name: keyframe for keyframe in spec.keyframes},
            timestep=spec.timestep,
        )
        put(
            body_names=tuple(spec.bodies[i].name for i in tree.order),
            joint_names=tuple(joint.name for joint in joints),
        )
        put(
            nq=len(arrays.q0),
            nv=len(arrays.qd0),
            gravity=_frozen(arrays.links.gravity),
            q0=_frozen(arrays.q0),
            qd0=_frozen(arrays.qd0),
        )
        put(
            _joints=joints,
            _tree_count=len(tree.joints),
            _body_parent=tuple(tree.parent),
            _reversed=tuple(tree.reversed),
        )
        put(
            _body_index={name: i for i, name in enumerate(self.body_names)},
            _joint_index=_index(joints),
            workspace={},
            motion=None,
        )
        self._check_control()
        if has_degenerate_inertia(arrays.links):
            link = singular_link(arrays.links, self.nq)
            if link >= 0:
                joint = joints[int(np.flatnonzero(arrays.joint_link == link)[0])]
                raise ModelError(
                    f'joint "{joint.name}" has no inertia to act on: body "{joint.child}" and all beyond it have no '
                    "mass, or none that this joint moves; give mass, inertia or armature"
                )

    def _check_control(self) -> None:
        """Refuse keyframes of the wrong length, and actuators and tendons on joints that close loops."""
        for keyframe in self.keyframes.values():
            dynamic = sum(bool(actuator.dynamics) for actuator in self.actuators)
            wanted = {"q": self.nq, "qd": self.nv, "control": len(self.actuators), "activation": dynamic}
            for word, count in wanted.items():
                given = len(getattr(keyframe, word))
                if given != count and not (word in ("control", "activation") and given == 0):
                    raise ModelError(f'keyframe "{keyframe.name}": {word} must be {count} numbers, got {given}')
        for thing in (*self.actuators, *self.tendons):
            for joint, _, _ in thing.transmission:
                if self._locate(joint)[0] >= self._tree_count:
                    raise ModelError(f'"{thing.name}" drives joint "{joint}", which closes a loop')

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f'a model is frozen: cannot set "{name}"; build another with Builder.from_spec(model.spec)'
        )

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f'a model is frozen: cannot remove "{name}"')

    def __repr__(self) -> str:
        return f'Model("{self.name}": {self.body_count} bodies, {self.joint_count} joints, nq {self.nq}, nv {self.nv})'

    @property
    def body_count(self) -> int:
        """Number of bodies, the world not counted."""
        return len(self.body_names)

    @property
    def joint_count(self) -> int:
        """Number of joints, loop joints and couplings included."""
        return len(self.joint_names)

    @property
    def actuator_names(self) -> tuple[str, ...]:
        """Names of the actuators, in the order of `sim.control`."""
        return tuple(actuator.name for actuator in self.actuators)

    @property
    def sensor_names(self) -> tuple[str, ...]:
        """Names of the sensors, in the order of `sim.sensors`."""
        return tuple(sensor.name for sensor in self.spec.sensors)

    @property
    def loop_names(self) -> tuple[str, ...]:
        """Names of loop joints and couplings."""
        return self.joint_names[self._tree_count :]

    def with_motion(self, motion: Trajectory) -> Model:
        """Return this model with `motion`, a `Trajectory` of it; steps and model files take no notice of it.

        Args:
            motion: a trajectory of this model.
        """
        other = copy.copy(self)
        other.__dict__.update(motion=motion, workspace={})
        return other

    def body_index(self, name: str) -> int:
        """Return the index of the body called `name`.

        Args:
            name: of the body.
        """
        try:
            return self._body_index[name]
        except KeyError:
            raise UnknownName("body", name, f'model "{self.name}"', self.body_names) from None

    def body(self, name: str) -> BodyInfo:
        """Return mass, com, inertia, parent and joint of the body called `name`.

        Args:
            name: of the body.
        """
        i = self.body_index(name)
        a = self.arrays
        parent = self._body_parent[i]
        full = a.body_inertia[i][[0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(3, 3)
        above = WORLD if parent < 0 else self.body_names[parent]
        return BodyInfo(name, i, float(a.body_mass[i]), a.body_com[i].copy(), full, above, self.joint_names[i])

    def joint_spec(self, name: str) -> Joint:
        """Return the declarative record of the joint (or of the compound joint an axis belongs to).

        Args:
            name: of a joint, or of an axis of a compound one.
        """
        return self._joints[self._locate(name)[0]]

    def joint(self, name: str) -> JointInfo:
        """Return kind, bodies and indices of the joint, or the axis of a compound joint, called `name`.

        Args:
            name: of a joint, or of an axis of a compound one.
        """
        i, axis = self._locate(name)
        joint = self._joints[i]
        if i >= self._tree_count:
            return JointInfo(name, joint.kind, joint.parent, joint.child, -1, -1, 0, 0, True, (), i)
        q, v = int(self.arrays.q_start[i]), int(self.arrays.v_start[i])
        if axis >= 0:
            return JointInfo(
                name, joint.axes[axis].kind, joint.parent, joint.child, q + axis, v + axis, 1, 1, False, (), i
            )
        kind = KINDS[joint.kind]
        nq, nv = (len(joint.axes),) * 2 if joint.kind == "compound" else (kind.nq, kind.nv)
        return JointInfo(
            name,
            joint.kind,
            joint.parent,
            joint.child,
            q,
            v,
            nq,
            nv,
            False,
            tuple(axis.name for axis in joint.axes),
            i,
        )

    def axis_number(self, name: str) -> int:
        """Return which axis of its compound joint is called `name`; -1 for whole joints.

        Args:
            name: of a joint, or of an axis of a compound one.
        """
        return self._locate(name)[1]

    def dof_name(self, v: int) -> str:
        """Return the name of the joint, or compound axis, that dof `v` belongs to.

        Args:
            v: index among the nv velocities.
        """
        i = int(np.searchsorted(self.arrays.v_start, v, side="right")) - 1
        joint = self._joints[i]
        return joint.axes[v - int(self.arrays.v_start[i])].name if joint.axes else joint.name

    def features(self) -> dict[str, str]:
        """Return what the model has that a method must support, each with one example by name."""
        out: dict[str, str] = {}
        for joint in self._joints[self._tree_count :]:
            out.setdefault(_FEATURES.get(joint.kind, "loops"), f'joint "{joint.name}"')
        hard = np.flatnonzero(np.isfinite(self.arrays.limits).any(axis=1))
        if hard.size:
            out["limits"] = f'joint "{self.dof_name(int(hard[0]))}"'
        for joint in self._joints[: self._tree_count]:
            if joint.cone is not None or joint.twist is not None:
                out.setdefault("limits", f'joint "{joint.name}"')
        rough = np.flatnonzero(self.arrays.friction > 0)
        if rough.size:
            out["friction"] = f'joint "{self.dof_name(int(rough[0]))}"'
        pair = self._contact_pair()
        if pair:
            out["contacts"] = f'shapes "{pair[0]}" and "{pair[1]}"'
            rolls = [s.name for s in self.shapes if s.collide and (s.torsional_friction or s.rolling_friction)]
            if rolls:
                out["rolling"] = f'shape "{rolls[0]}"'
        if (self.arrays.links.armature > 0).any():
            out["armature"] = f'joint "{self.dof_name(int(np.flatnonzero(self.arrays.links.armature)[0]))}"'
        if self.springs:
            out["springs"] = f'spring "{self.springs[0].name}"'
        drives = self.arrays.drives
        for indices, column, table in (
            (drives.indices, (7, 8), drives.scalar),
            (drives.ball_indices, (11, 12), drives.ball),
        ):
            driven = np.flatnonzero(table[:, list(column)].any(axis=1))
            if driven.size:
                out.setdefault("motors", f'joint "{self.dof_name(int(indices[driven[0], 1]))}"')
        for body in self.spec.bodies:
            if not BODY_KINDS[body.body_kind].tree:
                out.setdefault("bodies", f'body "{body.name}" is {body.body_kind}')
        return out

    def _contact_pair(self) -> tuple[str, str] | None:
        """Return two shapes that could collide: on different links, not joined directly, not filtered."""
        solid = [shape for shape in self.shapes if shape.collide]
        if len(solid) < 2:
            return None
        link = {
            WORLD: -1,
            **{name: int(i) for name, i in zip(self.body_names, self.arrays.body_link, strict=True)},
        }
        # Bodies joined directly do not collide; the ground is no such partner, or nothing hinged to it could lie on it.
        joined = {
            frozenset((joint.parent, joint.child))
            for joint in self._joints
            if joint.kind not in ("gear", "distance", "no_slip") and joint.parent != WORLD
        }
        joined |= {frozenset(pair) for pair in self.spec.excluded}
        single = {frozenset(pair) for pair in self.spec.excluded_shapes}
        budget = 100_000
        for i, a in enumerate(solid):
            for b in solid[i + 1 :]:
                budget -= 1
                apart = link[a.body] != link[b.body] and frozenset((a.body, b.body)) not in joined
                if apart and not (a.group and a.group == b.group) and frozenset((a.name, b.name)) not in single:
                    return a.name, b.name
                if budget == 0:  # the search is bounded: this pair counts as colliding
                    return a.name, b.name
        return None

    def _locate(self, name: str) -> tuple[int, int]:
        try:
            return self._joint_index[name]
        except KeyError:
            raise UnknownName("joint", name, f'model "{self.name}"', self._joint_index) from None


def _require_finite(spec: Spec, tree: Tree, arrays: Compiled) -> None:
    """Refuse numbers that are finite one by one and overflow together, naming the body."""

    def fine(numbers: np.ndarray) -> np.ndarray:
        return np.abs(numbers).max(axis=1, initial=0.0) < _HUGE

    bad = ~(fine(arrays.links.inertia) & fine(arrays.links.placement))
    for i in np.flatnonzero(~fine(arrays.body_offset) | np.append(bad, False)[arrays.body_link]):
        raise ModelError(f'body "{spec.bodies[tree.order[i]].name}": its masses, inertias or positions are too large')


def _frozen(array: np.ndarray) -> np.ndarray:
    out = array.copy()
    out.setflags(write=False)
    return out


def _index(joints: tuple[Joint, ...]) -> dict[str, tuple[int, int]]:
    """Return name -> (joint, axis or -1); a joint's name takes precedence over its axis of the same name."""
    out: dict[str, tuple[int, int]] = {}
    for i, joint in enumerate(joints):
        for k, axis in enumerate(joint.axes):
            out[axis.name] = (i, k)
        out[joint.name] = (i, -1)
    return out
