"""The door to the driver: finding and loading NVML, scanning a node, waiting for events, sampling.

`api` is the seam (the vendor's functions that are used), `library` finds and loads them, `probe` makes a `Node` of
what they say, `events` waits for Xids, `vitals` reads health states and load. NVML blocks, and hangs on sick hardware:
everything here is called from threads of its own (`worker`, `events`), never from the event loop.
"""
