"""RabbitMQ's plugins: those whose function is always here, and those of which there is nothing.

Responsible for one table. Must not enable anything: nothing here can be enabled or disabled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

HERE: Final = {
    "rabbitmq_management": "the management API and the web interface",
    "rabbitmq_management_agent": "the management API",
    "rabbitmq_web_dispatch": "the HTTP server",
    "rabbitmq_prometheus": "metrics",
    "rabbitmq_delayed_message_exchange": "exchanges of the type x-delayed-message",
    "rabbitmq_event_exchange": "the exchange amq.rabbitmq.event",
    "rabbitmq_auth_mechanism_ssl": "EXTERNAL, where a certificate was verified",
    "rabbitmq_auth_backend_http": "auth.backends",
    "rabbitmq_auth_backend_oauth2": "auth.backends",
    "rabbitmq_auth_backend_cache": "auth.cache_seconds",
    "rabbitmq_message_timestamp": "interceptors.timestamp",
}
"""What is here without being enabled, and where."""


def names_of(text: str) -> list[str]:
    """Return the names in a file of enabled plugins, which is a list of Erlang's."""
    return re.findall(r"[a-z][a-z0-9_]*", re.sub(r"%.*", "", text))


def missing(text: str) -> Iterator[str]:
    """Go through the plugins of such a file of which there is nothing here."""
    return (name for name in names_of(text) if name not in HERE)
