"""The tank of Weinstein, Teran and Fedkiw (2006): treads of hinged links, driven through contact alone.

The links of a tread are the sides of a polygon: half a regular 12-gon around the front gear and half of one around the
back gear, with straight runs between. Only contacts and proximity rules connect a tread to the tank: of the
links that lie on a front or back gear, those whose neighbours lie there too are attached to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from limberjack.model.builder import Builder
from limberjack.model.check import number
from limberjack.model.model import Model
from limberjack.model.proximity import Proximity
from limberjack.model.spec import WORLD, Motor
from limberjack.scenes.catalog import Camera, chosen, scene

__all__ = ["tank"]

_TEETH, _STRAIGHT, _PITCH, _THICK, _WIDE = 12, 11, 0.12, 0.03, 0.22
_LINKS = _TEETH + 2 * _STRAIGHT
_CORNER = 0.5 * _PITCH / math.sin(math.pi / _TEETH)  # hinges from the axle of a gear
_FLAT = _CORNER * math.cos(math.pi / _TEETH)  # middles of links from it
_BASE = _STRAIGHT * _PITCH  # from the back axle to the front one
_TRACK = 0.45  # from the middle of the tank to that of a tread
_MIDDLE = 0.15  # radius of the passive gears, which stand on the lower run
# Gears are smaller than the polygon by this much: a taut tread could not move at all.
_SLACK = 3e-3
_AXLE = _CORNER + 0.5 * _THICK
_SIDES = (("left", 1.0), ("right", -1.0))
_COURSES = ("tour", "forward", "turn", "ledge")
_LEDGE = 2.5
_Y_UP = (math.sqrt(0.5), math.sqrt(0.5), 0.0, 0.0)  # takes z to -y: cylinders along y
_IRON, _RUBBER, _GREEN, _DARK = (
    (0.45, 0.47, 0.5, 1.0), (0.2, 0.2, 0.21, 1.0), (0.36, 0.45, 0.3, 1.0), (0.27, 0.34, 0.23, 1.0)
)  # fmt: skip


def _box_inertia(mass: float, size: tuple[float, float, float]) -> list[float]:
    x, y, z = (s * s for s in size)
    return [mass / 12.0 * (y + z), mass / 12.0 * (x + z), mass / 12.0 * (x + y)]


def _corners() -> np.ndarray:
    """Return where the hinges of a tread are, (x, z) from the back axle, the way the top run goes."""
    turns = 0.5 * math.pi - 2.0 * math.pi / _TEETH * np.arange(_TEETH // 2)
    arc = _CORNER * np.column_stack([np.cos(turns), np.sin(turns)])
    run = np.column_stack([_PITCH * np.arange(_STRAIGHT), np.full(_STRAIGHT, _CORNER)])
    return np.vstack([run, arc + [_BASE, 0.0], [_BASE, 0.0] - run, -arc])


def _add_tread(builder: Builder, side: str, origin: np.ndarray) -> None:
    """Add the links of one tread, hinged in a ring, around axles that start at `origin`."""
    corners = _corners()
    along = np.roll(corners, -1, axis=0) - corners
    lean = -np.arctan2(along[:, 1], along[:, 0])  # about y
    size = (0.86 * _PITCH, _WIDE, _THICK)
    for k in range(_LINKS):
        name, middle = f"{side}_link{k}", corners[k] + 0.5 * along[k]
        at = origin + [middle[0], 0.0, middle[1]]
        turn = (math.cos(0.5 * lean[k]), 0.0, math.sin(0.5 * lean[k]), 0.0)
        root = {"position": at, "rotation": turn} if k == 0 else {}
        builder.add_body(name, mass=1.5, inertia=_box_inertia(1.5, size), **root)
        builder.add_shape_box(name, size, color=_RUBBER, friction=0.8, group=1)
        rib = (0.25 * _PITCH, _WIDE, 0.4 * _THICK)
        builder.add_shape_box(name, rib, position=(0.0, 0.0, 0.6 * _THICK), color=_IRON, collide=False)
        builder.add_point(name, name, (0.0, 0.0, 0.0))
        if k:
            turned = (lean[k] - lean[k - 1] + math.pi) % (2.0 * math.pi) - math.pi
            builder.add_joint_hinge(
                f"{side}_pin{k}", f"{side}_link{k - 1}", name, axis=(0.0, 1.0, 0.0), position=(0.5 * _PITCH, 0.0, 0.0),
                position_in_child=(-0.5 * _PITCH, 0.0, 0.0), start=turned,
            )  # fmt: skip
    builder.add_joint_hinge(
        f"{side}_pin0", f"{side}_link{_LINKS - 1}", f"{side}_link0", axis=(0.0, 1.0, 0.0),
        position=(0.5 * _PITCH, 0.0, 0.0), position_in_child=(-0.5 * _PITCH, 0.0, 0.0),
    )  # fmt: skip


def _add_gear(
    builder: Builder, name: str, position: tuple[float, float, float], radius: float, *, driven: bool
) -> None:
    """Add a gear on an axle across the hull."""
    mass, length = 5.0, 0.9 * _WIDE
    across, about = mass / 12.0 * (3.0 * radius**2 + length**2), 0.5 * mass * radius**2
    builder.add_body(name, mass=mass, inertia=(across, about, across))
    builder.add_shape_cylinder(name, radius, length, rotation=_Y_UP, color=_IRON, friction=0.8)
    for y in (-1.0, 1.0):  # flanges keep the tread on the gear
        builder.add_shape_cylinder(
            name, radius + 0.7 * _THICK, 0.012, position=(0.0, y * (0.5 * _WIDE + 0.016), 0.0), rotation=_Y_UP,
            color=_GREEN if driven else _DARK, friction=0.1,
        )  # fmt: skip
    for k in range(3):
        turn = k * math.pi / 3.0
        builder.add_shape_box(
            name, (1.8 * radius, _WIDE + 0.07, 0.2 * radius), color=_IRON, collide=False,
            rotation=(math.cos(0.5 * turn), 0.0, math.sin(0.5 * turn), 0.0),
        )  # fmt: skip
    motor: dict[str, Any] = {"motor": Motor(kp=900.0, kd=30.0, max=150.0)} if driven else {}
    builder.add_joint_hinge(f"{name}_axle", "hull", name, axis=(0.0, 1.0, 0.0), position=position, **motor)
    builder.add_point(name, name, (0.0, 0.0, 0.0))


def _add_hull(builder: Builder, at: tuple[float, float, float]) -> None:
    """Add the hull, whose frame lies between the axles, with gun and lid."""
    builder.add_body("hull", mass=60.0, inertia=(4.0, 10.0, 13.0), position=at)
    for size, position, color in (
        ((1.5, 0.6, 0.24), (0.0, 0.0, 0.03), _DARK),
        ((1.62, 1.1, 0.05), (0.0, 0.0, 0.33), _GREEN),
        ((1.3, 0.6, 0.2), (0.0, 0.0, 0.22), _GREEN),
    ):
        builder.add_shape_box("hull", size, position=position, color=color, group=1, friction=0.5)
    builder.add_body("gun", mass=8.0, com=(0.05, 0.0, 0.09), inertia=(0.2, 0.3, 0.4))
    builder.add_shape_box("gun", (0.55, 0.5, 0.18), position=(0.0, 0.0, 0.1), color=_GREEN, group=1)
    builder.add_shape_cylinder(
        "gun", 0.035, 0.8, position=(0.6, 0.0, 0.12), rotation=(math.sqrt(0.5), 0.0, math.sqrt(0.5), 0.0),
        color=_IRON, group=1,
    )  # fmt: skip
    builder.add_joint_hinge(
        "turret", "hull", "gun", position=(0.15, 0.0, 0.355), motor=Motor(kp=200.0, kd=20.0, max=100.0)
    )
    builder.add_body("lid", mass=1.0, com=(-0.1, 0.0, 0.0), inertia=_box_inertia(1.0, (0.26, 0.3, 0.03)))
    builder.add_shape_box("lid", (0.26, 0.3, 0.03), position=(-0.13, 0.0, 0.0), color=_IRON, group=1)
    builder.add_joint_hinge(
        "hatch", "hull", "lid", axis=(0.0, 1.0, 0.0), position=(-0.3, 0.0, 0.375), limits=(0.0, 2.2), damping=0.05
    )


def _rules() -> list[Proximity]:
    """Return the rules that attach the links of each tread to the front and back gears."""
    return [
        Proximity(
            points=tuple(f"{side}_link{k}" for k in range(_LINKS)), others=(f"{side}_back", f"{side}_front"),
            distance=_FLAT + 0.4 * (math.hypot(_CORNER, 0.5 * _PITCH) - _FLAT), kind="point_on_plane",
            axis=(1.0, 0.0, 0.0), axis_in="point", snap=False, neighbours="loop",
        )
        for side, _ in _SIDES
    ]  # fmt: skip


def _way(course: str, time: float, speed: float) -> tuple[float, float]:
    """Return the target travel of the left and the right tread [m]."""
    parts = {
        "forward": ((0.4, math.inf, 1.0, 1.0),),
        # faster and, once it falls, faster still: the treads rotate one way, the tank the other
        "ledge": ((0.4, math.inf, 1.5, 1.5), (1.3, math.inf, 2.0, 2.0)),
        "turn": ((0.4, math.inf, -1.0, 1.0),),
        "tour": ((0.4, 2.4, 1.0, 1.0), (2.8, 5.3, -1.0, 1.0), (5.7, 8.0, 1.0, 1.0), (8.0, math.inf, 1.0, 0.4)),
    }[course]
    out = [0.0, 0.0]
    for begin, end, left, right in parts:
        ran = speed * _ran(max(0.0, time - begin), end - begin)
        out[0], out[1] = out[0] + left * ran, out[1] + right * ran
    return out[0], out[1]


def _ran(time: float, whole: float) -> float:
    """Return the travel of a tread that reaches 1 m/s in half a second and stops in the last half of `whole`."""
    up, even, down = min(time, 0.5), min(max(time - 0.5, 0.0), whole - 1.0), min(max(time - whole + 0.5, 0.0), 0.5)
    return up * up + even + down - down * down


def _driver(course: str, speed: float) -> Callable[[Any], None]:
    """Return the drive of the tank: rules for its treads, driven gears, a turning gun."""

    def drive(sim: Any) -> None:
        if not sim.rules and sim.time > 0.2:  # the treads have come to lie on the gears
            for rule in _rules():
                sim.add_rule(rule)
        # a gear turns once while as many links as it has teeth go by
        for (side, _), way in zip(_SIDES, _way(course, sim.time, speed), strict=True):
            for end in ("front", "back"):
                sim.joint(f"{side}_{end}_axle").target = way * 2.0 * math.pi / (_TEETH * _PITCH)
        sim.joint("turret").target = 0.7 * math.sin(1.2 * sim.time)

    return drive


def _stage(course: str, speed: float) -> dict[str, Any]:
    from limberjack.methods import Impulses

    camera = {
        "ledge": Camera((1.5, -8.5, 3.2), (2.2, 0.0, 1.6)),
        "turn": Camera((2.4, -3.2, 2.4), (0.6, 0.0, 0.2)),
    }.get(course, Camera((4.4, -4.4, 2.7), (1.2, 0.2, 0.2)))
    seconds = {"tour": 10.0, "ledge": 4.0}.get(course, 4.0)
    drive = _driver(course, speed)
    method = Impulses(contacts="firm", sweeps=30)
    return {"method": method, "dt": 1.0 / 240.0, "seconds": seconds, "camera": camera, "drive": drive}


@scene("A tank on treads of 34 links, driven through their contact with gears and ground.", _stage)
def tank(*, course: str = "tour", speed: float = 1.0) -> Model:
    """Return a tank: two treads of 34 links, two driven gears and a passive one to each, gun and lid.

    Args:
        course: "tour" (forward, turn in place, forward, curve), "forward", "turn" or "ledge".
        speed: of the treads [m/s].
    """
    course = chosen(course, "course", "tank", _COURSES)
    number(speed, "speed", positive=True)
    builder, high = Builder("tank"), _LEDGE if course == "ledge" else 0.0
    builder.add_shape_plane(WORLD, friction=0.8)
    if high:
        builder.add_shape_box(
            WORLD, (5.0, 3.0, high), position=(-1.0, 0.0, 0.5 * high), friction=0.8, color=(0.75, 0.73, 0.7, 1.0)
        )
    axle = high + _AXLE
    _add_hull(builder, (0.5 * _BASE, 0.0, axle))
    for side, sign in _SIDES:
        y = sign * _TRACK
        for end, x in (("back", -0.5 * _BASE), ("front", 0.5 * _BASE)):
            _add_gear(builder, f"{side}_{end}", (x, y, 0.0), _FLAT - 0.5 * _THICK - _SLACK, driven=True)
        low = _CORNER - 0.5 * _THICK - _MIDDLE - 5e-4
        _add_gear(builder, f"{side}_middle", (0.0, y, -low), _MIDDLE, driven=False)
        _add_tread(builder, side, np.array([0.0, y, axle]))
    return builder.build()
