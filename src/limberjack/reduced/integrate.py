"""Moving coordinates along velocities: scalars add, quaternions turn."""

from __future__ import annotations

import math

from limberjack._jit import inner
from limberjack.model.arrays import QUATERNION, RUN
from limberjack.spatial.quaternions import quaternion_exp, quaternion_multiply

__all__ = ["advance", "coordinate_rates", "normalize"]


@inner
def advance(
    # model
    links,
    # in
    span, h, qd,
    # out
    q,
):  # fmt: skip
    """Move q by h qd: q += h qd, quaternions q <- q exp(h w) and renormalised."""
    runs, quaternions = links.runs, links.quaternions
    for j in range(span[RUN], span[RUN + 1]):
        v, k = runs[j, 0], runs[j, 1]
        for i in range(runs[j, 2]):
            q[k + i] += h * qd[v + i]
    for j in range(span[QUATERNION], span[QUATERNION + 1]):
        k, v = quaternions[j, 0], quaternions[j, 1]
        step = quaternion_exp(h * qd[v], h * qd[v + 1], h * qd[v + 2])
        w, x, y, z = quaternion_multiply((q[k], q[k + 1], q[k + 2], q[k + 3]), step)
        f = 1.0 / math.sqrt(w * w + x * x + y * y + z * z)
        q[k], q[k + 1], q[k + 2], q[k + 3] = f * w, f * x, f * y, f * z


@inner
def coordinate_rates(
    # model
    links,
    # in
    span, q, qd,
    # out
    rates,
):  # fmt: skip
    """Fill dq/dt (nq,): qd for scalars, q w / 2 for quaternions."""
    runs, quaternions = links.runs, links.quaternions
    for j in range(span[RUN], span[RUN + 1]):
        v, k = runs[j, 0], runs[j, 1]
        for i in range(runs[j, 2]):
            rates[k + i] = qd[v + i]
    for j in range(span[QUATERNION], span[QUATERNION + 1]):
        k, v = quaternions[j, 0], quaternions[j, 1]
        w, x, y, z = quaternion_multiply(
            (q[k], q[k + 1], q[k + 2], q[k + 3]), (0.0, 0.5 * qd[v], 0.5 * qd[v + 1], 0.5 * qd[v + 2])
        )
        rates[k], rates[k + 1], rates[k + 2], rates[k + 3] = w, x, y, z


@inner
def normalize(
    # model
    links,
    # in
    span,
    # out
    q,
):  # fmt: skip
    """Bring the quaternions in q back to length 1."""
    quaternions = links.quaternions
    for j in range(span[QUATERNION], span[QUATERNION + 1]):
        k = quaternions[j, 0]
        f = 1.0 / math.sqrt(q[k] * q[k] + q[k + 1] * q[k + 1] + q[k + 2] * q[k + 2] + q[k + 3] * q[k + 3])
        q[k], q[k + 1], q[k + 2], q[k + 3] = f * q[k], f * q[k + 1], f * q[k + 2], f * q[k + 3]
