"""What counts as important: masses, views, and what updates cost."""

from __future__ import annotations

import numpy as np
import pytest
from tests.naive import models

import limberjack as lj
from limberjack.reduced.assembly_tree import new_assembly

MOVING = [kind for kind in models.KINDS if kind != "fixed"]


def floating(rng, passive=False):
    """Return a random floating tree of all joint kinds."""
    builder, n = lj.Builder("floating"), int(rng.integers(3, 14))
    for i in range(n):
        models.add_body(builder, rng, f"body{i}")
    builder.add_joint_free("base", "world", "body0")
    for i in range(1, n):
        kind = MOVING[int(rng.integers(len(MOVING)))]
        parent = f"body{int(rng.integers(max(0, i - 3), i))}"
        models.add_joint(builder, rng, kind, f"joint{i}", parent, f"body{i}", passive=passive)
    return builder.build()


def apart(model, q, x):
    """Return the squared distance, in the norm of the inertias, of the motion x from the nearest rigid one."""
    mass = lj.mass_matrix(model, q)
    inner = mass[6:, 6:] - mass[6:, :6] @ np.linalg.solve(mass[:6, :6], mass[:6, 6:])
    return x[6:] @ inner @ x[6:]


@pytest.mark.parametrize("seed", range(16))
def test_the_mass_metric_is_the_distance_from_a_rigid_body(seed):
    """Of a floating tree at rest inside, turning and pushed, the metric is that of the accelerations of `full`."""
    rng = np.random.default_rng(seed)
    model = floating(rng)
    q, qd = models.random_state(rng, model)
    qd[6:] = 0.0
    tau, push = rng.normal(size=model.nv) * (seed % 2), rng.normal(size=3) * 10 * (seed % 3 == 0)
    sim = lj.Simulation(model, lj.Adaptive(budget=0, metric="mass", update_every=1), dt=1e-3, q=q, qd=qd)
    sim.tau = tau
    wrenches = np.zeros((model.body_count, 6))
    if push.any():
        sim.apply_wrench(model.body_names[-1], force=push)
        wrenches[-1, 3:] = push
    sim.step()  # its update activates the joints that were edited
    q, qd = sim.q, sim.qd
    sim.step()
    wanted = apart(model, q, lj.forward_dynamics(model, q, qd, tau=tau, wrenches=wrenches))
    assert sim.stats["acceleration_metric"] == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_the_mass_metric_of_velocities_is_the_energy_that_would_be_lost(seed):
    """With the bases alone left, the velocity metric stopped is twice the energy apart from rigid motion."""
    rng = np.random.default_rng(seed)
    model = floating(rng)
    q, qd = models.random_state(rng, model)
    sim = lj.Simulation(model, lj.Adaptive(budget=0, metric="mass", horizon=0.0), dt=1e-3, q=q, qd=qd)
    ahead = qd + sim.dt * lj.forward_dynamics(model, q, qd)
    sim.step()
    assert sim.stats["velocity_error"] == pytest.approx(apart(model, q, ahead), rel=1e-8)
    assert sim.stats["energy_removed"] == pytest.approx(apart(model, q, qd) / 2, rel=1e-9)


@pytest.mark.parametrize("metric", ["joints", "mass"])
def test_more_joints_leave_less_out(metric):
    """The error at the first choice falls with the budget and is the whole metric without joints."""
    rng = np.random.default_rng(3)
    model = floating(rng)
    q, qd = models.random_state(rng, model)
    qd[6:] = 0.0
    errors = []
    for budget in range(len(model.joint_names)):
        sim = lj.Simulation(model, lj.Adaptive(budget=budget, metric=metric), dt=1e-3, q=q, qd=qd)
        sim.step()
        errors.append(sim.stats["error_estimate"])
    assert errors[0] == pytest.approx(sim.stats["acceleration_metric"])
    assert all(a >= b - 1e-9 * errors[0] for a, b in zip(errors[:-1], errors[1:], strict=True))
    assert errors[-1] <= 1e-9 * errors[0]


@pytest.mark.parametrize("metric", ["joints", "mass"])
def test_gravity_alone_moves_no_joint_of_a_floating_body(metric):
    """A floating figure in free fall has nothing to choose: its metric is zero."""
    model = floating(np.random.default_rng(4))
    sim = lj.Simulation(model, lj.Adaptive(budget=3, metric=metric), dt=1e-3)
    sim.step()
    assert sim.stats["acceleration_metric"] < 1e-18


def test_a_view_from_afar_moves_fewer_joints():
    """The farther the camera, the fewer joints are worth a pixel; from behind, none."""
    model = lj.scenes.pendulum(links=30)
    counts = []
    for distance in (2.0, 50.0, 500.0, 1e5):
        sim = lj.Simulation(model, lj.Adaptive(view=lj.View(position=(0.0, -distance, 0.0)), update_every=10), dt=1e-3)
        sim.step(300)
        counts.append(len(sim.active_joints))
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[-1] == 0
    away = lj.View(position=(0.0, -100.0, 0.0), target=(0.0, -200.0, 0.0))
    sim = lj.Simulation(model, lj.Adaptive(view=away), dt=1e-3)
    sim.step(50)
    assert sim.active_joints == []
    sim.tune(view=lj.View(position=(0.0, -2.0, 0.0)))
    sim.step(50)
    assert len(sim.active_joints) > 5


def test_the_error_in_a_view_bounds_what_is_missed():
    """The pixels left out are at least those of every rigid joint: its acceleration, lever and distance."""
    model = lj.scenes.pendulum(links=20)
    place = np.array((0.0, -8.0, 0.0))
    view = lj.View(position=tuple(place), tolerance=3.0)
    sim = lj.Simulation(model, lj.Adaptive(view=view, budget=4, update_every=10), dt=1e-3)
    sim.step()
    qdd = lj.forward_dynamics(model, model.q0, model.qd0)
    positions, _ = lj.forward_kinematics(model, model.q0)
    focal = view.pixels / (2 * np.tan(view.angle / 2))
    period = sim.method.horizon_used
    tip = positions[-1]
    missed = 0.0
    for joint in set(model.joint_names) - set(sim.active_joints):
        info = model.joint(joint)
        at = positions[model.body_index(info.child)]
        lever = np.linalg.norm(tip - at)
        nearest = min(np.linalg.norm(p - place) for p in positions)
        missed += (0.5 * period**2 * abs(qdd[info.v_start]) * lever * focal / nearest) ** 2
    assert sim.stats["error_estimate"] >= missed


def test_bad_views_are_refused():
    """A camera without a direction or with a bad tolerance or position is refused."""
    for options in ({"position": (0, 0, 0)}, {"position": (1, 0, 0), "tolerance": 0.0}, {"position": (1, 0)}):
        with pytest.raises(lj.StateError, match="view"):
            lj.View(**options)


def test_the_work_does_not_grow_with_the_body():
    """Nodes visited per step are the active joints; per update they grow with the depth of the tree, not its size."""
    visited = {}
    for links in (300, 3000, 30000):
        model = lj.scenes.long_chain(links=links)
        sim = lj.Simulation(model, lj.Adaptive(budget=10, update_every=5), dt=1e-4)
        sim.apply_wrench(model.body_names[links // 2], force=(1.0, 0.0, 0.0))
        sim.step(11)
        stats = sim.stats
        assert stats["nodes"] <= 2 * 10 + 1
        depth = stats["depth"] + 1
        assert stats["update_nodes"] <= 12 * (10 + depth)
        visited[links] = stats["update_nodes"]
    assert visited[30000] <= 2 * visited[300]


def test_a_force_place_named_beforehand_is_near_the_root():
    """With tree="forces" the joints around a named body are reached with fewer joints than in the balanced tree."""
    model = lj.scenes.pendulum(links=64, gravity=(0, 0, 0))
    body = model.body_names[10]
    depths = {}
    for tree in ("balanced", "forces"):
        sim = lj.Simulation(model, lj.Adaptive(budget=4, tree=tree, force_bodies=(body,)), dt=1e-3)
        depths[tree] = sim._stepper.assembly.depth[model.body_index(body)]
    assert depths["forces"] < depths["balanced"]


def test_joints_that_move_much_are_near_the_root_of_the_tree():
    """Balanced by masses, hips and knees are above feet and toes, and the tree is one level deeper at most."""
    model = lj.scenes.humanoid()
    tree = lj.Simulation(model, lj.Adaptive(budget=1, tree="masses"), dt=1e-3)._stepper.assembly
    links = zip(model.joint_names, model.arrays.joint_link, strict=True)
    depth = {name: int(tree.depth[tree.node_of[i]]) for name, i in links if i >= 0}
    for side in ("left", "right"):
        below = [k for name, k in depth.items() if name.startswith(side) and ("toe" in name or "subtalar" in name)]
        assert max(depth[f"{side}_hip_flexion"], depth[f"{side}_knee"]) < min(below)
    equal = new_assembly(model.arrays.links)
    assert tree.depth.max() <= equal.depth.max() + 1


def test_the_tree_of_equal_figures_is_the_same_for_each():
    """Weights are those within a tree: a crowd of a heavy and a light chain has two trees of one shape."""
    builder = lj.Builder("two")
    for k, mass in enumerate((100.0, 0.01)):
        for i in range(9):
            inertia = (0.01 * mass,) * 3
            builder.add_body(f"{k}/{i}", mass=mass, com=(0, 0, -0.5), inertia=inertia)
            above = f"{k}/{i - 1}" if i else "world"
            builder.add_joint_hinge(f"{k}/j{i}", above, f"{k}/{i}", axis=(0, 1, 0), position=(0, 0, -1.0 * (i > 0)))
    tree = lj.Simulation(builder.build(), lj.Adaptive(budget=2, tree="masses"), dt=1e-3)._stepper.assembly
    depth = tree.depth[tree.node_of]
    assert (depth[:9] == depth[9:]).all()
    assert depth[:4].mean() < depth[5:9].mean()  # what carries more is nearer to the root


def test_a_quarter_of_the_budget_competes_with_active_joints():
    """From rest the whole budget is filled at once; then five of twenty joints are looked at beside the active ones."""
    model = lj.scenes.paper_pendulum(links=100, start="random", seed=2)
    sim = lj.Simulation(model, lj.Adaptive(budget=20), dt=2.5e-4)
    sim.step()
    assert sim.stats["active_joints"] == 20 and sim.stats["entered"] == 20
    for _ in range(20):
        sim.step(20)
        assert sim.stats["entered"] <= 5 and sim.stats["active_joints"] == 20
    sim.tune(update_budget=20)
    sim.step()
    assert 25 < sim.stats["queue_pops"]


def test_joints_cut_first_by_name_are_the_first_to_move():
    """The five links on slides: a force on the second moves it by f/m; with one joint active, four move by f/4m."""
    builder, m, f = lj.Builder("sliders", gravity=(0, 0, 0)), 2.0, 6.0
    above = "world"
    for k in range(1, 6):
        builder.add_body(f"l{k}", mass=m, inertia=(1.0, 1.0, 1.0))
        builder.add_joint_slide(f"J{k - 1}", above, f"l{k}", axis=(1.0, 0.0, 0.0))
        above = f"l{k}"
    model = builder.build()
    method = lj.Adaptive(budget=2, tree=lambda model: ["J0", "J1", "J2", "J3", "J4"])
    sim = lj.Simulation(model, method, dt=1e-3)
    sim.apply_wrench("l2", force=(f, 0.0, 0.0))
    sim.step()
    assert sim.active_joints == ["J0", "J1"]
    np.testing.assert_allclose(sim.velocities[:, 3] / sim.dt, [0, f / (4 * m), f / (4 * m), f / (4 * m), f / (4 * m)])
    sim = lj.Simulation(model, lj.Adaptive(budget=5), dt=1e-3)
    sim.apply_wrench("l2", force=(f, 0.0, 0.0))
    sim.step()
    np.testing.assert_allclose(sim.velocities[:, 3] / sim.dt, [0, f / m, 0, 0, 0], atol=1e-12)
