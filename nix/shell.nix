# The development shell of the upper floor. CPU only: it installs no CUDA and needs no driver.
{
  lib,
  pkgs,
  activation,
}:
pkgs.mkShell {
  name = "orbit";

  packages = [
    # Python side.
    pkgs.uv
    pkgs.python312

    # Image side: base root file system, running it without an engine, looking at OCI layouts, run paths, layers.
    pkgs.mmdebstrap
    pkgs.bubblewrap
    pkgs.skopeo
    pkgs.patchelf
    pkgs.zstd

    # Editing side.
    pkgs.git
    pkgs.shellcheck
  ];

  # The activation contract first, then what only this shell knows: the Python for a bare `uv run` or `uv sync`.
  # `./orbitw` ignores it on purpose: the interpreter it copies into an image must not hang on /nix/store.
  env = activation.set // {
    UV_PYTHON = "${pkgs.python312}/bin/python3.12";
  };

  shellHook = lib.concatStringsSep "\n" (
    map (name: "unset ${name}") activation.unset
    ++ lib.mapAttrsToList (name: value: "export ${name}=\${${name}:-${lib.escapeShellArg value}}") activation.default
  );
}
