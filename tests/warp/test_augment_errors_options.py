"""Bad values, windows, rectangles and `out` of the augmentation, each with its message."""

import pytest
import torch
import visops

from warp.augment_bad_calls import (
    GOOD,
    IDENTITY,
    INF,
    NAN,
    SINGULAR,
    SIZE,
    images,
    tensor,
)


def test_nothing_is_written_before_an_error() -> None:
    bad = images(*GOOD[:2], (4, 4, 4))
    out = torch.full((3, 3, *SIZE), -7.0)
    with pytest.raises(RuntimeError, match=r"images\[2\]"):
        visops.augment(bad, IDENTITY, SIZE, out=out)
    late = [IDENTITY, IDENTITY, SINGULAR]
    with pytest.raises(RuntimeError, match=r"matrix\[2\]"):
        visops.augment(images(*GOOD), late, SIZE, out=out)
    assert (out == -7.0).all()


def test_in_place() -> None:
    image = torch.zeros(1, 1, 8, 8)
    for out in (image, image[:, :, 1:, 1:], image.transpose(2, 3)):
        with pytest.raises(
            RuntimeError, match=r"^visops\.augment: out shares memory with image; an augmentation"
        ):
            visops.augment(image, IDENTITY, out.shape[2:], out=out)
    other = torch.zeros(1, 5, 5)
    with pytest.raises(
        RuntimeError, match=r"^visops\.augment: out shares memory with images\[1\]; an augmentation"
    ):
        visops.augment([other, image[0]], IDENTITY, (4, 8), out=image.view(2, 1, 4, 8))


def test_infinite_fill_is_allowed() -> None:
    """NaN and infinities are values like others for floating images."""
    moved = [[1, 0, 3], [0, 1, 0]]
    for fill in (NAN, INF, -INF):
        for antialias in (False, True):
            result = visops.augment(
                tensor(), moved, (4, 5), fill=fill, antialias=antialias, erase_value=NAN
            )
            assert torch.equal(result[..., 3:], tensor()[..., 3:])
            expected = torch.full_like(result[..., :3], fill)
            torch.testing.assert_close(result[..., :3], expected, equal_nan=True)


@pytest.mark.cuda
def test_cuda() -> None:
    image = torch.rand(2, 3, 4, 5, device="cuda")
    with pytest.raises(
        RuntimeError, match=r"^visops\.augment: matrix is on cpu, image is on cuda:0"
    ):
        visops.augment(image, torch.tensor(IDENTITY), (4, 5))
    with pytest.raises(
        RuntimeError, match=r"^visops\.augment: images\[1\] is on cpu, images\[0\] is on cuda:0"
    ):
        visops.augment([image[0], image[1].cpu()], IDENTITY, (4, 5))
    # Values of CUDA tensors are not looked at: such a sample is `fill`.
    for bad in (SINGULAR, [[NAN, 0.0, 0.0], [0.0, 1.0, 0.0]]):
        matrices = torch.tensor([IDENTITY, bad], device="cuda")
        result = visops.augment(image, matrices, (4, 5), fill=[1, 2, 3])
        assert torch.equal(result[0], image[0])
        assert result[1].mean((1, 2)).tolist() == [1, 2, 3]
    window = torch.tensor([[0, 0, 5, 4.0], [3, 0, NAN, 4]], device="cuda")
    result = visops.augment(image, IDENTITY, (4, 5), fill=9, window=window)
    assert (result[1] == 9).all()
