"""One model of many figures, and where each of them is in its arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from limberjack.errors import ModelError
from limberjack.model.joints import FREE
from limberjack.model.merging import append, placed
from limberjack.model.model import Model
from limberjack.model.spec import IDENTITY, WORLD, Shape, Spec
from limberjack.simulation.simulation import Simulation

__all__ = ["Figures", "carry_over", "found", "grid", "numbered", "recognised", "together"]


@dataclass(frozen=True)
class Figures:
    """A model of many figures.

    Attributes:
        model: the model of all.
        models: the model of each figure.
        positions: (figures, 3) where the origin of the world of each is [m].
        prefixes: of the names of each.
        q, v, control, bodies: the slices of each in coordinates, dofs, controls and bodies.
        drives, ball_drives: the slices of each in the drives of its joints.
    """

    model: Model
    models: tuple[Model, ...]
    positions: np.ndarray
    prefixes: tuple[str, ...]
    q: tuple[slice, ...]
    v: tuple[slice, ...]
    control: tuple[slice, ...]
    bodies: tuple[slice, ...]
    drives: tuple[slice, ...]
    ball_drives: tuple[slice, ...]

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


def numbered(first: int, count: int) -> tuple[str, ...]:
    """Return the prefixes of the names of `count` figures from number `first` on."""
    return tuple(f"f{i:03d}/" for i in range(first, first + count))


def together(
    models: Sequence[Model], positions: np.ndarray, name: str, prefixes: Sequence[str] | None = None
) -> Figures:
    """Return one model of all figures, each at its position; planes, which have no end, are there once.

    Args:
        models: of each figure.
        positions: (figures, 3) where the origin of its world comes to be [m].
        name: of the model of all.
        prefixes: of the names of each figure; by their numbers when None.
    """
    first = models[0]
    whole = Spec(name, first.spec.gravity, first.spec.merge_fixed)
    prefixes = numbered(0, len(models)) if prefixes is None else tuple(prefixes)
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
    return found(Model(whole), tuple(models), np.array(positions, float), prefixes)


def _unknown(shape: Shape, known: list[Shape]) -> bool:
    words = [item.name for item in fields(Shape) if item.name != "name"]
    return not any(all(getattr(shape, word) == getattr(other, word) for word in words) for other in known)


def found(model: Model, models: tuple[Model, ...], positions: np.ndarray, prefixes: tuple[str, ...]) -> Figures:
    """Return where each figure is in a model of all: figures are trees of their own, and trees are contiguous."""
    names = ("q", "v", "control", "bodies", "drives", "ball_drives")
    starts: dict[str, list[int]] = {word: [0] for word in names}
    for one in models:
        drives = one.arrays.drives
        sizes = one.nq, one.nv, len(one.actuators), one.body_count, len(drives.indices), len(drives.ball_indices)
        for word, size in zip(names, sizes, strict=True):
            starts[word].append(starts[word][-1] + size)
    at: dict[str, Any] = {word: tuple(map(slice, ends, ends[1:])) for word, ends in starts.items()}
    whole = sum(one.body_count for one in models)
    for one, prefix, bodies in zip(models, prefixes, at["bodies"], strict=True):
        if whole != model.body_count or model.body_names[bodies] != tuple(prefix + name for name in one.body_names):
            raise ModelError(f'the bodies of model "{one.name}" are not in one piece among those of the crowd')
    return Figures(model, models, positions, prefixes, **at)


def recognised(model: Model, kinds: Sequence[Model]) -> Figures:
    """Return the figures of a model of many, each of one of `kinds`, by the names of their bodies."""
    by_names = {one.body_names: one for one in kinds}
    models, prefixes, names = list[Model](), list[str](), dict[str, list[str]]()
    for name in model.body_names:
        prefix, _, own = name.partition("/")
        names.setdefault(prefix + "/", []).append(own)
    for prefix, own in names.items():
        if tuple(own) not in by_names or not prefix[1:-1].isdigit():
            listed = ", ".join(f'"{one.name}"' for one in kinds)
            raise ModelError(f'bodies "{prefix}..." of model "{model.name}" are no figure of {listed}')
        models.append(by_names[tuple(own)])
        prefixes.append(prefix)
    # where a figure stands is part of the model of all: only figures that are added need a position
    positions = np.zeros((len(models), 3))
    out = found(model, tuple(models), positions, tuple(prefixes))
    for i, one in enumerate(models):
        root = one.arrays.links.parent < 0
        first = int(model.arrays.body_link[out.bodies[i]].min())
        at, there = np.flatnonzero(root), first + np.flatnonzero(root)
        if one.arrays.links.kind[at[0]] == FREE:
            positions[i] = model.q0[out.q[i]][:3] - one.q0[:3]
        else:
            positions[i] = model.arrays.links.placement[there[0], 9:] - one.arrays.links.placement[at[0], 9:]
    return out


def carry_over(old: Figures, new: Figures, kept: np.ndarray, before: Simulation, after: Simulation) -> None:
    """Give the first figures of `after` what the figures `kept` of `before` have: state, forces, drives; and its time.

    Wrenches on figures that left are left out.
    """
    for word, slices in (("q", "q"), ("qd", "v"), ("tau", "v"), ("control", "control")):
        values, given = getattr(after, word).copy(), getattr(before, word)
        for there, here in enumerate(kept):
            values[getattr(new, slices)[there]] = given[getattr(old, slices)[here]]
        if values.size:
            setattr(after, word, values)
    for word, slices in (("scalar", "drives"), ("ball", "ball_drives")):
        values, given = getattr(after.forces.drives, word), getattr(before.forces.drives, word)
        for there, here in enumerate(kept):
            values[getattr(new, slices)[there]] = given[getattr(old, slices)[here]]
    of_link, moved, wrenches = _figure_of_links(old), np.full(len(old.models), -1), before.forces.wrenches
    moved[kept] = np.arange(len(kept))
    stays = moved[of_link[wrenches.link]] >= 0
    here = of_link[wrenches.link[stays]]
    first, firsts = (np.searchsorted(_figure_of_links(one), np.arange(len(one.models))) for one in (old, new))
    link = wrenches.link[stays] - first[here] + firsts[moved[here]]
    after.forces.wrenches = wrenches._replace(link=link, data=wrenches.data[stays].copy())
    after.touch()
    clock = before.snapshot()
    steps, base = (clock.steps, clock.base_steps), clock.base_time
    after.restore(replace(after.snapshot(), steps=steps[0], base_steps=steps[1], base_time=base))


def _figure_of_links(figures: Figures) -> np.ndarray:
    """Return the figure of each link."""
    links, out = figures.model.arrays.body_link, np.zeros(len(figures.model.arrays.links.parent), np.int64)
    for i, bodies in enumerate(figures.bodies):
        own = links[bodies]
        out[own[own >= 0]] = i
    return out
