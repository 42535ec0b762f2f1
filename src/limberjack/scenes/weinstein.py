"""Scenes of Weinstein, Teran and Fedkiw (2006): articulated bodies among contacts.

All bodies start with the identity rotation, so that every ball joint starts at its identity and every loop is closed
exactly.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from limberjack.model import check
from limberjack.model.builder import Builder
from limberjack.model.check import number
from limberjack.model.model import Model
from limberjack.model.spec import WORLD, Axis, Motor
from limberjack.scenes.catalog import Camera, flag, scene, whole

__all__ = ["joint_types", "lifting_net", "net", "pre_versus_post"]

# Fig. 10 of Weinstein, Teran and Fedkiw (2006): a body in the path of two jointed ones.

_BAR, _LONG, _BALL = 0.06, 0.5, 0.12


def _fly_by(speed: float) -> dict[str, Any]:
    camera = Camera((0.9, -3.4, 0.9), (0.9, 0.0, 0.0))
    return {"method": "impulses", "dt": 1.0 / 60.0, "seconds": 0.2, "camera": camera}


@scene("Two hinged bars fly at a ball, far enough in one step to pass it: it is pushed ahead of them.", _fly_by)
def pre_versus_post(*, speed: float = 15.0) -> Model:
    """Return two bars, one above the other on a hinge, that fly along x at a ball before the hinge; no gravity.

    At 15 m/s they travel 25 cm in a step of 1/60 s, from one side of the ball to the other. A method that moves first
    and corrects joints and overlaps afterwards finds the ball behind them and pushes it the wrong way.

    Args:
        speed: of the bars [m/s].
    """
    speed = number(speed, "speed", low=0.0)
    builder, size = Builder("pre_versus_post", gravity=(0.0, 0.0, 0.0)), (_BAR, 0.3, _LONG)
    x, y, z = (s * s / 12.0 for s in size)
    for name, side, color in (("upper", 1.0, (0.25, 0.49, 0.67, 1.0)), ("lower", -1.0, (0.36, 0.58, 0.45, 1.0))):
        at = (0.0, 0.0, side * 0.5 * _LONG)
        position = at if name == "upper" else None
        builder.add_body(name, mass=2.0, inertia=(2.0 * (y + z), 2.0 * (x + z), 2.0 * (x + y)), position=position)
        builder.add_shape_box(name, size, color=color)
    builder.add_joint_free("flight", "world", "upper", start_velocity=(speed, 0.0, 0.0, 0.0, 0.0, 0.0))
    builder.add_joint_hinge(
        "hinge", "upper", "lower", axis=(0.0, 1.0, 0.0), position=(0.0, 0.0, -0.5 * _LONG),
        position_in_child=(0.0, 0.0, 0.5 * _LONG),
    )  # fmt: skip
    builder.add_body("ball", mass=1.0, inertia=(0.4 * _BALL**2,) * 3, position=(0.5 * _BAR + _BALL + 0.02, 0.0, 0.0))
    builder.add_shape_sphere("ball", _BALL, color=(0.91, 0.45, 0.29, 1.0))
    return builder.build()


_COLORS = ((0.91, 0.45, 0.29, 1.0), (0.25, 0.49, 0.67, 1.0), (0.36, 0.58, 0.45, 1.0), (0.93, 0.79, 0.42, 1.0))
_DT = 1.0 / 240.0


def _stage(target: tuple[float, float, float], away: float, seconds: float = 5.0) -> dict[str, Any]:
    x, y, z = target
    camera = Camera((x + 0.7 * away, y - away, z + 0.5 * away), target)
    return {"method": "impulses", "dt": _DT, "seconds": seconds, "camera": camera}


def _along(direction: np.ndarray) -> tuple[float, ...]:
    """Return the quaternion that rotates z to a direction."""
    x, y, z = direction / np.linalg.norm(direction)
    if z < -0.999999:
        return (0.0, 1.0, 0.0, 0.0)
    w = math.sqrt(2.0 * (1.0 + z))
    return (0.5 * w, -y / w, x / w, 0.0)


def _rod_inertia(direction: np.ndarray, across: float, along: float) -> np.ndarray:
    """Return the inertia of a rod along a direction, (3, 3)."""
    d = direction / np.linalg.norm(direction)
    return across * np.eye(3) + (along - across) * np.outer(d, d)


# Bars and knots of the nets: length of a bar, reach of a knot, height of the zigzag, distance of knots [m].
_BAR_LENGTH, _KNOT, _ZIGZAG = 0.14, 0.03, 0.035
_SPACING = 2.0 * _KNOT + math.sqrt(_BAR_LENGTH * _BAR_LENGTH - 4.0 * _ZIGZAG * _ZIGZAG)


@scene(
    "A net of 16 x 16 knots and 480 bars on 960 ball joints, held at its corners.",
    lambda **_: _stage((1.5, 1.5, 0.0), 4.0),
)
def net(*, cells: int = 15, blocks: int = 0, collide: bool = False) -> Model:
    """Return a square net that starts slack, in a zigzag; 15 x 15 cells have 256 knots, 480 bars and 960 joints.

    Args:
        cells: along each side.
        blocks: boxes that fall into it.
        collide: whether knots and bars collide with each other and with the blocks.
    """
    cells, blocks, collide = whole(cells, "cells", 1), whole(blocks, "blocks", 0), flag(collide, "collide")
    collide = collide or blocks > 0
    builder = Builder("net")
    _add_net(builder, cells, 0.0, collide=collide, held=True)
    random, middle = np.random.default_rng(0), 0.5 * cells * _SPACING
    for k in range(blocks):
        x, y = middle + random.uniform(-0.25, 0.25, 2) * cells * _SPACING
        builder.add_body(f"block{k}", mass=2.0, inertia=(0.0133,) * 3, position=(x, y, 0.4 + 0.25 * k))
        builder.add_shape_box(f"block{k}", (0.2, 0.2, 0.2), color=_COLORS[3])
    return builder.build()


def _add_net(builder: Builder, cells: int, height: float, *, collide: bool, held: bool) -> None:
    """Add the knots and bars of a net at a height; where `held`, the corners are fixed to the world."""
    length, knot, up, spacing = _BAR_LENGTH, _KNOT, _ZIGZAG, _SPACING
    position: dict[tuple[int, int], np.ndarray] = {}
    names: dict[tuple[int, int], str] = {}
    for i in range(cells + 1):
        for j in range(cells + 1):
            at = np.array([i * spacing, j * spacing, height + (up if (i + j) % 2 else -up)])
            name = f"knot{i}_{j}"
            position[i, j], names[i, j] = at, name
            corner = held and i in (0, cells) and j in (0, cells)
            builder.add_body(name, mass=0.03, inertia=(2e-5,) * 3, position=None if corner else at)
            builder.add_shape_sphere(name, 0.8 * knot, color=_COLORS[0], collide=collide, group=1)
            if corner:
                builder.add_joint_fixed(f"{name}_held", WORLD, name, position=at)
    for (i, j), at in position.items():
        for di, dj in ((1, 0), (0, 1)):
            if (i + di, j + dj) not in position:
                continue
            reach = knot * np.array([di, dj, 0.0])
            a, b = at + reach, position[i + di, j + dj] - reach
            middle, name = 0.5 * (a + b), f"bar{i}_{j}{'yx'[di]}"
            across = 0.05 * length * length / 12.0
            builder.add_body(name, mass=0.05, inertia=_rod_inertia(b - a, across, 1e-5))
            builder.add_shape_capsule(
                name, 0.012, length - 0.04, rotation=_along(b - a), color=_COLORS[1], collide=collide, group=1
            )
            for end, (point, other) in enumerate(((a, (i, j)), (b, (i + di, j + dj)))):
                builder.add_joint_ball(
                    f"{name}_{'ab'[end]}", names[other], name, position=point - position[other],
                    position_in_child=point - middle,
                )  # fmt: skip


# The way of the corners of the net that lifts: rest, then upwards and inwards within a time [s, m].
_REST, _LIFT, _HIGH, _INWARDS, _LYING = 0.5, 2.5, 1.2, 0.25, 0.08


class Lift:
    """A drive that moves the corners of the net up and together, and holds them there.

    Args:
        cells: of the net, along each side.
    """

    def __init__(self, cells: int) -> None:
        self._cells = cells

    def __call__(self, sim: Any) -> None:
        """Prescribe the poses of the corners at the end of the next step."""
        part = min(max((sim.time + sim.dt - _REST) / _LIFT, 0.0), 1.0)
        part = part * part * (3.0 - 2.0 * part)
        side = self._cells * _SPACING
        for i in (0, self._cells):
            for j in (0, self._cells):
                start = np.array([i * _SPACING, j * _SPACING, _LYING + (_ZIGZAG if (i + j) % 2 else -_ZIGZAG)])
                way = np.array([_INWARDS * (side - 2.0 * start[0]), _INWARDS * (side - 2.0 * start[1]), _HIGH])
                sim.move(f"knot{i}_{j}", start + part * way)


def _lift_stage(cells: int, blocks: int) -> dict[str, Any]:
    half = 0.5 * cells * _SPACING
    return _stage((half, half, 0.5), 3.0) | {"dt": 1.0 / 60.0, "drive": Lift(cells)}


@scene("A net lies under boxes; its corners are moved up and together, and it picks the boxes up.", _lift_stage)
def lifting_net(*, cells: int = 8, blocks: int = 5) -> Model:
    """Return a net on the ground and boxes on it; the drive of the scene moves the corners of the net.

    Args:
        cells: of the net, along each side.
        blocks: boxes of 2 kg.
    """
    cells, blocks = whole(cells, "cells", 4), whole(blocks, "blocks", 0)
    builder = Builder("lifting_net")
    builder.add_shape_plane("world")
    _add_net(builder, cells, _LYING, collide=True, held=False)
    middle = 0.5 * cells * _SPACING
    for k in range(blocks):
        x, y = middle + 0.13 * (k % 2 * 2 - 1), middle + 0.13 * (k // 2 % 2 * 2 - 1)
        builder.add_body(f"block{k}", mass=2.0, inertia=(0.0133,) * 3, position=(x, y, 0.3 + 0.22 * (k // 4)))
        builder.add_shape_box(f"block{k}", (0.2, 0.2, 0.2), color=_COLORS[3])
    return builder.build()


_HALF = math.sqrt(0.5)
_SLIDES = (("x", (1.0, 0.0, 0.0), 0.8), ("z", (0.0, 0.0, 1.0), 1.2), ("y", (0.0, 1.0, 0.0), 0.6))


def _joint_of(kind: str, motors: bool) -> tuple[str, dict[str, Any]]:
    """Return the kind and the options of the joint of an exhibit."""
    if kind.startswith("slides"):
        axes = [
            Axis(name=f"{kind}_{word}", kind="slide", axis=axis, limits=(-0.25, 0.25), start_velocity=speed)
            for word, axis, speed in _SLIDES[: int(kind[6:])]
        ]
        return "compound", {"axes": axes}
    hinge = {"axis": (0.0, 1.0, 0.0), "start": 1.0, "limits": (-1.2, 1.2)}
    slide = {"axis": (_HALF, 0.0, _HALF), "limits": (-0.25, 0.25)}
    if motors:
        hinge["motor"], slide["motor"] = Motor(kp=20.0, kd=1.0, target=0.5), Motor(kp=200.0, kd=5.0)
    twist = {"axis": (0.0, 0.0, 1.0), "start_velocity": 6.0}
    ball = {"start": (math.cos(0.4), math.sin(0.4), 0.0, 0.0), "start_velocity": (0.0, 0.0, 3.0)}
    return {
        "point": ("ball", ball), "hinge": ("hinge", hinge), "twist": ("hinge", twist), "rigid": ("hinge", hinge),
        "slide": ("slide", slide),
    }[kind]  # fmt: skip


@scene(
    "One joint of each kind of figure 9: point, hinge, twist, rigid, and slides along one, two and three axes.",
    lambda **_: {**_stage((0.0, 0.0, 1.0), 4.0), "camera": Camera((0.6, -6.0, 1.8), (0.0, 0.0, 1.0))},
)
def joint_types(*, motors: bool = False, ratio: float = 1000.0) -> Model:
    """Return a row of bars, each on its own kind of joint to a fixed block (the paper's Fig. 9).

    The bar of the rigid joint swings on a hinge and carries a heavy block, fixed to it in all six directions.

    Args:
        motors: whether the hinge and the slide along one axis are driven.
        ratio: mass of that block over that of its bar.
    """
    motors, ratio = flag(motors, "motors"), check.number(ratio, "ratio", positive=True)
    builder = Builder("joint_types")
    kinds = ("point", "hinge", "twist", "rigid", "slide", "slides2", "slides3")
    for k, kind in enumerate(kinds):
        name, x, mass = f"bar_{kind}", (k - 3.0) * 0.75, 0.1 if kind == "rigid" else 1.0
        builder.add_shape_box(WORLD, (0.2, 0.2, 0.2), position=(x, 0.0, 1.6), color=(0.6, 0.6, 0.6, 1.0), collide=False)
        builder.add_body(name, mass=mass, com=(0.0, 0.0, -0.25), inertia=mass * np.array([0.022, 0.022, 0.001]))
        builder.add_shape_box(name, (0.08, 0.08, 0.5), position=(0.0, 0.0, -0.25), color=_COLORS[k % 4])
        joint, own = _joint_of(kind, motors)
        builder.add_joint(joint, f"{kind}_joint", WORLD, name, position=(x, 0.0, 1.5), **own)
    builder.add_body("heavy", mass=0.1 * ratio, inertia=(0.1 * ratio * 0.25**2 / 6.0,) * 3)
    builder.add_shape_box("heavy", (0.25, 0.25, 0.25), color=_COLORS[1])
    builder.add_joint_fixed("rigid_tie", "bar_rigid", "heavy", position=(0.0, 0.0, -0.6))
    builder.add_shape_plane(WORLD, position=(0.0, 0.0, -0.5))
    return builder.build(merge_fixed=False)
