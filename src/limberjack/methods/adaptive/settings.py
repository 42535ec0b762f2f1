"""What options and forces mean for a model: when choices end, how its tree is cut, what was pushed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from limberjack.articulated.assembly_tree import Assembly
from limberjack.errors import StateError
from limberjack.forces import Wrenches
from limberjack.methods.adaptive import layout as rg
from limberjack.methods.adaptive.condensed import Condensed
from limberjack.methods.adaptive.options import Adaptive
from limberjack.methods.adaptive.sight import levers, view_numbers
from limberjack.model.model import Model

__all__ = ["limits_of", "tree_options", "with_wrenches", "wrench_links"]


def with_wrenches(body: Condensed, count: int) -> Condensed:
    """Return a hybrid body with room for `count` wrenches."""
    return body._replace(wrenches=Wrenches(np.zeros(count, np.int64), np.zeros((count, 9))))


def wrench_links(old: Wrenches, new: Wrenches) -> np.ndarray:
    """Return the links on which wrenches differ."""
    if len(old.link) == len(new.link) and (old.link == new.link).all() and (old.data == new.data).all():
        return np.zeros(0, np.int64)
    before = {(int(i), row.tobytes()) for i, row in zip(old.link, old.data, strict=True)}
    after = {(int(i), row.tobytes()) for i, row in zip(new.link, new.data, strict=True)}
    return np.array(sorted({i for i, _ in before ^ after}), np.int64)


def limits_of(model: Model, tree: Assembly, options: Adaptive, joints: int) -> rg.Limits:
    """Return when choices end, checked against the model."""
    figures = len(tree.roots)
    budget, opened = options.budget, options.update_budget
    if budget is None and options.tolerance is None and options.view is None:
        budget = max(1, round(0.2 * joints))
    each = isinstance(budget, Sequence)
    if isinstance(budget, Sequence):
        if len(budget) != figures:
            raise StateError(
                f'budget must have one number per figure of model "{model.name}", {figures}; got {len(budget)}'
            )
        whole = np.array(budget, np.int64)
    else:
        whole = np.full(figures, -1 if budget is None else min(budget, joints), np.int64)
    looked = whole.copy() if opened is None else np.full(figures, opened, np.int64)
    # Of the velocities, without a tolerance of their own: in pixels the same, else by the period, which `dt` decides.
    tolerance = np.array([-1.0 if options.tolerance is None else options.tolerance, -1.0])
    if options.view is not None and options.tolerance is None:
        tolerance[0] = options.view.tolerance**2
    if options.velocity_tolerance is not None:
        tolerance[1] = options.velocity_tolerance
    elif options.view is not None:
        tolerance[1] = tolerance[0]
    return rg.Limits(
        whole, looked, tolerance, np.array([options.update_every], np.int64), np.array([int(each)], np.int64),
        np.array([int(options.error_bounded)], np.int64), np.array([int(options.metric == "mass")], np.int64),
        view_numbers(options.view), *_levers(model, tree, options),
    )  # fmt: skip


def _levers(model: Model, tree: Assembly, options: Adaptive) -> tuple[np.ndarray, np.ndarray]:
    return levers(model, tree) if options.view is not None else (np.zeros(len(tree.parent)), np.zeros(len(tree.parent)))


def tree_options(model: Model, options: Adaptive) -> dict[str, Any]:
    """Return the weights or priorities the assembly tree is cut by."""
    a = model.arrays
    n = len(a.links.parent)
    if callable(options.tree):
        order = list(options.tree(model))
        priority = np.full(n, len(order), np.int64)
        for k, name in enumerate(order):
            info = model.joint(name)
            if not info.is_loop and info.nv > 0:
                priority[a.joint_link[model.joint_names.index(name)]] = k
        return {"priority": priority}
    if options.tree == "forces":
        weight = np.ones(n)
        ends = a.springs.link[a.springs.link >= 0]
        named = np.array([a.body_link[model.body_index(name)] for name in options.force_bodies], np.int64)
        places = np.unique(np.concatenate([ends, named[named >= 0]])).astype(np.int64)
        weight[places] = n
        return {"weight": weight}
    return {}
