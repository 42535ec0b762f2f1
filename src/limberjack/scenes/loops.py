"""Mechanisms with closed loops, gears and no-slip constraints, and the benchmark problems of the IFToMM library.

Planar mechanisms lie in the x-y plane, as the library has them. All loops are closed at the start to rounding.
`REFERENCES` holds positions and coordinates that are known exactly or published to many digits; `measured` reads the
same quantity from a simulation.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np

from limberjack.errors import ModelError
from limberjack.model import check
from limberjack.model.builder import Builder
from limberjack.model.model import Model
from limberjack.model.spec import WORLD
from limberjack.scenes.catalog import Camera, chosen, scene, whole
from limberjack.scenes.chains import chain_spec, checked_link, side_view

__all__ = [
    "REFERENCES",
    "Reference",
    "andrews_squeezer",
    "bricard",
    "chain_with_limits",
    "flyball_governor",
    "four_bar",
    "gear_train",
    "knife_edge",
    "measured",
    "n_four_bar",
    "simple_pendulum",
]

_DOWN_Y = (0.0, -9.81, 0.0)
_EARTH = (0.0, 0.0, -9.81)
_COLORS = ((0.91, 0.45, 0.29, 1.0), (0.25, 0.49, 0.67, 1.0), (0.36, 0.58, 0.45, 1.0))
_METHOD = "full"


class Reference(NamedTuple):
    """One known value: a point's position (its first coordinates) or a joint's q at a time of a scene."""

    scene: str
    options: dict[str, Any]
    point: str | None
    joint: str | None
    time: float
    value: tuple[float, ...]


REFERENCES = (
    Reference("simple_pendulum", {}, "bob", None, 1.0, (0.9862917511318753, -0.1650108531255412)),
    Reference("simple_pendulum", {}, "bob", None, 10.0, (-0.2750874625761169, -0.9614192050991251)),
    Reference("n_four_bar", {"loops": 2}, "B0", None, 1.0, (-0.19502030194944, -0.98079920566217)),
    Reference("n_four_bar", {"loops": 40}, "B0", None, 1.0, (-0.11535688063211, -0.99332411130045)),
    Reference("n_four_bar", {"loops": 40}, "B0", None, 5.0, (-0.54019005067553, -0.84154305246444)),
    Reference("andrews_squeezer", {}, None, "beta", 0.03, (15.81077119629904,)),
    Reference("andrews_squeezer", {}, None, "Theta", 0.03, (-15.75637105984298,)),
    Reference("andrews_squeezer", {}, None, "gamma", 0.03, (0.04082224013073101,)),
    Reference("bricard", {}, "P3", None, 1.0, (0.2744813193, -0.8867079387, -0.4623300027)),
    Reference("bricard", {}, "P3", None, 2.5, (-0.99998318529, -0.99999999986, -1.6814566e-5)),
    Reference("flyball_governor", {}, None, "slide", 1.0, (0.501420922,)),
    Reference("flyball_governor", {}, None, "slide", 5.0, (0.535563104,)),
)


def measured(sim: Any, reference: Reference) -> np.ndarray:
    """Return the current value in `sim` of the quantity of `reference`, of the same length."""
    if reference.point is not None:
        return sim.point(reference.point).position[: len(reference.value)]
    return np.atleast_1d(np.asarray(sim.joint(reference.joint).q, float))


def _front(x: float, y: float, away: float) -> Camera:
    """Return a camera that sees the x-y plane from above, a little from the side of -y."""
    return Camera((x, y - 0.3 * away, away), (x, y, 0.0))


def _planar_rod(
    builder: Builder, name: str, length: float, mass: float, along: int, color: tuple[float, ...], width: float = 0.06
) -> None:
    """Add a uniform planar rod from its frame's origin along x (0) or y (1) of the frame."""
    com = [0.0, 0.0]
    com[along] = length / 2
    size = [width, width, 0.6 * width]
    size[along] = length
    builder.add_body_planar(name, mass=mass, inertia=mass * length**2 / 12, com=com)
    builder.add_shape_box(name, size, position=(*com, 0.0), color=color, collide=False)


def _stage_simple(**_: Any) -> dict[str, Any]:
    return {"method": _METHOD, "seconds": 10.0, "camera": _front(0.0, -0.3, 3.0)}


@scene("A point mass on a massless bar (IFToMM benchmark A01).", _stage_simple)
def simple_pendulum(*, length: float = 1.0, mass: float = 1.0, bar: str = "hinge", gravity: Any = _DOWN_Y) -> Model:
    """Return a simple pendulum in the x-y plane, hung from the origin, at rest at x = -length. Its point is "bob".

    Args:
        length: of the bar [m].
        mass: of the point [kg].
        bar: "hinge", the point on a hinge about z, or "rod", a particle at a fixed distance, for methods that work on
            bodies.
        gravity: [m/s^2].
    """
    length, mass = check.number(length, "length", positive=True), check.number(mass, "mass", positive=True)
    builder = Builder("simple_pendulum", gravity=gravity)
    if chosen(bar, "bar", "simple_pendulum", ("hinge", "rod")) == "hinge":
        builder.add_body("bob", mass=mass, inertia=(0.0, 0.0, 0.0))
        builder.add_joint_hinge("pivot", WORLD, "bob", position_in_child=(length, 0.0, 0.0))
        along = {"position": (0.5 * length, 0.0, 0.0), "rotation": (math.sqrt(0.5), 0.0, math.sqrt(0.5), 0.0)}
        builder.add_shape_capsule("bob", 0.01 * length, length, color=(0.35, 0.37, 0.40, 1.0), collide=False, **along)
    else:
        builder.add_particle("bob", mass=mass, position=(-length, 0.0, 0.0))
        builder.add_joint_distance("rod", WORLD, "bob", length=length)
    builder.add_shape_sphere("bob", 0.06 * length, color=_COLORS[0], collide=False)
    builder.add_point("bob", "bob", (0.0, 0.0, 0.0))
    return builder.build()


def _stage_four_bar(*, lengths: Any, **_: Any) -> dict[str, Any]:
    reach = max(map(float, lengths))
    return {"method": _METHOD, "seconds": 10.0, "camera": _front(float(lengths[0]) / 2, 0.0, 2.5 * reach)}


@scene("Three rods and the ground in one closed loop, one degree of freedom.", _stage_four_bar)
def four_bar(
    *,
    lengths: tuple[float, float, float, float] = (1.0, 0.4, 0.9, 0.8),
    density: float = 1.0,
    angle: float = 1.0,
    speed: float = 0.0,
    gravity: Any = _DOWN_Y,
) -> Model:
    """Return a four-bar linkage in the x-y plane: ground, crank at the origin, coupler, rocker; the pin "C" closes it.

    By default the crank can rotate fully (Grashof: shortest and longest bar together below the other two). Points "B"
    and "C" are the ends of the coupler.

    Args:
        lengths: of ground, crank, coupler and rocker [m].
        density: mass of the rods per length [kg/m].
        angle: of the crank at the start, from the x axis [rad].
        speed: of the crank at the start [rad/s].
        gravity: [m/s^2].
    """
    ground, crank, coupler, rocker = (
        check.number(x, "lengths", positive=True) for x in check.vector(lengths, 4, "lengths")
    )
    density, angle = check.number(density, "density", positive=True), check.number(angle, "angle")
    speed = check.number(speed, "speed")
    # C lies on the circles of the coupler about B and of the rocker about D, on the left of the line from B to D.
    bx, by = crank * math.cos(angle), crank * math.sin(angle)
    dx, dy = ground - bx, -by
    gap = math.hypot(dx, dy)
    along = (gap**2 + coupler**2 - rocker**2) / (2 * gap)
    if abs(along) >= coupler:
        raise ModelError(f"lengths {tuple(lengths)} do not close at angle {angle:g}")
    up = math.sqrt(coupler**2 - along**2)
    ex, ey = dx / gap, dy / gap
    cx, cy = bx + along * ex - up * ey, by + along * ey + up * ex
    of_coupler, of_rocker = math.atan2(cy - by, cx - bx), math.atan2(cy, cx - ground)
    # The loop at velocity level: crank b' + coupler c' = rocker d', each the rotation of its own vector.
    matrix = [[-(cy - by), cy], [cx - bx, -(cx - ground)]]
    rates = np.linalg.solve(matrix, [speed * by, -speed * bx])
    builder = Builder("four_bar", gravity=gravity)
    for i, (name, length) in enumerate((("crank", crank), ("coupler", coupler), ("rocker", rocker))):
        _planar_rod(builder, name, length, density * length, 0, _COLORS[i])
    builder.add_joint_hinge("A", WORLD, "crank", start=angle, start_velocity=speed)
    builder.add_joint_hinge(
        "B", "crank", "coupler", position=(crank, 0, 0), start=of_coupler - angle, start_velocity=rates[0] - speed
    )
    builder.add_joint_hinge("D", WORLD, "rocker", position=(ground, 0, 0), start=of_rocker, start_velocity=rates[1])
    builder.add_joint_hinge("C", "coupler", "rocker", position=(coupler, 0, 0), position_in_child=(rocker, 0, 0))
    builder.add_point("B", "crank", (crank, 0, 0))
    builder.add_point("C", "coupler", (coupler, 0, 0))
    return builder.build()


def _stage_n_four_bar(*, loops: int, **_: Any) -> dict[str, Any]:
    return {"method": _METHOD, "seconds": 10.0, "camera": _front(0.5 * int(loops), 0.0, max(4.0, 0.9 * int(loops)))}


@scene("A row of four-bar linkages that passes singular poses (IFToMM benchmark A02).", _stage_n_four_bar)
def n_four_bar(*, loops: int = 40, speed: float = 1.0, gravity: Any = _DOWN_Y) -> Model:
    """Return loops + 1 upright cranks of 1 m and 1 kg a metre apart, joined at their tops by couplers like them.

    The mechanism has one degree of freedom. When the cranks lie in line with the couplers it could bifurcate; with
    constraints that are consistent and redundant it must not. Its point is "B0", the top of the first crank.

    Args:
        loops: number of four-bars.
        speed: of the tops at the start, along +x [m/s].
        gravity: [m/s^2].
    """
    loops, speed = whole(loops, "loops", 1), check.number(speed, "speed")
    builder = Builder("n_four_bar", gravity=gravity)
    for k in range(loops + 1):
        crank, coupler = f"crank{k}", f"coupler{k}"
        if k:
            _planar_rod(builder, coupler, 1.0, 1.0, 0, _COLORS[1])
            # The couplers move without turning.
            builder.add_joint_hinge(
                f"pin{k}a", f"crank{k - 1}", coupler, position=(0, 1, 0), start=0.0, start_velocity=speed
            )
        _planar_rod(builder, crank, 1.0, 1.0, 1, _COLORS[0])
        builder.add_joint_hinge(f"pivot{k}", WORLD, crank, position=(k, 0, 0), start=0.0, start_velocity=-speed)
        if k:
            builder.add_joint_hinge(f"pin{k}b", coupler, crank, position=(1, 0, 0), position_in_child=(0, 1, 0))
    builder.add_point("B0", "crank0", (0, 1, 0))
    return builder.build()


# Andrews' squeezer: lengths [m], of Schiehlen (1990) by their letters there.
_D, _DA, _E, _EA, _RR, _RA, _SS = 0.028, 0.0115, 0.02, 0.01421, 0.007, 0.00092, 0.035
_SA, _SB, _SC, _SD, _TA, _TB = 0.01874, 0.01043, 0.018, 0.02, 0.02308, 0.00916
_U, _UA, _UB, _ZF, _ZT, _FA = 0.04, 0.01228, 0.00449, 0.02, 0.04, 0.01421
_A, _B, _C = (-0.06934, -0.00227, 0.0), (-0.03635, 0.03273, 0.0), (0.014, 0.072, 0.0)
# joint, body above, body, axle_x in it, start, mass, inertia, com: joints named by their angles in the order of q.
_SQUEEZER = (
    ("beta", WORLD, "K1", (0.0, 0.0, 0.0), -0.0617138900142764496, 0.04325, 2.194e-6, (_RA, 0.0)),
    ("Theta", "K1", "K2", (_RR, 0.0, 0.0), 0.0, 0.00365, 4.410e-7, (-_DA, 0.0)),
    ("gamma", WORLD, "K3", _B, 0.455279819163070380, 0.02373, 5.255e-6, (_SB, -_SA)),
    ("delta", WORLD, "K5", _A, 0.487364979543842550, 0.0705, 1.169e-5, (_TA, _TB)),
    ("Phi", "K5", "K4", (_ZT, 0.0, 0.0), 0.222668390165885885, 0.00706, 5.667e-7, (0.0, _EA - _E)),
    ("eps", WORLD, "K7", _A, 1.23054744454982119, 0.05498, 1.912e-5, (-_UB, -_UA)),
    ("Omega", "K7", "K6", (0.0, -_U, 0.0), -0.222668390165885885, 0.00706, 5.667e-7, (_ZF - _FA, 0.0)),
)
# Where each body reaches the common pin E, and the ends of the bar to draw.
_TO_E = {"K2": (-_D, 0.0, 0.0), "K3": (0.0, -_SS, 0.0), "K4": (0.0, -_E, 0.0), "K6": (_ZF, 0.0, 0.0)}
_REACH = {"K1": (_RR, 0.0, 0.0), "K5": (_ZT, 0.0, 0.0), "K7": (0.0, -_U, 0.0)} | _TO_E


def _stage_squeezer(*, torque: float, **_: Any) -> dict[str, Any]:
    def drive(sim: Any) -> None:
        sim.joint("beta").tau = float(torque)

    return {
        "method": _METHOD, "dt": 1e-5, "seconds": 0.03, "drive": drive,
        "camera": Camera((-0.03, -0.15, 0.6), (-0.03, 0.03, 0.0)),
    }  # fmt: skip


@scene("Andrews' squeezer: seven bodies, three loops, fast and small (IFToMM benchmark A03).", _stage_squeezer)
def andrews_squeezer(*, torque: float = 0.033) -> Model:
    """Return Andrews' squeezing mechanism, in the x-y plane, without gravity, at rest.

    Its tree joints are the seven angles of the literature; the pins "E3", "E4" and "E6" hold the ends of bodies K3,
    K4 and K6 to that of K2. Points are "D", where the spring acts, and "E". The torque on the joint beta is applied
    by the scene's drive: energy grows by torque times (beta - its start).

    Args:
        torque: on the crank K1 [N m].
    """
    check.number(torque, "torque")
    builder = Builder("andrews_squeezer", gravity=(0.0, 0.0, 0.0))
    for i, (joint, above, body, at, start, mass, inertia, com) in enumerate(_SQUEEZER):
        builder.add_body_planar(body, mass=mass, inertia=inertia, com=com)
        builder.add_joint_hinge(joint, above, body, position=at, start=start)
        x, y, _ = _REACH[body]
        size = (max(abs(x), 0.002), max(abs(y), 0.002), 0.001)
        builder.add_shape_box(body, size, position=(x / 2, y / 2, 0), color=_COLORS[i % 3], collide=False)
    for body in ("K3", "K4", "K6"):
        builder.add_joint_hinge(f"E{body[1]}", "K2", body, position=_TO_E["K2"], position_in_child=_TO_E[body])
    builder.add_spring(WORLD, "K3", at_a=_C, at_b=(_SD, -_SC, 0.0), stiffness=4530.0, rest=0.07785, name="spring")
    builder.add_point("D", "K3", (_SD, -_SC, 0.0))
    builder.add_point("E", "K2", _TO_E["K2"])
    return builder.build()


def _stage_bricard(**_: Any) -> dict[str, Any]:
    return {"method": _METHOD, "seconds": 10.0, "camera": Camera((2.5, -1.5, 3.0), (0.3, -0.7, 0.2))}


_CORNERS = ((0, 0, 0), (1, 0, 0), (1, -1, 0), (1, -1, 1), (0, -1, 1), (0, 0, 1))
_AXES = ((0, 1, 0), (0, 0, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 0))


@scene(
    "Bricard's linkage: six hinges, one of them redundant, one degree of freedom (IFToMM benchmark A04).",
    _stage_bricard,
)
def bricard(*, gravity: Any = _DOWN_Y) -> Model:
    """Return five rods of 1 m, 1 kg and square section of 0.1 m along the edges of a cube, closed through the ground.

    Counting degrees of freedom gives 5 x 6 - 6 x 5 = 0; yet the mechanism moves. Hinges and points are "P1" to "P6",
    P1 and P6 on the ground; hinge "P6" closes the loop.

    Args:
        gravity: [m/s^2].
    """
    builder = Builder("bricard", gravity=gravity)
    axial, across = 0.1**2 / 6, (1.0 + 0.1**2) / 12
    builder.add_point("P1", WORLD, _CORNERS[0])
    for k in range(5):
        name, above = f"rod{k + 1}", f"rod{k}" if k else WORLD
        edge = np.subtract(_CORNERS[k + 1], _CORNERS[k]).astype(float)
        along = np.abs(edge)
        before = np.subtract(_CORNERS[k], _CORNERS[k - 1]) if k else np.zeros(3)
        builder.add_body(name, mass=1.0, com=edge / 2, inertia=along * axial + (1.0 - along) * across)
        builder.add_joint_hinge(f"P{k + 1}", above, name, axis=_AXES[k], position=before)
        builder.add_shape_box(name, 0.1 + 0.9 * along, position=edge / 2, color=_COLORS[k % 3], collide=False)
        builder.add_point(f"P{k + 2}", name, edge)
    builder.add_joint_hinge("P6", WORLD, "rod5", axis=_AXES[5], position=_CORNERS[5], position_in_child=(0, 1, 0))
    return builder.build()


def _stage_governor(**_: Any) -> dict[str, Any]:
    from limberjack.methods import Full

    # its dampers have a time constant of 0.04 ms: explicit steps of a millisecond are unstable
    return {"method": Full(integrator="implicit"), "seconds": 10.0, "camera": Camera((0.5, -3.0, 1.2), (0.0, 0.0, 0.6))}


@scene("A flyball governor with stiff springs (IFToMM benchmark A05).", _stage_governor)
def flyball_governor(*, speed: float = 2 * math.pi, stiffness: float = 8e5, damping: float = 4e4) -> Model:
    """Return a shaft that turns about z, two hinged arms with balls at their ends, and a slider held by springs.

    The rods are 1 x 0.01 x 0.01 m, the slider a cube of 0.1 m, all of 3000 kg/m^3; the balls are points of 5 kg. The
    height of the slider is the coordinate of the joint "slide"; its middle is the point "slider".

    Args:
        speed: of the shaft at the start, which then turns freely [rad/s].
        stiffness: of the springs from the slider to the middles of the arms [N/m].
        damping: of the springs [N s/m].
    """
    builder = Builder("flyball_governor", gravity=_EARTH)
    thin, thick, rod, ball = 3000.0 * 1e-4 * (1.0 + 1e-4) / 12, 3000.0 * 1e-4 * 1e-4 / 6, 0.3, 5.0
    builder.add_body("shaft", mass=rod, com=(0, 0, 0.5), inertia=(thin, thin, thick))
    builder.add_joint_hinge("spin", WORLD, "shaft", start_velocity=check.number(speed, "speed"))
    builder.add_shape_box("shaft", (0.01, 0.01, 1.0), position=(0, 0, 0.5), color=_COLORS[1], collide=False)
    # Rod and ball are one body: the com of both, and the inertia of both about it.
    whole_mass = rod + ball
    com = (0.5 * rod + 1.0 * ball) / whole_mass
    across = thin + rod * (com - 0.5) ** 2 + ball * (1.0 - com) ** 2
    builder.add_body("slider", mass=3.0, inertia=(3.0 * 0.1**2 / 6,) * 3)
    for name, side in (("arm_right", 1.0), ("arm_left", -1.0)):
        builder.add_body(name, mass=whole_mass, com=(side * com, 0, 0), inertia=(thick, across, across))
        builder.add_joint_hinge(
            f"{name}_hinge", "shaft", name, axis=(0, side, 0), position=(0.05 * side, 0, 1), start=math.pi / 6
        )
        builder.add_shape_box(name, (1.0, 0.01, 0.01), position=(0.5 * side, 0, 0), color=_COLORS[1], collide=False)
        builder.add_shape_sphere(name, 0.08, position=(side, 0, 0), color=_COLORS[0], collide=False)
        builder.add_spring(
            "slider", name, at_a=(0.05 * side, 0, 0), at_b=(0.5 * side, 0, 0), stiffness=stiffness, damping=damping,
            rest=0.5, name=f"{name}_spring",
        )  # fmt: skip
    builder.add_joint_slide("slide", "shaft", "slider", start=0.5)
    builder.add_shape_box("slider", (0.1, 0.1, 0.1), color=_COLORS[2], collide=False)
    builder.add_point("slider", "slider", (0, 0, 0))
    return builder.build()


def _stage_limited(*, links: int, length: float, **_: Any) -> dict[str, Any]:
    return {"method": _METHOD, "seconds": 10.0, "camera": side_view(float(links) * float(length))}


@scene("A falling chain whose hinges have hard limits.", _stage_limited)
def chain_with_limits(
    *,
    links: int = 10,
    length: float = 0.3,
    mass: float = 0.5,
    limit: float = 0.4,
    damping: float = 0.0,
    gravity: Any = _EARTH,
) -> Model:
    """Return a chain that falls from the horizontal; all hinges but the first have hard limits.

    Args:
        links: number of links.
        length: of one link [m].
        mass: of one link [kg].
        limit: largest angle of a hinge to either side [rad].
        damping: of each hinge [N m s / rad].
        gravity: [m/s^2].
    """
    links, limit = whole(links, "links", 1), check.number(limit, "limit", low=0.0)
    start = np.zeros(links)
    start[0] = -math.pi / 2
    link = checked_link(length, mass, None, damping)
    spec = chain_spec("chain_with_limits", links=links, gravity=gravity, spatial=False, start=start, **link)
    spec.joints[1:] = [dataclasses.replace(joint, limits=((-limit, limit),)) for joint in spec.joints[1:]]
    return Model(spec)


def _stage_gears(*, wheels: int, **_: Any) -> dict[str, Any]:
    middle = 0.15 * int(wheels)
    return {
        "method": _METHOD,
        "seconds": 10.0,
        "camera": Camera((middle, -1.0 - 0.4 * int(wheels), 0.4), (middle, 0, 0)),
    }


@scene("A row of gear wheels, the last one with a point mass.", _stage_gears)
def gear_train(*, wheels: int = 5, speed: float = 1.0, weight: float = 0.5, gravity: Any = _EARTH) -> Model:
    """Return wheels in a row that mesh, of radius 0.2 and 0.1 m in turn, hinged to the world about y.

    The gears "mesh1", "mesh2", ... leave one degree of freedom. The last wheel carries a point mass at its rim.

    Args:
        wheels: number of wheels.
        speed: of the first wheel at the start [rad/s].
        weight: of the point mass on the rim of the last wheel, on its +x side at the start [kg].
        gravity: [m/s^2].
    """
    wheels, speed = whole(wheels, "wheels", 2), check.number(speed, "speed")
    weight = check.number(weight, "weight", low=0.0)
    builder = Builder("gear_train", gravity=gravity)
    axle_x, before = 0.0, 0.0
    for i in range(wheels):
        radius = 0.1 if i % 2 else 0.2
        name, mass, load = f"wheel{i}", 50.0 * radius**2, weight if i == wheels - 1 else 0.0
        if i:
            axle_x += before + radius
            speed *= -before / radius
        disc = np.array([mass * radius**2 / 4, mass * radius**2 / 2, mass * radius**2 / 4])
        # About the com of wheel and weight: what both have in x does not turn with x.
        off = load / (mass + load) * radius
        apart = mass * off**2 + load * (radius - off) ** 2
        builder.add_body(name, mass=mass + load, com=(off, 0, 0), inertia=disc + (0.0, apart, apart))
        builder.add_joint_hinge(f"axle{i}", WORLD, name, axis=(0, 1, 0), position=(axle_x, 0, 0), start_velocity=speed)
        builder.add_shape_cylinder(
            name, radius, 0.04, rotation=(math.sqrt(0.5), math.sqrt(0.5), 0, 0), color=_COLORS[i % 2], collide=False
        )
        if load:
            builder.add_shape_sphere(name, 0.03, position=(radius, 0, 0), color=_COLORS[2], collide=False)
        if i:
            builder.add_gear(f"mesh{i}", f"axle{i - 1}", f"axle{i}", ratio=-radius / before)
        before = radius
    return builder.build()


def _stage_edge(*, speed: float, slope: float, **_: Any) -> dict[str, Any]:
    wide = max(9.81 * math.sin(float(slope)) / float(speed) ** 2, 0.5)
    return {"method": _METHOD, "seconds": 10.0, "camera": _front(0.0, 2 * wide, 8 * wide)}


@scene("A spinning knife edge on a slope that drifts sideways along a cycloid.", _stage_edge)
def knife_edge(*, mass: float = 1.0, speed: float = 2.0, slope: float = 0.3) -> Model:
    """Return a blade on a smooth slope that can slide along its edge and rotate, but not move across it.

    The slope is the x-y plane, downhill along +x; the blade touches under its com, points down the slope and is at
    rest except for its spin w. It does not slide down: with a = 9.81 sin(slope),
    x = a sin(w t)^2 / (2 w^2), y = a (w t - sin(2 w t) / 2) / (2 w^2). Its point is "contact".

    Args:
        mass: of the blade [kg].
        speed: of its spin [rad/s].
        slope: angle of the slope [rad].
    """
    mass, slope = check.number(mass, "mass", positive=True), check.number(slope, "slope")
    speed = check.number(speed, "speed", positive=True)
    builder = Builder("knife_edge", gravity=(9.81 * math.sin(slope), 0.0, -9.81 * math.cos(slope)))
    builder.add_body_planar("blade", mass=mass, inertia=mass * 0.4**2 / 12)
    builder.add_joint_planar("ice", WORLD, "blade", start=(0, 0, 0), start_velocity=(0, 0, speed))
    builder.add_no_slip("edge", "blade", direction=(0, 1, 0))
    builder.add_shape_box("blade", (0.4, 0.02, 0.1), color=_COLORS[1], collide=False)
    builder.add_shape_plane(WORLD, position=(0.0, 0.0, -0.05), collide=False)
    builder.add_point("contact", "blade", (0, 0, 0))
    return builder.build()
