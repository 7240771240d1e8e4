# csrc/python: what Python calls past torch's dispatcher. Arguments are positional.
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

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

GREY: tuple[float, float, float]
MEAN_GRID: int

def observers_active() -> bool: ...
def call_key(seed: int, epoch: int, worker: int, number: int, /) -> int: ...
def uniforms(
    seed: int, epoch: int, indices: Sequence[int], count: int, stream: int, /
) -> NDArray[Any]: ...

class Step:
    def __init__(self, name: str, fields: Mapping[str, Any], /) -> None: ...
    @staticmethod
    def choice(param: str, ends: Sequence[float], groups: Sequence[Sequence[Step]], /) -> Step: ...
    @staticmethod
    def interpolated(step: Step, count: int, /) -> Step: ...
    @property
    def num_uniforms(self) -> int: ...
    @property
    def num_params(self) -> int: ...
    @property
    def names(self) -> list[str]: ...
    def unpack(self, numbers: NDArray[Any], /) -> dict[str, NDArray[Any]]: ...
    def pack(self, params: Any, batch: int, /) -> NDArray[Any]: ...

class Plan:
    @overload
    def __init__(self) -> None: ...
    @overload
    def __init__(self, sizes: NDArray[Any], channels: int, exact: bool, /) -> None: ...
    image: int  # which of each sample's images it is for
    @property
    def batch(self) -> int: ...
    @property
    def channels(self) -> int: ...
    @property
    def exact(self) -> bool: ...
    @property
    def matrices(self) -> NDArray[Any]: ...
    @property
    def ties(self) -> NDArray[Any]: ...
    @property
    def window(self) -> NDArray[Any] | None: ...
    @property
    def erased(self) -> NDArray[Any] | None: ...
    @property
    def modes(self) -> NDArray[Any] | None: ...
    @property
    def has_colors(self) -> bool: ...
    @property
    def clamps(self) -> bool: ...
    @property
    def source_sizes(self) -> NDArray[Any]: ...
    @property
    def sizes(self) -> NDArray[Any]: ...
    @property
    def size(self) -> tuple[int, int] | None: ...
    @property
    def projective(self) -> bool: ...
    @property
    def is_identity(self) -> bool: ...
    def canvas_sides(self) -> tuple[Any, Any]: ...
    def add_scale(self, numbers: NDArray[Any], sides: NDArray[Any], cuts: bool, /) -> None: ...
    def add_shift(self, numbers: NDArray[Any], sides: NDArray[Any], cuts: bool, /) -> None: ...
    def add_affine(self, matrices: NDArray[Any], sides: NDArray[Any], /) -> None: ...
    def add_perspective(self, matrices: NDArray[Any], sides: NDArray[Any], /) -> None: ...
    def add_color(
        self,
        matrices: NDArray[Any],
        weights: NDArray[Any] | None,
        before: NDArray[Any] | None,
        /,
    ) -> None: ...
    def add_erase(self, rectangles: NDArray[Any], /) -> None: ...
    def begin_if(self, condition: NDArray[Any], /) -> None: ...
    def finish_if(self) -> None: ...
    def draw(self, step: Step, uniforms: NDArray[Any], /) -> NDArray[Any]: ...
    def add(self, step: Step, params: NDArray[Any], /) -> None: ...
    def sampled(self, nearest: bool, /) -> NDArray[Any]: ...
    def color_program(self, nearest: bool, /) -> tuple[list[Any], tuple[Any, Any]]: ...
    def windows(
        self, around: float, beyond: float, anywhere: bool, /
    ) -> list[tuple[int, int, int, int]]: ...
    def reductions(self) -> list[int]: ...
    def become_parts(self, other: Plan, parts: NDArray[Any], /) -> None: ...
    def set_geometry(self, matrices: NDArray[Any], sizes: NDArray[Any], /) -> None: ...

class Chain:
    def __init__(
        self,
        steps: Sequence[tuple[Step | int, int]],
        interpolations: list[str],
        padding_mode: str,
        fill: list[float],
        antialias: bool,
        saturates: bool,
        window: bool,
        /,
    ) -> None: ...
    def draw(
        self,
        plan: Plan,
        seed: int,
        epoch: int,
        indices: Sequence[int],
        record: bool,
        in_python: Any,
        /,
    ) -> list[dict[str, NDArray[Any]]] | None: ...
    def colors(self, plan: Plan, images: Any, dtype: str, /) -> NDArray[Any]: ...

_Stages = list[tuple[Chain, bool, list[float], list[float], list[float], str, int, Any]]

class Passes:
    def __init__(self, stages: _Stages, /) -> None: ...
    def run_batch(
        self, plans: Sequence[Plan], images: Tensor | list[Tensor], out: Tensor, /
    ) -> bool: ...
    def run_each(
        self,
        plans: Sequence[Plan],
        images: list[tuple[int, tuple[int, ...]]],
        dtype: str,
        outs: list[tuple[int, tuple[int, ...]]],
        frames: int,
        /,
    ) -> None: ...

class Pipeline:
    def __init__(
        self,
        *,
        kinds: dict[str, str],
        layout: str | None,
        frames: bool,
        indices: bool,
        exact: bool,
        moves_targets: bool,
        clips_boxes: bool,
        drops_boxes: bool,
        least_side: float,
        least_area: float,
        pads: bool,
        pure_targets: bool,
        mask_fill: int,
        other_mask_fill: int,
        keypoint_shift: float,
        has_image_type: bool,
        reads_files: bool,
        channels_last: bool,
    ) -> None: ...
    def run(
        self, chain: Any, sample: Any, generator: Any, index: Any, epoch: Any, record: bool, /
    ) -> tuple[bool, Any]: ...
    def follow(
        self,
        chain: Any,
        sample: Any,
        plans: list[Plan],
        image: torch.Tensor,
        whole: Callable[[], Any],
        /,
    ) -> Any: ...
    def load(
        self,
        chain: Any,
        sample: Any,
        seed: int,
        epoch: int,
        index: int,
        image: torch.Tensor | None,
        memory: Callable[[int, tuple[int, int, int], torch.dtype], torch.Tensor],
        /,
    ) -> tuple[Any, torch.Tensor] | None: ...

class FilePass:
    def __init__(
        self,
        stages: _Stages,
        read_header: int,
        decode: int,
        channels: int,
        max_pixels: int,
        exif: bool,
        reduces: bool,
        exact: bool,
        around: float,
        beyond: float,
        anywhere: bool,
        /,
    ) -> None: ...
    @staticmethod
    def load(
        views: Sequence[FilePass],
        source: Any,
        is_path: bool,
        seeds: list[int],
        epoch: int,
        index: int,
        images: list[torch.Tensor | None],
        memory: Callable[[int, tuple[int, int, int], torch.dtype], torch.Tensor],
        /,
    ) -> tuple[list[list[Plan]], tuple[float, float, float]] | None: ...
    def decode(
        self, source: Any, is_path: bool, seed: int, epoch: int, index: int, /
    ) -> tuple[NDArray[Any], tuple[int, int, int], tuple[int, int], tuple[float, float]] | None: ...

def lend(
    owner: NDArray[Any], size: int, give_back: Callable[[NDArray[Any]], None], /
) -> NDArray[Any]: ...
def copy_together(arrays: list[NDArray[Any]], begins: list[int], address: int, /) -> None: ...
def solve_assignments(
    costs: NDArray[Any], shapes: NDArray[Any], /
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]: ...
def contours(
    masks: NDArray[Any], keeps_all: bool, /
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]: ...
def png_rows(rows: bytes, height: int, width: int, /) -> NDArray[Any] | None: ...
def stored_part(
    height: int,
    width: int,
    orientation: int,
    window: tuple[int, int, int, int],
    reduction: int,
    /,
) -> tuple[int, int, int, int, int, int]: ...
def make_fields(tasks: list[tuple[str, dict[str, Any], int, int, int]], /) -> None: ...
def move_by_field(points: NDArray[Any], field: int, size: Sequence[int], /) -> NDArray[Any]: ...
def run_operation(
    kind: int,
    amount: float,
    more: Sequence[float],
    address: int,
    dtype: str,
    channels: int,
    height: int,
    width: int,
    /,
) -> None: ...
def pixel_turns(
    plan: Plan, begin: int, samples: int, frames: int, /
) -> list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]: ...
def are_boxes(rows: NDArray[Any], /) -> bool: ...
def clip_boxes(
    rows: NDArray[Any], form: str, windows: NDArray[Any], owners: NDArray[Any] | None, /
) -> tuple[NDArray[Any], NDArray[Any]]: ...
def large_boxes(
    boxes: NDArray[Any], form: str, least_side: float, least_area: float, /
) -> NDArray[Any] | None: ...
def move_boxes(
    rows: NDArray[Any],
    form: str,
    matrices: NDArray[Any],
    owners: NDArray[Any] | None,
    windows: NDArray[Any] | None,
    measured: bool,
    /,
) -> tuple[NDArray[Any], NDArray[Any] | None, NDArray[Any] | None] | None: ...
def clip_polygons(
    points: NDArray[Any], counts: NDArray[Any], window: Sequence[float], /
) -> tuple[NDArray[Any], NDArray[Any]]: ...
def polygon_areas(points: NDArray[Any], counts: NDArray[Any], /) -> NDArray[Any]: ...
def move_polygons(
    points: NDArray[Any], counts: NDArray[Any], matrix: NDArray[Any], near: float, /
) -> tuple[NDArray[Any], NDArray[Any]]: ...
def read_flat_polygons(objects: Any, /) -> tuple[NDArray[Any], NDArray[Any], list[int]] | None: ...
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
def write_run_text(
    ends: NDArray[Any], offsets: NDArray[Any], /
) -> tuple[NDArray[Any], NDArray[Any]]: ...
def read_run_text(
    text: bytes, begins: NDArray[Any], pixels: NDArray[Any], /
) -> tuple[NDArray[Any], NDArray[Any], tuple[int, int, int]]: ...
def read_run_counts(
    counts: NDArray[Any], offsets: NDArray[Any], pixels: NDArray[Any], /
) -> tuple[NDArray[Any], tuple[int, int, int]]: ...
def run_areas(ends: NDArray[Any], offsets: NDArray[Any], /) -> NDArray[Any]: ...
def run_overlaps(
    ends1: NDArray[Any],
    offsets1: NDArray[Any],
    ends2: NDArray[Any],
    offsets2: NDArray[Any],
    crowd: NDArray[Any] | None,
    height: int,
    /,
) -> NDArray[Any]: ...
def polygon_runs(
    points: NDArray[Any],
    point_offsets: NDArray[Any],
    polygon_offsets: NDArray[Any],
    height: int,
    width: int,
    /,
) -> tuple[NDArray[Any], NDArray[Any]]: ...
