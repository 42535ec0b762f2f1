"""The bridge of Weinstein, Teran and Fedkiw (2006), figure 3: planks, ropes of bars, and bodies that fall on it.

14 planks, 30 slats between them, 28 hangers and 30 bars of two ropes are 102 bodies, on 148 balls. Slats on either side
close loops between planks, hangers close loops between ropes and planks. All bodies start with the identity rotation;
the shapes are rotated in their frames instead, so that every ball starts at its identity and every loop is closed
exactly.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from limberjack.model.builder import Builder
from limberjack.model.model import Model
from limberjack.model.spec import WORLD
from limberjack.scenes.catalog import Camera, scene, whole
from limberjack.scenes.rings import Link, add_ring
from limberjack.spatial.frames import quaternion_from_matrix, turn_z_to

__all__ = ["bridge"]

_COLORS = ((0.91, 0.45, 0.29, 1.0), (0.25, 0.49, 0.67, 1.0), (0.36, 0.58, 0.45, 1.0), (0.93, 0.79, 0.42, 1.0))
_WOOD, _ROPE = (0.72, 0.55, 0.36, 1.0), (0.85, 0.78, 0.62, 1.0)
_PLANK, _SLAT, _WIDE, _THICK, _TALL = 0.47, 0.03, 1.0, 0.05, 0.6
_BEND = 12.0  # radius of the arc in which it hangs at the start [m]
_SIDES = (("left", 1.0), ("right", -1.0))


class _Bridge:
    """Adds bodies by their positions in the world."""

    def __init__(self, planks: int) -> None:
        self.builder, self._middles = Builder("bridge"), {WORLD: np.zeros(3)}
        lengths = [0.0, *([_SLAT, _PLANK] * planks), _SLAT]
        way = np.cumsum(lengths) - 0.5 * sum(lengths)
        turn = way / _BEND
        self.nodes = np.column_stack([_BEND * np.sin(turn), np.zeros(len(turn)), _BEND * (1.0 - np.cos(turn))])
        self.nodes[:, 2] -= self.nodes[0, 2]

    def beam(self, name: str, a: np.ndarray, b: np.ndarray, mass: float, wide: float, color: Any) -> None:
        """Add a box from a to b, `wide` across, or a capsule where that is zero; inertia as of a box."""
        middle, along = 0.5 * (a + b), b - a
        length = float(np.linalg.norm(along))
        size = (length, wide, _THICK) if wide else (length, 0.04, 0.04)
        turn = _turn(along / length, upright=wide > 0.0)
        x, y, z = (s * s for s in size)
        inertia = turn @ np.diag([y + z, x + z, x + y]) @ turn.T * (mass / 12.0)
        self.builder.add_body(name, mass=mass, inertia=inertia)
        self._middles[name] = middle
        if wide:
            rotation = tuple(map(float, quaternion_from_matrix(turn)))
            self.builder.add_shape_box(name, size, rotation=rotation, color=color, friction=0.6, group=1)
        else:
            about = quaternion_from_matrix(turn_z_to((along / length).reshape(1, 3))[0])
            self.builder.add_shape_capsule(
                name, 0.02, max(length - 0.04, 0.0), rotation=tuple(map(float, about)), color=color, friction=0.6,
                group=1,
            )  # fmt: skip

    def tie(self, name: str, above: str, below: str, point: np.ndarray) -> None:
        """Add a ball at a point of the world."""
        if below == WORLD:
            above, below = below, above
        self.builder.add_joint_ball(
            name, above, below, position=point - self._middles[above], position_in_child=point - self._middles[below]
        )


def _turn(along: np.ndarray, *, upright: bool) -> np.ndarray:
    """Return axes with x along `along` and y across the bridge where possible."""
    y = np.array([0.0, 1.0, 0.0]) if upright or abs(along[1]) < 0.9 else np.array([1.0, 0.0, 0.0])
    z = np.cross(along, y)
    z /= np.linalg.norm(z)
    return np.column_stack([along, np.cross(z, along), z])


def _add_base(made: _Bridge, planks: int) -> None:
    """Add the planks, and on either side the slats from one to the next and to the cliffs."""
    nodes = made.nodes
    for k in range(planks):
        made.beam(f"plank{k}", nodes[2 * k + 1], nodes[2 * k + 2], 6.0, _WIDE, _WOOD)
    for side, sign in _SIDES:
        off = np.array([0.0, sign * 0.42 * _WIDE, 0.0])
        for k in range(planks + 1):
            name, a, b = f"{side}_slat{k}", nodes[2 * k] + off, nodes[2 * k + 1] + off
            made.beam(name, a, b, 0.5, 0.0, _ROPE)
            made.tie(f"{name}_back", WORLD if k == 0 else f"plank{k - 1}", name, a)
            made.tie(f"{name}_front", name, WORLD if k == planks else f"plank{k}", b)


def _add_ropes(made: _Bridge, planks: int) -> None:
    """Add hangers on both ends of every plank, and a rope of bars over them from cliff to cliff."""
    nodes, up = made.nodes, np.array([0.0, 0.0, _TALL])
    for side, sign in _SIDES:
        off = np.array([0.0, sign * 0.5 * _WIDE, 0.0])
        feet = [nodes[0] + off, *(0.5 * (nodes[2 * k + 1] + nodes[2 * k + 2]) + off for k in range(planks))]
        feet.append(nodes[-1] + off)
        for k in range(planks):
            name = f"{side}_hanger{k}"
            made.beam(name, feet[k + 1], feet[k + 1] + up, 0.5, 0.0, _ROPE)
            made.tie(f"{name}_foot", f"plank{k}", name, feet[k + 1])
        for k in range(planks + 1):
            name, a, b = f"{side}_rope{k}", feet[k] + up, feet[k + 1] + up
            made.beam(name, a, b, 0.6, 0.0, _ROPE)
            made.tie(f"{name}_back", WORLD if k == 0 else f"{side}_hanger{k - 1}", name, a)
            made.tie(f"{name}_front", name, WORLD if k == planks else f"{side}_hanger{k}", b)


def _above(made: _Bridge, k: int, across: int, rows: int, pitch: float, high: float, step: float) -> np.ndarray:
    """Return the position over the bridge of the k-th body in rows and layers."""
    row, rest = k % rows, k // rows
    columns = max(1, int(0.86 * (made.nodes[-1, 0] - made.nodes[0, 0]) / pitch))
    column, layer = rest % columns, rest // columns
    x = (column - 0.5 * (columns - 1)) * pitch
    return np.array([x, (row - 0.5 * (rows - 1)) * across * 0.01, high + step * layer])


def _add_blocks(made: _Bridge, pairs: int) -> None:
    """Add pairs of blocks, the two of each on a ball between them."""
    edge, builder = 0.14, made.builder
    inertia, apart = (2.0 * edge**2 / 6.0,) * 3, 0.5 * edge + 0.01
    for k in range(pairs):
        at = _above(made, k, 28, 3, 0.4, 0.4, 0.25)
        for end, sign in enumerate((-1.0, 1.0)):
            name = f"block{k}_{end}"
            builder.add_body(
                name, mass=2.0, inertia=inertia, position=at + (sign * apart, 0.0, 0.0) if end == 0 else None
            )
            builder.add_shape_box(name, (edge, edge, edge), color=_COLORS[(k + end) % 4], friction=0.6)
        builder.add_joint_ball(
            f"pair{k}", f"block{k}_0", f"block{k}_1", position=(apart, 0.0, 0.0), position_in_child=(-apart, 0.0, 0.0)
        )


@scene(
    "A bridge of planks and ropes between two cliffs, with many loops, and blocks or chains falling on it.",
    lambda **_: {
        "method": "impulses", "dt": 1.0 / 240.0, "seconds": 5.0, "camera": Camera((4.2, -6.4, 2.6), (0.0, 0.0, 0.0)),
    },
)  # fmt: skip
def bridge(*, planks: int = 14, blocks: int = 0, chains: int = 0) -> Model:
    """Return a bridge that hangs between two cliffs: planks and slats, and ropes of bars on hangers at both sides.

    Args:
        planks: 14 make 102 bodies: 7 to each plank and 4 more.
        blocks: pairs of boxes that fall on it, each pair joined by a ball; the paper has 81.
        chains: closed chains of six mesh links that fall on it; the paper has 60.
    """
    planks, blocks, chains = whole(planks, "planks", 1), whole(blocks, "blocks", 0), whole(chains, "chains", 0)
    made = _Bridge(planks)
    _add_base(made, planks)
    _add_ropes(made, planks)
    for end in (0, -1):
        x, y, z = made.nodes[end]
        out = math.copysign(1.0, x)
        made.builder.add_shape_box(
            WORLD, (1.0, 1.4, 1.0), position=(x + 0.52 * out, y, z - 0.5), friction=0.6, color=(0.6, 0.6, 0.58, 1.0)
        )
    _add_blocks(made, blocks)
    link = Link(0.12, 0.018, 0.15)
    for k in range(chains):
        at = _above(made, k, 42, 2, 0.42, 0.35, 0.12)
        add_ring(made.builder, f"chain{k}", link, at, 0.7 * k, _COLORS[k % 4])
    return made.builder.build()
