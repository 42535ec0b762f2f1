"""Random scenes by the thousand: in worker processes, with progress, to be continued where it was stopped.

    python -m tests.soak.random_runs --scenes 100000 --workers 2 --folder soak-random

Scene `seed` is run by method `seed % 5`, so that `run(draw(seed), METHODS[seed % 5])` of `tests.random_scenes` repeats
it. Results go to FOLDER/results.jsonl, one line each; what is there is not run again. A worker that does not answer for
LIMIT seconds, or dies, costs the scene that it was at, which counts as a fault.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import queue
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from tests.random_scenes import METHODS, draw, run

# Longest time that a scene may take, compiling included [s]; scenes that a worker is given at once.
LIMIT, CHUNK = 300.0, 25
# A run is slow where it takes this many times the median of its method for scenes of about its size.
SLOW = 10.0


def _work(seeds: Any, results: Any) -> None:
    while (chunk := seeds.get()) is not None:
        for seed in chunk:
            results.put(("begin", seed, None))
            method = METHODS[seed % len(METHODS)]
            scene = draw(seed)
            ran = run(scene, method)
            if ran.fault == "slow":  # kernels may have been compiled
                ran = run(scene, method)
            size = len(scene.model.body_names)
            results.put(("end", seed, (method, ran.end, ran.fault, ran.gain, ran.seconds, size, scene.features)))


class _Worker:
    """A process with a queue each way of its own: one that is killed cannot hold up the others."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.seeds, self.results = context.Queue(), context.Queue()
        self.process = context.Process(target=_work, args=(self.seeds, self.results), daemon=True)
        self.process.start()
        self.left: list[int] = []
        self.at: int | None = None
        self.since = time.monotonic()

    def give(self, seeds: list[int]) -> None:
        self.left, self.since = list(seeds), time.monotonic()
        self.seeds.put(seeds)

    def take(self) -> list[tuple[int, Any]]:
        """Return what has been run since the last call."""
        found = []
        while True:
            try:
                word, seed, result = self.results.get_nowait()
            except queue.Empty:
                return found
            self.since = time.monotonic()
            if word == "begin":
                self.at = seed
            else:
                self.left.remove(seed)
                found.append((seed, result))

    def fault(self) -> str:
        """Return why the worker is lost, if it is."""
        if not self.left:
            return ""
        if not self.process.is_alive():
            return f"crashed with status {self.process.exitcode}"
        return f"did not end within {LIMIT:g} s" if time.monotonic() - self.since > LIMIT else ""


def campaign(first: int, scenes: int, workers: int, folder: Path, minutes: float = 1e9) -> dict[int, list[Any]]:
    """Run scenes `first` to `first + scenes`, those in the folder left out; return all results by seed."""
    folder.mkdir(parents=True, exist_ok=True)
    path, done = folder / "results.jsonl", dict[int, list[Any]]()
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                seed, *result = json.loads(line)
                done[seed] = result
            except ValueError:  # the line that was being written when it was stopped
                continue
    todo = [seed for seed in range(first, first + scenes) if seed not in done]
    chunks = [todo[k : k + CHUNK] for k in range(0, len(todo), CHUNK)][::-1]
    begin, fresh, shown = time.monotonic(), 0, 0.0
    crew: list[_Worker | None] = [None] * workers
    with path.open("a") as file:
        while chunks or any(worker is not None and worker.left for worker in crew):
            for k, worker in enumerate(crew):
                if worker is None:
                    worker = crew[k] = _Worker()
                results: list[tuple[int, Any]] = worker.take()
                if fault := worker.fault():
                    results += worker.take()
                    lost = worker.at if worker.at in worker.left else worker.left[0]
                    results.append((lost, (METHODS[lost % len(METHODS)], "lost", fault, 0.0, LIMIT, 0, ())))
                    worker.process.kill()
                    rest = [seed for seed in worker.left if seed != lost]
                    chunks += [rest] if rest else []
                    crew[k] = None
                elif not worker.left and chunks and time.monotonic() - begin < 60 * minutes:
                    worker.give(chunks.pop())
                for seed, result in results:
                    done[seed] = list(result)
                    fresh += 1
                    print(json.dumps([seed, *result]), file=file, flush=True)
                    if result[2]:
                        print(f"scene {seed}, {result[0]}: {result[2]} {result[6]}", flush=True)
            if time.monotonic() - begin > 60 * minutes and not any(w is not None and w.left for w in crew):
                break
            if time.monotonic() - shown > 60.0:
                shown = time.monotonic()
                print(f"{len(done)} of {scenes} scenes, {fresh} in {shown - begin:.0f} s", flush=True)
            time.sleep(0.05)
    for worker in crew:
        if worker is not None:
            worker.seeds.put(None)
    return done


def report(done: dict[int, list[Any]]) -> dict[int, str]:
    """Print how the runs ended; return the faults by seed, runs that are slow among them."""
    ends: Counter[tuple[str, str]] = Counter((result[0], result[1]) for result in done.values())
    for (method, end), count in sorted(ends.items()):
        print(f"{method:14} {end:22} {count}")
    faults = {seed: result[2] for seed, result in done.items() if result[2]}
    alike: dict[Any, list[float]] = defaultdict(list)
    for method, _, _, _, seconds, size, features in done.values():
        alike[method, size.bit_length(), "contacts" in features, "loops" in features].append(seconds)
    medians = {key: sorted(values)[len(values) // 2] for key, values in alike.items()}
    slow = 0
    for method, _, _, _, seconds, size, features in done.values():
        key = method, size.bit_length(), "contacts" in features, "loops" in features
        slow += len(alike[key]) >= 20 and seconds > max(SLOW * medians[key], 1.0)
    print(f"{len(done)} scenes, {len(faults)} faults, {slow} slower than {SLOW:g} medians of their like")
    for seed, fault in sorted(faults.items()):
        print(f"  {seed} {done[seed][0]}: {fault} {done[seed][6]}")
    return faults


def main() -> int:
    """Run scenes as the words say; status 1 where there are faults."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--scenes", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path("soak-random"))
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no more scenes after this time")
    words = parser.parse_args()
    return bool(report(campaign(words.first, words.scenes, words.workers, words.folder, words.minutes)))


if __name__ == "__main__":
    sys.exit(main())
