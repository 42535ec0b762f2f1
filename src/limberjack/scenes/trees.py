"""Trees of bodies: random ones with every joint kind, and the binary tree of ball joints."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from limberjack.errors import ModelError, UnknownName
from limberjack.model import check
from limberjack.model.builder import Builder
from limberjack.model.joints import KINDS, SPIN
from limberjack.model.model import Model
from limberjack.model.spec import WORLD, Axis
from limberjack.scenes.catalog import Camera, flag, scene, whole
from limberjack.spatial.frames import matrix_from_quaternion

__all__ = ["TREE_KINDS", "ball_tree", "random_tree"]

_EARTH = (0.0, 0.0, -9.81)
# Kinds allowed between two bodies: the parent of a free joint is the world.
TREE_KINDS = tuple(name for name, kind in KINDS.items() if kind.tree and name != "free")


def _quaternion(rng: np.random.Generator) -> np.ndarray:
    q = rng.normal(size=4)
    return q / np.linalg.norm(q)


def _inertia(rng: np.random.Generator, mass: float) -> np.ndarray:
    """Return the inertia of a rotated box with edges of 0.1 to 0.5 m, which is physically consistent."""
    x, y, z = rng.uniform(0.1, 0.5, 3) ** 2
    r = matrix_from_quaternion(_quaternion(rng))
    full = r @ np.diag([y + z, x + z, x + y]) @ r.T * (mass / 12)
    return 0.5 * (full + full.T)


def _compound(rng: np.random.Generator, name: str, damping: float) -> list[Axis]:
    """Return two to four axes in random directions through random points, so that no two dofs are dependent."""
    count = int(rng.integers(2, 5))
    return [
        Axis(
            name=f"{name}:{k}",
            kind="slide" if rng.random() < 0.3 and k else "hinge",
            axis=tuple(rng.normal(size=3)),
            position=tuple(rng.uniform(-0.1, 0.1, 3)),
            start=rng.uniform(-0.8, 0.8),
            start_velocity=rng.uniform(-1.0, 1.0),
            damping=damping,
        )
        for k in range(count)
    ]


def _start(rng: np.random.Generator, kind: str) -> dict[str, Any]:
    """Return random start coordinates and velocities for a joint of a plain kind."""
    motions = KINDS[kind].motions
    start = np.concatenate([_quaternion(rng) if motion == SPIN else rng.uniform(-0.8, 0.8, 1) for motion, _ in motions])
    return {"start": start, "start_velocity": rng.uniform(-1.0, 1.0, KINDS[kind].nv)}


def _join(
    builder: Builder, rng: np.random.Generator, kind: str, name: str, parent: str, child: str, damping: float
) -> None:
    options: dict[str, Any] = {
        "position": rng.uniform(-0.3, 0.3, 3),
        "rotation": _quaternion(rng),
        "position_in_child": rng.uniform(-0.3, 0.3, 3),
        "rotation_in_child": _quaternion(rng),
    }
    if kind == "compound":
        builder.add_joint_compound(name, parent, child, _compound(rng, name, damping), **options)
        return
    if kind == "universal":
        axes = matrix_from_quaternion(_quaternion(rng))
        options |= {"axis": axes[:, 0], "axis2": axes[:, 1]}
    elif kind != "fixed":
        options["axis"] = rng.normal(size=3)
    if kind == "screw":
        options["pitch"] = rng.uniform(-0.1, 0.1)
    if kind != "fixed":
        options |= {"damping": damping, **_start(rng, kind)}
    builder.add_joint(kind, name, parent, child, **options)


def _kinds(kinds: Any) -> tuple[str, ...]:
    """Return the joint kinds asked for, each allowed between two bodies."""
    if kinds == "all":
        return TREE_KINDS
    given = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    for kind in given:
        if kind not in TREE_KINDS:
            raise UnknownName("joint kind", kind, 'scene "random_tree"', ("all", *TREE_KINDS))
    if not given:
        raise ModelError(f"kinds must name at least one joint kind; there are all, {', '.join(TREE_KINDS)}")
    return given


def _stage_random(**_: Any) -> dict[str, Any]:
    return {"seconds": 3.0, "camera": Camera((4.0, -4.0, 2.0), (0.0, 0.0, 0.0))}


@scene(
    "A random tree of bodies with joints of all kinds asked for, for checks.",
    _stage_random,
    shown={"gravity": (0.0, 0.0, 0.0), "kinds": ("hinge", "ball", "universal")},  # nothing slides away
)
def random_tree(
    *,
    bodies: int = 50,
    seed: int = 0,
    kinds: Any = "all",
    floating: bool = True,
    damping: float = 0.0,
    gravity: Any = _EARTH,
) -> Model:
    """Return a random tree: kinds, frames, masses and start state all drawn from `seed`.

    Kinds are drawn without replacement, so every kind asked for appears once the tree has that many joints. A
    floating tree without gravity conserves its momentum.

    Args:
        bodies: number of bodies.
        seed: the same seed gives the same model, bit for bit.
        kinds: "all", one joint kind, or several; compound joints have two to four axes.
        floating: whether the first body is free; otherwise a joint of a random kind connects it to the world.
        damping: of every dof but those of a free body [N m s / rad or N s / m].
        gravity: [m/s^2].
    """
    bodies, allowed = whole(bodies, "bodies", 1), _kinds(kinds)
    damping = check.number(damping, "damping", low=0.0)
    rng = np.random.default_rng(whole(seed, "seed", 0))
    builder = Builder("random_tree", gravity=gravity)
    deck: list[str] = []
    for i in range(bodies):
        name = f"body{i}"
        mass = float(np.exp(rng.uniform(np.log(0.2), np.log(5.0))))
        builder.add_body(name, mass=mass, com=rng.uniform(-0.2, 0.2, 3), inertia=_inertia(rng, mass))
        builder.add_shape_capsule(name, 0.04, 0.2, color=(*rng.uniform(0.3, 0.9, 3), 1.0), collide=False)
        if i == 0 and flag(floating, "floating"):
            builder.add_joint_free("joint0", WORLD, name, **_start(rng, "free"))
            continue
        # Mostly onwards from the last body, now and then from one of the five before: chains that branch.
        parent = WORLD if i == 0 else f"body{i - 1 if rng.random() < 0.6 else rng.integers(max(0, i - 6), i)}"
        deck = deck or list(rng.permutation(allowed))
        _join(builder, rng, str(deck.pop()), f"joint{i}", parent, name, damping)
    return builder.build()


def _stage_ball_tree(*, bodies: int, length: float, **_: Any) -> dict[str, Any]:
    from limberjack.methods import Multipliers

    reach = float(length) * int(bodies).bit_length()
    return {
        # the last rods whip: with a first-order method they would gain energy and diverge
        "method": Multipliers(integrator="rattle"),
        "camera": Camera((1.4 * reach, -1.8 * reach, 0.0), (0.0, 0.0, -0.5 * reach)),
    }


@scene("A binary tree of rods on ball joints, 127 of them (after Baraff 1996, figure 3).", _stage_ball_tree)
def ball_tree(*, bodies: int = 127, length: float = 0.5, mass: float = 1.0, gravity: Any = _EARTH) -> Model:
    """Return a binary tree of rods, each hung by a ball joint from the end of the one above.

    Each joint takes three multipliers.

    Args:
        bodies: number of rods.
        length: of a rod [m].
        mass: of a rod [kg].
        gravity: [m/s^2].
    """
    bodies, length = whole(bodies, "bodies", 1), check.number(length, "length", positive=True)
    mass = check.number(mass, "mass", positive=True)
    radius = 0.06 * length
    thin, thick = mass * (3 * radius**2 + length**2) / 12, mass * radius**2 / 2
    centre = (0.0, 0.0, -length / 2)
    builder = Builder("ball_tree", gravity=gravity)
    for i in range(bodies):
        builder.add_body(f"rod{i}", mass=mass, com=centre, inertia=(thin, thin, thick))
        depth, side = (i + 1).bit_length() - 1, (1.0 if i % 2 else -1.0) * 0.15 * length
        # Siblings hang side by side, along x and y in turn, so that no two rods start in one place.
        beside = (side, 0.0, -length) if depth % 2 else (0.0, side, -length)
        # A first tilt of 30 degrees outwards sets the whole tree swinging.
        lean = math.copysign(math.sin(math.pi / 12), side)
        tilt = (math.cos(math.pi / 12), *((0.0, -lean, 0.0) if depth % 2 else (lean, 0.0, 0.0)))
        parent = f"rod{(i - 1) // 2}" if i else WORLD
        builder.add_joint_ball(f"ball{i}", parent, f"rod{i}", position=beside if i else (0.0, 0.0, 0.0), start=tilt)
        builder.add_shape_capsule(
            f"rod{i}", radius, length - 2 * radius, position=centre, color=(0.36, 0.58, 0.45, 1.0), collide=False
        )
    return builder.build()
