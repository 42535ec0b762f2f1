"""A model without its bodies that change size, for methods that move none."""

from __future__ import annotations

from dataclasses import replace

from limberjack.model.bodies import BODY_KINDS
from limberjack.model.model import Model

__all__ = ["rigid_model"]


def rigid_model(model: Model) -> Model:
    """Return the model with bodies that keep their size."""
    plain = {"body_kind": "rigid", "scale": None, "scale_stiffness": 0.0, "scale_rest": None}
    bodies = [body if BODY_KINDS[body.body_kind].tree else replace(body, **plain) for body in model.spec.bodies]
    return Model(replace(model.spec, bodies=bodies))
