"""The systems Baraff (1996) times in section 9, a star of many bodies, and a figure of scalable parts.

| system | multipliers: primary + auxiliary | here |
|---|---|---|
| bodies in the plane, 54 pins | 108 | `baraff_planar()` |
| the same with loops | 96 + 12 | `baraff_planar(rings=True)` |
| bodies in space and 3 frictionless contacts | 96 + 3 | `baraff_contacts()` |
| bodies in space, 127 balls | 381 | `baraff_tree()` |
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from limberjack.errors import ModelError
from limberjack.model import check
from limberjack.model.builder import Builder
from limberjack.model.model import Model
from limberjack.model.spec import WORLD
from limberjack.scenes.catalog import Camera, flag, scene, whole

__all__ = ["baraff_contacts", "baraff_planar", "baraff_tree", "scalable_puppet", "star"]

_EARTH = (0.0, 0.0, -9.81)
_COLORS = ((0.91, 0.45, 0.29, 1.0), (0.25, 0.49, 0.67, 1.0), (0.36, 0.58, 0.45, 1.0))
_METHOD = "multipliers"


def _bar(builder: Builder, name: str, color: tuple[float, ...], angle: float = 0.0) -> None:
    """Add a planar rod of 0.5 m and 1 kg from its frame's origin along x."""
    builder.add_body_planar(name, mass=1.0, inertia=0.5**2 / 12, com=(0.25, 0.0), angle=angle)
    builder.add_shape_box(name, (0.5, 0.06, 0.04), position=(0.25, 0, 0), color=color, collide=False)


def _stage_planar(**_: Any) -> dict[str, Any]:
    return {"method": _METHOD, "camera": Camera((4.5, -3.0, 10.0), (4.5, 0.0, 0.0))}


@scene("Bodies in the plane on 54 pins, without loops or with six (Baraff 1996, section 9).", _stage_planar)
def baraff_planar(*, rings: bool = False, stir: float = 0.5, gravity: Any = (0.0, 0.0, 0.0)) -> Model:
    """Return rods that float in the x-y plane, connected by 54 pins of two multipliers each.

    Without rings: a spine of 19 rods with legs to both sides of all but the first, 55 bodies, 108 primary multipliers.
    With rings: six octagons in a row and a tail, 49 bodies, 96 primary and 12 auxiliary multipliers.

    Args:
        rings: whether the connections close loops.
        stir: initial angular velocity of the pins of the spine, in alternating directions; with rings that of the tail
            only [rad/s].
        gravity: [m/s^2].
    """
    stir = check.number(stir, "stir")
    builder = Builder("baraff_planar", gravity=gravity)
    (_rings if flag(rings, "rings") else _caterpillar)(builder, stir)
    return builder.build()


def _caterpillar(builder: Builder, stir: float) -> None:
    for k in range(19):
        _bar(builder, f"spine{k}", _COLORS[1])
        if k:
            builder.add_joint_hinge(
                f"spine_pin{k}", f"spine{k - 1}", f"spine{k}", position=(0.5, 0, 0), start_velocity=stir * (-1) ** k
            )
            for side, turn in (("left", 1.2), ("right", -1.2)):
                leg = f"{side}_leg{k}"
                _bar(builder, leg, _COLORS[0])
                builder.add_joint_hinge(f"{leg}_pin", f"spine{k}", leg, position=(0.25, 0, 0), start=turn)


def _rings(builder: Builder, stir: float) -> None:
    eighth = math.pi / 4
    for ring in range(6):
        names = [f"ring{ring}_link{k}" for k in range(8)]
        for k, name in enumerate(names):
            # The first link points down by 67.5 degrees: then the corner across lies along +x.
            _bar(builder, name, _COLORS[ring % 2], angle=-1.5 * eighth if ring == k == 0 else 0.0)
            if k:
                builder.add_joint_hinge(f"{name}_pin", names[k - 1], name, position=(0.5, 0, 0), start=eighth)
            elif ring:
                above = f"ring{ring - 1}_link3"
                builder.add_joint_hinge(f"bridge{ring}", above, name, position=(0.5, 0, 0), start=-3 * eighth)
        builder.add_joint_hinge(f"ring{ring}_close", names[7], names[0], position=(0.5, 0, 0))
    _bar(builder, "tail", _COLORS[2])
    builder.add_joint_hinge(
        "tail_pin", "ring5_link3", "tail", position=(0.5, 0, 0), start=-1.5 * eighth, start_velocity=stir
    )


def _stage_contacts(**_: Any) -> dict[str, Any]:
    return {"method": _METHOD, "camera": Camera((3.0, -3.5, 2.0), (0.0, 0.0, 0.6))}


@scene(
    "Bodies in space on 32 balls that stand on three smooth feet (Baraff 1996, section 9).",
    _stage_contacts,
    {"solid": True},
)
def baraff_contacts(*, friction: float = 0.0, solid: bool = False, gravity: Any = _EARTH) -> Model:
    """Return a hub with three legs of ten rods and two antennas: 32 balls, 96 multipliers, and three contacts.

    The last rod of each leg ends in a sphere in contact with the ground, the plane z = 0, at the start. No torque acts
    on the legs: the figure collapses, as in the paper through the ground, since nothing but its feet collides.

    Args:
        friction: of feet and ground.
        solid: whether hub and rods collide with the ground as well.
        gravity: [m/s^2].
    """
    friction = check.number(friction, "friction", low=0.0)
    foot, rods = 0.05, 10
    builder = Builder("baraff_contacts", gravity=gravity)
    builder.add_shape_plane(friction=friction, name="ground")
    # Legs lean outwards by 0.3 rad; the hub stands where the feet touch.
    lean = 0.3
    length = 0.12
    height = rods * length * math.cos(lean) + foot
    builder.add_body("hub", mass=2.0, inertia=(0.02, 0.02, 0.03), position=(0, 0, height))
    builder.add_shape_sphere("hub", 0.15, color=_COLORS[1], collide=flag(solid, "solid"), friction=friction, group=1)
    for leg in range(3):
        about = 2 * math.pi * leg / 3
        way = np.array([math.cos(about), math.sin(about), 0.0])
        # The first ball turns -z of the leg outwards, about the horizontal axis across it.
        turn = (math.cos(lean / 2), *(math.sin(lean / 2) * np.array([way[1], -way[0], 0.0])))
        for k in range(rods):
            name, above = f"leg{leg}_rod{k}", f"leg{leg}_rod{k - 1}" if k else "hub"
            _rod(builder, name, length, 0.2, _COLORS[0], solid, friction)
            at = (0, 0, -length) if k else 0.15 * way
            builder.add_joint_ball(f"leg{leg}_ball{k}", above, name, position=at, start=turn if k == 0 else None)
        builder.add_shape_sphere(
            f"leg{leg}_rod{rods - 1}", foot, position=(0, 0, -length), color=_COLORS[2], friction=friction, group=1,
            name=f"foot{leg}",
        )  # fmt: skip
    for k, side in enumerate((1.0, -1.0)):
        _rod(builder, f"feeler{k}", 0.3, 0.1, _COLORS[2], solid, friction)
        builder.add_joint_ball(f"feeler{k}_ball", "hub", f"feeler{k}", position=(0, 0.15 * side, 0))
    return builder.build()


def _rod(
    builder: Builder, name: str, length: float, mass: float, color: tuple[float, ...], solid: bool, friction: float
) -> None:
    """Add a round rod of a tenth of its length across, from its frame's origin along -z; rods do not collide."""
    radius = 0.1 * length
    thin, thick = mass * (3 * radius**2 + length**2) / 12, mass * radius**2 / 2
    builder.add_body(name, mass=mass, com=(0, 0, -length / 2), inertia=(thin, thin, thick))
    builder.add_shape_capsule(
        name, radius, length - 2 * radius, position=(0, 0, -length / 2), color=color, collide=solid, friction=friction,
        group=1,
    )  # fmt: skip


def _stage_tree(*, bodies: int, length: float, **_: Any) -> dict[str, Any]:
    reach = float(length) * int(bodies).bit_length()
    return {"method": _METHOD, "camera": Camera((1.4 * reach, -1.8 * reach, 0.0), (0.0, 0.0, -0.5 * reach))}


@scene("A complete binary tree of 127 bodies on balls, with loops if wanted (Baraff 1996, figure 3).", _stage_tree)
def baraff_tree(
    *,
    bodies: int = 127,
    loops: int = 0,
    length: float = 0.5,
    mass: float = 1.0,
    stir: float = 0.0,
    gravity: Any = _EARTH,
) -> Model:
    """Return a complete binary tree of bodies that hang straight down, each by a ball from the one above.

    127 balls take 381 multipliers. Each loop is one more ball, halfway between the centres of two leaves: "loop0",
    "loop1", ... Leaves are paired along a ring of all leaves in a fixed random order.

    Args:
        bodies: number of bodies.
        loops: number of loops; at most one for each leaf, and none with fewer than two leaves.
        length: of a body [m].
        mass: of a body [kg].
        stir: largest initial angular velocity about each axis of each ball, drawn at random; must be 0 with loops,
            whose velocity constraints it would violate [rad/s].
        gravity: [m/s^2].
    """
    bodies, loops = whole(bodies, "bodies", 1), whole(loops, "loops", 0)
    length, mass = check.number(length, "length", positive=True), check.number(mass, "mass", positive=True)
    stir = check.number(stir, "stir", low=0.0)
    leaves = list(range(bodies // 2, bodies))
    most = len(leaves) if len(leaves) > 2 else len(leaves) - 1
    if loops > most:
        raise ModelError(f"loops must be <= {most} for {bodies} bodies, got {loops}")
    if stir and loops:
        raise ModelError(f"stir must be 0 with loops, got {stir:g}")
    builder = Builder("baraff_tree", gravity=gravity)
    inertia = (mass * length**2 / 12, mass * length**2 / 12, 0.02 * mass * length**2)
    rng = np.random.default_rng(0)
    speeds = stir * np.random.default_rng(1).uniform(-1.0, 1.0, (bodies, 3))
    positions = np.zeros((bodies, 3))
    for i in range(bodies):
        builder.add_body(f"body{i}", mass=mass, com=(0, 0, -length / 2), inertia=inertia)
        depth, side = (i + 1).bit_length() - 1, (0.15 if i % 2 else -0.15) * length
        at = np.array([side, 0.0, -length] if depth % 2 else [0.0, side, -length]) if i else np.zeros(3)
        above = (i - 1) // 2
        positions[i] = positions[above] + at if i else at
        builder.add_joint_ball(
            f"ball{i}", f"body{above}" if i else WORLD, f"body{i}", position=at,
            start_velocity=speeds[i] if stir else None,
        )  # fmt: skip
        builder.add_shape_capsule(
            f"body{i}",
            0.05 * length,
            0.9 * length,
            position=(0, 0, -length / 2),
            color=_COLORS[depth % 3],
            collide=False,
        )
    rng.shuffle(leaves)
    for k in range(loops):
        a, b = leaves[k], leaves[(k + 1) % len(leaves)]
        middle = (positions[a] + positions[b]) / 2 - (0.0, 0.0, length / 2)
        builder.add_joint_ball(
            f"loop{k}", f"body{a}", f"body{b}", position=middle - positions[a], position_in_child=middle - positions[b]
        )
    return builder.build()


def _stage_star(*, arms: int, **_: Any) -> dict[str, Any]:
    reach = 0.1 * max(1.0, math.sqrt(int(arms) / 10)) + 0.5
    return {"method": _METHOD, "camera": Camera((2.0 * reach, -2.5 * reach, 1.5 * reach), (0.0, 0.0, 0.0))}


@scene("A floating hub with many bodies on balls around it.", _stage_star, shown={"gravity": (0.0, 0.0, 0.0)})
def star(*, arms: int = 100, mass: float = 1.0, gravity: Any = _EARTH) -> Model:
    """Return a free hub of 10 kg and bodies on ball joints spread evenly over its surface.

    Args:
        arms: number of bodies around the hub.
        mass: of each [kg].
        gravity: [m/s^2].
    """
    arms, mass = whole(arms, "arms", 1), check.number(mass, "mass", positive=True)
    radius = 0.1 * max(1.0, math.sqrt(arms / 10))
    builder = Builder("star", gravity=gravity)
    builder.add_body("hub", mass=10.0, inertia=(4.0 * radius**2,) * 3)
    builder.add_shape_sphere("hub", radius, color=_COLORS[1], collide=False)
    for i in range(arms):
        up, about = math.acos(1 - 2 * (i + 0.5) / arms), math.pi * (1 + math.sqrt(5)) * i
        way = np.array([math.cos(about) * math.sin(up), math.sin(about) * math.sin(up), math.cos(up)])
        builder.add_body(f"arm{i}", mass=mass, com=0.25 * way, inertia=(0.02 * mass,) * 3)
        builder.add_joint_ball(f"ball{i}", "hub", f"arm{i}", position=radius * way)
        builder.add_shape_sphere(f"arm{i}", 0.05, position=0.25 * way, color=_COLORS[0], collide=False)
    return builder.build()


# part, hung from, place in it, direction, length [m], mass [kg]
_PUPPET = (
    ("head", "torso", (0, 0, 0.5), (0, 0, 1), 0.25, 4.0),
    ("upper_arm_left", "torso", (0, 0.2, 0.45), (0, 1, 0), 0.3, 2.0),
    ("upper_arm_right", "torso", (0, -0.2, 0.45), (0, -1, 0), 0.3, 2.0),
    ("forearm_left", "upper_arm_left", (0, 0.3, 0), (0, 1, 0), 0.3, 1.5),
    ("forearm_right", "upper_arm_right", (0, -0.3, 0), (0, -1, 0), 0.3, 1.5),
    ("thigh_left", "torso", (0, 0.1, 0), (0, 0, -1), 0.4, 6.0),
    ("thigh_right", "torso", (0, -0.1, 0), (0, 0, -1), 0.4, 6.0),
    ("shin_left", "thigh_left", (0, 0, -0.4), (0, 0, -1), 0.4, 3.0),
    ("shin_right", "thigh_right", (0, 0, -0.4), (0, 0, -1), 0.4, 3.0),
)


def _stage_puppet(**_: Any) -> dict[str, Any]:
    from limberjack.methods import Multipliers

    # parts that change their size while they swing gain energy in first-order steps
    method = Multipliers(integrator="rk4")
    return {"method": method, "camera": Camera((3.0, -1.5, 0.5), (0.0, 0.0, -0.3))}


@scene("A figure hung by its head whose limbs are elastic.", _stage_puppet)
def scalable_puppet(*, per_axis: bool = False, stiffness: float = 100.0, gravity: Any = _EARTH) -> Model:
    """Return a puppet of a rigid torso and nine scalable parts on ball joints, hung by its head from the world.

    Args:
        per_axis: whether the parts scale along each of their axes on its own.
        stiffness: of the scales towards 1 [N m]; where it is low against the weights, which are up to 110 N m, parts
            shrink to a point at times, at which they turn without bound.
        gravity: [m/s^2].
    """
    per_axis, stiffness = flag(per_axis, "per_axis"), check.number(stiffness, "stiffness", low=0.0)
    builder = Builder("scalable_puppet", gravity=gravity)
    builder.add_body("torso", mass=20.0, com=(0, 0, 0.25), inertia=(0.6, 0.5, 0.3))
    builder.add_shape_box("torso", (0.15, 0.3, 0.5), position=(0, 0, 0.25), color=_COLORS[1], collide=False)
    for name, above, at, way, length, mass in _PUPPET:
        along = np.abs(np.array(way, float))
        middle = np.array(way) * length / 2
        size = 0.3 * length + 0.7 * length * along
        squares = size**2
        builder.add_body_scalable(
            name, mass=mass, com=middle, inertia=mass / 12 * (squares.sum() - squares), per_axis=per_axis,
            scale_stiffness=stiffness,
        )  # fmt: skip
        builder.add_shape_box(name, size, position=middle, color=_COLORS[0 if name == "head" else 2], collide=False)
        builder.add_joint_ball(f"{name}_joint", above, name, position=at)
    builder.add_joint_ball("hook", WORLD, "head", position_in_child=(0, 0, 0.25))
    return builder.build()
