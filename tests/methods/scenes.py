"""Small models that the tests of methods share."""

from __future__ import annotations

import numpy as np
from tests.naive.models import add_body, add_joint, random_state

import limberjack as lj

INTEGRATORS = ("euler", "semi_implicit", "rk4", "implicit", "momentum")


def hanging(passive=True, gravity=(0.0, 0.0, -9.81)):
    """Return ball - hinge - ball - universal from the world, with dampers and springs of their own if asked for."""
    rng = np.random.default_rng(21)
    builder = lj.Builder("hanging", gravity=gravity)
    above = "world"
    for k, kind in enumerate(("ball", "hinge", "ball", "universal")):
        add_body(builder, rng, f"b{k}")
        add_joint(builder, rng, kind, f"j{k}", above, f"b{k}", passive)
        above = f"b{k}"
    return builder.build()


def floating(bodies=6, seed=5, gravity=(0.0, 0.0, 0.0), kinds=("ball", "hinge", "universal", "compound", "slide")):
    """Return a free tree without dampers and springs, with a random start that keeps its com near the origin."""
    rng = np.random.default_rng(seed)
    builder = lj.Builder("floating", gravity=gravity)
    for k in range(bodies):
        add_body(builder, rng, f"b{k}")
        if k:
            add_joint(builder, rng, kinds[k % len(kinds)], f"j{k}", f"b{int(rng.integers(k))}", f"b{k}", passive=False)
    return builder.build()


def tied(stiffness=300.0, damping=2.0):
    """Return two hanging chains and a floating body, with springs between them and to the world, and motors."""
    rng = np.random.default_rng(31)
    builder = lj.Builder("tied")
    for name in "ab":
        for k in range(2):
            add_body(builder, rng, f"{name}{k}")
        builder.add_joint_ball(f"{name}0", "world", f"{name}0", position=(0.0 if name == "a" else 1.5, 0, 0))
        builder.add_joint_hinge(
            f"{name}1", f"{name}0", f"{name}1", position=(0.3, 0, -0.4), axis=(0, 1, 0), stiffness=4.0, damping=0.3,
            rest=0.2, motor=lj.Motor(kp=3.0, kd=0.2, target=0.4),
        )  # fmt: skip
    add_body(builder, rng, "free", position=(0.5, 0.5, 0.5))
    springs = {"stiffness": stiffness, "damping": damping}
    builder.add_spring("a1", "b1", at_a=(0.1, 0, 0), at_b=(0, 0.2, 0), rest=0.9, **springs)
    builder.add_spring("world", "b1", at_a=(1, 1, 1), at_b=(0, 0, -0.1), rest=0.5, **springs)
    builder.add_spring("free", "a0", at_a=(0, 0.1, 0), rest=0.4, **springs)
    return builder.build()


def started(model, integrator, dt, seed=2, **options):
    """Return a simulation of `model` from a random state."""
    q, qd = random_state(np.random.default_rng(seed), model)
    return lj.Simulation(model, lj.Full(integrator=integrator, **options), dt=dt, q=q, qd=qd)
