"""The status page in a real browser: every catalogue machine, light, dark and on a phone.

With PAGE_PICTURES=<folder> the pictures are kept there, to be looked at.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

import fake_nvml
from deviceplugin.config.document import Metrics
from deviceplugin.model.health import Health
from deviceplugin.web.exhibition import Exhibition
from deviceplugin.web.server import Server
from deviceplugin.web.site import Site
from deviceplugin.web.view import Finding, View
from tests.browser import Browser
from tests.web_views import NOW, view_of

pytestmark = [pytest.mark.needs("chromium", "chromedriver"), pytest.mark.timeout(120)]
PICTURES = os.environ.get("PAGE_PICTURES")
PHONE = 375


@contextmanager
def shown(view: View) -> Iterator[tuple[str, Exhibition]]:
    exhibition = Exhibition(clock=lambda: NOW)
    exhibition.update(view)
    server = Server(Metrics(address="127.0.0.1:0"), Site(exhibition, Finding, Finding))
    server.start()
    try:
        yield f"http://127.0.0.1:{server.port}/", exhibition
    finally:
        server.stop()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as one:
        yield one


@pytest.fixture(scope="module")
def phone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("phone"), width=PHONE, height=812, dark=True) as one:
        yield one


def keep(browser: Browser, name: str, folder: Path) -> None:
    picture = browser.screenshot((Path(PICTURES) if PICTURES else folder) / f"{name}.png")
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("machine", fake_nvml.names())
def test_every_machine_is_drawn(machine: str, browser: Browser, phone: Browser, tmp_path: Path) -> None:
    view = view_of(machine, sick=[1], replicas=4 if machine.startswith("l40s") else 1)
    with shown(view) as (url, _):
        for one, name in ((browser, machine), (phone, f"{machine}-phone")):
            one.visit(url)
            tiles = one.run("[...document.querySelectorAll('[data-gpu]')].map((tile) => Number(tile.dataset.gpu))")
            assert sorted(tiles) == [gpu.index for gpu in view.snapshot.node.gpus]
            assert one.complaints() == []
            assert one.run("document.documentElement.scrollWidth") <= one.run("innerWidth"), "it scrolls sideways"
            keep(one, name, tmp_path)


def test_tiles_say_health_load_and_holder(browser: Browser) -> None:
    with shown(view_of(sick=[3])) as (url, _):
        browser.visit(url)
        sound, sick = browser.text("[data-gpu='0']"), browser.text("[data-gpu='3']")
    assert "healthy" in sound
    assert "17 %" in sound
    assert "llama-70b-train-0" in sound
    assert "unhealthy" in sick
    assert "xid-79 since 7 min" in sick


def test_the_drawing_has_domains_numa_nodes_and_links(browser: Browser) -> None:
    with shown(view_of("dgx1-v100-8")) as (url, _):
        browser.visit(url)
        assert browser.run("document.querySelectorAll('.domain').length") == 1
        assert "NUMA 0" in browser.text(".node")
        assert "NUMA 1" in browser.text(".node")
        assert browser.run("document.querySelectorAll('.band path.link').length") == 16
    with shown(view_of("two-boards-16")) as (url, _):
        browser.visit(url)
        assert browser.run("document.querySelectorAll('.domain .band rect.switch').length") == 2


def test_a_transition_says_what_to_do(browser: Browser) -> None:
    with shown(view_of(sick=[3])) as (url, _):
        browser.visit(url)
        text = browser.text("[data-key='Health']")
    assert "GPU 3 unhealthy · xid-79" in text
    assert "The GPU has fallen off the bus: reboot the node" in text


def test_a_command_to_be_typed_looks_like_one(browser: Browser) -> None:
    view = view_of(sick=[3])
    (turn,) = view.books.transitions
    asked = replace(view.books, transitions=(replace(turn, reason="recovery-action"),))
    with shown(replace(view, books=asked)) as (url, _):
        browser.visit(url)
        assert browser.text("[data-key='Health'] .todo code") == "gpu-device-plugin release"


def test_it_says_why_a_gpu_is_not_offered(browser: Browser) -> None:
    with shown(view_of(exclude=[6])) as (url, _):
        browser.visit(url)
        assert "not offered" in browser.text("[data-gpu='6']")
        assert "devices.exclude" in browser.text("[data-key='Not offered']")


def test_details_open_and_stay_open_over_a_refresh(browser: Browser) -> None:
    with shown(view_of(sick=[3])) as (url, exhibition):
        browser.visit(url)
        browser.run("document.querySelector('[data-gpu=\"3\"]').click()")
        assert "Held by nobody" in browser.text("dialog")
        assert "00000000:" in browser.text("dialog")
        exhibition.update(view_of())
        browser.wait_for("document.querySelector('[data-gpu=\"3\"]').innerText.includes('healthy')")
        browser.wait_for("!document.querySelector('dialog').innerText.includes('xid-79')")
        assert browser.run("document.querySelector('dialog').open")
        assert browser.complaints() == []


def test_a_refresh_changes_only_what_differs(browser: Browser) -> None:
    with shown(view_of()) as (url, exhibition):
        browser.visit(url)
        browser.run("(window.kept = document.querySelector('[data-gpu=\"2\"]'), window.changes = 0, window.asked = 0)")
        browser.run("(window.ask = fetch, window.fetch = (...words) => ++window.asked && window.ask(...words))")
        browser.run(
            "new MutationObserver((seen) => { changes += seen.filter((one) => one.target.id !== 'age').length; })"
            ".observe(document.getElementById('page'), {subtree: true, childList: true})"
        )
        exhibition.update(view_of(sick=[3], held=4))
        browser.wait_for("document.querySelector('.tile.bad') !== null")
        assert browser.run("changes") > 0
        assert browser.run("kept === document.querySelector('[data-gpu=\"2\"]')"), "the tile is another element"
        settled, asked = browser.run("changes"), browser.run("asked")
        browser.wait_for(f"asked >= {asked + 2}")
        assert browser.run("changes") == settled


def test_a_lost_connection_is_said_and_found_again(browser: Browser) -> None:
    exhibition = Exhibition(clock=lambda: NOW)
    exhibition.update(view_of())
    site = Site(exhibition, Finding, Finding)
    server = Server(Metrics(address="127.0.0.1:0"), site)
    server.start()
    port = server.port
    browser.visit(f"http://127.0.0.1:{port}/")
    server.stop()
    browser.wait_for("document.getElementById('age').innerText.includes('connection lost')")
    again = Server(Metrics(address=f"127.0.0.1:{port}"), site)
    again.start()
    browser.wait_for("document.getElementById('age').innerText.includes('figures 3 s old')")
    again.stop()
    browser.complaints()


def test_notices_stand_at_the_top(browser: Browser) -> None:
    view = view_of()
    reasons = ("nvidia.com/gpu: registered, not yet streaming",)
    plugin = replace(view.plugin, ready=Finding(ok=False, reasons=reasons), config_refused="/c.yaml:3: no such key")
    with shown(replace(view, plugin=plugin)) as (url, _):
        browser.visit(url)
        text = browser.text(".notices")
        assert "not ready" in browser.text(".pill")
    assert reasons[0] in text
    assert "/c.yaml:3: no such key" in text


def test_unchecked_health_is_said(browser: Browser) -> None:
    view = view_of()
    with shown(replace(view, snapshot=replace(view.snapshot, health=Health(checked=False)))) as (url, _):
        browser.visit(url)
        assert "No source of health can be read" in browser.text(".notices")


def test_names_of_others_are_shown_as_text(browser: Browser) -> None:
    view = view_of("t4x1")
    with shown(replace(view, plugin=replace(view.plugin, hostname="<img src=x onerror=alert(1)>"))) as (url, _):
        browser.visit(url)
        assert browser.text("h1") == "<img src=x onerror=alert(1)>"
        assert browser.complaints() == []
