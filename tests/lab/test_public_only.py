"""The laboratory stands on the public API: what a user can reach, and nothing else of the package."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import limberjack as lj
import limberjack_lab

# Public besides the names that the package lists, its modules of scenes and errors among them.
PUBLIC = {*lj.__all__, "CollisionQuery", "__file__", "__version__"}
# What objects carry for the package's own use.
INTERNAL = {"arrays", "workspace", "stepper", "memory"}
FILES = sorted(Path(limberjack_lab.__file__).parent.rglob("*.py"))


def _imports(tree: ast.AST):
    """Yield (line, module, name) of all imports, of code in strings for other processes too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "import limberjack" in node.value:
            try:
                yield from _imports(ast.parse(node.value))
            except SyntaxError:
                continue


def problems(text: str) -> list[str]:
    """Return what a file reaches that is not public."""
    tree, out = ast.parse(text), []
    for line, module, name in _imports(tree):
        inside = module.split(".")[0] == "limberjack" and module != "limberjack"
        if inside or (module == "limberjack" and name is not None and name not in PUBLIC):
            out.append(f"{line}: {module} {name or ''}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if owner in ("lj", "limberjack") and node.attr not in PUBLIC:
                out.append(f"{node.lineno}: {owner}.{node.attr}")
            private = node.attr.startswith("_") and not node.attr.startswith("__") and owner not in ("self", "cls")
            if node.attr in INTERNAL or (private and node.attr not in ("_asdict", "_replace")):
                out.append(f"{node.lineno}: .{node.attr}")
    return out


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FILES[0].parent)))
def test_a_file_uses_the_public_api_only(path):
    """No import below `limberjack`, no name that is not public, nothing that objects keep for the package."""
    assert not problems(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "text",
    [
        "from limberjack.model.model import Model",
        "from limberjack import _jit",
        "import limberjack.io",
        "import limberjack as lj\nlj.collision",
        "model.arrays.links",
        "sim._stepper",
        "code = 'import limberjack.viewer.app'",
        "def f():\n    from limberjack.cli import terminal",
    ],
)
def test_what_is_not_public_is_seen(text):
    """Each way around the public API is reported."""
    assert problems(text)


def test_public_names_pass():
    """Names of the package, its scenes and its errors are fine, and so is an object's own underscore."""
    assert not problems(
        "import limberjack as lj\nfrom limberjack import errors, scenes\n"
        "lj.Simulation(lj.scenes.pendulum()).step()\nclass A:\n    def f(self): self._x = self._y"
    )
