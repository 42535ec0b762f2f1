"""The rasteriser against the obvious way, against closed forms, and for what light does."""

from __future__ import annotations

import math
import struct
import zlib

import numpy as np
import pytest

import limberjack as lj
from limberjack.viewer import raster
from limberjack.viewer.camera import Eye
from limberjack.viewer.drawing import Drawing
from limberjack.viewer.film import chosen_shot, frames_at
from limberjack.viewer.picture import Painter, _eye_view, png


def ball(radius=0.5, ground=False):
    """Return a ball that floats one metre up."""
    b = lj.Builder("ball")
    b.add_body("ball", mass=1.0, inertia=(1, 1, 1), position=(0, 0, 1))
    b.add_shape_sphere("ball", radius, color=(0.8, 0.2, 0.1, 1.0), collide=False)
    if ground:
        b.add_shape_plane(color=(0.8, 0.8, 0.8, 1.0), collide=False)
    return b.build()


def test_triangles_cover_the_pixels_they_should():
    """Depth and part of every pixel are those of a loop over all pixels and triangles in plain NumPy (naive twin)."""
    rng = np.random.default_rng(2)
    rows, columns = 24, 32
    vertices = np.concatenate([rng.uniform(0, [columns, rows], (30, 2)), rng.uniform(1, 2, (30, 1))], axis=1)
    faces = rng.permutation(30).reshape(-1, 3).astype(np.int32)
    depth, part = np.empty((rows, columns)), np.empty((rows, columns), np.int32)
    normal = np.zeros((rows, columns, 3), np.float32)
    places = np.array([[1.0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1]])
    raster.wipe(depth, part)
    raster.draw(
        vertices, np.ones((30, 3)), faces, places, 0, 1, np.eye(4).ravel(), np.empty((30, 4)), depth, normal, part
    )
    expected = np.full((rows, columns), np.inf)
    for a, b, c in vertices[faces]:
        m = np.array([[a[0], b[0], c[0]], [a[1], b[1], c[1]], [1, 1, 1]])
        if np.linalg.det(m) >= 0:
            continue
        for i in range(rows):
            for j in range(columns):
                u = np.linalg.solve(m, [j + 0.5, i + 0.5, 1.0])
                if (u >= 0).all():
                    expected[i, j] = min(expected[i, j], u @ [a[2], b[2], c[2]])
    assert np.isfinite(expected).sum() > 50
    assert np.array_equal(np.isfinite(depth), np.isfinite(expected)) and np.array_equal(part >= 0, np.isfinite(depth))
    assert np.allclose(depth[part >= 0], expected[part >= 0], atol=1e-9)


def test_a_ball_is_as_large_as_perspective_says():
    """A ball of radius r at distance d covers the ellipse, here a circle, of tangent r / sqrt(d^2 - r^2)."""
    painter = Painter(Drawing(ball(), detail=64), 200, 200, 2)
    eye = Eye(np.array([0.0, -5.0, 1.0]), np.array([0.0, 0.0, 1.0]), 0.5)
    sim = lj.Simulation(ball())
    picture = painter.paint(sim.positions, sim.rotations, eye).astype(int)
    red = (picture[..., 0] > picture[..., 2] + 20).sum()
    radius = 100 * (0.5 / math.sqrt(25.0 - 0.25)) / math.tan(0.25)
    assert red == pytest.approx(math.pi * radius**2, rel=0.02)


def test_the_view_takes_points_to_their_pixels():
    """The middle of the picture is the target; a point to the right and above lands to the right and above."""
    eye = Eye(np.array([3.0, -4.0, 2.0]), np.array([0.0, 0.0, 1.0]))
    view, numbers = _eye_view(eye, (60, 100))
    right, up, ahead = eye.axes()
    for point, where in ((eye.target, (50, 30)), (eye.target + 0.1 * right, None), (eye.target + 0.1 * up, None)):
        x, y, z, w = view.reshape(4, 4) @ np.append(point, 1.0)
        if where is not None:
            assert np.allclose((x / w, y / w), where)
        assert -numbers[13] / (z / w) == pytest.approx((point - eye.position) @ ahead)
    x, y, _, w = view.reshape(4, 4) @ np.append(eye.target + 0.1 * right + 0.1 * up, 1.0)
    assert x / w > 50 and y / w < 30


def test_things_cast_shadows():
    """The ground behind a ball, away from the light, is darker than the ground beside it."""
    model = ball(ground=True)
    sim = lj.Simulation(model)
    eye = Eye(np.array([0.0, 0.0, 8.0]), np.array([0.0, 0.001, 0.0]), 0.9)
    picture = Painter(Drawing(model), 200, 200, 1).paint(sim.positions, sim.rotations, eye).astype(float)
    gray = picture[(np.abs(picture[..., 0] - picture[..., 2]) < 12)].mean(axis=1)
    # lit ground and shade are two clear heaps: the shade's disc has the area of the ball's
    assert np.percentile(gray, 99) - np.percentile(gray, 1) > 20
    dark = (picture[..., 2] < 185) & (np.abs(picture[..., 0] - picture[..., 2]) < 12)
    pixels_per_metre = 100 / (8.0 * math.tan(0.45))
    assert dark.sum() == pytest.approx(
        math.pi * 0.25 * pixels_per_metre**2 * math.hypot(1, math.hypot(0.42, 0.58)), rel=0.35
    )


def test_smoothing_averages():
    """`shrink` gives the mean of each square of pixels, rounded."""
    rng = np.random.default_rng(0)
    fine = rng.uniform(0, 255, (12, 18, 3)).astype(np.float32)
    small = np.empty((4, 6, 3), np.uint8)
    raster.shrink(fine, 3, small)
    expected = fine.reshape(4, 3, 6, 3, 3).mean(axis=(1, 3))
    assert (np.abs(small - expected) <= 0.5 + 1e-3).all()


def test_png_gives_the_picture_back():
    """Unpacking the PNG by the book gives the same pixels, and its checksums hold."""
    picture = np.random.default_rng(1).integers(0, 256, (7, 5, 3)).astype(np.uint8)
    data, at, body = png(picture), 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        chunk = data[at + 8 : at + 8 + length]
        assert zlib.crc32(kind + chunk) == struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0]
        body += chunk if kind == b"IDAT" else b""
        at += 12 + length
    lines = np.frombuffer(zlib.decompress(body), np.uint8).reshape(7, 16)
    assert (lines[:, 0] == 2).all()
    assert np.array_equal(np.cumsum(lines[:, 1:], axis=0, dtype=np.uint8).reshape(7, 5, 3), picture)


@pytest.mark.parametrize("options", [{"width": 8}, {"height": 9000}, {"smooth": 0}, {"width": 100.5}])
def test_sizes_out_of_range_are_refused(options):
    """Pictures have 16 to 8192 pixels along an edge."""
    with pytest.raises(lj.StateError, match="picture must be a whole number"):
        Painter(Drawing(ball()), **options)


def still(frames=7, end=0.6, drop=0.0):
    """Return a trajectory of the ball, which falls by `drop`."""
    model = ball()
    q = np.tile(model.q0, (frames, 1))
    q[:, 2] -= np.linspace(0.0, drop, frames)
    return lj.Trajectory(model, np.linspace(0.0, end, frames), q, np.zeros((frames, model.nv)))


def test_films_take_the_nearest_frames():
    """A film at the recording's own rate takes every frame; a slower one skips evenly; slow motion repeats."""
    assert frames_at(still(), 10.0).tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert frames_at(still(), 5.0).tolist() == [0, 2, 4, 6]
    assert frames_at(still(), 10.0, 0.4).tolist()[:5] == [0, 0, 1, 1, 2]
    assert frames_at(still(1, 0.0), 30.0).tolist() == [0]
    with pytest.raises(lj.StateError, match="fps"):
        frames_at(still(), 0.0)


def test_far_motions_are_followed():
    """The camera goes along with a body that falls far, and stands for one that stays."""
    far, near = still(drop=50.0), still(drop=0.2)
    assert chosen_shot(Drawing(far.model), far, None, None, 1.6).shift[-1, 2] < -30.0
    assert not chosen_shot(Drawing(near.model), near, None, None, 1.6).shift.any()
    assert not chosen_shot(Drawing(far.model), far, ((3, 0, 0), (0, 0, 0)), None, 1.6).shift.any()
