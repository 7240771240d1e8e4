"""The cases of ``scripts/bench/conv.py``: images, columns of patches, and layers of networks."""
