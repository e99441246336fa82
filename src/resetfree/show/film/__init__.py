"""Films of runs: the first rollout, resets and the last rollout, as GIF or MP4.

`film_plan` chooses the moments, `pictures_of_runs` makes their pictures (from a map, by playing the record again, or
from what was kept by `kept_pictures` while the run was played), and `film_files` writes them within fixed bounds.
"""
