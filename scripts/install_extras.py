"""Install what extras of pyproject.toml name, without visops itself.

``pip install .[dev]`` would compile visops, which the Makefile does beside pip. Further arguments
go to pip: ``python scripts/install_extras.py dev --quiet``.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def requirements(*extras: str) -> list[str]:
    """Return the requirements of these extras, and of those that they refer to."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: dict[str, None] = {}  # a set in order
    waiting = list(extras)
    while waiting:
        extra = waiting.pop(0)
        for requirement in project["optional-dependencies"][extra]:
            own = re.fullmatch(rf"{project['name']}\[([\w, ]+)\]", requirement)
            if own:
                waiting += re.split(r"\s*,\s*", own[1])
            else:
                found.setdefault(requirement)
    return list(found)


def main() -> None:
    """Run pip."""
    extras = [word for word in sys.argv[1:] if re.fullmatch(r"[a-z]+", word)]
    options = [word for word in sys.argv[1:] if word not in extras]
    command = [sys.executable, "-m", "pip", "install", *options, *requirements(*extras)]
    raise SystemExit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    main()
