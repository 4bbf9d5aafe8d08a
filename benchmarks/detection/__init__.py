"""Detection benchmark: dialogues, gold facts, recorded answers, a scorer and a runner."""
