"""The documentation follows the code: generated pages are up to date, commands and options are all described."""

from __future__ import annotations

import dataclasses
import html
import inspect
import json
import re
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from tests.tools.site import build

import limberjack as lj
import list_messages
import make_docs
import make_headline
import make_images
from limberjack import errors
from limberjack.cli import commands as cli
from limberjack.methods import METHODS, method_of
from limberjack.model.joint_options import checked_joint
from limberjack.model.joints import KINDS, factors_of, locked, motion_subspace, transform
from limberjack.reduced.step import INTEGRATORS
from limberjack.scenes import catalog
from limberjack_lab import bench, papers

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


GENERATED = make_docs.pages()


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.name)
def test_generated_pages_are_up_to_date(path):
    """Each generated page is what the code says now; `make pages` writes them."""
    assert path.read_text(encoding="utf-8") == GENERATED[path]


def test_check_tells_stale_pages(tmp_path, monkeypatch, capsys):
    """With --check a changed page gives status 1 and its name, and stays as it is; without, it is written."""
    (tmp_path / "images").mkdir()
    copies = {tmp_path / path.relative_to(DOCS): text for path, text in GENERATED.items()}
    for path, text in copies.items():
        path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(make_docs, "pages", lambda: copies)
    assert make_docs.main(["--check"]) == 0
    (tmp_path / "scenes.md").write_text("old")
    assert make_docs.main(["--check"]) == 1
    assert "scenes.md" in capsys.readouterr().out and (tmp_path / "scenes.md").read_text() == "old"
    assert make_docs.main([]) == 0
    assert make_docs.main(["--check"]) == 0


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if kind.motions])
def test_the_directions_in_the_table_are_those_of_the_joint(kind, rng):
    """S as the table writes it is the S of the code, and its locked rows are as many as it names."""
    joint = checked_joint(kind, "joint", "world", "body", **({"pitch": 0.3} if kind == "screw" else {}))
    factors = factors_of(joint)
    q = rng.normal(size=KINDS[kind].nq)
    for factor in factors:
        if KINDS[kind].nq - KINDS[kind].nv and factor.q == len(q) - 4:
            q[-4:] /= np.linalg.norm(q[-4:])
    r, p = transform(factors, q)
    x, y, z = np.eye(3)
    words = {"x": x, "y": y, "z": z, "y'": r @ y, "pitch z": 0.3 * z, "0": 0.0 * z}
    columns = []
    for pair in re.findall(r"\((.*?)\)", make_docs.MOTIONS[kind][2]):
        angular, linear = pair.split("; ")
        if angular == "R":
            columns += [np.r_[column, 0.0, 0.0, 0.0] for column in r.T]
        elif linear == "1":
            columns += [np.r_[0.0, 0.0, 0.0, axis] for axis in np.eye(3)]
        else:
            columns.append(np.r_[words[angular], words[linear]])
    np.testing.assert_allclose(motion_subspace(factors, q), np.array(columns).T, atol=1e-12)
    rows, errors = locked(joint, r, p, near=q)
    text = next(line for line in make_docs.kinds().splitlines() if line.startswith(f"| `{kind}`")).split("|")[5]
    named = re.findall(r"\b[rt][xyz]\b(?! =)", text)
    assert len(rows) == len(named) + ("=" in text) == 6 - KINDS[kind].nv
    np.testing.assert_allclose(errors, 0.0, atol=1e-12)


def test_every_option_of_every_command_is_described(capsys):
    """The page of the command line names every command, and every option that --help shows."""
    text = (DOCS / "cli.md").read_text()
    for command in cli._COMMANDS:
        assert f"\n## {command}\n" in text
        assert cli.main([command, "--help"]) == 0
        for option in re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out):
            assert option in text, f"{command} {option}"


def test_the_help_of_every_command_is_on_its_page():
    """The page of the command line shows each command with the sentence that --help has for it."""
    text = (DOCS / "cli.md").read_text()
    for name, command in cli._COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(command.__doc__.splitlines()[0])}$", text, flags=re.M), name


def test_every_table_and_figure_is_on_the_page_of_the_command_line():
    """The page names every table of `limberjack bench` and every figure of `limberjack papers`."""
    text = (DOCS / "cli.md").read_text()
    for name in (*bench.TABLES, *papers.FIGURES):
        assert f"`{name}`" in text, name


def test_the_start_page_lists_every_page():
    """docs/index.md links to every page, and the menu has every page."""
    index, menu = (DOCS / "index.md").read_text(), (ROOT / "mkdocs.yml").read_text()
    for page in DOCS.rglob("*.md"):
        name = page.relative_to(DOCS).as_posix()
        assert name == "index.md" or f"({name})" in index, name
        assert f": {name}\n" in menu, name


@pytest.mark.parametrize("name", METHODS)
def test_every_option_of_a_method_is_on_its_page(name):
    """The page of a method names every option."""
    text = (DOCS / "methods" / f"{name}.md").read_text()
    for option in dataclasses.fields(method_of(name)):
        assert re.search(rf"`{option.name}`|\b{option.name}=", text), option.name


def test_every_integrator_is_described():
    """Each integrator is on the page of features and on that of the method."""
    for page in ("docs/features.md", "docs/methods/full.md"):
        for word in INTEGRATORS:
            assert word in (ROOT / page).read_text()


PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md") if "```python\n" in path.read_text())
# Films are drawn frame by frame there.
LONG = ("pictures.md",)


@pytest.mark.parametrize("page", [pytest.param(p, marks=[pytest.mark.slow] if p in LONG else []) for p in PAGES])
def test_the_code_of_the_documentation_runs(page, tmp_path, monkeypatch):
    """The Python of a page runs from its top to its end; what comments say is raised is raised.

    A comment `<!-- python ... -->` prepares what a fragment speaks of, unseen.
    """
    monkeypatch.chdir(tmp_path)
    opened = inspect.signature(lj.view)
    monkeypatch.setattr(lj, "view", lambda *given, **options: opened.bind(*given, **options))
    monkeypatch.setattr(catalog, "_ENTRIES", dict(catalog._ENTRIES))  # scenes that a page registers end with it
    names = {"lj": lj, "np": np, "model": lj.scenes.double_pendulum(), "__name__": "documentation"}
    found = re.findall(r"(?:```|<!-- )python\n(.*?)(?:```|-->)", (DOCS / page).read_text(), flags=re.S)
    for block in found:
        error = re.search(r"^# (\w+): ", block, flags=re.M)
        raised = getattr(errors, error[1], None) if error else None
        with pytest.raises(raised) if raised else nullcontext():
            exec(compile(block, page, "exec", dont_inherit=True), names)


def _slug(heading):
    """Return the anchor of a heading, as Python-Markdown makes it."""
    text = re.sub(r"`|\[(.*?)\]\(.*?\)", lambda m: m[1] or "", heading)
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower())


def _anchors(path):
    return {_slug(heading) for heading in re.findall(r"^#+ (.*)$", path.read_text(), flags=re.M)}


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda path: path.relative_to(DOCS).as_posix())
def test_no_link_is_dead(page):
    """Every link of a page leads to a file that is there, and to a heading that it has."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        there = (page.parent / name).resolve() if name else page
        assert there.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in _anchors(there), f"{page.name}: {target}"


def test_every_public_name_is_in_the_reference():
    """The chapters of the API page have every public name, each once."""
    listed = [name for names in make_docs.CHAPTERS.values() for name in names]
    assert len(set(listed)) == len(listed)
    public = {name for name in lj._HOME_OF if name not in ("scenes", "errors")}
    assert public <= set(listed), public - set(listed)


def _described(doc):
    """Return the names that the sections of a docstring describe."""
    sections = re.findall(r"^(?:Args|Attributes):\n(.*?)(?=^\S|\Z)", doc, flags=re.M | re.S)
    names = re.findall(r"^ {4}([\w*, \n]+?):", "\n".join(sections), flags=re.M)
    return {word.strip().lstrip("*") for text in names for word in text.split(",")}


def _lacking(name, value, doc):
    """Return what is not typed, or not described, of something that is called."""
    found = [] if doc else [f"{name}: no docstring"]
    signature = inspect.signature(value)
    for one in signature.parameters.values():
        if one.name in ("self", "cls"):
            continue
        if one.name not in _described(doc):
            found.append(f"{name}: {one.name} is not described")
        if one.annotation is inspect.Parameter.empty:
            found.append(f"{name}: {one.name} has no type")
    if not inspect.isclass(value) and signature.return_annotation is inspect.Signature.empty:
        found.append(f"{name}: what it returns has no type")
    return found


def test_every_argument_of_every_public_name_is_typed_and_described():
    """The reference is complete: each argument has a type and a line of its own, each property a docstring."""
    lacking = []
    for name in (name for names in make_docs.CHAPTERS.values() for name in names):
        value = make_docs.public(name)
        doc = inspect.getdoc(value) or ""
        if inspect.isclass(value) and issubclass(value, BaseException):
            lacking += [] if doc else [f"{name}: no docstring"]
            continue
        lacking += _lacking(name, value, doc)
        for word, member in make_docs.members(value) if inspect.isclass(value) else ():
            full, own = f"{name}.{word}", inspect.getdoc(member) or ""
            if isinstance(member, property):
                lacking += [] if own else [f"{full}: no docstring"]
            else:
                lacking += _lacking(full, member, own)
    assert not lacking, lacking


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return build(tmp_path_factory.mktemp("site"))


def test_the_documentation_builds_without_warnings(site):
    """Every page of docs becomes a page of the site."""
    for page in DOCS.rglob("*.md"):
        name = page.relative_to(DOCS).with_suffix("")
        assert (site / ("" if name.name == "index" else name) / "index.html").is_file(), name


def _words(text):
    return " ".join(re.findall(r"\w+", text.lower()))


def test_a_search_finds_every_message(site):
    """Each message of the package is, word for word, the heading of a section that the site's search finds."""
    sections = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    texts = [html.unescape(re.sub(r"<[^>]*>", " ", one["title"])) for one in sections]
    texts = [_words(text) for text, one in zip(texts, sections, strict=True) if one["location"].startswith("messages/")]
    found = list_messages.messages()
    assert len(found) > 600
    missing = [one for one in found if _words(one.text) not in texts]
    assert not missing, missing[:5]


@pytest.mark.parametrize(
    "call",
    [
        lambda: lj.load("nowhere.urdf"),
        lambda: lj.Simulation(lj.scenes.pendulum(links=2), "ful"),
        lambda: lj.Simulation(lj.scenes.pendulum(links=2), dt=-1.0),
        lambda: lj.Simulation(lj.scenes.pendulum(links=2)).body("head"),
        lambda: setattr(lj.Simulation(lj.scenes.pendulum(links=2)), "q", [1.0]),
        lambda: lj.Builder("b").add_body("a", mass=-1.0),
        lambda: lj.Builder("b").add_body("a", mass=1.0, inertia=(1, 1, 9)),
        lambda: lj.Builder("b").add_joint_hinge("j", "world", "a", axiss=(0, 0, 1)),
        lambda: lj.scenes.get("pendulun"),
        lambda: lj.Adaptive(budget=-1),
        lambda: lj.Impulses(accuracy="best"),
        lambda: lj.Simulation(lj.scenes.get("box_pile").model, "divide_and_conquer"),
        lambda: lj.Crowd(lj.scenes.humanoid(), 0),
        lambda: errors.require("no_such_module", extra="view"),
    ],
    ids=range(14),
)
def test_what_is_raised_is_on_the_page_of_messages(call):
    """A message as it is raised fits a line of the page, the words that are put in apart."""
    with pytest.raises(lj.LimberjackError) as raised:
        call()
    lines = re.findall(r"^#### `+(.*?)`+\n\n\[(\w+)\]", (DOCS / "messages.md").read_text(), flags=re.M)
    lines = [(text, kind) for text, kind in lines if len(re.findall(r"[a-z]+", text)) > 2]
    patterns = [("(.*: )?" + ".*".join(map(re.escape, text.split("..."))), kind) for text, kind in lines]
    fits = [kind for pattern, kind in patterns if re.fullmatch(pattern, str(raised.value))]
    assert type(raised.value).__name__ in fits, str(raised.value)


def test_errors_and_words_of_the_panel_are_explained():
    """The FAQ has a row for every error and warning, and every option that the panel shows by its name."""
    text = (DOCS / "faq.md").read_text()
    for name in errors.__all__:
        value = getattr(errors, name)
        if inspect.isclass(value) and issubclass(value, Exception) and name != "LimberjackError":
            assert f"| `{name}` |" in text, name
    words = text[text.index("## Words of the panel") :]
    for method in METHODS:
        for option in dataclasses.fields(method_of(method)):
            if method != "divide_and_conquer" and option.name not in ("view", "dt"):
                assert option.name.replace("_", " ") in words, f"{method}: {option.name}"


def test_links_lead_somewhere():
    """Every relative link of the pages outside mkdocs' sight leads to a file."""
    for page in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "changes/README.md"):
        for target in re.findall(r"\]\(([^)#]+?)(?:#.*?)?\)", (ROOT / page).read_text()):
            if "://" not in target:
                assert (ROOT / page).parent.joinpath(target).exists(), f"{page}: {target}"


def test_pictures_are_there_and_load_quickly():
    """Every picture of the documentation is there, known to the tool that draws it, and not too large."""
    found = {path.name: path.stat().st_size for path in (DOCS / "images").iterdir() if path.is_file()}
    # drawn by tools/make_headline.py, the accuracy bench and tools/draw_rooms.py
    made = {path.name: most for path, most in make_headline.LARGEST.items()}
    assert set(found) == {*make_images.IMAGES, *made, "integrator_orders.png", "rooms.svg"}
    for name, size in found.items():
        assert 5_000 < size <= (make_images.LARGEST | made).get(name, 250_000), name
    for path in (DOCS / "images" / "gallery").iterdir():
        assert path.name in (DOCS / "gallery.md").read_text() and 5_000 < path.stat().st_size <= 700_000, path.name


def test_an_unknown_picture_is_refused(capsys):
    """A name that is no picture: status 2 and the names there are."""
    assert make_images.main(["sunset.png"]) == 2
    assert "pendulum.gif" in capsys.readouterr().err
