"""Images as 8-bit arrays, read with Pillow, resized and cropped to a network's input size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

MAX_SIDE = 1 << 14  # of an image after resizing


def image_pixels(path: str | Path, resize: int, size: Sequence[int]) -> np.ndarray:
    """Return an image file as (C, H, W) uint8, its shorter side resized to `resize` and its centre cropped."""
    try:
        from PIL import Image
    except ModuleNotFoundError as missing:
        raise ValueError("reading image files requires Pillow: pip install pillow") from missing
    try:
        with Image.open(path) as file:
            image = file.copy()
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ValueError(f"{path} is not a readable image ({error})") from None
    return fitted(image, resize, size, str(path))


def fitted(image: Any, resize: int, size: Sequence[int], name: str) -> np.ndarray:
    """Return a Pillow image as (C, H, W) uint8, its shorter side resized to `resize` and its centre cropped."""
    from PIL import Image

    channels, height, width = size
    image = _eight_bits(image, "RGB" if channels == 3 else "L", name)
    short = min(image.size)
    wide, high = (resize * side // short for side in image.size)
    if max(wide, high) > MAX_SIDE:
        raise ValueError(f"{name} has {image.size[0]} x {image.size[1]} pixels: too elongated to be resized; crop it")
    left, top = round((wide - width) / 2), round((high - height) / 2)
    if image.size != (wide, high):
        image = image.resize((wide, high), Image.Resampling.BILINEAR)
    pixels = np.asarray(image.crop((left, top, left + width, top + height)))
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


def _eight_bits(image: Any, mode: str, name: str) -> Any:
    """Convert an image to 8 bits per channel; raise a ValueError if that would distort it."""
    from PIL import Image

    if image.has_transparency_data:
        image = image if image.mode.startswith("I") else image.convert("RGBA")
        if image.mode != "RGBA" or image.getchannel("A").getextrema()[0] < 255:
            raise ValueError(f"{name} is partly transparent: save it on a background, without an alpha channel")
    if image.mode in ("I", "F"):
        raise ValueError(f"{name} has 32-bit pixels, whose range is unknown: save it with 8 or 16 bits per channel")
    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))  # as Pillow converts 16-bit colour channels
    return image.convert(mode)
