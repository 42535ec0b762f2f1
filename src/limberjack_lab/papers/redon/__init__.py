"""Redon, Galoppo, Lin: Adaptive Dynamics of Articulated Bodies (SIGGRAPH 2005), table 1 and figures 1, 4, 5 and 6."""
