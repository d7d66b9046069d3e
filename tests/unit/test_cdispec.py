"""CDI specifications, as values."""

from typing import Any

import jsonschema
import pytest
from msgspec.structs import replace

from deviceplugin.config.document import Cdi, Config, Flags, Imex, PluginFlags
from deviceplugin.model.node import Node
from deviceplugin.model.userspace import DriverFiles, HostFile, LibraryLink
from deviceplugin.rules.cdispec import Document, documents, flaws, idle_settings, unnamed, unwritten
from tests.cdi_schema import SCHEMA
from tests.strategies.nodes import card, cards, cut_card, instance, node

LIBRARY = "/usr/lib64/libcuda.so.580.95.05"
CONTROL = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
FILES = DriverFiles(
    version="580.95.05",
    libraries=(HostFile(f"/drv{LIBRARY}", LIBRARY), HostFile("/drv/usr/lib64/vdpau/v.so", "/usr/lib64/vdpau/v.so")),
    links=(LibraryLink("/usr/lib64/libcuda.so", "libcuda.so.1"), LibraryLink("/usr/lib64/libcuda.so.1", "x")),
    binaries=(HostFile("/drv/usr/bin/nvidia-smi", "/usr/bin/nvidia-smi"),),
    firmware=(HostFile("/drv/lib/firmware/nvidia/580.95.05/g.bin", "/lib/firmware/nvidia/580.95.05/g.bin"),),
    sockets=(HostFile("/drv/run/nvidia-persistenced/socket", "/run/nvidia-persistenced/socket"),),
    storage=(HostFile("/drv/etc/cufile.json", "/etc/cufile.json"),),
    nodes=frozenset(
        {*CONTROL, *(f"/dev/nvidia{100 + n}" for n in range(8)), "/dev/dri/card1", "/dev/dri/renderD128"}
        | {f"/dev/nvidia-caps/nvidia-cap{n}" for n in range(1, 5)}
    ),
    rendering={card(0).pci: ("/dev/dri/card1", "/dev/dri/renderD128")},
)
LINKS = ("--link", "libcuda.so.1::/usr/lib64/libcuda.so", "--link", "x::/usr/lib64/libcuda.so.1")
BESIDE = Flags(gds_enabled=True, gdrcopy_enabled=True, mofed_enabled=True)


def with_nodes(*paths: str) -> DriverFiles:
    return changed(nodes=FILES.nodes | set(paths))


def changed(**facts: Any) -> DriverFiles:
    return replace(FILES, **facts)


def of_kind(name: str, specifications: tuple[Document, ...]) -> dict[str, Any]:
    for specification in specifications:
        jsonschema.validate(specification.content, SCHEMA)
    (found,) = (s for s in specifications if s.kind == f"k8s.device-plugin.nvidia.com/{name}")
    assert found.file_name == f"k8s.device-plugin.nvidia.com-{name}.json"
    return found.content


def nodes_of(specification: dict[str, Any], name: str) -> list[str]:
    (device,) = (d for d in specification["devices"] if d["name"] == name)
    return [n["path"] for n in device["containerEdits"]["deviceNodes"]]


TWO = cards(2)
DEFAULT = Config()


def gpu(what: Node = TWO, files: DriverFiles = FILES, config: Config = DEFAULT) -> dict[str, Any]:
    return of_kind("gpu", documents(what, files, config))


def test_devices_are_named_by_uuid_by_index_and_all_together() -> None:
    specification = gpu()
    assert [device["name"] for device in specification["devices"]] == [card(0).uuid, "0", card(1).uuid, "1", "all"]
    first = ["/dev/nvidia100", "/dev/dri/card1", "/dev/dri/renderD128"]
    assert nodes_of(specification, card(0).uuid) == nodes_of(specification, "0") == first
    assert nodes_of(specification, card(1).uuid) == nodes_of(specification, "1") == ["/dev/nvidia101"]
    assert nodes_of(specification, "all") == [*first, "/dev/nvidia101"]


def test_an_instance_has_its_card_and_both_capabilities() -> None:
    what = node(cut_card(0, "1g.10gb", "1g.10gb"))
    specification = gpu(what)
    expected = ["/dev/nvidia100", "/dev/nvidia-caps/nvidia-cap3", "/dev/nvidia-caps/nvidia-cap4"]
    assert nodes_of(specification, instance(0, 1).uuid) == nodes_of(specification, "0:1") == expected
    together = nodes_of(specification, "all")
    assert len(together) == len(set(together)) == 7


def test_every_container_gets_the_control_nodes_and_the_driver() -> None:
    edits = gpu()["containerEdits"]
    assert edits["env"] == ["NVIDIA_VISIBLE_DEVICES=void", "NVIDIA_CTK_LIBCUDA_DIR=/usr/lib64"]
    assert edits["deviceNodes"] == [{"path": path} for path in CONTROL]
    read_only = ["ro", "nosuid", "nodev", "rbind", "rprivate"]
    assert edits["mounts"] == [
        *(
            {"hostPath": f"/drv{path}", "containerPath": path, "options": read_only}
            for path in (
                "/usr/bin/nvidia-smi",
                LIBRARY,
                "/usr/lib64/vdpau/v.so",
                "/lib/firmware/nvidia/580.95.05/g.bin",
            )
        ),
        {
            "hostPath": "/drv/run/nvidia-persistenced/socket",
            "containerPath": "/run/nvidia-persistenced/socket",
            "options": ["nosuid", "nodev", "rbind", "rprivate", "noexec"],
        },
    ]


def test_control_nodes_that_are_absent_are_left_away() -> None:
    edits = gpu(files=changed(nodes=FILES.nodes - set(CONTROL[1:])))["containerEdits"]
    assert edits["deviceNodes"] == [{"path": "/dev/nvidiactl"}]


@pytest.mark.parametrize(
    ("program", "start"),
    [
        ("/usr/bin/nvidia-ctk", ["nvidia-ctk", "hook"]),
        ("/usr/local/nvidia/toolkit/nvidia-cdi-hook", ["nvidia-cdi-hook"]),
    ],
)
def test_hooks_are_those_of_the_toolkit(program: str, start: list[str]) -> None:
    config = Config(flags=Flags(plugin=PluginFlags(nvidia_ctk_path=program)))
    hooks = gpu(config=config)["containerEdits"]["hooks"]
    assert {(hook["hookName"], hook["path"], *hook["env"]) for hook in hooks} == {
        ("createContainer", program, "NVIDIA_CTK_DEBUG=false")
    }
    assert [hook["args"] for hook in hooks] == [
        [*start, "create-symlinks", *LINKS],
        [*start, "enable-cuda-compat", "--host-driver-version=580.95.05"],
        [*start, "update-ldcache", "--folder", "/usr/lib64", "--folder", "/usr/lib64/vdpau"],
        [*start, "disable-device-node-modification"],
        [*start, "update-application-profile"],
    ]


def test_hooks_can_be_disabled_one_by_one_or_all() -> None:
    some = gpu(config=Config(cdi=Cdi(disable_hooks=("enable-cuda-compat", "update-application-profile"))))
    assert [hook["args"][2] for hook in some["containerEdits"]["hooks"]] == [
        "create-symlinks",
        "update-ldcache",
        "disable-device-node-modification",
    ]
    assert "hooks" not in gpu(config=Config(cdi=Cdi(disable_hooks=("all",))))["containerEdits"]


@pytest.mark.parametrize(
    "flags", [Flags(nvidia_driver_root="/run/nvidia/driver"), Flags(nvidia_dev_root="/run/nvidia/driver/")]
)
def test_under_a_dev_root_nodes_have_a_host_path(flags: Flags) -> None:
    specification = gpu(config=Config(flags=flags))
    assert specification["containerEdits"]["deviceNodes"][0] == {
        "path": "/dev/nvidiactl",
        "hostPath": "/run/nvidia/driver/dev/nvidiactl",
    }


def test_the_dev_root_may_be_another_than_the_driver_root() -> None:
    flags = Flags(nvidia_driver_root="/run/nvidia/driver", nvidia_dev_root="/")
    assert gpu(config=Config(flags=flags))["containerEdits"]["deviceNodes"][0] == {"path": "/dev/nvidiactl"}


def test_imex_channels_are_a_kind_of_their_own() -> None:
    specification = of_kind("imex-channel", documents(cards(1), FILES, Config(imex=Imex(channel_ids=(0, 7, 0)))))
    assert specification["cdiVersion"] == "0.5.0"
    assert "containerEdits" not in specification
    assert nodes_of(specification, "7") == ["/dev/nvidia-caps-imex-channels/channel7"]
    assert [device["name"] for device in specification["devices"]] == ["0", "7"]


def test_what_is_beside_gpus_has_one_device_each() -> None:
    files = with_nodes(
        "/dev/nvidia-fs0", "/dev/nvidia-fs1", "/dev/gdrdrv", "/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm"
    )
    specifications = documents(cards(1), files, Config(flags=BESIDE))
    gds = of_kind("gds", specifications)
    assert gds["cdiVersion"] == "0.3.0"
    assert gds["devices"][0]["containerEdits"] == {
        "env": ["NVIDIA_GDS=enabled"],
        "deviceNodes": [{"path": "/dev/nvidia-fs0"}, {"path": "/dev/nvidia-fs1"}],
        "mounts": [
            {
                "hostPath": "/drv/etc/cufile.json",
                "containerPath": "/etc/cufile.json",
                "options": ["ro", "nosuid", "nodev", "rbind", "rprivate"],
            }
        ],
    }
    assert nodes_of(of_kind("gdrcopy", specifications), "all") == ["/dev/gdrdrv"]
    assert nodes_of(of_kind("mofed", specifications), "all") == ["/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0"]


def test_their_names_hold_while_their_nodes_are_missing_and_a_warning_says_so() -> None:
    config = Config(flags=BESIDE)
    gdrcopy = of_kind("gdrcopy", documents(cards(1), changed(storage=()), config))
    assert gdrcopy["devices"] == [{"name": "all", "containerEdits": {"env": ["NVIDIA_GDRCOPY=enabled"]}}]
    assert of_kind("gds", documents(cards(1), changed(storage=()), config))["devices"][0]["containerEdits"] == {
        "env": ["NVIDIA_GDS=enabled"]
    }
    warned = idle_settings(cards(1), FILES, config)
    assert [line.partition(" ")[0] for line in warned] == [f"flags.{k}Enabled" for k in ("gds", "gdrcopy", "mofed")]
    assert idle_settings(node(), FILES, config) == ()
    assert idle_settings(cards(1), with_nodes("/dev/gdrdrv"), Config(flags=Flags(gdrcopy_enabled=True))) == ()


def test_settings_that_do_nothing_are_named() -> None:
    cdi = Cdi(
        feature_flags=("enable-explicit-driver-libraries", "disable-nvsandboxutils", "enable-coherent-annotations"),
        disable_hooks=("all", "update-ldcache", "update-ld-cache"),
    )
    features, hooks = idle_settings(cards(1), FILES, Config(cdi=cdi))
    assert features == (
        "cdi.featureFlags: 'enable-coherent-annotations' changes nothing here; "
        "enable-explicit-driver-libraries is what does"
    )
    assert hooks == (
        "cdi.disableHooks: 'update-ld-cache' is no hook; there are create-symlinks, enable-cuda-compat, "
        "update-ldcache, disable-device-node-modification, update-application-profile, all"
    )


def test_without_gpus_there_is_no_gpu_specification() -> None:
    assert documents(node(), FILES, Config()) == ()
    assert changed(libraries=FILES.libraries[::-1]).cuda_folder == "/usr/lib64"
    assert DriverFiles().cuda_folder == ""


BARE = instance(0, 0, ci_capability=None)
OLD = instance(0, 0, uuid=f"MIG-{card(0).uuid}/7/0")


@pytest.mark.parametrize(
    ("what", "files", "device", "text"),
    [
        (cards(1), changed(problem="libcuda.so is gone"), card(0).uuid, "libcuda.so is gone"),
        (node(card(0, minor=None)), FILES, card(0).uuid, "it has no minor number"),
        (node(cut_card(0, instances=(BARE,))), FILES, BARE.uuid, "its capability nodes are missing"),
        (node(cut_card(0, instances=(OLD,))), FILES, OLD.uuid, "is no CDI device name"),
        (node(card(9)), FILES, card(9).uuid, "/dev/nvidia109 is not there"),
        (
            cards(1),
            changed(nodes=FILES.nodes - {"/dev/nvidiactl", "/dev/nvidia100"}),
            card(0).uuid,
            "/dev/nvidiactl and /dev/nvidia100 is not there",
        ),
    ],
)
def test_a_device_with_incomplete_edits_is_in_no_specification(
    what: Node, files: DriverFiles, device: str, text: str
) -> None:
    (out,) = flaws(what, files)
    assert (out.device, out.reason) == (device, "cdi-incomplete")
    assert "would not work under CDI: " in out.detail
    assert text in out.detail
    names = [d["name"] for s in documents(what, files, Config()) for d in s.content["devices"]]
    assert device not in names


def test_complete_devices_have_no_flaws() -> None:
    assert flaws(node(cut_card(0, "1g.10gb", "1g.10gb"), card(1)), FILES) == ()


def test_devices_that_an_external_specification_lacks() -> None:
    what = node(cut_card(0, "1g.10gb"), card(1))
    found = (instance(0, 0).uuid, card(1).uuid, "1")
    out = unnamed(what, found, by_index=False, places=("/etc/cdi", "/var/run/cdi"))
    assert [o.device for o in out] == [card(0).uuid]
    assert out[0].reason == "cdi-external-missing"
    assert "in /etc/cdi or /var/run/cdi; run nvidia-ctk cdi generate" in out[0].detail
    by_index = unnamed(what, found, by_index=True, places=("/etc/cdi",))
    assert [o.device for o in by_index] == [card(0).uuid, instance(0, 0).uuid]


def test_devices_of_a_specification_that_could_not_be_written() -> None:
    out = unwritten(node(cut_card(0, "1g.10gb")), "/var/run/cdi: Read-only file system")
    assert [o.device for o in out] == [card(0).uuid, instance(0, 0).uuid]
    assert all(o.reason == "cdi-not-written" and "Read-only file system" in o.detail for o in out)
