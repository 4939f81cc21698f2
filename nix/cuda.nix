# The lock's CUDA compiler as a folder that build systems take for a toolkit.
#
# nvcc and its companions are one program in several wheels: each looks for the others beside the file that it really
# is. So these are copied into one folder; links, which is all that a joined environment has, would lead them apart.
{ lib, pkgs }:
let
  # Shell code that makes the toolkit in `site` (nvidia/cuNN) whole: its programs and compilers are files of their own.
  materialize = site: ''
    for folder in ${site}/nvidia/cu[0-9]*/bin ${site}/nvidia/cu[0-9]*/nvvm; do
      [ -d "$folder" ] || continue
      cp -rL "$folder" "$folder.real"
      chmod -R u+w "$folder.real"
      rm -r "$folder"
      mv "$folder.real" "$folder"
    done
  '';

  # Shell code that makes the CUDA_HOME that every environment of Orbit with CUDA wheels has, with Orbit's own functions.
  farm = site: orbit: ''
    ${orbit}/bin/python -c '
    import sys
    from pathlib import Path
    from orbit.env.cuda_home import link_farm, toolkit_folders
    if toolkit_folders(Path(sys.argv[1])):
        link_farm(Path(sys.argv[1]), Path(sys.argv[2]), relative=True)
    ' ${site} "$out/cuda"
  '';
in
{
  inherit materialize farm;

  # `cuda` below it is the toolkit of `packages` (wheels of the lock); it is a prefix as the activation contract means it.
  prefix =
    {
      name,
      version,
      packages,
      site,
      orbit,
    }:
    pkgs.runCommand "${name}-${version}" { inherit version; } ''
      mkdir -p $out/${site}/nvidia
      for package in ${lib.concatStringsSep " " (map toString packages)}; do
        [ -d $package/${site}/nvidia ] || continue
        cp -rL $package/${site}/nvidia/. $out/${site}/nvidia/
        chmod -R u+w $out/${site}/nvidia
      done
      ${farm "$out/${site}" orbit}
      [ -x $out/cuda/bin/nvcc ] || { echo "${name}: no nvcc in its packages" >&2 && exit 1; }
    '';
}
