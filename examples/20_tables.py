"""Motions as tables for other programs, and back: CSV to the last bit, with columns by name."""

import tempfile
from pathlib import Path

import numpy as np

import limberjack as lj

model = lj.scenes.double_pendulum()
motion = lj.Simulation(model, "full", dt=1e-3).run(0.5)
with tempfile.TemporaryDirectory() as folder:
    path = motion.save(Path(folder) / "swing.csv")
    heads = path.read_text().splitlines()[0].split(",")
    print(len(motion), "rows of", ", ".join(heads))
    again = lj.Trajectory.load(path, model)  # a table does not hold the model
assert np.array_equal(again.q, motion.q) and np.array_equal(again.qd, motion.qd)
assert heads[0] == "time" and len(heads) == 1 + model.nq + model.nv
