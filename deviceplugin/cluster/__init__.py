"""The optional door to the Kubernetes API: configuration by node label, node labels, events, a node condition.

Off by default, and loaded only when something of it is on. Nothing waits for it: every request has a deadline, every
failure is a `ClusterError` of a named kind that is counted, said once and tried again after a growing pause.
"""
