"""Boxes that stand, a ball on a rope that knocks them over, and a joint made and let go while it all runs."""

import numpy as np

import limberjack as lj


def add_box(builder, name, size, position, mass):
    x, y, z = size
    inertia = mass / 12.0 * np.array([y * y + z * z, x * x + z * z, x * x + y * y])
    builder.add_body(name, mass=mass, inertia=inertia, position=position)
    builder.add_shape_box(name, size, friction=0.6)


builder = lj.Builder("wrecking ball")
builder.add_shape_plane("world", friction=0.6)
for row in range(4):
    for k in range(5):
        place = (0.0, 0.22 * (k - 2) + 0.1 * (row % 2), 0.1 + 0.2 * row)
        add_box(builder, f"brick{row}_{k}", (0.2, 0.2, 0.2), place, 4.0)
add_box(builder, "crate", (0.3, 0.3, 0.3), (2.0, 0.0, 0.15), 5.0)

# A rope of ten rods on ball joints, held aside, with a ball of 20 kg at its end.
above = "world"
for k in range(10):
    builder.add_body(f"rod{k}", mass=0.1, com=(-0.1, 0, 0), inertia=(1e-4, 4e-4, 4e-4))
    builder.add_joint_ball(f"knot{k}", above, f"rod{k}", position=(0, 0, 2.5) if k == 0 else (-0.2, 0, 0))
    above = f"rod{k}"
builder.add_body("ball", mass=20.0, com=(-0.15, 0, 0), inertia=(0.18, 0.18, 0.18))
builder.add_joint_ball("hook", above, "ball", position=(-0.2, 0, 0))
builder.add_shape_sphere("ball", 0.15, position=(-0.15, 0, 0))

sim = lj.Simulation(builder.build(), "impulses", dt=1 / 240)
sim.step(60)
carried = sum(contact.force[2] for contact in sim.contacts() if contact.bodies[1] == "world")
weight = (20 * 4.0 + 5.0) * 9.81
print(f"the ground carries {carried:.1f} N, the boxes weigh {weight:.1f} N")
assert abs(carried - weight) < 0.01 * weight

# The ball swings into the wall.
standing = sim.body("brick3_2").position[2]
sim.step(300)
fallen = sim.body("brick3_2").position[2]
gap = sim.joint_error().metres
print(f"the top of the wall stood at {standing:.2f} m and is at {fallen:.2f} m; joints are open by {gap:.0e} m")
assert standing > 0.69 and fallen < 0.65
assert gap < 1e-6

# A hand lifts the crate, a joint made up there holds it when the hand lets go, until that is let go too.
grip = sim.grab("crate", sim.body("crate").position)
grip.move((2.0, 0.0, 1.0))
sim.step(480)
hinge = sim.attach("world", "crate", "hinge", point=(2.0, 0.0, 1.15), axis=(0, 1, 0))
grip.release()
sim.step(240)
hung = sim.body("crate").position[2]
sim.detach(hinge)
sim.step(480)
print(f"the crate hung at {hung:.3f} m and lies at {sim.body('crate').position[2]:.3f} m")
assert hung > 0.9 and abs(sim.body("crate").position[2] - 0.15) < 1e-3

# What has come to rest sleeps until something touches it.
sim.step(2400)
print(f"{sim.stats['asleep']} of {sim.model.body_count} bodies sleep")
assert sim.stats["asleep"] > 10
