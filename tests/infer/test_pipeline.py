"""Whole runs: the same bytes whatever happens, and every input accounted for."""

import dataclasses
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from visops import infer
from visops.infer import Counts, Job, Model, Options, Pipeline, Preprocess, StageError
from visops.infer.engine.pipeline import conclude

from infer.folders import (
    Detector,
    Network,
    Refusing,
    files,
    fill,
    needs_pyarrow,
    read_table,
    records,
    save,
)

OPTIONS: dict[str, Any] = {"batch_size": 4, "workers": 0, "preprocess": Preprocess((16, 16))}
COUNTS = Counts(listed=19, ok=13, failed=4, skipped=2)


def models() -> Any:
    return {"classes": Network(), "boxes": Model("boxes", Detector())}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return fill(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def reference(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("reference")
    summary = infer.run(folder, out, models(), **OPTIONS)
    assert summary.counts == COUNTS
    return out


def test_every_input_ends_once(folder: Path, reference: Path) -> None:
    found = records(reference)
    listed = [entry.path for entry in infer.list_images(folder)]
    assert list(found) == listed
    assert {name: r["reason"] for name, r in found.items() if r["status"] != "ok"} == {
        "README": "a name without a suffix",
        "deep/gone.png": "No such file or directory",
        "empty.jpg": "the file is empty",
        "half.jpg": found["half.jpg"]["reason"],
        "notes.txt": ".txt is no image's suffix",
        "text.jpg": "not an image of a known format",
    }
    quarantine = [
        json.loads(line) for line in (reference / "quarantine.jsonl").read_bytes().splitlines()
    ]
    assert [line["image"] for line in quarantine] == [
        name for name in listed if found[name]["status"] == "failed"
    ]


def test_outputs_equal_those_of_the_networks_alone(folder: Path, tmp_path: Path) -> None:
    infer.run(folder, tmp_path, models(), **OPTIONS, reduced=False)
    preprocess, network = OPTIONS["preprocess"], Network()
    decoder = infer.Decoder(str(folder))
    for name, record in records(tmp_path).items():
        if record["status"] != "ok":
            continue
        with Image.open(folder / name) as image:
            size = image.height, image.width
        pixels = decoder.image(name)[0].permute(2, 0, 1)
        resized = torch.nn.functional.interpolate(
            pixels[None].float() / 255, (16, 16), mode="bilinear", antialias=True
        )
        mean, std = (torch.tensor(v)[:, None, None] for v in (preprocess.mean, preprocess.std))
        scores = network((resized - mean) / std)[0].softmax(0)
        found = record["outputs"]["classes"]
        assert sorted(found["labels"]) == [0, 1, 2, 3]
        torch.testing.assert_close(
            torch.tensor(found["scores"]), scores[found["labels"]], atol=2e-5, rtol=0
        )
        for x1, y1, x2, y2 in record["outputs"]["boxes"]["boxes"]:
            assert 0 <= x1 <= x2 <= size[1]
            assert 0 <= y1 <= y2 <= size[0]


def test_a_signal_drains(folder: Path, reference: Path, tmp_path: Path) -> None:
    """The signal goes to this process; `test_command.py` sends it to others."""
    network, calls = Network(), []

    def signalled(batch: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return network(batch)

    boxes = Model("boxes", Detector())
    source = "infer.folders.Network"
    first = Pipeline([Model("classes", signalled, source=source), boxes], **OPTIONS, room=1)
    first.models[0].fingerprint = Model("classes", network).fingerprint  # type: ignore[method-assign]
    summary = first.run(folder, tmp_path)
    assert (summary.signal, summary.exit_code) == (signal.SIGTERM, 143)
    assert summary.counts.missing == summary.pending == 19 - summary.done
    assert len((tmp_path / "manifest.jsonl").read_bytes().splitlines()) >= 2
    Pipeline(models(), **OPTIONS).run(folder, tmp_path)
    assert files(tmp_path) == files(reference)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_number_of_workers_changes_no_byte(
    folder: Path, reference: Path, tmp_path: Path, workers: int
) -> None:
    options = OPTIONS | {"workers": workers, "room": 1, "prefetch": 1, "writer_threads": 1}
    infer.run(folder, tmp_path, models(), **options)
    assert files(tmp_path) == files(reference)


def test_a_finished_run_does_nothing_again(folder: Path, reference: Path) -> None:
    before = files(reference)
    summary = infer.run(folder, reference, models(), **OPTIONS)
    assert (summary.done, summary.counts, summary.exit_code) == (0, COUNTS, 0)
    assert files(reference) == before


@pytest.mark.parametrize("stop", range(5))
def test_committed_batches_are_not_done_again(
    folder: Path, reference: Path, tmp_path: Path, stop: int
) -> None:
    """Stop after `stop` batches, and add what a kill may leave behind."""
    pipeline = Pipeline(models(), **OPTIONS)
    with Job.open(folder, tmp_path, pipeline.models, pipeline.options) as job:
        done = job.process(job.pending()[:stop])
        summary = conclude(job, done, signal=15)
    assert summary.exit_code == 143
    assert summary.counts.missing == summary.pending > 0
    assert not (tmp_path / "results.jsonl").exists()
    (tmp_path / "parts" / "part-00000004.jsonl").write_text('{"torn')
    (tmp_path / "parts" / "0123456789abcdef.tmp").write_text("left")
    with open(tmp_path / "manifest.jsonl", "ab") as file:
        file.write(b'{"batch": 4, "par')
    summary = pipeline.run(folder, tmp_path)
    assert summary.counts == COUNTS
    assert summary.done == 19 - sum(len(batch.entries) for batch in job.plan.batches[:stop])
    assert files(tmp_path) == files(reference)


def test_missing_parts_are_made_again_and_damaged_ones_are_named(
    folder: Path, reference: Path, tmp_path: Path
) -> None:
    infer.run(folder, tmp_path, models(), **OPTIONS)
    part = tmp_path / "parts" / "part-00000001.jsonl"
    whole = part.read_bytes()
    part.write_bytes(whole.replace(b"ok", b"OK", 1))
    with pytest.raises(RuntimeError, match=r"part-00000001.jsonl has changed since it was written"):
        infer.run(folder, tmp_path, models(), **OPTIONS)
    part.unlink()
    assert infer.run(folder, tmp_path, models(), **OPTIONS).counts == COUNTS
    assert files(tmp_path) == files(reference)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"batch_size": 5}, "batch_size is 5"),
        ({"preprocess": Preprocess((8, 8))}, "preprocess is "),
        ({"channels_last": True}, "channels_last is True"),
        ({"reduced": False}, "reduced is False"),
        ({"annotate": "png"}, "annotate is png"),
    ],
)
def test_other_options_are_refused(folder: Path, reference: Path, changes: Any, named: str) -> None:
    with pytest.raises(ValueError, match=f"visops.infer: {named}.*the outputs in"):
        infer.run(folder, reference, models(), **(OPTIONS | changes))


def test_other_networks_are_refused(folder: Path, reference: Path) -> None:
    other = models() | {"classes": Network(1)}
    with pytest.raises(ValueError, match="models is classes=weights="):
        infer.run(folder, reference, other, **OPTIONS)


@needs_pyarrow
def test_new_images_come_after_old_ones_and_gone_ones_fail(tmp_path: Path) -> None:
    images, out = tmp_path / "images", tmp_path / "out"
    for i in range(6):
        save(images / f"{i}.png", i)
    pipeline = Pipeline({"net": Network()}, **OPTIONS)
    with Job.open(images, out, pipeline.models, pipeline.options) as job:
        conclude(job, job.process(job.pending()[:1]))
    os.remove(images / "0.png")  # done already
    os.remove(images / "5.png")
    save(images / "00.png", 9)
    summary = pipeline.run(images, out)
    assert summary.counts == Counts(listed=7, ok=6, failed=1)
    Pipeline({"net": Network()}, **OPTIONS, format="parquet").run(images, out)
    save(images / "6.png")
    pipeline.run(images, out)
    # Both files of results are brought up to date.
    assert len(read_table(out / "results.parquet")) == len(records(out)) == 8
    os.remove(images / "6.png")
    found = records(out)
    assert list(found) == [*(f"{i}.png" for i in range(6)), "00.png", "6.png"]
    assert found["5.png"] == {
        "image": "5.png",
        "status": "failed",
        "reason": "No such file or directory",
    }
    assert found["0.png"]["status"] == "ok"


def test_a_failing_network_fails_its_image_only(tmp_path: Path) -> None:
    images = tmp_path / "images"
    for i in range(6):
        save(images / f"{i}.png", i)
    Image.new("RGB", (30, 20), "white").save(images / "3.png")
    preprocess = Preprocess((8, 8), mean=None, std=None)
    both = {"net": Network(), "refusing": Refusing()}
    summary = infer.run(images, tmp_path / "out", both, **(OPTIONS | {"preprocess": preprocess}))
    assert summary.counts == Counts(listed=6, ok=5, failed=1)
    assert (summary.retried, summary.exit_code) == (1, 0)
    found = records(tmp_path / "out")
    assert found["3.png"] == {
        "image": "3.png",
        "status": "failed",
        "reason": "model refusing: ArithmeticError: too bright",
    }
    assert sorted(found["2.png"]["outputs"]) == ["net", "refusing"]


def test_placements_belong_to_the_remaining_images(tmp_path: Path) -> None:
    for i in range(4):
        save(tmp_path / "images" / f"{i}.png", i, 20, 30 + i)
    Image.new("RGB", (31, 20), "white").save(tmp_path / "images" / "1.png")

    def widths(output: Any, placements: Any) -> Any:
        return [{"width": placement.full_width} for placement in placements]

    model = Model("net", Refusing(), Preprocess((8, 8), mean=None, std=None), widths)
    infer.run(tmp_path / "images", tmp_path / "out", [model], **OPTIONS)
    found = records(tmp_path / "out")
    assert found.pop("1.png")["status"] == "failed"
    assert [r["outputs"]["net"]["width"] for r in found.values()] == [30, 32, 33]


def test_an_error_in_a_stage_names_it_and_keeps_what_is_done(tmp_path: Path) -> None:
    images, out = tmp_path / "images", tmp_path / "out"
    for i in range(12):
        save(images / f"{i:02d}.png", i)
    calls = []

    def postprocess(output: Any, placements: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise ZeroDivisionError("oops")
        return [{} for _ in placements]

    model = Model("net", Network(), postprocess=postprocess)
    message = "stage postprocess, batch 2: .*postprocess of model net: ZeroDivisionError: oops"
    with pytest.raises(StageError, match=message):
        infer.run(images, out, [model], **OPTIONS)
    assert len((out / "manifest.jsonl").read_bytes().splitlines()) == 2
    assert infer.run(images, out, [model], **OPTIONS).counts == Counts(listed=12, ok=12)

    def too_few(output: Any, placements: Any) -> Any:
        return []

    model = Model("net", Network(), postprocess=too_few)
    with pytest.raises(StageError, match="postprocess of model net returned 0 results for 4 im"):
        infer.run(images, tmp_path / "two", [model], **OPTIONS)


@needs_pyarrow
def test_parquet_and_back(folder: Path, reference: Path, tmp_path: Path) -> None:
    infer.run(folder, tmp_path, models(), **OPTIONS, format="parquet")
    rows = read_table(tmp_path / "results.parquet").to_pylist()
    found = records(reference)
    assert [row["image"] for row in rows] == list(found)
    for row in rows:
        assert {k: v for k, v in row.items() if v is not None} == found[row["image"]]
    infer.run(folder, tmp_path, models(), **OPTIONS)
    assert (tmp_path / "results.jsonl").read_bytes() == (reference / "results.jsonl").read_bytes()


@pytest.mark.parametrize("kind", ["jpeg", "png"])
def test_annotated_images(folder: Path, tmp_path: Path, kind: str) -> None:
    options = OPTIONS | {"annotate": kind}
    infer.run(folder, tmp_path / "a", models(), **options)
    infer.run(folder, tmp_path / "b", models(), **(options | {"workers": 2}))
    assert files(tmp_path / "a") == files(tmp_path / "b")
    found = records(tmp_path / "a")
    suffix = ".png" if kind == "png" else ".jpg"
    pictures = {name for name in files(tmp_path / "a") if name.startswith("annotated/")}
    done = [name for name, record in found.items() if record["status"] == "ok"]
    assert pictures == {f"annotated/{name}{suffix}" for name in done}
    for name in done:
        with (
            Image.open(folder / name) as image,
            Image.open(tmp_path / "a" / "annotated" / (name + suffix)) as picture,
        ):
            assert picture.size == image.size
            assert picture.format == kind.upper()
            assert picture.convert("RGB").tobytes() != image.convert("RGB").tobytes()


@needs_pyarrow
def test_names_of_all_kinds(tmp_path: Path) -> None:
    images, out = tmp_path / "images", tmp_path / "out"
    odd = [b"\xff\xfe.png", "日本\n\"'.png".encode(), b"a" * 251 + b".png", b"same.png"]
    save(images / "same.png")
    save(images / "deep" / "same.png", 1)
    data = (images / "same.png").read_bytes()
    for name in odd:
        with open(os.path.join(os.fsencode(images), name), "wb") as file:
            file.write(data)
    summary = infer.run(images, out, {"net": Network()}, **OPTIONS, annotate="jpeg")
    assert summary.counts == Counts(listed=5, ok=5)
    assert {os.fsencode(name) for name in records(out)} == {*odd, b"deep/same.png"}
    assert sum(len(found) for _, _, found in os.walk(out / "annotated")) == 5
    infer.run(images, out, {"net": Network()}, **OPTIONS, annotate="jpeg", format="parquet")
    names = read_table(out / "results.parquet")["image"].to_pylist()
    assert "\\xff\\xfe.png" in names


def test_no_images(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    summary = infer.run(tmp_path / "images", tmp_path / "out", {"net": Network()}, **OPTIONS)
    assert (summary.counts, summary.exit_code) == (Counts(), 0)
    assert records(tmp_path / "out") == {}


def test_a_dry_run_writes_nothing(folder: Path, tmp_path: Path) -> None:
    summary = Pipeline(models(), **OPTIONS).dry_run(folder, tmp_path / "out")
    assert summary.counts.listed == summary.pending == 19
    assert not (tmp_path / "out").exists()


def test_each_model_may_have_its_own_input(folder: Path, tmp_path: Path) -> None:
    own = Model("small", Network(), Preprocess((8, 8), "letterbox"))
    sizes = []

    def keep(batch: torch.Tensor) -> torch.Tensor:
        sizes.append(tuple(batch.shape[2:]))
        return batch.mean((2, 3))

    seen = Model("size", keep)
    infer.run(folder, tmp_path, [own, seen, Model("third", Network())], **OPTIONS)
    assert set(sizes) == {(16, 16)}
    outputs = records(tmp_path)["01.jpg"]["outputs"]
    assert list(outputs) == ["size", "small", "third"]
    assert outputs["small"] != outputs["third"]


def test_a_profile_has_all_threads_from_the_beginning(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = torch.profiler.profile.start

    def slow_start(self: Any) -> None:
        time.sleep(1)  # longer than these networks take for all images
        start(self)

    monkeypatch.setattr(torch.profiler.profile, "start", slow_start)
    Pipeline({"net": Network()}, **OPTIONS).run(folder, tmp_path, profile=True)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {event["name"] for event in events}
    assert "aten::mean" in names  # from the stage "models"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0, must be at least 1"),
        ({"workers": -1}, "workers is -1, must be at least 0"),
        ({"format": "csv"}, "format is 'csv', must be one of"),
        ({"annotate": "gif"}, "annotate is 'gif', must be one of"),
        ({"autocast": "int8"}, "autocast is 'int8', must be one of"),
        ({"device": "meta"}, "device is 'meta', must be 'cpu' or 'cuda'"),
        ({"device": "gpu"}, "device is 'gpu', must be 'cpu' or 'cuda'"),
        ({"annotate": "png", "reduced": True}, "reduced is True, but regions and annotations need"),
    ],
)
def test_bad_options(tmp_path: Path, changes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"visops.infer: {message}"):
        infer.run(tmp_path, tmp_path / "out", {"net": Network()}, **changes)


def test_models_have_different_names(tmp_path: Path) -> None:
    twice = [Model("net", Network()), Model("net", Network(1))]
    with pytest.raises(ValueError, match="names must differ"):
        infer.run(tmp_path, tmp_path / "out", twice)


def test_autocast_and_channels_last(folder: Path, tmp_path: Path) -> None:
    seen = []

    class Seen(Network):
        def forward(self, batch: Any) -> Any:
            product = batch.flatten(1) @ torch.ones(16 * 16 * 3, 1)
            seen.append((product.dtype, batch.is_contiguous(memory_format=torch.channels_last)))
            return super().forward(batch)

    options = OPTIONS | {"autocast": "bfloat16", "channels_last": True}
    infer.run(folder, tmp_path, {"net": Seen()}, **options)
    assert set(seen) == {(torch.bfloat16, True)}


def test_results_depend_on_all_options_but_the_neutral_ones() -> None:
    neutral = {"workers", "format", "writer_threads", "room", "prefetch"}
    names = {field.name for field in dataclasses.fields(Options)}
    assert set(Options().results_depend_on()) == names - neutral


@pytest.mark.cuda
def test_cuda_finds_what_the_cpu_finds(folder: Path, tmp_path: Path) -> None:
    class OnDevice(Detector):
        def forward(self, batch: torch.Tensor) -> dict[str, torch.Tensor]:
            found = super().forward(batch.cpu())
            return {key: value.to(batch.device) for key, value in found.items()}

    both = {"classes": Network(), "boxes": OnDevice()}
    # Pictures to draw on are decoded whole, so the CPU draws, too.
    options = OPTIONS | {"annotate": "png"}
    here, there = tmp_path / "cpu", tmp_path / "cuda"
    infer.run(folder, here, both, **options)
    before = records(here)
    found = infer.run(folder, there, both, **options, device="cuda")
    assert found.counts == COUNTS
    for name, record in records(there).items():
        assert record["status"] == before[name]["status"]
        for model, found in record.get("outputs", {}).items():
            wanted = before[name]["outputs"][model]
            assert found["labels"] == wanted["labels"]
            torch.testing.assert_close(
                torch.tensor(found["scores"]), torch.tensor(wanted["scores"]), atol=1e-5, rtol=0
            )
