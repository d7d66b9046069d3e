"""Where labels go."""

from __future__ import annotations

from deviceplugin.config.document import Config, LabelSink


def sink(config: Config) -> LabelSink:
    """`labels.publish`; left to itself, flags.useNodeFeatureAPI decides as it does for NVIDIA's feature discovery."""
    chosen = config.labels.publish
    if chosen is LabelSink.AUTO and config.flags.use_node_feature_api:
        return LabelSink.NODE_FEATURE
    if chosen in {LabelSink.AUTO, LabelSink.FILE} and not config.flags.gfd.output_file:
        return LabelSink.OFF
    return chosen
