"""The pile of skeletons: what a figure is made of, that its meshes are closed, and that it falls and stays whole."""

from __future__ import annotations

import warnings
from collections import Counter

import numpy as np
import pytest

import limberjack as lj


def test_a_figure_has_21_bones_on_19_joints_in_two_parts():
    """21 bones of meshes and 19 joints: two trees per figure, the loose head and the rest."""
    model = lj.scenes.skeletons(figures=2, triangles=1000)
    joints = [joint for joint in model.spec.joints if joint.kind != "free"]
    assert model.body_count == 42 and len(joints) == 38 and not model.loop_names
    above = {joint.child: joint.parent for joint in joints}
    roots = Counter(name for name in model.body_names if name not in above)
    assert set(roots) == {"pelvis0", "skull0", "pelvis1", "skull1"}
    assert {shape.kind for shape in model.shapes if shape.body != "world"} == {"mesh"}


@pytest.mark.parametrize("triangles", [1000, 50_000, 1_000_000])
def test_meshes_are_closed_and_as_fine_as_asked(triangles):
    """Every edge of every mesh is met by two faces the opposite way round, volumes are positive, counts within 10 %."""
    model = lj.scenes.skeletons(figures=1, triangles=triangles)
    meshes = {id(shape.faces): shape for shape in model.shapes if shape.kind == "mesh"}
    total = sum(len(shape.faces) for shape in model.shapes if shape.kind == "mesh")
    assert total == pytest.approx(triangles, rel=0.1)
    for shape in meshes.values():
        faces, points = np.asarray(shape.faces), np.asarray(shape.vertices)
        edges = np.vstack([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]).astype(np.int64)
        there, back = edges[:, 0] * len(points) + edges[:, 1], edges[:, 1] * len(points) + edges[:, 0]
        assert len(np.unique(there)) == len(there) and np.array_equal(np.sort(there), np.sort(back))
        a, b, c = (points[faces[:, k]] for k in range(3))
        assert np.einsum("ni,ni->n", a, np.cross(b, c)).sum() > 0.0


def test_too_many_triangles_are_refused():
    """More than a million triangles per figure are refused by name."""
    with pytest.raises(lj.ModelError, match="1000000"):
        lj.scenes.skeletons(triangles=2_000_000)


def test_a_skeleton_falls_and_stays_whole():
    """A figure that fell lies on the ground, its joints closed, its energy less; no mesh had to be repaired."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", lj.ModelWarning)
        sim = lj.Simulation(lj.scenes.skeletons(figures=1, triangles=1000), "impulses", dt=1 / 240)
    start = sim.energy().total
    sim.step(150)
    assert max(sim.joint_error()) < 1e-6
    assert sim.contacts() and sim.stats["penetration"] < 5e-3
    assert 0.0 < sim.positions[:, 2].min() and sim.positions[:, 2].max() < 0.4
    assert sim.energy().total < start
