"""What can be wrong with a policy-gradient program: the words that `diagnose` and the debugging clinic share.

`SUSPECTS[key]` says in one sentence what is wrong, and where to look. The order is that of a program: the world, the data, the
estimates, the losses, the step.
"""

from typing import NamedTuple


class Suspect(NamedTuple):
    """sentence: what is wrong. look: where to look, and what to try there to be sure."""

    sentence: str
    look: str


SUSPECTS = {
    "seeding": Suspect(
        "The same seed gives different runs, or all environments share a seed.",
        "Train twice with one seed and compare the first actions; then print the first observation of every environment.",
    ),
    "observation_statistics": Suspect(
        "The statistics that normalise observations are not saved or not used with the policy.",
        "Compare the action for one fixed observation during training, after training and after loading.",
    ),
    "reset_observation": Suspect(
        "The value behind a time limit is that of the observation after the reset, not of the final one.",
        "At one truncated step print the observation whose value is used. It must be the final observation "
        "(info['final_obs'] with SAME_STEP resets).",
    ),
    "reset_rows": Suspect(
        "The reset rows of a NEXT_STEP vector environment are learned from, although their action was ignored.",
        "Print the row after an episode's end: its reward is 0 whatever the action. It must enter no loss and no mean.",
    ),
    "order": Suspect(
        "Advantages or returns are in another order than the steps they belong to: collected backwards and not turned round.",
        "Print rewards and advantages of one short episode side by side. Only the last step has Â = r − V.",
    ),
    "termination": Suspect(
        "A value is bootstrapped through a termination: the mask (1 − terminated) is missing.",
        "At one terminated step the residual must be r − V(s), whatever the critic says of the next observation.",
    ),
    "truncation": Suspect(
        "A time limit is treated as a termination: the value of the final observation is missing.",
        "At one truncated step the residual must be r + γ V(final observation) − V(s).",
    ),
    "leak": Suspect(
        "The sum over later steps runs on across the end of an episode.",
        "Change a reward of the second episode: no advantage of the first may change.",
    ),
    "discount": Suspect(
        "γ or λ is missing, misplaced, or one stands for the other.",
        "Work out two steps by hand with γ = 0.5, λ = 0: Â = r + γ V(s') − V(s).",
    ),
    "critic": Suspect(
        "The critic does not learn its targets.",
        "Train the critic alone on one fixed batch: the error must go to (nearly) 0. Then look at what the targets are.",
    ),
    "normalization": Suspect(
        "The normalised advantages are wrong: a constant or single-sample batch, or the scale.",
        "Normalise [2, 2, 2] (must be 0, 0, 0), [3] (0) and [1, 3] (−1, 1).",
    ),
    "broadcast": Suspect(
        "A column (N, 1) meets a row (N,): the product is a matrix (N, N).",
        "Print the shapes of log-probability, advantage, value and target just before the loss; all must be equal.",
    ),
    "action_sum": Suspect(
        "The log-probability is not the sum over the action dimensions.",
        "Two dimensions with the same mean, σ and action must have twice the log-probability of one.",
    ),
    "std_scale": Suspect(
        "σ, log σ and σ² are confused.",
        "With log σ = 0 everything looks right. Compare with scipy.stats.norm.logpdf at log σ = −1.",
    ),
    "clipped_action": Suspect(
        "The log-probability is that of the clipped action, not of the action drawn.",
        "Store what the distribution drew; clip only on the way to the environment.",
    ),
    "tanh": Suspect(
        "The tanh term of a squashed action is missing, wrong, or on one side only.",
        "Integrate exp(log-probability) over the bounds: it must be 1.",
    ),
    "advantage_gradient": Suspect(
        "The advantage is not a constant in the policy's loss: gradient flows into the critic.",
        "After the backward pass of the policy's loss alone, the critic's gradients must be None or 0.",
    ),
    "old_log_prob_gradient": Suspect(
        "The old log-probability is not a constant, or is computed anew at each step: the ratio never leaves 1.",
        "Print the ratio in the second step on the same data (it must differ from 1) and the policy's gradient (not 0).",
    ),
    "ratio": Suspect(
        "The ratio is not π_new / π_old: upside down, of other quantities, or not 1 at the first step.",
        "Print the ratio of the first minibatch of an update: 1 for every sample. For log-probabilities −1 and −2: e.",
    ),
    "policy_sign": Suspect(
        "The policy's loss has the wrong sign, so good actions become rarer.",
        "One step on one action with advantage +1: its probability must rise.",
    ),
    "clip": Suspect(
        "The clipped objective is wrong: min, max or one of the limits.",
        "Write down the loss for ratio 0.5 and 1.5 and advantage −1 and +1: four numbers, two of them clipped.",
    ),
    "no_gradient": Suspect(
        "No gradient flows from the loss to the policy's parameters.",
        "Print the norm of the policy's gradient, and compare its parameters before and after the step.",
    ),
    "entropy_sign": Suspect(
        "The entropy bonus has the wrong sign: it punishes exploration.",
        "Train with all advantages 0 and a large coefficient: the entropy must rise.",
    ),
    "kl_direction": Suspect(
        "The arguments of the KL divergence are swapped.",
        "N(0, 1) and N(0, e): KL(old ‖ new) and KL(new ‖ old) differ; compare both with the formula.",
    ),
    "kl_estimate": Suspect(
        "The estimate of the KL divergence is wrong: its sign, its factor, or k1 where k3 is meant.",
        "For a log-ratio x: k1 = −x, k3 = eˣ − 1 − x, which is never negative.",
    ),
    "fisher": Suspect(
        "The Fisher product is wrong: no distribution detached, or the wrong one, or not the mean over states.",
        "Compare F v with the finite difference of the gradient of the KL, in float64, for a few random v.",
    ),
    "damping": Suspect(
        "The damping of the Fisher product is missing or has the wrong sign.",
        "F v with damping 0.1 minus F v with damping 0 must be 0.1 v.",
    ),
    "conjugate_gradient": Suspect(
        "The conjugate gradient does not solve F x = g.",
        "Solve a 3 × 3 system in 3 steps and compare with numpy.linalg.solve; then the same with the right side times 1e-6.",
    ),
    "line_search": Suspect(
        "The line search accepts a step beyond the KL limit or without improvement, or does not put the parameters back.",
        "Measure the KL after each update; make the search fail once, and compare the parameters bit for bit.",
    ),
}
