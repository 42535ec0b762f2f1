"""Many figures: the humanoid, copied over a grid."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from limberjack.errors import ModelError
from limberjack.model import check
from limberjack.model.merging import append, placed
from limberjack.model.model import Model
from limberjack.model.spec import ORIGIN, WORLD, Joint, Shape, Spec
from limberjack.scenes.catalog import Camera, scene, whole
from limberjack.scenes.figures import figure, method_for

__all__ = ["PUSH_SECONDS", "Push", "Wave", "crowd", "crowd_spec", "graft", "grid_places", "named_figure", "stadium"]

# Largest deviation of a start angle from the rest pose [rad], and as a fraction of the distance to the limit.
_STRAY, _STRAY_SHARE = 0.3, 0.6
PUSH_SECONDS = 0.15
# Speed that the push would give a rigid figure [m/s].
_PUSH_SPEED = 2.0
_SHIRTS = (
    (0.27, 0.51, 0.66, 1.0),
    (0.75, 0.38, 0.30, 1.0),
    (0.45, 0.60, 0.40, 1.0),
    (0.80, 0.65, 0.30, 1.0),
    (0.53, 0.44, 0.63, 1.0),
    (0.85, 0.83, 0.78, 1.0),
)


def graft(into: Spec, spec: Spec, prefix: str, position: tuple[float, ...] = ORIGIN) -> None:
    """Add the records of `spec`, names with `prefix`, at a position, to `into`; without the shapes of the world."""
    own = placed(spec, prefix, position)
    own.shapes = [shape for shape in own.shapes if shape.body != WORLD]
    append(into, own)


class Push:
    """A drive that pushes bodies at their centres of mass until a time.

    It has no state of its own: whether the push acts is read from the simulation, so a run that is restored or
    resumed continues correctly.

    Args:
        bodies: names of the bodies pushed.
        force: on each, world axes [N].
        seconds: how long.
    """

    def __init__(self, bodies: tuple[str, ...], force: tuple[float, float, float], seconds: float) -> None:
        self.bodies, self.force, self.seconds = bodies, force, seconds

    def __call__(self, sim: Any) -> None:
        """Apply the push until its end, and remove it then."""
        wrenches, own = sim.forces.wrenches, self._own(sim)
        if sim.time < self.seconds and not own.any():
            for body in self.bodies:
                sim.apply_wrench(body, force=self.force)
        elif sim.time >= self.seconds and own.any():
            sim.forces.wrenches = wrenches._replace(link=wrenches.link[~own], data=wrenches.data[~own])
            sim.touch()

    def _own(self, sim: Any) -> np.ndarray:
        """Return which wrenches of `sim` act at the centre of mass of one of the bodies."""
        a, wrenches = sim.model.arrays, sim.forces.wrenches
        own = np.zeros(len(wrenches.link), bool)
        for body in self.bodies if len(own) else ():
            i = sim.model.body_index(body)
            position = a.body_offset[i, :9].reshape(3, 3) @ a.body_com[i] + a.body_offset[i, 9:]
            own |= (wrenches.link == a.body_link[i]) & (wrenches.data[:, :3] == position).all(axis=1)
        return own


def named_figure(i: int, figures: int) -> str:
    """Return the prefix of the names of figure i of `count`."""
    return f"f{i:0{max(3, len(str(figures - 1)))}d}/"


def grid_places(figures: int, spacing: float) -> np.ndarray:
    """Return (figures, 3) positions on the ground of a square grid about the origin, row after row away from -x [m]."""
    columns = math.ceil(math.sqrt(figures))
    rows, i = math.ceil(figures / columns), np.arange(figures)
    across, along = i % columns - 0.5 * (columns - 1), i // columns - 0.5 * (rows - 1)
    return spacing * np.stack([along, across, np.zeros(figures)], axis=1)


def _placed(root: Joint, shift: np.ndarray, turn: float) -> Joint:
    """Return the root joint at its position on the grid, rotated about the vertical."""
    at = np.array((root.start or ())[:3]) + shift
    return replace(root, start=(*at.tolist(), math.cos(turn / 2), 0.0, 0.0, math.sin(turn / 2)))


def _posed(joint: Joint, draw: np.ndarray) -> Joint:
    """Return a joint whose start, its motor's target, deviates from rest by `draw` in -1..1 per dof, within limits."""
    start = list(joint.start or (0.0,) * (2 if joint.kind == "universal" else 1))
    for k, limit in enumerate(joint.limits or (None,) * len(start)):
        low, high = limit or (-math.inf, math.inf)
        room = _STRAY_SHARE * (high - start[k] if draw[k] > 0 else start[k] - low)
        start[k] += float(draw[k]) * min(_STRAY, room)
    motors = joint.motor and tuple(replace(m, target=x) if m else None for m, x in zip(joint.motor, start, strict=True))
    return replace(joint, start=tuple(start), motor=motors)


def _legs(joints: list[Joint]) -> set[str]:
    """Return the names of the joints from the hips down."""
    below, out = {"left_hip", "right_hip"}, set()
    for joint in joints:
        if joint.child in below or joint.parent in below:
            below.add(joint.child)
            out.add(joint.name)
    return out


def _dressed(shape: Shape, group: int, old: Any, shirt: tuple[float, ...]) -> Shape:
    return replace(shape, group=group, color=shirt if shape.color == old else shape.color)


def crowd_spec(
    name: str, figures: Any, spacing: Any, vary: Any, seed: Any, *, contacts: bool, places: Any = None, **options: Any
) -> Spec:
    """Return the spec of a crowd.

    Args:
        name: of the model.
        figures: how many.
        spacing: between neighbours [m].
        vary: how much start poses differ, from 0 to 1.
        seed: of the poses.
        contacts: whether figures collide; their legs then stay straight.
        places: (figures, 3) where they stand [m]; a grid when None.
        options: further options of `figure`.
    """
    figures, spacing = whole(figures, "figures", 1), check.number(spacing, "spacing", positive=True)
    vary = check.number(vary, "vary", low=0.0)
    if vary > 1.0:
        raise ModelError(f"vary must be <= 1, got {vary!r}")
    rng = np.random.default_rng(whole(seed, "seed", 0))
    one = figure(name, contacts=contacts, **options).build().spec
    still = _legs(one.joints) if contacts else set()
    old = next(shape.color for shape in one.shapes if shape.body == "thorax")
    spec = Spec(name, one.gravity)
    spec.shapes += [shape for shape in one.shapes if shape.body == WORLD]
    for i, position in enumerate(grid_places(figures, spacing) if places is None else places):
        draws = vary * rng.uniform(-1.0, 1.0, (len(one.joints), 2))
        shirt = _SHIRTS[int(rng.integers(len(_SHIRTS)))]
        own = Spec("figure", one.gravity, bodies=one.bodies)
        for joint, draw in zip(one.joints, draws, strict=True):
            if joint.kind == "free":
                own.joints.append(_placed(joint, position, _STRAY * float(draw[0])))
            else:
                own.joints.append(joint if joint.name in still else _posed(joint, draw))
        own.shapes = [_dressed(shape, i + 1, old, shirt) for shape in one.shapes]
        graft(spec, own, named_figure(i, figures))
    return spec


def _stage_crowd(
    *, figures: int, spacing: float, contacts: bool, limits: str | None, mass: float, **_: Any
) -> dict[str, Any]:
    figures, spacing, mass = int(figures), float(spacing), float(mass)
    side = math.ceil(math.sqrt(figures)) * spacing
    bodies = tuple(named_figure(i, figures) + "thorax" for i in range(figures))
    return {
        "method": method_for(contacts, limits),
        "seconds": 3.0,
        "drive": Push(bodies, (mass * _PUSH_SPEED / PUSH_SECONDS, 0.0, 0.0), PUSH_SECONDS),
        "camera": Camera((-0.75 * side - 4.0, 0.0, 0.35 * side + 2.0), (0.1 * side, 0.0, 0.5)),
    }


@scene(
    "200 people of 89 bodies each, pushed away from the camera (Redon, Galoppo and Lin 2005, figure 1).", _stage_crowd
)
def crowd(
    *,
    figures: int = 200,
    spacing: float = 2.0,
    vary: float = 1.0,
    seed: int = 0,
    contacts: bool = False,
    limits: str | None = "soft",
    height: float = 1.75,
    mass: float = 75.0,
    gravity: Any = (0.0, 0.0, 0.0),
) -> Model:
    """Return many humanoids on a square grid, each standing a little differently.

    200 figures have 17,800 bodies and 19,000 degrees of freedom. All names of the first begin with "f000/", of the
    second with "f001/", and so on. Without contacts nothing supports them, so gravity is off by default: the
    motion is that of free fall in a falling frame.

    Args:
        figures: how many.
        spacing: between neighbours [m].
        vary: how much start poses differ, from 0, all alike, to 1, up to 0.3 rad per joint within its limits;
            with contacts the legs stay straight, so that all feet touch the ground.
        seed: of the poses.
        contacts: whether figures collide with the ground and each other.
        limits: of the joints: "soft", "hard" or None.
        height: of each figure [m].
        mass: of each figure [kg].
        gravity: [m/s^2].
    """
    options = {"contacts": contacts, "limits": limits, "height": height, "mass": mass, "gravity": gravity}
    return Model(crowd_spec("crowd", figures, spacing, vary, seed, **options))


# Rows of a stadium: radius of the lowest, depth and height of a row [m].
_RING, _DEPTH, _STEP = 12.0, 0.9, 0.45
_SEATED_SHARE = 0.02


def stadium_places(figures: int, spacing: float) -> np.ndarray:
    """Return (figures, 3) positions in rings about the origin, each higher and farther out than the last [m]."""
    out, row = list[np.ndarray](), 0
    while sum(map(len, out)) < figures:
        radius = _RING + row * _DEPTH
        around = max(1, int(2.0 * math.pi * radius / spacing))
        angle = 2.0 * math.pi * (np.arange(around) + 0.5 * (row % 2)) / around
        high = np.full(around, row * _STEP)
        out.append(np.stack([radius * np.cos(angle), radius * np.sin(angle), high], axis=1))
        row += 1
    return np.concatenate(out)[:figures]


class Wave:
    """A drive that lifts the hands of the people where a wave goes round the stadium.

    It has no state of its own: who is lifted is a function of the time.

    Args:
        places: (figures, 3) where they stand [m].
        bodies: names of the bodies lifted, one row per figure.
        force: on each [N].
        period: in which the wave goes round once [s].
        width: of the wave [rad].
    """

    def __init__(
        self, places: np.ndarray, bodies: list[tuple[str, ...]], force: float, period: float = 8.0, width: float = 0.3
    ) -> None:
        self._angle, self.bodies = np.arctan2(places[:, 1], places[:, 0]), bodies
        self.force, self.period, self.width = force, period, width
        self._links: tuple[Any, np.ndarray] | None = None

    def __call__(self, sim: Any) -> None:
        """Lift those whom the wave is passing now, and nobody else."""
        if self._links is None or self._links[0] is not sim.model:
            links = [[sim.model.arrays.body_link[sim.model.body_index(name)] for name in row] for row in self.bodies]
            self._links = sim.model, np.array(links, np.int64)
        away = (self._angle - 2.0 * math.pi * sim.time / self.period + math.pi) % (2.0 * math.pi) - math.pi
        link = self._links[1][np.abs(away) < 0.5 * self.width].ravel()
        old = sim.forces.wrenches
        if not np.array_equal(link, old.link):
            data = np.zeros((len(link), 9))
            data[:, 5] = self.force
            sim.forces.wrenches = old._replace(link=link, data=data)
            sim.touch()


def _stage_stadium(*, figures: int, spacing: float, mass: float, **_: Any) -> dict[str, Any]:
    from limberjack.methods import Adaptive  # brings Numba, which lists of scenes do without

    figures, mass = int(figures), float(mass)
    places = stadium_places(figures, float(spacing))
    hands = [tuple(named_figure(i, figures) + f"{side}_hand" for side in ("left", "right")) for i in range(figures)]
    wide = float(np.abs(places).max())
    return {
        "method": Adaptive(budget=max(1, round(_SEATED_SHARE * 88 * figures)), threads=2),
        "dt": 1 / 120,
        "seconds": 8.0,
        "drive": Wave(places, hands, 0.05 * mass * 9.81),
        "camera": Camera((-1.6 * wide, 0.0, 0.9 * wide), (0.0, 0.0, 0.0)),
    }


@scene("A stadium of 5,000 people, 445,000 bodies, through which a wave goes; 2 % of the joints move.", _stage_stadium)
def stadium(
    *,
    figures: int = 5000,
    spacing: float = 0.9,
    vary: float = 0.3,
    seed: int = 0,
    tone: float = 2.0,
    height: float = 1.75,
    mass: float = 75.0,
) -> Model:
    """Return people in rising rings, each held in its pose by motors; a wave lifts their hands.

    They float where they are, without gravity and contacts, as those of `crowd`.

    Args:
        figures: how many.
        spacing: between neighbours of a ring [m].
        vary: how much start poses differ, from 0 to 1.
        seed: of the poses.
        tone: natural frequency of the motors [Hz].
        height: of each figure [m].
        mass: of each figure [kg].
    """
    count, gap = whole(figures, "figures", 1), check.number(spacing, "spacing", positive=True)
    options = {"limits": "soft", "tone": tone, "height": height, "mass": mass, "gravity": (0.0, 0.0, 0.0)}
    places = stadium_places(count, gap)
    return Model(crowd_spec("stadium", count, gap, vary, seed, contacts=False, places=places, **options))
