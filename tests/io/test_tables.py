"""Motions as tables: .csv and .parquet go out and come back to the last bit."""

from __future__ import annotations

import numpy as np
import pandas
import pytest

import limberjack as lj


@pytest.fixture(scope="module")
def motion():
    """Return a motion with joints of several coordinates."""
    return lj.Simulation(lj.scenes.joint_types(), "full", dt=0.01).run(0.1)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_tables_come_back(suffix, motion, tmp_path):
    """Times, coordinates and velocities are those that were written; the model is given, or in the file."""
    path = motion.save(tmp_path / f"motion{suffix}")
    read = lj.Trajectory.load(path, motion.model if suffix == ".csv" else None)
    for word in ("times", "q", "qd"):
        np.testing.assert_array_equal(getattr(read, word), getattr(motion, word))
    assert read.model.joint_names == motion.model.joint_names


def test_both_tables_have_the_same_columns(motion, tmp_path):
    """Other programs find the same names and numbers in both."""
    a = pandas.read_csv(motion.save(tmp_path / "motion.csv"))
    b = pandas.read_parquet(motion.save(tmp_path / "motion.parquet"))
    assert list(a.columns) == list(b.columns) and a.columns[0] == "time"
    np.testing.assert_allclose(a.to_numpy(), b.to_numpy())


def test_columns_go_by_name(motion, tmp_path):
    """A table that was sorted otherwise, with a column added, is read as before."""
    path = motion.save(tmp_path / "motion.csv")
    table = pandas.read_csv(path)
    table = table[table.columns[::-1]].assign(note=1.0)
    table.to_csv(path, index=False)
    np.testing.assert_array_equal(lj.Trajectory.load(path, motion.model).q, motion.q)


def test_bad_tables_are_refused(motion, tmp_path):
    """A table without its model, with a column missing or a cell that is no number names the file and the line."""
    path = motion.save(tmp_path / "motion.csv")
    with pytest.raises(lj.FileError, match="a table holds no model"):
        lj.Trajectory.load(path)
    with pytest.raises(lj.FileError, match="motion.csv:1: has no column q.arm"):
        lj.Trajectory.load(path, lj.load(lj.save(pendulum(), tmp_path / "arm.json")))
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:3], lines[3].replace(lines[3].split(",")[2], "much", 1), *lines[4:]]))
    with pytest.raises(lj.FileError, match="motion.csv:4: a row has a cell that is no number"):
        lj.Trajectory.load(path, motion.model)
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(lj.FileError, match="is no Parquet file"):
        lj.Trajectory.load(tmp_path / "torn.parquet")
    with pytest.raises(lj.FileError, match="brings its own model"):
        lj.Trajectory.load(motion.save(tmp_path / "motion.npz"), motion.model)


def pendulum():
    """Return a model of one hinge called arm."""
    b = lj.Builder("arm")
    b.add_body("rod", mass=1.0, inertia=(1, 1, 1))
    b.add_joint_hinge("arm", "world", "rod", axis=(0, 1, 0))
    return b.build()
