"""Metrics of MAB-FL; AUCs are the target's."""

from optimization.study.metrics import Metric, declared

TUNING = -1

ACTION = Metric("action", f"Row of combinations.csv that became the global model; {TUNING} in the target's own rounds")
TRIED = Metric("tried", "Combinations that were averaged and measured")
LOCAL_AUC = Metric("local_auc", "Validation, the target's own model after training", better="up")
GLOBAL_AUC = Metric("global_auc", "Validation, the global model after averaging", better="up")
OVER_TARGET = Metric("increase_over_target", "The global model's AUC minus the target's own", better="up")
OVER_PREVIOUS = Metric("increase_over_previous", "The global model's AUC minus that of the round before", better="up")
REWARD = Metric("reward", "Reward of the action", better="up")
BEST_AUC = Metric("best_auc", "Validation, the best global model so far", better="up", told=True)
NONFINITE = Metric("nonfinite_workers", "Participants whose training diverged")
COMMUNICATIONS = Metric("communications", "Exchanges between server and participants so far", better="down")
TEST_AUC = Metric("test_auc", "Test, the global model", better="up", evaluated=True, told=True)

COLUMNS = declared(vars())
