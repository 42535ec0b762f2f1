"""Motion capture files: the skeleton and the motion are those of the file, bad files are errors, motions go out."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest

import limberjack as lj
from limberjack.errors import FileError, LimberjackError, ModelWarning
from limberjack.io import biovision
from limberjack.spatial.frames import matrix_from_quaternion

ARM = """HIERARCHY
ROOT Hips
{
  OFFSET 0 0 0
  CHANNELS 6 Xposition Yposition Zposition Zrotation Yrotation Xrotation
  JOINT Arm
  {
    OFFSET 10 40 0
    CHANNELS 3 Yrotation Zrotation Xrotation
    JOINT Elbow
    {
      OFFSET 30 0 0
      CHANNELS 1 Zrotation
      End Site
      {
        OFFSET 25 0 5
      }
    }
  }
}
MOTION
Frames: 4
Frame Time: 0.01
0 90 0 0 0 0 0 0 0 0
1 90 2 10 20 30 15 25 35 45
2 91 4 20 30 40 20 30 40 50
3 92 6 30 -40 50 25 -35 45 55
"""


def turn(axis: str, degrees: float) -> np.ndarray:
    """Return the rotation about an axis of the file."""
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    i, j = {"x": (1, 2), "y": (2, 0), "z": (0, 1)}[axis]
    out = np.eye(3)
    out[i, i], out[j, j], out[i, j], out[j, i] = c, c, -s, s
    return out


def naive(frame: list[float]) -> list[np.ndarray]:
    """Return where the joints and the end of ARM are, by its channels one after the other [units, axes of the file]."""
    x, y, z, a, b, c, d, e, f, g = frame
    hips = turn("z", a) @ turn("y", b) @ turn("x", c)
    arm = hips @ turn("y", d) @ turn("z", e) @ turn("x", f)
    elbow = arm @ turn("z", g)
    p0 = np.array([x, y, z])
    p1 = p0 + hips @ np.array([10, 40, 0])
    p2 = p1 + arm @ np.array([30, 0, 0])
    return [p0, p1, p2, p2 + elbow @ np.array([25, 0, 5])]


def test_positions_are_those_of_the_channels(tmp_path):
    """Every joint and end of every frame is where the channels, multiplied in their order, put it; z is up."""
    path = tmp_path / "arm.bvh"
    path.write_text(ARM)
    model = lj.load(path)
    assert model.motion is not None and len(model.motion) == 4
    assert [model.joint(name).kind for name in model.joint_names] == ["free", "ball", "hinge"]
    rows = [[float(x) for x in line.split()] for line in ARM.splitlines()[-4:]]
    for k, row in enumerate(rows):
        expected = 0.01 * np.array(naive(row))[:, [2, 0, 1]]
        np.testing.assert_allclose(model.motion.positions[k], expected[:3], atol=1e-12)
        turned = matrix_from_quaternion(model.motion.rotations[k, 2])
        np.testing.assert_allclose(model.motion.positions[k, 2] + turned @ [0.05, 0.25, 0.0], expected[3], atol=1e-12)
    np.testing.assert_allclose(model.motion.times, [0, 0.01, 0.02, 0.03])
    np.testing.assert_allclose(model.q0, model.motion.q[0])


def test_velocities_are_the_differences_of_the_frames():
    """qd is the central difference of q, in the coordinates of free, ball and hinge joints."""
    motion = biovision.loads(ARM).motion
    for k in (1, 2):
        np.testing.assert_allclose(motion.qd[k, :3], (motion.q[k + 1, :3] - motion.q[k - 1, :3]) / 0.02)
        for iq, v in motion.model.arrays.links.quaternions:
            r0, r1 = (matrix_from_quaternion(motion.q[i, iq : iq + 4]) for i in (k - 1, k + 1))
            rate = motion.qd[k, v : v + 3]
            angle = 0.02 * np.linalg.norm(rate)
            axis = rate / np.linalg.norm(rate)
            cross = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
            step = np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross
            np.testing.assert_allclose(r0 @ step, r1, atol=1e-12)
    np.testing.assert_allclose(motion.qd[1:3, -1], np.radians([(50.0 - 0.0) / 0.02, (55.0 - 45.0) / 0.02]))


@pytest.mark.parametrize("unit", ["cm", "m", "inch", 0.07])
def test_a_motion_goes_out_and_comes_back(tmp_path, unit):
    """Written and read in the same unit, every body is where it was, also with joints that slide."""
    b = lj.Builder("machine")
    for name in ("cart", "arm", "tool", "plate"):
        b.add_body(name, mass=1.0, com=(0.1, 0.0, 0.2), inertia=(0.1, 0.1, 0.1))
    b.add_joint_slide("rail", "world", "cart", axis=(1, 0, 0))
    b.add_joint_ball("shoulder", "cart", "arm", position=(0, 0.2, 0.5), position_in_child=(0.0, 0.0, -0.1))
    b.add_joint_slide("reach", "arm", "tool", axis=(0, 0, 1), rotation=(0.8, 0.6, 0.0, 0.0))
    b.add_joint_fixed("screws", "tool", "plate", position=(0.1, 0, 0))
    model = b.build()
    rng = np.random.default_rng(4)
    q = rng.normal(size=(6, model.nq))
    q[:, 1:5] /= np.linalg.norm(q[:, 1:5], axis=1, keepdims=True)
    motion = lj.Trajectory(model, 0.02 * np.arange(6), q, np.zeros((6, model.nv)))
    motion.save(tmp_path / "out.bvh", unit=unit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)  # the tool slides against the arm
        back = biovision.read(tmp_path / "out.bvh", unit=unit)
    found = {name: k for k, name in enumerate(back.body_names)}
    anchors = {"cart": (0, 0, 0), "arm": (0, 0, -0.1)}
    for name, local in anchors.items():
        k, i = found[name], model.body_index(name)
        r = matrix_from_quaternion(motion.rotations[:, i])
        np.testing.assert_allclose(back.motion.positions[:, k], motion.positions[:, i] + r @ np.array(local), atol=1e-8)
    for name in model.body_names:
        k, i = found[name], model.body_index(name)
        np.testing.assert_allclose(
            matrix_from_quaternion(back.motion.rotations[:, k]),
            matrix_from_quaternion(motion.rotations[:, i]),
            atol=1e-7,
        )


def test_a_clip_goes_out_and_comes_back(tmp_path):
    """A clip that is written and read again has the same joints and the same motion."""
    clip = biovision.loads(ARM)
    clip.motion.save(tmp_path / "again.bvh")
    again = lj.load(tmp_path / "again.bvh")
    assert again.body_names == clip.body_names
    np.testing.assert_allclose(again.motion.positions, clip.motion.positions, atol=1e-9)
    np.testing.assert_allclose(lj.Trajectory.load(tmp_path / "again.bvh").positions, clip.motion.positions, atol=1e-9)


def test_frames_at_uneven_times_are_made_even(tmp_path):
    """A recording whose last frame comes early is written at the interval of its first frames."""
    clip = biovision.loads(ARM).motion
    uneven = lj.Trajectory(clip.model, [0.0, 0.01, 0.02, 0.025], clip.q, clip.qd)
    uneven.save(tmp_path / "even.bvh")
    again = lj.Trajectory.load(tmp_path / "even.bvh")
    np.testing.assert_allclose(again.times, [0.0, 0.01, 0.02])
    np.testing.assert_allclose(again.positions, clip.positions[:3], atol=1e-9)


def test_the_figure_weighs_what_it_should():
    """Bones are capsules from joint to joint, of the mass asked for; a longer limb beyond makes a thicker bone."""
    model = biovision.loads(ARM, mass=40.0)
    assert float(model.arrays.body_mass.sum()) == pytest.approx(40.0)
    sizes = {shape.body: shape.size for shape in model.shapes}
    assert sizes["Arm"][0] > sizes["Elbow"][0]
    assert sizes["Arm"][1] == pytest.approx(0.3) and sizes["Elbow"][1] == pytest.approx(np.hypot(0.25, 0.05))
    assert np.linalg.eigvalsh(lj.mass_matrix(model, model.q0)).min() > 0.0


@pytest.mark.parametrize(("unit", "scale"), [("m", 1.0), ("cm", 100.0), ("inch", 1 / 0.0254), ("cmu", 0.45 / 0.0254)])
def test_the_unit_is_that_of_a_human(unit, scale):
    """A figure of human size is recognized in the units files have."""
    assert biovision.guess_unit(1.15 * scale) == pytest.approx(biovision.UNITS[unit])
    assert biovision.guess_unit(1.0 * scale) == pytest.approx(biovision.UNITS[unit])


def test_position_channels_replace_the_offset():
    """A joint with position channels is where they say; where they change, the mean is taken and said."""
    text = ARM.replace("CHANNELS 1 Zrotation", "CHANNELS 4 Xposition Yposition Zposition Zrotation")
    rows = [line + f" 31 {k} 0 5" for k, line in enumerate(text.splitlines()[-4:])]
    rows = [" ".join(row.split()[:9] + row.split()[10:]) for row in rows]
    head = text.splitlines()[:-4]
    with pytest.warns(ModelWarning, match='"Elbow" moves by 0.015 m'):
        model = biovision.loads("\n".join(head + rows), unit="cm")
    joint = model.joint_spec("Elbow")
    np.testing.assert_allclose(joint.position, (0.0, 0.31, 0.015), atol=1e-12)


BAD = {
    "empty": ("", "HIERARCHY"),
    "other": ("<mujoco/>", "HIERARCHY"),
    "no root": ("HIERARCHY\nMOTION\nFrames: 1\nFrame Time: 1\n", "ROOT"),
    "no name": ("HIERARCHY\nROOT\n{\n}\nMOTION", "name"),
    "channel": (ARM.replace("1 Zrotation", "1 Wrotation"), "Wrotation"),
    "channel twice": (ARM.replace("3 Yrotation Zrotation", "3 Yrotation Yrotation"), "twice"),
    "too many channels": (ARM.replace("CHANNELS 1", "CHANNELS 7"), "from 0 to 6"),
    "offset": (ARM.replace("OFFSET 30 0 0", "OFFSET 30 zero 0"), "zero"),
    "infinite offset": (ARM.replace("OFFSET 30 0 0", "OFFSET 30 inf 0"), "inf"),
    "open": (ARM.split("MOTION")[0].rstrip("}\n"), "ends"),
    "few numbers": (ARM.replace("3 92 6 30 -40 50 25 -35 45 55\n", "3 92\n"), "32 numbers"),
    "many numbers": (ARM + "1 2 3\n", "more numbers"),
    "words": (ARM.replace("3 92 6", "3 up 6"), "not a number"),
    "nan": (ARM.replace("3 92 6", "3 nan 6"), "not finite"),
    "no frames": (ARM.replace("Frames: 4", "Frames: 0"), "no frames"),
    "half a frame": (ARM.replace("Frames: 4", "Frames: 1.5"), "whole number"),
    "huge": (ARM.replace("Frames: 4", "Frames: 999999999"), "50000000"),
    "still": (ARM.replace("Frame Time: 0.01", "Frame Time: 0"), "Frame Time"),
}


@pytest.mark.parametrize("name", sorted(BAD))
def test_bad_files_are_typed_errors(tmp_path, name):
    """What is wrong with a file is said with its name, and mostly the line; nothing is read by half."""
    text, word = BAD[name]
    path = tmp_path / "bad.bvh"
    path.write_text(text)
    with pytest.raises(FileError, match="bad.bvh") as caught:
        lj.load(path)
    assert word in str(caught.value)


def test_names_used_twice_are_made_unique(tmp_path):
    """A second joint of the same name is renamed with a warning, or refused."""
    path = tmp_path / "twice.bvh"
    path.write_text(ARM.replace("JOINT Elbow", "JOINT Arm"))
    with pytest.warns(ModelWarning, match=r"twice.bvh:10.*Arm_2"):
        assert lj.load(path).body_names == ("Hips", "Arm", "Arm_2")
    with pytest.raises(FileError, match='"Arm" is taken'):
        lj.load(path, repair=False)


def test_damaged_files_never_escape_untyped():
    """Letters, words and lines changed at random give a model or a LimberjackError, and no other error."""
    rng = random.Random(7)
    for _ in range(400):
        words = ARM.split(" ") if rng.random() < 0.5 else list(ARM)
        for _ in range(rng.randint(1, 4)):
            k = rng.randrange(len(words))
            other = words[rng.randrange(len(words))]
            words[k] = rng.choice(["", "}", "{", "-1e400", "0", "JOINT", "\n", "\x00", "é", other])
        text = (" " if len(words) < len(ARM) / 2 else "").join(words)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ModelWarning)
            try:
                biovision.loads(text)
            except LimberjackError:
                pass


def test_a_deep_hierarchy_needs_no_recursion():
    """Thousands of joints one inside the other are read; more than the bound are refused."""

    def chain(n):
        joint = "JOINT j{} {{ OFFSET 0 1 0 CHANNELS 0\n"
        inside = "".join(joint.format(i) for i in range(n))
        return "HIERARCHY ROOT r\n{ OFFSET 0 0 0 CHANNELS 0\n" + inside.replace(" {", "\n{") + "} " * (n + 1)

    tail = "\nMOTION\nFrames: 1\nFrame Time: 0.1\n"
    assert biovision.loads(chain(3000) + tail, unit="m").body_count == 3001
    with pytest.raises(FileError, match="more than 10000 joints"):
        biovision.loads(chain(10001) + tail)
