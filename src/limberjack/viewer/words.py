"""The words of the panel: a label, a unit and one sentence for every option of every method.

`docs/viewer.md` lists them; options that are missing here are shown among the advanced ones, in the words of their
docstring.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from typing import Any, NamedTuple

__all__ = ["METHOD_WORDS", "Option", "method_options", "options_page"]

METHOD_WORDS = {
    "full": "All joints, in their own coordinates: exact joints, no drift.",
    "adaptive": "A budget of joints is simulated, where it matters most; the others move as rigid clusters.",
    "divide_and_conquer": "All joints, by halving the tree: for many processors.",
    "multipliers": "Bodies held together by constraint forces: any loop, any joint.",
    "displacements": "Bodies moved and joints closed by small displacements: stable under any pull.",
    "impulses": "Bodies that collide, stack and rub: for piles and machines in contact.",
}


class Option(NamedTuple):
    """How an option is shown.

    Attributes:
        label: in plain words.
        sentence: what it does.
        unit: of a number, or "".
        basic: whether it is among the few that everybody may want to change.
        choices: of a word.
        least: smallest number.
    """

    label: str
    sentence: str
    unit: str = ""
    basic: bool = False
    choices: tuple[str, ...] = ()
    least: float | None = 0.0


_INTEGRATOR = "How velocities become positions: the order of accuracy, and whether energy is kept."
_TREE_STEPS = ("variational", "projected", "semi_implicit", "euler", "rk4", "implicit")
_SUBSTEPS = Option("Substeps", "Parts that each time step is divided into: smaller is more exact and slower.", least=1)

_WORDS: dict[str, dict[str, Option]] = {
    "full": {
        "integrator": Option("Integrator", _INTEGRATOR, basic=True, choices=(*_TREE_STEPS, "momentum")),
        "substeps": _SUBSTEPS._replace(basic=True),
        "threads": Option("Threads", "Processors that share the work.", least=1),
    },
    "adaptive": {
        "tolerance": Option(
            "Tolerance",
            "Joints stop being added once the squared acceleration left out is below this; 0 = budget only.",
            "m²/s⁴",
            basic=True,
        ),
        "update_every": Option(
            "Choose joints every", "Steps between two choices of the joints to simulate.", "steps", least=1
        ),
        "update_budget": Option(
            "Joints looked at", "Joints that each choice looks at for their acceleration.", "joints"
        ),
        "velocity_tolerance": Option(
            "Velocity tolerance", "The same bound for squared velocities that are stopped.", "m²/s²"
        ),
        "metric": Option(
            "Measure of motion",
            "mass: motion weighed by mass; joints: by joint, as in the paper.",
            choices=("mass", "joints"),
        ),
        "horizon": Option("Look ahead", "How far ahead the motion that rigid joints miss is judged.", "s"),
        "error_bounded": Option("Bound the error", "No moving joint is stopped, so that the tolerance holds exactly."),
        "dt": Option(
            "Time step by error", "auto: each step is divided as the tolerance asks.", choices=("fixed", "auto")
        ),
        "tree": Option(
            "Assembly tree",
            "Which joints are merged first: balanced, or those where forces act.",
            choices=("balanced", "masses", "forces"),
        ),
        "integrator": Option("Integrator", _INTEGRATOR, choices=_TREE_STEPS),
        "threads": Option("Threads", "Processors that share the figures of a crowd.", least=1),
        "sleeping": Option("Sleep at rest", "Figures that lie still are not stepped until something comes near."),
    },
    "divide_and_conquer": {
        "integrator": Option("Integrator", _INTEGRATOR, basic=True, choices=("semi_implicit", "euler")),
        "levels": Option("Level by level", "Merges are done one level of the tree at a time, as processors would."),
    },
    "multipliers": {
        "integrator": Option(
            "Integrator", _INTEGRATOR, basic=True, choices=("semi_implicit", "euler", "rk4", "implicit", "rattle")
        ),
        "substeps": _SUBSTEPS._replace(basic=True),
        "stabilization": Option(
            "Joint drift",
            "How joints that have drifted apart are closed again.",
            choices=("project", "baumgarte", "none"),
        ),
        "solver": Option(
            "Solver",
            "How the system of constraint forces is solved; auto takes the fastest that fits.",
            choices=("auto", "tree", "sparse", "dense", "krylov"),
        ),
        "order": Option(
            "Order",
            "Whether constraints hold for accelerations (second) or velocities (first).",
            choices=("second", "first"),
        ),
        "coordinates": Option(
            "Coordinates", "maximal: poses of bodies; reduced: coordinates of joints.", choices=("maximal", "reduced")
        ),
        "rate": Option("Correction rate", "How fast Baumgarte stabilization closes joints.", "1/s"),
        "tolerance": Option("Tolerance", "Gap at which joints count as closed.", "m, rad"),
    },
    "displacements": {
        "mode": Option(
            "Mode",
            "conserving keeps energy, damped loses some, kinematic has no inertia.",
            basic=True,
            choices=("conserving", "damped", "kinematic"),
        ),
        "iterations": Option("Iterations", "Corrections per step: more close the joints further.", basic=True, least=1),
        "solver_iterations": Option("Solver iterations", "Iterations of each correction's linear solve.", least=1),
        "tolerance": Option("Tolerance", "Gap at which joints count as closed.", "m, rad"),
        "solver_tolerance": Option("Solver tolerance", "Relative residual at which a linear solve ends."),
        "clamp": Option("Largest correction", "Share of a body's size that one correction may move it."),
        "max_ms": Option("Time limit", "Milliseconds a step may take; iterations stop then.", "ms"),
    },
    "impulses": {
        "accuracy": Option(
            "Accuracy",
            "How far bodies of a pile may overlap, from game to tight.",
            basic=True,
            choices=("game", "default", "tight"),
        ),
        "contacts": Option(
            "Contacts",
            "soft yields a little, hard does not at all; auto chooses per pile.",
            basic=True,
            choices=("auto", "soft", "firm", "hard"),
        ),
        "sleeping": Option("Sleep at rest", "Piles at rest are not stepped until something comes near.", basic=True),
        "sweeps": Option("Sweeps", "Most passes over all contacts and joints per substep.", least=1),
        "joints": Option(
            "Joints",
            "global solves all at once, damped costs less but loses energy, sweeps is the paper's.",
            choices=("global", "damped", "sweeps"),
        ),
        "shock": Option("Shock propagation", "Most sweeps per layer of a stack, from the ground up; 0 = none."),
        "soft_sweeps": Option("Soft sweeps", "Passes over soft contacts per substep."),
        "frequency": Option(
            "Contact frequency", "Stiffness of soft contacts, as the frequency of the spring they are.", "Hz"
        ),
        "gradual": Option("Gradual joints", "Swept joints lose a growing part of their error, as in the paper."),
        "golden": Option(
            "Line search",
            "Golden section search along the step of a swept joint.",
            choices=("fallback", "always", "never"),
        ),
        "joint_sweep": Option(
            "Final joint sweep", "A last pass over joints alone after the contacts.", choices=("none", "kept", "saved")
        ),
        "levels": Option("Level by level", "Contacts are solved from the ground up, layer by layer, as in the paper."),
        "substeps": _SUBSTEPS,
        "events": Option(
            "Exact collisions", "Moves from collision to collision: for balls and boxes that do not turn."
        ),
        "tolerance": Option("Tolerance", "Gap at which joints count as closed.", "m, rad"),
        "threads": Option("Threads", "Processors that share large piles.", least=1),
        "resistance": Option(
            "Resistance", "Rolling resistance, and friction of free joints of figures that touch something."
        ),
    },
}
# Shown elsewhere, or no numbers, words or switches.
_HIDDEN = {"budget", "view", "milliseconds", "weights", "velocity_weights", "force_bodies"}


def method_options(method: Any) -> dict[str, Option]:
    """Return how each option of a method is shown, the basic ones first; those of methods of users included."""
    known = _WORDS.get(method.name, {})
    found = {item.name: known.get(item.name) or _described(method, item.name) for item in fields(method)}
    shown = {name: word for name, word in found.items() if name not in _HIDDEN}
    return dict(sorted(shown.items(), key=lambda item: not item[1].basic))


def _described(method: Any, name: str) -> Option:
    """Return an option in the words of its docstring."""
    text = (inspect.getdoc(type(method)) or "").partition("Args:")[2]
    found = re.search(rf"^ {{4}}{name}: (.*?)(?=^ {{4}}\w|\Z)", text, flags=re.M | re.S)
    sentence = " ".join(found[1].split()).split(". ")[0].rstrip(".") + "." if found else ""
    return Option(name.replace("_", " ").capitalize(), sentence, least=None)


def options_page(methods: list[Any]) -> str:
    """Return all options with their sentences for the documentation: a heading each, which its search finds."""
    parts = []
    for method in methods:
        parts.append(f"\n### Method {method.name}\n")
        for name, word in method_options(method).items():
            unit = f" [{word.unit}]" if word.unit else ""
            choices = f" One of {', '.join(f'`{one}`' for one in word.choices)}." if word.choices else ""
            group = "basic" if word.basic else "advanced"
            parts.append(f"\n#### {word.label}{unit}\n\n`{name}`, {group}. {word.sentence}{choices}\n")
    return "".join(parts) + "\n"
