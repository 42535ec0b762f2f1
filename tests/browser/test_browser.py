"""The viewer and the pages in a real browser: headless Chromium with software GL, driven by playwright.

`make browser` installs what they need, `make test-browser` runs them. Software GL takes long for its first picture and
draws a few per second: models are small, and everything waits for what it expects.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.browser.conftest import SIZE
from tests.viewer.waiting import until

import limberjack as lj
from limberjack.methods import METHODS
from limberjack.viewer.app import Viewer
from limberjack.viewer.camera import Eye
from limberjack.viewer.carry_over import under_method

pytestmark = pytest.mark.browser

SHOTS = Path(os.environ.get("LIMBERJACK_SCREENSHOTS", "site/screenshots"))


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

    def open_(sim, playing=False, **options):
        options = options or {"camera": ((0.0, -3.4, 0.4), (0.0, 0.0, 0.3))}
        viewer = Viewer(sim, port=0, playing=playing, rate=10.0, **options)
        viewers.append(viewer)
        page.goto(viewer.url)
        assert until(lambda: _pumped(page, viewer.server.get_clients), 90.0)
        assert until(lambda: _pumped(page, lambda: colored(canvas(page)).sum() > 60), 90.0)
        # where kernels were not compiled before
        assert until(lambda: _pumped(page, lambda: viewer.runner.state == "ready"), 300.0)
        return viewer

    yield open_
    for viewer in viewers:
        viewer.close()


def _pumped(page, ask):
    """Return what `ask` does after the page had time to work: playwright runs on this thread."""
    page.wait_for_timeout(50)
    return ask()


def canvas(page):
    """Return the picture without the panel, which is docked on the right, and without notes."""
    page.evaluate("document.querySelectorAll('.mantine-Notification-root').forEach(n => n.style.display = 'none')")
    return shot(page)[:, : max(300, page.viewport_size["width"] - 330)]


def colored(picture):
    """Return which pixels have a colour: neither sky nor ground do."""
    return picture.max(axis=2) - picture.min(axis=2) > 55


def extent(page):
    """Return where the coloured pixels lie: left, right, top, bottom as shares of the canvas."""
    rows, columns = np.nonzero(colored(canvas(page)))
    height, width = canvas(page).shape[:2]
    return columns.min() / width, columns.max() / width, rows.min() / height, rows.max() / height


def red(picture):
    """Return how many pixels belong to the arm."""
    return int(((picture[..., 0] > picture[..., 1] + 60) & (picture[..., 0] > picture[..., 2] + 60)).sum())


def pixel(viewer, point):
    """Return where a point of the world is on the page, as the camera of its client has it."""
    camera = next(iter(viewer.server.get_clients().values())).camera
    eye = Eye(np.array(camera.position), np.array(camera.look_at), float(camera.fov))
    right, up, ahead = eye.axes()
    off = np.asarray(point) - eye.position
    scale = 0.5 * camera.image_height / np.tan(0.5 * eye.angle) / (off @ ahead)
    return camera.image_width / 2 + scale * (off @ right), camera.image_height / 2 - scale * (off @ up)


def test_the_page_shows_the_model_without_a_complaint(page, opened):
    """The scene is there, where the camera says, the panel's words too, and the console stays quiet."""
    viewer = opened(arm())
    picture = shot(page, "viewer_arm")
    x, y = pixel(viewer, (0.0, 0.0, 0.75))
    r, g, b = picture[int(y), int(x)]
    assert r > g + 40 and r > b + 40
    for word in ("Play", "Single step", "Reset"):
        assert page.get_by_role("button", name=word, exact=True).is_visible()
    for word in ("Limberjack", "Scene", "Method", "Look", "Timeline"):
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

    # where the kernels of the grip were not compiled before
    assert until(lambda: _pumped(page, lambda: viewer.runner.compiling is None), 300.0)

    def place():
        return viewer.runner.ask(lambda sim: sim.positions[2] + _down(sim), timeout=120.0)

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
    page.get_by_role("button", name="Record", exact=True).click()
    assert until(lambda: _pumped(page, lambda: viewer.runner.recorded_frames > 20))
    page.get_by_role("button", name="Stop recording").click()
    with page.expect_download(timeout=60_000) as download:
        page.get_by_role("button", name="Download", exact=True).click()
    path = tmp_path / "arm.html"
    download.value.save_as(path)
    replay(browser, path, name="replay")


def test_each_scene_is_framed(page, opened):
    """A scene of metres and then one of a few decimetres: each fills its share of the picture, and nothing is cut."""
    viewer = opened(arm(), playing=True, way=(0.0, -1.0, 0.2))
    for name in ("pendulum", "four_bar", "newtons_cradle"):
        viewer.open_scene(name)
        runs = lambda name=name: viewer.title == name and viewer.runner.state == "ready" and viewer.sim.time > 0.3  # noqa: E731
        assert until(lambda runs=runs: _pumped(page, runs), 90.0)
        viewer.runner.play(False)
        page.wait_for_timeout(1500)
        left, right, top, bottom = extent(page)
        shot(page, f"framed_{name}")
        assert left > 0.0 and right < 0.995 and top > 0.0 and bottom < 0.995, name
        assert max(right - left, bottom - top) > 0.25, name
        assert page.get_by_label("Scene", exact=True).first.input_value() == name
        viewer.runner.play()


def test_budgets_in_joints_percent_and_milliseconds(page, opened):
    """The slider takes each unit; what was measured at each budget is a point of the plot, the one of now labelled."""
    viewer = opened(lj.Simulation(lj.scenes.pendulum(links=20), lj.Adaptive(budget=20)), playing=True, way=(0, -1, 0.1))
    budget = lambda: viewer.sim.method.budget  # noqa: E731
    slider = page.get_by_role("slider").first
    slider.focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    assert until(lambda: _pumped(page, lambda: budget() == 19))
    page.get_by_label("Budget in", exact=True).first.click()
    page.get_by_role("option", name="percent").click()
    assert until(lambda: _pumped(page, lambda: page.get_by_text("Budget [%]").count() == 1))
    page.get_by_role("slider").first.focus()
    page.keyboard.press("Home")
    assert until(lambda: _pumped(page, lambda: budget() == 0))
    page.get_by_label("Budget in", exact=True).first.click()
    page.get_by_role("option", name="milliseconds").click()
    assert until(lambda: _pumped(page, lambda: page.get_by_text("Budget [ms]").count() == 1))
    page.get_by_role("slider").first.focus()
    page.keyboard.press("End")
    assert until(lambda: _pumped(page, lambda: budget() > 3))  # 20 ms are enough for more joints
    assert until(lambda: _pumped(page, lambda: page.locator("svg circle").count() > 3))
    shot(page, "budget")
    assert not page.complaints


def test_clusters_are_coloured_and_explained(page, opened):
    """With method adaptive bodies have the colours of their clusters at once, and a legend says so."""
    viewer = opened(lj.Simulation(lj.scenes.pendulum(links=12), lj.Adaptive(budget=4)), playing=True, way=(0, -1, 0.1))
    assert until(lambda: _pumped(page, lambda: page.get_by_text("rigid clusters: bodies of one colour").count() == 1))
    assert viewer.panel.look.color.value == "rigid cluster"
    colors = np.unique(viewer._stages[0]._shown_colors, axis=0)
    assert 2 <= len(colors) <= len(viewer.runner.ask(lambda sim: sim.active_joints)) + 1
    viewer.use_method("full")
    assert until(lambda: _pumped(page, lambda: viewer.panel.look.color.value == "own"), 60.0)
    assert until(lambda: _pumped(page, lambda: not page.get_by_text("rigid clusters: bodies of one").is_visible()))


def clothed():
    """Return a body with a red visual shape, and a collision shape without a colour of its own, as files have them."""
    b = lj.Builder("clothed")
    b.add_body("box", mass=1.0, inertia=(0.1, 0.1, 0.1))
    b.add_joint_hinge("hinge", "world", "box", axis=(0, 1, 0), position=(0, 0, 1))
    b.add_shape_box("box", (0.5, 0.5, 0.5), color=(0.9, 0.2, 0.15, 1), collide=False)
    b.add_shape_sphere("box", 0.55, friction=0.5)
    b.add_actuator("turn", "hinge", kind="position", kp=40.0, kd=6.0, control_range=(-1.0, 1.0))
    b.add_keyframe("tilted", q=[0.6], qd=[0.0], control=[0.6])
    return lj.Simulation(b.build())


def green(picture):
    """Return how many pixels are those of collision shapes."""
    return int(((picture[..., 1] > picture[..., 0] + 25) & (picture[..., 1] > picture[..., 2] + 10)).sum())


def test_visual_and_collision_shapes_are_switched(page, opened):
    """The collision shape is hidden at first; each group is shown and hidden by itself."""
    opened(clothed(), way=(0.4, -1.0, 0.3))
    picture = canvas(page)
    assert red(picture) > 500 and green(picture) < 50
    page.get_by_text("Show", exact=True).first.click()
    page.get_by_label("Collision shapes").click()
    assert until(lambda: _pumped(page, lambda: green(canvas(page)) > 500))
    page.get_by_label("Visual shapes").click()
    assert until(lambda: _pumped(page, lambda: red(canvas(page)) < 50))
    shot(page, "collision_shapes")


def test_options_are_in_plain_words(page, opened):
    """Options have labels, units and a sentence each, the basic ones first and the others folded."""
    viewer = opened(arm(method=lj.Adaptive(budget=3)))
    page.get_by_text("Options of the method").click()
    assert page.get_by_text("Tolerance [m²/s⁴]").first.is_visible()
    assert not page.get_by_text("Choose joints every [steps]").first.is_visible()
    page.get_by_text("Advanced", exact=True).first.click()
    page.wait_for_timeout(500)
    every = page.get_by_label("Choose joints every [steps]").first
    assert every.is_visible()
    every.fill("7")
    every.press("Enter")
    assert until(lambda: _pumped(page, lambda: viewer.sim.method.update_every == 7))


def test_the_panel_is_folded_in_narrow_windows(browser):
    """In a window of 640 pixels the picture takes the whole width; a click unfolds the panel."""
    with Viewer(arm(), port=0, playing=False, rate=10.0) as viewer:
        context = browser.new_context(viewport={"width": 640, "height": 600})
        narrow = context.new_page()
        narrow.goto(viewer.url)
        assert until(lambda: _pumped(narrow, viewer.server.get_clients), 90.0)
        camera = next(iter(viewer.server.get_clients().values())).camera
        assert until(lambda: _pumped(narrow, lambda: camera.image_width > 560), 30.0)
        assert not narrow.get_by_text("Timeline", exact=True).first.is_visible()
        context.close()


def test_forces_frames_names_on_demand(page, opened):
    """Each switch under Show draws something, and nothing once it is off."""
    viewer = opened(arm(q=[0.4, 0.3, -0.2]))
    page.get_by_text("Show", exact=True).first.click()
    page.wait_for_timeout(800)
    bare = canvas(page)
    for label in ("Joint reactions", "Centre of mass", "Frames", "Names"):
        page.get_by_label(label).click()
        assert until(lambda: _pumped(page, lambda: (np.abs(canvas(page) - bare).max(axis=2) > 60).sum() > 300)), label
        if label == "Names":
            shot(page, "names")
        page.get_by_label(label).click()
        page.mouse.move(880, 20)  # away from the control, whose sentence would cover the picture
        assert until(lambda: _pumped(page, lambda: (np.abs(canvas(page) - bare).max(axis=2) > 60).sum() < 200)), label
    assert not viewer.runner.problems and not page.complaints


def purple(picture):
    """Return how many pixels belong to arrows of contact forces."""
    return int(((picture[..., 2] > picture[..., 1] + 50) & (picture[..., 0] > picture[..., 1] + 20)).sum())


def test_contact_forces_on_demand(page, opened):
    """A ball at rest on the ground shows the force that carries it as an arrow upward, and none once it is off."""
    b = lj.Builder("ball")
    b.add_body("ball", mass=1.0, inertia=(0.016, 0.016, 0.016), position=(0, 0, 0.2))
    b.add_shape_sphere("ball", 0.2, color=(0.9, 0.8, 0.3, 1))
    b.add_shape_plane("world")
    viewer = opened(lj.Simulation(b.build(), "impulses", dt=1 / 240), playing=True, way=(0.4, -1.0, 0.3))
    assert until(lambda: _pumped(page, lambda: viewer.sim.time > 0.2), 90.0)
    viewer.runner.play(False)
    assert purple(canvas(page)) < 20
    page.get_by_text("Show", exact=True).first.click()
    page.get_by_label("Contact forces").click()
    assert until(lambda: _pumped(page, lambda: purple(canvas(page)) > 60))
    rows = np.nonzero(purple_rows(canvas(page)))[0]
    assert rows.max() - rows.min() > 40  # upright, longer than it is wide
    shot(page, "contact_forces")
    page.get_by_label("Contact forces").click()
    page.mouse.move(880, 20)
    assert until(lambda: _pumped(page, lambda: purple(canvas(page)) < 20))
    assert not page.complaints


def purple_rows(picture):
    """Return which rows of the picture have pixels of such arrows."""
    return [purple(picture[k : k + 1]) > 0 for k in range(len(picture))]


def test_the_past_is_scrubbed_and_continued_from(page, opened):
    """The slider leads back to the first state and pauses; the run goes on from there; played, the present returns."""
    viewer = opened(arm(q=[0.9, 0.2, 0.1]), playing=True)
    assert until(lambda: _pumped(page, lambda: viewer.sim.time > 1.0))
    first = viewer.runner.runs[0].history[0]
    slider = page.get_by_role("slider").first
    slider.focus()
    page.keyboard.press("Home")
    assert until(lambda: _pumped(page, lambda: viewer.runner.looking_back is not None))
    assert not viewer.runner.playing and viewer.sim.time > 1.0
    frame = viewer.runner.frame(timeout=10.0)
    assert frame.time == first.time and np.array_equal(frame.q, first.q)
    assert until(lambda: _pumped(page, lambda: page.get_by_text("looking back").count() == 1))
    page.get_by_role("button", name="Continue from here").click()
    assert until(lambda: _pumped(page, lambda: viewer.sim.time == first.time))
    assert np.allclose(viewer.runner.ask(lambda sim: sim.q.copy()), first.q, atol=1e-12)
    page.get_by_role("button", name="Play", exact=True).click()
    assert until(lambda: _pumped(page, lambda: viewer.sim.time > 0.2))


def test_actuators_and_keyframes(page, opened):
    """A slider per actuator sets its control and moves the robot; a button leads to the keyframe and its control."""
    viewer = opened(clothed(), playing=True, way=(0.4, -1.0, 0.3))
    assert page.get_by_text("Controls", exact=True).first.is_visible()
    slider = page.get_by_role("slider").first
    slider.focus()
    page.keyboard.press("End")
    assert until(lambda: _pumped(page, lambda: viewer.runner.ask(lambda sim: float(sim.control[0])) == 1.0))
    assert until(lambda: _pumped(page, lambda: viewer.runner.ask(lambda sim: float(sim.q[0])) > 0.4))
    page.get_by_role("button", name="tilted").click()
    assert until(lambda: _pumped(page, lambda: viewer.runner.ask(lambda sim: float(sim.control[0])) == 0.6))
    assert until(lambda: _pumped(page, lambda: abs(viewer.panel.control.actuators["turn"].value - 0.6) < 1e-6))


def test_budgets_side_by_side(page, opened):
    """Three budgets run in one page, next to each other, labelled, from the same state, at the same time."""
    viewer = opened(arm(method=lj.Adaptive(budget=3), q=[0.9, 0.4, 0.2]), playing=True, way=(0, -1, 0.1))
    viewer.panel.detail.variants.value = "3, 2, 1"
    page.get_by_text("Side by side", exact=True).first.click()
    page.wait_for_timeout(500)
    page.get_by_role("button", name="Compare", exact=True).click()
    assert until(lambda: _pumped(page, lambda: len(viewer.runner.runs) == 3), 60.0)
    assert until(lambda: _pumped(page, lambda: len(viewer._stages) == 3), 60.0)
    begin = viewer.sim.time
    assert until(lambda: _pumped(page, lambda: viewer.sim.time > begin + 0.5), 60.0)
    assert [run.sim.method.budget for run in viewer.runner.runs] == [3, 2, 1]
    times = viewer.runner.ask(lambda sim: {run.sim.time for run in viewer.runner.runs})
    assert len(times) == 1
    for label in ("budget 3", "budget 2", "budget 1"):
        assert until(lambda label=label: _pumped(page, lambda: page.get_by_text(label, exact=True).count() >= 1)), label
    viewer.runner.play(False)
    page.wait_for_timeout(1500)
    mask, width = colored(canvas(page)), canvas(page).shape[1]
    shot(page, "side_by_side")
    for k in range(3):
        assert mask[:, k * width // 3 : (k + 1) * width // 3].sum() > 200, k
    page.get_by_role("button", name="Show one").click()
    assert until(lambda: _pumped(page, lambda: len(viewer._stages) == 1))
    assert viewer.sim.method.budget == 1 and not page.complaints


def test_a_recording_of_several_budgets_is_one_page(page, browser, opened, tmp_path):
    """What is downloaded from runs side by side shows each, labelled, with clusters and plots, without a network."""
    viewer = opened(arm(method=lj.Adaptive(budget=3), q=[0.9, 0.4, 0.2]), playing=True, way=(0, -1, 0.1))
    viewer.compare("3, 1")
    assert until(lambda: _pumped(page, lambda: len(viewer._stages) == 2), 60.0)
    begin = viewer.sim.time
    assert until(lambda: _pumped(page, lambda: viewer.sim.time > begin + 0.5), 60.0)
    with page.expect_download(timeout=60_000) as download:
        page.get_by_role("button", name="Download", exact=True).click()
    path = tmp_path / "arm.html"
    download.value.save_as(path)
    context = browser.new_context(viewport=SIZE, offline=True, color_scheme="dark")
    made = context.new_page()
    made.goto(path.as_uri())
    assert holds(made, "window.player && window.player.ready && window.player.drawn > 0")
    assert made.evaluate("player.runs.map(r => r.d.label)") == ["budget 3", "budget 1"]
    assert made.evaluate("player.runs.every(r => r.clusters)")
    assert set(made.evaluate("Object.keys(player.runs[0].d.plots)")) >= {"active joints", "error [m]", "energy [J]"}
    assert shot(made, "page_dark")[5, 400].max() < 90  # the colours the browser asks for
    context.close()


def test_the_gallery_lists_all_scenes_and_opens_one(page):
    """Every scene has a picture that loads and a link; a click shows the scene, and no script is needed."""
    with Viewer(None, port=0, rate=10.0) as viewer:
        page.goto(viewer.gallery_url)
        assert page.locator("li").count() == len(lj.scenes.names())
        for image in page.locator("img").all():
            image.scroll_into_view_if_needed()
        page.wait_for_timeout(500)
        sizes = page.evaluate("[...document.images].map(i => [i.src, i.naturalWidth])")
        assert all(size > 100 for _, size in sizes), [name for name, size in sizes if size <= 100]
        page.evaluate("scrollTo(0, 0)")
        shot(page, "gallery")
        page.locator("a", has_text="newtons_cradle").first.click()
        assert until(lambda: _pumped(page, lambda: viewer.sim.model.name == "newtons_cradle"), 90.0)
        assert until(lambda: _pumped(page, lambda: viewer.server.get_clients() and viewer.sim.time > 0.2), 90.0)
        assert until(lambda: _pumped(page, lambda: colored(canvas(page)).sum() > 300), 90.0)


def test_a_page_of_several_budgets(browser, tmp_path):
    """`run --beside --out x.html` writes a page with the runs side by side, clusters coloured, plots, and labels."""
    from limberjack.cli.commands import main

    path = tmp_path / "x.html"
    words = ["--set", "links=20", "--set", "budget=20", "--beside", "5,1", "--seconds", "0.5", "--quiet"]
    assert main(["run", "paper_pendulum", *words, "--out", str(path)]) == 0
    context = browser.new_context(viewport=SIZE, offline=True)
    made = context.new_page()
    complaints = []
    made.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    made.goto(path.as_uri())
    assert holds(made, "window.player && window.player.ready && window.player.drawn > 0")
    assert made.evaluate("player.runs.map(r => r.d.label)") == ["budget 20", "budget 5", "budget 1"]
    assert made.evaluate("player.runs.every(r => r.clusters)")
    assert made.locator("#colors").input_value() == "cluster"
    names = made.evaluate("Object.keys(player.runs[1].d.plots)")
    assert {"active joints", "error [m]", "time per step [ms]", "energy [J]"} <= set(names)
    active = made.evaluate("player.runs.map(r => Math.max(...r.d.plots['active joints']))")
    assert active == [20, 5, 1]
    made.evaluate("player.setPlaying(false); player.setTime(0.4)")
    made.wait_for_timeout(800)
    picture = shot(made, "page_side_by_side")[:, : SIZE["width"] - 280]
    for k in range(3):
        third = picture.shape[1] // 3
        assert colored(picture[120:500, k * third : (k + 1) * third]).sum() > 20, k
    assert made.locator("#plots canvas").count() == len(names) and not complaints
    context.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", lj.scenes.names())
def test_every_scene_stays_in_the_picture(page, name):
    """Opened and run, every moving part of every scene is where the camera of the page sees it."""
    with Viewer(None, port=0, rate=5.0) as viewer:
        page.goto(viewer.url)
        assert until(lambda: _pumped(page, viewer.server.get_clients), 90.0)
        viewer.open_scene(name)
        until(lambda: _pumped(page, lambda: viewer.title == name and viewer.sim.time > 3.0), 90.0)
        viewer.runner.play(False)
        page.wait_for_timeout(3000)
        shot(page, f"scene_{name}")
        camera = next(iter(viewer.server.get_clients().values())).camera
        places = np.array([pixel(viewer, place) for place in viewer._stages[0].places()])
        inside = (places >= 0) & (places <= (camera.image_width, camera.image_height))
        assert inside.all(axis=1).mean() > 0.98
        assert not page.complaints


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
    """The Khronos validator finds nothing wrong with motions of meshes, springs and ground, nor with physics."""
    validator = Path(os.environ.get("GLTF_VALIDATOR", "node_modules/gltf-validator")).resolve()
    program = (
        f"const v = require({json.dumps(str(validator))}), fs = require('fs');"
        "v.validateBytes(new Uint8Array(fs.readFileSync(process.argv[1]))).then("
        "r => console.log(JSON.stringify(r.issues)), e => { console.error(e); process.exit(1); });"
    )
    paths = []
    for scene in ("humanoid", "marionette", "gear_train", "baraff_contacts"):
        model = lj.scenes.get(scene).model
        sim = lj.Simulation(model, ignore=[word for word in ("contacts",) if word in model.features()])
        paths.append(sim.run(0.3).save(tmp_path / f"{scene}.glb"))
    for scene in ("humanoid", "box_pile", "tank", "newtons_cradle"):
        for suffix in ("glb", "gltf"):
            paths.append(lj.save(lj.scenes.get(scene).model, tmp_path / f"{scene}_physics.{suffix}"))
    for path in paths:
        done = subprocess.run(["node", "-e", program, str(path)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        issues = json.loads(done.stdout)
        assert issues["numErrors"] == issues["numWarnings"] == 0, issues["messages"][:3]
