"""Detection as a whole: which pairs are compared, in which order contacts come, and that they keep their keys."""

from __future__ import annotations

import numpy as np
import pytest
from tests.collision.pairs import SOLIDS, add, found, rotation, two

import limberjack as lj
from limberjack.collision.detect import find_contacts, new_detector
from limberjack.collision.shapes import shape_names


def _cloud(rng, count, sizes, spread):
    """Return a detector of free bodies with one shape each of any kind, some static ones and a plane, and poses."""
    builder = lj.Builder("cloud")
    for k in range(count):
        builder.add_body(f"b{k}", mass=1.0, inertia=(1.0, 1.0, 1.0))
        add(builder, f"b{k}", SOLIDS[k % 4], sizes[k] * rng.uniform(0.8, 1.2, 3))
    for _ in range(count // 5):
        add(builder, "world", "box", rng.uniform(0.1, 0.3, 3), position=rng.uniform(-spread, spread, 3))
    builder.add_shape_plane(position=(0.0, 0.0, -0.5 * spread))
    pose = np.zeros((count, 7))
    pose[:, :3] = rng.uniform(-spread, spread, (count, 3))
    pose[:, 3:] = [rotation(rng) for _ in range(count)]
    return new_detector(builder.build()), pose


@pytest.mark.parametrize("ratio", [1.0, 100.0])
def test_the_grid_finds_what_all_pairs_find(ratio):
    """Every pair of shapes whose boxes overlap is found once, whether sizes are alike or differ a hundredfold."""
    rng = np.random.default_rng(1)
    sizes = 0.1 * ratio ** rng.uniform(0.0, 1.0, 150)
    detector, pose = _cloud(rng, 150, sizes, 1.0 * ratio**0.5)
    detector = find_contacts(detector, pose, rng.uniform(0.0, 0.05, 150), 0.02)
    shapes, bounds = detector.shapes, detector.broad.bounds
    solid = np.flatnonzero(shapes.kind < 6)
    expected = {
        (int(i), int(j)) if shapes.link[i] >= 0 else (int(j), int(i))
        for i in solid
        for j in solid
        if i < j
        and max(shapes.link[i], shapes.link[j]) >= 0
        and (bounds[i, :3] <= bounds[j, 3:]).all()
        and (bounds[j, :3] <= bounds[i, 3:]).all()
    }
    pairs = [tuple(pair) for pair in detector.broad.pairs[: detector.broad.count[0]].tolist()]
    assert len(set(pairs)) == len(pairs)
    assert {pair for pair in pairs if pair[1] != 180} == expected
    assert len(expected) > 100


def test_contacts_are_sorted_and_their_first_link_moves():
    """Contacts come in the order of (shape_a, shape_b, key), all different, and side a never is static."""
    rng = np.random.default_rng(2)
    detector, pose = _cloud(rng, 100, np.full(100, 0.3), 0.8)
    contacts = found(detector, pose, 0.01)
    rows = list(zip(contacts["shape_a"], contacts["shape_b"], contacts["key"], strict=True))
    assert rows == sorted(set(rows))
    assert (contacts["link_a"] >= 0).all() and (contacts["link_b"] < 0).any()
    assert np.allclose(np.linalg.norm(contacts["normal"], axis=1), 1.0)


def test_room_grows_with_what_is_found():
    """More contacts than there was room for are found all the same, and equal those found with enough room."""
    rng = np.random.default_rng(3)
    detector, pose = _cloud(rng, 120, np.full(120, 0.5), 0.3)
    wide = find_contacts(detector, pose, np.zeros(120), 0.1)
    assert wide.contacts.count[0] > len(detector.contacts.depth)
    again = find_contacts(wide, pose, np.zeros(120), 0.1)
    assert again is wide


def test_joined_excluded_and_grouped_bodies_do_not_collide():
    """No contact between bodies on one joint (in a loop too), excluded ones, or shapes of one group; others touch."""
    builder = lj.Builder("filters")
    ball = {"mass": 1.0, "inertia": (1.0, 1.0, 1.0)}
    for name in ("base", "tip", "a", "b", "c", "d", "e"):
        builder.add_body(name, **ball)
        builder.add_shape_sphere(name, 1.0, name=name, group=7 if name in ("c", "d") else 0)
    builder.add_joint_fixed("foot", "world", "base")
    builder.add_joint_hinge("hinge", "base", "tip")
    builder.add_joint_ball("loop", "tip", "a")
    builder.add_joint_ball("close", "a", "base")
    builder.exclude_collision("b", "e")
    builder.add_shape_plane(name="floor", position=(0.0, 0.0, -0.5))
    model = builder.build()
    names = shape_names(model)
    pose = np.zeros((len(model.arrays.links.parent), 7))
    pose[:, 3] = 1.0
    contacts = found(new_detector(model), pose)
    touching = {frozenset((names[i], names[j])) for i, j in zip(contacts["shape_a"], contacts["shape_b"], strict=True)}
    apart = [{"base", "tip"}, {"tip", "a"}, {"a", "base"}, {"b", "e"}, {"c", "d"}, {"base", "floor"}]
    every = [{i, j} for i in names for j in names if i < j]
    assert touching == {frozenset(pair) for pair in every if pair not in apart}


def test_shapes_of_one_link_do_not_collide_and_stand_where_their_bodies_are():
    """Bodies on fixed joints move as one; their shapes keep their positions when poses refer to another point."""
    builder = lj.Builder("one")
    for name in ("a", "b"):
        builder.add_body(name, mass=1.0, inertia=(1.0, 1.0, 1.0))
        builder.add_shape_sphere(name, 0.6)
    builder.add_joint_fixed("weld", "a", "b", position=(1.0, 0.0, 0.0))
    builder.add_shape_plane(position=(0.0, 0.0, -0.5))
    center = np.array([[0.5, 0.0, 0.2]])
    contacts = found(new_detector(builder.build(), center), np.array([[0.5, 0.0, 0.2, 1.0, 0.0, 0.0, 0.0]]))
    assert np.allclose(contacts["depth"], 0.1) and len(contacts["depth"]) == 2
    assert np.allclose(np.sort(contacts["point"][:, 0]), [0.0, 1.0])


def test_a_resting_box_keeps_the_keys_of_its_contacts():
    """Small motions of a box on a box, and of one on a plane, leave the keys of their four contacts as they are."""
    builder = lj.Builder("rest")
    for name in ("a", "b"):
        builder.add_body(name, mass=1.0, inertia=(1.0, 1.0, 1.0))
        builder.add_shape_box(name, (0.2, 0.2, 0.2))
    builder.add_shape_plane()
    detector = new_detector(builder.build())
    pose = np.array([[0.0, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.3, 1.0, 0.0, 0.0, 0.0]])
    names = found(detector, pose, 0.002)
    assert len(names["key"]) == 8
    rng = np.random.default_rng(4)
    for _ in range(200):
        moved = pose + rng.uniform(-5e-5, 5e-5, pose.shape)
        contacts = found(detector, moved, 0.002)
        assert contacts["key"].tolist() == names["key"].tolist()
        assert np.abs(contacts["point"] - names["point"]).max() < 1e-3


def test_parallel_capsules_and_lying_cylinders_have_line_contacts():
    """Two capsules side by side have two contacts at the ends of their overlap; so have two cylinders."""
    pose = np.array([[0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0], [0.395, 0.0, 0.3, 1.0, 0.0, 0.0, 0.0]])
    for kind in ("capsule", "cylinder"):
        contacts = found(two(kind, (0.2, 1.0, 0.0), kind, (0.2, 1.0, 0.0)), pose)
        assert np.allclose(contacts["depth"], 0.005) and len(contacts["depth"]) == 2
        assert np.allclose(np.sort(contacts["point"][:, 2]), [-0.2, 0.5])
        assert np.allclose(contacts["normal"], [-1.0, 0.0, 0.0], atol=1e-4)


@pytest.mark.parametrize(
    "kind, count, depth", [("sphere", 1, 0.2), ("capsule", 1, 0.45), ("box", 4, 0.15), ("cylinder", 4, 0.25)]
)
def test_contacts_with_a_plane(kind, count, depth):
    """A shape set upright into a plane has as many contacts as its foot needs, at its depth, with its normal."""
    builder = lj.Builder("plane")
    builder.add_body("a", mass=1.0, inertia=(1.0, 1.0, 1.0))
    add(builder, "a", kind, np.array([0.3, 0.7, 0.5]))
    builder.add_shape_plane(friction=0.25)
    contacts = found(new_detector(builder.build()), np.array([[1.0, 2.0, 0.1, 1.0, 0.0, 0.0, 0.0]]))
    assert len(contacts["depth"]) == count
    assert contacts["depth"].max() == pytest.approx(depth if kind != "capsule" else 0.55)
    assert np.allclose(contacts["normal"], [0.0, 0.0, 1.0])
    assert np.allclose(contacts["point"][:, :2].mean(axis=0), [1.0, 2.0], atol=1e-6)
    assert np.allclose(contacts["friction"], np.sqrt(0.25 * 0.5))


def test_a_pose_that_is_not_a_number_is_refused():
    """Poses with NaN or of a wrong shape raise StateError."""
    detector = two("sphere", (0.1,), "sphere", (0.1,))
    pose = np.zeros((2, 7))
    pose[:, 3] = 1.0
    pose[1, 0] = np.nan
    with pytest.raises(lj.StateError, match="not finite"):
        find_contacts(detector, pose, np.zeros(2))
    with pytest.raises(lj.StateError, match="poses"):
        find_contacts(detector, pose[:1], np.zeros(1))
