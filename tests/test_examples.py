"""Every example runs and ends in the state it asserts."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


def test_examples_are_numbered():
    """The examples are 01, 02, 03 and so on without gaps, so that they can be read in order."""
    assert [path.name[:3] for path in EXAMPLES] == [f"{i:02d}_" for i in range(1, len(EXAMPLES) + 1)]
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_reaches_the_state_it_asserts(path, tmp_path, monkeypatch, capsys):
    """An example says what it is, asserts its end state, prints something, and leaves no file behind."""
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree)
    assert any(isinstance(node, ast.Assert) for node in tree.body)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out
    assert not list(tmp_path.iterdir())
