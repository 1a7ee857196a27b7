MODULE = "rlcourse.agents.runs"
TESTS = ["tests/agents/test_runs.py"]
FAULTS = [
    (
        "no bias correction of the mean",
        "(learning_rate / (1 - b1**t))",
        "(learning_rate * 1.0)",
        "The first steps are ten times too short.",
    ),
    ("no bias correction of the square", "(1 / (1 - b2**t).sqrt())", "(t * 0 + 1)", "The first steps are far too long."),
    ("epsilon inside the root", "v.sqrt().mul_", "(v + self.eps).sqrt().mul_", "Small gradients hardly move the parameters."),
    ("ascent", "x.sub_((m * rate)", "x.add_((m * rate)", "Every loss rises."),
    (
        "frozen rows keep moving",
        "x.copy_(torch.where(active, x, old))",
        "pass",
        "A run that stopped early drifts on its old momentum.",
    ),
    (
        "moments of frozen rows change",
        "self.m, self.v = torch.where(active, m, self.m), torch.where(active, v, self.v)",
        "self.m, self.v = m, v",
        "A run that stopped early wakes up with other moments.",
    ),
    (
        "step count of frozen rows grows",
        "self.count += active",
        "self.count += 1",
        "A run that stopped early wakes up with other step sizes.",
    ),
    ("frozen rows move all", "x.copy_(torch.where(active, x, old))", "x.copy_(old)", "One stopped run stops its neighbours."),
    ("weights with the wrong gain", "return gain * (q", "return (q", "The first policy is far from uniform."),
    (
        "no tanh",
        "x = torch.tanh(torch.baddbmm(bias, x, weight))",
        "x = torch.baddbmm(bias, x, weight)",
        "The networks are linear.",
    ),
    (
        "losses of the runs averaged",
        "torch.autograd.grad(loss.sum(), self._leaves[part])",
        "torch.autograd.grad(loss.mean(), self._leaves[part])",
        "With many runs gradients look small; clipping acts late.",
    ),
    (
        "gradient norm over all runs",
        "torch.linalg.vector_norm(gradient, dim=1, keepdim=True)",
        "torch.linalg.vector_norm(gradient).expand(self.num_runs, 1)",
        "One wild run slows its neighbours.",
    ),
    ("gradient clipping scales up", ".clamp(max=1.0)", "", "Small gradients are blown up to the bound."),
    (
        "quarantine at the broken parameters",
        "torch.where(bad[:, None], self._before, self.parameters)",
        "torch.where(bad[:, None], self.parameters, self.parameters)",
        "A NaN run feeds NaN actions to its environments.",
    ),
    ("non-finite gradients pass", "gradient = torch.where(finite, gradient, 0.0)", "pass", "NaN enters the moments."),
    (
        "all runs draw the same noise",
        "for g in self.noise_generators], 1)",
        "for g in [self.noise_generators[0]] * self.num_runs], 1)",
        "Runs depend on their neighbours' seeds.",
    ),
    (
        "environments shared by all runs",
        "for stream in self._env_streams]).tolist()",
        "for stream in [self._env_streams[0]] * self.num_runs]).tolist()",
        "Runs depend on their neighbours' seeds.",
    ),
    (
        "select shares nothing of the run",
        "alone.parameters.copy_(self.parameters[run : run + 1])",
        "pass",
        "The policy that is returned is the untrained one.",
    ),
]
