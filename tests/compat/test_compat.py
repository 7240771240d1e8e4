"""visops.compat: the interface of the extension that visops replaces."""

import re
from typing import Any

import numpy as np
import pytest
import torch
import visops
from bad_input import check, table
from references.affine import random_matrix, warp
from suppression.nms_cases import BOXES, distinct_scores
from visops import compat
from warp.affine_cases import assert_matches, to_hwc

FROM = np.array([[10, 20], [400, 30], [50, 300]], np.float32)
TO = np.array([[60, 90], [500, 10], [120, 700]], np.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("channels", [1, 3, 5])
def test_affine_torch(dtype: torch.dtype, channels: int) -> None:
    rng = np.random.default_rng(0)
    image = torch.from_numpy(rng.random((2, channels, 30, 40))).to(dtype)
    matrices = np.stack([random_matrix(rng, 30, 40, (50, 35)) for _ in range(2)])
    result = compat.affine_torch(image, torch.from_numpy(matrices).to(dtype), 50, 35)
    assert result.shape == (2, channels, 50, 35)
    for sample, matrix, output in zip(image, matrices, result, strict=True):
        expected = warp(
            to_hwc(sample),
            matrix,
            (50, 35),
            mode="bilinear",
            padding_mode="constant",
            inverse_map=True,
        )
        if dtype == torch.float32:  # the matrix was rounded to float32 as well
            np.testing.assert_allclose(to_hwc(output), expected, rtol=0, atol=1e-4)
        else:
            assert_matches(to_hwc(output), expected, dtype, "bilinear")


def test_affine_torch_rounds_down_left_of_the_image() -> None:
    """What python_cpp_extension got wrong: coordinates between -2 and 0."""
    image = torch.ones(1, 1, 1, 3)
    matrix = torch.tensor([[[1.0, 0.0, -1.75], [0.0, 1.0, 0.0]]])
    assert compat.affine_torch(image, matrix, 1, 5).tolist() == [[[[0, 0.25, 1, 1, 0.75]]]]


def test_affine_torch_has_gradients() -> None:
    image = torch.rand(1, 2, 5, 6, requires_grad=True)
    matrix = torch.tensor([[[0.9, 0.1, 0.3], [0.2, 1.1, -0.4]]], requires_grad=True)
    compat.affine_torch(image, matrix, 5, 6).sum().backward()
    assert image.grad is not None
    assert matrix.grad is not None


@pytest.mark.parametrize("shape", [(480, 640), (480, 640, 1), (480, 640, 3)], ids=str)
def test_affine_opencv(shape: tuple[int, ...]) -> None:
    image = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    result = compat.affine_opencv(image, FROM, TO)
    assert result.shape == (800, 600, *shape[2:])
    matrix = visops.affine_from_points(FROM.astype(np.float64), TO.astype(np.float64))
    expected = warp(
        image.reshape(480, 640, -1), matrix, (800, 600), mode="bilinear", padding_mode="constant"
    )
    assert_matches(result.reshape(expected.shape), expected, torch.uint8, "bilinear")
    assert compat.affine_opencv(image, FROM, TO, size=(20, 30)).shape[:2] == (20, 30)
    lists = compat.affine_opencv(image[:, ::-1][:, ::-1], FROM.tolist(), TO.tolist())
    np.testing.assert_array_equal(lists, result)


def test_affine_opencv_is_opencvs() -> None:
    cv2 = pytest.importorskip("cv2")
    data = pytest.importorskip("skimage.data")
    image = data.astronaut()
    expected = cv2.warpAffine(image, cv2.getAffineTransform(FROM, TO), (600, 800))
    result = compat.affine_opencv(image, FROM, TO)
    difference = np.abs(result.astype(int) - expected.astype(int))
    if int(cv2.__version__.split(".")[0]) >= 5:
        assert difference.max() <= 1
        assert np.count_nonzero(difference) <= 0.002 * difference.size
    else:
        assert difference.max() <= 8


def test_versions() -> None:
    assert re.fullmatch(r"(GCC|Clang|MSVC) \d+\.\d+", compat.get_compiler_version())
    version = compat.get_compiling_cuda_version()
    built = visops.build_info()["cuda_built"]
    assert version == (built or "not available")
    assert re.fullmatch(r"\d+\.\d+|not available", version)


def images(*shape: int, dtype: Any = torch.float32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


MATRIX = torch.tensor([[[1.0, 0, 0], [0, 1, 0]]])


@table(
    (
        TypeError,
        "compat.affine_torch: input is a ndarray, must be a torch.Tensor",
        lambda: compat.affine_torch(np.zeros((1, 1, 2, 2)), MATRIX, 2, 2),  # type: ignore[arg-type]
    ),
    (
        TypeError,
        "compat.affine_torch: affine_matrix is a list, must be a torch.Tensor",
        lambda: compat.affine_torch(images(1, 1, 2, 2), [[1]], 2, 2),  # type: ignore[arg-type]
    ),
    (
        TypeError,
        "compat.affine_torch: input has dtype torch.uint8, must be torch.float32 or torch.float64",
        lambda: compat.affine_torch(images(1, 1, 2, 2, dtype=torch.uint8), MATRIX, 2, 2),
    ),
    (
        ValueError,
        "compat.affine_torch: input has shape [1, 2, 2], must be [batch, channels, height, width]",
        lambda: compat.affine_torch(images(1, 2, 2), MATRIX, 2, 2),
    ),
    (
        TypeError,
        "compat.affine_torch: affine_matrix has layout sparse_coo, must be dense; call to_dense()",
        lambda: compat.affine_torch(images(1, 1, 2, 2), MATRIX.to_sparse(), 2, 2),
    ),
    (
        MemoryError,
        "warp_affine: result: Unable to allocate",
        lambda: compat.affine_opencv(
            np.zeros((4, 4, 3), np.uint8), FROM, TO, size=(2**31 - 1, 2**16)
        ),
    ),
    (
        RuntimeError,
        "warp_affine: matrix has batch 3, image has batch 2",
        lambda: compat.affine_torch(images(2, 1, 2, 2), MATRIX.expand(3, 2, 3), 2, 2),
    ),
    (
        TypeError,
        "compat.affine_opencv: image_uint8 is float64, must be a numpy.ndarray of uint8",
        lambda: compat.affine_opencv(np.zeros((4, 4)), FROM, TO),
    ),
    (
        TypeError,
        "compat.affine_opencv: image_uint8 is torch.uint8, must be a numpy.ndarray of uint8",
        lambda: compat.affine_opencv(images(4, 4, dtype=torch.uint8), FROM, TO),  # type: ignore[arg-type]
    ),
    (
        ValueError,
        "compat.affine_opencv: image_uint8 has shape [4, 4, 2], must be [height, width] or",
        lambda: compat.affine_opencv(np.zeros((4, 4, 2), np.uint8), FROM, TO),
    ),
    (
        ValueError,
        "compat.affine_opencv: from_point has shape [2, 2], must be [3, 2]",
        lambda: compat.affine_opencv(np.zeros((4, 4), np.uint8), FROM[:2], TO),
    ),
    (
        ValueError,
        "affine_from_points: src is collinear",
        lambda: compat.affine_opencv(np.zeros((4, 4), np.uint8), [[0, 0], [1, 1], [2, 2]], TO),
    ),
)
def test_bad_input(error: Any, message: str, call: Any) -> None:
    check(error, message, call)


# The examples in the extension's documentation.
DETS = np.array(
    [
        [49.1, 32.4, 51.0, 35.9, 0.9],
        [49.3, 32.9, 51.0, 35.3, 0.9],
        [49.2, 31.8, 51.0, 35.4, 0.5],
        [35.1, 11.5, 39.1, 15.7, 0.5],
        [35.6, 11.8, 39.3, 14.2, 0.5],
        [35.3, 11.5, 39.9, 14.5, 0.4],
        [35.2, 11.7, 39.7, 15.7, 0.3],
    ]
)

SOFT_DETS = np.array(
    [
        [4.0, 3.0, 5.0, 3.0, 0.9],
        [4.0, 3.0, 5.0, 4.0, 0.9],
        [3.0, 1.0, 3.0, 1.0, 0.5],
        [3.0, 1.0, 3.0, 1.0, 0.5],
        [3.0, 1.0, 3.0, 1.0, 0.4],
        [3.0, 1.0, 3.0, 1.0, 0.0],
    ]
)

# The first four are those of the extension's tests.
FEW = DETS[[0, 1, 5, 6]]
floating = pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])

# Called with arrays and tensors in turn, which the type checker can't follow.
Nms: Any = compat.nms
SoftNms: Any = compat.soft_nms
nms: Any = visops.nms
soft_nms: Any = visops.soft_nms


def some_dets(count: int = 200) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.c_[BOXES["clusters"](rng, count), distinct_scores(rng, count)]


def assert_kinds(found: Any, dets: Any) -> None:
    """Results have the arguments' kind and dtype."""
    rows, inds = found
    assert type(rows) is type(dets)
    assert type(inds) is type(dets)
    assert rows.dtype == dets.dtype
    assert inds.dtype == (torch.int64 if isinstance(dets, torch.Tensor) else np.int64)
    assert rows.shape == (len(inds), 5)


@floating
def test_documented_examples(dtype: Any) -> None:
    for example, threshold, count in ((DETS, 0.6, 3), (FEW, 0.6, 2)):
        for dets in (example.astype(dtype), torch.from_numpy(example.astype(dtype))):
            suppressed, inds = Nms(dets, threshold)
            assert_kinds((suppressed, inds), dets)
            assert len(inds) == len(suppressed) == count
    for example, threshold, count in ((SOFT_DETS, 0.6, 5), (FEW, 0.7, 4)):
        for dets in (example.astype(dtype), torch.from_numpy(example.astype(dtype))):
            lowered, inds = SoftNms(dets, threshold, sigma=0.5)
            assert_kinds((lowered, inds), dets)
            assert len(inds) == len(lowered) == count


@floating
def test_nms(dtype: Any) -> None:
    dets = some_dets().astype(dtype)
    for given in (dets, torch.from_numpy(dets), np.asfortranarray(dets), dets[::-1]):
        before: Any = given.copy() if isinstance(given, np.ndarray) else given.clone()
        for threshold in (0.0, 0.3, 0.7, 1.0):
            found = Nms(given, threshold)
            assert_kinds(found, given)
            expected = nms(given[:, :4], given[:, 4], threshold)
            assert (found[1] == expected).all()
            assert (found[0] == given[expected]).all()
        assert (given == before).all()
    by_name = Nms(dets=dets, iou_thr=0.5, device_id=None)
    assert by_name[1].tolist() == Nms(dets, 0.5)[1].tolist()


@floating
@pytest.mark.parametrize("method", ["linear", "gaussian"])
def test_soft_nms(method: str, dtype: Any) -> None:
    dets = some_dets().astype(dtype)
    for given in (dets, torch.from_numpy(dets), np.asfortranarray(dets), dets[::-1]):
        before: Any = given.copy() if isinstance(given, np.ndarray) else given.clone()
        for threshold, sigma, least in ((0.3, 0.5, 1e-3), (0.5, 0.1, 0.2)):
            found = SoftNms(given, threshold, method, sigma, least)
            assert_kinds(found, given)
            expected, lowered = soft_nms(
                given[:, :4],
                given[:, 4],
                method=method,
                iou_threshold=threshold,
                sigma=sigma,
                min_score=least,
            )
            assert (found[1] == expected).all()
            assert (found[0][:, :4] == given[expected][:, :4]).all()
            assert (found[0][:, 4] == lowered).all()
        assert (given == before).all()
    defaults = SoftNms(dets, iou_thr=0.4)
    named = SoftNms(dets, iou_thr=0.4, method="linear", sigma=0.5, min_score=1e-3)
    assert all((a == b).all() for a, b in zip(defaults, named, strict=True))


@pytest.mark.parametrize("options", [
    {"type": "nms", "iou_thr": 0.4},
    {"iou_thr": 0.4},
    {"type": "soft_nms", "iou_thr": 0.4},
    {"type": "soft_nms", "iou_thr": 0.4, "method": "gaussian", "sigma": 0.2, "min_score": 0.1},
], ids=str)  # fmt: skip
def test_batched_nms(options: dict[str, Any]) -> None:
    dets = torch.from_numpy(some_dets()).float()
    boxes, scores = dets[:, :4], dets[:, 4]
    classes = torch.arange(len(dets)) % 7 - 3  # also negative
    given = dict(options)
    rows, keep = compat.batched_nms(boxes, scores, classes, given)
    assert given == options  # unchanged by the call
    assert_kinds((rows, keep), dets)
    chosen = {k: v for k, v in options.items() if k not in ("type", "iou_thr")}
    if options.get("type") == "soft_nms":
        kept, lowered = visops.batched_soft_nms(boxes, scores, classes, iou_threshold=0.4, **chosen)
    else:
        kept = visops.batched_nms(boxes, scores, classes, 0.4)
        lowered = scores[kept]
    assert torch.equal(keep, kept)
    assert torch.equal(rows, torch.cat([boxes[kept], lowered[:, None]], 1))


def test_none() -> None:
    for dets in (np.zeros((0, 5), np.float32), torch.zeros(0, 5)):
        for function in (Nms, SoftNms):
            found = function(dets, 0.5)
            assert_kinds(found, dets)
            assert len(found[1]) == 0
    empty = torch.zeros(0, 4), torch.zeros(0), torch.zeros(0, dtype=torch.int64)
    rows, keep = compat.batched_nms(*empty, {"iou_thr": 0.5})
    assert_kinds((rows, keep), torch.zeros(0, 5))


def config(ids: Any = None, **nms_cfg: Any) -> Any:
    ids = torch.zeros(3, dtype=torch.int64) if ids is None else ids
    return lambda: compat.batched_nms(torch.zeros(3, 4), torch.zeros(3), ids, nms_cfg)


ARRAY, TENSOR = DETS.astype(np.float32), torch.from_numpy(DETS)


@table(
    (
        TypeError,
        "compat.nms: dets is a list, must be a torch.Tensor or numpy.ndarray",
        lambda: Nms([[1, 2, 3, 4, 5]], 0.5),
    ),
    (
        TypeError,
        "compat.soft_nms: dets is a list, must be a torch.Tensor or numpy.ndarray",
        lambda: SoftNms([[1, 2, 3, 4, 5]], 0.5),
    ),
    (
        ValueError,
        "compat.nms: dets has shape [7, 4], must be [N, 5]",
        lambda: Nms(ARRAY[:, :4], 0.5),
    ),
    (
        ValueError,
        "compat.nms: dets has shape [5], must be [N, 5]",
        lambda: Nms(TENSOR[0], 0.5),
    ),
    (
        ValueError,
        "compat.soft_nms: dets has shape [7, 4], must be [N, 5]",
        lambda: SoftNms(TENSOR[:, :4], 0.5),
    ),
    (
        TypeError,
        "compat.nms: device_id is for arrays; move dets with .to()",
        lambda: Nms(TENSOR, 0.5, 0),
    ),
    (
        ValueError,
        "compat.soft_nms: method is 'foo', must be 'linear' or 'gaussian'",
        lambda: SoftNms(ARRAY, 0.5, "foo"),
    ),
    (
        ValueError,
        "compat.soft_nms: method is 'hard', must be 'linear' or 'gaussian'",
        lambda: SoftNms(ARRAY, 0.5, "hard"),
    ),
    (ValueError, "nms: iou_threshold is 1.5, must be in [0, 1]", lambda: Nms(ARRAY, 1.5)),
    (RuntimeError, "nms: iou_threshold is 1.5, must be in [0, 1]", lambda: Nms(TENSOR, 1.5)),
    (ValueError, "soft_nms: sigma is 0", lambda: SoftNms(ARRAY, 0.5, sigma=0)),
    (
        ValueError,
        "nms: scores has dtype int64, must be a floating type",
        lambda: Nms(ARRAY.astype(np.int64), 0.5),
    ),
    (
        TypeError,
        "compat.batched_nms: inds has layout mkldnn, must be dense; call to_dense() on it",
        config(torch.zeros(3).to_mkldnn(), iou_thr=0.5),
    ),
    (
        RuntimeError,
        "batched_nms: idxs has dtype float8_e4m3fn, which is not supported",
        config(torch.zeros(3).to(torch.float8_e4m3fn), iou_thr=0.5),
    ),
    (
        TypeError,
        "batched_nms: idxs has layout mkldnn, must be dense; call to_dense() on it",
        lambda: visops.batched_nms(TENSOR[:, :4], TENSOR[:, 4], torch.zeros(7).to_mkldnn(), 0.5),
    ),
    (
        ValueError,
        "compat.batched_nms: nms_cfg has type '__import__(\"os\")', must be 'nms' or 'soft_nms'",
        config(type='__import__("os")', iou_thr=0.5),
    ),
    (
        ValueError,
        "compat.batched_nms: nms_cfg has type 'nms_match', must be 'nms' or 'soft_nms'",
        config(type="nms_match", iou_thr=0.5),
    ),
    (
        ValueError,
        "compat.batched_nms: nms_cfg has 'iou_threshold', nms takes iou_thr",
        config(iou_threshold=0.5),
    ),
    (
        ValueError,
        "compat.batched_nms: nms_cfg has 'sigma', nms takes iou_thr",
        config(type="nms", iou_thr=0.5, sigma=0.5),
    ),
    (
        ValueError,
        "compat.batched_nms: nms_cfg has 'max_num', soft_nms takes iou_thr, method, sigma, min",
        config(type="soft_nms", iou_thr=0.5, max_num=3),
    ),
    (ValueError, "compat.batched_nms: nms_cfg has no 'iou_thr'", config(type="nms")),
    (
        ValueError,
        "compat.batched_nms: method is 'foo', must be 'linear' or 'gaussian'",
        config(type="soft_nms", iou_thr=0.5, method="foo"),
    ),
)
def test_errors(error: type[Exception], message: str, call: Any) -> None:
    check(error, message, call)


def test_type_is_any_object() -> None:
    """An unhashable type is a wrong type like any other."""
    check(
        ValueError,
        "compat.batched_nms: nms_cfg has type ['nms'], must be 'nms' or 'soft_nms'",
        config(type=["nms"], iou_thr=0.5),
    )


@pytest.mark.cuda
def test_cuda() -> None:
    dets = some_dets().astype(np.float32)
    expected = Nms(dets, 0.5)
    for found in (Nms(dets, 0.5, device_id=0), Nms(torch.from_numpy(dets).cuda(), 0.5)):
        assert found[1].tolist() == expected[1].tolist()
        assert found[0].tolist() == expected[0].tolist()
