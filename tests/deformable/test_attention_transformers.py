"""Deformable DETR and RT-DETRv2 of transformers, random weights: the same with our operator."""

from importlib import import_module
from typing import Any

import pytest
import torch
import visops
from torch import Tensor

from deformable.attention_cases import METHODS, by_grid_sample, problem

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

BACKBONE: dict[str, Any] = {
    "embedding_size": 8,
    "hidden_sizes": [8, 8, 16, 16],
    "depths": [1, 1, 1, 1],
    "layer_type": "basic",
    "out_features": ["stage2", "stage3", "stage4"],
}


def ours(
    self: Any,
    value: Tensor,
    value_spatial_shapes: Tensor,
    value_spatial_shapes_list: list[tuple[int, int]],
    level_start_index: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
    im2col_step: int,
) -> Tensor:
    found: Tensor = visops.multi_scale_deformable_attention(
        value,
        value_spatial_shapes_list,
        sampling_locations,
        attention_weights,
        level_start_index=level_start_index,
    )
    return found


def small_detr() -> Any:
    """A Deformable DETR without pretrained parts."""
    backbone = transformers.ResNetConfig(**BACKBONE)
    config = transformers.DeformableDetrConfig(
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        backbone_config=backbone,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        num_queries=10,
        num_labels=3,
        dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
    )
    return transformers.DeformableDetrForObjectDetection(config)


def small_rt_detr(method: str) -> Any:
    """An RT-DETRv2 without pretrained parts, and without queries of noisy targets."""
    backbone = transformers.RTDetrResNetConfig(**BACKBONE)
    config = transformers.RTDetrV2Config(
        backbone_config=backbone,
        encoder_in_channels=[8, 16, 16],
        decoder_in_channels=[32, 32, 32],
        encoder_hidden_dim=32,
        d_model=32,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        num_queries=10,
        num_denoising=0,
        num_labels=3,
        decoder_method=method,
    )
    return transformers.RTDetrV2ForObjectDetection(config)


class TrainingStep:
    """Outputs, loss and gradients of all parameters, for two images with two objects each."""

    def __init__(self, model: Any) -> None:
        torch.manual_seed(0)
        self._model = model.double()
        for name, parameter in model.named_parameters():
            if "sampling_offsets" in name:  # initially whole pixels, where slopes jump
                torch.nn.init.normal_(parameter, std=0.3)
        self._images = torch.rand(2, 3, 96, 128, dtype=torch.float64)
        self._mask = torch.ones(2, 96, 128, dtype=torch.int64)
        self._mask[1, :, 100:] = 0
        self._labels = [
            {"class_labels": torch.tensor([i, 1]), "boxes": torch.rand(2, 4, dtype=torch.float64)}
            for i in range(2)
        ]

    def __call__(self) -> list[Tensor]:
        self._model.zero_grad()
        out = self._model(pixel_values=self._images, pixel_mask=self._mask, labels=self._labels)
        out.loss.backward()
        grads = [p.grad for p in self._model.parameters() if p.grad is not None]
        return [out.logits.detach(), out.pred_boxes.detach(), out.loss.detach(), *grads]


def assert_same(found: list[Tensor], wanted: list[Tensor]) -> None:
    assert len(found) == len(wanted) > 50
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)


def test_deformable_detr(monkeypatch: pytest.MonkeyPatch) -> None:
    modeling = import_module("transformers.models.deformable_detr.modeling_deformable_detr")
    calls = []

    def counted(*arguments: Any, **named: Any) -> Tensor:
        calls.append(arguments[0])
        return ours(*arguments, **named)

    step = TrainingStep(small_detr())
    wanted = step()
    monkeypatch.setattr(modeling.MultiScaleDeformableAttention, "forward", counted)
    assert_same(step(), wanted)
    assert len(calls) == 4


@pytest.mark.parametrize("method", METHODS)
def test_rt_detr_v2(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    modeling = import_module("transformers.models.rt_detr_v2.modeling_rt_detr_v2")
    calls = []

    def counted(
        value: Tensor,
        shapes: list[tuple[int, int]],
        locations: Tensor,
        weights: Tensor,
        points: list[int],
        method: str,
    ) -> Tensor:
        calls.append(method)
        found: Tensor = visops.multi_scale_deformable_attention(
            value, shapes, locations, weights, num_points_list=points, method=method
        )
        return found

    step = TrainingStep(small_rt_detr(method))
    wanted = step()
    monkeypatch.setattr(modeling, "multi_scale_deformable_attention_v2", counted)
    assert_same(step(), wanted)
    assert calls == [method] * 2


def test_layer_loads_a_state_dict() -> None:
    """The parameters of one of its attention layers, and what they compute."""
    theirs = small_detr().model.encoder.layers[0].self_attn
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    layer = visops.MultiScaleDeformableAttention(32, 4, theirs.n_levels, theirs.n_points)
    layer.load_state_dict(theirs.state_dict())
    shapes = [(6, 8), (3, 4), (2, 2), (1, 1)]
    positions = sum(h * w for h, w in shapes)
    hidden, references = torch.randn(2, positions, 32), torch.rand(2, positions, 4, 2)
    wanted = theirs(
        hidden_states=hidden,
        encoder_hidden_states=hidden,
        reference_points=references,
        spatial_shapes=torch.tensor(shapes),
        spatial_shapes_list=shapes,
        level_start_index=torch.tensor([0, 48, 60, 64]),
    )[0]
    torch.testing.assert_close(
        layer(hidden, references, hidden, shapes), wanted, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("method", METHODS)
def test_method_of_rt_detr_v2(method: str) -> None:
    """Its function, with different numbers of samples per level, and its gradients."""
    modeling = import_module("transformers.models.rt_detr_v2.modeling_rt_detr_v2")
    made = problem(torch.float64, points=(3, 1, 2, 4), on_pixels=False)
    made.locations = made.locations.clamp(-3, 3)
    leaves = made.with_gradients().leaves
    wanted = modeling.multi_scale_deformable_attention_v2(
        made.value, made.shapes, made.locations, made.weights, list(made.points), method
    )
    found = made.attend(method)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    grad = torch.rand_like(found)
    of_ours = torch.autograd.grad(found, leaves, grad, allow_unused=True)
    of_theirs = torch.autograd.grad(wanted, leaves, grad, allow_unused=True)
    for name, a, b in zip(("value", "locations", "weights"), of_ours, of_theirs, strict=True):
        if name == "locations":
            assert (a is None) == (method == "discrete")
            continue  # slopes jump at the borders that some samples lie on
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_function_is_theirs() -> None:
    """grid_sample's form in these tests and in the benchmark is transformers' computation."""
    modeling = import_module("transformers.models.deformable_detr.modeling_deformable_detr")
    made = problem(torch.float64, points=2)
    locations, weights = made.locations.unflatten(3, (4, 2)), made.weights.unflatten(3, (4, 2))
    wanted = modeling.MultiScaleDeformableAttention()(
        made.value, None, list(made.shapes), None, locations, weights, 64
    )
    found = by_grid_sample(made.value, made.shapes, locations, weights)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
