#!/bin/sh
# Job demo with docker: the options, with their reasons, are in docs/launch-docker.md.
# Identity of recipe and site: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
#
#   sh demo.sh RANK HEAD    on each of the 2 machines: its number from 0, the name of machine 0
#   ORBIT_OWNER_FILE names a file with the owner token, the same on all (docs/launch-docker.md)
#   ORBIT_GPUS=0,1,2,3,4,5,6,7 sh demo.sh RANK HEAD    on other GPUs than the first ones
#   docker logs -f demo-RANK; docker stop demo-RANK; docker rm -v demo-RANK
set -eu
engine=${ORBIT_DOCKER:-docker}
rank=${1:?the number of this machine, from 0 to 1}
head=${2:?name or address of machine 0}

# a folder and files of this user alone; gone when the container has them
umask 077
private=$(mktemp -d "${TMPDIR:-/tmp}/orbit.XXXXXX")
trap 'rm -rf "$private"' EXIT
trap 'exit 130' INT TERM
cp "${ORBIT_OWNER_FILE:?names the file with the owner token}" "$private/owner"

set -- \
    --name demo-"$rank" \
    --label io.orbit.job=demo \
    --label io.orbit.identity=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef \
    --label io.orbit.image=sha256:abababababababababababababababababababababababababababababababab \
    --network host \
    --stop-timeout 60 \
    --log-driver local \
    --log-opt max-size=100m --log-opt max-file=5 \
    --cpus 96 \
    --memory 1000g --memory-swap 1000g \
    --shm-size 16g \
    --pids-limit -1 \
    --ulimit nofile=65536:1048576 \
    --ulimit memlock=-1:-1 \
    --security-opt no-new-privileges \
    --cap-add SYS_PTRACE \
    --read-only --tmpfs /tmp:exec,mode=1777,size=4g \
    --volume /var/tmp \
    --device /dev/infiniband \
    --mount type=bind,source="$private/owner",target=/run/orbit/owner,readonly \
    --env ORBIT_HEAD="$head" \
    --env ORBIT_STATE=/var/tmp/orbit \
    --env ORBIT_IMAGE_DIGEST=sha256:abababababababababababababababababababababababababababababababab \
    --env ORBIT_OWNER_FILE=/run/orbit/owner
gpus=${ORBIT_GPUS:-0,1,2,3,4,5,6,7}
set -- "$@" --gpus "\"device=$gpus\""

"$engine" run --detach "$@" --env ORBIT_RANK="$rank" --entrypoint /opt/orbit/bin/orbit-entrypoint \
    registry.example.org/team/orbit@sha256:abababababababababababababababababababababababababababababababab \
    orbit launch node --name demo --nodes 2 --rank env:ORBIT_RANK --gpus 8 --cpus 96 --memory-gib 1000 --shm-gib 16 --scratch-gib 20 --image sha256:abababababababababababababababababababababababababababababababab --meet tcp:env:ORBIT_HEAD --ports 21000,21001,21002,21003,21004,21005,21006,21007 --rdma required \
    -- python3.12 /data/train.py
