// What every source of liborbit_kernels.so shares: the C ABI's rules and small device helpers.
//
// ABI: plain C, device pointers, sizes, strides in elements, a device ordinal and the stream; no torch, no allocation, no
// synchronisation. Every entry point returns a status: 0 done, > 0 a cudaError_t, < 0 one of orbit_status below.
#pragma once

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define ORBIT_API extern "C" __attribute__((visibility("default")))

enum orbit_status : int32_t {
    ORBIT_BAD_DTYPE = -1,      // the dtype code is none of orbit_dtype
    ORBIT_BAD_SIZE = -2,       // a size is negative, or too large for one grid
    ORBIT_BAD_ALIGNMENT = -3,  // a pointer is not aligned to its element
};

enum orbit_dtype : int32_t { ORBIT_FLOAT32 = 0, ORBIT_FLOAT16 = 1, ORBIT_BFLOAT16 = 2 };

namespace orbit {

// Makes `device` current for one call. The runtime inside this library is its own copy, but the current device of a
// thread is that of the driver's current context, so it is shared with whoever called us and must be put back.
class DeviceGuard {
  public:
    explicit DeviceGuard(int32_t device) {
        status_ = cudaGetDevice(&before_);
        if (status_ == cudaSuccess && before_ != device) {
            status_ = cudaSetDevice(device);
            changed_ = status_ == cudaSuccess;
        }
    }
    ~DeviceGuard() {
        if (changed_) cudaSetDevice(before_);
    }
    DeviceGuard(const DeviceGuard &) = delete;
    DeviceGuard &operator=(const DeviceGuard &) = delete;
    cudaError_t status() const { return status_; }

  private:
    int before_ = 0;
    bool changed_ = false;
    cudaError_t status_;
};

constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;
constexpr float kInfinity = __builtin_huge_valf();

// 2^x, about 2 units in the last place, 2^0 = 1 exactly, denormals flushed to 0. One special-function instruction.
__device__ __forceinline__ float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// The larger one; NaN when either is NaN (fmaxf would drop it).
__device__ __forceinline__ float max_nan(float a, float b) {
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}

}  // namespace orbit
