"""Scenes of Weinstein, Teran and Fedkiw (2006): articulated bodies among contacts.

All bodies start unturned, so that every ball joint starts at its identity and every loop is closed exactly.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from limberjack.model.builder import Builder
from limberjack.model.model import Model
from limberjack.model.spec import WORLD, Motor
from limberjack.scenes.catalog import Camera, flag, scene, whole

__all__ = ["bridge", "fridge_magnets", "joint_types", "net", "rings"]

_COLORS = ((0.91, 0.45, 0.29, 1.0), (0.25, 0.49, 0.67, 1.0), (0.36, 0.58, 0.45, 1.0), (0.93, 0.79, 0.42, 1.0))
_DT = 1.0 / 240.0


def _stage(target: tuple[float, float, float], away: float, seconds: float = 5.0) -> dict[str, Any]:
    x, y, z = target
    camera = Camera((x + 0.7 * away, y - away, z + 0.5 * away), target)
    return {"method": "impulses", "dt": _DT, "seconds": seconds, "camera": camera}


def _along(direction: np.ndarray) -> tuple[float, ...]:
    """Return the quaternion that takes z to a direction."""
    x, y, z = direction / np.linalg.norm(direction)
    if z < -0.999999:
        return (0.0, 1.0, 0.0, 0.0)
    w = math.sqrt(2.0 * (1.0 + z))
    return (0.5 * w, -y / w, x / w, 0.0)


def _rod_inertia(direction: np.ndarray, across: float, along: float) -> np.ndarray:
    """Return the inertia of a rod along a direction, (3, 3)."""
    d = direction / np.linalg.norm(direction)
    return across * np.eye(3) + (along - across) * np.outer(d, d)


@scene(
    "A net of 16 x 16 knots and 480 bars on 960 ball joints, held at its corners.",
    lambda **_: _stage((1.5, 1.5, 0.0), 4.0),
)
def net(*, cells: int = 15, blocks: int = 0, collide: bool = False) -> Model:
    """Return a square net that starts slack, in a zigzag; 15 x 15 cells have 256 knots, 480 bars and 960 joints.

    Args:
        cells: along each side.
        blocks: boxes that fall into it.
        collide: whether knots and bars can touch each other and the blocks.
    """
    cells, blocks, collide = whole(cells, "cells", 1), whole(blocks, "blocks", 0), flag(collide, "collide")
    collide = collide or blocks > 0
    builder, length, knot, up = Builder("net"), 0.14, 0.03, 0.035
    spacing = 2.0 * knot + math.sqrt(length * length - 4.0 * up * up)
    place: dict[tuple[int, int], np.ndarray] = {}
    names: dict[tuple[int, int], str] = {}
    for i in range(cells + 1):
        for j in range(cells + 1):
            at = np.array([i * spacing, j * spacing, up if (i + j) % 2 else -up])
            name = f"knot{i}_{j}"
            place[i, j], names[i, j] = at, name
            corner = i in (0, cells) and j in (0, cells)
            builder.add_body(name, mass=0.03, inertia=(2e-5,) * 3, position=None if corner else at)
            builder.add_shape_sphere(name, 0.8 * knot, color=_COLORS[0], collide=collide, group=1)
            if corner:
                builder.add_joint_fixed(f"{name}_held", WORLD, name, position=at)
    for (i, j), at in place.items():
        for di, dj in ((1, 0), (0, 1)):
            if (i + di, j + dj) not in place:
                continue
            reach = knot * np.array([di, dj, 0.0])
            a, b = at + reach, place[i + di, j + dj] - reach
            middle, name = 0.5 * (a + b), f"bar{i}_{j}{'yx'[di]}"
            across = 0.05 * length * length / 12.0
            builder.add_body(name, mass=0.05, inertia=_rod_inertia(b - a, across, 1e-5))
            builder.add_shape_capsule(
                name, 0.012, length - 0.04, rotation=_along(b - a), color=_COLORS[1], collide=collide, group=1
            )
            for end, (point, other) in enumerate(((a, (i, j)), (b, (i + di, j + dj)))):
                builder.add_joint_ball(
                    f"{name}_{'ab'[end]}", names[other], name, position=point - place[other],
                    position_in_child=point - middle,
                )  # fmt: skip
    random, middle = np.random.default_rng(0), 0.5 * cells * spacing
    for k in range(blocks):
        x, y = middle + random.uniform(-0.25, 0.25, 2) * cells * spacing
        builder.add_body(f"block{k}", mass=2.0, inertia=(0.0133,) * 3, position=(x, y, 0.4 + 0.25 * k))
        builder.add_shape_box(f"block{k}", (0.2, 0.2, 0.2), color=_COLORS[3])
    return builder.build()


@scene("Rings of six bent links, dropped on poles.", lambda **_: _stage((2.0, 2.0, 1.0), 7.0))
def rings(*, count: int = 360, poles: int = 5, seed: int = 0) -> Model:
    """Return rings of six links, two capsules each, with a ball joint between neighbours, over a square of poles.

    Args:
        count: rings; every 25 make another layer.
        poles: along each side of the square.
        seed: of places and turns.
    """
    count, poles, seed = whole(count, "count", 1), whole(poles, "poles", 1), whole(seed, "seed", 0)
    random, builder, radius, thick = np.random.default_rng(seed), Builder("rings"), 0.25, 0.03
    builder.add_shape_plane(WORLD, friction=0.6)
    for i in range(poles * poles):
        builder.add_shape_capsule(
            WORLD, 0.08, 1.5, position=(i % poles, i // poles, 0.75), friction=0.6, color=(0.6, 0.6, 0.6, 1.0)
        )
    for k in range(count):
        place, layer = k % (poles * poles), k // (poles * poles)
        middle = np.array([place % poles, place // poles, 1.9 + 0.13 * layer])
        middle[:2] += random.uniform(-0.05, 0.05, 2)
        phase = random.uniform(0.0, 2.0 * math.pi)
        angles = phase + np.arange(6) * math.pi / 3.0
        corners = middle + radius * np.column_stack([np.cos(angles), np.sin(angles), np.zeros(6)])
        _ring(builder, k, middle, corners, thick)
    return builder.build()


def _ring(builder: Builder, k: int, middle: np.ndarray, corners: np.ndarray, thick: float) -> None:
    """Add one ring of six links."""
    at = []
    for t in range(6):
        a, b = corners[t], corners[(t + 1) % 6]
        half = 0.5 * (a + b)
        top = half + 0.03 * (half - middle) / np.linalg.norm(half - middle)
        com, name = 0.25 * (a + b + 2.0 * top), f"link{k}_{t}"
        at.append(com)
        inertia = 0.2 * 0.25 * 0.25 / 12.0
        builder.add_body(name, mass=0.2, inertia=(inertia,) * 3, position=com if t == 0 else None)
        for p, q in ((a, top), (top, b)):
            builder.add_shape_capsule(
                name, thick, float(np.linalg.norm(q - p)) - 0.04, position=0.5 * (p + q) - com, rotation=_along(q - p),
                friction=0.6, color=_COLORS[k % 4],
            )  # fmt: skip
    for t in range(6):
        n = (t + 1) % 6
        builder.add_joint_ball(
            f"joint{k}_{t}",
            f"link{k}_{t}",
            f"link{k}_{n}",
            position=corners[n] - at[t],
            position_in_child=corners[n] - at[n],
        )


@scene("A bridge of hinged planks between two cliffs, with blocks on it.", lambda **_: _stage((0.0, 0.0, 0.0), 14.0))
def bridge(*, planks: int = 102, blocks: int = 0, chains: int = 0) -> Model:
    """Return planks on hinges from one cliff to the other, a little slack.

    Args:
        planks: of 20 cm.
        blocks: pairs of boxes that fall on it, one on the other.
        chains: chains of six links that hang below it.
    """
    planks, blocks, chains = whole(planks, "planks", 3), whole(blocks, "blocks", 0), whole(chains, "chains", 0)
    builder, size = Builder("bridge"), np.array([0.18, 1.0, 0.04])
    pitch = 0.2
    # planks lie along a shallow arc below the line between the cliffs, as a zigzag of steps
    span = planks * pitch * 0.98
    inertia = (
        6.0 / 12.0 * np.array([size[1] ** 2 + size[2] ** 2, size[0] ** 2 + size[2] ** 2, size[0] ** 2 + size[1] ** 2])
    )
    drop = math.sqrt(pitch**2 - (span / planks) ** 2)
    middles = []
    for k in range(planks + 1):
        sign = 0.5 if k % 2 else -0.5
        middles.append(np.array([-0.5 * span + k * span / planks, 0.0, sign * drop]))
    for k in range(planks):
        a, b = middles[k], middles[k + 1]
        name, lean = f"plank{k}", math.atan2(b[2] - a[2], b[0] - a[0])
        before = 0.0 if k == 0 else math.atan2(a[2] - middles[k - 1][2], a[0] - middles[k - 1][0])
        builder.add_body(name, mass=6.0, inertia=inertia)
        builder.add_shape_box(name, size, color=_COLORS[1 + k % 2], friction=0.6)
        position = a if k == 0 else (0.5 * pitch, 0.0, 0.0)
        builder.add_joint_hinge(
            f"hinge{k}", WORLD if k == 0 else f"plank{k - 1}", name, axis=(0.0, 1.0, 0.0), position=position,
            position_in_child=(-0.5 * pitch, 0.0, 0.0), start=-(lean - before),
        )  # fmt: skip
    builder.add_joint_hinge(
        "end",
        WORLD,
        f"plank{planks - 1}",
        axis=(0.0, 1.0, 0.0),
        position=middles[-1],
        position_in_child=(0.5 * pitch, 0.0, 0.0),
    )
    for k in range(blocks):
        x = (k + 0.5 - 0.5 * blocks) * 0.9 * span / max(blocks, 1)
        for high in range(2):
            name = f"block{k}_{high}"
            builder.add_body(name, mass=2.0, inertia=(0.0056,) * 3, position=(x, 0.0, 0.25 + 0.2 * high))
            builder.add_shape_box(name, (0.13, 0.13, 0.13), color=_COLORS[3], friction=0.6)
    for k in range(chains):
        on = min(planks - 1, int((k + 0.5) * planks / chains))
        above, point = f"plank{on}", (0.0, (0.4, -0.4)[k % 2], -0.5 * size[2])
        for link in range(6):
            name = f"chain{k}_{link}"
            builder.add_body(name, mass=0.2, com=(0.0, 0.0, -0.05), inertia=(2e-4, 2e-4, 2e-5))
            builder.add_shape_capsule(name, 0.012, 0.07, position=(0.0, 0.0, -0.05), color=_COLORS[0])
            builder.add_joint_ball(f"{name}_ball", above, name, position=point)
            above, point = name, (0.0, 0.0, -0.1)
    return builder.build()


@scene("Letters on a refrigerator door, on planar joints, pushed about.", lambda **_: _stage((0.0, 0.0, 1.0), 2.5))
def fridge_magnets(*, letters: int = 210, seed: int = 0) -> Model:
    """Return flat letters that slide and turn on a door, fall onto a ledge and pile up.

    Args:
        letters: how many.
        seed: of their sizes and turns.
    """
    letters, seed = whole(letters, "letters", 1), whole(seed, "seed", 0)
    random, builder = np.random.default_rng(seed), Builder("fridge_magnets")
    across = max(1, round(math.sqrt(1.2 * letters)))
    pitch = 0.075
    width = pitch * across
    for x, z, size in (
        (0.0, -0.05, (width + 0.2, 0.1, 0.1)),
        (-0.5 * width - 0.05, 0.6, (0.1, 0.1, 1.4)),
        (0.5 * width + 0.05, 0.6, (0.1, 0.1, 1.4)),
    ):
        builder.add_shape_box(WORLD, size, position=(x, 0.0, z), friction=0.4, color=(0.7, 0.7, 0.7, 1.0))
    for k in range(letters):
        row, place = divmod(k, across)
        name, high = f"letter{k}", 0.02 * (2.0 + random.uniform(0.0, 1.0))
        x, z = (place - 0.5 * (across - 1)) * pitch, 0.06 + row * pitch
        size = (0.035, 0.012, high)
        mass = 300.0 * size[0] * size[1] * size[2]
        inertia = [mass / 12.0 * (size[(i + 1) % 3] ** 2 + size[(i + 2) % 3] ** 2) for i in range(3)]
        builder.add_body(name, mass=mass, inertia=inertia)
        builder.add_shape_box(name, size, friction=0.4, color=_COLORS[k % 4])
        # the plane of the door: its normal, z of the joint, looks along -y
        builder.add_joint_planar(
            f"{name}_door", WORLD, name, rotation=(math.sqrt(0.5), math.sqrt(0.5), 0.0, 0.0),
            rotation_in_child=(math.sqrt(0.5), math.sqrt(0.5), 0.0, 0.0), start=(x, z, random.uniform(-0.5, 0.5)),
        )  # fmt: skip
    return builder.build()


@scene("One joint of each kind, each with a bar that swings from it.", lambda **_: _stage((0.0, 0.0, 1.0), 6.0))
def joint_types(*, motors: bool = False) -> Model:
    """Return a row of bars, each on its own kind of joint to the ceiling (the paper's Fig. 9).

    Args:
        motors: whether the hinge and the slide are driven.
    """
    motors = flag(motors, "motors")
    builder = Builder("joint_types")
    kinds = ("hinge", "ball", "universal", "slide", "cylindrical", "planar", "fixed", "point_on_line")
    own: dict[str, dict[str, Any]] = {
        "hinge": {"axis": (0.0, 1.0, 0.0), "start": 1.0, "limits": (-1.2, 1.2)},
        "ball": {"start": (math.cos(0.4), math.sin(0.4), 0.0, 0.0)},
        "universal": {"start": (0.5, 0.5)},
        "slide": {"limits": (-0.5, 0.5)},
        "cylindrical": {"axis": (1.0, 0.0, 0.0), "start": (0.0, 0.8)},
        "planar": {"rotation": (math.sqrt(0.5), math.sqrt(0.5), 0.0, 0.0)},
    }
    for word, motor in (("hinge", Motor(kp=20.0, kd=1.0, target=0.5)), ("slide", Motor(kp=200.0, kd=5.0))):
        if motors:
            own[word]["motor"] = motor
    for k, kind in enumerate(kinds):
        name = f"bar_{kind}"
        builder.add_body(name, mass=1.0, com=(0.0, 0.0, -0.25), inertia=(0.022, 0.022, 0.001))
        builder.add_shape_box(name, (0.08, 0.08, 0.5), position=(0.0, 0.0, -0.25), color=_COLORS[k % 4])
        place = ((k - 3.5) * 0.7, 0.0, 1.5)
        builder.add_joint(kind, f"{kind}_joint", WORLD, name, position=place, **own.get(kind, {}))
    builder.add_shape_plane(WORLD, position=(0.0, 0.0, -0.5))
    return builder.build(merge_fixed=False)
