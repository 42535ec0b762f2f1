"""Kernels that only kernels call, wrapped so that tests can: arrays in, arrays out."""

from __future__ import annotations

import numba
import numpy as np

from limberjack.spatial import quaternions, solves, trig, vectors

_sincos, _atan2 = trig.sincos, trig.atan2
_exp, _log, _multiply = quaternions.quaternion_exp, quaternions.quaternion_log, quaternions.quaternion_multiply
_rotation, _from_matrix = quaternions.rotation_from_quaternion, quaternions.quaternion_from_matrix
_factor, _solve, _solve_3 = solves.factor_ldl, solves.solve_ldl, solves.solve_symmetric_3
_cross, _product = vectors.cross, vectors.multiply
_rotate, _rotate_back = vectors.rotate, vectors.rotate_back
_symmetric, _rotate_symmetric = vectors.symmetric_times, vectors.rotate_symmetric


@numba.njit
def sincos(x):
    """Return (sin, cos) of every x."""
    s, c = np.empty_like(x), np.empty_like(x)
    for i in range(len(x)):
        s[i], c[i] = _sincos(x[i])
    return s, c


@numba.njit
def atan2(y, x):
    """Return the angles of the points (x, y)."""
    out = np.empty_like(y)
    for i in range(len(y)):
        out[i] = _atan2(y[i], x[i])
    return out


@numba.njit
def exp(v):
    """Return the quaternion of a rotation vector."""
    return np.array(_exp(v[0], v[1], v[2]))


@numba.njit
def log(q):
    """Return the rotation vector of a quaternion."""
    return np.array(_log(q[0], q[1], q[2], q[3]))


@numba.njit
def multiply(a, b):
    """Return the product of two quaternions."""
    return np.array(_multiply((a[0], a[1], a[2], a[3]), (b[0], b[1], b[2], b[3])))


@numba.njit
def rotation(q):
    """Return the 3x3 rotation of a quaternion."""
    return np.array(_rotation(q[0], q[1], q[2], q[3])).reshape(3, 3)


@numba.njit
def _nine(r):
    return r[0, 0], r[0, 1], r[0, 2], r[1, 0], r[1, 1], r[1, 2], r[2, 0], r[2, 1], r[2, 2]


@numba.njit
def _six(s):
    return s[0, 0], s[1, 1], s[2, 2], s[0, 1], s[0, 2], s[1, 2]


@numba.njit
def from_matrix(r):
    """Return the quaternion of a 3x3 rotation."""
    return np.array(_from_matrix(_nine(r)))


@numba.njit
def vector_results(a, b, m, n, s):
    """Return every function of vectors at vectors a, b, matrices m, n and symmetric s, in the order of the test."""
    return (
        np.array(_cross(a[0], a[1], a[2], b[0], b[1], b[2])),
        np.array(_rotate(_nine(m), a[0], a[1], a[2])),
        np.array(_rotate_back(_nine(m), a[0], a[1], a[2])),
        np.array(_product(_nine(m), _nine(n))),
        np.array(_symmetric(_six(s), a[0], a[1], a[2])),
        np.array(_rotate_symmetric(_nine(m), _six(s))),
    )


@numba.njit
def solve_ldl(a, first, n, floor, x):
    """Factor the block of `a` at row `first` and solve in place; return the status."""
    status = _factor(n, first, floor, a)
    if status == 0:
        _solve(n, first, a, x)
    return status


@numba.njit
def solve_3(s, v):
    """Return (positive, S^-1 v) of a symmetric 3x3 matrix."""
    good, x, y, z = _solve_3(_six(s), v[0], v[1], v[2])
    return good, np.array((x, y, z))
