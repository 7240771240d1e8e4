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
import torchvision.transforms.v2 as T
import visops
from bench.augmentation.pictures import MEAN, SAME_MEAN, STD, Photo, Size, jpeg_files
from bench.harness import Case, Contender, Tolerance, case
from bench.loading.workers import Loaded, start
from PIL import Image
from torch.utils.data import DataLoader
from visops import transforms as V

TARGET: Size = (224, 224)
BATCH = 32
WORKERS = 2
REDUCED = 3 * TARGET[0] // 2  # not decoded smaller, so that the resizing filter still matters

Decode = Callable[[bytes], Any]

SAME_PHOTO = Tolerance(mean_abs=4.0, why="decoders differ in upsampling of colour, and reduction")


def by_visops(file: bytes) -> Photo:
    """All pixels, [H, W, 3]."""
    return visops.decode_jpeg(np.frombuffer(file, np.uint8))  # type: ignore[no-any-return]


def reduced_by_visops(file: bytes) -> Photo:
    """2016x1512 to a quarter."""
    content = np.frombuffer(file, np.uint8)
    return visops.decode_jpeg(content, size=REDUCED)  # type: ignore[no-any-return]


def by_simplejpeg(file: bytes) -> Photo:
    """All pixels, [H, W, 3]."""
    photo: Photo = simplejpeg.decode_jpeg(file)
    return photo


def reduced_by_simplejpeg(file: bytes, least: int = REDUCED) -> Photo:
    """2016x1512 to a quarter, or to a half."""
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


def by_pil(file: bytes) -> Image.Image:
    """All pixels."""
    return Image.open(io.BytesIO(file)).convert("RGB")


def reduced_by_pil(file: bytes, least: int = REDUCED) -> Image.Image:
    """Draft mode: 2016x1512 to a quarter, or to a half."""
    photo = Image.open(io.BytesIO(file))
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
        "visops": reduced_by_visops if large else by_visops,
        "simplejpeg": by_simplejpeg,
        "OpenCV": by_opencv,
        "torchvision": by_torchvision,
        "PIL": by_pil,
    }
    if large:
        decoders |= {
            "simplejpeg, reduced": reduced_by_simplejpeg,
            "OpenCV, reduced": reduced_by_opencv,
            "PIL, reduced": reduced_by_pil,
        }

    def each(decode: Decode) -> Callable[[], list[Any]]:
        return lambda: [decode(file) for file in files]

    return [
        Contender(name, each(decode), SAME_PHOTO, comparable=_thumbnails)
        for name, decode in decoders.items()
    ]


class Loader:
    """Run one epoch; returns the mean of each channel."""

    def __init__(self, files: Sequence[bytes], load: Decode, collate: Any = None) -> None:
        self.loader: Any = DataLoader(
            Loaded(files, load),
            batch_size=BATCH,
            num_workers=WORKERS,
            collate_fn=collate,
            worker_init_fn=start,
            persistent_workers=True,
        )

    def __call__(self) -> list[torch.Tensor]:
        return [batch[:, :, ::8, ::8].mean((0, 2, 3)) for batch in self.loader]

    @staticmethod
    def mean(batches: list[torch.Tensor]) -> torch.Tensor:
        """Over all batches."""
        return torch.stack(batches).mean(0)


def _empty(photos: list[Any]) -> torch.Tensor:
    """No transform, only the transfer to the main process: the bound for every chain."""
    return torch.zeros(len(photos), 3, *TARGET)


def visops_chain(kind: str) -> V.Compose:
    """Our chain of a kind in KINDS."""
    crop = [V.Resize(TARGET)] if kind == "resize" else [V.RandomResizedCrop(TARGET, (0.25, 1.0))]
    more = [V.RandomAffine(10.0, (0.1, 0.1), (0.9, 1.1)), V.ColorJitter(0.2, 0.2, 0.2, 0.05)]
    finish = [V.ToDtype(torch.float32, scale=True), V.Normalize(MEAN, STD)]
    middle = more if kind == "all" else []
    return V.Compose([*crop, V.RandomHorizontalFlip(), *middle, *finish])


def torchvision_chain(kind: str, pil: bool) -> T.Compose:
    """torchvision's chain."""
    bilinear = T.InterpolationMode.BILINEAR
    crop = [T.Resize(TARGET)] if kind == "resize" else [T.RandomResizedCrop(TARGET, (0.25, 1.0))]
    more = [
        T.RandomAffine(10.0, (0.1, 0.1), (0.9, 1.1), interpolation=bilinear),
        T.ColorJitter(0.2, 0.2, 0.2, 0.05),
    ]
    planes = T.ToImage() if pil else T.Lambda(torch.Tensor.contiguous)
    finish = [planes, T.ToDtype(torch.float32, scale=True), T.Normalize(MEAN, STD)]
    middle = more if kind == "all" else []
    return T.Compose([*crop, T.RandomHorizontalFlip(), *middle, *finish])


def albumentations_chain(kind: str) -> A.Compose:
    """albumentations' chain, whose filter for shrinking is a box."""
    crop = (
        [A.Resize(*TARGET, area_for_downscale="image")]
        if kind == "resize"
        else [A.RandomResizedCrop(TARGET, (0.25, 1.0), area_for_downscale="image")]
    )
    shift = {"x": (-0.1, 0.1), "y": (-0.1, 0.1)}
    more = [
        A.Affine(scale=(0.9, 1.1), rotate=(-10, 10), translate_percent=shift, p=1.0),
        A.ColorJitter(0.2, 0.2, 0.2, 0.05, p=1.0),
    ]
    finish = [A.Normalize(MEAN, STD), A.ToTensorV2()]
    middle = more if kind == "all" else []
    return A.Compose([*crop, A.HorizontalFlip(), *middle, *finish], is_check_shapes=False)


def loader_contenders(count: int, large: bool, kind: str) -> list[Contender]:
    """Every library's chain behind the decoder that suits it best."""
    gc.collect()  # ends workers of earlier cases
    files = jpeg_files(count, large)
    # A crop may have half the photo's sides.
    least = REDUCED if kind == "resize" else 2 * REDUCED
    decode: Decode = functools.partial(reduced_by_simplejpeg, least=least)
    if not large:
        decode = by_simplejpeg
    plain = visops_chain(kind)
    ours = V.Compose([V.DecodeJpeg(), *plain.transforms])
    full = V.Compose([V.DecodeJpeg(reduced=False), *plain.transforms])
    tensors, images = torchvision_chain(kind, pil=False), torchvision_chain(kind, pil=True)
    arrays = albumentations_chain(kind)
    views = views_by(decode)
    pil: Decode = functools.partial(reduced_by_pil, least=least) if large else by_pil
    loaders = {
        "visops": Loader(files, bytes, ours.collate),
        "visops, one by one": Loader(files, ours),
        "visops, full scale": Loader(files, bytes, full.collate),
        "visops after simplejpeg": Loader(files, decode, plain.collate),
        "decoding, empty batches": Loader(files, decode, _empty),
        "torchvision": Loader(files, lambda file: tensors(views(file))),
        "torchvision PIL": Loader(files, lambda file: images(pil(file))),
        "albumentations": Loader(files, lambda file: arrays(image=decode(file))["image"]),
    }
    floors = FLOORS.get((large, kind), {})
    return [
        Contender(
            name,
            loader,
            Tolerance() if name == "decoding, empty batches" else SAME_MEAN,
            comparable=Loader.mean,
            floor=floors.get(name),
            bound=name.startswith(("visops ", "visops,", "decoding")),
        )
        for name, loader in loaders.items()
    ]


# The ratios that the project aims for.
FLOORS: dict[tuple[bool, str], dict[str, float]] = {
    (False, "crop"): {"torchvision": 1.25},
    (False, "all"): {"albumentations": 1.6, "torchvision": 3.5},
    (True, "crop"): dict.fromkeys(("torchvision", "torchvision PIL", "albumentations"), 1.5),
    (True, "resize"): dict.fromkeys(("torchvision", "torchvision PIL", "albumentations"), 1.5),
}

KINDS = {
    "crop": "crop, flip",
    "all": "… affine, jitter",
    "resize": "resize, flip",
}


def cases() -> list[Case]:
    """Decoders, then chains, on photos of the usual size and on large ones."""
    cases = []
    for large, count in ((False, 32), (True, 8)):
        size = "2016×1512" if large else "640×480"
        cases.append(
            case(
                f"decoders, photos of {size}",
                f"{count} files",
                decoder_contenders,
                *(count, large),
                threads=1,
                images=count,
            )
        )
    for large, count, kinds in ((False, 128, ("crop", "all")), (True, 64, ("crop", "resize"))):
        size = "2016×1512" if large else "640×480"
        cases += [
            case(
                f"JPEG files of {size} → batches of {BATCH}, DataLoader with {WORKERS} workers",
                f"{count} files: {KINDS[kind]}",
                loader_contenders,
                *(count, large, kind),
                quick=kind == "all",
                threads=1,
                memory=False,
                workers=True,
                images=count,
            )
            for kind in kinds
        ]
    return cases
