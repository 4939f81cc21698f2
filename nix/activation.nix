# The activation contract (env/activation.toml) as Nix sees it: the one source of truth that `orbit env activate` and the
# images read too. Builtins alone, so that it can be evaluated, and compared with Orbit's own reader, without any input.
let
  contract = builtins.fromTOML (builtins.readFile ../env/activation.toml);

  known = [
    "set"
    "default"
    "prepend"
    "unset"
  ];

  # Whether a value holds no placeholder but those in `names`.
  only =
    names: value:
    builtins.all (part: builtins.isString part || builtins.elem (builtins.head part) names) (
      builtins.split "[{]([a-z]+)[}]" value
    );

  # A word for sh, whatever is in it.
  quote = text: "'" + builtins.replaceStrings [ "'" ] [ "'\\''" ] text + "'";

  # What a process outside any environment gets: no placeholder, no need.
  general = builtins.filter (
    variable: !(variable ? needs) && only [ ] (variable.value or "")
  ) contract.variables;

  # What the CUDA compiler below `prefix` (prefix/cuda, nvcc included) needs.
  cuda =
    prefix:
    map (variable: variable // { value = builtins.replaceStrings [ "{prefix}" ] [ prefix ] variable.value; }) (
      builtins.filter (
        variable: contract.conditions ? ${variable.needs or ""} && only [ "prefix" ] variable.value
      ) contract.variables
    );

  # Commands for sh, with the meaning they have in orbit/env/activate.py: in the order of the contract; folders that are
  # put in front of a list keep that order among themselves.
  shell =
    variables:
    let
      having = how: builtins.filter (variable: variable.how == how) variables;
      line =
        variable:
        {
          unset = "unset ${variable.name}";
          set = "export ${variable.name}=${quote variable.value}";
          default = "[ -n \"\${${variable.name}:-}\" ] || export ${variable.name}=${quote variable.value}";
        }
        .${variable.how};
      lists = builtins.groupBy (variable: variable.name) (having "prepend");
      prepend =
        name:
        "export ${name}=${
          quote (builtins.concatStringsSep ":" (map (variable: variable.value) lists.${name}))
        }\"\${${name}:+:\$${name}}\"";
    in
    builtins.concatStringsSep "\n" (
      map line (builtins.filter (variable: variable.how != "prepend") variables)
      ++ map prepend (builtins.attrNames lists)
    );
in
assert contract.schema == 1 || throw "env/activation.toml: nix/activation.nix does not know this schema";
assert
  builtins.all (variable: builtins.elem variable.how known) contract.variables
  || throw "env/activation.toml: a `how` that nix/activation.nix does not know";
{
  inherit general cuda shell;
}
