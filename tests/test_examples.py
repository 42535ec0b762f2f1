"""Every example runs and ends in the state it asserts."""

from __future__ import annotations

import ast
import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def test_examples_are_numbered():
    """The examples are 01, 02, 03 and so on without gaps, so that they can be read in order."""
    assert [path.name[:3] for path in EXAMPLES] == [f"{i:02d}_" for i in range(1, len(EXAMPLES) + 1)]
    assert len(EXAMPLES) >= 20


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


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run_in_short_form(path, tmp_path, monkeypatch):
    """The cells of a notebook run from first to last, without stored outputs, and leave no file behind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LIMBERJACK_SHORT", "1")
    cells = json.loads(path.read_text())["cells"]
    assert cells[0]["cell_type"] == "markdown" and cells[0]["source"][0].startswith("# ")
    names = {"__name__": "notebook"}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert not cell["outputs"]
            exec(compile("".join(cell["source"]), path.name, "exec"), names)
    assert not list(tmp_path.iterdir())


def test_there_are_four_notebooks():
    """The notebooks are 01 to 04."""
    assert [path.name[:3] for path in NOTEBOOKS] == ["01_", "02_", "03_", "04_"]
