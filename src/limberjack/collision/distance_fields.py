"""The signed distance of a point from a shape, and its gradient, in the shape's own axes.

Exact for primitives. A hull's is that of the plane of its outermost face: exact inside and over faces, less than the
distance beyond edges. A mesh's is read off its grid, between the nodes by trilinear interpolation; beyond the grid it
is the way to the grid and on.
"""

from __future__ import annotations

import math

from limberjack._jit import inner, outlined
from limberjack.collision.broad import SIZE
from limberjack.collision.shapes import BOX, CAPSULE, CYLINDER, MESH, PLANE, SPHERE

__all__ = ["distance_from", "least_distance"]


@inner
def _from_point(x, y, z, radius):
    """Return the distance from a sphere around the origin, and its gradient."""
    length = math.sqrt(x * x + y * y + z * z)
    if length <= 0.0:
        return -radius, 0.0, 0.0, 1.0
    return length - radius, x / length, y / length, z / length


@inner
def _from_box(x, y, z, sx, sy, sz):
    fx, fy, fz = abs(x) - sx, abs(y) - sy, abs(z) - sz
    most = max(fx, fy, fz)
    if most > 0.0:
        ox, oy, oz = math.copysign(max(fx, 0.0), x), math.copysign(max(fy, 0.0), y), math.copysign(max(fz, 0.0), z)
        return _from_point(ox, oy, oz, 0.0)
    if fx == most:
        return most, math.copysign(1.0, x), 0.0, 0.0
    if fy == most:
        return most, 0.0, math.copysign(1.0, y), 0.0
    return most, 0.0, 0.0, math.copysign(1.0, z)


@inner
def _from_cylinder(x, y, z, radius, half):
    across = math.sqrt(x * x + y * y)
    side, end = across - radius, abs(z) - half
    ux, uy = (x / across, y / across) if across > 0.0 else (1.0, 0.0)
    uz = math.copysign(1.0, z)
    if side > 0.0 and end > 0.0:
        length = math.sqrt(side * side + end * end)
        return length, ux * side / length, uy * side / length, uz * end / length
    if side > end:
        return side, ux, uy, 0.0
    return end, 0.0, 0.0, uz


@inner
def _from_hull(x, y, z, mesh, mesh_polygon, normal, height):
    best, most = 0, -1e300
    for p in range(mesh_polygon[mesh], mesh_polygon[mesh + 1]):
        over = normal[p, 0] * x + normal[p, 1] * y + normal[p, 2] * z - height[p]
        if over > most:
            best, most = p, over
    return most, normal[best, 0], normal[best, 1], normal[best, 2]


@inner
def _cell(t, count):
    """Return the cell and the offset in it of a grid coordinate, clamped to the grid."""
    t = min(max(t, 0.0), count - 1.0)
    i = min(int(t), count - 2)
    return i, t - i


@inner
def _beyond(x, y, z, sx, sy, sz):
    """Return the distance from the box around a mesh, which is no more than that from the mesh."""
    ox, oy, oz = max(abs(x) - sx, 0.0), max(abs(y) - sy, 0.0), max(abs(z) - sz, 0.0)
    return math.sqrt(ox * ox + oy * oy + oz * oz)


@inner
def _grid_value(x, y, z, sx, sy, sz, mesh, meshes):
    """Return the distance in a grid, or a lower bound beyond it."""
    grid, frame, shape = meshes.grid, meshes.grid_frame, meshes.grid_shape
    nx, ny, nz = shape[mesh, 0], shape[mesh, 1], shape[mesh, 2]
    inverse = 1.0 / frame[mesh, 3]
    tx, ty, tz = (x - frame[mesh, 0]) * inverse, (y - frame[mesh, 1]) * inverse, (z - frame[mesh, 2]) * inverse
    if tx < 0.0 or ty < 0.0 or tz < 0.0 or tx >= nx - 1.0 or ty >= ny - 1.0 or tz >= nz - 1.0:
        return _beyond(x, y, z, sx, sy, sz)
    i, j, k = int(tx), int(ty), int(tz)
    u, v, w = tx - i, ty - j, tz - k
    at = meshes.grid_start[mesh] + (i * ny + j) * nz + k
    a, b, c, d = float(grid[at]), float(grid[at + 1]), float(grid[at + nz]), float(grid[at + nz + 1])
    at += ny * nz
    e, f, g, h = float(grid[at]), float(grid[at + 1]), float(grid[at + nz]), float(grid[at + nz + 1])
    ab, cd, ef, gh = a + w * (b - a), c + w * (d - c), e + w * (f - e), g + w * (h - g)
    low, high = ab + v * (cd - ab), ef + v * (gh - ef)
    return low + u * (high - low)


@inner
def _node_value(x, y, z, sx, sy, sz, mesh, meshes):
    """Return a lower bound of the distance, from the nearest node of a grid alone."""
    frame, shape = meshes.grid_frame, meshes.grid_shape
    step = frame[mesh, 3]
    inverse = 1.0 / step
    tx, ty, tz = (x - frame[mesh, 0]) * inverse, (y - frame[mesh, 1]) * inverse, (z - frame[mesh, 2]) * inverse
    if tx < 0.0 or ty < 0.0 or tz < 0.0:
        return _beyond(x, y, z, sx, sy, sz)
    i, j, k = int(tx + 0.5), int(ty + 0.5), int(tz + 0.5)
    if i >= shape[mesh, 0] or j >= shape[mesh, 1] or k >= shape[mesh, 2]:
        return _beyond(x, y, z, sx, sy, sz)
    value = float(meshes.grid[meshes.grid_start[mesh] + (i * shape[mesh, 1] + j) * shape[mesh, 2] + k])
    # Half the diagonal of a cell, and what sweeps may miss far off.
    return value - 1.1 * step


@inner
def _from_grid(x, y, z, mesh, meshes):
    grid, frame, shape, start = meshes.grid, meshes.grid_frame, meshes.grid_shape, meshes.grid_start[mesh]
    step = frame[mesh, 3]
    ny, nz = shape[mesh, 1], shape[mesh, 2]
    tx, ty, tz = (x - frame[mesh, 0]) / step, (y - frame[mesh, 1]) / step, (z - frame[mesh, 2]) / step
    i, u = _cell(tx, shape[mesh, 0])
    j, v = _cell(ty, ny)
    k, w = _cell(tz, nz)
    at = start + (i * ny + j) * nz + k
    a, b, c, d = float(grid[at]), float(grid[at + 1]), float(grid[at + nz]), float(grid[at + nz + 1])
    at += ny * nz
    e, f, g, h = float(grid[at]), float(grid[at + 1]), float(grid[at + nz]), float(grid[at + nz + 1])
    # Along z, then y, then x.
    ab, cd, ef, gh = a + w * (b - a), c + w * (d - c), e + w * (f - e), g + w * (h - g)
    low, high = ab + v * (cd - ab), ef + v * (gh - ef)
    value = low + u * (high - low)
    gx = high - low
    gy = (1.0 - u) * (cd - ab) + u * (gh - ef)
    gz = (1.0 - u) * ((1.0 - v) * (b - a) + v * (d - c)) + u * ((1.0 - v) * (f - e) + v * (h - g))
    ox, oy, oz = tx - i - u, ty - j - v, tz - k - w
    if ox * ox + oy * oy + oz * oz > 0.0:
        # Beyond the grid: the direction is that of the surface point nearest to the boundary of the grid.
        length = math.sqrt(gx * gx + gy * gy + gz * gz)
        f = value / max(length, 1e-9 * step)
        value, gx, gy, gz = _from_point(step * ox + f * gx, step * oy + f * gy, step * oz + f * gz, 0.0)
        return value, gx, gy, gz
    length = math.sqrt(gx * gx + gy * gy + gz * gz)
    if length < 1e-3 * step:
        return value, 0.0, 0.0, 0.0
    return value, gx / length, gy / length, gz / length


@outlined
def _from_solid(kind, k, mesh, x, y, z, frame, mesh_polygon, polygon_normal, polygon_height):
    """Return the signed distance of a point from primitive or hull k and its unit gradient."""
    sx, sy, sz = frame[k, SIZE], frame[k, SIZE + 1], frame[k, SIZE + 2]
    if kind == SPHERE:
        return _from_point(x, y, z, sx)
    if kind == CAPSULE:
        return _from_point(x, y, z - min(max(z, -sy), sy), sx)
    if kind == BOX:
        return _from_box(x, y, z, sx, sy, sz)
    if kind == CYLINDER:
        return _from_cylinder(x, y, z, sx, sy)
    return _from_hull(x, y, z, mesh, mesh_polygon, polygon_normal, polygon_height)


@inner
def distance_from(kind, k, mesh, x, y, z, frame, meshes):
    """Return the signed distance of a point from shape k and its unit gradient, all in the shape's axes.

    The gradient is zero where the grid has none, as at the centre of a symmetric body. Inlined, since passing all
    arrays of the meshes to a function costs more than reading the grid.
    """
    if kind == PLANE:
        value, nx, ny, nz = z, 0.0, 0.0, 1.0
    elif kind == MESH:
        value, nx, ny, nz = _from_grid(x, y, z, mesh, meshes)
    else:
        value, nx, ny, nz = _from_solid(
            kind, k, mesh, x, y, z, frame, meshes.mesh_polygon, meshes.polygon_normal, meshes.polygon_height
        )
    return value, nx, ny, nz


@inner
def least_distance(kind, k, mesh, x, y, z, rough, frame, meshes):
    """Return a lower bound of the distance of a point from shape k, for culling; cheaper if rough."""
    if kind == PLANE:
        value = z
    elif kind == MESH:
        sx, sy, sz = frame[k, SIZE], frame[k, SIZE + 1], frame[k, SIZE + 2]
        if rough:
            value = _node_value(x, y, z, sx, sy, sz, mesh, meshes)
        else:
            value = _grid_value(x, y, z, sx, sy, sz, mesh, meshes)
    else:
        value, _, _, _ = _from_solid(
            kind, k, mesh, x, y, z, frame, meshes.mesh_polygon, meshes.polygon_normal, meshes.polygon_height
        )
    return value
