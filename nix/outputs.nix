# What the flake offers, as a function of its inputs. Linux on x86-64 only: that is what uv.lock is resolved for.
{
  self,
  nixpkgs,
  pyproject-nix,
  uv2nix,
  pyproject-build-systems,
  ...
}:
let
  system = "x86_64-linux";
  inherit (nixpkgs) lib;
  pkgs = nixpkgs.legacyPackages.${system};
  activation = import ./activation.nix { inherit lib; };
  python = import ./python.nix {
    inherit
      lib
      pkgs
      pyproject-nix
      uv2nix
      pyproject-build-systems
      ;
    workspaceRoot = ../.;
  };
in
{
  # The upper floor as a Nix package.
  packages.${system} = rec {
    inherit (python) orbit;
    default = orbit;
  };

  # `nix run . -- COMMAND` (the package is named after its virtual environment, not after the program in it).
  apps.${system}.default = {
    type = "app";
    program = "${self.packages.${system}.default}/bin/orbit";
  };

  # Everything to work on the upper floor, for a machine without a GPU: `nix develop`.
  devShells.${system}.default = import ./shell.nix { inherit lib pkgs activation; };

  # `nix flake check` runs the command line of the package.
  checks.${system}.command-line = pkgs.runCommand "orbit-command-line" { } ''
    ${self.packages.${system}.default}/bin/orbit --version > $out
  '';

  # Facts that tests compare with the rest of the repository.
  lib = {
    inherit activation;
    inherit (python) versions;
  };
}
