"""Part of table `adaptive`: chains with a shape on every link, of which few joints move; steps cost what is active."""

from __future__ import annotations

from typing import Any

import numpy as np

import limberjack as lj
from limberjack_lab.bench.clock import race
from limberjack_lab.bench.segments import Segment
from limberjack_lab.bench.table import Bar, Column, Table, Watch

__all__ = ["KINDS", "shaped_chain", "fill", "running"]

KINDS = {
    "free": "nothing near",
    "standing": "ten feet pressed on the ground",
    "coiled": "coiled, turns side by side",
}
_COLUMNS = (
    Column("n", "N"),
    *(Column(kind, f"{name},\nwhole step", "us") for kind, name in KINDS.items()),
    *(Column(f"{kind}_contacts", f"{kind},\ncontacts") for kind in KINDS),
    Column("growth", "most growth\nover least N", "x"),
)
_BUDGET, _DT, _WARM = 20, 1e-3, 200
_LENGTH, _RADIUS, _TURN, _RISE = 0.1, 0.02, 20, 0.15
_UPRIGHT = (np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0)


def shaped_chain(links: int, kind: str) -> lj.Model:
    """Return a chain with a capsule on each link, without weight: straight above a plane, on feet, or coiled."""
    builder = lj.Builder(f"{kind} chain", gravity=(0.0, 0.0, 0.0))
    builder.add_shape_plane("world")
    coiled = kind == "coiled"
    step = (_LENGTH, 0.0, _RISE / _TURN if coiled else 0.0)
    for k in range(links):
        body = f"b{k}"
        builder.add_body(body, mass=1.0, com=(0.05, 0.0, 0.0), inertia=(1e-3, 1e-3, 1e-3))
        builder.add_shape_capsule(body, _RADIUS, 0.06, position=(0.05, 0.0, 0.0), rotation=_UPRIGHT)
        if k == 0:
            builder.add_joint_free("base", "world", body, start=(0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0))
            continue
        axis, start = ((0, 0, 1), 4.0 * np.pi / _TURN) if k % 2 else ((0, 1, 0), 0.0)
        builder.add_joint_hinge(
            f"j{k}", f"b{k - 1}", body, axis=axis, position=step, damping=1.0, start=start if coiled else 0.0
        )
        if coiled and k % (links // 8) == 5 and k > _TURN:
            # touches the turn below, on the other side of a joint near the root of the assembly tree
            builder.add_shape_sphere(body, 0.5 * _RISE - _RADIUS + 5e-5, position=(0.05, 0.0, -0.5 * _RISE))
    if kind == "standing":
        for k in range(10):
            angle = 0.2 * np.pi * k
            builder.add_shape_sphere("b0", 0.05, position=(0.3 * np.cos(angle), 0.3 * np.sin(angle), -0.95))
    return builder.build()


def running(links: int, kind: str) -> lj.Simulation:
    """Return the chain in slow motion, with twenty joints active."""
    model = shaped_chain(links, kind)
    sim = lj.Simulation(model, lj.Adaptive(budget=_BUDGET), dt=_DT)
    qd, rng = np.zeros(model.nv), np.random.default_rng(0)
    moving = np.linspace(10, links - 2, 40).astype(int)
    qd[6 + moving] = 0.3 / links * rng.normal(size=len(moving))
    sim.qd = qd
    if kind == "standing":
        sim.apply_wrench("b0", force=(0.0, 0.0, -50.0))
    sim.step(_WARM)
    return sim


def fill(table: Table, sizes: tuple[int, ...], seconds: float, bars: bool, watch: Watch) -> None:
    """Measure the steps of chains of all sizes."""
    part = table.part(f"a shape on every link, {_BUDGET} joints simulated", *_COLUMNS)
    rows: dict[int, dict[str, Any]] = {n: part.add(n=n) for n in sizes}
    worst = 0.0
    for kind in KINDS:
        watch(f"shapes on every link, {KINDS[kind]}", 1)
        segments = {n: Segment(running(n, kind), least=1000, again=False) for n in sizes}
        times = race([segment.contender(str(n)) for n, segment in segments.items()], seconds=seconds * len(segments))
        for n in sizes:
            rows[n][kind] = 1e6 * times[str(n)].cpu
            rows[n][f"{kind}_contacts"] = segments[n].sim.stats["contacts"]
            growth = rows[n][kind] / rows[min(sizes)][kind]
            rows[n]["growth"] = max(growth, rows[n].get("growth", 0.0))
            worst = max(worst, growth)
    table.bars.append(Bar("step with shapes on 300 to 30,000 links: most growth", worst if bars else None, 1.5, False))
