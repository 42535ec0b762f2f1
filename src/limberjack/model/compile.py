"""From spec and tree to arrays: frames, links, inertias, start state. NumPy over all bodies at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from limberjack.errors import ModelError
from limberjack.model import joints as jt
from limberjack.model.actuators import motorized
from limberjack.model.arrays import Drives, Links, Springs, roles_of
from limberjack.model.check import inertia_problem
from limberjack.model.shape_kinds import body_from_shapes
from limberjack.model.spanning_tree import Tree
from limberjack.model.spec import WORLD, Body, Joint, Motor, Shape, Spec
from limberjack.spatial import frames

__all__ = ["Compiled", "Property", "compile_model", "drives_of", "joint_frames", "properties_of"]

_FLIP = np.diag([1.0, -1.0, -1.0])


@dataclass(frozen=True)
class Compiled:
    """All arrays of a model; bodies and tree joints in tree order."""

    links: Links
    drives: Drives
    springs: Springs
    body_link: np.ndarray  # (n,) link of each body, -1 = fixed to the world
    body_offset: np.ndarray  # (n, 12) body frame in the link frame: rotation, position
    body_mass: np.ndarray  # (n,)
    body_com: np.ndarray  # (n, 3) in the body frame
    body_inertia: np.ndarray  # (n, 6) about the com, body axes
    q_start: np.ndarray  # (n,) per tree joint
    v_start: np.ndarray  # (n,)
    joint_link: np.ndarray  # (n,) link below each tree joint, -1 where it is merged
    limits: np.ndarray  # (nv, 2)
    friction: np.ndarray  # (nv,)
    q0: np.ndarray
    qd0: np.ndarray
    fixed_potential: float  # energy in gravity of bodies fixed to the world [J]


def joint_frames(joint: Joint) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return (R, p) of the joint frame in the parent and (R, p) in the child, turned so that z is the main axis."""
    axis2 = None if joint.axis2 is None else tuple(joint.axis2)
    in_parent, in_child = _rotations(tuple(joint.axis), axis2, tuple(joint.rotation), tuple(joint.rotation_in_child))
    return in_parent, np.array(joint.position), in_child, np.array(joint.position_in_child)


@lru_cache(maxsize=1024)
def _rotations(axis: tuple, axis2: tuple | None, rotation: tuple, rotation_in_child: tuple) -> tuple[np.ndarray, ...]:
    """Return the rotations of a joint's frames, read-only; joints of large models have few different ones."""
    turn = frames.turn_z_to(np.array(axis)) if axis2 is None else _axes(axis, axis2)
    out = tuple(frames.matrix_from_quaternion(np.array(q)) @ turn for q in (rotation, rotation_in_child))
    for one in out:
        one.flags.writeable = False
    return out


def _axes(axis: tuple, axis2: tuple) -> np.ndarray:
    """Return the rotation with x along the first axis and y along the second."""
    x, y = np.array(axis), np.array(axis2)
    y = y - x * (x @ y)
    y /= np.linalg.norm(y)
    return np.column_stack([x, y, np.cross(x, y)])


def _turns(joints: list[Joint]) -> np.ndarray:
    """Return the (n, 3, 3) rotations that bring each joint's axes to its frame's z (universal: x and y)."""
    out = frames.turn_z_to(np.array([joint.axis for joint in joints]).reshape(-1, 3))
    for i, joint in enumerate(joints):
        if joint.axis2 is not None:
            out[i] = _axes(joint.axis, joint.axis2)
    return out


def compile_model(spec: Spec, tree: Tree) -> Compiled:
    """Return the arrays of the model `spec` spanned by `tree`."""
    bodies = [spec.bodies[i] for i in tree.order]
    count = len(bodies)
    factors = [_factors(joint, back) for joint, back in zip(tree.joints, tree.reversed, strict=True)]
    nqs = np.array([_size(joint)[0] for joint in tree.joints], np.int64)
    nvs = np.array([_size(joint)[1] for joint in tree.joints], np.int64)
    q_start, v_start = np.cumsum(nqs) - nqs, np.cumsum(nvs) - nvs
    parent_r, parent_p, child_r, child_p, kind = _placed(tree, factors)
    merged = np.array([joint.kind == "fixed" and spec.merge_fixed for joint in tree.joints], bool)
    body_link, offset_r, offset_p = _offsets(
        np.array(tree.parent, np.int64), merged, parent_r, parent_p, child_r, child_p
    )
    mass, com, inertia = _masses(spec, bodies)
    moving = np.flatnonzero(~merged)
    parent_body = np.array(tree.parent, np.int64)[moving] if count else np.zeros(0, np.int64)
    grounded = parent_body < 0
    safe = np.where(grounded, 0, parent_body)
    placed_r = (
        np.where(grounded[:, None, None], parent_r[moving], offset_r[safe] @ parent_r[moving]) if count else parent_r
    )
    placed_p = np.where(
        grounded[:, None], parent_p[moving],
        offset_p[safe] + np.einsum("nij,nj->ni", offset_r[safe], parent_p[moving]),
    ) if count else parent_p  # fmt: skip
    nv, nq = int(nvs.sum()), int(nqs.sum())
    start, kinds, indices, data = _factor_arrays(factors, moving, kind, q_start, v_start)
    drives, armature, limits, friction = drives_of(motorized(spec, tree.joints), q_start, v_start, nv)
    parent_link = np.where(grounded, -1, body_link[safe]) if count else np.zeros(0, np.int64)
    links = Links(
        parent=parent_link,
        kind=kind[moving],
        q_start=q_start[moving],
        v_start=v_start[moving],
        dof=nvs[moving],
        role=roles_of(parent_link),
        placement=np.ascontiguousarray(np.concatenate([placed_r.reshape(-1, 9), placed_p], axis=1)),
        inertia=_link_inertia(len(moving), body_link, offset_r, offset_p, mass, com, inertia),
        factor_start=start,
        factor_kind=kinds,
        factor_indices=indices,
        factor_data=data,
        gravity=np.array(spec.gravity),
        armature=armature,
        runs=_runs(factors, moving, kind, parent_link, q_start, v_start),
        quaternions=_quaternions(factors, q_start, v_start),
    )
    offset = np.ascontiguousarray(np.concatenate([offset_r.reshape(-1, 9), offset_p], axis=1))
    joint_link = np.full(count, -1, np.int64)
    joint_link[moving] = np.arange(len(moving))
    q0, qd0 = _start(spec, tree, bodies, factors, q_start, v_start, nq, nv)
    where = {body.name: i for i, body in enumerate(bodies)}
    return Compiled(
        links, drives, _springs(spec, where, body_link, offset), body_link, offset, mass, com, inertia, q_start,
        v_start, joint_link, limits, friction, q0, qd0, _fixed_potential(spec, body_link, offset, mass, com),
    )  # fmt: skip


def _fixed_potential(spec: Spec, link: np.ndarray, offset: np.ndarray, mass: np.ndarray, com: np.ndarray) -> float:
    on = np.flatnonzero(link < 0)
    center = offset[on, 9:] + np.einsum("nij,nj->ni", offset[on, :9].reshape(-1, 3, 3), com[on])
    return float(-(mass[on, None] * center).sum(axis=0) @ np.array(spec.gravity)) if on.size else 0.0


def _size(joint: Joint) -> tuple[int, int]:
    if joint.kind == "compound":
        return len(joint.axes), len(joint.axes)
    kind = jt.KINDS[joint.kind]
    return kind.nq, kind.nv


_COMMON: dict[tuple[str, bool], tuple[jt.Factor, ...]] = {}


def _factors(joint: Joint, back: bool) -> tuple[jt.Factor, ...]:
    """Return the factors of a tree joint as it stands; those of plain kinds are shared."""
    if joint.kind in ("compound", "screw"):
        factors = jt.factors_of(joint)
        return jt.reverse(factors) if back else factors
    key = (joint.kind, back)
    if key not in _COMMON:
        factors = jt.factors_of(joint)
        _COMMON[key] = jt.reverse(factors) if back else factors
    return _COMMON[key]


def _placed(tree: Tree, factors: list[tuple[jt.Factor, ...]]) -> tuple[np.ndarray, ...]:
    """Return joint frames in the bodies above and below (R, p each) and the link kinds."""
    joints = tree.joints
    turn = _turns(joints)
    r_p = frames.matrix_from_quaternion(np.array([j.rotation for j in joints]).reshape(-1, 4)) @ turn
    r_c = frames.matrix_from_quaternion(np.array([j.rotation_in_child for j in joints]).reshape(-1, 4)) @ turn
    p_p = np.array([j.position for j in joints]).reshape(-1, 3)
    p_c = np.array([j.position_in_child for j in joints]).reshape(-1, 3)
    kind = np.full(len(joints), jt.GENERAL, np.int64)
    plain = {"hinge": jt.HINGE, "slide": jt.SLIDE, "ball": jt.BALL, "free": jt.FREE}
    for i, joint in enumerate(joints):
        if joint.kind in plain and not (tree.reversed[i] and joint.kind == "ball"):
            kind[i] = plain[joint.kind]
    back = np.flatnonzero(tree.reversed)
    if back.size:
        r_p[back], r_c[back] = r_c[back].copy(), r_p[back].copy()
        p_p[back], p_c[back] = p_c[back].copy(), p_p[back].copy()
        # The kernels' hinge and slide move along +z: flip both frames instead of negating q.
        flip = back[kind[back] <= jt.SLIDE]
        r_p[flip], r_c[flip] = r_p[flip] @ _FLIP, r_c[flip] @ _FLIP
    return r_p, p_p, r_c, p_c, kind


def _offsets(
    parent: np.ndarray,
    merged: np.ndarray,
    parent_r: np.ndarray,
    parent_p: np.ndarray,
    child_r: np.ndarray,
    child_p: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return each body's link and its frame in the link frame."""
    link = np.cumsum(~merged) - 1
    offset_r, offset_p = frames.invert(child_r, child_p)
    for i in np.flatnonzero(merged):
        above = parent[i]
        step = frames.compose(parent_r[i], parent_p[i], offset_r[i], offset_p[i])
        if above < 0:
            link[i], offset_r[i], offset_p[i] = -1, step[0], step[1]
        else:
            link[i] = link[above]
            offset_r[i], offset_p[i] = frames.compose(offset_r[above], offset_p[above], *step)
    return link, offset_r, offset_p


def _masses(spec: Spec, bodies: list[Body]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return masses, coms and inertias about the com, in tree order; taken from shapes where the spec says so."""
    mass = np.array([0.0 if body.mass is None else body.mass for body in bodies])
    com = np.array([body.com for body in bodies], float).reshape(-1, 3)
    inertia = np.array([body.inertia or (0.0,) * 6 for body in bodies], float).reshape(-1, 6)
    wanted = {
        body.name: i
        for i, body in enumerate(bodies)
        # A particle stays a point whatever its shapes.
        if body.mass is None or (body.inertia is None and body.mass > 0 and body.body_kind != "particle")
    }
    shapes: dict[str, list[Shape]] = {}
    for shape in spec.shapes:
        if shape.body in wanted and shape.kind != "plane":
            shapes.setdefault(shape.body, []).append(shape)
    for name, own in shapes.items():
        i = wanted[name]
        body = bodies[i]
        m, c, full = body_from_shapes(own, body.mass)
        six = [full[0, 0], full[1, 1], full[2, 2], full[0, 1], full[0, 2], full[1, 2]]
        problem = inertia_problem(m, six)
        if problem:
            raise ModelError(f'body "{name}", from its shapes: {problem}')
        mass[i], inertia[i] = m, six
        if body.mass is None:
            com[i] = c
    return mass, com, inertia


def _link_inertia(
    count: int,
    link: np.ndarray,
    r: np.ndarray,
    p: np.ndarray,
    mass: np.ndarray,
    com: np.ndarray,
    inertia: np.ndarray,
) -> np.ndarray:
    """Return (count, 10): inertia about the link origin, first moment and mass of all bodies on each link."""
    out = np.zeros((count, 10))
    on = np.flatnonzero(link >= 0)
    if on.size == 0:
        return out
    full = inertia[on][:, [0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(-1, 3, 3)
    c = p[on] + np.einsum("nij,nj->ni", r[on], com[on])
    s = frames.skew(c)
    about = r[on] @ full @ np.swapaxes(r[on], 1, 2) + mass[on, None, None] * (s @ np.swapaxes(s, 1, 2))
    rows = np.concatenate([about.reshape(-1, 9)[:, [0, 4, 8, 1, 2, 5]], mass[on, None] * c, mass[on, None]], axis=1)
    np.add.at(out, link[on], rows)
    return out


def _factor_arrays(
    factors: list[tuple[jt.Factor, ...]],
    moving: np.ndarray,
    kind: np.ndarray,
    q_start: np.ndarray,
    v_start: np.ndarray,
) -> tuple[np.ndarray, ...]:
    start, kinds, indices, data = [0], [], [], []
    for i in moving:
        if kind[i] == jt.GENERAL:
            for f in factors[i]:
                kinds.append(f.kind)
                indices.append((q_start[i] + f.q, v_start[i] + f.v))
                data.append((*f.axis, *f.point, f.pitch))
        start.append(len(kinds))
    return (
        np.array(start, np.int64),
        np.array(kinds, np.int64),
        np.array(indices, np.int64).reshape(-1, 2),
        np.array(data, float).reshape(-1, 7),
    )


def _runs(
    factors: list[tuple[jt.Factor, ...]], moving: np.ndarray, kind: np.ndarray, parent: np.ndarray, q_start: np.ndarray,
    v_start: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Return runs of scalar dofs that follow each other in qd and in q; none crosses from one tree to the next."""
    runs: list[list[int]] = []
    for i, above in zip(moving, parent, strict=True):
        fresh = above < 0
        # A joint lists its dofs in the order of its coordinates, reversed or not.
        for f in sorted(factors[i], key=lambda factor: factor.v):
            if f.kind not in (jt.TURN, jt.PUSH):
                continue
            v, q = int(v_start[i]) + f.v, int(q_start[i]) + f.q
            if runs and not fresh and runs[-1][0] + runs[-1][2] == v and runs[-1][1] + runs[-1][2] == q:
                runs[-1][2] += 1
            else:
                runs.append([v, q, 1])
            fresh = False
    return np.array(runs, np.int64).reshape(-1, 3)


def _quaternions(factors: list[tuple[jt.Factor, ...]], q_start: np.ndarray, v_start: np.ndarray) -> np.ndarray:
    indices = [
        (q_start[i] + f.q, v_start[i] + f.v)
        for i, own in enumerate(factors)
        for f in own
        if f.kind in (jt.SPIN, jt.SPIN_BACK)
    ]
    return np.array(indices, np.int64).reshape(-1, 2)


def drives_of(
    joints: list[Joint], q_start: np.ndarray, v_start: np.ndarray, nv: int
) -> tuple[Drives, np.ndarray, np.ndarray, np.ndarray]:
    """Return the drive rows, and armature, hard limits and dry friction per dof."""
    armature, friction = np.zeros(nv), np.zeros(nv)
    limits = np.tile([-np.inf, np.inf], (nv, 1))
    index: list[tuple[int, int]] = []
    rows: list[list[float]] = []
    ball_index: list[tuple[int, int]] = []
    balls: list[list[float]] = []
    for i, joint in enumerate(joints):
        for prop in properties_of(joint):
            q, v = int(q_start[i] + prop.q), int(v_start[i] + prop.v)
            width = 3 if prop.spin else 1
            armature[v : v + width] = prop.armature
            friction[v : v + width] = prop.friction
            low, high = prop.limits or (-np.inf, np.inf)
            soft = prop.limits is not None and bool(prop.limit_stiffness)
            if prop.limits is not None and not soft:
                limits[v] = low, high
            ks, kd = (prop.limit_stiffness or 0.0, prop.limit_damping or 0.0) if soft else (0.0, 0.0)
            motor = prop.motor or Motor()
            if prop.spin:
                target = motor.target if isinstance(motor.target, tuple) else (1.0, 0.0, 0.0, 0.0)
                if any(prop.damping) or prop.stiffness or soft or motor.kp or motor.kd:
                    ball_index.append((q, v))
                    balls.append(
                        [
                            *prop.damping,
                            prop.stiffness,
                            *prop.rest,
                            high,
                            ks,
                            kd,
                            motor.kp,
                            motor.kd,
                            *target,
                            motor.max,
                        ]
                    )
            elif prop.damping[0] or prop.stiffness or soft or motor.kp or motor.kd:
                index.append((q, v))
                aim = motor.target if isinstance(motor.target, (int, float)) else motor.target[0]
                rows.append(
                    [
                        prop.damping[0],
                        prop.stiffness,
                        prop.rest[0],
                        low,
                        high,
                        ks,
                        kd,
                        motor.kp,
                        motor.kd,
                        aim,
                        motor.velocity,
                        motor.max,
                    ]
                )
    drives = Drives(
        np.array(index, np.int64).reshape(-1, 2),
        np.array(rows, float).reshape(-1, 12),
        np.array(ball_index, np.int64).reshape(-1, 2),
        np.array(balls, float).reshape(-1, 18),
    )
    return drives, armature, limits, friction


@dataclass(frozen=True, slots=True)
class Property:
    """What acts on one scalar or ball dof of a joint; `q` and `v` are its indices in the joint."""

    q: int
    v: int
    spin: bool
    damping: tuple[float, ...]
    stiffness: float
    rest: tuple[float, ...]
    armature: float | tuple[float, ...]
    friction: float | tuple[float, ...]
    limits: tuple[float, float] | None
    limit_stiffness: float | None
    limit_damping: float | None
    motor: Motor | None


def properties_of(joint: Joint) -> list[Property]:
    """Return the properties of each scalar or ball dof of a joint that has any."""
    if joint.kind == "compound":
        return [
            Property(
                k, k, False, (axis.damping,), axis.stiffness, (axis.rest,), axis.armature, axis.friction, axis.limits,
                axis.limit_stiffness, axis.limit_damping, axis.motor,
            )
            for k, axis in enumerate(joint.axes)
        ]  # fmt: skip
    given = (joint.damping, joint.stiffness, joint.armature, joint.friction, joint.limits, joint.motor)
    if all(value is None for value in given):
        return []
    nq, nv = _size(joint)
    zero, none = (0.0,) * nv, (None,) * nv
    rest = joint.rest or tuple(jt.identity_coordinates(joint))
    damping, stiffness = joint.damping or zero, joint.stiffness or zero
    armature, friction = joint.armature or zero, joint.friction or zero
    limits, motors = joint.limits or none, joint.motor or none
    ks, kd = joint.limit_stiffness or none, joint.limit_damping or none
    out = []
    for f in jt.factors_of(joint):
        spin, v = f.kind in (jt.SPIN, jt.SPIN_BACK), f.v
        end_q, end_v = f.q + (4 if spin else 1), v + (3 if spin else 1)
        out.append(
            Property(
                f.q, v, spin, damping[v:end_v], stiffness[v], rest[f.q : end_q], armature[v:end_v], friction[v:end_v],
                limits[v], ks[v], kd[v], motors[v],
            )
        )  # fmt: skip
    return out


def _springs(spec: Spec, where: dict[str, int], body_link: np.ndarray, offset: np.ndarray) -> Springs:
    link, point, data = [], [], []
    for spring in spec.springs:
        ends = []
        for body, at in ((spring.a, spring.at_a), (spring.b, spring.at_b)):
            if body == WORLD:
                ends.append((-1, np.array(at)))
            else:
                i = where[body]
                ends.append((body_link[i], offset[i, :9].reshape(3, 3) @ np.array(at) + offset[i, 9:]))
        link.append([ends[0][0], ends[1][0]])
        point.append(np.concatenate([ends[0][1], ends[1][1]]))
        data.append([spring.stiffness, spring.damping, spring.rest])
    return Springs(
        np.array(link, np.int64).reshape(-1, 2),
        np.array(point, float).reshape(-1, 6),
        np.array(data, float).reshape(-1, 3),
    )


def _start(
    spec: Spec, tree: Tree, bodies: list[Body], factors: list[tuple[jt.Factor, ...]], q_start: np.ndarray,
    v_start: np.ndarray, nq: int, nv: int,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Return (q0, qd0) from joint starts and body poses."""
    q0, qd0 = np.zeros(nq), np.zeros(nv)
    posed = any(
        (body.position is not None or body.rotation is not None) and joint.kind != "free" and joint.start is None
        for body, joint in zip(bodies, tree.joints, strict=True)
    )
    for i, (body, joint) in enumerate(zip(bodies, tree.joints, strict=True)):
        q, v = int(q_start[i]), int(v_start[i])
        for f in factors[i]:
            if f.kind in (jt.SPIN, jt.SPIN_BACK):
                q0[q + f.q] = 1.0
        if joint.kind == "free" and joint.start is None:
            q0[q : q + 3] = body.position or (0.0, 0.0, 0.0)
            q0[q + 3 : q + 7] = body.rotation or (1.0, 0.0, 0.0, 0.0)
        elif joint.kind == "compound":
            q0[q : q + len(joint.axes)] = [axis.start for axis in joint.axes]
            qd0[v : v + len(joint.axes)] = [axis.start_velocity for axis in joint.axes]
        elif joint.start is not None:
            q0[q : q + len(joint.start)] = joint.start
        if joint.start_velocity is not None:
            qd0[v : v + len(joint.start_velocity)] = joint.start_velocity
    if posed:
        _pose_joints(tree, bodies, factors, q_start, q0)
    return q0, qd0


def _pose_joints(
    tree: Tree, bodies: list[Body], factors: list[tuple[jt.Factor, ...]], q_start: np.ndarray, q0: np.ndarray
) -> None:
    """Fill q0 of joints whose child was given a start pose; refuse a pose the joint cannot take."""
    poses: list[tuple[np.ndarray, np.ndarray]] = []
    for i, (body, joint) in enumerate(zip(bodies, tree.joints, strict=True)):
        above = (np.eye(3), np.zeros(3)) if tree.parent[i] < 0 else poses[tree.parent[i]]
        r_p, p_p, r_c, p_c = joint_frames(joint)
        if tree.reversed[i]:
            r_p, p_p, r_c, p_c = r_c, p_c, r_p, p_p
        base = frames.compose(*above, r_p, p_p)
        q = slice(int(q_start[i]), int(q_start[i]) + _size(joint)[0])
        wanted = body.position is not None or body.rotation is not None
        if wanted and joint.kind != "free" and joint.start is None:
            pose = (
                frames.matrix_from_quaternion(np.array(body.rotation or (1.0, 0.0, 0.0, 0.0))),
                np.array(body.position or (0.0,) * 3),
            )
            relative = frames.compose(*frames.invert(*base), *frames.compose(*pose, r_c, p_c))
            seen = frames.invert(*relative) if tree.reversed[i] else relative
            q0[q] = jt.coordinates(joint, *seen)
            got = frames.compose(*frames.compose(*base, *jt.transform(factors[i], q0[q])), *frames.invert(r_c, p_c))
            gap = max(float(np.abs(got[0] - pose[0]).max()), float(np.abs(got[1] - pose[1]).max()))
            if gap > 1e-6:
                raise ModelError(
                    f'body "{body.name}": its start pose is off by {gap:.3g} from what joint "{joint.name}" allows'
                )
        poses.append(frames.compose(*frames.compose(*base, *jt.transform(factors[i], q0[q])), *frames.invert(r_c, p_c)))
