"""Properties of matrix suppression, over random problems."""

import numpy as np
import pytest
import torch
import visops
from hypothesis import given, settings
from hypothesis import strategies as st
from references import matrix_nms as reference

from suppression.nms_cases import BOXES, distinct_scores, tied_scores

few = settings(max_examples=6)
seeds = st.integers(0, 2**32 - 1)
KINDS = [kind for kind in BOXES if kind != "odd"]


@pytest.mark.parametrize("method", ["gaussian", "linear"])
@few
@given(seed=seeds)
def test_matrix_suppression_is_the_reference(method: str, seed: int) -> None:
    for i in range(5):
        rng = np.random.default_rng([seed, i])
        count = int(rng.integers(0, 40))
        kind = KINDS[rng.integers(0, len(KINDS))]
        boxes = BOXES[kind](rng, count)
        scores = (distinct_scores, tied_scores)[rng.integers(0, 2)](rng, count)
        idxs = rng.integers(0, 3, count)
        sigma = float(rng.choice([0.1, 0.5, 2.0, 8.0]))
        keep, changed = visops.matrix_nms(boxes, scores, idxs, method=method, sigma=sigma)
        expected = reference.new_scores(boxes, scores, idxs.tolist(), method, sigma)
        assert set(keep.tolist()) == set(expected)
        wanted = [expected[i] for i in keep.tolist()]
        np.testing.assert_allclose(changed, wanted, rtol=1e-12, atol=1e-15)
        assert (changed <= scores[keep]).all()
        # A limit is a filter.
        least, most = float(rng.random()), int(rng.integers(0, 20))
        options = {"method": method, "sigma": sigma, "min_score": least, "max_output": most}
        limited = visops.matrix_nms(boxes, scores, idxs, **options)  # type: ignore[arg-type]
        enough = changed >= least
        assert limited[0].tolist() == keep[enough][:most].tolist()
        assert limited[1].tolist() == changed[enough][:most].tolist()


@few
@given(seeds)
def test_order_does_not_matter_if_scores_differ(seed: int) -> None:
    for i in range(5):
        rng = np.random.default_rng([seed, i])
        count = int(rng.integers(1, 60))
        boxes = torch.from_numpy(BOXES[KINDS[rng.integers(0, len(KINDS))]](rng, count)).float()
        scores = torch.from_numpy(distinct_scores(rng, count)).float()
        order = torch.from_numpy(rng.permutation(count))
        keep, changed = visops.matrix_nms(boxes, scores)
        moved = visops.matrix_nms(boxes[order], scores[order])
        by_index = torch.empty(count).index_copy(0, keep, changed)
        assert torch.equal(by_index[order[moved[0]]], moved[1])
