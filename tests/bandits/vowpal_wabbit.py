"""Writes `vowpal_wabbit.json`, the probabilities of Vowpal Wabbit, which is not among this project's packages.

    python3 -m venv /tmp/vw && /tmp/vw/bin/pip install vowpalwabbit==9.11.9
    /tmp/vw/bin/python tests/bandits/vowpal_wabbit.py

Each program learns five decisions, then predicts sets of 1, 2 and 7 actions with different costs. A score is the cost
that it predicts for an action.
"""

import json
import pathlib

_OPTIONS = {
    "epsilon": "--epsilon 0.2",
    "softmax": "--softmax --lambda 3",
    "squarecb": "--squarecb --gamma_scale 10 --gamma_exponent 0.5",
    "squarecb_greedier": "--squarecb --gamma_scale 50 --gamma_exponent 0.75",
}
_LEARNED = 5
_SETS = ([0.4], [0.4, 0.1], [0.1, -0.3, 0.55, 0.2, 1.0, 0.9, 0.7])


def _lines(values: list[float], label: str = "") -> list[str]:
    first, *others = [f"| cost:{value}" for value in values]
    return [f"{label}{first}", *others]


def main() -> None:
    import vowpalwabbit

    cases = []
    for name, options in _OPTIONS.items():
        command = f"--cb_explore_adf {options} --cb_type mtr --noconstant --quiet"
        workspace = vowpalwabbit.Workspace(command)
        for _ in range(_LEARNED):
            workspace.learn(_lines([1.0, 0.2, 0.5], label="0:1.0:0.3 "))
        for values in _SETS:
            actions = workspace.parse(_lines(values))
            probabilities = workspace.predict(actions)
            scores = [action.get_partial_prediction() for action in actions]
            cases.append({"name": name, "command": command, "scores": scores, "probabilities": probabilities})
            workspace.finish_example(actions)
    content = {"version": vowpalwabbit.__version__, "learned": _LEARNED, "cases": cases}
    pathlib.Path(__file__).with_suffix(".json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
