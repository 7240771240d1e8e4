# csrc/numpy: the fronts for NumPy arrays. All arguments are positional in the library's own calls.
from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike, NDArray

def warp_affine(
    image: NDArray[Any],
    matrix: ArrayLike,
    size: Sequence[int] | None,
    mode: str,
    padding_mode: str,
    fill: float | Sequence[float],
    inverse_map: bool,
    half_pixel: bool,
    out: NDArray[Any] | None,
) -> NDArray[Any]: ...
