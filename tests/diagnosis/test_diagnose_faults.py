"""One-line faults of this package: the doctor names the right suspect first or second.

A row: the algorithm that is diagnosed, the list of tests/faults/lists in which the fault stands, its name there, and the suspect.
"""

import runpy
import time
import warnings
from pathlib import Path

import pytest

import rlcourse
from rlcourse import diagnose
from rlcourse.classroom.faults import Fault, load_faulty

LISTS = Path(__file__).parents[1] / "faults" / "lists"
TABLE = """
PPO  equations_estimators   bootstraps through termination                    termination
PPO  equations_estimators   truncation treated as termination                 truncation
PPO  equations_estimators   trace leaks across truncation                     leak
PPO  equations_estimators   gamma missing from the trace                      discount
VPG  equations_estimators   target is reward plus advantage                   critic
VPG  equations_estimators   trace never cut                                   leak
VPG  equations_estimators   end flag read one step late                       leak
PPO  equations_estimators   forwards instead of backwards                     order
PPO  equations_estimators   bootstrap not discounted                          discount
PPO  equations_estimators   divisor N − 1                                     normalization
PPO  equations_estimators   rounding counts as spread                         normalization
PPO  equations_estimators   variance for standard deviation                   normalization
VPG  equations_objectives   sign of the policy loss                           policy_sign
VPG  equations_objectives   advantage not detached                            advantage_gradient
VPG  equations_objectives   shapes of the policy loss unchecked               broadcast
PPO  equations_objectives   clip without min                                  clip
PPO  equations_objectives   max for min                                       clip
PPO  equations_objectives   sign of the clipped loss                          policy_sign
PPO  equations_objectives   limit without the absolute value                  clip
PPO  equations_objectives   ratio upside down                                 ratio
PPO  equations_objectives   ratio of log-probabilities                        ratio
PPO  equations_objectives   old log-probability not detached                  old_log_prob_gradient
PPO  equations_objectives   value detached instead of target                  critic
PPO  equations_objectives   target not detached                               critic
PPO  equations_objectives   absolute error                                    critic
PPO  equations_objectives   sign of k1                                        kl_estimate
PPO  equations_objectives   k3 of the inverse ratio                           kl_estimate
VPG  equations_distributions  column of log-probabilities                     broadcast
VPG  equations_distributions  sign of the entropy                             entropy_sign
VPG  equations_distributions  direction of the categorical KL                 kl_direction
VPG  equations_distributions  log-probability averaged over dimensions        action_sum
VPG  equations_distributions  standard deviation read as variance             std_scale
VPG  equations_distributions  bracket around the log of the variance          std_scale
VPG  equations_distributions  log of the spread used as the spread            std_scale
VPG  equations_distributions  tanh term missing                               tanh
VPG  equations_distributions  tanh term added                                 tanh
TRPO equations_trust_region  nothing detached                                 fisher
TRPO equations_trust_region  damping forgotten                                damping
TRPO equations_trust_region  directions not conjugate                         conjugate_gradient
TRPO equations_trust_region  absolute tolerance                               conjugate_gradient
TRPO equations_trust_region  limit not checked                                line_search
TRPO equations_trust_region  improvement not checked                          line_search
TRPO agents_trpo            full step always applied                          line_search
TRPO agents_trpo            line search ignores the limit                     line_search
TRPO agents_trpo            KL in the other direction                         kl_direction
TRPO agents_trpo            gradient descent on the objective                 policy_sign
TRPO agents_trpo            damping forgotten                                 damping
PPO  agents_ppo             gamma and lambda swapped                          discount
PPO  agents_ppo             old log-probability taken anew                    ratio
PPO  agents_ppo             entropy bonus with the wrong sign                 entropy_sign
PPO  agents_ppo             value loss forgotten                              critic
PPO  agents_ppo             advantages not normalised in the minibatch        normalization
VPG  agents_vpg             entropy bonus with the wrong sign                 entropy_sign
VPG  agents_vpg             gradient ascent on the loss                       policy_sign
VPG  agents_vpg             critic regresses on advantages                    critic
A2C  agents_a2c             gradient ascent on the loss                       policy_sign
A2C  agents_a2c             entropy bonus with the wrong sign                 entropy_sign
A2C  agents_a2c             gamma and lambda swapped                          discount
VPG  agents_rollout         bootstrap from the reset observation              reset_observation
PPO  agents_rollout         final observation ignored                         reset_observation
PPO  agents_rollout         observation after the action                      order
VPG  agents_policies        σ for log σ                                       std_scale
PPO  agents_runs            ascent                                            policy_sign
PPO  agents_runs            select forgets what the run has seen              observation_statistics
TRPO agents_runs            damping left out of the products                  damping
TRPO agents_runs            Fisher of the sum over states                     fisher
TRPO agents_runs            log σ without curvature                           fisher
PPO  agents_normalization   variance for standard deviation                   observation_statistics
VPG  worlds_make_env        the reset observation passed off as the successor reset_observation
VPG  worlds_make_env        one random stream for all                         seeding
"""

FLAGS = "return self.reward, self.value, self.next_value, self.terminated, self.truncated"
CLIPPED = "return clipped_surrogate_loss(log_prob, minibatch.log_prob, minibatch"
GAE = "advantage, value_target = gae(*rollout.for_gae(), self.gamma, self.gae_lambda)"
STATISTICS = 'statistics.mean, statistics.squares = arrays["obs/mean"], arrays["obs/squares"]'
PPO_FILE, ROLLOUT_FILE = "rlcourse.agents.ppo", "rlcourse.agents.rollout"
ACT, SEEDS = "agent.act(all_obs[t], noise[t])", "agent.env_seeds(algorithm.num_envs, again)"
TRAINING_FILE = "rlcourse.agents.training"
MORE = [  # suspect, name, module, old, new
    ("order", "advantages reversed", PPO_FILE, GAE, GAE.replace("= gae", "= (x[::-1].copy() for x in gae") + ")"),
    ("termination", "termination flags lost", ROLLOUT_FILE, FLAGS, FLAGS.replace("self.terminated", "self.terminated & False")),
    ("truncation", "flags as one", ROLLOUT_FILE, FLAGS, FLAGS.replace("self.terminated", "self.terminated | self.truncated")),
    ("old_log_prob_gradient", "old anew", PPO_FILE, CLIPPED, CLIPPED.replace("minibatch.log_prob", "log_prob.detach()")),
    ("no_gradient", "nothing flows", PPO_FILE, CLIPPED, CLIPPED.replace("(log_prob", "(log_prob.detach()")),
    ("clipped_action", "clipped action stored", ROLLOUT_FILE, ACT, f"{ACT}.clamp(-1, 1)"),
    ("seeding", "one seed for all", TRAINING_FILE, SEEDS, "agent.env_seeds(1, again) * algorithm.num_envs"),
    ("observation_statistics", "statistics not loaded", TRAINING_FILE, STATISTICS, "pass"),
]


def rows():
    for line in TABLE.strip().splitlines():
        algorithm, stem, rest = line.split(maxsplit=2)
        name, key = rest.rsplit(maxsplit=1)
        content = runpy.run_path(str(LISTS / f"{stem}.py"))
        old, new, symptom = next(entry[1:] for entry in content["FAULTS"] if entry[0] == name.strip())
        yield algorithm, Fault(name.strip(), content["MODULE"], old, new, symptom), key
    for key, name, module, old, new in MORE:
        yield "PPO", Fault(name, module, old, new, "Told in the lesson."), key


ROWS = [pytest.param(*row, id=f"{row[1].module.split('.')[-1]}: {row[1].name}") for row in rows()]
HALF = [pytest.param(*row.values, id=row.id, marks=[pytest.mark.full] * (i % 2)) for i, row in enumerate(ROWS)]


def diagnosed(algorithm, fault, **how):
    sick = load_faulty(fault)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return diagnose(getattr(sick, algorithm)(), **how)


@pytest.mark.parametrize(("algorithm", "fault", "key"), HALF)
def test_the_fault_is_found_by_asking_functions(algorithm, fault, key):
    """The functions and the wiring of one update are enough to name the right suspect first or second."""
    report = diagnosed(algorithm, fault, only=["functions", "seeds"])
    assert report.rank(key) in (1, 2), str(report)


@pytest.mark.full
@pytest.mark.parametrize(("algorithm", "fault", "key"), ROWS)
def test_the_fault_is_found(algorithm, fault, key, record_property):
    """`diagnose` names the right suspect first or second, with all its examinations and default settings."""
    start = time.perf_counter()
    report = diagnosed(algorithm, fault)
    rank = report.rank(key)
    record_property("measured", f"{fault.name}: {key} is suspect {rank}, {time.perf_counter() - start:.0f} s")
    assert rank in (1, 2), str(report)


def test_the_table_is_large_and_varied():
    assert len(ROWS) >= 75 and len({row.values[2] for row in ROWS}) >= 24


def test_the_healthy_copy_has_no_fault():
    assert all(diagnose(getattr(rlcourse, name)(), only=["functions"]).ok for name in ("PPO", "VPG", "A2C", "TRPO"))
