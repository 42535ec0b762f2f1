"""Products with the blocks of a constraint system, none of which is ever assembled: J u, J^T lam, M^-1 f, A lam.

Inverse masses come in one of two forms, told apart by the number of axes:

- (nb, 7) rigid bodies: world inverse inertia xx yy zz xy xz yz and 1/m; zero for what is held;
- flat: the inverse of every body's block, row-major, at `mass_start`, for bodies of any dimension.
"""

from __future__ import annotations

from limberjack._jit import inner, kernel

__all__ = ["add_forces", "divide_by_mass", "mass_times_row", "multiply_rows", "product"]


@inner
def add_forces(
    system,  # model
    J, lam,  # in
    f,  # out
):  # fmt: skip
    """f += J^T lam."""
    for i in range(len(system.touch_start) - 1):
        row = system.row_start[i]
        n = system.row_start[i + 1] - row
        for t in range(system.touch_start[i], system.touch_start[i + 1]):
            b, k = system.touch_body[t], system.block_start[t]
            at = system.body_start[b]
            dim = system.body_start[b + 1] - at
            if n == 3 and dim == 6:
                x, y, z = lam[row], lam[row + 1], lam[row + 2]
                for j in range(6):
                    f[at + j] += J[k + j] * x + J[k + 6 + j] * y + J[k + 12 + j] * z
                continue
            for r in range(n):
                x = lam[row + r]
                for j in range(dim):
                    f[at + j] += J[k + r * dim + j] * x


@inner
def multiply_rows(
    system,  # model
    J, u,  # in
    y,  # out
):  # fmt: skip
    """y = J u."""
    for i in range(len(system.touch_start) - 1):
        row = system.row_start[i]
        n = system.row_start[i + 1] - row
        for r in range(n):
            y[row + r] = 0.0
        for t in range(system.touch_start[i], system.touch_start[i + 1]):
            b, k = system.touch_body[t], system.block_start[t]
            at = system.body_start[b]
            dim = system.body_start[b + 1] - at
            if dim == 6:
                u0, u1, u2, u3, u4, u5 = u[at], u[at + 1], u[at + 2], u[at + 3], u[at + 4], u[at + 5]
                for r in range(n):
                    angular = J[k] * u0 + J[k + 1] * u1 + J[k + 2] * u2
                    y[row + r] += angular + (J[k + 3] * u3 + J[k + 4] * u4 + J[k + 5] * u5)
                    k += 6
                continue
            for r in range(n):
                s = 0.0
                for j in range(dim):
                    s += J[k + r * dim + j] * u[at + j]
                y[row + r] += s


@inner
def divide_by_mass(
    system,  # model
    Minv, f,  # in
    u,  # out
):  # fmt: skip
    """u = M^-1 f."""
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
    system,  # model
    Minv, J, C, lam,  # in
    f, u,  # work
    y,  # out
):  # fmt: skip
    """y = (J M^-1 J^T + C) lam."""
    for j in range(len(f)):
        f[j] = 0.0
    add_forces(system, J, lam, f)
    divide_by_mass(system, Minv, f, u)
    multiply_rows(system, J, u, y)
    for r in range(len(y)):
        y[r] += C[r] * lam[r]
    return 0
