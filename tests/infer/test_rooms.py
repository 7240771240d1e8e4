"""Rooms of `visops.infer`: each imports only from those before it."""

import ast
from pathlib import Path

import pytest
import visops.infer

ROOMS = ("store", "images", "models", "view", "engine", "cluster")
FOLDER = Path(visops.infer.__file__ or "").parent


def imported(path: Path) -> set[str]:
    """Return the rooms that a module in a room imports from."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 2 and node.module:
            found.add(node.module.partition(".")[0])
    return found & set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_import_from_rooms_before_them(room: str) -> None:
    allowed = set(ROOMS[: ROOMS.index(room)])
    for path in sorted((FOLDER / room).glob("*.py")):
        assert imported(path) <= allowed, path


def test_every_folder_is_a_room() -> None:
    folders = {path.parent.name for path in FOLDER.glob("*/*.py")}
    assert folders == set(ROOMS)
