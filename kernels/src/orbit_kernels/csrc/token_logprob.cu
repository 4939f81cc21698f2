// Log-probability of one target per row and entropy of the row's distribution, from logits, without a softmax in memory.
//
// With z = logits / temperature, m = max(logits), s = sum exp(z - m/T), u = sum (z - m/T) exp(z - m/T):
//     log p[target] = (logits[target] - m) / T - log s            entropy = log s - u / s
//     d/dz_j = g_logprob (delta_j,target - p_j) - g_entropy p_j (log p_j + entropy)
// s >= 1 and u <= 0, so the entropy is a sum of two non-negative terms: nothing cancels. The exponent is computed as
// (x - m) * (log2 e / T): the difference of two logits of one format is all but exact, so large logits cost no accuracy.
//
// Forward: a block reads one segment of one row (all its loads in flight at once) and leaves (m, s, u) of the segment;
// a warp per row merges the segments. Segments depend on dtype and vocabulary alone, never on the number of rows or the
// GPU, and everything is summed in one fixed order: a row's result does not depend on its batch. Backward: the same
// walk, one read and one write of each element.

#include "common.cuh"

namespace {

using orbit::max_nan;

#ifndef ORBIT_LOGPROB_THREADS
#define ORBIT_LOGPROB_THREADS 128
#endif
#ifndef ORBIT_LOGPROB_VECTORS
#define ORBIT_LOGPROB_VECTORS 8
#endif
#ifndef ORBIT_LOGPROB_BACKWARD_THREADS
#define ORBIT_LOGPROB_BACKWARD_THREADS 256
#endif
#ifndef ORBIT_LOGPROB_BACKWARD_VECTORS
#define ORBIT_LOGPROB_BACKWARD_VECTORS 4
#endif
constexpr int kThreads = ORBIT_LOGPROB_THREADS, kVectors = ORBIT_LOGPROB_VECTORS;
constexpr int kBackThreads = ORBIT_LOGPROB_BACKWARD_THREADS, kBackVectors = ORBIT_LOGPROB_BACKWARD_VECTORS;
static_assert((kThreads & (kThreads - 1)) == 0, "the warps of a block are merged in halves");
constexpr int kVectorBytes = 16;
// A forward segment is at most kThreads * kVectors vectors: SEGMENT_BYTES of orbit_kernels/_logprob_ops.py.
constexpr int kRowsPerPlane = 32768;  // blockIdx is (segment, row within plane, plane): no division on the device
constexpr int kFinishThreads = 128;

constexpr float kNothing = -200.f;  // 2^-200 is 0 in float32; a finite exponent keeps 0 * exponent from being NaN

// --- two numbers at a time ------------------------------------------------------------------------------------------
// Blackwell has float32 instructions for pairs, which halve the issue slots of this arithmetic; rounding is the same.

struct Pair {
    float x, y;
};

#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
__device__ __forceinline__ uint64_t bits_of(Pair a) {
    uint64_t packed;
    asm("mov.b64 %0, {%1, %2};" : "=l"(packed) : "f"(a.x), "f"(a.y));
    return packed;
}
__device__ __forceinline__ Pair pair_of(uint64_t packed) {
    Pair a;
    asm("mov.b64 {%0, %1}, %2;" : "=f"(a.x), "=f"(a.y) : "l"(packed));
    return a;
}
__device__ __forceinline__ Pair add(Pair a, Pair b) {
    uint64_t sum;
    asm("add.rn.f32x2 %0, %1, %2;" : "=l"(sum) : "l"(bits_of(a)), "l"(bits_of(b)));
    return pair_of(sum);
}
__device__ __forceinline__ Pair mul(Pair a, Pair b) {
    uint64_t product;
    asm("mul.rn.f32x2 %0, %1, %2;" : "=l"(product) : "l"(bits_of(a)), "l"(bits_of(b)));
    return pair_of(product);
}
__device__ __forceinline__ Pair fma(Pair a, Pair b, Pair c) {
    uint64_t sum;
    asm("fma.rn.f32x2 %0, %1, %2, %3;" : "=l"(sum) : "l"(bits_of(a)), "l"(bits_of(b)), "l"(bits_of(c)));
    return pair_of(sum);
}
#else
__device__ __forceinline__ Pair add(Pair a, Pair b) { return {__fadd_rn(a.x, b.x), __fadd_rn(a.y, b.y)}; }
__device__ __forceinline__ Pair mul(Pair a, Pair b) { return {__fmul_rn(a.x, b.x), __fmul_rn(a.y, b.y)}; }
__device__ __forceinline__ Pair fma(Pair a, Pair b, Pair c) { return {__fmaf_rn(a.x, b.x, c.x), __fmaf_rn(a.y, b.y, c.y)}; }
#endif
__device__ __forceinline__ Pair both(float a) { return {a, a}; }
__device__ __forceinline__ Pair exp2_fast(Pair a) { return {orbit::exp2_fast(a.x), orbit::exp2_fast(a.y)}; }
__device__ __forceinline__ Pair at_least(Pair a, float low) { return {max_nan(a.x, low), max_nan(a.y, low)}; }

// --- 16 bytes of logits ---------------------------------------------------------------------------------------------

template <typename T>
struct Format;  // width, how a 16-byte vector reads as pairs of float32 and is written, and its largest element

template <>
struct Format<float> {
    static constexpr int kWidth = 4;
    static constexpr uint32_t kMinusInfinity = 0xFF800000u;
    static __device__ Pair pair(const uint4 &v, int index) {
        return index == 0 ? Pair{__uint_as_float(v.x), __uint_as_float(v.y)}
                          : Pair{__uint_as_float(v.z), __uint_as_float(v.w)};
    }
    static __device__ float widen(float value) { return value; }
    static __device__ float narrow(float value) { return value; }
    static __device__ uint4 pack(const Pair (&p)[2]) {
        return {__float_as_uint(p[0].x), __float_as_uint(p[0].y), __float_as_uint(p[1].x), __float_as_uint(p[1].y)};
    }
    static __device__ uint32_t word_max(uint32_t a, uint32_t b) {
        return __float_as_uint(max_nan(__uint_as_float(a), __uint_as_float(b)));
    }
    static __device__ float word_top(uint32_t a) { return __uint_as_float(a); }
};

template <typename T, typename T2>
struct HalfFormat {
    static constexpr int kWidth = 8;
    static __device__ uint32_t word(const uint4 &v, int index) {
        return index == 0 ? v.x : index == 1 ? v.y : index == 2 ? v.z : v.w;
    }
    static __device__ T2 two(uint32_t bits) {
        T2 value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    static __device__ uint32_t bits(T2 value) {
        uint32_t word;
        memcpy(&word, &value, sizeof word);
        return word;
    }
    static __device__ uint32_t word_max(uint32_t a, uint32_t b) { return bits(__hmax2_nan(two(a), two(b))); }
};

template <>
struct Format<__nv_bfloat16> : HalfFormat<__nv_bfloat16, __nv_bfloat162> {
    static constexpr uint32_t kMinusInfinity = 0xFF80FF80u;
    static __device__ Pair pair(const uint4 &v, int index) {
        const uint32_t bits = word(v, index);
        return {__uint_as_float(bits << 16), __uint_as_float(bits & 0xFFFF0000u)};
    }
    static __device__ float widen(__nv_bfloat16 value) { return __bfloat162float(value); }
    static __device__ __nv_bfloat16 narrow(float value) { return __float2bfloat16_rn(value); }
    static __device__ uint4 pack(const Pair (&p)[4]) {
        return {bits(__floats2bfloat162_rn(p[0].x, p[0].y)), bits(__floats2bfloat162_rn(p[1].x, p[1].y)),
                bits(__floats2bfloat162_rn(p[2].x, p[2].y)), bits(__floats2bfloat162_rn(p[3].x, p[3].y))};
    }
    static __device__ float word_top(uint32_t a) {
        return max_nan(__uint_as_float(a << 16), __uint_as_float(a & 0xFFFF0000u));
    }
};

template <>
struct Format<__half> : HalfFormat<__half, __half2> {
    static constexpr uint32_t kMinusInfinity = 0xFC00FC00u;
    static __device__ Pair pair(const uint4 &v, int index) {
        const float2 value = __half22float2(two(word(v, index)));
        return {value.x, value.y};
    }
    static __device__ float widen(__half value) { return __half2float(value); }
    static __device__ __half narrow(float value) { return __float2half_rn(value); }
    static __device__ uint4 pack(const Pair (&p)[4]) {
        return {bits(__floats2half2_rn(p[0].x, p[0].y)), bits(__floats2half2_rn(p[1].x, p[1].y)),
                bits(__floats2half2_rn(p[2].x, p[2].y)), bits(__floats2half2_rn(p[3].x, p[3].y))};
    }
    static __device__ float word_top(uint32_t a) {
        const float2 value = __half22float2(two(a));
        return max_nan(value.x, value.y);
    }
};

// The logits of one call: `tokens` rows, of which the first `vocab` columns are classes and the rest padding.
struct Rows {
    const void *logits;
    int64_t stride;  // elements from row to row
    int64_t tokens;
    int32_t columns, vocab;
    int32_t segments, segment_vectors;  // blocks per row, vectors of 16 bytes per block
    const int64_t *targets;
    int64_t ignore_index;
    int64_t vocab_start;  // class of column 0
    int64_t vocab_total;  // classes of all shards together
    float scale;          // log2(e) / temperature
    float temperature;
};

// A block's place. Vectors are aligned in memory; the first one of a row may begin before the row.
template <typename T>
struct Place {
    int64_t row;
    const T *start;  // of the row
    int32_t skew;    // elements between the 16-byte boundary before the row and the row
    int32_t first;   // vector

    __device__ Place(const Rows &rows, bool whole) {
        row = static_cast<int64_t>(blockIdx.z) * kRowsPerPlane + blockIdx.y;
        start = static_cast<const T *>(rows.logits) + row * rows.stride;
        skew = whole ? 0 : static_cast<int32_t>(reinterpret_cast<uintptr_t>(start) % kVectorBytes / sizeof(T));
        first = static_cast<int32_t>(blockIdx.x) * rows.segment_vectors;
    }
    __device__ int32_t column(int32_t vector) const { return (first + vector) * Format<T>::kWidth - skew; }
};

// Vector with its first element in `column` (negative or beyond the end at the edges); outside [0, vocab) is -inf.
// kWhole: rows begin at a 16-byte boundary and are whole vectors long, so that there are no edges. kOnce: evict first,
// which pays beside writes and costs a tenth without them (measured on an H200).
template <typename T, bool kWhole, bool kOnce>
__device__ __forceinline__ uint4 load_vector(const T *row, int32_t column, int32_t vocab, bool wanted) {
    constexpr uint32_t nothing = Format<T>::kMinusInfinity;
    uint4 value = {nothing, nothing, nothing, nothing};
    if (!wanted || column >= vocab) return value;
    if (kWhole || (column >= 0 && column + Format<T>::kWidth <= vocab)) {
        const uint4 *const vector = reinterpret_cast<const uint4 *>(row + column);
        return kOnce ? __ldcs(vector) : *vector;
    }
    T *elements = reinterpret_cast<T *>(&value);
#pragma unroll
    for (int k = 0; k < Format<T>::kWidth; ++k) {
        if (column + k >= 0 && column + k < vocab) elements[k] = row[column + k];
    }
    return value;
}

// --- statistics of a part of a row ----------------------------------------------------------------------------------

struct Stats {
    float top;       // largest logit, -inf when there is none
    float sum;       // of 2^((x - top) scale)
    float weighted;  // sum of (x - top) scale 2^((x - top) scale)
};

template <int kWidth>
__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
    for (int step = kWidth / 2; step > 0; step /= 2) value = max_nan(value, __shfl_xor_sync(~0u, value, step));
    return value;
}

template <int kWidth>
__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
    for (int step = kWidth / 2; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    return value;
}

// The statistics relative to another, larger top.
__device__ __forceinline__ Stats lifted(Stats a, float top, float scale) {
    const float shift = a.top == -orbit::kInfinity ? kNothing : max_nan((a.top - top) * scale, kNothing);
    const float factor = orbit::exp2_fast(shift);
    return {top, factor * a.sum, factor * __fmaf_rn(shift, a.sum, a.weighted)};
}

__device__ __forceinline__ Stats merged(Stats a, Stats b, float scale) {
    const float top = max_nan(a.top, b.top);
    const Stats left = lifted(a, top, scale), right = lifted(b, top, scale);
    return {top, left.sum + right.sum, left.weighted + right.weighted};
}

// Statistics of `kWidth` neighbouring lanes together, in each of them.
template <int kWidth>
__device__ __forceinline__ Stats warp_merged(Stats a, float scale) {
    const Stats mine = lifted(a, warp_max<kWidth>(a.top), scale);
    return {mine.top, warp_sum<kWidth>(mine.sum), warp_sum<kWidth>(mine.weighted)};
}

template <typename T>
__device__ __forceinline__ float largest(const uint4 (&data)[kVectors]) {
    uint32_t word = Format<T>::kMinusInfinity;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        word = Format<T>::word_max(word, Format<T>::word_max(Format<T>::word_max(data[i].x, data[i].y),
                                                             Format<T>::word_max(data[i].z, data[i].w)));
    }
    return Format<T>::word_top(word);
}

template <typename T, bool kWhole>
__global__ void __launch_bounds__(kThreads) segment_kernel(const Rows rows, float4 *parts) {
    const Place<T> place(rows, kWhole);
    cudaTriggerProgrammaticLaunchCompletion();  // finish_kernel may be put in place; it waits for the results itself
    if (place.row >= rows.tokens || rows.targets[place.row] == rows.ignore_index) return;
    const int32_t thread = static_cast<int32_t>(threadIdx.x);
    uint4 data[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        const int32_t vector = thread + i * kThreads;
        data[i] = load_vector<T, kWhole, false>(place.start, place.column(vector), rows.vocab,
                                                vector < rows.segment_vectors);
    }
    const float top = warp_max<32>(largest<T>(data));
    const Pair minus_top = both(top == -orbit::kInfinity ? 0.f : -top), scale = both(rows.scale);
    Pair sum = both(0.f), weighted = both(0.f);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
#pragma unroll
        for (int j = 0; j < Format<T>::kWidth / 2; ++j) {
            const Pair exponent = at_least(mul(add(Format<T>::pair(data[i], j), minus_top), scale), kNothing);
            const Pair power = exp2_fast(exponent);
            sum = add(sum, power);
            weighted = fma(power, exponent, weighted);
        }
    }
    constexpr int kWarps = kThreads / 32;
    __shared__ Stats of_warps[kWarps];
    const Stats mine = {top, warp_sum<32>(sum.x + sum.y), warp_sum<32>(weighted.x + weighted.y)};
    if (thread % 32 == 0) of_warps[thread / 32] = mine;
    __syncthreads();
    if (thread >= 32) return;
    const Stats whole = warp_merged<kWarps>(of_warps[thread % kWarps], rows.scale);
    if (thread == 0) parts[place.row * rows.segments + blockIdx.x] = {whole.top, whole.sum, whole.weighted, 0.f};
}

// Where the results of a row go; pointers that are null are not wanted.
struct Results {
    float *stats;              // [4, tokens]: top, sum, weighted in units of the logits, target logit (of this shard)
    float *logprob, *entropy;  // [tokens]
    float *saved;              // [2, tokens]: top, log of the sum, for the backward pass
};

__device__ __forceinline__ void write_results(const Results &out, int64_t row, int64_t tokens, const Rows &rows, Stats all,
                                              float target, bool ignored) {
    const float log_sum = logf(all.sum), weighted = all.weighted * orbit::kLn2;
    if (out.stats != nullptr) {
        out.stats[row] = all.top;
        out.stats[tokens + row] = all.sum;
        out.stats[2 * tokens + row] = weighted;
        out.stats[3 * tokens + row] = target;
    }
    if (out.logprob == nullptr) return;
    out.logprob[row] = ignored ? 0.f : (target - all.top) / rows.temperature - log_sum;
    out.entropy[row] = ignored ? 0.f : log_sum - weighted / all.sum;
    out.saved[row] = ignored ? 0.f : all.top;
    out.saved[tokens + row] = ignored ? 0.f : log_sum;
}

template <typename T>
__global__ void __launch_bounds__(kFinishThreads) finish_kernel(const Rows rows, const float4 *parts, const Results out) {
    const int64_t row = (static_cast<int64_t>(blockIdx.x) * kFinishThreads + threadIdx.x) / 32;
    const int32_t lane = static_cast<int32_t>(threadIdx.x % 32);
    if (row >= rows.tokens) return;
    const int64_t wanted = rows.targets[row];
    const bool ignored = wanted == rows.ignore_index;
    const bool exists = wanted >= 0 && wanted < rows.vocab_total;
    const int64_t column = wanted - rows.vocab_start;
    float target = exists || ignored ? 0.f : __int_as_float(0x7FC00000);
    if (exists && column >= 0 && column < rows.vocab) {
        target = Format<T>::widen(static_cast<const T *>(rows.logits)[row * rows.stride + column]);
    }
    cudaGridDependencySynchronize();
    Stats mine = {-orbit::kInfinity, 0.f, 0.f};
    for (int32_t part = lane; part < rows.segments && !ignored; part += 32) {
        const float4 read = parts[row * rows.segments + part];
        mine = merged(mine, {read.x, read.y, read.z}, rows.scale);
    }
    const Stats all = warp_merged<32>(mine, rows.scale);
    if (lane == 0) write_results(out, row, rows.tokens, rows, all, ignored ? 0.f : target, ignored);
}

// --- backward -------------------------------------------------------------------------------------------------------

struct Gradients {
    const float *saved;            // [2, tokens], as above, of all shards together
    const float *entropy;          // [tokens]
    const float *logprob;          // gradient, null for none
    const float *of_entropy;       // gradient, null for none
    int64_t logprob_stride, of_entropy_stride;
    void *out;
    int64_t out_stride;
};

// What one row's gradient needs: d/dx_j = p_j (flat + slope log2 p_j) + (j is the target) * hit.
struct RowGradient {
    float minus_top, minus_log2_sum, flat, slope, hit;
    int64_t target;  // column, negative or too large when another shard has it
    bool ignored;

    __device__ RowGradient(const Rows &rows, const Gradients &grads, int64_t row) {
        const int64_t wanted = rows.targets[row];
        ignored = wanted == rows.ignore_index;
        target = wanted - rows.vocab_start;
        minus_top = -grads.saved[row];
        minus_log2_sum = -grads.saved[rows.tokens + row] * orbit::kLog2E;
        const float of_logprob = grads.logprob == nullptr ? 0.f : grads.logprob[row * grads.logprob_stride];
        const float of_entropy = grads.of_entropy == nullptr ? 0.f : grads.of_entropy[row * grads.of_entropy_stride];
        hit = of_logprob / rows.temperature;
        flat = -(of_logprob + of_entropy * grads.entropy[row]) / rows.temperature;
        slope = -of_entropy * orbit::kLn2 / rows.temperature;
        if (wanted < 0 || wanted >= rows.vocab_total) flat = __int_as_float(0x7FC00000);
    }
};

template <typename T, bool kWhole>
__device__ __forceinline__ void store_vector(T *row, int32_t column, const Rows &rows, const uint4 &value, bool aligned) {
    if (kWhole || (column >= 0 && column + Format<T>::kWidth <= rows.vocab && aligned)) {
        __stcs(reinterpret_cast<uint4 *>(row + column), value);
        return;
    }
    const T *elements = reinterpret_cast<const T *>(&value);
#pragma unroll
    for (int k = 0; k < Format<T>::kWidth; ++k) {
        if (column + k >= 0 && column + k < rows.columns) {
            row[column + k] = column + k < rows.vocab ? elements[k] : Format<T>::narrow(0.f);
        }
    }
}

template <typename T, bool kEntropy>
__device__ __forceinline__ uint4 gradient_of(const uint4 &logits, int32_t column, const RowGradient &of, float scale) {
    Pair out[Format<T>::kWidth / 2];
#pragma unroll
    for (int j = 0; j < Format<T>::kWidth / 2; ++j) {
        const Pair above = add(Format<T>::pair(logits, j), both(of.minus_top));
        const Pair log2_p = at_least(fma(above, both(scale), both(of.minus_log2_sum)), kNothing);
        const Pair slope = kEntropy ? fma(log2_p, both(of.slope), both(of.flat)) : both(of.flat);
        out[j] = mul(exp2_fast(log2_p), slope);
    }
    const int64_t at = of.target - column;
    if (at >= 0 && at < Format<T>::kWidth) {
#pragma unroll
        for (int j = 0; j < Format<T>::kWidth / 2; ++j) {
            if (at == 2 * j) out[j].x += of.hit;
            if (at == 2 * j + 1) out[j].y += of.hit;
        }
    }
    return Format<T>::pack(out);
}

// `grads.out` may be `rows.logits` itself: every element is read and then written by one thread.
template <typename T, bool kEntropy, bool kWhole>
__global__ void __launch_bounds__(kBackThreads) backward_kernel(const Rows rows, const Gradients grads) {
    const Place<T> place(rows, kWhole);
    if (place.row >= rows.tokens) return;
    const RowGradient of(rows, grads, place.row);
    T *out = static_cast<T *>(grads.out) + place.row * grads.out_stride;
    const bool aligned = reinterpret_cast<uintptr_t>(out) % kVectorBytes / sizeof(T) == place.skew;
    uint4 data[kBackVectors];
    const int32_t thread = static_cast<int32_t>(threadIdx.x);
#pragma unroll
    for (int i = 0; i < kBackVectors; ++i) {
        const int32_t vector = thread + i * kBackThreads;
        const bool wanted = vector < rows.segment_vectors && !of.ignored;
        data[i] = load_vector<T, kWhole, true>(place.start, place.column(vector), rows.vocab, wanted);
    }
#pragma unroll
    for (int i = 0; i < kBackVectors; ++i) {
        const int32_t vector = thread + i * kBackThreads, column = place.column(vector);
        if (vector >= rows.segment_vectors || column >= rows.columns) break;
        const uint4 value =
            of.ignored ? uint4{0, 0, 0, 0} : gradient_of<T, kEntropy>(data[i], column, of, rows.scale);
        store_vector<T, kWhole>(out, column, rows, value, aligned);
    }
}

// --- launching ------------------------------------------------------------------------------------------------------

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Whether every row begins at a 16-byte boundary.
bool aligned_rows(const void *start, int64_t stride, int64_t element, int64_t tokens) {
    return reinterpret_cast<uintptr_t>(start) % kVectorBytes == 0 &&
           (tokens <= 1 || stride * element % kVectorBytes == 0);
}

// Vectors of 16 bytes that cover `columns` elements of a row, wherever the row begins.
int64_t vectors_of(int64_t columns, int64_t element, bool aligned) {
    const int64_t width = kVectorBytes / element;
    return ceil_div(columns + (aligned ? 0 : width - 1), width);
}

int32_t checked(const Rows &rows, int64_t columns, int64_t vocab, int64_t element) {
    if (rows.tokens < 0 || rows.tokens > (int64_t{1} << 30)) return ORBIT_BAD_SIZE;
    if (vocab < 1 || vocab > columns || columns > (1 << 30) || rows.vocab_start < 0) return ORBIT_BAD_SIZE;
    if (rows.vocab_total < rows.vocab_start + vocab || !(rows.temperature > 0.f)) return ORBIT_BAD_SIZE;
    return reinterpret_cast<uintptr_t>(rows.logits) % element == 0 ? 0 : ORBIT_BAD_ALIGNMENT;
}

// One block per segment of a row; the rows' part of `rows` is filled in.
dim3 split(Rows &rows, int64_t vectors, int64_t segments) {
    rows.segments = static_cast<int32_t>(segments);
    rows.segment_vectors = static_cast<int32_t>(ceil_div(vectors, segments));
    const int64_t planes = ceil_div(rows.tokens, kRowsPerPlane);
    return {static_cast<uint32_t>(segments), static_cast<uint32_t>(planes > 1 ? kRowsPerPlane : rows.tokens),
            static_cast<uint32_t>(planes)};
}

template <typename T>
int32_t forward(Rows rows, float4 *parts, int64_t segments, const Results &out, cudaStream_t stream) {
    const bool aligned = aligned_rows(rows.logits, rows.stride, sizeof(T), rows.tokens);
    const dim3 grid = split(rows, vectors_of(rows.vocab, sizeof(T), aligned), segments);
    if (rows.segment_vectors > kThreads * kVectors) return ORBIT_BAD_SIZE;
    const bool whole = aligned && rows.vocab % Format<T>::kWidth == 0;
    if (whole) {
        segment_kernel<T, true><<<grid, kThreads, 0, stream>>>(rows, parts);
    } else {
        segment_kernel<T, false><<<grid, kThreads, 0, stream>>>(rows, parts);
    }
    const cudaError_t launched = cudaGetLastError();
    if (launched != cudaSuccess) return launched;
    cudaLaunchAttribute early{};  // begin while the last segments run; cudaGridDependencySynchronize waits for them
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<uint32_t>(ceil_div(rows.tokens, kFinishThreads / 32)));
    config.blockDim = dim3(kFinishThreads);
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, finish_kernel<T>, static_cast<const Rows>(rows), static_cast<const float4 *>(parts),
                              static_cast<const Results>(out));
}

template <typename T, bool kEntropy>
int32_t backward(Rows rows, const Gradients &grads, cudaStream_t stream) {
    const bool aligned = aligned_rows(rows.logits, rows.stride, sizeof(T), rows.tokens);
    const int64_t vectors = vectors_of(rows.columns, sizeof(T), aligned);
    const dim3 grid = split(rows, vectors, ceil_div(vectors, kBackThreads * kBackVectors));
    const bool whole = aligned && rows.vocab == rows.columns && rows.vocab % Format<T>::kWidth == 0 &&
                       aligned_rows(grads.out, grads.out_stride, sizeof(T), rows.tokens);
    if (whole) {
        backward_kernel<T, kEntropy, true><<<grid, kBackThreads, 0, stream>>>(rows, grads);
    } else {
        backward_kernel<T, kEntropy, false><<<grid, kBackThreads, 0, stream>>>(rows, grads);
    }
    return cudaGetLastError();
}

template <typename T>
int32_t backward(const Rows &rows, const Gradients &grads, cudaStream_t stream) {
    return grads.of_entropy == nullptr ? backward<T, false>(rows, grads, stream) : backward<T, true>(rows, grads, stream);
}

int64_t element_of(int32_t dtype) {
    return dtype == ORBIT_FLOAT32 ? 4 : dtype == ORBIT_FLOAT16 || dtype == ORBIT_BFLOAT16 ? 2 : 0;
}

}  // namespace

// Log-probs of `targets` and entropies, or (stats != null) the statistics of one shard of the vocabulary.
// parts: workspace of tokens * segments * 4 floats, 16-byte aligned; how many segments: orbit_kernels/_logprob_ops.py. stats
// [4, tokens], logprob and entropy [tokens], saved [2, tokens].
ORBIT_API int32_t orbit_token_logprob_forward(int32_t device, int32_t dtype, const void *logits, int64_t tokens,
                                              int64_t vocab, int64_t row_stride, const int64_t *targets,
                                              int64_t ignore_index, int64_t vocab_start, int64_t vocab_total,
                                              float temperature, float *parts, int64_t segments, float *stats,
                                              float *logprob, float *entropy, float *saved, cudaStream_t stream) {
    const int64_t element = element_of(dtype);
    if (element == 0) return ORBIT_BAD_DTYPE;
    const Rows rows = {logits, row_stride, tokens, static_cast<int32_t>(vocab), static_cast<int32_t>(vocab), 0, 0,
                       targets, ignore_index, vocab_start, vocab_total, orbit::kLog2E / temperature, temperature};
    const int32_t bad = checked(rows, vocab, vocab, element);
    if (bad != 0) return bad;
    if (segments < 1) return ORBIT_BAD_SIZE;
    if (tokens == 0) return 0;
    const orbit::DeviceGuard guard(device);
    if (guard.status() != cudaSuccess) return guard.status();
    float4 *const vectors = reinterpret_cast<float4 *>(parts);
    const Results out = {stats, logprob, entropy, saved};
    if (dtype == ORBIT_FLOAT32) return forward<float>(rows, vectors, segments, out, stream);
    if (dtype == ORBIT_FLOAT16) return forward<__half>(rows, vectors, segments, out, stream);
    return forward<__nv_bfloat16>(rows, vectors, segments, out, stream);
}

// Gradient of the logits, all `columns` of it: padding and ignored rows are 0. `out` may be `logits`.
ORBIT_API int32_t orbit_token_logprob_backward(int32_t device, int32_t dtype, const void *logits, int64_t tokens,
                                               int64_t columns, int64_t vocab, int64_t row_stride,
                                               const int64_t *targets, int64_t ignore_index, int64_t vocab_start,
                                               int64_t vocab_total, float temperature, const float *saved,
                                               const float *entropy, const float *grad_logprob,
                                               int64_t grad_logprob_stride, const float *grad_entropy,
                                               int64_t grad_entropy_stride, void *out, int64_t out_stride,
                                               cudaStream_t stream) {
    const int64_t element = element_of(dtype);
    if (element == 0) return ORBIT_BAD_DTYPE;
    const Rows rows = {logits, row_stride, tokens, static_cast<int32_t>(columns), static_cast<int32_t>(vocab), 0, 0,
                       targets, ignore_index, vocab_start, vocab_total, orbit::kLog2E / temperature, temperature};
    const int32_t bad = checked(rows, columns, vocab, element);
    if (bad != 0) return bad;
    if (reinterpret_cast<uintptr_t>(out) % element != 0) return ORBIT_BAD_ALIGNMENT;
    if (tokens == 0) return 0;
    const orbit::DeviceGuard guard(device);
    if (guard.status() != cudaSuccess) return guard.status();
    const Gradients grads = {saved, entropy, grad_logprob, grad_entropy, grad_logprob_stride, grad_entropy_stride,
                             out, out_stride};
    if (dtype == ORBIT_FLOAT32) return backward<float>(rows, grads, stream);
    if (dtype == ORBIT_FLOAT16) return backward<__half>(rows, grads, stream);
    return backward<__nv_bfloat16>(rows, grads, stream);
}
