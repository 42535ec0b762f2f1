"""A scene of your own: a function that returns a model, its options checked, its staging beside it."""

import limberjack as lj
from limberjack.scenes.catalog import Camera, scene


def _stage(rungs, tilt):
    del tilt
    return {"dt": 1 / 240, "seconds": 2.0, "camera": Camera((1.0, -3.0 - rungs, 1.0), (0.0, 0.0, 0.0))}


@scene("A chain of rods, tilted at the start.", _stage)
def tilted_chain(*, rungs=4, tilt=0.5):
    """Return rods that hang from each other.

    Args:
        rungs: how many rods.
        tilt: angle of the first [rad].
    """
    b = lj.Builder("tilted_chain")
    for k in range(rungs):
        b.add_body(f"rod{k}", mass=1.0, com=(0, 0, -0.5), inertia=(0.1, 0.1, 0.01))
        parent, place = (f"rod{k - 1}", (0, 0, -1.0)) if k else ("world", (0, 0, 0))
        b.add_joint_hinge(f"pin{k}", parent, f"rod{k}", axis=(0, 1, 0), position=place, start=0.0 if k else tilt)
        b.add_shape_capsule(f"rod{k}", radius=0.04, length=0.9, position=(0, 0, -0.5))
    return b.build()


made = lj.scenes.get("tilted_chain", rungs=6)
sim = lj.Simulation(made.model, made.method, made.dt)
before = sim.energy().total
sim.run(made.seconds)
print(f"{made.name}: {made.model.joint_count} joints, energy {before:.4f} J, then {sim.energy().total:.4f} J")
assert "tilted_chain" in lj.scenes.names()
assert abs(sim.energy().total - before) < 0.05 * abs(before)
try:
    lj.scenes.get("tilted_chain", rung=6)
except lj.LimberjackError as error:
    print(error)
