# A nixpkgs-shaped set for evaluating and building the flake where nixpkgs cannot be had: packages are links to programs and
# libraries of this machine (host.json, made by nix/tests/harness.sh). A package that nobody declared is an error, as a misspelt
# name is in nixpkgs.
#
# What is built with it is real (the store, the hooks of pyproject.nix, the wheels by their hashes) and runs on this machine
# alone. What the machine does not have is missing from the package, and building what needs it fails.
{
  lib,
  data,
  host,
  system,
}:
let
  stdenv = import ./stdenv.nix { inherit lib host system; } // {
    cc = pkgs.gcc;
  };
  inherit (stdenv) mkDerivation;

  # bin/ with links to programs of the machine.
  programs =
    pname: version: names:
    mkDerivation {
      inherit pname version;
      buildCommand = ''
        mkdir -p $out/bin
      ''
      + lib.concatMapStrings (name: "ln -s ${host.programs.${name}} $out/bin/${name}\n") (
        builtins.filter (name: host.programs ? ${name}) names
      );
    };
  program = name: programs name "host" [ name ];

  # lib/ with links to libraries of the machine, for the Debian packages that the nixpkgs attribute stands for.
  libraries =
    attribute:
    let
      debian = lib.attrNames (lib.filterAttrs (_: path: path == attribute) data.nixpkgs);
      sonames = lib.attrNames (lib.filterAttrs (_: package: builtins.elem package debian) data.base);
    in
    mkDerivation {
      pname = lib.replaceStrings [ "." ] [ "-" ] attribute;
      version = "host";
      buildCommand = ''
        mkdir -p $out/lib
      ''
      + lib.concatMapStrings (soname: "ln -s ${host.libraries.${soname}} $out/lib/${soname}\n") (
        builtins.filter (soname: host.libraries ? ${soname}) sonames
      );
    };

  gcc =
    programs "gcc-wrapper" host.gcc [
      "gcc"
      "g++"
      "cc"
      "c++"
      "as"
      "ld"
      "ar"
      "nm"
      "ranlib"
    ]
    // {
      cc.lib = libraries "stdenv.cc.cc.lib";
      # What wheels are chosen for.
      libc = {
        pname = "glibc";
        version = host.glibc;
        linuxHeaders.version = "6.1";
      };
    };

  python312 =
    let
      self =
        mkDerivation {
          pname = "python3";
          version = host.python.version;
          buildCommand = ''
            mkdir -p $out/bin
            for name in python3.12 python3 python; do ln -s ${host.python.prefix}/bin/python3.12 $out/bin/$name; done
            ln -s ${host.python.prefix}/lib ${host.python.prefix}/include $out
          '';
        }
        // {
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
              patch = lib.elemAt (lib.splitVersion host.python.version) 2;
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
      buildCommand = "echo ${pname}: the stand-in for nixpkgs has no source >&2; exit 1";
    }
    // {
      src = pkgs.writeText "${pname}-source" "";
      meta = { };
      postUnpack = "";
      preBuild = "";
      setupHook = "";
      setupHooks = [ ];
    };

  # What only nixpkgs can do. Evaluates; building it says so.
  notHere =
    what: name:
    mkDerivation {
      inherit name;
      buildCommand = "echo '${what}: not in the stand-in for nixpkgs' >&2; exit 1";
    };

  # The tools of the shells, by the attribute that nix/tools.toml names.
  tools = lib.listToAttrs (
    map (tool: lib.nameValuePair tool.package (programs tool.package "host" tool.programs)) data.tools
  );

  compilers = lib.listToAttrs (
    map (compiler: lib.nameValuePair "gcc${toString compiler.gcc}" gcc) data.compilers
  );

  writeScriptTo =
    path: name: text:
    mkDerivation {
      inherit name text;
      passAsFile = [ "text" ];
      buildCommand = ''
        install -D -m 755 "$textPath" $out${path}
      '';
    };

  pkgs =
    tools
    // compilers
    // {
      inherit
        lib
        stdenv
        system
        gcc
        python312
        pkgs
        ;
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
      pythonManylinuxPackages = lib.genAttrs [
        "manylinux1"
        "manylinux2010"
        "manylinux2014"
      ] (_: [ ]);

      bash = program "bash";
      bashInteractive = program "bash";
      runtimeShell = host.bash;
      coreutils = programs "coreutils" "host" host.coreutilsPrograms;
      findutils = programs "findutils" "host" [
        "find"
        "xargs"
      ];
      gnugrep = program "grep";
      gnused = program "sed";
      gnutar = program "tar";
      gitMinimal = program "git";
      ugrep = program "ugrep";
      unzip = program "unzip";
      cacert = notHere "cacert" "cacert";
      numactl = libraries "numactl";
      rdma-core = libraries "rdma-core";
      zlib = libraries "zlib";

      callPackage = pkgs.newScope { };
      newScope = extra: lib.callPackageWith (pkgs // extra);

      # Found in the store by its hash (harness.sh puts the files of ORBIT_NIX_WHEELS there); nothing is fetched.
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
          buildCommand = "echo ${name}: not in the folder that ORBIT_NIX_WHEELS names, and nothing is fetched >&2; exit 1";
          passthru = { inherit url; };
        };

      makeSetupHook =
        {
          name ? "hook",
          propagatedBuildInputs ? [ ],
          substitutions ? { },
          passthru ? { },
        }:
        script:
        mkDerivation {
          inherit name passthru;
          propagated = propagatedBuildInputs;
          text = lib.replaceStrings (map (key: "@${key}@") (lib.attrNames substitutions)) (
            map toString (lib.attrValues substitutions)
          ) (builtins.readFile script);
          passAsFile = [ "text" ];
          buildCommand = ''
            mkdir -p $out/nix-support
            cp $textPath $out/nix-support/setup-hook
            echo $propagated >$out/nix-support/propagated-build-inputs
          '';
        };
      replaceVars =
        script: values:
        pkgs.writeText (baseNameOf script) (
          lib.replaceStrings (map (key: "@${key}@") (lib.attrNames values)) (
            map toString (lib.attrValues values)
          ) (builtins.readFile script)
        );

      # Sets run paths and refuses what nobody brings, as nixpkgs' hook does; libraries of the machine's loader count as
      # brought, because programs built here run under it.
      autoPatchelfHook = pkgs.makeSetupHook {
        name = "auto-patchelf-hook";
        propagatedBuildInputs = [ pkgs.patchelf ];
        substitutions = {
          python = "${python312}/bin/python3.12";
          script = ./auto_patchelf.py;
        };
      } ./auto-patchelf.sh;

      mkShell =
        args:
        mkDerivation (
          removeAttrs args [ "packages" ]
          // {
            name = args.name or "nix-shell";
            nativeBuildInputs = args.packages or [ ];
            buildCommand = "export >$out";
          }
        );
      runCommand =
        name: env: buildCommand:
        mkDerivation (env // { inherit name buildCommand; });
      writeText =
        name: text:
        mkDerivation {
          inherit name text;
          passAsFile = [ "text" ];
          buildCommand = "cp $textPath $out";
        };
      writeShellScriptBin = name: text: writeScriptTo "/bin/${name}" name "#!${host.bash}\n${text}";
      linkFarm =
        name: entries:
        pkgs.runCommand name { } (
          "mkdir $out\n"
          + lib.concatMapStrings (entry: "ln -s ${entry.path} $out/${entry.name}\n") entries
        );
      buildEnv =
        { name, paths, ... }:
        pkgs.runCommand name { } ''
          mkdir -p $out/bin
          for path in ${lib.concatStringsSep " " (map toString paths)}; do
            for file in $path/bin/*; do [ -e $out/bin/''${file##*/} ] || ln -s $file $out/bin/; done
          done
        '';

      # Reached on NixOS alone, where the stand-in is not needed.
      buildFHSEnv =
        args:
        pkgs.writeShellScriptBin args.name "echo buildFHSEnv: not in the stand-in for nixpkgs >&2; exit 1";
      dockerTools = {
        binSh = notHere "dockerTools.binSh" "bin-sh";
        usrBinEnv = notHere "dockerTools.usrBinEnv" "usr-bin-env";
        streamLayeredImage =
          args:
          mkDerivation {
            name = "stream-${baseNameOf args.name}";
            contents = args.contents;
            config = builtins.toJSON args.config;
            buildCommand = "echo 'dockerTools.streamLayeredImage: not in the stand-in for nixpkgs' >&2; exit 1";
          };
      };
    };
in
pkgs
