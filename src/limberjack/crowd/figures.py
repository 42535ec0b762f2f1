"""One model of many figures, and where each of them is in its arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from limberjack.errors import ModelError
from limberjack.model.merging import append, placed
from limberjack.model.model import Model
from limberjack.model.spec import IDENTITY, WORLD, Shape, Spec

__all__ = ["Figures", "grid", "together"]


@dataclass(frozen=True)
class Figures:
    """A model of many figures.

    Attributes:
        model: the model of all.
        models: the model of each figure.
        prefixes: of the names of each.
        q, v, control, bodies: the slices of each in coordinates, dofs, controls and bodies.
    """

    model: Model
    models: tuple[Model, ...]
    prefixes: tuple[str, ...]
    q: tuple[slice, ...]
    v: tuple[slice, ...]
    control: tuple[slice, ...]
    bodies: tuple[slice, ...]

    @property
    def alike(self) -> bool:
        """Whether all figures are of one model."""
        return all(model is self.models[0] for model in self.models)


def grid(count: int, spacing: float) -> np.ndarray:
    """Return (count, 3) positions of a square grid on the ground about the origin [m]."""
    columns = math.ceil(math.sqrt(count))
    i = np.arange(count)
    across, along = i % columns - 0.5 * (columns - 1), i // columns - 0.5 * (math.ceil(count / columns) - 1)
    return spacing * np.stack([along, across, np.zeros(count)], axis=1)


def together(models: Sequence[Model], positions: np.ndarray, name: str) -> Figures:
    """Return one model of all figures, each at its position; planes, which have no end, are there once.

    Args:
        models: of each figure.
        positions: (figures, 3) where the origin of its world comes to be [m].
        name: of the model of all.
    """
    first = models[0]
    whole = Spec(name, first.spec.gravity, first.spec.merge_fixed)
    digits = max(3, len(str(len(models) - 1)))
    prefixes = tuple(f"f{i:0{digits}d}/" for i in range(len(models)))
    groups, grounds = 0, list[Shape]()
    for model, position, prefix in zip(models, positions, prefixes, strict=True):
        if model.spec.gravity != whole.gravity:
            raise ModelError(
                f'gravity of model "{model.name}" is {model.spec.gravity}, of "{first.name}" {whole.gravity}'
            )
        own = model.spec.copy()
        endless = [shape for shape in own.shapes if shape.body == WORLD and shape.kind == "plane"]
        own.shapes = [shape for shape in own.shapes if shape not in endless]
        grounds += [shape for shape in endless if _unknown(shape, grounds)]
        append(whole, placed(own, prefix, tuple(position.tolist()), IDENTITY, first_group=groups))
        groups = max((shape.group for shape in whole.shapes[-len(own.shapes) :]), default=groups)
    whole.shapes += grounds
    return _found(Model(whole), tuple(models), prefixes)


def _unknown(shape: Shape, known: list[Shape]) -> bool:
    words = [item.name for item in fields(Shape) if item.name != "name"]
    return not any(all(getattr(shape, word) == getattr(other, word) for word in words) for other in known)


def _found(model: Model, models: tuple[Model, ...], prefixes: tuple[str, ...]) -> Figures:
    """Return where each figure is: figures are trees of their own, and trees are contiguous."""
    starts: dict[str, list[int]] = {"q": [0], "v": [0], "control": [0], "bodies": [0]}
    for one in models:
        for word, size in (("q", one.nq), ("v", one.nv), ("control", len(one.actuators)), ("bodies", one.body_count)):
            starts[word].append(starts[word][-1] + size)
    at: dict[str, Any] = {word: tuple(map(slice, ends, ends[1:])) for word, ends in starts.items()}
    for one, prefix, bodies in zip(models, prefixes, at["bodies"], strict=True):
        if model.body_names[bodies] != tuple(prefix + name for name in one.body_names):
            raise ModelError(f'the bodies of model "{one.name}" are not in one piece among those of the crowd')
    return Figures(model, models, prefixes, **at)
