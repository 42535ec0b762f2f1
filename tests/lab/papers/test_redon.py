"""The paper's figures anew: right answers, tables beside the paper's numbers, pictures, and calm ends."""

from __future__ import annotations

import json

import numpy as np
import pytest

import limberjack as lj
from limberjack.cli.commands import main
from limberjack_lab import papers
from limberjack_lab.bench import paper_grid
from limberjack_lab.bench.table import Table, Watch
from limberjack_lab.papers import pictures
from limberjack_lab.papers.redon import fig1, fig4, fig5, fig6, table1

PICTURES = {
    "redon/fig1": [f"redon-fig1-{k}.png" for k in (1, 2, 3)],
    "redon/fig4": ["redon-fig4.png"],
    "redon/fig5": ["redon-fig5.png", "redon-fig5-error.png"],
    "redon/fig6": ["redon-fig6.png"],
    "redon/table1": ["redon-table1.png"],
}


def filled(module):
    """Return the quick table of a figure and what its pictures need."""
    table = Table(module.__name__, module.TITLE, quick=True)
    with Watch("test") as watch:
        found = module.fill(table, True, watch)
    assert not table.wrong and table.parts
    return table, found


def test_the_figures_are_those_of_the_paper():
    """Every figure is described and has its pictures; a paper's name means all of its figures, each once."""
    assert {name for name in papers.FIGURES if name.startswith("redon/")} == set(PICTURES)
    assert papers.chosen(["redon"]) == [name for name in papers.FIGURES if name in PICTURES]
    assert papers.chosen([]) == list(papers.FIGURES)
    assert papers.chosen(["redon/fig6", "redon/fig6"]) == ["redon/fig6"]
    assert papers.chosen(["redon/fig6", "redon"])[0] == "redon/fig6"
    with pytest.raises(lj.UnknownName, match="did you mean redon/fig6"):
        papers.chosen(["redon/fig7"])


def test_figure_4_accelerations():
    """f/m on the second link with all joints; f/(4 m) on the second to the fifth with J1 alone."""
    table, found = filled(fig4)
    np.testing.assert_allclose(found[0].found, (0, 1, 0, 0, 0), atol=1e-12)
    np.testing.assert_allclose(found[1].found, (0, 1, 1, 1, 1), atol=1e-12)
    np.testing.assert_allclose(found[2].found, (0, 0.25, 0.25, 0.25, 0.25), atol=1e-12)
    assert [row["error"] < 1e-12 for row in table.parts[0].rows] == [True] * 3


def test_figure_4_tells_wrong_answers(monkeypatch):
    """An acceleration that is off is reported as wrong."""
    monkeypatch.setattr(fig4, "accelerations", lambda method: np.array([0.0, 0.9, 0.0, 0.0, 0.0]))
    table = Table("fig4", "", quick=True)
    with Watch("test") as watch:
        fig4.fill(table, True, watch)
    assert len(table.wrong) == 3


def test_figure_5_errors_grow_as_joints_are_left_out():
    """Fewer joints stray farther, none as far as the links move; with all of them nothing strays."""
    with Watch("test") as watch:
        found = fig5.study(3, 2.0, 40, (40, 20, 5, 1), watch)
    assert not found.errors[40].any()
    medians = [float(np.median(rows.mean(axis=1))) for rows in found.errors.values()]
    assert medians == sorted(medians) and medians[1] > 0.0
    assert medians[-1] < np.median(found.travel.mean(axis=1))
    assert found.motions[40].shape == (len(found.times), 40) and set(found.motions) == {40, 20, 5, 1}


def test_figure_5_fills_its_table():
    """The table has both runs with all joints and a row per budget, with the paper's times where there are any."""
    table, found = filled(fig5)
    rows = {row["joints"]: row for row in table.parts[0].rows}
    assert set(rows) == {"all 60, by the DCA", "all 60, method full", "50", "20", "5", "1"}
    assert all(row["ms"] > 0 for row in rows.values())
    assert rows["20"]["paper_gain"] == pytest.approx(20.0) and rows["5"]["paper_gain"] is None
    assert rows["1"]["median"] > rows["20"]["median"] > 0.0


def test_figure_6_chosen_joints_rest_far_nearer():
    """With five joints chosen as it moves the pendulum rests at least 8 times nearer to where it rests with all."""
    table, found = filled(fig6)
    (bar,) = table.bars
    assert bar.limit == 8.0 and bar.passed
    whole, fixed, chosen = table.parts[0].rows
    assert whole["mean"] == 0.0 and fixed["ever"] == 5 and chosen["ever"] >= 5
    assert all(row["speed"] < 1e-5 for row in (whole, fixed, chosen))
    assert len(found[2].last) == 5


def test_the_first_joints_of_the_tree():
    """Level by level from the root: the joint to the world, then the one in the middle, then those of the halves."""
    model = lj.scenes.pendulum(links=8)
    names = fig6.breadth_first(model, 5)
    assert names[:2] == ["joint0", "joint4"] and set(names[2:4]) == {"joint2", "joint6"} and len(names) == 5
    assert sorted(fig6.breadth_first(model, 8)) == sorted(model.joint_names)


def test_a_locked_model_bends_at_the_joints_named_only():
    """All other joints are fixed as at the start: it moves as the whole model does with its joints locked."""
    model = lj.scenes.spring_pendulum(links=8, tied=5)
    few = fig6.locked(model, ["joint0", "joint4"])
    assert few.nv == 2 and few.body_names == model.body_names and len(few.springs) == 1
    whole = lj.mass_matrix(model, model.q0)
    np.testing.assert_allclose(lj.mass_matrix(few, few.q0), whole[np.ix_([0, 4], [0, 4])], rtol=1e-12)


def test_table_1_stands_beside_the_papers():
    """Each cell has our time and both gains over the DCA; the paper's are from its numbers."""
    assert paper_grid.paper_ratio(1, 1) == pytest.approx(5.89 / 0.02)
    assert {len(row) for row in paper_grid.PAPER_MS.values()} == {len(paper_grid.JOINTS) + 1}
    table, grid = filled(table1)
    times, gains = table.parts
    assert [row["forces"] for row in times.rows] == [1, 20] and grid.joints == (1, 50)
    for row, gain in zip(times.rows, gains.rows, strict=True):
        assert gain["n50"] == pytest.approx(row["dca"] / row["n50"]) == grid.gain(row["forces"], 50)
        assert gain["p50"] == pytest.approx(paper_grid.paper_ratio(row["forces"], 50))
        assert grid.gain(row["forces"], 1, "full") == pytest.approx(row["full"] / row["n1"])


@pytest.mark.parametrize("forces", [0, 1, 7])
def test_the_forces_of_table_1_are_on_so_many_links(forces):
    """The pendulum has one lasting force per link counted, from the tip upwards, and its budget of joints."""
    sim = paper_grid.pushed(30, lj.Adaptive(budget=4), forces)
    assert len(sim.forces.wrenches.link) == forces and len(sim.active_joints) == 4
    assert forces == 0 or 29 in sim.forces.wrenches.link


def test_figure_1_measures_a_small_crowd():
    """Far figures have fewer joints; the adaptive run simulates what the budgets allow."""
    table, found = filled(fig1)
    times, rings = table.parts
    rows = {row["who"]: row for row in times.rows}
    assert set(rows) == {"adaptive", "full", "DCA"} and rows["full"]["joints"] == 6 * 88
    assert found.budgets.shape == (3, 6) and (np.diff(found.budgets, axis=0) <= 0).all()
    # budgets that the last call of the drive has lowered wait for the next update
    assert found.budgets[-1].sum() <= rows["adaptive"]["joints"] <= found.budgets[0].sum()
    budgets = [row["budget"] for row in rings.rows]
    assert budgets == sorted(budgets, reverse=True)
    assert all(row["error"] < row["travel"] for row in rings.rows)
    assert found.q.shape == (3, found.scene.model.nq) and len(found.times) == 3


def test_figures_are_painted_by_their_budgets():
    """The figure with most joints simulated is brightest, all shapes of one figure alike, the ground as it was."""
    model = lj.scenes.get("adaptive_crowd", figures=2).model
    painted = fig1._painted(model, np.array([40, 10]), 40)
    colors = {}
    for shape in painted.shapes:
        if shape.body != "world":
            colors.setdefault(painted.body_index(shape.body) // (painted.body_count // 2), set()).add(shape.color)
    assert len(colors[0]) == len(colors[1]) == 1 and sum(min(colors[0])) > sum(min(colors[1]))
    assert painted.body_names == model.body_names


def test_the_command_leaves_tables_numbers_and_pictures(tmp_path, capsys):
    """`papers --quick` does everything, prints every table, and says where the numbers and pictures are."""
    from PIL import Image

    folder = tmp_path / "made" / "here"
    assert main(["papers", "redon", "--quick", "--out", str(folder)]) == 0
    out = capsys.readouterr().out
    assert str(folder) in out and "not for quoting" in out
    names = {"numbers.json", "report.html", *(name for row in PICTURES.values() for name in row)}
    assert {path.name for path in folder.iterdir()} == names
    stored = json.loads((folder / "numbers.json").read_text())["tables"]
    assert [table["name"] for table in stored] == papers.chosen(["redon"])
    for name in names - {"numbers.json", "report.html"}:
        assert name in out
        with Image.open(folder / name) as picture:
            assert min(picture.size) > 300 and np.asarray(picture.convert("L")).std() > 2.0


def test_without_matplotlib_the_tables_are_there(tmp_path, monkeypatch, capsys):
    """Without the plot extra the numbers are written all the same, and a line says what to install."""

    def absent(module, extra):
        raise lj.MissingExtra(f'"{module}" is needed for this: pip install "limberjack[{extra}]"')

    monkeypatch.setattr(pictures.errors, "require", absent)
    assert papers.run(["redon/fig4"], quick=True, folder=tmp_path) == 0
    assert "limberjack[plot]" in capsys.readouterr().out.splitlines()[0]  # before anything is measured
    assert {path.name for path in tmp_path.iterdir()} == {"numbers.json", "report.html"}


def test_ctrl_c_keeps_what_was_measured(tmp_path, monkeypatch, capsys):
    """An interrupted figure is printed as far as it got, earlier ones keep their pictures, and the status is 130."""

    def interrupted(table, quick, watch):
        table.note("the first row")
        raise KeyboardInterrupt

    monkeypatch.setattr(fig6, "fill", interrupted)
    assert papers.run(["redon/fig4", "redon/fig6", "redon/fig5"], quick=True, folder=tmp_path) == 130
    out = capsys.readouterr().out
    assert "the first row" in out and "Ctrl-C" in out and str(tmp_path) in out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["numbers.json", "redon-fig4.png", "report.html"]
    assert [table["interrupted"] for table in json.loads((tmp_path / "numbers.json").read_text())["tables"]] == [0, 1]


def test_a_wrong_answer_gives_a_status(tmp_path, monkeypatch):
    """A figure that came out wrong ends with 1."""
    monkeypatch.setattr(fig4, "accelerations", lambda method: np.ones(5))
    assert papers.run(["redon/fig4"], quick=True, folder=tmp_path) == 1


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["papers", "redno"], ["redno", "redon/fig4"]),
        (["papers", "redon/fig4", "--out", "a_file"], ["a_file"]),
    ],
)
def test_bad_input_ends_with_status_2(argv, named, tmp_path, monkeypatch, capsys):
    """An unknown figure or a folder that cannot be: one message that names it, before anything is measured."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a_file").write_text("here first")
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert not out and err.count("\n") == 1 and all(word in err for word in named)
