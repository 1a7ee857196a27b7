"""One process of a group that keeps a checkpoint, run by test_distributed.py with ENVIRONMENT and ARGUMENTS as globals."""

import os

from rlcourse.experiments.distributed import train_in_folder

os.environ.update(ENVIRONMENT)  # noqa: F821
train_in_folder(**ARGUMENTS)  # noqa: F821
