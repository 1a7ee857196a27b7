"""One-line faults of the distributions."""

MODULE = "rlcourse.equations.distributions"
TESTS = ["tests/equations/test_distributions.py"]
FAULTS = [
    (
        "softmax over the samples",
        "torch.log_softmax(logits, dim=-1)",
        "torch.log_softmax(logits, dim=0)",
        "The probabilities of one state depend on the other states of the batch.",
    ),
    (
        "softmax twice",
        "self.logits = logits",
        "self.logits = logits = torch.softmax(logits, dim=-1)",
        "The policy can never become sure; returns stop rising half-way.",
    ),
    (
        "sign of the noise",
        "return -exponential.clamp_",
        "return exponential.clamp_",
        "Sampled frequencies are not the probabilities, so the gradient is biased.",
    ),
    (
        "noise may be infinite",
        "exponential.clamp_(min=torch.finfo(dtype).tiny).log_()",
        "exponential.log_()",
        "Once in a very long while a forbidden action is taken.",
    ),
    (
        "greedy instead of sampled",
        "(self.logits.detach() + noise).argmax(-1)",
        "(self.logits.detach() + 0 * noise).argmax(-1)",
        "There is no exploration, and all runs of a seed look alike.",
    ),
    (
        "samples from the wrong scale",
        "(self.logits.detach() + noise).argmax(-1)",
        "(self.logits.detach().exp() + noise).argmax(-1)",
        "Likely actions are taken too often; entropy says one thing, behaviour another.",
    ),
    (
        "least probable action as mode",
        "return self.logits.argmax(-1)",
        "return self.logits.argmin(-1)",
        "Training looks fine and the evaluation is terrible.",
    ),
    (
        "column of log-probabilities",
        "action.long().unsqueeze(-1)).squeeze(-1)",
        "action.long().unsqueeze(-1))",
        "(N, 1) meets (N,) in the loss, and the gradient is zero.",
    ),
    (
        "column of actions accepted",
        "if action.shape != self.logits.shape[:-1]:",
        "if action.shape[0] != self.logits.shape[0]:",
        "A wrong shape comes through, and a loss further on broadcasts it.",
    ),
    (
        "sign of the entropy",
        "return (p * -_zero_where_impossible(self.log_probs, p)).sum(-1)",
        "return (p * _zero_where_impossible(self.log_probs, p)).sum(-1)",
        "The entropy bonus punishes exploration.",
    ),
    (
        "0 · log 0",
        "return term.masked_fill(probs == 0, 0.0)",
        "return term",
        "One forbidden action makes entropy and KL NaN.",
    ),
    (
        "direction of the categorical KL",
        "(p * _zero_where_impossible(self.log_probs - other.log_probs, p))",
        "(other.probs * _zero_where_impossible(other.log_probs - self.log_probs, p))",
        "Nothing near the old policy; away from it, the step limit measures another distance.",
    ),
    (
        "log-probability averaged over dimensions",
        "math.log(2 * math.pi)).sum(-1)",
        "math.log(2 * math.pi)).mean(-1)",
        "Ratios of new and old probabilities are too close to 1 with many action dimensions.",
    ),
    (
        "constant counted once",
        "(z.square() + 2 * self.log_std + math.log(2 * math.pi)).sum(-1)",
        "((z.square() + 2 * self.log_std).sum(-1) + math.log(2 * math.pi))",
        "Nothing in training, since gradients agree; log-probabilities compared with another library differ.",
    ),
    (
        "standard deviation read as variance",
        "z = (action - self.mean) * (-self.log_std).exp()",
        "z = (action - self.mean) * (-0.5 * self.log_std).exp()",
        "The standard deviation learns the wrong size.",
    ),
    (
        "bracket around the log of the variance",
        "z.square() + 2 * self.log_std +",
        "z.square() + self.log_std +",
        "The standard deviation grows although the actions do not call for it.",
    ),
    (
        "entropy without e",
        "0.5 * math.log(2 * math.pi * math.e)",
        "0.5 * math.log(2 * math.pi)",
        "The entropy curve is half a nat per dimension too low.",
    ),
    (
        "action keeps its gradient",
        "self.log_std.exp() * noise).detach()",
        "self.log_std.exp() * noise)",
        "The mean receives no gradient at all, and only the spread learns.",
    ),
    (
        "log of the spread used as the spread",
        "self.mean + self.log_std.exp() * noise",
        "self.mean + self.log_std * noise",
        "At log_std = 0 there is no exploration at all.",
    ),
    (
        "direction of the spread in KL",
        "d = self.log_std - other.log_std",
        "d = other.log_std - self.log_std",
        "A policy that narrows looks as if it widened.",
    ),
    (
        "distance measured in the own spread",
        "z = (self.mean - other.mean) * (-other.log_std).exp()",
        "z = (self.mean - other.mean) * (-self.log_std).exp()",
        "Invisible while both spreads are equal, wrong afterwards.",
    ),
    (
        "minus one forgotten",
        "torch.expm1(2 * d) - 2 * d",
        "torch.exp(2 * d) - 2 * d",
        "Equal policies seem to be half a nat per dimension apart, so every step is refused.",
    ),
    (
        "spread counted once",
        "torch.expm1(2 * d) - 2 * d",
        "torch.expm1(2 * d) - d",
        "KL can be negative.",
    ),
]
