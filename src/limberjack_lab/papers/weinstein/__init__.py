"""Weinstein, Teran, Fedkiw: Dynamic Simulation of Articulated Rigid Bodies with Contact and Collision (TVCG 2006)."""
