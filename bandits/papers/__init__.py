"""Figures of the papers, as named grids with claims.

- Claims and numbers of the papers are written in `published/PAPER.toml`, beside the grids that test them.
- `texts` reads them as `plan.Figure`s, `running` runs them, `results` measures runs, `records` keeps the numbers.
- `claims` tests claims and numbers as one family for each figure; each kind of claim has a function in `KINDS`.
- `figure_baselines` compares numbers with the uniform policy, the best fixed action and full feedback.
- `scoreboard` holds the verdicts of a figure, for `pictures` and for the `page` of all results.
"""
