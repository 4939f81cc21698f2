#!/bin/sh
# Entry point of every Orbit image: gives the run a place it may write to, then becomes the command it was given.
# It changes nothing under the prefix, needs no network and works as any user on a read-only root. Whatever is already
# set in the environment is kept.
set -eu

uid=$(id -u)
state=${ORBIT_STATE:-/tmp/orbit-$uid}
if ! mkdir -p "$state" 2>/dev/null || [ ! -w "$state" ]; then
    echo "orbit-entrypoint: $state: user $uid may not write there" >&2
    echo "  fix: mount a writable folder and name it in ORBIT_STATE, or give the container a tmpfs on /tmp" >&2
    exit 4
fi
export ORBIT_STATE="$state"

# A user without an entry in /etc/passwd has no name and, under docker, the root folder as its home.
if [ -z "${USER:-}" ]; then USER=$(id -un 2>/dev/null) || USER=uid-$uid; fi
export USER LOGNAME="${LOGNAME:-$USER}"
if [ -z "${HOME:-}" ] || [ "$HOME" = / ] || [ ! -w "$HOME" ]; then
    HOME=$state/home
    mkdir -p "$HOME"
fi
export HOME

# Code compiled at run time fits one environment and one kind of GPU, so both are in the path: a cache left by another
# image or another machine is never read.
gpu=none
for information in /proc/driver/nvidia/gpus/*/information; do
    [ -r "$information" ] || continue
    gpu=$(sed -n 's/^Model:[[:space:]]*//p' "$information" | tr -c 'A-Za-z0-9\n' '-')
    break
done
jit=$state/jit/${ORBIT_ENVIRONMENT:-unknown}/$gpu
mkdir -p "$jit"
export TRITON_CACHE_DIR="${TRITON_CACHE_DIR:-$jit/triton}"
export TORCHINDUCTOR_CACHE_DIR="${TORCHINDUCTOR_CACHE_DIR:-$jit/inductor}"
export TORCH_EXTENSIONS_DIR="${TORCH_EXTENSIONS_DIR:-$jit/torch-extensions}"
export FLASHINFER_WORKSPACE_BASE="${FLASHINFER_WORKSPACE_BASE:-$jit/flashinfer}"
export DG_JIT_CACHE_DIR="${DG_JIT_CACHE_DIR:-$jit/deep-gemm}"
export SGLANG_DG_CACHE_DIR="${SGLANG_DG_CACHE_DIR:-$jit/deep-gemm}"
export TILELANG_CACHE_DIR="${TILELANG_CACHE_DIR:-$jit/tilelang}"
export TVM_FFI_CACHE_DIR="${TVM_FFI_CACHE_DIR:-$jit/tvm-ffi}"
export FLASH_ATTENTION_CUTE_DSL_CACHE_DIR="${FLASH_ATTENTION_CUTE_DSL_CACHE_DIR:-$jit/cute-dsl}"
export QUACK_CACHE_DIR="${QUACK_CACHE_DIR:-$jit/quack}"
export HUMMING_CACHE_DIR="${HUMMING_CACHE_DIR:-$jit/humming}"
export NUMBA_CACHE_DIR="${NUMBA_CACHE_DIR:-$jit/numba}"
export CUDA_CACHE_PATH="${CUDA_CACHE_PATH:-$jit/cuda}"

if [ $# -eq 0 ]; then set -- orbit --help; fi
exec "$@"
