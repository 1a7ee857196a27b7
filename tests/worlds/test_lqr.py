"""The linear-quadratic regulator: by hand, by SciPy, by sums over time, by finite differences, by quadrature, by sampling."""

import math

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from scipy import linalg, stats

from rlcourse.worlds.lqr import LQR, LQREnv, point_mass
from rlcourse.worlds.make_env import make_env
from rlcourse.worlds.tabular import finite_difference_gradient


def random_world(seed, S=3, D=2, gamma=0.9, noise=True):
    """A world with nothing symmetric that need not be, and a stable gain and log_std for it."""
    rng = np.random.default_rng(seed)

    def covariance(n, rank=None):
        root = rng.normal(size=(n, rank or n))
        return root @ root.T + (0.0 if rank else 0.1) * np.eye(n)

    A = rng.normal(size=(S, S))
    A *= rng.uniform(0.6, 1.3) / np.abs(np.linalg.eigvals(A)).max()
    world = LQR(A, rng.normal(size=(S, D)), covariance(S, 2), covariance(D), gamma, covariance(S, 1),
                0.1 * covariance(S, 1) if noise else None)  # fmt: skip
    gain = world.optimal_gain() + 0.1 * torch.from_numpy(rng.normal(size=(D, S)))
    return world, gain, torch.from_numpy(rng.normal(-0.5, 0.4, D))


def scalar(gamma=0.5, **change):
    """s' = 2 s + a, cost s^2 + a^2, start variance 1, noise variance 1/4."""
    parts = {"A": [[2.0]], "B": [[1.0]], "Q": [[1.0]], "R": [[1.0]], "gamma": gamma, "start_cov": [[1.0]], "noise_cov": [[0.25]]}
    return LQR(**parts | change)


WORLDS = [
    random_world(seed, S, D, gamma) for seed, S, D, gamma in [(0, 3, 2, 0.9), (1, 2, 1, 0.95), (2, 4, 2, 0.8), (3, 1, 3, 0.5)]
]


def numpy(*tensors):
    return [tensor.detach().numpy() for tensor in tensors]


def sum_over_time(world, gain, log_std, steps=1500):
    """J with no Lyapunov equation at all: the covariance of s_t, one step after another."""
    variance = (2 * log_std).exp()
    moving, covariance, total = world.A - world.B @ gain, world.start_cov, 0.0
    for t in range(steps):
        cost = ((world.Q + gain.T @ world.R @ gain) * covariance).sum() + (world.R.diag() * variance).sum()
        total = total - world.gamma**t * cost
        covariance = moving @ covariance @ moving.T + world.noise_cov + (world.B * variance) @ world.B.T
    return total


# ---------------------------------------------------------------- by hand


def test_worked_by_hand():
    """K = 2 stops the state at once: M = 0, so P = 1 + 4 and s_{t>0} is pure noise of variance 1/4 + sigma^2."""
    world, gain, log_std = scalar(), torch.tensor([[2.0]]), torch.tensor([math.log(0.5)])
    variance, noise = 0.25, 0.5
    cost = (variance + 0.5 * 5 * noise) / 0.5
    assert world.value_matrix(gain).item() == pytest.approx(5)
    assert world.noise_cost(gain, log_std).item() == pytest.approx(cost)
    assert world.expected_return(gain, log_std).item() == pytest.approx(-5 - cost)
    assert world.state_covariance(gain, log_std).item() == pytest.approx(1 + noise)  # 1 + sum_{t>=1} noise / 2^t
    assert world.values(gain, log_std, [3.0]).item() == pytest.approx(-45 - cost)
    # a = -5 in s = 3 leads to s' = 1 + noise of the world
    assert world.q_values(gain, log_std, [3.0], [-5.0]).item() == pytest.approx(-9 - 25 - 0.5 * (5 + 5 * 0.25 + cost))
    in_gain, in_log_std = world.policy_gradient(gain, log_std)
    curvature = 1 + 0.5 * 5
    assert in_gain.item() == pytest.approx(-2 * (curvature * 2 - 0.5 * 5 * 2) * 1.5)
    assert in_log_std.item() == pytest.approx(-2 * variance * curvature / 0.5)


def test_without_a_future_the_best_action_is_none():
    world = scalar(gamma=0.0)
    assert world.optimal_gain().item() == 0
    assert world.expected_return([[3.0]], [0.0]).item() == pytest.approx(-1 - 9 - 1)
    assert world.expected_return([[100.0]], [0.0]).item() == pytest.approx(-1 - 1e4 - 1)  # nothing is unstable in one step


def test_exploration_moves_the_state():
    """Leaving B diag(sigma^2) B^T out of the covariance would miss most of it here."""
    world = scalar(noise_cov=None, start_cov=[[1e-3]])
    with_noise, without = (world.state_covariance([[1.5]], [log_std]).item() for log_std in (0.0, -20.0))
    assert with_noise > 100 * without


# ---------------------------------------------------------------- SciPy, and sums over time


@pytest.mark.parametrize("world, gain, log_std", WORLDS)
def test_lyapunov_equations_as_scipy_solves_them(world, gain, log_std):
    A, B, Q, R, W, start, K, log_sigma = numpy(
        world.A, world.B, world.Q, world.R, world.noise_cov, world.start_cov, gain, log_std
    )
    g, M, explore = world.gamma, A - B @ K, np.diag(np.exp(2 * log_sigma))
    noise = W + B @ explore @ B.T
    P = linalg.solve_discrete_lyapunov(math.sqrt(g) * M.T, Q + K.T @ R @ K)
    X = linalg.solve_discrete_lyapunov(math.sqrt(g) * M, start + g / (1 - g) * noise)
    np.testing.assert_allclose(world.value_matrix(gain), P, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(world.state_covariance(gain, log_std), X, rtol=1e-9, atol=1e-11)
    dual = np.sum((Q + K.T @ R @ K) * X) + np.sum(R * explore) / (1 - g)
    assert world.expected_return(gain, log_std).item() == pytest.approx(-dual, rel=1e-10)


@pytest.mark.parametrize("world, gain, log_std", WORLDS)
def test_return_is_the_sum_over_time(world, gain, log_std):
    assert world.expected_return(gain, log_std).item() == pytest.approx(sum_over_time(world, gain, log_std).item(), rel=1e-10)


@pytest.mark.parametrize("world, gain, log_std", WORLDS)
def test_gradient_by_autograd_through_the_sum_over_time(world, gain, log_std):
    theta = gain.clone().requires_grad_(), log_std.clone().requires_grad_()
    expected = torch.autograd.grad(sum_over_time(world, *theta), theta)
    for ours, theirs in zip(world.policy_gradient(gain, log_std), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("world, gain, log_std", WORLDS)
def test_gradient_by_finite_differences_and_by_autograd(world, gain, log_std):
    parts = (lambda K: world.expected_return(K, log_std), gain), (lambda x: world.expected_return(gain, x), log_std)
    for (J, theta), ours in zip(parts, world.policy_gradient(gain, log_std), strict=True):
        torch.testing.assert_close(finite_difference_gradient(J, theta), ours, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(torch.autograd.functional.jacobian(J, theta), ours, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("world, gain, log_std", WORLDS)
def test_best_gain(world, gain, log_std):
    """SciPy's Riccati solver; policy iteration from another gain; the gradient; every neighbour is worse."""
    best = world.optimal_gain()
    root = math.sqrt(world.gamma)
    A, B, Q, R = numpy(root * world.A, root * world.B, world.Q, world.R)
    P = linalg.solve_discrete_are(A, B, Q, R)
    np.testing.assert_allclose(best, np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(world.value_matrix(best), P, rtol=1e-8, atol=1e-10)
    improved = gain.numpy()
    for _ in range(30):
        P = linalg.solve_discrete_lyapunov((A - B @ improved).T, Q + improved.T @ R @ improved)
        improved = np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
    np.testing.assert_allclose(best, improved, rtol=1e-8, atol=1e-10)
    assert world.policy_gradient(best, log_std)[0].abs().max() < 1e-8
    rng = np.random.default_rng(0)
    near = best + 1e-3 * torch.from_numpy(rng.normal(size=(50, *best.shape)))
    assert (world.expected_return(near, log_std) < world.expected_return(best, log_std)).all()


# ---------------------------------------------------------------- Bellman


def root_of(covariance):
    left, size, _ = np.linalg.svd(covariance.numpy())
    return torch.from_numpy(left * np.sqrt(size))


def expectation(f, world, gain, log_std, state):
    """E[f(s, a)] for a ~ pi(. | s) by Gauss-Hermite quadrature, exact for quadratic f."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(3)
    D = world.action_size
    grid = torch.from_numpy(np.stack(np.meshgrid(*[nodes] * D, indexing="ij"), -1).reshape(-1, D))
    weight = torch.from_numpy(np.prod(np.meshgrid(*[weights] * D, indexing="ij"), 0).ravel())
    actions = -gain @ state + log_std.exp() * grid
    return weight @ f(gain, log_std, state.expand(len(actions), -1), actions) / weight.sum()


@pytest.mark.parametrize("world, gain, log_std", WORLDS)
def test_bellman(world, gain, log_std):
    """V = E_a[Q], E_a[A] = 0, A = Q - V, and Q = r + gamma E[V(s')] with the noise of the world by quadrature."""
    rng = np.random.default_rng(5)
    states = torch.from_numpy(rng.normal(size=(6, world.state_size)))
    for state in states:
        value = world.values(gain, log_std, state)
        actions = torch.from_numpy(rng.normal(size=(7, world.action_size)))
        many = state.expand(7, -1)
        q_value = world.q_values(gain, log_std, many, actions)
        torch.testing.assert_close(world.advantages(gain, log_std, many, actions), q_value - value, rtol=1e-9, atol=1e-9)
        mean_q = expectation(world.q_values, world, gain, log_std, state)
        mean_a = expectation(world.advantages, world, gain, log_std, state)
        torch.testing.assert_close(mean_q, value, rtol=1e-10, atol=1e-10)
        assert abs(mean_a) < 1e-9 * (1 + abs(value))
        # E[V(s')]: plus and minus each column of a root of the noise, scaled, has the noise's mean and covariance
        S = world.state_size
        root = root_of(world.noise_cov) * math.sqrt(S)
        for action, q in zip(actions, q_value, strict=True):
            ahead = world.A @ state + world.B @ action + torch.cat([root.T, -root.T])
            reward = -(state @ world.Q @ state + action @ world.R @ action)
            expected = reward + world.gamma * world.values(gain, log_std, ahead).mean()
            torch.testing.assert_close(q, expected, rtol=1e-9, atol=1e-9)


def test_expected_return_is_the_mean_value_of_the_start():
    world, gain, log_std = WORLDS[0]
    root = root_of(world.start_cov) * math.sqrt(3)
    starts = torch.cat([root.T, -root.T])
    expected = world.values(gain, log_std, starts).mean()
    torch.testing.assert_close(world.expected_return(gain, log_std), expected, rtol=1e-9, atol=1e-9)


# ---------------------------------------------------------------- many policies at once, and derivatives


def test_many_policies_at_once_are_each_as_if_alone():
    world, gain, log_std = WORLDS[0]
    gains = gain + 0.01 * torch.arange(5.0, dtype=torch.float64)[:, None, None]
    stds = log_std + 0.1 * torch.arange(5.0, dtype=torch.float64)[:, None]
    for method in (world.expected_return, world.noise_cost, world.state_covariance):
        alone = torch.stack([method(K, x) for K, x in zip(gains, stds, strict=True)])
        torch.testing.assert_close(method(gains, stds), alone)
    both = zip(*[world.policy_gradient(K, x) for K, x in zip(gains, stds, strict=True)], strict=True)
    for ours, alone in zip(world.policy_gradient(gains, stds), both, strict=True):
        torch.testing.assert_close(ours, torch.stack(alone))
    assert world.state_covariance(gain, stds).shape == (5, 3, 3)


# ---------------------------------------------------------------- sampling


@pytest.mark.parametrize("world, gain, log_std", WORLDS[:2])
def test_simulated_returns(world, gain, log_std):
    """Mean return of 20,000 episodes, tail added by V: within 4 standard errors; the same for gamma^t s s^T."""
    steps = 60
    played = world.simulate(gain, log_std, 20_000, steps, np.random.default_rng(11))
    assert played.state.shape == (steps, 20_000, world.state_size) and played.action.shape[-1] == world.action_size
    assert torch.equal(played.state[1:], played.next_state[:-1])
    returns = played.returns(world.gamma) + world.gamma**steps * world.values(gain, log_std, played.next_state[-1])
    error = returns.std() / math.sqrt(20_000)
    assert abs(returns.mean() - world.expected_return(gain, log_std)) < 4 * error
    assert error < 0.03 * abs(returns.mean())
    discount = world.gamma ** torch.arange(steps, dtype=torch.float64)
    outer = torch.einsum("t,tni,tnj->nij", discount, played.state, played.state)
    missing = world.gamma**steps * played.state[-1].T @ played.state[-1] / 20_000 / (1 - world.gamma)
    bound = 4 * outer.std(0) / math.sqrt(20_000) + 2 * missing.abs().max()
    assert ((outer.mean(0) - world.state_covariance(gain, log_std)).abs() < bound).all()


def test_simulated_start_action_and_step_have_the_right_moments():
    world, gain, log_std = random_world(7, 3, 2)
    n = 200_000
    played = world.simulate(gain, log_std, n, 2, np.random.default_rng(3))
    start, action, after = played.state[0], played.action[0], played.next_state[0]
    residual = action + start @ gain.T
    noise = after - start @ world.A.T - action @ world.B.T
    parts = [(start, world.start_cov), (residual, torch.diag((2 * log_std).exp())), (noise, world.noise_cov)]
    for sample, covariance in parts:
        scale = covariance.diagonal().max().item()
        torch.testing.assert_close(sample.T @ sample / n, covariance, rtol=0, atol=0.02 * scale)
        assert sample.mean(0).abs().max() < 5 * math.sqrt(scale / n)
    assert (residual.T @ start / n).abs().max() < 0.02  # exploration knows nothing of the state
    reward = -((start @ world.Q) * start).sum(-1) - ((action @ world.R) * action).sum(-1)
    torch.testing.assert_close(played.reward[0], reward)


def test_sampled_policy_gradient():
    """The score-function estimate with exact advantages against the exact gradient: one joint chi-squared test."""
    world, gain, log_std = random_world(4, 2, 2, gamma=0.8)
    n, steps = 40_000, 80  # 0.8^80 is 2e-8
    played = world.simulate(gain, log_std, n, steps, np.random.default_rng(0))
    deviation = played.action + played.state @ gain.T
    variance = (2 * log_std).exp()
    weight = world.gamma ** torch.arange(steps, dtype=torch.float64)[:, None]
    weight = weight * world.advantages(gain, log_std, played.state, played.action)
    in_gain = torch.einsum("tn,tna,tns->nas", weight, -deviation / variance, played.state).flatten(1)
    in_log_std = torch.einsum("tn,tna->na", weight, deviation**2 / variance - 1)
    sample = torch.cat([in_gain, in_log_std], 1)
    exact = torch.cat([part.flatten() for part in world.policy_gradient(gain, log_std)])
    difference = sample.mean(0) - exact
    statistic = n * difference @ torch.linalg.solve(torch.cov(sample.T), difference)
    assert stats.chi2.sf(statistic.item(), len(exact)) > 1e-3
    assert (difference.abs() < 0.1 * exact.abs().max()).all()  # sharp enough to tell the gradient from zero


def test_pathwise_gradient():
    """Autograd through the simulator has the exact gradient as its mean."""
    world, gain, log_std = random_world(4, 2, 2, gamma=0.8)
    batches = []
    for seed in range(40):
        theta = gain.clone().requires_grad_(), log_std.clone().requires_grad_()
        returns = world.simulate(*theta, 500, 60, np.random.default_rng(seed)).returns(world.gamma)
        batches.append(torch.cat([part.flatten() for part in torch.autograd.grad(returns.mean(), theta)]))
    batches = torch.stack(batches)
    exact = torch.cat([part.flatten() for part in world.policy_gradient(gain, log_std)])
    assert ((batches.mean(0) - exact).abs() < 4.5 * batches.std(0) / math.sqrt(40)).all()


# ---------------------------------------------------------------- the environment


@pytest.mark.filterwarnings("ignore")
def test_gymnasium_accepts_the_environment():
    check_env(LQREnv(point_mass(), horizon=5))


def test_environment_plays_the_world():
    """The same start, noise, next states and rewards as the equations, and a truncation at the horizon."""
    world, gain, _ = random_world(8, 3, 2)
    env = LQREnv(world, horizon=4)
    obs, _ = env.reset(seed=5)
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(5)))
    A, B, Q, R, W, start = numpy(world.A, world.B, world.Q, world.R, world.noise_cov, world.start_cov)
    for t in range(1, 5):
        action = rng.normal(size=2)
        after, reward, terminated, truncated, _ = env.step(action)
        assert reward == pytest.approx(-(obs @ Q @ obs + action @ R @ action), rel=1e-12)
        assert not terminated and truncated == (t == 4)
        assert np.abs(after - A @ obs - B @ action).max() < 5 * math.sqrt(W.diagonal().max())
        obs = after
    starts, noises = [], []
    for _ in range(5000):
        obs, _ = env.reset()
        starts.append(obs)
        for _ in range(4):
            after = env.step(np.zeros(2))[0]
            noises.append(after - A @ obs)
            obs = after
    for sample, covariance in ((np.array(starts), start), (np.array(noises), W)):
        np.testing.assert_allclose(sample.T @ sample / len(sample), covariance, atol=0.06 * covariance.diagonal().max())
    steps = np.array(noises).reshape(5000, 4, 3)
    crossed = np.einsum("nti,ntj->ij", steps[:, :-1], steps[:, 1:]) / 15_000  # a step's noise knows nothing of the last one's
    assert np.abs(crossed).max() < 0.06 * W.diagonal().max()


@pytest.mark.parametrize("batched", [True, False])
def test_environment_in_a_vector(batched):
    world = point_mass()
    envs = make_env(lambda: LQREnv(world, horizon=3), 5, seed=1, batched=batched)
    assert envs.batched == batched
    obs = envs.reset()
    assert obs.shape == (5, 2) and obs.dtype == np.float64 and envs.name == "LQREnv"
    for t in range(1, 7):
        before, action = obs, np.full((5, 1), 30.0)  # far outside any usual bound: nothing is clipped
        obs, reward, terminated, truncated, next_obs = envs.step(action)
        np.testing.assert_allclose(reward, -(before[:, 0] ** 2 + 0.1 * before[:, 1] ** 2 + 0.1 * 900))
        assert (truncated == (t % 3 == 0)).all() and not terminated.any()
        assert (next_obs[:, 1] > before[:, 1] + 5).all()


def test_twin_equals_a_loop_over_environments():
    world, _, _ = random_world(8, 3, 2)
    rng, seeds = np.random.default_rng(0), [3, 1, 4]
    envs = make_env(lambda: LQREnv(world, horizon=7), 3, seed=seeds)
    loop = [LQREnv(world, horizon=7) for _ in seeds]
    np.testing.assert_allclose(envs.reset(), [env.reset(seed=seed)[0] for env, seed in zip(loop, seeds, strict=True)], rtol=1e-12)
    for _ in range(30):
        action = rng.normal(size=(3, 2))
        obs, reward, terminated, truncated, next_obs = envs.step(action)
        seen, paid, dead, late, _ = (list(part) for part in zip(*map(LQREnv.step, loop, action), strict=True))
        np.testing.assert_allclose(next_obs, seen, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(reward, paid, rtol=1e-11)
        assert (terminated == dead).all() and (truncated == late).all()
        seen = [env.reset()[0] if end else new for env, end, new in zip(loop, late, seen, strict=True)]
        np.testing.assert_allclose(obs, seen, rtol=1e-11, atol=1e-12)


def test_a_wrapper_is_not_bypassed():
    class Half(gymnasium.ObservationWrapper):
        def observation(self, obs):
            return obs / 2

    envs = [make_env(make, 3, seed=2) for make in (lambda: LQREnv(point_mass()), lambda: Half(LQREnv(point_mass())))]
    assert not envs[1].batched
    np.testing.assert_allclose(envs[1].reset(), envs[0].reset() / 2)


def test_point_mass_is_what_it_says():
    world = point_mass()
    np.testing.assert_allclose(world.A @ torch.tensor([1.0, 3.0]).double() + world.B[:, 0] * 5, [1 + 0.6 + 0.1, 3 + 1])
    assert isinstance(LQREnv(world), gymnasium.Env)


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "change, message",
    [
        ({"A": [[1.0, 0.0]]}, r"A must have shape \(1, 1\) to fit B of shape \(1, 1\), got \(1, 2\)"),
        ({"A": 1.0}, "one number is a matrix too"),
        ({"B": [[math.nan]]}, "B holds a value that is not finite"),
        ({"Q": [[-1.0]]}, "Q must have eigenvalues >= 0, its lowest is -1"),
        ({"R": [[0.0]]}, "R must have eigenvalues > 0, its lowest is 0"),
        ({"start_cov": [[-0.1]]}, "start_cov must have eigenvalues >= 0"),
        ({"noise_cov": [[-0.1]]}, "noise_cov must have eigenvalues >= 0"),
        ({"gamma": 1.0}, r"gamma must lie in \[0, 1\), got 1.0"),
        ({"gamma": -0.1}, r"gamma must lie in \[0, 1\), got -0.1"),
        ({"gamma": math.nan}, r"gamma must lie in \[0, 1\), got nan"),
    ],
)
def test_impossible_worlds_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        scalar(**change)


def test_other_impossible_worlds():
    with pytest.raises(TypeError, match="gamma must be a number"):
        scalar(gamma="0.9")
    for name in ("A", "noise_cov"):
        with pytest.raises(TypeError, match=f"{name} = 'x'; expected a matrix of numbers"):
            one = np.eye(1)
            LQR(**{"A": one, "noise_cov": one, name: "x"}, B=one, Q=one, R=one, gamma=0.9, start_cov=one)
    with pytest.raises(ValueError, match=r"Q must be symmetric, .*\(Q \+ Q.T\) / 2"):
        LQR(np.eye(2), np.eye(2), [[1.0, 0.5], [0.0, 1.0]], np.eye(2), 0.9, np.eye(2))
    with pytest.raises(ValueError, match="no convergence .* B reaches too little"):
        scalar(A=[[3.0]], B=[[0.0]]).optimal_gain()


def test_an_unstable_gain_is_refused_with_its_radius_and_the_way_out():
    world = scalar()  # M = 2 - K, limit sqrt(2)
    world.expected_return([[0.59]], [0.0])
    world.expected_return([[3.41]], [0.0])
    for gain, radius in ((0.5, "1.5"), (3.5, "1.5"), (-1.0, "3")):
        for method in (world.expected_return, world.state_covariance, world.policy_gradient):
            with pytest.raises(ValueError, match=rf"radius of A - B K is {radius}, .*\[0, 1.41421\).*optimal_gain\(\)"):
                method([[gain]], [0.0])
    with pytest.raises(ValueError, match="unstable"):
        world.value_matrix(torch.tensor([[[2.0]], [[0.1]]]))  # one of many


def test_wrong_shapes_are_refused():
    world, gain, log_std = WORLDS[0]
    state, action = torch.zeros(4, 3), torch.zeros(4, 2)
    with pytest.raises(ValueError, match=r"gain must have shape \(..., D, S\) with \(D, S\) = \(2, 3\), got \(3, 2\)"):
        world.value_matrix(gain.T)
    with pytest.raises(ValueError, match=r"log_std must have shape \(..., 2\), got \(3,\)"):
        world.expected_return(gain, torch.zeros(3))
    with pytest.raises(ValueError, match="gain holds a value that is not finite"):
        world.expected_return(gain * math.nan, log_std)
    with pytest.raises(ValueError, match="log_std holds a value that is not finite"):
        world.expected_return(gain, log_std * math.inf)
    with pytest.raises(ValueError, match=r"state must have shape \(..., 3\), got \(4, 2\)"):
        world.values(gain, log_std, action)
    with pytest.raises(ValueError, match=r"action must have shape \(..., 2\), got \(4, 3\)"):
        world.q_values(gain, log_std, state, state)
    for method in (world.q_values, world.advantages):
        with pytest.raises(ValueError, match=r"every action needs its state: shapes \(4, 3\) and \(4, 1, 2\) differ"):
            method(gain, log_std, state, action[:, None])
    for call in (lambda K: world.values(K, log_std, state), lambda K: world.advantages(K, log_std, state, action)):
        with pytest.raises(ValueError, match="one policy at a time"):
            call(gain.expand(4, 2, 3))
    with pytest.raises(ValueError, match="num_episodes and num_steps must be at least 1, got 0 and 5"):
        world.simulate(gain, log_std, 0, 5, np.random.default_rng(0))
    with pytest.raises(ValueError, match="horizon must be at least 1, got 0"):
        LQREnv(world, horizon=0)
