"""Processes that are killed, and disks that are full.

Whatever happens, every input ends once, as in an undisturbed run.
"""

import errno
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("PIL")
pytest.importorskip("torchvision")
from visops.infer import StageError

from infer.crashes import (
    committed,
    die_at,
    finished,
    kill_group,
    limited_run,
    pipeline,
    process,
    slow_run,
    tree,
    whole_run,
)
from infer.networks import BATCH, make_images

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(sys.platform == "win32", reason="processes are forked and killed"),
]

KILLS = 20
PACE = 0.02  # seconds per batch in the network


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_images(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def expected(images: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The outputs of an undisturbed run."""
    out = tmp_path_factory.mktemp("expected")
    assert finished(process(whole_run, images, out, {})) == 0
    return tree(out)


@pytest.mark.parametrize("workers", [0, 2])
def test_killed_at_random_moments(
    images: Path, expected: dict[str, str], tmp_path: Path, workers: int
) -> None:
    """Kill and resume runs until enough have died; after a finished one, use a new folder."""
    draw = random.Random(workers)
    options = {"workers": workers}
    out, kills, longest = tmp_path / "0", 0, 0.0
    before: list[int] = []
    while kills < KILLS // 2:
        began = time.perf_counter()
        child = process(slow_run, images, out, options, PACE)
        while not (out / "plan.jsonl").exists() and child.is_alive():
            time.sleep(0.001)  # until here every run does the same
        # By now it leads its process group. A run of 12 batches takes about half a second.
        child.join(draw.uniform(0.0, max(0.3, longest / 2)))
        if child.exitcode is None:
            kill_group(child, alone=workers > 0 and kills % 2 == 0)
        if finished(child) == 0:
            longest = time.perf_counter() - began
            assert tree(out) == expected
            out, before = tmp_path / str(kills + 1), []
            continue
        assert child.exitcode == -9
        kills += 1
        after = committed(out)
        assert after[: len(before)] == before, "a commit is lost"
        assert len(set(after)) == len(after), "a batch is committed twice"
        before = after
    assert finished(process(whole_run, images, out, options)) == 0
    assert tree(out) == expected
    assert before == sorted(before)


@pytest.mark.parametrize("options", [{}, {"annotate": None, "masks": "png"}], ids=str)
def test_killed_at_every_step(tmp_path: Path, options: dict[str, Any]) -> None:
    """Die before each single operation of a run on the disk, and resume."""
    folder = make_images(tmp_path / "images", count=BATCH + 1)
    assert finished(process(whole_run, folder, tmp_path / "whole", options)) == 0
    whole = tree(tmp_path / "whole")
    folder_of_pictures = "masks" if "masks" in options else "annotated"
    assert any(name.startswith(folder_of_pictures) for name in whole)
    step = 0
    while True:
        step += 1
        out = tmp_path / f"step {step}"
        died = finished(process(die_at, folder, out, options, step))
        if died == 0:
            break
        assert died == -9
        assert finished(process(whole_run, folder, out, options)) == 0
        assert tree(out) == whole, f"after dying before step {step}"
        shutil.rmtree(out)
    assert step > 20
    assert tree(out) == whole


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_same_bytes_for_any_number_of_workers(
    images: Path, expected: dict[str, str], tmp_path: Path, workers: int
) -> None:
    assert finished(process(whole_run, images, tmp_path, {"workers": workers})) == 0
    assert tree(tmp_path) == expected


@pytest.mark.parametrize(
    ("file", "annotate"),
    [
        ("annotated/", "png"),
        ("manifest.jsonl", None),
        ("results.jsonl", None),
        ("plan.jsonl", None),
    ],
)
def test_files_reach_a_limit(images: Path, tmp_path: Path, file: str, annotate: str | None) -> None:
    """A limit on file sizes acts as a disk that is full at a chosen file."""
    options = {"annotate": annotate}
    whole, out, message = tmp_path / "whole", tmp_path / "out", tmp_path / "message"
    assert finished(process(whole_run, images, whole, options)) == 0
    sizes = {str(p.relative_to(whole)): p.stat().st_size for p in whole.rglob("*.*")}
    largest = max(size for name, size in sizes.items() if name.startswith(file))
    assert finished(process(limited_run, images, out, options, largest - 1, message)) == 3
    text = message.read_text()
    assert os.strerror(errno.EFBIG) in text, text
    assert str(out / file) in text, text
    if file in ("annotated/", "manifest.jsonl"):
        assert "stage write, batch " in text
        assert committed(out)
    assert finished(process(whole_run, images, out, options)) == 0
    assert tree(out) == tree(whole)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for only some of the outputs."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=160k", "tmpfs", str(disk)]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        pytest.skip(f"no mount: {error}")
    if done.returncode:
        pytest.skip(f"mount: {done.stderr.strip()}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_disk_full(
    images: Path, expected: dict[str, str], small_disk: Path, tmp_path: Path
) -> None:
    with pytest.raises((OSError, StageError), match=os.strerror(errno.ENOSPC)) as caught:
        pipeline(writer_threads=1).run(images, small_disk / "out")
    assert str(small_disk) in str(caught.value), "the file is not named"
    done = committed(small_disk / "out")
    assert done, "no batch fits on the disk"
    # Continue the run elsewhere, where there is room.
    shutil.copytree(small_disk / "out", tmp_path / "out")
    summary = pipeline().run(images, tmp_path / "out")
    assert 0 < summary.done < summary.counts.listed
    assert tree(tmp_path / "out") == expected
