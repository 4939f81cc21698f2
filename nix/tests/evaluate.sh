#!/bin/sh
# Evaluate the flake with its own flake.lock and no network.
#
# usage: nix/tests/evaluate.sh INPUTS
#
# INPUTS is a folder with one source tree per locked input, named like the input:
#     nixpkgs-lib-only  pyproject-nix  uv2nix  pyproject-build-systems      (needed)
#     nixpkgs                                                               (optional)
# Each tree must have the narHash of flake.lock. Without a nixpkgs tree a stand-in made from nixpkgs-lib-only takes its
# place (nixpkgs-stand-in.nix): everything is evaluated down to the derivations, nothing can be built.
#
# Prints one JSON object: the shell, the packages, the checks, the facts of the flake's lib.
# Exit status: 0 it evaluates; 1 it does not, or a tree is not what the lock says; 2 bad usage; 3 nix or a tree is missing.
set -eu

fail() {
    status=$1
    shift
    echo "evaluate.sh: $*" >&2
    exit "$status"
}

[ $# -eq 1 ] || fail 2 "usage: nix/tests/evaluate.sh INPUTS (a folder with one tree per input of flake.lock)"
command -v nix >/dev/null 2>&1 || fail 3 "nix: program not found; install nix 2.8 or newer"
[ -d "$1" ] || fail 3 "$1: no such folder"
inputs=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
system=x86_64-linux

scratch=$(mktemp -d "${TMPDIR:-/tmp}/orbit-nix.XXXXXX")
trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
# A store and a cache of our own: the machine's are neither needed nor touched.
export XDG_CACHE_HOME="$scratch/cache" XDG_STATE_HOME="$scratch/state"
nix() {
    command nix --extra-experimental-features 'nix-command flakes' --store "$scratch/store" --offline "$@" 2>"$scratch/log" ||
        { cat "$scratch/log" >&2; fail 1 "nix $1 failed (its message is above)"; }
}

# 1. What git would hand to nix: tracked files and new ones that are not ignored.
mkdir "$scratch/flake"
(cd "$root" && git -c "safe.directory=*" -c core.quotePath=off ls-files --cached --others --exclude-standard) |
    while IFS= read -r name; do [ ! -e "$root/$name" ] || echo "$name"; done >"$scratch/list"
(cd "$root" && tar -c -T "$scratch/list") | tar -x -C "$scratch/flake"

# 2. The locked inputs, each checked against its narHash, so that nix finds them in the store instead of fetching.
locked() {
    nix eval --impure --raw --expr "(builtins.fromJSON (builtins.readFile $root/flake.lock)).nodes.\"$1\".locked.narHash"
}
for name in nixpkgs-lib-only pyproject-nix uv2nix pyproject-build-systems nixpkgs; do
    if [ ! -d "$inputs/$name" ]; then
        [ "$name" = nixpkgs ] && continue
        fail 3 "$inputs/$name: no such folder (needed: the source tree of input $name at the revision in flake.lock)"
    fi
    want=$(locked "$name")
    have=$(nix hash path "$inputs/$name")
    [ "$want" = "$have" ] || fail 1 "$inputs/$name has narHash $have, flake.lock says $want"
    nix store add-path --name source "$inputs/$name" >/dev/null
done

# 3. The lock is complete: nothing would have to be added to it.
nix flake metadata "path:$scratch/flake" --no-update-lock-file --json >/dev/null

# 4. Every output evaluates.
set --
if [ ! -d "$inputs/nixpkgs" ]; then
    mkdir "$scratch/nixpkgs"
    cp -R "$inputs/nixpkgs-lib-only/lib" "$here/nixpkgs-stand-in.nix" "$scratch/nixpkgs"
    chmod -R u+w "$scratch/nixpkgs"
    echo '{ outputs = _: import ./nixpkgs-stand-in.nix { lib = import ./lib; }; }' >"$scratch/nixpkgs/flake.nix"
    set -- --override-input nixpkgs "path:$scratch/nixpkgs" --no-write-lock-file
fi
nix flake check --no-build "path:$scratch/flake" "$@"
output() {
    what=$1
    apply=$2
    shift 2
    nix eval --json "path:$scratch/flake#$what" --apply "$apply" "$@"
}
paths='set: builtins.mapAttrs (name: value: value.drvPath) set'
shell=$(output "devShells.$system.default" 'shell: {
    inherit (shell) name drvPath;
    packages = map (package: package.pname or package.name) shell.nativeBuildInputs;
    env = builtins.mapAttrs (name: toString) shell.env;
    hook = shell.shellHook;
}' "$@")
packages=$(output "packages.$system" "$paths" "$@")
checks=$(output "checks.$system" "$paths" "$@")
facts=$(output lib 'facts: facts' "$@")
printf '{"shell": %s,\n "packages": %s,\n "checks": %s,\n "lib": %s}\n' "$shell" "$packages" "$checks" "$facts"
