"""The numbers of the parts of an assembly tree: what they are is told in `merges.py`, where they stand, here.

All numbers of all nodes stand in one row; symbols of a node are offsets from its place, see `place`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner
from limberjack.articulated.assembly_tree import Assembly
from limberjack.model.arrays import Links
from limberjack.model.joints import FREE, GENERAL, HINGE, SLIDE
from limberjack.spatial.lanes import add, load4, scale, store4, sub

__all__ = [
    "Coefficients",
    "carry",
    "carry_back",
    "carry_rows",
    "columns_place",
    "new_coefficients",
    "opened",
    "place",
    "pose",
    "stride",
    "value_place",
]

WELD = -1
# Columns of the table of nodes: sides A and B, node above, child body, handles and figure of the assembly tree; kind,
# first freedom, number of freedoms and frame of the joint.
FIRST_SIDE, SECOND_SIDE, UP, CHILD, SLOT, KEEP, HANDLES, TOP, FIGURE, KIND, V, DOFS, FRAMES, TABLE = range(14)
TREE_COLUMNS = ("first", "second", "parent", "joint", "slot", "keep", "handles", "top", "figure")
# Places in an inner node: Phi and Psi (12 x 12 by rows), columns of b and p (8 rows of 12: six squares and products of
# the angular velocity, constant, value of now), the lower half of the square form of eta (7 x 7), pose of i in p, pose
# of handle 1 in handle 0, inertia about handle 0, eta of now.
PHI, PSI, KT, PT, EC, JX, HX, IN, ETA, NODE = 0, 144, 288, 384, 480, 508, 520, 532, 542, 544
# In a leaf: Phi (6 x 6), columns of b (8 rows of 6), inertia.
LEAF_KT, LEAF_IN, LEAF = 36, 84, 94
NOW = 7  # the row of columns that holds the value of now
# In a frame of a joint that is neither hinge nor slide: S^T (d x 6), S^+ (d x 6), T^T ((6 - d) x 6).
FRAME_S, FRAME_PLUS, FRAME_LOCKED, FRAME = 0, 36, 72, 108
# Columns of what a freedom has of its own: joint force, own inertia, row of the joint's weight A.
TAU, OWN, WEIGHT = 0, 1, 2
# Places in the scratch: E (6 x 12), T^T, H, M (6 x 8), Psi0 (6 x 8), a transposed block, U G^T, A U G^T, spare numbers,
# three 6 x 6 and a 6, room for other users; then opened joints by slots.
ET, TT, HT, MM, PSI0, TURN, UG, AG, SPARE, SMALL, VECTOR, ROOM, OPENED = (
    0, 72, 144, 216, 264, 312, 360, 432, 504, 544, 652, 660, 1260,
)  # fmt: skip
# In an opened joint: G^T (6 x 12), W (6 x 8), U (6 x 8), D (6 x 6), gamma, R, joint force, beta; T^T (6 x 12) and Psi0
# (6 x 8), where they are kept.
GT, WW, UU, DD, GA, RR, QQ, BB, OPEN_TT, OPEN_PSI0, OPEN = 0, 72, 120, 168, 204, 210, 216, 222, 228, 300, 348

# Places are never negative. With this mask the compiler knows, and leaves out what turns negative indices round: a
# fourth of all instructions.
FAR = (1 << 48) - 1


class Coefficients(NamedTuple):
    """The numbers of all nodes and what they are made of; m nodes, nv freedoms."""

    table: np.ndarray  # (m, TABLE) int32, the assembly tree by nodes
    numbers: np.ndarray  # (1, all) see the places above
    own: np.ndarray  # (nv, 2 + most freedoms of a joint) forces, own inertias and weights of the freedoms
    scratch: np.ndarray  # (1, OPENED + slots OPEN)
    shares: np.ndarray  # (m, 10) inertias with hubs shared among their pieces; without hubs (0, 10)


def new_coefficients(links: Links, tree: Assembly, slots: int) -> Coefficients:
    """Return coefficients for `tree`, all zero but what never changes, with room for `slots` opened joints."""
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
    return Coefficients(table, numbers, own, np.zeros((1, OPENED + slots * OPEN + 8)), shares)


@inner
def place(node, nb):
    """Return where the numbers of `node` begin."""
    return (node * LEAF if node < nb else nb * LEAF + (node - nb) * NODE) & FAR


@inner
def columns_place(node, nb):
    """Return where the columns of b of `node` begin."""
    return (node * LEAF + LEAF_KT if node < nb else nb * LEAF + (node - nb) * NODE + KT) & FAR


@inner
def opened(slot):
    """Return where the opened joint in `slot` begins in the scratch."""
    return (OPENED + slot * OPEN) & FAR


@inner
def stride(node, nb):
    """Return the length of the rows of Phi and of the columns of b of `node`."""
    return 6 if node < nb else 12


@inner
def pose(c, o):
    """Return the rotation (9) and position (3) at place o."""
    return (
        (
            c[0, o], c[0, o + 1], c[0, o + 2], c[0, o + 3], c[0, o + 4], c[0, o + 5], c[0, o + 6], c[0, o + 7],
            c[0, o + 8],
        ),
        c[0, o + 9], c[0, o + 10], c[0, o + 11],
    )  # fmt: skip


@inner
def carry(c, j, x, o):
    """Return X m: the motion of six numbers at x[0, o:], carried from p to i by the pose of i in p at c[0, j:]."""
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
def carry_back(c, j, n0, n1, n2, f0, f1, f2):
    """Return X^T (n; f): the force on link i, as one on link p."""
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
def carry_rows(c, j, x, o, row, blocks, y, d, width):
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


@inner
def value_place(node, nb, shift):
    """Return the place of the value of now of b (shift KT) or p (shift PT) of an inner node."""
    return (nb * LEAF + (node - nb) * NODE + shift + 12 * NOW) & FAR


@inner
def eta_of(node, nb, c):
    """Return eta of now of a node."""
    return 0.0 if node < nb else c[0, place(node, nb) + ETA]
