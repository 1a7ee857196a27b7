"""Where the answers are known: tabular worlds, probes, and Gymnasium environments in batches."""
