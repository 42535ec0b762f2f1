"""Kinematic bodies: six rows that keep a body on a prescribed motion, with the numbers of that motion as their data."""

from __future__ import annotations

from math import cos, sin, sqrt

from limberjack.model.registered import CONSTRAINT_KINDS, register_constraint

__all__ = [
    "ANGULAR", "KINEMATIC", "NUMBERS", "PLACE", "SINCE", "TURN", "VELOCITY", "kinematic_name", "register_kinematic",
]  # fmt: skip

# The constraint kind, and where its numbers are: position, quaternion, velocity and angular velocity at a time [s].
KINEMATIC = "kinematic"
PLACE, TURN, VELOCITY, ANGULAR, SINCE, NUMBERS = 0, 3, 7, 10, 13, 14


def kinematic_name(body: str) -> str:
    """Return the name of the constraint that moves a kinematic body."""
    return f"{body}:kinematic"


def _off_course(position, rotation, time, data):
    """Return how far a frame is from where it is to be: displacement, and sines of the angles in its own axes."""
    t = time - data[13]
    # the quaternion turned by the angular velocity since then
    speed = sqrt(data[10] * data[10] + data[11] * data[11] + data[12] * data[12])
    c, s = cos(0.5 * speed * t), 0.5 * t
    if speed > 0.0:
        s = sin(0.5 * speed * t) * (1.0 / speed)
    a, b, d = s * data[10], s * data[11], s * data[12]
    w = c * data[3] - a * data[4] - b * data[5] - d * data[6]
    x = c * data[4] + a * data[3] + b * data[6] - d * data[5]
    y = c * data[5] - a * data[6] + b * data[3] + d * data[4]
    z = c * data[6] + a * data[5] - b * data[4] + d * data[3]
    # columns of the rotation that is to be
    r0x, r0y, r0z = 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y)
    r1x, r1y, r1z = 2.0 * (x * y - w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z + w * x)
    r2x, r2y, r2z = 2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)
    e21 = r2x * rotation[0][1] + r2y * rotation[1][1] + r2z * rotation[2][1]
    e12 = r1x * rotation[0][2] + r1y * rotation[1][2] + r1z * rotation[2][2]
    e02 = r0x * rotation[0][2] + r0y * rotation[1][2] + r0z * rotation[2][2]
    e20 = r2x * rotation[0][0] + r2y * rotation[1][0] + r2z * rotation[2][0]
    e10 = r1x * rotation[0][0] + r1y * rotation[1][0] + r1z * rotation[2][0]
    e01 = r0x * rotation[0][1] + r0y * rotation[1][1] + r0z * rotation[2][1]
    return (
        position[0] - data[0] - data[7] * t, position[1] - data[1] - data[8] * t, position[2] - data[2] - data[9] * t,
        0.5 * (e21 - e12), 0.5 * (e02 - e20), 0.5 * (e10 - e01),
    )  # fmt: skip


def register_kinematic() -> str:
    """Register the constraint kind, once some body is kinematic; return its name."""
    if KINEMATIC not in CONSTRAINT_KINDS:
        register_constraint(KINEMATIC, _off_course, rows=6)
    return KINEMATIC
