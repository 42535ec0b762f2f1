"""The arrays of region updates: the active region, scratch, and the limits at which choices end."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner
from limberjack.model.arrays import SPAN
from limberjack.model.joints import FREE
from limberjack.reduced.assembly_tree import DOFS, KIND, Assembly
from limberjack.reduced.dca import SWEEP

__all__ = ["Limits", "Regions", "counts_in_budget", "new_regions"]

# Indices in Regions.counts: active nodes, steps until the next update, updates so far, slots of factored joints in use,
# links edited from outside, joints that entered and left the region at the last update, nodes it visited, nodes popped
# from its queues, active joints that count, updates that changed the region, joints changed in all, factored joints of
# rigid nodes cached across updates, the epoch of that cache, whether the region may be larger than the budget, and the
# nodes of the last transient body while it is valid (0 = it is not).
COUNT, UNTIL, STAMP, SLOTS, EDITED, ENTERED, LEFT, VISITED, POPPED, JOINTS, CHANGED, TURNOVER = range(12)
CACHED, EPOCH, CHECK, LAST_TRANSIENT, COUNTS = 12, 13, 14, 15, 16
# Indices in Regions.numbers: acceleration metric left out at the last update, energy removed by it and by all, total
# metric, velocity metric left out.
ERROR, REMOVED, REMOVED_ALL, TOTAL, VELOCITY_ERROR, NUMBERS = range(6)

MOST_CACHED = 4096


class Limits(NamedTuple):
    """The limits at which choices end; f kinematic trees."""

    budget: np.ndarray  # (f,) joints of each tree, or the first alone for all
    update_budget: np.ndarray  # (f,) joints of the acceleration update region, likewise
    tolerance: np.ndarray  # (2,) accelerations, velocities; negative = none
    period: np.ndarray  # (1,) steps between updates
    each: np.ndarray  # (1,) 1 = one budget per tree
    bounded: np.ndarray  # (1,) 1 = no moving joint is stopped
    mass: np.ndarray  # (1,) 1 = the mass metric
    camera: np.ndarray  # (VIEW,) the camera, see `view_numbers`
    lever: np.ndarray  # (m,) how far the joints of a node can move anything per radian or metre [m]
    extent: np.ndarray  # (m,) radius about handle 0 of all that the joints of a node move [m]


class Regions(NamedTuple):
    """The active region and the scratch of updates; nb bodies, m nodes, nv dofs."""

    active_region: np.ndarray  # (m,) uint8, inner nodes whose joints are simulated
    active_nodes: np.ndarray  # (nb,) the same in ascending order
    transient_region: np.ndarray  # (m,) uint8, of the transient hybrid body
    transient_nodes: np.ndarray  # (nb,) the same, ascending
    last_transient: np.ndarray  # (nb,) those of the last update
    slot: np.ndarray  # (m,) slot of the factored joint of a node
    factored: np.ndarray  # (m,) stamp of the update that factored the joint of a node
    cached: (
        np.ndarray
    )  # (m, 3) slot of a factored joint, valid while its node does not change; epochs of it and of its T^T
    force_path: np.ndarray  # (m,) stamp of the update in which an external force acts within the node
    path_nodes: np.ndarray  # (2 nb,) the nodes on force paths of this update
    wrench: np.ndarray  # (nb, 6) forces on leaves, link axes
    angular_velocity: np.ndarray  # (m, 3) angular velocity of handle 0, its axes
    forces: np.ndarray  # (1, 12 m) on the handles
    acceleration_metric: np.ndarray  # (m,) of nodes of the active region and the rigid front
    key: np.ndarray  # (m,) priority queue
    queue: np.ndarray  # (m,)
    velocity_metric: np.ndarray  # (m,) of nodes of the transient region
    qdd: np.ndarray  # (nv,)
    edited: np.ndarray  # (n,) links edited from outside
    no_keys: np.ndarray  # (0,) no keys: nodes are sorted by their numbers
    joints: np.ndarray  # (nb, SWEEP) the active joints, depth first, see `sweep` in `dca.py`
    taken: np.ndarray  # (trees,) joints taken by a choice
    velocities: np.ndarray  # (n, 6) scratch of the rigidification
    momenta: np.ndarray  # (n, 6)
    span: np.ndarray  # (SPAN,)
    top_pose: np.ndarray  # (m, 12) poses of handle 0, for a view
    sums: np.ndarray  # (m, 17) inertia, momentum and energy of nodes, for the mass metric
    velocity_weight: np.ndarray  # (nv, most dofs of a joint)
    counts: np.ndarray  # (COUNTS,)
    numbers: np.ndarray  # (NUMBERS,)


def new_regions(tree: Assembly, links: int, nv: int, most_dofs: int) -> Regions:
    """Return an empty active region on `tree`; no joint has more than `most_dofs` dofs."""
    nb = len(tree.body_link)
    m = 2 * nb

    def integers(n: int) -> np.ndarray:
        return np.zeros(n, np.int64)

    counts = integers(COUNTS)
    counts[EPOCH] = counts[CHECK] = 1
    return Regions(
        np.zeros(m, np.uint8), integers(nb), np.zeros(m, np.uint8), integers(nb), integers(nb), integers(m),
        integers(m), np.zeros((m, 3), np.int32), integers(m), integers(m),
        np.zeros((nb, 6)), np.zeros((m, 3)), np.zeros((1, 12 * m + 8)), np.zeros(m), np.zeros(m), integers(m),
        np.zeros(m),
        np.zeros(nv), integers(links), integers(0), np.zeros((nb, SWEEP), np.int64), integers(len(tree.roots)),
        np.zeros((links, 6)), np.zeros((links, 6)), integers(SPAN), np.zeros((m, 12)), np.zeros((m, 17)),
        np.zeros((nv, most_dofs)), counts, np.zeros(NUMBERS),
    )  # fmt: skip


@inner
def counts_in_budget(table, node):
    """Return whether the joint of `node` counts: it has dofs and is no free joint to the world."""
    return table[node, DOFS] > 0 and table[node, KIND] != FREE
