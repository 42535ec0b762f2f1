"""A kind of body of your own: say where its points are and what its kinetic energy is; the rest follows."""

import math

import limberjack as lj

# A beam that is hung from a pin and bends in one mode: an angle, and how far its tip is bent aside.


def place(point, coordinates, data):
    """Where a point of the straight beam, along -z from the pin, is in the world."""
    angle, bend = coordinates
    along = -point[2] / data[0]
    aside = point[0] + bend * along**2
    c, s = math.cos(angle), math.sin(angle)
    return c * aside - s * point[2], point[1], s * aside + c * point[2]


def kinetic(coordinates, rates, data):
    """Half of the mass times the square of the velocity, summed along the beam in closed form."""
    length, mass = data[0], data[1]
    turn, sway = rates
    bend = coordinates[1]
    # over the mass: z^2 and (z / length)^4 are a third and a fifth, z (z / length)^2 is a quarter
    own = length**2 * turn**2 / 3.0 + sway**2 / 5.0 + length * turn * sway / 2.0
    return 0.5 * mass * (own + bend**2 * turn**2 / 5.0)


def potential(coordinates, data):
    """The energy of bending."""
    return 0.5 * data[2] * coordinates[1] ** 2


def center(coordinates, data):
    """The centre of mass: the mean of (z / length)^2 is a third."""
    c, s = math.cos(coordinates[0]), math.sin(coordinates[0])
    aside, down = coordinates[1] / 3.0, -0.5 * data[0]
    return c * aside - s * down, 0.0, s * aside + c * down


lj.register_body_kind("beam", size=2, place=place, kinetic=kinetic, potential=potential, center=center)

builder = lj.Builder("beam and bob")
length, mass, stiffness = 1.0, 0.8, 60.0
builder.add_body_registered("beam", "beam", mass=mass, coordinates=(0.6, 0.05), data=(length, mass, stiffness))
# Its points can be tied to other bodies as any others can.
builder.add_body("bob", mass=0.5, com=(0, 0, -0.2), inertia=(0.01, 0.01, 0.01))
builder.add_joint_ball("ball", "beam", "bob", position=(0, 0, -length))
model = builder.build()

sim = lj.Simulation(model, lj.Multipliers(integrator="rk4"), dt=1e-3)
start = sim.energy().total
for _ in range(10):
    sim.step(100)
    angle, bend = sim.body("beam").coordinates
    print(f"{sim.time:.1f} s: angle {angle:+.3f} rad, tip bent by {1e3 * bend:+.1f} mm")
print(f"energy changed by {sim.energy().total - start:.1e} J, joints are open by {sim.joint_error()[0]:.1e} m")
assert abs(sim.energy().total - start) < 1e-6
assert sim.joint_error()[0] < 1e-10
