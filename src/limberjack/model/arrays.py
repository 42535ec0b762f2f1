"""The arrays kernels read: one NamedTuple per subject, one canonical dtype and layout per field.

A link is what moves as one: a body, or several on fixed joints. Its frame is the child's joint frame of the joint
above it, so a hinge turns about the link's z and a slide moves along it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack.model.joints import HINGE, SLIDE

__all__ = [
    "Drives",
    "Links",
    "Springs",
    "blocks_of",
    "drive_arrays",
    "drives_from",
    "figure_blocks",
    "roles_of",
    "span_of",
    "whole_span",
]


LOADED, FIRST = 1, 2


def roles_of(parent: np.ndarray) -> np.ndarray:
    """Return, per link, bits that are the same in every step.

    LOADED: children other than the next link add to its row. FIRST: it is the first, from the leaves, to do so to its
    parent's row, which until then is that of the rigid link alone.
    """
    n = len(parent)
    adds = (parent >= 0) & (parent != np.arange(n) - 1)
    out = np.zeros(n, np.int64)
    out[parent[adds]] |= LOADED
    last = np.full(n, -1, np.int64)
    last[parent[adds]] = np.flatnonzero(adds)  # of several children the last written wins: the first from the leaves
    out[last[last >= 0]] |= FIRST
    return out


class Links(NamedTuple):
    """The tree of links; n links, nv dofs, nq coordinates, f factors."""

    parent: np.ndarray  # (n,) index of the parent link, -1 = world
    kind: np.ndarray  # (n,) HINGE, SLIDE, BALL, FREE or GENERAL
    q_start: np.ndarray  # (n,)
    v_start: np.ndarray  # (n,)
    dof: np.ndarray  # (n,)
    role: np.ndarray  # (n,) bits LOADED and FIRST: how inertias are gathered, see `roles_of`
    placement: np.ndarray  # (n, 12) rotation by rows, position: joint frame in the parent link's frame
    inertia: np.ndarray  # (n, 10) J about the link's origin (xx yy zz xy xz yz), h = m c, m; link axes
    factor_start: np.ndarray  # (n + 1,) factors of GENERAL links
    factor_kind: np.ndarray  # (f,) TURN, PUSH, SPIN, SPIN_BACK
    factor_indices: np.ndarray  # (f, 2) indices in q and qd
    factor_data: np.ndarray  # (f, 7) axis, point, pitch
    gravity: np.ndarray  # (3,)
    armature: np.ndarray  # (nv,)
    runs: np.ndarray  # (r, 3) runs of scalar dofs: first index in qd, first index in q, length
    quaternions: np.ndarray  # (k, 2) indices of each quaternion in q and of its angular velocity in qd


class Drives(NamedTuple):
    """Forces of joints on themselves: dampers, springs, soft limits and motors, one row per dof that has any.

    scalar rows: 0 damping, 1 stiffness, 2 rest, 3 low, 4 high, 5 limit stiffness, 6 limit damping, 7 kp, 8 kd,
    9 target, 10 velocity, 11 max. ball rows: 0-2 damping, 3 stiffness, 4-7 rest, 8 largest angle, 9 limit stiffness,
    10 limit damping, 11 kp, 12 kd, 13-16 target, 17 max.
    """

    indices: np.ndarray  # (s, 2) indices in q and qd of the scalar rows
    scalar: np.ndarray  # (s, 12)
    ball_indices: np.ndarray  # (b, 2)
    ball: np.ndarray  # (b, 18)


# The fields of `Drives` in snapshots and saved files: keys there outlive names in the code.
_DRIVE_KEYS = ("drives.place", "drives.scalar", "drives.ball_place", "drives.ball")


def drive_arrays(drives: Drives) -> dict[str, np.ndarray]:
    """Return copies of the drives by the keys they have in snapshots."""
    return {key: array.copy() for key, array in zip(_DRIVE_KEYS, drives, strict=True)}


def drives_from(arrays: dict[str, np.ndarray]) -> Drives:
    """Return copies of the drives in a snapshot, the inverse of `drive_arrays`."""
    return Drives(*(arrays[key].copy() for key in _DRIVE_KEYS))


class Springs(NamedTuple):
    """Springs between points of links; s springs."""

    link: np.ndarray  # (s, 2) links of the two ends, -1 = world
    point: np.ndarray  # (s, 6) the two points in their link frames
    data: np.ndarray  # (s, 3) stiffness, damping, rest length


# Indices in a span: the ranges first .. last - 1 of everything that belongs to a run of whole trees.
LINK, DOF, COORDINATE, QUATERNION, SCALAR_DRIVE, BALL_DRIVE, RUN = 0, 2, 4, 6, 8, 10, 12
SPAN = 14
BLOCK = 192
# So many identical trees are stepped at a time, if they have so many links and this part of them is on hinges.
FIGURES, _FEWEST_LINKS, _HINGES = 4, 8, 0.75


def span_of(links: Links, drives: Drives, first: int, last: int) -> np.ndarray:
    """Return the span (SPAN,) of links first .. last - 1, which are whole trees: pairs of indices, see above.

    Depth first numbering keeps the dofs, coordinates and drives of a tree together, so that independent trees
    can be stepped on different threads over the same arrays.
    """
    n, nv, nq = len(links.parent), len(links.armature), len(links.armature) + len(links.quaternions)
    v0, v1 = (int(links.v_start[i]) if i < n else nv for i in (first, last))
    q0, q1 = (int(links.q_start[i]) if i < n else nq for i in (first, last))
    pairs = [first, last, v0, v1, q0, q1]
    for indices in (links.quaternions[:, 1], drives.indices[:, 1], drives.ball_indices[:, 1], links.runs[:, 0]):
        pairs += [int(np.searchsorted(indices, v0)), int(np.searchsorted(indices, v1))]
    return np.array(pairs, np.int64)


def blocks_of(links: Links, drives: Drives, first: int, last: int) -> np.ndarray:
    """Return the spans (k, SPAN) of blocks of whole trees in first .. last - 1, of BLOCK links or little more.

    Algorithms take one block after the other through all their passes: its rows then stay in the second-level cache.
    """
    ends, begin = [first], first
    for end in np.append(first + np.flatnonzero(links.parent[first:last] < 0)[1:], last):
        if end - begin >= BLOCK or end == last:
            ends.append(int(end))
            begin = int(end)
    return np.array([span_of(links, drives, i, j) for i, j in zip(ends[:-1], ends[1:], strict=True)])


def figure_blocks(links: Links, drives: Drives) -> tuple[np.ndarray, np.ndarray]:
    """Return the spans (k, SPAN) of blocks of whole trees, and the links, dofs and coordinates (k, 3) of their figures.

    Four identical trees in a row, mostly on hinges, are a block that is stepped four trees at a time. Others are
    gathered as by `blocks_of`, and have sizes of 0.
    """
    roots = np.flatnonzero(links.parent < 0)
    ends, tree, start = np.append(roots, len(links.parent))[1:], 0, 0
    spans, sizes = list[np.ndarray](), list[list[int]]()

    def gather(last: int) -> None:
        if last > start:
            others = blocks_of(links, drives, start, last)
            spans.extend(others)
            sizes.extend([[0, 0, 0]] * len(others))

    shapes = [_shape(links, int(i), int(j)) for i, j in zip(roots, ends, strict=True)]
    while tree < len(roots):
        four = shapes[tree : tree + FIGURES]
        if len(four) == FIGURES and four[0] and all(shape == four[0] for shape in four):
            gather(int(roots[tree]))
            start = int(ends[tree + FIGURES - 1])
            block, one = (span_of(links, drives, int(roots[tree]), int(end)) for end in (start, ends[tree]))
            spans.append(block)
            sizes.append([int(one[k + 1] - one[k]) for k in (LINK, DOF, COORDINATE)])
            tree += FIGURES
        else:
            tree += 1
    gather(len(links.parent))
    return np.array(spans, np.int64).reshape(-1, SPAN), np.array(sizes, np.int64).reshape(-1, 3)


def _shape(links: Links, first: int, end: int) -> bytes:
    """Return what trees have in common that are stepped together, b"" for a tree that is not: where it stands is not.

    Its placement is that of its root, and identical trees may differ in everything that acts on them.
    """
    kind = links.kind[first:end]
    if end - first < _FEWEST_LINKS or (kind == SLIDE).any() or (kind == HINGE).sum() < _HINGES * (end - first):
        return b""
    factors = slice(links.factor_start[first], links.factor_start[end])
    v = int(links.v_start[first])
    parts = (
        links.parent[first + 1 : end] - first, kind, links.dof[first:end], links.placement[first + 1 : end],
        links.inertia[first:end], links.factor_start[first : end + 1] - links.factor_start[first],
        links.factor_kind[factors], links.factor_data[factors], links.armature[v : v + int(links.dof[first:end].sum())],
    )  # fmt: skip
    return b"".join(part.tobytes() for part in parts)


def whole_span(links: Links, drives: Drives) -> np.ndarray:
    """Return the span of everything."""
    return span_of(links, drives, 0, len(links.parent))
