"""The mechanisms and benchmark problems: closed at the start, masses and freedoms as published, known values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.scenes.loop_help import ignoring, loop_accelerations, loop_rows

import limberjack as lj
from limberjack.scenes.loops import REFERENCES, measured
from limberjack.spatial.frames import matrix_from_quaternion

# scene, options, bodies, tree joints' freedoms, loop joints, freedoms that are left
COUNTS = [
    ("four_bar", {}, 3, 3, 1, 1),
    ("four_bar", {"lengths": (2.0, 0.5, 1.5, 1.7), "angle": 4.0, "speed": 2.0}, 3, 3, 1, 1),
    ("n_four_bar", {"loops": 1}, 3, 3, 1, 1),
    ("n_four_bar", {"loops": 2}, 5, 5, 2, 1),
    ("n_four_bar", {}, 81, 81, 40, 1),
    ("andrews_squeezer", {}, 7, 7, 3, 1),
    ("bricard", {}, 5, 5, 1, 1),
    ("flyball_governor", {}, 4, 4, 0, 4),
    ("simple_pendulum", {}, 1, 1, 0, 1),
    ("simple_pendulum", {"bar": "rod"}, 1, 3, 1, 2),
]


@pytest.mark.parametrize(("name", "options", "bodies", "freedoms", "loops", "left"), COUNTS)
def test_mechanisms_close_and_count(name, options, bodies, freedoms, loops, left):
    """Loops are closed in place to 1e-12 and in velocity; bodies, loops and freedoms left are the published ones."""
    model = lj.scenes.get(name, **options).model
    assert (model.body_count, model.nv, len(model.loop_names)) == (bodies, freedoms, loops)
    error = ignoring(model).joint_error()
    assert error.metres < 1e-12 and error.radians < 1e-12
    errors, rows = loop_rows(model, model.q0)
    np.testing.assert_allclose(errors, 0.0, atol=1e-12)
    np.testing.assert_allclose(rows @ model.qd0, 0.0, atol=1e-12)
    rank = np.linalg.matrix_rank(rows, tol=1e-9) if len(rows) else 0
    assert model.nv - rank == left


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda r: f"{r.scene}-{r.point or r.joint}-{r.time:g}")
def test_references_can_be_read(reference):
    """Each known value names a scene, options and a point or joint that exist, with as many numbers as it has."""
    sim = ignoring(lj.scenes.get(reference.scene, **reference.options).model)
    assert (reference.point is None) != (reference.joint is None)
    assert measured(sim, reference).shape == (len(reference.value),)
    assert 0.0 < reference.time <= lj.scenes.get(reference.scene).seconds


def test_the_simple_pendulum_swings_as_known():
    """A01 by Runge-Kutta is at the exact places at 1 and 10 s, and starts at rest at x = -1."""
    sim = lj.Simulation(lj.scenes.simple_pendulum(), lj.Full(integrator="rk4"), dt=1e-3)
    np.testing.assert_array_equal(sim.point("bob").position, (-1, 0, 0))
    for reference in (r for r in REFERENCES if r.scene == "simple_pendulum"):
        sim.step(round(reference.time / 1e-3) - sim.steps)
        np.testing.assert_allclose(measured(sim, reference), reference.value, atol=1e-9)


def test_both_bars_of_the_simple_pendulum_hold_the_same_point():
    """The particle at a distance starts where the hinged point does, its rod as long as the bar."""
    sims = [ignoring(lj.scenes.simple_pendulum(bar=bar, length=2.0)) for bar in ("hinge", "rod")]
    np.testing.assert_array_equal(*(sim.point("bob").position for sim in sims))
    assert sims[1].model.joint_spec("rod").length == 2.0 and sims[1].energy().total == sims[0].energy().total == 0.0


def test_the_governor_rises_as_known():
    """A05 by Runge-Kutta at a small step has the published height of the slider after 1 s."""
    reference = next(r for r in REFERENCES if r.scene == "flyball_governor" and r.time == 1.0)
    sim = lj.Simulation(lj.scenes.flyball_governor(), lj.Full(integrator="rk4", substeps=1), dt=2e-5)
    sim.step(50_000)
    np.testing.assert_allclose(measured(sim, reference), reference.value, atol=2e-9)


def test_the_governor_weighs_as_published():
    """Shaft and slider of 3000 kg/m^3, arms with 5 kg at their ends; the springs start without force."""
    model = lj.scenes.flyball_governor()
    masses = [model.body(name).mass for name in ("shaft", "slider", "arm_left", "arm_right")]
    assert masses == pytest.approx([0.3, 3, 5.3, 5.3])
    arm = model.body("arm_left")
    about_hinge = arm.inertia[1, 1] + arm.mass * arm.com[0] ** 2
    assert about_hinge == pytest.approx(0.3 * (1 + 1e-4) / 12 + 0.3 * 0.25 + 5.0, rel=1e-14)
    sim = lj.Simulation(model)
    left, right = sim.body("arm_left"), sim.body("arm_right")
    np.testing.assert_allclose(left.position, (-0.05, 0, 1), atol=1e-15)
    np.testing.assert_allclose(right.position, (0.05, 0, 1), atol=1e-15)
    assert sim.point("slider").position[2] == 0.5
    free = lj.Simulation(lj.scenes.flyball_governor(stiffness=0.0, damping=0.0))
    assert sim.energy().potential == pytest.approx(free.energy().potential, rel=1e-14)


def exact_four_bars(loops, t):
    """Return where B0 is at time t: cranks and couplers of parallelograms are one pendulum, by Runge-Kutta."""
    inertia, weight = (loops + 1) / 3 + loops, 9.81 * ((loops + 1) / 2 + loops)

    def rate(state):
        return np.array([state[1], weight * math.sin(state[0]) / inertia])

    state, n = np.array([0.0, 1.0]), 4000
    h = t / n
    for _ in range(n):
        a = rate(state)
        b = rate(state + h / 2 * a)
        c = rate(state + h / 2 * b)
        d = rate(state + h * c)
        state = state + h / 6 * (a + 2 * b + 2 * c + d)
    return math.sin(state[0]), math.cos(state[0])


@pytest.mark.parametrize("reference", [r for r in REFERENCES if r.scene == "n_four_bar"], ids=lambda r: f"{r.time:g}")
def test_the_row_of_four_bars_weighs_as_published(reference):
    """Energies of the scene are those of the pendulum that reaches the published places."""
    loops = reference.options["loops"]
    np.testing.assert_allclose(exact_four_bars(loops, reference.time), reference.value, atol=1e-9)
    sim = ignoring(lj.scenes.n_four_bar(loops=loops))
    energy = sim.energy()
    assert energy.kinetic == pytest.approx(0.5 * ((loops + 1) / 3 + loops), rel=1e-13)
    assert energy.potential == pytest.approx(9.81 * ((loops + 1) / 2 + loops), rel=1e-13)
    np.testing.assert_array_equal(sim.point("B0").position, (0, 1, 0))
    np.testing.assert_allclose(sim.body(f"crank{loops}").position, (loops, 0, 0), atol=1e-15)


def squeezer_places(q):
    """Return the centres of K1..K7, D and the four ways to E of the literature's formulas, q in its order."""
    b, t, g, p, d, o, e = q
    x, y = np.array([1.0, 0.0]), np.array([0.0, 1.0])

    def turned(angle, u, v):
        c, s = math.cos(angle), math.sin(angle)
        return u * (c * x + s * y) + v * (-s * x + c * y)

    a, base = np.array([-0.06934, -0.00227]), np.array([-0.03635, 0.03273])
    crank, arm5, arm7 = turned(b, 0.007, 0.0), a + turned(d, 0.04, 0.0), a + turned(e, 0.0, -0.04)
    centres = [
        turned(b, 0.00092, 0.0), crank + turned(b + t, -0.0115, 0.0), base + turned(g, 0.01043, -0.01874),
        arm5 + turned(p + d, 0.0, -(0.02 - 0.01421)), a + turned(d, 0.02308, 0.00916),
        arm7 + turned(o + e, 0.02 - 0.01421, 0.0), a + turned(e, -0.00449, -0.01228),
    ]  # fmt: skip
    ends = [
        crank + turned(b + t, -0.028, 0.0), base + turned(g, 0.0, -0.035), arm5 + turned(p + d, 0.0, -0.02),
        arm7 + turned(o + e, 0.02, 0.0),
    ]  # fmt: skip
    return np.array(centres), base + turned(g, 0.02, -0.018), np.array(ends)


ANGLES = ("beta", "Theta", "gamma", "Phi", "delta", "Omega", "eps")


def angles(model, q):
    """Return the coordinates of the squeezer in the literature's order."""
    return np.array([q[model.joint(name).q_start] for name in ANGLES])


def test_the_squeezer_is_that_of_the_literature(rng):
    """At any angles, the centres, D and E of K2 are where the published formulas put them; at the start all reach E."""
    model = lj.scenes.andrews_squeezer()
    for q in (model.q0, rng.uniform(-3, 3, 7)):
        sim = ignoring(model)
        sim.q = q
        centres, end, pins = squeezer_places(angles(model, q))
        for name, centre in zip((f"K{k}" for k in range(1, 8)), centres, strict=True):
            body = sim.body(name)
            got = body.position + matrix_from_quaternion(np.array(body.rotation)) @ model.body(name).com
            np.testing.assert_allclose(got[:2], centre, atol=1e-15)
        np.testing.assert_allclose(sim.point("D").position[:2], end, atol=1e-15)
        np.testing.assert_allclose(sim.point("E").position[:2], pins[0], atol=1e-15)
    pins = squeezer_places(angles(model, model.q0))[2]
    np.testing.assert_allclose(pins, np.tile(pins[0], (4, 1)), atol=1e-15)
    masses = [model.body(f"K{k}").mass for k in range(1, 8)]
    assert masses == [0.04325, 0.00365, 0.02373, 0.00706, 0.0705, 0.00706, 0.05498]
    moments = [model.body(f"K{k}").inertia[2, 2] for k in range(1, 8)]
    assert moments == [2.194e-6, 4.410e-7, 5.255e-6, 5.667e-7, 1.169e-5, 5.667e-7, 1.912e-5]


def test_the_squeezer_starts_as_published():
    """At rest, its energy is that of the spring; the first accelerations are the published 14222.44 and -10666.83."""
    found = lj.scenes.get("andrews_squeezer")
    model = found.model
    sim = ignoring(model)
    way = np.array([0.014, 0.072]) - squeezer_places(angles(model, model.q0))[1]
    length = np.linalg.norm(way)
    energy = sim.energy()
    assert energy.kinetic == 0.0 and energy.potential == pytest.approx(0.5 * 4530 * (length - 0.07785) ** 2, rel=1e-12)
    found.drive(sim)
    assert sim.joint("beta").tau == 0.033 and np.count_nonzero(sim.tau) == 1
    pull = 4530 * (length - 0.07785) * np.append(way, 0.0) / length
    spring = lj.jacobian(model, model.q0, "K3", sim.point("D").position)[3:].T @ pull
    qdd = angles(model, loop_accelerations(model, model.q0, model.qd0, sim.tau + spring))
    np.testing.assert_allclose(qdd[:2], (14222.4439199541138, -10666.8329399655854), rtol=1e-9)
    np.testing.assert_allclose(qdd[2:], 0.0, atol=1e-6)


def test_bricard_is_the_published_linkage():
    """Points stand at the cube's corners, rods weigh 1 kg with the published moments, and one row is redundant."""
    model = lj.scenes.bricard()
    sim = ignoring(model)
    corners = [(0, 0, 0), (1, 0, 0), (1, -1, 0), (1, -1, 1), (0, -1, 1), (0, 0, 1)]
    for k, corner in enumerate(corners):
        np.testing.assert_array_equal(sim.point(f"P{k + 1}").position, corner)
    for k in range(5):
        rod = model.body(f"rod{k + 1}")
        assert rod.mass == 1.0
        np.testing.assert_allclose(np.sort(np.diag(rod.inertia)), (1 / 600, 0.08416667, 0.08416667), atol=1e-8)
        along = int(np.argmin(np.diag(rod.inertia)))
        assert abs(np.subtract(corners[k + 1], corners[k])[along]) == 1
    axes = [model.joint_spec(f"P{k + 1}").axis.index(1.0) for k in range(6)]
    assert axes == [1, 2, 0, 1, 2, 0]
    rows = loop_rows(model, model.q0)[1]
    assert rows.shape == (5, 5) and np.linalg.matrix_rank(rows, tol=1e-9) == 4


def test_bricard_falls_to_the_published_place():
    """The dense saddle system, in 100 steps of Runge-Kutta, brings P3 to the published place at 1 s."""
    model = lj.scenes.bricard()
    q, qd, h, none = model.q0.copy(), model.qd0.copy(), 0.01, np.zeros(model.nv)
    for _ in range(100):
        stages = []
        for part in (0.0, 0.5, 0.5, 1.0):
            v, a = stages[-1] if stages else (qd, np.zeros(5))
            at, speed = q + part * h * v, qd + part * h * a
            stages.append((speed, loop_accelerations(model, at, speed, none)))
        q = q + h / 6 * sum(w * s[0] for w, s in zip((1, 2, 2, 1), stages, strict=True))
        qd = qd + h / 6 * sum(w * s[1] for w, s in zip((1, 2, 2, 1), stages, strict=True))
    sim = ignoring(model)
    sim.q = q
    reference = next(r for r in REFERENCES if r.scene == "bricard" and r.time == 1.0)
    np.testing.assert_allclose(measured(sim, reference), reference.value, atol=1e-6)


def test_the_limited_chain_has_limits_below_its_first_hinge():
    """All hinges but the first open by the limit to either side, and the chain starts level within them."""
    model = lj.scenes.chain_with_limits(links=4, limit=0.25)
    np.testing.assert_array_equal(model.arrays.limits[1:], [[-0.25, 0.25]] * 3)
    assert np.isinf(model.arrays.limits[0]).all() and model.features() == {"limits": 'joint "joint1"'}
    np.testing.assert_array_equal(model.q0, (-math.pi / 2, 0, 0, 0))


def test_the_gear_train_meshes():
    """Rims of neighbours touch and move together at the start; gears are one fewer than wheels."""
    model = lj.scenes.gear_train(wheels=4, speed=2.0, weight=0.3)
    assert model.features() == {"gears": 'joint "mesh1"'} and model.loop_names == ("mesh1", "mesh2", "mesh3")
    sim = ignoring(model)
    radii = (0.2, 0.1, 0.2, 0.1)
    for k in range(1, 4):
        joint = model.joint_spec(f"mesh{k}")
        assert joint.ratio == pytest.approx(-radii[k] / radii[k - 1])
        assert sim.joint(f"axle{k - 1}").qd == pytest.approx(joint.ratio * sim.joint(f"axle{k}").qd, rel=1e-14)
        gap = sim.body(f"wheel{k}").position - sim.body(f"wheel{k - 1}").position
        np.testing.assert_allclose(gap, (radii[k] + radii[k - 1], 0, 0), atol=1e-15)
    # The weight of the last wheel about its axle: m g r, and the disc and the weight turn together.
    qdd = lj.forward_dynamics(model, model.q0, np.zeros(4))
    np.testing.assert_allclose(qdd, (0, 0, 0, 0.3 * 9.81 * 0.1 / (0.5 * 0.5 * 0.1**2 + 0.3 * 0.1**2)), rtol=1e-13)


def test_the_knife_edge_follows_its_closed_form():
    """With the force that keeps the blade from moving across, the planar joint takes the documented cycloid."""
    model = lj.scenes.knife_edge(speed=2.0, slope=0.3, mass=1.5)
    assert model.features() == {"velocity": 'joint "edge"'}
    a, w, t = 9.81 * math.sin(0.3), 2.0, 0.7
    x, y = a * math.sin(w * t) ** 2 / (2 * w**2), a * (w * t - math.sin(2 * w * t) / 2) / (2 * w**2)
    xd, yd = a * math.sin(w * t) * math.cos(w * t) / w, a * (1 - math.cos(2 * w * t)) / (2 * w)
    xdd, ydd = a * math.cos(2 * w * t), a * math.sin(2 * w * t)
    across = np.array([-math.sin(w * t), math.cos(w * t)])
    assert across @ (xd, yd) == pytest.approx(0.0, abs=1e-12)
    # What the edge must push: along `across` alone, the acceleration left over by gravity.
    free = lj.forward_dynamics(model, [x, y, w * t], [xd, yd, w])
    push = np.array([xdd, ydd]) - free[:2]
    assert abs(push @ (across[1], -across[0])) < 1e-12 and free[2] == pytest.approx(0.0, abs=1e-12)
