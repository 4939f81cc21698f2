#!/bin/sh
# What an image's entry point tells about the container it finds itself in: limits that are too small, and what came along
# from the host and cannot work. Part of share/orbit/state.sh; the words (orbit_warn, orbit_set, ...) are those of entrypoint.sh.
# shellcheck disable=SC2154 # these variables are set there
# Builtins only. Each threshold is a failure that people had; docs/image-runtime.md has the list.

orbit_shm_kb=1048576 # below this NCCL, Ray's object store and data loaders fail or crawl; engines give 64 MB by default
orbit_files=65536    # open files: raylets abort at 1024

orbit_report() { # after the contract; orbit_drop_foreign comes before it
    orbit_raise_limits
    orbit_check_shm
    orbit_tell_limits
    orbit_spare_proxy
}

orbit_limits() { # orbit_files_soft, orbit_files_hard; the same of stack and locked
    orbit_files_soft=unlimited orbit_files_hard=unlimited orbit_stack_soft=unlimited
    orbit_locked_soft=unlimited orbit_locked_hard=unlimited
    while read -r _ orbit_a orbit_b orbit_x orbit_y _; do # "Max open files  SOFT  HARD  files"
        case "$orbit_a $orbit_b" in
            'open files') orbit_files_soft=$orbit_x orbit_files_hard=$orbit_y ;;
            'stack size') orbit_stack_soft=$orbit_x ;;
            'locked memory') orbit_locked_soft=$orbit_x orbit_locked_hard=$orbit_y && break ;; # the last of them
        esac
    done </proc/self/limits
}
orbit_less() { [ "$1" != unlimited ] && [ "$1" -lt "$2" ]; }
# shellcheck disable=SC3045 # -S and these letters are in dash, bash and busybox
orbit_raise_limits() {
    orbit_limits
    if orbit_less "$orbit_files_soft" $orbit_files; then
        orbit_want=$orbit_files
        if orbit_less "$orbit_files_hard" $orbit_files; then
            orbit_want=$orbit_files_hard
            orbit_warn "at most $orbit_files_hard open files: Ray needs $orbit_files (docker: --ulimit nofile=65536:1048576)"
        fi
        ulimit -S -n "$orbit_want" 2>/dev/null && orbit_note "open files: $orbit_files_soft -> $orbit_want"
    fi
    if orbit_less "$orbit_stack_soft" 8388608 && ! ulimit -S -s 8192 2>/dev/null; then
        orbit_warn "stack of $orbit_stack_soft bytes: compilers and deep recursions need 8 MB (docker: --ulimit stack=8388608)"
    fi
    if [ -e /dev/infiniband/uverbs0 ]; then
        orbit_want=$orbit_locked_hard
        [ "$orbit_want" = unlimited ] || orbit_want=$((orbit_want / 1024)) # ulimit counts KiB
        [ "$orbit_locked_soft" = "$orbit_locked_hard" ] || ulimit -S -l "$orbit_want" 2>/dev/null
        if orbit_less "$orbit_locked_hard" 1073741824; then
            orbit_warn "at most $orbit_locked_hard bytes of locked memory: RDMA registers far more (docker: --ulimit memlock=-1; Kubernetes: set it in the container runtime; Slurm: PropagateResourceLimits)"
        fi
    elif [ "$orbit_gpu" != no-gpu ] && [ -d /sys/class/infiniband ]; then
        for orbit_dir in /sys/class/infiniband/*; do
            [ -e "$orbit_dir" ] || continue
            orbit_warn "the host has RDMA (${orbit_dir##*/}) but /dev/infiniband is not in this container: NCCL falls back to TCP (docker: --device /dev/infiniband; Kubernetes: request the rdma resource)"
            break
        done
    fi
}

orbit_check_shm() {
    case ,$orbit_shm, in
        *,size=*k,*)
            orbit_kb=${orbit_shm##*size=}
            orbit_kb=${orbit_kb%%k*}
            if [ "$orbit_kb" -lt $orbit_shm_kb ]; then
                orbit_warn "/dev/shm holds $((orbit_kb / 1024)) MB: NCCL, Ray and data loaders need more (docker, podman: --shm-size=16g or --ipc=host; Kubernetes: an emptyDir with medium Memory on /dev/shm)"
            fi
            ;;
    esac
}

# What the cgroup allows, not what the host has. The smallest limit on the way up counts (cgroups(7), cgroup v1 and v2).
orbit_least() { # orbit_limit: least of file $3 in the folders from $1$2 up to $1; words such as max do not count
    orbit_path=${2%/} orbit_limit=
    while :; do
        if [ -r "$1$orbit_path/$3" ]; then
            read -r orbit_word orbit_part <"$1$orbit_path/$3"
            case $orbit_word in
                *[!0-9]* | '') ;;
                *)
                    # cpu.max is "quota period"; of a quota the CPUs, rounded up
                    if [ -n "$orbit_part" ]; then orbit_word=$(((orbit_word + orbit_part - 1) / orbit_part)); fi
                    if [ -z "$orbit_limit" ] || [ "$orbit_word" -lt "$orbit_limit" ]; then orbit_limit=$orbit_word; fi
                    ;;
            esac
        fi
        [ -n "$orbit_path" ] || break
        orbit_path=${orbit_path%/*}
    done
}
orbit_read_limits() { # orbit_cpus, orbit_memory, orbit_pids; empty: no limit
    orbit_cpus='' orbit_memory='' orbit_pids=''
    [ -r /proc/self/cgroup ] || return 0
    while IFS=: read -r _ orbit_kinds orbit_group; do
        case ,$orbit_kinds, in
            ,,) # v2
                orbit_least /sys/fs/cgroup "$orbit_group" cpu.max && orbit_cpus=${orbit_limit:-$orbit_cpus}
                orbit_least /sys/fs/cgroup "$orbit_group" memory.max && orbit_memory=${orbit_limit:-$orbit_memory}
                orbit_least /sys/fs/cgroup "$orbit_group" pids.max && orbit_pids=${orbit_limit:-$orbit_pids}
                ;;
            *,memory,*) orbit_least /sys/fs/cgroup/memory "$orbit_group" memory.limit_in_bytes && orbit_memory=$orbit_limit ;;
            *,pids,*) orbit_least /sys/fs/cgroup/pids "$orbit_group" pids.max && orbit_pids=$orbit_limit ;;
            *,cpu,*)
                orbit_least /sys/fs/cgroup/cpu "$orbit_group" cpu.cfs_period_us && orbit_period=$orbit_limit
                orbit_least /sys/fs/cgroup/cpu "$orbit_group" cpu.cfs_quota_us
                if [ -n "$orbit_limit" ] && [ -n "$orbit_period" ]; then orbit_cpus=$(((orbit_limit + orbit_period - 1) / orbit_period)); fi
                ;;
        esac
    done </proc/self/cgroup
    # v1 writes "no limit" as the largest number of pages
    if [ -n "$orbit_memory" ] && [ "$orbit_memory" -ge 4611686018427387904 ]; then orbit_memory=; fi
}
orbit_tell_limits() {
    orbit_read_limits
    if [ -n "$orbit_cpus" ]; then
        orbit_set ORBIT_CPU_LIMIT "$orbit_cpus" 'CPUs by the cgroup; the host may show more'
        orbit_default OMP_NUM_THREADS "$orbit_cpus" 'thread pools count the CPUs they see, not those they get'
    fi
    if [ -n "$orbit_memory" ]; then
        orbit_set ORBIT_MEMORY_LIMIT "$orbit_memory" 'bytes of memory by the cgroup, /dev/shm and tmpfs included'
    fi
    if [ -n "$orbit_pids" ] && [ "$orbit_pids" -lt 2048 ]; then
        orbit_warn "at most $orbit_pids processes and threads: Ray and torch start more (docker, podman: --pids-limit=-1; Kubernetes: podPidsLimit of the kubelet)"
    fi
}

# A proxy must not get what is meant for this machine: engines ask themselves over HTTP whether they are up.
orbit_spare_proxy() {
    [ -n "${http_proxy:-}${https_proxy:-}${all_proxy:-}${HTTP_PROXY:-}${HTTPS_PROXY:-}${ALL_PROXY:-}" ] || return 0
    orbit_past=${no_proxy:-${NO_PROXY:-}}
    [ "$orbit_past" != '*' ] || return 0
    read -r orbit_word </proc/sys/kernel/hostname
    for orbit_word in 127.0.0.1 localhost 0.0.0.0 ::1 "$orbit_word" "${MASTER_ADDR:-}"; do orbit_past_add "$orbit_word"; done
    orbit_at=
    while read -r orbit_a orbit_b orbit_c _; do # "|-- ADDRESS", then "/32 host LOCAL" (net/ipv4/fib_trie.c)
        if [ "$orbit_a" = '|--' ]; then orbit_at=$orbit_b; fi
        if [ "$orbit_a $orbit_b $orbit_c" = '/32 host LOCAL' ]; then orbit_past_add "$orbit_at"; fi
    done </proc/net/fib_trie
    for orbit_word in no_proxy NO_PROXY; do
        orbit_set $orbit_word "$orbit_past" 'a proxy is set; what is meant for this machine must not go there'
    done
}
orbit_past_add() {
    case ,$orbit_past, in *,"$1",* | *", $1,"*) return 0 ;; esac
    [ -z "$1" ] || orbit_past=${orbit_past:+$orbit_past,}$1
}

# What a batch system or Apptainer carried over from the host and cannot work here.
orbit_drop_foreign() {
    for orbit_word in CC CXX; do
        eval "orbit_old=\${$orbit_word:-}"
        if [ -n "$orbit_old" ] && ! command -v "${orbit_old%% *}" >/dev/null; then
            orbit_warn "$orbit_word=$orbit_old is not in this image and was dropped: kernels are compiled with the image's own compiler"
            orbit_unset $orbit_word 'names a compiler that is not here'
        fi
    done
    case ${LD_PRELOAD:-} in
        /*) [ -e "${LD_PRELOAD%%[: ]*}" ] || orbit_warn "LD_PRELOAD=$LD_PRELOAD is not in this image: every program will say so" ;;
    esac
    if [ -n "${PYTHONPATH:-}" ]; then
        orbit_warn "PYTHONPATH=$PYTHONPATH is not used: it would put its modules before those of the lock (set it in the command: env PYTHONPATH=... python ...)"
    fi
    # HTCondor's profile forbids pidfd_getfd, without which CUDA IPC cannot hand memory to another process.
    if [ -n "${_CONDOR_SCRATCH_DIR:-}" ]; then
        orbit_default ORBIT_PEFT_ADAPTER_TRANSPORT cpu_gather 'HTCondor jobs may not pass GPU memory to each other (pidfd_getfd is denied)'
    fi
}
