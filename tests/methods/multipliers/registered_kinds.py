"""Body kinds registered for tests: solids in the plane, an affine body, two rods in one body, a beam that bends."""

from __future__ import annotations

import math

import pytest

import limberjack as lj
from limberjack.model.body_kinds import BODY_KINDS
from limberjack.model.registered import REGISTERED_BODY_KINDS


def plane_place(point, coordinates, data):
    """A solid in the x-y plane: x, y, angle."""
    c, s = math.cos(coordinates[2]), math.sin(coordinates[2])
    return coordinates[0] + c * point[0] - s * point[1], coordinates[1] + s * point[0] + c * point[1], 0.0


def plane_kinetic(coordinates, rates, data):
    """Mass and inertia about the origin of the body, its com."""
    return 0.5 * data[0] * (rates[0] ** 2 + rates[1] ** 2) + 0.5 * data[1] * rates[2] ** 2


def affine_place(point, coordinates, data):
    """Position and the nine numbers of a map, by rows."""
    x, y, z = point
    a = coordinates
    return (
        a[0] + a[3] * x + a[4] * y + a[5] * z, a[1] + a[6] * x + a[7] * y + a[8] * z,
        a[2] + a[9] * x + a[10] * y + a[11] * z,
    )  # fmt: skip


def affine_kinetic(coordinates, rates, data):
    """Mass, and three second moments along the body's axes."""
    out = 0.5 * data[0] * (rates[0] ** 2 + rates[1] ** 2 + rates[2] ** 2)
    for k in range(3):
        out += 0.5 * data[1 + k] * (rates[3 + k] ** 2 + rates[6 + k] ** 2 + rates[9 + k] ** 2)
    return out


def rods_place(point, coordinates, data):
    """Two rods of length data[0], hung at the origin, in the x-z plane; y of a point says on which one it is."""
    a, b = coordinates
    if point[1] < 0.5:
        return point[0] * math.sin(a), 0.0, -point[0] * math.cos(a)
    return data[0] * math.sin(a) + point[0] * math.sin(b), 0.0, -data[0] * math.cos(a) - point[0] * math.cos(b)


def rods_kinetic(coordinates, rates, data):
    """Thin rods of mass data[1]."""
    a, b = coordinates
    m, length = data[1], data[0]
    bent = 0.5 * m * length * length * math.cos(a - b) * rates[0] * rates[1]
    return m * length * length * (4.0 / 6.0 * rates[0] ** 2 + 1.0 / 6.0 * rates[1] ** 2) + bent


def rods_center(coordinates, data):
    """Halfway between the middles of the rods."""
    a, b = coordinates
    x = data[0] * (1.5 * math.sin(a) + 0.5 * math.sin(b)) / 2.0
    z = -data[0] * (1.5 * math.cos(a) + 0.5 * math.cos(b)) / 2.0
    return x, 0.0, z


def beam_place(point, coordinates, data):
    """A beam along x, clamped at the origin, that bends up by a (x / length)^2."""
    return point[0], point[1], point[2] + coordinates[0] * (point[0] / data[0]) ** 2


def beam_kinetic(coordinates, rates, data):
    """The integral of (x / length)^4 over the mass is a fifth of it."""
    return 0.1 * data[1] * rates[0] ** 2


def beam_potential(coordinates, data):
    """Stiffness of the mode."""
    return 0.5 * data[2] * coordinates[0] ** 2


def beam_center(coordinates, data):
    """The mean of (x / length)^2 is a third."""
    return 0.5 * data[0], 0.0, coordinates[0] / 3.0


@pytest.fixture
def own_bodies_registered():
    """Register the kinds "plane", "map", "rods" and "bar" for one test, and forget them and those it registers."""
    lj.register_body_kind("plane", size=3, place=plane_place, kinetic=plane_kinetic)
    lj.register_body_kind("map", size=12, place=affine_place, kinetic=affine_kinetic)
    lj.register_body_kind("rods", size=2, place=rods_place, kinetic=rods_kinetic, center=rods_center)
    lj.register_body_kind(
        "bar", size=1, place=beam_place, kinetic=beam_kinetic, potential=beam_potential, center=beam_center
    )
    yield
    for name in list(REGISTERED_BODY_KINDS):
        del REGISTERED_BODY_KINDS[name], BODY_KINDS[name]
