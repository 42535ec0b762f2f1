"""Models as glTF with `KHR_physics_rigid_bodies` and `KHR_implicit_shapes`: bodies, joints, drives, colliders.

A body is a node with a motion; a joint a pair of nodes, one in each body, whose frames the limits bring together. What
no limit names is free. glTF has y up and no gravity: one node turns the world, and a model from another program has
(0, 0, -9.81). Bodies are placed at the start of the model. Screws, gears, compound joints and other kinds that limits
cannot describe are refused by name.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from limberjack.errors import FileError, ModelError
from limberjack.io.files import Notes, Taken, atomic_write
from limberjack.io.glb import Document, xyzw
from limberjack.io.mesh_files import mesh_options
from limberjack.io.tree_frames import Frame
from limberjack.io.xml import Roots, read_bytes
from limberjack.model.builder import Builder
from limberjack.model.compile import joint_frames, properties_of
from limberjack.model.joints import KINDS, PUSH, SPIN, TURN, factors_of
from limberjack.model.model import Model
from limberjack.model.registered import RegisteredConstraint
from limberjack.model.spec import WORLD, Joint, Motor, Shape
from limberjack.reduced.dynamics import forward_kinematics
from limberjack.simulation.trajectory import Trajectory
from limberjack.spatial.frames import compose, invert, matrix_from_quaternion, quaternion_from_matrix
from limberjack.viewer.drawing import Drawing

__all__ = ["read", "write"]

_PHYSICS, _SHAPES = "KHR_physics_rigid_bodies", "KHR_implicit_shapes"
_MARK = "limberjack"
# Round shapes stand along y and planes face y in glTF, z here: a turn about x takes one to the other.
_Y_TO_Z = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
# Which axes (rotations, then translations) each kind leaves free; free joints have no joint at all.
_FREE_AXES = {
    "".join("0" if locked else "1" for locked in kind.mask): name
    for name, kind in KINDS.items()
    if not kind.coupled and name not in ("free", "fixed")
} | {"110000": "universal", "000000": "fixed"}


# -- out -------------------------------------------------------------------------------------------


def write(model: Model, path: str | Path) -> None:
    """Write `model` at its start, with its physics, as .glb or .gltf, atomically."""
    file = _Writer(model, path)
    file.add_motions()
    file.add_joints()
    file.add_shapes()
    file.notes.warn()
    document = file.finished()
    atomic_write(path, document.text() if Path(path).suffix.lower() == ".gltf" else document.bytes())


class _Writer:
    """A document with physics under construction."""

    def __init__(self, model: Model, path: str | Path) -> None:
        self._model, self._path, self.notes = model, path, Notes(path)
        for body in model.spec.bodies:
            if body.body_kind != "rigid":
                raise FileError(path, f'body "{body.name}" is of kind "{body.body_kind}"; glTF has rigid bodies only')
        trajectory = Trajectory(model, [0.0], model.q0[None], model.qd0[None])
        self._document = Document(Drawing(model), trajectory)
        self._nodes = {WORLD: 0} | self._document.add_bodies(lambda n: None)
        for node in self._document.nodes:
            if "mesh" in node:
                node["extras"] = {_MARK: {"drawn": True}}  # the shapes themselves are nodes of their own
        self._document.nodes[0]["extras"] = {_MARK: {"gravity": model.gravity.tolist()}}
        self._physics: dict[str, list[Any]] = {"physicsMaterials": [], "physicsJoints": []}
        self._implicit: list[dict[str, Any]] = []

    def finished(self) -> Document:
        """Return the document with the tables that its nodes refer to."""
        top = {name: table for name, table in self._physics.items() if table}
        self._document.extensions[_PHYSICS] = top
        if self._implicit:
            self._document.extensions[_SHAPES] = {"shapes": self._implicit}
        return self._document

    def add_motions(self) -> None:
        """Give every body its mass, and velocity where it floats."""
        positions, rotations = forward_kinematics(self._model, self._model.q0)
        for k, body in enumerate(self._model.body_names):
            info, node = self._model.body(body), self._document.nodes[self._nodes[body]]
            node |= {"translation": positions[k].tolist(), "rotation": xyzw(rotations[k]).tolist()}
            moments, axes = np.linalg.eigh(info.inertia)
            moments = np.maximum(moments, 0.0)
            if np.linalg.det(axes) < 0.0:
                axes[:, 0] = -axes[:, 0]
            motion: dict[str, Any] = {"centerOfMass": info.com.tolist()}
            if info.mass > 0.0:
                if not moments.all():
                    raise FileError(
                        self._path, f'body "{body}" has a moment of inertia of 0, which means infinity in glTF'
                    )
                turn = xyzw(quaternion_from_matrix(axes)).tolist()
                motion |= {"mass": info.mass, "inertiaDiagonal": moments.tolist(), "inertiaOrientation": turn}
            joint = self._model.joint(info.joint)
            if joint.kind == "free":
                node["extras"] = {_MARK: {"free": info.joint}}
                speed = self._model.qd0[joint.v]
                if speed.any():
                    turn = matrix_from_quaternion(rotations[k])
                    motion |= {"linearVelocity": (turn.T @ speed[:3]).tolist(), "angularVelocity": speed[3:].tolist()}
            elif self._model.qd0[joint.v].any():
                self.notes.add("start velocities of joints are left out", info.joint)
            spare = next(one for one in self._model.spec.bodies if one.name == body).gravity_compensation
            if spare:
                motion["gravityFactor"] = 1.0 - spare
            if any(_is_kinematic(one, body) for one in self._model.spec.joints):
                motion["isKinematic"] = True
            node["extensions"] = {_PHYSICS: {"motion": motion}}

    def add_joints(self) -> None:
        """Add every joint but those that leave a body free."""
        for name in self._model.joint_names:
            joint = self._model.joint_spec(name)
            if joint.kind == "free" or _is_kinematic(joint, joint.child):
                continue
            if isinstance(joint, RegisteredConstraint) or joint.kind not in (*_FREE_AXES.values(), "distance"):
                raise FileError(self._path, f'joint "{name}" is of kind "{joint.kind}", which glTF cannot describe')
            r_a, p_a, r_b, p_b = joint_frames(joint)
            sides = [
                self._document.node(_framed({"name": f"{name}:{word}"}, (r, p)), self._nodes[body])
                for word, body, r, p in (("parent", joint.parent, r_a, p_a), ("child", joint.child, r_b, p_b))
            ]
            table = self._physics["physicsJoints"]
            own = self._document.nodes[sides[0]]
            own["name"] = name
            own["extensions"] = {_PHYSICS: {"joint": {"connectedNode": sides[1], "joint": len(table)}}}
            table.append(self._described(joint))

    def _described(self, joint: Joint) -> dict[str, Any]:
        """Return limits and drives of a joint."""
        if joint.kind == "distance":
            low = {} if joint.rope else {"min": joint.length}
            return {"limits": [{"linearAxes": [0, 1, 2], "max": joint.length, **low}]}
        free = next(axes for axes, name in _FREE_AXES.items() if name == joint.kind)
        limits: list[dict[str, Any]] = [
            {("angularAxes", "linearAxes")[k // 3]: [k % 3], "min": 0.0, "max": 0.0}
            for k, letter in enumerate(free)
            if letter == "0"
        ]
        drives: list[dict[str, Any]] = []
        factors = {f.v: f for f in factors_of(joint)}
        for own in properties_of(joint):
            f = factors[own.v]
            axes = [0, 1, 2] if f.kind == SPIN else [int(np.argmax(np.abs(f.axis)))]
            where = "linearAxes" if f.kind == PUSH else "angularAxes"
            if own.limits is not None:
                low, high = own.limits
                limit: dict[str, Any] = {where: axes}
                limit |= {"min": low} if math.isfinite(low) and f.kind != SPIN else {}
                limit |= {"max": high} if math.isfinite(high) else {}
                if own.limit_stiffness:
                    limit |= {"stiffness": own.limit_stiffness, "damping": own.limit_damping or 0.0}
                limits.append(limit)
            drives += self._drives(joint, own, f.kind, axes)
            for word in ("armature", "friction"):
                if np.any(getattr(own, word)):
                    self.notes.add(f"{word} of joints is left out", joint.name)
        if joint.cone is not None:
            limits.append({"angularAxes": [0, 1], "max": joint.cone})
        if joint.twist is not None:
            limits.append({"angularAxes": [2], "min": joint.twist[0], "max": joint.twist[1]})
        return {"limits": limits} | ({"drives": drives} if drives else {})

    def _drives(self, joint: Joint, own: Any, kind: int, axes: list[int]) -> list[dict[str, Any]]:
        """Return the spring and damper, and the motor, of a dof as drives."""
        word = "linear" if kind == PUSH else "angular"
        out: list[dict[str, Any]] = []
        if kind == SPIN and (own.motor is not None or (own.stiffness and tuple(own.rest) != (1.0, 0.0, 0.0, 0.0))):
            self.notes.add("motors and rest orientations of balls are left out", joint.name)
        for k, axis in enumerate(axes):
            drive: dict[str, Any] = {"type": word, "mode": "force", "axis": axis}
            damping = own.damping[min(k, len(own.damping) - 1)]
            if damping or own.stiffness:
                target = 0.0 if kind == SPIN else float(own.rest[0])
                out.append(drive | {"stiffness": own.stiffness, "damping": damping, "positionTarget": target})
            motor = own.motor
            if motor is not None and kind != SPIN:
                aim = motor.target if isinstance(motor.target, (int, float)) else motor.target[0]
                pull = {"stiffness": motor.kp, "damping": motor.kd, "positionTarget": aim}
                pull["velocityTarget"] = motor.velocity
                out.append(drive | pull | ({"maxForce": motor.max} if math.isfinite(motor.max) else {}))
        return out

    def add_shapes(self) -> None:
        """Add a node for every shape: a collider, or with `collide=False` one that only this package reads."""
        for shape in self._model.shapes:
            geometry, turn = self._geometry(shape)
            here = matrix_from_quaternion(np.array(shape.rotation)) @ turn, np.array(shape.position)
            node = _framed({"name": shape.name}, here)
            kept: dict[str, Any] = {"color": shape.color, "group": shape.group, "frictionRule": shape.friction_rule}
            if shape.collide:
                collider = {"geometry": geometry, "physicsMaterial": self._material(shape)}
                node["extensions"] = {_PHYSICS: {"collider": collider}}
            else:
                kept["shape"] = geometry
            node["extras"] = {_MARK: {word: value for word, value in kept.items() if value is not None}}
            self._document.node(node, self._nodes[shape.body])
        for what in ("springs", "points", "actuators", "tendons"):
            for one in getattr(self._model, what):
                self.notes.add(f"{what} are left out", one.name)

    def _geometry(self, shape: Shape) -> tuple[dict[str, Any], np.ndarray]:
        """Return the geometry of a shape, and how its frame is turned."""
        size = shape.size
        if shape.kind == "mesh":
            vertices: Any = shape.vertices
            faces: Any = shape.faces
            mesh = self._document.bare_mesh(vertices, faces)
            return {"mesh": mesh, "convexHull": shape.hull}, np.eye(3)
        own: dict[str, Any] = {}
        if shape.kind in ("capsule", "cylinder"):
            own = {"height": size[1], "radiusBottom": size[0], "radiusTop": size[0]}
        elif shape.kind == "sphere":
            own = {"radius": size[0]}
        elif shape.kind == "box":
            own = {"size": list(size)}
        elif shape.kind != "plane":
            raise FileError(self._path, f'shape "{shape.name}" is a {shape.kind}, which glTF cannot describe')
        entry = {"type": shape.kind, shape.kind: own}
        if entry not in self._implicit:
            self._implicit.append(entry)
        upright = shape.kind in ("capsule", "cylinder", "plane")
        return {"shape": self._implicit.index(entry)}, _Y_TO_Z if upright else np.eye(3)

    def _material(self, shape: Shape) -> int:
        table = self._physics["physicsMaterials"]
        entry: dict[str, Any] = {
            "staticFriction": shape.friction,
            "dynamicFriction": shape.friction,
            "restitution": shape.restitution,
        }
        entry["restitutionCombine"] = "maximum"
        if shape.torsional_friction or shape.rolling_friction or shape.margin:
            self.notes.add("torsional and rolling friction and margins are left out", shape.name)
        if entry not in table:
            table.append(entry)
        return table.index(entry)


def _is_kinematic(joint: Joint, body: str) -> bool:
    return isinstance(joint, RegisteredConstraint) and joint.kind == "kinematic" and joint.child == body


def _framed(node: dict[str, Any], frame: Frame) -> dict[str, Any]:
    """Return a node with the frame as its transform, to the last bit."""
    r, p = frame
    if np.any(p):
        node["translation"] = p.tolist()
    turn = quaternion_from_matrix(r)
    if np.any(turn[1:]):
        node["rotation"] = xyzw(turn).tolist()
    return node


# -- in --------------------------------------------------------------------------------------------


def read(
    path: Path,
    *,
    repair: bool = True,
    base: str = "fixed",
    roots: Sequence[Path] = (),
    package_paths: Sequence[Path] = (),
    collision: str = "hull",
) -> Model:
    """Return the model in a glTF file that has physics.

    Args:
        path: a .glb or .gltf file.
        repair: ignored.
        base: ignored: glTF says how bodies are connected.
        roots: further folders that buffers may come from.
        package_paths: ignored.
        collision: "hull": meshes collide as the file says; "exact": as they are, where they are closed; "none": nothing
            collides.
    """
    del repair, base, package_paths
    try:
        return _Reader(Path(path), roots, collision).model()
    except FileError:
        raise
    except ModelError as error:
        raise FileError(path, str(error)) from error
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, struct.error) as error:
        reason = f"{type(error).__name__}: {str(error)[:400]}"
        raise FileError(path, f"is no valid glTF with physics: {reason}") from error


class _Reader:
    """A glTF document that is read."""

    def __init__(self, path: Path, roots: Sequence[Path], collision: str) -> None:
        self._path, self._collision = path, collision
        data = read_bytes(path)
        self._binary = b""
        if data[:4] == b"glTF":
            data = self._chunks(data)
        try:
            self._document: dict[str, Any] = json.loads(data)
            self._nodes: list[dict[str, Any]] = self._document.get("nodes", [])
            top = self._document.get("extensions", {})
        except (ValueError, AttributeError, RecursionError) as error:
            raise FileError(path, f"is no glTF: {error}") from error
        used = self._document.get("extensionsUsed", [])
        if _PHYSICS not in used:
            listed = ", ".join(used) or "none"
            raise FileError(
                path, f"has no {_PHYSICS} (extensions: {listed}): a mesh; give it to add_shape_mesh of a body"
            )
        self._physics = top.get(_PHYSICS, {})
        self._implicit = top.get(_SHAPES, {}).get("shapes", [])
        self._buffers = [self._buffer(one, Roots(path, roots)) for one in self._document.get("buffers", [])]
        self.notes = Notes(path)
        self._place()

    def _chunks(self, data: bytes) -> bytes:
        """Return the text of a .glb file, and keep its binary part."""
        text, at = b"", 12
        while at + 8 <= len(data):
            length, kind = struct.unpack_from("<II", data, at)
            if kind == 0x4E4F534A:
                text = data[at + 8 : at + 8 + length]
            elif kind == 0x004E4942:
                self._binary = data[at + 8 : at + 8 + length]
            at += 8 + length + (-length % 4)
        return text

    def _buffer(self, entry: dict[str, Any], roots: Roots) -> bytes:
        uri = entry.get("uri")
        if uri is None:
            return self._binary
        if uri.startswith("data:"):
            try:
                return base64.b64decode(uri.partition(",")[2], validate=True)
            except binascii.Error as error:
                raise FileError(self._path, f"a buffer is no base64: {error}") from error
        found = roots.find(unquote(uri), 0)
        if found is None:
            raise FileError(self._path, f'buffer "{uri}" is not found')
        return read_bytes(found)

    def _place(self) -> None:
        """Find every node's parent, pose and scale in the world here, and the body it belongs to."""
        count = len(self._nodes)
        self._parent = [-1] * count
        for i, node in enumerate(self._nodes):
            for child in node.get("children", ()):
                if not 0 <= child < count or self._parent[child] >= 0 or child == i:
                    raise FileError(self._path, f"node {i}: its child {child} has another parent, or is not there")
                self._parent[child] = i
        self._frames: list[Frame] = [(np.eye(3), np.zeros(3))] * count
        self._scales = [np.ones(3)] * count
        self._body = [-1] * count
        done = 0
        level = [i for i in range(count) if self._parent[i] < 0]
        while level:
            done += len(level)
            for i in level:
                self._place_node(i)
            level = [child for i in level for child in self._nodes[i].get("children", ())]
        if done < count:
            raise FileError(self._path, "nodes are children of each other in a circle")

    def _place_node(self, i: int) -> None:
        node, above = self._nodes[i], self._parent[i]
        outer = (_Y_TO_Z, np.zeros(3)) if above < 0 else self._frames[above]
        scale = np.ones(3) if above < 0 else self._scales[above]
        if "matrix" in node:
            m = np.array(node["matrix"], float).reshape(4, 4).T
            own = np.linalg.norm(m[:3, :3], axis=0)
            here = m[:3, :3] / own, m[:3, 3]
        else:
            turn = np.roll(np.array(node.get("rotation", (0.0, 0.0, 0.0, 1.0)), float), 1)
            here = matrix_from_quaternion(turn), np.array(node.get("translation", (0.0,) * 3), float)
            own = np.array(node.get("scale", (1.0,) * 3), float)
        if not all(np.isfinite(x).all() for x in (*here, own)):
            raise FileError(self._path, f"node {i}: its transform is not finite")
        self._frames[i] = compose(*outer, here[0], here[1] * scale)
        self._scales[i] = scale * own
        self._body[i] = i if "motion" in self._own(i) else -1 if above < 0 else self._body[above]

    def _own(self, i: int) -> dict[str, Any]:
        return self._nodes[i].get("extensions", {}).get(_PHYSICS, {})

    def model(self) -> Model:
        """Return the model."""
        gravity = next((kept["gravity"] for kept in map(_kept, self._nodes) if "gravity" in kept), (0.0, 0.0, -9.81))
        builder = Builder(self._title(), gravity=gravity)
        self._names: dict[int, str] = {-1: WORLD}
        taken = Taken(WORLD)
        for i in range(len(self._nodes)):
            if self._body[i] == i:
                self._names[i] = taken.take(self._nodes[i].get("name") or f"body{i}")
        jointed = self._jointed()
        for i in self._names:
            if i >= 0:
                self._add_body(builder, i, i in jointed)
        self._add_shapes(builder)
        self._add_joints(builder)
        self.notes.warn()
        return builder.build()

    def _title(self) -> str:
        scene = self._document.get("scenes", [{}])[self._document.get("scene", 0)]
        first = scene.get("nodes", [])
        name = self._nodes[first[0]].get("name") if len(first) == 1 else ""
        return name or self._path.stem

    def _jointed(self) -> set[int]:
        """Return the bodies that some joint other than a distance connects to what is before them."""
        joints = (self._own(i)["joint"] for i in range(len(self._nodes)) if "joint" in self._own(i))
        return {self._body[joint["connectedNode"]] for joint in joints}

    def _add_body(self, builder: Builder, i: int, jointed: bool) -> None:
        motion, name = self._own(i)["motion"], self._names[i]
        r, p = self._frames[i]
        inertia = None
        if "inertiaDiagonal" in motion:
            turn = matrix_from_quaternion(np.roll(np.array(motion.get("inertiaOrientation", (0.0, 0, 0, 1)), float), 1))
            inertia = (turn * np.array(motion["inertiaDiagonal"], float)) @ turn.T
            inertia = 0.5 * (inertia + inertia.T)
        heavy = motion.get("mass") == 0.0
        if heavy and not motion.get("isKinematic"):
            raise FileError(self._path, f'body "{name}" has infinite mass; a body that forces do not move is kinematic')
        builder.add_body(
            name, mass=None if heavy else motion.get("mass"), com=motion.get("centerOfMass", (0.0,) * 3),
            inertia=inertia, position=p, rotation=quaternion_from_matrix(r),
            gravity_compensation=1.0 - motion.get("gravityFactor", 1.0), kinematic=bool(motion.get("isKinematic")),
        )  # fmt: skip
        speed = [np.array(motion.get(word, (0.0,) * 3), float) for word in ("linearVelocity", "angularVelocity")]
        free = _kept(self._nodes[i]).get("free")
        if not motion.get("isKinematic") and (free or (np.any(speed) and not jointed)):
            start = (*p, *quaternion_from_matrix(r))
            velocity = (*(r @ speed[0]), *speed[1])
            builder.add_joint_free(free or f"{name}:free", WORLD, name, start=start, start_velocity=velocity)
        elif np.any(speed):
            self.notes.add("start velocities of bodies with joints are left out", name)

    # -- joints --------------------------------------------------------------------------------------

    def _add_joints(self, builder: Builder) -> None:
        taken = Taken()
        for i in range(len(self._nodes)):
            given = self._own(i).get("joint")
            if given is None:
                continue
            other = given["connectedNode"]
            ends = self._body[i], self._body[other]
            label = self._nodes[i].get("name") or f"joint{i}"
            if ends[0] == ends[1]:
                raise FileError(self._path, f'joint "{label}" connects "{self._names[ends[0]]}" with itself')
            frames = [self._frames[k] if b < 0 else compose(*invert(*self._frames[b]), *self._frames[k])
                      for k, b in ((i, ends[0]), (other, ends[1]))]  # fmt: skip
            name = taken.take(label)
            options = self._kind(name, self._physics["physicsJoints"][given["joint"]])
            options |= {"position": frames[0][1], "position_in_child": frames[1][1]}
            if options["kind"] != "distance":
                turns = [quaternion_from_matrix(r) for r, _ in frames]
                options |= {"rotation": turns[0], "rotation_in_child": turns[1]}
            kind = options.pop("kind")
            if kind != "free":
                builder.add_joint(kind, name, *(self._names[b] for b in ends), **options)

    def _kind(self, name: str, described: dict[str, Any]) -> dict[str, Any]:
        """Return the kind and options of a joint with these limits and drives."""
        free, ranges, distance = [True] * 6, list[tuple[tuple[int, ...], dict[str, Any]]](), None
        for limit in described.get("limits", ()):
            linear = limit.get("linearAxes")
            axes = tuple(3 + k for k in linear) if linear else tuple(limit["angularAxes"])
            low, high = limit.get("min", -math.inf), limit.get("max", math.inf)
            if high == 0.0 and (low == 0.0 or (len(axes) > 1 and low <= 0.0)) and not limit.get("stiffness"):
                for k in axes:
                    free[k] = False
            elif len(axes) == 3 and linear:
                distance = limit
            else:
                ranges.append((axes, limit))
        letters = "".join("1" if one else "0" for one in free)
        if distance is not None and letters == "111111" and not ranges:
            return {"kind": "distance", "length": distance["max"], "rope": distance.get("min", 0.0) <= 0.0}
        if letters == "111111" and not ranges and not described.get("drives"):
            return {"kind": "free"}
        kind, axis = _match(letters)
        if not kind or distance is not None:
            raise FileError(
                self._path, f'joint "{name}" leaves free what no kind of joint does (rotations xyz, translations xyz: '
                f"{letters[:3]}, {letters[3:]}, 1 = free)",
            )  # fmt: skip
        options: dict[str, Any] = {"kind": kind}
        if axis is not None:
            options["axis"] = axis
        if kind == "universal":
            options["axis"], options["axis2"] = (np.eye(3)[k] for k in range(3) if free[k])
        return options | self._properties(name, kind, axis, ranges, described.get("drives", ()))

    def _properties(self, name: str, kind: str, axis: Any, ranges: Any, drives: Any) -> dict[str, Any]:
        """Return limits, springs, dampers and motors per dof, as options of the builder."""
        main = 2 if axis is None else int(np.argmax(axis))
        # glTF's axis of each dof: the main axis is z of the joint frame here, x and y follow it.
        order = {2: (0, 1, 2), 0: (None, None, 0), 1: (None, None, 1)}[main]
        factors, nv = [], 0
        for code, direction in KINDS[kind].motions:
            k = order[int(np.argmax(direction))] if kind != "universal" else int(np.argmax(direction))
            factors.append((nv, code, k))
            nv += 3 if code == SPIN else 1
        arrays: dict[str, list[Any]] = {word: [0.0] * nv for word in ("damping", "stiffness")}
        nq = KINDS[kind].nq
        listed = ("limits", "motor", "limit_stiffness", "limit_damping")
        lists: dict[str, list[Any]] = {word: [None] * nv for word in listed}
        rest, out = [0.0] * nq, dict[str, Any]()
        for axes, limit in ranges:
            low, high = limit.get("min", -math.inf), limit.get("max", math.inf)
            v = next((v for v, code, k in factors if _acts(code, k, axes)), None)
            if v is None and kind == "ball" and axes == (0, 1):
                out["cone"] = high
            elif v is None and kind == "ball" and axes == (2,):
                out["twist"] = (low, high)
            elif v is None:
                self.notes.add("limits across several axes are left out", name)
            else:
                lists["limits"][v] = (0.0, high) if len(axes) == 3 else (low, high)
                lists["limit_stiffness"][v] = limit.get("stiffness")
                lists["limit_damping"][v] = limit.get("damping", 0.0) if limit.get("stiffness") else None
        for drive in drives:
            self._add_drive(name, drive, factors, arrays, lists, rest)
        out |= {word: values for word, values in arrays.items() if any(values)}
        for word, values in lists.items():
            if any(value is not None for value in values):
                fill = 0.0 if word.startswith("limit_") else None
                out[word] = [fill if value is None else value for value in values]
        if any(rest):
            out["rest"] = rest
        return _scalars(out, nv)

    def _add_drive(self, name: str, drive: Any, factors: Any, arrays: Any, lists: Any, rest: list[float]) -> None:
        if drive.get("mode") == "acceleration":
            self.notes.add("drives in acceleration mode are left out", name)
            return
        axis = drive["axis"] + 3 * (drive["type"] == "linear")
        v = next((v for v, code, k in factors if _acts(code, k, (axis,))), None)
        ball = next((v for v, code, _ in factors if code == SPIN), None)
        motor = "maxForce" in drive or "velocityTarget" in drive
        if v is None and ball is not None and axis < 3 and not motor:
            arrays["damping"][ball + axis] = drive.get("damping", 0.0)
            arrays["stiffness"][ball + axis] = drive.get("stiffness", 0.0)
        elif v is None:
            self.notes.add("drives of locked axes, and motors of balls, are left out", name)
        elif motor:
            lists["motor"][v] = Motor(
                kp=drive.get("stiffness", 0.0), kd=drive.get("damping", 0.0), target=drive.get("positionTarget", 0.0),
                velocity=drive.get("velocityTarget", 0.0), max=drive.get("maxForce", math.inf),
            )  # fmt: skip
        else:
            arrays["damping"][v], arrays["stiffness"][v] = drive.get("damping", 0.0), drive.get("stiffness", 0.0)
            rest[v] = drive.get("positionTarget", 0.0)  # kinds with scalar dofs first: index of q and of qd

    # -- shapes --------------------------------------------------------------------------------------

    def _add_shapes(self, builder: Builder) -> None:
        taken = Taken()
        for i, node in enumerate(self._nodes):
            kept, collider = _kept(node), self._own(i).get("collider")
            if "drawn" in kept or (collider is None and "mesh" not in node and "shape" not in kept):
                continue
            body = self._body[i]
            r, p = self._frames[i] if body < 0 else compose(*invert(*self._frames[body]), *self._frames[i])
            options: dict[str, Any] = {"name": taken.take(node.get("name") or f"shape{i}")}
            options["collide"] = collider is not None and self._collision != "none"
            words = {"color": "color", "group": "group", "frictionRule": "friction_rule"}
            options |= {words[word]: value for word, value in kept.items() if word in words}
            if collider is not None and "physicsMaterial" in collider:
                material = self._physics["physicsMaterials"][collider["physicsMaterial"]]
                options["friction"] = material.get("dynamicFriction", material.get("staticFriction", 0.5))
                options["restitution"] = material.get("restitution", 0.0)
            geometry = (collider or {}).get("geometry", collider) or kept.get("shape") or {"mesh": node["mesh"]}
            if "node" in geometry:
                geometry = {"mesh": self._nodes[geometry["node"]]["mesh"], **geometry}
            self._add_shape(builder, self._names[body], geometry, (r, p), self._scales[i], options)

    def _add_shape(
        self, builder: Builder, body: str, geometry: Any, frame: Frame, scale: np.ndarray, options: Any
    ) -> None:
        r, p = frame
        if "shape" in geometry:
            entry = self._implicit[geometry["shape"]]
            kind = entry["type"]
            own, upright = entry.get(kind, {}), r @ _Y_TO_Z.T
            sizes, s = dict[str, Any](), np.abs(scale)
            if kind == "sphere":
                sizes, upright = {"radius": own.get("radius", 0.5) * s[0]}, r
            elif kind == "box":
                sizes, upright = {"size": np.array(own.get("size", (1.0,) * 3)) * s}, r
            elif kind in ("capsule", "cylinder"):
                radii = own.get("radiusBottom", 0.25), own.get("radiusTop", 0.25)
                if radii[0] != radii[1]:
                    raise FileError(self._path, f'shape "{options["name"]}" tapers: radii {radii[0]:g}, {radii[1]:g}')
                sizes = {"radius": radii[0] * s[0], "length": own.get("height", 0.5) * s[1]}
            elif kind != "plane":
                raise FileError(self._path, f'shape "{options["name"]}" is of unknown type "{kind}"')
            place = {"position": p, "rotation": quaternion_from_matrix(upright)}
            getattr(builder, f"add_shape_{kind}")(body, **sizes, **place, **options)
            return
        vertices, faces = self._mesh(geometry["mesh"])
        hull = bool(geometry.get("convexHull")) and self._collision != "exact"
        note = lambda text: self.notes.add(text, options["name"])  # noqa: E731
        mesh = mesh_options(vertices * scale, faces, options["collide"], "hull" if hull else "exact", note)
        if mesh is not None:
            builder.add_shape_mesh(body, position=p, rotation=quaternion_from_matrix(r), **(options | mesh))

    def _mesh(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Return vertices and triangles of all primitives of a mesh."""
        points, triangles, count = [], [], 0
        for primitive in self._document["meshes"][index]["primitives"]:
            if primitive.get("mode", 4) != 4:
                self.notes.add("primitives other than triangles are left out, mesh", str(index))
                continue
            own = self._numbers(primitive["attributes"]["POSITION"]).reshape(-1, 3)
            chosen = self._numbers(primitive["indices"]) if "indices" in primitive else np.arange(len(own))
            points.append(own.astype(float))
            triangles.append(chosen.reshape(-1, 3).astype(np.int64) + count)
            count += len(own)
        return np.concatenate(points), np.concatenate(triangles)

    def _numbers(self, index: int) -> np.ndarray:
        """Return what an accessor holds, flat."""
        accessor = self._document["accessors"][index]
        view = self._document["bufferViews"][accessor["bufferView"]]
        kind = {5121: "<u1", 5123: "<u2", 5125: "<u4", 5126: "<f4"}[accessor["componentType"]]
        width = {"SCALAR": 1, "VEC3": 3}[accessor["type"]]
        at = view.get("byteOffset", 0) + accessor.get("byteOffset", 0)
        count, size = accessor["count"], np.dtype(kind).itemsize
        stride = view.get("byteStride", width * size)
        data = np.frombuffer(self._buffers[view["buffer"]], np.uint8)
        rows = np.lib.stride_tricks.sliding_window_view(data[at:], width * size)[::stride][:count]
        if len(rows) < count:
            raise FileError(self._path, f"accessor {index} has {count} elements, its buffer {len(rows)}")
        return np.ascontiguousarray(rows).view(kind).ravel()


def _kept(node: dict[str, Any]) -> dict[str, Any]:
    """Return what this package noted at a node that glTF has no words for."""
    extras = node.get("extras")
    kept = extras.get(_MARK) if isinstance(extras, dict) else None
    return kept if isinstance(kept, dict) else {}


def _match(letters: str) -> tuple[str, np.ndarray | None]:
    """Return the kind that leaves these axes free, and its main axis where it is not z; ("", None) for none."""
    if letters in _FREE_AXES:
        return _FREE_AXES[letters], None
    for k in (0, 1):
        swapped = list(letters)
        for first in (0, 3):
            swapped[first + k], swapped[first + 2] = swapped[first + 2], swapped[first + k]
        kind = _FREE_AXES.get("".join(swapped))
        if kind in ("hinge", "slide", "cylindrical", "point_on_line"):
            return kind, np.eye(3)[k]
        if sorted(letters[:3]) == ["0", "1", "1"] and letters[3:] == "000":
            return "universal", None
    return "", None


def _acts(code: int, axis: int | None, axes: tuple[int, ...]) -> bool:
    """Return whether a dof of this code about or along `axis` is what a limit on `axes` restricts."""
    if code == SPIN:
        return axes == (0, 1, 2)
    return axis is not None and axes == (axis + (0 if code == TURN else 3),)


def _scalars(options: dict[str, Any], nv: int) -> dict[str, Any]:
    """Return the options with lists of one value as that value."""
    if nv != 1:
        return options
    return {word: value[0] if isinstance(value, list) else value for word, value in options.items()}
