#!/usr/bin/env python3
"""Steps per second of VPG beside Stable-Baselines3, on equal work, in one run on one thread.

    python tools/benchmark_training.py            (needs requirements-dev.txt; about three minutes)

Equal work: CartPole-v1, 8 environments, 2 × 64 tanh networks for policy and critic, and for each batch one gradient step of
the policy and one of the critic on the whole batch, float32, Adam or RMSprop. "A2C, short" is Stable-Baselines3's default of
5 steps per batch, all others take 128. Rounds alternate between the contestants; printed are the median and, because the
machine may be shared, the ratios within each round. Rows marked Gymnasium use Gymnasium's own CartPole, so that the speed of
our batched twin can be told apart from the speed of training.
"""

import argparse
import statistics
import time

import torch
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.env_util import make_vec_env

from rlcourse import VPG, iterate

ENVS, STEPS = 8, 128


def ours(num_runs, steps, batched=True):
    settings = VPG(num_envs=ENVS, num_steps=steps, learning_rate=1e-3, update_epochs=1, num_minibatches=1, max_grad_norm=0.5)
    updates = iterate(settings, "CartPole-v1", total_steps=10**9, seeds=range(num_runs), batched=batched)
    next(updates)

    def run(seconds):
        done, start = 0, time.perf_counter()
        while (spent := time.perf_counter() - start) < seconds:
            next(updates)
            done += num_runs * ENVS * steps
        return done / spent

    return run


def theirs(algorithm, steps, **options):
    envs = make_vec_env("CartPole-v1", ENVS, seed=0)
    net = {"net_arch": {"pi": [64, 64], "vf": [64, 64]}}
    model = algorithm("MlpPolicy", envs, n_steps=steps, learning_rate=1e-3, policy_kwargs=net, seed=0, device="cpu", **options)
    model.learn(ENVS * steps)

    def run(seconds):
        done, start, chunk = 0, time.perf_counter(), ENVS * steps * max(1, 1024 // (ENVS * steps))
        while (spent := time.perf_counter() - start) < seconds:
            model.learn(chunk, reset_num_timesteps=False)
            done += chunk
        return done / spent

    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="per contestant and round")
    options = parser.parse_args()
    torch.set_num_threads(1)
    contestants = {
        "SB3 PPO, one epoch": theirs(PPO, STEPS, n_epochs=1, batch_size=ENVS * STEPS),
        "SB3 A2C": theirs(A2C, STEPS),
        "rlcourse VPG, 1 run": ours(1, STEPS),
        "rlcourse VPG, 8 runs": ours(8, STEPS),
        "rlcourse VPG, 1 run, Gymnasium": ours(1, STEPS, batched=False),
        "rlcourse VPG, 8 runs, Gymnasium": ours(8, STEPS, batched=False),
        "SB3 A2C, short": theirs(A2C, 5),
        "rlcourse VPG, 8 runs, short": ours(8, 5),
    }
    rates = {name: [] for name in contestants}
    for _ in range(options.rounds):
        for name, run in contestants.items():
            rates[name].append(run(options.seconds))
    peers = {name: ("SB3 A2C, short" if "short" in name else "SB3 PPO, one epoch", "SB3 A2C") for name in contestants}
    print(f"{'':34}{'steps/s, all runs':>18}   median ratio to")
    for name, values in rates.items():
        ratios = {p: statistics.median(a / b for a, b in zip(values, rates[p], strict=True)) for p in dict.fromkeys(peers[name])}
        if "short" in name:
            ratios.pop("SB3 A2C", None)
        told = ", ".join(f"{peer}: {ratio:.1f}" for peer, ratio in ratios.items() if peer != name)
        print(f"{name:34}{statistics.median(values):18,.0f}   {told}")


if __name__ == "__main__":
    main()
