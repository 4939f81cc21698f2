/* C ABI of liborbit_probe.so. No function exits, throws or prints; every outcome is a status code. */
#ifndef ORBIT_PROBE_H
#define ORBIT_PROBE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ORBIT_PROBE_ABI 1

enum orbit_probe_status {
    ORBIT_PROBE_OK = 0,
    ORBIT_PROBE_NO_DRIVER = 1,      /* libcuda.so.1 cannot be loaded */
    ORBIT_PROBE_OLD_DRIVER = 2,     /* the driver is older than the CUDA release of this library */
    ORBIT_PROBE_NO_DEVICE = 3,      /* a driver, but no device, or not that many */
    ORBIT_PROBE_NO_IMAGE = 4,       /* no device code in this library runs on the device */
    ORBIT_PROBE_WRONG_RESULT = 5,   /* the instruction ran and its result differs from the reference */
    ORBIT_PROBE_CUDA_ERROR = 6,     /* any other CUDA error, see cuda_error and step */
    ORBIT_PROBE_BAD_ARGUMENT = 7
};

enum orbit_probe_instruction {
    ORBIT_PROBE_NONE = 0,           /* this code has no instruction of one device only */
    ORBIT_PROBE_WGMMA = 1,          /* wgmma.mma_async m64n8k16, sm_90a */
    ORBIT_PROBE_TCGEN05 = 2         /* tcgen05 alloc, st, ld, dealloc, sm_100a */
};

typedef struct {
    uint32_t struct_bytes;          /* in: sizeof(orbit_probe_result) of the caller */
    int32_t status;
    int32_t cuda_error;             /* cudaError_t of the failing call, 0 when none */
    int32_t major, minor;           /* compute capability of the device */
    int32_t driver_version;         /* 13000 = CUDA 13.0 */
    int32_t runtime_version;
    int32_t cuda_arch;              /* __CUDA_ARCH__ of the code that ran, 900 for sm_90 and sm_90a */
    int32_t feature_sm90;           /* that code was compiled with the sm_90a feature set */
    int32_t feature_sm100;          /* that code was compiled with the sm_100a feature set */
    int32_t ptx_version;            /* virtual architecture the loaded code came from, 90 */
    int32_t binary_version;         /* real architecture of the loaded code, 90 */
    int32_t instruction;            /* orbit_probe_instruction that ran */
    int32_t values_checked;
    double max_abs_error;           /* against a float64 reference computed on the CPU */
    char device_name[256];
    char step[32];                  /* the call that decided status */
    char cuda_error_name[64];
} orbit_probe_result;

int32_t orbit_probe_abi(void);
int32_t orbit_probe_run(int32_t device, orbit_probe_result *result);

#ifdef __cplusplus
}
#endif
#endif
