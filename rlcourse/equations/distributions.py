"""Distributions over actions: small classes, fast enough for the inner loop of training.

One number per sample comes out of `log_prob`, `entropy` and `kl`: the action dimensions are summed. Sampling is split in two:
standard noise from a generator, then a deterministic map from noise to action. An action is data: no gradient flows into it.
Shapes are checked; values are not (a NaN parameter gives a NaN result), because that would cost more than the formulas.
"""

import math

import numpy as np
import torch

from rlcourse.equations.arguments import check_tensors


class Categorical:
    """A choice among n actions.

        π(a) = exp(logits_a) / Σ_b exp(logits_b)

    Args:
        logits: (…, n) float tensor, unnormalised log-probabilities. −inf forbids an action; one per row must be finite.

    Raises:
        TypeError: logits is not a float tensor. ValueError: it has no actions.

    Reference: Sutton and Barto (2018), eq. 13.2; Cover and Thomas (2006), chapter 2 (entropy, KL).
    """

    def __init__(self, logits):
        _check_parameters(logits=logits)
        self.logits = logits
        # log π(a) = logits_a − log Σ_b exp(logits_b)
        self.log_probs = torch.log_softmax(logits, dim=-1)

    def detach(self):
        """The same distribution as a constant."""
        return Categorical(self.logits.detach())

    @property
    def probs(self):
        """(…, n) probabilities."""
        return self.log_probs.exp()

    @staticmethod
    def noise(generator, shape, dtype=torch.float32):
        """Standard Gumbel noise, −log E with E exponential.

        Args:
            generator: numpy.random.Generator (same numbers on every machine) or torch.Generator.
            shape: the shape of the logits. dtype: float dtype of the result.

        Returns:
            Tensor of that shape; always finite.
        """
        if _is_numpy(generator):
            exponential = torch.as_tensor(generator.standard_exponential(tuple(shape)))
        else:
            exponential = torch.empty(tuple(shape), dtype=dtype).exponential_(generator=generator)
        return -exponential.clamp_(min=torch.finfo(dtype).tiny).log_().to(dtype)

    def from_noise(self, noise):
        """The action that this noise selects: argmax_a (logits_a + noise_a), a sample of π when the noise is Gumbel.

        Args:
            noise: (…, n), the shape of the logits.

        Returns:
            (…) int64 actions.

        Reference: Maddison, Tarlow and Minka (2014), the Gumbel-max trick.
        """
        check_tensors(logits=self.logits, noise=noise)
        # a = argmax_a (logits_a + g_a)
        return (self.logits.detach() + noise).argmax(-1)

    def sample(self, generator):
        """(…) int64 actions, one per row of logits."""
        return self.from_noise(self.noise(generator, self.logits.shape, self.logits.dtype))

    def mode(self):
        """(…) int64, the most probable action (the first of several)."""
        return self.logits.argmax(-1)

    def log_prob(self, action):
        """log π(action).

        Args:
            action: (…) integers in 0 … n−1, one per row of logits.

        Returns:
            (…) float.

        Raises:
            TypeError: action is not an integer tensor. ValueError: wrong shape (for example (N, 1)), or outside 0 … n−1.
        """
        if not isinstance(action, torch.Tensor) or action.dtype.is_floating_point or action.dtype == torch.bool:
            raise TypeError(
                f"action must be a tensor of integers, not {_kind(action)}. Convert it: torch.as_tensor(action).long()."
            )
        if action.shape != self.logits.shape[:-1]:
            raise ValueError(
                f"action must have one number per row of logits {tuple(self.logits.shape[:-1])}, but is {tuple(action.shape)}."
            )
        try:
            return self.log_probs.gather(-1, action.long().unsqueeze(-1)).squeeze(-1)
        except (RuntimeError, IndexError) as error:
            n = self.logits.shape[-1]
            raise ValueError(f"action must lie in 0 … {n - 1}, but goes from {action.min()} to {action.max()}.") from error

    def entropy(self):
        """H(π) = −Σ_a π(a) log π(a), in nats, shape (…); an action of probability 0 adds 0."""
        p = self.probs
        # H = −Σ_a π(a) log π(a)
        return (p * -_zero_where_impossible(self.log_probs, p)).sum(-1)

    def kl(self, other):
        """KL(self ‖ other) = Σ_a π(a) (log π(a) − log π_other(a)), in nats, shape (…).

        An action of probability 0 under self adds 0; one that is possible here and impossible there makes it infinite.

        Raises:
            TypeError: other is no Categorical. ValueError: the shapes differ.
        """
        _check_other(self, other)
        check_tensors(logits=self.logits, other_logits=other.logits)
        p = self.probs
        # KL = Σ_a π(a) (log π(a) − log π_other(a))
        return (p * _zero_where_impossible(self.log_probs - other.log_probs, p)).sum(-1)


class DiagonalGaussian:
    """Independent normal distributions, one per action dimension; no bounds.

        a_i = mean_i + exp(log_std_i) ε_i,   ε_i ~ N(0, 1)

    Args:
        mean: (…, A) float tensor, in units of the action.
        log_std: (…, A), natural log of the standard deviation. Same shape as mean: a log_std shared by all samples is
            given as log_std.expand_as(mean). Keep it bounded (say −20 … 2): below −87 a float32 σ underflows to 0.

    Raises:
        TypeError: not float tensors. ValueError: the shapes differ.

    Reference: Sutton and Barto (2018), eq. 13.19; Cover and Thomas (2006), theorem 8.4.1 (entropy).
    """

    def __init__(self, mean, log_std):
        _check_parameters(mean=mean, log_std=log_std)
        if log_std.shape != mean.shape:
            raise ValueError(
                f"mean and log_std must have the same shape, but mean is {tuple(mean.shape)} and log_std is "
                f"{tuple(log_std.shape)}. A log_std shared by all samples: log_std.expand_as(mean)."
            )
        self.mean = mean
        self.log_std = log_std

    def detach(self):
        """The same distribution as a constant."""
        return DiagonalGaussian(self.mean.detach(), self.log_std.detach())

    @staticmethod
    def noise(generator, shape, dtype=torch.float32):
        """Standard normal noise.

        Args:
            generator: numpy.random.Generator (same numbers on every machine) or torch.Generator.
            shape: the shape of the mean. dtype: float dtype of the result.

        Returns:
            Tensor of that shape.
        """
        if _is_numpy(generator):
            return torch.as_tensor(generator.standard_normal(tuple(shape))).to(dtype)
        return torch.randn(tuple(shape), generator=generator, dtype=dtype)

    def from_noise(self, noise):
        """The action that this noise selects: mean + exp(log_std) · noise.

        Args:
            noise: (…, A), the shape of the mean.

        Returns:
            (…, A) actions, as data: no gradient flows into them.
        """
        check_tensors(mean=self.mean, noise=noise)
        # a_i = mean_i + exp(log_std_i) ε_i
        return (self.mean + self.log_std.exp() * noise).detach()

    def sample(self, generator):
        """(…, A) actions, one per row of mean."""
        return self.from_noise(self.noise(generator, self.mean.shape, self.mean.dtype))

    def mode(self):
        """(…, A), the densest action: the mean, as data."""
        return self.mean.detach()

    def log_prob(self, action):
        """Log-density of an action, summed over its A dimensions.

            log π(a) = −½ Σ_i [((a_i − mean_i) / std_i)² + 2 log_std_i + log 2π]

        Args:
            action: (…, A), the shape of the mean.

        Returns:
            (…) float.

        Raises:
            ValueError: the shapes differ.
        """
        check_tensors(mean=self.mean, action=action)
        z = (action - self.mean) * (-self.log_std).exp()
        # log π(a) = −½ Σ_i [z_i² + 2 log_std_i + log 2π]
        return -0.5 * (z.square() + 2 * self.log_std + math.log(2 * math.pi)).sum(-1)

    def entropy(self):
        """H = Σ_i (log_std_i + ½ log 2πe), in nats, shape (…); independent of the mean, negative for small std."""
        # H = Σ_i (log_std_i + ½ log 2πe)
        return (self.log_std + 0.5 * math.log(2 * math.pi * math.e)).sum(-1)

    def kl(self, other):
        """KL(self ‖ other), in nats, summed over the action dimensions, shape (…).

            Σ_i [log_std'_i − log_std_i + (std_i² + (mean_i − mean'_i)²) / (2 std'_i²) − ½]        ' marks other

        It is computed as ½ Σ_i [e^{2d_i} − 1 − 2d_i + z_i²], d = log_std − log_std', z = (mean − mean') / std', which is the
        same number and exactly 0 for equal distributions.

        Raises:
            TypeError: other is no DiagonalGaussian. ValueError: the shapes differ.
        """
        _check_other(self, other)
        check_tensors(mean=self.mean, other_mean=other.mean)
        d = self.log_std - other.log_std
        z = (self.mean - other.mean) * (-other.log_std).exp()
        # KL = ½ Σ_i [e^{2d_i} − 1 − 2 d_i + z_i²]
        return 0.5 * (torch.expm1(2 * d) - 2 * d + z.square()).sum(-1)


class SquashedGaussian:
    """A Gaussian pressed between bounds by tanh.

        a_i = low_i + (high_i − low_i) (tanh(u_i) + 1) / 2,   u_i = mean_i + exp(log_std_i) ε_i,   ε_i ~ N(0, 1)

    Args:
        mean, log_std: (…, A) float tensors, of u (no units); same shape. log_std: as for DiagonalGaussian.
        low, high: bounds of the action, in its units: numbers, or (A,). Finite, low < high.

    Attributes:
        base: the DiagonalGaussian of u.

    In θ, log π(a|s) and log N(u|s) differ by a constant: ratios, score functions and KL are those of `base`.

    Raises:
        TypeError: not float tensors. ValueError: shapes differ, or the bounds are not finite and in order.

    Reference: Haarnoja et al. (2018), appendix C, for bounds −1 … 1.
    """

    def __init__(self, mean, log_std, low, high):
        self.base = DiagonalGaussian(mean, log_std)
        self.low, self.high = (torch.as_tensor(bound, dtype=mean.dtype) for bound in (low, high))
        if not (torch.isfinite(self.low) & torch.isfinite(self.high) & (self.low < self.high)).all():
            raise ValueError(f"low = {low} and high = {high} must be finite, with low < high in every action dimension.")
        for name, bound in (("low", self.low), ("high", self.high)):
            if bound.shape not in (torch.Size([]), mean.shape[-1:]):
                raise ValueError(f"{name} has shape {tuple(bound.shape)}: give one number, or one per action dimension.")

    def detach(self):
        """The same distribution as a constant."""
        return SquashedGaussian(self.base.mean.detach(), self.base.log_std.detach(), self.low, self.high)

    noise = staticmethod(DiagonalGaussian.noise)

    def squash(self, pre_tanh):
        """The action that belongs to u: low + (high − low) (tanh(u) + 1) / 2, shape (…, A)."""
        return self.low + (self.high - self.low) * (torch.tanh(pre_tanh) + 1) / 2

    def from_noise(self, noise):
        """(…, A) actions that this standard normal noise selects, as data."""
        return self.squash(self.base.from_noise(noise))

    def sample(self, generator):
        """(…, A) actions, one per row of mean."""
        return self.squash(self.base.sample(generator))

    def mode(self):
        """(…, A), the squashed mean, as data. It is the median; for σ above 1/√2 the density may have two peaks elsewhere."""
        return self.squash(self.base.mode())

    def log_prob(self, action=None, *, pre_tanh=None):
        """Log-density of an action, summed over its A dimensions.

            log π(a) = log N(u) − Σ_i [2 (log 2 − u_i − softplus(−2u_i)) + log((high_i − low_i) / 2)]

        The bracket is log(da/du); log(1 − tanh²u), the same number, is −∞ from |u| ≈ 10 (float32) or 20 (float64) on.

        Args:
            action: (…, A), strictly between the bounds; or
            pre_tanh: (…, A), u itself: exact also where the action is rounded to a bound. Give one of the two.

        Returns:
            (…) float.

        Raises:
            TypeError: both or none are given. ValueError: the shapes differ, or an action is not between the bounds.
        """
        if (action is None) == (pre_tanh is None):
            raise TypeError("log_prob needs the action or pre_tanh=, one of the two.")
        if pre_tanh is None:
            check_tensors(mean=self.base.mean, action=action)
            position = (2 * action - self.high - self.low) / (self.high - self.low)
            if not (position.abs() < 1).all():
                raise ValueError(
                    f"action must lie strictly between {self.low.tolist()} and {self.high.tolist()}, but goes from "
                    f"{action.min().item()} to {action.max().item()}. If tanh was rounded to a bound, keep u and give pre_tanh=u."
                )
            pre_tanh = torch.atanh(position)
        # log π(a) = log N(u) − Σ_i log(da_i/du_i)
        return self.base.log_prob(pre_tanh) - (_log_tanh_slope(pre_tanh) + self._log_half_width()).sum(-1)

    def _log_half_width(self):
        """(A,) log((high − low) / 2)."""
        return ((self.high - self.low) / 2).log().expand(self.base.mean.shape[-1])

    def entropy(self):
        """H(a) = H(u) + Σ_i E[log(da_i/du_i)], in nats, shape (…). There is no closed form.

        The expectation is a trapezoid sum over 129 points of ε in −8 … 8, whose error is below 1e-6 for σ ≤ 4.
        """
        z = torch.linspace(-8, 8, 129, dtype=self.base.mean.dtype)
        weight = torch.softmax(-0.5 * z.square(), 0)
        u = self.base.mean[..., None] + self.base.log_std.exp()[..., None] * z
        # H(a) = H(u) + Σ_i [Σ_k w_k log(da_i/du_i) at u = mean_i + σ_i z_k]
        return self.base.entropy() + ((weight * _log_tanh_slope(u)).sum(-1) + self._log_half_width()).sum(-1)

    def kl(self, other):
        """KL(self ‖ other), in nats, shape (…): that of the Gaussians, since both are pressed by the same map.

        Raises:
            TypeError: other is no SquashedGaussian. ValueError: the shapes or the bounds differ.
        """
        _check_other(self, other)
        size = self.base.mean.shape[-1:]
        if not all(torch.equal(getattr(self, end).expand(size), getattr(other, end).expand(size)) for end in ("low", "high")):
            raise ValueError("kl needs equal bounds: with others there are actions that only one of the two can take.")
        return self.base.kl(other.base)


def _log_tanh_slope(u):
    # log(d tanh(u)/du) = 2 (log 2 − u − softplus(−2u)). Above its threshold (20, if not said) softplus x is x: wrong by e⁻²⁰.
    return 2 * (math.log(2) - u - torch.nn.functional.softplus(-2 * u, threshold=40))


def _zero_where_impossible(term, probs):
    # 0 · log 0 = 0: the limit of p log p. Filled before the product, so that gradients stay finite too.
    return term.masked_fill(probs == 0, 0.0)


def _is_numpy(generator):
    """True for a NumPy generator, False for torch's; anything else, None too, would mean global random numbers: TypeError."""
    if not isinstance(generator, np.random.Generator | torch.Generator):
        kind = type(generator).__name__
        raise TypeError(f"generator must be a numpy.random.Generator, such as np.random.default_rng(0), or torch's, not {kind}.")
    return isinstance(generator, np.random.Generator)


def _check_parameters(**parameters):
    for name, data in parameters.items():
        if not (isinstance(data, torch.Tensor) and data.dtype.is_floating_point):
            raise TypeError(f"{name} must be a torch tensor of floats, not {_kind(data)}.")
        if data.ndim == 0 or data.shape[-1] == 0:
            raise ValueError(f"{name} has shape {tuple(data.shape)}: the last axis must hold at least one action number.")


def _check_other(mine, other):
    if type(other) is not type(mine):
        raise TypeError(f"kl compares a {type(mine).__name__} with another one, not with {type(other).__name__}.")


def _kind(data):
    return data.dtype if isinstance(data, torch.Tensor) else type(data).__name__
