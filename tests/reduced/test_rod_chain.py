"""A chain of uniform rods let go horizontally: a closed form for any number of links.

Let a_k be the downward acceleration of joint k (joint 0 is pinned, joint N the free end). A rod of mass m between
points with accelerations a, b takes the forces m/6 (2a + b) and m/6 (a + 2b) at its ends and m g / 2 of its weight
at each. Summed at the joints:

    a_{k-1} + 4 a_k + a_{k+1} = 6 g        a_0 = 0        a_{N-1} + 2 a_N = 3 g

so a_k = g + c r^k + d r^(N-k) with r = sqrt(3) - 2. The rods turn with (a_k - a_{k-1}) / L, the hinges with the
differences of those.
"""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj

G, LENGTH = 9.81, 0.7


def rods(count):
    """Return `count` uniform rods along x, each hinged about y (positive q falls) to the one before."""
    mass = 1.3
    builder = lj.Builder(gravity=(0, 0, -G))
    moment = mass * LENGTH**2 / 12
    above = "world"
    for k in range(count):
        name = builder.add_body(f"r{k}", mass=mass, com=(LENGTH / 2, 0, 0), inertia=(0.01 * moment, moment, moment))
        position = (LENGTH, 0, 0) if k else (0, 0, 0)
        builder.add_joint_hinge(f"j{k}", above, name, axis=(0, 1, 0), position=position)
        above = name
    return builder.build()


def exact(count):
    """Return the hinges' accelerations by the closed form."""
    r = np.sqrt(3.0) - 2.0
    k = np.arange(count + 1)
    tip, far = r ** min(count, 300), r ** min(count - 1, 300)
    c, d = np.linalg.solve([[1.0, tip], [far + 2 * tip, r + 2.0]], [-G, 0.0])
    with np.errstate(under="ignore"):
        a = G + c * r ** np.minimum(k, 300) + d * r ** np.minimum(count - k, 300)
    return np.diff(np.r_[0.0, np.diff(a) / LENGTH])


def relative_gap(count):
    """Return max|difference| / max|reference| of the hinges' accelerations."""
    model = rods(count)
    qdd = lj.forward_dynamics(model, np.zeros(count), np.zeros(count))
    return np.abs(qdd - exact(count)).max() / np.abs(exact(count)).max()


def test_one_and_two_rods_by_hand():
    """One rod turns with 3g/2L; of two, the joint falls with 9g/7 and the tip with 6g/7."""
    assert exact(1) == pytest.approx([1.5 * G / LENGTH])
    first, second = 9 / 7 * G / LENGTH, (6 / 7 - 9 / 7) * G / LENGTH
    assert exact(2) == pytest.approx([first, second - first])


@pytest.mark.parametrize("count", [1, 2, 3, 10, 400, 10_000])
def test_accelerations_follow_the_closed_form(count):
    """Forward dynamics of up to ten thousand links agrees with the closed form to 1e-10."""
    assert relative_gap(count) < 1e-10


@pytest.mark.slow
def test_accelerations_of_a_hundred_thousand_links():
    """As above for 1e5 links, to 1e-8."""
    assert relative_gap(100_000) < 1e-8


def test_the_joints_keep_the_three_term_relation():
    """Twice summed, the hinge accelerations keep a_{k-1} + 4 a_k + a_{k+1} = 6 g: no closed form involved."""
    count = 200
    qdd = lj.forward_dynamics(rods(count), np.zeros(count), np.zeros(count))
    a = np.r_[0.0, np.cumsum(np.cumsum(qdd) * LENGTH)]
    assert np.abs(a[:-2] + 4 * a[1:-1] + a[2:] - 6 * G).max() < 1e-9 * G
    assert a[-2] + 2 * a[-1] == pytest.approx(3 * G, rel=1e-9)
