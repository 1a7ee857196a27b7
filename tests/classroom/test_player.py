import base64
import io
import json
import re

import gymnasium
import numpy as np
import pytest
from PIL import Image

from rlcourse import VPG, train
from rlcourse.classroom import player, watch


@pytest.fixture(scope="module")
def policies():
    return {
        env: train(VPG(num_envs=4, num_steps=32), env, total_steps=256, seeds=[0], progress=False).policy()
        for env in ("CartPole-v1", "Pendulum-v1")
    }


def frames(seen):
    """The frames of a player as they are in its page, decoded."""
    data = json.loads(re.search(r"<script[^>]*>(.*?)</script>", seen.value)[1])
    files = [base64.b64decode(url.partition(",")[2]) for url in data["frames"]]
    return [np.asarray(Image.open(io.BytesIO(file)).convert("RGB")) for file in files], data


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_it_shows_the_episode_that_it_tells_of(policies, env):
    seen = watch(policies[env], env, seed=3)
    again = gymnasium.make(env, render_mode="rgb_array")
    obs, _ = again.reset(seed=3)
    generator, total, ended, pictures = np.random.default_rng(3), 0.0, False, [again.render()]
    while not ended:
        obs, reward, terminated, truncated, _ = again.step(policies[env].act(obs, generator=generator))
        total, ended = total + reward, terminated or truncated
        pictures.append(again.render())
    again.close()
    assert seen.total_reward == pytest.approx(total) and seen.length == len(pictures) - 1
    assert seen.ending.startswith("terminated" if terminated else "truncated") and seen.ending in seen.alt
    shown, data = frames(seen)
    assert len(shown) == len(pictures) and data["steps"] == [*range(len(pictures))]
    for one, picture in ((shown[0], pictures[0]), (shown[-1], pictures[-1])):
        small = np.asarray(Image.fromarray(picture).resize((one.shape[1], one.shape[0]), Image.Resampling.BOX), float)
        assert np.sqrt(np.mean((one - small) ** 2)) < 6 and one.shape[1] == player.FRAME_WIDTH
    assert np.abs(shown[0].astype(float) - shown[-1]).max() > 50  # something has moved


def test_what_a_stored_notebook_keeps_is_a_strip_with_alt_text(policies):
    seen = watch(policies["CartPole-v1"], "CartPole-v1")
    data, metadata = seen._repr_mimebundle_()
    assert {"image/png", "text/plain", "application/vnd.jupyter.widget-view+json"} == set(data)
    assert data["text/plain"] == "[episode of CartPole-v1]" and len(data["image/png"]) < 60_000
    assert f"return {seen.length} in {seen.length} steps, terminated" in metadata["image/png"]["alt"]


def test_controls_have_names_and_nothing_starts_by_itself(policies):
    page = watch(policies["CartPole-v1"], "CartPole-v1").value
    assert page.count("<button") == page.count('data-lm-suppress-shortcuts="true"') - 1 == 3
    assert 'type="range" aria-label="frame"' in page and "autoplay" not in page
    assert page.count("setInterval") == 1 and "p.onclick=()=&gt;{" in page.partition("setInterval")[0]


def test_a_long_or_colourful_episode_is_thinned_out():
    noise = np.random.default_rng(0).integers(0, 256, (60, 600, 900, 3), dtype=np.uint8)
    files = [player._small(frame) for frame in noise]
    urls, steps = player.thin_out(files, max_bytes=1_000_000)
    assert all(url.startswith("data:image/jpeg") for url in urls) and sum(map(len, urls)) <= 1_000_000
    assert steps[0] == 0 and steps[-1] == 59 and 2 < len(steps) < 60 and set(np.diff(steps[:-1])) == {steps[1]}


def test_deterministic_acts_with_the_mode_and_max_steps_ends_it(policies):
    policy = policies["Pendulum-v1"]
    one, two = (watch(policy, "Pendulum-v1", seed=1, deterministic=True, max_steps=7) for _ in range(2))
    assert one.length == 7 and one.ending == "stopped after 7 steps" and one.value == two.value
    assert one.total_reward != watch(policy, "Pendulum-v1", seed=1, max_steps=7).total_reward
    assert len(watch(policy, "Pendulum-v1", max_steps=1).value) > 0


def test_what_it_cannot_show_is_refused(policies):
    closed = []

    def blind():
        env = gymnasium.make("CartPole-v1")
        env.close = lambda: closed.append(True)
        return env

    with pytest.raises(ValueError, match=r"render_mode = None.*lambda: gymnasium.make"):
        watch(policies["CartPole-v1"], blind)
    assert closed == [True]
    with pytest.raises(ValueError, match="shape"):
        watch(policies["CartPole-v1"], "Pendulum-v1")
    with pytest.raises(TypeError, match=r"result.policy\(0\)"):
        watch("policy", "CartPole-v1")
    with pytest.raises(TypeError, match="env = 5; expected a Gymnasium id or a function"):
        watch(policies["CartPole-v1"], 5)
    with pytest.raises(ValueError, match="seed must be at least 0, but is -1"):
        watch(policies["CartPole-v1"], "CartPole-v1", seed=-1)
    with pytest.raises(ValueError, match="max_steps = 0"):
        watch(policies["CartPole-v1"], "CartPole-v1", max_steps=0)
