"""Contact scenes: piles, towers, arches, dominoes, cards, and balls on rods."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from limberjack.errors import ModelError
from limberjack.model import check
from limberjack.model.builder import Builder
from limberjack.model.model import Model
from limberjack.model.spec import WORLD
from limberjack.scenes.catalog import Camera, scene, whole

__all__ = [
    "arch", "ball_grid", "box_pile", "card_house", "column", "dominoes", "kapla_tower", "newtons_cradle", "pyramid",
]  # fmt: skip

_COLORS = ((0.91, 0.45, 0.29, 1.0), (0.25, 0.49, 0.67, 1.0), (0.36, 0.58, 0.45, 1.0), (0.93, 0.79, 0.42, 1.0))
_DT = 1.0 / 240.0


def _turn(axis: int, angle: float) -> tuple[float, ...]:
    """Return the quaternion of a rotation about x, y or z."""
    out = [math.cos(0.5 * angle), 0.0, 0.0, 0.0]
    out[1 + axis] = math.sin(0.5 * angle)
    return tuple(out)


def _box(
    builder: Builder, name: str, size: Any, position: Any, density: float, friction: float, rotation: Any = None
) -> None:
    """Add a free box whose frame is at its centre."""
    x, y, z = size
    mass = density * x * y * z
    inertia = [mass / 12.0 * (y * y + z * z), mass / 12.0 * (x * x + z * z), mass / 12.0 * (x * x + y * y)]
    builder.add_body(name, mass=mass, inertia=inertia, position=position, rotation=rotation)
    builder.add_shape_box(name, size, friction=friction, color=_COLORS[sum(map(ord, name)) % 4])


def _stage(height: float, away: float, seconds: float = 5.0, dt: float = _DT) -> dict[str, Any]:
    return {
        "method": "impulses",
        "dt": dt,
        "seconds": seconds,
        "camera": Camera((0.8 * away, -away, height + 0.5 * away), (0.0, 0.0, 0.5 * height)),
    }


@scene("Boxes of 20 cm in columns, slightly rotated and apart, dropped on the ground.", lambda **_: _stage(2.0, 5.0))
def box_pile(*, boxes: int = 500, layers: int | None = None, seed: int = 0) -> Model:
    """Return columns of boxes over a square base, 5 layers of them up to 1000 boxes, else 10.

    Args:
        boxes: how many.
        layers: boxes per column; None as above.
        seed: of rotations and positions.
    """
    boxes, seed = whole(boxes, "boxes", 1), whole(seed, "seed", 0)
    high = (10 if boxes >= 1000 else 5) if layers is None else whole(layers, "layers", 1)
    side, half = max(1, round((boxes / high) ** 0.5)), 0.1
    random, builder = np.random.default_rng(seed), Builder("box_pile")
    builder.add_shape_plane(WORLD, friction=0.6)
    for k in range(boxes):
        layer, cell = divmod(k, side * side)
        angle, away = random.uniform(-0.2, 0.2), random.uniform(-0.02, 0.02, 2)
        x, y = ((cell // side - side / 2) * 2.4 * half, (cell % side - side / 2) * 2.4 * half)
        position = (x + away[0], y + away[1], half + 0.01 + layer * (2.0 * half + 0.02))
        _box(builder, f"box{k}", (2.0 * half,) * 3, position, 500.0, 0.6, _turn(2, angle))
    return builder.build()


@scene("Equal boxes on top of each other, a hard test of contact solvers.", lambda **o: _stage(0.2 * o["boxes"], 3.0))
def column(*, boxes: int = 10, ratio: float = 1.0) -> Model:
    """Return one column of boxes of 20 cm, each lying exactly on the one below.

    Args:
        boxes: how many.
        ratio: mass of the highest over that of the others.
    """
    boxes, ratio = whole(boxes, "boxes", 1), check.number(ratio, "ratio", low=1e-9)
    builder = Builder("column")
    builder.add_shape_plane(WORLD)
    for k in range(boxes):
        density = 500.0 * (ratio if k == boxes - 1 else 1.0)
        _box(builder, f"box{k}", (0.2, 0.2, 0.2), (0.0, 0.0, 0.1 + 0.2 * k), density, 0.5)
    return builder.build()


@scene("A pyramid of boxes, one row on the other.", lambda **o: _stage(o["base"], 1.6 * o["base"], dt=1.0 / 60.0))
def pyramid(*, base: int = 20) -> Model:
    """Return a flat pyramid of boxes of a metre and 100 kg that touch, as engines for games measure themselves with.

    Args:
        base: boxes in the lowest row; 100 make 5050 in all.
    """
    base = whole(base, "base", 1)
    builder = Builder("pyramid", gravity=(0.0, 0.0, -10.0))
    builder.add_shape_plane(WORLD, friction=0.6)
    for row in range(base):
        for k in range(base - row):
            position = (k + 0.5 * (row + 1) - 0.5 * base, 0.0, row + 0.5)
            _box(builder, f"box{row}_{k}", (1.0, 1.0, 1.0), position, 100.0, 0.6)
    return builder.build()


@scene("A curtain of balls on ball joints, hung from its upper edge.", lambda **o: _stage(0.0, 1.5 * o["side"]))
def ball_grid(*, side: int = 20) -> Model:
    """Return a square grid of bodies of 268 kg, a metre apart, the highest row fixed.

    Args:
        side: bodies along an edge.
    """
    side = whole(side, "side", 2)
    builder, mass = Builder("ball_grid", gravity=(0.0, 0.0, -10.0)), 1000.0 * 4.0 / 3.0 * math.pi * 0.4**3
    for k in range(side):
        for i in range(side):
            name = f"b{k}_{i}"
            builder.add_body(name, mass=mass, inertia=(0.4 * mass * 0.16,) * 3)
            builder.add_shape_sphere(name, 0.4, collide=False, color=_COLORS[(k + i) % 4])
            if i == 0:
                builder.add_joint_fixed(f"top{k}", WORLD, name, position=(k - 0.5 * (side - 1), 0.0, 0.5 * side))
            else:
                builder.add_joint_ball(
                    f"down{k}_{i}", f"b{k}_{i - 1}", name, position=(0.0, 0.0, -0.5), position_in_child=(0.0, 0.0, 0.5)
                )
            if k > 0 and i > 0:
                builder.add_joint_ball(
                    f"side{k}_{i}", f"b{k - 1}_{i}", name, position=(0.5, 0.0, 0.0), position_in_child=(-0.5, 0.0, 0.0)
                )
    return builder.build()


@scene("A row of dominoes, the first one tipped over.", lambda **o: _stage(0.05, 0.3 + 0.6 * o["count"] * o["spacing"]))
def dominoes(*, count: int = 30, spacing: float = 0.025) -> Model:
    """Return a straight row of dominoes of 48 x 24 x 7.5 mm that stand, the first of which tips.

    Args:
        count: how many.
        spacing: from one to the next [m].
    """
    count, spacing = whole(count, "count", 2), check.number(spacing, "spacing", low=0.009)
    builder = Builder("dominoes")
    builder.add_shape_plane(WORLD, friction=0.5)
    for k in range(count):
        name, size = f"domino{k}", (0.0075, 0.024, 0.048)
        position = ((k - 0.5 * (count - 1)) * spacing, 0.0, 0.024)
        mass = 1200.0 * size[0] * size[1] * size[2]
        inertia = [mass / 12.0 * (size[(i + 1) % 3] ** 2 + size[(i + 2) % 3] ** 2) for i in range(3)]
        builder.add_body(name, mass=mass, inertia=inertia)
        builder.add_shape_box(name, size, friction=0.5, color=_COLORS[k % 4])
        # it rotates about its lower edge
        speed = (0.024 * 4.0, 0.0, 0.00375 * 4.0, 0.0, 4.0, 0.0) if k == 0 else (0.0,) * 6
        builder.add_joint_free(f"{name}_free", WORLD, name, start=(*position, 1.0, 0.0, 0.0, 0.0), start_velocity=speed)
    return builder.build()


@scene("A semicircular arch of wedges held by friction alone.", lambda **_: _stage(1.2, 4.0))
def arch(*, stones: int = 15, radius: float = 1.0, thickness: float = 0.25, friction: float = 0.7) -> Model:
    """Return an arch over a half circle; below a thickness of about a ninth of the radius no arch stands.

    Args:
        stones: wedges of equal angle.
        radius: of the middle of the stones [m].
        thickness: of the stones, along the radius [m].
        friction: between stones and with the ground.
    """
    stones = whole(stones, "stones", 3)
    radius, thickness = check.number(radius, "radius", low=1e-3), check.number(thickness, "thickness", low=1e-4)
    if thickness >= 2.0 * radius:
        raise ModelError(f"thickness must be less than twice the radius, got {thickness:g} and {radius:g}")
    friction = check.number(friction, "friction", low=0.0)
    builder = Builder("arch")
    builder.add_shape_plane(WORLD, friction=friction)
    width, step = 0.3, math.pi / stones
    for k in range(stones):
        corners = []
        for side in (-0.5 * width, 0.5 * width):
            for r in (radius - 0.5 * thickness, radius + 0.5 * thickness):
                for angle in (k * step, (k + 1) * step):
                    corners.append((-r * math.cos(angle), side, r * math.sin(angle)))
        points = np.array(corners)
        middle = points.mean(axis=0)
        faces = [
            (0, 1, 3), (0, 3, 2), (4, 7, 5), (4, 6, 7), (0, 4, 5), (0, 5, 1), (2, 3, 7), (2, 7, 6), (0, 2, 6),
            (0, 6, 4), (1, 5, 7), (1, 7, 3),
        ]  # fmt: skip
        name = f"stone{k}"
        builder.add_body(name, position=middle)
        builder.add_shape_mesh(
            name, vertices=points - middle, faces=faces, density=2000.0, friction=friction, color=_COLORS[k % 4]
        )
    return builder.build()


@scene(
    "A house of cards: leaning pairs with strips across them.",
    lambda **o: _stage(0.085 * o["storeys"], 0.25 + 0.1 * o["storeys"]),
)
def card_house(*, storeys: int = 3, friction: float = 0.7) -> Model:
    """Return a house of cards of 88 x 63 x 2 mm, pairs leaning at 20 degrees, a strip across each storey but the last.

    Args:
        storeys: of leaning pairs; the lowest has as many pairs as there are storeys.
        friction: between cards and with the ground.
    """
    storeys, friction = whole(storeys, "storeys", 1), check.number(friction, "friction", low=0.0)
    builder = Builder("card_house")
    builder.add_shape_plane(WORLD, friction=friction)
    long, wide, thin, lean = 0.088, 0.063, 0.002, math.radians(20.0)
    size = (thin, wide, long)
    # a leaning card stands on its lower outer edge; the upper inner edges of a pair coincide
    rise = 0.5 * (long * math.cos(lean) + thin * math.sin(lean))
    run = 0.5 * (long * math.sin(lean) + thin * math.cos(lean))
    pitch = 4.0 * run + 0.002
    floor = 0.0
    for level in range(storeys):
        pairs = storeys - level
        for k in range(pairs):
            x = (k - 0.5 * (pairs - 1)) * pitch
            for side in (-1.0, 1.0):
                position = (x + side * run, 0.0, floor + rise)
                _box(
                    builder, f"card{level}_{k}{'ab'[side > 0]}", size, position, 800.0, friction, _turn(1, -side * lean)
                )
        floor += 2.0 * rise
        if pairs > 1:
            # one strip: cards side by side would have to overlap to reach the same ridge
            strip = ((pairs - 1) * pitch + 2.0 * run, wide, thin)
            _box(builder, f"roof{level}", strip, (0.0, 0.0, floor + 0.5 * thin), 800.0, friction)
        floor += thin
    return builder.build()


@scene(
    "A tower of Kapla planks, three to a layer, crosswise.",
    lambda **o: _stage(0.0078 * o["layers"], 0.2 + 0.009 * o["layers"], dt=0.01),
)
def kapla_tower(*, layers: int = 34, gap: float = 0.0) -> Model:
    """Return a tower of planks of 117 x 23.4 x 7.8 mm lying flat; 34 layers have 102 of them.

    Args:
        layers: of three planks each.
        gap: height they fall from [m].
    """
    layers, gap = whole(layers, "layers", 1), check.number(gap, "gap", low=0.0)
    builder = Builder("kapla_tower")
    builder.add_shape_plane(WORLD, friction=0.5)
    long, wide, high = 0.117, 0.0234, 0.0078
    for layer in range(layers):
        for k in (-1, 0, 1):
            away, z = k * (0.5 * (long - wide)), (layer + 0.5) * high + (layer + 1) * gap
            if layer % 2:
                size, position = (wide, long, high), (away, 0.0, z)
            else:
                size, position = (long, wide, high), (0.0, away, z)
            _box(builder, f"plank{layer}_{k + 1}", size, position, 600.0, 0.5)
    return builder.build()


@scene("Newton's cradle: the first balls are released, as many leave on the other side.", lambda **_: _stage(1.0, 3.0))
def newtons_cradle(*, balls: int = 5, lifted: int = 1, angle: float = 0.6) -> Model:
    """Return balls on light rods side by side, the first of them lifted.

    Args:
        balls: how many.
        lifted: how many of them start lifted.
        angle: they are lifted by [rad].
    """
    balls, lifted = whole(balls, "balls", 2), whole(lifted, "lifted", 0)
    if lifted > balls:
        raise ModelError(f"lifted must be at most {balls}, the number of balls, got {lifted}")
    angle = check.number(angle, "angle", low=0.0)
    builder, radius, length = Builder("newtons_cradle"), 0.1, 1.0
    for k in range(balls):
        name = f"ball{k}"
        x = 2.0 * radius * (k - 0.5 * (balls - 1))
        builder.add_body(name, mass=1.0, com=(0.0, 0.0, -length), inertia=(0.004, 0.004, 0.004))
        builder.add_joint_hinge(
            f"string{k}", WORLD, name, position=(x, 0.0, 1.5), axis=(0.0, 1.0, 0.0), start=angle if k < lifted else 0.0
        )
        builder.add_shape_sphere(
            name, radius, position=(0.0, 0.0, -length), restitution=1.0, friction=0.0, color=_COLORS[k % 4]
        )
    string = length - radius
    for k in range(balls):
        builder.add_shape_capsule(
            f"ball{k}", 0.006, string, position=(0.0, 0.0, -0.5 * string), collide=False, color=(0.35, 0.37, 0.40, 1.0)
        )
    return builder.build()
