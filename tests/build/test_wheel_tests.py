"""`make test-wheel` takes the wheel of each Python and runs tests where there is no checkout."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

wheels = pytest.importorskip("wheels", reason="zopfli is missing")

TESTS = Path(__file__).resolve().parents[1]
SCRIPTS = {path.stem for path in (TESTS.parent / "scripts").iterdir()}


def imported(file: Path) -> Iterator[str]:
    """Modules that a file imports, without their parents' other modules."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def file_of(module: str) -> Path | None:
    """A file of the tests, by the name that tests import it by."""
    path = TESTS / module.replace(".", "/")
    found = [file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()]
    return found[0] if found else None


def needed(files: list[Path]) -> Iterator[tuple[Path, str]]:
    """Every import of these files and of the tests' own modules that they use."""
    seen: set[Path] = set()
    while files:
        file = files.pop()
        if file in seen:
            continue
        seen.add(file)
        for module in imported(file):
            yield file, module
            files += [found] if (found := file_of(module)) else []


def test_tests_of_wheels_import_no_script() -> None:
    parts = [TESTS / part for part in wheels.TESTS]
    assert all(part.exists() for part in parts)
    files = [file for part in parts for file in ([part] if part.is_file() else part.rglob("*.py"))]
    uses = [
        f"{file.relative_to(TESTS)} imports {module}"
        for file, module in needed([TESTS / "conftest.py", *files])
        if module.split(".")[0] in SCRIPTS
    ]
    assert not uses


@pytest.mark.parametrize(
    ("names", "taken"),
    [
        (["py3-none"], {"3.11": "py3-none", "3.14t": "py3-none"}),
        (["cp311-cp311", "cp314-cp314t"], {"3.11": "cp311-cp311", "3.14t": "cp314-cp314t"}),
    ],
)
def test_wheel_of_a_python(
    names: list[str], taken: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "DIST", tmp_path)
    for name in names:
        (tmp_path / f"visops-0.1.0-{name}-manylinux_2_34_x86_64.whl").touch()
    for version, name in taken.items():
        assert f"-{name}-" in wheels.built_wheel(version).name


def test_a_python_without_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "DIST", tmp_path)
    (tmp_path / "visops-0.1.0-cp314-cp314t-manylinux_2_34_x86_64.whl").touch()
    with pytest.raises(SystemExit, match=r"0 wheels for Python 3\.14; run"):
        wheels.built_wheel("3.14")
