"""Names of classes: in records, on pictures, from files and from torchvision."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from visops import infer
from visops.infer import Model, Preprocess, Regions, load_model
from visops.infer.models.classes import read_classes, with_names
from visops.infer.view.drawing import draw

from infer.folders import Detector, Network, records, save

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


def drawn(result: Any) -> np.ndarray:
    image = Image.new("RGB", (300, 80), (90, 90, 90))
    draw(image, {"net": result})
    return np.asarray(image)


def test_names_are_on_pictures() -> None:
    best: dict[str, Any] = {"labels": [3, 1], "scores": [0.5, 0.25]}
    named = drawn({**best, "names": ["bird", "dog"]})
    assert (named != drawn(best)).any()
    np.testing.assert_array_equal(named, drawn({**best, "labels": ["bird", "dog"]}))
    box: dict[str, Any] = {"boxes": [[10, 40, 50, 70]], "labels": [3], "scores": [0.5]}
    named = drawn({**box, "names": ["bird"]})
    assert (named != drawn(box)).any()
    assert (named[41:70, 10] == drawn(box)[41:70, 10]).all(), "the colour is the label's"
    without: tuple[Any, ...] = ([None], [""], [], None, "", np.array([[1, 2]]), [{}])
    for missing in without:
        np.testing.assert_array_equal(drawn({**box, "names": missing}), drawn(box))


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
