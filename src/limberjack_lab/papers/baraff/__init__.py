"""Baraff: Linear-Time Dynamics using Lagrange Multipliers (SIGGRAPH 1996), the systems timed in section 9."""
