"""Runs of `visops.infer` that are killed, images that can't be read, disks that are full.

Whatever happens, every input ends once, as it would have in a run that nothing happened to.
"""

from __future__ import annotations

import errno
import io
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("PIL")
pytest.importorskip("torchvision")

from PIL import Image
from visops.infer import Pipeline, StageError

from infer.crashes import (
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
from infer.networks import BATCH, Small, make_images

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="processes are forked and killed"),
]

KILLS = 20
PACE = 0.02  # seconds that a batch takes the network


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_images(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def expected(images: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The outputs of a run that nothing happens to."""
    out = tmp_path_factory.mktemp("expected")
    assert finished(process(whole_run, images, out, {})) == 0
    found = tree(out)
    records = read(out)
    assert len(records) == sum(1 for path in images.rglob("*") if path.is_file())
    statuses = [record["status"] for record in records]
    assert {status: statuses.count(status) for status in set(statuses)} == {
        "ok": len(records) - 2,
        "failed": 1,
        "skipped": 1,
    }
    assert sum(name.endswith(".jpg.png") for name in found) > 10, "no pictures"
    return found


@pytest.fixture
def photo(tmp_path: Path) -> bytes:
    """A JPEG file."""
    file = io.BytesIO()
    ramp = np.linspace(0, 255, 80 * 100 * 3).reshape(80, 100, 3).astype(np.uint8)
    Image.fromarray(ramp).save(file, "JPEG", quality=90)
    return file.getvalue()


def read(out: Path) -> list[dict[str, Any]]:
    lines = (out / "results.jsonl").read_bytes().splitlines()
    return [json.loads(line) for line in lines]


def committed(out: Path) -> list[int]:
    """Batches in the manifest, whose files have to be there."""
    try:
        lines = (out / "manifest.jsonl").read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    found = [json.loads(line) for line in lines]
    for line in found:
        records = (out / line["part"]).read_bytes().splitlines()
        assert len(records) == line["ok"] + line["failed"] + line["skipped"]
    return [line["batch"] for line in found]


@pytest.mark.parametrize("workers", [0, 2])
def test_killed_at_random_moments(
    images: Path, expected: dict[str, str], tmp_path: Path, workers: int
) -> None:
    """Kill runs until enough have died, resuming each; whole ones begin again in a new folder."""
    draw = random.Random(workers)
    options = {"workers": workers}
    out, kills, longest = tmp_path / "0", 0, 0.0
    before: list[int] = []
    while kills < KILLS // 2:
        began = time.perf_counter()
        child = process(slow_run, images, out, options, PACE)
        while not (out / "plan.jsonl").exists() and child.is_alive():
            time.sleep(0.001)  # what comes before that is the same in every run: starting
        # By now it is its group's leader. A run of 12 batches lasts half a second or so.
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


def test_killed_at_every_step(tmp_path: Path) -> None:
    """Die before each single thing that a run does to the disk, and resume."""
    folder = make_images(tmp_path / "images", count=BATCH + 1)
    assert finished(process(whole_run, folder, tmp_path / "whole", {})) == 0
    whole = tree(tmp_path / "whole")
    step = 0
    while True:
        step += 1
        out = tmp_path / f"step {step}"
        died = finished(process(die_at, folder, out, step))
        if died == 0:
            break
        assert died == -9
        assert finished(process(whole_run, folder, out, {})) == 0
        assert tree(out) == whole, f"after dying before step {step}"
        shutil.rmtree(out)
    assert step > 20
    assert tree(out) == whole


def test_resumed_a_whole_run_does_nothing(images: Path, tmp_path: Path) -> None:
    run = pipeline()
    first = run.run(images, tmp_path)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "parts").iterdir()}
    again = run.run(images, tmp_path)
    assert first.done == first.counts.listed
    assert again.done == 0
    assert again.counts == first.counts
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "parts").iterdir()} == before


def test_torn_line_of_the_manifest(images: Path, expected: dict[str, str], tmp_path: Path) -> None:
    """What a crash of the machine can leave: half a line, and files of no batch."""
    pipeline().run(images, tmp_path)
    manifest = tmp_path / "manifest.jsonl"
    lines = manifest.read_bytes().splitlines(keepends=True)
    manifest.write_bytes(b"".join(lines[:3]) + lines[3][: len(lines[3]) // 2])
    (tmp_path / "parts" / "part-00000005.jsonl").write_bytes(b"{half of a rec")
    (tmp_path / "results.jsonl").unlink()
    assert pipeline().run(images, tmp_path).done == sum(
        json.loads(line)["ok"] + json.loads(line)["failed"] + json.loads(line)["skipped"]
        for line in lines[3:]
    )
    assert tree(tmp_path) == expected


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_same_bytes_for_any_number_of_workers(
    images: Path, expected: dict[str, str], tmp_path: Path, workers: int
) -> None:
    assert finished(process(whole_run, images, tmp_path, {"workers": workers})) == 0
    assert tree(tmp_path) == expected


# Files that can't be read


def png(mode: str = "RGB", **options: Any) -> bytes:
    file = io.BytesIO()
    Image.new(mode, (40, 30), **options).save(file, "PNG")
    return file.getvalue()


def scrambled(photo: bytes) -> bytes:
    """The head of the file is whole, and so is its end."""
    noise = random.Random(0).randbytes(len(photo) // 2)
    return photo[:100] + noise + photo[100 + len(noise) :]


def test_every_file_ends_once(photo: bytes, tmp_path: Path) -> None:
    folder, out = tmp_path / "images", tmp_path / "out"
    good = {
        "photo.jpg": photo,
        "same.jpg": photo,
        "b/same.jpg": photo,  # one name in two folders
        "b/same.jpg.png": png(),
        "b/same.png": png(),
        "grey.png": png("L"),
        "palette.png": png("P"),
        "transparent.png": png("RGBA"),
        "sixteen bits.png": png("I;16"),
        "UPPER.JPG": photo,
        "ünïcödé/日本語.jpg": photo,
        "emoji 📷.jpg": photo,
        "cafe\u0301.jpg": photo,  # two names to everybody but people
        "caf\u00e9.jpg": photo,
        'quote".jpg': photo,
        "new\nline.jpg": photo,
        "tab\tand \\.jpg": photo,
        " .jpg": photo,
        "%s{0}$HOME.jpg": photo,
        "-rf.jpg": photo,
        os.fsdecode(b"\xff\xfe not utf-8.jpg"): photo,
        "n" * 251 + ".jpg": photo,
    }
    bad = {
        "empty.jpg": b"",
        "truncated.jpg": photo[: len(photo) // 2],
        "head.jpg": photo[:20],
        "text.jpg": b"<html>not found</html>",
        "truncated.png": png()[:60],
        "a film.gif": b"GIF89a",
        "zeros.jpeg": bytes(1000),
    }
    other = {"notes.txt": b"", "no suffix": photo, "photo.jpg.part": photo, ".hidden": b""}
    for name, data in {**good, **bad, **other}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (folder / "scrambled.jpg").write_bytes(scrambled(photo))  # decoders may make the best of it
    (folder / "to nothing.jpg").symlink_to("nowhere")
    (folder / "to itself.jpg").symlink_to("to itself.jpg")
    (folder / "b" / "up").symlink_to("..")
    (folder / "c").symlink_to("d")
    (folder / "d").symlink_to("c")
    os.mkfifo(folder / "pipe.jpg")  # to open it would be to wait
    (folder / "folder.jpg").mkdir()
    (folder / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "photo.jpg").write_bytes(photo)
    (tmp_path / "elsewhere" / "back").symlink_to(folder)
    good["linked/photo.jpg"] = photo

    summary = pipeline().run(folder, out)

    records = read(out)
    names = [record["image"] for record in records]
    assert names == sorted(names, key=os.fsencode)
    assert len(set(names)) == len(names)
    found = {record["image"]: record for record in records}
    links = {"to nothing.jpg", "to itself.jpg", "c", "d"}
    assert set(found) == {*good, *bad, *other, "pipe.jpg", "scrambled.jpg", *links}
    for name in good:
        assert found[name]["status"] == "ok", found[name]
        assert found[name]["outputs"]["small"]["labels"]
    for name in (*bad, "to nothing.jpg", "to itself.jpg"):
        assert found[name]["status"] == "failed", name
        assert found[name]["reason"]
        assert "0x" not in found[name]["reason"], "an address is another one in every run"
        assert str(tmp_path) not in found[name]["reason"]
    for name in (*other, "pipe.jpg"):
        assert found[name]["status"] == "skipped"
        assert found[name]["reason"]
    same = {json.dumps(found[name]["outputs"]) for name, data in good.items() if data is photo}
    assert len(same) <= 3, "more results of one photo than kinds of batches"

    counts = summary.counts
    assert counts.listed == len(records) == counts.ok + counts.failed + counts.skipped
    assert summary.exit_code == 0
    quarantine = [json.loads(line) for line in (out / "quarantine.jsonl").open()]
    failed = [record for record in records if record["status"] == "failed"]
    assert [(q["image"], q["reason"]) for q in quarantine] == [
        (record["image"], record["reason"]) for record in failed
    ]
    pictures = [p for p in out.rglob("*.png") if p.is_file()]
    assert len(pictures) == counts.ok, "a picture is missing, or another one's was overwritten"


def test_unreadable(photo: bytes, tmp_path: Path) -> None:
    """Files, and folders, whose permissions are missing."""
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    folder = tmp_path / "images"
    for name in ("closed.jpg", "open.jpg", "closed/photo.jpg"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(photo)
    (folder / "closed.jpg").chmod(0)
    (folder / "closed").chmod(0)
    try:
        pipeline().run(folder, tmp_path / "out")
    finally:
        (folder / "closed").chmod(0o700)
    found = {record["image"]: record["status"] for record in read(tmp_path / "out")}
    assert found == {"closed": "failed", "closed.jpg": "failed", "open.jpg": "ok"}


def test_vanished_and_new(photo: bytes, images: Path, tmp_path: Path) -> None:
    """Between two runs an image goes, and others come: what is done stays as it is."""
    folder, out = tmp_path / "images", tmp_path / "out"
    shutil.copytree(images, folder)
    with pytest.raises(StageError):
        pipeline(Failing(after=5)).run(folder, out)
    done = committed(out)
    assert done
    plan = [json.loads(line) for line in (out / "plan.jsonl").open()][1:]
    vanished = next(name for name in plan[-1]["inputs"] if isinstance(name, str))
    (folder / vanished).unlink()
    (folder / "0" / "000 new.jpg").write_bytes(photo)
    summary = pipeline().run(folder, out)
    found = {record["image"]: record for record in read(out)}
    assert found[vanished]["status"] == "failed"
    assert found["0/000 new.jpg"]["status"] == "ok"
    assert len(found) == summary.counts.listed
    assert committed(out)[: len(done)] == done


# Networks that raise


class Failing(Small):
    """Raises where the run can't go on: in what is no image's fault."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after = after

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        self.after -= 1
        if self.after < 0:
            raise SystemExit("the network gives up")
        return super().forward(batch)


Failing.__module__, Failing.__qualname__ = Small.__module__, Small.__qualname__


class Allergic(Small):
    """Raises if an image of its batch is white."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        self.sizes.append(len(batch))
        if (batch.amin((1, 2, 3)) > 2).any():  # normalised white is 2.2 or more
            raise ValueError("too bright to look at")
        return super().forward(batch)


def test_network_raises_on_one_image(images: Path, tmp_path: Path) -> None:
    folder = tmp_path / "images"
    shutil.copytree(images, folder)
    white = io.BytesIO()
    Image.new("RGB", (40, 30), "white").save(white, "PNG")
    (folder / "1" / "013 white.png").write_bytes(white.getvalue())
    healthy, sick = tmp_path / "healthy", tmp_path / "sick"
    pipeline(annotate=None).run(folder, healthy)
    network = Allergic()
    summary = Pipeline({"small": network}, pipeline(annotate=None).options).run(folder, sick)
    assert network.sizes.count(1) >= BATCH, "not retried one by one"
    assert summary.retried == 1
    before, after = ({r["image"]: r for r in read(out)} for out in (healthy, sick))
    culprit = after.pop("1/013 white.png")
    assert culprit == {
        "image": "1/013 white.png",
        "status": "failed",
        "reason": "model small: ValueError: too bright to look at",
    }
    del before["1/013 white.png"]
    assert {name: r["status"] for name, r in before.items()} == {
        name: r["status"] for name, r in after.items()
    }
    for name, record in before.items():
        if record["status"] == "ok":
            ours, theirs = (r["outputs"]["small"] for r in (record, after[name]))
            assert ours["labels"] == theirs["labels"]
            np.testing.assert_allclose(ours["scores"], theirs["scores"], rtol=1e-5)


def test_network_raises_on_all(images: Path, expected: dict[str, str], tmp_path: Path) -> None:
    """The network is wrong, or its input is; the images aren't, and none of them is given up."""

    class Broken(Small):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            raise ValueError(f"never: {tuple(batch.shape[1:])}")

    Broken.__module__, Broken.__qualname__ = Small.__module__, Small.__qualname__
    message = r"stage models, batch 0: RuntimeError: model small .*: never: \(3, 32, 32\)"
    with pytest.raises(StageError, match=message):
        pipeline(Broken()).run(images, tmp_path)
    assert committed(tmp_path) == []
    assert finished(process(whole_run, images, tmp_path, {})) == 0
    assert tree(tmp_path) == expected


def test_stage_raises(images: Path, expected: dict[str, str], tmp_path: Path) -> None:
    """What is no image's fault stops the run, with the stage named; the next one goes on."""
    with pytest.raises(StageError, match="stage models, batch 5: SystemExit: the network gives up"):
        pipeline(Failing(after=5)).run(images, tmp_path)
    assert committed(tmp_path) == [0, 1, 2, 3, 4]
    assert not (tmp_path / "results.jsonl").exists()
    assert finished(process(whole_run, images, tmp_path, {})) == 0
    assert tree(tmp_path) == expected


# Disks that are full


@pytest.mark.parametrize(
    ("place", "annotate"),
    [
        ("annotated/", "png"),
        ("manifest.jsonl", None),
        ("results.jsonl", None),
        ("plan.jsonl", None),
    ],
)
def test_files_reach_a_limit(
    images: Path, tmp_path: Path, place: str, annotate: str | None
) -> None:
    """A limit on the size of files is a disk that is full just where a test wants it."""
    options = {"annotate": annotate}
    whole, out, message = tmp_path / "whole", tmp_path / "out", tmp_path / "message"
    assert finished(process(whole_run, images, whole, options)) == 0
    sizes = {str(p.relative_to(whole)): p.stat().st_size for p in whole.rglob("*.*")}
    largest = max(size for name, size in sizes.items() if name.startswith(place))
    assert finished(process(limited_run, images, out, options, largest - 1, message)) == 3
    text = message.read_text()
    assert os.strerror(errno.EFBIG) in text, text
    assert str(out / place) in text, text
    if place in ("annotated/", "manifest.jsonl"):
        assert "stage write, batch " in text
        assert committed(out)
    assert finished(process(whole_run, images, out, options)) == 0
    assert tree(out) == tree(whole)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system that holds some of the outputs."""
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
    assert done, "the disk holds no batch"
    # There is room elsewhere: what is done goes there, and the run goes on.
    shutil.copytree(small_disk / "out", tmp_path / "out")
    summary = pipeline().run(images, tmp_path / "out")
    assert 0 < summary.done < summary.counts.listed
    assert tree(tmp_path / "out") == expected
