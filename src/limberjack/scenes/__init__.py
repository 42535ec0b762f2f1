"""Ready-made scenes, those of the papers included: one function each, listed in one registry.

`pendulum(links=300)` returns a model; `get("pendulum", links=300)` returns it with a method, a time step, a
drive and a camera. Nothing here compiles kernels: a scene can be listed and built without Numba.
"""

from __future__ import annotations

from limberjack.scenes.adaptive import adaptive_crowd, character, paper_pendulum, slider_chain, spring_pendulum
from limberjack.scenes.baraff import baraff_contacts, baraff_planar, baraff_tree, scalable_puppet, star
from limberjack.scenes.bones import skeletons
from limberjack.scenes.bridge import bridge
from limberjack.scenes.catalog import Camera, Scene, SceneInfo, describe, get, get_shown, names
from limberjack.scenes.chains import double_pendulum, long_chain, pendulum, tethered_pendulum
from limberjack.scenes.conveyors import conveyor, drum, platform
from limberjack.scenes.crowds import crowd, stadium
from limberjack.scenes.faure import (
    bar_between_disks,
    bead_on_circle,
    draggable_structure,
    faure_joints,
    ring_of_figures,
    shaken_plate,
)
from limberjack.scenes.fields import forest, rope_field
from limberjack.scenes.figures import humanoid, marionette
from limberjack.scenes.letters import fridge_magnets
from limberjack.scenes.loops import (
    REFERENCES,
    Reference,
    andrews_squeezer,
    bricard,
    chain_with_limits,
    flyball_governor,
    four_bar,
    gear_train,
    knife_edge,
    measured,
    n_four_bar,
    simple_pendulum,
)
from limberjack.scenes.machines import differential, planetary, rolling_disc, steered_cart, tread
from limberjack.scenes.mocap import Follow, mocap, tracking_error
from limberjack.scenes.piles import (
    arch,
    ball_grid,
    box_pile,
    card_house,
    column,
    dominoes,
    kapla_tower,
    newtons_cradle,
    pyramid,
)
from limberjack.scenes.rings import rings
from limberjack.scenes.stairs import ragdolls, stairs
from limberjack.scenes.tank import tank
from limberjack.scenes.trees import ball_tree, random_tree
from limberjack.scenes.weinstein import joint_types, lifting_net, net, pre_versus_post

__all__ = [
    "Camera",
    "Follow",
    "REFERENCES",
    "Reference",
    "Scene",
    "SceneInfo",
    "adaptive_crowd",
    "andrews_squeezer",
    "arch",
    "ball_grid",
    "ball_tree",
    "bar_between_disks",
    "baraff_contacts",
    "baraff_planar",
    "baraff_tree",
    "bead_on_circle",
    "box_pile",
    "bricard",
    "bridge",
    "card_house",
    "chain_with_limits",
    "character",
    "column",
    "conveyor",
    "crowd",
    "describe",
    "differential",
    "dominoes",
    "double_pendulum",
    "draggable_structure",
    "drum",
    "faure_joints",
    "flyball_governor",
    "forest",
    "four_bar",
    "fridge_magnets",
    "gear_train",
    "get",
    "get_shown",
    "humanoid",
    "joint_types",
    "kapla_tower",
    "knife_edge",
    "lifting_net",
    "long_chain",
    "marionette",
    "measured",
    "mocap",
    "n_four_bar",
    "names",
    "net",
    "newtons_cradle",
    "paper_pendulum",
    "pendulum",
    "planetary",
    "platform",
    "pre_versus_post",
    "pyramid",
    "ragdolls",
    "random_tree",
    "ring_of_figures",
    "rings",
    "rolling_disc",
    "rope_field",
    "scalable_puppet",
    "shaken_plate",
    "simple_pendulum",
    "skeletons",
    "slider_chain",
    "spring_pendulum",
    "stadium",
    "stairs",
    "star",
    "steered_cart",
    "tank",
    "tethered_pendulum",
    "tracking_error",
    "tread",
]
