"""What all views have in common: unknown fields and unknown words survive."""

from enum import StrEnum
from typing import Self

from pydantic import BaseModel, ConfigDict


class View(BaseModel):
    """An object of the API as it was when it was read.

    Fields that a newer daemon adds are kept, as attributes and in `model_extra`.
    """

    model_config = ConfigDict(extra="allow", frozen=True)


class OpenEnum(StrEnum):
    """Words that a newer daemon may add to. An unknown word is a value too, not an error."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        member = str.__new__(cls, value)
        member._name_ = value
        member._value_ = value
        return member

    @property
    def is_known(self) -> bool:
        """Whether this release of the SDK knows the word."""
        return self in type(self).__members__.values()
