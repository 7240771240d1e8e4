"""Inference over many images: stages that overlap, results that are safe, no image lost.

``python -m visops.infer --help`` is the command. Pillow and torchvision are needed; pyarrow for
Parquet and tqdm for the progress bar.
"""

from .job import Job
from .listing import Entry, list_images
from .models import Model, load_model, load_models
from .options import Options
from .pipeline import Pipeline, run
from .plan import Plan, PlannedBatch
from .postprocess import Auto, Classification, Detection, PostProcess, Raw
from .preprocess import Placement, Preprocess
from .stages import StageError, StageTimes
from .summary import Summary

__all__ = [
    "Auto",
    "Classification",
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
    "StageError",
    "StageTimes",
    "Summary",
    "list_images",
    "load_model",
    "load_models",
    "run",
]
