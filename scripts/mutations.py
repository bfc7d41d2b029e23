"""`make test-mutations`: break one guarantee of the product at a time, in a copy, and see that its tests fail.

`scripts/mutations.toml` lists the mutations: a guarantee, the text that breaks it, and the tests that must fail. Name
mutations to run these alone. A mutation is

- caught: one of its tests failed; the table says which, and which lane runs it;
- SURVIVED: all its tests passed, so nothing holds the guarantee;
- broken: its text is not there any more, or a test could not run at all, which proves nothing.

The working tree is not changed: tests run in a copy of it, with the packages of this Python.
"""

import argparse
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
MUTATIONS = Path(__file__).with_suffix(".toml")
# The options that select the tests of each lane; a test is in the first lane that selects it.
LANES: Mapping[str, tuple[str, ...]] = {"test": ("-m", "not slow and not long"), "all": ("-m", "not long"), "long": ()}
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header", "--timeout", "120")
MOST_SECONDS, STOPPING_SECONDS = 1800, 30
MOST_JOBS = 2
SHOWN_LINES = 40
PLACES = "import carrel, service; print(carrel.__file__, service.__file__, sep='\\n')"
# Processes that tests start get the environment without settings, and may run in any folder.
NESTED = f"""
import os, subprocess, sys
kept = {{name: value for name, value in os.environ.items() if not name.startswith(("CARREL_", "PREFECT_"))}}
subprocess.run([sys.executable, "-c", {PLACES!r}], env=kept, cwd="/", check=True)
"""


class Unusable(Exception):  # noqa: N818 - the state of a mutation or a tree
    """The reason why a mutation can't be applied, or why a copy of the tree can't be tested."""


@dataclass(frozen=True)
class Mutation:
    """A fault that breaks one `guarantee`: `replace` in the place of `find`, which the file has `count` times."""

    id: str
    guarantee: str
    file: str
    find: str
    replace: str
    tests: Sequence[str]
    count: int = 1

    def apply(self, text: str) -> str:
        """Return a file's text with the fault in it. Unusable when the file has changed."""
        found = text.count(self.find)
        if found != self.count:
            msg = f"{self.file} has the text to replace {found} times, not {self.count}"
            raise Unusable(msg)
        mutated = text.replace(self.find, self.replace)
        if self.file.endswith(".py"):
            try:
                compile(mutated, self.file, "exec")
            except SyntaxError as error:
                msg = f"{self.file} is no Python any more: {error}"
                raise Unusable(msg) from error
        return mutated


@dataclass(frozen=True)
class Ran:
    """A run of pytest: its exit code, its output, and the tests that failed; a test that can't be set up has not."""

    code: int
    output: str
    failed: Sequence[str]


@dataclass(frozen=True)
class Result:
    """The result of a mutation; `test` is the test that failed, `lane` the first lane that runs that test."""

    mutation: Mutation
    state: str
    seconds: float = 0.0
    test: str = ""
    lane: str = ""
    output: str = ""


def read_mutations(path: Path) -> list[Mutation]:
    """Read a file of mutations. Unusable when two have one id."""
    mutations = [Mutation(**entry) for entry in tomllib.loads(path.read_text())["mutation"]]
    twice = [name for name, number in Counter(one.id for one in mutations).items() if number > 1]
    if twice:
        raise Unusable(f"{path} has more than one mutation named {', '.join(twice)}")
    return mutations


def choose(mutations: Sequence[Mutation], ids: Collection[str]) -> list[Mutation]:
    """Return the mutations of these ids, or all of them. Unusable for an id that is not there."""
    unknown = set(ids) - {one.id for one in mutations}
    if unknown:
        raise Unusable(f"There is no mutation named {', '.join(sorted(unknown))}; --list shows all.")
    return [one for one in mutations if not ids or one.id in ids]


def copy_tree(tree: Path, target: Path) -> None:
    """Copy the files of a tree that git tracks, and new files that git does not ignore."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=tree, check=True, capture_output=True, text=True).stdout.split("\0")  # noqa: S603 - ours
    for name in filter(None, names):
        source, copy = tree / name, target / name
        if source.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy)


def find_test(line: str, known: Iterable[str]) -> str:
    """Return the known test that a line of pytest's summary names before the reason; empty when it names none."""
    return max((one for one in known if line == one or line.startswith(f"{one} - ")), key=len, default="")


class Copy:
    """A copy of a tree, in which tests run with this Python's packages and the copy's own modules."""

    def __init__(self, tree: Path, folder: Path) -> None:
        copy_tree(tree, folder)
        self.folder = folder.resolve()
        self.environment = os.environ | {"PYTHONPATH": f"{self.folder}{os.pathsep}{self.folder / 'client'}"}
        self.known: Collection[str] = ()
        self._process: subprocess.Popen[str] | None = None

    def check(self) -> None:
        """Raise Unusable unless tests, and the processes that they start, import the modules of the copy."""
        for program in (PLACES, NESTED):
            command = [sys.executable, "-c", program]
            ended = subprocess.run(command, env=self.environment, cwd="/", check=False, capture_output=True, text=True)  # noqa: S603 - ours
            places = ended.stdout.split()
            if ended.returncode or not all(Path(place).is_relative_to(self.folder) for place in places):
                raise Unusable(f"Tests would not run the copy in {self.folder}: {places or ended.stderr}")

    def run(self, *arguments: str) -> Ran:
        """Run pytest in the copy; a run that takes too long is stopped, and no test of it counts as failed."""
        process = self._process = subprocess.Popen(  # noqa: S603 - ours
            [*PYTEST, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired:
            self.stop()
            return Ran(code=-1, output=f"It took longer than {MOST_SECONDS} s.", failed=())
        told = (line.partition(" ") for line in output.splitlines())
        failed = [test for word, _, rest in told if word == "FAILED" and (test := find_test(rest, self.known))]
        return Ran(process.returncode, output, failed)

    def stop(self) -> None:
        """Interrupt the tests that run, so that they stop the processes that they have started."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGINT)
        try:
            process.wait(STOPPING_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def find_lanes(self, tests: Sequence[str]) -> dict[str, str]:
        """Return the first lane of each of these tests; a parametrized test has an entry for each case."""
        lanes: dict[str, str] = {}
        for lane, chosen in LANES.items():
            listed = self.run("--collect-only", *chosen, *tests).output.splitlines()
            lanes |= {line: lane for line in listed if "::" in line and line not in lanes and line[:6] == "tests/"}
        self.known = lanes
        return lanes

    def try_out(self, mutation: Mutation, lanes: Mapping[str, str]) -> Result:
        """Run a mutation's tests with the fault in the copy, and take it out again."""
        path = self.folder / mutation.file
        began = time.monotonic()
        try:
            original = path.read_text()
            path.write_text(mutation.apply(original))
        except (Unusable, OSError) as error:
            return Result(mutation, "broken", output=str(error))
        try:
            ran = self.run("-x", *mutation.tests)
        finally:
            path.write_text(original)
        seconds = time.monotonic() - began
        if ran.code == 0:
            return Result(mutation, "SURVIVED", seconds)
        if ran.code == 1 and ran.failed:
            [test, *_] = ran.failed
            return Result(mutation, "caught", seconds, test, lanes.get(test, ""))
        return Result(mutation, "broken", seconds, output=ran.output)


def require_green(copy: Copy, tests: Sequence[str]) -> None:
    """Raise Unusable unless all these tests pass without any mutation."""
    began = time.monotonic()
    ran = copy.run(*tests)
    if ran.code:
        raise Unusable(f"Without any mutation, these tests must pass:\n{tail_of(ran.output)}")
    say(f"Without any mutation, all {len(tests)} named tests pass ({time.monotonic() - began:.0f} s).")


def try_all(copies: Sequence[Copy], mutations: Sequence[Mutation], lanes: Mapping[str, str]) -> list[Result]:
    """Try every mutation, each copy a mutation at a time; print the progress."""
    free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for copy in copies:
        free.put(copy)
    done, telling = Counter[str](), threading.Lock()

    def try_one(mutation: Mutation) -> Result:
        copy = free.get()
        try:
            result = copy.try_out(mutation, lanes)
        finally:
            free.put(copy)
        with telling:
            done[result.state] += 1
            say(f"{done.total()}/{len(mutations)} {mutation.id}: {result.state} ({result.seconds:.0f} s)")
        return result

    pool = ThreadPoolExecutor(len(copies))
    try:
        return list(pool.map(try_one, mutations))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for copy in copies:
            copy.stop()
        pool.shutdown()


def show(results: Sequence[Result]) -> None:
    """Print the result of each mutation, and the totals."""
    rows = [("mutation", "result", "lane", "seconds", "failing test")]
    rows += [(one.mutation.id, one.state, one.lane, f"{one.seconds:.0f}", one.test) for one in results]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for one in results:
        if one.state != "caught":
            tests = "\n  ".join(one.mutation.tests)
            say(f"\n{one.mutation.id} {one.state}: {one.mutation.guarantee}\n  {tests}\n{tail_of(one.output)}".rstrip())
    counts = Counter(one.state for one in results)
    lanes = Counter(one.lane for one in results if one.lane)
    of_lanes = ", ".join(f"{number} in lane {lane}" for lane, number in lanes.items())
    say(f"\n{len(results)} mutations: " + ", ".join(f"{number} {state}" for state, number in counts.items()))
    say(f"Caught: {of_lanes or 'none'}.")


def tail_of(output: str) -> str:
    """Return the last lines of pytest's output."""
    return "\n".join(output.splitlines()[-SHOWN_LINES:])


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)  # noqa: T201 - the progress of a long run


def read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="make test-mutations ARGS=", description="Break one guarantee at a time.")
    parser.add_argument("ids", nargs="*", help="ids of the mutations to try; all of them without any")
    parser.add_argument("--list", action="store_true", help="show the mutations, and run nothing")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the tree to copy, by default this one")
    parser.add_argument("--mutations", type=Path, default=MUTATIONS, help="the file of mutations")
    parser.add_argument("--green", action=argparse.BooleanOptionalAction, default=True, help="run all tests first")
    parser.add_argument("--jobs", type=int, choices=range(1, MOST_JOBS + 1), default=1, help="mutations at a time")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Try the mutations; return 1 unless each is caught."""
    asked = read_arguments(arguments)
    mutations = choose(read_mutations(asked.mutations), asked.ids)
    if asked.list:
        for one in mutations:
            say(f"{one.id}: {one.guarantee} ({one.file})")
        return 0
    tests = list(dict.fromkeys(test for one in mutations for test in one.tests))
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="carrel-mutations-") as folder:
        copies = [Copy(asked.tree, Path(folder) / str(number)) for number in range(asked.jobs)]
        try:
            copies[0].check()
            lanes = copies[0].find_lanes(tests)
            for copy in copies:
                copy.known = lanes
            if asked.green:
                require_green(copies[0], tests)
            results = try_all(copies, mutations, lanes)
        finally:
            for copy in copies:
                copy.stop()
    show(results)
    say(f"All of it took {time.monotonic() - began:.0f} s.")
    return int(any(one.state != "caught" for one in results))


if __name__ == "__main__":
    # A shell that starts this in the background has it ignore SIGINT, and pytest with it.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        sys.exit(main(sys.argv[1:]))
    except Unusable as problem:
        sys.exit(str(problem))
    except KeyboardInterrupt:
        sys.exit("Interrupted.")
