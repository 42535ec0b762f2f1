"""Simulate only the joints that matter: the engine chooses them, and you say how many."""

import numpy as np

import limberjack as lj

model = lj.scenes.pendulum(links=100, damping=0.05)
full = lj.Simulation(model, "full", dt=5e-4)
full.step(1000)

distances = {}
for budget in (2, 10, 40):
    sim = lj.Simulation(model, lj.Adaptive(budget=budget), dt=5e-4)
    sim.step(1000)
    assert len(sim.active_joints) <= budget
    distances[budget] = np.linalg.norm(sim.positions - full.positions, axis=1).mean()
    print(f"{budget:3d} of 100 joints: links are {distances[budget]:.4f} m from where all joints take them")
assert distances[40] < distances[2]

# More detail from here on, and a pull that the next choice takes into account.
sim.tune(budget=60)
sim.apply_wrench(model.body_names[70], force=(5.0, 0.0, 0.0))
sim.step(200)
stats = sim.stats
print(f"{stats['active_joints']} joints active; squared acceleration left out: {stats['error_estimate']:.3g}")
assert 20 < stats["active_joints"] <= 60  # joints that would hardly move are left out of any budget

# With all joints it is `full`, bit for bit.
sim = lj.Simulation(model, lj.Adaptive(budget=100), dt=5e-4)
sim.step(1000)
assert (sim.q == full.q).all()
