"""Programs that are not ours: the example of docs/diagnose.md, and Stable-Baselines3; healthy, and with faults put into them."""

import inspect
import re
import textwrap
from pathlib import Path

import pytest
import torch

from rlcourse import Hooks, diagnose

DOCS = Path(__file__).parents[2] / "docs" / "diagnose.md"
EXAMPLE = re.search(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)[1]


def example(old="", new=""):
    """The module of the example, with one line changed."""
    assert not old or EXAMPLE.count(old) == 1, old
    names = {"__name__": "example"}
    exec(compile(EXAMPLE.replace(old, new) if old else EXAMPLE, "example", "exec"), names)
    return names


MASK = "* (not terminated[t]) - values[t]"
STORE = """rows.append((obs, action, reward, terminated, truncated, next_obs))
        obs = env.reset()[0] if terminated or truncated else next_obs"""
RESET = """before, obs = obs, env.reset()[0] if terminated or truncated else next_obs
        rows.append((before, action, reward, terminated, truncated, obs))"""
FAULTS = [
    ("termination", MASK, "- values[t]"),
    ("truncation", MASK, "* (not (terminated[t] or truncated[t])) - values[t]"),
    ("order", "np.array(advantages[::-1])", "np.array(advantages)"),
    ("leak", "(not (terminated[t] or truncated[t])) * following", "following"),
    ("discount", "gamma * gae_lambda * (not", "gae_lambda * (not"),
    ("policy_sign", "return -torch.min(", "return torch.min("),
    ("ratio", "torch.exp(log_prob - old_log_prob)", "torch.exp(old_log_prob - log_prob)"),
    ("clip", "return -torch.min(ratio * advantage, limited * advantage).mean()", "return -(limited * advantage).mean()"),
    ("clip", "-torch.min(ratio", "-torch.max(ratio"),
    ("entropy_sign", "- entropy_coef * policy.entropy()", "+ entropy_coef * policy.entropy()"),
    ("no_gradient", "policy_loss(policy.log_prob(action), old", "policy_loss(policy.log_prob(action).detach(), old"),
    ("critic", "((value - value_target) ** 2)", "((value.detach() - value_target) ** 2)"),
    ("critic", "return advantages, advantages + values", "return advantages, advantages"),
    ("normalization", "(advantages.std() + 1e-8)", "(advantages.var() + 1e-8)"),
    ("reset_observation", STORE, RESET),
]


def test_the_example_is_healthy():
    names = example()
    report = diagnose(names["train"], names["hooks"], gamma=names["GAMMA"], seeds=(0,), only=[
        "functions", "seeds", "probe: time limit (Discrete)", "probe: end or go on (Discrete)"])  # fmt: skip
    assert report.ok and len(report.passed) >= 14, str(report)


@pytest.mark.parametrize(("key", "old", "new"), FAULTS)
def test_faults_of_the_example_are_found(key, old, new):
    report = diagnose(hooks=example(old, new)["hooks"])
    assert report.rank(key) in (1, 2), str(report)


@pytest.mark.parametrize(
    ("key", "probes"),
    [
        ("termination", ["end or go on"]),
        ("truncation", ["a time limit into a good state", "a time limit into a bad state"]),
        ("policy_sign", ["rewarded action"]),
    ],
)
def test_faults_of_the_example_show_in_what_it_does(key, probes):
    """Nothing is asked but its actions."""
    old, new = next(fault[1:] for fault in FAULTS if fault[0] == key)
    names = example(old, new)
    report = diagnose(names["train"], gamma=names["GAMMA"], seeds=(0,), only=[f"probe: {name} (Discrete)" for name in probes])
    assert report.rank(key) in (1, 2), str(report)


@pytest.mark.full
def test_the_example_as_it_stands():
    """The whole diagnosis of the example in docs/diagnose.md: no suspects."""
    names = example()
    report = diagnose(names["train"], names["hooks"], gamma=names["GAMMA"])
    assert report.ok, str(report)


BY_ACTIONS = ["termination", "truncation", "order", "policy_sign", "ratio", "reset_observation", "no_gradient"]


@pytest.mark.full
@pytest.mark.parametrize("key", BY_ACTIONS)
def test_what_the_actions_alone_tell(key, record_property):
    """Faults of the example, found by training alone, without hooks."""
    old, new = next(fault[1:] for fault in FAULTS if fault[0] == key)
    names = example(old, new)
    report = diagnose(names["train"], gamma=names["GAMMA"], only=["training"])
    record_property("measured", f"{key}: suspect {report.rank(key)}")
    assert report.rank(key) in (1, 2), str(report)


# ------------------------------------------------------------------------------------------------------ Stable-Baselines3

sb3 = pytest.importorskip("stable_baselines3")


def sb3_train(kind):
    settings = {"PPO": {"n_steps": 64, "batch_size": 32, "n_epochs": 6, "learning_rate": 0.01},
                "A2C": {"n_steps": 16, "learning_rate": 0.01, "use_rms_prop": False}}[kind]  # fmt: skip

    def train(env_fn, seed, steps):
        make = getattr(sb3, kind)
        model = make("MlpPolicy", env_fn(), gamma=0.8, gae_lambda=0.95, seed=seed, device="cpu", **settings,
                     policy_kwargs={"net_arch": [16]})  # fmt: skip
        model.learn(steps)

        def act(obs):
            return model.predict(obs)[0]

        act.value = lambda obs: model.policy.predict_values(torch.as_tensor(obs)[None])
        return act

    return train


def sb3_gae(rewards, values, next_values, terminated, truncated, gamma, gae_lambda):
    """Its rollout buffer: the value behind a time limit is added to the reward, as its collect_rollouts does."""
    from gymnasium.spaces import Box, Discrete
    from stable_baselines3.common.buffers import RolloutBuffer

    buffer = RolloutBuffer(len(rewards), Box(-1, 1, (1,)), Discrete(2), "cpu", gae_lambda, gamma, n_envs=1)
    cut, ended = truncated & ~terminated, truncated | terminated
    buffer.rewards[:, 0], buffer.values[:, 0] = rewards + gamma * next_values * cut, values
    buffer.episode_starts[1:, 0] = ended[:-1]
    buffer.compute_returns_and_advantage(torch.tensor([next_values[-1]]), ended[-1:].astype(float))
    return buffer.advantages[:, 0], buffer.returns[:, 0]


def sb3_hooks():
    from stable_baselines3.common.distributions import CategoricalDistribution, DiagGaussianDistribution

    gaussian = lambda mean, log_std: DiagGaussianDistribution(mean.shape[1]).proba_distribution(mean, log_std)  # noqa: E731
    categorical = lambda logits: CategoricalDistribution(logits.shape[1]).proba_distribution(logits)  # noqa: E731
    return Hooks(
        gae=sb3_gae,
        log_prob=lambda mean, log_std, action: gaussian(mean, log_std).log_prob(action),
        entropy=lambda mean, log_std: gaussian(mean, log_std).entropy(),
        categorical_log_prob=lambda logits, action: categorical(logits).log_prob(action),
        categorical_entropy=lambda logits: categorical(logits).entropy(),
    )


def patch(monkeypatch, owner, name, old, new):
    """Put another line into a method of the library."""
    method = getattr(owner, name)
    source = textwrap.dedent(inspect.getsource(method))
    assert source.count(old) == 1, f"{old!r} occurs {source.count(old)} times in {owner.__name__}.{name}"
    names = dict(vars(inspect.getmodule(method)))
    exec(source.replace(old, new), names)
    monkeypatch.setattr(owner, name, names[name])


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def probes(*names):
    return [f"probe: {name} (Discrete)" for name in names]


def test_a_healthy_library():
    only = ["functions", "seeds", *probes("rewarded action")]
    report = diagnose(sb3_train("A2C"), sb3_hooks(), gamma=0.8, seeds=(0,), only=only)
    assert report.ok and len(report.passed) == 13, str(report)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["PPO", "A2C"])
def test_a_healthy_library_in_all_examinations(kind):
    """PPO and A2C of Stable-Baselines3, Discrete and Box actions: no suspects."""
    report = diagnose(sb3_train(kind), sb3_hooks(), gamma=0.8, actions="both", steps=5120)
    assert report.ok and not any("probe" in name for name in report.not_examined), str(report)


def test_the_mask_taken_out_of_the_library(monkeypatch):
    from stable_baselines3.common.buffers import RolloutBuffer

    patch(monkeypatch, RolloutBuffer, "compute_returns_and_advantage", "1.0 - dones.astype(np.float32)", "1.0")
    assert diagnose(hooks=sb3_hooks()).rank("termination") == 1


def test_the_advantages_of_the_library_turned_round(monkeypatch):
    from stable_baselines3.common.buffers import RolloutBuffer

    patch(monkeypatch, RolloutBuffer, "compute_returns_and_advantage", "self.returns = self.advantages + self.values",
          "self.advantages = self.advantages[::-1].copy(); self.returns = self.advantages + self.values")  # fmt: skip
    assert diagnose(hooks=sb3_hooks()).rank("order") == 1


def test_lambda_taken_out_of_the_library(monkeypatch):
    from stable_baselines3.common.buffers import RolloutBuffer

    patch(monkeypatch, RolloutBuffer, "compute_returns_and_advantage", "self.gamma * self.gae_lambda *", "self.gamma *")
    assert diagnose(hooks=sb3_hooks()).rank("discount") == 1


def test_action_dimensions_of_the_library_not_summed(monkeypatch):
    import stable_baselines3.common.distributions as module

    monkeypatch.setattr(module, "sum_independent_dims", lambda x: x.mean(1))
    assert diagnose(hooks=sb3_hooks()).rank("action_sum") in (1, 2)


@pytest.mark.full
def test_the_sign_of_the_library(monkeypatch):
    """Stable-Baselines3's PPO with the sign of its policy loss changed: found by what it does."""
    patch(monkeypatch, sb3.PPO, "train", "policy_loss = -th.min(", "policy_loss = th.min(")
    report = diagnose(sb3_train("PPO"), gamma=0.8, seeds=(0,), only=probes("rewarded action"))
    assert report.rank("policy_sign") == 1, str(report)


@pytest.mark.full
def test_time_limits_of_the_library_taken_for_terminations(monkeypatch):
    """Stable-Baselines3's PPO without the value behind a time limit: found by what it does, and by its critic."""
    from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

    patch(monkeypatch, OnPolicyAlgorithm, "collect_rollouts", "rewards[idx] += self.gamma * terminal_value", "pass")
    report = diagnose(sb3_train("PPO"), gamma=0.8, seeds=(0,), only=probes("time limit", "a time limit into a good state"))
    assert report.rank("truncation") == 1, str(report)


@pytest.mark.full
def test_values_of_the_library_are_seen():
    """The critic of Stable-Baselines3's PPO finds the value of a constant reward."""
    report = diagnose(sb3_train("PPO"), gamma=0.8, seeds=(0,), only=probes("constant reward"))
    assert report.passed == probes("constant reward"), str(report)
