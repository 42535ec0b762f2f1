"""The assembly tree of an articulated body, and the layout of the coefficients of its nodes.

Leaves are rigid bodies, inner nodes are joints, the root of each kinematic tree is the joint of its base with the
world. The principal joint of a node joins side A, which holds the parent body p, with side B, whose body nearest the
world is the joint's child i.

| symbol | meaning |
|---|---|
| C | the subassembly of a node: bodies connected by joints |
| r(C) | the body of C nearest the world |
| handles(C) | r(C), and the bodies of C with a child outside C: where forces from outside act on C |

No subassembly has more than two handles: one with the single handle r can be cut at any joint; one with the handles r
and h on the path from r to h, or at a joint just below r or h. Of these cuts the best balanced is taken, so that the
tree is flat: log2(n) levels for chains, a small multiple of that for trees.

A body with many children (a hub) would make the tree deep, since it is one leaf: its children are cut off one at a
time. It is split into equal pieces welded to each other in a row, with a few children each. A weld is a joint without
dofs.

All coefficients of all nodes lie in one row of doubles, `Coefficients.numbers`; the constants below are offsets from
`offset_of(node)`. `merges.py` and `metric_merges.py` say what the coefficients are.

Redon, Galoppo, Lin 2005, section 3.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, kernel
from limberjack.errors import StateError
from limberjack.model.arrays import Links
from limberjack.model.joints import FREE, GENERAL, HINGE, SLIDE
from limberjack.spatial.lanes import add, load4, scale, store4, sub

__all__ = [
    "Assembly",
    "Coefficients",
    "KEEP_A",
    "KEEP_B",
    "KEEP_JOINT",
    "KEEP_NONE",
    "columns_offset",
    "current_offset",
    "factor_offset",
    "new_assembly",
    "new_coefficients",
    "offset_of",
    "pose",
    "row_length",
    "transform_force",
    "transform_motion",
    "transform_motion_rows",
]

# What handle 1 of a node is: nothing, handle 1 of A, handle 0 of B (the joint's child), handle 1 of B.
KEEP_NONE, KEEP_A, KEEP_JOINT, KEEP_B = 0, 1, 2, 3
WELD = -1
_HUB_CHILDREN = 8  # more children make a hub
_PIECE_ARMS = 4  # most children of one piece of a hub
# Columns of the table of nodes: sides A and B, node above, child body, handles and kinematic tree; kind, first dof,
# number of dofs and frame of the joint.
FIRST_SIDE, SECOND_SIDE, UP, CHILD, SLOT, KEEP, HANDLES, TOP, TREE_INDEX, KIND, V, DOFS, FRAMES, TABLE = range(14)
TREE_COLUMNS = ("first", "second", "parent", "joint", "slot", "keep", "handles", "top", "tree_index")
# Offsets in an inner node: Phi and Psi (12 x 12 by rows, blocks of the two handles), columns of b and p (8 rows of 12:
# six squares and products of the angular velocity, constant, current value), the lower half of the quadratic form of
# eta (7 x 7), pose of i in p, pose of handle 1 in handle 0, inertia about handle 0, current eta.
PHI, PSI, KT, PT, EC, JX, HX, IN, ETA, NODE = 0, 144, 288, 384, 480, 508, 520, 532, 542, 544
# In a leaf: Phi (6 x 6), columns of b (8 rows of 6), inertia.
LEAF_KT, LEAF_IN, LEAF = 36, 84, 94
CURRENT = 7  # the row of columns that holds the current value
# In a frame of a joint that is neither hinge nor slide: S^T (d x 6), S^+ (d x 6), T^T ((6 - d) x 6).
FRAME_S, FRAME_PLUS, FRAME_LOCKED, FRAME = 0, 36, 72, 108
# Columns of `own`, what a dof has of its own: joint force, own inertia (armature), the force without that of drives
# while the joint is rigid, row of the joint's weight A.
TAU, OWN, APPLIED, WEIGHT = 0, 1, 2, 3
# Offsets in the scratch: E (6 x 12), T^T, H, M (6 x 8), Psi0 (6 x 8), a transposed block, U G^T, A U G^T, spare
# numbers, three 6 x 6 and a 6, room for other users; then the factored joints by slots.
ET, TT, HT, MM, PSI0, TRANSPOSED, UG, AG, SPARE, SMALL, VECTOR, ROOM, FACTORS = (
    0, 72, 144, 216, 264, 312, 360, 432, 504, 544, 652, 660, 1260,
)  # fmt: skip
# In a factored joint: G^T (6 x 12), W (6 x 8), U (6 x 8), D (6 x 6), gamma, R, joint force, beta; T^T (6 x 12) and
# Psi0 (6 x 8), where they are cached.
GT, WW, UU, DD, GAMMA, RR, FORCE, BETA, FACTOR_TT, FACTOR_PSI0, FACTOR = (
    0, 72, 120, 168, 204, 210, 216, 222, 228, 300, 348,
)  # fmt: skip
# Offsets are never negative. This mask tells the compiler, which then omits the wrap-around of negative indices: a
# fourth of all instructions.
NON_NEGATIVE = (1 << 48) - 1


class Assembly(NamedTuple):
    """The assembly tree; n links, nb bodies, m = 2 nb nodes.

    Body b < n is link b, or the first piece of it if it is a hub; further pieces follow, hub by hub. Node b < nb is the
    leaf of body b. Inner nodes come children first, side A before side B, so that the inner nodes below a node are
    those just before it; one kinematic tree after the other.
    """

    body_link: np.ndarray  # (nb,) link the body is, or is a piece of
    share: np.ndarray  # (nb,) float: how much of its link the body is, 1 / number of pieces
    body_parent: np.ndarray  # (nb,) body above, -1 = world
    node_of: np.ndarray  # (nb,) inner node of the joint above the body
    parent: np.ndarray  # (m,) node above, -1 at roots
    first: np.ndarray  # (m,) node of side A, -1 = world (at roots); -1 at leaves
    second: np.ndarray  # (m,) node of side B, -1 at leaves
    joint: np.ndarray  # (m,) body whose joint joins A and B, the top of B; -1 at leaves
    slot: np.ndarray  # (m,) which handle of A the joint's parent body is: 0 or 1; 0 at roots and leaves
    keep: np.ndarray  # (m,) what handle 1 of the node is: KEEP_NONE, KEEP_A, KEEP_JOINT or KEEP_B
    handles: np.ndarray  # (m,) number of handles: 1 or 2, 0 at roots
    top: np.ndarray  # (m,) body nearest the world, handle 0 (a base at roots)
    other: np.ndarray  # (m,) body of handle 1, -1 = none
    depth: np.ndarray  # (m,) nodes above, 0 at roots
    tree_index: np.ndarray  # (m,) index of the kinematic tree the node belongs to, in link order
    roots: np.ndarray  # (trees,) node of each base's joint, which joins the world with all the base carries


class Coefficients(NamedTuple):
    """The coefficients of all nodes and what they are computed from; m nodes, nv dofs."""

    table: np.ndarray  # (m, TABLE) int32, the assembly tree by nodes
    numbers: np.ndarray  # (1, all) see the offsets above
    own: np.ndarray  # (nv, 3 + most dofs of a joint) forces, own inertias and weights of the dofs
    scratch: np.ndarray  # (1, FACTORS + slots FACTOR)
    shares: np.ndarray  # (m, 10) inertias with hubs divided among their pieces; without hubs (0, 10)


class _Scratch(NamedTuple):
    """Work arrays of the build."""

    order: np.ndarray  # (nb,) bodies depth first; each subassembly is a run of it, its top first
    spare: np.ndarray  # (nb,) copy while bodies move within `order`
    child: np.ndarray  # (nb,) first child, -1 = none
    sibling: np.ndarray  # (nb,) next child of the same parent, -1 = none
    load: np.ndarray  # (nb,) float: weight of the body and what it carries, within its subassembly
    count: np.ndarray  # (nb,) the same in bodies
    path: np.ndarray  # (nb,) last node in which the body was on the path between the two handles, -1 = none
    stack: np.ndarray  # (nb, 3) subassemblies still to cut: first and last + 1 in `order`, node


def new_assembly(links: Links, *, weight: np.ndarray | None = None, priority: np.ndarray | None = None) -> Assembly:
    """Return the assembly tree of `links`, of which only `parent` is read.

    Each subassembly is cut at the joint that gives the smallest weight of the heavier side, among those that leave at
    most two handles per side; of equal ones at the joint of the lowest body. The time is O(n depth).

    Args:
        links: the tree of links.
        weight: (n,) positive, what the sides are balanced by; 1 per link unless given. Pieces of a hub share its
            weight.
        priority: (n,) integers of the joint above each link; a subassembly is then cut at its joint of the lowest
            number, and balance decides between equal ones only. The welds of a hub have the lowest number of its
            children: they are not counted as joints and keep the children from being cut off one at a time.

    Raises:
        StateError: `weight` or `priority` has the wrong shape or bad numbers.
    """
    link_parent = links.parent
    n = len(link_parent)
    weight = _checked_weight(weight, n)
    body_link, body_parent, pieces = _cut_hubs(link_parent)
    nb = len(body_link)
    share = 1.0 / pieces[body_link]
    rank = _ranks(priority, link_parent, body_link)

    def full(count: int, value: int) -> np.ndarray:
        return np.full(count, value, np.int64)

    m = 2 * nb
    tree = Assembly(
        body_link=body_link,
        share=share,
        body_parent=body_parent,
        node_of=full(nb, -1),
        parent=full(m, -1),
        first=full(m, -1),
        second=full(m, -1),
        joint=full(m, -1),
        slot=full(m, 0),
        keep=full(m, KEEP_NONE),
        handles=full(m, 0),
        top=full(m, -1),
        other=full(m, -1),
        depth=full(m, 0),
        tree_index=full(m, 0),
        roots=full(int((body_parent < 0).sum()), -1),
    )
    scratch = _Scratch(
        order=full(nb, -1),
        spare=full(nb, -1),
        child=full(nb, -1),
        sibling=full(nb, -1),
        load=np.zeros(nb),
        count=full(nb, 0),
        path=full(nb, -1),
        stack=np.zeros((nb, 3), np.int64),
    )
    _build(weight[body_link] * share, rank, scratch, tree)
    return tree


def _checked_weight(weight: np.ndarray | None, n: int) -> np.ndarray:
    if weight is None:
        return np.ones(n)
    weight = np.asarray(weight, np.float64)
    if weight.shape != (n,):
        raise StateError(f"weight has shape {weight.shape}; one number per link is ({n},)")
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight > 0)))
    if len(bad):
        raise StateError(f"weight of link {bad[0]} is {weight[bad[0]]}; it has to be finite and positive")
    return weight


def _ranks(priority: np.ndarray | None, parent: np.ndarray, body_link: np.ndarray) -> np.ndarray:
    """Return the priority (nb,) of the joint above each body; all the same for None."""
    n, nb = len(parent), len(body_link)
    rank = np.zeros(nb, np.int64)
    if priority is None:
        return rank
    priority = np.asarray(priority)
    if priority.shape != (n,):
        raise StateError(f"priority has shape {priority.shape}; one number per link is ({n},)")
    if n and priority.dtype.kind not in "iub":
        raise StateError(f"priority has type {priority.dtype}; it has to be whole numbers")
    rank[:n] = priority
    arms = np.flatnonzero(parent >= 0)
    lowest = np.full(n, np.iinfo(np.int64).max)
    np.minimum.at(lowest, parent[arms], rank[arms])
    rank[n:] = lowest[body_link[n:]]
    return rank


def _cut_hubs(parent: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the bodies' links and parent bodies, (nb,) each, and the number of pieces of each link (n,).

    A hub has a power of two of pieces in a row; its children are spread over them evenly, in order.
    """
    n = len(parent)
    arms = np.flatnonzero(parent >= 0)
    children = np.bincount(parent[arms], minlength=n)
    pieces = np.ones(n, np.int64)
    while (few := (children > _HUB_CHILDREN) & (pieces * _PIECE_ARMS < children)).any():
        pieces[few] *= 2
    body_link = np.concatenate([np.arange(n), np.repeat(np.arange(n), pieces - 1)])
    body_parent = np.concatenate([parent, np.arange(n, len(body_link)) - 1])
    start = n + np.cumsum(pieces - 1) - (pieces - 1)  # body of each link's second piece
    hubs = np.flatnonzero(pieces > 1)
    body_parent[start[hubs]] = hubs

    arms = arms[np.argsort(parent[arms], kind="stable")]
    above = parent[arms]
    position = np.arange(len(arms)) - (np.cumsum(children) - children)[above]  # among the children of the same link
    piece = position * pieces[above] // np.maximum(children[above], 1)
    body_parent[arms] = np.where(piece == 0, above, start[above] + piece - 1)
    return body_link, body_parent, pieces


@inner
def _depth_first(
    # in
    body_parent,
    # out
    scratch,
):  # fmt: skip
    """Put the bodies into `scratch.order` depth first, children in order of number."""
    order, child, sibling = scratch.order, scratch.child, scratch.sibling
    nb = len(body_parent)
    for b in range(nb - 1, -1, -1):
        p = body_parent[b]
        if p >= 0:
            sibling[b] = child[p]
            child[p] = b
    placed = 0
    for base in range(nb):
        if body_parent[base] >= 0:
            continue
        b = base
        while b >= 0:
            order[placed] = b
            placed += 1
            if child[b] >= 0:
                b = child[b]
                continue
            while b != base and sibling[b] < 0:
                b = body_parent[b]
            b = -1 if b == base else sibling[b]


@inner
def _best_cut(
    # in
    weight,
    rank,
    begin,
    end,
    node,
    tree,
    # out
    scratch,
):  # fmt: skip
    """Return the index in `order` of the child body of the best joint to cut at; fill loads and counts."""
    order, load, count, path = scratch.order, scratch.load, scratch.count, scratch.path
    body_parent = tree.body_parent
    r, h = tree.top[node], tree.other[node]
    total = 0.0
    for k in range(begin, end):
        b = order[k]
        load[b] = weight[b]
        count[b] = 1
        total += weight[b]
    b = h
    while b >= 0 and b != r:
        path[b] = node
        b = body_parent[b]
    best, best_rank, best_heavy = -1, 0, 0.0
    for k in range(end - 1, begin, -1):
        b = order[k]
        p = body_parent[b]
        load[p] += load[b]
        count[p] += count[b]
        if h >= 0 and path[b] != node and p != r and p != h:
            continue
        heavy = max(load[b], total - load[b])
        if best < 0:
            better = True
        elif rank[b] != best_rank:
            better = rank[b] < best_rank
        elif heavy != best_heavy:
            better = heavy < best_heavy
        else:
            better = b < order[best]
        if better:
            best, best_rank, best_heavy = k, rank[b], heavy
    return best


@inner
def _move_to_end(
    # in
    begin,
    middle,
    end,
    # out
    order,
    spare,
):  # fmt: skip
    """Move order[begin:middle] behind order[middle:end]."""
    if middle == end:
        return
    for k in range(begin, middle):
        spare[k] = order[k]
    for k in range(middle, end):
        order[k - (middle - begin)] = order[k]
    for k in range(begin, middle):
        order[k + (end - middle)] = spare[k]


@inner
def _add_node(
    # in
    begin,
    end,
    last,
    above,
    top,
    other,
    depth_of_stack,
    # out
    stack,
    tree,
):  # fmt: skip
    """Fill the node of a side whose inner nodes, if any, end with `last`; return it and the new depth of the stack."""
    node = top if end - begin == 1 else last
    tree.parent[node] = above
    tree.top[node] = top
    tree.other[node] = other
    tree.handles[node] = 1 if other < 0 else 2
    tree.depth[node] = tree.depth[above] + 1
    tree.tree_index[node] = tree.tree_index[above]
    if end - begin > 1:
        stack[depth_of_stack, 0] = begin
        stack[depth_of_stack, 1] = end
        stack[depth_of_stack, 2] = node
        depth_of_stack += 1
    return node, depth_of_stack


@inner
def _cut(
    # in
    begin,
    end,
    node,
    position,
    depth_of_stack,
    # out
    scratch,
    tree,
):  # fmt: skip
    """Cut the subassembly of `node` at the joint of the body at `position`; return the new depth of the stack."""
    order, path, stack = scratch.order, scratch.path, scratch.stack
    r, h, i = tree.top[node], tree.other[node], order[position]
    p = tree.body_parent[i]
    size = scratch.count[i]
    _move_to_end(position, position + size, end, order, scratch.spare)
    # h lies in B exactly if the joint is on the path to it.
    below = h >= 0 and path[i] == node
    other_a = p if p != r else (-1 if below else h)
    other_b = h if below and h != i else -1
    tree.joint[node] = i
    tree.node_of[i] = node
    tree.slot[node] = 0 if p == r else 1
    if h >= 0:
        tree.keep[node] = KEEP_A if not below else (KEEP_JOINT if h == i else KEEP_B)
    middle = end - size
    # A subassembly of s bodies has s - 1 inner nodes: those of A, those of B, its own.
    a, depth_of_stack = _add_node(begin, middle, node - size, node, r, other_a, depth_of_stack, stack, tree)
    b, depth_of_stack = _add_node(middle, end, node - 1, node, i, other_b, depth_of_stack, stack, tree)
    tree.first[node] = a
    tree.second[node] = b
    return depth_of_stack


@kernel
def _build(
    # in
    weight,
    rank,
    # out
    scratch,
    tree,
):  # fmt: skip
    """Fill the nodes of `tree`, whose bodies are filled, for weights and ranks of the bodies."""
    _depth_first(tree.body_parent, scratch)
    order, stack, nb = scratch.order, scratch.stack, len(weight)
    index, begin = 0, 0
    while begin < nb:
        end = begin + 1
        while end < nb and tree.body_parent[order[end]] >= 0:
            end += 1
        base, root = order[begin], nb + end - 1
        tree.roots[index] = root
        tree.tree_index[root] = index
        tree.joint[root] = base
        tree.top[root] = base
        tree.node_of[base] = root
        tree.second[root], waiting = _add_node(begin, end, root - 1, root, base, -1, 0, stack, tree)
        while waiting > 0:
            waiting -= 1
            first, last, node = stack[waiting, 0], stack[waiting, 1], stack[waiting, 2]
            position = _best_cut(weight, rank, first, last, node, tree, scratch)
            waiting = _cut(first, last, node, position, waiting, scratch, tree)
        index += 1
        begin = end


def new_coefficients(links: Links, tree: Assembly, slots: int) -> Coefficients:
    """Return coefficients for `tree`, all zero but what never changes, with room for `slots` factored joints."""
    nb, n, m = len(tree.body_link), len(links.parent), len(tree.parent)
    body = np.maximum(tree.joint, 0)
    inside, link = tree.joint >= 0, tree.body_link[body]
    piece = body >= n
    kind = np.where(piece, WELD, links.kind[link])
    dof = np.where(piece, 0, links.dof[link])
    framed = inside & (kind != HINGE) & (kind != SLIDE)
    begin = nb * (LEAF + NODE)
    frame = np.where(framed, begin + FRAME * (np.cumsum(framed) - 1), -1)
    numbers = np.zeros((1, begin + FRAME * int(framed.sum()) + 16))
    for node in np.flatnonzero(framed & (kind != GENERAL) & (kind != FREE)):
        row, d = numbers[0, frame[node] : frame[node] + FRAME], dof[node]
        row[FRAME_S : FRAME_S + 6 * d] = row[FRAME_PLUS : FRAME_PLUS + 6 * d] = np.eye(6)[:d].ravel()
        row[FRAME_LOCKED : FRAME_LOCKED + 6 * (6 - d)] = np.eye(6)[d:].ravel()
    columns = (*(getattr(tree, name) for name in TREE_COLUMNS), kind, links.v_start[link], dof, frame)
    table = np.zeros((m, TABLE), np.int32)
    for k, column in enumerate(columns):
        table[:, k] = column
    own = np.zeros((len(links.armature), WEIGHT + int(links.dof.max(initial=1))))
    own[:, OWN] = links.armature
    shares = np.zeros((m if nb > n else 0, 10))
    if nb > n:
        shares[:nb] = links.inertia[tree.body_link] * tree.share[:, None]
    return Coefficients(table, numbers, own, np.zeros((1, FACTORS + slots * FACTOR + 8)), shares)


@inner
def offset_of(node, nb):
    """Return the offset of the coefficients of `node`."""
    return (node * LEAF if node < nb else nb * LEAF + (node - nb) * NODE) & NON_NEGATIVE


@inner
def columns_offset(node, nb):
    """Return the offset of the columns of b of `node`."""
    return (node * LEAF + LEAF_KT if node < nb else nb * LEAF + (node - nb) * NODE + KT) & NON_NEGATIVE


@inner
def current_offset(node, nb, shift):
    """Return the offset of the current value of b (shift KT) or p (shift PT) of an inner node."""
    return (nb * LEAF + (node - nb) * NODE + shift + 12 * CURRENT) & NON_NEGATIVE


@inner
def factor_offset(slot):
    """Return the offset in the scratch of the factored joint in `slot`."""
    return (FACTORS + slot * FACTOR) & NON_NEGATIVE


@inner
def row_length(node, nb):
    """Return the length of the rows of Phi and of the columns of b of `node`."""
    return 6 if node < nb else 12


@inner
def eta_of(node, nb, c):
    """Return the current eta of a node."""
    return 0.0 if node < nb else c[0, offset_of(node, nb) + ETA]


@inner
def pose(c, o):
    """Return the rotation (9) and position (3) at offset o."""
    return (
        (
            c[0, o], c[0, o + 1], c[0, o + 2], c[0, o + 3], c[0, o + 4], c[0, o + 5], c[0, o + 6], c[0, o + 7],
            c[0, o + 8],
        ),
        c[0, o + 9], c[0, o + 10], c[0, o + 11],
    )  # fmt: skip


@inner
def transform_motion(c, j, x, o):
    """Return X m: the motion vector at x[0, o:], transformed from p to i by the pose of i in p at c[0, j:]."""
    r, px, py, pz = pose(c, j)
    a0, a1, a2 = x[0, o], x[0, o + 1], x[0, o + 2]
    l0 = x[0, o + 3] - (py * a2 - pz * a1)
    l1 = x[0, o + 4] - (pz * a0 - px * a2)
    l2 = x[0, o + 5] - (px * a1 - py * a0)
    return (
        r[0] * a0 + r[3] * a1 + r[6] * a2, r[1] * a0 + r[4] * a1 + r[7] * a2, r[2] * a0 + r[5] * a1 + r[8] * a2,
        r[0] * l0 + r[3] * l1 + r[6] * l2, r[1] * l0 + r[4] * l1 + r[7] * l2, r[2] * l0 + r[5] * l1 + r[8] * l2,
    )  # fmt: skip


@inner
def transform_force(c, j, n0, n1, n2, f0, f1, f2):
    """Return X^T (n; f): the force on link i, transformed to link p."""
    r, px, py, pz = pose(c, j)
    g0, g1, g2 = (
        r[0] * f0 + r[1] * f1 + r[2] * f2, r[3] * f0 + r[4] * f1 + r[5] * f2, r[6] * f0 + r[7] * f1 + r[8] * f2,
    )  # fmt: skip
    return (
        r[0] * n0 + r[1] * n1 + r[2] * n2 + (py * g2 - pz * g1),
        r[3] * n0 + r[4] * n1 + r[5] * n2 + (pz * g0 - px * g2),
        r[6] * n0 + r[7] * n1 + r[8] * n2 + (px * g1 - py * g0),
        g0, g1, g2,
    )  # fmt: skip


@inner
def transform_motion_rows(c, j, x, o, row, blocks, y, d, width):
    """Set six rows of y, at d and `width` apart, to X times six rows of x, at o and `row` apart; 4 `blocks` columns."""
    r, px, py, pz = pose(c, j)
    for b in range(blocks):
        k = o + 4 * b
        a0, a1, a2 = load4(x, 0, k), load4(x, 0, k + row), load4(x, 0, k + 2 * row)
        l0, l1, l2 = load4(x, 0, k + 3 * row), load4(x, 0, k + 4 * row), load4(x, 0, k + 5 * row)
        l0 = sub(l0, sub(scale(py, a2), scale(pz, a1)))
        l1 = sub(l1, sub(scale(pz, a0), scale(px, a2)))
        l2 = sub(l2, sub(scale(px, a1), scale(py, a0)))
        k = d + 4 * b
        store4(y, 0, k, add(add(scale(r[0], a0), scale(r[3], a1)), scale(r[6], a2)))
        store4(y, 0, k + width, add(add(scale(r[1], a0), scale(r[4], a1)), scale(r[7], a2)))
        store4(y, 0, k + 2 * width, add(add(scale(r[2], a0), scale(r[5], a1)), scale(r[8], a2)))
        store4(y, 0, k + 3 * width, add(add(scale(r[0], l0), scale(r[3], l1)), scale(r[6], l2)))
        store4(y, 0, k + 4 * width, add(add(scale(r[1], l0), scale(r[4], l1)), scale(r[7], l2)))
        store4(y, 0, k + 5 * width, add(add(scale(r[2], l0), scale(r[5], l1)), scale(r[8], l2)))
