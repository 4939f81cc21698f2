# Development shells. The activation contract first, then what only these shells know.
#
#   default   everything to work on the upper floor; no CUDA, no driver
#   cuda      compiles device code: nvcc of the lock, the host compiler its release accepts, the contract's CUDA variables
#   gpu       that, and the machine's driver
{
  lib,
  pkgs,
  data,
  activation,
  # An environment with what Orbit and its developers need (group `dev` of the lock).
  development,
  # The toolkit's prefix (nix/cuda.nix) and the host compiler that belongs to it.
  toolkit,
  hostCompiler,
}:
let
  tools = map (tool: pkgs.${tool.package}) data.tools;

  # `orbit` is that of the checkout one stands in, so that an edit is seen at once.
  orbit = pkgs.writeShellScriptBin "orbit" ''
    here=$PWD
    until [ -x "$here/orbitw" ] || [ "$here" = / ]; do here=$(dirname "$here"); done
    if [ ! -x "$here/orbitw" ]; then
      echo "orbit: $PWD is not in a checkout of Orbit" >&2
      echo "  fix: change into one; this shell is for working on it (nix run runs the packaged one anywhere)" >&2
      exit 2
    fi
    PYTHONPATH=$here exec ${development}/bin/python -m orbit "$@"
  '';

  shell =
    {
      name,
      packages,
      variables,
      env ? { },
      hook ? "",
    }:
    pkgs.mkShell {
      inherit name;
      packages = [
        orbit
        development
      ]
      ++ packages
      ++ tools;
      # For a bare `uv run` or `uv sync`. `./orbitw` ignores it on purpose: the interpreter it copies into an image must not
      # hang on /nix/store.
      env = {
        UV_PYTHON = "${pkgs.python312}/bin/python3.12";
      }
      // env;
      shellHook = activation.shell variables + "\n" + hook;
    };

  compiling = {
    packages = [ hostCompiler ];
    variables = activation.general ++ activation.cuda "${toolkit}";
    env = {
      CC = "${hostCompiler}/bin/gcc";
      CXX = "${hostCompiler}/bin/g++";
      # What nvcc calls for the host side, whatever comes first on PATH.
      NVCC_CCBIN = "${hostCompiler}/bin/g++";
    };
  };

  driverWords = lib.concatStringsSep " " (
    [ "\"\${XDG_RUNTIME_DIR:-\${TMPDIR:-/tmp}}/orbit-driver-$(id -u)\"" ]
    ++ map lib.escapeShellArg (data.driver.files ++ [ "--" ] ++ data.driver.others)
  );
in
{
  default = shell {
    name = "orbit";
    packages = [ hostCompiler ];
    variables = activation.general;
  };

  cuda = shell (compiling // { name = "orbit-cuda"; });

  gpu = shell (
    compiling
    // {
      name = "orbit-gpu";
      # Found when the shell is entered, because the driver is the machine's.
      hook = ''
        if orbit_driver=$(${pkgs.runtimeShell} ${./gpu-driver.sh} ${driverWords}); then
          export LD_LIBRARY_PATH="$orbit_driver:$LD_LIBRARY_PATH"
        fi
        unset orbit_driver
      '';
    }
  );
}
