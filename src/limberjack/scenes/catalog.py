"""The registry of scenes: how a scene is declared, found and listed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

from limberjack.errors import ModelError, UnknownName
from limberjack.model import check
from limberjack.model.model import Model

__all__ = ["Camera", "Scene", "SceneInfo", "chosen", "describe", "flag", "get", "get_shown", "names", "scene", "whole"]

_Make = TypeVar("_Make", bound=Callable[..., Model])


class Camera(NamedTuple):
    """Camera position and target, world axes [m]."""

    position: tuple[float, float, float]
    target: tuple[float, float, float]


class SceneInfo(NamedTuple):
    """A row of the list of scenes: its name, one sentence, and its options with their defaults."""

    name: str
    description: str
    options: dict[str, Any]


@dataclass(frozen=True)
class Scene:
    """A model with what is needed to run and to show it.

    Attributes:
        name: the scene's name.
        model: the model.
        method: name of the method that suits it, or a method object.
        dt: time step [s].
        seconds: length of a run [s].
        drive: called with the simulation before its first step and sixty times per simulated second, or None.
        camera: default camera.
        description: one sentence.
    """

    name: str
    model: Model
    method: Any = "full"
    dt: float = 1e-3
    seconds: float = 5.0
    drive: Callable[[Any], None] | None = None
    camera: Camera = Camera((3.0, -3.0, 2.0), (0.0, 0.0, 1.0))
    description: str = ""


class _Entry(NamedTuple):
    make: Callable[..., Model]
    description: str
    options: dict[str, Any]
    stage: Callable[..., dict[str, Any]] | None
    shown: dict[str, Any]


_ENTRIES: dict[str, _Entry] = {}


def scene(
    description: str, stage: Callable[..., dict[str, Any]] | None = None, shown: dict[str, Any] | None = None
) -> Callable[[_Make], _Make]:
    """Register the decorated function, which returns a model and takes its options by name, as a scene.

    Args:
        description: one sentence for lists.
        stage: called with all options by name; returns the fields of `Scene` that differ from their defaults.
        shown: options for the viewer, which runs without end, where they differ from the defaults.
    """

    def register(make: _Make) -> _Make:
        name = make.__name__
        parameters = inspect.signature(make).parameters.values()
        options = {parameter.name: parameter.default for parameter in parameters}
        leading = [parameter.name for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY]

        @functools.wraps(make)
        def checked(*given: Any, **chosen_options: Any) -> Model:
            if len(given) > len(leading):
                raise ModelError(f'scene "{name}" takes options by name, got {given!r}; they are {", ".join(options)}')
            for word, value in zip(leading, given, strict=False):
                if word in chosen_options:
                    raise ModelError(f'scene "{name}": option "{word}" is given twice')
                chosen_options[word] = value
            _check_options(name, chosen_options, options)
            return make(**chosen_options)

        _ENTRIES[name] = _Entry(checked, description, options, stage, shown or {})
        return cast(_Make, checked)

    return register


def names() -> list[str]:
    """Return the names of all scenes, sorted."""
    return sorted(_ENTRIES)


def _entry(name: str) -> _Entry:
    entry = _ENTRIES.get(name)
    if entry is None:
        raise UnknownName("scene", name, "limberjack.scenes", names())
    return entry


def get(name: str, /, **options: Any) -> Scene:
    """Return the scene called `name`, its model built with `options`.

    Args:
        name: one of `names()`.
        options: those of the scene's function; `describe()` lists them with their defaults.
    """
    entry = _entry(name)
    model = entry.make(**options)
    fields = entry.stage(**{**entry.options, **options}) if entry.stage else {}
    return Scene(name, model, description=entry.description, **fields)


def get_shown(name: str, method: Any = None, /, **options: Any) -> Scene:
    """Return a scene as the viewer shows it: figures do not fall through the ground, for example.

    Args:
        name: one of `names()`.
        method: the method to run it with; where it does not support the scene as shown, the scene is that of `get`.
            None = the scene's own.
        options: as of `get`; they override those for the viewer.
    """
    found = get(name, **{**_entry(name).shown, **options})
    if method is None or set(found.model.features()) <= set(method.supports):
        return found
    return get(name, **options)


def describe() -> list[SceneInfo]:
    """Return one row per scene, sorted by name; builds no model."""
    return [SceneInfo(name, _ENTRIES[name].description, dict(_ENTRIES[name].options)) for name in names()]


def whole(value: Any, what: str, low: int) -> int:
    """Return `value` as an int; refuse what is not a whole number or lies below `low`."""
    number = check.number(value, what, low=float(low))
    if number != int(number) or isinstance(value, bool):
        raise ModelError(f"{what} must be a whole number, got {value!r}")
    return int(number)


def flag(value: Any, what: str) -> bool:
    """Return `value` if it is True or False; a text such as "no" would count as true."""
    if value is not True and value is not False:
        raise ModelError(f"{what} must be True or False, got {value!r}")
    return value


def chosen(value: Any, what: str, scene_name: str, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of `choices`, or raise naming them."""
    if value not in choices:
        raise UnknownName(what, value, f'scene "{scene_name}"', choices)
    return value


def _check_options(name: str, given: dict[str, Any], known: dict[str, Any]) -> None:
    for key in given:
        if key not in known:
            raise UnknownName("option", key, f'scene "{name}"', known)
