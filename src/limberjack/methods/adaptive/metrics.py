"""Weights of joints: how much the acceleration and the velocity of each counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from limberjack.errors import StateError, UnknownName
from limberjack.model.joints import FREE
from limberjack.model.model import Model

__all__ = ["functions_of", "weight_rows"]


def functions_of(weights: Any) -> dict[str, Callable[[Any], Any]]:
    """Return those of the weights that are functions of the joint's position."""
    return {name: w for name, w in weights.items() if callable(w)} if isinstance(weights, Mapping) else {}


def _matrix(value: Any, d: int, what: str) -> np.ndarray:
    """Return a weight as a symmetric positive definite (d, d) matrix."""
    try:
        array = np.asarray(value, float)
    except (TypeError, ValueError):
        raise StateError(f"{what} must be a number or a {d}x{d} matrix, got {value!r}") from None
    if array.ndim == 0:
        array = array * np.eye(d)
    if array.shape != (d, d):
        raise StateError(f"{what} must be a number or a {d}x{d} matrix, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise StateError(f"{what} must be finite, got {value!r}")
    if np.abs(array - array.T).max() > 1e-12 * np.abs(array).max() or np.linalg.eigvalsh(array)[0] <= 0.0:
        raise StateError(f"{what} must be symmetric and positive definite, got {value!r}")
    return array


def weight_rows(model: Model, weights: Any, what: str, q: np.ndarray, only: set[str] | None = None) -> np.ndarray:
    """Return (nv, 6) rows of the weight matrices of all joints; of free joints to the world zero.

    Args:
        model: the model.
        weights: a number for all, or {joint: number, matrix or function of its q}.
        what: the option's name, for errors.
        q: (nq,) where functions are evaluated.
        only: leave the rows of other joints zero.
    """
    links = model.arrays.links
    rows = np.zeros((model.nv, 6))
    given = weights if isinstance(weights, Mapping) else {}
    if not isinstance(weights, Mapping):
        _matrix(weights, 1, what)
    for name in given:
        if name not in model.joint_names:
            raise UnknownName("joint", str(name), f'model "{model.name}"', model.joint_names)
    if only is None:
        scalar = 1.0 if isinstance(weights, Mapping) else float(weights)
        counted = np.repeat(links.kind != FREE, links.dof)
        first = np.repeat(links.v_start, links.dof)
        rows[np.arange(model.nv), np.arange(model.nv) - first] = scalar * counted
    for name, weight in given.items():
        info = model.joint(name)
        if info.is_loop or info.nv == 0 or (only is not None and name not in only):
            continue
        if info.kind == "free":
            raise StateError(f'{what} of joint "{name}": free joints to the world are always simulated and have none')
        place = q[info.q]
        value = weight(float(place[0]) if place.size == 1 else place.copy()) if callable(weight) else weight
        v = info.v_start
        rows[v : v + info.nv, : info.nv] = _matrix(value, info.nv, f'{what} of joint "{name}"')
    return rows
