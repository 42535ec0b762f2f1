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
from limberjack.io.mjcf_parts import BALL, FREE, HINGE, SLIDE, Parts, add_equalities
from limberjack.io.mjcf_scan import Scan, scan
from limberjack.io.mjcf_shapes import add_shapes, add_sites
from limberjack.model.builder import Builder
from limberjack.model.check import inertia_problem, repaired_inertia
from limberjack.model.model import Model
from limberjack.model.spec import WORLD, Axis, Motor
from limberjack.spatial import frames

__all__ = ["find_drives", "read"]

# What the actuators of a compiled MuJoCo model do to its joints at zero control.


def find_drives(parts: Parts) -> dict[int, dict[str, Any]]:
    """Return per MuJoCo joint what its actuators add with no control: damping, armature and a motor.

    A force gain ctrl + b0 + b1 length + b2 velocity with length = gear q is the motor kp = -b1 gear^2,
    kd = -b2 gear^2 held at zero control. Plain motors (no bias) are what `tau` is for.
    """
    m = parts.m
    out: dict[int, dict[str, Any]] = {}
    for a in range(m.nactuator):
        on_joint = int(m.actuator_trntype[a]) in (0, 1)
        j = int(m.actuator_trnid[a, 0])
        if on_joint:
            drive = out.setdefault(j, {"damping": 0.0, "armature": 0.0})
            gear = float(m.actuator_gear[a, 0])
            for word in ("damping", "armature"):
                value = float(getattr(m, f"actuator_{word}")[a])
                drive[word] += gear * gear * value if value else 0.0
            if m.actuator_dampingpoly[a].any():
                what = "damping of actuators beyond its linear term is left out"
                parts.note(what, parts.named("actuator", a))
        off = parts.disabled("ACTUATION") or (int(m.opt.disableactuator) >> int(m.actuator_group[a])) & 1
        if off:
            continue
        motor = _motor(parts, a, j) if on_joint else None
        if motor is None:
            parts.note("actuators are left out", parts.named("actuator", a))
        elif motor != Motor():
            _join(parts, a, out[j], motor)
    return out


def _motor(parts: Parts, a: int, j: int) -> Motor | None:
    """Return actuator `a` on joint `j` at zero control: a motor, without gains for a plain one, or None."""
    m = parts.m
    scalar = int(m.jnt_type[j]) in (SLIDE, HINGE)
    linear = int(m.actuator_gaintype[a]) == 0 and int(m.actuator_biastype[a]) in (0, 1)
    if not linear or int(m.actuator_dyntype[a]) != 0:
        return None
    gear, low, high = float(m.actuator_gear[a, 0]), *m.actuator_forcerange[a].tolist()
    b0, b1, b2 = m.actuator_biasprm[a, :3].tolist() if m.actuator_biastype[a] else (0.0, 0.0, 0.0)
    control = 0.0
    if m.actuator_ctrllimited[a] and not parts.disabled("CLAMPCTRL"):
        control = float(np.clip(0.0, *m.actuator_ctrlrange[a]))
    force = gear * (float(m.actuator_gainprm[a, 0]) * control + b0)
    kp, kd = -b1 * gear * gear, -b2 * gear * gear
    if kp == 0 and kd == 0 and force == 0:
        return Motor()
    most = np.inf
    for limited, (least, largest), scale in (
        (m.actuator_forcelimited[a], (low, high), abs(gear)),
        (m.jnt_actfrclimited[j], m.jnt_actfrcrange[j].tolist(), 1.0),
    ):
        if limited and least != -largest:
            return None
        most = min(most, largest * scale) if limited else most
    fits = scalar and kp >= 0 and kd >= 0 and kp + kd > 0 and m.actuator_delay[a] == 0
    if not fits or not np.isfinite(force + kp + kd):
        return None
    if kp > 0:
        return Motor(kp=kp, kd=kd, target=force / kp, max=float(most))
    return Motor(kd=kd, velocity=force / kd, max=float(most))


def _join(parts: Parts, a: int, drive: dict[str, Any], motor: Motor) -> None:
    """Add a motor to those on the joint already: without force limits their sum is one motor."""
    old = drive.get("motor")
    if old is not None:
        if np.isfinite(old.max) or np.isfinite(motor.max):
            parts.note("actuators beside another with a force limit are left out", parts.named("actuator", a))
            return
        kp, kd = old.kp + motor.kp, old.kd + motor.kd
        force = _push(old) + _push(motor)
        motor = Motor(kp=kp, kd=kd, target=force / kp) if kp > 0 else Motor(kd=kd, velocity=force / kd)
    drive["motor"] = motor


def _push(motor: Motor) -> float:
    """Return the force at q = qd = 0."""
    target = motor.target if isinstance(motor.target, float) else 0.0
    return motor.kp * target + motor.kd * motor.velocity


_KINDS = {FREE: "free", BALL: "ball", SLIDE: "slide", HINGE: "hinge"}
_NO_NAME = "MuJoCo Model"


def read(
    path: Path,
    *,
    repair: bool = True,
    base: str = "fixed",
    roots: Sequence[Path] = (),
    package_paths: Sequence[Path] = (),
) -> Model:
    """Return the model in an MJCF file.

    Args:
        path: the file.
        repair: repair inertias that no body can have, with a warning; False refuses them.
        base: ignored: MJCF states how its bodies are connected to the world.
        roots: further folders that includes, meshes and textures may come from.
        package_paths: ignored: MJCF names files by their path.
    """
    del base, package_paths
    path = Path(path)
    found = scan(path, roots)
    compiled = _compile(path, found, repair)
    try:
        # What overflows is found not finite by the checks that follow; the warnings would not say where.
        with np.errstate(over="ignore", invalid="ignore"):
            return _convert(path, compiled, repair)
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


def _convert(path: Path, m: Any, repair: bool) -> Model:
    parts = Parts(path, m)
    parts.check_finite()
    gravity = (0.0, 0.0, 0.0) if parts.disabled("GRAVITY") else m.opt.gravity
    name = parts.text(0)
    builder = Builder(name if name.strip() and name != _NO_NAME else path.stem, gravity=gravity)
    drives = find_drives(parts)
    for i in range(1, m.nbody):
        _add_body(builder, parts, i, repair)
    for i in range(1, m.nbody):
        _Joints(builder, parts, drives, i).add()
    add_shapes(builder, parts)
    add_sites(builder, parts)
    add_equalities(builder, parts)
    parts.note_unsupported()
    parts.warn()
    return builder.build()


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
    builder.add_body(name, mass=mass, com=m.body_ipos[i], inertia=six)


class _Joints:
    """The joints above one body, as one joint."""

    def __init__(self, builder: Builder, parts: Parts, drives: dict[int, dict[str, Any]], body: int) -> None:
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
        if m.jnt_limited[j] and not parts.disabled("LIMIT") and kind != FREE:
            low, high = m.jnt_range[j].tolist()
            options["limits"] = (0.0, max(low, high)) if kind == BALL else (low, high)
        if "motor" in drive:
            options["motor"] = drive["motor"]
        return options


def _in_one(each: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the options of slides and the ball after them as those of one joint."""
    ball = len(each) - 1
    out: dict[str, Any] = {}
    for name in sorted({name for one in each for name in one}):
        values: list[Any] = []
        for k, one in enumerate(each):
            if name in ("limits", "motor"):
                values.append(one.get(name))
            elif name in ("start", "rest"):
                values += one.get(name) or ([1.0, 0.0, 0.0, 0.0] if k == ball else [0.0])
            else:
                values += np.broadcast_to(one.get(name, 0.0), 3 if k == ball else 1).tolist()
        out[name] = values
    return out
