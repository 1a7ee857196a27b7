"""One-line faults of the tabular worlds."""

MODULE = "rlcourse.worlds.tabular"
TESTS = ["tests/worlds/test_tabular.py"]
FAULTS = [
    (
        "value looks one step ahead only",
        "return torch.eye(self.num_states, dtype=torch.float64) - gamma * move",
        "return torch.eye(self.num_states, dtype=torch.float64) - gamma * gamma * move",
        "Every exact value is too small.",
    ),
    (
        "visits flow backwards",
        "torch.linalg.solve(system.mT, self.start",
        "torch.linalg.solve(system, self.start",
        "The theorem weighs states by how often they lead on, not by how often they are visited.",
    ),
    (
        "gamma missing from Q",
        "return self.reward + self.gamma * torch.einsum",
        "return self.reward + torch.einsum",
        "Advantages of a policy no longer average to 0.",
    ),
    (
        "advantage relative to the best action",
        "self.q_values(pi) - self.values(pi).unsqueeze(-1)",
        "self.q_values(pi) - self.q_values(pi).amax(-1, keepdim=True)",
        "All advantages are 0 or less, and every action is discouraged.",
    ),
    (
        "undiscounted visits in the theorem",
        "return _weighted_gradient(mdp.discounted_state_distribution(pi), ",
        "return _weighted_gradient(mdp.state_visits(pi), ",
        "The exact gradient is the field that code without gamma^t follows.",
    ),
    (
        "discounted visits in the dropped field",
        "return _weighted_gradient(mdp.state_visits(pi), ",
        "return _weighted_gradient(mdp.discounted_state_distribution(pi), ",
        "Dropping gamma^t seems to cost nothing.",
    ),
    (
        "visits scaled to sum to one",
        "return (1 - self.gamma) * visits if normalised else visits",
        "return visits / visits.sum(-1, keepdim=True) if not normalised else visits",
        "The exact gradient is right up to a factor only.",
    ),
    (
        "score of the probability",
        "jacobian(lambda parameters: policy(parameters).log(), theta)",
        "jacobian(lambda parameters: policy(parameters), theta)",
        "Rare actions are hardly credited.",
    ),
    (
        "one-sided differences",
        "(f(theta + step) - f(theta - step)) / (2 * h)",
        "(f(theta + step) - f(theta)) / h",
        "Checks against finite differences fail at 1e-8 although the formula is right.",
    ),
    (
        "factor two lost",
        "(f(theta + step) - f(theta - step)) / (2 * h)",
        "(f(theta + step) - f(theta - step)) / h",
        "Every check against finite differences is off by 2.",
    ),
    (
        "performance difference on the old states",
        "mdp.discounted_state_distribution(new_pi), new_pi,",
        "mdp.discounted_state_distribution(old_pi), new_pi,",
        "The lemma becomes the surrogate of lesson 04: right only for small changes.",
    ),
    (
        "Fisher matrix without the policy",
        '"s,sa,sad,sae->de", mdp.discounted_state_distribution(pi), pi, score',
        '"s,sa,sad,sae->de", mdp.discounted_state_distribution(pi), 0 * pi + 1, score',
        "Rare actions count as much as common ones in the metric.",
    ),
    (
        "fit weighted by the square",
        ".unsqueeze(-1) * pi).sqrt()",
        ".unsqueeze(-1) * pi)",
        "The compatible critic is not the natural gradient.",
    ),
    (
        "return without discount",
        "np.bincount(self.episode, gamma**self.time * self.reward",
        "np.bincount(self.episode, self.reward",
        "Late rewards count in full.",
    ),
    (
        "return to go without discount",
        "self.reward[rows] + gamma * following[",
        "self.reward[rows] + following[",
        "Late rewards count in full.",
    ),
    (
        "return to go of the neighbour",
        "following[self.episode[rows]] = result[rows]",
        "following[self.episode[rows] - 1] = result[rows]",
        "Credit leaks from one episode into the next.",
    ),
    (
        "draws from half of the range",
        "(rng.random(len(cdf))[:, None] >= cdf).sum(-1)",
        "(rng.random(len(cdf))[:, None] / 2 >= cdf).sum(-1)",
        "Sampled frequencies are not the probabilities.",
    ),
    (
        "all runs play the first policy",
        "action_cdf[alive // num_episodes * mdp.num_states + state]",
        "action_cdf[0 * alive + state]",
        "All runs of a population are the first.",
    ),
    (
        "next state drawn for another action",
        "state = _draw(next_cdf[pair], rng)",
        "state = _draw(next_cdf[state * mdp.num_actions], rng)",
        "Actions do not matter for where the episode goes.",
    ),
    (
        "end counted as certain",
        "so_far * end[state, action]))",
        "so_far))",
        "The probabilities of all trajectories sum to more than 1.",
    ),
    (
        "dynamics left out of the probability",
        "so_far * mdp.transition[state, action, following]))",
        "so_far))",
        "Listed trajectories are all as likely as their actions alone.",
    ),
    (
        "states mixed up in the estimate",
        "(trajectories.episode * num_states + trajectories.state) * num_actions",
        "(trajectories.episode * num_states) * num_actions",
        "All steps are credited to the first state.",
    ),
    (
        "never-ending policies accepted",
        "if not ending.all():",
        "if not ending.any():",
        "A policy that never ends gets an enormous or meaningless value.",
    ),
    (
        "rows may sum to more than one",
        "if (row_sum > 1 + TOLERANCE).any():",
        "if (row_sum > 2).any():",
        "A typing mistake in a table gives values that grow for ever.",
    ),
    (
        "negative probabilities accepted",
        "bad = ~(table >= 0)",
        "bad = table != table",
        "A typing mistake in a table gives plausible wrong values.",
    ),
    (
        "swapped cell not swapped",
        "(1, 0, 2), (1, 1, 0)",
        "(1, 0, 0), (1, 1, 2)",
        "The corridor is solved by always going right.",
    ),
    (
        "terminal states go on",
        "probability * (not terminated)",
        "probability",
        "Holes and the goal are states in which the lake never ends.",
    ),
]
