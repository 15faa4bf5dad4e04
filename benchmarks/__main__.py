"""Run benchmarks, each in a process of its own: ``python -m benchmarks [NAME ...] [--quick]``."""

from __future__ import annotations

import argparse
import pkgutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

NOT_BENCHMARKS = {"__main__", "harness"}


def names() -> list[str]:
    """The names of all benchmarks: every module of this folder without an underscore, except the harness."""
    modules = {module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]) if not module.ispkg}
    return sorted(name for name in modules - NOT_BENCHMARKS if not name.startswith("_"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks; return 0 if all of them finished, whether or not they met their targets."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed and accuracy benchmarks.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which to run (default: all): {', '.join(names())}")
    parser.add_argument("--quick", action="store_true", help="small runs that show that the benchmarks work")
    parser.add_argument("--list", action="store_true", help="print their names and stop")
    given = parser.parse_args(argv)
    unknown = set(given.names) - set(names())
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}; there are: {', '.join(names())}")
    if given.list:
        print("\n".join(names()))
        return 0
    failed = [name for name in given.names or names() if not _ran(name, quick=given.quick)]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _ran(name: str, *, quick: bool) -> bool:
    # a process of its own: benchmarks start virtual machines and measure memory
    command = [sys.executable, "-m", f"benchmarks.{name}", *(["--quick"] if quick else [])]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], check=False)
    print(flush=True)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
