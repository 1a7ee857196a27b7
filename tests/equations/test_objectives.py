"""Objectives: numbers and gradients by hand, finite differences, torch.func as another engine, shapes that must be refused."""

import math

import numpy as np
import pytest
import torch

from rlcourse.equations.distributions import Categorical
from rlcourse.equations.objectives import (
    clip_fraction,
    clipped_surrogate_loss,
    kl_estimates,
    policy_gradient_loss,
    surrogate_objective,
    value_loss,
)


def random_tensor(seed, *shape):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def test_policy_gradient_loss_by_hand():
    log_prob, advantage = torch.tensor([-1.0, -2.0], requires_grad=True), torch.tensor([3.0, -4.0])
    loss = policy_gradient_loss(log_prob, advantage)
    assert loss.item() == -2.5  # −½ (−1 · 3 + −2 · −4)
    loss.backward()
    assert log_prob.grad.tolist() == [-1.5, 2.0]  # −Â / B


def test_value_loss_by_hand():
    values, targets = torch.tensor([1.0, 5.0], requires_grad=True), torch.tensor([2.0, 2.0])
    loss = value_loss(values, targets)
    assert loss.item() == 5.0  # ½ (1 + 9)
    loss.backward()
    assert values.grad.tolist() == [-1.0, 3.0]  # 2 (V − target) / B


def test_the_gradient_in_the_logits_is_the_score_times_the_advantage():
    logits, advantage = random_tensor(0, 6, 3).requires_grad_(), random_tensor(1, 6)
    action = torch.tensor([0, 1, 2, 0, 1, 2])
    policy_gradient_loss(Categorical(logits).log_prob(action), advantage).backward()
    # ∇ log π(a) = onehot(a) − π
    score = np.eye(3)[action] - torch.softmax(logits.detach(), -1).numpy()
    np.testing.assert_allclose(logits.grad, -score * advantage.numpy()[:, None] / 6, atol=1e-15)


def test_a_step_against_the_loss_makes_the_good_action_likelier():
    logits = torch.zeros(1, 2, requires_grad=True)
    policy_gradient_loss(Categorical(logits).log_prob(torch.tensor([1])), torch.tensor([1.0])).backward()
    assert Categorical(logits - logits.grad).log_prob(torch.tensor([1])) > np.log(0.5)


def test_the_best_constant_critic_is_the_mean_of_the_targets():
    targets = random_tensor(0, 40)
    value = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(value_loss(value.expand(40), targets), value)
    assert gradient.item() == pytest.approx(-2 * targets.mean().item())
    best = targets.mean().expand(40)
    assert value_loss(best, targets).item() == pytest.approx(targets.var(correction=0).item())


@pytest.mark.parametrize("loss", [policy_gradient_loss, value_loss])
def test_gradients_by_finite_differences(loss):
    constant = random_tensor(1, 3, 5)
    assert torch.autograd.gradcheck(lambda x: loss(x, constant), random_tensor(0, 3, 5).requires_grad_())


@pytest.mark.parametrize("loss", [policy_gradient_loss, value_loss])
def test_the_second_argument_is_a_constant(loss):
    x, y = random_tensor(0, 5).requires_grad_(), random_tensor(1, 5).requires_grad_()
    loss(x, 3 * y).backward()
    assert y.grad is None
    alone = x.detach().requires_grad_()
    loss(alone, 3 * y.detach()).backward()
    assert torch.equal(x.grad, alone.grad)


@pytest.mark.parametrize("loss", [policy_gradient_loss, value_loss])
def test_a_population_gives_one_loss_per_run(loss):
    """The gradient of the sum over runs equals torch.func's gradient of each run alone."""
    x, y = random_tensor(0, 4, 7).requires_grad_(), random_tensor(1, 4, 7)
    losses = loss(x, y)
    assert losses.shape == (4,)
    losses.sum().backward()
    each = torch.func.vmap(torch.func.grad(loss))(x.detach(), y)
    torch.testing.assert_close(x.grad, each, atol=1e-15, rtol=1e-15)


@pytest.mark.parametrize(
    ("loss", "names"), [(policy_gradient_loss, ("log_prob", "advantage")), (value_loss, ("values", "targets"))]
)
def test_what_does_not_fit_is_refused(loss, names):
    first, second = names
    with pytest.raises(ValueError, match=rf"{first} is \(4,\) and {second} is \(4, 1\)"):
        loss(torch.zeros(4), torch.zeros(4, 1))
    with pytest.raises(ValueError, match=rf"{first} is \(2, 4\) and {second} is \(4,\)"):
        loss(torch.zeros(2, 4), torch.zeros(4))
    with pytest.raises(ValueError, match=rf"{first} is \(2, 4\) and {second} is \(1, 4\)"):
        loss(torch.zeros(2, 4), torch.zeros(1, 4))
    for empty in (torch.zeros(0), torch.zeros(3, 0), torch.tensor(1.0)):
        with pytest.raises(ValueError, match="at least one axis and one sample"):
            loss(empty, empty)
    with pytest.raises(TypeError, match=rf"{second} must be a torch tensor, not ndarray.*torch.as_tensor\({second}\)"):
        loss(torch.zeros(4), np.zeros(4))


# ------------------------------------------------------------------------------------------------------ PPO's clip


def clip_gradient(log_ratio, advantage, epsilon=0.2):
    """Gradient of one sample in its log-probability."""
    log_prob = torch.tensor([log_ratio - 1.0], dtype=torch.float64, requires_grad=True)
    old, advantage = torch.tensor([-1.0], dtype=torch.float64), torch.tensor([advantage], dtype=torch.float64)
    clipped_surrogate_loss(log_prob, old, advantage, epsilon).backward()
    return log_prob.grad.item()


@pytest.mark.parametrize("advantage", [1.0, -1.0])
@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.5])
def test_six_cases_of_the_clip(ratio, advantage):
    """Zero gradient where the ratio has gone too far in the direction that the advantage asks for; full gradient elsewhere."""
    too_far = (advantage > 0 and ratio > 1.2) or (advantage < 0 and ratio < 0.8)
    expected = 0.0 if too_far else -ratio * advantage  # d(−ρÂ)/d log π = −ρÂ
    assert clip_gradient(np.log(ratio), advantage) == pytest.approx(expected, abs=1e-15)


def test_clipped_loss_by_hand():
    log_ratio = torch.log(torch.tensor([1.5, 1.5, 0.5, 0.5, 1.1, 0.9], dtype=torch.float64))
    advantage = torch.tensor([2.0, -2.0, 2.0, -2.0, 1.0, -1.0], dtype=torch.float64)
    # min(3, 2.4), min(−3, −2.4), min(1, 1.6), min(−1, −1.6), 1.1, −0.9
    expected = -(2.4 - 3.0 + 1.0 - 1.6 + 1.1 - 0.9) / 6
    loss = clipped_surrogate_loss(log_ratio, torch.zeros_like(log_ratio), advantage, 0.2)
    assert loss.item() == pytest.approx(expected, abs=1e-15)


def test_the_clipped_loss_in_its_other_form():
    """min(ρÂ, clip(ρ)Â), the paper's form, equals ours for all signs and ratios."""
    log_ratio, advantage = random_tensor(0, 5, 400), random_tensor(1, 5, 400)
    rho, a = np.exp(log_ratio.numpy()), advantage.numpy()
    other = -np.minimum(rho * a, np.clip(rho, 0.7, 1.3) * a).mean(-1)
    ours = clipped_surrogate_loss(log_ratio, 0 * log_ratio, advantage, 0.3)
    np.testing.assert_allclose(ours, other, atol=1e-12, rtol=1e-12)


def test_clipped_loss_is_a_pessimistic_bound():
    log_prob, old, advantage = (random_tensor(seed, 300, 1) for seed in (0, 1, 2))
    unclipped = surrogate_objective(log_prob, old, advantage)
    clipped = -clipped_surrogate_loss(log_prob, old, advantage, 0.2)
    assert (clipped <= unclipped).all() and (clipped < unclipped).any()


def test_at_the_old_policy_the_gradient_is_the_policy_gradient():
    """The best single test of a PPO implementation, for each ε, 0 too."""
    logits, advantage = random_tensor(0, 3, 8, 4).requires_grad_(), random_tensor(1, 3, 8)
    action = torch.from_numpy(np.random.default_rng(2).integers(0, 4, (3, 8)))
    log_prob = Categorical(logits).log_prob(action)
    (expected,) = torch.autograd.grad(policy_gradient_loss(log_prob, advantage).sum(), logits, retain_graph=True)
    for epsilon in (0.0, 0.2, 5.0):
        loss = clipped_surrogate_loss(log_prob, log_prob.detach(), advantage, epsilon)
        (gradient,) = torch.autograd.grad(loss.sum(), logits, retain_graph=True)
        torch.testing.assert_close(gradient, expected, atol=1e-14, rtol=0)
    (gradient,) = torch.autograd.grad(-surrogate_objective(log_prob, log_prob.detach(), advantage).sum(), logits)
    torch.testing.assert_close(gradient, expected, atol=1e-14, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_clipped_loss_and_gradient_are_finite(dtype):
    log_ratio = torch.tensor([-1e30, -1e4, -100, -59, 0, 59, 100, 1e4, 1e30], dtype=dtype).repeat(3)
    advantage = torch.tensor([1e6, -1e6, 0.0], dtype=dtype).repeat_interleave(9)
    log_prob = log_ratio.clone().requires_grad_()
    for loss in (
        clipped_surrogate_loss(log_prob, torch.zeros_like(log_prob), advantage, 0.2),
        -surrogate_objective(log_prob, torch.zeros_like(log_prob), advantage),
    ):
        (gradient,) = torch.autograd.grad(loss, log_prob)
        assert torch.isfinite(loss) and torch.isfinite(gradient).all()
    # up to the bound the gradient that must stay alive does: a likely action that turned out bad
    assert clip_gradient(59.0, -1.0) == pytest.approx(np.exp(59.0)) and clip_gradient(61.0, -1.0) == 0


def test_clip_epsilon_may_differ_between_runs():
    log_ratio, advantage = random_tensor(0, 2, 50), random_tensor(1, 2, 50)
    old, epsilons = torch.zeros_like(log_ratio), [0.1, 0.4]
    both = clipped_surrogate_loss(log_ratio, old, advantage, np.array(epsilons))
    fractions = clip_fraction(log_ratio, old, np.array(epsilons))
    for r, epsilon in enumerate(epsilons):
        assert both[r] == clipped_surrogate_loss(log_ratio[r], old[r], advantage[r], epsilon)
        outside = np.abs(np.exp(log_ratio[r].numpy()) - 1) > epsilon
        assert fractions[r].item() == pytest.approx(outside.mean())


def test_gradient_of_the_clipped_loss_by_finite_differences():
    log_prob, old, advantage = random_tensor(0, 3, 5).requires_grad_(), random_tensor(1, 3, 5), random_tensor(2, 3, 5)
    assert torch.autograd.gradcheck(lambda x: clipped_surrogate_loss(x, old, advantage, 0.2), log_prob)


def test_what_the_clipped_loss_refuses():
    with pytest.raises(ValueError, match=r"log_prob is \(4,\) and advantage is \(4, 1\)"):
        clipped_surrogate_loss(torch.zeros(4), torch.zeros(4), torch.zeros(4, 1), 0.2)
    with pytest.raises(ValueError, match=r"log_prob is \(4,\) and old_log_prob is \(4, 1\)"):
        clipped_surrogate_loss(torch.zeros(4), torch.zeros(4, 1), torch.zeros(4), 0.2)
    for function in (lambda e: clipped_surrogate_loss(*torch.zeros(3, 4), e), lambda e: clip_fraction(*torch.zeros(2, 4), e)):
        with pytest.raises(ValueError, match="clip_epsilon must lie between 0"):
            function(-0.1)


def test_only_the_new_log_prob_gets_a_gradient():
    new, old, advantage = (random_tensor(seed, 6).requires_grad_() for seed in range(3))
    clipped_surrogate_loss(new, old, advantage, 0.2).backward()
    assert new.grad is not None and old.grad is None and advantage.grad is None
    assert not clip_fraction(new, old, 0.2).requires_grad
    sum(k.sum() for k in kl_estimates(new, old)).backward()
    assert old.grad is None


# ------------------------------------------------------------------------------------------------------ KL from samples


def test_kl_estimates_by_hand():
    k1, k2, k3 = kl_estimates(torch.tensor([-1.0, -1.0]), torch.tensor([-0.5, -3.0]))
    assert k1.tolist() == [0.5, -2.0] and k2.tolist() == [0.125, 2.0]
    assert k3.tolist() == pytest.approx([np.exp(-0.5) - 1 + 0.5, np.exp(2.0) - 1 - 2])


def test_kl_estimates_by_enumeration():
    """Weighted with π_old's probabilities, k1 and k3 give the KL and its gradient; k2 gives neither."""
    old, logits = Categorical(random_tensor(0, 1, 5)), random_tensor(1, 1, 5).requires_grad_()
    new = Categorical(logits)
    kl = old.kl(new).sum()
    (expected,) = torch.autograd.grad(kl, logits, retain_graph=True)
    right = []
    for estimate in kl_estimates(new.log_probs[0], old.log_probs[0]):
        mean = (old.probs[0] * estimate).sum()
        (gradient,) = torch.autograd.grad(mean, logits, retain_graph=True)
        right.append((abs(mean.item() - kl.item()) < 1e-12, bool((gradient - expected).abs().max() < 1e-12)))
    assert right == [(True, True), (False, False), (True, True)]


def test_kl_estimates_far_away():
    """k1 and k2 have no limit; ρ in k3 ends at e⁶⁰, so that it stays finite in float32. None loses its gradient below."""
    new = torch.tensor([-100.0, -101.0, 0.0], requires_grad=True)
    k1, k2, k3 = kl_estimates(new, torch.tensor([0.0, -1.0, -100.0]))
    assert k1.tolist() == [100, 100, -100] and k2.tolist() == [5000, 5000, 5000] and k3[:2].tolist() == [99, 99]
    assert k3[2].item() == pytest.approx(math.exp(60), rel=1e-6)
    assert torch.autograd.grad(k3.sum(), new)[0].tolist() == [-1, -1, -1]


def test_k3_keeps_its_digits_for_close_policies():
    """ρ − 1 − log ρ loses all its digits to cancellation in float32 when log ρ = 1e-4; ½ log²ρ is the leading term."""
    k3 = kl_estimates(torch.tensor([-1.0 + 1e-4]), torch.tensor([-1.0]))[2].item()
    assert k3 == pytest.approx(0.5e-8, rel=0.02)


# ------------------------------------------------------------------------------------------------------ value clipping


def test_value_clipping_by_hand():
    values, old = torch.tensor([3.0, 3.0, 1.1], requires_grad=True), torch.tensor([1.0, 1.0, 1.0])
    targets = torch.tensor([4.0, 0.0, 2.0])
    loss = value_loss(values, targets, old, 0.5)
    # V^clip = 1.5, 1.5, 1.1: errors max(1, 6.25), max(9, 2.25), 0.81
    assert loss.item() == pytest.approx((6.25 + 9 + 0.81) / 3)
    loss.backward()
    # the first sample is on its way to the target but has left the interval: no gradient
    assert values.grad.tolist() == pytest.approx([0.0, 2.0, -0.6])


def test_value_clipping_refuses_half_of_its_arguments():
    with pytest.raises(ValueError, match="value clipping needs both"):
        value_loss(torch.zeros(4), torch.zeros(4), clip=0.2)
    with pytest.raises(ValueError, match="value clipping needs both"):
        value_loss(torch.zeros(4), torch.zeros(4), torch.zeros(4))
    with pytest.raises(ValueError, match=r"old_values is \(4, 1\)"):
        value_loss(torch.zeros(4), torch.zeros(4), torch.zeros(4, 1), 0.2)


def test_value_clipping_per_run_and_its_constants():
    values, old, targets = (random_tensor(seed, 2, 50).requires_grad_() for seed in range(3))
    loss = value_loss(values, targets, old, np.array([0.1, 0.5]))
    for r, clip in enumerate((0.1, 0.5)):
        assert loss[r] == value_loss(values[r], targets[r], old[r], clip)
    loss.sum().backward()
    assert old.grad is None and targets.grad is None and values.grad is not None
    unlimited = value_loss(values, targets, old, float("inf"))
    torch.testing.assert_close(unlimited, value_loss(values, targets))
