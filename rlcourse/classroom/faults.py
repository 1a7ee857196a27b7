"""One-line faults: the package with one line changed, for the debugging clinic and for the proof that the tests can fail.

A fault names a module, a line that occurs in it exactly once, and the line to put in its place. Nothing on disk is touched:

    sick = load_faulty(fault)      # a second copy of the whole package, beside the healthy one
    sick.train(sick.VPG(), ...)    # runs with the fault
    train(VPG(), ...)              # the healthy package, unaffected
"""

import builtins
import functools
import importlib
import itertools
import linecache
import sys
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path

PACKAGE = "rlcourse"
ROOT = Path(__file__).resolve().parents[1]
_number = itertools.count(1)


@dataclass(frozen=True)
class Fault:
    """One changed line.

    Args:
        name: short, unique, in words a colleague would use.
        module: dotted name of the module, for example "rlcourse.equations.estimators".
        old: text that occurs exactly once in the module: a line, or the part of a line that is wrong afterwards.
        new: the text that replaces it.
        symptom: one sentence: what somebody who trains with it would see.
    """

    name: str
    module: str
    old: str
    new: str
    symptom: str

    def source(self):
        """The source of the module with the one line changed.

        Raises:
            ValueError: no such module, the old line does not occur exactly once (the module has moved on), or nothing
                changes.
        """
        file = file_of(self.module)
        if not file.exists():
            raise ValueError(f"Fault {self.name!r}: there is no module {self.module}; looked for {file}.")
        healthy = file.read_text(encoding="utf-8")
        if (found := healthy.count(self.old)) != 1:
            raise ValueError(
                f"Fault {self.name!r}: the old line must occur once in {self.module}, but occurs {found} times:\n"
                f"    {self.old}\nThe module has changed; bring the fault up to date."
            )
        if self.new == self.old:
            raise ValueError(f"Fault {self.name!r} changes nothing.")
        return healthy.replace(self.old, self.new)


@functools.cache
def load_faulty(*faults):
    """A second copy of the package in which one line is changed; the first copy and the files stay as they are.

    Args:
        faults: a Fault; several, if what was wrong took several lines.

    Returns:
        The copy of the package: use `copy.train`, `copy.gae` … as you would use `rlcourse`. Objects of the two copies do
        not mix: a config of the copy goes to `train` of the copy.

    Raises:
        ValueError: an old line does not occur exactly once.
    """
    alias = f"{PACKAGE}_with_fault_{next(_number)}"
    sys.meta_path.insert(0, importer := _Importer(faults, alias))
    for module in importer.sources:
        importlib.import_module(alias + module.removeprefix(PACKAGE))
    return sys.modules[alias]


def faulty_sources(faults):
    """Dotted name of each changed module -> its source with all the changes."""
    sources = {}
    for fault in faults:
        alone = fault.source()
        sources[fault.module] = sources[fault.module].replace(fault.old, fault.new) if fault.module in sources else alone
    return sources


def infect(fault):
    """Let every later `import rlcourse` of this process meet the fault. Used by test processes; there is no way back."""
    importer = _Importer([fault], PACKAGE)
    for name in [name for name in sys.modules if name == PACKAGE or name.startswith(PACKAGE + ".")]:
        del sys.modules[name]
    sys.meta_path.insert(0, importer)


class _Importer:
    """Imports the files of the package under the name `alias`, with each fault in its module."""

    def __init__(self, faults, alias):
        self.alias, self.sources = alias, faulty_sources(faults)
        self.names = {module: ", ".join(f.name for f in faults if f.module == module) for module in self.sources}

    def find_spec(self, name, path=None, target=None):
        if name != self.alias and not name.startswith(self.alias + "."):
            return None
        file = file_of(PACKAGE + name.removeprefix(self.alias))
        if not file.exists():
            return None
        spec = ModuleSpec(name, self, origin=str(file), is_package=file.name == "__init__.py")
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(str(file.parent))
        return spec

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        original = PACKAGE + module.__name__.removeprefix(self.alias)
        module.__file__ = file = module.__spec__.origin
        if original in self.sources:
            # A file name of its own, so that tracebacks and inspect.getsource show the faulty line.
            source, file = self.sources[original], f"<{original} with fault: {self.names[original]}>"
            linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
        else:
            source = Path(file).read_text(encoding="utf-8")
        module.__dict__["__builtins__"] = vars(builtins) | {"__import__": self.import_}
        exec(compile(source, file, "exec", dont_inherit=True), module.__dict__)

    def import_(self, name, globals=None, locals=None, fromlist=(), level=0):
        """The import statement inside the copy: whatever asks for the package gets the copy."""
        if level == 0 and (name == PACKAGE or name.startswith(PACKAGE + ".")):
            name = self.alias + name.removeprefix(PACKAGE)
        return builtins.__import__(name, globals, locals, fromlist, level)


def file_of(module):
    """The file of a module of the package, by its dotted name."""
    path = ROOT.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
