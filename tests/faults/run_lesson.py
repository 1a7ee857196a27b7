"""Execute the code cells of a notebook in this process, meeting the fault named in the environment (see fault_plugin).

python run_lesson.py notebook.ipynb          exit code 1 and one line of report at the first cell that raises
"""

import json
import sys
from pathlib import Path

import fault_plugin  # noqa: F401  before anything of the lesson is imported
from IPython.core.interactiveshell import InteractiveShell


def main(path):
    cells = json.loads(Path(path).read_text(encoding="utf-8"))["cells"]
    shell = InteractiveShell.instance()
    for number, cell in enumerate(cells):
        if cell["cell_type"] != "code":
            continue
        result = shell.run_cell("".join(cell["source"]))
        if error := result.error_before_exec or result.error_in_exec:
            first_line = str(error).splitlines()[0] if str(error) else ""
            print(f"FAILED cell {number}: {type(error).__name__}: {first_line}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
