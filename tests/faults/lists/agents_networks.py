MODULE = "rlcourse.agents.networks"
TESTS = ["tests/agents/test_networks.py", "tests/agents/test_runs.py"]
FAULTS = [
    ("weights with the wrong gain", "return gain * (q", "return (q", "The first policy is far from uniform."),
    (
        "no tanh",
        "x = Tanh.apply(torch.baddbmm(bias, x, weight))",
        "x = torch.baddbmm(bias, x, weight)",
        "The networks are linear.",
    ),
    (
        "uniform weights too wide",
        "(inputs + 1) * outputs) / math.sqrt(inputs)",
        "(inputs + 1) * outputs)",
        "The first policy is far from uniform.",
    ),
    (
        "slope of tanh left out",
        "torch.ops.aten.tanh_backward(torch.bmm(error, weight.mT), x)",
        "torch.bmm(error, weight.mT)",
        "Gradients of the first layers are too large, most where units are saturated.",
    ),
    (
        "slope of the pre-activation",
        "return torch.ops.aten.tanh_backward(gradient, y)",
        "return gradient * (1 - y)",
        "Fisher products and critic steps are off.",
    ),
    ("sigmoid for tanh", "x.mul_(2).sigmoid_().mul_(2).sub_(1)", "x.sigmoid_()", "Hidden units are never negative."),
    (
        "weights transposed",
        "torch.bmm(x.mT, error, out=",
        "torch.bmm(error.mT, x, out=",
        "The gradient of square layers is transposed; learning stalls.",
    ),
    ("bias averaged over the batch", "torch.sum(error, 1, out=", "torch.mean(error, 1, out=", "Biases hardly learn."),
    (
        "log σ gets no gradient",
        "gradient[:, policy_size:-critic_size] = in_log_std[:, 0]",
        "gradient[:, policy_size:-critic_size] = 0",
        "The exploration noise never changes.",
    ),
    (
        "critic's gradient from the policy's error",
        "backward(critic_layers, critic_inputs, in_value,",
        "backward(critic_layers, critic_inputs, in_policy[..., :1],",
        "The critic does not learn.",
    ),
    (
        "change before the backward pass unnoticed",
        "ctx.save_for_backward(parameters)",
        "ctx.save_for_backward(parameters.clone())",
        "A step between forward and backward gives a mixed gradient, silently.",
    ),
    ("sign fix of QR left out", "q *= np.sign(np.diag(r))", "pass", "Initial weights are orthogonal, but not uniformly so."),
    (
        "tangent without what comes through the layers below",
        "if change is not None:",
        "if False:",
        "Fisher products see the last layer only.",
    ),
    (
        "tangent without the slope of tanh",
        "torch.ops.aten.tanh_backward(in_z, inputs[i + 1]) if",
        "in_z if",
        "TRPO's direction is off where units are saturated.",
    ),
    (
        "tangent without its bias",
        "torch.baddbmm(in_bias, x, in_weight)",
        "torch.baddbmm(0 * in_bias, x, in_weight)",
        "Biases hardly take part in TRPO's step.",
    ),
]
