"""Reading MJCF: MuJoCo parses and compiles the file, its compiled bodies, joints and geoms are converted.

Coordinates are MuJoCo's: q, qd copied over mean the same pose and motion. A MuJoCo joint moves by qpos - ref,
so with `ref` the joint frame stands where MuJoCo's is at qpos = 0. Several joints on one body apply in order,
each axis and anchor in the child's frame: a compound joint whose frame is the child's. What has no
counterpart is named, one `ModelWarning` per kind of element.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from limberjack.errors import FileError, ModelError, ModelWarning, require
from limberjack.io.closed_start import with_closed_start
from limberjack.io.mjcf_control import add_control, joint_additions
from limberjack.io.mjcf_equalities import add_equalities
from limberjack.io.mjcf_parts import BALL, FREE, HINGE, SLIDE, Parts
from limberjack.io.mjcf_scan import Scan, scan
from limberjack.io.mjcf_shapes import add_shapes, add_sites
from limberjack.model.builder import Builder
from limberjack.model.check import inertia_problem, repaired_inertia
from limberjack.model.model import Model
from limberjack.model.spec import WORLD, Axis
from limberjack.spatial import frames

__all__ = ["read"]

_KINDS = {FREE: "free", BALL: "ball", SLIDE: "slide", HINGE: "hinge"}
_NO_NAME = "MuJoCo Model"


def read(
    path: Path,
    *,
    repair: bool = True,
    base: str = "fixed",
    roots: Sequence[Path] = (),
    package_paths: Sequence[Path] = (),
    collision: str = "hull",
) -> Model:
    """Return the model in an MJCF file.

    Args:
        path: the file.
        repair: repair inertias that no body can have, with a warning; False refuses them.
        base: ignored: MJCF states how its bodies are connected to the world.
        roots: further folders that includes, meshes and textures may come from.
        package_paths: ignored: MJCF names files by their path.
        collision: "hull": meshes collide as their convex hulls; "exact": as they are, where they are closed; "none":
            nothing collides.
    """
    del base, package_paths
    path = Path(path)
    found = scan(path, roots)
    compiled = _compile(path, found, repair)
    try:
        # What overflows is found not finite by the checks that follow; the warnings would not say where.
        with np.errstate(over="ignore", invalid="ignore"):
            return _convert(path, compiled, repair, collision)
    except FileError:
        raise
    except ModelError as error:
        raise FileError(path, str(error)) from error


def _compile(path: Path, found: Scan, repair: bool) -> Any:
    """Return MuJoCo's compiled model; its errors become `FileError`, its warnings `ModelWarning`."""
    mujoco = require("mujoco", extra="mjcf")
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # MuJoCo raises several types, some of them its own; whichever it is, the file was at fault.
        try:
            compiled = _compiled(path, mujoco, balance=False)
        except Exception as error:
            if not repair or "balanceinertia" not in str(error):
                raise _failure(path, found, str(error)) from error
            messages.append(f"{error}; repaired: each such body's moments are set to their mean")
            try:
                compiled = _compiled(path, mujoco, balance=True)
            except Exception as again:
                raise _failure(path, found, str(again)) from again
    for text in (*messages, *(str(warning.message) for warning in caught)):
        warnings.warn(ModelWarning(f"{path}: MuJoCo: {' '.join(text.split())}"), stacklevel=4)
    return compiled


def _compiled(path: Path, mujoco: Any, balance: bool) -> Any:
    spec = mujoco.MjSpec.from_file(str(path.resolve()))
    _leave_out(spec, mujoco)
    spec.compiler.balanceinertia = balance or spec.compiler.balanceinertia
    return spec.compile()


def _leave_out(spec: Any, mujoco: Any) -> None:
    """Remove from MuJoCo's specification what costs time or memory and is not read here."""
    spec.memory = spec.njmax = spec.nconmax = spec.nstack = -1
    spec.nuserdata = spec.nkey = 0
    for kind in ("body", "jnt", "geom", "site", "cam", "tendon", "actuator", "sensor"):
        setattr(spec, f"nuser_{kind}", -1)
    spec.compiler.usethread = False
    # MuJoCo finds length ranges of muscles by simulation.
    spec.compiler.LRopt.mode = mujoco.mjtLRMode.mjLRMODE_NONE
    for texture in spec.textures:
        texture.file, texture.cubefiles = "", [""] * 6
        texture.builtin, texture.gridsize = mujoco.mjtBuiltin.mjBUILTIN_FLAT, (1, 1)
        texture.width = texture.height = 1


def _failure(path: Path, found: Scan, text: str) -> FileError:
    text = " ".join(text.split())
    if found.missing and "opening file" in text:
        reference, file, line = found.missing[0]
        return FileError(file, f'"{reference}" is not found', line)
    line = re.search(r"line (\d+)", text)
    # The line is one of the file that holds the element; MuJoCo does not say which.
    known = int(line[1]) if line and len(found.files) == 1 else None
    return FileError(path, f"MuJoCo: {text}", known)


def _convert(path: Path, m: Any, repair: bool, collision: str) -> Model:
    parts = Parts(path, m)
    parts.check_finite()
    gravity = (0.0, 0.0, 0.0) if parts.disabled("GRAVITY") else m.opt.gravity
    name = parts.text(0)
    builder = Builder(name if name.strip() and name != _NO_NAME else path.stem, gravity=gravity)
    drives = joint_additions(parts)
    for i in range(1, m.nbody):
        _add_body(builder, parts, i, repair)
    for i in range(1, m.nbody):
        _Joints(builder, parts, drives, i).add()
    shapes = add_shapes(builder, parts, collision)
    points = add_sites(builder, parts)
    add_equalities(builder, parts)
    add_control(builder, parts, points, shapes)
    parts.note_unsupported()
    parts.notes.warn(5)
    return with_closed_start(path, builder.build())


def _add_body(builder: Builder, parts: Parts, i: int, repair: bool) -> None:
    m, name = parts.m, parts.bodies[i]
    turn = frames.matrix_from_quaternion(m.body_iquat[i])
    full = (turn * m.body_inertia[i]) @ turn.T
    six = tuple(float(x) for x in full[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]])
    mass = float(m.body_mass[i])
    problem = inertia_problem(mass, six) if np.isfinite(six).all() else f"inertia is not finite: {six}"
    if problem and repair and np.isfinite(six).all():
        warnings.warn(ModelWarning(f'{parts.path}: body "{name}": {problem}; repaired'), stacklevel=5)
        six = repaired_inertia(mass, six) if mass > 0 else (0.0,) * 6
    elif problem:
        raise FileError(parts.path, f'body "{name}": {problem}')
    part = 0.0 if parts.disabled("GRAVITY") else float(m.body_gravcomp[i])
    builder.add_body(name, mass=mass, com=m.body_ipos[i], inertia=six, gravity_compensation=part)


class _Joints:
    """The joints above one body, as one joint."""

    def __init__(self, builder: Builder, parts: Parts, drives: dict[int, dict[str, float]], body: int) -> None:
        m = parts.m
        self._builder, self._parts, self._drives, self._body = builder, parts, drives, body
        self._own = range(m.body_jntadr[body], m.body_jntadr[body] + m.body_jntnum[body])
        self._kinds = [int(m.jnt_type[j]) for j in self._own]
        self._ends = (parts.bodies[m.body_parentid[body]], parts.bodies[body])
        self._r = frames.matrix_from_quaternion(m.body_quat[body])

    def add(self) -> None:
        """Add the joint to the builder."""
        m, kinds, own = self._parts.m, self._kinds, self._own
        pose = {"position": m.body_pos[self._body], "rotation": m.body_quat[self._body]}
        if not kinds:
            name = self._parts.unique(self._ends[1], "fixed")
            self._builder.add_joint_fixed(name, *self._ends, **pose)
        elif kinds == [FREE]:
            self._builder.add_joint_free(self._name(own[0]), WORLD, self._ends[1], **self._options(own[0]))
        elif kinds == [HINGE]:
            pose |= self._anchored(m.jnt_pos[own[0]])
            if self._ref(own[0]):
                turn = frames.matrix_from_axis(m.jnt_axis[own[0]], np.array(-self._ref(own[0])))
                pose["rotation"] = self._r @ turn
            pose |= {"axis": m.jnt_axis[own[0]]}
            self._builder.add_joint_hinge(self._name(own[0]), *self._ends, **pose, **self._options(own[0]))
        elif kinds == [SLIDE]:
            pose["position"] = m.body_pos[self._body] - self._r @ m.jnt_axis[own[0]] * self._ref(own[0])
            pose |= {"axis": m.jnt_axis[own[0]]}
            self._builder.add_joint_slide(self._name(own[0]), *self._ends, **pose, **self._options(own[0]))
        elif kinds == [BALL]:
            pose |= self._anchored(m.jnt_pos[own[0]])
            self._builder.add_joint_ball(self._name(own[0]), *self._ends, **pose, **self._options(own[0]))
        elif BALL not in kinds:
            self._add_compound()
        else:
            self._add_sliding_ball()

    def _add_compound(self) -> None:
        """Add hinges and slides as F1(q1 - r1) F2(q2 - r2) ..., every F(-r) moved into the frame above.

        With H the product of the F(-r) after an axis, its F(q) becomes H^-1 F(q) H.
        """
        m, own = self._parts.m, self._own
        name = self._parts.unique(self._ends[1], "compound")
        names = {j: self._name(j) for j in own}
        after = (np.eye(3), np.zeros(3))
        axes: list[Axis] = []
        for j, kind in reversed(list(zip(own, self._kinds, strict=True))):
            axis, point = m.jnt_axis[j], m.jnt_pos[j]
            r, p = after
            options = {n: x[0] if isinstance(x, list) else x for n, x in self._options(j).items()}
            options |= {"axis": tuple(r.T @ axis), "position": tuple(r.T @ (point - p))}
            axes.append(Axis(name=names[j], kind=_KINDS[kind], **options))
            ref = self._ref(j)
            if ref:
                turn = frames.matrix_from_axis(axis, np.array(-ref)) if kind == HINGE else np.eye(3)
                step = point - turn @ point if kind == HINGE else -ref * axis
                after = frames.compose(turn, step, *after)
        r, p = after
        pose = {"position": m.body_pos[self._body] + self._r @ p, "rotation": m.body_quat[self._body]}
        if not np.array_equal(r, np.eye(3)):
            pose["rotation"] = self._r @ r
        self._builder.add_joint_compound(name, *self._ends, axes=axes[::-1], **pose)

    def _add_sliding_ball(self) -> None:
        """Add slides followed by a ball, where a joint kind has the same coordinates."""
        m, own = self._parts.m, self._own
        directions = [m.jnt_axis[j].tolist() for j in own[:-1]]
        wanted = {"point_on_line": [[0, 0, 1]], "point_on_plane": [[1, 0, 0], [0, 1, 0]]}
        kind = next((name for name, axes in wanted.items() if axes == directions), None)
        if kind is None or self._kinds[:-1] != [SLIDE] * len(directions):
            listed = ", ".join(_KINDS[k] for k in self._kinds)
            raise FileError(
                self._parts.path,
                f'body "{self._ends[1]}" has the joints {listed}, for which there is no joint kind; with a '
                "ball there can be a slide along z, or along x and then y, before it",
            )
        pose = self._anchored(m.jnt_pos[own[-1]])
        back = sum((self._ref(j) * m.jnt_axis[j] for j in own[:-1]), np.zeros(3))
        pose |= {"position": pose["position"] - self._r @ back, "rotation": m.body_quat[self._body]}
        name = self._name(own[-1])
        self._parts.joints |= {j: (name, kind) for j in own}
        self._builder.add_joint(kind, name, *self._ends, **pose, **_in_one([self._options(j) for j in own]))

    def _anchored(self, anchor: np.ndarray) -> dict[str, Any]:
        position = self._parts.m.body_pos[self._body] + self._r @ anchor
        rotation = self._parts.m.body_quat[self._body]
        return {"position": position, "rotation": rotation, "position_in_child": anchor}

    def _name(self, j: int) -> str:
        kind = _KINDS[int(self._parts.m.jnt_type[j])]
        name = self._parts.joint_text(j) or self._parts.unique(self._ends[1], kind)
        self._parts.joints[j] = (name, kind)
        return name

    def _ref(self, j: int) -> float:
        return float(self._parts.m.qpos0[self._parts.m.jnt_qposadr[j]])

    def _options(self, j: int) -> dict[str, Any]:
        """Return start, limits, damping and the like of one MuJoCo joint; what is zero is left out."""
        parts, m = self._parts, self._parts.m
        kind = int(m.jnt_type[j])
        nq, nv = {FREE: (7, 6), BALL: (4, 3)}.get(kind, (1, 1))
        q = slice(m.jnt_qposadr[j], m.jnt_qposadr[j] + nq)
        v = slice(m.jnt_dofadr[j], m.jnt_dofadr[j] + nv)
        drive = self._drives.get(j, {})
        options: dict[str, Any] = {"start": m.qpos0[q].tolist()}
        values = {
            "damping": (m.dof_damping[v] + drive.get("damping", 0.0)) * (not parts.disabled("DAMPER")),
            "armature": m.dof_armature[v] + drive.get("armature", 0.0),
            "friction": m.dof_frictionloss[v] * (not parts.disabled("FRICTIONLOSS")),
        }
        options |= {name: value.tolist() for name, value in values.items() if value.any()}
        if m.jnt_stiffness[j] and not parts.disabled("SPRING"):
            options |= {"stiffness": float(m.jnt_stiffness[j]), "rest": m.qpos_spring[q].tolist()}
        locked = parts.locked.get(j)
        if locked is not None:
            options["limits"] = (locked, locked)
        elif m.jnt_limited[j] and not parts.disabled("LIMIT") and kind != FREE:
            low, high = m.jnt_range[j].tolist()
            options["limits"] = (0.0, max(low, high)) if kind == BALL else (low, high)
        return options


def _in_one(each: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the options of slides and the ball after them as those of one joint."""
    ball = len(each) - 1
    out: dict[str, Any] = {}
    for name in sorted({name for one in each for name in one}):
        values: list[Any] = []
        for k, one in enumerate(each):
            if name == "limits":
                values.append(one.get(name))
            elif name in ("start", "rest"):
                values += one.get(name) or ([1.0, 0.0, 0.0, 0.0] if k == ball else [0.0])
            else:
                values += np.broadcast_to(one.get(name, 0.0), 3 if k == ball else 1).tolist()
        out[name] = values
    return out
