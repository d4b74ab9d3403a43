"""The verb `list`: what is done here where the broker does not."""

import argparse
import io
import json

import pytest

from leporid.cli.listing import show_rows
from leporid.cli.outcomes import WrongUse
from leporid.cli.output import Output
from leporid.cli.session import Session

ROWS = [{"name": "b", "n": 1}, {"name": "A", "n": 3}, {"name": "ab", "n": 2}]


def shown(as_json=False, **given) -> str:
    stream = io.StringIO()
    options = {
        "columns": None,
        "sort": None,
        "reverse": False,
        "like": None,
        "regex": False,
        "where": None,
        **given,
    }
    out = Output(stream=stream, terminal=False, as_json=as_json)
    show_rows(Session(argparse.Namespace(**options), {}, out), ROWS, ("name",))
    return stream.getvalue()


def test_names_order_and_columns():
    assert shown() == "name\nb\nA\nab\n"
    assert shown(like="a") == "name\nA\nab\n"
    assert shown(sort="n", reverse=True, columns="n,name") == "n\tname\n3\tA\n2\tab\n1\tb\n"
    assert json.loads(shown(as_json=True, columns="n")) == [{"n": 1}, {"n": 3}, {"n": 2}]
    assert json.loads(shown(as_json=True)) == ROWS


def test_a_name_may_be_a_regular_expression(leporid):
    assert shown(like="^A", regex=True) == "name\nA\nab\n"
    with pytest.raises(WrongUse, match="'\\(' is not a regular expression"):
        shown(like="(", regex=True)
    leporid("exchanges", "list", "--name", "^amq.[dt]", "--regex", "--quiet", "--vhost", "/")
    assert leporid.out.split() == ["amq.direct", "amq.topic"]


def test_a_column_that_nothing_has_is_told(leporid, capsys):
    assert shown(columns="n,nmae") == "n\tnmae\n1\t\n3\t\n2\t\n"
    said = "leporid: nothing here has the column 'nmae'; --json shows those that there are\n"
    assert capsys.readouterr().err == said
    shown(columns="n,stats.rate")
    assert not capsys.readouterr().err
    assert shown(sort="nmae") == shown()
    assert capsys.readouterr().err == said
    for option in ("--columns", "--sort"):
        leporid("exchanges", "list", option, "nmae")
        assert leporid.error == said
    leporid("exchanges", "list", "--columns", "name", "--sort", "type")
    assert not leporid.error
    assert set(leporid.out.splitlines()[0].split("\t")) == {"name"}
    leporid("exchanges", "list", "--columns", "name")
    assert not leporid.error


def test_conditions(leporid, capsys):
    assert shown(where=["n>1"]) == "name\nA\nab\n"
    assert shown(where=["n>1", "name!=A"]) == "name\nab\n"
    assert json.loads(shown(as_json=True, columns="name", where=["n=3"])) == [{"name": "A"}]
    shown(where=["m=1"])
    assert "nothing here has the column 'm'" in capsys.readouterr().err
    with pytest.raises(WrongUse, match="'n' is no condition"):
        shown(where=["n"])


def test_conditions_of_the_broker(leporid, name):
    own = name("conditions")
    for kind in ("topic", "fanout"):
        leporid("exchanges", "add", f"{own}.{kind}", "--type", kind)
    wanted = ("--name", own, "--where", "type=topic", "--where", "durable=true")
    assert leporid("exchanges", "list", *wanted, "--quiet").split() == [f"{own}.topic"]
    rows = leporid.rows("exchanges", "list", *wanted, "--columns", "name")
    assert rows == [{"name": f"{own}.topic"}]
    assert leporid("exchanges", "list", "--where", "type=tpic", "--quiet") == ""
    assert not leporid.error
    leporid("exchanges", "list", "--where", "typ=topic", "--quiet")
    assert "nothing here has the column 'typ'" in leporid.error
    leporid("exchanges", "list", "--where", "type", code=2)
    assert leporid.error.startswith("leporid: --where: 'type' is no condition")


def test_a_virtual_host_that_is_not_there(leporid, name):
    nowhere = name("v")
    leporid("queues", "list", "-p", nowhere, code=3)
    assert leporid.error == f"leporid: there is no virtual host '{nowhere}'\n"


def test_orders_and_columns_of_the_broker(leporid, name):
    for number in range(3):
        leporid("vhosts", "add", name(f"listed{number}"))
    rows = leporid.rows("vhosts", "list", "--name", "listed", "--sort", "name", "--reverse")
    names = [row["name"] for row in rows]
    assert names == sorted(names, reverse=True)
    for each in names:
        leporid("vhosts", "delete", each, "--yes")
