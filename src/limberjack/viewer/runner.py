"""`Runner`: one simulation, or several side by side, on a thread, paced by the clock.

No other thread accesses the simulations: others leave commands (functions of it), which run between two batches of
steps, and read the newest frame. The runner never waits for them.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba.core import event

from limberjack.errors import LimberjackError
from limberjack.simulation.simulation import Simulation, Snapshot
from limberjack.viewer.carry_over import transplant
from limberjack.viewer.colors import body_clusters
from limberjack.viewer.history import History, Moment, continue_from

__all__ = ["Frame", "Run", "RunFrame", "Runner"]

# Longest batch of steps, so that commands run soon [s].
_BATCH = 0.008
# Rate of recordings and drives [frames per simulated second].
_RATE = 60.0
# A new simulation is run ahead, and put back, for the camera to frame its motion: so long at most, in simulated and in
# real time [s], and one state kept of so many frames.
_AHEAD, _AHEAD_TIME, _EVERY = 3.0, 0.35, 6


class _Compiling(event.Listener):
    """What Numba compiles now: functions done since it began, and since when; also in the midst of a command."""

    def __init__(self) -> None:
        self.count = self._depth = 0
        self.since: float | None = None

    def on_start(self, event: Any) -> None:
        """Begin a function; those it calls are compiled within."""
        if not self._depth:
            self.count, self.since = 0, time.perf_counter()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        """End a function."""
        self.count += 1
        self._depth -= 1
        if not self._depth:
            self.since = None


class RunFrame(NamedTuple):
    """What is displayed of one simulation."""

    q: np.ndarray
    cluster_roots: np.ndarray | None  # root links of the rigid clusters of method adaptive
    facts: dict[str, Any]  # results of the watchers, by name


class Frame(NamedTuple):
    """What is displayed at one time."""

    number: int
    generation: int  # incremented with every new simulation
    time: float
    steps: int
    runs: tuple[RunFrame, ...]
    lead: int  # which of them commands act on

    @property
    def q(self) -> np.ndarray:
        """Coordinates of the simulation that commands act on."""
        return self.runs[self.lead].q

    @property
    def facts(self) -> dict[str, Any]:
        """Results of the watchers for the simulation that commands act on."""
        return self.runs[self.lead].facts


class Run:
    """One of the simulations that run side by side.

    Attributes:
        sim: the simulation.
        label: what distinguishes it from the others.
        history: what it did until now.
        step_seconds: what one step takes, smoothed [s].
        start: where `reset` leads.
    """

    def __init__(self, sim: Simulation, label: str = "") -> None:
        self.sim, self.label, self.history = sim, label, History()
        self.step_seconds = 0.0
        self.start: Snapshot | None = None


class Runner:
    """Runs a simulation, or several of equal time step side by side.

    Args:
        sim: the simulation.
        drive: called with each simulation before its first step and sixty times per simulated second, or None.
        rate: published frames per second.
        waits: whether compiling begins only after `shown` is set: the page shows the model meanwhile.
        looks_ahead: whether new simulations are run ahead, their drive included, for a preview of the motion.

    Attributes:
        runs: the simulations; commands act on `runs[lead]`.
        preview: coordinates along the first seconds of the motion, found in advance; `previews` counts them.
    """

    def __init__(
        self, sim: Simulation, drive: Callable[[Any], None] | None = None, rate: float = 30.0, *,
        waits: bool = False, looks_ahead: bool = False,
    ) -> None:  # fmt: skip
        self._looks_ahead = looks_ahead
        self.runs, self.lead, self.drive, self.rate = [Run(sim)], 0, drive, rate
        self.speed, self.playing = 1.0, False
        self.state = "starting"
        self.shown = threading.Event()
        if not waits:
            self.shown.set()
        self._compiling = _Compiling()
        self.real_time_factor = self.steps_per_second = 0.0
        self.watchers: dict[str, Callable[[Simulation], Any]] = {}
        self.before_batch: list[Callable[[Simulation, float], None]] = []
        self.problems: deque[str] = deque(maxlen=20)
        self.preview: list[np.ndarray] = []
        self.previews = 0
        self._orders: deque[Callable[[Simulation], Any]] = deque()
        self._wake = threading.Event()
        self._newest: Frame | None = None
        self._arrived = threading.Condition()
        self._number = self.generation = 0
        self._looking_back: int | None = None
        self._since_tick = 0
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="limberjack-simulation", daemon=True)

    @property
    def sim(self) -> Simulation:
        """The simulation that commands act on."""
        return self.runs[self.lead].sim

    @property
    def step_seconds(self) -> float:
        """Time of one step of the simulation that commands act on [s]."""
        return self.runs[self.lead].step_seconds

    # Commands

    def start(self) -> None:
        """Start the thread, which compiles first."""
        self._thread.start()

    def stop(self, timeout: float = 10.0) -> None:
        """End the thread; a batch under way is finished."""
        self._stopped = True
        self.shown.set()
        self._wake.set()
        with self._arrived:
            self._arrived.notify_all()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def order(self, act: Callable[[Simulation], Any]) -> None:
        """Queue `act`, called with the simulation between two batches of steps; errors go to `problems`."""
        self._orders.append(act)
        self._wake.set()

    def ask(self, act: Callable[[Simulation], Any], timeout: float = 30.0) -> Any:
        """Return what `act` returns, called as by `order`; its errors are raised here."""
        answer: list[Any] = []
        done = threading.Event()

        def keep(sim: Simulation) -> None:
            try:
                answer.append((act(sim), None))
            except BaseException as error:  # raised by the caller
                answer.append((None, error))
            finally:
                done.set()

        self.order(keep)
        if not done.wait(timeout):
            raise LimberjackError(f"the simulation did not answer within {timeout:g} s")
        value, error = answer[0]
        if error is not None:
            raise error
        return value

    def play(self, on: bool = True) -> None:
        """Run or pause; running goes on from the present, not from a moment looked back to."""
        self.playing = on
        if on:
            self._looking_back = None
        self._wake.set()

    def single_step(self) -> None:
        """Pause and take one step."""
        self.playing, self._looking_back = False, None
        self.order(lambda sim: self._advance(1))

    def reset(self) -> None:
        """Restore the initial state."""

        def back(sim: Simulation) -> None:
            self._looking_back, self._since_tick = None, 0
            for run in self.runs:
                if run.start is not None:
                    transplant(run.start, run.sim)
                    run.history.drop_from(run.sim.time)

        self.order(back)

    def replace(self, sim: Simulation, drive: Callable[[Any], None] | None = None, start: bool = True) -> None:
        """Run another simulation from now on; for commands, which run on the runner's thread.

        Args:
            sim: the other simulation.
            drive: its drive.
            start: whether it takes the place of all that run, begins a new history, and `reset` restores it.
        """
        if not start:
            self._compile(sim)
            self.runs[self.lead].sim, self.drive = sim, drive
            self.generation += 1
            return
        run = Run(sim)
        self.runs, self.lead, self.drive = [run], 0, drive
        self._since_tick, self._looking_back, self.preview = 0, None, []
        self.generation += 1
        self.state = "starting"
        self._publish()  # the page shows the model while its kernels are compiled
        self._prepare(run)

    def place_side_by_side(self, runs: list[Run]) -> None:
        """Run these simulations together from now on; for commands. Commands act on the last of them."""
        for run in runs:
            self._compile(run.sim)
            run.start = run.sim.snapshot()
        self.runs, self.lead = runs, len(runs) - 1
        self._since_tick, self._looking_back = 0, None
        self.generation += 1

    def order_with(self, k: int, act: Callable[[Simulation], Any]) -> None:
        """Queue `act` as `order` does, called with the k-th of the simulations."""
        self.order(lambda sim: act(self.runs[k].sim) if k < len(self.runs) else None)

    # Frames

    def frame(self, after: int = -1, timeout: float | None = None) -> Frame | None:
        """Return the newest frame once its number is above `after`; None when none came in time."""
        with self._arrived:
            fresh = lambda: self._stopped or (self._newest is not None and self._newest.number > after)  # noqa: E731
            self._arrived.wait_for(fresh, timeout)
            newest = self._newest
        return newest if newest is not None and newest.number > after else None

    @property
    def compiling(self) -> tuple[float, int] | None:
        """How long kernels have been compiled for [s], and functions done; None while none are."""
        since = self._compiling.since
        return None if since is None else (time.perf_counter() - since, self._compiling.count)

    # What was recorded

    @property
    def recorded_frames(self) -> int:
        """Frames of the recording so far; 0 when none runs."""
        return self.runs[0].history.marked

    def record(self) -> None:
        """Begin a recording with the state of now."""

        def begin(sim: Simulation) -> None:
            self._looking_back = None
            if self.drive is None:  # whose ticks come at its own times
                self._since_tick = 0
            for run in self.runs:
                run.history.add(run.sim, run.step_seconds)
                run.history.mark(run.sim.time)

        self.order(begin)

    def recorded(self) -> list[tuple[Run, list[Moment]]]:
        """End the recording and return its moments by run; empty when there was none. Waits for the batch under way."""

        def end(sim: Simulation) -> list[tuple[Run, list[Moment]]]:
            return [(run, moments) for run in self.runs if (moments := run.history.unmark())]

        return self.ask(end)

    def everything(self) -> list[tuple[Run, list[Moment]]]:
        """Return all moments in memory, by run."""
        return self.ask(lambda sim: [(run, moments) for run in self.runs if (moments := run.history.moments())])

    def look_back(self, share: float) -> None:
        """Pause and show a moment of the past.

        Args:
            share: from 0, the oldest in memory, to 1, the present.
        """
        self.playing = False

        def look(sim: Simulation) -> None:
            count = len(self.runs[self.lead].history)
            k = round(min(max(share, 0.0), 1.0) * max(0, count - 1))
            self._looking_back = k if count and share < 1.0 else None

        self.order(look)

    def continue_from_there(self) -> None:
        """Go on from the moment that is shown; what came after it is dropped."""

        def go(sim: Simulation) -> None:
            k, self._looking_back, self._since_tick = self._looking_back, None, 0
            for run in self.runs if k is not None else ():
                if len(run.history):
                    moment = run.history[min(k, len(run.history) - 1)]  # pyright: ignore[reportArgumentType]
                    continue_from(run.sim, moment)
                    run.history.drop_from(moment.time)
                    run.history.add(run.sim, run.step_seconds)

        self.order(go)

    @property
    def looking_back(self) -> Moment | None:
        """The moment of the past that is shown, or None: the present is."""
        k, history = self._looking_back, self.runs[self.lead].history
        return None if k is None or k >= len(history) else history[k]

    # The thread

    def _run(self) -> None:
        with event.install_listener("numba:compile", self._compiling):
            self._step_until_stopped()

    def _step_until_stopped(self) -> None:
        self._publish()
        while not self.shown.wait(0.2):
            pass
        if not self._stopped:
            try:
                self._prepare(self.runs[0])
            except Exception as error:
                self._tell(error)
        self.state = "ready"
        self._publish()
        due, debt, then = 0.0, 0.0, time.perf_counter()
        taken, measured = 0, then
        while not self._stopped:
            changed = self._obey()
            now = time.perf_counter()
            passed, then = min(now - then, 0.1), now
            steps = 0
            if self.playing:
                debt = min(debt + passed * self.speed, 0.1 * max(1.0, self.speed))
                dt = self.sim.dt
                if debt >= dt:
                    steps = self._batch(int(debt / dt), passed)
                    debt = max(0.0, debt - steps * dt)
                    # time that could not be simulated is dropped: the motion is slow then and does not jump
                    debt = min(debt, 0.05 * self.speed)
            else:
                debt = 0.0
            end = time.perf_counter()
            taken += steps
            if end - measured > 0.5:
                self.steps_per_second = taken / (end - measured)
                self.real_time_factor = taken * self.sim.dt / (end - measured)
                taken, measured = 0, end
            if (steps or changed) and end >= due:
                self._publish()
                due = max(due + 1.0 / self.rate, end)  # by the clock, not by the end of the batch
            elif changed:
                self._publish()
            if not steps:
                self._wake.wait(0.002 if self.playing else 0.1)
                self._wake.clear()

    def _tell(self, error: Exception) -> None:
        """Record an error for display; the thread continues."""
        internal = "" if isinstance(error, LimberjackError) else f"internal error, {type(error).__name__}: "
        self.problems.append(internal + str(error))

    def _obey(self) -> bool:
        """Run the queued commands; return whether there were any."""
        any_order = bool(self._orders)
        while self._orders:
            act = self._orders.popleft()
            try:
                act(self.sim)
            except Exception as error:
                self._tell(error)
        return any_order

    def _batch(self, wanted: int, passed: float) -> int:
        """Take up to `wanted` steps within the length of a batch; return how many."""
        end, taken = time.perf_counter() + _BATCH, 0
        try:
            for act in self.before_batch:
                act(self.sim, passed)
            while taken < wanted and time.perf_counter() < end and not self._orders:
                each = sum(run.step_seconds for run in self.runs) or 1e-4
                left = max(1, min(wanted - taken, self._until_tick(), int((end - time.perf_counter()) / each)))
                self._advance(left)
                taken += left
        except Exception as error:
            self.playing = False
            self._tell(error)
        return taken

    def _until_tick(self) -> int:
        """Return the steps up to the next frame of the history and the drive."""
        return max(1, round(1.0 / (_RATE * self.sim.dt)) - self._since_tick)

    def _advance(self, steps: int) -> None:
        """Take steps; after each sixtieth of a second record and drive."""
        whole = self._until_tick()
        for run in self.runs:
            if not len(run.history):
                run.history.add(run.sim, run.step_seconds)
            begin = time.perf_counter()
            run.sim.step(steps)
            spent = (time.perf_counter() - begin) / steps
            share = 0.2 if run.step_seconds else 1.0
            run.step_seconds += share * (spent - run.step_seconds)
        self._since_tick += steps
        if steps >= whole:
            self._since_tick = 0
            for run in self.runs:
                run.history.add(run.sim, run.step_seconds)
                if self.drive is not None:
                    self.drive(run.sim)

    def _publish(self) -> None:
        """Publish the present, or the moment of the past that is looked at."""
        moment = self.looking_back
        shots = tuple(self._present(run) if moment is None else self._past(run) for run in self.runs)
        self._number += 1
        sim = self.sim
        time, steps = (sim.time, sim.steps) if moment is None else (moment.time, moment.steps)
        frame = Frame(self._number, self.generation, time, steps, shots, self.lead)
        with self._arrived:
            self._newest = frame
            self._arrived.notify_all()

    def _present(self, run: Run) -> RunFrame:
        facts: dict[str, Any] = {}
        if self.state == "starting":  # nothing is compiled yet
            return RunFrame(run.sim.q, None, facts)
        for name, watch in list(self.watchers.items()):
            try:
                facts[name] = watch(run.sim)
            except Exception as error:
                self._tell(error)
        return RunFrame(run.sim.q, run.sim.cluster_roots(), facts)

    def _past(self, run: Run) -> RunFrame:
        assert self._looking_back is not None
        moment = run.history[min(self._looking_back, len(run.history) - 1)]
        values = None if moment.active is None else body_clusters(run.sim.model, moment.active)
        return RunFrame(moment.q, None, {"values": ("own" if values is None else "rigid cluster", values)})

    def _prepare(self, run: Run) -> None:
        """Begin what drives the simulation, compile, look ahead, and keep the state for `reset`."""
        if self.drive is not None:
            self.drive(run.sim)
        self._compile(run.sim, ahead=self._looks_ahead)
        run.start = run.sim.snapshot()

    def _compile(self, sim: Simulation, ahead: bool = False) -> None:
        """Compile the kernels of a step, and look ahead if asked to; the state is left unchanged."""
        self.state = "preparing"
        before = sim.snapshot()
        try:
            sim.step(1)
            if ahead:
                self._look_ahead(sim)
        finally:
            sim.restore(before)
            self.state = "ready"

    def _look_ahead(self, sim: Simulation) -> None:
        """Keep coordinates along the motion to come."""
        found, end, last = [sim.q], time.perf_counter() + _AHEAD_TIME, sim.time + _AHEAD
        each = max(1, round(1.0 / (_RATE * sim.dt)))
        try:
            done = 0
            while sim.time < last and time.perf_counter() < end:
                begin = time.perf_counter()
                sim.step(1)
                left = end - time.perf_counter()
                rest = min(each - 1, int(left / max(time.perf_counter() - begin, 1e-6)))
                sim.step(max(0, rest))
                done += 1
                if done % _EVERY == 0 or rest < each - 1:
                    found.append(sim.q)
                if self.drive is not None:
                    self.drive(sim)
        except LimberjackError:
            pass  # a motion that diverges is told of when it does
        self.preview = [q for q in found if np.isfinite(q).all()]
        self.previews += 1
