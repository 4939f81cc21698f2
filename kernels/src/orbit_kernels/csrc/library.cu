// What the library says about itself: its ABI, its errors in words, and which device code a GPU loads from it.

#include "common.cuh"

namespace {

__global__ void image_kernel() {}

}  // namespace

// Changes when any entry point's meaning or arguments change; the Python side asks for exactly this one.
ORBIT_API int32_t orbit_kernels_abi() { return 1; }

// Static text for a status of any entry point.
ORBIT_API const char *orbit_kernels_error(int32_t status) {
    switch (status) {
        case 0: return "no error";
        case ORBIT_BAD_DTYPE: return "unknown dtype code";
        case ORBIT_BAD_SIZE: return "a size is negative or too large";
        case ORBIT_BAD_ALIGNMENT: return "a pointer is not aligned to its element";
        default: return status > 0 ? cudaGetErrorString(static_cast<cudaError_t>(status)) : "unknown status";
    }
}

// Which code of this library the driver loads on `device`: binary version (90: sm_90) and the version of the PTX it came
// from. A binary version that differs from the device's capability would be code the driver compiled.
ORBIT_API int32_t orbit_kernels_image(int32_t device, int32_t *binary_version, int32_t *ptx_version) {
    const orbit::DeviceGuard guard(device);
    if (guard.status() != cudaSuccess) return guard.status();
    cudaFuncAttributes attributes{};
    const cudaError_t status = cudaFuncGetAttributes(&attributes, image_kernel);
    if (status != cudaSuccess) {
        cudaGetLastError();  // a question with the answer "none" must not fail somebody's next launch check
        return status;
    }
    *binary_version = attributes.binaryVersion;
    *ptx_version = attributes.ptxVersion;
    return 0;
}
