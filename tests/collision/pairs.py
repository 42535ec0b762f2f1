"""Two shapes, placed and compared: what the tests of pairs share."""

from __future__ import annotations

import numpy as np

import limberjack as lj
from limberjack.collision.detect import find_contacts, new_detector
from limberjack.spatial.frames import matrix_from_quaternion

SOLIDS = ("sphere", "capsule", "box", "cylinder")


def add(builder, body, kind, size, **options):
    """Add a shape of any kind."""
    arguments = {"sphere": size[:1], "box": [size], "capsule": size[:2], "cylinder": size[:2], "plane": []}[kind]
    getattr(builder, f"add_shape_{kind}")(body, *arguments, **options)


def two(kind_a, size_a, kind_b, size_b):
    """Return the detector of two free bodies with one shape each."""
    builder = lj.Builder("two")
    for name, kind, size in (("a", kind_a, size_a), ("b", kind_b, size_b)):
        builder.add_body(name, mass=1.0, inertia=(1.0, 1.0, 1.0))
        add(builder, name, kind, size)
    return new_detector(builder.build())


def rotation(rng):
    """Return a random unit quaternion."""
    q = rng.normal(size=4)
    return q / np.linalg.norm(q)


def found(detector, pose, margin=0.0, reach=None):
    """Return the contacts as a dict of arrays cut to their number."""
    reach = np.zeros(len(pose)) if reach is None else reach
    contacts = find_contacts(detector, pose, reach, margin).contacts
    n = contacts.count[0]
    return {name: value[:n].copy() for name, value in contacts._asdict().items() if name != "count"}


def placed(kind, size, pose):
    """Return (kind, size, rotation, position) as `tests.naive.separation` takes shapes."""
    return kind, size, matrix_from_quaternion(pose[3:]), pose[:3]
