# Kernels as Orbit builds them, inside a Nix build: `orbit kernels build` with its compiler front, its proof and its
# manifest. Nix brings what Orbit would fetch: the build environment (the same group of the same lock) and the sources.
{
  lib,
  pkgs,
  data,
  python,
  cuda,
}:
let
  inherit (python) site;

  # The checkout, as far as the kernels stage reads it.
  checkout = import ./part.nix [
    "/orbit"
    "/env"
    "/kernels"
    "/containers"
    "/pyproject.toml"
    "/uv.lock"
  ];

  compiler =
    cudaRelease:
    lib.findFirst (each: each.cuda == cudaRelease)
      (throw "nix/tools.toml: no [[compilers]] for CUDA ${cudaRelease}")
      data.compilers;

  # nvcc accepts host compilers up to a version, so the one of its release is taken, not the newest.
  hostCompiler = cudaRelease: pkgs."gcc${toString (compiler cudaRelease).gcc}";

  # One folder with all that a build may call: Orbit leaves its builds no other PATH.
  programs =
    cudaRelease:
    pkgs.buildEnv {
      name = "orbit-kernel-programs";
      paths = [
        (hostCompiler cudaRelease)
        pkgs.bash
        pkgs.binutils
        pkgs.coreutils
        pkgs.findutils
        pkgs.gnugrep
        pkgs.gnused
        pkgs.gnutar
        pkgs.gitMinimal
      ];
      ignoreCollisions = true;
    };

  # The installed group, with the toolkit in one piece.
  environment =
    locked: group:
    (locked.set.mkVirtualEnv "orbit-build-${group}" (locked.group group)).overrideAttrs (_: {
      postInstall = cuda.materialize "$out/${site}";
    });

  # The sdist of the lock, as it is.
  archive =
    root: dist:
    let
      lock = lib.importTOML (root + "/uv.lock");
      package = lib.findFirst (each: each.name == dist) (throw "${dist} is not in uv.lock") lock.package;
    in
    pkgs.fetchurl { inherit (package.sdist) url hash; };

  build =
    {
      profile,
      locked,
      orbit,
      recipe,
    }:
    let
      group = recipe.group or "torch-build";
      sources = lib.optional (recipe.source.kind == "sdist") (archive profile.root recipe.dist);
    in
    assert lib.assertMsg (builtins.elem recipe.source.kind [
      "sdist"
      "local"
    ]) "kernels/recipes/${recipe.name}.toml: source.kind = \"${recipe.source.kind}\" is not built by Nix";
    pkgs.runCommand "${recipe.name}-wheel"
      {
        nativeBuildInputs = [ orbit ];
        passthru = { inherit recipe; };
      }
      ''
        export HOME=$TMPDIR ORBIT_CACHE=$TMPDIR/store PYTHONPATH=${checkout} PYTHONDONTWRITEBYTECODE=1
        export PATH=${programs profile.cuda}/bin
        mkdir sources
        ${lib.concatMapStrings (file: "ln -s ${file} sources/${file.name}\n") sources}
        export ORBIT_SOURCES=$PWD/sources
        ${orbit}/bin/python ${./kernels.py} ${profile.name} ${group} ${environment locked group}
        ${orbit}/bin/orbit kernels build ${recipe.name} --profile ${profile.name}
        mkdir $out
        find $ORBIT_CACHE/entries/wheel -name '*.whl' -exec cp {} $out \;
        ls $out/*.whl
      '';
in
{
  inherit hostCompiler compiler build;
}
