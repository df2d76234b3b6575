"""Figures of the papers, as named grids with claims.

- Claims and numbers of the papers are written in `published/PAPER.toml`, beside the grids that test them.
- `figures` reads them as `plan.Figure`s, and `running` runs them.
- `results` reads and writes the records of runs, and compares their configurations with baselines.
- `claims` tests claims and numbers as one family for each figure; each kind of claim has a function in `KINDS`.
- `page` shows the verdicts in the terminal and on a page of all results; `pictures` draws.
"""
