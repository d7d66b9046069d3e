from pathlib import Path

from tests.fake_kubelet import FakeKubelet, Pod
from tests.flows.running import GPU, Plugin, offering, shares, with_sick


def test_a_registered_plugin_lists_its_devices_and_admits_a_pod(tmp_path: Path) -> None:
    with FakeKubelet(tmp_path) as kubelet, Plugin(tmp_path, offering(gpu=shares())) as plugin:
        view = kubelet.wait_for(GPU, healthy=8, unhealthy=0, streams=1)
        assert view.devices["GPU-5"].numa == 1
        admitted = kubelet.admit(Pod("train", containers={"main": {GPU: 2}}))
        assert admitted["main"].envs == {"NVIDIA_VISIBLE_DEVICES": "GPU-0,GPU-1"}
        plugin.publish(with_sick(plugin.snapshot, "GPU-3"))
        kubelet.wait_for(GPU, healthy=7, unhealthy=1, streams=1)
        assert not kubelet.violations
