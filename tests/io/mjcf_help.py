"""Small MJCF files and MuJoCo's own view of them, for the tests of the loader."""

from __future__ import annotations

import warnings

import mujoco
import numpy as np

from limberjack.errors import ModelWarning
from limberjack.io import load
from limberjack.reduced.dynamics import forward_dynamics, forward_kinematics

TET = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"


def reference(path):
    """Return MuJoCo's own compiled model; by way of a spec, which writes no log file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return mujoco.MjSpec.from_file(str(path)).compile()


def quiet(path, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        return load(path, **options)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def mjcf(tmp_path, world="", rest="", name="m.xml"):
    return write(tmp_path / name, f'<mujoco model="m">\n{rest}\n<worldbody>{world}</worldbody></mujoco>')


def read(tmp_path, world="", rest=""):
    """Return the model of a small file that must load without a warning, and MuJoCo's."""
    path = mjcf(tmp_path, world, rest)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return load(path), reference(path)


def random_state(m, rng):
    q = rng.normal(size=m.nq)
    mujoco.mj_normalizeQuat(m, q)
    return q, rng.normal(size=m.nv)


def pose_gap(model, m, q):
    data = mujoco.MjData(m)
    data.qpos[:] = q
    mujoco.mj_kinematics(m, data)
    positions, rotations = forward_kinematics(model, q)
    turned = np.abs(np.einsum("ij,ij->i", rotations, data.xquat[1:]))
    scale = max(1.0, np.abs(data.xpos).max())
    # The angle between two unit quaternions is read off the part that vanishes, not off a cosine near 1.
    sign = np.sign(np.einsum("ij,ij->i", rotations, data.xquat[1:]))[:, None]
    gap = np.abs(rotations * sign - data.xquat[1:]).max(initial=0)
    assert turned.min(initial=1.0) > 0.9
    return max(np.abs(positions - data.xpos[1:]).max(initial=0) / scale, gap)


def assert_same_motion(model, m, states=3, tolerance=1e-12):
    """Poses and unconstrained accelerations agree at random states, coordinates copied over."""
    rng = np.random.default_rng(7)
    m.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT) | int(mujoco.mjtDisableBit.mjDSBL_ACTUATION)
    data = mujoco.MjData(m)
    for _ in range(states):
        q, qd = random_state(m, rng)
        assert pose_gap(model, m, q) < tolerance
        data.qpos[:], data.qvel[:] = q, qd
        mujoco.mj_forward(m, data)
        gap = np.abs(forward_dynamics(model, q, qd) - data.qacc_smooth).max(initial=0)
        assert gap <= 100 * tolerance * np.abs(data.qacc_smooth).max(initial=1.0)


BODY = (
    '<body name="{n}" pos=".1 .2 .3" euler="10 20 30">{joints}'
    '<geom size=".1 .2 .3" type="box" pos=".3 .1 0"/>{rest}</body>'
)


def nested(*joints):
    """Return bodies one inside the other, each with its joints."""
    text = ""
    for i, own in reversed(list(enumerate(joints))):
        text = BODY.format(n=f"b{i}", joints=own, rest=text)
    return text


HINGE = '<joint axis="1 2 -3" pos=".1 -.2 .3"/>'
JOINTS = {
    "hinge": [HINGE, HINGE],
    "slide": ['<joint type="slide" axis="0 1 1"/>', HINGE],
    "ball": ['<joint type="ball" pos=".1 0 .2"/>', '<joint type="ball"/>'],
    "free": ["<freejoint/>", HINGE],
    "welded": [HINGE, "", HINGE],
    "hinges": ['<joint axis="0 0 1"/><joint axis="0 1 0" pos="0 .1 0"/><joint axis="1 1 0" pos=".3 0 0"/>'] * 2,
    "planar": [
        '<joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/><joint axis="0 1 0"/>',
        HINGE,
    ],
    "mixed": ['<joint axis="0 1 0" pos=".1 0 0"/><joint type="slide" axis="1 0 1"/><joint axis="0 0 1" pos="0 .2 0"/>'],
    "reference": [
        '<joint ref="40" axis="1 2 3" pos=".1 -.2 .3"/>',
        '<joint type="slide" ref=".7" axis="1 0 1"/>',
    ],
    "references": [
        '<joint ref="40" axis="1 2 3" pos=".1 -.2 .3"/><joint type="slide" ref=".7" axis="1 0 1"/>'
        '<joint ref="-70" axis="0 1 1" pos="0 .3 .1"/>',
        '<joint ref="20" pos="1 0 0"/><joint axis="0 1 0" pos="0 0 1"/>',
    ],
    "point_on_line": [
        '<joint type="slide" axis="0 0 1" ref=".3"/><joint type="ball" pos=".1 .2 .3"/>',
        HINGE,
    ],
    "point_on_plane": [
        '<joint type="slide" axis="1 0 0" ref=".1"/><joint type="slide" axis="0 1 0" ref=".2"/><joint type="ball"/>'
    ],
    "six": ["".join(f'<joint type="slide" axis="{a}"/><joint axis="{a}"/>' for a in ("1 0 0", "0 1 0", "0 0 1"))],
}
TWO = nested('<joint name="j"/>', '<joint name="k"/>')
