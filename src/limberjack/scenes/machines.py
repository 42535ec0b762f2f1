"""Machines with many constraint rows: a planetary gear, with rows on three bodies, and a tread with many loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from limberjack.model import check
from limberjack.model.builder import Builder
from limberjack.model.model import Model
from limberjack.model.spec import WORLD
from limberjack.scenes.catalog import Camera, scene, whole

__all__ = ["planetary", "tread"]

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
