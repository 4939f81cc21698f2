"""Libraries that distributions carry."""

from __future__ import annotations

from pathlib import Path

from tests.release.sbom.material import SITE, Files, dist, make, one, taken
from tests.writers.elf import write_elf


def test_extension_modules_are_no_libraries_and_the_number_in_a_name_is_no_release(tmp_path: Path) -> None:
    def change(files: Files) -> None:
        parts = {
            "odd.cpython-312-x86_64-linux-gnu.so": write_elf(),
            "odd/libplain.so": write_elf(),
            "odd/lib/libcudart.so.13": write_elf(soname="libcudart.so.13"),
            "odd/data.bin": b"no ELF",
            "odd.libs/strange-name.so.3": write_elf(soname="libstrange.so.3"),
        }
        files |= dist("odd-one", "0.1", {"odd.py": b"", **parts})

    inventory = taken(make(tmp_path / "image", change))
    carried = {item.name: item for item in inventory.components if item.inside == one(inventory, "odd-one").ref}
    assert set(carried) == {"libplain.so", "libcudart.so.13", "libstrange.so.3"}
    assert carried["libstrange.so.3"].notes == {"soname": "libstrange.so.3", "grafted": "true", "interface": "3"}
    assert carried["libplain.so"].notes == {}
    assert carried["libplain.so"].paths == (f"/{SITE}/odd/libplain.so",)
    assert all(item.version == "" and item.licence.unknown for item in carried.values())
