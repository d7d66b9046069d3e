"""Findings that no file of the corpus shows: mostly warnings."""

from __future__ import annotations

import pytest

from deviceplugin.config.load import load
from deviceplugin.model.errors import ConfigError

ENVVAR = (
    "flags.plugin.deviceListStrategy: under envvar any image that sets NVIDIA_VISIBLE_DEVICES=all sees every GPU; "
    "volume-mounts, cdi-annotations and cdi-cri cannot be forged"
)


def warnings(text: str) -> list[str]:
    found = load({"--config-file": "f", "--device-list-strategy": "cdi-cri"}, {}, lambda _: text.encode()).warnings
    return [warning.removeprefix("f:") for warning in found]


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load({"--config-file": "f"}, {}, lambda _: text.encode())
    return [problem.removeprefix("f:") for problem in caught.value.problems]


def test_a_sound_configuration_has_none() -> None:
    assert warnings("version: v1") == []


def test_the_default_strategy_can_be_forged() -> None:
    assert load({}, {}).warnings == (ENVVAR,)


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (
            'resources: {gpus: [{pattern: "*", name: ""}, {pattern: A, name: a}]}',
            "1:46: resources.gpus[1]: is never reached: resources.gpus[0] matches all; put it before that",
        ),
        (
            'resources: {gpus: [{pattern: ".*A100", name: a}]}',
            '1:21: resources.gpus[0].pattern: only * is special in ".*A100"; it is no regular expression',
        ),
        (
            'resources: {mig: [{pattern: "1g*", name: a}]}',
            "1:13: resources.mig: has no effect under migStrategy none; write single or mixed",
        ),
        (
            "imex: {required: true}",
            "1:8: imex.required: has no effect without imex.channelIDs; write channelIDs: [0]",
        ),
        (
            "health: {injectFile: /run/inject}",
            "1:10: health.injectFile: whoever writes this file can make GPUs Unhealthy; for rehearsals only",
        ),
        (
            "metrics: {basicAuthFile: /users}",
            "1:11: metrics.basicAuthFile: passwords travel in the clear without metrics.tlsCert and tlsKey",
        ),
        (
            "labels: {publish: node}",
            "1:10: labels.publish: needs this node's name; set the variable NODE_NAME from spec.nodeName",
        ),
        (
            "flags: {useNodeFeatureAPI: true}",
            "1:9: flags.useNodeFeatureAPI: needs this node's name; set the variable NODE_NAME from spec.nodeName",
        ),
        (
            "cluster: {events: true}",
            "1:11: cluster.events: needs this node's name; set the variable NODE_NAME from spec.nodeName",
        ),
    ],
)
def test_what_works_and_is_odd(text: str, warning: str) -> None:
    assert warnings(text) == [warning]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            'resources: {gpus: [{pattern: ">=80Gi", name: a}]}',
            (
                "1:21: resources.gpus[0].pattern: is compared with product names; for an amount of memory write "
                '{pattern: "*", memory: ">=80Gi"}'
            ),
        ),
        (
            'resources: {gpus: [{pattern: "*", pci: " ", name: a}]}',
            '1:35: resources.gpus[0].pci: is empty and matches nothing; write "*" for everything',
        ),
        (
            "flags: {mpsRoot: /m}\nsharing: {mps: {resources: [{name: a, replicas: 2, memoryLimit: 0Gi}]}}",
            "2:52: sharing.mps.resources[0].memoryLimit: must be more than 0; write share for an equal part",
        ),
        ("flags:\n  <<: 3\n", '2:7: flags: "<<" takes an alias of a section; write "<<: *name"'),
        (
            "flags: {deviceIDStrateg: uuid}",
            "1:9: flags.deviceIDStrateg: is not known here; did you mean deviceIDStrategy under flags.plugin?",
        ),
        (
            'sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2, devices: "some"}]}}',
            (
                "1:62: sharing.timeSlicing.resources[0].devices: must be all, a count, or a list such as "
                '[0, GPU-...], is "some"'
            ),
        ),
        (
            "metrics: {address: 'localhost'}",
            '1:11: metrics.address: must be host:port, [v6]:port or :port, is "localhost"; write for example ":9400"',
        ),
        (
            "metrics: {address: '::1:9400'}",
            '1:11: metrics.address: must be host:port, [v6]:port or :port, is "::1:9400"; write for example ":9400"',
        ),
        (
            "metrics: {address: ':70000'}",
            '1:11: metrics.address: must be host:port, [v6]:port or :port, is ":70000"; write for example ":9400"',
        ),
        (
            "? [a]\n: 1\n",
            '1:3: a key must be a word; a template such as "{{ ... }}" was not rendered, or a text lacks its quotes',
        ),
        ("flags: {mpsRoot: '", '1:18: is no YAML: found unexpected end of stream at "\'"; a closing quote is missing'),
        (
            'health: {fatal: ["79"]}',
            '1:18: health.fatal[0]: must be a whole number, is the text "79"; remove the quotes',
        ),
        ('health: {fatal: "79"}', '1:17: health.fatal: must be a list, is the text "79"; write it as a list'),
        ('flags: "x:y"', '1:8: flags: must be a section ("key: value" lines), is the text "x:y"'),
        (
            "a key with blanks: 1",
            (
                '1:1: a key with blanks: is not known here; "a key with blanks" holds a blank; the keys here are '
                "version, flags, resources, sharing, imex, devices, health, kubelet, daemon, metrics, labels, cdi, "
                "cluster"
            ),
        ),
    ],
)
def test_what_is_wrong(text: str, problem: str) -> None:
    assert problems(text) == [problem]


def test_an_explicit_tag_of_yaml_is_as_good_as_none() -> None:
    text = "flags: {mpsRoot: !!str /x, gdsEnabled: !!bool 'true', migStrategy: !!null '', plugin: !!map {}}"
    config = load({"--config-file": "f"}, {}, lambda _: text.encode()).config
    assert (config.flags.mps_root, config.flags.gds_enabled) == ("/x", True)
