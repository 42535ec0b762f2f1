"""What joints cost: the time of a frame less that of the same bodies, where they are, without their joints."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from limberjack.methods import Impulses
from limberjack.model.model import Model
from limberjack.model.spec import WORLD
from limberjack.simulation import Simulation
from limberjack.spatial.frames import matrix_from_quaternion

__all__ = ["Loose", "loosened"]

# Contacts beyond which the method meets an island softly.
_MANY = 200


def loosened(model: Model) -> Model:
    """Return the bodies of a model without joints, but for what is fixed to the world; joined ones do not collide."""
    spec = model.spec
    held = [joint for joint in spec.joints if joint.kind == "fixed" and joint.parent == WORLD]
    joined = [(j.parent, j.child) for j in spec.joints if WORLD not in (j.parent, j.child)]
    bodies = [replace(body, position=None, rotation=None) for body in spec.bodies]
    return Model(replace(spec, bodies=bodies, joints=held, springs=[], points=[], excluded=[*spec.excluded, *joined]))


class Loose:
    """The bodies of a simulation without their joints, in the simulation `sim` of their own.

    Contacts of all bodies with joints are met together, softly where there are many, else firmly; those of the loose
    bodies are met the same way.

    Args:
        sim: whose bodies.
        method: the method of `sim`.
        dt: its step [s].
    """

    def __init__(self, sim: Simulation, method: Impulses, dt: float) -> None:
        self._joined, self._model, self._method, self._dt = sim, loosened(sim.model), method, dt
        self._made: dict[str, Simulation] = {}
        self.sim = self._simulation()

    def _simulation(self) -> Simulation:
        kind = self._method.contacts
        if kind == "auto":
            kind = "soft" if self._joined.stats.get("contacts", 0) > _MANY else "firm"
        if kind not in self._made:
            self._made[kind] = Simulation(self._model, replace(self._method, contacts=kind), dt=self._dt)
            self._made[kind].step(0)
        return self._made[kind]

    def spend(self, steps: int) -> float:
        """Return the time of some steps of the loose bodies from where those of the simulation are now [s]."""
        self.sim = self._simulation()
        sim, model = self._joined, self._model
        places, rotations, velocities = sim.positions, sim.rotations, sim.velocities
        q, qd = np.array(self.sim.q), np.array(self.sim.qd)
        for i, name in enumerate(sim.model.body_names):
            if model.arrays.body_link[model.body_index(name)] < 0:
                continue
            turn, joint = matrix_from_quaternion(rotations[i]), model.joint(name)
            spin, speed = velocities[i, :3], velocities[i, 3:]
            at, on = joint.q_start, joint.v_start
            q[at : at + 3], q[at + 3 : at + 7] = places[i], rotations[i]
            qd[on : on + 3] = speed - np.cross(spin, turn @ sim.model.body(name).com)
            qd[on + 3 : on + 6] = turn.T @ spin
        self.sim.q, self.sim.qd = q, qd
        begin = time.thread_time()
        self.sim.step(steps)
        return time.thread_time() - begin
