"""Shapes in, contacts out: broad phase, exact manifolds of pairs, signed distance grids of meshes."""
