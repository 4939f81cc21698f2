"""Which file the loader picks: run paths in glibc's order, then the driver, the base image, what is loaded already."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from orbit.audit.installed.environment import read_environment
from orbit.audit.known.policy import Policy
from orbit.audit.known.policy import library_path as library_folders
from orbit.audit.models.loader import Loader, Resolution, native_machine
from orbit.core.console import Silent
from tests.audit.support import make_policy
from tests.writers.elf import write_elf
from tests.writers.environment import EnvironmentWriter

SITE = "lib/python3.12/site-packages"
LIBP = write_elf(soname="libp.so.1")


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    env = EnvironmentWriter(tmp_path / "e")
    env.add("rpath", {"r/libp.so.1": LIBP})
    env.add("variable", {"v/libp.so.1": LIBP})
    env.add("runpath", {"u/libp.so.1": LIBP})
    return env


def library_path(value: str) -> Policy:
    """The probe policy with an image that sets LD_LIBRARY_PATH."""
    policy = make_policy()
    image = msgspec.structs.replace(policy.profile.image, env={"LD_LIBRARY_PATH": value})
    profile = msgspec.structs.replace(policy.profile, image=image)
    return Policy(profile, policy.expectations, policy.system, policy.uid, policy.today, library_folders(profile))


def load(prefix: Path, policy: Policy | None = None) -> Loader:
    policy = policy or make_policy()
    return Loader(read_environment(prefix, policy.profile, Silent()), policy)


def ask(env: EnvironmentWriter, policy: Policy | None = None, **user: str) -> Resolution:
    """What libp.so.1 becomes for user/_c.so; ``user`` gives its run paths."""
    soname = user.pop("needed", "libp.so.1")
    env.add("user", {"user/_c.so": write_elf(needed=[soname], **user)})  # type: ignore[arg-type]
    loader = load(env.prefix, policy)
    ((_soname, resolution),) = loader.needed(loader.objects[f"{SITE}/user/_c.so"])
    return resolution


def found(*paths: str, how: str = "loader") -> Resolution:
    return Resolution(how, tuple(f"{SITE}/{path}" for path in paths))  # type: ignore[arg-type]


VARIABLE = "{prefix}/lib/python3.12/site-packages/v"


def test_rpath_comes_before_the_variable_and_runpath_after_it(env: EnvironmentWriter) -> None:
    assert ask(env, library_path(VARIABLE), rpath="$ORIGIN/../r") == found("r/libp.so.1")


def test_variable_comes_before_runpath(env: EnvironmentWriter) -> None:
    assert ask(env, library_path(VARIABLE), runpath="$ORIGIN/../u") == found("v/libp.so.1")


def test_runpath_puts_rpath_out_of_force(env: EnvironmentWriter) -> None:
    assert ask(env, rpath="$ORIGIN/../r", runpath="$ORIGIN/../u") == found("u/libp.so.1")


def test_runpath_that_finds_nothing_still_puts_rpath_out_of_force(env: EnvironmentWriter) -> None:
    assert ask(env, rpath="$ORIGIN/../r", runpath="$ORIGIN").how == "ambiguous"


def test_first_folder_of_a_run_path_wins(env: EnvironmentWriter) -> None:
    assert ask(env, runpath="$ORIGIN/none:$ORIGIN/../u:$ORIGIN/../r") == found("u/libp.so.1")


@pytest.mark.parametrize(
    "where",
    ["$ORIGIN/../u", "${ORIGIN}/../u", "$ORIGIN/../user/.././u/", "/opt/orbit/lib/python3.12/site-packages/u"],
)
def test_spellings_of_one_folder(env: EnvironmentWriter, where: str) -> None:
    assert ask(env, runpath=where) == found("u/libp.so.1")


@pytest.mark.parametrize("where", ["$ORIGINAL/../u", "/usr/lib", "lib", "$ORIGIN/" + "../" * 9 + "u", "/opt/orbit2/u"])
def test_folders_outside_the_environment_find_nothing(env: EnvironmentWriter, where: str) -> None:
    assert ask(env, runpath=where).how == "ambiguous"


def test_origin_itself(env: EnvironmentWriter) -> None:
    env.add("own", {"user/libp.so.1": LIBP})
    assert ask(env, runpath="$ORIGIN") == found("user/libp.so.1")


def test_run_path_through_linked_folders_and_files(env: EnvironmentWriter) -> None:
    """``..`` after a link leaves what the link leads to, as the kernel does it."""
    (env.prefix / "cuda").symlink_to("lib/python3.12/site-packages/u")
    (env.site / "u/libalias.so.1").symlink_to("libp.so.1")
    assert ask(env, runpath="/opt/orbit/cuda/../r") == found("r/libp.so.1")
    loader = load(env.prefix)
    item = loader.objects[f"{SITE}/user/_c.so"]
    assert loader.resolve(item, "libalias.so.1").how == "missing"
    env.add("other", {"other/_c.so": write_elf(needed=["libalias.so.1"], runpath="/opt/orbit/cuda")})
    loader = load(env.prefix)
    assert loader.resolve(loader.objects[f"{SITE}/other/_c.so"], "libalias.so.1") == found("u/libp.so.1")


def test_link_that_leaves_the_environment_finds_nothing(env: EnvironmentWriter) -> None:
    (env.prefix / "outside").symlink_to(env.prefix.parent)
    assert ask(env, runpath="/opt/orbit/outside/e/lib/python3.12/site-packages/u").how == "ambiguous"


def test_provider_for_another_machine_is_passed_over(env: EnvironmentWriter) -> None:
    env.add("arm", {"arm/libp.so.1": write_elf(soname="libp.so.1", machine=183)})
    assert ask(env, runpath="$ORIGIN/../arm:$ORIGIN/../u") == found("u/libp.so.1")


def test_file_that_is_no_library_is_passed_over(env: EnvironmentWriter) -> None:
    env.add("text", {"text/libp.so.1": b"INPUT(libp.so.2)\n"})
    assert ask(env, runpath="$ORIGIN/../text:$ORIGIN/../u") == found("u/libp.so.1")


def test_several_providers_and_no_run_path_are_all_named(env: EnvironmentWriter) -> None:
    assert ask(env) == found("r/libp.so.1", "u/libp.so.1", "v/libp.so.1", how="ambiguous")


def test_only_provider_is_taken_to_be_loaded_already(env: EnvironmentWriter) -> None:
    env.add("vendor", {"nvidia/lib/libcudart.so.13": write_elf(soname="libcudart.so.13")})
    assert ask(env, needed="libcudart.so.13") == found("nvidia/lib/libcudart.so.13", how="preloaded")


def test_private_copy_with_the_public_soname_is_a_second_provider(env: EnvironmentWriter) -> None:
    """torchvision brings libcudart.<hash>.so.13 whose DT_SONAME is still libcudart.so.13."""
    public, private = "nvidia/lib/libcudart.so.13", "vision.libs/libcudart.faf08d9a.so.13"
    env.add("vendor", {public: write_elf(soname="libcudart.so.13")})
    env.add("vision", {private: write_elf(soname="libcudart.so.13")})
    assert ask(env, needed="libcudart.so.13") == found(public, private, how="ambiguous")


def test_copies_of_one_library_in_one_folder_are_one_provider(env: EnvironmentWriter) -> None:
    """A wheel holds no links: pyarrow brings libarrow.so, .so.2600 and .so.2600.1.0 with the same bytes."""
    data = write_elf(soname="libarrow.so.2600")
    env.add("arrow", {f"arrow/libarrow.so{end}": data for end in ("", ".2600", ".2600.1.0")})
    assert ask(env, needed="libarrow.so.2600") == found("arrow/libarrow.so.2600", how="preloaded")


def test_provider_known_by_its_soname_alone(env: EnvironmentWriter) -> None:
    env.add("vendor", {"z/libz-1.so": write_elf(soname="libzz.so.4")})
    (env.site / "z/libzz.so.4").symlink_to("libz-1.so")
    assert ask(env, needed="libzz.so.4") == found("z/libz-1.so", how="preloaded")


def test_driver_library_is_the_hosts_unless_a_run_path_finds_one(env: EnvironmentWriter) -> None:
    env.add("compat", {"compat/libcuda.so.1": write_elf(soname="libcuda.so.1")})
    assert ask(env, needed="libcuda.so.1") == Resolution("driver", ())
    env.add("other", {"other/_c.so": write_elf(needed=["libcuda.so.1"], runpath="$ORIGIN/../compat")})
    loader = load(env.prefix)
    assert loader.resolve(loader.objects[f"{SITE}/other/_c.so"], "libcuda.so.1") == found("compat/libcuda.so.1")


def test_base_image_comes_before_what_a_wheel_happens_to_bring(env: EnvironmentWriter) -> None:
    env.add("gcc", {"gcc/libstdc++.so.6": write_elf(soname="libstdc++.so.6")})
    assert ask(env, needed="libstdc++.so.6") == Resolution("base", ())


def test_stubs_provide_nothing(env: EnvironmentWriter) -> None:
    env.add("sdk", {"sdk/lib/stubs/libnvrtc.so.13": write_elf(soname="libnvrtc.so.13")})
    assert ask(env, needed="libnvrtc.so.13") == Resolution("missing", ())


@pytest.mark.parametrize(
    ("needed", "expected"),
    [
        ("$ORIGIN/../u/libp.so.1", found("u/libp.so.1")),
        ("/opt/orbit/lib/python3.12/site-packages/u/libp.so.1", found("u/libp.so.1")),
        ("/build/lib/libp.so.1", Resolution("missing", ())),
        ("../u/libp.so.1", Resolution("missing", ())),
        ("", Resolution("missing", ())),
    ],
)
def test_needed_path_is_opened_and_not_searched_for(env: EnvironmentWriter, needed: str, expected: Resolution) -> None:
    assert ask(env, needed=needed, runpath="$ORIGIN") == expected


def test_interpreter_library_of_a_virtual_environment_is_outside(env: EnvironmentWriter) -> None:
    assert ask(env, needed="libpython3.12.so.1.0") == Resolution("missing", ())
    (env.prefix / "pyvenv.cfg").write_text("home = /usr/bin\n")
    loader = load(env.prefix)
    assert loader.resolve(loader.objects[f"{SITE}/user/_c.so"], "libpython3.12.so.1.0") == Resolution("base", ())
    bare = load(env.site)
    assert bare.resolve(bare.objects["user/_c.so"], "libpython3.12.so.1.0") == Resolution("base", ())
    assert bare.resolve(bare.objects["user/_c.so"], "libpython3.11.so.1.0") == Resolution("missing", ())


def test_closure_ends_with_libraries_that_need_each_other(env: EnvironmentWriter) -> None:
    one = write_elf(soname="liba.so", needed=["libb.so"])
    two = write_elf(soname="libb.so", needed=["liba.so", "libc.so.6"])
    env.add("circle", {"c/liba.so": one, "c/libb.so": two, "c/_c.so": write_elf(needed=["liba.so"])})
    loader = load(env.prefix)
    assert loader.closure(loader.objects[f"{SITE}/c/_c.so"]) == {f"{SITE}/c/liba.so", f"{SITE}/c/libb.so"}


def test_machine_of_the_environment_is_that_of_most_objects(env: EnvironmentWriter) -> None:
    env.add("arm", {"arm/stub.so": write_elf(machine=183)})
    assert load(env.prefix).machine == 62
    assert native_machine(load(EnvironmentWriter(env.prefix.parent / "empty").prefix).env) == 0


def test_the_toolkit_folder_of_the_activation_contract_is_searched(tmp_path: Path) -> None:
    """Two providers would be ambiguous; the image's LD_LIBRARY_PATH names the one that is taken."""
    env, plain = EnvironmentWriter(tmp_path / "with"), EnvironmentWriter(tmp_path / "without")
    for writer in (env, plain):
        writer.add("one", {"one/libp.so.1": LIBP})
        writer.add("two", {"two/libp.so.1": LIBP})
    assert ask(plain).how == "ambiguous"
    farm = tmp_path / "with" / "cuda" / "lib64"
    farm.mkdir(parents=True)
    (farm / "libp.so.1").symlink_to("../../lib/python3.12/site-packages/two/libp.so.1")
    plainly = make_policy()
    folders = library_folders(plainly.profile)
    policy = Policy(plainly.profile, plainly.expectations, plainly.system, plainly.uid, plainly.today, folders)
    assert ask(env, policy) == Resolution("loader", ("lib/python3.12/site-packages/two/libp.so.1",))


# --- what is handed down ----------------------------------------------------------------------------------------------


def program(env: EnvironmentWriter, **parts: str) -> None:
    path = env.prefix / "bin/python3.12"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(write_elf(**parts))  # type: ignore[arg-type]
    path.chmod(0o755)


def chain(env: EnvironmentWriter, *, outer: dict[str, str], inner: dict[str, str]) -> Resolution:
    """What libp.so.1 becomes for libinner.so, which _c.so pulls in."""
    both = {"runpath": "$ORIGIN/lib"} if not outer.get("rpath") else {"rpath": f"$ORIGIN/lib:{outer['rpath']}"}
    env.add(
        "chain",
        {
            "chain/_c.so": write_elf(needed=["libinner.so"], **both),  # type: ignore[arg-type]
            "chain/lib/libinner.so": write_elf(soname="libinner.so", needed=["libp.so.1"], **inner),  # type: ignore[arg-type]
        },
    )
    loader = load(env.prefix)
    return loader.resolve(loader.objects[f"{SITE}/chain/lib/libinner.so"], "libp.so.1")


def test_rpath_is_handed_down_and_its_origin_stays(env: EnvironmentWriter) -> None:
    resolution = chain(env, outer={"rpath": "$ORIGIN/../r"}, inner={})
    assert (resolution, resolution.by) == (found("r/libp.so.1"), "inherited rpath")


def test_own_rpath_comes_before_an_inherited_one(env: EnvironmentWriter) -> None:
    assert chain(env, outer={"rpath": "$ORIGIN/../r"}, inner={"rpath": "$ORIGIN/../../u"}) == found("u/libp.so.1")


def test_library_with_a_runpath_takes_no_inheritance(env: EnvironmentWriter) -> None:
    assert chain(env, outer={"rpath": "$ORIGIN/../r"}, inner={"runpath": "$ORIGIN"}).how == "ambiguous"


def test_runpath_is_not_handed_down(env: EnvironmentWriter) -> None:
    assert chain(env, outer={}, inner={}).how == "ambiguous"


def test_rpath_goes_through_a_library_that_has_a_runpath(env: EnvironmentWriter) -> None:
    """glibc walks on to the loader of the loader, whatever the one between has."""
    env.add(
        "deep",
        {
            "deep/_c.so": write_elf(needed=["liba.so"], rpath="$ORIGIN:$ORIGIN/../r"),
            "deep/liba.so": write_elf(soname="liba.so", needed=["libb.so"], runpath="$ORIGIN"),
            "deep/libb.so": write_elf(soname="libb.so", needed=["libp.so.1"]),
        },
    )
    loader = load(env.prefix)
    assert loader.resolve(loader.objects[f"{SITE}/deep/libb.so"], "libp.so.1") == found("r/libp.so.1")


def test_libraries_that_hand_to_each_other_end(env: EnvironmentWriter) -> None:
    env.add(
        "circle",
        {
            "c/liba.so": write_elf(soname="liba.so", needed=["libb.so", "libp.so.1"], rpath="$ORIGIN"),
            "c/libb.so": write_elf(soname="libb.so", needed=["liba.so", "libp.so.1"], rpath="$ORIGIN:$ORIGIN/../u"),
        },
    )
    loader = load(env.prefix)
    assert loader.resolve(loader.objects[f"{SITE}/c/liba.so"], "libp.so.1") == found("u/libp.so.1")


def test_rpath_of_the_interpreter_serves_every_extension(env: EnvironmentWriter) -> None:
    """conda's python finds libstdc++ in its own lib for everything that is imported."""
    program(env, rpath=f"$ORIGIN/../{SITE}/u")
    assert ask(env) == found("u/libp.so.1")


@pytest.mark.parametrize(
    "parts", [{"runpath": f"$ORIGIN/../{SITE}/u"}, {"rpath": f"$ORIGIN/../{SITE}/u", "runpath": "/x"}]
)
def test_runpath_of_the_interpreter_does_not(env: EnvironmentWriter, parts: dict[str, str]) -> None:
    program(env, **parts)
    assert ask(env).how == "ambiguous"


def test_extension_with_a_runpath_ignores_the_interpreters(env: EnvironmentWriter) -> None:
    program(env, rpath=f"$ORIGIN/../{SITE}/u")
    assert ask(env, runpath="$ORIGIN/none").how == "ambiguous"


@pytest.mark.parametrize(("tag", "by"), [("rpath", "rpath"), ("runpath", "runpath")])
def test_what_found_it_is_said(env: EnvironmentWriter, tag: str, by: str) -> None:
    assert ask(env, **{tag: "$ORIGIN/../u"}).by == by  # type: ignore[arg-type]


def test_empty_element_is_no_folder_of_the_environment(env: EnvironmentWriter) -> None:
    assert ask(env, runpath=":$ORIGIN/../u") == found("u/libp.so.1")
    assert load(env.prefix, library_path(":/opt/orbit")).library_path == ("/opt/orbit",)


@pytest.mark.parametrize("where", ["$ORIGIN/../$LIB", "${ORIGIN}/../${LIB}/", "$ORIGIN/../lib/$PLATFORM-linux-gnu"])
def test_other_tokens(env: EnvironmentWriter, where: str) -> None:
    (env.site / "lib/x86_64-linux-gnu").mkdir(parents=True)
    (env.site / "lib/x86_64-linux-gnu/libp.so.1").write_bytes(LIBP)
    assert ask(env, runpath=where) == found("lib/x86_64-linux-gnu/libp.so.1")


def test_folder_for_better_processors_comes_first(env: EnvironmentWriter) -> None:
    for level in ("x86-64-v2", "x86-64-v3"):
        (env.site / f"u/glibc-hwcaps/{level}").mkdir(parents=True)
        (env.site / f"u/glibc-hwcaps/{level}/libp.so.1").write_bytes(LIBP)
    assert ask(env, runpath="$ORIGIN/../u") == found("u/glibc-hwcaps/x86-64-v3/libp.so.1")
