"""The axis of runs: independent of its neighbours, equal to torch's own engines, and safe when one run breaks."""

import copy
import itertools
import warnings

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlcourse import PPO, VPG, iterate, policy_gradient_loss, train
from rlcourse.agents.runs import Adam, Runs
from rlcourse.equations.trust_region import fisher_vector_product
from rlcourse.worlds.lqr import LQREnv, point_mass

SMALL = {"num_envs": 4, "num_steps": 32, "hidden_sizes": (16, 16), "learning_rate": 1e-3, "critic_learning_rate": 1e-3}


def population(num_runs=3, space=None, dtype=torch.float64):
    return Runs(3, space or spaces.Discrete(4), (8, 8), range(num_runs), dtype)


def state_after(updates, algorithm, env, seeds, **options):
    states = iterate(algorithm, env, total_steps=10**6, seeds=seeds, dtype=torch.float64, **options)
    return list(itertools.islice(states, updates))[-1]


# ---- Adam ---------------------------------------------------------------------------------------------------------------


def test_adam_equals_torch_row_by_row_with_its_own_rate():
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.normal(size=(3, 5)))
    rates = torch.tensor([[1e-3], [1e-2], [0.1]], dtype=torch.float64)
    rows = [torch.nn.Parameter(row.clone()) for row in x]
    peers = [torch.optim.Adam([row], lr=float(rate), eps=1e-5) for row, rate in zip(rows, rates, strict=True)]
    ours = Adam(3, 5, torch.float64)
    for _ in range(20):
        gradient = torch.tensor(rng.normal(size=(3, 5)))
        ours.step(x, gradient, rates, torch.ones(3, 1, dtype=bool))
        for row, peer, g in zip(rows, peers, gradient, strict=True):
            row.grad = g.clone()
            peer.step()
    torch.testing.assert_close(x, torch.stack([row.detach() for row in rows]), rtol=1e-12, atol=1e-12)


def test_adam_freezes_parameters_moments_and_step_count_of_inactive_rows():
    rng = np.random.default_rng(1)
    gradients = torch.tensor(rng.normal(size=(4, 2, 3)))
    both, first = torch.ones(2, 1, dtype=bool), torch.tensor([[True], [False]])
    x, alone = torch.zeros(2, 3, dtype=torch.float64), torch.zeros(1, 3, dtype=torch.float64)
    adam, peer = Adam(2, 3, torch.float64), Adam(1, 3, torch.float64)
    rate = torch.tensor(0.01, dtype=torch.float64)
    for i, active in enumerate([both, first, first, both]):
        before = x.clone()
        adam.step(x, gradients[i], rate, active)
        if active is first:
            assert torch.equal(x[1], before[1])
    for i in (0, 3):  # row 1 as if the two steps in between had never been
        peer.step(alone, gradients[i, 1:], rate, torch.ones(1, 1, dtype=bool))
    torch.testing.assert_close(x[1:], alone, rtol=1e-14, atol=0)


# ---- networks and initial weights ---------------------------------------------------------------------------------------


def test_networks_equal_torch_linear_layers():
    agent = population(2)
    obs = torch.tensor(np.random.default_rng(0).normal(size=(2, 7, 3)))
    for r in range(2):
        x = obs[r]
        layers = agent._critic_layers
        for i in range(0, len(layers), 2):
            linear = torch.nn.Linear(layers[i].shape[1], layers[i].shape[2], dtype=torch.float64)
            with torch.no_grad():
                linear.weight.copy_(layers[i][r].T)
                linear.bias.copy_(layers[i + 1][r, 0])
            x = linear(x) if i == len(layers) - 2 else torch.tanh(linear(x))
        torch.testing.assert_close(agent.value(obs)[r], x[:, 0], rtol=1e-12, atol=1e-12)


def test_first_policy_is_nearly_uniform_and_seeds_differ():
    agent = population(2)
    obs = torch.tensor(np.random.default_rng(0).normal(size=(2, 50, 3)))
    assert agent.policy(obs).probs.sub(0.25).abs().max() < 0.02
    assert not torch.equal(agent.parameters[0], agent.parameters[1])


def test_both_networks_at_once_or_one_by_one_take_the_same_step():
    """agent(obs) has its own backward pass; policy(obs) and value(obs) leave it to autograd; a loss may mix them."""
    obs = torch.tensor(np.random.default_rng(0).normal(size=(2, 9, 3)))
    space = spaces.Box(-1.0, 1.0, (2,))

    def stepped(part, look):
        agent = population(2, space)
        agent.step(look(agent), 0.01, part)
        return agent.parameters

    entropy = lambda policy: (policy.entropy() + policy.mean.square().sum(-1)).mean(-1)  # noqa: E731
    error = lambda value: (value - 1).square().mean(-1)  # noqa: E731
    at_once = lambda agent: entropy(agent(obs)[0]) + error(agent(obs)[1])  # noqa: E731
    one_by_one = lambda agent: entropy(agent.policy(obs)) + error(agent.value(obs))  # noqa: E731
    mixed = lambda agent: entropy(agent(obs)[0]) + error(agent.value(obs))  # noqa: E731
    for part in ("policy", "critic", "both"):
        expected = stepped(part, one_by_one)
        for look in (at_once, mixed):
            torch.testing.assert_close(stepped(part, look), expected, rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="does not depend on all parameters of part = 'both'"):
        stepped("both", lambda agent: error(agent.value(obs)))


@pytest.mark.parametrize("std", ["free", "state", None])
def test_fisher_product_by_two_passes_equals_double_backward(std):
    """Gauss–Newton against Pearlmutter's way, with a damping of its own for each run, normalised observations, σ at a bound."""
    space = spaces.Discrete(4) if std is None else spaces.Box(-1.0, 1.0, (2,))
    agent = Runs(3, space, (8, 5), range(2), torch.float64, std=std or "free", normalize_obs=True)
    rng = np.random.default_rng(0)
    obs = torch.tensor(rng.normal(2.0, 3.0, size=(2, 30, 3)))
    agent.observe(obs)
    with torch.no_grad():
        agent.parameters.add_(0.4 * torch.tensor(rng.normal(size=agent.parameters.shape)))
        if std == "free":
            agent.parameters[1, agent.num_policy_parameters - 1] = 2.5  # beyond the bound: no curvature there
    damping = torch.tensor([0.0, 0.3])
    ours = agent.fisher_vector_product(obs, damping)
    theirs = fisher_vector_product(agent.policy, obs, damping, parameters=agent.policy_parameters)
    for _ in range(3):  # the product may be taken again and again
        v = torch.tensor(rng.normal(size=(2, agent.num_policy_parameters)))
        torch.testing.assert_close(ours(v), theirs(v), rtol=1e-10, atol=1e-12)
    assert (v * agent.fisher_vector_product(obs)(v)).sum(-1).min() > 0
    both, one = agent.fisher_vector_product(obs, 0.1)(v), agent.fisher_vector_product(obs[:, :1], 0.1)(v)
    assert (both - one).abs().max() > 1e-3  # a mean over the states


def test_policy_and_critic_see_normalised_observations_by_either_way():
    agent = Runs(3, spaces.Discrete(4), (8,), [0, 1], torch.float64, normalize_obs=True)
    obs = torch.tensor(np.random.default_rng(0).normal(50.0, 7.0, size=(2, 40, 3)))
    agent.observe(obs)
    seen = (obs - obs.mean(1, keepdim=True)) / (obs.std(1, correction=0, keepdim=True) + 1e-4)
    bare = Runs(3, spaces.Discrete(4), (8,), [0, 1], torch.float64)
    policy, value = agent(obs)
    for logits in (policy.logits, agent.policy(obs).logits):
        torch.testing.assert_close(logits, bare.policy(seen).logits, rtol=1e-9, atol=1e-12)
    for values in (value, agent.value(obs)):
        torch.testing.assert_close(values, bare.value(seen), rtol=1e-9, atol=1e-12)


# ---- steps --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", [spaces.Discrete(4), spaces.Box(-1.0, 1.0, (2,))], ids=["Discrete", "Box"])
def test_one_policy_step_agrees_with_vmap_of_grad(space):
    """The sum of losses and one backward pass give what `torch.func.vmap(grad(loss))` gives run by run."""
    agent = population(3, space)
    rng = np.random.default_rng(0)
    obs, advantage = torch.tensor(rng.normal(size=(3, 20, 3))), torch.tensor(rng.normal(size=(3, 20)))
    discrete = isinstance(space, spaces.Discrete)
    action = torch.tensor(rng.integers(4, size=(3, 20)) if discrete else rng.normal(size=(3, 20, 2)))
    leaves = [leaf.detach().clone() for leaf in agent._leaves["policy"]]

    def loss(parameters, obs, action, advantage):
        x, (w1, b1, w2, b2, w3, b3, *log_std) = obs, parameters
        output = torch.tanh(torch.tanh(x @ w1 + b1) @ w2 + b2) @ w3 + b3
        if discrete:
            log_prob = torch.log_softmax(output, -1).gather(-1, action[:, None])[:, 0]
        else:
            normal = torch.distributions.Normal(output, log_std[0].exp().expand_as(output), validate_args=False)
            log_prob = normal.log_prob(action).sum(-1)
        return -(log_prob * advantage).mean()

    gradients = torch.func.vmap(torch.func.grad(loss))(leaves, obs, action, advantage)
    flat = torch.cat([g.reshape(3, -1) for g in gradients], 1)
    before = agent.parameters[:, : agent.num_policy_parameters].clone()
    critic = agent.parameters[:, agent.num_policy_parameters :].clone()
    agent.step(policy_gradient_loss(agent.policy(obs).log_prob(action), advantage), 0.01, "policy")
    # The first Adam step is −lr · g / (|g| + ε)
    expected = before - 0.01 * flat / (flat.abs() + 1e-5)
    torch.testing.assert_close(agent.parameters[:, : agent.num_policy_parameters], expected, rtol=1e-9, atol=1e-9)
    assert torch.equal(agent.parameters[:, agent.num_policy_parameters :], critic)
    torch.testing.assert_close(agent.grad_norm, flat.norm(dim=1), rtol=1e-10, atol=0)


def test_gradient_norm_is_clipped_per_run():
    obs = torch.tensor(np.random.default_rng(0).normal(size=(2, 10, 3)))
    big, small = torch.tensor([1e3, 1e-3], dtype=torch.float64)
    agent = population(2)
    scale = torch.stack([big, small])
    gradient = torch.autograd.grad((agent.value(obs).mean(-1) * scale).sum(), agent._leaves["critic"])
    norms = torch.cat([g.reshape(2, -1) for g in gradient], 1).norm(dim=1)
    assert norms[0] > 0.5 > norms[1]
    agent.step(agent.value(obs).mean(-1) * scale, 0.01, "critic", max_grad_norm=0.5)
    moments = agent._optimisers["critic"].m.norm(dim=1) / (1 - 0.9)
    torch.testing.assert_close(moments, torch.stack([torch.tensor(0.5, dtype=torch.float64), norms[1]]), rtol=1e-5, atol=0)


def test_step_refuses_a_loss_that_is_not_one_number_per_run():
    agent = population(3)
    with pytest.raises(ValueError, match=r"loss has shape \(\).*\(3,\)"):
        agent.step(agent.value(torch.zeros(3, 5, 3, dtype=torch.float64)).mean(), 0.01)
    with pytest.raises(ValueError, match="'actor'"):
        agent.step(agent.value(torch.zeros(3, 5, 3, dtype=torch.float64)).mean(-1), 0.01, "actor")


def test_stopped_run_keeps_everything_until_the_next_update():
    agent = population(3)
    obs = torch.ones(3, 5, 3, dtype=torch.float64)
    agent.stop_where(torch.tensor([False, True, False]))
    before = agent.parameters.clone()
    agent.step(agent.value(obs).mean(-1), 0.01, "critic")
    moved = (agent.parameters != before).any(1).tolist()
    assert moved == [True, False, True]
    agent.begin_update()
    agent.step(agent.value(obs).mean(-1), 0.01, "critic")
    assert (agent.parameters[1] != before[1]).any()


# ---- independence -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env, batched", [("CartPole-v1", True), ("CartPole-v1", False), ("Pendulum-v1", True)])
def test_run_r_of_a_population_equals_the_same_run_alone(env, batched):
    together = VPG(**SMALL, gamma=[0.9, 0.99], entropy_coef=[0.0, 0.1], max_grad_norm=0.5)
    crowd = state_after(3, together, env, [5, 6], batched=batched)
    for r, run in enumerate(crowd.runs):
        settings = {**SMALL, "max_grad_norm": 0.5, **run.setting}
        alone = state_after(3, VPG(**settings), env, [run.seed], batched=batched)
        torch.testing.assert_close(crowd.agent.parameters[r], alone.agent.parameters[0], rtol=0, atol=1e-9)
        for name, value in alone.history.items():
            if name != "seconds":
                np.testing.assert_allclose(crowd.history[name][r], value[0], rtol=1e-7, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("how", ["parameters", "moments"])
def test_a_run_forced_to_nan_leaves_the_others_bit_identical(env, how):
    def train_with(break_run):
        for state in iterate(VPG(**SMALL), env, total_steps=SMALL["num_envs"] * SMALL["num_steps"] * 12, seeds=[1, 2, 3]):
            if break_run and state.iteration == 4:
                target = state.agent.parameters if how == "parameters" else state.agent._optimisers["policy"].m
                target[1] = torch.nan
        return state

    healthy, broken = train_with(False), train_with(True)
    assert list(broken.agent.failed) == [1] and "finite" in broken.agent.failed[1]
    for r in (0, 2):
        assert torch.equal(healthy.agent.parameters[r], broken.agent.parameters[r])
        for name, value in healthy.history.items():
            if name != "seconds":
                np.testing.assert_array_equal(value[r], broken.history[name][r], err_msg=name)
    assert np.isnan(broken.history["entropy"][1, -1]) and np.isfinite(broken.history["entropy"][1, 3])
    assert torch.isfinite(broken.agent.parameters).all()


def test_a_gradient_that_is_not_finite_is_zero_and_the_run_is_quarantined():
    agent, obs = population(3), torch.ones(3, 5, 3, dtype=torch.float64)
    entropy = agent.policy(obs).entropy().mean(-1)
    gradient = agent.policy_gradient(entropy * torch.tensor([1.0, torch.inf, 1.0]))
    assert list(agent.failed) == [1] and (gradient[1] == 0).all()
    assert torch.isfinite(gradient).all() and (gradient[[0, 2]] != 0).any(-1).all()


@pytest.mark.parametrize("size, scaled, survives", [(1e18, False, True), (1e21, True, True), (1e21, False, False)])
def test_a_gradient_whose_square_overflows_is_used_if_it_is_scaled_down(size, scaled, survives):
    """In float32 squares above 3e38 are infinite, and Adam's second moment would be for ever."""
    agent, obs = population(2, dtype=torch.float32), torch.ones(2, 5, 3)
    before = agent.parameters.clone()
    loss = agent.value(obs).mean(-1) * torch.tensor([size, 1.0])
    agent.step(loss, 0.01, "critic", max_grad_norm=0.5 if scaled else None)
    assert list(agent.failed) == ([] if survives else [0]) and torch.isfinite(agent._optimisers["critic"].v).all()
    assert (agent.parameters != before).any(1).tolist() == [survives, True]
    if scaled:
        assert agent._optimisers["critic"].m[0].norm().item() == pytest.approx(0.5 * (1 - 0.9), rel=1e-4)


def test_a_run_that_has_stopped_is_not_judged_by_a_step_it_does_not_take():
    agent, obs = population(2), torch.ones(2, 5, 3, dtype=torch.float64)
    agent.step(agent.value(obs).mean(-1), 0.01, "critic")
    after_one = agent.parameters.clone()
    agent.stop_where(torch.tensor([True, False]))
    agent.step(agent.value(obs).mean(-1) * torch.tensor([torch.inf, 1.0]), 0.01, "critic")
    assert agent.failed == {} and torch.equal(agent.parameters[0], after_one[0])
    assert (agent.parameters[1] != after_one[1]).any()


def test_a_run_whose_actions_overflow_leaves_the_others_alone():
    """A linear policy, a step size of 10, an open box: its actions become infinite while its parameters are still finite."""
    settings = {"hidden_sizes": (), "num_envs": 16, "num_steps": 32, "num_minibatches": 4}
    world, seeds = lambda: LQREnv(point_mass()), [0, 1]

    def trained(learning_rate):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return train(PPO(**settings, learning_rate=learning_rate), world, total_steps=10_240, seeds=seeds, progress=False)

    crowd, alone = trained([1e-3, 10.0]), trained(1e-3)
    assert set(crowd.failed) == {2, 3} and alone.failed == {}
    torch.testing.assert_close(crowd.agent.parameters[:2], alone.agent.parameters, rtol=0, atol=1e-3)
    assert torch.isfinite(crowd.agent.parameters).all()
    agent = Runs(2, spaces.Box(-np.inf, np.inf, (1,)), (), [0, 1])
    action = torch.tensor([[[1.0], [torch.inf]], [[2.0], [3.0]]])
    agent.tame(action)
    assert action.flatten().tolist() == [1, 0, 2, 3] and agent.failed == {0: "its actions are not finite: the step was too long"}


def test_select_is_a_copy_of_what_was_learned():
    agent = population(3)
    obs = torch.ones(3, 5, 3, dtype=torch.float64)
    agent.step(agent.value(obs).mean(-1), 0.1, "critic")
    alone = agent.select(1)
    torch.testing.assert_close(alone.value(obs[1:2])[0], agent.value(obs)[1], rtol=1e-12, atol=1e-12)
    kept = copy.deepcopy(alone.parameters)
    agent.step(agent.value(obs).mean(-1), 0.1, "critic")
    assert torch.equal(alone.parameters, kept)
