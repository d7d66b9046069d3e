"""The pod resources client against the strict kubelet's pod resources API."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from deviceplugin.kubelet.podresources import Holding, PodResources
from deviceplugin.model.errors import KubeletError
from tests.fake_kubelet import FakeKubelet, Pod
from tests.flows.running import GPU, Plugin, offering, shares


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "pr" / "kubelet.sock"


@pytest.fixture
def kubelet(tmp_path: Path, socket: Path) -> Iterator[FakeKubelet]:
    with FakeKubelet(tmp_path / "dp", pod_resources=socket) as running:
        yield running


@pytest.fixture
def plugin(kubelet: FakeKubelet) -> Iterator[Plugin]:
    with Plugin(kubelet.folder, offering(gpu=shares(), small=shares(2, 10))) as running:
        kubelet.wait_for(GPU, streams=1)
        kubelet.wait_for("nvidia.com/small", streams=1)
        yield running


def test_devices_are_gathered_by_container_and_resource(kubelet: FakeKubelet, plugin: Plugin, socket: Path) -> None:
    kubelet.admit(Pod("train", "ml", containers={"main": {GPU: 2, "nvidia.com/small": 1}, "side": {}, "aid": {GPU: 1}}))
    kubelet.admit(Pod("idle", containers={"main": {}}))

    async def ask() -> tuple[Holding, ...]:
        async with PodResources(socket) as client:
            return await client.holdings()

    held = {(h.namespace, h.pod, h.container, h.resource): sorted(h.device_ids) for h in plugin.call(ask())}
    assert held == {
        ("ml", "train", "main", GPU): ["GPU-0", "GPU-1"],
        ("ml", "train", "main", "nvidia.com/small"): ["GPU-0::0"],
        ("ml", "train", "aid", GPU): ["GPU-2"],
    }


def test_a_kubelet_that_comes_back_is_asked_again_by_the_same_client(
    kubelet: FakeKubelet, plugin: Plugin, socket: Path
) -> None:
    kubelet.admit(Pod("train", containers={"main": {GPU: 1}}))

    async def ask() -> list[int]:
        counts = []
        async with PodResources(socket, timeout=2) as client:
            counts.append(len(await client.holdings()))
            await asyncio.to_thread(kubelet.stop)
            with pytest.raises(KubeletError, match=re.escape(f"{socket}: pod resources cannot be listed: UNAVAILABLE")):
                await client.holdings()
            await asyncio.to_thread(kubelet.start)
            counts.append(len(await client.holdings()))
        return counts

    assert plugin.call(ask()) == [1, 1]
