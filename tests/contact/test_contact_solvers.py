"""The contact solvers against their naive twin: dense matrices and projected Gauss-Seidel."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from tests.naive import contacts as twin

import limberjack as lj
from limberjack.contact.bundles import new_bundles
from limberjack.contact.friction_cone import sweep_cones
from limberjack.contact.restitution import collide
from limberjack.contact.sweeps import (
    JN,
    JT,
    MU,
    RA,
    RB,
    STEP_N,
    STEP_T,
    E,
    N,
    S,
    new_sweeps,
    set_effective_masses,
    shock_propagation,
    warm_start,
)
from limberjack.contact.sweeps import sweep as sweep_bodies
from limberjack.reduced.contacts import (
    BOUND,
    CONTACT,
    CONVERGED,
    DRY_FRICTION,
    EQUALITY_ROW,
    FREE_VELOCITY,
    INEQUALITY_ROW,
    TARGET,
    new_path_rows,
    projected_gauss_seidel,
)

_jit = numba.njit(_nrt=False)

# Overlaps are pushed out at this rate, no slower than this speed, and by 10 per second no faster than 0.5 m/s.
H, RATE, SLOW = 2.0**-9, 100.0, 0.05


@_jit
def _sweep_bodies(count, times, link, inverse, h, rate, slow, scale, give, row, u):
    set_effective_masses(0, count, link, inverse, row)
    warm_start(0, count, link, inverse, row, u)
    sweep_bodies(0, count, times, link, inverse, h, rate, slow, scale, give, row, u)


@_jit
def _shock(count, times, link, level, inverse, height, h, rate, row, u):
    set_effective_masses(0, count, link, inverse, row)
    shock_propagation(0, count, times, link, level, inverse, height, h, rate, row, u)


@_jit
def _collide(count, link, inverse, h, row, u):
    set_effective_masses(0, count, link, inverse, row)
    return collide(0, count, 1, link, inverse, h, row, u)


@_jit
def _sweep_paths(count, packed):
    projected_gauss_seidel(count, CONVERGED, packed)


class Bodies:
    """Three free bodies of unlike masses and the ground, with contacts between them, as arrays of both sides."""

    def __init__(self, seed, pairs):
        r = np.random.default_rng(seed)
        self.pairs, self.count = np.array(pairs, np.int64), len(pairs)
        turns = [np.linalg.qr(r.normal(size=(3, 3)))[0] for _ in range(3)]
        masses = np.array([1.0, 3.0, 0.5])
        inertias = np.array([q @ np.diag(r.uniform(0.1, 0.3, 3)) @ q.T for q in turns]) * masses[:, None, None]
        self.minv = twin.inverse_masses(masses, inertias)
        inverse = np.linalg.inv(inertias)
        # xx, yy, zz, xy, xz, yz of the inverse inertia, then the inverse mass
        self.inverse = np.column_stack([inverse[:, (0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2)], 1.0 / masses])
        normals = r.normal(size=(self.count, 3)) * 0.3 + (0.0, 0.0, 1.0)
        self.normals = normals / np.linalg.norm(normals, axis=1)[:, None]
        levers = r.uniform(-0.5, 0.5, (self.count, 2, 3)) + np.array([[0.0, 0.0, -0.5], [0.0, 0.0, 0.5]])
        self.friction = r.uniform(0.2, 0.8, self.count)
        self.j = twin.free_rows(3, self.pairs, self.normals, levers)
        self.a = self.j @ self.minv @ self.j.T
        self.u = r.normal(size=18)
        # each presses on the ones below
        self.u[5::6] -= (3.0, 6.0, 9.0)
        self.sweeps = new_sweeps(self.count, new_bundles(3, self.count))
        row = self.sweeps.row
        self.sweeps.link[:] = self.pairs
        row[:, N : N + 3], row[:, MU] = self.normals, self.friction
        row[:, RA : RA + 3], row[:, RB : RB + 3] = levers[:, 0], levers[:, 1]
        row[:, S] = np.where(r.uniform(size=self.count) < 0.5, 1e-3, -1e-3) * r.uniform(0.5, 2.0, self.count)

    def world(self, lam):
        """Return the impulses (c, 3) in world axes."""
        return np.array([twin.axes_of(n).T @ lam[3 * k : 3 * k + 3] for k, n in enumerate(self.normals)])


STACK = ((0, -1), (0, -1), (1, 0), (1, 0), (2, 1), (2, -1), (0, 2))


def bias_of(s):
    """Return what the gap or overlap s adds to the velocity of the approach."""
    return s / H if s > 0.0 else max(RATE * s, min(max(10.0 * s, -0.5), -SLOW))


@pytest.mark.parametrize(("scale", "give"), [(1.0, 0.0), (0.75, 0.125)], ids=["hard", "soft"])
@pytest.mark.parametrize("times", [1, 2, 30])
@pytest.mark.parametrize("seed", range(3))
def test_sweeps_over_bodies_are_projected_gauss_seidel(seed, times, scale, give):
    """After each sweep over free bodies, impulses and velocities are those of dense projected Gauss-Seidel."""
    bodies, r = Bodies(seed, STACK), np.random.default_rng(100 + seed)
    start = np.zeros(3 * bodies.count)
    start[0::3] = r.uniform(0.0, 0.5, bodies.count)
    start[1::3] = 0.1 * start[0::3]
    row, u = bodies.sweeps.row, bodies.u.copy()
    row[:, JN], row[:, JT : JT + 3] = start[0::3], bodies.world(start) - start[0::3, None] * bodies.normals
    gaps = row[:, S].copy()
    _sweep_bodies(bodies.count, times, bodies.sweeps.link, bodies.inverse, H, RATE, SLOW, scale, give, row, u)

    b = bodies.j @ bodies.u
    b[0::3] += [bias_of(s) for s in gaps]
    softness = {"scale": np.where(gaps > 0.0, 1.0, scale), "give": np.where(gaps > 0.0, 0.0, give)}
    lam = twin.gauss_seidel(bodies.a, b, bodies.friction, start, times, **softness)
    assert np.count_nonzero(lam[0::3]) > 2
    found = row[:, JN, None] * bodies.normals + row[:, JT : JT + 3]
    np.testing.assert_allclose(found, bodies.world(lam), rtol=0, atol=1e-8)
    np.testing.assert_allclose(u, bodies.u + bodies.minv @ bodies.j.T @ lam, rtol=0, atol=1e-8)


@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.parametrize("seed", range(3))
def test_shock_propagation_goes_up_and_down_as_the_dense_twin_does(seed, times):
    """Lower bodies stand still while a level is swept and feel the deferred impulses afterwards, as in the twin."""
    bodies, heights = Bodies(seed, STACK), np.array([1, 2, 3])
    row, u, gaps = bodies.sweeps.row, bodies.u.copy(), bodies.sweeps.row[:, S].copy()
    bodies.sweeps.level[:] = [max(heights[i] for i in pair if i >= 0) for pair in STACK]
    link, level = bodies.sweeps.link, bodies.sweeps.level
    _shock(bodies.count, times, link, level, bodies.inverse, heights, H, RATE, row, u)

    bias, start = [bias_of(s) for s in gaps], np.zeros(3 * bodies.count)
    lam, expected = twin.shock(bodies.minv, bodies.j, bias, bodies.friction, start, STACK, heights, times, bodies.u)
    assert np.count_nonzero(lam[0::3]) > 2
    found = row[:, JN, None] * bodies.normals + row[:, JT : JT + 3]
    np.testing.assert_allclose(found, bodies.world(lam), rtol=0, atol=1e-8)
    np.testing.assert_allclose(u, expected, rtol=0, atol=1e-8)
    # nothing of the momentum is lost: all bodies feel all impulses
    np.testing.assert_allclose(u, bodies.u + bodies.minv @ bodies.j.T @ lam, rtol=0, atol=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_contacts_of_two_bodies_leave_by_their_restitution(seed):
    """Contacts of one pair that close get the normal impulses of the dense twin, then its friction."""
    bodies = Bodies(seed, ((0, -1),) * 3 if seed % 2 else ((1, 0),) * 4)
    u0 = bodies.u.copy()
    u0[3:6], u0[9:12] = (1.0, 0.5, -3.0), (0.25, -1.0, -8.0)
    row, u, e = bodies.sweeps.row, u0.copy(), 0.5
    row[:, S], row[:, E] = 0.0, e
    hits = _collide(bodies.count, bodies.sweeps.link, bodies.inverse, H, row, u)

    free = bodies.j @ u0
    closing = free[0::3] < 0.0
    assert hits == np.count_nonzero(closing) > 1
    rows = np.flatnonzero(np.repeat(closing, 3))
    j, b = bodies.j[rows], free[rows]
    b[0::3] += e * b[0::3]
    lam = np.zeros(3 * bodies.count)
    lam[rows] = twin.restitution(j @ bodies.minv @ j.T, b, bodies.friction[closing], 60)
    found = row[:, STEP_N, None] * bodies.normals + row[:, STEP_T : STEP_T + 3]
    np.testing.assert_allclose(found, bodies.world(lam), rtol=0, atol=1e-8)
    np.testing.assert_allclose(u, u0 + bodies.minv @ bodies.j.T @ lam, rtol=0, atol=1e-8)


def tree():
    """Return a floating figure of five bodies."""
    builder = lj.Builder("tree")
    joints = ((None, ""), ("hinge", "b0"), ("ball", "b0"), ("hinge", "b1"), ("slide", "b2"))
    for k, (kind, parent) in enumerate(joints):
        builder.add_body(f"b{k}", mass=1.0 + 0.5 * k, com=(0.125, 0.0, -0.25), inertia=(0.25, 0.1875, 0.125))
        if kind is not None:
            builder.add_joint(kind, f"j{k}", parent, f"b{k}", position=(0.25 - 0.125 * k, 0.0625 * k, -0.375))
    return builder.build()


def posed(model, seed):
    """Return coordinates and velocities of the figure in some pose."""
    r = np.random.default_rng(seed)
    q, qd = model.q0.copy(), r.normal(size=model.nv)
    q[7:] += r.uniform(-0.25, 0.25, model.nq - 7)
    for joint in ("b0", "j2"):
        at = model.joint(joint).q
        q[at][-4:] = r.normal(size=4) * 0.25 + (1.0, 0.0, 0.0, 0.0)
        q[at][-4:] /= np.linalg.norm(q[at][-4:])
    return q, qd


def system_of_tree(seed):
    """Return M, J of rows (three plain ones, then three contacts), b and the frictions."""
    model, r = tree(), np.random.default_rng(seed)
    q, qd = posed(model, seed)
    normals = r.normal(size=(3, 3)) * 0.3 + (0.0, 0.0, 1.0)
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    points = r.uniform(-0.5, 0.5, (3, 3))
    contacts = twin.tree_rows(model, q, (("b3", "world"), ("b4", "world"), ("b3", "b4")), points, normals)
    plain = np.vstack([np.eye(model.nv)[-1], lj.jacobian(model, q, "b3")[5], lj.jacobian(model, q, "b4")[3]])
    j = np.vstack([plain, contacts])
    b = j @ qd
    b[3::3] -= 2.0
    return lj.mass_matrix(model, q), j, b, r.uniform(0.2, 0.8, 3)


def path_rows_of(seeds, equality):
    """Return the rows of `system_of_tree` of some seeds, each a tree of its own, packed, and the dense systems."""
    systems = [system_of_tree(seed) for seed in seeds]
    nv, blocks, most = len(systems[0][0]), 6, 0.125
    packed = new_path_rows(6, nv * len(seeds), blocks * len(seeds), blocks * nv * len(seeds))
    packed.inverse[:] = 1.0
    packed.start[:] = nv * np.arange(blocks * len(seeds) + 1)
    packed.order[:] = np.arange(blocks * len(seeds))
    packed.tree[:] = np.repeat(np.arange(len(seeds)), blocks)
    last = EQUALITY_ROW if equality else INEQUALITY_ROW
    packed.kind[:] = np.tile([DRY_FRICTION, INEQUALITY_ROW, last, CONTACT, CONTACT, CONTACT], len(seeds))
    bounds = ((-most, most), (0.0, np.inf), (-np.inf if equality else 0.0, np.inf))
    dense = []
    for t, (mass, j, b, friction) in enumerate(systems):
        # with M = L L^T, y = L^-1 J^T is the forward pass of the rows and D = 1
        y = np.linalg.solve(np.linalg.cholesky(mass), j.T)
        for own in range(blocks):
            k = blocks * t + own
            rows = [own] if own < 3 else list(range(3 * own - 6, 3 * own - 3))
            packed.column[nv * k : nv * (k + 1)] = nv * t + np.arange(nv)
            packed.y[nv * k : nv * (k + 1), : len(rows)] = y[:, rows]
            packed.coefficients[k, FREE_VELOCITY : FREE_VELOCITY + len(rows)] = b[rows]
            packed.coefficients[k, BOUND] = most if own < 3 else friction[own - 3]
            # what is wanted stands in b already but for a part
            packed.coefficients[k, FREE_VELOCITY] += 0.25
            packed.coefficients[k, TARGET] = 0.25
            packed.lam[k] = (0.25, 0.03125, 0.0) if own >= 3 else 0.0
        dense.append((j @ np.linalg.inv(mass) @ j.T, b, friction, bounds, y))
    return packed, dense


def impulses_of(packed, t):
    """Return the impulses of tree t in the order of its dense system."""
    own = packed.lam[6 * t : 6 * t + 6]
    return np.append(own[:3, 0], own[3:])


@pytest.mark.parametrize("equality", [False, True], ids=["one-sided", "equality"])
@pytest.mark.parametrize("seed", range(4))
def test_rows_over_trees_end_where_projected_gauss_seidel_stays(seed, equality):
    """Dense sweeps over A = J M^-1 J^T change the impulses no more, and lead to the same velocities from elsewhere."""
    packed, ((a, b, friction, bounds, y),) = path_rows_of([seed], equality)
    _sweep_paths(6, packed)
    lam = impulses_of(packed, 0)
    # Newton steps converge in few sweeps, with contacts that slide, too
    assert packed.report[1] <= 12 and np.count_nonzero(lam[3::3]) > 0
    again = twin.gauss_seidel(a, b, friction, lam, 1, bounds=bounds)
    np.testing.assert_allclose(again, lam, rtol=0, atol=1e-7)
    start = np.zeros(12)
    start[3::3], start[4::3] = 0.25, 0.03125
    far = twin.gauss_seidel(a, b, friction, start, 4000, bounds=bounds)
    # the velocities in the coordinates of y
    np.testing.assert_allclose(y @ lam, y @ far, rtol=0, atol=1e-7)


def test_islands_are_solved_alone():
    """Trees that nothing ties together have the bits that each has alone, whatever the others need."""
    packed, _ = path_rows_of([0, 1, 2], True)
    _sweep_paths(18, packed)
    for t, seed in enumerate(range(3)):
        alone, _ = path_rows_of([seed], True)
        _sweep_paths(6, alone)
        assert np.array_equal(impulses_of(packed, t), impulses_of(alone, 0))


@pytest.mark.parametrize("seed", range(4))
def test_sweeps_over_a_matrix_end_where_gauss_seidel_does(seed):
    """Contacts over a dense matrix end with the impulses that dense projected Gauss-Seidel ends with."""
    mass, j, b, friction = system_of_tree(seed)
    a = j @ np.linalg.inv(mass) @ j.T
    force, low = np.zeros(12), np.array([0.0, 0.0, -np.inf])
    _, change = sweep_cones(3, 3, 20_000, 1e-13, a, b, low, friction, force)
    lam = twin.gauss_seidel(
        a, b, friction, np.zeros(12), 2000, bounds=((0.0, np.inf), (0.0, np.inf), (-np.inf, np.inf))
    )
    assert change <= 1e-13
    assert np.count_nonzero(lam[3::3]) > 0
    np.testing.assert_allclose(force, lam, rtol=0, atol=1e-8)
