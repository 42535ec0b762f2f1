"""Chains of table `adaptive`: a rod whose active region never rests, and chains with a shape on every link."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import limberjack as lj
from limberjack import scenes
from limberjack_lab.bench.clock import Segment, race_sizes
from limberjack_lab.bench.table import Column, Table, Watch

__all__ = ["DT", "KINDS", "cuts", "fill", "running", "shaped_chain", "turning_rod"]

DT = 0.02
# Natural frequency of the springs, such that one update period of 20 steps is a swing [rad/s], and their damping ratio.
_RATE, _RATIO = 0.3 / DT, 0.3
# The rod turns by this in one update period [rad].
_TURN = 0.5
# Rotors of the joints without springs, which hardly move, and of the one that turns the rod [kg m^2].
_BLOCKED, _ROOT = 1e4, 10.0
# Of the rod: its links are discs, so that even thin ones have inertia to speak of beside the rotors [m].
_RADIUS = 0.1

KINDS = {
    "free": "nothing near",
    "standing": "ten feet pressed on the ground",
    "coiled": "coiled, turns side by side",
}
_COLUMNS = (
    Column("n", "N"),
    *(Column(kind, f"{name},\nwhole step", "us") for kind, name in KINDS.items()),
    *(Column(f"{kind}_contacts", f"{kind},\ncontacts") for kind in KINDS),
    *(Column(f"{kind}_ratio", f"{kind},\nover least N", "x") for kind in KINDS),
    Column("finite", "finite"),
)
_BUDGET, _SHAPED_DT, _WARM = 20, 1e-3, 200
_LENGTH, _CAPSULE, _PER_TURN, _RISE = 0.1, 0.02, 20, 0.15
_UPRIGHT = (np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0)


def cuts(links: int, levels: int) -> list[int]:
    """Return the links above which the balanced assembly tree cuts a chain, level by level."""
    parts, out = [(0, links)], []
    for _ in range(levels):
        parts = [(low, high) for low, high in parts if high - low > 1]
        middles = [(low + high) // 2 for low, high in parts]
        out += middles
        parts = [half for (low, high), k in zip(parts, middles, strict=True) for half in ((low, k), (k, high))]
    return out


def turning_rod(links: int, budget: int) -> lj.Model:
    """Return a rod that turns about its own axis and sags, so that its active region changes at every update.

    Pendulums hardly ever change theirs. The rod, of 1 m and 1 kg, is cut into links; some of its joints have springs,
    all others are blocked by heavy rotors. It lies level and a motor turns it, so that gravity, which goes round in its
    frame, bends the springs to and fro for ever. A joint that is released follows within an update period and comes to
    rest, while those that are rigid fall behind: the largest accelerations and velocities are always elsewhere.

    The springs sit at the joints the balanced assembly tree of a chain is cut at first, three for each joint that may
    be simulated. All of them swing alike, however many links: their rotors are as heavy as what hangs on them.

    Args:
        links: number of links.
        budget: joints simulated at a time; there are springs in three times as many.
    """
    plain = scenes.long_chain(links=links, length=1.0 / links, mass=1.0 / links, bend=0.0, damping=0.0).spec
    count = 3 * budget
    soft = {k: i % 2 for i, k in enumerate(cuts(links, count.bit_length())[:count])}

    def driven(k: int, joint: Any) -> Any:
        if k == 0:
            motor = lj.Motor(kd=0.2 * _ROOT / DT, velocity=_TURN / (20 * DT))
            return replace(joint, axis=(0.0, 0.0, 1.0), armature=(_ROOT,), motor=(motor,))
        if k not in soft:
            return replace(joint, armature=(_BLOCKED,))
        rotor = (1.0 - k / links) ** 2
        stiffness, damping = rotor * _RATE**2, 2.0 * _RATIO * rotor * _RATE
        # Every other one bends upwards while the rest bend sideways.
        axis = (1.0, 0.0, 0.0) if soft[k] else (0.0, 1.0, 0.0)
        return replace(joint, axis=axis, armature=(rotor,), stiffness=(stiffness,), damping=(damping,))

    across = _RADIUS**2 / (4 * links) + 1.0 / (12 * links**3)
    inertia = (across, across, _RADIUS**2 / (2 * links), 0.0, 0.0, 0.0)
    bodies = [replace(body, inertia=inertia) for body in plain.bodies]
    joints = [driven(k, joint) for k, joint in enumerate(plain.joints)]
    # The chain hangs along -z: gravity along x makes the rod a level one.
    spec = replace(plain, name="turning_rod", gravity=(9.81, 0.0, 0.0), bodies=bodies, joints=joints, shapes=[])
    return lj.Model(spec)


def shaped_chain(links: int, kind: str) -> lj.Model:
    """Return a chain with a capsule on each link, without weight: straight above a plane, on feet, or coiled."""
    builder = lj.Builder(f"{kind} chain", gravity=(0.0, 0.0, 0.0))
    builder.add_shape_plane("world")
    coiled = kind == "coiled"
    step = (_LENGTH, 0.0, _RISE / _PER_TURN if coiled else 0.0)
    for k in range(links):
        body = f"b{k}"
        builder.add_body(body, mass=1.0, com=(0.05, 0.0, 0.0), inertia=(1e-3, 1e-3, 1e-3))
        builder.add_shape_capsule(body, _CAPSULE, 0.06, position=(0.05, 0.0, 0.0), rotation=_UPRIGHT)
        if k == 0:
            builder.add_joint_free("base", "world", body, start=(0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0))
            continue
        axis, start = ((0, 0, 1), 4.0 * np.pi / _PER_TURN) if k % 2 else ((0, 1, 0), 0.0)
        builder.add_joint_hinge(
            f"j{k}", f"b{k - 1}", body, axis=axis, position=step, damping=1.0, start=start if coiled else 0.0
        )
        if coiled and k % (links // 8) == 5 and k > _PER_TURN:
            # touches the turn below, on the other side of a joint near the root of the assembly tree
            builder.add_shape_sphere(body, 0.5 * _RISE - _CAPSULE + 5e-5, position=(0.05, 0.0, -0.5 * _RISE))
    if kind == "standing":
        for k in range(10):
            angle = 0.2 * np.pi * k
            builder.add_shape_sphere("b0", 0.05, position=(0.3 * np.cos(angle), 0.3 * np.sin(angle), -0.95))
    return builder.build()


def running(links: int, kind: str) -> lj.Simulation:
    """Return the chain in slow motion, with twenty joints active."""
    model = shaped_chain(links, kind)
    sim = lj.Simulation(model, lj.Adaptive(budget=_BUDGET, sleeping=False), dt=_SHAPED_DT)
    qd, rng = np.zeros(model.nv), np.random.default_rng(0)
    moving = np.linspace(10, links - 2, 40).astype(int)
    qd[6 + moving] = 0.3 / links * rng.normal(size=len(moving))
    sim.qd = qd
    if kind == "standing":
        sim.apply_wrench("b0", force=(0.0, 0.0, -50.0))
    sim.step(_WARM)
    return sim


def fill(table: Table, sizes: tuple[int, ...], seconds: float, watch: Watch) -> None:
    """Measure the steps of chains of all sizes."""
    part = table.part(f"a shape on every link, {_BUDGET} joints simulated", *_COLUMNS)
    rows: dict[int, dict[str, Any]] = {n: part.add(n=n) for n in sizes}
    for kind in KINDS:
        watch(f"shapes on every link, {KINDS[kind]}", 1)
        segments = {n: Segment(running(n, kind), least=1000, again=False) for n in sizes}
        race_sizes(rows, segments, kind, seconds)
        for n in sizes:
            rows[n][f"{kind}_contacts"] = segments[n].sim.stats["contacts"]
    worst = max(row[f"{kind}_ratio"] for row in rows.values() for kind in KINDS)
    table.bar("step with shapes on 300 to 30,000 links: most growth", worst, 1.5, False)
