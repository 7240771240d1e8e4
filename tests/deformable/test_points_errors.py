"""Bad input to point samples: each row is an input and the message it must give."""

import torch
import visops

MAPS, POINTS = torch.zeros(2, 3, 4, 5), torch.zeros(2, 6, 2)


def test_expanded_maps() -> None:
    """Maps larger than any memory, of one element."""
    maps = torch.ones(1, 1, 1, 1).expand(1, 2, 2**20, 2**20)
    found = visops.point_sample(maps, torch.rand(1, 50, 2) * 0.9 + 0.05)
    torch.testing.assert_close(found, torch.ones(1, 2, 50))
