"""Linear and angular momentum of free trees: conserved, or changed by the impulse of external forces."""

from __future__ import annotations

import numpy as np
import pytest
from tests.methods.scenes import floating, started
from tests.naive.models import add_body
from tests.naive.rotations import matrix

import limberjack as lj


def drift(sim, linear, angular):
    """Return the largest change of momentum relative to its size.

    Far from the origin angular momentum is a small difference of large numbers, com x momentum: their size counts.
    """
    now = sim.momentum()
    scale = max(np.linalg.norm(linear), np.linalg.norm(angular))
    lever = np.linalg.norm(centre(sim)) * np.linalg.norm(linear)
    return max(np.abs(now.linear - linear).max() / scale, np.abs(now.angular - angular).max() / (scale + lever))


@pytest.mark.parametrize("still", [False, True])
@pytest.mark.parametrize(
    ("bodies", "steps"), [(6, 20_000), (15, 5_000), pytest.param(5, 1_000_000, marks=pytest.mark.slow)]
)
def test_momentum_is_conserved(bodies, steps, still):
    """The momentum integrator keeps a free tree's momentum to 1e-12 over very many steps, flying or on the spot."""
    # only joints that turn: bodies on slides fly apart, and their parts of the sum grow beyond all bounds
    sim = started(floating(bodies, kinds=("ball", "hinge", "universal")), "momentum", 1e-3)
    if still:
        mass = sum(sim.model.body(name).mass for name in sim.model.body_names)
        sim.qd = np.r_[sim.qd[:3] - sim.momentum().linear / mass, sim.qd[3:]]
    before = sim.momentum()
    for _ in range(10):
        sim.step(steps // 10)
        assert drift(sim, *before) < 1e-12


def test_rk4_keeps_it_to_its_order():
    """Runge-Kutta keeps momentum to 1e-9; semi_implicit does not, which shows that the bound means something."""
    before = started(floating(), "rk4", 1e-3).momentum()
    sim = started(floating(), "rk4", 1e-3)
    sim.step(5_000)
    assert drift(sim, *before) < 1e-9
    rough = started(floating(), "semi_implicit", 1e-3)
    rough.step(5_000)
    assert drift(rough, *before) > 1e-6


def test_a_ready_made_tree_keeps_it_too():
    """The random tree of the scenes, with every joint kind, keeps its momentum."""
    model = lj.scenes.random_tree(bodies=20, seed=1, floating=True, gravity=(0, 0, 0))
    sim = lj.Simulation(model, lj.Full(integrator="momentum"), dt=1e-3)
    before = sim.momentum()
    sim.step(2_000)
    assert drift(sim, *before) < 1e-12


def test_inner_forces_do_not_change_it():
    """Joint forces, motors, dampers, springs within the tree and rotors act in pairs: momentum stays."""
    builder = lj.Builder(gravity=(0, 0, 0))
    rng = np.random.default_rng(4)
    for k in range(4):
        add_body(builder, rng, f"b{k}")
    builder.add_joint_ball("s", "b0", "b1", position=(0.5, 0, 0), stiffness=5.0, damping=0.1)
    builder.add_joint_hinge(
        "h", "b1", "b2", position=(0.5, 0, 0), motor=lj.Motor(kp=5, kd=0.1, target=1.0), armature=0.2
    )
    builder.add_joint_universal("u", "b0", "b3", position=(0, 0.5, 0), damping=0.2)
    builder.add_spring("b2", "b3", stiffness=20.0, damping=0.1, rest=0.3)
    sim = started(builder.build(), "momentum", 1e-3)
    tau = rng.normal(size=sim.model.nv)
    tau[:6] = 0.0
    sim.tau = tau
    before = sim.momentum()
    sim.step(5_000)
    assert drift(sim, *before) < 1e-12


def test_gravity_gives_its_impulse():
    """Falling, linear momentum grows by m g t and angular momentum about the origin by m c x g integrated."""
    g = np.array([0.3, -0.5, -9.0])
    model = floating(gravity=g)
    sim = started(model, "momentum", 1e-3)
    linear, angular = sim.momentum()
    mass = sum(model.body(name).mass for name in model.body_names)
    com = centre(sim)
    for t in (1.0, 2.0):
        sim.step(1000)
        now = sim.momentum()
        assert np.abs(now.linear - (linear + mass * g * t)).max() < 1e-12 * mass * 9 * t
        wanted = angular + mass * np.cross(com, g) * t + np.cross(linear, g) * t**2 / 2
        assert np.abs(now.angular - wanted).max() < 1e-11 * np.abs(wanted).max()
        assert np.abs(centre(sim) - (com + linear / mass * t + g * t**2 / 2)).max() < 1e-11 * (1 + 9 * t**2)


def test_a_new_state_brings_its_own_momentum():
    """Assigning q or qd in the middle sets the momentum to keep to that of the new state."""
    sim = started(floating(), "momentum", 1e-3)
    sim.step(100)
    for change in ("qd", "q", "handle"):
        if change == "qd":
            sim.qd = 0.5 * sim.qd + 0.3
        elif change == "q":
            sim.q = np.r_[sim.q[:3] + [1.0, 2.0, 3.0], sim.q[3:]]
        else:
            sim.joint(sim.model.joint_names[-1]).qd = sim.joint(sim.model.joint_names[-1]).qd + 1.0
        before, place, velocity = sim.momentum(), centre(sim), sim.velocities.copy()
        sim.step(1)
        assert np.abs(sim.velocities - velocity).max() < 0.1 and np.abs(centre(sim) - place).max() < 0.01
        sim.step(99)
        assert drift(sim, *before) < 1e-12


def centre(sim):
    """Return the com of everything."""
    masses = [sim.model.body(name).mass for name in sim.model.body_names]
    places = [
        p + matrix(r) @ sim.model.body(name).com
        for name, p, r in zip(sim.model.body_names, sim.positions, sim.rotations, strict=True)
    ]
    return np.average(places, axis=0, weights=masses)


def test_wrenches_give_their_impulse():
    """A lasting torque adds torque times time; a force on the com of a lone body adds c x force as it moves."""
    sim = started(floating(), "momentum", 1e-3)
    linear, angular = sim.momentum()
    torque = np.array([1.0, -2.0, 0.5])
    sim.apply_wrench("b3", torque=torque)
    sim.step(2000)
    now = sim.momentum()
    assert np.abs(now.linear - linear).max() < 1e-11 and np.abs(now.angular - angular - 2 * torque).max() < 1e-11
    alone = started(floating(bodies=1), "momentum", 1e-3)
    linear, angular = alone.momentum()
    mass, com, force = alone.model.body("b0").mass, centre(alone), np.array([3.0, 1.0, -1.0])
    alone.apply_wrench("b0", force=force)
    alone.step(1000)
    now = alone.momentum()
    assert np.abs(now.linear - linear - force).max() < 1e-11
    wanted = angular + np.cross(com, force) + np.cross(linear, force) / (2 * mass)
    assert np.abs(now.angular - wanted).max() < 1e-11


def test_base_forces_and_world_springs_are_outer_forces():
    """tau on a free joint and springs to the world change momentum as rk4 says, to its accuracy."""
    builder = lj.Builder(gravity=(0, 0, -9))
    rng = np.random.default_rng(6)
    for k in range(3):
        add_body(builder, rng, f"b{k}")
    builder.add_joint_ball("s", "b0", "b1", position=(0.5, 0, 0))
    builder.add_joint_hinge("h", "b1", "b2", position=(0.5, 0, 0))
    builder.add_spring("b2", "world", at_b=(1, 1, 1), stiffness=30.0, damping=0.3, rest=0.5)
    model = builder.build()
    ends = []
    for integrator in ("momentum", "rk4"):
        sim = started(model, integrator, 2.5e-4)
        sim.tau = np.r_[1.0, 2.0, 3.0, 0.3, 0.2, 0.1, np.zeros(model.nv - 6)]
        sim.apply_wrench("b1", force=(1, 0, 2), point=(0.2, 0.3, 0.4))
        sim.step(4000)
        ends.append(np.concatenate([*sim.momentum(), sim.positions.ravel()]))
    assert np.abs(ends[0] - ends[1]).max() < 1e-9


def test_several_trees_keep_their_own():
    """Each free tree keeps its momentum whatever happens to the others, on one thread and on several, bit for bit."""
    builder = lj.Builder(gravity=(0, 0, 0))
    rng = np.random.default_rng(7)
    for k in range(4):
        add_body(builder, rng, f"a{k}")
        add_body(builder, rng, f"b{k}")
        builder.add_joint_ball(f"j{k}", f"a{k}", f"b{k}", position=(0.4, 0, 0))
    model = builder.build()
    hashes = set()
    for threads in (1, 2, 4):
        sim = started(model, "momentum", 1e-3, threads=threads)
        before = sim.momentum()
        sim.step(1500)
        assert drift(sim, *before) < 1e-12
        hashes.add((sim.q.tobytes(), sim.qd.tobytes()))
    assert len(hashes) == 1
