// Pieces of the block rotation kernels: bulk tensor copies, barriers, matrix products on 128-byte swizzled tiles.
//
// Every tile in shared memory is a column of boxes: 64 values (128 bytes) wide, some rows high, written by the copy
// engine with the 128-byte swizzle: the 16-byte chunk c of row r sits at chunk c ^ (r % 8). A box starts at a multiple of
// 1024 bytes. "K-major": a row runs along the summed index; "MN-major": a row runs along an index of the result.
// Instruction shapes, fragment layouts and the matrix descriptor are those of the PTX ISA 8.8, sections "Matrix
// multiply-accumulate operation using mma instruction", "Asynchronous Warpgroup Level Matrix Multiply-Accumulate" and
// "Tensor copies".
#pragma once

#include <cuda.h>
#include <type_traits>

#include "common.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define ORBIT_HAS_WGMMA 1
#else
#define ORBIT_HAS_WGMMA 0
#endif

namespace orbit::rotation {

constexpr int kBoxColumns = 64;                          // values in a row of a box: 128 bytes
constexpr int kTileRows = 64;                            // tokens in one tile
constexpr int kBoxBytes = kTileRows * kBoxColumns * 2;   // 8 KiB
constexpr int kGroupColumns = 128;                      // columns of x that a block of threads works on
constexpr int kStageBytes = 2 * kBoxBytes;               // their tile
constexpr int kGroupThreads = 128;                       // a warpgroup
constexpr int kThreads = 2 * kGroupThreads;
constexpr int kMaxStages = 16;
constexpr int kHeadBytes = 1024;                         // barriers; the boxes behind them start at multiples of it

// Who does what: blockIdx.y is the column group, blockIdx.x a share of its tiles. The shares of a group take its tiles in
// turns, so that all blocks of threads together walk through memory from front to back.
struct Share {
    int count;   // tiles of this block of threads

    __device__ explicit Share(int tiles) : count((tiles - static_cast<int>(blockIdx.x) + static_cast<int>(gridDim.x) - 1) / static_cast<int>(gridDim.x)) {}
    __device__ int row(int index) const { return (blockIdx.x + index * gridDim.x) * kTileRows; }
};

// R as it was given: [count or 1, size, size] contiguous, in the activations' type or float32.
struct Rotation {
    const void *data;
    int64_t stride;  // values from one block to the next; 0 when all share one
    int32_t size;    // b
    int32_t count;   // n
    bool is_float;
};

// --- barriers and the copy engine -------------------------------------------------------------------------------------

__device__ __forceinline__ uint32_t shared_address(const void *pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void barrier_init(uint64_t *barrier, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals));
}

__device__ __forceinline__ void barrier_expect(uint64_t *barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void barrier_arrive(uint64_t *barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Where the boxes of dynamic shared memory start.
__device__ __forceinline__ uint32_t boxes_after(const void *head) {
    const uint32_t address = shared_address(head);
    if (address % kHeadBytes != 0) __trap();   // the swizzle counts from there
    return address + kHeadBytes;
}

// The kernel may start before those ahead of it in the stream have ended; what they wrote is there after this.
__device__ __forceinline__ void wait_for_inputs() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// By one thread.
__device__ __forceinline__ void barrier_wait_alone(uint64_t *barrier, uint32_t parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(shared_address(barrier)), "r"(parity)
        : "memory");
}

// By whole warps.
__device__ __forceinline__ void barrier_wait(uint64_t *barrier, uint32_t parity) {
    barrier_wait_alone(barrier, parity);
    __syncwarp();
}

// Threads of one named barrier; 0 is __syncthreads.
template <int kCount> __device__ __forceinline__ void sync_threads(int name) {
    asm volatile("bar.sync %0, %1;" ::"r"(name), "n"(kCount) : "memory");
}

// Barriers are seen by the copy engine and by all threads.
__device__ __forceinline__ void barriers_ready() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    __syncthreads();
}

__device__ __forceinline__ void load_box(const CUtensorMap *map, uint64_t *barrier, uint32_t to, int column, int row) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
        ::"r"(to), "l"(map), "r"(column), "r"(row), "r"(shared_address(barrier))
        : "memory");
}

__device__ __forceinline__ void store_box(const CUtensorMap *map, uint32_t from, int column, int row) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
                 "r"(column), "r"(row), "r"(from)
                 : "memory");
}

// Boxes stored since the last call are one group; returns when all but the last kPending groups have been read out of
// shared memory.
__device__ __forceinline__ void group_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int kPending> __device__ __forceinline__ void stores_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

// Ordinary stores to shared memory before this are seen by the copy engine and by wgmma after the next barrier.
__device__ __forceinline__ void publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// --- values -----------------------------------------------------------------------------------------------------------

template <typename T> __device__ __forceinline__ uint32_t pack(float low, float high);
template <> __device__ __forceinline__ uint32_t pack<__nv_bfloat16>(float low, float high) {
    uint32_t bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}
template <> __device__ __forceinline__ uint32_t pack<__half>(float low, float high) {
    uint32_t bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

__device__ __forceinline__ uint32_t chunk_address(uint32_t box, int row, int chunk) {
    return box + row * 128 + ((chunk ^ (row & 7)) << 4);
}

// Eight values of a row of R, rounded to T, or zeros where the row has none.
template <typename T> __device__ __forceinline__ uint4 rotation_chunk(const Rotation &r, int block, int row, int column) {
    if (block >= r.count) return make_uint4(0, 0, 0, 0);
    const int64_t at = block * r.stride + static_cast<int64_t>(row) * r.size + column;
    if (!r.is_float) return __ldg(reinterpret_cast<const uint4 *>(static_cast<const T *>(r.data) + at));
    const float4 *from = reinterpret_cast<const float4 *>(static_cast<const float *>(r.data) + at);
    const float4 low = __ldg(from), high = __ldg(from + 1);
    return make_uint4(pack<T>(low.x, low.y), pack<T>(low.z, low.w), pack<T>(high.x, high.y), pack<T>(high.z, high.w));
}

// The rotations of one column group, by all threads. kDepth 64: one box of 64 rows for each 64 columns, in it as many
// blocks of R on the diagonal as fit; else the one block of kDepth rows, a box of kDepth rows for each 64 columns.
template <typename T, int kDepth> __device__ __forceinline__ void load_rotation(uint32_t to, const Rotation &r, int group) {
    constexpr int kChunks = kDepth * kGroupColumns / 8;
    static_assert(kChunks % kThreads == 0, "every thread copies the same number of chunks");
#pragma unroll
    for (int index = threadIdx.x; index < kChunks; index += kThreads) {
        const int row = index / (kGroupColumns / 8), chunk = index % (kGroupColumns / 8), box = chunk / 8;
        uint4 values;
        if constexpr (kDepth == 64) {
            const int column = (chunk % 8) * 8, block = (group * kGroupColumns + box * 64 + row) / r.size;
            const bool diagonal = row / r.size == column / r.size;
            values = diagonal ? rotation_chunk<T>(r, block, row % r.size, column % r.size) : make_uint4(0, 0, 0, 0);
        } else {
            values = rotation_chunk<T>(r, group, row, chunk * 8);
        }
        const uint32_t address = chunk_address(to + box * kDepth * 128, row, chunk % 8);
        asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(values.x), "r"(values.y),
                     "r"(values.z), "r"(values.w)
                     : "memory");
    }
}

// Writes a warp's 16 rows of one box from the accumulators of 64 columns.
template <typename T> __device__ __forceinline__ void write_rows(uint32_t box, int warp, const float *values) {
    const int lane = threadIdx.x % 32, row = warp * 16 + (lane & 15);
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
        const float *v = values + pair * 8;
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                         chunk_address(box, row, pair * 2 + lane / 16)),
                     "r"(pack<T>(v[0], v[1])), "r"(pack<T>(v[2], v[3])), "r"(pack<T>(v[4], v[5])),
                     "r"(pack<T>(v[6], v[7]))
                     : "memory");
    }
}

// --- matrix products --------------------------------------------------------------------------------------------------

enum class Major { kK, kMN };

// One operand in shared memory: 64 rows of A, or all columns of B, over the whole sum.
struct Operand {
    uint32_t address;
    uint32_t box_bytes;  // from one box to the next
};

#if ORBIT_HAS_WGMMA
// Address, then the distance between boxes, then between groups of eight rows, all in units of 16 bytes; swizzle 128.
__device__ __forceinline__ uint64_t descriptor(uint32_t address, uint32_t box_bytes) {
    return (uint64_t{1} << 62) | (uint64_t{1024 >> 4} << 32) | (static_cast<uint64_t>(box_bytes >> 4) << 16) |
           ((address & 0x3FFFF) >> 4);
}

// Where the operand continues after `step` times 16 terms of the sum.
template <Major kMajor> __device__ __forceinline__ uint64_t descriptor_at(const Operand &operand, int step) {
    if constexpr (kMajor == Major::kMN) return descriptor(operand.address + step * 2048, operand.box_bytes);
    return descriptor(operand.address + (step / 4) * operand.box_bytes + (step % 4) * 32, 16);
}

#define ORBIT_R4(a, i) "+f"(a[i]), "+f"(a[i + 1]), "+f"(a[i + 2]), "+f"(a[i + 3])
#define ORBIT_R16(a, i) ORBIT_R4(a, i), ORBIT_R4(a, i + 4), ORBIT_R4(a, i + 8), ORBIT_R4(a, i + 12)

template <typename T, int kColumns, Major kA, Major kB> struct Wgmma;

#define ORBIT_WGMMA_64(T, NAME)                                                                                        \
    template <Major kA, Major kB> struct Wgmma<T, 64, kA, kB> {                                                        \
        static __device__ __forceinline__ void issue(float *d, uint64_t a, uint64_t b, int add) {                      \
            asm volatile(                                                                                              \
                "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"                                                           \
                "wgmma.mma_async.sync.aligned.m64n64k16.f32." NAME "." NAME " {"                                       \
                "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                               \
                "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"                       \
                "}, %32, %33, p, 1, 1, %35, %36;\n}\n"                                                                 \
                : ORBIT_R16(d, 0), ORBIT_R16(d, 16)                                                                    \
                : "l"(a), "l"(b), "r"(add), "n"(int(kA == Major::kMN)), "n"(int(kB == Major::kMN)));                   \
        }                                                                                                              \
    };
#define ORBIT_WGMMA_128(T, NAME)                                                                                       \
    template <Major kA, Major kB> struct Wgmma<T, 128, kA, kB> {                                                       \
        static __device__ __forceinline__ void issue(float *d, uint64_t a, uint64_t b, int add) {                      \
            asm volatile(                                                                                              \
                "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"                                                           \
                "wgmma.mma_async.sync.aligned.m64n128k16.f32." NAME "." NAME " {"                                      \
                "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                               \
                "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                     \
                "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                     \
                "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"                       \
                "}, %64, %65, p, 1, 1, %67, %68;\n}\n"                                                                 \
                : ORBIT_R16(d, 0), ORBIT_R16(d, 16), ORBIT_R16(d, 32), ORBIT_R16(d, 48)                                \
                : "l"(a), "l"(b), "r"(add), "n"(int(kA == Major::kMN)), "n"(int(kB == Major::kMN)));                   \
        }                                                                                                              \
    };
ORBIT_WGMMA_64(__nv_bfloat16, "bf16")
ORBIT_WGMMA_64(__half, "f16")
ORBIT_WGMMA_128(__nv_bfloat16, "bf16")
ORBIT_WGMMA_128(__half, "f16")
#endif

// Four 8x8 matrices; lane l names row l % 8 of matrix l / 8.
__device__ __forceinline__ void load_matrices(uint32_t (&to)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address) : "memory");
}
__device__ __forceinline__ void load_transposed(uint32_t (&to)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address) : "memory");
}

#define ORBIT_MMA(NAME)                                                                                                \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." NAME "." NAME ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "    \
                 "{%8, %9}, {%0, %1, %2, %3};"                                                                         \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))

template <typename T> __device__ __forceinline__ void mma(float *d, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    if constexpr (std::is_same_v<T, __half>) {
        ORBIT_MMA("f16");
    } else {
        ORBIT_MMA("bf16");
    }
}

// A's 16 rows of this warp, 16 terms of the sum.
template <Major kMajor> __device__ __forceinline__ void load_a(uint32_t (&a)[4], const Operand &from, int warp, int step) {
    const int lane = threadIdx.x % 32, matrix = lane / 8;
    if constexpr (kMajor == Major::kK) {
        const int row = warp * 16 + lane % 8 + (matrix & 1) * 8, chunk = (step % 4) * 2 + matrix / 2;
        load_matrices(a, chunk_address(from.address + (step / 4) * from.box_bytes, row, chunk));
    } else {
        const int row = step * 16 + lane % 8 + (matrix / 2) * 8, chunk = warp * 2 + (matrix & 1);
        load_transposed(a, chunk_address(from.address, row, chunk));
    }
}

// 16 columns of B, 16 terms of the sum: both halves of the first eight columns, then of the others.
template <Major kMajor> __device__ __forceinline__ void load_b(uint32_t (&b)[4], const Operand &from, int pair, int step) {
    const int lane = threadIdx.x % 32, matrix = lane / 8;
    if constexpr (kMajor == Major::kK) {
        const int row = pair * 16 + lane % 8 + (matrix / 2) * 8, chunk = (step % 4) * 2 + (matrix & 1);
        load_matrices(b, chunk_address(from.address + (step / 4) * from.box_bytes, row, chunk));
    } else {
        const int row = step * 16 + lane % 8 + (matrix & 1) * 8, chunk = (pair % 4) * 2 + matrix / 2;
        load_transposed(b, chunk_address(from.address + (pair / 4) * from.box_bytes, row, chunk));
    }
}

// Which instructions multiply: wgmma where the code is compiled for it, unless the portable ones are asked for.
template <bool kPortable> constexpr bool kUseWgmma = ORBIT_HAS_WGMMA && !kPortable;

// D (64 rows by kColumns) = A B, or D += A B, over 16 * kSteps terms, by one warpgroup. With wgmma this only starts the
// product: start_products() first, then issue_products(), and D is there after wait_products() and settle(D).
template <typename T, bool kPortable, int kColumns, int kSteps, Major kA, Major kB>
__device__ __forceinline__ void multiply(float (&d)[kColumns / 2], Operand a, Operand b, bool add) {
#if ORBIT_HAS_WGMMA
    if constexpr (kUseWgmma<kPortable>) {
#pragma unroll
        for (int step = 0; step < kSteps; ++step)
            Wgmma<T, kColumns, kA, kB>::issue(d, descriptor_at<kA>(a, step), descriptor_at<kB>(b, step), add || step > 0);
        return;
    }
#endif
    const int warp = (threadIdx.x % kGroupThreads) / 32;
    if (!add)
#pragma unroll
        for (int index = 0; index < kColumns / 2; ++index) d[index] = 0.f;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
        uint32_t left[4], right[4];
        load_a<kA>(left, a, warp, step);
#pragma unroll
        for (int pair = 0; pair < kColumns / 16; ++pair) {
            load_b<kB>(right, b, pair, step);
            mma<T>(d + pair * 8, left, right[0], right[1]);
            mma<T>(d + pair * 8 + 4, left, right[2], right[3]);
        }
    }
}

template <bool kPortable> __device__ __forceinline__ void start_products() {
#if ORBIT_HAS_WGMMA
    if constexpr (kUseWgmma<kPortable>) asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
template <bool kPortable> __device__ __forceinline__ void issue_products() {
#if ORBIT_HAS_WGMMA
    if constexpr (kUseWgmma<kPortable>) asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
// All but the last kPending issued groups are done.
template <bool kPortable, int kPending> __device__ __forceinline__ void wait_products() {
#if ORBIT_HAS_WGMMA
    if constexpr (kUseWgmma<kPortable>) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
#endif
}
// Keeps the compiler from moving uses of the accumulators to before the wait.
template <int kCount> __device__ __forceinline__ void settle(float (&d)[kCount]) {
#pragma unroll
    for (int index = 0; index < kCount; ++index) asm volatile("" : "+f"(d[index])::"memory");
}

}  // namespace orbit::rotation
