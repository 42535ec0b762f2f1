"""Waiting for what other threads do."""

from __future__ import annotations

import time


def until(condition, seconds=20.0):
    """Wait for a condition to hold; return whether it came to."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.005)
    return False
