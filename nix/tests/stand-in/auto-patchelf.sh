# shellcheck shell=bash
# Setup hook: where libraries are looked for, and the pass over all files once everything is installed.
autoPatchelfLibs=()

gatherLibraries() {
    if [ -d "$1/lib" ]; then autoPatchelfLibs+=("$1/lib"); fi
}
# shellcheck disable=SC2154 # set by setup.sh
addEnvHooks "$targetOffset" gatherLibraries

addAutoPatchelfSearchPath() { # folder: it and all below it that hold libraries
    local folder
    while IFS= read -r folder; do autoPatchelfLibs+=("$folder"); done < <(
        find "$1" \( -name '*.so' -o -name '*.so.*' \) ! -type d -printf '%h\n' | sort -u
    )
}

autoPatchelf() {
    # Patterns must arrive as they are.
    set -f
    # shellcheck disable=SC2086,SC2154
    @python@ @script@ "$out" --ignore ${autoPatchelfIgnoreMissingDeps:-} --append ${appendRunpaths:-} \
        --libs "${autoPatchelfLibs[@]}"
    set +f
}
postFixupHooks+=(autoPatchelf)
