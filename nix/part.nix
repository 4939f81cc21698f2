# A part of the checkout as a source of its own, so that editing anything else builds nothing anew. `paths` are files and
# folders relative to the checkout, with a leading slash. (lib.fileset does this too, but asks for a newer Nix.)
paths:
let
  root = toString ../.;
  isBelow = above: path: path == above || builtins.substring 0 (builtins.stringLength above + 1) path == "${above}/";
in
builtins.path {
  name = "source";
  path = ../.;
  filter =
    path: _type:
    let
      relative = builtins.substring (builtins.stringLength root) (-1) path;
    in
    # below a part, or on the way to one
    builtins.any (part: isBelow part relative || isBelow relative part) paths;
}
