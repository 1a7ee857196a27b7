"""Who learns: stacked runs, policies, rollouts, algorithms and the training loop."""
