"""Models with sliders, in a browser and in a notebook, and reports."""

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from modeci_mdf import mdf
from typer.testing import CliRunner

import mdf_loop
from mdf_loop.cli.app import app
from mdf_loop.errors import ArgumentError, KindError, LoopError
from mdf_loop.pages.ranges import ranges_of

pytest.importorskip("matplotlib", reason="what is drawn is matplotlib's")
ROOT = Path(__file__).parents[2]
DECISION, NEURON, NEWTON = (
    ROOT / "examples" / name for name in ("drift_diffusion.yaml", "gallery/fitzhugh_nagumo.yaml", "newton.yaml")
)
OSCILLATOR, CHOICE = ROOT / "examples/oscillator.yaml", ROOT / "examples/gallery/leaky_competing_accumulator.yaml"
SQUARE = mdf.Graph(
    id="square",
    nodes=[
        mdf.Node(
            id="n",
            parameters=[mdf.Parameter(id="x", value=1.0)],
            output_ports=[mdf.OutputPort(id="square", value="x * x")],
        )
    ],
)
BAD = "<img src=x onerror=alert(1)>"


def with_names(tmp_path, bad):
    """A neuron with a text that means something to HTML, or to matplotlib, in its names and its comment."""
    text = NEURON.read_text().replace("fitzhugh_nagumo:", f"{json.dumps(bad)}:").replace("neuron:", f"{json.dumps(bad + '2')}:")
    text = text.replace("voltage: {value", f"{json.dumps(bad + '3')}: {{value").replace("# FitzHugh", f"# {bad}")
    (tmp_path / "bad.yaml").write_text(text)
    return tmp_path / "bad.yaml"


class TestRanges:
    """What moves."""

    def test_without_ranges_numbers_with_a_default_move_around_it(self):
        ranges, given = ranges_of(mdf_loop.prepare(DECISION), {"drift": 1.5})
        assert given == {"drift": 1.5}
        assert "drift" not in ranges
        assert "body" not in ranges
        bound, start, steps = ranges["bound"], ranges["start"], ranges["max_steps"]
        assert (bound.low, bound.high, bound.start, bound.is_whole) == (0.1, 2.0, 1.0, False)
        assert (start.low, start.high, start.start) == (-1.0, 1.0, 0.0)
        assert steps.is_whole
        assert steps.low == 0
        assert steps.high == 2 * steps.start

    def test_all_ranges_hold_where_they_begin(self):
        for path in sorted(ROOT.glob("examples/**/*.yaml")):
            try:
                ranges, _ = ranges_of(mdf_loop.prepare(path), {})
            except ArgumentError as error:
                assert "no number with a default" in str(error)  # noqa: PT017
                continue
            assert all(each.low <= each.start <= each.high and each.low < each.high and each.step > 0 for each in ranges.values())

    def test_ranges_that_are_given(self):
        model = mdf_loop.prepare(DECISION)
        ranges, _ = ranges_of(model, {"drift": (2, 4), "decision.bound": (0.5, 2)})
        assert (ranges["drift"].start, ranges["drift"].step) == (3.0, 0.02)  # the default, 1.0, is outside
        assert ranges["decision.bound"].start == 1.0
        whole = ranges_of(model, {"max_steps": (0, 1000)})[0]["max_steps"]
        assert whole.is_whole
        assert whole.step == 10

    @pytest.mark.parametrize(
        ("over", "kind", "match"),
        [
            ({"drft": (0, 1)}, ArgumentError, "did you mean 'drift'"),
            ({"drift": (2, 0)}, ArgumentError, r"from below to; got \(2, 0\)"),
            ({"drift": (1, 1)}, ArgumentError, "from below to"),
            ({"drift": (0, float("inf"))}, KindError, "two finite numbers"),
            ({"drift": (0, "1")}, KindError, "two finite numbers"),
            ({"drift": (0, 1, 2)}, KindError, r"must be \(from, to\)"),
        ],
    )
    def test_ranges_that_are_none(self, over, kind, match):
        with pytest.raises(kind, match=match):
            ranges_of(mdf_loop.prepare(DECISION), over)

    def test_a_model_in_which_nothing_can_move(self):
        model = """<ir_version: 10, opset_import: ["": 18]> g (float x) => (float y) { y = Add (x, x) }"""
        with pytest.raises(ArgumentError, match="no number with a default"):
            ranges_of(mdf_loop.prepare(onnx.parser.parse_model(model)), {})


class TestExplorer:
    """Sliders, without a browser."""

    @pytest.fixture(autouse=True)
    def _panel(self):
        pytest.importorskip("panel", reason='panel is not installed: pip install -e ".[explore]"')

    def test_the_picture_follows_a_slider(self):
        view = mdf_loop.prepare(DECISION).explore("reaction_time", drift=(0, 2), trials=50).view()
        before, values, start = view.picture.object, view.values.object, view.sliders["drift"].value
        assert before.startswith(b"\x89PNG")
        view.sliders["drift"].value = 2.0
        assert view.picture.object != before
        assert view.values.object != values
        view.sliders["drift"].value = start  # the same noise: the same picture
        assert view.picture.object == before

    def test_what_a_slider_gives_is_a_run(self):
        explorer = mdf_loop.explore(DECISION, drift=(0, 2), bound=0.5, trials=5, seed=3)
        expected = mdf_loop.run(DECISION, drift=1.25, bound=0.5, trials=5, seed=3)
        assert (explorer.results({"drift": 1.25})["reaction_time"] == expected["reaction_time"]).all()

    def test_a_run_that_fails_says_so_where_the_picture_was(self):
        view = mdf_loop.explore(DECISION, dt=(0.0, 0.01), max_steps=10**9).view()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("mdf_loop.pages.explorer.PATIENCE", 0.05)
            view.sliders["dt"].value = 0.0  # no step leads to the bound
        assert view.picture.object is None
        assert "LoopTimeout" in view.values.object
        view.sliders["dt"].value = 0.01
        assert view.picture.object is not None

    def test_single_numbers_are_a_table_without_a_picture(self):
        view = mdf_loop.explore(SQUARE, x=(0.0, 9.0)).view()
        assert view.picture.object is None
        view.sliders["x"].value = 1.5
        assert "<code>2.25</code>" in view.values.object

    @pytest.mark.parametrize("how", [{}, {"time_increment": 0.1}], ids=str)
    def test_all_steps_of_a_scheduled_model_are_drawn(self, how):
        explorer = mdf_loop.explore(OSCILLATOR, "level", damping=(0.1, 1), steps=50, **how)
        expected = mdf_loop.run(OSCILLATOR, damping=0.3, steps=50, collect=True, **how)
        assert (explorer.results({"damping": 0.3})["level"] == expected["level"]).all()
        assert expected["level"].shape == (50,)
        recorded = mdf_loop.explore(OSCILLATOR, damping=(0.1, 1), steps=50, record="spring.position", **how)
        assert np.shape(recorded.results({"damping": 0.3})["level"]) == ()

    def test_options_of_the_caller_hold_for_runs_that_a_server_starts(self):
        with mdf_loop.options(engine="numpy"):
            explorer = mdf_loop.explore(DECISION, drift=(0, 2))
        assert explorer.results({"drift": 1.0}).about.options["engine"] == "numpy"

    def test_a_mistake_is_an_error_at_once(self):
        with pytest.raises(ArgumentError, match="no input called"):
            mdf_loop.explore(DECISION, drfit=(0, 1))
        with pytest.raises(ArgumentError, match="nothing to plot called"):
            mdf_loop.explore(DECISION, "reaction", drift=(0, 1))

    def test_a_notebook_shows_sliders(self, tmp_path):
        nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
        pytest.importorskip("ipykernel")
        cell = f"import mdf_loop\nmdf_loop.prepare({str(DECISION)!r}).explore(drift=(0, 2), bound=(0.5, 2))"
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
        client = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
        client.execute(env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])})
        shown = [output.data for output in notebook.cells[0].outputs if "data" in output]
        assert any("application/vnd.holoviews_exec.v0+json" in data and "drift" in data["text/html"] for data in shown)


def test_without_panel_an_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "panel", None)
    with pytest.raises(LoopError, match=r"pip install.*\[explore\]"):
        mdf_loop.explore(DECISION, drift=(0, 2))


@pytest.fixture(scope="module")
def browser():
    """Chromium, as playwright drives it: the one of the system."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.skip("there is no chromium or chrome here")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        playwright.expect.set_options(timeout=300_000)
        yield found
        found.close()


@pytest.fixture
def served():
    """Start ``mdf-loop explore`` and give its address."""
    pytest.importorskip("panel", reason='panel is not installed: pip install -e ".[explore]"')
    started = []

    def serve(*arguments):
        command = [sys.executable, "-m", "mdf_loop", "explore", *map(str, arguments), "--no-browser", "--json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        started.append(process)
        return json.loads(process.stdout.readline())["address"]

    yield serve
    for process in started:
        process.send_signal(signal.SIGINT)
        assert process.wait(300) == 0
        process.stdout.close()


def opened(browser, address):
    """A page, what it asked for elsewhere, and the dialogs that it opened."""
    page, elsewhere, dialogs = browser.new_page(), [], []
    page.on("request", lambda request: elsewhere.append(request.url) if "//localhost" not in request.url else None)
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.goto(address)
    page.wait_for_selector("img[src^='data:image/png'], img[src^='blob:']")
    return page, [url for url in elsewhere if not url.startswith(("data:", "blob:"))], dialogs


def pictures(page):
    return page.eval_on_selector_all("img", "found => found.map(image => image.src)")


def test_a_browser_shows_another_picture_when_a_slider_moves(browser, served):
    from playwright.sync_api import expect

    page, elsewhere, _ = opened(
        browser, served(DECISION, "reaction_time", "--over", "drift=0:2", "--over", "bound=0.5:2", "--trials", 50)
    )
    before = pictures(page)
    assert page.locator(".noUi-handle").count() == 2
    page.locator(".noUi-handle").first.focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    expect(page.locator("img")).not_to_have_attribute("src", before[0], timeout=300_000)
    assert not elsewhere


def luminance(page, locator):
    """How bright the ink of an element and the ground of the page are, from 0 to 1."""
    ink = locator.evaluate("element => getComputedStyle(element).color")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return [sum(map(int, re.findall(r"\d+", colour)[:3])) / 765 for colour in (ink, ground)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_light_or_dark_as_its_reader_likes_it(browser, served, scheme):
    address = served(OSCILLATOR, "level", "--steps", 50, "--time-increment", 0.1)
    page = browser.new_page(color_scheme=scheme, viewport={"width": 420, "height": 900})
    page.goto(address)
    page.wait_for_selector("img")
    for text in ("results of oscillator", "damping"):
        ink, ground = luminance(page, page.get_by_text(text).first)
        assert ground - ink > 0.6 if scheme == "light" else ink - ground > 0.6
    assert page.evaluate("document.documentElement.scrollWidth") <= 420


def test_the_page_is_for_this_computer_alone(served):
    import socket

    address = served(NEWTON, "--over", "a=1:9")
    port = int(address.rpartition(":")[2])
    own = {found[4][0] for found in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1", "127.0.1.1"}
    for host in own:
        with socket.socket() as client:
            assert client.connect_ex((host, port)) != 0
    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", port)) == 0


def test_names_of_a_model_are_texts_on_the_page(browser, served, tmp_path):
    path = with_names(tmp_path, BAD)
    page, _, dialogs = opened(browser, served(path))
    assert not dialogs
    assert page.locator("img[src='x']").count() == 0


def test_nothing_is_wider_than_a_narrow_notebook(browser):
    from mdf_loop.system.html import error_box

    model = mdf_loop.prepare(DECISION)
    drawing = mdf_loop.draw(NEURON)._repr_mimebundle_()["text/html"]
    body = mdf_loop.compile("x: x * 0.5 + " + "a_long_name_of_a_value" * 4)._repr_html_()
    shown = [model._repr_html_(), model(trials=5)._repr_html_(), drawing, body, error_box("LoopError", "word" * 99)]
    page = browser.new_page(viewport={"width": 360, "height": 900})
    page.set_content("".join(f"<div class=output>{each}</div>" for each in shown))
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator("img").evaluate("image => image.getBoundingClientRect().width") > 250


@pytest.mark.parametrize("width", [420, 1280])
def test_a_report_fits_its_window_and_its_drawing_can_be_read(typed, tmp_path, browser, width):
    typed("report", DECISION, "--trials", 20, "--seed", 1, "--over", "drift=0:2:3", "-o", "r.html")
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto((tmp_path / "r.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("img").first.evaluate("image => image.getBoundingClientRect().width") >= 500
    wide = "[...document.querySelectorAll('table')].filter(t => t.getBoundingClientRect().right > innerWidth).length"
    assert page.evaluate(wide) == 0


# Reports and pictures


@pytest.fixture
def typed(tmp_path, monkeypatch):
    """Type a command in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def type_(*arguments):
        done = CliRunner().invoke(app, list(map(str, arguments)))
        if isinstance(done.exception, LoopError):
            raise done.exception
        assert done.exit_code == 0, done.output
        return done.output

    return type_


def test_a_report_has_the_model_a_run_and_a_sweep(typed, tmp_path):
    typed("report", DECISION, "--trials", 20, "--seed", 1, "--over", "drift=0:2:3", "-o", "r.html")
    text = (tmp_path / "r.html").read_text()
    assert [*re.findall("<h2>(.*?)</h2>", text)] == ["Model", "Run", "Sweep"]
    images = re.findall(r'src="data:image/([a-z+]+);base64,([^"]*)"', text)
    assert [kind for kind, _ in images] == ["svg+xml", "png", "png"]
    assert base64.b64decode(images[1][1]).startswith(b"\x89PNG")
    assert "# One trial of a drift-diffusion model" in text
    assert "reaction_time" in text
    assert "drift 3, trial 20" in text
    assert not re.search(r"""(src|href)=["'](?!data:)""", text)
    assert "<script" not in text


def test_a_report_takes_names_and_texts_of_a_model_for_texts(typed, tmp_path, browser):
    typed("report", with_names(tmp_path, BAD), "-o", "r.html")
    text = (tmp_path / "r.html").read_text()
    assert BAD not in text
    assert BAD.replace("<", "&lt;").replace(">", "&gt;") in text
    page, dialogs = browser.new_page(), []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.goto((tmp_path / "r.html").as_uri())
    assert not dialogs
    widths = page.eval_on_selector_all("img", "found => found.map(image => image.naturalWidth)")
    assert len(widths) == 2
    assert min(widths) > 100


def test_a_report_of_a_scheduled_model_draws_all_steps_and_is_no_wider_than_a_telephone(typed, tmp_path, browser):
    typed("report", OSCILLATOR, "--steps", 50, "--time-increment", 0.1, "--over", "damping=0.1:1:3", "-o", "s.html")
    assert "float64[50]" in (tmp_path / "s.html").read_text()
    typed("report", CHOICE, "-o", "c.html")
    page = browser.new_page(viewport={"width": 400, "height": 900})
    for name in ("s.html", "c.html"):
        page.goto((tmp_path / name).as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_a_report_says_how_many_runs_failed(typed, tmp_path):
    typed("report", DECISION, "--over", "bound=[[1, 2], [3, 4]]", "-o", "r.html")
    assert "2 of 2 runs failed; the first: " in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_a_run_and_kept_results_are_drawn(typed, tmp_path, kind):
    typed("run", NEURON, "--plot", f"run.{kind}", "-o", "run.nc")
    typed("plot", "run.nc", "-o", f"kept.{kind}")
    typed("plot", "run.nc", "voltage", "-o", f"one.{kind}")
    run, kept, one = ((tmp_path / f"{name}.{kind}").read_bytes() for name in ("run", "kept", "one"))
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[kind]
    assert all(each.startswith(start) for each in (run, kept, one))
    assert one != kept
    if kind != "pdf":  # which says when it was made
        assert run == kept


def test_a_sweep_is_drawn_from_its_file(typed, tmp_path):
    pytest.importorskip("xarray")
    typed("sweep", DECISION, "--over", "drift=0:2:3", "--trials", 5, "--seed", 1, "--quiet", "-o", "s.nc")
    typed("plot", "s.nc", "reaction_time", "-o", "s.png")
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")


def test_pictures_of_other_kinds_are_refused_before_anything_runs(typed):
    with pytest.raises(LoopError, match=r"\.png, \.svg, \.pdf file; got 'a.gif'"):
        typed("run", "nothing.yaml", "--plot", "a.gif")
    with pytest.raises(LoopError, match=r"\.html file"):
        typed("report", "nothing.yaml", "-o", "a.pdf")
    with pytest.raises(LoopError, match="NAME=FROM:TO"):
        typed("explore", DECISION, "--over", "drift=1", "--no-browser")


def test_names_with_dollars_are_no_formulas(typed, tmp_path):
    typed("run", with_names(tmp_path, r"$\frac{$"), "--plot", "a.png")
    typed("draw", tmp_path / "bad.yaml", "-o", "b.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
