MODULE = "rlcourse.agents.rollout"
TESTS = ["tests/agents/test_rollout.py", "tests/agents/test_policies.py"]
FAULTS = [
    (
        "bootstrap from the reset observation",
        "as_input(successor))",
        "as_input(obs))",
        "Values near time limits are those of start states.",
    ),
    ("final observation ignored", "if truncated[t].any():", "if False:", "Values near time limits are those of start states."),
    (
        "value of the same state twice",
        "value[1:].copy()",
        "value[:-1].copy()",
        "Advantages are rewards minus a bit of value: learning is slow.",
    ),
    (
        "observation after the action",
        "Rollout(all_obs[:-1]",
        "Rollout(all_obs[1:]",
        "Actions are credited to states in which they were not taken.",
    ),
    ("one noise for all steps", "noise[t])", "noise[0])", "Exploration repeats itself through the rollout."),
    ("runs and time not transposed", ".transpose(0, 1)\n    return", "\n    return", "Rows of all runs are mixed."),
    ("episode return never reset", "self.running[i] = 0.0", "pass", "Reported returns grow without end."),
    (
        "truncated episodes not counted",
        "terminated[t] | truncated[t])",
        "terminated[t])",
        "Solved tasks report no episodes, or huge returns.",
    ),
    (
        "statistics of scaled rewards",
        "episodes.record(reward[t]",
        "episodes.record(reward[t] * 0.1",
        "Reported returns depend on reward_scale.",
    ),
    ("reward scale not applied", "scale[:, None] if scale.ndim else scale", "1.0", "reward_scale changes nothing."),
    (
        "returns credited to the next run",
        "self.recent[i // self.num_envs].append",
        "self.recent[i // self.num_envs - 1].append",
        "Curves of the runs are exchanged.",
    ),
    (
        "minibatch of the first rows",
        "self.rows(agent.permutations(len(self)))",
        "self.rows(agent.permutations(len(self)) * 0)",
        "Only one row is ever learned from.",
    ),
    ("window of ten episodes", "window: int = 100", "window: int = 10", "Reported returns jump up and down."),
    (
        "rows in the order of time",
        "shuffled = self.rows(agent.permutations(len(self)))",
        "shuffled = self",
        "Minibatches are pieces of single moments, so their gradients pull to and fro.",
    ),
    (
        "the uneven rest dropped",
        "size * i + min(i, larger)",
        "size * i",
        "Some rows are never learned from.",
    ),
    (
        "squashing left out",
        "env.step(agent.head.squash(action[t].flatten(0, 1).numpy()))",
        "env.step(action[t].flatten(0, 1).numpy())",
        "bounds='tanh' acts like bounds='clip'.",
    ),
]
