# The development shell of the upper floor. CPU only: it installs no CUDA and needs no driver.
{ pkgs, activation }:
pkgs.mkShell {
  name = "orbit";

  packages = [
    # Python side: `./orbitw` and uv take these instead of downloading their own.
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

  # The activation contract first, then what only this shell knows: where its Python is.
  env = activation.env // {
    UV_PYTHON = "${pkgs.python312}/bin/python3.12";
    UV_PYTHON_DOWNLOADS = "never";
  };
}
