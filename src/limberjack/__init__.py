"""Limberjack: the dynamics of articulated rigid bodies, from one joint to crowds."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from limberjack import scenes
    from limberjack.articulated.dynamics import forward_kinematics, inverse_dynamics, jacobian, mass_matrix
    from limberjack.assembling.face import Assembly, assemble, pose
    from limberjack.dynamics import forward_dynamics
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
    from limberjack.methods import (
        Adaptive,
        Displacements,
        DivideAndConquer,
        Full,
        Impulses,
        Multipliers,
        capabilities,
    )
    from limberjack.methods.adaptive.options import View
    from limberjack.model.builder import Builder
    from limberjack.model.custom import register_constraint, register_joint
    from limberjack.model.model import Model
    from limberjack.model.own_bodies import register_body_kind
    from limberjack.model.proximity import Proximity
    from limberjack.model.spec import Axis, Motor
    from limberjack.simulation import Simulation, resume
    from limberjack.trackers import Pace, Tracker
    from limberjack.trajectory import Trajectory
    from limberjack.viewer import view

__version__ = "0.1.0"

# Public names and the module each lives in. Loaded on first use: importing the package compiles and costs nothing.
_HOMES = {
    "limberjack.articulated.dynamics": ("forward_kinematics", "inverse_dynamics", "jacobian", "mass_matrix"),
    "limberjack.assembling.face": ("Assembly", "assemble", "pose"),
    "limberjack.dynamics": ("forward_dynamics",),
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
    "limberjack.model.custom": ("register_constraint", "register_joint"),
    "limberjack.model.own_bodies": ("register_body_kind",),
    "limberjack.model.model": ("Model",),
    "limberjack.model.spec": ("Axis", "Motor"),
    "limberjack.simulation": ("Simulation", "resume"),
    "limberjack.trackers": ("Pace", "Tracker"),
    "limberjack.trajectory": ("Trajectory",),
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
