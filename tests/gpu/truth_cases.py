"""What :mod:`tests.gpu.loading_truth` compiles: lists of architectures, ways of linking, kernels that do nothing."""

from __future__ import annotations

from dataclasses import dataclass

PREAMBLE = r"""
#include <cassert>
#include <cstdio>
#if defined(__CUDA_ARCH_SPECIFIC__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define MARK (__CUDA_ARCH__ * 10 + 2)
#elif defined(__CUDA_ARCH_FAMILY_SPECIFIC__)
#define MARK (__CUDA_ARCH__ * 10 + 1)
#elif defined(__CUDA_ARCH__)
#define MARK (__CUDA_ARCH__ * 10)
#else
#define MARK 0
#endif
#define OP(name) extern "C" __global__ void name(int* p)
"""
"""Each kernel writes which architecture it was compiled for: ``__CUDA_ARCH__`` and a digit for the suffix."""

LAUNCH = r"""
extern "C" int run_{kernel}(int* value) {{
  int* p = nullptr;
  *value = 0;
  if (cudaError_t error = cudaMalloc(&p, 256)) return error;
  if (cudaError_t error = cudaMemset(p, 0, 256)) return error;
  {kernel}<<<1, 32>>>(p);
  if (cudaError_t error = cudaGetLastError()) return error;
  if (cudaError_t error = cudaDeviceSynchronize()) return error;
  return cudaMemcpy(value, p, 4, cudaMemcpyDeviceToHost);
}}
"""


@dataclass(frozen=True, slots=True)
class Unit:
    """One translation unit."""

    archs: tuple[str, ...]
    """``sm_90a``, ``compute_90`` (PTX), ``lto_90``."""
    bodies: tuple[tuple[str, str], ...] = (("op", "OP(op) { *p = MARK; }"),)
    """(name, source) of its kernels."""

    @property
    def source(self) -> str:
        """The CUDA C++ text."""
        return PREAMBLE + "".join(body + LAUNCH.format(kernel=name) for name, body in self.bodies)


@dataclass(frozen=True, slots=True)
class Case:
    """One shared object."""

    name: str
    units: tuple[Unit, ...]
    options: tuple[str, ...] = ()
    """Of the compiler, and of the linker too."""
    link: tuple[str, ...] | None = None
    """Architectures of nvcc's device link; None: the host's linker alone, as for an extension module."""

    @property
    def relocatable(self) -> bool:
        """Whether device code is linked after it was compiled."""
        return "-rdc=true" in self.options


def one(*archs: str, name: str = "", options: tuple[str, ...] = (), link: tuple[str, ...] | None = None) -> Case:
    """One unit with the one kernel ``op``."""
    return Case(name or "+".join(archs), (Unit(archs),), options, link)


LISTS = tuple(
    one(*text.split())
    for text in (
        "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_103", "sm_103a",
        "sm_110", "sm_120", "sm_120a", "sm_120f", "sm_121",
        "compute_75", "compute_80", "compute_89", "compute_90", "compute_90a", "compute_100", "compute_100a",
        "compute_100f", "compute_120", "compute_120f",
        "sm_80 compute_80", "sm_80 sm_86 sm_89 compute_89", "sm_90 compute_90", "sm_90a compute_90a", "sm_80 sm_90",
        "sm_80 sm_90a", "sm_90 sm_90a", "sm_80 sm_90 sm_90a sm_100a", "sm_100a compute_90", "sm_100a compute_90a",
        "sm_100a compute_100", "sm_100 sm_120 compute_120", "sm_80 compute_90", "compute_80 compute_90",
        "compute_80 compute_90 compute_100", "compute_90 compute_90a", "sm_90 compute_90a", "sm_90a compute_90",
        "sm_90 compute_80", "sm_90 compute_100", "sm_80 compute_80 sm_100a",
    )
)  # fmt: skip
"""What build systems ask for, rightly and wrongly."""

PACKED = tuple(
    one(*archs, name=f"{'+'.join(archs)} {label}", options=options)
    for archs in (("sm_80", "sm_90"), ("sm_80", "compute_80"), ("sm_90a", "compute_90a"), ("sm_100a", "compute_100"))
    for label, options in (
        ("not compressed", ("--compress-mode=none",)),
        ("compressed for size", ("--compress-mode=size", "-Xfatbin=-compress-all")),
        ("compressed for speed", ("--compress-mode=speed", "-Xfatbin=-compress-all")),
    )
)


def _named(name: str, archs: tuple[str, ...]) -> Unit:
    return Unit(archs, ((name, f"OP({name}) {{ *p = MARK; }}"),))


RELOCATABLE = (
    *(one(*archs, name=f"rdc {'+'.join(archs)}", options=("-rdc=true",), link=archs)
      for archs in (
          ("sm_90",), ("sm_90a",), ("sm_80",), ("sm_100a",), ("sm_80", "sm_90"), ("sm_80", "compute_80"),
          ("compute_80",), ("sm_90", "compute_90"), ("sm_100a", "compute_100"), ("sm_80", "sm_100a"),
      )),
    one("sm_80", "sm_90", name="rdc sm_80+sm_90 linked for sm_80", options=("-rdc=true",), link=("sm_80",)),
    one("sm_80", "sm_90", name="rdc sm_80+sm_90 linked for sm_90", options=("-rdc=true",), link=("sm_90",)),
    one("lto_90", name="lto_90 linked for sm_90", options=("-rdc=true", "-dlto"), link=("sm_90",)),
    one("lto_80", name="lto_80 linked for sm_80", options=("-rdc=true", "-dlto"), link=("sm_80",)),
    one("lto_80", name="lto_80 linked for sm_90", options=("-rdc=true", "-dlto"), link=("sm_90",)),
    one("lto_90", name="lto_90 linked for sm_100", options=("-rdc=true", "-dlto"), link=("sm_100",)),
    one("sm_80", "compute_80", name="rdc sm_80+compute_80 linked for sm_90", options=("-rdc=true",), link=("sm_90",)),
    *(Case(f"rdc, {'+'.join(x)} and {'+'.join(y)}, linked for {link}", (_named("x", x), _named("y", y)),
           ("-rdc=true",), (link,))
      for x, y, link in (
          (("sm_80", "sm_90"), ("sm_80", "sm_90"), "sm_80"),
          (("sm_80", "sm_90"), ("sm_80",), "sm_80"),
          (("sm_80", "sm_90"), ("sm_80",), "sm_90"),
          (("sm_80", "sm_90"), ("sm_80", "compute_80"), "sm_80"),
          (("sm_80", "sm_90"), ("sm_80", "compute_80"), "sm_90"),
          (("sm_80", "compute_80"), ("sm_80", "compute_80"), "sm_80"),
      )),
)  # fmt: skip

SEVERAL = (
    Case("two units, one missed", (_named("good", ("sm_80", "sm_90")), _named("missed", ("sm_80",)))),
    Case("three units, three lists",
         (_named("a", ("sm_90a",)), _named("b", ("compute_80",)), _named("c", ("sm_100",)))),
    Case("two units, one with PTX only", (_named("good", ("sm_90",)), _named("jitted", ("compute_80",)))),
    Case("two units, both whole", (_named("x", ("sm_80", "sm_90")), _named("y", ("sm_90a", "sm_100a")))),
    Case("rdc, two units", (_named("x", ("sm_80", "sm_90")), _named("y", ("sm_80", "sm_90"))), ("-rdc=true",),
         ("sm_80", "sm_90")),
    Case("linked by nvcc with its default list", (_named("op", ("sm_90",)),), (), ("sm_75",)),
    Case("linked by nvcc for another device", (_named("op", ("sm_90",)),), (), ("sm_100a",)),
    Case("a unit without kernels", (_named("op", ("sm_90",)), Unit(("sm_80",), ()))),
)  # fmt: skip

GUARDED = r"""
#define GUARD_TEXT "ERROR : Arch conditional MMA instruction used without targeting sm90a. Aborting.\n"
#if __CUDA_ARCH_FEAT_SM90_ALL || __CUDA_ARCH__ >= 1000
#define WRITE(other) *p = MARK;
#else
#define WRITE(other) other
#endif
"""
GUARDS = (
    ("else_nothing_sm90", GUARDED + "OP(else_nothing_sm90) { WRITE() }"),
    ("else_trap_sm90", "OP(else_trap_sm90) { WRITE(__trap();) }"),
    ("else_assert_sm90", 'OP(else_assert_sm90) { WRITE(assert(false && "built without sm90a");) }'),
    ("else_print_sm90", 'OP(else_print_sm90) { WRITE(if (threadIdx.x == 0) printf(GUARD_TEXT);) }'),
    ("else_locals_sm90", "OP(else_locals_sm90) { WRITE(volatile int x[4]; x[threadIdx.x & 3] = 1;) }"),
    ("else_old_way_sm90", "OP(else_old_way_sm90) { WRITE(*p = MARK;) }"),
)  # fmt: skip

ASYNC = r"""
OP(bulk_store) {
  __shared__ alignas(16) int s[4];
  s[threadIdx.x & 3] = MARK;
  __syncthreads();
  asm volatile("fence.proxy.async;" ::: "memory");
  if (threadIdx.x == 0)
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 16;\n cp.async.bulk.commit_group;\n"
                 "cp.async.bulk.wait_group 0;" :: "l"(__cvta_generic_to_global(p)),
                 "r"((unsigned)__cvta_generic_to_shared(s)) : "memory");
}
"""
REDUCE = r"""
OP(bulk_reduce) {
  __shared__ alignas(16) int s[4];
  s[threadIdx.x & 3] = MARK;
  __syncthreads();
  asm volatile("fence.proxy.async;" ::: "memory");
  if (threadIdx.x == 0)
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32 [%0], [%1], 16;\n"
                 "cp.async.bulk.commit_group;\n cp.async.bulk.wait_group 0;" :: "l"(__cvta_generic_to_global(p)),
                 "r"((unsigned)__cvta_generic_to_shared(s)) : "memory");
}
"""
CALLED = r"""
__device__ __noinline__ void helper(int* p, int v) { *p = v; }
__device__ __noinline__ void other(int* p, int v) { p[1] = v; *p = v; }
OP(calls) { helper(p, MARK); }
"""
POINTER = r"""
__device__ void (*volatile chosen)(int*, int) = helper;
OP(calls_by_pointer) { chosen(p, MARK); }
"""
WORKING = (
    ("stores", "OP(stores) { *p = MARK; }"),
    ("stores_wide", "OP(stores_wide) { if (threadIdx.x == 0) *(int4*)p = make_int4(MARK, 1, 2, 3); }"),
    ("adds", "OP(adds) { if (threadIdx.x == 0) atomicAdd(p, MARK); }"),
    ("exchanges", "OP(exchanges) { atomicExch(p, MARK); }"),
    ("compares", "OP(compares) { atomicCAS(p, 0, MARK); }"),
    ("maximum", "OP(maximum) { atomicMax(p, MARK); }"),
    ("stores_system", 'OP(stores_system) { asm volatile("st.relaxed.sys.s32 [%0], %1;" :: "l"(p), "r"(MARK)); }'),
    ("releases", 'OP(releases) { asm volatile("st.release.gpu.s32 [%0], %1;" :: "l"(p), "r"(MARK) : "memory"); }'),
    ("reduces", 'OP(reduces) { asm volatile("red.relaxed.gpu.max.s32 [%0], %1;" :: "l"(p), "r"(MARK) : "memory"); }'),
    ("bulk_store", ASYNC),
    ("bulk_reduce", REDUCE),
    ("calls", CALLED),
    ("calls_by_pointer", POINTER),
    ("one_thread", "OP(one_thread) { if (threadIdx.x != 31) return; *p = MARK; }"),
    ("prints_and_stores", 'OP(prints_and_stores) { *p = MARK; if (p[5]) printf("never %d\\n", p[5]); }'),
    ("asserts_and_stores", "OP(asserts_and_stores) { assert(p != nullptr); *p = MARK; }"),
    ("waits", 'OP(waits) { asm volatile("griddepcontrol.wait;" ::: "memory"); *p = MARK; }'),
    ("loops", "OP(loops) { for (int i = 0; i < 8; i++) p[i] = MARK; }"),
)  # fmt: skip
IDLE = (
    ("nothing", "OP(nothing) {}"),
    ("thinks", "OP(thinks) { volatile int x[2]; x[threadIdx.x & 1] = MARK; }"),
    ("returns", "OP(returns) { if (threadIdx.x == 3) return; }"),
    ("traps", "OP(traps) { __trap(); }"),
    ("traps_sometimes", "OP(traps_sometimes) { if (threadIdx.x == 7) __trap(); }"),
    ("asserts", 'OP(asserts) { assert(false && "never for this device"); }'),
    ("prints", 'OP(prints) { printf("nothing to do here\\n"); }'),
    ("prints_number", 'OP(prints_number) { if (threadIdx.x == 0) printf("%d is not for this device\\n", MARK); }'),
    ("prints_and_traps", 'OP(prints_and_traps) { printf("wrong device\\n"); __trap(); }'),
    ("launches_next", 'OP(launches_next) { asm volatile("griddepcontrol.launch_dependents;"); }'),
)  # fmt: skip
BODIES = tuple(
    Case(f"{what} {arch}{label}", (Unit((arch,), bodies),), options)
    for what, bodies in (("guarded", GUARDS), ("working", WORKING), ("idle", IDLE))
    for arch in ("sm_90", "sm_90a")
    for label, options in (("", ()), (" with lines", ("-lineinfo", "-O1")), (" rdc", ("-rdc=true",)))
)
"""Kernels that write and kernels that do not: what the deep reader says of each against what the device does."""
BODY_NAMES = frozenset(case.name for case in BODIES)


def linked(case: Case) -> Case:
    """``case`` with a device link for its own list where relocatable code needs one."""
    if case.relocatable and case.link is None:
        return Case(case.name, case.units, case.options, case.units[0].archs)
    return case


CASES = tuple(linked(case) for case in (*LISTS, *PACKED, *RELOCATABLE, *SEVERAL, *BODIES))
