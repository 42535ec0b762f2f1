"""A headless Chromium with software GL, and pages in it."""

from __future__ import annotations

import shutil

import pytest

FLAGS = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
SIZE = {"width": 900, "height": 600}


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
