"""collate_yolo: batches of images, and one tensor of all their boxes."""

import functools
from typing import Any

import numpy as np
import pytest
import torch
from visops import transforms as T

BOXES = torch.tensor([[10.0, 20, 30, 60], [0, 0, 100, 80]])
IMAGE = torch.arange(3 * 80 * 100).reshape(3, 80, 100).to(torch.uint8)
SAMPLE = {"image": IMAGE, "boxes": BOXES, "labels": torch.tensor([7, 2])}
EMPTY = {"image": IMAGE, "boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.int64)}
ROWS = [[7, 0.2, 0.5, 0.2, 0.5], [2, 0.5, 0.5, 1, 1]]


def test_targets() -> None:
    images, targets = T.collate_yolo([SAMPLE, EMPTY, SAMPLE])
    assert torch.equal(images, torch.stack([IMAGE] * 3))
    assert targets.dtype is torch.float32
    expected = [[0.0, *ROWS[0]], [0.0, *ROWS[1]], [2.0, *ROWS[0]], [2.0, *ROWS[1]]]
    assert torch.equal(targets, torch.tensor(expected))
    assert T.collate_yolo([EMPTY])[1].shape == (0, 6)


FORMS: dict[str, Any] = {
    "xyxy": BOXES,
    "xywh": [[10, 20, 20, 40], [0, 0, 100, 80]],
    "cxcywh": np.array([[20.0, 40, 20, 40], [50, 40, 100, 80]]),
    "yolo": [row[1:] for row in ROWS],
    "albumentations": [[0.1, 0.25, 0.3, 0.75], [0.0, 0.0, 1.0, 1.0]],
}


@pytest.mark.parametrize("form", FORMS)
def test_formats(form: Any) -> None:
    """Nested targets, other names, arrays of images with channels last."""
    sample = (IMAGE.movedim(0, 2).numpy(), {"bboxes": FORMS[form], "cls": [7.0, 2.0]})
    images, targets = T.collate_yolo([sample], box_format=form)
    assert torch.equal(images[0], IMAGE)
    torch.testing.assert_close(targets, torch.tensor([[0.0, *row] for row in ROWS]))


def test_loader() -> None:
    chain = T.Compose([T.RandomHorizontalFlip(1), T.Resize((40, 50))], box_format="yolo", seed=0)
    collate = functools.partial(T.collate_yolo, box_format="yolo")
    sample = {**SAMPLE, "boxes": torch.tensor(FORMS["yolo"])}
    (batch,) = T.Loader([sample, sample], chain, 2, collate=collate)
    assert batch[0].shape == (2, 3, 40, 50)
    flipped = torch.tensor([[7, 0.8, 0.5, 0.2, 0.5], ROWS[1]])
    torch.testing.assert_close(batch[1][2:, 1:], flipped)


WRONG: list[tuple[Any, type[Exception], str]] = [
    (
        [SAMPLE, {**SAMPLE, "image": IMAGE[:, 1:]}],
        ValueError,
        "sample 0 has an image of 80 x 100, ",
    ),
    ([IMAGE], ValueError, "a sample has 0 of kind 'boxes', must have one set of boxes"),
    ([{"image": IMAGE, "boxes": BOXES}], ValueError, "no classes are beside sample"),
    ([{**SAMPLE, "labels": ["cat", "dog"]}], TypeError, "sample.* must be a whole number for each"),
    ([{**SAMPLE, "labels": [0.5, 1]}], TypeError, "sample.* must be a whole number for each box"),
    ([{**SAMPLE, "image": {"image": IMAGE, "img": IMAGE}}], ValueError, "a sample has 2 of kind"),
]


@pytest.mark.parametrize(("samples", "error", "message"), WRONG)
def test_bad_input(samples: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=rf"^visops\.transforms\.collate_yolo: {message}"):
        T.collate_yolo(samples)
    with pytest.raises(ValueError, match="collate_yolo: box_format is 'coco', must be"):
        T.collate_yolo([SAMPLE], box_format="coco")  # type: ignore[arg-type]
