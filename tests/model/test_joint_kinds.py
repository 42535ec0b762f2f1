"""Every joint kind, both faces: free directions S, locked rows L with their error e, and the coordinates themselves."""

from __future__ import annotations

import numpy as np
import pytest
from tests.naive import rotations as rot
from tests.naive.models import FREEDOMS, axes, quaternion
from tests.naive.twin import joint_motion

import limberjack as lj
from limberjack.model import joints as jt

TREE_KINDS = [*FREEDOMS, "compound"]
LAYOUT = {
    "hinge": (1, 1), "slide": (1, 1), "ball": (4, 3), "free": (7, 6), "fixed": (0, 0), "universal": (2, 2),
    "cylindrical": (2, 2), "planar": (3, 3), "screw": (1, 1), "point_on_line": (5, 4), "point_on_plane": (6, 5),
}  # fmt: skip


def make(kind, rng):
    """Return the record of a joint of the kind named, its frames at the origin and its axis along z."""
    builder = lj.Builder()
    builder.add_body("a", mass=1.0, inertia=(1, 1, 1))
    if kind == "compound":
        builder.add_joint_compound("j", "world", "a", axes(rng, "j", 3))
    elif kind == "distance":
        builder.add_joint_distance("j", "world", "a", length=0.7)
    else:
        builder.add_joint(kind, "j", "world", "a", **({"pitch": 0.3} if kind == "screw" else {}))
    return builder.build().joint_spec("j")


def coordinates(joint, rng, size=1.0):
    """Return random coordinates of the joint."""
    q = rng.uniform(-size, size, len(jt.identity_coordinates(joint)))
    if joint.kind in ("ball", "free", "point_on_line", "point_on_plane"):
        q[-4:] = quaternion(rng)
    return q


def moved(factors, q, v, h):
    """Return q moved by velocity v for a time h."""
    out = np.array(q, float)
    for f in factors:
        if f.kind in (jt.SPIN, jt.SPIN_BACK):
            out[f.q : f.q + 4] = rot.multiply(q[f.q : f.q + 4], rot.exponential(h * v[f.v : f.v + 3]))
        else:
            out[f.q] += h * v[f.v]
    return out


def dofs(joint):
    """Return the number of dofs of the joint."""
    return len(joint.axes) if joint.kind == "compound" else LAYOUT[joint.kind][1]


@pytest.mark.parametrize("kind", list(LAYOUT))
def test_sizes_are_the_documented_layout(kind):
    """nq and nv of every kind, as the conventions state them."""
    assert (jt.KINDS[kind].nq, jt.KINDS[kind].nv) == LAYOUT[kind]


def test_there_are_no_other_kinds():
    """Kinds that carry the tree are those the tests go through; distance and gear only couple."""
    assert {name for name, kind in jt.KINDS.items() if kind.tree} == set(TREE_KINDS)
    assert {name for name, kind in jt.KINDS.items() if not kind.tree} == {"distance", "gear", "no_slip"}


@pytest.mark.parametrize("kind", TREE_KINDS)
def test_frames_coincide_at_the_identity(kind, rng):
    """At the identity coordinate the joint does not move its child."""
    joint = make(kind, rng)
    r, p = jt.transform(jt.factors_of(joint), jt.identity_coordinates(joint))
    assert (r == np.eye(3)).all() and (p == 0).all()


@pytest.mark.parametrize("kind", [kind for kind in TREE_KINDS if kind != "free"])
def test_transform_is_the_twins(kind, rng):
    """The product of factors is the motion the twin writes out kind by kind."""
    joint = make(kind, rng)
    q = coordinates(joint, rng)
    v = np.zeros(dofs(joint))
    r, p = jt.transform(jt.factors_of(joint), q)
    wanted = joint_motion(joint, q, v, v).c[0]
    assert np.allclose(r, wanted[:3, :3], atol=1e-14) and np.allclose(p, wanted[:3, 3], atol=1e-14)


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("kind", TREE_KINDS)
def test_subspace_is_the_derivative_of_the_transform(kind, back, rng):
    """Each column of S is the relative twist when its dof moves alone; of the reversed factors too."""
    joint = make(kind, rng)
    factors = jt.reverse(jt.factors_of(joint)) if back else jt.factors_of(joint)
    for _ in range(5):
        q, h = coordinates(joint, rng), 1e-5
        subspace = jt.motion_subspace(factors, q)
        assert subspace.shape == (6, dofs(joint))
        for k, unit in enumerate(np.eye(dofs(joint))):
            (r0, p0), (r1, p1) = (jt.transform(factors, moved(factors, q, unit, side)) for side in (-h, h))
            twist = np.r_[rot.from_cross_matrix((r1 - r0) / (2 * h) @ ((r0 + r1) / 2).T), (p1 - p0) / (2 * h)]
            assert np.abs(subspace[:, k] - twist).max() < 1e-8


@pytest.mark.parametrize("kind", TREE_KINDS)
def test_reversed_factors_are_the_inverse(kind, rng):
    """The reversed joint at the same coordinates undoes the joint; reversed twice it is itself."""
    joint = make(kind, rng)
    factors = jt.factors_of(joint)
    q = coordinates(joint, rng)
    (r, p), (back_r, back_p) = jt.transform(factors, q), jt.transform(jt.reverse(factors), q)
    assert np.allclose(r @ back_r, np.eye(3), atol=1e-14)
    assert np.allclose(r @ back_p + p, 0, atol=1e-14)
    assert jt.reverse(jt.reverse(factors)) == factors


@pytest.mark.parametrize("kind", TREE_KINDS)
def test_free_and_locked_faces_complete_each_other(kind, rng):
    """L S = 0 and rank L + dof = 6: the free directions are the null space of the rows, which lose none."""
    joint = make(kind, rng)
    for _ in range(10):
        q = coordinates(joint, rng)
        subspace = jt.motion_subspace(jt.factors_of(joint), q)
        rows, errors = jt.locked(joint, *jt.transform(jt.factors_of(joint), q), near=q)
        assert rows.shape == (6 - dofs(joint), 6) and errors.shape == (6 - dofs(joint),)
        assert np.abs(rows @ subspace).max(initial=0.0) < 1e-12
        assert np.abs(errors).max(initial=0.0) < 1e-12
        assert np.linalg.matrix_rank(subspace) == dofs(joint)
        assert len(rows) == 0 or np.linalg.matrix_rank(rows) == 6 - dofs(joint)


@pytest.mark.parametrize("kind", [kind for kind in TREE_KINDS if kind not in ("free", "compound")] + ["distance"])
@pytest.mark.parametrize("off", [0.0, 0.02, 0.3])
def test_rows_are_the_derivative_of_the_error(kind, off, rng):
    """de/dt = L twist, on the manifold and far off it, for any relative motion."""
    joint = make(kind, rng)
    q = coordinates(joint, rng) if kind != "distance" else None
    for _ in range(10):
        r, p = jt.transform(jt.factors_of(joint), q) if q is not None else (np.eye(3), rng.normal(size=3))
        r, p = rot.from_vector(off * rng.uniform(-1, 1, 3)) @ r, p + off * rng.uniform(-1, 1, 3)
        w, v, h = rng.normal(size=3), rng.normal(size=3), 1e-5
        rows, _ = jt.locked(joint, r, p, near=q)
        before, after = (jt.locked(joint, rot.from_vector(s * w) @ r, p + s * v, near=q)[1] for s in (-h, h))
        assert np.abs((after - before) / (2 * h) - rows @ np.r_[w, v]).max(initial=0.0) < 1e-8


def test_rows_of_a_compound_are_the_derivative_on_its_manifold(rng):
    """For a compound the rows are a basis that may turn: the length of e grows as that of L twist."""
    joint = make("compound", rng)
    factors = jt.factors_of(joint)
    for _ in range(10):
        q, w, v, h = coordinates(joint, rng), rng.normal(size=3), rng.normal(size=3), 1e-6
        r, p = jt.transform(factors, q)
        rows, _ = jt.locked(joint, r, p, near=q)
        _, error = jt.locked(joint, rot.from_vector(h * w) @ r, p + h * v, near=q)
        assert np.linalg.norm(error) / h == pytest.approx(np.linalg.norm(rows @ np.r_[w, v]), rel=1e-4)
        assert np.allclose(rows @ rows.T, np.eye(len(rows)), atol=1e-12)


@pytest.mark.parametrize("kind", TREE_KINDS)
def test_coordinates_are_read_back(kind, rng):
    """coordinates() inverts transform, quaternions up to their sign."""
    joint = make(kind, rng)
    for _ in range(10):
        q = coordinates(joint, rng)
        found = jt.coordinates(joint, *jt.transform(jt.factors_of(joint), q), near=q + 0.1)
        if kind in ("ball", "free", "point_on_line", "point_on_plane"):
            assert abs(abs(found[-4:] @ q[-4:]) - 1) < 1e-14
            found, q = found[:-4], q[:-4]
        assert np.abs(found - q).max(initial=0.0) < 1e-9


@pytest.mark.parametrize("kind", ["hinge", "screw", "cylindrical", "planar", "universal"])
def test_turns_are_counted(kind, rng):
    """Angles of many turns come back whole when the last known coordinates are given, else within half a turn."""
    joint = make(kind, rng)
    for _ in range(10):
        q = coordinates(joint, rng, 60.0)
        pose = jt.transform(jt.factors_of(joint), q)
        assert np.abs(jt.coordinates(joint, *pose, near=q + rng.uniform(-1, 1, len(q))) - q).max() < 1e-9
        plain = jt.coordinates(joint, *pose)
        turning = {"cylindrical": [1], "planar": [2]}.get(kind, list(range(len(q))))
        assert np.abs(plain[turning]).max() <= np.pi + 1e-12


def test_coordinates_drop_the_locked_part(rng):
    """Read off a pose the joint cannot take, coordinates are those of a pose it can, near by."""
    for kind in TREE_KINDS:
        joint = make(kind, rng)
        q = coordinates(joint, rng)
        r, p = jt.transform(jt.factors_of(joint), q)
        r, p = rot.from_vector(1e-4 * rng.normal(size=3)) @ r, p + 1e-4 * rng.normal(size=3)
        found = jt.transform(jt.factors_of(joint), jt.coordinates(joint, r, p, near=q))
        assert np.abs(found[0] - r).max() < 3e-3 and np.abs(found[1] - p).max() < 3e-3


def test_gears_and_distances_have_no_coordinates(rng):
    """What only couples has no coordinates of its own."""
    joint = make("distance", rng)
    assert jt.coordinates(joint, np.eye(3), np.ones(3)).size == 0
    rows, error = jt.locked(joint, np.eye(3), np.array([0.0, 0.0, 1.0]))
    assert rows.tolist() == [[0, 0, 0, 0, 0, 1]] and error == pytest.approx([0.3])
    assert np.isfinite(jt.locked(joint, np.eye(3), np.zeros(3))[0]).all()
