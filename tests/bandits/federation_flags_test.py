"""Tests of bandits.federation_flags."""

import pytest

from bandits import federation_flags
from data.errors import UsageError
from tests.bandits.whole_runs import options_of


def test_the_server_does_not_clip_its_update_on_pooled_logs():
    federated, pooled = (options_of(f"--federation={name}").aggregation for name in ("federated", "pooled"))
    assert (federated.clip_norm, federated.unclip_quantile) == (0.1, 0.8)
    assert (pooled.clip_norm, pooled.unclip_quantile) == (None, None)


def test_clients_are_adapted_only_with_a_personalization():
    assert options_of().personalization is None
    tuned = options_of("--personalization=fine_tune", "--client_learning_rate=0.3").personalization
    assert (tuned.kind, tuned.epochs, tuned.learning_rate, tuned.layers) == ("fine_tune", 1, 0.3, "all")


def test_clients_alone_are_warned_of_few_participations_and_limited_in_number():
    options = options_of("--federation=alone", "--total_rounds=10", "--clients_per_round=20")
    (warning,) = federation_flags.warnings(options, 200)
    assert "a client participates 1 times on average" in warning
    assert federation_flags.warnings(options, 100) == []
    many = options_of("--federation=alone", "--total_rounds=100", "--clients_per_round=20")
    with pytest.raises(UsageError, match="store up to 1,500 clients' models on disk, but the maximum is 1,000"):
        federation_flags.warnings(many, 1500)
