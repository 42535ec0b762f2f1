"""Method `multipliers` against `full` and closed forms: trees, loops, drives, limits, turns, snapshots."""

from __future__ import annotations

import numpy as np
import pytest
from tests.naive import rotations as rot
from tests.naive.exact_motions import exact_four_bars
from tests.naive.looped import LOOPS, chain, close, closed, fitting, looped_accelerations, read_accelerations
from tests.naive.models import KINDS, add_body, random_model, random_state

import limberjack as lj

PLAIN = tuple(kind for kind in KINDS if kind != "compound")


def pair(model, integrator="rk4", dt=1e-3, **state):
    """Return simulations of the model in `full` and in `multipliers`."""
    return (
        lj.Simulation(model, lj.Full(integrator=integrator), dt=dt, **state),
        lj.Simulation(model, lj.Multipliers(integrator=integrator), dt=dt, **state),
    )


def both(sims, act):
    """Do the same to all simulations."""
    for sim in sims:
        act(sim)


def assert_same(sims, atol=1e-9):
    """Assert that coordinates and velocities agree; quaternions up to their sign."""
    full, ours = sims
    q = ours.q.copy()
    for place, _ in full.model.arrays.links.quaternions:
        if q[place : place + 4] @ full.q[place : place + 4] < 0:
            q[place : place + 4] *= -1
    np.testing.assert_allclose(q, full.q, atol=atol)
    np.testing.assert_allclose(ours.qd, full.qd, atol=10 * atol)


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_trees_move_as_in_full(rng, seed, merge):
    """Random forests of every joint kind, welds merged or kept, move as in reduced coordinates over 200 steps."""
    model = random_model(rng, bodies=7, kinds=PLAIN, passive=False, merge_fixed=merge)
    q, qd = random_state(rng, model)
    sims = pair(model, q=q, qd=qd)
    both(sims, lambda sim: sim.step(200))
    assert_same(sims)
    assert sims[1].stats["joint_error"] < 1e-11


def driven(rng):
    """Return a tree with dampers, springs and motors on all sorts of joints, and a spring between bodies."""
    builder = lj.Builder()
    kinds = ("ball", "hinge", "universal", "cylindrical", "planar", "slide")
    for k, kind in enumerate(kinds):
        add_body(builder, rng, f"b{k}")
        nv = {"ball": 3, "hinge": 1, "universal": 2, "cylindrical": 2, "planar": 3, "slide": 1}[kind]
        options = {"damping": rng.uniform(0.1, 1, nv)}
        if kind == "ball":
            options |= {"stiffness": 3.0, "motor": lj.Motor(kp=2.0, kd=0.1)}
        else:
            options |= {"stiffness": rng.uniform(1, 3, nv), "rest": rng.uniform(-0.3, 0.3, nv)}
        if kind == "hinge":
            options["motor"] = lj.Motor(kp=5.0, kd=0.5, target=0.7, max=1.5)
        above = f"b{k - 1}" if k else "world"
        getattr(builder, f"add_joint_{kind}")(f"j{k}", above, f"b{k}", position=rng.uniform(-0.4, 0.4, 3), **options)
    builder.add_spring("world", "b5", at_a=(1, 0, 0), at_b=(0.1, 0.2, 0), stiffness=40.0, damping=1.0, rest=0.4)
    builder.add_spring("b1", "b4", at_b=(0.1, 0.2, 0), stiffness=20.0, rest=0.1)
    return builder.build()


def test_forces_act_as_in_full(rng):
    """Dampers, joint springs, motors with a largest force, body springs, applied forces and wrenches act alike."""
    model = driven(rng)
    sims = pair(model)
    tau, at = rng.uniform(-1, 1, model.nv), rng.uniform(-1, 1, 3)

    def push(sim):
        sim.tau = tau
        sim.apply_wrench("b3", force=(1, 2, -3), torque=(0.3, 0.2, 0.1), point=at)
        sim.step(100)
        sim.joint("j1").target = -0.5
        sim.clear_wrenches()
        sim.step(100)

    both(sims, push)
    assert_same(sims)


@pytest.mark.parametrize("kind", LOOPS)
def test_loops_move_as_in_full(rng, kind):
    """A random chain closed by any joint moves as in reduced coordinates over 200 steps."""
    model, q, qd = closed(rng, kind)
    sims = pair(model, q=q, qd=qd)
    both(sims, lambda sim: sim.step(200))
    assert_same(sims, 1e-8)


@pytest.mark.parametrize("kind", ["hinge", "ball", "screw", "distance"])
def test_accelerations_are_those_of_the_dense_system(rng, kind):
    """Accelerations of a closed chain under forces are those of the dense saddle system in reduced coordinates."""
    model, q, qd = closed(rng, kind, parent="b1")
    sim = lj.Simulation(model, lj.Multipliers(integrator="euler"), q=q, qd=qd)
    sim.tau = rng.uniform(-3, 3, model.nv)
    wanted = looped_accelerations(model, q, qd, sim.tau)
    assert np.abs(read_accelerations(sim) - wanted).max() < 1e-7 * np.abs(wanted).max()


SCENES = [
    ("four_bar", {}), ("bricard", {}), ("n_four_bar", {"loops": 3}), ("baraff_planar", {}),
    ("baraff_planar", {"rings": True}), ("baraff_tree", {"bodies": 15, "loops": 2}), ("gear_train", {}),
    ("knife_edge", {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), SCENES, ids=lambda x: str(x))
def test_scenes_move_as_in_full(name, options):
    """Mechanisms with redundant rows, planar bodies, gears and knife edges move as in reduced coordinates."""
    sims = pair(lj.scenes.get(name, **options).model)
    both(sims, lambda sim: sim.step(200))
    assert_same(sims, 1e-8)
    assert max(sims[1].joint_error()) < 1e-9


@pytest.mark.parametrize("solver", ["tree", "sparse"])
def test_singular_poses_are_passed(solver):
    """Two four-bars pass poses where all rods lie in line, one of them within 1e-4 rad, and stay where they belong."""
    model = lj.scenes.n_four_bar(loops=2)
    sim = lj.Simulation(model, lj.Multipliers(integrator="rk4", solver=solver, substeps=3), dt=1e-3)
    start = sim.energy().total
    sim.step(4000)
    np.testing.assert_allclose(sim.point("B0").position[:2], exact_four_bars(4.0, 2), atol=2e-9)
    assert abs(sim.energy().total - start) < 1e-8
    assert max(sim.joint_error()) < 1e-13


@pytest.mark.parametrize("offset", [1e3, 1e5])
def test_a_mechanism_far_from_the_origin_moves_alike(offset):
    """A closed chain far off moves as one at the origin, as well as places there can be told apart."""
    places = []
    for x in (0.0, offset):
        builder = lj.Builder(gravity=(0, -9.81, 0))
        for k, name in enumerate(("left", "coupler", "right")):
            builder.add_body(name, mass=1.0 + k, com=(0, 0.5, 0) if k != 1 else (0.5, 0, 0), inertia=(0.1, 0.1, 0.1))
        builder.add_joint_hinge("a", "world", "left", position=(x, 0, 0), start=0.0, start_velocity=-1.0)
        builder.add_joint_hinge("b", "left", "coupler", position=(0, 1, 0), start=0.0, start_velocity=1.0)
        builder.add_joint_hinge(
            "c", "coupler", "right", position=(1, 0, 0), position_in_child=(0, 1, 0), start_velocity=-1.0
        )
        builder.add_joint_hinge("d", "world", "right", position=(x + 1, 0, 0))
        sim = lj.Simulation(builder.build(), lj.Multipliers(integrator="rk4"), dt=1e-3)
        sim.step(1000)
        places.append(sim.q.copy())
    np.testing.assert_allclose(places[1], places[0], atol=1e-13 * offset)


@pytest.mark.parametrize("integrator", ["rk4", "semi_implicit", "rattle"])
def test_turns_are_counted_without_being_read(integrator):
    """A wheel that turns many times between two looks at it has turned that far; and what was set is read back."""
    builder = lj.Builder(gravity=(0, 0, 0))
    for name in "abc":
        builder.add_body(name, mass=1.0, inertia=(1, 1, 1))
    builder.add_joint_hinge("h", "world", "a", axis=(1, 2, 3), start_velocity=-20.0)
    builder.add_joint_screw("s", "world", "b", pitch=0.05, start_velocity=20.0)
    builder.add_joint_planar("p", "world", "c", start_velocity=(0.1, 0.2, 15.0))
    sim = lj.Simulation(builder.build(), lj.Multipliers(integrator=integrator))
    sim.step(2000)
    np.testing.assert_allclose(sim.q, (-40, 40, 0.2, 0.4, 30), atol=1e-6)
    sim.q = wanted = np.array([100.5, -77.25, 0.1, 0.2, 31.0])
    np.testing.assert_array_equal(sim.q, wanted)
    sim.step(1)
    np.testing.assert_allclose(sim.q, wanted + 1e-3 * sim.qd, atol=1e-6)


@pytest.mark.parametrize("integrator", ["rk4", "semi_implicit", "rattle"])
def test_limits_hold_and_let_go(integrator):
    """A falling rod stops at its limit within 1e-9, stays under load, and leaves when turned back."""
    builder = lj.Builder()
    builder.add_body("bob", mass=1.0, com=(0.5, 0, 0), inertia=(0.01, 1 / 12, 1 / 12))
    builder.add_joint_hinge("j", "world", "bob", axis=(0, 1, 0), limits=(-0.4, 0.4))
    sim = lj.Simulation(builder.build(), lj.Multipliers(integrator=integrator))
    worst = 0.0
    for _ in range(60):
        sim.step(10)
        worst = max(worst, sim.q[0] - 0.4)
    assert worst < 1e-9 and sim.q[0] == pytest.approx(0.4, abs=1e-9) and abs(sim.qd[0]) < 1e-9
    sim.tau = [-9.81]
    sim.step(100)
    assert sim.q[0] < 0.4 - 0.02


def whirled(kind):
    """Return a rod on a ball joint with a limit of the kind named, thrown about."""
    builder = lj.Builder()
    builder.add_body("bob", mass=1.0, com=(0.5, 0, 0), inertia=(0.01, 1 / 12, 1 / 12))
    options = {"limits": {"limits": (0, 0.6)}, "cone": {"cone": 0.6}, "twist": {"twist": (-0.3, 0.6)}}[kind]
    builder.add_joint_ball("j", "world", "bob", start_velocity=(2.0, 1.0, 9.0), **options)
    return builder.build()


@pytest.mark.parametrize("kind", ["limits", "cone", "twist"])
def test_limits_of_a_ball_hold(kind):
    """A ball joint moves as in reduced coordinates until it meets a limit, and from then on keeps within it."""
    sims = pair(whirled(kind))
    both(sims, lambda sim: sim.step(60))
    assert_same(sims)
    sim, seen = sims[1], []
    for _ in range(60):
        sim.step(5)
        r = rot.matrix(sim.q)
        seen.append({
            "limits": 2 * np.arccos(min(1.0, abs(sim.q[0]))),
            "cone": np.arccos(min(1.0, r[2, 2])),
            "twist": np.arctan2(r[1, 0] - r[0, 1], r[0, 0] + r[1, 1]),
        }[kind])  # fmt: skip
    assert 0.599 < max(seen) < 0.6 + 1e-8


def test_a_taut_rope_is_a_rod():
    """A body that swings on a taut rope moves as in reduced coordinates, and as on a rod."""
    ends = []
    for rope in (True, False):
        builder = lj.Builder()
        builder.add_body("bob", mass=1.0, inertia=(0.01, 0.01, 0.01), position=(0.6, 0, -0.8))
        builder.add_joint_distance("tie", "world", "bob", length=1.0, rope=rope)
        sims = pair(builder.build())
        both(sims, lambda sim: sim.step(600))
        assert_same(sims, 1e-8)
        ends.append(sims[1].q)
    np.testing.assert_allclose(*ends, atol=1e-9)


def test_many_limits_act_at_once():
    """A chain that barely bends meets more limits at once than there was room for; all hold."""
    model = lj.scenes.chain_with_limits(links=30, length=0.05, mass=0.1, limit=0.01, damping=0.001)
    sim = lj.Simulation(model, "multipliers")
    most, worst = 0, 0.0
    for _ in range(60):
        sim.step(5)
        most, worst = max(most, sim.stats["auxiliary_rows"]), max(worst, np.abs(sim.q[1:]).max() - 0.01)
    assert most > 16 and worst < 1e-9


@pytest.mark.parametrize("integrator", ["rk4", "semi_implicit", "rattle"])
def test_going_back_and_resuming_repeat_the_steps(integrator, tmp_path):
    """With drives, loops and limits, restore and resume end in the same bits."""
    method = lj.Multipliers(integrator=integrator)
    builder = lj.Builder.from_spec(lj.scenes.four_bar().spec)
    builder.add_body("bob", mass=1.0, com=(0, 0, -1), inertia=(0.1, 0.1, 0.1))
    builder.add_joint_hinge("swing", "world", "bob", axis=(0, 1, 0), limits=(-0.3, 0.3), start=0.25, damping=0.5)
    builder.add_body("top", mass=1.0, inertia=(0.1, 0.2, 0.3))
    builder.add_joint_ball("spin", "world", "top", damping=0.1, start_velocity=(1, 2, 3))
    sim = lj.Simulation(builder.build(), method)
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
    fresh = lj.Simulation(builder.build(), method)
    fresh.step(350)
    assert fresh.state_hash() == there


def test_a_loop_cannot_be_set_open():
    """Coordinates that open a loop are refused with the joint's name and gap; the state before stays."""
    sim = lj.Simulation(lj.scenes.four_bar(), "multipliers")
    before = sim.q.copy()
    with pytest.raises(lj.LoopNotClosed, match='joint "C": gap'):
        sim.q = before + (0.1, 0.0, 0.0)
    np.testing.assert_array_equal(sim.q, before)
    sim.step(10)


def test_what_cannot_be_moved_is_named():
    """Divergence names a joint and body; a body without mass is refused when the simulation is made."""
    builder = lj.Builder()
    builder.add_body("bob", mass=1.0, inertia=(1, 1, 1), com=(0, 0, -1))
    builder.add_joint_hinge("pivot", "world", "bob", axis=(0, 1, 0))
    sim = lj.Simulation(builder.build(), lj.Multipliers(stabilization="none"))
    sim.apply_wrench("bob", torque=(0, 1e200, 0))
    with pytest.raises(lj.Diverged, match='joint "pivot" of body "bob"'):
        sim.step(5)
    builder.add_body("nothing", mass=0.0)
    builder.add_joint_hinge("to", "world", "nothing")
    with pytest.raises(lj.LimberjackError, match='"nothing"'):
        lj.Simulation(builder.build(), "multipliers")


def test_stabilizations_drift_by_their_orders_of_magnitude():
    """Without control errors of joints grow, Baumgarte's terms make them ten times smaller, projection removes them."""
    model, worst = lj.scenes.chain_with_limits(links=8, limit=1e9), {}
    for stabilization in ("none", "baumgarte", "project"):
        method = lj.Multipliers(stabilization=stabilization, integrator="rk4", substeps=1)
        sim = lj.Simulation(model, method, dt=1e-2, ignore=("limits",))
        worst[stabilization] = 0.0
        for _ in range(30):
            sim.step(5)
            _ = sim.q
            worst[stabilization] = max(worst[stabilization], sim.stats["joint_error"])
    assert worst["none"] > 1e-3 and worst["none"] > 10 * worst["baumgarte"] and worst["baumgarte"] > 1e-6
    assert worst["project"] < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_random_mechanisms_move_as_in_full(seed):
    """Random chains of any joints, closed by one or two joints of any kind between any bodies, move alike."""
    rng = np.random.default_rng(seed)
    kinds = [KINDS[k] for k in rng.integers(len(KINDS), size=7)] + ["ball", "ball", "universal"]
    rng.shuffle(kinds)
    builder = chain(rng, kinds)
    q = random_state(rng, builder.build(), 0.6)[0]
    for k in range(int(rng.integers(1, 3))):
        a, b = rng.choice(len(kinds), 2, replace=False)
        parent = "world" if rng.random() < 0.3 else f"b{a}"
        close(builder, rng, q, LOOPS[int(rng.integers(len(LOOPS) - 1))], f"loop{k}", parent, f"b{b}")
    model = builder.build()
    sims = pair(model, q=q, qd=fitting(model, q, rng.uniform(-1, 1, model.nv)))
    both(sims, lambda sim: sim.step(100))
    assert_same(sims, 1e-7)


@pytest.mark.parametrize("scene", ["double_pendulum", "four_bar"])
def test_energy_of_semi_implicit_steps_stays_bounded(scene):
    """Over 20 s of steps of 1/240 s energy sways around its start and does not drift, as fast as bodies may turn."""
    model = getattr(lj.scenes, scene)()
    sim = lj.Simulation(model, "multipliers", dt=1 / 240)
    sim.step(0)
    before, off, moving = sim.energy().total, [], 0.0
    for _ in range(400):
        sim.step(12)
        now = sim.energy()
        off.append(now.total - before)
        moving = max(moving, now.kinetic)
    assert np.abs(off).max() < 0.03 * moving
    assert abs(np.mean(off[200:]) - np.mean(off[:200])) < 0.01 * moving


@pytest.mark.parametrize("solver", ["dense", "krylov"])
def test_all_solvers_bend_paths_alike(solver):
    """A double pendulum moves the same whichever solver finds the forces of its joints."""
    model = lj.scenes.double_pendulum()
    sim, other = (lj.Simulation(model, lj.Multipliers(solver=name), dt=1 / 240) for name in ("tree", solver))
    sim.step(100)
    other.step(100)
    np.testing.assert_allclose(sim.q, other.q, atol=1e-7)
