"""The scenes of Faure 1998: assembly of a ring of figures, a structure to drag, a plate to shake, and its figures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from limberjack.model import check
from limberjack.model.builder import Builder
from limberjack.model.model import Model
from limberjack.model.spec import WORLD, Axis
from limberjack.scenes.catalog import Camera, flag, scene, whole
from limberjack.spatial.frames import matrix_from_axis, quaternion_from_matrix

__all__ = [
    "bar_between_disks", "bead_on_circle", "draggable_structure", "faure_joints", "ring_of_figures", "shaken_plate",
]  # fmt: skip

_EARTH = (0.0, 0.0, -9.81)
_NOWHERE = (0.0, 0.0, 0.0)
_COLORS = (
    (0.91, 0.45, 0.29, 1.0), (0.25, 0.49, 0.67, 1.0), (0.36, 0.58, 0.45, 1.0), (0.83, 0.68, 0.30, 1.0),
    (0.55, 0.42, 0.62, 1.0),
)  # fmt: skip
# Limbs of a figure of height 1: name, the body it hangs on, joint, where in that body's frame, and its own end.
_LIMBS = (
    ("chest", "pelvis", "ball", (0.0, 0.0, 0.06), (0.0, 0.0, 0.24)),
    ("head", "chest", "ball", (0.0, 0.0, 0.24), (0.0, 0.0, 0.15)),
    *(
        limb
        for side, y in (("left", 1.0), ("right", -1.0))
        for limb in (
            (f"{side}_arm", "chest", "ball", (0.0, 0.11 * y, 0.22), (0.0, 0.18 * y, 0.0)),
            (f"{side}_forearm", f"{side}_arm", "hinge", (0.0, 0.18 * y, 0.0), (0.0, 0.16 * y, 0.0)),
            (f"{side}_hand", f"{side}_forearm", "ball", (0.0, 0.16 * y, 0.0), (0.0, 0.09 * y, 0.0)),
            (f"{side}_thigh", "pelvis", "ball", (0.0, 0.06 * y, -0.06), (0.0, 0.0, -0.24)),
            (f"{side}_shank", f"{side}_thigh", "hinge", (0.0, 0.0, -0.24), (0.0, 0.0, -0.22)),
            (f"{side}_foot", f"{side}_shank", "ball", (0.0, 0.0, -0.22), (0.12, 0.0, -0.03)),
        )
    ),
)
# Points to be connected, in their body and relative to the feet of the figure at rest; left side, height 1.
_TIPS = {"hand": np.array((0.0, 0.09, 0.0)), "foot": np.array((0.12, 0.0, -0.03))}
_REST = {"hand": np.array((0.0, 0.54, 0.83)), "foot": np.array((0.12, 0.06, 0.0))}
# Elbows turn about the vertical of arms held out, knees about the figure's side.
_AXES = {"forearm": (0.0, 0.0, 1.0), "shank": (0.0, 1.0, 0.0)}


def _rod(builder: Builder, name: str, end: np.ndarray, mass: float, radius: float, color: tuple[float, ...]) -> None:
    """Add a uniform rod from its frame's origin to `end`."""
    length = float(np.linalg.norm(end))
    along = end / length
    inertia = mass * (length**2 / 12 + radius**2 / 4) * (np.eye(3) - np.outer(along, along))
    inertia += 0.5 * mass * radius**2 * np.outer(along, along)
    builder.add_body(name, mass=mass, com=end / 2, inertia=inertia)
    turn = _turn_to(along)
    builder.add_shape_capsule(name, radius, length, position=end / 2, rotation=turn, color=color, collide=False)


def _turn_to(along: np.ndarray) -> np.ndarray:
    """Return the quaternion that rotates z to a direction."""
    axis = np.cross((0.0, 0.0, 1.0), along)
    size = float(np.linalg.norm(axis))
    if size < 1e-9:
        return np.array((1.0, 0.0, 0.0, 0.0)) if along[2] > 0 else np.array((0.0, 1.0, 0.0, 0.0))
    return quaternion_from_matrix(matrix_from_axis(axis / size, np.array(math.atan2(size, along[2]))))


def _figure(builder: Builder, name: str, height: float, foot: np.ndarray, yaw: float, color: Any) -> None:
    """Add a figure of 15 solids on 10 balls and 4 hinges, 50 rows, arms held out, feet on the ground."""
    _rod(builder, f"{name}_pelvis", np.array((0.0, 0.0, 0.06)) * height, 0.14 * 12 * height**3, 0.07 * height, color)
    start = (*(foot + (0.0, 0.0, 0.55 * height)), math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2))
    builder.add_joint_free(f"{name}_root", WORLD, f"{name}_pelvis", start=start)
    for limb, above, kind, at, end in _LIMBS:
        tip = np.array(end) * height
        mass = 12 * height**3 * 0.6 * float(np.linalg.norm(end)) ** 1.5 * (2.0 if limb == "chest" else 1.0)
        _rod(builder, f"{name}_{limb}", tip, mass, 0.035 * height, color)
        options: dict[str, Any] = {"position": np.array(at) * height}
        part = limb.rpartition("_")[2]
        if kind == "hinge":
            options["axis"] = _AXES[part]
        builder.add_joint(kind, f"{name}_{limb}_joint", f"{name}_{above}", f"{name}_{limb}", **options)


def _stage_ring(**_: Any) -> dict[str, Any]:
    return {"method": "displacements", "dt": 1 / 60, "camera": Camera((6.0, -9.0, 6.0), (0.0, 0.0, 0.8))}


@scene(
    "Figures of different sizes in a ring, hands and feet connected: 758 constraints (Faure 1998).",
    _stage_ring,
    shown={"gravity": (0.0, 0.0, 0.0)},
)
def ring_of_figures(*, figures: int = 14, gap: float = 0.9, gravity: Any = _EARTH, assembled: bool = True) -> Model:
    """Return figures in a ring, connected by their hands to their neighbours, and by four pairs of feet.

    Each has 15 solids and 50 scalar constraints; hands are connected by ball joints, feet by universal joints. With 14
    figures there are 758. As placed the loops are open; `lj.assemble` closes them before the model is returned.

    Args:
        figures: how many stand in the ring, at least 4.
        gap: the largest distance between hands to be connected at the start [m].
        gravity: [m/s^2].
        assembled: whether the loops are closed; False to see `lj.assemble` or `displacements` close them.
    """
    figures, gap = whole(figures, "figures", 4), check.number(gap, "gap", positive=True)
    builder = Builder("ring_of_figures", gravity=gravity)
    heights = [1.6 + 0.3 * math.sin(2.4 * k) for k in range(figures)]
    pairs = [("hand", k) for k in range(figures)]
    pairs += [("foot", k) for k in (0, figures // 4, figures // 2, 3 * figures // 4)]
    radius = _ring_radius(heights, pairs, gap)
    for k, height in enumerate(heights):
        angle = 2 * math.pi * k / figures
        spot = radius * np.array((math.cos(angle), math.sin(angle), 0.0))
        _figure(builder, f"figure{k}", height, spot, angle + math.pi, _COLORS[k % len(_COLORS)])
    for part, k in pairs:
        a, b = (f"figure{i}_{side}_{part}" for i, side in ((k, "right"), ((k + 1) % figures, "left")))
        own, other = (_TIPS[part] * (1.0, side, 1.0) * heights[i % figures] for i, side in ((k, -1.0), (k + 1, 1.0)))
        bind = builder.add_joint_ball if part == "hand" else builder.add_joint_universal
        bind(f"{part}s{k}", a, b, position=own, position_in_child=other)
    model = builder.build()
    if flag(assembled, "assembled"):
        # loaded when it is used: scenes need no compiler
        from limberjack.maximal.assemble import assemble, with_start

        model = with_start(model, assemble(model).q)
    return model


def _ring_radius(heights: list[float], pairs: list[tuple[str, int]], gap: float) -> float:
    """Return the radius of the ring at which the largest gap to be closed is `gap`."""
    n = len(heights)

    def position(radius: float, part: str, i: int, side: float) -> np.ndarray:
        angle, h = 2 * math.pi * i / n, heights[i % n]
        # facing the middle: forward is inward, the left hand points to the figure before
        x, y, z = _REST[part] * (1.0, side, 1.0) * h
        inward, left = -np.array((math.cos(angle), math.sin(angle))), np.array((math.sin(angle), -math.cos(angle)))
        return np.array((*((x - radius) * inward + y * left), z))

    def widest(radius: float) -> float:
        ends = [(position(radius, part, k, -1.0), position(radius, part, k + 1, 1.0)) for part, k in pairs]
        return max(float(np.linalg.norm(a - b)) for a, b in ends)

    # from where the gaps are least on, they grow with the ring
    radii = np.linspace(0.1, 1.0, 200) * n * max(heights)
    low = float(radii[int(np.argmin([widest(float(r)) for r in radii]))])
    high = low + gap * n + n * max(heights)
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if widest(middle) < gap else (low, middle)
    return high


def _stage_drag(**_: Any) -> dict[str, Any]:
    from limberjack.methods import Displacements

    method = Displacements(mode="kinematic", iterations=2, solver_iterations=5)
    return {"method": method, "dt": 1 / 60, "camera": Camera((4.0, -5.0, 2.0), (0.0, 0.0, -0.8))}


@scene("Connected rings of rods, to be dragged: 56 solids, 261 constraints (Faure 1998, Fig. 5).", _stage_drag)
def draggable_structure(*, rings: int = 7, rods: int = 8, side: float = 0.5, gravity: Any = _EARTH) -> Model:
    """Return rings of rods on balls, each connected to the one above at five rods, the first to the world.

    Args:
        rings: how many.
        rods: in each ring, at least 5.
        side: length of a rod [m].
        gravity: [m/s^2].
    """
    rings, rods, side = whole(rings, "rings", 1), whole(rods, "rods", 5), check.number(side, "side", positive=True)
    builder = Builder("draggable_structure", gravity=gravity)
    radius, drop = side / (2 * math.sin(math.pi / rods)), 0.4 * side
    for k in range(rings):
        for i in range(rods):
            # every rod's frame is at its first corner, axes of the world
            a, b = (
                radius * np.array((math.cos(t), math.sin(t), 0.0)) for t in (2 * math.pi * c / rods for c in (i, i + 1))
            )
            _rod(builder, f"rod{k}_{i}", b - a, 1.0, 0.06 * side, _COLORS[k % len(_COLORS)])
            half = 0.5 * (b - a)
            if k == 0 and i == 0:
                builder.add_joint_ball("anchor", WORLD, "rod0_0", position=a + half, position_in_child=half)
            elif i == 0:
                up, down = half - (0.0, 0.0, drop / 2), half + (0.0, 0.0, drop / 2)
                builder.add_joint_ball(f"hang{k}_0", f"rod{k - 1}_0", f"rod{k}_0", position=up, position_in_child=down)
            else:
                before = radius * np.array((math.cos(2 * math.pi * (i - 1) / rods), 0.0, 0.0))
                before[1] = radius * math.sin(2 * math.pi * (i - 1) / rods)
                builder.add_joint_ball(f"corner{k}_{i}", f"rod{k}_{i - 1}", f"rod{k}_{i}", position=a - before)
        last = radius * np.array((math.cos(-2 * math.pi / rods), math.sin(-2 * math.pi / rods), 0.0))
        builder.add_joint_ball(
            f"corner{k}_0", f"rod{k}_{rods - 1}", f"rod{k}_0", position=np.array((radius, 0.0, 0.0)) - last
        )
        for i in range(1, 5 if k else 0):
            half = 0.5 * radius * np.array((
                math.cos(2 * math.pi * (i + 1) / rods) - math.cos(2 * math.pi * i / rods),
                math.sin(2 * math.pi * (i + 1) / rods) - math.sin(2 * math.pi * i / rods), 0.0,
            ))  # fmt: skip
            up, down = half - (0.0, 0.0, drop / 2), half + (0.0, 0.0, drop / 2)
            builder.add_joint_ball(
                f"hang{k}_{i}", f"rod{k - 1}_{i}", f"rod{k}_{i}", position=up, position_in_child=down
            )
    return builder.build()


def _shake(sim: Any) -> None:
    """Move the plate to and fro."""
    t = sim.time
    turn = 0.25 * math.sin(7.0 * t)
    sim.move(
        "plate", (0.15 * math.sin(9.0 * t), 0.10 * math.sin(6.0 * t), 1.5),
        (math.cos(turn / 2), 0.0, math.sin(turn / 2), 0.0),
    )  # fmt: skip


def _stage_plate(**_: Any) -> dict[str, Any]:
    from limberjack.methods import Displacements

    method = Displacements(mode="damped", iterations=1, solver_iterations=15)
    return {"method": method, "dt": 1 / 60, "drive": _shake, "camera": Camera((2.5, -3.0, 1.8), (0.0, 0.0, 1.1))}


@scene(
    "A plate that is shaken, with a ring hung from it on strings: 28 solids, 108 constraints (Fig. 6).", _stage_plate
)
def shaken_plate(*, strings: int = 9, gravity: Any = _EARTH) -> Model:
    """Return a plate with strings of two links each, whose ends hold a ring of bars.

    Args:
        strings: how many, at least 3.
        gravity: [m/s^2].
    """
    strings = whole(strings, "strings", 3)
    builder = Builder("shaken_plate", gravity=gravity)
    builder.add_body("plate", mass=2.0, inertia=(0.05, 0.05, 0.1))
    builder.add_shape_cylinder("plate", 0.5, 0.03, color=_COLORS[1], collide=False)
    builder.add_joint_free("plate_joint", WORLD, "plate", start=(0.0, 0.0, 1.5, 1.0, 0.0, 0.0, 0.0))
    down = np.array((0.0, 0.0, -0.3))
    corners = [0.45 * np.array((math.cos(t), math.sin(t), 0.0)) for t in 2 * math.pi * np.arange(strings) / strings]
    for k in range(strings):
        above, at = "plate", corners[k]
        for i in range(2):
            name = f"link{k}_{i}"
            _rod(builder, name, down, 0.1, 0.03, _COLORS[(k + i) % len(_COLORS)])
            builder.add_joint_ball(f"{name}_joint", above, name, position=at)
            above, at = name, down
    spans = [corners[(k + 1) % strings] - corners[k] for k in range(strings)]
    for k in range(strings):
        _rod(builder, f"bar{k}", spans[k], 0.1, 0.03, _COLORS[k % len(_COLORS)])
        builder.add_joint_ball(f"hang{k}", f"link{k}_1", f"bar{k}", position=down)
    for k in range(strings):
        builder.add_joint_ball(f"ring{k}", f"bar{k}", f"bar{(k + 1) % strings}", position=spans[k])
    return builder.build()


def _stage_bar(**_: Any) -> dict[str, Any]:
    return {"method": "displacements", "camera": Camera((0.0, -4.0, 1.0), (0.0, 0.0, 0.5)), "seconds": 2.0}


@scene("A bar to be assembled between the centres of two disks (Faure 1998, Fig. 2).", _stage_bar)
def bar_between_disks(*, length: float = 1.0, apart: float = 1.6, gravity: Any = _NOWHERE) -> Model:
    """Return two disks and a bar whose ends are to coincide with their centres; open at the start.

    Args:
        length: of the bar [m].
        apart: how far apart the disks are [m].
        gravity: [m/s^2].
    """
    length, apart = check.number(length, "length", positive=True), check.number(apart, "apart", positive=True)
    builder = Builder("bar_between_disks", gravity=gravity)
    for name, x in (("left", -apart / 2), ("right", apart / 2)):
        builder.add_body(name, mass=1.0, inertia=(0.02, 0.04, 0.02))
        turned = quaternion_from_matrix(matrix_from_axis(np.array((1.0, 0.0, 0.0)), np.array(math.pi / 2)))
        builder.add_shape_cylinder(name, 0.2, 0.05, rotation=turned, color=_COLORS[1], collide=False)
        builder.add_joint_free(f"{name}_joint", WORLD, name, start=(x, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0))
    _rod(builder, "bar", np.array((length, 0.0, 0.0)), 1.0, 0.03, _COLORS[0])
    tilt = 0.9
    start = (-0.6 * length, 0.0, 0.8, math.cos(tilt / 2), 0.0, math.sin(tilt / 2), 0.0)
    builder.add_joint_free("bar_joint", WORLD, "bar", start=start)
    builder.add_joint_ball("left_end", "left", "bar")
    builder.add_joint_ball("right_end", "right", "bar", position_in_child=(length, 0.0, 0.0))
    return builder.build()


def _stage_bead(**_: Any) -> dict[str, Any]:
    from limberjack.methods import Displacements

    return {"method": Displacements(mode="conserving"), "dt": 1 / 60, "camera": Camera((0.0, -1.0, 5.0), _NOWHERE)}


@scene("A particle on a circle, without forces (Faure 1998, Fig. 4).", _stage_bead)
def bead_on_circle(*, radius: float = 1.0, speed: float = 2.0, gravity: Any = _NOWHERE) -> Model:
    """Return a particle at a fixed distance from the origin, moving along the circle in the x-y plane.

    Args:
        radius: of the circle [m].
        speed: of the particle at the start [m/s].
        gravity: [m/s^2].
    """
    radius = check.number(radius, "radius", positive=True)
    builder = Builder("bead_on_circle", gravity=gravity)
    builder.add_body("bead", mass=1.0, body_kind="particle")
    axes = [
        Axis(name=f"bead:{x}", kind="slide", axis=axis, start=start, start_velocity=rate)
        for x, axis, start, rate in (
            ("x", (1.0, 0.0, 0.0), radius, 0.0), ("y", (0.0, 1.0, 0.0), 0.0, check.number(speed, "speed")),
            ("z", (0.0, 0.0, 1.0), 0.0, 0.0),
        )
    ]  # fmt: skip
    builder.add_joint_compound("bead", WORLD, "bead", axes)
    builder.add_joint_distance("circle", WORLD, "bead", length=radius)
    builder.add_shape_sphere("bead", 0.08 * radius, color=_COLORS[0], collide=False)
    return builder.build()


# Table 1 of the paper: its names, and ours for the same rows locked.
TABLE = {
    "universal": "ball", "pin": "hinge", "cylindrical": "cylindrical", "prismatic": "slide",
    "ball_socket": "point_on_line", "smooth_contact": "point_on_plane",
}  # fmt: skip


@scene("Every joint of Table 1 of Faure 1998, each between two bodies that start apart.", _stage_bar)
def faure_joints(*, gravity: Any = _NOWHERE) -> Model:
    """Return pairs of bodies, one pair per row of the paper's Table 1, all joints open at the start.

    Args:
        gravity: [m/s^2].
    """
    builder = Builder("faure_joints", gravity=gravity)
    for k, (name, kind) in enumerate(TABLE.items()):
        turned = quaternion_from_matrix(matrix_from_axis(np.array((0.6, 0.0, 0.8)), np.array(0.7 + 0.3 * k)))
        for part, position, turn in (
            ("a", (1.5 * k, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0)),
            ("b", (1.5 * k, 0.5, 0.4), turned),
        ):
            _rod(builder, f"{name}_{part}", np.array((0.0, 0.0, 0.5)), 1.0, 0.06, _COLORS[k % len(_COLORS)])
            builder.add_joint_free(f"{name}_{part}_joint", WORLD, f"{name}_{part}", start=(*position, *turn))
        builder.add_joint(kind, name, f"{name}_a", f"{name}_b", position=(0.0, 0.0, 0.5))
    return builder.build()
