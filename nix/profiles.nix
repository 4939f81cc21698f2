# What Orbit's own data says to Nix: profiles, where their locks are, what is compiled for them, which libraries no wheel
# brings. Read from env/ and kernels/, never copied. Builtins alone: it can be evaluated without any input.
let
  # Nix reads no dates, so they become strings first.
  undated =
    text:
    builtins.concatStringsSep "" (
      map (part: if builtins.isString part then part else "= \"${builtins.head part}\"") (
        builtins.split "= ([0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9])" text
      )
    );
  read = path: builtins.fromTOML (undated (builtins.readFile path));

  # Name without ".toml" -> content, of every TOML file in a folder.
  folder =
    path:
    let
      entries = builtins.readDir path;
      names = builtins.filter (
        name: entries.${name} == "regular" && builtins.match ".*[.]toml" name != null
      ) (builtins.attrNames entries);
    in
    builtins.listToAttrs (
      map (name: {
        name = builtins.substring 0 (builtins.stringLength name - 5) name;
        value = read (path + "/${name}");
      }) names
    );

  recipes = folder ../kernels/recipes;
  expectations = folder ../kernels/expectations;
  inherit (expectations) system;

  # Sonames (shell patterns) that a file may need and nobody brings: parts that are opened only where what they need is
  # there. The audit accepts them by the same entries.
  absent = known: builtins.concatMap (entry: entry.sonames) (known.absent or [ ]);

  stem = name: builtins.head (builtins.match "(.*)[.]toml" name);

  describe =
    name: profile:
    let
      place = profile.lock or "";
      toolkit = profile.toolkit or "lock";
      extended = profile.kernels.extended or [ ];
      listed = profile.kernels.core ++ extended;
      # Compiled here, by tier; the others of the profile are published wheels.
      compiled = builtins.filter (recipe: (recipes.${recipe}.mode or "source") == "source") listed;
      reason =
        recipe:
        if toolkit != "lock" then
          "its compiler is not in the lock (toolkit = \"${toolkit}\")"
        else if builtins.elem recipe extended then
          "extended: hours of compiling, built when asked for (orbit kernels build ${recipe})"
        else
          "";
    in
    {
      inherit name toolkit;
      inherit (profile) description python cuda extras;
      # Relative to the checkout; empty: its root.
      lock = place;
      root = if place == "" then ../. else ../. + "/${place}";
      image = {
        inherit (profile.image) name;
        env = profile.image.env or { };
        labels = profile.image.labels or { };
      };
      kernels = map (recipe: recipes.${recipe}) (builtins.filter (recipe: reason recipe == "") compiled);
      # Name of the distribution -> why it is not in the environment.
      leftOut = builtins.listToAttrs (
        map (recipe: {
          name = recipes.${recipe}.dist;
          value = reason recipe;
        }) (builtins.filter (recipe: reason recipe != "") compiled)
      );
      # Libraries that patching must not insist on.
      missing =
        system.driver
        ++ absent expectations.vendor
        ++ builtins.concatMap (file: absent expectations.${stem file}) profile.expectations;
    };
in
{
  profiles = builtins.mapAttrs describe (folder ../env/profiles);

  # Files of the GPU's driver, as shell patterns, and what is named alike.
  driver = { inherit (expectations.libraries.driver) files others; };

  # Soname -> Debian package that brings it to the images.
  base = builtins.listToAttrs (
    builtins.concatMap (
      entry:
      map (soname: {
        name = soname;
        value = entry.package;
      }) entry.sonames
    ) system.base
  );

  # Tools and wheels as nix/*.toml say.
  inherit (read ./tools.toml) tools compilers;
  inherit (read ./wheels.toml) libraries collisions nixpkgs;
}
