"""Where runs are evaluated: in this process, in processes of this machine, or by the workers of a scheduler."""

from __future__ import annotations

import logging
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from limberjack.errors import ClusterLost, StateError, require

__all__ = ["Outcome", "Task", "in_this_process", "on_cluster"]

# Runs that a scheduler knows of at a time: enough that no worker waits, few enough that results do not pile up.
_AHEAD, _FEWEST_AHEAD = 4, 32
_CONNECT_SECONDS = 10
# Modules whose path has one of these are installed, on workers as here.
_INSTALLED = ("site-packages", "dist-packages")


class Task(NamedTuple):
    """A run: its index and the arguments of the function."""

    run: int
    arguments: Mapping[str, Any]


class Outcome(NamedTuple):
    """What became of a run: its arrays, or the message of what was raised."""

    run: int
    arrays: dict[str, np.ndarray] | None
    error: str = ""


def in_this_process(function: Callable[..., Any], tasks: Iterable[Task]) -> Iterator[Outcome]:
    """Evaluate one run after the other."""
    for task in tasks:
        try:
            yield Outcome(task.run, _evaluate(function, task.arguments))
        except Exception as error:
            yield Outcome(task.run, None, _told(error))


def on_cluster(
    function: Callable[..., Any], tasks: Iterable[Task], *, workers: int | None, address: str | None
) -> Iterator[Outcome]:
    """Evaluate runs as workers become free; outcomes come in the order in which they are finished.

    A run whose worker is lost is given to another one. Leaving the loop cancels what is not finished.

    Args:
        function: of a run's arguments.
        tasks: the runs.
        workers: processes on this machine; one per core when None. Not with `address`.
        address: of a scheduler of dask.distributed.
    """
    distributed = require("distributed", extra="cluster")
    with ExitStack() as stack:
        client = stack.enter_context(_client(distributed, stack, workers, address))
        queue, submitted, shipped = iter(tasks), distributed.as_completed(), _shipped(function)
        runs: dict[Any, int] = {}
        ahead = max(_FEWEST_AHEAD, _AHEAD * sum(client.nthreads().values()))

        def submit() -> None:
            for task in islice(queue, ahead - len(runs)):
                future = client.submit(_evaluate_shipped, shipped, dict(task.arguments), pure=False)
                runs[future] = task.run
                submitted.add(future)

        submit()
        try:
            for future in submitted:
                run = runs.pop(future)
                if future.status in ("cancelled", "lost"):
                    where = address or "of this machine"
                    raise ClusterLost(f"the scheduler {where} is gone")
                error = future.exception()
                arrays = None if error is not None else future.result()
                future.release()
                yield Outcome(run, arrays, "" if error is None else _told(error))
                submit()  # what has arrived may be what other tasks waited for
        finally:
            with suppress(Exception):
                client.cancel(list(runs))


def _client(distributed: Any, stack: ExitStack, workers: int | None, address: str | None) -> Any:
    """Return a client of the scheduler at `address`, or of a cluster of processes made for it."""
    if address is None:
        cluster = distributed.LocalCluster(
            n_workers=workers or os.cpu_count() or 1,
            threads_per_worker=1,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        )
        return distributed.Client(stack.enter_context(cluster))
    try:
        return distributed.Client(address, timeout=_CONNECT_SECONDS)
    except (OSError, ValueError, TimeoutError) as error:
        raise ClusterLost(f"no scheduler answers at {address}: {error}") from error


def _shipped(function: Callable[..., Any]) -> bytes:
    """Return a function as bytes: with its code, where workers may lack its module (a script, a notebook, a test).

    The bytes are read within a run: what cannot be read there fails that run by name, whereas an argument that the
    scheduler's own protocol cannot read would end the worker.
    """
    cloudpickle = require("cloudpickle", extra="cluster")
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    path = getattr(module, "__file__", None) or ""
    installed = any(folder in path for folder in _INSTALLED)
    if module is None or installed or module.__name__.partition(".")[0] in ("limberjack", "__main__"):
        return cloudpickle.dumps(function)
    cloudpickle.register_pickle_by_value(module)
    try:
        return cloudpickle.dumps(function)
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def _evaluate_shipped(shipped: bytes, arguments: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return _evaluate(pickle.loads(shipped), arguments)


def _evaluate(function: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the result of a run as named arrays; runs on a worker."""
    result = function(**arguments)
    if result is None:
        return {}
    named = result if isinstance(result, Mapping) else {"value": result}
    out = {}
    for name, value in named.items():
        array = np.asarray(value)
        if not isinstance(name, str) or not name.isidentifier() or array.dtype.hasobject:
            raise StateError(
                f"a run returns numbers, texts or arrays, or a mapping of names to those; got {value!r} for {name!r}"
            )
        out[name] = array
    return out


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
