// orbit-probe: which device code did the driver load, and does the instruction that only this device has work?
//
// sm_90a:  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16, A from registers, B from shared memory.
// sm_100a: tcgen05.alloc, st, ld, dealloc: tensor memory written and read back by four warps.
// Instruction shapes, fragment layouts and the matrix descriptor are those of the PTX ISA 8.8, sections
// "Asynchronous Warpgroup Level Matrix Multiply-Accumulate" and "TensorCore 5th Generation Family".

#include "probe.h"

#include <cstring>
#include <dlfcn.h>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kRows = 64, kColumns = 8, kDepth = 16;   // one wgmma: D[64][8] = A[64][16] * B[16][8]
constexpr int kThreads = 128;                          // one warpgroup
constexpr int kTensorColumns = 4;                      // columns of tensor memory each lane writes
constexpr int kValues = kRows * kColumns;              // 512 results, also 128 lanes * 4 columns
static_assert(kValues == kThreads * kTensorColumns, "both instructions fill the same result buffer");

struct Report {
    int32_t cuda_arch, feature_sm90, feature_sm100, instruction;
    float values[kValues];
};

// Small integers, so that products and sums are exact in f16 inputs and f32 accumulators.
__host__ __device__ constexpr int a_value(int row, int k) { return (row * 3 + k * 5) % 17 - 8; }
__host__ __device__ constexpr int b_value(int k, int column) { return (k * 7 + column * 11) % 13 - 6; }
__host__ __device__ constexpr int lane_value(int lane, int column) { return lane * 8 + column * 3 + 1; }

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
__device__ uint32_t pack(int low, int high) {
    __half2 pair = __floats2half2_rn(static_cast<float>(low), static_cast<float>(high));
    uint32_t bits;
    memcpy(&bits, &pair, sizeof bits);
    return bits;
}

__device__ void run_wgmma(Report *report) {
    // B, K-major without swizzle: core matrices of 8 columns by 8 k, 16 bytes per column, 128 bytes each.
    __shared__ alignas(128) __half b[kDepth * kColumns];
    const int thread = static_cast<int>(threadIdx.x);
    {
        const int k = thread / kColumns, column = thread % kColumns;
        b[(k / 8) * 64 + column * 8 + k % 8] = __int2half_rn(b_value(k, column));
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");   // make the stores visible to the async proxy
    __syncthreads();

    const int row = (thread / 32) * 16 + (thread % 32) / 4, k = (thread % 4) * 2;
    const uint32_t a0 = pack(a_value(row, k), a_value(row, k + 1));
    const uint32_t a1 = pack(a_value(row + 8, k), a_value(row + 8, k + 1));
    const uint32_t a2 = pack(a_value(row, k + 8), a_value(row, k + 9));
    const uint32_t a3 = pack(a_value(row + 8, k + 8), a_value(row + 8, k + 9));

    // Descriptor: address, distance of core matrices along k and along columns, all in units of 16 bytes.
    const uint64_t address = static_cast<uint64_t>(__cvta_generic_to_shared(b));
    const uint64_t descriptor = ((address & 0x3FFFF) >> 4) | (uint64_t{128 >> 4} << 16) | (uint64_t{128 >> 4} << 32);

    float d0 = 0.f, d1 = 0.f, d2 = 0.f, d3 = 0.f;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, 1, 1, 1, 0;"
        : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(descriptor));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)::"memory");

    float *out = report->values;
    out[row * kColumns + k] = d0;
    out[row * kColumns + k + 1] = d1;
    out[(row + 8) * kColumns + k] = d2;
    out[(row + 8) * kColumns + k + 1] = d3;
}
#endif

#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
__device__ void run_tcgen05(Report *report) {
    __shared__ uint32_t base;
    const int thread = static_cast<int>(threadIdx.x), warp = thread / 32;
    if (warp == 0) {
        const uint32_t slot = static_cast<uint32_t>(__cvta_generic_to_shared(&base));
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" ::"r"(slot) : "memory");
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
    }
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");

    // A warp reaches the 32 lanes of its own quarter; the lane is in the upper half of the address.
    const uint32_t address = base + (static_cast<uint32_t>(warp * 32) << 16);
    uint32_t in[kTensorColumns], out[kTensorColumns];
    for (int column = 0; column < kTensorColumns; ++column) in[column] = __float_as_uint(lane_value(thread, column));
    asm volatile("tcgen05.st.sync.aligned.32x32b.x4.b32 [%0], {%1, %2, %3, %4};"
                 ::"r"(address), "r"(in[0]), "r"(in[1]), "r"(in[2]), "r"(in[3]) : "memory");
    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
    // One column at a time, last first: an address that is off by a column or a lane shows. Unrolled, because the loads
    // are asynchronous and their registers must not be touched before the wait.
#pragma unroll
    for (int column = kTensorColumns - 1; column >= 0; --column)
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(out[column]) : "r"(address + column));
    asm volatile("tcgen05.wait::ld.sync.aligned;" : "+r"(out[0]), "+r"(out[1]), "+r"(out[2]), "+r"(out[3])::"memory");
    for (int column = 0; column < kTensorColumns; ++column)
        report->values[thread * kTensorColumns + column] = __uint_as_float(out[column]);

    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    if (warp == 0) {
        asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
        asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" ::"r"(base));
    }
}
#endif

__global__ void __launch_bounds__(kThreads) probe_kernel(Report *report) {
#if defined(__CUDA_ARCH__)
    if (threadIdx.x == 0) {
        report->cuda_arch = __CUDA_ARCH__;
        report->feature_sm90 = 0;
        report->feature_sm100 = 0;
        report->instruction = ORBIT_PROBE_NONE;
    }
    __syncthreads();
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    if (threadIdx.x == 0) {
        report->feature_sm90 = 1;
        report->instruction = ORBIT_PROBE_WGMMA;
    }
    run_wgmma(report);
#elif defined(__CUDA_ARCH_FEAT_SM100_ALL)
    if (threadIdx.x == 0) {
        report->feature_sm100 = 1;
        report->instruction = ORBIT_PROBE_TCGEN05;
    }
    run_tcgen05(report);
#endif
#endif
}

double reference(int instruction, int index) {
    if (instruction == ORBIT_PROBE_TCGEN05) return lane_value(index / kTensorColumns, index % kTensorColumns);
    double sum = 0.0;
    for (int k = 0; k < kDepth; ++k)
        sum += static_cast<double>(a_value(index / kColumns, k)) * b_value(k, index % kColumns);
    return sum;
}

template <size_t Size> void copy_text(char (&to)[Size], const char *from) {
    const size_t length = strnlen(from, Size - 1);
    std::memcpy(to, from, length);
    to[length] = '\0';
}

int32_t fail(orbit_probe_result *result, int32_t status, cudaError_t error, const char *step) {
    result->status = status;
    result->cuda_error = static_cast<int32_t>(error);
    copy_text(result->step, step);
    if (error != cudaSuccess) copy_text(result->cuda_error_name, cudaGetErrorName(error));
    return status;
}

int32_t fail_cuda(orbit_probe_result *result, cudaError_t error, const char *step) {
    switch (error) {
        case cudaErrorInsufficientDriver: return fail(result, ORBIT_PROBE_OLD_DRIVER, error, step);
        case cudaErrorNoDevice:
        case cudaErrorInvalidDevice: return fail(result, ORBIT_PROBE_NO_DEVICE, error, step);
        case cudaErrorNoKernelImageForDevice:
        case cudaErrorInvalidKernelImage:
        case cudaErrorUnsupportedPtxVersion: return fail(result, ORBIT_PROBE_NO_IMAGE, error, step);
        default: return fail(result, ORBIT_PROBE_CUDA_ERROR, error, step);
    }
}

bool have_driver() {
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver == nullptr) return false;
    dlclose(driver);
    return true;
}

int32_t compare(orbit_probe_result *result, const Report &report) {
    result->cuda_arch = report.cuda_arch;
    result->feature_sm90 = report.feature_sm90;
    result->feature_sm100 = report.feature_sm100;
    result->instruction = report.instruction;
    if (report.instruction == ORBIT_PROBE_NONE) return fail(result, ORBIT_PROBE_OK, cudaSuccess, "done");
    for (int index = 0; index < kValues; ++index) {
        const double error = report.values[index] - reference(report.instruction, index);
        const double size = error < 0 ? -error : error;
        // written so that a NaN counts as the worst error
        if (!(size <= result->max_abs_error)) result->max_abs_error = size;
    }
    result->values_checked = kValues;
    const bool right = result->max_abs_error == 0.0;
    return fail(result, right ? ORBIT_PROBE_OK : ORBIT_PROBE_WRONG_RESULT, cudaSuccess, right ? "done" : "compare");
}

int32_t run_kernel(orbit_probe_result *result) {
    cudaFuncAttributes attributes{};
    cudaError_t error = cudaFuncGetAttributes(&attributes, probe_kernel);
    if (error != cudaSuccess) return fail_cuda(result, error, "cudaFuncGetAttributes");
    result->ptx_version = attributes.ptxVersion;
    result->binary_version = attributes.binaryVersion;

    Report *device_report = nullptr;
    error = cudaMalloc(&device_report, sizeof(Report));
    if (error != cudaSuccess) return fail_cuda(result, error, "cudaMalloc");
    Report host_report;
    const char *step = "cudaMemset";
    error = cudaMemset(device_report, 0xFF, sizeof(Report));   // NaNs: a value that is never written is an error
    if (error == cudaSuccess) {
        step = "launch";
        probe_kernel<<<1, kThreads>>>(device_report);
        error = cudaGetLastError();
    }
    if (error == cudaSuccess) {
        step = "cudaMemcpy";
        error = cudaMemcpy(&host_report, device_report, sizeof(Report), cudaMemcpyDeviceToHost);
    }
    cudaFree(device_report);
    return error == cudaSuccess ? compare(result, host_report) : fail_cuda(result, error, step);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int32_t orbit_probe_abi(void) { return ORBIT_PROBE_ABI; }

extern "C" __attribute__((visibility("default"))) int32_t orbit_probe_run(int32_t device, orbit_probe_result *result) {
    if (result == nullptr || result->struct_bytes != sizeof(orbit_probe_result)) return ORBIT_PROBE_BAD_ARGUMENT;
    std::memset(result, 0, sizeof *result);
    result->struct_bytes = sizeof *result;
    if (!have_driver()) return fail(result, ORBIT_PROBE_NO_DRIVER, cudaSuccess, "libcuda.so.1");
    cudaDriverGetVersion(&result->driver_version);
    cudaRuntimeGetVersion(&result->runtime_version);

    int count = 0, previous = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess) return fail_cuda(result, error, "cudaGetDeviceCount");
    if (device < 0 || device >= count) return fail(result, ORBIT_PROBE_NO_DEVICE, cudaErrorInvalidDevice, "device");
    cudaDeviceProp properties{};
    error = cudaGetDeviceProperties(&properties, device);
    if (error != cudaSuccess) return fail_cuda(result, error, "cudaGetDeviceProperties");
    result->major = properties.major;
    result->minor = properties.minor;
    copy_text(result->device_name, properties.name);

    error = cudaGetDevice(&previous);
    if (error == cudaSuccess) error = cudaSetDevice(device);
    if (error != cudaSuccess) return fail_cuda(result, error, "cudaSetDevice");
    const int32_t status = run_kernel(result);
    cudaSetDevice(previous);
    return status;
}
