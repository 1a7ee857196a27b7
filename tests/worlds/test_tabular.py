"""The tabular world: hand numbers, identities, independent engines (NumPy loops, SciPy, Gymnasium, enumeration), bad input."""

import math
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from scipy import stats
from torch.autograd.functional import hessian, jacobian

from rlcourse.worlds import tabular
from rlcourse.worlds.tabular import TabularMDP, corridor_policy, logistic_policy, softmax_policy


def softmax_case(seed, **options):
    """A random world and a random softmax policy on it: (mdp, policy, theta)."""
    rng = np.random.default_rng(seed)
    mdp = tabular.random_mdp(rng, **options)
    return mdp, softmax_policy, torch.tensor(rng.standard_normal((mdp.num_states, mdp.num_actions)))


def close(left, right, tolerance):
    left, right = np.asarray(left), np.asarray(right)
    assert left.shape == right.shape, (left.shape, right.shape)
    np.testing.assert_allclose(left, right, rtol=0, atol=tolerance)


# two states, worked by hand: in 0, action 0 pays 1 and ends; action 1 pays 0 and leads to 1. In 1 both pay 4 and end. gamma 1/2.
HAND = TabularMDP([[[0, 0], [0, 1]], [[0, 0], [0, 0]]], [[1, 0], [4, 4]], 0.5, [1, 0])
HAND_PI = torch.tensor([[0.25, 0.75], [0.5, 0.5]])


def test_hand_worked_two_states():
    close(HAND.values(HAND_PI), [0.25 * 1 + 0.75 * 0.5 * 4, 4.0], 1e-15)
    close(HAND.q_values(HAND_PI), [[1, 2], [4, 4]], 1e-15)
    close(HAND.advantages(HAND_PI), [[-0.75, 0.25], [0, 0]], 1e-15)
    close(HAND.expected_return(HAND_PI), 1.75, 1e-15)
    close(HAND.discounted_state_distribution(HAND_PI), [1, 0.375], 1e-15)
    close(HAND.discounted_state_distribution(HAND_PI, normalised=True), [0.5, 0.1875], 1e-15)
    close(HAND.state_visits(HAND_PI), [1, 0.75], 1e-15)
    # one logit per state, p = sigmoid(theta): J = (1 - p) + 2p, so dJ/dtheta_0 = p (1 - p) = 3/16
    theta = torch.tensor([math.log(3), 0.0], dtype=torch.float64)
    close(tabular.exact_policy_gradient(HAND, partial(logistic_policy, groups=(0, 1)), theta), [3 / 16, 0], 1e-15)


def test_chain_values():
    right = torch.tensor([[0.0, 1.0]] * 5)
    close(tabular.chain(5, 0.9).values(right), 0.9 ** np.arange(4, -1, -1) * 10, 1e-12)
    close(tabular.chain(5, 0.9, ends=True).values(right), 0.9 ** np.arange(4, -1, -1), 1e-12)
    close(tabular.chain(1, 0.0).values(np.array([[0.3, 0.7]])), [0.7], 1e-15)


def test_random_walk_as_in_the_book():
    """Sutton and Barto's Example 6.2: values in sixths (there the left end pays 0, the right one 1)."""
    walk, fair = tabular.random_walk(5), torch.full((5, 2), 0.5)
    close((walk.values(fair) + 1) / 2, np.arange(1, 6) / 6, 1e-14)
    close(walk.state_visits(fair).sum(), 9.0, 1e-13)  # (2 + 1)(5 − 2) steps from the middle
    close(tabular.random_walk(1, 0.5).q_values(np.array([[0.3, 0.7]])), [[-1, 1]], 0)
    with pytest.raises(ValueError, match="num_states must be odd.*got 4"):
        tabular.random_walk(4)


def test_short_corridor_reproduces_sutton_and_barto():
    corridor = tabular.short_corridor()
    p = torch.linspace(0.05, 0.95, 19, dtype=torch.float64)
    theta = torch.logit(p).unsqueeze(-1)
    close(corridor.expected_return(corridor_policy(theta)), -2 * (2 - p) / (p * (1 - p)), 1e-11)
    best = torch.logit(torch.tensor([2 - math.sqrt(2)], dtype=torch.float64))
    close(corridor.expected_return(corridor_policy(best)), -(6 + 4 * math.sqrt(2)), 1e-12)
    close(tabular.exact_policy_gradient(corridor, corridor_policy, best), [0.0], 1e-12)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.95])
def test_values_by_iterating_the_bellman_equation_in_numpy(gamma):
    mdp, policy, theta = softmax_case(0, num_states=4, num_actions=3, gamma=gamma, end_probability=0.1)
    pi, transition, reward = (x.numpy() for x in (policy(theta), mdp.transition, mdp.reward))
    value, visits, at_time = np.zeros(4), np.zeros(4), mdp.start.numpy()
    for t in range(500):
        value = np.array([sum(pi[s, a] * (reward[s, a] + gamma * transition[s, a] @ value) for a in range(3)) for s in range(4)])
        visits = visits + gamma**t * at_time
        at_time = np.einsum("s,sa,sat->t", at_time, pi, transition)
    close(mdp.values(policy(theta)), value, 1e-9)
    close(mdp.discounted_state_distribution(policy(theta)), visits, 1e-9)
    close(mdp.expected_return(policy(theta)), visits @ (pi * reward).sum(1), 1e-9)


def test_identities_between_the_quantities():
    mdp, policy, theta = softmax_case(1, gamma=0.9)
    pi = policy(theta)
    close((pi * mdp.q_values(pi)).sum(-1), mdp.values(pi), 1e-12)
    close((pi * mdp.advantages(pi)).sum(-1), torch.zeros(5), 1e-12)
    close(mdp.discounted_state_distribution(pi, normalised=True).sum(), 1.0, 1e-12)
    close((mdp.discounted_state_distribution(pi).unsqueeze(-1) * pi * mdp.reward).sum(), mdp.expected_return(pi), 1e-12)
    batch = torch.stack([pi, policy(-theta)])
    for method in (mdp.values, mdp.q_values, mdp.advantages, mdp.expected_return, mdp.discounted_state_distribution):
        close(method(batch), torch.stack([method(one) for one in batch]), 1e-13)


def test_optimal_values():
    mdp, policy, _ = softmax_case(2, num_states=3, num_actions=2, gamma=0.8)
    deterministic = [torch.eye(2)[list(choice)] for choice in np.ndindex(2, 2, 2)]
    close(mdp.optimal_values(), torch.stack([mdp.values(pi) for pi in deterministic]).amax(0), 1e-11)
    with pytest.raises(ValueError, match="no convergence in max_sweeps = 100"):
        tabular.chain(2, 1.0).optimal_values(max_sweeps=100)


# ------------------------------------------------------------------------------------------------------------- gradients

CASES = {
    "softmax, never ends": lambda: softmax_case(3, gamma=0.9),
    "softmax, ends": lambda: softmax_case(4, gamma=0.7, end_probability=0.2),
    "softmax, gamma 1": lambda: softmax_case(5, gamma=1.0, end_probability=0.3),
    "corridor": lambda: (tabular.short_corridor(), corridor_policy, torch.tensor([0.3], dtype=torch.float64)),
    "frozen lake": lambda: (tabular.frozen_lake(0.95), softmax_policy,
                            torch.tensor(np.random.default_rng(6).standard_normal((16, 4)))),
}


@pytest.mark.parametrize("case", CASES)
def test_theorem_equals_autograd_and_finite_differences(case):
    mdp, policy, theta = CASES[case]()
    theorem = tabular.exact_policy_gradient(mdp, policy, theta)
    assert theorem.abs().max() > 1e-3
    close(theorem, tabular.autograd_policy_gradient(mdp, policy, theta), 1e-10)
    close(theorem, tabular.finite_difference_gradient(lambda x: mdp.expected_return(policy(x)), theta), 1e-8)


def test_finite_differences_on_known_functions():
    theta = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
    close(tabular.finite_difference_gradient(lambda x: (x**2).sum(), theta), 2 * theta, 1e-9)
    slopes = tabular.finite_difference_gradient(lambda x: torch.stack([x.sum(), x[0, 1] ** 3, x.prod()]), theta)
    close(slopes, [[[1, 1], [1, 1]], [[0, 12], [0, 0]], [[24, 12], [8, 6]]], 1e-7)


def test_dropped_discount_is_the_theorem_only_without_discount():
    mdp, policy, theta = softmax_case(7, gamma=0.8, end_probability=0.2)
    dropped = tabular.dropped_discount_gradient(mdp, policy, theta)
    pi, score = policy(theta), tabular.score_table(policy, theta)
    by_sum = sum(visits * pi[s, a] * mdp.q_values(pi)[s, a] * score[s, a]
                 for s, visits in enumerate(mdp.state_visits(pi)) for a in range(3))
    close(dropped, by_sum, 1e-12)
    undiscounted = TabularMDP(mdp.transition, mdp.reward, 1.0, mdp.start)
    close(tabular.dropped_discount_gradient(undiscounted, policy, theta),
          tabular.exact_policy_gradient(undiscounted, policy, theta), 1e-12)
    # a gradient has a symmetric Jacobian; the dropped field has not (Nota & Thomas, 2020)
    asymmetry = {}
    for field in (tabular.exact_policy_gradient, tabular.dropped_discount_gradient):
        slope = jacobian(lambda x, field=field: field(mdp, policy, x), theta).reshape(15, 15)
        asymmetry[field.__name__] = float((slope - slope.T).abs().max() / slope.abs().max())
    assert asymmetry["exact_policy_gradient"] < 1e-12 and asymmetry["dropped_discount_gradient"] > 1e-2, asymmetry


def test_performance_difference_lemma_on_100_pairs():
    rng = np.random.default_rng(8)
    for _ in range(100):
        mdp = tabular.random_mdp(rng, gamma=rng.uniform(0, 0.99))
        old, new = (softmax_policy(torch.tensor(rng.normal(size=(5, 3)))) for _ in range(2))
        difference = mdp.expected_return(new) - mdp.expected_return(old)
        close(tabular.performance_difference(mdp, new, old), difference, 1e-10 * max(1.0, float(difference.abs())))


def test_compatible_critic_gives_the_gradient_and_its_weights_are_the_natural_gradient():
    mdp, _, theta = softmax_case(9, num_states=4, num_actions=2, gamma=0.9)
    policy, theta = partial(logistic_policy, groups=(0, 1, 2, 1)), theta[:3, 0].contiguous()
    gradient = tabular.exact_policy_gradient(mdp, policy, theta)
    fisher, weights = tabular.fisher_matrix(mdp, policy, theta), tabular.compatible_weights(mdp, policy, theta)
    close(fisher @ weights, gradient, 1e-12)
    close(torch.linalg.solve(fisher, gradient), weights, 1e-12)
    # the Fisher matrix is the second derivative of the state-weighted KL at the point itself
    pi, visits = policy(theta), mdp.discounted_state_distribution(policy(theta))
    curvature = hessian(lambda x: (visits.unsqueeze(-1) * pi * (pi.log() - policy(x).log())).sum(), theta)
    close(fisher, curvature, 1e-12)


def test_compatible_weights_of_a_softmax_are_the_smallest_minimiser():
    mdp, policy, theta = softmax_case(10)
    fisher, gradient = tabular.fisher_matrix(mdp, policy, theta), tabular.exact_policy_gradient(mdp, policy, theta).flatten()
    close(tabular.compatible_weights(mdp, policy, theta), torch.linalg.pinv(fisher, hermitian=True, rtol=1e-12) @ gradient, 1e-9)


def test_score_has_mean_zero_and_matches_hand():
    theta = torch.tensor([[0.0, math.log(3)]], dtype=torch.float64)
    close(tabular.score_table(softmax_policy, theta)[0], [[[0.75, -0.75]], [[-0.25, 0.25]]], 1e-15)


# ---------------------------------------------------------------------------------------------------------- trajectories


def test_enumeration_is_the_exact_expectation():
    mdp, policy, theta = softmax_case(11, num_states=4, forward_only=True, gamma=0.8, end_probability=0.1)
    parameters = theta.clone().requires_grad_()
    trajectories, probability = tabular.enumerate_trajectories(mdp, policy(parameters))
    expected_return = probability @ torch.tensor(trajectories.returns(0.8))
    expected_return.backward()
    probability = probability.detach()
    close(probability.sum(), 1.0, 1e-12)
    close(expected_return.detach(), mdp.expected_return(policy(theta)), 1e-12)
    gradient = tabular.exact_policy_gradient(mdp, policy, theta)
    close(parameters.grad, gradient, 1e-12)
    score = tabular.score_table(policy, theta)
    to_go = trajectories.returns_to_go(0.8)
    total = trajectories.returns(0.8)[trajectories.episode]
    for weight in (total, total - 3.0, 0.8**trajectories.time * (to_go - 5.0 * trajectories.state)):
        estimates = tabular.gradient_estimates(trajectories, weight, score)
        close(np.tensordot(probability, estimates, 1), gradient, 1e-12)
    dropped = np.tensordot(probability, tabular.gradient_estimates(trajectories, to_go, score), 1)
    close(dropped, tabular.dropped_discount_gradient(mdp, policy, theta), 1e-12)


def test_enumeration_by_hand():
    trajectories, probability = tabular.enumerate_trajectories(HAND, HAND_PI)
    found = {(*trajectories.one(n).state, *trajectories.one(n).action): (float(p), trajectories.one(n).returns(0.5)[0])
             for n, p in enumerate(probability)}
    assert found == {(0, 0): (0.25, 1.0), (0, 1, 1, 0): (0.375, 2.0), (0, 1, 1, 1): (0.375, 2.0)}


def test_sampled_frequencies_match_enumerated_probabilities():
    mdp, policy, theta = softmax_case(12, num_states=3, num_actions=2, forward_only=True, end_probability=0.2)
    exact, probability = tabular.enumerate_trajectories(mdp, policy(theta))

    def names(trajectories):
        code = np.zeros(trajectories.shape[0], dtype=int)
        np.add.at(code, trajectories.episode, (1 + trajectories.state * 2 + trajectories.action) * 7**trajectories.time)
        return code

    sampled = names(tabular.sample_trajectories(mdp, policy(theta), 50_000, np.random.default_rng(0)))
    counts = np.array([(sampled == code).sum() for code in names(exact)])
    assert counts.sum() == 50_000
    assert stats.chisquare(counts, 50_000 * probability.numpy()).pvalue > 1e-3


def test_sampling_is_reproducible_and_runs_follow_their_own_policy():
    corridor = tabular.short_corridor()
    pi = corridor_policy(torch.tensor([[0.0], [2.0]], dtype=torch.float64))
    first, again = (tabular.sample_trajectories(corridor, pi, 4000, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(first.action, again.action)
    assert first.shape == (2, 4000) and first.returns(1.0).shape == (2, 4000)
    run = first.episode // 4000
    for r, p in enumerate(pi[:, 0, 1].tolist()):
        assert abs(first.action[run == r].mean() - p) < 5 * math.sqrt(p * (1 - p) / (run == r).sum())
    score = torch.stack([tabular.score_table(corridor_policy, x) for x in torch.tensor([[0.0], [2.0]], dtype=torch.float64)])
    estimates = tabular.gradient_estimates(first, first.returns_to_go(1.0), score)
    assert estimates.shape == (2, 4000, 1)
    for episode in (0, 7999):  # one episode, worked step by step
        r, n = divmod(episode, 4000)
        one = first.one(episode)
        by_hand = sum(-(len(one.time) - t) * score[r, one.state[t], one.action[t]].numpy() for t in range(len(one.time)))
        close(estimates[r, n], by_hand, 1e-11)


def test_every_sampled_step_follows_the_table():
    lake = tabular.frozen_lake()
    trajectories = tabular.sample_trajectories(lake, torch.full((16, 4), 0.25), 200, np.random.default_rng(1))
    for n in range(200):
        one = trajectories.one(n)
        assert one.time.tolist() == list(range(len(one.time))) and one.state[0] == 0
        for here, action, following in zip(one.state, one.action, one.state[1:], strict=False):
            assert lake.transition[here, action, following] > 0
        assert lake.transition[one.state[-1], one.action[-1]].sum() < 1


def test_returns_and_returns_to_go_by_hand():
    trajectories = tabular.Trajectories(*(np.array(x) for x in ([0, 1, 2, 0, 1], [0, 0, 0, 0, 0], [1.0, 2.0, 4.0, 8.0, 16.0],
                                                                [0, 0, 0, 1, 2], [0, 1, 2, 1, 1])), (3,))
    close(trajectories.returns(0.5), [1.0, 2 + 4 + 4, 4.0], 1e-15)
    close(trajectories.returns_to_go(0.5), [1.0, 10.0, 4.0, 16.0, 16.0], 1e-15)
    assert trajectories.one(1).reward.tolist() == [2, 8, 16]


# ---------------------------------------------------------------------------------------------------------------- worlds


def test_frozen_lake_is_gymnasiums():
    lake = tabular.frozen_lake()
    uniform = torch.full((16, 4), 0.25)
    # play the real environment with the table's best policy and compare the share of successes; no time limit
    best = (lake.reward + lake.transition @ lake.optimal_values()).argmax(-1)
    close(lake.optimal_values()[0], 14 / 17, 1e-9)
    close(lake.expected_return(torch.eye(4)[best]), 14 / 17, 1e-9)
    env = gymnasium.make("FrozenLake-v1").unwrapped
    rng, successes, steps = np.random.default_rng(2), 0.0, 0
    env.reset(seed=2)
    for _ in range(1500):
        state, ended = env.reset()[0], False
        while not ended:
            state, reward, ended, _, _ = env.step(int(rng.integers(4)))
            successes, steps = successes + reward, steps + 1
    expected, length = float(lake.expected_return(uniform)), float(lake.state_visits(uniform).sum())
    assert abs(successes / 1500 - expected) < 5 * math.sqrt(expected / 1500)
    assert abs(steps / 1500 - length) < 1.0
    assert lake.state_visits(uniform)[[5, 7, 11, 12, 15]].abs().max() == 0  # holes and goal are ends, not states


def test_mdp_of_other_gymnasium_tables():
    with gymnasium.make("CliffWalking-v1") as env:
        assert tabular.mdp_of(env, 1.0).optimal_values()[36] == pytest.approx(-13.0)
    with gymnasium.make("CartPole-v1") as env, pytest.raises(ValueError, match="no transition table"):
        tabular.mdp_of(env, 1.0)


def test_random_mdp_options():
    rng = np.random.default_rng(4)
    forward = tabular.random_mdp(rng, 4, 2, forward_only=True)
    assert (torch.tril(forward.transition.sum(1)) == 0).all()
    close(forward.transition.sum(-1), [[1, 1]] * 3 + [[0, 0]], 1e-12)
    close(tabular.random_mdp(rng, 4, 2, end_probability=0.25).transition.sum(-1), [[0.75, 0.75]] * 4, 1e-12)


# ------------------------------------------------------------------------------------------------------------- bad input

ONE = dict(transition=[[[0.5]]], reward=[[1.0]], gamma=0.9, start=[1.0])


@pytest.mark.parametrize("change, message", [
    (dict(transition=[[[1.1]]]), r"transition\[0, 0\] sums to 1.1"),
    (dict(transition=[[[-0.1]]]), r"transition\[0, 0, 0\] is -0.1; probabilities must be 0 or more"),
    (dict(transition=[[[math.nan]]]), r"transition\[0, 0, 0\] is nan"),
    (dict(transition=[[0.5]]), r"shape \(S, A, S\)"),
    (dict(transition=[[[0.5, 0.5]]]), r"shape \(S, A, S\)"),
    (dict(reward=[1.0]), r"reward must have shape \(S, A\) = \(1, 1\), got \(1,\)"),
    (dict(reward=[[math.inf]]), "not finite"),
    (dict(gamma=1.01), "gamma must lie in .0, 1., got 1.01"),
    (dict(gamma=-0.1), "got -0.1"),
    (dict(gamma=math.nan), "got nan"),
    (dict(start=[0.9]), "start must sum to 1, got 0.9"),
    (dict(start=[0.5, 0.5]), r"start must have shape \(S,\) = \(1,\)"),
])
def test_bad_worlds_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        TabularMDP(**ONE | change)


def test_policies_that_never_end_are_refused_at_gamma_1_only():
    stay = torch.tensor([[0.0, 1.0], [0.5, 0.5], [0.5, 0.5]])  # right in 0, then right in 1 leads back, or left to 2
    stay[1] = torch.tensor([0.0, 1.0])
    corridor = tabular.short_corridor()
    for method in (corridor.values, corridor.state_visits, corridor.expected_return):
        with pytest.raises(ValueError, match=r"never ends from state\(s\) \[0, 1\]"):
            method(stay)
    discounted = TabularMDP(corridor.transition, corridor.reward, 0.5, corridor.start)
    close(discounted.values(stay)[:2], [-2, -2], 1e-12)
    with pytest.raises(ValueError, match="never ends"):
        discounted.state_visits(stay)
    with pytest.raises(ValueError, match="normalised"):
        corridor.discounted_state_distribution(torch.full((3, 2), 0.5), normalised=True)


@pytest.mark.parametrize("pi, message", [
    ([[0.5, 0.5]], r"\(S, A\) = \(3, 2\), got \(1, 2\); check the shape of theta"),
    ([[0.5, 0.6]] * 3, "sum to 1"),
    ([[-0.5, 1.5]] * 3, r"pi\[0, 0\] is -0.5"),
    ([[math.nan, 0.5]] * 3, r"pi\[0, 0\] is nan"),
])
def test_bad_policies_are_refused(pi, message):
    for call in (tabular.short_corridor().values, partial(tabular.sample_trajectories, tabular.short_corridor(), num_episodes=1,
                                                          rng=np.random.default_rng(0))):
        with pytest.raises(ValueError, match=message):
            call(pi=torch.tensor(pi))


def test_other_bad_input_is_refused():
    corridor, rng, theta = tabular.short_corridor(), np.random.default_rng(0), torch.zeros(1, dtype=torch.float64)
    pi = corridor_policy(theta)
    score, batch = tabular.score_table(corridor_policy, theta), tabular.sample_trajectories(corridor, pi, 3, rng)
    for call, message in [
        (lambda: corridor_policy(torch.zeros(2)), r"theta must have shape \(\.\.\., 1\)"),
        (lambda: softmax_policy(torch.zeros(2)), r"theta must have shape \(\.\.\., S, A\)"),
        (lambda: tabular.exact_policy_gradient(corridor, softmax_policy, theta.new_zeros(2, 2)), "check the shape of theta"),
        (lambda: tabular.sample_trajectories(corridor, pi, 0, rng), "at least 1, got 0"),
        (lambda: tabular.sample_trajectories(corridor, pi, 5, rng, max_steps=3), "still going on after max_steps = 3"),
        (lambda: tabular.sample_trajectories(corridor, pi.expand(2, 2, 3, 2), 5, rng), r"\(R, S, A\)"),
        (lambda: tabular.enumerate_trajectories(corridor, pi), "longer than max_steps = 50"),
        (lambda: tabular.enumerate_trajectories(corridor, pi.expand(2, 3, 2)), r"shape \(S, A\)"),
        (lambda: tabular.finite_difference_gradient(torch.sum, theta, h=0.0), "h must be > 0"),
        (lambda: tabular.finite_difference_gradient(torch.sum, theta, h=math.inf), "h must be > 0 and finite"),
        (lambda: tabular.gradient_estimates(batch, batch.reward[:, None], score), "one number per row"),
        (lambda: tabular.gradient_estimates(batch, batch.reward, score[0]), "score must have shape"),
        (lambda: tabular.chain(0), "at least 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    for bad in (torch.zeros(1), np.zeros(1), [0.0]):
        with pytest.raises(TypeError, match="float64 torch tensor, got"):
            tabular.finite_difference_gradient(torch.sum, bad)
        for gradient in (tabular.exact_policy_gradient, tabular.dropped_discount_gradient):
            with pytest.raises(TypeError, match="float64 torch tensor, got"):
                gradient(corridor, corridor_policy, bad)
    for gamma in ("0.9", None, True, [0.9]):
        with pytest.raises(TypeError, match="gamma must be a number"):
            TabularMDP(**ONE | {"gamma": gamma})


def test_a_world_does_not_change_with_the_arrays_it_was_made_from():
    transition, reward, start = np.full((1, 1, 1), 0.5), torch.ones(1, 1, dtype=torch.float64), np.ones(1)
    world = TabularMDP(transition, reward, 1.0, start)
    transition[:], reward[:], start[:] = 7, 7, 7
    assert float(world.expected_return(torch.ones(1, 1))) == 2


@pytest.mark.parametrize("number", [float, np.float64])
def test_finite_differences_of_a_plain_number(number):
    theta = torch.tensor([1.0, 2.0], dtype=torch.float64)
    close(tabular.finite_difference_gradient(lambda x: number((x**3).sum()), theta), 3 * theta**2, 1e-8)
