"""Triangle meshes from files: STL, OBJ and COLLADA by readers of our own, PLY, OFF and glTF through trimesh.

Every reader gives triangles over shared vertices: vertices at exactly the same position are merged, so that a
closed surface is closed in its indices too. COLLADA is read for its triangles only: materials, which real
files get wrong, are ignored; units are applied and the up axis is not, as robot tools do.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from limberjack.collision.surfaces import closed_surface
from limberjack.errors import FileError, ModelError, require
from limberjack.io.xml import Element, parse_xml, read_bytes
from limberjack.spatial.frames import matrix_from_axis
from limberjack.spatial.hulls import convex_hull

__all__ = ["SUFFIXES", "mesh_options", "read"]

Mesh = tuple[np.ndarray, np.ndarray]

_STL_RECORD = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
_STL_VERTEX = re.compile(rb"\bvertex\s+(\S+)\s+(\S+)\s+(\S+)", re.IGNORECASE)
# Instances of instances multiply: a small file must not become an unbounded mesh.
_MOST_TRIANGLES = 20_000_000
# Bytes of one face of an OBJ file: some ten thousand corners, a hundred times those of drawings with large polygons.
_LONGEST_FACE = 2**20


def read(path: str | Path) -> Mesh:
    """Return the vertices (n, 3) [m] and the faces (m, 3) of a mesh file.

    Args:
        path: .stl, .obj, .dae, .ply, .off, .glb or .gltf; the last four need the extra "mesh".
    """
    path = Path(path)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise FileError(path, f'no mesh reader for "{path.suffix}"; there is {", ".join(SUFFIXES)}')
    vertices, faces = reader(path, read_bytes(path))
    if len(faces) == 0:
        raise FileError(path, "holds no triangles")
    if faces.min() < 0 or faces.max() >= len(vertices):
        wrong = faces[(faces < 0) | (faces >= len(vertices))][0]
        raise FileError(path, f"a face names vertex {int(wrong) + 1}, there are {len(vertices)}")
    if not np.isfinite(vertices[faces]).all():
        raise FileError(path, "a vertex is not finite")
    return _share(vertices, faces)


def mesh_options(
    vertices: np.ndarray, faces: np.ndarray, collide: bool, collision: str, warn: Callable[[str], None]
) -> dict[str, Any] | None:
    """Return the arguments of `add_shape_mesh` for a mesh of a robot; None where there is nothing to show or collide.

    Args:
        vertices, faces: the mesh; without faces its convex hull is meant.
        collide: whether it collides.
        collision: "hull", or "exact" where it is closed.
        warn: takes a message without the name of the mesh.
    """
    used = vertices[np.unique(faces)] if len(faces) else vertices
    hull = convex_hull(used) if collide or not len(faces) else None
    if not len(faces):
        if hull is None:
            warn("flat meshes without faces are left out")
            return None
        vertices, faces = hull.vertices, hull.faces
    if not collide:
        return {"vertices": vertices, "faces": faces, "collide": False}
    exact = collision == "exact"
    if exact:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                closed_surface(vertices, faces, "mesh")
        except ModelError:
            warn("open meshes collide as their convex hulls")
            exact = False
    if not exact and hull is None:
        warn("flat meshes do not collide")
    return {"vertices": vertices, "faces": faces, "collide": exact or hull is not None, "hull": not exact}


def _share(vertices: np.ndarray, faces: np.ndarray) -> Mesh:
    """Return the mesh with equal vertices made one, without unused vertices and triangles of two corners."""
    used = np.unique(faces)
    index_of = np.zeros(len(vertices), np.int64)
    index_of[used] = np.arange(len(used))
    # Adding zero makes -0.0 and 0.0 the same bits.
    points = np.ascontiguousarray(vertices[used]) + 0.0
    bits = points.view(np.uint64)
    with np.errstate(over="ignore"):
        mixed = bits * np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)
        mixed ^= mixed >> np.uint64(29)
        key = mixed[:, 0] + (mixed[:, 1] << np.uint64(1)) + (mixed[:, 2] << np.uint64(2))
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    if not np.array_equal(points[first][inverse], points):
        _, first, inverse = np.unique(points, axis=0, return_index=True, return_inverse=True)
    # Numbered by first appearance, which keeps the order of the file.
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    triangles = rank[inverse.reshape(-1)][index_of[faces]]
    a, b, c = triangles.T
    return points[first[order]], triangles[(a != b) & (b != c) & (c != a)]


def _read_stl(path: Path, data: bytes) -> Mesh:
    count = int.from_bytes(data[80:84], "little") if len(data) >= 84 else -1
    # Binary files may start with "solid" too: the size decides.
    if len(data) != 84 + 50 * count and data[:512].lstrip()[:5].lower() == b"solid":
        corners = _numbers(path, b" ".join(b" ".join(vertex) for vertex in _STL_VERTEX.findall(data)).split())
        if len(corners) % 9:
            raise FileError(path, f"{len(corners) // 3} vertices are no whole number of triangles")
    else:
        if count < 0 or len(data) < 84 + 50 * count:
            raise FileError(path, f"is cut short: {len(data)} bytes hold no STL of {max(count, 0)} triangles")
        with np.errstate(invalid="ignore"):
            corners = np.frombuffer(data, _STL_RECORD, count, 84)["corners"].astype(float)
    vertices = corners.reshape(-1, 3)
    return vertices, np.arange(len(vertices)).reshape(-1, 3)


def _read_obj(path: Path, data: bytes) -> Mesh:
    lines = [line.strip() for line in data.replace(b"\\\r\n", b" ").replace(b"\\\n", b" ").splitlines()]
    points = [line[1:].split() for line in lines if line[:2] in (b"v ", b"v\t")]
    if any(len(point) < 3 for point in points):
        short = (i for i, line in enumerate(lines, 1) if line.split()[:1] == [b"v"] and len(line.split()) < 4)
        raise FileError(path, "a vertex has fewer than 3 numbers", next(short))
    vertices = _numbers(path, [x for point in points for x in point[:3]]).reshape(-1, 3)
    faces: list[tuple[int, int, int]] = []
    seen = 0
    for number, line in enumerate(lines, 1):
        head = line[:2]
        if head in (b"v ", b"v\t"):
            seen += 1
        elif head in (b"f ", b"f\t"):
            if len(line) > _LONGEST_FACE:
                raise FileError(path, f"a face of {len(line)} bytes; the most is {_LONGEST_FACE}", number)
            try:
                corners = [int(corner.split(b"/", 1)[0]) for corner in line[1:].split()]
            except ValueError:
                corners = [0]
            if 0 in corners or any(abs(corner) > 2**62 for corner in corners):
                shown = line[:60].decode(errors="replace")
                raise FileError(path, f'"{shown}" is no list of vertices 1, 2, ...', number)
            # Negative numbers count back from the vertices seen so far.
            corner_indices = [corner - 1 if corner > 0 else seen + corner for corner in corners]
            faces += [(corner_indices[0], b, c) for b, c in zip(corner_indices[1:], corner_indices[2:], strict=False)]
    return vertices, np.array(faces, np.int64).reshape(-1, 3)


def _numbers(path: Path, words: list[bytes]) -> np.ndarray:
    try:
        return np.array([float(word) for word in words])
    except ValueError as error:
        raise FileError(path, f"not a number: {error}") from None


def _read_by_trimesh(path: Path, data: bytes) -> Mesh:
    trimesh = require("trimesh", "mesh")
    kind = path.suffix.lower()[1:]
    try:
        # From memory, without a resolver: whatever the file refers to is not opened.
        loaded: Any = trimesh.load(io.BytesIO(data), file_type=kind, process=False)
        parts = [(np.eye(4), loaded)]
        if hasattr(loaded, "graph"):
            placed = (loaded.graph[node] for node in loaded.graph.nodes_geometry)
            parts = [(np.asarray(transform, float), loaded.geometry[name]) for transform, name in placed]
        return _joined((frame, part.vertices, part.faces) for frame, part in parts if hasattr(part, "faces"))
    except Exception as error:
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        raise FileError(path, f"no readable {kind} mesh: {reason}") from None


def _joined(parts: Iterator[tuple[np.ndarray, Any, Any]]) -> Mesh:
    """Return one mesh of parts, each a frame (4, 4), vertices and faces; mirroring turns the faces over."""
    vertices, faces, count, total = [np.zeros((0, 3))], [np.zeros((0, 3), np.int64)], 0, 0
    for frame, points, triangles in parts:
        triangles = np.asarray(triangles, np.int64).reshape(-1, 3)
        total += len(triangles)
        if total > _MOST_TRIANGLES:
            raise ValueError(f"more than {_MOST_TRIANGLES} triangles")
        vertices.append(np.asarray(points, float).reshape(-1, 3) @ frame[:3, :3].T + frame[:3, 3])
        faces.append((triangles[:, ::-1] if np.linalg.det(frame[:3, :3]) < 0 else triangles) + count)
        count += len(vertices[-1])
    return np.concatenate(vertices), np.concatenate(faces)


def _read_collada(path: Path, data: bytes) -> Mesh:
    root = parse_xml(path, data)
    named = {node.attributes["id"]: node for node in root.walk() if "id" in node.attributes}
    unit = next((node.get("meter") for asset in root.all("asset") for node in asset.all("unit")), None)
    meshes: dict[int, list[Mesh]] = {}

    def parts() -> Iterator[tuple[np.ndarray, Any, Any]]:
        for frame, geometry in _instances(root, named):
            key = id(geometry)
            if key not in meshes:
                meshes[key] = [part for mesh in geometry.all("mesh") for part in _collada_parts(mesh, named)]
            for points, triangles in meshes[key]:
                yield frame, points, triangles

    try:
        vertices, faces = _joined(parts())
        return vertices * float(unit or 1.0), faces
    except (ValueError, IndexError, KeyError) as error:
        raise FileError(path, f"no readable COLLADA mesh: {error}") from None


def _instances(root: Element, named: dict[str, Element]) -> Iterator[tuple[np.ndarray, Element]]:
    """Yield each geometry that stands in the scene, with its frame; without a scene, each of them once."""
    scenes = [scene for library in root.all("library_visual_scenes") for scene in library.all("visual_scene")]
    shown = next((_target(i, named) for s in root.all("scene") for i in s.all("instance_visual_scene")), None)
    if not scenes:
        for library in root.all("library_geometries"):
            yield from ((np.eye(4), geometry) for geometry in library.all("geometry"))
        return
    stack = [(np.eye(4), shown or scenes[0], 0)]
    steps = 0
    while stack:
        above, node, depth = stack.pop()
        frame = above @ _frame(node)
        steps += 1
        if depth > 10_000 or steps > 100_000:
            raise ValueError("instances without end")
        below: list[tuple[np.ndarray, Element, int]] = []
        for child in node.children:
            if child.tag == "node":
                below.append((frame, child, depth + 1))
            elif child.tag == "instance_node":
                below.append((frame, _target(child, named), depth + 1))
            elif child.tag == "instance_geometry":
                yield frame, _target(child, named)
            elif child.tag == "instance_controller":
                for skin in _target(child, named).all("skin"):
                    bind = skin.first("bind_shape_matrix")
                    bound = frame if bind is None else frame @ _floats(bind, 16).reshape(4, 4)
                    yield bound, _target(skin, named)
        stack += reversed(below)


def _target(node: Element, named: dict[str, Element]) -> Element:
    reference = node.get("url") or node.get("source") or ""
    found = named.get(reference.removeprefix("#"))
    if found is None:
        raise ValueError(f'line {node.line}: <{node.tag}> refers to "{reference}", which is not there')
    return found


def _frame(node: Element) -> np.ndarray:
    """Return the product of a node's transforms, in file order."""
    out = np.eye(4)
    for child in node.children:
        step = np.eye(4)
        if child.tag == "matrix":
            step = _floats(child, 16).reshape(4, 4)
        elif child.tag == "translate":
            step[:3, 3] = _floats(child, 3)
        elif child.tag == "scale":
            step[:3, :3] = np.diag(_floats(child, 3))
        elif child.tag == "rotate":
            *axis, degrees = _floats(child, 4)
            length = math.hypot(*axis)
            if length > 0:
                step[:3, :3] = matrix_from_axis(np.array(axis) / length, np.radians(degrees))
        else:
            continue
        out = out @ step
    return out


def _collada_parts(mesh: Element, named: dict[str, Element]) -> Iterator[Mesh]:
    """Yield the triangles of each primitive of a mesh."""
    for node in mesh.children:
        if node.tag not in ("triangles", "polylist", "polygons", "tristrips", "trifans"):
            continue
        vertex = _input(node, "VERTEX")
        offsets = [int(one.get("offset") or 0) for one in node.all("input")]
        if min(offsets) < 0 or max(offsets) > 64:
            raise ValueError(f"line {node.line}: <{node.tag}> has inputs at {offsets}")
        source = _target(vertex, named)
        if source.tag == "vertices":
            source = _target(_input(source, "POSITION"), named)
        corner, step = int(vertex.get("offset") or 0), max(offsets) + 1
        yield _positions(source), _triangulated(node, [_integers(p)[corner::step] for p in node.all("p")])


def _input(node: Element, semantic: str) -> Element:
    for one in node.all("input"):
        if one.get("semantic") == semantic:
            return one
    raise ValueError(f"line {node.line}: <{node.tag}> without {semantic}")


def _positions(source: Element) -> np.ndarray:
    array = source.first("float_array")
    if array is None:
        raise ValueError(f"line {source.line}: a source of positions without numbers")
    common = source.first("technique_common")
    accessor = common.first("accessor") if common else None
    stride = int((accessor.get("stride") if accessor else None) or 3)
    start = int((accessor.get("offset") if accessor else None) or 0)
    values = _floats(array)[max(start, 0) :]
    if stride < 3:
        raise ValueError(f"line {source.line}: positions of {stride} numbers")
    return values[: len(values) // stride * stride].reshape(-1, stride)[:, :3]


def _triangulated(node: Element, runs: list[np.ndarray]) -> np.ndarray:
    """Return (m, 3) triangles of a primitive's runs of vertex numbers."""
    none = np.zeros((0, 3), np.int64)
    if node.tag == "triangles":
        return np.concatenate([none, *(run[: len(run) // 3 * 3].reshape(-1, 3) for run in runs)])
    if node.tag == "tristrips":
        strips = [np.stack([run[:-2], run[1:-1], run[2:]], 1) for run in runs if len(run) > 2]
        for strip in strips:
            strip[1::2] = strip[1::2, ::-1]
        return np.concatenate([none, *strips])
    if node.tag == "polylist":
        sizes = [_integers(counts) for counts in node.all("vcount")]
        ends = np.cumsum(np.concatenate(sizes)) if sizes else np.zeros(0, np.int64)
        whole = np.concatenate(runs) if runs else np.zeros(0, np.int64)
        if len(ends) and (ends[-1] > len(whole) or min(map(np.min, sizes)) < 0):
            raise ValueError(f"line {node.line}: a polylist of {ends[-1]} corners has {len(whole)}")
        runs = np.split(whole, ends[:-1]) if len(ends) else []
    fans = [np.stack([np.repeat(run[:1], len(run) - 2), run[1:-1], run[2:]], 1) for run in runs if len(run) > 2]
    return np.concatenate([none, *fans])


def _floats(node: Element, count: int | None = None) -> np.ndarray:
    out = _plain(node, float)
    if count is not None and len(out) != count:
        raise ValueError(f"line {node.line}: <{node.tag}> holds {len(out)} numbers, {count} are needed")
    return out


def _integers(node: Element) -> np.ndarray:
    return _plain(node, np.int64)


def _plain(node: Element, kind: Any) -> np.ndarray:
    """Return the numbers of an element's text, by NumPy's scanner, which warns where it meets no number."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return np.fromstring(node.text, kind, sep=" ")
        except (DeprecationWarning, ValueError):
            raise ValueError(f"line {node.line}: <{node.tag}> holds something that is no number") from None


_READERS: dict[str, Callable[[Path, bytes], Mesh]] = {
    ".stl": _read_stl,
    ".obj": _read_obj,
    ".dae": _read_collada,
    **dict.fromkeys((".ply", ".off", ".glb", ".gltf"), _read_by_trimesh),
}

SUFFIXES = tuple(sorted(_READERS))
