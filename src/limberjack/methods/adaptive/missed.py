"""What rigid joints have missed: the displacement their free motion would have made since they became rigid.

The acceleration metric of a rigid node C is a squared norm of a field that is affine in the forces f on its handles,

    A(C) = |N f + n|^2 = f^T Psi f + f^T p + eta        Psi = N^T N, p = 2 N^T n, eta = n^T n

and N does not change while C is rigid. So the velocity and the displacement that C misses have the same form: integrals
take the place of the values,

    |u|^2 = F1^T Psi F1 + F1^T P1 + S1^2                F1, P1, S1 = integrals of f, p and sqrt(eta)
    |d|^2 = F2^T Psi F2 + F2^T P2 + S2^2                F2, P2, S2 = integrals of F1, P1 and S1

exact but for S, which bounds the norm of the integral of n from above (Minkowski) and equals it while n keeps its
direction. They are kept for the nodes of the rigid front only, at updates only: 26 numbers per node twice, and no visit
to the joints below. A node is judged by what it will have missed a horizon H from now, all in the units of A:

    e(C) = (2 / H^2)^2 |d + H u + H^2 a / 2|^2

which is A(C) when the joints of C have just become rigid and grows like (1 + t / H)^4 A(C) under a constant
acceleration: whatever should move becomes active in the end, at any budget and any tolerance.

When the region changes, the norms |d| and |u| are passed on as two numbers, D and U:

    C becomes rigid   D^2 = sum of |d|^2 over the front within C; U^2 = velocity metric of C, which is removed, plus the
                      sum of |u|^2
    C becomes active  each side k takes the part A(k) / A(C) of |d|^2 and |u|^2; what its own joint has missed cannot be
                      made good. It is credited to the joint for about a horizon, so that it can gain velocity before it
                      competes with joints that move already.

U fades within a horizon or two, as velocities do that nothing drives. No point of a node moves farther than the
diameter of a ball around all that its joints move: in the mass metric |d| is at most that times the root of the mass.

Predictions can be wrong: the contact forces of the last step would throw up a toe that stands on the ground, and a
stiff motor stops a joint at once. So each is tried: a joint that has become active with the acceleration a and has the
velocity v at the next update, t later, gets the trust (v / (a t))^2 if that is below a tenth, else 1. The trust in a
node is the mean over its joint and its sides, weighted by their parts in its metric when it was last visited. e is
multiplied by the trust in the node, the acceleration of a joint by the root of its own. Trust doubles every few
updates.
"""

from __future__ import annotations

import math

from limberjack._jit import inner, outlined
from limberjack.methods.adaptive.layout import (
    COUNT,
    DOUBLING,
    EXPECTED,
    HORIZON,
    JOINT_TRUST,
    MISSED_CD,
    MISSED_CU,
    MISSED_F1,
    MISSED_F2,
    MISSED_FX,
    MISSED_P1,
    MISSED_P2,
    MISSED_PX,
    MISSED_S1,
    MISSED_S2,
    NODE_TRUST,
    OWN_PART,
    REST,
    STAMP,
    TOTAL,
)
from limberjack.reduced.assembly_tree import (
    CURRENT,
    DOFS,
    ETA,
    FIRST_SIDE,
    HANDLES,
    PSI,
    PT,
    SECOND_SIDE,
    V,
    offset_of,
)
from limberjack.spatial.lanes import add, lane, load4, scale

__all__ = ["accumulate_missed", "pass_on_missed", "set_node_trust", "share_of", "trust_in"]

_DOUBTED, _LEAST = 0.1, 1e-9  # squared ratios of motion to prediction


@outlined
def _squared_norm(table, c, node, x, f, p, s):
    """Return F^T Psi F + F^T P + s^2 for F and P in columns f and p of row `node` of x; negative ones are rounding."""
    psi = offset_of(node, len(table) // 2) + PSI
    t0, t1, t2 = load4(x, node, p), load4(x, node, p + 4), load4(x, node, p + 8)
    n = 6 * table[node, HANDLES]
    for i in range(n):
        y, r = x[node, f + i], psi + 12 * i
        t0 = add(t0, scale(y, load4(c, 0, r)))
        t1 = add(t1, scale(y, load4(c, 0, r + 4)))
        t2 = add(t2, scale(y, load4(c, 0, r + 8)))
    total = s * s
    if n > 0:
        total += x[node, f] * lane(t0, 0) + x[node, f + 1] * lane(t0, 1)
        total += x[node, f + 2] * lane(t0, 2) + x[node, f + 3] * lane(t0, 3)
        total += x[node, f + 4] * lane(t1, 0) + x[node, f + 5] * lane(t1, 1)
    if n > 6:
        total += x[node, f + 6] * lane(t1, 2) + x[node, f + 7] * lane(t1, 3)
        total += x[node, f + 8] * lane(t2, 0) + x[node, f + 9] * lane(t2, 1)
        total += x[node, f + 10] * lane(t2, 2) + x[node, f + 11] * lane(t2, 3)
    return max(total, 0.0)


@inner
def _clear(node, g):
    for k in range(MISSED_FX):
        g.missed[node, k] = 0.0


@outlined
def _accumulate(table, c, limits, node, elapsed, g):
    """Integrate what a node of the rigid front misses over the time elapsed, and set what is predicted of it."""
    x, nb, horizon = g.missed, len(table) // 2, limits.horizon[HORIZON]
    if not g.held[node]:
        g.held[node] = 1
        _clear(node, g)
        elapsed = 0.0
    half, ahead, n = 0.5 * elapsed * elapsed, 0.5 * horizon * horizon, 6 * table[node, HANDLES]
    o = offset_of(node, nb)
    for k in range(n):
        f, p = g.forces[0, 12 * node + k], c[0, o + PT + 12 * CURRENT + k]
        x[node, MISSED_F2 + k] += elapsed * x[node, MISSED_F1 + k] + half * f
        x[node, MISSED_P2 + k] += elapsed * x[node, MISSED_P1 + k] + half * p
        x[node, MISSED_F1 + k] += elapsed * f
        x[node, MISSED_P1 + k] += elapsed * p
        x[node, MISSED_FX + k] = x[node, MISSED_F2 + k] + horizon * x[node, MISSED_F1 + k] + ahead * f
        x[node, MISSED_PX + k] = x[node, MISSED_P2 + k] + horizon * x[node, MISSED_P1 + k] + ahead * p
    # a root has no handles: all of its metric is in eta
    s = math.sqrt(max(c[0, o + ETA] if n > 0 else g.acceleration_metric[node], 0.0))
    x[node, MISSED_S2] += elapsed * x[node, MISSED_S1] + half * s
    x[node, MISSED_S1] += elapsed * s
    x[node, MISSED_CD] += elapsed * x[node, MISSED_CU]
    x[node, MISSED_CU] *= max(1.0 - elapsed / horizon, 0.0)
    s = x[node, MISSED_S2] + horizon * x[node, MISSED_S1] + ahead * s
    d = math.sqrt(_squared_norm(table, c, node, x, MISSED_FX, MISSED_PX, s))
    d += x[node, MISSED_CD] + horizon * x[node, MISSED_CU]
    if limits.mass[0] > 0:
        d = min(d, limits.farthest[node])
    now = g.acceleration_metric[node]
    if now < limits.horizon[REST]:
        # its joints would not move if they were free: what they have missed is over
        _clear(node, g)
        d = 0.0
    g.predicted[node] = max((d / ahead) ** 2, now)  # never less than what error_bounded=True bounds
    return now


@inner
def trust_in(limits, node, which, g):
    """Return the trust in the joint of a node, or in the node: it doubles with time."""
    trust = g.trust[node, which]
    if not 0.0 < trust < 1.0:
        return 1.0
    doublings = (g.counts[STAMP] - g.tried[node, which]) // max(int(limits.horizon[DOUBLING]), 1)
    for _ in range(doublings):
        trust *= 2.0
        if trust >= 1.0:
            return 1.0
    return trust


@inner
def set_node_trust(table, limits, node, g):
    """Set the trust in a rigid node that was visited: those of its joint and its sides by their parts in its metric."""
    own, total = 1.0, 0.0
    for side in range(2):
        k = table[node, FIRST_SIDE] if side == 0 else table[node, SECOND_SIDE]
        if k >= len(table) // 2:
            part = min(share_of(g.acceleration_metric[k], g.acceleration_metric[node]), own)
            own -= part
            total += part * trust_in(limits, k, NODE_TRUST, g)
    g.trust[node, OWN_PART] = own
    g.trust[node, NODE_TRUST] = total + own * trust_in(limits, node, JOINT_TRUST, g)
    g.tried[node, NODE_TRUST] = g.counts[STAMP]


@inner
def _try(table, node, elapsed, qd, g):
    """Set the trust in a joint that has become active at the last update, by its velocity now."""
    x, square = g.trust, 0.0
    for v in range(table[node, V], table[node, V] + table[node, DOFS]):
        square += qd[v] * qd[v]
    trust = square / (x[node, EXPECTED] * elapsed * elapsed)
    trust = 1.0 if trust > _DOUBTED else max(trust, _LEAST)
    x[node, JOINT_TRUST] = trust
    x[node, NODE_TRUST] = 1.0 - x[node, OWN_PART] * (1.0 - trust)
    x[node, EXPECTED] = 0.0
    g.tried[node, JOINT_TRUST] = g.tried[node, NODE_TRUST] = g.counts[STAMP]


@outlined
def accumulate_missed(table, c, roots, limits, mass, elapsed, qd, g):
    """Integrate what the nodes of the rigid front have missed in the time `elapsed`; fill `predicted`."""
    nb, total, horizon = len(table) // 2, 0.0, limits.horizon[HORIZON]
    fading = max(1.0 - 2.0 * elapsed / horizon, 0.0)
    for f in range(len(roots)):
        root = roots[f]
        if g.due[f] and not g.active_region[root]:
            if mass:
                g.acceleration_metric[root] = c[0, offset_of(root, nb) + ETA]
            total += _accumulate(table, c, limits, root, elapsed, g)
    for j in range(g.counts[COUNT]):
        node = g.active_nodes[j]
        g.credit[node] *= fading
        if g.trust[node, EXPECTED] > 0.0 and elapsed > 0.0:
            _try(table, node, elapsed, qd, g)
        for side in range(2):
            k = table[node, FIRST_SIDE] if side == 0 else table[node, SECOND_SIDE]
            if k >= nb and not g.active_region[k]:
                total += _accumulate(table, c, limits, k, elapsed, g)
    g.numbers[TOTAL] = total


@inner
def share_of(part, whole):
    """Return which part of what a node has missed is that of a side, by their metrics."""
    if not whole > 0.0:
        return 0.5
    return min(max(part / whole, 0.0), 1.0)


@inner
def _displacement(table, c, node, g):
    x = g.missed
    return math.sqrt(_squared_norm(table, c, node, x, MISSED_F2, MISSED_P2, x[node, MISSED_S2])) + x[node, MISSED_CD]


@inner
def _velocity(table, c, node, g):
    x = g.missed
    return math.sqrt(_squared_norm(table, c, node, x, MISSED_F1, MISSED_P1, x[node, MISSED_S1])) + x[node, MISSED_CU]


@outlined
def pass_on_missed(table, c, count, g):
    """Pass on what was missed at a change of the region among the `count` transient nodes.

    `active_region` is the old one; of the transient nodes those that do not stay are marked in `transient_region`, and
    their velocity metrics, as velocities squared, are in the first of the `sums`.
    """
    nb, x = len(table) // 2, g.missed
    for j in range(count):  # sides first
        node = g.transient_nodes[j]
        if not (g.transient_region[node] and g.active_region[node]):
            continue
        d = u = 0.0
        for side in range(2):
            k = table[node, FIRST_SIDE] if side == 0 else table[node, SECOND_SIDE]
            if k < nb:
                continue
            if g.active_region[k]:  # stopped as well; its velocities are in the metric of the node
                d += x[k, MISSED_CD] ** 2
                u += x[k, MISSED_FX]
            elif g.held[k]:
                d += _displacement(table, c, k, g) ** 2
                u += _velocity(table, c, k, g) ** 2
            g.held[k] = 0
        _clear(node, g)
        g.held[node] = 1
        g.credit[node] = 0.0
        x[node, MISSED_CD], x[node, MISSED_CU] = math.sqrt(d), math.sqrt(max(g.sums[node, 0], 0.0) + u)
        x[node, MISSED_FX] = u
    for j in range(count - 1, -1, -1):
        node = g.transient_nodes[j]
        if g.transient_region[node] or g.active_region[node]:
            continue
        d = u = 0.0
        if g.held[node]:
            d, u = _displacement(table, c, node, g), _velocity(table, c, node, g)
            g.held[node] = 0
        for side in range(2):
            k = table[node, FIRST_SIDE] if side == 0 else table[node, SECOND_SIDE]
            if k >= nb:
                part = math.sqrt(share_of(g.acceleration_metric[k], g.acceleration_metric[node]))
                _clear(k, g)
                g.held[k] = 1
                x[k, MISSED_CD], x[k, MISSED_CU] = part * d, part * u
