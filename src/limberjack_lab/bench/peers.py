"""Our models in the words of the peers: the same masses, joints and coordinates for MuJoCo and Pinocchio.

Every moving link becomes one body whose frame is the link's: at its joint, hinges and slides along z. Only what all
sides treat alike is carried over: trees of hinge, slide, ball, free, universal, cylindrical, planar and compound
joints, and armature. Anything else is refused by name, since a comparison of different models says nothing.

MuJoCo's coordinates are ours. Pinocchio stores quaternions as (x, y, z, w), and moves a free body by its velocity in
body axes, so that its acceleration is  qdd_linear = R (a + w x v).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from limberjack import errors
from limberjack.model.joints import BALL, FREE, GENERAL, HINGE, PUSH, SLIDE, TURN
from limberjack.model.model import Model
from limberjack.model.spec import Spec
from limberjack.spatial.frames import matrix_from_quaternion, quaternion_from_matrix

__all__ = ["PinocchioTwin", "bare", "mujoco_model", "to_mjcf"]

_CARRIED = {"armature"}
# MuJoCo refuses inertias below 1e-15: a point mass gets this much about its centre [kg m^2].
_LEAST_INERTIA = 1e-14


def bare(model: Model) -> Model:
    """Return the model without dampers, springs, limits, friction and motors in its joints."""
    own = {
        word: None
        for word in (
            "damping",
            "stiffness",
            "rest",
            "friction",
            "limits",
            "limit_stiffness",
            "limit_damping",
            "motor",
        )
    }
    plain = {"damping": 0.0, "stiffness": 0.0, "friction": 0.0, "limits": None, "motor": None}
    spec = model.spec
    joints = [replace(joint, axes=tuple(replace(axis, **plain) for axis in joint.axes), **own) for joint in spec.joints]
    return Model(
        Spec(
            spec.name,
            spec.gravity,
            spec.merge_fixed,
            spec.bodies,
            joints,
            spec.shapes,
            [],
            spec.points,
            spec.excluded,
        )
    )


@dataclass(frozen=True)
class _Link:
    """A moving link: its joint and what hangs on it, in its own frame."""

    name: str
    parent: int
    kind: int
    rotation: np.ndarray  # (3, 3) joint frame in the parent link's frame
    position: np.ndarray  # (3,)
    factors: tuple[tuple[int, np.ndarray, np.ndarray], ...]  # (TURN or PUSH, axis, point) of GENERAL links
    armature: np.ndarray  # (dof,)
    mass: float
    com: np.ndarray
    inertia: np.ndarray  # (3, 3) about the com


def _mass_properties(model: Model, link: int) -> tuple[float, np.ndarray, np.ndarray]:
    """Return mass, com and inertia about the com of all bodies on a link, in its frame."""
    a = model.arrays
    on = np.flatnonzero(a.body_link == link)
    masses = a.body_mass[on]
    turns, offsets = a.body_offset[on, :9].reshape(-1, 3, 3), a.body_offset[on, 9:]
    places = offsets + np.einsum("nij,nj->ni", turns, a.body_com[on])
    mass = float(masses.sum())
    com = masses @ places / mass if mass > 0 else places.mean(axis=0)
    total = np.zeros((3, 3))
    for b, m, turn, place in zip(on, masses, turns, places, strict=True):
        own = a.body_inertia[b][[0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(3, 3)
        d = place - com
        total += turn @ own @ turn.T + m * (d @ d * np.eye(3) - np.outer(d, d))
    return mass, com, 0.5 * (total + total.T)


def _refuse(model: Model, what: str) -> None:
    raise errors.ModelError(f'model "{model.name}" cannot be compared with a peer: {what}')


def _factors(model: Model, i: int, name: str) -> tuple[tuple[int, np.ndarray, np.ndarray], ...]:
    links = model.arrays.links
    out = []
    for f in range(links.factor_start[i], links.factor_start[i + 1]):
        kind, data = int(links.factor_kind[f]), links.factor_data[f]
        if kind not in (TURN, PUSH) or data[6] != 0.0:
            _refuse(model, f'joint "{name}" is neither a row of hinges and slides nor a plain ball')
        out.append((kind, data[:3], data[3:6]))
    return tuple(out)


def _links(model: Model) -> list[_Link]:
    """Return the moving links, or raise for a model that the peers would not treat alike."""
    a = model.arrays
    for word, example in model.features().items():
        if word not in _CARRIED:
            _refuse(model, f"it has {word} ({example})")
    if len(a.drives.place) or len(a.drives.ball_place):
        places = a.drives.place if len(a.drives.place) else a.drives.ball_place
        _refuse(
            model,
            f'joint "{model.dof_name(int(places[0, 1]))}" has a damper, spring or soft limit; see bare()',
        )
    out, tree = [], a.links
    names = [model.joint_names[j] for j in np.flatnonzero(a.joint_link >= 0)]
    for i, name in enumerate(names):
        kind, v = int(tree.kind[i]), slice(int(tree.v_start[i]), int(tree.v_start[i] + tree.dof[i]))
        rotation, position = tree.placement[i, :9].reshape(3, 3), tree.placement[i, 9:]
        if kind == FREE and not (np.array_equal(rotation, np.eye(3)) and tree.parent[i] < 0):
            _refuse(model, f'free joint "{name}" has turned frames')
        if kind in (FREE, BALL) and tree.armature[v].any():
            _refuse(model, f'joint "{name}" has armature on a ball')
        factors = _factors(model, i, name) if kind == GENERAL else ()
        out.append(
            _Link(
                name,
                int(tree.parent[i]),
                kind,
                rotation,
                position,
                factors,
                tree.armature[v],
                *_mass_properties(model, i),
            )
        )
    return out


# MuJoCo


def _numbers(values: Any) -> str:
    return " ".join(repr(float(x)) for x in values)


def _mjcf_joints(link: _Link) -> list[str]:
    if link.kind == FREE:
        return ["<freejoint/>"]
    if link.kind == BALL:
        return ['<joint type="ball"/>']
    factors = link.factors
    if link.kind != GENERAL:
        factors = ((TURN if link.kind == HINGE else PUSH, np.array((0.0, 0.0, 1.0)), np.zeros(3)),)
    out = []
    for (kind, axis, point), armature in zip(factors, link.armature, strict=True):
        rotor = f' armature="{float(armature)!r}"' if armature else ""
        word = "hinge" if kind == TURN else "slide"
        out.append(f'<joint type="{word}" axis="{_numbers(axis)}" pos="{_numbers(point)}"{rotor}/>')
    return out


def _mjcf_inertial(link: _Link) -> str:
    i = link.inertia
    if np.abs(i).max() < _LEAST_INERTIA:
        shape = f'diaginertia="{_numbers([_LEAST_INERTIA] * 3)}"'
    else:
        shape = f'fullinertia="{_numbers([i[0, 0], i[1, 1], i[2, 2], i[0, 1], i[0, 2], i[1, 2]])}"'
    return f'<inertial pos="{_numbers(link.com)}" mass="{link.mass!r}" {shape}/>'


def to_mjcf(model: Model, *, dt: float = 1e-3, integrator: str = "Euler") -> str:
    """Return the model as MJCF without names and without shapes, contacts off.

    Args:
        model: a tree; `bare` makes one comparable.
        dt: time step [s].
        integrator: MuJoCo's word: "Euler", "RK4", "implicit" or "implicitfast".
    """
    lines = [
        '<mujoco><compiler angle="radian" inertiafromgeom="false"/>',
        f'<option timestep="{dt!r}" integrator="{integrator}" gravity="{_numbers(model.gravity)}">',
        '<flag contact="disable"/></option>',
        "<worldbody>",
    ]
    open_links: list[int] = []
    for i, link in enumerate(_links(model)):
        while open_links and open_links[-1] != link.parent:
            lines.append("</body>")
            open_links.pop()
        lines.append(f'<body pos="{_numbers(link.position)}" quat="{_numbers(quaternion_from_matrix(link.rotation))}">')
        lines += [_mjcf_inertial(link), *_mjcf_joints(link)]
        open_links.append(i)
    lines += ["</body>"] * len(open_links) + ["</worldbody></mujoco>"]
    return "\n".join(lines)


def mujoco_model(model: Model, *, dt: float = 1e-3, integrator: str = "Euler") -> Any:
    """Return the model as a compiled `mujoco.MjModel`; its qpos, qvel and qacc are laid out as our q, qd and qdd."""
    mujoco = errors.require("mujoco", extra="bench")
    return mujoco.MjModel.from_xml_string(to_mjcf(model, dt=dt, integrator=integrator))


# Pinocchio

_AXES = {(1.0, 0.0, 0.0): "X", (0.0, 1.0, 0.0): "Y", (0.0, 0.0, 1.0): "Z"}


def _pin_scalar(pin: Any, kind: int, axis: np.ndarray) -> Any:
    """Return Pinocchio's fastest joint for one axis: an aligned one where there is one."""
    letter = _AXES.get((float(axis[0]), float(axis[1]), float(axis[2])))
    if letter:
        return getattr(pin, f"JointModel{'R' if kind == TURN else 'P'}{letter}")()
    unaligned = pin.JointModelRevoluteUnaligned if kind == TURN else pin.JointModelPrismaticUnaligned
    return unaligned(np.array(axis))


def _pin_joint(pin: Any, link: _Link) -> tuple[Any, np.ndarray]:
    """Return Pinocchio's joint for a link, and the link's origin in the frame behind that joint."""
    z, at_joint = np.array((0.0, 0.0, 1.0)), np.zeros(3)
    if link.kind != GENERAL:
        if link.kind in (HINGE, SLIDE):
            return _pin_scalar(pin, TURN if link.kind == HINGE else PUSH, z), at_joint
        return (pin.JointModelSpherical() if link.kind == BALL else pin.JointModelFreeFlyer()), at_joint
    factors = link.factors
    centred = all(kind == TURN and not point.any() for kind, _, point in factors)
    if centred and len(factors) == 2 and abs(factors[0][1] @ factors[1][1]) < 1e-12:
        return pin.JointModelUniversal(np.array(factors[0][1]), np.array(factors[1][1])), at_joint
    joint, behind = pin.JointModelComposite(), np.zeros(3)
    for k, (kind, axis, point) in enumerate(factors):
        # Each axis goes through its own point: there and, after the last, back again.
        joint.addJoint(_pin_scalar(pin, kind, axis), pin.SE3(np.eye(3), point + behind), f"{link.name}:{k}")
        behind = -point
    return joint, behind


class PinocchioTwin:
    """A model in Pinocchio, with the way to and from its coordinates.

    `pin.Data` needs memory that grows with the cube of nv: keep nv <= 300.

    Args:
        model: a tree; `bare` makes one comparable.
    """

    def __init__(self, model: Model) -> None:
        pin = errors.require("pinocchio", extra="bench")
        self.model: Any = pin.Model()
        self.model.gravity = pin.Motion(np.array(model.gravity), np.zeros(3))
        self.joints: list[int] = []
        origins: list[np.ndarray] = []
        records = _links(model)
        for link in records:
            joint, origin = _pin_joint(pin, link)
            above = 0 if link.parent < 0 else self.joints[link.parent]
            shift = np.zeros(3) if link.parent < 0 else origins[link.parent]
            at = np.zeros(3) if link.kind == FREE else shift + link.position
            place = self.model.addJoint(above, joint, pin.SE3(link.rotation, at), f"{len(self.joints)}")
            self.model.appendBodyToJoint(
                place, pin.Inertia(link.mass, link.com, link.inertia), pin.SE3(np.eye(3), origin)
            )
            self.joints.append(place)
            origins.append(origin)
        self.origins = origins
        rotors = np.array([x for link in records for x in link.armature])
        if rotors.any():
            self.model.armature = rotors
        self._order = np.arange(model.nq)
        for place, _ in model.arrays.links.quaternions:
            self._order[place : place + 4] = [place + 1, place + 2, place + 3, place]
        tree = model.arrays.links
        self._free = [(int(tree.q_start[i]), int(tree.v_start[i])) for i in np.flatnonzero(tree.kind == FREE)]

    def q(self, q: np.ndarray) -> np.ndarray:
        """Return Pinocchio's coordinates."""
        return q[self._order]

    def v(self, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        """Return Pinocchio's velocities; forces on the freedoms turn in the same way."""
        out = qd.copy()
        for place, v in self._free:
            out[v : v + 3] = matrix_from_quaternion(q[place + 3 : place + 7]).T @ qd[v : v + 3]
        return out

    def qdd(self, q: np.ndarray, qd: np.ndarray, a: np.ndarray) -> np.ndarray:
        """Return our accelerations from Pinocchio's."""
        out, velocities = np.array(a), self.v(q, qd)
        for place, v in self._free:
            r = matrix_from_quaternion(q[place + 3 : place + 7])
            linear, angular = velocities[v : v + 3], velocities[v + 3 : v + 6]
            out[v : v + 3] = r @ (a[v : v + 3] + np.cross(angular, linear))
        return out
