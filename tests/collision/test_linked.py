"""Rings linked in one another stay linked: three mesh tori in a chain, hung up, swinging and spinning."""

from __future__ import annotations

import numpy as np
import pytest
from tests.naive import solids

import limberjack as lj
from limberjack.spatial.frames import matrix_from_quaternion

MAJOR, MINOR = 0.1, 0.02
UPRIGHT = {"y": (np.sqrt(0.5), np.sqrt(0.5), 0.0, 0.0), "x": (np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0)}


def chain():
    """Return three tori, each through the one before; the first is held, the others are thrown."""
    builder = lj.Builder("linked")
    vertices, faces = solids.torus(MAJOR, MINOR, 32, 16)
    apart = 2.0 * (MAJOR - MINOR) - 0.002
    for k, axis in enumerate("yxy"):
        place = (0.0, 0.0, -apart * k)
        body = "world" if k == 0 else f"ring{k}"
        if k:
            builder.add_body(body)
            builder.add_joint_free(
                f"flight{k}", "world", body, start=(*place, *UPRIGHT[axis]),
                start_velocity=(0.7 * k, 0.4 * k, 0.0, 1.0, 5.0, 3.0),
            )  # fmt: skip
            builder.add_shape_mesh(body, vertices=vertices, faces=faces)
        else:
            builder.add_shape_mesh(body, vertices=vertices, faces=faces, position=place, rotation=UPRIGHT[axis])
    return builder.build()


def poses(sim):
    """Return centres (3, 3) and rotations (3, 3, 3) of the tori."""
    turns = [matrix_from_quaternion(np.array(UPRIGHT["y"])), *(matrix_from_quaternion(q) for q in sim.rotations)]
    return np.vstack([np.zeros(3), sim.positions]), np.array(turns)


def linking(middles, turns, a, b):
    """Return the linking number of the centre circles of tori a and b."""
    t = np.linspace(0.0, 2.0 * np.pi, 721)
    circle = MAJOR * np.column_stack([np.cos(t), np.sin(t), 0.0 * t]) @ turns[b].T + middles[b]
    local = (circle - middles[a]) @ turns[a]
    high = local[:, 2]
    at = np.flatnonzero((high[:-1] < 0.0) != (high[1:] < 0.0))
    share = high[at] / (high[at] - high[at + 1])
    across = local[at, :2] + share[:, None] * (local[at + 1, :2] - local[at, :2])
    inside = np.linalg.norm(across, axis=1) < MAJOR
    return int(np.sign(high[at + 1] - high[at])[inside].sum())


def swing(seconds):
    sim = lj.Simulation(chain(), lj.Impulses(sleeping=False), dt=1 / 240)
    first = [linking(*poses(sim), a, b) for a, b in ((0, 1), (1, 2), (0, 2))]
    assert [abs(n) for n in first] == [1, 1, 0]
    start, deepest = sim.energy().total, 0.0
    for _ in range(round(seconds * 20)):
        sim.step(12)
        assert [linking(*poses(sim), a, b) for a, b in ((0, 1), (1, 2), (0, 2))] == first
        deepest = max(deepest, sim.stats["penetration"])
    return sim, start, deepest


def test_linked_rings_stay_linked():
    """Thrown, three linked tori swing for two seconds: none leaves the other, none goes in by a quarter of its tube."""
    sim, start, deepest = swing(2.0)
    assert deepest < 0.25 * MINOR
    assert sim.energy().total < start
    assert sim.contacts()


@pytest.mark.slow
def test_linked_rings_stay_linked_for_a_minute():
    """The same for a minute; in the end they hang, as low as their tubes allow."""
    sim, start, deepest = swing(60.0)
    assert deepest < 0.25 * MINOR and sim.energy().total < start
    assert sim.positions[1, 2] == pytest.approx(-4.0 * (MAJOR - MINOR), abs=0.01)
