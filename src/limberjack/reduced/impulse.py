"""Response of trees in reduced coordinates to impulses: the change of velocities, with loops and gears satisfied.

Without gravity and limits accelerations are linear in the forces: qd changes by qdd(J^T p) - qdd(0). Limits that an
impulse drives a joint into stop it in the step that follows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from limberjack.errors import StateError
from limberjack.model.model import Model
from limberjack.reduced.dynamics import forward_kinematics, jacobian
from limberjack.reduced.forces import no_wrenches
from limberjack.spatial.frames import matrix_from_quaternion

__all__ = ["ImpulseResponse"]


class ImpulseResponse:
    """Computes the response of a model to impulses.

    Args:
        model: the model.
        stepper: returns a stepper with `accelerations` for a model without the features named.
        ignored: features left out.
    """

    def __init__(self, model: Model, stepper: Callable[[Model, frozenset[str]], Any], ignored: frozenset[str]) -> None:
        self._model = model
        light = Model(replace(model.spec, gravity=(0.0, 0.0, 0.0)))
        self._stepper = stepper(light, ignored | {"limits", "contacts", "friction", "springs", "motors"})
        self._still = np.zeros(model.nv)

    def change(
        self, q: np.ndarray, link: int, point: np.ndarray, impulse: np.ndarray, angular_impulse: np.ndarray
    ) -> Any:
        """Return the change of qd (nv,) by an impulse at a point of a link's frame, world axes."""
        a = self._model.arrays
        b = int(np.flatnonzero(a.body_link == link)[0])
        positions, turns = forward_kinematics(self._model, q)
        local = a.body_offset[b, :9].reshape(3, 3).T @ (point - a.body_offset[b, 9:])
        where = positions[b] + matrix_from_quaternion(turns[b]) @ local
        rows = jacobian(self._model, q, self._model.body_names[b], where)
        tau = rows[:3].T @ angular_impulse + rows[3:].T @ impulse
        return self._accelerations(q, tau) - self._accelerations(q, self._still)

    def _accelerations(self, q: np.ndarray, tau: np.ndarray) -> np.ndarray:
        forces = SimpleNamespace(tau=tau, drives=self._model.arrays.drives, wrenches=no_wrenches())
        qdd, status = self._stepper.accelerations(q, self._still, forces)
        if status != 0:
            raise StateError("no impulses of the constraints answer this impulse")
        return qdd
