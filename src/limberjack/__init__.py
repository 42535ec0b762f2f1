"""Limberjack: the dynamics of articulated rigid bodies, from one joint to crowds."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from limberjack import scenes
    from limberjack.errors import (
        Diverged,
        FileError,
        LimberjackError,
        LoopNotClosed,
        MissingExtra,
        ModelError,
        ModelWarning,
        StateError,
        UnknownName,
        UnsupportedByMethod,
    )
    from limberjack.io import load, save
    from limberjack.maximal.assemble import Assembly, assemble, pose
    from limberjack.methods import Adaptive, Displacements, DivideAndConquer, Full, Impulses, Multipliers, capabilities
    from limberjack.methods.adaptive.options import View
    from limberjack.model.builder import Builder
    from limberjack.model.model import Model
    from limberjack.model.proximity import Proximity
    from limberjack.model.registered import register_body_kind, register_constraint, register_joint
    from limberjack.model.spec import Axis, Motor
    from limberjack.reduced.dynamics import forward_kinematics, inverse_dynamics, jacobian, mass_matrix
    from limberjack.simulation.constrained_dynamics import forward_dynamics
    from limberjack.simulation.simulation import Simulation, resume
    from limberjack.simulation.trackers import Pace, Tracker
    from limberjack.simulation.trajectory import Trajectory
    from limberjack.viewer import view

__version__ = "0.1.0"

# Public names and the module each lives in. Loaded on first use: importing the package compiles and costs nothing.
_HOMES = {
    "limberjack.reduced.dynamics": ("forward_kinematics", "inverse_dynamics", "jacobian", "mass_matrix"),
    "limberjack.maximal.assemble": ("Assembly", "assemble", "pose"),
    "limberjack.simulation.constrained_dynamics": ("forward_dynamics",),
    "limberjack.errors": (
        "Diverged", "FileError", "LimberjackError", "LoopNotClosed", "MissingExtra", "ModelError", "ModelWarning",
        "StateError", "UnknownName", "UnsupportedByMethod",
    ),
    "limberjack.io": ("load", "save"),
    "limberjack.model.proximity": ("Proximity",),
    "limberjack.methods": (
        "Adaptive", "Displacements", "DivideAndConquer", "Full", "Impulses", "Multipliers", "capabilities",
    ),  # fmt: skip
    "limberjack.methods.adaptive.options": ("View",),
    "limberjack.model.builder": ("Builder",),
    "limberjack.model.registered": ("register_body_kind", "register_constraint", "register_joint"),
    "limberjack.model.model": ("Model",),
    "limberjack.model.spec": ("Axis", "Motor"),
    "limberjack.simulation.simulation": ("Simulation", "resume"),
    "limberjack.simulation.trackers": ("Pace", "Tracker"),
    "limberjack.simulation.trajectory": ("Trajectory",),
    "limberjack.viewer": ("view",),
}  # fmt: skip
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Adaptive",
    "Assembly",
    "Axis",
    "Builder",
    "Displacements",
    "Diverged",
    "DivideAndConquer",
    "FileError",
    "Full",
    "Impulses",
    "LimberjackError",
    "LoopNotClosed",
    "MissingExtra",
    "Model",
    "ModelError",
    "ModelWarning",
    "Motor",
    "Multipliers",
    "Pace",
    "Proximity",
    "Simulation",
    "StateError",
    "Tracker",
    "Trajectory",
    "UnknownName",
    "UnsupportedByMethod",
    "View",
    "assemble",
    "capabilities",
    "forward_dynamics",
    "forward_kinematics",
    "inverse_dynamics",
    "jacobian",
    "load",
    "mass_matrix",
    "pose",
    "register_body_kind",
    "register_constraint",
    "register_joint",
    "resume",
    "save",
    "scenes",
    "view",
]


def __getattr__(name: str) -> Any:
    if name == "scenes":
        return importlib.import_module("limberjack.scenes")
    if name not in _HOME_OF:
        raise AttributeError(f'module "limberjack" has no "{name}"; it has {", ".join(__all__)}')
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
