# The activation contract (env/activation.toml) as far as it concerns a shell without an environment: the one source of
# truth that `orbit env activate` and the image read too.
#
# Variables with a placeholder ({prefix}, {state}, {cache}) or a need (a CUDA compiler) belong to an installed
# environment, which a development shell is not.
{ lib }:
let
  contract = lib.importTOML ../env/activation.toml;

  placed = variable: lib.hasInfix "{" (variable.value or "") || variable ? needs;
  general = builtins.filter (variable: !placed variable) contract.variables;

  having =
    how: lib.listToAttrs (map (v: lib.nameValuePair v.name v.value) (builtins.filter (v: v.how == how) general));

  known = [
    "set"
    "default"
    "prepend"
    "unset"
  ];
in
assert lib.assertMsg (contract.schema == 1)
  "env/activation.toml: schema ${toString contract.schema} is not known to nix/activation.nix";
assert lib.assertMsg (builtins.all (v: builtins.elem v.how known) contract.variables)
  "env/activation.toml: a `how` that nix/activation.nix does not know";
{
  # Name -> value, whatever was there before.
  set = having "set";

  # Name -> value where the caller has none.
  default = having "default";

  # Names that must not be there.
  unset = map (v: v.name) (builtins.filter (v: v.how == "unset") general);
}
