"""Scenes of things that touch do what they are there for: towers stand, dominoes fall, joints hold among contacts."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj

AWAKE = lj.Impulses(sleeping=False)


@pytest.mark.parametrize(
    "name,most", [("arch", 1e-3), ("card_house", 2e-4), ("kapla_tower", 1e-6), ("column", 1e-6)]
)  # fmt: skip
def test_what_stands_stands_still(name, most):
    """An arch, a house of cards, a tower and a column settle by less than a little and then do not move."""
    scene = lj.scenes.get(name)
    sim = lj.Simulation(scene.model, AWAKE, dt=scene.dt)
    start = sim.positions
    sim.step(round(1.0 / scene.dt))
    settled = sim.positions
    sim.step(round(2.0 / scene.dt))
    assert np.abs(settled - start).max() <= most
    assert np.abs(sim.positions - settled).max() <= 1e-6


def test_a_thin_arch_falls():
    """Below a ninth of its radius no thickness holds an arch up."""
    sim = lj.Simulation(lj.scenes.arch(thickness=0.06, friction=1.0), AWAKE, dt=1 / 240)
    start = sim.positions
    sim.step(480)
    assert np.abs(sim.positions - start).max() > 0.1


def test_dominoes_fall_one_after_the_other():
    """The push runs through the row: every domino ends lower than it stood, the last one falls last."""
    scene = lj.scenes.get("dominoes", count=10)
    sim = lj.Simulation(scene.model, AWAKE, dt=scene.dt)
    fallen = np.full(10, np.inf)
    for k in range(240):
        sim.step(2)
        down = sim.positions[:, 2] < 0.8 * 0.024
        fallen[down] = np.minimum(fallen[down], k)
    assert np.isfinite(fallen).all() and fallen[-1] == fallen.max() and fallen[0] == fallen.min()


def test_boxes_settle_at_any_step():
    """A pile of boxes comes to rest, looked at four times per frame as well as once."""
    for dt in (1 / 60, 1 / 240):
        sim = lj.Simulation(lj.scenes.box_pile(boxes=125), AWAKE, dt=dt)
        sim.step(round(6.0 / dt))
        assert np.abs(sim.qd).max() < 1e-4 and sim.stats["penetration"] < 1e-3


def test_letters_stay_on_the_door():
    """Letters slide down the door into a pile: none leaves its plane, none passes the ledge."""
    scene = lj.scenes.get("fridge_magnets", letters=30)
    sim = lj.Simulation(scene.model, scene.method, dt=scene.dt)
    high = sim.positions[:, 2].mean()
    sim.step(480)
    assert sim.joint_error().metres < 1e-9 and np.abs(sim.positions[:, 1]).max() < 1e-9
    assert 0.0 < sim.positions[:, 2].min() and sim.positions[:, 2].mean() < 0.8 * high


@pytest.mark.parametrize("options", [{"blocks": 6}, {"chains": 4}])
def test_a_loaded_bridge_holds_together(options):
    """A bridge with blocks on it or chains below swings with its hinges closed, and nothing falls through."""
    scene = lj.scenes.get("bridge", planks=20, **options)
    sim = lj.Simulation(scene.model, scene.method, dt=scene.dt)
    for _ in range(60):
        sim.step(4)
        assert sim.joint_error().metres < 1e-6
    assert np.isfinite(sim.q).all() and np.abs(sim.velocities).max() < 100.0
    for k in range(options.get("blocks", 0)):
        place = sim.positions[sim.model.body_index(f"block{k}_0")]
        nearest = np.argmin(np.abs(sim.positions[:20, 0] - place[0]))
        assert place[2] > sim.positions[nearest, 2]


@pytest.mark.slow
def test_a_net_catches_blocks():
    """Blocks fall into the net and stay in it, its joints closed."""
    scene = lj.scenes.get("net", cells=6, blocks=2)
    sim = lj.Simulation(scene.model, scene.method, dt=scene.dt)
    for _ in range(60):
        sim.step(4)
        assert sim.joint_error().metres < 1e-6
    blocks = sim.positions[-2:]
    assert blocks[:, 2].min() > sim.positions[:-2, 2].min() - 0.2
