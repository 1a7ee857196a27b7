"""What lesson 05 computes: a real batch under the clip, its widget, the rule of the ablation, and the numbers that it quotes."""

import dataclasses
import json
import re
import time

import numpy as np
import pytest
import torch

from rlcourse import recommended
from rlcourse.classroom import lesson_05, new_figure
from rlcourse.classroom.data import DATA, data_path
from rlcourse.classroom.explorer import View
from rlcourse.classroom.figures import layout_faults
from rlcourse.experiments.statistics import interquartile_mean


def prose():
    notebook = json.loads((DATA.parent / "05_ppo_clip.ipynb").read_text(encoding="utf-8"))
    text = "\n".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    return text.replace("−", "-").replace("\u202f", " ")


# ---------------------------------------------------------------------------------------------------------- the real batch


def test_the_agent_is_copied_and_has_not_learned_from_the_batch():
    before, rollout = lesson_05.agent_and_batch()
    one = lesson_05.epochs_on_one_batch(0.2)
    after, same = lesson_05.agent_and_batch()
    torch.testing.assert_close(before.parameters, after.parameters, rtol=0, atol=0)
    assert same is rollout and before is not after
    with torch.no_grad():
        obs, action = rollout.rows(rollout.obs), rollout.rows(rollout.action)
        expected = torch.log_softmax(before.policy(obs).logits, -1)[0].gather(-1, action[0][:, None].long())[:, 0]
    torch.testing.assert_close(one.old_log_prob, expected, rtol=1e-5, atol=1e-6)


def test_one_row_per_epoch():
    one = lesson_05.epochs_on_one_batch(0.2)
    assert one.ratio.shape == (lesson_05.EPOCHS, 1024) and one.kl.shape == (lesson_05.EPOCHS,) and (one.kl > 0).all()
    assert abs(one.advantage.mean()) < 1e-5 and abs(one.advantage.square().mean() - 1) < 1e-4
    np.testing.assert_allclose(one.clip_fractions(0.2), (np.abs(one.ratio - 1) > 0.2).mean(1), atol=2e-3)
    log_ratio = np.log(one.ratio.astype(float))
    expected = [-log_ratio.mean(1), 0.5 * (log_ratio**2).mean(1), (one.ratio - 1 - log_ratio).mean(1)]
    np.testing.assert_allclose(one.estimates(), expected, atol=1e-5)
    np.testing.assert_allclose(one.estimates()[2].mean(), one.kl.mean(), rtol=0.3)  # k3 on the batch near the true KL


def test_ten_epochs_are_ten_calls_of_one_training():
    """The first epoch does not depend on how many follow: the same minibatches, the same steps."""
    agent, rollout = lesson_05.agent_and_batch()
    agent.begin_update()
    dataclasses.replace(lesson_05.ONE_BATCH, clip_epsilon=0.2, update_epochs=1).update(agent, rollout)
    with torch.no_grad():
        log_prob = agent.policy(rollout.rows(rollout.obs)).log_prob(rollout.rows(rollout.action))[0]
    torch.testing.assert_close(log_prob, lesson_05.epochs_on_one_batch(0.2).log_prob[0], rtol=1e-4, atol=1e-5)


def test_what_the_lesson_says_about_batches_holds_for_other_seeds():
    for seed in (1, 2):
        kept, free = (lesson_05.epochs_on_one_batch(epsilon, seed) for epsilon in (0.3, lesson_05.NO_CLIP))
        assert np.median(free.kl) > 5 * np.median(kept.kl) and np.median(kept.kl) < 3 * 0.3**2 / 2
        assert kept.ratio.max() > 1.35 and (np.abs(kept.ratio - 1) > 0.3).any(1).sum() >= 5


# ---------------------------------------------------------------------------------------------------------------- the widget


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("epsilon", [0.1, 0.5])
def test_objective_and_slope_by_hand(sign, epsilon):
    view = lesson_05.clip_view(epsilon, sign, 1)
    rho = lesson_05.RATIOS
    np.testing.assert_allclose(view.objective, np.minimum(rho * sign, np.clip(rho, 1 - epsilon, 1 + epsilon) * sign), atol=1e-8)
    inside = (rho > view.flat[0] + 1e-9) & (rho < view.flat[1] - 1e-9)
    edge = np.isclose(rho, 1 + sign * epsilon) | (rho == 0) | (rho == 2)
    np.testing.assert_allclose(view.gradient[inside], 0, atol=1e-12)
    np.testing.assert_allclose(view.gradient[~inside & ~edge], sign, rtol=1e-9)
    assert view.flat == ((1 + epsilon, 2.0) if sign > 0 else (0.0, 1 - epsilon))


def test_histogram_counts_the_samples_with_that_sign():
    up, down = lesson_05.clip_view(0.2, 1, 4), lesson_05.clip_view(0.2, -1, 4)
    assert up.counts.sum() == len(up.ratio) and len(up.ratio) + len(down.ratio) == 1024
    batch = lesson_05.epochs_on_one_batch(0.2)
    outside = np.abs(batch.ratio[3] - 1) > 0.2
    assert (np.abs(np.concatenate([up.ratio, down.ratio]) - 1) > 0.2).sum() == outside.sum()
    sentence = lesson_05.describe_clip(up, 0.2, 1, 4)
    assert f"of {len(up.ratio)} samples with this sign {(up.ratio > 1.2).sum()} lie in the zone" in sentence
    assert f"{(down.ratio < 0.8).sum()} lie in the zone" in lesson_05.describe_clip(down, 0.2, -1, 4)


def test_widget_is_sound_everywhere_and_fast_where_it_has_been():
    parts = ("title", "compute", "draw", "describe", "controls", "size")
    assert View(**{name: lesson_05.CLIP[name] for name in parts}).trouble() == []
    started = time.process_time()
    for epoch in range(1, 11):
        lesson_05.clip_view(0.2, 1, epoch)
    assert (time.process_time() - started) / 10 < 0.05


# ------------------------------------------------------------------------------------------------------ the rule of the ablation


def stored_scores(*rows):
    return {"names": np.array(["base", *map(str, range(len(rows) - 1))]), "score": np.array(rows)}


def test_verdicts_by_construction():
    base = np.arange(20.0)
    better, worse, same, outlier = lesson_05.effects(
        stored_scores(base, base + 30, base - 30, base[::-1], base - 1e6 * (base == 0))
    )
    assert [effect.verdict for effect in (better, worse)] == ["better", "worse"]
    assert [effect.verdict for effect in (same, outlier)] == ["no detectable effect here"] * 2
    assert better.difference == 30 and same.difference == 0 and better.low < 30 < better.high


def test_the_rule_rarely_cries_wolf_and_sees_what_is_there():
    rng, alarms, missed = np.random.default_rng(0), 0, 0
    for repeat in range(60):
        base, other, same = rng.normal(200, 20, (3, 20))
        found = lesson_05.effects(stored_scores(base, other + 40, same), seed=repeat)  # + 40: two standard deviations
        alarms += found[1].verdict != "no detectable effect here"
        missed += found[0].verdict != "better"
    assert alarms <= 8 and missed <= 3  # at level 1 − 0.05/2; SciPy's binom: more than 8 of 60 at 4 % has probability 0.1 %


def test_each_variant_changes_one_thing_and_the_placebo_none():
    for base in (lesson_05.CARTPOLE, lesson_05.PENDULUM):
        for name, settings in lesson_05.variants(base).items():
            changed = [key for key, value in vars(base).items() if getattr(settings, key) != value]
            if name in (lesson_05.PLACEBO, "KL penalty, not clip"):
                assert changed == [] and (type(settings) is type(base)) == (name == lesson_05.PLACEBO)
            else:
                assert len(changed) == 1, name
    assert not set(lesson_05.ABLATION_SEEDS) & set(lesson_05.PLACEBO_SEEDS)


def test_the_ablation_turns_around_the_settings_of_the_lesson():
    assert lesson_05.CARTPOLE == recommended("PPO", "CartPole-v1")
    assert lesson_05.PENDULUM == recommended("PPO", "Pendulum-v1")


def test_figures_have_room_for_their_texts():
    rng = np.random.default_rng(0)
    names = ["as in the lesson", *lesson_05.variants(lesson_05.CARTPOLE)]
    found = lesson_05.effects({"names": np.array(names), "score": rng.normal(200, 20, (len(names), 20))})
    fig, axes = new_figure(1, 2, size=(9, 6.2))
    for ax in axes:
        lesson_05.draw_effects(ax, found, labels=ax is axes[0])
    assert layout_faults(fig) == []


# --------------------------------------------------------------------------------------------------------- the stored results


@pytest.mark.parametrize("name", lesson_05.DATA)
def test_a_stored_file_says_how_it_was_made_and_the_text_agrees(name):
    facts = json.loads(str(np.load(data_path(name))["facts"]))
    assert facts["command"] == f"python tools/make_data.py lesson_05 {name}"
    assert "`python tools/make_data.py lesson_05`" in prose() and name in prose()
    assert {"python", "torch", "numpy", "gymnasium"} <= set(facts["versions"])


@pytest.mark.parametrize(("name", "base"), [("cartpole", lesson_05.CARTPOLE), ("pendulum", lesson_05.PENDULUM)])
def test_the_ablation_has_all_variants_and_finite_scores(name, base):
    stored = np.load(data_path(f"05_ablation_{name}.npz"))
    assert stored["names"].tolist() == ["as in the lesson", *lesson_05.variants(base)]
    assert stored["score"].shape == (19, len(lesson_05.ABLATION_SEEDS)) and np.isfinite(stored["score"]).all()
    assert stored["curve"].shape == (*stored["score"].shape, len(stored["env_steps"]))
    placebo = lesson_05.effects(stored)[-1]
    assert placebo.name == lesson_05.PLACEBO and placebo.verdict == "no detectable effect here"


def test_the_text_gives_the_stored_verdicts():
    """The table under the figure: every variant with a verdict, the strongest first; the others are counted."""
    for verdict in ("better", "worse", "no detectable effect here"):
        cells = []
        for name in ("cartpole", "pendulum"):
            found = [e for e in lesson_05.effects(np.load(data_path(f"05_ablation_{name}.npz"))) if e.verdict == verdict]
            strongest = sorted(found, key=lambda effect: -abs(effect.difference))
            listed = "; ".join(f"{effect.name} **{effect.difference:+.0f}**" for effect in strongest)
            cells.append(f"the other {len(found)}, placebo included" if verdict.startswith("no") else listed or "none")
        assert f"| {verdict} | {cells[0]} | {cells[1]} |" in prose(), (verdict, cells)


def test_other_numbers_that_the_text_quotes():
    stored = {name: np.load(data_path(f"05_ablation_{name}.npz")) for name in ("cartpole", "pendulum")}
    scores = [interquartile_mean(data["score"][0]) for data in stored.values()]
    assert f"{scores[0]:.0f} on CartPole and {scores[1]:.0f} on Pendulum" in prose()
    found = {name: lesson_05.effects(data) for name, data in stored.items()}
    edge = next(effect for effect in found["cartpole"] if effect.name.startswith("early stop"))
    assert f"has the interval [{edge.low:+.0f}, {edge.high:+.0f}]" in prose()
    for name, (half, score) in {"cartpole": (20, 305), "pendulum": (40, 711)}.items():
        widths = [effect.high - effect.low for effect in found[name] if effect.verdict.startswith("no")]
        assert 0.75 * half < np.median(widths) / 2 < 1.25 * half and f"±{half} of {score}" in prose()
    kl = np.median(stored["cartpole"]["kl"], axis=1)
    row = stored["cartpole"]["names"].tolist().index("no clip")
    assert 45 < kl[row] / kl[0] < 55 and "about fifty times in the stored runs" in prose()


def medians(data, algorithm):
    """Median over the seeds at each stored point, -inf before the first episode has ended."""
    returns = data[f"{algorithm}_mean_return"]
    return np.median(np.where(np.isfinite(returns), returns, -np.inf), 0)


def test_the_race_as_told():
    for name, target in (("cartpole", 475), ("pendulum", -200)):
        data = np.load(data_path(f"05_race_{name}.npz"))
        for algorithm in ("VPG", "TRPO", "PPO"):
            there = medians(data, algorithm) >= target
            first = there.argmax()
            steps, seconds = data[f"{algorithm}_env_steps"][first], data[f"{algorithm}_seconds"][first]
            told = f"{steps / 1000:.0f},000 and {seconds:.0f} s" if there.any() else "not reached"
            assert re.search(rf"\| {algorithm} \|[^\n]*{told}", prose()), (name, algorithm, told)
    end, when = medians(data, "TRPO")[-1], data["TRPO_seconds"][-1]  # Pendulum
    meanwhile = round(np.interp(when, data["PPO_seconds"], medians(data, "PPO")), -1)
    assert f"over after {when:.0f} s, at a median of {end:.0f}, when PPO stands at about {meanwhile:.0f}" in prose()
    assert f"on its way then, at a median of {medians(data, 'VPG')[-1]:.0f}" in prose()
