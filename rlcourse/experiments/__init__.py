"""Trainings that mean something: run folders, sweeps, statistics, the command line. Start reading at `storage`."""
