"""A compiled MuJoCo model with its names and equalities, and a list of what has no counterpart here."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from limberjack.errors import FileError, ModelWarning, require
from limberjack.model.builder import Builder
from limberjack.model.spec import WORLD

__all__ = ["BALL", "FREE", "HINGE", "SLIDE", "Parts", "add_equalities", "free_name"]

# MuJoCo's codes, which its binary interface fixes.
FREE, BALL, SLIDE, HINGE = range(4)
_CONNECT, _WELD, _JOINT = range(3)
_SITE = 6
# Arrays of MuJoCo's model that are read here, by the kind of element in their rows.
_NUMBERS = {
    "body": ("pos", "quat", "mass", "ipos", "iquat", "inertia"),
    "jnt": ("pos", "axis", "stiffness", "range", "actfrcrange"),
    "geom": ("pos", "quat", "size", "friction", "rgba"),
    "site": ("pos", "quat"),
    "eq": ("data",),
    "actuator": ("gear", "gainprm", "biasprm", "forcerange", "ctrlrange", "damping", "armature"),
    "tendon": ("stiffness", "damping", "lengthspring"),
    "key": ("qpos", "qvel", "ctrl"),
}


class Parts:
    """A compiled model with its names, and what was found in it that has no counterpart here.

    Attributes:
        path: the file.
        m: MuJoCo's model.
        bodies: name of each body here; 0 is the world.
        joints: name here and MuJoCo's kind (or the kind here where joints were combined) per MuJoCo joint.
        locked: joints that an equality holds at a coordinate, with that coordinate.
    """

    def __init__(self, path: Path, m: Any) -> None:
        self.path, self.m = path, m
        self._off = int(m.opt.disableflags)
        self._flags = require("mujoco", extra="mjcf").mjtDisableBit
        self._names = bytes(m.names)
        self._notes: dict[str, list[str]] = {}
        given = [self.text(a) for a in m.name_bodyadr]
        taken = set(given)
        self.bodies = [WORLD, *(name or free_name(f"body{i}", taken) for i, name in enumerate(given[1:], 1))]
        self.joints: dict[int, tuple[str, str]] = {}
        self._taken = {self.joint_text(j) for j in range(m.njnt)}
        self.locked = self._find_locked()

    def _find_locked(self) -> dict[int, float]:
        """Return the joints that an equality holds at a coordinate, with that coordinate."""
        m, out = self.m, dict[int, float]()
        for e in range(m.neq):
            active = m.eq_active0[e] and not self.disabled("EQUALITY")
            j = int(m.eq_obj1id[e])
            if active and int(m.eq_type[e]) == _JOINT and int(m.eq_obj2id[e]) < 0 and m.jnt_type[j] in (SLIDE, HINGE):
                out[j] = float(m.qpos0[m.jnt_qposadr[j]] + m.eq_data[e, 0])
        return out

    def text(self, address: int) -> str:
        """Return the name that stands at `address`, "" where there is none."""
        return self._names[address : self._names.index(b"\0", address)].decode("utf-8", "replace")

    def joint_text(self, j: int) -> str:
        """Return MuJoCo's name of joint `j`, "" where it has none."""
        return self.text(self.m.name_jntadr[j])

    def named(self, kind: str, i: int) -> str:
        """Return the name of element `i` of a kind for messages."""
        name = self.text(getattr(self.m, f"name_{kind}adr")[i])
        return f'"{name}"' if name else f"number {i}"

    def unique(self, name: str, kind: str) -> str:
        """Return a joint name that is not taken: `name`, or with `kind` after it."""
        if name in self._taken:
            name = free_name(f"{name}:{kind}", self._taken)
        self._taken.add(name)
        return name

    def disabled(self, flag: str) -> bool:
        """Return whether the file's option flags switch something off."""
        bits = int(getattr(self._flags, f"mjDSBL_{flag}"))
        if flag in ("LIMIT", "FRICTIONLOSS", "EQUALITY", "CONTACT"):
            bits |= int(self._flags.mjDSBL_CONSTRAINT)
        return bool(self._off & bits)

    def check_finite(self) -> None:
        """Refuse numbers that became infinite or NaN when MuJoCo computed them from finite ones."""
        for kind, fields in _NUMBERS.items():
            for field in fields:
                values = getattr(self.m, f"{kind}_{field}")
                wrong = np.argwhere(~np.isfinite(values))
                if len(wrong):
                    name = self.bodies[wrong[0][0]] if kind == "body" else self.named(kind, int(wrong[0][0]))
                    raise FileError(self.path, f"MuJoCo makes {field} of {kind} {name} not finite")

    def note(self, what: str, name: str) -> None:
        """Remember that the element called `name` falls under the warning `what`."""
        self._notes.setdefault(what, []).append(name)

    def warn(self) -> None:
        """Issue one warning per kind of element, with the names."""
        for what, names in self._notes.items():
            shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
            warnings.warn(ModelWarning(f"{self.path}: {what}{': ' if shown else ''}{shown}"), stacklevel=5)

    def note_unsupported(self) -> None:
        """Note every element of the model that has no counterpart here."""
        m = self.m
        self._note_all("flexes are left out", "flex", range(m.nflex))
        self._note_all("skins are left out", "skin", range(m.nskin))
        self._note_all("plugins are left out", "plugin", range(m.nplugin))
        self._note_all("mocap bodies stay where they are", "body", np.flatnonzero(m.body_mocapid >= 0))
        self._note_all("plastic springs stay elastic", "jnt", np.flatnonzero(m.jnt_springyield))
        curved = np.flatnonzero(m.jnt_stiffnesspoly.any(axis=1))
        self._note_all("stiffness beyond its linear term is left out", "jnt", curved)
        curved = np.unique(m.dof_jntid[np.flatnonzero(m.dof_dampingpoly.any(axis=1))])
        self._note_all("damping beyond its linear term is left out", "jnt", curved)
        fluid = {"density": m.opt.density, "viscosity": m.opt.viscosity, "wind": m.opt.wind.any()}
        for name in (name for name, value in fluid.items() if value):
            self.note("fluid forces are left out", f"option {name}")
        if self.disabled("FILTERPARENT"):
            self.note('flag filterparent="disable" is left out: joined bodies do not collide', "")

    def _note_all(self, what: str, kind: str, which: Iterable[Any]) -> None:
        for i in which:
            self.note(what, self.named(kind, int(i)))


def free_name(name: str, taken: set[str]) -> str:
    """Return `name`, numbered if taken, and take it."""
    out, count = name, 1
    while out in taken:
        count += 1
        out = f"{name}{count}"
    taken.add(out)
    return out


def add_equalities(builder: Builder, parts: Parts) -> None:
    """Add connects and welds as loop joints and linear joint equalities as gears."""
    m = parts.m
    for e in range(m.neq):
        if not m.eq_active0[e] or parts.disabled("EQUALITY"):
            continue
        kind = int(m.eq_type[e])
        name = parts.text(m.name_eqadr[e])
        if kind in (_CONNECT, _WELD):
            _add_loop(builder, parts, e, name)
        elif kind == _JOINT:
            _add_gear(builder, parts, e, name)
        else:
            parts.note("equalities of tendons and flexes are left out", parts.named("eq", e))


def _add_loop(builder: Builder, parts: Parts, e: int, name: str) -> None:
    m, data = parts.m, parts.m.eq_data[e]
    ends = [int(m.eq_obj1id[e]), int(m.eq_obj2id[e])]
    fixed = int(m.eq_type[e]) == _WELD and data[10] != 0.0
    turns: list[Any] = [None, None]
    if int(m.eq_objtype[e]) == _SITE:
        points = [m.site_pos[s] for s in ends]
        turns = [m.site_quat[s] for s in ends]
        ends = [int(m.site_bodyid[s]) for s in ends]
    elif int(m.eq_type[e]) == _CONNECT:
        points = [data[0:3], data[3:6]]
    else:
        points = [data[3:6], data[0:3]]
        turns[0] = data[6:10] / np.linalg.norm(data[6:10])
    if ends[0] == ends[1]:
        parts.note("equalities of a body with itself are left out", parts.named("eq", e))
        return
    if ends[1] == 0:
        ends, points, turns = ends[::-1], points[::-1], turns[::-1]
    a, b = (parts.bodies[i] for i in ends)
    name = parts.unique(name or f"{a}-{b}", "weld" if fixed else "connect")
    options = {"position": points[0], "position_in_child": points[1]}
    if fixed:
        options |= {"rotation": turns[0], "rotation_in_child": turns[1]}
    builder.add_joint("fixed" if fixed else "ball", name, a, b, **options)


def _add_gear(builder: Builder, parts: Parts, e: int, name: str) -> None:
    """Add y - y0 = a0 + a1 (x - x0) as q_y = a1 q_x + (y0 + a0 - a1 x0)."""
    m, coefficients = parts.m, parts.m.eq_data[e, :5]
    y, x = int(m.eq_obj1id[e]), int(m.eq_obj2id[e])
    if y in parts.locked and x < 0:
        return
    kinds = {parts.joints[j][1] for j in (y, x) if j >= 0}
    if x < 0 or coefficients[2:].any() or kinds - {"hinge", "slide"}:
        parts.note("equalities not linear in another joint are left out", parts.named("eq", e))
        return
    y0, x0 = (float(m.qpos0[m.jnt_qposadr[j]]) for j in (y, x))
    a0, a1 = float(coefficients[0]), float(coefficients[1])
    names = parts.joints[y][0], parts.joints[x][0]
    builder.add_joint_gear(
        parts.unique(name or f"{names[0]}-{names[1]}", "gear"), *names, ratio=a1, offset=y0 + a0 - a1 * x0
    )
