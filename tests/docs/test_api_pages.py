"""Pages of the API name what there is: Sphinx, which also says so, is not run with the tests."""

import importlib
import re
from pathlib import Path

import pytest

API = Path(__file__).resolve().parents[2] / "docs" / "api"
DIRECTIVE = re.compile(
    r"^\.\. (currentmodule|automodule|autoclass|autofunction|autodata|autoattribute):: (\S+)"
    r"|^ +:members: *(.*)$",
    re.MULTILINE,
)


def found(name: str) -> object:
    """What a dotted name stands for: a module, or something in one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            value: object = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            value = getattr(value, part)
        return value
    raise AttributeError(name)


@pytest.mark.parametrize("page", sorted(API.rglob("*.md")), ids=lambda p: str(p.relative_to(API)))
def test_names_exist(page: Path) -> None:
    module, owner = "", ""
    for directive, name, members in DIRECTIVE.findall(page.read_text(encoding="utf-8")):
        if directive in ("currentmodule", "automodule"):
            module = owner = name
        elif directive:
            owner = name if name.startswith("visops.") else f"{module}.{name}"
        value = found(owner)
        for member in filter(None, re.split(r",\s*", members)):
            assert hasattr(value, member), f"{owner} has no {member}"
