"""Contacts in bundles of four against the same contacts one by one."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from limberjack.collision.detect import new_contacts
from limberjack.contact.bundles import (
    BUNDLES,
    LOOSE,
    STRANDS,
    begin_bundles,
    fill_bundles,
    list_contacts,
    new_bundles,
    pack_contacts,
    set_motion,
    store_impulses,
    sweep_bundles,
    unpack_bundles,
    unpack_fast,
    update_and_relax,
    update_loose,
)
from limberjack.contact.graph import new_graph
from limberjack.contact.sweeps import (
    DEPENETRATION,
    JN,
    JT,
    LA,
    LB,
    RA,
    STEP_N,
    STEP_T,
    S,
    add_step_impulses,
    new_sweeps,
    set_contact_rows,
    set_effective_masses,
    set_links,
    sweep,
    update_contacts,
    warm_start,
)
from limberjack.contact.warm_start import new_warm_start

_jit = numba.njit(_nrt=False)
H = 1.0 / 480.0
GRAVITY = np.array([0.0, 0.0, -9.81])
N_BODIES = 24


@_jit
def _set_rows(count, contacts, graph, cache, led, gravity, pose, inverse, sweeps, u):
    set_links(count, contacts, graph, sweeps)
    set_contact_rows(0, count, contacts, graph, cache, gravity, led, pose, sweeps)
    update_contacts(0, count, sweeps.link, 0.0, pose, pose, u, sweeps.row)
    set_effective_masses(0, count, sweeps.link, inverse, sweeps.row)


@_jit
def _one_by_one(count, times, link, inverse, before, pose, row, u):
    warm_start(0, count, link, inverse, row, u)
    sweep(0, count, times, link, inverse, H, 60.0, DEPENETRATION, 0.8, 0.1, row, u)
    add_step_impulses(0, count, row)
    update_contacts(0, count, link, H, before, pose, u, row)
    sweep(0, count, 1, link, inverse, H, 0.0, DEPENETRATION, 1.0, 0.0, row, u)


@_jit
def _in_bundles(count, times, contacts, graph, cache, led, fast, inverse, gravity, before, pose, sweeps, u):
    link, row, bundles = sweeps.link, sweeps.row, sweeps.bundles
    begin_bundles(count, 1, bundles)
    list_contacts(0, count, graph.order, contacts, bundles)
    pack_contacts(gravity, link, graph.order, contacts, led, before, bundles)
    fill_bundles(link, graph.order, contacts, cache.found, before, inverse, u, bundles)
    sweep_bundles(times, link, inverse, led, H, 60.0, DEPENETRATION, 0.8, 0.1, row, bundles, u)
    for t in range(bundles.count[LOOSE]):
        add_step_impulses(bundles.loose[t], bundles.loose[t] + 1, row)
    unpack_fast(count, link, fast, inverse, row, bundles)
    update_loose(link, H, before, pose, u, bundles, row)
    set_motion(0, len(before), H, before, pose, u, bundles)
    update_and_relax(link, inverse, led, H, row, bundles, u)
    store_impulses(contacts, graph, sweeps, cache)
    unpack_bundles(count, link, row, bundles)


class Heap:
    """Bodies in random contact: manifolds of one to six points, gaps, overlaps, some of centimetres, one led body."""

    def __init__(self, seed, pairs=60):
        r, n = np.random.default_rng(seed), N_BODIES
        link, normals, friction = [], [], []
        for _ in range(pairs):
            a, b = r.choice(n, 2, replace=False)
            b = -1 if r.uniform() < 0.2 else b
            # body 0 is led; led bodies touch no static ones
            if b < 0 and a == 0:
                a = 1
            normal, mu = r.normal(size=3), r.uniform(0.0, 0.8)
            for _ in range(r.integers(1, 7)):
                link.append((a, b))
                normals.append(normal / np.linalg.norm(normal))
                friction.append(mu)
        count = self.count = len(link)
        self.led = np.zeros(n, np.int64)
        self.led[0] = 1
        self.pose = np.zeros((n, 7))
        self.pose[:, :3] = r.uniform(-1.0, 1.0, (n, 3))
        self.moved = self.pose.copy()
        self.moved[:, :3] += r.normal(size=(n, 3)) * 1e-3
        c = self.contacts = new_contacts(count)
        c.count[0] = count
        c.link_a[:], c.link_b[:] = np.array(link).T
        c.key[:] = np.arange(count)
        c.normal[:], c.friction[:], c.point[:] = normals, friction, r.uniform(-1.0, 1.0, (count, 3))
        c.depth[:] = r.normal(size=count) * np.where(r.uniform(size=count) < 0.2, 0.05, 2e-3)
        self.graph, self.cache = new_graph(n, count), new_warm_start(count)
        self.graph.order[:] = np.arange(count)
        push = np.where(r.uniform(size=count) < 0.5, r.uniform(0.0, 0.1, count), 0.0)
        along = r.normal(size=(count, 3)) * 0.01
        along -= (along * c.normal).sum(axis=1)[:, None] * c.normal
        self.cache.found[:, 0], self.cache.found[:, 1:] = push, np.where(push[:, None] > 0.0, along, 0.0)
        spread = r.normal(size=(n, 3, 3)) * 0.1
        inertia = np.eye(3) + spread @ spread.transpose(0, 2, 1)
        masses = r.uniform(0.5, 2.0, n)
        self.inverse = np.column_stack([inertia[:, (0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2)], 1.0 / masses])
        self.inverse[0] = 0.0
        self.u, self.fast = r.normal(size=6 * n), np.zeros(n, np.int64)
        self.sweeps = new_sweeps(count, new_bundles(n, count))

    def prepare(self):
        """Fill the rows of all contacts."""
        _set_rows(
            self.count, self.contacts, self.graph, self.cache, self.led, GRAVITY, self.pose,
            self.inverse, self.sweeps, self.u,
        )  # fmt: skip
        return self

    def solve(self, times):
        """Take a substep in bundles."""
        self.prepare()
        _in_bundles(
            self.count, times, self.contacts, self.graph, self.cache, self.led, self.fast, self.inverse, GRAVITY,
            self.pose, self.moved, self.sweeps, self.u,
        )  # fmt: skip
        return self


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_bundles_are_sweeps_one_by_one(seed, times):
    """A substep over bundles leaves the velocities, impulses, gaps and levers of sweeps in the same order.

    To single precision, that of levers and effective masses.
    """
    one, four = Heap(seed).prepare(), Heap(seed).solve(times)
    _one_by_one(one.count, times, one.sweeps.link, one.inverse, one.pose, one.moved, one.sweeps.row, one.u)
    assert np.abs(one.u - Heap(seed).u).max() > 0.1
    np.testing.assert_allclose(four.u, one.u, rtol=0, atol=2e-6)
    for column in (JN, JT, JT + 1, JT + 2, S, RA, RA + 1, RA + 2, LA, LB, STEP_N, STEP_T):
        np.testing.assert_allclose(four.sweeps.row[:, column], one.sweeps.row[:, column], rtol=0, atol=2e-6)
    np.testing.assert_allclose(four.cache.impulse[:, 0], one.sweeps.row[:, JN], rtol=0, atol=2e-6)
    np.testing.assert_allclose(four.cache.impulse[:, 1:], one.sweeps.row[:, JT : JT + 3], rtol=0, atol=2e-6)


@pytest.mark.parametrize("seed", range(4))
def test_bundles_share_no_body_and_keep_the_order(seed):
    """No body that moves is twice in a bundle, and each body's contacts are in bundles in the order of the sweeps."""
    heap = Heap(seed).solve(1)
    b = heap.sweeps.bundles
    assert b.count[LOOSE] == 0
    for i in range(int(b.count[BUNDLES])):
        bodies = [j for j in b.body[i] if j < N_BODIES and not heap.led[j]]
        assert len(bodies) == len(set(bodies))
    for j in range(1, N_BODIES):
        own = [k for k in range(heap.count) if j in heap.sweeps.link[k]]
        order = [int(b.slot[k] >> 4) for k in own]
        assert order == sorted(order)
    # what lanes are for: most of them are used
    assert b.lanes[: b.count[BUNDLES]].mean() > 2.0


@pytest.mark.parametrize("seed", range(2))
def test_strands_that_are_swept_at_once_share_no_body(seed):
    """Many contacts are divided: strands within slabs share no body that moves, nor do those between slabs."""
    heap = Heap(seed, pairs=500).solve(1)
    b = heap.sweeps.bundles
    assert b.count[STRANDS] == 4
    owners = []
    for s in range(len(b.strand[0]) - 1):
        first, last = b.strand[0, s], b.strand[0, s + 1]
        owners.append({int(j) for j in b.body[first:last].ravel() if j < N_BODIES and not heap.led[j]})
        listed = b.listed[1, b.strand[1, s] : b.strand[1, s + 1]]
        assert (np.diff(listed) > 0).all()
        assert ((b.slot[listed] >> 4) >= first).all() and ((b.slot[listed] >> 4) < last).all()
    for group in (owners[:4], owners[4:6]):
        assert sum(map(len, group)) == len(set().union(*group))
    assert b.strand[1, -1] == heap.count and np.isfinite(heap.u).all()


@pytest.mark.parametrize("seed", range(2))
def test_fast_bodies_and_restitution_leave_the_bundles(seed):
    """Contacts with restitution are never in a bundle; those of fast bodies leave it with what they had."""
    heap = Heap(seed)
    heap.contacts.restitution[:10] = 0.5
    heap.fast[5] = 2
    heap.solve(3)
    b, own = heap.sweeps.bundles, [k for k in range(heap.count) if 5 in heap.sweeps.link[k]]
    loose = set(b.loose[: b.count[LOOSE]].tolist())
    assert set(own) | set(range(10)) == loose
    assert (heap.sweeps.row[own, STEP_N] > 0.0).any()
    assert np.isfinite(heap.u).all()
