"""Door to the kubelet: one gRPC server per resource, its registration and watchdog, and the pod resources client.

The only room that speaks gRPC. Everything runs on the one event loop of the process.
"""
