#!/usr/bin/env python3
"""Steps per second beside Stable-Baselines3 and sb3-contrib, on equal work, in one run on one thread.

    python tools/benchmark_training.py ppo [--env Pendulum-v1]            (also: vpg, trpo; needs requirements-dev.txt)

Equal work in all three: 8 environments of 128 steps per update, 2 × 64 tanh networks for policy and critic, float32.
ppo: minibatches of 64, 10 epochs, clipped gradient.  vpg: one gradient step of policy and critic on the whole batch; the peer is
PPO with one epoch.  trpo: KL limit 0.01, at most 10 CG iterations on the whole batch, damping 0.1, backtracking by 0.8, 10
critic epochs in minibatches of 128.

Rounds alternate between the contestants; printed are the median and, because the machine may be shared, the ratios within each
round. Rows marked Gymnasium use Gymnasium's own environments, so that the speed of our batched twins can be told apart from that
of training. "floor" does nothing but the matrix products, tanh and physics of the same work for 8 runs of ppo.
"""

import argparse
import statistics
import time

import numpy as np
import torch
from sb3_contrib import TRPO as PeerTRPO
from stable_baselines3 import PPO as PeerPPO
from stable_baselines3.common.env_util import make_vec_env

from rlcourse import PPO, TRPO, VPG, iterate, make_env

ENVS, STEPS, WIDTH = 8, 128, 64
BATCH = ENVS * STEPS
OURS = {
    "ppo": PPO(num_envs=ENVS, num_steps=STEPS, update_epochs=10, num_minibatches=BATCH // 64, learning_rate=3e-4),
    "vpg": VPG(num_envs=ENVS, num_steps=STEPS, learning_rate=1e-3, update_epochs=1, num_minibatches=1, max_grad_norm=0.5),
    "trpo": TRPO(
        num_envs=ENVS, num_steps=STEPS, max_kl=0.01, cg_iters=10, cg_tol=1e-5, cg_damping=0.1, backtrack_coeff=0.8,
        max_backtracks=10, critic_learning_rate=1e-3, update_epochs=10, num_minibatches=BATCH // 128,
    ),
}  # fmt: skip
THEIRS = {
    "ppo": (PeerPPO, {"n_epochs": 10, "batch_size": 64, "learning_rate": 3e-4}),
    "vpg": (PeerPPO, {"n_epochs": 1, "batch_size": BATCH, "learning_rate": 1e-3}),
    "trpo": (
        PeerTRPO,
        {
            "batch_size": 128, "n_critic_updates": 10, "learning_rate": 1e-3, "target_kl": 0.01, "cg_max_steps": 10,
            "cg_damping": 0.1, "line_search_shrinking_factor": 0.8, "line_search_max_iter": 10, "sub_sampling_factor": 1,
        },
    ),
}  # fmt: skip


def ours(work, env, num_runs, batched=True):
    updates = iterate(OURS[work], env, total_steps=10**9, seeds=range(num_runs), batched=batched)
    next(updates)
    return lambda: (next(updates), num_runs * BATCH)[1]


def theirs(work, env):
    kind, options = THEIRS[work]
    net = {"net_arch": {"pi": [WIDTH, WIDTH], "vf": [WIDTH, WIDTH]}}
    model = kind("MlpPolicy", make_vec_env(env, ENVS, seed=0), n_steps=STEPS, policy_kwargs=net, seed=0, device="cpu", **options)
    model.learn(BATCH)

    def update():
        model.learn(BATCH, reset_num_timesteps=False)
        return BATCH

    return update


def floor(env, num_runs=8):
    """Matrix products, tanh and physics of one PPO update, and nothing else: no loss, no optimiser, no bookkeeping."""
    world = make_env(env, num_runs * ENVS, seed=0)
    world.reset()
    discrete = hasattr(world.action_space, "n")
    outputs = int(world.action_space.n) if discrete else world.action_space.shape[0]
    action = np.zeros(num_runs * ENVS, dtype=int) if discrete else np.zeros((num_runs * ENVS, outputs))
    noise = lambda *shape: torch.randn(num_runs, *shape)  # noqa: E731
    nets = [[noise(world.obs_size, WIDTH), noise(WIDTH, WIDTH), noise(WIDTH, out)] for out in (outputs, 1)]

    def forward(weights, x):
        inputs = [x]
        for weight in weights[:-1]:
            inputs.append(torch.tanh(torch.bmm(inputs[-1], weight)))
        return inputs, torch.bmm(inputs[-1], weights[-1])

    def backward(weights, inputs, error):
        for weight, x in zip(weights[::-1], inputs[::-1], strict=True):
            torch.bmm(x.mT, error)
            if x is not inputs[0]:
                error = torch.ops.aten.tanh_backward(torch.bmm(error, weight.mT), x)

    few, many = noise(ENVS, world.obs_size), noise(64, world.obs_size)

    @torch.no_grad()
    def update():
        for _ in range(STEPS):
            forward(nets[0], few)
            world.step(action)
        for _ in range(10 * BATCH // 64):
            for weights in nets:
                inputs, output = forward(weights, many)
                backward(weights, inputs, output)
        return num_runs * BATCH

    return update


def rate(update, seconds):
    done, start = 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < seconds:
        done += update()
    return done / spent


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", choices=sorted(OURS))
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="per contestant and round")
    options = parser.parse_args()
    torch.set_num_threads(1)
    work, env = options.work, options.env
    peer = f"{THEIRS[work][0].__module__.split('.')[0]} {THEIRS[work][0].__name__}"
    contestants = {
        peer: theirs(work, env),
        f"rlcourse {work.upper()}, 1 run": ours(work, env, 1),
        f"rlcourse {work.upper()}, 8 runs": ours(work, env, 8),
        f"rlcourse {work.upper()}, 1 run, Gymnasium": ours(work, env, 1, batched=False),
        f"rlcourse {work.upper()}, 8 runs, Gymnasium": ours(work, env, 8, batched=False),
    }
    if work == "ppo":
        contestants["floor, 8 runs"] = floor(env)
    rates = {name: [] for name in contestants}
    for _ in range(options.rounds):
        for name, update in contestants.items():
            rates[name].append(rate(update, options.seconds))
    print(f"{env}, {options.rounds} rounds\n{'':34}{'steps/s, all runs':>18}   median ratio to {peer}")
    for name, values in rates.items():
        ratio = statistics.median(a / b for a, b in zip(values, rates[peer], strict=True))
        print(f"{name:34}{statistics.median(values):18,.0f}   {ratio:.1f}")


if __name__ == "__main__":
    main()
