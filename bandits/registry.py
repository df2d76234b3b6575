"""Registry of policies, bandits and decision rules that can be selected by name, and their flags.

To add a policy, write a class in `bandits.policies`, add an entry to POLICIES, and add an entry to BANDITS for each
loss that it can be combined with. Entries refer to classes by name, so flags can be checked before any slow import.
"""

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any

from bandits import schedules
from data.settings import Parameter, Setting, parameters
from optimization.study import cli


@dataclasses.dataclass(frozen=True)
class PolicyEntry:
    """An exploration policy, or a decision rule.

    Attributes:
      target: `module:Class` of a `bandits.policies.Policy` or `bandits.decision_rules.DecisionRule`.
      parameters: The arguments of the class.
      help: One-line description of a decision rule; policies are described in BANDITS.
      breaks_ties: Whether it breaks ties between best actions, and therefore has the argument `first_of_ties`.
      scheduled: Name of the parameter that a schedule can change; empty for none.
      schedule: Fixed schedule from `schedule_flags` for that parameter; empty if `--bandits_schedule` selects one.
      exponent: Default exponent, if the fixed schedule is a power of time.
      heads: The flag `--bandits_heads` for the number of heads of its model; None for a single head.
      sums: Whether clients send sums over their interactions; see `bandits.linear_bandits`.
    """

    target: str
    parameters: Mapping[str, Parameter] = dataclasses.field(default_factory=dict)
    help: str = ""
    breaks_ties: bool = False
    scheduled: str = ""
    schedule: str = ""
    exponent: float | None = None
    heads: Parameter | None = None
    sums: bool = False

    @property
    def settings(self) -> Mapping[str, Parameter]:
        """The parameters that a run can set, including the number of heads of the model."""
        return {**self.parameters, **({"heads": self.heads} if self.heads else {})}

    def chosen(self, values: Mapping[str, float]) -> "PolicySpec":
        """Returns the policy's specification with these parameter values, without importing its class."""
        return PolicySpec(self.target, tuple(values.items()))


@dataclasses.dataclass(frozen=True)
class PolicySpec:
    """A policy or rule with its parameter values, whose class is not imported yet.

    Attributes:
      target: `module:Class`.
      parameters: The arguments of the class, except for one that a schedule changes.
      scheduled: Name of the scheduled parameter; empty for none.
      schedule: The schedule of that parameter, if there is one.
      label: Printed name of a user-defined policy; empty for policies in the registry.
    """

    target: str
    parameters: tuple[tuple[str, float | None], ...] = ()
    scheduled: str = ""
    schedule: schedules.Schedule | None = None
    label: str = ""

    def build(self, value: Any = None) -> Any:
        """Builds the policy. `value` is the scheduled value, or None if it is part of a round's input."""
        return load(self.target)(**dict(self.parameters), **({self.scheduled: value} if self.scheduled else {}))

    def with_schedule(self, schedule: schedules.Schedule, name: str) -> "PolicySpec":
        """Returns a copy in which a schedule sets the parameter `name`."""
        kept = tuple((known, value) for known, value in self.parameters if known != name)
        return PolicySpec(self.target, kept, name, schedule)


_MU = "inverse probability, before scaling, of a non-best action with reward gap 0; larger explores less"
_MU_OF_ACTIONS = Parameter(None, f"{_MU} (default: the number of actions)", above=True)
_INVERSE_GAP = "bandits.policies:InverseGapWeighting"
_LINEAR = {
    "width": Parameter(0.5, "factor of the deviation sqrt(x' V^-1 x), in units of the reward; higher explores more"),
    "ridge": Parameter(1.0, "lambda of the ridge regression, the inverse of the weights' prior variance", above=True),
    "theta_norm": Parameter(1.0, "with noise: assumed bound on the distance of the weights from their prior mean"),
    "noise_delta": Parameter(
        0.01, "with noise: probability that the noise exceeds its share of the width", above=True, high=0.5
    ),
    "bound": Parameter(1e4, "with secure sums: largest absolute value of a client's sums in a round", above=True),
}
POLICIES = {
    "greedy": PolicyEntry("bandits.policies:Greedy", breaks_ties=True),
    "uniform": PolicyEntry("bandits.policies:Uniform"),
    "epsilon_greedy": PolicyEntry(
        "bandits.policies:EpsilonGreedy",
        {"epsilon": Parameter(0.05, "probability of a uniformly random action", high=1.0)},
        breaks_ties=True,
        scheduled="epsilon",
    ),
    "epsilon_decay": PolicyEntry(
        "bandits.policies:EpsilonGreedy",
        {"epsilon": Parameter(0.2, "probability of a uniformly random action at t = 1", high=1.0)},
        breaks_ties=True,
        scheduled="epsilon",
        schedule=schedules.POWER,
        exponent=-1 / 3,  # Balances the cost and the benefit of exploring: docs/papers/agarwal2023.md.
    ),
    "softmax": PolicyEntry(
        "bandits.policies:Softmax",
        {"temperature": Parameter(0.05, "temperature (beta); lower is greedier", above=True)},
        scheduled="temperature",
    ),
    "falcon": PolicyEntry(
        _INVERSE_GAP,
        {
            "mu": Parameter(100.0, _MU, above=True),
            "gamma": Parameter(1000.0, "higher is greedier: actions with a reward gap far above 1/gamma are rare"),
        },
        breaks_ties=True,
        scheduled="gamma",
    ),
    "falcon_epochs": PolicyEntry(
        _INVERSE_GAP,
        {"mu": _MU_OF_ACTIONS, "gamma": Parameter(1.0, "factor of the square root in FALCON's formula for gamma")},
        breaks_ties=True,
        scheduled="gamma",
        schedule=schedules.EPOCHS,
    ),
    "squarecb": PolicyEntry(
        _INVERSE_GAP,
        {"mu": _MU_OF_ACTIONS, "gamma": Parameter(10.0, "gamma at t = 1")},
        breaks_ties=True,
        scheduled="gamma",
        schedule=schedules.POWER,
        exponent=0.5,
    ),
    "bag": PolicyEntry(
        "bandits.policies:Bag",
        breaks_ties=True,
        heads=Parameter(5, "number of heads (last layers) in the bootstrap ensemble", low=1, high=100, whole=True),
    ),
    "linucb": PolicyEntry("bandits.linear_bandits:LinUcb", _LINEAR, sums=True),
    "lints": PolicyEntry(
        "bandits.linear_bandits:LinTs",
        {
            **_LINEAR,
            "num_draws": Parameter(100, "number of draws; an action's probability is its share", low=1, whole=True),
            "floor": Parameter(0.001, "smallest probability of an action", above=True, high=1.0),
        },
        sums=True,
    ),
}


@dataclasses.dataclass(frozen=True)
class BanditEntry:
    """A value of `--bandits_type`: a policy, and the loss for training on its data.

    Attributes:
      policy: Name in POLICIES.
      help: One-line description.
      importance_weighted: Default value of `--importance_weighting`.
      cross_entropy: Whether model outputs are logits.
      supervised: Whether training uses the rewards of all actions.
      trains: Whether the model is trained at all.
    """

    policy: str
    help: str
    importance_weighted: bool = False
    cross_entropy: bool = False
    supervised: bool = False
    trains: bool = True

    @property
    def sums(self) -> bool:
        """Whether clients send sums that the policy depends on."""
        return POLICIES[self.policy].sums

    @property
    def learns(self) -> bool:
        """Whether the model is trained on the rewards of the policy's own actions."""
        return self.trains and not self.supervised


_LEARNING = {
    "greedy": BanditEntry("greedy", "best predicted action"),
    "epsilon_greedy_unweight": BanditEntry("epsilon_greedy", "epsilon-greedy, regression loss (Agarwal et al. 2023)"),
    "epsilon_greedy": BanditEntry(
        "epsilon_greedy", "epsilon-greedy, importance-weighted loss", importance_weighted=True
    ),
    "epsilon_decay": BanditEntry("epsilon_decay", "epsilon-greedy with a decaying exploration rate, regression loss"),
    "softmax": BanditEntry("softmax", "softmax of predicted rewards"),
    "falcon": BanditEntry("falcon", "inverse gap weighting"),
    "falcon_epochs": BanditEntry("falcon_epochs", "inverse gap weighting with FALCON's epoch schedule for gamma"),
    "squarecb": BanditEntry("squarecb", "inverse gap weighting with gamma proportional to a power of time (SquareCB)"),
    "bag": BanditEntry("bag", "votes of a bootstrap ensemble of heads"),
}
BANDITS = {
    **_LEARNING,
    "uniform": BanditEntry("uniform", "uniformly random actions"),
    **{
        # In the names of the paper's published code, the loss comes before the weighting.
        "{}_ce{}".format(*name.partition("_unweight")): dataclasses.replace(
            entry, help=f"same as {name}, with cross-entropy loss", cross_entropy=True
        )
        for name, entry in _LEARNING.items()
    },
    "supervised_mse": BanditEntry("greedy", "full feedback, squared loss", supervised=True),
    "supervised_ce": BanditEntry("greedy", "full feedback, cross-entropy loss", supervised=True, cross_entropy=True),
    "init": BanditEntry("greedy", "greedy on the initial model, never trained (baseline)", trains=False),
    "linucb": BanditEntry("linucb", "upper confidence bounds of a linear model, from sums (LinUCB)", trains=False),
    "lints": BanditEntry("lints", "Thompson sampling of a linear model, from sums", trains=False),
    "neural_linucb": BanditEntry("linucb", "linucb on the last layer of a model; see --statistics"),
    "neural_lints": BanditEntry("lints", "lints on the last layer of a model; see --statistics"),
}


def chosen(settings: Mapping[str, Any]) -> BanditEntry:
    """Returns the bandit of a run's settings, which does not train if statistics belong to a frozen model."""
    entry = BANDITS[settings["bandits_type"]]
    return dataclasses.replace(entry, trains=False) if settings["statistics"] == "freeze" else entry


# From names in the paper's published code to the different names here.
PUBLISHED_NAMES = {"epsilon_greedy_ce_unw": "epsilon_greedy_ce_unweight"}


# Decision rules, and the parameters that `--rule_NAME` sets.
_EPSILON = Parameter(0.1, "probability of a random action", high=1.0)
_ALPHA = Parameter(None, "step size towards each new reward (default: 1/n, the sample mean)", high=1.0, above=True)
_GAMMA = Parameter(0.75, "discount factor: weight relative to the next reward; 1 for no discount", high=1.0, above=True)
_C = Parameter(1.0, "weight of the confidence interval", above=True)
_INITIAL = Parameter(0.0, "initial estimate of an untried action; an optimistic start if above all rewards", low=-1e6)

_PRIOR = {
    "prior_alpha": Parameter(1.0, "prior successes per action, alpha_0", above=True),
    "prior_beta": Parameter(1.0, "prior failures per action, beta_0", above=True),
}

_GREEDY = {"initial_value": _INITIAL, "alpha": _ALPHA}
_EXPLORING = {"epsilon": _EPSILON} | _GREEDY
_MODULE = "bandits.decision_rules"
RULES: Mapping[str, PolicyEntry] = {
    "greedy": PolicyEntry(f"{_MODULE}:Greedy", _GREEDY, "the action with the best estimate"),
    "epsilon_greedy": PolicyEntry(
        f"{_MODULE}:EpsilonGreedy", _EXPLORING, "greedy, but a random action with probability epsilon"
    ),
    "epsilon_nongreedy": PolicyEntry(
        f"{_MODULE}:EpsilonNonGreedy", _EXPLORING, "greedy, but a random non-greedy action with probability epsilon"
    ),
    "ucb": PolicyEntry(f"{_MODULE}:Ucb", {"c": _C, "alpha": _ALPHA}, "upper confidence bound"),
    "discounted_ucb": PolicyEntry(
        f"{_MODULE}:Ucb", {"c": _C, "gamma": _GAMMA}, "upper confidence bound on discounted rewards"
    ),
    "thompson": PolicyEntry(f"{_MODULE}:Thompson", _PRIOR, "Thompson sampling for binary rewards"),
    "discounted_thompson": PolicyEntry(
        f"{_MODULE}:Thompson", {"gamma": _GAMMA} | _PRIOR, "Thompson sampling for discounted binary rewards"
    ),
    "extreme_explore": PolicyEntry(f"{_MODULE}:ExtremeExplore", {"alpha": _ALPHA}, "every action in every round"),
    "bayesian_extreme_explore": PolicyEntry(
        f"{_MODULE}:BayesianExtremeExplore", _PRIOR, "every action in every round, Beta posteriors for binary rewards"
    ),
}
# Rules whose rewards must be 0 or 1.
BINARY = frozenset({"thompson", "discounted_thompson", "bayesian_extreme_explore"})
# Rules that execute every action in every round.
EXTREME = frozenset({"extreme_explore", "bayesian_extreme_explore"})


def load(target: str) -> Any:
    """Imports the object named `module:attribute`."""
    module, attribute = target.split(":")
    return getattr(importlib.import_module(module), attribute)


def rule_settings(rules: Mapping[str, PolicyEntry], default: str) -> list[Setting]:
    """Returns the flags `--decision_rule`, and `--rule_NAME` for every parameter of the rules.

    Args:
      rules: The rules that the program offers: RULES, or some of them together with its own rules.
      default: Name of the default rule.
    """
    choices = {name: entry.help for name, entry in rules.items()}
    chosen = Setting("decision_rule", choices, "Rule that chooses the actions", default, basic=True)
    return [chosen, *parameters("rule_", "decision_rule", {name: entry.parameters for name, entry in rules.items()})]


def rule_values(settings: cli.Settings, rules: Mapping[str, PolicyEntry]) -> dict[str, float]:
    """Returns the parameter values of the chosen rule."""
    return {name: settings[f"rule_{name}"] for name in rules[settings.decision_rule].parameters}
