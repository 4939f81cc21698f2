# A standard environment in small: bash of the host, the phases that packages of uv2nix use, PATH of the host at the end.
{
  lib,
  host,
  system,
}:
let
  # Attributes that are for Nix code and never reach the builder.
  hidden = [
    "env"
    "meta"
    "passthru"
    "pos"
  ];

  raw =
    attrs:
    builtins.derivation (
      {
        inherit system;
        builder = host.bash;
        outputs = [ "out" ];
      }
      // attrs
    );

  # $stdenv/setup, which builders and `nix develop` source.
  setup = raw {
    name = "stand-in-stdenv";
    # The last word is bash's own: cp in its place would close its output before it ends, which Nix takes for the end.
    args = [
      "-ec"
      "${host.coreutils}/mkdir $out; ${host.coreutils}/cp $script $out/setup; :"
    ];
    script = ./setup.sh;
  };

  builder = builtins.toFile "builder.sh" "source $stdenv/setup; genericBuild";

  derive =
    attrs:
    let
      name = attrs.name or "${attrs.pname}-${attrs.version}";
      drv = raw (
        removeAttrs attrs hidden
        // (attrs.env or { })
        // {
          inherit name;
          stdenv = setup;
          args = [
            "-e"
            builder
          ];
        }
      );
      passthru = attrs.passthru or { };
    in
    attrs
    // passthru
    // {
      inherit name passthru;
      inherit (drv) type drvPath outPath outputName;
      outputs = [ "out" ];
      inherit system;
    };

  mkDerivation =
    given:
    let
      asFunction = if lib.isFunction given then given else _: given;
      build =
        make:
        let
          final = make final;
        in
        derive final
        // {
          overrideAttrs =
            change:
            build (
              self:
              let
                old = make self;
                first = (if lib.isFunction change then change else _: change) old;
                # overrideAttrs takes `old: ...` and `final: old: ...`.
                changed = if lib.isFunction first then change self old else first;
              in
              old // changed
            );
        };
    in
    build asFunction;

  platform = lib.systems.elaborate system;
in
{
  inherit mkDerivation;
  buildPlatform = platform;
  hostPlatform = platform;
  targetPlatform = platform;
  inherit (platform) isLinux isDarwin;
}
