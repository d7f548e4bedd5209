"""What is to be looked at again on each platform before an app ships there (R208, R213), and what was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class RecheckItem:
    """One line of the list; `kind` is `device` for a test that runs on the device, `integration` for a reading."""

    id: str
    kind: Literal["device", "integration"]
    what: str


RECHECK = (
    RecheckItem("model_interface", "integration",
                "What the runtime takes (ids, text, messages), what it reports, where it cuts, and what it adds."),
    RecheckItem("type_constraints", "integration",
                "Widths and signs of ids, sequences and counts where they cross into the app's language."),
    RecheckItem("storage_transactions", "integration",
                "One transaction per write, survival of a kill, and who else writes the file."),
    RecheckItem("retention_rules", "integration",
                "How long conversations may be kept, what a deletion must reach, and backups."),
    RecheckItem("on_device_tokenizer", "device", "The device's tokenizer gives the ids of the plan."),
    RecheckItem("template_wrapping", "device", "The runtime puts nothing around the prompt that is not declared."),
    RecheckItem("process_rebuild", "device", "After the system killed the app: the same generation, the same plan."),
    RecheckItem("rotation", "device", "A rotation begins no generation and calls the model no second time."),
    RecheckItem("background_restore", "device", "An answer that comes back after a restore meets its generation."),
    RecheckItem("offline_model_switch", "device", "The other bundle of the device counts anew; nothing is carried."),
)  # fmt: skip
"""The list; docs/integration.md holds the same lines, which a test compares."""


@dataclass(frozen=True, slots=True)
class PlatformCheck:
    """One platform: which items were looked at there, by ids of `RECHECK`.

    platform       as the app names it: system and version, ABI, vendor.
    documentation  the exact version of the platform's documentation that was followed; behaviour of another version
                   is not known (R213).
    """

    platform: str
    documentation: str
    checked: tuple[str, ...] = ()

    @property
    def unchecked(self) -> tuple[str, ...]:
        """Items of the list that nobody says were looked at."""
        return tuple(item.id for item in RECHECK if item.id not in self.checked)
