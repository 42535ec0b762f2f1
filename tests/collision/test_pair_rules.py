"""Friction of two shapes by their rules, and pairs of shapes that are excluded."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj


def box_on_slope(rule, degrees=15.0):
    angle = np.radians(degrees)
    turn = (np.cos(angle / 2), 0.0, np.sin(angle / 2), 0.0)
    b = lj.Builder("slope")
    b.add_shape_plane("world", rotation=turn, friction=1.0)
    normal = np.array([np.sin(angle), 0.0, np.cos(angle)])
    b.add_body("box", mass=1.0, inertia=(0.01, 0.01, 0.01), position=0.05 * normal, rotation=turn)
    b.add_shape_box("box", (0.2, 0.2, 0.1), friction=0.0, friction_rule=rule)
    return b.build()


@pytest.mark.parametrize(("rule", "slides"), [("mean", True), ("max", False)])
def test_friction_of_two_shapes(rule, slides):
    """A box without friction on a rough slope slides by the geometric mean, at g sin(15), and stays by the larger."""
    sim = lj.Simulation(box_on_slope(rule), dt=1 / 240)
    sim.step(120)
    speed = float(np.linalg.norm(sim.velocities[0, 3:]))
    assert speed == pytest.approx(9.81 * np.sin(np.radians(15.0)) * sim.time, rel=0.02) if slides else speed < 1e-3


def test_rules_and_names_are_checked():
    """An unknown rule and shapes that are not there are refused."""
    b = lj.Builder("m")
    b.add_body("a", mass=1.0, inertia=(1, 1, 1))
    with pytest.raises(lj.ModelError, match='friction_rule of shape "a:sphere0" must be "mean" or "max"'):
        b.add_shape_sphere("a", 0.1, friction_rule="least")
    b.add_shape_sphere("a", 0.1, name="s")
    with pytest.raises(lj.UnknownName, match='no shape "t"'):
        b.exclude_shapes("s", "t")


def test_excluded_shapes_do_not_collide():
    """Of two shapes on a body the one that is excluded from the ground passes through it."""
    b = lj.Builder("m")
    b.add_shape_plane("world", name="ground")
    b.add_body("a", mass=1.0, inertia=(1, 1, 1))
    b.add_shape_sphere("a", 0.1, position=(0, 0, 0), name="low")
    b.add_shape_sphere("a", 0.1, position=(0, 0, 0.5), name="high")
    still = [[1.0, 0.0, 0.0, 0.0]]
    assert lj.CollisionQuery(b.build()).find([[0.0, 0.0, -0.45]], still) == 2
    b.exclude_shapes("ground", "low")
    query = lj.CollisionQuery(b.build())
    assert query.find([[0.0, 0.0, -0.45]], still) == 1 and query.find([[0.0, 0.0, 0.05]], still) == 0
