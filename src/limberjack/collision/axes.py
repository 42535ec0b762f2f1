"""Vectors between the world and the axes of a shape, whose rotation stands in the first nine columns of its frame."""

from __future__ import annotations

from limberjack._jit import inner

__all__ = ["to_shape", "to_world"]


@inner
def to_world(k, frame, x, y, z):
    """Return a vector of shape k's axes in the world."""
    return (
        frame[k, 0] * x + frame[k, 1] * y + frame[k, 2] * z,
        frame[k, 3] * x + frame[k, 4] * y + frame[k, 5] * z,
        frame[k, 6] * x + frame[k, 7] * y + frame[k, 8] * z,
    )


@inner
def to_shape(k, frame, x, y, z):
    """Return a vector of the world in the axes of shape k."""
    return (
        frame[k, 0] * x + frame[k, 3] * y + frame[k, 6] * z,
        frame[k, 1] * x + frame[k, 4] * y + frame[k, 7] * z,
        frame[k, 2] * x + frame[k, 5] * y + frame[k, 8] * z,
    )
