"""The layer of deformable attention, with mmcv's names, and in the detectors of transformers."""

import math
from importlib import import_module
from typing import Any

import pytest
import torch
import visops
from bad_input import check, table
from torch import Tensor, nn
from torch.nn import functional
from visops import compat

from deformable.attention_cases import METHODS, SHAPES, by_grid_sample, problem

STARTS = (0, 63, 83, 86)
POSITIONS = 89


def layer(**options: Any) -> visops.MultiScaleDeformableAttention:
    """Return one whose parameters are random, as after training."""
    made = visops.MultiScaleDeformableAttention(24, num_heads=3, num_points=2, **options)
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.3)
    return made


def inputs(numbers: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, reference points or boxes, and the pyramid."""
    return torch.randn(2, 5, 24), torch.rand(2, 5, 4, numbers), torch.randn(2, POSITIONS, 24)


def written_out(
    module: visops.MultiScaleDeformableAttention,
    query: Tensor,
    references: Tensor,
    pyramid: Tensor,
    mask: Tensor | None = None,
) -> Tensor:
    """The layer as the paper defines it, head by head, on grid_sample."""
    own = dict(module.named_parameters())

    def project(name: str, x: Tensor) -> Tensor:
        return functional.linear(x, own[f"{name}.weight"], own[f"{name}.bias"])

    value = project("value_proj", pyramid)
    if mask is not None:
        value = torch.where(mask[..., None], 0.0, value)
    offsets = project("sampling_offsets", query).view(2, 5, 3, 4, 2, 2)
    weights = project("attention_weights", query).view(2, 5, 3, 8).softmax(3).view(2, 5, 3, 4, 2)
    locations = torch.empty(2, 5, 3, 4, 2, 2)
    for level, (height, width) in enumerate(SHAPES):
        for point in range(2):
            reference, offset = references[:, :, level], offsets[:, :, :, level, point]
            if references.shape[-1] == 2:
                moved = offset / torch.tensor([width, height])
            else:
                moved = offset / 2 * reference[:, :, None, 2:] / 2
            locations[:, :, :, level, point] = reference[:, :, None, :2] + moved
    attended = by_grid_sample(value.view(2, POSITIONS, 3, 8), SHAPES, locations, weights)
    return project("output_proj", attended)


@pytest.mark.parametrize("numbers", [2, 4])
def test_values(numbers: int) -> None:
    module, given = layer(), inputs(numbers)
    mask = torch.rand(2, POSITIONS) < 0.3
    starts = torch.tensor(STARTS)
    for shapes in (SHAPES, torch.tensor(SHAPES)):
        for padding in (None, mask):
            found = module(*given, shapes, starts, padding)
            wanted = written_out(module, *given, padding)
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_parameters_begin_as_theirs() -> None:
    """The names and shapes in published checkpoints, and the initial values of both projects."""
    module = visops.MultiScaleDeformableAttention()
    shapes = {name: tuple(value.shape) for name, value in module.state_dict().items()}
    assert shapes == {
        "sampling_offsets.weight": (256, 256),
        "sampling_offsets.bias": (256,),
        "attention_weights.weight": (128, 256),
        "attention_weights.bias": (128,),
        "value_proj.weight": (256, 256),
        "value_proj.bias": (256,),
        "output_proj.weight": (256, 256),
        "output_proj.bias": (256,),
    }
    bias = module.sampling_offsets.bias.view(8, 4, 4, 2)
    for head in range(8):
        x, y = math.cos(head * math.pi / 4), math.sin(head * math.pi / 4)
        unit = torch.tensor([x, y]) / max(abs(x), abs(y))
        for point in range(4):
            expected = (unit * (point + 1)).expand(4, 2)
            torch.testing.assert_close(bias[head, :, point], expected, rtol=0, atol=1e-5)
    for name in ("sampling_offsets.weight", "attention_weights.weight", "attention_weights.bias"):
        assert not bool(module.state_dict()[name].any())
    for projection in (module.value_proj, module.output_proj):
        bound = math.sqrt(6 / 512)
        assert 0.95 * bound < float(projection.weight.detach().abs().max()) <= bound
        assert not bool(projection.bias.any())


def test_compile_and_gradients() -> None:
    module, given = layer(), inputs()
    found = torch.compile(module, fullgraph=True, backend="aot_eager")(*given, SHAPES)
    wanted = module(*given, SHAPES)
    torch.testing.assert_close(found, wanted)
    found.sum().backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, name
        assert bool(parameter.grad.isfinite().all())
        assert bool(parameter.grad.any())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast(dtype: torch.dtype) -> None:
    module, given = layer(), inputs()
    with torch.autocast("cpu", dtype=dtype):
        found = module(*given, SHAPES)
    assert found.dtype == dtype
    torch.testing.assert_close(found.float(), module(*given, SHAPES), rtol=0.1, atol=0.3)


def test_one_reference_for_all_levels() -> None:
    """As RT-DETR's decoder gives them."""
    module, (query, references, pyramid) = layer(), inputs(4)
    found = module(query, references[:, :, :1], pyramid, SHAPES)
    wanted = module(query, references[:, :, :1].expand(-1, -1, 4, -1), pyramid, SHAPES)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


def test_repr() -> None:
    text = repr(visops.MultiScaleDeformableAttention(64, 4))
    assert "embed_dims=64, num_heads=4, num_levels=4, num_points=4" in text


@table(
    (
        ValueError,
        "MultiScaleDeformableAttention: embed_dims is 30, must be a multiple of num_heads, 8",
        lambda: visops.MultiScaleDeformableAttention(30),
    ),
    (
        ValueError,
        "MultiScaleDeformableAttention: num_points is 0, must be > 0",
        lambda: visops.MultiScaleDeformableAttention(num_points=0),
    ),
    (
        ValueError,
        "MultiScaleDeformableAttention: reference_points has shape [2, 5, 4, 3], must be "
        "[2, 5, 4, 2] or [2, 5, 4, 4]",
        lambda: layer()(*inputs(3), SHAPES),
    ),
    (
        ValueError,
        "MultiScaleDeformableAttention: query has shape [2, 5, 23], must be [B, Q, 24]",
        lambda: layer()(inputs()[0][..., :-1], *inputs()[1:], SHAPES),
    ),
    (
        ValueError,
        "MultiScaleDeformableAttention: value has shape [89, 24], must be [B, S, 24]",
        lambda: layer()(*inputs()[:2], inputs()[2][0], SHAPES),
    ),
    (
        ValueError,
        "MultiScaleDeformableAttention: value has 1 images, query has 2",
        lambda: layer()(*inputs()[:2], inputs()[2][:1], SHAPES),
    ),
    (
        TypeError,
        "MultiScaleDeformableAttention: value is a ndarray, must be a torch.Tensor",
        lambda: layer()(*inputs()[:2], inputs()[2].numpy(), SHAPES),
    ),
    (
        TypeError,
        "MultiScaleDeformableAttention: key_padding_mask has dtype float32, must be bool",
        lambda: layer()(*inputs(), SHAPES, None, torch.zeros(2, POSITIONS)),
    ),
    (
        ValueError,
        "MultiScaleDeformableAttention: key_padding_mask has shape [2, 5], must be [2, 89]",
        lambda: layer()(*inputs(), SHAPES, None, torch.zeros(2, 5, dtype=torch.bool)),
    ),
)
def test_bad_input(error: type[Exception], message: str, call: Any) -> None:
    check(error, message, call)


def test_functions_of_mmcv_and_the_extension() -> None:
    made = problem(points=2)
    value = made.value
    locations, weights = made.locations.unflatten(3, (4, 2)), made.weights.unflatten(3, (4, 2))
    leaves = [t.requires_grad_() for t in (value, locations, weights)]
    shapes, starts = torch.tensor(SHAPES), torch.tensor(STARTS)
    wanted = visops.multi_scale_deformable_attention(value, SHAPES, locations, weights)
    grad = torch.rand_like(wanted)
    of_ours = torch.autograd.grad(wanted, leaves, grad, retain_graph=True)
    found = compat.multi_scale_deformable_attn_pytorch(value, shapes, locations, weights)
    assert torch.equal(found, wanted)
    arguments = (value, shapes, starts, locations, weights)
    found = compat.MultiScaleDeformableAttnFunction.apply(*arguments, 64)
    assert torch.equal(found, wanted)
    of_theirs = torch.autograd.grad(found, leaves, grad)
    assert all(torch.equal(a, b) for a, b in zip(of_theirs, of_ours, strict=True))
    found = compat.ms_deform_attn_forward(*arguments, 64)
    assert torch.equal(found, wanted)
    assert not found.requires_grad
    with torch.no_grad():
        returned = compat.ms_deform_attn_backward(*arguments, grad, 64)
    assert all(torch.equal(a, b) for a, b in zip(returned, of_ours, strict=True))


def test_layer_of_deformable_detr() -> None:
    theirs = compat.MSDeformAttn(24, 4, 3, 2)
    theirs.load_state_dict(layer().state_dict())
    ours = layer()
    ours.load_state_dict(theirs.state_dict())
    given = inputs()
    mask = torch.rand(2, POSITIONS) < 0.3
    found = theirs(*given, torch.tensor(SHAPES), torch.tensor(STARTS), mask)
    assert torch.equal(found, ours(*given, SHAPES, STARTS, mask))


@pytest.mark.parametrize(
    ("position", "given", "kind"),
    [
        (0, [1.0], "list"),
        (3, None, "NoneType"),
        (4, torch.ones(1, 1, 1, 1, 1, dtype=torch.int64), "tensor of torch.int64"),
    ],
)
def test_the_extensions_gradient_takes_floating_tensors(
    position: int, given: Any, kind: str
) -> None:
    arguments: list[Any] = [
        *(torch.zeros(1, 4, 1, 1), torch.tensor([[2, 2]]), torch.tensor([0])),
        *(torch.zeros(1, 1, 1, 1, 1, 2), torch.zeros(1, 1, 1, 1, 1), torch.ones(1, 1, 1)),
    ]
    arguments[position] = given
    name = ("value", "", "", "sampling_loc", "attn_weight")[position]
    with pytest.raises(
        TypeError, match=rf"^visops\.compat\.ms_deform_attn_backward: {name} is a {kind}"
    ):
        compat.ms_deform_attn_backward(*arguments)


def test_initial_samples_lie_on_kinks() -> None:
    """There, differences disagree with each other; beside them, they agree with the gradient."""
    torch.manual_seed(0)
    layer = visops.MultiScaleDeformableAttention(8, 1, 1, 2).double()
    shapes = [(3, 4)]
    centres = torch.tensor(
        [[(x + 0.5) / 4, (y + 0.5) / 3] for y in range(3) for x in range(4)], dtype=torch.float64
    )
    positions = centres.view(1, 12, 1, 2)
    query, value = torch.rand(2, 1, 12, 8, dtype=torch.float64)
    bias = layer.sampling_offsets.bias

    def call(offsets: Tensor) -> Tensor:
        parameters = {"sampling_offsets.bias": offsets}
        found: Tensor = torch.func.functional_call(
            layer, parameters, (query, positions, value, shapes)
        )
        return found

    centred = bias.detach().round().requires_grad_()
    assert not torch.autograd.gradcheck(call, centred, raise_exception=False)
    assert torch.autograd.gradcheck(call, (centred.detach() + 0.3).requires_grad_())


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
        method: Any,
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
