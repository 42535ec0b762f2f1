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
# nodes of the last transient body while it is valid (0 = it is not), and steps since the last update.
COUNT, UNTIL, STAMP, SLOTS, EDITED, ENTERED, LEFT, VISITED, POPPED, JOINTS, CHANGED, TURNOVER = range(12)
CACHED, EPOCH, CHECK, LAST_TRANSIENT, SINCE, COUNTS = 12, 13, 14, 15, 16, 17
# Indices in Regions.numbers: what is left out at the last update, in the metric of accelerations; energy removed by it
# and by all; total metric; velocity metric left out; joints that changed, per second, over about a second.
ERROR, REMOVED, REMOVED_ALL, TOTAL, VELOCITY_ERROR, CHANGE_RATE, NUMBERS = range(7)
# Columns of Regions.missed, see `missed.py`: F1, P1, F2, P2 (12 each), S1, S2, U, D, and scratch F, P.
MISSED_F1, MISSED_P1, MISSED_F2, MISSED_P2 = 0, 12, 24, 36
MISSED_S1, MISSED_S2, MISSED_CU, MISSED_CD, MISSED_FX, MISSED_PX, MISSED = 48, 49, 50, 51, 52, 64, 76
# Indices in Limits.horizon: the horizon H, 0 = this instant alone [s]; the metric e of what is at rest; L, how far
# ahead velocities are taken [s]; the part of missed motion that is credited; updates after which trust doubles.
HORIZON, REST, AHEAD, CREDIT, DOUBLING, HORIZONS = range(6)
# Columns of Regions.trust, see `missed.py`: trust in the joint and in the node, part of the joint in the metric of the
# node, and the squared acceleration that the joint became active with.
JOINT_TRUST, NODE_TRUST, OWN_PART, EXPECTED, TRUST = range(5)

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
    share: np.ndarray  # (1,) joints of a common budget that each tree takes first if it moves
    horizon: np.ndarray  # (HORIZONS,) how far ahead what is missed is judged, see above
    camera: np.ndarray  # (VIEW,) the camera, see `view_numbers`
    lever: np.ndarray  # (m,) how far the joints of a node can move anything per radian or metre [m]
    extent: np.ndarray  # (m,) radius about handle 0 of all that the joints of a node move [m]
    farthest: np.ndarray  # (m,) largest displacement of a node in the mass metric [kg^1/2 m]


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
    shared: np.ndarray  # (trees,) the same, of each tree even if the budget is one for all
    aside: np.ndarray  # (nb,) nodes that wait while trees take their share
    velocities: np.ndarray  # (n, 6) scratch of the rigidification
    momenta: np.ndarray  # (n, 6)
    span: np.ndarray  # (SPAN,)
    top_pose: np.ndarray  # (m, 12) poses of handle 0, for a view
    sums: np.ndarray  # (m, 17) inertia, momentum and energy of nodes, for the mass metric
    velocity_weight: np.ndarray  # (nv, most dofs of a joint)
    missed: np.ndarray  # (m, MISSED) what nodes of the rigid front have missed, see `missed.py`
    held: np.ndarray  # (m,) uint8, nodes whose row of `missed` is in use
    predicted: np.ndarray  # (m,) e of nodes of the rigid front and of those looked at below it
    trust: np.ndarray  # (m, TRUST) how far predictions came true, 0 = never tried, see `missed.py`
    tried: np.ndarray  # (m, 2) stamps of the updates that set the first two columns of `trust`
    credit: np.ndarray  # (m,) velocity metric credited to joints that have become active
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
        integers(len(tree.roots)), integers(nb),
        np.zeros((links, 6)), np.zeros((links, 6)), integers(SPAN), np.zeros((m, 12)), np.zeros((m, 17)),
        np.zeros((nv, most_dofs)), np.zeros((m, MISSED)), np.zeros(m, np.uint8), np.zeros(m),
        np.zeros((m, TRUST)), np.zeros((m, 2), np.int64), np.zeros(m), counts, np.zeros(NUMBERS),
    )  # fmt: skip


@inner
def counts_in_budget(table, node):
    """Return whether the joint of `node` counts: it has dofs and is no free joint to the world."""
    return table[node, DOFS] > 0 and table[node, KIND] != FREE
