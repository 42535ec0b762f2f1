"""Each rule of the kernel linter fires on what it forbids, stays silent elsewhere, and can be allowed."""

from __future__ import annotations

import textwrap

import pytest

import kernel_lint

HEADER = """\
import math
import numpy
import numpy as np
from math import cos as cosine, sqrt
from numpy import zeros
from limberjack._jit import inner, kernel
from limberjack.spatial.trig import atan2, sincos
"""

FORBIDDEN = [
    ("default", "def f(x, y=1.0):\n    return x"),
    ("default", "def f(x, *, y=1.0):\n    return x"),
    ("varargs", "def f(*x):\n    return x"),
    ("varargs", "def f(**x):\n    return x"),
    ("raise", "def f(x):\n    raise ValueError"),
    ("raise", "def f(x):\n    try:\n        x[0] = 1.0\n    finally:\n        x[1] = 1.0"),
    ("raise", "def f(x):\n    assert x > 0"),
    ("matmul", "def f(a, b):\n    return a @ b"),
    ("matmul", "def f(a, b):\n    a @= b"),
    ("algebra", "def f(a, b):\n    return np.dot(a, b)"),
    ("algebra", "def f(a, b):\n    return a.dot(b)"),
    ("algebra", "def f(a, b):\n    return np.linalg.solve(a, b)"),
    ("algebra", "def f(a, b):\n    return numpy.cross(a, b)"),
    ("allocation", "def f(n):\n    return np.zeros(n)"),
    ("allocation", "def f(n):\n    return np.empty((n, 3))"),
    ("allocation", "def f(n):\n    return np.ones(n)"),
    ("allocation", "def f(x):\n    return np.array((x, x))"),
    ("allocation", "def f(x):\n    return np.zeros_like(x)"),
    ("allocation", "def f(n):\n    return zeros(n)"),
    ("allocation", "def f(x):\n    return x.copy()"),
    ("slice", "def f(x):\n    return x[1:3]"),
    ("slice", "def f(x):\n    x[0, :] = 0.0"),
    ("slice", "def f(x):\n    return x.reshape((2, 3))"),
    ("container", "def f(x):\n    return [x, x]"),
    ("container", "def f(x):\n    return {x: x}"),
    ("container", "def f(x):\n    return {x, x}"),
    ("container", "def f(x):\n    return [y for y in x]"),
    ("container", "def f(x):\n    return sum(y for y in x)"),
    ("container", "def f(x):\n    return list(x)"),
    ("libm", "def f(x):\n    return np.sin(x)"),
    ("libm", "def f(x):\n    return np.cos(x)"),
    ("libm", "def f(x):\n    return math.sin(x)"),
    ("libm", "def f(x):\n    return math.cos(x)"),
    ("libm", "def f(x):\n    return math.tan(x)"),
    ("libm", "def f(x, y):\n    return math.atan2(y, x)"),
    ("libm", "def f(x):\n    return math.exp(x)"),
    ("libm", "def f(x):\n    return math.log(x)"),
    ("libm", "def f(x):\n    return cosine(x)"),
    ("libm", "def f(x):\n    return x**0.5"),
    ("print", "def f(x):\n    print(x)"),
]

ALLOWED = [
    "def f(x):\n    return math.sqrt(x), abs(x), min(x, 1.0), max(x, 0.0)",
    "def f(x):\n    return math.floor(x) + math.copysign(1.0, x) + sqrt(x) + np.sqrt(x)",
    "def f(x):\n    s, c = sincos(x)\n    return atan2(s, c)",
    "def f(n, work, out):\n    for i in range(n):\n        out[i] = work[i, 2] ** 2\n    return 0",
    "def f(x: np.ndarray[tuple[int], float]):\n    [a, b] = x[0], x[1]\n    return (a, b)",
    "def f(x):\n    return np.float64(x) if np.isfinite(x) else math.pi",
]


def check(code: str, decorator: str = "@kernel") -> list[kernel_lint.Finding]:
    """Return the findings in one function behind the usual imports."""
    findings, _ = kernel_lint.check_source(f"{HEADER}\n\n{decorator}\n{textwrap.dedent(code)}\n", "room.py")
    return findings


@pytest.mark.parametrize(("rule", "code"), FORBIDDEN)
def test_each_rule_fires(rule: str, code: str) -> None:
    """Forbidden code in a kernel gives exactly its rule, at its line."""
    findings = check(code)
    assert [finding.rule for finding in findings] == [rule]
    first_line = len(HEADER.splitlines()) + 4
    assert findings[0].line in range(first_line, first_line + len(code.splitlines()))


@pytest.mark.parametrize(("rule", "code"), FORBIDDEN)
def test_rules_bind_kernels_only(rule: str, code: str) -> None:
    """The same code in an ordinary function is nobody's business."""
    assert check(code, decorator="") == []


@pytest.mark.parametrize(("rule", "code"), FORBIDDEN)
def test_allow_with_a_reason_silences_its_line(rule: str, code: str) -> None:
    """An allow comment on the line of the finding removes it."""
    place = check(code)[0].line - len(HEADER.splitlines()) - 4
    lines = code.splitlines()
    lines[place] += "  # kernel-lint: allow measured, costs nothing here"
    assert check("\n".join(lines)) == []


@pytest.mark.parametrize("code", ALLOWED)
def test_ordinary_kernels_pass(code: str) -> None:
    """Scalar arithmetic, tuples, indexing by numbers and the kernels of spatial are free."""
    assert check(code) == []


@pytest.mark.parametrize("decorator", ["@kernel", "@inner", "@outlined", "@_jit.kernel", "@kernel()"])
def test_every_spelling_of_the_decorator_counts(decorator: str) -> None:
    """However the decorator is written, the function is a kernel."""
    assert [finding.rule for finding in check("def f(x):\n    print(x)", decorator)] == ["print"]


def test_allow_needs_a_reason() -> None:
    """A bare allow comment is itself a finding."""
    assert [finding.rule for finding in check("def f(x):\n    print(x)  # kernel-lint: allow")] == ["allow"]


def test_allow_that_allows_nothing_is_reported() -> None:
    """An allow comment outlives its cause only until the next check."""
    findings = check("def f(x):\n    return x  # kernel-lint: allow old habit")
    assert [finding.rule for finding in findings] == ["allow"]


def test_allow_does_not_reach_the_next_line() -> None:
    """An allow comment holds for its own line."""
    code = "def f(x):\n    y = x[0:1]  # kernel-lint: allow once per call\n    return x[1:2]"
    assert [finding.line - len(HEADER.splitlines()) for finding in check(code)] == [6]


def test_allow_inside_a_string_is_text() -> None:
    """Only a comment allows; the same words in a string do not."""
    assert [f.rule for f in check('def f(x):\n    print("# kernel-lint: allow not a comment")')] == ["print"]


def test_functions_inside_a_kernel_are_checked() -> None:
    """A closure in a kernel is compiled with it and keeps the same rules."""
    code = "def f(x):\n    def g(y=1.0):\n        return y\n    return g(x)"
    assert [finding.rule for finding in check(code)] == ["default"]


def test_command_line_names_file_and_line(tmp_path, capsys) -> None:
    """Exit status 1 and `file:line: rule: message` for a finding, 0 for none, 2 for a missing folder."""
    room = tmp_path / "room.py"
    room.write_text("@kernel\ndef f(x):\n    print(x)\n")
    assert kernel_lint.main([str(tmp_path)]) == 1
    assert f"{room}:3: print: " in capsys.readouterr().out
    room.write_text("@kernel\ndef f(x):\n    return x\n")
    assert kernel_lint.main([str(tmp_path)]) == 0
    assert "1 kernels in 1 files, 0 findings" in capsys.readouterr().out
    assert kernel_lint.main([str(tmp_path / "absent")]) == 2
    assert "no file or folder" in capsys.readouterr().err
