"""One entry goes into a client's file and every other character stays; which entry and file is not tested here."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.cli.json_edit import with_item, with_member
from bascule.cli.json_places import MAX_DEPTH, NotEditableError, places

ENTRY = {"command": "/opt/bascule", "args": ["bridge"]}
PATH = ("mcpServers", "bascule")


def test_an_empty_file_becomes_the_entry_alone():
    assert json.loads(with_member("", PATH, ENTRY)) == {"mcpServers": {"bascule": ENTRY}}
    assert json.loads(with_member(" \n", PATH, ENTRY)) == {"mcpServers": {"bascule": ENTRY}}


def test_a_file_of_comments_keeps_them_above_the_entry():
    assert with_member("// mine\n", ("a",), 1) == '// mine\n{\n  "a": 1\n}\n'


@pytest.mark.parametrize("source", ["{}", "{ }", "{\n}", "{\n\n}\n"])
def test_an_empty_object_gets_the_entry_on_its_own_lines(source):
    edited = with_member(source, ("a",), {"b": 1})
    assert edited.startswith('{\n  "a": {\n    "b": 1\n  }\n}')
    assert edited.endswith("\n") == source.endswith("\n")


def test_comments_stay_where_they_are_and_with_what_they_explain():
    source = """\
// OpenClaw on the workstation
{
  // do not touch
  "agents": { "defaults": { "workspace": "~/x" } }, /* home */
  "mcp": {
    "servers": {
      "files": { "command": "files" } // the old one
      // "disabled": { "command": "no" }
    } // servers end here
  }
}
"""
    assert with_member(source, ("mcp", "servers", "bascule"), {"command": "b"}) == source.replace(
        '"files": { "command": "files" } // the old one\n',
        '"files": { "command": "files" }, // the old one\n      "bascule": {\n        "command": "b"\n      }\n',
    )


def test_a_trailing_comma_is_kept_up_and_not_doubled():
    source = '{\n\t"servers": {\n\t\t"a": {}, // first\n\t},\n}\n'
    expected = '{\n\t"servers": {\n\t\t"a": {}, // first\n\t\t"b": 1,\n\t},\n}\n'
    assert with_member(source, ("servers", "b"), 1) == expected


def test_windows_line_ends_and_tabs_are_kept():
    source = '{\r\n\t"servers": {\r\n\t\t"a": {}\r\n\t}\r\n}\r\n'
    edited = with_member(source, ("servers", "b"), {"c": [1]})
    assert "\n" not in edited.replace("\r\n", "")
    assert '\r\n\t\t"b": {\r\n\t\t\t"c": [\r\n\t\t\t\t1\r\n\t\t\t]\r\n\t\t}\r\n\t}\r\n' in edited


def test_four_spaces_are_followed():
    assert with_member('{\n    "a": {}\n}', ("b",), {"c": 1}) == '{\n    "a": {},\n    "b": {\n        "c": 1\n    }\n}'


def test_a_file_on_one_line_stays_readable():
    assert json.loads(with_member('{"a":{"x":1},"z":[1,2]}', ("a", "y"), 2)) == {"a": {"x": 1, "y": 2}, "z": [1, 2]}


def test_json5_as_openclaw_writes_it_is_read_and_kept():
    source = "{\n  mcp: {\n    servers: {\n      'a': {command: 'x\\'y', n: +.5, h: 0xFF,},\n    },\n  },\n}\n"
    edited = with_member(source, ("mcp", "servers", "bascule"), {"command": "b"})
    addition = '\n      "bascule": {\n        "command": "b"\n      },'
    assert addition in edited
    assert edited.replace(addition, "") == source


def test_an_entry_of_the_same_name_is_replaced_in_place_and_nothing_else():
    source = '{\n  "mcpServers": {\n    "a": 1,\n    "bascule": {"command": "old"}, // ours\n    "z": 2\n  }\n}\n'
    edited = with_member(source, PATH, "new")
    assert edited == source.replace('{"command": "old"}', '"new"')


def test_writing_the_same_entry_again_changes_nothing():
    once = with_member('{ "other": [1.10, 1E2, 123456789012345678901234567890] }\n', PATH, ENTRY)
    assert with_member(once, PATH, ENTRY) == once
    assert "1.10, 1E2, 123456789012345678901234567890" in once


def test_a_comment_in_an_otherwise_empty_object_stays_above_the_entry():
    assert with_member("{\n  // nothing yet\n}\n", ("a",), 1) == '{\n  // nothing yet\n  "a": 1\n}\n'


def test_a_brace_or_comment_inside_a_string_is_text():
    source = '{"a": "}, // no /* comment", "b\\"": "{"}'
    assert json.loads(with_member(source, ("c",), 1)) == {"a": "}, // no /* comment", 'b"': "{", "c": 1}


def test_a_name_written_with_escapes_is_found_again():
    assert json.loads(with_member('{"\\u0061": {"x": 1}}', ("a", "x"), 2)) == {"a": {"x": 2}}


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ('{"mcpServers": []}', "mcpServers is there, but is no object"),
        ('{"mcpServers": null}', "mcpServers is there, but is no object"),
        ('{"mcpServers": "x"}', "mcpServers is there, but is no object"),
        ("[]", "the whole is there, but is no object"),
        ("3", "the whole is there, but is no object"),
        ('{"mcpServers": {}, "mcpServers": {}}', "stands in it twice"),
        ('{"a": 1', "line 1"),
        ('{"a": 1}\n}', "line 2"),
        ('{"a": 1}\n{"b": 2}', "line 2"),
        ('{"a": 1 "b": 2}', "line 1"),
        ('{"a": 1,, "b": 2}', "line 1"),
        ('{,"a": 1}', "line 1"),
        ('{\n"a" 1}', "line 2"),
        ('{"a": tru}', "line 1"),
        ('{"a": 01x}', "line 1"),
        ('{"a": "b\n"}', "line 1"),
        ('{"a": 1} /* open', "line 1"),
        ("<<<<<<< HEAD\n{}\n", "line 1"),
        ("[" * (MAX_DEPTH + 2), "nested deeper"),
        ("{" + '"a":{' * 50_000, "nested deeper"),
    ],
)
def test_what_is_not_clean_is_refused_with_the_reason_and_never_edited(source, words):
    with pytest.raises(NotEditableError, match=words):
        with_member(source, PATH, ENTRY)


INPUT = {"id": "token", "type": "promptString"}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", '{\n  "inputs": [\n    {\n      "id": "token",\n      "type": "promptString"\n    }\n  ]\n}\n'),
        (
            '{\n  "inputs": [\n    { "id": "x" } // theirs\n  ]\n}\n',
            '{\n  "inputs": [\n    { "id": "x" }, // theirs\n    {\n      "id": "token",\n      "type": "promptString"\n    }\n  ]\n}\n',
        ),
        (
            '{\n  "inputs": []\n}\n',
            '{\n  "inputs": [\n    {\n      "id": "token",\n      "type": "promptString"\n    }\n  ]\n}\n',
        ),
        ('{ "inputs": [{ id: \'token\', "mine": true }] }', '{ "inputs": [{ id: \'token\', "mine": true }] }'),
    ],
)
def test_an_item_is_added_to_a_list_once(source, expected):
    edited = with_item(source, "inputs", INPUT, key="id")
    assert edited == expected
    assert with_item(edited, "inputs", INPUT, key="id") == edited


def test_an_item_is_not_forced_into_what_is_no_list():
    with pytest.raises(NotEditableError, match="no list"):
        with_item('{"inputs": {}}', "inputs", INPUT, key="id")
    with pytest.raises(NotEditableError, match="no object"):
        with_item("[]", "inputs", INPUT, key="id")


documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=20,
)


@given(st.dictionaries(st.text(max_size=5), documents, max_size=4), st.sampled_from([None, 2, "\t"]), documents)
def test_any_json_gains_the_entry_and_keeps_every_value(document, indent, value):
    document.pop("servers", None)
    source = json.dumps(document, indent=indent)
    edited = with_member(source, ("servers", "b"), value)
    assert json.loads(edited) == document | {"servers": {"b": value}}
    again = with_member(edited, ("servers", "c"), value)
    assert json.loads(again) == document | {"servers": {"b": value, "c": value}}


@given(documents)
def test_every_json_text_is_read_to_its_end(value):
    text = json.dumps(value, ensure_ascii=False)
    read = places(text)
    assert read is not None
    assert (read.start, read.end) == (0, len(text))
