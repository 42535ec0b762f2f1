"""Table `start`: what a user waits for before anything moves, measured in fresh processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import limberjack
from limberjack import scenes
from limberjack_lab.bench.peers import to_mjcf
from limberjack_lab.bench.table import MISSING, Cell, Table, Watch, peer

__all__ = ["Run", "TITLE", "fill", "run_python"]

TITLE = "from the command to the first step, in fresh processes"
_LINKS, _QUICK_LINKS = 100_000, 10_000

_FIRST_STEP = "import limberjack as lj; lj.Simulation(lj.scenes.double_pendulum()).step()"
_MUJOCO_STEP = (
    "import sys, mujoco; m = mujoco.MjModel.from_xml_string(sys.argv[1]); mujoco.mj_step(m, mujoco.MjData(m))"
)
# Reports seconds and the peak of the memory [MB]. VmHWM belongs to this process alone; ru_maxrss may hold its parent's.
_BUILD = """
import json, sys, time
import limberjack as lj

def peak():
    try:
        with open("/proc/self/status") as lines:
            return next(int(line.split()[1]) / 1e3 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        try:
            import resource
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
        except ImportError:
            return None

lj.Simulation(lj.scenes.double_pendulum()).step()
before, begin = peak(), time.perf_counter()
model = lj.scenes.long_chain(links=int(sys.argv[1]))
built = time.perf_counter()
lj.Simulation(model).step()
print(json.dumps({"build": built - begin, "step": time.perf_counter() - built, "before": before, "peak": peak()}))
"""


class Run(NamedTuple):
    """A process that ended: how long it took [s], what it printed, and the last line of its complaint if it failed."""

    seconds: float
    output: str
    problem: str


def run_python(*arguments: str, **extra: str) -> Run:
    """Run Python in a fresh process that finds this very package, with `extra` variables in its environment."""
    paths = [str(Path(limberjack.__file__).parent.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **extra}
    begin = time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True)
    spent = time.perf_counter() - begin
    problem = "" if done.returncode == 0 else (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
    return Run(spent, done.stdout, problem)


def _seconds(table: Table, what: str, run: Run) -> Cell:
    """Return the seconds of a run, or a text and a note when it failed."""
    if run.problem:
        table.note(f"{what} failed: {run.problem}")
        return "failed"
    return run.seconds


def _turns(table: Table, commands: dict[str, tuple[str, ...]], rounds: int, watch: Watch) -> dict[str, Cell]:
    """Return the least seconds of each command, the commands taking turns after one run that fills caches."""
    best: dict[str, Cell] = {}
    watch.begin((rounds + 1) * len(commands))
    for turn in range(rounds + 1):
        for key, arguments in commands.items():
            watch(f"{key}, run {turn} of {rounds}", 1)
            spent, before = _seconds(table, key, run_python(*arguments)), best.get(key)
            if isinstance(spent, str) or turn <= 1:
                best[key] = spent
            elif isinstance(before, float) and isinstance(spent, float):
                best[key] = min(before, spent)
    return best


def _fill_waits(table: Table, quick: bool, watch: Watch) -> None:
    part = table.part("waiting, wall time", "what: what; ours: Limberjack [s]; mujoco: MuJoCo [s]; pin: pinocchio [s]")
    here = {key: peer(module, table) is not None for key, module in (("mujoco", "mujoco"), ("pin", "pinocchio"))}
    ours = {
        "Python alone": ("-c", "pass"),
        "Python and the import": ("-c", "import limberjack"),
        "limberjack --help": ("-m", "limberjack", "--help"),
        "to the first step, kernels compiled before": ("-c", _FIRST_STEP),
    }
    commands, rows = dict(ours), [part.add(what=what) for what in ours]
    if here["mujoco"]:
        commands["import mujoco"] = ("-c", "import mujoco")
        commands["step mujoco"] = ("-c", _MUJOCO_STEP, to_mjcf(scenes.double_pendulum()))
    if here["pin"]:
        commands["import pin"] = ("-c", "import pinocchio")
    times = _turns(table, commands, 2 if quick else 5, watch)
    for row, what in zip(rows, ours, strict=True):
        row["ours"] = times[what]
    for key in ("mujoco", "pin"):
        rows[1][key] = times.get(f"import {key}", MISSING)
    rows[3]["mujoco"] = times.get("step mujoco", MISSING)
    if not quick:
        row = part.add(what="to the first step, nothing compiled yet")
        watch("the first step with an empty cache: compiles for about a minute")
        with tempfile.TemporaryDirectory() as folder:
            row["ours"] = _seconds(table, "the first step", run_python("-c", _FIRST_STEP, LIMBERJACK_CACHE_DIR=folder))


def _fill_building(table: Table, quick: bool, watch: Watch) -> None:
    links = _QUICK_LINKS if quick else _LINKS
    part = table.part(f"a chain of {links:,} links", "what: what; value: value; unit: unit")
    watch(f"building {links:,} links")
    run = run_python("-c", _BUILD, str(links))
    if run.problem:
        part.add(what="building", value=_seconds(table, "building", run))
        return
    found: dict[str, Any] = json.loads(run.output)
    part.add(what="build the model", value=found["build"], unit="s")
    part.add(what="simulation and first step", value=found["step"], unit="s")
    if found["peak"] is not None:
        part.add(what="peak of the memory", value=found["peak"], unit="MB")
        part.add(what="of that for the chain", value=found["peak"] - found["before"], unit="MB")


def fill(table: Table, quick: bool, watch: Watch) -> None:
    """Measure the table; see `TABLES`."""
    table.note("wall time of whole processes, best of runs taken in turns; files are in the system's cache")
    _fill_waits(table, quick, watch)
    _fill_building(table, quick, watch)
