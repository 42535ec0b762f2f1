"""Moving coordinates along velocities: scalars add, quaternions turn; the stages of Runge-Kutta steps."""

from __future__ import annotations

import math

from limberjack._jit import inner
from limberjack.model.arrays import COORDINATE, DOF, QUATERNION, RUN
from limberjack.spatial.quaternions import quaternion_exp, quaternion_multiply

__all__ = ["add_stage", "advance", "begin_stages", "end_stages", "explicit_step", "stage_weight"]


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


@inner
def explicit_step(links, span, first, h, qdd, q, qd):
    """Add h qdd to qd and h qd to q, which moves `first`, by the velocity before the step, or by the one after it."""
    if first:
        advance(links, span, h, qd, q)
    for v in range(span[DOF], span[DOF + 1]):
        qd[v] += h * qdd[v]
    if not first:
        advance(links, span, h, qd, q)


@inner
def begin_stages(span, q, qd, b):
    """Begin a classical Runge-Kutta step: sums of 0, and the first stage at the state."""
    for i in range(span[COORDINATE], span[COORDINATE + 1]):
        b.q_sum[i] = 0.0
        b.q_stage[i] = q[i]
    for v in range(span[DOF], span[DOF + 1]):
        b.qd_sum[v] = 0.0
        b.qd_stage[v] = qd[v]


@inner
def stage_weight(stage):
    """Return the weight of a stage, 0 to 3."""
    return (1.0 if stage == 0 or stage == 3 else 2.0) / 6.0


@inner
def add_stage(links, span, stage, h, q, qd, b):
    """Add the rates at a stage, b.qdd among them, to the sums, and set the next stage; return how far ahead it is."""
    q_stage, qd_stage, q_sum, qd_sum, rates, qdd = b.q_stage, b.qd_stage, b.q_sum, b.qd_sum, b.rates, b.qdd
    weight, ahead = stage_weight(stage), 0.5 * h if stage < 2 else h
    coordinate_rates(links, span, q_stage, qd_stage, rates)
    for i in range(span[COORDINATE], span[COORDINATE + 1]):
        q_sum[i] += weight * rates[i]
        q_stage[i] = q[i] + ahead * rates[i]
    for v in range(span[DOF], span[DOF + 1]):
        qd_sum[v] += weight * qdd[v]
        qd_stage[v] = qd[v] + ahead * qdd[v]
    return ahead


@inner
def end_stages(links, span, h, b, q, qd):
    """End a Runge-Kutta step: move the state by the sums."""
    for i in range(span[COORDINATE], span[COORDINATE + 1]):
        q[i] += h * b.q_sum[i]
    for v in range(span[DOF], span[DOF + 1]):
        qd[v] += h * b.qd_sum[v]
    normalize(links, span, q)
