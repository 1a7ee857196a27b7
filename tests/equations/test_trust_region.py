"""Fisher products, conjugate gradient, the KKT step and the line search, each by another route."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.optimize
import torch

from rlcourse import Categorical, DiagonalGaussian
from rlcourse.equations.trust_region import (
    backtracking_line_search,
    conjugate_gradient,
    fisher_vector_product,
    kkt_step,
)

CASES = {c["id"]: c for c in map(json.loads, (Path(__file__).parents[1] / "cases.jsonl").read_text("utf-8").splitlines())}
f64 = torch.float64


def tensor(x):
    return torch.tensor(x, dtype=f64)


def spd(rng, n, condition=50.0):
    q, _ = np.linalg.qr(rng.normal(size=(n, n)))
    return (q * np.geomspace(1, condition, n)) @ q.T


def times(matrix):
    matrix = torch.as_tensor(matrix, dtype=f64)
    return lambda v: (matrix @ v[..., None])[..., 0]


# ---- conjugate gradient -------------------------------------------------------------------------------------------------


def test_case_three_unknowns():
    case = CASES["cg-spd"]["input"]
    solution = conjugate_gradient(times(tensor(case["A"])), tensor(case["b"]), max_iters=case["max_iterations"])
    torch.testing.assert_close(solution.x, tensor(CASES["cg-spd"]["expect"]["x"]), rtol=0, atol=1e-8)
    assert solution.iters == 3


def test_case_zero_right_hand_side_gives_zero():
    case = CASES["cg-zero-rhs"]["input"]
    solution = conjugate_gradient(times(tensor(case["A"])), tensor(case["b"]))
    assert solution.x.tolist() == [0.0, 0.0] and solution.iters == 0 and solution.residual_norm == 0


def test_case_ill_conditioned_matrix_reaches_a_small_residual_and_the_objective_never_rises():
    case = CASES["cg-ill-conditioned"]
    a, b = tensor(case["input"]["A"]), tensor(case["input"]["b"])
    objectives = []
    for k in range(12):
        x = conjugate_gradient(times(a), b, max_iters=k, rel_tol=1e-14).x
        objectives.append(float(0.5 * x @ a @ x - b @ x))
    assert (np.diff(objectives) <= 1e-12).all()
    x = conjugate_gradient(times(a), b, max_iters=60, rel_tol=1e-12).x
    assert (a @ x - b).norm() / b.norm() <= case["expect"]["relative_residual_at_most"]


@pytest.mark.parametrize("n", [1, 2, 10, 50])
def test_solves_like_numpy(n):
    rng = np.random.default_rng(n)
    a, b = spd(rng, n), rng.normal(size=n)
    x = conjugate_gradient(times(a), tensor(b), max_iters=3 * n, rel_tol=1e-13).x
    np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=0, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_tolerance_of_zero_ends_where_the_digits_do(dtype):
    """Beyond them the residual is noise, and pᵀFp could round to 0 or below: no sign is wrong then."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        for n in (2, 3):
            a, b = tensor(spd(rng, n, 100.0)).to(dtype), tensor(rng.normal(size=n)).to(dtype)
            solution = conjugate_gradient(lambda v, a=a: a @ v, b, max_iters=50, rel_tol=0)
            assert (a @ solution.x - b).norm() <= 1000 * torch.finfo(dtype).eps * b.norm() and solution.iters < 50


def test_as_many_iterations_as_distinct_eigenvalues():
    rng = np.random.default_rng(0)
    q, _ = np.linalg.qr(rng.normal(size=(30, 30)))
    a = (q * rng.choice([1.0, 3.0, 10.0], 30)) @ q.T
    solution = conjugate_gradient(times(a), tensor(rng.normal(size=30)), max_iters=30, rel_tol=1e-7)
    assert solution.iters == 3


def test_error_in_the_f_norm_stays_below_the_chebyshev_bound():
    rng = np.random.default_rng(1)
    a, b = spd(rng, 40, 100.0), rng.normal(size=40)
    exact = np.linalg.solve(a, b)
    f_norm = lambda e: float(np.sqrt(e @ a @ e))  # noqa: E731
    for k in range(1, 20):
        error = conjugate_gradient(times(a), tensor(b), max_iters=k, rel_tol=0).x.numpy() - exact
        assert f_norm(error) <= 2 * (9 / 11) ** k * f_norm(exact)


@pytest.mark.parametrize("size", [1e-30, 1e-12, 1.0, 1e20])
def test_the_answer_scales_with_the_right_hand_side_in_float32(size):
    """An absolute tolerance, or a small constant in the denominators, would return the plain gradient's direction here."""
    rng = np.random.default_rng(2)
    a, b = spd(rng, 5), rng.normal(size=5)
    x = conjugate_gradient(lambda v: times(a)(v.double()).float(), torch.tensor(b * size).float(), max_iters=20, rel_tol=1e-6).x
    np.testing.assert_allclose(x.double() / size, np.linalg.solve(a, b), rtol=1e-3, atol=1e-4)


def test_many_problems_at_once_are_the_same_as_one_by_one():
    rng = np.random.default_rng(3)
    a = np.stack([spd(rng, 6, c) for c in (1.0, 10.0, 1e3)])
    b = rng.normal(size=(3, 6))
    b[1] = 0
    together = conjugate_gradient(times(a), tensor(b), max_iters=30, rel_tol=1e-10)
    for i in range(3):
        alone = conjugate_gradient(times(a[i]), tensor(b[i]), max_iters=30, rel_tol=1e-10)
        torch.testing.assert_close(together.x[i], alone.x, rtol=1e-9, atol=1e-12)
        assert together.iters[i] == alone.iters
    assert together.iters.tolist()[1] == 0 and together.iters[0] < together.iters[2]


def test_residuals_are_the_true_ones():
    rng = np.random.default_rng(4)
    a, b = spd(rng, 8), rng.normal(size=8)
    solution = conjugate_gradient(times(a), tensor(b), max_iters=5, rel_tol=0)
    assert solution.residuals[0] == 1 and len(solution.residuals) == 6
    true = np.linalg.norm(b - a @ solution.x.numpy()) / np.linalg.norm(b)
    np.testing.assert_allclose(solution.residual_norm, true, rtol=1e-9)


@pytest.mark.parametrize("matrix", [-np.eye(2), np.diag([1.0, -1.0]), np.zeros((2, 2))])
def test_no_positive_curvature_raises(matrix):
    with pytest.raises(ValueError, match="positive definite"):
        conjugate_gradient(times(matrix), tensor([1.0, 2.0]))


def test_one_problem_without_positive_curvature_leaves_those_beside_it_alone():
    rng = np.random.default_rng(5)
    good, b = [spd(rng, 6), spd(rng, 6)], tensor(rng.normal(size=(3, 6)))
    bad = good[0] - 10 * np.eye(6)  # positive curvature along some directions, negative along others
    product = times(np.stack([good[0], bad, good[1]]))
    with pytest.raises(ValueError, match="positive definite"):
        conjugate_gradient(product, b)
    solution = conjugate_gradient(product, b, max_iters=40, strict=False)
    step = kkt_step(b, product, 0.01, cg_iters=40, strict=False)
    for row, matrix in ((0, good[0]), (2, good[1])):
        expected = np.linalg.solve(matrix, b[row].numpy())
        torch.testing.assert_close(solution.x[row], tensor(expected), rtol=1e-7, atol=0)
        torch.testing.assert_close(step.direction[row], tensor(expected), rtol=1e-7, atol=0)
    assert solution.x[1].isnan().all() and solution.residual_norm.isnan().tolist() == [False, True, False]
    for number in (step.multiplier, step.predicted_kl, step.predicted_improvement):
        assert number.isnan().tolist() == [False, True, False]
    assert step.step[1].isnan().all()


def test_wrong_arguments():
    b = tensor([1.0, float("nan")])
    with pytest.raises(ValueError, match="NaN"):
        conjugate_gradient(times(np.eye(2)), b)
    with pytest.raises(ValueError, match="rel_tol = 1"):
        conjugate_gradient(times(np.eye(2)), tensor([1.0, 1.0]), rel_tol=1)
    with pytest.raises(TypeError, match="max_iters.*2.5"):
        conjugate_gradient(times(np.eye(2)), tensor([1.0, 1.0]), max_iters=2.5)
    with pytest.raises(TypeError, match="b must be a torch tensor"):
        conjugate_gradient(times(np.eye(2)), np.ones(2))
    for wrong in (torch.ones(()), torch.ones(0)):
        with pytest.raises(ValueError, match="b has shape"):
            conjugate_gradient(times(np.eye(2)), wrong)


@pytest.mark.parametrize("reshape", [lambda v: v[:, None], lambda v: v[None]])
@pytest.mark.parametrize("size", [1, 3])
def test_a_product_of_another_shape_is_refused(reshape, size):
    with pytest.raises(ValueError, match=r"matvec\(p\)"):
        conjugate_gradient(reshape, torch.ones(size, dtype=f64))


@pytest.mark.parametrize("max_kl", [0, -1, float("nan"), float("inf")])
def test_a_limit_out_of_range_is_refused(max_kl):
    with pytest.raises(ValueError, match="max_kl"):
        kkt_step(torch.ones(3, dtype=f64), lambda v: v, max_kl)
    if not max_kl >= 0:
        with pytest.raises(ValueError, match="max_kl"):
            backtracking_line_search(lambda fraction: (1.0, 0.0), max_kl)


def test_parameters_that_do_not_matter_are_named():
    net, critic = torch.nn.Linear(3, 2), torch.nn.Linear(3, 1)
    policy = lambda obs: Categorical(net(obs))  # noqa: E731
    with pytest.raises(ValueError, match=r"parameters\[2\], \(1, 3\): is it the critic's"):
        fisher_vector_product(policy, torch.ones(4, 3), parameters=[*net.parameters(), *critic.parameters()])
    with pytest.raises(TypeError, match="parameters is empty"):
        fisher_vector_product(policy, torch.ones(4, 3), parameters=[])


def test_a_policy_without_parameters_is_named():
    with pytest.raises(TypeError, match=r"parameters=net\.parameters\(\)"):
        fisher_vector_product(lambda obs: obs, torch.zeros(2, 1))


# ---- Fisher -------------------------------------------------------------------------------------------------------------


class Net(torch.nn.Module):
    """A small policy, categorical or Gaussian with a free log σ."""

    def __init__(self, kind, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.kind = kind
        self.net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).double()
        if kind == "gaussian":
            self.log_std = torch.nn.Parameter(tensor([0.3, -0.7]))

    def forward(self, obs):
        out = self.net(obs)
        return Categorical(out) if self.kind == "categorical" else DiagonalGaussian(out, self.log_std.expand_as(out))


def dense(product, n):
    return torch.stack([product(row) for row in torch.eye(n, dtype=f64)])


def flat_jacobian(function, net):
    """Jacobian of function(parameters by name) in all parameters, outputs × n."""
    named = dict(net.named_parameters())
    jacobian = torch.func.jacrev(function)({k: v.detach() for k, v in named.items()})
    rows = next(iter(jacobian.values())).shape[: -next(iter(named.values())).ndim]
    return torch.cat([jacobian[k].reshape(*rows, -1) for k in named], -1)


@pytest.mark.parametrize("kind", ["categorical", "gaussian"])
def test_fisher_three_ways(kind):
    net, obs = Net(kind), tensor(np.random.default_rng(0).normal(size=(7, 3)))
    n = sum(p.numel() for p in net.parameters())
    product = dense(fisher_vector_product(net, obs), n)

    def call(parameters):
        return torch.func.functional_call(net, parameters, (obs,))

    # Gauss–Newton: Jᵀ M J with the metric of the output
    if kind == "categorical":
        j = flat_jacobian(lambda p: call(p).logits, net)  # (B, 2, n)
        p = net(obs).probs.detach()
        metric = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
        gauss_newton = torch.einsum("bin,bij,bjm->nm", j, metric, j) / 7
        # E[score scoreᵀ], the expectation over both actions written out
        scores = flat_jacobian(lambda q: torch.stack([call(q).log_prob(torch.full((7,), a)) for a in (0, 1)]), net)
        outer = torch.einsum("ab,abn,abm->nm", p.T, scores, scores) / 7
    else:
        j = flat_jacobian(lambda p: call(p).mean, net)
        variance = (2 * net.log_std.detach()).exp()
        gauss_newton = torch.einsum("bin,i,bim->nm", j, 1 / variance, j) / 7
        names = [name for name, p in net.named_parameters() for _ in range(p.numel())]
        where = [i for i, name in enumerate(names) if name == "log_std"]
        gauss_newton[where, where] += 2.0
        # E over actions by Gauss–Hermite quadrature, exact for the polynomial scores of a Gaussian
        nodes, weights = np.polynomial.hermite_e.hermegauss(5)
        weights = weights / weights.sum()
        outer = torch.zeros(n, n, dtype=f64)
        for x, wx in zip(nodes, weights, strict=True):
            for y, wy in zip(nodes, weights, strict=True):
                action = net(obs).from_noise(tensor([x, y]).expand(7, 2))
                s = flat_jacobian(lambda q, action=action: call(q).log_prob(action), net)
                outer += wx * wy * s.T @ s / 7
    torch.testing.assert_close(product, gauss_newton, rtol=0, atol=1e-10)
    torch.testing.assert_close(product, outer, rtol=0, atol=1e-10)
    assert torch.linalg.eigvalsh(product).min() > -1e-12


def test_case_softmax_and_damping():
    case = CASES["fvp-softmax"]
    logits = tensor(case["input"]["logits"]).requires_grad_()
    policy = lambda obs: Categorical(logits[None])  # noqa: E731
    v = tensor(case["input"]["vector"])
    for damping, field in ((0.0, "Fv"), (case["input"]["damping"], "Fv_damped")):
        got = fisher_vector_product(policy, None, damping, parameters=[logits])(v)
        torch.testing.assert_close(got, tensor(case["expect"][field]), rtol=0, atol=1e-9)


def test_runs_have_fishers_of_their_own():
    from gymnasium import spaces

    from rlcourse.agents.runs import Runs

    for space in (spaces.Discrete(3), spaces.Box(-1, 1, (2,))):
        agent = Runs(3, space, (4,), [0, 1], f64)
        rng = np.random.default_rng(0)
        obs = tensor(rng.normal(size=(2, 6, 3)))
        v = tensor(rng.normal(size=(2, agent.num_policy_parameters)))
        together = fisher_vector_product(agent.policy, obs, tensor([0.0, 0.5]), parameters=agent.policy_parameters)(v)
        for r in range(2):
            alone = agent.select(r)
            product = fisher_vector_product(alone.policy, obs[r : r + 1], 0.5 * r, parameters=alone.policy_parameters)
            torch.testing.assert_close(together[r : r + 1], product(v[r : r + 1]), rtol=1e-10, atol=1e-12)


def test_negative_damping_and_wrong_vectors_are_refused():
    net, obs = Net("categorical"), torch.zeros(2, 3, dtype=f64)
    with pytest.raises(ValueError, match="damping"):
        fisher_vector_product(net, obs, -0.1)
    with pytest.raises(ValueError, match="same shape"):
        fisher_vector_product(net, obs)(torch.zeros(3, dtype=f64))


# ---- the KKT step -------------------------------------------------------------------------------------------------------


def test_case_step_length():
    case = CASES["trpo-step-length"]
    given, expected = case["input"], case["expect"]
    step = kkt_step(tensor(given["gradient"]), times(tensor(given["fisher"])), given["max_kl"])
    torch.testing.assert_close(step.step, tensor(expected["step"]), rtol=0, atol=1e-9)
    torch.testing.assert_close(step.predicted_kl, tensor(expected["predicted_kl"]), rtol=0, atol=1e-9)
    torch.testing.assert_close(step.predicted_improvement, tensor(expected["predicted_improvement"]), rtol=0, atol=1e-9)


@pytest.mark.parametrize("seed", range(200))
def test_kkt_conditions_and_slsqp(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 51))
    f, g, limit = spd(rng, n), rng.normal(size=n) * 10 ** rng.uniform(-3, 3), 10 ** rng.uniform(-4, -1)
    result = kkt_step(tensor(g), times(f), limit, cg_iters=5 * n, rel_tol=1e-13)
    x, nu = result.step.numpy(), float(result.multiplier)
    kl = 0.5 * x @ f @ x
    stationarity = np.linalg.norm(g - nu * f @ x) / np.linalg.norm(g)
    assert stationarity < 1e-9 and abs(kl - limit) / limit < 1e-9 and nu > 0 and nu * abs(kl - limit) / (nu * limit) < 1e-9
    # duality gap: max gᵀx against min over ν of the dual gᵀF⁻¹g/(2ν) + νδ
    dual = g @ np.linalg.solve(f, g) / (2 * nu) + nu * limit
    assert abs(float(result.predicted_improvement) - dual) / dual < 1e-9
    if seed < 40:  # in units in which g and δ are 1, which SLSQP needs; x scales with sqrt(δ)
        unit = g / np.linalg.norm(g)
        peer = scipy.optimize.minimize(
            lambda y: -unit @ y,
            np.zeros(n),
            jac=lambda y: -unit,
            method="SLSQP",
            constraints={"type": "ineq", "fun": lambda y: 1 - 0.5 * y @ f @ y, "jac": lambda y: -f @ y},
            options={"ftol": 1e-15, "maxiter": 1000},
        )
        np.testing.assert_allclose(x / np.sqrt(limit), peer.x, rtol=0, atol=1e-5)


def test_multiplier_is_the_price_of_the_limit():
    rng = np.random.default_rng(0)
    f, g, h = spd(rng, 6), tensor(rng.normal(size=6)), 1e-6
    best = lambda limit: float(kkt_step(g, times(f), limit, cg_iters=30, rel_tol=1e-14).predicted_improvement)  # noqa: E731
    slope = (best(0.01 + h) - best(0.01 - h)) / (2 * h)
    np.testing.assert_allclose(slope, kkt_step(g, times(f), 0.01, cg_iters=30, rel_tol=1e-14).multiplier, rtol=1e-6)


def test_zero_gradient_gives_zero_step_and_limits_may_differ_per_run():
    f = np.stack([np.eye(2), np.diag([1.0, 4.0])])
    step = kkt_step(tensor([[0.0, 0.0], [3.0, 4.0]]), times(f), tensor([0.1, 0.02]))
    assert step.step[0].tolist() == [0, 0] and step.multiplier[0] == 0 and step.predicted_kl[0] == 0
    alone = kkt_step(tensor([3.0, 4.0]), times(f[1]), 0.02)
    torch.testing.assert_close(step.step[1], alone.step, rtol=1e-12, atol=0)
    torch.testing.assert_close(step.direction[1], tensor([3.0, 1.0]), rtol=1e-10, atol=0)


def test_the_step_has_the_full_kl_even_when_the_direction_is_rough():
    rng = np.random.default_rng(0)
    f, g = spd(rng, 30, 1e4), tensor(rng.normal(size=30))
    step = kkt_step(g, times(f), 0.01, cg_iters=2).step.numpy()
    np.testing.assert_allclose(0.5 * step @ f @ step, 0.01, rtol=1e-9)


def test_the_step_does_not_depend_on_the_size_of_the_gradient():
    f = spd(np.random.default_rng(0), 4)
    g = tensor([1.0, -2.0, 0.5, 3.0])
    for size in (1e-200, 1e-12, 1e12):
        torch.testing.assert_close(kkt_step(g * size, times(f), 0.01).step, kkt_step(g, times(f), 0.01).step, rtol=1e-9, atol=0)


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan")])
def test_limit_must_be_positive(limit):
    with pytest.raises(ValueError, match="max_kl"):
        kkt_step(tensor([1.0, 1.0]), times(np.eye(2)), limit)


# ---- line search --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", range(7))
def test_case_line_search_decisions(index):
    case = CASES["trpo-line-search-decisions"]
    table = case["input"]["tables"][index]
    tried = []

    def evaluate(fraction):
        candidate = table["candidates"][len(tried)]
        tried.append(fraction)
        return [float("nan") if x is None else x for x in candidate]

    search = backtracking_line_search(evaluate, case["input"]["max_kl"], max_backtracks=len(table["candidates"]))
    expected = case["expect"]["accepted"][index]
    assert search.accepted == (-1 if expected is None else expected)
    assert search.fraction == (0 if expected is None else 0.5**expected)
    assert tried == [0.5**i for i in range(len(tried))]


def test_each_run_is_accepted_on_its_own_and_then_left_alone():
    kl_of_full_step, seen = tensor([0.005, 0.03, 9.0]), []

    def evaluate(fraction):
        fraction = torch.as_tensor(fraction, dtype=f64).expand(3)
        seen.append(fraction.tolist())
        return fraction, kl_of_full_step * fraction**2

    search = backtracking_line_search(evaluate, tensor([0.01, 0.01, 0.01]), max_backtracks=3)
    assert search.accepted.tolist() == [0, 1, -1]
    assert search.fraction.tolist() == [1.0, 0.5, 0.0] and search.kl[2] == 0
    assert seen == [[1, 1, 1], [1, 0.5, 0.5], [1, 0.5, 0.25]]


@pytest.mark.parametrize("options", [{"backtrack_coeff": 1.0}, {"backtrack_coeff": 0.0}, {"max_backtracks": 0}])
def test_line_search_refuses_nonsense(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        backtracking_line_search(lambda fraction: (1.0, 0.0), 0.01, **options)


def test_line_search_never_broadcasts_and_takes_a_list_of_limits():
    good, kl = torch.ones(2), torch.full((2,), 0.05)
    for improvement, other in [(good, kl[:, None]), (good[0], kl), (good, kl[0])]:
        with pytest.raises(ValueError, match="one shape"):
            backtracking_line_search(lambda fraction, answer=(improvement, other): answer, 0.1)
    search = backtracking_line_search(lambda fraction: (good, kl), [0.1, 0.01], max_backtracks=1)
    assert search.accepted.tolist() == [0, -1]
