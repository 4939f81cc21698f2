# What the flake offers, as a function of its inputs.
{ self, nixpkgs, ... }@inputs:
let
  inherit (nixpkgs) lib;

  # What uv.lock is resolved for. The others are told so.
  system = "x86_64-linux";
  others = [
    "aarch64-linux"
    "aarch64-darwin"
  ];

  pkgs = nixpkgs.legacyPackages.${system};
  activation = import ./activation.nix;
  data = import ./profiles.nix;
  inherit (data) profiles;

  # The profile that commands take where none is named (orbit/cli: --profile).
  main = profiles.cu130;

  python = import ./python.nix {
    inherit
      lib
      pkgs
      inputs
      data
      ;
  };
  cuda = import ./cuda.nix { inherit lib pkgs; };
  kernels = import ./kernels.nix {
    inherit
      lib
      pkgs
      data
      python
      cuda
      ;
  };

  # The checkout's own lock: Orbit, its developers' tools, the compiler of the main profile.
  own = python.load { inherit (main) root missing; };
  nothing = {
    orbit = [ ];
  };
  orbitEnv = own.set.mkVirtualEnv "orbit-env" nothing;
  # Developers' tools and what Orbit needs, without Orbit: that is the checkout's.
  developing = own.whole "dev";
  development = own.set.mkVirtualEnv "orbit-dev" developing;
  hostCompiler = kernels.hostCompiler main.cuda;

  toolkit = cuda.prefix {
    name = "orbit-cuda";
    version = main.cuda;
    packages = own.set.resolveVirtualEnv (own.group "cuda");
    inherit (python) site;
    orbit = orbitEnv;
  };

  stack = import ./stack.nix {
    inherit
      lib
      pkgs
      data
      python
      cuda
      kernels
      orbitEnv
      ;
    inherit (own.set) orbit;
  };
  stacks = lib.mapAttrs (_: stack) (
    lib.filterAttrs (_: profile: builtins.pathExists (profile.root + "/uv.lock")) profiles
  );

  image = import ./image.nix { inherit lib pkgs; };
  images = lib.mapAttrs (
    name: made:
    image {
      profile = profiles.${name};
      inherit (made) environment;
      inherit hostCompiler;
    }
  ) stacks;

  # One folder with every wheel that is compiled for a profile.
  wheels = lib.mapAttrs (
    name: made:
    pkgs.linkFarm "orbit-kernels-${name}" (
      lib.mapAttrsToList (recipe: path: {
        name = recipe;
        inherit path;
      }) made.wheels
    )
  ) (lib.filterAttrs (_: made: made.wheels != { }) stacks);

  named = what: lib.mapAttrs' (name: lib.nameValuePair "${what}-${name}");

  elsewhere = lib.genAttrs others (
    name:
    import ./elsewhere.nix {
      pkgs = nixpkgs.legacyPackages.${name};
      system = name;
    }
  );
in
{
  packages = lib.mapAttrs (_: each: each.packages) elsewhere // {
    ${system} = {
      orbit = orbitEnv;
      default = orbitEnv;
      cuda = toolkit;
      kernels = wheels.${main.name};
      image = images.${main.name};
    }
    // named "stack" (lib.mapAttrs (_: made: made.environment) stacks)
    // named "kernels" wheels
    // named "image" images;
  };

  apps.${system} = import ./apps.nix {
    inherit
      lib
      pkgs
      data
      orbitEnv
      hostCompiler
      ;
  };

  devShells = lib.mapAttrs (_: each: each.devShells) elsewhere // {
    ${system} = import ./shells.nix {
      inherit
        lib
        pkgs
        data
        activation
        development
        toolkit
        hostCompiler
        ;
    };
  };

  # `nix flake check`.
  checks.${system} = import ./checks.nix {
    inherit
      lib
      pkgs
      data
      development
      hostCompiler
      orbitEnv
      ;
    source = self;
  };

  formatter.${system} = pkgs.nixfmt;

  # Facts that tests compare with the rest of the repository.
  lib = {
    versions = {
      orbit = own.versions nothing;
    }
    // lib.mapAttrs (_: made: made.versions) stacks;
    leftOut = lib.mapAttrs (_: made: made.environment.leftOut) stacks;
    # What has to be fetched for a build, as requirements with hashes (nix/tests/harness.sh, action `wheels`).
    wheels = {
      orbit = own.files nothing;
      development = own.files developing;
      cuda = own.files (own.group "cuda");
    };
  };
}
