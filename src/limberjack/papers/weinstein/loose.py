"""What joints cost: the time of a frame less that of the same bodies, where they are, without their joints."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from limberjack.model.model import Model
from limberjack.model.spec import WORLD
from limberjack.simulation import Simulation
from limberjack.spatial.frames import matrix_from_quaternion

__all__ = ["Loose", "loosened"]


def loosened(model: Model) -> Model:
    """Return the bodies of a model without joints, but for what is fixed to the world; joined ones do not collide."""
    spec = model.spec
    held = [joint for joint in spec.joints if joint.kind == "fixed" and joint.parent == WORLD]
    joined = [(j.parent, j.child) for j in spec.joints if WORLD not in (j.parent, j.child)]
    bodies = [replace(body, position=None, rotation=None) for body in spec.bodies]
    return Model(replace(spec, bodies=bodies, joints=held, springs=[], points=[], excluded=[*spec.excluded, *joined]))


class Loose:
    """The bodies of a simulation without their joints, in the simulation `sim` of their own.

    Args:
        sim: whose bodies.
        method: the method of `sim`.
        dt: its step [s].
    """

    def __init__(self, sim: Simulation, method: object, dt: float) -> None:
        self._joined, self._model = sim, loosened(sim.model)
        self.sim = Simulation(self._model, method, dt=dt)
        self.sim.step(0)

    def spend(self, steps: int) -> float:
        """Return the time of some steps of the loose bodies from where those of the simulation are now [s]."""
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
