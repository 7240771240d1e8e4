"""Bad input of run lengths: each row has an input and the message that it must give."""

from typing import Any

import torch
import visops
from bad_input import check

OPS = torch.ops.visops
ENDS, OFFSETS = torch.tensor([3, 6], dtype=torch.int32), torch.tensor([0, 2])


def test_vmap() -> None:
    """Runs can be mapped where all entries have as many; dictionaries can't be made there."""
    masks = torch.zeros(2, 3, 8, 8, dtype=torch.bool)
    masks[..., 2:5, 3:6] = True
    message = "masks_to_rle: under vmap values can't be read; give it all masks as [N, H, W]"
    check(RuntimeError, message, lambda: torch.vmap(visops.masks_to_rle)(masks))
    boxes = torch.tensor([[0.0, 0, 5, 5]]).expand(3, 4)

    def paste(soft: torch.Tensor) -> Any:
        return visops.paste_masks(soft, boxes, (8, 8), out="rle")

    check(
        RuntimeError,
        "paste_masks: under vmap values can't be read; give it all masks and boxes, or another out",
        lambda: torch.vmap(paste)(masks.float()),
    )
    ends, offsets = torch.vmap(OPS.masks_to_runs)(masks)
    bits = torch.vmap(lambda e, o: OPS.runs_to_bits(e, o, [8, 8]))(ends, offsets)
    for i in range(2):
        alone = OPS.masks_to_runs(masks[i])
        assert torch.equal(ends[i], alone[0])
        assert torch.equal(offsets[i], alone[1])
        assert torch.equal(bits[i], OPS.runs_to_bits(*alone, [8, 8]))
    message = "masks_to_runs: under vmap, sample 1 has 3 results and sample 0 has 21"
    masks[1] = False
    check(RuntimeError, message, lambda: torch.vmap(OPS.masks_to_runs)(masks))
