"""Settings to begin with, for algorithm and task.

Those that lessons use were found by search on other seeds and confirmed on fresh ones (`course.py test --full`). The others,
for A2C, LunarLander, Hopper and for VPG on robots, come from a handful of trials or from the literature (A2C on Pendulum, which
lesson 06 uses, from a small search); what they reach, which is not always much, is in docs/results.md.
"""

from rlcourse.agents.a2c import A2C
from rlcourse.agents.ppo import PPO
from rlcourse.agents.trpo import TRPO
from rlcourse.agents.vpg import VPG

TRPO_ROBOT = TRPO(
    num_envs=8,
    num_steps=256,
    max_kl=0.04,
    cg_iters=15,
    cg_damping=0.1,
    critic_learning_rate=1e-3,
    update_epochs=25,
    num_minibatches=16,
    normalize_obs=True,
)
VPG_ROBOT = VPG(
    num_envs=16,
    num_steps=64,
    learning_rate=0.002,
    critic_learning_rate=0.003,
    gae_lambda=0.95,
    update_epochs=5,
    normalize_obs=True,
    normalize_reward=True,
)
A2C_ROBOT = A2C(num_envs=16, num_steps=16, learning_rate=7e-4, gae_lambda=0.95, normalize_obs=True, normalize_reward=True)

RECOMMENDED = {
    ("PPO", "CartPole-v1"): PPO(
        num_envs=8,
        num_steps=128,
        update_epochs=2,
        num_minibatches=16,
        learning_rate=0.003,
        gamma=0.98,
        gae_lambda=0.95,
        clip_epsilon=0.3,
    ),
    ("PPO", "Acrobot-v1"): PPO(
        num_envs=64,
        num_steps=32,
        update_epochs=6,
        num_minibatches=16,
        learning_rate=0.002,
        gamma=0.995,
        gae_lambda=0.9,
        clip_epsilon=0.3,
        entropy_coef=0.01,
    ),
    ("PPO", "Pendulum-v1"): PPO(
        num_envs=8,
        num_steps=200,
        update_epochs=10,
        num_minibatches=6,
        learning_rate=0.002,
        gamma=0.98,
        gae_lambda=0.9,
        clip_epsilon=0.2,
        reward_scale=0.1,
        initial_log_std=0.5,
        max_grad_norm=2.0,
    ),
    ("PPO", "HalfCheetah-v5"): PPO(
        num_envs=8,
        num_steps=256,
        update_epochs=10,
        num_minibatches=32,
        learning_rate=3e-4,
        anneal=True,
        normalize_obs=True,
    ),
    ("PPO", "Hopper-v5"): PPO(
        num_envs=8,
        num_steps=256,
        update_epochs=10,
        num_minibatches=32,
        learning_rate=6e-4,
        anneal=True,
        normalize_obs=True,
        normalize_reward=True,
    ),
    ("PPO", "LunarLander-v3"): PPO(
        num_envs=16,
        num_steps=256,
        update_epochs=4,
        num_minibatches=16,
        learning_rate=2e-3,
        anneal=True,
        gamma=0.999,
        gae_lambda=0.98,
        entropy_coef=0.01,
    ),
    ("PPO", "Reacher-v5"): PPO(
        num_envs=20,
        num_steps=100,
        update_epochs=10,
        num_minibatches=32,
        learning_rate=1e-3,
        anneal=True,
        gamma=0.95,
        entropy_coef=0.001,
        max_grad_norm=5.0,
        normalize_obs=True,
    ),
    ("TRPO", "HalfCheetah-v5"): TRPO_ROBOT,
    ("TRPO", "Hopper-v5"): TRPO_ROBOT,
    ("TRPO", "LunarLander-v3"): TRPO(
        num_envs=16,
        num_steps=128,
        max_kl=0.02,
        cg_iters=10,
        cg_damping=0.1,
        fisher_stride=2,
        critic_learning_rate=3e-3,
        update_epochs=10,
        num_minibatches=16,
        gamma=0.99,
        gae_lambda=0.95,
    ),
    ("TRPO", "CartPole-v1"): TRPO(
        num_envs=16,
        num_steps=64,
        max_kl=0.02,
        cg_iters=5,
        cg_damping=0.1,
        fisher_stride=4,
        critic_learning_rate=0.01,
        update_epochs=2,
        gamma=0.99,
        gae_lambda=0.95,
    ),
    ("TRPO", "Pendulum-v1"): TRPO(
        hidden_sizes=(32, 32),
        num_envs=16,
        num_steps=200,
        max_kl=0.01,
        cg_iters=10,
        cg_damping=0.1,
        fisher_stride=8,
        critic_learning_rate=0.01,
        update_epochs=4,
        num_minibatches=12,
        gamma=0.9,
        gae_lambda=0.97,
        reward_scale=0.2,
    ),
    ("VPG", "CartPole-v1"): VPG(num_envs=16, num_steps=32, learning_rate=0.0015, critic_learning_rate=0.01, gamma=0.98),
    ("VPG", "Acrobot-v1"): VPG(
        num_envs=16,
        num_steps=32,
        learning_rate=0.003,
        critic_learning_rate=0.01,
        gamma=0.99,
        gae_lambda=0.9,
        entropy_coef=0.01,
        update_epochs=1,
    ),
    ("VPG", "Pendulum-v1"): VPG(
        num_envs=16,
        num_steps=25,
        learning_rate=0.003,
        critic_learning_rate=0.005,
        gamma=0.95,
        gae_lambda=0.9,
        reward_scale=0.1,
        initial_log_std=0.5,
        update_epochs=4,
        num_minibatches=4,
    ),
    ("VPG", "LunarLander-v3"): VPG(
        num_envs=16,
        num_steps=128,
        learning_rate=0.006,
        critic_learning_rate=0.01,
        gamma=0.995,
        gae_lambda=0.97,
        entropy_coef=0.01,
        update_epochs=4,
        num_minibatches=4,
    ),
    ("A2C", "CartPole-v1"): A2C(num_envs=8, num_steps=16, learning_rate=0.003, gamma=0.98, gae_lambda=0.9),
    ("A2C", "Acrobot-v1"): A2C(num_envs=16, num_steps=16, learning_rate=0.003, gae_lambda=0.9, entropy_coef=0.01),
    ("A2C", "Pendulum-v1"): A2C(
        num_envs=8,
        num_steps=16,
        learning_rate=0.002,
        gamma=0.95,
        gae_lambda=0.9,
        reward_scale=0.1,
        initial_log_std=0.5,
        max_grad_norm=2.0,
        normalize=True,
    ),
    ("A2C", "LunarLander-v3"): A2C(num_envs=16, num_steps=8, learning_rate=1e-3, gamma=0.995, gae_lambda=0.95),
    ("VPG", "HalfCheetah-v5"): VPG_ROBOT,
    ("VPG", "Hopper-v5"): VPG_ROBOT,
    ("A2C", "HalfCheetah-v5"): A2C_ROBOT,
    ("A2C", "Hopper-v5"): A2C_ROBOT,
}


def recommended(algorithm_name: str, env_id: str):
    """The settings which the lessons use for this algorithm and environment.

    Args:
        algorithm_name: such as "PPO". env_id: such as "CartPole-v1".

    Returns:
        Settings of that algorithm; a copy: change it freely.

    Raises:
        ValueError: nothing is known for this pair; the message lists what is.
    """
    if (algorithm_name, env_id) not in RECOMMENDED:
        known = ", ".join(f"{name} on {env}" for name, env in RECOMMENDED)
        raise ValueError(f"no settings for {algorithm_name!r} on {env_id!r}; there are some for: {known}.")
    settings = RECOMMENDED[algorithm_name, env_id]
    return type(settings)(**vars(settings))
