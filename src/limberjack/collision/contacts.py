"""`Contacts`: what detection finds, one row per contact, sorted by shapes and features; `Contact`: one, for users."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["Contact", "Contacts", "new_contacts"]


class Contact(NamedTuple):
    """Two bodies that touch, as of the last step.

    Attributes:
        bodies: names; "world" for what does not move.
        shapes: names of their shapes.
        position: (3,) between the surfaces, world axes [m].
        normal: (3,) unit, out of the second body into the first.
        depth: overlap [m]; negative = a gap.
        impulse: (3,) on the first body over the last step, friction included [N s].
        force: (3,) its mean [N].
        key: the touching features; with the shapes' names it tells the same contact from step to step.
    """

    bodies: tuple[str, str]
    shapes: tuple[str, str]
    position: np.ndarray
    normal: np.ndarray
    depth: float
    impulse: np.ndarray
    force: np.ndarray
    key: int


class Contacts(NamedTuple):
    """Contacts in flat arrays of one capacity; the first `count[0]` rows hold contacts.

    Rows are sorted by (shape_a, shape_b, key). `key` names the touching features within the pair of shapes, so that
    (shape_a, shape_b, key) finds the same contact again in the next step. The side a always moves.
    """

    count: np.ndarray  # (2,) number of contacts, capacity needed (larger than the capacity: grow and repeat)
    link_a: np.ndarray  # (n,)
    link_b: np.ndarray  # (n,) -1 = static
    shape_a: np.ndarray  # (n,)
    shape_b: np.ndarray  # (n,)
    key: np.ndarray  # (n,)
    point: np.ndarray  # (n, 3) world, midway between the two surfaces
    normal: np.ndarray  # (n, 3) world, unit, out of b into a
    depth: np.ndarray  # (n,) positive: overlap; negative: gap
    friction: np.ndarray  # (n,) sqrt(mu_a mu_b)
    restitution: np.ndarray  # (n,) max(e_a, e_b)


def new_contacts(capacity: int) -> Contacts:
    """Return room for `capacity` contacts, holding none."""
    whole = [np.zeros(2, np.int64), *(np.zeros(capacity, np.int64) for _ in range(5))]
    real = [np.zeros((capacity, 3)), np.zeros((capacity, 3)), *(np.zeros(capacity) for _ in range(3))]
    return Contacts(*whole, *real)
