"""What the machine's firmware says about who built it, which tells the clouds apart without asking a network."""

from dataclasses import dataclass
from pathlib import Path

_FOLDER = Path("/sys/class/dmi/id")  # the kernel's copy of the SMBIOS (DMI) tables; Linux only
_LONGEST = 256  # an SMBIOS string is far shorter


@dataclass(frozen=True, slots=True)
class Firmware:
    """The manufacturer and product of the machine, and the asset tag of its chassis; empty where it does not say."""

    vendor: str = ""
    product: str = ""
    asset_tag: str = ""


def read_firmware(folder: Path = _FOLDER) -> Firmware:
    """This machine's; what is missing or may not be read is empty."""
    return Firmware(
        vendor=_text(folder / "sys_vendor"),
        product=_text(folder / "product_name"),
        asset_tag=_text(folder / "chassis_asset_tag"),
    )


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(_LONGEST).decode(errors="replace").strip()
    except OSError:
        return ""
