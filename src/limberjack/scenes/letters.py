"""Letters on the door of a refrigerator: Weinstein, Teran and Fedkiw (2006), figure 1."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from limberjack.model.builder import Builder
from limberjack.model.model import Model
from limberjack.model.shape_kinds import mesh_mass
from limberjack.model.spec import WORLD
from limberjack.scenes.catalog import Camera, scene, whole
from limberjack.scenes.mesh_solids import thickened

__all__ = ["fridge_magnets"]

_COLORS = ((0.91, 0.45, 0.29, 1.0), (0.25, 0.49, 0.67, 1.0), (0.36, 0.58, 0.45, 1.0), (0.93, 0.79, 0.42, 1.0))
_TALL, _DEEP, _DENSITY = 0.05, 0.012, 300.0
_WORD = "LIMBERJACK"

# Outlines on a field 14 wide and 20 high, counter-clockwise. The outline of a letter with holes follows a cut to each
# of them, goes around it clockwise, and back along the cut.
_OUTLINES: dict[str, str] = {
    "L": "0,0 12,0 12,5 5,5 5,20 0,20",
    "I": "0,0 12,0 12,4 8.5,4 8.5,16 12,16 12,20 0,20 0,16 3.5,16 3.5,4 0,4",
    "M": "0,0 4.5,0 4.5,12 7,7 9.5,12 9.5,0 14,0 14,20 9.5,20 7,14 4.5,20 0,20",
    "B": "0,0 9,0 13,4 13,8 11,10.5 13,13 13,17 9,20 0,20 0,16 4.5,16 8.5,16 8.5,12.5 4.5,12.5 4.5,16 0,16 "
    "0,8.5 4.5,8.5 8.5,8.5 8.5,4 4.5,4 4.5,8.5 0,8.5",
    "E": "0,0 12,0 12,4 4.5,4 4.5,8 10,8 10,12 4.5,12 4.5,16 12,16 12,20 0,20",
    "R": "0,0 4.5,0 4.5,7 9,0 14,0 9,8 13,11 13,17 10,20 0,20 0,16 4.5,16 8.5,16 8.5,12 4.5,12 4.5,16 0,16",
    "J": "0,3 3,0 9,0 12,3 12,20 7.5,20 7.5,4.5 4.5,4.5 4.5,8 0,8",
    "A": "0,0 4.5,0 5.5,4 8.5,4 9.5,0 14,0 9.5,20 7,20 7,15 8.2,8 5.8,8 7,15 7,20 4.5,20",
    "C": "0,4 4,0 12,0 12,4.5 5.5,4.5 4.5,6 4.5,14 5.5,15.5 12,15.5 12,20 4,20 0,16",
    "K": "0,0 4.5,0 4.5,7 9,0 14,0 8,10 14,20 9,20 4.5,13 4.5,20 0,20",
}


def _letter(which: str, size: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the mesh of a letter `size` high that stands in the x-z plane, its centre of mass at the origin."""
    outline = np.array([[float(x) for x in corner.split(",")] for corner in _OUTLINES[which].split()]) * (size / 20.0)
    points, faces = thickened(outline, _DEEP, 0.1 * _DEEP)
    # from the x-y plane to the x-z plane
    points = points[:, [0, 2, 1]] * (1.0, -1.0, 1.0)
    points = points - mesh_mass(points, faces)[1]
    points.setflags(write=False)
    faces.setflags(write=False)
    return points, faces


@scene(
    "Letters on a refrigerator door, on planar joints, slide down and pile up.",
    lambda **_: {
        "method": "impulses", "dt": 1.0 / 240.0, "seconds": 5.0, "camera": Camera((0.7, -2.2, 0.9), (0.0, 0.0, 0.45)),
    },
)  # fmt: skip
def fridge_magnets(*, letters: int = 210, seed: int = 0) -> Model:
    """Return letters, meshes that are not convex, which slide and turn on a door, fall onto a ledge and pile up.

    Args:
        letters: how many.
        seed: of their angles.
    """
    letters, seed = whole(letters, "letters", 1), whole(seed, "seed", 0)
    random, builder = np.random.default_rng(seed), Builder("fridge_magnets")
    across = max(1, round(math.sqrt(1.2 * letters)))
    pitch = 0.075
    width, high = pitch * across, pitch * math.ceil(letters / across) + 0.1
    for x, z, size in (
        (0.0, -0.05, (width + 0.2, 0.1, 0.1)),
        (-0.5 * width - 0.05, 0.5 * high, (0.1, 0.1, high)),
        (0.5 * width + 0.05, 0.5 * high, (0.1, 0.1, high)),
    ):
        builder.add_shape_box(WORLD, size, position=(x, 0.0, z), friction=0.4, color=(0.7, 0.7, 0.7, 1.0))
    builder.add_shape_box(
        WORLD, (width + 0.2, 0.02, high + 0.1), position=(0.0, 0.06, 0.5 * high - 0.05), color=(0.9, 0.92, 0.93, 1.0),
        collide=False,
    )  # fmt: skip
    made: dict[str, Any] = {}
    for k in range(letters):
        row, column = divmod(k, across)
        which, name = _WORD[k % len(_WORD)], f"letter{k}"
        if which not in made:
            made[which] = _letter(which, _TALL)
        vertices, faces = made[which]
        volume, _, inertia = mesh_mass(vertices, faces)
        x, z = (column - 0.5 * (across - 1)) * pitch, 0.06 + row * pitch
        builder.add_body(name, mass=_DENSITY * volume, inertia=_DENSITY * inertia)
        builder.add_shape_mesh(name, vertices=vertices, faces=faces, friction=0.4, color=_COLORS[k % 4])
        # the plane of the door: its normal, z of the joint, looks along -y
        builder.add_joint_planar(
            f"{name}_door", WORLD, name, rotation=(math.sqrt(0.5), math.sqrt(0.5), 0.0, 0.0),
            rotation_in_child=(math.sqrt(0.5), math.sqrt(0.5), 0.0, 0.0), start=(x, z, random.uniform(-0.5, 0.5)),
        )  # fmt: skip
    return builder.build()
