"""Machines of constraint rows: a planetary gear, a tread with many loops, and constraints of velocities.

The planetary gear has rows on three bodies. The constraint kinds of the rolling disc, the steered cart and the
differential are registered when the scene is built.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from limberjack.errors import ModelError
from limberjack.model import check
from limberjack.model.builder import Builder
from limberjack.model.model import Model
from limberjack.model.registered import CONSTRAINT_KINDS, register_constraint
from limberjack.model.spec import WORLD
from limberjack.scenes.catalog import Camera, scene, whole

__all__ = ["differential", "planetary", "rolling_disc", "steered_cart", "tread"]

_EARTH = (0.0, 0.0, -9.81)
_COLORS = ((0.91, 0.45, 0.29, 1.0), (0.25, 0.49, 0.67, 1.0), (0.36, 0.58, 0.45, 1.0), (0.6, 0.6, 0.62, 1.0))


def _stage_planetary(**_: Any) -> dict[str, Any]:
    return {"method": "multipliers", "seconds": 10.0, "camera": Camera((0.3, -0.6, 1.2), (0.0, 0.0, 0.0))}


@scene("A planetary gear: sun, ring, and planets on a carrier that turns.", _stage_planetary)
def planetary(*, planets: int = 3, sun: float = 0.1, planet: float = 0.07, speed: float = 5.0) -> Model:
    """Return a planetary gear in the x-y plane: "sun", "carrier" and "ring" on axles along z, "planet0", ... between.

    Each planet meshes with the sun ("inner0", ...) and with the ring ("outer0", ...), relative to the carrier: rows on
    three bodies, all but four of them redundant. Two degrees of freedom are left, related by Willis' equation
    r_sun w_sun + r_ring w_ring = (r_sun + r_ring) w_carrier. At the start the ring is at rest.

    Args:
        planets: number of planets.
        sun: radius of the sun [m].
        planet: radius of a planet [m].
        speed: of the sun at the start [rad/s].
    """
    planets = whole(planets, "planets", 1)
    sun, planet = check.number(sun, "sun", positive=True), check.number(planet, "planet", positive=True)
    speed, ring, arm = check.number(speed, "speed"), sun + 2 * planet, sun + planet
    slow = speed * sun / (sun + ring)
    builder = Builder("planetary", gravity=(0, 0, 0))

    def wheel(name: str, radius: float, mass: float, color: int, hollow: bool = False) -> None:
        turn = mass * radius**2 * (1.0 if hollow else 0.5)
        builder.add_body(name, mass=mass, inertia=(0.5 * turn, 0.5 * turn, turn))
        if not hollow:
            builder.add_shape_cylinder(name, radius, 0.02, color=_COLORS[color], collide=False)

    wheel("sun", sun, 50.0 * sun**2, 0)
    wheel("ring", ring, 1.0, 3, hollow=True)
    wheel("carrier", arm, 0.3, 2, hollow=True)
    for k in range(48):
        angle = 2 * math.pi * k / 48
        at = (1.04 * ring * math.cos(angle), 1.04 * ring * math.sin(angle), 0.0)
        turned = (math.cos(angle / 2), 0, 0, math.sin(angle / 2))
        size = (0.08 * ring, 0.14 * ring, 0.02)
        builder.add_shape_box("ring", size, position=at, rotation=turned, color=_COLORS[3], collide=False)
    for name, start in (("sun", speed), ("ring", 0.0), ("carrier", slow)):
        builder.add_joint_hinge(f"{name}_axle", WORLD, name, start_velocity=start)
    for k in range(planets):
        name, angle = f"planet{k}", 2 * math.pi * k / planets
        wheel(name, planet, 50.0 * planet**2, 1)
        at = np.array([arm * math.cos(angle), arm * math.sin(angle), 0.0])
        builder.add_shape_box(
            "carrier", (arm, 0.02, 0.01), position=at / 2 + (0, 0, 0.02), collide=False, color=_COLORS[2],
            rotation=(math.cos(angle / 2), 0, 0, math.sin(angle / 2)),
        )  # fmt: skip
        turning = -(speed - slow) * sun / planet
        builder.add_joint_hinge(f"{name}_axle", "carrier", name, position=at, start_velocity=turning)
        builder.add_gear(f"inner{k}", "sun_axle", f"{name}_axle", ratio=-planet / sun, carrier="carrier")
        builder.add_gear(f"outer{k}", "ring_axle", f"{name}_axle", ratio=planet / ring, carrier="carrier")
    return builder.build()


def _stage_tread(*, plates: int, length: float, **_: Any) -> dict[str, Any]:
    from limberjack.methods import Multipliers

    reach = int(plates) * float(length) / math.pi
    return {
        "method": Multipliers(integrator="rattle"),
        "seconds": 5.0,
        "camera": Camera((0.4 * reach, -2.6 * reach, -0.2 * reach), (0.0, 0.0, -0.6 * reach)),
    }


@scene("A closed tread of plates, each connected to the next by two ball joints, one plate fixed.", _stage_tread)
def tread(
    *, plates: int = 40, length: float = 0.1, width: float = 0.3, mass: float = 0.2, gravity: Any = _EARTH
) -> Model:
    """Return plates in a ring, each connected to the next by a ball joint at either end of their common edge.

    "plate0" is fixed to the world; the ring starts as a circle and falls. The balls "left1", ... are tree joints, all
    others loop joints: one for each pair of neighbours and two for the ring; one row per pair is redundant.

    Args:
        plates: number of plates.
        length: of a plate along the tread [m].
        width: across it [m].
        mass: of a plate [kg].
        gravity: [m/s^2].
    """
    plates = whole(plates, "plates", 3)
    length, width = check.number(length, "length", positive=True), check.number(width, "width", positive=True)
    mass = check.number(mass, "mass", positive=True)
    builder, turn, thick = Builder("tread", gravity=gravity), 2 * math.pi / plates, 0.15 * length
    squares = np.array([length, 0.95 * width, thick]) ** 2
    bent = (math.cos(turn / 2), 0.0, math.sin(turn / 2), 0.0)
    for k in range(plates):
        name, after = f"plate{k}", f"plate{k - 1}"
        middle = (length / 2, 0, 0)
        builder.add_body(name, mass=mass, com=middle, inertia=mass / 12 * (squares.sum() - squares))
        builder.add_shape_box(
            name, (0.9 * length, 0.95 * width, thick), position=middle, color=_COLORS[k % 2], collide=False
        )
        if k == 0:
            builder.add_joint_fixed("mount", WORLD, name, position=(-length / 2, 0, 0))
            continue
        for side, y in (("left", width / 2), ("right", -width / 2)):
            start: dict[str, Any] = {"start": bent} if side == "left" else {}
            builder.add_joint_ball(
                f"{side}{k}", after, name, position=(length, y, 0), position_in_child=(0, y, 0), **start
            )
    for side, y in (("left", width / 2), ("right", -width / 2)):
        builder.add_joint_ball(
            f"{side}{plates}", f"plate{plates - 1}", "plate0", position=(length, y, 0), position_in_child=(0, y, 0)
        )
    return builder.build()


def _disc_height(position: Any, rotation: Any, time: float, data: Any) -> float:
    """Let the rim of a disc about its z, of radius data[0], be on the ground."""
    return position[2] - data[0] * math.sqrt(1.0 - rotation[2][2] * rotation[2][2])


def _disc_rolls(position: Any, rotation: Any, velocity: Any, turning: Any, time: float, data: Any) -> Any:
    """Let the point of the disc on the ground be at rest along x and y."""
    u = (rotation[0][2], rotation[1][2], rotation[2][2])
    f = data[0] / math.sqrt(1.0 - u[2] * u[2])
    x, y, z = f * u[2] * u[0], f * u[2] * u[1], f * (u[2] * u[2] - 1.0)
    return velocity[0] + turning[1] * z - turning[2] * y, velocity[1] + turning[2] * x - turning[0] * z


def _wheel_steered(position: Any, rotation: Any, velocity: Any, turning: Any, time: float, data: Any) -> float:
    """Let a wheel that is steered by the angle data[0] not slip sideways."""
    c, s = math.cos(data[0]), math.sin(data[0])
    slip = velocity[0] * (c * rotation[0][1] - s * rotation[0][0])
    return slip + velocity[1] * (c * rotation[1][1] - s * rotation[1][0])


def _bevel_gears(position: Any, rotation: Any, velocity: Any, turning: Any, time: float, data: Any) -> float:
    """Let two wheels turn against each other in their carrier, about y."""
    return turning[0][1] + turning[1][1]


def _register(name: str, function: Any, **options: Any) -> str:
    """Register a constraint kind of a scene once; return its name."""
    if name not in CONSTRAINT_KINDS:
        register_constraint(name, function, **options)
    return name


@scene(
    "A tilted disc that rolls without slipping in a circle, in steady precession.",
    lambda **_: {"method": "full", "seconds": 10.0, "camera": Camera((2.4, -3.2, 1.8), (-0.6, 0.0, 0.2))},
)
def rolling_disc(*, radius: float = 0.3, mass: float = 2.0, tilt: float = 1.1, precession: float = 1.7) -> Model:
    """Return a disc "disc" that rolls on the x-y plane with a constant tilt; its axis turns about z at a constant rate.

    Its height is one row, no slip two rows of velocities. With the moments A across and C about the axis and the rate W
    of precession, the angular velocity w about the axis is that of
    w W sin(tilt) (C + m r^2) - A W^2 sin(tilt) cos(tilt) + m g r cos(tilt) = 0.

    Args:
        radius: of the disc [m].
        mass: of the disc [kg].
        tilt: angle of its axis with the vertical [rad], between 0 and pi / 2.
        precession: rate W at which its axis turns about the vertical [rad/s].
    """
    radius, mass = check.number(radius, "radius", positive=True), check.number(mass, "mass", positive=True)
    tilt, rate = check.number(tilt, "tilt", positive=True), check.number(precession, "precession", positive=True)
    s, c = math.sin(tilt), math.cos(tilt)
    if not 1e-3 < tilt < 0.5 * math.pi:
        raise ModelError(f"tilt must be above 0.001 and below pi / 2, got {tilt!r}")
    across, along = mass * radius**2 / 4, mass * radius**2 / 2
    spin = (across * rate**2 * s * c + mass * _EARTH[2] * radius * c) / (rate * s * (along + mass * radius**2))
    builder = Builder("rolling_disc")
    builder.add_body("disc", mass=mass, inertia=(across, across, along))
    builder.add_shape_cylinder("disc", radius, 0.02, color=_COLORS[1], collide=False)
    builder.add_shape_box("disc", (0.2 * radius, 1.6 * radius, 0.024), color=_COLORS[0], collide=False)
    start = (0.0, 0.0, radius * s, math.cos(0.5 * tilt), 0.0, math.sin(0.5 * tilt), 0.0)
    velocity = (0.0, -radius * spin, 0.0, -rate * s, 0.0, spin)
    builder.add_joint_free("free", WORLD, "disc", start=start, start_velocity=velocity)
    builder.add_constraint(_register("disc_height", _disc_height), "height", WORLD, "disc", data=(radius,))
    kind = _register("disc_rolls", _disc_rolls, rows=2, velocity=True)
    builder.add_constraint(kind, "contact", WORLD, "disc", data=(radius,))
    builder.add_shape_plane(WORLD, collide=False)
    return builder.build()


@scene(
    "A cart on two wheels that do not slip sideways, the front one steered: it drives in a circle.",
    lambda **_: {"method": "full", "seconds": 10.0, "camera": Camera((1.0, -6.0, 6.0), (0.0, 2.8, 0.0))},
)
def steered_cart(*, wheelbase: float = 1.2, steer: float = 0.4, speed: float = 2.0) -> Model:
    """Return a cart "cart" in the x-y plane, at the middle of its rear axle, and its no-slip rows "rear" and "front".

    Its yaw rate is speed tan(steer) / wheelbase, about (0, wheelbase / tan(steer)).

    Args:
        wheelbase: distance of the two wheels [m].
        steer: angle of the front wheel [rad].
        speed: of the rear wheel [m/s].
    """
    wheelbase = check.number(wheelbase, "wheelbase", positive=True)
    steer, speed = check.number(steer, "steer"), check.number(speed, "speed")
    if abs(steer) > 1.4:
        raise ModelError(f"steer must be from -1.4 to 1.4, got {steer!r}")
    builder = Builder("steered_cart")
    builder.add_body("cart", mass=10.0, com=(0.5 * wheelbase, 0.0, 0.0), inertia=(1.0, 1.0, 2.0))
    rate = speed * math.tan(steer) / wheelbase
    builder.add_joint_planar("plane", WORLD, "cart", start_velocity=(speed, 0.0, rate))
    kind = _register("wheel_steered", _wheel_steered, velocity=True)
    for name, x, angle in (("rear", 0.0, 0.0), ("front", wheelbase, steer)):
        builder.add_constraint(kind, name, WORLD, "cart", data=(angle,), position_in_child=(x, 0.0, 0.0))
        turn = (math.cos(0.5 * angle), 0.0, 0.0, math.sin(0.5 * angle))
        builder.add_shape_box(
            "cart", (0.3, 0.06, 0.3), position=(x, 0.0, 0.0), rotation=turn, color=_COLORS[3], collide=False
        )
    builder.add_shape_box(
        "cart", (wheelbase, 0.3, 0.1), position=(0.5 * wheelbase, 0.0, 0.2), color=_COLORS[1], collide=False
    )
    builder.add_shape_plane(WORLD, position=(0.0, 0.0, -0.15), collide=False)
    return builder.build()


@scene(
    "The differential of an axle: two wheels and their carrier, the left wheel braked.",
    lambda **_: {"method": "full", "seconds": 10.0, "camera": Camera((2.0, -2.6, 1.4), (0.0, 0.5, 0.0))},
)
def differential(*, speed: float = 6.0, brake: float = 0.05) -> Model:
    """Return a carrier and two wheels on one axle along y, coupled by bevel gears: one row over three bodies.

    The rates of the wheels add up to twice that of the carrier, and both get the same torque.

    Args:
        speed: of all three at the start [rad/s].
        brake: damping of the left wheel [N m s/rad].
    """
    speed, brake = check.number(speed, "speed"), check.number(brake, "brake", low=0.0)
    builder = Builder("differential")
    parts = (("carrier", 0.5, 0.5, 0.15, 0.2), ("left", 0.0, 0.2, 0.3, 0.08), ("right", 1.0, 0.2, 0.3, 0.08))
    for k, (name, y, inertia, radius, width) in enumerate(parts):
        builder.add_body(name, mass=2.0, inertia=(0.3, inertia, 0.3))
        builder.add_joint_hinge(
            f"{name}_axle", WORLD, name, position=(0.0, y, 0.5), axis=(0, 1, 0), start_velocity=speed,
            damping=brake if name == "left" else 0.0,
        )  # fmt: skip
        upright = (math.sqrt(0.5), math.sqrt(0.5), 0.0, 0.0)
        builder.add_shape_cylinder(name, radius, width, rotation=upright, color=_COLORS[k], collide=False)
        builder.add_shape_box(name, (1.6 * radius, width + 0.01, 0.05), color=_COLORS[3], collide=False)
    kind = _register("bevel_gears", _bevel_gears, velocity=True, pairs=2)
    builder.add_constraint(kind, "gears", "carrier", "left", second_child="right")
    return builder.build()
