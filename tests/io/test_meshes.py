"""Mesh readers against trimesh, hand-written files and damaged ones."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest
import trimesh

from limberjack import _registry
from limberjack.errors import FileError, MissingExtra
from limberjack.io import mesh_files as meshes
from limberjack.model.shape_kinds import mesh_mass

COLLADA = """<?xml version="1.0"?>
<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
  <asset><unit meter="{unit}" name="x"/><up_axis>Y_UP</up_axis></asset>
  <library_geometries><geometry id="g"><mesh>
    <source id="p"><float_array id="pa" count="12">0 0 0  1 0 0  1 1 0  0 1 0</float_array>
      <technique_common><accessor source="#pa" count="4" stride="3"/></technique_common></source>
    <source id="n"><float_array id="na" count="3">0 0 1</float_array></source>
    <vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
    {primitive}
  </mesh></geometry></library_geometries>
  {scene}
</COLLADA>"""
INPUTS = '<input semantic="NORMAL" source="#n" offset="1"/><input semantic="VERTEX" source="#v" offset="0"/>'
TRIANGLES = f"<triangles count='2'>{INPUTS}<p>0 0 1 0 2 0  0 0 2 0 3 0</p></triangles>"


def shapes():
    """Closed meshes of several kinds, off their origin."""
    turn = trimesh.transformations.rotation_matrix(0.7, (1, 2, 3), (0.1, 0.2, 0.3))
    out = {
        "box": trimesh.creation.box((0.2, 0.5, 1.0)),
        "ball": trimesh.creation.icosphere(3, 0.4),
        "ring": trimesh.creation.annulus(0.2, 0.5, 0.3),
        "cone": trimesh.creation.cone(0.3, 0.8),
    }
    for mesh in out.values():
        mesh.apply_transform(turn)
        mesh.apply_translation((0.3, -2.0, 1.0))
    return out


def area(vertices, faces):
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    return np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2


@pytest.mark.parametrize("name", shapes())
@pytest.mark.parametrize("kind", ["stl", "stl_ascii", "obj", "dae", "ply", "off", "glb"])
def test_formats_agree_with_trimesh(tmp_path, name, kind):
    """A closed mesh survives each format: closed again, with the same area, volume, centroid and inertia."""
    mesh = shapes()[name]
    path = tmp_path / f"mesh.{kind.split('_')[0]}"
    mesh.export(path, file_type=kind)
    vertices, faces = meshes.read(path)
    assert vertices.dtype == np.float64 and faces.dtype == np.int64
    assert len(vertices) == len(mesh.vertices) and len(faces) == len(mesh.faces)
    assert trimesh.Trimesh(vertices, faces, process=False).is_volume
    volume, centroid, inertia = mesh_mass(vertices, faces)
    # Formats of single precision, and ASCII ones of few digits, lose what they lose.
    close = dict(rtol=3e-5, atol=3e-6)
    np.testing.assert_allclose(area(vertices, faces), mesh.area, **close)
    np.testing.assert_allclose(volume, mesh.volume, **close)
    np.testing.assert_allclose(centroid, mesh.center_mass, **close)
    np.testing.assert_allclose(inertia, mesh.moment_inertia, **close)


@pytest.mark.parametrize("name", shapes())
def test_mass_of_a_mesh_agrees_with_trimesh(name):
    """Volume, centroid and inertia by signed tetrahedra match trimesh's to rounding, inside out as well."""
    mesh = shapes()[name]
    for faces in (mesh.faces, mesh.faces[:, ::-1]):
        volume, centroid, inertia = mesh_mass(np.array(mesh.vertices), np.array(faces))
        np.testing.assert_allclose(volume, mesh.volume, rtol=1e-12)
        np.testing.assert_allclose(centroid, mesh.center_mass, rtol=1e-12)
        np.testing.assert_allclose(inertia, mesh.moment_inertia, rtol=1e-10, atol=1e-12)


def test_obj_polygons_slashes_and_relative_numbers(tmp_path):
    """Polygons are cut into fans, words for display are passed over, and -1 is the last vertex."""
    path = tmp_path / "a.obj"
    path.write_text(
        "# a comment\nmtllib x.mtl\no thing\nv 0 0 0\nv 1 0 0 1.0\nv 1 1 0 0.1 0.2 0.3\n"
        "v\t0 1 0\nvn 0 0 1\nvt 0 0\n"
        "usemtl y\ns off\nf 1/1/1 2//1 3/1 \\\n 4\nf 1 2\nl 1 2\nv 0 0 1\r\nf -1 -5 -4\n"
    )
    vertices, faces = meshes.read(path)
    assert vertices.tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1]]
    assert faces.tolist() == [[0, 1, 2], [0, 2, 3], [4, 0, 1]]


def test_equal_vertices_are_one(tmp_path):
    """Vertices at one place are shared, zeros of both signs alike; unused vertices and flat triangles go."""
    path = tmp_path / "a.obj"
    path.write_text("v 9 9 9\nv 0 0 0\nv 1 0 0\nv 0 1 0\nv -0.0 0 0\nv 1 0 0\nv 0 0 1\nf 2 3 4\nf 5 7 6\nf 2 5 3\n")
    vertices, faces = meshes.read(path)
    assert vertices.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert faces.tolist() == [[0, 1, 2], [0, 3, 1]]


def test_binary_stl_that_says_solid(tmp_path):
    """A binary STL whose header starts like a text one is read as binary."""
    path = tmp_path / "a.stl"
    triangle = struct.pack("<12fH", 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0)
    path.write_bytes(b"solid but binary".ljust(80) + struct.pack("<I", 1) + triangle)
    vertices, faces = meshes.read(path)
    assert vertices.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]] and faces.tolist() == [[0, 1, 2]]


@pytest.mark.parametrize(
    "primitive",
    [
        TRIANGLES,
        f"<polylist count='1'>{INPUTS}<vcount>4</vcount><p>0 0 1 0 2 0 3 0</p></polylist>",
        f"<polygons count='1'>{INPUTS}<p>0 0 1 0 2 0 3 0</p></polygons>",
        f"<trifans count='1'>{INPUTS}<p>0 0 1 0 2 0 3 0</p></trifans>",
        f"<tristrips count='1'>{INPUTS}<p>1 0 2 0 0 0 3 0</p></tristrips>",
        f"<lines count='1'>{INPUTS}<p>0 0 1 0</p></lines>{TRIANGLES}",
    ],
)
def test_collada_primitives(tmp_path, primitive):
    """A square is the same area facing up, whichever primitive draws it."""
    path = tmp_path / "a.dae"
    path.write_text(COLLADA.format(unit=1, primitive=primitive, scene=""))
    vertices, faces = meshes.read(path)
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    np.testing.assert_allclose(np.cross(b - a, c - a).sum(axis=0), (0, 0, 2))
    assert len(faces) == 2


def test_collada_scene_places_instances(tmp_path):
    """Transforms apply in order, instances repeat, mirrors keep faces outward, and the unit scales all."""
    scene = """<library_nodes>
      <node id="lib"><scale>-1 1 1</scale><instance_geometry url="#g"/></node>
    </library_nodes>
    <library_visual_scenes><visual_scene id="s">
      <node><translate>0 0 5</translate><rotate>0 0 1 90</rotate><instance_geometry url="#g"/></node>
      <node><matrix>1 0 0 10 0 1 0 0 0 0 1 0 0 0 0 1</matrix><node><instance_node url="#lib"/></node></node>
    </visual_scene></library_visual_scenes><scene><instance_visual_scene url="#s"/></scene>"""
    path = tmp_path / "a.dae"
    path.write_text(COLLADA.format(unit=0.01, primitive=TRIANGLES, scene=scene))
    vertices, faces = meshes.read(path)
    assert len(faces) == 4 and len(vertices) == 8
    np.testing.assert_allclose(vertices[:4] * 100, [[0, 0, 5], [0, 1, 5], [-1, 1, 5], [-1, 0, 5]], atol=1e-12)
    assert set(np.round(vertices[4:, 0] * 100, 9)) == {10.0, 9.0}
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    assert (np.cross(b - a, c - a)[:, 2] > 0).all()


def test_collada_cannot_explode(tmp_path):
    """Instances of instances, in a ring or doubling each level, end in an error."""
    ring = '<library_nodes><node id="n"><instance_node url="#n"/></node></library_nodes>'
    levels = "".join(
        f'<node id="n{i}"><instance_node url="#n{i + 1}"/><instance_node url="#n{i + 1}"/></node>' for i in range(60)
    )
    double = f'<library_nodes>{levels}<node id="n60"/></library_nodes>'
    for nodes, start in ((ring, "n"), (double, "n0")):
        path = tmp_path / "a.dae"
        scene = f'<visual_scene><instance_node url="#{start}"/></visual_scene>'
        scene = f"{nodes}<library_visual_scenes>{scene}</library_visual_scenes>"
        path.write_text(COLLADA.format(unit=1, primitive=TRIANGLES, scene=scene))
        with pytest.raises(FileError, match="without end"):
            meshes.read(path)


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("a.stl", b"", "cut short"),
        ("a.stl", b"\0" * 84, "no triangles"),
        ("a.stl", b"\0" * 80 + b"\xff\xff\xff\xff" + b"\0" * 500, "cut short"),
        ("a.stl", b"solid x\nendsolid x", "no triangles"),
        ("a.stl", b"solid x\nfacet\nvertex 0 0 0\nvertex 1 0 0\nendfacet", "whole number"),
        ("a.stl", b"solid x\nvertex 0 0 zero vertex 1 0 0 vertex 1 1 1", "not a number"),
        ("a.stl", b"solid x\nvertex 0 0 nan vertex 1 0 0 vertex 1 1 1", "finite"),
        ("a.obj", b"", "no triangles"),
        ("a.obj", b"\x89PNG\r\n\x1a\n\0\0", "no triangles"),
        ("a.obj", b"v 0 0 0\nv 1 0\n", "fewer than 3"),
        ("a.obj", b"v 0 0 x\n", "not a number"),
        ("a.obj", b"v 0 0 0\nf 1 2 3\n", "names vertex 2, there are 1"),
        ("a.obj", b"v 0 0 0\nf 1 1 -4\n", "names vertex"),
        ("a.obj", b"v 0 0 0\nf 0 1 1\n", "no list of vertices"),
        ("a.obj", b"v 0 0 0\nf a b c\n", "no list of vertices"),
        ("a.obj", b"v 0 0 0\nv 1 0 0\nv 0 inf 0\nf 1 2 3\n", "finite"),
        ("a.dae", b"", "XML"),
        ("a.dae", b"<COLLADA/>", "no triangles"),
        ("a.dae", b"<!DOCTYPE x><COLLADA/>", "DOCTYPE"),
        ("a.dae", COLLADA.format(unit=1, primitive="<triangles/>", scene="").encode(), "without VERTEX"),
        ("a.dae", COLLADA.format(unit="one", primitive=TRIANGLES, scene="").encode(), "no readable"),
        (
            "a.dae",
            COLLADA.format(unit=1, primitive=TRIANGLES.replace("3 0", "3 x"), scene="").encode(),
            "no number",
        ),
        (
            "a.dae",
            COLLADA.format(unit=1, primitive=TRIANGLES.replace("#v", "#w"), scene="").encode(),
            "not there",
        ),
        ("a.ply", b"ply\nformat ascii 1.0\nelement vertex 3\n", "no readable ply"),
        ("a.glb", b"glTF" + b"\0" * 40, "no readable glb"),
        (
            "a.gltf",
            b'{"buffers": [{"uri": "/etc/passwd", "byteLength": 10}], "meshes": []}',
            "gltf|triangles",
        ),
        ("a.blend", b"x", "no mesh reader"),
        ("a", b"x", "no mesh reader"),
    ],
)
def test_junk_is_refused_by_name(tmp_path, name, content, word):
    """Whatever is no mesh raises an error that names the file."""
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(FileError, match=word) as caught:
        meshes.read(path)
    assert str(path) in str(caught.value)


def test_missing_file_folder_and_extra(tmp_path, monkeypatch):
    """A missing file is named; without trimesh the formats that need it name the extra, STL loads."""
    with pytest.raises(FileError, match="no such file"):
        meshes.read(tmp_path / "none.stl")
    shapes()["box"].export(tmp_path / "a.ply")
    shapes()["box"].export(tmp_path / "a.stl")
    monkeypatch.setitem(__import__("sys").modules, "trimesh", None)
    with pytest.raises(MissingExtra, match=r"limberjack\[mesh\]"):
        meshes.read(tmp_path / "a.ply")
    assert len(meshes.read(tmp_path / "a.stl")[1]) == 12


def test_registry_knows_the_readers():
    """The registry, through which models ask for meshes, leads here."""
    for suffix in (".stl", ".obj"):
        assert _registry.lookup("mesh reader", f"x{suffix.upper()}") is meshes.read


@pytest.mark.parametrize("kind", ["stl", "stl_ascii", "obj", "dae"])
def test_damaged_files_never_crash(tmp_path, kind):
    """Random damage gives a mesh or a `FileError`, nothing else."""
    path = tmp_path / f"a.{kind.split('_')[0]}"
    shapes()["box"].export(path, file_type=kind)
    whole, chance = path.read_bytes(), random.Random(5)
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 6)):
            at = chance.randrange(len(data))
            cut = slice(at, at + chance.choice((0, 1, 1, 20)))
            data[cut] = chance.choice((b"", b"-", b"9", b" ", b"e9", b"nan", b"<", bytes(chance.randbytes(3))))
        path.write_bytes(bytes(data[: chance.choice((len(data), chance.randrange(1, len(data) + 1)))]))
        try:
            vertices, faces = meshes.read(path)
        except FileError:
            continue
        assert np.isfinite(vertices).all() and (faces >= 0).all() and (faces < len(vertices)).all()
