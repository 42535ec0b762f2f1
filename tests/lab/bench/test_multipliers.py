"""The table of multipliers: solvers that agree, twins of the tree with loops in the peers, rows and bars."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest

import limberjack as lj
from limberjack import errors
from limberjack_lab import bench
from limberjack_lab.bench import closed_trees, multipliers
from limberjack_lab.bench.closed_trees import consistent, reduced_mjcf
from limberjack_lab.bench.free_bodies import Bodies, to_free_mjcf
from limberjack_lab.bench.maximal import DENSE, EULER, accelerations, rows_of, stirred
from limberjack_lab.bench.table import MISSING, Table, Watch

TINY = multipliers.Extent((10, 20), (10, 20), (3, 7), 7, (0, 1), 0.02, 0.002)


def _filled() -> Table:
    table = Table("multipliers", multipliers.TITLE, quick=True)
    with Watch("multipliers") as watch:
        multipliers.fill(table, True, watch, extent=TINY)
    return table


@pytest.mark.slow
def test_every_row_is_measured():
    """A small run has all rows with finite numbers, answers that agree, and joints kept by ours; it judges no bar."""
    table = _filled()
    dense, sparse, steps, growth = table.parts
    assert [(row["shape"], row["n"]) for row in growth.rows] == [(s, n) for s in multipliers.SHAPES for n in (10, 20)]
    assert [row["rows"] for row in dense.rows] == [row["rows"] for row in sparse.rows] == [9, 21]
    assert len(steps.rows) == 2 * (len(closed_trees.OURS) + 4)
    for part in table.parts:
        assert all(math.isfinite(x) for row in part.rows for x in row.values() if isinstance(x, float))
    for row in growth.rows:
        assert row["step"] > 0 and row["rows"] == 3 * row["n"] and row["gap"] < 1e-8
        assert row["step_body"] == pytest.approx(1e3 * row["step"] / row["n"])
    for row in dense.rows:
        assert row["dense_ratio"] == pytest.approx(row["dense"] / row["step"]) and row["lapack"] > 0
        assert row["gap"] < 1e-8
    for row in sparse.rows:
        assert row["faster"] == pytest.approx(min(row["schur"], row["saddle"]) / row["step"]) and row["gap"] < 1e-8
    for row in steps.rows:
        assert row["us"] > 0 and (row["who"] not in closed_trees.OURS or row["error"] <= 1e-6)
    assert not table.wrong and {bar.passed for bar in table.bars} == {None}


def test_missing_peers_leave_our_own_numbers(monkeypatch):
    """Without peers everything of ours is measured, and the cells of the others say what is missing."""

    def require(module, extra):
        raise errors.MissingExtra(f'"{module}" is needed for this: pip install "limberjack[{extra}]"')

    monkeypatch.setattr(errors, "require", require)
    dense, sparse, steps, growth = _filled().parts
    assert all(row["lapack"] == MISSING and row["lapack_ratio"] is None and row["dense"] > 0 for row in dense.rows)
    assert all(row["schur"] == row["saddle"] == MISSING for row in sparse.rows)
    assert len(steps.rows) == 2 * (len(closed_trees.OURS) + 1) and all(row["step"] > 0 for row in growth.rows)


def test_a_wrong_answer_is_not_timed(monkeypatch):
    """Accelerations that differ from those in reduced coordinates are named, and their time is not shown."""
    monkeypatch.setattr(multipliers, "accelerations", lambda model, method, qd: 1.1 * accelerations(model, method, qd))
    table = Table("multipliers", multipliers.TITLE, quick=True)
    with Watch("multipliers") as watch:
        multipliers._growth(table, TINY, watch)
    rows = table.parts[0].rows
    assert len(table.wrong) == len(rows) == 6
    assert all(isinstance(row["step"], str) and "step_body" not in row for row in rows)


@pytest.mark.parametrize("loops", [0, 2])
def test_all_ways_give_the_same_accelerations(loops):
    """Steps in linear time, in one matrix, and the matrices built here have the same accelerations."""
    sparse = pytest.importorskip("scipy.sparse")
    model = lj.scenes.baraff_tree(bodies=15, loops=loops)
    qd = consistent(model)
    linear, dense = (accelerations(model, method, qd) for method in (EULER, DENSE))
    size = np.abs(linear).max()
    np.testing.assert_allclose(dense, linear, atol=1e-9 * size)
    system = rows_of(model, sparse, qd)
    lam = np.linalg.lstsq(system.schur(sparse).toarray(), system.side(), rcond=1e-12)[0]
    np.testing.assert_allclose(system.accelerations(lam)[:, :3], linear, atol=1e-8 * size)


def test_rows_are_those_of_the_joints():
    """Hinges, universal and fixed joints take five, four and six rows, which allow the velocities of the model."""
    sparse = pytest.importorskip("scipy.sparse")
    model = lj.scenes.random_tree(bodies=8, kinds=("hinge", "ball", "universal", "fixed"), floating=True, seed=3)
    system = rows_of(model, sparse, stirred(model))
    counts = {"hinge": 5, "ball": 3, "universal": 4, "fixed": 6, "free": 0}
    assert system.j.shape[0] == sum(counts[model.joint(name).kind] for name in model.joint_names)
    velocities = lj.Simulation(model, qd=stirred(model)).velocities
    np.testing.assert_allclose(system.j @ velocities.ravel(), 0.0, atol=1e-12)
    np.testing.assert_allclose(system.value, 0.0, atol=1e-12)


def test_accelerations_relative_to_the_parent_are_those_of_reduced_coordinates():
    """Angular accelerations of bodies on ball joints give qdd."""
    model = multipliers.hanging("binary tree", 7)
    qd = stirred(model)
    w = lj.Simulation(model, qd=qd).velocities[:, :3]
    qdd = lj.forward_dynamics(model, model.q0, qd)
    own = multipliers.relative(model, w, accelerations(model, EULER, qd))
    np.testing.assert_allclose(own, qdd, atol=1e-9 * np.abs(qdd).max())


def test_the_shapes_are_what_they_are_called():
    """Bodies of a chain hang from the one before, of a binary tree from half their number, of a star from the first."""
    above = {shape: [parent(i) for i in range(7)] for shape, parent in multipliers.SHAPES.items()}
    assert above["chain"] == [-1, 0, 1, 2, 3, 4, 5]
    assert above["binary tree"] == [-1, 0, 0, 1, 1, 2, 2]
    assert above["star"] == [-1, 0, 0, 0, 0, 0, 0]


def test_gaps_are_distances_of_the_ends_of_joints():
    """Assembled joints have none; a body moved by a millimetre is a millimetre off, a body turned by its lever."""
    model = lj.scenes.baraff_tree(bodies=7, loops=2)
    bodies = Bodies(model, reorder=False)
    sim = lj.Simulation(model)
    places, rotations = sim.positions + bodies.com, sim.rotations.copy()
    assert bodies.gap(places, rotations) < 1e-15
    moved = places.copy()
    moved[0, 1] += 1e-3
    assert bodies.gap(moved, rotations) == pytest.approx(1e-3)
    rotations[0] = (math.cos(0.005), 0, math.sin(0.005), 0)
    lever = math.hypot(0.25, 0.075)  # from the com to the balls below, which stand 0.15 of the length off along x
    assert bodies.gap(places, rotations) == pytest.approx(2 * math.sin(0.005) * lever, rel=1e-6)


def test_the_start_fits_the_loops():
    """Both ends of every loop move alike at the start, and a tree keeps the velocities that were drawn."""
    model = lj.scenes.baraff_tree(bodies=31, loops=6)
    sim = lj.Simulation(model, qd=consistent(model))
    bodies = Bodies(model, reorder=False)
    v = sim.velocities
    for (a, b), (ra, rb) in zip(bodies.ends[31:], bodies.points[31:], strict=True):
        one, two = v[a, 3:] + np.cross(v[a, :3], ra), v[b, 3:] + np.cross(v[b, :3], rb)
        np.testing.assert_allclose(one, two, atol=1e-12)
    assert np.abs(consistent(model)).max() > 0.1
    free = consistent(lj.scenes.baraff_tree(bodies=31), stir=0.5)
    assert 0.4 < np.abs(free).max() <= 0.5


@pytest.mark.parametrize("kind", ["reduced", "maximal"])
def test_twins_in_mujoco_start_assembled(kind):
    """The twins have our masses and coms, and three rows for each joint that is not built in, all of them closed."""
    model, plain = (lj.scenes.baraff_tree(bodies=15, loops=loops) for loops in (3, 0))
    bodies = Bodies(model, reorder=False)
    maximal = to_free_mjcf(bodies, closed_trees.DT, solver="CG", contacts=False)
    text = reduced_mjcf(plain, bodies) if kind == "reduced" else maximal
    twin = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(twin)
    mujoco.mj_forward(twin, data)
    assert (twin.nv, data.nefc) == ((45, 9) if kind == "reduced" else (90, 54))
    assert np.abs(data.efc_pos).max() < 1e-14
    np.testing.assert_allclose(data.xipos[1:], lj.forward_kinematics(model, model.q0)[0] + bodies.com, atol=1e-14)
    assert bodies.gap(data.xipos[1:], data.xquat[1:]) < 1e-14
    np.testing.assert_allclose(twin.body_mass[1:], 1.0)


def test_the_best_peer_is_compared_with_ours_that_keeps_its_joints():
    """A faster way of ours does not count when its joints open by more than a micrometre."""
    first, second = list(closed_trees.OURS)[:2]
    rows = [
        {"who": first, "us": 1.0, "error": 1e-3},
        {"who": second, "us": 10.0, "error": 1e-7},
        {"who": "peer", "us": 40.0, "error": 1.0},
        {"who": "lost", "us": "differs"},
    ]
    table = Table("multipliers", "", quick=False)
    closed_trees._bar(table, rows, 12)
    assert table.bars[0].value == 4.0 and table.bars[0].limit == 9.0 and second in table.bars[0].text


def test_the_table_is_listed():
    """The command line knows the table."""
    assert "multipliers" in bench.TABLES
