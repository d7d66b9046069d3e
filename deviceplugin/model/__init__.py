"""Frozen values that every room shares. Standard library only; nothing here acts, reads or waits."""
