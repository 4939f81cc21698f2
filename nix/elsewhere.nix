# What other systems get: a shell and a package that say why there is nothing for them, instead of an error about a missing
# attribute.
{ pkgs, system }:
let
  name = "orbit-is-for-x86_64-linux";
  say = ''
    echo "orbit: this is ${system}; Orbit works on Linux x86-64 alone, because uv.lock is resolved for it" >&2
    echo "  fix: use such a machine, or a virtual one" >&2
    exit 2
  '';
  package = pkgs.runCommand name { } say;
in
{
  devShells.default = pkgs.mkShell {
    inherit name;
    shellHook = say;
  };
  packages.default = package;
}
