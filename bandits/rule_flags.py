"""Decision rules by name, with their parameters and flags, for every binary that uses them; needs no TensorFlow."""

from collections.abc import Mapping

from bandits.registry import PolicyEntry
from optimization.study import cli
from optimization.study.settings import Parameter

_EPSILON = Parameter(0.1, "probability of an action at random", high=1.0)
_ALPHA = Parameter(None, "step towards each new reward (default: the sample mean's)", high=1.0, above=True)
_GAMMA = Parameter(0.75, "weight of a reward relative to that of the next; 1 discounts nothing", high=1.0, above=True)
_C = Parameter(1.0, "weight of the confidence interval", above=True)
_INITIAL = Parameter(0.0, "estimate of an action never executed; above all rewards: optimistic start", low=-1e6)

_PRIOR = {
    "prior_alpha": Parameter(1.0, "prior successes of each action, alpha_0", above=True),
    "prior_beta": Parameter(1.0, "prior failures of each action, beta_0", above=True),
}

_GREEDY = {"initial_value": _INITIAL, "alpha": _ALPHA}
_EXPLORING = {"epsilon": _EPSILON} | _GREEDY
_MODULE = "bandits.decision_rules"
RULES: Mapping[str, PolicyEntry] = {
    "greedy": PolicyEntry(f"{_MODULE}:Greedy", _GREEDY, "the action with the best estimate"),
    "epsilon_greedy": PolicyEntry(
        f"{_MODULE}:EpsilonGreedy", _EXPLORING, "greedy, or any action with probability epsilon"
    ),
    "epsilon_nongreedy": PolicyEntry(
        f"{_MODULE}:EpsilonNonGreedy", _EXPLORING, "greedy, or any other action with probability epsilon"
    ),
    "ucb": PolicyEntry(f"{_MODULE}:Ucb", {"c": _C, "alpha": _ALPHA}, "upper confidence bound"),
    "discounted_ucb": PolicyEntry(
        f"{_MODULE}:Ucb", {"c": _C, "gamma": _GAMMA}, "upper confidence bound of discounted rewards"
    ),
    "thompson": PolicyEntry(f"{_MODULE}:Thompson", _PRIOR, "Thompson sampling of binary rewards"),
    "discounted_thompson": PolicyEntry(
        f"{_MODULE}:Thompson", {"gamma": _GAMMA} | _PRIOR, "Thompson sampling of discounted binary rewards"
    ),
    "extreme_explore": PolicyEntry(f"{_MODULE}:ExtremeExplore", {"alpha": _ALPHA}, "every action every round"),
    "bayesian_extreme_explore": PolicyEntry(
        f"{_MODULE}:BayesianExtremeExplore", _PRIOR, "every action every round, Beta posteriors of binary rewards"
    ),
}
# Rules whose rewards must be 0 or 1.
BINARY = frozenset({"thompson", "discounted_thompson", "bayesian_extreme_explore"})
# Rules that execute every action in every round.
EXTREME = frozenset({"extreme_explore", "bayesian_extreme_explore"})


def define(flags: cli.FlagSet, rules: Mapping[str, PolicyEntry], default: str) -> None:
    """Defines `--decision_rule`, and `--rule_NAME` for every parameter of the rules, in the current group.

    Args:
      flags: Where to.
      rules: RULES, or the binary's choice of them and its own.
      default: Default rule.
    """
    choices = {name: entry.help for name, entry in rules.items()}
    flags.choice("decision_rule", default, choices, "what chooses the actions")
    flags.parameters("rule_", "decision_rule", {name: entry.parameters for name, entry in rules.items()})


def values(settings: cli.Settings, rules: Mapping[str, PolicyEntry]) -> dict[str, float]:
    """Returns the parameters of the chosen rule, for `rules[settings.decision_rule].build`."""
    return {name: settings[f"rule_{name}"] for name in rules[settings.decision_rule].parameters}
