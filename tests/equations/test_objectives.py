"""Objectives: numbers and gradients by hand, finite differences, torch.func as another engine, shapes that must be refused."""

import numpy as np
import pytest
import torch

from rlcourse.equations.distributions import Categorical
from rlcourse.equations.objectives import policy_gradient_loss, value_loss


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
