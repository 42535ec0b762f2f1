"""3-D and 6-D algebra that knows nothing of models: compiled kernels, and NumPy frames for building."""
