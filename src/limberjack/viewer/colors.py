"""Colour by rigid cluster, energy, error or force."""

from __future__ import annotations

from typing import Any

import numpy as np

from limberjack.model.joints import locked
from limberjack.model.model import Model
from limberjack.simulation.handles import loop_pose
from limberjack.simulation.simulation import Simulation
from limberjack.viewer.drawing import PALETTE, Drawing

__all__ = [
    "MODES",
    "UNITS",
    "body_clusters",
    "body_values",
    "cluster_rows",
    "cluster_table",
    "clusters",
    "heat",
    "legend",
    "part_colors",
]

MODES = ("own", "rigid cluster", "active joints", "kinetic energy", "speed", "joint error", "contact force")
UNITS = {"kinetic energy": "J", "speed": "m/s", "joint error": "m", "contact force": "N"}
_PALE = (0.72, 0.74, 0.76)
_ACTIVE = (0.90, 0.35, 0.22)
_LOW, _MIDDLE, _HIGH = np.array((0.23, 0.45, 0.70)), np.array((0.95, 0.90, 0.70)), np.array((0.85, 0.25, 0.20))


def clusters(parent: np.ndarray, active: np.ndarray) -> np.ndarray:
    """Return, per link, the first link of the rigid cluster it belongs to.

    Args:
        parent: (n,) parent link, -1 for the world.
        active: (n,) whether the joint to it is simulated.
    """
    own = np.arange(len(parent))
    head = np.where(active.astype(bool) | (parent < 0), own, parent)
    while True:  # pointer jumping: each round doubles the distance to the ancestor
        further = head[head]
        if np.array_equal(further, head):
            return head
        head = further


def body_clusters(model: Model, active: np.ndarray) -> np.ndarray:
    """Return, per body, the first link of the rigid cluster it belongs to; -1 = fixed to the world.

    Args:
        model: the model.
        active: (links,) whether the joint of each link is simulated.
    """
    return np.append(clusters(model.arrays.links.parent, active).astype(float), -1.0)[model.arrays.body_link]


def cluster_table() -> np.ndarray:
    """Return the colours (n, 3) of clusters; grey is that of what does not move."""
    table = np.array(PALETTE[:-1])
    return np.concatenate([table, 0.6 * table + 0.4, 0.75 * table])


def cluster_rows(roots: np.ndarray) -> np.ndarray:
    """Return the rows of the table for clusters by their root links: of neighbours they are far apart."""
    return (roots.astype(np.int64) * 8) % 21  # coprime to the rows of the table


def heat(values: np.ndarray, most: float) -> np.ndarray:
    """Return colours (n, 3) from blue over pale yellow to red for values 0 .. most."""
    x = np.clip(np.asarray(values, float) / max(most, 1e-300), 0.0, 1.0)[:, None]
    low, high = _LOW + 2.0 * x * (_MIDDLE - _LOW), _MIDDLE + (2.0 * x - 1.0) * (_HIGH - _MIDDLE)
    return np.where(x < 0.5, low, high)


def body_values(sim: Simulation, mode: str) -> np.ndarray | None:
    """Return the values of a mode, one per body (of clusters: the index, or -1); None for a mode without values."""
    model = sim.model
    if mode == "rigid cluster":
        return body_clusters(model, np.asarray(sim.active_links, bool))
    if mode == "active joints":
        moving = np.asarray(sim.active_links, bool) & (model.arrays.links.dof > 0)
        return np.append(moving.astype(float), -1.0)[model.arrays.body_link]
    if mode == "speed":
        return np.linalg.norm(sim.velocities[:, 3:], axis=1)
    if mode == "kinetic energy":
        return _kinetic(sim)
    if mode == "joint error":
        return _errors(sim)
    if mode == "contact force":
        values = np.zeros(model.body_count)
        for contact in sim.contacts():
            size = float(np.linalg.norm(contact.force))
            for name in contact.bodies:
                if name in model.body_names:
                    values[model.body_index(name)] += size
        return values
    return None


def _kinetic(sim: Simulation) -> np.ndarray:
    """Return the kinetic energy of each body [J]."""
    a, velocities = sim.model.arrays, sim.velocities
    inertia = a.body_inertia[:, [0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(-1, 3, 3)
    q = sim.rotations
    # the angular velocity rotated to body axes
    w, u, v = q[:, :1], -q[:, 1:], velocities[:, :3]
    across = 2.0 * np.cross(u, v)
    spin = v + w * across + np.cross(u, across)
    linear = a.body_mass * np.square(velocities[:, 3:]).sum(axis=1)
    return 0.5 * (linear + np.einsum("ni,nij,nj->n", spin, inertia, spin))


def _errors(sim: Simulation) -> np.ndarray:
    """Return, per body, the largest gap of a loop joint at it [m]."""
    model = sim.model
    values = np.zeros(model.body_count)
    for name in model.loop_names:
        joint = model.joint_spec(name)
        if joint.kind in ("gear", "no_slip"):
            continue
        _, errors = locked(joint, *loop_pose(sim.model, sim.positions, sim.rotations, name))
        for body in (joint.parent, joint.child):
            if body in model.body_names:
                i = model.body_index(body)
                values[i] = max(values[i], float(np.abs(errors).max(initial=0.0)))
    return values


def part_colors(drawing: Drawing, mode: str, values: Any, most: float) -> np.ndarray:
    """Return the colours (parts, 3), 0 .. 1, of a drawing in a mode.

    Args:
        drawing: what is seen.
        mode: one of `MODES`.
        values: what `body_values` gave for it, or None.
        most: the value that is red.
    """
    own = drawing.parts.color
    if mode == "own" or values is None or len(values) != drawing.model.body_count:
        return own
    body = drawing.parts.body
    if mode == "rigid cluster":
        index = np.where(values >= 0, cluster_rows(values), 0)
        shades = np.where((values >= 0)[:, None], cluster_table()[index], _PALE)
    elif mode == "active joints":
        shades = np.where((values > 0)[:, None], _ACTIVE, _PALE)
    else:
        shades = heat(values, most)
    return np.where((body >= 0)[:, None], shades[np.maximum(body, 0)] if len(shades) else own, own)


def legend(mode: str, values: Any, most: float) -> str:
    """Return what the colours of a mode mean, as HTML; empty for the bodies' own colours.

    Args:
        mode: one of `MODES`.
        values: what `body_values` gave for it, or None.
        most: the value that is red.
    """
    if mode == "own" or values is None:
        return ""
    if mode == "rigid cluster":
        found = np.unique(values[values >= 0])
        chips = "".join(_chip(color) for color in cluster_table()[cluster_rows(found[:16])])
        more = " ..." if len(found) > 16 else ""
        return f"{chips}{more}<br>{len(found)} rigid clusters: bodies of one colour move as one rigid body"
    if mode == "active joints":
        count = int((values > 0).sum())
        return f"{_chip(_ACTIVE)} {count} bodies on active joints &nbsp; {_chip(_PALE)} rigid with their parent"
    stops = ", ".join(_css(color) for color in (_LOW, _MIDDLE, _HIGH))
    bar = f'<div style="height:10px;border-radius:3px;background:linear-gradient(90deg, {stops})"></div>'
    ends = f"<span>0</span><span>{most:.3g} {UNITS[mode]}</span>"
    return f'{bar}<div style="display:flex;justify-content:space-between">{ends}</div>{mode} of each body'


def _css(color: Any) -> str:
    return f"rgb({', '.join(str(round(255 * float(c))) for c in color)})"


def _chip(color: Any) -> str:
    shape = "display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:3px"
    return f'<span style="{shape};background:{_css(color)}"></span>'
