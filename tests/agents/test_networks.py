"""Initial weights, and the hand-written backward pass against autograd and finite differences."""

import gc
import math
import weakref

import numpy as np
import pytest
import torch

from rlcourse.agents.networks import ActorCritic, Tanh, mlp, orthogonal, orthogonal_weights, tanh_, uniform_weights


def tensor(seed, *shape):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (5, 5)])
def test_orthogonal_has_orthonormal_rows_or_columns(shape):
    w = orthogonal(np.random.default_rng(0), *shape, gain=3.0) / 3.0
    gram = w @ w.T if shape[0] <= shape[1] else w.T @ w
    np.testing.assert_allclose(gram, np.eye(min(shape)), atol=1e-12)


def test_orthogonal_is_uniform_over_signs():
    """By symmetry every entry has mean 0; without the fix of signs the diagonal does not."""
    diagonal = np.mean([np.diag(orthogonal(np.random.default_rng(seed), 3, 3, 1.0)) for seed in range(2000)], axis=0)
    assert abs(diagonal).max() < 0.06  # four standard errors are 4 · √(1/3) / √2000 = 0.052


def test_initial_weights_have_their_gains():
    generator = np.random.default_rng(0)
    flat = orthogonal_weights(generator, [3, 8, 2], 0.01)
    first, bias, last = flat[:24].reshape(3, 8), flat[24:32], flat[32:48].reshape(8, 2)
    np.testing.assert_allclose(first @ first.T, 2 * np.eye(3), atol=1e-12)
    np.testing.assert_allclose(last.T @ last, 1e-4 * np.eye(2), atol=1e-12)
    assert not bias.any() and not flat[48:].any()
    flat = uniform_weights(generator, [400, 100, 2], 0.01)
    assert abs(flat[:40_100]).max() <= 1 / 20 and abs(flat[40_100:]).max() <= 0.1
    assert flat[:40_000].std() == pytest.approx(1 / 20 / math.sqrt(3), rel=0.02) and flat[40_000:40_100].std() > 0.02


@pytest.mark.parametrize("dtype, rounding", [(torch.float32, 6e-8), (torch.float64, 1.2e-16)])
def test_the_error_of_tanh_is_a_few_roundings_of_one(dtype, rounding):
    x = torch.cat([torch.linspace(-10, 10, 2001, dtype=torch.float64), 10.0 ** torch.arange(-12, 1)])
    ours = tanh_(x.to(dtype).clone()).double()
    assert (ours - torch.tanh(x.to(dtype).double())).abs().max() <= 3.5 * rounding


def test_tanh_and_its_derivatives():
    x = (3 * tensor(0, 2, 5, 4)).requires_grad_()
    torch.testing.assert_close(Tanh.apply(x), torch.tanh(x), rtol=0, atol=1e-15)
    assert torch.autograd.gradcheck(Tanh.apply, x) and torch.autograd.gradgradcheck(Tanh.apply, x)
    extreme = torch.tensor([-1e4, -50.0, 0.0, 50.0, 1e4], requires_grad=True)
    y = Tanh.apply(extreme)
    assert y.tolist() == [-1, -1, 0, 1, 1] and torch.autograd.grad(y.sum(), extreme)[0].tolist() == [0, 0, 1, 0, 0]


@pytest.fixture
def networks():
    """Policy 3 → 5 → 5 → 2, log σ of 2, critic 3 → 4 → 1, for two runs, as views of one matrix."""
    sizes = {"policy": [3, 5, 5, 2], "critic": [3, 4, 1]}
    matrix = (0.7 * tensor(0, 2, 62 + 2 + 21)).requires_grad_()
    layers, used = {"policy": [], "critic": []}, 0
    for name, widths in sizes.items():
        for inputs, outputs in zip(widths, widths[1:], strict=False):
            for rows in (inputs, 1):
                layers[name].append(matrix[:, used : used + rows * outputs].view(2, rows, outputs))
                used += rows * outputs
        if name == "policy":
            log_std, used = matrix[:, used : used + 2].view(2, 1, 2), used + 2
    return matrix, layers["policy"], log_std, layers["critic"]


def test_networks_equal_numpy_and_the_written_gradient_equals_autograd(networks):
    matrix, policy_layers, log_std, critic_layers = networks
    x = tensor(1, 2, 7, 3)
    policy, value, spread = ActorCritic.apply(matrix, x, policy_layers, log_std, critic_layers)
    for layers, output in ((policy_layers, policy), (critic_layers, value)):
        for r in range(2):
            h = x[r].numpy()
            for i in range(0, len(layers), 2):
                h = h @ layers[i][r].detach().numpy() + layers[i + 1][r].detach().numpy()
                h = np.tanh(h) if i < len(layers) - 2 else h
            np.testing.assert_allclose(output[r].detach(), h, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(spread, log_std)
    loss = lambda p, v, s: p.square().sum() + (p * tensor(2, *p.shape)).sum() + (v**3).sum() + s.exp().sum()  # noqa: E731
    (ours,) = torch.autograd.grad(loss(policy, value, spread), matrix)
    (theirs,) = torch.autograd.grad(loss(mlp(policy_layers, x), mlp(critic_layers, x), log_std), matrix)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    for which in range(3):  # what does not enter the loss has gradient 0
        outputs = ActorCritic.apply(matrix, x, policy_layers, log_std, critic_layers)
        (ours,) = torch.autograd.grad(outputs[which].sum(), matrix)
        alone = (mlp(policy_layers, x), mlp(critic_layers, x), log_std)[which]
        torch.testing.assert_close(ours, torch.autograd.grad(alone.sum(), matrix)[0], rtol=1e-12, atol=1e-12)


def test_without_log_std(networks):
    matrix, policy_layers, _, critic_layers = networks
    x = tensor(1, 2, 7, 3)
    bare = torch.cat([matrix[:, :62], matrix[:, 64:]], 1).detach().requires_grad_()
    policy, value, nothing = ActorCritic.apply(bare, x, policy_layers, None, critic_layers)
    assert nothing is None
    (ours,) = torch.autograd.grad(policy.square().sum() + value.square().sum(), bare)
    (theirs,) = torch.autograd.grad(mlp(policy_layers, x).square().sum() + mlp(critic_layers, x).square().sum(), matrix)
    torch.testing.assert_close(ours, torch.cat([theirs[:, :62], theirs[:, 64:]], 1), rtol=1e-12, atol=1e-12)


def test_misuse_is_noticed(networks):
    matrix, policy_layers, log_std, critic_layers = networks
    _, value, _ = ActorCritic.apply(matrix, tensor(1, 2, 7, 3), policy_layers, log_std, critic_layers)
    (gradient,) = torch.autograd.grad(value.square().sum(), matrix, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.square().sum().backward()
    _, value, _ = ActorCritic.apply(matrix, tensor(1, 2, 7, 3), policy_layers, log_std, critic_layers)
    with torch.no_grad():
        matrix.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.sum().backward()


def test_no_memory_is_kept_after_use(networks):
    """Everything of a pass is freed by reference counts alone: no cycle that waits for the garbage collector."""
    matrix, policy_layers, log_std, critic_layers = networks
    gc.disable()
    try:
        policy, value, _ = ActorCritic.apply(matrix, tensor(1, 2, 7, 3), policy_layers, log_std, critic_layers)
        watch = weakref.ref(policy)
        torch.autograd.grad(policy.sum() + value.sum(), matrix)
        del policy, value, _
        assert watch() is None
    finally:
        gc.enable()
