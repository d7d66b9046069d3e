"""Admission of pods: which devices a container gets, and the calls to the plugin about it."""

import random
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeVar

import grpc

from tests.fake_kubelet.books import Books, Entry, merge
from tests.fake_kubelet.connection import Connection, describe
from tests.fake_kubelet.devices import DeviceManager, Journal, Resource
from tests.fake_kubelet.model import AdmissionFailed, Admitted, Grant, Pod
from tests.fake_kubelet.topology import Demand, Hint, Policy, admits, best_hint, hints, split

UNEXPECTED = "UnexpectedAdmissionError"
MISALIGNED = "TopologyAffinityError"
Reuse = dict[str, set[str]]
T = TypeVar("T")


class Admission:
    """Admits pods one at a time against the device manager of the kubelet's present life."""

    def __init__(
        self,
        manager: DeviceManager,
        books: Books,
        journal: Journal,
        *,
        policy: Policy | None,
        randomness: random.Random,
    ) -> None:
        self._manager = manager
        self._books = books
        self._journal = journal
        self._policy = policy
        self._random = randomness

    def admit(self, pod: Pod) -> Admitted:
        """Gives every container its devices.

        Raises:
            AdmissionFailed: Nothing of the pod stays behind then.
        """
        if pod.key in self._books.pods:
            raise ValueError(f"pod {pod.name} in {pod.namespace} is there already: delete it first")
        reuse: Reuse = {}
        try:
            for name, wanted in pod.init_containers.items():
                self._container(pod, name, wanted.items(), reuse)
                for entry in self._books.of(pod.key, name):
                    reuse.setdefault(entry.resource, set()).update(entry.ids)
            for name, wanted in pod.containers.items():
                self._container(pod, name, wanted.items(), reuse)
                for entry in self._books.of(pod.key, name):
                    reuse.setdefault(entry.resource, set()).difference_update(entry.ids)
            self._books.pods[pod.key] = pod
            names = (*pod.init_containers, *pod.containers)
            return Admitted(pod, {name: self.start_container(pod, name) for name in names})
        except AdmissionFailed:
            self._books.drop(pod.key)
            raise
        finally:
            self._books.registered = self._manager.known()
            self._books.save()

    def start_container(self, pod: Pod, container: str) -> Grant:
        """What the container is started with, the first time or again: the stored answers, no Allocate."""
        entries = self._books.of(pod.key, container)
        for entry in entries:
            known = self._manager.resource(entry.resource)
            if known is not None and known.options.pre_start_required:
                connection = _connected(entry.resource, known)
                _call(partial(connection.pre_start, self._shuffled(entry.ids)), "PreStartContainer")
        grant = merge(entries)
        for conflict in grant.conflicts:
            self._journal.narrate(f"{pod.name}/{container}: {conflict}")
        return grant

    def _container(self, pod: Pod, name: str, wanted: Iterable[tuple[str, int]], reuse: Reuse) -> None:
        wants = [(resource, size) for resource, size in wanted if size > 0]
        self._random.shuffle(wants)
        known = {resource: self._known(resource) for resource, _ in wants}
        demands = {
            resource: Demand(
                size=size,
                nodes={id_: item.nodes for id_, item in known[resource].devices.items()},
                available=_healthy(known[resource]) - self._books.in_use(resource),
                reusable=frozenset(reuse.get(resource, ())),
            )
            for resource, size in wants
        }
        hint = self._hint(list(demands.values()))
        for resource, demand in demands.items():
            ids = self._choose(resource, known[resource], demand, hint)
            self._allocate(pod, name, resource, ids)

    def _known(self, resource: str) -> Resource:
        known = self._manager.resource(resource)
        if known is None:
            raise AdmissionFailed(f"OutOf{resource}", f"the node has no {resource}")
        return known

    def _hint(self, demands: list[Demand]) -> Hint | None:
        if self._policy is None or not demands:
            return None
        machine = frozenset(node for name in self._manager.views() for node in self._nodes(name))
        hint = best_hint(self._policy, [hints(demand, machine) for demand in demands], machine)
        if not admits(self._policy, hint):
            raise AdmissionFailed(MISALIGNED, f"policy {self._policy} finds no fitting NUMA nodes")
        return hint

    def _nodes(self, resource: str) -> set[int]:
        known = self._manager.resource(resource)
        return {node for item in known.devices.values() for node in item.nodes} if known else set()

    def _choose(self, resource: str, known: Resource, demand: Demand, hint: Hint | None) -> list[str]:
        if not _healthy(known):
            raise AdmissionFailed(UNEXPECTED, f"no healthy {resource} is present")
        chosen: list[str] = []

        def take(ids: Iterable[str]) -> bool:
            fresh = self._shuffled(set(ids) - set(chosen))
            chosen.extend(fresh[: demand.size - len(chosen)])
            return len(chosen) == demand.size

        if take(demand.reusable):
            return chosen
        free = demand.available
        if len(free - set(chosen)) < demand.size - len(chosen):
            raise AdmissionFailed(
                UNEXPECTED,
                f"too few devices of {resource}: {demand.size - len(chosen)} wanted, {len(free)} free",
            )
        parts = split(demand, hint)
        if demand.size - len(chosen) < len(parts.aligned):
            take(self._preferred(resource, known, parts.aligned, chosen, demand.size) & parts.aligned)
            take(parts.aligned)
            return chosen
        if take(parts.aligned):
            return chosen
        if not take(self._preferred(resource, known, free, chosen, demand.size) & free):
            _ = take(parts.unaligned) or take(parts.without)
        return chosen

    def _preferred(
        self, resource: str, known: Resource, offered: frozenset[str], chosen: list[str], size: int
    ) -> set[str]:
        if not known.options.preferred_allocation:
            return set()
        available, must = offered | set(chosen), self._shuffled(chosen)
        connection = _connected(resource, known)
        answer = _call(lambda: connection.preferred(self._shuffled(available), must, size), "GetPreferredAllocation")
        found = list(_broken_laws(answer, available, set(must), size))
        self._journal.violations.extend(f"{resource}: GetPreferredAllocation {law}" for law in found)
        return set(answer or ())

    def _allocate(self, pod: Pod, container: str, resource: str, ids: list[str]) -> None:
        known = self._known(resource)
        connection = _connected(resource, known)
        answer = _call(lambda: connection.allocate(self._shuffled(ids)), "Allocate")
        if len(answer.container_responses) != 1:
            count = len(answer.container_responses)
            self._journal.violations.append(f"{resource}: Allocate answered for {count} containers, not 1")
            if not count:
                raise AdmissionFailed(UNEXPECTED, f"Allocate of {resource} answered for no container")
        nodes = {id_: known.devices[id_].nodes if id_ in known.devices else () for id_ in ids}
        stored = answer.container_responses[0].SerializeToString()
        self._books.entries.append(Entry(pod.key, container, resource, nodes, stored))

    def _shuffled(self, ids: Iterable[str]) -> list[str]:
        in_order = sorted(ids)
        return self._random.sample(in_order, len(in_order))


def _healthy(known: Resource) -> frozenset[str]:
    return frozenset(id_ for id_, item in known.devices.items() if item.healthy)


def _connected(resource: str, known: Resource) -> Connection:
    if known.connection is None:
        raise AdmissionFailed(UNEXPECTED, f"the endpoint of {resource} has stopped")
    return known.connection


def _call(ask: Callable[[], T], name: str) -> T:
    try:
        return ask()
    except grpc.RpcError as error:
        raise AdmissionFailed(UNEXPECTED, f"{name}: {describe(error)}", error.code()) from error
    except ValueError as error:  # gRPC's word for a channel that was closed meanwhile
        raise AdmissionFailed(UNEXPECTED, f"{name}: {error}") from error


def _broken_laws(answer: list[str] | None, available: frozenset[str], must: set[str], size: int) -> Iterator[str]:
    if answer is None:
        yield "answered for no container"
        return
    if len(answer) != size:
        yield f"answered {len(answer)} ids instead of {size}"
    if len(set(answer)) != len(answer):
        yield f"answered an id twice: {sorted(answer)}"
    if not set(answer) <= available:
        yield f"answered ids that were not available: {sorted(set(answer) - available)}"
    if not must <= set(answer):
        yield f"left out ids that must be included: {sorted(must - set(answer))}"
