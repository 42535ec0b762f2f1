"""View-dependent metrics: factors of nodes that convert the metrics into squared pixels.

A joint acceleration a moves points by up to a T^2 / 2 times its lever within the period T between two choices, which is
lever focal / distance pixels per metre on the picture. For a node the largest lever of its joints and the nearest point
of a ball around all they move are taken, so that the sum over the nodes left out bounds the error on the picture. No
motion within the ball is longer than its diameter. With a horizon T is the horizon, and a includes what was missed
(`missed.py`).
"""

from __future__ import annotations

import math

import numpy as np

from limberjack._jit import inner, kernel
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


def levers(model: Model, tree: Assembly) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return per node its largest lever, the radius about its top of all it moves, and its farthest displacement.

    The last is twice the radius times the root of its mass.
    """
    links = model.arrays.links
    com = np.linalg.norm(links.inertia[:, 6:9], axis=1) / np.maximum(links.inertia[:, 9], 1e-300)
    arm = np.linalg.norm(links.placement[:, 9:], axis=1)
    pushes = links.kind == SLIDE
    for i in np.flatnonzero(links.kind == GENERAL):
        pushes[i] = (links.factor_kind[links.factor_start[i] : links.factor_start[i + 1]] == PUSH).any()
    reach = 2.0 * com  # a body ends about as far beyond its com
    lever, mass = np.zeros(len(tree.parent)), np.zeros(len(tree.parent))
    mass[: len(tree.body_link)] = links.inertia[tree.body_link, 9] * tree.share
    own = np.zeros(len(links.parent))
    _add_up(
        links.parent, arm, pushes, links.kind == SLIDE, tree.joint, tree.first, tree.second, own, reach, lever, mass
    )
    extent = reach[tree.body_link[tree.top]]
    return lever, extent, 2.0 * extent * np.sqrt(mass)


@kernel
def _add_up(
    # in
    parent, arm, pushes, slides, joint, first, second,
    # out
    own, reach, lever, mass,
):  # fmt: skip
    """Fill the reach of links and, per node, the largest lever and the mass; those of leaves are there."""
    n, nb = len(parent), len(lever) // 2
    for i in range(n - 1, -1, -1):
        p = parent[i]
        if p >= 0:
            reach[p] = max(reach[p], arm[i] + reach[i])
    for i in range(n):
        own[i] = 1.0 if slides[i] else (max(reach[i], 1.0) if pushes[i] else reach[i])
    for node in range(nb, 2 * nb):
        i = joint[node]
        lever[node] = own[i] if i < n else 0.0
        for side in range(2):
            k = first[node] if side == 0 else second[node]
            if k >= 0:
                lever[node] = max(lever[node], lever[k])
                mass[node] += mass[k]


@inner
def squared_pixels(limits, node, factor, metric, x, y, z):
    """Return the squared pixels of a node, handle 0 at (x, y, z): `factor` makes displacements of its metric."""
    v = limits.camera
    dx, dy, dz = x - v[CAMERA], y - v[CAMERA + 1], z - v[CAMERA + 2]
    square = dx * dx + dy * dy + dz * dz
    distance = math.sqrt(square)
    radius = limits.extent[node]
    along = dx * v[DIRECTION] + dy * v[DIRECTION + 1] + dz * v[DIRECTION + 2]
    across = math.sqrt(max(square - along * along, 0.0))
    if across * v[COSINE] - along * v[SINE] > radius:
        return 0.0  # wholly outside the picture
    pixels = v[FOCAL] / max(distance - radius, _NEAR)
    return pixels * pixels * min((factor * limits.lever[node]) ** 2 * metric, 4.0 * radius * radius)


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
