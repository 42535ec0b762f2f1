"""Models with bodies of other kinds or masses: for methods that move none that change size, and for geometry alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from limberjack.model.bodies import BODY_KINDS
from limberjack.model.model import Model

__all__ = ["rigid_model", "weighed_model"]


def rigid_model(model: Model) -> Model:
    """Return the model with bodies that keep their size."""
    plain = {"body_kind": "rigid", "scale": None, "scale_stiffness": 0.0, "scale_rest": None}
    bodies = [body if BODY_KINDS[body.body_kind].tree else replace(body, **plain) for body in model.spec.bodies]
    return Model(replace(model.spec, bodies=bodies))


def weighed_model(model: Model) -> Model:
    """Return the model with mass and inertia on bodies that have none or not about every axis: geometry is as it was."""
    own = model.arrays.links.inertia
    heavy = own[:, 9] > 0.0
    center = own[:, 6:9] / np.where(heavy, own[:, 9], 1.0)[:, None]
    tensor = own[:, [0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(-1, 3, 3)
    squares = np.einsum("ni,ni->n", center, center)[:, None, None] * np.eye(3) - center[:, :, None] * center[:, None, :]
    tensor = tensor - own[:, 9, None, None] * squares
    turns = np.linalg.eigvalsh(tensor)[:, 0] > 0.0 if len(tensor) else heavy
    light = {model.body_names[b] for b, link in enumerate(model.arrays.body_link) if link >= 0 and not heavy[link]}
    light |= {model.body_names[b] for b, link in enumerate(model.arrays.body_link) if link >= 0 and not turns[link]}
    kinds = {body.name for body in model.spec.bodies if body.body_kind == "rigid"}
    if not light & kinds:
        return model
    bodies = [
        replace(body, mass=body.mass or 1.0, inertia=(1.0, 1.0, 1.0, 0.0, 0.0, 0.0)) if body.name in light & kinds else body
        for body in model.spec.bodies
    ]
    return Model(replace(model.spec, bodies=bodies))
