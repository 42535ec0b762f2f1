"""Random models that use everything a tree can be made of."""

from __future__ import annotations

import numpy as np
from tests.naive import rotations as rot

import limberjack as lj

# Every kind that can stand between two bodies; free joints only lead from the world.
KINDS = (
    "hinge", "slide", "ball", "fixed", "universal", "cylindrical", "planar", "screw", "point_on_line", "point_on_plane",
    "compound",
)  # fmt: skip
FREEDOMS = {
    "hinge": 1, "slide": 1, "ball": 3, "free": 6, "fixed": 0, "universal": 2, "cylindrical": 2, "planar": 3, "screw": 1,
    "point_on_line": 4, "point_on_plane": 5,
}  # fmt: skip


def quaternion(rng):
    """Return a random unit quaternion."""
    q = rng.normal(size=4)
    return q / np.linalg.norm(q)


def inertia(rng, mass):
    """Return the inertia of a turned box: one that a real body can have."""
    x, y, z = rng.uniform(0.1, 0.5, 3) ** 2
    r = rot.matrix(quaternion(rng))
    full = r @ np.diag([y + z, x + z, x + y]) @ r.T * (mass / 12)
    return (full + full.T) / 2


def add_body(builder, rng, name, **options):
    """Add a random body."""
    mass = rng.uniform(0.5, 3.0)
    return builder.add_body(name, mass=mass, com=rng.uniform(-0.2, 0.2, 3), inertia=inertia(rng, mass), **options)


def frames(rng):
    """Return random frames of a joint in both bodies."""
    return {
        "position": rng.uniform(-0.4, 0.4, 3),
        "rotation": quaternion(rng),
        "position_in_child": rng.uniform(-0.4, 0.4, 3),
        "rotation_in_child": quaternion(rng),
    }


def joint_options(rng, kind, passive=True):
    """Return random options of a joint of any plain kind: axes, and dampers, springs and rotors where asked for."""
    options = frames(rng)
    if kind == "universal":
        r = rot.matrix(quaternion(rng))
        options |= {"axis": r[:, 0], "axis2": r[:, 1]}
    elif kind != "fixed":
        options["axis"] = rng.normal(size=3)
    if kind == "screw":
        options["pitch"] = rng.uniform(-0.2, 0.2)
    nv = FREEDOMS[kind]
    if passive and nv:
        ball = kind in ("ball", "point_on_line", "point_on_plane")
        options["damping"] = rng.uniform(0.0, 1.0, nv)
        options["armature"] = rng.uniform(0.0, 0.3, nv) * (rng.random() < 0.5)
        stiffness = rng.uniform(0.0, 5.0, nv)
        if ball:
            stiffness[-3:] = stiffness[-1]
        options["stiffness"] = stiffness
        options["rest"] = np.r_[rng.uniform(-0.5, 0.5, nv - 3), quaternion(rng)] if ball else rng.uniform(-0.5, 0.5, nv)
    return options


def axes(rng, name, count=None, passive=True):
    """Return the axes of a compound joint, in random directions through random points."""
    count = count or int(rng.integers(2, 5))
    on = 1.0 if passive else 0.0
    return [
        lj.Axis(
            name=f"{name}.{k}",
            kind="slide" if k and rng.random() < 0.3 else "hinge",
            axis=tuple(rng.normal(size=3)),
            position=tuple(rng.uniform(-0.2, 0.2, 3)),
            damping=on * rng.uniform(0.0, 1.0),
            stiffness=on * rng.uniform(0.0, 5.0),
            rest=rng.uniform(-0.5, 0.5),
            armature=on * rng.uniform(0.0, 0.3),
        )
        for k in range(count)
    ]


def add_joint(builder, rng, kind, name, parent, child, passive=True):
    """Add a random joint of the kind named."""
    if kind == "compound":
        builder.add_joint_compound(name, parent, child, axes(rng, name, passive=passive), **frames(rng))
    else:
        builder.add_joint(kind, name, parent, child, **joint_options(rng, kind, passive))


def random_model(rng, bodies=8, kinds=KINDS, bases=2, passive=True, gravity=None, merge_fixed=True):
    """Return a random forest: any topology, any direction of joints, any order of creation.

    Each of the `bases` parts hangs on the world by a joint, by a free joint, or floats without one. Since directions
    and order are random, many joints stand reversed in the tree.
    """
    builder = lj.Builder("random", gravity=rng.normal(size=3) * 5 if gravity is None else gravity)
    names = [f"body{i}" for i in range(bodies)]
    for name in names:
        add_body(builder, rng, name)
    edges = []
    part = [i % bases if i < bases else int(rng.integers(bases)) for i in range(bodies)]
    for base in range(bases):
        own = [name for name, p in zip(names, part, strict=True) if p == base]
        rng.shuffle(own)
        for i, name in enumerate(own[1:], 1):
            ends = [own[int(rng.integers(i))] if rng.random() < 0.5 else own[i - 1], name]
            rng.shuffle(ends)
            edges.append(ends)
        hold = rng.random()
        if own and hold < 0.8:
            edges.append(["world", own[int(rng.integers(len(own)))], "free" if hold < 0.3 else ""])
    rng.shuffle(edges)
    dealt = []
    for i, (parent, child, *kind) in enumerate(edges):
        if kind and kind[0]:
            builder.add_joint_free(f"joint{i}", parent, child)
            continue
        if not dealt:
            dealt = [kinds[k] for k in rng.permutation(len(kinds))]
        add_joint(builder, rng, dealt.pop(), f"joint{i}", parent, child, passive)
    return builder.build(merge_fixed=merge_fixed)


def random_state(rng, model, size=1.0):
    """Return random (q, qd): angles and lengths up to `size`, unit quaternions."""
    q, qd = rng.uniform(-size, size, model.nq), rng.uniform(-size, size, model.nv)
    for name in model.joint_names:
        place = model.joint(name)
        if place.nq > place.nv:
            q[place.q][-4:] = quaternion(rng)
    return q, qd
