"""Names of the columns of MAB-FL's `metrics.csv`; AUCs are the target's."""

ACTION = "action"  # Row of `combinations.csv` that became the global model; TUNING in the target's own rounds.
TRIED = "tried"  # Combinations that were averaged and measured.
LOCAL_AUC = "local_auc"  # Validation, the target's own model after training.
GLOBAL_AUC = "global_auc"  # Validation, the global model after averaging.
OVER_TARGET = "increase_over_target"  # The latter minus the former.
OVER_PREVIOUS = "increase_over_previous"  # The global model minus that of the round before.
REWARD = "reward"  # Of the action.
BEST_AUC = "best_auc"  # Validation, the best global model so far.
NONFINITE = "nonfinite_workers"  # Participants whose training diverged.
COMMUNICATIONS = "communications"  # Exchanges between server and participants so far.
TEST_AUC = "test_auc"  # The global model.

TUNING = -1

COLUMNS = (
    ACTION,
    TRIED,
    LOCAL_AUC,
    GLOBAL_AUC,
    OVER_TARGET,
    OVER_PREVIOUS,
    REWARD,
    BEST_AUC,
    NONFINITE,
    COMMUNICATIONS,
    TEST_AUC,
)
