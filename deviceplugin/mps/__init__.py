"""Door to CUDA MPS: NVIDIA's control daemon, one for each resource that is shared by it, and its folders.

`control` speaks to the program, `keeper` keeps one daemon running, `standing` says how a daemon is found, `ready` is
what the keeper leaves for the plugin to read, `places` knows the folders.
"""
