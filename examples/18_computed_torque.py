"""Hold and move an arm by computed torque: inverse dynamics inside the control loop."""

import numpy as np

import limberjack as lj

b = lj.Builder("arm")
for k, parent in enumerate(("world", "link1", "link2")):
    b.add_body(f"link{k + 1}", mass=2.0, com=(0, 0, 0.2), inertia=(0.02, 0.02, 0.002))
    b.add_joint_hinge(
        f"joint{k + 1}", parent, f"link{k + 1}", axis=(0, 1, 0), position=(0, 0, 0.4 if k else 0.0), damping=0.1
    )
    b.add_actuator(f"motor{k + 1}", f"joint{k + 1}", control_range=(-80, 80))
model = b.build()

sim = lj.Simulation(model, "full", dt=2e-3)
goal = np.array([0.6, -0.8, 0.4])
for _ in range(1000):
    wanted = 100.0 * (goal - sim.q) - 20.0 * sim.qd
    sim.control = lj.inverse_dynamics(model, sim.q, sim.qd, wanted)
    sim.step()
print(f"after {sim.time:g} s off by {np.abs(sim.q - goal).max():.1e} rad; torques {sim.control.round(2)} N m")
assert np.abs(sim.q - goal).max() < 1e-4
