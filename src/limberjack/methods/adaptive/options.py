"""The options of method `adaptive`: what a user sets, checked."""

# Values from users are checked whatever their annotations say.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from limberjack.errors import StateError, UnknownName
from limberjack.methods.stepper import Method
from limberjack.model.model import Model

if TYPE_CHECKING:
    from limberjack.methods.adaptive.method import AdaptiveStepper

__all__ = ["Adaptive", "View", "number", "whole"]


def number(value: Any, what: str, low: float = 0.0) -> None:
    """Raise StateError unless `value` is a finite number >= `low`."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise StateError(f"{what} must be a number, got {value!r}")
    given = float(value)  # pyright: ignore[reportUnknownArgumentType]
    if not (math.isfinite(given) and given >= low):
        raise StateError(f"{what} must be a finite number >= {low:g}, got {value!r}")


def whole(value: Any, what: str, low: int) -> None:
    """Raise StateError unless `value` is an integer >= `low`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < low:
        raise StateError(f"{what} must be a whole number >= {low}, got {value!r}")


@dataclass(frozen=True, kw_only=True)
class View:
    """A camera: metrics are measured in pixels of its picture.

    What rigid joints have missed since they became rigid, and will have missed a horizon from now, stays below
    `tolerance` pixels.

    Args:
        position: (3,) of the camera [m].
        target: (3,) point it looks at [m].
        pixels: height of the picture [pixels].
        angle: opening of the picture, from bottom to top [rad].
        tolerance: displacement that may be neglected [pixels].
    """

    position: tuple[float, float, float]
    target: tuple[float, float, float] = (0.0, 0.0, 0.0)
    pixels: int = 1080
    angle: float = 0.8
    tolerance: float = 1.0

    def __post_init__(self) -> None:
        for what in ("position", "target"):
            value = getattr(self, what)
            try:
                point = tuple(float(x) for x in value)
            except (TypeError, ValueError):
                raise StateError(f"{what} of the view must be 3 numbers, got {value!r}") from None
            if len(point) != 3 or not all(map(math.isfinite, point)):
                raise StateError(f"{what} of the view must be 3 finite numbers, got {value!r}")
            object.__setattr__(self, what, point)
        if self.position == self.target:
            raise StateError(f"the view looks from {self.position} at the same point; move one of them")
        whole(self.pixels, "pixels of the view", 1)
        number(self.tolerance, "tolerance of the view")
        number(self.angle, "angle of the view")
        if not 0.0 < self.angle < math.pi:
            raise StateError(f"angle of the view must be between 0 and pi, got {self.angle!r}")
        if self.tolerance == 0.0:
            raise StateError("tolerance of the view must be > 0 pixels, got 0")


METRICS = ("joints", "mass")
TREES = ("balanced", "masses", "forces")
INTEGRATORS = ("semi_implicit", "euler", "implicit", "rk4", "variational", "projected")

# Seconds over which missed motion is judged: longer than an update period, so that joints do not change at every
# update, and about the time in which figures of human size fall or swing.
HORIZON = 0.5

Weight = float | np.ndarray | Sequence[Sequence[float]] | Callable[[Any], Any]


@dataclass(frozen=True, kw_only=True)
class Adaptive(Method):
    """Simulate as many joints as asked for, chosen again every few steps; the others are rigid.

    With neither `budget` nor `tolerance` nor `view`, a fifth of the joints is simulated.

    Args:
        budget: how many joints are simulated at a time, over all trees of the model or one number per tree;
            free joints to the world are always simulated and not counted. None = no limit but the tolerance.
        tolerance: the choice ends when the sum of squared accelerations left out (in the metric) is below this. With a
            horizon H it also bounds what rigid joints miss over time: the displacement they would have made since
            they became rigid stays below sqrt(tolerance) H^2 / 2.
        velocity_tolerance: the same for the squared velocities that are stopped; None takes tolerance * H^2 / 64, and
            without a horizon tolerance * period^2, with the period between two choices.
        update_every: steps between two choices; the paper takes 20.
        update_budget: how many joints each choice looks at for their acceleration. None = the budget; with a horizon
            and a budget alone, a quarter of it, five or more, and what it has room for.
        metric: "mass" takes the distance, in the norm of the inertias, of the bodies' accelerations from those of a
            rigid body: nothing to tune, no mix of units; "joints", the paper's, weighs the accelerations of joints with
            `weights`.
        horizon: how far ahead the motion that rigid joints miss is judged, with all they have missed since they became
            rigid [s]; 0 judges accelerations and velocities of this instant alone, as the paper. None is 0.5 s, but 0
            for metric="joints" without a view.
        weights: of the joints' accelerations: a number for all, or {joint: number, matrix or function of its q}.
        velocity_weights: likewise of the velocities; None = `weights`.
        view: a camera; motions of joints are then measured in squared pixels, whatever the metric, and without a
            tolerance the view's decides. What lies outside the picture does not count.
        error_bounded: no joint is stopped while it moves, so that the acceleration left out at each choice is at most
            `tolerance`, exactly; the number of joints may grow to all.
        dt: "fixed", or "auto": one tolerance for joints and time. Each step of the simulation's dt is then taken in as
            many substeps as the error in time of the figure asks for, by the same measure as that of the joints left
            out; half of the error may come from either. Needs a tolerance, metric="mass" and the variational step.
        milliseconds: the time a step may take on average [ms]; the tolerance is widened while steps take longer, and
            narrowed again to what was asked for. Results then depend on the machine. Needs dt="auto".
        tree: what the assembly tree is balanced by: "balanced", the number of bodies, as in the paper; "masses", the
            fourth root of the mass that joints move, so that hips are nearer to its root than toes; "forces", the
            number of bodies, but with `force_bodies` and ends of springs near the root, where forces cost less and
            joints become active sooner. Or a function of the model that returns names of joints in the order the tree
            is cut at.
        force_bodies: names of bodies for tree="forces".
        integrator: "semi_implicit", "euler" (the paper's), "implicit", "rk4", "variational" or "projected".
        threads: where trees are updated in turns (eight and more that nothing ties together), they are updated and
            stepped on up to this many threads, with the same result.
        sleeping: whether figures in contact with something that lie still sleep until something changes or comes near;
            False: they are stepped, but not updated.
    """

    name: ClassVar[str] = "adaptive"
    supports: ClassVar[frozenset[str]] = frozenset(
        {"armature", "springs", "motors", "loops", "limits", "gears", "velocity", "contacts", "rolling", "friction"}
    )
    verbs: ClassVar[frozenset[str]] = frozenset({"grab", "move", "drive", "attach", "impulse", "tune", "reactions"})

    budget: int | Sequence[int] | None = None
    tolerance: float | None = None
    velocity_tolerance: float | None = None
    update_every: int = 20
    update_budget: int | None = None
    metric: str = "mass"
    horizon: float | None = None
    weights: float | Mapping[str, Weight] = 1.0
    velocity_weights: float | Mapping[str, Weight] | None = None
    view: View | None = None
    error_bounded: bool = False
    dt: str = "fixed"
    milliseconds: float | None = None
    tree: str | Callable[[Model], Sequence[str]] = "balanced"
    force_bodies: Sequence[str] = ()
    integrator: str = "variational"
    threads: int = 1
    sleeping: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.budget, str) or (self.budget is not None and np.ndim(self.budget) > 1):
            raise StateError(f"budget must be a whole number, one per figure, or None, got {self.budget!r}")
        if self.budget is not None and np.ndim(self.budget) == 1:
            budgets: Any = self.budget
            for value in budgets:
                whole(value, "each budget", 0)
            object.__setattr__(self, "budget", tuple(int(value) for value in budgets))
        elif self.budget is not None:
            whole(self.budget, "budget", 0)
        for what in ("tolerance", "velocity_tolerance", "horizon"):
            if getattr(self, what) is not None:
                number(getattr(self, what), what)
        whole(self.update_every, "update_every", 1)
        whole(self.threads, "threads", 1)
        if self.update_budget is not None:
            whole(self.update_budget, "update_budget", 0)
        for what, value, choices in (("metric", self.metric, METRICS), ("integrator", self.integrator, INTEGRATORS)):
            if value not in choices:
                raise UnknownName(what, str(value), 'method "adaptive"', choices)
        if not callable(self.tree) and self.tree not in TREES:
            raise UnknownName("tree", str(self.tree), 'method "adaptive"', (*TREES, "a function"))
        if self.sleeping is not True and self.sleeping is not False:
            raise StateError(f"sleeping must be True or False, got {self.sleeping!r}")
        if self.view is not None and not isinstance(self.view, View):
            raise StateError(f"view must be a lj.View, got {self.view!r}")
        if self.error_bounded and self.tolerance is None:
            raise StateError("error_bounded=True needs a tolerance: the error to stay below")
        if self.dt not in ("fixed", "auto"):
            raise UnknownName("dt", str(self.dt), 'method "adaptive"', ("fixed", "auto"))
        if self.dt == "auto" and not (self.tolerance and self.by_mass and self.integrator == "variational"):
            raise StateError(
                'dt="auto" needs a tolerance > 0, metric="mass" without a view and integrator="variational", got '
                f"tolerance={self.tolerance!r}, metric={self.metric!r}, view={self.view!r} and "
                f"integrator={self.integrator!r}"
            )
        if self.milliseconds is not None:
            number(self.milliseconds, "milliseconds")
            if self.dt != "auto" or self.milliseconds == 0:
                raise StateError(
                    f'milliseconds must be > 0 and needs dt="auto", got {self.milliseconds!r} and dt={self.dt!r}'
                )

    @property
    def by_mass(self) -> bool:
        """Whether bodies are measured by their masses: a view measures joints."""
        return self.metric == "mass" and self.view is None

    @property
    def joint_tolerance(self) -> float | None:
        """The tolerance of joints left out: with dt="auto" half of the error may come from time, a quarter squared."""
        return self.tolerance / 4.0 if self.tolerance is not None and self.dt == "auto" else self.tolerance

    @property
    def horizon_used(self) -> float:
        """How far ahead motion is judged [s]."""
        if self.horizon is not None:
            return float(self.horizon)
        return HORIZON if self.by_mass or self.view is not None else 0.0

    def stepper(self, model: Model, ignored: frozenset[str] = frozenset()) -> AdaptiveStepper:
        """Return a stepper for `model`, without its features in `ignored`."""
        from limberjack.methods.adaptive.contacts import ContactAdaptiveStepper
        from limberjack.methods.adaptive.method import AdaptiveStepper
        from limberjack.methods.adaptive.rows import ConstrainedAdaptiveStepper
        from limberjack.reduced.constraint_set import ConstraintSet, needs_rows

        has_contacts = {"contacts", "friction"} & model.features().keys() - ignored
        # springs alone have a solver of their own, which is implicit across them too
        if not has_contacts and not needs_rows(model, ignored):
            return AdaptiveStepper(model, self, ignored)
        implicit = self.integrator in ("implicit", "variational", "projected")
        constraint_set = ConstraintSet(model, ignored, implicit=implicit)
        if has_contacts:
            return ContactAdaptiveStepper(model, self, constraint_set, ignored)
        return ConstrainedAdaptiveStepper(model, self, constraint_set)
