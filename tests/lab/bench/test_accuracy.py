from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest
from tests.naive.exact_motions import exact_four_bars, exact_governor, exact_pendulum

import limberjack as lj
from limberjack_lab.bench import accuracy, mechanisms
from limberjack_lab.bench.table import Table, Watch


@pytest.fixture
def table():
    return Table("accuracy", accuracy.TITLE, quick=True)


@pytest.mark.parametrize(
    ("t", "x", "y"),
    [
        (0.0, -1.0, 0.0),
        (1.0, 0.9862917511318753, -0.1650108531255412),
        (10.0, -0.2750874625761169, -0.9614192050991251),
    ],
)
def test_the_exact_pendulum_is_that_of_the_library(t, x, y):
    """The closed form gives the published places of problem A01."""
    assert exact_pendulum(t) == pytest.approx((x, y), abs=1e-13)


def test_reductions_are_those_of_the_library():
    """The four-bars with one freedom and the governor with two pass through the places that are published."""
    assert exact_four_bars(1.0) == pytest.approx((-0.11535688063211, -0.99332411130045), abs=1e-12)
    assert exact_four_bars(1.0, 2) == pytest.approx((-0.19502030194944, -0.98079920566217), abs=1e-12)
    assert exact_governor(1.0) == pytest.approx((0.501420922,), abs=1e-9)


def test_known_places_follow_from_formulas():
    """What later times of A01, A02 and A05 are compared with is what closed forms and reductions give."""
    exact = {"A01": exact_pendulum, "A02": exact_four_bars, "A05": exact_governor}
    for problem in mechanisms.PROBLEMS:
        for t, value in problem.longer.items() if problem.title[:3] in exact else ():
            assert exact[problem.title[:3]](t) == pytest.approx(value, abs=1e-12)


@pytest.mark.slow
def test_the_late_place_of_bricard_is_that_of_finer_steps():
    """What A04 is compared with at 10 s is what steps of a tenth give, whose error is a ten-thousandth."""
    sim = lj.Simulation(lj.scenes.bricard(), lj.Full(integrator="rk4"), dt=1e-4)
    sim.step(100_000)
    (known,) = next(problem.longer.values() for problem in mechanisms.PROBLEMS if problem.scene == "bricard")
    assert tuple(sim.point("P3").position) == pytest.approx(known, abs=1e-9)


def test_the_exact_pendulum_has_its_period():
    """The motion repeats after the published period, and is mirrored after half of it."""
    period = 2.36784194757623745
    x, y = exact_pendulum(0.3)
    assert exact_pendulum(0.3 + 40 * period) == pytest.approx((x, y), abs=1e-12)
    assert exact_pendulum(0.3 + 0.5 * period) == pytest.approx((-x, y), abs=1e-13)


def test_the_exact_pendulum_keeps_its_energy():
    """Speed from finite differences and height add up to the energy at the start."""
    for t in np.linspace(0.1, 2.0, 7):
        before, now, after = (exact_pendulum(t + d) for d in (-1e-5, 0.0, 1e-5))
        speed = math.dist(before, after) / 2e-5
        assert 0.5 * speed**2 + 9.81 * now[1] == pytest.approx(0.0, abs=1e-7)


def test_all_integrators_are_measured():
    """The integrators are those that `lj.Full` offers, each by name."""
    with pytest.raises(lj.UnknownName) as found:
        lj.Full(integrator="none of them")
    offered = str(found.value).rsplit(" are ", 1)[-1].replace(" or ", ", ").split(", ")
    assert {word.strip('". ') for word in offered} == set(accuracy.INTEGRATORS)


def test_pendulum_errors_shrink_with_the_order(table):
    """Fourth-order rows beat first-order rows by far, in both engines."""
    with Watch("accuracy") as watch:
        accuracy._fill_pendulum(table, mujoco, watch, (1,))
    errors = {row["who"]: row["t1"] for row in table.parts[0].rows}
    assert set(errors) == {f"Limberjack {word}" for word in (*accuracy.INTEGRATORS, "rk4, 1 substep")} | {
        f"MuJoCo {word}" for word in ("Euler", "implicit", "RK4")
    }
    assert errors["Limberjack rk4"] < errors["Limberjack rk4, 1 substep"] < 1e-11
    assert errors["MuJoCo RK4"] < 1e-11
    assert 1e-5 < errors["Limberjack semi_implicit"] < 1e-2


def test_energy_and_momentum_parts_read_all_engines_by_one_meter(table):
    """Energy and momentum of both engines start from the same values and drift as their integrators do."""
    with Watch("accuracy") as watch:
        accuracy._fill_energy(table, mujoco, watch, 1)
        accuracy._fill_momentum(table, mujoco, watch, 100)
    energy, momentum = ({row["who"]: row for row in part.rows} for part in table.parts)
    assert energy["Limberjack rk4"]["largest"] < 1e-9 and energy["MuJoCo RK4"]["largest"] < 1e-8
    assert energy["Limberjack semi_implicit"]["largest"] == pytest.approx(energy["MuJoCo Euler"]["largest"], rel=1e-6)
    assert momentum["Limberjack momentum"]["angular"] < 1e-13 and momentum["MuJoCo RK4"]["linear"] < 1e-9
    assert table.bars[0].passed


def test_a_state_that_is_lost_is_told(monkeypatch, tmp_path):
    """A run that diverges is reported as lost, in both engines."""
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log where it stands
    builder = lj.Builder("stiff")
    builder.add_body("mass", mass=1.0, com=(0, 0, -1), inertia=(0.1, 0.1, 0.1))
    builder.add_joint_hinge("pivot", "world", "mass", axis=(0, 1, 0), start_velocity=1e160)
    model = builder.build()
    for name, sim in accuracy._runs(model, mujoco):
        assert not accuracy._reached(sim, 5), name


def test_orders_are_those_promised(table):
    """The measured orders are those the integrators promise for a damped tree."""
    with Watch("accuracy") as watch:
        accuracy.fill_orders(table, watch)
    found = {row["who"]: row["order"] for row in table.parts[0].rows}
    promised = {"euler": 1, "semi_implicit": 1, "implicit": 1, "rk4": 4, "momentum": 4}
    promised |= {"variational": 1, "projected": 1}  # the joints are damped
    assert found == pytest.approx(promised, abs=0.15)


def test_order_ignores_rounding():
    """Errors at the level of rounding do not spoil the slope."""
    assert accuracy.measured_order((10, 20, 40), [1e-3, 1e-3 / 16, 1e-13]) == pytest.approx(4.0)


def test_the_picture_is_drawn_only_when_asked(table, tmp_path, monkeypatch):
    """LIMBERJACK_PLOTS names the folder of the picture; without it nothing is written."""
    monkeypatch.setattr(accuracy, "_STEPS", (20, 40))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LIMBERJACK_PLOTS", raising=False)
    with Watch("accuracy") as watch:
        accuracy.fill_orders(table, watch)
        assert not list(tmp_path.iterdir())
        monkeypatch.setenv("LIMBERJACK_PLOTS", str(tmp_path / "images"))
        accuracy.fill_orders(table, watch)
    assert (tmp_path / "images" / accuracy.PICTURE).read_bytes().startswith(b"\x89PNG")


def test_mechanisms_are_where_they_should_be(table):
    """A quick run has A01, A03 and A04 in both methods, with errors, gaps and energy as promised, and their ranks."""
    with Watch("accuracy") as watch:
        mechanisms.fill_mechanisms(table, True, watch)
    rows = table.parts[0].rows
    assert [(row["problem"][:3], row["who"]) for row in rows] == [
        (name, f"{method}, rk4") for name in ("A01", "A03", "A04") for method in ("full", "multipliers")
    ]
    assert not table.wrong and all(bar.passed is not False for bar in table.bars)
    assert sum(bar.passed is None for bar in table.bars) == 3  # A02 and A05 take longer than a quick run
    assert [row["rank"] for row in rows] == [0, 0, 6, 6, 4, 4]
    assert all(row["balance"] < 1e-9 for row in rows if row["problem"].startswith("A03"))


def test_a_mechanism_that_is_lost_is_told(table, monkeypatch):
    """A run that ends before its time is named as wrong, and its bar is missed."""

    def step(self, n):
        raise lj.Diverged("no longer finite", "joint", 1, 0.1)

    monkeypatch.setattr(lj.Simulation, "step", step)
    monkeypatch.setattr(mechanisms, "PROBLEMS", mechanisms.PROBLEMS[:1])
    with Watch("accuracy") as watch:
        mechanisms.fill_mechanisms(table, True, watch)
    assert len(table.wrong) == 2 and [row["error"] for row in table.parts[0].rows] == ["lost", "lost"]
    assert table.bars[0].passed is False


def test_every_problem_has_known_answers():
    """Each problem of the library has references, later ones in a whole run than in a quick one, in order of time."""
    for problem in mechanisms.PROBLEMS:
        quick, whole = (mechanisms._references(problem, short) for short in (True, False))
        assert len(whole) >= 2 and len(quick) <= len(whole) and all(one in whole for one in quick)
        assert [one.time for one in whole] == sorted(one.time for one in whole)
