"""The configuration of Allocate, compiled once per inventory."""

from __future__ import annotations

from deviceplugin.config.document import CdiSpec, Config, IdStrategy
from deviceplugin.model.inventory import Handover

OWN_VENDOR = "k8s.device-plugin.nvidia.com"
TOOLKIT_VENDOR = "nvidia.com"


def under(root: str, path: str) -> str:
    """The absolute `path` below `root`."""
    return f"{root.rstrip('/')}/{path.lstrip('/')}" if path.strip("/") else root.rstrip("/") or "/"


def seen_from_here(host_path: str, config: Config, host_root: str = "/") -> str:
    """Where this process finds a path of the host.

    A host root that was given holds everything. Otherwise what lies under the driver root is where that is mounted in
    our container, and anything else where the host has it.
    """
    if host_root.rstrip("/"):
        return under(host_root, host_path)
    driver_root = config.flags.nvidia_driver_root.rstrip("/")
    if host_path.rstrip("/") == driver_root or host_path.startswith(f"{driver_root}/"):
        return under(config.flags.plugin.container_driver_root, host_path[len(driver_root) :])
    return host_path


def compile_handover(config: Config, host_root: str = "/") -> Handover:
    """What Allocate needs to know, free of the configuration's own shape.

    Device nodes are looked up where `--host-root` says, which stands for the dev root whatever its host path is.
    """
    flags = config.flags
    dev_root = flags.nvidia_dev_root or flags.nvidia_driver_root
    given = bool(host_root.rstrip("/"))
    vendor = OWN_VENDOR if config.cdi.spec is CdiSpec.OWN else TOOLKIT_VENDOR
    return Handover(
        strategies=tuple(dict.fromkeys(strategy.value for strategy in flags.plugin.device_list_strategy)),
        by_index=flags.plugin.device_id_strategy is IdStrategy.INDEX,
        pass_device_specs=flags.plugin.pass_device_specs,
        driver_root=flags.nvidia_driver_root,
        dev_root=dev_root,
        dev_root_seen=host_root if given else seen_from_here(dev_root, config),
        annotation_prefix=flags.plugin.cdi_annotation_prefix,
        cdi_kind=f"{vendor}/gpu",
        gdrcopy=flags.gdrcopy_enabled,
        gds=flags.gds_enabled,
        mofed=flags.mofed_enabled,
        imex_channels=tuple(dict.fromkeys(config.imex.channel_ids)),
        imex_required=config.imex.required,
        mps_root=flags.mps_root,
    )
