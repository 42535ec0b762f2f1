"""Assembly by displacements: rows against differences, closing from any start, least squares, inverse kinematics."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj
from limberjack.maximal.assemble import Assembler, checked_targets
from limberjack.scenes.faure import TABLE
from limberjack.spatial.frames import matrix_from_quaternion, matrix_from_vector, quaternion_from_matrix

# Rows that the paper's Table 1 locks for each joint.
LOCKED = {"universal": 3, "pin": 5, "cylindrical": 4, "prismatic": 5, "ball_socket": 2, "smooth_contact": 1}


def dense_rows(work):
    """Return J of all constraints, (rows, 6 solids)."""
    s = work.net.system
    out = np.zeros((s.row_start[-1], 6 * len(work.pose)))
    for c in range(len(s.row_start) - 1):
        own = slice(s.row_start[c], s.row_start[c + 1])
        for t in range(s.incidence_start[c], s.incidence_start[c + 1]):
            b = 6 * s.incidence_body[t]
            out[own, b : b + 6] = work.work.jacobian[s.block_start[t] : s.block_start[t + 1]].reshape(-1, 6)
    return out


def displaced(pose, d):
    """Return the poses moved by d, (6 n,)."""
    out = pose.copy()
    for i, one in enumerate(d.reshape(-1, 6)):
        out[i, :3] += one[3:]
        out[i, 3:7] = quaternion_from_matrix(matrix_from_vector(one[:3]) @ matrix_from_quaternion(pose[i, 3:7]))
    return out


def errors_at(work, pose):
    """Return the errors of all rows with the solids at `pose`."""
    work.pose[:] = pose
    work.correct(0, 0)
    return work.work.residual.copy()


def scrambled(work, rng, size):
    """Put every solid anywhere within `size` of where it is, turned anyhow."""
    work.pose[:, :3] += rng.uniform(-size, size, (len(work.pose), 3))
    turned = rng.normal(size=(len(work.pose), 4))
    work.pose[:, 3:7] = turned / np.linalg.norm(turned, axis=1)[:, None]


def jointed(kinds):
    """Return a model of pairs of free bodies, one pair per joint kind."""
    builder = lj.Builder("jointed", gravity=(0.0, 0.0, 0.0))
    for kind in kinds:
        for part in "ab":
            builder.add_body(f"{kind}_{part}", mass=1.0, com=(0.1, 0.0, 0.05), inertia=(0.1, 0.2, 0.15))
            builder.add_joint_free(f"{kind}_{part}_free", "world", f"{kind}_{part}")
        own: dict = {"screw": {"pitch": 0.2}, "universal": {"axis": (1.0, 0.0, 0.0)}}.get(kind, {})
        if kind == "compound":
            axes = [lj.Axis(name="turning"), lj.Axis(name="sliding", kind="slide", axis=(1.0, 0.0, 0.0))]
            builder.add_joint_compound(kind, f"{kind}_a", f"{kind}_b", axes, position=(0.2, 0.1, 0.3))
        elif kind == "distance":
            builder.add_joint_distance(kind, f"{kind}_a", f"{kind}_b", length=0.7, position=(0.2, 0.1, 0.3))
        else:
            own.setdefault("axis", (0.0, 0.6, 0.8))
            builder.add_joint(kind, kind, f"{kind}_a", f"{kind}_b", position=(0.2, 0.1, 0.3), **own)
    return builder.build()


KINDS = (
    "hinge", "slide", "ball", "universal", "cylindrical", "planar", "screw", "point_on_line", "point_on_plane",
    "distance", "compound",
)  # fmt: skip


def test_rows_are_the_derivative_of_errors(rng):
    """Every row of every joint kind and of trackers is the derivative of its error, with swings up to a radian.

    Those of compound joints are so when closed only.
    """
    model = jointed(KINDS[:-1])
    target = {"ball_a": ((0.3, 0.2, 0.1), (0.8, 0.0, 0.6, 0.0))}
    work = Assembler(model, targets=checked_targets(model, target, "targets")[0])
    pose = displaced(work.pose, rng.normal(scale=0.25, size=6 * len(work.pose)))
    errors_at(work, pose)
    rows = dense_rows(work)
    for _ in range(5):
        d = rng.normal(size=rows.shape[1])
        h = 1e-6
        slope = (errors_at(work, displaced(pose, h * d)) - errors_at(work, displaced(pose, -h * d))) / (2 * h)
        errors_at(work, pose)
        assert np.abs(rows @ d - slope).max() < 1e-7


def test_one_correction_is_the_least_displacement(rng):
    """With enough solver iterations a correction is M^-1 J^T (J M^-1 J^T)^+ (-e), as dense algebra has it."""
    work = Assembler(jointed(KINDS))
    pose = displaced(work.pose, rng.normal(scale=0.2, size=6 * len(work.pose)))
    e = errors_at(work, pose)
    rows, metric = dense_rows(work), work.net.physical
    turned = matrix_from_quaternion(pose[:, 3:7])
    inverse = np.zeros((rows.shape[1],) * 2)
    for i, m in enumerate(metric):
        own = m[[0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(3, 3)
        inverse[6 * i : 6 * i + 3, 6 * i : 6 * i + 3] = turned[i] @ own @ turned[i].T
        inverse[6 * i + 3 : 6 * i + 6, 6 * i + 3 : 6 * i + 6] = m[6] * np.eye(3)
    wanted = -inverse @ rows.T @ np.linalg.pinv(rows @ inverse @ rows.T) @ e
    work.correct(1, 500, physical=True, clamp=10.0)
    assert np.abs(work.pose[:, :7] - displaced(pose, wanted)[:, :7]).max() < 1e-9


def _net_of_balls():
    """Return a floor of four by four bodies on balls, loops and all, without gravity."""
    builder = lj.Builder("floor", gravity=(0.0, 0.0, 0.0))
    for k in range(16):
        builder.add_body(f"b{k}", mass=1.0 + 0.1 * k, com=(0.1, 0.05, 0.0), inertia=(0.1, 0.2, 0.15))
        builder.add_joint_free(f"f{k}", "world", f"b{k}", start=(k % 4, k // 4, 0.1 * (k % 3), 1.0, 0.0, 0.0, 0.0))
    for k in range(16):
        if k % 4 < 3:
            at = (0.5, 0.0, 0.05 * (((k + 1) % 3) - k % 3))
            back = np.array(at) - (1.0, 0.0, 0.1 * (((k + 1) % 3) - k % 3))
            builder.add_joint_ball(f"right{k}", f"b{k}", f"b{k + 1}", position=at, position_in_child=tuple(back))
        if k < 12:
            lift = 0.1 * (((k + 4) % 3) - k % 3)
            builder.add_joint_ball(
                f"up{k}", f"b{k}", f"b{k + 4}", position=(0.0, 0.5, 0.5 * lift),
                position_in_child=(0.0, -0.5, -0.5 * lift),
            )  # fmt: skip
    return builder.build()


@pytest.mark.parametrize(("make", "size"), [(_net_of_balls, 0.1), (lambda: jointed(KINDS[:-1]), 1e-6)])
def test_converged_displacements_are_the_multipliers_projection(make, size, rng):
    """From the same open start, in the metric of masses, both end at the same poses to 1e-10.

    Balls from far; kinds whose rotation errors are measured in another way from near, where both ways agree.
    """
    model = make()
    closed = lj.assemble(model, tolerance=1e-13).q
    sim = lj.Simulation(model, lj.Multipliers(stabilization="project"), dt=1e-9, q=closed)
    sim.step()
    pose, work = sim._stepper._s.pose, Assembler(model, closed)
    start = displaced(pose, rng.normal(scale=size, size=6 * len(pose)))
    pose[:] = work.pose[:] = start
    sim.step()
    work.correct(30, 2000, physical=True, tolerance=1e-14, solver_tolerance=1e-15)
    ours, theirs = work.pose[:, :7], pose[:, :7]
    assert np.abs(ours - start[:, :7]).max() > 0.1 * size
    assert np.abs(ours[:, :3] - theirs[:, :3]).max() < 1e-10
    assert np.abs(ours[:, 3:] - theirs[:, 3:]).max() < 1e-10


def test_every_joint_kind_closes(rng):
    """Pairs of bodies far apart and turned anyhow come together whatever their joint."""
    work = Assembler(jointed(KINDS))
    scrambled(work, rng, 0.5)
    work.correct(30, 300, tolerance=1e-10)
    assert work.work.report[2] <= 1e-9


def test_every_joint_of_table_1_closes():
    """The joints of the paper's table have the rows it says, and close from where they start."""
    model = lj.scenes.faure_joints()
    work = Assembler(model)
    counts = np.bincount(work.whole.table.joint[: work.net.rows[0]], minlength=model.joint_count)
    assert {name: int(counts[model.joint_names.index(name)]) for name in TABLE} == LOCKED
    done = lj.assemble(model)
    assert done.closed and done.error < 1e-9 and done.open == () and done.iterations <= 8


@pytest.mark.parametrize("twist", [0.0, 1.0, 2.0, 3.0, np.pi])
def test_a_hinge_closes_at_any_twist(twist):
    """A pin whose bodies are turned against another about its axis by up to half a turn closes, its angle kept."""
    builder = lj.Builder("pin", gravity=(0.0, 0.0, 0.0))
    for name in "ab":
        builder.add_body(name, mass=1.0, inertia=(0.1, 0.2, 0.15))
        builder.add_joint_free(f"{name}_free", "world", name)
    builder.add_joint_hinge("pin", "a", "b", position=(0.3, 0.0, 0.0), position_in_child=(-0.3, 0.0, 0.0))
    model = builder.build()
    tilt = quaternion_from_matrix(matrix_from_vector([0.5, 0.3, 0.0]) @ matrix_from_vector([0.0, 0.0, twist]))
    q = np.concatenate([model.q0[:7], [0.8, 0.1, 0.2], tilt])
    done = lj.assemble(model, q, tolerance=1e-12)
    assert done.closed and done.error < 1e-12 and done.iterations <= 8


def test_the_ring_of_figures_closes_in_six_by_thirty():
    """758 constraints on 210 solids, 0.9 m open, are closed to 1e-6 m by 6 x 30 iterations in the unit metric."""
    work = Assembler(lj.scenes.ring_of_figures(assembled=False))
    assert (len(work.pose), int(work.net.rows[0])) == (210, 758)
    work.correct(0, 0)
    assert 0.85 < work.work.report[2] < 0.9
    work.correct(6, 30)
    assert work.work.report[0] == 6 and work.work.report[1] <= 180
    assert work.work.report[2] <= 1e-6


def test_the_ring_closes_from_a_scrambled_start(rng):
    """With every solid thrown within a metre and turned anyhow, 15 iterations close all 758 constraints to 1e-9."""
    work = Assembler(lj.scenes.ring_of_figures(assembled=False))
    scrambled(work, rng, 1.0)
    work.correct(15, 300, tolerance=1e-10)
    assert work.work.report[2] <= 1e-9


def test_structures_are_as_the_paper_counts_them():
    """56 solids with 261 constraints to drag, 28 with 108 to shake, both closed at the start."""
    for name, solids, rows in (("draggable_structure", 56, 261), ("shaken_plate", 28, 108)):
        work = Assembler(lj.scenes.get(name).model)
        work.correct(0, 0)
        assert (len(work.pose), int(work.net.rows[0])) == (solids, rows)
        assert work.work.report[2] < 1e-12


def _hung(reach):
    """Return an assembler of a chain of six links hung at one end and pulled `reach` away at the other."""
    model = lj.scenes.pendulum(links=6)
    end = model.body_names[-1]
    return Assembler(model, targets=checked_targets(model, {end: (reach, 0.0, 0.0)}, "targets")[0])


def test_too_far_a_pull_ends_near_the_least_residual():
    """Pulled farther than it reaches, 15 solver iterations leave at most 1.05 times the least residual there is."""
    work = _hung(50.0)
    work.correct(0, 0)
    e, rows = work.work.residual.copy(), dense_rows(work)
    metric = np.hstack([work.net.unit[:, :3], np.tile(work.net.unit[:, 6:], (1, 3))]).ravel()
    whole = (rows * metric) @ rows.T
    weight, s = np.zeros_like(whole), work.net.system
    for c in range(len(s.row_start) - 1):
        own = slice(s.row_start[c], s.row_start[c + 1])
        weight[own, own] = np.linalg.pinv(whole[own, own])
    values, vectors = np.linalg.eigh(weight)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    best = np.linalg.norm(root @ (whole @ np.linalg.lstsq(root @ whole, -root @ e, rcond=1e-12)[0] + e))
    work.correct(1, 15)
    left = np.linalg.norm(root @ (e + whole @ work.work.lam))
    assert left <= 1.05 * best


def test_an_impossible_loop_is_told():
    """A triangle of rods too short to meet: the joints that stay open are named, with what is left of each."""
    builder = lj.Builder("short", gravity=(0.0, 0.0, 0.0))
    for name in "ab":
        builder.add_body(name, mass=1.0, com=(0.5, 0.0, 0.0), inertia=(0.1, 0.1, 0.1))
    builder.add_joint_ball("left", "world", "a")
    builder.add_joint_ball("right", "world", "b", position=(3.0, 0.0, 0.0))
    builder.add_joint_ball("meet", "a", "b", position=(1.0, 0.0, 0.0), position_in_child=(1.0, 0.0, 0.0))
    done = lj.assemble(builder.build())
    assert not done.closed and "meet" in done.open
    assert 0.3 < done.residuals["meet"] < 1.6 and done.error >= done.residuals["meet"]


def test_loops_close_and_pins_hold():
    """A four-bar opened by its start angles closes; a pinned body stays to the bit, a point goes where it is told."""
    model = lj.scenes.four_bar()
    opened = model.q0 + np.array([0.2, -0.1, 0.15])
    done = lj.assemble(model, opened)
    assert done.closed and done.error < 1e-9
    lj.Simulation(model, "multipliers", q=done.q).step(2)  # which refuses open loops
    name = model.body_names[0]
    place = lj.forward_kinematics(model, opened)
    held = lj.assemble(model, opened, pins=[name])
    assert held.closed
    assert np.abs(held.positions[0] - place[0][0]).max() < 1e-15
    assert np.abs(held.rotations[0] - place[1][0]).max() < 1e-12


def _inside(model, q):
    limits = model.arrays.limits
    low, high = limits[6:, 0], limits[6:, 1]
    return (q[7:] >= low).all() and (q[7:] <= high).all()


def _reached(model, names, rng):
    """Return how far a pose misses the places that hands or feet have in a random pose within the limits."""
    limits = model.arrays.limits[6:]
    q = model.q0.copy()
    q[7:] = rng.uniform(limits[:, 0], limits[:, 1])
    places = lj.forward_kinematics(model, q)[0]
    found = lj.pose(model, {name: places[model.body_index(name)] for name in names})
    assert _inside(model, found.q)
    actual = lj.forward_kinematics(model, found.q)[0]
    return max(float(np.linalg.norm(actual[i] - places[i])) for i in map(model.body_index, names))


def test_a_figure_reaches_within_its_limits(rng):
    """Places that a hand has in random poses within the limits are reached to 1e-6 m, never leaving the limits."""
    model = lj.scenes.humanoid(limits="hard")
    hands = [name for name in model.body_names if name.endswith("hand")]
    assert all(_reached(model, hands[:1], rng) <= 1e-6 for _ in range(3))


@pytest.mark.slow
def test_98_of_100_targets_are_reached(rng):
    """Of 100 random poses' hands and feet, one at a time, at least 98 are reached to 1e-6 m within the limits."""
    model = lj.scenes.humanoid(limits="hard")
    ends = [name for name in model.body_names if name.endswith(("hand", "foot"))]
    reached = sum(_reached(model, [ends[k % len(ends)]], rng) <= 1e-6 for k in range(100))
    assert reached >= 98


def test_bad_input_is_named():
    """Unknown bodies, NaN targets, unknown metrics and empty budgets of iterations raise typed errors that say so."""
    model = lj.scenes.four_bar()
    with pytest.raises(lj.UnknownName, match="elbow"):
        lj.assemble(model, pins=["elbow"])
    with pytest.raises(lj.StateError, match="finite"):
        lj.assemble(model, pins={model.body_names[0]: (np.nan, 0.0, 0.0)})
    with pytest.raises(lj.UnknownName, match="unit"):
        lj.assemble(model, metric="imperial")
    with pytest.raises(lj.StateError, match="iterations"):
        lj.assemble(model, iterations=0)
    with pytest.raises(lj.StateError, match="shape"):
        lj.assemble(model, [0.0])
    with pytest.raises(lj.StateError, match="pins"):
        lj.assemble(model, pins=model.body_names[0])
    with pytest.raises(lj.StateError, match="unit quaternion"):
        lj.assemble(model, poses=(np.zeros((3, 3)), np.zeros((3, 4))))
    with pytest.raises(lj.StateError, match="tries"):
        lj.pose(model, {}, tries=0)


def test_long_chains_with_a_loop_close_over_their_tree():
    """A chain of 120 hinged links whose end is wanted elsewhere closes to 1e-9 in a few iterations of few products."""
    builder = lj.Builder("long", gravity=(0.0, 0.0, 0.0))
    for k in range(120):
        builder.add_body(f"b{k}", mass=1.0, com=(0.05, 0.0, 0.0), inertia=(1e-3, 1e-3, 1e-3))
        parent, at = ("world", (0.0, 0.0, 0.0)) if k == 0 else (f"b{k - 1}", (0.1, 0.0, 0.0))
        builder.add_joint_hinge(f"j{k}", parent, f"b{k}", axis=(0.0, 1.0, 0.0), position=at, start=0.02)
    turned = 0.02 * np.arange(1, 121)
    end = 0.1 * np.array((np.cos(turned).sum(), 0.0, -np.sin(turned).sum())) + (0.3, 0.0, 0.4)
    builder.add_joint_ball("end", "world", "b119", position=end, position_in_child=(0.1, 0.0, 0.0))
    done = lj.assemble(builder.build(), tolerance=1e-9)
    assert done.closed and done.iterations <= 25
    assert done.solver_iterations <= 8 * done.iterations


def test_bodies_without_mass_are_assembled():
    """Geometry alone decides in the unit metric: a body without mass in a loop is closed; the physical one names it."""
    builder = lj.Builder("light", gravity=(0.0, 0.0, 0.0))
    builder.add_body("a", mass=1.0, com=(0.5, 0.0, 0.0), inertia=(0.1, 0.1, 0.1))
    builder.add_body("joiner", mass=0.0)
    builder.add_body("b", mass=1.0, com=(0.5, 0.0, 0.0), inertia=(0.1, 0.1, 0.1))
    builder.add_joint_hinge("left", "world", "a", axis=(0.0, 1.0, 0.0), start=-0.7)
    builder.add_joint_hinge("first", "a", "joiner", position=(1.0, 0.0, 0.0), axis=(0.0, 1.0, 0.0), start=0.3)
    builder.add_joint_hinge("second", "joiner", "b", axis=(0.0, 0.0, 1.0), start=0.9)
    builder.add_joint_ball("right", "world", "b", position=(1.6, 0.0, 0.0), position_in_child=(1.0, 0.0, 0.0))
    model = builder.build()
    done = lj.assemble(model)
    assert done.closed and done.error < 1e-9
    with pytest.raises(lj.UnsupportedByMethod, match="joiner"):
        lj.assemble(model, metric="physical")


def _anywhere(model, seed):
    """Return poses of bodies within a metre of where they are, turned anyhow."""
    rng = np.random.default_rng(seed)
    positions, rotations = lj.forward_kinematics(model, model.q0)
    turned = rng.normal(size=rotations.shape)
    return positions + rng.uniform(-1.0, 1.0, positions.shape), turned / np.linalg.norm(turned, axis=1)[:, None]


@pytest.mark.parametrize("seed", [0, 1000])
@pytest.mark.parametrize("name", ["four_bar", "n_four_bar", "humanoid"])
def test_hinged_loops_and_limits_close_from_scrambled_starts(name, seed):
    """At least 11 of 12 scrambled starts close: a planar loop, a chain of ten of them, a figure with hard limits."""
    options = {"four_bar": {}, "n_four_bar": {"loops": 10}, "humanoid": {"limits": "hard"}}[name]
    model = getattr(lj.scenes, name)(**options)
    ends = [lj.assemble(model, poses=_anywhere(model, seed + k)) for k in range(12)]
    assert sum(end.closed for end in ends) >= 11
    for end in ends:
        # closed as it says: the coordinates alone close the loops too
        assert not end.closed or lj.assemble(model, end.q, iterations=1).error < 1e-6


def test_pins_out_of_reach_leave_the_least_residual():
    """A chain of 2 m pinned at 3 m is straight, and the missing metre is shared as least squares has it."""
    builder, above = lj.Builder("chain"), "world"
    for k in range(4):
        builder.add_body(f"link{k}", mass=1.0, com=(0.25, 0.0, 0.0), inertia=(0.02, 0.02, 0.02))
        builder.add_joint_ball(f"joint{k}", above, f"link{k}", position=(0.5 if k else 0.0, 0.0, 0.0))
        above = f"link{k}"
    builder.add_point("tip", "link3", position=(0.5, 0.0, 0.0))
    builder.add_point("middle", "link1", position=(0.5, 0.0, 0.0))
    model = builder.build()
    bent = np.tile((np.cos(0.2), 0.0, np.sin(0.2), 0.0), 4)
    found = lj.assemble(model, bent, {"tip": (3.0, 0.0, 0.0), "middle": (1.5, 0.0, 0.0)})
    assert not found.closed and set(found.open) == {f"joint{k}" for k in range(4)}
    gaps, missed = [*found.residuals.values()], found.targets
    assert np.abs(found.positions[:, 1:]).max() < 1e-3
    # half a metre is missing on either side of the middle, which gives way to the side where more joints share it
    assert gaps[0] + gaps[1] + missed["middle"] == pytest.approx(0.5, abs=1e-3)
    assert gaps[2] + gaps[3] + missed["tip"] == pytest.approx(0.5 + missed["middle"], abs=1e-3)
    assert gaps[2] == pytest.approx(gaps[3], abs=1e-3)


def links_over_a_floor():
    """Return a loop of eight capsules between two pins 0.2 m above a floor, 2.4 m of links over 1.2 m."""
    builder, length = lj.Builder("loop"), 0.3
    builder.add_shape_plane("world")
    for k in range(8):
        builder.add_body(f"link{k}", mass=1.0, com=(0.15, 0.0, 0.0), inertia=(0.01, 0.02, 0.02))
        half = np.sqrt(0.5)
        builder.add_shape_capsule(f"link{k}", 0.04, 0.2, position=(0.15, 0.0, 0.0), rotation=(half, 0.0, half, 0.0))
        above, at = (f"link{k - 1}", (length, 0.0, 0.0)) if k else ("world", (0.0, 0.0, 0.2))
        builder.add_joint_ball(f"joint{k}", above, f"link{k}", position=at)
    builder.add_joint_ball("end", "world", "link7", position=(1.2, 0.0, 0.2), position_in_child=(length, 0.0, 0.0))
    return builder.build()


def test_assembly_against_obstacles():
    """Scrambled loops over a floor close without a shape in the floor or in another; without contacts some sink in."""
    model, draw, sunk = links_over_a_floor(), np.random.default_rng(1), 0
    ends = np.array([[[0.05, 0.0, 0.0]], [[0.25, 0.0, 0.0]]])
    for _ in range(12):
        turns = draw.normal(size=(8, 4))
        start = (turns / np.linalg.norm(turns, axis=1, keepdims=True)).ravel()
        lowest = []
        for contacts in (False, True):
            done = lj.assemble(model, start, contacts=contacts)
            assert done.closed and done.error <= 1e-9
            turned = matrix_from_quaternion(done.rotations)
            lowest.append(float((done.positions + np.einsum("nij,enj->eni", turned, ends))[..., 2].min()) - 0.04)
        sunk += lowest[0] < -1e-3
        # the caps of capsules end at their points, so that no point of a link is below the floor
        assert lowest[1] > -3e-6 and done.overlap <= 2e-6
    assert sunk >= 4


def test_what_obstacles_make_impossible_is_told():
    """A rod pinned below the floor cannot be closed: the overlap left is the depth of the pin, or the pin is open."""
    builder = lj.Builder("below")
    builder.add_shape_plane("world")
    builder.add_body("ball", mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_joint_free("root", "world", "ball", start=(0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0))
    builder.add_shape_sphere("ball", 0.1)
    builder.add_joint_ball("pin", "world", "ball", position=(0.0, 0.0, -0.3))
    model = builder.build()
    assert lj.assemble(model).closed
    done = lj.assemble(model, contacts=True)
    assert not done.closed and 0.1 < done.error + done.overlap < 0.5
    assert "pin" in repr(done) or "overlap" in repr(done)


def test_the_ring_starts_assembled():
    """The ring starts closed, and runs in a method that refuses open loops."""
    model = lj.scenes.ring_of_figures(gravity=(0.0, 0.0, 0.0))
    assert lj.assemble(model).iterations <= 1
    lj.Simulation(model, "multipliers", dt=1e-3).step()
