#!/bin/sh
# Find the GPU driver's libraries of this machine and print a folder for LD_LIBRARY_PATH that has them and nothing else.
#
# usage: gpu-driver.sh FOLDER FILE... [-- OTHER...]
#
# FILE are shell patterns for the names of the driver's files, OTHER for what is named alike (both from
# kernels/expectations/libraries.toml). On NixOS the answer is the folder that the system keeps for the driver. Elsewhere
# its files lie among all other libraries of the machine, whose C library must not get into programs of the Nix store; so
# links to the driver's files alone are made in FOLDER, which belongs to the caller.
#
# Looked into: ORBIT_DRIVER (a folder, when set), NixOS's folder, what the machine's loader knows (ldconfig -p), the folders
# of LD_LIBRARY_PATH (the activation contract's: where platforms without ldconfig mount it), those of distributions.
#
# Exit status: 0 printed; 2 bad usage; 3 no driver here; 4 FOLDER is somebody else's.
set -eu

# Tests put a machine of their own below this.
root=${ORBIT_DRIVER_ROOT:-}
nixos=/run/opengl-driver/lib
# Fedora and openSUSE, Debian and Ubuntu, Arch.
distributions=/usr/lib64:/usr/lib64/nvidia:/usr/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu/nvidia/current:/usr/lib

fail() {
    status=$1
    shift
    echo "gpu-driver.sh: $*" >&2
    exit "$status"
}

# The 64-bit libcuda.so.1 of the loader's cache, whatever other ABIs it lists.
in_cache() {
    ldconfig=$(command -v ldconfig 2>/dev/null || echo /sbin/ldconfig)
    "$ldconfig" -p 2>/dev/null |
        sed -n 's/^[[:space:]]*libcuda\.so\.1 (libc6,x86-64[^)]*) => \(.*\)$/\1/p' | head -n 1
}

find_driver() { # the folder with libcuda.so.1
    cached=$(in_cache)
    if [ -n "$cached" ] && [ -e "$root$cached" ]; then
        echo "$root${cached%/*}"
        return 0
    fi
    rest=${LD_LIBRARY_PATH:-}:$distributions:
    while [ -n "$rest" ]; do
        place=${rest%%:*} rest=${rest#*:}
        if [ -n "$place" ] && [ -e "$root$place/libcuda.so.1" ]; then
            echo "$root$place"
            return 0
        fi
    done
    fail 3 "no libcuda.so.1 on this machine: install NVIDIA's driver, or name its folder in ORBIT_DRIVER"
}

# Whether the name $1 is one of the patterns in the other words.
is_one_of() {
    name=$1
    shift
    for pattern; do
        # shellcheck disable=SC2254 # it is a pattern
        case $name in $pattern) return 0 ;; esac
    done
    return 1
}

[ $# -ge 2 ] || fail 2 "usage: gpu-driver.sh FOLDER FILE... [-- OTHER...]"
folder=$1
shift
files='' others='' list=files
set -f
for word; do
    case $list$word in
        files--) list=others ;;
        files*) files="$files $word" ;;
        *) others="$others $word" ;;
    esac
done

if [ -n "${ORBIT_DRIVER:-}" ]; then
    [ -e "$ORBIT_DRIVER/libcuda.so.1" ] || fail 3 "ORBIT_DRIVER=$ORBIT_DRIVER: no libcuda.so.1 there"
    driver=$ORBIT_DRIVER
elif [ -e "$root$nixos/libcuda.so.1" ]; then
    echo "$root$nixos"
    exit 0
else
    driver=$(find_driver)
fi

# shellcheck disable=SC3067 # -O is in dash, bash and busybox
if [ -L "$folder" ] || { [ -e "$folder" ] && [ ! -O "$folder" ]; }; then
    fail 4 "$folder is not a folder of yours, and what lies there would be loaded; remove it"
fi
# shellcheck disable=SC2174 # the deepest folder is the one that must be private
mkdir -p -m 0700 "$folder"
set +f
for link in "$folder"/*; do # of a driver that was here before; what is right stays, another shell may be using it
    # shellcheck disable=SC3013 # -ef is in dash, bash and busybox
    [ "$link" -ef "$driver/${link##*/}" ] || rm -f "$link"
done
for file in "$driver"/lib*.so*; do
    set -f
    # shellcheck disable=SC2086 # lists of patterns
    if [ -e "$file" ] && is_one_of "${file##*/}" $files && ! is_one_of "${file##*/}" $others; then
        [ -e "$folder/${file##*/}" ] || ln -s "$file" "$folder/"
    fi
done
echo "$folder"
