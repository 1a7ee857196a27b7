"""How fast is gae? Prints its time next to a plain NumPy backward loop on the same numbers.

python tools/bench_estimators.py
"""

import statistics
import time

import numpy as np

from rlcourse.equations.estimators import gae


def plain_loop(rewards, values, next_values, terminated, truncated, gamma, gae_lambda):
    """The loop as it is usually written, one time step at a time."""
    advantages = np.zeros_like(rewards)
    following = np.zeros_like(rewards[0])
    for t in reversed(range(len(rewards))):
        delta = rewards[t] + gamma * (1 - terminated[t]) * next_values[t] - values[t]
        following = delta + gamma * gae_lambda * (1 - (terminated[t] | truncated[t])) * following
        advantages[t] = following
    return advantages, advantages + values


def milliseconds(function, arguments, repeats=15):
    """Median time of one call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function(*arguments)
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times)


def main():
    rng = np.random.default_rng(0)
    print(f"{'(T, N)':>12} {'loop, ms':>9} {'gae, ms':>9} {'gae / loop':>11}")
    for shape in [(2048, 1), (128, 64), (256, 256)]:
        numbers = [rng.standard_normal(shape).astype(np.float32) for _ in range(3)]
        flags = [rng.random(shape) < 0.02 for _ in range(2)]
        arguments = (*numbers, *flags, 0.99, 0.95)
        np.testing.assert_allclose(gae(*arguments)[0], plain_loop(*arguments)[0], rtol=1e-4, atol=1e-4)
        loop, ours = milliseconds(plain_loop, arguments), milliseconds(gae, arguments)
        print(f"{shape!s:>12} {loop:9.2f} {ours:9.2f} {ours / loop:11.2f}")


if __name__ == "__main__":
    main()
