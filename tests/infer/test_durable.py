"""Durable names: new folders are synced, and so are the folders of files."""

import os
from pathlib import Path
from typing import Any

import pytest
from visops import infer
from visops.infer import Preprocess
from visops.infer.store import durable
from visops.infer.store.durable import make_folders, sync_below

from infer.folders import Network, save


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the folders that are synced."""
    folders: list[str] = []
    sync = durable.sync_folder

    def listed(folder: str) -> None:
        folders.append(os.path.normpath(folder))
        sync(folder)

    monkeypatch.setattr(durable, "sync_folder", listed)
    return folders


def test_folders_in_between_are_synced_once(tmp_path: Path, synced: list[str]) -> None:
    for folder in ("a/b", "a/c", "d"):
        (tmp_path / folder).mkdir(parents=True)
    sync_below(str(tmp_path), ["a/b", "a/c", "d"])
    assert sorted(synced) == [str(tmp_path / name) for name in ("", "a", "a/b", "a/c", "d")]
    synced.clear()
    sync_below(str(tmp_path), [])
    assert not synced


@pytest.mark.parametrize("relative", [False, True])
def test_new_folders_are_synced_in_their_parents(
    tmp_path: Path, synced: list[str], monkeypatch: pytest.MonkeyPatch, relative: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    top = "" if relative else str(tmp_path)
    for _ in range(2):
        make_folders(os.path.join(top, "a", "b", "c"))
    assert sorted(synced) == [
        os.path.normpath(os.path.join(top, name)) for name in ("", "a", "a/b")
    ]
    assert (tmp_path / "a" / "b" / "c").is_dir()


def test_folders_of_pictures_are_synced(tmp_path: Path, synced: list[str]) -> None:
    save(tmp_path / "images" / "deep" / "er" / "0.png")
    options: dict[str, Any] = {"workers": 0, "preprocess": Preprocess((8, 8)), "annotate": "png"}
    infer.run(tmp_path / "images", tmp_path / "out", {"net": Network()}, **options)
    pictures = {str(tmp_path / "out" / name) for name in ("annotated", "annotated/deep")}
    assert {*pictures, str(tmp_path), str(tmp_path / "out")} <= set(synced)
