"""`sweep`: one function over many parameters and seeds."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from limberjack.cluster import workers as places
from limberjack.cluster.plan import Parameters, Plan, planned
from limberjack.cluster.records import Sweep
from limberjack.errors import ClusterLost, FileError, StateError
from limberjack.simulation.recorder import Bar

__all__ = ["evaluate", "sweep"]


def sweep(
    function: Callable[..., Any],
    parameters: Parameters,
    folder: str | Path,
    address: str | None = None,
    *,
    workers: int | None = None,
    repeats: int = 1,
    seed: int = 0,
    resume: bool = True,
    progress: bool = False,
) -> Sweep:
    """Evaluate `function` over many parameters and store each result as it arrives; return all of them.

    Called again with the same folder it continues: runs that are done are not repeated, those that failed are. What a
    run returns depends on its parameters and its seed alone, so the results are the same, bit for bit, with any number
    of workers and after any loss. A script that calls this needs the usual `if __name__ == "__main__":`, since worker
    processes import it.

    Args:
        function: of one run; returns a number, an array, or a mapping of names to those. It is given `seed` if it has a
            parameter of that name.
        parameters: a mapping of names to sequences (every combination), a sequence of mappings (one per run), or a
            number of runs that differ by their seed alone.
        folder: where the results go, one NPZ per run.
        address: of a scheduler of dask.distributed; a cluster of processes on this machine when None.
        workers: processes on this machine, one per core when None; 0 evaluates everything in this process.
        repeats: runs of each combination, with seeds of their own.
        seed: of the whole sweep.
        resume: continue the sweep that is in the folder; where False, a folder that has one is refused.
        progress: show a progress bar.

    Raises:
        ClusterLost: the scheduler does not answer, or was lost; results until then are kept.
        FileError: the folder holds another sweep, is in use by another process, or cannot be written.
    """
    plan = planned(function, parameters, seed, repeats)

    def tasks(out: Sweep) -> Iterator[places.Task]:
        return (places.Task(run, _arguments(function, plan, run)) for run in out.left)

    return evaluate(function, plan, folder, tasks, address=address, workers=workers, resume=resume, progress=progress)


def evaluate(
    function: Callable[..., Any],
    plan: Plan,
    folder: str | Path,
    tasks: Callable[[Sweep], Iterator[places.Task]],
    *,
    address: str | None,
    workers: int | None,
    resume: bool,
    progress: bool,
) -> Sweep:
    """Evaluate the tasks that are left of a plan; see `sweep`. `tasks` may have more when results have arrived."""
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 0):
        raise StateError(f"workers must be a whole number >= 0 or None, got {workers!r}")
    if address is not None and workers is not None:
        raise StateError(f'workers are those of the scheduler at "{address}": leave out workers={workers}')
    out = Sweep.begun(folder, plan, resume=resume)
    with _alone(out.folder):
        out.forget_failures()
        if workers == 0:
            outcomes = places.in_this_process(function, tasks(out))
        else:
            ready = tasks(out)
            outcomes = places.on_cluster(function, ready, workers=workers, address=address) if out.left else iter(())
        _collect(out, outcomes, progress=progress)
    return out


def _collect(out: Sweep, outcomes: Iterator[places.Outcome], *, progress: bool) -> None:
    """Store outcomes as they arrive."""
    try:
        with Bar(progress, len(out), f"sweep ({out.folder})") as advance:
            advance(len(out) - len(out.left))
            for outcome in outcomes:
                if outcome.arrays is None:
                    out.fail(outcome.run, outcome.error)
                else:
                    out.add(outcome.run, outcome.arrays)
                advance(1)
    except ClusterLost as error:
        kept = f"{len(out.done)} of {len(out)} results are in {out.folder}: repeat the call to continue"
        raise ClusterLost(f"{error}; {kept}") from error
    finally:
        close = getattr(outcomes, "close", None)
        if close is not None:
            close()


def _arguments(function: Callable[..., Any], plan: Plan, run: int) -> dict[str, Any]:
    arguments = dict(plan.parameters[run])
    try:
        seeded = "seed" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        seeded = False
    if seeded:
        arguments.setdefault("seed", plan.seed_of(run))
    return arguments


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other processes from writing to the same sweep, where the system has locks of files."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(folder / ".lock", "wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise FileError(folder, "another process is at work on this sweep") from error
        yield
