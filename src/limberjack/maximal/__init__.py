"""Bodies in maximal coordinates, moved under constraints: state, loads, energies, and rows met by one solve."""
