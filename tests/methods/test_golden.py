"""The same bits on every machine: hashes of known runs, kept in the repository."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

import limberjack as lj

# No fused multiply-add, no libm, no reordered sums: these hold on any x86-64 and any number of threads. A change of a
# kernel's order of operations changes them on purpose, and only then.
GOLDEN = {
    "semi_implicit": "8f14f639bcd939b90a219fae",
    "implicit": "168dd16472953ea826175e64",
    "rk4": "f934edfd7ea66fe4942db16c",
    "momentum": "7025d376b395a96e04adebfa",
}


def figure() -> lj.Model:
    """Return a floating tree of every kind of joint, built from plain numbers only."""
    builder = lj.Builder("golden", gravity=(0.25, 0.0, -9.75))
    kinds = ("hinge", "ball", "slide", "universal", "cylindrical", "planar", "screw", "point_on_line", "hinge", "hinge")
    builder.add_body("b0", mass=2.0, com=(0.125, 0.0, 0.25), inertia=(0.5, 0.375, 0.25), position=(0.0, 0.0, 1.0))
    for k, kind in enumerate(kinds, start=1):
        builder.add_body(f"b{k}", mass=1.0 + 0.125 * k, com=(0.0, 0.0625 * k, -0.25), inertia=(0.25, 0.1875, 0.125))
        extra = {"screw": {"pitch": 0.125}}.get(kind, {})
        builder.add_joint(
            kind, f"j{k}", f"b{(k - 1) // 2}", f"b{k}", position=(0.25, -0.125 * k, -0.5), damping=0.125, **extra
        )
    builder.add_spring("b3", "b7", stiffness=20.0, damping=0.5, rest=0.5)
    return builder.build()


@pytest.mark.parametrize("integrator", GOLDEN)
def test_known_runs_end_in_known_bits(integrator):
    """300 steps of a tree with every kind of joint end in the state whose hash is kept here."""
    model = figure()
    sim = lj.Simulation(model, lj.Full(integrator=integrator), dt=2.0**-10, qd=np.linspace(-0.5, 0.5, model.nv))
    sim.step(300)
    assert hashlib.sha256(sim.q.tobytes() + sim.qd.tobytes()).hexdigest()[:24] == GOLDEN[integrator]
