"""A random walk over everything that can happen to a node, with an independent model of what should be offered.

`python -m tests.chaos --seed N --seconds S` walks; the same seed walks the same way. A walk goes in stretches: some
deeds in a row, then a rest in which the lists must come to be what the model says, and stay so.
"""
