"""Contacts of bodies with joints: what a touch feels is the whole mechanism behind a link, not the link alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.methods.impulses.test_impulses import G, box, running

import limberjack as lj
from limberjack_lab.bench.ragdolls import ragdolls

LINKS, MASS, LENGTH = 10, 0.2, 2.0
OWN = LENGTH / LINKS


def beam(gravity):
    """Return ten links welded to each other by joints, hinged to the world at x = 0, their tops at z = 1.05."""
    builder = lj.Builder("beam", gravity=(0.0, 0.0, -gravity))
    across, along = MASS / 12 * 2e-2, MASS / 12 * (OWN**2 + 1e-2)
    for k in range(LINKS):
        builder.add_body(f"link{k}", mass=MASS, com=(0.5 * OWN, 0.0, 0.0), inertia=(across, along, along))
        builder.add_shape_box(f"link{k}", (OWN, 0.1, 0.1), position=(0.5 * OWN, 0.0, 0.0))
        if k == 0:
            builder.add_joint_hinge("hinge", "world", "link0", axis=(0.0, 1.0, 0.0), position=(0.0, 0.0, 1.0))
        else:
            builder.add_joint_fixed(f"weld{k}", f"link{k - 1}", f"link{k}", position=(OWN, 0.0, 0.0))
    return builder


@pytest.mark.parametrize("mass", [0.2, 2.0, 20.0])
def test_an_impact_on_one_link_moves_the_whole_mechanism(mass):
    """A ball that falls on the ninth of ten welded links turns all of them: w = m v x / (I + m x^2), in 8 ms."""
    at, speed = 1.7, 1.0
    builder = beam(0.0)
    builder.add_body("ball", mass=mass, inertia=(0.4 * mass * 0.01,) * 3, position=(at, 0.0, 1.15))
    builder.add_shape_sphere("ball", 0.1)
    sim = running(builder.build(merge_fixed=False), dt=1.0 / 480.0)
    qd = sim.qd.copy()
    qd[-4] = -speed
    sim.qd = qd
    assert sim.body("ball").velocity[5] == pytest.approx(-speed)
    sim.step(4)
    com = OWN * (np.arange(LINKS) + 0.5)
    inertia = LINKS * MASS / 12 * (OWN**2 + 1e-2) + MASS * float((com**2).sum())
    turning = mass * speed * at / (inertia + mass * at * at)
    for k in range(LINKS):
        assert sim.body(f"link{k}").velocity[1] == pytest.approx(turning, rel=2e-2)
    assert sim.joint_error()[0] < 1e-7


def test_a_lever_presses_on_its_post_as_the_balance_of_torques_asks():
    """Contacts of the far end of a loaded lever carry torques about the hinge that add up to those of the weights."""
    at, mass = 0.7, 3.0
    builder = beam(G)
    box(builder, "block", (at, 0.0, 1.15), mass=mass)
    builder.add_shape_box("world", (0.02, 0.1, 0.2), position=(1.9, 0.0, 0.85))
    sim = running(builder.build(merge_fixed=False))
    sim.step(240)
    block = sum(c.force[2] for c in sim.contacts() if "block" in c.bodies)
    torque = sum(c.force[2] * c.position[0] for c in sim.contacts() if "world" in c.bodies)
    assert abs(block) == pytest.approx(mass * G, rel=1e-2)
    assert torque == pytest.approx(mass * G * at + LINKS * MASS * G * 0.5 * LENGTH, rel=1e-2)
    assert sim.stats["penetration"] < 1e-4
    assert np.abs(sim.velocities).max() < 1e-4


def test_a_chain_carries_what_rests_on_its_tray():
    """A block fifty times heavier than the links of a chain presses with its weight on the tray that hangs from it."""
    builder, links, mass = lj.Builder("chain"), 12, 5.0
    for k in range(links):
        builder.add_body(f"link{k}", mass=0.1, com=(0.0, 0.0, -0.05), inertia=(1e-4, 1e-4, 1e-5))
        above, place = ("world", (0.0, 0.0, 2.0)) if k == 0 else (f"link{k - 1}", (0.0, 0.0, -0.1))
        builder.add_joint_ball(f"ball{k}", above, f"link{k}", position=place, damping=1e-3)
    builder.add_body("tray", mass=0.1, com=(0.0, 0.0, -0.5), inertia=(2e-3, 2e-3, 4e-3))
    builder.add_shape_box("tray", (0.4, 0.4, 0.02), position=(0.0, 0.0, -0.5))
    builder.add_joint_ball("hook", f"link{links - 1}", "tray", position=(0.0, 0.0, -0.1), damping=1e-3)
    box(builder, "block", (0.0, 0.0, 0.41), mass=mass)
    sim = running(builder.build())
    for _ in range(20):
        sim.step(12)
        assert sim.stats["penetration"] < 2e-4
    force = sum(c.force[2] for c in sim.contacts())
    assert abs(force) == pytest.approx(mass * G, rel=1e-2)
    assert sim.joint_error()[0] < 1e-7


def test_a_box_wedged_between_jointed_boxes_comes_free():
    """A box that overlaps two boxes on one slide by 5 mm pushes them apart, gently, until it overlaps none."""
    builder = lj.Builder("wedge", gravity=(0.0, 0.0, 0.0))
    for name, x in (("left", -0.195), ("right", 0.195)):
        builder.add_body(name, mass=4.0, inertia=(0.03,) * 3)
        builder.add_shape_box(name, (0.2, 0.2, 0.2))
        builder.add_joint_slide(f"{name}_slide", "world", name, axis=(1.0, 0.0, 0.0), position=(x, 0.0, 0.0))
    for k in range(3):
        # three boxes on one bar, so that the wedge is held by more than its own mass
        builder.add_body(f"wedge{k}", mass=0.5, inertia=(0.003,) * 3, position=None if k else (0.0, 0.0, 0.0))
        builder.add_shape_box(f"wedge{k}", (0.2, 0.1, 0.1))
        if k:
            builder.add_joint_fixed(f"weld{k}", f"wedge{k - 1}", f"wedge{k}", position=(0.0, 0.0, 0.12))
    sim = running(builder.build(merge_fixed=False))
    sim.step()
    assert 3e-3 < sim.stats["penetration"] < 5.1e-3
    fastest = 0.0
    for _ in range(60):
        sim.step(2)
        fastest = max(fastest, np.abs(sim.velocities[:, 3:]).max())
    assert sim.stats["penetration"] < 2e-5
    assert fastest < 0.4


def loaded_net():
    sim = running(lj.scenes.net(cells=4, blocks=2), dt=1.0 / 60.0)
    sim.step(24)
    return sim


def test_blocks_stay_on_the_bars_of_a_net():
    """Blocks forty times heavier than the bars they fall on hardly sink in, while the net swings; energy falls."""
    sim, deepest, gap, energy = loaded_net(), 0.0, 0.0, []
    for _ in range(66):
        sim.step()
        deepest, gap = max(deepest, sim.stats["penetration"]), max(gap, sim.joint_error()[0])
        energy.append(sim.energy().total)
    assert deepest < 2e-3
    assert gap < 1e-7
    assert np.diff(energy).max() < 0.02 * (energy[0] - energy[-1])


def test_contacts_found_again_within_a_step_are_part_of_snapshots():
    """A net whose contacts are detected several times a step goes on from a snapshot with the same bits."""
    sim = loaded_net()
    sim.step(20)
    kept = sim.snapshot()
    sim.step(10)
    once = sim.state_hash()
    sim.restore(kept)
    sim.step(10)
    assert sim.state_hash() == once
    fresh = lj.Simulation(sim.model, lj.Impulses(sleeping=False), dt=1.0 / 60.0)
    fresh.restore(kept)
    fresh.step(10)
    assert fresh.state_hash() == once


def test_a_figure_lies_still():
    """A figure of 89 bodies, fingers and toes of some grams among them, falls and lies still after eight seconds.

    Its head, balanced on the neck, tips over between the fourth and the sixth.
    """
    sim = running(lj.scenes.get_shown("humanoid").model)
    sim.step(1920)
    assert np.abs(sim.velocities).max() < 0.01
    assert sim.joint_error().metres < 1e-7 and sim.stats["penetration"] < 1e-3
    carried = sum(contact.force[2] for contact in sim.contacts() if contact.bodies[1] == "world")
    assert carried == pytest.approx(75.0 * G, rel=1e-3)


def test_an_impact_does_not_divide_the_substeps():
    """Figures that fall to the ground are stepped by 1/480 s throughout: impacts pull at joints, but do not last."""
    sim = lj.Simulation(ragdolls(4), lj.Impulses(sleeping=False), dt=1.0 / 60.0)
    stepper: Any = sim._stepper
    for _ in range(60):
        sim.step()
        assert stepper._rows.fastest[1] == pytest.approx(1.0 / 480.0)
    assert sim.stats["contacts"] > 20 and sim.stats["penetration"] < 2e-3
    assert sim.joint_error().metres < 1e-6


def test_a_figure_that_lands_among_many_in_flight_moves_as_alone():
    """Contacts beside many joints are swept over whole figures: as few contacts over single bodies, to a millimetre."""
    sims = [lj.Simulation(ragdolls(n), lj.Impulses(sleeping=False), dt=1.0 / 60.0) for n in (1, 16)]
    for sim in sims:
        sim.step(16)
    names = [name for name in sims[0].model.body_names if name.startswith("r0_")]
    first, second = (np.array([sim.body(name).position for name in names]) for sim in sims)
    # it has landed, and nothing has reached it
    assert sims[0].stats["contacts"] >= 2 and sims[0].model.joint_count * 16 == sims[1].model.joint_count
    np.testing.assert_allclose(second, first, rtol=0, atol=1e-3)
