"""Arithmetic signs for `Lanes`, so that functions of numbers are functions of four bodies at once.

What is written with + - * for one body, `vectors.cross` or a whole Newton step, takes registers of four numbers as it
is. `four(array, k)` and `set_four(array, k, value)` read and write row k of an array (rows, 4).
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import lower_builtin

from limberjack._jit import inner
from limberjack.spatial.lanes import Lanes, load4, store4

__all__ = ["four", "set_four"]

_SIGNS = {operator.add: "fadd", operator.sub: "fsub", operator.mul: "fmul"}
_KINDS = ((Lanes, Lanes), (Lanes, types.Float), (types.Float, Lanes))


def _spread(builder: Any, value: Any) -> Any:
    """Return code for four times the same number."""
    kind, index = ir.VectorType(ir.DoubleType(), 4), ir.IntType(32)
    nothing = ir.Constant(kind, ir.Undefined)
    mask = ir.Constant(ir.VectorType(index, 4), [ir.Constant(index, 0)] * 4)
    return builder.shuffle_vector(builder.insert_element(nothing, value, ir.Constant(index, 0)), nothing, mask)


def _give(sign: Any, instruction: str) -> None:
    """Let `sign` take lanes on either side or on both."""

    class Signs(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            lanes = next((kind for kind in args if isinstance(kind, Lanes)), None)
            if lanes is None or len(args) != 2 or not all(isinstance(kind, (Lanes, types.Float)) for kind in args):
                return None
            return lanes(*args)

    register: Any = infer_global(sign)
    register(Signs)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b = (
            value if isinstance(kind, Lanes) else _spread(builder, value)
            for kind, value in zip(signature.args, args, strict=True)
        )
        return getattr(builder, instruction)(a, b)

    for kinds in _KINDS:
        lower_builtin(sign, *kinds)(code)


for _sign, _instruction in _SIGNS.items():
    _give(_sign, _instruction)


@inner
def four(array, k):
    """Return the four numbers of a row."""
    return load4(array, k, 0)


@inner
def set_four(array, k, value):
    """Set the four numbers of a row."""
    store4(array, k, 0, value)
