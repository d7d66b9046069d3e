"""What Allocate is told of the configuration."""

from typing import Any

import pytest

from deviceplugin.config.document import Cdi, CdiSpec, Config, Flags, IdStrategy, Imex, ListStrategy, PluginFlags
from deviceplugin.model.inventory import Handover
from deviceplugin.rules.offer import offer
from deviceplugin.rules.offer.handover import seen_from_here, under
from tests.strategies.nodes import cards


def test_the_defaults_are_upstream_s() -> None:
    assert offer(cards(1), Config()).handover == Handover(dev_root_seen="/driver-root")


def test_everything_that_can_be_set_arrives() -> None:
    config = Config(
        flags=Flags(
            mps_root="/run/nvidia/mps",
            nvidia_driver_root="/run/nvidia/driver",
            nvidia_dev_root="/host",
            gdrcopy_enabled=True,
            gds_enabled=True,
            mofed_enabled=True,
            plugin=PluginFlags(
                pass_device_specs=True,
                device_list_strategy=(ListStrategy.CDI_CRI, ListStrategy.ENVVAR, ListStrategy.CDI_CRI),
                device_id_strategy=IdStrategy.INDEX,
                cdi_annotation_prefix="example.com/",
            ),
        ),
        imex=Imex(channel_ids=(0, 3, 0), required=True),
        cdi=Cdi(spec=CdiSpec.EXTERNAL),
    )
    assert offer(cards(1), config, "/fake").handover == Handover(
        strategies=("cdi-cri", "envvar"),
        by_index=True,
        pass_device_specs=True,
        driver_root="/run/nvidia/driver",
        dev_root="/host",
        dev_root_seen="/fake",
        annotation_prefix="example.com/",
        cdi_kind="nvidia.com/gpu",
        gdrcopy=True,
        gds=True,
        mofed=True,
        imex_channels=(0, 3),
        imex_required=True,
        mps_root="/run/nvidia/mps",
    )


@pytest.mark.parametrize(
    ("flags", "dev_root", "seen"),
    [
        ({}, "/", "/driver-root"),
        ({"nvidia_driver_root": "/run/nvidia/driver"}, "/run/nvidia/driver", "/driver-root"),
        ({"nvidia_driver_root": "/run/nvidia/driver/"}, "/run/nvidia/driver/", "/driver-root"),
        ({"nvidia_dev_root": "/run/nvidia/driver"}, "/run/nvidia/driver", "/driver-root/run/nvidia/driver"),
        ({"nvidia_driver_root": "/run/nvidia/driver", "nvidia_dev_root": "/"}, "/", "/"),
        ({"nvidia_driver_root": "/opt/drv", "nvidia_dev_root": "/opt/drv2"}, "/opt/drv2", "/opt/drv2"),
    ],
)
def test_the_dev_root_is_looked_for_where_it_is_mounted(flags: dict[str, Any], dev_root: str, seen: str) -> None:
    handover = offer(cards(1), Config(flags=Flags(**flags))).handover
    assert (handover.dev_root, handover.dev_root_seen) == (dev_root, seen)


@pytest.mark.parametrize(
    ("root", "path", "whole"),
    [
        ("/", "/dev", "/dev"),
        ("/driver-root", "/dev", "/driver-root/dev"),
        ("/driver-root/", "/", "/driver-root"),
        ("/", "/", "/"),
    ],
)
def test_paths_below_a_root(root: str, path: str, whole: str) -> None:
    assert under(root, path) == whole


def test_with_a_host_root_every_host_path_is_below_it() -> None:
    assert seen_from_here("/usr/lib", Config(), "/fake") == "/fake/usr/lib"
    assert seen_from_here("/usr/lib", Config()) == "/driver-root/usr/lib"
