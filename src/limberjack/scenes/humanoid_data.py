"""The human body in numbers: landmarks and segments of a standing adult, as fractions of height and mass.

Axes: x forward, y to the left, z up, origin on the floor between the feet. All positions are those of the
zero pose: upright, arms hanging, palms inwards, thumbs forward. Side segments are given for the left.

Sources of the facts:
- masses, centres of mass and radii of gyration of the segments: P. de Leva, "Adjustments to
  Zatsiorsky-Seluyanov's segment inertia parameters", J. Biomechanics 29 (1996), table 4, males (height 1.741
  m);
- heights and breadths of the landmarks: Drillis and Contini (1966), as in D. Winter, "Biomechanics and Motor
  Control of Human Movement". De Leva's three trunk segments are fitted between the hips and the notch of the
  breastbone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = [
    "Bone",
    "Form",
    "Lump",
    "NECK_BEND",
    "Phalanx",
    "SEGMENTS",
    "SIDE_SEGMENTS",
    "Segment",
    "Vector",
    "ball",
    "bones",
    "forms",
    "lumps",
    "mirrored",
    "rod",
    "slab",
]

Vector = tuple[float, float, float]

# Heights of the landmarks, and other places, per height of the body.
ANKLE, KNEE, HIP = 0.039, 0.285, 0.530
NAVEL, XIPHOID, NOTCH, C7 = 0.6089, 0.7256, 0.818, 0.8605
SHOULDER, ELBOW, WRIST = 0.818, 0.632, 0.486
HIP_Y, SHOULDER_Y = 0.050, 0.112
SPINE_X, HEEL_X, FOOT_LENGTH = -0.015, -0.040, 0.152
# De Leva's lengths are in mm, on men of 1741 mm.
LEVA = 1.0 / 1741.0


class Segment(NamedTuple):
    """A segment's share of the mass, its centre and radii of gyration about x, y, z, per height."""

    mass: float
    com: Vector
    gyration: Vector


def _radii(length: float, percent: Vector) -> Vector:
    """Return radii of gyration per height from percentages of a segment length [mm]."""
    x, y, z = (0.01 * p * length * LEVA for p in percent)
    return (x, y, z)


# De Leva gives radii about the sagittal (x), transverse (y) and longitudinal axis. The longitudinal axis of
# the foot is x; the palm looks inwards here and not forward, so the hand's first two change places.
SEGMENTS: dict[str, Segment] = {
    name: Segment(0.01 * percent, com, _radii(length, radii))
    for name, percent, com, length, radii in (
        ("head", 6.94, (0.0, 0.0, 1.0 - 0.5002 * (1.0 - C7)), 242.9, (30.3, 31.5, 26.1)),
        ("upper_trunk", 15.96, (0.0, 0.0, NOTCH - 0.2999 * (NOTCH - XIPHOID)), 170.7, (71.6, 45.4, 65.9)),
        ("middle_trunk", 16.33, (0.0, 0.0, XIPHOID - 0.4502 * (XIPHOID - NAVEL)), 215.5, (48.2, 38.3, 46.8)),
        ("lower_trunk", 11.17, (0.0, 0.0, NAVEL - 0.6115 * (NAVEL - HIP)), 145.7, (61.5, 55.1, 58.7)),
        ("upper_arm", 2.71, (0.0, SHOULDER_Y, SHOULDER - 0.5772 * (SHOULDER - ELBOW)), 281.7, (28.5, 26.9, 15.8)),
        ("forearm", 1.62, (0.0, SHOULDER_Y, ELBOW - 0.4574 * (ELBOW - WRIST)), 268.9, (27.6, 26.5, 12.1)),
        ("hand", 0.61, (0.0, SHOULDER_Y, WRIST - 0.7900 * 86.2 * LEVA), 86.2, (51.3, 62.8, 40.1)),
        ("thigh", 14.16, (0.0, HIP_Y, HIP - 0.4095 * (HIP - KNEE)), 422.2, (32.9, 32.9, 14.9)),
        ("shank", 4.33, (0.0, HIP_Y, KNEE - 0.4459 * (KNEE - ANKLE)), 434.0, (25.5, 24.9, 10.3)),
        ("foot", 1.37, (HEEL_X + 0.4415 * FOOT_LENGTH, HIP_Y, 0.019), 258.1, (12.4, 24.5, 25.7)),
    )
}


def ball(radius: float) -> np.ndarray:
    """Return the inertia per mass of a ball, (3, 3)."""
    return np.eye(3) * (0.4 * radius**2)


def rod(length: float, radius: float, along: Vector) -> np.ndarray:
    """Return the inertia per mass of a round rod along a unit direction, (3, 3)."""
    d = np.outer(along, along)
    return (3 * radius**2 + length**2) / 12 * (np.eye(3) - d) + 0.5 * radius**2 * d


def slab(depth: float, width: float, height: float) -> np.ndarray:
    """Return the inertia per mass of an upright slab with an oval outline, (3, 3)."""
    x, y, z = depth**2 / 16, width**2 / 16, height**2 / 12
    return np.diag([y + z, x + z, x + y])


# The bones of the humanoid: 88 bodies besides the pelvis, their joints, shares of mass and shapes.
#
# Everything is per height of the body and in the axes stated above. Tables give the left side; the
# right is its mirror image. Ranges of motion are near the means of healthy adults that clinical manuals give
# (American Academy of Orthopaedic Surgeons); those of the spine and the shoulder are shared out among the
# joints that make them up.

Range = tuple[float, float]

_X, _Y, _Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
_BACK, _RIGHT, _DOWN = (-1.0, 0.0, 0.0), (0.0, -1.0, 0.0), (0.0, 0.0, -1.0)


class Bone(NamedTuple):
    """A body and the hinge that connects it to its parent.

    Attributes:
        name: of the body.
        parent: parent body.
        joint: name of the joint; a positive turn about `axis` is the motion it names.
        at: position of the joint.
        axis: of the hinge.
        limits: range of motion [deg].
        start: angle in the rest pose [deg].
    """

    name: str
    parent: str
    joint: str
    at: Vector
    axis: Vector
    limits: Range
    start: float = 0.0


class Phalanx(NamedTuple):
    """Part of a finger or toe: its names, length, radius, and range and start of its joint [deg]."""

    body: str
    joint: str
    length: float
    radius: float
    limits: Range
    start: float = 0.0


class Lump(NamedTuple):
    """A body's share of a segment.

    Attributes:
        body: its name.
        segment: one of `SEGMENTS`.
        share: of the segment's mass; None takes what the other lumps leave of the segment's mass and inertia.
        com: centre of the lump.
        inertia: about it per mass, (3, 3).
    """

    body: str
    segment: str
    share: float | None
    com: Vector = (0.0, 0.0, 0.0)
    inertia: np.ndarray | None = None


class Form(NamedTuple):
    """A shape: body, kind, size as in `Builder.add_shape_*`, centre, direction of its z, colour's name."""

    body: str
    kind: str
    size: tuple[float, ...]
    at: Vector
    along: Vector = _Z
    color: str = "skin"


# Trunk, neck and head: 7 hinges and the universal neck, of whose second axis `NECK_BEND` is the range.
_SPINE = [
    Bone("lumbar_lower", "pelvis", "lumbar_flexion", (SPINE_X, 0.0, 0.590), _Y, (-20.0, 55.0)),
    Bone("lumbar_middle", "lumbar_lower", "lumbar_bend", (SPINE_X, 0.0, 0.630), _X, (-25.0, 25.0)),
    Bone("lumbar_upper", "lumbar_middle", "lumbar_twist", (SPINE_X, 0.0, 0.672), _Z, (-12.0, 12.0)),
    Bone("thorax_lower", "lumbar_upper", "thoracic_flexion", (SPINE_X, 0.0, 0.715), _Y, (-15.0, 30.0)),
    Bone("thorax_middle", "thorax_lower", "thoracic_bend", (SPINE_X, 0.0, 0.750), _X, (-25.0, 25.0)),
    Bone("thorax", "thorax_middle", "thoracic_twist", (SPINE_X, 0.0, 0.785), _Z, (-35.0, 35.0)),
    Bone("neck", "thorax", "neck", (SPINE_X, 0.0, 0.850), _Y, (-55.0, 50.0)),
    Bone("head", "neck", "head_turn", (-0.005, 0.0, 0.905), _Z, (-75.0, 75.0)),
]
NECK_BEND: Range = (-40.0, 40.0)

_TRUNK_LUMPS = [
    Lump("pelvis", "lower_trunk", None),
    Lump("lumbar_lower", "middle_trunk", 0.25, (0.0, 0.0, 0.626), slab(0.11, 0.165, 0.034)),
    Lump("lumbar_middle", "middle_trunk", 0.33, (0.0, 0.0, 0.6625), slab(0.11, 0.165, 0.039)),
    Lump("lumbar_upper", "middle_trunk", None),
    Lump("thorax_lower", "upper_trunk", 0.25, (0.0, 0.0, 0.741), slab(0.115, 0.175, 0.032)),
    Lump("thorax_middle", "upper_trunk", 0.25, (0.0, 0.0, 0.775), slab(0.115, 0.185, 0.035)),
    Lump("thorax", "upper_trunk", None),
    Lump("neck", "head", 0.20, (-0.010, 0.0, 0.875), rod(0.05, 0.032, _Z)),
    Lump("head", "head", None),
]

# Arm: clavicle, shoulder, elbow, forearm, wrist: 9 hinges; then 15 of the fingers. The middle one of the
# three shoulder axes stays below 80 degrees: at 90 the outer two would be parallel.
_SHOULDER = (0.0, SHOULDER_Y, SHOULDER)
_ARM = [
    Bone("clavicle", "thorax", "clavicle_elevation", (0.020, 0.015, 0.815), _X, (-8.0, 35.0)),
    Bone("scapula", "clavicle", "clavicle_protraction", (0.020, 0.015, 0.815), _DOWN, (-25.0, 30.0)),
    Bone("shoulder", "scapula", "shoulder_flexion", _SHOULDER, _RIGHT, (-60.0, 165.0)),
    Bone("upper_arm_root", "shoulder", "shoulder_abduction", _SHOULDER, _X, (-20.0, 78.0), 9.0),
    Bone("upper_arm", "upper_arm_root", "shoulder_rotation", _SHOULDER, _DOWN, (-75.0, 75.0), 6.0),
    Bone("forearm", "upper_arm", "elbow", (0.0, SHOULDER_Y, ELBOW), _RIGHT, (-3.0, 145.0), 14.0),
    Bone("radius", "forearm", "pronation", (0.0, SHOULDER_Y, 0.560), _DOWN, (-85.0, 80.0), 10.0),
    Bone("carpus", "radius", "wrist_flexion", (0.0, SHOULDER_Y, WRIST), _BACK, (-70.0, 75.0)),
    Bone("hand", "carpus", "wrist_deviation", (0.0, SHOULDER_Y, WRIST), _RIGHT, (-30.0, 20.0)),
]
_ARM_LUMPS = [
    Lump("clavicle", "upper_trunk", 0.03, (0.010, 0.055, 0.815), rod(0.08, 0.018, _Y)),
    Lump("scapula", "upper_trunk", 0.05, (-0.015, 0.075, 0.805), slab(0.05, 0.07, 0.08)),
    Lump("shoulder", "upper_arm", 0.05, (0.0, SHOULDER_Y, SHOULDER), ball(0.026)),
    Lump("upper_arm_root", "upper_arm", 0.10, (0.0, SHOULDER_Y, SHOULDER - 0.046), rod(0.06, 0.026, _Z)),
    Lump("upper_arm", "upper_arm", None),
    Lump("forearm", "forearm", 0.55, (0.0, SHOULDER_Y, 0.591), rod(0.075, 0.023, _Z)),
    Lump("radius", "forearm", None),
    Lump("carpus", "hand", 0.12, (0.0, SHOULDER_Y, WRIST - 0.008), ball(0.015)),
    Lump("hand", "hand", None),
]

# Fingers: knuckle (forward, down from the wrist), length relative to the middle finger.
_FINGERS = {
    "index": (0.0165, 0.0485, 0.92),
    "middle": (0.0055, 86.2 * LEVA, 1.0),
    "ring": (-0.0055, 0.0475, 0.94),
    "little": (-0.0160, 0.0440, 0.76),
}
_FINGER = [
    Phalanx("proximal", "mcp", 0.0270, 0.0050, (-25.0, 90.0), 18.0),
    Phalanx("middle", "pip", 0.0170, 0.0045, (-3.0, 105.0), 24.0),
    Phalanx("distal", "dip", 0.0145, 0.0041, (-5.0, 80.0), 14.0),
]
_THUMB = [
    Phalanx("metacarpal", "cmc", 0.0260, 0.0072, (-20.0, 45.0), 8.0),
    Phalanx("proximal", "mcp", 0.0180, 0.0056, (-10.0, 60.0), 10.0),
    Phalanx("distal", "ip", 0.0165, 0.0050, (-15.0, 80.0), 12.0),
]
# Share of the hand's mass, by the fingers' volume.
_FINGERS_IN_HAND = 0.27

# Leg: hip, knee, ankle: 6 hinges; then 10 of the toes. The subtalar axis rises 42 degrees and points 23
# degrees inwards (Inman).
_LEG = [
    Bone("hip", "pelvis", "hip_flexion", (0.0, HIP_Y, HIP), _RIGHT, (-20.0, 120.0)),
    Bone("thigh_root", "hip", "hip_abduction", (0.0, HIP_Y, HIP), _X, (-25.0, 45.0)),
    Bone("thigh", "thigh_root", "hip_rotation", (0.0, HIP_Y, HIP), _DOWN, (-45.0, 40.0)),
    Bone("shank", "thigh", "knee", (0.0, HIP_Y, KNEE), _Y, (-3.0, 140.0)),
    Bone("talus", "shank", "ankle", (0.0, HIP_Y, ANKLE), _RIGHT, (-45.0, 20.0)),
    Bone("foot", "talus", "subtalar", (0.0, HIP_Y, 0.030), (-0.684, 0.290, -0.669), (-20.0, 30.0)),
]
_LEG_LUMPS = [
    Lump("hip", "thigh", 0.06, (0.0, HIP_Y, HIP), ball(0.038)),
    Lump("thigh_root", "thigh", 0.14, (0.0, HIP_Y, HIP - 0.030), rod(0.05, 0.042, _Z)),
    Lump("thigh", "thigh", None),
    Lump("shank", "shank", None),
    Lump("talus", "foot", 0.12, (0.0, HIP_Y, 0.033), ball(0.016)),
    Lump("foot", "foot", None),
]

# Toes: ball (forward, inwards from the foot's middle), lengths of the two parts, radius.
_TOES = {
    "big_toe": (0.0780, 0.0180, (0.0180, 0.0160), 0.0080),
    "toe2": (0.0790, 0.0045, (0.0155, 0.0135), 0.0060),
    "toe3": (0.0745, -0.0055, (0.0140, 0.0120), 0.0057),
    "toe4": (0.0685, -0.0145, (0.0125, 0.0110), 0.0054),
    "toe5": (0.0610, -0.0225, (0.0110, 0.0100), 0.0052),
}
_TOES_IN_FOOT = 0.07


def _limb(body: str, start: Vector, end: Vector, radius: float, color: str = "skin") -> Form:
    """Return a capsule between two points; the caps reach beyond them."""
    a, b = np.array(start), np.array(end)
    length = float(np.linalg.norm(b - a))
    return Form(body, "capsule", (radius, length), _vector(0.5 * (a + b)), _vector((b - a) / length), color)


def _wide(body: str, height: float, radius: float, width: float, color: str, forward: float = 0.0) -> Form:
    """Return a capsule across the trunk, `width` between its caps."""
    return Form(body, "capsule", (radius, width), (forward, 0.0, height), _Y, color)


def _vector(v: np.ndarray) -> Vector:
    x, y, z = v.tolist()
    return (x, y, z)


_BODY_FORMS = [
    _wide("pelvis", 0.555, 0.050, 0.080, "trousers", -0.003),
    _wide("pelvis", 0.590, 0.052, 0.062, "trousers", -0.006),
    _wide("lumbar_lower", 0.628, 0.050, 0.058, "shirt", -0.004),
    _wide("lumbar_middle", 0.664, 0.051, 0.058, "shirt", -0.002),
    _wide("lumbar_upper", 0.702, 0.054, 0.066, "shirt"),
    _wide("thorax_lower", 0.736, 0.057, 0.074, "shirt", 0.002),
    _wide("thorax_middle", 0.768, 0.058, 0.082, "shirt", 0.002),
    _wide("thorax", 0.800, 0.050, 0.100, "shirt", -0.003),
    _limb("neck", (-0.013, 0.0, 0.845), (-0.005, 0.0, 0.893), 0.031),
    _limb("head", (0.004, 0.0, 0.914), (0.003, 0.0, 0.951), 0.0435),
    Form("head", "sphere", (0.0475,), (-0.007, 0.0, 0.9525), _Z, "hair"),
    _limb("head", (0.048, 0.0, 0.917), (0.045, 0.0, 0.931), 0.007),
]
_SIDE_FORMS = [
    _limb("clavicle", (-0.010, 0.022, 0.838), (-0.002, 0.095, 0.825), 0.021, "shirt"),
    _limb("scapula", (-0.014, 0.085, 0.780), (-0.010, 0.075, 0.815), 0.030, "shirt"),
    Form("shoulder", "sphere", (0.032,), (0.0, SHOULDER_Y, SHOULDER), _Z, "shirt"),
    _limb("upper_arm_root", (0.0, SHOULDER_Y, 0.810), (0.0, SHOULDER_Y, 0.765), 0.0285, "shirt"),
    _limb("upper_arm", (0.0, SHOULDER_Y, 0.765), (0.0, SHOULDER_Y, 0.645), 0.0245),
    _limb("forearm", (0.0, SHOULDER_Y, 0.628), (0.0, SHOULDER_Y, 0.570), 0.0225),
    _limb("radius", (0.0, SHOULDER_Y, 0.570), (0.0, SHOULDER_Y, 0.497), 0.0180),
    Form("carpus", "sphere", (0.0165,), (0.0, SHOULDER_Y, WRIST), _Z),
    *(
        _limb("hand", (0.55 * x, SHOULDER_Y, WRIST - 0.010), (x, SHOULDER_Y, WRIST - down), 0.0078)
        for x, down, _ in _FINGERS.values()
    ),
    Form("hip", "sphere", (0.047,), (0.0, HIP_Y, HIP), _Z, "trousers"),
    _limb("thigh_root", (0.0, HIP_Y, 0.530), (0.0, HIP_Y, 0.470), 0.0455, "trousers"),
    _limb("thigh", (0.0, HIP_Y, 0.450), (0.0, HIP_Y, 0.380), 0.0415, "trousers"),
    _limb("thigh", (0.0, HIP_Y, 0.400), (0.0, HIP_Y, 0.290), 0.0345, "trousers"),
    _limb("shank", (-0.006, HIP_Y, 0.270), (-0.006, HIP_Y, 0.195), 0.0315, "trousers"),
    _limb("shank", (0.0, HIP_Y, 0.200), (0.0, HIP_Y, 0.062), 0.0235, "trousers"),
    Form("talus", "sphere", (0.0215,), (-0.002, HIP_Y, 0.035), _Z),
    Form("foot", "sphere", (0.0200,), (HEEL_X + 0.020, HIP_Y, 0.020), _Z),
    _limb("foot", (0.002, HIP_Y - 0.005, 0.024), (0.074, HIP_Y - 0.0165, 0.0110), 0.0110),
    _limb("foot", (0.000, HIP_Y + 0.002, 0.020), (0.072, HIP_Y + 0.0010, 0.0095), 0.0095),
    _limb("foot", (-0.010, HIP_Y + 0.008, 0.014), (0.060, HIP_Y + 0.0185, 0.0085), 0.0085),
]


def _digit(
    name: str, parent: str, base: Vector, along: Vector, axis: Vector, parts: list[Phalanx], size: float = 1.0
) -> tuple[list[Bone], list[Form]]:
    """Return bones and shapes of a finger, thumb or toe: a straight row from `base`, `size` times as long."""
    rows, shapes = [], []
    at, direction = np.array(base), np.array(along)
    for part in parts:
        body, length, radius = f"{name}_{part.body}", size * part.length, size**0.5 * part.radius
        rows.append(Bone(body, parent, f"{name}_{part.joint}", _vector(at), axis, part.limits, part.start))
        # Half a radius longer at both ends than the bone: no gaps when it bends.
        middle = _vector(at + direction * (length / 2))
        shapes.append(Form(body, "capsule", (radius, max(length - radius, 0.0)), middle, along))
        at, parent = at + direction * length, body
    return rows, shapes


def _hand() -> tuple[list[Bone], list[Form]]:
    # The thumb leaves the front of the palm forwards, down and inwards, and bends across the palm.
    along = np.array((0.62, -0.25, -0.74))
    along /= np.linalg.norm(along)
    across = np.cross(along, (-0.75, -0.5, -0.25))
    across /= np.linalg.norm(across)
    base = (0.014, SHOULDER_Y - 0.003, WRIST - 0.014)
    rows, shapes = _digit("thumb", "hand", base, _vector(along), _vector(across), _THUMB)
    for finger, (forward, down, size) in _FINGERS.items():
        more = _digit(finger, "hand", (forward, SHOULDER_Y, WRIST - down), _DOWN, _BACK, _FINGER, size)
        rows, shapes = rows + more[0], shapes + more[1]
    return rows, shapes


def _toes() -> tuple[list[Bone], list[Form]]:
    rows, shapes = [], []
    for toe, (forward, inwards, lengths, radius) in _TOES.items():
        parts = [
            Phalanx("proximal", "mtp", lengths[0], radius, (-70.0, 35.0)),
            Phalanx("distal", "ip", lengths[1], radius, (-5.0, 60.0)),
        ]
        more = _digit(toe, "foot", (forward, HIP_Y - inwards, radius), _X, _Y, parts)
        rows, shapes = rows + more[0], shapes + more[1]
    return rows, shapes


def _share_out(shapes: list[Form], segment: str, share: float) -> list[Lump]:
    """Return lumps that divide `share` of a segment among digits by their volume."""
    lengths = [form.size[1] + form.size[0] for form in shapes]
    volumes = [form.size[0] ** 2 * length for form, length in zip(shapes, lengths, strict=True)]
    total = sum(volumes)
    return [
        Lump(form.body, segment, share * volume / total, form.at, rod(length, form.size[0], form.along))
        for form, length, volume in zip(shapes, lengths, volumes, strict=True)
    ]


SIDE_SEGMENTS = ("upper_arm", "forearm", "hand", "thigh", "shank", "foot")
_HAND_BONES, _HAND_FORMS = _hand()
_TOE_BONES, _TOE_FORMS = _toes()
_ARM_BONES, _LEG_BONES = _ARM + _HAND_BONES, _LEG + _TOE_BONES
_SIDE_LUMPS = [
    *_ARM_LUMPS,
    *_share_out(_HAND_FORMS, "hand", _FINGERS_IN_HAND),
    *_LEG_LUMPS,
    *_share_out(_TOE_FORMS, "foot", _TOES_IN_FOOT),
]
_OWN = {bone.name for bone in _ARM_BONES + _LEG_BONES}


def mirrored(p: Vector) -> Vector:
    """Return the point or direction at the other side of the body."""
    return (p[0], -p[1], p[2])


def _sides(p: Vector) -> tuple[tuple[str, Vector], ...]:
    return (("left_", p), ("right_", mirrored(p)))


def _side_bones(rows: list[Bone], side: str) -> list[Bone]:
    out = []
    for bone in rows:
        at, axis = bone.at, bone.axis
        if side == "right_":
            # An axis is a pseudovector: mirrored this way, the same sign is the same anatomical motion.
            at, axis = mirrored(at), (-axis[0], axis[1], -axis[2])
        parent = side + bone.parent if bone.parent in _OWN else bone.parent
        out.append(bone._replace(name=side + bone.name, parent=parent, joint=side + bone.joint, at=at, axis=axis))
    return out


def bones() -> list[Bone]:
    """Return the 88 bones below the pelvis, parents first."""
    out = list(_SPINE)
    for rows in (_ARM_BONES, _LEG_BONES):
        for side in ("left_", "right_"):
            out += _side_bones(rows, side)
    return out


def lumps() -> list[Lump]:
    """Return the shares of all bodies; segments of a side are named with it, e.g. "left_thigh"."""
    out, flip = list(_TRUNK_LUMPS), np.diag([1.0, -1.0, 1.0])
    for lump in _SIDE_LUMPS:
        for side, com in _sides(lump.com):
            segment = side + lump.segment if lump.segment in SIDE_SEGMENTS else lump.segment
            inertia = lump.inertia if lump.inertia is None or side == "left_" else flip @ lump.inertia @ flip
            out.append(Lump(side + lump.body, segment, lump.share, com, inertia))
    return out


def forms() -> list[Form]:
    """Return the shapes of all bodies."""
    out = list(_BODY_FORMS)
    for form in (*_SIDE_FORMS, *_HAND_FORMS, *_TOE_FORMS):
        for (side, at), (_, along) in zip(_sides(form.at), _sides(form.along), strict=True):
            out.append(form._replace(body=side + form.body, at=at, along=along))
    return out
