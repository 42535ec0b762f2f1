"""`Gallery`: a page that lists all scenes with their pictures; a click on one opens it in the viewer."""

from __future__ import annotations

import hmac
import html
import secrets
from collections.abc import Callable
from importlib import resources
from urllib.parse import parse_qs, urlsplit

from limberjack import scenes
from limberjack.viewer.guard import Page

__all__ = ["Gallery", "GROUPS", "PICTURES", "grouped"]

# Where `tools/make_gallery.py` puts the pictures: one per scene, NAME.webp.
PICTURES = "pictures"
# Scenes by the module that has them, in the order of the page.
GROUPS = {
    "Level of detail": ("adaptive", "crowds"),
    "Chains and trees": ("chains", "trees", "baraff"),
    "Figures and motion capture": ("figures", "mocap", "bones"),
    "Loops and mechanisms": ("loops", "machines", "faure", "kinematic"),
    "Piles and contact": ("piles", "rings", "stairs", "letters", "bridge"),
    "Vehicles and joints made at run time": ("tank", "weinstein"),
}
_STYLE = """
body { margin: 0; font: 15px/1.5 system-ui, sans-serif; color: #1d2a35; background: #f3f6f8; }
main { max-width: 1240px; margin: 0 auto; padding: 28px 24px 60px; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 34px 0 12px; color: #26547c; }
p { margin: 0; color: #4d5b66; }
ul { display: grid; grid-template-columns: repeat(auto-fill, minmax(220px, 1fr)); gap: 16px; list-style: none;
     padding: 0; margin: 0; }
a { display: block; height: 100%; background: #fff; border-radius: 10px; overflow: hidden; color: inherit;
    text-decoration: none; box-shadow: 0 1px 4px rgba(20, 40, 60, .14); }
a:hover, a:focus { box-shadow: 0 3px 14px rgba(20, 40, 60, .28); }
img { display: block; width: 100%; aspect-ratio: 8 / 5; object-fit: cover; background: #dfe7ee; }
b { display: block; padding: 9px 12px 0; }
span { display: block; padding: 2px 12px 12px; font-size: 13px; color: #56636e; }
@media (prefers-color-scheme: dark) {
  body { background: #14191e; color: #e4ebf0; } a { background: #1e262d; }
  p, span { color: #a6b3bd; } h2 { color: #8fbfe6; }
}
"""


def grouped() -> dict[str, list[scenes.SceneInfo]]:
    """Return the scenes under the headings of the page; none is left out."""
    home = {word: title for title, words in GROUPS.items() for word in words}
    found: dict[str, list[scenes.SceneInfo]] = {title: [] for title in GROUPS}
    for info in scenes.describe():
        maker = getattr(scenes, info.name, None)  # scenes that users register are no functions of the room
        module = "" if maker is None else maker.__module__.rpartition(".")[2]
        found.setdefault(home.get(module, "More"), []).append(info)
    return {title: rows for title, rows in found.items() if rows}


class Gallery:
    """Answers requests for the gallery.

    Opening a scene changes what the viewer shows, so its address has a key that only the page itself has: a page of
    another site cannot make the browser open one.

    Args:
        choose: called with the name of a scene that was clicked.
    """

    def __init__(self, choose: Callable[[str], None]) -> None:
        self._choose, self._key = choose, secrets.token_urlsafe(16)

    def answer(self, path: str) -> Page | None:
        """Return the page at a path, or None: it is not one of the gallery's."""
        parts = urlsplit(path)
        words = [word for word in parts.path.split("/") if word]
        if words == ["gallery"]:
            return Page(self.page().encode(), "text/html; charset=utf-8")
        if len(words) == 2 and words[0] == "gallery" and words[1].removesuffix(".webp") in scenes.names():
            return _picture(words[1])
        if len(words) == 2 and words[0] == "open" and words[1] in scenes.names():
            given = parse_qs(parts.query).get("key", [""])[0]
            if hmac.compare_digest(given.encode(), self._key.encode()):
                self._choose(words[1])
            return Page(b"", "text/plain", location="/")
        return None

    def page(self) -> str:
        """Return the page."""
        lines = [
            "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'><title>Limberjack: scenes</title>",
            f"<meta name='viewport' content='width=device-width, initial-scale=1'><style>{_STYLE}</style></head><body>",
            "<main><h1>Limberjack</h1><p>Click a scene to run it. Drag its bodies, change its method, its budget, its ",
            "gravity.</p>",
        ]
        for title, rows in grouped().items():
            lines.append(f"<h2>{title}</h2><ul>")
            for info in rows:
                text = html.escape(info.description)
                lines.append(
                    f"<li><a href='/open/{info.name}?key={self._key}'><img src='/gallery/{info.name}.webp' alt='' "
                    f"loading='lazy' width='320' height='200'><b>{info.name}</b><span>{text}</span></a></li>"
                )
            lines.append("</ul>")
        return "".join([*lines, "</main></body></html>"])


def _picture(name: str) -> Page | None:
    file = resources.files("limberjack.viewer").joinpath(PICTURES, name)
    return Page(file.read_bytes(), "image/webp") if file.is_file() else None
