"""Metrics of MAB-FL. All AUCs are those of the target participant."""

from optimization.study import metrics
from optimization.study.metrics import Metric, declared

ACTION = Metric("bandits/action", "Row of combinations.csv whose average became the global model")
ESTIMATED_BEST = Metric(
    "bandits/estimated_best",
    "Row of combinations.csv with the highest estimated reward; the number of rows if there is a tie; empty if there "
    "is only one combination",
)
CORRUPTED = Metric(
    "bandits/corrupted",
    "1 if --corrupted_participant is in the combination that became the global model, else 0",
    better="down",
    share=True,
)
TRIED = Metric("bandits/tried", "Combinations that were averaged and measured")
LOCAL_AUC = Metric("eval/local_auc", "Validation AUC of the target's own model after training", better="up")
GLOBAL_AUC = Metric("eval/global_auc", "Validation AUC of the global model after averaging", better="up")
OVER_TARGET = Metric("eval/increase_over_target", "The global model's AUC minus the target's own", better="up")
OVER_PREVIOUS = Metric(
    "eval/increase_over_previous", "The global model's AUC minus that of the previous round", better="up"
)
THRESHOLD = Metric("bandits/threshold", "Increase above which the reward was 1")
REWARD = Metric("bandits/reward", "Reward of the action", better="up")
BEST_AUC = Metric("eval/best_auc", "Validation AUC, best global model so far", better="up", in_summary=True, share=True)
NONFINITE = Metric("train/nonfinite_participants", "Participants whose training diverged", diverged=True)
COMMUNICATIONS = Metric("communication/exchanges", "Exchanges between server and participants so far", better="down")
BYTES_DOWN = metrics.BYTES_DOWN
BYTES_UP = metrics.BYTES_UP
TEST_AUC = Metric("eval/test_auc", "Test AUC, global model", better="up", evaluated=True, in_summary=True, share=True)
BEST_TEST_AUC = Metric(
    "eval/best_test_auc",
    "Test AUC of the global model with the highest validation AUC so far",
    better="up",
    evaluated=True,
    share=True,
)

COLUMNS = declared(vars())
