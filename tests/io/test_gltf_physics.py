"""glTF with KHR_physics_rigid_bodies: what goes out comes back, and files of other programs are read by the words."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import limberjack as lj

PHYSICS = "KHR_physics_rigid_bodies"


def machine():
    """Return a model with every kind of joint, drive, limit and shape that the format can describe."""
    b = lj.Builder("machine", gravity=(0.5, 0, -9.0))
    placed = {"position": (0.1, 0.2, -0.3), "rotation": (0.8, 0.4, -0.2, 0.4), "position_in_child": (-0.2, 0.05, 0.1),
              "rotation_in_child": (0.5, -0.5, 0.1, 0.7)}  # fmt: skip

    def body(name):
        b.add_body(name, mass=1.3, com=(0.02, -0.03, 0.05), inertia=(0.03, 0.04, 0.05, 0.002, -0.001, 0.003))
        return name

    b.add_joint_hinge("hinge", "world", body("a"), axis=(0, 0.6, 0.8), start=0.4, damping=0.3, stiffness=2.0, rest=0.7,
                      limits=(-2, 2), **placed)  # fmt: skip
    b.add_joint_slide("slide", "a", body("b"), axis=(1, 0, 0), start=-0.2, limits=(-1, 0.5), limit_stiffness=100.0,
                      limit_damping=2.0,
                      motor=lj.Motor(kp=5, kd=1, target=0.2, velocity=0.1, max=9), **placed)  # fmt: skip
    b.add_joint_ball("ball", "b", body("c"), damping=(0.1, 0.2, 0.3), start=(0.9, 0.1, -0.3, 0.3), cone=1.0,
                     twist=(-0.5, 0.6), **placed)  # fmt: skip
    b.add_joint_universal("universal", "c", body("d"), axis=(0, 1, 0), axis2=(0, 0, 1), start=(0.3, -0.4),
                          damping=(0.1, 0.2), limits=[(-1, 1), None], **placed)  # fmt: skip
    b.add_joint_cylindrical("cylindrical", "a", body("e"), start=(0.1, 0.3), damping=(1.0, 2.0), **placed)
    b.add_joint_planar("planar", "world", body("f"), start=(0.1, 0.2, 0.3), damping=(1.0, 2.0, 3.0), **placed)
    b.add_joint_fixed("fixed", "f", body("g"), **placed)
    b.add_joint_point_on_line("line", "g", body("h"), damping=(1.0, 0.1, 0.2, 0.3), **placed)
    b.add_joint_point_on_plane("plane", "g", body("i"), **placed)
    b.add_joint_free(
        "flight", "world", body("j"), start=(1, 2, 3, 0.8, 0.4, -0.2, 0.4), start_velocity=(1, 2, 3, 4, 5, 6)
    )
    b.add_joint_distance("rope", "j", "i", length=9.0, rope=True, position=(0, 0.1, 0))
    b.add_body("lift", mass=1, inertia=(1, 1, 1), position=(0, 0, -3), kinematic=True)
    b.add_shape_plane(position=(0, 0, -9), friction=0.7)
    b.add_shape_capsule("a", 0.1, 0.4, rotation=(0.8, 0.4, -0.2, 0.4), position=(0, 0, 0.1), color=(1, 0, 0))
    b.add_shape_cylinder("b", 0.1, 0.4, restitution=0.4, group=2)
    b.add_shape_box("lift", (1, 2, 0.1))
    b.add_shape_sphere("d", 0.2, collide=False)
    b.add_shape_mesh("e", vertices=[(0, 0, 0), (0.5, 0, 0), (0, 0.5, 0), (0, 0, 0.5)],
                     faces=[(0, 2, 1), (0, 1, 3), (1, 2, 3), (0, 3, 2)], hull=True)  # fmt: skip
    return b.build()


@pytest.mark.parametrize("suffix", [".glb", ".gltf"])
def test_a_model_comes_back(suffix, tmp_path, rng):
    """A model written and read has the same names, start, forward dynamics, drives, limits and shapes."""
    model = machine()
    path = lj.save(model, tmp_path / f"machine{suffix}")
    read = lj.load(path)
    assert (read.name, read.body_names) == (model.name, model.body_names)
    assert {n: read.joint(n).kind for n in read.joint_names} == {n: model.joint(n).kind for n in model.joint_names}
    np.testing.assert_allclose(read.q0, model.q0, atol=1e-12)
    np.testing.assert_allclose(read.qd0, model.qd0, atol=1e-12)
    for _ in range(3):
        q, qd = lj.integrate(model, model.q0, 0.3 * rng.normal(size=model.nv)), rng.normal(size=model.nv)
        wanted = lj.forward_dynamics(model, q, qd)
        assert np.abs(lj.forward_dynamics(read, q, qd) - wanted).max() < 1e-9 * np.abs(wanted).max()
    np.testing.assert_allclose(read.arrays.limits, model.arrays.limits)
    for a, b in zip(model.arrays.drives, read.arrays.drives, strict=True):
        np.testing.assert_allclose(b, a)
    slide = read.joint_spec("slide")
    assert slide.motor == model.joint_spec("slide").motor and slide.limit_stiffness == (100.0,)
    assert (read.joint_spec("ball").cone, read.joint_spec("ball").twist) == (1.0, (-0.5, 0.6))
    assert (read.joint_spec("rope").length, read.joint_spec("rope").rope) == (9.0, True)
    for a, b in zip(
        model.shapes, sorted(read.shapes, key=lambda s: [x.name for x in model.shapes].index(s.name)), strict=True
    ):
        for word in ("name", "body", "kind", "friction", "restitution", "color", "collide", "group", "hull"):
            assert getattr(a, word) == getattr(b, word), (a.name, word)
        np.testing.assert_allclose(b.size, a.size, rtol=1e-12)
        np.testing.assert_allclose(b.position, a.position, atol=1e-12)
        assert abs(np.dot(a.rotation, b.rotation)) == pytest.approx(1.0, abs=1e-12)


def test_writing_again_changes_nothing(tmp_path):
    """What was read is written as the same joints and shapes: nothing accumulates."""
    first = lj.save(machine(), tmp_path / "first.gltf")
    second = lj.save(lj.load(first), tmp_path / "second.gltf")
    a, b = (json.loads(path.read_text()) for path in (first, second))
    assert len(a["nodes"]) == len(b["nodes"])
    assert {node.get("name") for node in a["nodes"]} == {node.get("name") for node in b["nodes"]}


def document(**changes):
    """Return a small file as another program writes it: a door on a hinge about y, a ball above, y up."""
    limits = [
        {"linearAxes": [0, 1, 2], "max": 0.0},
        {"angularAxes": [0, 2], "max": 0.0},
        {"angularAxes": [1], "min": -1.5, "max": 0.2},
    ]
    drive = {"type": "angular", "mode": "force", "axis": 1, "stiffness": 3.0, "damping": 0.5, "positionTarget": 0.1}
    joint, door = {"connectedNode": 2, "joint": 0}, {"motion": {"mass": 4.0}}
    out = {
        "asset": {"version": "2.0"},
        "extensionsUsed": [PHYSICS, "KHR_implicit_shapes"],
        "extensions": {
            "KHR_implicit_shapes": {"shapes": [{"type": "box", "box": {"size": [1, 2, 0.1]}},
                                               {"type": "sphere", "sphere": {"radius": 0.2}}]},
            PHYSICS: {
                "physicsMaterials": [{"staticFriction": 0.9, "dynamicFriction": 0.8, "restitution": 0.1}],
                "physicsJoints": [{"limits": limits, "drives": [drive]}],
            },
        },
        "nodes": [
            {"name": "frame", "translation": [0, 1, 0], "extensions": {PHYSICS: {"joint": joint}}},
            {"name": "door", "translation": [0.5, 1, 0], "children": [2, 3], "extensions": {PHYSICS: door}},
            {"name": "edge", "translation": [-0.5, 0, 0]},
            {"name": "board", "extensions": {PHYSICS: {"collider": {"geometry": {"shape": 0}, "physicsMaterial": 0}}}},
            {"name": "ball", "translation": [0, 5, 0], "extensions": {PHYSICS: {
                "motion": {"linearVelocity": [0, 0, 2]}, "collider": {"geometry": {"shape": 1}}}}},
        ],
    }  # fmt: skip
    return out | changes


def test_files_of_other_programs(tmp_path):
    """Limits in any order make a hinge about y, which is z here; masses come from shapes; gravity is the Earth's."""
    path = tmp_path / "door.gltf"
    path.write_text(json.dumps(document()))
    model = lj.load(path)
    assert model.body_names == ("door", "ball")
    hinge = model.joint("frame")
    assert (hinge.kind, hinge.parent, hinge.child) == ("hinge", "world", "door")
    np.testing.assert_allclose(model.arrays.limits[hinge.v][0], (-1.5, 0.2))
    spec = model.joint_spec("frame")
    assert (spec.stiffness, spec.damping, spec.rest) == ((3.0,), (0.5,), (0.1,))
    turned = lj.forward_kinematics(model, [0.3, *model.q0[1:]])[0][0]
    np.testing.assert_allclose(turned, (0.5 * math.cos(0.3), 0.5 * math.sin(0.3), 1.0), atol=1e-12)
    assert model.body("door").mass == 4.0
    assert model.body("ball").mass == pytest.approx(1000 * 4 / 3 * math.pi * 0.2**3)
    np.testing.assert_allclose(model.q0[1:4], (0, 0, 5))
    np.testing.assert_allclose(model.qd0[1:4], (0, -2, 0))
    assert model.shapes[0].friction == 0.8 and model.gravity[2] == -9.81


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda d: d.update(extensionsUsed=["KHR_texture_basisu"]), "has no KHR_physics_rigid_bodies"),
        (lambda d: d["nodes"][1].update(children=[2, 3, 1]), "its child 1"),
        (lambda d: d["nodes"][0]["extensions"][PHYSICS]["joint"].update(connectedNode=77), "no valid glTF"),
        (lambda d: d["nodes"][1].update(translation=["x", 0, 0]), "no valid glTF"),
        (lambda d: d["nodes"][1].update(translation=[float("nan"), 0, 0]), "not finite"),
        (lambda d: d["extensions"][PHYSICS]["physicsJoints"][0]["limits"].pop(0), "leaves free"),
        (lambda d: d["nodes"][1]["extensions"][PHYSICS]["motion"].update(mass=0.0), "infinite mass"),
    ],
)  # fmt: skip
def test_bad_files_are_refused(spoil, message, tmp_path):
    """A file that is damaged, or describes what cannot be, is refused with its path and the reason."""
    wrong = document()
    spoil(wrong)
    path = tmp_path / "wrong.gltf"
    path.write_text(json.dumps(wrong))
    with pytest.raises(lj.FileError, match=f"wrong.gltf.*{message}"):
        lj.load(path)


def test_cut_files_are_refused(tmp_path):
    """A .glb that ends early is refused wherever it is cut."""
    whole = lj.save(machine(), tmp_path / "whole.glb").read_bytes()
    for length in (3, 10, 40, len(whole) // 2, len(whole) - 3000):
        (tmp_path / "cut.glb").write_bytes(whole[:length])
        with pytest.raises(lj.FileError, match="cut.glb"):
            lj.load(tmp_path / "cut.glb")


def test_what_limits_cannot_describe_is_refused(tmp_path):
    """Gears, screws and compound joints are refused by name; no file is left."""
    with pytest.raises(lj.FileError, match='is of kind "gear", which glTF cannot describe'):
        lj.save(lj.scenes.gear_train(), tmp_path / "gears.glb")
    assert not list(tmp_path.iterdir())
