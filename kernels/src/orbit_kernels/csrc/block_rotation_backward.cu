// Gradients of the block rotation: dR[r] = x_r^T dy_r over all tokens, and dx = dy blockdiag(R^T) in the same pass.
//
// One pass reads x and dy once and writes dx. dR of 128 columns stays in registers while tiles of 64 tokens go by; the
// blocks of threads that share the columns are one cluster and at the end add their sums through shared memory, in the
// order of the blocks. No atomics, no second kernel, no memory besides the results: the same shapes and the same number of
// shares give the same bits.

#include "block_rotation_host.cuh"

namespace orbit::rotation {
namespace {

constexpr int kPlaceBytes = 2 * kStageBytes;   // one stage: dy, then x
constexpr int kMaxShares = 8;                  // blocks of threads in a cluster, on any device

// kDepth 64: small blocks on the diagonal of 64 x 64 matrices, one of which is all that a warpgroup has to do with. 128:
// one block, a warpgroup makes 64 rows of dR and 64 columns of dx, and reads both halves of dy.
template <int kDepth> struct Shape {
    static constexpr bool kAlone = kDepth == 64;
    static constexpr int kPitch = kDepth + 8;                      // values from row to row of the sums; no bank conflicts
    static constexpr int kSumRows = 128;                           // 64 for each warpgroup
    static constexpr int kSumBytes = kSumRows * kPitch * 4;
};
template <int kDepth, bool kInput> constexpr int kFixedBytes = kInput ? 2 * kDepth * 128 + 2 * kBoxBytes : 0;
template <int kDepth, bool kInput> constexpr size_t shared_bytes(int stages) {
    const int bytes = kFixedBytes<kDepth, kInput> + stages * kPlaceBytes;
    return kHeadBytes + (bytes > Shape<kDepth>::kSumBytes ? bytes : Shape<kDepth>::kSumBytes);
}

// A warpgroup asks for its half of dy and of x.
__device__ __forceinline__ void request(const CUtensorMap &grad, const CUtensorMap &input, uint64_t *full, uint32_t place,
                                        int role, int row) {
    const int column = blockIdx.y * kGroupColumns + role * 64;
    barrier_expect(full, 2 * kBoxBytes);
    load_box(&grad, full, place + role * kBoxBytes, column, row);
    load_box(&input, full, place + kStageBytes + role * kBoxBytes, column, row);
}

// This warpgroup's 64 columns of dx.
template <typename T, bool kPortable, int kDepth>
__device__ __forceinline__ void start_input(float (&dx)[32], uint32_t place, uint32_t rotation, int role) {
    const uint32_t grad = Shape<kDepth>::kAlone ? place + role * kBoxBytes : place;
    multiply<T, kPortable, 64, kDepth / 16, Major::kK, Major::kK>(dx, {grad, kBoxBytes},
                                                                 {rotation + role * 64 * 128, kDepth * 128}, false);
    issue_products<kPortable>();
}

// dR += x^T dy, this warpgroup's 64 rows.
template <typename T, bool kPortable, int kDepth>
__device__ __forceinline__ void start_sums(float (&sums)[kDepth / 2], uint32_t place, int role, bool add) {
    const uint32_t grad = Shape<kDepth>::kAlone ? place + role * kBoxBytes : place;
    multiply<T, kPortable, kDepth, kTileRows / 16, Major::kMN, Major::kMN>(
        sums, {place + kStageBytes + role * kBoxBytes, kBoxBytes}, {grad, kBoxBytes}, add);
    issue_products<kPortable>();
}

// Adds the sums of all blocks of threads in the cluster, a part each, and writes them to dR.
template <int kDepth>
__device__ __forceinline__ void add_sums(uint32_t sums, const Rotation &r, int width, float *gradient) {
    constexpr int kPitch = Shape<kDepth>::kPitch, kChunks = Shape<kDepth>::kSumRows * kDepth / 4;
    const int shares = gridDim.x;
    for (int chunk = blockIdx.x * kThreads + threadIdx.x; chunk < kChunks; chunk += shares * kThreads) {
        const int row = chunk / (kDepth / 4), column = chunk % (kDepth / 4) * 4;
        const uint32_t own = sums + (row * kPitch + column) * 4;
        float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
        for (int share = 0; share < shares; ++share) {
            float4 more;
            uint32_t there;
            asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"(share));
            asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(more.x), "=f"(more.y), "=f"(more.z), "=f"(more.w) : "r"(there) : "memory");
            sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
        }
        // where R has this value: `row` counts columns of x in the group, `column` columns of dy in its 64 or 128
        const int first = blockIdx.y * kGroupColumns + row, inside = row % kDepth;
        if (first < width && inside / r.size == column / r.size) {
            const int64_t at = (int64_t{first} / r.size * r.size + inside % r.size) * r.size + column % r.size;
            *reinterpret_cast<float4 *>(gradient + at) = sum;
        }
    }
}

__device__ __forceinline__ void sync_cluster() {
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

template <typename T, bool kPortable, int kDepth, bool kInput>
__global__ void __launch_bounds__(kThreads, kDepth == 64 || kUseWgmma<kPortable> ? 2 : 1)
    backward(const __grid_constant__ CUtensorMap grad, const __grid_constant__ CUtensorMap input,
             const __grid_constant__ CUtensorMap grad_input, Rotation r, int tiles, int width, int stages, float *gradient) {
    using S = Shape<kDepth>;
    extern __shared__ __align__(kHeadBytes) uint64_t barriers[];
    const uint32_t rotation = boxes_after(barriers);
    const uint32_t places = rotation + kFixedBytes<kDepth, kInput>;
    const int role = threadIdx.x / kGroupThreads, warp = (threadIdx.x % kGroupThreads) / 32;
    const uint32_t results = rotation + 2 * kDepth * 128 + role * kBoxBytes;
    const bool elected = threadIdx.x % kGroupThreads == 0;
    uint64_t *const full = barriers + (S::kAlone ? role * kMaxStages : 0), *const empty = barriers + 2 * kMaxStages;
    const Share share(tiles);
    if (threadIdx.x == 0)
        for (int stage = 0; stage < stages; ++stage) {
            barrier_init(&barriers[stage], S::kAlone ? 1 : 2);
            barrier_init(&barriers[kMaxStages + stage], S::kAlone ? 1 : 2);
            barrier_init(&empty[stage], 2);
        }
    barriers_ready();
    wait_for_inputs();
    if (elected)
        for (int stage = 0; stage < stages && stage < share.count; ++stage)
            request(grad, input, &full[stage], places + stage * kPlaceBytes, role, share.row(stage));
    if constexpr (kInput) {
        load_rotation<T, kDepth>(rotation, r, blockIdx.y);
        publish();
        __syncthreads();
    }

    float sums[kDepth / 2], dx[32];
    for (int item = 0; item < share.count; ++item) {
        const int stage = item % stages;
        const uint32_t place = places + stage * kPlaceBytes;
        barrier_wait(&full[stage], (item / stages) & 1);
        start_products<kPortable>();
        if constexpr (kInput) start_input<T, kPortable, kDepth>(dx, place, rotation, role);
        start_sums<T, kPortable, kDepth>(sums, place, role, item > 0);
        wait_products<kPortable, 1>();   // dx of this tile, and everything of the tile before
        if constexpr (kInput) {
            settle(dx);
            if (elected) stores_read<0>();   // of the tile before, whose place in `results` is needed
        }
        sync_threads<kGroupThreads>(1 + role);
        if (elected && item > 0 && item - 1 + stages < share.count) {
            const int before = (item - 1) % stages;
            if constexpr (!S::kAlone) {
                barrier_arrive(&empty[before]);
                barrier_wait_alone(&empty[before], ((item - 1) / stages) & 1);
            }
            request(grad, input, &full[before], places + before * kPlaceBytes, role, share.row(item - 1 + stages));
        }
        __syncwarp();
        if constexpr (kInput) {
            write_rows<T>(results, warp, dx);
            publish();
            sync_threads<kGroupThreads>(1 + role);
            const int column = blockIdx.y * kGroupColumns + role * 64;
            if (elected && column < width) store_box(&grad_input, results, column, share.row(item));
            if (elected) group_stores();
            __syncwarp();
        }
    }
    wait_products<kPortable, 0>();
    settle(sums);
    if (kInput && elected) stores_read<0>();
    __syncthreads();

    const int lane = threadIdx.x % 32, row = role * 64 + warp * 16 + lane / 4;
#pragma unroll
    for (int tile = 0; tile < kDepth / 8; ++tile) {
        const uint32_t at = rotation + (row * S::kPitch + tile * 8 + lane % 4 * 2) * 4;
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at), "f"(sums[tile * 4]), "f"(sums[tile * 4 + 1]) : "memory");
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at + 8 * S::kPitch * 4), "f"(sums[tile * 4 + 2]),
                     "f"(sums[tile * 4 + 3]) : "memory");
    }
    sync_cluster();
    add_sums<kDepth>(rotation, r, width, gradient);
    sync_cluster();   // nobody ends while others read its shared memory
}

struct Arguments {
    Launch launch;
    int32_t width;
    float *gradient;
    int32_t *clusters;   // asked for the number of clusters that run at once instead of a launch
};

template <typename T, bool kPortable, int kDepth, bool kInput> int32_t launch(const Arguments &a) {
    const Launch &l = a.launch;
    const auto kernel = backward<T, kPortable, kDepth, kInput>;
    const size_t bytes = shared_bytes<kDepth, kInput>(l.stages);
    const cudaError_t status = allow_shared(kernel, bytes);
    if (status != cudaSuccess) return status;
    Configuration configuration(l, bytes, true);
    if (a.clusters != nullptr) return cudaOccupancyMaxActiveClusters(a.clusters, kernel, &configuration.config);
    return cudaLaunchKernelEx(&configuration.config, kernel, l.maps[0], l.maps[1], l.maps[2], l.rotation, l.tiles, a.width,
                              l.stages, a.gradient);
}

template <typename T, bool kPortable> int32_t launch_shape(const Arguments &a, bool with_input) {
    if (depth_of(a.launch.rotation.size) == 64)
        return with_input ? launch<T, kPortable, 64, true>(a) : launch<T, kPortable, 64, false>(a);
    return with_input ? launch<T, kPortable, 128, true>(a) : launch<T, kPortable, 128, false>(a);
}

int32_t launch_type(const Arguments &a, bool half, bool portable, bool with_input) {
    if (portable) return half ? launch_shape<__half, true>(a, with_input) : launch_shape<__nv_bfloat16, true>(a, with_input);
    return half ? launch_shape<__half, false>(a, with_input) : launch_shape<__nv_bfloat16, false>(a, with_input);
}

}  // namespace
}  // namespace orbit::rotation

// gradient: float32 [width / block, block, block], for each block alone also when one R serves all. grad_input: like x, or
// null to leave it out (then r is not read). shares: at most 8. stages: any number from 2. All else as in
// orbit_block_rotation.
ORBIT_API int32_t orbit_block_rotation_backward(int32_t device, int32_t dtype, const void *grad, int64_t grad_stride,
                                                const void *x, int64_t x_stride, const void *r, int32_t block,
                                                int32_t r_float, int32_t common, void *grad_input,
                                                int64_t grad_input_stride, int64_t tokens, int32_t width,
                                                int32_t portable, int32_t shares, int32_t stages, float *gradient,
                                                cudaStream_t stream) {
    using namespace orbit::rotation;
    Arguments a{{}, width, gradient, nullptr};
    Launch &l = a.launch;
    l.stream = stream;
    int32_t status = prepare(l, {r, block, r_float, common}, dtype, tokens, width, shares, stages);
    if (status != 0) return status;
    if (tokens == 0 || shares > kMaxShares) return ORBIT_BAD_SIZE;
    const orbit::DeviceGuard guard(device);
    if (guard.status() != cudaSuccess) return guard.status();
    if ((status = describe(l.maps[0], grad, tokens, width, grad_stride, dtype)) != 0) return status;
    if ((status = describe(l.maps[1], x, tokens, width, x_stride, dtype)) != 0) return status;
    l.maps[2] = l.maps[1];
    const bool with_input = grad_input != nullptr;
    if (with_input && (status = describe(l.maps[2], grad_input, tokens, width, grad_input_stride, dtype)) != 0) return status;
    return launch_type(a, dtype == ORBIT_FLOAT16, portable != 0, with_input);
}

// How many clusters of `shares` blocks of threads of that kernel the device runs at once.
ORBIT_API int32_t orbit_block_rotation_clusters(int32_t device, int32_t dtype, int32_t block, int32_t with_input,
                                                int32_t shares, int32_t stages, int32_t *clusters) {
    using namespace orbit::rotation;
    Arguments a{{}, block, nullptr, clusters};
    const int64_t tokens = int64_t{kMaxShares} * kTileRows;
    const int32_t status = prepare(a.launch, {nullptr, block, 0, 0}, dtype, tokens, block, shares, stages);
    if (status != 0) return status;
    const orbit::DeviceGuard guard(device);
    if (guard.status() != cudaSuccess) return guard.status();
    return launch_type(a, dtype == ORBIT_FLOAT16, false, with_input != 0);
}
