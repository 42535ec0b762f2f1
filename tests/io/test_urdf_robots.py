"""The URDF reader on the robots of example-robot-data, against yourdfpy and Pinocchio."""

from __future__ import annotations

import functools
import importlib.metadata
import logging
import warnings
from pathlib import Path

import numpy as np
import pinocchio
import pytest
import yourdfpy

from limberjack.errors import FileError, ModelWarning
from limberjack.io import load, urdf
from limberjack.model.spec import WORLD
from limberjack.spatial.frames import compose, matrix_from_quaternion

_FILES = importlib.metadata.files("example-robot-data") or []
ROBOTS = {
    "/".join(Path(file).parts[-3:]): Path(str(file.locate())).resolve()
    for file in _FILES
    if str(file).endswith(".urdf")
}
# The file holds an empty robot.
EMPTY = {"ur_description/urdf/ur3.urdf"}
KINDS = {"revolute": "hinge", "continuous": "hinge", "prismatic": "slide", "fixed": "fixed"}


@functools.cache
def model_of(name, base="fixed"):
    """Return the model without its meshes, and the texts of its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = urdf.read(ROBOTS[name], base=base, meshes=False)
    assert all(issubclass(one.category, ModelWarning) for one in caught)
    return model, [str(one.message) for one in caught]


@functools.cache
def oracle(name):
    """Return what yourdfpy reads."""
    logging.getLogger("yourdfpy").setLevel(logging.CRITICAL)
    options = dict.fromkeys(("build_scene_graph", "load_meshes", "build_collision_scene_graph"), False)
    return yourdfpy.URDF.load(str(ROBOTS[name]), **options).robot


def mended(texts):
    """Return the links whose mass or inertia was mended."""
    return {text.split('"')[1] for text in texts if 'link "' in text}


def test_all_robots_are_there():
    """The data set is installed, and all but the empty file load."""
    assert len(ROBOTS) >= 69
    for name in EMPTY:
        with pytest.raises(FileError, match="no link") as caught:
            load(ROBOTS[name])
        assert caught.value.line == 6


@pytest.mark.parametrize("name", sorted(set(ROBOTS) - EMPTY))
def test_links_agree_with_yourdfpy(name):
    """Every link is a body with the file's mass, com and inertia, unless a warning says otherwise."""
    model, texts = model_of(name)
    links = {one.name: one for one in oracle(name).links if one.name != WORLD}
    assert set(model.body_names) == set(links)
    for text in texts:
        assert text.startswith(str(ROBOTS[name])) and Path(text.split(".urdf")[0] + ".urdf").is_file()
    for link in links.values():
        body = model.body(link.name)
        if link.name in mended(texts):
            continue
        inertial = link.inertial
        assert body.mass == (inertial.mass if inertial else 0.0)
        if body.mass == 0.0:
            continue
        frame = np.eye(4) if inertial.origin is None else inertial.origin
        turned = frame[:3, :3] @ inertial.inertia @ frame[:3, :3].T
        np.testing.assert_allclose(body.com, frame[:3, 3], atol=1e-12)
        np.testing.assert_allclose(body.inertia, turned, rtol=1e-9, atol=1e-12 * max(np.abs(turned).max(), 1e-3))


@pytest.mark.parametrize("name", sorted(set(ROBOTS) - EMPTY))
def test_joints_agree_with_yourdfpy(name):
    """Every joint has the file's kind, bodies, frame, axis, limits, damping and friction."""
    model, texts = model_of(name)
    joints = oracle(name).joints
    mimics = [one for one in joints if one.mimic is not None and f"{one.name}:mimic" in model.joint_names]
    grounded = WORLD not in {one.name for one in oracle(name).links}
    assert model.joint_count == len(joints) + len(mimics) + grounded
    unlimited = {text.split('"')[1] for text in texts if "without limits" in text}
    for one in joints:
        info, spec = model.joint(one.name), model.joint_spec(one.name)
        assert (info.kind, info.parent, info.child) == (KINDS[one.type], one.parent, one.child)
        frame = np.eye(4) if one.origin is None else one.origin
        np.testing.assert_allclose(spec.position, frame[:3, 3], atol=1e-14)
        np.testing.assert_allclose(matrix_from_quaternion(np.array(spec.rotation)), frame[:3, :3], atol=1e-12)
        if one.type == "fixed":
            continue
        np.testing.assert_allclose(spec.axis, one.axis / np.linalg.norm(one.axis), atol=1e-14)
        if one.type == "continuous" or one.name in unlimited:
            assert spec.limits in (None, (None,))
        else:
            assert spec.limits == ((one.limit.lower, one.limit.upper),)
        for key in ("damping", "friction"):
            # yourdfpy keeps these as text.
            wanted = float((getattr(one.dynamics, key) if one.dynamics else None) or 0.0)
            assert (getattr(spec, key) or (0.0,)) == (wanted,)
    for one in mimics:
        gear = model.joint_spec(f"{one.name}:mimic")
        assert (gear.parent, gear.child) == (one.name, one.mimic.joint)
        assert gear.ratio == (1.0 if one.mimic.multiplier is None else one.mimic.multiplier)


@pytest.mark.parametrize("name", sorted(set(ROBOTS) - EMPTY))
def test_whole_agrees_with_pinocchio(name):
    """Freedoms, limits, total mass and the com at zero of the floating robot match Pinocchio's."""
    model, texts = model_of(name, "free")
    peer = pinocchio.buildModelFromUrdf(str(ROBOTS[name]), pinocchio.JointModelFreeFlyer())
    assert model.nv == peer.nv
    for i in range(2, peer.njoints):
        lower, upper = (x[peer.joints[i].idx_q] for x in (peer.lowerPositionLimit, peer.upperPositionLimit))
        limits = model.joint_spec(peer.names[i]).limits
        if peer.joints[i].nq == 1 and limits and limits[0]:
            assert limits[0] == (lower, upper)
    if any("no mass, nor" in text for text in texts):
        return
    frames, total, first = {WORLD: (np.eye(3), np.zeros(3))}, 0.0, np.zeros(3)
    for body in model.body_names:
        info = model.body(body)
        spec = model.joint_spec(info.joint)
        if spec.kind == "free":
            # The floating part stands at its start pose.
            start = model.q0[model.joint(info.joint).q]
            step = matrix_from_quaternion(start[3:]), start[:3]
        else:
            step = matrix_from_quaternion(np.array(spec.rotation)), np.array(spec.position)
        frames[body] = compose(*frames[info.parent], *step)
        total += info.mass
        first += info.mass * (frames[body][0] @ info.com + frames[body][1])
    assert total == pytest.approx(pinocchio.computeTotalMass(peer), rel=1e-12, abs=1e-15)
    if total > 0:
        com = pinocchio.centerOfMass(peer, peer.createData(), pinocchio.neutral(peer))
        np.testing.assert_allclose(first / total, com, atol=1e-9)


@pytest.mark.parametrize(
    "name",
    [
        "solo_description/robots/solo12.urdf",
        "panda_description/urdf/panda.urdf",
        "anymal_b_simple_description/robots/anymal.urdf",
        "ur_description/urdf/ur5_robot.urdf",
    ],
)
def test_meshes_are_found_and_load(name):
    """Meshes in STL, OBJ and COLLADA behind package:// references load without a warning about them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = load(ROBOTS[name])
    assert not [one for one in caught if "mesh" in str(one.message)]
    assert len(model.shapes) == len([x for link in oracle(name).links for x in (*link.visuals, *link.collisions)])
    for shape in model.shapes:
        if shape.kind == "mesh":
            assert np.abs(shape.vertices).max() < 3.0 and len(shape.faces) > 3


def test_meshes_that_are_missing_are_named():
    """A robot whose meshes point into another machine loads without them, each named."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = load(ROBOTS["romeo_description/urdf/romeo_laas_small.urdf"])
    assert len([one for one in caught if "is not found" in str(one.message)]) == 20
    assert model.nv == 33


def test_how_many_need_repair():
    """Reading strictly refuses the robots with faults, each by file and line, and loads the others."""
    refused = []
    for name in sorted(set(ROBOTS) - EMPTY):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                urdf.read(ROBOTS[name], repair=False, meshes=False)
            except FileError as error:
                assert error.line is not None
                refused.append(name)
    assert 15 <= len(refused) <= 25
    assert "allegro_hand_description/urdf/allegro_left_hand.urdf" in refused
    assert "talos_data/robots/talos_full_v2.urdf" not in refused
