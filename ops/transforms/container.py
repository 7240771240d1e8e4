"""Containers that can be called on their own."""

from .engine.nesting import Container
from .transform import Transform


class CallableContainer(Container):
    """A container that is called on a sample as a transform is: alone in a chain."""

    forward = Transform.forward
    __getstate__ = Transform.__getstate__
