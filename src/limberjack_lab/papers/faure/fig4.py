"""Figure 4 and section 4.2: a particle on a circle, an isolated chain, and the energy that the printed step keeps."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import limberjack as lj
from limberjack_lab.bench.table import Bar, Table, Watch
from limberjack_lab.papers.pictures import ACCENT, COOL, PALE, plot

__all__ = ["TITLE", "draw", "fill"]

TITLE = "energy of isolated bodies: the printed step (damped) and impulses along the old rows (conserving)"
_DT, _STEPS = 1.0 / 60.0, 300


def _chain() -> lj.Model:
    """Return six rods on ball joints in free space, thrown with different spins."""
    builder, draw = lj.Builder("isolated_chain", gravity=(0.0, 0.0, 0.0)), np.random.default_rng(0)
    for k in range(6):
        inertia = (0.001, 0.02, 0.02)
        if k == 0:
            builder.add_body("rod0", mass=1.0, com=(0.25, 0.0, 0.0), inertia=inertia)
            continue
        builder.add_body(f"rod{k}", mass=1.0, com=(0.25, 0.0, 0.0), inertia=inertia)
        spin = tuple(float(x) for x in draw.normal(size=3))
        builder.add_joint_ball(f"joint{k}", f"rod{k - 1}", f"rod{k}", position=(0.5, 0.0, 0.0), start_velocity=spin)
    return builder.build()


def fill(table: Table, quick: bool, watch: Watch) -> dict[str, list[float]]:
    """Run both bodies in both modes; return the energies over the steps, relative to the first."""
    steps, found = 30 if quick else _STEPS, {}
    part = table.part(
        f"{steps} steps of 1/60 s, 6 x 60 iterations",
        "body: body; mode: mode; energy: energy,|relative change; linear: linear momentum|[kg m/s]; "
        "angular: angular momentum|[kg m^2/s]",
    )
    watch.begin(4)
    for body, model in (("particle on a circle", lj.scenes.bead_on_circle(speed=3.0)), ("chain of six", _chain())):
        for mode in ("damped", "conserving"):
            watch(f"{body}, {mode}", 1)
            sim = lj.Simulation(model, lj.Displacements(mode=mode, iterations=6, solver_iterations=60), dt=_DT)
            sim.step()
            start, momentum, energies = sim.energy().kinetic, sim.momentum(), [1.0]
            for _ in range(steps):
                sim.step()
                energies.append(sim.energy().kinetic / start)
            found[f"{body}, {mode}"], now = energies, sim.momentum()
            part.add(
                body=body, mode=mode, energy=energies[-1] - 1.0,
                linear=float(np.abs(now.linear - momentum.linear).max()),
                angular=float(np.abs(now.angular - momentum.angular).max()),
            )  # fmt: skip
    chains = {str(row["mode"]): row for row in part.rows if row["body"] == "chain of six"}
    changes = {mode: abs(float(row["energy"])) for mode, row in chains.items()}  # pyright: ignore
    table.bar(
        "change of the energy of a chain, printed step", changes["damped"], 1e-12, False,
        "corrections along the directions of the predicted pose damp what moves, to first order in the step",
    )  # fmt: skip
    table.bars.append(Bar("change of the energy of a chain, conserving step", changes["conserving"], 1e-3, False))
    turned = float(chains["conserving"]["angular"])  # pyright: ignore
    table.bars.append(Bar("change of its angular momentum [kg m^2/s]", turned, 1e-9, False))
    table.note("the momentum of the particle is not kept: the circle is fixed to the ground")
    return found


def draw(found: dict[str, list[float]], folder: Path) -> list[tuple[Path, str]]:
    """Draw the energies over time."""
    path = folder / "faure-fig4.png"
    labels = {"title": "Energy without forces", "xlabel": "time [s]", "ylabel": "energy over that at the start"}
    with plot(path, 7.0, 4.5, (0.12, 0.12, 0.84, 0.78), **labels) as axes:
        for (name, energies), style in zip(found.items(), ("-", "--", "-", "--"), strict=True):
            color = ACCENT if "damped" in name else COOL
            time = _DT * np.arange(len(energies))
            axes.plot(time, energies, style, color=color, linewidth=1.4, label=name, alpha=0.9)
        axes.axhline(1.0, color=PALE, linewidth=0.8)
        axes.legend(fontsize=8)
    return [(path, "figure 4: energy of the printed step and of the conserving one")]
