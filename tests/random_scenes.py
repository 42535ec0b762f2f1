"""Random scenes of everything a model may have, and what must hold of a run of them, whatever the method.

A scene follows from its seed alone, so that a failure can be repeated: `run(draw(seed), "full")`.
"""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import numpy as np

import limberjack as lj
from limberjack.errors import EnergyWarning

METHODS = ("full", "adaptive", "multipliers", "displacements", "impulses")
KINDS = ("hinge", "slide", "ball", "universal", "cylindrical", "planar", "screw", "point_on_line", "point_on_plane")
# Joints that may close a loop without locking what moves: three rows or fewer.
LOOPS = ("ball", "point_on_line", "point_on_plane", "distance")
# Kinds whose limits are a pair for one angle or distance.
SINGLE = ("hinge", "slide", "screw")
STEPS = 100
# Between the frames of joined bodies, and the least between those with shapes, which are smaller: nothing overlaps [m].
SPACING, APART = 0.5, 0.36
# A rise of the energy by this part of what could have become motion is an error of integration, not a source.
ALLOWED = 0.1
# Longest step on average [s of processor time]: a hang.
SLOW = 0.5


class RandomScene(NamedTuple):
    """A model, a step and what it has."""

    seed: int
    model: lj.Model
    dt: float
    features: tuple[str, ...]


class Ran(NamedTuple):
    """How a run ended: "ran", "warned", or the name of a typed error; and what was wrong with it, if anything."""

    end: str
    fault: str
    gain: float = 0.0
    seconds: float = 0.0


def _joint_options(rng: np.random.Generator, kind: str, mass: float, has: set[str]) -> dict[str, Any]:
    """Return the keywords of a joint: frames, and springs, dampers, limits and motors by chance."""
    options: dict[str, Any] = {"rotation": lj_quaternion(rng)}
    inertia = 0.1 * mass
    if kind == "screw":
        options["pitch"] = float(rng.uniform(-0.1, 0.1))
    if "damping" in has and rng.random() < 0.5:
        options["damping"] = inertia * 10 ** rng.uniform(-2, 3)
    if "springs" in has and rng.random() < 0.3 and kind not in ("point_on_line", "point_on_plane"):
        options["stiffness"] = inertia * 10 ** rng.uniform(0, 5)
    if "friction" in has and kind in SINGLE and rng.random() < 0.3:
        options["friction"] = inertia * 10 ** rng.uniform(-1, 1)
    if "armature" in has and kind in SINGLE and rng.random() < 0.3:
        options["armature"] = inertia * 10 ** rng.uniform(-2, 0)
    if "limits" in has and kind in SINGLE and rng.random() < 0.5:
        options["limits"] = (-float(rng.uniform(0.0, 0.5)), float(rng.uniform(0.0, 0.5)))
        if rng.random() < 0.3:
            options["limit_stiffness"] = inertia * 10 ** rng.uniform(1, 6)
            options["limit_damping"] = inertia * 10 ** rng.uniform(-1, 3)
    elif "limits" in has and kind == "ball" and rng.random() < 0.5:
        options["cone"] = float(rng.uniform(0.2, 1.5))
    if "motors" in has and kind in SINGLE and rng.random() < 0.3:
        motor = {"kp": inertia * 10 ** rng.uniform(0, 4), "kd": inertia * 10 ** rng.uniform(-1, 2)}
        options["motor"] = lj.Motor(target=float(rng.uniform(-0.5, 0.5)), **motor)
    return options


def lj_quaternion(rng: np.random.Generator) -> np.ndarray:
    """Return a random rotation."""
    q = rng.normal(size=4)
    return q / np.linalg.norm(q)


def _add_shape(builder: lj.Builder, rng: np.random.Generator, body: str) -> None:
    """Add a shape that stays within half of the spacing of bodies."""
    surface = {"friction": float(rng.uniform(0, 1)), "restitution": float(rng.choice((0.0, 0.0, 0.5)))}
    radius = float(rng.uniform(0.02, 0.08))
    kind = rng.choice(("sphere", "box", "capsule", "cylinder"))
    if kind == "sphere":
        builder.add_shape_sphere(body, radius, **surface)
    elif kind == "box":
        builder.add_shape_box(body, rng.uniform(0.04, 0.2, 3), rotation=lj_quaternion(rng), **surface)
    elif kind == "capsule":
        builder.add_shape_capsule(body, radius, 0.15, rotation=lj_quaternion(rng), **surface)
    else:
        builder.add_shape_cylinder(body, radius, 0.15, rotation=lj_quaternion(rng), **surface)


def _add_tree(builder: lj.Builder, rng: np.random.Generator, has: set[str], bodies: int) -> None:
    spread = float(rng.choice((0.0, 0.5, 1.0, 3.0)))  # decades on each side: mass ratios up to 10^6
    for i in range(bodies):
        name, mass = f"body{i}", float(10 ** rng.uniform(-spread, spread))
        inertia = mass * rng.uniform(0.005, 0.008, 3)
        builder.add_body(name, mass=mass, com=rng.uniform(-0.05, 0.05, 3), inertia=inertia)
        root = i == 0 or rng.random() < 0.15
        if root and (rng.random() < 0.5 or "anchored" not in has):
            start = (i % 8 * SPACING, i // 8 % 8 * SPACING, 1.0 + i // 64 * SPACING, *lj_quaternion(rng))
            builder.add_joint_free(f"joint{i}", "world", name, start=start, start_velocity=rng.normal(size=6))
            continue
        parent = "world" if root else f"body{i - 1 if rng.random() < 0.7 else rng.integers(i)}"
        kind = str(rng.choice(KINDS))
        place = (i * SPACING, 0.0, 2.0) if root else rng.uniform(-1, 1, 3) * SPACING
        builder.add_joint(kind, f"joint{i}", parent, name, position=place, **_joint_options(rng, kind, mass, has))


def _add_shapes(builder: lj.Builder, rng: np.random.Generator) -> None:
    """Give shapes to bodies that are apart from all others with one, and a ground below all of them."""
    model = builder.build()
    positions, _ = lj.forward_kinematics(model, model.q0)
    chosen: list[int] = []
    for i in rng.permutation(len(positions)):
        if all(np.linalg.norm(positions[i] - positions[j]) > APART for j in chosen):
            _add_shape(builder, rng, model.body_names[i])
            chosen.append(int(i))
    height = float(positions[:, 2].min()) - SPACING
    builder.add_shape_plane("world", position=(0, 0, height), friction=float(rng.uniform(0, 1)))


def _close_loops(builder: lj.Builder, rng: np.random.Generator, bodies: int) -> None:
    """Add joints between bodies where they are at the start, so that every loop is closed."""
    model = builder.build()
    positions, rotations = lj.forward_kinematics(model, model.q0)
    for i in range(int(rng.integers(1, 2 + bodies // 8))):
        a, b = (int(x) for x in rng.choice(bodies, 2, replace=False))
        kind, middle = str(rng.choice(LOOPS)), 0.5 * (positions[a] + positions[b])
        at_a, at_b = (_into(rotations[k], middle - positions[k]) for k in (a, b))
        names = model.body_names[a], model.body_names[b]
        if kind == "distance":
            length = float(np.linalg.norm(positions[a] - positions[b]))
            if length > 1e-3:
                builder.add_joint_distance(f"loop{i}", *names, length=length, rope=bool(rng.integers(2)))
            continue
        turned = lj_quaternion(rng)
        frames = [_product(_conjugate(rotations[k]), turned) for k in (a, b)]
        builder.add_joint(
            kind,
            f"loop{i}",
            *names,
            position=at_a,
            rotation=frames[0],
            position_in_child=at_b,
            rotation_in_child=frames[1],
        )


def _conjugate(q: np.ndarray) -> np.ndarray:
    return q * (1, -1, -1, -1)


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.array((a[0] * b[0] - a[1:] @ b[1:], *(a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:]))))


def _into(rotation: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return a vector of the world in the axes of a body."""
    return _product(_product(_conjugate(rotation), np.array((0.0, *v))), rotation)[1:]


def draw(seed: int, most: int = 200, coarsest: float = 0.1) -> RandomScene:
    """Return the scene of a seed, of 1 to `most` bodies."""
    rng = np.random.default_rng(seed)
    words = (
        "anchored",
        "damping",
        "springs",
        "friction",
        "armature",
        "limits",
        "motors",
        "contacts",
        "loops",
        "between",
    )
    has = {word for word in words if rng.random() < 0.4}
    bodies = int(np.exp(rng.uniform(0, np.log(most + 1))))
    builder = lj.Builder(f"random{seed}", gravity=(0, 0, float(rng.choice((-9.81, -9.81, -9.81, 0.0)))))
    _add_tree(builder, rng, has, bodies)
    if "contacts" in has:
        _add_shapes(builder, rng)
    if "loops" in has and bodies > 2:
        _close_loops(builder, rng, bodies)
    if "between" in has and bodies > 1:
        a, b = rng.choice(bodies, 2, replace=False)
        builder.add_spring(
            f"body{a}", f"body{b}", stiffness=10 ** rng.uniform(0, 5), damping=10 ** rng.uniform(-1, 2), rest=SPACING
        )
    return RandomScene(seed, builder.build(), float(10 ** rng.uniform(-4, np.log10(coarsest))), tuple(sorted(has)))


def run(scene: RandomScene, method: Any, steps: int = STEPS) -> Ran:
    """Step a scene and judge it: a typed error, or a finite state whose energy came from somewhere."""
    begin, done = time.process_time(), 0
    end, fault, released, gain, start = "ran", "", 0.0, 0.0, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", EnergyWarning)
        try:
            sim = lj.Simulation(scene.model, method, scene.dt)
            start = sim.energy()
            released = start.kinetic
            for done in range(0, steps, 10):
                sim.step(10)
                now = sim.energy()
                released = max(released, start.total - now.potential, now.kinetic)
                gain = max(gain, now.total - start.total)
                if time.process_time() - begin > SLOW * (done + 10):
                    fault = "slow"
                    break
            if not (np.isfinite(sim.q).all() and np.isfinite(sim.qd).all() and np.isfinite(sim.positions).all()):
                fault = "not finite"
        except EnergyWarning:
            end = "warned"
        except lj.LimberjackError as error:
            end = type(error).__name__
        except Exception as error:  # the fault that this test looks for
            fault = f"{type(error).__name__}: {error}"
    weight = float(scene.model.arrays.links.inertia[:, 9].sum()) * max(9.81 * 1e-3, 0.0)
    allowed = ALLOWED * released + weight
    if not fault and end == "ran" and gain > allowed:
        fault = f"gained {gain:.3g} J, {allowed:.3g} J allowed"
    return Ran(end, fault, gain, time.process_time() - begin)
