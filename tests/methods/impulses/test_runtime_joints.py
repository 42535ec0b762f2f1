"""Joints made and let go while running, by hand and by rules."""

from __future__ import annotations

import json

import numpy as np
import pytest

import limberjack as lj

DT = 1.0 / 240.0


def rods(count=3, *, gravity=(0.0, 0.0, -9.81), shapes=False):
    """Return rods along x, end to end, in the air, with a point at each end."""
    builder = lj.Builder("rods", gravity=gravity)
    for k in range(count):
        name = f"rod{k}"
        builder.add_body(name, mass=1.0, inertia=(0.002, 0.021, 0.021), position=(0.5 * k, 0.0, 2.0))
        builder.add_point(f"left{k}", name, (-0.25, 0.0, 0.0))
        builder.add_point(f"right{k}", name, (0.25, 0.0, 0.0))
        if shapes:
            builder.add_shape_box(name, (0.5, 0.1, 0.1))
    return builder


@pytest.mark.parametrize(
    ("kind", "free"),
    [("fixed", 0), ("hinge", 1), ("ball", 3), ("slide", 1), ("universal", 2), ("cylindrical", 2), ("planar", 3),
     ("point_on_line", 4), ("point_on_plane", 5)],
)  # fmt: skip
def test_an_attached_joint_is_the_joint_of_a_model(kind, free):
    """Two bodies attached while running move as a model built with that joint does, in another method."""
    built = rods(1)
    built.add_body("other", mass=0.5, com=(0.1, 0.0, 0.0), inertia=(0.01, 0.02, 0.03))
    axes = {"axis": (1.0, 0.0, 0.0), "axis2": (0.0, 1.0, 0.0)} if kind == "universal" else {}
    built.add_joint(kind, "joint", "rod0", "other", position=(0.25, 0.0, 0.0), **axes)
    loose = rods(1)
    loose.add_body("other", mass=0.5, com=(0.1, 0.0, 0.0), inertia=(0.01, 0.02, 0.03), position=(0.25, 0.0, 2.0))
    sim = lj.Simulation(loose.build(), "impulses", dt=1e-3)
    joint = sim.attach("rod0", "other", kind, point=(0.25, 0.0, 2.0))
    assert joint.held and sim.stats["rows"] == 6 - free
    exact = lj.Simulation(built.build(), lj.Full(integrator="rk4"), dt=1e-3)
    for each in (sim, exact):
        each.apply_wrench("other", force=(0.3, 2.0, 1.0), torque=(0.1, 0.2, -0.1))
        each.step(200)
    assert np.abs(sim.positions - exact.positions).max() < 2e-3
    assert max(sim.joint_error()) < 1e-7


def test_momentum_is_kept():
    """Making a joint between moving bodies, drawing its ends together and letting go keeps momentum."""
    sim = lj.Simulation(rods(2, gravity=(0.0, 0.0, 0.0)).build(), "impulses", dt=DT)
    sim.qd = np.random.default_rng(3).normal(size=sim.model.nv)
    before = sim.momentum()
    joint = sim.attach("rod0", "rod1", "ball", at_a=(0.25, 0.0, 0.0), at_b=(-0.1, 0.1, 0.0))
    sim.step(60)
    assert sim.joint_error().metres < 1e-7
    joint.release()
    sim.step(60)
    after = sim.momentum()
    assert np.abs(after.linear - before.linear).max() < 1e-6
    assert np.abs(after.angular - before.angular).max() < 1e-5


def test_a_gap_closes_evenly():
    """Points 10 cm apart come together at the pace asked for: half after half the time, and then stay."""
    sim = lj.Simulation(rods(2, gravity=(0.0, 0.0, 0.0)).build(), "impulses", dt=DT)
    sim.attach("rod0", "rod1", "ball", at_a=(0.25, 0.0, 0.0), at_b=(-0.15, 0.0, 0.0), over=0.5)

    def gap():
        ends = [sim.positions[0] + [0.25, 0.0, 0.0], sim.positions[1] + [-0.15, 0.0, 0.0]]
        return float(np.linalg.norm(ends[1] - ends[0]))

    sim.step(60)
    assert gap() == pytest.approx(0.05, abs=1e-6)
    sim.step(61)
    assert gap() < 1e-7
    sim.step(60)
    assert gap() < 1e-7


def test_a_rod_keeps_its_length():
    """A distance joint keeps the length it was made at, or draws its ends to the one asked for."""
    for length in (None, 0.4):
        sim = lj.Simulation(rods(1).build(), "impulses", dt=DT)
        sim.attach("world", "rod0", "distance", at_a=(0.0, 0.0, 2.5), at_b=(0.0, 0.0, 0.0), length=length)
        sim.step(60)
        reach = np.linalg.norm(sim.positions[0] - [0.0, 0.0, 2.5])
        assert reach == pytest.approx(length or 0.5, abs=1e-7)
    with pytest.raises(lj.StateError, match="distance"):
        sim.attach("world", "rod0", "ball", length=1.0)


def test_a_hung_body_falls_when_let_go():
    """A body attached to the world hangs; let go it falls freely; both exact in a snapshot and in a file."""
    sim = lj.Simulation(rods(1).build(), "impulses", dt=DT)
    joint = sim.attach("world", "rod0", "hinge", axis=(0, 1, 0), point=(-0.25, 0.0, 2.0))
    sim.step(30)
    assert sim.joint_error().metres < 1e-8
    sim.detach(joint)
    high, fall = sim.positions[0, 2], sim.velocities[0, 5]
    sim.step(24)
    assert sim.positions[0, 2] == pytest.approx(high + 0.1 * fall - 0.5 * 9.81 * 0.01, abs=1e-6)
    joint.release()  # nothing happens a second time


def test_snapshots_and_files_are_exact(tmp_path):
    """Runs restored and resumed from where joints were half made go on bit for bit, rules included."""
    sim = lj.Simulation(rods(3).build(), "impulses", dt=DT)
    rule = lj.Proximity(points=("left2",), others=("right1",), distance=0.05, over=0.3)
    before = sim.snapshot()
    sim.add_rule(rule)
    sim.attach("rod0", "rod1", "screw", pitch=0.1, axis=(1, 0, 0), at_a=(0.25, 0, 0), at_b=(-0.2, 0, 0.01), name="s")
    sim.step(30)
    assert len(sim.attached) == 2
    kept, path = sim.snapshot(), sim.save(tmp_path / "half.npz")
    sim.step(90)
    end = sim.state_hash()
    again = lj.resume(path)
    assert again.attached == sim.attached and again.rules == (rule,)
    again.step(90)
    assert again.state_hash() == end
    sim.restore(before)
    assert sim.attached == () and sim.rules == ()
    sim.restore(kept)
    for _ in range(90):
        sim.step(1)  # in other chunks
    assert sim.state_hash() == end
    fresh = lj.Simulation(rods(3).build(), "impulses", dt=DT)
    fresh.restore(kept)
    fresh.step(90)
    assert fresh.state_hash() == end


def test_a_joint_is_restored_where_bodies_never_were():
    """A simulation that has taken no step goes on from a snapshot whose attached bodies are far from its own."""
    sims = [lj.Simulation(rods(1).build(), "impulses", dt=DT) for _ in range(2)]
    sims[0].step(60)
    sims[0].attach("world", "rod0", "fixed")
    sims[1].restore(sims[0].snapshot())
    for sim in sims:
        sim.step(20)
    assert sims[1].joint_error().metres < 1e-9 and sims[1].state_hash() == sims[0].state_hash()


def test_only_the_bodies_concerned_wake():
    """Attaching and letting go wakes the islands of the two bodies and no others."""
    builder = lj.Builder("boxes")
    builder.add_shape_plane("world")
    for k in range(3):
        builder.add_body(f"box{k}", mass=1.0, inertia=(0.01,) * 3, position=(k, 0.0, 0.1))
        builder.add_shape_box(f"box{k}", (0.2, 0.2, 0.2))
    sim = lj.Simulation(builder.build(), "impulses", dt=DT)
    sim.step(400)
    assert sim.stats["asleep"] == 3
    joint = sim.attach("box0", "box1")
    sim.step(1)
    assert sim.stats["asleep"] == 1
    sim.step(400)
    assert sim.stats["asleep"] == 3
    sim.detach(joint)
    sim.step(1)
    assert sim.stats["asleep"] == 1


@pytest.mark.parametrize("collide", [False, True])
def test_attached_bodies_collide_only_when_told(collide):
    """A rod hinged inside another falls through it, unless their collisions are asked for."""
    builder = rods(2, shapes=True)
    sim = lj.Simulation(builder.build(), "impulses", dt=DT)
    sim.attach("world", "rod0")
    sim.attach("rod0", "rod1", "hinge", point=(0.2, 0.0, 2.2), axis=(0, 1, 0), collide=collide)
    sim.step(120)
    assert bool(sim.contacts()) == collide


def test_a_rule_joins_and_waits():
    """Points that come together are joined; released by hand, they are joined again only after they were apart."""
    sim = lj.Simulation(rods(2, gravity=(0.0, 0.0, 0.0)).build(), "impulses", dt=DT)
    sim.qd = [0.0] * 6 + [0.5, 0.0, 0.0, 0.0, 0.0, 0.0]
    sim.add_rule(lj.Proximity(points=("left1",), others=("right0",), distance=0.03, every=1))
    sim.step(1)
    assert len(sim.attached) == 1
    sim.detach(sim.attached[0])
    sim.qd = [0.0] * 6 + [0.1, 0.0, 0.0, 0.0, 0.0, 0.0]
    sim.step(24)
    assert not sim.attached  # 1 cm apart: still near
    sim.step(72)
    sim.qd = [0.0] * 6 + [-0.5, 0.0, 0.0, 0.0, 0.0, 0.0]
    sim.step(24)
    assert len(sim.attached) == 1
    sim.remove_rule(sim.rules[0])
    assert not sim.attached


def test_neighbours_of_free_links_are_let_go():
    """In a row of points only those whose neighbours are near as well are joined; in a ring the ends are neighbours."""
    builder = lj.Builder("row", gravity=(0, 0, 0))
    names = [f"p{k}" for k in range(6)]
    for k, name in enumerate(names):
        builder.add_body(f"b{k}", mass=1.0, inertia=(0.1,) * 3, position=(0.0, k, 0.0 if k < 4 else 9.0))
        builder.add_point(name, f"b{k}", (0.0, 0.0, 0.0))
    builder.add_point("post", "world", (0.0, 2.0, 0.0))
    for neighbours, count in (("free", 4), ("chain", 3), ("loop", 2)):
        sim = lj.Simulation(builder.build(), "impulses", dt=DT)
        sim.add_rule(
            lj.Proximity(points=names, others=("post",), distance=3.0, kind="fixed", snap=False, neighbours=neighbours)
        )
        sim.step(1)
        assert len(sim.attached) == count


def test_errors_name_the_choices():
    """Whatever cannot be attached is refused by name."""
    model = rods(2).build()
    with pytest.raises(lj.UnsupportedByMethod, match="impulses"):
        lj.Simulation(model, "divide_and_conquer").attach("rod0", "rod1")
    sim = lj.Simulation(model, "impulses")
    with pytest.raises(lj.UnknownName, match="hinge"):
        sim.attach("rod0", "rod1", "glue")
    with pytest.raises(lj.UnknownName, match="rod0"):
        sim.attach("rod0", "rod7")
    with pytest.raises(lj.StateError, match="as one"):
        sim.attach("rod0", "rod0")
    with pytest.raises(lj.StateError, match="not both"):
        sim.attach("rod0", "rod1", point=(0, 0, 0), at_a=(0, 0, 0))
    sim.attach("rod0", "rod1", name="mine")
    with pytest.raises(lj.StateError, match="mine"):
        sim.attach("rod0", "rod1", name="mine")
    with pytest.raises(lj.UnknownName, match="mine"):
        sim.detach("yours")
    with pytest.raises(lj.LoopNotClosed, match="mine"):
        sim.q = np.array(sim.q) + np.eye(14)[0]
    with pytest.raises(lj.UnknownName, match="left0"):
        sim.add_rule(lj.Proximity(points=("nose",), others=("left0",), distance=0.1))
    with pytest.raises(lj.LimberjackError, match="distance"):
        lj.Proximity(points=("left0",), others=("left1",), distance=-1.0)


def test_a_damaged_list_is_refused():
    """A snapshot whose list of joints names a body that is not there is refused with a typed error."""
    sim = lj.Simulation(rods(2).build(), "impulses", dt=DT)
    sim.attach("rod0", "rod1")
    snapshot = sim.snapshot()
    told = json.loads(snapshot.arrays["method.list_attached"].tobytes())
    told["joints"][0]["bodies"][0] = "nobody"
    snapshot.arrays["method.list_attached"] = np.frombuffer(json.dumps(told).encode(), np.uint8)
    with pytest.raises(lj.LimberjackError):
        sim.restore(snapshot)
