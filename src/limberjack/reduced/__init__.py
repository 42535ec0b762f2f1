"""Reduced coordinates on trees: kinematics, forward and inverse dynamics, mass matrix, Jacobians."""
