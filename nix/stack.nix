# The environment of a profile: what `orbit env create` installs, joined by Nix from the same lock.
#
# Kernels that the kernels stage compiles come from nix/kernels.nix; those it skips by default (`extended`), and those
# whose compiler is not in the lock, are left out, and `passthru.leftOut` says which and why.
{
  lib,
  pkgs,
  data,
  python,
  cuda,
  kernels,
  # The package of the checkout itself, and the environment with its command line.
  orbit,
  orbitEnv,
}:
profile:
let
  inherit (python) site;

  # Installs a wheel that was built here under the name that the lock has for it.
  fromWheel =
    final: recipe: version: wheel: dependencies:
    pkgs.stdenv.mkDerivation {
      pname = recipe.dist;
      inherit version;
      src = wheel;
      dontStrip = true;
      nativeBuildInputs = [
        final.pyprojectWheelHook
        pkgs.autoPatchelfHook
      ];
      passthru = {
        inherit (dependencies) dependencies optional-dependencies dependency-groups;
        format = "wheel";
        package.name = recipe.dist;
      };
    };

  # In the place of what is left out: nothing, but with the dependencies that the lock resolved for it.
  nothing =
    name: prev:
    pkgs.runCommand "${name}-left-out" {
      pname = name;
      version = prev.${name}.version;
      passthru = {
        inherit (prev.${name}.passthru) dependencies optional-dependencies dependency-groups;
      };
    } "mkdir $out";

  noDependencies = {
    dependencies = { };
    optional-dependencies = { };
    dependency-groups = { };
  };

  wheels = lib.listToAttrs (
    map (
      recipe:
      lib.nameValuePair recipe.name (
        kernels.build {
          inherit profile recipe;
          locked = plain;
          orbit = orbitEnv;
        }
      )
    ) profile.kernels
  );

  overlay =
    final: prev:
    lib.listToAttrs (
      map (
        recipe:
        lib.nameValuePair recipe.dist (
          fromWheel final recipe (recipe.source.version or prev.${recipe.dist}.version)
            wheels.${recipe.name}
            (prev.${recipe.dist}.passthru or noDependencies)
        )
      ) profile.kernels
    )
    // lib.mapAttrs (name: _: nothing name prev) (
      lib.filterAttrs (name: _: prev ? ${name}) profile.leftOut
    )
    # A lock of its own knows Orbit by name only; the package is that of the checkout, with the dependencies of the lock.
    // lib.optionalAttrs (profile.lock != "") {
      orbit = orbit.overrideAttrs (old: {
        passthru = old.passthru // {
          inherit (prev.orbit.passthru) dependencies optional-dependencies dependency-groups;
        };
      });
    };

  # What the kernels are built with, and the whole.
  plain = python.load { inherit (profile) root missing; };
  locked = python.load {
    inherit (profile) root missing;
    inherit overlay;
    built = map (recipe: recipe.dist) profile.kernels;
  };

  spec = {
    orbit = profile.extras;
  }
  // lib.listToAttrs (map (recipe: lib.nameValuePair recipe.dist [ ]) profile.kernels);

  versions = locked.versions spec;

  # Tells environments apart in the folder of caches, as the identity of an environment made by Orbit does.
  identity = builtins.hashString "sha256" (
    builtins.toJSON [
      (builtins.hashFile "sha256" (profile.root + "/uv.lock"))
      versions
    ]
  );

  environment = locked.set.mkVirtualEnv "orbit-${profile.name}" spec;
in
{
  inherit versions wheels;

  environment = environment.overrideAttrs (old: {
    venvSkip = map (collision: "${site}/${collision.path}") data.collisions;
    # Like an environment made by Orbit: a CUDA_HOME where there is a compiler, and the entry point of the images, which sets
    # the activation contract (`. bin/orbit-entrypoint`, or `bin/orbit-entrypoint COMMAND`).
    postInstall = ''
      ${cuda.materialize "$out/${site}"}
      ${cuda.farm "$out/${site}" orbitEnv}
      install -D -m 755 ${../containers/entrypoint.sh} $out/bin/orbit-entrypoint
      mkdir -p $out/share/orbit
      ${orbitEnv}/bin/python -c '
      import sys
      from orbit.image.runtime import state_script
      sys.stdout.buffer.write(state_script())
      ' >$out/share/orbit/state.sh
      printf '{\n  "made-by": "nix",\n  "identity": "%s"\n}\n' ${identity} >$out/share/orbit/environment.json
    '';
    passthru = (old.passthru or { }) // {
      inherit (profile) leftOut;
      inherit profile versions identity;
    };
  });
}
