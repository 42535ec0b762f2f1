"""How long compiling a method may still take, from how many functions it has in all."""

from __future__ import annotations

__all__ = ["FUNCTIONS", "remaining"]

# Functions that the first step of a method compiles with nothing in the cache, loops and contacts included; less where
# a model has neither, or where another method has left some there.
FUNCTIONS = {"full": 500, "adaptive": 590, "multipliers": 630, "displacements": 685, "impulses": 640}


def remaining(method: str, seconds: float, done: int) -> float | None:
    """Return the seconds that compiling may still take at the pace so far, at most; None where that is not known.

    Args:
        method: name of the method.
        seconds: how long it has been compiled.
        done: functions compiled until now.
    """
    left = FUNCTIONS.get(method, 0) - done
    return seconds * left / done if done > 20 and left > 0 else None
