"""Properties of weighted boxes fusion, over random problems."""

from collections.abc import Iterator

import numpy as np
import torch
import visops
from hypothesis import given, settings
from hypothesis import strategies as st
from references import box_fusion as reference

from suppression.box_fusion_cases import CONF_TYPES, Ensemble, ensemble
from suppression.nms_cases import BOXES

few = settings(max_examples=5)
seeds = st.integers(0, 2**32 - 1)
KINDS = [kind for kind in BOXES if kind != "odd"]


def problems(seed: int, count: int) -> Iterator[tuple[np.random.Generator, Ensemble, float]]:
    """Ensembles, each with a generator and a threshold."""
    for i in range(count):
        rng = np.random.default_rng([seed, i])
        sizes = tuple(int(n) for n in rng.integers(0, 25, rng.integers(1, 5)))
        kind = ["detections", *KINDS][rng.integers(0, len(KINDS) + 1)]
        models = ensemble(rng, sizes, kind, labels=int(rng.integers(1, 4)))
        yield rng, models, float(rng.choice([0.0, 0.3, 0.55, 0.8]))


@few
@given(seeds, st.sampled_from(CONF_TYPES))
def test_fusion_is_the_reference(seed: int, conf_type: str) -> None:
    for rng, models, threshold in problems(seed, 10):
        weights = rng.uniform(0.1, 3, len(models[0])).tolist()
        options = {"weights": weights, "iou_threshold": threshold, "conf_type": conf_type}
        found = visops.weighted_boxes_fusion(*models, **options)  # type: ignore[arg-type]
        arrays = [[t.numpy() for t in part] for part in models]
        expected = reference.weighted_boxes_fusion(*arrays, **options)  # type: ignore[arg-type]
        assert found[2].tolist() == expected[2].tolist()
        np.testing.assert_allclose(found[0].numpy(), expected[0], rtol=1e-12)
        np.testing.assert_allclose(found[1].numpy(), expected[1], rtol=1e-12)


@few
@given(seeds)
def test_labels_are_independent(seed: int) -> None:
    for _, (boxes, scores, labels), threshold in problems(seed, 10):
        whole = visops.weighted_boxes_fusion(boxes, scores, labels, iou_threshold=threshold)
        for label in torch.cat(labels).unique():
            own = [names == label for names in labels]
            parts = [
                [t[o] for t, o in zip(part, own, strict=True)] for part in (boxes, scores, labels)
            ]
            alone = visops.weighted_boxes_fusion(*parts, iou_threshold=threshold)
            for ours, wanted in zip(whole, alone, strict=True):
                assert torch.equal(ours[whole[2] == label], wanted)


@few
@given(seeds)
def test_a_threshold_of_one_fuses_nothing(seed: int) -> None:
    for _, (boxes, scores, labels), _ in problems(seed, 10):
        found = visops.weighted_boxes_fusion(boxes, scores, labels, iou_threshold=1)
        takes_part = torch.cat(scores) >= 0
        takes_part &= torch.cat(scores).isfinite()
        assert len(found[0]) == int(takes_part.sum())
        values = torch.cat(scores)[takes_part]
        expected = (values / len(boxes)).sort(descending=True)[0]
        torch.testing.assert_close(found[1], expected, rtol=1e-15, atol=0)
        rows = {tuple(box) for box in torch.cat(boxes)[takes_part].tolist()}
        assert {tuple(box) for box in found[0].tolist()} <= rows


@few
@given(seeds)
def test_fused_boxes_lie_within_their_boxes(seed: int) -> None:
    for _, (boxes, scores, labels), threshold in problems(seed, 10):
        found = visops.weighted_boxes_fusion(boxes, scores, labels, iou_threshold=threshold)
        values = torch.cat(scores)
        takes_part = (values >= 0) & values.isfinite()
        assert bool(len(found[0])) == bool(takes_part.any())
        if not takes_part.any():
            continue
        everything, values = torch.cat(boxes)[takes_part], values[takes_part]
        slack = 1e-12 * everything.abs().max()
        assert (found[0] >= everything.amin(0) - slack).all()
        assert (found[0] <= everything.amax(0) + slack).all()
        assert ((found[1] >= 0) & (found[1] <= values.max() * (1 + 1e-15))).all()


@few
@given(seeds)
def test_scale(seed: int) -> None:
    """Scaling boxes or weights by powers of two changes no bit of the rest."""
    for _, (boxes, scores, labels), threshold in problems(seed, 10):
        plain = visops.weighted_boxes_fusion(boxes, scores, labels, iou_threshold=threshold)
        large = visops.weighted_boxes_fusion(
            [b * 8 for b in boxes],
            scores,
            labels,
            weights=[4] * len(boxes),
            iou_threshold=threshold,
        )
        assert torch.equal(large[0], plain[0] * 8)
        assert torch.equal(large[1], plain[1])
