"""Comparison of client-selection strategies. `run` starts this study from Python."""

from bandits import running

__getattr__ = running("bandits.client_selection.run_client_selection")
