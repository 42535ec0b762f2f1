"""Rolling resistance at contacts, and friction in the joints of figures that touch something.

Friction of contacts does not stop a ball that rolls, and nothing stops what turns on a frictionless joint: a figure on
the ground would rock for ever. So bodies in contact resist turning against each other, by a small part of what presses
them together:

    torque <= part * load * lever

At a contact of a round shape the load is the normal force and the lever that of the contact from the com, so that
`part` is the coefficient of rolling resistance; spinning on the spot is resisted alike. In a joint without friction,
damping or motor of its own the load is the weight of the lighter body and the lever its least radius of gyration, as in
a bearing; figures in flight, and nets and chains that touch nothing, have none. Each angular impulse is at most what
stops the pair, one after the other: energy can only fall.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from limberjack._jit import inner, outlined
from limberjack.collision.shapes import BOX, PLANE
from limberjack.maximal.state import Maximal
from limberjack.model.model import Model
from limberjack.model.spec import Joint
from limberjack.spatial.vectors import symmetric_times

__all__ = ["Resistance", "find_touching", "new_resistance", "resist"]

# Kinds of joints that resist.
_TURNING = ("hinge", "ball", "universal", "cylindrical")


class Resistance(NamedTuple):
    """What resists turning; j joints of n bodies."""

    part: np.ndarray  # (1,) of load times lever
    link: np.ndarray  # (j, 2) bodies, -1 = the world
    torque: np.ndarray  # (j,) largest torque [N m]
    touches: np.ndarray  # (n,) 1 where the island with this root touches something
    round: np.ndarray  # (1,) 1 if any shape is round


def new_resistance(model: Model, whole: Maximal, shape_kinds: np.ndarray, part: float) -> Resistance:
    """Return the resistance of a model; the joints are those in the rows of `whole`."""
    table, bodies, link, torque = whole.table, whole.bodies, [], []
    weight = float(np.linalg.norm(model.gravity))
    joints = {int(table.joint[r]): int(table.row_pair[r, 0]) for r in range(len(table.joint) - 1, -1, -1)}
    for at, name in enumerate(model.joint_names):
        pair = joints.get(at, -1)
        if pair < 0 or not _is_free(model.joint_spec(name)):
            continue
        own = [int(i) for i in table.pair_link[pair] if i >= 0]
        if not own:
            continue
        i = min(own, key=lambda i: bodies.mass[i])
        moments = np.linalg.eigvalsh(bodies.inertia[i][[0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(3, 3))
        link.append([int(i) for i in table.pair_link[pair]])
        torque.append(part * weight * math.sqrt(float(bodies.mass[i] * moments[0])))
    rounded = bool(((shape_kinds != BOX) & (shape_kinds != PLANE)).any())
    return Resistance(
        np.array([part]), np.array(link, np.int64).reshape(-1, 2), np.array(torque, float),
        np.zeros(len(bodies.kind), np.int64), np.array([int(rounded)]),
    )  # fmt: skip


def _is_free(joint: Joint) -> bool:
    """Return whether a joint lets bodies turn, with nothing of its own that resists."""
    if joint.kind not in _TURNING:
        return False
    owned = [np.any(np.asarray(value)) for value in (joint.damping, joint.friction) if value is not None]
    return not any(owned) and not any(joint.motor or ())


@outlined
def find_touching(count, contacts, found, root, resistance):
    """Mark the islands in which a contact pushed in the last step, by their roots."""
    touches = resistance.touches
    if len(resistance.torque) == 0:
        return
    for i in range(len(touches)):
        touches[i] = 0
    for k in range(count):
        if found[k, 0] > 0.0:
            a, b = contacts.link_a[k], contacts.link_b[k]
            touches[root[a]] = 1
            if b >= 0:
                touches[root[b]] = 1


@inner
def _inverse(inverse, i):
    return (inverse[i, 0], inverse[i, 1], inverse[i, 2], inverse[i, 3], inverse[i, 4], inverse[i, 5])


@outlined
def _slow_down(a, b, most, inverse, u):
    """Reduce the angular velocity of body a relative to b by an angular impulse, at most `most` or what stops it."""
    o, x, y, z = 6 * a, u[6 * a], u[6 * a + 1], u[6 * a + 2]
    if b >= 0:
        x, y, z = x - u[6 * b], y - u[6 * b + 1], z - u[6 * b + 2]
    size = math.sqrt(x * x + y * y + z * z)
    if not size > 1e-12:
        return
    x, y, z = x / size, y / size, z / size
    ax, ay, az = symmetric_times(_inverse(inverse, a), x, y, z)
    bx = by = bz = 0.0
    if b >= 0:
        bx, by, bz = symmetric_times(_inverse(inverse, b), x, y, z)
    give = x * (ax + bx) + y * (ay + by) + z * (az + bz)
    if not give > 0.0:
        return
    p = min(most, size / give)
    u[o], u[o + 1], u[o + 2] = u[o] - p * ax, u[o + 1] - p * ay, u[o + 2] - p * az
    if b >= 0:
        o = 6 * b
        u[o], u[o + 1], u[o + 2] = u[o] + p * bx, u[o + 1] + p * by, u[o + 2] + p * bz


@inner
def _lever(k, i, contacts, pose):
    x, y, z = contacts.point[k, 0] - pose[i, 0], contacts.point[k, 1] - pose[i, 1], contacts.point[k, 2] - pose[i, 2]
    return math.sqrt(x * x + y * y + z * z)


@outlined
def resist(h, count, shapes, contacts, found, root, asleep, inverse, pose, resistance, u):
    """Apply the resistance of a substep h to the velocities.

    Args:
        h: length of the substep [s].
        count: contacts.
        shapes, contacts: of the detection.
        found: (c, 4) impulses of the contacts in the last substep.
        root: of the islands.
        asleep: (n,) bodies that sleep.
        inverse: (n, 7) inverse inertias, world axes.
        pose: (n, POSE).
        resistance: of the model.
        u: (6 n,) velocities.
    """
    kind, part = shapes.kind, resistance.part[0]
    if part == 0.0:
        return
    if resistance.round[0] != 0:
        for k in range(count):
            if not found[k, 0] > 0.0:
                continue
            a, b = contacts.link_a[k], contacts.link_b[k]
            first, second = kind[contacts.shape_a[k]], kind[contacts.shape_b[k]]
            one, other = first != BOX and first != PLANE, b >= 0 and second != BOX and second != PLANE
            if asleep[a] or not (one or other):
                continue
            lever = _lever(k, a, contacts, pose) if one else 0.0
            if other:
                lever = _lever(k, b, contacts, pose) if not one else min(lever, _lever(k, b, contacts, pose))
            _slow_down(a, b, part * lever * found[k, 0], inverse, u)
    for t in range(len(resistance.torque)):
        a, b = resistance.link[t, 0], resistance.link[t, 1]
        if a < 0:
            a, b = b, -1
        if resistance.touches[root[a]] != 0 and not asleep[a]:
            _slow_down(a, b, h * resistance.torque[t], inverse, u)
