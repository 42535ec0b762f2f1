"""Contacts and dry friction of joints in `full`: laws, closed forms, and what loops and limits make of them."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj

G = 9.81


def slider(*, friction=0.5, restitution=0.0, height=0.1, tilt=0.0, velocity=(0.0, 0.0, 0.0)):
    """Return a box of 1 kg over a plane tilted about y, its faces along the plane."""
    turn = (np.cos(tilt / 2), 0.0, np.sin(tilt / 2), 0.0)
    up = np.array([np.sin(tilt), 0.0, np.cos(tilt)])
    builder = lj.Builder("slider")
    builder.add_shape_plane("world", rotation=turn, friction=friction, restitution=restitution)
    builder.add_body("box", mass=1.0, inertia=(0.01, 0.01, 0.01), position=tuple(height * up), rotation=turn)
    builder.add_shape_box("box", (0.2, 0.2, 0.2), friction=friction, restitution=restitution)
    model = builder.build()
    qd = np.zeros(6)
    qd[:3] = velocity
    return lj.Simulation(model, "full", dt=1e-3, qd=qd)


def test_a_box_at_rest_stays_and_presses_with_its_weight():
    """A box on the ground does not move at all, and the contacts' forces add up to its weight."""
    sim = slider()
    sim.step(2000)
    np.testing.assert_allclose(sim.body("box").position, [0, 0, 0.1], atol=1e-9)
    forces = sum(contact.force for contact in sim.contacts())
    np.testing.assert_allclose(forces, [0, 0, G], atol=1e-9)
    assert {contact.bodies for contact in sim.contacts()} == {("box", "world")}


@pytest.mark.parametrize("angle", [0.0, 0.7, 2.3, 4.1])
def test_stopping_distance_is_the_same_in_all_directions(angle):
    """A sliding box stops after v^2 / (2 mu g), whatever its direction."""
    v, mu = 2.0, 0.4
    sim = slider(friction=mu, velocity=(v * np.cos(angle), v * np.sin(angle), 0.0))
    sim.step(1500)
    x, y, _ = sim.body("box").position
    assert np.hypot(x, y) == pytest.approx(v * v / (2 * mu * G), rel=5e-3)
    np.testing.assert_allclose(np.array([x, y]) / np.hypot(x, y), [np.cos(angle), np.sin(angle)], atol=1e-3)
    assert np.abs(sim.qd).max() < 1e-9


def test_sticks_below_the_angle_of_friction_and_slides_above():
    """On a slope a box keeps still where mu > tan(angle), and slides as a point mass does where it is not."""
    tilt = 0.4
    still = slider(friction=1.05 * np.tan(tilt), tilt=tilt)
    start = still.body("box").position.copy()
    still.step(3000)
    assert np.linalg.norm(still.body("box").position - start) < 1e-6
    mu = 0.5 * np.tan(tilt)
    sim = slider(friction=mu, tilt=tilt)
    start = sim.body("box").position.copy()
    sim.step(500)
    a = G * (np.sin(tilt) - mu * np.cos(tilt))
    assert np.linalg.norm(sim.body("box").position - start) == pytest.approx(0.5 * a * 0.5**2, rel=5e-3)


@pytest.mark.parametrize("e", [0.0, 0.5, 0.9])
def test_rebounds_by_its_restitution(e):
    """A dropped box leaves the ground with e times the speed it came with."""
    sim = slider(restitution=e, height=0.6)
    fastest, after = 0.0, 0.0
    for _ in range(600):
        sim.step(1)
        v = sim.body("box").velocity[5]
        fastest, after = min(fastest, v), max(after, v)
    assert after == pytest.approx(-e * fastest, abs=2e-2)


def test_dry_friction_of_a_joint():
    """A wheel on a dry axle slows by f / I per second, stops, and then resists less than f."""
    builder = lj.Builder(gravity=(0, 0, 0))
    builder.add_body("wheel", mass=1.0, inertia=(0.1, 0.1, 0.2))
    builder.add_joint_hinge("axle", "world", "wheel", friction=0.3)
    sim = lj.Simulation(builder.build(), "full", dt=1e-3, qd=[3.0])
    sim.step(1000)
    assert sim.qd[0] == pytest.approx(3.0 - 0.3 / 0.2 * 1.0, abs=1e-9)
    sim.step(1500)
    assert abs(sim.qd[0]) < 1e-12
    stopped = sim.q[0]
    sim.joint("axle").tau = 0.29
    sim.step(500)
    assert sim.q[0] == pytest.approx(stopped, abs=1e-12)
    sim.joint("axle").tau = 0.31
    sim.step(500)
    assert sim.qd[0] == pytest.approx(0.01 / 0.2 * 0.5, rel=1e-6)


def dry_chain():
    """Return a chain of six links that dry friction of its hinges holds up."""
    builder, above = lj.Builder("dry"), "world"
    for k in range(6):
        builder.add_body(f"b{k}", mass=0.1, com=(0, 0, -0.05), inertia=(1e-4, 1e-4, 1e-5))
        place = (0, 0, -0.1 if k else 0.0)
        builder.add_joint_hinge(f"j{k}", above, f"b{k}", position=place, axis=(0, 1, 0), friction=3.0, start=0.3)
        above = f"b{k}"
    return builder.build()


@pytest.mark.parametrize("method", ["full", lj.Adaptive(budget=6), lj.Full(integrator="semi_implicit")])
def test_dry_friction_starts_from_that_of_the_last_step(method):
    """Joints that friction holds are solved by one sweep a step, once their friction is known, also when resumed."""
    sim = lj.Simulation(dry_chain(), method, dt=1e-3)
    start = sim.q.copy()
    sim.step(10)
    for _ in range(20):
        sim.step(1)
        assert sim.stats["sweeps"] == 1
    assert np.abs(sim.q - start).max() < 1e-9
    mark = sim.snapshot()
    sim.step(50)
    other = lj.Simulation(dry_chain(), method, dt=1e-3)
    other.restore(mark)
    other.step(50)
    assert other.state_hash() == sim.state_hash()


def leg(limits):
    """Return a leg of two links, its foot a ball on the ground, its hip free to move along z only."""
    builder = lj.Builder("leg")
    builder.add_shape_plane("world")
    for name in ("hip", "thigh", "shin"):
        builder.add_body(name, mass=5.0, com=(0, 0, 0 if name == "hip" else -0.2), inertia=(0.1, 0.1, 0.1))
    builder.add_joint_slide("lift", "world", "hip", axis=(0, 0, 1), start=0.8 * np.cos(0.2) + 0.1)
    builder.add_joint_hinge("turn", "hip", "thigh", axis=(0, 1, 0), start=0.2)
    builder.add_joint_hinge("knee", "thigh", "shin", axis=(0, 1, 0), position=(0, 0, -0.4), start=-0.4, limits=limits)
    builder.add_shape_sphere("shin", 0.1, position=(0, 0, -0.4), friction=2.0)
    return builder.build()


def test_a_leg_stands_on_its_knees_limit():
    """Weight goes through a knee at its limit into the ground: the leg does not sink, and the limit is satisfied."""
    model = leg((-0.4, 2.0))
    sim = lj.Simulation(model, lj.Full(), dt=1e-3)
    sim.joint("turn").tau = 0.0
    lowest = 0.0
    for _ in range(20):
        sim.step(10)
        lowest = min(lowest, sim.joint("knee").q + 0.4)
        assert sim.stats["penetration"] < 2e-4
    assert lowest > -1e-9
    # a knee that is free bends the other way under the same weight
    free = lj.Simulation(leg(None), lj.Full(), dt=1e-3)
    free.step(200)
    assert free.joint("knee").q < -0.45


def frame(*, closed):
    """Return a four-bar in one plane that falls on the ground, closed by a loop, or open with its ends overlapping."""
    builder = lj.Builder("frame")
    builder.add_shape_plane("world")
    last = before = 0.0
    corners = np.array([(0.0, 0.0), (1.0, 0.0), (1.2, 0.8), (0.0, 0.7)])
    for k in range(4):
        side = corners[(k + 1) % 4] - corners[k]
        length, angle = np.hypot(*side), np.arctan2(side[1], side[0])
        builder.add_body(f"bar{k}", mass=1.0, com=(length / 2, 0, 0), inertia=(0.01, 0.1, 0.1))
        rotation = (np.cos(np.pi / 4), 0.0, np.sin(np.pi / 4), 0.0)
        builder.add_shape_capsule(f"bar{k}", 0.05, length, position=(length / 2, 0, 0), rotation=rotation)
        if k == 0:
            builder.add_joint_free("base", "world", "bar0", start=(0, 0, 0.5, np.cos(0.3), np.sin(0.3), 0, 0))
        else:
            builder.add_joint_hinge(f"pin{k}", f"bar{k - 1}", f"bar{k}", position=(last, 0, 0), start=angle - before)
        last, before = length, angle
    if closed:
        builder.add_joint_hinge("close", "bar3", "bar0", position=(last, 0, 0))
    return builder.build()


def test_a_loop_stays_closed_on_the_ground():
    """A four-bar dropped onto the ground keeps its loop closed while it hits and slides."""
    sim = lj.Simulation(frame(closed=True), "full", dt=1e-3)
    count, energy = 0, sim.energy().total
    for _ in range(40):
        sim.step(20)
        count += len(sim.contacts())
        assert sim.joint_error().metres < 1e-9
        assert sim.stats["penetration"] < 2e-3
        assert sim.energy().total < energy + 1e-6
        energy = sim.energy().total
    assert count > 10 and sim.positions[:, 2].min() > -1e-2


def test_directions_that_joints_hold_take_no_impulse():
    """Bars of one plane that overlap can move apart within it only; across it no force, however large, is asked for."""
    sim = lj.Simulation(frame(closed=False), "full", dt=1e-3)
    start = sim.energy().total
    for _ in range(10):
        sim.step(1)
        assert np.abs(sim.qd).max() < 5.0
    sim.step(600)
    assert sim.energy().total < start


def two_figures():
    """Return two jointed figures flying at each other, without gravity."""
    builder = lj.Builder("figures", gravity=(0, 0, 0))
    for side, x in (("left", -0.5), ("right", 0.5)):
        for part, mass in (("trunk", 2.0), ("arm", 0.5)):
            builder.add_body(f"{side}_{part}", mass=mass, inertia=(0.05, 0.04, 0.03))
            builder.add_shape_sphere(f"{side}_{part}", 0.2 if part == "trunk" else 0.1, restitution=0.3)
        start = (x, 0.05 * np.sign(x), 0.0, 1, 0, 0, 0)
        speed = (-2.0 * np.sign(x), 0.0, 0.1, 0.3, 0.2, 0.1)
        builder.add_joint_free(f"{side}_base", "world", f"{side}_trunk", start=start, start_velocity=speed)
        builder.add_joint_ball(f"{side}_joint", f"{side}_trunk", f"{side}_arm", position=(0, 0.4, 0))
    return builder.build()


def test_free_collisions_keep_momentum():
    """Momentum of two figures that collide is conserved, up to the integrator's error of forces during one step."""
    sim = lj.Simulation(two_figures(), lj.Full(integrator="rk4"), dt=1e-3)
    linear, angular = sim.momentum()
    before = sim.energy().total
    count = 0
    for _ in range(500):
        sim.step(1)
        count += any(contact.impulse.any() for contact in sim.contacts())
    after, turned = sim.momentum()
    assert count > 0
    np.testing.assert_allclose(after, linear, atol=1e-6)
    np.testing.assert_allclose(turned, angular, atol=2e-2)
    assert sim.energy().total < before


def test_calls_snapshots_and_files_are_exact(tmp_path):
    """Steps in one call or many, after a snapshot or from a file, give the same bits during contact."""
    sim = slider(velocity=(1.0, 0.3, 0.0), height=0.11)
    sim.step(200)
    sim.save(tmp_path / "box.npz")
    snapshot = sim.snapshot()
    sim.step(60)
    once = sim.state_hash()
    sim.restore(snapshot)
    for _ in range(12):
        sim.step(5)
    assert sim.state_hash() == once
    again = lj.resume(tmp_path / "box.npz")
    again.step(60)
    assert again.state_hash() == once


def test_many_contacts_make_room():
    """More contacts than there is room for at first are all found: a crate of balls rests on the ground."""
    builder = lj.Builder()
    builder.add_shape_plane("world")
    count = 400
    for k in range(count):
        builder.add_body(
            f"b{k}", mass=1.0, inertia=(0.004, 0.004, 0.004), position=(0.25 * (k % 20), 0.25 * (k // 20), 0.1)
        )
        builder.add_shape_sphere(f"b{k}", 0.1)
    sim = lj.Simulation(builder.build(), "full", dt=1e-3)
    sim.step(20)
    assert sim.stats["contacts"] == count
    np.testing.assert_allclose(sim.positions[:, 2], 0.1, atol=1e-6)
    forces = np.array([contact.force for contact in sim.contacts()])
    np.testing.assert_allclose(forces, np.tile([0, 0, G], (count, 1)), atol=1e-6)


def test_contacts_can_be_ignored_and_refused():
    """`ignore` lets shapes pass through each other; an integrator without contacts says so."""
    model = slider().model
    sim = lj.Simulation(model, "full", dt=1e-3, ignore="contacts")
    sim.step(1000)
    assert sim.body("box").position[2] < -4.0 and sim.contacts() == []
    with pytest.raises(lj.LimberjackError, match="momentum"):
        lj.Simulation(model, lj.Full(integrator="momentum"))


def gripper():
    """Return a box between two fingers; each is two trees that a loop closes, and a gear ties their drivers."""
    builder, inertia = lj.Builder("gripper", gravity=(0, 0, 0)), (1e-4, 1e-4, 1e-4)
    for side, word in ((-1.0, "left"), (1.0, "right")):
        driver, coupler, finger = f"{word}_driver", f"{word}_coupler", f"{word}_finger"
        builder.add_body(driver, mass=0.02, com=(0, 0, 0.05), inertia=inertia)
        builder.add_joint_hinge(word, "world", driver, position=(0.2 * side, 0, 0), axis=(0, 1, 0), armature=0.005)
        builder.add_body(coupler, mass=0.02, com=(-0.05 * side, 0, 0), inertia=inertia)
        builder.add_joint_hinge(f"{word}_knee", driver, coupler, position=(0, 0, 0.1), axis=(0, 1, 0))
        builder.add_body(finger, mass=0.02, com=(0, 0, 0.05), inertia=inertia)
        builder.add_joint_hinge(f"{word}_base", "world", finger, position=(0.1 * side, 0, 0), axis=(0, 1, 0))
        builder.add_shape_box(finger, (0.02, 0.02, 0.1), position=(0, 0, 0.05))
        end = (-0.1 * side, 0, 0)
        builder.add_joint_ball(f"{word}_tip", finger, coupler, position=(0, 0, 0.1), position_in_child=end)
    builder.add_joint_gear("gear", "left", "right", ratio=-1.0)
    builder.add_body("box", mass=0.03, inertia=(2e-5, 2e-5, 2e-5), position=(0.01, 0, 0.08))
    builder.add_shape_box("box", (0.12, 0.05, 0.05))
    return builder.build()


def test_contacts_act_on_trees_that_rows_tie_to_those_in_contact():
    """A gripper closes on a box and holds it: the gear between its drivers, which touch nothing, takes part."""
    sim = lj.Simulation(gripper(), "full", dt=4e-3)
    sim.joint("left").tau, sim.joint("right").tau = 0.1, -0.1
    most = 0.0
    for _ in range(250):
        sim.step()
        most = max(most, sim.energy().kinetic)
    assert most < 0.07 and sim.energy().kinetic < 1e-6
    assert np.abs(sim.body("box").position[:2]).max() < 1e-3 and sim.body("box").position[2] > 0.07
