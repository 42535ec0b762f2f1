"""Solvers: rows and masses in, accelerations and multipliers out; each knows constraints as numbers only."""
