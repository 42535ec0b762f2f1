"""Free flight of rigid bodies, four at a time: poses, momenta and rotations in registers of four.

Bodies are stored in groups of four; each group has `ROWS` rows of four numbers, one number of every body to a row. Body
i is in lane i & 3 of the rows from (i >> 2) ROWS on. The last group is padded with bodies that have no mass and do not
move.
"""

from __future__ import annotations

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.maximal.bodies import ROTATION, midpoint_newton
from limberjack.spatial.copies import HUGE
from limberjack.spatial.lanes import four, lane, set_four, splat
from limberjack.spatial.quaternions import quaternion_exp, quaternion_multiply
from limberjack.spatial.vectors import cross, rotate, rotate_back, rotate_symmetric, symmetric_times

__all__ = [
    "MOMENTUM", "POSITION", "ROWS", "START_ROTATION", "ROTATION_NOW", "accept_poses", "fly", "save_state",
    "save_rotations", "apply_gravity", "new_bodies", "nine_of", "restore_state", "restore_rotations", "set_inverses",
    "set_momenta", "set_poses", "set_velocities", "take_poses", "first_not_finite",
]  # fmt: skip

# Rows of a body: position of its com and quaternion, those at the start of the step, rotation matrices at the start and
# now, momenta (angular about the com, linear), rotation vector of the step in body axes, and constants: mass, 1 / mass,
# inertia about the com in body axes (xx, yy, zz, xy, xz, yz) and its inverse.
POSITION, QUATERNION, START_POSITION, START_QUATERNION, START_ROTATION, ROTATION_NOW, MOMENTUM, _LINEAR, VECTOR = (
    0, 3, 7, 10, 14, 23, 32, 35, 38,
)  # fmt: skip
_MASS, _INVERSE_MASS, _INERTIA, _INVERSE, ROWS = 41, 42, 43, 49, 55
_SAVED = 13  # rows of a group that are saved: position, quaternion, momenta
# Coefficients of the series of sin(x) / x and cos(x) in x^2.
_S1, _S2, _S3, _S4 = 1.0 / 6.0, 1.0 / 120.0, 1.0 / 5040.0, 1.0 / 362880.0
_C2, _C3, _C4, _C5 = 1.0 / 24.0, 1.0 / 720.0, 1.0 / 40320.0, 1.0 / 3628800.0
# Square of the largest rotation of a step for which the series are accurate to rounding [rad^2].
_SMALL = 0.04
# The last Newton step d of a rotation t leaves an error of |d| |t|^2, which must be below 1e-17.
_DONE = 1e-34


def new_bodies(mass: np.ndarray, inertia: np.ndarray, inverse: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the rows of bodies of these masses (n,) and inertias (n, 6), and arrays for saved states and rotations."""
    n = len(mass)
    groups = (n + 3) // 4
    rows = np.zeros((groups, ROWS, 4))
    rows[:, QUATERNION] = rows[:, START_QUATERNION] = 1.0

    def put(k: int, values: np.ndarray) -> None:
        padded = np.zeros(4 * groups)
        padded[:n] = values
        rows[:, k] = padded.reshape(groups, 4)

    put(_MASS, mass)
    put(_INVERSE_MASS, 1.0 / mass)
    for c in range(6):
        put(_INERTIA + c, inertia[:, c])
        put(_INVERSE + c, inverse[:, c])
    return rows.reshape(-1, 4), np.zeros((groups * _SAVED, 4)), np.zeros((groups * 9, 4))


@inner
def _three(b, k):
    return four(b, k), four(b, k + 1), four(b, k + 2)


@inner
def _six(b, k):
    return four(b, k), four(b, k + 1), four(b, k + 2), four(b, k + 3), four(b, k + 4), four(b, k + 5)


@inner
def _nine(b, k):
    x, y, z = _three(b, k), _three(b, k + 3), _three(b, k + 6)
    return x[0], x[1], x[2], y[0], y[1], y[2], z[0], z[1], z[2]


@inner
def _set_three(b, k, x, y, z):
    set_four(b, k, x)
    set_four(b, k + 1, y)
    set_four(b, k + 2, z)


@inner
def _most(a):
    """Return the largest of four numbers; inf where one is NaN."""
    x, y, z, w = lane(a, 0), lane(a, 1), lane(a, 2), lane(a, 3)
    if x != x or y != y or z != z or w != w:
        return np.inf
    return max(max(x, y), max(z, w))


@inner
def _rotation(w, x, y, z):
    """Return the nine numbers of the rotation of a quaternion whose length is 1 to rounding."""
    s = 4.0 - 2.0 * (w * w + x * x + y * y + z * z)
    sx, sy, sz = s * x, s * y, s * z
    xx, yy, zz = sx * x, sy * y, sz * z
    xy, xz, yz, wx, wy, wz = sx * y, sx * z, sy * z, sx * w, sy * w, sz * w
    return 1.0 - yy - zz, xy - wz, xz + wy, xy + wz, 1.0 - xx - zz, yz - wx, xz - wy, yz + wx, 1.0 - xx - yy


@inner
def _short_exp(x, y, z):
    """Return the quaternion of a rotation vector below 0.2 rad, without square root, sine or cosine."""
    t = 0.25 * (x * x + y * y + z * z)
    f = 0.5 * (1.0 - t * (_S1 - t * (_S2 - t * (_S3 - t * _S4))))
    w = 1.0 - t * (0.5 - t * (_C2 - t * (_C3 - t * (_C4 - t * _C5))))
    return w, f * x, f * y, f * z


@inner
def _slope(s, k, x, y, z):
    """Return (S^-1 - [k])^-1 v, v = (x, y, z), to first order in k, for the six numbers of a symmetric S."""
    x, y, z = symmetric_times(s, x, y, z)
    cx, cy, cz = cross(k[0], k[1], k[2], x, y, z)
    cx, cy, cz = symmetric_times(s, cx, cy, cz)
    return x + cx, y + cy, z + cz


@inner
def _newton(own, s, l, k, half, x, y, z):
    """Return the Newton step of t = (x, y, z) for I t = exp(-t/2) l, given the quaternion of t/2."""
    w, a, b, c = half
    ux, uy, uz = cross(a, b, c, l[0], l[1], l[2])
    vx, vy, vz = cross(a, b, c, ux, uy, uz)
    ex, ey, ez = symmetric_times(own, x, y, z)
    ex = l[0] - 2.0 * (w * ux - vx) - ex
    ey = l[1] - 2.0 * (w * uy - vy) - ey
    ez = l[2] - 2.0 * (w * uz - vz) - ez
    return _slope(s, k, ex, ey, ez)


@inner
def _unit_product(p, q):
    """Return the product of two unit quaternions; its length is 1 to rounding again, without division or root."""
    w, x, y, z = quaternion_multiply(p, q)
    f = 1.5 - 0.5 * (w * w + x * x + y * y + z * z)
    return f * w, f * x, f * y, f * z


@inner
def six_of(b, k, j):
    """Return the numbers of lane j in six rows from k on."""
    return b[k, j], b[k + 1, j], b[k + 2, j], b[k + 3, j], b[k + 4, j], b[k + 5, j]


@inner
def nine_of(b, k, j):
    """Return the numbers of lane j in nine rows from k on."""
    s = six_of(b, k, j)
    return s[0], s[1], s[2], s[3], s[4], s[5], b[k + 6, j], b[k + 7, j], b[k + 8, j]


@outlined
def _turn_one(b, o, j, h, warm_start):
    """Rotate the body in lane j of the group at row o, by any angle and however thin it is."""
    own, s, p = six_of(b, o + _INERTIA, j), six_of(b, o + _INVERSE, j), six_of(b, o + MOMENTUM, j)
    lx, ly, lz = rotate_back(nine_of(b, o + START_ROTATION, j), h * p[0], h * p[1], h * p[2])
    x, y, z = symmetric_times(s, lx, ly, lz)
    if warm_start:
        x, y, z = b[o + VECTOR, j], b[o + VECTOR + 1, j], b[o + VECTOR + 2, j]
    x, y, z = midpoint_newton(own, lx, ly, lz, x, y, z)
    b[o + VECTOR, j], b[o + VECTOR + 1, j], b[o + VECTOR + 2, j] = x, y, z
    f = o + START_QUATERNION
    w, x, y, z = _unit_product((b[f, j], b[f + 1, j], b[f + 2, j], b[f + 3, j]), quaternion_exp(x, y, z))
    q = o + QUATERNION
    b[q, j], b[q + 1, j], b[q + 2, j], b[q + 3, j] = w, x, y, z


@inner
def _set_rotation(b, k, w, x, y, z):
    r = _rotation(w, x, y, z)
    _set_three(b, k, r[0], r[1], r[2])
    _set_three(b, k + 3, r[3], r[4], r[5])
    _set_three(b, k + 6, r[6], r[7], r[8])


@outlined
def fly(b, h, warm_start):
    """Move all bodies from the start of the step by h with their momenta; fill the rotations at the end.

    The rotation vector t in body axes solves I t = exp(-t/2) l, l = h R^T L: the midpoint rule. Newton steps with the
    Jacobian at small t, I - [l]/2, gain two orders of t each.

    Args:
        b: rows of the bodies.
        h: length of the step.
        warm_start: whether to start from the rotation vectors found before.

    Returns:
        The square of the largest rotation; not exact beyond 0.2 rad.
    """
    largest = 0.0
    for g in range(len(b) // ROWS):
        o = g * ROWS
        f, p = h * four(b, o + _INVERSE_MASS), _six(b, o + MOMENTUM)
        x, y, z = _three(b, o + START_POSITION)
        _set_three(b, o + POSITION, x + f * p[3], y + f * p[4], z + f * p[5])
        own, s = _six(b, o + _INERTIA), _six(b, o + _INVERSE)
        l = rotate_back(_nine(b, o + START_ROTATION), h * p[0], h * p[1], h * p[2])
        k = 0.5 * l[0], 0.5 * l[1], 0.5 * l[2]
        x, y, z = _slope(s, k, l[0], l[1], l[2])
        if warm_start:
            x, y, z = _three(b, o + VECTOR)
        most, left = 0.0, np.inf
        for _ in range(20):
            dx, dy, dz = _newton(own, s, l, k, _short_exp(0.5 * x, 0.5 * y, 0.5 * z), x, y, z)
            x, y, z = x + dx, y + dy, z + dz
            t = x * x + y * y + z * z
            most, left = _most(t), _most((dx * dx + dy * dy + dz * dz) * t * t)
            if left < _DONE or most > _SMALL:
                break
        if most <= _SMALL and left < _DONE:
            _set_three(b, o + VECTOR, x, y, z)
            before = (
                four(b, o + START_QUATERNION),
                four(b, o + START_QUATERNION + 1),
                four(b, o + START_QUATERNION + 2),
                four(b, o + START_QUATERNION + 3),
            )
            w, x, y, z = _unit_product(before, _short_exp(x, y, z))
            set_four(b, o + QUATERNION, w)
            _set_three(b, o + QUATERNION + 1, x, y, z)
        else:
            for j in range(4):
                _turn_one(b, o, j, h, warm_start)
        q = o + QUATERNION
        _set_rotation(b, o + ROTATION_NOW, four(b, q), four(b, q + 1), four(b, q + 2), four(b, q + 3))
        largest = max(largest, most)
    return largest


@outlined
def accept_poses(b, moved):
    """Make the poses the start of the next step; where they did not just come from `fly`, fill their rotations."""
    for g in range(len(b) // ROWS):
        o = g * ROWS
        if not moved:
            q = o + QUATERNION
            _set_rotation(b, o + ROTATION_NOW, four(b, q), four(b, q + 1), four(b, q + 2), four(b, q + 3))
        for c in range(7):
            set_four(b, o + START_POSITION + c, four(b, o + POSITION + c))
        for c in range(9):
            set_four(b, o + START_ROTATION + c, four(b, o + ROTATION_NOW + c))


@outlined
def apply_gravity(b, h, gravity):
    """Add the impulse of gravity over h to the momenta."""
    gx, gy, gz = h * gravity[0], h * gravity[1], h * gravity[2]
    for g in range(len(b) // ROWS):
        o = g * ROWS
        m = four(b, o + _MASS)
        x, y, z = _three(b, o + _LINEAR)
        _set_three(b, o + _LINEAR, x + gx * m, y + gy * m, z + gz * m)


@inner
def _store_lanes(a, i, c, out):
    """Set column c of four rows from i on."""
    out[i, c], out[i + 1, c], out[i + 2, c], out[i + 3, c] = lane(a, 0), lane(a, 1), lane(a, 2), lane(a, 3)


@outlined
def set_inverses(b, minv):
    """Fill the inverse inertias in world axes (whole groups, 7) at the rotations of the start of the step."""
    for g in range(len(b) // ROWS):
        o, i = g * ROWS, 4 * g
        s = rotate_symmetric(_nine(b, o + START_ROTATION), _six(b, o + _INVERSE))
        _store_lanes(s[0], i, 0, minv)
        _store_lanes(s[1], i, 1, minv)
        _store_lanes(s[2], i, 2, minv)
        _store_lanes(s[3], i, 3, minv)
        _store_lanes(s[4], i, 4, minv)
        _store_lanes(s[5], i, 5, minv)


@outlined
def first_not_finite(b):
    """Return -1, or the number of a velocity that is not finite."""
    total = splat(0.0)
    for g in range(len(b) // ROWS):
        o = g * ROWS
        p, f = _six(b, o + MOMENTUM), four(b, o + _INVERSE_MASS)
        total = total + p[0] * p[0] + p[1] * p[1] + p[2] * p[2] + f * f * (p[3] * p[3] + p[4] * p[4] + p[5] * p[5])
    if _most(total) < HUGE * HUGE:
        return -1
    for i in range(4 * (len(b) // ROWS)):
        for c in range(6):
            if not abs(b[(i >> 2) * ROWS + MOMENTUM + c, i & 3]) < HUGE:
                return 6 * i + c
    return 0


@outlined
def save_rotations(b, rotations):
    """Save the rotations at the start of a step."""
    for g in range(len(b) // ROWS):
        for c in range(9):
            set_four(rotations, g * 9 + c, four(b, g * ROWS + START_ROTATION + c))


@outlined
def restore_rotations(rotations, b):
    """Restore saved rotations as those at the start of a step."""
    for g in range(len(b) // ROWS):
        for c in range(9):
            set_four(b, g * ROWS + START_ROTATION + c, four(rotations, g * 9 + c))


@outlined
def save_state(b, saved):
    """Save positions, quaternions and momenta."""
    for g in range(len(b) // ROWS):
        for c in range(7):
            set_four(saved, g * _SAVED + c, four(b, g * ROWS + POSITION + c))
        for c in range(6):
            set_four(saved, g * _SAVED + 7 + c, four(b, g * ROWS + MOMENTUM + c))


@outlined
def restore_state(saved, b):
    """Restore positions, quaternions and momenta."""
    for g in range(len(b) // ROWS):
        for c in range(7):
            set_four(b, g * ROWS + POSITION + c, four(saved, g * _SAVED + c))
        for c in range(6):
            set_four(b, g * ROWS + MOMENTUM + c, four(saved, g * _SAVED + 7 + c))


@outlined
def take_poses(pose, b):
    """Set the positions and quaternions from poses (n, POSE)."""
    for i in range(len(pose)):
        o, j = (i >> 2) * ROWS, i & 3
        for c in range(3):
            b[o + POSITION + c, j] = pose[i, c]
        for c in range(4):
            b[o + QUATERNION + c, j] = pose[i, ROTATION + c]


@outlined
def set_poses(b, pose):
    """Fill the poses."""
    for i in range(len(pose)):
        o, j = (i >> 2) * ROWS, i & 3
        for c in range(3):
            pose[i, c] = b[o + POSITION + c, j]
        for c in range(4):
            pose[i, ROTATION + c] = b[o + QUATERNION + c, j]


@outlined
def set_momenta(u, b):
    """Fill the momenta of velocities u (6 n,), at the rotations of the start of the step."""
    for i in range(len(u) // 6):
        o, j, v = (i >> 2) * ROWS, i & 3, 6 * i
        r = nine_of(b, o + START_ROTATION, j)
        x, y, z = rotate_back(r, u[v], u[v + 1], u[v + 2])
        x, y, z = symmetric_times(six_of(b, o + _INERTIA, j), x, y, z)
        x, y, z = rotate(r, x, y, z)
        p, m = o + MOMENTUM, b[o + _MASS, j]
        b[p, j], b[p + 1, j], b[p + 2, j] = x, y, z
        b[p + 3, j], b[p + 4, j], b[p + 5, j] = m * u[v + 3], m * u[v + 4], m * u[v + 5]


@outlined
def set_velocities(b, minv, u):
    """Fill the velocities (6 n,) of the momenta."""
    for i in range(len(u) // 6):
        p, j, v = (i >> 2) * ROWS + MOMENTUM, i & 3, 6 * i
        s = minv[i, 0], minv[i, 1], minv[i, 2], minv[i, 3], minv[i, 4], minv[i, 5]
        u[v], u[v + 1], u[v + 2] = symmetric_times(s, b[p, j], b[p + 1, j], b[p + 2, j])
        f = minv[i, 6]
        u[v + 3], u[v + 4], u[v + 5] = f * b[p + 3, j], f * b[p + 4, j], f * b[p + 5, j]
