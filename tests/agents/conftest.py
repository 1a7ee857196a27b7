"""What several tests of algorithms compare with."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def gae_by_hand():
    """GAE written out per environment, forwards, as the sum of (γλ)^l δ_{t+l} up to the end of the episode: (R, T·N)."""

    def advantages(rollout, gamma, gae_lambda):
        advantage = np.zeros_like(rollout.reward)
        delta = rollout.reward + gamma * rollout.next_value * ~rollout.terminated - rollout.value
        for t, r, n in np.ndindex(advantage.shape):
            for k in range(t, len(advantage)):
                advantage[t, r, n] += (gamma * gae_lambda) ** (k - t) * delta[k, r, n]
                if rollout.terminated[k, r, n] or rollout.truncated[k, r, n]:
                    break
        return advantage.transpose(1, 0, 2).reshape(advantage.shape[1], -1)

    return advantages
