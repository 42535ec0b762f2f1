"""Responses of whole figures to wrenches on their bodies, against dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj
from limberjack._jit import kernel
from limberjack.contact.figure_sweeps import (
    MASSES,
    gather_velocities,
    set_figure_masses,
    set_figures,
    sweep_figures,
)
from limberjack.contact.sweeps import JN, KN, MN, RA, RB, ROW, N
from limberjack.linear.saddle import factor_saddle
from limberjack.maximal.solve import evaluate_state


@kernel
def _build(
    # model
    setup, tree, structure,
    # in
    link, inverse, row, e,
    # out
    saddle, figures, masses,
):  # fmt: skip
    failed = factor_saddle(setup.system, tree, structure, e.m, e.j, saddle)
    set_figures(
        setup.system, tree, saddle.work, 0, len(link), setup.constraints, link, e.values, inverse, saddle.components,
        figures,
    )  # fmt: skip
    set_figure_masses(0, len(link), link, inverse, row, figures, masses)
    return failed


@kernel
def _sweep(
    # in
    setup, times, link, e, u,
    # out
    figures, row,
):  # fmt: skip
    gather_velocities(False, 0.0, u, figures)
    return sweep_figures(
        setup.system, 0, len(link), times, 0.0, link, 0.01, 0.0, 0.05, 1.0, 0.0, e.j, figures, row
    )  # fmt: skip


def _figures(seed):
    """Return a model of two branched figures, one on the ground, and a free ball."""
    r, builder = np.random.default_rng(seed), lj.Builder("figures")
    for figure in range(2):
        for k in range(9):
            name = f"f{figure}_{k}"
            builder.add_body(
                name, mass=r.uniform(0.2, 3.0), inertia=r.uniform(0.01, 0.02, 3), com=r.normal(size=3) * 0.1
            )
            if k == 0 and figure == 0:
                continue
            parent = "world" if k == 0 else f"f{figure}_{r.integers(0, k)}"
            place = {"position": r.normal(size=3) * 0.3, "position_in_child": r.normal(size=3) * 0.3}
            kind = ("ball", "hinge", "slide", "universal")[r.integers(0, 4)]
            axis = {"axis": r.normal(size=3)} if kind in ("hinge", "slide") else {}
            getattr(builder, f"add_joint_{kind}")(f"j{figure}_{k}", parent, name, **place, **axis)
    builder.add_body("ball", mass=2.0, inertia=(0.1, 0.1, 0.1))
    return builder.build()


def _dense(stepper):
    """Return M^-1 - M^-1 J^T (J M^-1 J^T)^-1 J M^-1 of all bodies."""
    system, e = stepper._setup.system, stepper._e
    n, count = len(system.body_start) - 1, stepper.whole.equality_count
    inverse, rows = np.zeros((6 * n, 6 * n)), np.zeros((int(system.row_start[count]), 6 * n))
    for i in range(n):
        block = e.m[system.mass_start[i] : system.mass_start[i + 1]].reshape(6, 6)
        inverse[6 * i : 6 * i + 6, 6 * i : 6 * i + 6] = np.linalg.inv(block)
    for c in range(count):
        for t in range(system.incidence_start[c], system.incidence_start[c + 1]):
            i, block = system.incidence_body[t], e.j[system.block_start[t] : system.block_start[t + 1]]
            rows[system.row_start[c] : system.row_start[c + 1], 6 * i : 6 * i + 6] = block.reshape(-1, 6)
    half = rows @ inverse
    return inverse - half.T @ np.linalg.solve(half @ rows.T, half)


class Touched:
    """Figures in a random pose with contacts at random points."""

    def __init__(self, seed):
        r, model = np.random.default_rng(seed), _figures(seed)
        sim = lj.Simulation(model, "impulses", dt=0.01)
        q = model.q0.copy()
        sim.step(0)
        stepper = self.stepper = sim._stepper
        assert len(q) == model.nq
        evaluate_state(stepper._setup, 0.0, stepper._e, stepper._s)
        stepper._wake()
        self.n = n = len(stepper._bulk.mass)
        pairs = [(3, -1), (8, 14), (12, 5), (6, 2), (n - 1, 11), (17, -1)]
        self.link, self.row = np.array(pairs), np.zeros((len(pairs), ROW))
        normals = r.normal(size=(len(pairs), 3))
        self.row[:, N : N + 3] = normals / np.linalg.norm(normals, axis=1)[:, None]
        self.row[:, RA : RA + 3], self.row[:, RB : RB + 3] = r.normal(size=(2, len(pairs), 3)) * 0.1
        self.masses, self.phi = np.zeros((len(pairs), MASSES)), _dense(stepper)
        s = stepper
        args = (s._setup, s._tree, s._structure, self.link, s._bulk.inverse, self.row, s._e)
        assert _build(*args, s._saddle, s._figures, self.masses) == 0

    def normal_rows(self):
        """Return the rows (contacts, 6 n) of the relative velocities along the normals."""
        out = np.zeros((len(self.link), 6 * self.n))
        for k, (a, b) in enumerate(self.link):
            for i, lever, sign in ((a, RA, 1.0), (b, RB, -1.0)):
                if i >= 0:
                    normal = sign * self.row[k, N : N + 3]
                    out[k, 6 * i : 6 * i + 6] += [*np.cross(self.row[k, lever : lever + 3], normal), *normal]
        return out


@pytest.mark.parametrize("seed", range(4))
def test_figures_respond_as_dense_algebra_says(seed):
    """Responses of all members to wrenches on each of them are those of the bodies with all joints in place."""
    case = Touched(seed)
    f, bodies = case.stepper._figures, case.link[case.link >= 0]
    members = [i for i in f.member[: f.count[0]] if i >= 0]
    assert set(bodies) <= set(members)
    for i in members:
        for j in members:
            wanted = case.phi[6 * i : 6 * i + 6, 6 * j : 6 * j + 6]
            if f.first[i] != f.first[j]:
                np.testing.assert_allclose(wanted, 0.0, atol=1e-12)
                continue
            width = 6 * f.size[j]
            at = f.start[j] + 6 * (f.place[i] - f.first[i])
            found = np.stack([f.phi[0, at + c * width : at + c * width + 6] for c in range(6)], axis=1)
            np.testing.assert_allclose(found, wanted, atol=1e-10 * np.abs(case.phi).max())


@pytest.mark.parametrize("seed", range(4))
def test_sweeps_over_figures_solve_the_contacts(seed):
    """Frictionless contacts end with impulses and velocities that complement each other, by dense algebra."""
    case, r = Touched(seed), np.random.default_rng(seed)
    rows = case.normal_rows()
    mobility = rows @ case.phi @ rows.T
    # masses are those of the dense response, but for the floor that keeps them finite
    np.testing.assert_allclose(1.0 / case.masses[:, MN - KN], np.diag(mobility), rtol=0.2)
    u = case.phi @ r.normal(size=6 * case.n)
    case.row[:, KN : KN + 5] = case.masses[:, :5]
    _sweep(case.stepper._setup, 2000, case.link, case.stepper._e, u, case.stepper._figures, case.row)
    impulses = case.row[:, JN]
    after = rows @ u + mobility @ impulses
    assert (impulses >= 0.0).all() and impulses.max() > 0.0
    assert after.min() > -1e-8 * np.abs(u).max()
    np.testing.assert_allclose(impulses * after, 0.0, atol=1e-8 * np.abs(u).max() ** 2)
