"""Two images compared, as text for people: from the outside in, and each group of files with its causes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from orbit.audit.reports.diff import Change
from orbit.audit.reports.text import LOG_WIDTH, Style
from orbit.audit.reports.view import plural, visible
from orbit.core.amounts import format_bytes
from orbit.image.diff.causes import REAL, why
from orbit.image.diff.records import ContentDifference, FileDifference, Group, ImageDiff, LayerDifference
from orbit.kernels.wheels.binaries import ImageDifference, SectionDifference

LIMIT = 5
"""Files of a group, and parts of a file."""
GROUPS = 40
WHYS = 4
VALUE_CHARS = 160
CHANGES = ("changed", "added", "removed", "renamed", "moved")
MARKS = {"added": "+", "removed": "-", "changed": "~", "renamed": ">", "moved": "^"}
WORDS = {
    "same": "the same",
    "recompressed": "compressed differently, the same content",
    "reordered": "the same, at another place",
    "added": "added",
    "removed": "removed",
}


def render(found: ImageDiff, *, limit: int | None = LIMIT, color: bool = False) -> str:
    """The comparison for people; ``limit`` files of each group and parts of each file, None for all."""
    style = Style(LOG_WIDTH, False, color, limit is None)
    lines = [
        f"left   {visible(found.left.image)}  {found.left.digest}",
        f"right  {visible(found.right.image)}  {found.right.digest}",
        "",
    ]
    lines += _changes("configuration", found.config)
    lines += _changes("manifest", found.manifest)
    lines += _layers(found.layers, style)
    groups = found.groups if limit is None else found.groups[:GROUPS]
    for group in groups:
        lines += _group(group, limit, style)
    if len(groups) < len(found.groups):
        lines += [f"... and {plural(len(found.groups) - len(groups), 'group')} more; --files lists them", ""]
    if found.times:
        lines.append(f"{plural(found.times, 'file')} differ in their time alone")
    lines += [f"not compared: {visible(item.what)}: {visible(item.reason)}" for item in found.skipped]
    lines.append(_verdict(found, style))
    return "\n".join(lines) + "\n"


def _verdict(found: ImageDiff, style: Style) -> str:
    if found.equal:
        note = "" if found.left.digest == found.right.digest else " (digests of two kinds of document)"
        return style.paint("equal", "ok") + note
    parts = [f"{found.counts[change]:,} {change}" for change in CHANGES if found.counts.get(change)]
    files = f"files: {', '.join(parts)}" if parts else f"no file; {_rest(found)}"
    causes = why(found.causes)
    return style.paint("DIFFERENT", "error") + f": {files}" + (f"; {causes}" if causes else "")


def _rest(found: ImageDiff) -> str:
    """What differs in images of equal files."""
    layers = {layer.change for layer in found.layers} - {"same"}
    what = [name for name, there in (("configuration", found.config), ("manifest", found.manifest)) if there]
    what += [{"recompressed": "compression", "reordered": "order of layers"}.get(change, "layers") for change in layers]
    return ", ".join(sorted(what))


def _changes(title: str, changes: Sequence[Change]) -> Iterator[str]:
    if not changes:
        return
    yield title
    for change in changes:
        yield f"  {visible(change.name)}"
        for mark, value in (("-", change.before), ("+", change.after)):
            if value:
                yield f"    {mark} {_cut(value)}"
    yield ""


def _cut(text: str) -> str:
    shown = visible(text)
    return shown if len(shown) <= VALUE_CHARS else f"{shown[:VALUE_CHARS]}... ({len(shown):,} characters)"


def _layers(layers: Sequence[LayerDifference], style: Style) -> Iterator[str]:
    yield "layers"
    for layer in layers:
        name = layer.left if layer.left == layer.right or not layer.right else layer.right
        if layer.left and layer.right and layer.left != layer.right:
            name = f"{layer.left} -> {layer.right}"
        sizes = [format_bytes(count) for count in (layer.left_bytes, layer.right_bytes) if count is not None]
        told = " -> ".join(dict.fromkeys(sizes))
        words = WORDS.get(layer.change) or (
            "changed" if layer.causes == ("files",) else f"equal files, {why(layer.causes)}"
        )
        painted = style.paint(words, "dim" if layer.change == "same" else "bold")
        yield f"  {_cut(name):16} {painted}{f'  {told}' if told else ''}"
    yield ""


def _group(group: Group, limit: int | None, style: Style) -> Iterator[str]:
    total = sum(group.counts.values())
    parts = [f"{group.counts[change]:,} {change}" for change in CHANGES if group.counts.get(change)]
    grown = group.right_bytes - group.left_bytes
    more = f", {'+' if grown > 0 else '-'}{format_bytes(abs(grown))}" if grown else ""
    yield style.paint(_title(group), "bold") + f": {plural(total, 'file')} ({', '.join(parts)}{more})" * bool(total)
    whys = list(group.whys.items())
    if whys and (total > 1 or limit == 0):
        shown = whys if limit is None else whys[:WHYS]
        rest = f"; {plural(len(whys) - len(shown), 'other cause')}" if len(shown) < len(whys) else ""
        yield "  " + "; ".join(f"{count:,} x {words}" for words, count in shown) + rest
    files = sorted(group.files, key=_weight)
    chosen = files if limit is None else files[:limit]
    for file in chosen:
        yield from _file(file, limit, style)
    if len(chosen) < len(files):
        yield f"  ... and {plural(len(files) - len(chosen), 'file')} more"
    yield ""


def _weight(file: FileDifference) -> tuple[bool, int, str]:
    """Real differences first, then the largest."""
    real = file.content is not None and not REAL.isdisjoint(file.content.causes)
    return not real, -max(side.size for side in (file.left, file.right) if side is not None), file.path


def _title(group: Group) -> str:
    of = {"debian": " (Debian)"}.get(group.kind, "")
    name = visible(group.name) + of
    if group.kind == "other":
        return name
    if group.before == group.after:
        return f"{name} {visible(group.after)}"
    if not group.before:
        return f"added {name} {visible(group.after)}"
    if not group.after:
        return f"removed {name} {visible(group.before)}"
    return f"{name} {visible(group.before)} -> {visible(group.after)}"


def _file(file: FileDifference, limit: int | None, style: Style) -> Iterator[str]:
    sizes = [format_bytes(side.size) for side in (file.left, file.right) if side is not None and side.kind == "file"]
    told = [" -> ".join(dict.fromkeys(sizes))] if sizes else []
    if file.change == "moved" and file.left and file.right:
        told.append(f"from layer {visible(file.left.layer)} to {visible(file.right.layer)}")
    told += [file.why] if file.why else []
    told += _aspects(file)
    name = f"{visible(file.before)} -> {visible(file.path)}" if file.change == "renamed" else visible(file.path)
    yield f"  {MARKS[file.change]} {name}  {'  '.join(told)}".rstrip()
    if file.content is not None:
        yield from _content(file.content, limit, style, "      ")


def _aspects(file: FileDifference) -> Iterator[str]:
    left, right = file.left, file.right
    if left is None or right is None:
        return
    for aspect, one, two in (
        ("mode", left.mode, right.mode),
        ("owner", f"{left.uid}:{left.gid}", f"{right.uid}:{right.gid}"),
        ("link", visible(left.target), visible(right.target)),
        ("kind", left.kind, right.kind),
    ):
        if aspect in file.aspects:
            yield f"{one} -> {two}"


def _content(found: ContentDifference, limit: int | None, style: Style, indent: str) -> Iterator[str]:
    for change in found.fields:
        yield f"{indent}{visible(change.name)}: {_cut(change.before)} -> {_cut(change.after)}"
    if found.num_lines_left or found.num_lines_right:
        yield f"{indent}{plural(found.num_lines_left, 'line')} gone, {found.num_lines_right:,} new"
    for mark, lines in (("-", found.lines_left), ("+", found.lines_right)):
        yield from (f"{indent}{mark} {_cut(line)}" for line in [line for line in lines if line.strip()][:limit])
    if found.differing_bytes is not None:
        verb = "differs" if found.differing_bytes == 1 else "differ"
        yield f"{indent}{plural(found.differing_bytes, 'byte')} {verb}, the first at {found.first:,}"
    if found.binary is not None:
        yield from _sections(found.binary.sections, limit, indent)
        for image in found.binary.images[:limit]:
            yield from _image(image, limit, indent)
        yield from _more(len(found.binary.images), limit, "image", indent)
        yield from _texts(found.binary.texts, indent)
    inside = sorted(found.inside, key=lambda part: REAL.isdisjoint(part.causes))
    for part in inside[:limit]:
        yield f"{indent}{visible(part.name) or 'inside'}: {why(part.causes)}"
        yield from _content(part, limit, style, indent + "    ")
    yield from _more(len(inside), limit, "member", indent)


def _more(count: int, limit: int | None, noun: str, indent: str) -> Iterator[str]:
    if limit is not None and count > limit:
        yield f"{indent}... and {plural(count - limit, noun)} more"


def _sections(sections: Sequence[SectionDifference], limit: int | None, indent: str) -> Iterator[str]:
    ordered = sorted(sections, key=lambda item: (REAL.isdisjoint(item.causes), item.name))
    for item in ordered[:limit]:
        grown = "" if item.left_bytes == item.right_bytes else f" -> {item.right_bytes:,}"
        causes = why(item.causes) or "see its images"
        yield f"{indent}{visible(item.name)}: {item.differing_bytes:,} of {item.left_bytes:,}{grown} bytes: {causes}"
    yield from _more(len(ordered), limit, "section", indent)


def _image(image: ImageDifference, limit: int | None, indent: str) -> Iterator[str]:
    yield f"{indent}{visible(image.section)}[{image.container}] {visible(image.arch)}: {why(image.causes)}"
    yield from (f"{indent}    kernel {_cut(name)}" for name in image.kernels[:limit])
    yield from _more(len(image.kernels), limit, "kernel", indent + "    ")
    yield from _sections(image.sections, limit, indent + "    ")


def _texts(texts: Mapping[str, tuple[str, str]], indent: str) -> Iterator[str]:
    for cause, (one, two) in sorted(texts.items()):
        yield f"{indent}{why((cause,)).removesuffix(' only')}: {_cut(one)} -> {_cut(two)}"
