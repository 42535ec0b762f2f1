"""Keywords of `Builder`: those that a method does not take, or lacks, are refused by name and with the choices.

The methods spell out their keywords, for editors and type checkers. At run time Python would answer a wrong one with a
TypeError that names neither the element of the model nor the choices.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from limberjack.errors import ModelError, UnknownName

__all__ = ["checked_keywords"]

_Class = TypeVar("_Class")

_JOINT = "add_joint_"
_SHAPE = "add_shape_"
_FRAMES = ("position", "rotation", "position_in_child", "rotation_in_child", "axis")
_DOFS = (
    "start", "start_velocity", "limits", "limit_stiffness", "limit_damping", "damping", "stiffness", "rest", "armature",
    "friction", "motor",
)  # fmt: skip


def checked_keywords(builder: type[_Class]) -> type[_Class]:
    """Return the class with every `add_*` method raising `ModelError` for unknown and for missing keywords."""
    for name, method in inspect.getmembers(builder, inspect.isfunction):
        if name.startswith("add_"):
            setattr(builder, name, _checked(builder, name, method))
    return builder


def _checked(builder: type, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    parameters = inspect.signature(method).parameters.values()
    known = frozenset(one.name for one in parameters)
    needed = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY and one.default is one.empty]

    @functools.wraps(method)
    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        if not options.keys() <= known or not all(word in options for word in needed):
            raise _refusal(builder, name, method, (self, *arguments), options)
        return method(self, *arguments, **options)

    return call


def _refusal(
    builder: type, name: str, method: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]
) -> ModelError:
    """Return the error for a call with unknown or missing keywords."""
    signature = inspect.signature(method)
    choices = [one.name for one in signature.parameters.values() if one.kind is one.KEYWORD_ONLY]
    known = {word: value for word, value in options.items() if word in signature.parameters}
    where = _element(name, signature.bind_partial(*arguments, **known).arguments)
    word = next((word for word in options if word not in known), None)
    if word is None:
        missing = [word for word in choices if signature.parameters[word].default is inspect.Parameter.empty]
        return ModelError(f"{where} needs {', '.join(word for word in missing if word not in options)}")
    kinds = [
        other.removeprefix(_JOINT)
        for other, function in inspect.getmembers(builder, inspect.isfunction)
        if other.startswith(_JOINT) and word in inspect.signature(function).parameters
    ]
    if not name.startswith(_JOINT) or not kinds:
        return UnknownName("option", word, where, choices)
    return ModelError(f"{where} has no {word}: {_reason(name.removeprefix(_JOINT), word, kinds)}")


def _element(name: str, given: dict[str, Any]) -> str:
    """Return the words for the element that a method adds: its kind and its name, or its body's."""
    if name.startswith(_SHAPE):
        return f'{name.removeprefix(_SHAPE)} on body "{given.get("body")}"'
    kind = "body" if name.startswith("add_body") else name.removeprefix("add_").replace("_", " ")
    if name == "add_joint":
        kind = f"{given.get('kind')} joint"
    elif name.startswith(_JOINT):
        kind = f"{name.removeprefix(_JOINT)} joint"
    return f'{kind} "{given["name"]}"' if "name" in given else kind


def _reason(kind: str, word: str, kinds: list[str]) -> str:
    """Return why a joint kind does not take an option that other kinds take."""
    if kind == "free" and word in _FRAMES:
        return "its parent is the world; use start=(position, quaternion)"
    if word in _DOFS:
        return "give it on its axes" if kind == "compound" else "it has no dofs"
    return f"only {', '.join(kinds)} joints have"
