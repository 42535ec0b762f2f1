"""Long runs by impulses: what stands stands for good, and nothing ever passes a wall."""

from __future__ import annotations

import numpy as np
import pytest
from tests.collision.shots import new_shots, shoot

import limberjack as lj

pytestmark = pytest.mark.slow


def test_a_column_stands_for_a_minute():
    """A lone column of ten equal boxes, never asleep, drifts by at most 5 um in the minute after it has settled."""
    sim = lj.Simulation(lj.scenes.column(), lj.Impulses(sleeping=False), dt=1 / 240)
    sim.step(240)
    settled = sim.positions
    for _ in range(60):
        sim.step(240)
        assert np.abs(sim.positions - settled).max() <= 5e-6


def test_a_kapla_tower_stands_for_ten_minutes():
    """The tower of 102 planks stands 60,000 steps of 0.01 s, with sleep and without."""
    for method, steps in ((lj.Impulses(), 60_000), (lj.Impulses(sleeping=False), 60_000)):
        sim = lj.Simulation(lj.scenes.kapla_tower(), method, dt=0.01)
        start = sim.positions
        for _ in range(60):
            sim.step(steps // 60)
            assert np.abs(sim.positions - start).max() <= 1e-4


@pytest.mark.parametrize("dt", [1 / 60, 1 / 240])
def test_ten_thousand_shots_do_not_pass_a_wall(dt):
    """Of 10,000 bodies of all shapes and proportions shot at a wall of 2 cm at up to 1000 m/s none gets behind it."""
    rng, passed = np.random.default_rng(5), 0
    for e in (0.0, 0.3, 0.5, 1.0):
        model = new_shots(rng, 250, restitution=e)
        for _ in range(10):
            passed += shoot(model, rng, dt)[0]
    assert passed == 0


@pytest.mark.parametrize("ratio", [1e2, 1e4])
def test_heavy_stays_on_light(ratio):
    """A box of 10^4 times the mass lies on a light one for ten seconds, in it by less than a millimetre."""
    sim = lj.Simulation(lj.scenes.column(boxes=2, ratio=ratio), lj.Impulses(sleeping=False), dt=1 / 240)
    start = sim.positions
    for _ in range(10):
        sim.step(240)
        assert np.abs(sim.positions - start).max() < 1e-3 and sim.stats["penetration"] < 1e-3


def pinned(planks=30, pitch=0.2):
    """Return planks on hinges between two pins, in a flat zigzag a little longer than the way between them."""
    builder, above, before = lj.Builder("pinned"), "world", 0.0
    lean = float(np.arccos(0.98))
    for k in range(planks):
        here = lean if k % 2 else -lean
        builder.add_body(f"plank{k}", mass=6.0, inertia=(0.5, 0.017, 0.51))
        position = (0.0, 0.0, 0.0) if k == 0 else (0.5 * pitch, 0.0, 0.0)
        builder.add_joint_hinge(
            f"hinge{k}", above, f"plank{k}", axis=(0, 1, 0), position=position,
            position_in_child=(-0.5 * pitch, 0, 0), start=here - before,
        )  # fmt: skip
        above, before = f"plank{k}", here
    end = (0.98 * planks * pitch, 0.0, 0.0)
    builder.add_joint_hinge("end", "world", above, axis=(0, 1, 0), position=end, position_in_child=(0.5 * pitch, 0, 0))
    return builder.build()


def roped(links, slack, seed):
    """Return rods of masses up to a hundred times apart on ball joints between two pins, in a zigzag."""
    rng, lean, pitch = np.random.default_rng(seed), float(np.arccos(slack)), 0.2
    builder, above, before = lj.Builder("roped"), "world", 0.0
    for k in range(links):
        here, m = lean if k % 2 else -lean, float(10 ** rng.uniform(-1, 1))
        half = 0.5 * (here - before)
        builder.add_body(f"rod{k}", mass=m, inertia=(0.002 * m, 0.004 * m, 0.004 * m))
        builder.add_joint_ball(
            f"ball{k}", above, f"rod{k}", position=(0.5 * pitch if k else 0.0, 0, 0),
            position_in_child=(-0.5 * pitch, 0, 0), start=(np.cos(half), 0.0, np.sin(half), 0.0),
        )  # fmt: skip
        above, before = f"rod{k}", here
    ends = {"position": (slack * links * pitch, 0, 0), "position_in_child": (0.5 * pitch, 0, 0)}
    builder.add_joint_ball("end", "world", above, **ends)
    return builder.build()


@pytest.mark.parametrize(
    "model", [pinned(10), pinned(30), roped(6, 0.9, 2), roped(20, 0.98, 1), roped(50, 0.95, 1)],
    ids=["10 planks", "30 planks", "6 rods", "20 rods", "50 rods"],
)  # fmt: skip
def test_energy_of_chains_that_snap_taut(model):
    """Chains pinned at both ends fall, snap straight and rebound: energy rises by at most 2.5 % of what they released.

    Straight between two pins their rows depend on each other, and impulses have no bounds: substeps of one length alone
    would gain up to 60 % in three seconds.
    """
    sim = lj.Simulation(model, lj.Impulses(sleeping=False), dt=1 / 60)
    start, highest, released = sim.energy(), 0.0, 0.0
    for _ in range(180):
        sim.step()
        energy = sim.energy()
        highest = max(highest, energy.total - start.total)
        released = max(released, start.potential - energy.potential)
    assert highest < 0.025 * released and energy.total - start.total > -0.12 * released
    assert sim.joint_error().metres < 1e-6
