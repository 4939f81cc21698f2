"""Writing a bundle: beside its place, synced, renamed. A kill or a full disk leaves nothing that looks like one."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path

import msgspec

from orbit.core.files import naming, remove_tree, sync_folder, write_atomic
from orbit.core.records import compact_json
from orbit.errors import InputError, RefusedError
from orbit.image.tar import content, tar_chunks, with_parents
from orbit.release.attest.dsse import envelope_bytes
from orbit.release.attest.keys import public_pem
from orbit.release.attest.signers import LocalSigner, Signer, sign_statement
from orbit.release.attest.statement import RELEASE as RELEASE_TYPE
from orbit.release.attest.statement import make_statement
from orbit.release.bundle.facts import image_of
from orbit.release.bundle.model import (
    INDEX,
    KEYS,
    LOCK,
    MADE_LAST,
    MAX_BYTES,
    MAX_FILE_BYTES,
    MAX_FILES,
    PAGE,
    RELEASE,
    REQUIRED,
    SUMS,
    Bundle,
    BundleFile,
    BundleParts,
    ImageReference,
    Index,
    ReleasePredicate,
    TargetClaim,
    indexed,
    role_of,
    sha256,
    summed,
    sums,
)
from orbit.release.bundle.page import render_page
from orbit.release.bundle.targets import targets_of

FIX_PARTS = "this is a defect of whoever makes the bundle: `orbit gate run` gives all of it"
FIX_DECISION = "see what the gate refused: orbit gate decide"


def write_bundle(folder: Path, parts: BundleParts, signer: Signer) -> Bundle:
    """Make the bundle of ``parts`` at ``folder``, signed by ``signer``.

    The last step is one rename: a kill, a full disk or another writer leaves either nothing at ``folder`` or a whole
    bundle. Raises :class:`RefusedError` when something is there already, :class:`InputError` for parts that make no
    bundle, and what the signer raises; OSError as it comes, naming the file.
    """
    _refuse_existing(folder)
    index, files = make_files(parts, signer)
    _sweep(folder)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.{threading.get_native_id()}.partial")
    try:
        _write_files(partial, files)
        try:
            os.rename(partial, folder)  # onto an empty folder it succeeds, onto anything else it does not
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                _refuse_existing(folder)
            raise
    except BaseException:
        remove_tree(partial)
        raise
    sync_folder(folder.parent)
    return Bundle(folder, index, files)


def write_archive(bundle: Bundle, file: Path) -> Path:
    """The bundle as one tar file; equal bundles give equal bytes. Whole or not at all.

    Raises :class:`RefusedError` when something is there already; OSError as it comes.
    """
    if os.path.lexists(file):
        raise RefusedError(f"{file}: exists already", fix="name another file, or remove it")
    top = f"{bundle.index.profile}-{bundle.index.version}-{bundle.index.image.digest.removeprefix('sha256:')[:12]}"
    members = with_parents(content(f"{top}/{path}", data) for path, data in bundle.files.items())
    write_atomic(file, b"".join(tar_chunks(members)))
    return file


def make_files(parts: BundleParts, signer: Signer) -> tuple[Index, dict[str, bytes]]:
    """``bundle.json`` as a record, and the content of every file of the bundle by its path."""
    files = dict(parts.files)
    image = image_of(files, parts.profile.image.name)
    targets = targets_of(parts.decision, parts.profile)
    _check(parts, image, targets)
    if isinstance(signer, LocalSigner):
        files[f"{KEYS}release-{signer.keyid[:16]}.pub"] = public_pem(signer.key.public_key())
    for path, statement in parts.statements.items():
        files[path] = envelope_bytes(sign_statement(statement, signer))
    index = Index(
        profile=parts.profile.name,
        version=parts.decision.orbit_version,
        commit=parts.decision.commit,
        created=parts.decision.decided,
        image=image,
        targets=targets,
        files=_listed(files),
    )
    files[PAGE] = render_page(index, parts.decision, files)
    index = msgspec.structs.replace(index, files=_listed(files))
    files[INDEX] = msgspec.json.format(compact_json(index), indent=1) + b"\n"
    files[SUMS] = sums({path: files[path] for path in summed(frozenset(files))})
    predicate = ReleasePredicate(
        decided=index.created,
        decision=parts.decision,
        files={path: sha256(data) for path, data in sorted(files.items())},
    )
    statement = make_statement(image.name, image.digest, RELEASE_TYPE, predicate)
    files[RELEASE] = envelope_bytes(sign_statement(statement, signer))
    _check_sizes(files)
    return index, files


def _listed(files: Mapping[str, bytes]) -> tuple[BundleFile, ...]:
    rows = []
    for path in sorted(indexed(frozenset(files))):
        role = role_of(path)
        if role is None:
            raise InputError(f"{path}: has no place in a bundle", fix="orbit/release/bundle/model.py has the layout")
        rows.append(BundleFile(path=path, role=role, size=len(files[path]), sha256=sha256(files[path])))
    return tuple(rows)


def _check(parts: BundleParts, image: ImageReference, targets: tuple[TargetClaim, ...]) -> None:
    """Raises :class:`RefusedError` when this is no release, and :class:`InputError` for parts that make no bundle."""
    decision, given = parts.decision, {*parts.files, *parts.statements}
    if not decision.release:
        refusals = ", ".join(dict.fromkeys(item.requirement for item in decision.refusals)) or "no reason is given"
        raise RefusedError(f"{decision.profile}: not a release, so there is no bundle: {refusals}", fix=FIX_DECISION)
    if lacking := [path for path in REQUIRED if path not in given]:
        raise InputError(f"a bundle needs {', '.join(lacking)}", fix=FIX_PARTS)
    if twice := sorted(parts.files.keys() & parts.statements.keys()):
        raise InputError(f"{', '.join(twice)}: given as a file and as a statement to sign", fix=FIX_PARTS)
    if early := sorted(given & set(MADE_LAST)):
        raise InputError(f"{', '.join(early)}: made here and nowhere else", fix=FIX_PARTS)
    said = (decision.profile, decision.digest, decision.lock)
    if said != (parts.profile.name, image.digest, sha256(parts.files[LOCK])):
        raise InputError(f"the decision is about another image: {decision.profile} {decision.digest}", fix=FIX_PARTS)
    for path, statement in parts.statements.items():
        if statement.image_digest != image.digest:
            raise InputError(f"{path}: is about {statement.image_digest}, not about {image.digest}", fix=FIX_PARTS)
    for target in targets:
        if gone := [path for path in target.evidence if path not in given]:
            raise InputError(f"target {target.name}: {', '.join(gone)}: is not given", fix=FIX_PARTS)


def _check_sizes(files: Mapping[str, bytes]) -> None:
    """What could not be read again is not written."""
    large = [path for path, data in files.items() if len(data) > MAX_FILE_BYTES]
    if large or len(files) > MAX_FILES or sum(map(len, files.values())) > MAX_BYTES:
        raise InputError(
            f"too much for a bundle: {len(files)} files, {sum(map(len, files.values())) >> 20} MiB"
            + "".join(f"; {path} is too large" for path in large),
            fix="leave out what is not about this release",
        )


def _refuse_existing(folder: Path) -> None:
    if os.path.lexists(folder):
        raise RefusedError(f"{folder}: exists already, and a release is never overwritten", fix="name another folder")


def _write_files(partial: Path, files: Mapping[str, bytes]) -> None:
    """All files, each on the disk before the next; the signature last: without it nothing looks like a bundle."""
    remove_tree(partial)
    partial.mkdir(parents=True)
    for path in sorted(files, key=lambda name: (name == RELEASE, name in MADE_LAST, name)):
        target = partial / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with naming(target), open(target, "xb") as file:
            file.write(files[path])
            file.flush()
            os.fsync(file.fileno())
    for inside in (*(place for place in partial.rglob("*") if place.is_dir()), partial):
        sync_folder(inside)


def _sweep(folder: Path) -> None:
    """Remove what killed writers of this very bundle left."""
    mine = re.compile(rf"\.{re.escape(folder.name)}\.(\d+)\.\d+\.partial")
    with contextlib.suppress(FileNotFoundError):
        for place in folder.parent.iterdir():
            found = mine.fullmatch(place.name)
            if found and int(found[1]) != os.getpid() and not os.path.exists(f"/proc/{found[1]}"):
                remove_tree(place)
