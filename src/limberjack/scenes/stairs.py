"""Figures and a rope that fall down stairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from limberjack.model.builder import Builder
from limberjack.model.model import Model
from limberjack.model.spec import WORLD
from limberjack.scenes.catalog import Camera, scene, whole
from limberjack.spatial.frames import quaternion_from_matrix, turn_z_to

__all__ = ["ragdolls", "stairs"]

_COLORS = ((0.91, 0.45, 0.29, 1.0), (0.25, 0.49, 0.67, 1.0), (0.36, 0.58, 0.45, 1.0), (0.93, 0.79, 0.42, 1.0))
_STONE, _ROPE = (0.78, 0.78, 0.80, 1.0), (0.85, 0.72, 0.45, 1.0)
_DENSITY = 1000.0  # of the figures [kg/m^3]
_TREAD, _RISE, _WIDE = 0.4, 0.2, 3.0
_FRICTION = 0.6
# Name, body above, joint in the body above, the way from there to the body's end, radius [m]; joint kind and largest
# angle [rad]. The frame of a body is at its joint, axes of the world at rest, arms held out along y.
_LIMBS = (
    ("chest", "pelvis", (0.0, 0.0, 0.10), (0.0, 0.0, 0.30), 0.13, "ball", 0.5),
    ("head", "chest", (0.0, 0.0, 0.43), (0.0, 0.0, 0.13), 0.09, "ball", 0.7),
    *(
        limb
        for side, s in (("left", 1.0), ("right", -1.0))
        for limb in (
            (f"{side}_arm", "chest", (0.0, 0.20 * s, 0.28), (0.0, 0.26 * s, 0.0), 0.05, "ball", 1.5),
            (f"{side}_forearm", f"{side}_arm", (0.0, 0.30 * s, 0.0), (0.0, 0.26 * s, 0.0), 0.04, "hinge", 2.3),
            (f"{side}_thigh", "pelvis", (0.0, 0.10 * s, -0.08), (0.0, 0.0, -0.40), 0.07, "ball", 1.3),
            (f"{side}_shin", f"{side}_thigh", (0.0, 0.0, -0.44), (0.0, 0.0, -0.40), 0.05, "hinge", 2.3),
        )
    ),
)
# Elbows bend forwards about z, to either side by their sign; knees backwards about y.
_AXES = {"left_forearm": (0, 0, -1), "right_forearm": (0, 0, 1), "left_shin": (0, 1, 0), "right_shin": (0, 1, 0)}


def _capsule(builder: Builder, name: str, end: np.ndarray, radius: float, density: float, color: Any) -> None:
    """Add a body from its frame's origin to `end`, with the shape of a capsule and the inertia of a rod so thick."""
    length = float(np.linalg.norm(end))
    along = end / length
    mass = density * np.pi * radius**2 * (length + 4.0 / 3.0 * radius)
    across = mass * ((length + radius) ** 2 / 12.0 + radius**2 / 4.0)
    inertia = across * (np.eye(3) - np.outer(along, along)) + 0.5 * mass * radius**2 * np.outer(along, along)
    builder.add_body(name, mass=mass, com=end / 2, inertia=inertia)
    turn = tuple(map(float, quaternion_from_matrix(turn_z_to(along.reshape(1, 3))[0])))
    builder.add_shape_capsule(name, radius, length, position=end / 2, rotation=turn, color=color, friction=_FRICTION)


def _figure(builder: Builder, name: str, place: np.ndarray, rotation: np.ndarray, color: Any) -> None:
    """Add a figure of 11 bodies on 6 ball joints with cones and 4 hinges with limits."""
    _capsule(builder, f"{name}_pelvis", np.array((0.0, 0.0, 0.05)), 0.12, _DENSITY, color)
    builder.add_joint_free(f"{name}_root", WORLD, f"{name}_pelvis", start=(*place, *rotation))
    for limb, above, at, way, radius, kind, most in _LIMBS:
        body = f"{name}_{limb}"
        _capsule(builder, body, np.array(way), radius, _DENSITY, color)
        joint, parent = f"{body}_joint", f"{name}_{above}"
        if kind == "hinge":
            builder.add_joint_hinge(joint, parent, body, position=at, axis=_AXES[limb], limits=(0.0, most), damping=0.5)
        else:
            builder.add_joint_ball(joint, parent, body, position=at, axis=way, cone=most, damping=0.5)


def _add_stairs(builder: Builder, steps: int, wide: float) -> None:
    """Add the ground and stairs that rise along x."""
    builder.add_shape_plane(WORLD, friction=_FRICTION)
    for k in range(steps):
        high = (k + 1) * _RISE
        middle = ((k + 0.5) * _TREAD, 0.0, 0.5 * high)
        builder.add_shape_box(WORLD, (_TREAD, wide, high), position=middle, color=_STONE, friction=_FRICTION)


def _stage(*, steps: int, **_: Any) -> dict[str, Any]:
    x, z = 0.5 * int(steps) * _TREAD, 0.5 * int(steps) * _RISE
    camera = Camera((x - 1.5, -6.5, z + 2.2), (x, 0.0, z))
    return {"method": "full", "dt": 1 / 240, "seconds": 4.0, "camera": camera}


@scene("Figures with limbs and a rope fall down stairs.", _stage)
def stairs(*, figures: int = 3, links: int = 16, steps: int = 8, seed: int = 0) -> Model:
    """Return figures of 11 bodies with limited joints, and a rope, above the upper end of stairs.

    Args:
        figures: how many.
        links: of the rope; 0 means no rope.
        steps: of the stairs.
        seed: of the rotations of the figures.
    """
    figures, links, steps = whole(figures, "figures", 0), whole(links, "links", 0), whole(steps, "steps", 1)
    draw, builder = np.random.default_rng(whole(seed, "seed", 0)), Builder("stairs")
    _add_stairs(builder, steps, _WIDE)
    top = np.array(((steps - 1.5) * _TREAD, 0.0, steps * _RISE))
    for k in range(figures):
        turn = draw.normal(size=4)
        turn /= np.linalg.norm(turn)
        place = top + (-0.5 * k, 0.9 * (k % 2) - 0.45, 1.2 + 0.7 * k)
        _figure(builder, f"figure{k}", place, turn, _COLORS[k % len(_COLORS)])
    above = WORLD
    for k in range(links):
        name = f"rope{k}"
        _capsule(builder, name, np.array((-0.12, 0.0, 0.0)), 0.025, _DENSITY, _ROPE)
        if k == 0:
            builder.add_joint_free("rope_root", WORLD, name, start=(*(top + (0.4, 0.0, 0.5)), 1.0, 0.0, 0.0, 0.0))
        else:
            builder.add_joint_ball(f"{name}_joint", above, name, position=(-0.12, 0.0, 0.0), damping=0.002)
        above = name
    return builder.build()


# Figures of `ragdolls` beside each other, and their distances along and across the stairs [m].
_ABREAST, _APART = 10, 2.2


def _stage_ragdolls(*, figures: int, steps: int, **_: Any) -> dict[str, Any]:
    x, z = 0.5 * int(steps) * _TREAD, 0.5 * int(steps) * _RISE
    wide = _APART * min(int(figures), _ABREAST)
    camera = Camera((x - 4.0 - 0.6 * wide, -6.0 - 0.6 * wide, z + 4.0 + 0.2 * wide), (x, 0.0, z))
    return {"method": "full", "dt": 1 / 240, "seconds": 4.0, "camera": camera}


@scene("200 ragdolls fall down wide stairs.", _stage_ragdolls)
def ragdolls(*, figures: int = 200, steps: int = 40, seed: int = 0) -> Model:
    """Return figures of 11 bodies with limited joints, rows of ten above wide stairs.

    Args:
        figures: how many.
        steps: of the stairs.
        seed: of the rotations of the figures.
    """
    figures, steps = whole(figures, "figures", 1), whole(steps, "steps", 1)
    draw, builder = np.random.default_rng(whole(seed, "seed", 0)), Builder("ragdolls")
    _add_stairs(builder, steps, _APART * (min(figures, _ABREAST) + 2))
    for k in range(figures):
        turn = draw.normal(size=4)
        turn /= np.linalg.norm(turn)
        row, column = divmod(k, _ABREAST)
        x = (steps - 1.5) * _TREAD - row % max(1, steps // 6) * _APART
        layer = row // max(1, steps // 6)
        height = (x / _TREAD + 1.0) * _RISE
        across = _APART * (column - 0.5 * (min(figures, _ABREAST) - 1))
        _figure(
            builder, f"figure{k}", np.array((x, across, height + 1.4 + 2.2 * layer)), turn, _COLORS[k % len(_COLORS)]
        )
    return builder.build()
