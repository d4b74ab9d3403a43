from typing import Any

import pytest

from leporid.filterserver.filter_class import (
    SOURCE_BYTES_MAX,
    VERSION_MAX,
    FilterClass,
    FilterClassError,
)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"name": ""}, "1 to 255 bytes"),
        ({"name": "ü" * 128}, "1 to 255 bytes"),
        ({"version": 0}, "from 1 to"),
        ({"version": VERSION_MAX + 1}, "from 1 to"),
        ({"class_name": "not a name"}, "'not a name' is no name of a class"),
        ({"source": b"#" * (SOURCE_BYTES_MAX + 1)}, "at most 1048576"),
    ],
)
def test_what_is_no_filter_class_says_why(wrong, said):
    right: dict[str, Any] = {"name": "big", "version": 1, "class_name": "Filter", "source": b"..."}
    FilterClass(**right)
    with pytest.raises(FilterClassError, match=said):
        FilterClass(**right | wrong)
