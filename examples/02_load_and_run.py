"""Load a robot from a URDF file, push it, and see it come to rest."""

import tempfile
from pathlib import Path

import numpy as np

import limberjack as lj

URDF = """
<robot name="crane">
  <link name="base"/>
  <link name="jib">
    <inertial><origin xyz="0.5 0 0"/><mass value="2"/>
      <inertia ixx="0.01" iyy="0.2" izz="0.2" ixy="0" ixz="0" iyz="0"/></inertial>
  </link>
  <link name="hook">
    <inertial><origin xyz="0 0 -0.3"/><mass value="1"/>
      <inertia ixx="0.03" iyy="0.03" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial>
  </link>
  <joint name="slew" type="continuous">
    <parent link="base"/><child link="jib"/><origin xyz="0 0 1"/><axis xyz="0 0 1"/><dynamics damping="2"/>
  </joint>
  <joint name="swing" type="continuous">
    <parent link="jib"/><child link="hook"/><origin xyz="1 0 0"/><axis xyz="0 1 0"/><dynamics damping="0.5"/>
  </joint>
</robot>
"""

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "crane.urdf"
    path.write_text(URDF)
    model = lj.load(path)
print(model)

sim = lj.Simulation(model, "full", dt=1e-3)
sim.joint("swing").q = 0.5  # radians from hanging
sim.apply_wrench("jib", force=(0, 4, 0), point=(1, 0, 1))  # pushes until cleared
sim.step(500)
print(f"slewing at {sim.joint('slew').qd:.3f} rad/s")
assert sim.joint("slew").qd > 0.2

sim.clear_wrenches()
sim.step(15_000)
print(f"at rest: slew {sim.joint('slew').q:.3f} rad, swing {sim.joint('swing').q:.1e} rad")
assert np.abs(sim.qd).max() < 1e-3
assert abs(sim.joint("swing").q) < 1e-3
assert sim.joint("slew").q > 0.1
