#!/bin/sh
# Job demo with docker: the options, with their reasons, are in docs/launch-docker.md.
# Identity of recipe and site: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
#
#   sh demo.sh    starts it in the background and prints the container's id
#   ORBIT_GPUS=0,1 sh demo.sh    on other GPUs than the first ones
#   docker logs -f demo; docker stop demo; docker rm -v demo
set -eu
engine=${ORBIT_DOCKER:-docker}
user=$(id -un)

# a folder and files of this user alone; gone when the container has them
umask 077
private=$(mktemp -d "${TMPDIR:-/tmp}/orbit.XXXXXX")
trap 'rm -rf "$private"' EXIT
trap 'exit 130' INT TERM
printf %s "${HF_TOKEN:?is a secret of this job, and not set here}" >"$private/HF_TOKEN"

set -- \
    --name demo \
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
    --workdir '/data/my run' \
    --mount type=bind,source=/home/"${user}"'/my data',target=/data \
    --mount type=bind,source=/models,target=/models,readonly \
    --mount type=bind,source="$private/HF_TOKEN",target=/run/orbit/secrets/HF_TOKEN,readonly \
    --env ORBIT_STATE=/var/tmp/orbit \
    --env 'ODD=it'"'"'s $HOME,
"x" \ `id`' \
    --env ORBIT_IMAGE_DIGEST=sha256:abababababababababababababababababababababababababababababababab
gpus=${ORBIT_GPUS:-0,1}
set -- "$@" --gpus "\"device=$gpus\""

"$engine" run --detach "$@" --entrypoint /opt/orbit/bin/orbit-entrypoint \
    registry.example.org/team/orbit@sha256:abababababababababababababababababababababababababababababababab \
    /bin/sh -c 'for n in HF_TOKEN; do v=$(cat /run/orbit/secrets/$n && echo x) || exit 2; export $n="${v%x}"; done; exec "$@"' sh \
    orbit launch node --name demo --gpus 2 --cpus 96 --memory-gib 1000 --shm-gib 16 --scratch-gib 20 --image sha256:abababababababababababababababababababababababababababababababab --rdma required \
    -- python3.12 train.py --note 'a b'
