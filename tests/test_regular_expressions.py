"""Regular expressions: what RE2 says of them, and never more time than pattern and text allow."""

import random

import numpy as np
import pytest

from mdf_loop.kernels import matching
from mdf_loop.kernels.regular_expressions import compiled
from mdf_loop.kernels.strings import regex_full_match

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
    *("a**", "a*?*", "a{2}{3}", "|*", "*", "(*)", "+a", "{2}", "(?i)*", "a{1001}", "a{2,1}", "(a{100}){100}", "(((a{50}){20}){2}"),  # noqa: E501
    *("(", ")", "a)", "(a", "[", "[a", "[]", "[z-a]", r"[a-\d]", "[[:foo:]]", r"[\b]", r"[\Q]", r"\8", r"\18", r"\é", "a\\", r"\y"),  # noqa: E501
    *("(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "(?>a)", "(?#a)", "(?-)", "(?i-)", "(?x)", "(?P=n)", "(?P<>a)", r"\x{110000}", r"\x4", r"\p{"),  # noqa: E501
    "(" * 101 + ")" * 101,
    "((a|b|c){10}){100}" * 50,
]  # fmt: skip


@pytest.mark.parametrize("pattern", REFUSED, ids=lambda pattern: pattern[:20])
def test_what_is_refused(pattern):
    with pytest.raises(ValueError, match="regular expression"):
        compiled(pattern)


SLOW = {
    "(a+)+b": "a" * 20_000,
    "(a|a)*b": "a" * 20_000,
    "(a*)*b": "a" * 20_000,
    "(.*)*(.*)*(.*)*x": "a" * 5_000,
    "(?:a?){200}a{200}": "a" * 200,
    "(" * 100 + "a" + ")*" * 100: "a" * 2_000,
    "(.{0,200}x){2}y": "ax" * 500,
    "(?i)(é|É)+x": "éÉ" * 5_000,
}


@pytest.mark.parametrize("pattern", SLOW, ids=lambda pattern: pattern[:20])
def test_no_pattern_takes_exponential_time(pattern, monkeypatch):
    """Followed are at most all places of a pattern, once for each character."""
    steps = []
    real = matching.Matcher._step
    monkeypatch.setattr(matching.Matcher, "_step", lambda self, *args: steps.append(1) or real(self, *args))
    compiled.cache_clear()
    text = SLOW[pattern]
    assert compiled(pattern).fullmatch(text) == (pattern == "(?:a?){200}a{200}" or pattern.startswith("(((("))
    assert len(steps) <= len(text)


def test_what_is_kept_of_a_pattern_is_bounded(monkeypatch):
    monkeypatch.setattr(matching, "MOST_KEPT", 1_000)
    compiled.cache_clear()
    matcher = compiled("(.*a.{12})*b?")
    letters = random.Random(0)
    text = "".join(letters.choice("ab") for _ in range(3_000))
    matcher.fullmatch(text)
    kept = sum(len(steps) for steps, _ in matcher._kept) + sum(len(places.then) for places in matcher._kept.values())
    assert 0 < kept < 1_100


def test_what_is_no_text_never_matches():
    assert regex_full_match(np.array([b"\xff", "a"], object), pattern=".*").tolist() == [False, True]


PIECES = [
    *("a", "b", "k", "K", "1", "_", " ", "\n", "é", "ſ", "ß", ".", "*", "+", "?", "|", "(", ")", "(?:", "(?i)", "(?i:", "(?m)", "(?U)"),  # noqa: E501
    *("^", "$", r"\b", r"\B", r"\A", r"\z", "{2}", "{1,3}", "{,2}", "{2,}", "[", "]", "[^", "-", "[:alpha:]", r"\d", r"\W", r"\pL", r"\P{Lu}"),  # noqa: E501
    *(r"\Q", r"\E", r"\x41", r"\101", r"\n", r"\.", "\\", "{", "}", "a-z", "(?P<n>", "(?", r"\x{3c3}", "ς"),
]  # fmt: skip


def test_google_says_the_same():
    re2 = pytest.importorskip("re2")
    options = re2.Options()
    options.log_errors = False
    letters = random.Random(7)
    characters = "abkK\u212asſS1_ \néÉßẞσςΣ-]\t\v\0{},"
    for _ in range(5_000):
        pattern = "".join(letters.choices(PIECES, k=letters.randrange(1, 8)))
        texts = ["".join(letters.choices(characters, k=letters.randrange(5))) for _ in range(10)]
        try:
            wanted = [re2.compile(pattern, options).fullmatch(text) is not None for text in texts]
        except re2.error:
            wanted = None
        try:
            found = [compiled(pattern).fullmatch(text) for text in texts]
        except ValueError:
            found = None
        assert found == wanted, (pattern, texts)
