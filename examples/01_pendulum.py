"""A pendulum of 30 links falls from the horizontal: simulate, record, save."""

import tempfile
from pathlib import Path

import limberjack as lj

model = lj.scenes.pendulum(links=30)
sim = lj.Simulation(model, lj.Full(integrator="rk4"), dt=1e-3)

start = sim.energy()
trajectory = sim.run(3.0)  # seconds; 60 frames a second are recorded
end = sim.energy()

tip = trajectory.body("link29").positions
print(f"{len(trajectory)} frames; the last link falls by {tip[0, 2] - tip[:, 2].min():.1f} m")
print(f"kinetic energy {end.kinetic:.0f} J, total {end.total:.2e} J, at the start {start.total:.2e} J")

with tempfile.TemporaryDirectory() as folder:
    path = trajectory.save(Path(folder) / "swing.npz")  # .csv too
    again = lj.Trajectory.load(path)

assert (again.q == trajectory.q).all()
assert tip[:, 2].min() < -20.0
assert abs(end.total - start.total) < 1e-6 * end.kinetic
