"""Inverse kinematics by weighted tasks: the least squares of SciPy, optimality at limits, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj

scipy_optimize = pytest.importorskip("scipy.optimize")


def arm(joints: int = 5, limit: float = 0.9) -> lj.Model:
    """A chain of rods with hinges about changing axes, within limits."""
    b = lj.Builder("arm")
    parent = "world"
    for k in range(joints):
        b.add_body(f"rod{k}", mass=1.0 + 0.3 * k, com=(0.0, 0.0, 0.2), inertia=(0.02, 0.02, 1e-3))
        axis = ((0, 1, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 1, 0))[k % 5]
        at = (0.0, 0.0, 0.4 if k else 0.0)
        b.add_joint_hinge(f"j{k}", parent, f"rod{k}", axis=axis, position=at, limits=(-limit, limit))
        parent = f"rod{k}"
    b.add_point("tip", parent, (0.0, 0.0, 0.4))
    return b.build()


def cost(model, q, weights, tip, com, posture):
    """The sum of squares that the tasks below minimise, written without the engine's Jacobians."""
    positions, rotations = lj.forward_kinematics(model, q)
    w, x, y, z = rotations[-1]
    up = np.array([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)])
    at = positions[-1] + 0.4 * up
    mass = np.array([1.0 + 0.3 * k for k in range(model.nv)])
    middle = lj.center_of_mass(model, q).position
    assert mass.sum() == pytest.approx(lj.center_of_mass(model, q).mass)
    return np.concatenate(
        [
            np.sqrt(weights[0]) * (at - tip),
            np.sqrt(weights[1]) * (middle - com)[:2],
            np.sqrt(weights[2]) * (q - posture),
        ]
    )


@pytest.mark.parametrize("seed", range(4))
def test_the_least_squares_of_scipy(seed):
    """Tip, center of mass over a point and posture: the cost is SciPy's within the same bounds."""
    model, rng = arm(), np.random.default_rng(seed)
    tip, com = rng.uniform(-0.8, 0.8, 3) + (0, 0, 1.0), rng.uniform(-0.3, 0.3, 3)
    posture, weights = rng.uniform(-0.5, 0.5, 5), (3.0, 1.0, 0.05)
    found = lj.pose(
        model, {"tip": tip}, q=posture, center_of_mass=(com[0], com[1], None), posture=posture,
        weights={"tip": weights[0], "center_of_mass": weights[1], "posture": weights[2]},
    )  # fmt: skip
    peer = scipy_optimize.least_squares(
        lambda q: cost(model, q, weights, tip, com, posture),
        posture,
        bounds=(-0.9, 0.9),
        xtol=1e-15,
        ftol=1e-15,
        gtol=1e-13,
    )
    mine = float(np.square(cost(model, found.q, weights, tip, com, posture)).sum())
    assert mine <= 2.0 * peer.cost * (1.0 + 1e-7) + 1e-12
    assert (np.abs(found.q) <= 0.9).all()
    assert found.targets["tip"] > 1e-3 and not found.closed


def test_at_limits_the_slope_points_outwards():
    """A tip pulled out of reach: coordinates at their limits would only go further, all others are optimal."""
    model = arm(limit=0.3)
    tip = np.array([1.5, 0.4, 0.2])
    found = lj.pose(model, {"tip": tip}, posture=np.zeros(5), weights={"posture": 1e-3})
    assert (np.abs(found.q) <= 0.3).all() and (np.abs(found.q) == 0.3).any()

    def value(q):
        return float(np.square(cost(model, q, (1.0, 0.0, 1e-3), tip, np.zeros(3), np.zeros(5))).sum())

    for k in range(5):
        step = 1e-6 * np.eye(5)[k]
        slope = (value(found.q + step) - value(found.q - step)) / 2e-6
        if abs(found.q[k]) == 0.3:
            assert slope * found.q[k] < 0.0
        else:
            assert slope == pytest.approx(0.0, abs=1e-6)


def test_a_figure_with_a_free_base():
    """Hands with rotations, a foot and the center of mass of a humanoid are met exactly where they can be."""
    model = lj.scenes.humanoid()
    rng = np.random.default_rng(2)
    there = lj.integrate(model, model.q0, 0.2 * rng.uniform(-1, 1, model.nv))
    low, high = model.arrays.limits.T
    for v, at, n in model.arrays.links.runs:
        there[at : at + n] = np.clip(there[at : at + n], low[v : v + n], high[v : v + n])
    positions, rotations = lj.forward_kinematics(model, there)
    pick = {name: model.body_index(name) for name in ("left_hand", "right_hand", "head")}
    targets = {name: (positions[b], rotations[b]) for name, b in pick.items()}
    com = lj.center_of_mass(model, there).position
    found = lj.pose(model, targets, center_of_mass=com, tolerance=1e-6)
    assert found.closed, found.targets
    assert lj.center_of_mass(model, found.q).position == pytest.approx(com, abs=1e-6)


def test_what_is_refused():
    """Unknown tasks, negative weights and loops are named."""
    model = arm()
    with pytest.raises(lj.UnknownName, match='no task "tap" in weights'):
        lj.pose(model, {"tip": (0, 0, 1)}, weights={"tap": 1.0})
    with pytest.raises(lj.StateError, match='weight of task "tip"'):
        lj.pose(model, {"tip": (0, 0, 1)}, weights={"tip": -1.0})
    with pytest.raises(lj.StateError, match="center_of_mass"):
        lj.pose(model, {"tip": (0, 0, 1)}, center_of_mass=(0.0, 0.0))
    with pytest.raises(lj.StateError, match="without loops"):
        four_bar = lj.scenes.four_bar()
        lj.pose(four_bar, {four_bar.body_names[0]: (0, 0, 1)}, posture=four_bar.q0)
