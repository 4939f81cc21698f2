"""Slimmed libraries against the ones they were made of, on a GPU: the same bits from every operator.

    python -m tests.gpu.slim_truth --site SITE [--site SITE2] --work DIR [--battery torch ...] [--layout holes]

``SITE`` are folders of installed packages, the first wins. The script links them into one tree, slims every library of
that tree that ``orbit image slim --unproved`` would (licences are respected), and runs the batteries of
:mod:`tests.gpu.slim_battery` twice in the plain tree and once in the slimmed one, with the driver forbidden to compile
PTX. A case whose plain runs differ proves nothing and is counted apart; one that differs between the trees is run eight
times more in the plain one, to see whether it can be repeated at all. For each slimmed library it says whether a
battery had it mapped. Exit status: 0 all equal, 1 a difference, 3 no GPU or nothing to compare.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from orbit.audit.binary.elf import MalformedBinary
from orbit.errors import OrbitError
from orbit.image.slim.facts import FilePlan
from orbit.image.slim.plan import apply_plan, plan_file
from orbit.profile.model import Profile, SlimPolicy, load_profile

ROOT = Path(__file__).resolve().parents[2]
PARTS = {"torch": 5, "sgl": 1, "te": 1, "vision": 1, "nccl": 6}
"""Batteries, and into how many processes each is divided."""
COLLECTIVES = "nccl"
"""The battery that needs two GPUs: a module of its own, which starts a process for each."""
REPEATS = 8
"""Processes in which a case that differs is run again in the plain tree."""


def link(source: str, target: str) -> None:
    """A hard link, or a copy on another file system."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def make_tree(sites: Sequence[Path], target: Path) -> None:
    """All ``sites`` in one folder; the first wins a name."""
    for site in reversed(sites):
        shutil.copytree(
            site, target, symlinks=True, copy_function=link, dirs_exist_ok=True, ignore=_present(target, site)
        )


def _present(target: Path, site: Path) -> Any:
    def ignore(folder: str, names: list[str]) -> list[str]:
        there = target / Path(folder).relative_to(site)
        for name in names:
            place = there / name
            if place.is_symlink() or place.is_file():
                place.unlink()
        return [name for name in names if name == "__pycache__"]

    return ignore


def slim_tree(tree: Path, profile: Profile, layout: str) -> list[FilePlan]:
    """Slim what can be; print a line each; return the plans that were carried out."""
    policy = SlimPolicy(unproved=True, layout="holes" if layout == "holes" else "shrink")
    owners = {}
    for record in tree.glob("*.dist-info/RECORD"):
        name = record.parent.name.split("-")[0].replace("_", "-").lower()
        owners.update(dict.fromkeys((line.split(",")[0] for line in record.read_text().splitlines()), name))
    names = [path for path in tree.rglob("*.so*") if path.is_file() and not path.is_symlink()]

    def work(path: Path) -> FilePlan | None:
        name = str(path.relative_to(tree))
        try:
            plan = plan_file(path, profile.targets, policy=policy, name=name, distribution=owners.get(name, ""))
            if plan.layout == "none":
                return None
            apply_plan(plan, path, path)
        except (OrbitError, MalformedBinary) as error:
            print(f"left     {name}: {error}")
            return None
        return plan

    with ThreadPoolExecutor(8) as pool:
        done = [plan for plan in pool.map(work, sorted(names)) if plan is not None]
    for plan in done:
        sizes = f"{plan.size / 1e6:9.1f} -> {plan.new_size / 1e6:9.1f} MB, {plan.removed_bytes / 1e6:9.1f} MB removed"
        print(f"slimmed  {plan.path:58} {sizes}  {plan.layout}")
    return done


def run(battery: str, tree: Path, part: str) -> tuple[dict[str, str], list[str], str]:
    """(bits by case, mapped libraries, last words on failure) of one part of a battery (or one case) in one tree."""
    env = os.environ | {"PYTHONPATH": f"{tree}:{ROOT}", "CUDA_DISABLE_PTX_JIT": "1", "PYTHONWARNINGS": "ignore"}
    module = "collectives_battery" if battery == COLLECTIVES else "slim_battery"
    done = subprocess.run(
        [sys.executable, "-m", f"tests.gpu.{module}", battery, part],
        cwd=ROOT, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    found = {line["case"]: line["bits"] for line in lines if "case" in line}
    mapped = [path for line in lines for path in line.get("mapped", ())]
    return found, mapped, "" if done.returncode == 0 else done.stderr[-1500:]


def run_all(battery: str, trees: Sequence[Path]) -> list[tuple[dict[str, str], list[str], str]]:
    """What :func:`run` gives for each tree, all parts together; all processes at once."""
    parts = [f"{part}/{PARTS[battery]}" for part in range(PARTS[battery])]
    with ThreadPoolExecutor(len(trees) * len(parts)) as pool:
        jobs = [[pool.submit(run, battery, tree, part) for part in parts] for tree in trees]
        done = [[job.result() for job in row] for row in jobs]
    return [
        (
            {case: value for found, _, _ in row for case, value in found.items()},
            sorted({name for _, mapped, _ in row for name in mapped}),
            "\n".join(words for _, _, words in row if words),
        )
        for row in done
    ]


def repeatable(battery: str, tree: Path, case: str, value: str) -> bool:
    """Whether :data:`REPEATS` more processes in the plain tree all find ``value``."""
    with ThreadPoolExecutor(REPEATS) as pool:
        return all(
            found[0].get(case) == value for found in pool.map(lambda _: run(battery, tree, f"={case}"), range(REPEATS))
        )


def compare(battery: str, plain: Path, slim: Path, slimmed: set[str]) -> tuple[int, int, set[str]]:
    """(cases that agree, differences, slimmed libraries that were mapped); prints the verdict."""
    began = time.monotonic()
    first, again, other = run_all(battery, (plain, plain, slim))
    for name, (_, _, words) in (("plain", first), ("plain again", again), ("slim", other)):
        if words:
            print(f"{battery}: the run in the {name} tree ended early:\n{words}")
    steady = {case for case, value in first[0].items() if again[0].get(case) == value}
    differ = sorted(case for case in steady if other[0].get(case) != first[0][case])
    steady -= {case for case in differ if not repeatable(battery, plain, case, first[0][case])}
    differ = sorted(steady.intersection(differ))
    raised = sum(first[0][case].startswith("raises") for case in steady)
    seen = {path for path in slimmed if any(name.endswith(path) and str(slim) in name for name in other[1])}
    print(
        f"{battery:8} {len(steady) - len(differ)} of {len(first[0])} cases equal to the bit "
        f"({raised} of them raise alike), {len(differ)} differ, "
        f"{len(first[0]) - len(steady)} are not repeatable in the plain tree; {time.monotonic() - began:.0f} s"
    )
    for case in differ[:20]:
        print(f"  differs: {case}: {first[0][case][:16]} {other[0].get(case, 'not run')[:16]}")
    ended = bool(other[2]) and not first[2]
    return len(steady) - len(differ) - raised, len(differ) + ended, seen


def main() -> int:
    """Slim, run, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--site", type=Path, action="append", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--battery", nargs="+", choices=PARTS, help="default: all this machine has the GPUs for")
    parser.add_argument("--layout", choices=("shrink", "holes"), default="shrink")
    args = parser.parse_args()
    probe = "import torch.cuda as c; print(c.device_count(), c.get_device_name(), c.get_device_capability())"
    asked = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False)
    if asked.returncode:
        print(f"no GPU: {asked.stderr.splitlines()[-1:]}")
        return 3
    print(asked.stdout.strip())
    devices = int(asked.stdout.split(maxsplit=1)[0])
    if devices < 2 and COLLECTIVES in (args.battery or ()):
        print(f"{COLLECTIVES}: needs two GPUs, here is {devices}")
        return 3
    batteries = args.battery or [name for name in PARTS if devices > 1 or name != COLLECTIVES]
    plain, slim = args.work / "plain", args.work / "slim"
    for tree in (plain, slim):
        shutil.rmtree(tree, ignore_errors=True)
        make_tree(args.site, tree)
    slimmed = {plan.path for plan in slim_tree(slim, load_profile("cu130"), args.layout)}
    equal = different = 0
    seen: set[str] = set()
    for battery in batteries:
        agree, differ, mapped = compare(battery, plain, slim, slimmed)
        equal, different, seen = equal + agree, different + differ, seen | mapped
    for path in sorted(slimmed):
        print(f"{'mapped' if path in seen else 'not loaded':10} {path}")
    if not equal or not seen:
        print("nothing was compared")
        return 3
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
