"""Contacts and dry friction in the adaptive method: a rigid cluster collides as one body."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.naive.divide import Divided, Terms
from tests.naive.twin import Twin

import limberjack as lj
from limberjack.reduced.contacts import CONTACT, take_contact_steps
from limberjack.spatial.frames import matrix_from_quaternion

G = 9.81


def figure(builder, name, height, rng, links=6, limits=None, x=0.0):
    """Add a free figure: a trunk with two chains of capsules, bent at random."""
    builder.add_body(f"{name}trunk", mass=4.0, inertia=(0.05, 0.06, 0.04))
    builder.add_shape_box(f"{name}trunk", (0.3, 0.2, 0.15), friction=0.6)
    start = (x, 0.0, height, np.cos(0.2), 0.0, np.sin(0.2), 0.0)
    builder.add_joint_free(f"{name}base", "world", f"{name}trunk", start=start)
    for side in (-1, 1):
        above, place = f"{name}trunk", (0.15 * side, 0.0, 0.0)
        for k in range(links):
            body = f"{name}b{side}{k}"
            builder.add_body(body, mass=0.6, com=(0.1 * side, 0, 0), inertia=(0.002, 0.003, 0.003))
            turn = (np.cos(np.pi / 4), 0.0, np.sin(np.pi / 4), 0.0)
            builder.add_shape_capsule(body, 0.03, 0.14, position=(0.1 * side, 0, 0), rotation=turn, friction=0.6)
            axis = ((0, 1, 0), (0, 0, 1), (0, 0.6, 0.8))[k % 3]
            builder.add_joint_hinge(
                f"{name}j{side}{k}", above, body, position=place, axis=axis, damping=0.02, limits=limits,
                start=float(rng.uniform(-0.3, 0.3)),
            )  # fmt: skip
            above, place = body, (0.2 * side, 0.0, 0.0)


def on_ground(rng, figures=1, height=0.35, **options):
    """Return figures above a plane, one over the other; the lowest has its hands in it unless it is high."""
    builder = lj.Builder("fallen")
    builder.add_shape_plane("world", friction=0.8)
    for k in range(figures):
        figure(builder, f"f{k}", height + 0.45 * k, rng, x=0.05 * k, **options)
    return builder.build()


@pytest.mark.parametrize(
    "options",
    [{}, {"limits": (-0.5, 0.5)}, {"figures": 3, "limits": (-0.6, 0.6)}],
    ids=["plain", "limits", "three figures"],
)
def test_all_joints_active_is_full_bit_for_bit(options, rng):
    """With a budget of all joints, figures that fall on the ground and on each other move as in `full`, to the bit."""
    model = on_ground(rng, **options)
    full = lj.Simulation(model, lj.Full(), dt=2e-3)
    adaptive = lj.Simulation(model, lj.Adaptive(budget=10**6, update_every=7), dt=2e-3)
    count = 0
    for _ in range(30):
        full.step(10)
        adaptive.step(10)
        assert np.array_equal(full.q, adaptive.q) and np.array_equal(full.qd, adaptive.qd)
        found, wanted = adaptive.contacts(), full.contacts()
        assert [(c.shapes, c.depth, *c.force) for c in found] == [(c.shapes, c.depth, *c.force) for c in wanted]
        count += len(found)
    assert count > 30


def test_figures_at_their_limits_are_full_bit_for_bit(rng):
    """With all joints active, several figures at hard limits and without contacts move as in `full`, to the bit."""
    model = on_ground(rng, figures=3, limits=(-0.31, 0.31))
    qd = 0.5 * rng.normal(size=model.nv)
    full, adaptive = (
        lj.Simulation(model, method, dt=2e-3, qd=qd, ignore="contacts") for method in ("full", lj.Adaptive(budget=99))
    )
    rows = 0
    for _ in range(30):
        full.step(10)
        adaptive.step(10)
        assert np.array_equal(full.q, adaptive.q) and np.array_equal(full.qd, adaptive.qd)
        rows += adaptive.stats["rows"]
    assert rows > 0


def test_dry_friction_is_full_bit_for_bit():
    """With all joints active, dry friction slows and stops joints as in `full`, to the bit; none within clusters."""
    builder = lj.Builder("dry")
    above = "world"
    for k in range(5):
        builder.add_body(f"b{k}", mass=1.0, com=(0, 0, -0.15), inertia=(0.02, 0.02, 0.005))
        place = (0, 0, -0.3 if k else 0.0)
        builder.add_joint_hinge(f"j{k}", above, f"b{k}", position=place, axis=(0, 1, 0), friction=0.3, start=0.4)
        above = f"b{k}"
    model = builder.build()
    full, whole, part = (
        lj.Simulation(model, method, dt=1e-3)
        for method in (lj.Full(), lj.Adaptive(budget=5), lj.Adaptive(budget=2, update_every=5))
    )
    before = part.energy().total
    for sim in (full, whole, part):
        sim.step(1500)
    assert np.array_equal(full.q, whole.q) and np.array_equal(full.qd, whole.qd)
    assert part.energy().total < before and len(part.active_joints) == 2


@pytest.mark.parametrize("budget", [0, 3, 6])
def test_a_reduced_figure_falls_and_comes_to_rest(budget, rng):
    """A figure of few active joints falls on a plane: energy never grows, it does not sink, and it comes to rest."""
    model = on_ground(rng, height=1.4)
    sim = lj.Simulation(model, lj.Adaptive(budget=budget, update_every=10), dt=2e-3)
    start = last = sim.energy().total
    deepest = 0.0
    for k in range(100):
        sim.step(20)
        now = sim.energy().total
        # contacts foreseen and the step taken differ a little: `full` gains up to 4e-4 of the fall in one step here
        assert now < last + 5e-4 * start, k
        last, deepest = now, max(deepest, sim.stats["penetration"])
        assert sim.stats["active_joints"] <= budget
    assert deepest < 1e-3 and sim.stats["penetration"] < 1e-4
    assert np.abs(sim.velocities).max() < 1e-6
    weight = sum(contact.force for contact in sim.contacts())[2]
    assert weight == pytest.approx(model.arrays.body_mass.sum() * G, rel=1e-6)


def test_a_rigid_figure_collides_as_one_body(rng):
    """With no joint active a figure moves as the same figure welded together: equal states while it hits and slides."""
    model = on_ground(rng)
    sim = lj.Simulation(model, lj.Adaptive(budget=0), dt=1e-3)
    welded = lj.Builder("welded")
    welded.add_shape_plane("world", friction=0.8)
    total = model.arrays.body_mass.sum()
    positions, rotations = lj.forward_kinematics(model, model.q0)
    base, turn = positions[0], matrix_from_quaternion(rotations[0])
    spots, inertia = [], np.zeros((3, 3))
    for i in range(model.body_count):
        r = turn.T @ matrix_from_quaternion(rotations[i])
        spots.append(turn.T @ (positions[i] - base) + r @ model.arrays.body_com[i])
    com = np.average(spots, axis=0, weights=model.arrays.body_mass)
    for i in range(model.body_count):
        r, d = turn.T @ matrix_from_quaternion(rotations[i]), spots[i] - com
        own = model.arrays.body_inertia[i][[0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(3, 3)
        inertia += r @ own @ r.T + model.arrays.body_mass[i] * (d @ d * np.eye(3) - np.outer(d, d))
    welded.add_body("all", mass=total, com=com, inertia=inertia, position=base, rotation=rotations[0])
    for shape in model.shapes[1:]:
        i = model.body_index(shape.body)
        r = turn.T @ matrix_from_quaternion(rotations[i])
        at = turn.T @ (positions[i] - base) + r @ np.array(shape.position)
        both = r @ matrix_from_quaternion(np.array(shape.rotation))
        add = getattr(welded, f"add_shape_{shape.kind}")
        add("all", *([shape.size] if shape.kind == "box" else shape.size[:2]), position=at, rotation=both, friction=0.6)
    other = lj.Simulation(welded.build(), "full", dt=1e-3)
    count = 0
    for _ in range(30):
        sim.step(10)
        other.step(10)
        np.testing.assert_allclose(sim.positions[0], other.positions[0], atol=1e-8)
        # farther ones are what a shape may reach in a step: in a link by the speed of all of it, here by its own
        near = [sum(c.depth > -1e-3 for c in some.contacts()) for some in (sim, other)]
        assert near[0] == near[1]
        count += len(sim.contacts())
    assert count > 10


def test_snapshots_are_exact_during_contact(rng, tmp_path):
    """Steps after a restore or from a file, in one call or many, give the same bits; contacts are known to updates."""
    sim = lj.Simulation(on_ground(rng, figures=2), lj.Adaptive(budget=5, update_every=6), dt=2e-3)
    sim.step(150)
    assert sim.contacts()
    sim.save(tmp_path / "state.npz")
    snapshot = sim.snapshot()
    sim.step(61)
    once = sim.state_hash()
    sim.restore(snapshot)
    for n in (1, 5, 20, 35):
        sim.step(n)
    assert sim.state_hash() == once
    again = lj.resume(tmp_path / "state.npz")
    again.step(61)
    assert again.state_hash() == once


def test_joined_links_in_clusters_do_not_collide(rng):
    """Shapes of bodies that a joint ties overlap freely whichever clusters they are in."""
    builder = lj.Builder("overlapping", gravity=(0, 0, 0))
    above = None
    for k in range(8):
        builder.add_body(f"b{k}", mass=1.0, inertia=(0.01, 0.01, 0.01))
        builder.add_shape_sphere(f"b{k}", 0.12)  # neighbours overlap, others do not
        if above:
            builder.add_joint_ball(f"j{k}", above, f"b{k}", position=(0.2, 0, 0))
        above = f"b{k}"
    model = builder.build()
    sim = lj.Simulation(model, lj.Adaptive(budget=2, update_every=2), dt=1e-3, qd=0.5 * rng.normal(size=model.nv))
    for budget in (0, 2, 5, 1, 7, 3):
        sim.tune(budget=budget)
        sim.step(10)
        assert all(abs(int(a[1:]) - int(b[1:])) > 1 for a, b in (c.bodies for c in sim.contacts()))
        assert not any(c.force.any() for c in sim.contacts())


def add_arm(builder, links):
    """Add an arm of capsules that hangs from the world, hinged about y."""
    above = "world"
    for k in range(links):
        builder.add_body(f"arm{k}", mass=0.2, com=(0, 0, -0.15), inertia=(0.002, 0.002, 0.001))
        builder.add_shape_capsule(f"arm{k}", 0.04, 0.2, position=(0, 0, -0.15))
        builder.add_joint_hinge(f"j{k}", above, f"arm{k}", axis=(0, 1, 0), position=(0, 0, -0.3 if k else 0.0))
        above = f"arm{k}"


def test_a_push_opens_joints_of_what_rests():
    """An arm that rests, without weight, is pushed by a ball: the force of the contact makes its joints move."""
    builder = lj.Builder("pushed", gravity=(0, 0, 0))
    add_arm(builder, 4)
    builder.add_body("ball", mass=2.0, inertia=(0.01, 0.01, 0.01), position=(-0.2, 0.0, -1.0))
    builder.add_shape_sphere("ball", 0.1)
    sim = lj.Simulation(builder.build(), lj.Adaptive(tolerance=1e-4, update_every=5), dt=1e-3)
    sim.apply_wrench("ball", force=(5.0, 0.0, 0.0))
    sim.step(100)
    assert sim.active_joints == ["ball"] and not sim.contacts()
    sim.step(300)
    assert set(sim.active_joints) > {"ball"}
    # an arm that stayed rigid would stop the ball where they collided
    assert sim.body("ball").position[0] > -0.14 + 0.01 and sim.body("arm3").velocity[3] > 0.0


def test_contacts_are_answered_by_the_phi_of_the_hybrid_tree(rng):
    """What a contact on a reduced figure gets for impulses is what the hybrid assembly tree's Phi gives, to 1e-10."""
    model = on_ground(rng)
    sim = lj.Simulation(model, lj.Adaptive(budget=3, update_every=50, integrator="semi_implicit"), dt=1e-3)
    compared = 0
    while compared < 4 and sim.steps < 1000:
        sim.step(20)
        q, updates = sim.q.copy(), sim.stats["updates"]
        sim.step()
        if sim.stats["updates"] != updates or not sim.contacts():
            continue
        stepper: Any = sim._stepper
        packed, tree, links = stepper._contact_set.state.packed, stepper.assembly, model.arrays.links
        moving = np.repeat(stepper.active_links(), links.dof)
        assert 6 < moving.sum() < model.nv
        none, weights = np.zeros(model.nv), [np.eye(d) for d in links.dof]
        jacobians = Twin(model).jacobians(q)
        for k in np.flatnonzero(packed.kind[: int(packed.report[0])] == CONTACT)[:2]:
            contact = sim.contacts()[int(packed.source[k])]
            i = model.body_index(contact.bodies[0])
            assert contact.bodies[1] == "world"
            at = slice(packed.start[k], packed.start[k + 1])
            found = packed.y[at, :3].T @ (packed.y[at, :3] * packed.inverse[packed.column[at], None])
            positions, rotations = lj.forward_kinematics(model, q)
            arm = contact.position - positions[i] - matrix_from_quaternion(rotations[i]) @ model.arrays.body_com[i]
            wrenches = np.array([[*np.cross(arm, axis), *axis] for axis in packed.axes[k].reshape(3, 3)])
            answers = []
            for wrench in wrenches:
                pushes = np.zeros((model.body_count, 6))
                pushes[i] = wrench
                terms = Terms(model, q, none, none, pushes)
                answers.append(Divided(tree, terms, weights, gravity=np.zeros(3), moving=moving).qdd)
            phi = wrenches @ jacobians[i] @ np.array(answers).T
            np.testing.assert_allclose(found, phi, rtol=0, atol=1e-10 * np.abs(phi).max())
            compared += 1
    assert compared > 3


def struck(update_every=20):
    """Return an arm of eight links that hangs at rest on the world, and a ball that flies at its sixth."""
    builder = lj.Builder("struck")
    add_arm(builder, 8)
    builder.add_body("ball", mass=1.0, inertia=(0.01, 0.01, 0.01), position=(-0.2, 0.0, -1.65))
    builder.add_shape_sphere("ball", 0.1)
    sim = lj.Simulation(builder.build(), lj.Adaptive(budget=4, tolerance=1e-4, update_every=update_every), dt=1e-3)
    sim.qd = [0.0] * 8 + [2.0, 0.0, 0.1, 0.0, 0.0, 0.0]
    return sim


def test_a_blow_opens_joints_at_once():
    """In the very step in which a ball hits a resting arm, joints near the impact become active and the arm yields."""
    sim, full = struck(update_every=1000), struck()
    sim.step()
    assert sim.active_joints == ["ball"]
    updates = sim.stats["updates"]
    while not any(np.abs(contact.force).max() > 1.0 for contact in sim.contacts()):
        before = sim.body("ball").velocity[3]
        sim.step()
        assert sim.steps < 100
    opened = {name for name in sim.active_joints if name != "ball"}
    assert sim.stats["updates"] == updates + 1 and opened and len(opened) <= 4
    hit = sim.body("arm5").velocity[3]
    # an arm that rested would have stopped the ball
    assert hit > 0.2 and 0.2 < sim.body("ball").velocity[3] < before
    full = lj.Simulation(sim.model, "full", dt=1e-3, q=full.q, qd=full.qd)
    full.step(sim.steps)
    assert hit == pytest.approx(full.body("arm5").velocity[3], rel=0.5)


def test_blows_are_the_same_in_one_call_and_many():
    """Steps before, at and after an impact give the same bits however they are cut into calls, and from a snapshot."""
    once, many, later = struck(7), struck(7), struck(7)
    once.step(80)
    for n in (1, 2, 30, 1, 1, 1, 20, 4, 20):
        many.step(n)
    later.restore(many.snapshot())
    assert once.state_hash() == many.state_hash()
    later.step(5)
    once.step(5)
    assert once.state_hash() == later.state_hash() and max(once.velocities[5, 3:]) > 0.1


@pytest.mark.parametrize(("budget", "most"), [(3, 400), (9, 25), (12, 1)])
def test_updates_are_rarer_where_little_is_left_to_choose(budget, most, rng):
    """Of 12 joints, with 3 active every period has an update, with 9 every fourth, with all none after the first."""
    sim = lj.Simulation(on_ground(rng, height=0.6), lj.Adaptive(budget=budget, update_every=5), dt=2e-3)
    sim.step(200)
    assert sim.contacts()
    assert sim.stats["updates"] <= most and (budget > 3 or sim.stats["updates"] >= 40)
    assert budget < 12 or sim.stats["updates"] == 1


def test_impacts_with_most_joints_active_are_the_same_in_any_calls(rng):
    """A figure with most joints active that falls gives the same bits in one call, in many, and from snapshots."""
    model = on_ground(rng, height=0.6)
    once, many = (lj.Simulation(model, lj.Adaptive(budget=9, update_every=12), dt=2e-3) for _ in range(2))
    once.step(220)
    for n in [1] * 100 + [7] * 10 + [10] * 5:
        later = lj.Simulation(model, lj.Adaptive(budget=9, update_every=12), dt=2e-3)
        later.restore(many.snapshot())
        many.step(n)
        later.step(n)
        assert later.state_hash() == many.state_hash()
    assert once.state_hash() == many.state_hash() and once.stats["updates"] > 8


def test_one_compiled_kernel_serves_full_and_clusters(rng):
    """The steps of clusters are those compiled for `full`: no other types of arguments."""
    model = on_ground(rng)
    for method in (lj.Full(), lj.Adaptive(budget=3)):
        lj.Simulation(model, method, dt=2e-3).step(40)
    assert len(take_contact_steps.signatures) == 1
