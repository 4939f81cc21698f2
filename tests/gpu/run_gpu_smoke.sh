#!/bin/sh
# Run containers/smoke/gpu.toml with files alone: on a machine with a GPU, its own torch, and no image.
#
#     sh tests/gpu/run_gpu_smoke.sh [PARTS [LIST]]
#
# PARTS   folder that `tests/gpu/parts.py pack` wrote (default dist/gpu/parts); unpacked once into $CARRIED
# LIST    a smoke list (default containers/smoke/gpu.toml)
# PYTHON  interpreter that has torch (default python3)
# CARRIED where the files go (default /tmp/orbit-carried)
# OUT     folder for the results (default dist/gpu/out): gpu-smoke.jsonl, gpu-smoke.log
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
parts=${1:-$root/dist/gpu/parts}
list=${2:-$root/containers/smoke/gpu.toml}
python=${PYTHON:-python3}
carried=${CARRIED:-/tmp/orbit-carried}
out=${OUT:-$root/dist/gpu/out}
mkdir -p "$out"

if [ ! -e "$carried/.unpacked" ]; then
    rm -rf "$carried"
    "$python" "$root/tests/gpu/parts.py" unpack "$parts" "$carried"
    : > "$carried/.unpacked"
fi
export PYTHONPATH="$carried:$root"

# Transformer Engine needs the cublas of the lock, which torch's own would shadow: it is loaded first, by name.
for name in libcublasLt.so.13 libcublas.so.13; do
    library=$carried/nvidia/cu13/lib/$name
    if [ -e "$library" ]; then export LD_PRELOAD="${LD_PRELOAD:+$LD_PRELOAD:}$library"; fi
done

status=0
"$python" -m orbit.smoke "$list" --json --out "$out/gpu-smoke.jsonl" 2> "$out/gpu-smoke.log" > /dev/null || status=$?
cat "$out/gpu-smoke.log"
exit "$status"
