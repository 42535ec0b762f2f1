"""Commands that need no model, or many: warmup, check, bench, papers, demo, doctor; argument types of all.

Modules that load kernels are imported on first use, as in `commands.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from limberjack.cli import terminal
from limberjack.errors import StateError, UnknownName

__all__ = ["Bench", "Check", "Demo", "Doctor", "File", "Flag", "Papers", "Warmup"]

Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help_behavior_hint="")]
File = Annotated[Path | None, terminal.maybe(Path), terminal.arg("FILE")]


@dataclass(frozen=True, kw_only=True)
class Warmup:
    """Compile all kernels ahead of time, or those of some methods.

    Attributes:
        methods: names of methods; everything when there are none.
        profile: list the functions that took longest to compile.
    """

    methods: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[METHODS]")] = ()
    profile: Flag = False

    def __call__(self) -> int:
        """Run every warm-up job and report the time."""
        from limberjack.cli.warmup import warm_up

        terminal.say(*warm_up(terminal.console(), 40 if self.profile else 0, self.methods))
        return 0


@dataclass(frozen=True, kw_only=True)
class Check:
    """Load and run model files, and compare them with MuJoCo.

    Attributes:
        files: model files: .xml, .mjcf, .urdf, .json.
        seconds: how long each is run.
        method: the simulation method.
        json: where the numbers go as JSON.
    """

    files: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILES")]
    seconds: float = 2.0
    method: str = "full"
    json: File = None

    def __call__(self) -> int:
        """Check the files; the status is 1 where one does not pass."""
        from limberjack.cli.check_models import check
        from limberjack.methods import method_of

        if not self.files:
            raise StateError("check needs FILES")
        method_of(self.method)
        if not 0.0 < self.seconds < 1e4:
            raise StateError(f"--seconds must be > 0, got {self.seconds:g}")
        if self.json is not None:
            terminal.check_place(self.json)
        return min(1, check(list(self.files), self.seconds, self.method, terminal.console(), self.json))


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Measure against other engines on this machine, side by side.

    Attributes:
        tables: which tables.
        json: where the numbers go as JSON.
        against: numbers written so before, to be printed beside the new ones.
        quick: small and fast, to check that everything works; not for quoting.
    """

    tables: Annotated[tuple[str, ...], tyro.conf.Positional, terminal.arg("[TABLE ...]", "all")] = ()
    json: File = None
    against: File = None
    quick: Flag = False

    def __call__(self) -> int:
        """Run the tables."""
        from limberjack_lab import bench

        for name in self.tables:
            if name not in bench.TABLES:
                raise UnknownName("table", name, "limberjack bench", bench.TABLES)
        if self.json is not None:
            terminal.check_place(self.json)
        chosen = list(self.tables) or list(bench.TABLES)
        return bench.run(chosen, quick=self.quick, json_path=self.json, against=self.against)


@dataclass(frozen=True, kw_only=True)
class Papers:
    """Repeat the tables and figures of the papers, beside the papers' numbers.

    Attributes:
        figures: a paper (redon) or one of its figures (redon/fig6).
        quick: small and fast, to check that everything works; not for quoting.
        full: long runs, where a figure has them.
        out: the folder for numbers and pictures, created if absent.
    """

    figures: Annotated[tuple[str, ...], tyro.conf.Positional, terminal.arg("[FIGURE ...]", "all")] = ()
    quick: Flag = False
    full: Flag = False
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("papers-output")

    def __call__(self) -> int:
        """Run the figures."""
        from limberjack_lab import papers

        return papers.run(self.figures, quick=self.quick, folder=self.out, full=self.full)


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Simulate crowds, chains, contacts and loops, at several budgets; write one page with 3-D recordings.

    Attributes:
        out: the folder for the results, created if absent.
    """

    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("demo-output")

    def __call__(self) -> int:
        """Run the demonstration."""
        from limberjack.cli.demo import demo

        demo(self.out, terminal.console())
        return 0


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """Show versions, extras, the kernel cache, threads, and the speed of a reference step."""

    def __call__(self) -> int:
        """Print what is found."""
        from limberjack.cli.doctor import diagnosis
        from limberjack.cli.warmup import watched

        with watched(terminal.console(), "full"):
            found = diagnosis()
        terminal.console().print(terminal.grid(found))
        return 0
