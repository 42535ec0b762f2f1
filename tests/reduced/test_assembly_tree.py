"""The assembly tree: its definition by sets of bodies, its cut rule against an obvious twin, and how deep it gets."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import limberjack as lj
from limberjack.reduced.assembly_tree import KEEP_A, KEEP_B, KEEP_JOINT, KEEP_NONE, new_assembly


def links(parent):
    """Return what stands for the links: `new_assembly` reads the parents alone."""
    return SimpleNamespace(parent=np.asarray(parent, np.int64))


def chain(n):
    return np.arange(n) - 1


def heap(n, arity):
    """Return the tree in which each link has `arity` children."""
    return np.r_[-1, np.arange(n - 1) // arity]


def recursive(n, rng):
    """Return the tree in which each link is attached to any link before it."""
    return np.r_[-1, (rng.random(n - 1) * np.arange(1, n)).astype(np.int64)]


def caterpillar(n):
    """Return a chain of half the links with one of the others on each."""
    return np.r_[np.arange(n // 2) - 1, np.arange(n - n // 2) % (n // 2)]


def broom(n):
    """Return a chain of half the links with all the others on its end."""
    return np.r_[np.arange(n // 2) - 1, np.full(n - n // 2, n // 2 - 1)]


def star(arms):
    return np.r_[-1, np.zeros(arms, np.int64)]


def forest(*trees):
    """Return the trees side by side."""
    starts = np.cumsum([0, *(len(tree) for tree in trees[:-1])])
    return np.concatenate([np.where(tree < 0, -1, tree + at) for tree, at in zip(trees, starts, strict=True)])


def renumbered(parent, rng):
    """Return the same tree with its links numbered in any order."""
    new = rng.permutation(len(parent))
    out = np.empty_like(parent)
    out[new] = np.where(parent < 0, -1, new[parent])
    return out


SMALL = {
    "one link": lambda rng: chain(1),
    "two links": lambda rng: chain(2),
    "chain": lambda rng: chain(61),
    "binary tree": lambda rng: heap(100, 2),
    "eight children": lambda rng: heap(90, 8),
    "nine children": lambda rng: heap(100, 9),
    "random": lambda rng: recursive(120, rng),
    "random with hubs": lambda rng: np.r_[heap(8, 2), rng.integers(0, 8, 80)],
    "numbered in any order": lambda rng: renumbered(recursive(100, rng), rng),
    "star numbered in any order": lambda rng: renumbered(star(70), rng),
    "caterpillar": lambda rng: caterpillar(80),
    "broom": lambda rng: broom(80),
    "star": lambda rng: star(100),
    "forest": lambda rng: forest(chain(7), star(20), recursive(30, rng), chain(1), heap(20, 3)),
    "mixed forest": lambda rng: renumbered(forest(chain(9), star(15), recursive(40, rng), chain(1)), rng),
    "loose links": lambda rng: np.full(12, -1),
}


@pytest.fixture(params=[*SMALL])
def tree(request, rng):
    """Parents of links, and their assembly tree."""
    parent = SMALL[request.param](rng)
    return parent, new_assembly(links(parent))


@pytest.fixture(params=["equal", "weights", "priorities", "both"])
def asked(request, rng):
    """What the cuts are chosen by, as a function of the number of links."""
    return lambda n: {
        **({"weight": rng.integers(1, 9, n) / 4} if request.param in ("weights", "both") else {}),
        **({"priority": rng.integers(-2, 3, n)} if request.param in ("priorities", "both") else {}),
    }


def parts(assembly):
    """Return the set of bodies of each node."""
    nb = len(assembly.body_link)
    out = [{b} for b in range(nb)]
    for c in range(nb, 2 * nb):
        a = set() if assembly.first[c] < 0 else out[assembly.first[c]]
        b = out[assembly.second[c]]
        assert not a & b
        out.append(a | b)
    return out


def handles_of(part, body_parent):
    """Return r of the part and the set of its other handles, straight from the definition."""
    (r,) = [b for b in part if body_parent[b] not in part]
    children_outside = {int(p) for b, p in enumerate(body_parent) if p in part and b not in part}
    return r, children_outside - {r}


def assert_sound(parent, assembly):
    """Assert everything the fields say that can be checked in linear time."""
    n, nb, m = len(parent), len(assembly.body_link), len(assembly.parent)
    assert m == 2 * nb
    for name, field in assembly._asdict().items():
        assert field.dtype == (np.float64 if name == "share" else np.int64) and field.flags.c_contiguous
    inner = np.arange(nb, m)
    assert (np.sort(assembly.node_of) == inner).all() and (assembly.joint[assembly.node_of] == np.arange(nb)).all()
    for name in ("first", "second", "joint", "other"):
        assert (getattr(assembly, name)[:nb] == -1).all()
    assert (assembly.top[:nb] == np.arange(nb)).all() and (assembly.handles[:nb] == 1).all()

    bases = np.flatnonzero(np.asarray(parent) < 0)
    assert (assembly.joint[assembly.roots] == bases).all() and (assembly.node_of[bases] == assembly.roots).all()
    assert (np.flatnonzero(assembly.parent < 0) == assembly.roots).all() and (assembly.depth[assembly.roots] == 0).all()
    assert (assembly.tree_index[assembly.roots] == np.arange(len(bases))).all()
    assert (np.flatnonzero((assembly.first < 0) & (np.arange(m) >= nb)) == assembly.roots).all()
    assert (assembly.handles[assembly.roots] == 0).all() and (assembly.top[assembly.roots] == bases).all()
    below = np.flatnonzero(assembly.parent >= 0)
    above = assembly.parent[below]
    assert (assembly.depth[below] == assembly.depth[above] + 1).all()
    assert (assembly.tree_index[below] == assembly.tree_index[above]).all()
    assert (assembly.handles[below] == 1 + (assembly.other[below] >= 0)).all()
    for side in (assembly.first, assembly.second):
        real = inner[side[inner] >= 0]
        assert (assembly.parent[side[real]] == real).all()

    size = np.ones(m, np.int64)
    for c in inner.tolist():
        a, b = assembly.first[c], assembly.second[c]
        size[c] = (size[a] if a >= 0 else 0) + size[b]
        # Children first, A before B, nothing between: s bodies have s - 1 inner nodes, and one more at the root.
        assert b < nb or b == c - 1
        assert a < nb or a == c - size[b]
    assert size[assembly.roots].sum() == nb and n <= nb


def test_parts_are_a_partition(tree):
    """Each part is its two sides and nothing twice; the parts of the roots are all bodies, each base with its own."""
    parent, assembly = tree
    assert_sound(parent, assembly)
    sets = parts(assembly)
    assert sorted(b for root in assembly.roots for b in sets[root]) == list(range(len(assembly.body_link)))
    for figure, root in enumerate(assembly.roots):
        for b in sets[root]:
            assert assembly.tree_index[b] == figure
            while assembly.body_parent[b] >= 0:
                b = assembly.body_parent[b]
            assert b == assembly.joint[root]


def test_inner_nodes_are_joints(tree):
    """The joint of a node leads from a body of A, or the world at roots, to the top of B."""
    _, assembly = tree
    sets = parts(assembly)
    for c in range(len(assembly.body_link), len(assembly.parent)):
        i, a, b = assembly.joint[c], assembly.first[c], assembly.second[c]
        p = assembly.body_parent[i]
        assert assembly.top[b] == i and i in sets[b]
        assert (p == -1 and c in assembly.roots) if a < 0 else (p in sets[a] and assembly.top[a] == assembly.top[c])


def test_handles_are_those_of_the_definition(tree, asked):
    """Handles are the top and what has a child outside, never more than two; slot and keep name the right ones."""
    parent, _ = tree
    assembly = new_assembly(links(parent), **asked(len(parent)))
    assert_sound(parent, assembly)
    sets, body_parent = parts(assembly), assembly.body_parent
    for c in range(len(assembly.parent)):
        if c in assembly.roots:
            assert assembly.slot[c] == 0 and assembly.keep[c] == KEEP_NONE and assembly.other[c] == -1
            continue
        r, rest = handles_of(sets[c], body_parent)
        assert len(rest) <= 1
        assert assembly.top[c] == r and rest == ({int(assembly.other[c])} - {-1})
        assert c >= len(body_parent) or not rest
    for c in assembly.node_of[assembly.parent[assembly.node_of] >= 0]:
        a, b, i = assembly.first[c], assembly.second[c], assembly.joint[c]
        assert body_parent[i] == (assembly.top[a], assembly.other[a])[assembly.slot[c]]
        kept = {
            KEEP_NONE: -1,
            KEEP_A: assembly.other[a],
            KEEP_JOINT: assembly.top[b],
            KEEP_B: assembly.other[b],
        }
        assert assembly.other[c] == kept[int(assembly.keep[c])]
        assert (assembly.keep[c] == KEEP_NONE) == (assembly.other[c] < 0)


def twin_cut(part, body_parent, weight, priority):
    """Return the body whose joint the part is to be cut at, by trying all of them."""
    r, _ = handles_of(part, body_parent)
    best = None
    for i in sorted(part - {r}):
        below = {b for b in part if i in ancestors(b, body_parent)}
        if any(len(handles_of(side, body_parent)[1]) > 1 for side in (below, part - below)):
            continue
        heavier = max(sum(weight[b] for b in side) for side in (below, part - below))
        if best is None or (priority[i], heavier, i) < best:
            best = (priority[i], heavier, i)
    assert best is not None
    return best[2]


def ancestors(b, body_parent):
    """Return the body and all above it."""
    out = []
    while b >= 0:
        out.append(b)
        b = body_parent[b]
    return out


@pytest.mark.parametrize("seed", range(5))
def test_cuts_are_those_of_the_rule(seed, asked):
    """Every part is cut where trying all joints says: lowest priority, best balance, lowest body, two handles."""
    rng = np.random.default_rng([11, seed])
    n = int(rng.integers(2, 26))
    parent = renumbered(np.r_[-1, rng.integers(0, np.minimum(np.arange(1, n), rng.integers(1, 8)))], rng)
    options = asked(n)
    assembly = new_assembly(links(parent), **options)
    weight = (options.get("weight", np.ones(n))[assembly.body_link] * assembly.share).tolist()
    priority = options.get("priority", np.zeros(n, int))[assembly.body_link].tolist()
    for piece in range(n, len(weight)):
        arms = np.flatnonzero(parent == assembly.body_link[piece])
        priority[piece] = int(np.min(np.array(priority)[arms]))
    sets = parts(assembly)
    for c in range(len(weight), 2 * len(weight)):
        if c not in assembly.roots:
            assert assembly.joint[c] == twin_cut(sets[c], assembly.body_parent.tolist(), weight, priority)


DEPTHS = {
    "chain": (lambda rng: chain(500), 10),
    "binary tree": (lambda rng: heap(511, 2), 14),
    "random": (lambda rng: recursive(500, rng), 16),
    "caterpillar": (lambda rng: caterpillar(500), 10),
    "broom": (lambda rng: broom(500), 12),
    "star": (lambda rng: star(16), 7),
    "large star": (lambda rng: star(10_000), 17),
    "stars on a star": (lambda rng: heap(10_101, 100), 24),
    "star of chains": (lambda rng: np.r_[-1, np.zeros(100, np.int64), np.arange(1, 5000)], 17),
    "forest": (lambda rng: forest(*[chain(100)] * 5), 8),
    "loose links": (lambda rng: np.full(1000, -1), 1),
    "long chain": (lambda rng: chain(100_000), 18),
    "large random": (lambda rng: recursive(100_000, rng), 28),
}


@pytest.mark.parametrize("name", DEPTHS)
def test_depth_is_logarithmic(name, rng):
    """Trees of any shape give flat assembly trees, hubs and 10^5 links included."""
    make, bound = DEPTHS[name]
    parent = make(rng)
    assembly = new_assembly(links(parent))
    assert_sound(parent, assembly)
    assert assembly.depth.max() <= bound


@pytest.mark.parametrize("seed", range(8))
def test_depth_of_bounded_degree(seed):
    """With at most `most` children per link the depth stays below a multiple of log2 n, whatever the shape."""
    rng = np.random.default_rng([12, seed])
    n, most = 2000, seed + 1
    parent, children = np.full(n, -1), np.zeros(n, np.int64)
    skew = rng.uniform(0.2, 5.0)
    for i in range(1, n):
        p = int(i * rng.random() ** skew)
        while children[p] >= most:
            p = (p + 1) % i
        parent[i], children[p] = p, children[p] + 1
    assembly = new_assembly(links(parent))
    assert_sound(parent, assembly)
    assert assembly.depth.max() <= (1.3 + 0.2 * most) * np.log2(n)


def test_one_link():
    """One link is one leaf and one root, which joins it with the world."""
    assembly = new_assembly(links([-1]))
    assert (
        assembly.roots.tolist() == [1] and assembly.second.tolist() == [-1, 0] and assembly.first.tolist() == [-1, -1]
    )
    assert assembly.parent.tolist() == [1, -1] and assembly.depth.tolist() == [1, 0]
    assert assembly.handles.tolist() == [1, 0] and assembly.top.tolist() == [0, 0]


def test_no_link():
    """No link gives no node."""
    assert all(len(field) == 0 for field in new_assembly(links([])))


def test_pieces_of_hubs():
    """A hub is a row of equal pieces, a power of two of them, with at most four children each, in order."""
    parent = forest(heap(9 * 9 + 10, 9), star(8), star(9), star(1000))
    assembly = new_assembly(links(parent))
    n = len(parent)
    assert (assembly.body_link[:n] == np.arange(n)).all()
    for link in range(n):
        children = np.flatnonzero(parent == link)
        pieces = np.flatnonzero(assembly.body_link == link)
        k = len(pieces)
        assert pieces[0] == link and (assembly.share[pieces] == 1 / k).all()
        if len(children) <= 8:
            assert k == 1
            continue
        assert k & (k - 1) == 0 and len(children) <= 4 * k < 2 * len(children)
        assert (assembly.body_parent[pieces[1:]] == pieces[:-1]).all()
        carriers = assembly.body_parent[children]
        assert (assembly.body_link[carriers] == link).all()
        at = np.searchsorted(pieces, carriers)
        assert (np.diff(at) >= 0).all() and np.bincount(at, minlength=k).max() <= 4


def test_order_of_a_chain_is_honoured(rng):
    """On a chain every joint can be cut, so that of each part the joint of the lowest priority comes first."""
    n = 200
    priority = rng.permutation(n)
    assembly = new_assembly(links(chain(n)), priority=priority)
    for c in range(n, 2 * n):
        for side in (assembly.first[c], assembly.second[c]):
            if side >= n and c not in assembly.roots:
                assert priority[assembly.joint[side]] > priority[assembly.joint[c]]
    assert assembly.second[assembly.roots[0]] == assembly.node_of[np.argmin(np.where(np.arange(n) == 0, n, priority))]


def test_order_from_the_base(rng):
    """Cut from the base on, a chain gives the tree in which node k is joint k: the deepest there is."""
    n = 300
    assembly = new_assembly(links(chain(n)), priority=np.arange(n))
    assert (assembly.depth[assembly.node_of] == np.arange(n)).all()


def test_equal_priorities_change_nothing(rng):
    """Of equal priorities balance decides: the tree is that without any."""
    parent = recursive(300, rng)
    for one, other in zip(
        new_assembly(links(parent)), new_assembly(links(parent), priority=np.full(300, 7)), strict=True
    ):
        assert (one == other).all()


def test_priority_brings_joints_near_the_root(rng):
    """Joints on the way to one link, put first, are all cut before any other that can wait."""
    parent = recursive(400, rng)
    way = ancestors(399, parent)
    priority = np.ones(400, np.int64)
    priority[way] = 0
    assembly = new_assembly(links(parent), priority=priority)
    for i in way[:-1]:
        c = assembly.parent[assembly.node_of[i]]
        assert assembly.joint[c] in way


def test_priority_keeps_stars_flat():
    """Arms in a strict order do not come off a hub one at a time: welds come first."""
    assembly = new_assembly(links(star(1000)), priority=np.arange(1001))
    assert assembly.depth.max() <= 14


def test_weight_pulls_bodies_up():
    """A heavy link has a leaf near the root, and the more so the heavier it is."""
    n, heavy = 1000, 640
    depths = []
    for value in (1.0, 100.0, 1e4, 1e8):
        weight = np.ones(n)
        weight[heavy] = value
        assembly = new_assembly(links(chain(n)), weight=weight)
        assert_sound(chain(n), assembly)
        depths.append(int(assembly.depth[heavy]))
    assert depths[0] >= 10 and depths == sorted(depths, reverse=True) and depths[-1] == 3


def test_weight_has_no_unit(rng):
    """Weights times a power of two give the same tree."""
    parent = recursive(300, rng)
    weight = rng.uniform(0.1, 5.0, 300)
    for one, other in zip(
        new_assembly(links(parent), weight=weight), new_assembly(links(parent), weight=8 * weight), strict=True
    ):
        assert (one == other).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda: lj.scenes.humanoid(),
        lambda: lj.scenes.marionette(),
        lambda: lj.scenes.crowd(figures=3),
        lambda: lj.scenes.ball_tree(bodies=63),
        lambda: lj.scenes.random_tree(bodies=60),
        lambda: lj.scenes.pendulum(links=40),
    ],
    ids=["humanoid", "marionette", "crowd", "ball_tree", "random_tree", "pendulum"],
)
def test_models(make):
    """Real models, floating and fixed, one tree or several, have sound and flat assembly trees."""
    model = make()
    parent = model.arrays.links.parent
    assembly = new_assembly(model.arrays.links)
    assert_sound(parent, assembly)
    sets = parts(assembly)
    for c in np.flatnonzero(assembly.parent >= 0):
        r, rest = handles_of(sets[c], assembly.body_parent)
        assert r == assembly.top[c] and rest == {int(assembly.other[c])} - {-1}
    assert len(assembly.roots) == (parent < 0).sum()
    assert assembly.depth.max() <= 2 * np.log2(np.bincount(assembly.tree_index).max())


@pytest.mark.parametrize(
    "options, words",
    [
        ({"weight": np.ones(4)}, r"weight has shape \(4,\)"),
        ({"weight": np.array([1.0, 0.0, 1.0])}, "weight of link 1 is 0.0"),
        ({"weight": np.array([1.0, 1.0, np.nan])}, "weight of link 2 is nan"),
        ({"priority": np.zeros((3, 1), int)}, r"priority has shape \(3, 1\)"),
        ({"priority": np.array([0.5, 1.0, 2.0])}, "whole numbers"),
    ],
)
def test_refuses(options, words):
    """Weights and priorities that mean nothing are refused by name."""
    with pytest.raises(lj.StateError, match=words):
        new_assembly(links(chain(3)), **options)
