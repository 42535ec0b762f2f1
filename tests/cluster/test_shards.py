"""Crowds in shards and chunks of time: the bits of one crowd in one process, whatever is killed or interrupted."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import limberjack as lj
from limberjack.errors import FileError, StateError

pytest.importorskip("distributed")

FIGURES, DT = 10, 1e-3


def some(first: int, count: int) -> lj.Crowd:
    """Return pendulums of ten links from number `first` on, each with velocities of its own."""
    crowd = lj.Crowd(lj.scenes.pendulum(links=10), count, dt=DT, threads=1)
    random = [np.random.default_rng((7, i)).normal(size=10) for i in range(first, first + count)]
    crowd.qd = np.array(random)
    return crowd


def ends(crowd: lj.Crowd) -> dict[str, Any]:
    """Return the coordinates of all figures and one number."""
    return {"q": crowd.q, "angle": crowd.q[0, 0]}


def push(crowd: lj.Crowd) -> None:
    """Apply joint forces that depend on the state and the time."""
    crowd.tau = -0.1 * crowd.qd + 0.01 * np.sin(crowd.sim.time)


def die_once(first: int, count: int, seed: int) -> lj.Crowd:
    """Kill the worker's process the first time that the second shard is made."""
    flag = Path(os.environ["SHARD_FLAG"])
    if first and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return some(first, count)


def simulate(folder: Path, make: Any = some, **options: Any) -> lj.cluster.Sweep:
    """Simulate three chunks of three shards."""
    given: dict[str, Any] = {"shard": 4, "chunk": 0.01, "measure": ends, "workers": 0} | options
    return lj.cluster.crowd(make, FIGURES, 0.03, folder, **given)


def test_shards_move_as_one_crowd(tmp_path: Path):
    """Shards of four, in chunks, end where one crowd of all ends, bit for bit; the table has a row for each chunk."""
    out = simulate(tmp_path)
    whole = some(0, FIGURES)
    for k in range(3):
        whole.step(10)
        q = np.concatenate([out.result(3 * k + shard)["q"] for shard in range(3)])
        assert np.array_equal(q, whole.q)
    table = out.table()
    assert table["chunk"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2] and table["first"].tolist()[:3] == [0, 4, 8]
    assert table["count"].tolist() == [4, 4, 2] * 3 and np.allclose(table["time"], 0.01 * (table["chunk"] + 1))


def test_an_interrupted_crowd_goes_on(tmp_path: Path):
    """What is there is kept; the rest is done from the states on the disk, by drives as well."""
    whole = simulate(tmp_path / "a", drive=push)
    part = simulate(tmp_path / "b", drive=push)
    lines = (tmp_path / "b" / "runs.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "b" / "runs.jsonl").write_text("".join(lines[:4]))
    part = simulate(tmp_path / "b", drive=push)
    hashes = [[out.result(run)["state_hash"].item() for run in out.done] for out in (whole, part)]
    assert hashes[0] == hashes[1] and len(hashes[0]) == 9
    with pytest.raises(FileError, match="the function"):
        simulate(tmp_path / "b")


def test_a_killed_worker_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Two workers, one of which is killed, give the bits of one process."""
    serial = simulate(tmp_path / "a")
    monkeypatch.setenv("SHARD_FLAG", str(tmp_path / "flag"))
    spread = simulate(tmp_path / "b", die_once, workers=2)
    assert (tmp_path / "flag").exists() and spread.done == serial.done
    for run in serial.done:
        assert spread.result(run)["q"].tobytes() == serial.result(run)["q"].tobytes()


def test_bad_input_is_refused(tmp_path: Path):
    """By name, before anything runs; what a shard does wrong is its failure."""
    for options, message in (
        ({"shard": 0}, "shard must be a whole number"),
        ({"chunk": 0.007}, "seconds must be a multiple of chunk"),
        ({"chunk": -1.0}, "chunk must be a number > 0"),
    ):
        with pytest.raises(StateError, match=message):
            simulate(tmp_path / "no", **options)

    def paced(first: int, count: int) -> lj.Crowd:
        return lj.Crowd(lj.scenes.pendulum(links=3), count, milliseconds=5.0, dt=DT)

    out = simulate(tmp_path / "paced", paced)
    assert "follows the clock" in out.failures[0] and len(out.left) == 6
