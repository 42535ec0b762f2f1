"""The collision and visual elements of a URDF's links, as arguments of the builder."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from limberjack import _registry
from limberjack.errors import MissingExtra, ModelError
from limberjack.io import mesh_files
from limberjack.io.urdf_source import KNOWN, Source
from limberjack.io.xml import Element, Roots

__all__ = ["Shapes"]

# The sizes of each shape and how many numbers they are.
_SIZES = {
    "box": {"size": 3},
    "sphere": {"radius": 1},
    "cylinder": {"radius": 1, "length": 1},
    "capsule": {"radius": 1, "length": 1},
}
_SURFACE = {"friction": "lateral_friction", "restitution": "restitution"}

Shape = tuple[str, dict[str, Any]]


class Shapes:
    """Reads the shapes of links; each mesh file is loaded once.

    Args:
        source: the file being read.
        roots: where meshes may come from; None leaves meshes out.
        top: the element of the robot, for its materials.
        collision: "hull", "exact" or "none", see `lj.load`.
    """

    def __init__(self, source: Source, roots: Roots | None, top: Element, collision: str = "hull") -> None:
        self._source = source
        self._collision = collision
        self._roots = roots
        self._materials = _materials(source, top)
        self._meshes: dict[Path, tuple[np.ndarray, np.ndarray] | None] = {}

    def of_link(self, link: Element, name: str) -> list[Shape]:
        """Return (kind, arguments of the builder) of each shape of a link."""
        source, out = self._source, []
        surface = self._surface(link, f'link "{name}"')
        for tag in ("collision", "visual"):
            for i, node in enumerate(link.all(tag)):
                owner = f'link "{name}": {tag}'
                source.survey(node, f"link/{tag}")
                shape = self._geometry(owner, node)
                if shape is None:
                    continue
                position, rotation = source.origin(owner, node)
                options = {"position": position, "rotation": rotation, "name": f"{name}:{tag}{i}"}
                options |= surface if tag == "collision" else {"collide": False, "color": self._color(node)}
                if tag == "collision" and self._collision == "none":
                    options["collide"] = False
                elif tag == "collision" and shape[0] == "mesh":
                    options |= self._collision_mesh(owner, node, shape[1])
                out.append((shape[0], shape[1] | options))
        return out

    def _collision_mesh(self, owner: str, node: Element, mesh: dict[str, Any]) -> dict[str, Any]:
        """Return how a mesh collides, as options of the builder."""
        found = mesh_files.mesh_options(
            mesh["vertices"], mesh["faces"], True, self._collision,
            lambda text: self._source.warn(node, f"{owner}: {text}"),
        )  # fmt: skip
        return found or {"collide": False}

    def _color(self, visual: Element) -> tuple[float, ...] | None:
        material = visual.first("material")
        if material is None:
            return None
        return _rgba(self._source, material) or self._materials.get(material.get("name") or "")

    def _surface(self, link: Element, owner: str) -> dict[str, float]:
        """Return friction and restitution where a contact element gives them."""
        node = self._source.one(owner, link, "contact")
        if node is None:
            return {}
        self._source.survey(node, "link/contact")
        given = ((key, node.first(tag)) for key, tag in _SURFACE.items())
        return {key: self._source.number(owner, one, "value", 0.0) for key, one in given if one is not None}

    def _geometry(self, owner: str, node: Element) -> Shape | None:
        source = self._source
        geometry = source.one(owner, node, "geometry")
        known = []
        if geometry is not None:
            source.survey(geometry, f"link/{node.tag}/geometry")
            known = [child for child in geometry.children if child.tag in KNOWN["geometry"]]
        if not known:
            source.mend(geometry or node, f"{owner} has no geometry that is known", "it is left out")
            return None
        shape = known[0]
        if shape.tag == "mesh":
            return None if self._roots is None else self._mesh(owner, shape, self._roots)
        sizes = {key: source.numbers(owner, shape, key, (n,), ()) for key, n in _SIZES[shape.tag].items()}
        least = {"length": 0.0} if shape.tag == "capsule" else {}
        # A capsule without length is a sphere; nothing else may be flat.
        if any(not size or min(size) <= 0.0 and min(size) != least.get(key) for key, size in sizes.items()):
            text = " ".join(f'{key}="{shape.get(key) or ""}"' for key in sizes)
            source.mend(shape, f"{owner}: a {shape.tag} needs sizes > 0, got {text}", "it is left out")
            return None
        return shape.tag, {key: size if key == "size" else size[0] for key, size in sizes.items()}

    def _mesh(self, owner: str, node: Element, roots: Roots) -> Shape | None:
        source = self._source
        reference = (node.get("filename") or "").strip()
        if not reference:
            source.mend(node, f"{owner}: a mesh without a filename", "it is left out")
            return None
        scale = source.numbers(owner, node, "scale", (3, 1), (1.0,))
        scale = scale * 3 if len(scale) == 1 else scale
        if 0.0 in scale:
            source.mend(node, f'{owner}: mesh scale "{node.get("scale")}" is zero', "the mesh is left out")
            return None
        path = roots.find(reference, node.line)
        if path is None:
            source.warn(node, f'{owner}: mesh "{reference}" is not found; it is left out')
            return None
        loaded = self._load(owner, node, path)
        if loaded is None:
            return None
        vertices, faces = loaded
        # A scale that mirrors turns the triangles inside out: their order is turned back.
        faces = faces[:, ::-1] if math.prod(scale) < 0 else faces
        return "mesh", {"vertices": vertices * np.array(scale), "faces": faces}

    def _load(self, owner: str, node: Element, path: Path) -> tuple[np.ndarray, np.ndarray] | None:
        if path not in self._meshes:
            registered = path.suffix.lower() in _registry.suffixes("mesh reader")
            reader = _registry.lookup("mesh reader", path) if registered else mesh_files.read
            try:
                self._meshes[path] = reader(path)
            except (ModelError, MissingExtra) as error:
                self._meshes[path] = None
                self._source.warn(node, f"{owner}: mesh is left out: {error}")
        return self._meshes[path]


def _materials(source: Source, top: Element) -> dict[str, tuple[float, ...]]:
    """Return the colours of all named materials, wherever they are defined; the first definition stands."""
    out: dict[str, tuple[float, ...]] = {}
    visuals = (visual for link in top.all("link") for visual in link.all("visual"))
    for node in (*top.all("material"), *(node for visual in visuals for node in visual.all("material"))):
        name, rgba = node.get("name"), _rgba(source, node)
        if name and rgba is not None:
            out.setdefault(name, rgba)
    return out


def _rgba(source: Source, material: Element) -> tuple[float, ...] | None:
    """Return the colour a material is given, or None."""
    node = material.first("color")
    if node is None:
        return None
    owner = f'material "{material.get("name") or ""}"'
    rgba = source.numbers(owner, node, "rgba", (4, 3), (0.5, 0.5, 0.5, 1.0))
    rgba = rgba if len(rgba) == 4 else (*rgba, 1.0)
    if min(rgba) >= 0 and max(rgba) <= 1:
        return rgba
    problem = f'{owner}: colour "{node.get("rgba")}" is not within 0..1'
    if min(rgba) >= 0 and 1 < max(rgba[:3]) <= 255:
        source.mend(node, problem, "it is taken as 0..255")
        alpha = rgba[3] if rgba[3] <= 1 else rgba[3] / 255
        return (*(x / 255 for x in rgba[:3]), min(alpha, 1.0))
    source.mend(node, problem, "it is cut")
    return tuple(min(max(x, 0.0), 1.0) for x in rgba)
