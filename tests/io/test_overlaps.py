"""Shapes that overlap at the start of a robot: against closed forms and SciPy, and what the reader makes of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

import limberjack as lj
from limberjack.io.overlaps import Core, core_of, overlap
from limberjack.spatial.frames import matrix_from_vector


def separable(a, b):
    """Return whether a plane lies between two clouds of points: a linear program."""
    rows = np.concatenate([np.c_[a, -np.ones(len(a))], np.c_[-b, np.ones(len(b))]])
    found = linprog(np.zeros(4), A_ub=rows, b_ub=-np.ones(len(rows)), bounds=[(None, None)] * 4)
    return found.status == 0


@pytest.mark.parametrize("seed", range(60))
def test_hulls_overlap_where_no_plane_separates_them(seed):
    """Two random hulls overlap exactly where no plane separates them."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(12, 3)), rng.normal(size=(9, 3)) * [0.3, 1.0, 2.0] + rng.normal(size=3) * 1.5
    assert overlap(Core(a, 0.0), Core(b, 0.0)) is not separable(a, b)


@pytest.mark.parametrize("seed", range(20))
def test_spheres_and_capsules_overlap_by_their_distance(seed):
    """Spheres overlap where their centres are nearer than the sum of the radii; a capsule and a sphere likewise."""
    rng = np.random.default_rng(seed)
    turn, place = matrix_from_vector(rng.normal(size=3)), rng.normal(size=3)
    own = {"position": rng.normal(size=3), "rotation": (1.0, 0.0, 0.0, 0.0)}
    at = rng.normal(size=3)
    ball = core_of("sphere", {"radius": 0.7, "position": at, "rotation": (1.0, 0.0, 0.0, 0.0)}, np.eye(3), np.zeros(3))
    rod = core_of("capsule", {"radius": 0.4, "length": 1.0, **own}, turn, place)
    local = turn.T @ (at - place) - own["position"]
    gap = np.hypot(np.hypot(local[0], local[1]), max(0.0, abs(local[2]) - 0.5)) - 1.1
    assert overlap(ball, rod) is bool(gap < 0.0)


def robot(reach):
    box = '<collision><origin xyz="{}"/><geometry><box size="0.2 0.2 0.2"/></geometry></collision>'
    mass = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>'
    joint = '<joint name="j{0}" type="continuous"><parent link="l{0}"/><child link="l{1}"/><origin xyz="{2}"/></joint>'
    links = "".join(f'<link name="l{i}">{mass}{box.format("0 0 0")}</link>' for i in range(3))
    joints = joint.format(0, 1, "0.1 0 0") + joint.format(1, 2, f"{reach} 0 0")
    return f'<robot name="r">{links}{joints}</robot>'


def test_links_that_overlap_at_the_start_do_not_collide(tmp_path):
    """Links that overlap at zero and are not neighbours are excluded, with a warning that names them."""
    path = tmp_path / "r.urdf"
    path.write_text(robot(0.05))
    with pytest.warns(lj.ModelWarning, match='overlap at the start do not collide: "l0" and "l2"'):
        model = lj.load(path)
    assert model.spec.excluded == [("l0", "l2")]
    path.write_text(robot(0.15))
    assert lj.load(path).spec.excluded == []


def test_open_meshes_collide_as_hulls(tmp_path):
    """An open mesh loads and collides as its hull; "exact" warns of it; flat ones do not collide; "none" is none."""
    box = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * 0.1
    sides = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4)]

    def obj(name, faces):
        lines = [f"v {x} {y} {z}" for x, y, z in box] + ["f " + " ".join(str(k + 1) for k in face) for face in faces]
        (tmp_path / name).write_text("\n".join(lines))

    obj("cup.obj", sides)
    obj("flat.obj", sides[:1])
    mass = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>'
    shape = '<collision><geometry><mesh filename="{}.obj"/></geometry></collision>'
    path = tmp_path / "cup.urdf"
    path.write_text(f'<robot name="r"><link name="a">{mass}{shape.format("cup")}</link></robot>')
    (cup,) = lj.load(path).shapes
    assert cup.hull and cup.collide
    b = lj.Builder.from_spec(lj.load(path, base="free").spec)
    b.add_shape_plane()
    query = lj.CollisionQuery(b.build())
    assert query.find([[0.0, 0.0, 0.09]], [[1.0, 0.0, 0.0, 0.0]]) == 4
    assert query.find([[0.0, 0.0, 0.11]], [[1.0, 0.0, 0.0, 0.0]]) == 0
    with pytest.warns(lj.ModelWarning, match="open meshes collide as their convex hulls"):
        (cup,) = lj.load(path, collision="exact").shapes
    assert cup.hull
    assert not any(shape.collide for shape in lj.load(path, collision="none").shapes)
    with pytest.raises(lj.FileError, match='collision must be "hull", "exact" or "none", got \'convex\''):
        lj.load(path, collision="convex")
    path.write_text(f'<robot name="r"><link name="a">{mass}{shape.format("flat")}</link></robot>')
    with pytest.warns(lj.ModelWarning, match="flat meshes do not collide"):
        (flat,) = lj.load(path).shapes
    assert not flat.collide
