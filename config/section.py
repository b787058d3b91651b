"""One table of the settings file."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """One table of the settings file: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
