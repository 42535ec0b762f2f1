"""Random trees: every joint kind, the same for the same seed; the binary tree of ball joints."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import limberjack as lj
from limberjack.model.joints import KINDS
from limberjack.scenes.trees import TREE_KINDS


def kinds_of(model):
    return Counter(joint.kind for joint in model.spec.joints)


def test_all_tree_kinds_are_known():
    """The kinds dealt are all kinds that can stand between two bodies of a tree."""
    assert set(TREE_KINDS) == {name for name, kind in KINDS.items() if kind.tree} - {"free"}


@pytest.mark.parametrize("seed", range(5))
def test_random_tree_has_every_kind(seed):
    """A tree of 50 has each kind about equally often, a free root, branches, and no loops."""
    model = lj.scenes.random_tree(seed=seed)
    kinds = kinds_of(model)
    assert kinds.pop("free") == 1
    assert set(kinds) == set(TREE_KINDS)
    assert max(kinds.values()) - min(kinds.values()) <= 1
    assert model.loop_names == () and model.body_count == 50
    children = Counter(joint.parent for joint in model.spec.joints)
    assert max(children.values()) > 1 and len(children) > 20


def test_random_tree_follows_the_seed():
    """The same seed gives the same model, bit for bit; another seed another."""
    a, b, c = (lj.scenes.random_tree(bodies=30, seed=seed) for seed in (7, 7, 8))
    assert a.spec.bodies == b.spec.bodies and a.spec.joints == b.spec.joints
    np.testing.assert_array_equal(a.q0, b.q0)
    np.testing.assert_array_equal(a.qd0, b.qd0)
    for x, y in zip(a.arrays.links, b.arrays.links, strict=True):
        np.testing.assert_array_equal(x, y)
    assert a.spec.bodies != c.spec.bodies


@pytest.mark.parametrize("kind", TREE_KINDS)
@pytest.mark.parametrize("floating", [True, False])
def test_random_tree_of_one_kind(kind, floating):
    """A tree of one kind has that kind throughout, and starts moving."""
    model = lj.scenes.random_tree(bodies=6, kinds=kind, floating=floating)
    assert kinds_of(model) == Counter({kind: 5, "free": 1} if floating else {kind: 6})
    assert (np.abs(model.qd0) > 0).all()
    quaternions = model.arrays.links.quaternions[:, 0]
    np.testing.assert_allclose([np.linalg.norm(model.q0[i : i + 4]) for i in quaternions], 1.0, rtol=1e-14)


def test_several_kinds_and_gravity():
    """Only the kinds asked for are dealt, and gravity can be left out."""
    model = lj.scenes.random_tree(bodies=20, kinds=("hinge", "ball"), gravity=(0, 0, 0))
    assert set(kinds_of(model)) == {"free", "hinge", "ball"}
    np.testing.assert_array_equal(model.gravity, 0.0)


@pytest.mark.parametrize("seed", range(8))
def test_random_tree_has_a_sound_mass_matrix(seed):
    """No draw gives a singular joint: the mass matrix is positive, far from rounding."""
    model = lj.scenes.random_tree(bodies=25, seed=seed, floating=seed % 2 == 0)
    matrix = lj.mass_matrix(model, model.q0)
    scale = 1.0 / np.sqrt(np.diag(matrix))
    assert np.linalg.eigvalsh(matrix * np.outer(scale, scale))[0] > 1e-7


def test_ball_tree_of_the_paper():
    """127 ball joints, 381 multipliers; no rod hangs where its brother does."""
    model = lj.scenes.ball_tree()
    assert kinds_of(model) == Counter({"ball": 127})
    assert sum(6 - 3 for _ in model.spec.joints) == 381
    places = {(joint.parent, joint.position) for joint in model.spec.joints}
    assert len(places) == 127
