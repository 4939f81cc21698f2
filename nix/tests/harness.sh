#!/bin/sh
# Evaluate, enter and build the flake with its own flake.lock, no network, no daemon and a store of its own.
#
# usage: nix/tests/harness.sh INPUTS ACTION
#     show                          what the flake offers (nix flake show)
#     facts                         every output evaluated down to its derivation (nix flake check --no-build), as one JSON object
#     wheels                        what builds fetch, as requirements for `pip download --no-deps -r`
#     develop SHELL COMMAND...      COMMAND in devShells.SHELL (nix develop)
#     run APP [WORD...]             apps.APP with these words (nix run)
#     build OUTPUT [COMMAND...]     packages.OUTPUT or checks.OUTPUT built; COMMAND runs with $result naming it
#
# INPUTS is a folder with one source tree per locked input, named like the input:
#     nixpkgs-lib-only  pyproject-nix  uv2nix  pyproject-build-systems      (needed)
#     nixpkgs                                                               (optional)
# Each tree must have the narHash of flake.lock. Without a nixpkgs tree a stand-in takes its place (stand-in/): its packages are
# links to programs of this machine. What is built then runs here and nowhere else.
#
# ORBIT_NIX_WHEELS names a folder of files that `wheels` listed; each is taken for what its hash says it is. ORBIT_NIX_SCRATCH names
# a folder for the store, which is kept, so that the next call with the same one builds nothing again.
#
# Exit status: 0 done; 1 it does not evaluate or build, or a tree is not what the lock says; 2 bad usage; 3 nix, a program or a
# tree is missing; with COMMAND, its own.
set -eu

fail() {
    status=$1
    shift
    echo "harness.sh: $*" >&2
    exit "$status"
}

[ $# -ge 2 ] || fail 2 "usage: nix/tests/harness.sh INPUTS show|facts|wheels|develop|run|build ... (the head of the file says more)"
inputs=$1 action=$2
shift 2
case $action in
    show | facts | wheels) [ $# -eq 0 ] || fail 2 "$action takes no further words" ;;
    develop) [ $# -ge 2 ] || fail 2 "usage: nix/tests/harness.sh INPUTS develop SHELL COMMAND..." ;;
    run) [ $# -ge 1 ] || fail 2 "usage: nix/tests/harness.sh INPUTS run APP [WORD...]" ;;
    build) [ $# -ge 1 ] || fail 2 "usage: nix/tests/harness.sh INPUTS build OUTPUT [COMMAND...]" ;;
    *) fail 2 "$action: not an action; know show, facts, wheels, develop, run, build" ;;
esac
command -v nix >/dev/null 2>&1 || fail 3 "nix: program not found; install nix 2.8 or newer (Debian: nix-bin)"
[ -d "$inputs" ] || fail 3 "$inputs: no such folder"
inputs=$(cd "$inputs" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
system=x86_64-linux

if [ -n "${ORBIT_NIX_SCRATCH:-}" ]; then
    mkdir -p "$ORBIT_NIX_SCRATCH"
    scratch=$(cd "$ORBIT_NIX_SCRATCH" && pwd)
    rm -rf "$scratch/flake" "$scratch/nixpkgs"
else
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/orbit-nix.XXXXXX")
    trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT
    trap 'exit 130' INT TERM
fi

# Everything of Nix in one folder: the machine's store, configuration and caches are neither needed nor touched. Builds have no
# sandbox, because they call programs of the machine.
mkdir -p "$scratch/etc" "$scratch/store" "$scratch/var" "$scratch/home" "$scratch/tmp"
cat >"$scratch/etc/nix.conf" <<'CONF'
experimental-features = nix-command flakes
sandbox = false
build-users-group =
substituters =
flake-registry =
max-jobs = auto
warn-dirty = false
CONF
unset NIX_PATH NIX_REMOTE NIX_CONFIG NIX_USER_CONF_FILES
export NIX_STORE_DIR="$scratch/store" NIX_STATE_DIR="$scratch/var" NIX_LOG_DIR="$scratch/var/log" NIX_CONF_DIR="$scratch/etc"
export XDG_CACHE_HOME="$scratch/home/cache" XDG_STATE_HOME="$scratch/home/state" XDG_CONFIG_HOME="$scratch/home/config"
quiet() { # a nix command whose messages matter only when it fails
    nix --offline "$@" 2>"$scratch/log" || {
        cat "$scratch/log" >&2
        fail 1 "nix $1 failed (its message is above)"
    }
}

# 1. What git would hand to nix: tracked files and new ones that are not ignored.
mkdir "$scratch/flake"
(cd "$root" && git -c "safe.directory=*" -c core.quotePath=off ls-files --cached --others --exclude-standard) |
    while IFS= read -r name; do [ ! -e "$root/$name" ] || echo "$name"; done >"$scratch/list"
(cd "$root" && tar -c -T "$scratch/list") | tar -x -C "$scratch/flake"

# 2. The locked inputs, each checked against its narHash, so that nix finds them in the store instead of fetching.
locked() {
    quiet eval --impure --raw --expr "(builtins.fromJSON (builtins.readFile $root/flake.lock)).nodes.\"$1\".locked.narHash"
}
for name in nixpkgs-lib-only pyproject-nix uv2nix pyproject-build-systems nixpkgs; do
    if [ ! -d "$inputs/$name" ]; then
        [ "$name" = nixpkgs ] && continue
        fail 3 "$inputs/$name: no such folder (needed: the source tree of input $name at the revision in flake.lock)"
    fi
    want=$(locked "$name")
    have=$(quiet hash path "$inputs/$name")
    [ "$want" = "$have" ] || fail 1 "$inputs/$name has narHash $have, flake.lock says $want"
    quiet store add-path --name source "$inputs/$name" >/dev/null
done

# 3. The lock is complete: nothing would have to be added to it.
quiet flake metadata "path:$scratch/flake" --no-update-lock-file --json >/dev/null

# 4. nixpkgs, or the programs of this machine in its place.
json_map() { # lines "name value" as a JSON object
    sed -e 's/\([^ ]*\) \(.*\)/"\1": "\2"/' -e '$!s/$/,/'
}
stand_in() {
    dest=$1
    mkdir -p "$dest/data/env"
    cp -R "$inputs/nixpkgs-lib-only/lib" "$here"/stand-in/* "$dest"
    cp -R "$root/nix" "$root/kernels" "$dest/data"
    cp -R "$root/env/profiles" "$dest/data/env"
    chmod -R u+w "$dest"
    # The interpreter: that of the checkout's environment, else the one on PATH; always where it really is.
    python=$root/.venv/bin/python
    [ -x "$python" ] || python=$(command -v python3.12) || fail 3 "no CPython 3.12: run ./orbitw --help once, or install one"
    "$python" -c 'import os, sys; print(os.path.realpath(sys.base_prefix), sys.version.split()[0])' >"$scratch/python" ||
        fail 3 "$python does not run; the stand-in for nixpkgs cannot do without a CPython 3.12"
    read -r prefix version <"$scratch/python"
    coreutils="basename cat chmod cp cut date dirname echo env expr false head id install ln ls mkdir mktemp mv nproc od printf
        readlink realpath rm rmdir seq sha256sum sleep sort stat tail tee test touch tr true uname uniq wc"
    tools=$(sed -n 's/^programs = \[\(.*\)\]$/\1/p' "$root/nix/tools.toml" | tr -d '",')
    for name in $coreutils $tools ar as bash c++ cc find g++ gcc grep ld nm ranlib sed tar ugrep unzip xargs; do
        # a program of the lock is installed beside the interpreter
        path=$(PATH="$root/.venv/bin:/usr/bin:/bin:$PATH" command -v "$name") && [ "$name" != python3.12 ] && echo "$name $path"
    done | sort -u >"$scratch/programs"
    for name in bash cat cc g++ git mkdir patchelf sed tar uv; do
        grep -q "^$name " "$scratch/programs" || fail 3 "$name: program not found; the stand-in for nixpkgs cannot do without"
    done
    /sbin/ldconfig -p | sed -n 's/^[[:space:]]*\([^ ]*\) (libc6,x86-64[^)]*) => \(.*\)$/\1 \2/p' | sort -u -k1,1 >"$scratch/libraries"
    {
        echo "{\"bash\": \"$(sed -n 's/^bash //p' "$scratch/programs")\", \"coreutils\": \"$(dirname "$(sed -n 's/^mkdir //p' "$scratch/programs")")\","
        echo "\"gcc\": \"$(gcc -dumpfullversion)\", \"glibc\": \"$(getconf GNU_LIBC_VERSION | cut -d ' ' -f 2)\","
        echo "\"python\": {\"prefix\": \"$prefix\", \"version\": \"$version\"},"
        echo "\"coreutilsPrograms\": [$(for name in $coreutils; do echo "\"$name\""; done | paste -s -d ,)],"
        echo "\"programs\": {" && json_map <"$scratch/programs" && echo "},"
        echo "\"libraries\": {" && json_map <"$scratch/libraries" && echo "}}"
    } >"$dest/host.json"
}
override=
if [ ! -d "$inputs/nixpkgs" ]; then
    stand_in "$scratch/nixpkgs"
    override="--override-input nixpkgs path:$scratch/nixpkgs --no-write-lock-file"
fi

# 5. Files to build from, under the names that their hashes give them.
if [ -n "${ORBIT_NIX_WHEELS:-}" ]; then
    [ -d "$ORBIT_NIX_WHEELS" ] || fail 3 "ORBIT_NIX_WHEELS=$ORBIT_NIX_WHEELS: no such folder"
    find "$(cd "$ORBIT_NIX_WHEELS" && pwd)" -maxdepth 1 -type f \( -name '*.whl' -o -name '*.tar.gz' \) \
        -exec nix-store --add-fixed sha256 {} + >/dev/null 2>"$scratch/log" || {
        cat "$scratch/log" >&2
        fail 1 "nix-store --add-fixed failed (its message is above)"
    }
fi

flake=path:$scratch/flake
value() { # output, function
    # shellcheck disable=SC2086 # words
    quiet eval --json "$flake#$1" --apply "$2" $override
}
paths='set: builtins.mapAttrs (name: value: value.drvPath) set'
# shellcheck disable=SC2086 # $override is words
case $action in
    show)
        quiet flake show "$flake" $override
        ;;
    facts)
        quiet flake check --no-build "$flake" $override
        shells=$(value "devShells.$system" 'builtins.mapAttrs (name: shell: {
            inherit (shell) drvPath env;
            packages = map (package: package.pname or package.name) shell.nativeBuildInputs;
            hook = shell.shellHook;
        })')
        packages=$(value "packages.$system" "$paths")
        checks=$(value "checks.$system" "$paths")
        apps=$(value "apps.$system" 'builtins.mapAttrs (name: app: app.program)')
        elsewhere=$(value devShells.aarch64-linux.default 'shell: shell.shellHook')
        facts=$(value lib 'facts: facts')
        printf '{"shells": %s,\n "packages": %s,\n "checks": %s,\n "apps": %s,\n "elsewhere": %s,\n "lib": %s}\n' \
            "$shells" "$packages" "$checks" "$apps" "$elsewhere" "$facts"
        ;;
    wheels)
        quiet eval --raw "$flake#lib.wheels" $override --apply \
            'wheels: builtins.concatStringsSep "\n" (builtins.concatLists (builtins.attrValues wheels)) + "\n"' | sort -u
        ;;
    develop)
        shell=$1
        shift
        cd "$root"
        status=0
        nix --offline develop "$flake#$shell" $override -c "$@" || status=$?
        exit "$status"
        ;;
    run)
        app=$1
        shift
        cd "$root"
        status=0
        nix --offline run "$flake#$app" $override -- "$@" || status=$?
        exit "$status"
        ;;
    build)
        output=$1
        shift
        case $output in *.*) ;; *) output=packages.$system.$output ;; esac
        quiet build --no-link --json "$flake#$output" $override >"$scratch/built"
        result=$(sed -n 's/.*"out": *"\([^"]*\)".*/\1/p' "$scratch/built")
        export result
        if [ $# -eq 0 ]; then
            find -L "$result" -maxdepth 2
            exit 0
        fi
        status=0
        "$@" || status=$?
        exit "$status"
        ;;
esac
