"""The native JSON format: every bit comes back, nothing unknown gets in, files are written whole or not at all."""

from __future__ import annotations

import dataclasses
import errno
import json
import math
import os
import stat
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limberjack.errors import FileError
from limberjack.io import files, load, native, save
from limberjack.io.files import atomic_write
from limberjack.model.builder import Builder
from limberjack.model.joints import KINDS
from limberjack.model.spec import Axis, Motor

CORNERS = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0.1 + 0.2]]
FACES = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]


def bits(value):
    """Return `value` with every float as its eight bytes, so that equality means every bit."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, np.ndarray):
        return value.dtype.kind, value.shape, value.astype(value.dtype.newbyteorder("<")).tobytes()
    if dataclasses.is_dataclass(value):
        return type(value).__name__, [bits(getattr(value, f.name)) for f in dataclasses.fields(value)]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [bits(x) for x in value]
    return value


def again(model):
    return native.loads(native.dumps(model))


def rich():
    """Return a model with every joint kind, shape kind and option in it."""
    b = Builder("rich \u00e9", gravity=(0.1, -0.0, -9.81))
    frames = {"position": (0.1, 0.2, 0.3), "rotation": (0.6, 0.8, 0.0, 0.0)}
    frames |= {"position_in_child": (0.3, 0.1, 0.2), "rotation_in_child": (0.0, 0.6, 0.0, 0.8)}
    motor = Motor(kp=1.5, kd=0.25, target=0.1, max=3.0, velocity=-0.5)
    plain = {"axis": (1, 2, 3), "damping": 0.1, "stiffness": 2.0, "armature": 0.3, "friction": 0.05}
    once = plain | {"limits": (-1.0, math.inf), "limit_stiffness": 7.0, "limit_damping": 0.7, "motor": motor}
    for name in ("hinge", "slide", "screw"):
        b.add_body(name, mass=1.0, com=(0.1, 0, 0), inertia=(1, 1, 1, 0.1, 0.2, 0.3))
        more = {"pitch": 0.01} if name == "screw" else {}
        b.add_joint(
            name, f"{name} joint", "world", name, start=0.5, start_velocity=0.1, rest=0.2, **once, **more, **frames
        )
    ball = {"limits": (0, 2.5), "motor": Motor(kp=1.0, target=(1.0, 0.0, 0.0, 0.0)), "rest": (0.6, 0, 0, 0.8)}
    for name in ("ball", "universal", "cylindrical", "planar", "point_on_line", "point_on_plane", "free", "fixed"):
        b.add_body(name, mass=0.5, inertia=(1, 2, 2.5))
    b.add_joint_ball("ball joint", "hinge", "ball", start=(0, 0.6, 0.8, 0), **plain, **ball, **frames)
    many = {"damping": (0.1, 0.2), "armature": (0.3, 0.4), "limits": [(-1, 1), None], "motor": [None, motor]}
    b.add_joint_universal("universal joint", "ball", "universal", axis=(0, 0, 1), axis2=(1, 1, 0), **many, **frames)
    b.add_joint_cylindrical("cylindrical joint", "slide", "cylindrical", **many, **frames)
    b.add_joint_planar("planar joint", "slide", "planar", damping=(1, 2, 3), start=(1, 2, 3), limits=(-1, 1), **frames)
    b.add_joint_point_on_line(
        "line", "slide", "point_on_line", limits=[(-1, 1), (0, 1)], stiffness=(1, 2, 2, 2), **frames
    )
    b.add_joint_point_on_plane("plane", "slide", "point_on_plane", limits=[None, (-1, 1), None], **frames)
    b.add_joint_free("free joint", "world", "free", start=(1, 2, 3, 1, 0, 0, 0), damping=(1, 1, 1, 2, 2, 2))
    b.add_joint_fixed("fixed joint", "free", "fixed", **frames)
    b.add_body("compound", mass=1.0, inertia=(1, 1, 1))
    axes = [
        Axis(name="bend", axis=(0, 1, 1), position=(0.1, 0, 0), limits=(-math.inf, 2), motor=motor, start=0.25),
        Axis(name="push", kind="slide", damping=1.0, stiffness=2.0, rest=0.5, armature=0.1, friction=0.2),
        Axis(name="soft", axis=(1, 0, 0), limits=(-1, 1), limit_stiffness=10.0, limit_damping=1.0, start_velocity=3.0),
    ]
    b.add_joint_compound("compound joint", "hinge", "compound", axes=axes, **frames)
    b.add_joint_hinge("loop", "compound", "fixed", axis=(0, 1, 0), motor=motor, **frames)
    b.add_joint_distance("rod", "hinge", "slide", length=0.7, position=(1, 0, 0), position_in_child=(0, 1, 0))
    b.add_joint_distance("cord", "hinge", "free", length=2.0, rope=True)
    b.add_no_slip("edge", "free", direction=(1, 2, 0), position=(0.1, 0, 0.3))
    b.add_no_slip("upright edge", "free", direction=(0, 0, 1))
    b.add_body("shoulder", mass=1.0, inertia=(1, 1, 1))
    b.add_joint_ball("swing", "hinge", "shoulder", cone=0.7, twist=(-0.3, math.inf), **frames)
    b.add_body_planar("flat", mass=1.5, inertia=0.2, com=(0.1, 0.2), position=(1, 2), angle=0.7)
    b.add_particle("speck", mass=0.1, position=(3, 2, 1))
    b.add_body_scalable("grows", mass=1.0, inertia=(1, 2, 2.5), scale=1.5, scale_stiffness=3.0, scale_rest=1.25)
    b.add_body_scalable("stretches", mass=1.0, inertia=(2, 2, 2), per_axis=True, scale=(1, 2, 3))
    b.add_body_affine("shears", mass=1.0, inertia=(2, 2, 2), deformation=[[1, 0.5, 0], [0, 1, 0], [0, 0, 2]])
    b.add_joint_gear("gear", "hinge joint", "bend", ratio=-2.5, offset=0.125, carrier="free")
    look = {"position": (1, 2, 3), "rotation": (0.8, 0, 0.6, 0), "friction": 0.9, "restitution": 0.5}
    look |= {"density": 500.0, "color": (0.1, 0.2, 0.3, 0.4), "collide": False, "group": 3}
    b.add_shape_sphere("hinge", 0.1, **look, name="sphere")
    b.add_shape_box("world", (1, 2, 3))
    b.add_shape_capsule("slide", 0.1, 0.0)
    b.add_shape_cylinder("slide", 0.1, 0.5, color=(1, 0, 0))
    b.add_shape_plane()
    b.add_shape_mesh("hinge", vertices=np.array(CORNERS) / 3, faces=FACES, **look)
    b.add_body("massless from shapes", position=(1, 2, 3), rotation=(0.6, 0, 0, 0.8))
    b.add_shape_box("massless from shapes", (1, 1, 1), density=10.0)
    b.add_body("scaled", mass=2.0, com=(0.1, 0.1, 0.1))
    b.add_shape_sphere("scaled", 0.2)
    b.add_spring("hinge", "world", at_a=(1, 0, 0), at_b=(0, 0, 2), stiffness=10.0, damping=0.1, rest=0.3, name="coil")
    b.add_spring("slide", "ball", stiffness=1.0)
    b.add_point("tip", "hinge", (0.1, 0.2, 0.3))
    b.exclude_collision("hinge", "slide")
    b.exclude_collision("world", "ball")
    return b


def test_every_kind_and_option_comes_back_bit_for_bit():
    """A model with all there is has the same record, arrays and text after a round trip."""
    model = rich().build()
    copy = again(model)
    assert {joint.kind for joint in model.spec.joints} == set(KINDS)
    assert bits(copy.spec) == bits(model.spec)
    assert native.dumps(copy) == native.dumps(model)
    assert copy.joint_names == model.joint_names and copy.body_names == model.body_names
    assert bits(copy.q0) == bits(model.q0) and bits(copy.arrays.links.inertia) == bits(model.arrays.links.inertia)


def test_files_from_before_body_kinds_load():
    """A file without the newer fields is one of rigid bodies and of balls without cone and twist, and needs none."""
    builder = Builder("old")
    builder.add_body("a", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint_ball("j", "world", "a", limits=(0, 1))
    text = native.dumps(builder.build())
    for word in ("body_kind", "scale", "cone", "twist"):
        assert word not in text
    spec = native.loads(text).spec
    assert spec.bodies[0].body_kind == "rigid" and spec.bodies[0].scale is None
    assert spec.joints[0].cone is None and spec.joints[0].twist is None


def test_wrong_kinds_of_bodies_are_refused():
    """An unknown body kind, a scale on a rigid body and a cone on a hinge name their place in the document."""
    builder = Builder("m")
    builder.add_body("a", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint_hinge("j", "world", "a")
    text = native.dumps(builder.build())
    for old, new, message in (
        ('"name": "a"', '"name": "a", "body_kind": "soft"', r'bodies\[0\].*no body kind "soft".*planar'),
        ('"name": "a"', '"name": "a", "scale": [2.0]', r"bodies\[0\].*has no scale"),
        ('"kind": "hinge"', '"kind": "hinge", "cone": 1.0', r"joints\[0\].cone.*no meaning for a hinge"),
    ):
        with pytest.raises(FileError, match=message):
            native.loads(text.replace(old, new))


def test_files_and_options_of_build_come_back(tmp_path):
    """save and load go through a file; merge_fixed is part of it; a model may be empty."""
    model = rich().build(merge_fixed=False)
    path = save(model, tmp_path / "m.json")
    assert bits(load(path).spec) == bits(model.spec)
    assert load(path).spec.merge_fixed is False
    empty = Builder("empty").build()
    assert load(save(empty, tmp_path / "e.json")).body_count == 0


def test_defaults_may_be_left_out_and_axes_are_normalised():
    """A short file by hand means what the builder's defaults mean."""
    text = """{"format": "limberjack-model", "version": 1, "name": "m", "gravity": [0, 0, -9.81], "merge_fixed": true,
    "bodies": [{"name": "a", "mass": 1, "inertia": [1, 1, 1, 0, 0, 0]}],
    "joints": [{"name": "j", "kind": "hinge", "parent": "world", "child": "a", "axis": [0, 3, 4]}],
    "shapes": [{"name": "s", "body": "a", "kind": "sphere", "size": [0.5]}],
    "springs": [], "points": [], "excluded": []}"""
    b = Builder("m")
    b.add_body("a", mass=1, inertia=(1, 1, 1))
    b.add_joint_hinge("j", "world", "a", axis=(0, 3, 4))
    b.add_shape_sphere("a", 0.5, name="s")
    assert bits(native.loads(text).spec) == bits(b.build().spec)


finite = st.floats(allow_nan=False, allow_infinity=False, width=64)
moderate = st.floats(-1e100, 1e100)
positive = st.floats(1e-100, 1e100)
vector = st.tuples(moderate, moderate, moderate)
direction = vector.filter(lambda v: math.hypot(*v) > 1e-6)
turn = st.tuples(*[st.floats(-1, 1)] * 4).filter(lambda q: math.hypot(*q) > 0.1)
pair = st.one_of(
    st.none(), st.tuples(st.floats(-math.inf, 0, allow_nan=False), st.floats(0, math.inf, allow_nan=False))
)


def unit(q):
    length = math.hypot(*q)
    return tuple(x / length for x in q)


@settings(max_examples=150, deadline=None)
@given(
    st.data(),
    st.sampled_from(["hinge", "slide", "ball", "universal", "screw", "compound"]),
)
def test_random_numbers_come_back_bit_for_bit(data, kind):
    """Whatever finite numbers a model holds, signs of zero and subnormals too, come back with every bit."""
    draw = data.draw
    b = Builder("m", gravity=draw(vector))
    com = draw(st.tuples(*[st.floats(-10, 10)] * 3))
    b.add_body("a", mass=draw(st.floats(0.1, 10)), com=com, inertia=(1.0, 1.0, draw(st.floats(0.5, 2))))
    place = {"position": draw(vector), "rotation": unit(draw(turn)), "rotation_in_child": unit(draw(turn))}
    own = {"damping": draw(positive), "armature": draw(positive), "friction": draw(positive)}
    motor = Motor(kp=draw(positive), target=draw(moderate), max=draw(st.floats(0, math.inf, allow_nan=False)))
    if kind == "compound":
        axes = [
            Axis(name=f"x{i}", axis=draw(direction), position=draw(vector), limits=draw(pair), motor=motor, **own)
            for i in range(3)
        ]
        b.add_joint_compound("j", "world", "a", axes=axes, **place)
    elif kind == "ball":
        b.add_joint_ball(
            "j", "world", "a", start=unit(draw(turn)), rest=unit(draw(turn)), axis=draw(direction), **place, **own
        )
    elif kind == "universal":
        b.add_joint_universal("j", "world", "a", limits=[draw(pair), draw(pair)], **place, **own)
    else:
        more = {"pitch": draw(moderate)} if kind == "screw" else {}
        b.add_joint(
            kind, "j", "world", "a", axis=draw(direction), limits=[draw(pair)], motor=motor, **place, **own, **more
        )
    corners = np.array(CORNERS) * draw(st.floats(1e-3, 1e3))
    b.add_shape_mesh("a", vertices=corners, faces=FACES, position=draw(vector), rotation=unit(draw(turn)))
    b.add_point("p", "a", draw(st.tuples(finite, finite, finite)))
    b.add_spring("a", "world", at_a=draw(vector), stiffness=draw(positive), rest=draw(positive))
    model = b.build()
    assert bits(again(model).spec) == bits(model.spec)


# -- what is refused -------------------------------------------------------------------------------------


def document():
    return json.loads(native.dumps(rich().build()))


def put(*path_and_value):
    """Return an edit that sets the value at a path in the document."""
    *path, last, value = path_and_value

    def edit(doc):
        for step in path:
            doc = doc[step]
        doc[last] = value

    return edit


def joint(name, **fields):
    def edit(doc):
        next(x for x in doc["joints"] if x["name"] == name).update(fields)

    return edit


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (put("format", "other"), '"format" must be "limberjack-model"'),
        (put("version", 2), "the document has version 2; this release reads version 1"),
        (put("version", True), "the document has version true"),
        (put("version", 1.0), r"the document has version 1\.0"),
        (put("extra", 1), 'the document has the unknown key "extra"'),
        (lambda doc: doc.pop("points"), 'the document lacks the key "points"'),
        (put("name", 3), "name must be a string, got 3"),
        (put("name", ""), "the model's name must be a non-empty printable string"),
        (put("gravity", [0, 0]), "gravity must have 3 entries, got 2"),
        (put("gravity", 1, "x"), r'gravity\[1\] must be a number, got "x"'),
        (put("gravity", 1, True), r"gravity\[1\] must be a number, got true"),
        (put("gravity", 1, None), r"gravity\[1\] must be a number, got null"),
        (put("gravity", 1, "inf"), r"gravity\[1\] must be a number"),
        (put("gravity", 1, 10**400), r"gravity\[1\] must be a finite number"),
        (put("merge_fixed", 1), "merge_fixed must be true or false, got 1"),
        (put("bodies", {}), "bodies must be a list, got an object"),
        (put("bodies", 0, 7), r"bodies\[0\] must be an object, got 7"),
        (put("bodies", 0, "color", 1), r'bodies\[0\] has the unknown key "color"; keys are name, mass'),
        (lambda doc: doc["bodies"][0].pop("name"), r'bodies\[0\] lacks the key "name"'),
        (put("bodies", 0, "mass", -1), r'bodies\[0\]: mass of body "hinge" must be >= 0'),
        (put("bodies", 0, "inertia", [1, 1, 9, 0, 0, 0]), r"bodies\[0\]: .*triangle inequality"),
        (put("bodies", 1, "name", "hinge"), r'bodies\[1\]: body "hinge" exists already'),
        (joint("hinge joint", parent="nobody"), r'joints\[0\]: no body "nobody"'),
        (joint("hinge joint", kind="elbow"), r'joints\[0\]: no joint kind "elbow" in Limberjack'),
        (joint("hinge joint", axis=[0, 0, 0]), r'joints\[0\]: axis of joint "hinge joint" must not be zero'),
        (joint("hinge joint", rotation=[2, 0, 0, 0]), "must be a unit quaternion"),
        (joint("hinge joint", limits=[[1, -1]]), "with low <= high"),
        (joint("hinge joint", limits=[[-1, 1], [-1, 1]]), r"joints\[0\]\.limits: must have 1 entries, got 2"),
        (joint("hinge joint", limits=[["-inf", "inf"]]), r"joints\[0\]\.limits\[0\]: must be null here"),
        (joint("hinge joint", limits=[["nan", 1]]), r"joints\[0\]\.limits\[0\]\[0\] must be a number"),
        (joint("hinge joint", pitch=1.0), r"joints\[0\]\.pitch: has no meaning for a hinge joint"),
        (joint("hinge joint", axes=[{"name": "x"}]), r"joints\[0\]\.axes: has no meaning for a hinge joint"),
        (joint("hinge joint", motor=[{"kp": -1}]), "kp of the motor"),
        (joint("hinge joint", motor=[{"max": "nan"}]), r"motor\[0\]\.max must be a number"),
        (joint("hinge joint", motor=[{"kq": 1}]), r'motor\[0\] has the unknown key "kq"'),
        (joint("ball joint", limits=[[0, 1], [0, 1], None]), r"joints\[3\]\.limits\[1\]: must be null here"),
        (joint("ball joint", start=[1, 0, 0]), "4 numbers"),
        (joint("universal joint", axis2=[0, 0, 1]), "must be perpendicular"),
        (joint("universal joint", axis2=None), r"axis2: must be \[.*\] here"),
        (joint("free joint", position=[1, 0, 0]), "position: has no meaning for a free joint"),
        (joint("fixed joint", damping=[]), "damping: has no meaning for a fixed joint"),
        (joint("compound joint", damping=[1, 1, 1]), "damping: has no meaning for a compound joint"),
        (joint("compound joint", axes=[{"name": "x", "kind": "ball"}]), 'no axis kind "ball"'),
        (joint("compound joint", axes=[]), "takes 1 to 6 axes, got 0"),
        (joint("rod", length=-1), "length of joint"),
        (joint("rod", rotation=[0.6, 0.8, 0, 0]), "rotation: has no meaning for a distance joint"),
        (joint("gear", parent="nothing"), 'no joint "nothing"'),
        (joint("gear", ratio="2"), r"ratio must be a number"),
        (put("shapes", 0, "kind", "torus"), r'shapes\[0\]: no shape kind "torus"'),
        (put("shapes", 0, "size", [1, 2]), r"shapes\[0\]\.size: must have 1 entries for a sphere, got 2"),
        (put("shapes", 0, "size", [-1]), r"shapes\[0\]: size of shape .* must be > 0"),
        (put("shapes", 0, "group", 1.5), r"shapes\[0\]\.group must be an integer"),
        (put("shapes", 0, "vertices", "AAAA"), r"shapes\[0\]\.vertices must hold rows of 24 bytes"),
        (put("shapes", 0, "vertices", ""), r"shapes\[0\]\.vertices: must be null here"),
        (put("shapes", 5, "vertices", "!!!!"), r"shapes\[5\]\.vertices must be base64"),
        (put("shapes", 5, "faces", "////////////////"), r"shapes\[5\]: .*faces must name vertices"),
        (put("shapes", 5, "size", [2.0]), r"shapes\[5\]\.size\[0\]: must be 1\.0 here"),
        (put("springs", 0, "stiffness", -1), r"springs\[0\]: stiffness"),
        (put("springs", 1, "name", "coil"), r'springs\[1\]: a point or spring "coil" exists already'),
        (put("points", 0, "body", "nobody"), r'points\[0\]: no body "nobody"'),
        (put("excluded", 0, ["hinge"]), r"excluded\[0\] must have 2 entries, got 1"),
        (put("excluded", 0, ["hinge", "nobody"]), r'excluded\[0\]: no body "nobody"'),
    ],
)
def test_wrong_documents_are_refused_with_the_place(tmp_path, edit, text):
    """Unknown keys, wrong types, sizes and values raise with the file and the path within it."""
    doc = document()
    edit(doc)
    path = tmp_path / "m.json"
    path.write_text(json.dumps(doc))
    with pytest.raises(FileError, match=text) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "is not JSON"),
        (b"null", "is not a Limberjack model"),
        (b"[]", "is not a Limberjack model"),
        (b'{"format": "limberjack-model"}', "has version null"),
        (b'{\n"format": "limberjack-model",\n oops', r":3: is not JSON: .*\(column 2\)"),
        (b'{"format": NaN}', "NaN is not allowed"),
        (b'{"format": -Infinity}', "-Infinity is not allowed"),
        (b'{"format": "\xff"}', "is not UTF-8 text"),
        (b"[" * 200_000, "nested too deeply|is not JSON"),
        (b'{"a":' * 200_000, "nested too deeply|is not JSON"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "is not a model"),
        (b"\xef\xbb\xbf{}", "is not JSON|is not a Limberjack model"),
    ],
)
def test_texts_that_are_no_document_are_refused(tmp_path, content, text):
    """Anything that is not JSON of this format raises a FileError, the line where there is one."""
    path = tmp_path / "m.json"
    path.write_bytes(content)
    with pytest.raises(FileError, match=text):
        load(path)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('"mass": 1.0', '"mass": 1.0, "mass": 1.0', r'bodies\[0\] has the key "mass" twice'),
        ('"version": 1', '"version": 1, "version": 1', 'the document has the key "version" twice'),
        ('"mass": 1.0', '"mass": NaN', "NaN is not allowed"),
        ('"mass": 1.0', '"mass": 1e999', r"bodies\[0\]\.mass must be a finite number"),
        ('"mass": 1.0', '"mass": Infinity', "Infinity is not allowed"),
    ],
)
def test_repeated_keys_and_numbers_json_cannot_hold_are_refused(old, new, text):
    """What Python's reader lets pass silently is refused here."""
    changed = native.dumps(rich().build()).replace(old, new, 1)
    with pytest.raises(FileError, match=text):
        native.loads(changed)


def test_torn_files_are_refused():
    """A file cut at any byte raises a FileError."""
    b = Builder("m")
    b.add_body("a", mass=1, inertia=(1, 1, 1))
    b.add_joint_hinge("j", "world", "a")
    data = native.dumps(b.build()).rstrip().encode()
    for size in range(len(data)):
        with pytest.raises(FileError):
            native.loads(data[:size])


def test_files_that_are_not_there_are_refused(tmp_path):
    """A missing file, a folder and an unknown suffix say so."""
    with pytest.raises(FileError, match="no such file"):
        load(tmp_path / "none.json")
    with pytest.raises(FileError, match="is a folder"):
        (tmp_path / "folder.json").mkdir()
        load(tmp_path / "folder.json")
    with pytest.raises(FileError, match='no model writer for ".xyz"'):
        save(Builder("m").build(), tmp_path / "m.xyz")


# -- writing ---------------------------------------------------------------------------------------------


def names(folder):
    return sorted(file.name for file in folder.iterdir())


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    """Full disks, interrupts and failing renames keep the old content and leave no other file behind."""
    path = tmp_path / "m.json"
    atomic_write(path, b"old")

    def full(file):
        file.write(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def interrupted(file):
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(FileError, match="cannot write: No space left on device"):
        atomic_write(path, full)
    with pytest.raises(KeyboardInterrupt):
        atomic_write(path, interrupted)
    with pytest.raises(ZeroDivisionError):
        atomic_write(path, lambda file: 1 / 0)

    def refuse(*_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(files.os, "replace", refuse)
    with pytest.raises(FileError, match="cannot write: Permission denied"):
        atomic_write(path, b"new")
    assert path.read_bytes() == b"old" and names(tmp_path) == ["m.json"]


def test_bytes_reach_the_disk_before_the_name_does(tmp_path, monkeypatch):
    """The new file is flushed before it takes the old one's place, and the folder after."""
    steps = []
    monkeypatch.setattr(files.os, "fsync", lambda handle: steps.append(stat.S_ISDIR(os.fstat(handle).st_mode)))
    move = os.replace
    monkeypatch.setattr(files.os, "replace", lambda *paths: (steps.append("replace"), move(*paths)))
    atomic_write(tmp_path / "a", lambda file: file.write(b"new"))
    assert steps == [False, "replace", True] and (tmp_path / "a").read_bytes() == b"new"


def test_places_that_cannot_be_written_are_refused(tmp_path):
    """Folders, devices, missing folders and impossible names raise a FileError and change nothing."""
    for path, text in (
        (tmp_path, "is a folder"),
        ("/dev/null", "is not a regular file"),
        (tmp_path / "none" / "a", "cannot write: No such file or directory"),
        (tmp_path / ("x" * 300), "cannot write"),
        (f"{tmp_path}/a\0b", "cannot write"),
    ):
        with pytest.raises(FileError, match=text):
            atomic_write(path, b"x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode) and names(tmp_path) == []


def test_permissions_and_links_stay(tmp_path):
    """A new file has the usual permissions, an old one keeps its own, a link stays a link."""
    path, link = tmp_path / "a", tmp_path / "link"
    atomic_write(path, b"1")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    path.chmod(0o640)
    link.symlink_to(path)
    atomic_write(link, b"2")
    assert link.is_symlink() and path.read_bytes() == b"2" and stat.S_IMODE(path.stat().st_mode) == 0o640
