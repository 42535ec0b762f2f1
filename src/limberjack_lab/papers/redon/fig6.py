"""Figure 6: where a pendulum tied to a spring comes to rest with five joints, chosen as it moves or once for all."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import limberjack as lj
from limberjack import scenes
from limberjack_lab.bench.chains import cuts
from limberjack_lab.bench.table import Bar, Table, Watch
from limberjack_lab.papers.pictures import ACCENT, COOL, INK, PALE, chain_corners, drawing

__all__ = ["TITLE", "breadth_first", "draw", "fill", "locked"]

TITLE = "the rest of a pendulum of 50 links on a spring, 5 joints simulated (section 7.1)"
JOINTS = 5
_DT = 2e-3
_PART, _LONGEST = 5.0, 600.0
# All joints slower than this are at rest [rad/s].
_REST = 1e-5


@dataclass
class Rest:
    """Where a simulation came to rest."""

    title: str  # which
    model: lj.Model  # what moved
    seconds: float = 0.0  # how long it took [s]
    speed: float = 0.0  # of its fastest joint at the end [rad/s]
    corners: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))  # (links + 1, 2) of the chain at the end
    active: set[str] = field(default_factory=set)  # joints that were simulated at some time
    last: list[str] = field(default_factory=list)  # joints simulated at the end


def breadth_first(model: lj.Model, count: int) -> list[str]:
    """Return the first joints of the balanced assembly tree of a chain, level by level from its root."""
    links = [0, *cuts(model.body_count, count.bit_length())]
    return [model.joint_names[k] for k in links[:count]]


def locked(model: lj.Model, free: list[str]) -> lj.Model:
    """Return the model with all joints but those named fixed as they are at the start, which must be at zero."""

    def fixed(joint: Any) -> Any:
        return replace(joint, kind="fixed", start=None, start_velocity=None, damping=None)

    joints = [joint if joint.name in free else fixed(joint) for joint in model.spec.joints]
    return lj.Model(replace(model.spec, joints=joints))


def _rest(title: str, model: lj.Model, method: Any, watch: Watch) -> Rest:
    """Return where `model` comes to rest."""
    out, sim = Rest(title, model), lj.Simulation(model, method, _DT)
    every = sim.method.update_every if isinstance(sim.method, lj.Adaptive) else round(_PART / _DT)
    while sim.time < _LONGEST:
        watch(f"{title}, {sim.time:.0f} s")
        for _ in range(round(_PART / _DT / every)):
            sim.step(every)
            out.active.update(sim.active_joints)
        out.speed = float(np.abs(sim.qd).max())
        if out.speed < _REST:
            break
    out.seconds, out.corners, out.last = sim.time, chain_corners(model, sim.q), sim.active_joints
    return out


def fill(table: Table, quick: bool, watch: Watch) -> list[Rest]:
    """Measure the figure; see `FIGURES`."""
    scene = scenes.get("spring_pendulum", budget=JOINTS)
    few = breadth_first(scene.model, JOINTS)
    rests = [
        _rest("(b) all 50 joints", scene.model, lj.Full(integrator="implicit"), watch),
        _rest("(c) 5 joints, the first of the tree", locked(scene.model, few), lj.Full(integrator="implicit"), watch),
        _rest("(d) 5 joints, chosen as it moves", scene.model, scene.method, watch),
    ]
    part = table.part(
        "distance of the 51 corners of the chain from where they are with all joints",
        "who: joints simulated; mean: mean [m]; most: largest [m]; tied: tied link [m]; "
        "ever: joints ever|simulated; seconds: simulated [s]; speed: fastest joint|at the end [rad/s]",
    )
    reference, tied = rests[0].corners, 30
    errors = [np.linalg.norm(rest.corners - reference, axis=1) for rest in rests]
    for rest, error in zip(rests, errors, strict=True):
        middle = 0.5 * (rest.corners - reference)[tied : tied + 2].sum(axis=0)
        part.add(
            who=rest.title, mean=float(error.mean()), most=float(error.max()), tied=float(np.linalg.norm(middle)),
            ever=len(rest.active), seconds=rest.seconds, speed=rest.speed,
        )  # fmt: skip
        if not rest.speed < _REST:
            table.note(f"{rest.title}: not yet at rest after {rest.seconds:g} s")
    table.bars.append(Bar("mean distance of (c) / of (d)", float(errors[1].mean() / errors[2].mean()), 8.0))
    table.note(f"(c) simulates {', '.join(few)}; (d) ended with {', '.join(rests[2].last)}")
    table.note("5 m, 5 kg, spring of 60 N/m from link 31; dampers in the hinges and along the spring")
    return rests


def draw(found: list[Rest], folder: Path) -> list[tuple[Path, str]]:
    """Draw the start and the three states of rest, joints that were simulated at the end marked."""
    path = folder / "redon-fig6.png"
    model = found[0].model
    (spring,) = model.springs
    anchor, tied = np.array(spring.at_a)[[0, 2]], model.body_index(spring.b)
    start = Rest("(a) start", model, corners=chain_corners(model, model.q0))
    with drawing(path, 13.0, 4.2) as figure:
        for k, rest in enumerate([start, *found]):
            axes = figure.add_axes((0.005 + 0.25 * k, 0.02, 0.24, 0.88), frameon=False)
            if k > 1:
                axes.plot(*found[0].corners.T, color=PALE, linewidth=1.2, label="all joints")
            hold = rest.corners[tied : tied + 2].mean(axis=0)
            axes.plot(*np.array([anchor, hold]).T, color=ACCENT, linewidth=1.0, linestyle=(0, (2, 1.5)))
            axes.plot(*anchor, "s", color=ACCENT, markersize=5)
            axes.plot(*rest.corners.T, color=COOL, linewidth=2.2)
            if 0 < len(rest.last) < 10:
                marks = rest.corners[[model.joint_names.index(name) for name in rest.last]]
                axes.plot(*marks.T, "o", color=INK, markersize=4)
            axes.plot(0.0, 0.0, "o", color=INK, markersize=5)
            axes.set(title=rest.title, xlim=(-0.6, 4.4), ylim=(-5.3, 0.4), xticks=(), yticks=(), aspect="equal")
    return [(path, "figure 6: states of rest of the pendulum on a spring")]
