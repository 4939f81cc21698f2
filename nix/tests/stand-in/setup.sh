# shellcheck shell=bash
# Variables come from the derivation and are read by the hooks of packages.
# shellcheck disable=SC2034,SC2123,SC2154
# Sourced by every builder of the stand-in, and by `nix develop`: inputs on PATH, their setup hooks, the phases.
# Names and meaning of variables and hooks are those of nixpkgs' stdenv, as far as packages of uv2nix use them.
set -eu
set -o pipefail
shopt -s nullglob

PATH=
export SOURCE_DATE_EPOCH=315532800 SHELL=$BASH
targetOffset=0
prefix=${out:-}
declare -a envHooks=()

addToSearchPath() { # name of the variable, folder
    export "$1=${!1:+${!1}:}$2"
}
addEnvHooks() { envHooks+=("${@:2}"); }
stripHash() { # what `fetchurl` and `toFile` put before a name
    local name=${1##*/}
    if [[ $name =~ ^[a-z0-9]{32}- ]]; then name=${name:33}; fi
    echo "$name"
}

declare -A seenInputs=()
addInput() {
    local input=$1 further
    if [ -n "${seenInputs[$input]:-}" ]; then return 0; fi
    seenInputs[$input]=1
    if [ -d "$input/bin" ]; then addToSearchPath PATH "$input/bin"; fi
    if [ -f "$input/nix-support/propagated-build-inputs" ]; then
        for further in $(<"$input/nix-support/propagated-build-inputs"); do addInput "$further"; done
    fi
    if [ -f "$input/nix-support/setup-hook" ]; then
        set +u
        # shellcheck disable=SC1091
        source "$input/nix-support/setup-hook"
        set -u
    fi
}
for input in ${nativeBuildInputs:-} ${buildInputs:-} ${propagatedBuildInputs:-}; do addInput "$input"; done
for input in "${!seenInputs[@]}"; do
    for hook in "${envHooks[@]}"; do "$hook" "$input"; done
done
# The host's programs come last.
addToSearchPath PATH /usr/bin
addToSearchPath PATH /bin
unset input hook

runHook() { # preInstall: the variable or function of that name, then what hooks put into preInstallHooks
    local name=$1 list="$1Hooks[@]" hook
    if [ "$(type -t "$name")" = function ]; then "$name"; elif [ -n "${!name:-}" ]; then eval "${!name}"; fi
    for hook in "${!list}"; do eval "$hook"; done
}
runPhase() { # the phase's own text when the package or a hook gives one, else the function below
    local phase=$1
    echo "phase: $phase"
    if [ -n "${!phase:-}" ]; then eval "${!phase}"; else "$phase"; fi
}

unpackPhase() {
    runHook preUnpack
    if [ -d "$src" ]; then
        cp -r "$src" "$(stripHash "$src")"
    else
        tar -xf "$src"
    fi
    local found=(*/)
    cd "${sourceRoot:-${found[0]}}"
    chmod -R u+w .
    runHook postUnpack
}
patchPhase() { runHook prePatch; }
configurePhase() { runHook preConfigure; }
buildPhase() { runHook preBuild; }
installPhase() { runHook preInstall; }
fixupPhase() {
    runHook preFixup
    runHook postFixup
}

genericBuild() {
    set -e
    set -o pipefail
    cd "${NIX_BUILD_TOP:?}"
    local phase
    if [ -n "${buildCommand:-}" ]; then
        eval "$buildCommand"
        return 0
    fi
    for phase in unpackPhase patchPhase configurePhase buildPhase installPhase ${preFixupPhases:-} fixupPhase ${postPhases:-}; do
        case $phase in
            unpackPhase) [ -z "${dontUnpack:-}" ] || continue ;;
            patchPhase) [ -z "${dontPatch:-}" ] || continue ;;
            configurePhase) [ -z "${dontConfigure:-}" ] || continue ;;
            buildPhase) [ -z "${dontBuild:-}" ] || continue ;;
        esac
        runPhase "$phase"
    done
}
# Hooks, and whoever is in `nix develop`, expect an ordinary shell.
set +eu
set +o pipefail
shopt -u nullglob
