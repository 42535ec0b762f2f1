"""Options of the method `impulses`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from limberjack.errors import StateError, UnknownName
from limberjack.methods.stepper import Method
from limberjack.model.model import Model

if TYPE_CHECKING:
    from limberjack.methods.impulses.method import ImpulsesStepper

__all__ = ["ACCURACY", "CONTACTS", "GOLDEN", "Impulses", "JOINTS", "JOINT_SWEEP"]

# The numbers are those of `islands.py`.
JOINTS = {"sweeps": 0, "global": 1, "damped": 2}
CONTACTS = ("auto", "soft", "firm", "hard")
GOLDEN = {"never": 0, "fallback": 1, "always": 2}
JOINT_SWEEP = {"none": 0, "kept": 1, "saved": 2}
# Overlap of a pile of ten layers of boxes that each accuracy is for [mm].
ACCURACY = {"game": 2.0, "default": 0.5, "tight": 0.125}
# Piles sink into each other by the square of the substep: at 0.5 mm it is this [s].
_SUBSTEP = 1.0 / 480.0
# Soft contacts have this frequency times the substep, and so many sweeps per substep; two are enough in long ones.
_CYCLES, _SWEEPS, _FEWER = 0.25, 3, 2
# Joints are closed to this [m, rad]; by an accuracy of a millimetre or more to a millimetre, and damped.
_CLOSED, _COARSE = 1e-8, 1e-3


@dataclass(frozen=True, kw_only=True)
class Impulses(Method):
    """Bodies in contact, with friction and joints, moved by impulses.

    Args:
        accuracy: "game", "default", "tight", or about how far bodies in a pile may overlap [mm]. It sets the options
            that are None: substeps, soft_sweeps and frequency; from 1 mm on also joints="damped" and tolerance=1e-3,
            and tolerance for any other number.
        sweeps: most Gauss-Seidel sweeps per substep over the contacts of firm and hard islands, and over joints with
            joints="sweeps"; most rounds over contacts and joints otherwise.
        joints: "global" solves all joints at once and conserves energy; "damped" projects the poses onto them instead,
            which costs less and is stable at any step, but loses energy; "sweeps" takes one after the other, as the
            paper does, and what they leave open at once; with gradual=True long chains stay open. None: "global", or as
            `accuracy` says.
        contacts: "soft" contacts are compliant and are swept a few times per substep, for large piles; "firm" ones are
            four times less compliant and are swept more; "hard" ones are rigid, with shock propagation. "auto" chooses
            for each island: hard for single bodies, columns at rest and where a body carries more than 100 times its
            own mass (50 times where there are few contacts), firm where there are few contacts, else soft.
        shock: most sweeps per level of shock propagation; 0 = none.
        soft_sweeps: sweeps per substep over the contacts of soft islands; one more takes their bias velocity out again.
            None: 3, or 2 from 1 mm on.
        frequency: of soft contacts [Hz]; at most a quarter of the substeps per second is used. None: 120 by default.
        gradual: whether the part of its error that a swept joint loses grows over the sweeps, as in the paper.
        golden: golden section search along the Newton step of a swept joint: "fallback" where its error does not drop,
            "always", "never".
        joint_sweep: a final sweep over joints alone after contacts, with joints="sweeps": "none", "kept", or "saved",
            which restores the velocities before it once the bodies have moved.
        levels: whether contacts and swept joints are solved level by level from the ground up, then by shock
            propagation with infinite mass of lower bodies in contacts only, as in the paper.
        substeps: substeps per step; None takes as many as keep them short enough for `accuracy`, 1/480 s by default.
        events: whether to move from collision to collision, exactly, instead of by steps: for spheres, and boxes that
            do not turn, without joints, friction or resting contact; anything else is refused by name.
        sleeping: whether islands at rest sleep until an awake body comes near.
        tolerance: gap or angle at which joints count as closed [m, rad]; None: 1e-8, or as `accuracy` says.
        resistance: part of load times lever with which bodies in contact resist turning against each other: the
            coefficient of rolling resistance of round shapes, and friction in joints that have none of their own, of
            figures that touch something. 0 = none.
        threads: on which large piles are stepped, with the same result: their contacts, detection of these, and the
            motion of bodies.
    """

    name: ClassVar[str] = "impulses"
    supports: ClassVar[frozenset[str]] = frozenset(
        {"springs", "motors", "loops", "limits", "gears", "velocity", "contacts", "friction"}
    )
    verbs: ClassVar[frozenset[str]] = frozenset(
        {"grab", "move", "drive", "attach", "rules", "impulse", "tune", "reactions"}
    )
    black_boxes: ClassVar[bool] = True

    accuracy: str | float = "default"
    sweeps: int = 20
    joints: str | None = None
    contacts: str = "auto"
    shock: int = 60
    soft_sweeps: int | None = None
    frequency: float | None = None
    gradual: bool = False
    golden: str = "fallback"
    joint_sweep: str = "kept"
    levels: bool = False
    substeps: int | None = None
    events: bool = False
    sleeping: bool = True
    tolerance: float | None = None
    resistance: float = 0.005
    threads: int = 1

    def __post_init__(self) -> None:
        where = 'method "impulses"'
        self._check_accuracy(where)
        words = (("joints", JOINTS), ("contacts", CONTACTS), ("golden", GOLDEN), ("joint_sweep", JOINT_SWEEP))
        for word, choices in words:
            if getattr(self, word) not in choices and not (word == "joints" and self.joints is None):
                raise UnknownName(word, getattr(self, word), where, choices)
        for word, low in (("sweeps", 1), ("shock", 0), ("soft_sweeps", 1), ("substeps", 1), ("threads", 1)):
            value = getattr(self, word)
            if word in ("substeps", "soft_sweeps") and value is None:
                continue
            if not (isinstance(value, int) and not isinstance(value, bool) and low <= value <= 10000):
                raise StateError(f"{word} must be a whole number from {low} to 10000, got {value!r}")
        for word in ("frequency", "tolerance"):
            value = getattr(self, word)
            if value is not None and not (isinstance(value, (int, float)) and 0.0 < value < 1e6):
                raise StateError(f"{word} must be a number > 0, got {value!r}")
        value: Any = self.resistance
        if isinstance(value, bool) or not (isinstance(value, (int, float)) and 0.0 <= value <= 1.0):
            raise StateError(f"resistance must be a number from 0 to 1, got {value!r}")
        for word in ("sleeping", "gradual", "events", "levels"):
            if getattr(self, word) is not True and getattr(self, word) is not False:
                raise StateError(f"{word} must be True or False, got {getattr(self, word)!r}")
        swept = (self.gradual, self.golden, self.joint_sweep, self.levels) != (False, "fallback", "kept", False)
        if swept and self.joints != "sweeps":
            names = "gradual, golden, joint_sweep and levels"
            raise StateError(f'{names} are of joints="sweeps", not of joints="{self.joints or "global"}"')

    def _check_accuracy(self, where: str) -> None:
        value: Any = self.accuracy
        if isinstance(value, str):
            if value not in ACCURACY:
                raise UnknownName("accuracy", value, where, ACCURACY)
        elif isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.001 <= value <= 100.0:
            raise StateError(
                f"accuracy must be {', '.join(ACCURACY)}, or a number from 0.001 to 100 [mm], got {value!r}"
            )

    @property
    def longest_substep(self) -> float:
        """The longest substep that the accuracy allows [s]."""
        return _SUBSTEP * math.sqrt(self._millimetres / ACCURACY["default"])

    @property
    def _millimetres(self) -> float:
        return ACCURACY[self.accuracy] if isinstance(self.accuracy, str) else float(self.accuracy)

    def resolved(self) -> Impulses:
        """Return the same with numbers in place of every None but that of `substeps`."""
        coarse, given = self._millimetres >= 1.0, not isinstance(self.accuracy, str)
        joints = self.joints or ("damped" if coarse else "global")
        tolerance = _COARSE if coarse else min(1e-3 * self._millimetres, _COARSE) if given else _CLOSED
        return replace(
            self,
            joints=joints,
            soft_sweeps=self.soft_sweeps or (_FEWER if coarse else _SWEEPS),
            frequency=self.frequency or _CYCLES / self.longest_substep,
            tolerance=self.tolerance or tolerance,
        )

    def stepper(self, model: Model, ignored: frozenset[str] = frozenset()) -> ImpulsesStepper:
        """Return a stepper for `model`, without its features in `ignored`."""
        from limberjack.methods.impulses.method import ImpulsesStepper

        return ImpulsesStepper(model, self, ignored)
