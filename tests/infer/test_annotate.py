"""Pictures: what is drawn, for any results; their paths and formats; names of classes."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont
from visops import infer
from visops.infer import Detection, Model, Preprocess, Regions, load_model, run_lengths
from visops.infer.batch import Picture
from visops.infer.models.describe import read_classes, with_names
from visops.infer.view.drawing import draw, encode, picture_path

from infer.folders import Detector, Network, nested, records, recursion_limit, save

GREY = (90, 90, 90)
NAN, INF = float("nan"), float("inf")


def drawn(results: Any, size: tuple[int, int] = (120, 80)) -> Any:
    """Return the pixels [H, W, 3] of a grey image with results drawn on it."""
    image = Image.new("RGB", size, GREY)
    draw(image, {"net": results})
    return np.asarray(image)


def changed(results: Any) -> Any:
    return (drawn(results) != GREY).any(2)


def mask(rows: slice, columns: slice, size: tuple[int, int] = (80, 120)) -> Any:
    pixels = torch.zeros(size, dtype=torch.bool)
    pixels[rows, columns] = True
    return run_lengths(pixels)


def test_boxes_have_the_colour_of_their_label() -> None:
    boxes = np.array([[10, 40, 50, 70], [60, 40, 110, 70]], np.float32)
    pixels = drawn({"boxes": boxes, "scores": np.array([0.5, 0.25]), "labels": np.array([1, 12])})
    assert pixels[60, 10].tolist() == [60, 180, 75]
    assert pixels[60, 60].tolist() == [255, 225, 25]
    assert pixels[60, 30].tolist() == list(GREY)


BOX = [10.0, 40, 50, 70]


@pytest.mark.parametrize(
    "box",
    [
        [50.0, 40, 10, 70],
        [10.0, 70, 50, 40],
        [NAN, 40, 50, 70],
        [10.0, 40, INF, 70],
        [None, 40, 50, 70],
        [10.0, 40, 50],
        "box",
        {"x": 1},
        None,
    ],
)
def test_invalid_boxes_are_not_drawn(box: Any) -> None:
    """A caller's own results may hold anything; once, one of them ended the run and every rerun."""
    found = {"boxes": [box, BOX], "scores": [0.5, 0.25], "labels": [1, 1]}
    wanted = {"boxes": [BOX], "scores": [0.25], "labels": [1]}
    np.testing.assert_array_equal(drawn(found), drawn(wanted))


@pytest.mark.parametrize(
    "labels",
    [
        ["cat"],
        np.array(["cat"]),
        ["\udcff\0\n" * 5000],
        [None],
        [],
        None,
        [2.5],
        [NAN],
        [[1, 2]],
        [{}],
        7,
        -3,
        [10**30],
    ],
)
@pytest.mark.parametrize("scores", [[0.5], 0.5, np.float16(0.5), ["high"], [None], [NAN]])
def test_labels_and_scores_of_any_kind(labels: Any, scores: Any) -> None:
    found = {"boxes": [BOX], "scores": scores, "labels": labels}
    assert changed(found)[60, 10]
    drawn({"scores": scores, "labels": labels})


def test_labels_are_written_as_they_are() -> None:
    def labelled(label: Any) -> Any:
        return drawn({"boxes": [BOX], "scores": [1], "labels": [label]}, (900, 80))

    np.testing.assert_array_equal(labelled(np.float32(3)), labelled(3))
    assert (labelled(2.5) != labelled(2)).any()
    np.testing.assert_array_equal(labelled("x" * 5000), labelled("x" * 59 + "…"))
    assert (labelled("x" * 60) != labelled("x" * 59 + "…")).any()


def test_names_have_different_colours() -> None:
    colors = {
        tuple(drawn({"boxes": [BOX], "scores": [1], "labels": [name]})[60, 10])
        for name in ("cat", "dog", "bird", "fish")
    }
    assert len(colors) > 1
    assert not changed({"boxes": [BOX], "scores": []}).any()
    assert changed({"boxes": [BOX], "scores": [1]})[60, 10]


def test_boxes_far_outside() -> None:
    found = changed({"boxes": [[-1e30, 40, 1e30, 1e30]], "scores": [0.5], "labels": [1]})
    assert found[40].all()
    assert not found[50:].any()


@pytest.mark.parametrize("result", [None, 3, "x", [1], {"labels": 3}, {"boxes": 1, "scores": 2}])
def test_results_of_other_forms(result: Any) -> None:
    assert not changed(result).any()


def test_masks_are_half_transparent_in_the_colour_of_their_label() -> None:
    left, right = mask(slice(30, 80), slice(5, 30)), mask(slice(30, 80), slice(80, 100))
    boxes = [[5, 30, 30, 80], [80, 30, 100, 80]]
    found = {"boxes": boxes, "scores": [0.9, 0.8], "labels": [1, 3], "masks": [left, right]}
    pixels = drawn(found).astype(int)
    assert pixels[50, 15].tolist() == pytest.approx([75, 135, 82], abs=1)
    assert pixels[50, 90].tolist() == pytest.approx([45, 110, 145], abs=1)
    assert pixels[50, 50].tolist() == list(GREY)
    assert pixels[79, 30].tolist() == [60, 180, 75]  # boxes lie above masks


def test_the_mask_of_the_best_detection_is_on_top() -> None:
    whole = mask(slice(0, 80), slice(0, 120))
    boxes = [[0, 0, 119, 79]] * 2
    pixels = drawn({"boxes": boxes, "scores": [0.9, 0.8], "labels": [0, 1], "masks": [whole] * 2})
    red, green, _ = pixels[70, 60].astype(int)
    assert red > green


def test_segmentations_are_drawn_without_their_background() -> None:
    ground, thing = mask(slice(0, 40), slice(None)), mask(slice(40, 80), slice(None))
    found = {
        "labels": np.array([0, 12]),
        "areas": np.array([4800, 4800]),
        "masks": [ground, thing],
    }
    pixels = drawn(found).astype(int)
    assert (pixels[:40] == GREY).all()
    assert (abs(pixels[40:] - [172, 157, 57]) <= 1).all()


@pytest.mark.parametrize(
    "wrong",
    [
        mask(slice(0, 9), slice(0, 9), (80, 121)),
        {"size": [80, 120], "counts": [1, 2]},
        {"size": [80, 120], "counts": [10, -5, 9595]},
        {"size": [80, 120], "counts": "compressed"},
        {"size": [80, 120], "counts": []},
        {"size": None, "counts": [9600]},
        {"counts": [9600]},
        np.zeros((80, 120), bool),
        [[1, 2]],
        None,
    ],
)
def test_invalid_run_lengths_are_not_drawn(wrong: Any) -> None:
    found = {"boxes": [BOX], "scores": [0.5], "labels": [1]}
    np.testing.assert_array_equal(drawn(found), drawn(found | {"masks": [wrong]}))
    assert not changed({"labels": [1], "masks": [wrong]}).any()


def test_small_unsigned_run_lengths() -> None:
    counts = np.array([20, 200] * 40 + [100] * 8, np.uint8)
    found = changed({"labels": [1], "masks": [{"size": [80, 120], "counts": counts}]})
    assert found.sum() == 200 * 40 + 400


def test_a_run_draws_masks(tmp_path: Path) -> None:
    class Masks(Detector):
        def forward(self, batch: Any) -> Any:
            found = super().forward(batch)
            masks = torch.zeros(4, 1, 64, 64)
            masks[:, :, 32:] = 1
            return [
                {"boxes": b, "scores": s[:, 0] + 0.2, "labels": torch.ones(4), "masks": masks}
                for b, s in zip(found["boxes"], found["scores"], strict=True)
            ]

    save(tmp_path / "images" / "a.png", 1, 64, 64)
    model = Model("net", Masks(), Preprocess((64, 64)), Detection(0.1))
    infer.run(tmp_path / "images", tmp_path / "out", [model], workers=0, annotate="png")
    before, after = (
        np.asarray(Image.open(tmp_path / name)).astype(int)
        for name in ("images/a.png", "out/annotated/a.png.png")
    )
    np.testing.assert_array_equal(before[26:31, 24:38], after[26:31, 24:38])
    assert (before[55:, 5:] != after[55:, 5:]).any(2).all()


@pytest.mark.parametrize(
    ("image", "picture"),
    [
        ("a.png", "f/a.png.jpg"),
        ("b/a.png", "f/b/a.png.jpg"),
        ("a.png.jpg/b", "f/a.png.jpg_/b.jpg"),
        ("a.PNG/c.JPG__/d.png.d/_/b", "f/a.PNG_/c.JPG___/d.png.d/_/b.jpg"),
        ("x" * 255, f"f/{'x' * 186}-"),
        (f"{'x' * 251}.jpg/b", f"f/{'x' * 189}-"),
    ],
)
def test_where_pictures_go(image: str, picture: str) -> None:
    path = picture_path("f", image, ".jpg")
    assert path == picture or (picture.endswith("-") and path.startswith(picture))
    assert max(map(len, path.split("/"))) <= 255


def test_a_path_too_long_for_the_outputs_is_replaced() -> None:
    long = "d/" * 1600 + "a.png"
    path = picture_path("f", long, ".jpg")
    assert len(path) < 100
    assert path.startswith("f/")
    assert path.endswith(".jpg")
    assert path != picture_path("f", long.replace("a", "b"), ".jpg")
    assert picture_path("f", "d/" * 1500 + "a.png", ".jpg") == "f/" + "d/" * 1500 + "a.png.jpg"


def test_a_run_over_folders_within_each_other(tmp_path: Path) -> None:
    """A recursion would end the run, or the next one, which looks for temporary files."""
    depth = 400
    images, out = tmp_path / "images", tmp_path / "out"
    with nested(images, depth) as inner, nested(out, 0):
        save(tmp_path / "a.png")
        (tmp_path / "a.png").rename(inner / "a.png")
        for done in (1, 0):
            with recursion_limit(depth):
                summary = infer.run(images, out, {"net": Network()}, workers=0, annotate="png")
            assert (summary.counts.ok, summary.done) == (1, done)
        image = "d/" * depth + "a.png"
        assert list(records(out)) == [image]
        assert (out / picture_path("annotated", image, ".png")).is_file()


def test_pictures_and_folders_never_share_a_path() -> None:
    names = ["a", "a.jpg", "a.jpg_", "a.jpg__", "a.png", "a.jpg.jpg", "a.jpg.jpg_", "A.JPG", "b"]
    paths = [picture_path("f", name, ".jpg") for name in names]
    paths += [picture_path("f", f"{name}/{inner}", ".jpg") for name in names for inner in names]
    assert len(set(paths)) == len(paths)
    folders = {path.rpartition("/")[0].lower() for path in paths}
    assert not folders & {path.lower() for path in paths}


def test_a_folder_named_like_a_picture(tmp_path: Path) -> None:
    """Once, the image's picture blocked the folder, and no rerun got past it."""
    save(tmp_path / "images" / "a.png", 1)
    save(tmp_path / "images" / "a.png.png" / "b.png", 2)
    out = tmp_path / "out"
    summary = infer.run(
        tmp_path / "images", out, {"net": Network()}, workers=0, annotate="png", batch_size=1
    )
    assert summary.counts.ok == len(records(out)) == 2
    assert (out / "annotated" / "a.png.png").is_file()
    assert (out / "annotated" / "a.png.png_" / "b.png.png").is_file()


def test_a_picture_too_long_for_jpeg_is_a_png() -> None:
    assert picture_path("f", "a.jpg", ".jpg", (3, 65_500, 9)) == "f/a.jpg.jpg"
    for sides in ((3, 65_501, 2), (3, 2, 65_501)):
        path = picture_path("f", "a.jpg", ".jpg", sides)
        assert path == "f/a.jpg.png"
        data = encode(Picture(path, torch.full(sides, 7, dtype=torch.uint8), {}))
        with Image.open(io.BytesIO(data)) as image:
            assert image.size == (sides[2], sides[1])
            assert image.getpixel((0, 0)) == (7, 7, 7)
    encode(Picture("f/a.jpg", torch.zeros(3, 65_500, 2, dtype=torch.uint8)))


def test_a_run_over_a_picture_too_long_for_jpeg(tmp_path: Path) -> None:
    save(tmp_path / "images" / "long.png", 1, 2, 65_501)
    regions = Regions(
        "net",
        Model("detector", Detector(), Preprocess((64, 64))),
        torch.nn.Identity(),
        (4, 4),
        paste="replace",
    )
    out = tmp_path / "out"
    infer.run(tmp_path / "images", out, [regions], workers=0, annotate="jpeg")
    found = records(out)["long.png"]["outputs"]["net"]["picture"]
    assert found == "pictures/net/long.png.png"
    for path in (found, "annotated/long.png.png"):
        with Image.open(out / path) as image:
            assert (image.format, image.size) == ("PNG", (65_501, 2))


def test_texts_are_drawn_as_pillow_draws_them() -> None:
    """Texts are cached for the next box of the same class and score."""
    for _ in range(2):
        picture = Image.new("RGB", (200, 90), (90, 120, 30))
        draw(picture, {"colours": {"labels": [7], "scores": [0.25]}})
        plain = Image.new("RGB", picture.size, (90, 120, 30))
        canvas, font = ImageDraw.Draw(plain), ImageFont.load_default(12.0)
        canvas.rectangle(canvas.textbbox((0, 0), "colours: 7 0.25", font), fill=(0, 0, 0))
        canvas.text((0, 0), "colours: 7 0.25", (255, 255, 255), font)
        assert np.array_equal(np.asarray(picture), np.asarray(plain))


NAMES = ("cat", "dog", "", "bird")


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (np.array([1, 0, 3]), ["dog", "cat", "bird"]),
        ([2, 4, -1], [None, None, None]),
        ([], []),
        (np.zeros(0, np.int64), []),
    ],
)
def test_labels_get_names(labels: Any, names: Any) -> None:
    result = {"labels": labels, "scores": [0.5]}
    assert with_names(result, NAMES) == {**result, "names": names}


@pytest.mark.parametrize(
    "result",
    [
        {"scores": [0.5]},
        {"labels": 3},
        {"labels": ["cat"]},
        {"labels": [0.5]},
        {"labels": [[1, 2]]},
        {"labels": [1], "names": ["own"]},
        [1],
    ],
)
def test_other_results_stay_as_they_are(result: Any) -> None:
    assert with_names(result, NAMES) is result
    assert with_names({"labels": [1]}, None) == {"labels": [1]}


def test_names_are_in_records(tmp_path: Path) -> None:
    save(tmp_path / "images" / "a.png", 1, 64, 64)
    options: dict[str, Any] = {"workers": 0, "preprocess": Preprocess((64, 64))}
    net = Model("net", Network(), classes=NAMES)
    boxes = Model("boxes", Detector(), classes=["thing"])
    crops = Regions("crops", boxes, Network(), (8, 8), classes=NAMES)
    infer.run(tmp_path / "images", tmp_path / "out", [net, boxes, crops], **options)
    found = records(tmp_path / "out")["a.png"]["outputs"]

    def named(labels: Any, names: Any) -> list[Any]:
        return [names[label] or None if label < len(names) else None for label in labels]

    assert found["net"]["names"] == named(found["net"]["labels"], NAMES)
    assert sorted(found["net"]["labels"]) == [0, 1, 2, 3]
    labels = found["boxes"]["labels"]
    assert found["boxes"]["names"] == found["crops"]["names"] == named(labels, ["thing"])
    assert {"thing", None} == set(found["boxes"]["names"])
    for region in found["crops"]["regions"]:
        assert region["names"] == named(region["labels"], NAMES)
    assert found["crops"]["regions"]


def test_runs_with_other_names_are_told_apart(tmp_path: Path) -> None:
    plain, named, other = (
        Model("net", Network(), classes=classes) for classes in (None, NAMES, ("x",))
    )
    assert "classes" not in plain.fingerprint()
    assert named.fingerprint() != other.fingerprint()
    save(tmp_path / "images" / "a.png")
    infer.run(tmp_path / "images", tmp_path / "out", [plain], workers=0)
    with pytest.raises(ValueError, match=r"net=classes=\w{16}, .* begun with net=classes=None"):
        infer.run(tmp_path / "images", tmp_path / "out", [named], workers=0)
    with pytest.raises(TypeError, match="classes of model net is 'cat', must be a sequence"):
        Model("net", Network(), classes="cat")


def pictured(result: Any) -> np.ndarray:
    image = Image.new("RGB", (300, 80), (90, 90, 90))
    draw(image, {"net": result})
    return np.asarray(image)


def test_names_are_on_pictures() -> None:
    best: dict[str, Any] = {"labels": [3, 1], "scores": [0.5, 0.25]}
    named = pictured({**best, "names": ["bird", "dog"]})
    assert (named != pictured(best)).any()
    np.testing.assert_array_equal(named, pictured({**best, "labels": ["bird", "dog"]}))
    box: dict[str, Any] = {"boxes": [[10, 40, 50, 70]], "labels": [3], "scores": [0.5]}
    named = pictured({**box, "names": ["bird"]})
    assert (named != pictured(box)).any()
    assert (named[41:70, 10] == pictured(box)[41:70, 10]).all(), "the colour is the label's"
    without: tuple[Any, ...] = ([None], [""], [], None, "", np.array([[1, 2]]), [{}])
    for missing in without:
        np.testing.assert_array_equal(pictured({**box, "names": missing}), pictured(box))


def test_files_of_names(tmp_path: Path) -> None:
    path = tmp_path / "names.txt"
    path.write_text("cat\n dog \n\nZürich\n", encoding="utf-8")
    assert read_classes(str(path)) == ("cat", "dog", "", "Zürich")
    for data, message in ((b"\n \n", "no names of classes in"), (b"\xff\n", "are not UTF-8")):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=message):
            read_classes(str(path))


def test_torchvision_names_its_classes() -> None:
    classes = load_model("squeezenet1_1", "random").classes
    assert classes is not None
    assert (len(classes), classes[0]) == (1000, "tench")
    classes = load_model("ssdlite320_mobilenet_v3_large", "random").classes
    assert classes is not None
    assert (len(classes), classes[1]) == (91, "person")


def test_kept_results_keep_their_names(tmp_path: Path) -> None:
    save(tmp_path / "images" / "a.png")
    first, second = Model("first", Network(), classes=NAMES), Model("second", Network(1))
    infer.run(tmp_path / "images", tmp_path / "out", [first], workers=0)
    infer.run(tmp_path / "images", tmp_path / "out", [first, second], workers=0)
    outputs = records(tmp_path / "out")["a.png"]["outputs"]
    assert outputs["first"]["names"]
    assert "names" not in outputs["second"]
