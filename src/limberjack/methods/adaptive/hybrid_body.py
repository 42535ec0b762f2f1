"""The hybrid body: clusters of rigidly joined links, connected by the active joints.

A cluster is a link: it is placed by the joint of its first link, has an inertia, and carries the active joints that
leave it. So the hybrid body is a set of `Links`, `Drives`, `Springs` and `Wrenches` like any model's, with its own q,
qd and tau, and its steps are those of `reduced/step.py`. With all joints active it is the model itself, bit for bit.
Steps with rows work on a copy cut to what is in use (`trimmed`).

No cost here is proportional to the whole model: arrays have room for all links, of which only the first few are used;
where trees are updated in turns, those from the first link of each group on, so that a change of one moves no other.

Redon, Galoppo, Lin 2005, section 4; clusters with summed inertias take the place of eq. (6).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.methods.adaptive.layout import ELSEWHERE
from limberjack.methods.adaptive.poses import cluster_pose, locate, put_pose_row, rigid_front_node, sort_nodes
from limberjack.model.arrays import (
    BALL_DRIVE,
    BLOCK,
    COORDINATE,
    DOF,
    FIRST,
    LINK,
    LOADED,
    QUATERNION,
    RUN,
    SCALAR_DRIVE,
    SPAN,
    Drives,
    Links,
    Springs,
)
from limberjack.model.joints import BALL, FREE, PUSH, TURN
from limberjack.model.model import Model
from limberjack.reduced.assembly_tree import CHILD, FIRST_SIDE, HX, IN, LEAF, LEAF_IN, SECOND_SIDE, SLOT, TOP, offset_of
from limberjack.reduced.forces import Wrenches
from limberjack.reduced.joint_poses import composed, handle_pose, inertia_of, moved_inertia
from limberjack.spatial.lanes import prefetch

__all__ = [
    "HybridBody",
    "condense",
    "gather",
    "new_hybrid_body",
    "order_bodies",
    "place_wrench",
    "scatter",
    "scatter_blocks",
    "scatter_velocities",
    "trimmed",
]

# In regions of more joints than this, numbers are prefetched this many joints before they are used.
_MANY, _AHEAD = 64, 4


class HybridBody(NamedTuple):
    """The hybrid body; the first entries of every array are in use, up to the ends of `whole`."""

    links: Links
    drives: Drives
    springs: Springs
    wrenches: Wrenches
    whole: np.ndarray  # (SPAN,) the span of everything in use; where trees are updated in turns, that of a group
    blocks: np.ndarray  # (n, SPAN) spans of independent trees, all that are in use
    count: np.ndarray  # (1,) blocks in use
    link: np.ndarray  # (n,) first link of each cluster
    q: np.ndarray
    qd: np.ndarray
    tau: np.ndarray


def new_hybrid_body(model: Model, wrenches: int) -> HybridBody:
    """Return an empty hybrid body of `model`, with room for all of it and for `wrenches` wrenches.

    `np.zeros` takes no memory for pages that are never written.
    """
    a = model.arrays
    links = a.links
    n, nv, nq, f = len(links.parent), model.nv, model.nq, len(links.factor_kind)

    def whole(*shape: int) -> np.ndarray:
        return np.zeros(shape, np.int64)

    return HybridBody(
        Links(
            whole(n), whole(n), whole(n), whole(n), whole(n), whole(n), np.zeros((n, 12)), np.zeros((n, 10)),
            whole(n + 1), whole(f), whole(f, 2), np.zeros((f, 7)), links.gravity, np.zeros(nv), whole(max(n, nv), 3),
            whole(len(links.quaternions), 2),
        ),
        Drives(*(np.zeros(array.shape, array.dtype) for array in a.drives)),
        Springs(whole(len(a.springs.link), 2), np.zeros((len(a.springs.link), 6)), a.springs.data),
        Wrenches(np.full(wrenches, -1, np.int64), np.zeros((wrenches, 9))),
        whole(SPAN), whole(n, SPAN), whole(1), whole(n), np.zeros(nq), np.zeros(nv), np.zeros(nv),
    )  # fmt: skip


@inner
def _add_inertia(g, k, e):
    for p in range(10):
        g[k, p] += e[p]


@outlined
def _place_factors(links, i, iq, iv, out, f):
    """Copy the factors of link i for a cluster whose coordinates begin at iq, iv; return the next free factor."""
    for j in range(links.factor_start[i], links.factor_start[i + 1]):
        out.factor_kind[f] = links.factor_kind[j]
        out.factor_indices[f, 0] = links.factor_indices[j, 0] - links.q_start[i] + iq
        out.factor_indices[f, 1] = links.factor_indices[j, 1] - links.v_start[i] + iv
        for p in range(7):
            out.factor_data[f, p] = links.factor_data[j, p]
        f += 1
    return f


@inner
def _add_run(runs, end, begin, v, q):
    """Add a scalar dof: it continues the last run, unless that began before this tree; return the runs in use."""
    if end > begin and runs[end - 1, 0] + runs[end - 1, 2] == v and runs[end - 1, 1] + runs[end - 1, 2] == q:
        runs[end - 1, 2] += 1
        return end
    runs[end, 0], runs[end, 1], runs[end, 2] = v, q, 1
    return end + 1


@inner
def _place_coordinates(links, i, k, out, span, begin):
    """Add runs and quaternions of link i, cluster k; `span` holds the ends in use and is advanced."""
    kind, iq, iv = links.kind[i], out.q_start[k], out.v_start[k]
    runs, quaternions = out.runs, out.quaternions
    end, spins = span[RUN + 1], span[QUATERNION + 1]
    if kind < BALL:
        end = _add_run(runs, end, begin, iv, iq)
    elif kind == BALL or kind == FREE:
        if kind == FREE:
            for p in range(3):
                end = _add_run(runs, end, begin, iv + p, iq + p)
            iq, iv = iq + 3, iv + 3
        quaternions[spins, 0], quaternions[spins, 1] = iq, iv
        spins += 1
    else:
        for f in range(out.factor_start[k], out.factor_start[k + 1]):
            fq, fv = out.factor_indices[f, 0], out.factor_indices[f, 1]
            if out.factor_kind[f] == TURN or out.factor_kind[f] == PUSH:
                end = _add_run(runs, end, begin, fv, fq)
            else:
                quaternions[spins, 0], quaternions[spins, 1] = fq, fv
                spins += 1
    span[RUN + 1], span[QUATERNION + 1] = end, spins


@inner
def _place_drives(links, drives, link_map, i, k, out, new, span):
    """Copy the drives of link i, cluster k."""
    shift_v, shift_q = out.v_start[k] - links.v_start[i], out.q_start[k] - links.q_start[i]
    for v in range(links.v_start[i], links.v_start[i] + links.dof[i]):
        row = link_map.scalar[v]
        if row >= 0:
            at = span[SCALAR_DRIVE + 1]
            new.indices[at, 0], new.indices[at, 1] = drives.indices[row, 0] + shift_q, drives.indices[row, 1] + shift_v
            for p in range(12):
                new.scalar[at, p] = drives.scalar[row, p]
            span[SCALAR_DRIVE + 1] = at + 1
        row = link_map.ball[v]
        if row >= 0:
            at = span[BALL_DRIVE + 1]
            new.ball_indices[at, 0] = drives.ball_indices[row, 0] + shift_q
            new.ball_indices[at, 1] = drives.ball_indices[row, 1] + shift_v
            for p in range(18):
                new.ball[at, p] = drives.ball[row, p]
            span[BALL_DRIVE + 1] = at + 1


@inner
def _close_block(span, blocks, count):
    """Store the block that ends where `span` ends, and begin the next; return the count of blocks."""
    for c in range(SPAN):
        blocks[count, c] = span[c]
    for c in range(0, SPAN, 2):
        span[c] = span[c + 1]
    return count + 1


@inner
def _set_roles(first, n, parent, role):
    """Fill the roles of the clusters from `first` to n - 1, see `roles_of`."""
    for k in range(first, n):
        role[k] = 0
    for k in range(n - 1, first - 1, -1):
        p = parent[k]
        if p >= 0 and p != k - 1:
            if role[p] & LOADED == 0:
                role[k] |= FIRST
            role[p] |= LOADED


@inner
def _attach_cluster(links, table, c, active_region, link_map, node, b, out, k):
    """Set the placement of cluster k on its parent's, and its inertia, from the joint of `node` above body b."""
    t, first = links.placement, table[node, FIRST_SIDE]
    if first < 0:
        out.parent[k] = -1
        for p in range(12):
            out.placement[k, p] = t[b, p]
    else:
        part, slot = rigid_front_node(table, active_region, first, table[node, SLOT])
        top = table[part, TOP]
        out.parent[k] = link_map.cluster[top]
        if slot == 0 and top < len(links.parent):
            for p in range(12):
                out.placement[k, p] = t[b, p]
        else:
            a, ax, ay, az = cluster_pose(links, link_map, top)
            h, hx, hy, hz = handle_pose(table, c, part, slot)
            a, ax, ay, az = composed(a, ax, ay, az, h, hx, hy, hz)
            h = (t[b, 0], t[b, 1], t[b, 2], t[b, 3], t[b, 4], t[b, 5], t[b, 6], t[b, 7], t[b, 8])
            a, ax, ay, az = composed(a, ax, ay, az, h, t[b, 9], t[b, 10], t[b, 11])
            put_pose_row(out.placement, k, a, ax, ay, az)
    part, _ = rigid_front_node(table, active_region, table[node, SECOND_SIDE], 0)
    e = inertia_of(part, len(table) // 2, c)
    for p in range(10):
        out.inertia[k, p] = e[p]


@inner
def _attach_piece(links, table, c, active_region, link_map, node, b, out):
    """Add piece b of a hub, and what is rigid with it, to the cluster its weld leads to."""
    part, slot = rigid_front_node(table, active_region, table[node, FIRST_SIDE], table[node, SLOT])
    top = table[part, TOP]
    k = link_map.cluster[top]
    a, ax, ay, az = cluster_pose(links, link_map, top)
    h, hx, hy, hz = handle_pose(table, c, part, slot)
    a, ax, ay, az = composed(a, ax, ay, az, h, hx, hy, hz)
    link_map.cluster[b] = k
    put_pose_row(link_map.pose, b - len(links.parent), a, ax, ay, az)
    part, _ = rigid_front_node(table, active_region, table[node, SECOND_SIDE], 0)
    _add_inertia(out.inertia, k, moved_inertia(inertia_of(part, len(table) // 2, c), a, ax, ay, az))


@inner
def place_wrench(links, table, c, active_region, link_map, wrenches, j, new):
    """Fill wrench j on its cluster from that on its link, -1 = none; ELSEWHERE, on trees of other groups, stays."""
    if wrenches.link[j] == ELSEWHERE:
        return
    if wrenches.link[j] < 0:
        new.link[j] = -1
        return
    k, r, x, y, z = locate(links, table, c, active_region, link_map, wrenches.link[j])
    new.link[j] = k
    p = wrenches.data
    px, py, pz = p[j, 0], p[j, 1], p[j, 2]
    new.data[j, 0] = x + (r[0] * px + r[1] * py + r[2] * pz)
    new.data[j, 1] = y + (r[3] * px + r[4] * py + r[5] * pz)
    new.data[j, 2] = z + (r[6] * px + r[7] * py + r[8] * pz)
    for k in range(3, 9):
        new.data[j, k] = p[j, k]


@inner
def _place_springs(links, table, c, active_region, link_map, springs, new):
    """Fill the springs between clusters from those between links."""
    for j in range(len(springs.link)):
        for end in range(2):
            i, o, p = springs.link[j, end], 3 * end, springs.point
            if i < 0:
                new.link[j, end] = -1
                new.point[j, o], new.point[j, o + 1], new.point[j, o + 2] = p[j, o], p[j, o + 1], p[j, o + 2]
                continue
            k, r, x, y, z = locate(links, table, c, active_region, link_map, i)
            new.link[j, end] = k
            px, py, pz = p[j, o], p[j, o + 1], p[j, o + 2]
            new.point[j, o] = x + (r[0] * px + r[1] * py + r[2] * pz)
            new.point[j, o + 1] = y + (r[3] * px + r[4] * py + r[5] * pz)
            new.point[j, o + 2] = z + (r[6] * px + r[7] * py + r[8] * pz)


@inner
def _prefetch_cluster(links, drives, table, c, active_region, link_map, b):
    """Prefetch the numbers that attaching the cluster of body b will need, in large regions."""
    if b >= len(links.parent):
        return
    nb, node = len(table) // 2, link_map.node[b]
    prefetch(links.placement, b, 0)
    prefetch(links.placement, b, 8)
    row = link_map.scalar[links.v_start[b]] if links.dof[b] > 0 else -1
    if row >= 0:
        prefetch(drives.scalar, row, 0)
        prefetch(drives.scalar, row, 8)
        prefetch(drives.indices, row, 0)
    part, _ = rigid_front_node(table, active_region, table[node, SECOND_SIDE], 0)
    o = part * LEAF + LEAF_IN if part < nb else offset_of(part, nb) + IN
    prefetch(c, 0, o)
    prefetch(c, 0, o + 8)
    if table[node, FIRST_SIDE] >= 0:
        part, slot = rigid_front_node(table, active_region, table[node, FIRST_SIDE], table[node, SLOT])
        if slot > 0:
            prefetch(c, 0, offset_of(part, nb) + HX)
            prefetch(c, 0, offset_of(part, nb) + HX + 8)


@outlined
def condense(
    # model
    links, drives, springs, table,
    # in
    c, active_region, nodes, first, count, start, q, qd, tau, wrenches, link_map,
    # out
    body,
):  # fmt: skip
    """Fill `body` with the hybrid body whose active joints are those of nodes[first : first + count].

    Args:
        active_region: (m,) flags of the same nodes.
        start: (SPAN,) where it begins in the arrays of `body`.
        q, qd, tau: of the whole model; those of the active joints are copied.
        wrenches: on links.
        link_map: the clusters of links are stored in it.
    """
    out, whole, order = body.links, body.whole, link_map.sorted
    n = len(links.parent)
    order_bodies(table, nodes, first, count, link_map)
    for p in range(0, SPAN, 2):
        whole[p] = whole[p + 1] = start[p]
    k, f, blocks, begin = whole[LINK], links.factor_start[start[LINK]], 0, whole[RUN]
    tied = len(springs.link) > 0
    for j in range(count):
        b = order[j]
        node = link_map.node[b]
        if count > _MANY:
            prefetch(table, link_map.node[order[min(j + 2 * _AHEAD, count - 1)]], 0)
            _prefetch_cluster(links, drives, table, c, active_region, link_map, order[min(j + _AHEAD, count - 1)])
        if b >= n:
            _attach_piece(links, table, c, active_region, link_map, node, b, out)
            continue
        # blocks of whole trees, as in `blocks_of`
        if table[node, FIRST_SIDE] < 0 and not tied and k - whole[LINK] >= BLOCK:
            blocks = _close_block(whole, body.blocks, blocks)
            begin = whole[RUN]
        link_map.cluster[b] = k
        body.link[k] = b
        _attach_cluster(links, table, c, active_region, link_map, node, b, out, k)
        iq, iv = whole[COORDINATE + 1], whole[DOF + 1]
        out.kind[k], out.dof[k], out.q_start[k], out.v_start[k] = links.kind[b], links.dof[b], iq, iv
        out.factor_start[k] = f
        f = _place_factors(links, b, iq, iv, out, f)
        out.factor_start[k + 1] = f
        _place_coordinates(links, b, k, out, whole, begin)
        _place_drives(links, drives, link_map, b, k, out, body.drives, whole)
        v, d = links.v_start[b], links.dof[b]
        for a in range(d):
            body.qd[iv + a], body.tau[iv + a] = qd[v + a], tau[v + a]
            out.armature[iv + a] = links.armature[v + a]
        wide = (len(q) if b + 1 >= n else links.q_start[b + 1]) - links.q_start[b]
        for a in range(wide):
            body.q[iq + a] = q[links.q_start[b] + a]
        k += 1
        whole[LINK + 1], whole[DOF + 1], whole[COORDINATE + 1] = k, iv + d, iq + wide
    if k > whole[LINK]:
        blocks = _close_block(whole, body.blocks, blocks)
    for p in range(0, SPAN, 2):
        whole[p] = start[p]
    body.count[0] = blocks
    _set_roles(start[LINK], k, out.parent, out.role)
    for j in range(len(wrenches.link)):
        place_wrench(links, table, c, active_region, link_map, wrenches, j, body.wrenches)
    _place_springs(links, table, c, active_region, link_map, springs, body.springs)


@inner
def _scatter_clusters(links, body, first, last, q, qd):
    """Copy q and qd of the clusters from `first` to `last` - 1 into those of the whole model."""
    out, n = body.links, len(links.parent)
    for k in range(first, last):
        b = body.link[k]
        v, iv, at = links.v_start[b], out.v_start[k], links.q_start[b]
        for a in range(links.dof[b]):
            qd[v + a] = body.qd[iv + a]
        iq = out.q_start[k]
        for a in range((len(q) if b + 1 >= n else links.q_start[b + 1]) - at):
            q[at + a] = body.q[iq + a]


@inner
def scatter(
    # model
    links,
    # in
    body,
    # out
    q, qd,
):  # fmt: skip
    """Copy q and qd of the active joints in body.whole into those of the whole model."""
    _scatter_clusters(links, body, body.whole[LINK], body.whole[LINK + 1], q, qd)


@inner
def scatter_blocks(
    # model
    links,
    # in
    body,
    # out
    q, qd,
):  # fmt: skip
    """Copy q and qd of all active joints into those of the whole model."""
    for j in range(body.count[0]):
        _scatter_clusters(links, body, body.blocks[j, LINK], body.blocks[j, LINK + 1], q, qd)


@inner
def order_bodies(table, nodes, first, count, link_map):
    """Sort the bodies below the joints of nodes[first : first + count] depth first, in link_map.sorted."""
    for j in range(count):
        link_map.sorted[j] = table[nodes[first + j], CHILD]
    sort_nodes(count, link_map.rank, link_map.sorted, link_map.spare)


@inner
def scatter_velocities(
    # model
    links,
    # in
    body,
    # out
    qd,
):  # fmt: skip
    """Copy qd of the active joints into that of the whole model."""
    for j in range(body.count[0]):
        for k in range(body.blocks[j, LINK], body.blocks[j, LINK + 1]):
            v, iv = links.v_start[body.link[k]], body.links.v_start[k]
            for a in range(links.dof[body.link[k]]):
                qd[v + a] = body.qd[iv + a]


@inner
def gather(
    # model
    links,
    # in
    q, qd,
    # out
    body,
):  # fmt: skip
    """Copy q and qd of the active joints from those of the whole model."""
    out, n = body.links, len(links.parent)
    for k in range(body.whole[LINK], body.whole[LINK + 1]):
        b = body.link[k]
        v, iv, first = links.v_start[b], out.v_start[k], links.q_start[b]
        for a in range(links.dof[b]):
            body.qd[iv + a] = qd[v + a]
        iq = out.q_start[k]
        for a in range((len(q) if b + 1 >= n else links.q_start[b + 1]) - first):
            body.q[iq + a] = q[first + a]


def trimmed(body: HybridBody, blocks: np.ndarray) -> tuple[Links, Drives, np.ndarray]:
    """Return links and drives of the hybrid body, cut to what is in use, and the spans of its blocks.

    Args:
        body: the hybrid body.
        blocks: (k, SPAN) spans of whole trees of the model; the hybrid body's trees are in the same order.
    """
    whole, links, drives = body.whole, body.links, body.drives
    n, nv, nq = int(whole[LINK + 1]), int(whole[DOF + 1]), int(whole[COORDINATE + 1])
    spins, factors = int(whole[QUATERNION + 1]), int(links.factor_start[n])
    scalars, balls = int(whole[SCALAR_DRIVE + 1]), int(whole[BALL_DRIVE + 1])
    ends = np.searchsorted(body.link[:n], blocks[:, LINK : LINK + 2])
    v, q = (np.append(start[:n], last)[ends] for start, last in ((links.v_start, nv), (links.q_start, nq)))
    per_link = ("parent", "kind", "q_start", "v_start", "dof", "role", "placement", "inertia")
    per_factor = ("factor_kind", "factor_indices", "factor_data")
    out = links._replace(
        **{name: getattr(links, name)[:n] for name in per_link},
        **{name: getattr(links, name)[:factors] for name in per_factor},
        factor_start=links.factor_start[: n + 1],
        armature=links.armature[:nv],
        runs=_cut_runs(links.runs[: int(whole[RUN + 1])], v[:, 0]),
        quaternions=links.quaternions[:spins],
    )
    own = Drives(drives.indices[:scalars], drives.scalar[:scalars], drives.ball_indices[:balls], drives.ball[:balls])
    spans = np.zeros((len(blocks), SPAN), np.int64)
    for column, ranges in ((LINK, ends), (DOF, v), (COORDINATE, q)):
        spans[:, column : column + 2] = ranges
    for column, firsts in (
        (QUATERNION, out.quaternions[:, 1]),
        (SCALAR_DRIVE, own.indices[:, 1]),
        (BALL_DRIVE, own.ball_indices[:, 1]),
        (RUN, out.runs[:, 0]),
    ):
        spans[:, column : column + 2] = np.searchsorted(firsts, v)
    return out, own, spans


def _cut_runs(runs: np.ndarray, borders: np.ndarray) -> np.ndarray:
    """Return runs of scalar dofs, cut where blocks begin."""
    if not len(runs):
        return runs.copy()
    at = np.searchsorted(runs[:, 0], borders, side="right") - 1
    inside = (at >= 0) & (borders < runs[at, 0] + runs[at, 2])
    first = np.union1d(runs[:, 0], borders[inside])
    at = np.searchsorted(runs[:, 0], first, side="right") - 1
    last = np.minimum(np.append(first[1:], np.iinfo(np.int64).max), runs[at, 0] + runs[at, 2])
    return np.stack([first, runs[at, 1] + first - runs[at, 0], last - first], axis=1)
