"""The comparison of client selection; `run` starts it from Python."""

from bandits import running

__getattr__ = running("bandits.client_selection.run_client_selection")
