"""Forward dynamics of every real MJCF model against MuJoCo, in MuJoCo's own coordinates."""

from __future__ import annotations

import warnings
from pathlib import Path

import mujoco
import numpy as np
import pytest
from tests.peers.models import mjcf_models, tolerance

import limberjack as lj

MODELS = mjcf_models()
STATES = 20


def _smooth(path: Path) -> mujoco.MjModel:
    """Return MuJoCo's model with all but the tree switched off: no contacts, constraints, actuators, fluid, tendons."""
    model = mujoco.MjModel.from_xml_path(str(path))
    bits = mujoco.mjtDisableBit
    model.opt.disableflags |= int(bits.mjDSBL_CONTACT | bits.mjDSBL_CONSTRAINT | bits.mjDSBL_ACTUATION)
    model.opt.density = model.opt.viscosity = 0
    model.tendon_stiffness[:] = 0
    model.tendon_damping[:] = 0
    model.tendon_armature[:] = 0
    model.body_gravcomp[:] = 0
    return model


@pytest.mark.parametrize("path", MODELS, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_forward_dynamics_equals_mujoco(path: Path) -> None:
    """q, qd copied over from MuJoCo give MuJoCo's qacc_smooth to 1e-9 relative, with torques and wrenches."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lj.ModelWarning)
        try:
            model = lj.load(path, roots=[path.parents[4]])
        except lj.FileError as error:
            # The file itself is not a model MuJoCo can compile: nothing to compare, but it must say so.
            with pytest.raises(ValueError):
                mujoco.MjModel.from_xml_path(str(path))
            assert path.parent.name in str(error)
            return
    peer = _smooth(path)
    data = mujoco.MjData(peer)
    assert (model.nq, model.nv) == (peer.nq, peer.nv)
    rng = np.random.default_rng(3)
    bodies = [model.body_index(mujoco.mj_id2name(peer, mujoco.mjtObj.mjOBJ_BODY, i) or "") for i in _named(peer)]
    # Forces of the size of the model's own weight: 1 N on a fly of a milligram only measures rounding.
    weight = min(1.0, 10 * peer.body_subtreemass[0])
    for _ in range(STATES):
        data.qpos[:] = peer.qpos0
        mujoco.mj_integratePos(peer, data.qpos, rng.normal(size=peer.nv), 0.7)
        data.qvel[:] = rng.normal(size=peer.nv)
        data.qfrc_applied[:] = rng.normal(size=peer.nv)
        data.xfrc_applied[:] = 0
        wrenches = np.zeros((model.body_count, 6))
        for i, b in zip(_named(peer), bodies, strict=True):
            wrenches[b] = rng.normal(size=6) * weight
            data.xfrc_applied[i] = [*wrenches[b, 3:], *wrenches[b, :3]]
        mujoco.mj_forward(peer, data)
        qdd = lj.forward_dynamics(model, data.qpos, data.qvel, data.qfrc_applied, wrenches)
        reference = data.qacc_smooth
        if peer.nv:
            assert np.abs(qdd - reference).max() <= tolerance(model, data.qpos) * np.abs(reference).max()


def _named(peer: mujoco.MjModel) -> list[int]:
    return [i for i in range(1, peer.nbody) if mujoco.mj_id2name(peer, mujoco.mjtObj.mjOBJ_BODY, i)]
