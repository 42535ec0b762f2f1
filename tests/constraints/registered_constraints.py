"""Constraint kinds that tests register: surfaces, tangency, a driven hinge, a moving tracker."""

from __future__ import annotations

import math

import numba
import pytest

from limberjack.model import joints
from limberjack.model.registered import CONSTRAINT_KINDS, register_constraint


def torus(position, rotation, time, data):
    """Hold a point on a torus about z: data are the radii of its circle and of its tube."""
    x, y, z = position
    across = math.sqrt(x * x + y * y) - data[0]
    return across * across + z * z - data[1] * data[1]


@numba.njit
def _support(u, rotation, axes):
    """Return the squared support (u^T Q u) and Q u of an ellipsoid turned by `rotation`, with half axes `axes`."""
    a = (rotation[0][0] * u[0] + rotation[1][0] * u[1] + rotation[2][0] * u[2]) * axes[0] * axes[0]
    b = (rotation[0][1] * u[0] + rotation[1][1] * u[1] + rotation[2][1] * u[2]) * axes[1] * axes[1]
    c = (rotation[0][2] * u[0] + rotation[1][2] * u[1] + rotation[2][2] * u[2]) * axes[2] * axes[2]
    x = rotation[0][0] * a + rotation[0][1] * b + rotation[0][2] * c
    y = rotation[1][0] * a + rotation[1][1] * b + rotation[1][2] * c
    z = rotation[2][0] * a + rotation[2][1] * b + rotation[2][2] * c
    return u[0] * x + u[1] * y + u[2] * z, (x, y, z)


def tangent(position, rotation, time, data):
    """Hold two ellipsoids touching: the largest gap u.d - |u|_A - |u|_B between parallel tangent planes is 0.

    The normal u is found by u = (d - P_A(u) + P_B(u)) made a unit, from points nearest along it, again and again.
    """
    one = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    size = math.sqrt(position[0] * position[0] + position[1] * position[1] + position[2] * position[2])
    u = (position[0] / size, position[1] / size, position[2] / size)
    gap = size - size
    # more reach keeps the iteration from overshooting: all normals of two inner parallel bodies stay the same
    for _ in range(int(data[6])):
        p, a = _support(u, one, data[0:3])
        q, b = _support(u, rotation, data[3:6])
        p, q = math.sqrt(p), math.sqrt(q)
        gap = u[0] * position[0] + u[1] * position[1] + u[2] * position[2] - p - q
        far = data[7]
        x = position[0] - a[0] / p - b[0] / q + far * u[0]
        y = position[1] - a[1] / p - b[1] / q + far * u[1]
        z = position[2] - a[2] / p - b[2] / q + far * u[2]
        f = math.sqrt(x * x + y * y + z * z)
        u = (x / f, y / f, z / f)
    return gap


def turned(position, rotation, time, data):
    """Drive the turn about z: angle = data[0] sin(data[1] time)."""
    angle = data[0] * math.sin(data[1] * time)
    return math.cos(angle) * rotation[1][0] - math.sin(angle) * rotation[0][0]


def tracked(position, rotation, time, data):
    """Lead a point along a circle of radius data[0] at data[1] rad/s."""
    angle = data[1] * time
    return position[0] - data[0] * math.cos(angle), position[1] - data[0] * math.sin(angle), position[2]


def above(position, rotation, time, data):
    """Keep a point above a paraboloid z = data[0] (x^2 + y^2)."""
    return position[2] - data[0] * (position[0] ** 2 + position[1] ** 2)


KINDS = ((torus, {}), (tangent, {}), (turned, {}), (tracked, {"rows": 3}), (above, {"one_sided": True}))


@pytest.fixture(autouse=True)
def registered():
    """Register the kinds for one test, and forget them and those that the test registers."""
    for function, options in KINDS:
        register_constraint(function.__name__, function, **options)
    yield
    for name in list(CONSTRAINT_KINDS):
        del CONSTRAINT_KINDS[name], joints.KINDS[name]
