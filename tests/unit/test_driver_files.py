"""Finding the driver's files under roots laid out as distributions do."""

import os
from pathlib import Path

import pytest

from deviceplugin.config.document import Cdi, Config, Flags, PluginFlags
from deviceplugin.files import userspace
from deviceplugin.files.loadercache import paths_of
from deviceplugin.files.rooted import Root
from deviceplugin.model.node import Node
from deviceplugin.model.userspace import DriverFiles, HostFile, LibraryLink
from deviceplugin.rules.cdispec import flaws
from tests.driver_roots import I386, ROOTS, VERSION, X86_64, libraries, link, loader_cache, touch, ubuntu
from tests.strategies.nodes import card, cards, node

HOST = "/run/nvidia/driver"


def mounted(root: Path, *features: str) -> Config:
    """A configuration whose driver root is mounted at `root` in our container."""
    plugin = PluginFlags(container_driver_root=str(root))
    return Config(flags=Flags(nvidia_driver_root=HOST, plugin=plugin), cdi=Cdi(feature_flags=features))


def find(root: Path, what: Node | None = None) -> DriverFiles:
    return userspace.find(what or cards(1), mounted(root))


def container_paths(files: tuple[HostFile, ...]) -> set[str]:
    return {file.container_path for file in files}


@pytest.mark.parametrize("layout", ROOTS)
def test_libraries_are_found_whatever_the_layout(tmp_path: Path, layout: str) -> None:
    make, folder = ROOTS[layout]
    make(tmp_path)
    files = find(tmp_path)
    assert files.problem == ""
    assert files.version == VERSION
    assert files.cuda_folder == folder
    names = ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler", "libnvidia-opencl")
    assert {f"{folder}/{name}.so.{VERSION}" for name in names} <= container_paths(files.libraries)
    for file in files.libraries:
        assert file.host_path == HOST + file.container_path
        assert Path(f"{tmp_path}{file.container_path}").is_file()
        assert not Path(f"{tmp_path}{file.container_path}").is_symlink()
        assert "i386" not in file.container_path
        assert not file.container_path.startswith("/usr/lib/libcuda"), "the 32-bit one"
    assert LibraryLink(f"{folder}/libcuda.so.1", f"libcuda.so.{VERSION}") in files.links
    links = {entry.path: entry.target for entry in files.links}
    assert links[f"{folder}/libnvidia-ml.so.1"] == f"libnvidia-ml.so.{VERSION}"
    assert links[f"{folder}/libcuda.so"] in {"libcuda.so.1", f"libcuda.so.{VERSION}"}


@pytest.mark.parametrize("layout", sorted(set(ROOTS) - {"unusual"}))
def test_programs_and_firmware_go_where_containers_look(tmp_path: Path, layout: str) -> None:
    ROOTS[layout][0](tmp_path)
    files = find(tmp_path)
    assert "/usr/bin/nvidia-smi" in container_paths(files.binaries)
    assert f"/lib/firmware/nvidia/{VERSION}/gsp_ga10x.bin" in container_paths(files.firmware)
    for file in (*files.binaries, *files.firmware):
        assert Path(f"{tmp_path}{file.host_path.removeprefix(HOST)}").is_file()


def test_an_ubuntu_root_in_full(tmp_path: Path) -> None:
    ubuntu(tmp_path)
    touch(tmp_path, "/etc/cufile.json")
    (tmp_path / "run/udev").mkdir()
    files = find(tmp_path)
    library = "/usr/lib/x86_64-linux-gnu"
    assert container_paths(files.libraries) == {
        *(
            f"{library}/{name}.so.{VERSION}"
            for name in ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler", "libnvidia-opencl")
        ),
        f"{library}/vdpau/libvdpau_nvidia.so.{VERSION}",
    }
    assert files.links[:2] == (
        LibraryLink(f"{library}/libcuda.so", "libcuda.so.1"),
        LibraryLink(f"{library}/libcuda.so.1", f"libcuda.so.{VERSION}"),
    )
    assert files.binaries == tuple(
        HostFile(f"{HOST}/usr/bin/{name}", f"/usr/bin/{name}")
        for name in ("nvidia-smi", "nvidia-persistenced", "nvidia-cuda-mps-control")
    )
    assert [file.host_path for file in files.firmware] == [
        f"{HOST}/usr/lib/firmware/nvidia/{VERSION}/{name}" for name in ("gsp_ga10x.bin", "gsp_tu10x.bin")
    ]
    assert files.sockets == tuple(
        HostFile(f"{HOST}{path}", path)
        for path in ("/run/nvidia-persistenced/socket", "/run/nvidia-fabricmanager/socket")
    )
    assert container_paths(files.storage) == {"/run/udev", "/etc/cufile.json"}


def test_libraries_without_version_come_under_the_feature_flag(tmp_path: Path) -> None:
    ubuntu(tmp_path)
    link(tmp_path, "/usr/lib/x86_64-linux-gnu/libEGL.so.1", "libEGL.so.1.1.0")
    config = mounted(tmp_path, "enable-explicit-driver-libraries")
    files = userspace.find(cards(1), config)
    extra = "/usr/lib/x86_64-linux-gnu/libEGL.so.1.1.0"
    assert extra in container_paths(files.libraries)
    assert extra not in container_paths(find(tmp_path).libraries)
    assert LibraryLink("/usr/lib/x86_64-linux-gnu/libEGL.so.1", "libEGL.so.1.1.0") in files.links


def test_a_link_of_another_name_belongs_to_its_library(tmp_path: Path) -> None:
    libraries(tmp_path, "/usr/lib64")
    touch(tmp_path, f"/usr/lib64/libGLX_nvidia.so.{VERSION}", "/usr/lib64/libGLX_mesa.so.0")
    link(tmp_path, "/usr/lib64/libGLX_indirect.so.0", f"libGLX_nvidia.so.{VERSION}")
    entry = LibraryLink("/usr/lib64/libGLX_indirect.so.0", f"libGLX_nvidia.so.{VERSION}")
    assert entry in find(tmp_path).links
    (tmp_path / "usr/lib64/libGLX_indirect.so.0").unlink()
    link(tmp_path, "/usr/lib64/libGLX_indirect.so.0", "libGLX_mesa.so.0")
    assert entry.path not in {other.path for other in find(tmp_path).links}


def test_the_links_of_libcuda_are_made_even_where_the_host_has_none(tmp_path: Path) -> None:
    touch(tmp_path, f"/usr/lib64/libcuda.so.{VERSION}")
    assert find(tmp_path).links == (
        LibraryLink("/usr/lib64/libcuda.so", "libcuda.so.1"),
        LibraryLink("/usr/lib64/libcuda.so.1", f"libcuda.so.{VERSION}"),
    )


def test_a_version_that_nvml_does_not_tell_is_that_of_the_file(tmp_path: Path) -> None:
    libraries(tmp_path, "/usr/lib64", "535.1.2")
    assert find(tmp_path, Node(gpus=cards(1).gpus)).version == "535.1.2"


def test_of_two_versions_the_running_one_counts(tmp_path: Path) -> None:
    libraries(tmp_path, "/usr/lib64", "535.1.2")
    touch(tmp_path, f"/usr/lib64/libcuda.so.{VERSION}")
    files = find(tmp_path)
    assert container_paths(files.libraries) == {f"/usr/lib64/libcuda.so.{VERSION}"}


def test_files_of_another_version_are_no_use(tmp_path: Path) -> None:
    libraries(tmp_path, "/usr/lib64", "535.1.2")
    files = find(tmp_path)
    assert files.problem == (
        f"libcuda.so.{VERSION} is not found below {tmp_path}; version 535.1.2 is: finish the upgrade of the driver, "
        "then start this plugin again"
    )
    (out,) = flaws(cards(1), files)
    assert files.problem in out.detail


@pytest.mark.parametrize("version", [VERSION, None])
def test_an_empty_root_is_named(tmp_path: Path, version: str | None) -> None:
    files = find(tmp_path, Node(gpus=cards(1).gpus, driver_version=version))
    assert files.problem == (
        f"libcuda.so.{version or '<version>'} is not found below {tmp_path}; "
        "mount the driver's root and name it by --container-driver-root"
    )
    assert files.libraries == ()


def test_without_a_mounted_root_the_host_s_own_path_is_searched(tmp_path: Path) -> None:
    own = tmp_path / "driver"
    ubuntu(own)
    flags = Flags(nvidia_driver_root=str(own), plugin=PluginFlags(container_driver_root=str(tmp_path / "none")))
    files = userspace.find(cards(1), Config(flags=flags))
    assert files.libraries[0].host_path.startswith(f"{own}/usr/lib")
    assert files.libraries[0].container_path.startswith("/usr/lib")


@pytest.mark.parametrize("driver_root", ["/", "/run/nvidia/driver"])
def test_below_a_host_root_the_driver_root_is_searched_then_the_host_itself(tmp_path: Path, driver_root: str) -> None:
    ubuntu(tmp_path)
    flags = Flags(nvidia_driver_root=driver_root, plugin=PluginFlags(container_driver_root="/nowhere"))
    files = userspace.find(cards(1), Config(flags=flags), str(tmp_path))
    assert files.problem == ""
    assert files.binaries[0].host_path == f"{driver_root.rstrip('/')}/usr/bin/nvidia-smi"


def test_files_that_a_runtime_put_into_our_container_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ubuntu(tmp_path)
    injected = f"{tmp_path}/usr/lib/x86_64-linux-gnu/libcuda.so.{VERSION}"
    monkeypatch.setattr(os.path, "ismount", lambda path: path == injected)
    assert find(tmp_path).problem.startswith(f"{injected} was put into this container by its runtime")


def test_device_nodes_and_those_for_rendering(tmp_path: Path) -> None:
    driver, host = tmp_path / "driver", tmp_path / "host"
    ubuntu(driver)
    touch(
        driver,
        "/dev/nvidia100",
        "/dev/nvidiactl",
        "/dev/nvidia-caps/nvidia-cap3",
        "/dev/gdrdrv",
        "/dev/dri/card1",
        "/dev/dri/renderD128",
        "/dev/infiniband/uverbs0",
        "/dev/sda",
    )
    for name in ("card1", "renderD128", "card1-DP-1"):
        (host / "sys/bus/pci/devices/0000:10:00.0/drm" / name).mkdir(parents=True)
    config = mounted(driver)
    files = userspace.find(node(card(0), card(1)), config, "/")
    assert files.nodes == {
        "/dev/nvidia100",
        "/dev/nvidiactl",
        "/dev/nvidia-caps",
        "/dev/nvidia-caps/nvidia-cap3",
        "/dev/gdrdrv",
        "/dev/dri/card1",
        "/dev/dri/renderD128",
        "/dev/infiniband/uverbs0",
    }
    touch(host, "/dev/dri/card1", "/dev/dri/renderD128")
    below = userspace.find(node(card(0), card(1)), config, str(host))
    assert below.rendering == {card(0).pci: ("/dev/dri/card1", "/dev/dri/renderD128"), card(1).pci: ()}


def test_a_card_of_odd_bus_id_has_no_rendering_nodes(tmp_path: Path) -> None:
    assert userspace.find(node(card(0, pci="?")), mounted(tmp_path), str(tmp_path)).rendering == {"?": ()}


def test_links_stay_inside_their_root(tmp_path: Path) -> None:
    touch(tmp_path, "/store/lib/a")
    link(tmp_path, "/usr/lib", "/store/lib")
    link(tmp_path, "/up", "../../../../store")
    link(tmp_path, "/near", "./store/./lib/../lib/a")
    link(tmp_path, "/circle", "/circle")
    link(tmp_path, "/broken", "/nowhere/at/all")
    root = Root(str(tmp_path))
    assert root.real("/usr/lib/a") == "/store/lib/a"
    assert root.real("/up/lib/a") == "/store/lib/a"
    assert root.real("/near") == "/store/lib/a"
    assert root.real("/circle") is None
    assert root.real("/broken") is None
    assert root.names("/usr/lib") == ("a",)
    assert root.names("/near") == ()
    assert root.link("/usr/lib") == "/store/lib"
    assert root.link("/broken/x") is None
    assert root.link("/near") == "./store/./lib/../lib/a"
    assert root.link("/store") is None
    assert root.read("/usr/lib/a") == b""
    assert root.read("/broken") == b""


CACHE = {
    "libcuda.so.1": ("/usr/lib64/libcuda.so.1", X86_64),
    "libc.so.6": ("/usr/lib64/libc.so.6", X86_64),
    "libcuda.so": ("/usr/lib/libcuda.so", I386),
}


@pytest.mark.parametrize("old_part", [False, True])
def test_the_loader_s_cache_tells_where_a_library_is(*, old_part: bool) -> None:
    cache = loader_cache(CACHE, old_part=old_part)
    assert paths_of(cache, "libcuda.so.1", "libcuda.so") == ("/usr/lib64/libcuda.so.1",)
    assert paths_of(cache, "libc.so.6") == ("/usr/lib64/libc.so.6",)
    assert paths_of(cache, "libnone.so") == ()


@pytest.mark.parametrize("size", range(0, 200, 7))
def test_a_cache_that_is_cut_off_is_no_error(size: int) -> None:
    found = paths_of(loader_cache(CACHE)[:size], "libcuda.so.1", "libc.so.6")
    assert set(found) <= {"/usr/lib64/libcuda.so.1", "/usr/lib64/libc.so.6"}


def test_garbage_is_no_cache() -> None:
    assert paths_of(b"", "libcuda.so.1") == ()
    assert paths_of(b"ld.so-1.7.0 and nothing else", "libcuda.so.1") == ()
    assert paths_of(b"glibc-ld.so.cache1.1" + b"\xff" * 300, "libcuda.so.1") == ()
