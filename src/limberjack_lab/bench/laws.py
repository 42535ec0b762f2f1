"""Part of table `accuracy`: physics that other engines are known to miss, each with an answer that is known.

The rows have the names of a survey of engines: A identities and closed forms of articulated bodies, E energy and
momentum, C contacts. What others reach is quoted as published (SimBenchmark, or measured for that survey).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import limberjack as lj
from limberjack_lab.bench.table import Table, Watch

__all__ = ["LAWS", "fill_laws"]

_G = 9.81
_RODS = 0.7  # length of a rod [m]


def _relative(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.abs(found - wanted).max() / max(np.abs(wanted).max(), 1e-300))


# -- A: articulated bodies -------------------------------------------------------------------------


def _rods(count: int) -> lj.Model:
    """Return `count` uniform rods along x, each hinged about y to the one before, the first to the world."""
    builder, mass = lj.Builder("rods", gravity=(0, 0, -_G)), 1.3
    moment = mass * _RODS**2 / 12
    for k in range(count):
        builder.add_body(f"r{k}", mass=mass, com=(_RODS / 2, 0, 0), inertia=(0.01 * moment, moment, moment))
        ends = f"r{k - 1}" if k else "world", f"r{k}"
        builder.add_joint_hinge(f"j{k}", *ends, axis=(0, 1, 0), position=(_RODS if k else 0, 0, 0))
    return builder.build()


def _rods_exactly(count: int) -> np.ndarray:
    """Return the accelerations of the hinges when the rods are let go.

    With a_k the downward acceleration of joint k, forces on rods summed at the joints give a_(k-1) + 4 a_k + a_(k+1) =
    6 g, a_0 = 0 and a_(N-1) + 2 a_N = 3 g, so a_k = g + c r^k + d r^(N-k) with r = sqrt(3) - 2.
    """
    r, k = math.sqrt(3.0) - 2.0, np.arange(count + 1)
    rows = [[1.0, r**count], [r ** (count - 1) + 2 * r**count, r + 2.0]]
    c, d = np.linalg.solve(np.array(rows), [-_G, 0.0])
    falls = np.diff(_G + c * r**k + d * r ** (count - k)) / _RODS
    return np.diff(falls, prepend=0.0)


def rod_chains(quick: bool) -> float:
    """Return the largest relative error of the accelerations of chains of rods."""
    sizes = (20, 400) if quick else (20, 100, 400, 100_000)
    errors = []
    for count in sizes:
        model = _rods(count)
        errors.append(_relative(lj.forward_dynamics(model, model.q0, model.qd0), _rods_exactly(count)))
    return max(errors)


def identities(quick: bool) -> float:
    """Return the largest relative gap of inverse dynamics, mass matrix and forward dynamics over random trees."""
    worst = 0.0
    for seed in range(30 if quick else 2000):
        model = lj.scenes.random_tree(bodies=1 + seed % 30, seed=seed)
        rng = np.random.default_rng(seed)
        q, qd, tau = model.q0, rng.normal(size=model.nv), rng.normal(size=model.nv)
        qdd = lj.forward_dynamics(model, q, qd, tau)
        back = lj.inverse_dynamics(model, q, qd, qdd)
        # tau = M qdd + bias: the mass matrix times an acceleration against two calls of the inverse
        push = rng.normal(size=model.nv)
        rise = lj.inverse_dynamics(model, q, qd, push) - lj.inverse_dynamics(model, q, qd, np.zeros(model.nv))
        scale = max(np.abs(tau).max(), np.abs(lj.mass_matrix(model, q) @ qdd).max())
        gaps = np.abs(back - tau).max() / scale, _relative(lj.mass_matrix(model, q) @ push, rise)
        worst = max(worst, *map(float, gaps))
    return worst


def all_joints_active(quick: bool) -> float:
    """Return the largest difference of `Adaptive` with all joints in its budget from `Full` after 100 steps."""
    worst = 0.0
    for seed in range(5 if quick else 100):
        model = lj.scenes.random_tree(bodies=2 + seed % 20, seed=seed, kinds=("hinge", "ball", "universal"))
        ends = []
        for method in ("full", lj.Adaptive(budget=model.joint_count)):
            sim = lj.Simulation(model, method, dt=1e-3)
            sim.step(100)
            ends.append(np.concatenate([sim.q, sim.qd]))
        worst = max(worst, float(np.abs(ends[0] - ends[1]).max()))
    return worst


# -- E: energy and momentum ------------------------------------------------------------------------


def passive_hinge_and_ball(quick: bool) -> float:
    """Return the largest rise of energy of a passive hinge and ball at steps of 20 ms, over the largest kinetic one."""
    builder = lj.Builder("hinge and ball", gravity=(0, 0, -_G))
    builder.add_body("upper", mass=1.0, com=(0, 0, -0.25), inertia=(0.021, 0.021, 0.001))
    builder.add_joint_hinge("hinge", "world", "upper", axis=(0, 1, 0), start=2.0)
    builder.add_body("lower", mass=1.0, com=(0, 0, -0.25), inertia=(0.021, 0.021, 0.001))
    half = 0.6
    turned = (math.cos(half), math.sin(half), 0.0, 0.0)
    builder.add_joint_ball("ball", "upper", "lower", position=(0, 0, -0.5), start=turned)
    sim = lj.Simulation(builder.build(), dt=0.02)
    start, kinetic, rise = sim.energy().total, 0.0, 0.0
    for _ in range(600 if quick else 36_000):
        sim.step(5)
        now = sim.energy()
        kinetic, rise = max(kinetic, now.kinetic), max(rise, now.total - start)
    return rise / kinetic


def _thrown(integrator: str, seconds: float) -> float:
    """Return the largest squared change of the energy of a tree of 13 bodies thrown with turning joints [J^2]."""
    model = lj.scenes.random_tree(bodies=13, kinds=("hinge",), floating=True, seed=3)
    sim = lj.Simulation(model, lj.Full(integrator=integrator), dt=1e-3)
    sim.qd = sim.qd + np.random.default_rng(3).normal(0.0, 0.5, model.nv)
    start, worst = sim.energy().total, 0.0
    for _ in range(round(20 * seconds)):
        sim.step(50)
        worst = max(worst, (sim.energy().total - start) ** 2)
    return worst


def thrown_accurately(quick: bool) -> float:
    """Return the squared energy error of a thrown tree, by rk4."""
    return _thrown("rk4", 0.2 if quick else 1.0)


def thrown(quick: bool) -> float:
    """Return the squared energy error of a thrown tree, by the default integrator."""
    return _thrown("variational", 0.2 if quick else 1.0)


# -- C: contacts -----------------------------------------------------------------------------------


def _ball_on_plane(friction: float) -> lj.Model:
    builder = lj.Builder("ball")
    builder.add_shape_plane("world", friction=friction)
    builder.add_body("ball", mass=1.0, inertia=(0.004,) * 3, position=(0.0, 0.0, 0.1))
    builder.add_shape_sphere("ball", 0.1, friction=friction)
    return builder.build()


def rolling(quick: bool) -> float:
    """Return the mean squared error of the velocity of a ball that a force at 45 and 60 degrees rolls [m^2/s^2]."""
    total, count = 0.0, 0
    for degrees in (45, 60):
        way = np.array([math.cos(math.radians(degrees)), math.sin(math.radians(degrees)), 0.0])
        sim = lj.Simulation(_ball_on_plane(friction=0.8), lj.Impulses(sleeping=False), dt=1e-2)
        sim.apply_wrench("ball", force=way)
        for k in range(1, 101 if quick else 401):
            sim.step()
            # m a = F - f and I a / r = f r: two fifths of the mass turn
            exact = way * 1e-2 * k / 1.4
            total, count = total + float(((sim.qd[:3] - exact) ** 2).sum()), count + 1
    return total / count


def bouncing(quick: bool) -> float:
    """Return the mean squared error of the energy of 25 elastic balls that bounce for 20 s in steps of 10 ms [J^2]."""
    builder = lj.Builder("balls", gravity=(0, 0, -_G))
    builder.add_shape_plane("world", friction=0.0, restitution=1.0)
    for k in range(25):
        where = (2.5 * (k % 5), 2.5 * (k // 5), 5.0 + 0.1 * k)
        builder.add_body(f"b{k}", mass=1.0, inertia=(0.1,) * 3, position=where)
        builder.add_shape_sphere(f"b{k}", 0.5, friction=0.0, restitution=1.0)
    sim = lj.Simulation(builder.build(), lj.Impulses(sleeping=False), dt=1e-2)
    start, total, looks = sim.energy().total, 0.0, 40 if quick else 400
    for _ in range(looks):
        sim.step(5)
        total += (sim.energy().total - start) ** 2
    return total / looks


def soft_landing(quick: bool) -> float:
    """Return the mean over time of the squared overlaps of 6 x 6 x 6 smooth balls that fall in a box [m^2]."""
    side = 3 if quick else 6
    builder = lj.Builder("666", gravity=(0, 0, -_G))
    smooth: dict[str, Any] = {"friction": 0.0, "restitution": 0.0}
    builder.add_shape_plane("world", **smooth)
    width = 1.05 * side
    for axis in (0, 1):
        for sign in (-1, 1):
            where, size = [0.0, 0.0, 5.0], [width + 4.0] * 2 + [14.0]
            where[axis], size[axis] = sign * (0.5 * width + 1.0), 2.0
            builder.add_shape_box("world", tuple(size), position=tuple(where), **smooth)
    rng = np.random.default_rng(0)
    for k in range(side**3):
        x, y, z = k % side, k // side % side, k // side**2
        jitter = rng.uniform(-0.02, 0.02, 2)
        place = 1.05 * (np.array([x, y]) - 0.5 * (side - 1)) + jitter
        builder.add_body(f"b{k}", mass=1.0, inertia=(0.1,) * 3, position=(*place, 1.0 + 1.2 * z))
        builder.add_shape_sphere(f"b{k}", 0.5, **smooth)
    sim = lj.Simulation(builder.build(), lj.Impulses(sleeping=False), dt=1e-2)
    total, looks = 0.0, 50 if quick else 500
    for _ in range(looks):
        sim.step()
        total += sum(max(contact.depth, 0.0) ** 2 for contact in sim.contacts())
    return total / looks


def kapla(quick: bool) -> float:
    """Return after how many steps of 10 ms, of 60,000, a tower of 102 blocks has moved by more than a centimetre."""
    # awake all the time: a tower asleep stands whatever the solver does
    sim = lj.Simulation(lj.scenes.kapla_tower(), lj.Impulses(sleeping=False), dt=1e-2)
    start, steps, chunk = sim.positions.copy(), 0, 500
    while steps < (500 if quick else 60_000):
        sim.step(chunk)
        if np.abs(sim.positions - start).max() > 1e-2:
            break
        steps += chunk
    return float(steps)


def _box(friction: float, slope: float = 0.0) -> lj.Model:
    """Return a box on a plane that a slope tilts about y."""
    half = 0.5 * slope
    turn = (math.cos(half), 0.0, math.sin(half), 0.0)
    up = np.array([math.sin(slope), 0.0, math.cos(slope)])
    builder = lj.Builder("box", gravity=(0, 0, -_G))
    builder.add_shape_plane("world", rotation=turn, friction=friction)
    builder.add_body("box", mass=1.0, inertia=(0.01,) * 3, position=0.1 * up, rotation=turn)
    builder.add_shape_box("box", (0.2, 0.2, 0.2), friction=friction)
    return builder.build()


def slide_directions(quick: bool) -> float:
    """Return the largest relative error of the way that a box slides, over directions."""
    exact, worst = 4.0 / (2 * 0.3 * _G), 0.0
    for degrees in (0, 45) if quick else range(0, 360, 15):
        angle = math.radians(degrees)
        sim = lj.Simulation(_box(0.3), lj.Impulses(sleeping=False), dt=1 / 960)
        sim.qd = [2 * math.cos(angle), 2 * math.sin(angle), 0, 0, 0, 0]
        sim.step(960)
        worst = max(worst, abs(float(np.hypot(*sim.positions[0, :2])) - exact) / exact)
    return worst


def creep(quick: bool) -> float:
    """Return how far a box creeps on a slope at nine tenths of its friction in 10 s [m]."""
    sim = lj.Simulation(_box(0.5, math.atan(0.45)), lj.Impulses(sleeping=False), dt=1 / 240)
    before = sim.positions[0].copy()
    sim.step(240 if quick else 2400)
    return float(np.abs(sim.positions[0] - before).max())


def stack_drift(quick: bool) -> float:
    """Return how far any of 20 stacked boxes drifts sideways in 60 s [m]."""
    sim = lj.Simulation(lj.scenes.column(boxes=20), lj.Impulses(sleeping=False), dt=1 / 240)
    sim.step(240)
    before = sim.positions.copy()
    sim.step(240 if quick else 14_400)
    return float(np.abs(sim.positions - before)[:, :2].max())


def heavy_on_light(quick: bool) -> float:
    """Return how deep a box of 10^6 kg sinks into one of 1 kg below it, or that into the ground, in 5 s [m]."""
    builder = lj.Builder("two")
    builder.add_shape_plane("world")
    for k, mass in enumerate((1.0, 1e6)):
        builder.add_body(f"b{k}", mass=mass, inertia=(mass / 60,) * 3, position=(0, 0, 0.1 + 0.2 * k))
        builder.add_shape_box(f"b{k}", (0.2, 0.2, 0.2))
    sim = lj.Simulation(builder.build(), lj.Impulses(sleeping=False), dt=1 / 240)
    sim.step(240 if quick else 1200)
    lower, upper = sim.positions[:, 2]
    return float(max(0.1 - lower, 0.2 - (upper - lower), 0.0))


def heavy_at_the_end(quick: bool) -> float:
    """Return the largest joint gap of a chain of 20 links of 1 kg with 10^6 kg at its end, in maximal coordinates."""
    builder = lj.Builder("chain", gravity=(0, 0, -_G))
    for k in range(21):
        mass = 1e6 if k == 20 else 1.0
        builder.add_body(f"b{k}", mass=mass, com=(0, 0, -0.1), inertia=(0.01 * mass,) * 3)
        place = (0, 0, -0.2) if k else (0, 0, 0)
        ends = f"b{k - 1}" if k else "world", f"b{k}"
        builder.add_joint_hinge(f"j{k}", *ends, axis=(0, 1, 0), position=place, start=0.0 if k else 0.3)
    sim = lj.Simulation(builder.build(), "multipliers", dt=1e-3)
    worst = 0.0
    for _ in range(50 if quick else 500):
        sim.step(10)
        worst = max(worst, sim.joint_error().metres)
    return worst


def tunnelling(quick: bool) -> float:
    """Return how many of the balls shot at a wall of 2 cm at 20 to 1000 m/s are behind it afterwards."""
    builder = lj.Builder("shots", gravity=(0, 0, 0))
    builder.add_shape_box("world", (0.02, 4000.0, 4000.0))
    count = 100 if quick else 1000
    rng = np.random.default_rng(0)
    velocities = []
    for k in range(count):
        builder.add_body(f"b{k}", mass=1.0, inertia=(0.001,) * 3, position=(-rng.uniform(0.2, 1.0), 0.5 * k, 0.0))
        builder.add_shape_sphere(f"b{k}", 0.05, group=1)
        velocities.append([10 ** rng.uniform(1.3, 3.0), 0, 0, 0, 0, 0])
    model = builder.build()
    through = 0
    for dt in (0.002,) if quick else (0.0005, 0.002, 0.01):
        sim = lj.Simulation(model, lj.Impulses(sleeping=False), dt=dt, qd=np.concatenate(velocities))
        sim.step(max(20, round(0.06 / dt)))
        through += int((sim.positions[:, 0] > 0.0).sum())
    return float(through)


# Row, what it is, how it is measured, unit, the limit and whether it is a least value, what others reach.
LAWS: tuple[tuple[str, str, Callable[[bool], float], str, float, bool, str], ...] = (
    ("A6", "chains of rods to 1e5 links, closed form", rod_chains, "rel", 1e-8, False, "MuJoCo 1.0e-7 at 400 links"),
    ("A7", "forward, inverse dynamics and mass matrix", identities, "rel", 1e-9, False, "Pinocchio 1e-12 type"),
    ("A8", "adaptive, all joints active, against full", all_joints_active, "", 1e-12, False, "no other"),
    ("E1", "passive hinge and ball, 20 ms, 1 h: rise", passive_hinge_and_ball, "rel", 0.01, False,
     "MuJoCo Euler explodes at 38 s, RK4 0.5 % in 300 s"),
    ("E3", "13 bodies on hinges, thrown, rk4: energy squared", thrown_accurately, "J^2", 1e-12, False,
     "an ANYmal: MuJoCo RK4 1.6e-17"),
    ("E3", "the same by the default integrator", thrown, "J^2", 1e-3, False, "RaiSim 1.2e-2, MuJoCo 3.48, DART 237"),
    ("C1", "rolling, force at 45 and 60 degrees", rolling, "m^2/s^2", 1e-8, False,
     "Bullet 5.7e-9, RaiSim 4.1e-7, MuJoCo 2.4e-3, ODE 3.14"),
    ("C2", "elastic balls, 20 s, 10 ms: energy squared", bouncing, "J^2", 1.0, False,
     "RaiSim 186, ODE 18,808, Bullet 7.4e6"),
    ("C3", "6 x 6 x 6 smooth balls: overlap squared", soft_landing, "m^2", 0.01, False,
     "RaiSim 0.0153, MuJoCo 0.93, Bullet 37"),
    ("C4", "Kapla tower, 102 blocks, 10 ms: steps", kapla, "", 60_000, True,
     "RaiSim 60,000 at 1000 iterations, MuJoCo 218-3297"),
    ("C5", "way that a box slides, 24 directions", slide_directions, "rel", 1e-3, False,
     "MuJoCo pyramid 0.41, elliptic 2.8e-3"),
    ("C6", "creep at 0.9 of the friction, 10 s", creep, "m", 1e-6, False, "MuJoCo 14.4 mm"),
    ("C6", "20 boxes stacked, sideways in 60 s", stack_drift, "m", 1e-6, False, "-"),
    ("C7", "1e6 kg on 1 kg, 5 s: sinks", heavy_on_light, "m", 1e-3, False, "MuJoCo: whole box"),
    ("C7", "1e6 kg on 20 links of 1 kg: joint gap", heavy_at_the_end, "m", 1e-8, False, "-"),
    ("C8", "balls through a wall of 2 cm, to 1000 m/s", tunnelling, "", 0, False, "MuJoCo: all at 20 m/s"),
)  # fmt: skip


def fill_laws(table: Table, quick: bool, watch: Watch) -> None:
    """Measure every row of `LAWS`; see `TABLES`."""
    head = "row: row; what: what; value: Limberjack; unit: unit; goal: goal; others: others, as published"
    part = table.part("laws that engines are known to miss", head)
    for name, what, measured, unit, limit, at_least, others in LAWS:
        watch(f"{name}, {what}")
        row: dict[str, Any] = part.add(row=name, what=what, unit=unit, others=others)
        row["goal"] = f"{'>=' if at_least else '<='} {limit:g}"
        try:
            row["value"] = measured(quick)
        except lj.LimberjackError as error:
            row["value"] = "failed"
            table.wrong.append(f"{name}, {what}: {error}")
            continue
        table.bar(f"{name}, {what}", row["value"], limit, at_least)
