"""Faure: Interactive Solid Animation Using Linearized Displacement Constraints (EGCAS 1998)."""
