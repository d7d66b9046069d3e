"""What holds of the labels of any node under any configuration."""

import re
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from deviceplugin.config.document import Config, Flags, MigStrategy, Replicas, Replicated, SharingSection
from deviceplugin.model.hostfacts import HostDriver, HostFacts
from deviceplugin.model.node import Node
from deviceplugin.model.snapshot import Snapshot
from deviceplugin.rules.label import is_ours, label
from deviceplugin.rules.label.spell import joined, key, shorten, spell
from deviceplugin.rules.offer import offer
from tests.strategies.nodes import nodes

LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
NASTY = st.text(max_size=120) | st.sampled_from(
    ("NVIDIA  H100\t(80GB)", "-_.", "Ünïcode GPU", "X" * 200, "a" * 62 + "-b")
)

configs = st.builds(
    lambda strategy, block: Config(flags=Flags(mig_strategy=strategy), sharing=block),
    st.sampled_from(MigStrategy),
    st.sampled_from(
        (
            SharingSection(),
            SharingSection(time_slicing=Replicated(resources=(Replicas(name="nvidia.com/gpu", replicas=3),))),
            SharingSection(mps=Replicated(resources=(Replicas(name="nvidia.com/gpu", replicas=2),))),
        )
    ),
)


@st.composite
def nasty_nodes(draw: st.DrawFn) -> Node:
    node = draw(nodes())
    named = tuple(replace(gpu, name=draw(st.just(gpu.name) | NASTY)) for gpu in node.gpus)
    return replace(node, gpus=named, machine=draw(NASTY), driver_version=draw(NASTY))


def labels_of(node: Node, config: Config, facts: HostFacts | None = None) -> dict[str, str]:
    found = label(Snapshot(node, offer(node, config)), config, facts or HostFacts())
    assert found is not None
    return dict(found)


@given(nasty_nodes(), configs, NASTY)
def test_every_label_is_one_that_kubernetes_takes_and_is_ours(node: Node, config: Config, text: str) -> None:
    for name, value in labels_of(node, config, HostFacts(hypervisor=HostDriver(text, text))).items():
        domain, _, short = name.partition("/")
        assert domain == "nvidia.com"
        assert LABEL.fullmatch(short), name
        assert LABEL.fullmatch(value), (name, value)
        assert is_ours(name)


@given(nasty_nodes(), configs, st.randoms())
def test_the_order_in_which_cards_and_instances_are_found_changes_no_label(
    node: Node, config: Config, random: Random
) -> None:
    gpus = list(node.gpus)
    random.shuffle(gpus)
    turned = tuple(
        replace(gpu, index=index, instances=tuple(random.sample(gpu.instances, len(gpu.instances))))
        for index, gpu in enumerate(gpus)
    )
    assert labels_of(replace(node, gpus=turned), config) == labels_of(node, config)


@given(nasty_nodes(), configs)
def test_the_same_node_always_has_the_same_labels(node: Node, config: Config) -> None:
    first = labels_of(node, config)
    assert labels_of(replace(node), config) == first
    assert list(first) == sorted(first)


@given(NASTY, st.lists(NASTY, max_size=3))
def test_spelt_texts_are_labels_or_empty(text: str, rest: list[str]) -> None:
    for made in (shorten(spell(text)), joined(text, *rest), joined("", text)):
        assert not made or LABEL.fullmatch(made), made
    if spell(text):
        assert LABEL.fullmatch(key("gpu", text, "count").removeprefix("nvidia.com/"))


@given(st.text("ab-_.", min_size=1, max_size=90), st.text("ab-_.", min_size=1, max_size=90))
def test_shortening_keeps_different_texts_different(one: str, other: str) -> None:
    one, other = spell(one), spell(other)
    assert (shorten(one) == shorten(other)) == (one == other)
