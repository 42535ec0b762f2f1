"""Closed, non-convex meshes of bones, and the pile of skeletons of Weinstein, Teran and Fedkiw (2006)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from limberjack.errors import ModelError
from limberjack.model.builder import Builder
from limberjack.model.model import Model
from limberjack.model.spec import WORLD
from limberjack.scenes.catalog import Camera, scene, whole
from limberjack.scenes.mesh_solids import closed_net
from limberjack.spatial.frames import quaternion_from_matrix, turn_z_to

__all__ = ["skeletons"]

_COLORS = ((0.93, 0.9, 0.82, 1.0), (0.87, 0.83, 0.72, 1.0), (0.8, 0.79, 0.75, 1.0), (0.95, 0.87, 0.7, 1.0))
_BONES, _MOST = 21, 1_000_000
_DENSITY = 1900.0

# Each bone: the two ends of its middle line in a standing figure [m], looking along x; radius; what it looks like.
_FIGURE: dict[str, tuple[tuple[float, ...], tuple[float, ...], float, str]] = {
    "pelvis": ((0.0, 0.0, 0.91), (0.0, 0.0, 0.97), 0.115, "ring"),
    "sacrum": ((-0.05, 0.0, 0.985), (-0.05, 0.0, 1.055), 0.03, "knob"),
    "lumbar": ((-0.05, 0.0, 1.07), (-0.05, 0.0, 1.19), 0.025, "bone"),
    "thorax": ((0.0, 0.0, 1.21), (0.0, 0.0, 1.43), 0.13, "ring"),
    "neck": ((-0.03, 0.0, 1.45), (-0.03, 0.0, 1.54), 0.022, "bone"),
}
_HALF: dict[str, tuple[tuple[float, ...], tuple[float, ...], float, str]] = {
    "clavicle": ((0.0, 0.03, 1.475), (0.0, 0.17, 1.475), 0.014, "bone"),
    "upper_arm": ((0.0, 0.2, 1.44), (0.0, 0.23, 1.15), 0.022, "bone"),
    "forearm": ((0.0, 0.23, 1.13), (0.0, 0.24, 0.89), 0.018, "bone"),
    "hand": ((0.0, 0.24, 0.87), (0.0, 0.24, 0.74), 0.035, "knob"),
    "thigh": ((0.0, 0.1, 0.87), (0.0, 0.1, 0.5), 0.03, "bone"),
    "shin": ((0.0, 0.1, 0.48), (0.0, 0.1, 0.1), 0.025, "bone"),
    "foot": ((-0.05, 0.1, 0.06), (0.17, 0.1, 0.03), 0.035, "knob"),
}
_HEAD: dict[str, tuple[tuple[float, ...], tuple[float, ...], float, str]] = {
    "skull": ((0.0, 0.0, 1.585), (0.0, 0.0, 1.795), 0.085, "skull"),
    "jaw": ((0.045, -0.055, 1.57), (0.045, 0.055, 1.57), 0.016, "bone"),
}
# Each joint: its bones, its kind, its point in the standing figure; hinges turn about y.
_JOINTS = (
    ("pelvis", "sacrum", "ball", (-0.05, 0.0, 0.975)), ("sacrum", "lumbar", "ball", (-0.05, 0.0, 1.0625)),
    ("lumbar", "thorax", "ball", (-0.05, 0.0, 1.2)), ("thorax", "neck", "ball", (-0.03, 0.0, 1.44)),
    ("skull", "jaw", "hinge", (-0.01, 0.0, 1.6)),
)  # fmt: skip
_HALF_JOINTS = (
    ("thorax", "clavicle", "ball", (0.0, 0.02, 1.46)), ("clavicle", "upper_arm", "ball", (0.0, 0.19, 1.46)),
    ("upper_arm", "forearm", "hinge", (0.0, 0.23, 1.14)), ("forearm", "hand", "ball", (0.0, 0.24, 0.88)),
    ("pelvis", "thigh", "ball", (0.0, 0.1, 0.89)), ("thigh", "shin", "hinge", (0.0, 0.1, 0.49)),
    ("shin", "foot", "ball", (0.0, 0.1, 0.08)),
)  # fmt: skip


def _counts(triangles: int, shape: float) -> tuple[int, int]:
    """Return (along, around) of a net of about so many triangles, `shape` times as fine along as around."""
    around = max(6, round(math.sqrt(0.5 * triangles / shape)))
    return max(3, round(0.5 * triangles / around)), around


def _long_bone(length: float, radius: float, triangles: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a shaft along z with a knob at each end."""
    m, n = _counts(triangles, 2.0)
    s = -np.cos(math.pi * (np.arange(m) + 0.5) / m)
    knob = 0.62 + 0.6 * np.exp(-(((np.abs(s) - 0.82) / 0.17) ** 2))
    r = radius * knob * np.sqrt(1.0 - s**8)
    turn = 2.0 * math.pi * np.arange(n) / n
    points = np.empty((m, n, 3))
    points[..., 0], points[..., 1] = r[:, None] * np.cos(turn), r[:, None] * np.sin(turn)
    points[..., 2] = 0.5 * length * s[:, None]
    ends = [(0.0, 0.0, -0.5 * length), (0.0, 0.0, 0.5 * length)]
    return np.vstack([points.reshape(-1, 3), ends]), closed_net(m, n, ring=False)


def _dented(half: tuple[float, float, float], dents: Any, triangles: int) -> tuple[np.ndarray, np.ndarray]:
    """Return an ellipsoid with semi-axes `half`, scaled by `dents(directions)`, 1 = unchanged."""
    m, n = _counts(triangles, 0.6)
    lean, turn = math.pi * (np.arange(m) + 0.5) / m, 2.0 * math.pi * np.arange(n) / n
    points = np.empty((m, n, 3))
    points[..., 0] = np.sin(lean)[:, None] * np.cos(turn)
    points[..., 1] = np.sin(lean)[:, None] * np.sin(turn)
    points[..., 2] = -np.cos(lean)[:, None]
    flat = np.vstack([points.reshape(-1, 3), [(0.0, 0.0, -1.0), (0.0, 0.0, 1.0)]])
    return flat * dents(flat)[:, None] * half, closed_net(m, n, ring=False)


def _eyes(direction: np.ndarray) -> np.ndarray:
    """Return the scale of a skull in a direction: dents for two eyes and a nose."""
    out = np.ones(len(direction))
    sockets = (((0.86, 0.42, 0.1), 0.28, 0.22), ((0.86, -0.42, 0.1), 0.28, 0.22), ((0.95, 0.0, -0.3), 0.15, 0.12))
    for point, depth, wide in sockets:
        off = direction - np.array(point) / np.linalg.norm(point)
        out -= depth * np.exp(-np.einsum("ni,ni->n", off, off) / wide**2)
    return out


def _fingers(direction: np.ndarray) -> np.ndarray:
    """Return the scale of a hand or foot in a direction: grooves between fingers at its upper end."""
    far = np.clip(direction[:, 2], 0.0, 1.0)
    return 1.0 - 0.16 * far * (1.0 + np.cos(18.0 * direction[:, 1]))


def _ring(length: float, radius: float, triangles: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a ring about z, as high as `length`: a pelvis or a cage of ribs, open above and below."""
    m, n = _counts(triangles, 2.0)
    around, turn = 2.0 * math.pi * np.arange(m) / m, -2.0 * math.pi * np.arange(n) / n
    thick = 0.24 * radius
    points = np.empty((m, n, 3))
    reach = (radius - thick) + thick * np.cos(turn)
    points[..., 0] = 0.72 * np.cos(around)[:, None] * reach
    points[..., 1] = np.sin(around)[:, None] * reach
    points[..., 2] = 0.5 * length * np.sin(turn)
    return points.reshape(-1, 3), closed_net(m, n, ring=True)


def _mesh(look: str, length: float, radius: float, triangles: int) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices and faces of a bone along z about the origin."""
    if look == "ring":
        return _ring(length, radius, triangles)
    if look == "skull":
        return _dented((1.1 * radius, 0.85 * radius, 0.5 * length), _eyes, triangles)
    if look == "knob":
        return _dented((0.45 * radius, radius, 0.5 * length), _fingers, triangles)
    return _long_bone(length, radius, triangles)


def _all_bones() -> dict[str, tuple[np.ndarray, np.ndarray, float, str]]:
    """Return the 21 bones of a figure: the two ends of each, its radius, what it looks like."""
    out = {name: (np.array(a), np.array(b), r, look) for name, (a, b, r, look) in {**_FIGURE, **_HEAD}.items()}
    for name, (a, b, r, look) in _HALF.items():
        for side, sign in (("left", 1.0), ("right", -1.0)):
            flip = np.array([1.0, sign, 1.0])
            out[f"{side}_{name}"] = (flip * a, flip * b, r, look)
    return out


def _all_joints() -> list[tuple[str, str, str, np.ndarray]]:
    """Return the 19 joints of a figure."""
    middle = set(_FIGURE) | set(_HEAD)
    out = [(a, b, kind, np.array(at)) for a, b, kind, at in _JOINTS]
    for side, sign in (("left", 1.0), ("right", -1.0)):
        for a, b, kind, at in _HALF_JOINTS:
            above = a if a in middle else f"{side}_{a}"
            out.append((above, f"{side}_{b}", kind, np.array([1.0, sign, 1.0]) * at))
    return out


def _add_figure(builder: Builder, k: int, at: np.ndarray, turn: np.ndarray, meshes: dict[Any, Any], each: int) -> None:
    """Add figure k, its waist at a point, turned as a whole."""
    bones, waist = _all_bones(), np.array([0.0, 0.0, 1.0])
    quaternion = tuple(map(float, quaternion_from_matrix(turn)))
    for name, (a, b, radius, look) in bones.items():
        length = float(np.linalg.norm(b - a))
        key = (look, round(length, 9), radius)
        if key not in meshes:
            meshes[key] = _mesh(look, length, radius, each)
        vertices, faces = meshes[key]
        root = name in ("pelvis", "skull")
        builder.add_body(
            f"{name}{k}", position=at + turn @ (0.5 * (a + b) - waist) if root else None,
            rotation=quaternion if root else None,
        )  # fmt: skip
        builder.add_shape_mesh(
            f"{name}{k}", vertices=vertices, faces=faces, density=_DENSITY, friction=0.5, color=_COLORS[k % 4],
            rotation=tuple(map(float, quaternion_from_matrix(turn_z_to((b - a).reshape(1, 3) / length)[0]))),
        )  # fmt: skip
    middle = {name: 0.5 * (a + b) for name, (a, b, _, _) in bones.items()}
    for above, below, kind, point in _all_joints():
        own: dict[str, Any] = {"axis": (0.0, 1.0, 0.0)} if kind == "hinge" else {}
        builder.add_joint(
            kind, f"{below}{k}_joint", f"{above}{k}", f"{below}{k}", position=point - middle[above],
            position_in_child=point - middle[below], **own,
        )  # fmt: skip


@scene(
    "Skeletons of 21 mesh bones and 19 joints fall into a pile.",
    lambda figures, **_: {
        "method": "impulses", "dt": 1.0 / 240.0, "seconds": 3.0,
        "camera": Camera((2.1, -2.5, 1.8), (0.0, 0.0, 0.25 + 0.01 * figures)),
    },
)  # fmt: skip
def skeletons(*, figures: int = 20, triangles: int = 10000, seed: int = 0) -> Model:
    """Return skeletons stacked in the air, lying in different orientations; the skulls are not jointed to the necks.

    Args:
        figures: how many.
        triangles: of each figure, in 21 closed meshes; up to a million.
        seed: of positions and rotations.
    """
    figures, triangles = whole(figures, "figures", 1), whole(triangles, "triangles", 1000)
    if triangles > _MOST:
        raise ModelError(f"triangles must be at most {_MOST} per figure, got {triangles}")
    random, builder = np.random.default_rng(whole(seed, "seed", 0)), Builder("skeletons")
    builder.add_shape_plane(WORLD, friction=0.6)
    meshes: dict[Any, Any] = {}
    for k in range(figures):
        yaw = random.uniform(0.0, 2.0 * math.pi)
        c, s = math.cos(yaw), math.sin(yaw)
        # on the back: z of the figure along the ground, x up
        turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]) @ np.array(
            [[0.0, 0.0, -1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
        )
        at = np.array([*random.uniform(-0.25, 0.25, 2), 0.35 + 0.36 * k])
        _add_figure(builder, k, at, turn, meshes, triangles // _BONES)
    return builder.build()
