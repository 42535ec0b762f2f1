"""A compiled MuJoCo model with its names, and a list of what has no counterpart here."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from limberjack.errors import FileError, require
from limberjack.io.files import Notes, Taken
from limberjack.model.spec import WORLD

__all__ = ["BALL", "FREE", "HINGE", "JOINT_EQUALITY", "SLIDE", "Parts"]

# MuJoCo's codes, which its binary interface fixes.
FREE, BALL, SLIDE, HINGE = range(4)
JOINT_EQUALITY = 2
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
        notes: what has no counterpart here.
        locked: joints that an equality holds at a coordinate, with that coordinate.
    """

    def __init__(self, path: Path, m: Any) -> None:
        self.path, self.m = path, m
        self._off = int(m.opt.disableflags)
        self._flags = require("mujoco", extra="mjcf").mjtDisableBit
        self._names = bytes(m.names)
        self.notes = Notes(path)
        given = [self.text(a) for a in m.name_bodyadr]
        taken = Taken(*given)
        self.bodies = [WORLD, *(name or taken.take(f"body{i}", "") for i, name in enumerate(given[1:], 1))]
        self.joints: dict[int, tuple[str, str]] = {}
        self._taken = Taken(*(self.joint_text(j) for j in range(m.njnt)))
        self.locked = self._find_locked()

    def _find_locked(self) -> dict[int, float]:
        """Return the joints that an equality holds at a coordinate, with that coordinate."""
        m, out = self.m, dict[int, float]()
        for e in range(m.neq):
            active = m.eq_active0[e] and not self.disabled("EQUALITY")
            j = int(m.eq_obj1id[e])
            if (
                active
                and int(m.eq_type[e]) == JOINT_EQUALITY
                and int(m.eq_obj2id[e]) < 0
                and m.jnt_type[j] in (SLIDE, HINGE)
            ):
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
        return self._taken.take(f"{name}:{kind}" if name in self._taken else name, "")

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
            self.notes.add("fluid forces are left out", f"option {name}")
        if self.disabled("FILTERPARENT"):
            self.notes.add('flag filterparent="disable" is left out: joined bodies do not collide', "")

    def _note_all(self, what: str, kind: str, which: Iterable[Any]) -> None:
        for i in which:
            self.notes.add(what, self.named(kind, int(i)))
