"""Contacts with friction over a small dense system v = A lam + b, by projected Gauss-Seidel.

A contact has three rows, along the normal and across it: lam_n >= 0, v_n >= 0, lam_n v_n = 0, and lam_t in the disc of
radius mu lam_n, opposite to v_t on its boundary. This is lam_t = disc(lam_t - r v_t) for any r > 0; r is 1 over the
larger eigenvalue of the 2 x 2 block of the two rows, which keeps the sweeps from overshooting. Rows before the contacts
have bounds of their own.
"""

from __future__ import annotations

import math

from limberjack._jit import inner, kernel

__all__ = ["sweep_cones"]


@inner
def _row_velocity(n, i, a, b, force):
    v = b[i]
    for k in range(n):
        v += a[i, k] * force[k]
    return v


@inner
def _project_bounded(n, i, a, b, low, high, force):
    """Do one projected Gauss-Seidel update of row i; return the change of its velocity."""
    if not a[i, i] > 0.0:
        return 0.0
    before = force[i]
    f = before - _row_velocity(n, i, a, b, force) / a[i, i]
    force[i] = min(max(f, low), high)
    return abs(force[i] - before) * a[i, i]


@inner
def _project_friction(n, i, mu, a, b, force):
    """Do one projected update of the friction rows of the normal row i; return the change of their velocity."""
    x, y, c = a[i + 1, i + 1], a[i + 2, i + 2], a[i + 1, i + 2]
    most = 0.5 * (x + y) + math.sqrt(0.25 * (x - y) * (x - y) + c * c)
    if not most > 0.0:
        return 0.0
    u, v = force[i + 1], force[i + 2]
    f = u - _row_velocity(n, i + 1, a, b, force) / most
    g = v - _row_velocity(n, i + 2, a, b, force) / most
    size, limit = math.sqrt(f * f + g * g), mu * force[i]
    if size > limit:
        f, g = f * limit / size, g * limit / size
    force[i + 1], force[i + 2] = f, g
    return most * (abs(f - u) + abs(g - v))


@kernel
def sweep_cones(
    # in
    rows, contacts, most, tolerance, a, b, low, friction,
    # out
    force,
):  # fmt: skip
    """Fill the forces of `rows` bounded rows and the `contacts` contacts after them; return sweeps and last change.

    Args:
        rows: rows without friction, with a lower bound each.
        contacts: contacts of three rows each.
        most: largest number of sweeps.
        tolerance: change of velocity in a sweep at which to stop.
        a: (n, n) symmetric positive semidefinite.
        b: (n,) velocities without forces, minus the target velocities.
        low: (rows,) lower bounds; -inf for equality rows.
        friction: (contacts,) coefficients.
        force: (n,) initial guess, replaced by the solution.
    """
    n, sweeps, change = rows + 3 * contacts, 0, 0.0
    for _ in range(most):
        change = 0.0
        for i in range(rows):
            change = max(change, _project_bounded(n, i, a, b, low[i], math.inf, force))
        for c in range(contacts):
            i = rows + 3 * c
            change = max(change, _project_bounded(n, i, a, b, 0.0, math.inf, force))
            change = max(change, _project_friction(n, i, friction[c], a, b, force))
        sweeps += 1
        if change <= tolerance:
            break
    return sweeps, change
