"""Method `full`: every joint moves; its options, and which stepper serves a model."""

# Values from users are checked whatever their annotations say.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from limberjack.errors import StateError, UnknownName
from limberjack.methods.acceleration_steppers import ConstrainedStepper, ContactStepper, FullStepper
from limberjack.methods.momentum_steppers import INTEGRATORS as VARIATIONAL
from limberjack.methods.momentum_steppers import VariationalContactStepper, VariationalRowStepper, VariationalStepper
from limberjack.methods.stepper import Method, Stepper
from limberjack.model.model import Model
from limberjack.reduced.constraint_set import ConstraintSet, needs_rows
from limberjack.reduced.step import INTEGRATORS

__all__ = ["Full"]


@dataclass(frozen=True, kw_only=True)
class Full(Method):
    """All joints simulated by the articulated-body algorithm.

    Args:
        integrator: "semi_implicit", "euler" (the papers'), "rk4", "implicit", "momentum", "variational" or "projected".
        substeps: integrator steps per simulation step; None takes 2 for the fourth-order ones, which makes their
            error 16 times smaller at twice the cost, and 1 for the others.
        threads: trees that no spring ties together are stepped on up to this many threads, with the same result.
    """

    name: ClassVar[str] = "full"
    supports: ClassVar[frozenset[str]] = frozenset(
        {"armature", "springs", "motors", "loops", "limits", "gears", "velocity", "contacts", "rolling", "friction"}
    )
    verbs: ClassVar[frozenset[str]] = frozenset({"grab", "move", "drive", "attach", "impulse", "tune", "reactions"})

    integrator: str = "variational"
    substeps: int | None = None
    threads: int = 1

    def __post_init__(self) -> None:
        choices = (*INTEGRATORS, *VARIATIONAL)
        if self.integrator not in choices:
            raise UnknownName("integrator", self.integrator, 'method "full"', choices)
        for what, value in (
            ("substeps", 1 if self.substeps is None else self.substeps),
            ("threads", self.threads),
        ):
            if not (isinstance(value, int) and 1 <= value <= 1000):
                raise StateError(f"{what} must be a whole number from 1 to 1000, got {value!r}")
        if self.integrator in VARIATIONAL and self.substeps not in (None, 1):
            raise StateError(f'integrator "{self.integrator}" chooses its substeps itself; substeps must be None or 1')

    def stepper(self, model: Model, ignored: frozenset[str] = frozenset()) -> Stepper:
        """Return a stepper for `model`, without its features in `ignored`."""
        has_contacts = bool({"contacts", "friction"} & model.features().keys() - ignored)
        has_rows = has_contacts or needs_rows(model, ignored)
        if self.integrator in VARIATIONAL:
            if not has_rows:
                return VariationalStepper(model, self.integrator, self.threads, ignored)
            constraint_set = ConstraintSet(model, ignored, implicit=True)
            kind = VariationalContactStepper if has_contacts else VariationalRowStepper
            return kind(model, self.integrator, constraint_set, ignored)
        substeps = self.substeps or (2 if self.integrator in ("rk4", "momentum") else 1)
        # springs alone have a solver of their own, which is implicit across them too
        if not has_rows:
            return FullStepper(model, self.integrator, substeps, self.threads, ignored)
        if self.integrator == "momentum":
            raise StateError(
                'integrator "momentum" keeps the momentum of free trees and knows no loops, limits, gears, contacts or '
                'dry friction; use "rk4"'
            )
        constraint_set = ConstraintSet(model, ignored, implicit=self.integrator == "implicit")
        kind = ContactStepper if has_contacts else ConstrainedStepper
        return kind(model, self.integrator, substeps, constraint_set, ignored=ignored)
