"""Constraints in maximal coordinates: which rows touch which bodies."""
