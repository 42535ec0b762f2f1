"""Reading URDF: a tolerant reader for real files, which reports every repair by file and line.

The root link is fixed to the world, or free. A root link called "world" is the world itself. Links are
bodies and joints are joints of the same names; a mimic joint gives a gear called "<joint>:mimic". Collision
elements become shapes that collide, visual elements shapes that do not. Effort and velocity limits make no
motors. The coordinates of a floating joint are in world axes, whatever the pose of its parent link.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from limberjack.errors import FileError, ModelError, ModelWarning, UnknownName
from limberjack.io.closed_start import with_closed_start
from limberjack.io.overlaps import Core, core_of, overlap
from limberjack.io.urdf_loops import Loops, read_loops
from limberjack.io.urdf_shapes import Shape, Shapes
from limberjack.io.urdf_source import NO_TURN, ORIGIN, Pose, Source
from limberjack.io.xml import Element, Roots, read_xml
from limberjack.model import check
from limberjack.model.builder import Builder
from limberjack.model.model import Model
from limberjack.model.spec import WORLD
from limberjack.spatial.frames import compose, matrix_from_quaternion, quaternion_from_matrix

__all__ = ["read"]

_KINDS = {
    "revolute": "hinge",
    "continuous": "hinge",
    "prismatic": "slide",
    "fixed": "fixed",
    "floating": "free",
    "planar": "planar",
    "spherical": "ball",
    "ball": "ball",
    "universal": "universal",
}

_X = (1.0, 0.0, 0.0)  # the default axis of a joint

Placed = tuple[np.ndarray, np.ndarray]

_SPHERE = 1e-2  # radius whose inertia stands in for a missing one [m]
_SMALL_MASS = 1e-3  # what a massless moving part is given [kg]
_NOISE = 1e-15  # inertia per mass that is rounding, not a body: a radius of 0.03 micrometres [m^2]


def read(
    path: str | Path,
    *,
    repair: bool = True,
    base: str = "fixed",
    roots: Sequence[Path] = (),
    package_paths: Sequence[Path] = (),
    meshes: bool = True,
    collision: str = "hull",
) -> Model:
    """Return the model in a URDF file.

    Args:
        path: the file.
        repair: repair common defects, with a `ModelWarning` each; False refuses them.
        base: "fixed" or "free": joint of the root link to the world; below a root link called "world",
            "free" frees what the file fixes to it.
        roots: further folders meshes may come from.
        package_paths: folders searched for `package://name/...`.
        meshes: False leaves mesh shapes out, which loads much faster.
        collision: "hull": meshes collide as their convex hulls; "exact": as they are, where they are closed; "none":
            nothing collides.
    """
    source = Source(Path(path), repair)
    robot = _read_robot(source, Roots(Path(path), roots, package_paths) if meshes else None, collision)
    loops = _take_loops(robot, read_loops(Path(path)))
    model = _build(source, robot, base, loops)
    if loops.loops:
        model = with_closed_start(Path(path), model, stated=False)
    for text in dict.fromkeys(source.notes):
        warnings.warn(ModelWarning(text), stacklevel=3)
    return model


def _take_loops(robot: _Robot, loops: Loops) -> Loops:
    """Give joints the types of `robot.yaml` and return its loops with links for frames; refuse unknown names."""
    where = str(loops.path)
    for name, kind in loops.joints.items():
        if name not in robot.joints:
            raise FileError(where, str(UnknownName("joint", name, "the URDF", robot.joints)))
        robot.joints[name].type = kind
    for name in loops.motors:
        if name not in robot.joints:
            raise FileError(where, str(UnknownName("joint", name, "the URDF", robot.joints)))
    found: list[tuple[str, str, str]] = []
    for a, b, kind in loops.loops:
        ends = [robot.joints[end].child if end not in robot.links and end in robot.joints else end for end in (a, b)]
        for end in ends:
            if end not in robot.links:
                raise FileError(
                    where, str(UnknownName("link or joint", end, "the URDF", [*robot.links, *robot.joints]))
                )
        found.append((ends[0], ends[1], kind))
    return Loops(loops.path, found, loops.joints, loops.motors)


def _add_loops(builder: Builder, robot: _Robot, loops: Loops) -> None:
    """Add the loops and motors of `robot.yaml`."""
    for i, (a, b, kind) in enumerate(loops.loops):
        parent, child = (b, a) if b == WORLD else (a, b)
        builder.add_joint(kind, _unused(f"closed_loop{i + 1}", robot.joints), parent, child)
    for name in loops.motors:
        if _KINDS[robot.joints[name].type] in ("hinge", "slide"):
            builder.add_actuator(name, name)


@dataclass(slots=True)
class _Link:
    name: str
    node: Element
    mass: float
    com: Sequence[float]
    inertia: Sequence[float]
    shapes: list[Shape]


@dataclass(slots=True)
class _Joint:
    name: str
    node: Element
    type: str
    parent: str
    child: str
    pose: Pose


@dataclass(slots=True)
class _Robot:
    name: str
    links: dict[str, _Link] = field(default_factory=dict)
    joints: dict[str, _Joint] = field(default_factory=dict)
    # Found from the joints: the links depth first, the joint above each link, and the root.
    order: list[str] = field(default_factory=list)
    above: dict[str, _Joint] = field(default_factory=dict)
    root: str = ""


def _read_robot(source: Source, roots: Roots | None, collision: str) -> _Robot:
    """Return the links, joints and tree of the file."""
    top = read_xml(source.path)
    if top.tag != "robot":
        raise source.error(top, f"a URDF starts with <robot>, this file with <{top.tag}>")
    source.survey(top, "robot")
    robot = _Robot((top.get("name") or "").strip() or source.path.stem)
    shapes = Shapes(source, roots, top, collision)
    for node in top.all("link"):
        name = source.name(node)
        if name in robot.links:
            raise source.error(node, f'link "{name}" exists already, at line {robot.links[name].node.line}')
        source.survey(node, "link")
        robot.links[name] = _Link(name, node, *_inertial(source, node, name), shapes.of_link(node, name))
    if not robot.links:
        raise source.error(top, f'robot "{robot.name}" has no link')
    for node in top.all("joint"):
        _read_joint(source, robot, node)
    _order(source, robot)
    if source.unknown:
        lines = {name: ", ".join(map(str, at[:3])) + ", ..." * (len(at) > 3) for name, at in source.unknown.items()}
        shown = ", ".join(f"{name} (line {at})" for name, at in lines.items())
        source.notes.append(f"{source.path}: unknown elements are ignored: {shown}")
    return robot


def _inertial(source: Source, link: Element, name: str) -> tuple[float, Sequence[float], Sequence[float]]:
    """Return mass, com and inertia about it in the axes of the link; (0, 0, 0) for a link without any."""
    owner, nothing = f'link "{name}"', (0.0,) * 6
    node = source.one(owner, link, "inertial")
    if node is None:
        return 0.0, ORIGIN, nothing
    source.survey(node, "link/inertial")
    com, turn = source.origin(owner, node)
    mass_node, inertia_node = source.one(owner, node, "mass"), source.one(owner, node, "inertia")
    if mass_node is None or not (mass_node.get("value") or "").strip():
        source.mend(node, f"{owner}: <inertial> has no mass", "it is taken as massless")
        return 0.0, com, nothing
    mass = source.number(owner, mass_node, "value")
    if mass < 0:
        raise source.error(mass_node, f"{owner}: mass must be >= 0, got {mass:g}")
    if inertia_node is None:
        if mass == 0:
            return 0.0, com, nothing
        source.mend(node, f"{owner}: <inertial> has no inertia", "that of a sphere of radius 1 cm is taken")
        return mass, com, _sphere(mass)
    for key in ("ixx", "iyy", "izz"):
        if inertia_node.get(key) is None:
            source.mend(inertia_node, f"{owner}: inertia has no {key}", "0 is taken")
    six = [source.number(owner, inertia_node, key, 0.0) for key in ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")]
    if max(map(abs, six)) <= _NOISE * mass:
        six = list(nothing)
    problem = check.inertia_problem(mass, six)
    if problem:
        mended = check.repaired_inertia(mass, six) if mass > 0 else nothing
        moments = ", ".join(f"{x:.6g}" for x in check.principal_moments(mended))
        source.mend(inertia_node, f"{owner}: {problem}", f"principal moments {moments} are taken")
        six = list(mended)
    if turn == NO_TURN:
        return mass, com, six
    xx, yy, zz, xy, xz, yz = six
    r = matrix_from_quaternion(np.array(turn))
    m = r @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ r.T
    return mass, com, (m[0, 0], m[1, 1], m[2, 2], m[0, 1], m[0, 2], m[1, 2])


def _sphere(mass: float) -> tuple[float, ...]:
    return (0.4 * _SPHERE**2 * mass,) * 3 + (0.0,) * 3


def _read_joint(source: Source, robot: _Robot, node: Element) -> None:
    name = source.name(node)
    if name in robot.joints:
        raise source.error(node, f'joint "{name}" exists already, at line {robot.joints[name].node.line}')
    source.survey(node, "joint")
    kind, owner = (node.get("type") or "").strip(), f'joint "{name}"'
    if kind not in _KINDS:
        raise source.error(node, f'{owner}: unknown joint type "{kind}"; types are {", ".join(_KINDS)}')
    ends = []
    for tag in ("parent", "child"):
        end = source.one(owner, node, tag)
        link = ((end.get("link") if end else None) or "").strip()
        if not link:
            raise source.error(end or node, f"{owner} names no {tag} link")
        if link not in robot.links:
            raise source.error(end or node, str(UnknownName("link", link, f"the file, {tag} of {owner}", robot.links)))
        ends.append(link)
    parent, child = ends
    robot.joints[name] = _Joint(name, node, kind, parent, child, source.origin(owner, node))


def _order(source: Source, robot: _Robot) -> None:
    """Find the root and the order, depth first with children in file order; refuse what is not one tree."""
    below: dict[str, list[str]] = {name: [] for name in robot.links}
    for joint in robot.joints.values():
        other = robot.above.setdefault(joint.child, joint)
        if other is not joint:
            both = f'"{other.parent}" by joint "{other.name}" (line {other.node.line})'
            both += f' and "{joint.parent}" by joint "{joint.name}"'
            raise source.error(joint.node, f'link "{joint.child}" has two parents: {both}')
        below[joint.parent].append(joint.child)
    tops = [name for name in robot.links if name not in robot.above]
    if len(tops) > 1:
        shown = ", ".join(f'"{name}" (line {robot.links[name].node.line})' for name in tops[:8])
        message = f"{len(tops)} root links: {shown}{', ...' * (len(tops) > 8)}; joints must tie them together"
        raise source.error(robot.links[tops[1]].node, message)
    stack = list(tops)
    while stack:
        robot.order.append(stack.pop())
        stack += reversed(below[robot.order[-1]])
    reached = set(robot.order)
    lost = next((name for name in robot.links if name not in reached), None)
    if lost is not None:
        ring: dict[str, None] = {}
        while lost not in ring:
            ring[lost] = None
            lost = robot.above[lost].parent
        links = list(ring)
        links = [*links[links.index(lost) :], lost][::-1]
        shown = " -> ".join(f'"{name}"' for name in links[:20]) + " -> ..." * (len(links) > 20)
        raise source.error(robot.links[lost].node, f"links form a cycle: {shown}")
    robot.root = tops[0]
    if WORLD in robot.links and robot.root != WORLD:
        message = f'link "{WORLD}" is the ground and must be the root, which is "{robot.root}"'
        raise source.error(robot.links[WORLD].node, message)


def _build(source: Source, robot: _Robot, base: str, loops: Loops) -> Model:
    """Return the model; moving parts without inertia are given a small one where repairs are allowed."""
    if base == "free" and robot.root == WORLD:
        _loosen(source, robot)
    moving = [name for name in robot.order if _moves(robot, name, base)]
    _give_mass(source, robot, moving)
    try:
        return _assemble(source, robot, base, loops).build()
    except FileError:
        raise
    except ModelError as error:
        thin = _thin_parts(robot, moving)
        if not source.repair or not thin:
            raise FileError(source.path, str(error)) from None
    for link in thin:
        given = _SMALL_MASS if link.mass == 0 else link.mass
        link.mass, link.inertia = given, [a + b for a, b in zip(link.inertia, _sphere(given), strict=True)]
        message = f"that of a sphere of radius 1 cm and {given:g} kg is added"
        source.warn(link.node, f'link "{link.name}" has too little inertia to move; {message}')
    try:
        return _assemble(source, robot, base, loops).build()
    except FileError:
        raise
    except ModelError as error:
        raise FileError(source.path, str(error)) from None


def _loosen(source: Source, robot: _Robot) -> None:
    """Free what is fixed to a root link called "world"."""
    tied = [joint for joint in robot.joints.values() if joint.parent == WORLD and joint.type == "fixed"]
    if not tied:
        message = f'base="free": nothing is fixed to the root link "{WORLD}"'
        raise source.error(robot.links[WORLD].node, message)
    for joint in tied:
        joint.type = "floating"


def _moves(robot: _Robot, name: str, base: str) -> bool:
    """Return whether a link moves relative to its parent."""
    joint = robot.above.get(name)
    return base == "free" and name != WORLD if joint is None else joint.type != "fixed"


def _give_mass(source: Source, robot: _Robot, moving: list[str]) -> None:
    """Give a small mass to each moving link that has none itself nor beyond it."""
    movers = set(moving)
    beyond = dict.fromkeys(robot.order, 0.0)
    for name in reversed(robot.order):
        link = robot.links[name]
        beyond[name] += link.mass
        if name in movers and beyond[name] == 0:
            problem = f'link "{name}" moves and has no mass, nor has anything beyond it'
            remedy = f"{_SMALL_MASS:g} kg and the inertia of a sphere of radius 1 cm are taken"
            source.mend(link.node, problem, remedy)
            link.mass, link.com, link.inertia = _SMALL_MASS, ORIGIN, _sphere(_SMALL_MASS)
            beyond[name] = _SMALL_MASS
        if name in robot.above and robot.above[name].type != "floating":
            beyond[robot.above[name].parent] += beyond[name]


def _thin_parts(robot: _Robot, moving: list[str]) -> list[_Link]:
    """Return the first link of each part, moving as one, in which no link has a full inertia."""
    movers, part, solid = set(moving), {}, set()
    for name in robot.order:
        part[name] = name if name in movers or name not in robot.above else part[robot.above[name].parent]
        link = robot.links[name]
        moments = check.principal_moments(link.inertia)
        if link.mass > 0 and moments[0] > 1e-9 * moments[2]:
            solid.add(part[name])
    return [robot.links[name] for name in moving if name not in solid]


def _assemble(source: Source, robot: _Robot, base: str, loops: Loops) -> Builder:
    """Return a builder with everything in it, bodies depth first."""
    with source.at(robot.links[robot.root].node):
        builder = Builder(robot.name)
    for name in robot.order:
        link = robot.links[name]
        if name != WORLD:
            with source.at(link.node):
                builder.add_body(name, mass=link.mass, com=link.com, inertia=link.inertia if link.mass > 0 else None)
    if base == "fixed" and robot.root != WORLD:
        builder.add_joint_fixed(_unused(f"world_to_{robot.root}", robot.joints), WORLD, robot.root)
    poses = _poses(robot) if any(joint.type == "floating" for joint in robot.joints.values()) else {}
    for name in robot.order[1:]:
        _add_joint(source, builder, robot.above[name], poses)
    for joint in robot.joints.values():
        _add_mimic(source, builder, robot, joint)
    for name in robot.order:
        link = robot.links[name]
        for kind, options in link.shapes:
            with source.at(link.node):
                getattr(builder, f"add_shape_{kind}")(name, **options)
    _exclude_overlaps(source, robot, base, builder)
    _add_loops(builder, robot, loops)
    return builder


def _exclude_overlaps(source: Source, robot: _Robot, base: str, builder: Builder) -> None:
    """Exclude collisions of links that overlap when all joints are at zero; those joined never collide."""
    poses, cores = _poses(robot), dict[str, list[Core]]()
    for name in robot.order:
        solid = [(kind, options) for kind, options in robot.links[name].shapes if options.get("collide", True)]
        found = [core_of(kind, options, *poses[name]) for kind, options in solid]
        if solid:
            cores[name] = [core for core in found if core is not None]
    part: dict[str, str] = {}
    joined = set[frozenset[str]]()
    for name in robot.order:
        above = robot.above[name].parent if name in robot.above else None
        moves = _moves(robot, name, base)
        part[name] = name if moves or above is None else part[above]
        if moves and above is not None and robot.above[name].type != "floating":
            joined.add(frozenset((part[name], part[above])))
    names: list[str] = []
    for a, b in combinations(cores, 2):
        ends = frozenset((part[a], part[b]))
        if len(ends) == 2 and ends not in joined and any(overlap(x, y) for x in cores[a] for y in cores[b]):
            builder.exclude_collision(a, b)
            names.append(f'"{a}" and "{b}"')
    if names:
        shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more pairs" if len(names) > 6 else "")
        source.notes.append(f"{source.path}: links that overlap at the start do not collide: {shown}")


def _unused(name: str, taken: dict[str, Any]) -> str:
    while name in taken:
        name += "_"
    return name


def _poses(robot: _Robot) -> dict[str, Placed]:
    """Return the pose of each link in the world when all joints are at zero."""
    out = {robot.root: (np.eye(3), np.zeros(3))}
    for name in robot.order[1:]:
        joint = robot.above[name]
        position, turn = joint.pose
        out[name] = compose(*out[joint.parent], matrix_from_quaternion(np.array(turn)), np.array(position))
    return out


def _add_joint(source: Source, builder: Builder, joint: _Joint, poses: dict[str, Placed]) -> None:
    owner, node, kind = f'joint "{joint.name}"', joint.node, _KINDS[joint.type]
    options: dict[str, Any] = {}
    if kind == "free":
        # The parent of a free joint is the world; without constraints the parent makes no difference.
        r, p = poses[joint.child]
        options["start"] = (*p, *quaternion_from_matrix(r))
    else:
        options["position"], options["rotation"] = joint.pose
    if kind == "universal":
        options |= {"axis": _X, "axis2": (0.0, 1.0, 0.0)}
    if kind in ("hinge", "slide", "planar"):
        axis = source.one(owner, node, "axis")
        options["axis"] = _X if axis is None else source.numbers(owner, axis, "xyz", (3,), _X)
    dynamics = None if (node.get("type") or "").strip() == "fixed" else source.one(owner, node, "dynamics")
    if dynamics is not None:
        for key in ("damping", "friction"):
            value = source.number(owner, dynamics, key, 0.0)
            if value < 0:
                source.mend(dynamics, f"{owner}: {key} must be >= 0, got {value:g}", "0 is taken")
            options[key] = max(value, 0.0)
    if joint.type in ("revolute", "prismatic"):
        options["limits"] = _limits(source, owner, node)
    with source.at(node):
        parent = WORLD if kind == "free" else joint.parent
        builder.add_joint(kind, joint.name, parent, joint.child, **options)


def _limits(source: Source, owner: str, node: Element) -> tuple[float, float] | None:
    limit = source.one(owner, node, "limit")
    if limit is None or (limit.get("lower") is None and limit.get("upper") is None):
        source.mend(limit or node, f"{owner} has no lower and upper limit", "it moves without limits")
        return None
    low, high = (source.number(owner, limit, key, 0.0, infinite=True) for key in ("lower", "upper"))
    if low > high:
        # Some exporters write "no limits" this way.
        problem = f"{owner}: lower limit {low:g} is above upper limit {high:g}"
        source.mend(limit, problem, "it moves without limits")
        return None
    return low, high


def _add_mimic(source: Source, builder: Builder, robot: _Robot, joint: _Joint) -> None:
    owner = f'joint "{joint.name}"'
    mimic = source.one(owner, joint.node, "mimic")
    # A fixed joint has nothing to couple: reduced models are made by writing "fixed" over another type.
    if mimic is None or _KINDS[joint.type] not in ("hinge", "slide"):
        return
    name = (mimic.get("joint") or "").strip()
    problem = ""
    if name not in robot.joints or name == joint.name:
        problem = str(UnknownName("other joint", name, f"<mimic> of {owner}", robot.joints))
    elif _KINDS[robot.joints[name].type] not in ("hinge", "slide"):
        problem = f'{owner} mimics "{name}", which is {robot.joints[name].type}'
    if problem:
        source.mend(mimic, problem, "it moves by itself")
        return
    ratio = source.number(owner, mimic, "multiplier", 1.0)
    offset = source.number(owner, mimic, "offset", 0.0)
    gear = _unused(f"{joint.name}:mimic", robot.joints)
    with source.at(mimic):
        builder.add_joint_gear(gear, joint.name, name, ratio=ratio, offset=offset)
