"""Warm-start cache: impulses of the last step, matched to the contacts of this one by shapes and features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from limberjack._jit import outlined

__all__ = ["WarmStart", "match_contacts", "new_warm_start", "store_matched"]


class WarmStart(NamedTuple):
    """Impulses or forces of the last step, sorted by the keys of their contacts; room for c."""

    count: np.ndarray  # (1,)
    name: np.ndarray  # (c, 3) shapes and key
    impulse: np.ndarray  # (c, 4 or 7) along the normal, the vector across it, and the torque of rolling friction
    found: np.ndarray  # (c, 4 or 7) the same for the contacts of this step


def new_warm_start(capacity: int, rolling: bool = False) -> WarmStart:
    """Return room for the impulses of `capacity` contacts, with `rolling` their torques, too."""
    shape = capacity, 7 if rolling else 4
    return WarmStart(np.zeros(1, np.int64), np.zeros((capacity, 3), np.int64), np.zeros(shape), np.zeros(shape))


@outlined
def match_contacts(contacts, cache):
    """Fill `found` with the cached impulse of each contact, 0 where the contact is new; both lists are sorted."""
    old, last = 0, cache.count[0]
    for k in range(contacts.count[0]):
        a, b, key = contacts.shape_a[k], contacts.shape_b[k], contacts.key[k]
        for c in range(cache.found.shape[1]):
            cache.found[k, c] = 0.0
        while old < last:
            d, e, f = cache.name[old, 0] - a, cache.name[old, 1] - b, cache.name[old, 2] - key
            if d > 0 or (d == 0 and (e > 0 or (e == 0 and f > 0))):
                break
            if d == 0 and e == 0 and f == 0:
                for c in range(cache.found.shape[1]):
                    cache.found[k, c] = cache.impulse[old, c]
                old += 1
                break
            old += 1


@outlined
def store_matched(contacts, cache):
    """Store the impulses in `found` under the keys of the contacts of this step."""
    for k in range(contacts.count[0]):
        cache.name[k, 0], cache.name[k, 1], cache.name[k, 2] = contacts.shape_a[k], contacts.shape_b[k], contacts.key[k]
        for c in range(cache.found.shape[1]):
            cache.impulse[k, c] = cache.found[k, c]
    cache.count[0] = contacts.count[0]
