"""A pytest plugin: the test process meets the fault named in the environment, instead of the healthy module."""

import json
import os

from rlcourse.classroom.faults import Fault, infect

if fault := os.environ.get("RLCOURSE_FAULT"):
    infect(Fault(**json.loads(fault)))
