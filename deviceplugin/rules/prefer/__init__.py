"""Preferred allocation: which of the free devices a container should get.

Answers come from the snapshot alone. What depends on the hardware only is worked out once for a scan and kept while
snapshots share it. `closeness` measures a scan; `prefer` decides. Offering needs only the first, so nothing is
imported here.
"""
