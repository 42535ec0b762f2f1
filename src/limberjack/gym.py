"""Gymnasium environments: Ant, HalfCheetah, Hopper, Walker2d and Humanoid, one or many at a time (extra `gym`).

Models are Gymnasium's own files; observations, rewards, ends of episodes and the random numbers of a reset are those of
its MuJoCo environments of version 5. Copies of a vectorised environment are one model: a step of all is one compiled
call. Importing this module registers `Limberjack/Ant-v0` and the others; an installed package is found by Gymnasium
itself.
"""

# The base classes of Gymnasium are generic and partly without types.
# pyright: reportUnknownMemberType=false, reportMissingTypeArgument=false, reportUnknownParameterType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportIncompatibleMethodOverride=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from limberjack._environments import register
from limberjack.errors import StateError, UnknownName, require
from limberjack.io import load
from limberjack.methods.full import Full
from limberjack.model import check
from limberjack.model.builder import Builder
from limberjack.model.model import Model
from limberjack.model.spec import WORLD
from limberjack.reduced.dynamics import mass_matrix
from limberjack.simulation.simulation import Simulation
from limberjack.spatial.frames import matrix_from_quaternion

gymnasium: Any = require("gymnasium", "gym")
_vector: Any = require("gymnasium.vector", "gym")
_seeding: Any = require("gymnasium.utils.seeding", "gym")

__all__ = ["TASKS", "LocomotionEnv", "LocomotionVectorEnv", "Task", "register"]

# Copies stand so far apart that none reaches another in an episode [m].
_SPACING = 1000.0


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is observed and rewarded; the fields are the arguments of the environments, with Gymnasium's names.

    Attributes:
        xml_file: in Gymnasium's folder of models, or a path.
        frame_skip: steps of the model per step of the environment.
        forward_reward_weight: reward per m/s along x.
        ctrl_cost_weight: cost of the squared actions.
        contact_cost_weight: cost of the squared contact forces.
        contact_force_range: to which they are clipped one by one, in cost and observation.
        contact_cost_range: to which their cost is clipped.
        healthy_reward: per step.
        terminate_when_unhealthy: whether the episode ends then.
        healthy_z_range: of the root [m].
        healthy_angle_range: of the root's third coordinate [rad].
        healthy_state_range: of all other coordinates and velocities.
        reset_noise_scale: of the start.
        normal_velocities: whether velocities at the start are normally distributed, not uniformly.
        exclude_current_positions_from_observation: x, and y in space, are left out.
        velocity_range: to which observed velocities are clipped.
        inertias: whether inertias, velocities and joint forces are observed, as Humanoid does.
        contact_forces: whether contact forces are observed and cost.
        center: whether the velocity is that of the centre of mass, not of the root.
    """

    xml_file: str = ""
    frame_skip: int = 5
    forward_reward_weight: float = 1.0
    ctrl_cost_weight: float = 0.1
    contact_cost_weight: float = 0.0
    contact_force_range: tuple[float, float] = (-np.inf, np.inf)
    contact_cost_range: tuple[float, float] = (-np.inf, np.inf)
    healthy_reward: float = 0.0
    terminate_when_unhealthy: bool = True
    healthy_z_range: tuple[float, float] = (-np.inf, np.inf)
    healthy_angle_range: tuple[float, float] = (-np.inf, np.inf)
    healthy_state_range: tuple[float, float] = (-np.inf, np.inf)
    reset_noise_scale: float = 0.1
    normal_velocities: bool = False
    exclude_current_positions_from_observation: bool = True
    velocity_range: tuple[float, float] = (-np.inf, np.inf)
    inertias: bool = False
    contact_forces: bool = False
    center: bool = False


TASKS = {
    "Ant": Task(
        xml_file="ant.xml", ctrl_cost_weight=0.5, contact_cost_weight=5e-4, contact_force_range=(-1.0, 1.0),
        healthy_reward=1.0, healthy_z_range=(0.2, 1.0), normal_velocities=True, contact_forces=True,
    ),
    "HalfCheetah": Task(xml_file="half_cheetah.xml", terminate_when_unhealthy=False, normal_velocities=True),
    "Hopper": Task(
        xml_file="hopper.xml", frame_skip=4, ctrl_cost_weight=1e-3, healthy_reward=1.0, healthy_z_range=(0.7, np.inf),
        healthy_angle_range=(-0.2, 0.2), healthy_state_range=(-100.0, 100.0), reset_noise_scale=5e-3,
        velocity_range=(-10.0, 10.0),
    ),
    "Walker2d": Task(
        xml_file="walker2d_v5.xml", frame_skip=4, ctrl_cost_weight=1e-3, healthy_reward=1.0, healthy_z_range=(0.8, 2.0),
        healthy_angle_range=(-1.0, 1.0), reset_noise_scale=5e-3, velocity_range=(-10.0, 10.0),
    ),
    "Humanoid": Task(
        xml_file="humanoid.xml", forward_reward_weight=1.25, contact_cost_weight=5e-7,
        contact_cost_range=(-np.inf, 10.0), healthy_reward=5.0, healthy_z_range=(1.0, 2.0), reset_noise_scale=1e-2,
        inertias=True, contact_forces=True, center=True,
    ),
}  # fmt: skip


def _task(name: str, options: dict[str, Any]) -> Task:
    """Return a task with some of its fields changed."""
    if name not in TASKS:
        raise UnknownName("task", name, "limberjack.gym", TASKS)
    known = [item.name for item in fields(Task)]
    for word in options:
        if word not in known:
            raise UnknownName("argument", word, f'environment "{name}"', known)
    return replace(TASKS[name], **options)


class _Actuators:
    """The motors of the file: which dofs they act on, with which gear, within which range."""

    def __init__(self, path: Path) -> None:
        mujoco: Any = require("mujoco", "mjcf")
        peer = mujoco.MjModel.from_xml_path(str(path))
        self.timestep = float(peer.opt.timestep)
        self.dofs = peer.jnt_dofadr[peer.actuator_trnid[:, 0]].astype(int)
        self.gear = peer.actuator_gear[:, 0].copy()
        self.low, self.high = peer.actuator_ctrlrange.astype(np.float32).T
        # time constant, damping ratio and largest impedance of the limits, per dof
        self.limits: dict[int, tuple[float, float, float]] = {}
        for j in np.flatnonzero(peer.jnt_limited):
            time, ratio = (float(x) for x in peer.jnt_solref[j])
            self.limits[int(peer.jnt_dofadr[j])] = (time, ratio, float(peer.jnt_solimp[j, 1]))


class _Copies:
    """Many copies of a task as one simulation.

    Args:
        task: the task.
        count: how many.
        integrator: of method full.
        threads: on which trees are stepped.
        timestep: of the model [s]; None is that of the file.
    """

    def __init__(self, task: Task, count: int, integrator: str, threads: int, timestep: float | None) -> None:
        path = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / task.xml_file
        path = path if path.is_file() else Path(task.xml_file)
        self.task, self.count, self.actuators = task, count, _Actuators(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # motors are left out of the model: they are driven from here
            one = _softened(load(path), self.actuators.limits)
        self.one = one
        model = one if count == 1 else _copied(one, count)
        self.dt = task.frame_skip * self.actuators.timestep
        step = self.actuators.timestep if timestep is None else check.number(timestep, "timestep", positive=True)
        self._steps = max(1, round(self.dt / step))
        method = Full(integrator=integrator, threads=threads)
        self.sim = Simulation(model, method, self.dt / self._steps, energy_watch=False)
        self.nq, self.nv, self.bodies = one.nq, one.nv, one.body_count
        self.planar = one.joint(one.joint_names[0]).kind != "free"
        self._shift = np.zeros((count, one.nq))
        if not self.planar:
            self._shift[:, 1] = _SPACING * np.arange(count)
        self._start = self.sim.snapshot()
        a = one.arrays
        self._mass, self._moving = a.body_mass, a.body_link >= 0
        self._inertia = np.stack([one.body(name).inertia for name in one.body_names])
        self._com = a.body_com
        self._index = {name: k for k, name in enumerate(model.body_names)}
        self.force = np.zeros((count, self.bodies, 6))
        self.tau = np.zeros((count, one.nv))

    @property
    def q(self) -> np.ndarray:
        """(count, nq) coordinates, as if each stood alone."""
        return self.sim.q.reshape(self.count, self.nq) - self._shift

    @property
    def qd(self) -> np.ndarray:
        """(count, nv) velocities."""
        return self.sim.qd.reshape(self.count, self.nv)

    def restart(self) -> None:
        """Forget everything that steps have left."""
        self.sim.restore(self._start)

    def place(self, which: np.ndarray, generators: Sequence[np.random.Generator]) -> None:
        """Put the copies `which` to random starts, each by its own generator."""
        q, qd, scale = self.q.copy(), self.qd.copy(), self.task.reset_noise_scale
        for i in which:
            draw = generators[i]
            q[i] = self.one.q0 + draw.uniform(low=-scale, high=scale, size=self.nq)
            if self.task.normal_velocities:
                qd[i] = scale * draw.standard_normal(self.nv)
            else:
                qd[i] = draw.uniform(low=-scale, high=scale, size=self.nv)
        for iq, _ in self.one.arrays.links.quaternions:
            q[which, iq : iq + 4] /= np.linalg.norm(q[which, iq : iq + 4], axis=1, keepdims=True)
        self.sim.q, self.sim.qd = (q + self._shift).ravel(), qd.ravel()
        self.force[which] = self.tau[which] = 0.0

    def act(self, actions: np.ndarray) -> None:
        """Hold the actions, clipped to their range, for a step of the environment."""
        held = np.clip(actions, self.actuators.low, self.actuators.high)
        self.tau[:] = 0.0
        self.tau[:, self.actuators.dofs] = self.actuators.gear * held
        self.sim.tau = self.tau.ravel()
        self.sim.step(self._steps)
        if self.task.contact_forces:
            self._collect_forces()

    def _collect_forces(self) -> None:
        """Sum up the forces of contacts on each body, about the centre of mass of its copy: torque, force."""
        self.force[:] = 0.0
        found = self.sim.contacts()
        if not found:
            return
        force = np.array([contact.force for contact in found])
        at = np.array([contact.position for contact in found])
        com = self.centers()
        flat = self.force.reshape(-1, 6)
        for side, sign in ((0, 1.0), (1, -1.0)):
            body = np.array([self._index.get(contact.bodies[side], -1) for contact in found])
            own = body >= 0
            f = sign * force[own]
            arm = at[own] - com[body[own] // self.bodies]
            np.add.at(flat, body[own], np.hstack([np.cross(arm, f), f]))

    def _body_centers(self) -> tuple[np.ndarray, np.ndarray]:
        """Return rotations (count, bodies, 3, 3) and centres of mass (count, bodies, 3) of the bodies."""
        r = matrix_from_quaternion(self.sim.rotations).reshape(self.count, self.bodies, 3, 3)
        p = self.sim.positions.reshape(self.count, self.bodies, 3)
        return r, p + np.einsum("nbij,bj->nbi", r, self._com)

    def centers(self) -> np.ndarray:
        """Return the centres of mass (count, 3) of the copies."""
        return np.einsum("b,nbi->ni", self._mass, self._body_centers()[1]) / self._mass.sum()

    def progress(self) -> np.ndarray:
        """Return the positions (count, 2) whose velocity is rewarded."""
        if self.task.center:
            return self.centers()[:, :2]
        q = self.q
        return np.stack([q[:, 0], np.zeros(self.count)], axis=1) if self.planar else q[:, :2]

    def healthy(self) -> np.ndarray:
        """Return which copies are healthy (count,)."""
        t, q, qd = self.task, self.q, self.qd
        z = q[:, 1] if self.planar else q[:, 2]
        good = np.isfinite(q).all(axis=1) & np.isfinite(qd).all(axis=1)
        good &= (t.healthy_z_range[0] <= z) & (z <= t.healthy_z_range[1])
        if self.planar:
            good &= (t.healthy_angle_range[0] < q[:, 2]) & (q[:, 2] < t.healthy_angle_range[1])
        state = np.hstack([q, qd])[:, 2:]
        return good & ((t.healthy_state_range[0] < state) & (state < t.healthy_state_range[1])).all(axis=1)

    def observation(self) -> np.ndarray:
        """Return the observations (count, size)."""
        t, q = self.task, self.q
        if t.exclude_current_positions_from_observation:
            q = q[:, 1 if self.planar else 2 :]
        parts = [q, np.clip(self.qd, *t.velocity_range)]
        if t.inertias:
            parts += [*self._inertial(), self.tau[:, 6:]]
        if t.contact_forces:
            parts.append(np.clip(self.force, *t.contact_force_range).reshape(self.count, -1))
        return np.hstack(parts)

    def _inertial(self) -> tuple[np.ndarray, np.ndarray]:
        """Return inertias (count, 10 bodies) and velocities (count, 6 bodies) about the centre of mass of the copy."""
        r, at = self._body_centers()
        com = np.einsum("b,nbi->ni", self._mass, at) / self._mass.sum()
        d = at - com[:, None]
        turned = np.einsum("nbij,bjk,nblk->nbil", r, self._inertia, r)
        square = np.einsum("nbi,nbi->nb", d, d)[..., None, None] * np.eye(3) - d[..., :, None] * d[..., None, :]
        full = turned + self._mass[:, None, None] * square
        six = full[..., [0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
        first, mass = self._mass[:, None] * d, np.broadcast_to(self._mass[:, None], (self.count, self.bodies, 1))
        inertia = np.concatenate([six, first, mass], axis=-1)
        velocity = self.sim.velocities.reshape(self.count, self.bodies, 6)
        moved = velocity[..., 3:] - np.cross(velocity[..., :3], d)
        rates = np.concatenate([velocity[..., :3], moved], axis=-1)
        return inertia.reshape(self.count, -1), rates.reshape(self.count, -1)

    def rewards(self, velocity: np.ndarray, actions: np.ndarray) -> dict[str, np.ndarray]:
        """Return the parts of the reward, each (count,)."""
        t = self.task
        out = {
            "reward_forward": t.forward_reward_weight * velocity[:, 0],
            "reward_ctrl": -t.ctrl_cost_weight * np.square(np.asarray(actions, float)).sum(axis=1),
        }
        if t.healthy_reward:
            out["reward_survive"] = t.healthy_reward * self.healthy()
        if t.contact_forces:
            forces = np.clip(self.force, *t.contact_force_range)
            cost = t.contact_cost_weight * np.square(forces).sum(axis=(1, 2))
            out["reward_contact"] = -np.clip(cost, *t.contact_cost_range)
        return out

    def facts(self) -> dict[str, np.ndarray]:
        """Return where the copies are, for info."""
        q = self.q
        if self.planar:
            out = {"x_position": q[:, 0].copy()}
            return out | ({"z_distance_from_origin": q[:, 1] - self.one.q0[1]} if self.task.healthy_reward else {})
        return {
            "x_position": q[:, 0].copy(), "y_position": q[:, 1].copy(),
            "distance_from_origin": np.hypot(q[:, 0], q[:, 1]),
        }  # fmt: skip

    def advance(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Take one step; return rewards (count,), which copies have come to an end, and info."""
        before = self.progress()
        self.act(actions)
        velocity = (self.progress() - before) / self.dt
        parts = self.rewards(velocity, actions)
        info = self.facts() | {"x_velocity": velocity[:, 0]} | parts
        if not self.planar:
            info["y_velocity"] = velocity[:, 1]
        ended = ~self.healthy() & self.task.terminate_when_unhealthy
        return np.sum(list(parts.values()), axis=0), ended, info


def _softened(model: Model, limits: dict[int, tuple[float, float, float]]) -> Model:
    """Return the model with limits as soft as the file has them: springs and dampers on the inertia that a joint moves.

    A limit of MuJoCo lets through the share 1 - d of the acceleration that forces would give beyond it, with d the
    largest impedance, against the stiffness 1 / (d T z)^2 per inertia, with the time constant T and the damping ratio
    z of solref. The spring here yields as much to a force that lasts, and is damped in the same ratio.
    """
    free = 1.0 / np.diag(np.linalg.inv(mass_matrix(model, model.q0)))

    def spring(v: int) -> dict[str, float]:
        time, ratio, d = limits[v]
        rate = math.sqrt(d / (1.0 - d)) / (d * time * ratio)
        return {
            "limit_stiffness": float(free[v] * rate**2),
            "limit_damping": float(2.0 * ratio * free[v] * rate),
        }

    joints: list[Any] = []
    for joint in model.spec.joints:
        info = model.joint(joint.name)
        v = info.v_start
        if joint.axes:
            axes = [
                replace(x, **spring(v + k)) if x.limits and v + k in limits else x for k, x in enumerate(joint.axes)
            ]
            joints.append(replace(joint, axes=tuple(axes)))
        elif joint.limits and info.nv == 1 and v in limits:
            joints.append(replace(joint, **{word: (value,) for word, value in spring(v).items()}))
        else:
            joints.append(joint)
    return Builder.from_spec(replace(model.spec, joints=joints)).build()


def _copied(one: Any, count: int) -> Any:
    """Return a model of `count` copies in a row, with one ground."""
    ground = [shape for shape in one.spec.shapes if shape.body == WORLD]
    alone = Builder.from_spec(replace(one.spec, shapes=[s for s in one.spec.shapes if s.body != WORLD])).build()
    builder = Builder(one.name, gravity=one.gravity)
    for i in range(count):
        builder.add_model(alone, f"{i}", position=(0.0, _SPACING * i, 0.0))
    spec = builder.build().spec
    spec.shapes = [*spec.shapes, *ground]
    return Builder.from_spec(spec).build()


class _Camera:
    """Pictures of one copy, seen from the side."""

    def __init__(self, copies: _Copies, width: int, height: int) -> None:
        from limberjack.viewer.drawing import Drawing
        from limberjack.viewer.picture import Painter

        self._copies, self._painter = copies, Painter(Drawing(copies.one), width, height)

    def picture(self, i: int) -> np.ndarray:
        """Return the picture (height, width, 3) of copy i."""
        from limberjack.reduced.dynamics import forward_kinematics
        from limberjack.viewer.camera import Eye

        positions, rotations = forward_kinematics(self._copies.one, self._copies.q[i])
        target = positions.mean(axis=0)
        return self._painter.paint(positions, rotations, Eye(target + (1.0, -4.0, 1.2), target))


def _spaces(copies: _Copies) -> tuple[Any, Any]:
    """Return the spaces of observations and actions of one copy."""
    size = copies.observation().shape[1]
    box = gymnasium.spaces.Box
    a = copies.actuators
    return box(-np.inf, np.inf, (size,), np.float64), box(a.low, a.high, dtype=np.float32)


_MODES = ["rgb_array"]


def _check_mode(mode: str | None) -> None:
    if mode is not None and mode not in _MODES:
        raise UnknownName("render mode", mode, "limberjack.gym", _MODES)


class LocomotionEnv(gymnasium.Env):
    """One copy of a task.

    Args:
        task: one of `TASKS`.
        render_mode: None or "rgb_array".
        width, height: of pictures [pixels].
        integrator: of method full.
        timestep: of the model [s], rounded so that whole steps make one of the environment; None is that of the file.
        options: fields of `Task` that differ.
    """

    metadata: dict[str, Any] = {"render_modes": _MODES, "render_fps": 20}  # noqa: RUF012 - Gymnasium's class attribute

    def __init__(
        self, task: str, *, render_mode: str | None = None, width: int = 480, height: int = 480,
        integrator: str = "projected", timestep: float | None = None, **options: Any,
    ) -> None:  # fmt: skip
        _check_mode(render_mode)
        self.copies = _Copies(_task(task, options), 1, integrator, 1, timestep)
        self.observation_space, self.action_space = _spaces(self.copies)
        self.metadata = {"render_modes": _MODES, "render_fps": round(1.0 / self.copies.dt)}
        self.render_mode, self._size, self._camera = render_mode, (width, height), None

    @property
    def dt(self) -> float:
        """Time of one step of the environment [s]."""
        return self.copies.dt

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode; the same seed gives the same bits, and the start of Gymnasium's environment."""
        super().reset(seed=seed)
        self.copies.restart()
        self.copies.place(np.arange(1), [self.np_random])
        return self.copies.observation()[0], {word: value[0] for word, value in self.copies.facts().items()}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Hold an action for one step."""
        actions = np.asarray(action, np.float64)
        if actions.shape != self.action_space.shape:
            raise StateError(f"action must have shape {self.action_space.shape}, got {actions.shape}")
        reward, ended, info = self.copies.advance(actions[None])
        facts = {word: value[0] for word, value in info.items()}
        return self.copies.observation()[0], float(reward[0]), bool(ended[0]), False, facts

    def render(self) -> np.ndarray | None:
        """Return a picture where the mode is "rgb_array"."""
        if self.render_mode is None:
            return None
        if self._camera is None:
            self._camera = _Camera(self.copies, *self._size)
        return self._camera.picture(0)


class LocomotionVectorEnv(_vector.VectorEnv):
    """Many copies of a task, stepped as one model.

    Args:
        task: one of `TASKS`.
        num_envs: how many copies.
        max_episode_steps: after which episodes are cut short; None = never.
        autoreset_mode: "NextStep", "SameStep" or "Disabled", or Gymnasium's `AutoresetMode`.
        render_mode: None or "rgb_array".
        width, height: of pictures [pixels].
        integrator: of method full.
        threads: on which copies are stepped.
        timestep: of the model [s], rounded so that whole steps make one of the environment; None is that of the file.
        options: fields of `Task` that differ.
    """

    def __init__(
        self, task: str, num_envs: int = 1, *, max_episode_steps: int | None = 1000, autoreset_mode: Any = "NextStep",
        render_mode: str | None = None, width: int = 480, height: int = 480, integrator: str = "projected",
        threads: int = 1, timestep: float | None = None, **options: Any,
    ) -> None:  # fmt: skip
        _check_mode(render_mode)
        if isinstance(num_envs, bool) or num_envs < 1:
            raise StateError(f"num_envs must be a whole number >= 1, got {num_envs!r}")
        self.num_envs, self.render_mode, self._size = int(num_envs), render_mode, (width, height)
        self.copies = _Copies(_task(task, options), self.num_envs, integrator, threads, timestep)
        self.single_observation_space, self.single_action_space = _spaces(self.copies)
        batch = _vector.utils.batch_space
        self.observation_space = batch(self.single_observation_space, self.num_envs)
        self.action_space = batch(self.single_action_space, self.num_envs)
        self._mode = _vector.AutoresetMode(autoreset_mode)
        self.metadata = {
            "render_modes": _MODES, "render_fps": round(1.0 / self.copies.dt), "autoreset_mode": self._mode,
        }  # fmt: skip
        self._most = max_episode_steps
        self._generators: list[np.random.Generator] = [_seeding.np_random()[0] for _ in range(self.num_envs)]
        self._elapsed, self._done = np.zeros(self.num_envs, int), np.zeros(self.num_envs, bool)
        self._camera: _Camera | None = None

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start episodes, all or those of `options["reset_mask"]`; copy i draws from the seed plus i."""
        mask = _checked_mask((options or {}).get("reset_mask"), self.num_envs)
        seeds: list[Any] = [None] * self.num_envs
        if seed is not None:
            seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, (int, np.integer)) else list(seed)
        if len(seeds) != self.num_envs:
            raise StateError(f"seed must be one number or {self.num_envs} numbers, got {len(seeds)}")
        for i, own in enumerate(seeds):
            if own is not None and mask[i]:
                self._generators[i] = _seeding.np_random(own)[0]
        if mask.all():
            self.copies.restart()
        self._restart(mask)
        return self.copies.observation(), self._told(self.copies.facts(), mask)

    def _restart(self, mask: np.ndarray) -> None:
        self.copies.place(np.flatnonzero(mask), self._generators)
        self._elapsed[mask], self._done[mask] = 0, False

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Hold actions for one step of all copies."""
        actions = np.asarray(actions, np.float64)
        if actions.shape != self.action_space.shape:
            raise StateError(f"actions must have shape {self.action_space.shape}, got {actions.shape}")
        fresh = self._done.copy()
        if self._mode == _vector.AutoresetMode.DISABLED and fresh.any():
            raise StateError(f"copies {np.flatnonzero(fresh).tolist()} have ended: reset them by reset_mask")
        reward, ended, info = self.copies.advance(actions)
        self._elapsed += 1
        cut = np.zeros(self.num_envs, bool) if self._most is None else self._elapsed >= self._most
        told = self._told(info, ~fresh)
        if fresh.any():  # of mode NextStep: this step is their reset
            self._restart(fresh)
            reward[fresh], ended[fresh], cut[fresh] = 0.0, False, False
        self._done = ended | cut
        observation = self.copies.observation()
        if self._mode == _vector.AutoresetMode.SAME_STEP and self._done.any():
            done = self._done.copy()
            last = np.full(self.num_envs, None, object)
            for i in np.flatnonzero(done):
                last[i] = observation[i].copy()
            told = {"final_obs": last, "_final_obs": done, "final_info": self._told(info, done), "_final_info": done}
            self._restart(done)
            observation = self.copies.observation()
            told |= self._told(self.copies.facts(), np.ones(self.num_envs, bool))
        return observation, reward, ended, cut, told

    def _told(self, info: dict[str, np.ndarray], mask: np.ndarray) -> dict[str, Any]:
        """Return info as Gymnasium has it: arrays, and under a leading underscore which entries are set."""
        out: dict[str, Any] = {}
        for word, value in info.items():
            out[word], out[f"_{word}"] = np.where(mask, value, 0.0), mask.copy()
        return out

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Return one picture per copy where the mode is "rgb_array"."""
        if self.render_mode is None:
            return None
        if self._camera is None:
            self._camera = _Camera(self.copies, *self._size)
        return tuple(self._camera.picture(i) for i in range(self.num_envs))


def _checked_mask(mask: Any, count: int) -> np.ndarray:
    """Return which copies are to be reset; None is all."""
    if mask is None:
        return np.ones(count, bool)
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (count,) or not mask.any():
        raise StateError(f'options["reset_mask"] must be a boolean array of shape ({count},) that is not all False')
    return mask


register()
