"""Rings of six mesh links, each link a bent rod that is not convex, and the paper's pile of them on poles.

Weinstein, Teran and Fedkiw (2006), figures 3 and 6. All links share one mesh, so that collision detection stores one
surface and one signed distance grid for all of them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from limberjack.model.builder import Builder
from limberjack.model.model import Model
from limberjack.model.shape_kinds import mesh_mass
from limberjack.model.spec import WORLD
from limberjack.scenes.catalog import Camera, chosen, scene, whole
from limberjack.scenes.mesh_solids import closed_net
from limberjack.spatial.frames import quaternion_from_matrix, turn_z_to

__all__ = ["Link", "add_ring", "rings"]

_COLORS = ((0.91, 0.45, 0.29, 1.0), (0.25, 0.49, 0.67, 1.0), (0.36, 0.58, 0.45, 1.0), (0.93, 0.79, 0.42, 1.0))
_SIX = 6
_RADIUS, _THICK = 0.25, 0.03
_KINDS = ("meshes", "capsules")


class Link:
    """One link of a ring: a bow between two joints that lie `radius` apart, as the sides of a hexagon do.

    Its mesh lies in the x-y plane and has its centre of mass at the origin; the joints are at (-radius / 2, low) and
    (radius / 2, low), and the bow rises along y.

    Args:
        radius: of the ring's joints [m].
        thick: radius of the rod at the joints [m]; between them it is a little thinner.
        mass: [kg].
        along, around: rows of vertices, and vertices of each: 66 and 10 make 1320 triangles.
    """

    def __init__(self, radius: float, thick: float, mass: float, along: int = 66, around: int = 10) -> None:
        points, faces = _bow(radius, thick, along, around)
        volume, middle, inertia = mesh_mass(points, faces)
        self.radius, self.mass, self.low = radius, mass, -float(middle[1])
        self.inertia = inertia * (mass / volume)
        self.vertices, self.faces = points - middle, faces
        for array in (self.vertices, self.faces):
            array.setflags(write=False)  # one for all links


def _bow(radius: float, thick: float, along: int, around: int) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices and faces of a rod bent to half an ellipse, closed by round ends."""
    cap = 4
    lean = 0.5 * math.pi * (np.arange(cap) + 0.5) / cap
    turn = math.pi * np.linspace(0.0, 1.0, along - 2 * cap)
    line = np.column_stack([-0.5 * radius * np.cos(turn), 0.4 * radius * np.sin(turn), 0.0 * turn])
    way = np.column_stack([0.5 * radius * np.sin(turn), 0.4 * radius * np.cos(turn), 0.0 * turn])
    way /= np.linalg.norm(way, axis=1, keepdims=True)
    wide = thick * (0.8 + 0.2 * np.cos(turn) ** 8)
    # round ends: circles that shrink beyond the first and the last point of the line
    first = line[0] - thick * np.cos(lean)[:, None] * way[0]
    last = line[-1] + thick * np.cos(lean[::-1])[:, None] * way[-1]
    line = np.vstack([first, line, last])
    way = np.vstack([np.repeat(way[:1], cap, 0), way, np.repeat(way[-1:], cap, 0)])
    wide = np.concatenate([thick * np.sin(lean), wide, thick * np.sin(lean[::-1])])
    spin = 2.0 * math.pi * np.arange(around) / around
    side, up = np.column_stack([-way[:, 1], way[:, 0], 0.0 * wide]), np.array([0.0, 0.0, 1.0])
    points = line[:, None] + wide[:, None, None] * (
        np.cos(spin)[None, :, None] * side[:, None] + np.sin(spin)[None, :, None] * up
    )
    ends = np.array([line[cap] - thick * way[0], line[-cap - 1] + thick * way[-1]])
    return np.vstack([points.reshape(-1, 3), ends]), closed_net(*points.shape[:2], ring=False)


def add_ring(builder: Builder, name: str, link: Link, middle: np.ndarray, phase: float, color: Any) -> None:
    """Add a ring of six links that lies flat, its joints at `link.radius` around its centre.

    Args:
        builder: gets bodies "{name}_0" .. and joints "{name}_joint0" ..
        name: of the ring.
        link: its link.
        middle: (3,) [m].
        phase: angle of its first joint [rad].
        color: of its links.
    """
    angles = phase + math.pi / 3.0 * np.arange(_SIX)
    corners = link.radius * np.column_stack([np.cos(angles), np.sin(angles), np.zeros(_SIX)])
    out = math.sqrt(0.75) * link.radius - link.low  # centres of mass from the middle
    at = out * np.column_stack([np.cos(angles + math.pi / 6.0), np.sin(angles + math.pi / 6.0), np.zeros(_SIX)])
    for t in range(_SIX):
        lean = angles[t] + math.pi / 6.0 - 0.5 * math.pi
        c, s = math.cos(lean), math.sin(lean)
        turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
        builder.add_body(
            f"{name}_{t}", mass=link.mass, inertia=turn @ link.inertia @ turn.T,
            position=middle + at[t] if t == 0 else None,
        )  # fmt: skip
        builder.add_shape_mesh(
            f"{name}_{t}", vertices=link.vertices, faces=link.faces, friction=0.6, color=color,
            rotation=(math.cos(0.5 * lean), 0.0, 0.0, math.sin(0.5 * lean)),
        )  # fmt: skip
    _join(builder, name, corners, at)


def _add_plain_ring(builder: Builder, name: str, middle: np.ndarray, phase: float, color: Any) -> None:
    """Add a ring of six links of two capsules each."""
    angles = phase + math.pi / 3.0 * np.arange(_SIX)
    corners = _RADIUS * np.column_stack([np.cos(angles), np.sin(angles), np.zeros(_SIX)])
    at, inertia = [], 0.2 * 0.25 * 0.25 / 12.0
    for t in range(_SIX):
        a, b = corners[t], corners[(t + 1) % _SIX]
        half = 0.5 * (a + b)
        top = half + 0.03 * half / np.linalg.norm(half)
        com = 0.25 * (a + b + 2.0 * top)
        at.append(com)
        builder.add_body(f"{name}_{t}", mass=0.2, inertia=(inertia,) * 3, position=middle + com if t == 0 else None)
        for p, q in ((a, top), (top, b)):
            long = float(np.linalg.norm(q - p))
            turn = quaternion_from_matrix(turn_z_to((q - p).reshape(1, 3) / long)[0])
            builder.add_shape_capsule(
                f"{name}_{t}", _THICK, long - 0.04, position=0.5 * (p + q) - com, rotation=tuple(map(float, turn)),
                friction=0.6, color=color,
            )  # fmt: skip
    _join(builder, name, corners, np.array(at))


def _join(builder: Builder, name: str, corners: np.ndarray, at: np.ndarray) -> None:
    """Add the ball joints of a ring between links at these positions."""
    for t in range(_SIX):
        n = (t + 1) % _SIX
        builder.add_joint_ball(
            f"{name}_joint{t}", f"{name}_{t}", f"{name}_{n}", position=corners[n] - at[t],
            position_in_child=corners[n] - at[n],
        )  # fmt: skip


@scene(
    "Rings of six bent links, dropped on poles.",
    lambda **_: {
        "method": "impulses", "dt": 1.0 / 240.0, "seconds": 5.0, "camera": Camera((6.9, -5.0, 4.5), (2.0, 2.0, 1.0)),
    },
)  # fmt: skip
def rings(*, count: int = 360, poles: int = 5, links: str = "meshes", seed: int = 0) -> Model:
    """Return rings of six links with a ball joint between neighbours, over a square of poles; 360 rings are 2160 links.

    Args:
        count: rings; as many as there are poles make a layer.
        poles: along each side of the square.
        links: "meshes", bows of 1320 triangles that are not convex, or "capsules", two of them to a link.
        seed: of positions and rotations.
    """
    count, poles, seed = whole(count, "count", 1), whole(poles, "poles", 1), whole(seed, "seed", 0)
    links = chosen(links, "links", "rings", _KINDS)
    random, builder, link = np.random.default_rng(seed), Builder("rings"), Link(_RADIUS, _THICK, 0.2)
    builder.add_shape_plane(WORLD, friction=0.6)
    for i in range(poles * poles):
        builder.add_shape_capsule(
            WORLD, 0.08, 1.5, position=(i % poles, i // poles, 0.75), friction=0.6, color=(0.6, 0.6, 0.6, 1.0)
        )
    for k in range(count):
        pole, layer = k % (poles * poles), k // (poles * poles)
        middle = np.array([pole % poles, pole // poles, 1.9 + 0.13 * layer])
        middle[:2] += random.uniform(-0.05, 0.05, 2)
        phase, color = random.uniform(0.0, 2.0 * math.pi), _COLORS[k % 4]
        if links == "meshes":
            add_ring(builder, f"ring{k}", link, middle, phase, color)
        else:
            _add_plain_ring(builder, f"ring{k}", middle, phase, color)
    return builder.build()
