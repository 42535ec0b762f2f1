"""The method `displacements`: solids move freely, then are displaced until the joints hold (Faure 1998)."""
