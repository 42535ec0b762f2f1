"""The scenes of adaptive dynamics, in which a few joints are simulated at a time (Redon, Galoppo and Lin 2005).

Their models are ordinary ones; `get(name)` adds the `lj.Adaptive` method they are meant for.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from limberjack.errors import ModelError
from limberjack.model import check
from limberjack.model.builder import Builder
from limberjack.model.model import Model
from limberjack.model.spec import WORLD
from limberjack.scenes.catalog import Camera, chosen, scene, whole
from limberjack.scenes.chains import chain_spec, checked_link, side_view
from limberjack.scenes.crowds import PUSH_SECONDS, Push, crowd_spec, grid_places, named_figure
from limberjack.scenes.figures import figure

__all__ = ["adaptive_crowd", "character", "cut_in_order", "paper_pendulum", "slider_chain", "spring_pendulum"]

_EARTH, _NONE = (0.0, 0.0, -9.81), (0.0, 0.0, 0.0)
# Damping of the hinges of the long pendulum, over mass times length squared [1/s]: above twice this value an explicit
# step of 0.25 ms is unstable, at a quarter of it the whipping end of the chain diverges.
_WHIP_DAMPING = 40.0
_WHIP_DT = 2.5e-4
# Waves of the random start along the chain, and the largest tilt of the whole [rad].
_WAVES, _TILT = 5, 1.2
_EACH_JOINT = 88


def _adaptive(budget: Any, **options: Any) -> Any:
    """Return the method of these scenes.

    Imported here, when a scene is staged: a model needs no methods.
    """
    from limberjack.methods import Adaptive

    return Adaptive(budget=budget, **options)


# -- pendulums -------------------------------------------------------------------------------------


def _curve(links: int, seed: int) -> np.ndarray:
    """Return hinge angles of a hanging chain bent into a random smooth curve."""
    rng = np.random.default_rng(seed)
    along = (np.arange(links) + 0.5) / links
    sizes = rng.uniform(-1.0, 1.0, _WAVES) / np.arange(1, _WAVES + 1)
    angles = rng.uniform(-_TILT, _TILT) + sum(size * np.cos((k + 1) * math.pi * along) for k, size in enumerate(sizes))
    return np.diff(angles, prepend=0.0)


def _stage_paper(*, links: int, length: float, budget: int, **_: Any) -> dict[str, Any]:
    return {
        "method": _adaptive(whole(budget, "budget", 0)),
        "dt": _WHIP_DT,
        "seconds": 10.0,
        "camera": side_view(float(links) * float(length)),
    }


@scene(
    "A pendulum of 300 links of which 20 are simulated at a time (Redon, Galoppo and Lin 2005, figure 5 and table 1).",
    _stage_paper,
)
def paper_pendulum(
    *,
    links: int = 300,
    length: float = 1.0,
    mass: float = 1.0,
    damping: float | None = None,
    start: str = "horizontal",
    seed: int = 0,
    budget: int = 20,
    gravity: Any = _EARTH,
) -> Model:
    """Return a chain of hinged links hung from the world's origin, damped so that first-order integrators stay stable.

    It is the chain of `pendulum`, whose whip makes first-order integrators diverge, with dampers that prevent it at
    the scene's step of 0.25 ms, whatever the budget.

    Args:
        links: number of links.
        length: of one link [m].
        mass: of one link [kg].
        damping: of each hinge; None is 40 /s times mass times length squared [N m s / rad].
        start: "horizontal" along +x, or "random": bent into a smooth curve and tilted. Both at rest.
        seed: of the random start.
        budget: joints simulated at a time, by the scene's method; the model does not depend on it.
        gravity: [m/s^2].
    """
    links = whole(links, "links", 1)
    whole(budget, "budget", 0)
    link = checked_link(length, mass, None, 0.0 if damping is None else damping)
    if damping is None:
        link["damping"] = _WHIP_DAMPING * link["mass"] * link["length"] ** 2
    angles = np.zeros(links)
    if chosen(start, "start", "paper_pendulum", ("horizontal", "random")) == "horizontal":
        angles[0] = -math.pi / 2
    else:
        angles = _curve(links, whole(seed, "seed", 0))
    return Model(chain_spec("paper_pendulum", links=links, gravity=gravity, spatial=False, start=angles, **link))


def _stage_spring(*, links: int, length: float, budget: int, **_: Any) -> dict[str, Any]:
    return {
        "method": _adaptive(whole(budget, "budget", 0), integrator="implicit"),
        "seconds": 20.0,
        "camera": side_view(float(links) * float(length)),
    }


@scene(
    "A pendulum of 50 links pulled aside by a spring, with 5 joints simulated at a time (Redon, Galoppo and Lin 2005, "
    "figure 6).",
    _stage_spring,
)
def spring_pendulum(
    *,
    links: int = 50,
    length: float = 0.1,
    mass: float = 0.1,
    tied: int = 31,
    anchor: Any = (4.0, 0.0, -4.0),
    stiffness: float = 60.0,
    damping: float = 0.6,
    budget: int = 5,
    gravity: Any = _EARTH,
) -> Model:
    """Return a hanging chain of which one link is tied to a point of the world by a spring.

    Dampers in the hinges and along the spring "tether" bring it to rest within some minutes. The method has to choose
    which joints bend: at rest the chain consists of straight parts on either side of the spring.

    Args:
        links: number of links; together they are 5 m long and weigh 5 kg.
        length: of one link [m].
        mass: of one link [kg].
        tied: number of the link that is tied at its middle, from 1 at the top.
        anchor: the point it is tied to [m].
        stiffness: of the spring, whose length without force is zero [N/m].
        damping: of each hinge [N m s / rad].
        budget: joints simulated at a time, by the scene's method; the model does not depend on it.
        gravity: [m/s^2].
    """
    links, tied = whole(links, "links", 1), whole(tied, "tied", 1)
    whole(budget, "budget", 0)
    if tied > links:
        raise ModelError(f"tied must be <= links = {links}, got {tied!r}")
    link = checked_link(length, mass, None, damping)
    stiffness = check.number(stiffness, "stiffness", low=0.0)
    spec = chain_spec("spring_pendulum", links=links, gravity=gravity, spatial=False, start=np.zeros(links), **link)
    builder = Builder.from_spec(spec)
    builder.add_spring(
        WORLD,
        f"link{tied - 1}",
        at_a=check.vector(anchor, 3, "anchor"),
        at_b=(0.0, 0.0, -link["length"] / 2),
        stiffness=stiffness,
        damping=0.5 * stiffness,
        name="tether",
    )
    return builder.build()


# -- sliders ---------------------------------------------------------------------------------------

_SLIDER, _GAP = 0.2, 0.3


def cut_in_order(model: Model) -> list[str]:
    """Return the joints from the first to the last: an assembly tree cut so is as deep as it has joints."""
    return [name for name in model.joint_names if model.joint(name).kind != "free"]


def _stage_sliders(*, links: int, force: float, pushed: int, budget: int, **_: Any) -> dict[str, Any]:
    middle = 0.5 * _GAP * (int(links) - 1)
    return {
        "method": _adaptive(whole(budget, "budget", 0), tree=cut_in_order),
        "seconds": 1.0,
        "drive": Push((f"l{int(pushed)}",), (float(force), 0.0, 0.0), math.inf),
        "camera": Camera((middle, -0.5 * _GAP * (int(links) + 4), 0.5), (middle, 0.0, 0.0)),
    }


@scene(
    "Five links on slides in a row, the second pushed, with one joint simulated (Redon, Galoppo and Lin 2005, "
    "figure 4).",
    _stage_sliders,
)
def slider_chain(*, links: int = 5, mass: float = 1.0, force: float = 1.0, pushed: int = 2, budget: int = 1) -> Model:
    """Return links l1, l2, ... that float in a row along x and slide along it on the joints J1, J2, ... between them.

    With all joints active, a push on the second link accelerates it alone, by force / mass. With J1 alone active, all
    links from the second on are one body and accelerate by force / (4 mass). The scene's assembly tree is cut at J1
    first, then J2, so that a budget of one selects J1.

    Args:
        links: how many.
        mass: of one link [kg].
        force: of the scene's push, along x [N].
        pushed: number of the link that is pushed.
        budget: joints simulated at a time, by the scene's method; the model does not depend on it.
    """
    links, pushed = whole(links, "links", 2), whole(pushed, "pushed", 1)
    whole(budget, "budget", 0)
    mass = check.number(mass, "mass", positive=True)
    check.number(force, "force")
    if pushed > links:
        raise ModelError(f"pushed must be <= links = {links}, got {pushed!r}")
    builder = Builder("slider_chain", gravity=_NONE)
    colors = ((0.91, 0.45, 0.29, 1.0), (0.25, 0.49, 0.67, 1.0))
    for k in range(1, links + 1):
        name = f"l{k}"
        builder.add_body(name, mass=mass, inertia=(mass * _SLIDER**2 / 6,) * 3)
        builder.add_shape_box(name, (_SLIDER,) * 3, color=colors[k % 2], collide=False)
        if k == 1:
            builder.add_joint_free("base", WORLD, name)
        else:
            builder.add_joint_slide(f"J{k - 1}", f"l{k - 1}", name, axis=(1.0, 0.0, 0.0), position=(_GAP, 0.0, 0.0))
    return builder.build()


# -- people ----------------------------------------------------------------------------------------


def _stage_character(*, height: float, mass: float, push: float, budget: int, **_: Any) -> dict[str, Any]:
    height, force = float(height), float(mass) * float(push) / PUSH_SECONDS
    return {
        "method": _adaptive(whole(budget, "budget", 0), integrator="implicit"),
        "seconds": 2.0,
        "drive": Push(("thorax",), (force, 0.0, 0.0), PUSH_SECONDS),
        "camera": Camera((1.2 * height, -2.6 * height, 0.8 * height), (1.0 * height, 0.0, 0.5 * height)),
    }


@scene(
    "A person of 89 bodies with springs at the ends of all ranges of motion, pushed on the chest, with 20 joints "
    "simulated at a time.",
    _stage_character,
)
def character(
    *,
    height: float = 1.75,
    mass: float = 75.0,
    limit_frequency: float = 200.0,
    damping: float = 40.0,
    push: float = 2.0,
    budget: int = 20,
    gravity: Any = _NONE,
) -> Model:
    """Return the `humanoid` with PD controllers at the ends of its ranges of motion, stiff enough to withstand a push.

    They are too stiff for explicit integration; the scene's method integrates implicitly. Nothing supports the figure,
    so gravity is off by default: the motion is that of free fall in a falling frame.

    Args:
        height: of the standing figure [m].
        mass: [kg].
        limit_frequency: of a joint against its limit [Hz].
        damping: rate at which the velocity of a single joint decays [1/s].
        push: speed that the scene's push would give a rigid figure [m/s].
        budget: joints simulated at a time, by the scene's method; the model does not depend on it.
        gravity: [m/s^2].
    """
    whole(budget, "budget", 0)
    check.number(push, "push")
    options = {"height": height, "mass": mass, "limit_frequency": limit_frequency, "damping": damping}
    return figure("character", contacts=False, limits="soft", gravity=gravity, **options).build()


def _eye(figures: int, spacing: float) -> Camera:
    """Return a camera in front of the crowd, at one and a half times eye height."""
    front = float(grid_places(figures, spacing)[:, 0].min())
    return Camera((front - 5.0, 0.0, 2.6), (front + 4.0, 0.0, 1.0))


def budgets_by_distance(
    positions: np.ndarray, eye: tuple[float, float, float], most: int, least: int, near: float | None = None
) -> tuple[int, ...]:
    """Return a budget per figure: `most` for the nearest to the camera, others by their squared size in the image.

    Args:
        positions: (figures, 3) where they stand [m].
        eye: where the camera is [m].
        most: budget of the nearest figure.
        least: smallest budget of any.
        near: distance up to which a figure has the budget `most`; None is that of the nearest [m].
    """
    distances = np.linalg.norm(positions - np.array(eye), axis=1)
    near = float(distances.min()) if near is None else near
    shares = np.minimum(near / np.maximum(distances, 1e-9), 1.0)
    return tuple(np.maximum(np.rint(most * shares**2).astype(int), least).tolist())


class CrowdPush(Push):
    """A drive that pushes figures, and gives each the budget of its distance to the camera as they move.

    Budgets are set where the method has one per figure: other methods, and a budget for all, stay as they are.

    Args:
        bodies: names of the bodies pushed, one per figure.
        force: on each, world axes [N].
        seconds: how long.
        places: (figures, 3) where the figures stand at the start [m].
        eye: where the camera is [m].
        most: budget of the figure nearest to it at the start.
        least: smallest budget of any.
    """

    def __init__(
        self, bodies: tuple[str, ...], force: tuple[float, float, float], seconds: float, *,
        places: np.ndarray, eye: tuple[float, float, float], most: int, least: int,
    ) -> None:  # fmt: skip
        super().__init__(bodies, force, seconds)
        self.eye, self.most, self.least = eye, most, least
        self._near = float(np.linalg.norm(places - np.array(eye), axis=1).min())

    def __call__(self, sim: Any) -> None:
        """Apply or remove the push, and set the budgets if they have changed."""
        super().__call__(sim)
        old = getattr(sim.method, "budget", None)
        if isinstance(old, tuple) and len(old) == len(self.bodies):
            budgets = self.budgets(sim)
            if budgets != old:
                sim.tune(budget=budgets)

    def budgets(self, sim: Any) -> tuple[int, ...]:
        """Return the budgets by where the roots of the figures are above the ground now."""
        links = sim.model.arrays.links
        first = links.q_start[np.flatnonzero(links.parent < 0)]
        places = np.column_stack([sim.q[first], sim.q[first + 1], np.zeros(len(first))])
        return budgets_by_distance(places, self.eye, self.most, self.least, self._near)


def _stage_crowd(*, figures: int, spacing: float, mass: float, budget: int, least: int, **_: Any) -> dict[str, Any]:
    figures, spacing = int(figures), float(spacing)
    camera, places = _eye(figures, spacing), grid_places(figures, spacing)
    most, least = whole(budget, "budget", 0), whole(least, "least", 0)
    bodies = tuple(named_figure(i, figures) + "thorax" for i in range(figures))
    force = (float(mass) * _CROWD_PUSH / PUSH_SECONDS, 0.0, 0.0)
    return {
        "method": _adaptive(budgets_by_distance(places, camera.position, most, least), integrator="implicit"),
        "seconds": 3.0,
        "drive": CrowdPush(bodies, force, PUSH_SECONDS, places=places, eye=camera.position, most=most, least=least),
        "camera": camera,
    }


_CROWD_PUSH = 2.0  # speed that the push would give a rigid figure [m/s]


@scene(
    "200 people held in their poses by motors and pushed away from the camera, with fewer joints simulated the farther "
    "away they are (Redon, Galoppo and Lin 2005, figure 1).",
    _stage_crowd,
)
def adaptive_crowd(
    *,
    figures: int = 200,
    spacing: float = 2.0,
    vary: float = 1.0,
    seed: int = 0,
    budget: int = _EACH_JOINT,
    least: int = 2,
    tone: float = 10.0,
    limit_frequency: float = 200.0,
    height: float = 1.75,
    mass: float = 75.0,
    gravity: Any = _NONE,
) -> Model:
    """Return the people of `crowd` with a PD motor on every joint that returns it to its start.

    Motors and limits are too stiff for explicit integration; the scene's method integrates implicitly.
    The scene gives each figure its own budget: all joints for the nearest, fewer for the others, in proportion to the
    square of their size in the image. The scene's drive sets the budgets anew as the figures move.

    Args:
        figures: how many.
        spacing: between neighbours [m].
        vary: how much start poses differ, from 0, all alike, to 1, up to 0.3 rad per joint within its limits.
        seed: of the poses.
        budget: joints simulated at a time in the figure nearest to the camera; the model does not depend on it.
        least: smallest budget of a figure.
        tone: natural frequency of a motor on its joint alone, critically damped; 0 means no motors [Hz].
        limit_frequency: of a joint against its limit [Hz].
        height: of each figure [m].
        mass: of each figure [kg].
        gravity: [m/s^2].
    """
    whole(budget, "budget", 0)
    whole(least, "least", 0)
    options = {"height": height, "mass": mass, "gravity": gravity, "limit_frequency": limit_frequency}
    return Model(
        crowd_spec("adaptive_crowd", figures, spacing, vary, seed, contacts=False, limits="soft", tone=tone, **options)
    )
