"""The spanning tree: which joints form the tree, which close loops, in which order and direction.

Joints are taken in creation order, the first that connects two parts stays in the tree. Bodies and joints are then
numbered depth first from the world, children in creation order. A joint may be in the tree with its direction
reversed (its child is nearer the world); the user's sign of q is preserved by reversing its factors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from limberjack.errors import ModelError
from limberjack.model.joints import KINDS
from limberjack.model.spec import WORLD, Axis, Body, Joint, Spec

__all__ = ["Tree", "span"]

# Kinds that constrain a point of the child and leave it free to rotate: on a particle, which has no rotational inertia,
# they connect points and are loop joints.
_POINTS = ("ball", "point_on_line", "point_on_plane")


@dataclass(frozen=True)
class Tree:
    """Bodies and joints in their final order.

    Attributes:
        order: creation index of each body, in tree order.
        parent: tree index of each body's parent, -1 = world.
        joints: the joint above each body.
        reversed: whether that joint is reversed: its child is nearer the world.
        loops: joints that close loops, and couplings, in creation order.
    """

    order: list[int]
    parent: list[int]
    joints: list[Joint]
    reversed: list[bool]
    loops: list[Joint]


def span(spec: Spec) -> Tree:
    """Return the spanning tree of `spec`."""
    count = len(spec.bodies)
    world = count
    index = {body.name: i for i, body in enumerate(spec.bodies)}
    index[WORLD] = world
    edges, loops, roots = _choose(spec, index, count)
    neighbours: list[list[tuple[int, Joint, bool]]] = [[] for _ in range(count + 1)]
    for joint in edges:
        parent, child = index[joint.parent], index[joint.child]
        neighbours[parent].append((child, joint, False))
        neighbours[child].append((parent, joint, True))
    names = {joint.name for joint in spec.joints} | {axis.name for joint in spec.joints for axis in joint.axes}
    for root in roots:
        neighbours[world].append((root, _root_joint(spec.bodies[root], names), False))
    return Tree(*_walk(neighbours, world), loops)


def _choose(spec: Spec, index: dict[str, int], count: int) -> tuple[list[Joint], list[Joint], list[int]]:
    """Return (tree joints, loop joints, bodies that are roots of parts not connected to the world)."""
    leader = list(range(count + 1))
    root = list(range(count + 1))

    def find(i: int) -> int:
        while leader[i] != i:
            leader[i] = leader[leader[i]]
            i = leader[i]
        return i

    edges: list[Joint] = []
    loops: list[Joint] = []
    points = {body.name for body in spec.bodies if body.body_kind == "particle"}
    for joint in spec.joints:
        if not KINDS[joint.kind].tree or (joint.kind in _POINTS and not points.isdisjoint((joint.parent, joint.child))):
            loops.append(joint)
            continue
        parent, child = index[joint.parent], index[joint.child]
        a, b = find(parent), find(child)
        if a == b:
            if joint.kind == "free":
                raise ModelError(f'free joint "{joint.name}": body "{joint.child}" is connected to the world already')
            loops.append(joint)
            continue
        if root[a] == count or root[b] == count:
            top = count
        else:
            # A child that has a parent already keeps it: then the joint is reversed and the other part hangs below.
            top = root[a] if root[b] == child else root[b]
        leader[b] = a
        root[a] = top
        edges.append(joint)
    roots = sorted(root[i] for i in range(count + 1) if leader[i] == i and root[i] != count)
    return edges, loops, roots


def _root_joint(body: Body, names: set[str]) -> Joint:
    """Return the joint to the world of a body without a parent, named after it: free, or what suits its kind."""
    letters = "xyz" if body.body_kind == "particle" else ""
    name = body.name
    while name in names or any(f"{name}:{letter}" in names for letter in letters):
        name += ":free"
    zero, one = (0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0)
    frame = (name, body.body_kind, WORLD, body.name, zero, one, zero, one)
    origin = body.position or zero
    if body.body_kind == "planar":
        w, _, _, z = body.rotation or one
        angle = 2.0 * math.atan2(z, w) if w >= 0.0 else 2.0 * math.atan2(-z, -w)
        return Joint(*frame, start=(origin[0], origin[1], angle))
    if body.body_kind == "particle":
        directions = (("x", (1.0, 0.0, 0.0)), ("y", (0.0, 1.0, 0.0)), ("z", (0.0, 0.0, 1.0)))
        axes = tuple(
            Axis(name=f"{name}:{letter}", kind="slide", axis=axis, start=at)
            for (letter, axis), at in zip(directions, origin, strict=True)
        )
        # The start of the joint says that the start pose is in its axes already.
        return Joint(name, "compound", *frame[2:], axes=axes, start=origin)
    return Joint(name, "free", *frame[2:])


def _walk(
    neighbours: list[list[tuple[int, Joint, bool]]], world: int
) -> tuple[list[int], list[int], list[Joint], list[bool]]:
    """Return bodies, parents, joints and directions depth first from the world, without recursion."""
    order: list[int] = []
    parents: list[int] = []
    joints: list[Joint] = []
    backward: list[bool] = []
    stack = [
        (child, -1, joint, flipped, world)
        for child, joint, flipped in sorted(neighbours[world], key=_first, reverse=True)
    ]
    while stack:
        body, parent, joint, flipped, came_from = stack.pop()
        index = len(order)
        order.append(body)
        parents.append(parent)
        joints.append(joint)
        backward.append(flipped)
        below = [edge for edge in neighbours[body] if edge[1] is not joint and edge[0] != came_from]
        stack += [(child, index, edge, turned, body) for child, edge, turned in sorted(below, key=_first, reverse=True)]
    return order, parents, joints, backward


def _first(edge: tuple[int, Joint, bool]) -> int:
    return edge[0]
