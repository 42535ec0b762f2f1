"""Motion capture: two figures in one scene follow a clip by their motors, one with every joint, one with a quarter."""

import numpy as np

import limberjack as lj
from limberjack.scenes.mocap import marching

clip = marching()  # or lj.load("clip.bvh")
print(clip.motion)

scene = lj.scenes.get("mocap", clip=[clip, clip])
medians = []
for method in ("full", lj.Adaptive(budget=8)):
    sim = lj.Simulation(scene.model, method, dt=1 / 240)
    errors = []
    while sim.time < 1.0:
        scene.drive(sim)  # aims the motors at the clip
        sim.step(4)
        errors.append(lj.scenes.tracking_error(sim, scene.drive))
    medians.append(float(np.median(errors)))
    print(f"{sim.method.name}: {len(sim.active_joints)} joints, {100 * medians[-1]:.1f} cm from the clip")
assert max(medians) < 0.05
