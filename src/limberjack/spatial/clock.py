"""The processor's cycle counter, read inside kernels: where the time of a step goes.

Counts are reported and never used: no result depends on them.
"""

from __future__ import annotations

import platform
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from limberjack.spatial.lanes import intrinsic

__all__ = ["COUNTS", "ticks"]

# On other processors user programs may not read the counter, and would be killed for it: it stays 0.
COUNTS = platform.machine().lower() in ("x86_64", "amd64")


@intrinsic
def ticks(typing: Any) -> Any:
    """Return a count that goes up evenly with time, or 0 where there is none."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        whole = ir.IntType(64)
        if not COUNTS:
            return whole(0)
        read = cgutils.get_or_insert_function(builder.module, ir.FunctionType(whole, []), "llvm.readcyclecounter")
        return builder.call(read, [])

    return types.int64(), code
