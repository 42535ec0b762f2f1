"""Method `multipliers` on its own ground: bodies that are no links of a tree, first order, rattle, implicit springs."""

from __future__ import annotations

import numpy as np
import pytest
from tests.constraints.wrapped import evaluate
from tests.maximal.test_bodies import Cloud
from tests.naive.saddle import dense_mass

import limberjack as lj
from limberjack.maximal.bodies import AFFINE, PARTICLE, PLANAR
from limberjack.maximal.impulse import apply_generalized_impulse
from limberjack.scenes.loops import REFERENCES, measured

RK4 = lj.Multipliers(integrator="rk4")
GROWING = ("scalable", "scalable_axes", "affine")


class Measured:
    """Energy and momentum of a simulation by its bodies' own poses and velocities."""

    def __init__(self, sim):
        self.sim, self.stepper = sim, sim._stepper
        self.whole = self.stepper.whole

    def _state(self):
        return self.stepper._s.pose.copy(), self.stepper._s.u.copy()

    def energy(self, stored=lambda pose: 0.0):
        """Return kinetic energy, that of gravity and what `stored` finds in the poses."""
        pose, u = self._state()
        e, _, _ = evaluate(self.whole, pose, u)
        heights = pose[:, :3] @ np.array(self.sim.model.gravity)
        return 0.5 * u @ dense_mass(self.whole.system, e.m) @ u - self.whole.bodies.mass @ heights + stored(pose)

    def momentum(self):
        """Return linear and angular momentum about the origin."""
        pose, u = self._state()
        bodies = self.whole.bodies
        e, _, _ = evaluate(self.whole, pose, u)
        p = dense_mass(self.whole.system, e.m) @ u
        linear, angular = np.zeros(3), np.zeros(3)
        for i, kind in enumerate(bodies.kind):
            o = bodies.start[i]
            own = np.zeros(3)
            if kind in (PARTICLE, PLANAR, AFFINE):
                push = np.r_[p[o : o + 2], 0.0 if kind == PLANAR else p[o + 2]]
                if kind == PLANAR:
                    own[2] = p[o + 2]
                if kind == AFFINE:
                    # rows of A and their momenta: sum over the columns of A x P
                    a, b = pose[i, 7:16].reshape(3, 3), p[o + 3 : o + 12].reshape(3, 3)
                    own = np.cross(a.T, b.T).sum(axis=0)
            else:
                own, push = p[o : o + 3], p[o + 3 : o + 6]
            linear += push
            angular += np.cross(pose[i, :3], push) + own
        return np.r_[linear, angular]


def figure(rng, kind, gravity=(0.0, 0.0, 0.0), held=False, **more):
    """Return three bodies of a kind and a rigid one on balls, floating or hung up, and clouds they are made of."""
    builder = lj.Builder(gravity=gravity)
    for k in range(3):
        Cloud(rng, kind).add(builder, rng, f"b{k}", **more)
        ends = {"position": rng.uniform(-0.3, 0.3, 3), "position_in_child": rng.uniform(-0.3, 0.3, 3)}
        if k:
            builder.add_joint_ball(f"j{k}", f"b{k - 1}", f"b{k}", **ends)
    Cloud(rng, "rigid").add(builder, rng, "stone")
    builder.add_joint_ball("j3", "b2", "stone", position=rng.uniform(-0.3, 0.3, 3))
    if held:
        builder.add_joint_ball("hook", "world", "b0", position_in_child=rng.uniform(-0.3, 0.3, 3))
    return builder.build()


def stir(rng, sim):
    """Give all bodies velocities that keep the joints closed."""
    own = sim._stepper
    impulse = rng.normal(size=len(own._s.u))
    solver = own._setup, own._tree, own._structure
    assert apply_generalized_impulse(*solver, 0.0, impulse, own._e, own._saddle, own._s) == 0
    own._s.fresh[0], own._read = 0, False


@pytest.mark.parametrize("kind", ["rigid", *GROWING])
def test_floating_bodies_keep_energy_and_momentum(rng, kind):
    """Stirred bodies on balls keep linear and angular momentum to 1e-10 and energy to 1e-8, growing or not."""
    sim = lj.Simulation(figure(rng, kind), RK4)
    stir(rng, sim)
    seen = Measured(sim)
    energy, momentum = seen.energy(), seen.momentum()
    assert energy > 0.1 and np.abs(momentum[3:]).max() > 0.1
    sim.step(300)
    assert seen.energy() == pytest.approx(energy, rel=1e-8)
    np.testing.assert_allclose(seen.momentum(), momentum, atol=1e-10)
    _ = sim.q
    assert sim.stats["joint_error"] < 1e-11


@pytest.mark.parametrize("kind", GROWING)
def test_hung_bodies_with_stiff_scales_keep_energy(rng, kind):
    """Under gravity, with springs of their scales, bodies hung up keep the sum of all energies."""
    more = {"stiffness": 30.0} if kind == "affine" else {"scale_stiffness": 30.0}
    sim = lj.Simulation(figure(rng, kind, (0, 0, -9.81), held=True, **more), RK4)

    def stored(pose):
        if kind == "affine":
            a = pose[:3, 7:16].reshape(-1, 3, 3)
            return 30.0 / 8 * np.sum((np.swapaxes(a, 1, 2) @ a - np.eye(3)) ** 2)
        return 15.0 * np.sum((pose[:3, 7 : 8 if kind == "scalable" else 10] - 1.0) ** 2)

    seen = Measured(sim)
    first = seen.energy(stored)
    sim.step(500)
    assert seen.energy(stored) == pytest.approx(first, abs=1e-7)
    assert np.abs(sim._stepper._s.pose[:3, 7] - 1.0).max() > 1e-3


def test_the_puppet_hangs_and_stretches():
    """The figure of scalable parts runs, hook and joints closed, and its parts grow under their load."""
    sim = lj.Simulation(lj.scenes.scalable_puppet(), RK4)
    sim.step(200)
    _ = sim.q
    assert sim.stats["joint_error"] < 1e-11
    assert sim._stepper._s.pose[:, 7].max() > 1.01


def test_the_particle_on_a_rod_swings_as_known():
    """A particle at a fixed distance is the simple pendulum of the benchmark, at its exact places."""
    sim = lj.Simulation(lj.scenes.simple_pendulum(bar="rod"), RK4, dt=1e-3)
    reference = next(r for r in REFERENCES if r.scene == "simple_pendulum" and r.time == 1.0)
    sim.step(1000)
    np.testing.assert_allclose(measured(sim, reference), reference.value, atol=1e-9)


def test_forces_on_the_coordinates_of_particles_act():
    """A force applied to one of a particle's three coordinates accelerates it along that axis."""
    builder = lj.Builder(gravity=(0, 0, 0))
    builder.add_particle("p", mass=2.0, position=(1, 2, 3))
    sim = lj.Simulation(builder.build(), RK4)
    sim.joint("p:y").tau = 4.0
    sim.step(1000)
    np.testing.assert_allclose(sim.q, (1, 3, 3), atol=1e-9)
    np.testing.assert_allclose(sim.qd, (0, 2, 0), atol=1e-9)


def test_particles_on_rods_and_ropes():
    """A triangle of particles on rods flies as one; a fourth on a slack rope flies alone until it is taut."""
    builder = lj.Builder(gravity=(0, 0, -1.0))
    corners = np.array([(0, 0, 0), (1, 0, 0), (0, 1, 0), (0.2, 0.2, 0.1)], float)
    for k, corner in enumerate(corners):
        builder.add_particle(f"p{k}", mass=1.0 + k, position=corner)
    for a, b in ((0, 1), (1, 2), (2, 0)):
        builder.add_joint_distance(f"rod{a}{b}", f"p{a}", f"p{b}", length=np.linalg.norm(corners[a] - corners[b]))
    builder.add_joint_distance("rope", "p0", "p3", length=0.5, rope=True)
    sim = lj.Simulation(builder.build(), RK4)
    qd = np.zeros(12)
    qd[[3, 7, 9]] = 0.0, 0.0, 1.0
    qd[2], qd[5], qd[8] = 0.5, -0.2, 0.1
    sim.qd = qd
    seen = Measured(sim)
    energy, momentum = seen.energy(), seen.momentum()
    sim.step(100)
    p3 = sim.body("p3").position
    np.testing.assert_allclose(p3, corners[3] + (0.1, 0, -0.005), atol=1e-12)
    assert seen.energy() == pytest.approx(energy, rel=1e-9)
    longest = 0.0
    for _ in range(100):
        sim.step(10)
        longest = max(longest, np.linalg.norm(sim.body("p3").position - sim.body("p0").position))
    assert longest == pytest.approx(0.5, abs=1e-9) and seen.energy() < energy
    # gravity alone changes momentum
    np.testing.assert_allclose(seen.momentum()[:3] - momentum[:3], (0, 0, -10.0 * sim.time), atol=1e-9)
    assert max(sim.joint_error()) < 1e-10


def test_first_order_bodies_move_while_pushed():
    """With order "first" a force gives a velocity, f = m v, along what the joints leave free; without it all stands."""
    builder = lj.Builder(gravity=(0, 0, 0))
    builder.add_body("free", mass=2.0, inertia=(1, 2, 2.5))
    builder.add_body("rod", mass=1.0, com=(0.5, 0, 0), inertia=(0.1, 0.1, 0.1))
    builder.add_joint_hinge("pivot", "world", "rod")
    sim = lj.Simulation(builder.build(), lj.Multipliers(order="first"))
    sim.apply_wrench("free", force=(1, 0, 0), torque=(0, 0, 2))
    sim.apply_wrench("rod", force=(0, 3, 0))
    sim.step(1)
    info = sim.model.joint("free")
    np.testing.assert_allclose(sim.qd[info.v], (0.5, 0, 0, 0, 0, 0.8), atol=1e-9)
    assert sim.joint("pivot").qd == pytest.approx(1.5 / 0.35, rel=1e-4)
    sim.clear_wrenches()
    sim.step(1)
    place = sim.q.copy()
    sim.step(100)
    np.testing.assert_allclose(sim.q, place, atol=1e-12)
    np.testing.assert_allclose(sim.qd, 0.0, atol=1e-12)


def floating_chain(rng, gravity=(0, 0, 0)):
    """Return rigid bodies on a ball, a hinge and a universal joint, floating."""
    builder = lj.Builder(gravity=gravity)
    for k, kind in enumerate(("", "ball", "hinge", "universal")):
        Cloud(rng, "rigid").add(builder, rng, f"b{k}")
        if kind:
            getattr(builder, f"add_joint_{kind}")(f"j{k}", f"b{k - 1}", f"b{k}", position=rng.uniform(-0.4, 0.4, 3))
    return builder.build()


def test_rattle_keeps_momentum_and_bounds_energy(rng):
    """Over 10^4 steps a floating chain keeps its momentum to 1e-12 and its energy within a band that does not grow."""
    sim = lj.Simulation(floating_chain(rng), lj.Multipliers(integrator="rattle"), dt=2e-3)
    stir(rng, sim)
    seen = Measured(sim)
    energy, momentum = seen.energy(), seen.momentum()
    errors = []
    for _ in range(50):
        sim.step(200)
        errors.append(abs(seen.energy() / energy - 1.0))
    np.testing.assert_allclose(seen.momentum(), momentum, atol=1e-12 * max(1.0, np.abs(momentum).max()))
    assert max(errors[25:]) < 2.0 * max(errors[:25]) + 1e-9 and max(errors) < 0.02


def test_rattle_is_of_second_order(rng):
    """Half the step makes a quarter of the error, against a fine run of Runge-Kutta, under gravity."""
    model = floating_chain(rng, (0, 0, -9.81))
    qd = rng.uniform(-1, 1, model.nv)
    exact = lj.Simulation(model, RK4, dt=1e-3, qd=qd)
    exact.step(400)
    errors = []
    for dt in (4e-3, 2e-3, 1e-3):
        sim = lj.Simulation(model, lj.Multipliers(integrator="rattle"), dt=dt, qd=qd)
        sim.step(round(0.4 / dt))
        errors.append(np.abs(sim.q - exact.q).max())
    assert 3.2 < errors[0] / errors[1] < 5.0 and 3.2 < errors[1] / errors[2] < 5.0 and errors[2] < 1e-4


@pytest.mark.parametrize("integrator", ["semi_implicit", "implicit"])
def test_stiff_springs_are_implicit(integrator):
    """Stiff springs pull to the true balance, where explicit ones fail or gain energy."""
    builder = lj.Builder()
    builder.add_body("rod", mass=1.0, com=(0.5, 0, 0), inertia=(0.01, 0.1, 0.1))
    builder.add_joint_hinge("pivot", "world", "rod", axis=(0, 1, 0), damping=0.5)
    builder.add_spring("world", "rod", at_a=(1, 0, 1), at_b=(1, 0, 0), stiffness=1e7, damping=100.0, rest=0.99)
    model = builder.build()
    with pytest.raises((lj.LimberjackError, lj.EnergyWarning)):
        lj.Simulation(model, lj.Multipliers(integrator="euler"), dt=5e-3).step(2000)
    sim = lj.Simulation(model, lj.Multipliers(integrator=integrator), dt=5e-3)
    sim.step(2000)
    assert np.abs(sim.qd).max() < 1e-6
    full = lj.Simulation(model, lj.Full(integrator="implicit"), dt=5e-3)
    full.step(2000)
    np.testing.assert_allclose(sim.q, full.q, atol=1e-6)
    assert abs(sim.q[0]) > 1e-3


@pytest.mark.parametrize("per_axis", [False, True])
def test_other_scales_at_the_start_leave_joints_closed(per_axis):
    """What hangs on a body that starts larger goes along, its velocity too; q is what was given, and points follow."""
    builder = lj.Builder("grown")
    solid = {"mass": 1.0, "com": (0.0, 0.0, -0.25), "inertia": (0.02, 0.02, 0.015)}
    builder.add_body_scalable("upper", **solid, per_axis=per_axis, scale=(2.0, 2.0, 1.5) if per_axis else 1.5)
    builder.add_joint_hinge("top", "world", "upper", axis=(0, 1, 0), start=0.3, start_velocity=2.0)
    builder.add_body("lower", **solid)
    builder.add_joint_hinge("middle", "upper", "lower", axis=(0, 1, 0), position=(0, 0, -0.5), start=-0.5)
    builder.add_point("end", "upper", (0.0, 0.0, -0.5))
    sim = lj.Simulation(builder.build(), lj.Multipliers(integrator="rk4"), dt=1e-3)
    assert sim.joint_error()[0] < 1e-12
    np.testing.assert_allclose(sim.q, (0.3, -0.5), atol=1e-12)
    np.testing.assert_allclose(sim.positions[1], sim.point("end").position, atol=1e-12)
    np.testing.assert_allclose(sim.positions[1], (-0.75 * np.sin(0.3), 0.0, -0.75 * np.cos(0.3)), atol=1e-12)
    energy = sim.energy().total
    sim.step(100)
    assert sim.joint_error()[0] < 1e-10
    assert sim.energy().total == pytest.approx(energy, abs=1e-7)
    sim.q = (0.1, 0.2)
    assert sim.joint_error()[0] < 1e-12


def test_scales_are_along_the_axes_of_the_body():
    """A body on a hinge about y rests at the scales it was given, axis by axis; slanted hinges are refused by name."""
    builder = lj.Builder("axes", gravity=(0, 0, 0))
    solid = {"mass": 1.0, "inertia": (0.02, 0.025, 0.015)}
    scales = {"scale": (1.0, 2.0, 3.0), "scale_rest": (1.0, 2.0, 3.0), "scale_stiffness": 50.0}
    builder.add_body_scalable("box", **solid, per_axis=True, **scales)
    builder.add_joint_hinge("j", "world", "box", axis=(0, 1, 0))
    builder.add_point("corner", "box", (0.1, 0.1, 0.1))
    sim = lj.Simulation(builder.build(), RK4, dt=1e-3)
    np.testing.assert_allclose(sim.point("corner").position, (0.1, 0.2, 0.3), atol=1e-12)
    sim.step(100)
    np.testing.assert_allclose(sim.body("box").coordinates, (1.0, 2.0, 3.0), atol=1e-12)
    sim.body("box").coordinates = (1.0, 2.5, 3.0)
    sim.step(100)
    moved = sim.body("box").coordinates
    assert moved[0] == pytest.approx(1.0) and moved[2] == pytest.approx(3.0) and abs(moved[1] - 2.5) > 1e-3
    builder = lj.Builder("slanted")
    builder.add_body_scalable("box", **solid, per_axis=True)
    builder.add_joint_hinge("j", "world", "box", axis=(0, 1, 1))
    with pytest.raises(lj.UnsupportedByMethod, match='body "box" scales along its axes, and the axis of joint "j"'):
        lj.Simulation(builder.build(), RK4, dt=1e-3)
