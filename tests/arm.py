"""The tests of machine code on an emulated processor of ARM: ``python -m tests.arm``.

It needs Debian's packages mmdebstrap, arch-test, qemu-user-static and binfmt-support, the network, root, and hours.  A root
of Debian for arm64 is made once, with wheels for it, and a copy of this checkout is put into it; what runs there runs as on a
processor without arithmetic of float16.  ``--share 0.1`` runs a tenth of it.  ``docs/systems.rst`` has its last result.
"""

from __future__ import annotations

import argparse
import configparser
import datetime
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent

PYTHON = "3.11"
"""That of Debian's release."""

RELEASE = "bookworm"

TAGS = ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64")
"""Kinds of wheels that run there."""

COPIED = ("mdf_loop", "tests", "examples", "benchmarks", "docs", "setup.cfg", "README.md", "CHANGELOG.md")

COMPILED = ("compiled_*", "exact_products", "background", "pieces", "exported_loops", "special_values")
"""Files of tests of machine code."""

CASES = 1500
"""How many of ONNX's node cases in loops run."""

FUZZED = 900
"""Seconds of the fuzzer."""


def said(line: str) -> None:
    """Print how far it is."""
    print(f"arm: {line}", file=sys.stderr, flush=True)


def requirements() -> list[str]:
    """What setup.cfg asks for, with all extras, and what runs tests."""
    given = configparser.ConfigParser()
    given.read(ROOT / "setup.cfg")
    wanted = given["options"]["install_requires"] + given["options.extras_require"]["all"]
    return [*filter(None, wanted.split("\n")), "pytest", "hypothesis"]


def make_root(folder: Path) -> None:
    """Make the system and install the wheels, unless they are there."""
    if not (folder / "usr").exists():
        said(f"a root of Debian {RELEASE} in {folder}")
        packages = "--include=python3,libgomp1"
        subprocess.run(["mmdebstrap", "--arch=arm64", "--variant=minbase", packages, RELEASE, folder], check=True)
    wheels = folder / "opt" / "wheels"
    if not wheels.exists():
        said("wheels")
        how = [word for tag in TAGS for word in ("--platform", tag)] + ["--python-version", PYTHON, "--only-binary=:all:"]
        tags = ["--implementation", "cp", "--abi", f"cp{PYTHON.replace('.', '')}", "--abi", "abi3", "--abi", "none"]
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(wheels)]
        subprocess.run([*install, *how, *tags, *requirements()], check=True)


def put_checkout(folder: Path) -> None:
    """Copy this checkout into the root."""
    place = folder / "opt" / "mdf-loop"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, place / name, ignore=shutil.ignore_patterns("__pycache__", "_build"))
        else:
            shutil.copy(source, place / name)


def run(folder: Path, cpu: str, *arguments: str) -> tuple[str, float]:
    """Run Python there; what it said, and how many seconds it took."""
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    environment = {
        "PATH": os.environ["PATH"],
        "QEMU_CPU": cpu,
        "PYTHONPATH": "/opt/wheels:/opt/mdf-loop",
        "HOME": "/root",
        **threads,
    }
    inside = 'cd /opt/mdf-loop && exec python3 "$@"'
    script = f'mount -t proc proc "$0/proc" && exec chroot "$0" /bin/sh -c {shlex.quote(inside)} sh "$@"'
    command = ["unshare", "--mount", "/bin/sh", "-c", script, folder, *arguments]
    begun = time.monotonic()
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(done.stdout, flush=True)
    return done.stdout, time.monotonic() - begun


def ids_of(files: list[str]) -> list[str]:
    """The tests in some files, as this Python collects them."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *files]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in found.stdout.split("\n") if "::" in line]


def tests(folder: Path, cpu: str, ids: list[str]) -> str:
    """Run some tests there, one process for all; how they ended."""
    (folder / "opt" / "mdf-loop" / "chosen.txt").write_text("\n".join(ids) + "\n")
    text, seconds = run(folder, cpu, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", "@chosen.txt")
    counts = re.findall(r"\d+ (?:passed|failed|skipped|errors?)", text.strip().rpartition("\n")[2])
    return f"{', '.join(counts) or 'ended without a word'} ({seconds / 60:.0f} min)"


def fuzzed(folder: Path, cpu: str, seconds: float) -> str:
    """Run the fuzzer there; what it found."""
    how = ["--seed", "5", "--engine", "jit", "--no-witness", "--seconds", f"{seconds:.0f}"]
    text, taken = run(folder, cpu, "-m", "tests.fuzz", *how)
    return f"{' '.join(text.strip().split(chr(10))[-2:])} ({taken / 60:.0f} min)"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser("python -m tests.arm", description=__doc__)
    parser.add_argument("--root", type=Path, default=Path("/var/tmp/mdf-loop-arm64"), help="where the system is or will be")
    parser.add_argument("--cpu", default="cortex-a72", help="what qemu emulates")
    parser.add_argument("--share", type=float, default=1.0, help="the share of all tests that runs, by random")
    chosen = parser.parse_args()
    make_root(chosen.root)
    put_checkout(chosen.root)
    chance = random.Random(11)
    compiled = ids_of(sorted(str(path.relative_to(ROOT)) for name in COMPILED for path in ROOT.glob(f"tests/*/test_{name}.py")))
    cases = ids_of(["tests/definitions/test_node_cases_in_loop.py"])
    parts = {
        "tests of machine code": sorted(chance.sample(compiled, round(len(compiled) * chosen.share))),
        "node cases in loops": sorted(chance.sample(cases, min(round(CASES * chosen.share), len(cases)))),
    }
    found = {name: f"{len(ids)}: {tests(chosen.root, chosen.cpu, ids)}" for name, ids in parts.items()}
    found["fuzzer"] = fuzzed(chosen.root, chosen.cpu, FUZZED * chosen.share)
    print(f"{datetime.date.today()}, {chosen.cpu}, emulated by qemu; a share of {chosen.share:g}")
    for name, text in found.items():
        print(f"{name:25}{text}")


if __name__ == "__main__":
    main()
