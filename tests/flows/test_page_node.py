"""The status page of a running plugin: what happens to the node is seen there without a reload."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import Browser
from tests.fake_kubelet import Pod
from tests.node import GPU, FakeNode
from tests.ports import free_port

pytestmark = [pytest.mark.needs("chromium", "chromedriver"), pytest.mark.timeout(120)]


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    folder = tmp_path / "browser"
    folder.mkdir()
    with Browser(folder) as one:
        yield one


def test_pods_and_an_xid_appear_without_a_reload(tmp_path: Path, browser: Browser) -> None:
    address = f"127.0.0.1:{free_port()}"
    with FakeNode(tmp_path, "hgx-h100-8", [f"--metrics-address={address}", "--metrics-interval=0.2s"]) as node:
        node.plugin.start()
        node.wait_healthy(8, timeout=30)
        node.plugin.wait_for_log("metrics and status page", timeout=30)
        browser.visit(f"http://{address}/")
        browser.wait_for("document.querySelector('.pill').innerText === 'ready'")
        assert browser.run("document.querySelectorAll('.tile.good').length") == 8
        node.kubelet.admit(Pod("train-0", namespace="research", containers={"main": {GPU: 4}}))
        browser.wait_for("document.querySelectorAll('.tile .pod').length === 4")
        node.control("xid", "3", "79")
        browser.wait_for("document.querySelector('[data-gpu=\"3\"]').innerText.includes('unhealthy')")
        assert "xid-79" in browser.text("[data-gpu='3']")
        assert "GPU 3 unhealthy · xid-79" in browser.text("[data-key='Health']")
        assert "reboot the node" in browser.text("[data-key='Health']")
        node.kubelet.delete("train-0", namespace="research")
        browser.wait_for("document.querySelectorAll('.tile .pod').length === 0")
        assert browser.complaints() == []
