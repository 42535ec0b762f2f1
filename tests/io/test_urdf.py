"""The URDF reader, rule by rule, on small files."""

from __future__ import annotations

import math
import random
import warnings

import numpy as np
import pytest
import trimesh

from limberjack.errors import FileError, ModelError, ModelWarning
from limberjack.io import load, urdf

SOLID = '<inertial><mass value="2"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'


def link(name, inside=SOLID):
    return f'<link name="{name}">{inside}</link>\n'


def joint(name, parent, child, kind="revolute", inside='<limit lower="-1" upper="1" effort="1" velocity="1"/>'):
    ends = f'<parent link="{parent}"/><child link="{child}"/>'
    return f'<joint name="{name}" type="{kind}">{ends}{inside}</joint>\n'


ARM = link("base") + link("upper") + joint("shoulder", "base", "upper")


@pytest.fixture
def put(tmp_path):
    """Write the inside of a robot to a file and return its path."""

    def write(inside, name="robot.urdf"):
        path = tmp_path / name
        path.write_text(inside if inside.lstrip().startswith("<?xml") else f'<robot name="r">\n{inside}</robot>\n')
        return path

    return write


@pytest.fixture
def quiet():
    """Turn every warning into an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def warned(path, **options):
    """Load and return the model and the texts of its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = load(path, **options)
    assert all(issubclass(one.category, ModelWarning) for one in caught)
    return model, [str(one.message) for one in caught]


def test_names_order_and_base(put, quiet):
    """Links are bodies depth first, children in the file order of joints; the root is fixed or floats."""
    path = put(
        link("c") + link("b") + link("a") + link("d") + joint("ac", "a", "c") + joint("ab", "a", "b")
        + joint("cd", "c", "d", "continuous", "")
    )  # fmt: skip
    model = load(path)
    assert model.name == "r"
    assert model.body_names == ("a", "c", "d", "b")
    assert model.joint_names == ("world_to_a", "ac", "cd", "ab")
    assert model.nq == 3 and model.joint("world_to_a").kind == "fixed"
    free = load(path, base="free")
    assert free.joint_names == ("a", "ac", "cd", "ab")
    assert free.nq == 10 and free.joint("a").kind == "free"
    with pytest.raises(ModelError, match="base"):
        load(path, base="flying")


def test_name_of_the_world_joint_cannot_clash(put, quiet):
    """A file that uses the names we would give keeps them; ours step aside."""
    mimic = '<limit lower="0" upper="1"/><mimic joint="a:mimic"/>'
    path = put(
        link("b") + link("u") + link("v") + joint("world_to_b", "b", "u") + joint("a", "u", "v", inside=mimic)
        + link("w") + joint("a:mimic", "v", "w")
    )  # fmt: skip
    model = load(path)
    assert model.joint("world_to_b").child == "u" and model.joint("a:mimic").child == "w"
    assert set(model.joint_names) == {"world_to_b_", "world_to_b", "a", "a:mimic", "a:mimic_"}


@pytest.mark.parametrize(
    ("kind", "wanted", "nq"),
    [
        ("revolute", "hinge", 1),
        ("continuous", "hinge", 1),
        ("prismatic", "slide", 1),
        ("fixed", "fixed", 0),
        ("floating", "free", 7),
        ("planar", "planar", 3),
        ("spherical", "ball", 4),
        ("ball", "ball", 4),
    ],
)
def test_joint_types(put, quiet, kind, wanted, nq):
    """Each type of joint has its kind; only revolute and prismatic ones have the limits."""
    inside = '<axis xyz="0 3 0"/><limit lower="-0.5" upper="0.25"/><dynamics damping="0.5" friction="0.1"/>'
    model = load(put(link("base") + link("arm") + joint("j", "base", "arm", kind, inside)))
    info, spec = model.joint("j"), model.joint_spec("j")
    assert (info.kind, info.nq) == (wanted, nq)
    if kind in ("revolute", "prismatic"):
        assert spec.limits == ((-0.5, 0.25),)
    else:
        assert spec.limits is None
    if wanted in ("hinge", "slide", "planar"):
        assert spec.axis == (0.0, 1.0, 0.0)
    if wanted != "fixed":
        assert set(spec.damping) == {0.5} and set(spec.friction) == {0.1}


def test_axis_is_x_unless_given(put, quiet):
    """A joint without an axis turns about x, as the format says."""
    assert load(put(ARM)).joint_spec("shoulder").axis == (1.0, 0.0, 0.0)


def test_origin_is_fixed_axis_roll_pitch_yaw(put, quiet):
    """An origin places the child frame: turn about x, then y, then z of the parent, then move."""
    roll, pitch, yaw = 0.3, -0.8, 1.1
    origin = f'<origin xyz="1 2 3" rpy="{roll} {pitch} {yaw}"/>'
    spec = load(put(link("a") + link("b") + joint("j", "a", "b", "continuous", origin))).joint_spec("j")
    wanted = trimesh.transformations.euler_matrix(roll, pitch, yaw, "sxyz")[:3, :3]
    turn = trimesh.transformations.quaternion_matrix(spec.rotation)[:3, :3]
    assert spec.position == (1.0, 2.0, 3.0)
    np.testing.assert_allclose(turn, wanted, atol=1e-15)


def test_inertia_is_turned_to_the_link(put, quiet):
    """The inertia of a turned inertial frame stands in the axes of the link, about the com."""
    inertial = """<inertial><origin xyz="0.1 0.2 0.3" rpy="0.4 0.5 0.6"/><mass value="3"/>
        <inertia ixx="0.03" iyy="0.04" izz="0.05" ixy="0.001" ixz="0.002" iyz="-0.003"/></inertial>"""
    body = load(put(link("a", inertial))).body("a")
    r = trimesh.transformations.euler_matrix(0.4, 0.5, 0.6, "sxyz")[:3, :3]
    own = np.array([[0.03, 0.001, 0.002], [0.001, 0.04, -0.003], [0.002, -0.003, 0.05]])
    assert body.mass == 3.0
    np.testing.assert_allclose(body.com, (0.1, 0.2, 0.3))
    np.testing.assert_allclose(body.inertia, r @ own @ r.T, atol=1e-16)


def test_limits_may_be_infinite_or_missing(put):
    """Infinite limits are none; missing ones and those the wrong way round are none, with a warning."""

    def limits(inside):
        model, texts = warned(put(link("a") + link("b") + joint("j", "a", "b", inside=inside)))
        return model.joint_spec("j").limits, texts

    assert limits('<limit lower="-inf" upper="inf"/>') == ((None,), [])
    assert limits('<limit upper="2"/>') == (((0.0, 2.0),), [])
    for inside in ("", '<limit effort="3"/>', '<limit lower="1" upper="-1"/>'):
        found, texts = limits(inside)
        assert found in (None, (None,)) and len(texts) == 1 and "without limits" in texts[0]


def test_mimic_is_a_gear(put, quiet):
    """A mimic joint keeps its freedom and is tied to its source, whichever comes first in the file."""
    mimic = '<limit lower="-1" upper="1"/><mimic joint="second" multiplier="-0.5" offset="0.25"/>'
    plain = '<limit lower="-1" upper="1"/><mimic joint="first"/>'
    model = load(
        put(
            link("a") + link("b") + link("c") + link("d") + joint("first", "a", "b", inside=mimic)
            + joint("second", "a", "c") + joint("third", "a", "d", "prismatic", plain)
        )
    )  # fmt: skip
    assert model.nv == 3 and model.loop_names == ("first:mimic", "third:mimic")
    gear = model.joint_spec("first:mimic")
    assert (gear.kind, gear.parent, gear.child, gear.ratio, gear.offset) == (
        "gear",
        "first",
        "second",
        -0.5,
        0.25,
    )
    gear = model.joint_spec("third:mimic")
    assert (gear.parent, gear.child, gear.ratio, gear.offset) == ("third", "first", 1.0, 0.0)


def test_mimic_without_a_source(put):
    """A mimic of nothing, itself or a fixed joint is left out with a warning; on a fixed joint, quietly."""
    for source, word in (("nobody", "no other joint"), ("j", "no other joint"), ("f", "which is fixed")):
        inside = f'<limit lower="0" upper="1"/><mimic joint="{source}"/>'
        path = put(ARM + link("c") + link("d") + joint("j", "base", "c", inside=inside) + joint("f", "c", "d", "fixed"))
        model, texts = warned(path)
        assert model.loop_names == () and len(texts) == 1 and word in texts[0]
        with pytest.raises(FileError, match=word):
            load(path, repair=False)
    reduced = joint("j", "base", "c", "fixed", '<mimic joint="shoulder"/>')
    assert warned(put(ARM + link("c") + reduced))[1] == []


def test_root_called_world_is_the_world(put, quiet):
    """A root link "world" is the ground, with static shapes; base="free" loosens what is fixed to it."""
    shape = '<collision><geometry><sphere radius="1"/></geometry></collision>'
    tie = joint("tie", "world", "base", "fixed", '<origin xyz="0 0 2"/>')
    path = put(link("world", shape) + tie + ARM)
    model = load(path)
    assert model.body_names == ("base", "upper") and model.joint_names == ("tie", "shoulder")
    assert model.shapes[0].body == "world"
    free = load(path, base="free")
    assert free.joint("tie").kind == "free"
    np.testing.assert_allclose(free.q0[:7], (0, 0, 2, 1, 0, 0, 0))
    with pytest.raises(FileError, match="nothing is fixed"):
        load(put(link("world", "") + link("a") + joint("j", "world", "a")), base="free")


def test_floating_joint_starts_where_its_parent_puts_it(put, quiet):
    """A floating joint is free in the world and starts at the zero pose of its place."""
    quarter = f'<origin xyz="1 0 0" rpy="0 0 {math.pi / 2}"/>'
    model = load(
        put(
            link("a") + link("b") + link("c") + joint("ab", "a", "b", "continuous", quarter)
            + joint("bc", "b", "c", "floating", quarter)
        )
    )  # fmt: skip
    half = model.joint("bc")
    assert half.kind == "free" and half.parent == "world"
    np.testing.assert_allclose(model.q0[half.q], (1, 1, 0, 0, 0, 0, 1), atol=1e-15)


def test_shapes_and_colours(put, quiet):
    """Collisions collide, visuals do not; sizes are full lengths; colours come by name or inline."""
    inside = """
      <collision><origin xyz="1 2 3"/><geometry><box size="0.1 0.2 0.3"/></geometry></collision>
      <collision><geometry><cylinder radius="0.1" length="0.5"/></geometry></collision>
      <visual><geometry><sphere radius="0.2"/></geometry><material name="red"/></visual>
      <visual><geometry><capsule radius="0.2" length="0"/></geometry>
        <material name="own"><color rgba="0 0 1 0.5"/></material></visual>
      <visual><geometry><sphere radius="1"/></geometry><material name="later"/></visual>
      <contact><lateral_friction value="0.9"/><restitution value="0.1"/></contact>"""
    green = '<material name="later"><color rgba="0 1 0 1"/></material>'
    later = f'<visual><geometry><sphere radius="1"/></geometry>{green}</visual>'
    model = load(
        put(
            '<material name="red"><color rgba="1 0 0 1"/></material>' + link("a", SOLID + inside)
            + link("b", SOLID + later) + joint("j", "a", "b")
        )
    )  # fmt: skip
    found = [(s.name, s.kind, s.size, s.collide, s.color) for s in model.shapes]
    assert found == [
        ("a:collision0", "box", (0.1, 0.2, 0.3), True, None),
        ("a:collision1", "cylinder", (0.1, 0.5), True, None),
        ("a:visual0", "sphere", (0.2,), False, (1.0, 0.0, 0.0, 1.0)),
        ("a:visual1", "capsule", (0.2, 0.0), False, (0.0, 0.0, 1.0, 0.5)),
        ("a:visual2", "sphere", (1.0,), False, (0.0, 1.0, 0.0, 1.0)),
        ("b:visual0", "sphere", (1.0,), False, (0.0, 1.0, 0.0, 1.0)),
    ]
    assert model.shapes[0].position == (1.0, 2.0, 3.0)
    assert (model.shapes[0].friction, model.shapes[0].restitution) == (0.9, 0.1)
    assert model.body("a").mass == 2.0


def mesh_link(reference, extra=""):
    return link("a", SOLID + f'<collision><geometry><mesh filename="{reference}" {extra}/></geometry></collision>')


@pytest.mark.parametrize("suffix", ["stl", "obj", "dae", "ply"])
def test_meshes_are_scaled_and_kept_outward(tmp_path, put, quiet, suffix):
    """Each axis has its own scale, baked into the vertices; a mirror keeps the volume positive."""
    trimesh.creation.box((1, 2, 3)).export(tmp_path / f"box.{suffix}")
    path = put(mesh_link(f"box.{suffix}", 'scale="0.1 -0.2 0.3"') + link("b", "") + joint("j", "a", "b", "fixed"))
    shape = load(path).shapes[0]
    mesh = trimesh.Trimesh(shape.vertices, shape.faces, process=False)
    np.testing.assert_allclose(mesh.extents, (0.1, 0.4, 0.9), rtol=1e-6)
    assert mesh.volume == pytest.approx(0.1 * 0.4 * 0.9, rel=1e-6)
    assert len(load(put(mesh_link(f"box.{suffix}", 'scale="2"'))).shapes) == 1
    assert urdf.read(path, meshes=False).shapes == ()


def test_a_mesh_file_is_read_once(tmp_path, put, monkeypatch):
    """Many references to one file read it once, and a broken one is named once."""
    from limberjack.io import mesh_files as meshes

    trimesh.creation.box().export(tmp_path / "box.dae")
    (tmp_path / "bad.dae").write_text("no mesh")
    count, real = [], meshes.read
    monkeypatch.setattr(meshes, "read", lambda path: count.append(path) or real(path))
    one = '<visual><geometry><mesh filename="{}"/></geometry></visual>'
    model, texts = warned(put(link("a", SOLID + one.format("box.dae") * 5 + one.format("bad.dae") * 5)))
    assert len(count) == 2 and len(model.shapes) == 5
    assert len(texts) == 1 and "bad.dae" in texts[0]


def test_missing_meshes_warn(put):
    """A mesh that is not there is left out and named with its line, in strict reading too."""
    for reference in (
        "none.stl",
        "package://nobody/x.stl",
        "file:///no/such/x.mesh",
        "http://example.org/x.stl",
    ):
        path = put(mesh_link(reference))
        for repair in (True, False):
            model, texts = warned(path, repair=repair)
            assert model.shapes == () and len(texts) == 1
            assert texts[0].startswith(f"{path}:2: ") and reference in texts[0]


def test_roots_widen_where_meshes_come_from(tmp_path, put):
    """A mesh beside the file's folder is refused, until its folder is declared."""
    (tmp_path / "in").mkdir()
    trimesh.creation.box().export(tmp_path / "box.stl")
    path = put(mesh_link("../box.stl"), "in/robot.urdf")
    with pytest.raises(FileError, match=r"pass roots=\[...\]") as caught:
        load(path)
    assert caught.value.line == 2
    assert len(load(path, roots=[tmp_path]).shapes) == 1
    named = put(mesh_link("package://parts/box.stl"), "in/robot.urdf")
    (tmp_path / "shelf/parts").mkdir(parents=True)
    trimesh.creation.box().export(tmp_path / "shelf/parts/box.stl")
    assert len(load(named, package_paths=[tmp_path / "shelf"]).shapes) == 1


VISUAL = "<visual><geometry>{}</geometry></visual>"
TURNS = '<limit lower="-1" upper="1"/>'

DIRT = [
    # (inside of the robot, words of the warning)
    (link("a", SOLID.replace('"2"', '"2,"')), ["commas"]),
    (ARM.replace("<limit", '<origin xyz="0, 1, 2"/><limit'), ["commas", "shoulder"]),
    (ARM.replace("<limit", '<origin xyz="$(optenv X 0 0 1)"/><limit'), ["xacro", "0 0 1"]),
    (ARM.replace("<limit", '<axis xyz="0 0 1"/><axis xyz="0 1 0"/><limit'), ["<axis> stands 2 times"]),
    (ARM.replace("<limit", '<origin rpy="0 0 1 0"/><limit'), ["got 4", "first 3"]),
    (ARM.replace("<limit", '<dynamics damping="-1"/><limit'), ["damping must be >= 0"]),
    (link("a", SOLID + SOLID), ["<inertial> stands 2 times"]),
    (link("a", "<inertial/>"), ["no mass"]),
    (link("a", '<inertial><mass/><inertia ixx="1"/></inertial>'), ["no mass"]),
    (link("a", '<inertial><mass value="1"/></inertial>'), ["no inertia"]),
    (link("a", SOLID.replace('izz="1"', "")), ["no izz"]),
    (link("a", SOLID.replace('izz="1"', 'izz="5"')), ["triangle", "1, 1, 5"]),
    (link("a", SOLID.replace('ixx="1"', 'ixx="-1"')), ["semidefinite", "-1, 1, 1"]),
    (link("a", SOLID.replace('"2"', '"0"')), ["without mass"]),
    (link("a") + link("b", "") + joint("j", "a", "b"), ['link "b" moves and has no mass']),
    (link("a", SOLID + "<visual/>"), ["no geometry"]),
    (link("a", SOLID + "<visual><geometry/></visual>"), ["no geometry"]),
    (link("a", SOLID + VISUAL.format("<torus/>")), ["no geometry"]),
    (link("a", SOLID + VISUAL.format('<box size="0 1 1"/>')), ["sizes > 0"]),
    (link("a", SOLID + VISUAL.format('<cylinder radius="1"/>')), ["sizes > 0"]),
    (link("a", SOLID + VISUAL.format('<capsule radius="0" length="1"/>')), ["sizes > 0"]),
    (link("a", SOLID + VISUAL.format("<mesh/>")), ["without a filename"]),
    (mesh_link("x.stl", 'scale="1 0 1"'), ["scale", "zero"]),
    ('<material name="m"><color rgba="255 128 0 1"/></material>' + link("a"), ["0..255"]),
    ('<material name="m"><color rgba="-1 0 0 1"/></material>' + link("a"), ["is cut"]),
]  # fmt: skip


@pytest.mark.parametrize(("inside", "words"), DIRT)
def test_dirt_is_mended_with_a_warning_or_refused(put, inside, words):
    """What real files get wrong is mended, named by file and line; `repair=False` refuses it by name."""
    path = put(inside)
    model, texts = warned(path)
    assert model.body_count >= 1
    assert any(all(word in text for word in words) for text in texts), texts
    assert all(text.startswith(f"{path}:") for text in texts)
    with pytest.raises(FileError) as caught:
        load(path, repair=False)
    assert caught.value.line is not None


def test_repaired_values(put):
    """Repairs do what they say: the massless leaf gets a gram, the broken inertia the nearest possible."""
    broken = SOLID.replace('izz="1"', 'izz="5"')
    model, _ = warned(put(link("a", broken) + link("b", "") + joint("j", "a", "b")))
    np.testing.assert_allclose(model.body("a").inertia, np.diag([1, 1, 2]))
    assert model.body("b").mass == 1e-3
    np.testing.assert_allclose(model.body("b").inertia, np.eye(3) * 0.4 * 1e-3 * 0.01**2)


def test_massless_links_that_may_be(put, quiet):
    """Links without mass stay so where they are fixed, or carry something that has mass."""
    path = put(
        link("a", "") + link("b", "") + link("c") + link("tip", "") + joint("ab", "a", "b")
        + joint("bc", "b", "c", inside=TURNS + '<axis xyz="0 0 1"/>') + joint("ct", "c", "tip", "fixed", "")
    )  # fmt: skip
    model = load(path, repair=False)
    assert [model.body(name).mass for name in ("a", "b", "c", "tip")] == [0, 0, 2, 0]


def test_point_mass_on_its_axis(put):
    """A point mass on its joint's axis gets a small inertia, or is refused; one off the axis is kept."""
    point = '<inertial><origin xyz="{} 0 0"/><mass value="1"/><inertia ixx="0" iyy="0" izz="0"/></inertial>'
    inside = TURNS + '<axis xyz="0 0 1"/>'
    path = put(link("a") + link("b", point.format(0)) + joint("j", "a", "b", inside=inside))
    model, texts = warned(path)
    assert len(texts) == 1 and 'link "b" has too little inertia' in texts[0]
    assert model.body("b").inertia[2, 2] == pytest.approx(4e-5)
    with pytest.raises(FileError, match='"j" has no inertia'):
        load(path, repair=False)
    model, texts = warned(put(link("a") + link("b", point.format(0.5)) + joint("j", "a", "b", inside=inside)))
    assert texts == [] and not model.body("b").inertia.any()


def test_rounding_noise_in_an_inertia_is_no_fault(put, quiet):
    """Moments of 1e-20 left over from a conversion are zero, not a broken inertia."""
    noise = '<inertial><mass value="1"/><inertia ixx="1e-20" iyy="0" izz="0" ixy="2e-20"/></inertial>'
    assert not load(put(link("a", noise)), repair=False).body("a").inertia.any()


def test_foreign_elements(put):
    """Hardware, simulator and sensor elements are passed over; unknown ones are named once per file."""
    silent = '<transmission name="t"/><gazebo><x/></gazebo><sensor/>' + ARM.replace("<limit", "<calibration/><limit")
    assert warned(put(silent))[1] == []
    odd = link("a", SOLID + "<odd/>") + link("b", SOLID + "<odd/>") + joint("j", "a", "b", inside=TURNS + "<odder/>")
    path = put(odd + "<xacro:macro/><oddest/>")
    _, texts = warned(path)
    assert len(texts) == 1 and texts[0].startswith(f"{path}: unknown elements")
    for word in ("link/odd (line 2, 3)", "joint/odder (line 4)", "robot/xacro:macro", "robot/oddest"):
        assert word in texts[0]


def test_robot_without_a_name_takes_the_file_name(put, quiet):
    """A nameless robot is called after its file."""
    assert load(put(f'<?xml version="1.0"?><robot>{ARM}</robot>', "walker.urdf")).name == "walker"


RING = link("a") + link("b") + link("c") + joint("ab", "a", "b") + joint("bc", "b", "c") + joint("ca", "c", "a")
BAD = {
    "empty file": ('<?xml version="1.0"?>', "no element"),
    "broken": ("<link", "not well-formed"),
    "DOCTYPE": ('<?xml version="1.0"?>\n<!DOCTYPE robot [<!ENTITY a "b">]>\n<robot/>', "DOCTYPE"),
    "wrong format": ('<?xml version="1.0"?><mujoco/>', "starts with <robot>, this file with <mujoco>"),
    "no link": ("", "no link"),
    "nameless link": ("<link/>", "name of a link"),
    "unprintable": ('<link name="a&#10;b"/>', "name of a link"),
    "two links": (link("a") + link("b") + link("a"), 'link "a" exists already, at line 2'),
    "two joints": (RING.replace('"bc"', '"ab"'), 'joint "ab" exists already'),
    "nameless joint": (ARM.replace(' name="shoulder"', ""), "name of a joint"),
    "unknown type": (ARM.replace("revolute", "revolving"), 'unknown joint type "revolving"; types are rev'),
    "no type": (ARM.replace(' type="revolute"', ""), "unknown joint type"),
    "unknown child": (ARM.replace('child link="upper"', 'child link="uper"'), 'no link "uper".*base, upper'),
    "unknown parent": (ARM.replace('parent link="base"', 'parent link="bass"'), 'no link "bass"'),
    "no child": (ARM.replace('<child link="upper"/>', ""), "names no child"),
    "two roots": (ARM + link("x") + link("y"), '3 root links: "base" .line 2., "x"'),
    "two parents": (RING.replace('child link="a"', 'child link="b"'), 'link "b" has two parents.*"ab".*"ca"'),
    "cycle": (RING, '"a" -> "b" -> "c" -> "a"|"b" -> "c" -> "a" -> "b"|"c" -> "a" -> "b" -> "c"'),
    "cycle beside": (ARM + RING, "cycle"),
    "itself": (link("a") + link("b") + joint("j", "b", "b"), 'cycle: "b" -> "b"'),
    "world not root": (link("a") + link("world") + joint("j", "a", "world"), '"world" is the ground'),
    "NaN mass": (link("a", SOLID.replace('"2"', '"nan"')), "mass|value.*finite"),
    "infinite mass": (link("a", SOLID.replace('"2"', '"inf"')), "finite"),
    "negative mass": (link("a", SOLID.replace('"2"', '"-2"')), "mass must be >= 0"),
    "NaN inertia": (link("a", SOLID.replace('ixx="1"', 'ixx="NaN"')), "ixx.*finite"),
    "NaN origin": (ARM.replace("<limit", '<origin xyz="0 nan 0"/><limit'), "xyz.*finite"),
    "huge origin": (ARM.replace("<limit", '<origin xyz="0 1e200 0"/><limit'), "xyz.*below"),
    "NaN limit": (ARM.replace('"-1"', '"nan"'), "lower.*must be a number"),
    "NaN size": (link("a", SOLID + VISUAL.format('<sphere radius="nan"/>')), "radius.*finite"),
    "words": (ARM.replace("<limit", '<origin xyz="one two three"/><limit'), "must be numbers"),
    "underscores": (link("a", SOLID.replace('"2"', '"1_000"')), "must be numbers"),
    "too few": (ARM.replace("<limit", '<origin xyz="1 2"/><limit'), "must be 3 numbers, got 2"),
    "xacro": (ARM.replace('"-1"', '"${-pi}"'), "run xacro"),
    "zero axis": (ARM.replace("<limit", '<axis xyz="0 0 0"/><limit'), 'joint "shoulder" must not be zero'),
    "restitution": (link("a", SOLID + '<contact><restitution value="2"/></contact><collision><geometry>'
                    '<sphere radius="1"/></geometry></collision>'), "restitution"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused_by_name(put, name):
    """What cannot be a model raises an error that names file, line and thing, and never anything else."""
    content, word = BAD[name]
    path = put(content)
    for repair in (True, False):
        with pytest.raises(FileError, match=word) as caught:
            load(path, repair=repair)
        assert caught.value.line is not None and str(caught.value).startswith(f"{path}:{caught.value.line}: ")


def test_missing_file_and_folder(tmp_path):
    """A path that is no file is refused by name."""
    (tmp_path / "folder.urdf").mkdir()
    for name, word in (("none.urdf", "no such file"), ("folder.urdf", "folder")):
        for reader in (load, urdf.read):
            with pytest.raises(FileError, match=word):
                reader(tmp_path / name)


def test_warnings_point_at_the_caller(put):
    """A warning of `load` is reported at the line that called it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load(put(link("a", "<inertial/>")))
    assert [one.filename for one in caught] == [__file__]


def test_long_chain(put, quiet):
    """A chain of thousands of links needs no recursion."""
    count = 5000
    parts = [link("l0")]
    parts += [link(f"l{i}") + joint(f"j{i}", f"l{i - 1}", f"l{i}") for i in range(1, count)]
    model = load(put("".join(parts)))
    assert model.body_count == count and model.nv == count - 1


def test_damaged_files_never_crash(put):
    """Random damage gives a model or a `ModelError`, nothing else."""
    shape = '<visual><origin xyz="1 2 3"/><geometry><box size="1 1 1"/></geometry></visual>'
    inside = '<origin xyz="1 2 3" rpy="0.1 0.2 0.3"/><axis xyz="0 0 1"/><mimic joint="shoulder"/>' + TURNS
    whole = put(ARM + link("c", SOLID + shape) + joint("j", "upper", "c", inside=inside)).read_bytes()
    words = whole.replace(b'"', b" ").split()
    chance, path, good = random.Random(11), put(""), 0
    for _ in range(600):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(data))
            cut = slice(at, at + chance.choice((0, 1, 1, 30)))
            data[cut] = chance.choice((b"", b"-", b"9", b"e300", b"nan", b'"', b"<", b" ", chance.choice(words)))
        path.write_bytes(bytes(data))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ModelWarning)
            try:
                good += bool(load(path))
            except ModelError:
                pass
    assert good > 10
