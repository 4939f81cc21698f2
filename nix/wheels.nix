# What wheels with compiled code need to run from the store: an overlay over uv2nix's packages.
#
# autoPatchelf gives every file absolute run paths to the libraries it asks for: those of other wheels of the same lock
# (nix/wheels.toml), those of nixpkgs that stand for the Debian packages of the images (kernels/expectations/system.toml).
# The driver's libraries belong to the machine and are never looked for when building; at run time they come from
# NixOS's driver folder or from what devShells.gpu finds.
{
  lib,
  pkgs,
  data,
  # Names of the packages in the lock, and of what is built for it.
  names,
  # Shell patterns of libraries that nobody brings.
  missing,
  site,
}:
final: prev:
let
  # Where NixOS keeps the driver's libraries (pkgs.addDriverRunpath.driverLink).
  driverFolder = "/run/opengl-driver/lib";

  fromNixpkgs = lib.unique (
    map (path: lib.getAttrFromPath (lib.splitString "." path) pkgs) (lib.attrValues data.nixpkgs)
  );

  librariesOf =
    name: map (dist: final.${dist}) (builtins.filter (dist: prev ? ${dist}) data.libraries.${name});

  isNative =
    package:
    (package.passthru.format or "") == "wheel" && !lib.hasSuffix "-any.whl" (package.src.name or "");

  patched =
    name: package:
    package.overrideAttrs (old: {
      buildInputs = (old.buildInputs or [ ]) ++ fromNixpkgs ++ [ pkgs.python312 ];
      autoPatchelfIgnoreMissingDeps = missing;
      # Files open others of their own folder by bare name (cuDNN, NVRTC), which no header says.
      appendRunpaths = [
        "$ORIGIN"
        driverFolder
      ];
      preFixup =
        (old.preFixup or "")
        + lib.concatMapStrings (
          library: "addAutoPatchelfSearchPath ${library}/${site}\n"
        ) (if data.libraries ? ${name} then librariesOf name else [ ]);
    });
in
lib.genAttrs (builtins.filter (name: prev ? ${name}) names) (
  name: if isNative prev.${name} then patched name prev.${name} else prev.${name}
)
