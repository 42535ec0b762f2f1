"""Constraints between bodies in maximal coordinates: which body each one touches, and its rows."""
