"""What fills an image as one self-contained HTML page: a treemap to walk through, and tables that sort.

The tables are plain HTML and stand without scripts; treemap.js draws the map from data in the page. House style and
building blocks are those of the audit's page.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from orbit.audit.reports.formats.document import HOUSE_STYLE, asset, document
from orbit.audit.reports.formats.markup import Html, bar, data_block, el, join, sorter, table
from orbit.audit.reports.view import plural
from orbit.core.amounts import format_bytes as size
from orbit.image.inspect.kinds import KINDS
from orbit.image.inspect.look import Looked
from orbit.image.inspect.records import ArchitectureRow, Contents, Inspection, OwnerRow
from orbit.image.inspect.treemap import tree_of

STYLE, SCRIPT = (Path(__file__).with_name(f"treemap.{end}") for end in ("css", "js"))
MATRIX_ARCHS, MATRIX_OWNERS = 12, 40
OWNER_KINDS = {"python": "Python", "debian": "Debian", "other": "nobody's"}


def to_html(found: Looked) -> bytes:
    """The page, UTF-8. The layers must have been read."""
    facts, contents, weighed = found.facts, found.facts.contents, found.weighed
    assert contents is not None
    assert weighed is not None
    tree = tree_of(weighed, contents, facts.image)
    made: list[Html] = []
    links: list[Html] = []
    sections = (
        ("map", "Map", _map(contents, measured=weighed.measured), ""),
        ("kinds", "What it is", _kinds(contents), ""),
        ("archs", "GPU architectures", _architectures(contents), _unused(contents)),
        ("matrix", "Architectures by distribution", _matrix(contents), ""),
        ("owners", "Distributions and packages", _owners(contents), f"{len(contents.owners):,}"),
        ("layers", "Layers", _layers(facts), f"{len(facts.layers):,}"),
        ("files", "Largest files", _files(contents), f"{len(contents.largest):,}"),
        ("copies", "Equal content in several places", _duplicates(contents), size(contents.duplicate_bytes)),
        ("hidden", "Replaced or removed by upper layers", _hidden(contents), size(contents.hidden_bytes)),
        ("config", "Configuration", _config(facts), ""),
    )
    for name, title, body, note in sections:
        if body:
            count = el("span", note, cls="count") if note else Html("")
            made.append(el("section", el("h2", title, " ", count), body, id=name))
            links.append(el("a", title, href=f"#{name}"))
    body = join(
        (
            el(
                "header",
                el("div", el("span", "orbit", cls="brand"), el("span", "image inspect", cls="product"), cls="wide"),
                cls="top",
            ),
            el(
                "main",
                el(
                    "article",
                    _headline(facts, contents),
                    el("nav", *links, cls="inside", aria_label="sections"),
                    *made,
                    cls="wide",
                ),
            ),
            data_block("tree", tree),
        ),
        "\n",
    )
    style = asset(HOUSE_STYLE) + asset(STYLE)
    return document(f"orbit image: {facts.image}", body, style=style, script=asset(SCRIPT))


def _headline(facts: Inspection, contents: Contents) -> Html:
    tiles = [
        ("to pull", size(facts.pull_bytes) if facts.pull_bytes is not None else "not known"),
        ("on disk", size(contents.disk_bytes)),
        ("files", f"{contents.files:,}"),
        ("device code", size(contents.device_bytes)),
    ]
    if contents.unused_bytes is not None:
        tiles.append(("of it for no target", size(contents.unused_bytes)))
    tiles.append(("in copies", size(contents.duplicate_bytes)))
    listed = [el("li", el("b", value), el("span", name), cls="tile") for name, value in tiles]
    targets = ", ".join(f"{target.name} ({target.arch})" for target in contents.targets)
    return el(
        "div",
        el("h1", facts.image),
        el("p", el("span", facts.digest, cls="path")),
        el("p", f"for {targets}" if targets else "for no GPU that its labels name", cls="muted"),
        el("ul", *listed, cls="tiles"),
        cls="card headline",
    )


def _map(contents: Contents, *, measured: bool) -> Html:
    measures = [
        _choice("disk", "on disk", pressed=True),
        *([_choice("pull", "to pull", pressed=False)] if measured else []),
    ]
    legend = [
        el(
            "button",
            el("i", cls=f"swatch k-{name}"),
            title,
            type="button",
            data_kind=name,
            aria_pressed="false",
        )
        for name, title in _legend(contents)
    ]
    help_ = (
        "Area is size. Click or Enter goes in, Escape goes out, arrow keys walk: left and right beside, up and down "
        "out and in."
    )
    return el(
        "div",
        el(
            "div",
            el("input", type="search", placeholder="search names", aria_label="search the map", data_role="search"),
            el("div", *measures, cls="filters", role="group", aria_label="what the area is"),
            el("span", data_role="count", cls="muted", aria_live="polite"),
            cls="controls",
        ),
        el("nav", cls="crumbs", aria_label="where the map is"),
        el("div", cls="map", role="tree", tabindex="0", aria_label="treemap of the image", aria_describedby="map-help"),
        el("p", "", cls="status path", data_role="status", aria_live="polite"),
        el("div", *legend, cls="filters legends", role="group", aria_label="highlight a kind"),
        el("div", cls="hits", data_role="hits"),
        el("p", help_, cls="muted", id="map-help"),
        el("noscript", el("p", "The map needs scripts; the tables below do not.", cls="muted")),
        cls="card treemap",
    )


def _choice(name: str, title: str, *, pressed: bool) -> Html:
    state = "true" if pressed else "false"
    return el("button", title, type="button", data_measure=name, aria_pressed=state)


def _legend(contents: Contents) -> list[tuple[str, str]]:
    there = {row.kind for row in contents.kinds}
    found = [(name, title) for name, title in KINDS.items() if name in there and name not in ("device", "link")]
    device = [("device", "device code")] if "device" in there else []
    if contents.unused_bytes:
        device.append(("unused", "device code for no target"))
    return device + found


def _sized(disk: int, pull: int | None, largest: int, cls: str = "plain") -> list[Html]:
    """Cells for bytes to pull and on disk, with a bar."""
    return [
        el("td", size(pull) if pull is not None else "-", cls="number"),
        el("td", el("span", size(disk)), bar((100 * disk / (largest or 1), cls), label=size(disk)), cls="number sized"),
    ]


def _kinds(contents: Contents) -> Html:
    largest = max((row.disk_bytes for row in contents.kinds), default=1)
    rows = [
        el(
            "tr",
            el("th", el("i", cls=f"swatch k-{row.kind}"), " ", KINDS[row.kind], scope="row"),
            *_sized(row.disk_bytes, row.pull_bytes, largest),
            el("td", f"{row.files:,}", cls="number"),
            data_name=KINDS[row.kind],
            data_disk=str(row.disk_bytes),
            data_pull=str(row.pull_bytes or 0),
            data_files=str(row.files),
        )
        for row in contents.kinds
    ]
    heads = (
        sorter("kind", "name", "text"),
        sorter("to pull", "pull", "number"),
        sorter("on disk", "disk", "number"),
        sorter("files", "files", "number"),
    )
    return el("div", table(heads, rows, cls="sortable"), cls="card")


def _unused(contents: Contents) -> str:
    if contents.unused_bytes is None or not contents.device_bytes:
        return ""
    pull = f", {size(contents.unused_pull_bytes)} to pull" if contents.unused_pull_bytes is not None else ""
    return f"{size(contents.unused_bytes)} of {size(contents.device_bytes)} for no target{pull}"


def _architectures(contents: Contents) -> Html:
    if not contents.architectures:
        return Html("")
    largest = max(row.disk_bytes for row in contents.architectures)
    rows = [
        el(
            "tr",
            el("th", el("span", row.arch, cls="arch"), scope="row"),
            *_sized(row.disk_bytes, row.pull_bytes, largest, _use(row) if contents.targets else "plain"),
            el("td", f"{row.pieces:,}", cls="number"),
            el("td", _users(row) if contents.targets else "not known"),
            el("td", ", ".join(list(row.owners)[:4]) + (" ..." if len(row.owners) > 4 else ""), cls="muted"),
            data_name=row.arch,
            data_disk=str(row.disk_bytes),
            data_pull=str(row.pull_bytes or 0),
            data_pieces=str(row.pieces),
            data_use=_users(row),
        )
        for row in contents.architectures
    ]
    heads = (
        sorter("architecture", "name", "text"),
        sorter("to pull", "pull", "number"),
        sorter("on disk", "disk", "number"),
        sorter("images", "pieces", "number"),
        sorter("used by", "use", "text"),
        "in",
    )
    return el("div", table(heads, rows, cls="sortable"), cls="card")


def _use(row: ArchitectureRow) -> str:
    return "sass" if row.sass else "jit" if row.jit else "unused"


def _users(row: ArchitectureRow) -> str:
    return ", ".join(row.sass) or (f"at run time: {', '.join(row.jit)}" if row.jit else "no target")


def _matrix(contents: Contents) -> Html:
    """Distributions x architectures."""
    with_code = [row for row in contents.owners if row.architectures]
    owners = sorted(with_code, key=lambda row: -sum(row.architectures.values()))[:MATRIX_OWNERS]
    archs = [row.arch for row in contents.architectures[:MATRIX_ARCHS]]
    if not owners:
        return Html("")
    uses = {row.arch: _use(row) if contents.targets else "plain" for row in contents.architectures}
    rows = []
    for row in owners:
        cells = [
            el("td", size(count) if (count := row.architectures.get(arch, 0)) else "", cls=f"number u-{uses[arch]}")
            for arch in archs
        ]
        total = sum(row.architectures.values())
        values = {f"data_a{place}": str(row.architectures.get(arch, 0)) for place, arch in enumerate(archs)}
        rows.append(
            el(
                "tr",
                el("th", row.name, scope="row"),
                el("td", size(total), cls="number"),
                *cells,
                data_name=row.name,
                data_disk=str(total),
                **values,
            )
        )
    heads = [sorter("distribution", "name", "text"), sorter("all", "disk", "number")]
    heads += [sorter(arch, f"a{place}", "number") for place, arch in enumerate(archs)]
    return el("div", table(heads, rows, cls="sortable archmatrix"), cls="card")


def _owners(contents: Contents) -> Html:
    rows = [_owner(row) for row in contents.owners if row.files]
    heads = (
        sorter("name", "name", "text"),
        sorter("version", "version", "text"),
        sorter("of", "kind", "text"),
        sorter("to pull", "pull", "number"),
        sorter("on disk", "disk", "number"),
        sorter("files", "files", "number"),
        sorter("device code", "device", "number"),
        sorter("for no target", "unused", "number"),
    )
    search = el(
        "div",
        el("input", type="search", placeholder="filter by name", aria_label="filter by name", data_role="filter"),
        el("span", data_role="count", cls="muted", aria_live="polite"),
        cls="controls",
        data_for="owner-table",
    )
    return el("div", search, table(heads, rows, cls="sortable", identifier="owner-table"), cls="card tall")


def _owner(row: OwnerRow) -> Html:
    device = sum(row.architectures.values())
    return el(
        "tr",
        el("th", row.name, el("small", ", ".join(row.layers)), scope="row"),
        el("td", row.version, cls="path"),
        el("td", OWNER_KINDS[row.kind], cls="muted"),
        el("td", size(row.pull_bytes) if row.pull_bytes is not None else "-", cls="number"),
        el("td", size(row.disk_bytes), cls="number"),
        el("td", f"{row.files:,}", cls="number"),
        el("td", size(device) if device else "", cls="number"),
        el("td", size(row.unused_bytes) if row.unused_bytes else "", cls="number"),
        data_name=row.name,
        data_version=row.version,
        data_kind=row.kind,
        data_pull=str(row.pull_bytes or 0),
        data_disk=str(row.disk_bytes),
        data_files=str(row.files),
        data_device=str(device),
        data_unused=str(row.unused_bytes),
    )


def _layers(facts: Inspection) -> Html:
    rows = [
        el(
            "tr",
            el("th", row.name, scope="row"),
            el("td", size(row.pull_bytes) if row.pull_bytes is not None else "-", cls="number"),
            el("td", size(row.disk_bytes) if row.disk_bytes is not None else "-", cls="number"),
            el("td", f"{row.files:,}" if row.files is not None else "-", cls="number"),
            el("td", f"{(row.digest or row.diff_id)[:19]} {row.codec}", cls="path"),
        )
        for row in facts.layers
    ]
    return el("div", table(("layer", "to pull", "on disk", "files", "digest"), rows, cls="layers"), cls="card")


def _files(contents: Contents) -> Html:
    rows = [
        el(
            "tr",
            el("th", el("span", row.path, cls="path"), scope="row"),
            el("td", size(row.pull_bytes) if row.pull_bytes is not None else "-", cls="number"),
            el("td", size(row.disk_bytes), cls="number"),
            el("td", row.owner),
            el("td", row.layer, cls="muted"),
            data_name=row.path,
            data_pull=str(row.pull_bytes or 0),
            data_disk=str(row.disk_bytes),
            data_owner=row.owner,
            data_layer=row.layer,
        )
        for row in contents.largest
    ]
    heads = (
        sorter("file", "name", "text"),
        sorter("to pull", "pull", "number"),
        sorter("on disk", "disk", "number"),
        sorter("of", "owner", "text"),
        sorter("layer", "layer", "text"),
    )
    return el("div", table(heads, rows, cls="sortable"), cls="card tall")


def _duplicates(contents: Contents) -> Html:
    rows = [
        el(
            "tr",
            el("td", size(row.waste_bytes), cls="number"),
            el("td", plural(row.copies, "copy"), cls="number"),
            el("td", *(el("div", path, cls="path") for path in row.paths), _more(row.copies - len(row.paths))),
        )
        for row in contents.duplicates
    ]
    if not rows:
        return Html("")
    return el("div", table(("beyond one copy", "copies", "where"), rows, cls="plain"), cls="card tall")


def _more(count: int) -> Html:
    return el("div", f"and {count:,} more", cls="muted") if count > 0 else Html("")


def _hidden(contents: Contents) -> Html:
    rows = [
        el(
            "tr",
            el("th", el("span", row.path, cls="path"), scope="row"),
            el("td", size(row.pull_bytes) if row.pull_bytes is not None else "-", cls="number"),
            el("td", size(row.disk_bytes), cls="number"),
            el("td", row.layer, cls="muted"),
        )
        for row in contents.hidden
    ]
    if not rows:
        return Html("")
    return el("div", table(("file", "to pull", "on disk", "of layer"), rows, cls="plain"), cls="card tall")


def _config(facts: Inspection) -> Html:
    def listed(title: str, items: Sequence[str]) -> Html:
        if not items:
            return Html("")
        return el("div", el("h3", title), el("ul", *(el("li", el("code", item)) for item in items), cls="lines"))

    return el(
        "div",
        listed("Entry point", [" ".join(facts.entrypoint)] if facts.entrypoint else []),
        listed("Command", [" ".join(facts.cmd)] if facts.cmd else []),
        listed("User", [facts.user] if facts.user else []),
        listed("Environment", facts.env),
        listed("Labels", [f"{name} = {value}" for name, value in sorted(facts.labels.items())]),
        cls="card",
    )
