"""Method `divide_and_conquer`: every joint moves, accelerations by the divide and conquer algorithm (`dca.py`).

The reference the adaptive method is measured against: same answers as `full`, about ten times its time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from limberjack._jit import entry, kernel
from limberjack.constraints.row_forces import RowForces, no_row_forces
from limberjack.errors import Status, UnknownName, UnsupportedByMethod
from limberjack.methods.stepper import Forces, Method, Stepper
from limberjack.model.arrays import whole_span
from limberjack.model.model import Model
from limberjack.reduced.assembly_tree import OWN, TAU, new_assembly, new_coefficients
from limberjack.reduced.dca import divide_and_conquer, set_leaves
from limberjack.reduced.drives import drive_forces
from limberjack.reduced.forces import apply_springs, apply_wrenches, new_spring_work
from limberjack.reduced.integrate import explicit_step
from limberjack.reduced.kinematics import kinematics
from limberjack.reduced.step import new_buffers
from limberjack.reduced.work import new_work
from limberjack.spatial.copies import HUGE

__all__ = ["DivideAndConquer"]

INTEGRATORS = ("semi_implicit", "euler")


@dataclass(frozen=True, kw_only=True)
class DivideAndConquer(Method):
    """All joints simulated by divide and conquer.

    Args:
        integrator: "semi_implicit" or "euler" (the paper's).
        levels: merge the assembly tree level by level; parts of one level are independent. Same numbers either way.
    """

    name: ClassVar[str] = "divide_and_conquer"
    supports: ClassVar[frozenset[str]] = frozenset({"armature", "springs", "motors"})
    verbs: ClassVar[frozenset[str]] = frozenset({"reactions"})

    integrator: str = "semi_implicit"
    levels: bool = False

    def __post_init__(self) -> None:
        if self.integrator not in INTEGRATORS:
            raise UnknownName("integrator", str(self.integrator), f'method "{self.name}"', INTEGRATORS)

    def stepper(self, model: Model, ignored: frozenset[str] = frozenset()) -> DivideAndConquerStepper:
        """Return a stepper for `model`."""
        return DivideAndConquerStepper(model, self)


@kernel
def dca_steps(
    # model
    links, drives, springs, tree,
    # in
    span, n, h, euler, applied, wrenches, order, still, co, work, pull, forces, b,
    # out
    q, qd,
):  # fmt: skip
    """Take n steps; return the steps taken and 0, or the code of what failed, see `take_steps`."""
    for step in range(n):
        kinematics(links, span, q, qd, work)
        apply_wrenches(span, wrenches, work.rows)
        drive_forces(drives, links.armature, span, 0.0, q, qd, applied, b.tau, b.added)
        if len(springs.link) > 0:
            apply_springs(links, springs, span, qd, work, pull)
        for v in range(len(qd)):
            co.own[v, TAU], co.own[v, OWN] = b.tau[v], b.added[v]
        status = divide_and_conquer(links, tree, co, order, q, still, work, forces, b.qdd)
        if status == 0:
            for v in range(len(qd) - 1, -1, -1):
                if not abs(qd[v] + h * b.qdd[v]) < HUGE:
                    status = Status.NOT_FINITE + v
        if status != 0:
            return step, status
        explicit_step(links, span, euler, h, b.qdd, q, qd)
    return n, 0


@kernel
def _set_leaves(links, tree, co):
    return set_leaves(links, tree, co.numbers)


class DivideAndConquerStepper(Stepper):
    """The running side of `DivideAndConquer`."""

    def __init__(self, model: Model, options: DivideAndConquer) -> None:
        a = model.arrays
        links, tree = a.links, new_assembly(a.links)
        nb, nv = len(tree.body_link), model.nv
        self._model, self._options, self.assembly = model, options, tree
        self.q, self.qd = model.q0.copy(), model.qd0.copy()
        height = np.zeros(2 * nb, np.int64)
        for node in range(nb, 2 * nb):
            height[node] = 1 + max(height[tree.first[node]] if tree.first[node] >= 0 else 0, height[tree.second[node]])
        inner = np.arange(nb, 2 * nb)
        order = inner[np.argsort(height[nb:], kind="stable")] if options.levels else inner
        self._height = int(height.max(initial=0))
        co = new_coefficients(links, tree, nb)
        bad = _set_leaves(links, tree, co)
        if bad > 0:
            body = model.body_names[int(np.flatnonzero(a.body_link == Status.of(bad)[1])[0])]
            raise UnsupportedByMethod(
                f'method "{options.name}" needs bodies with mass and inertia about every axis; body "{body}" has none '
                "about some. Methods that can: full"
            )
        self._parts = (
            order, np.zeros(nv), co, new_work(links), new_spring_work(links, a.springs), np.zeros((1, 24 * nb + 16)),
            new_buffers(model.nq, nv),
        )  # fmt: skip
        self._span = whole_span(links, a.drives)
        self._call: Any = dca_steps

    def advance(self, n: int, dt: float, forces: Forces, time: float = 0.0) -> tuple[int, int]:
        """Take up to n steps; see `Stepper`."""
        a = self._model.arrays
        out = self._call(
            a.links, forces.drives, a.springs, self.assembly, self._span, n, dt, self._options.integrator == "euler",
            forces.tau, forces.wrenches, *self._parts, self.q, self.qd,
        )  # fmt: skip
        if self._call is dca_steps:
            self._call = entry(dca_steps)
        return out

    def row_forces(self, exerted: np.ndarray, forces: Forces) -> RowForces:
        """Return no forces: a tree has no rows."""
        return no_row_forces()

    def stats(self) -> dict[str, Any]:
        """Return the nodes of the assembly tree visited by a step, and its levels."""
        return {"nodes": 2 * len(self.assembly.body_link), "levels": self._height}
