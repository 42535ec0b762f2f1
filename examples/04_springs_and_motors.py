"""A motor turns an arm, springs hold a swing seat: stiff things are no trouble for the implicit integrator."""

import math

import limberjack as lj

builder = lj.Builder("workshop")
builder.add_body("arm", mass=1.0, com=(0.3, 0, 0), inertia=(0.001, 0.03, 0.03))
motor = lj.Motor(kp=2e4, kd=600.0, max=60.0)
builder.add_joint_hinge("axle", "world", "arm", axis=(0, -1, 0), position=(0, 0, 1), motor=motor, armature=0.05)

builder.add_body("seat", mass=5.0, inertia=(0.2, 0.2, 0.3), position=(2, 0, 1.0))  # no joint: it moves freely
for x in (-0.5, 0.5):
    for y in (-0.5, 0.5):
        top, corner = (2 + 1.2 * x, 1.2 * y, 2.0), (0.4 * x, 0.4 * y, 0.0)
        builder.add_spring("world", "seat", at_a=top, at_b=corner, stiffness=5e4, damping=200.0, rest=1.0)
model = builder.build()

# The motor damps at kd / inertia = 3500 /s: explicit steps of 2 ms would chatter between its largest forces.
sim = lj.Simulation(model, lj.Full(integrator="implicit"), dt=2e-3)
sim.joint("axle").target = math.radians(60)
sim.step(1500)

angle = math.degrees(sim.joint("axle").q)
sag = math.degrees(1.0 * 9.81 * 0.3 * math.cos(math.radians(60)) / 2e4)
print(f"the motor holds the arm at {angle:.4f} degrees, {sag:.4f} below its target under the arm's weight")
assert abs(angle - (60.0 - sag)) < 1e-3

seat = sim.body("seat")
print(f"the seat hangs at {seat.position.round(4)}, speed {abs(seat.velocity).max():.0e}")
assert abs(seat.position[:2] - (2, 0)).max() < 1e-6
assert abs(seat.velocity).max() < 1e-6
