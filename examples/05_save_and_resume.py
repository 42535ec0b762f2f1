"""Save a running simulation, resume it - tomorrow, elsewhere - and get the same bits."""

import tempfile
from pathlib import Path

import limberjack as lj

sim = lj.Simulation(lj.scenes.marionette(), "full", dt=1e-3)
sim.apply_wrench("left_hand", force=(20, 0, 5))
sim.step(400)

with tempfile.TemporaryDirectory() as folder:
    path = sim.save(Path(folder) / "puppet.npz")  # model, method, state and forces
    print(f"saved at t = {sim.time:g} s: {path.stat().st_size / 1000:.0f} kB")
    other = lj.resume(path)

assert other.state_hash() == sim.state_hash()
sim.step(1000)
other.step(1000)
print(f"both at t = {sim.time:g} s, state {sim.state_hash()[:16]} and {other.state_hash()[:16]}")
assert other.state_hash() == sim.state_hash()

# The same within a process: go back to a moment and take another path from it.
moment = sim.snapshot()
sim.clear_wrenches()
sim.step(500)
freed = sim.body("left_hand").position
sim.restore(moment)
sim.step(500)
held = sim.body("left_hand").position
print(f"half a second later the hand is at {held.round(3)}, without the pull at {freed.round(3)}")
assert abs(held - freed).max() > 0.05
assert sim.steps == 1900
