"""Images as bytes, with Pillow: of 8 bits a channel, resized and cut to a network's input."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

MAX_SIDE = 1 << 14  # of an image after resizing


def image_pixels(path: str | Path, resize: int, size: Sequence[int]) -> np.ndarray:
    """An image file as (C, H, W) uint8: shorter side to `resize`, then the centre."""
    try:
        from PIL import Image
    except ModuleNotFoundError as missing:
        raise ValueError("image files are read with Pillow: pip install pillow") from missing
    try:
        with Image.open(path) as file:
            image = file.copy()
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as wrong:
        raise ValueError(f"{path} is not a readable image ({wrong})") from None
    return fitted(image, resize, size, str(path))


def fitted(image: Any, resize: int, size: Sequence[int], name: str) -> np.ndarray:
    """A Pillow image as (C, H, W) uint8: shorter side to `resize`, then the centre."""
    from PIL import Image

    channels, height, width = size
    image = _eight_bits(image, "RGB" if channels == 3 else "L", name)
    short = min(image.size)
    wide, high = (resize * side // short for side in image.size)
    if max(wide, high) > MAX_SIDE:
        raise ValueError(f"{name} has {image.size[0]} x {image.size[1]} pixels: too long to be resized; cut it")
    left, top = round((wide - width) / 2), round((high - height) / 2)
    if image.size != (wide, high):
        image = image.resize((wide, high), Image.Resampling.BILINEAR)
    pixels = np.asarray(image.crop((left, top, left + width, top + height)))
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


def _eight_bits(image: Any, mode: str, name: str) -> Any:
    """An image in a mode of 8 bits a channel; what that would distort is refused."""
    from PIL import Image

    if image.has_transparency_data:
        image = image if image.mode.startswith("I") else image.convert("RGBA")
        if image.mode != "RGBA" or image.getchannel("A").getextrema()[0] < 255:
            raise ValueError(f"{name} is transparent in places: save it on a background, without an alpha channel")
    if image.mode in ("I", "F"):
        raise ValueError(f"{name} has pixels of 32 bits, whose range is unknown: save it with 8 or 16 bits a channel")
    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))  # as Pillow reads 16 bits of each colour
    return image.convert(mode)
