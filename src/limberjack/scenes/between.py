"""Fig. 10 of Weinstein, Teran and Fedkiw (2006): a body in the way of two joined ones."""

from __future__ import annotations

from typing import Any

from limberjack.model.builder import Builder
from limberjack.model.check import number
from limberjack.model.model import Model
from limberjack.scenes.catalog import Camera, scene

__all__ = ["pre_versus_post"]

_THICK, _LONG, _BALL = 0.06, 0.5, 0.12


def _stage(speed: float) -> dict[str, Any]:
    camera = Camera((0.9, -3.4, 0.9), (0.9, 0.0, 0.0))
    return {"method": "impulses", "dt": 1.0 / 60.0, "seconds": 0.2, "camera": camera}


@scene("Two hinged bars fly at a ball, far enough in one step to pass it: it is pushed ahead of them.", _stage)
def pre_versus_post(*, speed: float = 15.0) -> Model:
    """Return two bars, one above the other on a hinge, that fly along x at a ball before the hinge; no gravity.

    At 15 m/s they go 25 cm in a step of 1/60 s, from one side of the ball to the other. A method that moves first and
    repairs joints and overlaps afterwards finds the ball behind them, and nothing tells it that it came from the front.

    Args:
        speed: of the bars [m/s].
    """
    speed = number(speed, "speed", low=0.0)
    builder, size = Builder("pre_versus_post", gravity=(0.0, 0.0, 0.0)), (_THICK, 0.3, _LONG)
    x, y, z = (s * s / 12.0 for s in size)
    for name, side, color in (("upper", 1.0, (0.25, 0.49, 0.67, 1.0)), ("lower", -1.0, (0.36, 0.58, 0.45, 1.0))):
        at = (0.0, 0.0, side * 0.5 * _LONG)
        place = at if name == "upper" else None
        builder.add_body(name, mass=2.0, inertia=(2.0 * (y + z), 2.0 * (x + z), 2.0 * (x + y)), position=place)
        builder.add_shape_box(name, size, color=color)
    builder.add_joint_free("flight", "world", "upper", start_velocity=(speed, 0.0, 0.0, 0.0, 0.0, 0.0))
    builder.add_joint_hinge(
        "hinge", "upper", "lower", axis=(0.0, 1.0, 0.0), position=(0.0, 0.0, -0.5 * _LONG),
        position_in_child=(0.0, 0.0, 0.5 * _LONG),
    )  # fmt: skip
    builder.add_body("ball", mass=1.0, inertia=(0.4 * _BALL**2,) * 3, position=(0.5 * _THICK + _BALL + 0.02, 0.0, 0.0))
    builder.add_shape_sphere("ball", _BALL, color=(0.91, 0.45, 0.29, 1.0))
    return builder.build()
