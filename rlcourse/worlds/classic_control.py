"""CartPole, Acrobot and Pendulum for n sub-environments at once: the dynamics only.

Each class is a set of pure functions on a state array of shape (d, n): `start` draws start states, `step` advances every
column, `observe` shows a state to the agent. Time limits and resets are the business of `make_env`.

The equations, constants and order of operations are those of Gymnasium's classic-control environments (MIT licence, see
NOTICE), so that a float64 state advances here exactly as it does there; the tests prove it.
"""

import math

import numpy as np

PI = math.pi


class CartPole:
    """CartPole-v1: push a cart left (0) or right (1) so that the pole on it stays up. Reward 1 per step, the last one too.

    With F = ±10 N, m_p = 0.1, m = 1.1 (pole, pole and cart; kg), l = 0.5 (half the pole; m), g = 9.8, τ = 0.02 s:

        b  = (F + m_p l θ̇² sin θ) / m
        θ̈ = (g sin θ − b cos θ) / (l (4/3 − m_p cos²θ / m))
        ẍ  = b − m_p l θ̈ cos θ / m
        (x, ẋ, θ, θ̇) ← (x, ẋ, θ, θ̇) + τ (ẋ, ẍ, θ̇, θ̈)

    terminated: |x| > 2.4 m or |θ| > 12° after the step.

    Reference: Florian, "Correct equations for the dynamics of the cart-pole system" (2007), without friction.
    """

    state_size = 4  # x, x_dot, theta, theta_dot
    FORCE = np.array([-10.0, 10.0])
    LIMIT = np.array([[2.4], [12 * 2 * PI / 360]])

    @staticmethod
    def start(rng, count):
        """Draw `count` start states, every number uniform in [−0.05, 0.05). Returns (count, 4) float64."""
        return rng.uniform(-0.05, 0.05, (count, 4))

    @staticmethod
    def step(state, action):
        """Advance one step.

        Args:
            state: (4, n) float64.
            action: (n,) ints, 0 (left) or 1 (right).

        Returns:
            next state (4, n) float64, reward (n,) float64, terminated (n,) bool.
        """
        _, _, theta, theta_dot = state
        cos, sin = np.cos(theta), np.sin(theta)
        rate = np.empty_like(state)
        rate[0::2] = state[1::2]
        push = (CartPole.FORCE[action] + 0.05 * np.square(theta_dot) * sin) / 1.1
        theta_acc = (9.8 * sin - cos * push) / (0.5 * (4.0 / 3.0 - 0.1 * np.square(cos) / 1.1))
        rate[1] = push - 0.05 * theta_acc * cos / 1.1
        rate[3] = theta_acc
        state = state + 0.02 * rate
        outside = np.abs(state[0::2]) > CartPole.LIMIT
        return state, np.ones(state.shape[1]), outside[0] | outside[1]

    @staticmethod
    def observe(state):
        """The agent sees the state itself: (4, n) float64 -> (n, 4) float32."""
        return state.T.astype(np.float32, order="C")


class Acrobot:
    """Acrobot-v1: two hanging links, a torque of −1, 0 or +1 at the elbow; swing the tip one link length above the pivot.

    Both links: mass 1, length 1, centre of mass at 1/2, moment of inertia 1; g = 9.8; θ₁ = θ₂ = 0 hangs straight down.
    With torque a = action − 1, and one fourth-order Runge–Kutta step of 0.2 s:

        d₁ = 1/4 + (5/4 + cos θ₂) + 2,  d₂ = (1/4 + cos θ₂ / 2) + 1
        φ₂ = (g/2) cos(θ₁ + θ₂ − π/2)
        φ₁ = −θ̇₂² sin θ₂ / 2 − θ̇₂ θ̇₁ sin θ₂ + (3/2) g cos(θ₁ − π/2) + φ₂
        θ̈₂ = (a + φ₁ d₂/d₁ − θ̇₁² sin θ₂ / 2 − φ₂) / (5/4 − d₂²/d₁)
        θ̈₁ = −(d₂ θ̈₂ + φ₁) / d₁

    Angles are wrapped to [−π, π], speeds bounded to ±4π and ±9π. Reward −1 per step, 0 at the step that terminates.
    terminated: −cos θ₁ − cos(θ₁ + θ₂) > 1 after the step.

    Reference: Sutton & Barto, "Reinforcement Learning: An Introduction" (1998), section 11.3.
    """

    state_size = 4  # theta1, theta2, theta1_dot, theta2_dot

    @staticmethod
    def start(rng, count):
        """Draw `count` start states, every number uniform in [−0.1, 0.1), rounded to float32 as Gymnasium does."""
        return rng.uniform(-0.1, 0.1, (count, 4)).astype(np.float32).astype(np.float64)

    @staticmethod
    def _derivative(state, torque):
        """d(θ₁, θ₂, θ̇₁, θ̇₂)/dt by the equations above: (4, n) and (n,) -> (4, n)."""
        theta1, theta2, speed1, speed2 = state
        cos2, sin2 = np.cos(theta2), np.sin(theta2)
        d1 = 0.25 + (1.25 + cos2) + 1.0 + 1.0
        d2 = (0.25 + 0.5 * cos2) + 1.0
        phi2 = 4.9 * np.cos(theta1 + theta2 - PI / 2)
        phi1 = -0.5 * speed2**2 * sin2 - speed2 * speed1 * sin2 + 1.5 * 9.8 * np.cos(theta1 - PI / 2) + phi2
        rate = np.empty_like(state)
        rate[:2] = state[2:]
        rate[3] = (torque + d2 / d1 * phi1 - 0.5 * speed1**2 * sin2 - phi2) / (1.25 - d2**2 / d1)
        rate[2] = -(d2 * rate[3] + phi1) / d1
        return rate

    @staticmethod
    def step(state, action):
        """Advance one step.

        Args:
            state: (4, n) float64.
            action: (n,) ints, 0, 1 or 2.

        Returns:
            next state (4, n) float64, reward (n,) float64, terminated (n,) bool.
        """
        f, torque = Acrobot._derivative, action - 1.0
        k1 = f(state, torque)
        k2 = f(state + 0.1 * k1, torque)
        k3 = f(state + 0.1 * k2, torque)
        k4 = f(state + 0.2 * k3, torque)
        state = state + 0.2 / 6.0 * (k1 + 2 * k2 + 2 * k3 + k4)
        angles = state[:2]
        while np.abs(angles).max() > PI:  # wrapped one turn at a time, as Gymnasium does: the same rounding
            angles -= 2 * PI * ((angles > PI) * 1.0 - (angles < -PI))
        np.clip(state[2], -4 * PI, 4 * PI, out=state[2])
        np.clip(state[3], -9 * PI, 9 * PI, out=state[3])
        terminated = -np.cos(state[0]) - np.cos(state[1] + state[0]) > 1.0
        return state, terminated - 1.0, terminated

    @staticmethod
    def observe(state):
        """(4, n) float64 -> (n, 6) float32: cos θ₁, sin θ₁, cos θ₂, sin θ₂, θ̇₁, θ̇₂."""
        obs = np.empty((state.shape[1], 6), np.float32)
        obs[:, 0:4:2] = np.cos(state[:2]).T
        obs[:, 1:4:2] = np.sin(state[:2]).T
        obs[:, 4:] = state[2:].T
        return obs


class Pendulum:
    """Pendulum-v1: one link, a torque u in [−2, 2] at its pivot; swing it up and hold it. It never terminates.

    With g = 10, m = l = 1, τ = 0.05 s, θ = 0 upright:

        r  = −(θ̄² + 0.1 θ̇² + 0.001 u²)     before the step, θ̄ = θ wrapped to [−π, π)
        θ̇ ← clip(θ̇ + τ (15 sin θ + 3 u), −8, 8)
        θ  ← θ + τ θ̇                        with the new θ̇
    """

    state_size = 2  # theta, theta_dot

    @staticmethod
    def start(rng, count):
        """Draw `count` start states: θ uniform in [−π, π), θ̇ uniform in [−1, 1). Returns (count, 2) float64."""
        high = np.array([PI, 1.0])
        return rng.uniform(-high, high, (count, 2))

    @staticmethod
    def step(state, action):
        """Advance one step.

        Args:
            state: (2, n) float64.
            action: (n, 1) float32 torques, already clipped to [−2, 2].

        Returns:
            next state (2, n) float64, reward (n,) float64, terminated (n,) bool (all False).
        """
        theta, speed = state
        torque = action[:, 0]
        angle = (theta + PI) % (2 * PI) - PI
        reward = -(angle**2 + 0.1 * speed**2 + 0.001 * torque**2)
        new = np.empty_like(state)
        new[1] = np.clip(speed + (15.0 * np.sin(theta) + 3.0 * torque) * 0.05, -8.0, 8.0)
        new[0] = theta + new[1] * 0.05
        return new, reward, np.zeros(reward.shape, bool)

    @staticmethod
    def observe(state):
        """(2, n) float64 -> (n, 3) float32: cos θ, sin θ, θ̇."""
        obs = np.empty((state.shape[1], 3), np.float32)
        obs[:, 0], obs[:, 1], obs[:, 2] = np.cos(state[0]), np.sin(state[0]), state[1]
        return obs


TWINS = {"CartPole-v1": CartPole, "Acrobot-v1": Acrobot, "Pendulum-v1": Pendulum}
