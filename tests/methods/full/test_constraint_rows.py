"""Loops, limits, gears and grips on a tree in `full`: accelerations, laws, and invariants of a run."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from tests.naive.looped import LOOPS, closed, looped_accelerations, read_accelerations

import limberjack as lj
from limberjack.model.compile import joint_frames


def relative(got, wanted):
    """Return the largest difference over the largest value."""
    return np.abs(got - wanted).max() / max(np.abs(wanted).max(), 1e-300)


@pytest.mark.parametrize("kind", LOOPS)
def test_accelerations_are_those_of_the_dense_system(rng, kind):
    """A random chain closed by any joint accelerates under random forces as the dense saddle system says."""
    for parent in ("world", "b1"):
        model, q, qd = closed(rng, kind, parent=parent)
        sim = lj.Simulation(model, lj.Full(integrator="euler"), q=q, qd=qd)
        sim.tau = rng.uniform(-3, 3, model.nv)
        wanted = looped_accelerations(model, q, qd, sim.tau)
        assert relative(read_accelerations(sim), wanted) < 1e-8


@pytest.mark.parametrize("kind", LOOPS)
@pytest.mark.parametrize("integrator", ["rk4", "semi_implicit"])
def test_loops_stay_closed(rng, kind, integrator):
    """A random closed chain falls and turns for a while with every loop closed to 1e-10; rk4 keeps its energy."""
    model, q, qd = closed(rng, kind)
    sim = lj.Simulation(model, lj.Full(integrator=integrator), dt=1e-3, q=q, qd=qd)
    first, worst = sim.energy(), 0.0
    scale = max(abs(first.total), first.kinetic, 1.0)
    for _ in range(20):
        sim.step(25)
        # read off poses alone, a compound joint may be taken for one of another branch
        errors = (sim.stats["joint_error"],) if kind == "compound" else sim.joint_error()
        worst = max(worst, *errors)
        if integrator == "rk4":
            assert abs(sim.energy().total - first.total) < 1e-6 * scale
    assert worst < 1e-10


def test_accelerations_are_those_of_pinocchio(rng):
    """A chain of skew hinges whose end is tied to the world, as a ball and as a weld, accelerates as pinocchio says."""
    for kind, contact in (("ball", pin.ContactType.CONTACT_3D), ("fixed", pin.ContactType.CONTACT_6D)):
        model, q, qd = closed(rng, kind, kinds=("hinge",) * 8)
        peer = pin.Model()
        peer.gravity.linear = np.array(model.gravity)
        above, into = 0, pin.SE3.Identity()
        for k in range(8):
            spec, body = model.joint_spec(f"j{k}"), model.body(f"b{k}")
            r_p, p_p, r_c, p_c = joint_frames(spec)
            above = peer.addJoint(above, pin.JointModelRZ(), into * pin.SE3(r_p, p_p), f"j{k}")
            into = pin.SE3(r_c, p_c).inverse()
            peer.appendBodyToJoint(above, pin.Inertia(body.mass, body.com, body.inertia), into)
        r_p, p_p, r_c, p_c = joint_frames(model.joint_spec("loop"))
        # tied to the world at the place the loop's frame in the last body has: the error of a loop's frame is none
        data = peer.createData()
        pin.forwardKinematics(peer, data, q)
        end = into * pin.SE3(r_c, p_c)
        tie = pin.RigidConstraintModel(contact, peer, above, end, 0, data.oMi[above] * end, pin.LOCAL)
        ties, states = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
        ties.append(tie)
        states.append(tie.createData())
        pin.initConstraintDynamics(peer, data, ties, states)
        tau = rng.uniform(-3, 3, 8)
        settings = pin.ProximalSettings(1e-14, 1e-12, 50)
        wanted = pin.constraintDynamics(peer, data, q, qd, tau, ties, states, settings)
        sim = lj.Simulation(model, lj.Full(integrator="euler"), q=q, qd=qd)
        sim.tau = tau
        assert relative(read_accelerations(sim), wanted) < 1e-7


SCENES = [
    ("four_bar", {}, 5, 2),
    ("bricard", {}, 5, 4),
    ("n_four_bar", {"loops": 3}, 15, 6),
    ("andrews_squeezer", {}, 15, 6),
]


@pytest.mark.parametrize("integrator", ["rk4", "semi_implicit"])
@pytest.mark.parametrize(("name", "options", "rows", "rank"), SCENES)
def test_mechanisms_run_with_redundant_rows(name, options, rows, rank, integrator):
    """Closed mechanisms of redundant rows run 2 s (the fast one 0.02 s) closed to 1e-10; the rank is reported."""
    found = lj.scenes.get(name, **options)
    dt, steps = (1e-5, 2000) if name == "andrews_squeezer" else (1e-3, 2000)
    sim = lj.Simulation(found.model, lj.Full(integrator=integrator), dt=dt)
    first, worst = sim.energy().total, 0.0
    for _ in range(10):
        sim.step(steps // 10)
        worst = max(worst, *sim.joint_error())
        assert (sim.stats["rows"], sim.stats["rank"]) == (rows, rank)
    assert worst < 1e-10
    if integrator == "rk4":
        assert sim.energy().total == pytest.approx(first, rel=1e-6, abs=1e-6)


def rhombus(gap):
    """Return two bars of 1 m on pivots 2 + gap apart, whose ends a pin joins: it cannot close if gap > 0."""
    builder = lj.Builder(gravity=(0, 0, 0))
    for name, x in (("left", 0.0), ("right", 2.0 + gap)):
        builder.add_body(name, mass=1.0, com=(0.5, 0, 0), inertia=(0.01, 0.1, 0.1))
        builder.add_joint_hinge(f"{name}_pivot", "world", name, position=(x, 0, 0), start=1.0 if x == 0 else 2.0)
    builder.add_joint_hinge("pin", "left", "right", position=(1, 0, 0), position_in_child=(1, 0, 0))
    return builder.build()


def test_a_loop_that_cannot_close_is_named():
    """Bars too short to connect raise LoopNotClosed with the pin's name and the gap left; the state is unchanged."""
    sim = lj.Simulation(rhombus(0.5))
    before = sim.q.copy()
    with pytest.raises(lj.LoopNotClosed, match=r'joint "pin": gap [01]\.\d+ m > 0.01 m.*lj.assemble') as caught:
        sim.step(1)
    assert float(str(caught.value).split("gap ")[1].split(" m")[0]) >= 0.5
    np.testing.assert_array_equal(sim.q, before)
    assert sim.steps == 0


def test_a_loop_left_a_little_open_closes():
    """A start that misses the loop by a little is brought onto it by the least change, at the first step."""
    model = rhombus(-0.5)
    start = np.arccos(0.75)
    sim = lj.Simulation(model, q=[start + 1e-3, np.pi - start])
    sim.step(1)
    assert max(sim.joint_error()) < 1e-12
    assert np.abs(sim.q - (start, np.pi - start)).max() < 1e-3


def test_the_knife_edge_follows_its_cycloid():
    """A blade that may not move across follows its closed form for 2 s, never slipping sideways."""
    model = lj.scenes.knife_edge(speed=2.0, slope=0.3)
    sim = lj.Simulation(model, lj.Full(integrator="rk4"), dt=1e-3)
    a, w = 9.81 * np.sin(0.3), 2.0
    for _ in range(8):
        sim.step(250)
        t = sim.time
        x, y = a * np.sin(w * t) ** 2 / (2 * w**2), a * (w * t - np.sin(2 * w * t) / 2) / (2 * w**2)
        np.testing.assert_allclose(sim.q, (x, y, w * t), atol=1e-9)
        across = np.array([-np.sin(sim.q[2]), np.cos(sim.q[2])])
        assert abs(across @ sim.qd[:2]) < 1e-12


def two_figures(rng, which):
    """Return a model of one or both of two closed figures, named by letters."""
    builder = lj.Builder()
    for letter in which:
        own, speed = np.random.default_rng(ord(letter)), 5.0 * (letter == "b")
        for k in range(3):
            builder.add_body(f"{letter}{k}", mass=own.uniform(1, 2), com=(0.5, 0, 0), inertia=(0.01, 0.1, 0.1))
        x, turn = 10.0 * ord(letter), {"axis": (0, 1, 0)}
        start = {"start": -1.0, "start_velocity": speed}
        back = {"start": 1.0, "start_velocity": -speed}
        builder.add_joint_hinge(f"{letter}A", "world", f"{letter}0", position=(x, 0, 0), **turn, **start)
        builder.add_joint_hinge(f"{letter}B", f"{letter}0", f"{letter}1", position=(1, 0, 0), **turn, **back)
        builder.add_joint_hinge(f"{letter}D", "world", f"{letter}2", position=(x + 1, 0, 0), **turn, **start)
        builder.add_joint_hinge(
            f"{letter}C", f"{letter}1", f"{letter}2", position=(1, 0, 0), position_in_child=(1, 0, 0), **turn
        )
    return builder.build()


@pytest.mark.parametrize("integrator", ["rk4", "semi_implicit"])
def test_figures_do_not_feel_each_other(rng, integrator):
    """Two closed figures give the same bits alone and together."""
    both = lj.Simulation(two_figures(rng, "ab"), lj.Full(integrator=integrator))
    both.step(300)
    for k, letter in enumerate("ab"):
        alone = lj.Simulation(two_figures(rng, letter), lj.Full(integrator=integrator))
        alone.step(300)
        np.testing.assert_array_equal(alone.q, both.q[3 * k : 3 * k + 3])
        np.testing.assert_array_equal(alone.qd, both.qd[3 * k : 3 * k + 3])


@pytest.mark.parametrize("integrator", ["rk4", "semi_implicit", "implicit"])
def test_going_back_and_resuming_repeat_the_steps(rng, integrator, tmp_path):
    """With loops, limits and gears, restore and resume end in the same bits; so does another simulation."""
    builder = lj.Builder.from_spec(two_figures(rng, "a").spec)
    builder.add_body("w", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint_hinge("turn", "world", "w", axis=(0, 1, 0))
    builder.add_gear("mesh", "aA", "turn", ratio=2.0, offset=-1.0)
    builder.add_body("bob", mass=1.0, com=(0, 0, -1), inertia=(0.1, 0.1, 0.1))
    builder.add_joint_hinge("swing", "world", "bob", axis=(0, 1, 0), limits=(-0.3, 0.3), start=0.25)
    sim = lj.Simulation(builder.build(), lj.Full(integrator=integrator))
    sim.step(150)
    snapshot, path = sim.snapshot(), sim.save(tmp_path / "run.npz")
    sim.step(200)
    there = sim.state_hash()
    sim.restore(snapshot)
    sim.step(70)
    sim.step(130)
    assert sim.state_hash() == there
    other = lj.resume(path)
    other.step(200)
    assert other.state_hash() == there
    fresh = lj.Simulation(builder.build(), lj.Full(integrator=integrator))
    fresh.step(350)
    assert fresh.state_hash() == there
