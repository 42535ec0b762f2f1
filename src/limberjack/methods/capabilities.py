"""What each method can do: the features of models it simulates and the verbs of `Simulation` it implements.

Methods declare both (`Method.supports`, `Method.verbs`); the table, the refusals and the page of the documentation
follow from the declarations.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from limberjack.errors import UnknownName, UnsupportedByMethod
from limberjack.model.model import Model
from limberjack.model.registered import RegisteredConstraint, black_box_joints, registered_joints, unsymmetric_joints

if TYPE_CHECKING:
    from limberjack.methods.stepper import Method

__all__ = ["FEATURES", "METHODS", "VERBS", "capabilities", "load_method", "refusal", "require_support", "require_verb"]

FEATURES = {
    "loops": "loop joints and distance joints",
    "limits": "hard joint limits",
    "gears": "gears and mimic joints",
    "contacts": "shapes that can touch",
    "rolling": "torsional and rolling friction of contacts",
    "friction": "dry friction in joints",
    "armature": "rotor inertia of joints",
    "springs": "springs between bodies",
    "motors": "PD motors",
    "velocity": "velocity constraints (no slip)",
    "bodies": "bodies that are not rigid",
}

VERBS = {
    "grab": "pull a point of a body to a position by a grip",
    "move": "prescribe the pose of a body",
    "drive": "prescribe the rate of a joint coordinate",
    "attach": "make and remove joints while running",
    "rules": "attach and detach joints by rules of proximity",
    "impulse": "apply an impulse to a body",
    "tune": "change options of the method while running",
    "reactions": "read the forces of joints, limits and constraints",
}

# Names of methods and where they live; loaded on first use.
METHODS = {
    "full": "limberjack.methods.full:Full",
    "divide_and_conquer": "limberjack.methods.divide_and_conquer:DivideAndConquer",
    "adaptive": "limberjack.methods.adaptive.options:Adaptive",
    "multipliers": "limberjack.methods.multipliers.options:Multipliers",
    "displacements": "limberjack.methods.displacements.options:Displacements",
    "impulses": "limberjack.methods.impulses.options:Impulses",
}


def load_method(name: str) -> type[Method]:
    """Return the class of the method named."""
    module, attribute = METHODS[name].split(":")
    return getattr(importlib.import_module(module), attribute)


def capabilities() -> dict[str, dict[str, bool]]:
    """Return {method: {word: whether it can}} for all methods, features of models first, then verbs of simulations."""
    out: dict[str, dict[str, bool]] = {}
    for name in METHODS:
        method = load_method(name)
        out[name] = {word: word in method.supports for word in FEATURES} | {
            word: word in method.verbs for word in VERBS
        }
    return out


def _able(word: str) -> list[str]:
    return [name for name, row in capabilities().items() if row[word]]


def refusal(who: str, verb: str) -> UnsupportedByMethod:
    """Return the error of a verb that `who` does not implement; it names the methods that do."""
    return UnsupportedByMethod(f'{who} cannot {VERBS[verb]} ("{verb}"). Methods that can: {", ".join(_able(verb))}')


def require_verb(method: Method, verb: str) -> None:
    """Raise `UnsupportedByMethod` when the method does not declare the verb."""
    if verb not in method.verbs:
        raise refusal(f'method "{method.name}"', verb)


def require_support(model: Model, method: Method, ignore: Iterable[str]) -> None:
    """Raise `UnsupportedByMethod` when the model has what the method does not support and the user did not ignore."""
    ignored = {ignore} if isinstance(ignore, str) else set(ignore)
    for word in ignored:
        if word not in FEATURES:
            raise UnknownName("feature", word, "Limberjack", FEATURES)
    found = model.features()
    missing = [word for word in found if word not in method.supports and word not in ignored]
    if missing:
        text = "; ".join(f"{FEATURES[word]} ({word}: {found[word]})" for word in missing)
        other = ", ".join(f"{word}: {' '.join(_able(word))}" for word in missing)
        raise UnsupportedByMethod(
            f'method "{method.name}" does not support what model "{model.name}" has: {text}. '
            f"Methods that can: {other}. To run without: ignore={tuple(missing)}"
        )
    if not method.black_boxes:
        _refuse("black_boxes", "joints registered by a projection", black_box_joints(model.spec), method)
    if not method.unsymmetric:
        _refuse("unsymmetric", "forces along other directions than rows", unsymmetric_joints(model.spec), method)
    # without loops registered constraints are left out, or refused above
    if not method.registered_kinds and "loops" in method.supports:
        _refuse("registered_kinds", "constraints of registered kinds", registered_joints(model.spec), method)


def _refuse(flag: str, what: str, joints: list[RegisteredConstraint], method: Method) -> None:
    """Raise for the first of `joints`, naming the methods that declare the flag."""
    for joint in joints:
        declared = [load_method(name) for name in METHODS]
        able = [other.name for other in declared if getattr(other, flag) and "loops" in other.supports]
        raise UnsupportedByMethod(
            f'method "{method.name}" does not support {what}: joint "{joint.name}" is of kind "{joint.kind}". '
            f"Methods that can: {', '.join(able)}"
        )
