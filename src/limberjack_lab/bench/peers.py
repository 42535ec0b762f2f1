"""Our models in the words of the peers: the same masses, joints and coordinates for MuJoCo and Pinocchio.

Bodies on fixed joints move as one link, whose frame is that of its joint: hinges and slides along z. Only what all
engines treat alike is carried over: trees of hinge, slide, ball, free, universal, cylindrical, planar and compound
joints, and armature. Anything else is refused by name, since a comparison of different models says nothing.

MuJoCo's coordinates are ours. Pinocchio stores quaternions as (x, y, z, w), and moves a free body by its velocity in
body axes, so that its acceleration is  qdd_linear = R (a + w x v).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

import limberjack as lj
from limberjack import errors
from limberjack_lab.bench.frames import matrix_of, z_to

__all__ = [
    "MujocoRun",
    "PinocchioTwin",
    "bare",
    "joint_rotation",
    "mujoco_model",
    "mujoco_state",
    "numbers",
    "rollout",
    "to_mjcf",
]

# MuJoCo refuses inertias below 1e-15: a point mass gets this much about its centre [kg m^2].
_LEAST_INERTIA = 1e-14
_X, _Y, _Z, _ORIGIN = np.eye(3)[0], np.eye(3)[1], np.eye(3)[2], np.zeros(3)
_FORCES = ("damping", "stiffness", "rest", "friction", "limits", "limit_stiffness", "limit_damping", "motor")


class _Axis(NamedTuple):
    kind: str  # "hinge" or "slide"
    axis: np.ndarray
    point: np.ndarray


_AXES = {
    "hinge": (_Axis("hinge", _Z, _ORIGIN),),
    "slide": (_Axis("slide", _Z, _ORIGIN),),
    "universal": (_Axis("hinge", _X, _ORIGIN), _Axis("hinge", _Y, _ORIGIN)),
    "cylindrical": (_Axis("slide", _Z, _ORIGIN), _Axis("hinge", _Z, _ORIGIN)),
    "planar": (_Axis("slide", _X, _ORIGIN), _Axis("slide", _Y, _ORIGIN), _Axis("hinge", _Z, _ORIGIN)),
    "ball": (),
    "free": (),
}


def bare(model: lj.Model) -> lj.Model:
    """Return the model without dampers, springs, limits, friction and motors."""
    plain = {"damping": 0.0, "stiffness": 0.0, "friction": 0.0, "limits": None, "motor": None}
    none: dict[str, Any] = dict.fromkeys(_FORCES)
    joints = [
        replace(joint, axes=tuple(replace(axis, **plain) for axis in joint.axes), **none)
        for joint in model.spec.joints
    ]  # fmt: skip
    return lj.Model(replace(model.spec, joints=joints, springs=[]))


@dataclass
class _Link:
    """A moving link: its joint and what hangs on it, in its own frame."""

    name: str
    parent: int
    kind: str
    rotation: np.ndarray  # (3, 3) joint frame in the parent link's frame
    position: np.ndarray  # (3,)
    axes: tuple[_Axis, ...]  # none of balls and free joints
    armature: np.ndarray  # (nv,)
    q_start: int
    v_start: int
    bodies: list[tuple[float, np.ndarray, np.ndarray]] = field(default_factory=list)  # mass, com, inertia about it

    def mass_properties(self) -> tuple[float, np.ndarray, np.ndarray]:
        """Return mass, com and inertia about the com of all bodies on the link."""
        mass = sum(m for m, _, _ in self.bodies)
        com = sum((m * c for m, c, _ in self.bodies), np.zeros(3)) / mass if mass > 0 else self.bodies[0][1]
        total = np.zeros((3, 3))
        for m, c, inertia in self.bodies:
            d = c - com
            total += inertia + m * (d @ d * np.eye(3) - np.outer(d, d))
        return float(mass), com, 0.5 * (total + total.T)


def _refuse(model: lj.Model, what: str) -> None:
    raise errors.ModelError(f'model "{model.name}" cannot be compared with a peer: {what}')


def _check(model: lj.Model, joint: Any) -> None:
    """Refuse a joint that the peers would not treat alike."""
    if joint.kind not in (*_AXES, "compound", "fixed") or joint.pitch:
        _refuse(model, f'joint "{joint.name}" is neither a row of hinges and slides nor a plain ball')
    for part in (joint, *joint.axes):
        if any(x is not None and np.any(np.array(x, object)) for x in (part.damping, part.stiffness, part.limits)):
            _refuse(model, f'joint "{part.name}" has a damper, spring or soft limit; see bare()')
    if joint.kind == "free" and tuple(joint.rotation) != (1.0, 0.0, 0.0, 0.0):
        _refuse(model, f'free joint "{joint.name}" has turned frames')
    if joint.kind in ("ball", "free") and joint.armature is not None and np.any(joint.armature):
        _refuse(model, f'joint "{joint.name}" has armature on a ball')


def joint_rotation(joint: Any) -> np.ndarray:
    """Return the rotation of a joint's own axes, the main one along z, in its joint frame."""
    if joint.axis2 is None:
        return z_to(joint.axis)
    x, y = np.array(joint.axis), np.array(joint.axis2)
    y = y - x * (x @ y)
    y /= np.linalg.norm(y)
    return np.column_stack([x, y, np.cross(x, y)])


def _links(model: lj.Model) -> tuple[list[_Link], dict[str, int]]:
    """Return the moving links and the link of each body (-1 = world); refuse what the peers would not treat alike."""
    for word, example in model.features().items():
        if word != "armature":
            _refuse(model, f"it has {word} ({example})")
    links: list[_Link] = []
    # link and frame (R, p) in it, by body
    link_frame: dict[str, tuple[int, np.ndarray, np.ndarray]] = {"world": (-1, np.eye(3), np.zeros(3))}
    for name in model.body_names:
        body = model.body(name)
        joint = model.joint_spec(body.joint)
        _check(model, joint)
        if joint.child != name:
            _refuse(model, f'joint "{joint.name}" stands in the tree the other way round')
        turn, (link, r, p) = joint_rotation(joint), link_frame[joint.parent]
        r, p = r @ matrix_of(np.array(joint.rotation)) @ turn, p + r @ np.array(joint.position)
        if joint.kind != "fixed":
            info = model.joint(joint.name)
            axes = _AXES.get(joint.kind) or tuple(
                _Axis(axis.kind, np.array(axis.axis), np.array(axis.position)) for axis in joint.axes
            )
            rotors = [axis.armature for axis in joint.axes] or joint.armature or 0.0
            armature = np.broadcast_to(np.array(rotors, float), info.nv)
            links.append(_Link(joint.name, link, joint.kind, r, p, axes, armature, info.q_start, info.v_start))
            link, r, p = len(links) - 1, np.eye(3), np.zeros(3)
        back = (matrix_of(np.array(joint.rotation_in_child)) @ turn).T
        r, p = r @ back, p - r @ back @ np.array(joint.position_in_child)
        link_frame[name] = link, r, p
        if link >= 0:
            links[link].bodies.append((body.mass, p + r @ body.com, r @ body.inertia @ r.T))
    return links, {name: link for name, (link, _, _) in link_frame.items()}


def numbers(values: Any) -> str:
    """Return numbers as MJCF has them, with all their digits."""
    return " ".join(repr(float(x)) for x in values)


def _mjcf_joints(link: _Link) -> list[str]:
    if link.kind == "free":
        return ["<freejoint/>"]
    if link.kind == "ball":
        return ['<joint type="ball"/>']
    out = []
    for (kind, axis, point), armature in zip(link.axes, link.armature, strict=True):
        rotor = f' armature="{float(armature)!r}"' if armature else ""
        out.append(f'<joint type="{kind}" axis="{numbers(axis)}" pos="{numbers(point)}"{rotor}/>')
    return out


def _mjcf_inertial(link: _Link) -> str:
    mass, com, i = link.mass_properties()
    if np.abs(i).max() < _LEAST_INERTIA:
        shape = f'diaginertia="{numbers([_LEAST_INERTIA] * 3)}"'
    else:
        shape = f'fullinertia="{numbers([i[0, 0], i[1, 1], i[2, 2], i[0, 1], i[0, 2], i[1, 2]])}"'
    return f'<inertial pos="{numbers(com)}" mass="{mass!r}" {shape}/>'


def to_mjcf(model: lj.Model, *, dt: float = 1e-3, integrator: str = "Euler") -> str:
    """Return the model as MJCF without names and without shapes, contacts off.

    Args:
        model: a tree; `bare` makes one comparable.
        dt: time step [s].
        integrator: MuJoCo's word: "Euler", "RK4", "implicit" or "implicitfast".
    """
    lines = [
        '<mujoco><compiler angle="radian" inertiafromgeom="false"/>',
        f'<option timestep="{dt!r}" integrator="{integrator}" gravity="{numbers(model.gravity)}">',
        '<flag contact="disable"/></option>',
        "<worldbody>",
    ]
    open_links: list[int] = []
    for i, link in enumerate(_links(model)[0]):
        while open_links and open_links[-1] != link.parent:
            lines.append("</body>")
            open_links.pop()
        lines.append(f'<body pos="{numbers(link.position)}" xyaxes="{numbers(link.rotation.T[:2].ravel())}">')
        lines += [_mjcf_inertial(link), *_mjcf_joints(link)]
        open_links.append(i)
    lines += ["</body>"] * len(open_links) + ["</worldbody></mujoco>"]
    return "\n".join(lines)


def mujoco_model(model: lj.Model, *, dt: float = 1e-3, integrator: str = "Euler") -> Any:
    """Return the model as a compiled `mujoco.MjModel`; its qpos, qvel and qacc are laid out as our q, qd and qdd."""
    mujoco = errors.require("mujoco", extra="bench")
    return mujoco.MjModel.from_xml_string(to_mjcf(model, dt=dt, integrator=integrator))


def mujoco_state(mujoco: Any, model: Any, q: np.ndarray, qd: np.ndarray) -> tuple[Any, Callable[[], None]]:
    """Return `mujoco.MjData` in a state, and the function that sets this state again."""
    data = mujoco.MjData(model)

    def restart() -> None:
        data.qpos[:], data.qvel[:] = q, qd

    restart()
    return data, restart


class MujocoRun:
    """A compiled model of MuJoCo that is stepped and read as `lj.Simulation` is: steps, q, qd, step(n), energy()."""

    def __init__(self, mujoco: Any, model: Any, q: np.ndarray, qd: np.ndarray) -> None:
        model.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_ENERGY)
        self._mujoco, self._model, self.steps = mujoco, model, 0
        self._data, _ = mujoco_state(mujoco, model, q, qd)
        self.q, self.qd = self._data.qpos, self._data.qvel

    def step(self, n: int = 1) -> None:
        """Take n steps; raise `Diverged` when MuJoCo has lost its state, which it then starts anew from zero."""
        self._mujoco.mj_step(self._model, self._data, nstep=n)
        self.steps += n
        kinds = self._mujoco.mjtWarning
        bad = (kinds.mjWARN_BADQPOS, kinds.mjWARN_BADQVEL, kinds.mjWARN_BADQACC)
        if any(self._data.warning[int(kind)].number > 0 for kind in bad):
            raise errors.Diverged("no longer finite", "MuJoCo", self.steps, float(self._data.time))

    def energy(self) -> Any:
        """Return the energies at this moment [J]."""
        self._mujoco.mj_forward(self._model, self._data)
        potential, kinetic = (float(x) for x in self._data.energy)
        return SimpleNamespace(potential=potential, kinetic=kinetic, total=potential + kinetic)


def rollout(
    mujoco: Any, model: Any, q: np.ndarray, qd: np.ndarray, *, threads: int = 1, wrenches: np.ndarray | None = None
) -> tuple[Callable[[int], None], np.ndarray]:
    """Return MuJoCo's own loop over figures, which runs in C++, as a function of the steps; and qd after one step.

    Args:
        mujoco: the module.
        model: of one figure.
        q: (figures, nq) where each starts.
        qd: (figures, nv).
        threads: of its own.
        wrenches: (nbody, 6) on every figure: force, then torque.
    """
    loops, spec = errors.require("mujoco.rollout", extra="bench"), mujoco.mjtState.mjSTATE_FULLPHYSICS
    own = [mujoco.MjData(model) for _ in range(threads)]
    start = np.zeros((len(q), mujoco.mj_stateSize(model, spec)))
    for row, at, speed in zip(start, q, qd, strict=True):
        own[0].qpos[:], own[0].qvel[:], own[0].time = at, speed, 0.0
        mujoco.mj_getState(model, own[0], row, spec)
    runner, control = loops.Rollout(nthread=threads if threads > 1 else 0), {}
    if wrenches is not None:
        control = {"control": wrenches.reshape(1, 1, -1), "control_spec": int(mujoco.mjtState.mjSTATE_XFRC_APPLIED)}

    def run(steps: int) -> Any:
        return runner.rollout(model, own, start, nstep=steps, **control)[0]

    # time, q, qd stand first in MuJoCo's state
    return run, run(1)[:, 0, 1 + model.nq : 1 + model.nq + model.nv].copy()


_LETTERS = {(1.0, 0.0, 0.0): "X", (0.0, 1.0, 0.0): "Y", (0.0, 0.0, 1.0): "Z"}


def _pin_scalar(pin: Any, kind: str, axis: np.ndarray) -> Any:
    """Return Pinocchio's fastest joint for one axis: an aligned one where there is one."""
    letter = _LETTERS.get((float(axis[0]), float(axis[1]), float(axis[2])))
    if letter:
        return getattr(pin, f"JointModel{'R' if kind == 'hinge' else 'P'}{letter}")()
    unaligned = pin.JointModelRevoluteUnaligned if kind == "hinge" else pin.JointModelPrismaticUnaligned
    return unaligned(np.array(axis))


def _pin_joint(pin: Any, link: _Link) -> tuple[Any, np.ndarray]:
    """Return Pinocchio's joint for a link, and the link's origin in the frame behind that joint."""
    if link.kind in ("ball", "free"):
        return (pin.JointModelSpherical() if link.kind == "ball" else pin.JointModelFreeFlyer()), np.zeros(3)
    if link.kind in ("hinge", "slide"):
        return _pin_scalar(pin, link.kind, _Z), np.zeros(3)
    axes = link.axes
    centred = all(kind == "hinge" and not point.any() for kind, _, point in axes)
    if centred and len(axes) == 2 and abs(axes[0].axis @ axes[1].axis) < 1e-12:
        return pin.JointModelUniversal(np.array(axes[0].axis), np.array(axes[1].axis)), np.zeros(3)
    joint, behind = pin.JointModelComposite(), np.zeros(3)
    for k, (kind, axis, point) in enumerate(axes):
        # Each axis goes through its own point: there and, after the last, back again.
        joint.addJoint(_pin_scalar(pin, kind, axis), pin.SE3(np.eye(3), point + behind), f"{link.name}:{k}")
        behind = -point
    return joint, behind


class PinocchioTwin:
    """A model in Pinocchio, with the way to and from its coordinates.

    `pin.Data` needs memory that grows with the cube of nv: keep nv <= 300.

    Args:
        model: a tree; `bare` makes one comparable.

    Attributes:
        model: Pinocchio's.
        joints: its number of each link's joint.
        link_of: the link of each body by name; -1 = world.
    """

    def __init__(self, model: lj.Model) -> None:
        pin = errors.require("pinocchio", extra="bench")
        self.model: Any = pin.Model()
        self.model.gravity = pin.Motion(np.array(model.gravity), np.zeros(3))
        self.joints: list[int] = []
        origins: list[np.ndarray] = []
        links, self.link_of = _links(model)
        for link in links:
            joint, origin = _pin_joint(pin, link)
            above = 0 if link.parent < 0 else self.joints[link.parent]
            shift = np.zeros(3) if link.parent < 0 else origins[link.parent]
            at = np.zeros(3) if link.kind == "free" else shift + link.position
            number = self.model.addJoint(above, joint, pin.SE3(link.rotation, at), f"{len(self.joints)}")
            inertia = pin.Inertia(*link.mass_properties())
            self.model.appendBodyToJoint(number, inertia, pin.SE3(np.eye(3), origin))
            self.joints.append(number)
            origins.append(origin)
        rotors = np.concatenate([link.armature for link in links])
        if rotors.any():
            self.model.armature = rotors
        self._free = [(link.q_start, link.v_start) for link in links if link.kind == "free"]
        self._order = np.arange(model.nq)
        balls = [link.q_start for link in links if link.kind == "ball"]
        for w in (*balls, *(q + 3 for q, _ in self._free)):
            self._order[w : w + 4] = [w + 1, w + 2, w + 3, w]

    def aba(self, q: np.ndarray, qd: np.ndarray) -> tuple[Callable[[], Any], np.ndarray]:
        """Return the articulated body algorithm at a state without joint forces, to be timed, and our qdd by it."""
        pin = errors.require("pinocchio", extra="bench")
        model, data, at, v, tau = self.model, self.model.createData(), self.q(q), self.v(q, qd), np.zeros_like(qd)
        return lambda: pin.aba(model, data, at, v, tau), self.qdd(q, qd, pin.aba(model, data, at, v, tau))

    def in_parallel(
        self, q: np.ndarray, qd: np.ndarray, tau: np.ndarray | None = None, threads: int = 1
    ) -> tuple[Callable[[], Any], np.ndarray]:
        """Return `abaInParallel` of the states (figures, nq) and (figures, nv), and what it fills (nv, figures)."""
        pin = errors.require("pinocchio", extra="bench")
        forces = np.zeros_like(qd) if tau is None else tau
        states = list(zip(q, qd, forces, strict=True))
        inputs = [[self.q(q) for q, _, _ in states], [self.v(q, qd) for q, qd, _ in states],
                  [self.v(q, tau) for q, _, tau in states]]  # fmt: skip
        columns = [np.asfortranarray(np.array(one).T) for one in inputs]
        pool, a = pin.ModelPool(self.model, threads), np.zeros_like(columns[1], order="F")
        return lambda: pin.abaInParallel(threads, pool, *columns, a), a

    def q(self, q: np.ndarray) -> np.ndarray:
        """Return Pinocchio's coordinates."""
        return q[self._order]

    def v(self, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        """Return Pinocchio's velocities; generalised forces turn in the same way."""
        out = qd.copy()
        for w, v in self._free:
            out[v : v + 3] = matrix_of(q[w + 3 : w + 7]).T @ qd[v : v + 3]
        return out

    def qdd(self, q: np.ndarray, qd: np.ndarray, a: np.ndarray) -> np.ndarray:
        """Return our accelerations from Pinocchio's."""
        out, velocities = np.array(a), self.v(q, qd)
        for w, v in self._free:
            linear, angular = velocities[v : v + 3], velocities[v + 3 : v + 6]
            out[v : v + 3] = matrix_of(q[w + 3 : w + 7]) @ (a[v : v + 3] + np.cross(angular, linear))
        return out
