import asyncio

from deviceplugin.board import Board
from deviceplugin.model.node import DriverState, Node
from deviceplugin.model.snapshot import Snapshot


def node(detail: str) -> Snapshot:
    return Snapshot(node=Node(state=DriverState.READY, detail=detail))


def test_versions_grow_by_one() -> None:
    board = Board()
    assert board.current.version == 0
    assert [board.publish(node("a")).version, board.publish(node("b")).version] == [1, 2]
    assert board.current.node.detail == "b"


def test_a_slow_reader_skips_to_the_newest() -> None:
    async def scenario() -> list[str]:
        board, seen = Board(node("first")), []
        async for snapshot in board.follow():
            seen.append(snapshot.node.detail)
            if len(seen) == 1:
                for step in range(5):
                    board.publish(node(str(step)))
            else:
                board.close()
        return seen

    assert asyncio.run(scenario()) == ["first", "4"]


def test_every_reader_sees_the_last_snapshot_before_the_end() -> None:
    async def read(board: Board) -> str:
        detail = ""
        async for snapshot in board.follow():
            detail = snapshot.node.detail
        return detail

    async def scenario() -> list[str]:
        board = Board(node("first"))
        readers = [asyncio.create_task(read(board)) for _ in range(3)]
        await asyncio.sleep(0)
        board.publish(node("last"))
        board.close()
        assert board.closed
        return await asyncio.gather(*readers)

    assert asyncio.run(scenario()) == ["last"] * 3
