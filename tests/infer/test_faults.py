"""Files that can't be read, networks that raise, outputs that are torn.

Whatever happens, every input ends once, as in an undisturbed run.
"""

import io
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("PIL")
pytest.importorskip("torchvision")
from PIL import Image
from visops import infer
from visops.infer import Pipeline, StageError

from infer.crashes import (
    committed,
    pipeline,
    read,
    tree,
)
from infer.networks import BATCH, Small, make_images


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_images(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def expected(images: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The outputs of an undisturbed run."""
    out = tmp_path_factory.mktemp("expected")
    assert pipeline().run(images, out).exit_code == 0
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


def test_resuming_a_finished_run_does_nothing(images: Path, tmp_path: Path) -> None:
    run = pipeline()
    first = run.run(images, tmp_path)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "parts").iterdir()}
    again = run.run(images, tmp_path)
    assert first.done == first.counts.listed
    assert again.done == 0
    assert again.counts == first.counts
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "parts").iterdir()} == before


def test_torn_line_of_the_manifest(images: Path, expected: dict[str, str], tmp_path: Path) -> None:
    """What a machine's crash can leave: half a line, and damaged files."""
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


def png(mode: str = "RGB", **options: Any) -> bytes:
    file = io.BytesIO()
    Image.new(mode, (40, 30), **options).save(file, "PNG")
    return file.getvalue()


def scrambled(photo: bytes) -> bytes:
    """Replace the middle of the file by noise."""
    noise = random.Random(0).randbytes(len(photo) // 2)
    return photo[:100] + noise + photo[100 + len(noise) :]


def test_every_file_ends_once(photo: bytes, tmp_path: Path) -> None:
    folder, out = tmp_path / "images", tmp_path / "out"
    good = {
        "photo.jpg": photo,
        "same.jpg": photo,
        "b/same.jpg": photo,  # the same name in two folders
        "b/same.jpg.png": png(),
        "b/same.png": png(),
        "grey.png": png("L"),
        "palette.png": png("P"),
        "transparent.png": png("RGBA"),
        "sixteen bits.png": png("I;16"),
        "UPPER.JPG": photo,
        "ünïcödé/日本語.jpg": photo,
        "emoji 📷.jpg": photo,
        "cafe\u0301.jpg": photo,  # two names that look the same
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
    (folder / "scrambled.jpg").write_bytes(scrambled(photo))  # decoders may tolerate it
    (folder / "to nothing.jpg").symlink_to("nowhere")
    (folder / "to itself.jpg").symlink_to("to itself.jpg")
    (folder / "b" / "up").symlink_to("..")
    (folder / "c").symlink_to("d")
    (folder / "d").symlink_to("c")
    os.mkfifo(folder / "pipe.jpg")  # opening it would block
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
        assert "0x" not in found[name]["reason"], "an address differs in every run"
        assert str(tmp_path) not in found[name]["reason"]
    for name in (*other, "pipe.jpg"):
        assert found[name]["status"] == "skipped"
        assert found[name]["reason"]
    same = {json.dumps(found[name]["outputs"]) for name, data in good.items() if data is photo}
    assert len(same) <= 3, "one photo has more results than kinds of batches"

    counts = summary.counts
    assert counts.listed == len(records) == counts.ok + counts.failed + counts.skipped
    assert summary.exit_code == 0
    quarantine = [json.loads(line) for line in (out / "quarantine.jsonl").open()]
    failed = [record for record in records if record["status"] == "failed"]
    assert [(q["image"], q["reason"]) for q in quarantine] == [
        (record["image"], record["reason"]) for record in failed
    ]
    pictures = [p for p in out.rglob("*.png") if p.is_file()]
    assert len(pictures) == counts.ok, "a picture is missing, or was overwritten"


def test_files_without_read_permission(photo: bytes, tmp_path: Path) -> None:
    """Files and folders without read permission."""
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


def test_images_that_vanish_and_appear(photo: bytes, images: Path, tmp_path: Path) -> None:
    """Images vanish and appear between two runs: finished batches stay as they are."""
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


class Failing(Small):
    """Raises an error that is no image's fault, so that the run ends."""

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
    """Raises if an image of the batch is white."""

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
    """The network or its input is wrong, not the images: none of them fails."""

    class Broken(Small):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            raise ValueError(f"never: {tuple(batch.shape[1:])}")

    Broken.__module__, Broken.__qualname__ = Small.__module__, Small.__qualname__
    message = r"stage models, batch 0: RuntimeError: model small .*: never: \(3, 32, 32\)"
    with pytest.raises(StageError, match=message):
        pipeline(Broken()).run(images, tmp_path)
    assert committed(tmp_path) == []
    assert pipeline().run(images, tmp_path).exit_code == 0
    assert tree(tmp_path) == expected


def test_stage_raises(images: Path, expected: dict[str, str], tmp_path: Path) -> None:
    """Such an error ends the run and names the stage; the next run continues."""
    with pytest.raises(StageError, match="stage models, batch 5: SystemExit: the network gives up"):
        pipeline(Failing(after=5)).run(images, tmp_path)
    assert committed(tmp_path) == [0, 1, 2, 3, 4]
    assert not (tmp_path / "results.jsonl").exists()
    assert pipeline().run(images, tmp_path).exit_code == 0
    assert tree(tmp_path) == expected


class Mean(torch.nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.mean((2, 3))


def test_a_run_whose_images_all_fail_for_one_reason_raises(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(3):
        Image.new("RGB", (8, 8), (80 * number,) * 3).save(folder / f"{number}.png")
    options: dict[str, Any] = {"workers": 0, "max_pixels": 63}
    message = (
        r"visops.infer: all 3 images failed for one reason, as .*quarantine.jsonl says: 8 x 8 pix"
    )
    for _ in range(2):  # a run that has nothing left to do says it again
        with pytest.raises(RuntimeError, match=message):
            infer.run(folder, tmp_path / "out", {"net": Mean()}, **options)
    assert len((tmp_path / "out" / "results.jsonl").read_text().splitlines()) == 3
    (folder / "notes.txt").write_text("skipped")
    with pytest.raises(RuntimeError, match=message):
        infer.run(folder, tmp_path / "notes", {"net": Mean()}, **options)
    (folder / "3.png").write_bytes(b"no photo")
    assert infer.run(folder, tmp_path / "two", {"net": Mean()}, **options).counts.failed == 4
    for number in range(1, 4):
        (folder / f"{number}.png").unlink()
    assert infer.run(folder, tmp_path / "one", {"net": Mean()}, **options).counts.failed == 1


def test_weights_are_given_or_random() -> None:
    with pytest.raises(ValueError, match=r"weights is None for squeezenet1_1, must be a folder wi"):
        infer.run("images", "out", "squeezenet1_1")
    with pytest.raises(ValueError, match=r"weights is 'random', must be None where no model is"):
        infer.Pipeline({"net": Mean()}, weights="random")
    (model,) = infer.Pipeline("squeezenet1_1", weights="random", workers=0).models
    assert model.loaded == ("squeezenet1_1", "random", 0, None)


def test_a_preprocessing_of_another_kind_is_refused() -> None:
    theirs: Any = torch.nn.Identity()
    message = r"preprocess{} is a Identity, must be a visops.infer.Preprocess, one call"
    with pytest.raises(TypeError, match=message.format("")):
        infer.run("images", "out", {"net": Mean()}, preprocess=theirs)
    with pytest.raises(TypeError, match=message.format(" of model net")):
        infer.Model("net", Mean(), preprocess=theirs)
