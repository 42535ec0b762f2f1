"""Forces that turn with their bodies: what they add to inertias where a step is long beside the swing they cause.

A joint holds a body with force f at the lever l from its com. When the body turns by t the torque changes by
(t x l) x f, which swings a body under tension with the frequency w, w^2 = l f / I. Mode damped takes torques where the
free flight ends, which is stable up to (w h)^2 = 4/3 only: rods on strings flip to and fro at 12 steps a second however
exactly the joints are closed. Torques at the end of the step would be stable always; to first order those are

    (I + h^2 S) t = h^2 torque,   S = 2 sum of |f| |l| (1 - l l^T / l^2)

with the forces of the last step; twice, since neighbours at a joint swing against each other. S is cut down such that
(w h)^2 up to a half is left as it is: there the step is the paper's to the bit.
"""

from __future__ import annotations

import math

from limberjack._jit import inner, outlined
from limberjack.constraints.rows import LEVER_A, LEVER_B

__all__ = ["set_turning", "stiffen"]

# (w h)^2 that bodies may have.
_LONG = 0.5


@inner
def _add_lever(state, k, o, size, i, turning):
    """Add |f| |l| (1 - l l^T / l^2) for the lever at column o of pair k to body i."""
    x, y, z = state[k, o], state[k, o + 1], state[k, o + 2]
    square = x * x + y * y + z * z
    if square > 0.0:
        s = size * math.sqrt(square)
        g = s / square
        turning[i, 0] += s - g * x * x
        turning[i, 1] += s - g * y * y
        turning[i, 2] += s - g * z * z
        turning[i, 3] -= g * x * y
        turning[i, 4] -= g * x * z
        turning[i, 5] -= g * y * z


@outlined
def set_turning(
    # model
    table, system, held,
    # in
    scale, state, source, total,
    # out
    turning,
):  # fmt: skip
    """Fill h^2 S of all bodies.

    Args:
        table: rows of the model.
        system: the constraints.
        held: how many of them are joints.
        scale: squared ratio of this step to the last.
        state: of pairs.
        source: rows.
        total: multipliers of the last step, h^2 times forces.
        turning: (n, 6) xx yy zz xy xz yz.
    """
    for i in range(len(turning)):
        for k in range(6):
            turning[i, k] = 0.0
    for c in range(held):
        first, t = system.row_start[c], system.touch_start[c]
        k = table.row_pair[first, 0]
        if k < 0 or table.row_pair[first, 1] >= 0:
            continue
        x = y = z = 0.0
        for r in range(first, system.row_start[c + 1]):
            o = system.block_start[t] + 6 * (r - first) + 3
            x, y, z = x + source[o] * total[r], y + source[o + 1] * total[r], z + source[o + 2] * total[r]
        size = scale * math.sqrt(x * x + y * y + z * z)
        if table.pair_link[k, 0] >= 0:
            _add_lever(state, k, LEVER_A, size, table.pair_link[k, 0], turning)
        if table.pair_link[k, 1] >= 0:
            _add_lever(state, k, LEVER_B, size, table.pair_link[k, 1], turning)


@inner
def _invert(a, b, c, d, e, f):
    """Return the inverse of a symmetric matrix xx yy zz xy xz yz."""
    p, q, r = b * c - f * f, e * f - d * c, d * f - e * b
    g = 1.0 / (a * p + d * q + e * r)
    return g * p, g * (a * c - e * e), g * (a * b - d * d), g * q, g * r, g * (d * e - a * f)


@outlined
def stiffen(turning, minv):
    """Replace inverse inertias by those of I + h^2 S, where bodies swing fast beside the step."""
    for i in range(len(turning)):
        s, m = turning, minv
        fast = m[i, 0] * s[i, 0] + m[i, 1] * s[i, 1] + m[i, 2] * s[i, 2]
        fast += 2.0 * (m[i, 3] * s[i, 3] + m[i, 4] * s[i, 4] + m[i, 5] * s[i, 5])
        if not fast > _LONG or m[i, 0] * m[i, 1] * m[i, 2] == 0.0:
            continue
        f = 2.0 * (1.0 - _LONG / fast)
        own = _invert(m[i, 0], m[i, 1], m[i, 2], m[i, 3], m[i, 4], m[i, 5])
        new = _invert(
            own[0] + f * s[i, 0], own[1] + f * s[i, 1], own[2] + f * s[i, 2], own[3] + f * s[i, 3],
            own[4] + f * s[i, 4], own[5] + f * s[i, 5],
        )  # fmt: skip
        m[i, 0], m[i, 1], m[i, 2], m[i, 3], m[i, 4], m[i, 5] = new
