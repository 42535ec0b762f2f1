"""Ready-made scenes: the papers' and our own, one function each, one register for all.

`pendulum(links=300)` returns a model; `get("pendulum", links=300)` returns it with a method, a time step, a
drive and a camera. Nothing here compiles kernels: a scene can be listed and built without Numba.
"""

from __future__ import annotations

from limberjack.scenes.catalog import Camera, Scene, SceneInfo, describe, get, names
from limberjack.scenes.chains import double_pendulum, long_chain, pendulum, tethered_pendulum
from limberjack.scenes.crowds import crowd
from limberjack.scenes.figures import humanoid, marionette
from limberjack.scenes.trees import ball_tree, random_tree

__all__ = [
    "Camera",
    "Scene",
    "SceneInfo",
    "ball_tree",
    "crowd",
    "describe",
    "double_pendulum",
    "get",
    "humanoid",
    "long_chain",
    "marionette",
    "names",
    "pendulum",
    "random_tree",
    "tethered_pendulum",
]
