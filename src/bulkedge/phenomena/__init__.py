"""A phenomenon is a prediction and a measurement of the same quantity, over the same knob, with a verdict."""

from bulkedge.phenomena.compare import compare

__all__ = ["compare"]
