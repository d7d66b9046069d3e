"""`python -m tests.demo [--machine NAME] [--keep]`: what `make demo` runs."""

import argparse
import signal
import sys
import tempfile
import threading
from pathlib import Path

import fake_nvml
from tests.demo.story import Story
from tests.node import FakeNode
from tests.ports import free_port


def main() -> int:
    """Tells the story and exits 0; with `--keep` leaves the node running until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m tests.demo", description=__doc__)
    parser.add_argument("--machine", default="hgx-h100-8", help="a name from the catalogue, or a .topo file")
    parser.add_argument("--keep", action="store_true", help="leave the node running and print its addresses")
    parser.add_argument("--mig-strategy", default="mixed", choices=["none", "single", "mixed"])
    parser.add_argument("plugin_arguments", nargs="*", help="further arguments of the plugin, after --")
    arguments = parser.parse_args()

    port = free_port()
    with (
        tempfile.TemporaryDirectory(prefix="gpu-demo-") as home,
        FakeNode(
            Path(home),
            arguments.machine,
            [
                f"--mig-strategy={arguments.mig_strategy}",
                f"--metrics-address=127.0.0.1:{port}",
                "--fail-on-init-error=false",
                "--health-quiet-period=1s",
                "--health-interval=500ms",
                "--rescan-interval=2s",
                "--vanished-grace=1s",
                *arguments.plugin_arguments,
            ],
        ) as node,
    ):
        story = Story(node, keep=arguments.keep)
        story.tell()
        if arguments.keep:
            _keep(node, port)
        node.plugin.stop()
    return 0


def _keep(node: FakeNode, port: int) -> None:
    plugin, control = f"{sys.executable} -m deviceplugin", f"--control-socket {node.control_socket()}"
    with fake_nvml.attach(node.root) as fake:
        gpu = min(3, len(fake.uuids()) - 1)
    print(
        f"""
The node keeps running until Ctrl-C. Look at it:
  status page     http://127.0.0.1:{port}/
  metrics         http://127.0.0.1:{port}/metrics
  log             tail -f {node.plugin.log_file}
  terminal        {plugin} status --watch {control}"""
    )
    if gpu >= 0:
        print(
            f"""Break it:
  export FAKE_NVML_ROOT={node.root}
  {sys.executable} -m fake_nvml.control xid {gpu} 79
  {plugin} release {control}     # a GPU in use cannot be reset
  {sys.executable} -m fake_nvml.control reset {gpu}
  {plugin} release --end --reset {gpu} {control}"""
        )
    print(f"  kill -HUP {node.plugin.pid}     # rescan and reload at once\n", flush=True)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    stop.wait()


if __name__ == "__main__":
    sys.exit(main())
