"""Table `viewer`: what an open page costs the simulation, how long opening takes, and pages that come and go."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from statistics import median
from typing import Any, NamedTuple

import limberjack as lj
from limberjack import errors, scenes
from limberjack_lab.bench.clock import resident_bytes
from limberjack_lab.bench.table import MISSING, Table, Watch, columns

__all__ = ["TITLE", "fill", "pictures_shown"]

TITLE = "a page that is open: what it costs the simulation"

_COSTS = columns(
    "scene: scene; bodies: bodies; rate: pictures asked|per second [1/s]; sent: pictures|sent [1/s]; "
    "got: messages the|page took [1/s]; alone: steps, nobody|looks [1/s]; shown: steps, a page|is open [1/s]; "
    "cost: cost [%]"
)
_PAGES = columns("what: what; value: value; unit: unit")

# A page, as far as the server can tell: takes every message as it comes and counts them, in a process of its own, as
# browsers are. Says "open" once it is, then, when its input ends, how many came per second.
_PAGE = """
import msgspec, sys, time, threading
from websockets.sync.client import connect
url, protocol = sys.argv[1:]
camera = dict(
    type="ViewerCameraMessage", wxyz=(1.0, 0.0, 0.0, 0.0), position=(3.0, 0.0, 1.0), fov=0.8, near=0.1, far=100.0,
    image_height=720, image_width=1280, look_at=(0.0, 0.0, 0.0), up_direction=(0.0, 0.0, 1.0),
)
with connect(url.replace("http", "ws", 1), origin=url.rstrip("/"), subprotocols=[protocol], max_size=None) as socket:
    socket.send(msgspec.msgpack.encode(camera))  # pages that have not sent their camera are shown nothing
    socket.recv()
    print("open", flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), socket.close()), daemon=True).start()
    count, begin = 0, time.perf_counter()
    try:
        for message in socket:
            count += 1
    except Exception:
        pass
    print(count / (time.perf_counter() - begin), flush=True)
"""


class _Case(NamedTuple):
    scene: str
    options: dict[str, Any]
    rate: float


class _Size(NamedTuple):
    cases: tuple[_Case, ...]
    seconds: float
    repeats: int
    pages: int


_FULL = _Size((_Case("long_chain", {"links": 100}, 60.0), _Case("adaptive_crowd", {}, 30.0)), 1.0, 15, 50)
_QUICK = _Size((_Case("long_chain", {"links": 20}, 60.0),), 0.5, 1, 2)


@contextlib.contextmanager
def _process(code: str, *arguments: str) -> Iterator[list[str]]:
    """Have a process, from its first line on until its input ends; afterwards the list has its next line."""
    last: list[str] = []
    command, pipe = [sys.executable, "-c", code, *arguments], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdout.readline()
            yield last
        finally:
            process.stdin.close()
            last.append(process.stdout.readline())


def _rate(runner: Any, seconds: float) -> float:
    """Return the steps a runner takes per second of this clock, as fast as it can."""
    begin, steps = time.perf_counter(), runner.sim.steps
    time.sleep(seconds)
    return (runner.sim.steps - steps) / (time.perf_counter() - begin)


def _cost(case: _Case, size: _Size, protocol: str) -> dict[str, Any]:
    """Measure one scene flat out, alone and shown in turns: motions differ in cost from one second to the next."""
    scene = scenes.get(case.scene, **case.options)
    viewer = lj.view(scene, rate=case.rate, port=0, open_browser=False, block=False)
    alone, shown, sent, got = [], [], 0.0, 0.0
    try:
        runner = viewer.runner
        runner.speed = 1e9
        while runner.state != "ready" or runner.sim.steps == 0:
            time.sleep(0.05)
        for turn in range(size.repeats + 1):
            _rate(runner, 0.2 * size.seconds)
            alone.append(_rate(runner, size.seconds))  # no page is open: nothing is shown
            if turn == size.repeats:
                break
            with _process(_PAGE, viewer.url, protocol) as messages:
                _rate(runner, 0.2 * size.seconds)
                before = viewer.pictures
                shown.append(_rate(runner, size.seconds))
                sent = max(sent, (viewer.pictures - before) / size.seconds)
            got = max(got, float(messages[0] or "nan"))
    finally:
        viewer.close()
    shares = [here / (0.5 * (before + after)) for before, here, after in zip(alone, shown, alone[1:], strict=False)]
    return {
        "scene": case.scene, "bodies": scene.model.body_count, "rate": case.rate, "sent": sent, "got": got,
        "alone": median(alone), "shown": median(shown), "cost": 100.0 * (1.0 - median(shares)),
    }  # fmt: skip


def pictures_shown(scene: Any, rate: float, seconds: float, table: Table) -> float | None:
    """Return the pictures per second that a page gets of a scene running in real time, or None without the extra."""
    try:
        viser: Any = errors.require("viser", extra="view")
    except errors.MissingExtra as missing:
        table.note(str(missing))
        return None
    viewer = lj.view(scene, rate=rate, port=0, open_browser=False, block=False)
    try:
        while viewer.runner.state != "ready":
            time.sleep(0.05)
        with _process(_PAGE, viewer.url, f"viser-v{viser.__version__}"):
            _rate(viewer.runner, 0.5 * seconds)
            before, begin = viewer.pictures, time.perf_counter()
            time.sleep(seconds)
            return (viewer.pictures - before) / (time.perf_counter() - begin)
    finally:
        viewer.close()


def _opening() -> float:
    """Return how long a fresh process takes until its page can be loaded [s]."""
    code = (
        "import sys; import limberjack as lj;"
        "lj.view(lj.scenes.get('pendulum'), port=0, open_browser=False, block=False);"
        "print('up', flush=True); sys.stdin.read()"
    )
    begin = time.perf_counter()
    with _process(code):
        return time.perf_counter() - begin


def _visits(size: _Size, protocol: str) -> tuple[float, float]:
    """Let pages come and go; return the memory that stays per page [bytes] and the steps after over those before."""
    scene = scenes.get("long_chain", links=20)
    viewer = lj.view(scene, port=0, open_browser=False, block=False)
    try:
        runner = viewer.runner
        runner.speed = 1e9

        def visit() -> None:
            with _process(_PAGE, viewer.url, protocol):
                pass

        for _ in range(max(2, size.pages // 5)):  # what is made once
            visit()
        time.sleep(1.0)
        before, fast = resident_bytes() or 0, _rate(runner, size.seconds)
        for _ in range(size.pages):
            visit()
        time.sleep(1.0)
        after = resident_bytes() or 0
        return (after - before) / size.pages, _rate(runner, size.seconds) / fast
    finally:
        viewer.close()


def fill(table: Table, quick: bool, watch: Watch) -> None:
    """Measure what pages cost; see `TABLES`."""
    size = _QUICK if quick else _FULL
    watch.begin(len(size.cases) + 2)
    part = table.part("simulations flat out, one page open", *_COSTS)
    pages = table.part("pages", *_PAGES)
    try:
        viser: Any = errors.require("viser", extra="view")
    except errors.MissingExtra as missing:
        table.note(str(missing))
        pages.add(what="all", value=MISSING)
        return
    protocol = f"viser-v{viser.__version__}"
    for case in size.cases:
        watch(case.scene, 1)
        row = _cost(case, size, protocol)
        part.add(**row)
        table.bar(f"cost of a page, {row['bodies']:,} bodies at {case.rate:g} Hz, %", row["cost"], 10.0, False)
    watch("opening", 1)
    opening = min(_opening() for _ in range(1 if quick else 3))
    pages.add(what="from the command to a page that loads, kernels compiled before", value=opening, unit="s")
    table.bar("opening, s", opening, 5.0, False)
    watch(f"{size.pages} pages come and go", 1)
    kept, speed = _visits(size, protocol)
    pages.add(what=f"memory that stays of each of {size.pages} pages", value=kept / 1024, unit="KB")
    pages.add(what="steps per second after them, over before", value=speed, unit="x")
    table.note(
        "cost: steps lost while one page in another process takes every picture; each second with a page against the "
        "seconds before and after it without, the median of 15"
    )
