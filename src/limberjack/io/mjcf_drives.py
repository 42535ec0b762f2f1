"""What the actuators of a compiled MuJoCo model do to its joints while nobody controls them."""

from __future__ import annotations

from typing import Any

import numpy as np

from limberjack.io.mjcf_parts import HINGE, SLIDE, Parts
from limberjack.model.spec import Motor

__all__ = ["find_drives"]


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
    """Return what actuator `a` on joint `j` does at zero control: a motor, idle for a plain one, or None."""
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
