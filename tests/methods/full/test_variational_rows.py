"""The variational step with loops, limits, velocity constraints, grips, contacts and dry friction."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.methods.full.test_variational import INTEGRATORS, chain, energies

import limberjack as lj


@pytest.mark.parametrize("name", ["four_bar", "bricard"])
def test_loops_converge_with_second_order(name):
    """Halving the step divides the distance from a fine rk4 run by four, in positions and in velocities."""
    model = lj.scenes.get(name).model
    exact = lj.Simulation(model, lj.Full(integrator="rk4"), dt=1e-4)
    exact.step(10_000)
    errors = []
    for steps in (200, 400):
        sim = lj.Simulation(model, "full", dt=1.0 / steps)
        sim.step(steps)
        errors.append((np.abs(sim.q - exact.q).max(), np.abs(sim.qd - exact.qd).max()))
        assert max(sim.joint_error()) < 1e-9
    ratios = np.array(errors[0]) / np.array(errors[1])
    assert ((3.7 < ratios) & (ratios < 4.3)).all()


@pytest.mark.parametrize("dt", [1 / 1000, 1 / 240, 1 / 60])
@pytest.mark.parametrize("name,options", [("four_bar", {}), ("bricard", {}), ("tread", {"plates": 8})])
def test_loops_gain_no_energy(name, options, dt):
    """Mechanisms without friction gain less than 1 % in 6 s, at steps where the explicit one gains a quarter."""
    change, kinetic = energies(lj.Simulation(getattr(lj.scenes, name)(**options), "full", dt=dt), 6.0)
    assert change.max() < 0.01 * kinetic


def test_velocities_shown_satisfy_the_rows():
    """At every time shown, velocities lie in the directions that the loops leave free."""
    sim = lj.Simulation(lj.scenes.four_bar(), "full", dt=1 / 240)
    for _ in range(50):
        sim.step(3)
        moved = sim.q + 1e-7 * sim.qd
        other = lj.Simulation(sim.model, "full", q=moved, qd=sim.qd)
        assert max(other.joint_error()) < 1e-10


def test_limits_are_inelastic_and_exact():
    """A pendulum that falls on its limit stops there: no bounce and no overshoot."""
    builder = lj.Builder("stop")
    builder.add_body("rod", mass=1.0, com=(0.0, 0.0, -0.5), inertia=(0.1, 0.1, 0.01))
    builder.add_joint_hinge("h", "world", "rod", axis=(0.0, 1.0, 0.0), limits=(0.3, 2.0), start=1.5)
    for dt in (1 / 1000, 1 / 60):
        sim = lj.Simulation(builder.build(), "full", dt=dt)
        lowest = sim.q[0]
        for _ in range(round(2.0 / dt)):
            sim.step()
            lowest = min(lowest, sim.q[0])
        assert lowest > 0.3 - 1e-12 and sim.q[0] == pytest.approx(0.3, abs=1e-9) and abs(sim.qd[0]) < 1e-9


def test_ball_limits_take_energy_only():
    """Chains whipping against cone limits never gain energy, at any step."""
    builder = lj.Builder("cones")
    for k in range(12):
        builder.add_body(f"b{k}", mass=1.0, com=(0.0, 0.0, -0.05), inertia=(0.01, 0.011, 0.002))
        parent, at = ("world", (0.0, 0.0, 0.0)) if k == 0 else (f"b{k - 1}", (0.0, 0.0, -0.1))
        start = (math.cos(0.7), 0.0, math.sin(0.7), 0.0) if k == 0 else (1.0, 0.0, 0.0, 0.0)
        cone = 2.0 if k == 0 else 0.4
        builder.add_joint_ball(f"j{k}", parent, f"b{k}", position=at, start=start, cone=cone, twist=(-0.3, 0.3))
    for dt in (1 / 1000, 1 / 240, 1 / 60):
        change, kinetic = energies(lj.Simulation(builder.build(), "full", dt=dt), 6.0)
        assert change.max() < 0.01 * kinetic


def test_rolling_constraints_do_no_work():
    """A skate's edge constraint keeps its kinetic energy to a thousandth, where a one-sided velocity row loses more."""
    model = lj.scenes.knife_edge()
    exact = lj.Simulation(model, lj.Full(integrator="rk4"), dt=1e-3)
    sim = lj.Simulation(model, "full", dt=1e-2)
    start = sim.energy().total
    exact.step(2000)
    sim.step(200)
    assert abs(sim.energy().total - start) < 2e-3 * sim.energy().kinetic
    assert np.abs(sim.q - exact.q).max() < 1e-3


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("speed", [0.0, 20.0])
def test_any_body_can_be_dragged(integrator, speed):
    """A person held by any body, or pulled back and forth by a fast hand, stays finite and slow at 1/240 s."""
    model = lj.scenes.humanoid()
    for body in model.body_names[::11]:
        sim = lj.Simulation(model, lj.Full(integrator=integrator), dt=1 / 240)
        grip = sim.grab(body)
        start = grip.point
        for k in range(120):
            t = k * sim.dt
            grip.move(start + [0.5 * math.sin(speed * t), 0.3 * math.sin(0.7 * speed * t), 0.0])
            sim.step()
        assert np.linalg.norm(grip.point - grip.target) < (0.1 if speed == 0.0 else 0.7)
        assert np.abs(sim.velocities[:, 3:]).max() < 60.0
        grip.release()
        sim.step(10)


def test_released_grips_leave_no_trace():
    """Held and released, a chain goes on from its velocity; the snapshot of a free one fits again."""
    sim = lj.Simulation(chain(5), "full", dt=1e-3)
    sim.step(10)
    snapshot, wanted = sim.snapshot(), sim.state_hash()
    grip = sim.grab("b4")
    sim.step(5)
    before = sim.qd.copy()
    grip.release()
    assert np.array_equal(sim.qd, before)
    sim.restore(snapshot)
    assert sim.state_hash() == wanted


def boxes(count: int, friction: float = 0.5) -> lj.Model:
    """Return a column of boxes on the ground."""
    builder = lj.Builder("column")
    builder.add_shape_plane("world", friction=friction)
    for k in range(count):
        builder.add_body(f"box{k}", mass=1.0, inertia=(1 / 6,) * 3, position=(0.0, 0.0, 0.5 + k))
        builder.add_shape_box(f"box{k}", (1.0, 1.0, 1.0), friction=friction)
    return builder.build()


@pytest.mark.parametrize("dt", [1 / 1000, 1 / 240, 1 / 60])
@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_column_rests(integrator, dt):
    """Three boxes stay as they are, show no velocity, and press on the ground with their weight."""
    sim = lj.Simulation(boxes(3), lj.Full(integrator=integrator), dt=dt)
    sim.step(round(1.0 / dt))
    assert np.abs(sim.velocities).max() < 1e-6
    assert np.abs(sim.positions[:, 2] - [0.5, 1.5, 2.5]).max() < 5e-3
    ground = sum(c.force[2] for c in sim.contacts() if "world" in c.bodies)
    assert ground == pytest.approx(3 * 9.81, rel=1e-6)


def test_sliding_obeys_coulomb():
    """On a slope a box slides by the cone, whatever the integrator; velocities lag by half a step of contact only."""
    slant, g, friction = 0.4, 9.81, 0.2
    builder = lj.Builder("slope", gravity=(g * math.sin(slant), 0.0, -g * math.cos(slant)))
    builder.add_body("box", mass=2.0, inertia=(0.2, 0.2, 0.2), position=(0.0, 0.0, 0.1))
    builder.add_shape_box("box", (1.0, 1.0, 0.2), friction=friction)
    builder.add_shape_plane("world", friction=friction)
    slides = g * (math.sin(slant) - friction * math.cos(slant))
    for integrator in INTEGRATORS:
        sim = lj.Simulation(builder.build(), lj.Full(integrator=integrator), dt=2e-3)
        sim.step(200)
        assert sim.velocities[0, 3] == pytest.approx(slides * (sim.time - 0.5 * sim.dt), abs=1e-3)


@pytest.mark.parametrize("dt", [1 / 240, 1 / 60])
@pytest.mark.parametrize("kind", ["hinge", "ball"])
def test_ropes_dropped_on_their_end_come_to_rest(kind, dt):
    """A rope of 25 links let fall upright coils up and comes to rest, and never gains energy."""
    builder, rng = lj.Builder("rope"), np.random.default_rng(1)
    builder.add_shape_plane("world", friction=0.5)
    for k in range(25):
        at = {"position": (0.0, 0.0, 0.05)} if k == 0 else {}
        builder.add_body(f"b{k}", mass=0.05, com=(0.0, 0.0, 0.05), inertia=(4.7e-5, 4.7e-5, 1e-5), **at)
        builder.add_shape_capsule(f"b{k}", radius=0.02, length=0.08, position=(0.0, 0.0, 0.05))
        if k and kind == "ball":
            turn = np.append(1.0, 0.01 * rng.normal(size=3))
            start = tuple(turn / np.linalg.norm(turn))
            builder.add_joint_ball(f"j{k}", f"b{k - 1}", f"b{k}", position=(0.0, 0.0, 0.1), start=start)
        elif k:
            axis = (0.0, 1.0, 0.0) if k % 2 else (1.0, 0.0, 0.0)
            start = 0.02 * rng.normal()
            builder.add_joint_hinge(f"j{k}", f"b{k - 1}", f"b{k}", position=(0.0, 0.0, 0.1), axis=axis, start=start)
    sim = lj.Simulation(builder.build(), "full", dt=dt)
    change, kinetic = energies(sim, 4.0)
    assert change.max() < 0.03 * kinetic
    assert np.abs(sim.velocities[:, 3:]).max() < 0.2 and sim.positions[:, 2].max() < 0.4


def test_contacts_and_rows_of_a_snapshot_go_on_bit_for_bit():
    """A fallen person restored from a snapshot takes the same steps, in full and in adaptive."""
    for method, limits in (("full", "hard"), ("full", "soft"), (lj.Adaptive(budget=20), "hard")):
        sim = lj.Simulation(lj.scenes.humanoid(contacts=True, limits=limits), method, dt=1 / 240)
        sim.step(60)
        snapshot = sim.snapshot()
        sim.step(20)
        wanted = sim.state_hash()
        sim.restore(snapshot)
        sim.step(20)
        assert sim.state_hash() == wanted


def test_substeps_are_counted_and_the_same_every_time():
    """What a step was divided into is in the stats, and two runs are divided alike."""
    runs = []
    for _ in range(2):
        sim = lj.Simulation(chain(40, horizontal=True), "full", dt=1 / 60)
        sim.step(60)
        runs.append([sim.stats[word] for word in ("substeps", "evaluations", "halved", "projected")])
    assert runs[0] == runs[1] and runs[0][0] >= 1 and runs[0][1] >= runs[0][0]


@pytest.mark.parametrize("dt", [1e-3, 1 / 240, 1 / 60])
@pytest.mark.parametrize("kind", ["hinge", "ball"])
@pytest.mark.parametrize(
    "method",
    [
        lj.Full(),
        lj.Full(integrator="projected"),
        lj.Full(integrator="semi_implicit"),
        lj.Full(integrator="rk4"),
        pytest.param(lj.Adaptive(budget=4), marks=pytest.mark.filterwarnings("ignore::limberjack.BudgetWarning")),
    ],
)
def test_a_straight_chain_pinned_at_both_ends_stays(method, kind, dt):
    """A chain as long as the distance of its pins cannot move: it stays to what gaps of 1e-8 m allow."""
    builder = lj.Builder("straight")
    axis = {"axis": (0, 1, 0)} if kind == "hinge" else {}
    for k in range(10):
        builder.add_body(f"link{k}", mass=0.1, com=(0.05, 0, 0), inertia=(1e-5, 1e-4, 1e-4))
        above, at = ("world", 0.0) if k == 0 else (f"link{k - 1}", 0.1)
        builder.add_joint(kind, f"pin{k}", above, f"link{k}", position=(at, 0, 0), **axis)
    builder.add_joint(kind, "end", "world", "link9", position=(1, 0, 0), position_in_child=(0.1, 0, 0), **axis)
    sim = lj.Simulation(builder.build(), method, dt=dt)
    start = sim.energy().total
    for _ in range(10):
        sim.step(round(0.03 / dt))
        # a step of 1/60 s of free fall gains 0.013 J; explicit forces of a taut chain may give it back some times
        assert sim.energy().total - start < (0.003 if method.integrator in ("variational", "projected") else 0.5)
    assert np.abs(sim.positions[:, 2]).max() < 1e-4
    assert sim.joint_error().metres <= 1e-8


@pytest.mark.parametrize(
    "scene,dt,seconds,allowed",
    [
        (lj.scenes.draggable_structure(rings=3), 1 / 60, 4.0, 0.2),
        (lj.scenes.bridge(planks=2, blocks=1), 1 / 240, 0.4, 0.2),
    ],
    ids=["light rods that spin", "taut planks that are hit"],
)
def test_loops_make_no_energy_where_their_rows_turn_far(scene, dt, seconds, allowed):
    """Loops whose rows turn far within a step, or have lost rank when something hits them, gain nothing."""
    sim = lj.Simulation(scene, "full", dt=dt)
    start, gain = sim.energy().total, 0.0
    for _ in range(round(seconds / dt)):
        sim.step()
        gain = max(gain, sim.energy().total - start)
    assert gain < allowed
    assert sim.joint_error().metres < 1e-8
