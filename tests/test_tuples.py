"""Named tuples of arrays in kernels are passed by reference."""

import numpy as np
import pytest
from numba import typeof

from limberjack._jit import entry, inner, kernel, outlined
from limberjack._tuples import by_reference
from limberjack.model.arrays import Drives, Springs
from limberjack.reduced.forces import Wrenches, no_wrenches
from limberjack.reduced.variational import External
from limberjack.scenes import pendulum


@outlined
def _sum(wrenches, scale):
    total = 0.0
    for j in range(len(wrenches.link)):
        for c in range(wrenches.data.shape[1]):
            total += scale * wrenches.link[j] * wrenches.data[j, c]
    return total


@outlined
def _sum_within(external):
    return _sum(external.wrenches, 1.0) if external.stiff else -_sum(external.wrenches, 1.0)


@inner
def _renamed(wrenches, link):
    return Wrenches(link, wrenches.data)


@kernel
def _numbers(external, other, out):
    out[0] = _sum_within(external)
    # built here, from members of another tuple and from a tuple within it
    built = External(
        external.drives, external.springs, not external.stiff, external.applied, Wrenches(other, external[4].data)
    )
    out[1] = _sum_within(built)
    out[2] = _sum(_renamed(external.wrenches, other), 1.0)
    total = 0.0
    for k in range(3):
        # filled anew in each turn: what is read must be what this turn has written
        other[0] = k
        turn = Wrenches(other, external.wrenches.data)
        total += _sum(turn, 2.0)
        out[3 + k] = total
    # an array that stores change while tuples that lead to it are read
    for j in range(len(external.wrenches.link)):
        external.wrenches.link[j] += 1
    out[6] = _sum(external.wrenches, 1.0)


@kernel
def _first(external):
    return external.wrenches.link[0]


@pytest.fixture
def wrenches():
    """Three wrenches on links 2, 5, 7 with different data."""
    return Wrenches(np.array([2, 5, 7]), np.arange(27, dtype=float).reshape(3, 9))


def test_members_of_tuples_are_those_of_python(wrenches):
    """Kernels read tuples, tuples within them and those built in kernels as Python does, also after stores."""
    a = pendulum(links=2).arrays
    external = External(Drives(*a.drives), Springs(*a.springs), True, np.zeros(2), wrenches)
    rows = wrenches.data.sum(axis=1)
    other = np.array([1, 0, 3])
    first, second = float(wrenches.link @ rows), float(other @ rows)
    turns = [2.0 * float(np.array([k, 0, 3]) @ rows) for k in range(3)]
    out = np.zeros(7)
    _numbers(external, other, out)
    expected = [first, -second, second, turns[0], turns[0] + turns[1], sum(turns), first + rows.sum()]
    np.testing.assert_array_equal(out, expected)


def test_members_of_other_types_are_refused(wrenches):
    """The machine code of a kernel, called without a look at types, refuses a tuple with something else than arrays."""
    a = pendulum(links=2).arrays
    external = External(Drives(*a.drives), Springs(*a.springs), True, np.zeros(2), wrenches)
    assert _first(external) == 2
    with pytest.raises(TypeError, match="External"):
        entry(_first)(external._replace(wrenches=wrenches._replace(link="links")))


def test_only_tuples_of_the_package_with_arrays_are_references(wrenches):
    """Tuples without arrays, plain tuples and those of others stay what Numba makes of them."""
    from collections import namedtuple

    assert by_reference(typeof(wrenches))
    assert by_reference(typeof(no_wrenches()))
    assert not by_reference(typeof((wrenches.link, wrenches.data)))
    assert not by_reference(typeof(namedtuple("Other", "x")(wrenches.link)))
    assert not by_reference(typeof(namedtuple("Numbers", "x")(1.0)))
