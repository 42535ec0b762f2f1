"""Methods: how a model is moved. Each is a frozen dataclass of options that makes a `Stepper` for one simulation.

A method states what it can honour in `supports`; a model that has more is refused by name (`require_support`), and
`capabilities()` is the matrix of all methods, generated from those sets.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from limberjack.errors import StateError, UnknownName, UnsupportedByMethod
from limberjack.model.model import Model
from limberjack.model.registered import refuse_black_boxes, refuse_unsymmetric

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
    "Adaptive",
    "Displacements",
    "DivideAndConquer",
    "Full",
    "Impulses",
    "Method",
    "Multipliers",
    "Stepper",
    "capabilities",
    "method_of",
    "require_support",
]

FEATURES = {
    "loops": "loop joints and distance joints",
    "limits": "hard joint limits",
    "gears": "gears and mimic joints",
    "contacts": "shapes that can touch",
    "friction": "dry friction in joints",
    "armature": "rotor inertia of joints",
    "springs": "springs between bodies",
    "motors": "PD motors",
    "velocity": "velocity constraints (no slip)",
    "bodies": "bodies that are not rigid",
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


class Stepper(Protocol):
    """The running side of a method: owns the state and advances it.

    Attributes:
        q: (nq,) coordinates, writable by the simulation between calls.
        qd: (nv,) velocities.
    """

    q: np.ndarray
    qd: np.ndarray

    def advance(self, n: int, dt: float, forces: Any, time: float = 0.0) -> tuple[int, int]:
        """Take up to n steps from `time` on in one compiled call; return the steps taken and 0 or a code of failure."""
        ...

    def active_links(self) -> np.ndarray:
        """Return, per link, whether its joint is simulated now."""
        ...

    def changed(self) -> None:
        """Take note that q, qd or a force was set from outside."""
        ...

    def memory(self) -> dict[str, np.ndarray]:
        """Return every array beside q and qd that feeds the next step, for snapshots."""
        ...

    def remember(self, memory: dict[str, np.ndarray]) -> None:
        """Take back what `memory` gave."""
        ...

    def stats(self) -> dict[str, Any]:
        """Return what the last step did."""
        ...


@runtime_checkable
class Method(Protocol):
    """A method and its options."""

    name: ClassVar[str]
    supports: ClassVar[frozenset[str]]

    def stepper(self, model: Model, ignored: frozenset[str] = frozenset()) -> Stepper:
        """Return a stepper for `model`, without its features in `ignored`."""
        ...


def _load(name: str) -> Any:
    module, attribute = METHODS[name].split(":")
    return getattr(importlib.import_module(module), attribute)


def __getattr__(name: str) -> Any:
    for known, target in METHODS.items():
        if target.endswith(f":{name}"):
            return _load(known)
    raise AttributeError(f'module "limberjack.methods" has no "{name}"')


def method_of(method: Any) -> Any:
    """Return the method object for a name or a method."""
    if isinstance(method, str):
        if method not in METHODS:
            raise UnknownName("method", method, "Limberjack", METHODS)
        return _load(method)()
    if not isinstance(method, Method) or isinstance(method, type):
        raise StateError(
            f"method must be a name ({', '.join(METHODS)}) or a method object like lj.Full(), got {method!r}"
        )
    return method


def capabilities() -> dict[str, dict[str, bool]]:
    """Return {method: {feature: whether it is honoured}} for all methods."""
    return {name: {feature: feature in _load(name).supports for feature in FEATURES} for name in METHODS}


def require_support(model: Model, method: Any, ignore: Iterable[str]) -> None:
    """Raise `UnsupportedByMethod` when the model has what the method cannot honour and the user did not ignore."""
    ignored = {ignore} if isinstance(ignore, str) else set(ignore)
    for word in ignored:
        if word not in FEATURES:
            raise UnknownName("feature", word, "Limberjack", FEATURES)
    found = model.features()
    missing = [word for word in found if word not in method.supports and word not in ignored]
    if missing:
        text = "; ".join(f"{FEATURES[word]} ({word}: {found[word]})" for word in missing)
        able = {word: [name for name, row in capabilities().items() if row[word]] for word in missing}
        other = ", ".join(f"{word}: {' '.join(names) or 'none yet'}" for word, names in able.items())
        raise UnsupportedByMethod(
            f'method "{method.name}" cannot honour what model "{model.name}" has: {text}. '
            f"Methods that can: {other}. To run without: ignore={tuple(missing)}"
        )
    if not getattr(method, "projects", False):
        refuse_black_boxes(model.spec, method.name)
    if not getattr(method, "slants", False):
        refuse_unsymmetric(model.spec, method.name)
