"""A compiled loop over forward dynamics: what an evaluation costs when no Python stands between two of them."""

from __future__ import annotations

import numpy as np

from limberjack._jit import kernel
from limberjack.model.arrays import whole_span
from limberjack.model.model import Model
from limberjack.reduced.aba import accelerations
from limberjack.reduced.kinematics import kinematics
from limberjack.reduced.work import new_work

__all__ = ["AccelerationLoop"]


@kernel
def repeat_accelerations(
    # model
    links,
    # in
    span, n, q, qd, tau, work,
    # out
    qdd,
):  # fmt: skip
    """Fill qdd n times over; return the status of the last time."""
    status = 0
    for _ in range(n):
        kinematics(links, span, q, qd, work)
        status = accelerations(links, span, links.armature, tau, work, qdd)
    return status


class AccelerationLoop:
    """Evaluates the accelerations of one state again and again.

    Args:
        model: a tree without drives.
        q: (nq,) coordinates.
        qd: (nv,) velocities.
    """

    def __init__(self, model: Model, q: np.ndarray, qd: np.ndarray) -> None:
        a = model.arrays
        self._links, self._span, self._work = a.links, whole_span(a.links, a.drives), new_work(a.links)
        self._q, self._qd, self._tau = q.copy(), qd.copy(), np.zeros(model.nv)
        self.qdd = np.zeros(model.nv)

    def __call__(self, n: int) -> int:
        """Evaluate n times; the result is in `qdd`."""
        return repeat_accelerations(self._links, self._span, n, self._q, self._qd, self._tau, self._work, self.qdd)
