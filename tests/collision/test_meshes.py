"""Meshes: what is refused and repaired, signed distances against oracles, and contacts of hulls and hollow bodies."""

from __future__ import annotations

import igl
import numpy as np
import pytest
from tests.collision.pairs import found, rotation
from tests.naive import solids

import limberjack as lj
from limberjack._jit import kernel
from limberjack.collision import mesh_sdf as grids
from limberjack.collision.detect import new_detector
from limberjack.collision.distance_fields import distance_from
from limberjack.collision.shapes import BOX, HULL, MESH
from limberjack.collision.surfaces import closed_surface, polygons_of
from limberjack.model.shape_kinds import mesh_mass

MESHES = {"torus": solids.torus(), "angle": solids.angle_iron()}


@kernel
def _distances(kind, points, frame, meshes, out):
    for k in range(len(points)):
        value, x, y, z = distance_from(kind, 0, 0, points[k, 0], points[k, 1], points[k, 2], frame, meshes)
        out[k, 0], out[k, 1], out[k, 2], out[k, 3] = value, x, y, z


def _detector(*shapes, plane=None):
    """Return the detector of free bodies, each with one shape: (vertices, faces), or keywords of a primitive."""
    builder = lj.Builder("meshes")
    for k, shape in enumerate(shapes):
        builder.add_body(f"b{k}", mass=1.0, inertia=(1.0, 1.0, 1.0))
        if isinstance(shape, dict):
            kind, *size = shape.values()
            getattr(builder, f"add_shape_{kind}")(f"b{k}", *size)
        else:
            builder.add_shape_mesh(f"b{k}", vertices=shape[0], faces=shape[1])
    if plane is not None:
        builder.add_shape_plane(position=(0.0, 0.0, plane))
    return new_detector(builder.build())


def _at(*positions):
    pose = np.zeros((len(positions), 7))
    pose[:, :3], pose[:, 3] = positions, 1.0
    return pose


def test_holes_are_refused():
    """A mesh with a face missing cannot collide: the error names it and counts its open edges."""
    vertices, faces = solids.box(1, 1, 1)
    with pytest.raises(lj.ModelError, match='mesh "lid" is not closed: 3 of 18 edges are open'):
        closed_surface(vertices, faces[1:], "lid")
    with pytest.raises(lj.ModelError, match="not closed"):
        _detector((vertices, faces[1:]))
    with pytest.raises(lj.ModelError, match="no volume"):
        closed_surface(vertices, np.concatenate([faces[:1], faces[:1, ::-1]]), "sheet")


def test_small_holes_are_filled_with_a_warning():
    """A torus with two faces missing here and one there, each small beside it, is closed again: its volume is whole."""
    vertices, faces = solids.torus(around=96, across=48)
    missing = np.delete(faces, [0, 1, 900], axis=0)
    with pytest.warns(lj.ModelWarning, match='mesh "ring": 2 small holes were filled'):
        surface = closed_surface(vertices, missing, "ring")
    assert len(surface.faces) == len(faces)
    assert mesh_mass(surface.vertices, surface.faces)[0] == pytest.approx(mesh_mass(vertices, faces)[0], rel=1e-4)


@pytest.mark.parametrize("wrong", [[0], [1, 5, 7], range(11)])
def test_flipped_faces_are_repaired_with_a_warning(wrong):
    """Faces with the wrong orientation are flipped back, whichever they are, and a warning counts them."""
    vertices, faces = solids.box(1, 2, 3)
    bad = faces.copy()
    bad[list(wrong)] = bad[list(wrong), ::-1]
    with pytest.warns(lj.ModelWarning, match='mesh "crate".* flipped'):
        surface = closed_surface(vertices, bad, "crate")
    volume, _, _ = mesh_mass(surface.vertices, surface.faces)
    assert volume == pytest.approx(6.0) and surface.convex
    a, b, c = (surface.vertices[surface.faces[:, k]] for k in range(3))
    assert (np.einsum("ij,ij->i", np.cross(b - a, c - a), a) > 0).all()


def test_an_inside_out_mesh_is_turned():
    """All faces oriented inward are flipped, with a warning. Soups of loose triangles are welded first, silently."""
    vertices, faces = solids.torus()
    with pytest.warns(lj.ModelWarning, match="oriented inward"):
        turned = closed_surface(vertices, faces[:, ::-1], "ring")
    soup = closed_surface(vertices[faces].reshape(-1, 3), np.arange(3 * len(faces)).reshape(-1, 3), "soup")
    assert len(soup.vertices) == len(vertices) == len(turned.vertices)


def test_a_strip_with_one_side_is_refused():
    """A closed surface that no turning of faces makes two-sided (a Klein bottle) is refused."""
    vertices, faces = solids.torus(around=8, across=8)
    grid = np.arange(64).reshape(8, 8)
    glued = faces.copy()
    # The seam of the torus glued the other way round.
    back = {int(grid[0, j]): int(grid[0, -j % 8]) for j in range(8)}
    seam = slice(7 * 16, 8 * 16)
    glued[seam] = [[back.get(int(v), int(v)) for v in face] for face in faces[seam]]
    with pytest.raises(lj.ModelError, match="one side"):
        closed_surface(vertices + np.random.default_rng(0).normal(0, 1e-3, vertices.shape), glued, "bottle")


def test_convex_meshes_are_known():
    """Boxes and tetrahedra are convex; angle irons, tori, and two boxes side by side are not."""
    one = solids.box(1, 2, 3)
    two = np.concatenate([one[0], one[0] + 5.0]), np.concatenate([one[1], one[1] + len(one[0])])
    assert closed_surface(*one, "box").convex
    assert not any(closed_surface(*mesh, "x").convex for mesh in (two, *MESHES.values()))
    polygons, normals = polygons_of(closed_surface(*one, "box"))
    assert sorted(len(polygon) for polygon in polygons) == [4] * 6
    assert np.allclose(np.sort(np.abs(normals), axis=1), [0, 0, 1])


@pytest.mark.parametrize("name", MESHES)
def test_grid_distances_are_those_of_all_triangles(name):
    """At its nodes a grid has the signed distance that all triangles and their solid angles give, near and far."""
    vertices, faces = MESHES[name]
    grid = grids.build_grid(closed_surface(vertices, faces, name), 24)
    index = np.random.default_rng(0).integers(0, grid.values.shape, (500, 3))
    truth = solids.mesh_distance(grid.origin + grid.step * index, vertices, faces)
    values = grid.values[tuple(index.T)]
    near = np.abs(truth) < 1.4 * grid.step
    assert (truth < 0).sum() > 20 and near.sum() > 50
    assert np.abs(values - truth)[near].max() < 1e-7
    assert np.abs(values - truth).max() < 0.2 * grid.step
    assert ((values < 0) == (truth < 0))[np.abs(truth) > 1e-6].all()


@pytest.mark.parametrize("name", MESHES)
def test_grid_distances_are_those_of_libigl(name):
    """At its nodes a grid has the distance that libigl computes, sign by winding number."""
    vertices, faces = MESHES[name]
    grid = grids.build_grid(closed_surface(vertices, faces, name))
    index = np.argwhere(np.ones(grid.values.shape))[::11]
    points = grid.origin + grid.step * index
    truth = igl.signed_distance(
        points, vertices, faces.astype(np.int64), sign_type=igl.SIGNED_DISTANCE_TYPE_WINDING_NUMBER
    )[0]
    error = np.abs(grid.values[tuple(index.T)] - truth)
    assert error[np.abs(truth) < 1.4 * grid.step].max() < 1e-7
    # Far off, where several triangles are about as near, sweeps may settle on the wrong one.
    assert error.max() < 0.2 * grid.step


def _field(surface, points):
    detector = _detector((surface.vertices, surface.faces))
    out = np.zeros((len(points), 4))
    _distances(detector.shapes.kind[0], points, detector.broad.frame, detector.shapes.meshes, out)
    return out


@pytest.mark.parametrize("name", MESHES)
def test_distances_between_nodes(name):
    """Between nodes the distance is right to half a cell and its gradient points away; beyond the grid too."""
    vertices, faces = MESHES[name]
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    rng = np.random.default_rng(1)
    points = rng.uniform(low - 0.5, high + 0.5, (400, 3))
    truth = solids.mesh_distance(points, vertices, faces)
    field = _field(closed_surface(vertices, faces, name), points - 0.5 * (low + high))
    step = (high - low).max() / grids.CELLS
    inside = ((points > low) & (points < high)).all(axis=1)
    assert np.abs(field[inside, 0] - truth[inside]).max() < 0.5 * step
    assert (np.abs(field[:, 0] - truth) < 0.5 * step + 0.3 * np.maximum(truth, 0.0)).all()
    ahead = solids.mesh_distance(points + 1e-3 * field[:, 1:], vertices, faces)
    assert np.median(ahead - truth) == pytest.approx(1e-3, rel=0.02)


def test_grids_are_cached_on_disk(tmp_path, monkeypatch):
    """A grid is read back bit for bit; a broken file is replaced, never believed."""
    monkeypatch.setattr(grids, "cache_folder", lambda: tmp_path)
    surface = closed_surface(*MESHES["angle"], "angle")
    first = grids.grid_of(surface, 16)
    (path,) = (tmp_path / "distances").glob("*.npz")
    monkeypatch.setattr(grids, "build_grid", None)
    again = grids.grid_of(surface, 16)
    assert np.array_equal(first.values, again.values) and first.step == again.step
    monkeypatch.undo()
    monkeypatch.setattr(grids, "cache_folder", lambda: tmp_path)
    path.write_bytes(path.read_bytes()[:100])
    assert np.array_equal(grids.grid_of(surface, 16).values, first.values)


def test_a_hull_has_the_contacts_of_the_box_it_is():
    """A box given as a mesh has the deepest contact of the box primitive, against every kind of shape."""
    rng = np.random.default_rng(2)
    others = [
        {"kind": "sphere", "r": 0.4},
        {"kind": "capsule", "r": 0.2, "l": 0.6},
        {"kind": "box", "s": (0.5, 0.6, 0.7)},
        {"kind": "cylinder", "r": 0.3, "l": 0.5},
    ]
    for other in others:
        mesh = _detector(solids.box(1.0, 0.8, 0.6), other, plane=-0.4)
        plain = _detector({"kind": "box", "s": (1.0, 0.8, 0.6)}, other, plane=-0.4)
        assert mesh.shapes.kind[0] == HULL and plain.shapes.kind[0] == BOX
        for _ in range(15):
            pose = _at((0, 0, 0), rng.uniform(-0.8, 0.8, 3))
            pose[:, 3:] = rotation(rng), rotation(rng)
            one, two = found(mesh, pose, 0.05), found(plain, pose, 0.05)
            for b in (1, 2):
                depths = [c["depth"][c["shape_b"] == b].max(initial=-9) for c in (one, two)]
                assert depths[0] == pytest.approx(depths[1], abs=2e-3)


def test_a_ball_falls_through_a_ring_and_rests_on_its_tube():
    """A torus has a hole: a ball in it has no contact, one over the tube has one at its top."""
    ring, ball = solids.torus(around=48, across=24), {"kind": "sphere", "r": 0.4}
    detector = _detector(ring, ball)
    assert detector.shapes.kind[0] == MESH
    assert len(found(detector, _at((0, 0, 0), (0, 0, 0)), 0.01)["depth"]) == 0
    contacts = found(detector, _at((0, 0, 0), (1.0, 0, 0.645)), 0.01)
    assert contacts["depth"].max() == pytest.approx(0.005, abs=2e-3)
    assert np.allclose(contacts["normal"][contacts["depth"].argmax()], [0, 0, -1], atol=0.05)
    # In the centre, too big to pass: the tube supports it all around, on a circle.
    contacts = found(_detector(ring, {"kind": "sphere", "r": 0.9}), _at((0, 0, 0), (0, 0, 0.56)), 0.02)
    assert len(contacts["depth"]) >= 3
    assert np.linalg.norm(contacts["normal"].mean(axis=0)[:2]) < 0.2


def test_crossing_edges_of_meshes_touch():
    """Two angle irons, back edge across back edge, touch where these cross; the normal is across both.

    No corner of either is near: only edges can find this. Within a cell of an edge a grid is blurred.
    """
    iron, half = solids.angle_iron(), np.sqrt(0.5)
    detector = _detector(iron, iron)
    # The back edge is the z axis. Half a turn about z points the second iron away, a quarter turn lays it across.
    spin = np.array([0.0, 0.0, 0.0, 1.0])
    tilt = np.array([half, 0.5, 0.5, 0.0])
    for gap, low, high in ((0.01, -0.014, -0.004), (-0.03, 0.01, 0.03)):
        pose = _at((0, 0, 0), -gap * np.array([half, half, 0]))
        pose[1, 3:] = _product(tilt, spin)
        contacts = found(detector, pose, 0.02)
        deepest = contacts["depth"].argmax()
        assert low <= contacts["depth"][deepest] <= high
        assert abs(contacts["normal"][deepest] @ [half, half, 0]) > (0.95 if gap > 0 else 0.6)
        assert np.linalg.norm(contacts["point"][deepest]) < 0.06


def _product(a, b):
    w, v = a[0] * b[0] - a[1:] @ b[1:], a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:])
    return np.array([w, *v])


def test_a_mesh_lies_on_a_plane_by_few_wide_contacts():
    """A flat-footed mesh on a plane has eight contacts or fewer that span its foot."""
    contacts = found(_detector(MESHES["angle"], plane=0.0), _at((0, 0, 0.499)), 0.0)
    assert 3 <= len(contacts["depth"]) <= 8
    assert np.allclose(contacts["depth"], 0.001, atol=1e-9)
    assert np.ptp(contacts["point"][:, :2], axis=0).min() > 0.6


def test_mass_of_meshes():
    """Volume, centroid and inertia of a box mesh are the box's; a torus has its closed form, up to its facets."""
    volume, centroid, inertia = mesh_mass(*solids.box(1, 2, 3))
    assert volume == pytest.approx(6.0) and np.allclose(centroid, 0)
    assert np.allclose(inertia, np.diag([4 + 9, 1 + 9, 1 + 4]) * 6.0 / 12.0)
    volume, centroid, inertia = mesh_mass(*solids.torus(around=200, across=100))
    exact = 2 * np.pi**2 * 0.25**2
    assert volume == pytest.approx(exact, rel=2e-3)
    assert inertia[2, 2] == pytest.approx(exact * (1 + 0.75 * 0.25**2), rel=5e-3)
