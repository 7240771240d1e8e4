"""Maps without rotation, whose taps are read in windows: the same bits as pixel by pixel."""

import pytest
import torch
import visops
from kernels import SLOTS, use_slot
from torch import Tensor

DTYPES = (torch.uint8, torch.int16, torch.float16, torch.bfloat16, torch.float32)
# Around the scales at which a vector's taps just fill a window, for vectors of 8 and of 16.
SCALES = (0.04, 0.5, 0.97, 1.0, 1.72, 1.8, 1.86, 1.93, 1.97, 1.999, 2.0, 2.3)


def matrices() -> Tensor:
    """Scales and flips with a fraction of a pixel, from destination to source."""
    rows = []
    for scale in SCALES:
        for sign in (1, -1):
            start = 0.3 if sign > 0 else 141.7
            rows.append([[sign * scale, 0, start], [0, scale, 0.6]])
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("slot", [slot for slot in SLOTS if slot != "default"])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bits(dtype: torch.dtype, mode: str, slot: str) -> None:
    matrix = matrices()
    image = (torch.rand(1, 2, 37, 143, dtype=torch.float64) * 255).to(dtype)
    images = image.expand(len(matrix), -1, -1, -1)

    def results() -> list[Tensor]:
        warped = visops.warp_affine(images, matrix, (11, 150), mode=mode, inverse_map=True)
        if dtype == torch.int16:
            return [warped]
        forward = torch.linalg.inv(
            torch.cat([matrix, matrix.new_tensor([[[0, 0, 1]]] * len(matrix))], 1)
        )
        return [warped, visops.augment(images, forward[:, :2], (11, 150), mode=mode)]

    with use_slot("default"):
        wanted = results()
    with use_slot(slot):
        found = results()
    for a, b in zip(found, wanted, strict=True):
        assert torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))
    assert wanted[0].double().std() > 1
