"""Several files that are one module to Python, and which of them it takes. Not a rule.

The order (``importlib.machinery``, CPython): a package folder, extension modules by suffix (``.cpython-312-...so``,
``.abi3.so``, ``.so``), source, compiled file.
"""

from __future__ import annotations

import re
from collections import defaultdict

from orbit.audit.facts import Environment

EXTENSION = re.compile(r"^(?P<stem>[^./]+)(?P<suffix>(?:\.(?:cpython-\d+[a-z]*(?:-[\w-]+)?|abi3))?\.so|\.py)$")


class Forms:
    """The modules of a target that have several forms."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        major, minor = env.layout.python
        self._own = f".cpython-{major}{minor}"
        by_module: dict[str, list[str]] = defaultdict(list)
        libraries = {path for path in env.tree.entries if path.endswith(".so")}
        for path in libraries:
            if (stem := self._module(path)) and self.rank(path) is not None:
                by_module[stem].append(path)
        for stem, forms in by_module.items():
            if f"{stem}.py" in env.tree.entries:
                forms.append(f"{stem}.py")
        self.several: dict[str, list[str]] = {}
        """Importable extension modules and source of one module, the one that is taken first."""
        for stem, forms in by_module.items():
            if len(forms) > 1:
                self.several[stem] = sorted(forms, key=lambda path: self.rank(path) or 0)

    def rank(self, path: str) -> int | None:
        """Position in the order of suffixes; None for what this interpreter cannot import."""
        match = EXTENSION.match(path.rpartition("/")[2])
        if match is None:
            return None
        suffix = match["suffix"]
        if suffix.startswith(".cpython"):
            return 0 if re.match(rf"{re.escape(self._own)}[-.]", suffix) else None
        return {".abi3.so": 1, ".so": 2, ".py": 3}[suffix]

    def beaten_by(self, path: str) -> str:
        """The owned form of a module that ``path``, which nobody owns, is imported in place of; or empty."""
        stem = self._module(path)
        forms = self.several.get(stem, [])
        if not forms or forms[0] != path or path in self._env.owners:
            return ""
        return next((other for other in forms[1:] if other in self._env.owners), "")

    @staticmethod
    def _module(path: str) -> str:
        folder, slash, name = path.rpartition("/")
        match = EXTENSION.match(name)
        return f"{folder}{slash}{match['stem']}" if match else ""
