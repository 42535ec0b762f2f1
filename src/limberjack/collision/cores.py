"""Ways out of deep overlaps of meshes: spheres within a mesh, its cores, against the distance of the other shape.

The surface of a thin body that is deep in another is nearer to the far side of that than to the one it came in by: two
crossing rods would be drawn through each other. The middle of a rod is on the side it came from until half of both
rods has passed. Where cores are inside the other shape they tell the way out, one for the pair: contacts that
push different ways would hold the shapes together. What the surfaces near them say is left out.
"""

from __future__ import annotations

import math

from limberjack._jit import inner, outlined
from limberjack.collision.axes import to_shape, to_world
from limberjack.collision.broad import AT
from limberjack.collision.candidates import GAP, GROUPED
from limberjack.collision.fields import distance_from
from limberjack.collision.shapes import MESH

__all__ = ["lead_out"]

# Overlaps of less than this part of the smallest core are not deep.
_SHALLOW = 0.25
# A core is inside when it is outside by less than this part of its radius: by then surfaces are again on the side they
# came from.
_INSIDE = 0.5
# A core stands for the surfaces around it up to so many times its radius.
_AROUND = 2.0
# Where the ways out of all cores add up to less than this part of them the way between the shapes' middles helps.
_TORN = 0.3
_KEY = 1 << 40


@inner
def _smallest(kind, mesh, mesh_core, core):
    """Return the radius of the smallest core of a mesh; other shapes have none."""
    return core[mesh_core[mesh + 1] - 1, 3] if kind == MESH and mesh_core[mesh + 1] > mesh_core[mesh] else 1e300


@outlined
def _enter_cores(
    # in
    n, i, j, kind_j, mesh_i, mesh_j, side, frame, meshes,
    # out
    found, found_keys,
):  # fmt: skip
    """Enter the cores of mesh i that are inside shape j, with their ways out; return the candidates."""
    core, first = meshes.core, meshes.mesh_core[mesh_i]
    sign = 1.0 if side == 0 else -1.0
    for c in range(first, meshes.mesh_core[mesh_i + 1]):
        x, y, z = to_world(i, frame, core[c, 0], core[c, 1], core[c, 2])
        x, y, z = x + frame[i, AT], y + frame[i, AT + 1], z + frame[i, AT + 2]
        lx, ly, lz = to_shape(j, frame, x - frame[j, AT], y - frame[j, AT + 1], z - frame[j, AT + 2])
        value, nx, ny, nz = distance_from(kind_j, j, mesh_j, lx, ly, lz, frame, meshes)
        if value < _INSIDE * core[c, 3] and n < len(found):
            nx, ny, nz = to_world(j, frame, sign * nx, sign * ny, sign * nz)
            found[n, 0], found[n, 1], found[n, 2] = x, y, z
            found[n, 3], found[n, 4], found[n, 5] = nx, ny, nz
            found[n, GAP], found[n, GROUPED] = value - core[c, 3], core[c, 3]
            found_keys[n] = _KEY + 2 * (c - first) + side
            n += 1
    return n


@inner
def _way_out(first, n, i, j, frame, found):
    """Return the unit way out for all cores first .. n: their own, each counted as often as it is deep."""
    x = y = z = total = 0.0
    for k in range(first, n):
        x, y, z = x - found[k, GAP] * found[k, 3], y - found[k, GAP] * found[k, 4], z - found[k, GAP] * found[k, 5]
        total -= found[k, GAP]
    length = math.sqrt(x * x + y * y + z * z)
    if length < _TORN * total:
        dx, dy = frame[i, AT] - frame[j, AT], frame[i, AT + 1] - frame[j, AT + 1]
        dz = frame[i, AT + 2] - frame[j, AT + 2]
        f = math.sqrt(dx * dx + dy * dy + dz * dz)
        if f > 0.0:
            f = (_TORN * total - length) / f
            x, y, z = x + f * dx, y + f * dy, z + f * dz
        length = math.sqrt(x * x + y * y + z * z)
    if length <= 1e-9 * total:
        return 0.0, 0.0, 1.0
    return x / length, y / length, z / length


@inner
def _is_near(k, first, last, found):
    """Return whether a core stands for candidate k."""
    for c in range(first, last):
        x, y, z = found[k, 0] - found[c, 0], found[k, 1] - found[c, 1], found[k, 2] - found[c, 2]
        reach = _AROUND * found[c, GROUPED]
        if x * x + y * y + z * z < reach * reach:
            return True
    return False


@outlined
def lead_out(
    # in
    n, i, j, kind_i, kind_j, mesh_i, mesh_j, frame, meshes,
    # out
    found, found_keys,
):  # fmt: skip
    """Let cores stand for the surfaces around them where shapes i and j overlap deeply; return the candidates.

    Args:
        n: candidates of the surfaces, in the world.
        i, j, kind_i, kind_j, mesh_i, mesh_j: the shapes; normals look out of j into i.
        frame, meshes: of all shapes.
        found, found_keys: the candidates.
    """
    least = 0.0
    for k in range(n):
        least = min(least, found[k, GAP])
    small = min(
        _smallest(kind_i, mesh_i, meshes.mesh_core, meshes.core),
        _smallest(kind_j, mesh_j, meshes.mesh_core, meshes.core),
    )
    deep = -_SHALLOW * small
    if least > deep:
        return n
    last = n
    if kind_i == MESH:
        last = _enter_cores(last, i, j, kind_j, mesh_i, mesh_j, 0, frame, meshes, found, found_keys)
    if kind_j == MESH:
        last = _enter_cores(last, j, i, kind_i, mesh_j, mesh_i, 1, frame, meshes, found, found_keys)
    if last == n:
        return n
    nx, ny, nz = _way_out(n, last, i, j, frame, found)
    for k in range(n):
        against = nx * found[k, 3] + ny * found[k, 4] + nz * found[k, 5] < 0.0
        if found[k, GAP] < 0.0 and ((against and found[k, GAP] < deep) or _is_near(k, n, last, found)):
            found[k, GROUPED] = 1.0
    for c in range(n, last):
        found[c, 3], found[c, 4], found[c, 5] = nx, ny, nz
        found[c, GROUPED] = 0.0
    return last
