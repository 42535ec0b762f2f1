"""Solvers of constraint systems: direct on sparse blocks, and iterative."""
