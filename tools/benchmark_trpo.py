#!/usr/bin/env python3
"""Steps per second of TRPO beside sb3-contrib's TRPO, on equal work, in one run on one thread.

    python tools/benchmark_trpo.py            (needs requirements-dev.txt; about two minutes)

Equal work: CartPole-v1, 8 environments of 128 steps per update, 2 × 64 tanh networks, KL limit 0.01, at most 10 CG iterations on
the whole batch, damping 0.1, backtracking by 0.8 at most 10 times, 10 critic epochs in minibatches of 128, float32. Rounds
alternate between the contestants; printed are the median and, because the machine may be shared, the ratios within each round.
Rows marked Gymnasium use Gymnasium's own CartPole, so that the speed of our batched twin can be told apart from that of training.
"""

import argparse
import statistics
import time

import torch
from sb3_contrib import TRPO as PeerTRPO
from stable_baselines3.common.env_util import make_vec_env

from rlcourse import TRPO, iterate

ENVS, STEPS = 8, 128


def ours(num_runs, batched=True):
    settings = TRPO(
        num_envs=ENVS, num_steps=STEPS, max_kl=0.01, cg_iters=10, cg_tol=1e-5, cg_damping=0.1, backtrack_coeff=0.8,
        max_backtracks=10, critic_learning_rate=1e-3, update_epochs=10, num_minibatches=ENVS * STEPS // 128,
    )  # fmt: skip
    updates = iterate(settings, "CartPole-v1", total_steps=10**9, seeds=range(num_runs), batched=batched)
    next(updates)

    def run(seconds):
        done, start = 0, time.perf_counter()
        while (spent := time.perf_counter() - start) < seconds:
            next(updates)
            done += num_runs * ENVS * STEPS
        return done / spent

    return run


def theirs():
    net = {"net_arch": {"pi": [64, 64], "vf": [64, 64]}}
    envs = make_vec_env("CartPole-v1", ENVS, seed=0)
    model = PeerTRPO(
        "MlpPolicy", envs, n_steps=STEPS, batch_size=128, n_critic_updates=10, learning_rate=1e-3, target_kl=0.01,
        cg_max_steps=10, cg_damping=0.1, line_search_shrinking_factor=0.8, line_search_max_iter=10, sub_sampling_factor=1,
        policy_kwargs=net, seed=0, device="cpu",
    )  # fmt: skip
    model.learn(ENVS * STEPS)

    def run(seconds):
        done, start = 0, time.perf_counter()
        while (spent := time.perf_counter() - start) < seconds:
            model.learn(ENVS * STEPS, reset_num_timesteps=False)
            done += ENVS * STEPS
        return done / spent

    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="per contestant and round")
    options = parser.parse_args()
    torch.set_num_threads(1)
    peer = "sb3-contrib TRPO, 1 run"
    contestants = {
        peer: theirs(),
        "rlcourse TRPO, 1 run": ours(1),
        "rlcourse TRPO, 8 runs": ours(8),
        "rlcourse TRPO, 1 run, Gymnasium": ours(1, batched=False),
        "rlcourse TRPO, 8 runs, Gymnasium": ours(8, batched=False),
    }
    rates = {name: [] for name in contestants}
    for _ in range(options.rounds):
        for name, run in contestants.items():
            rates[name].append(run(options.seconds))
    print(f"{'':34}{'steps/s, all runs':>18}   median ratio to {peer}")
    for name, values in rates.items():
        ratio = statistics.median(a / b for a, b in zip(values, rates[peer], strict=True))
        print(f"{name:34}{statistics.median(values):18,.0f}   {ratio:.1f}")


if __name__ == "__main__":
    main()
