"""Inference over many images: stages that overlap, results that are safe, no image lost.

``python -m visops.infer --help`` is the command. Pillow and torchvision are needed; pyarrow for
Parquet and tqdm for the progress bar.
"""

from .engine.job import Job
from .engine.memory import keep_freed_memory
from .engine.pipeline import Pipeline, run
from .engine.stages import StageError
from .frames import Placement
from .images.decode import Decoder
from .images.listing import list_images
from .images.preprocess import IMAGENET_MEAN, IMAGENET_STD, Preprocess
from .models.detection import Detection
from .models.masks import run_lengths
from .models.model import Model, load_model, load_models
from .models.postprocess import Auto, Classification, PostProcess, Raw, Segmentation
from .models.regions import Regions
from .options import Options
from .store.manifest import Commit
from .store.merge import Counts
from .store.plan import Entry, Plan, PlannedBatch
from .store.summary import StageTimes, Summary

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "Auto",
    "Classification",
    "Commit",
    "Counts",
    "Decoder",
    "Detection",
    "Entry",
    "Job",
    "Model",
    "Options",
    "Pipeline",
    "Placement",
    "Plan",
    "PlannedBatch",
    "PostProcess",
    "Preprocess",
    "Raw",
    "Regions",
    "Segmentation",
    "StageError",
    "StageTimes",
    "Summary",
    "keep_freed_memory",
    "list_images",
    "load_model",
    "load_models",
    "run",
    "run_lengths",
]
