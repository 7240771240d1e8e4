"""A pipeline of torchvision or albumentations, beside the chain that `convert` makes of it.

``python -m visops.compare train.py photos/`` does this for a file of the user's.

Where every parameter that our chain draws can be handed to the other library's transforms, both get
the same ones and results are compared value by value. Otherwise each draws its own, and statistics
of all results are compared.
"""

from .comparison import Comparison, Values, compare

__all__ = ["Comparison", "Values", "compare"]
