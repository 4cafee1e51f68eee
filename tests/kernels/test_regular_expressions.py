"""Regular expressions: what RE2 says of them."""

import sys

import numpy as np
import pytest

from mdf_loop.errors import UnsupportedOp
from mdf_loop.ml.strings import compiled, regex_full_match

TEXTS = [
    "",
    "a",
    "aa",
    "aaa",
    "ab",
    "aB",
    "Ab",
    "abc",
    "abcd",
    "ac",
    "a b",
    "a.b",
    "a\nb",
    "A",
    "b",
    "x{,3}",
    "1",
    "é",
    "É",
    "k",
    "K",
    "\u212a",
    "straße",
    "STRASSE",
    "STRAẞE",
    "\n",
    "]",
    "-",
]

FOUND = {
    r"(a+)+b": ["ab"],
    r"(?U)a+?": ["a", "aa", "aaa"],
    r"\pL+": [
        "a",
        "aa",
        "aaa",
        "ab",
        "aB",
        "Ab",
        "abc",
        "abcd",
        "ac",
        "A",
        "b",
        "é",
        "É",
        "k",
        "K",
        "\u212a",
        "straße",
        "STRASSE",
        "STRAẞE",
    ],
    r"[\p{Lu}\d]": ["A", "1", "É", "K", "\u212a"],
    r"\P{^L}": ["a", "A", "b", "é", "É", "k", "K", "\u212a"],
    r"(?i)straße": ["straße", "STRAẞE"],
    r"(?i:k)": ["k", "K", "\u212a"],
    r"(?i)[^k]": ["a", "A", "b", "1", "é", "É", "\n", "]", "-"],
    r"a(?i)b": ["ab", "aB"],
    r"(?:(?i)a)b": ["ab", "Ab"],
    r"(?s-i:.)": ["a", "A", "b", "1", "é", "É", "k", "K", "\u212a", "\n", "]", "-"],
    r"(?m:a$)\nb": ["a\nb"],
    r"(?m)^a$\n^b$": ["a\nb"],
    r"a\b.\bb": ["a b", "a.b"],
    r"\Bé\B": ["é"],
    r"\Qa.b": ["a.b"],
    r"x{,3}": ["x{,3}"],
    r"(a|ab)(c|bcd)(d*)": ["abc", "abcd", "ac"],
    r"a{2}": ["aa"],
    r"a{2,}": ["aa", "aaa"],
    r"a{0}": [""],
    r"(?:a{2}){1,2}": ["aa"],
    r"(|a)+": ["", "a", "aa", "aaa"],
    r"()": [""],
    r"": [""],
    r"^*$+": [""],
    r"[]a]": ["a", "]"],
    r"[^]a]": ["A", "b", "1", "é", "É", "k", "K", "\u212a", "\n", "-"],
    r"[a-b-]": ["a", "b", "-"],
    r"[[:^alpha:]]": ["1", "é", "É", "\u212a", "\n", "]", "-"],
    r"\x41|\x{e9}|\61|\07": ["A", "1", "é"],
    r"(?<n>a)(?P<m>b)": ["ab"],
    r"(a*)*(a*)*": ["", "a", "aa", "aaa"],
}
"""What RE2 finds among these texts."""


@pytest.mark.parametrize("pattern", FOUND)
def test_what_matches(pattern):
    matches = regex_full_match(np.array(TEXTS, object), pattern=pattern)
    assert [text for text, found in zip(TEXTS, matches, strict=True) if found] == FOUND[pattern]


REFUSED = [
    "a**",
    "|*",
    "(",
    "a)",
    "[z-a]",
    "[[:foo:]]",
    r"\8",
    r"\y",
    "(?=a)",
    "(?<!a)",
    "(?>a)",
    r"(a)\1",
    r"a\Z",
    "a{1001}",
    "\ud800",
    b"a",
]


@pytest.mark.parametrize("pattern", REFUSED, ids=repr)
def test_what_is_refused(pattern):
    with pytest.raises(ValueError, match="is not a regular expression in RE2's syntax"):
        compiled(pattern)


def test_what_is_no_text_never_matches():
    assert regex_full_match(np.array([b"\xff", "\ud800", "a"], object), pattern=".*").tolist() == [False, False, True]


def test_a_missing_package_is_an_error_that_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "re2", None)
    compiled.cache_clear()
    with pytest.raises(UnsupportedOp, match=r"need google-re2: pip install .*\[text\]"):
        compiled("a")
