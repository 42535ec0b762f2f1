"""Learning: random search finds a rhythm of the joints that moves Ant forward, 16 copies at a time as one model."""

import gymnasium
import numpy as np

import limberjack.gym  # noqa: F401 - registers the environments

envs = gymnasium.make_vec("Limberjack/Ant-v0", num_envs=16, vectorization_mode="vector_entry_point")
rng = np.random.default_rng(0)


def rewards(policies):
    """Return how fast each copy goes over 60 steps, with amplitudes, phases and offsets of its joints."""
    envs.reset(seed=0)
    total = np.zeros(16)
    for step in range(60):
        actions = np.clip(policies[:, 0] * np.sin(0.6 * step + policies[:, 1]) + policies[:, 2], -1, 1)
        total += envs.step(actions)[4]["reward_forward"]
    return total / 60


best = np.zeros((3, 8))
still = rewards(np.zeros((16, 3, 8))).max()
for turn in range(3):
    policies = best + rng.normal(size=(16, 3, 8)) * 0.3
    policies[0] = best
    found = rewards(policies)
    best = policies[int(np.argmax(found))]
    print(f"turn {turn}: best of 16 copies {found.max():.2f} per step")
assert found.max() > still
