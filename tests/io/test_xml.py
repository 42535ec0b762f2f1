"""Safe XML and the folders files may come from."""

from __future__ import annotations

import os

import pytest

from limberjack.errors import FileError
from limberjack.io.xml import Roots, read_bytes, read_xml


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_tree_keeps_tags_attributes_text_order_and_lines(tmp_path):
    """Every element comes back as written, in order, with the line it starts on."""
    text = '<?xml version="1.0"?>\n<a x="1">\n  <b y="2"\n     z="3"/>\n  one <c/> two\n  <b/>\n</a>\n'
    root = read_xml(write(tmp_path / "a.xml", text))
    assert (root.tag, root.attributes, root.line) == ("a", {"x": "1"}, 2)
    assert [(node.tag, node.line) for node in root.children] == [("b", 3), ("c", 5), ("b", 6)]
    assert root.text.split() == ["one", "two"]
    assert root.first("b").attributes == {"y": "2", "z": "3"}
    assert [node.line for node in root.all("b")] == [3, 6]
    assert root.first("none") is None and root.get("none", "default") == "default"
    assert [node.tag for node in root.walk()] == ["a", "b", "c", "b"]


def test_long_text_is_whole(tmp_path):
    """Text much longer than the parser's buffer keeps every word apart."""
    words = [str(i) for i in range(400_000)]
    assert read_xml(write(tmp_path / "a.xml", f"<a>{' '.join(words)}</a>")).text.split() == words


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1", "windows-1252"])
def test_encodings(tmp_path, encoding):
    """Declared one-byte encodings and Unicode with a mark are read."""
    text = f'<?xml version="1.0" encoding="{encoding.removesuffix("-sig")}"?><a name="Gelenk für"/>'
    assert read_xml(write(tmp_path / "a.xml", text.encode(encoding))).get("name") == "Gelenk für"


@pytest.mark.parametrize(
    ("content", "line", "word"),
    [
        ("", 1, "no element"),
        ("<a>\n<b>\n</a>", 3, "mismatched tag"),
        ("<a>\n", 2, "no element"),
        ('<a x="1" x="2"/>', 1, "duplicate attribute"),
        ("<a/>\n<b/>", 2, "junk"),
        ("<a>\n&unknown;</a>", 2, "undefined entity"),
        (b"<a>\n\xff\xfe</a>", 2, "invalid token"),
        (b'<?xml version="1.0" encoding="klingon"?><a/>', 1, "encoding"),
        (b'<?xml version="1.0" encoding="shift_jis"?><a/>', 1, "encoding"),
        (b"\x00\x01\x02", 1, "invalid token"),
        ("<!DOCTYPE a>\n<a/>", 1, "DOCTYPE"),
        ('<?xml version="1.0"?>\n<!DOCTYPE a SYSTEM "http://example.org/a.dtd">\n<a/>', 2, "DOCTYPE"),
        ('\n<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>\n<a>&x;</a>', 2, "DOCTYPE"),
        ('<!DOCTYPE a [<!ENTITY x "xxxxxxxxxx"><!ENTITY y "&x;&x;&x;">]><a>&y;</a>', 1, "DOCTYPE"),
    ],
)
def test_bad_xml_is_refused_with_its_line(tmp_path, content, line, word):
    """Malformed text, unknown encodings and any DOCTYPE raise an error that names file and line."""
    path = write(tmp_path / "bad.xml", content)
    with pytest.raises(FileError, match=word) as caught:
        read_xml(path)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"{path}:{line}: ")


def test_doctype_is_found_in_utf16(tmp_path):
    """A declaration is refused in whatever encoding it hides."""
    with pytest.raises(FileError, match="DOCTYPE"):
        read_xml(write(tmp_path / "a.xml", '<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>'.encode("utf-16")))


def test_deep_nesting_needs_no_recursion(tmp_path):
    """A tree nested 100,000 deep is read, walked and dropped."""
    depth = 100_000
    root = read_xml(write(tmp_path / "deep.xml", "<a>" * depth + "</a>" * depth))
    assert sum(1 for _ in root.walk()) == depth
    del root


def test_only_regular_files_of_bounded_size(tmp_path):
    """Missing files, folders, devices, pipes and files over the cap are refused without waiting on them."""
    big = write(tmp_path / "big.xml", b"<a/>" + b" " * 1000)
    pipe = tmp_path / "pipe.xml"
    os.mkfifo(pipe)
    for path, word in ((tmp_path / "none.xml", "no such file"), (tmp_path, "folder"), (pipe, "regular file")):
        with pytest.raises(FileError, match=word):
            read_xml(path)
    with pytest.raises(FileError, match="larger than"):
        read_bytes(big, 1000)
    assert len(read_bytes(big, 1004)) == 1004


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    """A workspace with packages, a model file in one of them, and a secret outside."""
    for name in ("ROS_PACKAGE_PATH", "AMENT_PREFIX_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for place in (
        "ws/arm/urdf/arm.urdf",
        "ws/arm/urdf/meshes/a.stl",
        "ws/arm/meshes/b.stl",
        "ws/arm/meshes/with space.stl",
        "ws/hand/meshes/c.stl",
        "ros/tool/meshes/d.stl",
        "ament/share/base/meshes/e.stl",
        "home/.ssh/key.stl",
        "home/models/alone.urdf",
        "secret/s.stl",
    ):
        write(tmp_path / place, "x")
    return tmp_path


def test_references_lead_where_they_should(workspace, monkeypatch):
    """Relative paths, URIs and packages at, above, beside and in the environment's paths are all found."""
    monkeypatch.setenv("ROS_PACKAGE_PATH", f"/nowhere{os.pathsep}{workspace / 'ros'}")
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(workspace / "ament"))
    roots = Roots(workspace / "ws/arm/urdf/arm.urdf")
    wanted = {
        "meshes/a.stl": "ws/arm/urdf/meshes/a.stl",
        "./meshes/../meshes/a.stl": "ws/arm/urdf/meshes/a.stl",
        "meshes\\a.stl": "ws/arm/urdf/meshes/a.stl",
        "file://meshes/a.stl": "ws/arm/urdf/meshes/a.stl",
        f"file://{workspace}/ws/arm/urdf/meshes/a.stl": "ws/arm/urdf/meshes/a.stl",
        f"file://localhost{workspace}/ws/arm/urdf/meshes/a.stl": "ws/arm/urdf/meshes/a.stl",
        f"{workspace}/ws/arm/urdf/meshes/a.stl": "ws/arm/urdf/meshes/a.stl",
        "package://arm/meshes/b.stl": "ws/arm/meshes/b.stl",
        "package:///arm/meshes/b.stl": "ws/arm/meshes/b.stl",
        "model://arm/meshes/b.stl": "ws/arm/meshes/b.stl",
        "$(find arm)/meshes/b.stl": "ws/arm/meshes/b.stl",
        "file://$(find arm)/meshes/b.stl": "ws/arm/meshes/b.stl",
        "package://arm/meshes/with%20space.stl": "ws/arm/meshes/with space.stl",
        "package://hand/meshes/c.stl": "ws/hand/meshes/c.stl",
        "package://tool/meshes/d.stl": "ros/tool/meshes/d.stl",
        "package://base/meshes/e.stl": "ament/share/base/meshes/e.stl",
    }
    for reference, place in wanted.items():
        assert roots.resolve(reference, 7) == (workspace / place).resolve(), reference


def test_package_paths_and_extra_roots(workspace):
    """Declared folders are searched first, by the name of a folder in them or by their own name."""
    write(workspace / "mine/hand/meshes/c.stl", "x")
    file = workspace / "ws/arm/urdf/arm.urdf"
    for paths in ([workspace / "mine"], [workspace / "mine/hand"]):
        found = Roots(file, (), paths).resolve("package://hand/meshes/c.stl", 1)
        assert found == (workspace / "mine/hand/meshes/c.stl").resolve()
    assert Roots(file, [workspace / "secret"]).resolve("s.stl", 1) == (workspace / "secret/s.stl").resolve()
    assert Roots(file, [workspace]).resolve("../../../secret/s.stl", 1) == (workspace / "secret/s.stl").resolve()
    # A package whose folder has another name is found by what stands in it.
    renamed = Roots(file, [workspace / "ws/hand"]).resolve("package://hand_description/meshes/c.stl", 1)
    assert renamed == (workspace / "ws/hand/meshes/c.stl").resolve()


def test_own_package_is_a_root(workspace):
    """A file inside a folder with package.xml may use all of that package by relative paths."""
    roots = Roots(workspace / "ws/arm/urdf/arm.urdf")
    with pytest.raises(FileError, match="outside"):
        roots.find("../meshes/b.stl", 3)
    write(workspace / "ws/arm/package.xml", "<package/>")
    assert Roots(workspace / "ws/arm/urdf/arm.urdf").find("../meshes/b.stl", 3) is not None


@pytest.mark.parametrize(
    "reference",
    [
        "../../../secret/s.stl",
        "{0}/secret/s.stl",
        "file://{0}/secret/s.stl",
        "file://{0}/ws/arm/urdf/../../../secret/s.stl",
        "package://arm/../../secret/s.stl",
        "package://arm/%2e%2e/%2e%2e/secret/s.stl",
        "$(find arm)/../../secret/s.stl",
        "meshes/link.stl",
        "/dev/null",
        "file:///dev/zero",
    ],
)
def test_escapes_are_refused(workspace, reference):
    """Whatever ends outside the declared folders, links followed, is refused with the way to allow it."""
    file = workspace / "ws/arm/urdf/arm.urdf"
    (workspace / "ws/arm/urdf/meshes/link.stl").symlink_to(workspace / "secret/s.stl")
    reference = reference.format(workspace)
    with pytest.raises(FileError) as caught:
        Roots(file).find(reference, 12)
    assert str(caught.value).startswith(f"{file}:12: ")
    assert reference in str(caught.value) and "pass roots=[...]" in str(caught.value)


def test_home_and_system_folders_are_no_packages(workspace):
    """A file cannot turn the home folder, or what lies in it, into a package unless it is marked as one."""
    roots = Roots(workspace / "home/models/alone.urdf")
    for reference in ("package://home/.ssh/key.stl", "package://.ssh/key.stl", "package://etc/passwd"):
        assert roots.find(reference, 1) is None
    write(workspace / "home/.ssh/package.xml", "<package/>")
    assert Roots(workspace / "home/models/alone.urdf").find("package://.ssh/key.stl", 1) is not None


def test_devices_inside_a_root_are_refused(workspace):
    """A pipe in an allowed folder is not opened."""
    os.mkfifo(workspace / "ws/arm/urdf/meshes/pipe.stl")
    with pytest.raises(FileError, match="regular file"):
        Roots(workspace / "ws/arm/urdf/arm.urdf").find("meshes/pipe.stl", 2)


@pytest.mark.parametrize(
    "reference",
    [
        "",
        ".",
        "meshes",
        "none.stl",
        "package://",
        "package://nobody/x.stl",
        "package://../x.stl",
        "http://a.b/c.stl",
    ]
    + [
        "file:///no/such/file.stl",
        "a\0b",
        "package://a\0b/c",
        "x" * 5000,
        "loop.stl",
        "$(find nobody)/x.stl",
    ],
)
def test_missing_is_none_or_an_error(workspace, reference):
    """What does not exist is None to `find` and an error with line and reference to `resolve`."""
    (workspace / "ws/arm/urdf/loop.stl").symlink_to("loop.stl")
    roots = Roots(workspace / "ws/arm/urdf/arm.urdf")
    assert roots.find(reference, 5) is None
    with pytest.raises(FileError, match="not found") as caught:
        roots.resolve(reference, 5)
    assert caught.value.line == 5
