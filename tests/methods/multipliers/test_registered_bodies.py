"""Bodies of registered kinds: the motion that their energies ask for, alone and joined to others."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.methods.multipliers.registered_kinds import own_bodies_registered, rods_kinetic  # noqa: F401

import limberjack as lj

pytestmark = pytest.mark.usefixtures("own_bodies_registered")
RK4 = lj.Multipliers(integrator="rk4")


def test_two_rods_in_one_body_are_a_double_pendulum():
    """One body with two angles moves as two rods on hinges in reduced coordinates do, and keeps its energy."""
    a, b, length, mass = 0.9, -0.4, 0.7, 1.3
    build = lj.Builder("one")
    build.add_body_registered("rods", "rods", mass=2 * mass, coordinates=(a, b), rates=(0.3, -1.0), data=(length, mass))
    one = lj.Simulation(build.build(), RK4, dt=1e-3)
    build = lj.Builder("two")
    about = (mass * length**2 / 12,) * 2 + (1e-9,)
    for name, parent, at in (("upper", "world", 0.0), ("lower", "upper", -length)):
        build.add_body(name, mass=mass, com=(0, 0, -0.5 * length), inertia=about)
        build.add_joint_hinge(f"hinge {name}", parent, name, axis=(0, -1, 0), position=(0, 0, at))
    two = lj.Simulation(build.build(), lj.Full(integrator="rk4"), dt=1e-3, q=[a, b - a], qd=[0.3, -1.3])
    start = one.energy()
    assert start.kinetic == pytest.approx(two.energy().kinetic, rel=1e-12)
    for _ in range(10):
        one.step(100)
        two.step(100)
        angles, rates = one.body("rods").coordinates, one.body("rods").coordinate_rates
        assert np.abs(angles - (two.q[0], two.q.sum())).max() < 1e-9
        assert np.abs(rates - (two.qd[0], two.qd.sum())).max() < 1e-8
    assert one.energy().total == pytest.approx(start.total, abs=1e-9 * abs(start.total))
    assert one.momentum().linear == pytest.approx(two.momentum().linear, abs=1e-8)


def test_a_beam_swings_about_its_sag():
    """A clamped beam with one mode swings harmonically about m g / (3 k): the closed form, to the order of the step."""
    length, mass, k = 2.0, 3.0, 400.0
    build = lj.Builder("beam")
    build.add_body_registered("bar", "beam", mass=mass, coordinates=[0.0], data=(length, mass, k))
    sim = lj.Simulation(build.build(), RK4, dt=1e-3)
    sim.step(777)
    sag, w = -mass * 9.81 / (3 * k), math.sqrt(k / (0.2 * mass))
    assert sim.body("beam").coordinates[0] == pytest.approx(sag * (1 - math.cos(w * 0.777)), abs=1e-9)
    assert sim.energy().total == pytest.approx(-0.0, abs=1e-9)


@pytest.mark.parametrize("solver", ["tree", "sparse", "dense"])
def test_a_chain_of_own_solids_is_a_chain_of_planar_bodies(solver):
    """Registered solids on balls, with a spring between, move as planar bodies on pins do, by every direct solver."""
    sims = []
    method = lj.Multipliers(solver=solver, integrator="semi_implicit" if solver == "dense" else "rk4")
    for own in (False, True):
        build = lj.Builder("chain", gravity=(0, -9.81, 0))
        for i in range(3):
            x = 0.25 + 0.5 * i
            if own:
                build.add_body_registered("plane", f"b{i}", mass=1.0, coordinates=(x, 0, 0), data=(1.0, 0.05))
                ends = {"position": (0.25 if i else 0, 0, 0), "position_in_child": (-0.25, 0, 0)}
                # in the plane, two of the three rows of a ball are all that can act
                build.add_joint_ball(f"j{i}", f"b{i - 1}" if i else "world", f"b{i}", **ends)
            else:
                build.add_body_planar(f"b{i}", mass=1.0, inertia=0.05)
                ends = {"position": (0.25 if i else 0, 0, 0), "position_in_child": (-0.25, 0, 0)}
                build.add_joint_hinge(f"j{i}", f"b{i - 1}" if i else "world", f"b{i}", **ends)
        build.add_spring("b0", "b2", at_a=(0, 0.1, 0), at_b=(0.1, 0, 0), stiffness=30.0, damping=0.2, rest=0.5)
        sims.append(lj.Simulation(build.build(), method, dt=1e-3))
    for sim in sims:
        sim.apply_wrench("b1", force=(0.3, 0.2, 0.0), point=sim.positions[1] + (0.1, 0.0, 0.0))
        sim.step(300)
    assert np.abs(sims[0].positions - sims[1].positions).max() < 1e-9
    assert np.abs(sims[0].rotations - sims[1].rotations).max() < 1e-9
    assert np.abs(sims[0].velocities - sims[1].velocities).max() < 1e-8
    assert max(sims[1].joint_error()) < 1e-10


def test_a_registered_map_is_an_affine_body():
    """Twelve coordinates written by a user give the motion of the kind that is built in, joints to solids included."""
    sims, moments = [], (0.02, 0.03, 0.05)
    about = (moments[1] + moments[2], moments[0] + moments[2], moments[0] + moments[1])
    for own in (False, True):
        build = lj.Builder("map")
        if own:
            start = (0.0, 0.0, -0.3, 1, 0, 0, 0, 1, 0, 0, 0, 1)
            build.add_body_registered("map", "soft", mass=1.5, coordinates=start, data=(1.5, *moments))
            build.add_joint_ball("hook", "world", "soft", position_in_child=(0.0, 0.1, 0.3), position=(0, 0.1, 0))
        else:
            build.add_body_affine("soft", mass=1.5, inertia=about)
            build.add_joint_ball("hook", "world", "soft", position_in_child=(0.0, 0.1, 0.3), position=(0, 0.1, 0))
        build.add_body("weight", mass=0.7, inertia=(0.01, 0.02, 0.015), com=(0.2, 0, 0))
        build.add_joint_ball("link", "soft", "weight", position=(0.1, 0.0, -0.2))
        sims.append(lj.Simulation(build.build(), RK4, dt=1e-3))
    energy = sims[1].energy().total
    for sim in sims:
        sim.step(200)
    assert np.abs(sims[0].positions - sims[1].positions).max() < 1e-9
    assert np.abs(sims[0].body("soft").coordinates - sims[1].body("soft").coordinates[3:]).max() < 1e-9
    assert sims[1].energy().total == pytest.approx(energy, abs=1e-7)
    assert sims[1].joint_error()[0] < 1e-10


def test_state_is_kept_and_set():
    """Snapshots hold coordinates; assigning them and their rates sets the body and the bodies that hang on it."""
    build = lj.Builder("hung")
    build.add_body_registered("bar", "beam", mass=1.0, coordinates=[0.1], data=(1.0, 1.0, 50.0))
    build.add_body("weight", mass=0.4, inertia=(0.01, 0.01, 0.01), com=(0, 0, -0.1))
    build.add_joint_ball("ball", "beam", "weight", position=(1.0, 0, 0))
    build.add_point("half", "beam", (0.5, 0.2, 0.0))
    sim = lj.Simulation(build.build(), RK4, dt=1e-3)
    assert sim.positions[1] == pytest.approx((1.0, 0.0, 0.1), abs=1e-12)
    assert sim.point("half").position == pytest.approx((0.5, 0.2, 0.025), abs=1e-12)
    sim.step(50)
    kept, there = sim.snapshot(), sim.body("beam").coordinates[0]
    sim.step(50)
    here = sim.state_hash()
    sim.restore(kept)
    assert sim.body("beam").coordinates[0] == there
    sim.step(50)
    assert sim.state_hash() == here
    sim.body("beam").coordinates = [-0.2]
    sim.body("beam").coordinate_rates = [0.5]
    assert sim.positions[1, 2] == pytest.approx(-0.2, abs=1e-12)
    assert sim.velocities[0, 2 + 3] == pytest.approx(0.5 / 3)
    sim.step(5)
    assert sim.joint_error()[0] < 1e-10
    with pytest.raises(lj.StateError, match="keeps its size"):
        print(sim.body("weight").coordinates)


def test_files_hold_bodies_of_registered_kinds(tmp_path):
    """The native format stores coordinates, rates and numbers; a file with a kind that nobody registered is refused."""
    build = lj.Builder("hung")
    build.add_body_registered("bar", "beam", mass=1.0, coordinates=[0.1], rates=[0.3], data=(1.0, 1.0, 50.0))
    build.add_body("weight", mass=0.4, inertia=(0.01, 0.01, 0.01), com=(0, 0, -0.1))
    build.add_joint_ball("ball", "beam", "weight", position=(1.0, 0, 0))
    model = build.build()
    lj.save(model, tmp_path / "hung.json")
    assert lj.load(tmp_path / "hung.json").spec == model.spec
    text = (tmp_path / "hung.json").read_text()
    (tmp_path / "other.json").write_text(text.replace('"body_kind": "bar"', '"body_kind": "bear"'))
    with pytest.raises(lj.FileError, match="bear|rates"):
        lj.load(tmp_path / "other.json")


def test_refusals_name_the_thing():
    """Names, sizes, joints that need axes, other methods and functions that do not compile are refused by name."""
    with pytest.raises(lj.ModelError, match='body kind "rods" exists already'):
        lj.register_body_kind("rods", size=2, place=len, kinetic=rods_kinetic)
    for size in (0, 13, 2.0):
        with pytest.raises(lj.ModelError, match="size must be 1 to 12"):
            lj.register_body_kind("other", size=size, place=len, kinetic=len)  # type: ignore[arg-type]
    with pytest.raises(lj.ModelError, match="kinetic must be a function"):
        lj.register_body_kind("other", size=2, place=len, kinetic=3)  # type: ignore[arg-type]
    build = lj.Builder("x")
    with pytest.raises(lj.UnknownName, match="rodz"):
        build.add_body_registered("rodz", "r", mass=1, coordinates=(0, 0))
    with pytest.raises(lj.ModelError, match='coordinates of body "r"'):
        build.add_body_registered("rods", "r", mass=1, coordinates=(0, 0, 0))
    build.add_body_registered("rods", "r", mass=1, coordinates=(0, 0), data=(1.0, 1.0))
    with pytest.raises(lj.UnsupportedByMethod, match='body "r" is rods'):
        lj.Simulation(build.build(), "full", dt=1e-3)
    build.add_joint_hinge("h", "world", "r")
    with pytest.raises(lj.UnsupportedByMethod, match='joint "h" of kind hinge ties a direction'):
        lj.Simulation(build.build(), "multipliers", dt=1e-3)
    lj.register_body_kind("wrong", size=1, place=lambda p, y, d: (y[0] + "a", 0, 0), kinetic=lambda y, u, d: u[0] ** 2)
    build = lj.Builder("x")
    build.add_body_registered("wrong", "w", mass=1, coordinates=[0])
    with pytest.raises(lj.ModelError, match='body kind "wrong" does not compile'):
        lj.Simulation(build.build(), "multipliers", dt=1e-3)
