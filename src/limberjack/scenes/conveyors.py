"""Scenes with kinematic bodies: a drum that turns, rollers that carry, a platform that lifts and shakes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from limberjack.model import check
from limberjack.model.builder import Builder
from limberjack.model.model import Model
from limberjack.model.spec import WORLD
from limberjack.scenes.catalog import Camera, scene, whole

__all__ = ["conveyor", "drum", "platform"]

_COLORS = ((0.91, 0.45, 0.29, 1.0), (0.25, 0.49, 0.67, 1.0), (0.36, 0.58, 0.45, 1.0), (0.93, 0.79, 0.42, 1.0))
_GRAY = (0.6, 0.62, 0.65, 1.0)
_FRICTION = 0.6


def _box(builder: Builder, name: str, edge: float, position: Any, density: float = 500.0) -> None:
    """Add a free cube whose frame is at its centre."""
    mass = density * edge**3
    builder.add_body(name, mass=mass, inertia=(mass * edge * edge / 6.0,) * 3, position=position)
    builder.add_shape_box(name, (edge,) * 3, friction=_FRICTION, color=_COLORS[sum(map(ord, name)) % 4])


def _stage(away: float, height: float, drive: Any, seconds: float = 8.0, dt: float = 1.0 / 60.0) -> dict[str, Any]:
    return {
        "method": "impulses", "dt": dt, "seconds": seconds, "drive": drive,
        "camera": Camera((0.4 * away, -away, height + 0.3 * away), (0.0, 0.0, height)),
    }  # fmt: skip


def _turning(names: list[str], rate: float) -> Any:
    def drive(sim: Any) -> None:
        # prescribed once: kinematic bodies go on
        if sim.steps == 0:
            for name in names:
                sim.move(name, angular_velocity=(0.0, rate, 0.0))

    return drive


@scene(
    "Boxes tumble in a turning drum with four paddles.",
    # boxes that tumble over each other meet at new corners within 1/60 s, and sink in by centimetres until seen
    lambda **o: _stage(9.0, 2.5, _turning(["drum"], o["rate"]), dt=1.0 / 240.0),
)
def drum(*, boxes: int = 150, rate: float = 0.8) -> Model:
    """Return a kinematic drum of 24 walls about a horizontal axis, boxes of 20 cm inside.

    Args:
        boxes: how many.
        rate: at which the scene turns it [rad/s].
    """
    boxes = whole(boxes, "boxes", 0)
    check.number(rate, "rate")
    builder, walls, radius, depth = Builder("drum"), 24, 2.0, 2.0
    builder.add_shape_plane(WORLD, friction=_FRICTION)
    builder.add_body("drum", position=(0.0, 0.0, 2.5), kinematic=True)
    wide = 2.0 * (radius + 0.1) * math.tan(math.pi / walls)
    for k in range(walls):
        angle = 2.0 * math.pi * k / walls
        c, s = math.cos(angle), math.sin(angle)
        turn = (math.cos(0.5 * angle), 0.0, -math.sin(0.5 * angle), 0.0)
        place = ((radius + 0.1) * c, 0.0, (radius + 0.1) * s)
        builder.add_shape_box(
            "drum", (0.2, depth, wide), position=place, rotation=turn, friction=_FRICTION, color=_GRAY
        )
        if k % 6 == 0:
            place = ((radius - 0.2) * c, 0.0, (radius - 0.2) * s)
            builder.add_shape_box(
                "drum", (0.4, depth, 0.1), position=place, rotation=turn, friction=_FRICTION, color=_GRAY
            )
    for side in (-1.0, 1.0):
        builder.add_shape_box(
            WORLD, (2.0 * radius + 0.6, 0.1, 2.0 * radius + 0.6), position=(0.0, side * (0.5 * depth + 0.06), 2.5),
            friction=0.1, color=(0.7, 0.8, 0.9, 0.15),
        )  # fmt: skip
    per, edge = 7, 0.2
    for k in range(boxes):
        layer, cell = divmod(k, per * per)
        x, y = ((cell // per - 0.5 * (per - 1)) * 1.2 * edge, (cell % per - 0.5 * (per - 1)) * 1.2 * edge)
        _box(builder, f"box{k}", edge, (x, y, 1.7 + layer * 1.2 * edge))
    return builder.build()


@scene(
    "Boxes ride on turning rollers.",
    lambda **o: _stage(6.0, 0.6, _turning([f"roller{k}" for k in range(o["rollers"])], 4.0)),
)
def conveyor(*, rollers: int = 24, boxes: int = 5) -> Model:
    """Return a row of kinematic rollers of 20 cm, and boxes on its first part; rollers of 4 rad/s carry at 0.4 m/s.

    Args:
        rollers: how many.
        boxes: how many.
    """
    rollers, boxes = whole(rollers, "rollers", 2), whole(boxes, "boxes", 0)
    builder, radius, pitch = Builder("conveyor"), 0.1, 0.22
    builder.add_shape_plane(WORLD, friction=_FRICTION)
    start = -0.5 * pitch * (rollers - 1)
    lying = (math.sqrt(0.5), math.sqrt(0.5), 0.0, 0.0)
    for k in range(rollers):
        builder.add_body(f"roller{k}", position=(start + pitch * k, 0.0, 0.5), kinematic=True)
        builder.add_shape_capsule(f"roller{k}", radius, 1.0, rotation=lying, friction=_FRICTION, color=_GRAY)
    for k in range(boxes):
        size, mass = (0.6, 0.5, 0.3), 10.0
        inertia = [mass / 12.0 * (size[(i + 1) % 3] ** 2 + size[(i + 2) % 3] ** 2) for i in range(3)]
        builder.add_body(
            f"box{k}", mass=mass, inertia=inertia, position=(start + 0.4 + 0.7 * k, 0.0, 0.5 + radius + 0.15)
        )
        builder.add_shape_box(f"box{k}", size, friction=_FRICTION, color=_COLORS[k % 4])
    return builder.build()


def _lift(sim: Any) -> None:
    """Move the platform to where it is to be after the next step."""
    t = sim.time + sim.dt
    sim.move("platform", (0.3 * math.sin(1.5 * t), 0.0, 1.0 + 0.4 * math.sin(t)))


@scene("A platform that rises, sinks and shakes carries a pile of boxes.", lambda **_: _stage(5.0, 1.2, _lift))
def platform(*, boxes: int = 20) -> Model:
    """Return a kinematic platform of 2 m with columns of boxes on it.

    Args:
        boxes: how many, five to a layer.
    """
    boxes = whole(boxes, "boxes", 0)
    builder, edge = Builder("platform"), 0.2
    builder.add_shape_plane(WORLD, friction=_FRICTION)
    builder.add_body("platform", position=(0.0, 0.0, 1.0), kinematic=True)
    builder.add_shape_box("platform", (2.0, 1.0, 0.1), friction=_FRICTION, color=_GRAY)
    for k, x in zip(range(boxes), np.resize(np.linspace(-0.7, 0.7, 5), max(boxes, 1)), strict=False):
        _box(builder, f"box{k}", edge, (float(x), 0.0, 1.05 + edge * (0.5 + k // 5)))
    return builder.build()
