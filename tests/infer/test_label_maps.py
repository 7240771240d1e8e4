"""Masks as label maps: what they show, where they lie, and runs that continue."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import visops
from PIL import Image
from visops import infer
from visops.infer import Auto, Detection, Model, Preprocess, Regions, Segmentation
from visops.infer.batch import Picture
from visops.infer.models.masks import label_map, run_lengths_of_all
from visops.infer.view.annotate import encode

from infer.folders import Masked, Network, comparable, files, fill, records, save

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
        decoded = visops.rle_to_masks(mask)
        flat = decoded.t().flatten().tolist()
        counts, value = [0], False
        for pixel in flat:
            if pixel != value:
                counts.append(0)
                value = pixel
            counts[-1] += 1
        assert json.dumps(mask) == json.dumps({"size": [23, 31], "counts": counts})
