"""Bodies in maximal coordinates: masses, forces of inertia and rows of every kind against clouds of points."""

from __future__ import annotations

import numpy as np
import pytest
from tests.constraints.wrapped import evaluate, moved
from tests.naive import moving
from tests.naive import rotations as rot
from tests.naive.models import quaternion
from tests.naive.saddle import dense_mass, dense_rows

import limberjack as lj
from limberjack.maximal.bodies import AFFINE, PARTICLE, PLANAR, POSE, SCALABLE, SCALABLE_AXES
from limberjack.maximal.rows import new_maximal

KINDS = ("rigid", "planar", "particle", "scalable", "scalable_axes", "affine")


class Cloud:
    """Point masses whose com is the origin, and a body of each kind made of them."""

    def __init__(self, rng, kind, count=8):
        self.kind = kind
        self.m = rng.uniform(0.1, 1.0, count)
        p = rng.uniform(-0.5, 0.5, (count, 3))
        if kind == "planar":
            p[:, 2] = 0.0
        if kind == "particle":
            p[:] = 0.0
        self.p = p - self.m @ p / self.m.sum()

    def add(self, builder, rng, name, **more):
        """Add the body to a builder, its com off its frame."""
        mass = self.m.sum()
        q = np.einsum("k,ki,kj->ij", self.m, self.p, self.p)
        inertia = np.trace(q) * np.eye(3) - q
        self.com = rng.uniform(-0.3, 0.3, 3)
        if self.kind == "planar":
            self.com[2] = 0.0
            builder.add_body_planar(name, mass=mass, inertia=inertia[2, 2], com=self.com[:2])
        elif self.kind == "particle":
            self.com = np.zeros(3)
            builder.add_particle(name, mass=mass)
        elif self.kind == "rigid":
            builder.add_body(name, mass=mass, inertia=inertia, com=self.com)
        elif self.kind == "affine":
            builder.add_body_affine(name, mass=mass, inertia=inertia, com=self.com, **more)
        else:
            each = self.kind == "scalable_axes"
            builder.add_body_scalable(name, mass=mass, inertia=inertia, com=self.com, per_axis=each, **more)


def points(kind, pose, p):
    """Return where points p, from the com in body axes, of a body in `pose` stand: the definition of each kind."""
    x, turn, shape = pose[:3], rot.matrix(pose[3:7]), pose[7:16]
    if kind == "affine":
        return x + p @ shape.reshape(3, 3).T
    scale = {"scalable": np.full(3, shape[0]), "scalable_axes": shape[:3]}.get(kind, np.ones(3))
    return x + (p * scale) @ turn.T


def travelled(kind, pose, u, du, t):
    """Return the pose after time t on a path with velocity u and acceleration du at time 0."""
    s = u * t + 0.5 * du * t * t
    w, v, rest = np.zeros(3), np.zeros(3), np.zeros(0)
    if kind == "planar":
        v[:2], w[2] = s[:2], s[2]
    elif kind in ("particle", "affine"):
        v, rest = s[:3], s[3:]
    else:
        w, v, rest = s[:3], s[3:6], s[6:]
    out = pose.copy()
    out[:3] += v
    turn = rot.from_vector(w)
    angle = np.linalg.norm(w)
    half = np.r_[np.cos(angle / 2), np.sin(angle / 2) * w / angle] if angle else np.array([1.0, 0, 0, 0])
    out[3:7] = rot.multiply(half, pose[3:7])
    assert np.allclose(rot.matrix(out[3:7]), turn @ rot.matrix(pose[3:7]))
    out[7 : 7 + len(rest)] += rest
    return out


def random_pose(rng, kind):
    """Return a random pose of a body."""
    pose = np.zeros(POSE)
    pose[:3], pose[3:7] = rng.uniform(-1, 1, 3), quaternion(rng)
    if kind in ("particle", "affine"):
        pose[3:7] = (1, 0, 0, 0)
    if kind == "planar":
        half = rng.uniform(-3, 3)
        pose[2], pose[3:7] = 0.0, (np.cos(half), 0, 0, np.sin(half))
    if kind == "scalable":
        pose[7] = rng.uniform(0.5, 2)
    elif kind == "scalable_axes":
        pose[7:10] = rng.uniform(0.5, 2, 3)
    elif kind == "affine":
        pose[7:16] = (np.eye(3) + rng.uniform(-0.3, 0.3, (3, 3))).ravel()
    return pose


def one_body(rng, kind, **more):
    """Return a cloud and the model of it alone in maximal coordinates."""
    cloud, builder = Cloud(rng, kind), lj.Builder()
    cloud.add(builder, rng, "body", **more)
    return cloud, new_maximal(builder.build(), frozenset())


@pytest.mark.parametrize("kind", KINDS)
def test_mass_and_inertia_are_those_of_points(rng, kind):
    """For any u and u', M u' less the force of inertia is the points' acceleration against each freedom; M is SPD."""
    for _ in range(3):
        cloud, whole = one_body(rng, kind)
        n = int(whole.bodies.start[-1])
        pose, u, du = random_pose(rng, kind), rng.normal(size=n), rng.normal(size=n)
        e, f, _ = evaluate(whole, pose[None], u)
        mass = dense_mass(whole.system, e.m)

        def at(t, u=u, du=du, pose=pose, cloud=cloud):
            return points(kind, travelled(kind, pose, u, du, t), cloud.p)

        columns = [moving.rate(lambda t, way=way: at(t, way, 0.0 * way)) for way in np.eye(n)]
        J = np.array(columns).reshape(n, -1)
        weights = np.repeat(cloud.m, 3)
        kinetic = 0.5 * weights @ (moving.rate(at).ravel() ** 2)
        assert 0.5 * u @ mass @ u == pytest.approx(kinetic, rel=1e-9)
        np.testing.assert_allclose(mass, (J * weights) @ J.T, atol=1e-9)
        np.testing.assert_allclose(mass @ du - f, (J * weights) @ moving.second(at).ravel(), atol=1e-6)
        assert np.linalg.eigvalsh(mass)[0] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_gravity_pulls_the_com(rng, kind):
    """Gravity acts on the linear dofs by the whole mass, in the plane for a planar body, and on nothing else."""
    cloud, whole = one_body(rng, kind)
    pose, gravity = random_pose(rng, kind), rng.normal(size=3)
    u = np.zeros(int(whole.bodies.start[-1]))
    f = evaluate(whole, pose[None], u, gravity)[1]
    first = 3 if kind in ("rigid", "scalable", "scalable_axes") else 0
    wanted = np.zeros_like(u)
    wanted[first : first + (2 if kind == "planar" else 3)] = (cloud.m.sum() * gravity)[: 2 if kind == "planar" else 3]
    np.testing.assert_allclose(f, wanted, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_poses_move_with_their_velocities(rng, kind):
    """Rates of a pose, and the pose moved by h u, are those of the path with velocity u."""
    _, whole = one_body(rng, kind)
    pose, u = random_pose(rng, kind), rng.normal(size=int(whole.bodies.start[-1]))
    rates = evaluate(whole, pose[None], u)[2][0]
    zero = np.zeros_like(u)
    np.testing.assert_allclose(rates, moving.rate(lambda t: travelled(kind, pose, u, zero, t)), atol=1e-9)
    after = moved(whole, 0.7, u, pose[None])[0]
    np.testing.assert_allclose(after, travelled(kind, pose, u, zero, 0.7), atol=1e-12)


def stored(kind, pose, stiffness, rest):
    """Return the energy of a body's change of size, as `Builder` documents it."""
    if kind == "affine":
        a = pose[7:16].reshape(3, 3)
        return stiffness / 8 * np.sum((a.T @ a - np.eye(3)) ** 2)
    size = 1 if kind == "scalable" else 3
    return 0.5 * stiffness * np.sum((pose[7 : 7 + size] - rest) ** 2)


RESTS = [("scalable", 1.0), ("scalable", 1.3), ("scalable_axes", 1.0), ("affine", 1.0)]


@pytest.mark.parametrize(("kind", "rest"), RESTS)
def test_springs_of_scales_have_the_documented_energy(rng, kind, rest):
    """The force of the scales is minus the gradient of the energy that `Builder` documents, zero at rest."""
    more = {"stiffness": 7.0} if kind == "affine" else {"scale_stiffness": 7.0, "scale_rest": rest}
    _, whole = one_body(rng, kind, **more)
    n = int(whole.bodies.start[-1])
    for k in range(3):
        pose = random_pose(rng, kind)
        if k == 0:
            pose[7:16] = np.eye(3).ravel() if kind == "affine" else rest
        f = evaluate(whole, pose[None], np.zeros(n))[1]

        def energy(t, way, pose=pose):
            return stored(kind, travelled(kind, pose, way, np.zeros(n), t), 7.0, rest)

        gradient = np.array([moving.rate(lambda t, way=way: energy(t, way)) for way in np.eye(n)])
        np.testing.assert_allclose(f, -gradient, atol=1e-9)


@pytest.mark.parametrize("first", KINDS)
def test_rows_on_every_pair_of_kinds(rng, first):
    """Values, rates and second derivatives of points tied together are those of the points, on any two body kinds."""
    for second in KINDS:
        a, b, builder = Cloud(rng, first), Cloud(rng, second), lj.Builder()
        a.add(builder, rng, "a")
        b.add(builder, rng, "b")
        at, to = rng.uniform(-0.4, 0.4, (2, 3))
        builder.add_joint_distance("rod", "a", "b", length=0.5, position=at, position_in_child=to)
        builder.add_joint_distance("stay", "world", "b", length=0.5, position=at, position_in_child=to)
        whole = new_maximal(builder.build(), frozenset())
        start = whole.bodies.start
        n = int(start[-1])
        poses = np.array([random_pose(rng, first), random_pose(rng, second)])
        u, du = rng.normal(size=(2, n))
        e = evaluate(whole, poses, u)[0]
        J = dense_rows(whole.system, e.j)

        def values(t, first=first, second=second, a=a, b=b, at=at, to=to, poses=poses, u=u, du=du, start=start):
            ends = [
                points(kind, travelled(kind, pose, u[i:j], du[i:j], t), (place - cloud.com)[None])[0]
                for kind, pose, i, j, place, cloud in zip(
                    (first, second), poses, start[:-1], start[1:], (at, to), (a, b), strict=True
                )
            ]
            return np.array([np.linalg.norm(ends[1] - ends[0]) - 0.5, np.linalg.norm(ends[1] - at) - 0.5])

        names = [whole.names.index(name) for name in ("rod", "stay")]
        np.testing.assert_allclose(e.values[names, 0], values(0.0), atol=1e-13)
        np.testing.assert_allclose(e.values[names, 1], moving.rate(values), atol=1e-8)
        np.testing.assert_allclose((J @ u)[names], moving.rate(values), atol=1e-8)
        np.testing.assert_allclose((J @ du + e.values[:, 2])[names], moving.second(values), atol=1e-6)


@pytest.mark.parametrize("kind", ["rigid", "scalable", "scalable_axes"])
def test_directions_on_bodies_that_turn(rng, kind):
    """Joints that tie directions of bodies that grow have the derivatives of their errors, like those of rigid ones."""
    builder, clouds = lj.Builder(), [Cloud(rng, kind), Cloud(rng, kind)]
    for name, cloud in zip("ab", clouds, strict=True):
        cloud.add(builder, rng, name)
    frames = {"position": rng.uniform(-0.4, 0.4, 3), "position_in_child": rng.uniform(-0.4, 0.4, 3)}
    builder.add_joint_cylindrical("j", "a", "b", axis=rng.normal(size=3), **frames)
    whole = new_maximal(builder.build(), frozenset())
    start, n = whole.bodies.start, int(whole.bodies.start[-1])
    poses = np.array([random_pose(rng, kind), random_pose(rng, kind)])
    u, du = rng.normal(size=(2, n))
    e = evaluate(whole, poses, u)[0]

    def values(t):
        there = np.array(
            [travelled(kind, poses[i], u[j:k], du[j:k], t) for i, j, k in zip((0, 1), start, start[1:], strict=False)]
        )
        return evaluate(whole, there, u)[0].values[:4, 0]

    J = dense_rows(whole.system, e.j)[:4]
    np.testing.assert_allclose(e.values[:4, 1], moving.rate(values), atol=1e-8)
    np.testing.assert_allclose(J @ u, moving.rate(values), atol=1e-8)
    np.testing.assert_allclose(J @ du + e.values[:4, 2], moving.second(values), atol=1e-6)


def test_kinds_have_their_dimensions(rng):
    """Bodies take 6, 3, 3, 7, 9 and 12 velocities, in the order of the model."""
    builder = lj.Builder()
    for kind in KINDS:
        Cloud(rng, kind).add(builder, rng, kind)
    whole = new_maximal(builder.build(), frozenset())
    assert np.diff(whole.bodies.start).tolist() == [6, 3, 3, 7, 9, 12]
    assert whole.bodies.kind.tolist() == [0, PLANAR, PARTICLE, SCALABLE, SCALABLE_AXES, AFFINE]


def test_bodies_without_mass_or_inertia_are_named():
    """A body that cannot be accelerated is refused by name: no mass, or a rigid one without inertia."""
    builder = lj.Builder()
    builder.add_body("carrier", mass=0.0)
    builder.add_body("load", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint_hinge("a", "world", "carrier")
    builder.add_joint_hinge("b", "carrier", "load", axis=(1, 0, 0))
    with pytest.raises(lj.UnsupportedByMethod, match='"carrier" has no mass'):
        new_maximal(builder.build(), frozenset())
    builder = lj.Builder()
    builder.add_body("bob", mass=1.0, com=(1, 0, 0))
    builder.add_joint_hinge("a", "world", "bob")
    with pytest.raises(lj.UnsupportedByMethod, match='"bob" has no inertia'):
        new_maximal(builder.build(), frozenset())
