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


def tensor_chain(whole: bool, library: Any, pil: bool = False) -> Any:
    """Crop and flip; or all: affine and jitter too, in visops or torchvision."""
    more = [
        library.RandomAffine(10.0, (0.1, 0.1), (0.9, 1.1), interpolation=BILINEAR),
        library.ColorJitter(0.2, 0.2, 0.2, 0.05),
    ]
    crop, flip = library.RandomResizedCrop(TARGET, (0.25, 1.0)), library.RandomHorizontalFlip()
    return chain(library, crop, flip, *(more if whole else []), pil=pil)


def albumentations_chain(whole: bool) -> A.Compose:
    """albumentations' chain, whose filter for shrinking is a box."""
    shift = {"x": (-0.1, 0.1), "y": (-0.1, 0.1)}
    more = [
        A.Affine(scale=(0.9, 1.1), rotate=(-10, 10), translate_percent=shift, p=1.0),
        A.ColorJitter(0.2, 0.2, 0.2, 0.05, p=1.0),
    ]
    crop = A.RandomResizedCrop(TARGET, (0.25, 1.0), area_for_downscale="image")
    return albumentations(crop, A.HorizontalFlip(), *(more if whole else []))


def loader_contenders(count: int, large: bool, whole: bool) -> list[Contender]:
    """Every library's chain behind the decoder that suits it best."""
    gc.collect()  # ends workers of earlier cases
    files = jpeg_files(count, large)
    least = 2 * REDUCED if large else 0  # a crop may have half the photo's sides
    pil: Decode = functools.partial(by_pil, least=least or None)

    def decoded(file: bytes) -> Photo:
        return by_simplejpeg(file, least)

    ours = V.Compose([V.DecodeJpeg(), *tensor_chain(whole, V).transforms])
    tensors, images = tensor_chain(whole, v2), tensor_chain(whole, v2, pil=True)
    arrays = albumentations_chain(whole)
    views = views_by(decoded)
    loader = functools.partial(in_workers, batch_size=BATCH, num_workers=WORKERS)
    loaders = {
        "visops": loader(files, bytes, ours.collate),
        "visops, one by one": loader(files, ours),
        "torchvision": loader(files, lambda file: tensors(views(file))),
        "torchvision PIL": loader(files, lambda file: images(pil(file))),
        "albumentations": loader(files, lambda file: arrays(image=decoded(file))["image"]),
    }
    return [
        Contender(name, epoch, SAME_MEAN, mean, bound=name == "visops, one by one")
        for name, epoch in loaders.items()
    ]


def cases() -> list[Case]:
    """Decoders, then chains, on photos of the usual size and on large ones."""
    options: dict[str, Any] = {"threads": 1, "memory": False, "workers": True}
    sizes = {"640×480": (32, 128, False), "2016×1512": (8, 64, True)}
    decoders, chains = [], []
    for size, (few, many, large) in sizes.items():
        group, table = f"decoders, photos of {size}", {f"{few} files": (few, large)}
        decoders += rows(group, decoder_contenders, table, threads=1, images=few)
        group = f"JPEG files of {size} → batches of {BATCH}, DataLoader with {WORKERS} workers"
        kinds = {f"{many} files: crop, flip": (many, large, False)}
        kinds |= {} if large else {f"{many} files: … affine, jitter": (many, large, True)}
        chains += rows(group, loader_contenders, kinds, "…", images=many, **options)
    return decoders + chains
