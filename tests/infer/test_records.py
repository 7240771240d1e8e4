"""What becomes of outputs: classes, raw tensors, JSON, Parquet, masks as label maps."""

import json
import math
import os
import pickle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet
import pytest
import torch
import visops
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from references.rle import counts_of
from visops import infer
from visops.infer import (
    Auto,
    Classification,
    Detection,
    Entry,
    Model,
    Preprocess,
    Raw,
    Regions,
    Segmentation,
)
from visops.infer.batch import Batch, Picture
from visops.infer.frames import Frame
from visops.infer.models.masks import label_map, run_lengths_of_all
from visops.infer.store.plan import PlannedBatch
from visops.infer.store.records import Schema, batch_records, json_line, plain, write_parquet
from visops.infer.view.drawing import encode

from infer.folders import Masked, Network, comparable, files, fill, records, save

PLACEMENTS = [Preprocess((8, 8)).placement(8, 8)] * 2


def test_classification() -> None:
    logits = torch.tensor([[0.0, 2, 1], [3, 3, 3]])
    first, second = Classification(2)(logits, PLACEMENTS)
    assert first["labels"].tolist() == [1, 2]
    weights = np.exp([0, 2, 1])
    np.testing.assert_allclose(first["scores"], (weights / weights.sum())[[1, 2]], rtol=1e-6)
    assert second["labels"].tolist() == [0, 1]
    (kept, _) = Classification(9, softmax=False)(logits.bfloat16(), PLACEMENTS)
    assert kept["scores"].tolist() == [2, 1, 0]


@pytest.mark.parametrize("top_k", [0, -1, 2.5])
def test_top_k_below_1_is_refused(top_k: Any) -> None:
    with pytest.raises(ValueError, match=rf"top_k is {top_k}, must be at least 1"):
        Classification(top_k)


def test_raw() -> None:
    tensor = torch.arange(6.0).reshape(2, 3)
    assert [item["output"].tolist() for item in Raw()(tensor, PLACEMENTS)] == tensor.tolist()
    found = Raw()({"a": tensor, "b": tensor.bfloat16()[:, 0]}, PLACEMENTS)
    assert found[1]["a"].tolist() == [3, 4, 5]
    assert found[1]["b"] == 3
    found = Raw()([{"a": tensor}, {"a": tensor[0]}], PLACEMENTS)
    assert found[1]["a"].tolist() == [0, 1, 2]


class Heads(NamedTuple):
    near: torch.Tensor
    far: torch.Tensor


def test_raw_of_any_form() -> None:
    rows, one = torch.arange(6.0).reshape(2, 3), torch.tensor([[1], [2]])

    def second(output: Any) -> Any:
        return plain(Raw()(output, PLACEMENTS))[1]

    assert second((rows, one)) == {"output_0": [3, 4, 5], "output_1": [2]}
    assert second(((rows, one), {"a": one})) == {
        "output_0": {"output_0": [3, 4, 5], "output_1": [2]},
        "output_1": {"a": [2]},
    }
    assert second(Heads(rows, one)) == {"near": [3, 4, 5], "far": [2]}
    assert second({"a": {"b": rows}, "c": (one, one), "d": None, "e": torch.tensor(7)}) == {
        "a": {"b": [3, 4, 5]},
        "c": {"output_0": [2], "output_1": [2]},
        "d": None,
        "e": 7,
    }
    # A list has one item per image, of any form and size.
    assert second([rows, one]) == {"output": [[1], [2]]}
    assert second([{}, {"a": (rows[0], "x"), "b": [one, 1.5], "c": Heads(one, one)}]) == {
        "a": {"output_0": [0, 1, 2], "output_1": "x"},
        "b": [[[1], [2]], 1.5],
        "c": {"near": [[1], [2]], "far": [[1], [2]]},
    }
    assert second([1, (rows.bfloat16()[0], 2)]) == {"output_0": [0, 1, 2], "output_1": 2}
    assert second(one.numpy()) == {"output": [2]}


def test_raw_names_outputs_that_do_not_fit_the_batch() -> None:
    with pytest.raises(ValueError, match=r"output is a list of 3 items for 2 images; a list must"):
        Raw()([torch.zeros(2)] * 3, PLACEMENTS)
    with pytest.raises(ValueError, match=r"\['a'\]\['output_1'\] has shape \[3, 4\], its first"):
        Raw()({"a": (torch.zeros(2), torch.zeros(3, 4))}, PLACEMENTS)


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        (torch.zeros(2, 5), Classification),
        (torch.zeros(2), Raw),
        (torch.zeros(2, 3, 4, 4), Raw),
        ({"out": torch.zeros(2, 3, 4, 4)}, Segmentation),
        ({"out": torch.zeros(2, 3)}, Raw),
        ({"boxes": torch.zeros(2, 3, 4), "scores": torch.zeros(2, 3)}, Detection),
        ([{"boxes": torch.zeros(3, 4), "scores": torch.zeros(3)}] * 2, Detection),
        ([{"points": torch.zeros(3, 4)}] * 2, Raw),
        ([{"out": torch.zeros(1, 3, 4, 4)}] * 2, Raw),
        ({"out": [1, 2]}, Raw),
        ((torch.zeros(2, 5), torch.zeros(2, 5)), Raw),
        ((), Raw),
    ],
)
def test_auto(output: Any, kind: Any) -> None:
    assert isinstance(Auto().choose(output), kind)


@given(st.floats(width=32))
def test_floats_have_their_own_digits(value: Any) -> None:
    found = json.loads(json.dumps(plain(np.array([value], np.float32))))[0]
    if math.isfinite(value):
        assert np.float32(found) == np.float32(value)
        assert len(repr(found)) <= len(repr(float(np.float32(value))))
    else:
        assert found is None


def test_plain_values() -> None:
    value = {
        "a": np.float32(0.1),
        "b": np.arange(3),
        "c": [np.float16(0.1), (True, None, "x", float("inf"))],
        5: np.array([[0.1, np.nan]]),
        "d": np.zeros((0, 4), np.float32),
    }
    assert plain(value) == {
        "a": 0.1,
        "b": [0, 1, 2],
        "c": [0.1, [True, None, "x", None]],
        "5": [[0.1, None]],
        "d": [],
    }


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({1}, "set"),
        (np.array([{1}]), "set"),
        (np.array([b"x"]), "bytes"),
        (np.array(1j), "complex"),
        (torch.zeros(1), "Tensor"),
    ],
)
def test_values_that_records_cannot_hold_are_named(value: Any, name: str) -> None:
    batch = Batch(PlannedBatch(0, (Entry("a.png"),)), frames=[Frame(0, 0, 1, 1, 1, 1)])
    batch.results = {"net": [{"x": [value]}]}
    with pytest.raises(TypeError, match=f"postprocess of model net: a {name} can't be in a record"):
        batch_records(batch)


def test_records_are_in_the_plans_order() -> None:
    entries = (Entry("a.txt", "skipped", "no"), Entry("b.png"), Entry("c.png"), Entry("\udcff.png"))
    batch = Batch(PlannedBatch(0, entries), frames=[Frame(i, 0, 1, 1, 1, 1) for i in (1, 3)])
    batch.failures = {2: "broken"}
    batch.results = {"net": [{"x": np.float32(0.1)}, {"x": 2}]}
    lines = b"".join(map(json_line, batch_records(batch))).decode("ascii").splitlines()
    assert lines == [
        '{"image":"a.txt","reason":"no","status":"skipped"}',
        '{"image":"b.png","outputs":{"net":{"x":0.1}},"status":"ok"}',
        '{"image":"c.png","reason":"broken","status":"failed"}',
        '{"image":"\\udcff.png","outputs":{"net":{"x":2}},"status":"ok"}',
    ]
    assert os.fsencode(json.loads(lines[3])["image"]) == b"\xff.png"


def to_parquet(path: Any, parts: Any) -> Any:
    schema = Schema()
    for part in parts:
        for record in part:
            schema.add(record)
    with open(path, "wb") as file:
        write_parquet(file, parts, schema)
    return pyarrow.parquet.read_table(path)


def test_parquet_has_a_type_that_fits_all_records(tmp_path: Path) -> None:
    parts = [
        [{"image": "a", "status": "failed", "reason": "x"}],
        [{"image": "b", "status": "ok", "outputs": {"net": {"boxes": [], "n": 1, "none": []}}}],
        [{"image": "c", "status": "ok", "outputs": {"net": {"boxes": [[1, 2.5]], "n": 2.5}}}],
        [{"image": "\udcff", "status": "ok", "outputs": {"two": {"m": [{"size": [1]}]}}}],
    ]
    table = to_parquet(tmp_path / "a.parquet", parts)
    rows = table.to_pylist()
    assert [row["image"] for row in rows] == ["a", "b", "c", "\\xff"]
    assert rows[0]["outputs"] is None
    assert rows[1]["outputs"]["net"] == {"boxes": [], "n": 1.0}
    assert rows[2]["outputs"]["net"] == {"boxes": [[1.0, 2.5]], "n": 2.5}
    assert rows[3]["outputs"]["two"] == {"m": [{"size": [1]}]}
    assert pyarrow.parquet.ParquetFile(tmp_path / "a.parquet").num_row_groups == 4


def test_parquet_holds_any_text(tmp_path: Path) -> None:
    """Undecodable names also occur in paths of pictures and in reasons."""
    outputs = {"net": {"picture": "p/\udcff.jpg", "names": ["\udcfe", "caf\xe9", "\ud800"]}}
    parts = [
        [{"image": "a", "outputs": outputs, "reason": "no file \udcff"}],
        [{"image": "\udcff"}],
    ]
    rows = to_parquet(tmp_path / "a.parquet", parts).to_pylist()
    assert rows[0]["reason"] == "no file \\xff"
    assert rows[0]["outputs"]["net"] == {
        "picture": "p/\\xff.jpg",
        "names": ["\\xfe", "caf\xe9", "\\ud800"],
    }
    assert rows[1]["image"] == "\\xff"


def test_parquet_of_nothing_but_failures(tmp_path: Path) -> None:
    table = to_parquet(
        tmp_path / "a.parquet", [[{"image": "a", "status": "failed", "reason": "x"}]]
    )
    assert table.column_names == ["image", "reason", "status"]
    assert len(to_parquet(tmp_path / "b.parquet", [])) == 0


def test_values_without_a_common_type(tmp_path: Path) -> None:
    parts = [[{"image": "a", "x": 1}], [{"image": "a", "x": [1]}]]
    with pytest.raises(TypeError, match='records can\'t be Parquet: x is "int" in some and'):
        to_parquet(tmp_path / "a.parquet", parts)


OPTIONS: dict[str, Any] = {"batch_size": 4, "workers": 0, "preprocess": Preprocess((48, 64))}
SIZE = (30, 40)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("images"))


def run(images: Path, out: Path, models: Any = None, **options: Any) -> infer.Summary:
    return infer.run(images, out, models or {"net": Masked()}, **(OPTIONS | options))


def some_masks(count: int, seed: int = 0) -> torch.Tensor:
    """Rectangles that overlap; the second is empty."""
    rng = np.random.default_rng(seed)
    masks = torch.zeros(count, *SIZE, dtype=torch.bool)
    for i in range(count):
        y, x = rng.integers(0, SIZE[0] - 4), rng.integers(0, SIZE[1] - 4)
        masks[i, y : y + rng.integers(1, 20), x : x + rng.integers(1, 30)] = i != 1
    return masks


def drawn_one_by_one(masks: torch.Tensor, scores: Any) -> np.ndarray:
    """Masks drawn from the worst to the best; of equal scores, the first is the best."""
    found = np.zeros(masks.shape[1:], np.int64)
    for i in sorted(range(len(masks)), key=lambda i: (scores[i], -i)):
        found[masks[i].numpy()] = i + 1
    return found


def read(path: Path) -> tuple[np.ndarray, str]:
    with Image.open(path) as image:
        assert image.format == "PNG"
        return np.asarray(image), image.mode


@pytest.mark.parametrize("count", [1, 2, 7, 255, 256, 700])
@pytest.mark.parametrize("order", ["sorted", "mixed", "equal"])
def test_the_best_is_on_top(count: int, order: str) -> None:
    masks = some_masks(count, count)
    scores = np.random.default_rng(count).integers(0, 1 + count // 2, count) / count
    scores = {"sorted": np.sort(scores)[::-1], "mixed": scores, "equal": scores * 0}[order]
    found = label_map(run_lengths_of_all(masks), scores.astype(np.float32), SIZE)
    assert found.dtype == ("uint8" if count < 256 else "uint16")
    np.testing.assert_array_equal(found, drawn_one_by_one(masks, scores))
    sent = pickle.loads(pickle.dumps(Picture("a.png", found)))  # to a writer on Ray
    assert encode(sent) == encode(Picture("a.png", found))


@pytest.mark.parametrize("scores", [None, [0.5], ["high"] * 3, [[0.1]] * 3, [0.1, [0.2], 0.3]])
def test_scores_of_another_form_leave_the_order(scores: Any) -> None:
    masks = some_masks(3)
    found = label_map(run_lengths_of_all(masks), scores, SIZE)
    np.testing.assert_array_equal(found, drawn_one_by_one(masks, [0] * 3))


def test_other_run_lengths() -> None:
    """Post-processing of one's own may return text, arrays and tuples."""
    masks = some_masks(3)
    wanted = drawn_one_by_one(masks, [0] * 3)
    for rles in (
        tuple(visops.masks_to_rle(masks)),
        [r | {"counts": r["counts"].decode()} for r in visops.masks_to_rle(masks)],
        [r | {"counts": np.array(r["counts"])} for r in run_lengths_of_all(masks)],
    ):
        np.testing.assert_array_equal(label_map(rles, None, (1, 1)), wanted)


RLE = {"size": [2, 2], "counts": [1, 3]}


@pytest.mark.parametrize(
    ("masks", "error", "message"),
    [
        (np.zeros((1, 2, 2)), TypeError, "masks is a ndarray, must be a list of run lengths"),
        (RLE, TypeError, "masks is a dict, must be a list of run lengths"),
        ([[1, 2]], TypeError, r"rles\[0\] is a list, must be a dict with 'size' and 'counts'"),
        ([RLE, {"size": [2, 2]}], ValueError, r"rles\[1\] has no 'counts', must have it"),
        ([RLE, RLE | {"counts": [5]}], ValueError, r"rles\[1\]\['counts'\] has the sum 5"),
        ([RLE, RLE | {"size": [4, 1]}], ValueError, "masks must be of one size"),
        ([RLE] * 65536, ValueError, "there are 65536 masks, must be at most 65535"),
    ],
)
def test_masks_that_make_no_map(masks: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        label_map(masks, None, (2, 2))


def test_records_have_paths(folder: Path, tmp_path: Path) -> None:
    run(folder, tmp_path / "rle")
    assert not (tmp_path / "rle" / "masks").exists()
    run(folder, tmp_path / "png", masks="png")
    run(folder, tmp_path / "again", masks="png", workers=2)
    assert files(tmp_path / "png") == files(tmp_path / "again")
    wanted, found = records(tmp_path / "rle"), records(tmp_path / "png")
    assert wanted.keys() == found.keys()
    paths = set()
    for name, record in found.items():
        if record["status"] != "ok":
            assert record == wanted[name]
            continue
        ours, theirs = record["outputs"]["net"], wanted[name]["outputs"]["net"]
        assert len(theirs["masks"]) == 3
        assert {**ours, "masks": theirs["masks"]} == theirs
        assert ours["masks"] == f"masks/net/{name}.png"
        paths.add(ours["masks"])
        labels, mode = read(tmp_path / "png" / ours["masks"])
        assert mode == "L"
        masks = visops.rle_to_masks(theirs["masks"])
        assert (masks.sum(0) > 1).any()
        np.testing.assert_array_equal(labels, drawn_one_by_one(masks, theirs["scores"]))
    assert len(paths) == 13
    written = {name for name in files(tmp_path / "png") if name.startswith("masks/")}
    assert written == paths


def test_many_and_no_masks(tmp_path: Path) -> None:
    save(tmp_path / "images" / "a.png", height=48, width=64)
    for count, kind in ((300, "uint16"), (0, "uint8")):
        net = Masked(count)
        own = Detection(0.0, None, max_detections=1000)
        run(tmp_path / "images", tmp_path / kind, [Model("net", net, postprocess=own)], masks="png")
        labels, mode = read(tmp_path / kind / "masks" / "net" / "a.png.png")
        assert mode == ("I;16" if count else "L")
        assert labels.dtype == kind
        assert labels.shape == (48, 64)
        assert labels.max() == count
        assert labels.any() == (count > 0)


def test_images_turned_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    save(tmp_path / "images" / "a.jpg", height=20, width=50, exif=exif)
    for count in (0, 3):
        out = tmp_path / str(count)
        run(tmp_path / "images", out, {"net": Masked(count)}, masks="png")
        assert read(out / "masks" / "net" / "a.jpg.png")[0].shape == (50, 20)


def test_segmentation_and_models_without_masks(folder: Path, tmp_path: Path) -> None:
    class Halves(torch.nn.Module):
        def forward(self, batch: torch.Tensor) -> Any:
            scores = torch.zeros(len(batch), 9, *batch.shape[2:])
            scores[:, 2], scores[:, 7, :, 32:] = 1, 2
            return {"out": scores}

    models = {"halves": Halves(), "classes": Network()}
    run(folder, tmp_path, models, masks="png")
    outputs = records(tmp_path)["01.jpg"]["outputs"]
    assert "masks" not in outputs["classes"]
    assert outputs["halves"]["labels"] == [2, 7]
    labels, _ = read(tmp_path / outputs["halves"]["masks"])
    assert [int((labels == k).sum()) for k in (1, 2)] == outputs["halves"]["areas"]
    assert not (tmp_path / "masks" / "classes").exists()
    run(folder, tmp_path / "none", [Model("n", Halves(), postprocess=Segmentation(False))])
    assert "masks" not in records(tmp_path / "none")["01.jpg"]["outputs"]["n"]


def test_regions_have_a_map_of_their_detector(folder: Path, tmp_path: Path) -> None:
    regions = Regions("r", Model("d", Masked(), Preprocess((48, 64))), Network(), (8, 8))
    run(folder, tmp_path, [regions], masks="png")
    found = records(tmp_path)["01.jpg"]["outputs"]["r"]
    assert len(found["regions"]) == len(found["boxes"]) == 3
    assert read(tmp_path / found["masks"])[0].max() == 3


def test_annotations_show_the_same(folder: Path, tmp_path: Path) -> None:
    """They show masks below others too, which maps don't have."""
    options = {"annotate": "png", "reduced": False}
    for masks in ("rle", "png"):
        run(folder, tmp_path / masks, masks=masks, **options)
    a, b = (
        {n: data for n, data in files(tmp_path / masks).items() if n.startswith("annotated/")}
        for masks in ("rle", "png")
    )
    assert len(a) == 13
    assert a == b


@pytest.mark.parametrize("annotate", [None, "png"])
def test_models_are_added_and_removed(folder: Path, tmp_path: Path, annotate: Any) -> None:
    options = {"annotate": annotate, "reduced": False, "masks": "png"}
    both = {"net": Masked(), "other": Network()}
    run(folder, tmp_path / "out", {"net": Masked()}, **options)
    path = tmp_path / "out" / "masks" / "net" / "01.jpg.png"
    before = path.stat().st_ino
    run(folder, tmp_path / "out", both, **options)
    assert (path.stat().st_ino == before) == (annotate is None)
    run(folder, tmp_path / "both", both, **options)
    assert comparable(tmp_path / "out") == comparable(tmp_path / "both")
    if annotate is None:
        run(folder, tmp_path / "out", {"net": Masked()}, **options)
        run(folder, tmp_path / "one", {"net": Masked()}, **options)
        assert comparable(tmp_path / "out") == comparable(tmp_path / "one")


def test_other_masks_end_the_run(folder: Path, tmp_path: Path) -> None:
    def own(output: Any, placements: Any) -> list[dict[str, Any]]:
        return [{"masks": [[1, 2]]} for _ in placements]

    model = Model("net", Network(), postprocess=own)
    run(folder, tmp_path / "rle", [model])
    with pytest.raises(
        infer.StageError,
        match=r"postprocess of model net, masks of .*\.(png|jpg) as png: .*rles\[0\] is a list",
    ):
        run(folder, tmp_path / "png", [model], masks="png")


def test_the_option_is_checked(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"masks is 'jpeg', must be one of \('rle', 'png'\)"):
        infer.Options(masks="jpeg")
    run(folder, tmp_path, masks="png")
    with pytest.raises(ValueError, match=r"masks is rle, but the outputs in .* begun with png"):
        run(folder, tmp_path)


@pytest.mark.parametrize("post", [Detection(), Auto()])
def test_the_same_bytes_as_ever(folder: Path, tmp_path: Path, post: Any) -> None:
    """Run lengths as they were computed mask by mask, before masks_to_rle."""
    run(folder, tmp_path, [Model("net", Masked(), postprocess=post)])
    placement = Preprocess((48, 64)).placement(23, 31)
    image = torch.zeros(1, 3, 48, 64)
    (found,) = post(Masked()(image), [placement])
    for mask in found["masks"]:
        counts = counts_of(visops.rle_to_masks(mask).numpy())
        assert json.dumps(mask) == json.dumps({"size": [23, 31], "counts": counts})
