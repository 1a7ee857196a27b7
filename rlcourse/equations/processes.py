"""A batch whose samples lie in several processes: what a formula needs to average over all of them.

As a rule one process trains alone, and everything here is the identity. While several train one run together
(`experiments.distributed`), each holds equally many samples, so the mean of the processes' means is the mean of all samples:

    (1/K) Σ_k (1/B) Σ_i x_ki = (1/KB) Σ_k Σ_i x_ki            k = 1 … K processes, i = 1 … B samples in each
"""

from contextlib import contextmanager
from contextvars import ContextVar


class Alone:
    """A group of one process, and what any group can do."""

    rank, size = 0, 1

    def mean(self, x):
        """x (a tensor, an array or a number), averaged over the processes; all of them must ask for it."""
        return x

    def first(self, x):
        """The tensor x of process 0."""
        return x

    def gather(self, tree) -> list:
        """The trees (nested dicts and lists of plain data and arrays) of all processes, in process 0; in the others nothing."""
        return [tree]

    def from_first(self, make):
        """What make() gives in process 0, the only one that calls it: a tree. If it fails there, it fails everywhere."""
        return make()

    def part(self, total: int) -> slice:
        """Which of `total` environments belong to this process."""
        share = total // self.size
        return slice(self.rank * share, (self.rank + 1) * share)


ALONE = Alone()
_group = ContextVar("group", default=ALONE)


def group() -> Alone:
    """The processes that train together at the moment."""
    return _group.get()


def mean_over_processes(x):
    """x averaged over the processes that train together; alone x itself."""
    return _group.get().mean(x)


@contextmanager
def together(processes):
    """Inside, averages go over the `processes`."""
    token = _group.set(processes)
    try:
        yield
    finally:
        _group.reset(token)
