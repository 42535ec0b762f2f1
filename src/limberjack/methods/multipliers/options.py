"""Options of the method `multipliers`."""

# Values from users are checked whatever their annotations say.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from limberjack.errors import StateError, UnknownName, UnsupportedByMethod
from limberjack.methods.stepper import Method, Stepper
from limberjack.model.model import Model
from limberjack.model.registered import unsymmetric_joints

__all__ = ["COORDINATES", "INTEGRATORS", "Multipliers", "ORDERS", "SOLVERS", "STABILIZATIONS"]

INTEGRATORS = ("euler", "semi_implicit", "rk4", "implicit", "rattle")
STABILIZATIONS = ("project", "baumgarte", "none")
SOLVERS = ("auto", "tree", "sparse", "krylov", "dense")
ORDERS = ("second", "first")
COORDINATES = ("maximal", "reduced")


@dataclass(frozen=True, kw_only=True)
class Multipliers(Method):
    """Every body has its own pose, Lagrange multipliers constrain the joints, at a cost linear in the bodies.

    Args:
        stabilization: "project" brings positions and velocities back onto the constraints after each step,
            "baumgarte" reduces errors by terms in the accelerations, "none" lets them grow.
        integrator: "semi_implicit" (springs, dampers and motors are compliant rows, stable at any stiffness), "euler"
            (the paper's), "rk4", "implicit" (springs, dampers and motors at the end of the step) or "rattle":
            impulses along the constraints at the start of the step close the joints at its end, then velocities are
            projected; second order, conserves momentum exactly and energy over long times, at one factorisation per
            step.
        substeps: integrator steps per simulation step; None takes 2 for rk4 and 1 for the others.
        solver: "tree" eliminates a forest of joints, loops being auxiliary constraints; "sparse" takes loops into one
            block-sparse factorisation, for nets; "auto" picks the tree for few loops. For comparison: "krylov" iterates
            by conjugate residuals, "dense" takes all rows in one matrix.
        order: "second", f = m a; "first", f = m v: bodies move only while forces act, for manipulation.
        coordinates: of the state: "maximal", poses of bodies, or "reduced", q and qd of trees with multipliers inside:
            joints cannot open, and nothing is projected.
        rate: of Baumgarte's terms, by which errors decay [1/s].
        tolerance: error at which the projection and "rattle" end, or earlier when rounding stops them [m, rad]; near
            singular poses errors grow, so that rk4 needs full precision.
    """

    name: ClassVar[str] = "multipliers"
    supports: ClassVar[frozenset[str]] = frozenset(
        {"springs", "motors", "loops", "limits", "gears", "velocity", "bodies", "armature", "contacts"}
    )

    verbs: ClassVar[frozenset[str]] = frozenset({"grab", "move", "drive", "attach", "impulse", "tune", "reactions"})
    # takes constraints whose forces act along other directions than their rows
    unsymmetric: ClassVar[bool] = True

    stabilization: str = "project"
    integrator: str = "semi_implicit"
    substeps: int | None = None
    solver: str = "auto"
    order: str = "second"
    coordinates: str = "maximal"
    rate: float = 20.0
    tolerance: float = 1e-14

    def __post_init__(self) -> None:
        where = 'method "multipliers"'
        for word, choices in (
            ("integrator", INTEGRATORS),
            ("stabilization", STABILIZATIONS),
            ("solver", SOLVERS),
            ("order", ORDERS),
            ("coordinates", COORDINATES),
        ):
            if getattr(self, word) not in choices:
                raise UnknownName(word, getattr(self, word), where, choices)
        if self.substeps is not None and not (isinstance(self.substeps, int) and 1 <= self.substeps <= 1000):
            raise StateError(f"substeps must be a whole number from 1 to 1000, got {self.substeps!r}")
        for word in ("rate", "tolerance"):
            value = getattr(self, word)
            if not (isinstance(value, (int, float)) and 0.0 < value < 1e6):
                raise StateError(f"{word} must be a number > 0, got {value!r}")
        if self.order == "first" and self.integrator not in ("euler", "semi_implicit"):
            raise StateError('order "first" has no accelerations to integrate; use integrator "euler"')

    def stepper(self, model: Model, ignored: frozenset[str] = frozenset()) -> Stepper:
        """Return a stepper for `model`, without its features in `ignored`."""
        if self.coordinates == "reduced":
            from limberjack.methods.multipliers.reduced_coordinates import ReducedStepper

            return ReducedStepper(model, self, ignored)
        has_contacts = "contacts" in model.features() and "contacts" not in ignored
        unsymmetric_rows = [] if "loops" in ignored else unsymmetric_joints(model.spec)
        if unsymmetric_rows:
            from limberjack.methods.multipliers.unsymmetric_rows import UnsymmetricStepper

            if has_contacts:
                raise UnsupportedByMethod(
                    f'constraint "{unsymmetric_rows[0].name}" has forces along other directions than its rows, which '
                    'exclude contacts; to run without: ignore="contacts"'
                )
            return UnsymmetricStepper(model, self, ignored)
        if self.solver in ("krylov", "dense"):
            from limberjack.methods.multipliers.alternatives import AlternativeStepper

            if has_contacts:
                raise UnsupportedByMethod(f'solver "{self.solver}" knows no contacts; use solver "tree"')
            return AlternativeStepper(model, self, ignored)
        if has_contacts:
            from limberjack.methods.multipliers.contacts import ContactStepper

            return ContactStepper(model, self, ignored)
        from limberjack.methods.multipliers.method import MultipliersStepper

        return MultipliersStepper(model, self, ignored)
