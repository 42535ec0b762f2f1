"""Controls to joint forces and targets of motors, in one call."""

from __future__ import annotations

from limberjack._jit import kernel

__all__ = ["set_control"]


@kernel
def set_control(
    # model
    limits, plain, coefficients, joint_limits, rows, bases, entries, weights,
    # in
    given, applied,
    # out
    control, actuated, tau, scalar, targets, path,
):  # fmt: skip
    """Set controls: joint forces of actuators without bias, and targets of motors.

    Return the sum of the squares of all joint forces, or -1 if a control is not finite; nothing is changed then.

    limits: per actuator, range of its control, gain, bias, range of its force. plain, coefficients: actuator and dof of
    each joint force, and its coefficient. joint_limits: range of the actuators' force per dof. rows, bases: drive row
    and column of each target, and its value without controls. entries, weights: target and actuator of each term of a
    target, and its weight. applied: joint forces beside those of the actuators. targets, path: per drive row, the last
    target and how far it has moved; none are kept where they are empty.
    """
    for i in range(len(given)):
        if not (-1e300 < given[i] < 1e300):
            return -1.0
    for i in range(len(given)):
        control[i] = given[i]
    for v in range(len(actuated)):
        actuated[v] = 0.0
    for k in range(len(plain)):
        i = plain[k, 0]
        u = min(max(control[i], limits[i, 0]), limits[i, 1])
        f = min(max(limits[i, 2] * u + limits[i, 3], limits[i, 4]), limits[i, 5])
        actuated[plain[k, 1]] += coefficients[k] * f
    size = 0.0
    for v in range(len(actuated)):
        actuated[v] = min(max(actuated[v], joint_limits[v, 0]), joint_limits[v, 1])
        tau[v] = applied[v] + actuated[v]
        size += tau[v] * tau[v]
    for k in range(len(rows)):
        scalar[rows[k, 0], rows[k, 1]] = bases[k]
    for k in range(len(entries)):
        i, row = entries[k, 1], entries[k, 0]
        u = min(max(control[i], limits[i, 0]), limits[i, 1])
        scalar[rows[row, 0], rows[row, 1]] += weights[k] * u
    for k in range(len(rows)):
        row = rows[k, 0]
        if rows[k, 1] == 9 and row < len(targets):
            path[row] += abs(scalar[row, 9] - targets[row])
            targets[row] = scalar[row, 9]
    return size
