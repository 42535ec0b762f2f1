"""Sine, cosine and arc tangent against exact values worked out with 60 digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from tests.spatial.wrapped import atan2, sincos

from limberjack.spatial.trig import sincos_all

mpmath.mp.dps = 60


def exact(x):
    """Return (sin, cos) of every x, rounded once from 60 digits."""
    return (np.array([float(f(mpmath.mpf(float(v)))) for v in x]) for f in (mpmath.sin, mpmath.cos))


def error(x):
    """Return the largest absolute error of sine and cosine over x."""
    found, wanted = sincos(x), list(exact(x))
    return max(np.abs(f - w).max() for f, w in zip(found, wanted, strict=True))


@pytest.mark.parametrize("size", [1e-300, 1e-8, 1e-3, 1.0, 10.0, 1e3, 1e6])
def test_sine_and_cosine_are_right_to_the_last_bit_or_two(size, rng):
    """For |x| <= 1e6 the absolute error stays below 2.3e-16."""
    assert error(rng.uniform(-size, size, 1500)) < 2.3e-16


@pytest.mark.parametrize("size", [1e7, 1e9, 1e12, 1e15])
def test_huge_angles_keep_their_accuracy(size, rng):
    """Up to 1e15 the reduction loses nothing: below 1e-15 of the exact sine of the given number."""
    assert error(rng.uniform(-size, size, 800)) < 1e-15


def test_near_the_multiples_of_a_quarter_turn():
    """Where sine or cosine vanishes, the small one is right to 1e-16 absolutely, on both sides of the seams."""
    k = np.r_[np.arange(-50, 51), 2 ** np.arange(6, 40)].astype(float)
    centre = k * (np.pi / 2)
    x = np.concatenate([centre, np.nextafter(centre, np.inf), np.nextafter(centre, -np.inf), centre + np.pi / 4])
    assert error(x) < 2.3e-16


def test_around_the_switch_of_reductions():
    """On both sides of |x| = 2^19, where another reduction takes over, the error stays the same."""
    edge = 2.0**19
    x = edge + np.r_[-np.logspace(-9, 2, 100), 0.0, np.logspace(-9, 2, 100)]
    assert error(np.r_[x, -x]) < 2.3e-16


def test_the_circle(rng):
    """sin^2 + cos^2 = 1 to rounding, sine is odd and cosine even to the bit, and 0 is exact."""
    x = rng.uniform(-1e5, 1e5, 20_000)
    s, c = sincos(x)
    assert np.abs(s * s + c * c - 1).max() < 6e-16
    back_s, back_c = sincos(-x)
    assert (back_s == -s).all() and (back_c == c).all()
    assert [float(v[0]) for v in sincos(np.zeros(1))] == [0.0, 1.0]


def test_many_at_once_are_the_same_bits(rng):
    """The loop over all coordinates gives the bits of the single function, long and short angles mixed."""
    x = np.concatenate([rng.uniform(-10, 10, 999), rng.uniform(-1e9, 1e9, 99), [0.0, 524288.0, -524289.0]])
    rng.shuffle(x)
    s, c = np.empty_like(x), np.empty_like(x)
    sincos_all(0, len(x), x, s, c)
    one_s, one_c = sincos(x)
    assert (s == one_s).all() and (c == one_c).all()
    part = np.full_like(x, 7.0)
    sincos_all(5, 9, x, part, c)
    assert (part[5:9] == s[5:9]).all() and (np.delete(part, range(5, 9)) == 7.0).all()


@pytest.mark.parametrize("size", [1e16, 1e18, 1e20, 1e30, 1e100, 1e300])
def test_angles_beyond_reason_stay_on_the_circle(size, rng):
    """Where the rounding of x is more than a turn, the result is still a point of the circle, or NaN: never off it."""
    s, c = sincos(rng.uniform(-size, size, 500))
    off = np.abs(s * s + c * c - 1)
    assert (np.isnan(off) | (off < 1e-9)).all()


def test_what_is_not_finite_gives_nan():
    """NaN and infinity give NaN, so that a lost state is seen and never hidden."""
    for value in sincos(np.array([np.nan, np.inf, -np.inf])):
        assert np.isnan(value).all()


def test_arc_tangent_in_all_quadrants(rng):
    """atan2 is right to 4e-16 for points of all sizes in all quadrants."""
    angle = rng.uniform(-np.pi, np.pi, 3000)
    size = 10.0 ** rng.uniform(-100, 100, 3000)
    y, x = size * np.sin(angle), size * np.cos(angle)
    wanted = [float(mpmath.atan2(mpmath.mpf(float(b)), mpmath.mpf(float(a)))) for a, b in zip(x, y, strict=True)]
    found = atan2(y, x)
    assert np.abs(found - wanted).max() < 5e-16
    assert np.abs(found / np.array(wanted) - 1).max() < 1e-15


def test_arc_tangent_on_the_axes_and_diagonals():
    """The axes and diagonals are exact, (-1, 0) gives +pi, and the origin gives 0."""
    points = [(0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1), (0, 0)]
    y, x = np.array(points, float).T
    wanted = np.array([0, 1, 2, 3, 4, -3, -2, -1, 0]) * np.pi / 4
    assert np.abs(atan2(y.copy(), x.copy()) - wanted).max() < 5e-16
    assert atan2(np.array([-0.0]), np.array([-1.0]))[0] == np.pi


def test_arc_tangent_undoes_sine_and_cosine(rng):
    """atan2(sin x, cos x) = x within one turn."""
    x = rng.uniform(-np.pi, np.pi, 5000)
    assert np.abs(atan2(*sincos(x)) - x).max() < 1e-15
