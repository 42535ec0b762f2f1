"""`forward_dynamics` with everything a model has: the tree's own, or with loops, limits, gears and motors."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from limberjack.errors import StateError
from limberjack.methods import Forces, method_of, require_support
from limberjack.methods.acceleration_steppers import constrained_stepper
from limberjack.model.model import Model
from limberjack.reduced import dynamics
from limberjack.reduced.dynamics import array_of
from limberjack.reduced.forces import Wrenches

__all__ = ["forward_dynamics"]


def forward_dynamics(
    model: Model, q: Any, qd: Any, tau: Any = None, wrenches: Any = None, *, constraints: bool = False
) -> np.ndarray:
    """Return the accelerations qdd (nv,).

    Armature, joint damping and joint stiffness act. Motors, springs between bodies, limits, loops, gears and velocity
    constraints act too with `constraints`: the accelerations a step of `full` begins with.

    Args:
        model: the model.
        q: (nq,) coordinates.
        qd: (nv,) velocities.
        tau: (nv,) joint forces [N m or N]; None = 0.
        wrenches: (body_count, 6) torque about each body's com, then force, world axes; None = 0.
        constraints: whether all the model has acts, or its tree alone.
    """
    if not constraints:
        return dynamics.forward_dynamics(model, q, qd, tau, wrenches)
    q, qd = array_of(q, (model.nq,), "q", model), array_of(qd, (model.nv,), "qd", model)
    tau = np.zeros(model.nv) if tau is None else array_of(tau, (model.nv,), "tau", model)
    forces = Forces(tau, model.arrays.drives, _wrenches(model, wrenches))
    key = "constrained", threading.get_ident()  # a stepper has scratch of its own: one per thread
    stepper = model.workspace.get(key)
    if stepper is None:
        require_support(model, method_of("full"), ())
        stepper = model.workspace[key] = constrained_stepper(model)
    qdd, status = stepper.accelerations(q, qd, forces)
    if status:
        explained = stepper.explain(status, "this state")
        raise StateError("the constraints cannot be met in this state" if explained is None else explained[2])
    return qdd


def _wrenches(model: Model, wrenches: Any) -> Wrenches:
    """Return wrenches about the coms of bodies as the methods take them."""
    if wrenches is None:
        return Wrenches(np.zeros(0, np.int64), np.zeros((0, 9)))
    given = array_of(wrenches, (model.body_count, 6), "wrenches", model)
    a = model.arrays
    on = np.flatnonzero((a.body_link >= 0) & given.any(axis=1))
    turn = a.body_offset[on, :9].reshape(-1, 3, 3)
    points = np.einsum("kij,kj->ki", turn, a.body_com[on]) + a.body_offset[on, 9:]
    return Wrenches(
        np.ascontiguousarray(a.body_link[on]), np.concatenate([points, given[on, 3:], given[on, :3]], axis=1)
    )
