"""Errors as values: they go from one process to another whole."""

from __future__ import annotations

import pickle

import pytest

from limberjack import errors


@pytest.mark.parametrize(
    "error",
    [
        errors.Diverged("lost", "knee", 12, 0.5),
        errors.FileError("robot.urdf", "no root", 7),
        errors.UnknownName("body", "hed", "the model", ["head"]),
        errors.StateError("q has shape (3,)"),
        errors.MissingExtra("needs viser"),
    ],
)
def test_errors_survive_pickling(error):
    """An error raised in a worker arrives with its type, message and attributes."""
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
