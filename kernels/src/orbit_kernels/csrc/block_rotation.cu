// Block-diagonal rotation of activations: y[t, r*b + c] = sum_k x[t, r*b + k] R[r, k, c], or R transposed.
//
// A block of threads keeps the rotations of its 128 columns in shared memory while tiles of 64 tokens stream through: the
// copy engine brings a tile, one of two warpgroups in turn multiplies it and writes the result over it, and the copy
// engine takes it away. The thread that sent a tile away asks for the next one into the place of the tile before. Bytes
// moved in device memory: x once, y once; R once for each share of a column group.

#include "block_rotation_host.cuh"

namespace orbit::rotation {
namespace {

// Columns of one product; the tile is one product of 128 columns, or two of 64 with their own rotations.
template <int kDepth> constexpr int kPart = kDepth;
template <int kDepth> constexpr int kParts = kGroupColumns / kDepth;

__device__ __forceinline__ void request(const CUtensorMap &input, uint64_t *full, uint32_t tile, int row) {
    barrier_expect(full, kStageBytes);
    load_box(&input, full, tile, blockIdx.y * kGroupColumns, row);
    load_box(&input, full, tile + kBoxBytes, blockIdx.y * kGroupColumns + 64, row);
}

template <typename T, bool kPortable, int kDepth, bool kTransposed>
__device__ __forceinline__ void rotate_tile(float (&d)[kParts<kDepth>][kPart<kDepth> / 2], uint32_t tile, uint32_t rotation) {
    constexpr Major kMajor = kTransposed ? Major::kK : Major::kMN;
    start_products<kPortable>();
#pragma unroll
    for (int part = 0; part < kParts<kDepth>; ++part)
        multiply<T, kPortable, kPart<kDepth>, kDepth / 16, Major::kK, kMajor>(
            d[part], {tile + part * kBoxBytes, kBoxBytes}, {rotation + part * kDepth * 128, kDepth * 128}, false);
    issue_products<kPortable>();
    wait_products<kPortable, 0>();
#pragma unroll
    for (int part = 0; part < kParts<kDepth>; ++part) settle(d[part]);
}

template <typename T, bool kPortable, int kDepth, bool kTransposed>
__global__ void __launch_bounds__(kThreads, 2)
    rotate(const __grid_constant__ CUtensorMap input, const __grid_constant__ CUtensorMap output, Rotation r, int tiles,
           int width, int stages) {
    extern __shared__ __align__(kHeadBytes) uint64_t full[];
    const uint32_t rotation = boxes_after(full);
    const uint32_t places = rotation + 2 * kDepth * 128;
    const int role = threadIdx.x / kGroupThreads, warp = (threadIdx.x % kGroupThreads) / 32;
    const bool elected = threadIdx.x % kGroupThreads == 0;
    const Share share(tiles);
    if (threadIdx.x == 0)
        for (int stage = 0; stage < stages; ++stage) barrier_init(&full[stage], 1);
    barriers_ready();
    wait_for_inputs();
    if (elected)
        for (int stage = role; stage < stages && stage < share.count; stage += 2)
            request(input, &full[stage], places + stage * kStageBytes, share.row(stage));
    load_rotation<T, kDepth>(rotation, r, blockIdx.y);
    publish();
    __syncthreads();

    // The warpgroups take turns. The number of stages is even: a stage is always met by the same warpgroup, so that its
    // barrier is never a phase behind.
    for (int item = role; item < share.count; item += 2) {
        const int stage = item % stages;
        const uint32_t tile = places + stage * kStageBytes;
        float d[kParts<kDepth>][kPart<kDepth> / 2];
        barrier_wait(&full[stage], (item / stages) & 1);
        rotate_tile<T, kPortable, kDepth, kTransposed>(d, tile, rotation);
        sync_threads<kGroupThreads>(1 + role);   // the whole warpgroup has read the tile
#pragma unroll
        for (int box = 0; box < 2; ++box)
            write_rows<T>(tile + box * kBoxBytes, warp, &d[box * 64 / kPart<kDepth>][(box * 64 % kPart<kDepth>) / 2]);
        publish();
        sync_threads<kGroupThreads>(1 + role);
        if (elected) {
            const int column = blockIdx.y * kGroupColumns, row = share.row(item);
            store_box(&output, tile, column, row);
            if (column + 64 < width) store_box(&output, tile + kBoxBytes, column + 64, row);
            group_stores();
            const int before = item - 2, next = before + stages;
            if (before >= 0 && next < share.count) {
                stores_read<1>();
                const int place = before % stages;
                request(input, &full[place], places + place * kStageBytes, share.row(next));
            }
        }
        __syncwarp();
    }
    if (elected) stores_read<0>();   // shared memory must outlive what is read from it
}

template <typename T, bool kPortable, int kDepth, bool kTransposed> int32_t launch(const Launch &l, int32_t width) {
    const size_t bytes = kHeadBytes + 2 * kDepth * 128 + size_t(l.stages) * kStageBytes;
    const auto kernel = rotate<T, kPortable, kDepth, kTransposed>;
    const cudaError_t status = allow_shared(kernel, bytes);
    if (status != cudaSuccess) return status;
    Configuration configuration(l, bytes, false);
    return cudaLaunchKernelEx(&configuration.config, kernel, l.maps[0], l.maps[1], l.rotation, l.tiles, width, l.stages);
}

template <typename T, bool kPortable> int32_t launch_depth(const Launch &l, int32_t width, bool transposed) {
    if (depth_of(l.rotation.size) == 64)
        return transposed ? launch<T, kPortable, 64, true>(l, width) : launch<T, kPortable, 64, false>(l, width);
    return transposed ? launch<T, kPortable, 128, true>(l, width) : launch<T, kPortable, 128, false>(l, width);
}

}  // namespace
}  // namespace orbit::rotation

// y = x blockdiag(R), or x blockdiag(R^T) when `transposed`. x and y: [tokens, width] of `dtype`, strides in values (a
// multiple of 8), 16-byte aligned. R: [width / block or 1, block, block] contiguous, `dtype` or float32; `common` when one
// block serves all. block: 8, 16, 32, 64 or 128. portable: mma.sync even where wgmma is there. shares: blocks of threads
// for each 128 columns, at most one a tile of 64 tokens. stages: tiles in flight in each, even, from 4.
ORBIT_API int32_t orbit_block_rotation(int32_t device, int32_t dtype, const void *x, int64_t x_stride, const void *r,
                                       int32_t block, int32_t r_float, int32_t common, void *y, int64_t y_stride,
                                       int64_t tokens, int32_t width, int32_t transposed, int32_t portable,
                                       int32_t shares, int32_t stages, cudaStream_t stream) {
    using namespace orbit::rotation;
    Launch l{};
    l.stream = stream;
    int32_t status = prepare(l, {r, block, r_float, common}, dtype, tokens, width, shares, stages);
    if (status != 0 || tokens == 0) return status;
    if (stages < 4 || stages % 2 != 0) return ORBIT_BAD_SIZE;
    const orbit::DeviceGuard guard(device);
    if (guard.status() != cudaSuccess) return guard.status();
    if ((status = describe(l.maps[0], x, tokens, width, x_stride, dtype)) != 0) return status;
    if ((status = describe(l.maps[1], y, tokens, width, y_stride, dtype)) != 0) return status;
    const bool half = dtype == ORBIT_FLOAT16, back = transposed != 0;
    if (portable != 0)
        return half ? launch_depth<__half, true>(l, width, back) : launch_depth<__nv_bfloat16, true>(l, width, back);
    return half ? launch_depth<__half, false>(l, width, back) : launch_depth<__nv_bfloat16, false>(l, width, back);
}
