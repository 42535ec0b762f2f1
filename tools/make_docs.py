"""Write the parts of the documentation that follow from the code: capabilities, scenes, joint kinds, rooms.

Usage: python tools/make_docs.py [--check]

Writes docs/capabilities.md, docs/scenes.md and docs/images/rooms.svg whole and the table in docs/joints.md between its
markers. With --check nothing is written: the status is 1 when a page differs from what the code gives now.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import draw_rooms
import limberjack as lj
from limberjack.cli.terminal import shown
from limberjack.methods import FEATURES, VERBS, require_support, require_verb
from limberjack.model.joints import KINDS

DOCS = Path(__file__).parent.parent / "docs"
NOTE = "<!-- written by tools/make_docs.py; edit that, or what it reads -->\n"
START, END = "<!-- kinds:start -->\n", "<!-- kinds:end -->\n"

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
    """Return the page of methods, what they honour and what they can do."""
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

What a method must be able to honour before it may run a model that has it. `model.features()` returns what a model has,
each with one example by name, and `limberjack info FILE` prints both.

{_table(["feature", "what it is", *methods], features)}
A model with anything its method cannot honour is refused by name, before the first step:

```python
lj.Simulation(model, "full")
{_refusal(lambda: require_support(model, full, ()))}
```

`lj.Simulation(model, method, ignore=("{example}",))`, or `limberjack run FILE --ignore {example}`, runs it all the
same, **without** the ignored features: they exert no force and set no limit. Only words of the table can be ignored;
another raises `UnknownName`. What was ignored is in `sim.ignored` and is saved with the simulation.

Not in the table, since every method honours it: every joint kind that can carry the tree, joint damping and stiffness,
soft limits (`limit_stiffness`, [Joints](joints.md#limits-hard-and-soft)), wrenches, gravity.

## Verbs of a simulation

What `sim.grab`, `sim.move`, `sim.drive`, `sim.attach` (with `detach` and rules), `sim.apply_impulse` and `sim.tune` do,
and in which methods:

{_table(["verb", "what it does", *methods], verbs)}
The others refuse:

```python
lj.Simulation(model, "full").move("hand", (0, 0, 1))
{_refusal(lambda: require_verb(full, "move"))}
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


def pages() -> dict[Path, str]:
    """Return what each page should hold."""
    joints = DOCS / "joints.md"
    before, _, rest = joints.read_text(encoding="utf-8").partition(START)
    after = rest.partition(END)[2]
    return {
        DOCS / "capabilities.md": capabilities(),
        DOCS / "scenes.md": scenes(),
        DOCS / "images" / "rooms.svg": draw_rooms.picture(),
        joints: f"{before}{START}{kinds()}{END}{after}",
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
