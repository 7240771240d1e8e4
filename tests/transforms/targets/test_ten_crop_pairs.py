"""FiveCrop and TenCrop take a chain's options; mirrored views swap names."""

import pytest
import torch
from visops import transforms as T


def test_mirrored_crops_swap_points_labels_and_classes() -> None:
    points = torch.tensor([[[1.0, 2.0], [6.0, 2.0]]])
    sample = {
        "image": torch.zeros(3, 8, 8),
        "keypoints": points,
        "labels": ["left"],
        "boxes": torch.tensor([[0.0, 0, 4, 4]]),
        "mask": torch.ones(8, 8, dtype=torch.uint8),
    }
    crop = T.TenCrop(8, flip_pairs=[(0, 1)], label_pairs=[("left", "right")], mask_pairs=[(1, 2)])
    views = crop(sample)
    for view in views[:5]:
        assert torch.equal(view["keypoints"], points)
        assert (view["labels"], int(view["mask"][0, 0])) == (["left"], 1)
    for view in views[5:]:
        assert torch.equal(view["keypoints"], torch.tensor([[[1.0, 2.0], [6.0, 2.0]]]))
        assert (view["labels"], int(view["mask"][0, 0])) == (["right"], 2)


def test_a_vertical_mirror_swaps_too() -> None:
    views = T.TenCrop(8, vertical_flip=True, label_pairs=[(1, 2)])(
        {"image": torch.zeros(3, 8, 8), "labels": torch.tensor(1)}
    )
    assert [int(view["labels"]) for view in views] == [1] * 5 + [2] * 5


@pytest.mark.parametrize("crop", [T.FiveCrop, T.TenCrop])
def test_options_reach_the_chains(crop: type) -> None:
    sample = {
        "image": torch.zeros(3, 8, 8),
        "boxes": torch.tensor([[0.0, 0, 2, 2], [6.0, 6, 8, 8]]),
        "labels": [1, 2],
    }
    kept = [view["labels"] for view in crop(4, boxes="sanitize")(sample)[:5]]
    assert kept == [[1], [], [], [2], []]
    with pytest.raises(ValueError, match="boxes is 'drop'"):
        crop(4, boxes="drop")
