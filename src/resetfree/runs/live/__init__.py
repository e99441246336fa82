"""Runs in real time (`rate=`): one process acts at a fixed rate and records, another learns and sends its plans.

acting             read first: the process that acts; it plays each episode with the newest plan that is ready
threads            what runs beside it: reading plans ahead, committing rounds, calling callbacks
learner            the process that learns: follows the run file and makes plans
supervisor         starts the learner, and starts it again if it dies
board              the shared memory between them; assignment: what the learner is given at its start
learner_location, ray_process, remote_learner   a learner on another machine, through Ray

docs/real_time.md describes what is guaranteed.
"""
