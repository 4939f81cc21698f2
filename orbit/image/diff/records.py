"""The result of comparing two images: records with a published schema (docs/schemas/image-diff.json)."""

from __future__ import annotations

from orbit.audit.reports.diff import Change
from orbit.core.findings import Skipped
from orbit.core.records import Record
from orbit.kernels.wheels.binaries import BinaryDifference

SCHEMA = "orbit.image-diff/1"


class ContentDifference(Record, frozen=True, kw_only=True):
    """Why two files of one name have other bytes."""

    name: str = ""
    """Of a member of an archive; empty for the file itself."""
    form: str
    """``elf``, ``pyc``, ``zip``, ``tar``, ``ar``, ``gzip``, ``text``, ``data``, or ``missing`` for a member that only
    one side has."""
    left_bytes: int | None
    right_bytes: int | None
    causes: tuple[str, ...]
    """Keys of :data:`orbit.image.diff.causes.CAUSES`."""
    fields: tuple[Change, ...] = ()
    """Fields of a header that differ."""
    lines_left: tuple[str, ...] = ()
    """For texts: lines that only one has and nothing explains, the first ones."""
    lines_right: tuple[str, ...] = ()
    num_lines_left: int = 0
    """For texts: how many lines only one has."""
    num_lines_right: int = 0
    first: int | None = None
    """For data: the first byte that differs."""
    differing_bytes: int | None = None
    """For data: how many differ place by place, and those that only the longer one has."""
    binary: BinaryDifference | None = None
    """For ELF files: section by section, and device code image by image."""
    inside: tuple[ContentDifference, ...] = ()
    """For archives: the members that differ."""


class FileSide(Record, frozen=True, kw_only=True):
    """One path on one side."""

    kind: str
    """``file``, ``folder``, ``link``, ``device`` or ``fifo``."""
    mode: str
    """Permissions, octal."""
    uid: int
    gid: int
    size: int
    target: str = ""
    """Of a symbolic link."""
    sha256: str = ""
    """Of a regular file."""
    layer: str = ""


class FileDifference(Record, frozen=True, kw_only=True):
    """One path that is not the same in both images."""

    path: str
    change: str
    """``added``, ``removed``, ``changed``, ``renamed`` (equal content under another name), ``moved`` (the same file in
    another layer)."""
    aspects: tuple[str, ...] = ()
    """What differs: ``content``, ``mode``, ``owner``, ``link``, ``kind``, ``layer``."""
    before: str = ""
    """The name of a renamed file in the left image."""
    left: FileSide | None
    right: FileSide | None
    content: ContentDifference | None = None
    why: str = ""
    """The probable cause in words; empty when contents were not looked into."""


class Group(Record, frozen=True, kw_only=True):
    """Differences of one distribution or Debian package, or of what nobody owns in one place."""

    kind: str
    """``python``, ``debian`` or ``other``."""
    name: str
    before: str
    """Version in the left image; empty when it is not there."""
    after: str
    counts: dict[str, int]
    """Files by change."""
    left_bytes: int
    """Of the files listed."""
    right_bytes: int
    causes: dict[str, int]
    """Files by cause of another content."""
    whys: dict[str, int]
    """Files by cause in words, most first."""
    files: tuple[FileDifference, ...]


class LayerDifference(Record, frozen=True, kw_only=True):
    """One layer of either image."""

    change: str
    """``same``, ``recompressed`` (the same tar stream in another blob), ``reordered``, ``changed``, ``added``,
    ``removed``."""
    left: str
    """Name; empty when only the right image has it."""
    right: str
    left_diff_id: str
    right_diff_id: str
    left_digest: str
    """Of the blob; empty when nothing says it."""
    right_digest: str
    left_bytes: int | None
    """Size of the blob."""
    right_bytes: int | None
    read: bool
    """Whether its files were compared. The same tar stream need not be read."""
    causes: tuple[str, ...] = ()
    """Why the streams of a changed layer differ: ``files``, or when those are equal ``member-order``, ``member-date``,
    ``archive-form``."""


class ImageSide(Record, frozen=True, kw_only=True):
    """One of the two images."""

    image: str
    """As it was asked for."""
    digest: str
    """``sha256:...`` of the manifest; of the configuration where there is none."""
    config: str
    """``sha256:...`` of the configuration."""


class ImageDiff(Record, frozen=True, kw_only=True):
    """Two images compared."""

    schema: str = SCHEMA
    left: ImageSide
    right: ImageSide
    equal: bool
    """Nothing differs."""
    config: tuple[Change, ...]
    """Fields of the configuration that differ, e.g. ``Env.PATH`` and ``Labels.NAME``; lists of layers left out."""
    manifest: tuple[Change, ...]
    """Fields of the manifest that differ, descriptors of layers and configuration left out."""
    layers: tuple[LayerDifference, ...]
    counts: dict[str, int]
    """Files by change, over all groups."""
    times: int
    """Files that differ in their time alone; these are not listed."""
    groups: tuple[Group, ...]
    causes: dict[str, int]
    """Files by cause of another content."""
    skipped: tuple[Skipped, ...]
    """What was not looked at, and why."""
