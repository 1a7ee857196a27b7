"""Tabular worlds: Markov decision processes small enough to be solved exactly.

Everything the policy-gradient theorem speaks of is a number here: V, Q, A, J, the state distribution and the gradient itself.
Exact answers are torch float64 and differentiable in the policy; sampled trajectories are NumPy rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real

import gymnasium
import numpy as np
import torch
from torch import Tensor
from torch.autograd.functional import jacobian

Policy = Callable[[Tensor], Tensor]  # parameters theta -> table pi, shape (..., S, A)
TOLERANCE = 1e-9  # how far a sum of probabilities may lie from where it should be


@dataclass(frozen=True, eq=False)
class TabularMDP:
    """A finite Markov decision process, with every quantity of a policy computed by one linear solve.

        P(s_{t+1} = s' | s_t = s, a_t = a) = transition[s, a, s'],        1 - sum_{s'} transition[s, a, s'] = P(the episode ends)

    There are no terminal states: what is missing from a row is the probability that the episode ends after that step. So
    gamma = 1 works wherever the policy surely ends.

    Args:
        transition: (S, A, S) probabilities, rows sum to at most 1.
        reward: (S, A) expected reward of taking action a in state s.
        gamma: discount, in [0, 1].
        start: (S,) distribution of s_0.

    Raises:
        ValueError: shapes disagree, a probability is negative or not finite, a row sums to more than 1, gamma outside [0, 1].
        TypeError: gamma is no number.

    Every method takes a policy table `pi` of shape (..., S, A), rows summing to 1, and is differentiable in it.
    Reference: Sutton & Barto (2018), ch. 3 (we write r_t for the reward that follows a_t; they write R_{t+1}).
    """

    transition: Tensor
    reward: Tensor
    gamma: float
    start: Tensor

    def __post_init__(self):
        for name in ("transition", "reward", "start"):
            # a copy: what is checked here cannot be changed from outside
            object.__setattr__(self, name, torch.as_tensor(getattr(self, name), dtype=torch.float64).clone())
        transition, reward, start = self.transition, self.reward, self.start
        if transition.ndim != 3 or transition.shape[0] != transition.shape[2] or 0 in transition.shape:
            raise ValueError(f"transition must have shape (S, A, S) with S, A >= 1, got {tuple(transition.shape)}")
        if reward.shape != transition.shape[:2]:
            raise ValueError(f"reward must have shape (S, A) = {tuple(transition.shape[:2])}, got {tuple(reward.shape)}")
        if start.shape != transition.shape[:1]:
            raise ValueError(f"start must have shape (S,) = {tuple(transition.shape[:1])}, got {tuple(start.shape)}")
        if not isinstance(self.gamma, Real) or isinstance(self.gamma, bool):
            raise TypeError(f"gamma must be a number in [0, 1], got {self.gamma!r}")
        if not 0.0 <= self.gamma <= 1.0:
            raise ValueError(f"gamma must lie in [0, 1], got {self.gamma}")
        if not torch.isfinite(reward).all():
            raise ValueError("reward holds a value that is not finite; give every (state, action) a number, 0 if it pays nothing")
        _check_probabilities("transition", transition)
        _check_probabilities("start", start)
        row_sum = transition.sum(-1)
        if (row_sum > 1 + TOLERANCE).any():
            s, a = divmod(int(row_sum.argmax()), self.num_actions)
            raise ValueError(f"transition[{s}, {a}] sums to {float(row_sum[s, a]):.6g}; a row may sum to at most 1 "
                             "(what is missing is the probability that the episode ends)")
        if abs(float(start.sum()) - 1) > TOLERANCE:
            raise ValueError(f"start must sum to 1, got {float(start.sum()):.6g}")

    @property
    def num_states(self) -> int:
        return self.transition.shape[0]

    @property
    def num_actions(self) -> int:
        return self.transition.shape[1]

    def values(self, pi: Tensor) -> Tensor:
        """V(s): expected discounted return from s on.

            V = r_pi + gamma P_pi V      so      V = (I - gamma P_pi)^(-1) r_pi

        Args:
            pi: (..., S, A) policy table.
        Returns:
            (..., S).
        Raises:
            ValueError: gamma = 1 and the policy never ends from some state (the system is singular).
        Reference: Sutton & Barto (2018), eq. 3.14.
        """
        pi = self._check_policy(pi)
        return torch.linalg.solve(self._system(pi, self.gamma), (pi * self.reward).sum(-1, keepdim=True)).squeeze(-1)

    def q_values(self, pi: Tensor) -> Tensor:
        """Q(s, a) = r(s, a) + gamma sum_{s'} P(s' | s, a) V(s'), shape (..., S, A).

        Reference: Sutton & Barto (2018), exercise 3.13.
        """
        return self.reward + self.gamma * torch.einsum("sat,...t->...sa", self.transition, self.values(pi))

    def advantages(self, pi: Tensor) -> Tensor:
        """A(s, a) = Q(s, a) - V(s), shape (..., S, A): how much better than the policy's own average action a is in s."""
        return self.q_values(pi) - self.values(pi).unsqueeze(-1)

    def expected_return(self, pi: Tensor) -> Tensor:
        """J = sum_s start(s) V(s): the number that learning is to raise. Shape (...)."""
        return self.values(pi) @ self.start

    def discounted_state_distribution(self, pi: Tensor, *, normalised: bool = False) -> Tensor:
        """How often each state is visited, a visit at time t counting gamma^t.

            d(s) = sum_{t>=0} gamma^t P(s_t = s)      so      d = (I - gamma P_pi^T)^(-1) start

        Args:
            pi: (..., S, A) policy table.
            normalised: multiply by (1 - gamma). The sum is then 1 where episodes never end; where they do end, the rest of the
                mass belongs to the time after the end, in which nothing is earned.
        Returns:
            (..., S).
        Raises:
            ValueError: normalised with gamma = 1 (every entry would be 0), or gamma = 1 and the policy never ends.
        Reference: Sutton et al. (2000), text before Theorem 1; Sutton & Barto (2018), eq. 9.2 (eta).
        """
        if normalised and self.gamma == 1.0:
            raise ValueError("normalised=True multiplies by 1 - gamma, which is 0 here; use the plain visits with gamma = 1")
        visits = self._visits(pi, self.gamma)
        return (1 - self.gamma) * visits if normalised else visits

    def state_visits(self, pi: Tensor) -> Tensor:
        """Expected number of visits sum_{t>=0} P(s_t = s), *not* discounted, shape (..., S); the policy must surely end."""
        return self._visits(pi, 1.0)

    def optimal_values(self, *, tolerance: float = 1e-13, max_sweeps: int = 100_000) -> Tensor:
        """V*(s) = max_a [r(s, a) + gamma sum_{s'} P(s' | s, a) V*(s')], shape (S,), by value iteration.

        Raises:
            ValueError: no convergence in max_sweeps (gamma = 1 and rewards that can be collected for ever).
        Reference: Sutton & Barto (2018), eq. 4.10.
        """
        value = torch.zeros(self.num_states, dtype=torch.float64)
        for _ in range(max_sweeps):
            old, value = value, (self.reward + self.gamma * self.transition @ value).amax(-1)
            if (value - old).abs().max() <= tolerance * max(1.0, float(value.abs().max())):
                return value
        raise ValueError(f"no convergence in max_sweeps = {max_sweeps}; with gamma = 1, rewards must come to an end")

    def _visits(self, pi: Tensor, gamma: float) -> Tensor:
        system = self._system(self._check_policy(pi), gamma)
        return torch.linalg.solve(system.mT, self.start.expand(system.shape[:-1]).unsqueeze(-1)).squeeze(-1)

    def _system(self, pi: Tensor, gamma: float) -> Tensor:
        """The matrix I - gamma P_pi, (..., S, S), refused where it is singular."""
        move = torch.einsum("...sa,sat->...st", pi, self.transition)
        if gamma == 1.0:
            _check_ends(move.detach())
        return torch.eye(self.num_states, dtype=torch.float64) - gamma * move

    def _check_policy(self, pi: Tensor) -> Tensor:
        pi = torch.as_tensor(pi, dtype=torch.float64)
        if pi.shape[-2:] != self.reward.shape:
            raise ValueError(f"pi must have shape (..., S, A) with (S, A) = {tuple(self.reward.shape)}, got {tuple(pi.shape)}; "
                             "check the shape of theta")
        _check_probabilities("pi", pi)
        if ((pi.sum(-1) - 1).abs() > 1e-6).any():
            raise ValueError(f"every row of pi must sum to 1, got sums from {float(pi.sum(-1).min()):.6g} to "
                             f"{float(pi.sum(-1).max()):.6g}")
        return pi


def _check_probabilities(name: str, table: Tensor) -> None:
    bad = ~(table >= 0)  # catches NaN too
    if bad.any():
        index = tuple(int(i) for i in bad.nonzero()[0])
        raise ValueError(f"{name}{list(index)} is {float(table[index]):.6g}; probabilities must be 0 or more")


def _check_ends(move: Tensor) -> None:
    """Raise unless the episode surely ends from every state, whatever the path: move is P_pi, (..., S, S)."""
    ending = move.sum(-1) < 1 - 1e-12
    for _ in range(move.shape[-1] - 1):
        ending = ending | ((move > 0) & ending.unsqueeze(-2)).any(-1)
    if not ending.all():
        states = sorted({int(index[-1]) for index in (~ending).nonzero()})
        raise ValueError(f"under this policy the episode never ends from state(s) {states}, so undiscounted sums do not exist "
                         "(I - P_pi is singular); use gamma < 1, or a policy that reaches an end from every state")


# ---------------------------------------------------------------------------------------------------------------- policies


def softmax_policy(theta: Tensor) -> Tensor:
    """pi(a | s) = exp theta[s, a] / sum_b exp theta[s, b]: one parameter per state and action, theta (..., S, A)."""
    if theta.ndim < 2:
        raise ValueError(f"theta must have shape (..., S, A), one number per state and action, got {tuple(theta.shape)}")
    return torch.softmax(theta, -1)


def logistic_policy(theta: Tensor, groups: tuple[int, ...]) -> Tensor:
    """Two actions, states in the same group share one parameter.

        pi(1 | s) = sigmoid(theta[groups[s]]),      pi(0 | s) = sigmoid(-theta[groups[s]])

    Args:
        theta: (..., D) parameters, D = number of groups.
        groups: the group 0..D-1 of each of the S states.
    Returns:
        (..., S, 2).
    Raises:
        ValueError: theta does not have one number per group.
    """
    num_groups = max(groups) + 1
    if theta.ndim < 1 or theta.shape[-1] != num_groups:
        raise ValueError(f"theta must have shape (..., {num_groups}), one number per group of states, got {tuple(theta.shape)}")
    logit = theta[..., list(groups)]
    return torch.stack([torch.sigmoid(-logit), torch.sigmoid(logit)], -1)


def corridor_policy(theta: Tensor) -> Tensor:
    """The short corridor's policy: theta (..., 1) is the log-odds of "right" in all three states, which look alike."""
    return logistic_policy(theta, groups=(0, 0, 0))


def score_table(policy: Policy, theta: Tensor) -> Tensor:
    """The score: gradient of log pi(a | s) for every state and action, shape (S, A, *theta.shape)."""
    return jacobian(lambda parameters: policy(parameters).log(), theta)


# --------------------------------------------------------------------------------------------------------------- gradients


def exact_policy_gradient(mdp: TabularMDP, policy: Policy, theta: Tensor) -> Tensor:
    """The policy-gradient theorem, as written.

        grad J = sum_s d(s) sum_a grad pi(a | s) Q(s, a),      d(s) = sum_t gamma^t P(s_t = s)

    Args:
        mdp: the world.
        policy: differentiable function from theta to a table (S, A).
        theta: float64 parameters, any shape the policy accepts.
    Returns:
        Like theta, and differentiable in it. No derivative of d or Q enters: that is what the theorem says.
    Raises:
        TypeError: theta is not float64. ValueError: the table does not fit the world.
    Reference: Sutton et al. (2000), Theorem 1; Sutton & Barto (2018), eq. 13.5 (there only up to a constant factor).
    """
    _check_float64(theta)
    pi = policy(theta)
    return _weighted_gradient(mdp.discounted_state_distribution(pi), mdp.q_values(pi), policy, theta)


def dropped_discount_gradient(mdp: TabularMDP, policy: Policy, theta: Tensor) -> Tensor:
    """What nearly all code computes instead: the factor gamma^t left out, so states count by plain visits.

        sum_s (sum_t P(s_t = s)) sum_a grad pi(a | s) Q(s, a),      Q still discounted

    Same arguments and shape as `exact_policy_gradient`. For 0 < gamma < 1 it is not the gradient of any function that could be
    written down for all MDPs. Reference: Nota & Thomas (2020).
    """
    _check_float64(theta)
    pi = policy(theta)
    return _weighted_gradient(mdp.state_visits(pi), mdp.q_values(pi), policy, theta)


def _check_float64(theta) -> None:
    if not isinstance(theta, Tensor) or theta.dtype != torch.float64:
        kind = theta.dtype if isinstance(theta, Tensor) else type(theta).__name__
        raise TypeError(f"theta must be a float64 torch tensor, got {kind}; exact answers need its digits: "
                        "torch.as_tensor(theta, dtype=torch.float64)")


def _weighted_gradient(visits: Tensor, q_value: Tensor, policy: Policy, theta: Tensor) -> Tensor:
    return torch.einsum("s,sa,sa...->...", visits, q_value, jacobian(policy, theta, create_graph=theta.requires_grad))


def autograd_policy_gradient(mdp: TabularMDP, policy: Policy, theta: Tensor) -> Tensor:
    """grad J by automatic differentiation through the linear solve; knows nothing of the theorem. Same shape as theta."""
    return jacobian(lambda parameters: mdp.expected_return(policy(parameters)), theta)


def finite_difference_gradient(f: Callable[[Tensor], Tensor], theta: Tensor, h: float = 1e-5) -> Tensor:
    """Central differences [f(theta + h e_i) - f(theta - h e_i)] / (2h): error O(h^2) plus rounding of about 1e-16 |f| / h.

    Args:
        f: function of theta giving a number, or a tensor (then the result is the Jacobian).
        theta: float64 parameters of any shape.
        h: step, > 0.
    Returns:
        Derivatives, shape (*f(theta).shape, *theta.shape).
    Raises:
        ValueError: h is not positive and finite. TypeError: theta is not float64 (the differences would be rounding noise).
    Reference: Nocedal and Wright (2006), section 8.1.
    """
    if not 0 < h < float("inf"):
        raise ValueError(f"h must be > 0 and finite, got {h}")
    _check_float64(theta)
    steps = h * torch.eye(theta.numel(), dtype=torch.float64).reshape(-1, *theta.shape)
    theta = theta.detach()
    columns = [(f(theta + step) - f(theta - step)) / (2 * h) for step in steps]
    columns = torch.stack([torch.as_tensor(column, dtype=torch.float64) for column in columns], -1)
    return columns.reshape(*columns.shape[:-1], *theta.shape)


def performance_difference(mdp: TabularMDP, new_pi: Tensor, old_pi: Tensor) -> Tensor:
    """The right-hand side of the performance-difference lemma: J(new) - J(old) = sum_s d_new(s) sum_a new(a | s) A_old(s, a).

    Args:
        new_pi, old_pi: (..., S, A) policy tables.
    Returns:
        (...).
    Reference: Kakade & Langford (2002), Lemma 6.1 (there with d normalised, hence a factor 1 / (1 - gamma)).
    """
    return torch.einsum("...s,...sa,...sa->...", mdp.discounted_state_distribution(new_pi), new_pi, mdp.advantages(old_pi))


def fisher_matrix(mdp: TabularMDP, policy: Policy, theta: Tensor) -> Tensor:
    """F = sum_s d(s) sum_a pi(a | s) psi psi^T with the score psi = grad log pi(a | s), flattened: (D, D).

    d is not normalised here, as in the theorem: divide both F and grad J by the same constant or neither.
    Reference: Kakade (2001), section 2.
    """
    pi, score = policy(theta), score_table(policy, theta).flatten(2)
    return torch.einsum("s,sa,sad,sae->de", mdp.discounted_state_distribution(pi), pi, score, score)


def compatible_weights(mdp: TabularMDP, policy: Policy, theta: Tensor) -> Tensor:
    """The critic that is linear in the score and fits Q best: the smallest w among the minimisers of

        sum_s d(s) sum_a pi(a | s) [Q(s, a) - w . grad log pi(a | s)]^2

    Returns:
        (D,), D = number of parameters, theta flattened.
    Reference: Sutton et al. (2000), Theorem 2; Kakade (2001), Theorem 1: w is the natural gradient F^(-1) grad J.
    """
    pi, score = policy(theta), score_table(policy, theta).flatten(2)
    root = (mdp.discounted_state_distribution(pi).unsqueeze(-1) * pi).sqrt()
    features, target = (root.unsqueeze(-1) * score).flatten(0, 1), (root * mdp.q_values(pi)).flatten()
    return torch.linalg.lstsq(features, target.unsqueeze(-1), driver="gelsd").solution.squeeze(-1)


# ------------------------------------------------------------------------------------------------------------ trajectories


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Many episodes as one table with a row per step, ordered by time: all first steps, then all second steps, and so on.

    Fields (NumPy, one entry per row): `state`, `action`, `reward`, `time` (0 for the first step), `episode` (which one).
    `shape` is the shape of the set of episodes, (N,) or (R, N); `episode` counts 0 .. R*N-1.
    """

    state: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    time: np.ndarray
    episode: np.ndarray
    shape: tuple[int, ...]

    def one(self, episode: int) -> "Trajectories":
        """The rows of a single episode, in order of time."""
        rows = self.episode == episode
        return Trajectories(self.state[rows], self.action[rows], self.reward[rows], self.time[rows], 0 * self.episode[rows], (1,))

    def returns(self, gamma: float) -> np.ndarray:
        """G = sum_t gamma^t r_t of every episode, `shape`."""
        num_episodes = int(np.prod(self.shape))
        return np.bincount(self.episode, gamma**self.time * self.reward, minlength=num_episodes).reshape(self.shape)

    def returns_to_go(self, gamma: float) -> np.ndarray:
        """G_t = r_t + gamma G_{t+1}, G = 0 after the end: the discounted return from each row's own time on, one per row."""
        result, following = np.empty_like(self.reward), np.zeros(int(np.prod(self.shape)))
        bounds = np.searchsorted(self.time, np.arange(self.time[-1] + 2))
        for first, last in zip(bounds[-2::-1], bounds[:0:-1], strict=True):
            rows = slice(first, last)
            result[rows] = self.reward[rows] + gamma * following[self.episode[rows]]
            following[self.episode[rows]] = result[rows]
        return result


def sample_trajectories(mdp: TabularMDP, pi: Tensor, num_episodes: int, rng: np.random.Generator, *,
                        max_steps: int = 100_000) -> Trajectories:
    """Play episodes to their end, all at once: s_0 ~ start, a_t ~ pi(. | s_t), s_{t+1} ~ P(. | s_t, a_t) or the end.

    Args:
        pi: (S, A), or (R, S, A) to play `num_episodes` with each of R policies (one generator serves all).
        num_episodes: N >= 1.
        rng: NumPy generator.
        max_steps: refuse to go on for longer than this.
    Returns:
        Trajectories of shape (N,) or (R, N). The reward of a row is the table's r(s, a).
    Raises:
        ValueError: wrong shape, or an episode is still going on after max_steps.
    """
    if num_episodes < 1:
        raise ValueError(f"num_episodes must be at least 1, got {num_episodes}")
    pi = mdp._check_policy(pi).detach()
    if pi.ndim > 3:
        raise ValueError(f"pi must have shape (S, A) or (R, S, A), got {tuple(pi.shape)}")
    shape = (*pi.shape[:-2], num_episodes)
    action_cdf = _cumulative(pi.reshape(-1, mdp.num_actions).numpy())  # row run * S + state
    next_cdf = mdp.transition.reshape(-1, mdp.num_states).numpy().cumsum(-1)  # row state * A + action, ends below 1
    reward = mdp.reward.numpy().ravel()
    alive = np.arange(int(np.prod(shape)))
    state = _draw(np.broadcast_to(_cumulative(mdp.start.numpy()), (len(alive), mdp.num_states)), rng)
    rows = []
    for time in range(max_steps):
        action = _draw(action_cdf[alive // num_episodes * mdp.num_states + state], rng)
        pair = state * mdp.num_actions + action
        rows.append((state, action, reward[pair], np.full(len(alive), time), alive))
        state = _draw(next_cdf[pair], rng)
        going_on = state < mdp.num_states  # a draw beyond the row's sum is the end of the episode
        alive, state = alive[going_on], state[going_on]
        if not len(alive):
            return Trajectories(*map(np.concatenate, zip(*rows, strict=True)), shape)
    raise ValueError(f"{len(alive)} episode(s) still going on after max_steps = {max_steps}; sampling needs episodes that end: "
                     "give the MDP an end (rows of transition that sum to less than 1) or raise max_steps")


def _cumulative(probabilities: np.ndarray) -> np.ndarray:
    total = probabilities.cumsum(-1)
    return total / total[..., -1:]  # exactly 1 at the end, so that a draw below 1 always finds its place


def _draw(cdf: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One index per row of cdf (n, K), by inversion: the number of entries that the uniform draw has passed."""
    return (rng.random(len(cdf))[:, None] >= cdf).sum(-1)


def enumerate_trajectories(mdp: TabularMDP, pi: Tensor, *, max_steps: int = 50) -> tuple[Trajectories, Tensor]:
    """Every trajectory that can happen, with its probability. Only for worlds that surely end after a few steps.

        P(tau) = start(s_0) prod_t pi(a_t | s_t) P(s_{t+1} | s_t, a_t)      (the last factor is the probability of the end)

    Args:
        pi: (S, A) policy table.
        max_steps: longest episode allowed.
    Returns:
        (trajectories of shape (N,), probability (N,)): a sum over tau weighted by `probability` is an exact expectation.
        `probability` is differentiable in pi.
    Raises:
        ValueError: some trajectory is longer than max_steps.
    """
    pi = mdp._check_policy(pi)
    if pi.ndim != 2:
        raise ValueError(f"pi must have shape (S, A), got {tuple(pi.shape)}")
    end = 1 - mdp.transition.sum(-1)
    finished, unfinished = [], [((s,), (), mdp.start[s]) for s in mdp.start.nonzero().ravel().tolist()]
    while unfinished:
        states, actions, probability = unfinished.pop()
        if len(states) > max_steps:
            raise ValueError(f"a trajectory is longer than max_steps = {max_steps}; enumeration needs a world that surely ends")
        state = states[-1]
        for action in pi[state].detach().nonzero().ravel().tolist():
            taken, so_far = (*actions, action), probability * pi[state, action]
            if end[state, action] > TOLERANCE:
                finished.append((states, taken, so_far * end[state, action]))
            for following in mdp.transition[state, action].nonzero().ravel().tolist():
                unfinished.append(((*states, following), taken, so_far * mdp.transition[state, action, following]))
    table = np.array([(t, n, s, a) for n, (states, actions, _) in enumerate(finished)
                      for t, (s, a) in enumerate(zip(states, actions, strict=True))])
    time, episode, state, action = table[np.argsort(table[:, 0], kind="stable")].T
    trajectories = Trajectories(state, action, mdp.reward.numpy()[state, action], time, episode, (len(finished),))
    return trajectories, torch.stack([probability for *_, probability in finished])


def gradient_estimates(trajectories: Trajectories, weight: np.ndarray, score: Tensor) -> np.ndarray:
    """One estimate of the policy gradient per episode.

        g = sum_t weight_t grad log pi(a_t | s_t)

    What is put in as weight makes the estimator: the whole return, the return to go, with a baseline taken off ...

    Args:
        weight: one number per row of `trajectories`.
        score: (S, A, *theta) from `score_table`, or (R, S, A, *theta) where the trajectories have shape (R, N).
    Returns:
        (N, *theta) or (R, N, *theta).
    Raises:
        ValueError: the shape of weight or score does not fit.
    Reference: Williams (1992), Theorem 1.
    """
    runs = trajectories.shape[:-1]
    if np.shape(weight) != trajectories.state.shape:
        raise ValueError(f"weight must have one number per row, shape {trajectories.state.shape}, got {np.shape(weight)}")
    if score.ndim < len(runs) + 3 or score.shape[: len(runs)] != runs:
        raise ValueError(f"score must have shape {(*runs, 'S', 'A', '*theta')}, got {tuple(score.shape)}")
    num_states, num_actions, *parameters = score.shape[len(runs) :]
    cell = (trajectories.episode * num_states + trajectories.state) * num_actions + trajectories.action
    num_cells = num_states * num_actions
    weighted_visits = np.bincount(cell, weight, minlength=int(np.prod(trajectories.shape)) * num_cells)
    table = score.detach().numpy().reshape(*runs, num_cells, -1)
    return (weighted_visits.reshape(*trajectories.shape, num_cells) @ table).reshape(*trajectories.shape, *parameters)


# ------------------------------------------------------------------------------------------------------------------ worlds


def short_corridor() -> TabularMDP:
    """The short corridor with switched actions: 3 states in a row, actions 0 = left and 1 = right, reward -1 per step, gamma 1.

    Left in state 0 stays; in state 1 the two actions are swapped; right in state 2 ends the episode. For a policy that goes right
    with the same probability p everywhere, J = -2 (2 - p) / (p (1 - p)), at its best -(6 + 4 sqrt 2) = -11.66 for p = 2 - sqrt 2.
    Reference: Sutton & Barto (2018), Example 13.1.
    """
    transition = torch.zeros(3, 2, 3)
    for state, action, following in [(0, 0, 0), (0, 1, 1), (1, 0, 2), (1, 1, 0), (2, 0, 1)]:
        transition[state, action, following] = 1.0
    return TabularMDP(transition, -torch.ones(3, 2), gamma=1.0, start=torch.tensor([1.0, 0.0, 0.0]))


def chain(num_states: int = 5, gamma: float = 0.9, *, ends: bool = False) -> TabularMDP:
    """A row of states, actions 0 = left and 1 = right; only "right" in the last state pays, 1 each time.

    Args:
        num_states: S >= 1. The start is state 0, where "left" stays.
        gamma: discount.
        ends: False: "right" in the last state stays there, so always going right earns V(s) = gamma^(S-1-s) / (1 - gamma).
            True: it ends the episode, so V(s) = gamma^(S-1-s).
    """
    if num_states < 1:
        raise ValueError(f"num_states must be at least 1, got {num_states}")
    transition, reward = torch.zeros(num_states, 2, num_states), torch.zeros(num_states, 2)
    for state in range(num_states):
        transition[state, 0, max(state - 1, 0)] = 1.0
        transition[state, 1, min(state + 1, num_states - 1)] = 1.0
    reward[-1, 1] = 1.0
    if ends:
        transition[-1, 1] = 0.0
    return TabularMDP(transition, reward, gamma, start=torch.eye(num_states)[0])


def random_walk(num_states: int = 9, gamma: float = 1.0) -> TabularMDP:
    """A row of states with an end on either side, actions 0 = left and 1 = right, start in the middle.

    Walking out on the right pays 1, on the left -1, every other step nothing. If both actions are equally likely and gamma = 1,
    V(s) = 2 (s + 1) / (num_states + 1) - 1 and an episode from s takes (s + 1) (num_states - s) steps on average.

    Args:
        num_states: S, odd and at least 1.
        gamma: discount.
    Reference: Sutton & Barto (2018), Example 6.2 and section 12.1 (19 states, the same rewards).
    """
    if num_states < 1 or num_states % 2 == 0:
        raise ValueError(f"num_states must be odd, so that there is a middle, and at least 1; got {num_states}")
    transition = torch.zeros(num_states, 2, num_states)
    transition[:, 0] = torch.diag(torch.ones(num_states - 1), -1)
    transition[:, 1] = torch.diag(torch.ones(num_states - 1), 1)
    reward = torch.zeros(num_states, 2)
    reward[0, 0], reward[-1, 1] = -1.0, 1.0
    return TabularMDP(transition, reward, gamma, start=torch.eye(num_states)[num_states // 2])


def random_mdp(rng: np.random.Generator, num_states: int = 5, num_actions: int = 3, gamma: float = 0.9, *,
               end_probability: float = 0.0, forward_only: bool = False) -> TabularMDP:
    """A random world: transition rows and start uniform on the simplex, rewards standard normal.

    Args:
        rng: NumPy generator.
        end_probability: probability in [0, 1] that any step ends the episode.
        forward_only: from state s only states s+1 .. S-1 follow, so that every episode ends within S steps; every step from the
            last state ends.
    """
    transition = rng.dirichlet(np.ones(num_states), size=(num_states, num_actions))
    if forward_only:
        transition = transition * np.triu(np.ones((num_states, num_states)), 1)[:, None, :]
        total = transition.sum(-1, keepdims=True)
        transition = np.divide(transition, total, out=np.zeros_like(transition), where=total > 0)
    reward = rng.standard_normal((num_states, num_actions))
    return TabularMDP((1 - end_probability) * transition, reward, gamma, rng.dirichlet(np.ones(num_states)))


def mdp_of(env: gymnasium.Env, gamma: float) -> TabularMDP:
    """Read the table of a Gymnasium toy-text environment (FrozenLake, CliffWalking, Taxi): its own `P` and start distribution.

    States keep the environment's numbers. A step into a terminal state becomes the end of the episode, so terminal states are
    never visited. A time limit is not part of the table.

    Raises:
        ValueError: the environment has no table.
    """
    table, start = getattr(env.unwrapped, "P", None), getattr(env.unwrapped, "initial_state_distrib", None)
    if table is None or start is None:
        raise ValueError(f"{env} has no transition table (attributes P and initial_state_distrib); FrozenLake-v1 has")
    transition = np.zeros((len(table), len(table[0]), len(table)))
    reward = np.zeros(transition.shape[:2])
    for state, actions in table.items():
        for action, outcomes in actions.items():
            for probability, following, earned, terminated in outcomes:
                reward[state, action] += probability * earned
                transition[state, action, following] += probability * (not terminated)
    return TabularMDP(transition, reward, gamma, start)


def frozen_lake(gamma: float = 1.0, **options) -> TabularMDP:
    """Gymnasium's FrozenLake-v1 as a table; options go to `gymnasium.make` (map_name="4x4", is_slippery=True, ...).

    With gamma = 1 the expected return is the probability of reaching the goal (without the time limit of 100 steps); the best
    policy on the slippery 4x4 lake reaches it with probability 14/17.
    """
    env = gymnasium.make("FrozenLake-v1", **options)
    mdp = mdp_of(env, gamma)
    env.close()
    return mdp
