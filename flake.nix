{
  description = "Orbit: one lockfile in, one verified GPU training image out";

  # Every input is locked by revision and narHash in flake.lock, and there is one nixpkgs: all others follow it.
  inputs = {
    nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

    # The library of nixpkgs alone (2 MB): what nix/tests evaluates this flake with where nixpkgs itself cannot be had.
    nixpkgs-lib-only.url = "github:nix-community/nixpkgs.lib";

    pyproject-nix = {
      url = "github:pyproject-nix/pyproject.nix";
      inputs.nixpkgs.follows = "nixpkgs";
    };

    uv2nix = {
      url = "github:pyproject-nix/uv2nix";
      inputs.nixpkgs.follows = "nixpkgs";
      inputs.pyproject-nix.follows = "pyproject-nix";
    };

    pyproject-build-systems = {
      url = "github:pyproject-nix/build-system-pkgs";
      inputs.nixpkgs.follows = "nixpkgs";
      inputs.pyproject-nix.follows = "pyproject-nix";
      inputs.uv2nix.follows = "uv2nix";
    };
  };

  outputs = inputs: import ./nix/outputs.nix inputs;
}
