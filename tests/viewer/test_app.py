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
from limberjack.viewer.history import error_in, measures, missed

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
    assert until(lambda: viewer.panel.run.method.value == name)


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
    viewer.use_overlay("joint reactions", True)
    assert until(lambda: "joint reactions" in viewer.runner.frame(timeout=5.0).facts)
    points, forces = viewer.runner.frame(timeout=5.0).facts["joint reactions"]
    assert np.array_equal(forces, viewer.runner.ask(lambda sim: sim.reactions[:, 3:])) and points.shape == forces.shape
    viewer.use_overlay("joint reactions", False)
    assert until(lambda: "joint reactions" not in viewer.runner.frame(timeout=5.0).facts)


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
    assert until(lambda: viewer._stages[0].drawing.model.name == "four_bar")


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


# -- the gallery, the level of detail, the past ----------------------------------------------------


def fetch(viewer, path, **headers):
    """Return status, headers and content of a page, without following where it leads."""
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", viewer.guard.port, timeout=20)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    return answer.status, dict(answer.getheaders()), answer.read()


def test_the_gallery_lists_every_scene_with_a_picture(viewer):
    """Each scene has a link and a picture in the package; the page runs no script, and nothing else is served."""
    status, headers, content = fetch(viewer, "/gallery")
    text = content.decode()
    assert status == 200 and "script" not in text and "default-src 'none'" in headers["Content-Security-Policy"]
    for name in lj.scenes.names():
        assert f"/open/{name}?key=" in text
        status, headers, picture = fetch(viewer, f"/gallery/{name}.webp")
        assert status == 200 and headers["Content-Type"] == "image/webp" and picture[8:12] == b"WEBP", name
    for path in ("/gallery/../app.py", "/gallery/%2e%2e%2fapp.py", "/gallery/nothing.webp"):
        assert b"class Viewer" not in fetch(viewer, path)[2]


def test_scenes_are_opened_by_the_gallery_alone(viewer):
    """The link of the page opens a scene and leads to the viewer; without its key nothing changes."""
    before = viewer.sim
    assert fetch(viewer, "/open/four_bar")[0] == fetch(viewer, "/open/four_bar?key=x")[0] == 303
    time.sleep(0.3)
    assert viewer.sim is before
    assert fetch(viewer, "/gallery", Host="evil.example")[0] == 403
    key = fetch(viewer, "/gallery")[2].decode().partition("/open/four_bar?key=")[2].partition("'")[0]
    status, headers, _ = fetch(viewer, f"/open/four_bar?key={key}")
    assert status == 303 and headers["Location"] == "/"
    assert until(lambda: viewer.sim.model.name == "four_bar", 120.0)


def test_a_viewer_without_a_simulation_waits_for_one():
    """Opened without a simulation the page answers at once; then a simulation is shown, and runs."""
    with Viewer(None, port=0) as viewer:
        with urllib.request.urlopen(viewer.url, timeout=20) as response:
            assert response.status == 200
        assert viewer.runner.state == "starting" and not viewer._stages
        viewer.open(lj.Simulation(lj.scenes.pendulum(links=3)))
        assert until(lambda: viewer.sim.steps > 20 and viewer._stages)


@pytest.fixture
def adaptive():
    made = Viewer(lj.Simulation(lj.scenes.pendulum(links=12), lj.Adaptive(budget=12)), port=0)
    assert until(lambda: made.sim.steps > 50, 120.0)
    yield made
    made.close()


def test_budgets_have_three_units(adaptive):
    """So many joints, percent of them, or as many as fit into milliseconds."""
    adaptive.use_budget("joints", 3)
    assert adaptive.runner.ask(lambda sim: sim.method.budget) == 3
    adaptive.use_budget("percent", 50.0)
    assert adaptive.runner.ask(lambda sim: sim.method.budget) == 6
    adaptive.use_budget("milliseconds", 1e-4)  # no step is that fast
    assert until(lambda: adaptive.sim.method.budget == 1)
    adaptive.use_budget("milliseconds", 1e3)
    assert until(lambda: adaptive.sim.method.budget == 12)
    assert until(lambda: "circle" in adaptive.panel.detail.plot.content)


def test_errors_are_distances():
    """What rigid joints miss is in metres, radians or pixels by the metric, 0 where nothing is rigid, more for less."""
    model, errors = lj.scenes.pendulum(links=12), {}
    for budget in (12, 4, 1):
        sim = lj.Simulation(model, lj.Adaptive(budget=budget), dt=1e-3)
        sim.step(100)
        unit, errors[budget] = missed(sim)
        assert unit == "m" and error_in(measures(sim, 1e-3)) == (unit, errors[budget])
    assert errors[12] == 0.0 < errors[4] < errors[1] < 12.0
    bounded = lj.Simulation(model, lj.Adaptive(tolerance=0.01), dt=1e-3)
    bounded.step(100)
    horizon, mass = bounded.method.horizon_used, sum(model.body(name).mass for name in model.body_names)
    assert missed(bounded)[1] <= 0.5 * horizon**2 * np.sqrt(0.01 / mass) * (1 + 1e-9)
    assert missed(lj.Simulation(model, lj.Adaptive(budget=4, metric="joints")))[0] == "rad"
    view = lj.View(position=(0.0, -30.0, 0.0), target=(0.0, 0.0, 0.0))
    assert missed(lj.Simulation(model, lj.Adaptive(budget=4, view=view)))[0] == "px"
    assert error_in(measures(lj.Simulation(model), 1e-3)) is None


def test_runs_side_by_side_keep_step(adaptive):
    """Budgets and methods run from the same state at the same times; each has stage, history and label of its own."""
    adaptive.compare("12, 2, full")
    assert until(lambda: len(adaptive.runner.runs) == 3 and len(adaptive._stages) == 3, 60.0)
    runs = adaptive.runner.runs
    assert [run.label for run in runs] == ["budget 12", "budget 2", "full"]
    assert until(lambda: all(len(run.history) > 5 for run in runs))
    times = adaptive.runner.ask(lambda sim: [run.sim.time for run in runs])
    assert max(times) - min(times) < 1e-12
    assert until(lambda: [run.history[-1].numbers.get("active joints") for run in runs] == [12.0, 2.0, None])
    offsets = np.array([stage.offset for stage in adaptive._stages])
    size = adaptive._framing.box[1] - adaptive._framing.box[0]
    assert np.linalg.norm(np.diff(offsets, axis=0), axis=1).min() > 0.9 * size.max() * 0.1
    adaptive.use_lead("budget 2")
    assert until(lambda: adaptive.sim.method.name == "adaptive" and adaptive.sim.method.budget == 2)
    adaptive.compare("5")
    assert until(lambda: len(adaptive.runner.runs) == 3)
    client = FakeClient()
    adaptive.send_recording(client, "html")
    assert until(lambda: client.files, 60.0), adaptive.runner.problems
    (page,) = client.files.values()
    assert page.count(b'"label":"budget 2"') == 1 and b'"plots":' in page and b'"clusters":' in page
    adaptive.show_one()
    assert until(lambda: len(adaptive._stages) == 1 and adaptive.sim.method.budget == 2)


def test_the_past_is_looked_at_and_continued_from(viewer):
    """Looking back pauses and shows a recorded state; continued from there, the same steps follow."""
    viewer.toggle()
    assert until(lambda: len(viewer.runner.runs[0].history) > 20)
    viewer.runner.look_back(0.5)
    assert until(lambda: viewer.runner.looking_back is not None) and not viewer.runner.playing
    moment = viewer.runner.looking_back
    frame = viewer.runner.frame(timeout=5.0)
    assert frame.time == moment.time and np.array_equal(frame.q, moment.q) and viewer.sim.time > moment.time
    viewer.continue_from_here()
    time_now, q = viewer.runner.ask(lambda sim: (sim.time, sim.q.copy()))
    assert time_now == moment.time and np.allclose(q, moment.q, atol=1e-14)
    assert viewer.runner.runs[0].history[-1].time == moment.time
    viewer.toggle()
    assert until(lambda: viewer.sim.time > moment.time + 0.1) and viewer.runner.looking_back is None


def test_every_word_of_the_panel_is_explained():
    """Every label and choice of the panel is in docs/viewer.md, and every option of every method with its sentence."""
    from pathlib import Path

    from limberjack.methods import method_of
    from limberjack.viewer.words import method_options

    class Words:
        """Takes the place of viser's panel and collects labels."""

        def __init__(self):
            self.words = []

        def __getattr__(self, name):
            if not name.startswith("add_") or name in ("add_markdown", "add_html", "add_progress_bar"):
                return getattr(real, name)

            def add(label, *rest, **options):
                self.words.append(label)
                if name in ("add_button_group", "add_dropdown"):
                    self.words.extend(rest[0])
                return getattr(real, name)(label, *rest, **options)

            return add

    page = (Path(__file__).parents[2] / "docs" / "viewer.md").read_text("utf-8")
    with Viewer(None, port=0) as viewer:
        from limberjack.viewer.panel import Panel

        real, spy = viewer.server.gui, Words()
        server = type("Server", (), {"gui": spy})()
        Panel(viewer, server).show(lj.Simulation(lj.scenes.pendulum(links=3), lj.Adaptive(budget=2)), "")
    plain = {word for word in spy.words if word not in (*METHODS, *lj.scenes.names())}
    missing = sorted(word for word in plain if word.partition(" [")[0].lower() not in page.lower())
    assert not missing
    for name in METHODS:
        for option, word in method_options(method_of(name)).items():
            assert word.label in page and word.sentence in page and word.sentence.endswith("."), (name, option)


def test_choices_of_options_are_those_of_the_methods():
    """Every choice that the panel offers is one the method takes, or refuses for a reason other than its name."""
    from dataclasses import replace

    from limberjack.methods import method_of
    from limberjack.viewer.words import method_options

    for name in METHODS:
        method = method_of(name)
        for option, word in method_options(method).items():
            for choice in word.choices:
                try:
                    replace(method, **{option: choice})
                except lj.UnknownName as error:
                    raise AssertionError(f"{name}: {option}={choice}") from error
                except lj.LimberjackError:
                    pass
