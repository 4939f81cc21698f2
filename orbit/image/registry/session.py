"""Speaking to one repository of a registry: first contact, requests with authorization, patience."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from orbit.core.console import Progress, Silent
from orbit.errors import MissingError, OrbitError
from orbit.image.registry.answers import denied, problem
from orbit.image.registry.auth import Authorizer
from orbit.image.registry.credentials import find_credentials
from orbit.image.registry.reference import Reference, is_loopback
from orbit.image.registry.transport import TIMEOUT_S, Body, Broken, Request, Response, Transport, Untrusted, origin

WAIT_MAX_S = 120.0
"""A server that asks for more patience is not waited for."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How often and how long: tries in a row without progress, first pause, longest pause (seconds; they double)."""

    tries: int = 6
    first_s: float = 1.0
    longest_s: float = 30.0

    def pause_s(self, failures: int) -> float:
        """How long to wait after that many failures in a row."""
        return min(self.longest_s, self.first_s * 2.0 ** (failures - 1))


PATIENCE = Patience()


class Registry:
    """One repository of a registry. Threads may share it. Use it in a ``with`` block."""

    def __init__(
        self,
        reference: Reference,
        *,
        plain_http: bool = False,
        patience: Patience = PATIENCE,
        progress: Progress | None = None,
    ) -> None:
        self.reference = reference
        self.patience = patience
        self.progress = progress or Silent()
        self.stopped = threading.Event()
        """Set when the work is given up: no thread starts anything after that."""
        self._transport = Transport(plain_http=plain_http)
        self._schemes = ("http",) if plain_http else ("https", "http") if is_loopback(reference.api) else ("https",)
        self._base = ""
        self._auth = Authorizer(find_credentials(reference.host, reference.repository), self._ask)

    def __enter__(self) -> Registry:
        """First contact: TLS or not, and whom we must be. Nothing is repeated: a wrong name should show at once."""
        for scheme in self._schemes:
            try:
                self._greet(f"{scheme}://{self.reference.api}")
                break
            except (Untrusted, Broken) as error:
                # a registry on this machine mostly has no TLS
                plain = error.not_tls if isinstance(error, Untrusted) else error.reached
                if scheme == self._schemes[-1] or not plain:
                    raise
        return self

    def __exit__(self, *_ended: object) -> None:
        self.stopped.set()
        self._transport.close()

    def _greet(self, base: str) -> None:
        with self._transport.open(Request("GET", f"{base}/v2/", {})) as response:
            if response.status == 401:
                self._auth.challenged(response.headers)
            elif response.status == 404:
                raise MissingError(f"{base}: is no registry (no /v2/)", fix="check the host and the port")
            self._base = base

    def url(self, path: str) -> str:
        """The address of ``path`` in our repository."""
        return f"{self._base}/v2/{self.reference.repository}/{path}"

    def scopes(self, actions: str = "pull", *, source: str = "") -> tuple[str, ...]:
        """What a token must allow: ``actions`` here, and reading the repository ``source``."""
        own = f"repository:{self.reference.repository}:{actions}"
        return (own, f"repository:{source}:pull") if source else (own,)

    def call(
        self,
        method: str,
        url: str,
        *,
        expect: Sequence[int],
        scopes: Sequence[str],
        headers: Mapping[str, str] | None = None,
        body: Body | None = None,
        once: bool = False,
        timeout_s: float = TIMEOUT_S,
    ) -> Response:
        """Send a request, again and again where that may help, until the status is one of ``expect``.

        With ``once`` nothing is repeated: the caller must first ask how far it came. Raises :class:`Broken` when the
        registry cannot be reached or stays busy, :class:`RefusedError` for what we may not do, :class:`MissingError`
        for what is not there and :class:`CheckFailed` for every other refusal.
        """
        renewed = False

        def once_sent() -> Response | None:
            nonlocal renewed
            sent = self._authorized(url, scopes, headers or {})
            response = self._transport.open(Request(method, url, sent, body, timeout_s))
            if response.status in expect:
                return response
            with response:
                refusal = self._problem(response, method)
                old = sent.get("Authorization", "")
                if response.status == 401 and not renewed and self._auth.renew(response.headers, scopes, old):
                    renewed = True
                    if not once:
                        return None
                    refusal = Broken(refusal.what, fix=refusal.fix)
                    refusal.wait_s = 0.0
            raise refusal

        return self._patiently(once_sent, tries=1 if once else self.patience.tries)

    def _patiently(self, work: Callable[[], Response | None], *, tries: int) -> Response:
        """What ``work`` gives, done again after a pause while it is :class:`Broken`, at once while it gives nothing."""
        failures = 0
        while True:
            self.check_stop()
            try:
                response = work()
            except Broken as failure:
                failures += 1
                if failures >= tries:
                    raise
                self.pause(failures, failure)
            else:
                if response is not None:
                    return response

    def pause(self, failures: int, failure: Broken) -> None:
        """Wait before the next try, as long as the server asked for or as patience says."""
        wait_s = self.patience.pause_s(failures) if failure.wait_s is None else failure.wait_s
        if wait_s > WAIT_MAX_S:
            raise failure
        self.progress.step(f"{failure.what}; try {failures + 1} in {wait_s:.0f} s")
        self.stopped.wait(wait_s)
        self.check_stop()

    def abort(self) -> None:
        """Give up: break what is under way, start nothing more."""
        self.stopped.set()
        self._transport.abort()

    def check_stop(self) -> None:
        """Raise KeyboardInterrupt in a thread whose work was given up."""
        if self.stopped.is_set():
            raise KeyboardInterrupt

    def _authorized(self, url: str, scopes: Sequence[str], headers: Mapping[str, str]) -> dict[str, str]:
        """The headers with ours; an address of another host gets no authorization."""
        same = origin(url) == origin(self._base)
        value = self._auth.header(scopes, encrypted=self._base.startswith("https:")) if same else ""
        return {**headers, "Authorization": value} if value else dict(headers)

    def _ask(self, request: Request) -> Response:
        """For tokens: send until there is a 200."""

        def once_sent() -> Response:
            response = self._transport.open(request)
            if response.status == 200:
                return response
            with response:
                refusal = self._problem(response, request.method)
                if response.status == 400:  # some token servers' word for a wrong password
                    refusal = denied(refusal.what, host=self.reference.host, known=self._auth.credentials is not None)
            raise refusal

        return self._patiently(once_sent, tries=self.patience.tries)

    def _problem(self, response: Response, method: str) -> OrbitError:
        return problem(response, method, host=self.reference.host, known=self._auth.credentials is not None)
