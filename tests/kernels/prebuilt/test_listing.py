"""orbit.kernels.prebuilt.listing: operations are counted whatever stands around them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from orbit.errors import CommandFailed, InputError
from orbit.kernels.prebuilt.listing import count, disassemble, operations, unpack_tool
from tests.kernels.prebuilt.made import disassembler, program

LISTING = """
\t.target\tsm_90a
.text.product:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0080*/               @P0 BRA `(.L_x_0) ;
        /*1a40*/              @!P1 HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24, !UPT ;
        /*1a50*/             @!UP2 UTMALDG.2D [UR8], [UR6] ;
        /*10a60*/                   HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24, gsb0 ;
.L_x_0:
"""


def test_predicates_modifiers_and_long_addresses_do_not_matter() -> None:
    found = operations(LISTING)
    assert found == {"LDC": 1, "BRA": 1, "HGMMA": 2, "UTMALDG": 1}
    assert count(found, ("HGMMA", "QGMMA")) == {"HGMMA": 2, "QGMMA": 0}


def test_a_listing_holds_instructions_and_nothing_else(tmp_path: Path) -> None:
    shown = disassemble(disassembler(tmp_path / "nvdisasm", "MOV R1, R2", "EXIT"), tmp_path / "a.cubin")
    assert shown.splitlines() == ["/*0000*/                   MOV R1, R2 ;", "/*0010*/                   EXIT ;"]


def test_a_tool_that_fails_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=r"disassemble a\.cubin"):
        disassemble(program(tmp_path / "nvdisasm", "echo no cubin; exit 1"), tmp_path / "a.cubin")


def test_the_tool_comes_out_of_its_wheel(tmp_path: Path) -> None:
    wheel = tmp_path / "nvdisasm.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("nvidia/cu13/bin/nvdisasm", "#!/bin/sh\necho hello\n")
    tool = unpack_tool(wheel, tmp_path)
    assert tool.stat().st_mode & 0o111
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("nvidia/cu13/include/x.h", "")
    with pytest.raises(InputError, match="holds no nvdisasm"):
        unpack_tool(wheel, tmp_path)
