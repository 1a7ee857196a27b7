"""Distributions: numbers by hand, identities, torch.distributions, SciPy and quadrature as independent engines, sampling laws."""

import math

import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats
import torch

from rlcourse.equations.distributions import Categorical, DiagonalGaussian, SquashedGaussian

INF = math.inf


def tensor(numbers, **how):
    return torch.tensor(numbers, dtype=torch.float64, **how)


def random_tensor(seed, *shape, scale=1.0):
    return scale * torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def random_gaussian(seed, *shape):
    return DiagonalGaussian(random_tensor(seed, *shape), random_tensor(seed + 100, *shape, scale=0.5))


# ------------------------------------------------------------------------------------------------------ by hand


def test_categorical_by_hand():
    quarter = Categorical(tensor([[5.0, 5.0 + math.log(3)]]))  # probabilities 1/4 and 3/4
    half = Categorical(tensor([[0.0, 0.0]]))
    assert quarter.probs.tolist()[0] == pytest.approx([0.25, 0.75], abs=1e-15)
    assert quarter.log_prob(torch.tensor([1])).item() == pytest.approx(math.log(0.75), abs=1e-15)
    assert quarter.entropy().item() == pytest.approx(0.25 * math.log(4) + 0.75 * math.log(4 / 3), abs=1e-15)
    assert quarter.kl(half).item() == pytest.approx(0.25 * math.log(0.5) + 0.75 * math.log(1.5), abs=1e-15)
    assert half.kl(quarter).item() == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3), abs=1e-15)
    assert quarter.mode().tolist() == [1]


def test_gaussian_by_hand():
    narrow = DiagonalGaussian(tensor([[1.0, -2.0]]), tensor([[0.0, math.log(2)]]))
    wide = DiagonalGaussian(tensor([[1.0, 2.0]]), tensor([[0.0, math.log(4)]]))
    # z = (1, 2): −½(1 + 4) − ln 2 − ln 2π
    assert narrow.log_prob(tensor([[2.0, 2.0]])).item() == pytest.approx(-2.5 - math.log(2) - math.log(2 * math.pi), abs=1e-14)
    assert narrow.entropy().item() == pytest.approx(math.log(2) + math.log(2 * math.pi * math.e), abs=1e-14)
    # only the second dimension differs: ln(4/2) + (4 + 16) / 32 − ½
    assert narrow.kl(wide).item() == pytest.approx(math.log(2) + 20 / 32 - 0.5, abs=1e-14)
    # ln(2/4) + (16 + 16) / 8 − ½
    assert wide.kl(narrow).item() == pytest.approx(-math.log(2) + 4 - 0.5, abs=1e-14)
    assert narrow.mode().tolist() == [[1.0, -2.0]]


def test_actions_from_known_noise():
    logits = tensor([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]])
    noise = tensor([[0.0, 0.0, 0.0], [3.0, 0.5, 0.5]])
    actions = Categorical(logits).from_noise(noise)
    assert actions.tolist() == [2, 0] and actions.dtype == torch.int64
    gaussian = DiagonalGaussian(tensor([[1.0, 2.0]]), tensor([[0.0, math.log(3)]]))
    assert gaussian.from_noise(tensor([[-1.0, 2.0]])).tolist()[0] == pytest.approx([0.0, 8.0])


# --------------------------------------------------------------------------------------------------- identities


def test_probabilities_sum_to_one_and_ignore_a_shift_of_the_logits():
    logits = random_tensor(0, 3, 4, 5)
    one, other = Categorical(logits), Categorical(logits + 700)
    torch.testing.assert_close(one.probs.sum(-1), torch.ones(3, 4, dtype=torch.float64))
    torch.testing.assert_close(one.probs, other.probs)
    torch.testing.assert_close(one.entropy(), other.entropy())
    torch.testing.assert_close(one.kl(other), torch.zeros(3, 4, dtype=torch.float64), atol=1e-12, rtol=0)


def test_entropy_is_the_distance_from_uniform():
    some, uniform = Categorical(random_tensor(1, 50, 6)), Categorical(torch.zeros(50, 6, dtype=torch.float64))
    torch.testing.assert_close(some.entropy(), math.log(6) - some.kl(uniform))


@pytest.mark.parametrize(
    "make", [lambda seed: Categorical(random_tensor(seed, 200, 4)), lambda seed: random_gaussian(seed, 200, 3)]
)
def test_kl_is_zero_only_between_equals(make):
    assert (make(0).kl(make(1)) > 1e-6).all()
    torch.testing.assert_close(make(0).kl(make(0)), torch.zeros(200, dtype=torch.float64), atol=1e-15, rtol=0)


def test_kl_of_nearby_gaussians_keeps_its_digits():
    """Two means 10⁻⁷ standard deviations apart: KL = ½ · 10⁻¹⁴, far below what 1 − 1 would leave over."""
    zero = tensor([[0.0]])
    got = DiagonalGaussian(zero, zero).kl(DiagonalGaussian(zero + 1e-7, zero)).item()
    assert got == pytest.approx(0.5e-14, rel=1e-12)


def test_action_dimensions_add_up():
    one, other, action = random_gaussian(0, 20, 3), random_gaussian(1, 20, 3), random_tensor(2, 20, 3)

    def columns(policy):
        return [DiagonalGaussian(policy.mean[:, [i]], policy.log_std[:, [i]]) for i in range(3)]

    ones, others = columns(one), columns(other)
    torch.testing.assert_close(one.log_prob(action), sum(ones[i].log_prob(action[:, [i]]) for i in range(3)))
    torch.testing.assert_close(one.entropy(), sum(ones[i].entropy() for i in range(3)))
    torch.testing.assert_close(one.kl(other), sum(ones[i].kl(others[i]) for i in range(3)))


def test_the_score_has_mean_zero():
    """Σ_a π(a) ∇log π(a) = 0, the identity behind every baseline."""
    logits = random_tensor(2, 5).requires_grad_()
    policy = Categorical(logits)
    (policy.probs.detach() * policy.log_probs).sum().backward()
    torch.testing.assert_close(logits.grad, torch.zeros(5, dtype=torch.float64), atol=1e-15, rtol=0)


def test_the_hessian_of_kl_is_the_fisher_matrix():
    logits = random_tensor(3, 4)
    old = Categorical(logits)
    hessian = torch.autograd.functional.hessian(lambda new: old.kl(Categorical(new)), logits)
    p = old.probs
    torch.testing.assert_close(hessian, torch.diag(p) - torch.outer(p, p))


# ------------------------------------------------------------------------------------------- independent engines


@pytest.mark.parametrize("shape", [(4,), (7, 3), (2, 5, 6)])
def test_categorical_agrees_with_torch_and_scipy(shape):
    logits, others = random_tensor(0, *shape, scale=3.0), random_tensor(1, *shape, scale=3.0)
    ours, other = Categorical(logits), Categorical(others)
    peer, other_peer = torch.distributions.Categorical(logits=logits), torch.distributions.Categorical(logits=others)
    action = torch.from_numpy(np.random.default_rng(2).integers(0, shape[-1], shape[:-1]))
    assert ours.log_prob(action).shape == ours.entropy().shape == ours.kl(other).shape == shape[:-1]
    torch.testing.assert_close(ours.log_prob(action), peer.log_prob(action))
    torch.testing.assert_close(ours.entropy(), peer.entropy())
    torch.testing.assert_close(ours.kl(other), torch.distributions.kl_divergence(peer, other_peer))
    torch.testing.assert_close(ours.mode(), peer.mode)
    p, q = scipy.special.softmax(logits.numpy(), -1), scipy.special.softmax(others.numpy(), -1)
    np.testing.assert_allclose(ours.entropy(), scipy.stats.entropy(p, axis=-1), atol=1e-13)
    np.testing.assert_allclose(ours.kl(other), scipy.stats.entropy(p, q, axis=-1), atol=1e-13)


@pytest.mark.parametrize("shape", [(1,), (7, 3), (2, 5, 4)])
def test_gaussian_agrees_with_torch_and_scipy(shape):
    ours, other, action = random_gaussian(0, *shape), random_gaussian(1, *shape), random_tensor(2, *shape)

    def peer(gaussian):
        return torch.distributions.Independent(torch.distributions.Normal(gaussian.mean, gaussian.log_std.exp()), 1)

    assert ours.log_prob(action).shape == ours.entropy().shape == ours.kl(other).shape == shape[:-1]
    torch.testing.assert_close(ours.log_prob(action), peer(ours).log_prob(action))
    torch.testing.assert_close(ours.entropy(), peer(ours).entropy())
    torch.testing.assert_close(ours.kl(other), torch.distributions.kl_divergence(peer(ours), peer(other)))
    density = scipy.stats.norm(ours.mean, ours.log_std.exp())
    np.testing.assert_allclose(ours.log_prob(action), density.logpdf(action).sum(-1), atol=1e-12)
    np.testing.assert_allclose(ours.entropy(), density.entropy().sum(-1), atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_gaussian_formulas_by_quadrature(seed):
    one, other = random_gaussian(seed, 1), random_gaussian(seed + 50, 1)

    def integral(function):
        reach, centre = 12 * one.log_std.exp().item(), one.mean.item()
        return scipy.integrate.quad(lambda a: function(tensor([a])), centre - reach, centre + reach, epsabs=1e-12, limit=200)[0]

    def density(a):
        return one.log_prob(a).exp().item()

    assert integral(density) == pytest.approx(1, abs=1e-10)
    assert integral(lambda a: -density(a) * one.log_prob(a).item()) == pytest.approx(one.entropy().item(), abs=1e-9)
    difference = integral(lambda a: density(a) * (one.log_prob(a) - other.log_prob(a)).item())
    assert difference == pytest.approx(one.kl(other).item(), abs=1e-9)


@pytest.mark.parametrize("derivatives", [torch.autograd.gradcheck, torch.autograd.gradgradcheck])
def test_gradients_by_finite_differences(derivatives):
    action, box_action = torch.tensor([0, 2, 1]), random_tensor(9, 3, 2)
    logits, other_logits = (random_tensor(seed, 3, 4).requires_grad_() for seed in (0, 1))
    mean, log_std, other_mean, other_log_std = (random_tensor(seed, 3, 2).requires_grad_() for seed in range(2, 6))
    assert derivatives(lambda x: Categorical(x).log_prob(action), logits)
    assert derivatives(lambda x: Categorical(x).entropy(), logits)
    assert derivatives(lambda x, y: Categorical(x).kl(Categorical(y)), (logits, other_logits))
    assert derivatives(lambda m, s: DiagonalGaussian(m, s).log_prob(box_action), (mean, log_std))
    if derivatives is torch.autograd.gradcheck:  # its second derivative is 0 and has no graph
        assert derivatives(lambda m, s: DiagonalGaussian(m, s).entropy(), (mean.detach(), log_std))
    both = (mean, log_std, other_mean, other_log_std)
    assert derivatives(lambda m, s, n, u: DiagonalGaussian(m, s).kl(DiagonalGaussian(n, u)), both)


# ------------------------------------------------------------------------------------------------------- sampling


def generators():
    return [np.random.default_rng(0), torch.Generator().manual_seed(0)]


@pytest.mark.parametrize("generator", generators(), ids=["numpy", "torch"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_categorical_samples_follow_the_probabilities(generator, dtype):
    logits = torch.tensor([[0.0, 1.0, -1.0, 2.0, -INF], [3.0, 3.0, 3.0, 3.0, 3.0]], dtype=dtype)
    n = 50_000
    actions = Categorical(logits.expand(n, 2, 5)).sample(generator)
    assert actions.shape == (n, 2)
    for row in range(2):
        counts = torch.bincount(actions[:, row], minlength=5).numpy()
        expected = n * scipy.special.softmax(logits[row].double().numpy())
        possible = expected > 0
        assert counts[~possible].sum() == 0
        assert scipy.stats.chisquare(counts[possible], expected[possible]).pvalue > 1e-5
    table = scipy.stats.contingency.crosstab(*actions.T.numpy()).count  # the two rows are independent of each other
    assert scipy.stats.chi2_contingency(table).pvalue > 1e-5


@pytest.mark.parametrize("generator", generators(), ids=["numpy", "torch"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gaussian_samples_follow_the_density(generator, dtype):
    mean, log_std = torch.tensor([3.0, -1.0], dtype=dtype), torch.tensor([-1.0, 1.0], dtype=dtype)
    n = 20_000
    actions = DiagonalGaussian(mean.expand(n, 2), log_std.expand(n, 2)).sample(generator)
    assert actions.shape == (n, 2) and actions.dtype == dtype
    for i in range(2):
        assert scipy.stats.kstest(actions[:, i].double().numpy(), "norm", (mean[i].item(), math.exp(log_std[i]))).pvalue > 1e-5
    assert abs(np.corrcoef(actions.T.double().numpy())[0, 1]) < 4 / math.sqrt(n)


@pytest.mark.parametrize("kind", [Categorical, DiagonalGaussian])
def test_entropy_and_kl_are_the_means_over_samples(kind):
    """Monte Carlo within four standard errors."""
    n, parameters = 40_000, {Categorical: 1, DiagonalGaussian: 2}[kind]
    one, other = (kind(*(random_tensor(seed + i, 4).expand(n, 4) for i in range(parameters))) for seed in (0, 10))
    actions = one.sample(np.random.default_rng(0))
    surprise, log_ratio = -one.log_prob(actions), one.log_prob(actions) - other.log_prob(actions)
    for samples, exact in [(surprise, one.entropy()[0]), (log_ratio, one.kl(other)[0])]:
        assert abs(samples.mean() - exact) < 4 * samples.std() / math.sqrt(n)


@pytest.mark.parametrize("kind", [Categorical, DiagonalGaussian])
def test_noise_is_reproducible_and_the_same_in_both_precisions(kind):
    first, second = (kind.noise(np.random.default_rng(7), (4, 3), torch.float64) for _ in range(2))
    assert torch.equal(first, second)
    single = kind.noise(np.random.default_rng(7), (4, 3), torch.float32)
    assert single.dtype == torch.float32 and torch.equal(single, first.float())
    one, two = (kind.noise(torch.Generator().manual_seed(7), (4, 3), torch.float64) for _ in range(2))
    assert torch.equal(one, two) and one.dtype == torch.float64
    generator = np.random.default_rng(7)
    assert not torch.equal(kind.noise(generator, (4, 3)), kind.noise(generator, (4, 3)))


def test_sampling_is_noise_and_then_a_map():
    categorical, gaussian = Categorical(random_tensor(0, 6, 3)), random_gaussian(0, 6, 3)
    for policy in (categorical, gaussian):
        noise = policy.noise(np.random.default_rng(3), (6, 3), torch.float64)
        assert torch.equal(policy.sample(np.random.default_rng(3)), policy.from_noise(noise))


def test_gumbel_noise_is_always_finite():
    class Zero(np.random.Generator):
        def standard_exponential(self, size):
            return np.zeros(size)  # the smallest draw there is

    zero = Zero(np.random.PCG64(0))
    for dtype in (torch.float32, torch.float64):
        assert torch.isfinite(Categorical.noise(zero, (3,), dtype)).all()
    forbidden = Categorical(torch.tensor([[-INF, 0.0, -INF]]))
    assert forbidden.sample(zero).tolist() == [1]


def test_an_action_is_data():
    """An action with a gradient would make log π(a) of a Gaussian independent of its mean: a zero policy gradient."""
    mean = random_tensor(0, 4, 2).requires_grad_()
    policy = DiagonalGaussian(mean, torch.zeros_like(mean))
    noise = random_tensor(1, 4, 2)
    for action in (policy.from_noise(noise), policy.sample(np.random.default_rng(0)), policy.mode()):
        assert not action.requires_grad
    policy.log_prob(policy.from_noise(noise)).sum().backward()
    torch.testing.assert_close(mean.grad, noise)  # (a − mean) / std²


# ------------------------------------------------------------------------------------------------- hard numbers


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("logit", [-1000.0, -1e30, -INF])
def test_impossible_actions_leave_everything_finite(dtype, logit):
    logits = torch.tensor([[0.0, logit, 0.0], [logit, logit, 5.0]], dtype=dtype, requires_grad=True)
    other = torch.tensor([[1.0, logit, 0.0], [0.0, logit, 5.0]], dtype=dtype, requires_grad=True)
    policy = Categorical(logits)
    assert policy.entropy().tolist() == pytest.approx([math.log(2), 0.0], abs=1e-6)
    assert torch.isfinite(policy.kl(Categorical(other))).all()
    assert policy.kl(policy).tolist() == [0.0, 0.0]
    (policy.entropy() + policy.kl(Categorical(other)) + policy.log_prob(torch.tensor([0, 2]))).sum().backward()
    assert torch.isfinite(logits.grad).all() and torch.isfinite(other.grad).all()


def test_kl_is_infinite_where_the_other_forbids_a_possible_action():
    assert Categorical(tensor([0.0, 0.0])).kl(Categorical(tensor([0.0, -INF]))).item() == INF
    assert Categorical(tensor([0.0, -INF])).kl(Categorical(tensor([0.0, 0.0]))).item() == pytest.approx(math.log(2))


def test_large_logits_and_far_actions_stay_finite():
    far = Categorical(torch.tensor([[1e30, 0.0, -1e30]], requires_grad=True))
    assert far.log_prob(torch.tensor([0])).item() == 0 and far.entropy().item() == 0
    gaussian = DiagonalGaussian(torch.zeros(1, 2), torch.tensor([[-20.0, 2.0]]))
    assert torch.isfinite(gaussian.log_prob(torch.tensor([[1e3, -1e3]]))).all()


def test_one_action_only():
    only = Categorical(tensor([[3.0], [-7.0]]))
    assert only.entropy().tolist() == [0.0, 0.0] and only.sample(np.random.default_rng(0)).tolist() == [0, 0]


# ------------------------------------------------------------------------------------------------------ bad input


def test_parameters_that_do_not_fit_are_refused():
    for wrong in (torch.zeros(2, 3, dtype=torch.int64), np.zeros((2, 3)), [0.0, 0.0]):
        with pytest.raises(TypeError, match="logits must be a torch tensor of floats"):
            Categorical(wrong)
        with pytest.raises(TypeError, match="log_std must be a torch tensor of floats"):
            DiagonalGaussian(torch.zeros(2, 3), wrong)
    for empty in (torch.tensor(1.0), torch.zeros(4, 0)):
        with pytest.raises(ValueError, match="at least one action number"):
            Categorical(empty)
    with pytest.raises(ValueError, match=r"mean is \(4, 2\) and log_std is \(2,\).*expand_as"):
        DiagonalGaussian(torch.zeros(4, 2), torch.zeros(2))


def test_actions_that_do_not_fit_are_refused():
    policy = Categorical(torch.zeros(4, 3))
    with pytest.raises(ValueError, match=r"one number per row of logits \(4,\), but is \(4, 1\)"):
        policy.log_prob(torch.zeros(4, 1, dtype=torch.int64))
    for wrong, kind in [(torch.zeros(4), "torch.float32"), (torch.ones(4).bool(), "torch.bool"), (np.zeros(4, int), "ndarray")]:
        with pytest.raises(TypeError, match=f"action must be a tensor of integers, not {kind}"):
            policy.log_prob(wrong)
    for wrong in ([0, 1, 2, 3], [0, 1, -1, 2]):
        with pytest.raises(ValueError, match=f"action must lie in 0 … 2, but goes from {min(wrong)} to {max(wrong)}"):
            policy.log_prob(torch.tensor(wrong))
    assert policy.log_prob(torch.tensor([0, 1, 2, 0], dtype=torch.int32)).shape == (4,)
    gaussian = DiagonalGaussian(torch.zeros(4, 1), torch.zeros(4, 1))
    with pytest.raises(ValueError, match=r"mean is \(4, 1\) and action is \(4,\)"):
        gaussian.log_prob(torch.zeros(4))
    with pytest.raises(ValueError, match=r"mean is \(4, 1\) and noise is \(4,\)"):
        gaussian.from_noise(torch.zeros(4))
    with pytest.raises(ValueError, match=r"logits is \(4, 3\) and noise is \(4,\)"):
        policy.from_noise(torch.zeros(4))


def test_kl_needs_two_of_a_kind():
    categorical, gaussian = Categorical(torch.zeros(4, 2)), DiagonalGaussian(torch.zeros(4, 2), torch.zeros(4, 2))
    for one, other in [(categorical, gaussian), (gaussian, categorical)]:
        with pytest.raises(
            TypeError, match=f"kl compares a {type(one).__name__} with another one, not with {type(other).__name__}"
        ):
            one.kl(other)
    with pytest.raises(ValueError, match=r"logits is \(4, 2\) and other_logits is \(1, 2\)"):
        categorical.kl(Categorical(torch.zeros(1, 2)))
    with pytest.raises(ValueError, match=r"mean is \(4, 2\) and other_mean is \(4, 1\)"):
        gaussian.kl(DiagonalGaussian(torch.zeros(4, 1), torch.zeros(4, 1)))


@pytest.mark.parametrize("generator", [None, 0, np.random, np.random.RandomState(0)])
def test_random_numbers_come_from_a_generator_only(generator):
    for policy in (Categorical(torch.zeros(2, 3)), DiagonalGaussian(torch.zeros(2, 3), torch.zeros(2, 3))):
        with pytest.raises(TypeError, match=r"generator must be .*default_rng\(0\)"):
            policy.sample(generator)


# ------------------------------------------------------------------------------------------------------ squashed Gaussian


def squashed(mean, std, low=-1.0, high=1.0):
    return SquashedGaussian(tensor([[mean]]), tensor([[math.log(std)]]), low, high)


def density(policy):
    return lambda a: policy.log_prob(tensor([[a]])).exp().item()


@pytest.mark.parametrize(("mean", "std", "low", "high"), [(0.0, 1.0, -1.0, 1.0), (0.7, 0.3, -2.0, 2.0), (-1.0, 1.5, 3.0, 3.5)])
def test_the_squashed_density_integrates_to_one_and_gives_the_entropy(mean, std, low, high):
    policy = squashed(mean, std, low, high)
    inner = np.nextafter(low, high), np.nextafter(high, low)
    total, _ = scipy.integrate.quad(density(policy), *inner, epsabs=1e-10, epsrel=1e-10, limit=400)
    assert total == pytest.approx(1, abs=1e-6)
    plogp = lambda a: scipy.special.entr(density(policy)(a))  # noqa: E731
    entropy, _ = scipy.integrate.quad(plogp, *inner, epsabs=1e-9, epsrel=1e-9, limit=400)
    assert policy.entropy().item() == pytest.approx(entropy, abs=1e-6)


@pytest.mark.parametrize("std", [1e-3, 0.1, 1.0, 4.0])
@pytest.mark.parametrize("mean", [0.0, 1.0, -5.0])
def test_the_squashed_entropy_by_another_quadrature(mean, std):
    """H(a) = H(u) + E[log(1 − tanh²u)] with SciPy's adaptive rule; log(1 − tanh²u) = −2 log cosh u."""
    log_cosh = lambda u: abs(u) + math.log1p(math.exp(-2 * abs(u))) - math.log(2)  # noqa: E731
    integrand = lambda z: scipy.stats.norm.pdf(z) * -2 * log_cosh(mean + std * z)  # noqa: E731
    correction = sum(scipy.integrate.quad(integrand, a, a + 1, epsabs=1e-12)[0] for a in range(-12, 12))
    expected = scipy.stats.norm(mean, std).entropy() + correction + math.log(1.5)
    assert squashed(mean, std, -1.0, 2.0).entropy().item() == pytest.approx(expected, abs=1e-6)


def test_squashed_log_prob_is_that_of_torch():
    mean, log_std = random_tensor(0, 6, 3), random_tensor(1, 6, 3, scale=0.5)
    low, high = tensor([-1.0, 0.0, 2.0]), tensor([1.0, 10.0, 2.5])
    transforms = [torch.distributions.TanhTransform(), torch.distributions.AffineTransform((low + high) / 2, (high - low) / 2)]
    theirs = torch.distributions.TransformedDistribution(torch.distributions.Normal(mean, log_std.exp()), transforms)
    ours = SquashedGaussian(mean, log_std, low, high)
    noise = random_tensor(2, 6, 3)
    action = ours.from_noise(noise)
    assert ((low < action) & (action < high)).all()
    expected = theirs.log_prob(action).sum(-1)
    torch.testing.assert_close(ours.log_prob(action), expected, atol=1e-9, rtol=1e-9)
    u = mean + log_std.exp() * noise
    torch.testing.assert_close(ours.log_prob(pre_tanh=u), expected, atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(action, low + (high - low) * (torch.tanh(u) + 1) / 2)


@pytest.mark.parametrize("u", [0.0, 1e-6, 1.0, 9.9, 10.1, 15.0, 19.9, 20.1, 50.0])
def test_the_density_of_a_squashed_action_has_all_its_digits_and_its_symmetry(u):
    """log(1 − tanh²u) = −2 log cosh u = 2 (log 2 − |u| − log(1 + e^(−2|u|)))."""
    expected = 2 * (math.log(2) - u - math.log1p(math.exp(-2 * u)))
    for sign in (1.0, -1.0):
        policy = SquashedGaussian(tensor([[sign * u]]), tensor([[0.0]]), -1.0, 1.0)
        slope = -0.5 * math.log(2 * math.pi) - policy.log_prob(pre_tanh=tensor([[sign * u]])).item()
        assert slope == pytest.approx(expected, rel=1e-14, abs=1e-14)


def test_squashing_changes_neither_scores_nor_kl():
    """∇ log π(a) is ∇ log N(u), and KL is the Gaussians' (by quadrature over actions)."""
    mean, log_std = tensor([[0.3]], requires_grad=True), tensor([[-0.5]], requires_grad=True)
    policy, other, u = SquashedGaussian(mean, log_std, -2.0, 2.0), squashed(-0.2, 0.9, -2.0, 2.0), tensor([[1.2]])
    ours = torch.autograd.grad(policy.log_prob(pre_tanh=u).sum(), [mean, log_std])
    base = torch.autograd.grad(DiagonalGaussian(mean, log_std).log_prob(u).sum(), [mean, log_std])
    assert torch.equal(torch.stack(ours), torch.stack(base))
    policy = policy.detach()
    integrand = lambda a: density(policy)(a) * (policy.log_prob(tensor([[a]])) - other.log_prob(tensor([[a]]))).item()  # noqa: E731
    kl, _ = scipy.integrate.quad(integrand, -1.999999, 1.999999, epsabs=1e-9, limit=400)
    assert policy.kl(other).item() == pytest.approx(kl, abs=1e-6)


def test_squashed_samples_follow_the_density():
    policy = SquashedGaussian(torch.full((40_000, 1), 0.5), torch.zeros(40_000, 1), 0.0, 4.0)
    actions = policy.sample(np.random.default_rng(0))[:, 0].numpy()
    cdf = lambda a: scipy.stats.norm.cdf(np.arctanh(np.clip(a / 2 - 1, -1, 1)) - 0.5)  # noqa: E731
    assert scipy.stats.kstest(actions, cdf).pvalue > 1e-3
    assert policy.mode()[0].item() == pytest.approx(2 + 2 * math.tanh(0.5))
    assert np.median(actions) == pytest.approx(policy.mode()[0].item(), abs=0.05)


def test_an_action_on_the_bound_needs_its_pre_tanh():
    policy = SquashedGaussian(torch.tensor([[19.0]]), torch.tensor([[0.0]]), -1.0, 1.0)
    u = torch.tensor([[20.0]])
    with pytest.raises(ValueError, match=r"strictly between -1.0 and 1.0, but goes from 1.0 to 1.0.*pre_tanh=u"):
        policy.log_prob(policy.squash(u))
    expected = -0.5 - 0.5 * math.log(2 * math.pi) + 40 - 2 * math.log(2)  # log(1 − tanh²u) = 2 log 2 − 2u for large u
    assert policy.log_prob(pre_tanh=u).item() == pytest.approx(expected, abs=1e-4)
    with pytest.raises(TypeError, match="one of the two"):
        policy.log_prob()
    with pytest.raises(TypeError, match="one of the two"):
        policy.log_prob(u, pre_tanh=u)


def test_what_the_squashed_gaussian_refuses():
    good = tensor([[0.0, 0.0]])
    for low, high in ((1.0, -1.0), (0.0, 0.0), (-INF, 1.0), (tensor([0.0, 2.0]), 1.0)):
        with pytest.raises(ValueError, match="must be finite, with low < high"):
            SquashedGaussian(good, good, low, high)
    with pytest.raises(ValueError, match=r"high has shape \(3,\)"):
        SquashedGaussian(good, good, 0.0, tensor([1.0, 1.0, 1.0]))
    policy = SquashedGaussian(good, good, -1.0, 1.0)
    with pytest.raises(ValueError, match=r"action is \(1, 1\)"):
        policy.log_prob(tensor([[0.0]]))
    with pytest.raises(ValueError, match="equal bounds"):
        policy.kl(SquashedGaussian(good, good, -1.0, 2.0))
    with pytest.raises(TypeError, match="kl compares"):
        policy.kl(DiagonalGaussian(good, good))
