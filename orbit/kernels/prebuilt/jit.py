"""Packages that compile at run time: prove that they can, with the lock's compiler and without a GPU.

What a package would compile on each target is compiled here: its own source text, its own flags, a toolkit put together
the way an environment has it (:func:`orbit.env.cuda_home.link_farm`). Of the result the architecture, the kernels and
the instructions are read. What cannot be seen this way is whether the code runs right: that takes the device.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from orbit.audit.binary.cubin import DeviceCode, read_cubin
from orbit.audit.binary.payload import MalformedImage
from orbit.core.console import Progress
from orbit.core.files import tree_hash
from orbit.core.findings import Finding, error_finding
from orbit.core.paths import data_file
from orbit.core.proc import run
from orbit.env.cuda_home import link_farm
from orbit.errors import CheckFailed, CommandFailed, InputError
from orbit.kernels.capabilities import loads
from orbit.kernels.prebuilt.generated import Generator, digest, flags_for, missing_texts, source_of
from orbit.kernels.prebuilt.listing import count, disassemble, operations
from orbit.kernels.prebuilt.record import JitProof, Probed
from orbit.kernels.recipe import JitUse, Probe, Recipe
from orbit.kernels.toolchain import compiler_release, host_toolchain
from orbit.profile.model import GpuTarget, Profile

TEXT = "kernel-jit-text"
PROBE = "kernel-probe"
TIMEOUT_S = 900.0


@dataclass(frozen=True, slots=True)
class Bench:
    """Where probes are compiled."""

    recipe: Recipe
    use: JitUse
    site: Path
    """The wheel, unpacked."""
    cuda: Path
    """CUDA_HOME."""
    nvdisasm: Path
    scratch: Path
    generator: Generator


def prove(
    recipe: Recipe, wheel: Path, profile: Profile, *, environment_site: Path, nvdisasm: Path, scratch: Path,
    progress: Progress,
) -> tuple[JitProof, tuple[Finding, ...]]:  # fmt: skip
    """Compile the recipe's probes for the targets of ``profile``.

    ``environment_site``: site-packages with the lock's CUDA compiler. ``scratch``: an empty folder; the caller removes
    it. Raises :class:`orbit.errors.MissingError` without g++, :class:`CheckFailed` when the package's texts are not
    there at all.
    """
    use = recipe.jit
    assert use is not None
    site, cuda = scratch / "site", scratch / "cuda"
    unpack(wheel, site)
    cuda.mkdir()
    link_farm(environment_site, cuda, relative=False)
    generator = Generator(use.generator, _read(site, use.generator))
    bench = Bench(recipe, use, site, cuda, nvdisasm, scratch, generator)
    findings = [
        error_finding(
            TEXT, use.generator, "does not have a text that its recipe counts on", {"text": text},
            "the release compiles with other flags, or names its cache by other things: correct the recipe's [jit]",
        )
        for text in missing_texts(use, generator)
    ]  # fmt: skip
    probes = []
    for target in profile.targets:
        for probe in probes_for(recipe, target):
            progress.step(f"{recipe.name}: compiling {probe.name} for {target.name} ({probe.arch})")
            made, found = _probe(bench, probe, target)
            probes += [made] if made else []
            findings += found
    findings += without_probe(recipe, profile)
    headers = [path for folder in use.include for path in (site / folder).rglob("*") if path.is_file()]
    return (
        JitProof(
            compiler=compiler_release(bench.cuda),
            host_compiler=host_toolchain(),
            flags=flags_for(use, include="{include}", arch="sm_{arch}"),
            headers=len(headers),
            headers_sha256=digest("".join(tree_hash(site / folder) for folder in use.include).encode()),
            cache_variable=use.cache_variable,
            keyed=use.keyed,
            unkeyed=use.unkeyed,
            probes=tuple(probes),
        ),
        tuple(findings),
    )


def probes_for(recipe: Recipe, target: GpuTarget) -> tuple[Probe, ...]:
    """The probes that say something about ``target``."""
    return tuple(probe for probe in recipe.probes if probe.capability == target.capability)


def without_probe(recipe: Recipe, profile: Profile) -> Iterator[Finding]:
    """One finding per target that no probe is for: nothing was proved for it."""
    for target in profile.targets:
        if not probes_for(recipe, target):
            yield error_finding(
                PROBE, f"{recipe.name}: {target.name}", f"has no probe for capability {target.capability}", {},
                f"add [[probes]] with capability = \"{target.capability}\" to kernels/recipes/{recipe.name}.toml",
            )  # fmt: skip


def unpack(wheel: Path, site: Path) -> None:
    """The files of a wheel whose sha256 was checked. Raises :class:`InputError` for members that would leave it."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith("/") or ".." in name.split("/"):
                raise InputError(f"{wheel.name}: member {name!r} would leave the folder it is unpacked to")
        archive.extractall(site)


def judge_cubin(
    probe: Probe, code: DeviceCode, instructions: dict[str, int], subject: str, capability: str
) -> Iterator[Finding]:
    """What is wrong with the result of a probe: wrong architecture, no kernel, a kernel that does nothing, code without
    the instructions that are the point of it."""
    shown = {"probe": probe.name, "architecture": code.arch, "kernels": str(len(code.kernels))}
    if code.arch != probe.arch or not loads(probe.arch, capability):
        fix = "look at the compiler's command line: the package asks for another architecture than the recipe says"
        yield error_finding(PROBE, subject, f"is code for {code.arch or 'nothing'}, not for {probe.arch}", shown, fix)
    if not code.kernels:
        nothing = "the source text instantiates nothing: see the recipe"
        yield error_finding(PROBE, subject, "holds no kernel", shown, nothing)
    for kernel in code.kernels:
        if kernel.stub:
            yield error_finding(
                PROBE, subject, "holds a kernel that does nothing: its code is guarded away for this architecture",
                {**shown, "kernel": kernel.name, "what": kernel.stub, "says": kernel.says},
                "compile for the architecture with the device's own instructions (suffix a or f)",
            )  # fmt: skip
    lacking = [name for name, number in instructions.items() if not number]
    if lacking:
        yield error_finding(
            PROBE, subject, f"holds no {', '.join(lacking)}", {**shown, "found": str(instructions)},
            "it was compiled without what makes it fast, or the recipe expects the wrong instructions",
        )  # fmt: skip


def _probe(bench: Bench, probe: Probe, target: GpuTarget) -> tuple[Probed | None, list[Finding]]:
    subject = f"{bench.recipe.name}: {probe.name}"
    folder = data_file("kernels", "probes", bench.recipe.name)
    try:
        source = source_of(probe, bench.generator, folder)
    except CheckFailed as error:
        return None, [error_finding(TEXT, subject, error.what, {}, error.fix)]
    work = bench.scratch / digest(f"{probe.name} {target.name}".encode())[:12]
    work.mkdir()
    (work / "kernel.cu").write_bytes(source)
    cubin = work / "kernel.cubin"
    include = str(bench.site / bench.use.include[0])
    flags = flags_for(bench.use, include=include, arch=probe.arch)
    try:
        run(
            [bench.cuda / "bin" / "nvcc", work / "kernel.cu", "-cubin", "-o", cubin, *flags],
            doing=f"compile {subject}",
            cwd=work,
            env={"CUDA_HOME": str(bench.cuda), "PATH": f"{bench.cuda / 'bin'}:{os.environ.get('PATH', '')}"},
            timeout_s=TIMEOUT_S,
        )
    except CommandFailed as error:
        fix = "the lock's compiler and the headers of the wheel do not go together: nothing of it would run"
        shown = {"arguments": " ".join(flags).replace(include, "{include}"), "says": error.tail[-2000:]}
        return None, [error_finding(PROBE, subject, f"does not compile for {probe.arch}", shown, fix)]
    try:
        code = read_cubin(cubin.read_bytes(), subject)
    except MalformedImage as error:
        return None, [error_finding(PROBE, subject, f"is no cubin: {error.what}", {}, "look at the compiler")]
    listing = disassemble(bench.nvdisasm, cubin)
    instructions = count(operations(listing), probe.expect)
    made = Probed(
        name=probe.name,
        target=target.name,
        arch=code.arch,
        source_sha256=digest(source),
        kernels=tuple(kernel.name for kernel in code.kernels),
        code_bytes=sum(kernel.code_bytes for kernel in code.kernels),
        listing_sha256=digest(listing.encode()),
        instructions=instructions,
    )
    return made, list(judge_cubin(probe, code, instructions, subject, target.capability))


def _read(site: Path, name: str) -> bytes:
    path = site / name
    if not path.is_file():
        raise CheckFailed(
            f"{name}: not in the wheel; its package would build it, or fail, at the first import",
            fix="lock a release that has it, or correct generator in the recipe's [jit]",
        )
    return path.read_bytes()
