"""Evidence of health by Hypothesis: what hardware may say, and what no hardware should."""

from hypothesis import strategies as st

from deviceplugin.config.document import CheckFailure, Cordon, HealthPolicy, HealthSection, UnknownXid
from deviceplugin.model.evidence import (
    ChecksFailed,
    ChecksWorked,
    DriverReloaded,
    Evidence,
    Forgotten,
    Injected,
    Injection,
    PolicyChanged,
    ScanSeen,
    TakenUp,
    Tick,
    Unanswered,
)
from deviceplugin.model.health import Verdict
from deviceplugin.model.node import DriverState, Fabric, FabricState, Gpu, Node, Problem
from deviceplugin.model.vitals import Event, EventKind, Reading
from tests.strategies.nodes import card, cut_card

CARDS = 3
PROFILES = ("1g.10gb", "1g.10gb", "2g.20gb")
UUIDS = tuple(card(index).uuid for index in range(CARDS))
INSTANCES = tuple(one.uuid for one in cut_card(0, *PROFILES).instances)
QUERIES = (
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetRetiredPagesPendingStatus",
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetGpuFabricInfoV",
    "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetMigDeviceHandleByIndex",
    "nvmlDeviceGetHandleByUUID",
)
XIDS = (13, 31, 48, 63, 64, 79, 94, 95, 154, 999, 7)

trilean = st.sampled_from((None, False, True))
codes = st.sampled_from((0, 3, 4, 10, 13, 15, 16, 28, 999))
names = st.sampled_from(("0", "1", "0:1", UUIDS[2], INSTANCES[0], "00000000:11:00.0", "nobody", ""))
policies = st.builds(
    HealthSection,
    unknown_xid=st.sampled_from(UnknownXid),
    quiet_period=st.sampled_from((0.0, 1.0, 60.0)),
    ecc=st.sampled_from(HealthPolicy),
    remap_pending=st.sampled_from(HealthPolicy),
    remap_failure=st.sampled_from(HealthPolicy),
    recovery_action=st.sampled_from(HealthPolicy),
    fabric=st.sampled_from(HealthPolicy),
    nvlink=st.sampled_from(HealthPolicy),
    on_check_failure=st.sampled_from(CheckFailure),
    cordon=st.lists(st.builds(Cordon, names), max_size=2).map(tuple),
    ignored=st.sampled_from(((13, 31), (13, 31, 79))),
)
"""Health sections."""


def problems(subject: str) -> st.SearchStrategy[tuple[Problem, ...]]:
    """Queries that failed."""
    return st.lists(st.builds(Problem, st.just(subject), st.sampled_from(QUERIES), codes), max_size=2).map(tuple)


def events(uuids: st.SearchStrategy[str | None]) -> st.SearchStrategy[Event]:
    """Events, with times and instances that may make no sense."""
    number = st.sampled_from((None, 0xFFFFFFFF, -1, 0, 7, 8, 5))
    xids = st.sampled_from((*XIDS, None, 0, -1, 1 << 40))
    times = st.sampled_from((0.0, -1.0, 1e3, 1e18, float("nan"), float("inf")))
    return st.builds(Event, uuids, st.sampled_from(EventKind), xids, number, number, times)


def readings(uuid: str) -> st.SearchStrategy[Reading]:
    """Readings of one card: good, bad, unknown and mad ones."""
    counts = st.sampled_from((None, -1, 0, 3))
    fabrics = st.none() | st.builds(
        Fabric, st.sampled_from(FabricState), st.sampled_from((0, 23)), health_mask=st.sampled_from((0, 1, -1))
    )
    return st.builds(
        Reading,
        st.just(uuid),
        st.just(0.0),
        trilean,
        trilean,
        trilean,
        trilean,
        trilean,
        counts,
        st.sampled_from((None, -1, 0, 1, 2, 3, 99)),
        fabrics,
        st.sampled_from((None, (), (3,))),
        problems(uuid),
    )


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    """Scans of a node whose first card is cut: cards may be lost, away, swapped or doubled."""
    gpus: list[Gpu] = []
    for index in draw(st.lists(st.integers(0, CARDS - 1), max_size=CARDS + 1)):
        facts = {"lost": draw(st.booleans())}
        gpus.append(
            cut_card(0, *draw(st.sampled_from((PROFILES, (), PROFILES[:1]))), **facts)
            if not index
            else card(index, **facts)
        )
    if draw(st.booleans()):
        gpus.append(card(7, uuid=""))
    state = draw(st.sampled_from((DriverState.READY, DriverState.READY, *DriverState)))
    return Node(state=state, gpus=tuple(gpus), problems=draw(st.sampled_from(UUIDS).flatmap(problems)))


def start_node() -> Node:
    """All cards, well."""
    return Node(state=DriverState.READY, gpus=(cut_card(0, *PROFILES), *(card(index) for index in range(1, CARDS))))


injections = st.lists(
    st.builds(Injection, names, st.sampled_from(Verdict), st.sampled_from((None, 79))), max_size=2
).map(tuple)
everywhere: st.SearchStrategy[Evidence] = st.one_of(
    events(st.sampled_from((*UUIDS, *INSTANCES, "", None, "GPU-unheard-of"))),
    st.sampled_from((*UUIDS, "", "GPU-unheard-of")).flatmap(readings),
    st.builds(ScanSeen, nodes()),
    st.builds(DriverReloaded, st.frozensets(st.sampled_from(UUIDS))),
    st.builds(TakenUp, st.frozensets(st.sampled_from(UUIDS))),
    st.builds(Injected, injections),
    st.builds(
        ChecksFailed,
        st.sampled_from(("events", "states")),
        codes=st.dictionaries(st.sampled_from((*UUIDS, "GPU-unheard-of")), codes, max_size=3),
        openable=trilean,
        failures=st.integers(-1, 4),
    ),
    st.builds(Unanswered, st.sampled_from((*UUIDS, "", "GPU-unheard-of")), st.just("nvmlDeviceGetMemoryInfo")),
    st.builds(ChecksWorked, st.sampled_from(("events", "states"))),
    st.builds(Forgotten, st.sampled_from((*UUIDS, *INSTANCES, "", "GPU-unheard-of"))),
    st.just(PolicyChanged()),
    st.just(Tick()),
)
"""Any evidence at all."""
