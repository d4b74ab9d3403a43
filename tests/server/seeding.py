"""What a first start makes of the users in a configuration."""

from __future__ import annotations

from leporid.broker.access.access import Access, User
from leporid.broker.access.users import Users
from leporid.server.config import Config, configured_users


def seeded_users(config: Config) -> dict[str, User]:
    """The users that there are after the first start with a configuration."""
    users = Users(Access((), b"secret"), lambda change: None, lambda name: None, lambda name: None)
    users.seed(configured_users(config), lambda count: b"s" * count)
    return {user.name: user for user in users.access}
