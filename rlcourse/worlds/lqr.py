"""The linear-quadratic regulator: a world with continuous states and actions in which every answer is known.

What `tabular` does with tables, this does with matrices: V, Q, J, the state covariance, the policy gradient and the best policy.
Exact answers are torch float64 and differentiable in the policy.
"""

from dataclasses import dataclass
from numbers import Real

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor

NAMES = ("A", "B", "Q", "R", "start_cov", "noise_cov")


@dataclass(frozen=True, eq=False)
class LQR:
    """Linear dynamics, quadratic cost, a linear Gaussian policy.

        s_{t+1} = A s_t + B a_t + w_t,     w_t ~ N(0, noise_cov),     s_0 ~ N(0, start_cov)
        r_t = -(s_t^T Q s_t + a_t^T R a_t)
        a_t ~ N(-K s_t, diag(sigma^2)),    K = gain,  sigma = exp(log_std)         mind the sign: the mean is MINUS K s

    With M = A - B K and N = noise_cov + B diag(sigma^2) B^T, what exploration adds to the state included:

        P = Q + K^T R K + gamma M^T P M                             V(s) = -s^T P s - c
        X = start_cov + gamma M X M^T + gamma/(1 - gamma) N         X = sum_t gamma^t E[s_t s_t^T]

    Args:
        A: (S, S). B: (S, D) for D action dimensions.
        Q: (S, S) symmetric, no negative eigenvalue. R: (D, D) symmetric, positive eigenvalues.
        gamma: discount, in [0, 1).
        start_cov: (S, S) covariance of s_0, symmetric, no negative eigenvalue.
        noise_cov: (S, S) covariance of w_t, likewise; None: no noise.

    Raises:
        ValueError: shapes disagree, a number is not finite, a matrix is not symmetric or has a wrong eigenvalue, gamma outside
            [0, 1). TypeError: gamma is no number.

    Every method takes gain (D, S) and log_std (D,), many of the methods also (..., D, S) and (..., D). All are differentiable in
    both and raise ValueError unless sqrt(gamma) rho(A - B K) < 1, rho being the spectral radius: then all sums above exist.
    Reference: Bertsekas, "Dynamic Programming and Optimal Control" (2017), section 3.1; Fazel et al. (2018), whose gamma is 1.
    """

    A: Tensor
    B: Tensor
    Q: Tensor
    R: Tensor
    gamma: float
    start_cov: Tensor
    noise_cov: Tensor | None = None

    def __post_init__(self):
        if self.noise_cov is None:
            object.__setattr__(self, "noise_cov", np.zeros(np.shape(self.A)))
        for name in NAMES:
            try:  # a copy: what is checked here cannot be changed from outside
                object.__setattr__(self, name, torch.as_tensor(getattr(self, name), dtype=torch.float64).clone())
            except (TypeError, ValueError, RuntimeError):
                raise TypeError(f"{name} = {getattr(self, name)!r}; expected a matrix of numbers, such as [[1.0]].") from None
        if self.A.ndim != 2 or self.B.ndim != 2 or 0 in self.B.shape:
            raise ValueError(
                f"A must have shape (S, S) and B (S, D), got {tuple(self.A.shape)} and {tuple(self.B.shape)}; "
                "one number is a matrix too: [[1.0]]"
            )
        S, D = self.B.shape
        for name, shape in zip(NAMES, [(S, S), (S, D), (S, S), (D, D), (S, S), (S, S)], strict=True):
            matrix = getattr(self, name)
            if matrix.shape != shape:
                raise ValueError(f"{name} must have shape {shape} to fit B of shape {(S, D)}, got {tuple(matrix.shape)}")
            if not torch.isfinite(matrix).all():
                raise ValueError(f"{name} holds a value that is not finite: {matrix.tolist()}")
        for name in ("Q", "R", "start_cov", "noise_cov"):
            _check_symmetric(name, getattr(self, name), positive=name == "R")
        if not isinstance(self.gamma, Real) or isinstance(self.gamma, bool):
            raise TypeError(f"gamma must be a number in [0, 1), got {self.gamma!r}")
        if not 0.0 <= self.gamma < 1.0:
            raise ValueError(
                f"gamma must lie in [0, 1), got {self.gamma}; noise costs something in every step, so the "
                "undiscounted sum does not exist"
            )

    @property
    def state_size(self) -> int:
        return self.B.shape[0]

    @property
    def action_size(self) -> int:
        return self.B.shape[1]

    # ------------------------------------------------------------------------------------------------- what a policy is worth

    def value_matrix(self, gain: Tensor) -> Tensor:
        """P in V(s) = -s^T P s - c, shape (..., S, S):    P = Q + K^T R K + gamma M^T P M,    M = A - B K."""
        gain = self._check_gain(gain)
        return _lyapunov((self.A - self.B @ gain).mT, self.Q + gain.mT @ self.R @ gain, self.gamma)

    def noise_cost(self, gain: Tensor, log_std: Tensor) -> Tensor:
        """c in V(s) = -s^T P s - c, shape (...): what noise and exploration cost from now on, in whatever state.

        c = [tr(R diag(sigma^2)) + gamma tr(P N)] / (1 - gamma)
        """
        explore = self._exploration(log_std)
        P = self.value_matrix(gain)
        return (_trace(self.R, explore) + self.gamma * _trace(P, self._noise(explore))) / (1 - self.gamma)

    def values(self, gain: Tensor, log_std: Tensor, state: Tensor) -> Tensor:
        """V(s) = -s^T P s - c for states (..., S): shape (...). The policy is a single one, here and in the next two."""
        gain, log_std = self._one_policy(gain, log_std)
        state = self._check_vector("state", state, self.state_size)
        return -_quadratic(self.value_matrix(gain), state) - self.noise_cost(gain, log_std)

    def q_values(self, gain: Tensor, log_std: Tensor, state: Tensor, action: Tensor) -> Tensor:
        """Q(s, a) = r(s, a) + gamma E[V(s')] for states (..., S) and actions (..., D): shape (...).

        Q(s, a) = -s^T Q s - a^T R a - gamma [m^T P m + tr(P noise_cov) + c],    m = A s + B a
        """
        gain, log_std = self._one_policy(gain, log_std)
        state, action = self._check_pairs(state, action)
        P = self.value_matrix(gain)
        ahead = _quadratic(P, _times(self.A, state) + _times(self.B, action)) + _trace(P, self.noise_cov)
        return self._reward(state, action) - self.gamma * (ahead + self.noise_cost(gain, log_std))

    def advantages(self, gain: Tensor, log_std: Tensor, state: Tensor, action: Tensor) -> Tensor:
        """A(s, a) = Q(s, a) - V(s) for states (..., S) and actions (..., D), in terms of the deviation u = a + K s: shape (...).

            A(s, a) = tr(H diag(sigma^2)) - u^T H u + 2 u^T E s

        with H = R + gamma B^T P B (how curved Q is in a) and E = H K - gamma B^T P A (0 for the best gain).
        Reference: Fazel et al. (2018), Lemma 10, there without exploration and as a cost.
        """
        gain, log_std = self._one_policy(gain, log_std)
        state, action = self._check_pairs(state, action)
        deviation = action + _times(gain, state)
        curvature, slope = self._curvature_and_slope(gain)
        linear = 2 * (deviation * _times(slope, state)).sum(-1)
        return _trace(curvature, self._exploration(log_std)) - _quadratic(curvature, deviation) + linear

    def expected_return(self, gain: Tensor, log_std: Tensor) -> Tensor:
        """J = E[V(s_0)] = -tr(P start_cov) - c: the number that learning is to raise. Shape (...)."""
        return -_trace(self.value_matrix(gain), self.start_cov) - self.noise_cost(gain, log_std)

    def state_covariance(self, gain: Tensor, log_std: Tensor) -> Tensor:
        """X = sum_t gamma^t E[s_t s_t^T], shape (..., S, S): how the states are spread, a visit at time t counting gamma^t.

            X = start_cov + gamma M X M^T + gamma/(1 - gamma) N,    N = noise_cov + B diag(sigma^2) B^T

        Exploration moves the state. With B diag(sigma^2) B^T left out, the gradient has the wrong size.
        """
        closed = self.A - self.B @ self._check_gain(gain)
        noise = self._noise(self._exploration(log_std))
        return _lyapunov(closed, self.start_cov + self.gamma / (1 - self.gamma) * noise, self.gamma)

    def policy_gradient(self, gain: Tensor, log_std: Tensor) -> tuple[Tensor, Tensor]:
        """The exact gradient of J in the gain and in log sigma.

            dJ/dK = -2 E X,    dJ/dlog sigma_i = -2 sigma_i^2 H_ii / (1 - gamma)

        with H, E as in `advantages` and X as in `state_covariance`. No derivative of P or X enters: that is the policy-gradient
        theorem, with E[A grad log pi] worked out over the actions.

        Returns:
            (gradient in gain (..., D, S), gradient in log_std (..., D)).
        Reference: Fazel et al. (2018), Lemma 1, with gamma = 1 and no exploration.
        """
        curvature, slope = self._curvature_and_slope(self._check_gain(gain))
        variance = self._exploration(log_std).diagonal(dim1=-2, dim2=-1)
        in_log_std = -2 * variance * curvature.diagonal(dim1=-2, dim2=-1) / (1 - self.gamma)
        return -2 * slope @ self.state_covariance(gain, log_std), in_log_std

    def optimal_gain(self, *, tolerance: float = 1e-13, max_sweeps: int = 100_000) -> Tensor:
        """The gain with the largest J, shape (D, S), whatever log_std and start_cov: value iteration on P.

            K = (R + gamma B^T P B)^(-1) gamma B^T P A,    P <- Q + K^T R K + gamma (A - B K)^T P (A - B K)

        The fixed point solves the discrete algebraic Riccati equation of sqrt(gamma) A and sqrt(gamma) B.

        Raises:
            ValueError: no convergence in max_sweeps: no gain keeps the cost finite, or gamma is extremely close to 1.
        Reference: Bertsekas (2017), section 3.1.
        """
        P = self.Q
        for _ in range(max_sweeps):
            gain = torch.linalg.solve(self._curvature(P), self.gamma * self.B.mT @ P @ self.A)
            closed = self.A - self.B @ gain
            old, P = P, self.Q + gain.mT @ self.R @ gain + self.gamma * closed.mT @ P @ closed
            if not torch.isfinite(P).all():
                break
            if (P - old).abs().max() <= tolerance * max(1.0, float(P.abs().max())):
                return gain
        raise ValueError(
            f"no convergence in max_sweeps = {max_sweeps}: probably B reaches too little of the state to tame A; "
            "use another B, or a smaller gamma"
        )

    # ------------------------------------------------------------------------------------------------------------ trajectories

    def simulate(self, gain, log_std, num_episodes: int, num_steps: int, rng: np.random.Generator) -> "LQRTrajectories":
        """Play `num_episodes` episodes of `num_steps` steps at once.

        The noise is drawn first, and actions and states are smooth functions of it and of the policy: autograd through the
        rewards gives the reparametrised (pathwise) gradient. For the score function, `detach` the states and actions.

        Args:
            gain: (D, S). log_std: (D,).
            num_episodes, num_steps: >= 1. Cutting after T steps loses gamma^T V(s_T), which `values` gives.
            rng: NumPy generator.
        Returns:
            LQRTrajectories.
        """
        gain, log_std = self._one_policy(gain, log_std)
        if num_episodes < 1 or num_steps < 1:
            raise ValueError(f"num_episodes and num_steps must be at least 1, got {num_episodes} and {num_steps}")
        noise_root = _root(self.noise_cov)
        state = _normal(rng, num_episodes, self.state_size) @ _root(self.start_cov).mT
        states, actions, rewards = [state], [], []
        for _ in range(num_steps):
            action = -_times(gain, state) + log_std.exp() * _normal(rng, num_episodes, self.action_size)
            rewards.append(self._reward(state, action))
            actions.append(action)
            noise = _times(noise_root, _normal(rng, num_episodes, self.state_size))
            state = _times(self.A, state) + _times(self.B, action) + noise
            states.append(state)
        states = torch.stack(states)
        return LQRTrajectories(states[:-1], torch.stack(actions), torch.stack(rewards), states[1:])

    # ------------------------------------------------------------------------------------------------------------------- parts

    def _reward(self, state, action):
        return -_quadratic(self.Q, state) - _quadratic(self.R, action)

    def _exploration(self, log_std):
        """diag(sigma^2), (..., D, D)."""
        return torch.diag_embed((2 * self._check_vector("log_std", log_std, self.action_size)).exp())

    def _noise(self, exploration):
        """N: covariance of what noise and exploration add to the state in one step, (..., S, S)."""
        return self.noise_cov + self.B @ exploration @ self.B.mT

    def _curvature(self, P):
        """H = R + gamma B^T P B."""
        return self.R + self.gamma * self.B.mT @ P @ self.B

    def _curvature_and_slope(self, gain):
        """H, and E = H K - gamma B^T P A."""
        P = self.value_matrix(gain)
        curvature = self._curvature(P)
        return curvature, curvature @ gain - self.gamma * self.B.mT @ P @ self.A

    def _one_policy(self, gain, log_std):
        gain, log_std = _float64(gain), _float64(log_std)
        if gain.shape != self.B.mT.shape or log_std.shape != (self.action_size,):
            raise ValueError(
                f"gain must have shape {tuple(self.B.mT.shape)} and log_std ({self.action_size},), got "
                f"{tuple(gain.shape)} and {tuple(log_std.shape)}; this method takes one policy at a time"
            )
        return gain, log_std

    def _check_gain(self, gain) -> Tensor:
        gain = _float64(gain)
        if gain.shape[-2:] != self.B.mT.shape:
            raise ValueError(f"gain must have shape (..., D, S) with (D, S) = {tuple(self.B.mT.shape)}, got {tuple(gain.shape)}")
        if not torch.isfinite(gain).all():
            raise ValueError(f"gain holds a value that is not finite: {gain.tolist()}; look for a step that was too long")
        radius = float(torch.linalg.eigvals((self.A - self.B @ gain).detach()).abs().max())
        limit = self.gamma**-0.5 if self.gamma else float("inf")
        if radius >= limit:
            raise ValueError(
                f"this gain is unstable: the spectral radius of A - B K is {radius:.6g}, it must lie in "
                f"[0, 1/sqrt(gamma)) = [0, {limit:.6g}), else J is minus infinity; take a smaller step from a "
                "stable gain, start from optimal_gain(), or lower gamma. (The mean is -K s: check the sign.)"
            )
        return gain

    def _check_pairs(self, state, action):
        state = self._check_vector("state", state, self.state_size)
        action = self._check_vector("action", action, self.action_size)
        if state.shape[:-1] != action.shape[:-1]:
            raise ValueError(
                f"every action needs its state: shapes {tuple(state.shape)} and {tuple(action.shape)} differ before the last "
                "axis; expand one of them"
            )
        return state, action

    def _check_vector(self, name, vector, size) -> Tensor:
        vector = _float64(vector)
        if vector.shape[-1:] != (size,):
            raise ValueError(f"{name} must have shape (..., {size}), got {tuple(vector.shape)}")
        if not torch.isfinite(vector).all():
            raise ValueError(f"{name} holds a value that is not finite: {vector.tolist()}")
        return vector


@dataclass(frozen=True, eq=False)
class LQRTrajectories:
    """T steps of N episodes, time first: `state` (T, N, S), `action` (T, N, D), `reward` (T, N), `next_state` (T, N, S)."""

    state: Tensor
    action: Tensor
    reward: Tensor
    next_state: Tensor

    def returns(self, gamma: float) -> Tensor:
        """sum_{t<T} gamma^t r_t of every episode, (N,)."""
        return gamma ** torch.arange(len(self.reward), dtype=torch.float64) @ self.reward


class LQREnv(gymnasium.Env):
    """The world as a Gymnasium environment: `train(VPG(...), lambda: LQREnv(world))`.

    The observation is the state, the action is not bounded. An episode never terminates; it is truncated after `horizon` steps.
    optimal_gain() is the best gain for every start, so an agent with a linear policy that bootstraps at the truncation can reach
    it; the policy's weights are then -K.

    Args:
        world: an LQR.
        horizon: steps until an episode is truncated, >= 1.
    """

    def __init__(self, world: LQR, horizon: int = 50):
        if horizon < 1:
            raise ValueError(f"horizon must be at least 1, got {horizon}")
        self.world, self.horizon = world, horizon
        self.observation_space = Box(-np.inf, np.inf, (world.state_size,), np.float64)
        self.action_space = Box(-np.inf, np.inf, (world.action_size,), np.float64)
        self.batched_twin = LQRColumns(world, horizon)  # make_env steps many of us with it

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.elapsed = self.batched_twin.start(self.np_random, 1).T, 0
        return self.batched_twin.observe(self.state)[0], {}

    def step(self, action):
        self.state, reward, _ = self.batched_twin.step(self.state, np.asarray(action)[None])
        self.elapsed += 1
        return self.batched_twin.observe(self.state)[0], float(reward[0]), False, self.elapsed >= self.horizon, {}


class LQRColumns:
    """An LQR for n sub-environments at once: pure functions on state columns (d, n), as in `classic_control`.

    A column holds the state and below it all the noise that its episode has still to come, so that a step draws nothing.
    """

    POOL = 1  # episodes drawn at a time

    def __init__(self, world: LQR, horizon: int):
        self.max_episode_steps, self.size = horizon, world.state_size
        self.state_size = world.state_size * (1 + horizon)
        self._A, self._B, self._Q, self._R = (getattr(world, name).numpy() for name in "ABQR")
        self._roots = [_root(covariance).numpy() for covariance in (world.start_cov, world.noise_cov)]

    def start(self, rng, count):
        """Draw `count` start states and the noise of their episodes: (count, d)."""
        normal = rng.standard_normal((count, 1 + self.max_episode_steps, self.size))
        start, noise = self._roots
        return np.concatenate([normal[:, :1] @ start.T, normal[:, 1:] @ noise.T], 1).reshape(count, -1)

    def step(self, state, action):
        """Advance one step: (d, n) and (n, D) -> next state (d, n), reward (n,), terminated (n,), all False."""
        now, noise, later = np.split(state, [self.size, 2 * self.size])
        action = action.T
        reward = -(now * (self._Q @ now)).sum(0) - (action * (self._R @ action)).sum(0)
        following = self._A @ now + self._B @ action + noise
        return np.concatenate([following, later, 0 * noise]), reward, np.zeros(len(reward), bool)

    def observe(self, state):
        """The agent sees the state: (d, n) -> (n, S)."""
        return np.ascontiguousarray(state[: self.size].T)


def point_mass(gamma: float = 0.95) -> LQR:
    """A unit mass on a rail, pushed for 0.2 s at a time: bring it to rest at 0. State: position (m) and speed (m/s)."""
    tau = 0.2
    return LQR(
        A=[[1.0, tau], [0.0, 1.0]],
        B=[[tau**2 / 2], [tau]],
        Q=[[1.0, 0.0], [0.0, 0.1]],
        R=[[0.1]],
        gamma=gamma,
        start_cov=[[1.0, 0.0], [0.0, 1.0]],
        noise_cov=[[0.0, 0.0], [0.0, 0.01]],
    )


# ------------------------------------------------------------------------------------------------------------------- algebra


def _lyapunov(closed: Tensor, right: Tensor, gamma: float) -> Tensor:
    """The X with X = right + gamma M X M^T for M = closed, both (..., S, S): one linear solve.

    (I - gamma M (x) M) vec(X) = vec(right),    (x) the Kronecker product
    """
    size = closed.shape[-1]
    kronecker = torch.einsum("...ij,...kl->...ikjl", closed, closed).flatten(-4, -3).flatten(-2, -1)
    system = torch.eye(size**2, dtype=torch.float64) - gamma * kronecker
    right = right.expand(torch.broadcast_shapes(right.shape, closed.shape))
    return torch.linalg.solve(system, right.flatten(-2, -1).unsqueeze(-1)).reshape(right.shape)


def _times(matrix: Tensor, vector: Tensor) -> Tensor:
    """M v for every v, (i, j) and (..., j) -> (..., i)."""
    return vector @ matrix.mT


def _quadratic(matrix: Tensor, vector: Tensor) -> Tensor:
    """v^T M v for every v, (j, j) and (..., j) -> (...)."""
    return (vector * _times(matrix, vector)).sum(-1)


def _trace(left: Tensor, right: Tensor) -> Tensor:
    """tr(left right), (...)."""
    return torch.einsum("...ij,...ji->...", left, right)


def _root(covariance: Tensor) -> Tensor:
    """A matrix L with L L^T = covariance; a covariance of rank below S is allowed."""
    value, vector = torch.linalg.eigh(covariance)
    return vector * value.clamp(min=0).sqrt()


def _normal(rng: np.random.Generator, *shape: int) -> Tensor:
    return torch.from_numpy(rng.standard_normal(shape))


def _float64(x) -> Tensor:
    return torch.as_tensor(x, dtype=torch.float64)


def _check_symmetric(name: str, matrix: Tensor, positive: bool) -> None:
    if not torch.allclose(matrix, matrix.mT, rtol=1e-9, atol=1e-12):
        raise ValueError(f"{name} must be symmetric, got {matrix.tolist()}; use ({name} + {name}.T) / 2")
    lowest, largest = (float(value) for value in torch.linalg.eigvalsh(matrix)[[0, -1]])
    if lowest <= 0 if positive else lowest < -1e-12 * max(1.0, largest):
        allowed = "eigenvalues > 0" if positive else "eigenvalues >= 0"
        raise ValueError(f"{name} must have {allowed}, its lowest is {lowest:.6g}; add a multiple of the identity")
