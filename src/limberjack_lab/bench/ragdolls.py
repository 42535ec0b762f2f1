"""A heap of ragdolls of fifteen capsules, on ball joints and on hinges with limits, as engines for games pile them."""

from __future__ import annotations

import math

import numpy as np

import limberjack as lj

__all__ = ["ragdolls"]

_DENSITY, _FRICTION = 1000.0, 0.6
_BENT = (0.0, 2.4)  # range of knees and elbows [rad]
# Body: the one it hangs on, centre [m], axis of its capsule, radius, length of its cylinder, the joint's place and axis
# (none: a ball joint). Those on the left are mirrored.
_TRUNK = (
    ("pelvis", "", (0.0, 0.0, 1.00), "y", 0.11, 0.14, None, None),
    ("chest", "pelvis", (0.0, 0.0, 1.32), "y", 0.13, 0.14, (0.0, 0.0, 1.15), None),
    ("head", "chest", (0.0, 0.0, 1.66), "z", 0.10, 0.06, (0.0, 0.0, 1.50), None),
)
_SIDE = (
    ("upper_arm", "chest", (0.0, 0.36, 1.42), "y", 0.045, 0.20, (0.0, 0.22, 1.42), None),
    ("forearm", "upper_arm", (0.0, 0.64, 1.42), "y", 0.04, 0.18, (0.0, 0.50, 1.42), "z"),
    ("hand", "forearm", (0.0, 0.84, 1.42), "y", 0.04, 0.06, (0.0, 0.775, 1.42), None),
    ("thigh", "pelvis", (0.0, 0.10, 0.72), "z", 0.07, 0.26, (0.0, 0.10, 0.93), None),
    ("shin", "thigh", (0.0, 0.10, 0.32), "z", 0.05, 0.28, (0.0, 0.10, 0.52), "y"),
    ("foot", "shin", (0.05, 0.10, 0.06), "x", 0.04, 0.14, (0.0, 0.10, 0.12), None),
)
_HALF = math.sqrt(0.5)
_TURN = {"x": (_HALF, 0.0, _HALF, 0.0), "y": (_HALF, -_HALF, 0.0, 0.0), "z": (1.0, 0.0, 0.0, 0.0)}


def _parts() -> list[tuple]:
    """Return all bodies of a figure, parents first; the axis of a joint is a vector or None."""
    out: list[tuple] = [(*part[:7], None) for part in _TRUNK]
    for side, sign in (("left", 1.0), ("right", -1.0)):
        for name, parent, centre, axis, radius, length, joint, hinge in _SIDE:
            mirror = np.array((1.0, sign, 1.0))
            above = parent if parent in ("pelvis", "chest") else f"{side}_{parent}"
            about = None if hinge is None else (0.0, 1.0, 0.0) if hinge == "y" else (0.0, 0.0, sign)
            place = (mirror * centre, axis, radius, length, mirror * joint, about)
            out.append((f"{side}_{name}", above, *place))
    return out


def _capsule_mass(axis: str, radius: float, length: float) -> tuple[float, tuple[float, ...]]:
    """Return the mass and the moments of inertia of a capsule along an axis."""
    middle, ends = _DENSITY * math.pi * radius**2 * length, _DENSITY * 4.0 / 3.0 * math.pi * radius**3
    along = (0.5 * middle + 0.4 * ends) * radius**2
    across = middle * (radius**2 / 4.0 + length**2 / 12.0)
    across += ends * (0.4 * radius**2 + 0.25 * length**2 + 0.375 * length * radius)
    return middle + ends, tuple(along if own == axis else across for own in "xyz")


def _add_figure(builder: lj.Builder, prefix: str, at: np.ndarray) -> None:
    centres: dict[str, np.ndarray] = {}
    for name, parent, centre, axis, radius, length, joint, about in _parts():
        mass, inertia = _capsule_mass(axis, radius, length)
        builder.add_body(prefix + name, mass=mass, inertia=inertia, position=None if parent else tuple(at + centre))
        builder.add_shape_capsule(prefix + name, radius, length, rotation=_TURN[axis], friction=_FRICTION)
        centres[name] = np.array(centre)
        if not parent:
            continue
        ends = {"position": joint - centres[parent], "position_in_child": joint - centres[name]}
        who = (f"{prefix}{name}_joint", prefix + parent, prefix + name)
        if about is None:
            builder.add_joint_ball(*who, **ends)
        else:
            builder.add_joint_hinge(*who, axis=about, limits=_BENT, **ends)


def ragdolls(figures: int, seed: int = 0) -> lj.Model:
    """Return so many figures above each other, four in a layer and a little apart, that fall in a heap."""
    random, builder = np.random.default_rng(seed), lj.Builder("ragdolls")
    builder.add_shape_plane("world", friction=_FRICTION)
    for k in range(figures):
        layer, place = divmod(k, 4)
        x = 0.6 * (place // 2 - 0.5) + random.uniform(-0.1, 0.1)
        y = 2.0 * (place % 2 - 0.5) + random.uniform(-0.2, 0.2) + (0.5 if layer % 2 else 0.0)
        _add_figure(builder, f"r{k}_", np.array((x, y, 0.3 + 2.0 * layer)))
    return builder.build()
