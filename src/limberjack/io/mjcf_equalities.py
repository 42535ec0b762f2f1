"""The equalities of a compiled MuJoCo model: loop joints, gears, and springs where no pose meets them together.

MuJoCo itself evaluates the equalities and their Jacobian; Newton's method looks for a pose that meets all of them, from
the first keyframe and from the reference pose. What is left open where it stops cannot be closed.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from limberjack.errors import require
from limberjack.io.mjcf_parts import JOINT_EQUALITY, Parts
from limberjack.model.builder import Builder
from limberjack.spatial.frames import matrix_from_quaternion

__all__ = ["add_equalities"]

# MuJoCo's codes, which its binary interface fixes.
_CONNECT, _WELD, _JOINT = 0, 1, JOINT_EQUALITY
_SITE = 6
_ITERATIONS = 60
# Gaps up to this are closed, in metres and radians.
_CLOSED = 1e-6
# Distance of the points at which springs hold a rotation [m].
_ARM = 0.1


def _open_equalities(parts: Parts) -> dict[int, tuple[float, float]]:
    """Return the equalities that cannot be met, each with the stiffness [N/m] and damping [N s/m] of its softness."""
    mujoco, m = require("mujoco", extra="mjcf"), parts.m
    if not m.neq or parts.disabled("EQUALITY"):
        return {}
    m = copy.copy(m)
    off = mujoco.mjtDisableBit
    m.opt.disableflags |= int(off.mjDSBL_CONTACT | off.mjDSBL_LIMIT | off.mjDSBL_FRICTIONLOSS | off.mjDSBL_WARMSTART)
    m.opt.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
    best: tuple[float, dict[int, tuple[float, float]]] | None = None
    for start in (*m.key_qpos[:1], m.qpos0):
        data = mujoco.MjData(m)
        data.qpos[:] = start
        gap, found = _close(mujoco, m, data)
        if gap <= _CLOSED:
            return {}
        if best is None or gap < best[0]:
            best = gap, found
    return {} if best is None else best[1]


def _close(mujoco: Any, m: Any, data: Any) -> tuple[float, dict[int, tuple[float, float]]]:
    """Close the equalities by Newton's method; return the largest gap left, and what is open."""
    gap, rows = np.inf, np.zeros(0, int)
    for _ in range(_ITERATIONS):
        mujoco.mj_fwdPosition(m, data)
        rows = np.flatnonzero(data.efc_type[: data.nefc] == int(mujoco.mjtConstraint.mjCNSTR_EQUALITY))
        if not len(rows):
            return 0.0, {}
        residual = np.array(data.efc_pos[rows])
        gap = float(np.abs(residual).max())
        if gap <= _CLOSED:
            break
        jacobian = np.array(data.efc_J).reshape(-1, m.nv)[rows]
        step = np.linalg.lstsq(jacobian, -residual, rcond=1e-8)[0]
        # Angles of half a radian at most: farther the rows are not linear.
        step *= min(1.0, 0.5 / max(float(np.abs(step).max()), 1e-12))
        mujoco.mj_integratePos(m, data.qpos, step, 1.0)
    out: dict[int, tuple[float, float]] = {}
    for row in rows:
        e = int(data.efc_id[row])
        if abs(float(data.efc_pos[row])) > _CLOSED:
            time, ratio = (float(x) for x in m.eq_solref[e, :2])
            direction = np.array(data.efc_J).reshape(-1, m.nv)[row][None, :]
            response = np.zeros_like(direction)
            mujoco.mj_solveM(m, data, response, direction)
            mass = 1.0 / max(float(direction[0] @ response[0]), 1e-12)
            # Negative numbers are stiffness and damping per mass themselves.
            stiffness, damping = (-time, -ratio) if time < 0.0 else (1.0 / (time * ratio) ** 2, 2.0 / time)
            known = out.get(e, (0.0, 0.0))
            out[e] = max(known[0], mass * stiffness), max(known[1], mass * damping)
    return gap, out


def _add_soft_loop(
    builder: Builder, name: str, ends: tuple[str, str], points: list[Any], turns: list[Any] | None,
    softness: tuple[float, float],
) -> None:  # fmt: skip
    """Add springs that pull two points together, and the axes of two frames where `turns` gives them."""
    stiffness, damping = softness
    arms = np.zeros((1, 3)) if turns is None else np.concatenate([np.eye(3), -np.eye(3)]) * _ARM
    frames = [matrix_from_quaternion(np.array((1.0, 0.0, 0.0, 0.0) if q is None else q)) for q in turns or (None, None)]
    for k, arm in enumerate(arms):
        a, b = (np.asarray(point) + turn @ arm for point, turn in zip(points, frames, strict=True))
        part = 1.0 / len(arms)
        builder.add_spring(
            *ends, at_a=a, at_b=b, stiffness=part * stiffness, damping=part * damping, name=f"{name}:spring{k}"
        )


def add_equalities(builder: Builder, parts: Parts) -> None:
    """Add connects and welds as loop joints and linear joint equalities as gears."""
    m = parts.m
    soft = _open_equalities(parts)
    for e in range(m.neq):
        if not m.eq_active0[e] or parts.disabled("EQUALITY"):
            continue
        kind = int(m.eq_type[e])
        if e in soft and kind == _JOINT:
            parts.notes.add("equalities of joints that cannot be met are left out", parts.named("eq", e))
            continue
        name = parts.text(m.name_eqadr[e])
        if kind in (_CONNECT, _WELD):
            _add_loop(builder, parts, e, name, soft.get(e))
        elif kind == _JOINT:
            _add_gear(builder, parts, e, name)
        else:
            parts.notes.add("equalities of tendons and flexes are left out", parts.named("eq", e))


def _add_loop(builder: Builder, parts: Parts, e: int, name: str, soft: tuple[float, float] | None) -> None:
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
        parts.notes.add("equalities of a body with itself are left out", parts.named("eq", e))
        return
    if ends[1] == 0:
        ends, points, turns = ends[::-1], points[::-1], turns[::-1]
    a, b = (parts.bodies[i] for i in ends)
    name = parts.unique(name or f"{a}-{b}", "weld" if fixed else "connect")
    if soft is not None:
        parts.notes.add("equalities that cannot be met together become springs", parts.named("eq", e))
        _add_soft_loop(builder, name, (a, b), points, turns if fixed else None, soft)
        return
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
        parts.notes.add("equalities not linear in another joint are left out", parts.named("eq", e))
        return
    y0, x0 = (float(m.qpos0[m.jnt_qposadr[j]]) for j in (y, x))
    a0, a1 = float(coefficients[0]), float(coefficients[1])
    names = parts.joints[y][0], parts.joints[x][0]
    builder.add_joint_gear(
        parts.unique(name or f"{names[0]}-{names[1]}", "gear"), *names, ratio=a1, offset=y0 + a0 - a1 * x0
    )
