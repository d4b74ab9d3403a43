"""The configuration: defaults, the file, the command line, and what is refused."""

import dataclasses
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.broker.at_once import authenticate
from tests.server.seeding import seeded_users
from tools import configuration_page

from leporid.broker.access.access import Access
from leporid.broker.access.passwords import hash_password
from leporid.server.config import (
    Config,
    ConfigError,
    Interceptors,
    load,
)
from leporid.server.settings import Named, Section, about
from leporid.server.sources import default_data_dir

SECRET = b"0123456789abcdef"

IMPORTED = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"

WHOLE = """
data_dir = "/var/lib/leporid"
bind = ["127.0.0.1", "::1"]
amqp_port = 5673
http_port = 0
durability = "written"
heartbeat = 30
frame_max = "64 KiB"
channel_max = 100
memory_watermark = "2 GiB"
disk_free_min = "1 GB"
vhosts = ["orders", "tests"]

[limits]
message_bytes_max = "1 MiB"
connections_max = 1000
handshake_seconds = 5

[interceptors]
timestamp = "overwrite"
message_id = "keep"

[users.ann]
password_hash = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
tags = ["monitoring"]
[users.ann.permissions.orders]
write = "^orders"
[users.ann.permissions."/"]
configure = ".*"
write = ".*"
read = ".*"

[users.guest]
password = "guest"
loopback_only = false

[users.ben]
password = "pässword"
loopback_only = true
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "leporid.toml"


def loaded(file: Path, text: str) -> Config:
    file.write_text(text)
    return load(file, {}, {})


def test_the_defaults():
    config = load(None, {}, {"XDG_STATE_HOME": "/state"})
    assert config == Config(data_dir=Path("/state/leporid"))
    assert config.bind == ("127.0.0.1",)
    assert (config.amqp_port, config.http_port, config.metrics_port) == (5672, 15672, 15692)
    assert (config.heartbeat, config.frame_max, config.channel_max) == (60, 131072, 2047)
    assert config.durability == "synced"
    assert config.vhosts == ("/",)
    assert config.memory_bytes_max(1000) == 600
    assert config.disk_free_min == 50_000_000
    assert config.limits.handshake_seconds == 10
    assert not config.interceptors.used


def test_the_default_user_is_guest_with_all_rights_from_loopback():
    user = seeded_users(load(None))["guest"]
    assert user.name == "guest"
    assert user.loopback_only
    assert user.tags == ("administrator",)
    assert user.may("configure", "exchange", "x", "/")
    assert authenticate(Access([user], SECRET), "PLAIN", b"\0guest\0guest", loopback=True) is user


@pytest.mark.parametrize("state", [{}, {"XDG_STATE_HOME": ""}, {"XDG_STATE_HOME": "relative"}])
def test_without_a_state_directory_there_is_the_home_directory(state: dict[str, str]):
    assert default_data_dir(state) == Path.home() / ".local/state/leporid"


def test_a_whole_file(file: Path):
    config = loaded(file, WHOLE)
    assert config.data_dir == Path("/var/lib/leporid")
    assert config.bind == ("127.0.0.1", "::1")
    assert (config.amqp_port, config.http_port) == (5673, 0)
    assert config.durability == "written"
    assert (config.heartbeat, config.frame_max, config.channel_max) == (30, 65536, 100)
    assert config.memory_bytes_max(8 * 2**30) == 2 * 2**30
    assert config.disk_free_min == 10**9
    # "/" is always there.
    assert config.vhosts == ("/", "orders", "tests")
    assert config.limits.message_bytes_max == 2**20
    assert config.limits.connections_max == 1000
    assert config.limits.handshake_seconds == 5
    assert config.interceptors == Interceptors(timestamp="overwrite", message_id="keep")
    assert config.interceptors.used

    users = seeded_users(config)
    assert list(users) == ["ann", "guest", "ben"]
    assert users["ann"].tags == ("monitoring",)
    assert users["ann"].password.matches(b"test12")
    assert users["ann"].may("write", "queue", "orders-1", "orders")
    assert not users["ann"].may("read", "queue", "orders-1", "orders")
    assert users["ann"].may("read", "queue", "orders-1", "/")
    assert [user.loopback_only for user in users.values()] == [False, False, True]
    assert users["ben"].password.matches("pässword".encode())
    assert users["guest"].permissions == {}


def test_guest_is_loopback_only_unless_the_file_says_otherwise(file: Path):
    config = loaded(file, '[users.guest]\npassword = "x"\n[users.ann]\npassword = "x"')
    assert [user.loopback_only for user in seeded_users(config).values()] == [True, False]


def test_our_own_hashes_are_taken(file: Path):
    text = hash_password("secret", b"s" * 16).text
    config = loaded(file, f'[users.ann]\npassword_hash = "{text}"')
    assert seeded_users(config)["ann"].password.matches(b"secret")


def test_the_command_line_wins(file: Path):
    file.write_text(WHOLE)
    config = load(file, {"amqp_port": 0, "bind": "localhost", "data_dir": "/elsewhere"}, {})
    assert config.amqp_port == 0
    assert config.bind == ("127.0.0.1",)
    assert config.data_dir == Path("/elsewhere")
    assert config.heartbeat == 30


def test_the_home_directory_has_a_short_name(file: Path):
    assert loaded(file, 'data_dir = "~/broker"').data_dir == Path.home() / "broker"


def test_no_secret_is_in_the_repr(file: Path):
    text = repr(loaded(file, WHOLE))
    assert "pässword" not in text
    assert IMPORTED not in text
    assert "kI3GC" not in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("heartbeet = 60", 'heartbeet: unknown setting; did you mean "heartbeat"?'),
        ("heartbeat = -1", "heartbeat = -1: must be a whole number from 0 to 65535"),
        ("amqp_port = -1", "amqp_port = -1: without a certificate there is no other port for"),
        ("amqp_port = 65536", "amqp_port = 65536: must be a whole number from -1 to 65535"),
        ("frame_max = 4095", "frame_max = 4095: must be a number of bytes from 4096 to"),
        ("frame_max = 0", "frame_max = 0: must be a number of bytes"),
        ("channel_max = 0", "channel_max = 0: must be a whole number from 1 to 65535"),
        (
            'durability = "synched"',
            'durability = "synched": must be one of "synced", "written"; did you mean "synced"?',
        ),
        ('bind = "here"', 'bind = "here": must be an IP address such as'),
        (
            'bind = "127.0.0.1,::1"',
            'address such as "127.0.0.1", or a list such as ["0.0.0.0", "::"]',
        ),
        ("bind = 5", "bind = 5: must be a list"),
        ("bind = [5]", "bind[0] = 5: must be an IP address such as"),
        ("bind = []", "bind = []: must name at least one address, and none twice"),
        ('bind = ["::1", "0:0::1"]', "must name at least one address, and none twice"),
        ('data_dir = "relative"', 'data_dir = "relative": must be an absolute path'),
        ('data_dir = ""', 'data_dir = "": must be an absolute path'),
        ("memory_watermark = 1.5", "memory_watermark = 1.5: must be a share of the memory"),
        ("memory_watermark = 0", "memory_watermark = 0: must be a share of the memory"),
        ("memory_watermark = 0.0", "memory_watermark = 0.0: must be a share of the memory"),
        ("memory_watermark = nan", "memory_watermark = nan: must be a share of the memory"),
        ('disk_free_min = "much"', 'disk_free_min = "much": must be a number of bytes from 0'),
        ('vhosts = ["a", "a"]', "must not name a virtual host twice"),
        ('vhosts = [""]', 'vhosts[0] = "": must be a text of 1 to 255 bytes'),
        ("[limits]\nmessage_size = 1", "limits.message_size: unknown setting"),
        ("[limits]\nmessage_bytes_max = 0", "limits.message_bytes_max = 0: must be"),
        ("limits = 3", "limits: must be a table of settings"),
        ("users = 3", "users: must be a table of settings"),
        ("[users.ann]", "users.ann: must have exactly one of password and password_hash"),
        (
            f'[users.ann]\npassword = "x"\npassword_hash = "{IMPORTED}"',
            "users.ann: must have exactly one of password and password_hash",
        ),
        ('[users.ann]\npassword = ""', "users.ann.password: must be a text that is not empty"),
        ("[users.ann]\npassword = 7", "users.ann.password: must be a text that is not empty"),
        ('[users.ann]\npassword_hash = "x"', "users.ann.password_hash: must be an argon2id hash"),
        ("[users.ann]\npassword_hash = 7", "users.ann.password_hash: must be an argon2id hash"),
        ('[users.ann]\npasword = "x"', 'users.ann.pasword: unknown setting; did you mean "passw'),
        (
            '[users.ann]\npassword = "x"\n[users.ann.permissions."/"]\nwrite = "("',
            'users.ann.permissions."/".write = "(": is not a pattern RE2 accepts (missing ): ()',
        ),
        (
            '[users.ann]\npassword = "x"\n[users.ann.permissions."/"]\nwrite = true',
            'users.ann.permissions."/".write = true: must be a pattern, in quotes',
        ),
        (
            'vhosts = ["orders"]\n[users.ann]\npassword = "x"\n[users.ann.permissions.order]',
            'users.ann.permissions.order: no such virtual host; did you mean "orders"? vhosts has',
        ),
        ("heartbeat = ", "is not TOML: "),
        ("amqp_port = 7000\nhttp_port = 7000", "http_port = 7000: amqp_port is the same port"),
    ],
)
def test_what_is_refused(file: Path, text: str, message: str):
    with pytest.raises(ConfigError) as refused:
        loaded(file, text)
    assert re.match(rf"{re.escape(str(file))}:\d+: ", str(refused.value))
    assert message in str(refused.value)


def test_a_secret_is_in_no_refusal(file: Path):
    for text in (
        '[users.ann]\npassword_hash = "hunter2"',
        '[users.ann]\npassword = ["hunter2"]',
        '[users]\nann = "hunter2"',
    ):
        with pytest.raises(ConfigError) as refused:
            loaded(file, text)
        assert "hunter2" not in str(refused.value)


def test_a_file_that_is_not_there_or_no_text(file: Path):
    with pytest.raises(ConfigError, match="cannot be read: No such file or directory"):
        load(file)
    file.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        load(file)


def test_every_problem_is_told_with_its_line(file: Path):
    with pytest.raises(ConfigError) as refused:
        loaded(
            file,
            "heartbeet = 6\n[limits]\n\nhandshake_seconds = 0\n[users.ann]\ntags = []\n"
            '[[policies]]\nname = "p"\npattern = "^q"\n[policies.definition]\nmax-lenght = 1\n',
        )
    lines = [line.removeprefix(f"{file}:") for line in str(refused.value).splitlines()]
    assert lines == [
        '1: heartbeet: unknown setting; did you mean "heartbeat"?',
        "4: limits.handshake_seconds = 0: must be a whole number from 1 to 3600",
        '11: policies[0].definition.max-lenght: unknown setting; did you mean "max-length"?',
    ]


def test_what_concerns_several_settings_has_a_line_too(file: Path):
    with pytest.raises(ConfigError) as refused:
        loaded(file, "\n[users.ann]\ntags = []\n")
    assert str(refused.value).startswith(f"{file}:2: users.ann: must have exactly one of")


def test_a_mistake_is_told_of_the_file_that_it_is_in(file: Path):
    part = file.parent / "conf.d" / "10-heartbeat.toml"
    part.parent.mkdir()
    part.write_text("\nheartbeat = -1")
    with pytest.raises(ConfigError) as refused:
        loaded(file, "heartbeat = 10\n")
    assert str(refused.value).startswith(f"{part}:2: heartbeat = -1: must be")


def test_a_mistake_in_the_environment_is_told_with_the_variable():
    with pytest.raises(ConfigError) as refused:
        load(None, {}, {"LEPORID_HEARTBEAT": "often"})
    assert str(refused.value) == (
        'LEPORID_HEARTBEAT: heartbeat = "often": must be a whole number from 0 to 65535'
    )


def test_the_order_of_sources(file: Path):
    (file.parent / "conf.d").mkdir()
    (file.parent / "conf.d" / "20.toml").write_text("channel_max = 3\nframe_max = 8192\n")
    file.write_text("heartbeat = 1\nchannel_max = 1\nframe_max = 4096\n[limits]\n"
                    "handshake_seconds = 3\nconnections_max = 9")  # fmt: skip
    environment = {"LEPORID_FRAME_MAX": "16384", "LEPORID_LIMITS__CONNECTIONS_MAX": "10"}
    config = load(file, {"heartbeat": 7}, environment)
    assert (config.channel_max, config.frame_max, config.heartbeat) == (3, 16384, 7)
    # Tables merge.
    assert (config.limits.handshake_seconds, config.limits.connections_max) == (3, 10)


def test_what_the_command_line_says_is_checked_too():
    with pytest.raises(ConfigError) as refused:
        load(None, {"amqp_port": 70000})
    assert str(refused.value) == "amqp_port = 70000: must be a whole number from -1 to 65535"


# ---------------------------------------------------------------- the page about it

PAGE = configuration_page.PAGE.read_text(encoding="utf-8")


def tables() -> Iterator[type]:
    """Every section that a key can be in."""

    def below(check: object) -> Iterator[type]:
        if isinstance(check, Section):
            yield check.into
            for field in dataclasses.fields(check.into):
                yield from below(about(field).check)
        elif isinstance(check, Named):
            yield from below(check.each)

    return below(Section(Config))


SETTINGS = [
    pytest.param(section, field, id=f"{section.__name__}.{field.name}")
    for section in tables()
    for field in dataclasses.fields(section)
]


def rows(section: type) -> dict[str, list[str]]:
    """The cells of the table of one section of the page, by setting."""
    (name,) = (name for name, one in configuration_page.SECTIONS.items() if one is section)
    (lines,) = re.findall(rf"<!-- settings: {name} -->\n((?:\|.*\n)+)", PAGE)
    cells = [line.strip("| \n").split(" | ") for line in lines.splitlines()]
    return {row[0].strip("`"): [each.strip() for each in row[1:]] for row in cells[2:]}


def test_the_tables_of_the_page_are_those_of_the_code():
    assert configuration_page.page_of(PAGE) == PAGE, "run tools/configuration_page.py"


def test_every_section_has_its_table_on_the_page():
    assert set(tables()) == set(configuration_page.SECTIONS.values())
    assert all(f"<!-- settings: {name} -->\n| Set" in PAGE for name in configuration_page.SECTIONS)


@pytest.mark.parametrize(("section", "field"), SETTINGS)
def test_every_setting_is_documented(section: type, field: dataclasses.Field[object]):
    if isinstance(about(field).check, Section):
        return
    assert about(field).doc
    row = rows(section)[field.name.removesuffix("_")]
    assert about(field).doc in row
    # The unit of a size is bytes, that of a time stands in its name.
    ending = re.search(r"_(ms|seconds|percent)$", field.name)
    units = {"ms": "milliseconds", "seconds": "seconds", "percent": "per cent"}
    if ending:
        assert about(field).unit == units[ending[1]]
        assert about(field).unit in row


@pytest.mark.parametrize(("section", "field"), SETTINGS)
def test_the_default_of_the_page_is_the_default(section: type, field: dataclasses.Field[object]):
    said = rows(section).get(field.name.removesuffix("_"), [""])[0]
    if not re.fullmatch("`[^`]*`", said) or field.default is None:
        assert field.default in (None, dataclasses.MISSING) or isinstance(
            about(field).check, Section
        )
        return
    value = tomllib.loads(f"value = {said.strip('`')}")["value"]
    assert about(field).check("key", value) == field.default


def test_the_example_of_the_page_can_be_used(file: Path):
    example, *others = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.S)
    for other in others:
        loaded(file, other)
    config = loaded(file, example)
    assert config.vhosts == ("/", "shop")
    till, admin = seeded_users(config).values()
    assert (till.name, admin.name) == ("till", "admin")
    assert till.permissions.keys() == {"shop"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('redeclare = "always"', 'redeclare = "always": must be one of "strict", "warn", "adopt"'),
        ('redeclare_by_vhost = { "/" = "x" }', 'redeclare_by_vhost."/" = "x": must be one of "st'),
        ('redeclare_by_vhost = { shop = "warn" }', "redeclare_by_vhost.shop: no such virtual host"),
        (
            'unknown_arguments = "deny"',
            'unknown_arguments = "deny": must be one of "warn", "refuse"',
        ),
        (
            'unknown_arguments_by_vhost = { shop = "refuse" }',
            "unknown_arguments_by_vhost.shop: no such virtual host",
        ),
    ],
)
def test_what_redeclare_may_be(text: str, message: str, file: Path):
    with pytest.raises(ConfigError, match=re.escape(message)):
        loaded(file, text)


def test_a_virtual_host_may_redeclare_otherwise(file: Path):
    assert load(None, {}, {}).redeclare_in("/") == "strict"
    config = loaded(file, 'redeclare = "warn"\nredeclare_by_vhost = { "/" = "adopt" }')
    assert (config.redeclare_in("/"), config.redeclare_in("other")) == ("adopt", "warn")


def test_a_virtual_host_may_refuse_unknown_arguments(file: Path):
    assert load(None, {}, {}).unknown_arguments_in("/") == "warn"
    config = loaded(file, 'unknown_arguments_by_vhost = { "/" = "refuse" }')
    assert (config.unknown_arguments_in("/"), config.unknown_arguments_in("b")) == (
        "refuse",
        "warn",
    )


def test_hosts_are_names(file: Path):
    assert load(None).http.hosts == ()
    config = loaded(file, 'http.hosts = ["mq.example.org", "Broker_1"]')
    assert config.http.hosts == ("mq.example.org", "broker_1")


@pytest.mark.parametrize(
    "host", ["", "*", "*.example.org", "mq.example.org:15672", "http://mq", "[::1]", "mq.", "a b"]
)
def test_what_is_no_name_of_a_host_is_refused(file: Path, host: str):
    with pytest.raises(ConfigError, match="without a port"):
        loaded(file, f"http.hosts = [{host!r}]")


# ---------------------------------------------------------------- TLS


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('tls.certificate = "/c.pem"', "tls: certificate and key belong together"),
        ('tls.key = "/c.key"', "tls: certificate and key belong together"),
        ('tls.client_ca = "/ca.pem"', "tls: without certificate and key, nothing is encrypted"),
        ('tls.certificate = "c.pem"', "tls.certificate = .*must be an absolute path"),
        (
            'tls.certificat = "/c.pem"',
            'tls.certificat: unknown setting; did you mean "certificate"',
        ),
        (
            'tls = {certificate = "/c", key = "/k", client_ca = "/a"}',
            "client_ca and client_certificates",
        ),
        (
            'tls = {certificate = "/c", key = "/k", client_certificates = "required"}',
            "client_ca and client_certificates",
        ),
        ('tls.client_certificates = "yes"', 'must be one of "off", "optional", "required"'),
        ('tls.names."a" = {certificate = "/c"}', "tls.names.a.key: missing"),
    ],
)
def test_tls_settings_that_do_not_belong_together(file: Path, text: str, said: str):
    with pytest.raises(ConfigError, match=said):
        loaded(file, text)
