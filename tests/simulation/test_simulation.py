"""The front door of a simulation: state, handles, forces, clock, recording, measures, and what it refuses."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from tests.naive.models import add_body, random_state
from tests.naive.rotations import matrix
from tests.naive.twin import Twin

import limberjack as lj

SOLID = {"mass": 1.0, "com": (0.0, 0.0, -0.3), "inertia": (0.1, 0.1, 0.1)}


@pytest.fixture(scope="module")
def model():
    """A hinge, a ball, a compound joint, a fixed and a free body, with points, motors and springs."""
    builder = lj.Builder("rig")
    for name in ("a", "b", "c", "tool", "loose"):
        builder.add_body(name, **SOLID)
    builder.add_joint_hinge(
        "h", "world", "a", axis=(0, 1, 0), motor=lj.Motor(kp=10.0, kd=1.0, target=0.2), armature=0.3
    )
    builder.add_joint_ball("s", "a", "b", position=(0, 0, -0.6), motor=lj.Motor(kp=1.0), stiffness=2.0)
    axes = [lj.Axis(name="x", axis=(1, 0, 0)), lj.Axis(name="z", kind="slide", stiffness=30.0, rest=0.1)]
    builder.add_joint_compound("c", "b", "c", axes, position=(0, 0, -0.6))
    builder.add_joint_fixed("weld", "c", "tool", position=(0.1, 0.2, 0.3), rotation=(0, 1, 0, 0))
    builder.add_point("tip", "tool", (0, 0, 0.5))
    builder.add_point("nail", "world", (1, 2, 3))
    builder.add_spring("loose", "tool", at_a=(0.1, 0, 0), stiffness=20.0, damping=0.4, rest=0.5)
    return builder.build()


@pytest.fixture
def sim(model):
    """The rig in a random state."""
    q, qd = random_state(np.random.default_rng(1), model)
    return lj.Simulation(model, q=q, qd=qd)


# State


def test_a_simulation_starts_where_the_model_does(model):
    """q and qd begin at q0 and qd0, tau at zero, time at zero."""
    sim = lj.Simulation(model)
    assert (sim.q == model.q0).all() and (sim.qd == model.qd0).all() and not sim.tau.any()
    assert sim.time == 0.0 and sim.steps == 0 and sim.dt == 1e-3 and sim.method == lj.Full()


@pytest.mark.parametrize("word", ["q", "qd", "tau"])
def test_state_is_read_only_and_set_by_assignment(sim, word):
    """Reading gives a read-only copy that never changes; assigning sets, and what was read before stays."""
    before = getattr(sim, word)
    kept = before.copy()
    with pytest.raises(ValueError, match="read-only"):
        before[0] = 7.0
    new = before.copy()
    new[0] = 0.25
    setattr(sim, word, new)
    assert getattr(sim, word)[0] == 0.25
    new[0] = 0.5
    assert getattr(sim, word)[0] == 0.25, "the simulation must keep its own copy"
    sim.step(3)
    assert (before == kept).all()
    setattr(sim, word, list(new))
    assert getattr(sim, word)[0] == 0.5


def test_poses_follow_the_state(sim, model):
    """positions, rotations and velocities are those of the bodies now: after steps, after assignment, read-only."""
    twin = Twin(model)
    for change in (
        lambda: None,
        lambda: sim.step(5),
        lambda: setattr(sim, "q", model.q0),
        lambda: setattr(sim.joint("h"), "q", 1.0),
    ):
        change()
        positions, rotations = twin.poses(sim.q)
        assert np.allclose(sim.positions, positions, atol=1e-13)
        assert np.allclose([matrix(r) for r in sim.rotations], rotations, atol=1e-13)
        wanted = [np.r_[w, v] for _, _, w, v, _, _ in twin.motions(sim.q, sim.qd, 0 * sim.qd)]
        assert np.allclose(sim.velocities, wanted, atol=1e-12)
    for array in (sim.positions, sim.rotations):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0


def test_quaternions_are_normalised_or_refused(sim, model):
    """A quaternion within 1e-3 of unit length is normalised, another refused with the joint's name."""
    q = model.q0.copy()
    q[1:5] = [1.0004, 0, 0, 0]
    sim.q = q
    assert sim.q[1] == 1.0
    for bad in ([1.1, 0, 0, 0], [0, 0, 0, 0]):
        q[1:5] = bad
        with pytest.raises(lj.StateError, match=r'q\[1:5\] of joint "s" must be a unit quaternion'):
            sim.q = q
    assert sim.q[1] == 1.0, "a refused assignment changes nothing"


@pytest.mark.parametrize("word", ["q", "qd", "tau"])
@pytest.mark.parametrize("bad", [[1.0], "text", None, 3.0, [[1.0] * 3] * 3, {}])
def test_wrong_states_are_refused(sim, word, bad):
    """Wrong shapes and what is no number raise StateError naming the array, and change nothing."""
    before = sim.state_hash()
    with pytest.raises(lj.StateError, match=f"^{word} must"):
        setattr(sim, word, bad)
    assert sim.state_hash() == before


@pytest.mark.parametrize("word", ["q", "qd", "tau"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_states_must_be_finite(sim, word, bad):
    """NaN and infinity are refused with their place, in assignment and in the constructor."""
    value = getattr(sim, word).copy()
    value[2] = bad
    with pytest.raises(lj.StateError, match=rf"^{word}\[2\] is"):
        setattr(sim, word, value)
    if word != "tau":
        with pytest.raises(lj.StateError, match=rf"^{word}\[2\] is"):
            lj.Simulation(sim.model, **{word: value})


# Handles


def test_joint_handles(sim, model):
    """A joint's q, qd and tau are floats for one freedom and arrays for more; setting one leaves the others."""
    rest = np.delete(sim.q, 0)
    h, s, x, whole = (sim.joint(name) for name in ("h", "s", "x", "c"))
    assert type(h.q) is float and h.q == sim.q[0] and s.q.shape == (4,) and s.qd.shape == (3,) and whole.q.shape == (2,)
    assert x.q == whole.q[0] == sim.q[5] and sim.joint("z").qd == sim.qd[5]
    h.q, h.qd, h.tau = 0.7, 0.8, 0.9
    assert (sim.q[0], sim.qd[0], sim.tau[0]) == (0.7, 0.8, 0.9) and (np.delete(sim.q, 0) == rest).all()
    s.q, s.qd = (0, 1, 0, 0), [1, 2, 3]
    assert s.q.tolist() == [0, 1, 0, 0] and sim.qd[1:4].tolist() == [1, 2, 3]
    whole.tau = (4, 5)
    assert (x.tau, sim.joint("z").tau) == (4, 5)
    assert sim.joint("weld").q.size == 0 and not sim.joint("weld").active and h.active
    assert sim.active_joints == ["h", "s", "c", "loose"]
    assert "hinge" in repr(h)


def test_handles_refuse_bad_values(sim):
    """Unknown names come with the choices; wrong sizes and NaN are refused with the joint's name."""
    with pytest.raises(lj.UnknownName, match='no joint "hh".*joints are c, h, loose, s, weld, x, z'):
        sim.joint("hh")
    with pytest.raises(lj.UnknownName, match='no body "z".*bodies are a, b, c, loose, tool'):
        sim.body("z")
    with pytest.raises(lj.UnknownName, match='no point "top".*points are nail, tip'):
        sim.point("top")
    before = sim.state_hash()
    for value in ([1, 2], np.nan, "x", None):
        for word in ("q", "qd", "tau"):
            with pytest.raises(lj.StateError, match='of joint "h"'):
                setattr(sim.joint("h"), word, value)
    with pytest.raises(lj.StateError):
        sim.joint("s").q = (1, 1, 1, 1)
    assert sim.state_hash() == before


def test_body_and_point_handles(sim, model):
    """A body's position, rotation and velocity are its rows; a point moves with its body, the world's stays."""
    for i, name in enumerate(model.body_names):
        body = sim.body(name)
        assert (body.position == sim.positions[i]).all() and (body.rotation == sim.rotations[i]).all()
        assert (body.velocity == sim.velocities[i]).all() and name in repr(body)
    i = model.body_index("tool")
    wanted = sim.positions[i] + matrix(sim.rotations[i]) @ [0, 0, 0.5]
    assert np.allclose(sim.point("tip").position, wanted, atol=1e-14)
    assert sim.point("nail").position.tolist() == [1, 2, 3]


def test_motor_targets_can_be_moved(model):
    """A motor's target is read and set through its joint, per simulation; balls take quaternions."""
    one, two = lj.Simulation(model), lj.Simulation(model)
    assert one.joint("h").target == 0.2
    one.joint("h").target = 0.9
    assert one.joint("h").target == 0.9 and two.joint("h").target == 0.2
    one.joint("s").target = (0, 0, 1, 0)
    assert one.joint("s").target.tolist() == [0, 0, 1, 0]
    for bad in (np.nan, (1, 2), "x"):
        with pytest.raises(lj.StateError):
            one.joint("h").target = bad
    for bad in ((0, 0, 0, 0), (1, 1, 1, 1), 0.5):
        with pytest.raises(lj.StateError):
            one.joint("s").target = bad
    with pytest.raises(lj.LimberjackError, match='joint "x" has no motor'):
        _ = one.joint("x").target


def test_every_motor_of_a_joint_is_reached():
    """A joint with several motors reads and sets the targets of all of them."""
    builder = lj.Builder()
    builder.add_body("a", **SOLID)
    builder.add_joint_universal("u", "world", "a", motor=[lj.Motor(kp=1, target=0.1), lj.Motor(kp=1, target=0.2)])
    sim = lj.Simulation(builder.build())
    assert np.allclose(sim.joint("u").target, [0.1, 0.2])
    sim.joint("u").target = (0.3, 0.4)
    assert np.allclose(sim.joint("u").target, [0.3, 0.4])


def test_loop_joints_are_read_off_the_poses():
    """A loop joint's q follows from the bodies and cannot be set; joint_error is its gap."""
    builder = lj.Builder()
    for name in "ab":
        builder.add_body(name, **SOLID)
    builder.add_joint_hinge("h", "world", "a", axis=(0, 1, 0))
    builder.add_joint_hinge("k", "a", "b", axis=(0, 1, 0), position=(0, 0, -1))
    builder.add_joint_hinge("loop", "world", "b", axis=(0, 1, 0), position=(0.3, 0, -2), position_in_child=(0, 0, -1))
    builder.add_joint_gear("gear", "h", "k")
    sim = lj.Simulation(builder.build(), ignore=("loops", "gears"), q=[0.2, 0.3])
    assert sim.joint("loop").q == pytest.approx(0.5, abs=1e-12)
    tip = np.array([-np.sin(0.2) - np.sin(0.5), 0, -np.cos(0.2) - np.cos(0.5)])
    assert sim.joint_error().metres == pytest.approx(np.linalg.norm(tip - [0.3, 0, -2]), rel=1e-9)
    assert sim.joint_error().radians == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(lj.StateError, match='"loop" closes a loop'):
        sim.joint("loop").q = 1.0
    assert "gear" in repr(sim.joint("gear"))


def test_a_slack_rope_is_no_error():
    """A rope counts with what it is stretched beyond its length, a rod with any difference."""
    for rope, length, gap in ((True, 1.0, 0.0), (True, 0.3, 0.2), (False, 1.0, 0.5), (False, 0.3, 0.2)):
        builder = lj.Builder()
        builder.add_body("a", **SOLID, position=(0.5, 0, 0))
        builder.add_joint_distance("d", "world", "a", length=length, rope=rope)
        sim = lj.Simulation(builder.build(), ignore="loops")
        assert sim.joint_error().metres == pytest.approx(gap, abs=1e-12)


# Forces


def accelerations(sim, wrench_of):
    """Return qdd of a simulation without motors and springs, with wrenches given as a function of the poses."""
    wrenches = np.zeros((sim.model.body_count, 6))
    for i, body in enumerate(sim.model.body_names):
        r = matrix(sim.rotations[i])
        com = sim.positions[i] + r @ sim.model.body(body).com
        for force, torque, local in wrench_of.get(body, ()):
            at = com if local is None else sim.positions[i] + r @ local
            wrenches[i] += np.r_[torque + np.cross(at - com, force), force]
    return lj.forward_dynamics(sim.model, sim.q, sim.qd, sim.tau, wrenches)


@pytest.fixture
def chain():
    """A hanging pair with a body fixed to its end, and a floating one, without drives."""
    rng = np.random.default_rng(2)
    builder = lj.Builder()
    for name in ("a", "b", "tool", "loose", "wall"):
        add_body(builder, rng, name)
    builder.add_joint_ball("s", "world", "a")
    builder.add_joint_hinge("h", "a", "b", position=(0.4, 0, 0), axis=(0, 1, 0))
    builder.add_joint_fixed("f", "b", "tool", position=(0.2, 0.1, 0), rotation=(0.6, 0.8, 0, 0))
    builder.add_joint_fixed("w", "world", "wall")
    model = builder.build()
    q, qd = random_state(rng, model)
    return lj.Simulation(model, lj.Full(integrator="euler"), dt=1e-2, q=q, qd=qd)


def test_wrenches_last_and_add_until_cleared(chain):
    """Force and torque keep their world axes, their point stays fixed to the body, and calls add up."""
    force, torque = np.array([1.0, -2.0, 3.0]), np.array([0.3, 0.2, -0.1])
    i = chain.model.body_index("tool")
    point = chain.positions[i] + [0.3, -0.2, 0.1]
    local = matrix(chain.rotations[i]).T @ (point - chain.positions[i])
    chain.apply_wrench("tool", force=force, torque=torque, point=point)
    chain.apply_wrench("loose", force=2 * force)
    chain.apply_wrench("loose", torque=torque)
    chain.apply_wrench("wall", force=force, torque=torque)
    acting = {"tool": [(force, torque, local)], "loose": [(2 * force, torque, None)]}
    for _ in range(20):
        wanted = chain.qd + 1e-2 * accelerations(chain, acting)
        chain.step()
        assert np.abs(chain.qd - wanted).max() < 1e-11 * (1 + np.abs(wanted).max())
    chain.apply_wrench("tool", force=force, point=chain.positions[i])
    acting["tool"].append((force, 0 * force, np.zeros(3)))
    wanted = chain.qd + 1e-2 * accelerations(chain, acting)
    chain.step()
    assert np.abs(chain.qd - wanted).max() < 1e-11 * (1 + np.abs(wanted).max())
    chain.clear_wrenches()
    wanted = chain.qd + 1e-2 * accelerations(chain, {})
    chain.step()
    assert np.abs(chain.qd - wanted).max() < 1e-11 * (1 + np.abs(wanted).max())


def test_opposite_wrenches_cancel(chain):
    """A wrench and its negative leave the motion as without."""
    other = lj.Simulation(chain.model, chain.method, dt=1e-2, q=chain.q, qd=chain.qd)
    for sign in (1, -1):
        chain.apply_wrench("b", force=(sign, 2 * sign, 0), point=(0.5, 0.5, 0.5))
    chain.step(10)
    other.step(10)
    assert np.abs(chain.q - other.q).max() < 1e-13


def test_bad_wrenches_are_refused(chain):
    """Unknown bodies, wrong shapes and NaN change nothing."""
    before = chain.state_hash()
    for options in (
        {"force": (1, 2)},
        {"torque": (np.nan, 0, 0)},
        {"force": (1, 0, 0), "point": (np.inf, 0, 0)},
        {"force": "up"},
    ):
        with pytest.raises(lj.StateError):
            chain.apply_wrench("a", **options)
    for name in ("ghost", "world"):
        with pytest.raises(lj.UnknownName, match=f'no body "{name}"'):
            chain.apply_wrench(name, force=(1, 0, 0))
    assert chain.state_hash() == before


def test_joint_forces_last(chain):
    """tau acts in every step until it is set again."""
    chain.joint("h").tau = 5.0
    wanted = chain.qd + 1e-2 * accelerations(chain, {})
    chain.step()
    assert np.abs(chain.qd - wanted).max() < 1e-11 * (1 + np.abs(wanted).max())
    assert chain.joint("h").tau == 5.0


# Measures


def test_energy_has_all_its_parts(sim, model):
    """Bodies and rotors are kinetic; weight by com from the origin, joint and body springs and motors potential."""
    twin = Twin(model)
    kinetic, potential = twin.energy(sim.q, sim.qd)
    potential += 0.5 * 10.0 * (sim.joint("h").q - 0.2) ** 2
    angle = 2 * np.arccos(min(1.0, abs(sim.joint("s").q[0])))
    potential += 0.5 * 1.0 * angle**2
    energy = sim.energy()
    assert energy.kinetic == pytest.approx(kinetic, rel=1e-12) and energy.potential == pytest.approx(
        potential, rel=1e-12
    )
    assert energy.total == energy.kinetic + energy.potential


def test_bodies_fixed_to_the_world_have_weight():
    """A body fixed to the world counts with its height, and not at all in the motion."""
    builder = lj.Builder()
    builder.add_body("stone", mass=2.0, com=(0, 0, 1))
    builder.add_joint_fixed("f", "world", "stone", position=(0, 0, 3))
    sim = lj.Simulation(builder.build())
    assert sim.energy() == pytest.approx((0.0, 2.0 * 9.81 * 4, 2.0 * 9.81 * 4))
    sim.step(10)
    assert (
        sim.momentum().linear.tolist() == [0, 0, 0] and (sim.velocities == 0).all() and sim.time == pytest.approx(0.01)
    )


def test_energy_of_a_conservative_rig_is_kept():
    """With springs, armature and gravity, and without dampers, what energy() sums is what the motion keeps."""
    builder = lj.Builder()
    for name in "ab":
        builder.add_body(name, **SOLID)
    builder.add_joint_hinge(
        "h", "world", "a", axis=(0, 1, 0), stiffness=3.0, rest=0.5, armature=0.2, motor=lj.Motor(kp=4.0, target=-0.3)
    )
    builder.add_joint_ball("s", "a", "b", position=(0, 0, -0.6), stiffness=2.0)
    builder.add_spring("b", "world", at_b=(1, 0, 0), stiffness=15.0, rest=0.7)
    sim = lj.Simulation(builder.build(), lj.Full(integrator="rk4"), dt=1e-3, qd=[1, 2, 0.5, -1])
    before = sim.energy()
    sim.step(2000)
    assert sim.energy().total == pytest.approx(before.total, abs=1e-8)
    assert abs(sim.energy().kinetic - before.kinetic) > 0.1


# Clock and recording


def test_time_is_a_count_of_steps(sim):
    """After two million steps of a millisecond it is 2000 s exactly: time is never summed up."""
    sim._clock.steps = 2_000_000
    assert sim.time == 2000.0


def test_a_change_of_dt_starts_a_new_count(sim):
    """Time goes on from where it was, in the new steps."""
    sim.step(7)
    sim.dt = 0.25e-3
    assert sim.time == 7e-3 and sim.steps == 7
    sim.step(4)
    assert sim.time == 7e-3 + 4 * 0.25e-3 and sim.steps == 11


@pytest.mark.parametrize("bad", [0, -1e-3, np.nan, np.inf, 1.001, "fast", None, [1e-3]])
def test_bad_steps_are_refused(sim, bad):
    """dt is above 0 and at most 1 s; a new simulation has that of the model where none is given."""
    with pytest.raises(lj.StateError, match="dt must"):
        sim.dt = bad
    if bad is not None:
        with pytest.raises(lj.StateError, match="dt must"):
            lj.Simulation(sim.model, dt=bad)
    assert sim.dt == 1e-3


@pytest.mark.parametrize("bad", [-1, 1.5, "two", None, np.nan])
def test_bad_counts_are_refused(sim, bad):
    """step takes whole numbers from 0 on."""
    with pytest.raises(lj.StateError, match="n must be a whole number"):
        sim.step(bad)
    sim.step(0)
    sim.step(np.int64(2))
    assert sim.steps == 2


def test_steps_in_one_call_or_many_are_the_same(model):
    """step(n), n calls of step() and any mixture give the same bits."""
    ends = []
    for calls in ([600], [1] * 600, [1, 599], [250, 0, 350]):
        sim = lj.Simulation(model, qd=np.full(model.nv, 0.3))
        for n in calls:
            sim.step(n)
        ends.append(sim.state_hash())
    assert len(set(ends)) == 1


@pytest.mark.parametrize(
    ("dt", "rate", "every"), [(1e-3, 60, 17), (1e-3, 1000, 1), (0.01, 60, 2), (0.1, 60, 1), (1e-3, 24, 42)]
)
def test_run_records_every_so_many_steps(model, dt, rate, every):
    """Frames stand round(1 / (rate dt)) steps apart, the start and the end among them, with their times and states."""
    sim = lj.Simulation(model, lj.Full(integrator="implicit"), dt=dt, qd=np.full(model.nv, 0.1))
    sim.step(3)
    start = sim.time
    steps = round(0.5 / dt)
    trajectory = sim.run(0.5, rate=rate)
    counts = [*range(0, steps, every), steps]
    assert np.allclose(trajectory.times, [start + n * dt for n in counts], atol=1e-12) and sim.steps == 3 + steps
    assert (trajectory.q[-1] == sim.q).all() and (trajectory.qd[-1] == sim.qd).all() and sim.recorded is trajectory
    again = lj.Simulation(model, lj.Full(integrator="implicit"), dt=dt, qd=np.full(model.nv, 0.1))
    again.step(3 + counts[1])
    assert (trajectory.q[1] == again.q).all()
    assert np.allclose(trajectory.positions[-1], sim.positions, atol=1e-14)


def test_run_calls_back_after_each_frame(model):
    """The callback sees every frame and may steer: what it sets acts in the next steps."""
    sim, seen = lj.Simulation(model), []

    def steer(s):
        seen.append(s.time)
        s.joint("h").tau = 1.0

    trajectory = sim.run(0.1, callback=steer)
    assert seen == trajectory.times[1:].tolist() and sim.joint("h").tau == 1.0


def test_short_runs(model):
    """A run of no time is one frame; bad lengths and rates are refused."""
    sim = lj.Simulation(model)
    assert len(sim.run(0.0)) == 1 and sim.steps == 0
    for options in (
        {"seconds": -1},
        {"seconds": np.nan},
        {"seconds": "long"},
        {"seconds": 1, "rate": 0},
        {"seconds": 1, "rate": np.inf},
    ):
        with pytest.raises(lj.StateError, match="must be a finite number|must be a number"):
            sim.run(**options)
    sim.run(0.02, progress=True)


def test_only_models_are_simulated():
    """What is no model is refused with the way out."""
    for bad in (None, "arm.urdf", lj.Builder()):
        with pytest.raises(lj.StateError, match="model must be a lj.Model"):
            lj.Simulation(bad)


def test_nothing_at_all_can_be_simulated():
    """A model without bodies steps, records and measures."""
    sim = lj.Simulation(lj.Builder().build())
    trajectory = sim.run(0.1)
    assert (
        len(trajectory) == 7 and sim.energy().total == 0 and sim.positions.shape == (0, 3) and sim.active_joints == []
    )
    for integrator in ("rk4", "implicit", "momentum", "euler"):
        lj.Simulation(lj.Builder().build(), lj.Full(integrator=integrator)).step(2)


def test_there_are_no_contacts_here(sim):
    """Methods without contacts return none; the text form says model, method and time."""
    assert sim.contacts() == []
    assert '"rig"' in repr(sim) and "dt=0.001" in repr(sim)


def test_unknown_attributes_are_refused(sim):
    """A misspelt name is no new attribute: the error names it and what comes near; the known ones can be set."""
    for wrong, near in (
        ("ctrl", "control"),
        ("zzz", "it has"),
        ("positon", "position"),
        ("tua", "tau"),
        ("times", "time"),
        ("stat", "stats"),
    ):
        with pytest.raises(AttributeError, match=f'no attribute "{wrong}".*{near}'):
            setattr(sim, wrong, 1)
    with pytest.raises(AttributeError, match="time"):
        sim.time = 3.0
    with pytest.raises(AttributeError, match="step"):
        sim.step = None
    sim.tau = sim.tau
    sim.dt = 2e-3

    class Own(lj.Simulation):
        """A subclass has attributes of its own."""

    own = Own(sim.model)
    own.note = "mine"
    assert own.note == "mine"


def test_simulations_do_not_wait_for_the_garbage_collector():
    """Nothing a simulation owns refers back to it: its arrays go when the last name of it does."""
    sim = lj.Simulation(lj.scenes.pendulum(links=3))
    sim.step()
    sim.energy()
    sim.positions  # noqa: B018
    gone = weakref.ref(sim)
    gc.disable()
    try:
        del sim
        assert gone() is None
    finally:
        gc.enable()
