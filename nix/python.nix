# A lock as a set of Nix packages, through uv2nix: the versions and hashes that uv installs, fetched by Nix.
#
# Called once per folder with a lock. What CUDA wheels need beside that is in nix/wheels.nix.
{
  lib,
  pkgs,
  inputs,
  data,
}:
let
  python = pkgs.python312;
  site = python.sitePackages;

  # uv writes `default-groups` into a package's entry; uv2nix at the locked revision refuses keys it does not know, and
  # takes the default groups from pyproject.toml, which says the same.
  readLock =
    root:
    let
      lock = lib.importTOML (root + "/uv.lock");
    in
    lock // { package = map (package: removeAttrs package [ "default-groups" ]) lock.package; };

  base = pkgs.callPackage inputs.pyproject-nix.build.packages { inherit python; };

  # Orbit's own source, no more than its wheel is made of, so that editing a page or a test builds nothing anew.
  project = lib.importTOML ../pyproject.toml;
  source = import ./part.nix project.tool.hatch.build.targets.sdist.include;

  load =
    {
      # Folder with pyproject.toml and uv.lock.
      root,
      # Shell patterns of libraries that nobody brings, and rightly so.
      missing,
      # Distributions that are built for this lock, and the overlay that has them.
      built ? [ ],
      overlay ? (_final: _prev: { }),
    }:
    let
      uvLock = readLock root;
      workspace = inputs.uv2nix.lib.workspace.loadWorkspace {
        workspaceRoot = root;
        inherit uvLock;
      };

      # Wheels are what uv installs; what has only an sdist is built from it.
      set = base.overrideScope (
        lib.composeManyExtensions [
          inputs.pyproject-build-systems.overlays.wheel
          (workspace.mkPyprojectOverlay { sourcePreference = "wheel"; })
          (_final: prev: {
            orbit = prev.orbit.overrideAttrs (old: lib.optionalAttrs (old ? src) { src = source; });
          })
          overlay
          (import ./wheels.nix {
            inherit
              lib
              pkgs
              data
              missing
              site
              ;
            names = lib.unique (map (package: package.name) uvLock.package ++ built);
          })
        ]
      );

      inherit (inputs.pyproject-nix.build.lib.query) deps;
    in
    {
      inherit set;

      # What a group of the project installs, without the project; and that with what the project itself needs.
      group = name: deps { dependencies = false; } set { orbit = [ name ]; };
      whole = name: deps { } set { orbit = [ name ]; };

      # Requirements with hashes of every file that Nix fetches for `spec`, and for building Orbit itself.
      files =
        spec:
        lib.unique (
          lib.concatMap (
            package:
            lib.optional (package.src ? outputHash)
              "${package.pname}==${package.version} --hash=${package.src.outputHash}"
          ) (set.resolveVirtualEnv spec ++ set.resolveBuildSystem { hatchling = [ ]; })
        );

      # name -> version of everything that `spec` installs, as uv2nix resolved it for this interpreter and platform.
      versions =
        spec:
        lib.listToAttrs (
          map (package: lib.nameValuePair package.pname package.version) (set.resolveVirtualEnv spec)
        );
    };
in
{
  inherit
    load
    python
    site
    source
    ;
}
