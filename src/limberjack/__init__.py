"""Limberjack: the dynamics of articulated rigid bodies, from one joint to crowds.

`__all__` lists what most programs need. The rest is reached through its module: the errors as `lj.errors.Diverged`,
contacts without a simulation in `limberjack.collision.query`, the rules that attach points in
`limberjack.model.proximity`, trackers in `limberjack.simulation.trackers`, the camera of the view metric in
`limberjack.methods.adaptive.options`. Names and modules load on first use: importing the package compiles and costs
nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from limberjack._environments import register_when_imported

if TYPE_CHECKING:
    from limberjack import cli as cli
    from limberjack import cluster as cluster
    from limberjack import collision as collision
    from limberjack import constraints as constraints
    from limberjack import contact as contact
    from limberjack import crowd as crowd
    from limberjack import errors as errors
    from limberjack import gym as gym
    from limberjack import io as io
    from limberjack import linear as linear
    from limberjack import maximal as maximal
    from limberjack import methods as methods
    from limberjack import model as model
    from limberjack import reduced as reduced
    from limberjack import scenes as scenes
    from limberjack import simulation as simulation
    from limberjack import spatial as spatial
    from limberjack import viewer as viewer
    from limberjack.collision.query import CollisionQuery as CollisionQuery
    from limberjack.crowd.crowd import Crowd
    from limberjack.errors import BudgetWarning as BudgetWarning
    from limberjack.errors import ClusterLost as ClusterLost
    from limberjack.errors import Diverged as Diverged
    from limberjack.errors import EnergyWarning as EnergyWarning
    from limberjack.errors import FileError as FileError
    from limberjack.errors import LimberjackError
    from limberjack.errors import LoopNotClosed as LoopNotClosed
    from limberjack.errors import MissingExtra as MissingExtra
    from limberjack.errors import ModelError as ModelError
    from limberjack.errors import ModelWarning as ModelWarning
    from limberjack.errors import StateError as StateError
    from limberjack.errors import UnknownName as UnknownName
    from limberjack.errors import UnsupportedByMethod as UnsupportedByMethod
    from limberjack.errors import UnsupportedVersion as UnsupportedVersion
    from limberjack.io import load, save
    from limberjack.io.recordings import replay
    from limberjack.maximal.assemble import Assembly, assemble, pose
    from limberjack.methods import Adaptive, Displacements, DivideAndConquer, Full, Impulses, Multipliers, capabilities
    from limberjack.methods.adaptive.options import View as View
    from limberjack.model.builder import Builder
    from limberjack.model.model import Model
    from limberjack.model.proximity import Proximity as Proximity
    from limberjack.model.registered import register_body_kind, register_constraint, register_joint
    from limberjack.model.spec import Axis, Motor
    from limberjack.reduced.control_dynamics import (
        bias_forces,
        center_of_mass,
        centroidal_momentum,
        difference,
        forward_dynamics_derivatives,
        integrate,
        inverse_dynamics_derivatives,
        jacobian,
        operational_inertia,
    )
    from limberjack.reduced.dynamics import forward_kinematics, inverse_dynamics, mass_matrix
    from limberjack.simulation.comparison import compare
    from limberjack.simulation.constrained_dynamics import forward_dynamics
    from limberjack.simulation.queries import distance, ray_cast
    from limberjack.simulation.simulation import Simulation, resume
    from limberjack.simulation.trackers import Pace as Pace
    from limberjack.simulation.trackers import Tracker as Tracker
    from limberjack.simulation.trajectory import Trajectory
    from limberjack.viewer import view

__version__ = "0.1.0"

# The module that each name is defined in.
_HOMES = {
    "limberjack.collision.query": ("CollisionQuery",),
    "limberjack.crowd.crowd": ("Crowd",),
    "limberjack.errors": (
        "BudgetWarning", "ClusterLost", "Diverged", "EnergyWarning", "FileError", "LimberjackError", "LoopNotClosed",
        "MissingExtra", "ModelError", "ModelWarning", "StateError", "UnknownName", "UnsupportedByMethod",
        "UnsupportedVersion",
    ),
    "limberjack.io": ("load", "save"),
    "limberjack.io.recordings": ("replay",),
    "limberjack.maximal.assemble": ("Assembly", "assemble", "pose"),
    "limberjack.methods": (
        "Adaptive", "Displacements", "DivideAndConquer", "Full", "Impulses", "Multipliers", "capabilities",
    ),
    "limberjack.methods.adaptive.options": ("View",),
    "limberjack.model.builder": ("Builder",),
    "limberjack.model.model": ("Model",),
    "limberjack.model.proximity": ("Proximity",),
    "limberjack.model.registered": ("register_body_kind", "register_constraint", "register_joint"),
    "limberjack.model.spec": ("Axis", "Motor"),
    "limberjack.reduced.control_dynamics": (
        "bias_forces", "center_of_mass", "centroidal_momentum", "difference", "forward_dynamics_derivatives",
        "integrate", "inverse_dynamics_derivatives", "jacobian", "operational_inertia",
    ),
    "limberjack.reduced.dynamics": ("forward_kinematics", "inverse_dynamics", "mass_matrix"),
    "limberjack.simulation.comparison": ("compare",),
    "limberjack.simulation.constrained_dynamics": ("forward_dynamics",),
    "limberjack.simulation.queries": ("distance", "ray_cast"),
    "limberjack.simulation.simulation": ("Simulation", "resume"),
    "limberjack.simulation.trackers": ("Pace", "Tracker"),
    "limberjack.simulation.trajectory": ("Trajectory",),
    "limberjack.viewer": ("view",),
}  # fmt: skip
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
_MODULES = (
    "cli", "cluster", "collision", "constraints", "contact", "crowd", "errors", "gym", "io", "linear", "maximal",
    "methods", "model", "reduced", "scenes", "simulation", "spatial", "viewer",
)  # fmt: skip

__all__ = [
    "Adaptive",
    "Assembly",
    "Axis",
    "Builder",
    "Crowd",
    "Displacements",
    "DivideAndConquer",
    "Full",
    "Impulses",
    "LimberjackError",
    "Model",
    "Motor",
    "Multipliers",
    "Simulation",
    "Trajectory",
    "assemble",
    "bias_forces",
    "capabilities",
    "center_of_mass",
    "centroidal_momentum",
    "compare",
    "difference",
    "distance",
    "errors",
    "forward_dynamics",
    "forward_dynamics_derivatives",
    "forward_kinematics",
    "integrate",
    "inverse_dynamics",
    "inverse_dynamics_derivatives",
    "jacobian",
    "load",
    "mass_matrix",
    "operational_inertia",
    "pose",
    "ray_cast",
    "register_body_kind",
    "register_constraint",
    "register_joint",
    "replay",
    "resume",
    "save",
    "scenes",
    "view",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"limberjack.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f'module "limberjack" has no "{name}"; it has {", ".join(__all__)}')
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


register_when_imported()
