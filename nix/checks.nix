# What `nix flake check` builds: the tests as `./orbitw test` runs them, and the linters of the project, over this source.
#
# Tests that need something a Nix build does not have (git history, network, a container engine, a GPU) say so and are skipped,
# as they are anywhere else.
{
  lib,
  pkgs,
  data,
  # The whole source, tests and pages included.
  source,
  # An environment with what Orbit and its developers need (group `dev` of the lock).
  development,
  hostCompiler,
  orbitEnv,
}:
let
  tools = map (tool: pkgs.${tool.package}) data.tools;

  check =
    name: packages: script:
    pkgs.runCommand "orbit-check-${name}" { nativeBuildInputs = packages; } ''
      cp -r ${source} source
      chmod -R u+w source
      cd source
      export HOME=$TMPDIR PYTHONPATH=$PWD PYTHONDONTWRITEBYTECODE=1
      ${script}
      touch $out
    '';
in
{
  tests = check "tests" ([ development hostCompiler ] ++ tools) ''
    python -m pytest -p no:cacheprovider -n "$NIX_BUILD_CORES" -m "not network and not docker and not gpu"
  '';

  lint = check "lint" [ development ] ''
    ruff check --no-cache
    # pages show code as people read it
    ruff format --no-cache --check --exclude "*.md"
    mypy --cache-dir=$TMPDIR/mypy
  '';

  scripts = check "scripts" [ pkgs.shellcheck pkgs.nixfmt ] ''
    shellcheck orbitw $(find nix containers tests -name '*.sh')
    nixfmt --check flake.nix $(find nix -name '*.nix')
  '';

  # The command line of the package runs.
  command-line = pkgs.runCommand "orbit-check-command-line" { } ''
    ${orbitEnv}/bin/orbit --version >$out
  '';
}
