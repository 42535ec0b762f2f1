"""Maximal coordinates: bodies with their own poses under constraint rows, solved by one saddle system."""
