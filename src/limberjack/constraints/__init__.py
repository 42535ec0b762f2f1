"""Constraints: error, rows and bias of joints, loops, limits, gears, no-slip points, trackers and contacts."""
