"""Writing URDF: links, joints, inertias, shapes and mimics of a tree.

In URDF the joint frame is the child link's frame: a link's frame is therefore that of the joint above it, wherever the
body's own is; coordinates are the same. One root that floats is written as the root link (`lj.load(path, base="free")`
frees it again); anything else hangs on a root link called "world". Meshes go beside the file. What URDF has no place
for is named, one `ModelWarning` per kind; what would change the mechanism is refused.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np

from limberjack.errors import FileError
from limberjack.io.files import Notes, atomic_write
from limberjack.io.tree_frames import Frame, TreeBody, inertia_in, refuse, tree_bodies
from limberjack.model.model import Model
from limberjack.model.spec import WORLD, Shape
from limberjack.spatial.frames import compose, invert, matrix_from_quaternion

__all__ = ["write"]

_TYPES = {"hinge": "revolute", "slide": "prismatic", "fixed": "fixed", "planar": "planar", "ball": "spherical",
          "free": "floating"}  # fmt: skip
# URDF has no way to say "no limit" for a prismatic joint, nor for the force and speed of a revolute one.
_FAR = 1e9


def write(model: Model, path: str | Path) -> None:
    """Write `model` as a URDF file, its meshes beside it."""
    file = _File(model, Path(path))
    file.add_links()
    file.add_joints()
    file.notes.warn()
    ET.indent(file.root)
    for mesh, text in file.meshes.items():
        atomic_write(mesh, text)
    atomic_write(path, ET.tostring(file.root, encoding="utf-8", xml_declaration=True) + b"\n")


def _text(*numbers: Any) -> str:
    return " ".join(repr(float(x) + 0.0) for x in np.hstack(numbers))


def _origin(node: ET.Element, frame: Frame) -> None:
    """Write a frame as xyz and roll, pitch, yaw: R = Rz(yaw) Ry(pitch) Rx(roll)."""
    r, p = frame
    pitch = np.arctan2(-r[2, 0], np.hypot(r[0, 0], r[1, 0]))
    if np.hypot(r[0, 0], r[1, 0]) > 1e-12:
        angles = np.arctan2(r[2, 1], r[2, 2]), pitch, np.arctan2(r[1, 0], r[0, 0])
    else:  # only the sum, or difference, of roll and yaw is known
        angles = np.arctan2(-r[1, 2], r[1, 1]), pitch, 0.0
    if np.any(p) or np.any(angles):
        ET.SubElement(node, "origin", xyz=_text(p), rpy=_text(angles))


class _File:
    """A URDF document under construction, and the mesh files beside it."""

    def __init__(self, model: Model, path: Path) -> None:
        refuse(model, path, ("gear",), "URDF")
        self._model, self._path, self.notes = model, path, Notes(path)
        self._bodies = tree_bodies(model, path, one_frame=True)
        self._shift = {WORLD: (np.eye(3), np.zeros(3))} | {body.name: body.shift for body in self._bodies}
        roots = [body for body in self._bodies if body.parent == WORLD]
        shown = any(shape.body == WORLD for shape in model.shapes)
        self._floats = len(roots) == 1 and roots[0].joint.kind == "free" and not shown
        self.root = ET.Element("robot", name=model.name)
        self.meshes: dict[Path, bytes] = {}

    def add_links(self) -> None:
        """Add every link with its inertia and shapes."""
        links = {} if self._floats else {WORLD: ET.SubElement(self.root, "link", name=WORLD)}
        for body in self._bodies:
            node = links[body.name] = ET.SubElement(self.root, "link", name=body.name)
            mass, com, inertia = inertia_in(self._model, body)
            if mass > 0.0:
                own = ET.SubElement(node, "inertial")
                _origin(own, (np.eye(3), com))
                ET.SubElement(own, "mass", value=_text(mass))
                words = {"ixx": (0, 0), "iyy": (1, 1), "izz": (2, 2), "ixy": (0, 1), "ixz": (0, 2), "iyz": (1, 2)}
                ET.SubElement(own, "inertia", {word: _text(inertia[at]) for word, at in words.items()})
        for k, shape in enumerate(self._model.shapes):
            self._add_shape(links[shape.body], shape, k)
        if not np.array_equal(self._model.gravity, (0.0, 0.0, -9.81)):
            self.notes.add("gravity is left out: readers of URDF take their own", _text(self._model.gravity))
        for what in ("springs", "points", "actuators", "tendons"):
            names = [one.name for one in getattr(self._model, what)]
            for name in names:
                self.notes.add(f"{what} are left out", name)

    def _add_shape(self, link: ET.Element, shape: Shape, k: int) -> None:
        size = shape.size
        attributes = {"sphere": ("radius",), "capsule": ("radius", "length"), "cylinder": ("radius", "length")}
        if shape.kind == "plane":
            self.notes.add("planes are left out", shape.name)
            return
        here = matrix_from_quaternion(np.array(shape.rotation)), np.array(shape.position)
        frame = compose(*invert(*self._shift[shape.body]), *here)
        form = ET.Element(shape.kind)
        if shape.kind == "box":
            form.set("size", _text(size))
        elif shape.kind == "mesh":
            mesh = self._path.with_name(f"{self._path.stem}-{k}.obj")
            self.meshes[mesh] = _obj(shape)
            form.set("filename", mesh.name)
        elif shape.kind in attributes:
            for word, value in zip(attributes[shape.kind], size, strict=True):
                form.set(word, _text(value))
        else:
            raise FileError(self._path, f'shape "{shape.name}" is a {shape.kind}, which URDF does not have')
        for tag in ("collision", "visual") if shape.collide else ("visual",):
            node = ET.SubElement(link, tag, name=shape.name)
            _origin(node, frame)
            ET.SubElement(node, "geometry").append(form)
            if tag == "visual" and shape.color is not None:
                color = shape.color if len(shape.color) == 4 else (*shape.color, 1.0)
                ET.SubElement(ET.SubElement(node, "material", name=f"color{k}"), "color", rgba=_text(color))

    def add_joints(self) -> None:
        """Add every joint of the tree, and gears as mimics."""
        gears = {name: self._model.joint_spec(name) for name in self._model.loop_names}
        mimics = {gear.parent: gear for gear in gears.values()}
        for body in self._bodies:
            if self._floats and body.parent == WORLD:
                continue
            node = self._add_joint(body)
            gear = mimics.get(body.joint.name)
            if gear is not None:
                if gear.carrier is not None or len(mimics) < len(gears):
                    raise FileError(self._path, f'gear "{gear.name}" is none that a mimic can be')
                ET.SubElement(
                    node, "mimic", joint=gear.child, multiplier=_text(gear.ratio), offset=_text(gear.offset)
                )  # fmt: skip
        if self._model.q0.any() or self._model.qd0.any():
            self._note_start()

    def _note_start(self) -> None:
        for name in self._model.joint_names:
            info = self._model.joint(name)
            if not info.is_loop and info.kind in ("hinge", "slide") and self._model.q0[info.q].any():
                self.notes.add("start coordinates are left out: URDF starts at q = 0", name)

    def _add_joint(self, body: TreeBody) -> ET.Element:
        joint = body.joint
        kind = _TYPES.get(joint.kind)
        if kind is None:
            raise FileError(
                self._path,
                f'joint "{joint.name}" is of kind "{joint.kind}"; URDF has {", ".join(_TYPES)}: write .xml or .json',
            )
        own = next(iter(body.properties.values()), None)
        if kind == "revolute" and (own is None or own.limits is None):
            kind = "continuous"
        node = ET.SubElement(self.root, "joint", name=joint.name, type=kind)
        ET.SubElement(node, "parent", link=body.parent)
        ET.SubElement(node, "child", link=body.name)
        start = self._model.q0[self._model.joint(joint.name).q]
        _origin(node, body.above if kind != "floating" else (matrix_from_quaternion(start[3:]), start[:3]))
        if kind in ("revolute", "continuous", "prismatic", "planar"):
            ET.SubElement(node, "axis", xyz=_text(body.factors[-1].axis))
        if kind in ("revolute", "prismatic"):
            low, high = (own.limits if own is not None and own.limits is not None else None) or (-_FAR, _FAR)
            limits = {"lower": max(low, -_FAR), "upper": min(high, _FAR), "effort": _FAR, "velocity": _FAR}
            if own is not None and own.motor is not None and np.isfinite(own.motor.max):
                limits["effort"] = own.motor.max
            ET.SubElement(node, "limit", {word: _text(value) for word, value in limits.items()})
        self._dynamics(node, body)
        return node

    def _dynamics(self, node: ET.Element, body: TreeBody) -> None:
        """Write damping and friction; name the rest."""
        name, every = body.joint.name, body.properties.values()
        found: dict[str, str] = {}
        for word in ("damping", "friction"):
            numbers = np.hstack([np.zeros(0), *(getattr(one, word) for one in every)])
            if numbers.any():
                found[word] = _text(numbers.mean())
                if (numbers != numbers[0]).any():
                    self.notes.add(f"{word} that differs from dof to dof is written as its mean", name)
        if found:
            ET.SubElement(node, "dynamics", found)
        left_out = {
            "armature": "armature of joints is left out",
            "stiffness": "springs of joints are left out",
            "motor": "motors are left out",
            "limit_stiffness": "soft limits are written as hard ones",
        }
        for word, what in left_out.items():
            if any(np.any(np.not_equal(value, 0.0)) for one in every if (value := getattr(one, word)) is not None):
                self.notes.add(what, name)


def _obj(shape: Shape) -> bytes:
    """Return a mesh as text of an .obj file."""
    vertices: Any = shape.vertices
    faces: Any = shape.faces
    lines = [f"v {_text(vertex)}" for vertex in vertices]
    lines += ["f " + " ".join(str(k + 1) for k in face) for face in faces.tolist()]
    return ("\n".join(lines) + "\n").encode()
