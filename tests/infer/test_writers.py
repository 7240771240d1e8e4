"""What is durable on the disk when a batch's line goes into the manifest."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from visops import infer
from visops.infer import Entry
from visops.infer.batch import Batch, Picture
from visops.infer.engine.writers import write_batch
from visops.infer.frames import Frame
from visops.infer.store import durable
from visops.infer.store.plan import PlannedBatch

from infer.folders import Network, save


def batch(*pictures: str) -> Any:
    entries = (Entry("a.png"), Entry("b.png"), Entry("c.txt", "skipped", "no"))
    pixels = torch.zeros(3, 4, 5, dtype=torch.uint8)
    return Batch(
        PlannedBatch(7, entries, "digest"),
        frames=[Frame(0, 0, 4, 5, 4, 5)],
        failures={1: "broken"},
        results={"net": [{"x": 1}]},
        pictures=[Picture(path, pixels) for path in pictures],
    )


def test_commits_hold_the_digest_of_their_plan(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    commit = write_batch(str(tmp_path), batch())
    assert (commit.batch, commit.ok, commit.failed, commit.skipped) == (7, 1, 1, 1)
    assert commit.plan == "digest"
    assert commit.size == (tmp_path / commit.part).stat().st_size


def test_batches_of_another_plan_are_done_again(tmp_path: Path) -> None:
    """This holds even if plan.jsonl, which would refuse other options, is gone."""
    for i in range(5):
        save(tmp_path / "images" / f"{i}.png", i)
    options: dict[str, Any] = {"workers": 0, "batch_size": 2}
    results = []
    for seed in (0, 1):
        infer.run(tmp_path / "images", tmp_path / "out", {"net": Network(seed)}, **options)
        results.append((tmp_path / "out" / "results.jsonl").read_bytes())
        (tmp_path / "out" / "plan.jsonl").unlink()
    alone = tmp_path / "alone"
    infer.run(tmp_path / "images", alone, {"net": Network(1)}, **options)
    assert results[1] == (alone / "results.jsonl").read_bytes() != results[0]


def test_folders_made_for_pictures_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So are the folders above: a synced folder is lost if its own name is not durable."""
    (tmp_path / "parts").mkdir()
    synced: list[str] = []
    monkeypatch.setattr(
        durable, "sync_folder", lambda folder: synced.append(os.path.relpath(folder, tmp_path))
    )
    write_batch(
        str(tmp_path), batch("annotated/a/b/x.png", "annotated/a/b/y.png", "pictures/z.jpg")
    )
    before_the_part = synced[: synced.index("parts")]
    assert sorted(before_the_part) == [".", "annotated", "annotated/a", "annotated/a/b", "pictures"]
