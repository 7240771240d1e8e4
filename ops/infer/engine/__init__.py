"""One run in this process: the job, its chain of stages, and the work of each stage."""
