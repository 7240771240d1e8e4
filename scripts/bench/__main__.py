"""Runs a benchmark: ``python scripts/bench nms --quick``; its arguments: ``--help`` after a name.

Names are those of the modules here. `all` runs them one after another, `render` writes pages and
pictures of all results, and `loading.costs` measures what the rows of `loader` leave out.
"""

import importlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAMES = sorted({path.stem for path in HERE.glob("*.py")} - {"__main__", "render"})


def main(words: Sequence[str]) -> int:
    """Run the command line; return the exit status."""
    name, *arguments = words or ("--help",)
    if name == "all":
        commands = [[sys.executable, str(HERE), each, *arguments] for each in NAMES]
        statuses = [subprocess.run(command, check=False).returncode for command in commands]
        return int(any(statuses))  # that of a crash is below 0
    if name.startswith("-"):
        print(f"{__doc__}\nNames: {', '.join(NAMES)}")
        return 0
    module = importlib.import_module(f"bench.{name}")
    if name not in NAMES:
        status: int = module.main(arguments)
        return status
    from bench import harness

    return harness.main(name, module.__doc__ or "", module.all_cases(), arguments)


if __name__ == "__main__":
    # `bench` is a package, whose modules are no top-level ones; and tests have restated some peers.
    sys.path[0] = str(HERE.parent)
    sys.path.append(str(HERE.parents[1] / "tests"))
    sys.exit(main(sys.argv[1:]))
