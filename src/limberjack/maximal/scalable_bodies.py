"""Bodies that are not rigid (scalable, affine, registered kinds): their points, shape coordinates and frames.

Coordinates of joints place bodies as if all were rigid. Joints of a tree stay closed when each body is then moved
along with the point of its parent that carries it (`close_tree`). Frames and velocities of such models are read from
the bodies, not from the joint coordinates. `rigid_model` and `model_with_masses` give variants of a model for methods
that move rigid bodies only, and for geometry alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from limberjack._jit import kernel
from limberjack.constraints.table import Pairs
from limberjack.errors import StateError, UnsupportedByMethod
from limberjack.maximal.bodies import AFFINE, PLANAR, REGISTERED_BODY, RIGID, SCALABLE, SCALABLE_AXES, SHAPE, body_point
from limberjack.maximal.registered_bodies import COM_VELOCITY
from limberjack.maximal.rows import Maximal
from limberjack.model.body_kinds import BODY_KINDS
from limberjack.model.compile import joint_frames
from limberjack.model.model import Model
from limberjack.model.registered import RegisteredBody
from limberjack.spatial.frames import matrix_from_quaternion, quaternion_from_matrix

__all__ = [
    "body_frames",
    "body_velocities",
    "close_tree",
    "may_be_primary",
    "registered_columns",
    "point_motion",
    "rigid_model",
    "shape_columns",
    "start_shapes",
    "model_with_masses",
]


def rigid_model(model: Model) -> Model:
    """Return the model with all bodies rigid."""
    plain = {"body_kind": "rigid", "scale": None, "scale_stiffness": 0.0, "scale_rest": None}
    bodies = [body if BODY_KINDS[body.body_kind].tree else replace(body, **plain) for body in model.spec.bodies]
    return Model(replace(model.spec, bodies=bodies))


def model_with_masses(model: Model) -> Model:
    """Return the model with mass and inertia on bodies that lack it about some axis; its geometry is the same."""
    own = model.arrays.links.inertia
    heavy = own[:, 9] > 0.0
    center = own[:, 6:9] / np.where(heavy, own[:, 9], 1.0)[:, None]
    tensor = own[:, [0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(-1, 3, 3)
    squares = np.einsum("ni,ni->n", center, center)[:, None, None] * np.eye(3) - center[:, :, None] * center[:, None, :]
    tensor = tensor - own[:, 9, None, None] * squares
    turns = np.linalg.eigvalsh(tensor)[:, 0] > 0.0 if len(tensor) else heavy
    light = {model.body_names[b] for b, link in enumerate(model.arrays.body_link) if link >= 0 and not heavy[link]}
    light |= {model.body_names[b] for b, link in enumerate(model.arrays.body_link) if link >= 0 and not turns[link]}
    light &= {body.name for body in model.spec.bodies if body.body_kind == "rigid"}
    if not light:
        return model
    ball = (1.0, 1.0, 1.0, 0.0, 0.0, 0.0)
    bodies = [
        replace(body, mass=body.mass or 1.0, inertia=ball) if body.name in light else body for body in model.spec.bodies
    ]
    return Model(replace(model.spec, bodies=bodies))


@kernel
def _point(
    # model
    bodies,
    # in
    i, px, py, pz, ends,
    # out
    out,
):  # fmt: skip
    """Fill lever and relative velocity of the body's point p from its reference point."""
    lx, ly, lz, vx, vy, vz, _, _, _ = body_point(bodies, i, px, py, pz, ends)
    out[0], out[1], out[2], out[3], out[4], out[5] = lx, ly, lz, vx, vy, vz


def may_be_primary(whole: Maximal) -> np.ndarray:
    """Return (nc,) which constraints may be part of a forest: not those on registered kinds.

    Points of these need not move in all directions, and rows without mobility are detected in auxiliary solves only.
    """
    system = whole.system
    own = whole.bodies.kind[system.incidence_body] == REGISTERED_BODY
    of_incidence = np.repeat(np.arange(len(system.row_start) - 1), np.diff(system.incidence_start))
    return np.bincount(of_incidence[own], minlength=len(system.row_start) - 1) == 0


def registered_columns(count: int) -> np.ndarray:
    """Return the columns of a pose that hold the coordinates of a registered kind."""
    return np.array([c if c < 3 else SHAPE + c - 3 for c in range(count)], np.int64)


def _axes_in_link(model: Model, link: int) -> np.ndarray:
    """Return the link axis along which each axis of a body scaled per axis lies; raise where there is none."""
    body = int(np.flatnonzero(model.arrays.body_link == link)[0])
    turn = np.abs(model.arrays.body_offset[body, :9].reshape(3, 3))
    out = turn.argmax(axis=0)
    if np.abs(turn[out, np.arange(3)] - 1.0).max() > 1e-12:
        joint = model.joint_names[int(np.flatnonzero(model.arrays.joint_link == link)[0])]
        raise UnsupportedByMethod(
            f'body "{model.body_names[body]}" scales along its axes, and the axis of joint "{joint}" lies between '
            "them; turn the body frame so that they agree"
        )
    return out


def shape_columns(model: Model, whole: Maximal, link: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns of a pose, and the velocities, that are shape coordinates of a body."""
    kind, start, end = int(whole.bodies.kind[link]), int(whole.bodies.start[link]), int(whole.bodies.start[link + 1])
    if kind < SCALABLE:
        raise StateError("the body keeps its size and has no coordinates of its own")
    if kind == REGISTERED_BODY:
        return registered_columns(end - start), np.arange(start, end)
    first = start + (3 if kind == AFFINE else 6)
    order = _axes_in_link(model, link) if kind == SCALABLE_AXES else np.arange(end - first)
    return SHAPE + order, first + order


def start_shapes(model: Model, whole: Maximal, pose: np.ndarray, u: np.ndarray) -> bool:
    """Write the initial scales and coordinates of bodies; return whether there are any."""
    found = False
    spec = {body.name: body for body in model.spec.bodies}
    for i, name in enumerate(model.body_names):
        link, body = int(model.arrays.body_link[i]), spec[name]
        if link < 0 or whole.bodies.kind[link] < SCALABLE:
            continue
        columns, speeds = shape_columns(model, whole, link)
        plain = np.eye(3).ravel() if whole.bodies.kind[link] == AFFINE else np.ones(len(columns))
        pose[link, columns] = plain if body.scale is None else body.scale
        if whole.bodies.kind[link] == SCALABLE_AXES:
            whole.bodies.scale_spring[link, 1 + columns - SHAPE] = plain if body.scale_rest is None else body.scale_rest
        if isinstance(body, RegisteredBody):
            u[speeds], pose[link, 3] = body.rates, 1.0
        found = True
    return found


def point_motion(whole: Maximal, ends: np.ndarray, link: int, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return position and velocity of a point of a body, given from its com; `ends` and maps are up to date."""
    out = np.zeros(6)
    if whole.bodies.kind[link] >= SCALABLE:
        _point(whole.bodies, link, *(float(x) for x in point), ends, out)
    else:
        out[:3] = ends[link, :9].reshape(3, 3) @ point
        out[3:] = np.cross(ends[link, 12:15], out[:3])
    return ends[link, 9:12] + out[:3], ends[link, 15:18] + out[3:]


def close_tree(
    model: Model, whole: Maximal, placed: np.ndarray, ends: np.ndarray, pose: np.ndarray, u: np.ndarray
) -> bool:
    """Move bodies such that the joints of the tree are closed for the current shapes; return whether any moved.

    Args:
        model: the model.
        whole: the model in maximal coordinates, its maps up to date.
        placed: (n, 13) com, quaternion, angular velocity and velocity of bodies as if all were rigid.
        ends: of the bodies, up to date; written too.
        pose: of the bodies, positions as placed.
        u: their velocities, likewise.
    """
    bodies, pairs, moved = whole.bodies, Pairs(model), False
    for name in model.joint_names[: model.joint_count - len(model.loop_names)]:
        joint = model.joint_spec(name)
        r_p, p_p, r_c, p_c = joint_frames(joint)
        links, points = [], []
        for body, r, p in ((joint.parent, r_p, p_p), (joint.child, r_c, p_c)):
            link, frame = pairs.end(body, r, p)
            links.append(link)
            points.append(frame[9:] - (whole.center[link] if link >= 0 else 0.0))
        below = max(links)
        if joint.kind == "free" or links[0] == links[1] or bodies.kind[below] == REGISTERED_BODY:
            continue
        one = links.index(below)
        offsets = [
            (0.0, 0.0) if link < 0 else _offset_from_rigid(placed[link], point_motion(whole, ends, link, p), p)
            for link, p in zip(links, points, strict=True)
        ]
        shift, speed = (offsets[1 - one][k] - offsets[one][k] for k in range(2))
        if not np.any(shift) and not np.any(speed):
            continue
        moved = True
        kind, o = int(bodies.kind[below]), int(bodies.start[below])
        linear, count = o + (3 if kind in (RIGID, SCALABLE, SCALABLE_AXES) else 0), 2 if kind == PLANAR else 3
        pose[below, :3] += shift
        ends[below, 9:12] += shift
        u[linear : linear + count] += np.broadcast_to(speed, 3)[:count]
        ends[below, 15:18] += speed
    return moved


def _offset_from_rigid(placed: np.ndarray, now: tuple[np.ndarray, np.ndarray], point: np.ndarray) -> tuple[Any, Any]:
    """Return the offset and relative velocity of a point of a body from where it would be if the body were rigid."""
    lever = matrix_from_quaternion(placed[3:7]) @ point
    return now[0] - (placed[:3] + lever), now[1] - (placed[10:13] + np.cross(placed[7:10], lever))


def _nearest_rotation(shape: np.ndarray) -> np.ndarray:
    """Return the rotation nearest to a matrix, by Newton's iteration for its polar part.

    For a singular or mirroring matrix, as bodies in a plane or a line may give, the first columns decide.
    """
    out = shape
    if not np.linalg.det(shape) > 1e-9:
        x, y, z = shape.T
        if not (np.linalg.norm(x) > 1e-9 and np.linalg.norm(np.cross(x, y)) > 1e-9):
            return np.eye(3)
        z = np.cross(x, y) / np.linalg.norm(np.cross(x, y))
        x = x / np.linalg.norm(x)
        return np.column_stack([x, np.cross(z, x), z])
    for _ in range(60):
        a, b, c = out.T
        inverse = np.array([np.cross(b, c), np.cross(c, a), np.cross(a, b)]) / (a @ np.cross(b, c))
        after = 0.5 * (out + inverse.T)
        if np.abs(after - out).max() < 1e-15:
            return after
        out = after
    return out


def body_frames(
    model: Model, whole: Maximal, pose: np.ndarray, position_of: Callable[[int, np.ndarray], np.ndarray], rest: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return origins (n, 3) and quaternions (n, 4) of the body frames; without axes, the nearest rotation.

    Args:
        model: the model.
        whole: the model in maximal coordinates, its maps up to date.
        pose: of the bodies.
        position_of: gives the world position of a point of a link's frame.
        rest: the two arrays as coordinates have them, for bodies fixed to the world.
    """
    positions, rotations = (np.array(one) for one in rest)
    for i, link in enumerate(model.arrays.body_link.tolist()):
        if link < 0:
            continue
        offset = model.arrays.body_offset[i]
        turn = matrix_from_quaternion(pose[link, 3:7])
        if whole.bodies.kind[link] >= AFFINE:
            turn = _nearest_rotation(whole.bodies.maps[link, :9].reshape(3, 3))
        found = np.asarray(quaternion_from_matrix(turn @ offset[:9].reshape(3, 3)))
        positions[i], rotations[i] = position_of(link, offset[9:]), found if found @ rotations[i] >= 0.0 else -found
    return positions, rotations


def body_velocities(model: Model, whole: Maximal, ends: np.ndarray) -> np.ndarray:
    """Return (n, 6) angular velocities and velocities of the coms; affine bodies rotate as their map without shear.

    Args:
        model: the model.
        whole: the model in maximal coordinates, its maps up to date.
        ends: of the bodies.
    """
    a, out = model.arrays, np.zeros((model.body_count, 6))
    for i, link in enumerate(a.body_link.tolist()):
        if link < 0:
            continue
        offset = a.body_offset[i]
        at = offset[:9].reshape(3, 3) @ a.body_com[i] + offset[9:] - whole.center[link]
        out[i, :3], out[i, 3:] = ends[link, 12:15], ends[link, 15:18]
        if whole.bodies.kind[link] >= SCALABLE:
            map_now, rate = whole.bodies.maps[link, :9].reshape(3, 3), whole.bodies.maps[link, 9:18].reshape(3, 3)
            out[i, 3:] += rate @ at
            if whole.bodies.kind[link] == REGISTERED_BODY:
                out[i, 3:] = whole.bodies.registered[link, COM_VELOCITY : COM_VELOCITY + 3]
            if whole.bodies.kind[link] >= AFFINE:
                flow = rate @ np.linalg.pinv(map_now)
                out[i, :3] = 0.5 * np.array([flow[2, 1] - flow[1, 2], flow[0, 2] - flow[2, 0], flow[1, 0] - flow[0, 1]])
        else:
            out[i, 3:] += np.cross(ends[link, 12:15], ends[link, :9].reshape(3, 3) @ at)
    return out
