"""Joints given by a black box: as the joints of the library, along curves, at limits; and what is refused."""

from __future__ import annotations

import math

import numba
import numpy as np
import pytest

import limberjack as lj
from limberjack.model.joints import KINDS
from limberjack.model.registered import CONSTRAINT_KINDS

DT = 1.0 / 240.0
ACROSS = (math.sqrt(0.5), -math.sqrt(0.5), 0.0, 0.0)  # turns z to y


def hinge(x, q):
    """Turn about z only."""
    size = math.sqrt(q[0] * q[0] + q[3] * q[3])
    return (0.0, 0.0, 0.0), (q[0] / size, 0.0, 0.0, q[3] / size)


def stopped(x, q, data):
    """Turn about z only, between two angles."""
    angle = 2.0 * math.atan2(q[3], q[0])
    angle = angle - 2.0 * math.pi * round(angle / (2.0 * math.pi))
    angle = min(max(angle, data[0]), data[1])
    return (0.0, 0.0, 0.0), (math.cos(0.5 * angle), 0.0, 0.0, math.sin(0.5 * angle))


def ring(x, q):
    """Keep a point on the unit circle about y, turned freely."""
    size = math.hypot(x[0], x[2])
    return (x[0] / size, 0.0, x[2] / size), q


def tray(x, q):
    """Slide on a square, upright."""
    return (min(max(x[0], -0.5), 0.5), min(max(x[1], -0.5), 0.5), 0.0), (1.0, 0.0, 0.0, 0.0)


def failing(x, q):
    """Work near the start and nowhere else."""
    if FAILS[0] and q[3] > 0.05:
        raise RuntimeError("out of reach")
    return hinge(x, q)


FAILS = [False]
TURNS_AND_MOVES = np.delete(np.eye(6), 2, axis=0)


@pytest.fixture(autouse=True, scope="module")
def boxes():
    """Register the black boxes of these tests, and forget them."""
    lj.register_joint("python", hinge)
    lj.register_joint("compiled", numba.njit(hinge))
    lj.register_joint("given", numba.njit(hinge), locked=TURNS_AND_MOVES)
    lj.register_joint("stopped", numba.njit(stopped))
    lj.register_joint("ring", numba.njit(ring))
    lj.register_joint("tray", tray)
    lj.register_joint("failing", failing)
    yield
    for name in [name for name, kind in CONSTRAINT_KINDS.items() if kind.project]:
        del CONSTRAINT_KINDS[name], KINDS[name]


def arm(kind, *, links=2, data=(), **hinge):
    """Return rods on joints about y, hung from the world; kind "" = hinges of the library."""
    builder, above = lj.Builder("arm"), "world"
    for k in range(links):
        name, place = f"rod{k}", {"rotation": ACROSS, "rotation_in_child": ACROSS}
        place |= {} if k == 0 else {"position": (0.5, 0.0, 0.0)}
        start = {"position": (0.5 * k, 0.0, 0.0)} if kind else {}
        builder.add_body(name, mass=1.0, com=(0.25, 0.0, 0.0), inertia=(0.001, 0.021, 0.021), **start)
        if kind:
            builder.add_constraint(kind, f"h{k}", above, name, data=data, **place)
        else:
            builder.add_joint_hinge(f"h{k}", above, name, **place, **hinge)
        above = name
    return builder.build()


@pytest.mark.parametrize("joints", ["global", "sweeps", "damped"])
@pytest.mark.parametrize("kind", ["python", "compiled", "given"])
def test_a_black_box_hinge_is_a_hinge(kind, joints):
    """Rods on black boxes that let them turn about an axis swing as on hinges, in every way to give and solve them."""
    sims = [lj.Simulation(arm(one), lj.Impulses(joints=joints), dt=DT) for one in ("", kind)]
    for sim in sims:
        sim.step(60)
    assert np.abs(sims[0].positions - sims[1].positions).max() < 1e-6
    assert np.abs(sims[0].velocities - sims[1].velocities)[:, :3].max() < 1e-5
    assert max(sims[1].joint_error()) < 1e-6 and sims[1].positions[1, 2] < -0.3


@pytest.mark.parametrize("joints", ["global", "sweeps"])
def test_limits_of_a_black_box_stop_it(joints):
    """A rod swings freely up to the limit that its box clamps to, stays there, and leaves it when thrown back."""
    model = arm("stopped", links=1, data=(-0.3, 0.3))
    assert [name for name in model.joint_names if ":" in name] == ["h0:limits"]
    free = lj.Simulation(arm("", links=1), lj.Impulses(joints=joints), dt=DT)
    sim = lj.Simulation(model, lj.Impulses(joints=joints, sleeping=False), dt=DT)
    sim.step(30)
    free.step(30)
    angle = lambda: 2.0 * math.atan2(sim.rotations[0, 2], sim.rotations[0, 0])  # noqa: E731
    assert 0.1 < angle() < 0.29 and np.abs(sim.rotations - free.rotations).max() < 1e-6
    for _ in range(30):
        sim.step(4)
        assert angle() < 0.3 + 1e-6
    assert angle() == pytest.approx(0.3, abs=1e-6) and np.abs(sim.velocities).max() < 1e-6
    sim.qd = [0, 0, 0, 0, -4.0, 0]
    sim.step(10)
    assert angle() < 0.2


def test_a_bead_runs_along_a_curve():
    """A bead on a circle, whose locked directions turn with it, swings as a pendulum of that length, energy kept."""
    builder = lj.Builder("bead")
    builder.add_body("bead", mass=1.0, inertia=(0.1, 0.2, 0.3), position=(1.0, 0.0, 0.0))
    builder.add_constraint("ring", "on", "world", "bead")
    sim = lj.Simulation(builder.build(), "impulses", dt=1e-3)
    energy = sim.energy().total
    sim.step(1500)
    # the pendulum by many small steps
    angle, speed, h = 0.5 * math.pi, 0.0, 1e-5
    for _ in range(150_000):
        speed -= h * 9.81 * math.sin(angle)
        angle += h * speed
    x, y, z = sim.positions[0]
    assert math.hypot(x, z) == pytest.approx(1.0, abs=1e-7) and abs(y) < 1e-9
    assert math.hypot(x - math.sin(angle), z + math.cos(angle)) < 5e-3
    assert sim.energy().total == pytest.approx(energy, abs=0.05)


def test_a_tray_has_corners():
    """A plate thrown into the corner of the square that its box clamps to stays in it."""
    builder = lj.Builder("plate")
    builder.add_body("plate", mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_constraint("tray", "on", "world", "plate")
    sim = lj.Simulation(builder.build(), "impulses", dt=DT, qd=[2.0, 3.0, 0, 0, 0, 0])
    for _ in range(12):
        sim.step(10)
        assert np.abs(sim.positions[0, :2]).max() < 0.5 + 1e-6 and abs(sim.positions[0, 2]) < 1e-7
    np.testing.assert_allclose(sim.positions[0, :2], 0.5, atol=1e-6)


def test_files_keep_black_boxes(tmp_path):
    """A model with black boxes is read back with its joints and limits as they were."""
    model = arm("stopped", data=(-0.3, 0.4))
    lj.save(model, tmp_path / "arm.json")
    again = lj.load(tmp_path / "arm.json")
    assert again.joint_names == model.joint_names
    sims = [lj.Simulation(one, "impulses", dt=DT) for one in (model, again)]
    for sim in sims:
        sim.step(20)
    assert sims[0].state_hash() == sims[1].state_hash()


def test_snapshots_are_exact():
    """The directions found at a step depend on the poses alone: a restored simulation goes on bit for bit."""
    sim = lj.Simulation(arm("stopped", data=(-0.3, 0.4)), "impulses", dt=DT)
    sim.step(25)
    before = sim.snapshot()
    sim.step(30)
    there = sim.state_hash()
    sim.restore(before)
    sim.step(30)
    assert sim.state_hash() == there


def test_a_box_that_raises_is_named():
    """What a Python box raises within a step comes out of that step, with the kind's name; the state is a good one."""
    sim = lj.Simulation(arm("failing", links=1), "impulses", dt=DT)
    FAILS[0] = True
    with pytest.raises(lj.StateError, match='joint kind "failing" raised RuntimeError'):
        sim.step(240)
    FAILS[0] = False
    assert np.isfinite(sim.q).all()
    sim.step(10)


def test_what_is_no_projection_is_refused():
    """Boxes that move what they return, hold nothing, return other things or fail are refused with their names."""
    boxes = {
        "restless": (lambda x, q: ((0.5 * x[0], 0.0, 0.0), q), "moves the state it returned"),
        "idle": (lambda x, q: (x, q), "constrains nothing"),
        "short": (lambda x, q: ((0.0, 0.0), q), "must return"),
        "broken": (lambda x, q: 1 / 0, "failed at"),
    }
    for name, (project, words) in boxes.items():
        lj.register_joint(name, project)
        with pytest.raises(lj.ModelError, match=f'"{name}" {words}'):
            arm(name)
    with pytest.raises(lj.ModelError, match="exists already"):
        lj.register_joint("python", hinge)
    with pytest.raises(lj.ModelError, match="1 to 6 directions"):
        lj.register_joint("flat", hinge, locked=[(1.0, 0.0, 0.0)])
    with pytest.raises(lj.ModelError, match="depend on each other"):
        lj.register_joint("double", hinge, locked=np.ones((2, 6)))
    for method in ("full", "multipliers", "displacements", "adaptive"):
        with pytest.raises(lj.UnsupportedByMethod, match='"h0".*: impulses$'):
            lj.Simulation(arm("python"), method)
