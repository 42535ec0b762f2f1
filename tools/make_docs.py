"""Write the parts of the documentation that follow from the code: API, messages, scenes, joint kinds, rooms and so on.

Usage: python tools/make_docs.py [--check]

Writes docs/api.md, docs/capabilities.md, docs/scenes.md and docs/images/rooms.svg whole, and between their markers the
lists of docs/messages.md, the table in docs/joints.md, the options in docs/viewer.md and the scenes in docs/gallery.md.
With --check nothing is written: the status is 1 when a page differs from what the code gives now.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import draw_rooms
import limberjack as lj
import list_messages
from limberjack.cli.terminal import shown
from limberjack.methods import FEATURES, METHODS, VERBS, Method, method_of, require_support, require_verb
from limberjack.model.joints import KINDS
from limberjack.viewer.gallery import grouped
from limberjack.viewer.words import options_page

DOCS = Path(__file__).parent.parent / "docs"
NOTE = "<!-- written by tools/make_docs.py; edit that, or what it reads -->\n"

# q, qd and S of each kind. S: relative twist (angular; linear of the child's origin) in the parent's joint axes, one
# column per dof; x, y, z are those axes, R the child's rotation against them, y' = R y, p the child's origin.
MOTIONS = {
    "hinge": ("angle", "rate", "(z; 0)"),
    "slide": ("length", "rate", "(0; z)"),
    "ball": ("quaternion", "angular velocity, child's axes", "(R; 0)"),
    "free": ("position, quaternion", "velocity in world axes, angular velocity in body axes", "(0; 1), (R; 0)"),
    "fixed": ("-", "-", "-"),
    "universal": ("angle about x, angle about y'", "rates", "(x; 0), (y'; 0)"),
    "cylindrical": ("length, angle", "rates", "(0; z), (z; 0)"),
    "planar": ("x, y, angle", "rates", "(0; x), (0; y), (z; 0)"),
    "screw": ("angle", "rate", "(z; pitch z)"),
    "point_on_line": ("length, quaternion", "rate, angular velocity in the child's axes", "(0; z), (R; 0)"),
    "point_on_plane": ("x, y, quaternion", "rates, angular velocity in the child's axes", "(0; x), (0; y), (R; 0)"),
    "compound": ("one number per axis", "rates", "hinge axis a at c: (a; a x (p - c)), slide axis a: (0; a)"),
    "distance": ("-", "-", "never in the tree"),
    "gear": ("-", "-", "never in the tree"),
    "no_slip": ("-", "-", "never in the tree"),
}
_ROWS = ("rx", "ry", "rz", "tx", "ty", "tz")
_COUPLED = {
    "x_a.y_b": "x . y' = 0",
    "t_z-pitch*angle": "tz = pitch * angle",
    "complement of S": "all directions across S",
    "length": "distance = length (rope: <=)",
    "ratio": "q_a = ratio * q_b + offset",
    "v.direction": "velocity of the point along `axis` = 0",
}


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def kinds() -> str:
    """Return the table of joint kinds."""
    rows = []
    for name, kind in KINDS.items():
        q, qd, subspace = MOTIONS[name]
        locked = " ".join(row for row, is_locked in zip(_ROWS, kind.mask, strict=True) if is_locked)
        locked = ", ".join(filter(None, (locked, _COUPLED.get(kind.coupled, kind.coupled)))) or "-"
        counts = f" ({kind.nq})", f" ({kind.nv})"
        if not kind.motions:
            counts = ("", "")
        rows.append([f"`{name}`", q + counts[0], qd + counts[1], subspace, locked])
    return _table(["kind", "q (nq)", "qd (nv)", "S", "locked"], rows)


def capabilities() -> str:
    """Return the page of methods, what they support and what they can do."""
    able = lj.capabilities()
    methods = [f"`{method}`" for method in able]
    features, verbs = (
        [[f"`{word}`", what, *("yes" if row[word] else "-" for row in able.values())] for word, what in table.items()]
        for table in (FEATURES, VERBS)
    )
    arm = lj.Builder("arm")
    arm.add_body_scalable("muscle", mass=1, inertia=(1, 1, 1))
    arm.add_joint_hinge("shoulder", "world", "muscle")
    model, full = arm.build(), lj.Full()
    (example,) = [word for word in model.features() if word not in full.supports]
    return f"""{NOTE}
# Capabilities

`lj.capabilities()` returns both tables, `{{method: {{word: whether it can}}}}`.

## Features of a model

What a method must support before it may run a model that has it. `model.features()` returns what a model has,
each with one example by name, and `limberjack info FILE` prints both.

{_table(["feature", "what it is", *methods], features)}
A model with anything its method does not support is refused by name, before the first step:

<!-- python
b = lj.Builder("arm")
b.add_body_scalable("muscle", mass=1, inertia=(1, 1, 1))
b.add_joint_hinge("shoulder", "world", "muscle")
model = b.build()
-->

```python
lj.Simulation(model, "full")
{_refusal(lambda: require_support(model, full, ()))}
```

`lj.Simulation(model, method, ignore=("{example}",))`, or `limberjack run FILE --ignore {example}`, runs it all the
same, **without** the ignored features: they exert no force and set no limit. Only words of the table can be ignored;
another raises `UnknownName`. What was ignored is in `sim.ignored` and is saved with the simulation.

Not in the table, since every method supports it: every joint kind that can carry the tree, joint damping and stiffness,
soft limits (`limit_stiffness`, [Joints](joints.md#limits-hard-and-soft)), wrenches, gravity.

## Verbs of a simulation

What `sim.grab`, `sim.move`, `sim.drive`, `sim.attach` (with `detach`), `sim.add_rule`, `sim.apply_impulse` and
`sim.tune` do, and in which methods:

{_table(["verb", "what it does", *methods], verbs)}
The others refuse:

<!-- python
b = lj.Builder("arm")
b.add_body("hand", mass=1, inertia=(1, 1, 1))
model = b.build()
-->

```python
lj.Simulation(model, "divide_and_conquer").move("hand", (0, 0, 1))
{_refusal(lambda: require_verb(method_of("divide_and_conquer"), "move"))}
```

An option of a method may narrow this further: its error says so. [A method of your own](methods/own.md) declares both
sets.
"""


def _refusal(refused: Callable[[], None]) -> str:
    """Return the error of a call as comments."""
    try:
        refused()
    except lj.UnsupportedByMethod as error:
        text = f"{type(error).__name__}: {error}"
        return textwrap.fill(text, 118, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
    raise AssertionError("nothing was refused")


def _options(make: Callable[..., Any]) -> list[list[str]]:
    """Return name, default and meaning of each option of a scene's function, from its signature and docstring."""
    text = (inspect.getdoc(make) or "").partition("Args:")[2]
    found = dict(re.findall(r"^ {4}(\w+): (.*?)(?=^ {4}\w|\Z)", text, flags=re.M | re.S))
    return [
        [f"`{name}`", f"`{shown(parameter.default)}`", " ".join(found[name].split())]
        for name, parameter in inspect.signature(make).parameters.items()
    ]


def scenes() -> str:
    """Return the page of scenes."""
    parts = [
        f"""{NOTE}
# Scenes

Ready-made models, each written once: tests, benchmarks, the demonstration and the command line use the same ones.

```python
model = lj.scenes.pendulum(links=50)              # the model alone
scene = lj.scenes.get("pendulum", links=50)       # with method, dt, seconds, drive and camera
sim = lj.Simulation(scene.model, scene.method, scene.dt)
```

`limberjack run pendulum --set links=50` runs the whole scene; `limberjack scenes` lists them. Options go by name.
`lj.scenes.REFERENCES` has the published values of the IFToMM benchmark mechanisms,
`lj.scenes.measured(sim, reference)` those of a simulation.
"""
    ]
    for info in lj.scenes.describe():
        make = getattr(lj.scenes, info.name)
        about = (inspect.getdoc(make) or "").partition("Args:")[0].strip().removeprefix("Return ")
        about = about[:1].upper() + about[1:]
        table = _table(["option", "default", "meaning"], _options(make))
        parts.append(f"## `{info.name}`\n\n{info.description}\n\n{about}\n\n{table}")
    return "\n".join(parts)


# The chapters of the reference: what each name belongs to. A test compares them with the public names.
CHAPTERS = {
    "Models": ("load", "save", "Builder", "Model", "Axis", "Motor", "register_joint", "register_constraint",
               "register_body_kind", "Proximity"),
    "Simulations": ("Simulation", "resume", "replay", "Trajectory", "compare", "Comparison", "view", "Crowd",
                    "BodyHandle", "JointHandle", "PointHandle", "Pace", "Tracker"),
    "Methods": ("Full", "Adaptive", "View", "Multipliers", "Displacements", "Impulses", "DivideAndConquer",
                "capabilities", "Method", "Stepper"),
    "Dynamics": ("forward_dynamics", "inverse_dynamics", "mass_matrix", "forward_kinematics", "jacobian", "bias_forces",
                 "center_of_mass", "centroidal_momentum", "operational_inertia", "forward_dynamics_derivatives",
                 "inverse_dynamics_derivatives", "integrate", "difference"),
    "Poses and queries": ("assemble", "Assembly", "pose", "ray_cast", "distance", "CollisionQuery"),
    "Scenes": ("scenes.names", "scenes.get", "scenes.describe", "scenes.Scene"),
    "Errors": ("LimberjackError", "ModelError", "FileError", "UnknownName", "StateError", "UnsupportedByMethod",
               "LoopNotClosed", "Diverged", "ClusterLost", "MissingExtra", "UnsupportedVersion", "ModelWarning",
               "EnergyWarning", "BudgetWarning"),
}  # fmt: skip
# Where names are that the top level does not have.
ELSEWHERE = {
    "Comparison": "simulation.comparison", "BodyHandle": "simulation.handles", "JointHandle": "simulation.handles",
    "PointHandle": "simulation.handles", "Method": "methods", "Stepper": "methods",
}  # fmt: skip


def public(name: str) -> Any:
    """Return the object of a name of the reference."""
    value = importlib.import_module(f"limberjack.{ELSEWHERE[name]}") if name in ELSEWHERE else lj
    for part in name.split("."):
        value = getattr(value, part)
    return value


def members(value: type) -> list[tuple[str, Any]]:
    """Return the public functions and properties of a class and of what it derives from in the package, in order.

    What an options class has of `Method` is described there.
    """
    out: dict[str, Any] = {}
    inherited = vars(Method) if issubclass(value, Method) and value is not Method else {}
    for base in value.__mro__:
        if base.__module__.startswith("limberjack"):
            for word, member in vars(base).items():
                if word in inherited:
                    continue
                plain = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
                if not word.startswith("_") and (inspect.isfunction(plain) or isinstance(plain, property)):
                    out.setdefault(word, plain)
    return list(out.items())


def _signature(name: str, value: Any) -> str:
    """Return how something is called, one argument a line where they are many."""
    if isinstance(value, property):
        return name
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    shown = [
        str(one.replace(annotation=inspect.Parameter.empty))
        for one in found.parameters.values()
        if one.name not in ("self", "cls")
    ]
    kinds = [one.kind for one in found.parameters.values() if one.name not in ("self", "cls")]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        shown.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    text = f"{name}({', '.join(shown)})"
    return text if len(text) < 100 else f"{name}(\n    " + ",\n    ".join(shown) + ",\n)"


def _described(value: Any) -> str:
    """Return a docstring as Markdown: its sections become lists."""
    lines, out = (inspect.getdoc(value) or "").splitlines(), []
    section = False
    for line in lines:
        if line in ("Args:", "Attributes:", "Returns:", "Raises:"):
            out += [f"*{line[:-1]}*", ""]
            section = True
        elif section and re.match(r"    \S", line):
            name, colon, rest = line.strip().partition(":")
            out.append(f"- `{name}`:{rest}" if colon and re.fullmatch(r"[\w, *]+", name) else f"- {line.strip()}")
        elif section and line.strip():
            out.append(f"  {line.strip()}")
        else:
            section = section and not line.strip()
            out.append(line)
    return "\n".join(out).strip()


def api() -> str:
    """Return the reference of every public name, from docstrings."""
    parts = [
        f"""{NOTE}
# API

Every public name with its arguments and what they mean, from the docstrings. `import limberjack as lj`; a name is
`lj.NAME` unless its heading says otherwise. Units are SI, world axes unless stated ([Conventions](conventions.md)).
"""
    ]
    for title, names in CHAPTERS.items():
        parts.append(f"## {title}\n")
        for name in names:
            value, where = public(name), ELSEWHERE.get(name, "")
            shown = f"`{name}`" if not where else f"`limberjack.{where}.{name}`"
            parts.append(f"### {shown}\n\n```text\n{_signature(name, value)}\n```\n\n{_described(value)}\n")
            for word, member in members(value) if inspect.isclass(value) and not issubclass(value, Exception) else ():
                what = "" if isinstance(member, property) else "\n\n```text\n" + _signature(word, member) + "\n```"
                parts.append(f"#### `{name}.{word}`{what}\n\n{_described(member)}\n")
    return "\n".join(parts)


def panel_options() -> str:
    """Return the options of all methods, in the words of the viewer's panel."""
    return options_page([method_of(name) for name in METHODS])


def small_pictures() -> str:
    """Return all scenes with their pictures, as the viewer's gallery lists them."""
    parts = []
    for title, rows in grouped().items():
        parts.append(f"### {title}\n")
        for info in rows:
            link = f"[`{info.name}`](scenes.md#{info.name})"
            parts.append(f"![{info.name}](images/scenes/{info.name}.webp)\n\n{link}: {info.description}\n")
    return "\n".join(parts)


def _between(name: str, marker: str, text: str) -> dict[Path, str]:
    """Return a page with `text` between its markers."""
    path, start, end = DOCS / name, f"<!-- {marker}:start -->\n", f"<!-- {marker}:end -->\n"
    before, _, rest = path.read_text(encoding="utf-8").partition(start)
    return {path: f"{before}{start}{text}{end}{rest.partition(end)[2]}"}


def pages() -> dict[Path, str]:
    """Return what each page should hold."""
    return {
        DOCS / "api.md": api(),
        DOCS / "capabilities.md": capabilities(),
        DOCS / "messages.md": list_messages.filled((DOCS / "messages.md").read_text(encoding="utf-8")),
        DOCS / "scenes.md": scenes(),
        DOCS / "images" / "rooms.svg": draw_rooms.picture(),
        **_between("joints.md", "kinds", kinds()),
        **_between("viewer.md", "options", panel_options()),
        **_between("gallery.md", "scenes", small_pictures()),
    }


def main(words: list[str]) -> int:
    """Write the pages, or with --check say which are not up to date."""
    stale = []
    for path, text in pages().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
            if "--check" not in words:
                path.write_text(text, encoding="utf-8")
    if stale:
        print(f"{'out of date' if '--check' in words else 'written'}: {', '.join(stale)}")
    return 1 if stale and "--check" in words else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
