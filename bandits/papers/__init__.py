"""Figures of the papers, as named grids with claims.

- Claims and numbers of the papers are written in `published/PAPER.toml`, beside the grids that test them.
- `figures` reads them as `plan.Figure`s, and `running` runs them.
- `results` measures runs as `Configuration`s and compares them with baselines, `records` keeps the numbers.
- `claims` tests claims and numbers as one family for each figure; each kind of claim has a function in `KINDS`.
- `scoreboard` holds the verdicts of a figure, for `pictures` and for the `page` of all results.
"""
