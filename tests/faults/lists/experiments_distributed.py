MODULE = "rlcourse.experiments.distributed"
TESTS = ["tests/experiments/test_distributed.py"]
FAULTS = [
    ("sum for mean", "total /= self.size", "pass", "Steps of Adam hide it; clipping binds twice as often."),
    (
        "nobody compares parameters",
        "return [rank for rank, other in enumerate(numbers) if other != numbers[0]]",
        "return []",
        "Processes drift apart and the average of their gradients means nothing.",
    ),
    (
        "rounded averages",
        "total = x.detach().clone() if is_float else",
        "total = x.detach().float() if is_float else",
        "Nothing, but two processes no longer equal one.",
    ),
    (
        "the group is forgotten",
        "with together(group):",
        "with together(Alone()):",
        "Every process trains on its own, on the same environments.",
    ),
    ("callbacks are not called", "if any([callback(state) for callback in callbacks]):", "if False:", "There is no checkpoint."),
    (
        "a resume begins anew",
        'how = {"dtype": dtype, "batched": batched, "resume": resume}',
        'how = {"dtype": dtype, "batched": batched, "resume": None}',
        "A resumed training takes as long as the whole one.",
    ),
    ("process 0 fails in silence", "if not data:", "if False:", "The others say that a file is damaged."),
    ("uneven shares", "if envs % size:", "if False:", "One environment is left out, and nobody is told."),
    (
        "lost processes are not named",
        "except RuntimeError as error:",
        "except KeyError as error:",
        "A dead process gives a riddle of gloo.",
    ),
]
