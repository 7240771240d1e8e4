"""warp_perspective, and points and boxes moved by homographies."""

import numpy as np
import pytest
import skimage.data
import torch
import visops
from torch.autograd import gradcheck

SIZE = (150, 200)
MATRIX = np.array([[0.8, 0.1, 12.0], [-0.1, 0.7, 40.0], [-2e-4, 6e-4, 1.0]])
BORDERS = {
    "constant": "BORDER_CONSTANT",
    "replicate": "BORDER_REPLICATE",
    "reflect": "BORDER_REFLECT_101",
    "symmetric": "BORDER_REFLECT",
}
FLAGS = {"bilinear": "INTER_LINEAR", "nearest": "INTER_NEAREST", "bicubic": "INTER_CUBIC"}


def photo(dtype: str = "uint8") -> np.ndarray:
    return skimage.data.astronaut()[100:300, 80:330].astype(dtype)


@pytest.mark.parametrize("mode", FLAGS)
@pytest.mark.parametrize("padding_mode", BORDERS)
@pytest.mark.parametrize("inverse_map", [False, True])
def test_agrees_with_opencv(mode: str, padding_mode: str, inverse_map: bool) -> None:
    cv2 = pytest.importorskip("cv2")
    if int(cv2.__version__.split(".")[0]) < 5 and mode != "nearest":
        pytest.skip("OpenCV 4 takes its weights from a table")
    for dtype in ("uint8", "uint16", "float32"):
        image = photo(dtype)
        if padding_mode == "constant" and dtype != "uint8":
            continue
        theirs = cv2.warpPerspective(
            image,
            MATRIX,
            SIZE[::-1],
            flags=getattr(cv2, FLAGS[mode]) | (cv2.WARP_INVERSE_MAP if inverse_map else 0),
            borderMode=getattr(cv2, BORDERS[padding_mode]),
            borderValue=(10, 20, 30),
        )
        ours = visops.warp_perspective(
            image,
            MATRIX,
            SIZE,
            mode=mode,
            padding_mode=padding_mode,
            fill=(10, 20, 30),
            inverse_map=inverse_map,
        )
        assert ours.dtype == image.dtype
        difference = np.abs(ours.astype(float) - theirs.astype(float))
        if mode == "nearest":  # coordinates may round to the other pixel
            assert (difference > 0).mean() < 2e-3
        else:
            assert difference.max() <= (0.2 if dtype == "float32" else 1)


def test_affine_matrices_have_warp_affine_s_pixels() -> None:
    image = photo()
    matrix = visops.get_affine_matrix((120, 90), 30, (3, 4), (1.3, 0.7), (5, 6), like=image)
    full = np.concatenate([matrix, [[0, 0, 1]]])
    expected = visops.warp_affine(image, matrix, fill=3)
    np.testing.assert_array_equal(visops.warp_perspective(image, full, fill=3), expected)
    np.testing.assert_array_equal(visops.warp_perspective(image, matrix, fill=3), expected)
    tensor = torch.from_numpy(image).permute(2, 0, 1)
    result = visops.warp_perspective(tensor, torch.from_numpy(full), fill=3)
    np.testing.assert_array_equal(result.permute(1, 2, 0).numpy(), expected)


def test_forms() -> None:
    image = photo()
    expected = visops.warp_perspective(image, MATRIX, SIZE)
    assert expected.shape == (*SIZE, 3)
    assert expected.flags.c_contiguous
    grey = visops.warp_perspective(image[..., 1], MATRIX, SIZE)
    np.testing.assert_array_equal(grey, expected[..., 1])
    assert visops.warp_perspective(image, MATRIX).shape == image.shape
    chw = torch.from_numpy(image).permute(2, 0, 1)
    assert torch.equal(
        visops.warp_perspective(chw, MATRIX, SIZE), torch.from_numpy(expected).permute(2, 0, 1)
    )
    batch = torch.stack([chw, chw.flip(-1)])
    results = visops.warp_perspective(batch, MATRIX[None], SIZE)
    assert torch.equal(results[0], visops.warp_perspective(chw, MATRIX, SIZE))
    last = visops.warp_perspective(
        batch.contiguous(memory_format=torch.channels_last), MATRIX, SIZE
    )
    assert last.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(last, results)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "uint16", "int32"])
def test_integers_are_exact_in_nearest(dtype: str) -> None:
    limits = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    values = np.random.default_rng(0).integers(*limits, (40, 50), endpoint=True)
    image = values.astype(dtype)
    fill = limits[0]
    result = visops.warp_perspective(image, MATRIX, SIZE, mode="nearest", fill=fill)
    assert result.dtype == image.dtype
    index = np.arange(1, image.size + 1, dtype=np.float64).reshape(image.shape)
    where = visops.warp_perspective(index, MATRIX, SIZE, mode="nearest").astype(int)
    expected = np.concatenate([[fill], image.ravel()]).astype(dtype)[where]
    if dtype != "int32":  # float32 coordinates
        index32 = index.astype(np.float32)
        where = visops.warp_perspective(index32, MATRIX, SIZE, mode="nearest").astype(int)
        expected = np.concatenate([[fill], image.ravel()]).astype(dtype)[where]
    np.testing.assert_array_equal(result, expected)


def test_integers_round_and_saturate() -> None:
    image = np.array([[0, 1, 65535, 65535, 0, 0]], np.uint16)
    shifted = visops.warp_perspective(image, [[1, 0, -0.5], [0, 1, 0], [0, 0, 1]], (1, 3))
    assert shifted.tolist() == [[0, 32768, 65535]]  # 0.5 to even
    cubic = visops.warp_perspective(
        image, [[1, 0, -0.5], [0, 1, 0], [0, 0, 1]], (1, 4), mode="bicubic"
    )
    assert cubic.tolist()[0][2] == 65535


def test_gradients() -> None:
    torch.manual_seed(0)
    image = torch.rand(1, 2, 5, 6, dtype=torch.float64, requires_grad=True)
    matrix = torch.tensor(
        [[1.1, 0.1, -0.3], [-0.1, 0.9, 0.4], [0.01, 0.02, 1.0]], dtype=torch.float64
    ).requires_grad_()
    assert gradcheck(lambda i, m: visops.warp_perspective(i, m, (4, 4)), (image, matrix))


def test_compile() -> None:
    image, matrix = torch.rand(2, 3, 8, 9), torch.tensor(MATRIX)
    torch._dynamo.reset()
    compiled = torch.compile(visops.warp_perspective, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(image, matrix), visops.warp_perspective(image, matrix))


def test_points_agree_with_opencv() -> None:
    cv2 = pytest.importorskip("cv2")
    points = np.random.default_rng(0).uniform(0, 200, (7, 2))
    expected = cv2.perspectiveTransform(points[None], MATRIX)[0]
    np.testing.assert_allclose(visops.transform_points(points, MATRIX), expected, atol=1e-10)
    stack = np.stack([MATRIX, 2 * MATRIX, -MATRIX])  # the scale doesn't matter
    moved = visops.transform_points(points, stack)
    assert moved.shape == (3, 7, 2)
    np.testing.assert_allclose(moved, np.broadcast_to(expected, moved.shape), atol=1e-10)


def test_points_move_as_the_image_does() -> None:
    image = torch.zeros(1, 60, 60)
    image[0, 20, 30] = 1
    (point,) = visops.transform_points(torch.tensor([[30.0, 20.0]]), MATRIX)
    warped = visops.warp_perspective(image, MATRIX, (100, 100))[0]
    x, y = (warped.sum(0) @ torch.arange(100.0), warped.sum(1) @ torch.arange(100.0))
    torch.testing.assert_close(torch.stack([x, y]) / warped.sum(), point, rtol=0, atol=0.5)


def test_points_on_the_horizon() -> None:
    matrix = torch.tensor([[1.0, 0, 0], [0, 1, 0], [1, 0, -10]])
    moved = visops.transform_points(torch.tensor([[10.0, 5], [10, 0], [11, 5]]), matrix)
    assert torch.isinf(moved[0]).all()
    assert torch.isnan(moved[1, 1])
    assert moved[2].tolist() == [11, 5]


def test_boxes() -> None:
    rng = np.random.default_rng(1)
    corner = rng.uniform(0, 100, (3, 5, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(1, 50, corner.shape)], -1)
    moved = visops.transform_boxes(boxes, MATRIX)
    for (x1, y1, x2, y2), found in zip(boxes.reshape(-1, 4), moved.reshape(-1, 4), strict=True):
        corners = np.array([[x1, y1], [x2, y1], [x2, y2], [x1, y2]])
        expected = visops.transform_points(corners, MATRIX)
        np.testing.assert_allclose(found, [*expected.min(0), *expected.max(0)], atol=1e-12)
    np.testing.assert_allclose(visops.transform_boxes(boxes, -MATRIX), moved, atol=1e-10)
    affine = MATRIX * [[1], [1], [0]] + np.diag([0, 0, 1])
    np.testing.assert_array_equal(
        visops.transform_boxes(boxes, affine), visops.transform_boxes(boxes, affine[:2])
    )


def test_boxes_across_the_horizon_have_no_bounds() -> None:
    matrix = torch.tensor([[1.0, 0, 0], [0, 1, 0], [1, 0, -10]])  # x = 10 goes to infinity
    boxes = torch.tensor([[0.0, 0, 9, 5], [0, 0, 10, 5], [5, 0, 15, 5], [11, 0, 15, 5]])
    moved = visops.transform_boxes(boxes, matrix)
    assert moved.isnan().all(-1).tolist() == [False, True, True, False]
    assert not moved[[0, 3]].isnan().any()


def test_gradients_of_points_and_boxes() -> None:
    points = torch.rand(3, 2, dtype=torch.float64, requires_grad=True)
    boxes = torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
    matrix = torch.tensor(MATRIX, requires_grad=True)
    assert gradcheck(visops.transform_points, (points, matrix))
    assert gradcheck(visops.transform_boxes, (boxes, matrix))
