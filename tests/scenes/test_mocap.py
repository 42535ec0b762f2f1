"""Figures that follow clips: how closely, in which methods, many at once, from files."""

from __future__ import annotations

import numpy as np
import pytest

import limberjack as lj
from limberjack.cli.commands import main
from limberjack.errors import ModelError
from limberjack.scenes.mocap import marching, tracking_error


def tracked(scene, method, seconds=2.0, dt=1 / 240):
    """Return the distances (frames, bodies) of a run from its clips, driven sixty times a second."""
    sim = lj.Simulation(scene.model, method, dt)
    errors = []
    while sim.time < seconds:
        scene.drive(sim)
        sim.step(round(1 / 60 / dt))
        errors.append(tracking_error(sim, scene.drive))
    return np.array(errors), sim


@pytest.mark.parametrize("dt", [1 / 960, 1 / 240, 1 / 60])
def test_every_joint_follows_in_full(dt):
    """A marching person is tracked within 3 cm (median) and 10 cm (all), at several steps."""
    errors, _ = tracked(lj.scenes.get("mocap"), "full", dt=dt)
    assert np.median(errors) < 0.03 and errors.max() < 0.10


def test_a_quarter_of_the_joints_follows_in_adaptive():
    """With 4 of 16 joints simulated at a time, half of the bodies are within 5 cm at any time."""
    errors, sim = tracked(lj.scenes.get("mocap"), lj.Adaptive(budget=4))
    assert np.median(errors) < 0.05
    assert len(sim.active_joints) <= 5  # the root is not counted


def test_without_assistance_the_figure_falls():
    """The spring of the root is what keeps the figure up: without it and without ground it falls freely."""
    errors, sim = tracked(lj.scenes.get("mocap", assist=0.0), "full", seconds=0.5)
    start = lj.forward_kinematics(sim.model, sim.model.q0)[0]
    mass = sim.model.arrays.body_mass
    drop = float(mass @ (start - sim.positions)[:, 2]) / mass.sum()
    assert drop == pytest.approx(0.5 * 9.81 * sim.time**2, rel=0.02)


def test_figures_stand_on_the_ground():
    """With contacts and little assistance the ground bears the figure, which follows its clip."""
    scene = lj.scenes.get("mocap", contacts=True, assist=2.0)
    sim = lj.Simulation(scene.model, "full", scene.dt)
    errors, forces = [], []
    while sim.time < 2.0:
        scene.drive(sim)
        sim.step(4)
        errors.append(tracking_error(sim, scene.drive))
        forces.append(sum(abs(contact.force[2]) for contact in sim.contacts() if "ground" in contact.shapes))
    assert np.median(errors) < 0.04
    # the spring would bear all of it 6 cm lower
    assert np.mean(forces) > 0.5 * 75.0 * 9.81


def test_many_figures_follow_their_own_clips(tmp_path):
    """In one model each figure is where it would be alone, shifted to its place on the grid."""
    marching().motion.save(tmp_path / "march.bvh")
    clips = [tmp_path / "march.bvh", marching()]
    scene = lj.scenes.get("mocap", clip=clips, figures=4, spacing=3.0)
    alone = lj.scenes.get("mocap", clip=clips[0])
    crowd_errors, sim = tracked(scene, "full", seconds=0.5)
    _, one = tracked(alone, "full", seconds=0.5)
    assert sim.model.body_count == 4 * one.model.body_count
    n = one.model.body_count
    for i in range(4):
        shift = np.array(scene.drive.parts[i].shift)
        np.testing.assert_allclose(sim.positions[i * n : (i + 1) * n], one.positions + shift, atol=1e-6)
    assert np.median(crowd_errors) < 0.03


def test_targets_of_a_whole_model_are_those_of_its_joints():
    """`set_targets` writes what the handles of the joints read; a ball's lead is kd / kp of its velocity."""
    b = lj.Builder("pair")
    for name in ("a", "b"):
        b.add_body(name, mass=1.0, com=(0, 0, -0.3), inertia=(0.02, 0.02, 0.01))
    b.add_joint_hinge("hip", "world", "a", axis=(0, 1, 0), motor=lj.Motor(kp=30.0, kd=3.0))
    b.add_joint_ball("knee", "a", "b", position=(0, 0, -0.6), motor=lj.Motor(kp=20.0, kd=4.0, target=(1, 0, 0, 0)))
    sim = lj.Simulation(b.build(), "full")
    sim.set_targets([0.4, 1, 0, 0, 0], [0.7, 0.0, 0.5, 0.0])
    assert sim.joint("hip").target == 0.4
    half = 0.5 * 0.5 * 4.0 / 20.0
    np.testing.assert_allclose(sim.joint("knee").target, [np.cos(half), 0, np.sin(half), 0], atol=1e-15)
    assert sim.forces.drives.scalar[0, 10] == 0.7
    with pytest.raises(lj.errors.StateError, match="q must have shape"):
        sim.set_targets([0.0])


def test_a_pose_for_calibration_is_left_out():
    """A first frame far from the second is no part of the motion, unless asked for."""
    clip = marching()
    q = clip.motion.q.copy()
    q[0, 7:11] = (0.5, 0.5, 0.5, 0.5)
    jump = clip.with_motion(lj.Trajectory(clip, clip.motion.times, q, clip.motion.qd))
    q[100:, 11:15] = (0.0, 1.0, 0.0, 0.0)  # later jumps, as in fast clips, change nothing
    jump = clip.with_motion(lj.Trajectory(clip, clip.motion.times, q, clip.motion.qd))
    np.testing.assert_array_equal(lj.scenes.mocap(jump).q0, clip.motion.q[1])
    np.testing.assert_array_equal(lj.scenes.mocap(jump, skip=0).q0, q[0])
    np.testing.assert_array_equal(lj.scenes.mocap(clip).q0, clip.motion.q[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clip": 3}, "clip must be"),
        ({"clip": "gone.bvh"}, "gone.bvh"),
        ({"clip": lj.scenes.double_pendulum()}, "model with motion"),
        ({"skip": 1000}, "241 frames"),
        ({"figures": 0}, "figures"),
        ({"frequency": 0}, "frequency"),
        ({"assist": -1}, "assist"),
    ],
)
def test_bad_options_are_typed_errors(options, message):
    """What is wrong is named."""
    with pytest.raises(ModelError, match=message):
        lj.scenes.mocap(**options)


def test_the_command_runs_a_clip_and_writes_one(tmp_path, monkeypatch):
    """`limberjack run clip.bvh --out x.bvh` follows the clip; what it writes is near the clip."""
    monkeypatch.chdir(tmp_path)
    marching().motion.save("march.bvh")
    assert main(["run", "march.bvh", "--set", "assist=5", "--seconds", "1", "--quiet", "--out", "out.bvh"]) == 0
    out, clip = lj.Trajectory.load("out.bvh"), lj.Trajectory.load("march.bvh")
    there = np.array([lj.forward_kinematics(clip.model, clip.at(t)[0])[0] for t in out.times])
    assert out.times[-1] == pytest.approx(1.0) and out.model.body_names == clip.model.body_names
    assert np.median(np.linalg.norm(out.positions - there, axis=-1)) < 0.03
    assert main(["convert", "march.bvh", "march.csv"]) == 0 and main(["convert", "march.bvh", "march.json"]) == 0
    assert lj.load("march.json").joint_count == 17
