"""The human figure, with the proportions, masses and ranges of motion of a person, and a marionette of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from limberjack.errors import UnknownName
from limberjack.model import check
from limberjack.model.builder import Builder
from limberjack.model.model import Model
from limberjack.model.spec import WORLD, Motor
from limberjack.scenes import humanoid_data as skeleton
from limberjack.scenes.catalog import Camera, flag, scene
from limberjack.scenes.humanoid_data import HIP, NECK_BEND, SEGMENTS, Bone
from limberjack.spatial.frames import matrix_from_axis, quaternion_from_matrix, skew, turn_z_to

__all__ = ["bodies_of", "effective_inertias", "figure", "humanoid", "marionette", "method_for"]

# The effective inertia of each joint of the humanoid, by which its springs and dampers are scaled.
#
# With all other joints free, a spring at joint i acts on the inertia 1 / (M^-1)_ii, M the mass matrix. It is
# far below the inertia of what hangs on the joint where a light body stands between heavy ones, and it shrinks
# as the outer two of three axes turn parallel; so the least over many poses is taken, and gains in proportion
# to it keep every explicit step of one length stable in all of them.

# Random poses, beside the zero pose and the two ends of all ranges.
_POSES = 24

Masses = dict[str, tuple[float, np.ndarray, np.ndarray]]


def _axes(bone: Bone) -> list[np.ndarray]:
    return [np.array(bone.axis)] + ([np.array((1.0, 0.0, 0.0))] if bone.joint == "neck" else [])


def _poses(bones: list[Bone]) -> np.ndarray:
    """Return (p, n) joint angles within the limits, one column per dof of the bones."""
    limits = [pair for bone in bones for pair in ([bone.limits, NECK_BEND] if bone.joint == "neck" else [bone.limits])]
    low, high = np.radians(limits).T
    share = np.random.default_rng(0).uniform(0.0, 1.0, (_POSES, len(limits)))
    return np.concatenate([np.zeros((1, len(limits))), low[None], high[None], low + share * (high - low)])


def _mass_matrices(bones: list[Bone], masses: Masses, height: float, angles: np.ndarray) -> np.ndarray:
    """Return the (p, n, n) mass matrices, the six dofs of the pelvis first; all poses at once."""
    poses, dofs = angles.shape
    columns = np.zeros((poses, 6, 6 + dofs))
    columns[:, range(6), range(6)] = 1.0
    matrix = np.zeros((poses, 6 + dofs, 6 + dofs))
    zero = {"pelvis": np.zeros(3)}
    turn = {"pelvis": np.tile(np.eye(3), (poses, 1, 1))}
    position = {"pelvis": np.zeros((poses, 3))}
    moved_by = {"pelvis": list(range(6))}
    k = 6
    for bone in (None, *bones):
        name = "pelvis" if bone is None else bone.name
        mass, com, inertia = masses[name]
        if bone is not None:
            at = height * np.array(bone.at)
            r = turn[bone.parent]
            p = position[bone.parent] + r @ (at - zero[bone.parent])
            own = []
            for axis in _axes(bone):
                w = r @ axis
                columns[:, :3, k], columns[:, 3:, k] = w, np.cross(p, w)
                r = r @ matrix_from_axis(axis, angles[:, k - 6])
                own.append(k)
                k += 1
            zero[name], turn[name], position[name], moved_by[name] = at, r, p, moved_by[bone.parent] + own
        which = moved_by[name]
        centre = position[name] + turn[name] @ (com - zero[name])
        angular = columns[:, :3, which]
        linear = columns[:, 3:, which] - skew(centre) @ angular
        world = turn[name] @ inertia @ np.swapaxes(turn[name], 1, 2)
        part = np.swapaxes(angular, 1, 2) @ world @ angular + mass * np.swapaxes(linear, 1, 2) @ linear
        matrix[np.ix_(range(poses), which, which)] += part
    return matrix


def effective_inertias(bones: list[Bone], masses: Masses, height: float) -> dict[str, np.ndarray]:
    """Return per bone the least effective inertia of each dof of its joint, over poses in the limits [kg m^2].

    Args:
        bones: parents first.
        masses: per body, with the pelvis: mass [kg], com in the standing figure [m], inertia about it (3, 3).
        height: of the figure [m].
    """
    matrix = _mass_matrices(bones, masses, height, _poses(bones))
    least = (1.0 / np.diagonal(np.linalg.inv(matrix), axis1=1, axis2=2)).min(axis=0)
    out, k = {}, 6
    for bone in bones:
        count = len(_axes(bone))
        out[bone.name] = least[k : k + count]
        k += count
    return out


_EARTH = (0.0, 0.0, -9.81)
_COLORS = {
    "skin": (0.86, 0.67, 0.54, 1.0),
    "hair": (0.29, 0.20, 0.15, 1.0),
    "shirt": (0.27, 0.51, 0.66, 1.0),
    "trousers": (0.22, 0.26, 0.36, 1.0),
}
_GROUND = (0.80, 0.82, 0.79, 1.0)
# Damping ratio of the soft limits: a joint that runs into one rebounds with about a sixth of its velocity.
_LIMIT_RATIO = 0.5
# With these, no motion within the ranges is stiffer than 300 rad/s or damped faster than 700 /s: one explicit
# step may last 2 ms.
_LIMIT_FREQUENCY = 25.0
_DAMPING = 40.0
# Share of the weight that each string of the marionette carries, at the joint of the body: breast, wrists, knees.
_STRINGS = {"thorax": 0.55, "hand": 0.08, "shank": 0.145}
# How far above the ground it starts, per height: its feet sink less than that.
_STRUNG_UP = 0.15


def bodies_of(height: float, mass: float) -> dict[str, tuple[float, np.ndarray, np.ndarray]]:
    """Return per body its mass [kg], centre in the zero pose [m] and inertia about it (3, 3), world axes.

    The bodies of each segment together have the mass, centre and inertia of the segment in the tables.
    """
    rows = skeleton.lumps()
    out: dict[str, tuple[float, np.ndarray, np.ndarray]] = {}
    for segment in dict.fromkeys(lump.segment for lump in rows):
        own = [lump for lump in rows if lump.segment == segment]
        table = SEGMENTS[segment.removeprefix("left_").removeprefix("right_")]
        com = np.array(skeleton.mirrored(table.com) if segment.startswith("right_") else table.com)
        k = np.square(table.gyration)
        left, first, about_origin = 1.0, com, np.diag(k) + _steiner(com)
        for lump in own:
            if lump.share is not None and lump.inertia is not None:
                c = np.array(lump.com)
                out[lump.body] = (lump.share * table.mass, c, lump.share * table.mass * lump.inertia)
                left, first = left - lump.share, first - lump.share * c
                about_origin = about_origin - lump.share * (lump.inertia + _steiner(c))
        rest = next(lump.body for lump in own if lump.share is None)
        c = first / left
        out[rest] = (left * table.mass, c, table.mass * (about_origin - left * _steiner(c)))
    return {name: (m * mass, c * height, i * (mass * height**2)) for name, (m, c, i) in out.items()}


def _steiner(c: np.ndarray) -> np.ndarray:
    """Return the inertia of a unit point mass at c about the origin."""
    s = skew(c)
    return s @ s.T


def _add_bones(
    builder: Builder,
    bodies: dict[str, Any],
    height: float,
    limits: str | None,
    frequency: float,
    damping: float,
    lift: float,
    tone: float,
) -> None:
    bones = skeleton.bones()
    origin = {"pelvis": np.array((0.0, 0.0, HIP * height))} | {bone.name: height * np.array(bone.at) for bone in bones}
    inertias = effective_inertias(bones, bodies, height)
    for name in ("pelvis", *(bone.name for bone in bones)):
        mass, com, inertia = bodies[name]
        builder.add_body(name, mass=mass, com=com - origin[name], inertia=0.5 * (inertia + inertia.T))
    builder.add_joint_free("root", WORLD, "pelvis", start=(0.0, 0.0, HIP * height + lift, 1.0, 0.0, 0.0, 0.0))
    turn, pull = 2 * math.pi * frequency, 2 * math.pi * tone
    for bone in bones:
        effective = inertias[bone.name]
        ranges = [bone.limits] + ([skeleton.NECK_BEND] if bone.joint == "neck" else [])
        options: dict[str, Any] = {"position": origin[bone.name] - origin[bone.parent], "damping": damping * effective}
        if limits is not None:
            options["limits"] = [tuple(math.radians(x) for x in pair) for pair in ranges]
        if limits == "soft":
            options |= {"limit_stiffness": turn**2 * effective, "limit_damping": 2 * _LIMIT_RATIO * turn * effective}
        if bone.joint == "neck":
            kind, start, own = "universal", 0.0, {"axis2": (1.0, 0.0, 0.0)}
        else:
            kind, start = "hinge", math.radians(bone.start)
            own = {"start": start}
        if tone:
            options["motor"] = [Motor(kp=pull**2 * float(x), kd=2 * pull * float(x), target=start) for x in effective]
        builder.add_joint(kind, bone.joint, bone.parent, bone.name, axis=bone.axis, **own, **options)


def _add_shapes(builder: Builder, height: float, contacts: bool) -> None:
    at = {"pelvis": (0.0, 0.0, HIP)} | {bone.name: bone.at for bone in skeleton.bones()}
    for form in skeleton.forms():
        # One group for the whole figure: it collides with the ground and with others, its own parts may overlap.
        options: dict[str, Any] = {
            "position": height * (np.array(form.at) - at[form.body]),
            "rotation": quaternion_from_matrix(turn_z_to(np.array(form.along) / np.linalg.norm(form.along))),
            "color": _COLORS[form.color],
            "collide": contacts,
            "group": 1,
        }
        size = tuple(height * x for x in form.size)
        add = builder.add_shape_sphere if form.kind == "sphere" else builder.add_shape_capsule
        add(form.body, *size, **options)


def figure(
    name: str,
    *,
    contacts: bool,
    limits: str | None,
    height: float,
    mass: float,
    gravity: Any,
    limit_frequency: float = _LIMIT_FREQUENCY,
    damping: float = _DAMPING,
    lift: float = 0.0,
    tone: float = 0.0,
) -> Builder:
    """Return a builder that holds one figure, standing on the ground or `lift` [m] above it.

    With `tone` [Hz] each joint has a motor with that natural frequency on the joint alone, critically damped, whose
    target is the start.
    """
    height, mass = check.number(height, "height", positive=True), check.number(mass, "mass", positive=True)
    frequency = check.number(limit_frequency, "limit_frequency", positive=True)
    damping, contacts = check.number(damping, "damping", low=0.0), flag(contacts, "contacts")
    tone = check.number(tone, "tone", low=0.0)
    if limits not in ("soft", "hard", None):
        raise UnknownName("kind of limits", limits, f'scene "{name}"', ("soft", "hard", "None"))
    builder = Builder(name, gravity=gravity)
    _add_bones(builder, bodies_of(height, mass), height, limits, frequency, damping, lift, tone)
    _add_shapes(builder, height, contacts)
    builder.add_shape_plane(WORLD, color=_GROUND, collide=contacts, name="ground")
    return builder


def method_for(contacts: bool, limits: str | None) -> str:
    """Return the method that supports such a figure."""
    return "multipliers" if limits == "hard" and not contacts else "full"


def _stage_humanoid(*, contacts: bool, limits: str | None, height: float, **_: Any) -> dict[str, Any]:
    height = float(height)
    return {
        "method": method_for(contacts, limits),
        "seconds": 4.0 if contacts else 1.0,
        "camera": Camera((1.9 * height, -1.3 * height, 0.8 * height), (0.0, 0.0, 0.5 * height)),
    }


@scene(
    "A person of 89 bodies and 95 degrees of freedom, standing (Redon, Galoppo and Lin 2005, figure 1).",
    _stage_humanoid,
    shown={"contacts": True},
)
def humanoid(
    *,
    contacts: bool = False,
    limits: str | None = "soft",
    height: float = 1.75,
    mass: float = 75.0,
    limit_frequency: float = _LIMIT_FREQUENCY,
    damping: float = _DAMPING,
    gravity: Any = _EARTH,
) -> Model:
    """Return a person of 89 bodies who stands at ease on the ground z = 0 and faces +x.

    | part | joints | hinges |
    |---|---|---|
    | pelvis | root: free | |
    | spine | lumbar flexion, bend, twist; thoracic flexion, bend, twist | 6 |
    | neck and head | neck: universal (flexion, bend); head turn | 1 |
    | two shoulders | clavicle elevation, protraction; shoulder flexion, abduction, rotation | 10 |
    | two arms | elbow; pronation; wrist flexion, deviation | 8 |
    | ten fingers | thumb cmc, mcp, ip; others mcp, pip, dip | 30 |
    | two legs | hip flexion, abduction, rotation; knee; ankle; subtalar | 12 |
    | ten toes | mtp, ip | 20 |
    | together | 1 free + 1 universal + 87 hinges: 89 bodies, 6 + 2 + 87 = 95 degrees of freedom | 87 |

    Joints and bodies of a side begin with "left_" or "right_"; the same angle is the same motion on both
    sides. All body frames are parallel to the world's at q = 0, upright with hanging arms. Masses and
    inertias are those of de Leva (1996), lengths those of Drillis and Contini; a joint of several axes is a
    row of hinges, and each body between them has a real share of its segment, so that together they are the
    segment of the tables.

    Springs and dampers are scaled by the effective inertia of each joint, so that an explicit step of 1 ms is
    stable for the hip and for the last toe.

    Args:
        contacts: whether the figure and the ground collide; its own parts never do.
        limits: "soft" springs and dampers at the ends of the ranges of motion, "hard" inequalities, or None.
        height: of the standing figure [m].
        mass: [kg].
        limit_frequency: of a joint against its soft limit [Hz].
        damping: rate at which the velocity of a single joint decays [1/s].
        gravity: [m/s^2].
    """
    return figure(
        "humanoid",
        contacts=contacts,
        limits=limits,
        height=height,
        mass=mass,
        limit_frequency=limit_frequency,
        damping=damping,
        gravity=gravity,
    ).build()


def _stage_marionette(*, limits: str | None, height: float, **_: Any) -> dict[str, Any]:
    height = float(height)
    return {
        "method": method_for(False, limits),
        "seconds": 8.0,
        "camera": Camera((2.3 * height, -1.6 * height, 1.0 * height), (0.0, 0.0, 0.6 * height)),
    }


@scene("The humanoid hung on five elastic strings.", _stage_marionette)
def marionette(
    *,
    limits: str | None = "soft",
    height: float = 1.75,
    mass: float = 75.0,
    stretch: float = 0.12,
    gravity: Any = _EARTH,
) -> Model:
    """Return the humanoid hung by elastic strings from its chest, wrists and knees.

    Each string is a spring from a point straight above; it carries its share of the weight when stretched by
    `stretch`, and half of that at the start, so that the figure drops into its strings.

    Args:
        limits: of the joints: "soft", "hard" or None.
        height: of the standing figure [m].
        mass: [kg].
        stretch: by which the weight lengthens the strings [m].
        gravity: [m/s^2]; the strings are scaled to it.
    """
    stretch = check.number(stretch, "stretch", positive=True)
    lift = _STRUNG_UP * check.number(height, "height", positive=True)
    options = {"contacts": False, "limits": limits, "height": height, "mass": mass, "gravity": gravity}
    builder = figure("marionette", **options, lift=lift)
    height, weight = float(height), float(mass) * float(np.linalg.norm(check.vector(gravity, 3, "gravity")))
    for bone in skeleton.bones():
        share = _STRINGS.get(bone.name.removeprefix("left_").removeprefix("right_"))
        if share:
            stiffness = share * weight / stretch
            top = (height * bone.at[0], height * bone.at[1], 1.6 * height + lift)
            rest = height * (1.6 - bone.at[2]) - 0.5 * stretch
            spring = {"stiffness": stiffness, "damping": 0.05 * stiffness, "rest": rest}
            builder.add_spring(WORLD, bone.name, at_a=top, name=f"string_{bone.name}", **spring)
    return builder.build()
