# `nix run`: the command line, and the whole job on a checkout.
{
  lib,
  pkgs,
  data,
  orbitEnv,
  hostCompiler,
}:
let
  tools = lib.makeBinPath ([ hostCompiler ] ++ map (tool: pkgs.${tool.package}) data.tools);

  # The tree that is shipped holds an interpreter that must run where there is no /nix/store, so ship takes a CPython that
  # can be moved, as everywhere, and not Nix's.
  ship = pkgs.writeShellScriptBin "orbit-ship" ''
    here=$PWD
    until [ -x "$here/orbitw" ] || [ "$here" = / ]; do here=$(dirname "$here"); done
    if [ ! -x "$here/orbitw" ]; then
      echo "orbit-ship: $PWD is not in a checkout of Orbit" >&2
      echo "  fix: run it in a clone of the repository; it ships what is checked out there" >&2
      exit 2
    fi
    export PATH=${tools}:$PATH ORBIT_NO_APT=1 ORBIT_UV=${pkgs.uv}/bin/uv
    exec "$here/orbitw" ship "$@"
  '';

  # NixOS has no loader where programs of other distributions look for it; there the job runs in a view of the file system
  # that has one.
  fhs = pkgs.buildFHSEnv {
    name = "orbit-ship-fhs";
    targetPkgs = _: [
      hostCompiler
      pkgs.zlib
    ];
    runScript = "${ship}/bin/orbit-ship";
  };
in
{
  default = {
    type = "app";
    program = "${orbitEnv}/bin/orbit";
  };

  ship = {
    type = "app";
    program = "${pkgs.writeShellScriptBin "orbit-ship-here" ''
      if [ -e /etc/NIXOS ]; then exec ${fhs}/bin/orbit-ship-fhs "$@"; fi
      exec ${ship}/bin/orbit-ship "$@"
    ''}/bin/orbit-ship-here";
  };
}
