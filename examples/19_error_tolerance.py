"""Say the error instead of the budget: as many joints as the motion needs, no more."""

import numpy as np

import limberjack as lj

model = lj.scenes.pendulum(links=100, damping=0.01)
full = lj.Simulation(model, "full", dt=1e-3)
full.step(1000)
errors = []
for budget in (2, 10, 50):
    sim = lj.Simulation(model, lj.Adaptive(budget=budget), dt=1e-3)
    sim.step(1000)
    errors.append(float(np.linalg.norm(sim.positions - full.positions, axis=1).mean()))
    print(f"budget {budget:3}: mean distance from all 100 joints {errors[-1]:.4f} m")
assert errors[0] > errors[1] > errors[2]

sim = lj.Simulation(model, lj.Adaptive(budget=model.joint_count), dt=1e-3)
sim.step(1000)
assert np.array_equal(sim.q, full.q)  # as many as there are: full, bit for bit
print("budget 100: the bits of full")
