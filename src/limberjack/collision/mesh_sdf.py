"""Signed distance grids of closed meshes, cached on disk, and the depenetration spheres inside them.

`grid_of` returns the distances at the nodes of a regular grid, negative inside. Near the surface each node has the
exact distance to the nearest triangle. Further off, nodes take over the nearest triangle of their neighbours, in
sweeps, and measure the distance to that. The sign is that of the winding number, counted along each of the three axes;
two of three decide, since a ray may graze an edge. `depenetration_spheres` places spheres on the ridges of a grid.
"""

from __future__ import annotations

import hashlib
import math
import os
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from limberjack._jit import cache_folder, inner, kernel, outlined
from limberjack.collision.surfaces import Surface

__all__ = ["CELLS", "Grid", "build_grid", "depenetration_spheres", "grid_of"]

# Cells along the longest edge of a mesh; beyond its box the grid goes on by this part of that edge, and some cells.
CELLS, _AROUND, _LEAST_AROUND = 56, 0.12, 3
_BAND = 1.5
_VERSION = 1
_MOST_FILES = 200
# A node is on a ridge where the distance to the surface grows by less than this per length in all directions; spheres
# have a radius of so many cells at least, and distances of this part of it, or more where a mesh would have too many.
_RIDGE, _SMALLEST, _APART, _MOST = 0.7, 0.9, 0.5, 160


class Grid(NamedTuple):
    """Signed distances at the nodes origin + step (i, j, k)."""

    origin: np.ndarray  # (3,)
    step: float
    values: np.ndarray  # (nx, ny, nz) float32


@inner
def _dot(ax, ay, az, bx, by, bz):
    return ax * bx + ay * by + az * bz


@outlined
def _triangle_square(px, py, pz, t, vertices, faces):
    """Return the squared distance of a point from triangle t."""
    a, b, c = faces[t, 0], faces[t, 1], faces[t, 2]
    ax, ay, az = vertices[a, 0] - px, vertices[a, 1] - py, vertices[a, 2] - pz
    ux, uy, uz = vertices[b, 0] - vertices[a, 0], vertices[b, 1] - vertices[a, 1], vertices[b, 2] - vertices[a, 2]
    vx, vy, vz = vertices[c, 0] - vertices[a, 0], vertices[c, 1] - vertices[a, 1], vertices[c, 2] - vertices[a, 2]
    uu, uv, vv = _dot(ux, uy, uz, ux, uy, uz), _dot(ux, uy, uz, vx, vy, vz), _dot(vx, vy, vz, vx, vy, vz)
    d, e = -_dot(ux, uy, uz, ax, ay, az), -_dot(vx, vy, vz, ax, ay, az)
    det = uu * vv - uv * uv
    s = t_ = -1.0
    if det > 1e-14 * uu * vv:
        s, t_ = (vv * d - uv * e) / det, (uu * e - uv * d) / det
    if s < 0.0 or t_ < 0.0 or s + t_ > 1.0:
        # On the edge that comes closest.
        best = 1e300
        for side in range(3):
            if side == 0:
                f, g = min(max(d / uu, 0.0), 1.0), 0.0
            elif side == 1:
                f, g = 0.0, min(max(e / vv, 0.0), 1.0)
            else:
                length = uu - 2.0 * uv + vv
                g = min(max((uu - uv + e - d) / length, 0.0), 1.0)
                f = 1.0 - g
            x, y, z = ax + f * ux + g * vx, ay + f * uy + g * vy, az + f * uz + g * vz
            best = min(best, x * x + y * y + z * z)
        return best
    x, y, z = ax + s * ux + t_ * vx, ay + s * uy + t_ * vy, az + s * uz + t_ * vz
    return x * x + y * y + z * z


@inner
def _reach(vertices, faces, t, axis, origin, step, pad, count):
    """Return the first and last node along an axis that lie within pad of triangle t."""
    a, b, c = vertices[faces[t, 0], axis], vertices[faces[t, 1], axis], vertices[faces[t, 2], axis]
    low, high = min(a, b, c) - pad - origin[axis], max(a, b, c) + pad - origin[axis]
    return max(0, int(math.ceil(low / step))), min(count - 1, int(math.floor(high / step)))


@kernel
def nearest_triangles(
    # in
    vertices, faces, origin, step, band,
    # out
    square, nearest,
):  # fmt: skip
    """Fill the squared distance and the nearest triangle of every node: exactly within `band`, by sweeps beyond."""
    nx, ny, nz = square.shape
    for i in range(nx):
        for j in range(ny):
            for k in range(nz):
                square[i, j, k], nearest[i, j, k] = 1e300, -1
    for t in range(len(faces)):
        i0, i1 = _reach(vertices, faces, t, 0, origin, step, band, nx)
        j0, j1 = _reach(vertices, faces, t, 1, origin, step, band, ny)
        k0, k1 = _reach(vertices, faces, t, 2, origin, step, band, nz)
        for i in range(i0, i1 + 1):
            for j in range(j0, j1 + 1):
                for k in range(k0, k1 + 1):
                    d = _triangle_square(
                        origin[0] + step * i, origin[1] + step * j, origin[2] + step * k, t, vertices, faces
                    )
                    if d < square[i, j, k]:
                        square[i, j, k], nearest[i, j, k] = d, t
    for sweep in range(16):
        di, dj, dk = 1 if sweep & 1 else -1, 1 if sweep & 2 else -1, 1 if sweep & 4 else -1
        for p in range(nx):
            i = p if di > 0 else nx - 1 - p
            for q in range(ny):
                j = q if dj > 0 else ny - 1 - q
                for r in range(nz):
                    k = r if dk > 0 else nz - 1 - r
                    if square[i, j, k] <= band * band:
                        continue
                    for way in range(1, 8):
                        a = i - di if way & 1 else i
                        b = j - dj if way & 2 else j
                        c = k - dk if way & 4 else k
                        if a < 0 or a >= nx or b < 0 or b >= ny or c < 0 or c >= nz:
                            continue
                        t = nearest[a, b, c]
                        if t < 0 or t == nearest[i, j, k]:
                            continue
                        d = _triangle_square(
                            origin[0] + step * i, origin[1] + step * j, origin[2] + step * k, t, vertices, faces
                        )
                        if d < square[i, j, k]:
                            square[i, j, k], nearest[i, j, k] = d, t


@kernel
def count_windings(
    # in
    vertices, faces, origin, step, axis, shift_u, shift_v,
    # out
    votes,
):  # fmt: skip
    """Add 1 to the votes of every node inside, by the faces that a ray from it along an axis leaves and enters.

    The rays are shifted by a small part of a cell, so that they hit no vertex. On the way `votes` holds the winding
    number so far in steps of 4 and the votes of other axes below.
    """
    count = votes.shape
    u, v = (axis + 1) % 3, (axis + 2) % 3
    for t in range(len(faces)):
        a, b, c = faces[t, 0], faces[t, 1], faces[t, 2]
        au, av, bu, bv = vertices[a, u], vertices[a, v], vertices[b, u], vertices[b, v]
        cu, cv = vertices[c, u], vertices[c, v]
        area = (bu - au) * (cv - av) - (bv - av) * (cu - au)
        if area == 0.0:
            continue
        turn = 4 if area > 0.0 else -4
        j0, j1 = _reach(vertices, faces, t, u, origin, step, step, count[u])
        k0, k1 = _reach(vertices, faces, t, v, origin, step, step, count[v])
        for j in range(j0, j1 + 1):
            pu = origin[u] + step * j + shift_u
            for k in range(k0, k1 + 1):
                pv = origin[v] + step * k + shift_v
                f = ((bu - pu) * (cv - pv) - (bv - pv) * (cu - pu)) / area
                g = ((cu - pu) * (av - pv) - (cv - pv) * (au - pu)) / area
                h = 1.0 - f - g
                if f < 0.0 or g < 0.0 or h < 0.0:
                    continue
                at = f * vertices[a, axis] + g * vertices[b, axis] + h * vertices[c, axis]
                last = min(count[axis] - 1, int(math.floor((at - origin[axis]) / step)))
                for i in range(last + 1):
                    if axis == 0:
                        votes[i, j, k] += turn
                    elif axis == 1:
                        votes[k, i, j] += turn
                    else:
                        votes[j, k, i] += turn
    for i in range(count[0]):
        for j in range(count[1]):
            for k in range(count[2]):
                other = votes[i, j, k] & 3
                votes[i, j, k] = other + (1 if votes[i, j, k] >> 2 > 0 else 0)


def build_grid(surface: Surface, cells: int = CELLS) -> Grid:
    """Return the grid of a closed surface, built anew.

    Args:
        surface: the mesh.
        cells: along its longest edge.
    """
    low, high = surface.vertices.min(axis=0), surface.vertices.max(axis=0)
    step = float((high - low).max() / cells)
    around = max(_LEAST_AROUND, math.ceil(_AROUND * cells))
    shape = tuple(int(n) for n in np.ceil((high - low) / step - 1e-9).astype(int) + 2 * around + 1)
    origin = 0.5 * (low + high) - 0.5 * step * (np.array(shape) - 1)
    square, nearest = np.zeros(shape), np.zeros(shape, np.int64)
    vertices, faces = np.ascontiguousarray(surface.vertices), np.ascontiguousarray(surface.faces)
    nearest_triangles(vertices, faces, origin, step, _BAND * step, square, nearest)
    votes = np.zeros(shape, np.int64)
    for axis in range(3):
        count_windings(vertices, faces, origin, step, axis, 1.618e-4 * step, 2.718e-4 * step, votes)
    values = np.where(votes >= 2, -1.0, 1.0) * np.sqrt(square)
    return Grid(origin, step, values.astype(np.float32))


def _folder() -> Path:
    return cache_folder() / "distances"


def grid_of(surface: Surface, cells: int = CELLS) -> Grid:
    """Return the grid of a closed surface: from disk, if one of the same mesh is stored."""
    digest = hashlib.sha256(f"{_VERSION} {cells} {surface.vertices.shape}".encode())
    for array in (surface.vertices, surface.faces):
        digest.update(np.ascontiguousarray(array).tobytes())
    path = _folder() / f"{digest.hexdigest()[:32]}.npz"
    try:
        with np.load(path, allow_pickle=False) as stored:
            grid = Grid(stored["origin"], float(stored["step"]), stored["values"])
        if grid.values.dtype == np.float32 and grid.values.ndim == 3 and np.isfinite(grid.values).all():
            return grid
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        pass  # there is none, or a broken one: it is built
    grid = build_grid(surface, cells)
    _store(path, grid)
    return grid


def _store(path: Path, grid: Grid) -> None:
    """Write the grid whole or not at all, and delete the oldest of many."""
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
        with os.fdopen(handle, "wb") as file:
            np.savez(file, origin=grid.origin, step=np.array(grid.step), values=grid.values)
        os.replace(name, path)
        stored = sorted(path.parent.glob("*.npz"), key=lambda entry: entry.stat().st_mtime, reverse=True)
        for old in stored[_MOST_FILES:]:
            old.unlink(missing_ok=True)
    except OSError:
        pass  # a cache that cannot be written costs time, nothing else


def depenetration_spheres(grid: Grid) -> np.ndarray:
    """Return spheres inside a mesh that touch its surface, (n, 4) centres and radii, the largest first."""
    depth = -grid.values.astype(float)
    at = np.argwhere(depth > _SMALLEST * grid.step)
    own = depth[tuple(at.T)]
    ridge = np.ones(len(at), bool)
    for way in np.ndindex(3, 3, 3):
        step = np.array(way) - 1
        if step.any():
            near = np.clip(at + step, 0, np.array(depth.shape) - 1)
            ridge &= depth[tuple(near.T)] - own < _RIDGE * grid.step * np.linalg.norm(step)
    at, own = at[ridge], own[ridge]
    order = np.lexsort((*at.T[::-1], -own))
    at, own = grid.origin + grid.step * at[order], own[order]
    apart, chosen = _APART, _spread(at, own, _APART, grid.step)
    while len(chosen) > _MOST:
        apart *= 1.3
        chosen = _spread(at, own, apart, grid.step)
    return np.column_stack([at[chosen], own[chosen]])


def _spread(at: np.ndarray, radius: np.ndarray, part: float, step: float) -> list[int]:
    """Return spheres, in order, none of which has its centre within a part of the radius of one before it."""
    chosen, left = [], np.ones(len(at), bool)
    while left.any() and len(chosen) <= _MOST:
        k = int(left.argmax())
        chosen.append(k)
        apart = max(part * radius[k], 2.0 * part * step)
        left &= ((at - at[k]) ** 2).sum(axis=1) > apart * apart
    return chosen
