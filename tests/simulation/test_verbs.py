"""Bodies that are led, joints that are driven and joints made while running: the same in every method that has them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import limberjack as lj

DT = 1.0 / 480.0
ROWS = {
    "full": lj.Full(),
    "projected": lj.Full(integrator="projected"),
    "rk4": lj.Full(integrator="rk4"),
    "adaptive": lj.Adaptive(budget=2),
    "multipliers": lj.Multipliers(),
    "impulses": lj.Impulses(),
}
EVERY = ROWS | {"displacements": lj.Displacements()}


def arm(gravity=(0.0, 0.0, -9.81), damping=0.1):
    """Return an arm of seven hinges on the world, bent, and a free cup beside it."""
    builder = lj.Builder("arm", gravity=gravity)
    starts = (0.2, 0.9, 0.4, -1.1, 0.5, 0.8, -0.4)
    for k, start in enumerate(starts):
        builder.add_body(f"l{k}", mass=1.0, com=(0.1, 0.0, 0.05), inertia=(0.02, 0.03, 0.04))
        parent, place = (f"l{k - 1}", (0.25, 0.0, 0.0)) if k else ("world", (0.0, 0.0, 1.0))
        axis = ((0, 0, 1), (0, 1, 0), (1, 0, 0))[k % 3]
        builder.add_joint_hinge(f"j{k}", parent, f"l{k}", axis=axis, position=place, damping=damping, start=start)
    builder.add_body("cup", mass=0.3, inertia=(0.001,) * 3, position=(1.5, 0.0, 2.0))
    return builder.build()


def pairs(gravity=(0.0, 0.0, 0.0)):
    """Return two free figures of two bodies on a hinge each."""
    builder = lj.Builder("pairs", gravity=gravity)
    for k in range(2):
        builder.add_body(f"a{k}", mass=1.0 + k, inertia=(0.02, 0.03, 0.04), position=(0.0, 0.8 * k, 2.0))
        builder.add_body(f"b{k}", mass=0.5, com=(0.15, 0.0, 0.0), inertia=(0.01, 0.02, 0.02))
        builder.add_joint_hinge(f"h{k}", f"a{k}", f"b{k}", axis=(0, 1, 0), position=(0.2, 0.0, 0.0))
    return builder.build()


@pytest.mark.parametrize("name", EVERY)
def test_a_driven_joint_turns_at_its_rate(name):
    """Its angle is the start plus rate times time whatever weighs on it; freed, the joint is free."""
    sim = lj.Simulation(arm(), EVERY[name], dt=DT)
    sim.drive("j1", 0.7)
    sim.step(96)
    assert sim.joint("j1").q == pytest.approx(0.9 + 0.14, abs=1e-9)
    assert sim.joint("j1").qd == pytest.approx(0.7, abs=1e-3)
    sim.drive("j1", -0.35)
    sim.step(96)
    assert sim.joint("j1").q == pytest.approx(0.9 + 0.07, abs=1e-9)
    sim.drive("j1", None)
    sim.step(48)
    assert abs(sim.joint("j1").q - 0.97 + 0.035) > 1e-3


@pytest.mark.parametrize("name", EVERY)
def test_a_hand_is_led(name):
    """The last body of an arm goes on at the velocity given, then to a pose, stays there, and falls when freed."""
    sim = lj.Simulation(arm(), EVERY[name], dt=DT)
    start, turn = sim.body("l6").position, sim.body("l6").rotation
    sim.move("l6", velocity=(0.0, 0.1, -0.1))
    sim.step(96)
    assert sim.body("l6").position - start == pytest.approx([0.0, 0.02, -0.02], abs=1e-6)
    assert sim.body("l6").rotation == pytest.approx(turn, abs=1e-6)
    for k in range(96):
        sim.move("l6", start + [0.0, 0.02 * (1.0 - (k + 1) / 96), -0.02 * (1.0 - (k + 1) / 96)])
        sim.step()
    sim.step(48)
    assert sim.body("l6").position == pytest.approx(start, abs=1e-6)
    assert np.abs(sim.body("l6").velocity).max() < 1e-2
    sim.move("l6", None)
    sim.step(96)
    assert sim.body("l6").position[2] < start[2] - 0.01


@pytest.mark.parametrize("name", ["full", "adaptive", "multipliers", "impulses"])
def test_a_led_plate_carries_by_friction(name):
    """A box stays on a plate that swings by a quarter of a metre, within a millimetre, where friction can hold it."""
    builder = lj.Builder("plate")
    builder.add_body("plate", mass=5.0, inertia=(0.5,) * 3, position=(0.0, 0.0, 0.5))
    builder.add_shape_box("plate", (2.0, 1.0, 0.1), friction=0.9)
    builder.add_body("box", mass=5.0, inertia=(0.034,) * 3, position=(0.0, 0.0, 0.65))
    builder.add_shape_box("box", (0.2,) * 3, friction=0.9)
    builder.add_body("bob", mass=1.0, inertia=(0.1,) * 3, com=(0.0, 0.0, -0.5))
    builder.add_joint_hinge("far off", "world", "bob", axis=(0.0, 1.0, 0.0), position=(9.0, 9.0, 9.0))
    sim = lj.Simulation(builder.build(), ROWS[name], dt=1.0 / 240.0)
    slip = 0.0
    for k in range(240):
        x = 0.25 * (1.0 - math.cos(2.0 * (k + 1) / 240.0))
        sim.move("plate", (x, 0.0, 0.5))
        sim.step()
        assert sim.positions[0] == pytest.approx([x, 0.0, 0.5], abs=1e-6)
        slip = max(slip, abs(sim.positions[1, 0] - x))
    assert slip < 1e-3


@pytest.mark.parametrize("kind", ["fixed", "hinge", "ball", "slide", "universal", "distance"])
@pytest.mark.parametrize("name", ["full", "multipliers"])
def test_an_attached_joint_is_that_of_a_model(name, kind):
    """Two figures attached while running move as those of a model that was built with the joint."""
    own = {"distance": {"length": 0.5}}.get(kind, {})
    axes = {"axis": (1, 0, 0), "axis2": (0, 1, 0)} if kind == "universal" else {}
    builder = lj.Builder("pairs", gravity=(0.0, 0.0, 0.0))
    for k in range(2):
        builder.add_body(f"a{k}", mass=1.0 + k, inertia=(0.02, 0.03, 0.04))
        builder.add_joint_free(f"f{k}", "world", f"a{k}", start=(0.0, 0.8 * k, 2.0, 1.0, 0.0, 0.0, 0.0))
        builder.add_body(f"b{k}", mass=0.5, com=(0.15, 0.0, 0.0), inertia=(0.01, 0.02, 0.02))
        builder.add_joint_hinge(f"h{k}", f"a{k}", f"b{k}", axis=(0, 1, 0), position=(0.2, 0.0, 0.0))
    ends = ((0.2, 0.3, 0.0), (0.2, -0.5 if kind != "distance" else 0.0, 0.0))
    builder.add_joint(kind, "tie", "b0", "b1", position=ends[0], position_in_child=ends[1], **axes, **own)
    built, loose = builder.build(), pairs()
    sims = [lj.Simulation(model, ROWS[name], dt=1e-3) for model in (built, loose)]
    joint = sims[1].attach("b0", "b1", kind, at_a=ends[0], at_b=ends[1], **own)
    for sim in sims:
        sim.apply_wrench("b1", force=(0.3, 2.0, 1.0), torque=(0.1, 0.2, -0.1))
        sim.step(200)
    assert np.abs(sims[0].positions - sims[1].positions).max() < 1e-7
    assert joint.reaction.force == pytest.approx(sims[0].joint("tie").reaction.force, abs=1e-5)


@pytest.mark.parametrize("name", EVERY)
def test_momentum_is_kept_through_an_attachment(name):
    """A joint made between two figures in free flight, its gap closed, and removed again leave momentum as it was."""
    model = pairs()
    qd = np.zeros(model.nv)
    qd[model.joint("a0").v], qd[model.joint("a1").v] = (0.1, 0.4, 0.0, 0.3, 0.0, 0.2), (0.0, -0.2, 0.1, 0.0, 0.5, 0.0)
    sim = lj.Simulation(model, EVERY[name], dt=DT, qd=qd)
    sim.step(48)
    before = sim.momentum()
    joint = sim.attach("b0", "b1", "ball", at_a=(0.3, 0.2, 0.0), at_b=(0.3, -0.2, 0.0), over=0.25)
    ends = [sim.body(name).position for name in ("b0", "b1")]
    assert np.linalg.norm(ends[1] - ends[0]) > 0.5
    sim.step(144)
    joint.release()
    sim.step(48)
    after = sim.momentum()
    # what steps of these integrators leave of a jump of velocities
    off = 1e-3 if name in ("rk4", "projected", "multipliers") else 1e-5
    assert after.linear == pytest.approx(before.linear, abs=off)
    assert after.angular == pytest.approx(before.angular, abs=off)


@pytest.mark.parametrize("name", EVERY)
def test_a_gap_closes_evenly(name):
    """Points 8 cm apart are half as far apart after half the time, and stay together afterwards."""
    sim = lj.Simulation(pairs(), EVERY[name], dt=DT)
    sim.attach("a0", "a1", "ball", at_a=(0.0, 0.36, 0.0), at_b=(0.0, -0.36, 0.0), over=0.5)

    def gap():
        origins, turns = sim.positions[[0, 2]], sim.rotations[[0, 2]]
        q = turns[:, 0], turns[:, 3]
        across = np.stack([-2.0 * q[0] * q[1], 1.0 - 2.0 * turns[:, 1] ** 2 - 2.0 * q[1] ** 2], axis=1)
        return np.linalg.norm(origins[1, :2] - 0.36 * across[1] - origins[0, :2] - 0.36 * across[0])

    sim.step(120)
    assert gap() == pytest.approx(0.04, abs=1e-5)
    sim.step(122)
    assert gap() < 1e-6
    sim.step(120)
    assert gap() < 1e-6


@pytest.mark.parametrize("name", EVERY)
def test_an_attached_joint_tells_its_reaction(name):
    """What hangs on a joint made while running pulls at it with its weight; a removed one has none."""
    sim = lj.Simulation(arm(), EVERY[name], dt=DT)
    nail = sim.attach("world", "cup", "fixed")
    sim.step(48)
    assert nail.reaction.force == pytest.approx([0.0, 0.0, 0.3 * 9.81], abs=1e-4)
    assert nail.reaction.torque == pytest.approx([0.0] * 3, abs=1e-5)
    assert sim.body("cup").position == pytest.approx([1.5, 0.0, 2.0], abs=1e-9)
    sim.detach(nail)
    assert not nail.held and sim.attached == ()
    with pytest.raises(lj.StateError, match="was removed"):
        _ = nail.reaction
    with pytest.raises(lj.UnknownName, match="arm"):
        sim.detach(nail)
    nail.release()
    speed = sim.body("cup").velocity[5]
    sim.step(48)
    assert sim.body("cup").velocity[5] == pytest.approx(speed - 0.981, abs=1e-6)


@pytest.mark.parametrize("name", EVERY)
def test_snapshots_and_files_have_all_of_it(name, tmp_path):
    """Runs restored, resumed and divided otherwise go on bit for bit: with a led body, a driven and a new joint."""
    sim = lj.Simulation(arm(), EVERY[name], dt=DT)
    plain = sim.snapshot()
    sim.drive("j0", 0.25)
    sim.attach("l6", "world", "ball", at_a=(0.3, 0.0, 0.0), at_b=(0.5, -0.1, 0.3), over=0.12, name="held")
    sim.move("cup", velocity=(0.1, 0.0, 0.0), angular_velocity=(0.0, 0.1, 0.0))
    sim.step(24)
    kept, path = sim.snapshot(), sim.save(tmp_path / "half.npz")
    sim.step(48)
    end = sim.state_hash()
    again = lj.resume(path)
    assert again.attached == sim.attached
    again.step(48)
    assert again.state_hash() == end
    sim.restore(plain)
    assert sim.attached == ()
    sim.step(5)
    sim.restore(kept)
    for _ in range(48):
        sim.step()
    assert sim.state_hash() == end
    fresh = lj.Simulation(arm(), EVERY[name], dt=DT)
    fresh.restore(kept)
    fresh.step(48)
    assert fresh.state_hash() == end
    sim.reset()
    assert sim.attached == ()
    sim.step()


@pytest.mark.parametrize("name", ["full", "multipliers"])
def test_the_work_of_led_bodies_is_known(name):
    """A body led fast from rest, with others on it, is no reason for a warning, also in a run that was restored."""
    model = pairs(gravity=(0.0, 0.0, -9.81))
    sims = [lj.Simulation(model, ROWS[name], dt=DT) for _ in range(2)]
    sims[0].step(600)
    sims[0].move("a0", velocity=(0.0, 0.0, 40.0), angular_velocity=(0.0, 0.0, 30.0))
    sims[1].restore(sims[0].snapshot())
    for sim in sims:
        sim.step(300)
        assert sim.energy().kinetic > 1e3


def test_what_is_prescribed_is_simulated():
    """In adaptive joints that are driven, or lead to a led body, are active beyond any budget, until they are freed."""
    sim = lj.Simulation(arm(gravity=(0.0, 0.0, 0.0)), lj.Adaptive(budget=1), dt=DT)
    sim.step(48)
    arms = {f"j{k}" for k in range(7)}
    assert len(arms & set(sim.active_joints)) <= 1
    sim.drive("j2", 0.3)
    sim.step()
    assert "j2" in sim.active_joints
    sim.drive("j2", None)
    start = sim.body("l6").position
    with pytest.warns(lj.BudgetWarning):
        sim.move("l6", velocity=(0.0, 0.0, -0.1))
        sim.step(48)
    assert arms <= set(sim.active_joints)
    assert sim.body("l6").position[2] == pytest.approx(start[2] - 0.01, abs=1e-9)
    sim.move("l6", None)
    sim.step(200)
    assert len(arms & set(sim.active_joints)) <= 1


def test_a_led_figure_goes_along_as_it_is():
    """The hand of a figure in free space is led, and takes the whole figure with it, with few joints active."""
    builder = lj.Builder("chain", gravity=(0.0, 0.0, 0.0))
    builder.add_body("c0", mass=1.0, inertia=(0.01,) * 3)
    for k in range(1, 12):
        builder.add_body(f"c{k}", mass=1.0, com=(0.1, 0.0, 0.0), inertia=(0.01,) * 3)
        builder.add_joint_hinge(f"h{k}", f"c{k - 1}", f"c{k}", axis=(0, 1, 0), position=(0.2, 0.0, 0.0))
    sim = lj.Simulation(builder.build(), lj.Adaptive(budget=2), dt=DT)
    start = sim.body("c11").position
    sim.move("c11", velocity=(0.0, 0.0, 0.2))
    sim.step(240)
    assert sim.body("c11").position - start == pytest.approx([0.0, 0.0, 0.1], abs=1e-9)
    assert len(set(sim.active_joints) - {"c0"}) <= 2


def test_a_joint_across_clusters_is_a_group():
    """Joints that a new joint connects into a loop are active together or not at all, and the loop stays closed."""
    sim = lj.Simulation(arm(), lj.Adaptive(budget=2), dt=DT)
    sim.step(24)
    with pytest.warns(lj.BudgetWarning):
        sim.attach("world", "l4", "ball", point=sim.body("l4").position)
        for _ in range(24):
            sim.step(10)
            chain = {f"j{k}" for k in range(5)} & set(sim.active_joints)
            assert len(chain) in (0, 5)
            assert sim.joint_error().metres < 1e-8


def test_what_cannot_be_is_refused():
    """Joints that are far open, bodies on the world, unknown words and two motions at once are named."""
    sim = lj.Simulation(arm(), "full", dt=DT)
    with pytest.raises(lj.LoopNotClosed, match=r'joint "far": gap .* > 0\.01 m.*over > 0'):
        sim.attach("l6", "cup", "ball", at_a=(0, 0, 0), at_b=(0, 0, 0), over=0.0, name="far")
    with pytest.raises(lj.UnknownName, match="hinge"):
        sim.attach("l6", "cup", "glue")
    with pytest.raises(lj.StateError, match="as one"):
        sim.attach("cup", "cup")
    with pytest.raises(lj.UnknownName, match="j0"):
        sim.drive("elbow", 1.0)
    with pytest.raises(lj.StateError, match="one coordinate"):
        sim.drive("cup", 1.0)
    with pytest.raises(lj.StateError, match="not both"):
        sim.move("l6", (0, 0, 1), velocity=(0, 0, 1))
    with pytest.raises(lj.StateError, match="needs a position"):
        sim.move("l6", rotation=(1, 0, 0, 0))
    with pytest.raises(lj.UnsupportedByMethod, match="rules.*impulses"):
        sim.add_rule(lj.Proximity(points=("p",), others=("q",), distance=0.1))
    for method in (lj.Multipliers(solver="dense"), lj.Full(integrator="momentum"), "divide_and_conquer"):
        other = lj.Simulation(pairs(), method, dt=DT)
        with pytest.raises(lj.LimberjackError):
            other.attach("b0", "b1")
        other.step()


@pytest.mark.parametrize(
    ("method", "change", "fixed"),
    [
        (lj.Full(), {"integrator": "projected"}, {"integrator": "rk4"}),
        (lj.Full(integrator="rk4"), {"substeps": 4}, {"integrator": "euler"}),
        (lj.Multipliers(), {"tolerance": 1e-12, "substeps": 2}, {"solver": "sparse"}),
    ],
)
def test_options_change_while_running(method, change, fixed):
    """Options that do not decide what is stored change in mid-run, also while a grip acts; others are refused."""
    sim = lj.Simulation(arm(), method, dt=DT)
    sim.step(5)
    grip = sim.grab("cup")
    sim.tune(**change)
    sim.step(5)
    grip.release()
    assert all(getattr(sim.method, word) == value for word, value in change.items())
    sim.step(5)
    other = lj.Simulation(arm(), sim.method, dt=DT, q=sim.q, qd=sim.qd)
    sim.step()
    other.step()
    assert sim.q == pytest.approx(other.q, abs=1e-5)
    with pytest.raises(lj.StateError, match="while running"):
        sim.tune(**fixed)
