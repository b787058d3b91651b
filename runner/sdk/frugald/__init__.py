"""The small package that a training script may import: `checkpoint`, `progress` and `notice`.

It needs the standard library only, and torch where checkpoints are used; without frugald around it works the same, with
checkpoints in `./checkpoints`.
"""

from frugald.job import Notice, notice, progress

__all__ = ["Notice", "notice", "progress"]
