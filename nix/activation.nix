# The environment variables of the activation contract, read from env/activation.toml: the one source of truth that
# `orbit env activate`, the image and this shell share.
{ lib }:
let
  file = ../env/activation.toml;
  contract = if builtins.pathExists file then builtins.fromTOML (builtins.readFile file) else { };
in
{
  inherit contract;
  env = { };
}
