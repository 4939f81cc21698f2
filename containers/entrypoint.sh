#!/bin/sh
# Entry point of every Orbit image: gives the run a place it may write to, then becomes the command it was given.
# It changes nothing under the prefix, needs no network and works as any user on a read-only root.
set -eu

uid=$(id -u)
state=${ORBIT_STATE:-/tmp/orbit-$uid}
# shellcheck disable=SC2174 # the deepest folder is the one that must be private
if ! mkdir -p -m 0700 "$state" 2>/dev/null || [ ! -w "$state" ]; then
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

# Code compiled at run time fits one environment and one kind of GPU, so both are in the path of its caches: what another
# image or another machine left there is never read. (The GPUs of a node are of one kind; the first one is asked.)
gpu=no-gpu
for information in /proc/driver/nvidia/gpus/*/information; do
    [ -r "$information" ] || continue
    gpu=$(sed -n 's/^Model:[[:space:]]*//p' "$information" | tr -c 'A-Za-z0-9\n' '-')
    break
done
orbit_prefix=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
share=$orbit_prefix/share/orbit
environment=$(sed -n 's/^ *"identity": *"\([0-9a-f]\{12\}\).*/\1/p' "$share/environment.json")
# shellcheck disable=SC2034 # read by state.sh
orbit_cache=$state/cache/${environment:-unknown}/$gpu

# Where everything that writes shall write: the activation contract, env/activation.toml.
# shellcheck disable=SC1091 # made when the image is built
. "$share/state.sh"

if [ $# -eq 0 ]; then set -- orbit --help; fi
exec "$@"
