"""The viewer and the pages in a real browser: headless Chromium with software GL, driven by playwright.

`make browser` installs what they need, `make test-browser` runs them. Software GL takes long for its first picture and
draws a few per second: models are small, and everything waits for what it expects.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.viewer.waiting import until

import limberjack as lj
from limberjack.methods import METHODS
from limberjack.viewer.app import Viewer
from limberjack.viewer.camera import Eye
from limberjack.viewer.carry_over import under_method

pytestmark = pytest.mark.browser

FLAGS = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
SIZE = {"width": 900, "height": 600}
SHOTS = Path(os.environ.get("LIMBERJACK_SCREENSHOTS", "site/screenshots"))


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser):
    """A page; what it complains of is in `page.complaints`."""
    context = browser.new_context(viewport=SIZE, accept_downloads=True)
    made = context.new_page()
    made.complaints = []
    # the one thing viser's own client complains of when the pointer drags in this browser; it does no harm
    known = "Unable to preventDefault inside passive event listener"
    made.on("console", lambda m: made.complaints.append(m.text) if m.type == "error" and known not in m.text else None)
    made.on("pageerror", lambda error: made.complaints.append(str(error)))
    yield made
    context.close()


def shot(page, name=None):
    """Return the page as an array of pixels; keep it under a name."""
    from io import BytesIO

    from PIL import Image

    data = page.screenshot()
    if name is not None:
        SHOTS.mkdir(parents=True, exist_ok=True)
        (SHOTS / f"{name}.png").write_bytes(data)
    return np.array(Image.open(BytesIO(data)).convert("RGB")).astype(int)


def holds(page, condition, seconds=60.0):
    """Wait for an expression to be true in the page; the page's policy forbids it to do the waiting itself."""
    end = False
    for _ in range(int(seconds * 10)):
        end = page.evaluate(f"!!({condition})")
        if end:
            break
        page.wait_for_timeout(100)
    return end


def arm(**options):
    """Return a short chain of stout links: easy to hit."""
    b = lj.Builder("arm")
    above = "world"
    for k in range(3):
        b.add_body(f"link{k}", mass=1.0, com=(0, 0, -0.25), inertia=(0.03, 0.03, 0.005))
        place = (0, 0, 1) if k == 0 else (0, 0, -0.5)
        b.add_joint_hinge(f"joint{k}", above, f"link{k}", axis=(0, 1, 0), position=place, damping=0.5)
        b.add_shape_capsule(f"link{k}", 0.09, 0.36, position=(0, 0, -0.25), color=(0.9, 0.3, 0.2, 1), collide=False)
        above = f"link{k}"
    return lj.Simulation(b.build(), **options)


@pytest.fixture
def opened(page):
    """A function that opens a viewer of a simulation in the page and waits for its picture."""
    viewers = []

    def open_(sim, playing=False):
        viewer = Viewer(sim, port=0, playing=playing, camera=((0.0, -3.4, 0.4), (0.0, 0.0, 0.3)), rate=10.0)
        viewers.append(viewer)
        page.goto(viewer.url)
        assert until(lambda: _pumped(page, viewer.server.get_clients), 90.0)
        assert until(lambda: _pumped(page, lambda: red(shot(page)) > 500), 90.0)
        return viewer

    yield open_
    for viewer in viewers:
        viewer.close()


def _pumped(page, ask):
    """Return what `ask` does after the page had time to work: playwright runs on this thread."""
    page.wait_for_timeout(50)
    return ask()


def red(picture):
    """Return how many pixels belong to the arm."""
    return int(((picture[..., 0] > picture[..., 1] + 60) & (picture[..., 0] > picture[..., 2] + 60)).sum())


def pixel(viewer, point):
    """Return where a point of the world is on the page, as the camera of its client has it."""
    camera = next(iter(viewer.server.get_clients().values())).camera
    eye = Eye(np.array(camera.position), np.array(camera.look_at), float(camera.fov))
    right, up, ahead = eye.axes()
    off = np.asarray(point) - eye.position
    scale = 0.5 * SIZE["height"] / np.tan(0.5 * eye.angle) / (off @ ahead)
    return SIZE["width"] / 2 + scale * (off @ right), SIZE["height"] / 2 - scale * (off @ up)


def test_the_page_shows_the_model_without_a_complaint(page, opened):
    """The scene is there, where the camera says, the panel's words too, and the console stays quiet."""
    viewer = opened(arm())
    picture = shot(page, "viewer_arm")
    x, y = pixel(viewer, (0.0, 0.0, 0.75))
    r, g, b = picture[int(y), int(x)]
    assert r > g + 40 and r > b + 40
    for word in ("Play", "Single step", "Reset"):
        assert page.get_by_role("button", name=word, exact=True).is_visible()
    for word in ("Limberjack", "Scene", "Method", "Look"):
        assert page.get_by_text(word, exact=True).first.is_visible()
    assert not page.complaints


def test_the_buttons_of_the_page(page, opened):
    """Play runs it, pause holds it, a single step is one step, reset goes back."""
    viewer = opened(arm())
    page.get_by_role("button", name="Play", exact=True).click()
    assert until(lambda: _pumped(page, lambda: viewer.sim.steps > 50))
    page.get_by_role("button", name="Pause", exact=True).click()
    assert until(lambda: _pumped(page, lambda: not viewer.runner.playing))
    steps = viewer.runner.ask(lambda sim: sim.steps)
    page.get_by_role("button", name="Single step", exact=True).click()
    assert until(lambda: _pumped(page, lambda: viewer.sim.steps == steps + 1))
    page.get_by_role("button", name="Reset", exact=True).click()
    assert until(lambda: _pumped(page, lambda: viewer.sim.steps == 0))
    assert not page.complaints


def test_the_budget_slider_changes_the_active_joints(page, opened):
    """Pushed to its left end the slider leaves no joint active."""
    viewer = opened(arm(method=lj.Adaptive(budget=3)), playing=True)
    assert until(lambda: _pumped(page, lambda: len(viewer.runner.ask(lambda sim: sim.active_joints)) == 3))
    slider = page.get_by_role("slider").first
    slider.focus()
    for _ in range(2):
        page.keyboard.press("ArrowLeft")
        page.wait_for_timeout(100)
    assert until(lambda: _pumped(page, lambda: len(viewer.runner.ask(lambda sim: sim.active_joints)) == 1))
    assert viewer.sim.method.budget == 1


def test_a_method_is_chosen_and_the_state_stays(page, opened):
    """Another method of the list goes on from where the first was."""
    viewer = opened(arm(q=[0.4, 0.3, -0.2]))
    before = viewer.runner.ask(lambda sim: sim.positions.copy())
    page.get_by_label("Method", exact=True).first.click()
    page.get_by_role("option", name="multipliers").click()
    assert until(lambda: _pumped(page, lambda: viewer.sim.method.name == "multipliers"), 120.0)
    assert np.allclose(viewer.runner.ask(lambda sim: sim.positions.copy()), before, atol=1e-12)


@pytest.mark.parametrize("name", list(METHODS))
def test_a_pointer_drags_a_body(page, opened, name):
    """Pressed on a link and moved to the left, the pointer draws the link to the left, in every method."""
    viewer = opened(under_method(arm(), lj.Adaptive(budget=3) if name == "adaptive" else name), playing=True)
    start = np.array([0.0, 0.0, -0.25])
    x, y = pixel(viewer, start)
    page.mouse.move(x, y)
    page.mouse.down()
    for k in range(1, 13):
        page.mouse.move(x - 9 * k, y - 3 * k)
        page.wait_for_timeout(80)

    def place():
        return viewer.runner.ask(lambda sim: sim.positions[2] + _down(sim))

    def _down(sim):
        from limberjack.spatial.frames import matrix_from_quaternion

        return matrix_from_quaternion(sim.rotations[2]) @ [0.0, 0.0, -0.25]

    assert until(lambda: _pumped(page, lambda: place()[0] < -0.3)), (place(), viewer.runner.problems)
    where = np.array(pixel(viewer, place()))
    assert np.linalg.norm(where - (x - 108, y - 36)) < 60
    shot(page, f"drag_{name}")
    page.mouse.up()
    assert until(lambda: _pumped(page, lambda: not viewer.grips._holds))
    assert not page.complaints


def test_a_recording_is_downloaded_and_plays_offline(page, browser, opened, tmp_path):
    """Record, stop, download: the page that comes plays by itself, without a network and without a complaint."""
    viewer = opened(arm(q=[0.5, 0.2, 0.1]), playing=True)
    page.get_by_text("Record", exact=True).first.click()
    page.wait_for_timeout(300)
    page.get_by_role("button", name="Record", exact=True).click()
    assert until(lambda: _pumped(page, lambda: viewer.runner.recorded_frames > 20))
    page.get_by_role("button", name="Stop recording").click()
    with page.expect_download(timeout=60_000) as download:
        page.get_by_role("button", name="Download", exact=True).click()
    path = tmp_path / "arm.html"
    download.value.save_as(path)
    replay(browser, path, name="replay")


def replay(browser, path, name):
    """Open a page without a network; check that it plays, can be moved, and complains of nothing."""
    context = browser.new_context(viewport=SIZE, offline=True)
    page = context.new_page()
    complaints = []
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(path.as_uri())
    assert holds(page, "window.player && window.player.ready && window.player.drawn > 1")
    assert page.evaluate("player.playing")
    page.get_by_label("play or pause").click()
    assert not page.evaluate("player.playing")
    page.evaluate("player.setTime(0)")
    page.wait_for_timeout(600)
    first = shot(page, name)
    page.evaluate("player.setTime(1e9)")
    page.wait_for_timeout(600)
    last = shot(page)
    assert np.abs(first - last)[:500].max() > 60
    page.mouse.move(450, 250)
    page.mouse.down()
    page.mouse.move(600, 200, steps=4)
    page.mouse.up()
    page.wait_for_timeout(600)
    assert np.abs(shot(page) - last)[:500].max() > 60
    assert not complaints
    context.close()


@pytest.mark.parametrize("scene", ["humanoid", "pendulum", "gear_train"])
def test_pages_show_what_moved(browser, tmp_path, scene):
    """A saved page shows, in its own arithmetic, every body where the trajectory has it."""
    options = {"links": 20} if scene == "pendulum" else {}
    trajectory = lj.Simulation(lj.scenes.get(scene, **options).model).run(0.5)
    path = trajectory.save(tmp_path / f"{scene}.html")
    context = browser.new_context(viewport=SIZE, offline=True)
    page = context.new_page()
    page.goto(path.as_uri())
    assert holds(page, "window.player && window.player.ready && window.player.drawn > 0")
    k = len(trajectory) // 2
    page.evaluate(f"player.setPlaying(false); player.setTime({float(trajectory.times[k])!r})")
    for i in range(0, trajectory.model.body_count, 5):
        numbers = np.array(page.evaluate(f"player.body({i})"))
        scale = 1.0 + np.abs(trajectory.positions).max()
        assert np.abs(numbers[:3] - trajectory.positions[k, i]).max() < 1e-3 * scale
        assert abs(abs(numbers[3:] @ trajectory.rotations[k, i]) - 1.0) < 1e-4
    page.wait_for_timeout(500)
    assert shot(page, f"page_{scene}").std() > 5
    context.close()


def test_other_sites_are_refused_in_the_browser(page, opened, tmp_path):
    """A page of another origin cannot open the socket; the viewer notices nothing."""
    viewer = opened(arm())
    refused = viewer.guard.refused
    other = tmp_path / "evil.html"
    address = viewer.url.replace("http", "ws")
    other.write_text(
        "<script>const s = new WebSocket(" + json.dumps(address) + ", 'viser-v1.1.1');"
        "s.onopen = () => document.title = 'in'; s.onerror = () => document.title = 'out';</script>"
    )
    page.goto(other.as_uri())
    assert holds(page, "document.title === 'out'")
    assert viewer.guard.refused > refused


def test_glb_passes_the_validator(tmp_path):
    """The Khronos validator finds nothing wrong with models of meshes, springs, ground and animation."""
    validator = Path(os.environ.get("GLTF_VALIDATOR", "node_modules/gltf-validator")).resolve()
    program = (
        f"const v = require({json.dumps(str(validator))}), fs = require('fs');"
        "v.validateBytes(new Uint8Array(fs.readFileSync(process.argv[1]))).then("
        "r => console.log(JSON.stringify(r.issues)), e => { console.error(e); process.exit(1); });"
    )
    for scene in ("humanoid", "marionette", "gear_train", "baraff_contacts"):
        model = lj.scenes.get(scene).model
        sim = lj.Simulation(model, ignore=[word for word in ("contacts",) if word in model.features()])
        path = sim.run(0.3).save(tmp_path / f"{scene}.glb")
        done = subprocess.run(["node", "-e", program, str(path)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        issues = json.loads(done.stdout)
        assert issues["numErrors"] == issues["numWarnings"] == 0, issues["messages"][:3]
