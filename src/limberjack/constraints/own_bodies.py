"""Bodies of registered kinds inside kernels: a row of numbers for each, filled by the compiled function of its kind.

A body of a registered kind has up to twelve generalized coordinates y with rates u = y'. Its kind tells where a point p
of the body is, X(p, y), and its kinetic energy T(y, u). From these, by exact derivatives (`own_kinds.py`):

    point       X' = X_y u,   X'' = X_y u' + b,   b = d2/ds2 X(p, y + s u)
    mass        M = T_uu,     force of inertia   f = T_y - T_uy u - V_y

| columns | what they hold |
|---|---|
| Y, U | coordinates and rates, where everything is taken |
| POINT | the point that is asked for, in the body |
| PLACE, SPEED, BEND | where it is, its velocity, and b |
| SLOPES | X_y, three numbers per coordinate |
| MASS, FORCE, ENERGY | M by rows of twelve, f without weight, V |
| CENTER, DRIFT, LIFT | com, its velocity, and its derivatives, three per coordinate |
| FRAME, TURNING | derivatives of X by p at the body's origin, and their rates: how the body's frame stands and turns |
"""

from __future__ import annotations

from limberjack._jit import inner, outlined
from limberjack.constraints.calls import call_custom

__all__ = ["OWN_WIDTH", "own_inertia", "own_mass", "own_move", "own_place", "own_push", "set_own"]

MOST = 12
Y, U, POINT, PLACE, SPEED, BEND, SLOPES = 0, 12, 24, 27, 30, 33, 36
MASS, FORCE, ENERGY, CENTER, DRIFT, LIFT, FRAME, TURNING, OWN_WIDTH = 72, 216, 228, 229, 232, 235, 271, 280, 290
# What a kind's function is asked for: a point, mass and forces with the com, the frame at the origin.
ASK_POINT, ASK_MASS, ASK_FRAME = 0.0, 1.0, 2.0


@inner
def _column(c):
    """Return the column of a pose that holds coordinate c; 3 to 6 hold the quaternion of other kinds."""
    return c if c < 3 else c + 4


@outlined
def own_place(i, address, own, data, px, py, pz):
    """Fill place, velocity, bias and slopes of the point p of body i, at the state `set_own` left."""
    own[i, POINT], own[i, POINT + 1], own[i, POINT + 2] = px, py, pz
    call_custom(address[i], ASK_POINT, own, i, data, i, data.shape[1])


@outlined
def set_own(i, dim, start, address, own, data, pose, u, maps, ends):
    """Fill all of body i at (pose, u): its own row, ends, and the maps of its frame."""
    for c in range(dim):
        own[i, Y + c], own[i, U + c] = pose[i, _column(c)], u[start + c]
    call_custom(address[i], ASK_MASS, own, i, data, i, data.shape[1])
    call_custom(address[i], ASK_FRAME, own, i, data, i, data.shape[1])
    own_place(i, address, own, data, 0.0, 0.0, 0.0)
    for c in range(9):
        ends[i, c] = 1.0 if c % 4 == 0 else 0.0
        maps[i, c], maps[i, 9 + c], maps[i, 18 + c] = own[i, FRAME + c], own[i, TURNING + c], 0.0
    for c in range(3):
        ends[i, 9 + c], ends[i, 12 + c], ends[i, 15 + c] = own[i, PLACE + c], 0.0, own[i, SPEED + c]


@inner
def own_mass(i, dim, own, o, m):
    """Write the mass block of body i into m[o:]."""
    for a in range(dim):
        for b in range(dim):
            m[o + a * dim + b] = own[i, MASS + MOST * a + b]


@inner
def own_inertia(i, dim, own, mass, gravity, o, f):
    """Set f[o:] to the weight of body i less its force of inertia and those of its potential."""
    for c in range(dim):
        k = LIFT + 3 * c
        lift = gravity[0] * own[i, k] + gravity[1] * own[i, k + 1] + gravity[2] * own[i, k + 2]
        f[o + c] = own[i, FORCE + c] + mass * lift


@outlined
def own_push(i, dim, address, own, data, px, py, pz, fx, fy, fz, o, j):
    """Add to j[o:] what a force f at the point p of body i does along its coordinates."""
    own_place(i, address, own, data, px, py, pz)
    for c in range(dim):
        k = SLOPES + 3 * c
        j[o + c] += fx * own[i, k] + fy * own[i, k + 1] + fz * own[i, k + 2]


@inner
def own_move(i, dim, o, h, u, pose):
    """Add h u to the coordinates of body i."""
    for c in range(dim):
        pose[i, _column(c)] += h * u[o + c]
