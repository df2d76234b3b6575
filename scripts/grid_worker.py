"""Plays runs of grids, for processes and job arrays: `python -m scripts.grid_worker`; see `bandits.plans.player`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import sys

from bandits.plans import player

if __name__ == "__main__":
    sys.exit(player.main())
