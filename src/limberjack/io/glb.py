"""Trajectories as binary glTF (.glb): one node per body, moved by an animation; opens in Blender, three.js and others.

Shapes of the same form share one mesh. glTF has y up: one node on top turns the world. Quaternions of
neighbouring frames have the same sign, so that interpolation takes the short way.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from limberjack.io.files import atomic_write
from limberjack.simulation.recorder import Bar
from limberjack.simulation.trajectory import Trajectory
from limberjack.spatial.frames import quaternion_from_matrix, turn_z_to
from limberjack.viewer import geometry
from limberjack.viewer.camera import bounds
from limberjack.viewer.drawing import Drawing, string_poses
from limberjack.viewer.film import require_frames
from limberjack.viewer.geometry import Geometry

__all__ = ["SQUARE", "Document", "continuous", "ground_squares", "write", "xyzw"]

_FLOAT, _SHORT, _INT = 5126, 5123, 5125
_VERTICES, _INDICES = 34962, 34963
_HALF = 0.7071067811865476
SQUARE = Geometry(
    np.array([[-1.0, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]]), np.tile([0.0, 0, 1], (4, 1)),
    np.array([[0, 1, 2], [0, 2, 3]]),
)  # fmt: skip


def write(trajectory: Trajectory, path: str | Path, *, progress: bool = False) -> None:
    """Write model and motion as one .glb file.

    Args:
        trajectory: the motion.
        path: the file.
        progress: show a progress bar.
    """
    require_frames(trajectory)
    drawing = Drawing(trajectory.model)
    with Bar(progress, trajectory.model.body_count, f"writing {Path(path).name}") as tick:
        file = Document(drawing, trajectory)
        file.add_bodies(tick)
        file.add_strings()
        file.add_ground()
        atomic_write(path, file.bytes())


def continuous(rotations: np.ndarray) -> np.ndarray:
    """Return quaternions (frames, ..., 4), each with the sign that is nearer to the one before."""
    dots = (rotations[1:] * rotations[:-1]).sum(axis=-1)
    signs = np.cumprod(np.where(dots < 0.0, -1.0, 1.0), axis=0)
    return np.concatenate([rotations[:1], rotations[1:] * signs[..., None]])


def ground_squares(drawing: Drawing, trajectory: Trajectory) -> Iterator[tuple[tuple[Any, Any], float, Any]]:
    """Yield, per endless plane, where a square that shows it is (quaternion, position), its half width and colour."""
    for ground in drawing.grounds:
        box = bounds(drawing, trajectory.positions[:1], trajectory.rotations[:1])
        middle, half = box.mean(axis=0), 5.0 * float((box[1] - box[0]).max())
        foot = middle - ((middle - ground.point) @ ground.normal) * ground.normal
        turn = quaternion_from_matrix(turn_z_to(ground.normal))
        yield (turn, foot), half, tuple(np.round(ground.color, 4).tolist())


class Document:
    """A glTF document under construction, and its binary part."""

    def __init__(self, drawing: Drawing, trajectory: Trajectory) -> None:
        self._drawing, self._trajectory = drawing, trajectory
        self._parts: list[bytes] = []
        self._length = 0
        self._views: list[dict[str, Any]] = []
        self._accessors: list[dict[str, Any]] = []
        self._meshes: list[dict[str, Any]] = []
        self._materials: list[dict[str, Any]] = []
        self.nodes: list[dict[str, Any]] = [
            {"name": trajectory.model.name, "rotation": [-_HALF, 0.0, 0.0, _HALF], "children": []}
        ]
        self._samplers: list[dict[str, Any]] = []
        self._channels: list[dict[str, Any]] = []
        self._known: dict[Any, int] = {}
        self.extensions: dict[str, Any] = {}
        self._surfaces: dict[Any, dict[str, Any]] = {}
        self._moves = len(trajectory) > 1 and trajectory.times[-1] > trajectory.times[0]
        if self._moves:
            # times must increase from frame to frame
            self._frames = np.flatnonzero(np.concatenate([[True], np.diff(trajectory.times) > 0.0]))
            times = (trajectory.times[self._frames] - trajectory.times[0]).astype(np.float32)
            grows = np.concatenate([[True], np.diff(times) > 0.0])
            self._frames, times = self._frames[grows], times[grows]
            self._times = self._accessor(times, "SCALAR", bounded=True)

    def _accessor(self, array: np.ndarray, kind: str, *, bounded: bool = False, target: int | None = None) -> int:
        data = np.ascontiguousarray(array)
        code = {"f": _FLOAT, "u": _SHORT if data.itemsize == 2 else _INT}[data.dtype.kind]
        view: dict[str, Any] = {"buffer": 0, "byteOffset": self._length, "byteLength": data.nbytes}
        if target is not None:
            view["target"] = target
        raw = data.tobytes()
        raw += b"\0" * (-len(raw) % 4)
        self._parts.append(raw)
        self._length += len(raw)
        self._views.append(view)
        count = len(data) if kind != "SCALAR" else data.size
        accessor: dict[str, Any] = {
            "bufferView": len(self._views) - 1, "componentType": code, "count": count, "type": kind,
        }  # fmt: skip
        if bounded:
            flat = data.reshape(count, -1)
            accessor |= {"min": flat.min(axis=0).tolist(), "max": flat.max(axis=0).tolist()}
        self._accessors.append(accessor)
        return len(self._accessors) - 1

    def _surface(self, key: Any, shape: Geometry) -> dict[str, Any]:
        if key not in self._surfaces:
            normals = shape.normals / np.linalg.norm(shape.normals, axis=1, keepdims=True)
            small = np.uint16 if len(shape.vertices) < 65535 else np.uint32
            vertices = self._accessor(shape.vertices.astype(np.float32), "VEC3", bounded=True, target=_VERTICES)
            normal = self._accessor(normals.astype(np.float32), "VEC3", target=_VERTICES)
            indices = self._accessor(shape.faces.astype(small).ravel(), "SCALAR", target=_INDICES)
            self._surfaces[key] = {"attributes": {"POSITION": vertices, "NORMAL": normal}, "indices": indices}
        return self._surfaces[key]

    def _mesh(self, key: Any, shape: Geometry, color: tuple[float, ...]) -> int:
        name = ("mesh", key, color)
        if name not in self._known:
            primitive = {**self._surface(key, shape), "material": self._material(color)}
            self._known[name] = len(self._meshes)
            self._meshes.append({"primitives": [primitive]})
        return self._known[name]

    def _material(self, color: tuple[float, ...]) -> int:
        name = ("material", color)
        if name not in self._known:
            linear = [round(float(c) ** 2.2, 6) for c in color]
            surface = {"baseColorFactor": [*linear, 1.0], "metallicFactor": 0.0, "roughnessFactor": 0.7}
            self._known[name] = len(self._materials)
            self._materials.append({"pbrMetallicRoughness": surface})
        return self._known[name]

    def node(self, node: dict[str, Any], parent: int = 0) -> int:
        """Add a node under `parent` and return its index."""
        self.nodes.append(node)
        self.nodes[parent].setdefault("children", []).append(len(self.nodes) - 1)
        return len(self.nodes) - 1

    def _animate(self, node: int, what: str, values: np.ndarray) -> None:
        """Animate a property of a node by `values`, one row per frame; a constant property is stored once."""
        if self._moves and (values[1:] != values[:1]).any():
            kind = "VEC4" if what == "rotation" else "VEC3"
            output = self._accessor(values[self._frames].astype(np.float32), kind)
            self._samplers.append({"input": self._times, "output": output, "interpolation": "LINEAR"})
            self._channels.append({"sampler": len(self._samplers) - 1, "target": {"node": node, "path": what}})

    def add_bodies(self, tick: Any) -> dict[str, int]:
        """Add a node for every body, with its parts, and its motion; return the nodes by name."""
        out: dict[str, int] = {}
        model, parts = self._drawing.model, self._drawing.parts
        positions, rotations = self._trajectory.positions, continuous(self._trajectory.rotations)
        order = np.argsort(parts.body, kind="stable")
        starts = np.searchsorted(parts.body[order], np.arange(-1, model.body_count + 1))
        for k in order[: starts[1]]:
            self._add_part(k, 0)
        for i, name in enumerate(model.body_names):
            position, turn = positions[:, i], xyzw(rotations[:, i])
            node = self.node({"name": name, "translation": _short(position[0]), "rotation": _unit(turn[0])})
            out[name] = node
            self._animate(node, "translation", position)
            self._animate(node, "rotation", turn)
            for k in order[starts[i + 1] : starts[i + 2]]:
                self._add_part(k, node)
            tick(1)
        return out

    def _add_part(self, k: int, parent: int) -> None:
        parts = self._drawing.parts
        key = int(parts.geometry[k])
        color = tuple(np.round(parts.color[k], 4).tolist())
        node: dict[str, Any] = {"mesh": self._mesh(key, self._drawing.geometries[key], color)}
        if parts.position[k].any():
            node["translation"] = _short(parts.position[k])
        if parts.rotation[k, 1:].any():
            node["rotation"] = _unit(xyzw(parts.rotation[k]))
        if (parts.scale[k] != 1.0).any():
            node["scale"] = _short(parts.scale[k])
        self.node(node, parent)

    def add_strings(self) -> None:
        """Add springs, ropes and rods as thin cylinders that stretch."""
        drawing, t = self._drawing, self._trajectory
        if not len(drawing.strings.a):
            return
        pairs = zip(t.positions, t.rotations, strict=True)
        ends = np.array([drawing.string_ends(p, r) for p, r in pairs])
        middles, turns, lengths = string_poses(ends)
        turns = continuous(turns)
        mesh = self._mesh("string", geometry.cylinder(8), drawing.string_color)
        for k in range(len(drawing.strings.a)):
            width = np.full(len(t), drawing.string_width)
            scale = np.stack([width, width, np.maximum(lengths[:, k], 1e-9)], axis=1)
            turn = xyzw(turns[:, k])
            node = self.node(
                {
                    "mesh": mesh,
                    "name": f"string {k}",
                    "translation": _short(middles[0, k]),
                    "rotation": _unit(turn[0]),
                    "scale": _short(scale[0]),
                }  # fmt: skip
            )
            for what, values in (("translation", middles[:, k]), ("rotation", turn), ("scale", scale)):
                self._animate(node, what, values)

    def add_ground(self) -> None:
        """Add endless planes as squares ten times as wide as the motion."""
        for (turn, foot), half, color in ground_squares(self._drawing, self._trajectory):
            self.node(
                {
                    "mesh": self._mesh("square", SQUARE, color),
                    "name": "ground",
                    "translation": _short(foot),
                    "rotation": _unit(xyzw(turn)),
                    "scale": [half, half, 1.0],
                }  # fmt: skip
            )

    def bare_mesh(self, vertices: np.ndarray, faces: np.ndarray) -> int:
        """Add a mesh of positions alone and return its index."""
        points = self._accessor(vertices.astype(np.float32), "VEC3", bounded=True, target=_VERTICES)
        indices = self._accessor(faces.astype(np.uint32).ravel(), "SCALAR", target=_INDICES)
        self._meshes.append({"primitives": [{"attributes": {"POSITION": points}, "indices": indices}]})
        return len(self._meshes) - 1

    def bytes(self) -> bytes:
        """Return the whole file, as .glb."""
        text = json.dumps(self.content(), separators=(",", ":")).encode()
        text += b" " * (-len(text) % 4)
        blocks = [struct.pack("<II", len(text), 0x4E4F534A), text]
        if self._length:
            blocks += [struct.pack("<II", self._length, 0x004E4942), *self._parts]
        total = 12 + sum(map(len, blocks))
        return b"".join([struct.pack("<III", 0x46546C67, 2, total), *blocks])

    def text(self) -> bytes:
        """Return the whole file as .gltf, its numbers in base64."""
        content = self.content()
        if self._length:
            packed = base64.b64encode(b"".join(self._parts)).decode()
            content["buffers"][0]["uri"] = f"data:application/octet-stream;base64,{packed}"
        return json.dumps(content, indent=1).encode()

    def content(self) -> dict[str, Any]:
        """Return the document without its binary part."""
        from limberjack import __version__

        document: dict[str, Any] = {
            "asset": {"version": "2.0", "generator": f"Limberjack {__version__}"},
            "scene": 0,
            "scenes": [{"nodes": [0]}],
            "nodes": self.nodes,
        }
        if not self.nodes[0]["children"]:
            del self.nodes[0]["children"]
        optional = {
            "meshes": self._meshes, "materials": self._materials, "accessors": self._accessors,
            "bufferViews": self._views,
        }  # fmt: skip
        document |= {name: value for name, value in optional.items() if value}
        if self._channels:
            document["animations"] = [{"name": "motion", "samplers": self._samplers, "channels": self._channels}]
        if self._length:
            document["buffers"] = [{"byteLength": self._length}]
        if self.extensions:
            document |= {"extensionsUsed": sorted(self.extensions), "extensions": self.extensions}
        return document


def xyzw(quaternion: np.ndarray) -> np.ndarray:
    """Return quaternions (w, x, y, z) in glTF's order."""
    return np.roll(quaternion, -1, axis=-1)


def _short(vector: np.ndarray) -> list[float]:
    return [float(f"{x:.9g}") for x in vector]


def _unit(quaternion: np.ndarray) -> list[float]:
    return [float(x) for x in quaternion / np.linalg.norm(quaternion)]
