"""The command line, the demonstration, and kernels compiled ahead."""
