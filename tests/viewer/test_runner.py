"""The thread that steps: orders, frames, recordings, states carried from method to method, grips on bodies."""

from __future__ import annotations

import time

import numba
import numpy as np
import pytest
from tests.viewer.waiting import until

import limberjack as lj
from limberjack.methods import METHODS
from limberjack.viewer.carry_over import transplant, under_gravity, under_method
from limberjack.viewer.colors import MODES, body_values, clusters, heat, part_colors
from limberjack.viewer.dragging import Grips
from limberjack.viewer.history import trajectory_of
from limberjack.viewer.runner import Runner


def pendulum(links=4):
    sim = lj.Simulation(lj.scenes.pendulum(links=links))
    sim.step(50)
    return sim


@pytest.fixture
def runner():
    """A runner that stands still, of a small pendulum."""
    made = Runner(pendulum(), rate=200.0)
    made.start()
    yield made
    made.stop()


def test_steps_are_those_of_the_simulation(runner):
    """Played by the clock, in batches of any length, the state is bit for bit that of plain steps."""
    runner.play()
    assert until(lambda: runner.sim.steps > 400)
    runner.play(False)
    steps, found = runner.ask(lambda sim: (sim.steps, sim.state_hash()))
    plain = pendulum()
    plain.step(steps - 50)
    assert found == plain.state_hash()


def test_single_steps_and_reset(runner):
    """A single step is one step; reset leads back to the first state, bit for bit."""
    first = runner.ask(lambda sim: sim.state_hash())
    runner.single_step()
    runner.single_step()
    assert runner.ask(lambda sim: sim.steps) == 52
    runner.reset()
    assert runner.ask(lambda sim: sim.state_hash()) == first


def test_a_recording_is_what_run_records(runner):
    """Frames recorded while playing are those `Simulation.run` records: same times, same bits."""
    runner.record()
    runner.play()
    assert until(lambda: runner.recorded_frames > 12)
    runner.play(False)
    ((run, moments),) = runner.recorded()
    trajectory = trajectory_of(run.sim, moments)[0]
    plain = pendulum().run(0.2)
    n = 8
    assert np.array_equal(trajectory.times[:n], plain.times[:n]) and np.array_equal(trajectory.q[:n], plain.q[:n])
    assert runner.recorded() == [] and runner.recorded_frames == 0


def test_errors_of_orders_are_told_and_forgiven(runner):
    """An order that fails leaves its message; the next one is met. `ask` raises."""
    runner.order(lambda sim: sim.joint("nowhere"))
    runner.order(lambda sim: 1 / 0)
    with pytest.raises(lj.UnknownName):
        runner.ask(lambda sim: sim.body("nobody"))
    assert any("nowhere" in text for text in runner.problems)
    assert any("internal error, ZeroDivisionError" in text for text in runner.problems)
    assert runner.ask(lambda sim: 7) == 7


def test_a_simulation_that_diverges_is_held():
    """Steps that blow up end the playing with a message; the thread goes on."""
    sim = pendulum()
    sim.qd = [1e150] * sim.model.nv
    runner = Runner(sim)
    runner.start()
    runner.play()
    assert until(lambda: runner.problems and not runner.playing)
    assert runner.ask(lambda sim: sim.steps) >= 50
    runner.stop()


def test_frames_come_in_order_and_nobody_is_waited_for(runner):
    """Numbers of frames grow; one who looks seldom sees the newest; one who never looks holds nothing up."""
    runner.play()
    first = runner.frame(timeout=10.0)
    assert until(lambda: runner.sim.steps > first.steps + 100)
    later = runner.frame(first.number, timeout=10.0)
    assert later.number > first.number + 1 and later.steps > first.steps
    assert len(later.q) == runner.sim.model.nq


def test_compiling_is_told_while_it_lasts(runner):
    """What Numba compiles in the midst of a command is told with its time and functions, and nothing afterwards."""
    seen = []

    def compile_something(sim):
        inner = numba.njit(lambda x: x + 1)
        outer = numba.njit(lambda x: inner(x) + inner(x + 1) + np.sin(x))
        outer(1.0)

    runner.order(compile_something)
    assert until(lambda: seen.append(runner.compiling) or seen[-1] is not None)
    assert until(lambda: runner.compiling is None)
    assert seen[-1][0] >= 0.0 and seen[-1][1] >= 0
    assert runner._compiling.count >= 2 and not runner.problems


def test_drives_run_sixty_times_a_second():
    """The drive is called before the first step and after every sixtieth of a second, as in `limberjack run`."""
    times = []
    runner = Runner(pendulum(), drive=lambda sim: times.append(sim.steps))
    runner.start()
    runner.play()
    assert until(lambda: len(times) > 5)
    runner.stop()
    assert times[0] == 50 and np.array_equal(np.diff(times), [17] * (len(times) - 1))


@pytest.mark.parametrize("name", list(METHODS))
def test_another_method_goes_on_from_the_same_state(name):
    """Under every method positions, velocities, clock, wrenches and tau are those of before, to rounding."""
    sim = pendulum()
    sim.apply_wrench("link1" if "link1" in sim.model.body_names else sim.model.body_names[1], force=(1.0, 2.0, 3.0))
    sim.tau = [0.1] * sim.model.nv
    other = under_method(sim, name)
    assert other.method.name == name and other.time == sim.time and other.steps == sim.steps
    assert np.allclose(other.positions, sim.positions, atol=1e-12)
    assert np.allclose(other.qd, sim.qd, atol=1e-12) and np.array_equal(other.tau, sim.tau)
    assert np.array_equal(other.forces.wrenches.data, sim.forces.wrenches.data)
    other.step(1)


def test_the_same_method_goes_on_bit_for_bit():
    """Carried into a new simulation of the same method, the next steps are the same bits."""
    for method in ("full", lj.Adaptive(budget=2)):
        sim = lj.Simulation(lj.scenes.pendulum(links=6), method)
        sim.step(100)
        other = under_method(sim, sim.method)
        assert other.state_hash() == sim.state_hash()
        sim.step(50)
        other.step(50)
        assert other.state_hash() == sim.state_hash()


def test_gravity_can_be_changed_on_the_way():
    """The state stays; the potential energy is that of the new gravity."""
    sim = pendulum()
    other = under_gravity(sim, (0.0, 0.0, -1.62))
    assert np.array_equal(other.q, sim.q) and np.array_equal(other.qd, sim.qd) and other.time == sim.time
    assert other.energy().potential == pytest.approx(sim.energy().potential * 1.62 / 9.81)


def test_a_state_of_another_model_is_refused():
    """What does not fit is a StateError, and the simulation stays as it is."""
    sim = pendulum(5)
    before = sim.state_hash()
    with pytest.raises(lj.StateError):
        transplant(lj.Simulation(lj.scenes.pendulum(links=4), lj.Adaptive(budget=1)).snapshot(), sim)
    assert sim.state_hash() == before


@pytest.mark.parametrize("name", list(METHODS))
def test_a_dragged_body_comes_to_the_pointer(name):
    """In every method a body dragged by events comes to where the pointer went; released, it is free."""
    # one joint of four, the default budget, is too stiff an arm to reach a point of the plane
    sim = under_method(pendulum(), lj.Adaptive(budget=3) if name == "adaptive" else name)
    runner = Runner(sim)
    grips = Grips(runner)
    runner.start()
    runner.play()
    body = sim.model.body_names[-1]
    start = runner.ask(lambda sim: sim.body(body).position.copy())
    goal = start + np.array([-0.5, 0.0, 0.4])
    grips.grab("hand", body, start)
    for share in np.linspace(0.1, 1.0, 10):
        grips.move("hand", start + share * (goal - start))
        time.sleep(0.05)
    near = lambda: np.linalg.norm(runner.ask(lambda sim: sim.body(body).position) - goal) < 0.1  # noqa: E731
    assert until(near)
    pull = runner.frame(timeout=5.0).facts["pulls"][0]
    assert pull.body == body and np.linalg.norm(pull.force) > 0.0 and np.allclose(pull.target, goal, atol=0.05)
    grips.release("hand")
    runner.ask(lambda sim: None)
    assert until(lambda: not runner.frame(timeout=5.0).facts["pulls"])
    runner.stop()
    assert not runner.problems and not len(sim.forces.wrenches.link)


def test_a_light_limb_is_not_torn_by_a_fast_pointer():
    """A hand of the humanoid, its pointer thrown a metre away at once, comes along without tearing at its joints."""
    sim = lj.Simulation(lj.scenes.humanoid(gravity=(0.0, 0.0, 0.0)))
    runner = Runner(sim)
    grips = Grips(runner)
    grips.leash = 0.05
    fastest = []
    runner.watchers["speed"] = lambda sim: fastest.append(float(np.abs(sim.qd).max()))
    runner.start()
    runner.play()
    start = runner.ask(lambda sim: sim.body("right_hand").position.copy())
    grips.grab("hand", "right_hand", start)
    grips.move("hand", start + (0.6, -0.6, 0.5))
    assert until(lambda: runner.ask(lambda sim: np.linalg.norm(sim.body("right_hand").position - start)) > 0.5)
    runner.stop()
    assert max(fastest) < 150.0 and not runner.problems


def test_several_hands_hold_at_once(runner):
    """Two grips hold two bodies; all are released together; a method switch forgets them."""
    grips = Grips(runner)
    names = runner.sim.model.body_names
    grips.grab("a", names[1], None)
    grips.grab("b", names[3], None)
    runner.order(lambda sim: None)
    assert until(lambda: len(runner.frame(timeout=5.0).facts.get("pulls", [])) == 2)
    runner.order(lambda sim: runner.replace(under_method(sim, "multipliers"), None, start=False))
    assert until(lambda: len(runner.frame(timeout=5.0).facts.get("pulls", [])) == 0)
    grips.release_all()
    assert runner.ask(lambda sim: sim.method.name) == "multipliers" and not runner.problems


# -- colours ---------------------------------------------------------------------------------------


def test_clusters_are_what_hangs_together():
    """Links share a cluster exactly if no active joint lies between them (naive twin: walk up)."""
    rng = np.random.default_rng(4)
    for _ in range(50):
        n = int(rng.integers(1, 40))
        parent = np.array([-1] + [int(rng.integers(-1, i)) for i in range(1, n)])
        active = rng.random(n) < 0.4
        expected = []
        for i in range(n):
            while not active[i] and parent[i] >= 0:
                i = parent[i]
            expected.append(i)
        assert clusters(parent, active).tolist() == expected


def test_energies_of_bodies_add_up():
    """Kinetic energies shown by colour add up to the simulation's."""
    sim = lj.Simulation(lj.scenes.humanoid())
    sim.qd = np.random.default_rng(0).normal(size=sim.model.nv)
    assert body_values(sim, "kinetic energy").sum() == pytest.approx(sim.energy().kinetic, rel=1e-9)


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_gives_colours(mode):
    """In every mode each part has a colour within 0 .. 1; loops and adaptive models included."""
    from limberjack.viewer.drawing import Drawing

    sim = lj.Simulation(lj.scenes.four_bar())
    sim.step(10)
    drawing = Drawing(sim.model)
    values = body_values(sim, mode)
    colors = part_colors(drawing, mode, values, 1.0 if values is None else float(values.max()))
    assert colors.shape == (len(drawing.parts.body), 3) and colors.min() >= 0.0 and colors.max() <= 1.0


def test_heat_goes_from_blue_to_red():
    """Small values are blue, large ones red, beyond the largest stays red."""
    low, high, more = heat(np.array([0.0, 1.0, 5.0]), 1.0)
    assert low[2] > low[0] and high[0] > high[2] and np.array_equal(high, more)


@pytest.mark.parametrize("name", list(METHODS))
def test_a_gizmo_holds_a_body_in_every_method(name):
    """Held with a rotation, a body is drawn along in every method."""
    runner = Runner(under_method(pendulum(), lj.Adaptive(budget=3) if name == "adaptive" else name))
    grips = Grips(runner)
    runner.start()
    runner.play()
    body = runner.sim.model.body_names[-1]
    start = runner.ask(lambda sim: (sim.body(body).position.copy(), sim.rotations[-1].copy()), 300.0)
    grips.grab("gizmo", body, *start)
    grips.move("gizmo", start[0] + (-0.3, 0.0, 0.3), start[1])
    near = lambda: np.linalg.norm(runner.ask(lambda sim: sim.body(body).position - start[0])) > 0.2  # noqa: E731
    assert until(near)
    grips.release_all()
    assert runner.ask(lambda sim: len(grips._holds)) == 0
    runner.stop()
    assert len(runner.problems) <= 1
