"""Close a four-bar linkage from a start that does not fit, then let it swing."""

import numpy as np

import limberjack as lj

b = lj.Builder("four_bar")
lengths = {"crank": 0.3, "coupler": 0.8, "rocker": 0.6}
for name, length in lengths.items():
    b.add_body(name, mass=length, com=(length / 2, 0, 0), inertia=(1e-3, 0.02, 0.02))
b.add_joint_hinge("a", "world", "crank", axis=(0, 1, 0), start=-1.0)
b.add_joint_hinge("b", "crank", "coupler", axis=(0, 1, 0), position=(0.3, 0, 0), start=0.7)
b.add_joint_hinge("c", "world", "rocker", axis=(0, 1, 0), position=(0.7, 0, 0), start=-1.2)
b.add_joint_ball("d", "coupler", "rocker", position=(0.8, 0, 0), position_in_child=(0.6, 0, 0))  # closes the loop
model = b.build()

done = lj.assemble(model)
print(f"closed: {done.closed}, gap {done.error:.1e} m after {done.iterations} iterations")
assert done.closed

sim = lj.Simulation(model, "full", dt=1e-3, q=done.q)
before = sim.energy().total
sim.step(1000)
gap, _ = sim.joint_error()
print(f"after {sim.time:g} s: gap {gap:.1e} m, energy {before:.6f} J then {sim.energy().total:.6f} J")
assert gap < 1e-9
assert np.isclose(sim.energy().total, before, rtol=0.0, atol=1e-3)
