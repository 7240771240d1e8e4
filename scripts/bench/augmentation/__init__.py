"""The cases of scripts/bench/augment.py, a module for each kind of job."""

import os

os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")  # it would look for updates on the network
