"""The variational and the projected step: energy, momentum, order, stiffness, and that looking changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from tests.methods.test_golden import figure

import limberjack as lj
from limberjack.spatial.frames import matrix_from_quaternion

INTEGRATORS = ("variational", "projected")


def chain(links: int, *, horizontal: bool = False, kind: str = "hinge", damping: float = 0.0) -> lj.Model:
    """Return a hanging chain of 0.1 m links, bent at random or held out to the side."""
    builder, rng = lj.Builder("chain"), np.random.default_rng(0)
    for k in range(links):
        builder.add_body(f"b{k}", mass=1.0, com=(0.0, 0.0, -0.05), inertia=(0.01, 0.011, 0.002))
        parent, at = ("world", (0.0, 0.0, 0.0)) if k == 0 else (f"b{k - 1}", (0.0, 0.0, -0.1))
        if kind == "ball":
            half = 0.75 if k == 0 else 0.0
            start = (np.cos(half), 0.0, np.sin(half), 0.0)
            builder.add_joint_ball(f"j{k}", parent, f"b{k}", position=at, start=start, damping=damping)
        else:
            bent = (-1.5 if k == 0 else 0.0) if horizontal else float(rng.normal(0.0, 0.2))
            axis = (0.0, 1.0, 0.0) if horizontal or k % 2 else (1.0, 0.0, 0.0)
            builder.add_joint_hinge(f"j{k}", parent, f"b{k}", axis=axis, position=at, start=bent, damping=damping)
    return builder.build()


def heavy_chain(links: int, kind: str, tip: float, start: float = 1.2) -> lj.Model:
    """Return a straight chain of rods of 0.1 m and 50 g whose last has another mass, let go at an angle.

    Axes of kind "hinge" alternate, those of "planar" do not.
    """
    builder = lj.Builder("heavy chain")
    for k in range(links):
        mass = tip if k == links - 1 else 0.05
        inertia = np.array((1.0, 1.0, 0.1)) * mass * 1e-2 / 12
        builder.add_body(f"b{k}", mass=mass, com=(0.0, 0.0, -0.05), inertia=inertia)
        parent, at = ("world", (0.0, 0.0, 0.0)) if k == 0 else (f"b{k - 1}", (0.0, 0.0, -0.1))
        half = 0.5 * start if k == 0 else 0.0
        if kind == "ball":
            turned = (np.cos(half), 0.0, -np.sin(half), 0.0)
            builder.add_joint_ball(f"j{k}", parent, f"b{k}", position=at, start=turned)
        else:
            axis = (1.0, 0.0, 0.0) if k % 2 and kind == "hinge" else (0.0, 1.0, 0.0)
            builder.add_joint_hinge(f"j{k}", parent, f"b{k}", axis=axis, position=at, start=-2.0 * half)
    return builder.build()


def energies(sim: lj.Simulation, seconds: float, every: float = 0.05) -> tuple[np.ndarray, float]:
    """Return the changes of total energy over a run, and the largest kinetic energy."""
    start, out, kinetic = sim.energy().total, [], 0.0
    for _ in range(round(seconds / every)):
        sim.step(max(1, round(every / sim.dt)))
        energy = sim.energy()
        out.append(energy.total - start)
        kinetic = max(kinetic, energy.kinetic)
    return np.array(out), kinetic


def test_double_pendulum_keeps_its_energy():
    """A double pendulum let go to the side keeps its energy to 0.2 % for a minute at 1 ms; semi_implicit does not."""
    errors = {}
    for integrator in ("variational", "semi_implicit"):
        sim = lj.Simulation(chain(2, horizontal=True), lj.Full(integrator=integrator), dt=1e-3)
        change, kinetic = energies(sim, 60.0)
        errors[integrator] = np.abs(change).max() / kinetic
    assert errors["variational"] < 2e-3 < 10.0 * errors["semi_implicit"]


@pytest.mark.parametrize("dt", [1 / 1000, 1 / 240, 1 / 60])
@pytest.mark.parametrize("options", [{}, {"horizontal": True}, {"kind": "ball"}], ids=["bent", "to the side", "balls"])
def test_whipping_chains_gain_no_energy(options, dt):
    """The energy of an undamped chain of 60 links never rises by more than 1 % of its largest kinetic energy."""
    for integrator in INTEGRATORS:
        sim = lj.Simulation(chain(60, **options), lj.Full(integrator=integrator), dt=dt)
        change, kinetic = energies(sim, 8.0)
        gain = 0.08 if integrator == "projected" else 0.01  # the projected step starts with an explicit half step
        assert change.max() < gain * kinetic
        assert change[-1] > (-0.1 if integrator == "variational" else -2.0) * kinetic


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_projection_takes_kinetic_energy_only(integrator):
    """Without gravity and forces the projected step never gains kinetic energy, and the variational one keeps it."""
    builder = lj.Builder("free", gravity=(0.0, 0.0, 0.0))
    for k in range(8):
        builder.add_body(f"b{k}", mass=1.0, com=(0.0, 0.0, -0.1), inertia=(0.01, 0.012, 0.004))
        if k:
            builder.add_joint_ball(f"j{k}", f"b{k - 1}", f"b{k}", position=(0.0, 0.0, -0.2))
    model = builder.build()
    qd = 3.0 * np.random.default_rng(1).normal(size=model.nv)
    sim = lj.Simulation(model, lj.Full(integrator=integrator), dt=1 / 240, qd=qd)
    kinetic = [sim.energy().kinetic]
    for _ in range(240):
        sim.step()
        kinetic.append(sim.energy().kinetic)
    if integrator == "projected":
        assert np.diff(kinetic).max() <= 1e-9 * kinetic[0]
    else:
        assert np.abs(np.array(kinetic) / kinetic[0] - 1.0).max() < 0.02


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_free_trees_keep_their_momentum(integrator):
    """A free tree keeps linear momentum to rounding, and by the variational step the angular one to its tolerance."""
    model = figure()
    sim = lj.Simulation(model, lj.Full(integrator=integrator), dt=1 / 240, qd=np.linspace(-0.5, 0.5, model.nv))
    total = sum(body.mass for body in model.spec.bodies)
    before = sim.momentum()
    sim.step(240)
    after = sim.momentum()
    weight = total * np.array(model.gravity)
    assert np.abs(after.linear - before.linear - weight).max() < 1e-10 * np.abs(weight).max()
    if integrator == "variational":
        # gravity acts at the com, which moves: compare about it
        free = lj.Builder("spinning", gravity=(0.0, 0.0, 0.0))
        free.add_body("a", mass=2.0, com=(0.1, 0.0, 0.2), inertia=(0.5, 0.4, 0.2))
        free.add_body("b", mass=1.0, com=(0.0, 0.3, 0.0), inertia=(0.1, 0.2, 0.3))
        free.add_joint_universal("j", "a", "b", position=(0.3, 0.0, 0.0))
        spun = lj.Simulation(free.build(), lj.Full(integrator=integrator), dt=1 / 240)
        spun.qd = (0.3, -0.2, 0.1, 2.0, -3.0, 1.0, 4.0, -2.0)
        start = spun.momentum().angular
        spun.step(2400)
        assert np.abs(spun.momentum().angular - start).max() < 1e-6 * np.abs(start).max()


def test_second_order():
    """Halving the step divides the error after half a second by four."""
    model = chain(4, kind="ball")
    model_qd = np.linspace(-1.0, 1.0, model.nv)
    exact = lj.Simulation(model, lj.Full(integrator="rk4"), dt=1e-4, qd=model_qd)
    exact.step(5000)
    errors = []
    for dt in (2e-3, 1e-3, 5e-4):
        sim = lj.Simulation(model, lj.Full(integrator="variational"), dt=dt, qd=model_qd)
        sim.step(round(0.5 / dt))
        errors.append(max(np.abs(sim.positions - exact.positions).max(), 0.05 * np.abs(sim.qd - exact.qd).max()))
    assert errors[0] / errors[1] > 3.0 and errors[1] / errors[2] > 3.0


def test_tumbling_body_turns_as_it_should():
    """A free body spun about its middle axis flips when rk4 says so, and keeps its energy."""
    builder = lj.Builder("racket", gravity=(0.0, 0.0, 0.0))
    builder.add_body("racket", mass=1.0, inertia=(0.1, 0.2, 0.3))
    model = builder.build()
    qd = np.array([0.0, 0.0, 0.0, 0.01, 5.0, 0.01])
    runs = []
    for integrator, dt in (("variational", 1 / 1000), ("rk4", 1 / 1000)):
        sim = lj.Simulation(model, lj.Full(integrator=integrator), dt=dt, qd=qd)
        start = sim.energy().total
        sim.step(4000)
        assert abs(sim.energy().total / start - 1.0) < 1e-5
        runs.append(sim.qd[3:])
    assert np.abs(runs[0] - runs[1]).max() < 0.1


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("dt", [1 / 1000, 1 / 60])
def test_stiff_motors_springs_and_limits(integrator, dt):
    """Motors far too stiff for an explicit step draw joints to their targets, and a damper as strong holds a ball."""
    builder = lj.Builder("arm")
    for k in range(4):
        builder.add_body(f"b{k}", mass=1.0, com=(0.0, 0.0, -0.1), inertia=(0.01, 0.01, 0.01))
        at = (0.0, 0.0, -0.2) if k else (0.0, 0.0, 0.0)
        motor = lj.Motor(kp=1e6, kd=2e4, target=0.5 - 0.2 * k)
        name = f"b{k - 1}" if k else "world"
        if k == 2:
            builder.add_joint_ball(f"j{k}", name, f"b{k}", position=at, damping=1e5)
        else:
            builder.add_joint_hinge(f"j{k}", name, f"b{k}", axis=(0.0, 1.0, 0.0), position=at, motor=motor)
    sim = lj.Simulation(builder.build(), lj.Full(integrator=integrator), dt=dt)
    sim.step(round(2.0 / dt))
    for k in (0, 1, 3):
        assert abs(sim.joint(f"j{k}").q - (0.5 - 0.2 * k)) < 1e-3
    assert np.abs(sim.qd).max() < 0.1


@pytest.mark.parametrize("stiffness", [10.0, 1e4, 1e7])
def test_springs_between_bodies_at_any_stiffness(stiffness):
    """Two bodies on a spring gain no energy at 1/60 s, soft or stiff; a soft spring keeps it."""
    builder = lj.Builder("pair", gravity=(0.0, 0.0, 0.0))
    for name, x in (("a", 0.0), ("b", 1.2)):
        builder.add_body(name, mass=1.0, inertia=(0.1, 0.1, 0.1), position=(x, 0.0, 0.0))
    builder.add_spring("a", "b", stiffness=stiffness, rest=1.0)
    sim = lj.Simulation(builder.build(), lj.Full(integrator="variational"), dt=1 / 60)
    start = sim.energy().total
    change, _ = energies(sim, 5.0, every=1 / 60)
    assert change.max() < 0.02 * start
    if stiffness == 10.0:
        assert change.min() > -0.05 * start


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_same_bits_however_it_is_stepped_and_looked_at(integrator):
    """Steps one by one, with velocities and energy read, a force set to what it was, and a snapshot taken and restored,
    end in the bits of one long call."""
    model = chain(12, kind="ball")
    whole = lj.Simulation(model, lj.Full(integrator=integrator), dt=1 / 240)
    whole.step(120)
    single = lj.Simulation(model, lj.Full(integrator=integrator), dt=1 / 240)
    for k in range(120):
        single.step()
        if k % 7 == 0:
            single.energy()
        if k % 11 == 0:
            single.tau = np.zeros(model.nv)
        if k == 60:
            snapshot = single.snapshot()
            single.step(20)
            single.restore(snapshot)
    assert np.array_equal(whole.q, single.q) and np.array_equal(whole.qd, single.qd)
    assert whole.state_hash() == single.state_hash()


def test_motion_goes_on_from_what_is_set():
    """Velocities that are read and set again leave the motion as it was; new coordinates keep the velocities shown."""
    model = chain(6)
    kept = lj.Simulation(model, lj.Full(integrator="variational"), dt=1e-3)
    again = lj.Simulation(model, lj.Full(integrator="variational"), dt=1e-3)
    kept.step(200)
    again.step(100)
    again.qd = again.qd * (1.0 + 1e-15)
    again.step(100)
    assert np.abs(kept.q - again.q).max() < 1e-6
    shown = again.qd
    again.q = again.q + 0.1
    assert np.array_equal(again.qd, shown)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_forces_set_after_a_step_leave_the_velocity_shown(integrator):
    """The velocity is the same whether it is read before or after joint forces and wrenches are set."""
    shown = []
    for read_first in (True, False):
        sim = lj.Simulation(chain(5), lj.Full(integrator=integrator), dt=1 / 60)
        sim.apply_wrench("b4", force=(1.0, 0.0, 0.0))
        sim.step(30)
        if read_first:
            shown.append(sim.qd)
        sim.apply_wrench("b4", force=(50.0, 0.0, 0.0))
        sim.tau = np.ones(sim.model.nv)
        shown.append(sim.qd)
    assert np.array_equal(shown[0], shown[1]) and np.array_equal(shown[0], shown[2])


def test_threads_and_blocks_give_the_same_bits():
    """Several figures on two threads move as on one, each as it does alone."""
    builder = lj.Builder("many")
    for f in range(40):
        for k in range(8):
            builder.add_body(f"f{f}b{k}", mass=1.0, com=(0.0, 0.0, -0.05), inertia=(0.01, 0.011, 0.002))
            parent, at = ("world", (float(f), 0.0, 0.0)) if k == 0 else (f"f{f}b{k - 1}", (0.0, 0.0, -0.1))
            builder.add_joint_hinge(
                f"f{f}j{k}", parent, f"f{f}b{k}", axis=(0.0, 1.0, 0.0), position=at, start=0.1 * ((f + k) % 5)
            )
    model = builder.build()
    sims = [lj.Simulation(model, lj.Full(integrator="variational", threads=n), dt=1 / 240) for n in (1, 2)]
    for sim in sims:
        sim.step(120)
    assert np.array_equal(sims[0].q, sims[1].q) and np.array_equal(sims[0].qd, sims[1].qd)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_substeps_are_its_own(integrator):
    """The step chooses its substeps itself, and says so where others are asked for."""
    with pytest.raises(lj.StateError, match="substeps"):
        lj.Full(integrator=integrator, substeps=2)


def arm_with_light_links() -> lj.Model:
    """Return a hanging arm with pairs of hinges across each other, and next to no inertia between them."""
    builder, above, at = lj.Builder("arm"), "world", (0.0, 0.0, 0.0)
    for k in range(4):
        builder.add_body(f"light{k}", mass=1e-3, com=(0.0, 0.0, -0.02), inertia=(1e-8, 1e-8, 1e-8))
        builder.add_joint_hinge(f"swing{k}", above, f"light{k}", axis=(0.0, 1.0, 0.0), position=at)
        builder.add_body(f"arm{k}", mass=2.0, com=(0.0, 0.0, -0.15), inertia=(0.015, 0.015, 0.002))
        builder.add_joint_hinge(f"bend{k}", f"light{k}", f"arm{k}", axis=(1.0, 0.0, 0.0), position=(0.0, 0.0, -0.04))
        above, at = f"arm{k}", (0.0, 0.0, -0.3)
    return builder.build()


@pytest.mark.parametrize(
    ("model", "most"),
    [
        (lambda: heavy_chain(12, "planar", 100.0, start=0.0), 1.2),
        (lambda: heavy_chain(12, "hinge", 100.0, start=0.0), 1.6),
        (arm_with_light_links, 1.0),
    ],
    ids=["planar", "axes alternate", "light links"],
)
def test_substeps_follow_the_tension(model, most):
    """A chain at rest takes the substeps that its fastest swing, by mass matrix and weight, asks for, and few more."""
    model = model()
    dt, nv = 1 / 60, model.nv
    still, stiffness = np.zeros(nv), np.zeros((nv, nv))
    for k in range(nv):
        bent = 1e-6 * np.eye(nv)[k]
        ahead, back = (lj.inverse_dynamics(model, q, still, still) for q in (bent, -bent))
        stiffness[:, k] = (ahead - back) / 2e-6
    fastest = np.sqrt(np.linalg.eigvals(np.linalg.solve(lj.mass_matrix(model, still), stiffness)).real.max())
    for integrator in INTEGRATORS:
        sim = lj.Simulation(model, lj.Full(integrator=integrator), dt=dt)
        sim.step(1)
        sim.step(1)
        assert model.name == "arm" or fastest * dt > 4.0  # beyond the limit of stability
        assert fastest * dt <= sim.stats["substeps"] <= most * fastest * dt + 1.0


@pytest.mark.parametrize("kind", ["hinge", "ball"])
@pytest.mark.parametrize(("ratio", "dt"), [(1e3, 1 / 60), (1e4, 1 / 240), (1e6, 1 / 240)])
def test_heavy_tips_gain_no_energy(kind, ratio, dt):
    """A light chain that swings with a tip of up to a million times a link's mass keeps its energy to 0.1 %."""
    sim = lj.Simulation(heavy_chain(40, kind, 0.05 * ratio), "full", dt=dt)
    change, kinetic = energies(sim, 1.0)
    assert np.abs(change).max() < 1e-3 * kinetic


def test_a_rope_under_strong_pull_gains_no_energy():
    """A rope of 50 g links pulled at its end by 3 kN moves on with no more energy than the pull has given."""
    sim = lj.Simulation(heavy_chain(40, "ball", 0.05), "full", dt=1 / 240)
    sim.step(0)

    def energy() -> float:
        tip = sim.body("b39")
        com = tip.position + matrix_from_quaternion(tip.rotation) @ (0.0, 0.0, -0.05)
        return sim.energy().total - float(force @ com)

    force = np.array([3000.0, 0.0, 0.0])
    sim.apply_wrench("b39", force=force)
    start, most, kinetic = energy(), 0.0, 0.0
    for _ in range(60):
        sim.step(4)
        most, kinetic = max(most, energy() - start), max(kinetic, sim.energy().kinetic)
    assert kinetic > 100.0 and most < 0.01 * kinetic
