// What both block rotation entry points do on the host: check sizes, describe matrices to the copy engine.
#pragma once

#include "block_rotation.cuh"

namespace orbit::rotation {

struct Launch {
    CUtensorMap maps[3];
    Rotation rotation;
    dim3 grid;   // shares, column groups
    int tiles;   // of 64 tokens
    int stages;
    cudaStream_t stream;
};

// Rows of R in one column group: small blocks are put on the diagonal of a 64 x 64 matrix. 0: no such kernel.
inline int depth_of(int block) {
    if (block == 8 || block == 16 || block == 32 || block == 64) return 64;
    return block == 128 ? 128 : 0;
}

using Encode = CUresult (*)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *,
                            const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                            CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

// cuTensorMapEncodeTiled of the driver, which is not linked so that the library loads without one.
inline Encode encoder() {
    static const Encode found = [] {
        void *pointer = nullptr;
        cudaDriverEntryPointQueryResult result{};
        const cudaError_t status =
            cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &pointer, 12000, cudaEnableDefault, &result);
        return status == cudaSuccess && result == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(pointer) : nullptr;
    }();
    return found;
}

// A [tokens, width] matrix of 2-byte values in boxes of 64 rows and 64 columns; what is outside reads as zero.
inline int32_t describe(CUtensorMap &map, const void *data, int64_t tokens, int32_t width, int64_t stride, int32_t dtype) {
    if (reinterpret_cast<uintptr_t>(data) % 16 != 0 || stride % 8 != 0) return ORBIT_BAD_ALIGNMENT;
    if (tokens > 1 && stride < width) return ORBIT_BAD_SIZE;
    if (encoder() == nullptr) return cudaErrorNotSupported;
    const auto type = dtype == ORBIT_FLOAT16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    const int64_t pitch = tokens == 1 ? (width + 7) / 8 * 8 : stride;
    const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(width), static_cast<cuuint64_t>(tokens)};
    const cuuint64_t strides[1] = {static_cast<cuuint64_t>(pitch) * 2};
    const cuuint32_t box[2] = {kBoxColumns, kTileRows}, steps[2] = {1, 1};
    const CUresult status =
        encoder()(&map, type, 2, const_cast<void *>(data), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                  CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return status == CUDA_SUCCESS ? 0 : cudaErrorInvalidValue;
}

// R as the entry points get it.
struct GivenRotation {
    const void *data;
    int32_t block, is_float, common;
};

// Checks everything that is not a matrix and fills in all but the maps and the stream.
inline int32_t prepare(Launch &l, const GivenRotation &r, int32_t dtype, int64_t tokens, int32_t width, int32_t shares,
                       int32_t stages) {
    if (dtype != ORBIT_FLOAT16 && dtype != ORBIT_BFLOAT16) return ORBIT_BAD_DTYPE;
    if (depth_of(r.block) == 0 || width <= 0 || width % r.block != 0) return ORBIT_BAD_SIZE;
    if (tokens < 0 || tokens > INT32_MAX - kTileRows || stages < 2 || stages > kMaxStages) return ORBIT_BAD_SIZE;
    if (reinterpret_cast<uintptr_t>(r.data) % 16 != 0) return ORBIT_BAD_ALIGNMENT;
    l.rotation = {r.data, r.common != 0 ? 0 : int64_t{r.block} * r.block, r.block, width / r.block, r.is_float != 0};
    const int64_t groups = (int64_t{width} + kGroupColumns - 1) / kGroupColumns;
    l.tiles = static_cast<int>((tokens + kTileRows - 1) / kTileRows);
    if (shares < 1 || (tokens > 0 && shares > l.tiles) || groups > 65535) return ORBIT_BAD_SIZE;
    l.grid = dim3(static_cast<unsigned>(shares), static_cast<unsigned>(groups));
    l.stages = stages;
    return 0;
}

// A launch that may start while the kernel before it ends, of clusters that hold all shares of a column group or of none.
struct Configuration {
    cudaLaunchConfig_t config{};
    cudaLaunchAttribute attributes[2]{};

    Configuration(const Launch &l, size_t bytes, bool clusters) {
        attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[0].val.programmaticStreamSerializationAllowed = 1;
        attributes[1].id = cudaLaunchAttributeClusterDimension;
        attributes[1].val.clusterDim.x = l.grid.x;
        attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
        config.gridDim = l.grid;
        config.blockDim = dim3(kThreads);
        config.dynamicSmemBytes = bytes;
        config.stream = l.stream;
        config.attrs = attributes;
        config.numAttrs = clusters ? 2 : 1;
    }
    Configuration(const Configuration &) = delete;
    Configuration &operator=(const Configuration &) = delete;
};

template <typename Kernel> cudaError_t allow_shared(Kernel kernel, size_t bytes) {
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
}

}  // namespace orbit::rotation
