"""A method of your own: options that say what it can do, and a stepper that owns the state and advances it."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import limberjack as lj
from limberjack.errors import Status
from limberjack.methods import Method, Stepper


@dataclass(frozen=True, kw_only=True)
class Leapfrog(Method):
    """Symplectic Euler on trees of hinges and slides, with drag on every joint.

    Args:
        drag: part of the velocity lost per second [1/s].
    """

    name: ClassVar[str] = "leapfrog"
    supports: ClassVar[frozenset[str]] = frozenset({"armature"})  # a model with loops, motors ... is refused
    verbs: ClassVar[frozenset[str]] = frozenset({"tune"})  # sim.grab, sim.move ... are refused

    drag: float = 0.0

    def stepper(self, model, ignored=frozenset()):
        """Return the running side for one simulation."""
        return LeapfrogStepper(model, self)


class LeapfrogStepper(Stepper):
    """q, qd and `advance` are enough; everything else of `Stepper` has a default."""

    def __init__(self, model, options):
        if model.nq != model.nv:
            raise lj.UnsupportedByMethod(f'method "leapfrog" has no quaternions; model "{model.name}" has balls')
        self.model, self.options = model, options
        self.q, self.qd = model.q0.copy(), model.qd0.copy()

    def advance(self, n, dt, forces, time=0.0):
        """Take up to n steps; return the steps taken and a status, 0 = all is well."""
        if len(forces.wrenches.link):
            raise lj.UnsupportedByMethod('method "leapfrog" takes joint forces only, no wrenches')
        for step in range(n):
            qdd = lj.forward_dynamics(self.model, self.q, self.qd, forces.tau)
            qd = (self.qd + dt * qdd) * math.exp(-self.options.drag * dt)
            bad = np.flatnonzero(~(np.abs(qd) < 1e9))
            if bad.size:
                return step, Status.NOT_FINITE + int(bad[0])  # the simulation names the joint
            self.qd[:] = qd
            self.q += dt * self.qd
        return n, Status.OK

    def tune(self, options):
        """The verb that `verbs` promises."""
        self.options = options


model = lj.scenes.pendulum(links=3)
sim = lj.Simulation(model, Leapfrog(), dt=1e-3)
start = sim.energy().total
sim.run(1.0)
energy = sim.energy()
print(f"without drag {energy.total - start:+.3f} J of {energy.kinetic:.1f} J after {sim.time:.1f} s")
assert abs(energy.total - start) < 0.01 * energy.kinetic

# The same numbers as method "full" with the same integrator, rounding aside.
other = lj.Simulation(model, lj.Full(integrator="semi_implicit"), dt=1e-3)
other.step(1000)
assert np.abs(sim.q - other.q).max() < 1e-6

sim.tune(drag=2.0)
sim.run(10.0)
print(f"with drag at rest: |qd| = {np.abs(sim.qd).max():.1e} rad/s")
assert np.abs(sim.qd).max() < 1e-2

# What the method did not declare is refused, with the methods that can.
try:
    sim.grab(model.body_names[-1])
except lj.UnsupportedByMethod as error:
    print(error)
else:
    raise AssertionError("the grip should have been refused")
