{
  description = "What nix/tests uses in the place of nixpkgs";

  # lib/ and host.json are put beside this file by nix/tests/harness.sh.
  outputs =
    _:
    let
      lib = import ./lib;
      data = import ./data/nix/profiles.nix;
      host = lib.importJSON ./host.json;
    in
    {
      inherit lib;
      legacyPackages =
        lib.genAttrs
          [
            "x86_64-linux"
            "aarch64-linux"
            "aarch64-darwin"
          ]
          (
            system:
            import ./packages.nix {
              inherit
                lib
                data
                host
                system
                ;
            }
          );
    };
}
