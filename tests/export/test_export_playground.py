"""The playground in a browser: it classifies strokes, images and audio, and WebAssembly equals C."""

from __future__ import annotations

import base64
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from export.harness import build, compiler, run
from reference.packed_graph import GRAPH, every_op
from reference.runtime_graphs import Builder
from reference.runtime_interpreter import interpret
from report.chromium import Chromium
from zerocross.cli.app import run as command
from zerocross.export.c.model import CModel
from zerocross.export.web.playground import page
from zerocross.runtime.format import write
from zerocross.runtime.graph import Graph
from zerocross.runtime.infer import check
from zerocross.runtime.preprocess import Audio, Preprocessing, log_mel

COMMITTED = Path(__file__).parents[2] / "docs" / "playground.html"
STROKES = {  # on a field of 280 x 280
    "7": [[(80, 70), (110, 68), (140, 68), (170, 67), (200, 66), (185, 100), (170, 130), (155, 165), (145, 200)]],
    "1": [[(140, 50), (140, 90), (139, 130), (138, 170), (138, 210), (138, 235)]],
    "0": [[(140, 60), (105, 80), (90, 120), (90, 165), (108, 205), (140, 222), (175, 205), (192, 165), (192, 120),
           (175, 80), (142, 60)]],
    "4": [[(100, 60), (92, 95), (84, 130), (120, 133), (160, 132), (200, 130)],
          [(168, 60), (166, 105), (164, 150), (162, 195), (161, 230)]],
}  # fmt: skip


def text(browser: Chromium, name: str) -> str:
    return browser.run(f"document.getElementById('{name}').textContent")


def draw(browser: Chromium, strokes: list[list[tuple[int, int]]]) -> None:
    """Draw with the mouse, as a user does."""
    browser.run("document.getElementById('clear').click()")
    shape = "(({left, top, width}) => [left, top, width])(document.getElementById('draw').getBoundingClientRect())"
    left, top, width = browser.run(shape)
    for stroke in strokes:
        points = [(left + x * width / 280, top + y * width / 280) for x, y in stroke]
        events = [("mousePressed", points[0]), *(("mouseMoved", point) for point in points[1:])]
        for kind, (x, y) in (*events, ("mouseReleased", points[-1])):
            browser.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)
    browser.settle()


def drop_file(browser: Chromium, name: str, data: bytes) -> None:
    """Classify a file as if it had been dropped on the page."""
    browser.run(f"classifyFile(new File([decoded('{base64.b64encode(data).decode()}')], '{name}'))")
    browser.settle()


def show(browser: Chromium, path: Path) -> None:
    browser.look(1400, "light")
    browser.open(path)
    browser.run("ready.then(() => 1)")


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_strokes_become_digits(browser: Chromium, width: int, scheme: str, tmp_path: Path):
    show(browser, COMMITTED)
    browser.look(width, scheme)
    for digit, strokes in STROKES.items():
        draw(browser, strokes)
        assert text(browser, "answer") == digit
    assert "ms per prediction" in text(browser, "fact-time")
    assert "KB" in text(browser, "fact-size")
    assert "% are +1" in text(browser, "about")
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.errors_and_warnings() == []
    assert browser.requests() == []
    browser.picture(tmp_path / "page.png")
    shown = np.asarray(Image.open(tmp_path / "page.png").convert("L"), float)
    assert (shown.mean() > 128) == (scheme == "light")
    assert len(np.unique(shown)) > 20


def test_every_layer_of_every_network_can_be_shown(browser: Chromium):
    show(browser, COMMITTED)
    kinds = browser.run("networks.map((network) => network.kind)")
    assert kinds == ["digit", "photo", "voice"]
    for kind in kinds:
        browser.run(f"select(networks.find((network) => network.kind === '{kind}'))")
        browser.run(
            "classify(new Uint8Array(active.network.input_size.reduce((a, b) => a * b)).map((_, i) => i % 251))"
        )
        layers = browser.run("[...document.getElementById('layer').options].map((option) => option.value)")
        assert len(layers) >= 3
        for layer in layers:
            browser.run(f"(() => {{ const layer = document.getElementById('layer'); layer.value = '{layer}';"
                        "layer.dispatchEvent(new Event('change')); })()")  # fmt: skip
            assert "% are +1" in text(browser, "about")
    assert browser.errors_and_warnings() == []


def image_bytes(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def test_images_can_be_dropped(browser: Chromium):
    show(browser, COMMITTED)
    paper = np.full((90, 120, 3), 250, np.uint8)  # a "1" in dark ink on white paper
    paper[20:72, 57:63] = 20
    drop_file(browser, "one.png", image_bytes(paper))
    assert text(browser, "answer") == "1"
    browser.run("select(networks.find((network) => network.kind === 'photo'))")
    drop_file(browser, "noise.png", image_bytes(np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)))
    assert text(browser, "answer") in browser.run("active.network.classes")
    drop_file(browser, "broken.png", b"no picture")
    assert "broken.png cannot be read as an image" in text(browser, "message")
    assert browser.errors_and_warnings() == []


def hold(browser: Chromium, kind: str) -> None:
    """Press or release the mouse on the button that records."""
    shape = "(({left, top}) => [left + 9, top + 9])(document.getElementById('record').getBoundingClientRect())"
    x, y = browser.run(shape)
    browser.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)


def test_a_clip_is_recorded_while_the_button_is_held(browser: Chromium):
    """A generated stream replaces the microphone; without a microphone, the page shows a message."""
    show(browser, COMMITTED)
    browser.run("select(networks.find((network) => network.kind === 'voice'))")
    browser.run(
        "navigator.mediaDevices.getUserMedia = async () => { const sound = new AudioContext();"
        "const tone = sound.createOscillator(), to = sound.createMediaStreamDestination();"
        "tone.connect(to); tone.start(); return to.stream; }"
    )
    wait = "new Promise((done) => setTimeout(done, {}))"
    hold(browser, "mousePressed")
    browser.run(wait.format(700))
    assert browser.run("document.getElementById('record').classList.contains('on')")
    hold(browser, "mouseReleased")
    for _ in range(100):
        if text(browser, "share") or text(browser, "message"):
            break
        browser.run(wait.format(100))
    assert text(browser, "message") == ""
    assert text(browser, "answer") in [str(digit) for digit in range(10)]
    browser.run("navigator.mediaDevices.getUserMedia = async () => { throw new Error('not allowed') }")
    hold(browser, "mousePressed")
    browser.run(wait.format(100))
    assert "No microphone: not allowed" in text(browser, "message")


AUDIO = Audio(8000, 8000)


def voice_graph() -> Graph:
    b = Builder(1, 40, 32, seed=5)
    flat = b.add("flatten", "x", channels=1280)
    x = b.threshold(b.linear(b.sign(b.linear(flat, 1280, 24, binary=False)), 24, 20))
    graph = b.graph(b.affine(b.linear(x, 20, 3)))
    preprocessing = Preprocessing("logmel", (0.3,), (0.3,), audio=AUDIO)
    return check(replace(graph, preprocessing=preprocessing, classes=("<b>", "two", "three")))


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a page with two networks built for the test."""
    for program in ("clang", "wasm-ld"):
        compiler(program)
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(page([GRAPH, voice_graph()]), encoding="utf-8")
    return path


@pytest.mark.parametrize("build_", ["simd", "plain"])
def test_webassembly_is_bit_identical_to_c(build_: str, own: Path, browser: Chromium, tmp_path: Path):
    show(browser, own)
    graph = check(GRAPH)
    assert graph.preprocessing is not None
    codes = np.random.default_rng(1).integers(0, 256, (4, *graph.input_size), np.uint8)
    if build_ == "plain":
        browser.run("(async () => { const network = networks[0]; network.simd = network.plain; delete network.run;"
                    "await select(network); })()")  # fmt: skip
    result = [browser.run(f"active.run.predict(new Uint8Array({each.ravel().tolist()}))") for each in codes]
    model, x = CModel(graph), graph.preprocessing.normalised(codes)
    native = run(build([model], 4, tmp_path, (compiler("gcc"), "-O3")), [model], [x])[0]
    np.testing.assert_array_equal(np.array(result, np.float32), native)
    values = interpret(graph, x[-1:])
    stored = json.loads(browser.run("JSON.stringify([...active.run.wanted.values()])"))
    assert len(stored) >= 3
    for each in stored:
        data: Any = browser.run(f"Array.from(active.run.bits.get({each['step']}))")
        channels, height, width = each["size"]
        rows = np.array(data, np.uint8).reshape(height, width, -1)
        bits = np.unpackbits(rows, axis=2, bitorder="little")[:, :, :channels]
        expected = values[each["value"]].reshape(channels, height, width).transpose(1, 2, 0) > 0
        np.testing.assert_array_equal(bits, expected)


def test_audio_becomes_the_codes_of_training(own: Path, browser: Chromium):
    show(browser, own)
    browser.run("select(networks[1])")
    assert browser.run("document.querySelector('#classes li span').innerHTML") == "&lt;b&gt;"
    rng = np.random.default_rng(2)
    for clip in (
        (8000 * np.sin(np.arange(8000) / 5) * rng.random(8000)).astype(np.int16),
        np.r_[np.zeros(3000), rng.integers(-32768, 32767, 5000)].astype(np.int16),
        np.zeros(8000, np.int16),
    ):
        codes = browser.run(
            f"Array.from(logMel(new Int16Array({clip.tolist()}), active.network.preprocessing.audio))"
        )  # fmt: skip
        result, expected = np.array(codes).reshape(40, 32), log_mel(clip, AUDIO)
        assert np.abs(result - expected.astype(int)).max() <= 1  # rounding may differ by one code
        assert (result == expected).mean() > 0.99


def test_the_page_needs_class_names_and_preprocessing():
    with pytest.raises(ValueError, match="class names and preprocessing"):
        page([replace(every_op(), classes=())])
    with pytest.raises(ValueError, match="each of a different kind"):
        page([every_op(), every_op()])
    with pytest.raises(ValueError, match="not installed"):
        page([every_op()], clang="no-such-clang")


def test_the_command_writes_a_page_and_does_not_replace_an_existing_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    for program in ("clang", "wasm-ld"):
        compiler(program)
    write(tmp_path / "every.zcb", every_op())
    words = ["playground", str(tmp_path / "every.zcb"), "-o", str(tmp_path / "page.html")]
    assert command(words) == 0
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    assert command(words) == 2
    assert "--force" in capsys.readouterr().err
