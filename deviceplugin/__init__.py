"""A Kubernetes device plugin for NVIDIA GPUs.

Storeys, top to bottom; a module imports only from storeys below its own:

    cli       argv and environment -> settings; subcommands
    daemon    composition root and supervisor: the one writer of the board
    kubelet | nvml | files | web | mps | cluster    doors to the world
    board     the current snapshot: publish, follow, close
    rules     pure decisions: offer, identify, prefer, allocate, judge, label, cdispec
    config    what users write, as frozen structs
    model     frozen values: node, inventory, health, snapshot, grant
"""

__version__ = "0.1.0"
