"""The whole viewer without a browser: it opens, obeys its panel, takes clients and loses them, and closes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import deque

import numpy as np
import pytest
import viser
from tests.viewer.waiting import until
from websockets.sync.client import connect

import limberjack as lj
from limberjack.methods import METHODS
from limberjack.viewer.app import Viewer

PROTOCOL = f"viser-v{viser.__version__}"


@pytest.fixture
def viewer():
    made = Viewer(lj.Simulation(lj.scenes.pendulum(links=6)), port=0, playing=False)
    yield made
    made.close()


def joined(viewer):
    """Return an open connection as a page's."""
    return connect(
        viewer.url.replace("http", "ws"), origin=viewer.url.rstrip("/"), subprotocols=[PROTOCOL], max_size=None
    )


class FakeClient:
    """Takes downloads."""

    def __init__(self):
        self.files = {}

    def send_file_download(self, name, content, save_immediately=False):
        self.files[name] = content


class Kept(deque):
    """Problems that stay to be looked at after they were told."""

    def __init__(self):
        super().__init__()
        self.all = []

    def append(self, text):
        self.all.append(text)
        super().append(text)


def test_it_listens_on_this_machine_only(viewer):
    """By default the address is a loopback one, without a token; the way into the internet is closed."""
    assert viewer.url.startswith("http://127.0.0.1:") and "token" not in viewer.url
    from viser import _messages

    assert _messages.ShareUrlRequest not in viewer.server._websock_server._incoming_handlers
    assert viewer.url in viewer._repr_html_()


def test_play_pause_step_reset(viewer):
    """The buttons do what they say."""
    viewer.toggle()
    assert until(lambda: viewer.sim.steps > 20)
    viewer.toggle()
    steps = viewer.runner.ask(lambda sim: sim.steps)
    viewer.single_step()
    assert viewer.runner.ask(lambda sim: sim.steps) == steps + 1
    viewer.runner.reset()
    assert viewer.runner.ask(lambda sim: sim.steps) == 0


@pytest.mark.parametrize("name", list(METHODS))
def test_methods_are_switched_with_the_state_kept(viewer, name):
    """After a switch the method is the one asked for, clock and positions go on, and the panel shows it."""
    viewer.runner.ask(lambda sim: sim.step(40))
    before = viewer.runner.ask(lambda sim: (sim.time, sim.positions.copy()))
    viewer.use_method(name)
    after = viewer.runner.ask(lambda sim: (sim.time, sim.positions.copy()), timeout=300.0)
    assert viewer.sim.method.name == name and after[0] == before[0]
    assert np.allclose(after[1], before[1], atol=1e-12)
    assert until(lambda: viewer.panel.method.value == name)


def test_what_a_method_leaves_out_is_said(viewer):
    """A figure on the ground can go on under a method that knows no contacts; the page is told that it does."""
    viewer.open_scene("humanoid")
    assert until(lambda: viewer.sim.model.name == "humanoid", 60.0), list(viewer.runner.problems)
    assert "contacts" in viewer.sim.model.features() and viewer.sim.method.name == "full"
    viewer.runner.problems = Kept()
    viewer.use_method("divide_and_conquer")
    viewer.runner.ask(lambda sim: sim.step(2), timeout=300.0)
    assert viewer.sim.method.name == "divide_and_conquer" and viewer.sim.ignored == ("contacts",)
    assert viewer.runner.problems.all == ['method "divide_and_conquer" leaves out contacts']


def test_reactions_are_shown_as_arrows(viewer):
    """Switched on, every published frame has the forces of all joints, that of the root the weight; off, none."""
    viewer.use_reactions(True)
    assert until(lambda: "reactions" in viewer.runner.frame(timeout=5.0).facts)
    points, forces = viewer.runner.frame(timeout=5.0).facts["reactions"]
    assert np.array_equal(forces, viewer.runner.ask(lambda sim: sim.reactions[:, 3:])) and points.shape == forces.shape
    viewer.use_reactions(False)
    assert until(lambda: "reactions" not in viewer.runner.frame(timeout=5.0).facts)


def test_the_budget_changes_what_is_active(viewer):
    """Tuned to a budget of 2, method adaptive has 2 active joints; other methods are rebuilt with their options."""
    viewer.use_method("adaptive")
    viewer.tune(budget=2)
    viewer.runner.ask(lambda sim: sim.step(40), timeout=300.0)
    assert len(viewer.runner.ask(lambda sim: sim.active_joints)) == 2
    viewer.tune(budget=5)
    viewer.runner.ask(lambda sim: sim.step(40))
    assert len(viewer.runner.ask(lambda sim: sim.active_joints)) == 5
    viewer.use_method("full")
    viewer.tune(threads=2)
    assert viewer.runner.ask(lambda sim: sim.method.threads) == 2
    viewer.use_dt(2.0)
    assert viewer.runner.ask(lambda sim: sim.dt) == pytest.approx(2e-3)
    assert not viewer.runner.problems


def test_snapshots_and_files(viewer, tmp_path):
    """A snapshot is gone back to bit for bit; the state downloaded is one `lj.resume` continues; it can be loaded."""
    first = viewer.runner.ask(lambda sim: (sim.step(10), sim.state_hash())[1])
    viewer.take_snapshot()
    viewer.runner.ask(lambda sim: sim.step(10))
    viewer.back_to_snapshot()
    assert viewer.runner.ask(lambda sim: sim.state_hash()) == first
    client = FakeClient()
    viewer.send_state(client)
    assert until(lambda: client.files)
    (name, content), *_ = client.files.items()
    (tmp_path / name).write_bytes(content)
    assert lj.resume(tmp_path / name).state_hash() == first
    viewer.runner.ask(lambda sim: sim.step(10))
    viewer.load_state(content)
    assert until(lambda: viewer.runner.ask(lambda sim: sim.state_hash()) == first)
    viewer.load_state(b"junk")
    assert until(lambda: any("junk" in text or "state.npz" in text for text in viewer.runner.problems))


def test_recordings_are_downloaded_in_every_format(viewer):
    """Recorded while it plays, the motion comes as page, glTF scene, film and archive."""
    viewer.toggle_recording()
    viewer.toggle()
    assert until(lambda: viewer.runner.recorded_frames > 3)
    viewer.toggle()
    viewer.toggle_recording()
    client = FakeClient()
    for suffix in ("npz", "html", "glb", "mp4"):
        viewer.send_recording(client, suffix)
    assert until(lambda: len(client.files) == 4, 60.0), viewer.runner.problems
    heads = {name.rpartition(".")[2]: content[:9] for name, content in client.files.items()}
    assert heads["npz"][:2] == b"PK" and heads["glb"][:4] == b"glTF" and heads["html"] == b"<!DOCTYPE"
    assert heads["mp4"][4:8] == b"ftyp"


def test_scenes_are_opened_beside_the_running_one(viewer):
    """Another scene takes the place of the first, with its own model on the stage."""
    viewer.open_scene("four_bar")
    assert until(lambda: viewer.runner.ask(lambda sim: sim.model.name) == "four_bar", 120.0)
    assert until(lambda: viewer._stage.drawing.model.name == "four_bar")


def test_clients_come_and_go_without_a_trace(viewer):
    """Fifty pages that connect, read a little and leave, some without a word, leave no state and no thread behind."""
    viewer.toggle()
    state, threads = viewer.server._websock_server._client_state_from_id, threading.active_count()
    for k in range(50):
        socket = joined(viewer)
        assert socket.recv(timeout=20)
        if k % 2:
            socket.socket.close()
        socket.close()
    assert until(lambda: not state)
    assert threading.active_count() <= threads + 8
    before = viewer.sim.steps
    assert until(lambda: viewer.sim.steps > before + 50)


def test_a_page_that_does_not_read_holds_nobody_up(viewer):
    """With a connection that never takes its messages the simulation steps on, and what waits for it stays bounded."""
    socket = joined(viewer)
    viewer.toggle()
    viewer._dirty = True
    before = viewer.sim.steps
    assert until(lambda: viewer.sim.steps > before + 500)
    assert len(viewer.server._websock_server._broadcast_buffer.message_from_id) < 2000
    socket.close()


def test_closing_ends_all_threads():
    """After close() no thread of the viewer runs, and its port is free again."""
    viewer = Viewer(lj.Simulation(lj.scenes.pendulum(links=2)), port=0)
    port = viewer.guard.port
    viewer.close()
    viewer.close()
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("limberjack-") and "errands" not in name]
    time.sleep(0.05)
    import socket

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))


def test_what_is_no_simulation_is_refused():
    """`view` takes simulations, scenes and models; anything else is a StateError."""
    with pytest.raises(lj.StateError, match="Simulation"):
        lj.view("pendulum", block=False, open_browser=False)
    for thing in (lj.scenes.get("four_bar"), lj.scenes.pendulum(links=2)):
        viewer = lj.view(thing, block=False, open_browser=False, port=0)
        viewer.close()


def command(*words):
    """Start the command line; return the process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    line = [sys.executable, "-m", "limberjack", *words]
    # a shell that runs jobs in the background lets its children ignore Ctrl-C
    attentive = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
    return subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, preexec_fn=attentive
    )


def test_the_command_opens_the_page_and_ends_on_ctrl_c():
    """`limberjack view` prints an address that answers, and Ctrl-C ends it with status 0 and without a traceback."""
    process = command("view", "four_bar", "--no-browser", "--port", "0", "--paused")
    assert process.stdout is not None
    try:
        words = process.stdout.readline().split()
        assert words[0] == "viewer:" and words[1].startswith("http://127.0.0.1:")
        with urllib.request.urlopen(words[1], timeout=20) as response:
            assert response.status == 200
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 0 and "Traceback" not in err, err


@pytest.mark.parametrize(
    "words, named",
    [
        (["four_bar", "--rate", "0"], "--rate"),
        (["four_bar", "--port", "99999"], "port"),
        (["four_bar", "--host", "no-such-host.invalid"], "no-such-host.invalid"),
        (["nothing"], "nothing"),
    ],
)
def test_wrong_orders_to_view_end_with_status_2(words, named, capsys):
    """Bad input is one message that names it, and status 2."""
    from limberjack.cli.commands import main

    assert main(["view", *words, "--no-browser"]) == 2
    err = capsys.readouterr().err
    assert named in err and "Traceback" not in err
