"""Chains of hinged links: the pendulums, short, long and very long.

The frame of a link is at its joint, the link extends along -z; at q = 0 the chain hangs straight down.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from limberjack.errors import ModelError
from limberjack.model import check
from limberjack.model.builder import Builder
from limberjack.model.model import Model
from limberjack.model.spec import WORLD, Body, Joint, Shape, Spec
from limberjack.scenes.catalog import Camera, chosen, flag, scene, whole

__all__ = ["chain_spec", "checked_link", "double_pendulum", "long_chain", "pendulum", "side_view", "tethered_pendulum"]

_EARTH = (0.0, 0.0, -9.81)
_ORIGIN, _NO_TURN = (0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0)
_X, _Y = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)
_COLORS = ((0.91, 0.45, 0.29, 1.0), (0.25, 0.49, 0.67, 1.0))
# A quarter turn about -y takes the chain from hanging along -z to lying along +x.
_QUARTER = -math.pi / 2


def _long_kept() -> Any:
    """Return the method for a chain that whips: first-order integrators gain some per cent of energy.

    Imported here, when a scene is staged: it loads Numba, which building a model does not need.
    """
    from limberjack.methods import Full

    return Full(integrator="rk4", substeps=1)


def side_view(reach: float) -> Camera:
    """Return a camera for a chain of length `reach` that hangs from the origin and swings in the x-z plane."""
    return Camera((0.0, -2.2 * reach, -0.2 * reach), (0.0, 0.0, -0.4 * reach))


def chain_spec(
    name: str,
    *,
    links: int,
    length: float,
    mass: float,
    radius: float,
    gravity: Any,
    damping: float,
    spatial: bool,
    start: np.ndarray,
    start_velocity: np.ndarray | None = None,
    shapes: bool = True,
) -> Spec:
    """Return the spec of a chain hung from the world's origin.

    The records are made here and not through `Builder`: all links are equal, so their numbers are checked
    once, and the time of 100,000 links goes into the model alone.
    """
    thin, thick = mass * (3 * radius**2 + length**2) / 12, mass * radius**2 / 2
    inertia = (thin, thin, thick, 0.0, 0.0, 0.0)
    com, end = (0.0, 0.0, -length / 2), (0.0, 0.0, -length)
    damped = (damping,) if damping else None
    look = (com, _NO_TURN, 0.5, 0.0, None)
    size = (radius, max(length - 2 * radius, 0.0))
    spec = Spec(name, check.vector(gravity, 3, "gravity"))
    above, at = WORLD, _ORIGIN
    for i, angle in enumerate(start.tolist()):
        body = f"link{i}"
        axis = _X if spatial and i % 2 else _Y
        speed = None if start_velocity is None else (float(start_velocity[i]),)
        options = {"axis": axis, "start": (angle,), "start_velocity": speed, "damping": damped}
        spec.bodies.append(Body(body, mass, com, inertia, None, None))
        spec.joints.append(Joint(f"joint{i}", "hinge", above, body, at, _NO_TURN, _ORIGIN, _NO_TURN, **options))
        if shapes:
            spec.shapes.append(Shape(f"{body}:capsule", body, "capsule", size, *look, _COLORS[i % 2], False, 0))
        above, at = body, end
    return spec


def checked_link(length: Any, mass: Any, radius: Any, damping: Any) -> dict[str, Any]:
    """Return the checked numbers of a link, by the names `chain_spec` has for them; radius None is length / 20."""
    length = check.number(length, "length", positive=True)
    radius = 0.05 * length if radius is None else check.number(radius, "radius", positive=True)
    return {
        "length": length,
        "mass": check.number(mass, "mass", positive=True),
        "radius": radius,
        "damping": check.number(damping, "damping", low=0.0),
    }


def _stage_pendulum(*, links: int, length: float, **_: Any) -> dict[str, Any]:
    reach = float(links) * float(length)
    return {"method": _long_kept(), "seconds": 10.0 if reach > 30.0 else 5.0, "camera": side_view(reach)}


@scene(
    "A chain of hinged links that falls from the horizontal (Redon, Galoppo and Lin 2005, figure 5).", _stage_pendulum
)
def pendulum(
    *,
    links: int = 300,
    length: float = 1.0,
    mass: float = 1.0,
    radius: float | None = None,
    damping: float = 0.0,
    spatial: bool = False,
    start: str = "horizontal",
    seed: int = 0,
    gravity: Any = _EARTH,
) -> Model:
    """Return a chain of hinged links hung from the world's origin.

    The paper's pendulum has 300 hinges and moves under gravity alone, as this one does by default. When its
    end whips, first-order integrators at 1 ms gain some per cent of energy, and a longer run diverges; the
    scene therefore runs it by `rk4`.

    Args:
        links: number of links.
        length: of one link [m].
        mass: of one link [kg].
        radius: of the links, which are round rods; None is a twentieth of the length [m].
        damping: of each hinge [N m s / rad].
        spatial: hinge axes y and x in turn instead of y only.
        start: "horizontal" along +x at rest, "hanging" at rest, or "random": angles within 0.3 rad and speeds
            within 0.2 rad/s of hanging at rest.
        seed: of the random start.
        gravity: [m/s^2].
    """
    links = whole(links, "links", 1)
    angles, speeds = np.zeros(links), None
    if chosen(start, "start", "pendulum", ("horizontal", "hanging", "random")) == "horizontal":
        angles[0] = _QUARTER
    elif start == "random":
        rng = np.random.default_rng(whole(seed, "seed", 0))
        angles, speeds = rng.uniform(-0.3, 0.3, links), rng.uniform(-0.2, 0.2, links)
    link = checked_link(length, mass, radius, damping)
    return Model(
        chain_spec(
            "pendulum",
            links=links,
            gravity=gravity,
            spatial=flag(spatial, "spatial"),
            start=angles,
            start_velocity=speeds,
            **link,
        )
    )


def _stage_double(*, lengths: Any, **_: Any) -> dict[str, Any]:
    return {"method": _long_kept(), "seconds": 10.0, "camera": side_view(sum(map(float, lengths)))}


@scene("Two hinged rods: the smallest chaotic pendulum.", _stage_double)
def double_pendulum(
    *,
    lengths: tuple[float, float] = (1.0, 1.0),
    masses: tuple[float, float] = (1.0, 1.0),
    start: tuple[float, float] = (_QUARTER, 0.0),
    damping: float = 0.0,
    gravity: Any = _EARTH,
) -> Model:
    """Return two uniform rods hung from the world's origin, swinging in the x-z plane.

    Args:
        lengths: of the two rods [m].
        masses: of the two rods [kg].
        start: angles of the two hinges from hanging; a negative one swings towards +x [rad].
        damping: of each hinge [N m s / rad].
        gravity: [m/s^2].
    """
    rods = zip(
        ("upper", "lower"),
        check.vector(lengths, 2, "lengths"),
        check.vector(masses, 2, "masses"),
        check.vector(start, 2, "start"),
        _COLORS,
        strict=True,
    )
    builder = Builder("double_pendulum", gravity=gravity)
    above, at = WORLD, _ORIGIN
    for name, length, mass, angle, color in rods:
        link = checked_link(length, mass, None, damping)
        thin, thick = mass * (3 * link["radius"] ** 2 + length**2) / 12, mass * link["radius"] ** 2 / 2
        centre = (0.0, 0.0, -length / 2)
        builder.add_body(name, mass=mass, com=centre, inertia=(thin, thin, thick))
        builder.add_joint_hinge(
            f"{name}_hinge", above, name, axis=_Y, position=at, start=angle, damping=link["damping"]
        )
        builder.add_shape_capsule(
            name, link["radius"], length - 2 * link["radius"], position=centre, color=color, collide=False
        )
        above, at = name, (0.0, 0.0, -length)
    return builder.build()


def _stage_tethered(*, links: int, length: float, **_: Any) -> dict[str, Any]:
    return {"method": _long_kept(), "seconds": 10.0, "camera": side_view(float(links) * float(length))}


@scene(
    "A hanging chain with one link pulled aside by a spring (Redon, Galoppo and Lin 2005, figure 6).", _stage_tethered
)
def tethered_pendulum(
    *,
    links: int = 50,
    length: float = 0.1,
    mass: float = 0.1,
    damping: float = 0.01,
    tied: int | None = None,
    stiffness: float = 20.0,
    gravity: Any = _EARTH,
) -> Model:
    """Return a hanging chain of which one link is tied to a point of the world by a spring.

    The spring "tether" runs from the middle of that link to a point beside it, half the length of the chain
    away; dampers in the hinges and along the spring bring the chain to rest.

    Args:
        links: number of links.
        length: of one link [m].
        mass: of one link [kg].
        damping: of each hinge [N m s / rad].
        tied: number of the link that is tied, from 0 at the top; None is the one two thirds down.
        stiffness: of the spring, whose length without force is zero [N/m].
        gravity: [m/s^2].
    """
    links = whole(links, "links", 1)
    link_index = (2 * links) // 3 if tied is None else whole(tied, "tied", 0)
    if link_index >= links:
        raise ModelError(f"tied must be < links = {links}, got {tied!r}")
    link = checked_link(length, mass, None, damping)
    spec = chain_spec("tethered_pendulum", links=links, gravity=gravity, spatial=False, start=np.zeros(links), **link)
    builder = Builder.from_spec(spec)
    centre = (0.0, 0.0, -link["length"] / 2)
    anchor = (0.5 * links * link["length"], 0.0, -(link_index + 0.5) * link["length"])
    builder.add_spring(
        "world",
        f"link{link_index}",
        at_a=anchor,
        at_b=centre,
        stiffness=stiffness,
        damping=0.1 * stiffness,
        name="tether",
    )
    return builder.build()


def _stage_long(*, links: int, length: float, **_: Any) -> dict[str, Any]:
    reach = float(links) * float(length)
    return {
        "method": _long_kept(),
        "dt": 2e-4,
        "seconds": 1.0,
        "camera": Camera((0.0, -1.2 * reach, -0.5 * reach), (0.0, 0.0, -0.5 * reach)),
    }


@scene(
    "A very long hanging chain, to test what must not depend on its length.", _stage_long, {"links": 60, "shapes": True}
)
def long_chain(
    *,
    links: int = 100_000,
    length: float = 1.0,
    mass: float = 1.0,
    damping: float = 0.5,
    spatial: bool = True,
    bend: float = 0.1,
    gravity: Any = _EARTH,
    shapes: bool = False,
) -> Model:
    """Return a chain of very many links, hung from the world's origin in a gentle wave.

    Args:
        links: number of links.
        length: of one link [m].
        mass: of one link [kg].
        damping: of each hinge [N m s / rad].
        spatial: hinge axes y and x in turn instead of y only.
        bend: largest angle from one link to the next at the start; the wave has a period of 40 links [rad].
        gravity: [m/s^2].
        shapes: whether the links can be drawn; the record of a shape per link doubles the memory of the
            model.
    """
    links = whole(links, "links", 1)
    start = check.number(bend, "bend") * np.cos(np.arange(links) * (2 * math.pi / 40))
    link = checked_link(length, mass, None, damping)
    return Model(
        chain_spec(
            "long_chain",
            links=links,
            gravity=gravity,
            spatial=flag(spatial, "spatial"),
            start=start,
            shapes=flag(shapes, "shapes"),
            **link,
        )
    )
