"""What is named as belonging to boxes follows them, whatever holds it; all else stays whole."""

import array
import collections
import functools
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from bad_input import check
from visops import transforms

tv = pytest.importorskip("torchvision.tv_tensors")

IMAGE = torch.zeros(3, 10, 12)
# The second box is too small to keep.
BOXES = torch.tensor([[0.0, 0, 3, 3], [9, 9, 9.2, 9.5], [2, 2, 5, 5]])


def sanitized(sample: Any, **options: Any) -> Any:
    flip = transforms.RandomHorizontalFlip(1.0)
    return transforms.Compose([flip], boxes="sanitize", **options)(sample)


def beside_boxes(**entries: Any) -> dict[str, Any]:
    return sanitized({"image": IMAGE, "boxes": BOXES, **entries})  # type: ignore[no-any-return]


def named(**entries: Any) -> dict[str, Any]:
    sample = {"image": IMAGE, "boxes": BOXES, **entries}
    return sanitized(sample, keys={"labels": list(entries)})  # type: ignore[no-any-return]


def test_named_entries_follow_their_boxes() -> None:
    result = named(
        names=("a", "b", "c"),
        flags=torch.tensor([0, 1, 2]),
        weights=np.array([0.5, 1.0, 1.5]),
        table=torch.arange(6).reshape(3, 2),
    )
    assert len(result["boxes"]) == 2
    assert result["names"] == ("a", "c")
    assert torch.equal(result["flags"], torch.tensor([0, 2]))
    assert result["weights"].tolist() == [0.5, 1.5]
    assert result["table"].tolist() == [[0, 1], [4, 5]]


@pytest.mark.parametrize("name", ["labels", "class_labels", "category_ids", "difficult", "cls"])
def test_usual_names(name: str) -> None:
    assert beside_boxes(**{name: [1, 2, 3]})[name] == [1, 3]
    message = f"transforms: sample['{name}'] has length 2, sample['boxes'] has 3 boxes; must be"
    check(ValueError, message, lambda: beside_boxes(**{name: [1, 2]}))


class Three(NamedTuple):
    a: int
    b: int
    c: int


SEQUENCES = [
    (collections.deque("abc"), collections.deque("ac")),
    (collections.UserList([1, 2, 3]), collections.UserList([1, 3])),
    (range(5, 8), [5, 7]),
    (array.array("i", [4, 5, 6]), array.array("i", [4, 6])),
    (Three(1, 2, 3), [1, 3]),
]


@pytest.mark.parametrize(("value", "expected"), SEQUENCES, ids=lambda v: type(v).__name__)
def test_labels_in_any_sequence_follow_their_boxes(value: Any, expected: Any) -> None:
    result = beside_boxes(labels=value)["labels"]
    assert result == expected
    assert type(result) is type(expected)
    alone = {"image": IMAGE, "boxes": BOXES[:1], "labels": value}
    check(ValueError, "transforms: sample['labels'] has length 3", lambda: sanitized(alone))
    batch = {"image": IMAGE[None], "boxes": [BOXES], "labels": [value]}
    assert sanitized(batch)["labels"] == [expected]
    joined = transforms.MixUp()(
        {"image": IMAGE.repeat(2, 1, 1, 1), "boxes": [BOXES] * 2, "labels": [value] * 2}
    )
    assert list(joined["labels"][0]) == [*value, *value]


def test_areas_in_any_sequence_follow_their_boxes() -> None:
    for areas in (collections.deque([9.0, 0.1, 9.0]), range(1, 4), array.array("d", [9, 1, 9])):
        result = beside_boxes(area=areas)["area"]
        assert len(result) == 2
        assert result[0] == areas[0]


def test_pandas_columns_follow_their_boxes() -> None:
    pandas = pytest.importorskip("pandas")
    series = pandas.Series(["a", "b", "c"], index=[7, 8, 9])
    assert beside_boxes(labels=series)["labels"].to_dict() == {7: "a", 9: "c"}
    frame = pandas.DataFrame({"x": [1, 2, 3], "y": [4, 5, 6]})
    assert beside_boxes(labels=frame)["labels"].values.tolist() == [[1, 4], [3, 6]]
    check(
        TypeError,
        "transforms: sample['t'] is a DataFrame of rows, which may have to move",
        lambda: beside_boxes(t=frame),
    )


def test_labels_without_an_order_are_refused() -> None:
    message = "transforms: sample['labels'] is a set, whose entries have no order"
    check(TypeError, message, lambda: beside_boxes(labels={1, 2, 3}))


def test_lists_of_anything_follow_their_boxes() -> None:
    objects = [{"id": 1, "tags": ["x"]}, {"id": 2}, {"id": 3}]
    vectors = [torch.zeros(8), torch.ones(8), torch.full((8,), 2.0)]
    result = named(annotations=objects, features=vectors)
    assert result["annotations"] == [objects[0], objects[2]]
    assert [float(vector[0]) for vector in result["features"]] == [0.0, 2.0]
    typed = tv.BoundingBoxes(BOXES, format="XYXY", canvas_size=(10, 12))
    sample = {"image": IMAGE, "found": typed, "annotations": objects}
    result = sanitized(sample, keys={"labels": ["annotations"]})
    assert result["annotations"] == [objects[0], objects[2]]


def test_what_describes_the_image_stays() -> None:
    entries: dict[str, Any] = {
        "image_id": torch.tensor([7, 8, 9]),
        "img_shape": (10, 12, 3),
        "two": [1, 2],
        "three": torch.zeros(3),
        "names": ["x", "y", "z"],
        "objects": [{"id": 1}, {"id": 2}, {"id": 3}],
        "file_name": ["a", "b", "c"],
        "scalar": torch.tensor(3),
    }
    result = beside_boxes(**entries)
    for key, value in entries.items():
        assert result[key] is value or (key == "objects" and result[key] == value)
    one = sanitized({"image": IMAGE, "boxes": BOXES[:2], "hw": (10, 12)})
    assert one["hw"] == (10, 12)
    # Entries of another container belong to nothing here.
    result = sanitized({"image": IMAGE, "n": [1, 2, 3], "target": {"boxes": BOXES}})
    assert result["n"] == [1, 2, 3]


def test_named_tuples_are_not_lists_of_entries() -> None:
    class Camera(NamedTuple):
        focal: float
        x: float
        y: float

    camera = Camera(9.0, 6.0, 5.0)
    assert beside_boxes(camera=camera)["camera"] == camera


def test_keys_win() -> None:
    sample = {"image": IMAGE, "boxes": BOXES, "camera": [1, 2, 3], "size": [4, 5, 6]}
    result = sanitized(sample, keys={"other": ["camera"], "labels": ["size"]})
    assert result["camera"] == [1, 2, 3]
    assert result["size"] == [4, 6]


def test_batches_of_extras() -> None:
    counts = (3, 2)
    sample = {
        "image": torch.zeros(2, 3, 10, 12),
        "boxes": [BOXES, BOXES[1:]],
        "names": [["a", "b", "c"], ["d", "e"]],
        "difficult": [torch.arange(count) for count in counts],
        "batch_names": ["x", "y"],
    }
    result = sanitized(sample, keys={"labels": ["names"]})
    assert [len(boxes) for boxes in result["boxes"]] == [2, 1]
    assert result["names"] == [["a", "c"], ["e"]]
    assert [flags.tolist() for flags in result["difficult"]] == [[0, 2], [1]]
    assert result["batch_names"] == ["x", "y"]


@pytest.mark.parametrize("counts", [(3, 2), (3, 3)])
def test_collated_extras(counts: tuple[int, ...]) -> None:
    flip = transforms.RandomVerticalFlip(1.0)
    chain = transforms.Compose([flip], boxes="sanitize", keys={"labels": ["names"]})
    samples = [
        {
            "image": IMAGE,
            "boxes": BOXES[:count],
            "names": ["a", "b", "c"][:count],
            "difficult": torch.arange(count),
        }
        for count in counts
    ]
    result = chain.collate(samples)
    assert [len(boxes) for boxes in result["boxes"]] == [count - 1 for count in counts]
    assert result["names"] == [["a", "c"][: count - 1] for count in counts]
    assert [flags.tolist() for flags in result["difficult"]] == [
        [0, 2][: count - 1] for count in counts
    ]


def test_extras_follow_after_foreign_transforms() -> None:
    v2 = pytest.importorskip("torchvision.transforms.v2")
    flip = v2.RandomHorizontalFlip(1.0)
    chain = transforms.Compose([flip], boxes="sanitize", keys={"labels": ["names"]})
    sample = {"image": IMAGE, "boxes": BOXES, "names": ["a", "b", "c"]}
    assert chain(sample)["names"] == ["a", "c"]
    batch = {"image": IMAGE[None], "boxes": [BOXES], "names": [["a", "b", "c"]]}
    assert chain(batch)["names"] == [["a", "c"]]


def test_tables_with_a_row_per_box_need_a_name() -> None:
    for rows in (3, 5):
        table = torch.zeros(rows, 8)
        message = f"transforms: sample['table'] is a plain Tensor of shape [{rows}, 8], which may"
        check(TypeError, message, functools.partial(beside_boxes, table=table))
    for kind, rows in (("labels", 2), ("other", 3)):
        sample = {"image": IMAGE, "boxes": BOXES, "table": torch.zeros(3, 8)}
        assert len(sanitized(sample, keys={kind: ["table"]})["table"]) == rows


def test_dicts_of_targets_under_labels_move() -> None:
    """Hugging Face's detectors call the dict with the boxes "labels"."""
    inner = {"boxes": torch.tensor([[0.0, 0, 2, 3]]), "class_labels": [4]}
    for labels in (inner, [inner]):
        found = sanitized({"pixels": tv.Image(IMAGE), "labels": labels})["labels"]
        found = found if isinstance(labels, dict) else found[0]
        assert found["boxes"].tolist() == [[10, 0, 12, 3]]


MAPS = [
    lambda size: torch.arange(size[0] * size[1]).reshape(size),
    lambda size: np.arange(size[0] * size[1]).reshape(size),
    lambda size: np.arange(size[0] * size[1]).reshape(1, *size),
    lambda size: torch.arange(size[0] * size[1]).reshape(size) / 7,
]


@pytest.mark.parametrize("make", MAPS)
@pytest.mark.parametrize("name", ["labels", "scores", "area", "iscrowd", "difficult"])
@pytest.mark.parametrize("size", [(10, 12), (1, 5), (4, 4)])
def test_maps_under_the_names_of_labels_are_masks(make: Any, name: str, size: Any) -> None:
    value = make(size)
    flip = transforms.Compose([transforms.RandomHorizontalFlip(1.0)])
    for _ in range(3):  # the second and third take another way
        found = flip({"image": torch.zeros(3, *size), name: value})[name]
        assert type(found) is type(value)
        assert found.tolist() == np.asarray(value)[..., ::-1].tolist()
    batch = flip(
        {
            "image": torch.zeros(2, 3, *size),
            name: torch.as_tensor(value)[None].repeat(2, *[1] * value.ndim),
        }
    )
    assert batch[name][1].tolist() == np.asarray(value)[..., ::-1].tolist()


def test_pictures_under_the_names_of_labels_are_masks() -> None:
    pil = pytest.importorskip("PIL.Image")
    classes = np.arange(120, dtype=np.uint8).reshape(10, 12)
    chain = transforms.Compose(
        [
            transforms.RandomHorizontalFlip(1.0),
            transforms.ToDtype(torch.float32, scale=True),
            transforms.Normalize([0.5], [0.5]),
        ]
    )
    found = chain({"image": IMAGE.byte(), "labels": pil.fromarray(classes)})["labels"]
    assert found.tolist() == classes[:, ::-1].tolist()
    rgb = pil.new("RGB", (12, 10))
    message = "transforms: sample['labels'] is a PIL image of mode 'RGB', must have one band"
    check(TypeError, message, lambda: chain({"image": IMAGE, "labels": rgb}))


def test_labels_that_are_neither_are_refused() -> None:
    message = "transforms: sample['labels'] is for 1 rows and 77 columns, sample['image'] has"
    tokens = {"image": IMAGE, "labels": torch.zeros(1, 77)}
    check(ValueError, message, lambda: sanitized(tokens))
    message = "transforms: sample['labels'] is a Tensor of shape [3, 10, 12] beside sample['boxes']"
    check(TypeError, message, lambda: beside_boxes(labels=torch.zeros(3, 10, 12)))
    message = "transforms: sample['labels'] has shape [10, 12] in a batch of 2 images; must have an"
    batch = {"image": IMAGE.repeat(2, 1, 1, 1), "labels": torch.zeros(10, 12)}
    check(ValueError, message, lambda: sanitized(batch))
