"""The assembly tree as a tree of boxes: where shapes of rigid parts are looked for.

A part of the assembly tree that is rigid keeps the box around its shapes, in the frame of its first body. An update
finds boxes again for the joints that came to rest since the last, lower ones first, and for what was set from outside:
nothing is done for the rest. The rigid parts are then the parts of `collision/branches.py`, each on its cluster.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from limberjack._jit import kernel
from limberjack.articulated.assembly_tree import Assembly
from limberjack.articulated.joint_poses import below
from limberjack.collision.branches import Branches, join_boxes, new_branches, with_parts
from limberjack.collision.shapes import PLANE, Shapes
from limberjack.methods.adaptive.places import put_pose_row
from limberjack.model.joints import FREE

__all__ = ["Boxes"]

_SAME = np.array([1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])


@kernel
def fit_boxes(
    # model
    table,
    # in
    numbers, nodes,
    # out
    branches,
):  # fmt: skip
    """Find the poses of second sides, and the boxes, of inner nodes; ascending."""
    for k in range(len(nodes)):
        node = nodes[k]
        r, x, y, z = below(table, numbers, node)
        put_pose_row(branches.pose, node, r, x, y, z)
        join_boxes(node, branches)


class Boxes:
    """Boxes of all rigid parts of an assembly tree.

    Args:
        shapes: on the links of the model.
        tree: the assembly tree.
        links: of the model.
        extent: (n,) how far shapes reach from each link's origin [m].

    Attributes:
        branches: the boxes, cut into the rigid parts last laid out.
        extent: (k,) of clusters of one link.
        several: (k + 1,) which clusters have several links; the first is the world.
    """

    def __init__(self, shapes: Shapes, tree: Assembly, links: Any, extent: np.ndarray) -> None:
        depth = int(tree.depth.max(initial=0)) + 2
        self.branches: Branches = new_branches(shapes, tree.first, tree.second, tree.roots, depth)
        self._tree, self._links, self._own_extent = tree, links, extent
        self._figures = self.branches.joining  # nodes above those of figures and static shapes
        still = bool(((shapes.kind != PLANE) & (shapes.link < 0)).any())
        self._fixed = np.array([len(tree.first)] if still else [], np.int64)
        inner = np.arange(len(tree.body_link), len(tree.first))
        # joints that always move never have boxes
        base = tree.roots[links.kind[tree.joint[tree.roots]] == FREE]
        self._old = np.setdiff1d(inner, base)  # nodes whose boxes are not known, unless they are active
        self.extent, self.several = np.zeros(0), np.ones(1, np.uint8)

    def forget(self, nodes: np.ndarray) -> None:
        """Take note that the coefficients of these nodes were found again."""
        nodes = nodes[nodes >= len(self._tree.body_link)]
        self._old = np.union1d(self._old, nodes) if len(nodes) else self._old

    def lay(self, table: np.ndarray, numbers: np.ndarray, nodes: np.ndarray, active: np.ndarray, places: Any) -> None:
        """Cut the tree into the rigid parts that hang below the active nodes.

        Args:
            table, numbers: of the assembly tree, see `Coefficients`.
            nodes: the active nodes, ascending.
            active: (m,) flags of the same.
            places: the clusters of the tops of rigid parts.
        """
        rest = self._old[active[self._old] == 0]
        fit_boxes(table, numbers, rest, self.branches)
        self._old = nodes.copy()  # what rests of these at the next call has moved until then
        sides = self.branches.child[nodes].ravel()
        sides = sides[sides >= 0]
        roots = self._tree.roots
        resting = roots[active[roots] == 0]
        hanging = sides[active[sides] == 0]
        n, top = len(self._links.parent), self._tree.top[hanging]
        on = np.broadcast_to(_SAME, (len(hanging) + len(resting), 12)).copy()
        piece = np.flatnonzero(top >= n)
        on[piece] = places.pose[top[piece] - n]
        link = places.cluster[top]
        part, cluster = np.append(hanging, resting), np.append(link, np.full(len(resting), -1, np.int64))
        joining = np.append(nodes, self._figures)
        self.branches = with_parts(self.branches, part, cluster, on, joining, self._fixed)
        count = int(link.max(initial=-1)) + 1
        self.extent, self.several = np.zeros(count), np.zeros(count + 1, np.uint8)
        alone = top < n
        self.extent[link[alone]] = self._own_extent[top[alone]]
        self.several[link[hanging >= len(self._tree.body_link)] + 1] = 1
        self.several[0] = 1
