"""Stacked tanh networks: initial weights, and the pass through the networks of all runs, one `baddbmm` per layer.

A network is a list of leaves W₁, b₁, W₂, b₂, … of shapes (R, in, out) and (R, 1, out).
"""

import math

import numpy as np
import torch


def orthogonal(generator: np.random.Generator, rows: int, columns: int, gain: float) -> np.ndarray:
    """A (rows, columns) matrix with orthonormal columns (or rows, if fewer), times `gain`. Saxe et al. 2014.

    The sign fix by the diagonal of R makes the draw uniform (Mezzadri 2007, section 5).
    """
    q, r = np.linalg.qr(generator.standard_normal((max(rows, columns), min(rows, columns))))
    q *= np.sign(np.diag(r))
    return gain * (q if rows >= columns else q.T)


def orthogonal_weights(generator, sizes, last_gain):
    """Flat initial weights: orthogonal, gain √2 in hidden layers and `last_gain` in the last; zero biases."""
    pieces = []
    for i, (inputs, outputs) in enumerate(zip(sizes, sizes[1:], strict=False)):
        gain = last_gain if i == len(sizes) - 2 else math.sqrt(2)
        pieces += [orthogonal(generator, inputs, outputs, gain).ravel(), np.zeros(outputs)]
    return np.concatenate(pieces)


def uniform_weights(generator, sizes, last_gain):
    """Flat initial weights as torch.nn.Linear draws them: weights and biases uniform in ±1/√inputs, all layers alike."""
    pieces = []
    for inputs, outputs in zip(sizes, sizes[1:], strict=False):
        pieces.append(generator.uniform(-1, 1, (inputs + 1) * outputs) / math.sqrt(inputs))
    return np.concatenate(pieces)


def tanh_(x):
    """tanh x = 2σ(2x) − 1, in place. PyTorch's sigmoid takes a fraction of the time of its tanh.

    Its error is absolute: up to three roundings of 1 (2e-7 in float32, 4e-16 in float64).
    """
    return x.mul_(2).sigmoid_().mul_(2).sub_(1)


class Tanh(torch.autograd.Function):
    """`tanh_` with its derivative, 1 − tanh²; differentiable as often as needed."""

    @staticmethod
    def forward(ctx, x):
        y = tanh_(x.clone())
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        return torch.ops.aten.tanh_backward(gradient, y)


def mlp(layers, x):
    """x ← tanh(x W + b) for all layers but the last, which is x W + b. x (R, B, in) → (R, B, out)."""
    if not torch.is_grad_enabled():
        return forward(layers, x)[1]
    for weight, bias in zip(layers[:-2:2], layers[1:-2:2], strict=True):
        x = Tanh.apply(torch.baddbmm(bias, x, weight))
    return torch.baddbmm(layers[-1], x, layers[-2])


class ActorCritic(torch.autograd.Function):
    """Policy and critic at once, with the backward pass written out: the same numbers as `mlp` twice, in half of the time.

    The gradient comes as one matrix (R, P), the layout of the parameters: policy layers, log σ, critic layers. It can be
    differentiated once; for second derivatives (Fisher products) there is `mlp`.
    """

    @staticmethod
    def forward(ctx, parameters, x, policy_layers, log_std, critic_layers):
        """parameters: the matrix (R, P) of which all other leaves are views → outputs of policy and critic, a copy of log σ."""
        ctx.save_for_backward(parameters)  # so that autograd notices if it is changed before the backward pass
        (policy_inputs, policy), (critic_inputs, value) = forward(policy_layers, x), forward(critic_layers, x)
        ctx.passes = (policy_layers, policy_inputs), (critic_layers, critic_inputs)  # no outputs: they would keep ctx alive
        return policy, value, None if log_std is None else log_std.clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, in_policy, in_value, in_log_std):
        gradient = torch.empty_like(ctx.saved_tensors[0])
        (policy_layers, policy_inputs), (critic_layers, critic_inputs) = ctx.passes
        policy_size, critic_size = (sum(leaf[0].numel() for leaf in layers) for layers, _ in ctx.passes)
        backward(policy_layers, policy_inputs, in_policy, gradient[:, :policy_size])
        if in_log_std is not None:
            gradient[:, policy_size:-critic_size] = in_log_std[:, 0]
        backward(critic_layers, critic_inputs, in_value, gradient[:, -critic_size:])
        return gradient, None, None, None, None


def forward(layers, x):
    """The inputs of all layers, and the output."""
    inputs = [x]
    for weight, bias in zip(layers[:-2:2], layers[1:-2:2], strict=True):
        inputs.append(tanh_(torch.baddbmm(bias, inputs[-1], weight)))
    return inputs, torch.baddbmm(layers[-1], inputs[-1], layers[-2])


def tangent(layers, inputs, direction):
    """J v: how fast the output changes as the weights move along `direction` (R, size), at the inputs that `forward` gave."""
    start, change = 0, None
    for i, x in enumerate(inputs):
        weight = layers[2 * i]
        end = start + weight.shape[1] * weight.shape[2]
        in_weight = direction[:, start:end].view(weight.shape)
        start = end + weight.shape[2]
        in_bias = direction[:, end:start][:, None]
        # d(x W + b) = dx W + x dW + db,  and through tanh: dx ← (1 − x²) dz
        in_z = torch.baddbmm(in_bias, x, in_weight)
        if change is not None:
            in_z = torch.baddbmm(in_z, change, weight)
        change = torch.ops.aten.tanh_backward(in_z, inputs[i + 1]) if i + 1 < len(inputs) else in_z
    return change


def backward(layers, inputs, error, gradient):
    """Jᵀ e: write the gradients of a network into `gradient` (R, size), given that of its output: `error` (R, B, out)."""
    end = gradient.shape[1]
    for i in range(len(inputs) - 1, -1, -1):
        weight, x = layers[2 * i], inputs[i]
        rows, columns = weight.shape[1:]
        start = end - (rows + 1) * columns
        # ∂/∂W = xᵀe,  ∂/∂b = Σ e,  and for the layer before: e ← (e Wᵀ)(1 − x²)
        torch.bmm(x.mT, error, out=gradient[:, start : end - columns].view(weight.shape))
        torch.sum(error, 1, out=gradient[:, end - columns : end])
        if i > 0:
            error = torch.ops.aten.tanh_backward(torch.bmm(error, weight.mT), x)
        end = start
