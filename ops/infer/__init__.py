"""Inference over many images: overlapping stages, crash-safe results, no image lost.

``python -m visops.infer --help`` describes the command. Pillow and torchvision are required,
pyarrow only for Parquet, tqdm only for the progress bar.

The code follows the images. `store` keeps what is on the disk: the plan, the manifests, the
results. `images` lists, decodes and preprocesses. `models` runs networks and makes results of
their outputs. `view` draws, and reports progress. `engine` runs all of that as a chain of stages
in one process, and `cluster` in many. Each of these imports only from those before it.
"""

from .engine.job import Job
from .engine.pipeline import Pipeline, run
from .engine.process import keep_freed_memory
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
