from optimization.runtime import rounds
from tests.optimization.runtime import toy_process


def test_a_fused_round_computes_what_the_round_does_with_its_types(tff_worker):
    process = toy_process.build()
    fused = rounds.fused(process)
    state, metrics = fused.next(state=fused.initialize(), clients=[1, 2, 6])
    assert (state["b"], metrics) == (3 + 18, toy_process.Metrics(18, toy_process.Owner.Parts(18)))
    assert isinstance(metrics, toy_process.Metrics)
    assert fused.next(state, [0])[0]["b"] == 42
    assert fused.next.type_signature.is_identical_to(process.next.type_signature)
