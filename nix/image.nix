# An OCI image of a profile made by Nix: the joined environment on nixpkgs' libraries.
#
# It is not the image that `orbit image build` makes and the gate judges: the base is nixpkgs instead of Debian, files lie
# under /nix/store instead of the profile's prefix, layers are cut by store path, and the digest is another. The packages are
# those of the same lock, and a container starts through the same entry point.
{ lib, pkgs }:
{
  profile,
  environment,
  hostCompiler,
}:
pkgs.dockerTools.streamLayeredImage {
  inherit (profile.image) name;
  tag = "nix";
  # What Orbit's base has for run-time compilers and for a person in the container.
  contents = [
    pkgs.bashInteractive
    pkgs.cacert
    pkgs.coreutils
    pkgs.dockerTools.binSh
    pkgs.dockerTools.usrBinEnv
    pkgs.gnugrep
    pkgs.gnused
    hostCompiler
  ];
  extraCommands = "mkdir -m 1777 tmp";
  config = {
    Entrypoint = [ "${environment}/bin/orbit-entrypoint" ];
    Env = lib.mapAttrsToList (name: value: "${name}=${value}") (
      {
        PATH = "${environment}/bin:/bin:/usr/bin";
        SSL_CERT_FILE = "${pkgs.cacert}/etc/ssl/certs/ca-bundle.crt";
        LANG = "C.UTF-8";
        # Read by the NVIDIA container toolkit: which devices and which driver parts to bring in.
        NVIDIA_VISIBLE_DEVICES = "all";
        NVIDIA_DRIVER_CAPABILITIES = "compute,utility";
      }
      // lib.mapAttrs (
        _: value: lib.replaceStrings [ "{prefix}" ] [ "${environment}" ] value
      ) profile.image.env
    );
    Labels = profile.image.labels // {
      "org.opencontainers.image.title" = "${profile.image.name} (Nix)";
      "org.opencontainers.image.description" = profile.description;
    };
  };
}
