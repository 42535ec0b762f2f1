"""The adaptive twin against the paper: its divide and conquer, its metric, its tensors and its locking of joints."""

from __future__ import annotations

import numpy as np
import pytest
from tests.naive.adaptive import Acting, Dynamics, Nodes, Options, metric_of, queue, step, update, weight_matrices
from tests.naive.distances import distances
from tests.naive.divide import Divided, Terms, handles_of, tensors
from tests.naive.models import KINDS, add_body, add_joint, random_model, random_state
from tests.naive.twin import Twin

import limberjack as lj
from limberjack.reduced.assembly_tree import new_assembly


class Scene:
    """A model at a random state with forces, its assembly tree and weights of its joints."""

    def __init__(self, model, rng, *, qd=None, quiet=False):
        self.model, self.tree = model, new_assembly(model.arrays.links)
        self.q, moving = random_state(rng, model)
        self.qd = moving if qd is None else qd
        size = 0.0 if quiet else 1.0
        wrenches = size * rng.normal(size=(model.body_count, 6))
        self.acting = Acting(size * rng.normal(size=model.nv), wrenches)
        self.nodes = Nodes(model, self.tree)
        self.weights = {name: random_weight(rng, model, name) for name in model.joint_names}
        self.per_node = weight_matrices(model, self.nodes, self.weights, self.q)

    def divided(self, *, moving=None, plastic=False, joint_forces=True):
        """Return the paper's coefficients and accelerations."""
        now = Dynamics(self.model, self.q, self.qd, 0.0, self.acting, "euler")
        force = now.joint_force if joint_forces else 0 * self.qd
        terms = Terms(self.model, self.q, self.qd, force, now.wrenches)
        per_body = {int(self.tree.joint[c]): w for c, w in enumerate(self.per_node) if self.tree.joint[c] >= 0}
        return Divided(
            self.tree, terms, per_body, gravity=np.array(self.model.gravity), moving=moving, plastic=plastic
        )  # fmt: skip


def random_weight(rng, model, name):
    """Return a number or a full symmetric positive definite matrix."""
    nv = model.joint(name).nv
    root = rng.normal(size=(nv, nv))
    return rng.uniform(0.2, 3.0) if rng.random() < 0.4 else root @ root.T + 0.1 * np.eye(nv)


def forest(rng, seed):
    """Return a random forest of any joints."""
    kinds = ("hinge", "slide", "ball") if seed % 4 == 3 else KINDS
    bodies, bases = int(rng.integers(1, 10)), int(rng.integers(1, 4))
    return random_model(rng, bodies=bodies, bases=bases, kinds=kinds, merge_fixed=bool(seed % 2))


def star(rng, arms=19):
    """Return a free hub with more arms than stay in one piece."""
    builder = lj.Builder("star", gravity=rng.normal(size=3))
    add_body(builder, rng, "hub")
    for k in range(arms):
        add_body(builder, rng, f"arm{k}")
        add_joint(builder, rng, KINDS[k % len(KINDS)], f"joint{k}", "hub", f"arm{k}")
    return builder.build(merge_fixed=False)


def gap(found, wanted):
    """Return max|difference| / max|reference|, at least 1."""
    return np.abs(found - wanted).max(initial=0.0) / max(np.abs(wanted).max(initial=0.0), 1.0)


SEEDS = range(12)


@pytest.mark.parametrize("seed", SEEDS)
def test_handles_are_those_of_the_assembly_tree(seed):
    """Handles by definition: the body nearest the world first, then the one with a child outside; at most two."""
    rng = np.random.default_rng([1, seed])
    tree = new_assembly((star(rng) if seed == 0 else forest(rng, seed)).arrays.links)
    for node, handles in enumerate(handles_of(tree)):
        wanted = [tree.top[node], tree.other[node]][: tree.handles[node]]
        assert handles == wanted and len(handles) <= 2
        if tree.first[node] >= 0:
            sides = [tree.top[tree.first[node]], tree.other[tree.first[node]]]
            assert sides[tree.slot[node]] == tree.body_parent[tree.joint[node]]


@pytest.mark.parametrize("seed", SEEDS)
def test_divide_and_conquer_gives_the_accelerations(seed):
    """Merging parts two by two and going back down gives qdd of the dense solve, for all joints and any base."""
    rng = np.random.default_rng([2, seed])
    scene = Scene(star(rng) if seed == 0 else forest(rng, seed), rng)
    wanted = Twin(scene.model).forward(scene.q, scene.qd, scene.acting.tau, scene.acting.wrenches)
    assert gap(scene.divided().qdd, wanted) < 1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_locked_joints_are_merged_as_welds(seed):
    """With some joints locked the merges give the dense solve over the freedoms left, and 0 for the others."""
    rng = np.random.default_rng([3, seed])
    scene = Scene(forest(rng, seed), rng)
    region = (rng.random(len(scene.tree.parent)) < 0.5) | scene.nodes.base
    free = scene.nodes.freedoms(region)
    moving = np.zeros(scene.model.nv, bool)
    moving[free] = True
    scene.qd = scene.qd * moving
    now = Dynamics(scene.model, scene.q, scene.qd, 0.0, scene.acting, "euler")
    assert gap(scene.divided(moving=moving).qdd, now.accelerations(free)) < 1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_the_metric_of_each_node_is_the_sum_over_its_joints(seed):
    """f^T Psi f + f^T p + eta is the sum of qdd^T A qdd over the joints inside, at every node, for full matrices A."""
    rng = np.random.default_rng([4, seed])
    scene = Scene(star(rng) if seed == 0 else forest(rng, seed), rng)
    divided = scene.divided()
    wanted, _ = metric_of(scene.nodes, scene.per_node, divided.qdd)
    assert np.abs(divided.metric - wanted).max(initial=0.0) < 1e-9 * max(1.0, wanted.max(initial=0.0))


@pytest.mark.parametrize("seed", range(6))
def test_tensors_give_the_coefficients_at_rest_inside(seed):
    """b, p and eta of a part at rest inside are B v v, P v v and E v v v v of the velocity of its first body."""
    rng = np.random.default_rng([5, seed])
    scene = Scene(star(rng, 10) if seed == 0 else forest(rng, seed), rng, quiet=True)
    moving, known, checked = scene.qd, None, 0
    for node in range(len(scene.tree.body_link), len(scene.tree.parent)):
        if node in scene.tree.roots:
            continue
        scene.qd = moving.copy()
        for c in scene.nodes.inside[node]:
            scene.qd[scene.nodes.dofs[c]] = 0.0
        divided = scene.divided(joint_forces=False)
        known = known or tensors(divided)
        b, p, e = known[node]
        v = divided.terms.velocity[scene.tree.body_link[scene.tree.top[node]]]
        part = divided.parts[node]
        assert gap(np.einsum("abc,b,c->a", b, v, v), part.b) < 1e-9
        assert gap(np.einsum("abc,b,c->a", p, v, v), part.p) < 1e-9
        assert gap(np.einsum("abcd,a,b,c,d->", e, v, v, v, v), part.eta) < 1e-9
        checked += np.abs(part.p).max() > 1e-6
    assert checked or scene.model.body_count < 3


def test_the_tensors_need_their_slots_moved(rng):
    """Added as printed, without moving the slots to one twist, the tensors of two parts are wrong."""
    scene = Scene(random_model(rng, bodies=4, bases=1, kinds=("hinge", "ball")), rng, quiet=True)
    scene.qd = 0 * scene.qd
    divided = scene.divided(joint_forces=False)
    right = tensors(divided)
    divided.terms.between = lambda below, above: np.eye(6)
    wrong = tensors(divided)
    assert any(node and gap(wrong[c][0], node[0]) > 1e-2 for c, node in enumerate(right))


def random_update(rng, seed, **options):
    """Return a scene and an update of it from a random region, all that moves being inside."""
    scene = Scene(star(rng) if seed == 0 else forest(rng, seed), rng)
    joints = int(scene.nodes.counted.sum())
    options = {"budget": int(rng.integers(0, joints + 1)), "weights": scene.weights, **options}
    inner = np.arange(len(scene.tree.parent)) >= len(scene.tree.body_link)
    done = update(
        scene.model, scene.tree, inner, scene.q, scene.qd, 1e-2, Options(**options), scene.acting
    )  # fmt: skip
    return scene, done


@pytest.mark.parametrize("seed", SEEDS)
def test_locking_is_what_impulses_do(seed):
    """K_R is a block of H_TT^-1, its inverse the Schur complement of H_TT, and -K_R^-1 qd_R the impulses that lock R.

    They take qd_R^T K_R^-1 qd_R / 2 of the energy and leave the momentum of the joints that stay as it was.
    """
    rng = np.random.default_rng([6, seed])
    scene, done = random_update(rng, seed)
    mass = Twin(scene.model).mass_matrix(scene.q)
    free, stay = scene.nodes.freedoms(done.transient), scene.nodes.freedoms(done.active)
    inner = mass[np.ix_(free, free)]
    r, a = np.isin(free, done.dropped), np.isin(free, stay)
    schur = inner[np.ix_(r, r)] - inner[np.ix_(r, a)] @ np.linalg.solve(inner[np.ix_(a, a)], inner[np.ix_(a, r)])
    assert gap(done.k @ schur, np.eye(len(schur))) < 1e-9
    impulse = np.zeros(len(free))
    impulse[r] = -np.linalg.solve(done.k, scene.qd[done.dropped])
    after = np.zeros(scene.model.nv)
    after[free] = scene.qd[free] + np.linalg.solve(inner, impulse)
    assert gap(done.qd, after) < 1e-9
    loss = 0.5 * scene.qd[done.dropped] @ np.linalg.solve(done.k, scene.qd[done.dropped])
    assert done.lost == pytest.approx(loss, rel=1e-9, abs=1e-9) and done.lost > -1e-12
    assert gap((mass @ done.qd)[stay], (mass @ scene.qd)[stay]) < 1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_one_pass_over_momenta_locks_as_the_impulses_do(seed):
    """Merging the new region's parts with their momenta as bias gives the velocities after locking, without K_R."""
    rng = np.random.default_rng([7, seed])
    scene, done = random_update(rng, seed)
    moving = np.zeros(scene.model.nv, bool)
    moving[scene.nodes.freedoms(done.active)] = True
    assert gap(scene.divided(moving=moving, plastic=True).qdd, done.qd) < 1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_locking_keeps_the_momentum_of_free_trees(seed):
    """Linear and angular momentum of a model all of whose bases are free stay as they were."""
    rng = np.random.default_rng([8, seed])
    model = star(rng) if seed == 0 else random_model(rng, bodies=6, bases=1)
    while not Nodes(model, new_assembly(model.arrays.links)).base.any():
        model = random_model(rng, bodies=6, bases=1)
    scene = Scene(model, rng)
    inner = np.arange(len(scene.tree.parent)) >= len(scene.tree.body_link)
    done = update(model, scene.tree, inner, scene.q, scene.qd, 1e-2, Options(budget=1), scene.acting)
    twin = Twin(model)
    for before, after in zip(twin.momentum(scene.q, scene.qd), twin.momentum(scene.q, done.qd), strict=True):
        assert gap(after, before) < 1e-11


@pytest.mark.parametrize("seed", SEEDS)
def test_the_transient_region_does_not_matter_for_the_velocities(seed):
    """Moving on with the transient accelerations and locking then is one step of the new region from its momentum."""
    rng = np.random.default_rng([9, seed])
    scene, done = random_update(rng, seed)
    h = 1e-2
    now = Dynamics(scene.model, scene.q, scene.qd, h, scene.acting, "euler")
    stay = scene.nodes.freedoms(done.active)
    moved = scene.qd + h * done.transient_qdd
    inner = now.mass[np.ix_(stay, stay)]
    locked = np.linalg.solve(inner, (now.mass @ moved)[stay])
    assert gap(locked, np.linalg.solve(inner, (now.mass @ scene.qd)[stay] + h * now.force[stay])) < 1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_queue_takes_the_largest_and_its_error_falls(seed):
    """Taken nodes hang together from the roots, errors fall to 0, values are those of the largest parts."""
    rng = np.random.default_rng([10, seed])
    scene, done = random_update(rng, seed, budget=1000)
    assert (np.diff(done.chosen.errors) <= 1e-12).all() and abs(done.chosen.errors[-1]) < 1e-9
    assert set(done.chosen.popped) == {c for c in range(len(scene.tree.body_link), len(scene.tree.parent))}
    taken = [done.metric[c] for c in done.chosen.popped]
    assert (np.diff(taken) <= 0).all()
    for place, c in enumerate(done.chosen.popped):
        assert scene.tree.parent[c] < 0 or scene.tree.parent[c] in done.chosen.popped[:place]
    roots = sum(done.metric[c] for c in scene.tree.roots)
    assert done.chosen.errors[0] == pytest.approx(roots, abs=1e-9)
    assert (done.active[len(scene.tree.body_link) :]).all() and done.lost == 0.0


@pytest.mark.parametrize("seed", SEEDS)
def test_the_distance_from_rigid_motion(seed):
    """E of a part is at least that of its sides together, that of all a free base carries twice what locking it loses.

    Of all that hangs on the world it is twice the kinetic energy.
    """
    rng = np.random.default_rng([11, seed])
    scene = Scene(star(rng) if seed == 0 else forest(rng, seed), rng)
    twin = Twin(scene.model)
    jacobians, rotors = twin.jacobians(scene.q), twin.armature()
    mass = twin.mass_matrix(scene.q, jacobians)
    values, own = distances(scene.model, scene.nodes, scene.q, scene.qd, jacobians, rotors)
    assert (own > -1e-9 * values.max(initial=1.0)).all()
    for root in scene.tree.roots:
        inside = scene.nodes.freedoms(np.isin(np.arange(len(own)), scene.nodes.inside[root]))
        assert values[root] == pytest.approx(scene.qd[inside] @ mass[np.ix_(inside, inside)] @ scene.qd[inside], 1e-9)
        below = scene.nodes.below(root)
        if scene.nodes.base[root] and below:
            base = scene.nodes.dofs[root]
            rest = np.setdiff1d(inside, base)
            k = np.linalg.inv(mass[np.ix_(inside, inside)])[np.ix_(*[np.isin(inside, rest)] * 2)]
            lost = scene.qd[rest] @ np.linalg.solve(k, scene.qd[rest])
            assert values[below[0]] == pytest.approx(lost, rel=1e-8)


def test_budgets_and_tolerances_of_the_queue():
    """A common budget stops at the first node too many, one per figure goes on elsewhere, a tolerance stops at once."""
    builder = lj.Builder()
    for name in "ab":
        above = "world"
        for k in range(4):
            builder.add_body(f"{name}{k}", mass=1.0, inertia=(1, 1, 1))
            builder.add_joint_hinge(f"{name}{k}", above, f"{name}{k}", position=(0, 1, 0))
            above = f"{name}{k}"
    model = builder.build()
    tree = new_assembly(model.arrays.links)
    nodes = Nodes(model, tree)
    x = np.array([4.0, 3.0, 2.0, 1.0, 0.4, 0.3, 0.2, 0.1])
    values, own = metric_of(nodes, weight_matrices(model, nodes, 1.0, None), x)
    inner = np.arange(16) >= 8

    def figures(budget, tolerance=None):
        done = queue(nodes, values, own, inner, budget, tolerance)
        return [sum(tree.tree_index[c] == f for c in done.popped) for f in range(2)], done.errors[-1]

    assert figures(0) == ([0, 0], pytest.approx(30.3))
    assert figures(4)[0] == [4, 0] and figures(5)[0] == [4, 1] and figures(99) == ([4, 4], pytest.approx(0, abs=1e-12))
    assert figures((1, 3))[0] == [1, 3] and figures((9, 0))[0] == [4, 0]
    assert figures(None, 30.4)[0] == [0, 0] and figures(None, 0.31)[0] == [4, 0] and figures(2, 0.31)[0] == [2, 0]
    assert figures(None, -1.0)[0] == [4, 4]


@pytest.mark.parametrize("integrator", ["semi_implicit", "euler", "implicit"])
def test_a_step_with_all_joints_active_is_that_of_full(integrator, rng):
    """With every joint in the region the twin's step is one step of method "full"."""
    builder = lj.Builder("driven")
    motor = lj.Motor(kp=3.0, kd=0.3, target=0.5)
    ball = lj.Motor(kp=2.0, kd=0.1, target=(0.8, 0.6, 0.0, 0.0))
    for k in range(3):
        add_body(builder, rng, f"b{k}")
    builder.add_joint_ball("ball", "b0", "b1", motor=ball, armature=0.1, stiffness=1.0)
    builder.add_joint_hinge("hinge", "b1", "b2", motor=motor, damping=0.2)
    model = builder.build()
    scene = Scene(model, rng)
    sim = lj.Simulation(model, lj.Full(integrator=integrator), dt=1e-2, q=scene.q, qd=scene.qd)
    sim.tau = scene.acting.tau
    for name, wrench in zip(model.body_names, scene.acting.wrenches, strict=True):
        sim.apply_wrench(name, torque=wrench[:3], force=wrench[3:])
    scene.acting.targets["hinge"] = sim.joint("hinge").target = 1.5
    inner = np.arange(len(scene.tree.parent)) >= len(scene.tree.body_link)
    q, qd = step(model, scene.tree, inner, scene.q, scene.qd, 1e-2, scene.acting, integrator)
    sim.step()
    assert gap(sim.q, q) < 1e-10 and gap(sim.qd, qd) < 1e-10
