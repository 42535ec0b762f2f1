"""Take a model through MJCF, URDF and glTF: the dynamics stay, and what a format cannot say is named."""

import tempfile
import warnings
from pathlib import Path

import numpy as np

import limberjack as lj

b = lj.Builder("arm")
for k, parent in enumerate(("world", "link1", "link2")):
    b.add_body(f"link{k + 1}", mass=1.0, com=(0, 0, -0.2), inertia=(0.02, 0.02, 0.002))
    b.add_joint_hinge(
        f"joint{k + 1}", parent, f"link{k + 1}", axis=(0, 1, 0), position=(0, 0, -0.4 if k else 0.0), limits=(-2, 2)
    )
    b.add_shape_capsule(f"link{k + 1}", radius=0.03, length=0.35, position=(0, 0, -0.2), restitution=0.2)
model = b.build()

q, qd = [0.3, -0.2, 0.5], [1.0, 0.0, -1.0]
wanted = lj.forward_dynamics(model, q, qd)
with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for suffix in (".xml", ".urdf", ".glb", ".json"):
        read = lj.load(lj.save(model, Path(folder) / f"arm{suffix}"))
        off = np.abs(lj.forward_dynamics(read, q, qd) - wanted).max()
        print(f"{suffix:6} forward dynamics differ by {off:.1e}")
        assert off < 1e-9
print("named:", *(str(warning.message).rpartition("/")[2] for warning in caught), sep="\n  ")
assert any("restitution" in str(warning.message) for warning in caught)
