"""Work of a step that several threads share, and the kernel of those that help.

Results are those of one thread, bit by bit: pieces write to different places, and their borders follow from the numbers
of bodies and contacts alone. Sums over contacts of a body are taken strand by strand, see `contact/bundles.py`.
"""

from __future__ import annotations

from limberjack._jit import inner, kernel, outlined
from limberjack.collision.broad import place_some, search_some
from limberjack.collision.detect import narrow_some, write_some
from limberjack.contact.bundles import (
    BODIES,
    copy_bodies,
    fill_strand,
    push_strand,
    relax_strand,
    return_velocities,
    set_motion,
    store_some,
    sweep_strand,
    warm_start_strand,
)
from limberjack.maximal.bodies import POSE
from limberjack.methods.impulses.ccd import mark_fast
from limberjack.methods.impulses.motion import conserve_momentum, move_bodies
from limberjack.spatial.threads import (
    COPY,
    FILL,
    MARK,
    MOVE,
    NARROW,
    PAIR,
    PLACE,
    PUSH,
    RELAX,
    RETURN,
    SETTLE,
    STORE,
    SWEEP,
    WARM,
    WRITE,
    finish,
    next_piece,
    pause,
    pieces_of,
    share,
    stopped,
    take_last,
)

__all__ = ["help_out", "move_all", "settle_all"]


@inner
def _range(piece, bulk):
    return BODIES * piece, min(BODIES * (piece + 1), len(bulk.mass))


@outlined
def _move(piece, gravity, bulk, s):
    first, last = _range(piece, bulk)
    for i in range(first, last):
        for c in range(POSE):
            s.stage[i, c] = s.pose[i, c]
    move_bodies(first, last, bulk.team.value[0], gravity, s.stage, s.u_stage, bulk, s.u, s.pose)


@outlined
def _settle(piece, bulk, bundles, s):
    first, last = _range(piece, bulk)
    set_motion(first, last, bulk.team.value[0], s.stage, s.pose, s.u, bundles)
    conserve_momentum(first, last, s.stage, s.pose, bulk, s.u)


@outlined
def move_all(h, gravity, bulk, s):
    """Store the poses as `stage`, and move all bodies from these by h."""
    count, team = pieces_of(len(bulk.mass), BODIES), bulk.team
    team.value[0] = h
    piece = share(MOVE, 0, count, team)
    while piece >= 0:
        _move(piece, gravity, bulk, s)
        piece = next_piece(piece, 0, count, team)


@outlined
def settle_all(h, bulk, bundles, s):
    """Note for the bundles how far bodies moved by h, and conserve their angular momenta."""
    count, team = pieces_of(len(bulk.mass), BODIES), bulk.team
    team.value[0] = h
    piece = share(SETTLE, 0, count, team)
    while piece >= 0:
        _settle(piece, bulk, bundles, s)
        piece = next_piece(piece, 0, count, team)


@outlined
def _help(task, piece, setup, shapes, filters, scratch, broad, contacts, cache, graph, sweeps, bulk, s):
    """Do a piece of a task."""
    bundles = sweeps.bundles
    if task == SWEEP:
        sweep_strand(piece, bundles)
    elif task == RELAX:
        relax_strand(piece, bundles)
    elif task == WARM:
        warm_start_strand(piece, bundles)
    elif task == PUSH:
        push_strand(piece, bundles, bulk)
    elif task == COPY:
        copy_bodies(piece, bulk.inverse, s.u, bundles)
    elif task == RETURN:
        return_velocities(piece, bulk.led, s.u, bundles)
    elif task == MOVE:
        _move(piece, setup.gravity, bulk, s)
    elif task == SETTLE:
        _settle(piece, bulk, bundles, s)
    elif task == MARK:
        mark_fast(piece, s.stage, bulk, s.u, s.pose)
    elif task == FILL:
        fill_strand(piece, sweeps.link, graph.order, contacts, cache.found, s.pose, bundles)
    elif task == STORE:
        store_some(piece, contacts, graph, sweeps, cache)
    elif task == PLACE:
        place_some(piece, shapes, s.pose, bulk.reach, broad)
    elif task == PAIR:
        search_some(piece, shapes, filters, s.pose, bulk.reach, broad)
    elif task == NARROW:
        narrow_some(piece, shapes, broad, scratch)
    elif task == WRITE:
        write_some(piece, shapes, broad, contacts)


@kernel
def help_out(
    # model
    setup, shapes, filters,
    # out
    scratch, broad, contacts, cache, graph, sweeps, bulk, s,
):  # fmt: skip
    """Take pieces of the tasks of the steps that another thread takes, until these end.

    Arguments are those of `step.take_steps`; scratch: of the narrow phase, this thread's own.
    """
    team, idle = bulk.team, 0
    while True:
        piece = take_last(team)
        if piece >= 0:
            _help(team.task[0], piece, setup, shapes, filters, scratch, broad, contacts, cache, graph, sweeps, bulk, s)
            finish(team)
            idle = 0
        else:
            if stopped(team):
                return
            pause(idle)
            idle += 1
