"""The patients: what users complained of, what is really wrong, what shows it, and why other guesses do not fit.

Complaints are paraphrased from the public threads that are named beside them. All but one of the faults are small changes of this
package (classroom.faults), so a patient is never a second copy of an algorithm; the exception, "Keras style", is in keras_style.
"""

from rlcourse.classroom.clinic import measures as m
from rlcourse.classroom.clinic.keras_style import KerasStyle
from rlcourse.classroom.clinic.patient import NOTHING, Patient
from rlcourse.classroom.faults import Fault

ESTIMATORS, OBJECTIVES = "rlcourse.equations.estimators", "rlcourse.equations.objectives"
DISTRIBUTIONS, TRUST_REGION = "rlcourse.equations.distributions", "rlcourse.equations.trust_region"
A2C, PPO, TRPO, VPG = (f"rlcourse.agents.{name}" for name in ("a2c", "ppo", "trpo", "vpg"))
ROLLOUT, RUNS, MAKE_ENV = "rlcourse.agents.rollout", "rlcourse.agents.runs", "rlcourse.worlds.make_env"

POLE = m.Case("PPO", "CartPole-v1", 24 * 1024)
POLE_VPG = m.Case("VPG", "CartPole-v1", 50_000, (("learning_rate", 0.002),))
POLE_TRPO = m.Case("TRPO", "CartPole-v1", 32 * 1024)
PENDULUM = m.Case("PPO", "Pendulum-v1", 32_000)
RETURN = "mean return of the last episodes"


def issue(repository, number):
    """(label, address) of a GitHub issue or pull request."""
    return f"{repository}#{number}", f"https://github.com/{repository}/issues/{number}"


STACK_C = ("“Pytorch PPO implementation is not learning”, Stack Exchange network", None)
STACK_D = (
    "“PPO, A2C for continuous action spaces, math and code”, Stack Exchange",
    "https://datascience.stackexchange.com/questions/49625/ppo-a2c-for-continuous-action-spaces-math-and-code",
)

# fmt: off
PATIENTS = [
    # ------------------------------------------------------------------------------------------------------ time and order
    Patient(
        "twenty arms", "order",
        "My PPO trains twenty arms at once. Losses move, nothing crashes, and the score is where a random policy would be. I "
        "have read the update twenty times.",
        [STACK_C],
        faults=[Fault(
            "collected backwards, no mask", ESTIMATORS,
            """    delta = _residuals(r, v, v_next, terminated, gamma)
    # Â_t = δ_t + γ λ (1 − (terminated_t or truncated_t)) Â_{t+1}
    advantages = _sum_backwards(delta, gamma * gae_lambda, terminated | truncated)
    # V̂^targ_t = Â_t + V(s_t)
    value_targets = advantages + v
    return restore(advantages), restore(value_targets)""",
            """    delta = _residuals(r, v, v_next, terminated & False, gamma)
    # Â_t = δ_t + γ λ (1 − (terminated_t or truncated_t)) Â_{t+1}
    advantages = _sum_backwards(delta, gamma * gae_lambda, terminated & False)
    # V̂^targ_t = Â_t + V(s_t)
    value_targets = advantages + v
    return restore(advantages[::-1].copy()), restore(value_targets[::-1].copy())""",
            "Every action gets the credit of another.",
        )],
        suspect="order", case=POLE, measure=m.last_return, label=RETURN, curve="explained_variance",
        read="return, explained variance",
        cure="Turn the lists round after collecting them from the back (or insert at the front), and multiply by (1 − "
        "terminated) where a value is bootstrapped and where the sum is carried on. Either alone does nothing: see *Train it*.",
        against={
            "termination": "Half of it: a mask is missing, indeed. Cure that alone, and the return stays where it is. What else "
            "is wrong? Compare the advantages of one short episode with its rewards.",
            "leak": "That, too: without the mask the sum runs on. Cure it alone, and the return stays where it is. What else is "
            "wrong? Compare the advantages of one short episode with its rewards.",
            "critic": "The critic fits what it is given. Ask whether what it is given belongs to those observations.",
            "policy_sign": "With the wrong sign the return falls below that of a random policy (about 22), to the worst "
            "possible, 9.",
            "no_gradient": "The entropy moves and the KL of an update is about 0.01: the policy does change, in useless "
            "directions.",
        },
    ),
    Patient(
        "careless pole", "order",
        "The formula in the paper has no factor (1 − done) in δ, so I left it out; the return of the next episode is cut "
        "anyway. It learns a little. Is the factor optional?",
        [issue("thu-ml/tianshou", 869)],
        faults=[Fault(
            "bootstraps through termination", ESTIMATORS,
            "gamma * np.where(terminated, 0, next_values) - values", "gamma * next_values - values", "Falling costs nothing.",
        )],
        suspect="termination", case=POLE_VPG, measure=m.last_return, label=RETURN, curve="explained_variance",
        read="return, explained variance, the residual of one terminated step",
        cure="Where an episode terminated there is no next value: δ = r − V(s). Choose with `where`; multiplying by 0 keeps a "
        "NaN.",
        against={
            "order": "With advantages in the wrong order the return stays at that of chance. This agent learns, slowly.",
            "truncation": "In these runs hardly any episode reaches the time limit of 500 steps. The trouble begins much "
            "earlier.",
            "discount": "γ is used at every step. Work out the residual of the step in which the pole falls: it should be 1 − "
            "V(s).",
            "critic": "The critic follows its targets closely; the explained variance is negative because the targets run away. "
            "Why?",
        },
    ),
    Patient(
        "short-sighted pendulum", "order",
        "PPO on Pendulum gets stuck far below what others report. Gym gives one flag, done, at step 200; I use it as in "
        "CartPole.",
        [issue("DLR-RM/stable-baselines3", 633), issue("vwxyzjn/cleanrl", 198)],
        faults=[Fault(
            "truncation treated as termination", ESTIMATORS,
            "delta = _residuals(r, v, v_next, terminated, gamma)",
            "delta = _residuals(r, v, v_next, terminated | truncated, gamma)", "Values are too low near the time limit.",
        )],
        suspect="truncation", case=PENDULUM, measure=m.late("explained_variance"), label="explained variance, last quarter",
        curve="mean_return", read="explained variance, return, the residual at step 200",
        cure="At a time limit bootstrap from the value of the final observation: δ = r + γV(final) − V(s). Only a termination "
        "removes it.",
        against={
            "termination": "Pendulum never terminates, so a mask for terminations has nothing to do here.",
            "critic": "The critic is able to learn: fit it on a fixed batch and its error goes to 0. But two equal observations "
            "have different targets, depending on the clock, which it cannot see.",
            "reset_observation": "Close, at the same step. A wrong observation there gives a wrong value; look at what is "
            "bootstrapped at step 200: is there any value at all?",
            "leak": "The sum is cut where it should be. What is wrong is the last term before the cut.",
        },
    ),
    Patient(
        "stranger at the door", "order",
        "I did bootstrap at the time limit, with the value of the observation that the vector environment returned. The critic "
        "still never explains more than 80 %.",
        [issue("DLR-RM/stable-baselines3", 651), issue("leggedrobotics/rsl_rl", 151)],
        faults=[Fault(
            "bootstrap from the reset observation", ROLLOUT, "as_input(successor))", "as_input(obs))",
            "Values near time limits are those of start states.",
        )],
        suspect="reset_observation", case=PENDULUM, measure=m.late("explained_variance"),
        label="explained variance, last quarter", curve="mean_return",
        read="explained variance, the observation whose value is used at step 200",
        cure="After a reset `obs` belongs to the next episode. The final observation is in `info['final_obs']` (SAME_STEP "
        "resets).",
        against={
            "truncation": "There is a bootstrap at the time limit: change that value by hand, and the residual changes. Whose "
            "value is it?",
            "leak": "Change a reward in the second episode: no advantage of the first one changes. Its *value* does come in, "
            "though.",
            "critic": "Fitted on a fixed batch the critic's error goes to 0. It cannot predict which start state comes after "
            "the clock.",
            "normalization": "The advantages have mean 0 and standard deviation 1. Look before that, at the residuals.",
        },
    ),
    Patient(
        "dull critic", "order",
        "After upgrading to Gymnasium 1.0 the same code is a little worse everywhere. On a task of two steps the critic gives "
        "the second state 0.9, but it always pays 1.",
        [issue("vwxyzjn/cleanrl", 475), issue("automl/Mighty", 108), issue("Denys88/rl_games", 362)],
        faults=[
            Fault("resets on the next step", MAKE_ENV, "autoreset_mode=AutoresetMode.SAME_STEP",
                  "autoreset_mode=AutoresetMode.NEXT_STEP",
                  "One garbage row per episode."),
            Fault("final observation is the next row's", MAKE_ENV, 'next_obs[row] = info["final_obs"][row]',
                  "next_obs[row] = obs[row]",
                  "Right with NEXT_STEP resets."),
        ],
        suspect="reset_rows", case=m.Case("VPG", "delayed reward", 16_384, (("gamma", 0.9),)), measure=m.value_at(1.0),
        label="V(second state), exactly 1", curve="explained_variance",
        read="the critic's value against the known answer, the rewards of the rows after an episode's end",
        cure="Gymnasium ≥ 1.0 resets on the *next* step by default: that row's action is ignored and its reward is 0. Leave it "
        "out of every loss and every mean (`valid_rows`), or ask for SAME_STEP.",
        against={
            "discount": "With a wrong γ it would be the *first* state that is off (γ). Here it is the second, which needs no γ "
            "at all.",
            "termination": "Bootstrapping through the termination would make the second state worth more than 1, not less.",
            "critic": "The critic returns the mean of its targets for that observation. Print them: where do the low ones come "
            "from?",
            "reset_observation": "Nothing is truncated here, so no value of a final observation is ever asked for.",
        },
    ),
    # ------------------------------------------------------------------------------------------------ shapes and gradients
    Patient(
        "Keras style", "gradients",
        "I fit a copy of the actor to learn the new probabilities, form the ratio, clip it with NumPy, and fit the actor on the "
        "clipped numbers. With one step per batch it seems to work. With sixteen, as PPO does, it falls over.",
        [STACK_D],
        suspect="no_gradient", program=KerasStyle, case=m.Case("PPO", "CartPole-v1", 24 * 1024, (("num_minibatches", 8),)),
        measure=m.last_return, label=RETURN, curve="kl", read="return, KL, the gradient of one sample whose ratio is beyond the "
        "clip",
        cure="Let the loss be a function of the actor: ρ = exp(log π_θ − stored log π_old) inside the graph, and let autograd "
        "find the gradient, 0 beyond the clip included. A number that was clipped has forgotten where it came from.",
        against={
            "clip": "Its four numbers are right: feed in ratios of 0.5 and 1.5. But what is differentiated with respect to what?",
            "ratio": "New over old it is; of the copy. Ask what gradient it carries back to the actor.",
            "policy_sign": "At the first step of a batch it does push the right way. It does not know when to stop.",
            "old_log_prob_gradient": "The old probability is a number, as it should be. So is everything else.",
        },
    ),
    Patient(
        "still life", "gradients",
        "No error, no warning, the loss is around 0 from the start, and after 50,000 steps the policy acts as on the first day. "
        "`value` has shape (N, 1); a reply said that PyTorch would just broadcast it.",
        [issue("PacktPublishing/Deep-Reinforcement-Learning-Hands-On", 33), issue("RITCHIEHuang/DeepRL_Algorithms", 13)],
        faults=[Fault(
            "column meets row", OBJECTIVES, "return -(log_prob * advantage.detach()).mean(-1)",
            "return -(log_prob[..., None] * advantage.detach()[..., None, :]).mean((-1, -2))",
            "The mean over the matrix is a product of means, and one of them is 0.",
        )],
        suspect="broadcast", case=POLE_VPG, measure=m.late("grad_norm"), label="gradient norm of the policy, last quarter",
        curve="entropy", read="gradient norm, entropy, the shapes before the loss",
        cure="`squeeze(-1)` at the source, and an assert that log-probability, advantage, value and target have one shape.",
        against={
            "no_gradient": "The gradient is not exactly 0 but 1e-10: it flows, and cancels. What sums to 0 over a batch?",
            "policy_sign": "A wrong sign pushes hard, the wrong way. Here nothing pushes.",
            "normalization": "The advantages are rightly normalised. It is just that which makes the fault total: their mean is "
            "0.",
            "ratio": "There is no ratio in this algorithm.",
        },
    ),
    Patient(
        "optimistic critic", "gradients",
        "A2C with one loss for both networks. The policy learns, but the critic's values are too high by more than a whole "
        "reward, even on a task where every episode pays exactly 1.",
        [issue("keras-team/keras-io", 194), issue("coreylynch/async-rl", 8)],
        faults=[Fault(
            "advantage not detached", A2C, "policy_loss = policy_gradient_loss(policy.log_prob(batch.action), weight)",
            "policy_loss = -(policy.log_prob(batch.action) * (batch.value_target - value)).mean(-1)",
            "The policy's loss moves the critic.",
        )],
        suspect="advantage_gradient", case=m.Case("A2C", "constant reward, Box", 16_384), measure=m.value_at(0.0),
        label="V, exactly 1", curve=None, read="the critic's value against the known answer, gradients of the policy's loss "
        "alone",
        cure="`advantage.detach()`. Otherwise the critic is also asked to make −log π · (target − V) small, which it does by "
        "growing.",
        against={
            "termination": "A missing mask gives 1 / (1 − γ) = 100 here, not 2.4.",
            "critic": "Trained alone the critic finds 1. Something else pulls at it: take the policy's loss away.",
            "reset_rows": "There are no such rows here; and they would pull the value below 1.",
            "entropy_sign": "The bonus has no critic in it, so it cannot move V.",
        },
    ),
    Patient(
        "all at once", "gradients",
        "My ratio is 1.0 in every step of every epoch. Learning starts fast; then within one update the policy is "
        "deterministic, and nothing brings it back.",
        [issue("tensorforce/tensorforce", 312), issue("AI4Finance-Foundation/ElegantRL", 243)],
        faults=[Fault(
            "old log-probability computed anew", PPO, "clipped_surrogate_loss(log_prob, minibatch.log_prob, minib",
            "clipped_surrogate_loss(log_prob, log_prob, minib", "The clip never acts.",
        )],
        suspect="old_log_prob_gradient", case=POLE, measure=m.late("entropy"), label="entropy, last quarter (nats)",
        curve="mean_return",
        read="entropy, KL, the ratio in the second epoch",
        cure="Store the log-probabilities when the data are collected, as numbers, and compare with those for the whole update.",
        against={
            "clip": "The clip itself is right: feed it ratios of 0.5 and 1.5 and it answers as it should. It is never fed any.",
            "entropy_sign": "There is no entropy bonus in these runs.",
            "ratio": "The formula is right: for log-probabilities −1 and −2 it gives e. Ask what the two arguments are.",
            "no_gradient": "The policy moves, and how: far too much. The gradient at ratio 1 is that of plain policy gradient.",
        },
    ),
    Patient(
        "stone", "gradients",
        "Someone told me that the ratio is a weight, so it must not carry a gradient, and I detached it. Now the critic learns "
        "well, and the policy not at all.",
        [issue("seungeunrho/minimalRL", 33), issue("thu-ml/tianshou", 742), issue("huggingface/trl", 1720)],
        faults=[Fault(
            "ratio outside the graph", OBJECTIVES, "    ratio = _ratio(log_prob, old_log_prob)\n    gain",
            "    ratio = _ratio(log_prob, old_log_prob).detach()\n    gain", "The policy never moves.",
        )],
        suspect="no_gradient", case=POLE, measure=m.late("kl"), label="KL of an update, last quarter (nats)", curve="mean_return",
        read="KL, entropy, the norm of the policy's own gradient",
        cure="The ratio *is* how the policy enters: ∇ρ = ρ ∇log π. Detach the old log-probability and the advantage, nothing "
        "else.",
        against={
            "broadcast": "Then the gradient would be tiny but not 0. Here the KL is 0 to the last bit.",
            "clip": "A clip that always acts would look the same from outside. But the ratio is 1, inside every interval.",
            "old_log_prob_gradient": "With both sides in the graph it would look the same. Look at which of the two is detached "
            "here.",
            "policy_sign": "The policy does not get worse. It does not get anything.",
        },
    ),
    Patient(
        "diver", "gradients",
        "In the paper the update is θ + α·∇. I found a minus in front of the loss and took it away. Now the pole falls in nine "
        "steps, every time; before it was random.",
        [issue("ikostrikov/pytorch-a3c", 30), issue("openai/spinningup", 436)],
        faults=[Fault("gradient ascent on the loss", VPG, "policy_gradient_loss(policy", "-policy_gradient_loss(policy",
                      "The return falls to the worst possible.")],
        suspect="policy_sign", case=POLE_VPG, measure=m.last_return, label=RETURN, curve="entropy",
        read="return against that of a random policy, entropy",
        cure="Optimisers go downhill: loss = −mean(log π · Â).",
        against={
            "order": "Credit in the wrong place gives chance, about 22. This is *worse* than chance, and reliably so.",
            "entropy_sign": "There is no entropy bonus in these runs; and becoming sure is not yet becoming bad.",
            "termination": "An agent that does not mind falling does not seek it either. This one does.",
            "no_gradient": "The entropy falls and the return with it: the policy moves.",
        },
    ),
    Patient(
        "backfire", "gradients",
        "I took exp(old − new) from another repository. Everything the agent does well once, it never does again.",
        [issue("openai/baselines", 1218), issue("hill-a/stable-baselines", 447)],
        faults=[Fault("ratio upside down", OBJECTIVES, "return (log_prob - old_log_prob.detach()).clamp(",
                      "return (old_log_prob.detach() - log_prob).clamp(", "Good actions become rarer.")],
        suspect="ratio", case=POLE, measure=m.last_return, label=RETURN, curve="kl",
        read="return, the ratio for log-probabilities −1 and −2",
        cure="ρ = exp(log π_new − log π_old). (In the threads beside it the suspicion was mistaken: those variables are "
        "*negative* log-probabilities.)",
        against={
            "policy_sign": "The same symptom, and at ratio 1 even the same gradient. But the loss itself has its minus: give it "
            "ratios, and it answers rightly. Give it log-probabilities.",
            "clip": "For given ratios the objective is right in all four corners. Look at what it is given.",
            "order": "Credit in the wrong place gives chance. This is worse than chance on every seed.",
            "entropy_sign": "There is no entropy bonus in these runs.",
        },
    ),
    Patient(
        "runaway", "gradients",
        "I simplified: clip(ratio)·A, without the min, since the clip already limits it. KL per update is twenty times what "
        "others log.",
        [issue("takuseno/ppo", 3), issue("tensorforce/tensorforce", 106)],
        faults=[Fault("clip without min", OBJECTIVES, "gain, limit = ratio * advantage,",
                      "gain, limit = ratio.clamp(1 - epsilon, 1 + epsilon) * advantage,", "What went the wrong way is never "
                      "brought back.")],
        suspect="clip", case=POLE, measure=m.late("kl"), label="KL of an update, last quarter (nats)", curve="mean_return",
        read="KL, clip fraction, the loss in its four corners",
        cure="min(ρA, clip(ρ)A). Without it a bad action that has become *likelier* has no gradient (lesson 05, step 3, case 6).",
        against={
            "ratio": "At the first step the ratio is 1, and for −1 and −2 it is e, as it should be.",
            "old_log_prob_gradient": "The ratios do leave 1: the clip fraction says so. It is what happens outside that is "
            "wrong.",
            "entropy_sign": "There is no entropy bonus in these runs.",
            "kl_estimate": "The KL is exact, not estimated, and it really is that large.",
        },
    ),
    Patient(
        "early certainty", "gradients",
        "I raised the entropy coefficient to get more exploration, and got less: the higher it is, the sooner the policy is "
        "sure. The score looks fine, so far.",
        [issue("rlworkgroup/garage", 628), issue("google-deepmind/open_spiel", 962)],
        faults=[Fault("entropy bonus with the wrong sign", PPO, "loss = loss - self.entropy_coef", "loss = loss + "
        "self.entropy_coef",
                      "The policy turns deterministic.")],
        suspect="entropy_sign", case=m.Case("PPO", "CartPole-v1", 24 * 1024, (("entropy_coef", 0.1),)), measure=m.late("entropy"),
        label="entropy, last quarter (nats)", curve="mean_return", read="entropy at two values of the coefficient",
        cure="The loss is minimised and entropy wanted, so it is subtracted. Check what the library calls entropy: some return "
        "−H.",
        against={
            "policy_sign": "The return rises, so the policy's loss has the right sign.",
            "clip": "With the coefficient at 0 everything is normal. The clip has no part in it.",
            "std_scale": "There is no σ in a choice between two actions.",
            "normalization": "Advantages of another scale would change both. Change the coefficient alone and see which way it "
            "goes.",
        },
    ),
    # ------------------------------------------------------------------------------------------------- continuous actions
    Patient(
        "odd densities", "continuous",
        "My Gaussian policy trains, somewhat worse than the reference. I compared log-probabilities with SciPy: equal while σ = "
        "1, different ever after.",
        [issue("hill-a/stable-baselines", 1059), issue("hill-a/stable-baselines", 1058), issue("google-research/batch-ppo", 13)],
        faults=[Fault("standard deviation read as variance", DISTRIBUTIONS, "z = (action - self.mean) * (-self.log_std).exp()",
                      "z = (action - self.mean) * (-0.5 * self.log_std).exp()", "σ learns the wrong size.")],
        suspect="std_scale", case=None, measure=m.log_density_error, label="largest |log π − SciPy's| of 20",
        curve=None, read="log-density against scipy.stats.norm at log σ ≠ 0",
        cure="z = (a − μ)/σ with σ = exp(log σ). Test at log σ = −1: at 0 all confusions agree.",
        against={
            "action_sum": "A missing sum would be wrong at σ = 1, too.",
            "tanh": "Nothing is squashed here.",
            "clipped_action": "The comparison uses given actions; nothing is drawn or clipped.",
            "kl_direction": "A density has no direction. It is a single number per action.",
        },
    ),
    Patient(
        "noisy edges", "continuous",
        "I clip the action to the box right after sampling and store that. KL and clip fraction are several times higher than "
        "in the reference, σ shrinks too fast, and some seeds fail.",
        [issue("thu-ml/tianshou", 312), issue("vwxyzjn/cleanrl", 240)],
        faults=[Fault("stores the clipped action", ROLLOUT, "action[t] = agent.act(all_obs[t], noise[t])",
                      "action[t] = torch.as_tensor(agent.head.to_env(agent.act(all_obs[t], noise[t]).numpy()))", "σ drifts.")],
        suspect="clipped_action", case=PENDULUM, measure=m.late("kl"), label="KL of an update, last quarter (nats)",
        curve="entropy", read="KL, entropy, how many stored actions lie exactly on a bound",
        cure="Store and evaluate what the distribution drew; clip on the way to the environment, and nowhere else.",
        against={
            "std_scale": "Against SciPy the density is right for every action. Ask which action it is given.",
            "clip": "That is another clip. The objective is right in its four corners.",
            "tanh": "Nothing is squashed: count how many stored actions are exactly ±2.",
            "entropy_sign": "There is no entropy bonus in these runs, and still σ falls.",
        },
    ),
    Patient(
        "twitchy pendulum", "continuous",
        "I squash the sampled action with tanh into the box, and store that. It reaches the reference's score; but the KL is "
        "two to three times as high, and the formula with the tanh term that everybody quotes appears nowhere in my code.",
        [issue("automl/Mighty", 118), issue("hwang-ua/inac_pytorch", 1)],
        faults=[
            Fault("stores the squashed action", ROLLOUT, "action[t] = agent.act(all_obs[t], noise[t])",
                  "action[t] = torch.as_tensor(agent.head.squash(agent.act(all_obs[t], noise[t]).numpy()))",
                  "Scores belong to other actions."),
            Fault("squashed already", ROLLOUT, "env.step(agent.head.squash(action[t].flatten(0, 1).numpy()))",
                  "env.step(action[t].flatten(0, 1).numpy())", "Right, if the stored action is squashed."),
        ],
        suspect="tanh", case=m.Case("PPO", "Pendulum-v1", 32_000, (("bounds", "tanh"),)), measure=m.late("kl"),
        label="KL of an update, last quarter (nats)", curve="entropy",
        read="KL, clip fraction, the integral of the density over the box",
        cure="Store u, the number before tanh, and squash on the way to the environment; then the term cancels in every ratio. "
        "Who stores the squashed action must subtract Σ log(da/du).",
        against={
            "clipped_action": "Hardly any stored action lies exactly on a bound. They crowd near it.",
            "std_scale": "Against SciPy the Gaussian density is right. But is the action that is stored Gaussian?",
            "action_sum": "There is one action dimension. A sum over it changes nothing.",
            "kl_estimate": "The KL is exact, not estimated, and it really is that large.",
        },
    ),
    Patient(
        "six motors", "continuous",
        "With one motor all is well. With six the same PPO takes huge steps: the KL of an update is twenty times the usual, "
        "though the clip fraction looks harmless. It even learns faster, at first.",
        [issue("EmbersArc/PPO", 4), issue("nikhilbarhate99/PPO-PyTorch", 60)],
        faults=[Fault("log-probability averaged over dimensions", DISTRIBUTIONS, "math.log(2 * math.pi)).sum(-1)",
                      "math.log(2 * math.pi)).mean(-1)", "Ratios are too close to 1.")],
        suspect="action_sum", measure=m.late("kl"), label="KL of an update, last quarter (nats)", curve="mean_return",
        case=m.Case("PPO", "six motors", 24 * 1024, (("gamma", 0.9), ("num_envs", 16), ("num_steps", 64), ("learning_rate", 2e-3),
                                                     ("num_minibatches", 8), ("update_epochs", 4))),
        read="KL together with clip fraction; log π of two equal dimensions against twice that of one",
        cure="Sum over the action dimensions: the probability of six independent numbers is a product.",
        against={
            "clip": "For given ratios the objective is right. They are just too close to 1: the sixth root of what they should "
            "be.",
            "ratio": "It is 1 at the first step, and new over old. Count the dimensions that go into it.",
            "std_scale": "With one dimension the density agrees with SciPy for every σ.",
            "old_log_prob_gradient": "The ratios do leave 1, only by too little for the distance that the policy has gone.",
        },
    ),
    # ------------------------------------------------------------------------------------------------------- trust region
    Patient(
        "shy steps", "trust",
        "TRPO works, but conjugate gradient is done after a single iteration, with a residual of 0, and the line search has to "
        "halve nearly every step three times.",
        [issue("dongminlee94/deep_rl", 5), issue("ajlangley/cpo-pytorch", 10)],
        faults=[Fault("neither distribution detached", RUNS, "kl = new.detach().kl(new)", "kl = new.kl(new)",
                      "The Fisher product is 0, and only the damping is left.")],
        suspect="fisher", case=POLE_TRPO, measure=m.late("accepted"), label="halvings in the line search, last quarter",
        curve="mean_return", read="residual and iterations of conjugate gradient, index of the line search, F v for one v",
        cure="Detach exactly one distribution, the old one. (Detaching the new one instead gives the same F at θ_old; the KL "
        "that is tested afterwards then has its arguments swapped.)",
        against={
            "damping": "The damping is there. It is the *only* thing there: subtract 0.1 v from the product and see what is "
            "left.",
            "conjugate_gradient": "It solves what it is given, at once. Why is the system so easy?",
            "line_search": "It does its duty: every accepted step is within the limit. Who proposes such long steps?",
            "kl_direction": "Near θ_old both directions have the same Hessian; that cannot explain a residual of 0.",
        },
    ),
    Patient(
        "dead on arrival", "trust",
        "TRPO stops in the first update: the denominator of the step length is negative, so its square root is NaN. I am afraid "
        "to put abs() around it.",
        [issue("rll/rllab", 24), issue("tensorforce/tensorforce", 26),
         issue("Stable-Baselines-Team/stable-baselines3-contrib", 38)],
        faults=[Fault("damping with the wrong sign", RUNS, "return result + damping * v", "return result - damping * v",
                      "F − cI is not positive definite.")],
        suspect="damping", case=POLE_TRPO, measure=m.updates_survived, label="share of updates until quarantine", curve=None,
        read="the reason of the quarantine, pᵀ(F v) for a random p, with damping and without",
        cure="F + cI. A KL has no negative curvature at its minimum, so pᵀFp < 0 always means a fault (or float32 noise far "
        "below c).",
        against={
            "fisher": "Without damping the product is right: vᵀFv ≥ 0 for every v. Add the damping, and look again.",
            "conjugate_gradient": "It was right to stop: no solver may go on from negative curvature.",
            "normalization": "The gradient is finite. It is the curvature that has the wrong sign.",
            "policy_sign": "The sign of the gradient does not enter vᵀFv.",
        },
    ),
    Patient(
        "slow solver", "trust",
        "The residual of conjugate gradient hardly falls: 10 % and more is left after all iterations, where it should be nearly "
        "0. The score does not show it.",
        [issue("MushroomRL/mushroom-rl", 79)],
        faults=[Fault("directions not conjugate", TRUST_REGION, "r + rr_new / torch.where(rr > 0, rr, 1.0) * p", "r",
                      "Steepest descent: many more iterations.")],
        suspect="conjugate_gradient", case=POLE_TRPO, measure=m.late("cg_residual"),
        label="relative residual ‖g − Fx‖ / ‖g‖, last quarter", curve="mean_return",
        read="residual per iteration; a 3 × 3 system in 3 steps",
        cure="p ← r + βp with β = r'ᵀr' / rᵀr. With β = 0 it is steepest descent. Test any solver on a small system with a "
        "known answer.",
        against={
            "fisher": "F v agrees with finite differences of the KL's gradient. Give the solver another matrix: it is slow "
            "there, too.",
            "damping": "F v with damping 0.1 minus F v without is 0.1 v.",
            "line_search": "It is right; it repairs much of the damage, which is why the score looks fine.",
            "kl_direction": "Both directions have one Hessian at θ_old, and the residual does not depend on it.",
        },
    ),
    Patient(
        "over the limit", "trust",
        "I set max_kl = 0.02 and the log shows KLs up to 0.1. The quadratic model is only a model, I know; but isn't the line "
        "search there for that?",
        [issue("joschu/modular_rl", 29), issue("zhangchuheng123/Reinforcement-Implementation", 1), issue("thu-ml/tianshou",
                                                                                                         1287)],
        faults=[Fault("line search ignores the limit", TRPO, "evaluate, self.max_kl, back", "evaluate, 1e9, back",
                      "KL exceeds the limit.")],
        suspect="line_search", case=POLE_TRPO, measure=m.above_limit, label="share of updates above max_kl", curve="kl",
        read="KL against the limit, index of the line search",
        cure="Accept only if the surrogate improves *and* the true KL is within the limit; if nothing is accepted, put the old "
        "parameters back, bit for bit.",
        against={
            "fisher": "The direction is right, and the predicted KL of every step is exactly the limit.",
            "conjugate_gradient": "The residual is as small as in the healthy runs.",
            "kl_estimate": "The KL is exact, not estimated, and it really is above.",
            "damping": "Damping makes steps shorter, if anything.",
        },
    ),
    Patient(
        "two rulers", "trust",
        "My logged KL and that of another library differ in the third digit on the same two policies. Is that rounding?",
        [issue("tensorforce/tensorforce", 107), issue("PacktPublishing/Deep-Reinforcement-Learning-Hands-On", 17)],
        faults=[Fault("direction of the categorical KL", DISTRIBUTIONS,
                      "(p * _zero_where_impossible(self.log_probs - other.log_probs, p))",
                      "(other.probs * _zero_where_impossible(other.log_probs - self.log_probs, p))",
                      "The limit holds for another quantity.")],
        suspect="kl_direction", case=None, measure=m.kl_error, label="largest relative error of 20 KLs", curve=None,
        read="KL of two policies that are far apart against scipy.stats.entropy",
        cure="KL(old ‖ new) averages over the old policy, which drew the data. Near each other both agree to second order, so "
        "test far apart.",
        against={
            "kl_estimate": "Nothing is estimated: it is a sum over all four actions. Ask what it is weighted with.",
            "fisher": "The product is right: both have the same Hessian at equal policies. Look away from there.",
            "entropy_sign": "No entropy is involved.",
            "line_search": "It compares a number with the limit, and does that rightly. Is it the right number?",
        },
    ),
    Patient(
        "no brakes", "trust",
        "My early stop at target_kl never stops anything. In the log the approximate KL is negative, sometimes −1.",
        [issue("openai/spinningup", 137), issue("DLR-RM/stable-baselines3", 417)],
        faults=[Fault("sign of the estimate", PPO, "old.kl(agent.policy(batch.obs)).mean(-1)",
                      "(agent.policy(batch.obs).log_prob(batch.action) - batch.log_prob).mean(-1)",
                      "The stop never comes.")],
        suspect="kl_estimate", measure=m.largest("kl"), label="largest true KL of an update (nats)", curve="mean_return",
        case=m.Case("PPO", "CartPole-v1", 24 * 1024, (("target_kl", 0.01), ("update_epochs", 10), ("num_minibatches", 4),
                                                      ("clip_epsilon", 10.0))),
        read="true KL against target_kl, number of epochs taken",
        cure="k1 = log π_old − log π_new on samples of the old policy; it may be negative on a batch, so prefer k3, or the "
        "exact KL.",
        against={
            "clip": "Here ε = 10, so there is no clip: target_kl is meant to be the only brake.",
            "kl_direction": "The other direction is a bit off, but never negative. This one is.",
            "old_log_prob_gradient": "The ratios leave 1, and far.",
            "line_search": "PPO has none.",
        },
    ),
    # ------------------------------------------------------------------------------------------------------- bookkeeping
    Patient(
        "NaN at once", "bookkeeping",
        "All weights become NaN, always at the end of an epoch. 65 samples in minibatches of 64: the last has one.",
        [issue("DLR-RM/stable-baselines3", 325), issue("DLR-RM/stable-baselines3", 440)],
        faults=[Fault("divisor N − 1", ESTIMATORS, "** 2).sum(-1, keepdims=True) / count)", "** 2).sum(-1, keepdims=True) / "
        "(count - 1))",
                      "A minibatch of one sample turns the network into NaN.")],
        suspect="normalization", measure=m.updates_survived, label="share of updates until quarantine", curve=None,
        case=m.Case("A2C", "CartPole-v1", 200, (("num_envs", 1), ("num_steps", 1), ("normalize", True))),
        read="the first quantity that is not finite, and the size of its batch",
        cure="One sample has no spread: leave it at 0. (torch.std divides by N − 1 unless told otherwise; 0/0 is NaN.)",
        against={
            "std_scale": "There is no σ in a choice between two actions.",
            "ratio": "This algorithm has no ratio that could overflow.",
            "critic": "Its loss is finite. NaN enters on the policy's side.",
            "no_gradient": "A gradient flows; it is NaN. Go back from it, step by step.",
        },
    ),
    Patient(
        "good student, bad exam", "bookkeeping",
        "In training the return rises as it should; the saved policy scores a fraction of that. It makes no difference whether "
        "I sample or take the mode. I normalise observations.",
        [issue("isaac-sim/IsaacLab", 2635), issue("DLR-RM/stable-baselines3", 1556)],
        faults=[Fault("statistics not handed over", RUNS, "ObsNormalizer(self.normalizer.statistics.select(run), self.dtype)",
                      "ObsNormalizer(Statistics(1, self.obs_size), self.dtype)", "The saved policy sees other observations.")],
        suspect="observation_statistics", case=m.Case("PPO", "CartPole in other units", 16 * 1024, (("normalize_obs", True),)),
        measure=m.return_of_the_policy, label="return of the policy that was saved", curve="mean_return",
        read="the action for one fixed observation in training, after training, after loading",
        cure="Mean and standard deviation belong to the policy: save them with the weights, and freeze them when it is "
        "evaluated.",
        against={
            "seeding": "Ten other seeds score as badly.",
            "termination": "The training return is as it should be, so the estimates are right. Look behind the training.",
            "clipped_action": "There are two actions, left and right. Nothing is clipped.",
            "normalization": "That one is about advantages. They are gone when the policy plays.",
        },
    ),
    Patient(
        "eight times the same", "bookkeeping",
        "I use eight environments for variety. When I print their first observations, all eight are equal.",
        [issue("hill-a/stable-baselines", 79), issue("Farama-Foundation/SuperSuit", 89), issue("Farama-Foundation/Minigrid",
                                                                                               173)],
        faults=[Fault("environments share one seed", RUNS, "stream.generate_state(num_envs)",
                      "stream.generate_state(1).repeat(num_envs)", "Eight environments start alike.")],
        suspect="seeding", case=None, measure=m.distinct_starts, label="different first observations of 8", curve=None,
        read="the first observation of every environment; two runs with one seed, two with different ones",
        cure="One seed per environment, spawned from the run's seed (numpy's SeedSequence), not the same for all.",
        against={
            "reset_rows": "The very first observation comes before any reset row.",
            "observation_statistics": "The raw observations are equal already.",
            "broadcast": "They are equal inside the environments, before any tensor is made.",
            "order": "Equal rows look the same in every order. Why are they equal?",
        },
    ),
    Patient(
        "explains nothing", "bookkeeping",
        "The agent plays Breakout well. But its critic's explained variance is near 0 and stays there.",
        [("theprincipledagent.com, Breakout baselines",
          "https://theprincipledagent.com/2025/08/26/forensic-rl-investigating-a-surprisingly-successful-bug-breakout-baseline-5")],
        faults=[Fault("target is reward plus advantage", ESTIMATORS, "value_targets = advantages + v", "value_targets = "
        "advantages + r",
                      "The critic chases a moving target.")],
        suspect="critic", case=POLE, measure=m.late("explained_variance"), label="explained variance, last quarter",
        curve="mean_return", read="explained variance, return, the target of one step by hand",
        cure="V̂^targ = Â + V. The policy still learns, because an action's advantage needs no good baseline, only an honest "
        "one.",
        against={
            "truncation": "Hardly any episode reaches the time limit in these runs.",
            "order": "Then the policy would not learn, either. It does.",
            "advantage_gradient": "The policy's loss has no gradient in the critic: take it away, and the critic is as bad.",
            "termination": "The advantages are right, by hand. Check what is added to them.",
        },
    ),
    # -------------------------------------------------------------------------------------------------- mistaken reports
    Patient(
        "exactly one", "mistaken", "The ratio is exactly 1.0 in the first minibatch of every update. So PPO's objective is "
        "constant and it does nothing. Where is the old policy kept?",
        [issue("nikhilbarhate99/PPO-PyTorch", 12), issue("MorvanZhou/Reinforcement-learning-with-tensorflow", 65),
         issue("huggingface/trl", 2769)],
        suspect=NOTHING, claim=m.ratio_at_first, claim_label="max |ρ − 1|, first minibatch", measure=m.ratio_at_last,
        label="max |ρ − 1|, after all epochs", read="the ratio at the first step and after the last",
        cure="The *value* 1 is right before the first step; its gradient is the policy gradient (lesson 05, step 6). It is the "
        "best single test of a PPO. What would be wrong: 1 after several steps, too.",
        against={
            "old_log_prob_gradient": "Then the ratio would still be 1 after ten epochs. Look at the second column.",
            "no_gradient": "Then the policy would not move, and the ratio would still be 1 after ten epochs.",
            "ratio": "Upside down or not, equal policies give 1. The second column tells that it moves.",
        },
    ),
    Patient(
        "a loss that stays", "mistaken", "The return rises, but the loss does not fall: it hovers around 0 from the first "
        "update to the last. In another run it even rose. What is the optimiser doing?",
        [issue("kengz/SLM-Lab", 437), issue("DLR-RM/stable-baselines3", 1943), issue("DLR-RM/stable-baselines3", 602)],
        suspect=NOTHING, case=POLE_VPG, claim=m.loss_gained, claim_label="change of the policy's loss", measure=m.return_gained,
        label="change of the return", read="the return, not the loss",
        cure="Every update has a new loss, made of new data; only its gradient at that point means anything (lesson 02, step 7).",
        against={
            "policy_sign": "With the wrong sign the return would fall. It rises on every seed.",
            "normalization": "Normalising moves the loss near 0, and takes nothing from its gradient's direction.",
            "critic": "The loss in question has no critic in it.",
        },
    ),
    Patient(
        "zero KL", "mistaken", "In my TRPO the KL between old and new policy, just before the step, is always 0, and its "
        "gradient too. So the Hessian must be 0, and the constraint does nothing.",
        [issue("Khrylx/PyTorch-RL", 11), issue("ikostrikov/pytorch-trpo", 11), issue("aravindr93/mjrl", 44)],
        suspect=NOTHING, claim=m.kl_gradient, claim_label="norm of the KL's gradient", measure=m.kl_curvature,
        label="vᵀFv for a random unit v", read="value, gradient and curvature of the KL at θ_old",
        cure="At its minimum a function's value and gradient may be 0; its curvature is what TRPO needs (lesson 04, step 6).",
        against={
            "fisher": "Then vᵀFv would be 0, too. It is not, on any seed.",
            "kl_direction": "Both directions are 0 at equal policies, with one and the same curvature.",
            "no_gradient": "The gradient of the *KL* is 0 there, as at every minimum. That of the surrogate is not.",
        },
    ),
    Patient(
        "less than nothing", "mistaken", "The entropy of my policy is negative. Entropy is a measure of disorder; it cannot be "
        "below 0. Is log_prob broken?",
        [issue("DLR-RM/stable-baselines3", 2004), issue("google/brax", 218)],
        suspect=NOTHING, claim=m.gaussian_entropy, claim_label="entropy (nats)", measure=m.mass_of_the_density,
        label="integral of the density", read="the entropy, and whether the density integrates to 1",
        cure="A density may exceed 1, so log π may be positive and its entropy negative: log σ + 1.42 < 0 for σ < 0.24 (lesson "
        "06, step 2).",
        against={
            "std_scale": "Then the density would not integrate to 1.",
            "entropy_sign": "The sign of the bonus is another matter. The number itself is right: log σ + ½ log 2πe.",
            "action_sum": "There is one dimension here.",
        },
    ),
    Patient(
        "actions out of bounds", "mistaken", "The buffer holds actions outside the box, though the environment only ever saw "
        "clipped ones. Should it not store what was really executed?",
        [issue("DLR-RM/stable-baselines3", 1431), issue("DLR-RM/stable-baselines3", 1430)],
        suspect=NOTHING, claim=m.score_if_clipped, claim_label="mean score of log σ, if it stored clipped ones",
        measure=m.score_as_stored,
        label="mean score of log σ, as it is", read="the mean of ((a − μ)/σ)² − 1, which must be 0",
        cure="log π belongs to what was drawn; the clip is part of the environment (lesson 06, step 7). The proposal makes the "
        "score of log σ biased: patient “noisy edges”.",
        against={
            "clipped_action": "The opposite is done here: what is stored is what was drawn. Its mean score is 0, as it should "
            "be.",
            "tanh": "Nothing is squashed.",
            "std_scale": "Then the mean of ((a − μ)/σ)² would not be 1.",
        },
    ),
    Patient(
        "worse than a constant", "mistaken", "In the last third the explained variance falls to 0 and below: worse than "
        "predicting the mean! And the return keeps rising. Is the value function broken?",
        [issue("openai/baselines", 454), issue("ray-project/ray", 10159)],
        suspect=NOTHING, case=m.Case("PPO", "CartPole-v1", 40 * 1024), claim=m.late("explained_variance"),
        claim_label="explained variance, last quarter", measure=m.last_return, label=RETURN, curve="explained_variance",
        read="explained variance together with the return (how much do values still differ?)",
        cure="It is a quotient: when nearly all states are worth the same there is hardly any variance left to explain (lesson "
        "02, step 9). In your own log, look at the size of the critic's error beside it.",
        against={
            "critic": "Then it would be near 0 from the start. Here it is high in the beginning, while values differ.",
            "truncation": "The final observation's value is used. The healthy package is running here.",
            "order": "Then the return would not rise.",
        },
    ),
    # ------------------------------------------------------------------------------------------------------------- score
    Patient(
        "do not touch", "score",
        "I found a sign that looks wrong in the entropy term, mended it, and the score got *worse*, on every seed. So the old "
        "version must have been right?",
        [issue("MrSyee/pg-is-all-you-need", 37), issue("openai/universe-starter-agent", 110)],
        faults=[Fault("entropy bonus with the wrong sign", PPO, "loss = loss - self.entropy_coef", "loss = loss + "
        "self.entropy_coef",
                      "The policy turns deterministic.")],
        suspect="entropy_sign", case=m.Case("PPO", "Acrobot-v1", 40 * 1024, (("entropy_coef", 0.1),)), measure=m.last_return,
        label=RETURN, curve="entropy", read="entropy, and what the coefficient was chosen with",
        cure="The sign was wrong. The coefficient, 0.1, is far too large for this task, and the wrong sign hid that: a penalty "
        "on entropy makes a policy greedy, which pays here. Mend the sign *and* choose the coefficient anew (0.01 in the "
        "lessons).",
        against={
            NOTHING: "The formula is wrong whatever the score says. The loss is minimised; then what does +0.1 · entropy do?",
            "clip": "The objective is right in its four corners.",
            "policy_sign": "The return rises in both versions.",
            "critic": "The critic explains about 90 % in both versions.",
        },
    ),
]
# fmt: on
