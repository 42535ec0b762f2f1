"""The naive twin of the contact solvers: dense M^-1, dense J, A = J M^-1 J^T, and projected Gauss-Seidel over it.

A contact has three rows, along its normal and along two directions across it: v = A lam + b,

    lam_n >= 0,  v_n >= 0,  lam_n v_n = 0,      |lam_t| <= mu lam_n,  lam_t against v_t where it is at that bound.

One update of a contact solves its normal row, then its tangents: exactly where that sticks, else by a step of
1 / (largest eigenvalue of A_tt), projected onto the disk of the friction cone.
"""

from __future__ import annotations

import numpy as np
from tests.naive.rotations import cross_matrix

import limberjack as lj


def axes_of(normal):
    """Return the (3, 3) rows: the normal and two directions across it."""
    normal = np.asarray(normal, float)
    first = np.cross(normal, np.eye(3)[np.argmin(np.abs(normal))])
    first /= np.linalg.norm(first)
    return np.array([normal, first, np.cross(normal, first)])


def inverse_masses(masses, inertias):
    """Return M^-1 (6n, 6n) of free bodies, angular first, inertias (n, 3, 3) about the coms in world axes."""
    out = np.zeros((6 * len(masses), 6 * len(masses)))
    for i, (mass, inertia) in enumerate(zip(masses, inertias, strict=True)):
        out[6 * i : 6 * i + 3, 6 * i : 6 * i + 3] = np.linalg.inv(inertia)
        out[6 * i + 3 : 6 * i + 6, 6 * i + 3 : 6 * i + 6] = np.eye(3) / mass
    return out


def free_rows(bodies, pairs, normals, levers):
    """Return J (3c, 6n) of contacts of free bodies: the velocity of body a against body b, -1 = static.

    Args:
        bodies: how many.
        pairs: (c, 2) a and b.
        normals: (c, 3) unit, out of b into a.
        levers: (c, 2, 3) the contact from the coms of a and b.
    """
    out = np.zeros((3 * len(pairs), 6 * bodies))
    for k, pair in enumerate(pairs):
        axes = axes_of(normals[k])
        for body, sign, lever in zip(pair, (1.0, -1.0), levers[k], strict=True):
            if body >= 0:
                point = np.hstack([-cross_matrix(lever), np.eye(3)])
                out[3 * k : 3 * k + 3, 6 * body : 6 * body + 6] += sign * axes @ point
    return out


def tree_rows(model, q, pairs, points, normals):
    """Return J (3c, nv) of contacts of bodies of trees: pairs of names, points and normals in the world."""
    blocks = []
    for pair, point, normal in zip(pairs, points, normals, strict=True):
        j = np.zeros((3, model.nv))
        for body, sign in zip(pair, (1.0, -1.0), strict=True):
            if body != "world":
                j += sign * lj.jacobian(model, q, body, point)[3:]
        blocks.append(axes_of(normal) @ j)
    return np.vstack(blocks)


def disk(vector, radius):
    """Return the nearest vector no longer than `radius`."""
    size = np.linalg.norm(vector)
    return vector if size <= radius else vector * (radius / size)


def update_contact(a, b, mu, lam, k, scale=1.0, give=0.0):
    """Do one projected Gauss-Seidel update of the contact of rows k, k + 1, k + 2; scale and give make it soft."""
    across = slice(k + 1, k + 3)
    lam[k] = max(0.0, lam[k] - scale * (a[k] @ lam + b[k]) / a[k, k] - give * lam[k])
    slip = a[across] @ lam + b[across]
    stick = lam[across] - np.linalg.solve(a[across, across], slip)
    if np.linalg.norm(stick) <= mu * lam[k]:
        lam[across] = stick
    else:
        lam[across] = disk(lam[across] - slip / np.linalg.eigvalsh(a[across, across])[-1], mu * lam[k])


def update_row(a, b, low, high, lam, k):
    """Do one projected Gauss-Seidel update of row k between bounds."""
    lam[k] = min(max(lam[k] - (a[k] @ lam + b[k]) / a[k, k], low), high)


def gauss_seidel(a, b, friction, lam, sweeps, *, bounds=(), scale=None, give=None):
    """Return the impulses after so many sweeps from `lam` on: first rows between bounds, then contacts.

    Args:
        a: (n, n).
        b: (n,) velocities without impulses, less what is wanted.
        friction: (c,) coefficients.
        lam: (n,) the warm start.
        sweeps: how many.
        bounds: (low, high) of each row before the contacts.
        scale, give: (c,) of soft contacts.
    """
    lam, rows = lam.copy(), len(bounds)
    for _ in range(sweeps):
        for k, (low, high) in enumerate(bounds):
            update_row(a, b, low, high, lam, k)
        for c, mu in enumerate(friction):
            soft = (1.0, 0.0) if scale is None else (scale[c], give[c])
            update_contact(a, b, mu, lam, rows + 3 * c, *soft)
    return lam


def restitution(a, b, friction, sweeps):
    """Return the impulses of contacts that leave at the speeds taken off b: normals first, friction after.

    Friction acts with the normal impulses as they are then, whatever it does to the velocities along the normals.
    """
    lam = np.zeros(len(b))
    for _ in range(sweeps):
        for k in range(0, len(b), 3):
            update_row(a, b, 0.0, np.inf, lam, k)
    for _ in range(sweeps):
        for c, mu in enumerate(friction):
            across = slice(3 * c + 1, 3 * c + 3)
            step = 1.0 / np.linalg.eigvalsh(a[across, across])[-1]
            lam[across] = disk(lam[across] - step * (a[across] @ lam + b[across]), mu * lam[3 * c])
    return lam


def shock(minv, j, bias, friction, lam, pairs, heights, times, u):
    """Return impulses and velocities after shock propagation over free bodies, level by level, up and down again.

    The lower body of a contact does not move while its level is swept. What it did not feel acts on it once the level
    is swept on the way down.

    Args:
        minv: (6n, 6n).
        j: (3c, 6n) rows of the contacts.
        bias: (c,) what gaps and overlaps add to the velocities along the normals.
        friction: (c,) coefficients.
        lam: (3c,) impulses that act already.
        pairs: (c, 2) bodies, -1 = static.
        heights: (n,) levels of the bodies.
        times: sweeps per level and direction.
        u: (6n,) velocities.
    """
    lam, u, full = lam.copy(), u.copy(), j @ minv @ j.T
    levels = [max(heights[i] for i in pair if i >= 0) for pair in pairs]
    deferred = {level: np.zeros(len(u)) for level in levels}

    def sweep_level(level):
        for k in (k for _ in range(times) for k in range(len(pairs)) if levels[k] == level):
            top = max(heights[i] for i in pairs[k] if i >= 0)
            moves = np.repeat([top == height for height in heights], 6)
            rows, before = slice(3 * k, 3 * k + 3), lam[3 * k : 3 * k + 3].copy()
            seen = minv * np.outer(moves, moves)
            own, v = j[rows] @ seen @ j[rows].T, j[rows] @ u
            after = before.copy()
            after[0] = max(0.0, before[0] - (v[0] + bias[k]) / own[0, 0])
            slip = v[1:] + own[1:, 0] * (after[0] - before[0])
            # the steps across the normal are those of both bodies
            across = full[3 * k + 1 : 3 * k + 3, 3 * k + 1 : 3 * k + 3]
            after[1:] = before[1:] - np.linalg.solve(across, slip)
            if np.linalg.norm(after[1:]) > friction[k] * after[0]:
                after[1:] = disk(before[1:] - slip / np.linalg.eigvalsh(across)[-1], friction[k] * after[0])
            lam[rows] = after
            u[:] += seen @ j[rows].T @ (after - before)
            deferred[level] += (minv - seen) @ j[rows].T @ (after - before)

    order = sorted(deferred)
    for level in order:
        sweep_level(level)
    for level in reversed(order):
        if level != order[-1]:
            sweep_level(level)
        u += deferred[level]
    return lam, u
