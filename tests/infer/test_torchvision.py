"""torchvision models: built with its settings, fed its inputs; batches of any sizes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision
from torch import Tensor, nn
from torchvision.models import WeightsEnum, get_model, get_model_weights
from visops.infer import Auto, Detection, Model, Options, Preprocess, load_model, load_models
from visops.infer.frames import Frame
from visops.infer.images.preprocess import IMAGENET_MEAN, IMAGENET_STD
from visops.infer.models.torchvision import Thresholds, build, preprocess_of

from infer.folders import photo

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


@pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter")
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


@pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter")
def test_weights_trained_from_scratch(tmp_path: Path) -> None:
    name = "fasterrcnn_resnet50_fpn"
    with torch.device("meta"):
        theirs = get_model(name, weights=None, weights_backbone=None)
        torch.save(empty(theirs), tmp_path / f"{name}.pth")
        assert repr(build(name, str(tmp_path), 0)) == repr(theirs)
        theirs = get_model("fcn_resnet50", weights=None, weights_backbone=None)
        torch.save(empty(theirs), tmp_path / "fcn_resnet50.pth")
        assert repr(build("fcn_resnet50", str(tmp_path), 0)) == repr(theirs)


@pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter")
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


@pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter")
def test_a_transformer_is_of_the_size_of_its_weights(tmp_path: Path, pretrained: Any) -> None:
    with torch.device("meta"):
        theirs = pretrained("vit_b_16", "IMAGENET1K_SWAG_E2E_V1")
        torch.save(empty(theirs), tmp_path / "vit_b_16.pth")
        ours: Any = build("vit_b_16", str(tmp_path), 0)
        assert ours.image_size == theirs.image_size == 384
        assert preprocess_of("vit_b_16", ours) == Preprocess((384, 384), "crop", crop=1.0)
        whole = preprocess_of("vit_b_16", build("vit_b_16", "random", 0))
        assert whole == Preprocess((224, 224), "crop")


@pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter")
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


@pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter")
def test_models_that_see_no_images() -> None:
    with pytest.raises(ValueError, match="'r3d_18' is a model for video, must be one for images"):
        load_model("r3d_18", "random")


@pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter")
def test_weights_for_model_files_are_refused() -> None:
    for load in (load_model, lambda name, weights: load_models([name], weights)):
        with pytest.raises(ValueError, match=r"weights is 'folder', must be None for net.pt"):
            load("net.pt", "folder")


@pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter")
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


@pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter")
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


@pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter")
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


@pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter")
def test_soft_suppression_sees_every_box() -> None:
    network = detector("fasterrcnn_resnet50_fpn")
    detection = Detection(method="linear", max_detections=1000)
    soft = found(configured(network, detection), detection)
    hard = found(configured(network, Detection()), Detection(max_detections=1000))
    assert len(soft[0]["boxes"]) > 1.2 * len(hard[0]["boxes"])


@pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter")
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


@pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter")
def test_other_post_processing_gets_torchvisions_output() -> None:
    network = load_model("ssdlite320_mobilenet_v3_large", "random").call
    before = Thresholds.of(network)
    model = configured(network, Detection(score_threshold=0.4))
    assert Thresholds.of(network).score == 0.4
    model.postprocess = lambda output, placements: output
    model.to(CPU, torch.contiguous_format)
    assert Thresholds.of(network) == before


SIZES = ((40, 60), (64, 32), (17, 90))
NEAR = 0.02 / 255  # photos are filtered in integers


def images(sizes: Any = SIZES) -> Any:
    return [
        torch.from_numpy(photo(i, *size).copy()).permute(2, 0, 1) for i, size in enumerate(sizes)
    ]


def frames(sizes: Any = SIZES) -> Any:
    return [Frame(i, 0, *size, *size) for i, size in enumerate(sizes)]


def test_stretch_is_interpolate() -> None:
    preprocess = Preprocess((20, 24))
    batch, _ = preprocess.run(images(), frames())
    mean = torch.tensor(IMAGENET_MEAN)[:, None, None]
    std = torch.tensor(IMAGENET_STD)[:, None, None]
    for row, image in zip(batch, images(), strict=True):
        resized = torch.nn.functional.interpolate(
            image[None].float() / 255, (20, 24), mode="bilinear", antialias=True
        )[0]
        torch.testing.assert_close(row, (resized - mean) / std, atol=NEAR / 0.224, rtol=0)


def test_letterbox() -> None:
    preprocess = Preprocess((24, 24), "letterbox", None, None, fill=51)
    batch, placements = preprocess.run(images(), frames())
    assert (placements[0].scale_x, placements[0].scale_y) == (0.4, 0.4)
    assert (placements[0].left, placements[0].top) == (0, 4)
    torch.testing.assert_close(batch[0, :, :3], torch.full((3, 3, 24), 0.2))
    torch.testing.assert_close(batch[0, :, -3:], torch.full((3, 3, 24), 0.2))
    resized = torch.nn.functional.interpolate(
        images()[0][None].float() / 255, (16, 24), mode="bilinear", antialias=True
    )[0]
    torch.testing.assert_close(batch[0, :, 4:20], resized, atol=NEAR, rtol=0)


def test_crop() -> None:
    preprocess = Preprocess((16, 16), "crop", None, None, crop=0.8)
    batch, placements = preprocess.run(images(), frames())
    # 40 x 60 becomes 20 x 30, of which the middle 16 x 16 are kept.
    assert (placements[0].scale_x, placements[0].scale_y) == (0.5, 0.5)
    assert (placements[0].left, placements[0].top) == (-7, -2)
    resized = torch.nn.functional.interpolate(
        images()[0][None].float() / 255, (20, 30), mode="bilinear", antialias=True
    )[0]
    torch.testing.assert_close(batch[0], resized[:, 2:18, 7:23], atol=1e-5, rtol=0)


@pytest.mark.parametrize("fit", ["stretch", "letterbox", "crop"])
def test_a_reduced_image_goes_where_the_whole_one_goes(fit: str) -> None:
    (image,) = images([(64, 96)])
    small = torch.nn.functional.avg_pool2d(image[None].float(), 2)[0].round().to(torch.uint8)
    preprocess = Preprocess((16, 16), fit, None, None)
    whole, placements = preprocess.run([image], [Frame(0, 0, 64, 96, 64, 96)])
    reduced, again = preprocess.run([small], [Frame(0, 0, 32, 48, 64, 96, 2)])
    assert placements == again
    assert (whole - reduced).abs().max() < 0.03


def test_channels_last() -> None:
    batch, _ = Preprocess((8, 8)).run(images(), frames(), torch.channels_last)
    assert batch.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fit": "cover"}, "fit is 'cover', must be one of"),
        ({"size": (0, 3)}, r"size is \(0, 3\), must be two positive"),
        ({"crop": 0}, "crop is 0, must be above 0 and at most 1"),
        ({"std": (1, 0, 1)}, r"std is \(1.0, 0.0, 1.0\), must have no 0"),
        ({"size": 64}, "size is 64, must be 2 integers"),
        ({"size": (8, 8.5)}, r"size is \(8, 8.5\), must be 2 integers"),
        ({"mean": (0.5, 0.5)}, r"mean is \(0.5, 0.5\), must be 3 numbers, or None"),
        ({"std": "one"}, "std is 'one', must be 3 numbers, or None"),
    ],
)
def test_bad_options(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Preprocess(**options)


def test_lists_are_taken_like_tuples() -> None:
    given = Preprocess([24, 24], mean=[0.5, 0.5, 0.5], std=[1, 1, 1])  # type: ignore[arg-type]
    same = Preprocess((24, 24), mean=(0.5, 0.5, 0.5), std=(1, 1, 1))
    assert {given: 1} == {same: 1}  # they are keys of a batch's inputs
    assert repr(given) == repr(same)


def test_transforms_of_weights_are_a_preprocess() -> None:
    """Those of classifiers; what they and ours make of a photo is nearly the same."""
    theirs = torchvision.models.ResNet18_Weights.DEFAULT.transforms()
    ours = Options(preprocess=theirs).preprocess
    assert ours == Preprocess((224, 224), "crop", IMAGENET_MEAN, IMAGENET_STD, crop=224 / 256)
    image = torch.from_numpy(photo(0, 300, 400)).permute(2, 0, 1)
    found, _ = ours.run([image], [Frame(0, 0, 300, 400, 300, 400)])
    assert (found[0] - theirs(image)).abs().mean() < 0.02
    detection = torchvision.models.detection.FasterRCNN_ResNet50_FPN_Weights.DEFAULT.transforms()
    others: tuple[Any, ...] = (detection, torch.nn.Identity(), 224)
    for other in others:
        with pytest.raises(TypeError, match=r"must be a visops\.infer\.Preprocess, one call"):
            Options(preprocess=other)
