"""Methods: how a model is moved. Each is a frozen dataclass of options that makes a `Stepper` for one simulation.

A method states in `supports` which features of models it takes and in `verbs` what a simulation can do with it; a model
that has more is refused by name (`require_support`), and `capabilities()` is the matrix of all methods, generated from
those sets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from limberjack.errors import StateError, UnknownName
from limberjack.methods.capabilities import (
    FEATURES,
    METHODS,
    VERBS,
    capabilities,
    load_method,
    require_support,
    require_verb,
)
from limberjack.methods.stepper import Forces, Method, Stepper

if TYPE_CHECKING:
    from limberjack.methods.adaptive.options import Adaptive
    from limberjack.methods.displacements.options import Displacements
    from limberjack.methods.divide_and_conquer import DivideAndConquer
    from limberjack.methods.full import Full
    from limberjack.methods.impulses.options import Impulses
    from limberjack.methods.multipliers.options import Multipliers

__all__ = [
    "FEATURES",
    "METHODS",
    "VERBS",
    "Adaptive",
    "Displacements",
    "DivideAndConquer",
    "Forces",
    "Full",
    "Impulses",
    "Method",
    "Multipliers",
    "Stepper",
    "capabilities",
    "method_of",
    "require_support",
    "require_verb",
]


def __getattr__(name: str) -> Any:
    for known, target in METHODS.items():
        if target.endswith(f":{name}"):
            return load_method(known)
    raise AttributeError(f'module "limberjack.methods" has no "{name}"')


def method_of(method: Any) -> Any:
    """Return the method object for a name or a method."""
    if isinstance(method, str):
        if method not in METHODS:
            raise UnknownName("method", method, "Limberjack", METHODS)
        return load_method(method)()
    if not isinstance(method, Method):
        raise StateError(
            f"method must be a name ({', '.join(METHODS)}) or a method object like lj.Full(), got {method!r}"
        )
    return method
