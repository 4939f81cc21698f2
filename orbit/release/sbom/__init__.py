"""What an image holds, read from the image: a bill of materials in two formats, its licences, and whether it is all.

::

    inventory = take_inventory(image, cache=..., progress=...)    components, findings
    write_sboms(layout, folder, cache=..., progress=...)          sbom.cdx.json, sbom.spdx.json
"""

from __future__ import annotations

from orbit.release.sbom.inventory import take_inventory
from orbit.release.sbom.write import write_sboms

__all__ = ["take_inventory", "write_sboms"]
