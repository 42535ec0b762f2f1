"""Constraints of velocities: a disc that rolls, a cart that is steered, and a differential over three bodies."""

import math

import limberjack as lj

RADIUS = 0.3


def on_ground(position, rotation, time, data):
    """A disc about its z touches the ground."""
    return position[2] - data[0] * math.sqrt(1.0 - rotation[2][2] * rotation[2][2])


def rolling(position, rotation, velocity, turning, time, data):
    """The point of the disc on the ground is at rest along x and y."""
    u = (rotation[0][2], rotation[1][2], rotation[2][2])
    f = data[0] / math.sqrt(1.0 - u[2] * u[2])
    x, y, z = f * u[2] * u[0], f * u[2] * u[1], f * (u[2] * u[2] - 1.0)
    return velocity[0] + turning[1] * z - turning[2] * y, velocity[1] + turning[2] * x - turning[0] * z


def steered(position, rotation, velocity, turning, time, data):
    """A wheel that is steered by the angle data[0] does not slip sideways."""
    c, s = math.cos(data[0]), math.sin(data[0])
    slip = velocity[0] * (c * rotation[0][1] - s * rotation[0][0])
    return slip + velocity[1] * (c * rotation[1][1] - s * rotation[1][0])


def differential(position, rotation, velocity, turning, time, data):
    """Two wheels turn against each other in their carrier, about y."""
    return turning[0][1] + turning[1][1]


lj.register_constraint("on_ground", on_ground)
lj.register_constraint("rolling", rolling, rows=2, velocity=True)
lj.register_constraint("steered", steered, velocity=True)
lj.register_constraint("differential", differential, velocity=True, pairs=2)

b = lj.Builder("disc")
b.add_body("disc", mass=2.0, inertia=(0.045, 0.045, 0.09))
tilt = (math.cos(0.6), 0.0, math.sin(0.6), 0.0)
start = (0, 0, RADIUS * math.sin(1.2), *tilt)
b.add_joint_free("free", "world", "disc", start=start, start_velocity=(0, -RADIUS * 9.0, 0, 0, 0, 9.0))
b.add_constraint("on_ground", "height", "world", "disc", data=(RADIUS,))
b.add_constraint("rolling", "contact", "world", "disc", data=(RADIUS,))
disc = lj.Simulation(b.build(), "full", dt=1e-3)
energy = disc.energy().total
disc.step(2000)
print(f"disc: at {disc.q[:2].round(3)} m, energy {disc.energy().total:.4f} J of {energy:.4f} J")

b = lj.Builder("cart")
b.add_body("cart", mass=10.0, com=(0.5, 0, 0), inertia=(1, 1, 2))
b.add_joint_planar("plane", "world", "cart", start_velocity=(2.0, 0, 2.0 * math.tan(0.4) / 1.2))
b.add_constraint("steered", "rear", "world", "cart", data=(0.0,))
b.add_constraint("steered", "front", "world", "cart", data=(0.4,), position_in_child=(1.2, 0, 0))
cart = lj.Simulation(b.build(), "full", dt=1e-3)
cart.step(3000)
radius = math.hypot(cart.q[0], cart.q[1] - 1.2 / math.tan(0.4))
print(f"cart: radius {radius:.4f} m, side force of the front wheel {cart.joint('front').multipliers[0]:.3f} N")

b = lj.Builder("axle")
for name in ("carrier", "left", "right"):
    b.add_body(name, mass=1.0, inertia=(0.4, 0.2, 0.4))
    b.add_joint_hinge(name + "_axle", "world", name, axis=(0, 1, 0))
b.add_constraint("differential", "gears", "carrier", "left", second_child="right")
axle = lj.Simulation(b.build(), "full", dt=1e-3)
axle.tau = [3.0, -1.0, 0.0]  # the engine turns the carrier, a brake slows down the left wheel
axle.step(1000)
carrier, left, right = axle.qd
print(f"axle: carrier {carrier:.3f}, left {left:.3f}, right {right:.3f} rad/s")

assert abs(disc.energy().total - energy) < 1e-3 * energy
assert abs(radius - 1.2 / math.tan(0.4)) < 1e-2
assert abs(left + right - 2.0 * carrier) < 1e-2
