"""From JPEG files in memory to batches: decoders, and chains in a DataLoader with two workers.

Chains draw their own random parameters, so what is compared is the mean of each channel over all
batches. A whole pass over the files is timed, with workers that have started already. Decoders are
ours and those that packages from PyPI bring along, all of them libjpeg-turbo inside (PyTurboJPEG,
the same once more, wants the system's). simplejpeg, OpenCV and PIL can reduce a photo while
decoding it: by 2, 4 or 8 that is faster than decoding all of it, by other factors it may be slower.
Our chains begin with DecodeJpeg, which draws the crop first. Peers decode the whole photo, as far
reduced as their smallest crop allows.
"""

import functools
import gc
import io
from collections.abc import Callable, Sequence
from typing import Any

import albumentations as A
import cv2
import numpy as np
import simplejpeg
import torch
import torchvision
import visops
from bench.augmentation.libraries import BILINEAR, albumentations, chain
from bench.augmentation.pictures import SAME_MEAN, Photo, Size, jpeg_files
from bench.harness import Case, Contender, Tolerance, rows
from bench.loading.ours import in_workers, mean
from PIL import Image
from torchvision.transforms import v2
from visops import transforms as V

TARGET: Size = (224, 224)
BATCH = 32
WORKERS = 2
REDUCED = 3 * TARGET[0] // 2  # not decoded smaller, so that the resizing filter still matters

Decode = Callable[[bytes], Any]

SAME_PHOTO = Tolerance(mean_abs=4.0, why="decoders differ in upsampling of colour, and reduction")


def by_visops(file: bytes, size: int | None = None) -> Photo:
    """All pixels, [H, W, 3]; or 2016x1512 to a quarter."""
    return visops.decode_jpeg(np.frombuffer(file, np.uint8), size=size)


def by_simplejpeg(file: bytes, least: int = 0) -> Photo:
    """All pixels, [H, W, 3]; or 2016x1512 to a quarter, or to a half."""
    photo: Photo = simplejpeg.decode_jpeg(file, min_height=least, min_width=least)
    return photo


def by_opencv(file: bytes) -> Photo:
    """All pixels."""
    return cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_COLOR_RGB)  # type: ignore[return-value]


def reduced_by_opencv(file: bytes) -> Photo:
    """To a quarter."""
    flag = cv2.IMREAD_REDUCED_COLOR_4
    reduced = cv2.imdecode(np.frombuffer(file, np.uint8), flag)
    return cv2.cvtColor(reduced, cv2.COLOR_BGR2RGB)  # type: ignore[arg-type,return-value]


def by_pil(file: bytes, least: int | None = None) -> Image.Image:
    """All pixels; or in draft mode: 2016x1512 to a quarter, or to a half."""
    photo = Image.open(io.BytesIO(file))
    if least is not None:
        photo.draft("RGB", (least, least))
    return photo.convert("RGB")


def by_torchvision(file: bytes) -> torch.Tensor:
    """All pixels, [3, H, W]."""
    content = torch.frombuffer(bytearray(file), dtype=torch.uint8)
    return torchvision.io.decode_jpeg(content, torchvision.io.ImageReadMode.RGB)


def views_by(decode: Decode) -> Decode:
    """Pixels [3, H, W] whose memory is HWC: what torchvision resizes fastest."""
    return lambda file: torch.from_numpy(decode(file)).permute(2, 0, 1)


def _thumbnails(photos: Sequence[Any]) -> torch.Tensor:
    """Decoded photos, small enough to be compared whatever their reduction."""
    small = []
    for photo in photos:
        array = photo.permute(1, 2, 0).numpy() if isinstance(photo, torch.Tensor) else photo
        small.append(cv2.resize(np.asarray(array), (48, 48), interpolation=cv2.INTER_AREA))
    return torch.from_numpy(np.stack(small)).float()


def decoder_contenders(count: int, large: bool) -> list[Contender]:
    """Decode files one after another."""
    files = jpeg_files(count, large)
    decoders: dict[str, Decode] = {
        "visops": functools.partial(by_visops, size=REDUCED if large else None),
        "simplejpeg": by_simplejpeg,
        "OpenCV": by_opencv,
        "torchvision": by_torchvision,
        "PIL": by_pil,
    }
    if large:
        decoders |= {
            "simplejpeg, reduced": functools.partial(by_simplejpeg, least=REDUCED),
            "OpenCV, reduced": reduced_by_opencv,
            "PIL, reduced": functools.partial(by_pil, least=REDUCED),
        }

    def each(decode: Decode) -> Callable[[], list[Any]]:
        return lambda: [decode(file) for file in files]

    return [
        Contender(name, each(decode), SAME_PHOTO, comparable=_thumbnails)
        for name, decode in decoders.items()
    ]


def _empty(photos: list[Any]) -> torch.Tensor:
    """No transform, only the transfer to the main process: the bound for every chain."""
    return torch.zeros(len(photos), 3, *TARGET)


def tensor_chain(kind: str, library: Any, pil: bool = False) -> Any:
    """The chain of a kind in KINDS, in visops or torchvision."""
    crop = library.RandomResizedCrop(TARGET, (0.25, 1.0))
    more = [
        library.RandomAffine(10.0, (0.1, 0.1), (0.9, 1.1), interpolation=BILINEAR),
        library.ColorJitter(0.2, 0.2, 0.2, 0.05),
    ]
    first = library.Resize(TARGET) if kind == "resize" else crop
    middle = more if kind == "all" else []
    return chain(library, first, library.RandomHorizontalFlip(), *middle, pil=pil)


def albumentations_chain(kind: str) -> A.Compose:
    """albumentations' chain, whose filter for shrinking is a box."""
    area = {"area_for_downscale": "image"}
    crop = A.RandomResizedCrop(TARGET, (0.25, 1.0), **area)
    shift = {"x": (-0.1, 0.1), "y": (-0.1, 0.1)}
    more = [
        A.Affine(scale=(0.9, 1.1), rotate=(-10, 10), translate_percent=shift, p=1.0),
        A.ColorJitter(0.2, 0.2, 0.2, 0.05, p=1.0),
    ]
    first = A.Resize(*TARGET, **area) if kind == "resize" else crop
    return albumentations(first, A.HorizontalFlip(), *(more if kind == "all" else []))


def loader_contenders(count: int, large: bool, kind: str) -> list[Contender]:
    """Every library's chain behind the decoder that suits it best."""
    gc.collect()  # ends workers of earlier cases
    files = jpeg_files(count, large)
    # A crop may have half the photo's sides.
    least = REDUCED if kind == "resize" else 2 * REDUCED
    decode: Decode = functools.partial(by_simplejpeg, least=least) if large else by_simplejpeg
    plain = tensor_chain(kind, V)
    ours = V.Compose([V.DecodeJpeg(), *plain.transforms])
    full = V.Compose([V.DecodeJpeg(reduced=False), *plain.transforms])
    tensors, images = tensor_chain(kind, v2), tensor_chain(kind, v2, pil=True)
    arrays = albumentations_chain(kind)
    views = views_by(decode)
    pil: Decode = functools.partial(by_pil, least=least) if large else by_pil
    loader = functools.partial(in_workers, batch_size=BATCH, num_workers=WORKERS)
    loaders = {
        "visops": loader(files, bytes, ours.collate),
        "visops, one by one": loader(files, ours),
        "visops, full scale": loader(files, bytes, full.collate),
        "visops after simplejpeg": loader(files, decode, plain.collate),
        "decoding, empty batches": loader(files, decode, _empty),
        "torchvision": loader(files, lambda file: tensors(views(file))),
        "torchvision PIL": loader(files, lambda file: images(pil(file))),
        "albumentations": loader(files, lambda file: arrays(image=decode(file))["image"]),
    }
    floors = FLOORS.get((large, kind), {})
    return [
        Contender(
            name,
            epoch,
            Tolerance() if name == "decoding, empty batches" else SAME_MEAN,
            comparable=mean,
            floor=floors.get(name),
            bound=name.startswith(("visops ", "visops,", "decoding")),
        )
        for name, epoch in loaders.items()
    ]


# The ratios that the project aims for.
FLOORS: dict[tuple[bool, str], dict[str, float]] = {
    (False, "crop"): {"torchvision": 1.25},
    (False, "all"): {"albumentations": 1.6, "torchvision": 3.5},
    (True, "crop"): dict.fromkeys(("torchvision", "torchvision PIL", "albumentations"), 1.5),
    (True, "resize"): dict.fromkeys(("torchvision", "torchvision PIL", "albumentations"), 1.5),
}

KINDS = {"crop": "crop, flip", "all": "… affine, jitter", "resize": "resize, flip"}


def cases() -> list[Case]:
    """Decoders, then chains, on photos of the usual size and on large ones."""
    sizes = {False: "640×480", True: "2016×1512"}
    found = []
    for large, count in ((False, 32), (True, 8)):
        group, table = f"decoders, photos of {sizes[large]}", {f"{count} files": (count, large)}
        found += rows(group, decoder_contenders, table, threads=1, images=count)
    options: dict[str, Any] = {"threads": 1, "memory": False, "workers": True}
    for large, count, kinds in ((False, 128, ("crop", "all")), (True, 64, ("crop", "resize"))):
        batches = f"batches of {BATCH}, DataLoader with {WORKERS} workers"
        group = f"JPEG files of {sizes[large]} → {batches}"
        table_of_kinds = {f"{count} files: {KINDS[kind]}": (count, large, kind) for kind in kinds}
        found += rows(group, loader_contenders, table_of_kinds, "…", images=count, **options)
    return found
