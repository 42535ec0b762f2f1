"""Threads inside a kernel: one shares a task of numbered pieces, all take piece after piece until none is left.

    piece = share(TASK, first, last, team)
    while piece >= 0:
        ...
        piece = next_piece(piece, first, last, team)

The kernel that shares does pieces itself, so that it never waits for a helper that has not begun. Which thread does a
piece does not matter where pieces write to different places; results depend on the borders between pieces at most, and
these must not depend on how many threads there are. A helper is a kernel called on a thread of its own, which takes
pieces by `take_last` and spins between tasks. Without helpers nothing here is more than a loop.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types

from limberjack._jit import inner
from limberjack.spatial.clock import COUNTS
from limberjack.spatial.lanes import intrinsic

__all__ = [
    "COPY", "FILL", "HELPERS", "MARK", "MOVE", "NARROW", "PAIR", "PLACE", "PUSH", "RELAX", "RETURN", "SETTLE", "STOP",
    "STORE", "SWEEP", "Team", "WARM", "WRITE", "finish", "new_team", "next_piece", "pause", "pieces_of", "share",
    "stopped", "take_last",
]  # fmt: skip

# Tasks, by which a helper tells them apart: of bundles of contacts, of detection, of bodies.
FILL, WARM, SWEEP, RELAX, PUSH, COPY, RETURN, STORE, PLACE, PAIR, NARROW, WRITE, MOVE, SETTLE, MARK = range(15)

# Indices in `Team.signal`, a cache line apart: the number of the task, the end of the pieces that nobody has taken and
# their beginning, in 32, 16 and 16 bits; pieces that are done; whether helpers are to stop; how many helpers there are.
_TICKET, _DONE, STOP, HELPERS = 0, 8, 16, 24
# Pieces of a task at most.
_MOST = (1 << 15) - 1
# A thread that waits spins so many times, some tens of microseconds, before it lets others run.
_PATIENCE = 1000
_SWITCH = "SwitchToThread" if sys.platform == "win32" else "sched_yield"


class Team(NamedTuple):
    """What the threads of a kernel share."""

    signal: np.ndarray  # (32,) see above
    task: np.ndarray  # (8,) which task, and its whole numbers
    value: np.ndarray  # (8,) its numbers
    found: np.ndarray  # (n,) one of each piece


def new_team(helpers: int = 0, pieces: int = 64) -> Team:
    """Return a team of so many helpers beside the kernel that shares, for tasks with `found` of so many pieces."""
    room = np.zeros(40, np.int64)
    start = -room.ctypes.data % 64 // 8
    team = Team(room[start : start + 32], np.zeros(8, np.int64), np.zeros(8), np.zeros(pieces))
    team.signal[HELPERS] = helpers
    return team


def _place(context: Any, builder: Any, kind: Any, array: Any, k: Any) -> Any:
    return builder.gep(context.make_array(kind)(context, builder, array).data, [k])


@intrinsic
def _load(typing: Any, array: Any, k: Any) -> Any:
    """Return array[k]; nothing after it is read before."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(_place(context, builder, signature.args[0], *args), "seq_cst", 8)

    return types.int64(array, types.intp), code


@intrinsic
def _store(typing: Any, array: Any, k: Any, value: Any) -> Any:
    """Set array[k]; nothing before it is written after."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store_atomic(args[2], _place(context, builder, signature.args[0], *args[:2]), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64), code


@intrinsic
def _add(typing: Any, array: Any, k: Any, value: Any) -> Any:
    """Add to array[k], undivided."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.atomic_rmw("add", _place(context, builder, signature.args[0], *args[:2]), args[2], "seq_cst")
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64), code


@intrinsic
def _exchange(typing: Any, array: Any, k: Any, old: Any, new: Any) -> Any:
    """Set array[k] if it is `old`, undivided; return whether it was."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _place(context, builder, signature.args[0], *args[:2])
        found = builder.cmpxchg(place, args[2], args[3], "seq_cst", "seq_cst")
        return builder.extract_value(found, 1)

    return types.boolean(array, types.intp, types.int64, types.int64), code


@intrinsic
def _rest(typing: Any) -> Any:
    """Let the processor rest for a moment while it waits for another."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if COUNTS:
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse2.pause"), [])
        return context.get_dummy_value()

    return types.void(), code


@intrinsic
def _yield(typing: Any) -> Any:
    """Let the system run other threads first, if any wait for this processor."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.call(cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.IntType(32), []), _SWITCH), [])
        return context.get_dummy_value()

    return types.void(), code


@inner
def pause(times):
    """Wait for a moment, for the `times`th time in a row: after many, other threads may need this processor."""
    if times < _PATIENCE:
        _rest()
    else:
        _yield()


@inner
def _publish(pieces, team):
    """Let helpers take pieces 0 .. pieces - 1 of the task in `team`."""
    signal = team.signal
    signal[_DONE] = 0
    number = ((signal[_TICKET] >> 32) + 1) & 0x3FFFFFFF
    _store(signal, _TICKET, (number << 32) | (pieces << 16))


@inner
def _take(team):
    """Return the first piece of the task that nobody has taken, or -1."""
    while True:
        ticket = _load(team.signal, _TICKET)
        piece = ticket & 0xFFFF
        if piece >= (ticket >> 16) & 0xFFFF:
            return -1
        if _exchange(team.signal, _TICKET, ticket, ticket + 1):
            return piece


@inner
def take_last(team):
    """Return the last piece of the task that nobody has taken, or -1; what it is stands in `team.task` then.

    Helpers take the last ones: a piece of work stays with one thread from task to task, more often than not.
    """
    while True:
        ticket = _load(team.signal, _TICKET)
        end = (ticket >> 16) & 0xFFFF
        if ticket & 0xFFFF >= end:
            return -1
        if _exchange(team.signal, _TICKET, ticket, ticket - 0x10000):
            return team.task[1] + end - 1


@inner
def finish(team):
    """Say that a piece that was taken is done."""
    _add(team.signal, _DONE, 1)


@inner
def pieces_of(count, size):
    """Return how many pieces of a size there are."""
    return (count + size - 1) // size


@inner
def _alone(pieces, team):
    return pieces < 2 or pieces > _MOST or team.signal[HELPERS] == 0


@inner
def share(task, first, last, team):
    """Begin a task of pieces first .. last - 1, whose numbers are in `team`; return the first one to do, or -1."""
    if _alone(last - first, team):
        return first if first < last else -1
    team.task[0], team.task[1] = task, first
    _publish(last - first, team)
    return _following(first, last, team)


@inner
def next_piece(piece, first, last, team):
    """Return the next piece to do after one is done, or -1 when all are done, by whomever."""
    if _alone(last - first, team):
        return piece + 1 if piece + 1 < last else -1
    finish(team)
    return _following(first, last, team)


@inner
def _following(first, last, team):
    piece = _take(team)
    if piece >= 0:
        return first + piece
    times = 0
    while _load(team.signal, _DONE) < last - first:
        pause(times)
        times += 1
    return -1


@inner
def stopped(team):
    """Return whether helpers are to stop."""
    return _load(team.signal, STOP) != 0
