"""Arguments that memory and time grow with have a limit."""

from typing import Any

import pytest
from bad_input import check
from visops import transforms

T: Any = transforms

ODD = "an odd whole number >= 3 and <= "
KERNEL = "an odd whole number or two of them (width, height), at most 65535"
# A class, an argument's greatest value, one beyond that, and what it must be.
LIMITS: list[tuple[Any, str, Any, Any, str]] = [
    (T.ElasticTransform, "sigma", 8191, 2**40, "a number >= 0 and <= 8191 or two (x, y)"),
    (T.ElasticTransform, "sigma", (8191, 1), (2**40, 1), "a number >= 0 and <= 8191 or two (x, y)"),
    (T.Blur, "blur_limit", (65535, 65535), 2**40 + 1, f"{ODD}65535"),
    (T.UnsharpMask, "blur_limit", (65535, 65535), 2**40 + 1, f"{ODD}65535"),
    (T.MotionBlur, "blur_limit", (1023, 1023), 1025, f"{ODD}1023"),
    (T.AdvancedBlur, "blur_limit", (255, 1023), 1025, f"{ODD}1023"),
    (T.RingingOvershoot, "blur_limit", (255, 1023), 1025, f"{ODD}1023"),
    (T.GaussianBlur, "kernel_size", 65535, 2**40 + 1, KERNEL),
    (T.CLAHE, "tile_grid_size", (1024, 1), (1025, 1), "two whole numbers >= 1 and <= 1024 (x, y)"),
    (
        T.CoarseDropout,
        "num_holes_range",
        (65536, 65536),
        (1, 2**40),
        "two whole numbers >= 0 and <= 65536 (min, max)",
    ),
    (T.RandAugment, "num_magnitude_bins", 65536, 2**40, "a whole number >= 2 and <= 65536"),
    (T.TrivialAugment, "num_magnitude_bins", 65536, 2**40, "a whole number >= 2 and <= 65536"),
    (T.RandomShadow, "shadow_dimension", 1000, 2**40, "a whole number >= 3 and <= 1000"),
]


@pytest.mark.parametrize(
    ("made", "name", "greatest", "beyond", "allowed"),
    LIMITS,
    ids=[f"{made.__name__}.{name}={greatest}" for made, name, greatest, *_ in LIMITS],
)
def test_greater_work_is_refused(
    made: Any, name: str, greatest: Any, beyond: Any, allowed: str
) -> None:
    made(**{name: greatest})
    shown = beyond[0] if name == "tile_grid_size" else beyond
    message = f"transforms.{made.__name__}: {name} is {shown}, must be {allowed}"
    check(ValueError, message, lambda: made(**{name: beyond}))
