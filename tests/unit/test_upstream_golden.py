"""A ConfigMap as clusters with NVIDIA's plugin have it gives that plugin's names, ids and answers, whole lists too."""

import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest
import yaml

import fake_nvml
from deviceplugin.config.load import Loaded, load
from deviceplugin.model.errors import RequestError
from deviceplugin.model.grant import Grant
from deviceplugin.model.node import Node
from deviceplugin.model.snapshot import Snapshot
from deviceplugin.nvml.driver import Driver
from deviceplugin.rules.allocate import allocate
from deviceplugin.rules.offer import offer

GOLDEN = Path(__file__).parents[1] / "golden" / "upstream"
CONFIGMAP = yaml.safe_load((GOLDEN / "configmap.yaml").read_text())["data"]
SYMBOL = re.compile(r"\b([GM])(\d+)(?::(\d+|\*))?(?!\w)")


def cases() -> dict[str, list[str]]:
    """Heading -> its lines."""
    found: dict[str, list[str]] = {}
    for line in (GOLDEN / "answers.txt").read_text().splitlines():
        if line.startswith("["):
            found[line.strip("[]")] = rows = []
        elif line and not line.startswith("#"):
            rows.append(line)
    return found


CASES = cases()


@pytest.fixture
def machine(request: pytest.FixtureRequest) -> Iterator[fake_nvml.Fake]:
    with fake_nvml.open(request.param) as fake:
        yield fake


@cache
def loaded(name: str) -> Loaded:
    return load({"--config-file": f"{name}.yaml"}, {}, read=lambda _: CONFIGMAP[name].encode())


def real(text: str, node: Node) -> str:
    """The text with symbols as UUIDs."""

    def uuid(match: re.Match[str]) -> str:
        gpu = node.gpus[int(match[2])]
        if match[1] == "G":
            return gpu.uuid
        slots = [i.uuid for i in sorted(gpu.instances, key=lambda i: i.slot) if match[3] in ("*", str(i.slot))]
        return " ".join(slots)

    return SYMBOL.sub(uuid, text)


def spelt(grant: Grant) -> list[str]:
    """What a container gets, as the golden file spells it."""
    words = [f"env {name}={value}" for name, value in grant.envs.items()]
    words += [f"mount {mount.host_path}:{mount.container_path}" for mount in grant.mounts]
    words += [f"device {node.host_path}:{node.container_path}" for node in grant.devices]
    words += [f"note {key}={value}" for key, value in grant.annotations.items()]
    words += [f"cdi {name}" for name in grant.cdi]
    assert all(node.permissions == "rw" for node in grant.devices)
    return sorted(words)


def asked(snapshot: Snapshot, name: str, ids: Sequence[str]) -> list[str]:
    """The answer in those words, or `refused` and why."""
    resource = snapshot.inventory.resources[name]
    try:
        return spelt(allocate(snapshot, resource, ids, os.path.exists, lambda: "unique"))
    except RequestError as error:
        return ["refused", str(error)]


def written(answer: str) -> list[str]:
    return sorted(word.strip() for word in re.split(r" (?=(?:env|mount|device|note|cdi) )", answer))


def test_every_configuration_of_the_configmap_has_answers() -> None:
    assert {heading.partition(" on ")[0] for heading in CASES} == set(CONFIGMAP)


@pytest.mark.parametrize(
    ("heading", "machine"), [(heading, heading.partition(" on ")[2]) for heading in CASES], indirect=["machine"]
)
def test_names_ids_and_answers_are_upstream_s(heading: str, machine: fake_nvml.Fake) -> None:
    config = loaded(heading.partition(" on ")[0]).config
    node = Driver(machine.nvml, str(machine.root)).scan()
    inventory = offer(node, config, str(machine.root))
    assert inventory.conflicts == ()
    offers = [real(line, node) for line in CASES[heading] if line.startswith("offer ")]
    listed = {name: " ".join(resource.by_id) for name, resource in inventory.resources.items()}
    wanted = dict(line.removeprefix("offer ").split(": ") for line in offers if line != "offer nothing")
    assert listed == wanted
    snapshot = Snapshot(node=node, inventory=inventory)
    for line in CASES[heading]:
        if line.startswith("offer "):
            continue
        request, _, answer = real(line, node).partition(" -> ")
        name, *ids = request.split()
        said = asked(snapshot, name, ids)
        if answer.startswith("refused "):
            assert said[0] == "refused", line
            assert answer.removeprefix("refused ") in said[1]
        else:
            assert said == written(answer), line
