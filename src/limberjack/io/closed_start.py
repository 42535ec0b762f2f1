"""The start of a loaded model whose file leaves loops open at its own: a pose near by that closes them."""

from __future__ import annotations

import warnings
from pathlib import Path

from limberjack.errors import ModelWarning
from limberjack.maximal.assemble import assemble, with_start
from limberjack.model.model import Model
from limberjack.reduced.dynamics import forward_kinematics
from limberjack.simulation.handles import loop_errors

__all__ = ["with_closed_start"]

# Gaps and angles up to this are closed [m, rad].
_CLOSED = 1e-6


def with_closed_start(path: Path, model: Model, stated: bool = True) -> Model:
    """Return the model with a start at which its loops are closed and its ropes not too long.

    Args:
        path: the file, for warnings.
        model: the model at the start that the file gives.
        stated: whether the file states that start: a warning then names what was open.
    """
    errors = loop_errors(model, *forward_kinematics(model, model.q0))
    opened = {name: max(error) for name, error in errors.items() if max(error) > _CLOSED}
    if not opened:
        return model
    found = assemble(model)
    told = f"{path}: {', '.join(opened)}: open by up to {max(opened.values()):.3g} m or rad at the start"
    if not found.closed:
        warnings.warn(ModelWarning(f"{told}, and no pose near by closes them; give q that does"), stacklevel=4)
        return model
    if stated:
        warnings.warn(ModelWarning(f"{told} of the file; the model starts where they are closed"), stacklevel=4)
    return with_start(model, found.q)
