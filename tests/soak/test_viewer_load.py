"""The viewer under attack and load: connections by the thousand, a hundred pages at once, and pages that mean harm.

LIMBERJACK_SOAK_CONNECTS (5000) and LIMBERJACK_SOAK_PAGES (100) set how many.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from tests.soak.test_soak import _resident
from tests.viewer.test_app import PROTOCOL, joined
from tests.viewer.waiting import until
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import connect

import limberjack as lj
from limberjack.viewer.app import Viewer

pytestmark = pytest.mark.soak

CONNECTS = int(os.environ.get("LIMBERJACK_SOAK_CONNECTS", "5000"))
PAGES = int(os.environ.get("LIMBERJACK_SOAK_PAGES", "100"))

# Many pages in one process, each of which takes every message that comes.
_PAGES = """
import sys, threading
from websockets.sync.client import connect
url, protocol, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
got = [0] * count
def page(k):
    words = dict(origin=url.rstrip("/"), subprotocols=[protocol], max_size=None)
    with connect(url.replace("http", "ws", 1), **words) as socket:
        import msgspec
        socket.send(msgspec.msgpack.encode(dict(
            type="ViewerCameraMessage", wxyz=(1.0, 0.0, 0.0, 0.0), position=(3.0, 0.0, 1.0), fov=0.8, near=0.1,
            far=100.0, image_height=720, image_width=1280, look_at=(0.0, 0.0, 0.0), up_direction=(0.0, 0.0, 1.0))))
        for message in socket:
            got[k] += 1
for k in range(count):
    threading.Thread(target=page, args=(k,), daemon=True).start()
print("open", flush=True)
sys.stdin.read()
print(sum(n > 0 for n in got), sum(got), flush=True)
"""


@pytest.fixture
def viewer():
    made = Viewer(lj.Simulation(lj.scenes.long_chain(links=30)), port=0, playing=True)
    yield made
    made.close()


def speed(viewer, seconds=2.0):
    """Return the steps per second of this clock."""
    begin, steps = time.perf_counter(), viewer.sim.steps
    time.sleep(seconds)
    return (viewer.sim.steps - steps) / (time.perf_counter() - begin)


def test_connections_leave_nothing(viewer):
    """Thousands of pages that come and go, some without a word, leave no state, no thread and no memory."""
    state = viewer.server._websock_server._client_state_from_id
    held, counts = [], []
    for k in range(CONNECTS):
        socket = joined(viewer)
        if k % 3 == 0:
            assert socket.recv(timeout=20)
        if k % 2:
            socket.socket.close()
        socket.close()
        if k % max(1, CONNECTS // 40) == 0:
            held.append(_resident())
            counts.append(k)
    assert until(lambda: not state, 60.0)
    late = len(counts) // 2
    slope = 1e6 * np.polyfit(counts[late:], held[late:], 1)[0]
    print(f"{CONNECTS} connections: {held[0]:.0f} MB at first, {held[-1]:.0f} at last, {slope:.0f} B each")
    assert slope * CONNECTS < 20e6
    assert threading.active_count() < 40
    assert speed(viewer) > 0


def test_pages_that_mean_harm_are_refused(viewer):
    """Foreign origins, wrong hosts, noise and messages that are too large: refused, and the simulation goes on."""
    rng = np.random.default_rng(0)
    url = viewer.url.replace("http", "ws")
    refused = 0
    for k in range(max(50, CONNECTS // 20)):
        origin = ("http://evil.example", "null", viewer.url.rstrip("/"))[k % 3]
        with contextlib.suppress(ConnectionClosed, OSError):
            try:
                socket = connect(url, origin=origin, subprotocols=[PROTOCOL], max_size=None)
            except InvalidHandshake:
                refused += 1
                continue
            assert k % 3 == 2
            for _ in range(20):
                socket.send(rng.bytes(int(10 ** rng.uniform(0, 4))))
            socket.send(b"\x81" * (2 * 1024 * 1024))
            socket.recv(timeout=5)
            socket.close()
    assert refused >= 2 * (max(50, CONNECTS // 20) // 3)
    before = viewer.sim.steps
    assert until(lambda: viewer.sim.steps > before + 50)
    assert joined(viewer).recv(timeout=20)


def test_a_hundred_pages_at_once(viewer):
    """Many pages that read and a few that do not: all are served, and what waits for them stays bounded."""
    alone = speed(viewer)
    idle = [joined(viewer) for _ in range(3)]  # take nothing
    command = [sys.executable, "-c", _PAGES, viewer.url, PROTOCOL, str(PAGES)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as pages:
        assert pages.stdin is not None and pages.stdout is not None
        assert pages.stdout.readline() == "open\n"
        assert until(lambda: len(viewer.server.get_clients()) >= PAGES, 120.0)
        shown = speed(viewer, 10.0)
        waiting = len(viewer.server._websock_server._broadcast_buffer.message_from_id)
        pages.stdin.close()
        served, messages = map(int, pages.stdout.readline().split())
    for socket in idle:
        socket.close()
    print(f"{PAGES} pages: {messages} messages; {alone:.0f} steps/s alone, {shown:.0f} shown, {waiting} messages wait")
    assert served == PAGES and waiting < 2000
