"""Inference over many images: stages that overlap, results that are safe, no image lost.

``python -m visops.infer --help`` is the command. Pillow and torchvision are needed; pyarrow for
Parquet and tqdm for the progress bar.
"""

from .decode import Decoder
from .detection import Detection
from .job import Job
from .listing import Entry, list_images
from .manifest import Commit
from .masks import run_lengths
from .memory import keep_freed_memory
from .merge import Counts
from .models import Model, load_model, load_models
from .options import Options
from .pipeline import Pipeline, run
from .plan import Plan, PlannedBatch
from .postprocess import Auto, Classification, PostProcess, Raw, Segmentation
from .preprocess import IMAGENET_MEAN, IMAGENET_STD, Placement, Preprocess
from .regions import Regions
from .stages import StageError, StageTimes
from .summary import Summary

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
