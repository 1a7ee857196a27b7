"""What is wrong with an agent that does not learn: questions with known answers, and suspects. Start reading at `diagnose`."""
