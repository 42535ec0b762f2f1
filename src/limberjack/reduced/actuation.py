"""Controls to joint forces and targets of motors, in one call; forces of actuators and tendons that couple joints."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._bound import arguments_of
from limberjack._jit import inner, kernel
from limberjack.model.arrays import Drives

__all__ = ["Actuation", "Transmissions", "apply_coupled", "set_control"]

# Columns of `Actuation.limits`, and of a scalar drive row.
LOW, HIGH, GAIN, BIAS, LEAST, MOST = range(6)
KP, KD, TARGET, VELOCITY = 7, 8, 9, 10


class Actuation(NamedTuple):
    """Actuators of a model, what they are set to and what they set; m actuators, nv dofs, s drive rows."""

    limits: np.ndarray  # (m, 6) range of the control, gain, bias, range of the force
    plain: np.ndarray  # (p, 2) actuator and dof of each joint force
    coefficients: np.ndarray  # (p,) of these
    joint_limits: np.ndarray  # (nv, 2) range of the actuators' force
    rows: np.ndarray  # (t, 2) drive row and column of each target
    bases: np.ndarray  # (t,) its value without controls
    entries: np.ndarray  # (e, 2) target and actuator of each term of a target
    weights: np.ndarray  # (e,) of these
    control: np.ndarray  # (m,) the controls as set
    beside: np.ndarray  # (nv,) joint forces beside those of the actuators
    actuated: np.ndarray  # (nv,) joint forces of actuators without bias
    tau: np.ndarray  # (nv,) all joint forces
    drives: Drives


class Transmissions(NamedTuple):
    """Actuators and springs of tendons that couple dofs: n actuators, then tendons, of sparse rows."""

    actuator: np.ndarray  # (n,) which actuators they are
    bias: np.ndarray  # (n, 3)
    springs: np.ndarray  # (t, 4) stiffness, damping, and the interval of lengths without force
    start: np.ndarray  # (n + t + 1,) first term of each element
    dof: np.ndarray  # (terms, 2) coordinate, -1 for none, and dof
    coefficient: np.ndarray  # (terms,)
    limits: np.ndarray  # (nv, 2) range of the actuators' force
    driven: np.ndarray  # (d, 2) dofs that they act on, and the drive rows of these, -1 for none
    total: np.ndarray  # (nv,) their force


@inner
def _clipped(x, low, high):
    return min(max(x, low), high)


@kernel
def set_control(bound, given, scalar, targets, path):
    """Set controls: joint forces of actuators without bias, and targets of motors.

    Return the sum of the squares of all joint forces, or -1 if a control is not finite; nothing is changed then.

    scalar: drive rows, whose targets are set. targets, path: per drive row, the last target and how far it has moved;
    none are kept where they are empty.
    """
    a = arguments_of(bound)
    limits, control, actuated, rows = a.limits, a.control, a.actuated, a.rows
    for i in range(len(given)):
        if not (-1e300 < given[i] < 1e300):
            return -1.0
    for i in range(len(given)):
        control[i] = given[i]
    for v in range(len(actuated)):
        actuated[v] = 0.0
    for k in range(len(a.plain)):
        i = a.plain[k, 0]
        u = _clipped(control[i], limits[i, LOW], limits[i, HIGH])
        f = _clipped(limits[i, GAIN] * u + limits[i, BIAS], limits[i, LEAST], limits[i, MOST])
        actuated[a.plain[k, 1]] += a.coefficients[k] * f
    size = 0.0
    for v in range(len(actuated)):
        actuated[v] = _clipped(actuated[v], a.joint_limits[v, 0], a.joint_limits[v, 1])
        a.tau[v] = a.beside[v] + actuated[v]
        size += a.tau[v] * a.tau[v]
    for k in range(len(rows)):
        scalar[rows[k, 0], rows[k, 1]] = a.bases[k]
    for k in range(len(a.entries)):
        i, row = a.entries[k, 1], a.entries[k, 0]
        u = _clipped(control[i], limits[i, LOW], limits[i, HIGH])
        scalar[rows[row, 0], rows[row, 1]] += a.weights[k] * u
    for k in range(len(rows)):
        row = rows[k, 0]
        if rows[k, 1] == TARGET and row < len(targets):
            path[row] += abs(scalar[row, TARGET] - targets[row])
            targets[row] = scalar[row, TARGET]
    return size


@inner
def _length(t, k, q):
    out = 0.0
    for j in range(t.start[k], t.start[k + 1]):
        if t.dof[j, 0] >= 0:
            out += t.coefficient[j] * q[t.dof[j, 0]]
    return out


@inner
def _rate(t, k, qd):
    out = 0.0
    for j in range(t.start[k], t.start[k + 1]):
        out += t.coefficient[j] * qd[t.dof[j, 1]]
    return out


@inner
def _apply(t, k, f):
    for j in range(t.start[k], t.start[k + 1]):
        t.total[t.dof[j, 1]] += t.coefficient[j] * f


@kernel
def apply_coupled(actuation, transmissions, q, qd):
    """Set joint forces and targets such that coupled actuators and tendons exert their forces at (q, qd).

    The drive rows of their dofs have a stiffness and damping that bounds theirs: the step is implicit in them.
    """
    a, t = arguments_of(actuation), arguments_of(transmissions)
    limits, n = a.limits, len(t.actuator)
    for d in range(len(t.driven)):
        t.total[t.driven[d, 0]] = 0.0
    for k in range(n):
        i = t.actuator[k]
        u = _clipped(a.control[i], limits[i, LOW], limits[i, HIGH])
        f = limits[i, GAIN] * u + t.bias[k, 0] + t.bias[k, 1] * _length(t, k, q) + t.bias[k, 2] * _rate(t, k, qd)
        _apply(t, k, _clipped(f, limits[i, LEAST], limits[i, MOST]))
    for d in range(len(t.driven)):
        v = t.driven[d, 0]
        t.total[v] = _clipped(t.total[v], t.limits[v, 0], t.limits[v, 1])
    for k in range(len(t.springs)):
        length = _length(t, n + k, q)
        stretch = length - _clipped(length, t.springs[k, 2], t.springs[k, 3])
        _apply(t, n + k, -t.springs[k, 0] * stretch - t.springs[k, 1] * _rate(t, n + k, qd))
    for v in range(len(a.tau)):
        a.tau[v] = a.beside[v] + a.actuated[v]
    scalar = a.drives.scalar
    for d in range(len(t.driven)):
        v, row = t.driven[d, 0], t.driven[d, 1]
        kp = scalar[row, KP] if row >= 0 else 0.0
        kd = scalar[row, KD] if row >= 0 else 0.0
        if kp > 0.0:
            scalar[row, TARGET] = q[a.drives.indices[row, 0]] + (t.total[v] + kd * qd[v]) / kp
        elif kd > 0.0:
            scalar[row, VELOCITY] = qd[v] + t.total[v] / kd
        else:
            a.tau[v] += t.total[v]
