"""What is known of libraries and symbols: the files load, are consistent, and mistakes in them are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.audit.known.knowledge import (
    MIN_ANCHOR,
    anchor,
    libraries,
    load_libraries,
    load_symbols,
    major_of,
    matcher,
    symbol_family,
    symbols,
)
from orbit.core.paths import data_file
from orbit.errors import InputError

LIBRARIES = data_file("kernels", "expectations", "libraries.toml")
SYMBOLS = data_file("kernels", "expectations", "symbols.toml")


def test_every_search_starts_with_plain_text() -> None:
    texts = [text.encode("latin-1") for family in libraries().families for text in family.texts]
    assert len(texts) >= 6
    for text in texts:
        assert len(anchor(text)) >= MIN_ANCHOR
        assert text.replace(b"\\.", b".").startswith(anchor(text))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (rb"NCCL version (\d+)", b"NCCL version "),
        (rb"libcublas\.so\.(\d+)", b"libcublas.so."),
        (rb"abcd*x", b"abc"),
        (rb"abcd?x", b"abc"),
        (rb"\xc7\x07", b""),
        (rb"(\d+)", b""),
    ],
)
def test_plain_text_at_the_start_of_a_pattern(pattern: bytes, text: bytes) -> None:
    assert anchor(pattern) == text


@pytest.mark.parametrize(
    ("name", "soname", "family"),
    [
        ("libnccl.so.2.28.9", "libnccl.so.2", "NCCL"),
        ("libcudnn_ops.so.9", "libcudnn_ops.so.9", "cuDNN"),
        ("libcudart.faf08d9a.so.13", "libcudart.so.13", "CUDA runtime"),
        ("libgomp-6a29c32d.so.1.0.0", "libgomp-6a29c32d.so.1.0.0", "GNU OpenMP"),
        ("libcublasLt.so.13", "", "cuBLASLt"),
        ("libnccl-net.so", "libnccl-net.so", ""),
        ("libcudart_stub.so", "libcudart_stub.so", ""),
    ],
)
def test_family_of_a_file(name: str, soname: str, family: str) -> None:
    found = libraries().family_of(name, soname)
    assert (found.name if found else "") == family


@pytest.mark.parametrize(
    ("symbol", "family"),
    [
        ("_ZN3c105ErrorC2ENS_14SourceLocationESs", "torch"),
        ("_ZNK2at10TensorBase4sizeEv", "torch"),
        ("_ZTIN3c105ErrorE", "torch"),
        ("_ZN5torch8autograd4NodeD2Ev", "torch"),
        ("aoti_torch_delete_tensor_object", "torch"),
        ("ncclCommInitRank", "NCCL"),
        ("pncclSend", "NCCL"),
        ("cudnnCreate", "cuDNN"),
        ("cublasLtMatmul", "cuBLAS"),
        ("cudaMalloc", "CUDA runtime"),
        ("__cudaRegisterFatBinary", "CUDA runtime"),
        ("nvshmemx_init_attr", "NVSHMEM"),
        ("_ZN5arrow6StatusD1Ev", "Arrow"),
        ("cuMemAlloc_v2", ""),
        ("_ZN3c10xE", ""),
        ("_ZN10torchaudio4loadEv", ""),
        ("_ZN4c10d7StoreE", ""),
        ("PyErr_Format", ""),
        ("ncclients", ""),
    ],
)
def test_family_of_a_symbol(symbol: str, family: str) -> None:
    assert symbol_family(symbol) == family


def test_cuda_majors() -> None:
    assert major_of("libcudart.so.12", libraries().majors) == "12"
    assert major_of("libcusparse.so.12", libraries().majors) == ""


def test_the_drivers_files() -> None:
    driver = libraries().driver
    assert driver.has("libcuda.so.580.95.05")
    assert not driver.has("libnvidia-container.so.1")
    assert not driver.has("libcuda_stub.so")


def test_matcher_of_nothing_matches_nothing() -> None:
    assert not matcher(())("")
    assert matcher(("lib*.so", "x"))("libm.so")


def test_every_member_of_a_symbol_family_has_somebody_to_ask() -> None:
    assert all(family.libraries and family.symbols for family in symbols().families)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("schema = 1", "schema = 2", "schema 2"),
        ("'NVSHMEM v(", "'(", "NVSHMEM"),
        ("'NVSHMEM v(", "'NVSHMEM v((", "NVSHMEM"),
        ('name = "cuDNN"', 'name = "NCCL"', "declared twice"),
        ('mixed = "note"', 'mixed = "fatal"', "fatal"),
        ('copies = "note"', 'copy = "note"', "copy"),
    ],
)
def test_mistakes_in_the_libraries_file(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = LIBRARIES.read_text()
    assert old in text
    path = tmp_path / "libraries.toml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        load_libraries(path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("schema = 1", "schema = 0", "schema 0"),
        ("'TVMFFI[A-Z]'", "'TVMFFI[A-Z'", "TVM FFI"),
        ('"Arrow"', '"NCCL"', "twice"),
    ],
)
def test_mistakes_in_the_symbols_file(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "symbols.toml"
    path.write_text(SYMBOLS.read_text().replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        load_symbols(path)
