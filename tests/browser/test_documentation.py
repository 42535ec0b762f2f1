"""The site of the documentation in a real browser: what is searched for is found."""

from __future__ import annotations

import functools
import http.server
import threading

import pytest
from tests.tools.site import build

import limberjack as lj

pytestmark = pytest.mark.browser

PASTE = """text => {
    const data = new DataTransfer();
    data.setData("text/plain", text);
    const pasted = new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true});
    document.querySelector("[data-md-component=search-query]").dispatchEvent(pasted);
}"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *given):
        pass


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The address of the site, built and served."""
    folder = build(tmp_path_factory.mktemp("site"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


def found(page, text, pasted):
    """Return where the first results of a search lead: of each page, its sections from the best on."""
    box = page.locator("[data-md-component=search-query]")
    box.click()
    box.fill("")
    if pasted:
        page.evaluate(PASTE, text)
    else:
        box.fill(text)
    page.keyboard.press("End")
    page.wait_for_timeout(1500)
    items = page.locator(".md-search-result__item").evaluate_all(
        "items => items.slice(0, 3).map(i => [...i.querySelectorAll('a')].slice(0, 4).map(a => a.pathname + a.hash))"
    )
    return [[link.lstrip("/") for link in links] for links in items]


def raised(call):
    """Return the message of an error."""
    with pytest.raises(lj.LimberjackError) as error:
        call()
    return str(error.value)


def test_words_of_the_panel_are_found(page, address):
    """A word of the panel that is typed leads to its sentence on the page of the viewer."""
    page.set_viewport_size({"width": 1300, "height": 800})
    page.goto(address)
    for word in ("Choose joints every", "Camera decides detail", "Shock propagation", "Keep in view", "Look ahead"):
        assert "viewer/" in [links[0].partition("#")[0] for links in found(page, word, False)[:2]], word


def test_messages_are_found(page, address):
    """A message pasted as it is raised, names and numbers included, leads to the page that explains it."""
    page.set_viewport_size({"width": 1300, "height": 800})
    page.goto(address)
    model = lj.scenes.pendulum(links=2)
    for text, words in (
        (raised(lambda: lj.Simulation(model, "multipliers", dt=-1.0)), "must-be-a-finite-number"),
        (raised(lambda: lj.Builder("b").add_body("a", mass=1.0, inertia=(1, 1, 9))), "breaks-the-triangle-inequality"),
        ('joint "knee": gap 3.2e-3 m > 1e-6 m; close it with lj.assemble', "close-it-with-ljassemble"),
        ("limberjack: --seconds must be > 0, got -3", "seconds-must-be"),
        (
            'mesh "foot" is not closed: 12 of 40 edges are open; close it, or give its shape collide=False',
            "is-not-closed",
        ),
    ):
        links = found(page, text, True)
        assert any(link.startswith("messages/") and words in link for link in links[0]), (text, links)
    assert not page.complaints
