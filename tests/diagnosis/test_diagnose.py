"""The doctor itself: no false alarms, no crashes, and answers that do not come from what it examines."""

import ast
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import rlcourse
from rlcourse import A2C, PPO, TRPO, VPG, Hooks, Report, diagnose
from rlcourse.classroom.faults import Fault, load_faulty
from rlcourse.diagnosis import own_agents, rollouts, white_box
from rlcourse.diagnosis.black_box import the_probes
from rlcourse.diagnosis.diagnose import Accused
from rlcourse.diagnosis.examination import EXACT, HINT, Refusal, as_array, blame, same, show
from rlcourse.diagnosis.suspects import SUSPECTS

SOURCES = ["black_box", "diagnose", "examination", "own_agents", "rollouts", "white_box"]
FOLDER = Path(rlcourse.__file__).parent / "diagnosis"
ALGORITHMS = [PPO(), VPG(), A2C(), TRPO()]
OTHERS = [
    PPO(normalize="batch", bounds="tanh", normalize_obs=True, value_clip=0.2, target_kl=0.01, entropy_coef=0.01),
    PPO(normalize="never", clip_epsilon=0.1, gae_lambda=0.0, reward_scale=0.1, normalize_reward=True),
    rlcourse.PenaltyPPO(),
    VPG(normalize=False, gae_lambda=0.5, max_grad_norm=0.5),
    A2C(normalize=True, std="state", num_envs=4),
    TRPO(std="state", fisher_stride=2, max_kl=0.05, cg_damping=0.01, backtrack_coeff=0.8),
]
FUNCTIONS = ["functions", "seeds"]


def kinds(algorithm):
    return f"{type(algorithm).__name__}"


# ------------------------------------------------------------------------------------------------------- no false alarms


@pytest.mark.parametrize("algorithm", ALGORITHMS + OTHERS, ids=lambda a: type(a).__name__)
def test_healthy_functions_and_wiring(algorithm):
    report = diagnose(algorithm, only=FUNCTIONS)
    assert report.ok and not report.suspects and len(report.passed) >= 35, str(report)


@pytest.mark.full
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=kinds)
@pytest.mark.parametrize("seed", range(20))
def test_no_false_alarm_on_20_seeds(algorithm, seed, record_property):
    """Healthy PPO, VPG, A2C and TRPO raise no suspect, trained with a single seed each time."""
    report = diagnose(algorithm, seeds=(seed,))
    assert report.ok, str(report)
    record_property("measured", f"{type(algorithm).__name__}: {len(report.passed)} examinations passed")


@pytest.mark.full
@pytest.mark.parametrize("algorithm", OTHERS, ids=kinds)
def test_no_false_alarm_with_other_settings(algorithm):
    """Settings that change what is examined raise no suspect either."""
    report = diagnose(algorithm)
    assert report.ok, str(report)


# ---------------------------------------------------------------------------------------------------------------- honesty


@pytest.mark.parametrize("name", SOURCES)
def test_no_answer_comes_from_our_own_equations(name):
    tree = ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    ours = {module for module in imported if module.startswith("rlcourse")}
    assert ours <= {"rlcourse.diagnosis", "rlcourse.worlds"} | {f"rlcourse.diagnosis.{n}" for n in [*SOURCES, "suspects"]}


def test_a_faulty_copy_examines_itself_honestly():
    fault = Fault("mask", "rlcourse.equations.estimators", "np.where(terminated, 0, next_values) - values",
                  "next_values - values", "x.")  # fmt: skip
    sick = load_faulty(fault)
    assert sick.diagnose(sick.PPO(), only=FUNCTIONS).rank("termination") == 1
    assert diagnose(PPO(), only=FUNCTIONS).ok


def test_every_word_is_in_the_vocabulary():
    used = set()
    for name in SOURCES:
        text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
        used |= set(re.findall(r'"(\w+)": (?:EXACT|LIKELY|HINT|2 \* )', text)) | set(re.findall(r'yield "(\w+)", ', text))
    assert used <= set(SUSPECTS)
    unseen = set(SUSPECTS) - used
    assert unseen == set(), unseen


def test_suspects_are_sentences():
    assert all(s.sentence.endswith(".") and s.look.endswith(".") for s in SUSPECTS.values())


# ------------------------------------------------------------------------------------------------- ranking and the report


def good_gae(rewards, values, next_values, terminated, truncated, gamma, gae_lambda):
    advantages, following = np.zeros(len(rewards)), 0.0
    for t in reversed(range(len(rewards))):
        delta = rewards[t] + gamma * next_values[t] * (not terminated[t]) - values[t]
        following = delta + gamma * gae_lambda * (not (terminated[t] or truncated[t])) * following
        advantages[t] = following
    return advantages, advantages + values


def test_a_counter_example_with_numbers():
    def no_mask(r, v, nv, terminated, truncated, gamma, gae_lambda):
        return good_gae(r, v, nv, terminated & False, terminated | truncated, gamma, gae_lambda)

    report = diagnose(hooks=Hooks(gae=no_mask))
    first = report.suspects[0]
    assert first.key == "termination" and not report.ok and report.rank("termination") == 1 and report.rank("tanh") is None
    question = "rewards [1], V [0.5], V(next) [40], terminated at t = 0, γ = 0.5, λ = 0.5"
    assert f"{question}: expected Â = 0.5, got 20.5" in first.evidence[0]
    text = str(report)
    assert first.sentence[:40] in text and "expected Â = 0.5, got 20.5" in text and "to confirm:" in text
    assert max(map(len, text.splitlines())) <= 110 and len(text.splitlines()) <= 30
    assert text == str(diagnose(hooks=Hooks(gae=no_mask))) == repr(report)


def test_weights_of_all_findings_are_added():
    report = diagnose(hooks=Hooks(gae=lambda *a: tuple(x[::-1] for x in good_gae(*a))))
    order = report.suspects[0]
    assert order.key == "order" and order.weight == EXACT + 2 * HINT and len(order.evidence) == 3, order
    weights = [accused.weight for accused in report.suspects]
    assert weights == sorted(weights, reverse=True)


def test_an_empty_report_says_so():
    report = diagnose()
    assert report.ok and not report.passed and "Nothing was examined." in str(report)
    assert report.not_examined["gae"] == "no such hook was given"
    assert "training on probe environments" in report.not_examined


def test_the_text_shows_three_suspects_and_names_the_rest():
    accused = [Accused(key, "", ["x"], "", 9.0 - i) for i, key in enumerate(list(SUSPECTS)[:5])]
    text = str(Report(suspects=accused, failed={"a": "b"}))
    assert "3. " in text and "4. " not in text and f"Less likely: {accused[3].key} (6), {accused[4].key} (5)." in text


def test_blame_is_shared():
    assert blame(["clip", "ratio", "clip"], {}) == {"clip": 5.0, "ratio": 5.0} and blame([], {"clip": 1.0}) == {"clip": 1.0}


# ------------------------------------------------------------------------------------------------ what goes wrong in hooks


@pytest.mark.parametrize(
    ("gae", "words"),
    [
        (lambda *a: 1 / 0, "ZeroDivisionError"),
        (lambda *a: None, "must return (advantages, value_targets)"),
        (lambda *a: ("x", "y"), "expected numbers of shape"),
        (lambda *a: (np.full(len(a[0]), np.nan), a[0]), "not finite"),
        (lambda *a: (np.zeros((len(a[0]), 1)), a[0]), "returned shape (3, 1); expected (3,)"),
        (lambda *a: (torch.zeros(len(a[0]) + 1), a[0]), "returned shape (4,); expected (3,)"),
        (lambda rewards: rewards, "TypeError"),
    ],
)
def test_errors_in_a_hook_are_findings(gae, words):
    report = diagnose(hooks=Hooks(gae=gae))
    assert not report.ok and not report.passed and words in report.failed["advantages: order"], report.failed
    assert not report.errors or words in str(report)


def test_a_column_is_a_broadcast():
    normal = torch.distributions.Normal
    report = diagnose(hooks=Hooks(log_prob=lambda mean, log_std, a: normal(mean, log_std.exp()).log_prob(a)[:, :1]))
    assert report.rank("broadcast") == 1


@pytest.mark.parametrize("answer", [3.0, None, torch.tensor([1.0, 2.0]), torch.tensor(float("nan"), requires_grad=True)])
def test_a_loss_that_is_none(answer):
    report = diagnose(hooks=Hooks(policy_loss=lambda *a: answer, value_loss=lambda *a: answer, total_loss=lambda *a: answer))
    assert len(report.failed) == 6 and not report.passed


def test_errors_in_training_are_findings():
    def train(env_fn, seed, steps):
        raise RuntimeError("no GPU")

    report = diagnose(train, gamma=0.9, only=["training"])
    assert "train raised RuntimeError: no GPU" in str(report) and not report.suspects and report.errors
    report = diagnose(lambda env_fn, seed, steps: (lambda obs: "left"), gamma=0.9, only=["probe: rewarded action (Discrete)"])
    assert "act" in report.failed["probe: rewarded action (Discrete)"]
    report = diagnose(lambda env_fn, seed, steps: None, gamma=0.9, only=["probe: rewarded action (Discrete)"])
    assert "expected a function act(obs)" in report.failed["probe: rewarded action (Discrete)"]


# -------------------------------------------------------------------------------------------------- wrong use of diagnose


@pytest.mark.parametrize(
    ("arguments", "keywords", "error", "words"),
    [
        ((3,), {}, TypeError, "agent = 3"),
        ((PPO,), {}, TypeError, "expected an instance: PPO()"),
        ((PPO(gae_lambda=[0.9, 1.0]),), {}, ValueError, "lists of 2 settings"),
        ((None, {"gae": good_gae}), {}, TypeError, "expected Hooks(gae=my_gae"),
        ((), {"gamma": 1.0}, ValueError, "gamma = 1.0"),
        ((), {"gamma": "0.9"}, ValueError, "gamma = '0.9'"),
        ((), {"steps": 0}, ValueError, "steps = 0"),
        ((), {"seeds": 3}, ValueError, "seeds = 3"),
        ((), {"seeds": ()}, ValueError, "at least one"),
        ((), {"actions": "continuous"}, ValueError, '"discrete", "box" or "both"'),
        ((), {"value": 1}, TypeError, "value = 1"),
        ((), {"only": "gae"}, TypeError, "only=['gae']"),
        ((PPO(),), {"only": ["gea"]}, ValueError, "'gea' is no examination"),
    ],
)
def test_wrong_use_is_an_error(arguments, keywords, error, words):
    with pytest.raises(error, match=re.escape(words)):
        diagnose(*arguments, **keywords)


def test_hooks_are_functions():
    with pytest.raises(TypeError, match=r"Hooks\(gae=3\)"):
        Hooks(gae=3)
    with pytest.raises(TypeError):
        Hooks(gea=good_gae)


# -------------------------------------------------------------------------------------------- programs known to be perfect


class Perfect:
    """A program that does not learn, because it knows the answers: what it is asked, how often, and with what."""

    def __init__(self, choose, gamma=0.8, value=None):
        self.choose, self.gamma, self.calls, self.value = choose, gamma, [], value

    def __call__(self, env_fn, seed, steps):
        env = env_fn()
        env.reset(seed=seed)
        rng = np.random.default_rng(seed)
        for _ in range(20):
            env.step(int(rng.integers(2)) % getattr(env.action_space, "n", 2))
            env.reset()
        self.calls.append((type(env.unwrapped).__name__, seed, steps))

        def act(obs):
            return self.choose(env.unwrapped, float(obs[0]))

        if self.value is not None:
            act.value = lambda obs: self.value(env.unwrapped, float(obs[0]))
        return act


def best(env, obs):
    if hasattr(env, "best"):
        return env.best
    return int(obs >= 0) if env.num_actions > 1 else 0


def true_value(env, obs):
    return env.values(0.8)[np.argmin(np.abs(env.observations[:, 0] - obs))]


def test_the_answers_are_the_right_ones():
    train = Perfect(best, value=true_value)
    report = diagnose(train, gamma=0.8, seeds=(4, 5), steps=77)
    assert report.ok, str(report)
    assert {(seed, steps) for _, seed, steps in train.calls} == {(4, 77), (5, 77), (11, 600), (12, 600)}


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("EarlyReward", "order"),
        ("EndOrGoOn", "termination"),
        ("Patience", "discount"),
        ("RewardedAction", "policy_sign"),
        ("TruncatedInto", "truncation"),
    ],
)
def test_a_wrong_choice_names_its_fault(name, key):
    def choose(env, obs):
        decoy = name == "TruncatedInto" and getattr(env, "best", 1) == 0  # truncation as termination is right there
        wrong = type(env).__name__ == name and not decoy
        return 1 - best(env, obs) if wrong else best(env, obs)

    train = Perfect(choose)
    report = diagnose(train, gamma=0.8, seeds=(0,))
    assert report.rank(key) == 1 and len(report.failed) == 1, str(report)
    assert [steps for probe, _, steps in train.calls if probe == name and steps != 600][:2] == [2560, 7680]


def test_only_the_reset_observation_falls_for_the_decoy():
    report = diagnose(Perfect(lambda env, obs: 1 if getattr(env, "starts", 0) and env.best == 0 else best(env, obs)), gamma=0.8)
    assert [accused.key for accused in report.suspects] == ["reset_observation"]


def test_undecided_programs_are_not_called_wrong():
    rng = np.random.default_rng(0)
    report = diagnose(Perfect(lambda env, obs: int(rng.integers(env.num_actions))), gamma=0.8, seeds=(0,))
    assert not report.ok and "does not learn to avoid" in str(report) and report.rank("policy_sign") is None
    assert report.rank("no_gradient") == 1 and report.not_examined["probe: early reward (Discrete)"] == "an easier probe failed"


def test_seeds_that_disagree_show_a_policy_without_direction():
    trained = iter(range(100))

    def train(env_fn, seed, steps):
        wrong = next(trained) % 3 > 0
        return Perfect(lambda env, obs: 1 - best(env, obs) if wrong else best(env, obs))(env_fn, seed, steps)

    report = diagnose(train, gamma=0.8, only=["probe: rewarded action (Discrete)"])
    assert report.rank("order") == 1 and "with some seeds (share of right choices [1, 0, 0])" in str(report), str(report)


@pytest.mark.parametrize(
    ("mistake", "key"),
    [
        (lambda env, v: v * 0, "critic"),
        (lambda env, v: v + 4.0 * (type(env).__name__ in ("ConstantReward", "DelayedReward")), "termination"),
        (lambda env, v: 2.0 if type(env).__name__ == "TruncatedForever" else v, "truncation"),
        (lambda env, v: 1.0 if type(env).__name__ == "DelayedReward" else v, "discount"),
    ],
)
def test_wrong_values_name_their_fault(mistake, key):
    report = diagnose(Perfect(best, value=lambda env, obs: mistake(env, true_value(env, obs))), gamma=0.8, seeds=(0,))
    assert report.rank(key) == 1, str(report)


def test_values_by_a_function_and_no_values_at_all():
    train = Perfect(best)
    report = diagnose(train, gamma=0.8, seeds=(0,))
    assert report.ok and report.not_examined["probe: constant reward (Discrete)"].startswith("no value was given")
    assert len([call for call in train.calls if call[0] in ("ObservedReward", "DelayedReward")]) == 0
    report = diagnose(train, gamma=0.8, seeds=(0,), value=lambda act, obs: 1.0)
    assert "probe: constant reward (Discrete)" in report.passed and "probe: observed reward (Discrete)" in report.failed


def test_without_gamma_what_depends_on_it_is_left_out():
    report = diagnose(Perfect(best), seeds=(0,))
    assert report.ok and report.not_examined["probe: patience (Discrete)"] == "gamma was not given"


def test_train_may_take_gamma():
    seen = []

    def train(env_fn, seed, steps, gamma):
        seen.append(gamma)
        return Perfect(best)(env_fn, seed, steps)

    diagnose(train, gamma=0.7, seeds=(0,), only=["probe: rewarded action (Discrete)"])
    assert set(seen) == {0.7}


def test_a_policy_that_changes_when_it_is_loaded():
    healthy, sick = lambda act: (lambda obs: act(obs)), lambda act: (lambda obs: act(0 * obs))
    for reload, ok in ((healthy, True), (sick, False)):
        report = diagnose(Perfect(best), Hooks(reload=reload), gamma=0.8, only=["reload"])
        assert report.passed == ["save and load"] if ok else report.rank("observation_statistics") == 1, str(report)
    report = diagnose(Perfect(best), Hooks(reload=lambda act: None), gamma=0.8, only=["reload"])
    assert "expected a function act(obs)" in report.failed["save and load"]


def test_seeds_are_examined():
    rng = np.random.default_rng()

    def unseeded(env_fn, seed, steps):
        return Perfect(best)(env_fn, int(rng.integers(1e9)), steps)

    def same_seed(env_fn, seed, steps):
        return Perfect(best)(env_fn, 3, steps)

    def alike(env_fn, seed, steps):
        for env in (env_fn(), env_fn()):
            env.reset(seed=seed)
            for _ in range(5):
                env.reset()
        return Perfect(best)(env_fn, seed, steps)

    for train in (unseeded, same_seed, alike):
        report = diagnose(train, gamma=0.8, only=["seeds"])
        assert report.rank("seeding") == 1, str(report)
    assert diagnose(Perfect(best), only=["seeds"]).passed == ["seeds"]


def test_box_actions():
    def train(env_fn, seed, steps):
        env = env_fn()
        env.reset(seed=seed)
        for a in np.random.default_rng(seed).uniform(-1, 1, 9):
            env.step(np.array([a], np.float32))
            env.reset()
        u = env.unwrapped
        if hasattr(u, "best"):
            return lambda obs: np.array([2.0 * u.best - 1.0])
        return lambda obs: np.array([0.5 if type(u).__name__ == "RewardedAction" else obs[0] / 2])

    report = diagnose(train, gamma=0.8, actions="box", seeds=(0,))
    assert report.ok and all("Box" in name for name in report.passed if "probe" in name), str(report)


# --------------------------------------------------------------------------------------------------- parts, on their own


def test_numbers_are_shown_shortly():
    assert show(0.5) == "0.5" and show([1.0, 0.25]) == "[1, 0.25]" and show(torch.tensor([1 / 3])) == "[0.3333]"
    assert show(-0.0) == "0" and show(3) == "3" and show([[1.0], [2.0]]) == "[[1], [2]]"


def test_same_is_relative_above_one():
    assert same(1000.5, 1000.0) and not same(1002.0, 1000.0) and same(1e-4, 0.0) and not same([1.0], 1.0)


def test_a_refusal_of_a_wrong_shape():
    with pytest.raises(Refusal) as refusal:
        as_array("f", np.zeros((3, 1)), (3,))
    assert refusal.value.weights == {"broadcast": EXACT}


def test_the_sum_for_advantages_is_the_recursion():
    rng = np.random.default_rng(4)
    numbers, flags = rng.normal(size=(3, 30)), rng.random((2, 30)) < 0.2
    np.testing.assert_allclose(white_box.advantages_by_sums(*numbers, *flags, 0.9, 0.7), good_gae(*numbers, *flags, 0.9, 0.7)[0])


def honest_rollout(env_fn, num_steps, seed, value, change=lambda row, reset: None):
    env = env_fn()
    obs, _ = env.reset(seed=seed)
    rng, rows = np.random.default_rng(seed), []
    for _ in range(num_steps):
        action = rng.normal(size=1) if hasattr(env.action_space, "low") else int(rng.integers(3))
        following, reward, terminated, truncated, _ = env.step(np.clip(action, -1, 1) if np.ndim(action) else action)
        row = {"obs": obs, "action": action, "reward": reward, "terminated": terminated, "truncated": truncated}
        row |= {"value": value(obs[None])[0], "next_value": value(following[None])[0]}
        obs = env.reset()[0] if terminated or truncated else following
        change(row, value(obs[None])[0])
        rows.append(row)
    return {key: np.array([row[key] for row in rows]) for key in rows[0]}


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (None, None),
        (lambda row, reset: row.update(next_value=reset) if row["truncated"] else None, "reset_observation"),
        (lambda row, reset: row.update(next_value=0.0) if row["truncated"] else None, "truncation"),
        (lambda row, reset: row.update(terminated=True, truncated=False) if row["truncated"] else None, "truncation"),
        (lambda row, reset: row.update(terminated=False), "termination"),
        (lambda row, reset: row.update(action=np.clip(row["action"], -1, 1)), "clipped_action"),
        (lambda row, reset: row.update(reward=row["reward"] + 1), "order"),
        (lambda row, reset: row.update(value=row["next_value"]), "order"),
        (lambda row, reset: row.update(next_value=row["value"]), "order"),
    ],
)
def test_rows_of_a_rollout(change, key):
    def rollout(*arguments):
        return honest_rollout(*arguments, change or (lambda row, reset: None))

    report = diagnose(hooks=Hooks(rollout=rollout), actions="both")
    assert report.ok if key is None else report.rank(key) == 1, str(report)
    if key == "reset_observation":  # nothing else would give just this number
        assert report.suspects[0].weight == 2 * EXACT and "after the reset" in report.suspects[0].evidence[0]


@pytest.mark.parametrize(("actions", "kinds"), [("discrete", {True}), ("box", {False}), ("both", {True, False})])
def test_rollouts_are_asked_for_with_the_actions_that_were_named(actions, kinds):
    def rollout(env_fn, *arguments):
        asked.add(hasattr(env_fn().action_space, "n"))
        return honest_rollout(env_fn, *arguments)

    asked = set()
    assert diagnose(hooks=Hooks(rollout=rollout), actions=actions).ok and asked == kinds


def test_the_trust_region_is_examined_where_its_limit_binds():
    case = own_agents.Case(own_agents.DISCRETE)
    region = own_agents._Region(case, own_agents.normalised(case.advantages()).ravel())
    whole, shortened, refused = region.telling_limits()
    assert same(region.step(*whole), region.full(*whole[:2]))
    assert region.step(*shortened).any() and not same(region.step(*shortened), region.full(*shortened[:2]))
    assert not region.step(*refused).any()


def test_reset_rows_are_found_unless_they_are_marked():
    def rollout(env_fn, num_steps, seed, value, marked):
        """As a NEXT_STEP environment hands them out: one more row after each end, whose action is ignored."""
        data = honest_rollout(env_fn, num_steps, seed, value)
        rows = {key: [] for key in (*data, "valid")}
        for t in range(num_steps):
            over = data["terminated"][t] or data["truncated"][t]
            for extra in [False, True][: 1 + over]:
                row = {key: data[key][t] for key in data} | {"valid": not extra}
                if extra:
                    number = data["next_value"][t]
                    row |= {"obs": np.array([number / 1000, 0.5], np.float32), "reward": 0.0, "terminated": False}
                    row |= {"truncated": False, "value": number}
                for k, v in row.items():
                    rows[k].append(v)
        if not marked:
            del rows["valid"]
        return {key: np.array(column) for key, column in rows.items()}

    for marked in (False, True):
        report = diagnose(hooks=Hooks(rollout=lambda *a, m=marked: rollout(*a, m)))
        assert report.ok if marked else report.rank("reset_rows") == 1, str(report)


def test_backward_rows_are_out_of_order():
    report = diagnose(hooks=Hooks(rollout=lambda *a: {k: v[::-1] for k, v in honest_rollout(*a).items()}))
    assert report.rank("order") == 1


def test_the_numbered_world_writes_its_diary():
    diary, first = {}, []
    env = rollouts.Numbered(diary, first, False)
    env.reset(seed=0)
    for _ in range(3):
        obs, *_ = env.step(1)
    assert first == [1] and diary[3][1:] == (0.3, True, False, 4) and rollouts.value_of(obs[None]) == [4]


def test_no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        diagnose(TRPO(), only=FUNCTIONS)


def test_a_healthy_algorithm_in_training():
    report = diagnose(A2C(), seeds=(0, 1, 2))
    assert report.ok and not report.suspects, str(report)
    assert set(report.passed) >= {f"probe: {probe.name} (Discrete)" for probe in the_probes(0.8)} and not report.not_examined
