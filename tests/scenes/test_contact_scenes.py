"""Scenes of things that touch do what they are there for: towers stand, dominoes fall, joints hold among contacts."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj
from limberjack.collision.detect import new_detector
from limberjack.collision.shapes import MESH
from limberjack.collision.surfaces import closed_surface
from limberjack.spatial.frames import matrix_from_quaternion

AWAKE = lj.Impulses(sleeping=False)


@pytest.mark.parametrize(
    "name,most", [("arch", 1e-3), ("card_house", 2e-4), ("kapla_tower", 1e-6), ("column", 1e-6)]
)  # fmt: skip
def test_what_stands_stands_still(name, most):
    """An arch, a house of cards, a tower and a column settle by less than a little and then do not move."""
    scene = lj.scenes.get(name)
    sim = lj.Simulation(scene.model, AWAKE, dt=scene.dt)
    start = sim.positions
    sim.step(round(1.0 / scene.dt))
    settled = sim.positions
    sim.step(round(2.0 / scene.dt))
    assert np.abs(settled - start).max() <= most
    assert np.abs(sim.positions - settled).max() <= 1e-6


def test_a_thin_arch_falls():
    """Below a ninth of its radius no thickness holds an arch up."""
    sim = lj.Simulation(lj.scenes.arch(thickness=0.06, friction=1.0), AWAKE, dt=1 / 240)
    start = sim.positions
    sim.step(480)
    assert np.abs(sim.positions - start).max() > 0.1


def test_dominoes_fall_one_after_the_other():
    """The push runs through the row: every domino ends lower than it stood, the last one falls last."""
    scene = lj.scenes.get("dominoes", count=10)
    sim = lj.Simulation(scene.model, AWAKE, dt=scene.dt)
    fallen = np.full(10, np.inf)
    for k in range(240):
        sim.step(2)
        down = sim.positions[:, 2] < 0.8 * 0.024
        fallen[down] = np.minimum(fallen[down], k)
    assert np.isfinite(fallen).all() and fallen[-1] == fallen.max() and fallen[0] == fallen.min()


def test_boxes_settle_at_any_step():
    """A pile of boxes comes to rest, looked at four times per frame as well as once."""
    for dt in (1 / 60, 1 / 240):
        sim = lj.Simulation(lj.scenes.box_pile(boxes=125), AWAKE, dt=dt)
        sim.step(round(6.0 / dt))
        assert np.abs(sim.qd).max() < 1e-4 and sim.stats["penetration"] < 1e-3


def test_letters_stay_on_the_door():
    """Letters slide down the door into a pile: none leaves its plane, none passes the ledge."""
    scene = lj.scenes.get("fridge_magnets", letters=30)
    sim = lj.Simulation(scene.model, scene.method, dt=scene.dt)
    high = sim.positions[:, 2].mean()
    sim.step(480)
    assert sim.joint_error().metres < 1e-9 and np.abs(sim.positions[:, 1]).max() < 1e-9
    assert 0.0 < sim.positions[:, 2].min() and sim.positions[:, 2].mean() < 0.8 * high


def test_the_bridge_is_the_papers():
    """102 bodies on 148 balls, which close 46 loops; 81 joined pairs of blocks; 60 closed chains of six meshes."""
    plain, blocks, chains = (lj.scenes.bridge(**more) for more in ({}, {"blocks": 81}, {"chains": 60}))
    assert plain.body_count == 102 and len(plain.loop_names) == 46
    assert blocks.body_count == 102 + 162 and len(blocks.loop_names) == 46
    assert chains.body_count == 102 + 360 and len(chains.loop_names) == 46 + 60
    meshes = [shape for shape in chains.shapes if shape.kind == "mesh"]
    assert len(meshes) == 360 and {len(shape.faces) for shape in meshes} == {1320}


@pytest.mark.parametrize("options", [{"blocks": 4}, {"chains": 2}])
def test_a_loaded_bridge_holds_together(options):
    """A bridge with blocks or chains falling on it swings with its joints closed, and nothing falls through."""
    scene = lj.scenes.get("bridge", planks=4, **options)
    sim = lj.Simulation(scene.model, scene.method, dt=scene.dt)
    start = sim.energy().total
    for _ in range(60):
        sim.step(4)
        assert sim.joint_error().metres < 1e-6
    assert np.abs(sim.velocities).max() < 100.0 and sim.energy().total < start
    for name in sim.model.body_names:
        if name.startswith(("block", "chain")):
            place = sim.body(name).position
            planks = np.array([sim.body(f"plank{k}").position for k in range(4)])
            assert place[2] > planks[np.argmin(np.abs(planks[:, 0] - place[0])), 2]


def test_rings_have_one_mesh_for_all_links():
    """2160 links on 2160 balls in 360 loops; collision keeps one surface and one grid of 1320 triangles for all."""
    model = lj.scenes.rings()
    balls = [name for name in model.joint_names if model.joint_spec(name).kind == "ball"]
    assert model.body_count == 2160 and len(balls) == 2160 and len(model.loop_names) == 360
    shapes = new_detector(model).shapes
    assert (shapes.kind == MESH).sum() == 2160 and set(shapes.mesh[shapes.kind == MESH]) == {0}
    assert len(shapes.meshes.grid_start) == 1
    plain = lj.scenes.rings(count=2, links="capsules")
    assert {shape.kind for shape in plain.shapes if shape.body != "world"} == {"capsule"}


def test_mesh_rings_fall_around_poles():
    """Two rings of meshes fall around a pole: it goes through both in the end, joints closed, little overlap."""
    scene = lj.scenes.get("rings", count=2, poles=1)
    sim = lj.Simulation(scene.model, lj.Impulses(sleeping=False), dt=1 / 240)
    sim.step(240)
    assert sim.joint_error().metres < 1e-6 and sim.stats["penetration"] < 5e-3
    for k in range(2):
        links = np.array([sim.body(f"ring{k}_{t}").position for t in range(6)])
        round_trip = links[[*range(6), 0]]
        turns = np.unwrap(np.arctan2(round_trip[:, 1], round_trip[:, 0]))
        assert abs(turns[-1] - turns[0]) == pytest.approx(2.0 * np.pi)
        assert links[:, 2].max() < 0.2


def test_letters_are_meshes_with_holes():
    """All letters are closed meshes that are not convex; A and R have one handle, B two, the others none."""
    model = lj.scenes.fridge_magnets(letters=10)
    handles = {}
    for which, name in zip("LIMBERJACK", model.body_names, strict=True):
        (shape,) = [shape for shape in model.shapes if shape.body == name]
        surface = closed_surface(shape.vertices, shape.faces, which)
        assert not surface.convex
        handles[which] = 1 - (len(surface.vertices) - len(surface.faces) // 2) // 2
    assert handles == dict.fromkeys("LIMEJCK", 0) | {"A": 1, "R": 1, "B": 2}


def test_joints_of_all_kinds_hold():
    """Bars on joints of each kind of figure 9 stay on them; the rigid joint holds a block 1000 times its bar."""
    sim = lj.Simulation(lj.scenes.joint_types(), "impulses", dt=1 / 240)
    for _ in range(48):
        sim.step(10)
        assert max(sim.joint_error()) < 1e-6
    heavy, bar = sim.body("heavy"), sim.body("bar_rigid")
    turn = matrix_from_quaternion(bar.rotation)
    assert heavy.position == pytest.approx(bar.position + turn @ [0.0, 0.0, -0.6], abs=1e-6)
    assert abs(abs(np.dot(heavy.rotation, bar.rotation)) - 1.0) < 1e-9
    x, _, z = sim.body("bar_slides2").position - np.array([1.5, 0.0, 1.5])
    assert max(abs(x), abs(z)) < 0.2501


@pytest.mark.slow
def test_a_net_catches_blocks():
    """Blocks fall into the net and stay in it, its joints closed."""
    scene = lj.scenes.get("net", cells=6, blocks=2)
    sim = lj.Simulation(scene.model, scene.method, dt=scene.dt)
    for _ in range(60):
        sim.step(4)
        assert sim.joint_error().metres < 1e-6
    blocks = sim.positions[-2:]
    assert blocks[:, 2].min() > sim.positions[:-2, 2].min() - 0.2
