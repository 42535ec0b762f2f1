"""Contacts of jointed bodies over dense responses of their figures: an impulse moves all bodies of a figure at once.

Bodies connected by joints make a figure. A contact of a link knows the mass of this link alone, while the figure behind
it responds as a whole. Where bodies and joints form a forest that `linear/tree.py` has factored, a wrench f_j on one
body changes the velocities of the others, joints in place, by

    du_i = Phi_ij f_j,      Phi = M^-1 - M^-1 J^T (J M^-1 J^T)^-1 J M^-1

Phi of the bodies with contacts, and of those between them and the root, follows from the factor, parents first. With c
below p, the joint l between them, the letters of `tree.py`, and K of a node as in `auxiliary.py`:

    Phi_cj = P_c Phi_pj  for all j before c,      P_c = -(U_c^-T G_c) (U_l^-T G_l),      Phi_cc = K_c

A sweep then converges as one over free bodies does, and needs no solve of the joints between its updates. Contacts
whose figures no longer change are left out. Limits of joints are swept with the contacts, for the velocities that
contacts see; their impulses are those of the joints' solve. Bodies without joints, and those of figures that are too
large, respond alone. Figures have an even number of members, one of them empty if need be: velocities then change four
numbers at a time.

Phi is the inverse operational-space inertia of the bodies: Featherstone 2008, section 8.5; Baraff 1996, section 8.2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.contact.sweeps import (
    JN,
    JT,
    KN,
    MN,
    RA,
    RB,
    STICK,
    N,
    across,
    apply_impulse,
    point_velocity,
    project,
    set_masses,
)
from limberjack.linear.auxiliary import invert_body_6, invert_rows_6
from limberjack.linear.blocks import backward, backward_6, load_6, lower_6, store_6
from limberjack.linear.elimination import DIM, FACTOR, UP_DIM, Tree
from limberjack.spatial.lanes import load4, splat, store4

__all__ = [
    "ALONE", "FILLED", "MASSES", "Figures", "add_changes", "disagreement", "gather_limits", "gather_velocities",
    "new_figures", "set_figure_masses", "set_figures", "set_limit_masses", "swap_masses", "sweep_figures",
]  # fmt: skip

# Figures with more bodies than this between contacts and root respond body by body; all others have room for so many
# numbers together. So many limits are swept with the contacts at most.
_LARGEST, _ROOM, _LIMITS = 40, 4_000_000, 4096
# Columns of a contact's masses: K n, 1 / n.K n, 1 / k, and the inverse of K across n.
MASSES = 11
# Joints may leave two bodies of a figure no relative motion along some direction: this part of the free mobility is
# added.
_FLOOR = 1e-3
# Indices of the number of bodies that respond alone although they have joints, and of whether figures are filled.
ALONE, FILLED = 3, 4
# States of bodies that are no members yet: without contacts, with contacts.
_AWAY, _TOUCHED = -1, -2
# The sweep in which figures changed that have not.
_STILL = -2
# Limits nearer than this may be reached by the impulses of contacts [m, rad].
_NEAR = 0.1
# Columns of a limit: accumulated impulse, its least value, effective mass, bias.
_IMPULSE, _LEAST, _MASS, _BIAS = range(4)


class Figures(NamedTuple):
    """Bodies with contacts and their responses; n bodies, k limits at most."""

    nodes: np.ndarray  # (n, 2) first and last + 1 node of a body's tree; 0 of free bodies, -1 of those in no such tree
    mark: np.ndarray  # (nodes,) whether a node is on the path from a body with contacts to its root
    count: np.ndarray  # (5,) members; numbers in `phi`; limits; bodies of figures that are too large; whether filled
    member: np.ndarray  # (2 n,) bodies with contacts or limits, figure by figure; -1 for empty ones
    place: np.ndarray  # (n,) index of a body among the members; see the states above
    first: np.ndarray  # (n,) index of the first member of a body's figure
    size: np.ndarray  # (n,) members of a body's figure, with an empty one
    start: np.ndarray  # (n,) where the response of the figure to each of six wrenches on a body starts in `phi`
    changed: np.ndarray  # (2 n,) the last sweep in which a figure, given by its first member, changed
    velocity: np.ndarray  # (1, 12 n) of the members
    phi: np.ndarray  # (1, room)
    path: np.ndarray  # (largest,) bodies of one figure between contacts and root
    index: np.ndarray  # (n,) of a body in `path`
    full: np.ndarray  # (6 largest)^2 responses of these, as in `phi`
    touched: np.ndarray  # (n,) 1 for components with contacts, 2 for those that are too large
    limit: np.ndarray  # (k,) constraints of limits of these
    bound: np.ndarray  # (k, 4) see above
    response: np.ndarray  # (k, 6 largest) of a limit's figure to it
    scratch: np.ndarray  # blocks of one node


def new_figures(tree: Tree | None, bodies: int, limits: int) -> Figures:
    """Return the figures of a forest; without one all bodies respond alone."""
    nodes, marks, room = np.full((bodies, 2), -1), 0, 72 * bodies
    if tree is not None:
        marks = len(tree.parent)
        _set_ranges(tree, nodes)
        sizes = np.minimum(np.unique(nodes[:, 0], return_counts=True)[1] + 1, _LARGEST)
        room += min(int((36 * sizes**2).sum()), _ROOM)
    whole = lambda size: np.zeros(size, np.int64)  # noqa: E731
    limits = min(limits, _LIMITS)
    return Figures(
        nodes, whole(marks), whole(5), whole(2 * bodies), np.full(bodies, _AWAY), whole(bodies), whole(bodies),
        whole(bodies), whole(2 * bodies), np.zeros((1, 12 * bodies)), np.zeros((1, room)), whole(_LARGEST),
        whole(bodies), np.zeros((6 * _LARGEST) ** 2), whole(bodies), whole(limits), np.zeros((limits, 4)),
        np.zeros((limits, 6 * _LARGEST)), np.zeros(300),
    )  # fmt: skip


def _set_ranges(tree: Tree, nodes: np.ndarray) -> None:
    """Fill the range of nodes of each body whose tree has joints of two bodies, or of one and the ground, only."""
    count = len(tree.parent)
    root = np.arange(count)
    for n in range(count - 1, -1, -1):
        if tree.parent[n] >= 0:
            root[n] = root[tree.parent[n]]
    inside = tree.parent >= 0
    children = np.bincount(tree.parent[inside], minlength=count)
    odd = np.unique(root[tree.is_constraint & (children > 1)])
    first = np.full(count, count)
    np.minimum.at(first, root, np.arange(count))
    own = root[tree.body_node]
    nodes[:, 0], nodes[:, 1] = first[own], own + 1
    nodes[nodes[:, 1] - nodes[:, 0] == 1] = 0
    nodes[np.isin(own, odd)] = -1


@outlined
def _list_touched(first, last, link, components, figures):
    """Mark the bodies with contacts, and their components; bodies of the last time are marked as away."""
    for t in range(figures.count[0]):
        if figures.member[t] >= 0:
            figures.place[figures.member[t]] = _AWAY
    for i in range(len(figures.touched)):
        figures.touched[i] = 0
    for k in range(first, last):
        for side in range(2):
            i = link[k, side]
            if i >= 0:
                figures.place[i] = _TOUCHED
                figures.touched[components[i]] = 1


@outlined
def _list_limits(system, components, first, last, values, figures):
    """List the limits that the impulses of contacts may reach, and mark their bodies."""
    count = 0
    for c in range(first, last):
        if figures.touched[components.of[c]] and values[system.row_start[c], 0] < _NEAR:
            begin, end = system.incidence_start[c], system.incidence_start[c + 1]
            dense = end > begin
            for t in range(begin, end):
                i = system.incidence_body[t]
                dense = dense and figures.nodes[i, 1] > 0
            if dense and count < len(figures.limit):
                for t in range(begin, end):
                    figures.place[system.incidence_body[t]] = _TOUCHED
                figures.limit[count] = c
                count += 1
    figures.count[2] = count


@outlined
def _mark_paths(tree, first, last, place, mark):
    """Mark the nodes from bodies with contacts to the root; return how many bodies."""
    size = 0
    for n in range(first, last):
        mark[n] = 0
    for n in range(first, last):
        if not tree.is_constraint[n] and place[tree.item[n]] == _TOUCHED:
            mark[n] = 1
        if mark[n]:
            size += 0 if tree.is_constraint[n] else 1
            if tree.parent[n] >= 0:
                mark[tree.parent[n]] = 1
    return size


@outlined
def _add_alone(i, inverse, figures):
    """Add body i as a member that responds alone."""
    at, start, phi = figures.count[0], figures.count[1], figures.phi
    figures.member[at], figures.place[i], figures.first[i], figures.size[i] = i, at, at, 2
    figures.member[at + 1], figures.start[i] = -1, start
    for c in range(72):
        phi[0, start + c] = 0.0
    phi[0, start], phi[0, start + 1], phi[0, start + 2] = inverse[i, 0], inverse[i, 3], inverse[i, 4]
    phi[0, start + 12], phi[0, start + 13], phi[0, start + 14] = inverse[i, 3], inverse[i, 1], inverse[i, 5]
    phi[0, start + 24], phi[0, start + 25], phi[0, start + 26] = inverse[i, 4], inverse[i, 5], inverse[i, 2]
    for c in range(3, 6):
        phi[0, start + 13 * c] = inverse[i, 6]
    figures.count[0], figures.count[1] = at + 2, start + 72


@outlined
def _propagation(table, n, l, work, scratch):
    """Fill scratch[:36] with P, by rows, of the body at node n below the joint at node l."""
    rows, f, g = table[n, UP_DIM], lower_6(work, table[n, FACTOR]), table[n, FACTOR] + 21
    a, b, p = 36, 108, table[l, FACTOR]
    for k in range(rows):
        store_6(scratch, a + 6 * k, backward_6(f, load_6(work, g + 6 * k)))
    g = p + rows * (rows + 1) // 2
    for c in range(6):
        for k in range(rows):
            scratch[b + c * rows + k] = work[g + 6 * k + c]
        backward(rows, work, p, scratch, b + c * rows)
    for r in range(6):
        for c in range(6):
            x = 0.0
            for k in range(rows):
                x -= scratch[a + 6 * k + r] * scratch[b + c * rows + k]
            scratch[6 * r + c] = x


@outlined
def _set_body(tree, n, own, size, work, figures):
    """Fill the responses of the body `own` of the path, at node n, and of those before it to wrenches on it."""
    full, scratch, table = figures.full, figures.scratch, tree.table
    width = 6 * size
    l, start = tree.parent[n], 6 * own * width
    # K of the parent, of the joint and of the body
    above, joint, at = 36, 72, 216
    if l < 0:
        invert_body_6(table[n, FACTOR], 0, 0, at, work, scratch)
    else:
        up, rows = tree.parent[l], table[l, DIM]
        if up >= 0:
            before = figures.index[tree.item[up]]
            _propagation(table, n, l, work, scratch)
            for j in range(own):
                for c in range(6):
                    o = (6 * j + c) * width
                    x = load_6(full, o + 6 * before)
                    for r in range(6):
                        q = load_6(scratch, 6 * r)
                        y = q[0] * x[0] + q[1] * x[1] + q[2] * x[2] + q[3] * x[3] + q[4] * x[4] + q[5] * x[5]
                        full[o + 6 * own + r] = y
                        full[start + r * width + 6 * j + c] = y
            for c in range(6):
                store_6(scratch, above + 6 * c, load_6(full, (6 * before + c) * width + 6 * before))
            invert_rows_6(rows, table[l, FACTOR], above, joint, work, scratch)
        else:
            invert_rows_6(rows, table[l, FACTOR], -1, joint, work, scratch)
        invert_body_6(table[n, FACTOR], rows, joint, at, work, scratch)
    for c in range(6):
        store_6(full, start + c * width + 6 * own, load_6(scratch, at + 6 * c))


@outlined
def _add_figure(tree, first, last, size, work, figures):
    """Add the bodies with contacts of nodes first .. last - 1 as members of one figure; `size`: those on paths."""
    path, begin, own = figures.path, figures.count[0], 0
    for n in range(last - 1, first - 1, -1):
        if figures.mark[n] and not tree.is_constraint[n]:
            i = tree.item[n]
            path[own], figures.index[i] = i, own
            _set_body(tree, n, own, size, work, figures)
            own += 1
            if figures.place[i] == _TOUCHED:
                figures.member[figures.count[0]], figures.place[i] = i, figures.count[0]
                figures.count[0] += 1
    end = figures.count[0]
    if (end - begin) % 2 == 1:
        figures.member[end] = -1
        end += 1
    figures.count[0] = end
    start, width = figures.count[1], 6 * size
    for t in range(begin, end):
        i = figures.member[t]
        if i < 0:
            continue
        figures.first[i], figures.size[i], figures.start[i] = begin, end - begin, start
        for c in range(6):
            o = (6 * figures.index[i] + c) * width
            for k in range(begin, end):
                j = figures.member[k]
                if j >= 0:
                    at = o + 6 * figures.index[j]
                    for r in range(6):
                        figures.phi[0, start + r] = figures.full[at + r]
                else:
                    for r in range(6):
                        figures.phi[0, start + r] = 0.0
                start += 6
    figures.count[1] = start


@inner
def set_figures(system, tree, work, first, last, limits, link, values, inverse, components, figures):
    """Find the members of contacts first .. last - 1 and fill their responses.

    Args:
        system: all constraints.
        tree, work: of the joints, and their factor; without a tree all bodies respond alone.
        first, last: contacts.
        limits: (first, last) constraints that are limits.
        link: bodies of the contacts.
        values: (r, 3) of the rows.
        inverse: (n, 7) inverse inertias of the bodies.
        components: of the system.
        figures: out.
    """
    figures.count[FILLED] = 1
    _list_touched(first, last, link, components.body, figures)
    _list_limits(system, components, limits[0], limits[1], values, figures)
    figures.count[0], figures.count[1], figures.count[ALONE] = 0, 0, 0
    n = len(figures.place)
    for i in range(n):
        if figures.place[i] == _TOUCHED:
            begin, end, of, added = figures.nodes[i, 0], figures.nodes[i, 1], components.body[i], False
            if tree is None:
                pass
            else:
                if end > begin and figures.touched[of] == 1:
                    size = _mark_paths(tree, begin, end, figures.place, figures.mark)
                    # bodies still to come may each respond alone
                    room = figures.phi.shape[1] - 72 * (n - i)
                    added = size < _LARGEST and figures.count[1] + 36 * (size + 1) * (size + 1) <= room
                    if added:
                        _add_figure(tree, begin, end, size, work, figures)
                    else:
                        figures.touched[of] = 2
            if not added:
                _add_alone(i, inverse, figures)
                figures.count[ALONE] += 1 if begin < 0 or figures.touched[of] == 2 else 0


@inner
def _wrench(x, y, z, px, py, pz):
    """Return the wrench of a force p with lever (x, y, z)."""
    return y * pz - z * py, z * px - x * pz, x * py - y * px, px, py, pz


@inner
def _apply_wrench(i, f, figures):
    """Apply a wrench to member i: the velocities of all its figure change."""
    phi, velocity, o, to = figures.phi, figures.velocity, figures.start[i], 6 * figures.first[i]
    width = 6 * figures.size[i]
    o1, o2, o3, o4, o5 = o + width, o + 2 * width, o + 3 * width, o + 4 * width, o + 5 * width
    f0, f1, f2, f3, f4, f5 = splat(f[0]), splat(f[1]), splat(f[2]), splat(f[3]), splat(f[4]), splat(f[5])
    for k in range(0, width, 4):
        x = load4(velocity, 0, to + k) + f0 * load4(phi, 0, o + k) + f1 * load4(phi, 0, o1 + k)
        x = x + f2 * load4(phi, 0, o2 + k) + f3 * load4(phi, 0, o3 + k)
        store4(velocity, 0, to + k, x + f4 * load4(phi, 0, o4 + k) + f5 * load4(phi, 0, o5 + k))


@inner
def _six(x, at):
    """Return x[0, at .. at + 5]."""
    return x[0, at], x[0, at + 1], x[0, at + 2], x[0, at + 3], x[0, at + 4], x[0, at + 5]


@inner
def _response_of(i, j, f, figures):
    """Return the change of velocity of member i by a wrench on member j of the same figure."""
    phi, width = figures.phi, 6 * figures.size[j]
    o = figures.start[j] + 6 * (figures.place[i] - figures.first[i])
    out = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    for c in range(6):
        x = _six(phi, o + c * width)
        g = f[0] if c == 0 else f[1] if c == 1 else f[2] if c == 2 else f[3] if c == 3 else f[4] if c == 4 else f[5]
        out = (
            out[0] + g * x[0], out[1] + g * x[1], out[2] + g * x[2],
            out[3] + g * x[3], out[4] + g * x[4], out[5] + g * x[5],
        )  # fmt: skip
    return out


@inner
def _at_point(v, x, y, z):
    """Return the velocity of the point with lever (x, y, z) of a body with the velocity v."""
    return v[3] + v[1] * z - v[2] * y, v[4] + v[2] * x - v[0] * z, v[5] + v[0] * y - v[1] * x


@inner
def _mobility(link, row, k, p, floor, figures):
    """Return (K + floor) p of contact k."""
    px, py, pz = p
    a, b = link[k, 0], link[k, 1]
    ax, ay, az = row[k, RA], row[k, RA + 1], row[k, RA + 2]
    f = _wrench(ax, ay, az, px, py, pz)
    x, y, z = _at_point(_response_of(a, a, f, figures), ax, ay, az)
    if b >= 0:
        bx, by, bz = row[k, RB], row[k, RB + 1], row[k, RB + 2]
        g = _wrench(bx, by, bz, px, py, pz)
        ux, uy, uz = _at_point(_response_of(b, b, g, figures), bx, by, bz)
        x, y, z = x + ux, y + uy, z + uz
        if figures.first[a] == figures.first[b]:
            ux, uy, uz = _at_point(_response_of(a, b, g, figures), ax, ay, az)
            x, y, z = x - ux, y - uy, z - uz
            ux, uy, uz = _at_point(_response_of(b, a, f, figures), bx, by, bz)
            x, y, z = x - ux, y - uy, z - uz
    return x + floor * px, y + floor * py, z + floor * pz


@outlined
def set_figure_masses(first, last, link, inverse, row, figures, masses):
    """Fill the effective masses (c, MASSES) of contacts first .. last - 1 over the responses of figures."""
    swap_masses(first, last, row, masses)
    for k in range(first, last):
        f = inverse[link[k, 0], 6] + (inverse[link[k, 1], 6] if link[k, 1] >= 0 else 0.0)
        n = (row[k, N], row[k, N + 1], row[k, N + 2])
        s, t = across(n[0], n[1], n[2])
        kn = _mobility(link, row, k, n, _FLOOR * f, figures)
        ks = _mobility(link, row, k, s, _FLOOR * f, figures)
        kt = _mobility(link, row, k, t, _FLOOR * f, figures)
        set_masses(row, k, s, t, kn, ks, kt)
    swap_masses(first, last, row, masses)


@outlined
def swap_masses(first, last, row, masses):
    """Exchange the effective masses of contacts first .. last - 1 with others."""
    for k in range(first, last):
        for c in range(5):
            row[k, KN + c], masses[k, c] = masses[k, c], row[k, KN + c]
        for c in range(6):
            row[k, STICK + c], masses[k, 5 + c] = masses[k, 5 + c], row[k, STICK + c]


@outlined
def gather_velocities(again, enough, u, figures):
    """Fill the velocities of the members; where they were filled before, note the figures that have changed since."""
    velocity, changed = figures.velocity, figures.changed
    for t in range(figures.count[0]):
        changed[t] = _STILL if again else 0
    for t in range(figures.count[0]):
        i = figures.member[t]
        for c in range(6):
            if i < 0:
                velocity[0, 6 * t + c] = 0.0
                continue
            if not abs(u[6 * i + c] - velocity[0, 6 * t + c]) <= enough:
                changed[figures.first[i]] = 0
            velocity[0, 6 * t + c] = u[6 * i + c]


@inner
def _row_wrench(system, t, j):
    """Return the wrench of the first row of incidence t."""
    return load_6(j, system.block_start[t])


@outlined
def set_limit_masses(system, j, figures):
    """Fill the responses of figures to the limits, for the rows j, and the effective masses."""
    for k in range(figures.count[2]):
        c, w = figures.limit[k], 0.0
        begin, end = system.incidence_start[c], system.incidence_start[c + 1]
        one = system.incidence_body[begin]
        for i in range(6 * figures.size[one]):
            figures.response[k, i] = 0.0
        for t in range(begin, end):
            b = system.incidence_body[t]
            if figures.first[b] == figures.first[one]:
                _add_response(k, b, _row_wrench(system, t, j), figures)
        for t in range(begin, end):
            b = system.incidence_body[t]
            if figures.first[b] == figures.first[one]:
                f, o = _row_wrench(system, t, j), 6 * (figures.place[b] - figures.first[b])
                for i in range(6):
                    g = f[0] if i == 0 else f[1] if i == 1 else f[2] if i == 2 else f[3] if i == 3 else f[4]
                    w += (g if i < 5 else f[5]) * figures.response[k, o + i]
        figures.bound[k, _MASS] = 1.0 / w if w > 0.0 else 0.0


@outlined
def gather_limits(system, first, h, at_end, values, target, sums, figures):
    """Set up the limits for the velocities of members: their bounds and biases.

    Args:
        system: all constraints.
        first: the first of them that is a limit.
        h: the step [s].
        at_end: whether the bias is the target rate of the end of a step; else a limit not yet reached may be.
        values, target: rows.
        sums: (limits, 4) accumulated impulses, the first column.
        figures: out.
    """
    for k in range(figures.count[2]):
        c = figures.limit[k]
        r = system.row_start[c]
        figures.bound[k, _IMPULSE], figures.bound[k, _LEAST] = 0.0, -sums[c - first, 0]
        figures.bound[k, _BIAS] = target[r] if at_end else max(values[r, 0], 0.0) / h


@inner
def _add_response(k, i, f, figures):
    """Add the response of member i's figure to a wrench on it to that of limit k."""
    phi, o, width = figures.phi, figures.start[i], 6 * figures.size[i]
    for t in range(width):
        figures.response[k, t] += (
            f[0] * phi[0, o + t] + f[1] * phi[0, o + width + t] + f[2] * phi[0, o + 2 * width + t]
            + f[3] * phi[0, o + 3 * width + t] + f[4] * phi[0, o + 4 * width + t] + f[5] * phi[0, o + 5 * width + t]
        )  # fmt: skip


@outlined
def _sweep_limits(system, turn, enough, j, figures):
    """Sweep the limits of figures that change once."""
    bound, velocity = figures.bound, figures.velocity
    for k in range(figures.count[2]):
        c = figures.limit[k]
        figure = figures.first[system.incidence_body[system.incidence_start[c]]]
        if figures.changed[figure] < turn - 1:
            continue
        rate = bound[k, _BIAS]
        for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
            f, v = _row_wrench(system, t, j), _six(velocity, 6 * figures.place[system.incidence_body[t]])
            rate += f[0] * v[0] + f[1] * v[1] + f[2] * v[2] + f[3] * v[3] + f[4] * v[4] + f[5] * v[5]
        before = bound[k, _IMPULSE]
        after = max(before - bound[k, _MASS] * rate, bound[k, _LEAST])
        if after != before:
            bound[k, _IMPULSE] = after
            d = after - before
            if not abs(d) <= enough * bound[k, _MASS]:
                figures.changed[figure] = turn
            step = splat(d)
            for i in range(0, 6 * figures.size[system.incidence_body[system.incidence_start[c]]], 4):
                x = load4(velocity, 0, 6 * figure + i) + step * load4(figures.response, k, i)
                store4(velocity, 0, 6 * figure + i, x)


@outlined
def sweep_figures(system, first, last, times, enough, link, h, rate, slow, scale, give, j, figures, row):
    """Sweep contacts first .. last - 1 and limits over the members, `times` times or until none changes a velocity.

    Returns:
        the largest change of a velocity in the last sweep; `enough` ends them [m/s].
    """
    most, place, changed = 0.0, figures.place, figures.changed
    for turn in range(1, times + 1):
        most = 0.0
        for k in range(first, last):
            a, b = link[k, 0], link[k, 1]
            of_a, of_b = figures.first[a], figures.first[b] if b >= 0 else figures.first[a]
            if changed[of_a] < turn - 1 and changed[of_b] < turn - 1:
                continue
            ax, ay, az, bx, by, bz = row[k, RA], row[k, RA + 1], row[k, RA + 2], 0.0, 0.0, 0.0
            ux, uy, uz = _at_point(_six(figures.velocity, 6 * place[a]), ax, ay, az)
            if b >= 0:
                bx, by, bz = row[k, RB], row[k, RB + 1], row[k, RB + 2]
                vx, vy, vz = _at_point(_six(figures.velocity, 6 * place[b]), bx, by, bz)
                ux, uy, uz = ux - vx, uy - vy, uz - vz
            x, y, z = project(
                row, k, ux, uy, uz, row[k, KN], row[k, KN + 1], row[k, KN + 2], row[k, MN], h, rate, slow, scale, give
            )
            if x != 0.0 or y != 0.0 or z != 0.0:
                _apply_wrench(a, _wrench(ax, ay, az, x, y, z), figures)
                if b >= 0:
                    _apply_wrench(b, _wrench(bx, by, bz, -x, -y, -z), figures)
                change = (abs(x) + abs(y) + abs(z)) / row[k, MN]
                if not change <= enough:
                    changed[of_a], changed[of_b] = turn, turn
                most = max(most, change)
        _sweep_limits(system, turn, enough, j, figures)
        if most <= enough:
            break
    return most


@outlined
def add_changes(first, last, link, inverse, before, row, u):
    """Apply what contacts first .. last - 1 have added to the impulses before, to each body as if it were free."""
    for k in range(first, last):
        d = row[k, JN] - before[k, 0]
        x = d * row[k, N] + row[k, JT] - before[k, 1]
        y = d * row[k, N + 1] + row[k, JT + 1] - before[k, 2]
        z = d * row[k, N + 2] + row[k, JT + 2] - before[k, 3]
        if x != 0.0 or y != 0.0 or z != 0.0:
            a, b = link[k, 0], link[k, 1]
            apply_impulse(u, a, inverse, row[k, RA], row[k, RA + 1], row[k, RA + 2], x, y, z)
            if b >= 0:
                apply_impulse(u, b, inverse, row[k, RB], row[k, RB + 1], row[k, RB + 2], -x, -y, -z)


@outlined
def disagreement(first, last, link, row, u, figures):
    """Return the largest difference of the velocities u and those of the members, at contacts first .. last - 1."""
    most = 0.0
    for k in range(first, last):
        for side in range(2):
            i, o = link[k, side], RA if side == 0 else RB
            if i >= 0:
                x, y, z = row[k, o], row[k, o + 1], row[k, o + 2]
                ux, uy, uz = point_velocity(u, i, x, y, z)
                vx, vy, vz = _at_point(_six(figures.velocity, 6 * figures.place[i]), x, y, z)
                most = max(most, abs(ux - vx) + abs(uy - vy) + abs(uz - vz))
    return most
