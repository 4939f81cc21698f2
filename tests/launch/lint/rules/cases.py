# ruff: noqa: E501 - a case is one line
"""What each rule must find, and what looks like it and is right: (rule, severity, text)."""

from __future__ import annotations

from tests.launch.lint.sound import COMPOSE, CONDOR, DIGEST, DOCKER, IMAGE, JOB, OTHER, RAY_JOB, SLURM, changed

TOKEN = "hf_" + "a1B2" * 9
POD = changed(JOB, ("restartPolicy: Never", "restartPolicy: Never\n      hostNetwork: true"))
SHELL = 'command: [sh, -c, "cd /data && torchrun --nproc-per-node 8 train.py"]'
ARGS = 'args: [torchrun, --nproc-per-node, "8", train.py]'
RAY_SCRIPT = """\
#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=16
#SBATCH --signal=TERM@120
#SBATCH --export=NONE
unset RAY_ADDRESS
ray start --head --num-cpus 16 --num-gpus 8
python train.py
"""
MPI = """\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: mpi}
spec:
  slotsPerWorker: 8
  mpiReplicaSpecs:
    Launcher: {template: {spec: {containers: [{name: l, image: a, command: [mpirun, -np, '16', python, x.py]}]}}}
    Worker: {replicas: 2, template: {spec: {containers: [{name: w, image: a, resources: {limits: {nvidia.com/gpu: 8}}}]}}}
"""
LONG = "/scratch/" + "x" * 60

BAD: list[tuple[str, str, str]] = [
    ("unreadable-manifest", "error", "apiVersion: v1\nkind: Pod\nspec: {\n"),
    ("unreadable-manifest", "error", "apiVersion: v1\nkind: Pod\nspec: {{ .Values.x }}\n  a: b\n"),
    ("unreadable-manifest", "error", "something else\n"),
    ("duplicate-key", "error", changed(JOB, ("  backoffLimit: 0\n", "  backoffLimit: 0\n  backoffLimit: 3\n"))),
    ("duplicate-key", "error", changed(COMPOSE, ("    shm_size: 16gb\n", "    shm_size: 16gb\n    shm_size: 1gb\n"))),
    ("quoted-value", "error", changed(JOB, ('value: "1"', "value: 1"))),
    ("quoted-value", "error", changed(JOB, ('value: "1"', "value: yes"))),
    ("missing-volume", "error", changed(JOB, ("name: shm, mountPath", "name: shmm, mountPath"))),
    ("memory-amount", "error", changed(JOB, ("limits: {memory: 64Gi", "limits: {memory: 64GB"))),
    ("memory-amount", "error", changed(JOB, ("limits: {memory: 64Gi", "limits: {memory: 512m"))),
    ("memory-amount", "error", changed(JOB, ("sizeLimit: 16Gi", "sizeLimit: 16gb"))),
    ("memory-amount", "error", changed(DOCKER, ("--shm-size=16g", "--shm-size=16Gig"))),
    ("clear-secret", "error", changed(JOB, ('value: "1"', f"value: {TOKEN}"))),
    ("clear-secret", "error", changed(JOB, ("name: MODE, value: \"1\"", "name: WANDB_API_KEY, value: 0123456789abcdef01"))),
    ("clear-secret", "warning", changed(COMPOSE, ("    shm_size", "    environment: [DB_PASSWORD=hunter22]\n    shm_size"))),
    ("clear-secret", "error", changed(DOCKER, ("-e HF_TOKEN", f"-e HF_TOKEN={TOKEN}"))),
    ("clear-secret", "error", changed(DOCKER, ("train.py", "train.py --api-key 0123456789abcdef"))),
    ("clear-secret", "error", changed(SLURM, ("srun", f"export HF_TOKEN={TOKEN}\nsrun"))),
    ("clear-secret", "error", changed(CONDOR, ("queue", f'environment = "HF_TOKEN={TOKEN}"\nqueue'))),
    ("clear-secret", "error", f"apiVersion: v1\nkind: Secret\nstringData:\n  t: {TOKEN}\n"),
    ("host-path", "error", changed(DOCKER, ("--rm", "--rm --user 0 -v /etc:/etc"))),
    ("host-path", "warning", changed(DOCKER, ("--rm", "--rm -v /var/run/docker.sock:/var/run/docker.sock"))),
    ("host-path", "warning", changed(DOCKER, ("--rm", "--rm --privileged"))),
    ("host-path", "warning", changed(
        JOB, ("emptyDir: {medium: Memory, sizeLimit: 16Gi}", "hostPath: {path: /data}"),
        ("- name: trainer", "- name: trainer\n        securityContext: {runAsUser: 0}"))),
    ("image-tag", "warning", changed(JOB, (f"@{DIGEST}", ":1.0"))),
    ("image-tag", "warning", changed(JOB, (f"@{DIGEST}", ""))),
    ("image-tag", "error", changed(JOB, (DIGEST, "sha256:abc"))),
    ("image-tag", "warning", changed(DOCKER, (f"@{DIGEST}", ":latest"))),
    ("image-tag", "warning", changed(COMPOSE, (f"@{DIGEST}", ":latest"))),
    ("image-tag", "warning", changed(SLURM, (f":{DIGEST}", ":1.0"))),
    ("image-tag", "warning", changed(CONDOR, (f"@{DIGEST}", ":1.0"))),
    ("image-mixed", "error", RAY_JOB[::-1].replace(DIGEST[::-1], OTHER[::-1], 1)[::-1]),
    ("image-mixed", "error", RAY_JOB.replace(IMAGE, "rayproject/ray:2.9.0", 1).replace(IMAGE, "rayproject/ray:2.10.0")),
    ("image-mixed", "error", RAY_JOB.replace(IMAGE, "a/ray:1-py310", 1).replace(IMAGE, "a/ray:1-py311")),
    ("image-mixed", "warning", RAY_JOB.replace(f"@{DIGEST}", ":1", 1)),
    ("image-mixed", "error", RAY_JOB + f"""\
  submitterPodTemplate:
    spec:
      containers:
      - {{name: submit, image: "registry.example.org/team/stack@{OTHER}"}}
"""),
    ("ray-version", "error", RAY_JOB.replace(IMAGE, "rayproject/ray:2.46.0-gpu")),
    ("ray-version", "error", RAY_JOB.replace("team/stack", "team/orbit").replace("2.55.1", "2.40.0")),
    ("ray-version", "note", changed(RAY_JOB, ('    rayVersion: "2.55.1"\n', ""))),
    ("pull-policy", "note", changed(JOB, ("IfNotPresent", "Always"))),
    ("pull-policy", "warning", changed(JOB, (f"@{DIGEST}", ":latest"))),
    ("entry-point", "warning", changed(JOB, ("team/stack", "team/orbit"), (ARGS, "command: [python3, train.py]"))),
    ("entry-point", "note", RAY_JOB.replace("team/stack", "team/orbit")),
    ("entry-point", "warning", changed(DOCKER, ("team/stack", "team/orbit"), ("--rm", "--rm --entrypoint python3"))),
    ("shared-memory", "error", changed(JOB, ("        - {name: shm, mountPath: /dev/shm}\n", ""))),
    ("shared-memory", "error", changed(JOB, ("sizeLimit: 16Gi", "sizeLimit: 128Gi"))),
    ("shared-memory", "warning", changed(JOB, ("sizeLimit: 16Gi", "sizeLimit: 256Mi"))),
    ("shared-memory", "warning", changed(JOB, ("{medium: Memory, sizeLimit: 16Gi}", "{}"))),
    ("shared-memory", "error", changed(RAY_JOB, ('num-gpus: "8"', 'object-store-memory: "100000000000", num-gpus: "8"'))),
    ("shared-memory", "error", changed(DOCKER, (" --shm-size=16g", ""))),
    ("shared-memory", "warning", changed(DOCKER, (" --shm-size=16g", ""), ("--gpus 2", "--gpus all"))),
    ("shared-memory", "error", changed(DOCKER, ("--shm-size=16g", "--shm-size=128g"))),
    ("shared-memory", "error", changed(COMPOSE, ("    shm_size: 16gb\n", ""))),
    ("shared-memory", "warning", changed(CONDOR, ("request_gpus = 1", "request_gpus = 2"))),
    ("memory-request", "warning", changed(JOB, ("requests: {cpu: \"8\", memory: 64Gi", 'requests: {cpu: "8", memory: 32Gi'))),
    ("memory-request", "warning", changed(RAY_JOB, ("requests: {memory: 64Gi}", "requests: {memory: 32Gi}"))),
    ("memory-request", "note", changed(JOB, ("limits: {memory: 64Gi, ", "limits: {"))),
    ("locked-memory", "warning", changed(
        JOB, ("- name: trainer", "- name: trainer\n        securityContext: {runAsUser: 1000, capabilities: {add: [IPC_LOCK]}}"))),
    ("locked-memory", "warning", RAY_JOB.replace(IMAGE, "rayproject/ray:2.55.1").replace(
        "- name: ray", "- name: ray\n            securityContext: {capabilities: {add: [IPC_LOCK]}}", 1)),
    ("locked-memory", "warning", changed(DOCKER, ("--rm", "--rm --user 1000 --cap-add IPC_LOCK"))),
    ("huge-pages", "warning", changed(JOB, ("limits: {", "limits: {hugepages-2Mi: 1Gi, "))),
    ("huge-pages", "warning", changed(JOB, ("medium: Memory", "medium: HugePages"))),
    ("gpu-count", "error", changed(JOB, ('"8", train.py', '"16", train.py'))),
    ("gpu-count", "warning", changed(JOB, ('"8", train.py', '"4", train.py'))),
    ("gpu-count", "error", changed(JOB, ("limits: {memory: 64Gi, nvidia.com/gpu: 8}", "limits: {memory: 64Gi}"))),
    ("gpu-count", "error", changed(JOB, ("[torchrun,", '[torchrun, --nnodes, "2",'))),
    ("gpu-count", "error", changed(RAY_JOB, ('num-gpus: "8"', 'num-gpus: "16"'))),
    ("gpu-count", "warning", changed(RAY_JOB, ('num-gpus: "8"', 'num-gpus: "4"'))),
    ("gpu-count", "error", changed(RAY_JOB, ("python train.py", "vllm serve m --tensor-parallel-size 64"))),
    ("gpu-count", "error", changed(DOCKER, ("--nproc-per-node=2", "--nproc_per_node=8"))),
    ("gpu-count", "error", changed(DOCKER, ("torchrun --nproc-per-node=2 train.py", "vllm serve m -tp 4"))),
    ("gpu-count", "error", changed(COMPOSE, ('"2", train.py', '"4", train.py'))),
    ("gpu-count", "error", changed(SLURM, ("--nproc-per-node=8", "--nproc-per-node=16"))),
    ("gpu-count", "error", changed(SLURM, ("--nnodes=2", "--nnodes=4"))),
    ("gpu-count", "error", changed(CONDOR, ("--nproc-per-node=1", "--nproc-per-node=4"))),
    ("gpu-count", "error", changed(DOCKER, (IMAGE, "vllm/vllm-openai:v1"), ("torchrun --nproc-per-node=2 train.py", "--model m -tp 4"))),
    ("gpu-count", "error", MPI.replace("-np, '16'", "-np, '32'")),
    ("gpu-count", "error", MPI.replace("slotsPerWorker: 8", "slotsPerWorker: 16")),
    ("cache-path", "warning", changed(DOCKER, ("-e HF_TOKEN", "-v $HOME/.cache:/cache -e TRITON_CACHE_DIR=/cache/t"))),
    ("device-variable", "error", changed(CONDOR, ("queue", 'environment = "CUDA_VISIBLE_DEVICES=0"\nqueue'))),
    ("device-variable", "warning", changed(JOB, ('MODE, value: "1"', "NVIDIA_VISIBLE_DEVICES, value: all"))),
    ("device-variable", "warning", changed(SLURM, ("srun", "export CUDA_VISIBLE_DEVICES=0,1\nsrun"))),
    ("device-variable", "warning", changed(DOCKER, ("-e HF_TOKEN", "-e NVIDIA_VISIBLE_DEVICES=0"))),
    ("device-variable", "warning", changed(DOCKER, ("-e HF_TOKEN", "-e RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES=1"))),
    ("cache-path", "warning", changed(JOB, ('MODE, value: "1"', "TRITON_CACHE_DIR, value: /home/ann/triton"))),
    ("cache-path", "warning", changed(SLURM, ("srun", "export TRITON_CACHE_DIR=/lustre/ann/triton\nsrun"))),
    ("cache-path", "warning", changed(
        JOB, ('MODE, value: "1"', "TRITON_CACHE_DIR, value: /cache/triton"), ("name: shm, mountPath: /dev/shm", "name: shm, mountPath: /cache"),
        ("emptyDir: {medium: Memory, sizeLimit: 16Gi}", "nfs: {server: a, path: /b}"))),
    ("cache-path", "error", changed(
        JOB, ('MODE, value: "1"', "TRITON_CACHE_DIR, value: /opt/triton"),
        ("- name: trainer", "- name: trainer\n        securityContext: {readOnlyRootFilesystem: true}"))),
    ("ray-folder", "error", changed(RAY_SCRIPT, ("--head", f"--head --temp-dir {LONG}"))),
    ("ray-folder", "warning", changed(RAY_SCRIPT, ("--head", "--head --temp-dir=/lustre/ray"))),
    ("ray-folder", "error", changed(JOB, ('MODE, value: "1"', f"RAY_TMPDIR, value: {LONG}"))),
    ("network-interface", "warning", changed(JOB, ('MODE, value: "1"', "NCCL_SOCKET_IFNAME, value: eth0"))),
    ("network-interface", "error", changed(JOB, ('MODE, value: "1"', "GLOO_SOCKET_IFNAME, value: lo"))),
    ("network-interface", "warning", changed(SLURM, ("srun", "export NCCL_P2P_DISABLE=1\nsrun"))),
    ("network-interface", "warning", changed(DOCKER, ("-e HF_TOKEN", "--env NCCL_SOCKET_IFNAME=ib0"))),
    ("host-network", "warning", POD),
    ("host-network", "error", changed(RAY_JOB, ("          containers:", "          hostNetwork: true\n          containers:"))),
    ("port-clash", "error", changed(JOB, ("      volumes:", """\
        ports: [{containerPort: 8000}]
      - name: other
        image: x
        ports: [{containerPort: 8000}]
      volumes:"""))),
    ("port-clash", "error", changed(RAY_JOB, ('num-gpus: "8"', 'port: "6379", dashboard-port: "6379", num-gpus: "8"'))),
    ("port-clash", "error", changed(
        RAY_JOB, ('num-gpus: "8"', 'port: "6379", min-worker-port: "6000", max-worker-port: "7000", num-gpus: "8"'))),
    ("port-clash", "warning", changed(DOCKER, ("--rm", "--rm --network host -p 8000:8000"))),
    ("port-clash", "error", "services:\n  a: {image: x, ports: ['80:80']}\n  b: {image: x, ports: ['80:81']}\n"),
    ("fixed-address", "warning", changed(JOB, ('MODE, value: "1"', "RAY_ADDRESS, value: 10.0.0.7:6379"))),
    ("fixed-address", "warning", changed(DOCKER, ("-e HF_TOKEN", "-e MASTER_ADDR=192.168.1.4"))),
    ("lost-signal", "warning", changed(JOB, (ARGS, SHELL))),
    ("lost-signal", "warning", changed(JOB, (ARGS, 'command: [bash, -c, "torchrun train.py | tee log"]'))),
    ("lost-signal", "warning", changed(JOB, (ARGS, "command: [bash, -c]\n        args:\n        - |\n          set -e\n          echo a\n          torchrun train.py"))),
    ("lost-signal", "warning", changed(DOCKER, ("torchrun --nproc-per-node=2 train.py", "bash -c 'a; torchrun train.py'"))),
    ("lost-signal", "note", changed(JOB, (ARGS, "command: [python3, train.py]"))),
    ("grace-period", "note", changed(JOB, ("      terminationGracePeriodSeconds: 120\n", ""))),
    ("grace-period", "warning", changed(JOB, ("terminationGracePeriodSeconds: 120", "terminationGracePeriodSeconds: 5"))),
    ("grace-period", "note", changed(COMPOSE, ("    stop_grace_period: 2m\n", ""))),
    ("grace-period", "note", changed(DOCKER, (" --stop-timeout 120", ""))),
    ("trainer-restart", "warning", changed(DOCKER, ("--rm --init", "--restart always"))),
    ("trainer-restart", "warning", changed(JOB, ("kind: Job", "kind: Deployment"), ("batch/v1", "apps/v1"))),
    ("trainer-restart", "note", changed(JOB, ("restartPolicy: Never", "restartPolicy: OnFailure"))),
    ("job-retry", "warning", changed(JOB, ("  backoffLimit: 0\n", ""))),
    ("job-retry", "warning", changed(RAY_JOB, ("  shutdownAfterJobFinishes: true\n", ""))),
    ("job-retry", "note", changed(RAY_JOB, ("  submitterConfig: {backoffLimit: 0}\n", ""))),
    ("job-retry", "note", changed(RAY_JOB, ("  backoffLimit: 0\n", ""))),
    ("start-deadline", "warning", changed(JOB, ("  backoffLimit: 0\n", "  backoffLimit: 0\n  activeDeadlineSeconds: 120\n"))),
    ("slurm-cpus", "error", changed(RAY_SCRIPT, ("--num-cpus 16", "--num-cpus 60"))),
    ("slurm-cpus", "warning", changed(RAY_SCRIPT, ("#SBATCH --cpus-per-task=16\n", ""))),
    ("slurm-cpus", "warning", changed(RAY_SCRIPT, ("cpus-per-task=16", "cpus-per-task=4"), ("--num-cpus 16", "--num-cpus 4"))),
    ("slurm-cpus", "note", changed(SLURM, ("export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK\n", ""))),
    ("slurm-environment", "note", changed(SLURM, ("--export=NONE", "--export=ALL"))),
    ("slurm-environment", "warning", changed(RAY_SCRIPT, ("#SBATCH --export=NONE\nunset RAY_ADDRESS\n", ""))),
    ("slurm-signal", "warning", changed(SLURM, ("#SBATCH --signal=TERM@120\n", ""))),
    ("relative-path", "warning", changed(SLURM, (" --container-workdir=/data", ""))),
    ("kill-by-name", "warning", RAY_SCRIPT + "ray stop\n"),
    ("kill-by-name", "warning", RAY_SCRIPT + "pkill -f train.py\n"),
    ("condor-request", "warning", changed(CONDOR, ("request_disk = 50GB\n", ""))),
    ("condor-request", "error", changed(CONDOR, ("request_gpus = 1\n", ""))),
    ("condor-request", "error", changed(CONDOR, ("universe = docker", "universe = vanilla"))),
    ("condor-transfer", "warning", changed(CONDOR, ("ON_EXIT_OR_EVICT", "ON_EXIT"))),
    ("condor-transfer", "note", changed(CONDOR, ("should_transfer_files = YES\n", ""))),
    ("docker-flag", "error", changed(DOCKER, ("--gpus 2", "--gpus device=0,1"))),
    ("docker-flag", "error", changed(DOCKER, ("--rm", "--rm --restart=always"))),
    ("docker-flag", "note", changed(DOCKER, ("--rm", "--rm -it"))),
]  # fmt: skip

GOOD: list[tuple[str, str]] = [
    ("unreadable-manifest", "#!/bin/sh\necho no container here\n"),
    ("duplicate-key", "x: &a {image: b}\n" + COMPOSE.replace("  trainer:\n", "  trainer:\n    <<: *a\n")),
    ("quoted-value", changed(JOB, ('value: "1"', "value: 1.2.3"))),
    ("quoted-value", changed(COMPOSE, ("    shm_size", "    environment: {A: 1}\n    shm_size"))),
    ("missing-volume", changed(JOB, ("kind: Job", "kind: StatefulSet"), ("name: shm, mountPath", "name: data, mountPath"))),
    ("memory-amount", changed(JOB, ("limits: {memory: 64Gi", "limits: {memory: 64e9"))),
    ("memory-amount", changed(DOCKER, ("--shm-size=16g", "--shm-size=16GB"))),
    ("clear-secret", changed(JOB, ('MODE, value: "1"', 'HF_TOKEN_PATH, value: "/var/run/token/hf-token"'))),
    ("clear-secret", changed(JOB, ('MODE, value: "1"', "WANDB_API_KEY, value: $(FROM_SECRET)"))),
    ("clear-secret", changed(COMPOSE, ("    shm_size", "    environment: [DB_PASSWORD=${DB_PASSWORD}]\n    shm_size"))),
    ("clear-secret", changed(JOB, ('MODE, value: "1"', "HF_TOKEN, value: <your token here>"))),
    ("clear-secret", changed(DOCKER, ("train.py", "train.py --max-tokens 4096 --tokenizer gpt2"))),
    ("host-path", changed(DOCKER, ("--rm", "--rm --user 1000 -v /data:/data"))),
    ("host-path", changed(DOCKER, ("--rm", "--rm --user 0 -v /etc/hosts:/etc/hosts:ro"))),
    ("image-tag", changed(COMPOSE, (f"    image: {IMAGE}\n", "    build: .\n    image: local\n"))),
    ("image-tag", changed(DOCKER, (IMAGE, '"$IMAGE"'))),
    ("image-tag", changed(SLURM, (f"registry.example.org#team/stack:{DIGEST}", "/images/stack.sqsh"))),
    ("image-mixed", RAY_JOB.replace("          - name: ray", "          - {name: log, image: fluent/bit:1}\n          - name: ray", 0)),
    ("image-mixed", RAY_JOB.replace("registry.example.org/team/stack@", "mirror.example.org/stack@", 1)),
    ("ray-version", RAY_JOB.replace(IMAGE, "rayproject/ray:2.55.1-py312-gpu")),
    ("ray-version", RAY_JOB.replace("team/stack", "team/orbit")),
    ("pull-policy", changed(JOB, (f"@{DIGEST}", ":1.0"))),
    ("entry-point", changed(JOB, (ARGS, "command: [python3, train.py]"))),
    ("entry-point", changed(JOB, ("team/stack", "team/orbit"), (ARGS, "command: [orbit-entrypoint, python3, train.py]"))),
    ("shared-memory", changed(DOCKER, ("--shm-size=16g", "--ipc=host"))),
    ("shared-memory", changed(JOB, ("sizeLimit: 16Gi", "sizeLimit: 64Gi"))),
    ("shared-memory", changed(DOCKER, (" --shm-size=16g --memory 64g", ""), (" --gpus 2", ""))),
    ("shared-memory", changed(RAY_JOB, ('num-gpus: "8"', 'object-store-memory: "10000000000", num-gpus: "8"'))),
    ("memory-request", changed(JOB, ('memory: 64Gi, nvidia.com/gpu: 8}\n          limits', 'memory: 65536Mi, nvidia.com/gpu: 8}\n          limits'))),
    ("locked-memory", changed(
        JOB, ("- name: trainer", "- name: trainer\n        securityContext: {runAsUser: 0, capabilities: {add: [IPC_LOCK]}}"))),
    ("locked-memory", changed(DOCKER, ("--rm", "--rm --user 1000 --cap-add IPC_LOCK --ulimit memlock=-1"))),
    ("huge-pages", changed(JOB, ("limits: {", "limits: {ephemeral-storage: 1Gi, "))),
    ("gpu-count", changed(JOB, ('"8", train.py', "gpu, train.py"))),
    ("gpu-count", changed(JOB, ("nvidia.com/gpu: 8}\n        volume", "nvidia.com/gpu: 8, nvidia.com/hostdev: 1}\n        volume"))),
    ("gpu-count", changed(RAY_JOB, ("python train.py", "vllm serve m --tensor-parallel-size 8 --pipeline-parallel-size 4"))),
    ("gpu-count", changed(DOCKER, ("--gpus 2", "--gpus all"), ("--nproc-per-node=2", "--nproc-per-node=8"))),
    ("gpu-count", changed(DOCKER, ("--gpus 2", """--gpus '"device=0,1"'"""))),
    ("gpu-count", changed(SLURM, ("#SBATCH --gpus-per-node=8\n", ""))),
    ("gpu-count", MPI),
    ("gpu-count", changed(DOCKER, (IMAGE, "vllm/vllm-openai:v1"), ("torchrun --nproc-per-node=2 train.py", "--model m -tp 2"))),
    ("device-variable", changed(JOB, ('MODE, value: "1"', "NVIDIA_VISIBLE_DEVICES, value: void"))),
    ("device-variable", changed(CONDOR, ("queue", 'environment = "CUDA_DEVICE_ORDER=PCI_BUS_ID"\nqueue'))),
    ("cache-path", changed(JOB, ('MODE, value: "1"', "TRITON_CACHE_DIR, value: /dev/shm/triton"))),
    ("cache-path", changed(JOB, ('MODE, value: "1"', "HF_HOME, value: /home/ann/hf"))),
    ("ray-folder", changed(RAY_SCRIPT, ("--head", "--head --temp-dir=/tmp/ray7"))),
    ("network-interface", changed(JOB, ('MODE, value: "1"', 'NCCL_P2P_DISABLE, value: "0"'))),
    ("network-interface", changed(SLURM, ("srun", 'export NCCL_SOCKET_IFNAME="$IFACE"\nsrun'))),
    ("host-network", changed(POD, ("hostNetwork: true", "hostNetwork: true\n      dnsPolicy: ClusterFirstWithHostNet"))),
    ("port-clash", changed(JOB, ("      volumes:", """\
        ports: [{containerPort: 8000}]
      - name: other
        image: x
        ports: [{containerPort: 8000, protocol: UDP}]
      volumes:"""))),
    ("port-clash", "services:\n  a: {image: x, ports: ['80:80']}\n  b: {image: x, ports: ['127.0.0.1:81:80']}\n"),
    ("fixed-address", changed(JOB, ('MODE, value: "1"', "RAY_ADDRESS, value: 'http://127.0.0.1:8265'"))),
    ("lost-signal", changed(JOB, (ARGS, SHELL.replace("&& ", "&& exec ")))),
    ("lost-signal", changed(JOB, (ARGS, 'command: [sh, -c, "torchrun --nproc-per-node 8 train.py"]'))),
    ("lost-signal", changed(JOB, (ARGS, "command: [bash, -c, 'trap \"kill $p\" TERM; torchrun train.py & p=$!; wait']"))),
    ("grace-period", changed(JOB, (ARGS, "args: [sleep, inf]"), ("      terminationGracePeriodSeconds: 120\n", ""))),
    ("trainer-restart", changed(DOCKER, ("--rm --init", "--restart always"), ("train.py", "train.py --resume auto"))),
    ("job-retry", changed(JOB, (ARGS, "args: [sleep, inf]"), ("  backoffLimit: 0\n", ""))),
    ("start-deadline", changed(JOB, ("  backoffLimit: 0\n", "  backoffLimit: 0\n  activeDeadlineSeconds: 86400\n"))),
    ("slurm-cpus", RAY_SCRIPT),
    ("slurm-environment", RAY_SCRIPT),
    ("slurm-signal", changed(SLURM, ("#SBATCH --signal=TERM@120\n", ""), ("train.py", "serve.py"), ("torchrun", "python"))),
    ("relative-path", changed(SLURM, (" --container-workdir=/data", ""), (" train.py", " /data/train.py"))),
    ("kill-by-name", RAY_SCRIPT.replace("#SBATCH --signal", "#SBATCH --exclusive\n#SBATCH --signal") + "ray stop\n"),
    ("kill-by-name", RAY_SCRIPT + "kill $pid\n"),
    ("condor-request", changed(CONDOR, ("universe = docker\n", "universe = container\n"), ("docker_image", "container_image"))),
    ("condor-transfer", changed(CONDOR, ("ON_EXIT_OR_EVICT", "ON_EXIT\ncheckpoint_exit_code = 85"))),
    ("docker-flag", changed(DOCKER, ("--gpus 2", """--gpus '"device=0,1"'"""))),
    ("docker-flag", changed(DOCKER, ("--rm", "--restart=no --rm"))),
]  # fmt: skip
