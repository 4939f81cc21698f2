# A stand-in for nixpkgs, made from its library alone, so that the flake can be evaluated where nixpkgs cannot be had.
#
# Evaluation is real: every package is a real derivation (name, version, builder, environment), so its drvPath is
# computed from all of its inputs. Building is not: the builder is `false`.
#
# A package that nobody declared here is an error, as a misspelt name would be in nixpkgs.
{
  lib,
  system ? "x86_64-linux",
}:
let
  # Attributes of mkDerivation that are for Nix code and never reach the builder.
  meta = [
    "env"
    "meta"
    "passthru"
    "pos"
  ];

  derive =
    attrs:
    let
      name = attrs.name or "${attrs.pname}-${attrs.version}";
      drv = builtins.derivation (
        removeAttrs attrs meta
        // (attrs.env or { })
        // {
          inherit name system;
          builder = "/bin/false";
        }
      );
      passthru = attrs.passthru or { };
    in
    attrs
    // passthru
    // {
      inherit name passthru;
      inherit (drv) type drvPath outPath;
    };

  mkDerivation =
    given:
    let
      asFunction = if lib.isFunction given then given else _: given;
      build =
        make:
        let
          final = make final;
          result = derive final;
        in
        result
        // {
          overrideAttrs =
            change:
            build (
              self:
              let
                old = make self;
                changed = if lib.isFunction change then change else _: change;
                first = changed old;
              in
              old // (if lib.isFunction first then changed self old else first)
            );
        };
    in
    build asFunction;

  package = pname: version: mkDerivation { inherit pname version; };

  libc = package "glibc" "2.40" // {
    linuxHeaders.version = "6.16";
  };

  platform = lib.systems.elaborate system;

  stdenv = {
    inherit mkDerivation;
    cc = package "gcc-wrapper" "14.3.0" // {
      inherit libc;
    };
    buildPlatform = platform;
    hostPlatform = platform;
    targetPlatform = platform;
    inherit (platform) isLinux isDarwin;
  };

  python312 =
    let
      self = package "python3" "3.12.12" // {
        inherit stdenv;
        interpreter = "${self}/bin/python3.12";
        sitePackages = "lib/python3.12/site-packages";
        pythonVersion = "3.12";
        pythonOlder = lib.versionOlder "3.12";
        pythonOnBuildForHost = self;
        passthru = {
          implementation = "cpython";
          pythonVersion = "3.12";
          sourceVersion = {
            major = "3";
            minor = "12";
            patch = "12";
            suffix = "";
          };
        };
      };
    in
    self;

  # What pyproject-build-systems borrows from nixpkgs' own Python packages, beside their name and version.
  borrowed =
    pname:
    mkDerivation {
      inherit pname;
      version = "0";
    }
    // {
      src = package "${pname}-source" "0";
      meta = { };
      postUnpack = "";
      preBuild = "";
      setupHook = "";
      setupHooks = [ ];
    };

  named = lib.genAttrs [
    "autoPatchelfHook"
    "bubblewrap"
    "git"
    "mmdebstrap"
    "patchelf"
    "shellcheck"
    "skopeo"
    "ugrep"
    "unzip"
    "uv"
    "zstd"
  ] (name: package name "1");

  pkgs = named // {
    inherit lib stdenv system python312 pkgs;
    buildPackages = pkgs;
    python3 = python312;
    python3Packages = lib.genAttrs [
      "cmake"
      "cython"
      "libcst"
      "meson-python"
      "ninja"
      "pdm-backend"
      "poetry-dynamic-versioning"
      "pydantic-core"
      "setuptools-scm"
    ] borrowed;
    pythonManylinuxPackages = {
      manylinux1 = [ ];
      manylinux2010 = [ ];
      manylinux2014 = [ (package "manylinux2014" "1") ];
    };
    callPackage = pkgs.newScope { };
    newScope = extra: lib.callPackageWith (pkgs // extra);
    fetchurl =
      {
        url,
        hash,
        name ? baseNameOf url,
      }:
      mkDerivation {
        inherit name url;
        outputHash = hash;
        outputHashMode = "flat";
        passthru = { inherit url; };
      };
    makeSetupHook =
      args: script:
      mkDerivation (
        {
          inherit (args) name;
          inherit script;
        }
        // lib.mapAttrs (_: toString) (args.substitutions or { })
      );
    mkShell =
      args:
      mkDerivation (
        removeAttrs args [ "packages" ]
        // {
          name = args.name or "nix-shell";
          nativeBuildInputs = args.packages;
        }
      );
    replaceVars = script: values: mkDerivation ({ name = "replaced"; inherit script; } // values);
    runCommand =
      name: env: buildCommand:
      mkDerivation (env // { inherit name buildCommand; });
    writeText = name: text: mkDerivation { inherit name text; };
  };
in
{
  inherit lib;
  legacyPackages.${system} = pkgs;
}
