"""Free bodies on balls in maximal coordinates: whole runs of ours, of MuJoCo and of PyBullet, frame by frame.

All get the same bodies, shapes, joints and friction; each has its own contacts and its own solver.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from limberjack.errors import ModelError
from limberjack.model.model import Model
from limberjack.model.spec import WORLD
from limberjack.reduced.dynamics import forward_kinematics
from limberjack.simulation.simulation import Simulation
from limberjack.spatial.frames import matrix_from_quaternion

__all__ = ["FRAME", "Bodies", "Run", "run_mujoco", "run_ours", "run_pybullet", "to_free_mjcf"]

# Length of a frame [s]; engines take as many steps as it holds.
FRAME = 1.0 / 60.0
# Bodies farther away than this are lost [m].
_LOST = 1e4


@dataclass
class Run:
    """What a run of some frames showed.

    Attributes:
        ms: time of each frame, of this thread's processor [ms].
        gap: largest distance of a joint's two ends at the end of any frame [m].
        speed: (n,) of the coms at the end [m/s].
        penetration: deepest overlap at the end [m].
        contacts: at the end.
        energy: what the run gained or lost [J].
        places: (frames kept, n, 3) coms at the frames asked for.
        lost: whether the run blew up.
        short: whether time ran out before its last frame; what it shows is then of another moment.
        asleep: bodies asleep at the end.
    """

    ms: list[float] = field(default_factory=list)
    gap: float = 0.0
    speed: np.ndarray = field(default_factory=lambda: np.zeros(0))
    penetration: float = 0.0
    contacts: int = 0
    energy: float | None = None
    released: float = 0.0
    places: list[np.ndarray] = field(default_factory=list)
    lost: bool = False
    short: bool = False
    asleep: int = 0

    @property
    def mean(self) -> float:
        """The mean time of a frame [ms]."""
        return float(np.mean(self.ms)) if self.ms else float("nan")

    @property
    def last(self) -> float:
        """The mean time of the last ten frames [ms]."""
        return float(np.mean(self.ms[-10:])) if self.ms else float("nan")


class _Ball(NamedTuple):
    a: int  # -1 = world
    b: int
    at_a: np.ndarray
    at_b: np.ndarray


class Bodies:
    """The bodies of a model as an engine of free bodies takes them.

    Args:
        model: bodies whose frames are their coms, free, fixed to the world, or on balls.
    """

    def __init__(self, model: Model) -> None:
        joints = [model.joint_spec(name) for name in model.joint_names]
        places, rotations = forward_kinematics(model, model.q0)
        # MuJoCo eliminates bodies in their order, the last first: least is left to do with those of two joints last,
        # and knots of many ordered in space
        count = Counter(body for joint in joints for body in (joint.parent, joint.child))
        knots = [i for i in range(model.body_count) if count[model.body_names[i]] > 2]
        others = [i for i in range(model.body_count) if count[model.body_names[i]] <= 2]
        order = sorted(knots, key=lambda i: tuple(places[i].round(6))) + others
        self.model, self.names = model, [model.body_names[i] for i in order]
        self.place_of = np.argsort(order)  # of the model's bodies among these
        self.specs = [model.body(name) for name in self.names]
        self.places, self.rotations = places[order], rotations[order]
        self.held = model.arrays.body_link[order] < 0
        index = {name: i for i, name in enumerate(self.names)} | {WORLD: -1}
        self.balls: list[_Ball] = []
        for name, joint in zip(model.joint_names, joints, strict=True):
            if joint.kind == "ball":
                ends = np.array(joint.position), np.array(joint.position_in_child)
                self.balls.append(_Ball(index[joint.parent], index[joint.child], *ends))
            elif joint.kind not in ("free", "fixed"):
                raise ModelError(f'joint "{name}" is of kind {joint.kind}; engines of free bodies get balls only')
        for name, spec in zip(self.names, self.specs, strict=True):
            if np.abs(spec.com).max() > 0.0:
                raise ModelError(f'the com of body "{name}" is not the origin of its frame')
        self.shapes: dict[int, list[Any]] = {i: [] for i in range(-1, len(self.names))}
        self.seen: dict[int, list[Any]] = {i: [] for i in range(-1, len(self.names))}
        for shape in model.shapes:
            self.seen[index[shape.body]].append(shape)
            if shape.collide:
                self.shapes[index[shape.body]].append(shape)
        self._ends = np.array([(ball.a, ball.b) for ball in self.balls], int).reshape(-1, 2)
        self._points = np.array([(ball.at_a, ball.at_b) for ball in self.balls]).reshape(-1, 2, 3)

    def gap(self, places: np.ndarray, rotations: np.ndarray) -> float:
        """Return the largest distance of the two ends of a ball, from places (n, 3) and quaternions (n, 4) [m]."""
        places = np.vstack([places, np.zeros(3)])
        turns = matrix_from_quaternion(np.vstack([rotations, (1.0, 0.0, 0.0, 0.0)]))
        a, b = (
            places[self._ends[:, k]] + np.einsum("nij,nj->ni", turns[self._ends[:, k]], self._points[:, k])
            for k in range(2)
        )
        return float(np.linalg.norm(a - b, axis=1).max(initial=0.0))


def _frames(run: Run, frames: int, cap: float, advance: Callable[[], None], look: Callable[[int], None]) -> None:
    """Take frames until all are done, the run is lost, or `cap` seconds are over."""
    begin = time.perf_counter()
    for frame in range(frames):
        start = time.thread_time()
        advance()
        run.ms.append(1e3 * (time.thread_time() - start))
        look(frame)
        if run.lost or time.perf_counter() - begin > cap:
            run.short = frame < frames - 1
            break


def run_ours(
    model: Model, method: Any, dt: float, frames: int, *, keep: tuple[int, ...] = (), cap: float = 120.0
) -> Run:
    """Return a run of ours; a step that fails ends it.

    Args:
        model: what moves.
        method: how.
        dt: step [s].
        frames: of 1/60 s.
        keep: frames whose places are kept.
        cap: most seconds.
    """
    from limberjack.errors import LimberjackError

    sim, steps, run = Simulation(model, method, dt=dt), max(1, round(FRAME / dt)), Run()
    sim.step(0)
    before = sim.energy()

    def advance() -> None:
        try:
            sim.step(steps)
        except LimberjackError:
            run.lost = True

    def look(frame: int) -> None:
        run.gap = max(run.gap, sim.joint_error().metres)
        run.released = max(run.released, before.potential - sim.energy().potential)
        if frame in keep:
            run.places.append(sim.positions)

    _frames(run, frames, cap, advance, look)
    run.speed = np.linalg.norm(sim.velocities[:, 3:], axis=1)
    run.energy = sim.energy().total - before.total
    run.penetration, run.contacts = float(sim.stats.get("penetration", 0.0)), int(sim.stats.get("contacts", 0))
    run.asleep = int(sim.stats.get("asleep", 0))
    return run


# MuJoCo


def _numbers(values: Any) -> str:
    return " ".join(repr(float(x)) for x in values)


def _geom(shape: Any, solref: float) -> str:
    size: tuple[float, ...] = {
        "box": lambda: tuple(0.5 * x for x in shape.size),
        "sphere": lambda: (shape.size[0],),
        "capsule": lambda: (shape.size[0], 0.5 * shape.size[1]),
        "plane": lambda: (50.0, 50.0, 1.0),
    }[shape.kind]()
    return (
        f'<geom type="{shape.kind}" size="{_numbers(size)}" pos="{_numbers(shape.position)}" '
        f'quat="{_numbers(shape.rotation)}" friction="{shape.friction} 0.005 0.0001" solref="{solref} 1"/>'
    )


def to_free_mjcf(bodies: Bodies, dt: float) -> str:
    """Return MJCF of the bodies; constraints and contacts as stiff as the step allows (solref 2 dt)."""
    solref = 2.0 * dt
    lines = [
        '<mujoco><compiler inertiafromgeom="false"/>',
        f'<option timestep="{dt!r}" tolerance="1e-8" gravity="{_numbers(bodies.model.gravity)}"/>',
        "<worldbody>",
        *(_geom(shape, solref) for shape in bodies.shapes[-1]),
    ]
    for i, spec in enumerate(bodies.specs):
        where = f'pos="{_numbers(bodies.places[i])}" quat="{_numbers(bodies.rotations[i])}"'
        lines.append(f'<body name="body{i}" {where}>')
        if not bodies.held[i]:
            m = np.asarray(spec.inertia)
            inertia = _numbers((m[0, 0], m[1, 1], m[2, 2], m[0, 1], m[0, 2], m[1, 2]))
            lines.append(f'<freejoint/><inertial pos="0 0 0" mass="{float(spec.mass)!r}" fullinertia="{inertia}"/>')
        lines += [*(_geom(shape, solref) for shape in bodies.shapes[i]), "</body>"]
    lines.append("</worldbody><equality>")
    for ball in bodies.balls:
        # a joint to the world hangs from the body: MuJoCo finds the other end
        body, point, other = (ball.b, ball.at_b, "") if ball.a < 0 else (ball.a, ball.at_a, f' body2="body{ball.b}"')
        lines.append(f'<connect body1="body{body}"{other} anchor="{_numbers(point)}" solref="{solref} 1"/>')
    lines.append("</equality><contact>")
    lines += [f'<exclude body1="body{ball.a}" body2="body{ball.b}"/>' for ball in bodies.balls if ball.a >= 0]
    return "\n".join([*lines, "</contact></mujoco>"])


def run_mujoco(
    mujoco: Any, bodies: Bodies, dt: float, frames: int, *, keep: tuple[int, ...] = (), cap: float = 120.0,
    sleep: bool = False,
) -> Run:  # fmt: skip
    """Return a run of MuJoCo's Newton solver; `sleep` lets it put bodies to sleep."""
    model = mujoco.MjModel.from_xml_string(to_free_mjcf(bodies, dt))
    if sleep:
        model.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_SLEEP)
    data, steps, run = mujoco.MjData(model), max(1, round(FRAME / dt)), Run()

    def energy() -> float:
        mujoco.mj_energyPos(model, data)
        mujoco.mj_energyVel(model, data)
        return float(data.energy.sum())

    mujoco.mj_forward(model, data)
    before = energy()

    def look(frame: int) -> None:
        run.lost = not np.isfinite(data.qpos).all() or float(np.abs(data.qpos).max()) > _LOST
        run.gap = max(run.gap, bodies.gap(data.xpos[1:], data.xquat[1:]))
        if frame in keep:
            run.places.append(data.xpos[1:][bodies.place_of])

    _frames(run, frames, cap, lambda: mujoco.mj_step(model, data, nstep=steps), look)
    mujoco.mj_forward(model, data)
    run.energy = energy() - before
    run.speed = np.linalg.norm(data.qvel.reshape(-1, 6)[:, :3], axis=1)
    run.penetration = -float(data.contact.dist.min()) if data.ncon else 0.0
    run.contacts = int(data.ncon)
    return run


# PyBullet


def _turned_round(q: Any) -> list[float]:
    """Return a quaternion with its scalar last."""
    return [q[1], q[2], q[3], q[0]]


def _bullet_shape(p: Any, shapes: list[Any], made: dict[str, int]) -> int:
    """Return PyBullet's number of a body's shapes, made once for all bodies that have the same."""
    if not shapes:
        return -1
    key = repr([(one.kind, one.size, one.position, one.rotation) for one in shapes])
    if key not in made:
        kinds = {"box": p.GEOM_BOX, "sphere": p.GEOM_SPHERE, "capsule": p.GEOM_CAPSULE}
        made[key] = p.createCollisionShapeArray(
            shapeTypes=[kinds[one.kind] for one in shapes],
            radii=[0.0 if one.kind == "box" else one.size[0] for one in shapes],
            lengths=[one.size[1] if one.kind == "capsule" else 0.0 for one in shapes],
            halfExtents=[[0.5 * x for x in one.size] if one.kind == "box" else [0.0] * 3 for one in shapes],
            collisionFramePositions=[list(one.position) for one in shapes],
            collisionFrameOrientations=[_turned_round(one.rotation) for one in shapes],
        )
    return made[key]


def _bullet_bodies(p: Any, bodies: Bodies) -> list[int]:
    made: dict[str, int] = {}
    for shape in bodies.shapes[-1]:
        if shape.kind == "plane":
            number = p.createCollisionShape(p.GEOM_PLANE)
        else:
            number = _bullet_shape(p, [shape], made)
        own = p.createMultiBody(0, number, useMaximalCoordinates=1)
        p.changeDynamics(own, -1, lateralFriction=shape.friction)
    out = []
    for i, spec in enumerate(bodies.specs):
        mass = 0.0 if bodies.held[i] else float(spec.mass)
        # a body without shapes would not move at all
        own = p.createMultiBody(
            mass, _bullet_shape(p, bodies.seen[i], made), basePosition=list(bodies.places[i]),
            baseOrientation=_turned_round(bodies.rotations[i]), useMaximalCoordinates=1,
        )  # fmt: skip
        friction = bodies.shapes[i][0].friction if bodies.shapes[i] else 0.0
        p.changeDynamics(own, -1, linearDamping=0, angularDamping=0, lateralFriction=friction)
        if not bodies.shapes[i]:
            p.setCollisionFilterGroupMask(own, -1, 0, 0)
        out.append(own)
    for ball in bodies.balls:
        a, b = (ball.b, ball.a) if ball.a < 0 else (ball.a, ball.b)
        at_a, at_b = (ball.at_b, ball.at_a) if ball.a < 0 else (ball.at_a, ball.at_b)
        other = out[b] if b >= 0 else -1
        joint = p.createConstraint(out[a], -1, other, -1, p.JOINT_POINT2POINT, [0, 0, 0], list(at_a), list(at_b))
        p.changeConstraint(joint, maxForce=1e9)
        if b >= 0:
            p.setCollisionFilterPair(out[a], out[b], -1, -1, 0)
    return out


def run_pybullet(
    p: Any, bodies: Bodies, dt: float, frames: int, *, keep: tuple[int, ...] = (), cap: float = 120.0
) -> Run:
    """Return a run of PyBullet in maximal coordinates with 50 iterations; inertias are those of its own shapes."""
    client, run, steps = p.connect(p.DIRECT), Run(), max(1, round(FRAME / dt))
    try:
        p.setGravity(*bodies.model.gravity)
        p.setTimeStep(dt)
        p.setPhysicsEngineParameter(numSolverIterations=50, numSubSteps=0)
        own = _bullet_bodies(p, bodies)

        def advance() -> None:
            for _ in range(steps):
                p.stepSimulation()

        def look(frame: int) -> None:
            if frame % 5 and frame != frames - 1 and frame not in keep:
                return
            poses = [p.getBasePositionAndOrientation(i) for i in own]
            places = np.array([place for place, _ in poses])
            run.lost = not np.isfinite(places).all() or float(np.abs(places).max()) > _LOST
            run.gap = max(run.gap, bodies.gap(places, np.array([(q[3], q[0], q[1], q[2]) for _, q in poses])))
            if frame in keep:
                run.places.append(places[bodies.place_of])

        _frames(run, frames, cap, advance, look)
        run.speed = np.array([np.linalg.norm(p.getBaseVelocity(i)[0]) for i in own])
        depths = [-one[8] for one in p.getContactPoints() or ()]
        run.penetration, run.contacts = max(depths, default=0.0), len(depths)
    finally:
        p.disconnect(client)
    return run
