"""How fast are the estimators? Each beside a bare NumPy loop on the same numbers, without a check of any argument.

    python tools/bench_estimators.py            prints a table; exit code 1 if one takes more than 3 times as long as its loop

The loops are the fastest way to write them in NumPy: residuals for all steps at once, then one pass backwards.
"""

import sys
import time

import numpy as np

from rlcourse.equations.estimators import gae, lambda_returns, n_step_advantages

SHAPES = [(2048, 1), (128, 64), (256, 256)]
GAMMA, LAMBDA, STEPS = 0.99, 0.95, 5
LIMIT = 3.0


def gae_loop(rewards, values, next_values, terminated, truncated):
    advantages = rewards + GAMMA * (1 - terminated) * next_values - values
    decay = GAMMA * LAMBDA * (1 - (terminated | truncated))
    for t in range(len(rewards) - 2, -1, -1):
        advantages[t] += decay[t] * advantages[t + 1]
    return advantages


def lambda_loop(rewards, values, next_values, terminated, truncated):
    ends = terminated | truncated
    ends[-1] = True
    targets = rewards + GAMMA * (1 - terminated) * np.where(ends, 1, 1 - LAMBDA) * next_values
    decay = GAMMA * LAMBDA * (1 - ends)
    for t in range(len(rewards) - 2, -1, -1):
        targets[t] += decay[t] * targets[t + 1]
    return targets


def n_step_loop(rewards, values, next_values, terminated, truncated):
    goes_on = 1 - (terminated | truncated)
    one_step = rewards + GAMMA * (1 - terminated) * next_values
    returns = one_step.copy()
    for _ in range(STEPS - 1):
        returns[:-1] = goes_on[:-1] * (rewards[:-1] + GAMMA * returns[1:]) + (1 - goes_on[:-1]) * one_step[:-1]
    return returns - values


RIVALS = {
    "gae": (lambda *batch: gae(*batch, GAMMA, LAMBDA)[0], gae_loop),
    "lambda_returns": (lambda r, v, *rest: lambda_returns(r, *rest, GAMMA, LAMBDA), lambda_loop),
    "n_step_advantages": (lambda *batch: n_step_advantages(*batch, GAMMA, STEPS), n_step_loop),
}


def milliseconds(functions, arguments, repeats=60):
    """Shortest time of a call of each function: what it takes when nothing else gets in the way."""
    times = [[] for _ in functions]
    for _ in range(repeats):
        for function, list_of_times in zip(functions, times, strict=True):
            start = time.perf_counter()
            function(*arguments)
            list_of_times.append(1000 * (time.perf_counter() - start))
    return [min(list_of_times) for list_of_times in times]


def main():
    rng, worst = np.random.default_rng(0), 0.0
    print(f"{'':18} {'(T, N)':>10} {'loop, ms':>9} {'ours, ms':>9} {'ours / loop':>12}")
    for name, (ours, loop) in RIVALS.items():
        for shape in SHAPES:
            numbers = [rng.standard_normal(shape).astype(np.float32) for _ in range(3)]
            flags = [rng.random(shape) < 0.02 for _ in range(2)]
            np.testing.assert_allclose(ours(*numbers, *flags), loop(*numbers, *flags), rtol=1e-4, atol=1e-4)
            loop_time, our_time = milliseconds((loop, ours), (*numbers, *flags))
            worst = max(worst, our_time / loop_time)
            print(f"{name:18} {shape!s:>10} {loop_time:9.2f} {our_time:9.2f} {our_time / loop_time:12.2f}")
    print(f"slowest: {worst:.2f} times the loop; allowed {LIMIT:g}")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
