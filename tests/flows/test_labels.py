"""Node labels of a running plugin, in the feature file that node-feature-discovery reads."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deviceplugin.files.labels import parse
from deviceplugin.files.watch import identity
from tests.fake_api import FakeApi
from tests.node import ROOT, FakeNode
from tests.waiting import NotYet, wait_until

TIMESTAMP = "nvidia.com/gfd.timestamp"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[FakeNode]:
    with FakeNode(tmp_path, arguments=["--sleep-interval=200ms", "--health-interval=200ms"]) as node:
        yield node


def ready(node: FakeNode) -> None:
    node.labels_file.parent.mkdir(parents=True)


def labels(node: FakeNode) -> dict[str, str]:
    return parse(node.labels_file.read_text()) if node.labels_file.exists() else {}


def wait_for(node: FakeNode, key: str, value: str | None) -> None:
    def there() -> bool | NotYet:
        found = labels(node)
        return (bool(found) and found.get(f"nvidia.com/{key}") == value) or NotYet(f"{found}\n{node.plugin.log}")

    wait_until(there, what=f"{key}={value}")


def test_labels_follow_health_and_the_file_is_readable_by_others(node: FakeNode) -> None:
    ready(node)
    node.plugin.start()
    wait_for(node, "gpu.healthy", "8")
    assert labels(node)["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert node.labels_file.stat().st_mode & 0o777 == 0o644
    node.control("xid", "3", "79")
    wait_for(node, "gpu.healthy", "7")
    assert list(node.labels_file.parent.iterdir()) == [node.labels_file]


def test_the_file_stays_over_a_restart_and_is_not_written_again(node: FakeNode) -> None:
    ready(node)
    node.plugin.start()
    wait_for(node, "gpu.healthy", "8")
    before = identity(node.labels_file)
    node.plugin.stop()
    assert identity(node.labels_file) == before
    node.plugin.start()
    node.wait_healthy(8)
    node.control("xid", "0", "79")
    wait_for(node, "gpu.healthy", "7")
    assert identity(node.labels_file) != before
    node.plugin.wait_for_log("node labels written", count=2)
    assert node.plugin.log.count("node labels written") == 2


def test_a_file_that_someone_took_away_comes_back(node: FakeNode) -> None:
    ready(node)
    node.plugin.start()
    wait_for(node, "gpu.count", "8")
    node.labels_file.unlink()
    wait_for(node, "gpu.count", "8")


def test_without_the_folder_nothing_is_written_until_it_comes(node: FakeNode) -> None:
    node.plugin.start()
    node.plugin.wait_for_log("node labels are not published")
    assert not node.labels_file.parent.exists()
    ready(node)
    wait_for(node, "gpu.count", "8")
    assert node.plugin.log.count("node labels are not published") == 1


def test_labels_follow_the_configuration(tmp_path: Path) -> None:
    shared = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"
    with FakeNode(tmp_path, arguments=[f"--config-file={tmp_path / 'config.yaml'}"]) as node:
        ready(node)
        node.configure("version: v1\n")
        node.plugin.start()
        wait_for(node, "gpu.replicas", "1")
        node.configure(shared)
        wait_for(node, "gpu.replicas", "4")
        assert labels(node)["nvidia.com/gpu.product"].endswith("-SHARED")


def test_a_driver_that_fails_leaves_the_labels_as_they_are(tmp_path: Path) -> None:
    arguments = ["--fail-on-init-error=false", "--rescan-interval=200ms", "--sleep-interval=100ms"]
    with FakeNode(tmp_path, arguments=arguments) as node:
        ready(node)
        node.labels_file.write_text("nvidia.com/gpu.count=8\n")
        node.plugin.start()
        wait_for(node, "gpu.product", "NVIDIA-H100-80GB-HBM3")
        before = labels(node)
        node.control("driver", "absent", "--force")
        node.plugin.wait_for_log("the driver cannot be used")
        node.labels_file.unlink()
        wait_for(node, "gpu.count", "8")
        assert labels(node) | {TIMESTAMP: ""} == before | {TIMESTAMP: ""}


def test_feature_discovery_s_name_labels_for_ever(tmp_path: Path, node: FakeNode) -> None:
    ready(node)
    alias = tmp_path / "gpu-feature-discovery"
    alias.symlink_to(Path(sys.executable).parent / "gpu-device-plugin")
    process = subprocess.Popen(
        [alias, f"--driver=fake:{node.machine}", f"--output-file={node.labels_file}", "--sleep-interval=50ms"],
        env=node.environment,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        wait_for(node, "gpu.count", "8")
        assert "nvidia.com/gpu.healthy" not in labels(node)
        node.labels_file.unlink()
        wait_for(node, "gpu.count", "8")
        process.terminate()
        _, errors = process.communicate(timeout=10)
        assert process.returncode == 0, errors.decode()
        assert node.labels_file.exists()
    finally:
        process.kill()
        process.wait()


@contextmanager
def discovery(node: FakeNode, *words: str, **environment: str) -> Iterator["subprocess.Popen[bytes]"]:
    """`labels` for ever, as a pod without the plugin has it."""
    command = [sys.executable, "-m", "deviceplugin", "labels", f"--driver=fake:{node.machine}"]
    command += [f"--output-file={node.labels_file}", *words]
    with node.plugin.log_file.open("wb") as log:
        process = subprocess.Popen(command, env=node.environment | environment, cwd=ROOT, stderr=log)
    try:
        yield process
        process.terminate()
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()


SHARED = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"


def test_labels_without_the_plugin_follow_the_configuration(node: FakeNode) -> None:
    ready(node)
    node.configure("version: v1\n")
    with discovery(node, f"--config-file={node.config_file}", "--sleep-interval=1h") as process:
        wait_for(node, "gpu.replicas", "1")
        node.configure(SHARED)
        process.send_signal(signal.SIGHUP)
        wait_for(node, "gpu.replicas", "4")
        node.configure("flagz: {}\n")
        process.send_signal(signal.SIGHUP)
        node.plugin.wait_for_log("the present one stays in force")
        node.configure("version: v1\n")
        process.send_signal(signal.SIGHUP)
        wait_for(node, "gpu.replicas", "1")
    with discovery(node, f"--config-file={node.config_file}", "--sleep-interval=100ms"):
        node.configure(SHARED)
        wait_for(node, "gpu.replicas", "4")


def test_labels_without_the_plugin_follow_the_nodes_label(tmp_path: Path, node: FakeNode) -> None:
    ready(node)
    configs = tmp_path / "configs"
    configs.mkdir()
    (configs / "plain").write_text("version: v1\n")
    (configs / "shared").write_text(SHARED)
    label = "nvidia.com/device-plugin.config"
    with FakeApi() as api:
        api.books.add("nodes", "worker-1", metadata={"labels": {label: "shared"}})
        words = [f"--config-dir={configs}", "--cluster-config-label=true", "--sleep-interval=100ms"]
        environment = {"KUBECONFIG": str(api.kubeconfig(tmp_path)), "NODE_NAME": "worker-1"}
        with discovery(node, *words, **environment):
            wait_for(node, "gpu.replicas", "4")
            api.books.label("worker-1", label, "plain")
            wait_for(node, "gpu.replicas", "1")


def test_once_and_printed(node: FakeNode) -> None:
    done = node.command("labels", f"--driver=fake:{node.machine}", "--oneshot", "--output", "-", "--mig-strategy=mixed")
    found = parse(done.stdout)
    assert found["nvidia.com/mig.strategy"] == "mixed"
    assert TIMESTAMP in found
    assert not node.labels_file.exists()


def test_once_without_the_folder_says_what_to_do(node: FakeNode) -> None:
    done = node.command(
        "labels", f"--driver=fake:{node.machine}", "--oneshot", f"--output={node.labels_file}", check=False
    )
    assert done.returncode == 1
    assert f"{node.labels_file.parent} is not there" in done.stderr
    assert "--output -" in done.stderr


def test_a_folder_that_cannot_be_written_is_said_once_and_serving_goes_on(tmp_path: Path) -> None:
    (tmp_path / "features.d").write_text("a file where the folder should be")
    with FakeNode(tmp_path, arguments=["--labels-publish=file", "--sleep-interval=50ms"]) as node:
        node.plugin.start()
        node.wait_healthy(8)
        node.plugin.wait_for_log("node labels cannot be written")
        (tmp_path / "features.d").unlink()
        wait_for(node, "gpu.count", "8")
        assert node.plugin.log.count("node labels cannot be written") == 1


def test_what_is_no_longer_wanted_is_taken_away(tmp_path: Path) -> None:
    """Else node-feature-discovery would go on publishing it."""
    with FakeNode(tmp_path, arguments=[f"--config-file={tmp_path / 'config.yaml'}"]) as node:
        ready(node)
        node.configure("version: v1\n")
        node.plugin.start()
        wait_for(node, "gpu.count", "8")
        node.configure("labels: {publish: off}\n")
        wait_until(lambda: not node.labels_file.exists(), what="the end of the file")
        node.configure("version: v1\n")
        wait_for(node, "gpu.count", "8")


def test_published_nowhere(tmp_path: Path) -> None:
    with FakeNode(tmp_path, arguments=["--labels-publish=off", f"--config-file={tmp_path / 'config.yaml'}"]) as node:
        ready(node)
        node.configure("version: v1\n")
        node.plugin.start()
        node.wait_healthy(8)
        node.configure("sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}\n")
        node.wait_healthy(16)
        assert not node.labels_file.exists()
        node.plugin.restart("--labels-publish=file")
        wait_for(node, "gpu.replicas", "2")
