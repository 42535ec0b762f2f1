"""Options of the method `displacements`."""

# Values from users are checked whatever their annotations say.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from limberjack.errors import StateError, UnknownName
from limberjack.methods.stepper import Method
from limberjack.model.model import Model

if TYPE_CHECKING:
    from limberjack.methods.displacements.method import DisplacementsStepper

__all__ = ["MODES", "Displacements"]

MODES = ("conserving", "damped", "kinematic")


@dataclass(frozen=True, kw_only=True)
class Displacements(Method):
    """Bodies move freely, then displacements close the joints: accuracy can be traded for speed at run time.

    Args:
        mode: "conserving": impulses along the rows of the start of the step close the joints at its end (SHAKE, with
            momenta), which conserves momentum exactly and energy over long times; "damped": the paper's step, corrected
            at its end, stable at large steps and dissipative; "kinematic": no forces, bodies follow trackers.
        iterations: maximum of assembly iterations per step; each linearises the joints again.
        solver_iterations: maximum of solver iterations in each.
        tolerance: largest error at which iterations end early [m, rad].
        solver_tolerance: residual of a solve, relative to its start, at which it ends early.
        clamp: largest rotation of a body in one assembly iteration [rad]; 0.8 is the paper's (section 3.4).
        max_ms: time for one step [ms]; iterations are reduced to fit, the remaining error is in `sim.stats`. The counts
            chosen are not reproducible to the bit; `sim.stats["chosen"]` has them.
        weights: relative weights of the errors of joints, by name; 1 for those not named.
    """

    name: ClassVar[str] = "displacements"
    supports: ClassVar[frozenset[str]] = frozenset(
        {"springs", "motors", "loops", "limits", "gears", "velocity", "contacts"}
    )
    verbs: ClassVar[frozenset[str]] = frozenset({"grab", "move", "drive", "attach", "tune", "reactions"})
    registered_kinds: ClassVar[bool] = False

    mode: str = "conserving"
    iterations: int = 2
    solver_iterations: int = 15
    tolerance: float = 1e-10
    solver_tolerance: float = 1e-10
    clamp: float = 0.8
    max_ms: float | None = None
    weights: Mapping[str, float] = field(default_factory=dict[str, float])

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UnknownName("mode", self.mode, 'method "displacements"', MODES)
        for word in ("iterations", "solver_iterations"):
            value = getattr(self, word)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 1 <= value <= 1_000_000:
                raise StateError(f"{word} must be a whole number >= 1, got {value!r}")
        for word in ("tolerance", "solver_tolerance", "clamp"):
            value = getattr(self, word)
            if not (isinstance(value, (int, float)) and 0.0 < value < 1e6):
                raise StateError(f"{word} must be a number > 0, got {value!r}")
        if self.max_ms is not None and not (isinstance(self.max_ms, (int, float)) and 0.0 < self.max_ms < np.inf):
            raise StateError(f"max_ms must be a number > 0 or None, got {self.max_ms!r}")
        for name, value in self.weights.items():
            if not (isinstance(value, (int, float)) and 0.0 < value < np.inf):
                raise StateError(f'weight of joint "{name}" must be a number > 0, got {value!r}')

    def stepper(self, model: Model, ignored: frozenset[str] = frozenset()) -> DisplacementsStepper:
        """Return a stepper for `model`, without its features in `ignored`."""
        from limberjack.methods.displacements.method import DisplacementsStepper

        return DisplacementsStepper(model, self, ignored)
