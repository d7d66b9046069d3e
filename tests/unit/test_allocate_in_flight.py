"""An Allocate that is under way while the configuration changes is answered by the snapshot it began with."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from deviceplugin.board import Board
from deviceplugin.config.document import Config, Flags, IdStrategy, PluginFlags
from deviceplugin.kubelet.decisions import Rules
from deviceplugin.kubelet.observe import Observer
from deviceplugin.kubelet.service import Service
from deviceplugin.kubelet.wire import deviceplugin_pb2 as wire
from deviceplugin.model.grant import Grant
from deviceplugin.model.inventory import Resource
from deviceplugin.model.snapshot import Snapshot
from deviceplugin.rules.allocate import allocate
from deviceplugin.rules.offer import offer
from tests.flows.running import prefer
from tests.strategies.nodes import card, cards

GPU = "nvidia.com/gpu"
NODE = cards(4)
BY_UUID = Snapshot(node=NODE, inventory=offer(NODE, Config()))
BY_INDEX = Snapshot(
    node=NODE, inventory=offer(NODE, Config(flags=Flags(plugin=PluginFlags(device_id_strategy=IdStrategy.INDEX))))
)


def test_all_containers_of_a_call_are_answered_by_one_snapshot_and_the_next_call_by_the_newest() -> None:
    async def scene() -> list[list[str]]:
        board = Board(BY_UUID)

        def while_it_changes(
            snapshot: Snapshot,
            resource: Resource,
            ids: Sequence[str],
            exists: Callable[[str], bool],
            unique: Callable[[], str],
        ) -> Grant:
            board.publish(BY_INDEX)
            return allocate(snapshot, resource, ids, exists, unique)

        service = Service(GPU, board, Rules(while_it_changes, prefer), Observer())
        request = wire.AllocateRequest(
            container_requests=[wire.ContainerAllocateRequest(devices_ids=[card(number).uuid]) for number in (2, 0)]
        )
        context: Any = None
        answers = [await service._allocate(request, context) for _ in range(2)]
        return [
            [one.envs["NVIDIA_VISIBLE_DEVICES"] for one in wire.AllocateResponse.FromString(answer).container_responses]
            for answer in answers
        ]

    assert asyncio.run(scene()) == [[card(2).uuid, card(0).uuid], ["2", "0"]]
