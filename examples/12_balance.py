"""Control: a pole balances on a cart by the feedback that the derivatives of its dynamics give."""

import numpy as np

import limberjack as lj

b = lj.Builder("pole on a cart")
b.add_body("cart", mass=1.0, inertia=(0.1, 0.1, 0.1))
b.add_body("pole", mass=0.3, com=(0, 0, 0.5), inertia=(0.03, 0.03, 0.001))
b.add_joint_slide("rail", "world", "cart", axis=(1, 0, 0))
b.add_joint_hinge("pivot", "cart", "pole", axis=(0, 1, 0))
model = b.build()

# x' = A x + B u about the upright pose, x = (q, qd), u the force on the cart
dt = 0.01
d = lj.forward_dynamics_derivatives(model, [0.0, 0.0], [0.0, 0.0])
a = np.eye(4) + dt * np.block([[np.zeros((2, 2)), np.eye(2)], [d.dq, d.dqd]])
u = dt * np.vstack([np.zeros((2, 1)), d.dtau[:, :1]])
cost, value = np.diag([1.0, 10.0, 0.1, 0.1]), np.eye(4)
for _ in range(2000):  # the Riccati equation
    gain = np.linalg.solve(0.01 + u.T @ value @ u, u.T @ value @ a)
    value = cost + a.T @ value @ (a - u @ gain)

sim = lj.Simulation(model, "full", dt=0.001, q=[0.0, 0.3])
for _ in range(500):
    force = -gain @ np.concatenate([sim.q, sim.qd])
    sim.tau = [force[0], 0.0]
    sim.step(10)
print(f"after {sim.time:g} s: cart at {sim.q[0]:.4f} m, pole at {sim.q[1]:.5f} rad")
assert abs(sim.q[1]) < 1e-3 and abs(sim.q[0]) < 0.05
