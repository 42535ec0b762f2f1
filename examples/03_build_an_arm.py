"""Build an arm in Python; check it against its own inverse dynamics and hold it still by them."""

import numpy as np

import limberjack as lj

builder = lj.Builder("arm", gravity=(0, 0, -9.81))
builder.add_body("upper", mass=2.0, com=(0, 0, -0.2), inertia=(0.03, 0.03, 0.004))
builder.add_body("lower", mass=1.2, com=(0, 0, -0.15), inertia=(0.01, 0.01, 0.002))
builder.add_body("hand", mass=0.4, com=(0, 0, -0.05), inertia=(4e-4, 4e-4, 2e-4))
builder.add_joint_ball("shoulder", "world", "upper", position=(0, 0, 1.4))
builder.add_joint_hinge("elbow", "upper", "lower", axis=(0, 1, 0), position=(0, 0, -0.4), start=-1.2)
builder.add_joint_universal("wrist", "lower", "hand", position=(0, 0, -0.3))
builder.add_point("palm", "hand", (0, 0, -0.08))
model = builder.build()
print(model, "q =", model.q0)

# Forward and inverse dynamics are each other's inverse.
rng = np.random.default_rng(1)
qd, tau = rng.normal(size=model.nv), rng.normal(size=model.nv)
qdd = lj.forward_dynamics(model, model.q0, qd, tau)
assert np.allclose(lj.inverse_dynamics(model, model.q0, qd, qdd), tau, rtol=0, atol=1e-10)

# The forces that give no acceleration at rest carry the arm's weight.
rest = np.zeros(model.nv)
sim = lj.Simulation(model, "full", dt=1e-3)
sim.tau = lj.inverse_dynamics(model, model.q0, rest, rest)
before = sim.point("palm").position
sim.step(100)
moved = np.linalg.norm(sim.point("palm").position - before)
print(f"held for {sim.time:g} s: the palm moved by {moved:.1e} m")
assert moved < 1e-9

sim.tau = rest
sim.step(300)
print(f"let go for 0.3 s: the palm fell to z = {sim.point('palm').position[2]:.2f} m from {before[2]:.2f} m")
assert sim.point("palm").position[2] < before[2] - 0.05
