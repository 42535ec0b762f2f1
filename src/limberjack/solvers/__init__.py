"""Solvers of the saddle system of bodies and constraints."""
