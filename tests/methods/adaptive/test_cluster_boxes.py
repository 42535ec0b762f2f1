"""Pairs of shapes found in the boxes of rigid parts are those that comparing all shapes finds."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj
from limberjack.spatial.frames import matrix_from_quaternion

MARGIN = 1e-3
_L = np.array([[0, 0, 0], [2, 0, 0], [2, 1, 0], [1, 1, 0], [1, 2, 0], [0, 2, 0]], float)
_FLAT = [(0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 5)]


def angle_mesh(size):
    """Return vertices and faces of an L of a thickness: closed and not convex."""
    vertices = np.concatenate([_L, _L + [0, 0, 1]]) * size
    faces = [(a, c, b) for a, b, c in _FLAT] + [(a + 6, b + 6, c + 6) for a, b, c in _FLAT]
    for k in range(6):
        j = (k + 1) % 6
        faces += [(k, j, j + 6), (k, j + 6, k + 6)]
    return vertices, np.array(faces)


def add_shape(builder, body, rng, planes):
    """Add a shape of a random kind to a body, where it likes."""
    turn = rng.normal(size=4)
    place = {"position": rng.uniform(-0.1, 0.1, 3), "rotation": turn / np.linalg.norm(turn)}
    group = int(rng.integers(0, 4)) // 3
    kind = int(rng.integers(0, 6 if planes else 5))
    if kind == 0:
        builder.add_shape_sphere(body, rng.uniform(0.03, 0.1), position=place["position"], group=group)
    elif kind == 1:
        builder.add_shape_capsule(body, 0.04, rng.uniform(0.05, 0.2), group=group, **place)
    elif kind == 2:
        builder.add_shape_box(body, rng.uniform(0.05, 0.2, 3), group=group, **place)
    elif kind == 3:
        builder.add_shape_cylinder(body, 0.05, rng.uniform(0.05, 0.2), group=group, **place)
    elif kind == 4:
        vertices, faces = angle_mesh(0.06)
        builder.add_shape_mesh(body, vertices=vertices, faces=faces, group=group, **place)
    else:
        builder.add_shape_plane(body, position=(0, 0, -3.0))


def tangle(rng, bodies=24):
    """Return trees of bodies bent at random, with hubs, fixed bodies, some shapes each, planes and things about."""
    builder = lj.Builder("tangle", gravity=(0.0, 0.0, -2.0))
    builder.add_shape_plane("world", position=(0, 0, -1.0))
    for _ in range(5):
        builder.add_shape_box("world", (0.3, 0.2, 0.2), position=rng.uniform(-1.0, 1.0, 3))
    names = []
    for figure in range(3):
        own = []
        for k in range(bodies // (figure + 1)):
            name = f"f{figure}b{k}"
            builder.add_body(name, mass=0.5, inertia=(0.01, 0.012, 0.009))
            for _ in range(int(rng.integers(0, 4))):
                add_shape(builder, name, rng, planes=k == 3 and figure == 0)
            place, axis = rng.uniform(-0.2, 0.2, 3), rng.normal(size=3)
            if not own and figure < 2:
                builder.add_joint_free(f"{name}j", "world", name, start=(*rng.uniform(-0.5, 0.5, 3), 1, 0, 0, 0))
            else:
                # many on the first: a hub, which the assembly tree cuts into pieces
                above = own[int(rng.integers(0, len(own)))] if own and k % 3 else (own[0] if own else "world")
                if k % 7 == 6:
                    builder.add_joint_fixed(f"{name}j", above, name, position=place)
                else:
                    builder.add_joint_hinge(
                        f"{name}j", above, name, position=place, axis=axis / np.linalg.norm(axis),
                        start=rng.uniform(-1, 1), damping=0.02,
                    )  # fmt: skip
            own.append(name)
        names += own
    builder.exclude_collision(names[0], names[-1])
    return builder.build()


def half_edges(shape, turn):
    """Return the half edges of the upright box around a shape turned so, and the radius of a sphere around it."""
    s = shape.size
    if shape.kind == "sphere":
        return np.full(3, s[0]), s[0]
    if shape.kind == "capsule":
        return s[0] + 0.5 * s[1] * np.abs(turn[:, 2]), s[0] + 0.5 * s[1]
    if shape.kind == "cylinder":
        z = np.abs(turn[:, 2])
        return s[0] * np.sqrt(np.maximum(0.0, 1.0 - z * z)) + 0.5 * s[1] * z, np.hypot(s[0], 0.5 * s[1])
    if shape.kind == "mesh":
        points = np.asarray(shape.vertices)
        half = 0.5 * np.ptp(points, axis=0)
        radius = np.linalg.norm(points - points.min(axis=0) - half, axis=1).max()
        return np.abs(turn) @ half, radius
    half = 0.5 * np.asarray(s[:3])
    return np.abs(turn) @ half, np.linalg.norm(half)


def joined_parts(model):
    """Return what each body moves with, and the pairs of those that a joint ties."""
    part = {name: f"link {i}" for name, i in zip(model.body_names, model.arrays.body_link, strict=True)}
    pairs = set()
    for name in model.joint_names:
        joint = model.joint_spec(name)
        if joint.kind not in ("free", "fixed") and "world" not in (joint.parent, joint.child):
            pairs |= {(part[joint.parent], part[joint.child]), (part[joint.child], part[joint.parent])}
    return part, pairs


def all_pairs(sim, q, cluster):
    """Return the pairs (a, b) of colliding shapes that come near each other, found by comparing all; and the doubtful.

    Args:
        sim: after one step.
        q: coordinates before it.
        cluster: (links,) cluster of each link, -1 = at rest.
    """
    model, contact_state = sim.model, sim._stepper._contact_set.state
    positions, rotations = lj.forward_kinematics(model, q)
    # links that are a rigid part by themselves are judged as links are, shapes of others by their own speeds
    alone = set(sim._stepper._contact_set.detector.bvh.top[:, 0].tolist())
    fall = sim.dt**2 * np.linalg.norm(model.gravity)
    boxes = []
    for shape in model.shapes:
        k, at, turn = -1, np.array(shape.position), matrix_from_quaternion(np.array(shape.rotation))
        if shape.kind == "mesh":
            points = np.asarray(shape.vertices)
            at = at + turn @ (0.5 * (points.min(axis=0) + points.max(axis=0)))
        if shape.body != "world":
            b = model.body_index(shape.body)
            link, frame = int(model.arrays.body_link[b]), matrix_from_quaternion(rotations[b])
            k = int(cluster[link]) if link >= 0 else -1
            at, turn = positions[b] + frame @ at, frame @ turn
        reach = 0.0
        own = shape.body != "world" and int(model.arrays.body_link[model.body_index(shape.body)]) in alone
        if shape.kind == "plane":
            boxes.append((k, at, turn[:, 2], 0.5 * MARGIN + (contact_state.reach[k] if k >= 0 else 0.0)))
            continue
        half, radius = half_edges(shape, turn)
        if k >= 0:
            reach = contact_state.reach[k]
            if not own:
                w, v = contact_state.velocities[k, :3], contact_state.velocities[k, 3:]
                moved = np.linalg.norm(v + np.cross(w, at - contact_state.pose[k, :3]))
                reach = sim.dt * (moved + np.linalg.norm(w) * radius) + fall
        boxes.append((k, at, half + 0.5 * MARGIN + reach, None))
    part, joined = joined_parts(model)
    excluded = {frozenset(pair) for pair in model.spec.excluded}
    sure, doubtful = set(), set()
    for i, (k, at, half, pad) in enumerate(boxes):
        for j in range(i):
            other, middle, edges, depth = boxes[j]
            a, b = model.shapes[i], model.shapes[j]
            if k == other or (pad is not None and depth is not None) or (a.group and a.group == b.group):
                continue
            if (part.get(a.body), part.get(b.body)) in joined or frozenset((a.body, b.body)) in excluded:
                continue
            if pad is not None:
                gap = half @ (middle - at) - np.abs(half) @ edges - pad
            elif depth is not None:
                gap = edges @ (at - middle) - np.abs(edges) @ half - depth
            else:
                gap = (np.abs(at - middle) - half - edges).max()
            pair = (i, j) if other < 0 or (k >= 0 and i < j) else (j, i)
            if abs(gap) < 1e-9:
                doubtful.add(pair)
            elif gap < 0.0:
                sure.add(pair)
    return sure, doubtful


def found_pairs(sim):
    broad = sim._stepper._contact_set.detector.broad
    return [tuple(int(k) for k in pair) for pair in broad.pairs[: int(broad.count[0])]]


def clusters_now(sim):
    """Return the cluster of each link, counted in the order of their first links."""
    report = sim.clusters(-1)
    cluster = np.full(report.link_count, -1, np.int64)
    moving = report.cluster >= 0
    cluster[report.link[moving]] = np.searchsorted(report.root, report.cluster[moving])
    return cluster


def check(sim):
    """Take a step and compare the pairs it looked at with all pairs; return their number."""
    q = sim.q.copy()
    sim.step(1)
    found = found_pairs(sim)
    sure, doubtful = all_pairs(sim, q, clusters_now(sim))
    assert len(set(found)) == len(found) and found == sorted(found)
    assert set(found) - doubtful == sure - doubtful
    return len(sure)


@pytest.mark.parametrize("seed", range(8))
def test_pairs_are_those_of_all_shapes(seed):
    """Random figures, shapes of all kinds, whatever joints are active: nothing is missed, nothing too much."""
    rng = np.random.default_rng(seed)
    model = tangle(rng)
    sim = lj.Simulation(model, lj.Adaptive(budget=int(rng.integers(0, 12)), update_every=4), dt=1e-3)
    sim.qd = rng.normal(size=model.nv)
    total = 0
    for turn in range(10):
        total += check(sim)
        sim.step(int(rng.integers(1, 6)))
        what = turn % 5
        if what == 0:
            sim.tune(budget=int(rng.integers(0, model.nv)))
        elif what == 1:
            q = sim.q.copy()
            q[-1] += 0.3  # of a joint that may rest
            sim.q = q
        elif what == 2:
            qd = sim.qd.copy()
            qd[int(rng.integers(0, model.nv))] += 3.0
            sim.qd = qd
        elif what == 3:
            other = lj.Simulation(model, sim.method, dt=1e-3)
            other.restore(sim.snapshot())
            total += check(other)
            check(sim)
            assert found_pairs(sim) == found_pairs(other) and sim.state_hash() == other.state_hash()
    assert total > 50


def test_a_snapshot_of_another_region_forgets_the_boxes():
    """Back at an earlier state, boxes are those of then: the motion is the same, bit for bit."""
    rng = np.random.default_rng(5)
    model = tangle(rng)
    sim = lj.Simulation(model, lj.Adaptive(budget=6, update_every=3), dt=1e-3)
    sim.qd = rng.normal(size=model.nv)
    sim.step(5)
    start = sim.snapshot()
    sim.step(40)
    end = sim.state_hash()
    sim.tune(budget=20)
    sim.step(30)
    sim.restore(start)
    sim.tune(budget=6)
    check(sim)
    sim.restore(start)
    sim.step(40)
    assert sim.state_hash() == end


def test_joints_that_fight_a_contact_part_it_gently():
    """Two rigid parts overlap along the axis of the hinge between them: no push can part them, and none tries."""
    builder = lj.Builder("stacked", gravity=(0.0, 0.0, 0.0))
    for k in range(3):
        builder.add_body(f"b{k}", mass=1.0, inertia=(0.01, 0.01, 0.01))
        start = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
        if k == 0:
            builder.add_joint_free("base", "world", "b0", start=start)
        else:
            # the axis leans by a hundred-thousandth
            builder.add_joint_hinge(f"j{k}", f"b{k - 1}", f"b{k}", axis=(0, 1e-5, 1), position=(0, 0.0, 0.05 * k))
    builder.add_shape_box("b0", (0.4, 0.4, 0.1), position=(0.5, 0, 0))
    builder.add_shape_box("b2", (0.4, 0.4, 0.1), position=(0.5, 0, -0.06))
    for method in (lj.Adaptive(budget=2), lj.Full()):
        sim = lj.Simulation(builder.build(), method, dt=1e-3)
        sim.step(100)
        assert len(sim.contacts()) > 0 and np.abs(sim.qd).max() < 1.0


@pytest.mark.parametrize("seed", [115, 116, 124])
def test_jammed_figures_stay_calm(seed):
    """Overlaps that no motion of the active joints can part are left as they are: nothing flies off."""
    rng = np.random.default_rng(seed)
    model = tangle(rng)
    sim = lj.Simulation(model, lj.Adaptive(budget=10), dt=1e-3)
    sim.step(60)
    assert len(sim.contacts()) > 2 and np.abs(sim.velocities).max() < 20.0
