"""Requests to a server that decides about users: RabbitMQ's, in both of their forms.

Responsible for one such request, and for what counts as an answer. Must not know what is asked.
Invariants: whatever does not say `allow` is no permission; nothing that was asked is in a message.

Source: RabbitMQ's rabbitmq_auth_backend_http.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from leporid.server.outgoing import Endpoint, OutgoingError, ask, trusting

if TYPE_CHECKING:
    from leporid.server.oauth_settings import AuthHttp

REQUEST_S: Final = 5.0
ANSWER_BYTES_MAX: Final = 4096
SUCCESSFUL: Final = (200, 201)
ALLOW: Final = "allow"
DENY: Final = "deny"


class AuthRequests:
    """Sends these requests.

    Args:
        settings: whole and checked; the attribute may be replaced, but for the certificates.

    Raises:
        ConfigError: the file with certificates cannot be used.
    """

    def __init__(self, settings: AuthHttp) -> None:
        self.settings = settings
        self._context = trusting(settings.ca)

    def __repr__(self) -> str:
        return f"<AuthRequests {self.settings.user_path}>"

    def ask(self, url: str | None, fields: Mapping[str, str]) -> tuple[bool, list[str]]:
        """Ask the server, and return whether it allows something, and the words after that; blocks.

        Args:
            url: where; None: nowhere any more, which allows nothing.
            fields: what it is told.

        Raises:
            OutgoingError: there is no answer, or it is neither yes nor no.
        """
        if url is None:
            raise OutgoingError("there is no server any more that decides about that (auth_http)")
        status, found = self._sent(Endpoint(url, self._context), urlencode(fields))
        if status not in SUCCESSFUL:
            raise OutgoingError(f"{url}: answers {status}")
        words = found.decode("utf-8", "replace").lower().split()
        if not words or words[0] not in (ALLOW, DENY):
            raise OutgoingError(f"{url}: answers neither allow nor deny")
        return words[0] == ALLOW, words[1:]

    def _sent(self, endpoint: Endpoint, query: str) -> tuple[int, bytes]:
        if self.settings.http_method == "post":
            return ask(
                endpoint,
                seconds=REQUEST_S,
                bytes_max=ANSWER_BYTES_MAX,
                body=query.encode(),
                headers={"content-type": "application/x-www-form-urlencoded"},
            )
        joined = "&" if "?" in endpoint.url else "?"
        try:
            return ask(
                replace(endpoint, url=f"{endpoint.url}{joined}{query}"),
                seconds=REQUEST_S,
                bytes_max=ANSWER_BYTES_MAX,
            )
        except OutgoingError as error:
            # Its text has the address, which has the password.
            raise OutgoingError(str(error).replace(f"{joined}{query}", "")) from None
