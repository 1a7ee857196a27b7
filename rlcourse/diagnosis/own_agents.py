"""How `diagnose` examines an algorithm of this package: its functions become hooks, its updates are recorded and compared.

Everything is taken from the package in which the algorithm lives; that may be another copy of this one, with a fault in it.
The known answers are computed here, with NumPy and finite differences; nothing of `rlcourse.equations` is used for them.
"""

import dataclasses
import importlib
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
from gymnasium import spaces

from rlcourse.diagnosis.examination import EXACT, HINT, LIKELY, Refusal, blame, examination, listed, same, show
from rlcourse.diagnosis.white_box import Hooks, advantages_by_sums, estimates_match, tensor
from rlcourse.worlds import probes

DISCRETE, BOX = spaces.Discrete(3), spaces.Box(-1.0, 1.0, (2,), np.float32)


def package_of(algorithm):
    """Name of the package whose Algorithm this is, or None for anything else."""
    for base in type(algorithm).__mro__:
        root, _, rest = base.__module__.partition(".")
        if base.__name__ == "Algorithm" and rest == "agents.algorithm":
            return root
    return None


class OwnAgent:
    """An algorithm and the modules of its package.

    Args:
        algorithm: an instance of a subclass of that package's Algorithm, without lists of settings.
    """

    def __init__(self, algorithm):
        self.root, self.algorithm = package_of(algorithm), algorithm
        if algorithm.num_settings > 1:
            raise ValueError(f"diagnose examines one setting, but {algorithm} has lists of {algorithm.num_settings} settings.")

    def module(self, name):
        return importlib.import_module(f"{self.root}.{name}")

    def with_settings(self, **settings):
        """The algorithm with these settings, as far as it has them."""
        names = {field.name for field in dataclasses.fields(self.algorithm)}
        return dataclasses.replace(self.algorithm, **{name: value for name, value in settings.items() if name in names})

    # ------------------------------------------------------------------------------------------ as a program to be trained

    def many(self, env_fn, seeds, steps):
        """Policies trained with settings that suit probes: small networks, short rollouts, large steps."""
        discrete = isinstance(env_fn().action_space, spaces.Discrete)
        head = {"std": "free", "bounds": "clip"} if discrete else {}
        algorithm = self.with_settings(
            num_envs=8, num_steps=16, hidden_sizes=(16,), gamma=0.8, reward_scale=1.0, normalize_reward=False,
            initial_log_std=0.0, learning_rate=0.01 if hasattr(self.algorithm, "clip_epsilon") else 0.02,
            critic_learning_rate=0.03, max_kl=0.03,
            update_epochs=4, num_minibatches=4, entropy_coef=0.0, anneal=False, value_clip=None, target_kl=None, **head,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            train = self.module("agents.training").train
            result = train(algorithm, env_fn, total_steps=steps, seeds=list(seeds), progress=False)
        if result.failed:
            raise FloatingPointError("; ".join(result.failed.values()))
        return [Act(result.policy(run)) for run in range(len(seeds))]

    def __call__(self, env_fn, seed, steps):
        return self.many(env_fn, [seed], steps)[0]

    # ------------------------------------------------------------------------------------------------------------- as hooks

    def hooks(self):
        """The functions of the package as Hooks."""
        e, o = self.module("equations.estimators"), self.module("equations.objectives")
        d, t = self.module("equations.distributions"), self.module("equations.trust_region")
        return Hooks(
            gae=e.gae,
            discounted_returns=lambda r, gamma, ends, bootstrap: e.discounted_returns(r, gamma, ends=ends, bootstrap=bootstrap),
            normalize_advantages=e.normalize_advantages,
            policy_gradient_loss=o.policy_gradient_loss,
            policy_loss=o.clipped_surrogate_loss,
            value_loss=o.value_loss,
            log_prob=lambda mean, log_std, a: d.DiagonalGaussian(mean, log_std).log_prob(a),
            entropy=lambda mean, log_std: d.DiagonalGaussian(mean, log_std).entropy(),
            kl=lambda m, s, m2, s2: d.DiagonalGaussian(m, s).kl(d.DiagonalGaussian(m2, s2)),
            squashed_log_prob=lambda m, s, u, low, high: d.SquashedGaussian(m, s, low, high).log_prob(pre_tanh=u),
            categorical_log_prob=lambda logits, a: d.Categorical(logits).log_prob(a),
            categorical_entropy=lambda logits: d.Categorical(logits).entropy(),
            categorical_kl=lambda logits, new: d.Categorical(logits).kl(d.Categorical(new)),
            fisher_vector_product=lambda net, obs, v, damping: t.fisher_vector_product(
                lambda x: d.Categorical(net(x)), obs, damping, parameters=list(net.parameters())
            )(v),
            conjugate_gradient=lambda matvec, b: t.conjugate_gradient(matvec, b, max_iters=len(b)).x,
            line_search=lambda evaluate, max_kl: t.backtracking_line_search(evaluate, max_kl).fraction,
            rollout=self.rollout,
        )

    def functions(self):
        """What the examinations of this module ask, by name."""
        names = ["slopes", "saved", "seen", "sampled", "stored", "objective", "log_ratios", "fisher", "starts", "solve"]
        exactly = type(self.algorithm).__name__ if type(self.algorithm).__module__.startswith(f"{self.root}.agents.") else ""
        names += ["trust_region_step"] * (exactly == "TRPO") + ["first_steps"] * (exactly in ("VPG", "A2C", "PPO"))
        names += ["epochs"] * (exactly == "PPO")
        names += ["own_policy_loss"] * (not exactly and {"policy_loss", "clip_epsilon"} <= set(dir(self.algorithm)))
        facts = {"normalizes": lambda: getattr(self.algorithm, "normalize", True) not in (False, "never")}
        facts["clips"] = lambda: exactly == "PPO"
        return {name: getattr(self, name) for name in names} | facts

    def agent(self, obs_size, space, parameters=None, hidden_sizes=(), **network):
        """A population of one run in float64, linear unless told otherwise, with given parameters."""
        agent = self.module("agents.runs").Runs(
            obs_size, space, hidden_sizes=hidden_sizes, seeds=[0], dtype=torch.float64, **network
        )
        if parameters is not None:
            with torch.no_grad():
                agent.parameters.copy_(tensor(parameters)[None])
        agent.begin_update()
        return agent

    def rollout(self, env_fn, num_steps, seed, value):
        """The hook of that name: two environments, and an agent whose critic is replaced."""
        collecting = self.module("agents.rollout")
        world = self.module("worlds.make_env").make_env(env_fn, 2, seed=seed)
        agent = self.agent(world.obs_size, world.action_space)
        agent.value = lambda obs: torch.as_tensor(value(obs.reshape(-1, obs.shape[-1]).numpy())).reshape(obs.shape[:-1])
        data, _ = collecting.collect(agent, world, world.reset(), num_steps, collecting.Episodes(1, 2))
        return {field.name: np.asarray(getattr(data, field.name))[:, 0] for field in dataclasses.fields(data)}

    def recorded_update(self, case, agent, **settings):
        """Let the algorithm update `agent` with the rollout of `case`; [(gradient, part, parameters before)] of each step."""
        steps, gradient_of = [], agent._gradient

        def recorded(loss, part, **how):
            before = agent.parameters[0].numpy().copy()
            gradient, norm = gradient_of(loss, part, **how)
            steps.append((gradient[0].numpy().copy(), part, before))
            return gradient, norm

        agent._gradient = recorded
        algorithm = self.with_settings(gamma=case.gamma, gae_lambda=case.gae_lambda, num_minibatches=1, **settings)
        algorithm.for_runs(1, torch.float64).update(agent, case.rollout(self.module("agents.rollout").Rollout))
        return steps

    def first_steps(self, case):
        """Gradients of the first update of VPG, A2C or PPO, and the parameters after it."""
        agent = self.agent(case.states, case.space, case.parameters)
        steps = self.recorded_update(
            case, agent, learning_rate=0.3, critic_learning_rate=0.3, update_epochs=2, entropy_coef=case.entropy_coef,
            value_coef=case.value_coef, clip_epsilon=0.2, max_grad_norm=None, anneal=False, value_clip=None, target_kl=None,
        )  # fmt: skip
        return steps, agent.parameters[0].numpy().copy()

    def epochs(self, case, target_kl):
        """How many of four epochs PPO takes with this target_kl."""
        agent = self.agent(case.states, case.space, case.parameters)
        steps = self.recorded_update(
            case, agent, learning_rate=0.3, update_epochs=4, entropy_coef=0.0, max_grad_norm=None, anneal=False,
            value_clip=None, target_kl=target_kl, clip_epsilon=100.0,
        )  # fmt: skip
        return len(steps)

    def own_policy_loss(self, ratio):
        """d loss / d log π of three samples with advantage 1 at this ratio, by the policy_loss of a subclass of PPO."""
        agent, batch = self.agent(4, DISCRETE), self.module("agents.rollout").Batch
        obs, action = torch.eye(4, dtype=torch.float64)[None, :3], torch.tensor([[0, 1, 2]])
        log_prob = agent.policy(obs).log_prob(action).detach().requires_grad_()
        one = torch.ones_like(log_prob).detach()
        minibatch = batch(obs, action, 0 * one, one, one, (log_prob - np.log(ratio)).detach())
        algorithm = self.with_settings(learning_rate=1e-4, clip_epsilon=0.2).for_runs(1, torch.float64)
        loss = algorithm.policy_loss(log_prob, minibatch, agent)
        return torch.autograd.grad(loss.sum(), log_prob)[0][0].numpy()

    def trust_region_step(self, case, **settings):
        """The policy's parameters after one update of TRPO."""
        agent = self.agent(case.states, case.space, case.parameters)
        self.recorded_update(case, agent, update_epochs=0, cg_iters=60, cg_tol=1e-10, fisher_stride=1, **settings)
        return agent.parameters[0].numpy()[: case.num_policy].copy()

    def slopes(self, space, way):
        """(gradient, the same by central differences) of some loss in all parameters of a network with a hidden layer."""
        rng = np.random.default_rng(3)
        agent = self.agent(2, space, hidden_sizes=(3,))
        with torch.no_grad():
            agent.parameters.copy_(tensor(rng.normal(size=tuple(agent.parameters.shape)) * 0.5))
        obs = tensor(rng.normal(size=(1, 6, 2)))
        action = torch.tensor([[0, 1, 2, 0, 1, 2]]) if space is DISCRETE else tensor(rng.normal(size=(1, 6, 2)))
        weight = tensor(rng.normal(size=(1, 6)))

        def loss():
            policy, value = agent(obs) if way == "together" else (agent.policy(obs), agent.value(obs))
            return (policy.log_prob(action) * weight).sum(-1) + (value * weight).square().sum(-1)

        gradient = agent._gradient(loss(), "both")[0][0].numpy().copy()
        return gradient, slope(lambda x: self._loss_at(agent, loss, x), agent.parameters[0].numpy().copy()), agent

    @staticmethod
    def _loss_at(agent, loss, x):
        with torch.no_grad():
            agent.parameters.copy_(tensor(x)[None])
            return loss().item()

    def saved(self):
        """Outputs for the same observations of the agent in training, of its policy, and of that after saving and loading."""
        training = self.module("agents.training")
        algorithm = self.with_settings(
            num_envs=4, num_steps=8, hidden_sizes=(4,), normalize_obs=True, num_minibatches=1, std="free", bounds="clip"
        )
        for state in training.iterate(algorithm, probes.Patience, total_steps=64, seeds=[5], dtype=torch.float64):  # noqa: B007
            pass
        obs = tensor([[-1.0], [0.25], [7.0]])
        result = state.result()
        with tempfile.TemporaryDirectory() as folder:
            loaded = training.load(result.save(Path(folder) / "agent.npz"), algorithm=type(self.algorithm))
        policies = result.policy(0), loaded.policy(0)
        with torch.no_grad():
            in_training = state.agent.policy(obs[None]).log_probs[0], state.agent.value(obs[None])[0]
            return in_training, [(policy.distribution(obs).log_probs, policy.value(obs)) for policy in policies]

    def seen(self, batches, obs):
        """What the networks get to see of `obs` after the statistics have taken in `batches`."""
        agent = self.agent(2, DISCRETE, normalize_obs=True)
        for batch in batches:
            agent.observe(tensor(batch)[None])
        return agent.normalizer(tensor(obs)[None])[0]

    def sampled(self, std, log_std):
        """(σ by the noise, log σ as stored, squashed zero and infinity) of the head for Box actions."""
        agent = self.agent(2, BOX, std=std, initial_log_std=log_std, parameters=None)
        policy = agent.policy(torch.zeros(1, 1, 2, dtype=torch.float64))
        unit = torch.ones(1, 1, 2, dtype=torch.float64)
        bounded = self.agent(2, spaces.Box(-2.0, 4.0, (1,), np.float64), bounds="tanh").head.squash(np.array([[0.0], [1.0]]))
        with torch.no_grad():
            return (policy.from_noise(unit) - policy.from_noise(0 * unit))[0, 0], policy.log_std[0, 0].detach(), bounded[:, 0]

    def stored(self):
        """Actions (T, 2) that a rollout stores for a tanh policy with mean 0 and σ = e in the box ±1."""
        collecting = self.module("agents.rollout")
        world = self.module("worlds.make_env").make_env(lambda: probes.ConstantReward(continuous=True), 4, seed=0)
        agent = self.agent(world.obs_size, world.action_space, bounds="tanh", initial_log_std=1.0)
        data, _ = collecting.collect(agent, world, world.reset(), 16, collecting.Episodes(1, 4))
        return np.asarray(data.action)

    def objective(self, name, *tensors):
        return getattr(self.module("equations.objectives"), name)(*tensors)

    def log_ratios(self, which, log_prob, old_log_prob):
        return self.module("equations.objectives").kl_estimates(log_prob, old_log_prob)[which]

    def starts(self, seed):
        """First observations of the batched twin of CartPole: of one environment for each seed of a list, or of three."""
        num_envs = len(seed) if isinstance(seed, list) else 3
        return self.module("worlds.make_env").make_env("CartPole-v1", num_envs, seed=seed).reset()

    def solve(self, diagonal, b):
        """A solution by conjugate gradient to ten digits."""
        return self.module("equations.trust_region").conjugate_gradient(lambda v: diagonal * v, b, max_iters=100, rel_tol=1e-10).x

    def fisher(self, case, v, damping):
        """The product with the policy's Fisher matrix as `agents.runs` computes it."""
        agent = self.agent(case.states, case.space, case.parameters)
        return agent.fisher_vector_product(case.obs_rows()[None], damping)(tensor(v)[None])[0]


class Act:
    """The policy of a run as diagnose wants it: act(obs), and act.value(obs)."""

    def __init__(self, policy):
        self.policy = policy

    def __call__(self, obs):
        return self.policy.act(obs)

    def value(self, obs):
        with torch.no_grad():
            return self.policy.value(torch.as_tensor(obs)[None])[0]


# ------------------------------------------------------------------------------------- a small batch with known gradients


class Case:
    """Five steps of two environments in four states, a linear policy and critic, and their losses in NumPy.

    Parameters are those of agents.runs for a network without hidden layers: weights (states, outputs), biases, for Box log σ;
    then weights and bias of the critic. Observations are one-hot, so that every state has a row of its own.
    """

    gamma, gae_lambda, entropy_coef, value_coef, states = 0.9, 0.6, 0.3, 0.7, 4

    def __init__(self, space):
        rng = np.random.default_rng(7)
        self.space, self.outputs = space, 3 if space is DISCRETE else 2
        self.num_policy = 5 * self.outputs + (0 if space is DISCRETE else 2)
        self.parameters = rng.normal(size=self.num_policy + 5) * 0.6
        shape = 5, 2
        self.state = rng.integers(4, size=shape)
        self.action = rng.integers(3, size=shape) if space is DISCRETE else rng.normal(size=(*shape, 2))
        self.reward, self.value, self.next_value = rng.normal(size=(3, *shape)).round(1) * [[[1.0]], [[2.0]], [[3.0]]]
        self.terminated, self.truncated = np.zeros((2, *shape), bool)
        self.terminated[1, 0] = self.truncated[2, 1] = self.terminated[4, 1] = True

    def rollout(self, rollout_class):
        """The batch as the package's Rollout, (T, 1, N)."""
        one = lambda x: x[:, None].copy()  # noqa: E731
        data = map(one, (self.reward, self.terminated, self.truncated, self.value, self.next_value))
        return rollout_class(torch.from_numpy(one(np.eye(4)[self.state])), torch.from_numpy(one(self.action)), *data)

    def obs_rows(self):
        return tensor(np.eye(4)[self.state.ravel()])

    def advantages(self, gamma=None, gae_lambda=None, terminated=None, mask=None, cut=None, turn=1):
        """(T, N), by sums; with arguments, as somebody would get them who makes that mistake."""
        gamma, lam = self.gamma if gamma is None else gamma, self.gae_lambda if gae_lambda is None else gae_lambda
        mask = self.terminated if mask is None else mask
        ends = self.terminated | self.truncated if cut is None else cut
        reward = self.reward + gamma * np.where(mask, 0, self.next_value)  # so that nothing is left to bootstrap below
        data = reward, self.value, np.zeros((5, 2)), ends, ends
        columns = [advantages_by_sums(*(x[:, i] for x in data), gamma, lam) for i in (0, 1)]
        return np.stack(columns, 1)[::turn]

    def mistaken_advantages(self):
        """[(suspect, advantages)]: what well-known mistakes make of this batch."""
        none = np.zeros((5, 2), bool)
        return [
            ("order", self.advantages(turn=-1)),
            ("termination", self.advantages(mask=none)),
            ("termination", self.advantages(mask=none, cut=self.truncated)),
            ("truncation", self.advantages(mask=self.terminated | self.truncated)),
            ("leak", self.advantages(cut=self.terminated)),
            ("leak", self.advantages(cut=self.truncated)),
            ("leak", self.advantages(cut=none)),
            ("discount", self.advantages(gamma=self.gae_lambda, gae_lambda=self.gamma)),
            ("discount", self.advantages(gae_lambda=1.0)),
            ("discount", self.advantages(gae_lambda=self.gae_lambda / self.gamma)),
            ("discount", self.advantages(gamma=1.0, gae_lambda=self.gae_lambda * self.gamma)),
            ("discount", self.advantages(gamma=1.0)),
        ]

    def policy_at(self, x):
        """(log π of the actions (B,), entropy of each state (B,)) for parameters x."""
        output = (x[: 4 * self.outputs].reshape(4, -1) + x[4 * self.outputs : 5 * self.outputs])[self.state.ravel()]
        if self.space is DISCRETE:
            logs = output - np.log(np.exp(output).sum(1, keepdims=True))
            return logs[np.arange(10), self.action.ravel()], -(np.exp(logs) * logs).sum(1)
        log_std = x[5 * self.outputs : self.num_policy]
        z = (self.action.reshape(10, 2) - output) / np.exp(log_std)
        log_prob = -(z**2 / 2 + log_std + np.log(2 * np.pi) / 2).sum(1)
        return log_prob, np.full(10, (log_std + np.log(2 * np.pi * np.e) / 2).sum())

    def kl(self, x, y):
        """Mean KL(π_x ‖ π_y) over the states of the batch, for Discrete."""
        logs = []
        for theta in (x, y):
            output = (theta[:12].reshape(4, 3) + theta[12:15])[self.state.ravel()]
            logs.append(output - np.log(np.exp(output).sum(1, keepdims=True)))
        return (np.exp(logs[0]) * (logs[0] - logs[1])).sum(1).mean()

    def value_at(self, x):
        return (x[self.num_policy : self.num_policy + 4] + x[-1])[self.state.ravel()]

    def policy_slope(self, weight, x, entropy=0.0, old=None, clip=None, kind="min"):
        """Gradient in the policy's parameters of −mean(…) − entropy · mean H: of log π · weight, or with `old` of ρ · weight."""

        def loss(y):
            log_prob, h = self.policy_at(np.concatenate([y, x[self.num_policy :]]))
            ratio = np.exp(log_prob - old) if old is not None else log_prob
            gain = ratio * weight
            if clip is not None:
                limited = np.clip(ratio, 1 - clip, 1 + clip) * weight
                gain = {"min": np.minimum, "max": np.maximum, "clip": lambda _, b: b}[kind](gain, limited)
            return -gain.mean() - entropy * h.mean()

        return slope(loss, x[: self.num_policy])

    def critic_slope(self, target, x):
        """Gradient in the critic's parameters of mean (V − target)²."""
        policy, critic = x[: self.num_policy], x[self.num_policy :]
        return slope(lambda y: ((self.value_at(np.concatenate([policy, y])) - target) ** 2).mean(), critic)


def slope(f, x, h=1e-5):
    """Gradient of f at x (n,) by central differences."""
    return np.array([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(len(x))])


def normalised(x):
    return (x - x.mean()) / x.std()


def alike(a, b):
    return np.abs(a - b).max() <= 1e-5 * max(1.0, np.abs(b).max())


def in_words(case, got, expected):
    k = int(np.argmax(np.abs(got - expected)))
    kind = "Discrete" if case.space is DISCRETE else "Box"
    return f"({kind} actions, 10 steps, linear networks): in parameter {k} expected {show(expected[k])}, got {show(got[k])}"


@examination("one update: the gradient of the policy", "first_steps", suspects=("no_gradient", "policy_sign"))
def policy_gradient_of_an_update(ask):
    for case in (Case(DISCRETE), Case(BOX)):
        steps, _ = ask("first_steps", case)
        got = steps[0][0][: case.num_policy]
        advantages, x = case.advantages(), case.parameters
        scale = normalised if ask("normalizes") else lambda w: w
        weight = scale(advantages).ravel()
        expected = case.policy_slope(weight, x, case.entropy_coef)
        if not alike(got, expected):
            keys = [key for key, known in _mistaken_slopes(case, scale, x) if alike(got, known)]
            weights = blame(keys, {"ratio": HINT, "advantage_gradient": HINT, "action_sum": HINT})
            if alike(got, case.policy_slope(0 * weight, x, case.entropy_coef)):  # the entropy bonus alone
                weights = {"no_gradient": 2 * LIKELY, "old_log_prob_gradient": 2 * LIKELY}
            text = f"gradient of the policy's loss in the first step {in_words(case, got, expected)}"
            yield weights, text + (", exactly what this fault gives" if keys else "")
            return


def _mistaken_slopes(case, scale, x):
    advantages = case.advantages()
    weight = scale(advantages).ravel()
    surrogate, entropy = case.policy_slope(weight, x), case.policy_slope(0 * weight, x, case.entropy_coef)
    yield "no_gradient", 0 * surrogate
    yield "policy_sign", entropy - surrogate
    yield "policy_sign", -entropy - surrogate
    yield "entropy_sign", surrogate - entropy
    yield "entropy_sign", surrogate
    for key, wrong in case.mistaken_advantages():
        yield key, case.policy_slope(scale(wrong).ravel(), x, case.entropy_coef)
    for other in (advantages, normalised(advantages), advantages - advantages.mean()):
        yield "normalization", case.policy_slope(other.ravel(), x, case.entropy_coef)
    yield "ratio", case.policy_slope(weight, x, case.entropy_coef, old=np.zeros(10), clip=0.2)
    yield "ratio", case.policy_slope(weight, x, case.entropy_coef, old=np.zeros(10))
    yield "broadcast", 10 * surrogate + entropy


@examination("one update: the gradient of the critic", "first_steps", suspects=("critic",))
def critic_gradient_of_an_update(ask):
    case = Case(DISCRETE)
    steps, _ = ask("first_steps", case)
    _, part, before = next((step for step in steps if step[1] != "policy"), (None, None, None))
    if part is None:
        yield {"critic": EXACT}, "an update takes no step on the critic"
        return
    got = next(step for step in steps if step[1] != "policy")[0][-5:]
    factor = case.value_coef if part == "both" else 1.0
    expected = factor * case.critic_slope((case.advantages() + case.value).ravel(), before)
    if not alike(got, expected):
        wrong = [("critic", case.advantages()), ("critic", case.advantages() + case.reward)]
        wrong += [(key, x + case.value) for key, x in case.mistaken_advantages()]
        keys = [key for key, target in wrong if alike(got, factor * case.critic_slope(target.ravel(), before))]
        # what −mean log π · (target − V) adds if V is no constant there: the slope of mean log π · V
        leaked = case.critic_slope(case.value_at(before) - case.policy_at(before)[0] / 2, before)
        keys += ["advantage_gradient"] if alike(got, expected + leaked) else []
        keys += ["critic"] if alike(got, 0 * got) or alike(got, -expected) else []
        in_proportion = alike(got / (np.linalg.norm(got) or 1), expected / np.linalg.norm(expected))
        otherwise = {"critic": HINT if in_proportion else LIKELY}
        yield blame(keys, otherwise), f"gradient of the critic's loss {in_words(case, got, expected)}"


@examination("one update: the second step", "first_steps", suspects=("ratio", "clip", "old_log_prob_gradient"))
def second_step_of_an_update(ask):
    case = Case(DISCRETE)
    steps, _ = ask("first_steps", case)
    if not ask("clips") or len(steps) < 2:
        return
    (_, _, start), (gradient, _, x) = steps[:2]
    scale = normalised if ask("normalizes") else lambda w: w
    weight, old = scale(case.advantages()).ravel(), case.policy_at(start)[0]
    at = lambda **how: case.policy_slope(weight, x, case.entropy_coef, **how)  # noqa: E731
    got, expected = gradient[: case.num_policy], at(old=old, clip=0.2)
    if not alike(got, expected):
        known = [("old_log_prob_gradient", at()), ("old_log_prob_gradient", at(old=case.policy_at(x)[0])), ("clip", at(old=old))]
        known += [("clip", at(old=old, clip=0.2, kind=kind)) for kind in ("max", "clip")]
        keys = [key for key, wrong in known if alike(got, wrong)]
        text = f"gradient of the policy's loss in the second step on the same data {in_words(case, got, expected)}"
        yield blame(keys, {"clip": HINT, "ratio": HINT}), text


@examination("one update: the step goes downhill", "first_steps", suspects=("policy_sign",))
def steps_go_downhill(ask):
    steps, after = ask("first_steps", Case(DISCRETE))
    for (gradient, part, before), following in zip(steps, [*(step[2] for step in steps[1:]), after], strict=True):
        change = following - before
        change = change[-5:] if part == "critic" else change[:-5] if part == "policy" else change
        if gradient @ change > 1e-9:
            weights = {"critic": LIKELY} if part == "critic" else {"policy_sign": 2 * LIKELY}
            yield weights, f"the step on the loss of '{part}' goes uphill: gradient · change = {show(gradient @ change)}"
            return


@examination("gradients against finite differences", "slopes", suspects=("no_gradient",))
def gradients_by_differences(ask):
    for space in (DISCRETE, BOX):
        for way in ("together", "apart"):
            got, expected, agent = ask("slopes", space, way)
            if not alike(got, expected):
                k = int(np.argmax(np.abs(got - expected)))
                part = "policy" if k < agent.num_policy_parameters else "critic"
                weights = {"no_gradient": LIKELY} if part == "policy" else {"critic": LIKELY}
                yield weights, f"gradient of the {part} in parameter {k}: by differences {show(expected[k])}, got {show(got[k])}"
                return


@examination("a policy loss of your own", "own_policy_loss", suspects=("no_gradient",))
def own_policy_loss_sees_the_ratio(ask):
    """Any objective with a ratio has another slope at ratio 2 than at 1; a number used as a target has the same."""
    one, two = ask("own_policy_loss", 1.0), ask("own_policy_loss", 2.0)
    if np.abs(one).min() > 1e-3 and same(two, one, 1e-2):
        text = f"the slope in log π of a sample with A = 1 is {one[0]:.3g} at ratio 1 and {two[0]:.3g} at ratio 2"
        yield {"no_gradient": EXACT}, f"{text}; PPO's would be 0 there: the ratio is a number, not part of the graph"


@examination("trust region: one update", "trust_region_step", suspects=("line_search", "fisher", "conjugate_gradient"))
def trust_region_update(ask):
    case = Case(DISCRETE)
    region = _Region(case, normalised(case.advantages()).ravel())
    for max_kl, damping, tries in region.telling_limits():
        got = ask("trust_region_step", case, max_kl=max_kl, cg_damping=damping, backtrack_coeff=0.5, max_backtracks=tries)
        start = case.parameters[: case.num_policy]
        change, expected = got - start, region.step(max_kl, damping, tries)
        if not same(change, expected, 1e-3):
            keys = [key for key, wrong in region.mistaken_steps(max_kl, damping, tries) if same(change, wrong, 1e-3)]
            weights = blame(keys, {"line_search": HINT, "fisher": HINT, "conjugate_gradient": HINT})
            kl = case.kl(case.parameters, np.concatenate([got, case.parameters[case.num_policy :]]))
            text = f"max_kl = {max_kl:.3g}, {tries} lengths tried: expected a change of norm {np.linalg.norm(expected):.4g}"
            yield weights, f"{text}, got {np.linalg.norm(change):.4g} with KL(old ‖ new) = {kl:.3g}"


class _Region:
    """The natural-gradient step of a Case with dense matrices: the Hessian of the KL by differences, numpy.linalg.solve."""

    def __init__(self, case, weight):
        self.case, self.weight, self.n = case, weight, case.num_policy
        self.start, self.rest = case.parameters[: self.n], case.parameters[self.n :]
        self.gradient = -case.policy_slope(weight, case.parameters)
        self.fisher = np.array([slope(lambda y: self._kl(y), self.start + 1e-4 * e) for e in np.eye(self.n)]) / 1e-4

    def _kl(self, y, reverse=False):
        ends = self.case.parameters, np.concatenate([y, self.rest])
        return self.case.kl(*(ends[::-1] if reverse else ends))

    def _gain(self, y):
        ratio = np.exp(self.case.policy_at(np.concatenate([y, self.rest]))[0] - self.case.policy_at(self.case.parameters)[0])
        return (ratio * self.weight).mean() - self.weight.mean()

    def full(self, max_kl, damping):
        matrix = self.fisher + damping * np.eye(self.n)
        direction = np.linalg.lstsq(matrix, self.gradient, rcond=1e-6)[0]
        return np.sqrt(2 * max_kl / (direction @ matrix @ direction)) * direction

    def step(self, max_kl, damping, tries, limit=None, reverse=False, must_gain=True):
        """The step that the line search accepts, 0 for none."""
        full = self.full(max_kl, damping)
        for fraction in 0.5 ** np.arange(tries):
            y = self.start + fraction * full
            if (self._gain(y) > 0 or not must_gain) and self._kl(y, reverse) <= (max_kl if limit is None else limit):
                return fraction * full
        return 0 * full

    def telling_limits(self, damping=1e-3):
        """(max_kl, damping, tries): the whole step taken; KL and reverse KL disagree; one try only, refused."""
        limits = [0.01 * 1.25**k for k in range(30)]
        differ = [d for d in limits if not same(self.step(d, damping, 10), self.step(d, damping, 10, reverse=True))]
        refused = [d for d in limits if not self.step(d, damping, 1).any()]
        return [(0.01, 0.1, 10), *[(d, damping, 10) for d in differ[:1]], *[(d, damping, 1) for d in refused[:1]]]

    def mistaken_steps(self, max_kl, damping, tries):
        full = self.full(max_kl, damping)
        yield "kl_direction", self.step(max_kl, damping, tries, reverse=True)
        yield "line_search", self.step(max_kl, damping, tries, limit=np.inf)
        yield "line_search", full
        for wrong in (0.0, -damping, damping / 10, damping * 10):
            yield "damping", self.step(max_kl, wrong, tries)
        plain = self.gradient / np.linalg.norm(self.gradient)
        for direction in (plain, -plain):
            curvature = direction @ (self.fisher + damping * np.eye(self.n)) @ direction
            key = "conjugate_gradient" if direction is plain else "policy_sign"
            yield key, np.sqrt(2 * max_kl / curvature) * direction
        yield "policy_sign", 0 * full
        yield "policy_sign", -full


@examination("Fisher product of the runs", "fisher", suspects=("fisher",))
def fisher_of_the_runs(ask):
    case = Case(DISCRETE)
    fisher, v = _Region(case, np.ones(10)).fisher, np.linspace(-1, 1, case.num_policy)
    plain, damped = (ask.array("fisher", case, v, damping, shape=v.shape) for damping in (0.0, 0.1))
    if not same(plain, fisher @ v):
        yield {"fisher": EXACT}, f"F v: expected {show((fisher @ v)[:3])} …, got {show(plain[:3])} … (first three numbers)"
    if not same(damped - plain, 0.1 * v):
        yield {"damping": EXACT}, f"damping 0.1 adds {show((damped - plain)[:2])} to F v, expected {show(0.1 * v[:2])}"
    case = Case(BOX)
    v = np.zeros(case.num_policy)
    v[-2:] = 1.0, 2.0
    expected = 2 * v  # the Fisher matrix of log σ is 2 for each dimension
    got = ask.array("fisher", case, v, 0.0, shape=v.shape)
    if not same(got, expected):
        yield {"fisher": EXACT}, f"F v in the direction of log σ = [1, 2]: expected [2, 4], got {show(got[-2:])}"


@examination("conjugate gradient: ten digits", "solve", suspects=("conjugate_gradient",))
def conjugate_gradient_to_ten_digits(ask):
    diagonal, b = np.linspace(1, 30, 30), np.ones(30)
    residual = ask.array("solve", tensor(diagonal), tensor(b), shape=(30,)) * diagonal - b
    if (size := np.linalg.norm(residual) / np.linalg.norm(b)) > 1e-8:
        text = f"F = diag(1 … 30), g = ones, rel_tol = 1e-10: a relative residual of {size:.2g} is left"
        yield {"conjugate_gradient": 2 * LIKELY}, text


@examination("start states of the batched twin", "starts", suspects=("seeding",))
def start_states_differ(ask):
    rows = np.concatenate([ask.array("starts", seed, shape=(3, 4)) for seed in (0, 1)])
    again = ask.array("starts", 0, shape=(3, 4))
    if (different := len(np.unique(rows, axis=0))) < 6:
        yield {"seeding": EXACT}, f"CartPole, seeds 0 and 1, three environments each: only {different} different starts"
    if not np.array_equal(rows[:3], again):
        yield {"seeding": EXACT}, "CartPole, seed 0 twice: the start states differ"
    if not np.array_equal(ask.array("starts", [5, 6], shape=(2, 4))[1], ask.array("starts", [6], shape=(1, 4))[0]):
        yield {"seeding": EXACT}, "CartPole, seeds 5 and 6: the second start state is not the one that seed 6 gives alone"


@examination("the policy that is saved", "saved", suspects=("observation_statistics",))
def saved_policy_is_the_trained_one(ask):
    trained, (returned, loaded) = ask("saved")
    for words, other in (("the policy that train returns", returned), ("the policy after save and load", loaded)):
        for what, a, b in zip(("log π", "V"), trained, other, strict=True):
            if not same(a.ravel(), b.ravel(), 1e-6):
                text = f"at observation −1 the agent in training has {what} = {show(a.ravel()[0])}, {words} {show(b.ravel()[0])}"
                yield {"observation_statistics": EXACT}, text
                return


@examination("statistics of the observations", "seen", suspects=("observation_statistics",))
def observations_are_normalised(ask):
    rng = np.random.default_rng(2)
    batches = [rng.normal(5, 3, (40, 2)), rng.normal(-2, 1, (8, 2))]
    rows, obs = np.concatenate(batches), np.array([[6.0, 0.0], [1.0, -3.0]])
    got, expected = ask.array("seen", batches, obs, shape=(2, 2)), (obs - rows.mean(0)) / rows.std(0)
    if not same(got, expected):
        text = f"after 48 observations [6, 0] must be seen as {show(expected[0])}, but is {show(got[0])}"
        yield {"observation_statistics": 2 * LIKELY}, text


@examination("σ of Box actions", "sampled", suspects=("std_scale",))
def spread_of_the_actions(ask):
    for std in ("free", "state"):
        spread, log_std, bounded = ask("sampled", std, -1.0)
        if not (same(spread, np.exp([-1.0, -1.0]), 0.05) and same(log_std, [-1.0, -1.0], 0.1)):
            text = f"std = {std!r}, initial log σ = −1: expected σ = 0.3679"
            yield {"std_scale": EXACT}, f"{text}, got σ = {show(spread[0])} of the actions and log σ = {show(log_std[0])}"
            return
    if not same(bounded, 1 + 3 * np.tanh([0.0, 1.0])):
        yield {"tanh": 2 * LIKELY}, f"u = [0, 1] squashed into −2 … 4: expected [1, 3.285], got {show(bounded)}"


@examination("actions of a tanh policy", "stored", suspects=("tanh", "clipped_action"))
def stored_actions_are_those_drawn(ask):
    actions = ask("stored")
    outside = int((np.abs(actions) > 1).sum())
    if outside < 20:  # of 64, where 46 are expected
        key = "clipped_action" if (np.abs(actions) == 1).sum() >= 3 else "tanh"
        text = f"{outside} of {actions.size} stored actions lie outside ±1, where N(0, e) has two thirds"
        yield {key: EXACT}, f"{text}: what is stored is not what was drawn, but the density is that of the draw"


@examination("early stop", "epochs", suspects=("kl_estimate",))
def early_stop_by_counting(ask):
    for case in (Case(DISCRETE), Case(BOX)):
        for target_kl, expected in ((1e-9, 1), (1e9, 4)):
            taken = ask("epochs", case, target_kl)
            if taken != expected:
                text = f"of 4 epochs with target_kl = {target_kl:g} it takes {taken}, expected {expected}"
                yield {"kl_estimate": 2 * LIKELY}, text
                return


@examination("constants in the losses", "objective", suspects=("advantage_gradient", "old_log_prob_gradient"))
def constants_are_detached(ask):
    three = "log_prob", "old_log_prob", "advantage"
    for name, names, keys in (
        ("policy_gradient_loss", ("log_prob", "advantage"), (None, "advantage_gradient")),
        ("clipped_surrogate_loss", three, (None, "old_log_prob_gradient", "advantage_gradient")),
        ("surrogate_objective", three, (None, "old_log_prob_gradient", "advantage_gradient")),
        ("value_loss", ("values", "targets"), (None, "critic")),
    ):
        arguments = [tensor([-1.0 + k, -2.0 - k], grad=True) for k in range(len(names))]
        extra = [0.2] if name.startswith("clipped") else []
        loss = ask("objective", name, *arguments, *extra)
        slopes = torch.autograd.grad(loss, arguments, allow_unused=True)
        for argument, key, s in zip(names, keys, slopes, strict=True):
            if key and s is not None and s.abs().max() > 0:
                yield {key: EXACT}, f"{name} has a gradient in {argument}: {show(s)}, expected none"


@examination("a column (N, 1) is refused", "objective", suspects=("broadcast",))
def columns_are_refused(ask):
    row, column = tensor([-1.0, -2.0, -3.0], grad=True), tensor([[1.0], [0.0], [-1.0]])
    for name, arguments in (
        ("policy_gradient_loss", (row, column)),
        ("clipped_surrogate_loss", (row, row.detach(), column, 0.2)),
        ("value_loss", (row, column)),
    ):
        try:
            answer = ask("objective", name, *arguments)
        except Refusal:
            continue
        yield {"broadcast": EXACT}, f"{name} takes (3,) with (3, 1) without an error and returns {show(answer)}"


@examination("extreme ratios", "objective", suspects=("ratio",))
def extreme_ratios_are_finite(ask):
    x = torch.tensor([100.0], requires_grad=True)
    for advantage in (1.0, -1.0):
        loss = ask("objective", "clipped_surrogate_loss", x, torch.zeros(1), torch.tensor([advantage]), 0.2)
        s = torch.autograd.grad(loss, x)[0]
        if not torch.isfinite(s).all():
            yield {"ratio": LIKELY}, f"log-ratio 100, advantage {advantage:g}: the gradient is {show(s)}"


@examination("three estimates of the KL divergence", "log_ratios", suspects=("kl_estimate",))
def each_estimate_by_name(ask):
    for which, kind in enumerate(("k1", "k2", "k3")):
        asked = type(ask)({kind: lambda *x, which=which: ask("log_ratios", which, *x)})
        yield from estimates_match(asked, kind, (kind,))


EXAMINATIONS = listed(globals())
