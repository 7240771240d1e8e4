"""The work of each stage on a batch, for any engine: threads, ranks or a cluster's actors."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from types import NoneType
from typing import Any

import torch
from torch import Tensor

from ..batch import Batch, Picture
from ..frames import Frame, Placement
from ..images.decode import Decoder
from ..images.preprocess import Preprocess
from ..models.forward import Forwarded, forward
from ..models.masks import label_map
from ..models.model import Model
from ..options import Options
from ..store.reuse import kept_outputs
from ..view.drawing import picture_path


class Work:
    """The stages' functions, from decoding to results.

    On CUDA each stage has its own stream, and waits for it before it passes the batch on. So stages
    overlap, each stage's time is its own, and memory is free as soon as a batch releases it.

    Parameters
    ----------
    root : str
        The folder of images.
    models : sequence of Model
    options : Options
    """

    def __init__(self, root: str, models: Sequence[Model], options: Options) -> None:
        self.models = list(models)
        self.options = options
        self.device = torch.device(options.device)
        self._streams: dict[str, torch.cuda.Stream] = {}
        self._worked: set[str] = set()  # models that have returned an output
        self._autocast = getattr(torch, options.autocast) if options.autocast else None
        whole = any(model.whole_images for model in models) or options.annotate is not None
        if whole and options.reduced:
            raise ValueError(
                "visops.infer: reduced is True, but regions and annotations need whole images"
            )
        self.decoder = Decoder(
            root,
            tuple(self._inputs()),
            reduced=not whole if options.reduced is None else options.reduced,
            exif=options.exif,
            max_pixels=options.max_pixels,
            max_bytes=options.max_bytes,
            max_batch_pixels=options.max_batch_pixels,
        )

    def load(self) -> None:
        """Put the models on the device.

        Raises
        ------
        RuntimeError
            There is no such device on this machine.
        """
        count = torch.cuda.device_count()
        if self.device.type == "cuda" and (self.device.index or 0) >= count:
            raise RuntimeError(
                f"visops.infer: device is {str(self.device)!r}, torch sees {count} CUDA devices"
            )
        for model in self.models:
            model.to(self.device, self.options.memory_format)

    def collate(self, batch: Batch) -> Batch:
        """Copy the pixels to the device in one piece, and split them into images."""
        pixels, batch.pixels = batch.pixels, None
        if pixels is None or not batch.frames:
            return batch
        with self._on_device("collate"):
            if self.device.type == "cuda":
                pixels = pixels.pin_memory().to(self.device, non_blocking=True)
            batch.images = []
            for frame in batch.frames:
                size = frame.height * frame.width * 3
                flat = pixels[frame.offset : frame.offset + size]
                batch.images.append(flat.view(frame.height, frame.width, 3).permute(2, 0, 1))
        return batch

    def preprocess(self, batch: Batch) -> Batch:
        """Make each distinct input that the models need, in one pass each."""
        if not batch.frames:
            return batch
        with self._on_device("preprocess"):
            placements = {}
            for wanted in self._inputs():
                batch.inputs[wanted], placements[wanted] = wanted.run(
                    batch.images, batch.frames, self.options.memory_format
                )
            batch.placements = placements
        if not self._keeps_images:
            batch.images = []
        return batch

    def forward(self, batch: Batch) -> Batch:
        """Run all models, but for those whose results an earlier run has kept."""
        if not batch.frames:
            return batch
        batch.results = self._kept_results(batch)
        autocast = (
            torch.autocast(self.device.type, self._autocast) if self._autocast else nullcontext()
        )
        with self._on_device("models"), autocast:
            for model in self.models:
                if model.name in batch.results:
                    continue
                wanted = model.preprocess or self.options.preprocess
                inputs, placements = batch.inputs[wanted], batch.placements[wanted]
                worked = model.name in self._worked
                if forward(model, inputs, placements, batch, worked=worked):
                    self._worked.add(model.name)
        batch.inputs = {}
        return batch

    def postprocess(self, batch: Batch) -> Batch:
        """Turn outputs into results on the CPU."""
        if not batch.frames:
            return batch
        with self._on_device("postprocess"):
            for model in self.models:
                if model.name in batch.results:
                    continue
                done: Forwarded = batch.outputs[model.name]
                wanted = model.preprocess or self.options.preprocess
                results: list[dict[str, Any]] = [{} for _ in batch.frames]
                for output, rows in done.parts:
                    placements = [batch.placements[wanted][row] for row in rows]
                    found = _postprocessed(model, output, placements)
                    for row, result in zip(rows, found, strict=True):
                        results[row] = result
                batch.results[model.name] = results
            self._make_pictures(batch)
        batch.outputs = {}
        batch.images = []
        return batch

    def _make_pictures(self, batch: Batch) -> None:
        """Collect the pictures to write; results keep only their paths."""
        suffix = self.options.picture_suffix
        for row, frame in enumerate(batch.frames):
            if frame.index in batch.failures:
                continue
            path = batch.path(frame)
            results = {model.name: batch.results[model.name][row] for model in self.models}
            for name, result in results.items():
                picture = result.get("picture")
                if isinstance(picture, Tensor):
                    file = picture_path(f"pictures/{name}", path, suffix, picture.shape)
                    batch.pictures.append(Picture(file, picture))
                    result["picture"] = file
                # Kept results have the paths of their masks already.
                masks_are_pixels = not isinstance(result.get("masks"), (str, NoneType))
                if self.options.masks == "png" and masks_are_pixels:
                    # A copy: annotations are drawn from the run lengths.
                    batch.results[name][row] = {
                        **result,
                        "masks": _add_label_map(batch, frame, name, result),
                    }
            if self.options.annotate is not None:
                image = batch.images[row]
                file = picture_path("annotated", path, suffix, image.shape)
                batch.pictures.append(Picture(file, _kept(image), results))

    def _kept_results(self, batch: Batch) -> dict[str, list[dict[str, Any]]]:
        """Return, by model, the results that an earlier run has kept for all images of the batch.

        Results whose masks are in files, where they no longer overlap, can't be drawn.
        """
        rows = [frame.index for frame in batch.frames]
        draws_masks = self.options.annotate is not None and self.options.masks == "png"
        return {
            name: [found[row] for row in rows]
            for name, found in kept_outputs(batch.plan).outputs.items()
            if all(row in found for row in rows)
            and not (draws_masks and any("masks" in found[row] for row in rows))
        }

    @property
    def _keeps_images(self) -> bool:
        return self.options.annotate is not None or any(m.whole_images for m in self.models)

    def _inputs(self) -> list[Preprocess]:
        """Return the distinct inputs that models need, in the order of the models."""
        wanted = (model.preprocess or self.options.preprocess for model in self.models)
        return list(dict.fromkeys(wanted))

    @contextmanager
    def _on_device(self, stage: str) -> Iterator[None]:
        with torch.inference_mode():
            if self.device.type != "cuda":
                yield
                return
            if stage not in self._streams:
                self._streams[stage] = torch.cuda.Stream(self.device)
            stream = self._streams[stage]
            with torch.cuda.device(self.device), torch.cuda.stream(stream):
                yield
            stream.synchronize()


def _add_label_map(batch: Batch, frame: Frame, name: str, result: Mapping[str, Any]) -> str:
    """Make a label map of a result's masks, and return the path where it will be written."""
    size = frame.full_height, frame.full_width
    try:
        labels = label_map(result["masks"], result.get("scores"), size)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"postprocess of model {name}, masks of {batch.path(frame)} as png: {error}"
        ) from error
    file = picture_path(f"masks/{name}", batch.path(frame), ".png")
    batch.pictures.append(Picture(file, labels))
    return file


def _postprocessed(
    model: Model, output: Any, placements: Sequence[Placement]
) -> list[dict[str, Any]]:
    """Return a dict per image; check what a user's own post-processing returns."""
    try:
        found = model.postprocess(output, placements)
    except Exception as error:
        raise RuntimeError(
            f"postprocess of model {model.name}: {type(error).__name__}: {error}"
        ) from error
    if len(found) != len(placements):
        raise ValueError(
            f"postprocess of model {model.name} returned {len(found)} results for "
            f"{len(placements)} images"
        )
    for result in found:
        if not isinstance(result, dict):
            raise TypeError(
                f"postprocess of model {model.name} returned a {type(result).__name__} for an "
                "image, must be a dict"
            )
    return list(map(model.named, found))


def _kept(image: Tensor) -> Tensor:
    """Copy to the CPU: a view would keep the whole batch's pixels, also when sent elsewhere."""
    return image.to("cpu", copy=True)
