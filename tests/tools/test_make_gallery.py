"""The gallery in short form: pictures are made as `make gallery` makes them, and the stored ones are of today."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import limberjack as lj
import make_gallery

SHORT = ("newtons_cradle", "four_bar", "paper_pendulum")


def pixels(path: Path) -> np.ndarray:
    return np.array(Image.open(path).convert("RGB")).astype(int)


def test_every_scene_has_its_small_picture():
    """The folder has one picture per scene, and none of a scene that is gone."""
    own = [name for name in lj.scenes.names() if hasattr(lj.scenes, name)]  # without those of examples in the docs
    assert sorted(path.stem for path in make_gallery.SMALL.iterdir()) == sorted(own)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in SHORT else pytest.mark.slow) for n in lj.scenes.names()]
)
def test_the_small_picture_of_a_scene_is_of_today(name, tmp_path, monkeypatch):
    """Painted anew, a picture has the size of the stored one and nearly its pixels: colours and poses are the same."""
    stored = pixels(make_gallery.SMALL / f"{name}.webp")
    monkeypatch.setattr(make_gallery, "SMALL", tmp_path)
    assert make_gallery.main(["scenes", name]) == 0
    made = pixels(tmp_path / f"{name}.webp")
    assert made.shape == stored.shape == (200, 320, 3)
    assert np.abs(made - stored).mean() < 2.0


def test_a_large_picture_is_painted(tmp_path, monkeypatch):
    """The pendulum of the gallery is painted anew, with something on it, within the size allowed."""
    monkeypatch.setattr(make_gallery, "FOLDER", tmp_path)
    assert make_gallery.main(["pendulum.png"]) == 0
    picture = pixels(tmp_path / "pendulum.png")
    assert picture.std() > 5.0 and (picture.max(axis=2) - picture.min(axis=2) > 55).sum() > 500


def test_an_unknown_picture_is_refused(tmp_path, monkeypatch, capsys):
    """A name that is no picture: status 2 and the names there are."""
    monkeypatch.setattr(make_gallery, "FOLDER", tmp_path)
    assert make_gallery.main(["sunset.png"]) == 2
    assert "marionette.png" in capsys.readouterr().err
