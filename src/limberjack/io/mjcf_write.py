"""Writing MJCF: the tree, its drives, shapes, control, sensors and keyframes; loops as equalities.

The coordinates of the file are the model's. Starts of hinges and slides are `ref`, those of balls and all velocities a
keyframe called "start". Meshes are written into the file. What MJCF has no place for is named, one `ModelWarning` per
kind; what would change the mechanism is refused.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np

from limberjack.errors import FileError
from limberjack.io.files import Notes, Taken, atomic_write
from limberjack.io.mjcf_control import SENSOR_KINDS
from limberjack.io.tree_frames import Frame, TreeBody, inertia_in, refuse, tree_bodies
from limberjack.model.compile import Property
from limberjack.model.joints import SPIN, TURN, transform
from limberjack.model.model import Model
from limberjack.model.spec import IDENTITY, WORLD, Actuator, Joint, Motor, Sensor, Shape
from limberjack.spatial.frames import compose, invert, matrix_from_quaternion, quaternion_from_matrix

__all__ = ["write"]

_LOOPS = ("ball", "fixed", "gear")
_HERE: Frame = (np.eye(3), np.zeros(3))
_LAST_GROUP = 30
_ALL_BITS = 2**31 - 1
# What a sensor looks at, in MJCF's words; its own frame of a body is "xbody".
_OBJECTS = {"com": "body", "body": "xbody", "joint": "joint", "shape": "geom", "point": "site", "tendon": "tendon",
            "actuator": "actuator"}  # fmt: skip
_TAGS = {
    "joint_position": "jointpos", "joint_velocity": "jointvel", "tendon_position": "tendonpos",
    "tendon_velocity": "tendonvel", "actuator_position": "actuatorpos", "actuator_velocity": "actuatorvel",
    "actuator_force": "actuatorfrc", "joint_actuator_force": "jointactuatorfrc", "ball_quaternion": "ballquat",
    "ball_velocity": "ballangvel", "frame_position": "framepos", "frame_quaternion": "framequat",
    "frame_x_axis": "framexaxis", "frame_y_axis": "frameyaxis", "frame_z_axis": "framezaxis",
    "frame_linear_velocity": "framelinvel", "frame_angular_velocity": "frameangvel",
    "frame_linear_acceleration": "framelinacc", "frame_angular_acceleration": "frameangacc",
    "subtree_com": "subtreecom", "subtree_linear_velocity": "subtreelinvel",
    "subtree_angular_momentum": "subtreeangmom", "potential_energy": "e_potential", "kinetic_energy": "e_kinetic",
}  # fmt: skip


def write(model: Model, path: str | Path) -> None:
    """Write `model` as an MJCF file, atomically."""
    file = _File(model, path)
    file.add_bodies()
    file.add_contacts()
    file.add_equalities()
    file.add_tendons()
    file.add_actuators()
    file.add_sensors()
    file.add_keyframes()
    file.notes.warn()
    ET.indent(file.root)
    atomic_write(path, ET.tostring(file.root, encoding="utf-8") + b"\n")


def _text(*numbers: Any) -> str:
    """Return numbers with the fewest digits that give every bit back."""
    return " ".join(repr(float(x) + 0.0) for x in np.hstack(numbers))


def _posed(node: ET.Element, frame: Frame) -> None:
    r, p = frame
    if np.any(p):
        node.set("pos", _text(p))
    turn = quaternion_from_matrix(r)
    if np.any(turn[1:]):
        node.set("quat", _text(turn))


class _File:
    """An MJCF document under construction."""

    def __init__(self, model: Model, path: str | Path) -> None:
        refuse(model, path, _LOOPS, "MJCF")
        self._model, self._path, self.notes = model, path, Notes(path)
        self._bodies = tree_bodies(model, path, one_frame=False)
        self._shift = {WORLD: _HERE} | {body.name: body.shift for body in self._bodies}
        self._ref = np.array(model.q0)
        self.root = ET.Element("mujoco", model=model.name)
        ET.SubElement(self.root, "compiler", angle="radian", autolimits="true", inertiafromgeom="false")
        option = ET.SubElement(self.root, "option", gravity=_text(model.gravity))
        if model.timestep is not None:
            option.set("timestep", _text(model.timestep))
        self._assets = ET.SubElement(self.root, "asset")
        self._nodes = {WORLD: ET.SubElement(self.root, "worldbody")}
        # joint or axis of the model -> its joints in the file, one per dof; and how a dof is driven
        self._joints: dict[str, list[str]] = {}
        self._motors: list[tuple[str, Motor]] = []
        self._touched = {sensor.of: sensor.data for sensor in model.spec.sensors if sensor.kind == "touch"}

    def _section(self, name: str) -> ET.Element:
        found = self.root.find(name)
        return ET.SubElement(self.root, name) if found is None else found

    # -- bodies --------------------------------------------------------------------------------------

    def add_bodies(self) -> None:
        """Add every body with its inertia and joints, then shapes and sites."""
        spare = {body.name: body.gravity_compensation for body in self._model.spec.bodies}
        for body in self._bodies:
            node = self._nodes[body.name] = ET.SubElement(self._nodes[body.parent], "body", name=body.name)
            if spare[body.name]:
                node.set("gravcomp", _text(spare[body.name]))
            mass, com, inertia = inertia_in(self._model, body)
            if mass > 0.0:
                own = ET.SubElement(node, "inertial", pos=_text(com), mass=_text(mass))
                off = inertia[[0, 0, 1], [1, 2, 2]]
                if np.any(off):
                    own.set("fullinertia", _text(np.diag(inertia), off))
                else:
                    own.set("diaginertia", _text(np.diag(inertia)))
            self._add_joints(node, body)
        for k, shape in enumerate(self._model.shapes):
            self._add_shape(shape, k)
        for point in self._model.points:
            self._add_site(point.name, point.body, point.position, point.rotation)

    def _add_joints(self, node: ET.Element, body: TreeBody) -> None:
        joint, info = body.joint, self._model.joint(body.joint.name)
        start = self._ref[info.q].copy()
        if joint.kind == "free":
            _posed(node, (matrix_from_quaternion(start[3:]), start[:3]))
            own = ET.SubElement(node, "joint", name=joint.name, type="free")
            self._joints[joint.name] = [joint.name]
            if set(body.properties):
                self._drive(own, joint, body.properties, 0, 6)
            return
        for f in body.factors:
            if f.kind == SPIN:
                start[f.q : f.q + 4] = IDENTITY
        moved = compose(*body.above, *transform(body.factors, start))
        _posed(node, compose(*moved, *invert(*body.below)))
        names = self._names(joint, len(body.factors))
        self._joints |= {axis.name: [name] for axis, name in zip(joint.axes, names, strict=False)}
        self._joints[joint.name] = names
        for k, (f, name) in enumerate(zip(body.factors, names, strict=True)):
            # MuJoCo turns about axes of the body where it stands at the references: those after it are undone.
            later = transform(body.factors[k + 1 :], start)
            r, p = compose(*body.below, *invert(*later))
            kind = {SPIN: "ball", TURN: "hinge"}.get(f.kind, "slide")
            own = ET.SubElement(node, "joint", name=name, type=kind)
            if np.any(p + r @ f.point):
                own.set("pos", _text(p + r @ f.point))
            if f.kind != SPIN:
                own.set("axis", _text(r @ f.axis))
                if start[f.q]:
                    own.set("ref", _text(start[f.q]))
            self._drive(own, joint, body.properties, f.v, 3 if f.kind == SPIN else 1)

    def _names(self, joint: Joint, count: int) -> list[str]:
        if joint.axes:
            return [axis.name for axis in joint.axes]
        taken = Taken(*self._model.joint_names)
        return [joint.name] if count == 1 else [taken.take(f"{joint.name}:{k}", "") for k in range(count)]

    def _drive(self, node: ET.Element, joint: Joint, known: dict[int, Property], v: int, width: int) -> None:
        """Write limits, springs, damping and the like of one MuJoCo joint; motors are kept for the actuators."""
        own = [known[k] for k in range(v, v + width) if k in known]
        if not own:
            return
        name = node.get("name") or joint.name
        if own[0].limits is not None and node.get("type") != "free":
            node.set("range", _text(own[0].limits))
            if own[0].limit_stiffness:
                self.notes.add("soft limits are written as hard ones", name)
        for word, attribute in (("damping", "damping"), ("armature", "armature"), ("friction", "frictionloss")):
            values = np.hstack([np.atleast_1d(getattr(one, word)) for one in own])
            if values.any():
                if (values != values[0]).any():
                    self.notes.add(f"{word} that differs from dof to dof is written as its mean", name)
                node.set(attribute, _text(values.mean()))
        if own[0].stiffness:
            node.set("stiffness", _text(own[0].stiffness))
            if node.get("type") in ("hinge", "slide"):
                node.set("springref", _text(own[0].rest[0]))
            elif tuple(own[0].rest[-4:]) != IDENTITY:
                self.notes.add("rest orientations are left out: springs pull to q = 0", name)
        if joint.cone is not None or joint.twist is not None:
            self.notes.add("cone and twist limits are left out", name)
        for one in own:
            if one.motor is not None and (one.spin or width > 1):
                self.notes.add("motors of balls and free joints are left out", name)
            elif one.motor is not None:
                self._motors.append((name, one.motor))

    def _in_file(self, body: str, position: Any, rotation: Any) -> Frame:
        here = matrix_from_quaternion(np.array(rotation)), np.array(position, float)
        return compose(*invert(*self._shift[body]), *here)

    def _add_site(self, name: str, body: str, position: Any, rotation: Any = IDENTITY) -> str:
        node = ET.SubElement(self._nodes[body], "site", name=name)
        _posed(node, self._in_file(body, position, rotation))
        size = self._touched.get(name)
        if size:
            node.set("type", "box" if size[0] else "ellipsoid")
            node.set("size", _text(size[1:]))
        return name

    def _add_shape(self, shape: Shape, k: int) -> None:
        size = np.array(shape.size)
        halved = {"sphere": 1.0, "box": 0.5, "capsule": (1.0, 0.5), "cylinder": (1.0, 0.5)}
        node = ET.SubElement(self._nodes[shape.body], "geom", name=shape.name, type=shape.kind)
        if shape.kind == "mesh":
            vertices: Any = shape.vertices
            faces: Any = shape.faces
            ET.SubElement(
                self._assets, "mesh", name=f"mesh{k}", vertex=_text(np.ravel(vertices)), inertia="shell",
                face=" ".join(map(str, np.ravel(faces).tolist())),
            )  # fmt: skip
            node.set("mesh", f"mesh{k}")
        elif shape.kind == "capsule" and not size[1]:
            node.set("type", "sphere")
            node.set("size", _text(size[0]))
        elif shape.kind == "plane":
            node.set("size", _text((0.0, 0.0, 1.0)))
        elif shape.kind in halved:
            node.set("size", _text(size * halved[shape.kind]))
        else:
            raise FileError(self._path, f'shape "{shape.name}" is a {shape.kind}, which MJCF does not have')
        _posed(node, self._in_file(shape.body, shape.position, shape.rotation))
        torsion, rolling = shape.torsional_friction, shape.rolling_friction
        if torsion or rolling:
            node.set("condim", "6" if rolling else "4")
            node.set("friction", _text((shape.friction, torsion, rolling)))
        else:
            node.set("friction", _text((shape.friction, 0.005, 0.0001)))
        if shape.margin:
            node.set("margin", _text(shape.margin))
        if shape.color is not None:
            node.set("rgba", _text(shape.color if len(shape.color) == 4 else (*shape.color, 1.0)))
        if not shape.collide:
            node.set("contype", "0")
            node.set("conaffinity", "0")
        elif 0 < shape.group <= _LAST_GROUP:
            node.set("contype", str(1 << shape.group))
            node.set("conaffinity", str(_ALL_BITS & ~(1 << shape.group)))
        elif shape.group:
            self.notes.add(f"groups above {_LAST_GROUP} are left out", shape.name)
        else:
            node.set("conaffinity", str(_ALL_BITS))
        if shape.restitution and shape.collide:
            self.notes.add("restitution is left out", shape.name)
        if shape.friction_rule == "mean" and shape.collide and shape.friction != 0.5:
            self.notes.add("of two geoms the larger friction counts in MJCF, here the geometric mean", shape.name)

    def add_contacts(self) -> None:
        """Add the pairs of bodies that do not collide."""
        for k, (a, b) in enumerate(self._model.spec.excluded):
            ET.SubElement(self._section("contact"), "exclude", name=f"exclude{k}", body1=a, body2=b)
        for a, b in self._model.spec.excluded_shapes:
            self.notes.add("exclusions of single shapes are left out", f"{a} with {b}")

    # -- loops, tendons, actuators -------------------------------------------------------------------

    def add_equalities(self) -> None:
        """Add loop joints and gears."""
        for name in self._model.loop_names:
            joint = self._model.joint_spec(name)
            if joint.kind == "gear":
                self._add_gear(joint)
                continue
            (r_a, p_a), (r_b, p_b) = (
                (matrix_from_quaternion(np.array(turn)), np.array(at))
                for turn, at in ((joint.rotation, joint.position), (joint.rotation_in_child, joint.position_in_child))
            )
            sites = [
                self._add_site(f"{name}:{k}", body, p, quaternion_from_matrix(r))
                for k, (body, r, p) in enumerate(((joint.parent, r_a, p_a), (joint.child, r_b, p_b)))
            ]
            kind = "weld" if joint.kind == "fixed" else "connect"
            ET.SubElement(self._section("equality"), kind, name=name, site1=sites[0], site2=sites[1])

    def _add_gear(self, joint: Joint) -> None:
        if joint.carrier is not None:
            raise FileError(self._path, f'gear "{joint.name}" has a carrier, which MJCF does not have')
        y0, x0 = (float(self._model.q0[self._model.joint(word).q][0]) for word in (joint.parent, joint.child))
        a0 = joint.offset - y0 + joint.ratio * x0
        ET.SubElement(
            self._section("equality"), "joint", name=joint.name, joint1=self._joints[joint.parent][0],
            joint2=self._joints[joint.child][0], polycoef=_text((a0, joint.ratio, 0.0, 0.0, 0.0)),
        )  # fmt: skip

    def add_tendons(self) -> None:
        """Add tendons over joints, and springs between bodies as tendons between two sites."""
        for tendon in self._model.tendons:
            node = self._over_joints(tendon.name, tendon.transmission)
            node.set("stiffness", _text(tendon.stiffness))
            node.set("damping", _text(tendon.damping))
            node.set("springlength", _text(tendon.rest))
        for spring in self._model.springs:
            node = ET.SubElement(
                self._section("tendon"), "spatial", name=spring.name, stiffness=_text(spring.stiffness),
                damping=_text(spring.damping), springlength=_text(spring.rest),
            )  # fmt: skip
            for k, (body, at) in enumerate(((spring.a, spring.at_a), (spring.b, spring.at_b))):
                ET.SubElement(node, "site", site=self._add_site(f"{spring.name}:{k}", body, at))

    def _over_joints(self, name: str, transmission: Any) -> ET.Element:
        node = ET.SubElement(self._section("tendon"), "fixed", name=name)
        for joint, dof, coefficient in transmission:
            names = self._joints[joint]
            if len(names) <= dof:
                raise FileError(self._path, f'"{name}" drives several dofs of "{joint}", which MJCF has no tendon for')
            ET.SubElement(node, "joint", joint=names[dof], coef=_text(coefficient))
        return node

    def add_actuators(self) -> None:
        """Add actuators, and motors as actuators that hold their targets at no control."""
        for actuator in self._model.actuators:
            self._add_actuator(actuator)
        for name, motor in self._motors:
            aim = motor.target if isinstance(motor.target, (int, float)) else motor.target[0]
            force = motor.kp * aim + motor.kd * motor.velocity
            node = self._general(Taken(*self._model.actuator_names).take(f"{name}:motor", ""), motor.kp or motor.kd,
                                 (force, -motor.kp, -motor.kd))  # fmt: skip
            node.set("joint", name)
            if np.isfinite(motor.max):
                node.set("forcerange", _text((-motor.max, motor.max)))

    def _general(self, name: str, gain: float, bias: Any) -> ET.Element:
        node = ET.SubElement(self._section("actuator"), "general", name=name, gainprm=_text(gain))
        if np.any(bias):
            node.set("biastype", "affine")
            node.set("biasprm", _text(bias))
        return node

    def _add_actuator(self, actuator: Actuator) -> None:
        node = self._general(actuator.name, actuator.gain, actuator.bias)
        if actuator.dynamics:
            node.set("dyntype", actuator.dynamics.replace("exact_filter", "filterexact"))
            node.set("dynprm", _text(actuator.time_constant or 1.0))
        ranges = (("control_range", "ctrlrange"), ("force_range", "forcerange"), ("activation_range", "actrange"))
        for word, attribute in ranges:
            limits = getattr(actuator, word)
            if limits is not None:
                node.set(attribute, _text(limits))
        if actuator.point:
            node.set("site", actuator.point)
            node.set("gear", _text(actuator.wrench[3:], actuator.wrench[:3]))
            return
        used = {joint for joint, _, _ in actuator.transmission}
        (first, dof, coefficient), *more = actuator.transmission
        names = self._joints[first]
        if not more and len(names) > dof and self._model.joint(first).nq == self._model.joint(first).nv:
            node.set("joint", names[dof])
            node.set("gear", _text(coefficient))
            if actuator.joint_force_range is not None:
                own = next(one for one in self.root.iter("joint") if one.get("name") == names[dof])
                own.set("actuatorfrcrange", _text(actuator.joint_force_range))
        elif len(used) == 1 and len(names) == 1:
            gear = np.zeros(6)
            for _, k, value in actuator.transmission:
                gear[k] = value
            node.set("joint", names[0])
            node.set("gear", _text(gear))
        else:
            taken = Taken(*(tendon.name for tendon in self._model.tendons))
            tendon = self._over_joints(taken.take(f"{actuator.name}:tendon", ""), actuator.transmission)
            node.set("tendon", tendon.get("name") or "")

    # -- sensors, keyframes --------------------------------------------------------------------------

    def add_sensors(self) -> None:
        """Add the sensors."""
        for sensor in self._model.spec.sensors:
            self._add_sensor(sensor)

    def _add_sensor(self, sensor: Sensor) -> None:
        tag = _TAGS.get(sensor.kind, sensor.kind)
        if sensor.kind not in SENSOR_KINDS:
            self.notes.add("sensors are left out", sensor.name)
            return
        node = ET.SubElement(self._section("sensor"), tag, name=sensor.name)
        if sensor.cutoff:
            node.set("cutoff", _text(sensor.cutoff))
        if sensor.on == "model":
            return
        of = self._joints[sensor.of][0] if sensor.on == "joint" else sensor.of
        if tag.startswith("frame"):
            node.set("objtype", _OBJECTS[sensor.on])
            node.set("objname", of)
            if sensor.relative_to:
                node.set("reftype", _OBJECTS[sensor.relative_on])
                node.set("refname", sensor.relative_to)
        else:
            node.set("body" if tag.startswith("subtree") else _OBJECTS[sensor.on], of)

    def add_keyframes(self) -> None:
        """Add the keyframes, and the start where references do not say it."""
        model = self._model
        rows: list[tuple[str, Any, Any, Any, Any]] = [
            (key.name, key.q, key.qd, key.control, key.activation) for key in model.keyframes.values()
        ]
        balls = [int(q) for q, _ in model.arrays.links.quaternions]
        scalar = all(tuple(model.q0[q : q + 4]) == IDENTITY for q in balls if q not in self._free_starts())
        if "start" not in model.keyframes and (not scalar or model.qd0.any()):
            rows.append(("start", model.q0, model.qd0, (), ()))
        for name, q, qd, control, activation in rows:
            node = ET.SubElement(self._section("keyframe"), "key", name=name, qpos=_text(q), qvel=_text(qd))
            if len(control):
                node.set("ctrl", _text(control, np.zeros(len(self._motors))))
            if len(activation):
                node.set("act", _text(activation))

    def _free_starts(self) -> set[int]:
        """Return where in q the quaternions of free joints are."""
        free = (self._model.joint(name) for name in self._model.joint_names)
        return {joint.q_start + 3 for joint in free if joint.kind == "free"}
