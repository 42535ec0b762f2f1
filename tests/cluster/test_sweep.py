"""Sweeps: the same results, bit for bit, in one process and over workers; nothing lost when something is killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import limberjack as lj
from limberjack.cli.commands import main
from limberjack.cluster import workers
from limberjack.errors import ClusterLost, FileError, StateError

pytest.importorskip("distributed")


def swing(links: int, seed: int, seconds: float = 0.05) -> dict[str, Any]:
    """Return the end of a pendulum that starts at random velocities."""
    model = lj.scenes.pendulum(links=links)
    sim = lj.Simulation(model, "full", dt=1e-3, qd=np.random.default_rng(seed).normal(size=model.nv))
    sim.step(round(seconds / sim.dt))
    return {"q": sim.q, "kinetic": sim.energy().kinetic, "name": model.name}


def draw(seed: int, scale: float = 1.0, pause: float = 0.0) -> dict[str, Any]:
    """Return random numbers, without any dynamics."""
    time.sleep(pause)
    return {"x": scale * np.random.default_rng(seed).normal(size=3), "pid": os.getpid()}


def pick(number: int) -> float:
    """Fail for odd numbers."""
    if number % 2:
        raise ValueError(f"{number} is odd")
    return 0.5 * number


def die_once(flag: str, seed: int) -> int:
    """Kill the worker's process the first time that it is called."""
    if not Path(flag).exists():
        Path(flag).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return seed


def equal(a: lj.cluster.Sweep, b: lj.cluster.Sweep, leaving: tuple[str, ...] = ()) -> bool:
    """Return whether two sweeps have the same results bit for bit."""
    if a.done != b.done:
        return False
    pairs = ((a.result(run), b.result(run)) for run in a.done)
    return all(
        x.keys() == y.keys() and all(x[k].tobytes() == y[k].tobytes() for k in x if k not in leaving) for x, y in pairs
    )


def test_workers_give_the_bits_of_one_process(tmp_path: Path) -> None:
    """Two worker processes and this process alone write the same arrays."""
    grid = {"links": [2, 5]}
    serial = lj.cluster.sweep(swing, grid, tmp_path / "a", workers=0, repeats=3, seed=4)
    spread = lj.cluster.sweep(swing, grid, tmp_path / "b", workers=2, repeats=3, seed=4)
    assert serial.done == tuple(range(6)) and equal(serial, spread)
    assert len({serial.result(run)["q"].tobytes() for run in serial.done}) == 6


def test_the_table_has_parameters_seeds_and_single_values(tmp_path: Path) -> None:
    """One record per run: what went in, and those results that are one value; pandas shows the same."""
    sweep = lj.cluster.sweep(swing, {"links": [2, 3]}, tmp_path, workers=0, repeats=2)
    table = sweep.table()
    assert table.dtype.names == ("run", "seed", "links", "kinetic", "name")
    assert table["links"].tolist() == [2, 2, 3, 3] and len(set(table["seed"].tolist())) == 4
    assert (sweep.frame()["kinetic"].to_numpy() == table["kinetic"]).all()
    assert sweep.frame().index.tolist() == [0, 1, 2, 3]


def test_parameters_as_a_list_and_as_a_number(tmp_path: Path) -> None:
    """A list gives one run per mapping; a number gives runs that differ by their seed alone."""
    listed = lj.cluster.sweep(draw, [{"scale": 2.0}, {"scale": np.float64(3.0)}], tmp_path / "a", workers=0)
    assert [run["scale"] for run in listed.plan.parameters] == [2.0, 3.0]
    counted = lj.cluster.sweep(draw, 5, tmp_path / "b", workers=0)
    assert len({counted.result(run)["x"].tobytes() for run in counted.done}) == 5


def test_resume_does_what_is_left(tmp_path: Path) -> None:
    """Runs that are done keep their files untouched; one whose file is gone is done again with the same bits."""
    first = lj.cluster.sweep(draw, 6, tmp_path, workers=0)
    files = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("run-*.npz")}
    (tmp_path / "run-2.npz").unlink()
    x = first.result(3)["x"]
    again = lj.cluster.sweep(draw, 6, tmp_path, workers=0)
    assert again.done == tuple(range(6)) and (again.result(3)["x"] == x).all()
    same = {path.name for path in tmp_path.glob("run-*.npz") if path.stat().st_mtime_ns == files[path.name]}
    assert same == {f"run-{i}.npz" for i in (0, 1, 3, 4, 5)}


def test_a_torn_last_line_costs_one_run(tmp_path: Path) -> None:
    """A process killed while it appended leaves half a line: that run is repeated, the rest is kept."""
    lj.cluster.sweep(draw, 4, tmp_path, workers=0)
    path = tmp_path / "runs.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    assert lj.cluster.Sweep(tmp_path).left == (3,)
    assert lj.cluster.sweep(draw, 4, tmp_path, workers=0).left == ()
    assert lj.cluster.Sweep(tmp_path).done == (0, 1, 2, 3)


def test_a_run_that_raises_does_not_stop_the_others(tmp_path: Path) -> None:
    """Failures are kept by run with type and message, and are tried again on resume."""
    sweep = lj.cluster.sweep(pick, {"number": range(4)}, tmp_path, workers=0)
    assert sweep.done == (0, 2) and sweep.failures == {1: "ValueError: 1 is odd", 3: "ValueError: 3 is odd"}
    assert lj.cluster.Sweep(tmp_path).failures == sweep.failures
    with pytest.raises(StateError, match="run 1 has no result: it failed: ValueError: 1 is odd"):
        sweep.result(1)
    assert sweep.table()["value"].tolist() == [0.0, 1.0]


def test_a_killed_worker_loses_nothing(tmp_path: Path) -> None:
    """The run whose worker was killed is done by another one; all results are there."""
    runs = [{"flag": str(tmp_path / "flag")}] * 4
    sweep = lj.cluster.sweep(die_once, runs, tmp_path / "a", workers=2)
    assert sweep.done == (0, 1, 2, 3) and not sweep.failures
    assert [int(sweep.result(run)["value"]) for run in sweep.done] == [sweep.plan.seed_of(run) for run in range(4)]


def test_a_lost_scheduler_is_told_and_the_sweep_goes_on_elsewhere(tmp_path: Path) -> None:
    """Results until the loss are kept; the same call without that scheduler finishes with the bits of one process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port)]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parent)])}
    processes = [subprocess.Popen([*command, "--no-dashboard"], env=environment, **quiet)]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny"]
    processes.append(subprocess.Popen([*worker, "--no-dashboard", "--death-timeout", "60"], env=environment, **quiet))
    try:
        _wait_for(port)
        killer = subprocess.Popen(
            [sys.executable, "-c", _KILLER, str(tmp_path / "a" / "runs.jsonl"), str(processes[0].pid)], **quiet
        )
        processes.append(killer)
        with pytest.raises(ClusterLost, match=r"scheduler .* is gone; \d+ of 12 results are in .*continue"):
            lj.cluster.sweep(draw, [{"pause": 0.5}] * 12, tmp_path / "a", address)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    kept = lj.cluster.Sweep(tmp_path / "a").done
    assert 2 <= len(kept) < 12
    whole = lj.cluster.sweep(draw, [{"pause": 0.5}] * 12, tmp_path / "a", workers=0)
    serial = lj.cluster.sweep(draw, [{"pause": 0.0}] * 12, tmp_path / "b", workers=0)
    assert equal(whole, serial, leaving=("pid",))


_KILLER = """
import os, signal, sys, time
while not os.path.exists(sys.argv[1]) or open(sys.argv[1]).read().count("\\n") < 2:
    time.sleep(0.05)
os.kill(int(sys.argv[2]), signal.SIGKILL)
"""


def _wait_for(port: int) -> None:
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
            return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(port)


def test_no_scheduler_is_an_error_by_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address at which nothing answers is named."""
    monkeypatch.setattr(workers, "_CONNECT_SECONDS", 1)
    with pytest.raises(ClusterLost, match=r"no scheduler answers at tcp://127\.0\.0\.1:9"):
        lj.cluster.sweep(draw, 2, tmp_path, "tcp://127.0.0.1:9")


def test_another_sweep_in_the_folder_is_refused(tmp_path: Path) -> None:
    """The message names what differs; nothing is overwritten."""
    lj.cluster.sweep(draw, 3, tmp_path, workers=0)
    with pytest.raises(FileError, match=r"differs in the seed \(0; now 1\)"):
        lj.cluster.sweep(draw, 3, tmp_path, workers=0, seed=1)
    with pytest.raises(FileError, match=r"the parameters \(3 runs; now 4\)"):
        lj.cluster.sweep(draw, 4, tmp_path, workers=0)
    with pytest.raises(FileError, match=r"the function \(.*draw; now .*pick\)"):
        lj.cluster.sweep(pick, {"number": [1, 2, 3]}, tmp_path, workers=0)
    with pytest.raises(FileError, match="has a sweep already"):
        lj.cluster.sweep(draw, 3, tmp_path, workers=0, resume=False)


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    """A result is read only if it is what was written."""
    sweep = lj.cluster.sweep(draw, 2, tmp_path, workers=0)
    path = tmp_path / "run-1.npz"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(FileError, match="is not what run 1 wrote"):
        sweep.result(1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data | {"version": 9}, "has version 9"),
        (lambda data: data | {"format": "zip"}, "is not a sweep"),
        (lambda data: data | {"seed": "one"}, '"seed" is missing or of another kind'),
        (lambda data: data | {"more": 1}, 'no entry "more"'),
        (lambda data: data | {"parameters": [1]}, "the parameters of a run are a mapping"),
    ],
)
def test_damaged_plans_are_refused(tmp_path: Path, change: Any, message: str) -> None:
    """Whatever is wrong in `sweep.json` is named."""
    lj.cluster.sweep(draw, 1, tmp_path, workers=0)
    path = tmp_path / "sweep.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(lj.LimberjackError, match=message):
        lj.cluster.Sweep(tmp_path)


@pytest.mark.parametrize(
    ("function", "parameters", "options", "message"),
    [
        (draw, {"scale": 3.0}, {}, 'parameter "scale" of a grid takes a sequence'),
        (draw, {"scale": "abc"}, {}, 'parameter "scale" of a grid takes a sequence'),
        (draw, [], {}, "at least one run"),
        (draw, 0, {}, "must be a whole number >= 1"),
        (draw, "many", {}, "parameters must be a mapping"),
        (draw, {"size": [1]}, {}, "cannot be called so: .*size"),
        (swing, 3, {}, "cannot be called so: .*links"),
        (draw, {"scale": [float("nan")]}, {}, "the parameters of run 0 cannot be stored"),
        (draw, {"scale": [object()]}, {}, "the parameters of run 0 cannot be stored"),
        ("draw", 3, {}, "function must be callable"),
        (draw, 3, {"workers": -1}, "workers must be a whole number"),
        (draw, 3, {"workers": 2, "address": "tcp://x:1"}, "leave out workers=2"),
        (draw, 3, {"repeats": 0}, "repeats must be a whole number >= 1"),
        (draw, 3, {"seed": 0.5}, "seed must be a whole number"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(
    tmp_path: Path, function: Any, parameters: Any, options: Any, message: str
) -> None:
    """Each message names the argument and what it takes; no folder is made."""
    with pytest.raises(StateError, match=message):
        lj.cluster.sweep(function, parameters, tmp_path / "new", **options)
    assert not (tmp_path / "new").exists()


def test_results_that_are_no_arrays_fail_by_name(tmp_path: Path) -> None:
    """An object that NPZ cannot hold without pickle is named in the failure."""
    sweep = lj.cluster.sweep(_objects, 1, tmp_path, workers=0)
    assert "a run returns numbers, texts or arrays" in sweep.failures[0] and "'it'" in sweep.failures[0]


def _objects() -> dict[str, Any]:
    return {"it": object()}


def test_two_processes_do_not_write_one_sweep(tmp_path: Path) -> None:
    """The second is told that the first is at work."""
    fcntl = pytest.importorskip("fcntl")
    lj.cluster.sweep(draw, 1, tmp_path, workers=0)
    with open(tmp_path / ".lock", "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(FileError, match="another process is at work"):
            lj.cluster.sweep(draw, 1, tmp_path, workers=0)


def command(*words: str) -> int:
    """Run `limberjack sweep` on a short pendulum."""
    return main(["sweep", "pendulum", *words, "--seconds", "0.01", "--workers", "0", "--quiet"])


def test_the_command_sweeps_a_scene(tmp_path: Path) -> None:
    """Parameters as a list and as a range, seeds of their own; repeating it with --resume does nothing more."""
    words = ["--folder", str(tmp_path), "--vary", "links=2:6:3", "--vary", "option.integrator=projected,rk4"]
    words += ["--repeats", "2", "--scatter", "0.1"]
    assert command(*words) == 0
    table = lj.cluster.Sweep(tmp_path).table()
    assert sorted(set(table["links"].tolist())) == [2, 4, 6] and len(table) == 12
    assert len(set(table["state_hash"].tolist())) == 12
    assert command(*words, "--resume") == 0 and (lj.cluster.Sweep(tmp_path).table() == table).all()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--vary", "lnks=2"], 'no parameter "lnks" in "pendulum"'),
        (["--vary", "links=2:x:3"], "--vary takes NAME=LOW:HIGH:COUNT"),
        (["--vary", "links"], "--vary takes NAME=VALUE"),
    ],
)
def test_the_command_refuses_bad_parameters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    """Status 2 and one line, before any folder is made."""
    assert command("--folder", str(tmp_path / "new"), *words) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "new").exists()


def test_the_command_tells_of_runs_that_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 1, the run, its parameters and the error; the other runs are done."""
    assert command("--folder", str(tmp_path), "--vary", "links=2,-1") == 1
    assert "run 1" in capsys.readouterr().err and lj.cluster.Sweep(tmp_path).done == (0,)
