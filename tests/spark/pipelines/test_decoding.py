import pytest

from leporid.spark.pipelines.decoding import infer


def test_objects_make_a_schema():
    bodies = [b'{"id": 1, "name": "a", "ok": true}', b'{"id": 2, "price": 1.5}']
    assert infer(bodies) == "`id` bigint, `name` string, `ok` boolean, `price` double"


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        (b'{"x": 1}', b'{"x": 2.5}', "double"),
        (b'{"x": 1}', b'{"x": "one"}', "string"),
        (b'{"x": null}', b'{"x": 1}', "bigint"),
        (b'{"x": null}', b'{"x": null}', "string"),
        (b'{"x": [1]}', b'{"x": [2.5]}', "array<double>"),
        (b'{"x": []}', b'{"x": []}', "array<string>"),
        (b'{"x": {"a": 1}}', b'{"x": {"b": "t"}}', "struct<`a`: bigint, `b`: string>"),
        (b'{"x": {"a": 1}}', b'{"x": 7}', "string"),
        (b'{"x": {}}', b'{"x": {}}', "map<string, string>"),
        (b'{"x": 1}', b'{"x": 99999999999999999999}', "double"),
    ],
)
def test_a_field_gets_the_kind_that_fits_all(first, second, kind):
    assert infer([first, second]) == f"`x` {kind}"
    assert infer([second, first]) in {
        f"`x` {kind}",
        f"`x` {kind}".replace("a`: bigint, `b`: string", "b`: string, `a`: bigint"),
    }


def test_what_is_no_object_says_nothing():
    assert infer([b"", None, b"nope", b"[1]", b"7", b"\xff\xfe", b"{}"]) is None


def test_a_name_with_a_backquote_is_quoted():
    assert infer([b'{"a`b": 1}']) == "`a``b` bigint"


def test_what_is_certain_has_no_field_that_was_never_more_than_null():
    bodies = [b'{"a": null, "b": [], "c": {"d": null}, "e": [null, 1], "f": {"g": 1, "h": null}}']
    assert infer(bodies, certain=True) == "`e` array<bigint>, `f` struct<`g`: bigint>"
    assert infer([b'{"a": null}'], certain=True) is None
