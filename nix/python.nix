# uv.lock as Nix packages, through uv2nix: the same versions and hashes that uv installs, fetched by Nix.
#
# Only the upper floor (orbit's own dependencies) is offered as a package. The stack's CUDA kernels are built by
# `orbit kernels build`, whose compiler shim and manifest are part of the proof; a second way to build them would be a
# second truth.
{
  lib,
  pkgs,
  pyproject-nix,
  uv2nix,
  pyproject-build-systems,
  workspaceRoot,
}:
let
  # uv writes `default-groups` into a package's entry; uv2nix at the locked revision refuses keys it does not know, and
  # takes the default groups from pyproject.toml, which says the same.
  lock = lib.importTOML (workspaceRoot + "/uv.lock");
  uvLock = lock // {
    package = map (package: removeAttrs package [ "default-groups" ]) lock.package;
  };

  workspace = uv2nix.lib.workspace.loadWorkspace { inherit workspaceRoot uvLock; };

  base = pkgs.callPackage pyproject-nix.build.packages { python = pkgs.python312; };

  # Wheels are what uv installs; what has only an sdist is built from it.
  set = base.overrideScope (
    lib.composeManyExtensions [
      pyproject-build-systems.overlays.wheel
      (workspace.mkPyprojectOverlay { sourcePreference = "wheel"; })
    ]
  );
in
{
  # A virtual environment with orbit and its dependencies, no extras, no groups.
  orbit = set.mkVirtualEnv "orbit-env" workspace.deps.default;

  # name -> version of everything in it, as uv2nix resolved it for this interpreter and platform.
  versions = lib.listToAttrs (
    map (package: lib.nameValuePair package.pname package.version) (set.resolveVirtualEnv workspace.deps.default)
  );
}
