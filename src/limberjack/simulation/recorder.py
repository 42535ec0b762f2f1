"""What running needs beside steps: recorded frames, a progress bar, and Ctrl-C deferred until a step is counted."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable
from threading import get_ident
from typing import Any

import numpy as np

from limberjack.simulation.trajectory import Trajectory

__all__ = ["Bar", "Frames", "Uninterrupted"]

# The functions of `signal` without their enums, which cost more than a step.
_signal: Any = importlib.import_module("_signal")
_get_signal, _set_signal = _signal.getsignal, _signal.signal
_SIGINT, _DEFAULT = _signal.SIGINT, _signal.default_int_handler
# The main thread: after a fork the one that forked.
_main = [threading.main_thread().ident]
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _main.__setitem__(0, get_ident()))


class Frames:
    """Collects frames of a running simulation."""

    def __init__(self, sim: Any) -> None:
        self._sim = sim
        self._frames: list[tuple[float, np.ndarray, np.ndarray]] = []
        self.add()

    def add(self) -> None:
        """Record the state of now: all of it or, when interrupted, nothing."""
        self._frames.append((self._sim.time, self._sim.q, self._sim.qd))

    def drop_after(self, time: float) -> None:
        """Drop the frames later than `time` [s], except the first."""
        self._frames[1:] = [frame for frame in self._frames[1:] if frame[0] <= time]

    def trajectory(self) -> Trajectory:
        """Return what was recorded."""
        times, q, qd = zip(*self._frames, strict=True)
        return Trajectory(self._sim.model, np.array(times), np.array(q), np.array(qd))


class Bar:
    """A rich progress bar, or nothing; gives a function that advances it."""

    def __init__(self, shown: bool, total: int | None, title: str) -> None:
        self._progress: Any = None
        if shown:
            from rich.progress import Progress

            self._progress = Progress(transient=False)
            self._task = self._progress.add_task(title, total=total)

    def __enter__(self) -> Callable[[int], None]:
        if self._progress is None:
            return lambda n: None
        self._progress.start()
        return lambda n: self._progress.update(self._task, advance=n)

    def __exit__(self, *problem: object) -> None:
        if self._progress is not None:
            self._progress.stop()


class Uninterrupted:
    """Defers Ctrl-C for the length of a block.

    Without it an interrupt could fall between the return of a compiled call and the counting of its steps, or leave
    worker threads stepping. Only Python's own handler on the main thread is replaced.
    """

    __slots__ = ("_handler", "_hit", "_mine")

    def __init__(self) -> None:
        self._hit = self._mine = False
        self._handler = self._note

    def __enter__(self) -> None:
        self._hit = False
        self._mine = get_ident() == _main[0] and _get_signal(_SIGINT) is _DEFAULT
        if self._mine:
            _set_signal(_SIGINT, self._handler)

    def _note(self, number: int, frame: Any) -> None:
        self._hit = True

    def __exit__(self, *problem: object) -> None:
        if self._mine:
            _set_signal(_SIGINT, _DEFAULT)
            if self._hit:
                raise KeyboardInterrupt
