"""Solvers of constraint systems that know rows and matrices, not models."""
