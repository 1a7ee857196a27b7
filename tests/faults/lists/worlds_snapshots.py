"""One-line faults of the state of an environment as data."""

MODULE = "rlcourse.worlds.snapshots"
TESTS = ["tests/worlds/test_snapshots.py"]
FAULTS = [
    ("only the outer layer", "env = env.env", "env = env.unwrapped", "A resumed episode has another time limit."),
    ("arrays are shared", 'return {"array": value.copy()}', 'return {"array": value}',
     "A snapshot changes while the training goes on."),
    ("positions only", "kind = mujoco.mjtState.mjSTATE_INTEGRATION", "kind = mujoco.mjtState.mjSTATE_QPOS",
     "A resumed robot stands where it stood, at rest."),
    ("whatever cannot be stored is left out", 'raise CannotStore(f"{name} is a {type(value).__name__}, which is no plain data")',
     "return None", "Half a state is stored, and the resumed training is another one."),
    ("one object under two names", "if id(value) in seen:", "if False:", "After a resume two arrays that were one go apart."),
    ("a tuple comes back as a list", 'tuple(items) if kind == "tuple" else items', "items", "An environment meets another type."),
]  # fmt: skip
