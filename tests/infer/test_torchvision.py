"""torchvision models: built with its settings, fed its inputs, filtered by our thresholds."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torchvision.models import WeightsEnum, get_model, get_model_weights
from visops.infer import Auto, Detection, Model, Preprocess, load_model, load_models
from visops.infer.models.torchvision import Thresholds, build, preprocess_of

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter"),
]

CPU = torch.device("cpu")


@pytest.fixture
def pretrained(monkeypatch: pytest.MonkeyPatch) -> Callable[..., nn.Module]:
    """Build a network as torchvision does to load its own weights, which are not available here."""

    def made(name: str, weights: str = "DEFAULT", **options: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(WeightsEnum, "get_state_dict", lambda *_, **__: {})
            patch.setattr(nn.Module, "load_state_dict", lambda *_, **__: None)
            return get_model(name, weights=get_model_weights(name)[weights], **options).eval()

    return made


def empty(network: nn.Module) -> dict[str, Tensor]:
    """Return a state dict with the right names and shapes that takes almost no memory."""
    return {
        name: torch.ones((), dtype=value.dtype).expand(value.shape)
        for name, value in network.state_dict().items()
    }


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        *[(f"{kind}_resnet50_fpn", "COCO_V1") for kind in ("fasterrcnn", "keypointrcnn", "fcos")],
        *[(f"{kind}_resnet50_fpn", "COCO_V1") for kind in ("maskrcnn", "retinanet")],
        *[(f"{kind}_resnet50_fpn_v2", "COCO_V1") for kind in ("fasterrcnn", "retinanet")],
        ("fasterrcnn_mobilenet_v3_large_fpn", "COCO_V1"),
        ("ssdlite320_mobilenet_v3_large", "COCO_V1"),
        ("ssd300_vgg16", "COCO_V1"),
        ("fcn_resnet50", "DEFAULT"),
        ("deeplabv3_mobilenet_v3_large", "DEFAULT"),
        ("lraspp_mobilenet_v3_large", "DEFAULT"),
        ("inception_v3", "DEFAULT"),
        ("resnet18", "DEFAULT"),
    ],
)
def test_torchvisions_weights_fit_the_network_that_is_built(
    tmp_path: Path, pretrained: Any, name: str, weights: str
) -> None:
    # The repr shows all parts, including epsilons. Nothing is computed, so values are not needed.
    with torch.device("meta"):
        theirs = pretrained(name, weights)
        torch.save(empty(theirs), tmp_path / f"{name}.pth")
        ours: Any = build(name, str(tmp_path), 0)
    assert repr(ours) == repr(theirs)
    assert getattr(ours, "transform_input", None) == getattr(theirs, "transform_input", None)


def test_weights_trained_from_scratch(tmp_path: Path) -> None:
    name = "fasterrcnn_resnet50_fpn"
    with torch.device("meta"):
        theirs = get_model(name, weights=None, weights_backbone=None)
        torch.save(empty(theirs), tmp_path / f"{name}.pth")
        assert repr(build(name, str(tmp_path), 0)) == repr(theirs)
        theirs = get_model("fcn_resnet50", weights=None, weights_backbone=None)
        torch.save(empty(theirs), tmp_path / "fcn_resnet50.pth")
        assert repr(build("fcn_resnet50", str(tmp_path), 0)) == repr(theirs)


@pytest.mark.filterwarnings("ignore:auxiliary heads in the pretrained")
@pytest.mark.parametrize("heads", [True, False])
def test_scores_of_a_network_trained_in_tensorflow(
    tmp_path: Path, pretrained: Any, heads: bool
) -> None:
    theirs = pretrained("googlenet", **({"aux_logits": True} if heads else {}))
    torch.save(theirs.state_dict(), tmp_path / "googlenet.pth")
    model = load_model("googlenet", str(tmp_path))
    model.to(CPU, torch.contiguous_format)
    images = torch.rand(2, 3, 64, 64)
    with torch.inference_mode():
        assert torch.equal(model.forward(images, [], []), theirs(images))


def test_a_transformer_is_of_the_size_of_its_weights(tmp_path: Path, pretrained: Any) -> None:
    with torch.device("meta"):
        theirs = pretrained("vit_b_16", "IMAGENET1K_SWAG_E2E_V1")
        torch.save(empty(theirs), tmp_path / "vit_b_16.pth")
        ours: Any = build("vit_b_16", str(tmp_path), 0)
        assert ours.image_size == theirs.image_size == 384
        assert preprocess_of("vit_b_16", ours) == Preprocess((384, 384), "crop", crop=1.0)
        whole = preprocess_of("vit_b_16", build("vit_b_16", "random", 0))
        assert whole == Preprocess((224, 224), "crop")


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (
            {"model": {"weight": torch.ones(1)}, "epoch": 3},
            "holds model, epoch, must hold a state dict",
        ),
        ([torch.ones(1)], "holds a list, must hold a state dict"),
        ({"weight": torch.ones(1)}, "doesn't fit squeezenet1_1: Error"),
        (b"no file of torch", "is not a state dict: "),
    ],
)
def test_errors_name_the_file_of_weights(tmp_path: Path, state: Any, message: str) -> None:
    path = tmp_path / "squeezenet1_1.pth"
    if isinstance(state, bytes):
        path.write_bytes(state)
    else:
        torch.save(state, path)
    with pytest.raises(ValueError, match=f"visops.infer: .*squeezenet1_1.pth {message}") as caught:
        load_model("squeezenet1_1", str(tmp_path))
    assert len(str(caught.value)) < 1000


def test_models_that_see_no_images() -> None:
    with pytest.raises(ValueError, match="'r3d_18' is a model for video, must be one for images"):
        load_model("r3d_18", "random")


def test_weights_for_model_files_are_refused() -> None:
    for load in (load_model, lambda name, weights: load_models([name], weights)):
        with pytest.raises(ValueError, match=r"weights is 'folder', must be None for net.pt"):
            load("net.pt", "folder")


def test_random_weights_leave_other_generators_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    seeded: list[int] = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded.append)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        theirs = get_model("squeezenet1_1")
    seeded.clear()
    before = torch.random.get_rng_state()
    ours = build("squeezenet1_1", "random", 3)
    assert not seeded
    assert torch.equal(torch.random.get_rng_state(), before)
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("inception_v3", Preprocess((299, 299), "crop", crop=299 / 342)),
        ("resnet50", Preprocess((224, 224), "crop", crop=224 / 232)),
        ("squeezenet1_1", Preprocess((224, 224), "crop")),
        ("quantized_resnet18", Preprocess((224, 224), "crop")),
        ("fcn_resnet50", Preprocess((520, 520))),
        ("ssd300_vgg16", Preprocess((300, 300), "letterbox", None, None)),
        ("ssdlite320_mobilenet_v3_large", Preprocess((320, 320), "letterbox", None, None)),
        ("fasterrcnn_resnet50_fpn", Preprocess((800, 800), "letterbox", None, None)),
        ("keypointrcnn_resnet50_fpn", Preprocess((800, 800), "letterbox", None, None)),
        ("fasterrcnn_mobilenet_v3_large_320_fpn", Preprocess((320, 320), "letterbox", None, None)),
    ],
)
def test_inputs(name: str, expected: Preprocess) -> None:
    with torch.device("meta"):
        network: Any = build(name, "random", 0)
    assert preprocess_of(name, network) == expected
    if hasattr(network, "transform"):
        # Images of this size are not resized again.
        image = torch.rand(3, *expected.size)
        resized, _ = network.transform([image])
        assert resized.image_sizes == [tuple(image.shape[1:])]


SIZE = (64, 96)
RCNN = ("box_score_thresh", "box_nms_thresh", "box_detections_per_img")
OTHERS = ("score_thresh", "nms_thresh", "detections_per_img")


def detector(name: str, thresholds: Any = None) -> Any:
    """Return a detector that finds many boxes on a small image."""
    names = RCNN if "rcnn" in name else OTHERS
    options = dict(zip(names, thresholds, strict=True)) if thresholds else {}
    network: Any = get_model(name, weights=None, weights_backbone=None, **options).eval()
    network.transform.min_size = (SIZE[0],)
    if "rcnn" in name:
        network.rpn._post_nms_top_n = {"training": 300, "testing": 300}  # the heads are slow
        nn.init.normal_(network.roi_heads.box_predictor.cls_score.weight, std=0.2)
        nn.init.normal_(network.roi_heads.box_predictor.bbox_pred.weight, std=0.05)
        return network
    for layer in network.head.classification_head.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.normal_(layer.weight, std=0.01)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return network


def configured(network: Any, postprocess: Any) -> Model:
    """Return the model that load_model() would make of the network."""
    model = load_model("ssdlite320_mobilenet_v3_large", "random")
    model.call, model.postprocess = network, postprocess
    model.to(CPU, torch.contiguous_format)
    return model


def found(model: Model, detection: Detection) -> Any:
    images = torch.rand(2, 3, *SIZE, generator=torch.Generator().manual_seed(1))
    placements = [Preprocess(SIZE).placement(*SIZE)] * 2
    with torch.inference_mode():
        return detection.detect(model.forward(images, [], placements), placements)


@pytest.mark.parametrize(
    ("name", "score", "iou", "most"),
    [
        ("fasterrcnn_resnet50_fpn", 0.05, 0.5, 100),  # torchvision's defaults
        ("fasterrcnn_resnet50_fpn", 0.01, 0.7, 300),
        ("maskrcnn_resnet50_fpn", 0.01, 0.7, 4),
        ("retinanet_resnet50_fpn", 0.1, 0.7, 200),
        ("fcos_resnet50_fpn", 0.01, 0.7, 300),
    ],
)
def test_detectors_use_our_thresholds(name: str, score: float, iou: float, most: int) -> None:
    network = detector(name, (score, iou, most))
    images = torch.rand(2, 3, *SIZE, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        theirs = network(list(images))
    detection = Detection(score, iou, max_detections=most)
    # Whatever thresholds it had before.
    Thresholds(0.6, 0.1, 3).give(network)
    ours = found(configured(network, Auto(detection=detection)), detection)
    assert sum(len(item["boxes"]) for item in theirs) > 5
    for one, other in zip(ours, theirs, strict=True):
        assert torch.equal(one["scores"], other["scores"])
        assert torch.equal(one["labels"], other["labels"])
        torch.testing.assert_close(one["boxes"], other["boxes"], atol=1e-4, rtol=0)


def test_soft_suppression_sees_every_box() -> None:
    network = detector("fasterrcnn_resnet50_fpn")
    detection = Detection(method="linear", max_detections=1000)
    soft = found(configured(network, detection), detection)
    hard = found(configured(network, Detection()), Detection(max_detections=1000))
    assert len(soft[0]["boxes"]) > 1.2 * len(hard[0]["boxes"])


def test_masks_are_computed_after_suppression() -> None:
    with torch.device("meta"):
        network = get_model("maskrcnn_resnet50_fpn", weights=None, weights_backbone=None)
    hard = Detection(0.3, 0.6, max_detections=7)
    assert Thresholds.under(hard, network) == Thresholds(0.3, 0.6, 7)
    all_classes = Detection(0.3, None, max_detections=7)
    assert Thresholds.under(all_classes, network) == Thresholds(0.3, 1.0, 7)
    soft = Detection(0.3, 0.6, "gaussian", max_detections=7)
    assert Thresholds.under(soft, network).iou == 1.0
    assert Thresholds.under(soft, network).most > 10**9
    # Without masks boxes cost nothing more: only our suppression runs.
    boxes = load_model("ssdlite320_mobilenet_v3_large", "random").call
    assert Thresholds.under(hard, boxes) == Thresholds.under(soft, boxes)
    assert Thresholds.under(hard, boxes).iou == 1.0


def test_other_post_processing_gets_torchvisions_output() -> None:
    network = load_model("ssdlite320_mobilenet_v3_large", "random").call
    before = Thresholds.of(network)
    model = configured(network, Detection(score_threshold=0.4))
    assert Thresholds.of(network).score == 0.4
    model.postprocess = lambda output, placements: output
    model.to(CPU, torch.contiguous_format)
    assert Thresholds.of(network) == before
