"""Rays and distances without a simulation: closed forms, and a brute-force twin for boxes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import limberjack as lj
from limberjack.errors import StateError, UnknownName
from limberjack.spatial.frames import matrix_from_quaternion


def table() -> lj.Model:
    """Return a ball, a box, a capsule and a cylinder that float, on a plane."""
    b = lj.Builder("table")
    for name in ("ball", "box", "rod", "can", "ghost"):
        b.add_body(name, mass=1.0, inertia=(1, 1, 1))
    b.add_shape_sphere("ball", 0.3)
    b.add_shape_box("box", (0.4, 0.6, 0.8))
    b.add_shape_capsule("rod", 0.1, 1.0)
    b.add_shape_cylinder("can", 0.2, 0.5)
    b.add_shape_sphere("ghost", 0.5, collide=False)
    b.add_shape_plane("world", name="floor")
    return b.build()


def posed(model: lj.Model, **poses) -> np.ndarray:
    """Return coordinates with bodies at (position, quaternion), others far away."""
    q = np.zeros(model.nq)
    for k, name in enumerate(model.body_names):
        at, turn = poses.get(name, ((50.0 + 10 * k, 0, 5), (1, 0, 0, 0)))
        q[model.joint(model.body(name).joint).q] = [*at, *turn]
    return q


def test_a_ray_hits_what_is_nearest():
    """The first shape along the ray, where it is entered; shapes that do not collide only when asked for."""
    model = table()
    q = posed(model, ball=((3, 0, 1), (1, 0, 0, 0)), box=((5, 0, 1), (1, 0, 0, 0)), ghost=((1, 0, 1), (1, 0, 0, 0)))
    hit = lj.ray_cast(model, q, (0, 0, 1), (2, 0, 0))
    assert hit.body == "ball" and hit.distance == pytest.approx(2.7)
    np.testing.assert_allclose(hit.point, (2.7, 0, 1))
    assert lj.ray_cast(model, q, (0, 0, 1), (1, 0, 0), visual=True).body == "ghost"
    assert lj.ray_cast(model, q, (0, 0, 1), (1, 0, 0), ignore="ball").distance == pytest.approx(4.8)
    assert lj.ray_cast(model, q, (0, 0, 1), (1, 0, 0), reach=2.0) is None
    down = lj.ray_cast(model, q, (0, 0, 1), (0, 0, -1))
    assert (down.body, down.shape, down.distance) == ("world", "floor", pytest.approx(1.0))
    assert lj.ray_cast(model, q, (3, 0, 1), (1, 0, 0)).distance == 0.0
    with pytest.raises(StateError, match="must not be 0"):
        lj.ray_cast(model, q, (0, 0, 1), (0, 0, 0))


def test_distances_in_closed_form():
    """Spheres, capsules, a plane: distances and points from geometry."""
    model = table()
    q = posed(model, ball=((0, 0, 2), (1, 0, 0, 0)), rod=((1, 0, 2), (1, 0, 0, 0)))
    found = lj.distance(model, q, "ball", "rod")
    assert found.distance == pytest.approx(0.6)
    np.testing.assert_allclose(found.points, [(0.3, 0, 2), (0.9, 0, 2)], atol=1e-9)
    ground = lj.distance(model, q, "rod", "world")
    assert ground.distance == pytest.approx(1.4) and ground.shapes[1] == "floor"
    np.testing.assert_allclose(ground.points, [(1, 0, 1.4), (1, 0, 0)], atol=1e-12)
    q = posed(model, ball=((0, 0, 2), (1, 0, 0, 0)), rod=((0.35, 0, 2), (1, 0, 0, 0)))
    assert lj.distance(model, q, "ball", "rod").distance == 0.0
    with pytest.raises(StateError, match='"ghost" has no shape'):
        lj.distance(model, q, "ghost", "ball")
    with pytest.raises(UnknownName):
        lj.distance(model, q, "bal", "rod")


@pytest.mark.parametrize("seed", range(12))
def test_boxes_and_cans_against_minimization(seed):
    """The distance of a box and a cylinder, or a capsule, in random poses is what a general optimizer finds."""
    rng, model = np.random.default_rng(seed), table()
    other = ("can", "rod")[seed % 2]
    poses = {}
    for name, at in (("box", (0, 0, 3)), (other, rng.normal(size=3) * 0.8 + (0, 0, 3))):
        turn = rng.normal(size=4)
        poses[name] = (at, turn / np.linalg.norm(turn))
    found = lj.distance(model, posed(model, **poses), "box", other)
    r = {name: matrix_from_quaternion(np.array(turn)) for name, (_, turn) in poses.items()}
    half = np.array([0.2, 0.3, 0.4])

    def gap(x):
        a = np.array(poses["box"][0]) + r["box"] @ x[:3]
        return float(np.sum((a - np.array(poses[other][0]) - r[other] @ x[3:]) ** 2))

    radius, length = (0.2, 0.25) if other == "can" else (0.0, 0.5)
    bounds = [(-h, h) for h in half] + [(-radius, radius)] * 2 + [(-length, length)]
    inside = {"type": "ineq", "fun": lambda x: radius**2 - x[3] ** 2 - x[4] ** 2}
    options = {
        "bounds": bounds, "constraints": [inside] if radius else [], "method": "SLSQP",
        "options": {"ftol": 1e-15, "maxiter": 500},
    }  # fmt: skip
    starts = rng.uniform(-0.2, 0.2, (4, 6)) * (1, 1, 1, radius > 0, radius > 0, 1)
    best = min((minimize(gap, start, **options) for start in starts), key=lambda one: one.fun)
    expected = max(np.sqrt(max(best.fun, 0.0)) - (0.1 if other == "rod" else 0.0), 0.0)
    assert found.distance == pytest.approx(expected, abs=2e-5)
    if found.distance > 0:
        assert np.linalg.norm(found.points[0] - found.points[1]) == pytest.approx(found.distance, abs=1e-9)
