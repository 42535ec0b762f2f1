"""Environments: as those of Gymnasium at the start, checked by its checker, reproducible, in all autoreset modes."""

from __future__ import annotations

import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import limberjack.gym as ljgym
from limberjack.errors import StateError, UnknownName

NAMES = sorted(ljgym.TASKS)


def vector(name: str, count: int, **options):
    """Return a vectorised environment."""
    return gymnasium.make_vec(
        f"Limberjack/{name}-v0", num_envs=count, vectorization_mode="vector_entry_point", **options
    )


@pytest.mark.parametrize("order", ["gymnasium, limberjack", "limberjack, gymnasium", "limberjack.gym, gymnasium"])
def test_importing_the_package_registers_the_environments(order):
    """Environments are found by name after both packages are imported, in any order, and Gymnasium is itself."""
    text = (
        f"import {order}\n"
        "import gymnasium, importlib.util, sys\n"
        "names = [name for name in gymnasium.registry if name.startswith('Limberjack/')]\n"
        "print(sorted(names), 'limberjack.gym' in sys.modules)\n"
        "assert type(importlib.util.find_spec('gymnasium').loader).__module__.startswith('_frozen')\n"
        "assert not any('limberjack' in type(finder).__module__ for finder in sys.meta_path)\n"
    )
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout
    wanted = sorted(f"Limberjack/{name}-v0" for name in NAMES)
    assert found == f"{wanted} {order.startswith('limberjack.gym')}\n"


@pytest.mark.parametrize("name", NAMES)
def test_the_start_is_that_of_gymnasium(name):
    """The same seed gives the observation, spaces and info keys of the MuJoCo environment."""
    ours = gymnasium.make(f"Limberjack/{name}-v0")
    peer = gymnasium.make(f"{name}-v5")
    assert ours.observation_space == peer.observation_space and ours.action_space == peer.action_space
    assert ours.unwrapped.dt == pytest.approx(peer.unwrapped.dt)
    found, info = ours.reset(seed=3)
    expected, peer_info = peer.reset(seed=3)
    if not ours.unwrapped.copies.planar:  # MuJoCo shows the quaternion with the noise, before it is normalised
        expected = expected.copy()
        expected[1:5] /= np.linalg.norm(expected[1:5])
    np.testing.assert_allclose(found, expected, atol=1e-9 if name != "Humanoid" else 1e-7)
    assert set(peer_info) - {"tendon_length", "tendon_velocity"} <= set(info)


@pytest.mark.parametrize("name", NAMES)
def test_motion_and_reward_stay_near_those_of_gymnasium(name):
    """With the same actions, rewards of 10 steps, but for impacts, are those of the MuJoCo environment within 0.3."""
    ours, peer = gymnasium.make(f"Limberjack/{name}-v0"), gymnasium.make(f"{name}-v5")
    ours.reset(seed=1)
    peer.reset(seed=1)
    peer.action_space.seed(2)
    rewards = []
    for _ in range(10):
        action = 0.3 * peer.action_space.sample()
        _, a, end, _, info = ours.step(action)
        _, b, peer_end, _, peer_info = peer.step(action)
        rewards.append((a - info.get("reward_contact", 0.0), b - peer_info.get("reward_contact", 0.0)))
        assert end == peer_end
        assert info["reward_ctrl"] == pytest.approx(peer_info["reward_ctrl"])
        assert set(peer_info) - {"tendon_length", "tendon_velocity"} <= set(info)
    a, b = np.array(rewards).T
    assert abs(a.mean() - b.mean()) < 0.3


@pytest.mark.parametrize("name", NAMES)
def test_the_checker_finds_nothing(name):
    """Gymnasium's checker is content, but for bounds that its own environments do not have either."""
    env = gymnasium.make(f"Limberjack/{name}-v0", render_mode="rgb_array", width=64, height=48)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*infinity.*")
        check_env(env.unwrapped)
    env.reset(seed=0)
    assert env.render().shape == (48, 64, 3) and env.render().std() > 0


def test_an_episode_is_reproducible_bit_for_bit():
    """Two environments, and the same one again, give the same bits from the same seed and actions."""
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (30, 8))
    runs = []
    for env in (gymnasium.make("Limberjack/Ant-v0"),) * 2 + (gymnasium.make("Limberjack/Ant-v0"),):
        env.reset(seed=11)
        runs.append(np.array([env.step(action)[0] for action in actions]))
    assert np.array_equal(runs[0], runs[1]) and np.array_equal(runs[0], runs[2])


@pytest.mark.parametrize("name", ["Ant", "Hopper"])
def test_copies_are_alike(name):
    """Each copy of a vectorised environment does what a single one does with its seed and actions."""
    envs = vector(name, 3, terminate_when_unhealthy=False)
    found, _ = envs.reset(seed=5)
    rng = np.random.default_rng(1)
    singles = [gymnasium.make(f"Limberjack/{name}-v0", terminate_when_unhealthy=False) for _ in range(3)]
    for i, single in enumerate(singles):
        np.testing.assert_allclose(found[i], single.reset(seed=5 + i)[0], atol=1e-9)
    for _ in range(4):
        actions = rng.uniform(-0.5, 0.5, envs.action_space.shape)
        found, rewards, *_ = envs.step(actions)
        for i, single in enumerate(singles):
            observation, reward, *_ = single.step(actions[i])
            n = single.unwrapped.copies.nq + single.unwrapped.copies.nv - 2
            np.testing.assert_allclose(found[i, :n], observation[:n], atol=1e-5)
            assert rewards[i] == pytest.approx(reward, abs=1e-2)


def ended(envs, steps=60):
    """Yield what steps return until a copy has ended, and the next one."""
    rng = np.random.default_rng(0)
    last = False
    for _ in range(steps):
        out = envs.step(rng.uniform(-1, 1, envs.action_space.shape))
        yield out
        if last:
            return
        last = bool((out[2] | out[3]).any())


def test_copies_are_reset_in_the_next_step():
    """Of a copy that has ended, the next step is its reset: reward 0, and its start is observed."""
    envs = vector("Hopper", 3, max_episode_steps=6)
    envs.reset(seed=0)
    *_, done, after = ended(envs)
    assert done[3].all() and not after[3].any() and (after[1] == 0).all()
    np.testing.assert_allclose(after[0][:, 0], 1.25, atol=5e-3)


def test_copies_are_reset_in_the_same_step():
    """Of a copy that has ended, the last observation is in the info and the start of the next episode is observed."""
    envs = vector("Hopper", 3, max_episode_steps=6, autoreset_mode="SameStep")
    envs.reset(seed=0)
    *_, done, after = ended(envs)
    info = done[4]
    assert done[3].all() and info["_final_obs"].all() and info["final_obs"][1].shape == (11,)
    np.testing.assert_allclose(done[0][:, 0], 1.25, atol=5e-3)
    assert info["final_info"]["_x_velocity"].all() and (after[1] != 0).all()


def test_copies_are_reset_by_hand():
    """Without autoreset, copies that have ended must be reset by a mask; others go on where they were."""
    envs = vector("Hopper", 3, max_episode_steps=6, autoreset_mode="Disabled")
    envs.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(6):
        before = envs.step(rng.uniform(-1, 1, envs.action_space.shape))[0]
    with pytest.raises(StateError, match="have ended"):
        envs.step(envs.action_space.sample())
    mask = np.array([True, False, True])
    found, _ = envs.reset(options={"reset_mask": mask})
    np.testing.assert_allclose(found[1], before[1], atol=1e-12)
    assert (found[[0, 2]] != before[[0, 2]]).any(axis=1).all()
    with pytest.raises(StateError, match="reset_mask"):
        envs.reset(options={"reset_mask": np.zeros(3, bool)})


def test_wrong_arguments_are_named():
    """Unknown tasks, fields and modes, and actions of the wrong shape, are refused with the choices."""
    with pytest.raises(UnknownName, match="Ant"):
        ljgym.LocomotionEnv("Aunt")
    with pytest.raises(UnknownName, match="ctrl_cost_weight"):
        ljgym.LocomotionEnv("Ant", ctrl_cost=1.0)
    with pytest.raises(UnknownName, match="rgb_array"):
        ljgym.LocomotionEnv("Ant", render_mode="ascii")
    env = ljgym.LocomotionEnv("Hopper")
    env.reset(seed=0)
    with pytest.raises(StateError, match=r"shape \(3,\)"):
        env.step(np.zeros(4))
