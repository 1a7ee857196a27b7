"""R independent actor-critics as one batched computation: the home of their parameters, moments and random streams.

Parameters of all runs lie in one matrix of shape (R, P); a layer's weights are views of it, shaped (R, in, out), and one
`baddbmm` per layer serves every run. Losses come in one per run, `(R,)`; their sum is differentiated once, and since no
run's loss touches another run's parameters, gradients cannot mix.
"""

import math

import numpy as np
import torch

from rlcourse.agents.networks import ActorCritic, backward, forward, mlp, orthogonal_weights, tangent, uniform_weights
from rlcourse.agents.normalization import ObsNormalizer, Statistics
from rlcourse.agents.policies import action_head
from rlcourse.equations.processes import group, mean_over_processes

PARTS = ("policy", "critic", "both")


class Adam:
    """Adam (Kingma & Ba 2015, algorithm 1) over the rows of a (R, P) matrix: each row has its own rate, moments and step count.

    m ← β₁m + (1−β₁)g,  v ← β₂v + (1−β₂)g²,  x ← x − lr · (m/(1−β₁ᵗ)) / (√(v/(1−β₂ᵗ)) + ε)

    Rows outside `active` keep parameters, moments and step count: a zero gradient would still move them.
    """

    def __init__(self, rows: int, columns: int, dtype: torch.dtype, betas=(0.9, 0.999), eps: float = 1e-5):
        self.betas, self.eps = betas, eps
        self.m = torch.zeros(rows, columns, dtype=dtype)
        self.v = torch.zeros(rows, columns, dtype=dtype)
        self.count = torch.zeros(rows, 1, dtype=torch.float64)

    @torch.no_grad()
    def step(self, x: torch.Tensor, gradient: torch.Tensor, learning_rate: torch.Tensor, active: torch.Tensor) -> None:
        """Update `x` (R, P) in place. gradient (R, P); learning_rate (R, 1); active (R, 1) bool."""
        everyone = bool(active.all())
        m, v, old = (self.m, self.v, None) if everyone else (self.m.clone(), self.v.clone(), x.clone())
        b1, b2 = self.betas
        self.count += active
        m.lerp_(gradient, 1 - b1)
        v.mul_(b2).addcmul_(gradient, gradient, value=1 - b2)
        # x ← x − m / [(√v/√(1−β₂ᵗ) + ε) (1−β₁ᵗ)/lr]; both corrections are one number per row. A row that never moved has t = 0.
        t = self.count.clamp(min=1)
        spread = (1 - b2**t).rsqrt_().to(x.dtype)
        x.addcdiv_(m, v.sqrt().mul_(spread).add_(self.eps).mul_(((1 - b1**t) / learning_rate).to(x.dtype)), value=-1)
        if not everyone:
            x.copy_(torch.where(active, x, old))
            self.m, self.v = torch.where(active, m, self.m), torch.where(active, v, self.v)

    def snapshot(self) -> dict:
        """Moments and step counts."""
        return {name: getattr(self, name).numpy().copy() for name in ("m", "v", "count")}

    def restore(self, snapshot: dict) -> None:
        for name, value in snapshot.items():
            getattr(self, name).copy_(torch.from_numpy(value))


class Runs:
    """The actor-critics of R runs. Run r depends on seeds[r] and its own data only.

    Args:
        obs_size: length of one observation vector.
        action_space: Gymnasium Discrete or Box; gives the distribution of actions (see policies.action_head).
        hidden_sizes: widths of the tanh layers; policy and critic have separate networks of this shape.
        seeds: one int per run. Each run has generators of its own for initial weights, actions and minibatch order.
        dtype: torch.float32 to train, torch.float64 to check.
        initialisation, normalize_obs: see algorithm.Algorithm.
        gaussian: initial_log_std, std, bounds of Gaussian policies, see policies.GaussianHead.
    """

    def __init__(
        self, obs_size, action_space, hidden_sizes, seeds, dtype=torch.float32,
        *, initialisation="orthogonal", normalize_obs=False, **gaussian,
    ):  # fmt: skip
        self.obs_size, self.hidden_sizes, self.dtype, self.seeds = obs_size, tuple(hidden_sizes), dtype, list(seeds)
        self.num_runs = len(self.seeds)
        self.head = action_head(action_space, **gaussian)
        self.network = {
            "hidden_sizes": self.hidden_sizes, "initialisation": initialisation, "normalize_obs": normalize_obs, **gaussian
        }  # fmt: skip
        streams = [np.random.SeedSequence(seed).spawn(4) for seed in self.seeds]
        initial, noise, order = ([np.random.default_rng(s) for s in kind] for kind in list(zip(*streams, strict=True))[:3])
        self.noise_generators, self.order_generators = noise, order
        self._env_streams = [stream[3] for stream in streams]

        policy_sizes, critic_sizes = self._sizes()
        log_std = np.full(self.head.num_log_std, self.head.initial_log_std)
        draw = orthogonal_weights if initialisation == "orthogonal" else uniform_weights
        rows = [np.concatenate([draw(g, policy_sizes, 0.01), log_std, draw(g, critic_sizes, 1.0)]) for g in initial]
        self.parameters = group().first(torch.tensor(np.stack(rows), dtype=dtype))
        self._make_views()
        self._optimisers: dict[str, Adam] = {}
        self.normalizer = ObsNormalizer(Statistics(self.num_runs, obs_size), dtype) if normalize_obs else None
        self.progress = 0.0  # share of the training that is done
        self.memory: dict[str, torch.Tensor] = {}  # what an algorithm keeps from update to update, name → (R,)
        self.failed: dict[int, str] = {}  # quarantined runs and why
        self.active = torch.ones(self.num_runs, dtype=torch.bool)
        self._before = self.parameters.clone()
        self.begin_update()

    def _sizes(self):
        """Widths of the layers of policy and critic, input and output included."""
        return ([self.obs_size, *self.hidden_sizes, outputs] for outputs in (self.head.num_outputs, 1))

    def _make_views(self):
        """The weights of all layers, as views of the parameter matrix."""
        policy_sizes, critic_sizes = self._sizes()
        self._policy_layers, used = self._layers(policy_sizes, 0)
        self._log_std = self._leaf(used, 1, self.head.num_log_std) if self.head.num_log_std else None
        self.num_policy_parameters = used + self.head.num_log_std
        self._critic_layers, _ = self._layers(critic_sizes, self.num_policy_parameters)
        policy = [*self._policy_layers, *([] if self._log_std is None else [self._log_std])]
        self._leaves = {"policy": policy, "critic": self._critic_layers, "both": policy + self._critic_layers}
        split, end = self.num_policy_parameters, self.parameters.shape[1]
        self._columns = {"policy": slice(0, split), "critic": slice(split, end), "both": slice(0, end)}
        self._matrix = self.parameters.detach().requires_grad_()  # the same numbers, as one leaf

    def __getstate__(self):
        """For pickle and copy: everything but the views, which would come back as matrices of their own."""
        views = "_policy_layers", "_log_std", "_critic_layers", "_leaves", "_matrix"
        return {name: value for name, value in vars(self).items() if name not in views}

    def __setstate__(self, state):
        vars(self).update(state)
        self._make_views()

    def _leaf(self, start, rows, columns):
        """A view of the parameter matrix as a stack of (rows, columns) matrices, ready to be differentiated."""
        size = rows * columns
        return self.parameters[:, start : start + size].view(self.num_runs, rows, columns).requires_grad_()

    def _layers(self, sizes, start):
        leaves = []
        for inputs, outputs in zip(sizes, sizes[1:], strict=False):
            leaves.append(self._leaf(start, inputs, outputs))
            leaves.append(self._leaf(start + inputs * outputs, 1, outputs))
            start += (inputs + 1) * outputs
        return leaves, start

    # ---- what an algorithm calls -------------------------------------------------------------------------------------

    def policy(self, obs: torch.Tensor):
        """The action distribution of each run for its own observations. obs (R, B, obs_size) → distribution over (R, B)."""
        return self.head.distribution(mlp(self._policy_layers, self._seen(obs)), self._log_std)

    def value(self, obs: torch.Tensor) -> torch.Tensor:
        """V(s) of each run's critic. obs (R, B, obs_size) → (R, B)."""
        return mlp(self._critic_layers, self._seen(obs)).squeeze(-1)

    def __call__(self, obs: torch.Tensor):
        """(policy(obs), value(obs)), faster to differentiate than one by one, but only once."""
        views = self._policy_layers, self._log_std, self._critic_layers
        output, value, log_std = ActorCritic.apply(self._matrix, self._seen(obs), *views)
        return self.head.distribution(output, log_std), value.squeeze(-1)

    def _seen(self, obs):
        """The observations as the networks see them."""
        return obs if self.normalizer is None else self.normalizer(obs)

    def observe(self, obs: torch.Tensor) -> None:
        """Take observations (R, B, obs_size) into the statistics, if there are any. Call it after an update, not before."""
        if self.normalizer is not None:
            self.normalizer.update(obs)

    def begin_update(self) -> None:
        """Wake the runs that stopped early in the last update; quarantined runs stay out."""
        self.check_finite()
        self._before = self.parameters.clone()
        self.active = torch.tensor([r not in self.failed for r in range(self.num_runs)])
        self._norms = []

    def stop_where(self, stop: torch.Tensor) -> None:
        """Freeze the runs where `stop` (R,) is true until the next `begin_update`: parameters, moments and step counts."""
        self.active = self.active & ~stop

    def step(self, loss: torch.Tensor, learning_rate, part: str = "both", max_grad_norm=None) -> None:
        """One Adam step of every active run on its own loss.

        Args:
            loss: (R,), one loss per run.
            learning_rate: a number, or (R,), one per run.
            part: which parameters move: "policy", "critic" or "both". Each choice has Adam moments of its own.
            max_grad_norm: scale a run's gradient down to this Euclidean norm; None: leave it. A number, or (R,).

        A run whose gradient is not finite (or so large, and not scaled down, that its square is not) is quarantined: its
        parameters go back to what they were at the start of this update, it takes no further step, and `failed` says why. The
        other runs are untouched.
        """
        gradient, norm = self._gradient(loss, part, scaled=max_grad_norm is not None)
        if max_grad_norm is not None:
            gradient = gradient.mul_((_column(max_grad_norm, self.dtype) / (norm + 1e-6)).clamp_(max=1.0))
        if part not in self._optimisers:
            self._optimisers[part] = Adam(*gradient.shape, self.dtype)
        rate = _column(learning_rate, torch.float64)
        self._optimisers[part].step(self.parameters[:, self._columns[part]], gradient, rate, self.active[:, None])

    def policy_gradient(self, objective: torch.Tensor) -> torch.Tensor:
        """Gradient of each run's objective (R,) in its policy parameters, (R, n). A run where it is not finite is quarantined."""
        return self._gradient(objective, "policy")[0]

    def _gradient(self, loss, part, scaled=False):
        """((R, n) gradient, (R, 1) norm); rows that cannot be used become 0, and their runs are quarantined.

        scaled: the gradient will be scaled down, so it may be so large that its square overflows.
        """
        if loss.shape != (self.num_runs,):
            expected = f"one loss per run, ({self.num_runs},): average over the last axis"
            raise ValueError(f"loss has shape {tuple(loss.shape)}; expected {expected}.")
        if part not in PARTS:
            raise ValueError(f"part = {part!r}; expected one of {PARTS}.")
        gradient = mean_over_processes(self._differentiate(loss.sum(), part))
        norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
        if not math.isfinite(norm.sum()):  # of a run, or only of a square on the way
            norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True, dtype=torch.float64).to(self.dtype)
            usable = torch.isfinite(norm if scaled else norm.square())
            self.quarantine(~usable[:, 0] & self.active, f"the gradient of its loss (part: {part}) is not finite")
            gradient = torch.where(usable, gradient, 0.0)
        if part != "critic":
            self._norms.append((norm[:, 0], self.active))
        return gradient, norm

    def _differentiate(self, total, part):
        """Gradient (R, n) of a scalar, through whichever of `agent(obs)`, `agent.policy(obs)`, `agent.value(obs)` it came."""
        matrix, *leaves = torch.autograd.grad(total, [self._matrix, *self._leaves[part]], allow_unused=True)
        if matrix is None and any(leaf is None for leaf in leaves):
            raise ValueError(f"the loss does not depend on all parameters of part = {part!r}. Detached, or another part?")
        if matrix is not None and all(leaf is None for leaf in leaves):
            return matrix[:, self._columns[part]]
        zeros = (torch.zeros_like(leaf) for leaf in self._leaves[part])
        flat = torch.cat([(zero if leaf is None else leaf).flatten(1) for leaf, zero in zip(leaves, zeros, strict=True)], 1)
        return flat if matrix is None else flat + matrix[:, self._columns[part]]

    def fisher_vector_product(self, obs: torch.Tensor, damping=0.0):
        """The map v ↦ (F + cI)v of each run's policy, (R, n) → (R, n), F as in `equations.trust_region.fisher_vector_product`.

            F = Jᵀ H J / B           J: outputs of the network in θ;  H: Hessian of the KL in these outputs (and log σ)

        This is exact, because at θ_old the gradient of the KL is 0. J and Jᵀ are passes through the networks without autograd;
        only H, a few numbers per state, is differentiated twice: faster than two backward passes, several times on large batches.

        Args:
            obs: (R, B, obs_size). damping: c ≥ 0; a number, or (R,).
        """
        layers, size = self._policy_layers, self.num_policy_parameters - self.head.num_log_std
        with torch.no_grad():
            inputs, output = forward(layers, self._seen(obs))
        outputs = [output, *([] if self._log_std is None else [self._log_std.detach()])]
        outputs = [x.requires_grad_() for x in outputs]
        new = self.head.distribution(*outputs)
        kl = new.detach().kl(new).mean(-1).sum()
        slope = torch.autograd.grad(kl, outputs, create_graph=True)
        damping = _column(damping, self.dtype)

        def product(v):
            with torch.no_grad():
                change = [tangent(layers, inputs, v), *(v[:, None, size:] for _ in outputs[1:])]
            along = sum((a * b).sum() for a, b in zip(slope, change, strict=True))
            error, *in_log_std = torch.autograd.grad(along, outputs, retain_graph=True)  # H J v
            result = torch.empty_like(v)
            with torch.no_grad():
                backward(layers, inputs, error, result[:, :size])
            for x in in_log_std:
                result[:, size:] = x[:, 0]
            result = mean_over_processes(result)
            return result + damping * v

        return product

    def one_each(self, value) -> torch.Tensor:
        """A number, or one per run, as a tensor (R,)."""
        return torch.as_tensor(value, dtype=self.dtype).expand(self.num_runs)

    @property
    def policy_parameters(self) -> list[torch.Tensor]:
        """The policy's parameters, each with a leading axis of runs; `fisher_vector_product` differentiates them."""
        return self._leaves["policy"]

    def policy_vector(self) -> torch.Tensor:
        """A copy of the policy's parameters as one vector per run, (R, n)."""
        return self.parameters[:, self._columns["policy"]].clone()

    @torch.no_grad()
    def move_policy(self, start: torch.Tensor, step: torch.Tensor, fraction) -> None:
        """Put each active run's policy at start + fraction · step; where fraction is 0 at `start`, bit for bit.

        start, step (R, n); fraction: a number, or (R,).
        """
        fraction = _column(fraction, self.dtype)
        moves = (fraction > 0) & self.active[:, None]
        self.parameters[:, self._columns["policy"]] = torch.where(moves, start + fraction * step, start)

    def quarantine(self, bad: torch.Tensor, why: str) -> None:
        """Take the runs where `bad` (R,) is true out of training for good, at their parameters before this update."""
        for r in torch.nonzero(bad).flatten().tolist():
            self.failed.setdefault(r, why)
        self.active = self.active & ~bad
        with torch.no_grad():
            self.parameters.copy_(torch.where(bad[:, None], self._before, self.parameters))

    def tame(self, action: torch.Tensor) -> None:
        """Quarantine the runs with an action that is not finite, and put 0 in its place. action (R, N, A), in place."""
        wild = ~torch.isfinite(action)
        self.quarantine(wild.flatten(1).any(1), "its actions are not finite: the step was too long")
        action.masked_fill_(wild, 0.0)

    def check_finite(self) -> None:
        """Quarantine every run whose parameters are not finite (as after a reckless step size)."""
        bad = ~torch.isfinite(self.parameters).all(1)
        if bad.any():
            self.quarantine(bad, "its parameters are not finite: the step was too long, or the loss overflowed")

    @property
    def grad_norm(self) -> torch.Tensor:
        """Mean gradient norm (before clipping) over the policy steps of this update that each run took, (R,); NaN without any."""
        if not self._norms:
            return torch.full((self.num_runs,), math.nan, dtype=self.dtype)
        norms, active = map(torch.stack, zip(*self._norms, strict=True))
        return torch.where(active, norms, math.nan).nanmean(0)

    # ---- what a rollout calls ----------------------------------------------------------------------------------------

    def env_seeds(self, num_envs: int, again: int | None = None) -> list[int]:
        """Seeds for R·num_envs sub-environments, those of run 0 first; run r's come from seeds[r] only.

        again: a number ≥ 0 gives fresh seeds, for episodes that begin anew in the middle of a training.
        """
        streams = self._env_streams
        if again is not None:
            streams = [np.random.SeedSequence(stream.entropy, spawn_key=(*stream.spawn_key, again)) for stream in streams]
        return np.concatenate([stream.generate_state(num_envs)[group().part(num_envs)] for stream in streams]).tolist()

    def action_noise(self, num_steps: int, num_envs: int) -> torch.Tensor:
        """Standard noise for a whole rollout, (num_steps, R, num_envs, …), each run's from its own generator."""
        total = num_envs * group().size  # drawn for the environments of all processes: the generators stay equal in all
        noise = torch.stack([self.head.noise(g, (num_steps, total), self.dtype) for g in self.noise_generators], 1)
        return noise[:, :, group().part(total)]

    @torch.inference_mode()
    def act(self, obs: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """Actions of each run for its own environments. obs (R, N, obs_size), noise (R, N, …) → (R, N) or (R, N, A)."""
        return self.policy(obs).from_noise(noise)

    def permutations(self, size: int) -> torch.Tensor:
        """One random order of `size` rows per run, (R, size) int64, each from the run's own generator.

        A run that has stopped draws none: alone, it would not have asked for one.
        """
        going = zip(self.order_generators, self.active.tolist(), strict=True)
        return torch.from_numpy(np.stack([g.permutation(size) if active else np.arange(size) for g, active in going]))

    # ---- what a file of weights holds -----------------------------------------------------------------------------------

    def weights(self, run: int) -> dict[str, np.ndarray]:
        """The parameters of one run under the names and in the shapes of torch.nn.Sequential(Linear, Tanh, Linear, …).

        "policy.0.weight" (out, in), "policy.0.bias" (out,), "policy.2.weight" …, "log_std" (A,) if it is a parameter, "critic.…".
        """
        named = {}
        for part, layers in (("policy", self._policy_layers), ("critic", self._critic_layers)):
            for i, (weight, bias) in enumerate(zip(layers[::2], layers[1::2], strict=True)):
                named |= {f"{part}.{2 * i}.weight": weight[run].mT, f"{part}.{2 * i}.bias": bias[run, 0]}
        if self._log_std is not None:
            named["log_std"] = self._log_std[run, 0]
        return {name: value.detach().numpy().copy() for name, value in named.items()}

    @staticmethod
    def joined(weights: dict[str, np.ndarray]) -> torch.Tensor:
        """What `weights` gave, as the one row (1, P) of a parameter matrix."""
        pieces = []
        for part in ("policy", "critic"):
            for i in range(sum(name.startswith(f"{part}.") for name in weights) // 2):
                pieces += [weights[f"{part}.{2 * i}.weight"].T.ravel(), weights[f"{part}.{2 * i}.bias"]]
            if part == "policy" and "log_std" in weights:
                pieces.append(weights["log_std"])
        return torch.from_numpy(np.concatenate(pieces)[None])

    # ---- what a checkpoint calls -------------------------------------------------------------------------------------

    def snapshot(self) -> dict:
        """All that the next update depends on, as plain data with NumPy arrays: between two updates only."""
        return {
            "parameters": self.parameters.detach().numpy().copy(),
            "optimisers": {part: optimiser.snapshot() for part, optimiser in self._optimisers.items()},
            "noise": [generator.bit_generator.state for generator in self.noise_generators],
            "order": [generator.bit_generator.state for generator in self.order_generators],
            "normalizer": None if self.normalizer is None else self.normalizer.statistics.snapshot(),
            "memory": {name: value.numpy().copy() for name, value in self.memory.items()},
            "failed": [[run, why] for run, why in self.failed.items()],
            "progress": self.progress,
        }

    @torch.no_grad()
    def restore(self, snapshot: dict) -> None:
        """Become what `snapshot()` described; the population must be of the same make."""
        self.parameters.copy_(torch.from_numpy(snapshot["parameters"]))
        for part, stored in snapshot["optimisers"].items():
            self._optimisers[part] = Adam(*stored["m"].shape, self.dtype)
            self._optimisers[part].restore(stored)
        for name, generators in (("noise", self.noise_generators), ("order", self.order_generators)):
            for generator, state in zip(generators, snapshot[name], strict=True):
                generator.bit_generator.state = state
        if self.normalizer is not None:
            self.normalizer.statistics.restore(snapshot["normalizer"])
            self.normalizer.refresh()
        self.memory = {name: torch.from_numpy(value) for name, value in snapshot["memory"].items()}
        self.failed = dict(snapshot["failed"])
        self.progress = snapshot["progress"]

    def select(self, run: int) -> "Runs":
        """Run `run` alone: the same parameters, as a population of one (a copy; moments and random states start afresh)."""
        alone = Runs(self.obs_size, self.head.space, seeds=[self.seeds[run]], dtype=self.dtype, **self.network)
        with torch.no_grad():
            alone.parameters.copy_(self.parameters[run : run + 1])
        if self.normalizer is not None:
            alone.normalizer = ObsNormalizer(self.normalizer.statistics.select(run), self.dtype)
        return alone


def _column(value, dtype):
    """A number or one number per run (R,) as something that scales the rows of (R, P)."""
    value = torch.as_tensor(value, dtype=dtype)
    return value[:, None] if value.ndim else value
