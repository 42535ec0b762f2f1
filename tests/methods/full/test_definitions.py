"""One step of each integrator against its definition, written out with the naive twin."""

from __future__ import annotations

import numpy as np
import pytest
from tests.methods.scenes import INTEGRATORS, floating, hanging, started, tied
from tests.naive.rotations import cross_matrix, multiply
from tests.naive.twin import Twin

import limberjack as lj


class Scene:
    """A model in motion with joint forces, wrenches and a motor, and its accelerations by the twin."""

    def __init__(self, model, integrator, h, **options):
        self.model, self.twin, self.h = model, Twin(model), h
        self.sim = started(model, integrator, h, **options)
        rng = np.random.default_rng(3)
        self.sim.tau = rng.normal(size=model.nv)
        self.wrenches = rng.normal(size=(model.body_count, 6))
        for name, wrench in zip(model.body_names, self.wrenches, strict=True):
            self.sim.apply_wrench(name, torque=wrench[:3], force=wrench[3:])
        self.q, self.qd, self.tau = self.sim.q, self.sim.qd, self.sim.tau

    def motors(self, q, qd):
        """Return the forces of the motors, read off the spec."""
        out = np.zeros(self.model.nv)
        for name, joint in self.twin.joints.items():
            if joint.motor is not None:
                motor, place = joint.motor[0], self.model.joint(name)
                out[place.v] = motor.kp * (motor.target - q[place.q]) + motor.kd * (motor.velocity - qd[place.v])
        return out

    def accelerations(self, q, qd):
        """Return qdd with everything that acts."""
        wrenches = self.wrenches + self.twin.spring_wrenches(q, qd)
        return self.twin.forward(q, qd, self.tau + self.motors(q, qd), wrenches)

    def rates(self, q, qd):
        """Return dq/dt: velocities, and q w / 2 for quaternions."""
        out = np.zeros(self.model.nq)
        for name in self.model.joint_names:
            place = self.model.joint(name)
            spins = place.nq - place.nv
            plain = place.nq - 4 * spins
            out[place.q][:plain] = qd[place.v][:plain]
            if spins:
                out[place.q][plain:] = multiply(q[place.q][plain:], np.r_[0.0, qd[place.v][plain:]]) / 2
        return out

    def normalised(self, q):
        """Return q with unit quaternions."""
        out = q.copy()
        for name in self.model.joint_names:
            place = self.model.joint(name)
            if place.nq > place.nv:
                out[place.q][-4:] /= np.linalg.norm(out[place.q][-4:])
        return out

    def check(self, q, qd, tolerance=1e-11):
        """Assert that one step of the simulation ends in (q, qd)."""
        self.sim.step()
        for found, wanted in ((self.sim.q, q), (self.sim.qd, qd)):
            assert np.abs(found - wanted).max() < tolerance * (1 + np.abs(wanted).max())


MODELS = {"hanging": hanging, "tied": tied, "floating": lambda: floating(gravity=(0, 1, -5))}


@pytest.mark.parametrize("name", MODELS)
def test_euler(name):
    """q moves by the old velocity, the velocity by the old acceleration."""
    s = Scene(MODELS[name](), "euler", 1e-2)
    s.check(s.twin.moved(s.q, s.qd, s.h), s.qd + s.h * s.accelerations(s.q, s.qd))


@pytest.mark.parametrize("name", MODELS)
def test_semi_implicit(name):
    """The velocity moves by the old acceleration, then q by the new velocity."""
    s = Scene(MODELS[name](), "semi_implicit", 1e-2)
    qd = s.qd + s.h * s.accelerations(s.q, s.qd)
    s.check(s.twin.moved(s.q, qd, s.h), qd)


def runge_kutta(s, q, qd, h):
    """Return (q, qd) after one classical Runge-Kutta step."""
    slopes = []
    for ahead in (0.0, 0.5, 0.5, 1.0):
        last = slopes[-1] if slopes else (0.0, 0.0)
        at = q + ahead * h * last[0], qd + ahead * h * last[1]
        slopes.append((s.rates(*at), s.accelerations(s.normalised(at[0]), at[1])))
    weights = (1 / 6, 1 / 3, 1 / 3, 1 / 6)
    q = q + h * sum(w * k[0] for w, k in zip(weights, slopes, strict=True))
    qd = qd + h * sum(w * k[1] for w, k in zip(weights, slopes, strict=True))
    return s.normalised(q), qd


@pytest.mark.parametrize("substeps", [1, 2, None])
@pytest.mark.parametrize("name", MODELS)
def test_rk4(name, substeps):
    """Classical Runge-Kutta with quaternions in R^4; substeps divide the step, two by default."""
    s = Scene(MODELS[name](), "rk4", 1e-2, substeps=substeps)
    q, qd, count = s.q, s.qd, substeps or 2
    for _ in range(count):
        q, qd = runge_kutta(s, q, qd, s.h / count)
    s.check(q, qd)


def implicit_step(s):
    """Return (q, qd) after a linearly implicit step, by dense matrices over joints and springs."""
    h, twin, model = s.h, s.twin, s.model
    stiffness = twin._per_freedom("stiffness")
    damping = twin._per_freedom("damping")
    for name, joint in twin.joints.items():
        if joint.motor is not None:
            stiffness[model.joint(name).v] += joint.motor[0].kp
            damping[model.joint(name).v] += joint.motor[0].kd
    jacobians = twin.jacobians(s.q)
    matrix = twin.mass_matrix(s.q, jacobians) + np.diag(h * damping + h * h * stiffness)
    force = s.tau + twin.passive(s.q, s.qd) + s.motors(s.q, s.qd) - h * stiffness * s.qd
    force = force - twin.bias(s.q, s.qd, s.wrenches, jacobians)
    motions = twin.motions(s.q, s.qd, 0 * s.qd)
    for spring, (way, length) in zip(model.spec.springs, twin.spring_lines(s.q), strict=True):
        rows = np.zeros((3, model.nv))
        for sign, body, at in ((-1, spring.a, spring.at_a), (1, spring.b, spring.at_b)):
            if body != "world":
                i = model.body_index(body)
                lever = twin.place(s.q, body, at) - motions[i][1]
                rows += sign * (jacobians[i][3:] - cross_matrix(lever) @ jacobians[i][:3])
        k, c, row = spring.stiffness, spring.damping, way @ rows
        pull = k * (length - spring.rest) + c * (row @ s.qd)
        # along the spring its stiffness and damping, across it what its pull gives: pull / length
        stiff = k * np.outer(way, way) + max(pull, 0.0) / length * (np.eye(3) - np.outer(way, way))
        force = force - rows.T @ (pull * way + h * stiff @ rows @ s.qd)
        matrix = matrix + rows.T @ (h * h * stiff + h * c * np.outer(way, way)) @ rows
    qd = s.qd + h * np.linalg.solve(matrix, force)
    return twin.moved(s.q, qd, h), qd


@pytest.mark.parametrize("name", [*MODELS, "stiff"])
def test_implicit(name):
    """Springs, dampers and motors of joints and bodies are taken at the end of the step, linearised."""
    model = tied(stiffness=1e6, damping=1e3) if name == "stiff" else MODELS[name]()
    s = Scene(model, "implicit", 1e-2)
    s.check(*implicit_step(s), tolerance=1e-9)


def test_momentum_is_rk4_with_the_base_corrected():
    """A step of momentum differs from rk4's by less than its error, and only where momentum asks for it."""
    for h in (1e-2, 5e-3):
        s = Scene(floating(gravity=(0, 1, -5)), "momentum", h)
        q, qd = s.q, s.qd
        for _ in range(2):
            q, qd = runge_kutta(s, q, qd, h / 2)
        s.check(q, qd, tolerance=50 * h**5)
    hung = Scene(hanging(), "momentum", 1e-2)
    q, qd = hung.q, hung.qd
    for _ in range(2):
        q, qd = runge_kutta(hung, q, qd, 5e-3)
    hung.check(q, qd)


def test_a_motor_never_exceeds_its_maximum():
    """The motor's force is cut at +-max, in both directions, explicit and implicit."""
    for integrator in INTEGRATORS:
        for target, sign in ((100.0, 1), (-100.0, -1)):
            builder = lj.Builder(gravity=(0, 0, 0))
            builder.add_body("a", mass=1.0, inertia=(2.0, 2.0, 2.0))
            builder.add_joint_hinge("h", "world", "a", motor=lj.Motor(kp=50, kd=1, target=target, max=3.0))
            sim = lj.Simulation(builder.build(), lj.Full(integrator=integrator), dt=1e-3)
            sim.step(100)
            assert sim.joint("h").qd == pytest.approx(sign * 3.0 / 2.0 * 0.1, rel=1e-9)


def test_a_ball_motor_never_exceeds_its_maximum():
    """The length of a ball motor's torque is cut at max."""
    builder = lj.Builder(gravity=(0, 0, 0))
    builder.add_body("a", mass=1.0, inertia=(2.0, 2.0, 2.0))
    target = (np.cos(1.0), *(np.sin(1.0) * np.array([0.6, 0, 0.8])))
    builder.add_joint_ball("s", "world", "a", motor=lj.Motor(kp=50, target=target, max=3.0))
    sim = lj.Simulation(builder.build(), dt=1e-3)
    sim.step(10)
    assert sim.qd == pytest.approx(3.0 / 2.0 * 0.01 * np.array([0.6, 0, 0.8]), rel=1e-6)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_motor_with_a_velocity_reaches_it(integrator):
    """kd (velocity - qd) brings a joint to that velocity."""
    builder = lj.Builder(gravity=(0, 0, 0))
    builder.add_body("a", mass=1.0, inertia=(2.0, 2.0, 2.0))
    builder.add_joint_hinge("h", "world", "a", motor=lj.Motor(kd=20, velocity=1.5))
    sim = lj.Simulation(builder.build(), lj.Full(integrator=integrator), dt=1e-3)
    sim.step(5000)
    assert sim.joint("h").qd == pytest.approx(1.5, rel=1e-9)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_springs_and_motors_settle_where_forces_balance(integrator):
    """A damped arm on a spring, a motor and a soft limit comes to rest where all its torques cancel."""
    builder = lj.Builder()
    builder.add_body("arm", mass=1.0, com=(0, 0, -0.5), inertia=(0.1, 0.1, 0.1))
    builder.add_joint_hinge(
        "h", "world", "arm", axis=(0, 1, 0), damping=2.0, stiffness=3.0, rest=0.1, limits=(-1.0, 0.9),
        limit_stiffness=200.0, limit_damping=3.0, motor=lj.Motor(kp=20.0, kd=0.5, target=2.0),
    )  # fmt: skip
    sim = lj.Simulation(builder.build(), lj.Full(integrator=integrator), dt=1e-3)
    sim.step(20_000)
    q = sim.joint("h").q
    torque = -9.81 * 0.5 * np.sin(q) - 3.0 * (q - 0.1) + 20.0 * (2.0 - q) - 200.0 * (q - 0.9)
    assert 0.9 < q < 1.1 and abs(torque) < 1e-8 and abs(sim.joint("h").qd) < 1e-9


def test_soft_limits_push_and_never_pull():
    """Leaving a soft limit fast, its damper does not pull the joint back; within the limits it does nothing."""
    builder = lj.Builder(gravity=(0, 0, 0))
    builder.add_body("a", mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint_hinge("h", "world", "a", limits=(-1, 1), limit_stiffness=10.0, limit_damping=100.0)
    model = builder.build()
    for integrator in ("euler", "semi_implicit", "rk4"):
        sim = lj.Simulation(model, lj.Full(integrator=integrator), dt=1e-4, q=[1.01], qd=[-5.0])
        sim.step(10)
        assert sim.joint("h").qd == pytest.approx(-5.0, abs=1e-12)
        sim = lj.Simulation(model, lj.Full(integrator=integrator), dt=1e-4, q=[0.5], qd=[1.0])
        sim.step(10)
        assert sim.joint("h").qd == 1.0


def test_soft_limits_of_a_ball_hold_its_cone():
    """A ball turned beyond its largest angle is pushed back along the shortest way, on any axis."""
    for axis in np.eye(3):
        builder = lj.Builder(gravity=(0, 0, 0))
        builder.add_body("a", mass=1.0, inertia=(1.0, 1.0, 1.0))
        builder.add_joint_ball("s", "world", "a", limits=(0, 0.5), limit_stiffness=100.0)
        sim = lj.Simulation(builder.build(), lj.Full(integrator="euler"), dt=1e-3)
        sim.q = np.r_[np.cos(0.4), np.sin(0.4) * axis]
        sim.step()
        assert sim.qd == pytest.approx(-1e-3 * 100.0 * 0.3 * axis, abs=1e-12)
        sim.q = np.r_[np.cos(0.2), np.sin(0.2) * axis]
        sim.qd = 0 * sim.qd
        sim.step()
        assert (sim.qd == 0).all()
