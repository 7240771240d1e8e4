"""The affine warp against the libraries that define its semantics, on photographs."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import visops
from torch import Tensor

from warp.affine_cases import MODES

SIZE = (300, 420)
ANGLES = (17.3, -64.0, 140.0)
# Photographs, so that a tolerance says something about pictures.
data = pytest.importorskip("skimage.data")


def photo() -> np.ndarray:
    """Photograph [512, 512, 3], uint8."""
    return data.astronaut()  # type: ignore[no-any-return]


def photo_tensor() -> Tensor:
    return torch.from_numpy(photo()).permute(2, 0, 1)[None] / 255


def matrices(*, half_pixel: bool = False) -> list[np.ndarray]:
    """Source -> destination, from shrinking to enlarging, all with borders in sight."""
    middle = 256.0 if half_pixel else 255.5
    result = []
    for angle, scale in zip(ANGLES, (0.4, 0.9, 1.7), strict=True):
        shift = (SIZE[1] / 2 - 256, SIZE[0] / 2 - 256)
        matrix = visops.get_affine_matrix((middle, middle), angle, shift, scale, (8.0, -5.0))
        result.append(matrix.numpy())
    return result


BORDERS = {
    "constant": "BORDER_CONSTANT",
    "replicate": "BORDER_REPLICATE",
    "reflect": "BORDER_REFLECT_101",
    "symmetric": "BORDER_REFLECT",
    "circular": "BORDER_WRAP",
}
FLAGS = {"nearest": "INTER_NEAREST", "bilinear": "INTER_LINEAR", "bicubic": "INTER_CUBIC"}


class TestOpenCV:
    """OpenCV 5 computes as we do; OpenCV 4 rounds coordinates to 1/32 pixel."""

    def both(
        self, image: np.ndarray, mode: Any, padding_mode: Any, matrix: np.ndarray, *flags: str
    ) -> tuple[np.ndarray, np.ndarray]:
        cv2 = pytest.importorskip("cv2")
        fill = [30, 120, 200][: image.ndim]
        theirs = cv2.warpAffine(
            image,
            matrix,
            SIZE[::-1],
            flags=getattr(cv2, FLAGS[mode]) | sum(getattr(cv2, f) for f in flags),
            borderMode=getattr(cv2, BORDERS[padding_mode]),
            borderValue=fill,
        )
        ours = visops.warp_affine(
            image,
            matrix,
            SIZE,
            mode=mode,
            padding_mode=padding_mode,
            fill=fill if image.ndim == 3 else fill[0],
            inverse_map="WARP_INVERSE_MAP" in flags,
        )
        return ours, theirs

    def is_fifth(self) -> bool:
        cv2 = pytest.importorskip("cv2")
        return int(cv2.__version__.split(".")[0]) >= 5

    @pytest.mark.parametrize("padding_mode", BORDERS)
    def test_bilinear_uint8(self, padding_mode: str) -> None:
        for image in (photo(), photo()[..., 0].copy()):
            for matrix in matrices():
                ours, theirs = self.both(image, "bilinear", padding_mode, matrix)
                difference = np.abs(ours.astype(int) - theirs.astype(int))
                if self.is_fifth():
                    assert difference.max() <= 1
                    assert np.count_nonzero(difference) <= 0.002 * difference.size
                else:
                    assert difference.max() <= 8

    @pytest.mark.parametrize("padding_mode", BORDERS)
    def test_bilinear_float32(self, padding_mode: str) -> None:
        image = photo().astype(np.float32)
        for matrix in matrices():
            ours, theirs = self.both(image, "bilinear", padding_mode, matrix)
            assert np.abs(ours - theirs).max() <= (0.026 if self.is_fifth() else 8)

    @pytest.mark.parametrize("padding_mode", BORDERS)
    def test_bicubic(self, padding_mode: str) -> None:
        # OpenCV 4 takes bicubic's coordinates from its table of 1/32 pixel too.
        for matrix in matrices():
            ours, theirs = self.both(photo(), "bicubic", padding_mode, matrix)
            difference = np.abs(ours.astype(int) - theirs.astype(int))
            if self.is_fifth():
                assert difference.max() <= 1
                assert np.count_nonzero(difference) <= 0.002 * difference.size
            else:
                assert difference.max() <= 16
                assert difference.mean() <= 0.5

    def test_what_the_fifth_does_otherwise(self) -> None:
        """The table of docs/conventions.md."""
        cv2 = pytest.importorskip("cv2")
        if not cv2.__version__.startswith("5.0"):
            pytest.skip("the table is about OpenCV 5.0")

        def difference(image: np.ndarray, mode: Any) -> float:
            options = {"flags": getattr(cv2, FLAGS[mode]), "borderMode": cv2.BORDER_REPLICATE}
            theirs = cv2.warpAffine(image, matrices()[1], SIZE[::-1], **options)
            ours = visops.warp_affine(
                image, matrices()[1], SIZE, mode=mode, padding_mode="replicate"
            )
            return float(np.abs(ours.reshape(theirs.shape).astype(np.float64) - theirs).max())

        wide = np.concatenate([photo(), photo()], axis=2)
        for channels, by_table in ((1, False), (2, True), (3, False), (4, False), (5, True)):
            image = np.ascontiguousarray(wide[..., :channels])
            assert (1 < difference(image, "bilinear") <= 8) == by_table
            assert by_table or difference(image, "bilinear") <= 1
            single = difference(image.astype(np.float32), "bilinear")
            assert (1 < single <= 8) if by_table else single <= 0.026
            if channels > 4:
                with pytest.raises(cv2.error):
                    difference(image, "bicubic")
            else:
                assert difference(image, "bicubic") <= 1
        for dtype in (np.int16, np.float64):
            assert 1 < difference(photo().astype(dtype), "bilinear") <= 8
        assert difference(photo().astype(np.int16), "bicubic") <= 1
        assert difference(photo().astype(np.float64), "bicubic") < 0.02  # whole numbers
        assert 0.5 < difference(photo() / 255, "bicubic") < 1.1

    @pytest.mark.parametrize("padding_mode", BORDERS)
    def test_nearest(self, padding_mode: str) -> None:
        # OpenCV 4 rounds coordinates to 1/1024 pixel, 5 breaks ties to even.
        for matrix in matrices():
            ours, theirs = self.both(photo(), "nearest", padding_mode, matrix)
            assert np.mean(ours != theirs) <= (0.001 if self.is_fifth() else 0.01)

    @pytest.mark.parametrize("mode", MODES)
    def test_inverse_map(self, mode: str) -> None:
        ours, theirs = self.both(photo(), mode, "constant", matrices()[1], "WARP_INVERSE_MAP")
        difference = np.abs(ours.astype(int) - theirs.astype(int))
        assert np.mean(difference > 16) <= (0.001 if self.is_fifth() else 0.01)


def grid_theta(matrix: np.ndarray) -> Tensor:
    """affine_grid's matrix (align_corners=True) for a source -> destination pixel matrix."""
    height, width = SIZE

    def pixels(h: int, w: int) -> np.ndarray:
        return np.array([[(w - 1) / 2, 0, (w - 1) / 2], [0, (h - 1) / 2, (h - 1) / 2], [0, 0, 1]])

    inverse = np.linalg.inv(np.vstack([matrix, [0, 0, 1]]))
    theta = np.linalg.inv(pixels(512, 512)) @ inverse @ pixels(height, width)
    return torch.from_numpy(theta[None, :2])


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("constant", "zeros"), ("replicate", "border"), ("reflect", "reflection")],
)
def test_grid_sample(mode: Any, ours: Any, theirs: str) -> None:
    image = photo_tensor().double().requires_grad_()
    for matrix in matrices():
        grid = F.affine_grid(grid_theta(matrix), [1, 3, *SIZE], align_corners=True)
        expected = F.grid_sample(image, grid, mode, theirs, align_corners=True)
        result = visops.warp_affine(image, matrix, SIZE, mode=mode, padding_mode=ours)
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-9)
        grads = [torch.autograd.grad(r.square().sum(), image)[0] for r in (result, expected)]
        torch.testing.assert_close(grads[0], grads[1], rtol=0, atol=1e-8)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize(
    ("ours", "theirs"), [("constant", "zeros"), ("replicate", "border"), ("reflect", "reflection")]
)
def test_kornia(mode: Any, ours: Any, theirs: str) -> None:
    kornia = pytest.importorskip("kornia")
    image = photo_tensor()
    for matrix in matrices():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = kornia.geometry.warp_affine(
                image, torch.from_numpy(matrix)[None].float(), SIZE, mode, theirs
            )
        result = visops.warp_affine(image, matrix, SIZE, mode=mode, padding_mode=ours)
        # Its float32 grid is off by some 1e-4 of a pixel.
        wrong = (result - expected).abs() > 2e-3
        assert wrong.float().mean() <= (0.0 if mode == "bilinear" else 0.002)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_torchvision(mode: Any) -> None:
    functional = pytest.importorskip("torchvision.transforms.v2.functional")
    from torchvision.transforms import InterpolationMode

    image = photo_tensor()
    for angle in ANGLES:
        parameters: dict[str, Any] = {"translate": [12, -7], "scale": 0.8, "shear": [8.0, -5.0]}
        expected = functional.affine(
            image, angle, interpolation=InterpolationMode(mode), fill=None, **parameters
        )
        matrix = visops.get_affine_matrix((256, 256), angle, **parameters)
        result = visops.warp_affine(image, matrix, mode=mode, convention="half_pixel")
        wrong = (result - expected).abs() > 2e-3
        assert wrong.float().mean() <= (0.0 if mode == "bilinear" else 0.002)


@pytest.mark.parametrize(("order", "mode"), [(0, "nearest"), (1, "bilinear")])
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("constant", "grid-constant"),
        ("replicate", "nearest"),
        ("reflect", "mirror"),
        ("symmetric", "reflect"),
        ("circular", "grid-wrap"),
    ],
)
def test_scipy(order: int, mode: Any, ours: Any, theirs: str) -> None:
    ndimage = pytest.importorskip("scipy.ndimage")
    image = photo()[..., 1] / 255
    for matrix in matrices():
        inverse = visops.invert_affine(matrix)
        expected = ndimage.affine_transform(
            image,
            inverse[::-1, 1::-1],  # rows before columns
            inverse[::-1, 2],
            SIZE,
            order=order,
            mode=theirs,
            cval=0.5,
        )
        result = visops.warp_affine(image, matrix, SIZE, mode=mode, padding_mode=ours, fill=0.5)
        if order == 0:
            assert np.mean(result != expected) <= 1e-3
        else:
            np.testing.assert_allclose(result, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_pillow(mode: Any) -> None:
    pil = pytest.importorskip("PIL.Image")
    image = photo()[..., 0].astype(np.float32)
    for matrix in matrices(half_pixel=True):
        inverse = visops.invert_affine(matrix)
        expected = np.asarray(
            pil.fromarray(image).transform(
                SIZE[::-1],
                pil.Transform.AFFINE,
                inverse.ravel().tolist(),
                pil.Resampling.NEAREST if mode == "nearest" else pil.Resampling.BILINEAR,
            )
        )
        result = visops.warp_affine(image, matrix, SIZE, mode=mode, convention="half_pixel")
        # Pillow cuts hard at the border instead of blending with the fill, and takes nearest's
        # coordinates in fixed point.
        inside = visops.warp_affine(np.ones_like(image), matrix, SIZE, convention="half_pixel") == 1
        wrong = (np.abs(result - expected) > 0.05) & inside
        assert wrong.mean() <= (5e-3 if mode == "nearest" else 0.0)
