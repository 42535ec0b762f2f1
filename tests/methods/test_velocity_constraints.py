"""Registered constraints of velocities, and over more than two bodies: closed forms, energy, method against method."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.naive import rotations as rot

import limberjack as lj
from limberjack.model.registered import CONSTRAINT_KINDS

G = 9.81
METHODS = {
    "multipliers": lj.Multipliers(integrator="rk4"),
    "full": lj.Full(),
    "full, rk4": lj.Full(integrator="rk4"),
    "impulses": lj.Impulses(),
}


def height(position, rotation, time, data):
    """Let a disc about z of radius data[0] touch the ground."""
    return position[2] - data[0] * math.sqrt(1.0 - rotation[2][2] * rotation[2][2])


def rolling(position, rotation, velocity, turning, time, data):
    """Let the point of the disc on the ground be at rest along x and y."""
    u = (rotation[0][2], rotation[1][2], rotation[2][2])
    f = data[0] / math.sqrt(1.0 - u[2] * u[2])
    x, y, z = f * u[2] * u[0], f * u[2] * u[1], f * (u[2] * u[2] - 1.0)
    return velocity[0] + turning[1] * z - turning[2] * y, velocity[1] + turning[2] * x - turning[0] * z


def steered(position, rotation, velocity, turning, time, data):
    """Let a wheel steered by the angle data[0] not slip sideways."""
    c, s = math.cos(data[0]), math.sin(data[0])
    out = velocity[0] * (c * rotation[0][1] - s * rotation[0][0])
    return out + velocity[1] * (c * rotation[1][1] - s * rotation[1][0])


def turntable(position, rotation, velocity, turning, time, data):
    """Prescribe the rate about z: data[0] + data[1] sin(time)."""
    return turning[2] - data[0] - data[1] * math.sin(time)


def differential(position, rotation, velocity, turning, time, data):
    """Let two wheels turn against each other in their carrier, about y."""
    return turning[0][1] + turning[1][1]


def rope(position, rotation, time, data):
    """Let two ends of a rope over a pulley share its length."""
    a, b = position
    first = math.sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2])
    return first + math.sqrt(b[0] * b[0] + b[1] * b[1] + b[2] * b[2]) - data[0]


@pytest.fixture(autouse=True)
def kinds():
    """Register the kinds of this file once."""
    if "test_height" not in CONSTRAINT_KINDS:
        lj.register_constraint("test_height", height)
        lj.register_constraint("test_rolling", rolling, rows=2, velocity=True)
        lj.register_constraint("test_steered", steered, velocity=True)
        lj.register_constraint("test_turntable", turntable, velocity=True)
        lj.register_constraint("test_differential", differential, velocity=True, pairs=2)
        lj.register_constraint("test_rope", rope, pairs=2)


def disc(tilt: float, precession: float) -> tuple[lj.Model, float]:
    """Return a rolling disc in steady precession, and the angular velocity about its axis.

    With the moments I1 across and I3 about the axis: w3 W sin (I3 + m a^2) - I1 W^2 sin cos + m g a cos = 0.
    """
    m, a = 2.0, 0.3
    i1, i3 = m * a * a / 4, m * a * a / 2
    s, c = math.sin(tilt), math.cos(tilt)
    spin = (i1 * precession**2 * s * c - m * G * a * c) / (precession * s * (i3 + m * a * a))
    builder = lj.Builder("disc")
    builder.add_body("disc", mass=m, inertia=(i1, i1, i3))
    across = precession * s  # in the axes of the disc, tilted about y: x is across, z the axis
    start = (0, 0, a * s, math.cos(tilt / 2), 0, math.sin(tilt / 2), 0)
    builder.add_joint_free("free", "world", "disc", start=start, start_velocity=(0, -a * spin, 0, -across, 0, spin))
    builder.add_constraint("test_height", "height", "world", "disc", data=(a,))
    builder.add_constraint("test_rolling", "rolling", "world", "disc", data=(a,))
    return builder.build(), spin


@pytest.mark.parametrize("method", METHODS)
def test_a_rolling_disc_precesses(method):
    """A tilted disc on a circle keeps its tilt and its energy and turns by W t, as the closed form says."""
    tilt, precession = 1.1, 1.7
    model, spin = disc(tilt, precession)
    sim = lj.Simulation(model, METHODS[method], dt=1e-3)
    start = sim.energy().total
    for _ in range(20):
        sim.step(50)
        axis = rot.matrix(sim.q[3:])[:, 2]
        loose = method == "impulses"
        assert math.acos(axis[2]) == pytest.approx(tilt, abs=0.02 if loose else 2e-4)
        angle = math.atan2(axis[1], axis[0]) - precession * sim.time
        assert abs(math.remainder(angle, 2 * math.pi)) < (0.05 if loose else 1e-3)
        assert np.linalg.norm(sim.qd[:2]) == pytest.approx(0.3 * abs(spin), rel=0.02 if loose else 1e-3)
        assert abs(sim.energy().total - start) < (0.02 if loose else 1e-3) * start
    assert sim.joint("height").multipliers[0] == pytest.approx(2 * G, rel=0.02 if loose else 2e-3)


@pytest.mark.parametrize("method", METHODS)
def test_a_steered_cart_drives_in_a_circle(method):
    """Rear wheel straight, front wheel steered by d at the distance L: yaw rate v tan(d) / L, speed unchanged."""
    wheelbase, steer, speed = 1.2, 0.4, 2.0
    rate = speed * math.tan(steer) / wheelbase
    builder = lj.Builder("cart")
    builder.add_body("cart", mass=10.0, com=(0.5, 0, 0), inertia=(1, 1, 2))
    builder.add_joint_planar("plane", "world", "cart", start_velocity=(speed, 0, rate))
    builder.add_constraint("test_steered", "rear", "world", "cart", data=(0.0,))
    builder.add_constraint("test_steered", "front", "world", "cart", data=(steer,), position_in_child=(wheelbase, 0, 0))
    sim = lj.Simulation(builder.build(), METHODS[method], dt=1e-3)
    start, radius = sim.energy().total, wheelbase / math.tan(steer)
    for _ in range(20):
        sim.step(100)
        x, y, angle = sim.q
        assert angle == pytest.approx(rate * sim.time, rel=2e-3)
        assert math.hypot(x, y - radius) == pytest.approx(radius, rel=2e-3)
        assert sim.energy().total == pytest.approx(start, rel=2e-3)
    # the wheels carry the centripetal force of the com
    force = sim.joint("rear").reaction.force + sim.joint("front").reaction.force
    assert np.linalg.norm(force) == pytest.approx(10 * rate**2 * math.hypot(radius, 0.5), rel=5e-3)


@pytest.mark.parametrize("method", METHODS)
def test_a_rate_that_is_prescribed(method):
    """A table follows w = 2 + sin t whatever its start, and its reaction is the torque that this takes."""
    builder = lj.Builder("table")
    builder.add_body("table", mass=1.0, inertia=(2, 2, 3))
    builder.add_joint_hinge("j", "world", "table", axis=(0, 0, 1), start_velocity=2.0)
    builder.add_constraint("test_turntable", "drive", "world", "table", data=(2.0, 1.0))
    sim = lj.Simulation(builder.build(), METHODS[method], dt=1e-3)
    sim.step(800)
    assert sim.qd[0] == pytest.approx(2 + math.sin(0.8), abs=2e-3)
    assert sim.q[0] == pytest.approx(1.6 + 1 - math.cos(0.8), abs=5e-3)
    assert sim.joint("drive").multipliers[0] == pytest.approx(3 * math.cos(0.8), rel=0.01)


def axle() -> lj.Model:
    """Return a carrier and two wheels on one axle, coupled by a differential, with inertias 0.5, 0.2 and 0.3."""
    builder = lj.Builder("axle")
    for k, (name, inertia) in enumerate((("carrier", 0.5), ("left", 0.2), ("right", 0.3))):
        builder.add_body(name, mass=1.0, inertia=(0.4, inertia, 0.4))
        builder.add_joint_hinge(f"{name}_axle", "world", name, position=(0, k, 0), axis=(0, 1, 0))
    builder.add_constraint("test_differential", "differential", "carrier", "left", second_child="right")
    return builder.build()


@pytest.mark.parametrize("method", METHODS)
def test_a_differential_shares_the_torque(method):
    """Wheel rates add up to twice that of the carrier; both wheels get the same torque, as the closed form says."""
    sim = lj.Simulation(axle(), METHODS[method], dt=1e-3)
    torque, drag = 3.0, 1.0
    sim.tau = [torque, -drag, 0.0]
    sim.step(500)
    carrier, left, right = sim.qd
    assert left + right == pytest.approx(2 * carrier, abs=1e-9 if method != "full" else 1e-3)
    # 0.5 c = 3 - 2 lam, 0.2 l = lam - 1, 0.3 r = lam, l + r = 2 c
    share = np.linalg.solve(
        [[0.5, 0, 0, 2], [0, 0.2, 0, -1], [0, 0, 0.3, -1], [-2, 1, 1, 0]], [torque, -drag, 0, 0]
    )  # carrier, left, right, lam
    np.testing.assert_allclose(sim.qd, 0.5 * share[:3], rtol=5e-3)
    assert sim.joint("differential").multipliers[0] == pytest.approx(share[3], rel=5e-3)
    np.testing.assert_allclose(sim.joint("left_axle").reaction.torque[1], -drag, atol=0.02)


@pytest.mark.parametrize("method", METHODS)
def test_a_rope_over_a_pulley(method):
    """Weights on one rope, a constraint of positions over three bodies, move by (m1 - m2) / (m1 + m2) g."""
    builder = lj.Builder("atwood")
    builder.add_body("beam", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint_fixed("beam_joint", "world", "beam", position=(0, 0, 3))
    for name, x, mass in (("a", -0.5, 3.0), ("b", 0.5, 2.0)):
        builder.add_body(name, mass=mass, inertia=(0.1, 0.1, 0.1))
        builder.add_joint_slide(f"{name}_slide", "world", name, position=(x, 0, 1), axis=(0, 0, 1))
    builder.add_constraint(
        "test_rope", "rope", "beam", "a", data=(4.0,), position=(-0.5, 0, 0), second_child="b",
        second_position=(0.5, 0, 0),
    )  # fmt: skip
    sim = lj.Simulation(builder.build(), METHODS[method], dt=1e-3)
    start = sim.energy().total
    sim.step(500)
    assert sim.q[0] == pytest.approx(-0.2 * G * 0.125, rel=5e-3) and sim.q[0] + sim.q[1] == pytest.approx(0, abs=1e-6)
    assert abs(sim.energy().total - start) < 1e-2 * 2.5
    assert abs(sim.joint("rope").multipliers[0]) == pytest.approx(3 * 0.8 * G, rel=5e-3)
    assert sim.joint("beam_joint").reaction.force[2] == pytest.approx(G + 2 * 3 * 0.8 * G, rel=5e-3)


def test_more_bodies_are_stored(tmp_path):
    """The native format stores the second pair of frames."""
    model = axle()
    path = tmp_path / "axle.json"
    lj.save(model, path)
    again = lj.load(path)
    assert again.joint_spec("differential").second_child == "right"
    sims = [lj.Simulation(one, "full") for one in (model, again)]
    for sim in sims:
        sim.tau = [1.0, 0.0, 0.0]
        sim.step(10)
    assert sims[0].state_hash() == sims[1].state_hash()


def test_wrong_kinds_are_refused():
    """A function that is not linear, a second pair too many or too few, and contradicting options are named."""
    builder = lj.Builder("wrong")
    for name in ("a", "b"):
        builder.add_body(name, mass=1.0, inertia=(1, 1, 1))
    if "test_square" not in CONSTRAINT_KINDS:
        lj.register_constraint("test_square", lambda x, r, v, w, t, d: v[0] * v[0], velocity=True)
    with pytest.raises(lj.ModelError, match='"test_square".*not linear in the velocities'):
        builder.add_constraint("test_square", "c", "world", "a")
    with pytest.raises(lj.ModelError, match="give second_child"):
        builder.add_constraint("test_differential", "c", "world", "a")
    with pytest.raises(lj.ModelError, match="leave second_child out"):
        builder.add_constraint("test_height", "c", "world", "a", data=(1.0,), second_child="b")
    with pytest.raises(lj.UnknownName, match="nobody"):
        builder.add_constraint("test_differential", "c", "world", "a", second_child="nobody")
    with pytest.raises(lj.ModelError, match="neither one_sided nor forces"):
        lj.register_constraint("test_other", height, velocity=True, one_sided=True)
    with pytest.raises(lj.ModelError, match="pairs must be 1, or 2"):
        lj.register_constraint("test_other", height, pairs=3)
