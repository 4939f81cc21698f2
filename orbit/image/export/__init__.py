"""The formats an image goes out in, each one file of bytes that depend on the image alone.

``formats`` is the operation; ``archive`` writes tar files of the layout and of docker's own format, ``merge`` joins the
layers into one tree, ``squashfs`` and ``sif`` make file system images of it. Page: docs/image-distribution.md.
"""

from __future__ import annotations

from typing import Literal, get_args

Format = Literal["oci-archive", "docker-archive", "squashfs", "sif"]
FORMATS: tuple[Format, ...] = get_args(Format)
