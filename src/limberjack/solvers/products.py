"""Products with the blocks of a constraint system, none of which is ever assembled: J u, J^T lam, M^-1 f, A lam.

Inverse masses come in one of two forms, told apart by the number of axes:

- (nb, 7) rigid bodies: world inverse inertia xx yy zz xy xz yz and 1/m; zero for what is held;
- flat: the inverse of every body's block, row-major, at `mass_start`, for bodies of any dimension.
"""

from __future__ import annotations

from limberjack._jit import inner, kernel
from limberjack.solvers.block_pivots import four, gather3, number, row_sums, set_four, spread
from limberjack.spatial.lanes import add, column, lane, mul, pack, splat, sub

__all__ = ["add_forces", "divide_by_mass", "mass_times_row", "multiply_rows", "product", "rigid_response"]


@inner
def add_forces(
    system, place,  # model
    J, lam,  # in
    f,  # out
):  # fmt: skip
    """Add J^T lam to f. The rows of constraint i stand from place[i] on in lam."""
    for i in range(len(system.touch_start) - 1):
        row = place[i]
        n = system.row_start[i + 1] - system.row_start[i]
        for t in range(system.touch_start[i], system.touch_start[i + 1]):
            b, k = system.touch_body[t], system.block_start[t]
            to = system.body_start[b]
            dim = system.body_start[b + 1] - to
            if n == 3 and dim == 6:
                x, y, z = number(lam, row), number(lam, row + 1), number(lam, row + 2)
                a = add(mul(four(J, k), splat(x)), mul(four(J, k + 6), splat(y)))
                set_four(f, to, add(four(f, to), add(a, mul(four(J, k + 12), splat(z)))))
                for c in range(4, 6):
                    f[to + c] += number(J, k + c) * x + number(J, k + c + 6) * y + number(J, k + c + 12) * z
                continue
            for r in range(n):
                x = lam[row + r]
                for j in range(dim):
                    f[to + j] += J[k + r * dim + j] * x


@inner
def _row_times_six(J, k, a, b):
    """Return, in lanes to be summed, six numbers of J times (a_0 a_1 a_2 a_3 b_2 b_3); b_0 and b_1 are zero."""
    return add(mul(four(J, k), a), mul(four(J, k + 2), b))


@inner
def multiply_rows(
    system, place,  # model
    J, u,  # in
    y,  # out
):  # fmt: skip
    """Set y to J u. The rows of constraint i stand from place[i] on in y."""
    last = sub(splat(1.0), pack(1.0, 1.0, 0.0))  # 0 0 1 1
    for i in range(len(system.touch_start) - 1):
        row = place[i]
        n = system.row_start[i + 1] - system.row_start[i]
        if n != 3:
            _multiply_any(system, i, n, row, J, u, y)
            continue
        total = splat(0.0)
        for t in range(system.touch_start[i], system.touch_start[i + 1]):
            b, k = system.touch_body[t], system.block_start[t]
            at = system.body_start[b]
            dim = system.body_start[b + 1] - at
            if dim == 6:
                head, tail = four(u, at), mul(four(u, at + 2), last)
                p, q = _row_times_six(J, k, head, tail), _row_times_six(J, k + 6, head, tail)
                s = _row_times_six(J, k + 12, head, tail)
                total = add(total, add(row_sums(p, q, s), column(p, q, s, 3)))
            else:
                for j in range(dim):
                    total = add(total, mul(gather3(J, k + j, dim), spread(u, at + j)))
        y[row] = lane(total, 0)
        y[row + 1] = lane(total, 1)
        y[row + 2] = lane(total, 2)


@inner
def _multiply_any(system, i, n, row, J, u, y):
    """Set the n rows of constraint i of J u."""
    for r in range(n):
        s = 0.0
        for t in range(system.touch_start[i], system.touch_start[i + 1]):
            b = system.touch_body[t]
            at = system.body_start[b]
            dim = system.body_start[b + 1] - at
            k = system.block_start[t] + r * dim
            for j in range(dim):
                s += J[k + j] * u[at + j]
        y[row + r] = s


@inner
def divide_by_mass(
    system,  # model
    Minv, f,  # in
    u,  # out
):  # fmt: skip
    """Set u to M^-1 f."""
    for b in range(len(system.body_start) - 1):
        at = system.body_start[b]
        if Minv.ndim == 2:
            x, y, z = f[at], f[at + 1], f[at + 2]
            xx, yy, zz, xy, xz, yz = Minv[b, 0], Minv[b, 1], Minv[b, 2], Minv[b, 3], Minv[b, 4], Minv[b, 5]
            u[at] = xx * x + xy * y + xz * z
            u[at + 1] = xy * x + yy * y + yz * z
            u[at + 2] = xz * x + yz * y + zz * z
            for j in range(3, 6):
                u[at + j] = Minv[b, 6] * f[at + j]
        else:
            k, dim = system.mass_start[b], system.body_start[b + 1] - at
            for i in range(dim):
                s = 0.0
                for j in range(dim):
                    s += Minv[k + i * dim + j] * f[at + j]
                u[at + i] = s


@inner
def rigid_response(Minv, b, J, k):
    """Return the six rows of M^-1 J^T of three rows of J, at place k, on rigid body b, and their squares J M^-1 J^T."""
    x, y, z = gather3(J, k, 6), gather3(J, k + 1, 6), gather3(J, k + 2, 6)
    p, q, s = gather3(J, k + 3, 6), gather3(J, k + 4, 6), gather3(J, k + 5, 6)
    xx, yy, zz = splat(Minv[b, 0]), splat(Minv[b, 1]), splat(Minv[b, 2])
    xy, xz, yz, m = splat(Minv[b, 3]), splat(Minv[b, 4]), splat(Minv[b, 5]), splat(Minv[b, 6])
    u = add(add(mul(xx, x), mul(xy, y)), mul(xz, z))
    v = add(add(mul(xy, x), mul(yy, y)), mul(yz, z))
    w = add(add(mul(xz, x), mul(yz, y)), mul(zz, z))
    angular = add(add(mul(x, u), mul(y, v)), mul(z, w))
    linear = add(add(mul(p, p), mul(q, q)), mul(s, s))
    return (u, v, w, mul(m, p), mul(m, q), mul(m, s)), add(angular, mul(m, linear))


@inner
def mass_times_row(system, Minv, b, c, J, row):
    """Return component c of M^-1 of body b times the row of J that starts at place `row`."""
    s = 0.0
    if Minv.ndim == 2:
        if c > 2:
            return Minv[b, 6] * J[row + c]
        # xx yy zz xy xz yz: row c and column j stand at 2 + c + j, unless they are the same
        for j in range(3):
            s += Minv[b, c if j == c else 2 + c + j] * J[row + j]
    else:
        dim = system.body_start[b + 1] - system.body_start[b]
        for j in range(dim):
            s += Minv[system.mass_start[b] + c * dim + j] * J[row + j]
    return s


@kernel
def product(
    system, place,  # model
    Minv, J, C, lam,  # in
    f, u,  # work
    y,  # out
):  # fmt: skip
    """Set y to (J M^-1 J^T + C) lam. The rows of constraint i stand from place[i] on in lam and y, not in C."""
    for j in range(len(f)):
        f[j] = 0.0
    add_forces(system, place, J, lam, f)
    divide_by_mass(system, Minv, f, u)
    multiply_rows(system, place, J, u, y)
    for i in range(len(place) - 1):
        first = system.row_start[i]
        for r in range(system.row_start[i + 1] - first):
            y[place[i] + r] += C[first + r] * lam[place[i] + r]
    return 0
