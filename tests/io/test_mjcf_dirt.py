"""MJCF files that are broken, hostile or merely odd: named errors, no file outside the model, no crash."""

from __future__ import annotations

import random
import struct
import sys

import numpy as np
import pytest
from tests.io.mjcf_help import (
    JOINTS,
    TET,
    TWO,
    mjcf,
    nested,
    quiet,
    read,
    write,
)

from limberjack.errors import FileError, LimberjackError, MissingExtra, ModelWarning
from limberjack.io import load

# -- dirt ------------------------------------------------------------------------------------------------

DEEP = "<body><joint/><geom size='.1'/>" * 600 + "</body>" * 600


@pytest.mark.parametrize(
    ("world", "rest", "text"),
    [
        ('\n<body pos="0 nan 0"/>', "", r':4: <body>: pos="0 nan 0" must be finite'),
        ('<body name="b" pos="0 -INF 0"/>', "", r'<body name="b">: pos="0 -INF 0" must be finite'),
        ("", '<option gravity="0 0 infinity"/>', r':2: <option>: gravity="0 0 infinity" must be finite'),
        ("", '<default><geom size="nan(1)"/></default>', "must be finite"),
        ("", '<custom><numeric name="n" data="1 NaN"/></custom>', r'<numeric name="n">: data'),
        (TWO, '<option gravity="1e999 0 0"/>', "number is too large"),
        (DEEP, "", "nested .* deep; MuJoCo reads 496 bodies"),
        ("<body><joint/></body>", "", r"MuJoCo: .*mass and inertia of moving bodies"),
        ('<body><joint axis="0 0 0"/><geom size=".1"/></body>', "", "MuJoCo: "),
        ('<body><geom size=".1" mass="-1"/></body>', "", "MuJoCo: "),
        ("<nonsense/>", "", r":3: MuJoCo: XML Error: Schema violation"),
        ('<body name="a"/><body name="a"/>', "", "MuJoCo: .*repeated name 'a'"),
        ('<body name="a&#10;b"><geom size=".1"/></body>', "", "printable"),
        ('<replicate count="1000000000"><body/></replicate>', "", "<replicate> makes 1000000000 copies"),
        (
            '<replicate count="300"><replicate count="300"><body/></replicate></replicate>',
            "",
            "makes .* copies",
        ),
        ('<composite type="cable" count="100000 1 1"/>', "", "<composite> makes 100000 copies"),
        (
            "",
            '<asset><hfield name="h" nrow="100000" ncol="100000" size="1 1 1 1"/></asset>',
            "has 10000000000 cells",
        ),
        ("", '<asset><mesh file="https://x/y.obj"/></asset>', "is not the path of a file beside the model"),
        ("", '<asset><mesh file="a.obj "/></asset>', "is not the path of a file beside the model"),
        ("", '<asset><mesh file="none.obj"/></asset>', r':2: "none.obj" is not found'),
        ("", '<include file="none.xml"/>', r':2: <include file="none.xml"> is not found'),
        ("", "<include/>", ":2: <include> has no file"),
        ("", '<include file="m.xml"/>', '"m.xml" is included twice'),
        ("", '<asset><model file="m.xml"/></asset>', "models contain each other"),
        ("", '<asset><model file="none.xml"/></asset>', ":2: .*not found"),
        ("", "<option", ":3: not well-formed XML"),
    ],
)
def test_dirty_files_raise_with_file_and_line(tmp_path, world, rest, text):
    """Every broken file gives a FileError that starts with its name and says what is wrong."""
    path = mjcf(tmp_path, world, rest)
    with pytest.raises(FileError, match=text) as caught:
        load(path)
    assert str(caught.value).startswith(str(tmp_path))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "not well-formed"),
        (b"\x00\x01\x02", "not well-formed"),
        (b"<robot name='r'><link name='a'/></robot>", "root element is <robot>, not <mujoco>; a URDF"),
        (b"<!DOCTYPE mujoco [<!ENTITY a 'b'>]><mujoco/>", "DOCTYPE"),
        (b"<mujoco>" + b"<a>" * 100_000 + b"</a>" * 100_000 + b"</mujoco>", "nested 500 deep"),
        (
            "<?xml version='1.0' encoding='iso-8859-1'?><mujoco model='é'/>".encode("latin-1"),
            "MuJoCo reads UTF-8 alone",
        ),
        (b"<mujoco model='\xff'/>", "not UTF-8"),
    ],
)
def test_files_that_are_no_mjcf_raise(tmp_path, content, text):
    """Empty, binary, foreign and hostile files give a FileError, however deep they nest."""
    with pytest.raises(FileError, match=text):
        load(write(tmp_path / "a.xml", content))


def test_names_may_be_called_nan(tmp_path):
    """Names, classes and texts are no numbers."""
    world = '<body name="nan"><joint name="inf" class="nan"/><geom size=".1"/></body>'
    rest = (
        '<default><default class="nan"><joint damping="1"/></default></default>'
        '<custom><text name="x" data="nan"/></custom>'
    )
    assert read(tmp_path, world, rest)[0].body_names == ("nan",)


@pytest.mark.parametrize(
    "reference",
    [
        "../secret/t.obj",
        "ABSOLUTE",
        "link/t.obj",
        "..\\secret\\t.obj",
        "sub/../../secret/t.obj",
        "hop/../t.obj",
        "$(find a)/../../secret/t.obj",
    ],
)
@pytest.mark.parametrize("tag", ["mesh", "texture", "hfield", "include", "model", "skin"])
def test_files_outside_the_model_are_refused(tmp_path, tag, reference):
    """No path, with dots, backslashes, from the root or through links, leads out of the model's folder."""
    secret = write(tmp_path / "secret" / "t.obj", "<mujoco><asset/></mujoco>" if tag in ("include", "model") else TET)
    home = tmp_path / "home"
    write(home / "sub" / "x", "")
    (home / "link").symlink_to(tmp_path / "secret")
    write(tmp_path / "secret" / "in" / "x", "")
    (home / "hop").symlink_to(tmp_path / "secret" / "in")
    text = reference.replace("ABSOLUTE", str(secret))
    element = f'<{tag} file="{text}"/>'
    path = mjcf(home, "", element if tag == "include" else f"<asset>{element}</asset>")
    with pytest.raises(FileError, match=r"m\.xml:2: .*(outside the folders of this model|not found)"):
        load(path)


def test_roots_widen_where_files_may_come_from(tmp_path):
    """A mesh beside the model's folder loads once its folder is a root, and not before."""
    write(tmp_path / "shared" / "t.obj", TET)
    path = mjcf(
        tmp_path / "home",
        '<geom type="mesh" mesh="t"/>',
        '<asset><mesh name="t" file="../shared/t.obj"/></asset>',
    )
    with pytest.raises(FileError, match="outside"):
        load(path)
    assert len(load(path, roots=[tmp_path / "shared"]).shapes) == 1


def test_includes_and_submodels_are_followed(tmp_path):
    """Includes nest, sub-models bring their own folders, and errors name the file they are in."""
    write(tmp_path / "sub" / "meshes" / "t.obj", TET)
    write(
        tmp_path / "sub" / "s.xml",
        '<mujoco model="s"><compiler meshdir="meshes"/><asset><mesh file="t.obj"/></asset><worldbody>'
        '<body name="b"><joint name="j"/><geom type="mesh" mesh="t"/></body></worldbody></mujoco>',
    )
    write(tmp_path / "inc" / "i.xml", '<mujoco><include file="j.xml"/></mujoco>')
    write(tmp_path / "inc" / "j.xml", '<mujoco>\n<option gravity="0 0 -1"/></mujoco>')
    rest = '<include file="inc/i.xml"/><asset><model name="s" file="sub/s.xml"/></asset>'
    model, _ = read(tmp_path, '<attach model="s" body="b" prefix="p/"/>', rest)
    assert model.body_names == ("p/b",) and model.joint_names == ("p/j",) and model.gravity.tolist() == [0, 0, -1]
    write(tmp_path / "inc" / "j.xml", '<mujoco>\n<option gravity="0 0 nan"/></mujoco>')
    with pytest.raises(FileError, match=r"inc/j\.xml:2: <option>: gravity"):
        load(tmp_path / "m.xml")


def test_attaching_in_powers_is_refused(tmp_path):
    """Models that attach each other's copies over and over are counted before MuJoCo makes them."""
    write(tmp_path / "m0.xml", '<mujoco model="m0"><worldbody><body name="b"/></worldbody></mujoco>')
    for i in range(1, 6):
        copies = "".join(f'<attach model="s" body="b" prefix="{k}"/>' for k in range(10))
        write(
            tmp_path / f"m{i}.xml",
            f'<mujoco model="m{i}"><asset><model name="s" file="m{i - 1}.xml"/></asset>'
            f'<worldbody><body name="b">{copies}</body></worldbody></mujoco>',
        )
    with pytest.raises(FileError, match="elements by copying"):
        load(tmp_path / "m5.xml")


def test_pictures_are_not_unpacked(tmp_path):
    """A texture is not read at all; a height field that would unpack to billions of cells is refused."""
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBB", 13, b"IHDR", 60_000, 60_000, 8, 0, 0, 0, 0)
    write(tmp_path / "big.png", head)
    load(
        mjcf(
            tmp_path,
            "",
            '<asset><texture name="t" type="2d" file="big.png"/><material name="m" texture="t"/></asset>',
        )
    )
    load(
        mjcf(
            tmp_path,
            "",
            '<asset><texture type="skybox" builtin="gradient" width="50000" height="50000"/></asset>',
        )
    )
    with pytest.raises(FileError, match='"big.png" has 3600000000 cells'):
        load(mjcf(tmp_path, "", '<asset><hfield name="h" file="big.png" size="1 1 1 1"/></asset>'))


def test_broken_inertia_is_repaired_or_refused(tmp_path):
    """An inertia that no body can have is repaired with a warning, or refused on request."""
    body = '<body name="b">{}<inertial pos="0 0 0" mass="{}" diaginertia="{}"/></body>'
    path = mjcf(tmp_path, body.format("<joint/>", 1, "1 1 4"))
    with pytest.warns(ModelWarning, match=r"A \+ B >= C.*'b'.*; repaired"):
        assert np.array_equal(load(path).body("b").inertia, 2 * np.eye(3))
    with pytest.raises(FileError, match=r":3: MuJoCo: .*A \+ B >= C.*'b'"):
        load(path, repair=False)
    path = mjcf(tmp_path, body.format("", 0, "1 1 1"))
    with pytest.warns(ModelWarning, match='body "b": inertia without mass.*; repaired'):
        assert not load(path).body("b").inertia.any()
    with pytest.raises(FileError, match='body "b": inertia without mass'):
        load(path, repair=False)


def test_muscles_are_not_simulated_while_loading(tmp_path):
    """A muscle whose length range MuJoCo would search for by simulation loads, left out by name."""
    with pytest.warns(ModelWarning, match='actuators are left out.*: "a"'):
        load(mjcf(tmp_path, TWO, '<actuator><muscle name="a" joint="j"/></actuator>'))


def test_no_log_file_is_left(tmp_path, monkeypatch):
    """MuJoCo's habit of writing MUJOCO_LOG.TXT into the current folder does not reach the user."""
    monkeypatch.chdir(tmp_path)
    with pytest.warns(ModelWarning, match="settotalmass"):
        load(mjcf(tmp_path, TWO, '<compiler settotalmass="3"/>'))
    assert [file.name for file in tmp_path.iterdir()] == ["m.xml"]


def test_without_mujoco_the_extra_is_named(tmp_path, monkeypatch):
    """Where MuJoCo is not installed the error says what to install."""
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(MissingExtra, match=r"limberjack\[mjcf\]"):
        load(mjcf(tmp_path))


def test_mutations_raise_our_errors_or_load(tmp_path):
    """Random edits of a file that uses much of the format give a model or one of our errors, never else."""
    world = (
        '<geom type="plane" size="1 1 1"/>'
        + nested(*JOINTS["references"], *JOINTS["ball"])
        + '<replicate count="3"><geom size=".1"/></replicate>'
    )
    rest = (
        '<compiler angle="radian"/><option gravity="0 0 -9"/><default><joint damping="1"/></default>'
        '<asset><mesh name="t" file="t.obj"/></asset><equality><weld body1="b0" body2="b1"/></equality>'
        '<contact><exclude body1="b0" body2="b1"/></contact>'
    )
    write(tmp_path / "t.obj", TET)
    seed = mjcf(tmp_path, world, rest).read_text()
    rng = random.Random(5)
    loaded = 0
    for _ in range(400):
        text = list(seed)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(text))
            action = rng.randrange(4)
            if action == 0:
                text[at] = rng.choice("0123456789.-<>\"'/ eanif\x00\xe9")
            elif action == 1:
                del text[at : at + rng.randint(1, 20)]
            elif action == 2:
                text[at:at] = text[at : at + rng.randint(1, 60)]
            else:
                text[at:at] = list(rng.choice(["1e308", "-1", "nan", "9" * 20, "<body/>", 'pos="1"', "&#0;", "../"]))
        path = write(tmp_path / "fuzz.xml", "".join(text))
        try:
            quiet(path)
            loaded += 1
        except LimberjackError as error:
            assert str(error)
    assert 0 < loaded < 400
