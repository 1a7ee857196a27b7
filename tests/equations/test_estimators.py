"""Estimators: numbers by hand, identities, SciPy and Gymnasium as independent engines, worlds with known values."""

from fractions import Fraction

import gymnasium
import numpy as np
import pytest
import scipy.signal
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcourse.equations.estimators import (
    discounted_returns,
    explained_variance,
    gae,
    lambda_returns,
    n_step_advantages,
    normalize_advantages,
    td_residuals,
    valid_rows,
)

SEEDS = range(10)


def random_batch(seed, shape=(12, 3), rate=0.2):
    """Rewards, values, next_values, terminated, truncated with all kinds of ends, both flags at once among them."""
    rng = np.random.default_rng(seed)
    return *(rng.standard_normal(shape) for _ in range(3)), *(rng.random(shape) < rate for _ in range(2))


def chained(batch):
    """The batch with next_values_t = values_{t+1} wherever a piece goes on, as in data from an environment."""
    rewards, values, next_values, terminated, truncated = batch
    next_values = next_values.copy()
    next_values[:-1] = np.where((terminated | truncated)[:-1], next_values[:-1], values[1:])
    return rewards, values, next_values, terminated, truncated


def one_column_batch():
    """Three rows: goes on, truncated (final value 10), terminated (next value is a decoy)."""
    rewards, values, next_values = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0]), np.array([5.0, 10.0, 77.0])
    return rewards, values, next_values, np.array([False, False, True]), np.array([False, True, False])


# ------------------------------------------------------------------------------------------------------ by hand


def test_td_residuals_by_hand():
    rewards, values, next_values, terminated, _ = one_column_batch()
    # 1 + 0.5·5 − 4,  2 + 0.5·10 − 5,  3 − 6
    np.testing.assert_allclose(td_residuals(rewards, values, next_values, terminated, 0.5), [-0.5, 2.0, -3.0], rtol=0, atol=0)


def test_gae_by_hand():
    advantages, value_targets = gae(*one_column_batch(), 0.5, 0.5)
    # −0.5 + 0.25·2,  2 (the trace is cut),  −3
    assert advantages.tolist() == [0.0, 2.0, -3.0]
    assert value_targets.tolist() == [4.0, 7.0, 3.0]


def test_n_step_advantages_by_hand():
    """Five rows: goes on, goes on, truncated (final value 8), goes on, terminated (next value is a decoy)."""
    rewards, values, next_values = np.array([1.0, 2, 3, 4, 5]), np.array([9.0, 4, 2, 6, 1]), np.array([4.0, 2, 8, 1, 77])
    terminated, truncated = np.array([0, 0, 0, 0, 1], bool), np.array([0, 0, 1, 0, 0], bool)
    batch = (rewards, values, next_values, terminated, truncated, 0.5)
    # 1 + ½·4 − 9,  2 + ½·2 − 4,  3 + ½·8 − 2,  4 + ½·1 − 6,  5 − 1
    assert n_step_advantages(*batch, 1).tolist() == [-6.0, -1.0, 5.0, -1.5, 4.0]
    # 1 + ½·2 + ¼·2 − 9,  2 + ½·3 + ¼·8 − 4,  as before,  4 + ½·5 − 6,  as before
    assert n_step_advantages(*batch, 2).tolist() == [-6.5, 1.5, 5.0, 0.5, 4.0]
    # 1 + ½·2 + ¼·3 + ⅛·8 − 9, the rest as before: every piece is used up
    for n in (3, 4, 1000):
        assert n_step_advantages(*batch, n).tolist() == [-5.25, 1.5, 5.0, 0.5, 4.0]


def test_lambda_returns_by_hand():
    rewards, _, next_values, terminated, truncated = one_column_batch()
    # 1 + ½(½·5 + ½·7),  2 + ½·10 (cut: no mixing),  3
    assert lambda_returns(rewards, next_values, terminated, truncated, 0.5, 0.5).tolist() == [4.0, 7.0, 3.0]


def test_termination_wins_where_both_flags_are_set():
    rewards, values, next_values, terminated, truncated = one_column_batch()
    both = gae(rewards, values, next_values, terminated, truncated | terminated, 0.5, 0.5)
    assert both[0].tolist() == [0.0, 2.0, -3.0]
    assert n_step_advantages(rewards, values, next_values, terminated, truncated | terminated, 0.5, 9)[2] == -3.0
    assert lambda_returns(rewards, next_values, terminated, truncated | terminated, 0.5, 0.5)[2] == 3.0


def test_discounted_returns_by_hand():
    rewards, bootstrap = np.array([1.0, 2.0, 3.0, 4.0]), np.array([np.nan, 8.0, np.nan, 16.0])
    ends = np.array([False, True, False, False])  # the last row ends without saying so
    # 1 + ½·6,  2 + ½·8,  3 + ½·12,  4 + ½·16
    assert discounted_returns(rewards, 0.5, ends=ends, bootstrap=bootstrap).tolist() == [4.0, 6.0, 9.0, 12.0]


def test_normalized_advantages_by_hand():
    # mean 3, std (divisor N) √((4 + 0 + 4) / 3)
    expected = np.array([-2.0, 0.0, 2.0]) / np.sqrt(8 / 3)
    np.testing.assert_allclose(normalize_advantages(np.array([1.0, 3.0, 5.0])), expected, rtol=1e-15)


def test_explained_variance_by_hand():
    targets = np.array([1.0, 2.0, 3.0])
    assert explained_variance(targets + 7, targets) == 1.0  # a constant offset is invisible
    assert explained_variance(np.zeros(3), targets) == 0.0
    assert explained_variance(-targets, targets) == -3.0  # 1 − Var[2 targets] / Var[targets]


def test_valid_rows_by_hand():
    terminated = np.array([[False, True], [True, False], [False, False], [False, False]])
    truncated = np.array([[False, False], [False, False], [False, True], [True, False]])
    expected = [[True, True], [True, False], [False, True], [True, False]]
    assert valid_rows(terminated, truncated).tolist() == expected


def test_a_flag_on_a_reset_row_ends_nothing():
    ended = np.array([True, True, False])  # row 1 is a reset row, so its flag means nothing and row 2 is real
    assert valid_rows(ended, np.zeros(3, bool)).tolist() == [True, False, True]


# --------------------------------------------------------------------------------------------------- identities


@pytest.mark.parametrize("seed", SEEDS)
def test_lambda_1_is_the_return_minus_the_baseline(seed):
    rewards, values, next_values, terminated, truncated = random_batch(seed)
    returns = discounted_returns(rewards, 0.9, ends=terminated | truncated, bootstrap=np.where(terminated, 0.0, next_values))
    # V(s_{t+1}) is next_values_t wherever the piece goes on; only then does the sum telescope
    goes_on = ~(terminated | truncated)[:-1]
    next_values[:-1][goes_on] = values[1:][goes_on]
    advantages, value_targets = gae(rewards, values, next_values, terminated, truncated, 0.9, 1.0)
    np.testing.assert_allclose(advantages, returns - values, atol=1e-12)
    np.testing.assert_allclose(value_targets, returns, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_lambda_0_is_the_td_residual(seed):
    batch = random_batch(seed)
    np.testing.assert_array_equal(gae(*batch, 0.9, 0.0)[0], td_residuals(*batch[:4], 0.9))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_batch_equals_its_pieces(seed):
    batch = random_batch(seed, shape=(20,))
    ends = batch[3] | batch[4]
    pieces = np.split(np.arange(20), np.flatnonzero(ends[:-1]) + 1)
    apart = np.concatenate([gae(*(data[piece] for data in batch), 0.9, 0.8)[0] for piece in pieces])
    np.testing.assert_array_equal(gae(*batch, 0.9, 0.8)[0], apart)
    returns = discounted_returns(batch[0], 0.9, ends=ends, bootstrap=batch[2])
    no_ends = [np.zeros(len(piece), bool) for piece in pieces]
    apart = [discounted_returns(batch[0][p], 0.9, ends=no, bootstrap=batch[2][p]) for p, no in zip(pieces, no_ends, strict=True)]
    np.testing.assert_array_equal(returns, np.concatenate(apart))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("n", [1, 2, 5, 100])
def test_n_step_advantages_are_sums_of_residuals(seed, n):
    batch = chained(random_batch(seed))
    delta, ends = td_residuals(*batch[:4], 0.9), batch[3] | batch[4]
    for t, env in np.ndindex(delta.shape):
        steps = min(n, [*np.flatnonzero(ends[t:-1, env]), len(ends) - 1 - t][0] + 1)
        telescoped = sum(0.9**j * delta[t + j, env] for j in range(steps))
        assert n_step_advantages(*batch, 0.9, n)[t, env] == pytest.approx(telescoped, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_n_steps_end_where_lambda_does(seed):
    """One step is λ = 0, all steps are λ = 1."""
    batch = chained(random_batch(seed))
    np.testing.assert_allclose(n_step_advantages(*batch, 0.9, 1), gae(*batch, 0.9, 0.0)[0], atol=1e-14)
    np.testing.assert_allclose(n_step_advantages(*batch, 0.9, 12), gae(*batch, 0.9, 1.0)[0], atol=1e-12)


@pytest.mark.parametrize("gae_lambda", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_lambda_returns_are_the_value_targets(seed, gae_lambda):
    batch = chained(random_batch(seed))
    targets = lambda_returns(batch[0], *batch[2:], 0.9, gae_lambda)
    np.testing.assert_allclose(targets, gae(*batch, 0.9, gae_lambda)[1], atol=1e-12)


@settings(max_examples=200, deadline=None)
@given(data=st.data(), steps=st.integers(1, 12), envs=st.integers(1, 3))
def test_any_batch_equals_its_pieces(data, steps, envs):
    """Whatever the flags: what is estimated for an episode does not depend on what lies beside, before or behind it."""
    flags = st.lists(st.booleans(), min_size=steps * envs, max_size=steps * envs)
    terminated, truncated = (np.array(data.draw(flags)).reshape(steps, envs) for _ in range(2))
    numbers = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1))).standard_normal((3, steps, envs))
    gamma, gae_lambda = data.draw(st.floats(0, 1)), data.draw(st.floats(0, 1))
    n = data.draw(st.integers(1, steps + 2))
    batch = (*numbers, terminated, truncated)

    def estimates(batch):
        by_lambda = lambda_returns(batch[0], *batch[2:], gamma, gae_lambda)
        return *gae(*batch, gamma, gae_lambda), n_step_advantages(*batch, gamma, n), by_lambda

    for env in range(envs):
        last = np.flatnonzero((terminated | truncated)[:-1, env]) + 1
        pieces = [estimates([x[piece, env] for x in batch]) for piece in np.split(np.arange(steps), last)]
        for whole, apart in zip(estimates(batch), zip(*pieces, strict=True), strict=True):
            np.testing.assert_array_equal(whole[:, env], np.concatenate(apart))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.floats(0, 1), st.floats(0, 1), st.booleans())
def test_any_piece_is_a_linear_filter_run_backwards(seed, steps, gamma, gae_lambda, last_terminates):
    rewards, values, next_values = np.random.default_rng(seed).standard_normal((3, steps))
    terminated = np.zeros(steps, bool)
    terminated[-1] = last_terminates
    delta = rewards + gamma * ~terminated * next_values - values
    filtered = scipy.signal.lfilter([1.0], [1.0, -gamma * gae_lambda], delta[::-1])[::-1]
    advantages, targets = gae(rewards, values, next_values, terminated, np.zeros(steps, bool), gamma, gae_lambda)
    np.testing.assert_allclose(advantages, filtered, atol=1e-11)
    np.testing.assert_allclose(targets, filtered + values, atol=1e-11)


@pytest.mark.parametrize("gae_lambda", [Fraction(0), Fraction(1, 3), Fraction(9, 10), Fraction(1)])
def test_the_finite_mixture_in_exact_fractions(gae_lambda):
    """Five rows cut by the batch: Σ_k weight_k Â^(k) with the last weight λ^{T−1−t}, without any rounding."""
    gamma, rewards, values = Fraction(9, 10), [1, -2, 3, 0, 2], [2, 1, -1, 3, 1, 4]
    steps = len(rewards)

    def k_step(t, k):
        return sum(gamma**j * rewards[t + j] for j in range(k)) + gamma**k * values[t + k] - values[t]

    def mixture(t):
        left = steps - t
        first = sum((1 - gae_lambda) * gae_lambda ** (k - 1) * k_step(t, k) for k in range(1, left))
        return first + gae_lambda ** (steps - 1 - t) * k_step(t, left)

    no = np.zeros(steps, bool)
    numbers = [np.array(x, float) for x in (rewards, values[:-1], values[1:])]
    exact = [float(mixture(t)) for t in range(steps)]
    np.testing.assert_allclose(gae(*numbers, no, no, 0.9, float(gae_lambda))[0], exact, rtol=1e-14, atol=1e-14)
    for k in range(1, steps + 1):
        exact = [float(k_step(t, min(k, steps - t))) for t in range(steps)]
        np.testing.assert_allclose(n_step_advantages(*numbers, no, no, 0.9, k), exact, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("seed", SEEDS)
def test_columns_never_mix(seed):
    batch = random_batch(seed, shape=(9, 2, 3))
    together = gae(*batch, 0.9, 0.8)[0]
    for run, env in np.ndindex(2, 3):
        np.testing.assert_array_equal(together[:, run, env], gae(*(data[:, run, env] for data in batch), 0.9, 0.8)[0])


@pytest.mark.parametrize("kind", [list, np.asarray, torch.DoubleTensor])
def test_one_gamma_and_lambda_per_run_equals_each_run_alone(kind):
    batch = random_batch(0, shape=(9, 3, 2))
    gammas, lambdas = [0.5, 0.9, 1.0], [0.0, 0.8, 1.0]
    together = gae(*batch, kind(gammas), kind(lambdas))[0]
    residuals = td_residuals(*batch[:4], kind(gammas))
    returns = discounted_returns(batch[0], kind(gammas), ends=batch[3], bootstrap=batch[2])
    targets = lambda_returns(batch[0], *batch[2:], kind(gammas), kind(lambdas))
    three_steps = n_step_advantages(*batch, kind(gammas), 3)
    for run in range(3):
        alone = [data[:, run] for data in batch]
        np.testing.assert_array_equal(together[:, run], gae(*alone, gammas[run], lambdas[run])[0])
        np.testing.assert_array_equal(residuals[:, run], td_residuals(*alone[:4], gammas[run]))
        np.testing.assert_array_equal(three_steps[:, run], n_step_advantages(*alone, gammas[run], 3))
        targets_alone = lambda_returns(alone[0], *alone[2:], gammas[run], lambdas[run])
        np.testing.assert_array_equal(targets[:, run], targets_alone)
        alone = discounted_returns(alone[0], gammas[run], ends=alone[3], bootstrap=alone[2])
        np.testing.assert_array_equal(returns[:, run], alone)


def test_normalising_ignores_shift_and_scale():
    data = np.random.default_rng(0).standard_normal((4, 50))
    normal = normalize_advantages(data)
    np.testing.assert_allclose(normal.mean(-1), 0, atol=1e-15)
    np.testing.assert_allclose(normal.std(-1), 1, rtol=1e-14)
    np.testing.assert_allclose(normalize_advantages(1e-12 * data + 1e-11), normal, atol=1e-12)  # no ε in the way
    np.testing.assert_allclose(normalize_advantages(-data), -normal, atol=1e-14)


def test_rows_are_normalised_apart():
    data = np.random.default_rng(0).standard_normal((2, 3, 8)) * [[[1.0], [10.0], [100.0]]]
    together = normalize_advantages(data)
    for i, j in np.ndindex(2, 3):
        np.testing.assert_allclose(together[i, j], normalize_advantages(data[i, j]), atol=1e-15)


def test_masked_samples_enter_no_statistic():
    data, mask = np.array([[1.0, 1e9, 3.0, np.nan, 5.0]]), np.array([[True, False, True, False, True]])
    normal = normalize_advantages(data, mask)
    np.testing.assert_array_equal(normal[mask], normalize_advantages(np.array([1.0, 3.0, 5.0])))
    assert normal[~mask].tolist() == [0.0, 0.0]
    assert normalize_advantages(data, np.zeros_like(mask)).tolist() == [[0.0] * 5]


# ------------------------------------------------------------------------------------------- independent engines


@pytest.mark.parametrize("gae_lambda", [0.0, 0.7, 1.0])
def test_gae_is_a_linear_filter_run_backwards(gae_lambda):
    rewards, values, next_values, _, _ = random_batch(0, shape=(50,))
    no = np.zeros(50, bool)
    delta = rewards + 0.95 * next_values - values
    filtered = scipy.signal.lfilter([1.0], [1.0, -0.95 * gae_lambda], delta[::-1])[::-1]
    np.testing.assert_allclose(gae(rewards, values, next_values, no, no, 0.95, gae_lambda)[0], filtered, atol=1e-13)


def lambda_mixture(rewards, values, next_values, terminated, truncated, gamma, gae_lambda):
    """GAE the long way: at each step the k-step advantages to the end of its piece, mixed with weights (1−λ)λ^{k−1}."""
    ends = terminated | truncated
    ends[-1] = True
    advantages = []
    for t in range(len(rewards)):
        steps = int(np.flatnonzero(ends[t:])[0]) + 1
        k_step = []
        for k in range(1, steps + 1):
            last = t + k - 1
            bootstrap = 0.0 if terminated[last] else gamma**k * next_values[last]
            k_step.append(np.polyval(rewards[t : t + k][::-1], gamma) + bootstrap - values[t])
        # the last estimator takes all the weight that is left, λ^{K−1}
        weights = np.array([(1 - gae_lambda) * gae_lambda**k for k in range(steps - 1)] + [gae_lambda ** (steps - 1)])
        advantages.append(weights @ k_step)
    return np.array(advantages)


@pytest.mark.parametrize("gae_lambda", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_gae_is_a_mixture_of_k_step_advantages(seed, gae_lambda):
    rewards, values, next_values, terminated, truncated = random_batch(seed, shape=(15,))
    goes_on = ~(terminated | truncated)[:-1]
    next_values[:-1][goes_on] = values[1:][goes_on]
    expected = lambda_mixture(rewards, values, next_values, terminated, truncated.copy(), 0.9, gae_lambda)
    got = gae(rewards, values, next_values, terminated, truncated, 0.9, gae_lambda)[0]
    np.testing.assert_allclose(got, expected, atol=1e-12)


def test_explained_variance_of_a_least_squares_fit_is_r_squared():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 40))
    targets = 2 * x + rng.standard_normal(x.shape)
    fits = [scipy.stats.linregress(*row) for row in zip(x, targets, strict=True)]
    predictions = np.stack([fit.intercept + fit.slope * row for fit, row in zip(fits, x, strict=True)])
    np.testing.assert_allclose(explained_variance(predictions, targets), [fit.rvalue**2 for fit in fits], rtol=1e-12)


def test_normalising_agrees_with_zscore():
    data = np.random.default_rng(0).standard_normal((3, 40))
    np.testing.assert_allclose(normalize_advantages(data), scipy.stats.zscore(data, axis=-1, ddof=0), atol=1e-14)


def test_valid_rows_of_a_real_next_step_stream():
    envs = gymnasium.make_vec("CartPole-v1", num_envs=4, vectorization_mode="sync")  # resets on the next step
    envs.reset(seed=0)
    envs.action_space.seed(0)
    steps = [envs.step(envs.action_space.sample()) for _ in range(120)]
    rewards, terminated, truncated = (np.stack([step[i] for step in steps]) for i in (1, 2, 3))
    envs.close()
    valid = valid_rows(terminated, truncated)
    assert 4 < (~valid).sum() < 100
    np.testing.assert_array_equal(valid, rewards == 1)  # CartPole pays 1 for every real step, a reset row pays 0


# ---------------------------------------------------------------------------------------- worlds with known values


@pytest.mark.parametrize("gae_lambda", [0.0, 0.5, 1.0])
def test_an_exact_critic_leaves_no_advantage_in_an_endless_world(gae_lambda):
    """Reward 1 for ever is worth 1/(1−γ) everywhere; a clock that cuts the stream must not change that."""
    gamma, shape = 0.9, (30, 2)
    value = np.full(shape, 1 / (1 - gamma))
    truncated = np.random.default_rng(0).random(shape) < 0.2
    advantages, value_targets = gae(np.ones(shape), value, value, np.zeros(shape, bool), truncated, gamma, gae_lambda)
    np.testing.assert_allclose(advantages, 0, atol=1e-13)
    np.testing.assert_allclose(value_targets, value, rtol=1e-14)
    returns = discounted_returns(np.ones(shape), gamma, ends=truncated, bootstrap=value)
    np.testing.assert_allclose(returns, value, rtol=1e-14)


@pytest.mark.parametrize("gae_lambda", [0.0, 0.5, 1.0])
def test_an_exact_critic_leaves_no_advantage_in_a_world_of_three_steps(gae_lambda):
    gamma = 0.9
    values = np.tile([1 + gamma + gamma**2, 1 + gamma, 1.0], 4)
    next_values = np.roll(values, -1)  # after the third step: the value of the reset state, a decoy
    terminated = np.tile([False, False, True], 4)
    advantages, _ = gae(np.ones(12), values, next_values, terminated, np.zeros(12, bool), gamma, gae_lambda)
    np.testing.assert_allclose(advantages, 0, atol=1e-14)


# --------------------------------------------------------------------------------------------- kinds and precision


def answers(batch):
    """All the estimators on one batch."""
    rewards, values, next_values, terminated, truncated = batch
    return [
        discounted_returns(rewards, 0.9, ends=terminated, bootstrap=next_values),
        td_residuals(rewards, values, next_values, terminated, 0.9),
        *gae(*batch, 0.9, 0.8),
        n_step_advantages(*batch, 0.9, 3),
        lambda_returns(rewards, next_values, terminated, truncated, 0.9, 0.8),
        normalize_advantages(rewards),
        normalize_advantages(rewards, terminated),
        explained_variance(values, rewards),
    ]


@pytest.mark.parametrize(("numpy_type", "torch_type"), [(np.float32, torch.float32), (np.float64, torch.float64)])
def test_same_kind_and_dtype_come_back(numpy_type, torch_type):
    *numbers, terminated, truncated = random_batch(1)
    as_numpy = [x.astype(numpy_type) for x in numbers] + [terminated, truncated]
    as_torch = [torch.tensor(x) for x in as_numpy]
    for one, other, reference in zip(
        answers(as_numpy), answers(as_torch), answers([*numbers, terminated, truncated]), strict=True
    ):
        assert isinstance(one, np.ndarray) and one.dtype == numpy_type
        assert isinstance(other, torch.Tensor) and other.dtype == torch_type
        np.testing.assert_array_equal(one, other.numpy())
        np.testing.assert_allclose(one, reference, atol=1e-5 if numpy_type == np.float32 else 0)


def test_integers_adapt_and_lists_are_read():
    rewards, ends = [1, 2, 3], [False, False, True]
    assert gae(rewards, [0, 0, 0], [0, 0, 0], ends, ends, 1, 1)[0].dtype == np.float64
    half = np.zeros(3, np.float32)
    assert gae(np.array(rewards), half, half, ends, ends, 0.5, 1)[0].dtype == np.float32
    got = gae(torch.tensor(rewards), torch.zeros(3), torch.zeros(3), torch.tensor(ends), torch.tensor(ends), 0.5, 1)[0]
    assert got.dtype == torch.float32 and got.tolist() == [2.75, 3.5, 3.0]
    assert valid_rows(torch.tensor(ends), torch.tensor(ends)).dtype == torch.bool


def test_no_gradient_flows_and_nothing_is_written_over():
    batch = [torch.tensor(data) for data in random_batch(2)]
    for data in batch[:3]:
        data.requires_grad_()
    before = [data.clone() for data in batch]
    assert not any(answer.requires_grad for answer in answers(batch))
    assert all(torch.equal(old, new) for old, new in zip(before, batch, strict=True))
    locked = random_batch(2)
    for data in locked:
        data.flags.writeable = False
    answers(locked)  # writing into an argument would raise


def test_axes_laid_out_in_another_order_give_the_same_numbers():
    batch = random_batch(3, shape=(6, 5))
    other = [np.asfortranarray(data) for data in batch]
    for one, two in zip(answers(batch), answers(other), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-14)


def test_not_a_number_stays_where_it_belongs():
    rewards, values, next_values, terminated, truncated = random_batch(4, shape=(8, 2), rate=0.0)
    terminated[3, 0] = truncated[5, 0] = True
    clean = gae(rewards, values, next_values, terminated, truncated, 0.9, 0.8)[0]
    next_values[3, 0] = np.nan  # behind a termination: nobody looks
    np.testing.assert_array_equal(gae(rewards, values, next_values, terminated, truncated, 0.9, 0.8)[0], clean)
    rewards[7, 0] = np.inf
    rewards[6, 0] = np.nan  # an episode of its own, rows 6 and 7 of column 0
    spoiled = gae(rewards, values, next_values, terminated, truncated, 0.9, 0.8)[0]
    assert np.isnan(spoiled[6, 0])
    np.testing.assert_array_equal(spoiled[:6], clean[:6])
    np.testing.assert_array_equal(spoiled[:, 1], clean[:, 1])
    returns = discounted_returns(rewards, 0.9, ends=terminated | truncated, bootstrap=values)
    assert np.isfinite(returns[:6]).all() and np.isnan(returns[6, 0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("level", [0.0, 0.1, -3.7, 1e6])
@pytest.mark.parametrize("count", [1, 3, 1000, 100_003])
def test_equal_numbers_normalise_to_zero_and_have_no_explained_variance(dtype, level, count):
    equal = np.full((2, count), level, dtype)
    assert not normalize_advantages(equal).any()
    values = np.random.default_rng(0).standard_normal(equal.shape).astype(dtype)
    assert np.isnan(explained_variance(np.zeros_like(equal), equal)).all()
    assert np.isnan(explained_variance(values, equal)).all()
    strided = np.full((count, 2), level, dtype).T  # summed in another order
    assert not normalize_advantages(strided).any()


def test_a_small_real_spread_is_kept_in_float32():
    data = (1000 + 0.01 * np.random.default_rng(0).standard_normal(500)).astype(np.float32)
    np.testing.assert_allclose(normalize_advantages(data), scipy.stats.zscore(data.astype(np.float64)), atol=1e-5)


# ------------------------------------------------------------------------------------------------------- bad input


def call_gae(**changes):
    names = ("rewards", "values", "next_values", "terminated", "truncated")
    return gae(**(dict(zip(names, random_batch(0), strict=True)) | {"gamma": 0.9, "gae_lambda": 0.9} | changes))


@pytest.mark.parametrize("name", ["gamma", "gae_lambda"])
@pytest.mark.parametrize("value", [-0.1, 1.001, float("nan"), float("inf"), [0.9, 0.9, 1.1]])
def test_gamma_and_lambda_outside_0_1_are_refused(name, value):
    with pytest.raises(ValueError, match=rf"{name} must lie between 0.0 and 1.0, but is .*{str(value)[1:3]}"):
        call_gae(**{name: value})


@pytest.mark.parametrize("value", [None, "0.9", 1j, True, [0.9, None], [[0.9], [0.9, 0.9]]])
def test_a_gamma_that_is_no_number_is_refused(value):
    with pytest.raises(TypeError, match="gamma must be a number"):
        call_gae(gamma=value)


def test_one_gamma_per_run_must_match_the_runs():
    with pytest.raises(ValueError, match=r"gamma has shape \(2,\).*leading axes of the data \(3,\)"):
        call_gae(gamma=[0.9, 0.9])


@pytest.mark.parametrize("name", ["values", "next_values", "terminated", "truncated"])
def test_shapes_that_differ_are_refused(name):
    wrong = np.zeros((12, 3, 1), bool if "ated" in name else float)
    with pytest.raises(ValueError, match=rf"{name} is \(12, 3, 1\)"):
        call_gae(**{name: wrong})


@pytest.mark.parametrize(("n", "error"), [(0, ValueError), (-3, ValueError), (1.0, TypeError), (True, TypeError)])
def test_a_wrong_number_of_steps_is_refused(n, error):
    with pytest.raises(error, match=rf"n must be .*{n}"):
        n_step_advantages(*random_batch(0), 0.9, n)
    assert n_step_advantages(*random_batch(0), 0.9, np.int64(2)).shape == (12, 3)


@pytest.mark.parametrize("name", ["terminated", "truncated"])
def test_flags_must_be_bool(name):
    with pytest.raises(TypeError, match=rf"{name} must be bool, not float64.*np.asarray\({name}, dtype=bool\)"):
        call_gae(**{name: np.zeros((12, 3))})
    flags = torch.zeros(3, dtype=torch.bool)
    numbers = [torch.zeros(3) for _ in range(3)]
    with pytest.raises(TypeError, match=r"terminated must be bool, not uint8.*terminated.bool\(\)"):
        gae(*numbers, flags.byte(), flags, 0.9, 0.9)


@pytest.mark.parametrize("wrong", [np.zeros((12, 3), bool), np.zeros((12, 3), complex), np.full((12, 3), "1")])
def test_rewards_must_be_real_numbers(wrong):
    with pytest.raises(TypeError, match="rewards must hold real numbers"):
        call_gae(rewards=wrong)


def test_numpy_and_torch_do_not_mix():
    with pytest.raises(TypeError, match="values are torch tensors but rewards, next_values, terminated, truncated are not"):
        call_gae(values=torch.zeros(12, 3))


@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0), ()])
def test_an_empty_batch_is_refused(shape):
    numbers, flags = np.zeros(shape), np.zeros(shape, bool)
    calls = [
        lambda: gae(numbers, numbers, numbers, flags, flags, 0.9, 0.9),
        lambda: td_residuals(numbers, numbers, numbers, flags, 0.9),
        lambda: n_step_advantages(numbers, numbers, numbers, flags, flags, 0.9, 1),
        lambda: lambda_returns(numbers, numbers, flags, flags, 0.9, 0.9),
        lambda: discounted_returns(numbers, 0.9, ends=flags, bootstrap=numbers),
        lambda: normalize_advantages(numbers),
        lambda: explained_variance(numbers, numbers),
        lambda: valid_rows(flags, flags),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="at least one axis and one sample"):
            call()


def test_the_other_estimators_refuse_what_does_not_fit():
    column, row = np.zeros((4, 1)), np.zeros(4)
    with pytest.raises(ValueError, match=r"values is \(4, 1\) and targets is \(4,\)"):
        explained_variance(column, row)
    with pytest.raises(ValueError, match=r"advantages is \(4,\) and mask is \(4, 1\)"):
        normalize_advantages(row, column.astype(bool))
    with pytest.raises(TypeError, match="mask must be bool"):
        normalize_advantages(row, row)
    with pytest.raises(TypeError, match="ends must be bool"):
        discounted_returns(row, 0.9, ends=row, bootstrap=row)
    with pytest.raises(ValueError, match="gamma must lie"):
        discounted_returns(row, 1.1, ends=row.astype(bool), bootstrap=row)
    with pytest.raises(ValueError, match="gamma must lie"):
        td_residuals(row, row, row, row.astype(bool), -1)
