"""Sensors against MuJoCo's, to 1e-9 where both define them."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from tests.io.mjcf_help import random_state, read

import limberjack as lj

ARM = """
<body name="base" pos=".1 .2 2"><freejoint name="root"/><geom type="box" size=".2 .1 .05" pos=".02 0 .01"/>
  <site name="imu" pos=".05 .02 .1" euler="10 40 -20"/>
  <body name="thigh" pos="0 .2 -.05"><joint name="hip" type="ball" damping=".1"/>
    <geom name="bone" type="capsule" size=".04" fromto="0 0 0 .1 0 -.3"/>
    <site name="middle" pos="0 0 -.1" euler="0 20 0"/>
    <body name="shin" pos=".1 0 -.3" euler="0 20 0"><joint name="knee" axis="0 1 0" range="-400 400" stiffness="3"/>
      <joint name="slide" type="slide" axis="0 0 1" damping="2" armature=".1"/>
      <geom type="capsule" size=".03" fromto="0 0 0 0 0 -.3"/><site name="foot" pos="0 0 -.3" euler="30 0 0"/>
      <body name="pad" pos="0 0 -.31"><geom type="sphere" size=".05" pos="0 .02 0"/>
        <site name="sole" pos="0 0 -.02"/></body>
    </body></body></body>
<body name="other" pos="2 0 1"><joint name="swing" axis="1 0 0"/><geom size=".1" pos="0 .3 0"/></body>
<site name="mark" pos="1 2 3" euler="0 0 30"/>
"""
REST = """<option><flag contact="disable"/></option>
<tendon><fixed name="cord"><joint joint="knee" coef=".5"/><joint joint="swing" coef="-2"/></fixed></tendon>
<actuator><motor name="m" joint="knee" gear="3"/>
<position name="p" joint="swing" kp="20" kv="1" forcerange="-2 3"/></actuator>
<sensor>
<jointpos joint="knee"/><jointvel joint="slide"/><ballquat joint="hip"/><ballangvel joint="hip"/>
<tendonpos tendon="cord"/><tendonvel tendon="cord"/><actuatorpos actuator="m"/><actuatorvel actuator="p"/>
<actuatorfrc actuator="m"/><actuatorfrc actuator="p"/><jointactuatorfrc joint="swing"/>
<gyro site="imu"/><velocimeter site="foot"/><accelerometer site="imu"/><accelerometer site="foot"/>
<force site="middle"/><torque site="middle"/><force site="foot"/><torque site="foot"/>
<force site="sole"/><torque site="sole"/>
<framepos objtype="xbody" objname="shin"/><framepos objtype="body" objname="shin"/>
<framepos objtype="site" objname="foot"/>
<framepos objtype="geom" objname="bone"/><framepos objtype="site" objname="mark"/>
<framepos objtype="site" objname="foot" reftype="site" refname="imu"/>
<framequat objtype="xbody" objname="shin"/><framequat objtype="site" objname="foot" reftype="xbody" refname="other"/>
<framexaxis objtype="geom" objname="bone"/><frameyaxis objtype="site" objname="imu"/>
<framezaxis objtype="site" objname="imu" reftype="xbody" refname="shin"/>
<framelinvel objtype="body" objname="shin"/><framelinvel objtype="site" objname="foot" reftype="site" refname="imu"/>
<frameangvel objtype="xbody" objname="shin"/>
<frameangvel objtype="site" objname="foot" reftype="xbody" refname="other"/>
<framelinacc objtype="site" objname="foot"/><frameangacc objtype="xbody" objname="shin"/>
<subtreecom body="thigh"/><subtreelinvel body="base"/><subtreeangmom body="thigh"/>
<clock/><e_kinetic/><e_potential/>
<velocimeter name="cut" site="foot" cutoff=".5"/>
</sensor>"""


def test_sensors_are_those_of_mujoco(tmp_path):
    """At random states every sensor has the value of MuJoCo's, to 1e-9 of its size; quaternions up to their sign."""
    model, m = read(tmp_path, ARM, REST)
    assert len(model.sensor_names) == m.nsensor
    sim, data = lj.Simulation(model), mujoco.MjData(m)
    rng = np.random.default_rng(5)
    for _ in range(10):
        data.qpos[:], data.qvel[:] = random_state(m, rng)
        data.ctrl[:] = rng.normal(size=m.nu)
        sim.q, sim.qd, sim.control = data.qpos, data.qvel, data.ctrl
        mujoco.mj_forward(m, data)
        found = sim.sensors
        assert found.shape == data.sensordata.shape
        for s, name in enumerate(model.sensor_names):
            at = slice(m.sensor_adr[s], m.sensor_adr[s] + m.sensor_dim[s])
            mine, theirs = found[at], data.sensordata[at]
            if model.spec.sensors[s].kind.endswith("quaternion"):
                mine = mine * np.sign(mine @ theirs)
            scale = max(1.0, np.abs(theirs).max())
            assert mine == pytest.approx(theirs, abs=1e-9 * scale), (name, model.spec.sensors[s])
            assert np.array_equal(np.atleast_1d(sim.sensor(name)), found[at])


def test_a_body_at_rest_on_the_ground(tmp_path):
    """At rest an accelerometer reads gravity, a touch sensor the weight, a force sensor the weight above it."""
    world = (
        '<geom type="plane" size="1 1 1"/><body name="box" pos="0 0 .1"><freejoint/>'
        '<geom type="box" size=".1 .1 .1" mass="2"/><site name="s" type="box" size=".2 .2 .2"/>'
        '<body name="top" pos="0 0 .2"><geom size=".05" mass="1" contype="0" conaffinity="0"/>'
        '<site name="t"/></body></body>'
    )
    rest = '<sensor><accelerometer site="s"/><touch site="s"/><force site="t"/></sensor>'
    model, m = read(tmp_path, world, rest)
    sim, data = lj.Simulation(model), mujoco.MjData(m)
    for _ in range(1000):
        mujoco.mj_step(m, data)
    sim.step(1000)
    assert sim.sensors == pytest.approx(data.sensordata, abs=2e-3 * 29.43)
    assert sim.sensors == pytest.approx([0, 0, 9.81, 3 * 9.81, 0, 0, 9.81], abs=1e-6 * 29.43)


def test_a_rangefinder(tmp_path):
    """Rays from points of a turning body have the lengths of MuJoCo's; -1 where nothing is hit."""
    world = (
        '<geom type="plane" size="0 0 1"/><geom type="box" pos="1 0 .5" size=".2 .5 .5"/>'
        '<geom type="sphere" pos="-.9 .2 .6" size=".3" contype="0" conaffinity="0"/>'
        '<body pos="0 0 .6"><freejoint/><geom size=".1"/><site name="s" pos=".05 0 .02" euler="0 90 0"/>'
        '<site name="t" pos="0 .05 0" euler="40 20 0"/></body>'
    )
    model, m = read(tmp_path, world, '<sensor><rangefinder site="s"/><rangefinder site="t" cutoff="2"/></sensor>')
    sim, data, rng = lj.Simulation(model), mujoco.MjData(m), np.random.default_rng(3)
    hits = 0
    for _ in range(40):
        data.qpos[3:7] = rng.normal(size=4)
        data.qpos[3:7] /= np.linalg.norm(data.qpos[3:7])
        mujoco.mj_forward(m, data)
        sim.q = data.qpos
        assert sim.sensors == pytest.approx(data.sensordata, abs=1e-9)
        hits += int((data.sensordata > 0.0).sum())
    assert 20 < hits < 80


def test_what_sensors_refuse():
    """Unknown kinds, things and names are refused with the choices."""
    b = lj.Builder("arm")
    b.add_body("rod", mass=1.0, inertia=(1, 1, 1))
    b.add_joint_hinge("hinge", "world", "rod")
    with pytest.raises(lj.UnknownName, match='no sensor kind "gyroscope"'):
        b.add_sensor("s", "gyroscope", "rod")
    with pytest.raises(lj.ModelError, match="gyro is measured on point"):
        b.add_sensor("s", "gyro", "rod", "body")
    with pytest.raises(lj.UnknownName, match='no joint "hing"'):
        b.add_sensor("s", "joint_position", "hing")
    b.add_sensor("s", "joint_position", "hinge")
    with pytest.raises(lj.ModelError, match='sensor "s" exists already'):
        b.add_sensor("s", "clock")
    sim = lj.Simulation(b.build(), q=[0.3])
    assert sim.sensor("s") == 0.3
    with pytest.raises(lj.UnknownName, match='no sensor "t" in model "arm"; '):
        sim.sensor("t")
