"""Energy and momentum of bodies in maximal coordinates, including those of scalable, affine and registered kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from limberjack.maximal.bodies import AFFINE, PARTICLE, PLANAR, REGISTERED_BODY, SCALABLE, SHAPE, Bodies
from limberjack.maximal.registered_bodies import COM, COM_VELOCITY, ENERGY
from limberjack.maximal.rows import Maximal
from limberjack.model.arrays import Springs

__all__ = ["body_energies", "spring_energies"]


def body_energies(whole: Maximal, gravity: np.ndarray, e: Any, s: Any) -> tuple[float, ...]:
    """Return kinetic energy, potential energy in gravity and scales, linear and angular momentum of all bodies.

    The rotation of registered kinds about their com is not known: with them, angular momentum is NaN.

    Args:
        whole: the model in maximal coordinates.
        gravity: (3,).
        e: its evaluation at the state.
        s: the state.
    """
    bodies = whole.bodies
    kinetic, potential, linear, angular = 0.0, 0.0, np.zeros(3), np.zeros(3)
    for i, kind in enumerate(bodies.kind):
        o, d = int(bodies.start[i]), int(bodies.start[i + 1] - bodies.start[i])
        mass = e.m[bodies.block[i] : bodies.block[i] + d * d].reshape(d, d)
        u, x = s.u[o : o + d], s.pose[i, :3]
        pushed = mass @ u
        kinetic += 0.5 * float(u @ pushed)
        if kind == REGISTERED_BODY:
            own = bodies.registered[i]
            potential += float(own[ENERGY] - bodies.mass[i] * (gravity @ own[COM : COM + 3]))
            linear += bodies.mass[i] * own[COM_VELOCITY : COM_VELOCITY + 3]
            angular += np.nan
            continue
        potential += _scale_energy(bodies, i, int(kind), s.pose[i]) - float(bodies.mass[i] * (gravity @ x))
        p = bodies.mass[i] * e.ends[i, 15:18]
        linear += p
        angular += np.cross(x, p) + _spin(int(kind), pushed, s.pose[i], bodies.moment[i], u)
    return kinetic, potential, *linear, *angular


def spring_energies(springs: Springs, position_of: Callable[[int, np.ndarray], np.ndarray]) -> float:
    """Return the energy in springs between bodies; `position_of` gives the position of a point of a link."""
    out = 0.0
    for k in range(len(springs.link)):
        ends = [position_of(int(springs.link[k, c]), springs.point[k, 3 * c : 3 * c + 3]) for c in range(2)]
        stretch = float(np.linalg.norm(ends[1] - ends[0])) - springs.data[k, 2]
        out += 0.5 * float(springs.data[k, 0]) * stretch**2
    return out


def _scale_energy(bodies: Bodies, i: int, kind: int, pose: np.ndarray) -> float:
    """Return the energy in the springs of a body's scales."""
    scale_spring, shape = bodies.scale_spring[i], pose[SHAPE:]
    if kind < SCALABLE:
        return 0.0
    if kind == AFFINE:
        a = shape[:9].reshape(3, 3)
        return 0.125 * float(scale_spring[0] * ((a.T @ a - np.eye(3)) ** 2).sum())
    count = 1 if kind == SCALABLE else 3
    return 0.5 * float(scale_spring[0] * ((shape[:count] - scale_spring[1 : 1 + count]) ** 2).sum())


def _spin(kind: int, pushed: np.ndarray, pose: np.ndarray, moment: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return the angular momentum of a body about its com."""
    if kind == PARTICLE:
        return np.zeros(3)
    if kind == PLANAR:
        return np.array([0.0, 0.0, pushed[2]])
    if kind != AFFINE:
        return pushed[:3]
    second = moment[[0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(3, 3)
    product = u[3:12].reshape(3, 3) @ second @ pose[SHAPE : SHAPE + 9].reshape(3, 3).T
    return np.array([product[2, 1] - product[1, 2], product[0, 2] - product[2, 0], product[1, 0] - product[0, 1]])
