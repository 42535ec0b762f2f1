"""Mass: from shapes by closed forms, and bodies with little or none of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.naive.models import quaternion
from tests.naive.rotations import matrix

import limberjack as lj

CUBE = np.array([(x, y, z) for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
CUBE_FACES = [
    (0, 1, 3), (0, 3, 2), (4, 6, 7), (4, 7, 5), (0, 4, 5), (0, 5, 1), (2, 3, 7), (2, 7, 6), (0, 2, 6), (0, 6, 4),
    (1, 5, 7), (1, 7, 3),
]  # fmt: skip


def body(*shapes, mass=None, com=(0, 0, 0)):
    """Return the body made of shapes, each (kind, arguments, options)."""
    builder = lj.Builder()
    builder.add_body("a", mass=mass, com=com)
    for kind, arguments, options in shapes:
        getattr(builder, f"add_shape_{kind}")("a", *arguments, **options)
    return builder.build().body("a")


def sampled(inside, low, high, rng, count=400_000):
    """Return (volume, centroid, inertia per density) of a solid by stratified sampling of a box around it."""
    points = rng.uniform(low, high, (count, 3))
    kept = points[inside(points)]
    volume = np.prod(np.subtract(high, low)) * len(kept) / count
    c = kept.mean(axis=0)
    second = (kept - c).T @ (kept - c) / len(kept) * volume
    return volume, c, np.trace(second) * np.eye(3) - second


CLOSED = {
    "sphere": ((0.3,), 4 / 3 * math.pi * 0.027, lambda m: np.eye(3) * 0.4 * m * 0.09),
    "box": (((0.2, 0.4, 0.6),), 0.048, lambda m: np.diag([0.52, 0.40, 0.20]) * m / 12),
    "cylinder": (
        (0.3, 0.8), math.pi * 0.09 * 0.8,
        lambda m: np.diag([m * (3 * 0.09 + 0.64) / 12] * 2 + [m * 0.09 / 2]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", CLOSED)
def test_closed_forms(kind):
    """Mass and inertia of spheres, boxes and cylinders of water are the textbook's."""
    size, volume, inertia = CLOSED[kind]
    found = body((kind, size, {}))
    assert found.mass == pytest.approx(1000 * volume, rel=1e-14)
    assert np.allclose(found.com, 0) and np.allclose(found.inertia, inertia(found.mass), rtol=1e-13, atol=1e-13)


def test_capsule_is_a_cylinder_and_two_halves_of_a_sphere(rng):
    """A capsule without length is a sphere; with it, sampling finds the same mass and inertia."""
    ball, point = body(("sphere", (0.3,), {})), body(("capsule", (0.3, 0), {}))
    assert point.mass == pytest.approx(ball.mass, rel=1e-14) and np.allclose(point.inertia, ball.inertia, rtol=1e-13)
    r, h = 0.3, 0.8
    found = body(("capsule", (r, h), {"density": 1.0}))

    def inside(p):
        return np.hypot(np.hypot(p[:, 0], p[:, 1]), np.maximum(np.abs(p[:, 2]) - h / 2, 0)) < r

    volume, _, inertia = sampled(inside, (-r, -r, -h / 2 - r), (r, r, h / 2 + r), rng)
    assert found.mass == pytest.approx(volume, rel=5e-3)
    assert np.abs(found.inertia - inertia).max() < 1e-2 * inertia.max()


def test_a_mesh_is_the_solid_it_bounds():
    """The mesh of a cube, moved, scaled and turned inside out alike, is the box."""
    for shift in ((0, 0, 0), (3, -2, 1)):
        for faces in (CUBE_FACES, [face[::-1] for face in CUBE_FACES]):
            found = body(("mesh", (), {"vertices": CUBE + shift, "faces": faces, "scale": 0.5}))
            wanted = body(("box", ((0.5, 0.5, 0.5),), {"position": np.multiply(shift, 0.5)}))
            assert found.mass == pytest.approx(wanted.mass, rel=1e-12)
            assert np.allclose(found.com, wanted.com, atol=1e-13)
            assert np.allclose(found.inertia, wanted.inertia, rtol=1e-9, atol=1e-10)


def test_a_tetrahedron():
    """The corner tetrahedron has volume 1/6, its centroid at 1/4 and the known second moments."""
    found = body(("mesh", (), {"vertices": [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)],
                               "faces": [(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)], "density": 6.0}))  # fmt: skip
    assert found.mass == pytest.approx(1.0) and np.allclose(found.com, 0.25)
    square, product = 1 / 10 - 1 / 16, 1 / 20 - 1 / 16
    assert np.allclose(found.inertia, np.eye(3) * 2 * square - (np.ones((3, 3)) - np.eye(3)) * product, atol=1e-14)


def test_several_shapes_add_up(rng):
    """Shapes anywhere on a body add as solids do: masses, weighted coms, and Steiner's rule for the rest."""
    parts = []
    for kind, size in (("sphere", (0.2,)), ("box", ((0.1, 0.3, 0.2),)), ("cylinder", (0.1, 0.5))):
        parts.append(
            (
                kind,
                size,
                {"position": rng.normal(size=3), "rotation": quaternion(rng), "density": rng.uniform(100, 900)},
            )
        )
    found = body(*parts)
    alone = [body((kind, size, {"density": o["density"]})) for kind, size, o in parts]
    mass = sum(one.mass for one in alone)
    com = sum(one.mass * o["position"] for one, (_, _, o) in zip(alone, parts, strict=True)) / mass
    inertia = np.zeros((3, 3))
    for one, (_, _, o) in zip(alone, parts, strict=True):
        r, d = matrix(o["rotation"]), o["position"] - com
        inertia += r @ one.inertia @ r.T + one.mass * (d @ d * np.eye(3) - np.outer(d, d))
    assert found.mass == pytest.approx(mass) and np.allclose(found.com, com)
    assert np.allclose(found.inertia, inertia, rtol=1e-12, atol=1e-10)


def test_given_masses_stand():
    """A given mass scales the shapes' inertia, a given inertia stands as it is, and planes weigh nothing."""
    scaled = body(("sphere", (0.3,), {}), mass=2.0)
    assert scaled.mass == 2.0 and np.allclose(scaled.inertia, np.eye(3) * 0.4 * 2 * 0.09)
    builder = lj.Builder()
    builder.add_body("a", mass=2.0, inertia=(1, 1, 1), com=(1, 2, 3))
    builder.add_shape_sphere("a", 5.0)
    builder.add_shape_plane("a")
    found = builder.build().body("a")
    assert found.mass == 2.0 and (found.inertia == np.eye(3)).all() and found.com.tolist() == [1, 2, 3]


def test_shapes_that_do_not_collide_still_weigh():
    """collide=False changes contacts, not mass; density 0 takes the mass away."""
    assert body(("sphere", (0.3,), {"collide": False})).mass == body(("sphere", (0.3,), {})).mass
    assert body(("sphere", (0.3,), {}), ("box", ((1, 1, 1),), {"density": 0})).mass == body(("sphere", (0.3,), {})).mass


def hinged(*chain):
    """Return a builder with bodies one below the other, each (body options, joint kind, joint options)."""
    builder = lj.Builder()
    above = "world"
    for k, (options, kind, joint) in enumerate(chain):
        builder.add_body(f"b{k}", **options)
        builder.add_joint(kind, f"j{k}", above, f"b{k}", **joint)
        above = f"b{k}"
    return builder


X, Y, Z = {"axis": (1, 0, 0)}, {"axis": (0, 1, 0)}, {"axis": (0, 0, 1)}
BOB = {"mass": 1.0, "com": (0, 0, -1)}
FULL = {"mass": 1.0, "com": (0, 0, -1), "inertia": (0.1, 0.1, 0.1)}


@pytest.mark.parametrize(
    "chain",
    [
        [(BOB, "hinge", X)],
        [({}, "hinge", X), (BOB, "hinge", Y)],
        [({}, "hinge", X), ({}, "hinge", Y), (FULL, "hinge", Z)],
        [({"mass": 1.0}, "slide", X)],
        [({}, "slide", X), ({}, "slide", Y), ({"mass": 1.0}, "slide", Z)],
        [({}, "fixed", {}), (BOB, "hinge", X)],
        [(FULL, "hinge", X), ({}, "fixed", {})],
        [({}, "hinge", X), (FULL, "fixed", {})],
        [({}, "hinge", {**X, "armature": 0.1})],
        [({}, "ball", {"armature": 0.1})],
        [({}, "planar", {}), (FULL, "hinge", X)],
        [({"mass": 1.0, "com": (0, 0, -1), "inertia": (0.1, 0.1, 0)}, "universal", {})],
    ],
)
@pytest.mark.parametrize("merge", [True, False])
def test_massless_carriers_and_point_masses_are_taken(chain, merge):
    """Any model whose joint-space inertia is positive builds, and moves."""
    model = hinged(*chain).build(merge_fixed=merge)
    q = model.q0 + (0.3 if model.nq == model.nv else 0.0)
    assert np.isfinite(lj.forward_dynamics(model, q, model.qd0 + 0.1)).all()
    assert np.linalg.eigvalsh(lj.mass_matrix(model, q))[0] > 0


@pytest.mark.parametrize(
    ("chain", "joint"),
    [
        ([({}, "hinge", X)], "j0"),
        ([(FULL, "hinge", X), ({}, "hinge", Y)], "j1"),
        ([({"mass": 1.0}, "hinge", X)], "j0"),
        ([({"mass": 1.0, "com": (1, 0, 0)}, "hinge", X)], "j0"),
        ([(BOB, "ball", {})], "j0"),
        ([({}, "slide", X)], "j0"),
        ([({}, "hinge", X), ({"mass": 1.0}, "hinge", Y)], "j1"),
        ([(FULL, "hinge", X), ({"mass": 0.0}, "fixed", {}), ({}, "slide", Z)], "j2"),
        ([({}, "hinge", X), (BOB, "hinge", X), (BOB, "hinge", Y)], "j0"),
        ([({}, "planar", {}), (FULL, "ball", {})], "j0"),
        ([({"mass": 1.0}, "free", {})], "j0"),
        ([({"mass": 1.0, "com": (0, 0, -1), "inertia": (0.1, 0.1, 0)}, "ball", {})], "j0"),
        ([({}, "hinge", X), ({}, "hinge", X), (FULL, "fixed", {})], "j0"),
    ],
)
def test_joints_without_inertia_are_refused(chain, joint):
    """A joint that moves no mass, or only what other joints move as well, is refused and named with its body."""
    with pytest.raises(lj.ModelError, match=f'joint "{joint}" has no inertia to act on: body "b{joint[1]}"'):
        hinged(*chain).build()


def test_a_singular_start_is_no_reason_to_refuse():
    """A point mass that lies on a joint's axis at the start, and leaves it with the pose, is taken."""
    model = hinged(({}, "hinge", X), ({"mass": 1.0, "com": (1, 0, 0)}, "hinge", Y)).build()
    assert np.isfinite(lj.forward_dynamics(model, [0.0, 0.5], [0.0, 0.0])).all()


def test_a_body_without_anything_is_named():
    """A floating body without mass or shapes is refused by its name, since nothing says how it would move."""
    builder = lj.Builder()
    builder.add_body("ghost")
    with pytest.raises(lj.ModelError, match='"ghost"'):
        builder.build()
