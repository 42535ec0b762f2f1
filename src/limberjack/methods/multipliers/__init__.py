"""Method `multipliers`: bodies in maximal coordinates, joints as constraints, in linear time (Baraff 1996)."""

from limberjack.methods.multipliers.options import Multipliers

__all__ = ["Multipliers"]
