"""`Runner`: a simulation on its own thread, paced by the clock, that takes commands and publishes frames.

No other thread accesses the simulation: others leave commands (functions of it), which run between two batches of
steps, and read the newest frame. The runner never waits for them.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba.core import event

from limberjack.errors import LimberjackError
from limberjack.simulation.simulation import Simulation, Snapshot
from limberjack.simulation.trajectory import Trajectory
from limberjack.viewer.carry_over import transplant

__all__ = ["Frame", "Runner"]

# Longest batch of steps, so that commands run soon [s].
_BATCH = 0.008
# Rate of recordings and drives [frames per simulated second].
_RATE = 60.0
# Longest recording [frames]: half an hour.
_LONGEST = 108_000


class _Counter(event.Listener):
    """Counts the functions that Numba compiles."""

    def __init__(self) -> None:
        self.count = 0

    def on_start(self, event: Any) -> None:
        """Do nothing: a function counts when it is done."""

    def on_end(self, event: Any) -> None:
        """Count one."""
        self.count += 1


class Frame(NamedTuple):
    """What is displayed at one time."""

    number: int
    generation: int  # incremented with every new simulation
    time: float
    steps: int
    q: np.ndarray
    cluster_roots: np.ndarray | None  # root links of the rigid clusters of method adaptive
    facts: dict[str, Any]  # results of the watchers, by name


class Runner:
    """Runs a simulation.

    Args:
        sim: the simulation.
        drive: called with the simulation sixty times per simulated second, or None.
        rate: published frames per second.
    """

    def __init__(self, sim: Simulation, drive: Callable[[Any], None] | None = None, rate: float = 30.0) -> None:
        self.sim, self.drive, self.rate = sim, drive, rate
        self.speed, self.playing = 1.0, False
        self.state = "starting"
        self._compiled = _Counter()
        self.real_time_factor = self.steps_per_second = self.step_seconds = 0.0
        self.watchers: dict[str, Callable[[Simulation], Any]] = {}
        self.before_batch: list[Callable[[Simulation, float], None]] = []
        self.problems: deque[str] = deque(maxlen=20)
        self._orders: deque[Callable[[Simulation], Any]] = deque()
        self._wake = threading.Event()
        self._newest: Frame | None = None
        self._arrived = threading.Condition()
        self._number = self.generation = 0
        self._start: Snapshot | None = None
        self._recording: list[tuple[float, np.ndarray, np.ndarray]] | None = None
        self._since_tick = 0
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="limberjack-simulation", daemon=True)

    # Commands

    def start(self) -> None:
        """Start the thread, which compiles first."""
        self._thread.start()

    def stop(self, timeout: float = 10.0) -> None:
        """End the thread; a batch under way is finished."""
        self._stopped = True
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
        """Run or pause."""
        self.playing = on
        self._wake.set()

    def single_step(self) -> None:
        """Pause and take one step."""
        self.playing = False
        self.order(lambda sim: self._advance(1))

    def reset(self) -> None:
        """Restore the initial state."""

        def back(sim: Simulation) -> None:
            if self._start is not None:
                transplant(self._start, sim)
                self._since_tick = 0

        self.order(back)

    def replace(self, sim: Simulation, drive: Callable[[Any], None] | None = None, start: bool = True) -> None:
        """Run another simulation from now on; for commands, which run on the runner's thread.

        Args:
            sim: the other simulation.
            drive: its drive.
            start: whether `reset` restores this one.
        """
        self._compile(sim)
        self.sim, self.drive = sim, drive
        if start:
            self._since_tick, self._recording, self._start = 0, None, sim.snapshot()
        self.generation += 1

    # Frames

    def frame(self, after: int = -1, timeout: float | None = None) -> Frame | None:
        """Return the newest frame once its number is above `after`; None when none came in time."""
        with self._arrived:
            fresh = lambda: self._stopped or (self._newest is not None and self._newest.number > after)  # noqa: E731
            self._arrived.wait_for(fresh, timeout)
            newest = self._newest
        return newest if newest is not None and newest.number > after else None

    @property
    def compiled_functions(self) -> int:
        """Functions compiled so far for the simulation that is to run."""
        return self._compiled.count

    # Recording

    @property
    def recorded_frames(self) -> int:
        """Frames of the recording so far; 0 when none runs."""
        return len(self._recording) if self._recording is not None else 0

    def record(self) -> None:
        """Begin a recording."""

        def begin(sim: Simulation) -> None:
            self._recording = [(sim.time, sim.q, sim.qd)]

        self.order(begin)

    def recorded(self) -> Trajectory | None:
        """End the recording and return it; None when there was none. Waits for the batch under way."""

        def end(sim: Simulation) -> Trajectory | None:
            rows, self._recording = self._recording, None
            if not rows:
                return None
            times, q, qd = (np.array(column) for column in zip(*rows, strict=True))
            return Trajectory(sim.model, times, q, qd)

        return self.ask(end)

    # The thread

    def _run(self) -> None:
        try:
            self._compile(self.sim)
            self._start = self.sim.snapshot()
        except Exception as error:
            self._tell(error)
        self.state = "ready"
        self._publish()
        due, debt, then = 0.0, 0.0, time.perf_counter()
        taken, spent, measured = 0, 0.0, then
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
            taken, spent = taken + steps, spent + (end - now if steps else 0.0)
            if end - measured > 0.5:
                self._rates(taken, spent, end - measured)
                taken, spent, measured = 0, 0.0, end
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
                each = self.step_seconds or 1e-4
                left = max(1, min(wanted - taken, self._until_tick(), int((end - time.perf_counter()) / each)))
                begin = time.perf_counter()
                self._advance(left)
                self.step_seconds = 0.8 * self.step_seconds + 0.2 * (time.perf_counter() - begin) / left
                taken += left
        except Exception as error:
            self.playing = False
            self._tell(error)
        return taken

    def _until_tick(self) -> int:
        """Return the steps up to the next frame of the recording and the drive; unbounded where there is neither."""
        if self.drive is None and self._recording is None:
            return sys.maxsize
        return max(1, round(1.0 / (_RATE * self.sim.dt)) - self._since_tick)

    def _advance(self, steps: int) -> None:
        """Take steps; after each sixtieth of a second record and drive."""
        whole = self._until_tick()
        self.sim.step(steps)
        self._since_tick += steps if whole < sys.maxsize else 0
        if steps >= whole:
            self._since_tick = 0
            if self._recording is not None and len(self._recording) < _LONGEST:
                self._recording.append((self.sim.time, self.sim.q, self.sim.qd))
            if self.drive is not None:
                self.drive(self.sim)

    def _rates(self, taken: int, spent: float, passed: float) -> None:
        self.steps_per_second = taken / passed
        self.real_time_factor = taken * self.sim.dt / passed
        if taken:
            self.step_seconds = spent / taken

    def _publish(self) -> None:
        facts = {}
        for name, watch in list(self.watchers.items()):
            try:
                facts[name] = watch(self.sim)
            except Exception as error:
                self._tell(error)
        self._number += 1
        sim = self.sim
        frame = Frame(self._number, self.generation, sim.time, sim.steps, sim.q, sim.cluster_roots(), facts)
        with self._arrived:
            self._newest = frame
            self._arrived.notify_all()

    def _compile(self, sim: Simulation) -> None:
        """Compile the kernels of a step, and leave the state unchanged."""
        self.state, self._compiled = "compiling", _Counter()
        before = sim.snapshot()
        try:
            with event.install_listener("numba:compile", self._compiled):
                sim.step(1)
        finally:
            sim.restore(before)
            self.state = "ready"
