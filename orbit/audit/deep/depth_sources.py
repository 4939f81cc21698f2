"""Where the device code of a target is read from: files on disk, members of wheels, members of image layers.

Members of archives are read once from front to back: :func:`orbit.audit.deep.depth.read_depth` asks for the images of
a file in the order in which they lie in it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from orbit.audit.archives.wheels import members_of
from orbit.audit.archives.zip_source import MemberDamage, NotZip, ZipSource
from orbit.audit.deep.depth import Depth, OpenBytes, Slices, read_depth
from orbit.audit.facts import Environment
from orbit.audit.images.opened import open_layers
from orbit.audit.images.tar_stream import TarStream
from orbit.audit.targets import Target
from orbit.core.console import Progress
from orbit.errors import InputError
from orbit.profile.model import Profile


class Forward:
    """The bytes of a stream as slices, each further on than the one before; behind it there is nothing left."""

    def __init__(self, pieces: Iterable[bytes | memoryview]) -> None:
        self._pieces = iter(pieces)
        self._piece = memoryview(b"")
        self._start = 0
        """Position in the stream of the first byte of ``_piece``."""

    def __getitem__(self, key: slice, /) -> bytes:
        position, stop = key.start or 0, key.stop or 0
        parts: list[bytes] = []
        while position >= self._start and position < stop:
            inside = position - self._start
            if inside >= len(self._piece):
                self._start += len(self._piece)
                self._piece = memoryview(next(self._pieces, b""))
                if not self._piece:
                    break
                continue
            part = self._piece[inside : inside + stop - position]
            parts.append(bytes(part))
            position += len(part)
        return b"".join(parts)


def read_target_depth(target: Target, env: Environment, profile: Profile, progress: Progress) -> Depth:
    """The kernels of a target whose facts are ``env``.

    Raises :class:`orbit.errors.InputError` for an image that only streams by.
    """
    root, targets = env.layout.prefix, profile.targets
    if env.kind == "wheels":
        opener = wheel_opener(target, env, profile)
        return read_depth(root, env.objects, targets, progress, open_bytes=opener)
    if env.kind == "image":
        layers = LayerFiles(env.origins, open_layers(target.spec))
        return read_depth(root, env.objects, targets, progress, open_bytes=layers.open, order=env.origins.__getitem__)
    return read_depth(root, env.objects, targets, progress)


def wheel_opener(target: Target, env: Environment, profile: Profile) -> OpenBytes:
    """Opens files of wheels by the path they would be installed at."""
    places = members_of(target.paths, profile, env.layout)

    @contextlib.contextmanager
    def opened(path: str) -> Iterator[Slices]:
        try:
            wheel, name = places[path]
            with ZipSource(wheel) as source:
                member = {member.name: member for member in source.members}[name]
                yield Forward(source.stream(member))
        except KeyError:
            raise OSError(0, "not in its wheel any more") from None
        except (MemberDamage, NotZip) as error:
            raise OSError(0, str(error)) from None

    return opened


class LayerFiles:
    """Opens files of image layers. Each thread goes through a layer once, as long as it asks in the files' order."""

    def __init__(self, origins: Mapping[str, tuple[int, int]], layers: Sequence[Callable[[], Iterator[bytes]]]) -> None:
        self._origins = origins
        self._layers = layers
        self._local = threading.local()

    @contextlib.contextmanager
    def open(self, path: str) -> Iterator[Slices]:
        """The bytes of the file at ``path`` of the image. Raises OSError when its layer has changed."""
        layer, number = self._origins[path]
        cursor: _Cursor | None = getattr(self._local, "cursor", None)
        try:
            if cursor is None or cursor.layer != layer or cursor.number >= number:
                cursor = self._local.cursor = _Cursor(layer, self._layers[layer]())
            yield Forward(cursor.content(number))
        except InputError as error:
            self._local.cursor = None
            raise OSError(0, error.what) from None


class _Cursor:
    """A place in the tar stream of a layer."""

    def __init__(self, layer: int, pieces: Iterator[bytes]) -> None:
        self.layer = layer
        self.number = -1
        self._stream = TarStream(pieces, f"layer {layer}")
        self._members = iter(self._stream)

    def content(self, number: int) -> Iterator[memoryview]:
        """The bytes of a member further on. Raises :class:`InputError` when the stream has no such member."""
        while self.number < number:
            if next(self._members, None) is None:
                raise InputError(f"layer {self.layer} has fewer members than before", fix="get the image again")
            self.number += 1
        return self._stream.content()
