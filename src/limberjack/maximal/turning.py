"""How far a free body turns in a step, by the midpoint rule: its angular momentum stays as it is."""

from __future__ import annotations

import math

from limberjack._jit import inner
from limberjack.spatial.quaternions import quaternion_exp, quaternion_multiply, rotation_from_quaternion
from limberjack.spatial.solves import solve_symmetric_3
from limberjack.spatial.vectors import cross, rotate, rotate_back

__all__ = ["turn_by", "turned"]


@inner
def turn_by(inertia, i, h, facing, lx, ly, lz):
    """Return the rotation vector of body i over h with angular momentum L.

    In body axes, L = R^T L_world, it is the fixed point t = h I^-1 exp(-t/2) L: the midpoint rule, since exp(t/2)
    leaves t as it is.

    Args:
        inertia: (bodies, 6) about the com in body axes.
        i: the body.
        h: step [s].
        facing: its quaternion.
        lx, ly, lz: angular momentum in world axes.
    """
    own = (inertia[i, 0], inertia[i, 1], inertia[i, 2], inertia[i, 3], inertia[i, 4], inertia[i, 5])
    r = rotation_from_quaternion(facing[0], facing[1], facing[2], facing[3])
    lx, ly, lz = rotate_back(r, h * lx, h * ly, h * lz)
    _, x, y, z = solve_symmetric_3(own, lx, ly, lz)
    for _ in range(20):
        w, a, b, c = quaternion_exp(-0.5 * x, -0.5 * y, -0.5 * z)
        ux, uy, uz = cross(a, b, c, lx, ly, lz)
        vx, vy, vz = cross(a, b, c, ux, uy, uz)
        _, wx, wy, wz = solve_symmetric_3(
            own, lx + 2.0 * (w * ux + vx), ly + 2.0 * (w * uy + vy), lz + 2.0 * (w * uz + vz)
        )
        change = abs(wx - x) + abs(wy - y) + abs(wz - z)
        x, y, z = wx, wy, wz
        if change < 1e-15:
            break
    return rotate(r, x, y, z)


@inner
def turned(facing, x, y, z):
    """Return the quaternion `facing` turned by a rotation vector in world axes, of length 1."""
    w, a, b, c = quaternion_multiply(quaternion_exp(x, y, z), facing)
    f = 1.0 / math.sqrt(w * w + a * a + b * b + c * c)
    return f * w, f * a, f * b, f * c
