"""python -m rlcourse: the command line."""

import sys

from rlcourse.experiments.cli import main

if __name__ == "__main__":  # a process of a sweep imports this file, too
    sys.exit(main())
