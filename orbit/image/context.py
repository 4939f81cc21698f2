"""The other engine: a build context for ``containers/Dockerfile``, and the tree that its build stage makes.

BuildKit starts from the same parts: the base, the interpreter, the built wheels and the sources. Inside, Orbit itself
installs them, so both engines run the same code and end in the same tree.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from orbit.core import tools
from orbit.core.console import Progress
from orbit.core.files import link_or_copy, remove_tree, replace_folder
from orbit.core.paths import DATA_FOLDERS
from orbit.core.records import content_key, load_json
from orbit.core.store import Store
from orbit.env import install, interpreter
from orbit.env.activate import conditions_by_name
from orbit.env.create import copy_out, create_environment, environment_inputs
from orbit.env.record import read_environment
from orbit.errors import InputError
from orbit.image.base import make_base
from orbit.image.oci import RunConfig
from orbit.image.own import own_key, own_members
from orbit.image.runtime import Identity, image_labels, run_config
from orbit.image.tar import Member
from orbit.kernels.build import Wheelhouse
from orbit.profile.model import Profile
from orbit.profile.place import profile_lock

WHEELHOUSE = "wheelhouse.json"
MARK = "# orbit: variables and labels of the profile\n"
"""The line of the Dockerfile in whose place they come: at the end of the stage ``runtime``."""
TREE_PREFIX = "/opt/orbit"
"""Where the Dockerfile puts the tree: a COPY cannot read it from a profile."""


def make_context(
    profile: Profile, root: Path, wheelhouse: Wheelhouse, store: Store, *, out: Path, progress: Progress
) -> Path:
    """Make ``out`` a build context for the image of ``profile``; an earlier context there is replaced.

    Raises as :func:`check_context`, and :class:`InputError` when the profile's base is an image.
    """
    check_context(profile, out)
    base = make_base(profile.image.base, store, progress=progress)
    if base.tar is None:
        raise InputError(
            f"profile {profile.name}: its base is an image, and the Dockerfile begins with a root file system",
            fix="use `orbit image build`",
        )
    lock = profile_lock(profile, root)
    plan = install.make_plan(profile, lock, wheelhouse)
    python = interpreter.obtain_interpreter(store, interpreter.running(), profile.image.prefix)
    environment = content_key(environment_inputs(profile, lock, plan, python))
    identity = Identity(
        lock=lock.sha256,
        environment=environment,
        python=python.record.outputs["version"],
        kernels=wheelhouse.manifest_hash,
        base=base.sha256,
        orbit=own_key(root),
    )
    has = conditions_by_name(dist.name for dist in plan.distributions())
    run = run_config(profile, image_labels(profile, identity), has=has)
    partial = out.with_name(f".{out.name}.{os.getpid()}.partial")
    remove_tree(partial)
    partial.mkdir(parents=True)
    try:
        link_or_copy(base.tar, partial / "rootfs.tar")
        shutil.copytree(python.path / "prefix", partial / "python", symlinks=True)
        shutil.copy(tools.uv(), partial / "uv")
        _copy_checkout(root, partial / "checkout")
        _copy_wheels(wheelhouse, partial / "wheels")
        recipe = (root / "containers" / "Dockerfile").read_text(encoding="utf-8")
        recipe = recipe.replace("ARG PROFILE=cu130", f"ARG PROFILE={profile.name}", 1)
        (partial / "Dockerfile").write_text(recipe.replace(MARK, configuration_lines(run), 1), encoding="utf-8")
        replace_folder(partial, out)
    except BaseException:
        remove_tree(partial)
        raise
    return out


def check_context(profile: Profile, out: Path) -> None:
    """Raise :class:`InputError` when ``out`` holds something else than a build context, or when the profile's prefix is
    not the Dockerfile's."""
    if profile.image.prefix != TREE_PREFIX:
        raise InputError(
            f"profile {profile.name}: prefix {profile.image.prefix}, but containers/Dockerfile makes {TREE_PREFIX}",
            fix="use `orbit image build`",
        )
    if out.exists() and not (out / "Dockerfile").is_file() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out}: exists and is not a build context", fix="choose another place, or remove it")


def configuration_lines(run: RunConfig) -> str:
    """ENV and LABEL lines of a Dockerfile for this configuration."""
    variables = dict(variable.split("=", 1) for variable in run.env)
    return _lines("ENV", variables) + _lines("LABEL", run.labels)


def _lines(word: str, values: Mapping[str, str]) -> str:
    # JSON's quoting is the Dockerfile's, but for the dollar sign, which would name a variable
    quoted = (f"{name}={json.dumps(value).replace('$', chr(92) + '$')}" for name, value in sorted(values.items()))
    return "".join(f"{word} {pair}\n" for pair in quoted)


def _copy_checkout(root: Path, dest: Path) -> None:
    for name in ("orbit", *DATA_FOLDERS):
        shutil.copytree(root / name, dest / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    for name in ("pyproject.toml", "uv.lock", "LICENSE", "README.md"):
        shutil.copy(root / name, dest / name)


def _copy_wheels(wheelhouse: Wheelhouse, dest: Path) -> None:
    dest.mkdir()
    wheels = []
    for wheel in wheelhouse.wheels:
        name = Path(wheel.path).name
        link_or_copy(Path(wheel.path), dest / name)
        wheels.append(msgspec.structs.replace(wheel, path=name))
    moved = msgspec.structs.replace(wheelhouse, wheels=tuple(wheels))
    (dest / WHEELHOUSE).write_bytes(msgspec.json.encode(moved, order="sorted"))


def read_wheelhouse(folder: Path) -> Wheelhouse:
    """The wheelhouse of a build context."""
    moved = load_json(folder / WHEELHOUSE, Wheelhouse)
    wheels = tuple(msgspec.structs.replace(wheel, path=str(folder / wheel.path)) for wheel in moved.wheels)
    return msgspec.structs.replace(moved, wheels=wheels)


def make_tree(
    profile: Profile, root: Path, wheelhouse: Wheelhouse, store: Store, *, out: Path, progress: Progress
) -> Path:
    """Make the new folder ``out`` what the image has below its prefix: the environment and Orbit itself."""
    entry = create_environment(profile, root, wheelhouse, store, progress=progress)
    prefix = entry.path / "prefix"
    read_environment(prefix)
    copy_out(prefix, out, progress=progress)
    scratch = store.scratch("own")
    try:
        write_members(own_members(root, prefix, profile.image.prefix, scratch, progress=progress), profile, out)
    finally:
        remove_tree(scratch)
    return out


def write_members(members: Sequence[Member], profile: Profile, out: Path) -> None:
    """Write in-memory files of a layer below ``out``, which stands for the image's prefix."""
    base = profile.image.prefix.strip("/")
    for member in members:
        path = out / member.name.removeprefix(f"{base}/")
        assert isinstance(member.source, bytes)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(member.source)
        path.chmod(member.mode)
    for folder in [out, *(path for path in out.rglob("*") if path.is_dir() and not path.is_symlink())]:
        folder.chmod(0o755)
