"""Fields of many small figures in the wind: ropes that hang from above, and trees with elastic branches."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from limberjack.model import check
from limberjack.model.builder import Builder
from limberjack.model.model import Model
from limberjack.model.spec import WORLD, Spec
from limberjack.scenes.catalog import Camera, scene, whole
from limberjack.scenes.crowds import graft, grid_places, named_figure

__all__ = ["Wind", "forest", "rope_field"]

_ROPE, _WOOD, _LEAF = (0.85, 0.72, 0.45, 1.0), (0.45, 0.33, 0.22, 1.0), (0.33, 0.52, 0.30, 1.0)
_LINK, _ROPE_MASS, _ROPE_DAMPING = 0.04, 0.01, 2e-5
# A tree: levels of branches, two from each; length and radius of the trunk and the factor from level to level [m].
_LEVELS, _TRUNK, _RADIUS, _FACTOR, _DENSITY = 4, 1.6, 0.08, 0.72, 600.0
_SPREAD = 0.5  # angle of a branch to the one it grows from [rad]
_SHARE = 0.2


class Wind:
    """A drive that pushes bodies at their centres of mass along x, in gusts that travel over the field.

    It has no state of its own: the force at a place is a function of the time.

    Args:
        bodies: how the names of the bodies pushed end.
        force: largest, on each [N].
        period: of the gusts [s].
        speed: at which they travel [m/s].
    """

    def __init__(self, bodies: str, force: float, period: float = 2.0, speed: float = 5.0) -> None:
        self.bodies, self.force, self.period, self.speed = bodies, force, period, speed
        self._known: tuple[Any, np.ndarray, np.ndarray, np.ndarray] | None = None

    def __call__(self, sim: Any) -> None:
        """Set the wrenches of this time; those of anything else on the same bodies are replaced."""
        if self._known is None or self._known[0] is not sim.model:
            self._known = self._found(sim.model)
        _, link, data, x = self._known
        gust = np.sin(2.0 * math.pi / self.period * (sim.time - x / self.speed))
        data = data.copy()
        data[:, 3] = self.force * np.maximum(gust, 0.0) ** 2
        others = ~np.isin(sim.forces.wrenches.link, link)
        old = sim.forces.wrenches
        sim.forces.wrenches = old._replace(
            link=np.concatenate([old.link[others], link]), data=np.concatenate([old.data[others], data])
        )
        sim.touch()

    def _found(self, model: Model) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
        """Return links, points of the wrenches, and where along x the figures stand."""
        a = model.arrays
        b = np.array([i for i, name in enumerate(model.body_names) if name.endswith(self.bodies)], np.int64)
        data = np.zeros((len(b), 9))
        offset = a.body_offset[b]
        data[:, :3] = np.einsum("kij,kj->ki", offset[:, :9].reshape(-1, 3, 3), a.body_com[b]) + offset[:, 9:]
        root = a.body_link[b].copy()
        while (a.links.parent[root] >= 0).any():
            root = np.where(a.links.parent[root] >= 0, a.links.parent[root], root)
        return model, a.body_link[b].astype(np.int64), data, a.links.placement[root, 9]


def _planted(one: Spec, name: str, count: int, spacing: float) -> Model:
    """Return copies of a figure that hangs from or stands on the world, over a grid."""
    spec = Spec(name, one.gravity)
    for i, position in enumerate(grid_places(count, spacing)):
        graft(spec, one, named_figure(i, count), tuple(position.tolist()))
    return Model(spec)


def _stage_ropes(*, ropes: int, links: int, spacing: float, **_: Any) -> dict[str, Any]:
    side, long = math.ceil(math.sqrt(int(ropes))) * float(spacing), int(links) * _LINK
    return {
        "dt": 1 / 120,
        "seconds": 4.0,
        "drive": Wind(f"link{int(links) - 1}", 2.0 * _ROPE_MASS * 9.81),
        "camera": Camera((-0.9 * side - 2.0, -0.7 * side - 2.0, 0.3 * long), (0.0, 0.0, -0.5 * long)),
    }


@scene("A field of 1,000 ropes of 50 links each hangs in the wind.", _stage_ropes)
def rope_field(*, ropes: int = 1000, links: int = 50, spacing: float = 0.3, gravity: Any = (0.0, 0.0, -9.81)) -> Model:
    """Return ropes that hang from a grid: links on hinges about x and y in turn, which make a rope bend any way.

    Args:
        ropes: how many.
        links: of each; the last one is pushed by the wind.
        spacing: between neighbours [m].
        gravity: [m/s^2].
    """
    ropes, links = whole(ropes, "ropes", 1), whole(links, "links", 1)
    spacing = check.number(spacing, "spacing", positive=True)
    b = Builder("rope", gravity=gravity)
    across, along = _ROPE_MASS * _LINK**2 / 12.0, 0.5 * _ROPE_MASS * 0.01**2
    for i in range(links):
        b.add_body(f"link{i}", mass=_ROPE_MASS, com=(0, 0, -_LINK / 2), inertia=(across, across, along))
        b.add_joint_hinge(
            f"hinge{i}", f"link{i - 1}" if i else WORLD, f"link{i}", axis=(1, 0, 0) if i % 2 else (0, 1, 0),
            position=(0, 0, -_LINK) if i else (0, 0, 0), damping=_ROPE_DAMPING,
        )  # fmt: skip
        b.add_shape_capsule(f"link{i}", 0.01, _LINK, position=(0, 0, -_LINK / 2), color=_ROPE, collide=False)
    return _planted(b.build().spec, "rope_field", ropes, spacing)


def _stage_forest(*, trees: int, spacing: float, **_: Any) -> dict[str, Any]:
    from limberjack.methods import Adaptive  # brings Numba, which lists of scenes do without

    side = math.ceil(math.sqrt(int(trees))) * float(spacing)
    joints = int(trees) * (2**_LEVELS - 1)
    return {
        "method": Adaptive(budget=max(1, round(_SHARE * joints))),
        "dt": 1 / 120,
        "seconds": 5.0,
        "drive": Wind("leaf", 30.0, 4.0),
        "camera": Camera((-0.6 * side - 6.0, -0.5 * side - 4.0, 0.2 * side + 4.0), (0.0, 0.0, 1.5)),
    }


@scene("A forest of 200 trees of 15 elastic branches each sways in the wind.", _stage_forest)
def forest(
    *, trees: int = 200, spacing: float = 3.0, stiffness: float = 1.0, gravity: Any = (0.0, 0.0, -9.81)
) -> Model:
    """Return trees of binary branches on universal joints with springs and dampers.

    Args:
        trees: how many.
        spacing: between neighbours [m].
        stiffness: of the joints, as a multiple of that of wood so thin.
        gravity: [m/s^2].
    """
    trees, spacing = whole(trees, "trees", 1), check.number(spacing, "spacing", positive=True)
    stiffness = check.number(stiffness, "stiffness", positive=True)
    b = Builder("tree", gravity=gravity)
    for i in range(2**_LEVELS - 1):
        level = (i + 1).bit_length() - 1
        length, radius = _TRUNK * _FACTOR**level, _RADIUS * _FACTOR**level
        mass = _DENSITY * math.pi * radius**2 * length
        last = level == _LEVELS - 1
        name = f"branch{i}_leaf" if last else f"branch{i}"
        # a bending rod: E I / L, with E of green wood
        bend = stiffness * 8e9 * math.pi * radius**4 / 4.0 / length
        across = mass * (length**2 / 12.0 + radius**2 / 4.0)
        b.add_body(name, mass=mass, com=(0, 0, length / 2), inertia=(across, across, 0.5 * mass * radius**2))
        parent, position, turn = WORLD, (0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0)
        if i:
            parent, position = f"branch{(i - 1) // 2}", (0.0, 0.0, _TRUNK * _FACTOR ** (level - 1))
            half = 0.5 * _SPREAD * (1.0 if i % 2 else -1.0)
            turn = (
                (math.cos(half), math.sin(half), 0.0, 0.0) if level % 2 else (math.cos(half), 0.0, math.sin(half), 0.0)
            )
        b.add_joint_universal(
            f"joint{i}", parent, name, position=position, rotation=turn, axis=(1, 0, 0), axis2=(0, 1, 0),
            stiffness=bend, damping=0.02 * bend,
        )  # fmt: skip
        b.add_shape_capsule(
            name, radius, length, position=(0, 0, length / 2), color=_LEAF if last else _WOOD, collide=False
        )
    return _planted(b.build().spec, "forest", trees, spacing)
