"""Worlds whose true rewards f* are known and lie in the class F that is fitted (Agarwal et al. 2023, Assumption 1).

Clients differ in their contexts only, up to disjoint supports: given context and action, all see the same rewards.
Rewards are 0 or 1, with mean f*(context, action).
"""

import dataclasses

import numpy as np

MIDDLE = 0.5  # What an action earns that is neither good nor bad.


@dataclasses.dataclass(frozen=True, eq=False)
class FiniteWorld:
    """Finitely many contexts, actions and functions.

    F is a product: a function takes one of a context's candidate rows at each context, so that the best fit is found
    context by context, however many functions there are.

    Attributes:
      rewards: float64 [contexts, actions] in [0, 1], f*.
      candidates: float64 [contexts, candidates, actions] in [0, 1], each context's rows, f*'s among them; a row may
        stand there more than once.
      client_contexts: float64 [clients, contexts], each client's distribution of contexts, D_c.
      client_weights: float64 [clients], the distribution of clients, p.

    Raises:
      ValueError: If something is no distribution or no reward, or f* is not in F.
    """

    rewards: np.ndarray
    candidates: np.ndarray
    client_contexts: np.ndarray
    client_weights: np.ndarray

    def __post_init__(self):
        for name in ("rewards", "candidates"):
            values = getattr(self, name)
            if not ((values >= 0) & (values <= 1)).all():
                raise ValueError(f"{name} must lie in [0, 1], got {values.min():g} to {values.max():g}")
        for name in ("client_contexts", "client_weights"):
            values = getattr(self, name)
            if (values < 0).any() or not np.allclose(values.sum(axis=-1), 1):
                raise ValueError(f"{name} must be distributions: sums are {values.sum(axis=-1)}")
        if not (self.candidates == self.rewards[:, None]).all(axis=2).any(axis=1).all():
            raise ValueError("candidates must hold the row of rewards at each context")

    @property
    def contexts(self) -> np.ndarray:
        """Float64 [contexts], how often each context comes, whoever brings it."""
        return self.client_weights @ self.client_contexts

    @property
    def num_actions(self) -> int:
        """K."""
        return self.rewards.shape[1]

    @property
    def log_class_size(self) -> float:
        """The logarithm of the number of functions, ln |F|."""
        return float(sum(np.log(len(np.unique(rows, axis=0))) for rows in self.candidates))

    @property
    def exploration_cost(self) -> float:
        """E[max f* - mean f*], what a uniformly random action loses."""
        return float(self.contexts @ (self.rewards.max(axis=1) - self.rewards.mean(axis=1)))


def one_client(rewards: np.ndarray, candidates: np.ndarray, contexts: np.ndarray | None = None) -> FiniteWorld:
    """Returns a world whose clients are all alike; contexts, float64 [contexts], are equally frequent by default."""
    if contexts is None:
        contexts = np.full(len(rewards), 1 / len(rewards))
    return FiniteWorld(rewards, candidates, contexts[None], np.ones(1))


def hidden_best(num_actions: int, gap: float) -> FiniteWorld:
    """Returns one context where the last action earns `gap` more than all others, and F knows all but which.

    Raises:
      ValueError: If rewards would leave [0, 1].
    """
    rows = MIDDLE + gap * np.eye(num_actions)
    return one_client(rows[-1:], rows[None])


def costly_exploration(num_actions: int, gap: float) -> FiniteWorld:
    """Returns `hidden_best` as half of all contexts; in the other half the first action earns 1 and others 0, as known.

    Exploring costs 1 - 1 / actions in that half, however small the gap in the other.
    """
    hidden = hidden_best(num_actions, gap)
    known = np.tile(np.eye(num_actions)[0], (num_actions, 1))
    rewards = np.stack([hidden.rewards[0], known[0]])
    return one_client(rewards, np.stack([hidden.candidates[0], known]))


def spread_gaps(num_contexts: int, num_actions: int, largest: float) -> FiniteWorld:
    """Returns equally frequent contexts whose gaps are spread evenly from `largest` / contexts to `largest`.

    One action is better than the others in each context, the last; F knows the gap, but not which action it is.
    """
    gaps = largest * np.arange(1, num_contexts + 1) / num_contexts
    candidates = MIDDLE + gaps[:, None, None] * np.eye(num_actions)
    return one_client(candidates[:, -1], candidates)


def split(world: FiniteWorld, num_clients: int, heterogeneity: float) -> FiniteWorld:
    """Returns the same world with its contexts spread over clients; together they see them as often as before.

    Contexts are dealt out in turn. A client's context is one of its own with probability `heterogeneity`, as often as
    they come, and else any: 0 makes all clients alike, 1 gives them disjoint supports.

    Args:
      world: The world.
      num_clients: Clients, at most as many as contexts.
      heterogeneity: In [0, 1].

    Raises:
      ValueError: If there are too many clients or heterogeneity lies outside.
    """
    contexts = world.contexts
    if not 1 <= num_clients <= len(contexts):
        raise ValueError(f"num_clients must lie in [1, {len(contexts)}], got {num_clients}")
    if not 0 <= heterogeneity <= 1:
        raise ValueError(f"heterogeneity must lie in [0, 1], got {heterogeneity}")
    own = contexts * (np.arange(len(contexts)) % num_clients == np.arange(num_clients)[:, None])
    weights = own.sum(axis=1)
    mixed = (1 - heterogeneity) * contexts + heterogeneity * own / weights[:, None]
    return dataclasses.replace(world, client_contexts=mixed, client_weights=weights)


@dataclasses.dataclass(frozen=True, eq=False)
class LinearWorld:
    """Contexts uniform in the cube [-1, 1]^d, and rewards linear in them; F is all linear functions.

    No gap is excluded, and small ones are no more frequent than others: the density of gaps at 0 is bounded. Each of
    the clients has its own slice of the cube, along the first coordinate.

    Attributes:
      coefficients: float64 [1 + d, actions] of (1, context); f* must stay in [0, 1].
      num_clients: Clients, equally frequent.
      heterogeneity: Probability of a context from the client's own slice; else it is from the whole cube. At 1,
        supports are disjoint. All clients together always see the whole cube alike.

    Raises:
      ValueError: If f* leaves [0, 1] in the cube, or heterogeneity does.
    """

    coefficients: np.ndarray
    num_clients: int = 1
    heterogeneity: float = 0.0

    def __post_init__(self):
        spread = np.abs(self.coefficients[1:]).sum(axis=0)
        if (self.coefficients[0] - spread < -1e-12).any() or (self.coefficients[0] + spread > 1 + 1e-12).any():
            raise ValueError("coefficients let rewards leave [0, 1]")
        if not 0 <= self.heterogeneity <= 1:
            raise ValueError(f"heterogeneity must lie in [0, 1], got {self.heterogeneity}")

    @property
    def num_actions(self) -> int:
        """K."""
        return self.coefficients.shape[1]

    def features(self, clients: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Returns float64 [..., 1 + d], a 1 and a context of each of these clients, int [...] below `num_clients`."""
        dimension = len(self.coefficients) - 1
        contexts = generator.uniform(-1, 1, (*clients.shape, dimension))
        own = generator.random(clients.shape) < self.heterogeneity
        sliced = -1 + (2 * clients + contexts[..., 0] + 1) / self.num_clients
        contexts[..., 0] = np.where(own, sliced, contexts[..., 0])
        return np.concatenate([np.ones((*clients.shape, 1)), contexts], axis=-1)

    def rewards(self, features: np.ndarray, actions: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Returns drawn rewards, float64 [...] 0 or 1, of float64 [..., 1 + d] features and int [...] actions."""
        expected = np.take_along_axis(features @ self.coefficients, actions[..., None], axis=-1)[..., 0]
        return (generator.random(expected.shape) < expected).astype(float)

    def greedy_regret(self, features: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Returns the mean regret of the greedy policy of fitted coefficients, float64 [runs].

        Args:
          features: float64 [runs, contexts, 1 + d], or [contexts, 1 + d] for the same contexts in all runs.
          coefficients: float64 [runs, 1 + d, actions].
        """
        chosen = (features @ coefficients).argmax(axis=2)[..., None]
        true = np.broadcast_to(features @ self.coefficients, (*chosen.shape[:2], self.num_actions))
        return (true.max(axis=2) - np.take_along_axis(true, chosen, axis=2)[..., 0]).mean(axis=1)


def fan(num_actions: int) -> LinearWorld:
    """Returns a linear world in the plane: each action pays most in a direction of its own, all evenly apart."""
    angles = 2 * np.pi * np.arange(num_actions) / num_actions
    steepness = 0.35  # So that f* stays in [0, 1] in the corners, too.
    return LinearWorld(np.stack([np.full(num_actions, MIDDLE), steepness * np.cos(angles), steepness * np.sin(angles)]))
