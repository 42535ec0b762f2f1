"""Build the sdist, the wheel for all platforms and the wheel for this platform, which contains compiled kernels.

Usage: python tools/make_wheel.py [--out dist]     (needs the extra "wheel"; compiles for minutes the first time)

The kernels are compiled for x86-64-v3 (`limberjack._cache`), into build/kernels, where the next build finds those whose
sources have not changed. They are the machine code of every kernel that Python calls, in one file of the wheel,
limberjack/kernels.zip; what only kernels call is in that code already. The wheel depends on the exact version of Numba
that made them, and its tag names the version of Python.

The same sources give the same bytes: jobs are divided between processes that share nothing, and each runs its jobs in
order, with the order of Python's sets fixed.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import importlib
import os
import pkgutil
import re
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

import numba

import limberjack
from limberjack._cache import TARGET, Archive, KernelCache, made_here

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build" / "kernels"
# Two: more processes would compile more of what they have in common.
SHARES = 2
LARGEST = 60e6  # bytes
_STAMP = (2020, 2, 2, 0, 0, 0)  # of the files in the wheels, as the build backend writes it


def main() -> None:
    """Build everything."""
    parser = argparse.ArgumentParser(description="Build the wheels and the sdist.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--share", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.share is not None:
        compile_share(options.share)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    plain = build_plain(options.out)
    wheel = add_kernels(plain, kernels())
    size = wheel.stat().st_size
    print(f"{wheel}: {size / 1e6:.1f} MB")
    if size > LARGEST:
        sys.exit(f"the wheel is larger than {LARGEST / 1e6:.0f} MB")


def build_plain(out: Path) -> Path:
    """Build the sdist and the wheel for all platforms into a folder; return the wheel."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "build", "--outdir", folder, str(ROOT)], check=True, stdout=sys.stderr)
        for file in Path(folder).iterdir():
            (out / file.name).write_bytes(file.read_bytes())
        (wheel,) = Path(folder).glob("*-py3-none-any.whl")
        return out / wheel.name


def kernels() -> Path:
    """Compile all kernels for the portable target; return their archive."""
    BUILD.mkdir(parents=True, exist_ok=True)
    chosen = {"NUMBA_CPU_NAME": TARGET, "NUMBA_CPU_FEATURES": "", "PYTHONHASHSEED": "0"}
    running = [
        subprocess.Popen(
            [sys.executable, __file__, "--share", str(k)],
            env=os.environ | chosen | {"LIMBERJACK_CACHE_DIR": str(BUILD / str(k))},
        )
        for k in range(SHARES)
    ]
    if any([process.wait() for process in running]):
        sys.exit("kernels could not be compiled")
    found: dict[str, bytes] = {}
    for k in reversed(range(SHARES)):  # what two shares have is that of the first
        found |= Archive(_share(k)).all()
    path = BUILD / "kernels.zip"
    Archive.write(path, made_here(), found)
    return path


def _share(k: int) -> Path:
    return BUILD / f"{k}.zip"


def compile_share(k: int) -> None:
    """Run every so many-th job, in order, and write the kernels that are then in the cache into an archive.

    The loops of a method, which follow it, are run with it: they have most in common.
    """
    from limberjack.cli.warmup import jobs

    count = -1
    for title, job in jobs():
        count += not title.startswith("loops in ")
        if count % SHARES == k:
            print(title, file=sys.stderr, flush=True)
            job()
    found: dict[str, bytes] = {}
    for dispatcher in _kernels():
        found |= dict(dispatcher._cache.entries())
    Archive.write(_share(k), made_here(), found)


def _kernels() -> list:
    """Return all functions of the package that Python calls compiled."""
    found = {}
    for module in pkgutil.walk_packages(limberjack.__path__, "limberjack."):
        if not module.name.endswith("__main__"):
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(getattr(value, "_cache", None), KernelCache) and not value.targetoptions.get(
                    "no_cpython_wrapper"
                ):
                    found[id(value)] = value
    return list(found.values())


def add_kernels(plain: Path, archive: Path) -> Path:
    """Write the wheel for this platform beside that for all; return its path."""
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    tag = f"{tag}-{tag}-{re.sub(r'[-.]', '_', sysconfig.get_platform())}"
    path = plain.with_name(plain.name.replace("py3-none-any", tag))
    with zipfile.ZipFile(plain) as wheel:
        files = {name: wheel.read(name) for name in wheel.namelist()}
    (record,) = (name for name in files if name.endswith(".dist-info/RECORD"))
    info = record.rpartition("/")[0]
    del files[record]
    files["limberjack/kernels.zip"] = archive.read_bytes()
    about = files[f"{info}/WHEEL"].decode()
    files[f"{info}/WHEEL"] = (
        about.replace("Tag: py3-none-any", f"Tag: {tag}").replace("Root-Is-Purelib: true", "Root-Is-Purelib: false")
    ).encode()
    metadata = files[f"{info}/METADATA"].decode()
    files[f"{info}/METADATA"] = re.sub(
        r"(?m)^Requires-Dist: numba.*$", f"Requires-Dist: numba=={numba.__version__}", metadata, count=1
    ).encode()
    lines = [f"{name},{_digest(contents)},{len(contents)}" for name, contents in files.items()]
    files[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    with zipfile.ZipFile(path, "w") as wheel:
        for name, contents in files.items():
            entry = zipfile.ZipInfo(name, _STAMP)
            entry.external_attr = 0o644 << 16
            # The archive is compressed already.
            method = zipfile.ZIP_STORED if name.endswith(".zip") else zipfile.ZIP_DEFLATED
            wheel.writestr(entry, contents, method)
    return path


def _digest(contents: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(contents).digest()).rstrip(b"=").decode()
    return f"sha256={digest}"


if __name__ == "__main__":
    main()
