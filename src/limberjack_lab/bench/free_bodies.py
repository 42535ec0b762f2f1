"""Free bodies on ball joints in maximal coordinates: whole runs of ours and of peers, frame by frame.

All get the same bodies, shapes, joints and friction; each has its own contacts and its own solver.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import limberjack as lj
from limberjack import errors
from limberjack_lab.bench.frames import rotate
from limberjack_lab.bench.peers import numbers

__all__ = ["FRAME", "Bodies", "Run", "connects", "run_mujoco", "run_ours", "run_pybullet", "run_rapier", "to_free_mjcf"]

# Length of a frame [s]; engines take as many steps as it holds.
FRAME = 1.0 / 60.0
# Bodies farther away than this are lost [m].
_LOST = 1e4


@dataclass
class Run:
    """What a run of some frames showed."""

    ms: list[float] = field(default_factory=list)  # processor time of each frame, of the thread that computes [ms]
    # how much of each joints took, by the last call's share, where the method counts it [ms]
    joints_ms: list[float] = field(default_factory=list)
    # largest distance of a joint's two points at the end of each frame [m]
    gaps: list[float] = field(default_factory=list)
    speed: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (n,) of the coms at the end [m/s]
    penetration: float = 0.0  # deepest overlap at the end [m]
    contacts: int = 0  # at the end
    energy: float | None = None  # what the run gained or lost [J]
    released: float = 0.0  # the most potential energy the run has set free [J]
    positions: list[np.ndarray] = field(default_factory=list)  # (frames kept, n, 3) at the frames asked for
    lost: bool = False  # whether the run diverged
    short: bool = False  # whether time ran out before its last frame; what it shows is then of another moment
    asleep: int = 0  # bodies asleep at the end
    problem: str = ""  # what ended it

    @property
    def gap(self) -> float:
        """The largest gap of all frames [m]."""
        return max(self.gaps, default=0.0)

    @property
    def mean(self) -> float:
        """The mean time of a frame [ms]."""
        return float(np.mean(self.ms)) if self.ms else float("nan")

    @property
    def last(self) -> float:
        """The mean time of the last ten frames [ms]."""
        return float(np.mean(self.ms[-10:])) if self.ms else float("nan")


class Bodies:
    """The bodies of a model as an engine of free bodies takes them: poses of their coms, ball joints, shapes.

    Args:
        model: bodies that are free, fixed to the world, or on ball joints.
        reorder: list bodies of two joints last, which leaves least to eliminate in nets.

    Attributes:
        names: of the bodies, in the order used here.
        index: of the model's bodies among these.
        positions: (n, 3) coms at the start.
        rotations: (n, 4) body axes at the start.
        fixed: (n,) whether fixed to the world.
        ends: (joints, 2) bodies of each ball joint or hinge; -1 = world.
        points: (joints, 2, 3) its points in the two bodies, from their coms.
        hinges: axis, the same in both bodies, and limits by the number of the joint.
        shapes: that collide, by body; -1 = world.
        drawn: all shapes, by body.
    """

    def __init__(self, model: lj.Model, *, reorder: bool = True) -> None:
        joints = [model.joint_spec(name) for name in model.joint_names]
        positions, self.rotations = lj.forward_kinematics(model, model.q0)
        order = list(range(model.body_count))
        if reorder:
            # MuJoCo eliminates bodies in their order, the last first: knots of many joints first, ordered in space
            count = Counter(body for joint in joints for body in (joint.parent, joint.child))
            knots = [i for i in order if count[model.body_names[i]] > 2]
            others = [i for i in order if count[model.body_names[i]] <= 2]
            order = sorted(knots, key=lambda i: tuple(positions[i].round(6))) + others
        self.model, self.names = model, [model.body_names[i] for i in order]
        self.index = np.argsort(order)
        self.specs = [model.body(name) for name in self.names]
        self.com = np.array([spec.com for spec in self.specs])
        self.rotations = self.rotations[order]
        self.positions = positions[order] + rotate(self.rotations, self.com)
        self.fixed = np.array([model.joint_spec(spec.joint).kind == "fixed" for spec in self.specs])
        index = {name: i for i, name in enumerate(self.names)} | {"world": -1}
        com = np.vstack([self.com, np.zeros(3)])
        ends, points = [], []
        self.hinges: dict[int, tuple[Any, Any]] = {}
        for joint in joints:
            if joint.kind in ("ball", "hinge"):
                a, b = index[joint.parent], index[joint.child]
                if joint.kind == "hinge":
                    self.hinges[len(ends)] = (tuple(joint.axis), joint.limits)
                ends.append((a, b))
                points.append((np.array(joint.position) - com[a], np.array(joint.position_in_child) - com[b]))
            elif joint.kind not in ("free", "fixed") or (joint.kind == "fixed" and joint.parent != "world"):
                raise errors.ModelError(
                    f'joint "{joint.name}" is {joint.kind}; engines of free bodies get ball joints and hinges only'
                )
        self.ends, self.points = np.array(ends, int).reshape(-1, 2), np.array(points).reshape(-1, 2, 3)
        self.shapes: dict[int, list[Any]] = {i: [] for i in range(-1, len(self.names))}
        self.drawn: dict[int, list[Any]] = {i: [] for i in range(-1, len(self.names))}
        for shape in model.shapes:
            self.drawn[index[shape.body]].append(shape)
            if shape.collide:
                self.shapes[index[shape.body]].append(shape)

    def overlap(self, positions: np.ndarray, rotations: np.ndarray) -> float:
        """Return the deepest overlap at given coms (n, 3) and quaternions (n, 4), by our own detection [m]."""
        query = lj.CollisionQuery(self.model)
        at = (positions - rotate(rotations, self.com))[self.index]
        query.find(at, np.ascontiguousarray(rotations[self.index]))
        return float(max(np.max(query.depths, initial=0.0), 0.0))

    def gap(self, positions: np.ndarray, rotations: np.ndarray) -> float:
        """Return the largest distance of the two points of a joint, from coms (n, 3) and quaternions (n, 4) [m]."""
        positions = np.vstack([positions, np.zeros(3)])
        rotations = np.vstack([rotations, (1.0, 0.0, 0.0, 0.0)])
        a, b = (
            positions[i] + rotate(rotations[i], x) for i, x in zip(self.ends.T, self.points.swapaxes(0, 1), strict=True)
        )
        return float(np.linalg.norm(a - b, axis=1).max(initial=0.0))


def _frames(
    run: Run,
    frames: int,
    cap: float,
    advance: Callable[[], None],
    look: Callable[[int], None],
    clock: Callable[[], float] = time.thread_time,
) -> None:
    """Take frames until all are done, the run is lost, or `cap` seconds are over."""
    begin = time.perf_counter()
    for frame in range(frames):
        start = clock()
        advance()
        run.ms.append(1e3 * (clock() - start))
        look(frame)
        if run.lost or time.perf_counter() - begin > cap:
            run.short = frame < frames - 1
            break


def run_ours(
    sim: lj.Simulation, frames: int, *, keep: tuple[int, ...] = (), cap: float = 120.0, drive: Any = None
) -> Run:
    """Return a run of ours; a step that fails ends it.

    Args:
        sim: the simulation at its start.
        frames: of 1/60 s.
        keep: frames whose positions are kept.
        cap: most seconds.
        drive: called before each step, or None.
    """
    steps, run = max(1, round(FRAME / sim.dt)), Run()
    sim.step(0)
    before = sim.energy()

    def advance() -> None:
        try:
            for n in (steps,) if drive is None else (1,) * steps:
                if drive is not None:
                    drive(sim)
                sim.step(n)
        except lj.LimberjackError as error:
            run.lost, run.problem = True, str(error)

    def look(frame: int) -> None:
        run.joints_ms.append(run.ms[-1] * (sim.stats.get("joint_share") or 0.0))
        run.gaps.append(sim.joint_error().metres)
        run.released = max(run.released, before.potential - sim.energy().potential)
        if frame in keep:
            run.positions.append(sim.positions)

    _frames(run, frames, cap, advance, look)
    stats = sim.stats
    run.speed = np.linalg.norm(sim.velocities[:, 3:], axis=1)
    run.energy = sim.energy().total - before.total
    run.penetration, run.contacts = float(stats.get("penetration", 0.0)), int(stats.get("contacts", 0))
    run.asleep = int(stats.get("asleep", 0))
    return run


def _geom(shape: Any, solref: float) -> str:
    size: tuple[float, ...] = {
        "box": lambda: tuple(0.5 * x for x in shape.size),
        "sphere": lambda: (shape.size[0],),
        "capsule": lambda: (shape.size[0], 0.5 * shape.size[1]),
        "plane": lambda: (50.0, 50.0, 1.0),
    }[shape.kind]()
    return (
        f'<geom type="{shape.kind}" size="{numbers(size)}" pos="{numbers(shape.position)}" '
        f'quat="{numbers(shape.rotation)}" friction="{shape.friction} 0.005 0.0001" solref="{solref} 1"/>'
    )


def connects(bodies: Bodies, first: int, base: np.ndarray, dt: float) -> list[str]:
    """Return MuJoCo's constraints for the joints from the `first` on; `base` has the coms in MuJoCo's body frames."""
    lines = []
    for (a, b), (at_a, at_b) in zip(bodies.ends[first:], bodies.points[first:], strict=True):
        # a joint to the world is given in the body: MuJoCo finds the other end
        body, point, other = (b, at_b, "") if a < 0 else (a, at_a, f' body2="body{b}"')
        anchor = numbers(point + base[body])
        lines.append(f'<connect body1="body{body}"{other} anchor="{anchor}" solref="{2 * dt} 1"/>')
    return lines


def _require_balls(bodies: Bodies) -> None:
    """Raise if there are hinges, which are written for some engines only."""
    if bodies.hinges:
        raise errors.ModelError(f"{len(bodies.hinges)} joints are hinges; this engine gets ball joints only")


def to_free_mjcf(bodies: Bodies, dt: float, *, solver: str = "Newton", contacts: bool = True) -> str:
    """Return MJCF of the bodies; constraints and contacts as stiff as the step allows (solref 2 dt)."""
    _require_balls(bodies)
    solref = 2.0 * dt
    options = f'timestep="{dt!r}" solver="{solver}" gravity="{numbers(bodies.model.gravity)}"'
    lines = [
        '<mujoco><compiler inertiafromgeom="false"/>',
        f'<option {options} tolerance="1e-8"/>'
        if contacts
        else f'<option {options}><flag contact="disable"/></option>',
        "<worldbody>",
        *(_geom(shape, solref) for shape in bodies.shapes[-1] if contacts),
    ]
    for i, spec in enumerate(bodies.specs):
        where = f'pos="{numbers(bodies.positions[i])}" quat="{numbers(bodies.rotations[i])}"'
        lines.append(f'<body name="body{i}" {where}>')
        if not bodies.fixed[i]:
            m = np.asarray(spec.inertia)
            inertia = numbers((m[0, 0], m[1, 1], m[2, 2], m[0, 1], m[0, 2], m[1, 2]))
            lines.append(f'<freejoint/><inertial pos="0 0 0" mass="{float(spec.mass)!r}" fullinertia="{inertia}"/>')
        lines += [*(_geom(shape, solref) for shape in bodies.shapes[i] if contacts), "</body>"]
    lines += ["</worldbody><equality>", *connects(bodies, 0, np.zeros_like(bodies.com), dt), "</equality><contact>"]
    lines += [f'<exclude body1="body{a}" body2="body{b}"/>' for a, b in bodies.ends if a >= 0 and contacts]
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
    # MuJoCo starts anew where a number is bad, and says so in a warning only
    bad = [int(getattr(mujoco.mjtWarning, f"mjWARN_BAD{what}")) for what in ("QPOS", "QVEL", "QACC")]

    def look(frame: int) -> None:
        run.lost = not np.isfinite(data.qpos).all() or float(np.abs(data.qpos).max()) > _LOST
        run.lost = run.lost or any(data.warning[kind].number > 0 for kind in bad)
        run.gaps.append(bodies.gap(data.xpos[1:], data.xquat[1:]))
        if frame in keep:
            run.positions.append(data.xpos[1:][bodies.index])

    _frames(run, frames, cap, lambda: mujoco.mj_step(model, data, nstep=steps), look)
    mujoco.mj_forward(model, data)
    run.energy = energy() - before
    run.speed = np.linalg.norm(data.qvel.reshape(-1, 6)[:, :3], axis=1)
    run.penetration = -float(data.contact.dist.min()) if data.ncon else 0.0
    run.contacts = int(data.ncon)
    return run


def _scalar_last(q: Any) -> list[float]:
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
            collisionFrameOrientations=[_scalar_last(one.rotation) for one in shapes],
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
        mass = 0.0 if bodies.fixed[i] else float(spec.mass)
        # a body without shapes would not move at all
        own = p.createMultiBody(
            mass, _bullet_shape(p, bodies.drawn[i], made), basePosition=list(bodies.positions[i]),
            baseOrientation=_scalar_last(bodies.rotations[i]), useMaximalCoordinates=1,
        )  # fmt: skip
        friction = bodies.shapes[i][0].friction if bodies.shapes[i] else 0.0
        p.changeDynamics(own, -1, linearDamping=0, angularDamping=0, lateralFriction=friction)
        if not bodies.shapes[i]:
            p.setCollisionFilterGroupMask(own, -1, 0, 0)
        out.append(own)
    for (a, b), (at_a, at_b) in zip(bodies.ends, bodies.points, strict=True):
        if a < 0:
            a, b, at_a, at_b = b, a, at_b, at_a
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
    _require_balls(bodies)
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
            positions = np.array([position for position, _ in poses])
            run.lost = not np.isfinite(positions).all() or float(np.abs(positions).max()) > _LOST
            run.gaps.append(bodies.gap(positions, np.array([(q[3], q[0], q[1], q[2]) for _, q in poses])))
            if frame in keep:
                run.positions.append(positions[bodies.index])

        _frames(run, frames, cap, advance, look)
        run.speed = np.array([np.linalg.norm(p.getBaseVelocity(i)[0]) for i in own])
        depths = [-one[8] for one in p.getContactPoints() or ()]
        run.penetration, run.contacts = max(depths, default=0.0), len(depths)
    finally:
        p.disconnect(client)
    return run


def _rapier_collider(r: Any, shape: Any) -> Any:
    if shape.kind == "box":
        out = r.Collider.cuboid(*(0.5 * x for x in shape.size))
    elif shape.kind == "sphere":
        out = r.Collider.ball(shape.size[0])
    elif shape.kind == "capsule":
        out = r.Collider.capsule_z(0.5 * shape.size[1], shape.size[0])
    elif shape.kind == "plane":
        # a box of a metre below the ground: rapier's own half space is slower
        out = r.Collider.cuboid(400.0, 400.0, 1.0)
        return out.translation((0.0, 0.0, -1.0)).friction(shape.friction)
    else:
        raise errors.ModelError(f'shape "{shape.name}" is a {shape.kind}; rapier3d gets boxes, spheres and capsules')
    pose = r.Isometry3(tuple(shape.position), r.Rotation3(*shape.rotation))
    return out.position(pose).friction(shape.friction).density(0.0)


def _rapier_bodies(r: Any, world: Any, bodies: Bodies) -> list[Any]:
    rule = r.CoefficientCombineRule.AVERAGE
    ground = [_rapier_collider(r, shape).friction_combine_rule(rule) for shape in bodies.shapes[-1]]
    handles = [world.add_body(r.RigidBody.fixed(), ground)]
    for i, spec in enumerate(bodies.specs):
        body = r.RigidBody.fixed() if bodies.fixed[i] else r.RigidBody.dynamic()
        body = body.position(r.Isometry3(tuple(bodies.positions[i]), r.Rotation3(*bodies.rotations[i])))
        if not bodies.fixed[i]:
            m = np.asarray(spec.inertia)
            if np.abs(m - np.diag(np.diag(m))).max() > 1e-12 * m.max():
                raise errors.ModelError(f'body "{bodies.names[i]}": rapier3d gets inertias along the body axes only')
            own = r.MassProperties((0.0, 0.0, 0.0), float(spec.mass), tuple(np.diag(m)))
            body = body.additional_mass_properties(own).can_sleep(False)
        shapes = [_rapier_collider(r, shape).friction_combine_rule(rule) for shape in bodies.shapes[i]]
        handles.append(world.add_body(body, shapes))
    for k, ((a, b), (at_a, at_b)) in enumerate(zip(bodies.ends, bodies.points, strict=True)):
        joint = r.SphericalJoint.builder()
        if k in bodies.hinges:
            axis, limits = bodies.hinges[k]
            joint = r.RevoluteJoint.builder(axis)
            joint = joint if limits is None else joint.limits(*np.ravel(limits))
        joint = joint.local_anchor1(tuple(at_a)).local_anchor2(tuple(at_b))
        world.impulse_joints.insert(handles[a + 1], handles[b + 1], joint.contacts_enabled(False).build())
    return handles[1:]


def run_rapier(
    r: Any, bodies: Bodies, dt: float, frames: int, *, keep: tuple[int, ...] = (), cap: float = 120.0
) -> Run:
    """Return a run of rapier3d on one thread with its defaults; overlaps are found by our own detection."""
    world, run, steps = r.PhysicsWorld(gravity=tuple(bodies.model.gravity)), Run(), max(1, round(FRAME / dt))
    world.set_num_threads(1)
    world.integration_parameters.dt = dt
    handles = _rapier_bodies(r, world, bodies)
    mass = np.array([0.0 if fixed else spec.mass for fixed, spec in zip(bodies.fixed, bodies.specs, strict=True)])
    inertia = np.array([np.asarray(spec.inertia) for spec in bodies.specs])

    def state() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        rows = []
        for handle in handles:
            one = world.rigid_bodies[handle]
            x, q, v, w = one.translation, one.rotation, one.linvel, one.angvel
            rows.append((x.x, x.y, x.z, q.w, q.i, q.j, q.k, v.x, v.y, v.z, w.x, w.y, w.z))
        out = np.array(rows)
        return out[:, :3], out[:, 3:7], out[:, 7:10], out[:, 10:]

    def energy() -> float:
        positions, rotations, v, w = state()
        local = rotate(rotations * (1.0, -1.0, -1.0, -1.0), w)
        spin = np.einsum("ij,ijk,ik->i", local, inertia, local) * (mass > 0.0)
        return float(0.5 * (mass @ np.square(v).sum(axis=1) + spin.sum()) - mass @ (positions @ bodies.model.gravity))

    before = energy()

    def advance() -> None:
        for _ in range(steps):
            world.step()

    def look(frame: int) -> None:
        if frame % 5 and frame != frames - 1 and frame not in keep:
            return
        positions, rotations, *_ = state()
        run.lost = not np.isfinite(positions).all() or float(np.abs(positions).max()) > _LOST
        run.gaps.append(bodies.gap(positions, rotations))
        if frame in keep:
            run.positions.append(positions[bodies.index])

    # its one thread is not ours
    _frames(run, frames, cap, advance, look, time.process_time)
    positions, rotations, v, _ = state()
    run.speed, run.energy = np.linalg.norm(v, axis=1), energy() - before
    run.penetration = bodies.overlap(positions, rotations)
    return run
