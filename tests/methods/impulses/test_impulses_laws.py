"""Impulses against closed forms: sliding, rolling and stopping, convergence with the step, overlaps, threads, sleep."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from tests.methods.impulses.test_impulses import DT, G, box, on_ground, running

import limberjack as lj


def ball(friction, *, radius=0.1, slope=0.0, rotation=0.0):
    """Return a ball on a plane; gravity leans by `slope` towards the direction `rotation`."""
    down = (G * np.sin(slope) * np.cos(rotation), G * np.sin(slope) * np.sin(rotation), -G * np.cos(slope))
    builder = lj.Builder("ball", gravity=down)
    builder.add_shape_plane("world", friction=friction)
    builder.add_body("ball", mass=1.0, inertia=(0.4 * radius**2,) * 3, position=(0.0, 0.0, radius))
    builder.add_shape_sphere("ball", radius, friction=friction)
    return builder.build()


@pytest.mark.parametrize("angle", [0.0, 0.5, 2.5])
def test_a_ball_slides_for_as_long_as_it_should(angle):
    """A ball thrown at v without spin slides 2 v / (7 mu g) seconds and rolls at 5/7 v then, whatever its direction."""
    mu, v = 0.2, 2.0
    sim, slid = running(ball(mu), resistance=0.0), 0.0
    sim.qd = [v * np.cos(angle), v * np.sin(angle), 0, 0, 0, 0]
    while np.linalg.norm(sim.velocities[0, 3:] + np.cross(sim.velocities[0, :3], [0, 0, -0.1])) > 1e-3 * v:
        sim.step()
        slid = sim.time
        assert slid < 2.0
    assert slid == pytest.approx(2.0 * v / (7.0 * mu * G), abs=1.01 * DT)
    sim.step(round((1.0 - sim.time) / DT))
    time = 2.0 * v / (7.0 * mu * G)
    distance = v * time - 0.5 * mu * G * time**2 + 5.0 / 7.0 * v * (1.0 - time)
    assert np.hypot(*sim.positions[0, :2]) == pytest.approx(distance, rel=5e-3)
    assert abs(np.cos(angle) * sim.positions[0, 1] - np.sin(angle) * sim.positions[0, 0]) < 1e-6


@pytest.mark.parametrize("angle", [0.0, 0.8, 4.0])
def test_a_ball_rolls_down_a_slope(angle):
    """A ball on a slope rolls 1/2 (5/7) g sin a t^2, in any direction, and does not slip below tan a = 7/2 mu."""
    slope = 0.3
    sim = running(ball(0.3, slope=slope, rotation=angle), resistance=0.0)
    sim.step(240)
    along = sim.positions[0, :2] @ [np.cos(angle), np.sin(angle)]
    assert along == pytest.approx(0.5 * 5.0 / 7.0 * G * np.sin(slope), rel=1e-4)
    assert sim.positions[0, 2] == pytest.approx(0.1, abs=1e-9)
    slip = sim.velocities[0, 3:] + np.cross(sim.velocities[0, :3], [0, 0, -0.1])
    assert np.linalg.norm(slip) < 1e-6


def test_distances_converge_with_the_step():
    """Stopping, sliding and slowing distances come nearer to the closed forms as the step shrinks."""
    errors = {"stop": [], "slope": [], "roll": []}
    for dt in (1 / 60, 1 / 240, 1 / 960):
        sim = running(on_ground(friction=0.3), dt=dt)
        sim.qd = [2 * np.cos(0.3), 2 * np.sin(0.3), 0, 0, 0, 0]
        sim.step(round(1.0 / dt))
        errors["stop"].append(abs(np.hypot(*sim.positions[0, :2]) / (4.0 / (0.6 * G)) - 1.0))
        sim = running(on_ground(0.8), dt=dt)
        sim.step(round(1.0 / dt))
        far = 0.5 * G * (np.sin(0.8) - 0.5 * np.cos(0.8))
        errors["slope"].append(abs(sim.positions[0, 0] / far - 1.0))
        sim = running(ball(0.2), dt=dt, resistance=0.0)
        sim.qd = [2.0, 0, 0, 0, 0, 0]
        sim.step(round(1.0 / dt))
        time = 4.0 / (7.0 * 0.2 * G)
        errors["roll"].append(abs(sim.positions[0, 0] / (2.0 * time - 0.1 * G * time**2 + (1.0 - time) / 0.7) - 1.0))
    for found in errors.values():
        assert found[1] < 5e-3 and found[2] < max(0.5 * found[0], 1e-6)


@pytest.mark.parametrize("method", ["impulses", "full", "multipliers"])
def test_deep_overlaps_part_gently(method):
    """Shapes that start deep in each other part at no more than the depth per tenth of a second, in every method."""
    builder = lj.Builder("deep", gravity=(0, 0, 0))
    for name, x in (("a", 0.0), ("b", 0.16)):
        builder.add_body(name, mass=1.0, inertia=(0.004,) * 3, position=(x, 0.0, 0.0))
        builder.add_shape_sphere(name, 0.1, friction=0.0)
    sim, deepest = lj.Simulation(builder.build(), method, dt=DT), 0.04
    for _ in range(120):
        sim.step()
        apart = sim.velocities[1, 3] - sim.velocities[0, 3]
        assert -1e-9 <= apart <= 1.001 * deepest / 0.1
    assert sim.positions[1, 0] - sim.positions[0, 0] > 0.19


def test_a_passive_pile_with_joints_gains_no_energy():
    """Chains that fall in a heap lose energy all the way, but for what the stated tolerance allows in a step."""
    builder = lj.Builder("heap")
    builder.add_shape_plane("world")
    for c in range(3):
        above = None
        for k in range(4):
            name, place = f"c{c}_{k}", (0.1 * c - 0.1, 0.15 * c, 0.3 + 0.3 * c)
            builder.add_body(name, mass=0.5, inertia=(3e-4, 1.2e-3, 1.2e-3), **({} if above else {"position": place}))
            builder.add_shape_capsule(name, 0.03, 0.1, rotation=(0.5**0.5, 0, 0.5**0.5, 0))
            if above:
                ends = {"position": (0.1, 0, 0), "position_in_child": (-0.1, 0, 0)}
                builder.add_joint_ball(f"j{name}", above, name, **ends)
            above = name
    sim = lj.Simulation(builder.build(), lj.Impulses(sleeping=False), dt=DT)
    start = sim.energy().total
    last, worst = start, 0.0
    for _ in range(480):
        sim.step()
        energy = sim.energy().total
        last, worst = energy, max(worst, energy - last)
    assert worst < 2e-3 * start
    assert last < 0.3 * start and np.abs(sim.qd).max() < 1.0


def test_free_collisions_of_balls_keep_momentum():
    """Spinning balls that rub and bounce off each other keep both momenta to 1e-12 of what they carry."""
    builder, rng = lj.Builder("balls", gravity=(0, 0, 0)), np.random.default_rng(5)
    for k in range(6):
        builder.add_body(f"b{k}", mass=1.0 + k, inertia=(0.004 * (1 + k),) * 3, position=rng.uniform(-0.5, 0.5, 3))
        builder.add_shape_sphere(f"b{k}", 0.1, restitution=0.5 * (k % 3), friction=0.5)
    sim = running(builder.build(), dt=1e-3)
    sim.qd = np.concatenate([np.r_[-2 * sim.positions[k], rng.normal(size=3)] for k in range(6)])
    before, touched = sim.momentum(), 0
    for _ in range(50):
        sim.step(10)
        touched += sum(np.linalg.norm(contact.impulse) > 0 for contact in sim.contacts())
    after = sim.momentum()
    carried = sum((1.0 + k) * 2.0 for k in range(6))
    assert touched > 0
    assert np.abs(after.linear - before.linear).max() < 1e-12 * carried
    assert np.abs(after.angular - before.angular).max() < 1e-12 * carried


SCRIPT = """
import limberjack as lj
for model, method in (
    (lj.scenes.box_pile(boxes=30, layers=3), lj.Impulses()),
    (lj.scenes.net(cells=2), lj.Impulses()),
    (lj.scenes.bridge(planks=6, blocks=2), lj.Impulses()),
):
    sim = lj.Simulation(model, method, dt=1 / 240)
    sim.step(100)
    print(sim.state_hash())
"""


@pytest.mark.slow
def test_threads_and_processes_give_the_same_bits():
    """Piles, nets and bridges end in the same bits with one thread and two, in processes with other hash seeds."""
    found = set()
    for threads, seed in (("1", "0"), ("2", "77")):
        own = {"NUMBA_NUM_THREADS": threads, "PYTHONHASHSEED": seed}
        paths = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=os.environ | own | paths, capture_output=True, text=True, timeout=500
        )
        assert done.returncode == 0, done.stderr
        found.add(done.stdout)
    assert len(found) == 1 and len(found.pop().split()) == 3


def test_sleep_is_in_snapshots():
    """A snapshot of boxes asleep, and of boxes about to fall asleep, goes on bit for bit; a touch wakes them."""
    builder = lj.Builder("asleep")
    builder.add_shape_plane("world")
    for k in range(2):
        box(builder, f"low{k}", (0.5 * k, 0.0, 0.1))
        box(builder, f"high{k}", (0.5 * k, 0.0, 0.3))
    builder.add_body("ball", mass=5.0, inertia=(0.02,) * 3, position=(-3.0, 0.0, 0.3))
    builder.add_shape_sphere("ball", 0.1, friction=0.0)
    model = builder.build()
    sim = lj.Simulation(model, lj.Impulses(), dt=DT)
    sim.qd = [*np.zeros(24), 2.5, 0, 0, 0, 0, 0]
    hashes, snapshots = [], []
    for steps in (100, 40, 60, 120):
        snapshots.append((sim.snapshot(), steps))
        sim.step(steps)
        hashes.append((sim.state_hash(), sim.stats["asleep"]))
    assert max(count for _, count in hashes) == 4 and hashes[-1][1] < 4
    assert np.abs(sim.body("high0").position - (0.0, 0.0, 0.3)).max() > 1e-3
    for (snapshot, steps), there in zip(snapshots, hashes, strict=True):
        other = lj.Simulation(model, lj.Impulses(), dt=DT)
        other.restore(snapshot)
        other.step(steps)
        assert (other.state_hash(), other.stats["asleep"]) == there


def test_sleepers_with_joints_keep_their_forces():
    """Two capsules on a joint sleep on the ground while a box still falls: they stay, and are carried as before."""
    builder = lj.Builder("sleepers")
    builder.add_shape_plane("world")
    half = np.sqrt(0.5)
    builder.add_body("a", mass=0.3, inertia=(0.002, 0.002, 0.001), position=(1.2, 0, 0.04), rotation=(half, 0, half, 0))
    builder.add_body("b", mass=0.3, inertia=(0.002, 0.002, 0.001))
    for name in "ab":
        builder.add_shape_capsule(name, radius=0.04, length=0.15)
    builder.add_joint_ball("joint", "a", "b", position=(0, 0, 0.13), position_in_child=(0, 0, -0.13))
    builder.add_body("box", mass=1.0, inertia=(0.01,) * 3, position=(0, 0, 20.0))
    builder.add_shape_box("box", (0.2, 0.2, 0.2))
    sim = lj.Simulation(builder.build(), "impulses", dt=1 / 240)
    sim.step(300)
    assert sim.stats["asleep"] == 2
    places = sim.positions[:2].copy()
    sim.step(100)
    assert sim.stats["asleep"] == 2
    assert (sim.positions[:2] == places).all() and not sim.velocities[:2].any()
    carried = sum(contact.force[2] for contact in sim.contacts() if contact.bodies[0] in "ab")
    assert carried == pytest.approx(0.6 * 9.81, rel=1e-6)


@pytest.mark.parametrize("dt", [1e-3, 1 / 240, 1 / 60])
@pytest.mark.parametrize("kind", ["hinge", "ball"])
def test_a_straight_chain_pinned_at_both_ends_stays(kind, dt):
    """A chain as long as the distance of its pins cannot move: it hangs still, to what gaps of 1e-8 m allow."""
    builder = lj.Builder("straight")
    axis = {"axis": (0, 1, 0)} if kind == "hinge" else {}
    for k in range(10):
        builder.add_body(f"link{k}", mass=0.1, com=(0.05, 0, 0), inertia=(1e-5, 1e-4, 1e-4))
        above, at = ("world", 0.0) if k == 0 else (f"link{k - 1}", 0.1)
        builder.add_joint(kind, f"pin{k}", above, f"link{k}", position=(at, 0, 0), **axis)
    builder.add_joint(kind, "end", "world", "link9", position=(1, 0, 0), position_in_child=(0.1, 0, 0), **axis)
    sim = running(builder.build(), dt=dt)
    start = sim.energy().total
    for _ in range(20):
        sim.step(round(0.05 / dt))
        assert sim.energy().total - start < 1e-3
    assert np.abs(sim.positions[:, 2]).max() < 3e-4
    assert sim.joint_error().metres <= 1.1e-8
