"""The arrays of region updates: the active region, scratch, and the limits at which choices end."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from limberjack._jit import inner
from limberjack.model.arrays import DOF, RUN, SPAN, span_of
from limberjack.model.joints import FREE
from limberjack.model.model import Model
from limberjack.reduced.assembly_tree import DOFS, KIND, Assembly
from limberjack.reduced.dca import SWEEP

__all__ = [
    "KnownForces",
    "Limits",
    "Regions",
    "Turns",
    "counts_in_budget",
    "new_regions",
    "new_turns",
    "own_limits",
    "own_regions",
    "quotas",
    "set_active_nodes",
]

# Indices in Regions.counts: active nodes, steps until the next update, updates so far, slots of factored joints in use,
# links edited from outside, joints that entered and left the region at the last update, nodes it visited, nodes popped
# from its queues, active joints that count, updates that changed the region, joints changed in all, factored joints of
# rigid nodes cached across updates, the epoch of that cache, whether the region may be larger than the budget, and the
# nodes of the last transient body while it is valid (0 = it is not). Of forces that change between updates: links in
# `edited` that only forces act on, steps until the update that they ask for (-1 = none), wrenches in use, nodes whose
# coefficients are old, and nodes computed again so far because of them. Of updates in turns: the next turn, joints
# that no group has, whether all trees are due, and the trees updated so far. Last, the steps taken, and whether the
# forces of contacts and rows that the update knows are those with all joints free.
COUNT, UNTIL, STAMP, SLOTS, EDITED, ENTERED, LEFT, VISITED, POPPED, JOINTS, CHANGED, TURNOVER = range(12)
CACHED, EPOCH, CHECK, LAST_TRANSIENT, PUSHED, EARLY, WRENCHES, STALE, REFRESHED = range(12, 21)
TURN, SPARE_JOINTS, ALL_DUE, TREES, TAKEN, FREE_CONTACTS, COUNTS = range(21, 28)
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
# What was edited of a link: a force on it or on its joint, so that the nodes above are to be active; the force of its
# rigid joint; the velocity of its joint; a force that is left to the metric.
FORCE, JOINT_FORCE, VELOCITY, SLIGHT_FORCE = 1, 2, 4, 8
# On average a group has at least so many trees: they share a budget.
TREES_PER_GROUP = 4
# Where there are trees enough, so many groups take their turn together: as many threads can update them.
GROUPS_PER_TURN = 4
# A wrench on a tree of another group.
ELSEWHERE = -2
# Columns of Turns.counted: joints that entered and left a group at its last update, nodes visited, nodes popped from
# queues. Columns of Turns.measured: energy removed, total metric, velocity metric left out.
GROUP_ENTERED, GROUP_LEFT, GROUP_VISITED, GROUP_POPPED, COUNTED = range(5)
GROUP_REMOVED, GROUP_TOTAL, GROUP_VELOCITY_ERROR, MEASURED = range(4)
# What the update of a tree costs beside that of its joints, in joints.
_TREE = 4.0


class Limits(NamedTuple):
    """The limits at which choices end; f kinematic trees."""

    budget: np.ndarray  # (f,) joints of each tree, or the first alone for all
    update_budget: np.ndarray  # (f,) joints of the acceleration update region, likewise
    refill: np.ndarray  # (1,) 1 = and as many more as the budget has room for
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
    edit: np.ndarray  # (n,) uint8, what was edited of each link: FORCE, JOINT_FORCE, VELOCITY, SLIGHT_FORCE
    due: np.ndarray  # (trees,) uint8, the trees of this update
    wanted: np.ndarray  # (trees,) uint8, those that changed forces ask an early update for
    stale_nodes: np.ndarray  # (m,) nodes whose coefficients are old because a force changed
    no_keys: np.ndarray  # (0,) no keys: nodes are sorted by their numbers
    joints: np.ndarray  # (nb, SWEEP) the active joints, depth first, see `sweep` in `dca.py`
    taken: np.ndarray  # (trees,) joints taken by a choice
    shared: np.ndarray  # (trees,) the same, of each tree even if the budget is one for all
    aside: np.ndarray  # (nb,) nodes that wait while trees take their share
    loop_start: np.ndarray  # (l + 1,) where the nodes of each group of loops begin in `loop_nodes`
    loop_nodes: np.ndarray  # nodes whose joints are active together or not at all
    loop_always: np.ndarray  # (l,) uint8, groups that are always active: their motion is prescribed
    updated: np.ndarray  # (trees + 1,) steps taken until the last update of each tree, and of any
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


class KnownForces(NamedTuple):
    """Forces as they were at the last update; k wrenches, nv dofs."""

    joint: np.ndarray  # (nv,) joint forces at rest of the rigid joints whose forces have changed since
    link: np.ndarray  # (k,) wrenches, -1 = none
    data: np.ndarray  # (k, 9)
    owner: np.ndarray  # (nv,) link of each dof


class Turns(NamedTuple):
    """Groups of trees that are updated in turns; g groups, t turns, k wrenches. Group j has turn j modulo t."""

    count: np.ndarray  # (1,) turns
    group: np.ndarray  # (trees,) group of each tree
    limits: Limits  # of the group in work
    share: np.ndarray  # (g,) its part of all joints
    quota: np.ndarray  # (g,) joints it may have of a budget for all
    error: np.ndarray  # (g,) acceleration metric that its last update left out, -1 = not yet updated alone
    node_first: np.ndarray  # (g,) where its active nodes begin in `nodes`
    node_count: np.ndarray  # (g,) how many they are
    joints: np.ndarray  # (g,) those whose joints count
    nodes: np.ndarray  # (nb,) active nodes of each group, ascending
    edited: np.ndarray  # (n,) edited links while a turn lasts
    edits: np.ndarray  # (1,) how many they are
    link: np.ndarray  # (k,) wrenches of the group in work, ELSEWHERE = on other trees
    first: np.ndarray  # (g, SPAN) where its clusters begin in the arrays of the hybrid body
    span: np.ndarray  # (g, SPAN) the span of its clusters
    start: np.ndarray  # (SPAN,) row of `first` of the group in work
    due: np.ndarray  # (g,) uint8, the groups of the turn in work
    check: np.ndarray  # (g,) uint8, whether it may have more joints than it should
    stamp: np.ndarray  # (g,) updates before that of the turn in work
    changed: np.ndarray  # (g,) uint8, whether its joints have changed at the last update
    counted: np.ndarray  # (g, COUNTED) what its last update did, see above
    measured: np.ndarray  # (g, MEASURED)
    none: np.ndarray  # (SPAN,) zeros, where other hybrid bodies begin


def new_turns(model: Model, tree: Assembly, counted: np.ndarray, limits: Limits, most: int) -> Turns:
    """Return groups of whole trees, in order and of about equal work.

    Args:
        model: the model.
        tree: the assembly tree.
        counted: (trees,) joints of each tree that count.
        limits: of all trees.
        most: largest number of turns.
    """
    trees, nb = len(tree.roots), len(tree.body_link)
    work = _TREE + (limits.budget if limits.each[0] else counted).astype(float)
    middle = np.cumsum(work) - 0.5 * work
    room = trees // TREES_PER_GROUP
    if trees and not limits.each[0] and limits.budget[0] >= 0:
        room = min(room, int(limits.budget[0]) // TREES_PER_GROUP)  # few joints cannot be divided
    turns = max(1, min(most, room))
    count = turns * max(1, min(GROUPS_PER_TURN, room // turns)) if most > 1 else 1
    group = np.unique(np.floor(middle * count / max(work.sum(), 1.0)), return_inverse=True)[1].reshape(trees)
    g = int(group.max(initial=0)) + 1
    a, base = model.arrays, np.flatnonzero(model.arrays.links.parent < 0)
    begin = np.append(base[np.searchsorted(group, np.arange(g))], len(a.links.parent)) if trees else np.zeros(2, int)
    spans = [span_of(a.links, a.drives, int(i), int(j)) for i, j in itertools.pairwise(begin)]
    first = np.array(spans).reshape(g, SPAN)
    first[:, RUN] = first[:, DOF]  # a group has at most one run per dof
    share = np.bincount(group, counted, g) / max(counted.sum(), 1) if trees else np.ones(1)
    bodies = np.bincount(group[tree.tree_index[:nb]], minlength=g) if trees else np.zeros(1, np.int64)
    quota, none = quotas(int(limits.budget[0]) if trees else 0, share), np.zeros(SPAN, np.int64)

    def integers(*shape: int) -> np.ndarray:
        return np.zeros(shape, np.int64)

    def flags() -> np.ndarray:
        return np.zeros(g, np.uint8)

    return Turns(
        np.array([min(turns, g)]), group.astype(np.int64), own_limits(limits), share, quota, np.full(g, -1.0),
        (np.cumsum(bodies) - bodies).astype(np.int64), integers(g), integers(g), integers(nb), integers(nb),
        integers(1), integers(0), first, integers(g, SPAN), none.copy(), flags(), flags(), integers(g), flags(),
        integers(g, COUNTED), np.zeros((g, MEASURED)), none,
    )  # fmt: skip


def own_limits(limits: Limits) -> Limits:
    """Return limits with arrays of their own for what a group has a part of."""
    return limits._replace(
        budget=limits.budget.copy(), update_budget=limits.update_budget.copy(), tolerance=limits.tolerance.copy()
    )


def set_active_nodes(turns: Turns, tree: Assembly, nodes: np.ndarray, counted: np.ndarray) -> None:
    """Divide active nodes, ascending, among the groups; `counted` says which of their joints count."""
    group = turns.group[tree.tree_index[nodes]]
    ends = np.searchsorted(group, np.arange(len(turns.quota) + 1))
    for k, (first, last) in enumerate(itertools.pairwise(ends)):
        at = turns.node_first[k]
        turns.nodes[at : at + last - first] = nodes[first:last]
        turns.node_count[k], turns.joints[k] = last - first, np.count_nonzero(counted[first:last])


def quotas(budget: int, share: np.ndarray) -> np.ndarray:
    """Return a budget for all trees divided among groups by their parts of all joints, none of it lost."""
    ends = np.floor(np.cumsum(share) / max(share.sum(), 1e-300) * max(budget, 0) + 0.5).astype(np.int64)
    return np.diff(ends, prepend=0)


def new_regions(tree: Assembly, links: int, nv: int, most_dofs: int, loops: list[np.ndarray]) -> Regions:
    """Return an empty active region on `tree`; no joint has more than `most_dofs` dofs.

    The links of each array of `loops` are joined in loops: their joints are active together or not at all.
    """
    nb = len(tree.body_link)
    m = 2 * nb

    def integers(n: int) -> np.ndarray:
        return np.zeros(n, np.int64)

    counts = integers(COUNTS)
    counts[EPOCH] = counts[CHECK] = counts[ALL_DUE] = 1
    counts[EARLY] = -1
    return Regions(
        np.zeros(m, np.uint8), integers(nb), np.zeros(m, np.uint8), integers(nb), integers(nb), integers(m),
        integers(m), np.zeros((m, 3), np.int32), integers(m), integers(m),
        np.zeros((nb, 6)), np.zeros((m, 3)), np.zeros((1, 12 * m + 8)), np.zeros(m), np.zeros(m), integers(m),
        np.zeros(m),
        np.zeros(nv), integers(links), np.zeros(links, np.uint8), np.ones(len(tree.roots), np.uint8),
        np.zeros(len(tree.roots), np.uint8), integers(m),
        integers(0), np.zeros((nb, SWEEP), np.int64), integers(len(tree.roots)),
        integers(len(tree.roots)), integers(nb), np.cumsum([0, *(len(group) for group in loops)]).astype(np.int64),
        tree.node_of[np.concatenate([integers(0), *loops])].astype(np.int64), np.zeros(len(loops), np.uint8),
        integers(len(tree.roots) + 1),
        np.zeros((links, 6)), np.zeros((links, 6)), integers(SPAN), np.zeros((m, 12)), np.zeros((m, 17)),
        np.zeros((nv, most_dofs)), np.zeros((m, MISSED)), np.zeros(m, np.uint8), np.zeros(m),
        np.zeros((m, TRUST)), np.zeros((m, 2), np.int64), np.zeros(m), counts, np.zeros(NUMBERS),
    )  # fmt: skip


def own_regions(regions: Regions) -> Regions:
    """Return regions with the same nodes and joints, and lists, counts and scratch of their own for another thread."""
    lists = (
        "active_nodes", "transient_region", "transient_nodes", "last_transient", "path_nodes", "key", "queue", "edited",
        "due", "joints", "taken", "shared", "aside", "velocities", "momenta", "span", "counts", "numbers",
    )  # fmt: skip
    own = {name: np.zeros(getattr(regions, name).shape, getattr(regions, name).dtype) for name in lists}
    own["counts"][EPOCH] = regions.counts[EPOCH] + 1
    return regions._replace(**own)


@inner
def counts_in_budget(table, node):
    """Return whether the joint of `node` counts: it has dofs and is no free joint to the world."""
    return table[node, DOFS] > 0 and table[node, KIND] != FREE
