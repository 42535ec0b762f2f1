"""Gears, driven loop joints, springs and grips in `full`."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.naive.models import add_body

import limberjack as lj


def wheels(ratio=-0.5, offset=0.0, **options):
    """Return two wheels about z with a gear q_a = ratio q_b + offset, of inertia 2 and 3."""
    builder = lj.Builder(gravity=(0, 0, 0))
    for name, inertia in (("a", 2.0), ("b", 3.0)):
        builder.add_body(name, mass=1.0, inertia=(inertia, inertia, inertia))
        start = offset if name == "a" else 0.0
        builder.add_joint_hinge(f"{name}_axle", "world", name, position=(float(name == "b"), 0, 0), start=start)
    builder.add_gear("mesh", "a_axle", "b_axle", ratio=ratio, offset=offset, **options)
    return builder.build()


@pytest.mark.parametrize("integrator", ["rk4", "semi_implicit", "implicit"])
def test_gears_keep_ratio_and_offset(integrator):
    """A torque on one wheel turns both by the closed form, in the ratio and from the offset given, over many turns."""
    sim = lj.Simulation(wheels(-0.5, 0.3), lj.Full(integrator=integrator))
    sim.tau = [0.0, 35.0]
    sim.step(2000)
    speed = 35.0 / (3.0 + 0.25 * 2.0) * 2.0
    np.testing.assert_allclose(sim.qd, (-0.5 * speed, speed), rtol=1e-10)
    assert sim.q[0] == pytest.approx(-0.5 * sim.q[1] + 0.3, abs=1e-12) and sim.q[1] > 6 * math.pi


def test_gears_couple_axes_of_compounds_and_slides(rng):
    """Axes of a compound joint and a slide in gear keep q_a = ratio q_b + offset to 1e-12 while all falls about."""
    builder = lj.Builder(gravity=(3.0, 5.0, -4.0))
    for name in "abc":
        add_body(builder, rng, name)
    axes = [lj.Axis(name="u", axis=(1, 0, 0)), lj.Axis(name="v", axis=(0, 1, 0)), lj.Axis(name="w", kind="slide")]
    builder.add_joint_compound("compound", "world", "a", axes)
    builder.add_joint_slide("slide", "a", "b", axis=(1, 1, 0))
    builder.add_joint_hinge("hinge", "b", "c", axis=(0, 1, 0))
    builder.add_gear("rack", "slide", "v", ratio=0.2)
    builder.add_gear("pair", "hinge", "u", ratio=-2.0)
    sim = lj.Simulation(builder.build(), lj.Full(integrator="rk4"))
    first = sim.energy().total
    for _ in range(20):
        sim.step(50)
        assert sim.joint("slide").q == pytest.approx(0.2 * sim.joint("v").q, abs=1e-12)
        assert sim.joint("hinge").q == pytest.approx(-2.0 * sim.joint("u").q, abs=1e-12)
        assert sim.joint("hinge").qd == pytest.approx(-2.0 * sim.joint("u").qd, abs=1e-11)
    energy = sim.energy()
    assert abs(sim.joint("u").q) > 0.1 and energy.total == pytest.approx(first, abs=1e-6 * energy.kinetic)


@pytest.mark.parametrize("kind", ["slide", "hinge"])
def test_gears_couple_loop_joints(kind):
    """A slider-crank geared to a wheel by its slide or by its crank moves alike wherever its loop is cut."""
    ends = []
    for cut in ("tree", "loop"):
        builder = lj.Builder()
        for name, com in (("crank", (0.25, 0, 0)), ("rod", (0.5, 0, 0)), ("piston", (0, 0, 0)), ("wheel", (0, 0, 0.1))):
            builder.add_body(name, mass=1.0, com=com, inertia=(0.1, 0.1, 0.1))
        turn = {"axis": (0, 1, 0)}
        joints = {
            "crank": ("hinge", "world", "crank", turn),
            "rod": ("hinge", "crank", "rod", turn | {"position": (0.5, 0, 0)}),
            "wrist": ("hinge", "rod", "piston", turn | {"position": (1, 0, 0)}),
            "slide": ("slide", "world", "piston", {"axis": (1, 0, 0)}),
        }
        driven = "slide" if kind == "slide" else "crank"
        order = ["crank", "rod", "wrist", "slide"]
        if (cut == "loop") != (driven == "slide"):
            order.reverse()
        for name in order:
            what, parent, child, options = joints[name]
            builder.add_joint(what, name, parent, child, **options)
        builder.add_joint_hinge("spin", "world", "wheel", position=(0, 3, 0), **turn)
        offset = 0.5 * math.cos(0.9) + math.sqrt(1 - (0.5 * math.sin(0.9)) ** 2) if kind == "slide" else 0.9
        builder.add_gear("mesh", driven, "spin", ratio=0.4, offset=offset)
        model = builder.build()
        assert model.joint(driven).is_loop == (cut == "loop")
        lean = -math.asin(0.5 * math.sin(0.9))
        start = {"crank": 0.9, "rod": lean - 0.9, "wrist": -lean, "spin": 0.0}
        start["slide"] = 0.5 * math.cos(0.9) + math.cos(lean)
        q = np.zeros(model.nq)
        for name, value in start.items():
            if not model.joint(name).is_loop:
                q[model.joint(name).q_start] = value
        sim = lj.Simulation(model, lj.Full(integrator="rk4"), q=q)
        assert max(sim.joint_error()) < 1e-12
        sim.step(300)
        ends.append(sim.joint("spin").q)
        assert sim.joint(driven).q == pytest.approx(0.4 * sim.joint("spin").q + offset, abs=1e-10)
    assert ends[0] == pytest.approx(ends[1], abs=1e-9) and abs(ends[0]) > 0.05


def test_a_carrier_gears_from_its_own_motion():
    """Sun and planet on a turning arm: turns against the arm keep the ratio, by the closed form."""
    builder = lj.Builder(gravity=(0, 0, 0))
    for name, inertia in (("arm", 1.0), ("sun", 2.0), ("planet", 0.5)):
        builder.add_body(name, mass=1.0, inertia=(inertia, inertia, inertia))
    builder.add_joint_hinge("arm_axle", "world", "arm")
    builder.add_joint_hinge("sun_axle", "world", "sun")
    builder.add_joint_hinge("planet_axle", "arm", "planet", position=(0.5, 0, 0))
    builder.add_gear("mesh", "sun_axle", "planet_axle", ratio=-0.4, carrier="arm")
    sim = lj.Simulation(builder.build(), lj.Full(integrator="rk4"))
    sim.joint("arm_axle").tau = 1.0
    sim.step(1000)
    arm, sun, planet = (sim.joint(f"{name}_axle").qd for name in ("arm", "sun", "planet"))
    # kinetic energy of arm rate w and planet rate p (against the arm): sun = w - 0.4 p; planet body w + p, at 0.5 m
    mass = np.array([[1 + 2 + 0.5 + 0.25, -0.8 + 0.5], [-0.8 + 0.5, 2 * 0.16 + 0.5]])
    w, p = np.linalg.solve(mass, (1.0, 0.0))
    np.testing.assert_allclose((arm, sun, planet), (w, w - 0.4 * p, p), rtol=1e-9)


def four_bar(cut, **options):
    """Return a four-bar whose pin C has `options`; the joint named by `cut` comes last and closes the loop."""
    builder = lj.Builder()
    for name in ("crank", "coupler", "rocker"):
        builder.add_body(name, mass=1.0, com=(0.5, 0, 0), inertia=(0.01, 0.1, 0.1))
    turn = {"axis": (0, 1, 0)}
    builder.add_joint_hinge("A", "world", "crank", **turn)
    builder.add_joint_hinge("B", "crank", "coupler", position=(1, 0, 0), **turn)
    places = {
        "C": ("coupler", "rocker", {"position": (1.2, 0, 0), "position_in_child": (1, 0, 0)} | options),
        "D": ("world", "rocker", {"position": (1.2, 0, 0)}),
    }
    for name in ("D", "C") if cut == "C" else ("C", "D"):
        parent, child, own = places[name]
        builder.add_joint_hinge(name, parent, child, **(own | turn))
    model = builder.build()
    assert model.loop_names == (cut,)
    return model


DRIVES = {
    "damping": {"damping": 0.7},
    "spring": {"stiffness": 8.0, "rest": -0.2, "damping": 0.1},
    "motor": {"motor": lj.Motor(kp=20.0, kd=1.0, target=-1.5)},
    "weak motor": {"motor": lj.Motor(kp=200.0, kd=1.0, target=-2.5, max=3.0)},
    "soft limits": {"limits": (-1.2, -0.8), "limit_stiffness": 300.0, "limit_damping": 1.0},
}


@pytest.mark.parametrize("drive", DRIVES)
@pytest.mark.parametrize("integrator", ["rk4", "semi_implicit", "implicit"])
def test_loop_joints_are_driven_like_tree_joints(drive, integrator):
    """The same mechanism cut at the driven pin or elsewhere moves alike: damping, springs, motors, soft limits act."""
    ends = []
    for cut in ("C", "D"):
        sim = lj.Simulation(four_bar(cut, **DRIVES[drive]), lj.Full(integrator=integrator), q=[-1.0, 1.0, -1.0])
        free = lj.Simulation(four_bar(cut), lj.Full(integrator=integrator), q=[-1.0, 1.0, -1.0])
        sim.step(500)
        free.step(500)
        ends.append(sim.q[:2])
        assert np.abs(sim.q - free.q).max() > 1e-2
    np.testing.assert_allclose(*ends, atol=1e-9 if integrator == "rk4" else 1e-6)


def test_loop_balls_are_driven_like_tree_joints(rng):
    """Damping, stiffness and motor of a ball joint act the same whether it closes the loop or carries the tree."""
    options = {"damping": 0.3, "stiffness": 2.0, "motor": lj.Motor(kp=3.0, kd=0.2)}
    ends = []
    for cut in ("last", "first"):
        builder = lj.Builder()
        own = np.random.default_rng(3)
        for k in range(3):
            add_body(builder, own, f"b{k}")
        joints = {
            "first": lambda b: b.add_joint_ball("first", "world", "b0"),
            "j1": lambda b: b.add_joint_ball("j1", "b0", "b1", position=(1, 0, 0)),
            "j2": lambda b: b.add_joint_ball("j2", "b1", "b2", position=(0, 0, 1)),
            "last": lambda b: b.add_joint_ball(
                "last", "world", "b2", position=(0, 0, 1.3), position_in_child=(-1, 0, 0.3), **options
            ),
        }
        for name in ("first", "j1", "j2", "last") if cut == "last" else ("last", "j2", "j1", "first"):
            joints[name](builder)
        model = builder.build()
        assert model.loop_names == (cut,)
        sim = lj.Simulation(model, lj.Full(integrator="rk4"))
        sim.step(300)
        ends.append(sim.positions[[model.body_index(f"b{k}") for k in range(3)]])
    np.testing.assert_allclose(*ends, atol=1e-8)
    assert np.abs(ends[0][1] - (1, 0, 0)).max() > 0.1


def test_stiff_springs_beside_loops_are_implicit():
    """Beside a loop a stiff spring taken implicitly, as by default, is stable where the explicit step gains energy."""

    def model():
        builder = lj.Builder.from_spec(four_bar("C").spec)
        ends = {"at_a": (0.5, 0, -3), "at_b": (0.6, 0, 0)}
        builder.add_spring("world", "coupler", **ends, stiffness=1e7, damping=100.0, rest=2.25)
        return builder.build()

    sim = lj.Simulation(model(), lj.Full(integrator="implicit"), dt=5e-3, q=[1.0, -1.0, 1.0])
    first = sim.energy().total
    method = lj.Full(integrator="semi_implicit")
    explicit = lj.Simulation(model(), method, dt=5e-3, q=[1.0, -1.0, 1.0], energy_watch=False)
    explicit.step(300)
    assert explicit.energy().total > first
    for one in (sim, lj.Simulation(model(), dt=5e-3, q=[1.0, -1.0, 1.0])):
        one.step(400)
        assert one.energy().total < first and max(one.joint_error()) < 1e-10
        one.step(4000)
        assert np.abs(one.qd).max() < 1e-6


def swinging():
    """Return a double pendulum of rods."""
    builder = lj.Builder()
    for k in range(2):
        builder.add_body(f"rod{k}", mass=1.0, com=(0, 0, -0.5), inertia=(0.1, 0.1, 0.01))
    builder.add_joint_ball("top", "world", "rod0", damping=0.1)
    builder.add_joint_ball("middle", "rod0", "rod1", position=(0, 0, -1), damping=0.1)
    return builder.build()


@pytest.mark.parametrize("integrator", ["rk4", "semi_implicit", "implicit"])
def test_a_grip_draws_its_point_there(integrator):
    """A gripped point comes to where it is drawn, within the sag of its stiffness; released, the rods fall back."""
    sim = lj.Simulation(swinging(), lj.Full(integrator=integrator))
    grip = sim.grab("rod1", (0, 0, -2))
    np.testing.assert_allclose(grip.point, (0, 0, -2), atol=1e-12)
    target = np.array([0.8, 0.3, -1.2])
    grip.move(target)
    sim.step(4000)
    np.testing.assert_allclose(grip.point, target, atol=0.01)
    assert np.abs(sim.qd).max() < 0.02
    # what hangs in the grip: its force carries the rods together with the pivot
    moment = np.cross(grip.point, grip.force)
    weight = sum(np.cross(sim.positions[k] + _down(sim, k), (0, 0, -9.81)) for k in range(2))
    np.testing.assert_allclose(moment + weight, 0.0, atol=0.1)
    grip.release()
    grip.release()
    sim.step(500)
    assert np.linalg.norm(sim.positions[1] - (0, 0, -1)) < 0.6
    with pytest.raises(lj.StateError, match="released"):
        grip.move((0, 0, 0))


def _down(sim, k):
    w, x, y, z = sim.rotations[k]
    return -0.5 * np.array([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)])


@pytest.mark.parametrize("integrator", ["rk4", "semi_implicit"])
def test_a_grip_is_critically_damped(integrator):
    """A free body drawn aside arrives without passing the place, in the time of its pace."""
    builder = lj.Builder(gravity=(0, 0, 0))
    builder.add_body("ball", mass=2.0, inertia=(1, 1, 1))
    sim = lj.Simulation(builder.build(), lj.Full(integrator=integrator))
    grip = sim.grab("ball")
    grip.move((0.1, 0, 0))
    seen = []
    for _ in range(100):
        sim.step(5)
        seen.append(sim.positions[0, 0])
    assert max(seen) < 0.1 + 1e-6 and seen[-1] == pytest.approx(0.1, abs=1e-4) and np.all(np.diff(seen) > -1e-9)
    t = 30.0 * 0.1
    exact = 0.1 * (1 - (1 + t) * math.exp(-t))
    assert seen[19] == pytest.approx(exact, abs=0.004)


def test_a_grip_has_a_largest_force():
    """A weak grip pulls with its strength at most along each axis, and cannot lift what is heavier."""
    builder = lj.Builder()
    builder.add_body("ball", mass=2.0, inertia=(1, 1, 1))
    sim = lj.Simulation(builder.build())
    grip = sim.grab("ball", strength=15.0)
    grip.move((0, 0, 5))
    sim.step(100)
    assert grip.force[2] == pytest.approx(15.0) and np.abs(grip.force[:2]).max() < 1e-9
    assert sim.qd[2] == pytest.approx((15.0 / 2.0 - 9.81) * 0.1, rel=1e-9)


def test_a_grip_turns_its_body():
    """Given a rotation, the grip brings the body to it as well as to its place."""
    builder = lj.Builder(gravity=(0, 0, 0))
    builder.add_body("ball", mass=2.0, inertia=(0.02, 0.02, 0.02))
    sim = lj.Simulation(builder.build())
    grip = sim.grab("ball")
    wanted = np.array([math.cos(0.4), 0.0, math.sin(0.4), 0.0])
    grip.move((0.1, 0.2, 0.3), wanted)
    sim.step(3000)
    np.testing.assert_allclose(sim.positions[0], (0.1, 0.2, 0.3), atol=1e-6)
    np.testing.assert_allclose(sim.rotations[0], wanted, atol=1e-6)


def test_grips_hold_bodies_in_loops():
    """A grip on a closed mechanism moves it while its loop stays closed."""
    sim = lj.Simulation(four_bar("C"), lj.Full(integrator="rk4"), q=[-1.0, 1.0, -1.0])
    grip = sim.grab("coupler")
    start = grip.point.copy()
    grip.move(start + (0.2, 0, 0.1))
    sim.step(1500)
    assert max(sim.joint_error()) < 1e-10 and np.linalg.norm(grip.point - start) > 0.1


def test_turns_and_snapshots_outlive_grips():
    """A screw that closes a loop keeps its turns when a grip comes and goes, and a snapshot fits before and after."""
    builder = lj.Builder(gravity=(0, 0, 0))
    builder.add_body("nut", mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_body("far", mass=1.0, inertia=(0.1, 0.1, 0.1), position=(3, 0, 0))
    builder.add_joint_cylindrical("guide", "world", "nut", start_velocity=(0.02 * 20.0, 20.0))
    builder.add_joint_screw("thread", "world", "nut", pitch=0.02)
    sim = lj.Simulation(builder.build(), lj.Full(integrator="rk4"))
    sim.step(1000)
    snapshot = sim.snapshot()
    grip = sim.grab("far")
    sim.step(100)
    grip.release()
    sim.step(100)
    np.testing.assert_allclose(sim.q[:2], (0.02 * 24.0, 24.0), atol=1e-9)
    sim.restore(snapshot)
    sim.step(10)
    np.testing.assert_allclose(sim.q[:2], (0.02 * 20.2, 20.2), atol=1e-9)
