"""What shows a symptom: trainings in the open, and numbers that can be checked against an independent answer.

Every measure takes a package (the healthy one, or a faulty copy of it) and gives one number per seed.
"""

import copy
import warnings
from dataclasses import dataclass
from functools import cache

import gymnasium
import numpy as np
import torch
from scipy import integrate, stats

import rlcourse
from rlcourse.worlds import probes
from rlcourse.worlds.lqr import LQR, LQREnv

SEEDS = range(10)


def shifted_pole():
    """CartPole in other units: observations times 20, and the angle's zero elsewhere."""
    space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    other = lambda obs: (20 * obs + [0, 0, 3, 0]).astype(np.float32)  # noqa: E731
    return gymnasium.wrappers.TransformObservation(gymnasium.make("CartPole-v1"), other, space)


def six_motors():
    """A linear-quadratic task with two state variables and six action dimensions."""
    rng, eye = np.random.default_rng(0), torch.eye(6, dtype=torch.float64)
    turn = 0.9 * np.linalg.qr(rng.standard_normal((2, 2)))[0]
    push = rng.standard_normal((2, 6)) / 6**0.5
    return LQREnv(LQR(torch.tensor(turn), torch.tensor(push), eye[:2, :2], 0.1 * eye, 0.9, eye[:2, :2]), 20)


WORLDS = {
    "constant reward": probes.ConstantReward,
    "constant reward, Box": lambda: probes.ConstantReward(continuous=True),
    "delayed reward": probes.DelayedReward,
    "CartPole in other units": shifted_pole,
    "six motors": six_motors,
}


@dataclass(frozen=True)
class Case:
    """A training that shows something.

    Args:
        algorithm: name of its class. env: a Gymnasium id, or a name in WORLDS. steps: per run.
        settings: pairs (field, value) that differ from `recommended`, or from the defaults where nothing is recommended.
    """

    algorithm: str
    env: str
    steps: int
    settings: tuple = ()

    def configure(self, package):
        """The algorithm's settings, of this package."""
        sweep = package.experiments.sweep
        return sweep.changed(sweep.base(self.algorithm, self.env), dict(self.settings))


_HEALTHY = {}  # (case, seeds) -> TrainingResult


def trained(case, package, algorithm, seeds):
    """TrainingResult of one run per seed; the healthy ones are kept, because many patients share one."""
    key = case, tuple(seeds)
    healthy = package is rlcourse and type(algorithm) is getattr(rlcourse, case.algorithm)
    if not healthy or key not in _HEALTHY:
        env = WORLDS.get(case.env, case.env)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*were quarantined")
            result = package.train(algorithm, env, total_steps=case.steps, seeds=list(seeds), progress=False)
        if not healthy:
            return result
        _HEALTHY[key] = result
    return _HEALTHY[key]


# ------------------------------------------------------------------------- measures of a training: (package, result, case)


def last_return(package, result, case):
    """Mean return of the last up to 100 episodes."""
    return result.history["mean_return"][:, -1]


def largest(name):
    """The largest value of a diagnostic."""
    return lambda package, result, case: result.history[name].max(1)


def late(name):
    """Mean of a diagnostic over the last quarter of the updates."""

    def measure(package, result, case):
        column = result.history[name]
        return column[:, -max(1, column.shape[1] // 4) :].mean(1)

    return measure


def first(name):
    """A diagnostic at the first update."""
    return lambda package, result, case: result.history[name][:, 0]


def above_limit(package, result, case):
    """Share of the updates whose KL is above max_kl."""
    return (result.history["kl"] > result.algorithm.max_kl * (1 + 1e-6)).mean(1)


def value_at(obs):
    """The critic's value of one observation."""

    def measure(package, result, case):
        question = torch.tensor([[obs]], dtype=torch.float32)
        return np.array([result.policy(run).value(question).item() for run in range(len(result.runs))])

    return measure


def updates_survived(package, result, case):
    """Updates until the run was quarantined, as a share of all it was meant to take."""
    batch = result.algorithm.num_envs * result.algorithm.num_steps
    return np.isfinite(result.history["grad_norm"]).sum(1) / -(-case.steps // batch)


def return_of_the_policy(package, result, case):
    """Mean return of 5 fresh episodes played by the policy that `result.policy` hands out."""
    env = WORLDS.get(case.env, case.env)
    runs = range(len(result.runs))
    return np.array([package.evaluate(result.policy(run), env, episodes=5, seed=1).mean() for run in runs])


# -------------------------------------------------------------------------------- measures without a training: (package, seeds)


def log_density_error(package, seeds):
    """Largest |log π(a) − SciPy's| over 20 random Gaussians in three dimensions."""

    def one(seed):
        mean, log_std, action = np.random.default_rng(seed).normal(0, 0.7, (3, 20, 3))
        ours = package.DiagonalGaussian(*map(torch.tensor, (mean, log_std))).log_prob(torch.tensor(action)).numpy()
        return np.abs(ours - stats.norm.logpdf(action, mean, np.exp(log_std)).sum(-1)).max()

    return np.array([one(seed) for seed in seeds])


def kl_error(package, seeds):
    """Largest relative error of KL(old ‖ new) over 20 random pairs of categoricals, against SciPy."""

    def one(seed):
        old, new = np.random.default_rng(seed).normal(0, 1, (2, 20, 4))
        ours = package.Categorical(torch.tensor(old)).kl(package.Categorical(torch.tensor(new))).numpy()
        p, q = (np.exp(x) / np.exp(x).sum(-1, keepdims=True) for x in (old, new))
        true = stats.entropy(p, q, axis=-1)
        return np.abs(ours / true - 1).max()

    return np.array([one(seed) for seed in seeds])


def distinct_starts(package, seeds):
    """How many of the first observations of eight environments differ from each other."""

    def one(seed):
        world = package.make_env("CartPole-v1", 8, seed=_agent(package, [seed]).env_seeds(8))
        starts = {tuple(obs) for obs in world.reset().tolist()}
        world.close()
        return float(len(starts))

    return np.array([one(seed) for seed in seeds])


def _agent(package, seeds, env="CartPole-v1"):
    """Untrained agents, one per seed."""
    with gymnasium.make(env) as made:
        size, space = made.observation_space.shape[0], made.action_space
    return package.agents.runs.Runs(size, space, (64, 64), list(seeds))


def untrained_batch(package, seeds, env="CartPole-v1"):
    """(untrained agents of one package, one per seed; the rollout of 8 environments and 128 steps that they have collected)."""
    agent = _agent(package, seeds, env)
    world = package.make_env(env, 8 * len(seeds), seed=agent.env_seeds(8))
    episodes = package.agents.rollout.Episodes(len(seeds), 8)
    rollout, _ = package.agents.rollout.collect(agent, world, world.reset(), 128, episodes)
    world.close()
    return agent, rollout


@cache
def _batch(seeds):
    """The same of the healthy package, with the flat batch."""
    agent, rollout = untrained_batch(rlcourse, seeds)
    advantage, target = rlcourse.gae(*rollout.for_gae(), 0.98, 0.95)
    return agent, rollout, rollout.flatten(advantage=advantage, value_target=target)


def ratio_at_first(package, seeds):
    """Largest |ρ − 1| in the first minibatch of an update."""
    agent, _, batch = _batch(tuple(seeds))
    with torch.no_grad():
        old = agent.policy(batch.obs).log_prob(batch.action)
        new = agent(batch.obs)[0].log_prob(batch.action)
    return (new - old).exp().sub(1).abs().amax(1).numpy()


def ratio_at_last(package, seeds):
    """Largest |ρ − 1| after all epochs of the same update."""
    agent, rollout, batch = _batch(tuple(seeds))
    agent = copy.deepcopy(agent)
    with torch.no_grad():
        old = agent.policy(batch.obs).log_prob(batch.action)
    agent.begin_update()
    rlcourse.recommended("PPO", "CartPole-v1").update(agent, rollout)
    with torch.no_grad():
        new = agent.policy(batch.obs).log_prob(batch.action)
    return (new - old).exp().sub(1).abs().amax(1).numpy()


def kl_gradient(package, seeds):
    """Norm of the gradient of D_KL(π_old ‖ π_θ) at θ_old."""
    agent, _, batch = _batch(tuple(seeds))
    new = agent.policy(batch.obs)
    gradient = torch.autograd.grad(new.detach().kl(new).mean(-1).sum(), agent.policy_parameters)
    return torch.cat([leaf.flatten(1) for leaf in gradient], 1).norm(dim=1).numpy()


def kl_curvature(package, seeds):
    """vᵀFv for a random direction v of length 1: the curvature of the same KL at the same point."""
    agent, _, batch = _batch(tuple(seeds))
    rows = [np.random.default_rng(seed).standard_normal(agent.num_policy_parameters) for seed in seeds]
    v = torch.tensor(np.array(rows), dtype=agent.dtype)
    v = v / v.norm(dim=1, keepdim=True)
    return (v * agent.fisher_vector_product(batch.obs)(v)).sum(1).numpy()


def gaussian_entropy(package, seeds):
    """Entropy, in nats, of a Gaussian whose σ lies between 0.05 and 0.2."""
    return np.array([package.DiagonalGaussian(torch.zeros(1), _log_std(seed)).entropy().item() for seed in seeds])


def mass_of_the_density(package, seeds):
    """Integral of exp(log π(a)) over all actions, by quadrature."""

    def one(seed):
        policy = package.DiagonalGaussian(torch.zeros(1, dtype=torch.float64), _log_std(seed).double())
        density = lambda a: policy.log_prob(torch.tensor([a], dtype=torch.float64)).exp().item()  # noqa: E731
        return integrate.quad(density, -3, 3, points=[0.0], limit=200)[0]

    return np.array([one(seed) for seed in seeds])


def _log_std(seed):
    return torch.tensor([np.log(np.random.default_rng(seed).uniform(0.05, 0.2))], dtype=torch.float32)


def _score_of_sigma(seeds, change):
    """Mean of ((a − μ)/σ)² − 1, the score of log σ, over 5,000 actions drawn at σ = 1.5 in the box ±2 and then changed."""

    def one(seed):
        action = change(np.random.default_rng(seed).normal(0, 1.5, 5000))
        return ((action / 1.5) ** 2 - 1).mean()

    return np.array([one(seed) for seed in seeds])


def score_as_stored(package, seeds):
    """Mean score of log σ for the actions as drawn: its expectation is 0."""
    return _score_of_sigma(seeds, lambda action: action)


def score_if_clipped(package, seeds):
    """The same for the actions as the report would store them."""
    return _score_of_sigma(seeds, lambda action: action.clip(-2, 2))


def return_gained(package, result, case):
    """Return at the end minus return at the beginning."""
    return result.history["mean_return"][:, -1] - result.history["mean_return"][:, 1]


def loss_gained(package, result, case):
    """Policy loss at the end minus policy loss at the beginning (means of five updates)."""
    loss = result.history["policy_loss"]
    return loss[:, -5:].mean(1) - loss[:, :5].mean(1)
