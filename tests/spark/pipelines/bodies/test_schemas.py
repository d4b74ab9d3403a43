import pytest

from leporid.spark.errors import OptionError
from leporid.spark.pipelines.bodies.schemas import (
    AVRO,
    JSON,
    MissingSchemaError,
    SchemasError,
    open_schemas,
)


def test_a_file_is_the_schema_of_all_messages(tmp_path):
    (tmp_path / "orders.avsc").write_text("{}")
    found = open_schemas(str(tmp_path / "orders.avsc"))
    assert found.latest("whatever") == found.named("orders") == found.named("orders.avsc")
    assert (found.latest("").kind, found.latest("").name) == (AVRO, "orders.avsc")
    with pytest.raises(MissingSchemaError, match=r"there is no schema 'other', only .*orders.avsc"):
        found.named("other")


def test_a_folder_has_schemas_by_their_stems_and_sees_a_change(tmp_path):
    (tmp_path / "a.avsc").write_text("{}")
    (tmp_path / "b.v2.json").write_text("{}")
    found = open_schemas(str(tmp_path))
    assert (found.named("a").kind, found.latest("b.v2").kind) == (AVRO, JSON)
    with pytest.raises(OptionError, match=r"no schema 'b.v3' in .*; did you mean \"b.v2\""):
        found.latest("b.v3")
    (tmp_path / "a.avsc").write_text("[1]")
    assert found.named("a").content == b"[1]"


@pytest.mark.parametrize("name", ["../a", "/etc/passwd", "", "a/b", "a\0", ".hidden", "x" * 300])
def test_a_name_of_a_message_leads_nowhere_else(tmp_path, name):
    (tmp_path / "a.avsc").write_text("{}")
    (tmp_path / "in").mkdir()
    with pytest.raises(MissingSchemaError, match="no name of a schema"):
        open_schemas(str(tmp_path / "in")).named(name)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.proto", "", "protoc --include_imports --descriptor_set_out=a.desc a.proto"),
        ("a.txt", "", "is no schema; its name ends in .avsc"),
        ("a.avsc", "{", "is not JSON"),
        ("a.json", "[" * 100_000, "is not JSON"),
        ("a.json", "0" * (4 * 1024 * 1024 + 1), "larger than a schema may be"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path, name, content, told):
    (tmp_path / name).write_text(content)
    with pytest.raises(OptionError, match=told):
        open_schemas(str(tmp_path / name)).latest("")


def test_a_place_that_is_away_is_no_fault_of_messages(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.avsc").write_text("{}")
    for place in (tmp_path / "in", tmp_path / "in" / "a.avsc"):
        found = open_schemas(str(place))
        assert found.named("a").kind == AVRO
        (tmp_path / "in").rename(tmp_path / "away")
        with pytest.raises(SchemasError, match="is not there any more"):
            found.named("a")
        (tmp_path / "away").rename(tmp_path / "in")
    (tmp_path / "in" / "a.avsc").unlink()
    with pytest.raises(SchemasError, match="cannot be read"):
        found.latest("a")


def test_a_url_that_is_none_is_not_repeated():
    with pytest.raises(OptionError, match="begins with http") as refused:
        open_schemas("HTTP://me:secret@host")
    assert "secret" not in str(refused.value)


def test_a_place_has_to_be_there(tmp_path):
    with pytest.raises(OptionError, match="there is no such file or folder"):
        open_schemas(str(tmp_path / "none"))
