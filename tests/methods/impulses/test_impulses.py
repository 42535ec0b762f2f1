"""Impulses: restitution, friction, stacks and mass ratios against closed forms; sleep, grips, snapshots."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj

G = 9.81
DT = 1.0 / 240.0


def box(builder, name, position, *, size=(0.2, 0.2, 0.2), mass=4.0, **shape):
    x, y, z = size
    inertia = [mass / 12 * (y * y + z * z), mass / 12 * (x * x + z * z), mass / 12 * (x * x + y * y)]
    builder.add_body(name, mass=mass, inertia=inertia, position=position)
    builder.add_shape_box(name, size, **shape)


def on_ground(slope=0.0, friction=0.5, **shape):
    """Return one box on a plane; gravity leans by `slope`."""
    builder = lj.Builder("box", gravity=(G * np.sin(slope), 0.0, -G * np.cos(slope)))
    builder.add_shape_plane("world", friction=friction)
    box(builder, "box", (0.0, 0.0, 0.1), friction=friction, **shape)
    return builder.build()


def running(model, dt=DT, **options):
    return lj.Simulation(model, lj.Impulses(**({"sleeping": False} | options)), dt=dt)


def ball(restitution, height):
    builder = lj.Builder("ball")
    builder.add_shape_plane("world")
    builder.add_body("ball", mass=1.0, inertia=(0.004,) * 3, position=(0.0, 0.0, height + 0.1))
    builder.add_shape_sphere("ball", 0.1, restitution=restitution)
    return builder.build()


@pytest.mark.parametrize("e", [0.3, 0.5, 0.8, 1.0])
def test_a_ball_bounces_to_e_squared(e):
    """A ball dropped from h rises to e^2 h, and with e = 1 it never loses energy."""
    sim = running(ball(e, 1.0))
    heights = []
    for _ in range(480):
        sim.step()
        heights.append(sim.q[2] - 0.1)
    low = int(np.argmax(np.diff(heights) > 0))
    bounce = np.array(heights[low:])
    top = bounce[: int(np.argmax(np.diff(bounce) < 0)) + 2].max()
    assert abs(top - e * e) < 2e-4
    assert min(heights) > -1e-5
    if e == 1.0:
        assert sim.energy().total == pytest.approx(1.1 * G, abs=1e-9)


@pytest.mark.parametrize("angle", [0.0, 0.3, np.pi / 4, 2.0])
def test_a_sliding_box_stops_where_it_should(angle):
    """A box sliding at v stops after v^2 / (2 mu g), straight on, whatever its direction."""
    sim = running(on_ground(friction=0.3))
    sim.qd = [2 * np.cos(angle), 2 * np.sin(angle), 0, 0, 0, 0]
    sim.step(240)
    x, y, _ = sim.positions[0]
    distance = 4.0 / (2 * 0.3 * G)
    assert np.hypot(x, y) == pytest.approx(distance, rel=5e-3)
    assert abs(-np.sin(angle) * x + np.cos(angle) * y) < 1e-6
    assert np.abs(sim.qd).max() < 1e-9


@pytest.mark.parametrize("factor", [0.5, 0.9, 0.99])
def test_a_box_sticks_below_the_friction_angle(factor):
    """On a slope below the friction angle a box creeps less than a micrometre in the first ten seconds."""
    sim = running(on_ground(np.arctan(0.5 * factor)))
    before = sim.positions[0].copy()
    sim.step(2400)
    assert np.abs(sim.positions[0] - before).max() < 1e-6


def test_a_box_slides_above_the_friction_angle():
    """Above it, it slides by 1/2 a t^2 with a = g (sin - mu cos)."""
    slope = 0.8
    sim = running(on_ground(slope))
    sim.step(240)
    a = G * (np.sin(slope) - 0.5 * np.cos(slope))
    assert sim.positions[0, 0] == pytest.approx(0.5 * a, rel=5e-3)


def test_a_sliding_ball_comes_to_roll():
    """A ball thrown without spin rolls in the end at 5/7 of its speed, on friction of any size."""
    builder = lj.Builder("ball")
    builder.add_shape_plane("world", friction=0.2)
    builder.add_body("ball", mass=1.0, inertia=(0.004,) * 3, position=(0.0, 0.0, 0.1))
    builder.add_shape_sphere("ball", 0.1, friction=0.2)
    sim = running(builder.build(), resistance=0.0)
    sim.qd = [1.0, 0.5, 0, 0, 0, 0]
    sim.step(480)
    assert np.hypot(*sim.qd[:2]) == pytest.approx(5 / 7 * np.hypot(1.0, 0.5), rel=1e-3)
    assert np.hypot(*sim.positions[0, :2]) > 1.0


def test_free_collisions_keep_momentum():
    """Balls and boxes that collide in free space conserve linear and angular momentum to rounding."""
    builder = lj.Builder("free", gravity=(0, 0, 0))
    rng = np.random.default_rng(3)
    for k in range(6):
        box(builder, f"b{k}", rng.uniform(-0.4, 0.4, 3), restitution=0.7 * (k % 2), mass=1.0 + k)
    sim = running(builder.build(), dt=1e-3)
    sim.qd = np.concatenate([np.r_[-2 * sim.q[7 * k : 7 * k + 3], rng.normal(size=3)] for k in range(6)])
    before = sim.momentum()
    touched = 0
    for _ in range(40):
        sim.step(10)
        touched += sum(np.linalg.norm(contact.impulse) > 0 for contact in sim.contacts())
    after = sim.momentum()
    assert touched > 0
    assert np.abs(after.linear - before.linear).max() < 1e-11
    assert np.abs(after.angular - before.angular).max() < 1e-11


def test_a_column_stands_still():
    """A lone column of ten equal boxes neither drifts nor sinks."""
    sim = running(lj.scenes.column(boxes=10))
    sim.step(480)
    before = sim.positions.copy()
    sim.step(2400)
    assert np.abs(sim.positions - before).max() < 1e-6
    assert sim.stats["penetration"] < 1e-5


@pytest.mark.parametrize("gap", [0.005, 0.02])
def test_a_column_let_down_stands_still(gap):
    """Ten boxes that land on each other stand within a millimetre of where they should, still after two seconds."""
    builder = lj.Builder("column")
    builder.add_shape_plane("world")
    for k in range(10):
        box(builder, f"box{k}", (0.0, 0.0, 0.2 * (k + 0.5) + gap * (k + 1)), mass=1.0)
    sim = running(builder.build())
    sim.step(600)
    assert np.linalg.norm(sim.positions[:, :2], axis=1).max() < 1e-3
    assert np.abs(sim.velocities).max() < 1e-6


@pytest.mark.parametrize("boxes,seed,dt", [(125, 2, 1 / 240), (125, 3, 1 / 240), (500, 3, 1 / 60)])
def test_piles_come_to_rest(boxes, seed, dt):
    """Columns of boxes, lone and leaning on each other, are at rest after three seconds, awake and undamped."""
    sim = lj.Simulation(lj.scenes.box_pile(boxes=boxes, seed=seed), lj.Impulses(sleeping=False), dt=dt)
    sim.step(round(3 / dt))
    assert np.linalg.norm(sim.velocities[:, 3:], axis=1).max() < 1e-5
    assert sim.stats["penetration"] < 5e-4


@pytest.mark.parametrize("ratio", [1e2, 1e4, 1e6])
def test_heavy_on_light(ratio):
    """A heavy box on a light one sinks in by less than a millimetre at any ratio of masses."""
    sim = running(lj.scenes.column(boxes=2, ratio=ratio))
    sim.step(720)
    assert np.abs(sim.positions[:, 2] - [0.1, 0.3]).max() < 1e-3
    assert np.abs(sim.positions[:, :2]).max() < 1e-3


@pytest.mark.parametrize("factor,stands", [(0.99, True), (1.01, False)])
def test_overhanging_boxes_stand_or_fall(factor, stands):
    """Boxes that overhang by 1/2, 1/4, 1/6 of their length stand just inside that and fall just outside."""
    builder = lj.Builder("overhang")
    builder.add_shape_plane("world")
    x, places = 0.0, []
    for k in range(4):
        places.append(x)
        x += factor * 0.2 / (2 * (3 - k)) if k < 3 else 0.0
    for k, place in enumerate(places):
        box(builder, f"b{k}", (place, 0, 0.05 + 0.1 * k), size=(0.2, 0.2, 0.1))
    sim = running(builder.build())
    sim.step(960)
    assert (abs(sim.positions[3, 2] - 0.35) < 1e-3) == stands


def test_deep_overlap_resolves_gently():
    """Boxes half inside each other are pushed apart no faster than their overlap in a tenth of a second."""
    builder = lj.Builder("deep", gravity=(0, 0, 0))
    box(builder, "a", (0.0, 0.0, 0.0))
    box(builder, "b", (0.1, 0.02, 0.01))
    sim = running(builder.build())
    fastest = 0.0
    for _ in range(100):
        sim.step()
        fastest = max(fastest, float(np.linalg.norm(sim.qd.reshape(-1, 6)[:, :3], axis=1).max()))
    assert fastest < 1.1
    assert sim.stats["penetration"] < 0.02


def test_nothing_passes_a_thin_wall():
    """Balls shot at up to 1000 m/s at a wall of 2 cm stay on their side of it."""
    builder = lj.Builder("wall", gravity=(0, 0, 0))
    rng = np.random.default_rng(0)
    builder.add_shape_box("world", (0.02, 200.0, 200.0))
    for k in range(200):
        place = (-rng.uniform(0.06, 3.0), (k % 15 - 7) * 3.0, (k // 15 - 7) * 3.0)
        builder.add_body(f"ball{k}", mass=1.0, inertia=(0.001,) * 3, position=place)
        builder.add_shape_sphere(f"ball{k}", 0.05)
    sim = running(builder.build())
    speed = np.zeros((200, 6))
    speed[:, 0] = 10.0 ** rng.uniform(0.5, 3.0, 200)
    speed[:, 1:3] = rng.uniform(-0.3, 0.3, (200, 2)) * speed[:, :1]
    sim.qd = speed.ravel()
    sim.step(60)
    assert sim.positions[:, 0].max() < -0.01


def test_energy_never_rises_when_boxes_fall():
    """A falling pile loses energy; pushing columns apart that start 2 cm inside each other adds half a percent."""
    sim = running(lj.scenes.box_pile(boxes=27, layers=3, seed=1))
    energies = [sim.energy().total]
    for _ in range(60):
        sim.step(4)
        energies.append(sim.energy().total)
    rises = np.diff(energies)
    assert rises.max() < 5e-3 * energies[0] and rises[40:].max() < 1e-6 * energies[0]
    assert energies[-1] < energies[0]


def test_contacts_carry_the_weight():
    """The forces of the contacts of a resting box add up to its weight, and name both bodies."""
    sim = running(on_ground())
    sim.step(240)
    contacts = sim.contacts()
    assert len(contacts) == 4
    assert np.allclose(sum(contact.force for contact in contacts), [0, 0, 4 * G], atol=1e-6)
    for contact in contacts:
        assert contact.bodies == ("box", "world") and np.allclose(contact.normal, [0, 0, 1])
        assert abs(contact.depth) < 1e-4 and abs(contact.position[2]) < 1e-4


@pytest.mark.parametrize("method", ["impulses", "full", "multipliers"])
def test_contacts_keep_their_keys(method):
    """Contacts of a box that slides over the ground have different keys, the same from step to step."""
    sim = lj.Simulation(on_ground(), method, dt=DT)
    sim.qd = [1.0, 0.3, 0.0, 0.0, 0.0, 0.0]
    sim.step(2)
    names = [(contact.shapes, contact.key) for contact in sim.contacts()]
    assert len(set(names)) == len(names) == 4
    for _ in range(10):
        sim.step()
        assert [(contact.shapes, contact.key) for contact in sim.contacts()] == names


def test_sleeping_islands_wake_on_contact():
    """A box at rest falls asleep and stays where it is to the bit; a ball that hits it wakes it."""
    builder = lj.Builder("sleep")
    builder.add_shape_plane("world")
    box(builder, "box", (0.0, 0.0, 0.1))
    builder.add_body("ball", mass=2.0, inertia=(0.01,) * 3, position=(0.0, 0.0, 6.0))
    builder.add_shape_sphere("ball", 0.1)
    sim = running(builder.build(), sleeping=True)
    sim.step(200)
    assert sim.stats["asleep"] == 1 and sim.body("ball").velocity[5] < -5
    before = sim.body("box").position.copy()
    sim.step(20)
    assert np.array_equal(sim.body("box").position, before)
    sim.qd = np.where(np.arange(12) == 6, 1.0, sim.qd)
    sim.step(720)
    assert sim.stats["asleep"] in (1, 2)
    assert np.abs(sim.body("ball").position[:2]).max() > 0.05


def test_snapshots_and_hashes_are_exact():
    """A pile goes on bit for bit after restore, in another simulation too, asleep or not."""
    model = lj.scenes.box_pile(boxes=12, layers=3)
    sim = running(model, sleeping=True)
    sim.step(100)
    snapshot = sim.snapshot()
    sim.step(100)
    there = sim.state_hash()
    other = running(model, sleeping=True)
    other.restore(snapshot)
    other.step(100)
    assert other.state_hash() == there
    sim.restore(snapshot)
    sim.step(60)
    sim.step(40)
    assert sim.state_hash() == there


@pytest.mark.parametrize("jointed", [False, True])
def test_a_grip_turns_its_body(jointed):
    """A grip with a rotation brings its body there and holds it against its weight, free or on a joint."""
    builder = lj.Builder("held")
    builder.add_body("box", mass=2.0, inertia=(0.02, 0.03, 0.04))
    if jointed:
        builder.add_body("tail", mass=0.5, com=(0.0, 0.0, -0.1), inertia=(0.01, 0.01, 0.01))
        builder.add_joint_ball("joint", "box", "tail", position=(0.1, 0.0, 0.0), damping=0.05)
    sim = lj.Simulation(builder.build(), "impulses", dt=1e-2)
    grip = sim.grab("box", (0.0, 0.0, 0.0))
    aim = np.array((0.8, 0.0, 0.6, 0.0))
    grip.move((0.1, 0.2, 0.3), aim)
    sim.step(400)
    assert abs(sim.rotations[0] @ aim) > 1.0 - 1e-4
    np.testing.assert_allclose(grip.point, (0.1, 0.2, 0.3), atol=0.02)
    weight = 9.81 * sim.model.arrays.links.inertia[:, 9].sum()
    np.testing.assert_allclose(grip.force, (0.0, 0.0, weight), atol=0.02 * weight)
    grip.move((0.1, 0.2, 0.3), (1.0, 0.0, 0.0, 0.0))
    sim.step(400)
    assert abs(sim.rotations[0, 0]) > 1.0 - 1e-4


def test_grips_draw_bodies():
    """A grabbed box follows the grip off the ground and falls when it is released."""
    sim = running(on_ground())
    grip = sim.grab("box")
    grip.move((0.3, 0.0, 0.5))
    sim.step(480)
    assert np.allclose(sim.body("box").position, [0.3, 0.0, 0.5], atol=0.02)
    assert np.allclose(grip.force, [0, 0, 4 * G], rtol=0.05, atol=0.5)
    grip.release()
    sim.step(240)
    assert sim.body("box").position[2] == pytest.approx(0.1, abs=1e-3)


def test_options_are_checked():
    """Options out of range are refused by name."""
    with pytest.raises(lj.UnknownName, match="springs"):
        lj.Impulses(contacts="springs")
    with pytest.raises(lj.StateError, match="sweeps"):
        lj.Impulses(sweeps=0)
    with pytest.raises(lj.StateError, match="tolerance"):
        lj.Impulses(tolerance=0.0)


@pytest.mark.parametrize("dt", [1 / 240, 1 / 60])
@pytest.mark.parametrize("growth,boxes", [(1.5, 8), (1.5, 12), (2.0, 6), (2.0, 10)])
def test_stacks_that_grow_upwards_stand(growth, boxes, dt):
    """Boxes, each so many times as heavy as the one below, are let down by 1 mm each and stand."""
    builder = lj.Builder("stack")
    builder.add_shape_plane("world")
    for k in range(boxes):
        mass = growth**k
        builder.add_body(f"b{k}", mass=mass, inertia=(mass * 0.04 / 6.0,) * 3, position=(0.0, 0.0, 0.1 + 0.201 * k))
        builder.add_shape_box(f"b{k}", (0.2, 0.2, 0.2))
    sim, deep = lj.Simulation(builder.build(), "impulses", dt=dt), 0.0
    for _ in range(round(4.0 / dt)):
        sim.step()
        deep = max(deep, sim.stats["penetration"])
    assert sim.positions[-1] == pytest.approx([0.0, 0.0, 0.2 * boxes - 0.1], abs=2e-3)
    assert deep < 1e-3
