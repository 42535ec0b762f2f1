"""`CollisionQuery`: the contacts of a model's shapes at given poses, without a simulation."""

from __future__ import annotations

from typing import Any

import numpy as np

from limberjack.collision.detect import find_contacts, new_detector
from limberjack.errors import StateError
from limberjack.model.model import Model
from limberjack.spatial.frames import compose, invert, matrix_from_quaternion, quaternion_from_matrix

__all__ = ["CollisionQuery"]


class CollisionQuery:
    """Finds which shapes of a model are in contact at given poses of its bodies.

    Args:
        model: the model; its collision filters hold.
        margin: gap up to which shapes are reported [m].

    Attributes:
        pair_count: pairs of shapes near enough to be looked at in the last call.
        bodies: (n, 2) indices of the two bodies of each contact; -1 = world.
        points: (n, 3) between the two surfaces, world axes [m].
        normals: (n, 3) unit, out of the second body into the first, world axes.
        depths: (n,) overlap [m]; negative = a gap.
    """

    def __init__(self, model: Model, *, margin: float = 0.0) -> None:
        if not (isinstance(margin, (int, float)) and 0.0 <= margin < np.inf):
            raise StateError(f"margin must be a number >= 0, got {margin!r}")
        self._margin, self._count = float(margin), model.body_count
        self._detector = new_detector(model)
        link = model.arrays.body_link
        # one body of each link: the link's pose follows from it
        _, self._body = np.unique(link[link >= 0], return_index=True)
        self._body = np.flatnonzero(link >= 0)[self._body]
        offset = model.arrays.body_offset[self._body]
        self._back = invert(offset[:, :9].reshape(-1, 3, 3), offset[:, 9:])
        self._plain = bool((self._back[0] == np.eye(3)).all() and not self._back[1].any())
        self._reach = np.zeros(len(self._body))
        self._take()

    def find(self, positions: Any, rotations: Any) -> int:
        """Find all contacts and return how many there are.

        Args:
            positions: (body_count, 3) of the body frames, as `sim.positions` and `lj.forward_kinematics` give them [m].
            rotations: (body_count, 4) unit quaternions, body to world.
        """
        positions, rotations = np.asarray(positions, float), np.asarray(rotations, float)
        if positions.shape != (self._count, 3) or rotations.shape != (self._count, 4):
            raise StateError(
                f"poses of {self._count} bodies are needed, positions (n, 3) and rotations (n, 4), got "
                f"{positions.shape} and {rotations.shape}"
            )
        p, q = positions[self._body], rotations[self._body]
        if not self._plain:
            r, p = compose(matrix_from_quaternion(q), p, *self._back)
            q = quaternion_from_matrix(r)
        self._detector = find_contacts(self._detector, np.hstack([p, q]), self._reach, self._margin)
        self._take()
        return len(self.depths)

    def _take(self) -> None:
        found, body = self._detector.contacts, self._detector.shapes.body
        n = int(found.count[0])
        self.pair_count = int(self._detector.broad.count[0])
        self.bodies = np.stack([body[found.shape_a[:n]], body[found.shape_b[:n]]], axis=1)
        self.points, self.normals, self.depths = found.point[:n].copy(), found.normal[:n].copy(), found.depth[:n].copy()
