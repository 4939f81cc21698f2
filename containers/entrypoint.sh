#!/bin/sh
# Entry point of every Orbit image: gives the run a place it may write to, sets what env/activation.toml says, tells what
# is wrong with the container, then becomes the command it was given. It changes nothing under the prefix, needs no network
# and works as any user on a read-only root. docs/image-runtime.md says why each thing is done.
#
#   orbit-entrypoint COMMAND...      also by name, where something else is the container's first process (Kubernetes' `command`)
#   . orbit-entrypoint               the same for the shell that reads it ($ORBIT_PREFIX says where the environment is)
#   orbit-entrypoint --explain       every variable it would set, and why; changes nothing
#
# Quiet when all is well. ORBIT_ENTRYPOINT_VERBOSE=1 tells what was chosen. Builtins and /proc are used where a program could be:
# each process costs about a millisecond, and every command of a job comes through here.

orbit_socket_bytes=39 # 107 for a socket's path (sun_path, unix(7)) less what Ray appends: /ray/session_<26>_<pid>/sockets/plasma_store

orbit_warn() { printf 'orbit-entrypoint: warning: %s\n' "$1" >&2; }
orbit_note() { if [ -n "${ORBIT_ENTRYPOINT_VERBOSE:-}" ]; then printf 'orbit-entrypoint: %s\n' "$1" >&2; fi; }

# The words of state.sh: a variable, its value, the reason.
orbit_tell() {
    if [ "$orbit_mode" = explain ]; then printf '%s\n    %s\n' "$1" "$2"; else orbit_note "$1"; fi
}
orbit_set() { export "$1=$2" && orbit_tell "$1=$2" "$3"; }
orbit_unset() { unset "$1" && orbit_tell "unset $1" "$2"; }
orbit_default() {
    eval "orbit_old=\${$1:-}"
    if [ -n "$orbit_old" ]; then orbit_tell "$1=$orbit_old (the caller's)" "$3"; else orbit_set "$1" "$2" "$3"; fi
}
orbit_prepend() { # the first of them must be prepended last
    eval "orbit_old=\${$1:-}"
    case :$orbit_old: in
        *":$2:"*) orbit_tell "$1=$orbit_old" "$3" ;;
        *) orbit_set "$1" "$2${orbit_old:+:$orbit_old}" "$3" ;;
    esac
}
orbit_folders() { # one mkdir for all that are missing
    [ "$orbit_mode" != explain ] || return 0
    for orbit_dir; do
        shift
        [ -d "$orbit_dir" ] || set -- "$@" "$orbit_dir"
    done
    # shellcheck disable=SC2174 # the deepest folder is the one that must be private
    [ $# -eq 0 ] || mkdir -p -m 0700 "$@"
}

orbit_who() { # orbit_uid
    orbit_uid=
    while read -r orbit_word _ orbit_uid _; do [ "$orbit_word" != Uid: ] || break; done </proc/self/status
    [ -n "$orbit_uid" ] || orbit_uid=$(id -u)
}

orbit_mount_of() { # orbit_fs, orbit_options: of the mount that holds the folder $1 (or will); orbit_shm: options of /dev/shm
    orbit_point='' orbit_fs='' orbit_options='' orbit_shm=''
    while read -r _ orbit_at orbit_type orbit_how _; do
        # shellcheck disable=SC2034 # read by report.sh
        if [ "$orbit_at" = /dev/shm ]; then orbit_shm=$orbit_how; fi
        case $1/ in
            "${orbit_at%/}"/*)
                if [ ${#orbit_at} -ge ${#orbit_point} ]; then orbit_point=$orbit_at orbit_fs=$orbit_type orbit_options=$orbit_how; fi
                ;;
        esac
    done </proc/mounts
}
orbit_is_remote() { # many nodes or no locks: kernels compiled there by many ranks end in stale handles
    case $1 in
        nfs* | lustre | gpfs | beegfs | ceph | cifs | smb* | 9p | afs | panfs | wekafs | pvfs2 | orangefs | fuse.*) return 0 ;;
    esac
    return 1
}

# Where to write: what the caller says, else the folder the batch system gave this job, else /tmp. Not on a network file system.
orbit_find_state() { # orbit_state, orbit_from
    if [ -n "${ORBIT_STATE:-}" ]; then
        orbit_state=${ORBIT_STATE%/} orbit_from='ORBIT_STATE'
        case $orbit_state in /*) ;; *) orbit_state=$PWD/$orbit_state ;; esac
        orbit_mount_of "$orbit_state"
        if orbit_is_remote "$orbit_fs"; then
            orbit_warn "$orbit_state is on $orbit_fs: many processes compile kernels there and get stale handles; name a disk of the node in ORBIT_STATE"
        fi
        return 0
    fi
    for orbit_from in _CONDOR_SCRATCH_DIR SLURM_TMPDIR; do
        eval "orbit_dir=\${$orbit_from:-}"
        if [ ! -d "$orbit_dir" ] || [ ! -w "$orbit_dir" ]; then continue; fi
        orbit_mount_of "$orbit_dir"
        if orbit_is_remote "$orbit_fs"; then
            orbit_note "$orbit_from: $orbit_dir is on $orbit_fs, not used"
            continue
        fi
        orbit_state=${orbit_dir%/}/.orbit
        return 0
    done
    orbit_state=/tmp/orbit-$orbit_uid orbit_from='the default'
    orbit_mount_of /tmp
    # shellcheck disable=SC3067 # -O is in dash, bash and busybox
    if [ -L "$orbit_state" ] || { [ -e "$orbit_state" ] && [ ! -O "$orbit_state" ]; }; then
        orbit_refuse "$orbit_state: is not a folder of user $orbit_uid, and what lies there would be run" "remove it, or name another folder in ORBIT_STATE"
        return 4
    fi
}
orbit_refuse() { printf 'orbit-entrypoint: %s\n  fix: %s\n' "$1" "$2" >&2; }

orbit_make_state() {
    if ! orbit_folders "$orbit_state" 2>/dev/null || { [ "$orbit_mode" != explain ] && [ ! -w "$orbit_state" ]; }; then
        orbit_refuse "$orbit_state: user $orbit_uid may not write there" "mount a writable folder and name it in ORBIT_STATE, or give the container a tmpfs on /tmp"
        return 4
    fi
    case ,$orbit_options, in
        *,noexec,*) orbit_warn "$orbit_state is mounted noexec: libraries compiled at run time cannot be loaded from there (docker: --tmpfs /tmp:exec)" ;;
    esac
}

# A short path to the state for whatever makes sockets. Two jobs of one user on one node must not meet in one Ray cluster.
orbit_find_sockets() { # orbit_sockets
    orbit_job=${SLURM_JOB_ID:-}
    orbit_sockets=$orbit_state${orbit_job:+/j$orbit_job}
    [ ${#orbit_sockets} -gt $orbit_socket_bytes ] || return 0
    orbit_short=/tmp/orbit-$orbit_uid
    orbit_link=$(printf '%s' "$orbit_state" | cksum)
    orbit_link=$orbit_short/${orbit_link%% *}
    # shellcheck disable=SC3067
    if [ "$orbit_mode" != explain ] && orbit_folders "$orbit_short" 2>/dev/null && [ -O "$orbit_short" ] && [ ! -L "$orbit_short" ]; then
        [ -L "$orbit_link" ] || ln -s "$orbit_state" "$orbit_link" 2>/dev/null
    fi
    # shellcheck disable=SC3013 # -ef is in dash, bash and busybox
    if [ "$orbit_mode" = explain ] || [ "$orbit_link" -ef "$orbit_state" ]; then
        orbit_sockets=$orbit_link${orbit_job:+/j$orbit_job}
    else
        orbit_warn "$orbit_sockets has ${#orbit_sockets} bytes: Ray needs a folder of at most $orbit_socket_bytes, because a socket's path holds 107; name a shorter one in ORBIT_STATE"
    fi
}

# Code compiled at run time fits one environment and one kind of GPU, so both are in the path of its caches: what another image
# or another machine left there is never read. No program of the driver is started: that takes seconds on a cold GPU.
orbit_find_gpu() { # orbit_gpu
    orbit_gpu=${ORBIT_GPU_KEY:-} # not ORBIT_GPU: that may have come along from another machine
    if [ -n "$orbit_gpu" ]; then
        orbit_clean "$orbit_gpu"
        return 0
    fi
    for orbit_file in /proc/driver/nvidia/gpus/*/information; do
        orbit_read_model "$orbit_file"
    done
    if [ -z "$orbit_gpu" ]; then orbit_find_device; fi
    case ,${CUDA_VISIBLE_DEVICES:-},${NVIDIA_VISIBLE_DEVICES:-} in
        *,MIG-*) orbit_gpu=$orbit_gpu+MIG ;; # a slice has other tuning than the whole
    esac
    orbit_clean "$orbit_gpu"
}
orbit_read_model() { # appends to orbit_gpu
    [ -r "$1" ] || return 0
    while read -r orbit_word orbit_model; do
        [ "$orbit_word" = Model: ] || continue
        case +$orbit_gpu+ in *"+$orbit_model+"*) ;; *) orbit_gpu=${orbit_gpu:+$orbit_gpu+}$orbit_model ;; esac
        return 0
    done <"$1"
}
orbit_find_device() { # without the driver's /proc: PCI ids of NVIDIA's display (03xxxx) devices, when a device node is here
    if [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ]; then
        orbit_gpu=no-gpu
        return 0
    fi
    for orbit_dir in /sys/bus/pci/devices/*; do
        if [ ! -r "$orbit_dir/vendor" ] || [ ! -r "$orbit_dir/class" ] || [ ! -r "$orbit_dir/device" ]; then continue; fi
        read -r orbit_word <"$orbit_dir/vendor"
        read -r orbit_type <"$orbit_dir/class"
        read -r orbit_model <"$orbit_dir/device"
        case $orbit_word$orbit_type in 0x10de0x03*) ;; *) continue ;; esac
        orbit_model=pci-${orbit_model#0x}
        case +$orbit_gpu+ in *"+$orbit_model+"*) ;; *) orbit_gpu=${orbit_gpu:+$orbit_gpu+}$orbit_model ;; esac
    done
    if [ -z "$orbit_gpu" ]; then # nothing tells what it is: at least no other machine's code is read
        read -r orbit_word </proc/sys/kernel/hostname
        orbit_gpu=unknown-$orbit_word
    fi
}
orbit_clean() { # orbit_gpu: letters, digits, - and +
    orbit_rest=$1 orbit_gpu=
    while [ -n "$orbit_rest" ]; do
        orbit_word=${orbit_rest%"${orbit_rest#?}"} orbit_rest=${orbit_rest#?}
        case $orbit_word in [A-Za-z0-9+.-]) ;; *) orbit_word=- ;; esac
        orbit_gpu=$orbit_gpu$orbit_word
    done
}

# A user without an entry in /etc/passwd has no name and, under docker, the root folder as its home.
orbit_name_user() {
    if [ -z "${USER:-}" ]; then
        orbit_name=uid-$orbit_uid
        if [ -r /etc/passwd ]; then
            while IFS=: read -r orbit_word _ orbit_id _; do
                if [ "$orbit_id" = "$orbit_uid" ]; then orbit_name=$orbit_word && break; fi
            done </etc/passwd
        fi
        orbit_set USER "$orbit_name" 'torch and Ray ask for a name, and a user without an entry in /etc/passwd has none'
    fi
    orbit_default LOGNAME "$USER" 'what getpass looks at first'
    if [ -z "${HOME:-}" ] || [ "$HOME" = / ] || [ ! -d "$HOME" ] || [ ! -w "$HOME" ]; then
        orbit_folders "$orbit_state/home"
        orbit_set HOME "$orbit_state/home" 'there was none, or it cannot be written'
    fi
}

orbit_find_prefix() { # orbit_prefix, orbit_sourced, orbit_mode
    orbit_mode=run orbit_sourced=''
    case ${0##*/} in
        orbit-entrypoint | entrypoint.sh)
            if [ "${1:-}" = --explain ]; then orbit_mode=explain; fi
            orbit_prefix=$(CDPATH='' cd -- "${0%/*}/.." && pwd)
            ;;
        *) orbit_sourced=yes orbit_prefix=${ORBIT_PREFIX:-} ;;
    esac
    [ ! -r "$orbit_prefix/share/orbit/state.sh" ] || return 0
    orbit_refuse "${orbit_prefix:-ORBIT_PREFIX is not set}: no Orbit environment there" 'call it by its path, or set ORBIT_PREFIX'
    return 4
}

orbit_enter() {
    orbit_find_prefix "$@" && orbit_who && orbit_find_state && orbit_make_state || return 4
    orbit_find_sockets
    orbit_find_gpu
    orbit_environment=$(sed -n 's/^ *"identity": *"\([0-9a-f]\{12\}\).*/\1/p' "$orbit_prefix/share/orbit/environment.json")
    # shellcheck disable=SC2034 # read by state.sh
    orbit_cache=$orbit_state/cache/${orbit_environment:-unknown}/$orbit_gpu
    orbit_note "state: $orbit_state ($orbit_from, $orbit_fs)"
    orbit_set ORBIT_GPU "$orbit_gpu" 'which kind of GPU the caches of compiled code belong to (ORBIT_GPU_KEY overrides it)'
    orbit_set ORBIT_STATE_FS "$orbit_fs" 'the file system of the state folder'
    # The activation contract as calls of the words above, and what is reported: made from env/activation.toml and
    # containers/report.sh when the image is built.
    # shellcheck disable=SC1091
    . "$orbit_prefix/share/orbit/state.sh" || return 4
    orbit_name_user
    orbit_report
}

orbit_enter "$@"
orbit_status=$?
if [ "${orbit_sourced:-}" = yes ]; then
    return $orbit_status
elif [ $orbit_status -ne 0 ] || [ $orbit_mode = explain ]; then
    exit $orbit_status
fi
if [ $# -eq 0 ]; then set -- orbit --help; fi
# The first process of a container gets no signal it has no handler for, and must bury every orphan: a job for tini.
if [ $$ -eq 1 ] && command -v tini >/dev/null; then set -- tini -- "$@"; fi
exec "$@"
