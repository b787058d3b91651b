"""Jobs that cost no processor, put together in a folder as a user would have them."""

import shutil
from collections.abc import Mapping
from pathlib import Path

JOBS = Path(__file__).parent / "jobs"
TRAIN = JOBS / "train.py"


def light_job(folder: Path, name: str, changes: Mapping[str, str] | None = None) -> Path:
    """Make a folder with the job `name` (steady or greedy), some texts of its file changed, and return it."""
    folder.mkdir(parents=True)
    shutil.copyfile(TRAIN, folder / "train.py")
    text = (JOBS / f"{name}.yaml").read_text()
    for old, new in (changes or {}).items():
        text = text.replace(old, new)
    (folder / "job.yaml").write_text(text)
    return folder
