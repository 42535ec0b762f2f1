"""Check that functions decorated with `@kernel` keep the kernel rules of docs/architecture.md.

Usage: python tools/kernel_lint.py [FILE_OR_FOLDER ...]     (default: src/limberjack)

Prints one `file:line: rule: message` per finding and exits with 1 if there is any. A line that has to break
a rule says why in a comment on that line: `# kernel-lint: allow <reason>`.

The check reads syntax only. It cannot see, for example, that `row = work[i]` makes a view of a 2-D array.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DECORATORS = {"kernel", "inner", "outlined"}

MATH_ALLOWED = set("sqrt fabs floor ceil trunc copysign isfinite isinf isnan".split())
NUMPY_ALLOWED = set(
    "sqrt abs absolute fabs floor ceil trunc rint copysign sign minimum maximum isfinite isinf isnan "
    "float32 float64 int8 int32 int64 intp uint8 uint32 uint64 bool_".split()
)
NUMPY_LIBM = set(
    "sin cos tan arcsin arccos arctan arctan2 asin acos atan atan2 sinh cosh tanh arcsinh arccosh arctanh "
    "asinh acosh atanh exp exp2 expm1 log log2 log10 log1p power pow float_power hypot cbrt".split()
)
NUMPY_ALGEBRA = set("dot vdot inner outer matmul tensordot einsum cross kron trace".split())

BUILTIN_FORBIDDEN = {
    "print": ("print", "prints inside a kernel; return a status and let the face report it"),
    "list": ("container", "builds a list; write to an array the caller owns"),
    "dict": ("container", "builds a dict; write to an array the caller owns"),
    "set": ("container", "builds a set; write to an array the caller owns"),
    "sorted": ("container", "builds a list; write to an array the caller owns"),
    "pow": ("libm", "calls the C library's pow; write the product out"),
}
ARRAY_METHODS = {
    "copy": "allocation",
    "astype": "allocation",
    "flatten": "allocation",
    "tolist": "allocation",
    "repeat": "allocation",
    "dot": "algebra",
    "reshape": "slice",
    "ravel": "slice",
    "transpose": "slice",
    "view": "slice",
}
METHOD_MESSAGES = {
    "allocation": "allocates; use work arrays that the method owns",
    "algebra": "calls BLAS; write the sums out or use a kernel of spatial",
    "slice": "makes a view per call; index with numbers",
}
ALLOW = re.compile(r"#\s*kernel-lint:\s*allow\b[ \t]*(?P<reason>.*)")


@dataclass(frozen=True, order=True)
class Finding:
    """One broken rule at one place."""

    path: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.message}"


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """Return what each imported name stands for: {"np": "numpy", "sqrt": "math.sqrt"}."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                head = alias.name.split(".")[0]
                names[alias.asname or head] = alias.name if alias.asname else head
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                names[alias.asname or alias.name] = f"{'.' * node.level}{node.module or ''}.{alias.name}"
    return names


def _dotted(node: ast.expr, names: dict[str, str]) -> str:
    """Return the full dotted name of an expression such as `np.linalg.solve`, or "" if it has none."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([names.get(node.id, node.id), *reversed(parts)])


def _is_kernel(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    for decorator in function.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
        if name in DECORATORS:
            return True
    return False


def _check_signature(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[int, str, str]]:
    arguments = function.args
    for default in [*arguments.defaults, *arguments.kw_defaults]:
        if default is not None:
            yield default.lineno, "default", f"default argument in {function.name}; pass every argument"
    for star, argument in (("*", arguments.vararg), ("**", arguments.kwarg)):
        if argument is not None:
            yield argument.lineno, "varargs", f"{star}{argument.arg} in {function.name}; name every argument"


def _check_call(node: ast.Call, names: dict[str, str]) -> Iterator[tuple[int, str, str]]:
    name = _dotted(node.func, names)
    root, _, rest = name.partition(".")
    if root == "math" and rest and rest not in MATH_ALLOWED:
        yield node.lineno, "libm", f"math.{rest} is the C library's; use the kernels of spatial"
    elif root == "numpy" and rest:
        if rest.startswith("linalg.") or rest in NUMPY_ALGEBRA:
            yield node.lineno, "algebra", f"np.{rest} {METHOD_MESSAGES['algebra']}"
        elif rest in NUMPY_LIBM:
            yield node.lineno, "libm", f"np.{rest} is the C library's; use the kernels of spatial"
        elif rest not in NUMPY_ALLOWED:
            yield node.lineno, "allocation", f"np.{rest} {METHOD_MESSAGES['allocation']}"
    elif name in BUILTIN_FORBIDDEN:
        rule, message = BUILTIN_FORBIDDEN[name]
        yield node.lineno, rule, f"{name}() {message}"
    elif isinstance(node.func, ast.Attribute) and node.func.attr in ARRAY_METHODS:
        rule = ARRAY_METHODS[node.func.attr]
        yield node.lineno, rule, f".{node.func.attr}() {METHOD_MESSAGES[rule]}"


def _is_whole(node: ast.expr) -> bool:
    """Return whether the expression is an integer literal, signed or not."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        node = node.operand
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def _check_node(node: ast.AST, names: dict[str, str]) -> Iterator[tuple[int, str, str]]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from _check_signature(node)
        case ast.Call():
            yield from _check_call(node, names)
        case ast.Raise() | ast.Try() | ast.TryStar() | ast.Assert():
            word = type(node).__name__.lower().removesuffix("star")
            yield node.lineno, "raise", f"{word} in a kernel; return a status and let the face raise"
        case ast.BinOp(op=ast.MatMult()) | ast.AugAssign(op=ast.MatMult()):
            yield node.lineno, "matmul", f"@ {METHOD_MESSAGES['algebra']}"
        case ast.BinOp(op=ast.Pow(), right=exponent) | ast.AugAssign(op=ast.Pow(), value=exponent):
            if not _is_whole(exponent):
                yield node.lineno, "libm", "** calls the C library's pow; only whole literal exponents"
        case ast.Slice():
            yield node.lineno, "slice", f"a slice {METHOD_MESSAGES['slice']}"
        case ast.List() | ast.Dict() | ast.Set():
            if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
                return
            kind = type(node).__name__.lower()
            yield node.lineno, "container", f"a {kind} display allocates; use a tuple or a work array"
        case ast.ListComp() | ast.DictComp() | ast.SetComp() | ast.GeneratorExp():
            yield node.lineno, "container", "a comprehension allocates; write the loop out"


def _allowed_lines(source: str) -> dict[int, str]:
    """Return the lines that carry an allow comment and the reason each gives."""
    reasons: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and (found := ALLOW.search(token.string)):
            reasons[token.start[0]] = found["reason"].strip()
    return reasons


def _check_body(function: ast.FunctionDef | ast.AsyncFunctionDef, names: dict[str, str]) -> Iterator[tuple]:
    """Yield what breaks a rule in signature and body; annotations and decorators are never compiled."""
    yield from _check_signature(function)
    for statement in function.body:
        for node in ast.walk(statement):
            yield from _check_node(node, names)


def check_source(source: str, path: str = "<source>") -> tuple[list[Finding], int]:
    """Return the findings in one file's text, in line order, and the number of kernels in it."""
    tree = ast.parse(source, path)
    names = _imported_names(tree)
    reasons = _allowed_lines(source)
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    kernels = [node for node in ast.walk(tree) if isinstance(node, functions) and _is_kernel(node)]
    used: set[int] = set()
    findings: set[Finding] = set()
    for function in kernels:
        for line, rule, message in _check_body(function, names):
            if line in reasons:
                used.add(line)
            else:
                findings.add(Finding(path, line, rule, message))
    for line, reason in reasons.items():
        if not reason:
            findings.add(Finding(path, line, "allow", "an allow comment needs a reason"))
        elif line not in used:
            findings.add(Finding(path, line, "allow", "nothing on this line needs to be allowed"))
    return sorted(findings), len(kernels)


def main(arguments: list[str] | None = None) -> int:
    """Check files and folders; return the exit status: 0 clean, 1 findings, 2 nothing to check."""
    given = sys.argv[1:] if arguments is None else arguments
    package = Path(__file__).resolve().parent.parent / "src" / "limberjack"
    files: list[Path] = []
    for root in [Path(text) for text in given] or [package]:
        if not root.exists():
            print(f"kernel-lint: no file or folder {root}", file=sys.stderr)
            return 2
        files += sorted(root.rglob("*.py")) if root.is_dir() else [root]
    checked = [check_source(path.read_text(encoding="utf-8"), str(path)) for path in files]
    findings = [finding for found, _ in checked for finding in found]
    for finding in findings:
        print(finding)
    count = sum(kernels for _, kernels in checked)
    print(f"kernel-lint: {count} kernels in {len(files)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
