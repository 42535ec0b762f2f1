"""View-dependent metrics: factors of nodes that convert the metrics into squared pixels.

A joint acceleration a moves points by up to a T^2 / 2 times its lever within the period T between two choices, which is
lever focal / distance pixels per metre on the picture. For a node the largest lever of its joints and the nearest point
of a ball around all they move are taken, so that the sum over the nodes left out bounds the error on the picture.
"""

from __future__ import annotations

import math

import numpy as np

from limberjack._jit import inner
from limberjack.methods.adaptive.options import View
from limberjack.methods.adaptive.poses import cluster_pose, put_pose_row
from limberjack.model.joints import GENERAL, PUSH, SLIDE
from limberjack.model.model import Model
from limberjack.reduced.assembly_tree import FIRST_SIDE, JX, SECOND_SIDE, TOP, Assembly, offset_of, pose
from limberjack.reduced.joint_poses import child_pose, composed
from limberjack.reduced.work import R, rotation

__all__ = ["PERIOD", "VIEW", "levers", "set_root_pose", "set_side_poses", "squared_pixels", "view_numbers"]

# Indices in the numbers of a camera: whether there is one, position, direction, focal length [pixels], cosine and sine
# of half its field of view, time between two choices [s].
ON, CAMERA, DIRECTION, FOCAL, COSINE, SINE, PERIOD, VIEW = 0, 1, 4, 7, 8, 9, 10, 11
_ASPECT = 16 / 9
_NEAR = 0.1  # distances are at least this [m]


def view_numbers(view: View | None) -> np.ndarray:
    """Return the numbers of a camera, without the period."""
    out = np.zeros(VIEW)
    if view is not None:
        direction = np.subtract(view.target, view.position)
        half = math.tan(view.angle / 2)
        corner = math.atan(half * math.hypot(1.0, _ASPECT))
        out[ON], out[CAMERA : CAMERA + 3] = 1.0, view.position
        out[DIRECTION : DIRECTION + 3] = direction / np.linalg.norm(direction)
        out[FOCAL] = view.pixels / (2 * half)
        out[COSINE], out[SINE] = math.cos(corner), math.sin(corner)
    return out


def levers(model: Model, tree: Assembly) -> tuple[np.ndarray, np.ndarray]:
    """Return per node the largest lever of its joints, and the radius about its top of all they move."""
    links = model.arrays.links
    n, nb = len(links.parent), len(tree.body_link)
    com = np.linalg.norm(links.inertia[:, 6:9], axis=1) / np.maximum(links.inertia[:, 9], 1e-300)
    arm = np.linalg.norm(links.placement[:, 9:], axis=1)
    reach = 2.0 * com  # a body ends about as far beyond its com
    for i in range(n - 1, -1, -1):
        p = links.parent[i]
        if p >= 0:
            reach[p] = max(reach[p], arm[i] + reach[i])
    own = reach.copy()
    own[links.kind == SLIDE] = 1.0
    for i in np.flatnonzero(links.kind == GENERAL):
        if (links.factor_kind[links.factor_start[i] : links.factor_start[i + 1]] == PUSH).any():
            own[i] = max(own[i], 1.0)
    lever = np.zeros(2 * nb)
    for node in range(nb, 2 * nb):
        i, first = tree.joint[node], tree.first[node]
        lever[node] = max(own[i] if i < n else 0.0, lever[first] if first >= 0 else 0.0, lever[tree.second[node]])
    return lever, reach[tree.body_link[tree.top]]


@inner
def squared_pixels(limits, node, factor, x, y, z):
    """Return the squared pixels per unit of the metric of a node with its handle 0 at (x, y, z)."""
    v = limits.camera
    dx, dy, dz = x - v[CAMERA], y - v[CAMERA + 1], z - v[CAMERA + 2]
    square = dx * dx + dy * dy + dz * dz
    distance = math.sqrt(square)
    radius = limits.extent[node]
    along = dx * v[DIRECTION] + dy * v[DIRECTION + 1] + dz * v[DIRECTION + 2]
    across = math.sqrt(max(square - along * along, 0.0))
    if across * v[COSINE] - along * v[SINE] > radius:
        return 0.0  # wholly outside the picture
    pixels = factor * limits.lever[node] * v[FOCAL] / max(distance - radius, _NEAR)
    return pixels * pixels


@inner
def _top_pose(links, link_map, top, rows):
    """Return the world pose of the top of a rigid node."""
    k = link_map.cluster[top]
    a, ax, ay, az = cluster_pose(links, link_map, top)
    return composed(rotation(k, rows), rows[k, R + 3], rows[k, R + 7], rows[k, R + 11], a, ax, ay, az)


@inner
def set_root_pose(links, table, c, link_map, active_region, root, rows, top_pose):
    """Fill the pose of handle 0 of a root."""
    if active_region[root]:
        r, x, y, z = _top_pose(links, link_map, table[root, TOP], rows)
    else:
        r, x, y, z = pose(c, offset_of(root, len(table) // 2) + JX)
    put_pose_row(top_pose, root, r, x, y, z)


@inner
def set_side_poses(links, table, c, link_map, active_region, node, rows, top_pose):
    """Fill the poses of handle 0 of the sides of a node whose own is known."""
    first, second = table[node, FIRST_SIDE], table[node, SECOND_SIDE]
    if first >= 0:
        for k in range(12):
            top_pose[first, k] = top_pose[node, k]
    if active_region[node]:
        r, x, y, z = _top_pose(links, link_map, table[second, TOP], rows)
    elif first < 0:
        r, x, y, z = pose(c, offset_of(node, len(table) // 2) + JX)
    else:
        p = top_pose
        a = (
            p[node, 0], p[node, 1], p[node, 2], p[node, 3], p[node, 4], p[node, 5], p[node, 6], p[node, 7], p[node, 8],
        )  # fmt: skip
        b, bx, by, bz = child_pose(table, c, node)
        r, x, y, z = composed(a, p[node, 9], p[node, 10], p[node, 11], b, bx, by, bz)
    put_pose_row(top_pose, second, r, x, y, z)
