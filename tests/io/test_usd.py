"""USD, opened again by Pixar's own library: units, times, transforms and meshes."""

from __future__ import annotations

import numpy as np
import pytest
from pxr import Usd, UsdGeom

import limberjack as lj


@pytest.fixture(scope="module")
def motion():
    """Return a short motion of figures on a ground, with names that USD does not allow."""
    b = lj.Builder("two bars")
    for name, parent in (("1st bar", "world"), ("2nd-bar", "1st bar")):
        b.add_body(name, mass=1.0, com=(0, 0, -0.5), inertia=(0.1, 0.1, 0.01))
        b.add_joint_hinge(f"{name}:joint", parent, name, axis=(0, 1, 0), position=(0, 0, -1.0), start=0.5)
        b.add_shape_capsule(name, 0.05, 0.9, position=(0, 0, -0.5), color=(1, 0, 0))
    b.add_spring("world", "2nd-bar", stiffness=3.0)
    b.add_shape_plane(position=(0, 0, -4))
    return lj.Simulation(b.build(), "full", dt=1 / 240).run(0.5)


@pytest.mark.parametrize("suffix", [".usd", ".usda", ".usdc"])
def test_a_stage_opens_with_the_motion(suffix, motion, tmp_path):
    """Metres, z up, a frame per time code; every body is where it was, at every time."""
    stage = Usd.Stage.Open(str(motion.save(tmp_path / f"bars{suffix}")))
    assert UsdGeom.GetStageUpAxis(stage) == "Z" and UsdGeom.GetStageMetersPerUnit(stage) == 1.0
    rate = stage.GetTimeCodesPerSecond()
    assert rate == stage.GetFramesPerSecond() == 60.0
    assert stage.GetEndTimeCode() / rate == pytest.approx(motion.times[-1])
    assert stage.GetDefaultPrim().GetPath() == "/two_bars"
    for i, name in enumerate(("_1st_bar", "_2nd_bar")):
        prim = UsdGeom.Xformable(stage.GetPrimAtPath(f"/two_bars/{name}"))
        for k in (0, 7, len(motion) - 1):
            matrix = np.array(prim.ComputeLocalToWorldTransform(rate * motion.times[k])).T
            np.testing.assert_allclose(matrix[:3, 3], motion.positions[k, i], atol=1e-12)
            w, x, y, z = motion.rotations[k, i]
            first = 1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)
            np.testing.assert_allclose(matrix[:3, 0], first, atol=1e-12)
        between = prim.ComputeLocalToWorldTransform(
            rate * 0.5 * (motion.times[3] + motion.times[4])
        ).ExtractTranslation()
        np.testing.assert_allclose(between, 0.5 * (motion.positions[3, i] + motion.positions[4, i]), atol=1e-6)


def test_meshes_are_in_metres_and_coloured(motion, tmp_path):
    """Each capsule is a mesh of its size and colour under its body; spring and ground are there."""
    stage = Usd.Stage.Open(str(motion.save(tmp_path / "bars.usda")))
    mesh = UsdGeom.Mesh(stage.GetPrimAtPath("/two_bars/_1st_bar/part/mesh"))
    matrix = np.array(UsdGeom.Xformable(stage.GetPrimAtPath("/two_bars/_1st_bar/part")).GetLocalTransformation())
    points = np.array(mesh.GetPointsAttr().Get()) @ matrix[:3, :3] + matrix[3, :3]
    np.testing.assert_allclose(np.ptp(points, axis=0), (0.1, 0.1, 1.0), rtol=0.02)
    np.testing.assert_allclose(points.mean(axis=0), (0, 0, -0.5), atol=0.01)
    meshes = [UsdGeom.Mesh(prim) for prim in stage.Traverse() if prim.IsA(UsdGeom.Mesh)]
    red = [mesh for mesh in meshes if np.allclose(mesh.GetDisplayColorAttr().Get()[0], (1, 0, 0))]
    assert len(red) >= 2
    paths = {str(prim.GetPath()) for prim in stage.Traverse()}
    assert {"/two_bars/string", "/two_bars/ground"} <= paths
    assert all(mesh.GetSubdivisionSchemeAttr().Get() == "none" for mesh in meshes)


def test_a_model_is_a_still(tmp_path):
    """One frame gives a stage without time samples."""
    model = lj.scenes.double_pendulum()
    lj.Trajectory(model, [0.0], model.q0[None], model.qd0[None]).save(tmp_path / "still.usda")
    assert "timeSamples" not in (tmp_path / "still.usda").read_text()
