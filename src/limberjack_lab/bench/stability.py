"""Table `stability`: whether the energy of ropes, chains, whips and ragdolls stays what it is, at ordinary steps."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import limberjack as lj
from limberjack_lab.bench.peers import MujocoRun, to_mjcf
from limberjack_lab.bench.table import Table, Watch, columns, peer

__all__ = ["TITLE", "energy_error", "figure", "fill"]

TITLE = "share of runs whose energy never rises by more than 3 % of the largest kinetic energy"
KINDS, STEPS, ALLOWED = ("chain", "rope", "whip", "ragdoll"), (1 / 1000, 1 / 240, 1 / 60), 0.03
_LENGTH, _RADIUS = 0.1, 0.02
_COLUMNS = columns(
    "who: engine; fine: 1/1000 s [%]; middle: 1/240 s [%]; coarse: 1/60 s [%]; runs: runs; worst: largest rise [%]"
)


@dataclass(frozen=True)
class Extent:
    """How much is measured."""

    hung: tuple[int, ...] = (10, 30, 100, 300)  # links
    dropped: tuple[int, ...] = (10, 30)  # links of those that fall on the ground
    seconds: float = 20.0


FULL, QUICK = Extent(), Extent((10,), (), 0.5)


class Case(NamedTuple):
    """A figure, the same without shapes, and the velocities it starts with."""

    model: lj.Model
    bare: lj.Model
    qd: np.ndarray


def figure(kind: str, links: int, damping: float, dropped: bool, shapes: bool = True) -> lj.Model:
    """Return a rope, chain, whip or ragdoll of `links` links: hung up, thrown without gravity, or above the ground."""
    thrown = kind == "ragdoll" and not dropped
    builder, rng = lj.Builder(kind, gravity=(0, 0, 0) if thrown else (0, 0, -9.81)), np.random.default_rng(links)
    if dropped and shapes:
        builder.add_shape_plane("world", friction=0.5)
    arms = 4 if kind == "ragdoll" else 1
    for k in range(links):
        taper = 0.97**k if kind == "whip" else 1.0
        mass, across = 0.1 * taper, 0.1 * taper * (3 * _RADIUS**2 + _LENGTH**2) / 12
        free = k == 0 and (dropped or kind == "ragdoll")
        builder.add_body(
            f"b{k}", mass=mass, com=(0, 0, -_LENGTH / 2), inertia=(across, across, 0.5 * mass * _RADIUS**2),
            position=(0, 0, 0.3 + _LENGTH * links / arms) if free else (0, 0, 0),
        )  # fmt: skip
        if dropped and shapes:
            builder.add_shape_capsule(f"b{k}", _RADIUS, _LENGTH - 2 * _RADIUS, position=(0, 0, -_LENGTH / 2))
        if free:
            continue
        above = max(0, k - arms) if kind == "ragdoll" else k - 1
        hung = k > 0 and (above > 0 or arms == 1)  # at the end of the link above; arms at the head of the first
        ends = (f"j{k}", f"b{above}" if k else "world", f"b{k}")
        options: dict[str, Any] = {"position": (0, 0, -_LENGTH if hung else 0), "damping": damping}
        if kind in ("rope", "ragdoll"):
            out = 0.5 * np.pi * k if kind == "ragdoll" else 0.5 * np.pi  # arms point to all sides, a rope to one
            bent = k > arms or k == 1 == arms
            angle = rng.normal(0.0, 0.2, 3) if bent else 1.4 * np.array([np.cos(out), np.sin(out), 0.0])
            half = 0.5 * np.linalg.norm(angle)
            turn = (np.cos(half), *(np.sin(half) / (2 * half) * angle))
            builder.add_joint_ball(*ends, start=turn, **options)
        else:
            start = rng.normal(0.0, 0.2) if kind == "chain" else -1.5 * (k == 0)
            axis = (0, 1, 0) if k % 2 or kind == "whip" else (1, 0, 0)
            builder.add_joint_hinge(*ends, axis=axis, start=start, **options)
    return builder.build()


def energy_error(sim: Any, every: int, looks: int) -> tuple[float, float]:
    """Return the largest rise of energy and its change at the end, over the largest kinetic energy.

    `sim` is a simulation or a `MujocoRun`, looked at `looks` times, every so many steps.
    """
    start, kinetic, most, change = sim.energy().total, 0.0, 0.0, 0.0
    for _ in range(looks):
        sim.step(every)
        now = sim.energy()
        kinetic, change = max(kinetic, now.kinetic), now.total - start
        if not np.isfinite(kinetic + change):
            return np.inf, np.inf
        most = max(most, change)
    return (most / kinetic, change / kinetic) if kinetic > 0.0 else (0.0, 0.0)


def _mujoco(mujoco: Any, integrator: str, case: Case, dt: float) -> MujocoRun:
    spec = mujoco.MjSpec.from_string(to_mjcf(case.bare, dt=dt, integrator=integrator))
    if case.model.shapes:
        spec.option.disableflags &= ~int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[9, 9, 1], friction=[0.5, 0, 0])
        for body in spec.bodies[1:]:
            ends = [0, 0, -_RADIUS, 0, 0, _RADIUS - _LENGTH]
            body.add_geom(type=mujoco.mjtGeom.mjGEOM_CAPSULE, size=[_RADIUS, 0, 0], fromto=ends, mass=0)
    return MujocoRun(mujoco, spec.compile(), case.bare.q0, case.qd)


def _cases(extent: Extent) -> Iterator[Case]:
    for dropped, sizes in ((False, extent.hung), (True, extent.dropped)):
        for kind, links, damping in itertools.product(KINDS, sizes, (0.0, 1e-3)):
            model, bare = (figure(kind, links, damping, dropped, shapes) for shapes in (True, False))
            yield Case(model, bare, np.random.default_rng(1).normal(0.0, 3.0, model.nv) * (kind == "ragdoll"))


def fill(table: Table, quick: bool, watch: Watch) -> None:
    """Run every figure at every step in every engine; see `TABLES`."""
    extent, cases = (QUICK if quick else FULL), list(_cases(QUICK if quick else FULL))
    part, mujoco = table.part("", *_COLUMNS), peer("mujoco", table)
    links = f"hung up or thrown: {extent.hung} links, dropped: {extent.dropped}"
    table.note(f"{', '.join(KINDS)}; undamped and damped; {links}")

    def adaptive(share: float) -> Callable[[lj.Model], Any]:
        return lambda model: lj.Adaptive(budget=max(1, round(share * (model.body_count - 1))))

    def simulation(name: str, case: Case, dt: float) -> Any:
        if name in ours:
            return lj.Simulation(case.model, ours[name](case.model), dt=dt, qd=case.qd)
        return _mujoco(mujoco, name.removeprefix("MuJoCo, "), case, dt)

    ours: dict[str, Callable[[lj.Model], Any]] = {"full": lambda model: "full"}
    ours |= {f"adaptive, {100 * share:g} % of the joints": adaptive(share) for share in (0.05, 0.2, 0.5)}
    ours |= {"full, projected": lambda model: lj.Full(integrator="projected"), "impulses": lambda model: "impulses"}
    names = [*ours, *(f"MuJoCo, {word}" for word in ("Euler", "implicitfast", "implicit") if mujoco is not None)]
    watch.begin(len(names) * len(cases))
    for name in names:
        good, worst = np.zeros(len(STEPS)), 0.0
        for case in cases:
            watch(f"{name}: {case.model.name} of {case.model.body_count}", 1)
            for column, dt in enumerate(STEPS):
                try:
                    every = max(1, round(1 / 60 / dt))
                    found, _ = energy_error(simulation(name, case, dt), every, round(60 * extent.seconds))
                except lj.LimberjackError:
                    found = float("inf")
                good[column] += found <= ALLOWED
                worst = max(worst, found)
        share = 100.0 * good / len(cases)
        part.add(who=name, fine=share[0], middle=share[1], coarse=share[2], runs=3 * len(cases), worst=100.0 * worst)
        if name.startswith(("full", "adaptive")) and "projected" not in name:
            table.bar(f"{name}: runs that gain no energy at 1/1000 and 1/240 s [%]", min(share[0], share[1]), 100.0)
            table.bar(f"{name}: at 1/60 s [%]", share[2], 95.0)
