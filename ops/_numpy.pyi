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
def augment(
    image: tuple[int, tuple[int, ...]],
    shape: Sequence[int],
    dtype: str,
    out: tuple[int, tuple[int, ...]],
    out_shape: Sequence[int],
    out_dtype: str,
    matrix: tuple[int, tuple[int, ...]],
    matrix_shape: Sequence[int],
    matrix_dtype: str,
    interpolation: str,
    padding_mode: str,
    fill: list[float],
    antialias: bool,
    window: tuple[int, Sequence[int]] | None,
    color: tuple[int, Sequence[int]] | None,
    clamp: bool,
    mean: list[float],
    std: list[float],
    erase: tuple[int, Sequence[int]] | None,
    erase_value: list[float],
    inverse_map: bool,
    half_pixel: bool,
    /,
) -> None: ...

class Drawn:
    @property
    def size(self) -> tuple[int, int]: ...
    @property
    def projective(self) -> bool: ...
    @property
    def still(self) -> bool: ...

class Chain:
    def __init__(
        self,
        steps: list[tuple[str, int, Sequence[float]]],
        interpolation: str,
        padding_mode: str,
        fill: list[float],
        antialias: bool,
        window: bool,
        /,
    ) -> None: ...
    def draw(
        self, seed: int, epoch: int, index: int, height: int, width: int, channels: int, /
    ) -> Drawn | None: ...
    def augment(
        self,
        drawn: Drawn,
        image: tuple[int, tuple[int, ...]],
        dtype: str,
        out: tuple[int, tuple[int, ...]],
        out_dtype: str,
        mean: list[float],
        std: list[float],
        erase_value: list[float],
        /,
    ) -> None: ...
    def run(
        self,
        seed: int,
        epoch: int,
        indices: Sequence[int],
        sizes: NDArray[Any],
        channels: int,
        images: Any,
        dtype: str,
        /,
    ) -> tuple[Any, ...] | None: ...

def are_boxes(rows: NDArray[Any], /) -> bool: ...
def are_placed_boxes(place: tuple[int, tuple[int, ...]], count: int, wide: bool, /) -> bool: ...
def move_drawn_boxes(
    drawn: Drawn,
    source: tuple[int, tuple[int, ...]],
    target: tuple[int, tuple[int, ...]],
    count: int,
    wide: bool,
    /,
) -> None: ...
def move_drawn_masks(
    drawn: Drawn,
    source: tuple[int, tuple[int, ...]],
    target: tuple[int, tuple[int, ...]],
    dtype: str,
    count: int,
    fill: float,
    /,
) -> None: ...
def move_drawn_points(
    drawn: Drawn,
    source: tuple[int, tuple[int, ...]],
    target: tuple[int, tuple[int, ...]],
    visible: tuple[int, tuple[int, ...]],
    count: int,
    width: int,
    wide: bool,
    shift: float,
    /,
) -> None: ...
def move_boxes(
    rows: NDArray[Any],
    matrices: NDArray[Any],
    owners: NDArray[Any] | None,
    windows: NDArray[Any] | None,
    /,
) -> NDArray[Any] | None: ...
def move_masks(
    source: Any,
    target: Any,
    dtype: str,
    count: int,
    size_in: tuple[int, int],
    size_out: tuple[int, int],
    matrix: NDArray[Any],
    fill: float,
    /,
) -> None: ...
def rle_areas(rles: Any, /) -> NDArray[Any] | None: ...
def rle_overlaps(rles1: Any, rles2: Any, crowd: NDArray[Any] | None, /) -> NDArray[Any] | None: ...
def move_points(
    rows: NDArray[Any],
    matrices: NDArray[Any],
    owners: NDArray[Any] | None,
    windows: NDArray[Any],
    shift: float,
    /,
) -> tuple[NDArray[Any], NDArray[Any]] | None: ...
def points_inside(
    rows: NDArray[Any], sizes: NDArray[Any], owners: NDArray[Any] | None, shift: float, /
) -> NDArray[Any]: ...
