"""Rigid clusters as one thing each: their poses and the places of links in them are those of the kinematics."""

from __future__ import annotations

import numpy as np
import pytest
from tests.methods.adaptive.adaptive_scenes import chain, forest, simulation, star
from tests.naive.models import random_state

import limberjack as lj
from limberjack.spatial.frames import quaternion_from_matrix
from limberjack.viewer.drawing import multiplied, turned


class Follower:
    """Keeps the places of links by the news of reports alone."""

    def __init__(self, model):
        n = len(model.arrays.links.parent)
        self.model, self.version = model, -1
        self.cluster, self.place = np.full(n, -2), np.full((n, 7), np.nan)

    def poses(self, report):
        """Return positions and rotations of all body frames after a report."""
        assert report.since <= self.version
        self.version = report.version
        self.cluster[report.link], self.place[report.link] = report.cluster, report.pose
        n, a = len(self.cluster), self.model.arrays
        at, turn = np.zeros((n + 1, 3)), np.zeros((n + 1, 4))
        turn[-1, 0] = 1.0
        at[report.root], turn[report.root] = report.positions, report.rotations
        linked = at[self.cluster] + turned(turn[self.cluster], self.place[:, :3])
        spun = multiplied(turn[self.cluster], self.place[:, 3:])
        link = a.body_link
        linked, spun = np.vstack([linked, np.zeros(3)]), np.vstack([spun, [1.0, 0.0, 0.0, 0.0]])
        offset = quaternion_from_matrix(a.body_offset[:, :9].reshape(-1, 3, 3))
        return linked[link] + turned(spun[link], a.body_offset[:, 9:]), multiplied(spun[link], offset)


def assert_same(poses, sim):
    """Check poses against the forward kinematics of all bodies; quaternions but for their sign."""
    positions, rotations = lj.forward_kinematics(sim.model, sim.q)
    size = max(1.0, np.abs(positions).max(initial=0.0))
    assert np.abs(poses[0] - positions).max(initial=0.0) <= 1e-12 * size
    sign = np.sign((poses[1] * rotations).sum(axis=1))[:, None]
    assert np.abs(sign * poses[1] - rotations).max(initial=0.0) <= 1e-12


@pytest.mark.parametrize("seed", range(12))
def test_clusters_are_where_kinematics_puts_them(seed):
    """By news alone, some of them missed, every body is where its coordinates put it, while the region changes."""
    rng = np.random.default_rng([31, seed])
    model = star(rng) if seed % 4 == 2 else forest(rng, seed, bodies=14)
    sim = simulation(model, rng, budget=3, update_every=2)
    follower, news = Follower(model), 0
    for k in range(40):
        if k % 5 == 4:
            sim.tune(budget=int(rng.integers(0, 8)))
        sim.step(1 + k % 3)
        if k % 4 == 1:
            continue  # one who looks seldom gets all that happened since
        known = follower.version
        report = sim.clusters(known)
        news += known >= 0 and len(report.link) > 0
        assert_same(follower.poses(report), sim)
    assert news > 0


def cluster_roots(model, active):
    """Return, per link, the first link of its cluster: the nearest active one above, or itself; -1 = the world."""
    out = np.arange(len(active))
    for i, p in enumerate(model.arrays.links.parent):
        if not active[i]:
            out[i] = out[p] if p >= 0 else -1
    return out


def test_only_links_of_clusters_that_changed_are_news(rng):
    """What is news are exactly the links whose cluster is another one, none while the region stays."""
    model = star(rng)
    sim = lj.Simulation(model, lj.Adaptive(budget=6, update_every=1), dt=1e-3, qd=rng.normal(size=model.nv))
    sim.step(1)
    report = sim.clusters()
    assert report.since == -1 and np.array_equal(report.link, np.arange(len(model.arrays.links.parent)))
    assert np.array_equal(report.cluster, cluster_roots(model, sim.active_links))
    quiet = busy = 0
    for k in range(60):
        before = cluster_roots(model, sim.active_links)
        if k % 3 == 0:
            sim.tune(budget=int(rng.integers(0, 9)))
        sim.step(1)
        report, now = sim.clusters(report.version), cluster_roots(model, sim.active_links)
        assert np.array_equal(np.sort(report.link), np.flatnonzero(now != before))
        assert np.array_equal(report.cluster, now[report.link])
        assert np.array_equal(report.root, np.flatnonzero(sim.active_links))
        busy, quiet = busy + (len(report.link) > 0), quiet + (len(report.link) == 0)
    assert busy > 5 and quiet > 5


def test_what_moved_and_came_to_rest_between_reports_is_news(rng):
    """Links whose joints were active for a while between two reports are placed anew, though they rest at both."""
    model = star(rng)
    sim = lj.Simulation(model, lj.Adaptive(budget=0, update_every=1), dt=1e-3, qd=rng.normal(size=model.nv))
    sim.step(1)
    follower = Follower(model)
    assert_same(follower.poses(sim.clusters()), sim)
    still, before = sim.clusters(follower.version).root, sim.q
    sim.tune(budget=5)
    sim.step(3)
    sim.tune(budget=0)
    sim.step(2)
    report = sim.clusters(follower.version)
    assert np.array_equal(report.root, still) and not np.array_equal(sim.q, before) and len(report.link)
    assert_same(follower.poses(report), sim)


def test_what_is_set_and_restored_is_known_again(rng):
    """After q was set, a restore, a grip and its release reports wait for a step, and then are right again."""
    model = chain(20, free=True, damping=0.1)
    sim = lj.Simulation(model, lj.Adaptive(budget=4), dt=1e-3)
    follower = Follower(model)
    assert sim.clusters() is None
    sim.step(30)
    assert_same(follower.poses(sim.clusters(follower.version)), sim)
    snapshot = sim.snapshot()
    q, _ = random_state(rng, model)
    for act in (
        lambda: setattr(sim, "q", q),
        lambda: sim.restore(snapshot),
        lambda: sim.grab("b7").move((0.3, 0.1, 0.2)),
        lambda: sim.restore(sim.snapshot()),
    ):
        act()
        assert sim.clusters(follower.version) is None
        for _ in range(3):
            sim.step(7)
            assert_same(follower.poses(sim.clusters(follower.version)), sim)


def test_news_of_another_simulation_are_whole():
    """A version of one simulation is not known to another: all of it is news there. Other methods have no clusters."""
    model = chain(8)
    first, second = (lj.Simulation(model, lj.Adaptive(budget=2)) for _ in range(2))
    first.step(5)
    second.step(5)
    version = first.clusters().version
    assert second.clusters(version).since == -1 and len(second.clusters(version).link) == 8
    assert first.clusters(version).since == version and not len(first.clusters(version).link)
    full = lj.Simulation(model)
    full.step(5)
    assert full.clusters() is None
